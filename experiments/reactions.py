"""Yields of cross-couplings: 15 aryl halides × 4 ligands × 3 bases × 22 additives, by a model of four sides.

    python experiments/reactions.py [--splits random,new] [--data FOLDER] [--device cuda]
    python experiments/reactions.py --write-kernels FILE      # with rdkit
    python experiments/reactions.py --kernels FILE            # without rdkit
    python experiments/reactions.py --parts [--splits fullcv_01]

Yields of 3,955 reactions (Ahneman and others, Science 2018). The splits are those of Yield-BERT
(Schwaller and others, 2021): ten random ones with 2,767 reactions to learn from, and four in which
all additives of the test are new.

The label is the arc sine of the root of the yield, because a yield lies between 0 and 100 %. The
model has an effect of each side and of each interaction, with variances by restricted likelihood.
The kernel of a side is the mean of two similarities, and a little of the identity: similarity of
structures (min-max kernel of Morgan counts), and similarity of *profiles*, the mean labels of a
level with each level of the other sides, and of each two of them, in the training data. New
additives have no profile, so that their kernel is that of the structures. No label of a test is
used before it is scored.

`--parts` leaves out one part of the model at a time. It learns from 600 reactions of the training
data of a split, and scores the other reactions of the training data.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "2")  # must be set before numpy is imported

import numpy as np  # noqa: E402
from drug_target import DATA  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import MultiwayRidge  # noqa: E402
from dyadlearn.kernels import gram  # noqa: E402
from dyadlearn.kernels.chemistry import fingerprints  # noqa: E402

SIDES = ("aryl_halide", "ligand", "base", "additive")
#: Share of the identity in each kernel, so that levels with equal descriptions may differ.
OWN = 0.1
#: Reactions that a comparison of parts learns from.
N_IN_COMPARISON = 600
#: Labels that pull the mean label of two levels to the mean of all.
PULL = 2.0


@dataclass(frozen=True)
class Parts:
    """What the model consists of.

    Attributes
    ----------
    most_sides : int
        Sides in the largest term; all smaller terms are in the model.
    of_roots : bool
        Whether the label is the arc sine of the root of a yield, and not the yield.
    with_profiles : bool
    own : float
        Share of the identity in each kernel.
    """

    most_sides: int = 4
    of_roots: bool = True
    with_profiles: bool = True
    own: float = OWN

    @property
    def terms(self) -> list[list[str]]:
        """Sides of each term."""
        sizes = range(1, self.most_sides + 1)
        return [list(sides) for size in sizes for sides in combinations(SIDES, size)]


PARTS = {
    "all": Parts(),
    "yields as labels": Parts(of_roots=False),
    "no profiles": Parts(with_profiles=False),
    "no identity": Parts(own=0.0),
    "pairs": Parts(most_sides=2),
    "sides": Parts(most_sides=1),
}


@dataclass(frozen=True)
class Data:
    """Reactions.

    Attributes
    ----------
    levels : dict of str to integer array of shape (n,)
        Level of each side.
    yields : array of shape (n,)
        In percent.
    structures : dict of str to array
        Kernel between the levels of a side by their structures.
    splits : dict of str to (integer array, integer array)
        Positions of the reactions of training and of test.
    """

    levels: dict[str, np.ndarray]
    yields: np.ndarray
    structures: dict[str, np.ndarray]
    splits: dict[str, tuple[np.ndarray, np.ndarray]]

    def cells(self, at: np.ndarray) -> dict[str, np.ndarray]:
        """Return the levels of some reactions."""
        return {side: codes[at] for side, codes in self.levels.items()}


def load(folder: Path, kernels: Path | None = None) -> Data:
    """Return the data of a folder; its README names the files."""
    with np.load(folder / "buchwald_hartwig.npz") as file:
        arrays = {name: file[name] for name in file.files}
    if kernels is None:
        structures = {side: structure_kernel(arrays[f"smiles_{side}"]) for side in SIDES}
    else:
        with np.load(kernels) as file:
            structures = {side: file[side] for side in SIDES}
    trainings = sorted(name for name in arrays if name.endswith("_train"))
    splits = {}
    for training in trainings:
        name = training.removesuffix("_train")
        splits[name] = (arrays[training], arrays[f"{name}_test"])
    levels = {side: arrays[side] for side in SIDES}
    return Data(levels, arrays["yield"], structures, splits)


def structure_kernel(smiles: np.ndarray) -> np.ndarray:
    """Return the min-max kernel of the Morgan counts of molecules."""
    counts, _ = fingerprints([str(text) for text in smiles], counts=True)
    return np.asarray(gram(counts.toarray(), kernel="minmax"))


# --- labels and kernels -------------------------------------------------------------------------


def to_label(yields: np.ndarray) -> np.ndarray:
    """Return the arc sine of the root of yields."""
    return np.arcsin(np.sqrt(np.clip(yields / 100.0, 0.0, 1.0)))


def to_yield(labels: np.ndarray) -> np.ndarray:
    """Return the yields, in percent, of labels."""
    return 100.0 * np.sin(np.clip(labels, 0.0, np.pi / 2.0)) ** 2


def profiles(
    side: str, cells: dict[str, np.ndarray], labels: np.ndarray, sizes: dict[str, int]
) -> np.ndarray:
    """Return the mean labels of each level of a side with levels of the others, and with pairs of these."""
    others = [name for name in SIDES if name != side]
    columns = []
    for size in (1, 2):
        for names in combinations(others, size):
            shape = [sizes[name] for name in names]
            codes = np.ravel_multi_index([cells[name] for name in names], shape)
            n_codes = int(np.prod(shape))
            totals = np.zeros((sizes[side], n_codes))
            counts = np.zeros_like(totals)
            np.add.at(totals, (cells[side], codes), labels)
            np.add.at(counts, (cells[side], codes), 1.0)
            means = (totals + PULL * labels.mean()) / (counts + PULL)
            columns.append(means / np.sqrt(n_codes))
    return np.hstack(columns)


def profile_kernel(features: np.ndarray) -> np.ndarray:
    """Return the Gaussian kernel of profiles, whose width is their median distance."""
    squares = np.sum((features[:, None] - features[None]) ** 2, axis=2)
    return np.exp(-squares / np.median(squares[squares > 0.0]))


def kernels_of(
    data: Data,
    cells: dict[str, np.ndarray],
    labels: np.ndarray,
    new: tuple[str, ...],
    parts: Parts,
) -> dict[str, np.ndarray]:
    """Return the kernel of each side, for labels of training."""
    sizes = {side: len(kernel) for side, kernel in data.structures.items()}
    kernels = {}
    for side, structures in data.structures.items():
        similarity = structures
        if parts.with_profiles and side not in new:
            features = profiles(side, cells, labels, sizes)
            similarity = 0.5 * (structures + profile_kernel(features))
        kernels[side] = parts.own * np.eye(sizes[side]) + (1.0 - parts.own) * similarity
    return kernels


# --- scores -------------------------------------------------------------------------------------


def predicted(
    data: Data,
    training: np.ndarray,
    test: np.ndarray,
    new: tuple[str, ...],
    parts: Parts,
    device: str | None,
) -> np.ndarray:
    """Return the predicted yields of a test, whose levels of the sides `new` are new."""
    cells = data.cells(training)
    yields = data.yields[training]
    labels = to_label(yields) if parts.of_roots else yields / 100.0
    kernels = kernels_of(data, cells, labels, new, parts)
    precomputed = dict.fromkeys(SIDES, "precomputed")
    model = MultiwayRidge(parts.terms, entities=kernels, kernels=precomputed, device=device)
    with warnings.catch_warnings():
        # Variances at their bound converge slowly, and change no prediction.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(cells, labels)
    predictions = np.asarray(model.predict(data.cells(test)))
    if parts.of_roots:
        return to_yield(predictions)
    return 100.0 * np.clip(predictions, 0.0, 1.0)


def new_sides(split: str) -> tuple[str, ...]:
    """Return the sides whose levels are new in the test of a split."""
    return ("additive",) if split.startswith("test") else ()


def r2(truth: np.ndarray, predictions: np.ndarray) -> float:
    """Return the share of the variance that predictions explain."""
    errors = truth - predictions
    return float(1.0 - np.sum(errors**2) / np.sum((truth - truth.mean()) ** 2))


def scores(data: Data, splits: list[str], device: str | None) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the R² and the root of the mean squared error of each split."""
    for split in splits:
        start = time.perf_counter()
        training, test = data.splits[split]
        predictions = predicted(data, training, test, new_sides(split), Parts(), device)
        truth = data.yields[test]
        share = r2(truth, predictions)
        rmse = float(np.sqrt(np.mean((truth - predictions) ** 2)))
        seconds = time.perf_counter() - start
        print(f"{split}: R2 {share:.4f}, RMSE {rmse:.2f}, {seconds:.0f} s", flush=True)
        yield split, share, rmse


