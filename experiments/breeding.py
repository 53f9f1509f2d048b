"""Wheat lines in environments without covariates, and hybrids of maize with three sides, as a breeder would ask.

    python experiments/breeding.py [cv1 cv2 wheat corn] [--models gblup,three,…] [--data FOLDER]

- `cv1`: new lines of wheat (599 lines, 4 environments; Crossa and others, Genetics 2010), in the ten
  folds of lines of the literature.
- `cv2`: sparse testing. A fifth of the labels is hidden at a time; the other environments of the
  same lines are known.
- `wheat`: variances of pedigree, markers and noise in each environment, all lines.
- `corn`: 100 hybrids of 20 × 20 parents in three locations (the R package sommer), with variances,
  exact hold-out in all settings, and a list of the best crosses.

The score of wheat is the correlation of predictions and phenotypes of each environment in each fold,
averaged over the folds. All models choose their variances or regularisation from the labels of
training. Markers are 0 or 1 for the two homozygotes, so that the counts of the allele are 0 or 2.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "2")  # must be set before numpy is imported

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import scipy  # noqa: E402
from drug_target import DATA  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import (  # noqa: E402
    KroneckerRidgeCV,
    LearnedKernelRidge,
    MultiwayRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.exceptions import GridEdgeWarning  # noqa: E402
from dyadlearn.kernels import gram, normalize  # noqa: E402

PARTS = ("cv1", "cv2", "wheat", "corn")
N_FOLDS = 5
#: Location of the corn whose labels are those of location 1 again.
COPY = "2"
KERNELS_OF_LINES = {"markers": "vanraden", "gaussian": "rbf", "pedigree": "precomputed"}


@dataclass(frozen=True)
class Wheat:
    """Yields of lines in environments, and descriptions of the lines.

    Attributes
    ----------
    yields : array of shape (m, q)
        NaN where the model must not know it.
    alleles : array of shape (m, d)
        Counts 0 and 2 of an allele.
    kernels : dict of str to array of shape (m, m)
        Relationships by pedigree and markers, and the Gaussian kernel of the markers.
    folds : integer array of shape (m,)
        Published fold of each line.
    """

    yields: np.ndarray
    alleles: np.ndarray
    kernels: dict[str, np.ndarray]
    folds: np.ndarray

    def without(self, hidden: np.ndarray) -> Wheat:
        """Return the wheat without some labels, boolean (m, q)."""
        return replace(self, yields=np.where(hidden, np.nan, self.yields))

    def descriptions(self, lines: np.ndarray, known: np.ndarray) -> dict[str, np.ndarray]:
        """Return the descriptions of some lines, for a model that learns kernels from known lines."""
        pedigree = np.asarray(normalize(self.kernels["pedigree"]))[np.ix_(lines, known)]
        alleles = self.alleles[lines]
        return {"markers": alleles, "gaussian": alleles, "pedigree": pedigree}


def load_wheat(folder: Path) -> Wheat:
    """Return the wheat of a folder."""
    with np.load(folder / "wheat.npz") as file:
        arrays = {name: file[name] for name in file.files}
    alleles = 2.0 * arrays["markers"]
    squares = np.sum(alleles**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2.0 * alleles @ alleles.T
    kernels = {
        "pedigree": arrays["A"].astype(float),
        "markers": np.asarray(gram(alleles, kernel="vanraden")),
        "gaussian": np.exp(-distances / np.median(distances[distances > 0.0])),
    }
    return Wheat(arrays["Y"], alleles, kernels, arrays["folds"])


def load_corn(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of the corn of a folder, without the copied location, and the relationship of the parents."""
    with np.load(folder / "corn.npz") as file:
        arrays = {name: file[name] for name in file.files}
    columns = ("gca1", "gca2", "location", "yield")
    table = pd.DataFrame({name: arrays[name] for name in columns})
    table = table[table["location"] != COPY].reset_index(drop=True)
    parents = arrays["parents"]
    return table, pd.DataFrame(arrays["relationship"].astype(float), parents, parents)


# --- models of wheat ----------------------------------------------------------------------------
#
# Each takes the wheat with the yields of training, NaN elsewhere, and returns the predictions (m, q).


def mixed(wheat: Wheat, names: tuple[str, ...]) -> np.ndarray:
    """Predict each environment by a mixed model of its own, with a variance for each kernel by REML."""
    kernels = {name: wheat.kernels[name] for name in names}
    precomputed = dict.fromkeys(names, "precomputed")
    lines = np.arange(len(wheat.yields))
    columns = []
    for y in wheat.yields.T:
        model = MultiwayRidge(list(names), entities=kernels, kernels=precomputed)
        # Each kernel is a side, and the line is its level.
        model.fit(dict.fromkeys(names, lines[~np.isnan(y)]), y[~np.isnan(y)])
        columns.append(model.predict(dict.fromkeys(names, lines)))
    return np.stack(columns, axis=1)


