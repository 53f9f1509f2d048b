"""Memory that cannot suffice is told, with the estimate, before anything is computed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, _validation, spectrum
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.models import _side

every_model = pytest.mark.parametrize("Model", [IndependentTaskRidge, KroneckerRidge, TwoStepRidge])
every_pair_model = pytest.mark.parametrize("Model", [KroneckerRidge, TwoStepRidge])


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
    monkeypatch.setattr(spectrum, "svd", refuse)


@pytest.fixture
def free(monkeypatch):
    """Pretend that so many bytes are free."""
    return lambda count: monkeypatch.setattr(_validation, "available_memory", lambda like: count)


LARGE = 400
MIB = 2**20


@pytest.mark.usefixtures("nothing_is_computed")
class TestMemory:
    # Of n = 400 rows a kernel is 1.22 MiB in double precision.
    @every_model
    @pytest.mark.parametrize(
        ("kernel", "estimate"),
        [("precomputed", r"[3-6]\.\d"), ("rbf", r"[4-7]\.\d")],
        ids=["precomputed", "rbf"],
    )
    def test_a_kernel_that_is_too_large(self, Model, kernel, estimate, free):
        free(MIB)
        rows = np.eye(LARGE) if kernel == "precomputed" else np.ones((LARGE, 2))
        message = rf"the 400 × 400 instance kernel needs about {estimate} MiB of memory, but only 1\.0 MiB are"
        with pytest.raises(NotEnoughMemoryError, match=message):
            Model(kernel=kernel).fit(rows, np.ones((LARGE, 1)))

    def test_single_precision_needs_half(self, free):
        free(MIB)
        needs = {}
        for dtype in (np.float64, np.float32):
            with pytest.raises(NotEnoughMemoryError) as caught:
                on_kernels(TwoStepRidge).fit(np.eye(LARGE, dtype=dtype), np.ones((LARGE, 1)))
            needs[dtype] = float(re.search(r"about (\S+) MiB", str(caught.value))[1])
        assert_allclose(needs[np.float64] / needs[np.float32], 2, rtol=0.1)

    @every_pair_model
    def test_a_task_kernel_that_is_too_large_is_seen_before_any_work(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"400 × 400 task kernel needs about .* MiB of memory"):
            on_kernels(Model).fit(np.eye(2), np.ones((2, LARGE)), tasks=np.eye(LARGE))

    @every_model
    def test_features_that_are_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"400 × 300 instance features needs about \d\.\d MiB"):
            Model().fit(np.ones((LARGE, 300)), np.ones((LARGE, 1)))

    @every_model
    def test_sparse_features_that_are_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=r"instance .* needs about \d\.\d MiB"):
            Model().fit(sparse.eye_array(LARGE, 300, format="csr"), np.ones((LARGE, 1)))

    @every_model
    def test_a_grid_that_is_too_large(self, Model, free):
        free(MIB)
        with pytest.raises(
            NotEnoughMemoryError, match=r"a grid of 400 × 300 needs about 5\.5 MiB .* 1\.0 MiB are free"
        ):
            Model().fit(np.ones((LARGE, 2)), np.ones((LARGE, 300)))

    def test_it_is_a_memory_error(self, free):
        free(10)
        with pytest.raises(MemoryError):
            TwoStepRidge().fit(np.ones((3, 2)), np.ones((3, 2)))


def test_enough_memory_is_enough(free):
    free(64 * MIB)
    TwoStepRidge().fit(np.eye(LARGE), np.ones((LARGE, 1)))
