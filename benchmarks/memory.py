"""Memory: what is told beforehand against what is taken, the workspace of LAPACK included. Linux only.

What is told is what the library says when nothing is free. What is taken is the peak of resident
memory beyond what was there before the call; a process of its own gives memory back to the system
as soon as it is let go, and small problems are left out of account by making the arrays large
enough.

    python benchmarks/memory.py [--size 1.0] [--only two-step]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from measuring import versions
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    TwoStepRidge,
    _memory,
    landscape,
    load,
    read_features,
    save,
)
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.labels import to_grid

Work = Callable[[], object]
# Arrays of this many bytes or more are given back at once.
SETTING = {"MALLOC_MMAP_THRESHOLD_": "65536"}
UNITS = {"MiB": 2**20, "GiB": 2**30}


def told(work: Work) -> float:
    """Return the most bytes that the library says it needs in any of its steps."""
    need = 0.0
    while True:
        with mock.patch.object(_memory, "available_memory", return_value=1.01 * need):
            try:
                work()
            except NotEnoughMemoryError as error:
                match = re.search(r"about ([\d.]+) (\w+)", str(error))
                assert match is not None
                need = max(float(match[1]), need / UNITS[match[2]] + 0.05) * UNITS[match[2]]
            else:
                return need


def taken(work: Work) -> float:
    """Return the peak of resident memory beyond what was there before."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def warm_up() -> None:
    """Let the libraries take what they take once."""
    square = np.random.default_rng(0).normal(size=(300, 300))
    np.linalg.eigh(square @ square.T)
    np.linalg.svd(square, full_matrices=False)
    np.linalg.solve(square, square)