def gblup(wheat: Wheat) -> np.ndarray:
    """Predict by GBLUP of each environment alone."""
    return mixed(wheat, ("markers",))


def three(wheat: Wheat) -> np.ndarray:
    """Predict by pedigree, markers and their Gaussian kernel, each environment alone."""
    return mixed(wheat, ("pedigree", "markers", "gaussian"))


def across(wheat: Wheat) -> np.ndarray:
    """Predict all environments by one GBLUP: an effect of the line, and one of the line in its environment."""
    shape = wheat.yields.shape
    lines, environments = (place.ravel() for place in np.indices(shape))
    y = wheat.yields.ravel()
    known = ~np.isnan(y)
    model = MultiwayRidge(
        "line + line:environment + environment",
        entities={"line": wheat.kernels["markers"]},
        kernels={"line": "precomputed"},
    )
    model.fit({"line": lines[known], "environment": environments[known]}, y[known])
    return model.predict({"line": lines, "environment": environments}).reshape(shape)


def correlated(wheat: Wheat) -> np.ndarray:
    """Predict all environments by the three kernels of lines, times the correlations of the yields of training."""
    shape = wheat.yields.shape
    lines, environments = (place.ravel() for place in np.indices(shape))
    y = wheat.yields.ravel()
    known = ~np.isnan(y)
    of_yields = pd.DataFrame(wheat.yields).corr().to_numpy()
    entities = {**wheat.kernels, "environment": of_yields}
    model = MultiwayRidge(
        [*(f"{name}:environment" for name in wheat.kernels), "site"],
        entities=entities,
        kernels=dict.fromkeys(entities, "precomputed"),
    )
    # The site is the environment without a kernel.
    table = {**dict.fromkeys(wheat.kernels, lines), "environment": environments}
    table["site"] = environments
    model.fit({name: column[known] for name, column in table.items()}, y[known])
    return model.predict(table).reshape(shape)


def _predicted(wheat: Wheat, search: KroneckerRidgeCV | TwoStepRidgeCV) -> np.ndarray:
    """Predict by a search with the markers and an identity for the environments."""
    known = ~np.isnan(wheat.yields).all(axis=1)
    kernel = wheat.kernels["markers"]
    environments = np.eye(wheat.yields.shape[1])
    search.fit(kernel[np.ix_(known, known)], wheat.yields[known], tasks=environments)
    return np.asarray(search.predict(kernel[:, known]))


def two_step(wheat: Wheat) -> np.ndarray:
    """Predict new lines by two-step ridge regression."""
    return _predicted(wheat, TwoStepRidgeCV(setting="B", kernel="precomputed"))


def kronecker(wheat: Wheat) -> np.ndarray:
    """Predict by one regression over all plots, with main effects; for new lines if there are any."""
    is_new = np.isnan(wheat.yields).all(axis=1).any()
    alphas = np.logspace(-3, 3, 13)
    setting = "B" if is_new else "A"
    search = KroneckerRidgeCV(alphas, setting=setting, kernel="precomputed", progress=False)
    return _predicted(wheat, search)


def learned(wheat: Wheat, stages: int = 1) -> np.ndarray:
    """Predict by learned kernels of pedigree and markers; for new lines if there are any."""
    known = np.flatnonzero(~np.isnan(wheat.yields).all(axis=1))
    lines = np.arange(len(wheat.yields))
    is_new = known.size < lines.size
    setting = "B" if is_new else "A"
    options = {"setting": setting, "stages": stages, "progress": False, "random_state": 0}
    model = LearnedKernelRidge(kernel=KERNELS_OF_LINES, task_kernel="linear", **options)
    environments = np.eye(wheat.yields.shape[1])
    model.fit(wheat.descriptions(known, known), wheat.yields[known], tasks=environments)
    if is_new:
        return np.asarray(model.predict(wheat.descriptions(lines, known)))
    return np.asarray(model.predict())


def staged(wheat: Wheat) -> np.ndarray:
    """Predict by learned kernels in stages: the yields of the first stage describe lines and environments."""
    return learned(wheat, stages=3)


MODELS: dict[str, Callable[[Wheat], np.ndarray]] = {
    "gblup": gblup,
    "three": three,
    "across": across,
    "correlated": correlated,
    "two-step": two_step,
    "kronecker": kronecker,
    "learned": learned,
    "staged": staged,
}
#: Models of each part; two-step ridge has no exact hold-out for a choice on incomplete labels.
USUAL = {
    "cv1": ("gblup", "three", "two-step", "kronecker", "learned"),
    "cv2": ("gblup", "three", "across", "correlated", "kronecker", "learned", "staged"),
}


# --- scores -------------------------------------------------------------------------------------


