"""What joblib's backends save: independent work in one process beside the same work on several workers.

    python benchmarks/spreading.py [--backend dask] [--workers 2] [--repeats 3] [--only nested] [--markdown]

Each case runs in turns in one process and on processes of joblib (loky), or on a local cluster of
dask. Every process has one thread. Figures are the time in one process over the other one, in this
run, and the processor time of all processes over that of one. Each case runs once on the workers
before it is timed, so that they have started and have imported what they need. All results are
compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
import psutil
from measuring import versions
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    TwoStepRegressor,
    TwoStepRidgeCV,
    evaluate,
    nested_score,
    permutation_test,
)

Case = Callable[[], np.ndarray]


class Problem:
    """A grid of labels of two described sides, complete and with missing labels."""

    def __init__(self, n_instances: int, n_tasks: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n_instances, 12))
        self.tasks = rng.normal(size=(n_tasks, 8))
        signal = np.tanh(self.X @ rng.normal(size=(12, 8))) @ self.tasks.T
        self.Y = signal + rng.normal(size=signal.shape)
        self.holes = np.where(rng.random(self.Y.shape) < 0.5, np.nan, self.Y)


def nested() -> np.ndarray:
    """Score a search by ten nested folds of instances."""
    data = Problem(400, 200)
    search = TwoStepRidgeCV(setting="B", kernel="rbf", task_kernel="rbf", progress=False)
    result = nested_score(search, data.X, data.Y, tasks=data.tasks, cv=10, random_state=0)
    return result.predictions


def learned() -> np.ndarray:
    """Learn kernels again in each of eight folds of instances."""
    data = Problem(150, 80)
    model = LearnedKernelRidge(setting="B", n_steps=8, progress=False, random_state=0)
    result = nested_score(model, data.X, data.Y, tasks=data.tasks, cv=8, random_state=0)
    return result.predictions


def kernels() -> np.ndarray:
    """Search a grid of twelve kernels in setting D."""
    data = Problem(400, 200)
    widths = [{"gamma": gamma} for gamma in np.geomspace(0.01, 1.0, 12)]
    search = TwoStepRidgeCV(
        setting="D", kernel="rbf", kernel_grid=widths, task_kernel="rbf", progress=False
    )
    return search.fit(data.X, data.Y, tasks=data.tasks).landscape_


def points() -> np.ndarray:
    """Search six regularisations in folds of missing labels, which are solved again."""
    data = Problem(150, 80)
    search = KroneckerRidgeCV(
        alphas=np.geomspace(0.1, 30.0, 6),
        setting="B",
        method="folds",
        kernel="rbf",
        task_kernel="rbf",
        progress=False,
    )
    return search.fit(data.X, data.holes, tasks=data.tasks).landscape_


def permutations() -> np.ndarray:
    """Permute the features of a model of missing labels ten times."""
    data = Problem(80, 40)
    model = KroneckerRidge(1.0, kernel="rbf", task_kernel="rbf")
    model.fit(data.X, data.holes, tasks=data.tasks)
    test = permutation_test(model, "B", n_permutations=10, random_state=0, progress=False)
    return test.null


def refits() -> np.ndarray:
    """Fit two regressors again in each of 25 blocks of setting D."""
    data = Problem(1200, 500)
    model = TwoStepRegressor(Ridge(), Ridge()).fit(data.X, data.Y, tasks=data.tasks)
    return evaluate(model, "D", scoring="r2")["r2"]


CASES: dict[str, tuple[str, Case]] = {
    "nested": ("`nested_score` of `TwoStepRidgeCV`, 10 folds, 400 × 200", nested),
    "learned": ("`nested_score` of `LearnedKernelRidge`, 8 folds, 150 × 80", learned),
    "kernels": ("12 kernels of `TwoStepRidgeCV(kernel_grid=)`, D, 400 × 200", kernels),
    "points": ("6 points of `KroneckerRidgeCV`, folds of 6,000 labels, B", points),
    "permutations": ("10 permutations of `KroneckerRidge`, 1,600 labels, B", permutations),
    "refits": ("25 refits of `TwoStepRegressor`, D, 1,200 × 500", refits),
}


@contextmanager
def workers(backend: str, n_workers: int) -> Iterator[Callable[[], Any]]:
    """Give the context in which work is spread. Without it, nothing of a backend runs beside the case."""
    if backend == "loky":
        yield partial(joblib.parallel_config, backend="loky", n_jobs=n_workers)
        return
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster):
        yield partial(joblib.parallel_config, backend="dask")


def processor_seconds() -> float:
    """Return the processor time of this process and of its workers so far."""
    total = 0.0
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system
    return total


class Measured(NamedTuple):
    """Median times and processor times, in one process and spread, and the largest difference of results."""

    times: list[float]
    processor: list[float]
    difference: float


def measured(case: Case, spread: Callable[[], Any], repeats: int) -> Measured:
    """Measure a case in turns in one process and on workers."""
    with spread():
        expected = np.asarray(case())
    times: list[list[float]] = [[], []]
    processor: list[list[float]] = [[], []]
    differences = []
    for _ in range(repeats):
        for place, context in enumerate((nullcontext, spread)):
            with context():
                before = processor_seconds()
                start = time.perf_counter()
                found = np.asarray(case())
                times[place].append(time.perf_counter() - start)
                processor[place].append(processor_seconds() - before)
            differences.append(np.nanmax(abs(found - expected)))
    medians = [[statistics.median(some) for some in values] for values in (times, processor)]
    return Measured(*medians, float(max(differences)))


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=["loky", "dask"], default="loky")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--markdown", action="store_true", help="print the table of the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    with threadpool_limits(1), workers(options.backend, options.workers) as spread:
        for name in options.only:
            title, case = CASES[name]
            found = measured(case, spread, options.repeats)
            ratio = found.times[0] / found.times[1]
            work = found.processor[1] / found.processor[0]
            figures = f"{found.times[0]:.1f} s | {ratio:.2f} | {work:.2f}"
            print(f"  {title:<62} {figures}; difference {found.difference:.0e}", flush=True)
            lines.append(f"| {title} | {figures} |")
    print(versions())
    print(f"  joblib {joblib.__version__}, {options.backend}, {options.workers} workers")
    if options.markdown:
        print("\n| what | one process | times faster | processor time |\n|---|--:|--:|--:|")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
