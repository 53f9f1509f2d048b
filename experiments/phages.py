"""Which phages lyse a new strain of E. coli: 402 strains × 96 phages, with trees of both sides and serotypes.

    python experiments/phages.py [--settings BCD] [--models means,two-step,learned,per-phage] [--data FOLDER]

The lysis scores are those of Gaborieau and others (Nature Microbiology, 2024): 0 to 4, where a score
above 0 counts as lysis. No licence is stated, so the files are not part of this project.

- B, new strains: the ten published folds of strains, in which close relatives are together.
- C, new phages, and D, both new: five folds of phages and, in D, five of strains. Phages whose
  distance in the tree is below `RELATED` are in one fold.

Each model learns from the pairs of training alone, its regularisation and its kernels included.
`per-phage`, for B, fits many kernels and regularisations, and weighs them for each phage by their
held-out errors, because phages bind different receptors. The
scores are pooled over all held-out pairs: area under the ROC curve and average precision. In B, a
*cocktail* is the three phages with the highest predictions for a strain; its score is the share of
strains that at least one of them lyses, beside the three phages that lyse most strains of training.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "2")  # must be set before numpy is imported

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from drug_target import DATA  # noqa: E402
from scipy.sparse.csgraph import connected_components  # noqa: E402
from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import (  # noqa: E402
    IndependentTaskRidge,
    LearnedKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import GridEdgeWarning  # noqa: E402
from dyadlearn.kernels import brownian_kernel, read_newick, tree_distance_kernel  # noqa: E402

PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "progress": False}
MODELS = ("means", "two-step", "learned", "per-phage")
#: Regularisations of strains and of phages that `per-phage` weighs.
ALPHAS = (0.3, 1.0)
TASK_ALPHA = 0.05
#: Types of receptors that a strain may lack: strains without one are alike.
CAPSULES = ("ABC_serotype", "Klebs_capsule_type")
#: Distance in the tree below which two phages are in one fold.
RELATED = 0.1
N_FOLDS = 5
N_IN_COCKTAIL = 3

#: A model of which `per-phage` takes several.
RidgeEstimator = IndependentTaskRidge | TwoStepRidge
#: Kernels of a side by name, each between all strains or between all phages.
Kernels = dict[str, np.ndarray]


@dataclass(frozen=True)
class Data:
    """Lysis of strains by phages, and kernels of both sides.

    Attributes
    ----------
    lysis : array of shape (m, q)
        1 for lysis, 0 for none, NaN where it was not tested.
    strains, phages : dict of str to array
        Kernels between all strains and between all phages. No label enters them.
    same_types : dict of str to array
        As in `strains`, for the types alone, but strains without a capsule are of one type.
    strain_folds : array of shape (m,)
        Published fold of each strain.
    phage_groups : array of shape (q,)
        Close relatives have equal numbers.
    """

    lysis: np.ndarray
    strains: Kernels
    phages: Kernels
    same_types: Kernels
    strain_folds: np.ndarray
    phage_groups: np.ndarray


def load(folder: Path) -> Data:
    """Return the data of a folder; its README names the files."""
    scores = pd.read_csv(folder / "interactions.csv", index_col=0)
    strains = pd.read_csv(folder / "strains.csv", index_col=0).reindex(scores.index)
    folds = pd.read_csv(folder / "folds.csv", index_col=0)["fold"].reindex(scores.index)
    strain_kernels = tree_kernels((folder / "strains.nwk").read_text(), list(scores.index))
    same_types = {}
    for name in strains.columns:
        strain_kernels[name] = equal_types(strains[name])
        same_types[name] = strain_kernels[name]
    for name in CAPSULES:
        same_types[name] = equal_types(strains[name].fillna("none"))
    phage_tree = (folder / "phages.nwk").read_text()
    phage_kernels = tree_kernels(phage_tree, list(scores.columns))
    values = scores.to_numpy()
    lysis = np.where(np.isnan(values), np.nan, (values > 0).astype(float))
    groups = relatives(phage_tree, list(scores.columns))
    return Data(lysis, strain_kernels, phage_kernels, same_types, folds.to_numpy(), groups)


def tree_kernels(newick: str, tips: list[str]) -> Kernels:
    """Return kernels of a tree: correlations of Brownian motion, and two of the distance."""
    tree = read_newick(newick)
    covariance = np.asarray(brownian_kernel(tree, tips))
    deviations = np.sqrt(np.diag(covariance))
    typical = float(np.median(deviations**2))
    return {
        "tree": covariance / np.outer(deviations, deviations),
        "near relatives": np.asarray(tree_distance_kernel(tree, tips, scale=typical)),
        "nearest relatives": np.asarray(tree_distance_kernel(tree, tips, scale=typical / 5)),
    }


def equal_types(types: pd.Series) -> np.ndarray:
    """Return the kernel that is 1 for strains of the same type; strains without a type have their own."""
    known = types.to_numpy(dtype=object)
    codes, _ = pd.factorize(types)
    same = codes[:, None] == codes[None, :]
    same &= (codes >= 0)[:, None]
    return np.where(np.eye(len(known), dtype=bool), 1.0, same.astype(float))


def relatives(newick: str, tips: list[str]) -> np.ndarray:
    """Return a number for each phage; phages that close relatives connect have the same."""
    covariance = np.asarray(brownian_kernel(read_newick(newick), tips))
    depths = np.diag(covariance)
    distances = depths[:, None] + depths[None, :] - 2.0 * covariance
    _, groups = connected_components(distances < RELATED, directed=False)
    return groups


# --- models -------------------------------------------------------------------------------------


def part(kernels: Kernels, rows: np.ndarray, columns: np.ndarray) -> Kernels:
    """Return some rows and columns of each kernel."""
    return {name: kernel[np.ix_(rows, columns)] for name, kernel in kernels.items()}


def mean_of(kernels: Kernels) -> np.ndarray:
    """Return the mean of the tree kernel and of the mean of the other descriptions."""
    types = [kernel for name, kernel in kernels.items() if "tree" not in name and "rel" not in name]
    if not types:
        return kernels["tree"]
    return 0.5 * kernels["tree"] + 0.5 * np.mean(types, axis=0)


def means(data: Data, setting: str, kept: list[np.ndarray], new: list[np.ndarray]) -> np.ndarray:
    """Predict by the mean of the known side, and by the grand mean in D."""
    training = data.lysis[np.ix_(*kept)]
    axis = {"B": 0, "C": 1, "D": None}[setting]
    predictions = np.nanmean(training, axis=axis, keepdims=True)
    return np.broadcast_to(predictions, (len(new[0]), len(new[1])))


def two_step(data: Data, setting: str, kept: list[np.ndarray], new: list[np.ndarray]) -> np.ndarray:
    """Predict by two-step ridge regression with one kernel of each side."""
    sides = (mean_of(data.strains), mean_of(data.phages))
    known = [kernel[np.ix_(at, at)] for kernel, at in zip(sides, kept, strict=True)]
    asked = [kernel[np.ix_(to, at)] for kernel, at, to in zip(sides, kept, new, strict=True)]
    model = TwoStepRidgeCV(setting=setting, **PRECOMPUTED)
    model.fit(known[0], data.lysis[np.ix_(*kept)], tasks=known[1])
    return np.asarray(model.predict(*asked))


def learned(data: Data, setting: str, kept: list[np.ndarray], new: list[np.ndarray]) -> np.ndarray:
    """Predict by learned kernels."""
    sides = (data.strains, data.phages)
    known = [part(kernels, at, at) for kernels, at in zip(sides, kept, strict=True)]
    asked = [part(kernels, to, at) for kernels, at, to in zip(sides, kept, new, strict=True)]
    model = LearnedKernelRidge(setting=setting, random_state=0, **PRECOMPUTED)
    model.fit(known[0], data.lysis[np.ix_(*kept)], tasks=known[1])
    return np.asarray(model.predict(*asked))


def candidates(data: Data) -> Iterator[tuple[RidgeEstimator, np.ndarray, dict[str, np.ndarray]]]:
    """Yield models, the kernel of the strains, and what else their `fit` takes."""
    types = np.mean(list(data.same_types.values()), axis=0)
    tree = data.strains["tree"]
    mean = 0.5 * tree + 0.5 * types
    near = 0.5 * mean + 0.5 * data.strains["nearest relatives"]
    of_types = [0.5 * mean + 0.5 * kernel for kernel in data.same_types.values()]
    for kernel in (mean, tree, types, near, *of_types):
        for alpha in ALPHAS:
            yield IndependentTaskRidge(alpha, kernel="precomputed"), kernel, {}
            model = TwoStepRidge(
                alpha, task_alpha=TASK_ALPHA, kernel="precomputed", task_kernel="precomputed"
            )
            yield model, kernel, {"tasks": data.phages["tree"]}


def per_phage(
    data: Data, setting: str, kept: list[np.ndarray], new: list[np.ndarray]
) -> np.ndarray:
    """Predict by a mean of many models, with weights for each phage.

    The weight of a model is exp(−e/2s²): e is the sum of its squared errors for the phage, each for
    a strain whose fold was left out, and s² the smallest mean squared error of all models.
    """
    if setting != "B":
        raise ValueError(f"per-phage is for new strains (B), not for setting {setting}.")
    strains = kept[0]
    labels = data.lysis[strains]
    errors = []
    predictions = []
    for model, kernel, sides in candidates(data):
        model.fit(kernel[np.ix_(strains, strains)], labels, **sides)
        held_out = np.asarray(model.holdout("B", groups=data.strain_folds[strains]))
        errors.append(np.nansum((held_out - labels) ** 2, axis=0))
        predictions.append(model.predict(kernel[np.ix_(new[0], strains)]))
    sums = np.array(errors)
    best = sums.min(axis=0)
    # A phage that lyses no strain of training is predicted without an error.
    variance = np.maximum(best / np.count_nonzero(~np.isnan(labels), axis=0), 1e-12)
    weights = np.exp((best - sums) / (2.0 * variance))
    weights /= weights.sum(axis=0)
    return np.einsum("cj,cij->ij", weights, np.array(predictions))


PREDICTORS = {"means": means, "two-step": two_step, "learned": learned, "per-phage": per_phage}


# --- folds and scores ---------------------------------------------------------------------------


def folds_of(groups: np.ndarray, n_folds: int) -> np.ndarray:
    """Return a fold for each row: groups in order of size, each to the smallest fold."""
    sizes = np.bincount(groups)
    folds = np.zeros(len(sizes), dtype=int)
    totals = np.zeros(n_folds)
    for group in np.argsort(-sizes, kind="stable"):
        folds[group] = np.argmin(totals)
        totals[folds[group]] += sizes[group]
    return folds[groups]


def splits(data: Data, setting: str) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield the strains and phages of training, and those of the test."""
    m, q = data.lysis.shape
    everything = (np.arange(m), np.arange(q))
    strain_folds = data.strain_folds if setting == "B" else data.strain_folds % N_FOLDS
    codes = (strain_folds, folds_of(data.phage_groups, N_FOLDS))
    new_sides = {"B": (0,), "C": (1,), "D": (0, 1)}[setting]
    numbers = [np.unique(codes[axis]) if axis in new_sides else [None] for axis in (0, 1)]
    for strain_fold in numbers[0]:
        for phage_fold in numbers[1]:
            kept = []
            new = []
            for axis, fold in enumerate((strain_fold, phage_fold)):
                is_new = codes[axis] == fold if fold is not None else None
                kept.append(everything[axis] if is_new is None else np.flatnonzero(~is_new))
                new.append(everything[axis] if is_new is None else np.flatnonzero(is_new))
            yield kept, new


