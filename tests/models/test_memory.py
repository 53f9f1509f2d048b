"""Memory that cannot suffice is told, with the estimate, before anything is computed."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, _checks, _svd, landscape, spectrum
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.models import _side
from sweeps import every, lines, over

every_model = {"Model": [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]}
every_pair_model = {"Model": [KroneckerRidge, TwoStepRidge]}


def on_kernels(Model: Any) -> Any:
    """Return a model on given kernels."""
    return Model(kernel="precomputed", task_kernel="precomputed")


@pytest.fixture
def nothing_is_computed(monkeypatch):
    """Fail if a Gram matrix or a decomposition is computed."""

    def refuse(*args, **kwargs):
        raise AssertionError("computed before memory was checked")

    monkeypatch.setattr(_side, "gram", refuse)
    monkeypatch.setattr(spectrum, "eigh", refuse)
    monkeypatch.setattr(_svd, "svd", refuse)
    monkeypatch.setattr(_svd, "eigh", refuse)


@pytest.fixture
def free(monkeypatch):
    """Pretend that so many bytes are free."""
    return lambda count: monkeypatch.setattr(_checks, "available_memory", lambda like: count)


LARGE = 400
MIB = 2**20


@pytest.mark.usefixtures("nothing_is_computed")
class TestMemory:
    # Of n = 400 rows a kernel is 1.22 MiB in double precision.
    @over(lines("kernel estimate", ("precomputed", r"[3-6]\.\d"), ("rbf", r"[4-7]\.\d")))
    @over(every(**every_model))
    def test_a_kernel_that_is_too_large(self, Model, kernel, estimate, free):
        free(MIB)
        rows = np.eye(LARGE) if kernel == "precomputed" else np.ones((LARGE, 2))
        message = rf"the 400 × 400 instance kernel needs about {estimate} MiB of memory, but only 1\.0 MiB are"
        with pytest.raises(NotEnoughMemoryError, match=message):
            Model(kernel=kernel).fit(rows, np.ones((LARGE, 1)))

    def test_single_precision_needs_as_much(self, free):
        """Computing is in double precision."""
        free(MIB)
        needs = {}
        for dtype in (np.float64, np.float32):
            with pytest.raises(NotEnoughMemoryError) as caught:
                on_kernels(TwoStepRidge).fit(np.eye(LARGE, dtype=dtype), np.ones((LARGE, 1), dtype=dtype))
            needs[dtype] = float(re.search(r"about (\S+) MiB", str(caught.value))[1])
        assert needs[np.float64] == needs[np.float32]

    @over(every(**every_pair_model))
    def test_a_task_kernel_that_is_too_large_is_seen_before_any_work(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"400 × 400 task kernel needs about .* MiB of memory"):
            on_kernels(Model).fit(np.eye(2), np.ones((2, LARGE)), tasks=np.eye(LARGE))

    @over(every(**every_model))
    def test_features_that_are_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"400 × 300 instance features needs about \d\.\d MiB"):
            Model().fit(np.ones((LARGE, 300)), np.ones((LARGE, 1)))

    @over(every(**every_model))
    def test_sparse_features_that_are_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"instance .* needs about \d\.\d MiB"):
            Model().fit(sparse.eye_array(LARGE, 300, format="csr"), np.ones((LARGE, 1)))

    @over(every(**every_model))
    def test_a_grid_that_is_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(
            NotEnoughMemoryError, match=r"a grid of 400 × 300 needs about 1\.1 MiB .* 1\.0 MiB are free"
        ):
            Model().fit(np.ones((LARGE, 2)), np.ones((LARGE, 300)))

    def test_it_is_a_memory_error(self, free):
        free(10)
        with pytest.raises(MemoryError):
            TwoStepRidge().fit(np.ones((3, 2)), np.ones((3, 2)))


def test_a_task_kernel_that_is_never_formed_needs_no_memory(free):
    # A kernel of the tasks would take 288 MiB.
    free(16 * MIB)
    tasks = np.ones((6000, 6000), dtype=np.float32)
    IndependentTaskRidge().fit(np.ones((5, 2)), np.ones((5, 6000)), tasks=tasks)


def test_the_primal_needs_little_beside_the_labels(free):
    free(4 * MIB)
    TwoStepRidge().fit(np.ones((1000, 2)), np.ones((1000, 400)), tasks=np.ones((400, 2)))


def test_enough_memory_is_enough(free):
    free(64 * MIB)
    TwoStepRidge().fit(np.eye(LARGE), np.ones((LARGE, 1)))


@pytest.fixture
def told(monkeypatch):
    """Return what the library says it needs, in bytes."""

    def told(work) -> float:
        with monkeypatch.context() as patch:
            patch.setattr(_checks, "available_memory", lambda like: 0)
            with pytest.raises(NotEnoughMemoryError) as caught:
                work()
        return float(re.search(r"about (\S+) MiB", str(caught.value))[1]) * MIB

    return told


def taken(work) -> int:
    """Return the peak of what numpy allocates; the inside of LAPACK is not seen before numpy 2.5."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def pieces_of_work():
    """Yield names, pieces of work, and the numbers that LAPACK takes unseen where it makes the peak."""
    n, rng = 400, np.random.default_rng(0)
    K = rng.normal(size=(n, 2 * n)) / n**0.5
    K = K @ K.T
    Y, X = rng.normal(size=(n, n)), rng.normal(size=(2 * n, n // 4))
    tall = rng.normal(size=(2 * n, n))
    holes, weights = np.where(rng.random(Y.shape) < 0.2, np.nan, Y), rng.random(Y.shape) + 0.5
    groups = np.arange(n) % 5
    options = {"kernel": "precomputed", "task_kernel": "precomputed", "max_iter": 2}
    one = IndependentTaskRidge(kernel="precomputed")
    yield "independent, fit", lambda: one.fit(K, Y[:, :9]), 2 * n * n
    yield "independent, fit with holes", lambda: one.fit(K, holes), 0
    yield "primal, fit", lambda: TwoStepRidge().fit(X, tall, tasks=X[:n]), X.size
    for model in (TwoStepRidge(**options), KroneckerRidge(**options)):
        name = type(model).__name__
        yield f"{name}, fit", lambda: model.fit(K, Y, tasks=K), 0  # noqa: B023
        yield f"{name}, fit with holes", lambda: model.fit(K, holes, tasks=K), 0  # noqa: B023
        yield f"{name}, fit with weights", lambda: model.fit(K, Y, tasks=K, sample_weight=weights), 0  # noqa: B023
        model.fit(K, Y, tasks=K)
        for setting in "AB":
            yield f"{name}, hold-out {setting}", lambda: model.holdout(setting), 0  # noqa: B023
        yield f"{name}, hold-out B of groups", lambda: model.holdout("B", groups=groups), 0  # noqa: B023
        model.fit(K, holes, tasks=K)
        yield f"{name}, hold-out B with holes", lambda: model.holdout("B", groups=groups), 0  # noqa: B023
        model.fit(K, Y, tasks=K)
    yield "landscape", lambda: landscape(model, [0.1, 1.0], settings="B"), 0
    new = np.ones((9 * n, n))
    yield "predict", lambda: model.predict(new), 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimates_are_right_within_a_quarter(told):
    wrong, is_seen = {}, np.lib.NumpyVersion(np.__version__) >= "2.5.0"
    for name, work, unseen in pieces_of_work():
        ratio = told(work) / (taken(work) + 8 * unseen * (not is_seen))
        if not 0.75 <= ratio <= 1.25:
            wrong[name] = round(ratio, 2)
    assert wrong == {}