class Problems:
    """Problems of a size, drawn as they are asked for."""

    def __init__(self, size: float) -> None:
        self.size, self.rng = size, np.random.default_rng(0)

    def __call__(self, m: int, q: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kernels of both sides and a grid, with m and q in hundreds."""
        m = round(self.size * 100 * m)
        q = round(self.size * 100 * q)
        return self.kernel(m), self.kernel(q), self.rng.normal(size=(m, q))

    def kernel(self, n: int) -> np.ndarray:
        """Return a smooth kernel of n rows."""
        return rbf_kernel(self.rng.normal(size=(n, 3)), gamma=1.0) + 0.001 * np.eye(n)

    def features(self, n: int, d: int) -> np.ndarray:
        """Return features, with n and d in hundreds."""
        return self.rng.normal(size=(round(self.size * 100 * n), round(self.size * 100 * d)))

    def holes(self, Y: np.ndarray, share: float) -> np.ndarray:
        """Return labels of which a share is missing."""
        return np.where(self.rng.random(Y.shape) < share, np.nan, Y)


def pair_models() -> dict[str, TwoStepRidge | KroneckerRidge]:
    """Return the models of both sides; the peak does not depend on how long a solver iterates."""
    options = {"kernel": "precomputed", "task_kernel": "precomputed", "max_iter": 3}
    return {"two-step": TwoStepRidge(**options), "Kronecker": KroneckerRidge(**options)}


def fits(draw: Problems) -> Iterator[tuple[str, Work]]:
    """Yield fits: what is told and taken includes the copy of the labels."""
    for m, q in ((8, 8), (4, 20), (12, 3)):
        K, G, Y = draw(m, q)
        W = draw.rng.random(Y.shape) + 0.5
        shape = f"{Y.shape[0]} × {Y.shape[1]}"
        one = IndependentTaskRidge(kernel="precomputed")
        yield f"independent, fit {shape}", partial(one.fit, K, Y)
        for share in (0.1, 0.9):
            Z = draw.holes(Y, share)
            yield f"independent, fit {shape}, {share:.0%} missing", partial(one.fit, K, Z)
        yield f"independent, fit {shape}, weights", partial(one.fit, K, Y, sample_weight=W)
        for name, model in pair_models().items():
            yield f"{name}, fit {shape}", partial(model.fit, K, Y, tasks=G)
            for share in (0.1, 0.9):
                Z = draw.holes(Y, share)
                yield f"{name}, fit {shape}, {share:.0%} missing", partial(model.fit, K, Z, tasks=G)
            yield (
                f"{name}, fit {shape}, weights",
                partial(model.fit, K, Y, tasks=G, sample_weight=W),
            )
    X = draw.features(40, 2)
    T = draw.features(12, 1)
    Y = draw.rng.normal(size=(len(X), len(T)))
    Z = draw.holes(Y, 0.2)
    S = sparse.random_array((len(X), len(X) // 4), density=0.01, format="csr", rng=draw.rng)
    yield "independent, primal", partial(IndependentTaskRidge().fit, X, Y)
    yield "independent, sparse", partial(IndependentTaskRidge().fit, S, Y)
    yield (
        "independent, rbf",
        partial(IndependentTaskRidge(kernel="rbf").fit, X[: len(X) // 4], Y[: len(X) // 4]),
    )
    for model in (TwoStepRidge(max_iter=3), KroneckerRidge(max_iter=3)):
        name = type(model).__name__
        yield f"{name}, primal", partial(model.fit, X, Y, tasks=T)
        yield f"{name}, primal, 20 % missing", partial(model.fit, X, Z, tasks=T)
        yield f"{name}, sparse", partial(model.fit, S, Y, tasks=T)
    wide = draw.features(6, 9)
    yield "two-step, wide features", partial(TwoStepRidge().fit, wide, Y[: len(wide)], tasks=T)


def holdouts(draw: Problems) -> Iterator[tuple[str, Work]]:
    """Yield hold-out predictions of fitted models."""
    for m, q in ((8, 8), (4, 12)):
        K, G, Y = draw(m, q)
        shape = f"{Y.shape[0]} × {Y.shape[1]}"
        groups = np.arange(len(Y)) % 5
        tasks = np.arange(Y.shape[1]) % 5
        folds = draw.rng.integers(0, 5, size=Y.shape)
        left = {"A": {}, "B": {"groups": groups}, "C": {"task_groups": tasks}}
        left["D"] = {**left["B"], **left["C"]}
        one = IndependentTaskRidge(kernel="precomputed").fit(K, Y)
        yield f"independent, B {shape}", partial(one.holdout, "B")
        yield f"independent, B {shape}, groups", partial(one.holdout, "B", groups=groups)
        yield f"independent, A {shape}, cells", partial(one.holdout, "A", cells=folds)
        one = IndependentTaskRidge(kernel="precomputed").fit(K, draw.holes(Y, 0.2))
        yield f"independent, B {shape}, 20 % missing", partial(one.holdout, "B")
        yield (
            f"independent, B {shape}, 20 % missing, groups",
            partial(one.holdout, "B", groups=groups),
        )
        for name, model in pair_models().items():
            model.fit(K, Y, tasks=G)
            for setting in "ABC" if name == "Kronecker" else "ABCD":
                yield f"{name}, {setting} {shape}", partial(model.holdout, setting)
                if setting in "BC":
                    yield (
                        f"{name}, {setting} {shape}, groups",
                        partial(model.holdout, setting, **left[setting]),
                    )
            if name == "two-step":
                yield f"{name}, D {shape}, groups", partial(model.holdout, "D", **left["D"])
            yield f"{name}, A {shape}, cells", partial(model.holdout, "A", cells=folds)
            model.fit(K, draw.holes(Y, 0.2), tasks=G)
            for setting in "BCD":
                yield (
                    f"{name}, {setting} {shape}, 20 % missing",
                    partial(model.holdout, setting, **left[setting]),
                )
            yield (
                f"{name}, A {shape}, 20 % missing, cells",
                partial(model.holdout, "A", cells=folds),
            )
    K, G, Y = draw(3, 3)
    two = pair_models()["two-step"].fit(K, draw.holes(Y, 1 - 2500 / Y.size), tasks=G)
    yield "two-step, A, 2500 cells observed", partial(two.holdout, "A")
    net = TwoStepRidge(kernel="precomputed", symmetry="symmetric").fit(
        draw.kernel(len(K) * 3), np.eye(len(K) * 3)
    )
    for setting in "ABD":
        yield f"network, {setting} {len(K) * 3}", partial(net.holdout, setting)
    kron = pair_models()["Kronecker"].fit(K, Y, tasks=G)
    yield f"Kronecker, D {Y.shape[0]} × {Y.shape[1]}", partial(kron.holdout, "D")
    X = draw.features(40, 2)
    T = draw.features(12, 1)
    Y = draw.rng.normal(size=(len(X), len(T)))
    for model in (TwoStepRidge(), KroneckerRidge()):
        model.fit(X, Y, tasks=T)
        for setting in "ABC":
            yield f"{type(model).__name__}, {setting}, primal", partial(model.holdout, setting)


def others(draw: Problems) -> Iterator[tuple[str, Work]]:
    """Yield predictions and landscapes."""
    K, G, Y = draw(8, 8)
    alphas = 10.0 ** np.arange(-3.0, 3.0)
    grid = {"alphas": alphas, "task_alphas": alphas}
    two = pair_models()["two-step"].fit(K, Y, tasks=G)
    for scoring in ("neg_mean_squared_error", "roc_auc"):
        labels = Y if scoring != "roc_auc" else np.where(Y > 0, 1.0, 0.0)
        two = pair_models()["two-step"].fit(K, labels, tasks=G)
        kron = pair_models()["Kronecker"].fit(K, labels, tasks=G)
        for settings in ("A", "B", "D", "ABCD"):
            yield (
                f"landscape, two-step, {settings}, {scoring}",
                partial(landscape, two, **grid, setting=settings, scoring=scoring, progress=False),
            )
        yield (
            f"landscape, Kronecker, AB, {scoring}",
            partial(landscape, kron, alphas=alphas, setting="AB", scoring=scoring, progress=False),
        )
    Z = pair_models()["two-step"].fit(K, draw.holes(Y, 0.2), tasks=G)
    yield (
        "landscape, two-step, B, 20 % missing",
        partial(landscape, Z, alphas=[1.0], task_alphas=[1.0], setting="B", progress=False),
    )
    X = draw.features(8, 1)
    T = draw.features(8, 1)
    model = TwoStepRidge(kernel="rbf", task_kernel="rbf").fit(X, Y, tasks=T)
    new = draw.features(80, 1)
    tasks = draw.features(8, 1)
    yield "predict, many instances", partial(model.predict, new)
    yield "predict, many instances, new tasks", partial(model.predict, new, tasks=tasks)
    yield "predict, few tasks", partial(model.predict, new, tasks=tasks[:10])


def places(draw: Problems) -> Iterator[tuple[str, Work]]:
    """Yield one piece of work for each kind of place where memory is checked."""
    K, G, Y = draw(6, 6)
    X = draw.features(20, 1)
    alphas = 10.0 ** np.arange(-3.0, 3.0)
    two = pair_models()["two-step"]
    with tempfile.TemporaryDirectory() as folder:
        np.savez_compressed(
            archive := Path(folder, "x.npz"), x=Y, ids=[f"row {row}" for row in range(len(Y))]
        )
        save(TwoStepRidge(kernel="precomputed").fit(K, Y), model := Path(folder, "model.dyad"))
        lines = ["id,a,b", *(f"row {row},{row / 7},{row % 9}" for row in range(100 * len(Y)))]
        (table := Path(folder, "x.csv")).write_text("\n".join(lines))
        yield "read: an archive", partial(read_features, archive)
        yield "read: a text table", partial(read_features, table)
        yield "read: a model", partial(load, model)
    cells = np.stack([np.arange(len(X)), np.arange(len(X))], axis=1)
    yield "densify: a long table", partial(to_grid, cells, np.ones(len(cells)))
    rbf = TwoStepRidge(kernel="rbf").fit(X[: len(Y)], Y)
    yield "kernel: predict", partial(rbf.predict, X)
    yield "decompose: fit", partial(two.fit, K, Y[:, :9], tasks=G[:9, :9])
    yield "solve: fit", partial(two.fit, K, Y, tasks=G)
    yield "solve: fit with missing labels", partial(two.fit, K, draw.holes(Y, 0.2), tasks=G)
    fitted = pair_models()["two-step"].fit(K, (Y > 0) * 1.0, tasks=G)
    yield (
        "stack: landscape",
        partial(
            landscape,
            fitted,
            alphas=alphas,
            task_alphas=alphas,
            setting="B",
            scoring="roc_auc",
            progress=False,
        ),
    )
    holes = pair_models()["two-step"].fit(K, draw.holes(Y, 0.2), tasks=G)
    yield (
        "folds: hold-out with missing labels",
        partial(holes.holdout, "B", groups=np.arange(len(Y)) % 5),
    )
    wide = draw.features(9, 6)
    yield "statistics: online", partial(OnlineTwoStepRidge().fit, wide, np.ones((len(wide), 2)))
    tall = draw.features(200, 1)
    yield (
        "statistics: online, many rows",
        partial(OnlineTwoStepRidge().fit, tall, np.ones((len(tall), 50))),
    )


def main() -> None:
    """Print one line for each piece of work."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", type=float, default=1.0, help="sides of grids are so many times some hundred rows"
    )
    parser.add_argument("--only", default="", help="only work whose name has this in it")
    parser.add_argument(
        "--places", action="store_true", help="one piece of work for each kind of place alone"
    )
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in SETTING.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SETTING})
    warnings.simplefilter("ignore")
    warm_up()
    draw = Problems(options.size)
    print(f"  {'':<52} {'told':>8} {'taken':>8}  MiB   ratio")
    for kind in (places,) if options.places else (fits, holdouts, others):
        for name, work in kind(draw):
            if options.only in name:
                estimate = told(work)
                measured = taken(work)
                print(
                    f"  {name:<52} {estimate / 2**20:8.1f} {measured / 2**20:8.1f}       "
                    f"{estimate / measured:5.2f}",
                    flush=True,
                )
    print(versions())


if __name__ == "__main__":
    main()