def hidden_sets(wheat: Wheat, part: str) -> list[np.ndarray]:
    """Return the labels that each fold hides, boolean (m, q)."""
    shape = wheat.yields.shape
    if part == "cv1":
        folds = np.broadcast_to(wheat.folds[:, None], shape)
    else:
        folds = np.random.default_rng(0).integers(0, N_FOLDS, shape)
    return [folds == fold for fold in np.unique(folds)]


def correlations(wheat: Wheat, model: Callable[[Wheat], np.ndarray], part: str) -> np.ndarray:
    """Return the correlation of each environment, averaged over the folds."""
    scores = []
    for hidden in hidden_sets(wheat, part):
        predictions = model(wheat.without(hidden))
        pairs = zip(predictions.T, wheat.yields.T, hidden.T, strict=True)
        scores.append([np.corrcoef(p[at], y[at])[0, 1] for p, y, at in pairs])
    return np.mean(scores, axis=0)


def show_scores(wheat: Wheat, part: str, names: tuple[str, ...]) -> None:
    """Print a line for each model."""
    for name in names:
        start = time.perf_counter()
        scores = correlations(wheat, MODELS[name], part)
        columns = "  ".join(f"{score:.3f}" for score in scores)
        seconds = time.perf_counter() - start
        print(f"{part} {name:10s} {columns}  mean {scores.mean():.3f}  {seconds:.0f} s", flush=True)


# --- variances, hold-out and lists --------------------------------------------------------------


def variance_table(model: MultiwayRidge) -> pd.DataFrame:
    """Return the variances with standard errors."""
    columns = {"variance": model.variances_, "standard error": model.standard_errors_}
    return pd.DataFrame(columns)


def show_wheat(wheat: Wheat) -> None:
    """Print the variances of pedigree and markers in each environment."""
    names = ("pedigree", "markers")
    kernels = {name: wheat.kernels[name] for name in names}
    lines = dict.fromkeys(names, np.arange(len(wheat.yields)))
    for environment, y in enumerate(wheat.yields.T, start=1):
        precomputed = dict.fromkeys(names, "precomputed")
        model = MultiwayRidge(list(names), entities=kernels, kernels=precomputed).fit(lines, y)
        print(f"environment {environment}, heritability {model.heritability(*names):.2f}")
        print(variance_table(model).round(3).to_string())


def corn_model(table: pd.DataFrame, parents: pd.DataFrame) -> MultiwayRidge:
    """Return the model of the corn, with combining abilities and their interactions with locations."""
    sides = ("gca1", "gca2")
    model = MultiwayRidge(
        "gca1*gca2 + location + gca1:location + gca2:location",
        entities=dict.fromkeys(sides, parents),
        kernels=dict.fromkeys(sides, "precomputed"),
    )
    return model.fit(table, table["yield"])


def selection_list(model: MultiwayRidge, table: pd.DataFrame) -> pd.DataFrame:
    """Return all crosses, the best first: mean of the predictions in all locations, and whether they were grown."""
    sides = ["gca1", "gca2", "location"]
    crosses = pd.MultiIndex.from_product([table[side].unique() for side in sides], names=sides)
    cells = crosses.to_frame(index=False)
    cells["prediction"], cells["std"] = model.predict(cells[sides], return_std=True)
    listed = cells.groupby(sides[:2])[["prediction", "std"]].mean()
    grown = pd.MultiIndex.from_frame(table[sides[:2]].drop_duplicates())
    listed["grown"] = listed.index.isin(grown)
    return listed.sort_values("prediction", ascending=False).reset_index()


def show_corn(table: pd.DataFrame, parents: pd.DataFrame) -> None:
    """Print variances, held-out scores and the best crosses."""
    model = corn_model(table, parents)
    print(variance_table(model).round(1).to_string())
    print(f"heritability of a plot: {model.heritability('gca1', 'gca2', 'gca1:gca2'):.2f}")
    both = ("gca1", "gca2")
    settings = [(), "gca1", "gca2", both, "location", (*both, "location")]
    print(evaluate(model, new=settings, scoring="r2"))
    listed = selection_list(model, table)
    for is_grown in (True, False):
        best = listed[listed["grown"] == is_grown].head(3)
        print(best.round(1).to_string(index=False))


def main() -> None:
    """Print the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[], metavar="PART")
    parser.add_argument("--models", help="names with commas, for cv1 and cv2")
    parser.add_argument("--data", type=Path, default=DATA / "breeding", help="folder")
    given = parser.parse_args()
    print(f"dyadlearn {dyadlearn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}")
    parts = given.parts or PARTS
    warnings.simplefilter("ignore", GridEdgeWarning)
    if set(parts) - {"corn"}:
        wheat = load_wheat(given.data)
        for part in parts:
            if part in USUAL:
                names = tuple(given.models.split(",")) if given.models else USUAL[part]
                show_scores(wheat, part, names)
        if "wheat" in parts:
            show_wheat(wheat)
    if "corn" in parts:
        show_corn(*load_corn(given.data))


if __name__ == "__main__":
    main()