def compare_parts(
    data: Data, split: str, n: int, device: str | None, names: Iterable[str] = tuple(PARTS)
) -> None:
    """Print the R² of models without one part, within the training data of a random split."""
    training, _ = data.splits[split]
    drawn = np.random.default_rng(0).permutation(training)
    for name in names:
        predictions = predicted(data, drawn[:n], drawn[n:], (), PARTS[name], device)
        print(f"{name}: R2 {r2(data.yields[drawn[n:]], predictions):.4f}", flush=True)


def main() -> None:
    """Print a line for each split, and the mean of the random ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", default="random,new", help="random, new, or names with commas")
    parser.add_argument("--data", type=Path, default=DATA / "reactions", help="folder")
    parser.add_argument("--kernels", type=Path, help="file of --write-kernels")
    parser.add_argument("--write-kernels", type=Path, help="write kernels of structures, and end")
    parser.add_argument("--device", help="such as cuda")
    parser.add_argument("--parts", action="store_true", help="leave out parts of the model")
    arguments = parser.parse_args()
    data = load(arguments.data, arguments.kernels)
    if arguments.write_kernels:
        np.savez(arguments.write_kernels, **data.structures)
        return
    print(f"dyadlearn {dyadlearn.__version__}, numpy {np.__version__}")
    prefixes = {"random": "fullcv", "new": "test"}
    wanted = [prefixes.get(name, name) for name in arguments.splits.split(",")]
    chosen = [name for name in data.splits if name.startswith(tuple(wanted))]
    if arguments.parts:
        compare_parts(data, chosen[0], N_IN_COMPARISON, arguments.device)
        return
    results = list(scores(data, chosen, arguments.device))
    random = [r2 for name, r2, _ in results if name.startswith("fullcv")]
    if random:
        print(f"mean of {len(random)} random splits: R2 {np.mean(random):.4f}")


if __name__ == "__main__":
    main()
