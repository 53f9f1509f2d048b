"""Yields of cross-couplings: 15 aryl halides × 4 ligands × 3 bases × 22 additives, by a model of four sides.

    python experiments/reactions.py [--splits random,new] [--data FOLDER] [--device cuda]
    python experiments/reactions.py --write-kernels FILE      # with rdkit
    python experiments/reactions.py --kernels FILE            # without rdkit

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
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
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
TERMS = [list(sides) for size in range(1, 5) for sides in combinations(SIDES, size)]
#: Share of the identity in each kernel, so that levels with equal descriptions may differ.
OWN = 0.1
#: Labels that pull the mean label of two levels to the mean of all.
PULL = 2.0


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
    data: Data, cells: dict[str, np.ndarray], labels: np.ndarray, new: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Return the kernel of each side, for labels of training."""
    sizes = {side: len(kernel) for side, kernel in data.structures.items()}
    kernels = {}
    for side, structures in data.structures.items():
        similarity = structures
        if side not in new:
            features = profiles(side, cells, labels, sizes)
            similarity = 0.5 * (structures + profile_kernel(features))
        kernels[side] = OWN * np.eye(sizes[side]) + (1.0 - OWN) * similarity
    return kernels


# --- scores -------------------------------------------------------------------------------------


def predicted(data: Data, split: str, device: str | None) -> np.ndarray:
    """Return the predicted yields of the test of a split."""
    training, test = data.splits[split]
    new = ("additive",) if split.startswith("test") else ()
    cells = data.cells(training)
    labels = to_label(data.yields[training])
    kernels = kernels_of(data, cells, labels, new)
    precomputed = dict.fromkeys(SIDES, "precomputed")
    model = MultiwayRidge(TERMS, entities=kernels, kernels=precomputed, device=device)
    with warnings.catch_warnings():
        # Variances at their bound converge slowly, and change no prediction.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(cells, labels)
    return to_yield(np.asarray(model.predict(data.cells(test))))


def scores(data: Data, splits: list[str], device: str | None) -> Iterator[tuple[str, float, float]]:
    """Yield the name, the R² and the root of the mean squared error of each split."""
    for split in splits:
        start = time.perf_counter()
        errors = data.yields[data.splits[split][1]] - predicted(data, split, device)
        truth = data.yields[data.splits[split][1]]
        r2 = 1.0 - np.sum(errors**2) / np.sum((truth - truth.mean()) ** 2)
        rmse = float(np.sqrt(np.mean(errors**2)))
        seconds = time.perf_counter() - start
        print(f"{split}: R2 {r2:.4f}, RMSE {rmse:.2f}, {seconds:.0f} s", flush=True)
        yield split, float(r2), rmse


def main() -> None:
    """Print a line for each split, and the mean of the random ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", default="random,new", help="random, new, or names with commas")
    parser.add_argument("--data", type=Path, default=DATA / "reactions", help="folder")
    parser.add_argument("--kernels", type=Path, help="file of --write-kernels")
    parser.add_argument("--write-kernels", type=Path, help="write kernels of structures, and end")
    parser.add_argument("--device", help="such as cuda")
    arguments = parser.parse_args()
    data = load(arguments.data, arguments.kernels)
    if arguments.write_kernels:
        np.savez(arguments.write_kernels, **data.structures)
        return
    print(f"dyadlearn {dyadlearn.__version__}, numpy {np.__version__}")
    prefixes = {"random": "fullcv", "new": "test"}
    wanted = [prefixes.get(name, name) for name in arguments.splits.split(",")]
    chosen = [name for name in data.splits if name.startswith(tuple(wanted))]
    results = list(scores(data, chosen, arguments.device))
    random = [r2 for name, r2, _ in results if name.startswith("fullcv")]
    if random:
        print(f"mean of {len(random)} random splits: R2 {np.mean(random):.4f}")


if __name__ == "__main__":
    main()
