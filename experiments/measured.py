"""Which drugs were measured with which kinases, as a description: KIBA by normal scores of ranks.

    python experiments/measured.py [--data kiba] [--seed 0] [--kernels cosine,size | --kernels none] [--steps 20]
        [--stages 2] [--test] [--cache FOLDER]

The kernels of `implicit.py` compare the sets of kinases that drugs were measured with, and the sets
of drugs of the kinases. Kernels are learned in setting A by the first of five folds of the training
labels, and their sets are those of the other folds: held-out pairs are in no set. Then the stages
are repeated with all training labels and their sets. Learning is in single precision. The test part
is used with ``--test`` only.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from implicit import KERNELS
from records import BENCHMARKS, Machine, Unit, choices, cut, described
from records_data import Data

from dyadlearn import LearnedKernelRidge
from dyadlearn.holdout.folds import as_splitter, folds_of
from dyadlearn.labels import NormalScores
from dyadlearn.learning.error import FoldError, Targets
from dyadlearn.learning.mixture import Mixture, single
from dyadlearn.learning.stages import Learned, completed_again, learn
from dyadlearn.metrics import concordance_index
from dyadlearn.models.reading import Training
from dyadlearn.selection.learning_kernels import mixtures, read_described
from dyadlearn.selection.standardising import standardised
from dyadlearn.settings import Setting

NONE = "none"


class Problem(NamedTuple):
    """Labels and kernels of both sides in single precision, as learning takes them."""

    data: Training
    labels: Targets
    sides: list[Mixture]


def problem(
    model: LearnedKernelRidge, data: Data, Y: np.ndarray, seen: np.ndarray, names: Sequence[str]
) -> Problem:
    """Return labels (m, q) with the kernels of the data and those of the seen cells (m, q)."""
    spec = model._learning_spec()
    sides = []
    for given, sets in ((data.K, seen), (data.G, seen.T)):
        sets = sets.astype(np.float64)
        kernels = {**given, **{f"measured: {name}": KERNELS[name](sets) for name in names}}
        sides.append(described(kernels, len(sets), Machine()))
    kernels = (model.kernel, model.task_kernel)
    training, read = read_described(spec, kernels, (sides[0], Y, sides[1], None))
    labels = standardised(training, spec.fit_intercept).labels.converted(single)
    mixed = [side.converted(single) for side in mixtures(spec, read, training)]
    return Problem(training, labels, mixed)


def first_fold(training: Training) -> tuple[np.ndarray, np.ndarray]:
    """Return the masks (m, q) of the first of five folds: to learn from, and held out."""
    units = as_splitter(5, Setting.A).units(training.labels, groups=None, task_groups=None)
    train, test = next(iter(folds_of(training.labels, Setting.A, units))).masks
    observed = training.labels.observed
    return train & observed, test & observed


def learned(
    data: Data, Y: np.ndarray, names: Sequence[str], steps: int, stages: int
) -> tuple[Learned, np.ndarray]:
    """Return what was learned from labels (m, q), and the predictions (m, q) of all training labels."""
    model = LearnedKernelRidge(
        kernel="precomputed", task_kernel="precomputed", setting="A", n_steps=steps
    )
    observed = np.isfinite(Y)
    whole = problem(model, data, Y, observed, names)
    train, test = first_fold(whole.data)
    fold = problem(model, data, Y, train, names)
    error = FoldError.of(fold.labels, fold.sides, [(train, test)])
    profiled = (stages > 1, stages > 1)
    result = learn(error, model._learning_spec().descent, stages, profiled)
    path = [stage.parameters.vector.tolist() for stage in result.stages[: result.best + 1]]
    return result, completed_again(whole.labels, whole.sides, observed, path, profiled)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--data", choices=("davis", "kiba"), default="kiba")
    reader.add_argument("--seed", type=int, default=0, help="of the split")
    reader.add_argument(
        "--kernels", type=choices([*KERNELS, NONE]), default=["cosine", "size"], help="of the sets"
    )
    reader.add_argument("--steps", type=int, default=20, help="of each stage")
    reader.add_argument("--stages", type=int, default=2)
    reader.add_argument("--test", action="store_true", help="use the test part")
    reader.add_argument("--cache", help="folder in which kernels are stored")
    return reader


def main() -> None:
    """Learn, and print the concordance index of held-out pairs and, if asked for, of the test part."""
    options = parser().parse_args()
    benchmark = BENCHMARKS[options.data]
    data = benchmark.load(None, options.cache)
    split = cut(data, Unit(options.data, "A", f"seed {options.seed}"), benchmark.n_folds)
    Y: Any = NormalScores().fit_transform(split.Y)
    names = [name for name in options.kernels if name != NONE]
    start = time.perf_counter()
    result, F = learned(data, Y, names, options.steps, options.stages)
    seconds = time.perf_counter() - start
    held_out = np.asarray(result.held_out, dtype=np.float64)
    truth = np.where(np.isfinite(held_out), split.Y, np.nan)
    errors = ", ".join(f"{stage.error:.4f}" for stage in result.stages)
    print(f"held-out errors of the stages (relative to the variance): {errors}")
    print(f"held-out CI {concordance_index(truth, held_out):.4f}, {seconds:.0f} s")
    if options.test:
        print(f"test CI {concordance_index(split.truth, np.asarray(F, dtype=np.float64)):.4f}")
    versions = ", ".join(f"{name} {version(name)}" for name in ("dyadlearn", "numpy", "scipy"))
    print(f"{datetime.date.today()}, {versions}, Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