def lysed(data: Data, predictions: np.ndarray) -> float:
    """Return the share of strains that one of the phages with the highest predictions lyses."""
    best = np.argsort(-predictions, axis=1)[:, :N_IN_COCKTAIL]
    is_lysed = np.take_along_axis(np.nan_to_num(data.lysis), best, axis=1).any(axis=1)
    return float(is_lysed.mean())


def score(data: Data, setting: str, name: str) -> dict[str, float]:
    """Return the scores of one model in one setting."""
    predictions = np.full(data.lysis.shape, np.nan)
    start = time.perf_counter()
    for kept, new in splits(data, setting):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridEdgeWarning)
            predictions[np.ix_(*new)] = PREDICTORS[name](data, setting, kept, new)
    is_scored = ~np.isnan(data.lysis)
    truth = data.lysis[is_scored]
    scores = {
        "AUROC": float(roc_auc_score(truth, predictions[is_scored])),
        "average precision": float(average_precision_score(truth, predictions[is_scored])),
        "seconds": time.perf_counter() - start,
    }
    if setting == "B":
        scores["lysed by a cocktail"] = lysed(data, predictions)
    return scores


def main() -> None:
    """Print a line for each setting and model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--settings", default="BCD", help="letters of settings (default: BCD)")
    parser.add_argument("--models", default=",".join(MODELS), help="names, with commas")
    parser.add_argument("--data", type=Path, default=DATA / "phages", help="folder")
    arguments = parser.parse_args()
    data = load(arguments.data)
    print(f"dyadlearn {dyadlearn.__version__}, numpy {np.__version__}")
    print(f"{len(np.unique(data.phage_groups))} groups of related phages")
    for setting in arguments.settings:
        for name in arguments.models.split(","):
            if name == "per-phage" and setting != "B":
                continue
            scores = score(data, setting, name)
            words = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
            print(f"{setting} {name}: {words}", flush=True)


if __name__ == "__main__":
    main()
