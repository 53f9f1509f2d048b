"""Memory that cannot suffice is told, with the estimate, before anything is computed."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
    _memory,
    _svd,
    decomposing,
)
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.models import side
from sweeps import every, lines, over

every_model = {"Model": [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]}
every_pair_model = {"Model": [KroneckerRidge, TwoStepRidge]}


def on_kernels(Model):
    """Return a model on given kernels."""
    return Model(kernel="precomputed", task_kernel="precomputed")


@pytest.fixture
def nothing_is_computed(monkeypatch):
    """Fail if a Gram matrix or a decomposition is computed."""

    def refuse(*args, **kwargs):
        raise AssertionError("computed before memory was checked")

    monkeypatch.setattr(side, "gram", refuse)
    monkeypatch.setattr(decomposing, "eigh", refuse)
    monkeypatch.setattr(_svd, "svd", refuse)
    monkeypatch.setattr(_svd, "eigh", refuse)


@pytest.fixture
def free(monkeypatch):
    """Pretend that so many bytes are free."""
    return lambda count: monkeypatch.setattr(_memory, "available_memory", lambda like: count)


# One thread, since each has blocks of its own.
ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
LARGE = 400
MIB = 2**20


@pytest.mark.usefixtures("nothing_is_computed")
class TestMemory:
    # Of n = 400 rows a kernel is 1.22 MiB in double precision.
    @over(lines("kernel estimate", ("precomputed", r"[6-9]\.\d"), ("rbf", r"[7-9]\.\d")))
    @over(every(**every_model))
    def test_a_kernel_that_is_too_large(self, Model, kernel, estimate, free):
        free(MIB)
        rows = np.eye(LARGE) if kernel == "precomputed" else np.ones((LARGE, 2))
        message = rf"the 400 × 400 instance kernel needs about {estimate} MiB of memory, but only 1\.0 MiB are"
        with pytest.raises(NotEnoughMemoryError, match=message):
            Model(kernel=kernel).fit(rows, np.ones((LARGE, 1)))

    @over(every(**every_pair_model))
    def test_a_task_kernel_that_is_too_large_is_seen_before_any_work(self, Model, free):
        free(MIB)
        with pytest.raises(
            NotEnoughMemoryError, match=r"400 × 400 task kernel needs about .* MiB of memory"
        ):
            on_kernels(Model).fit(np.eye(2), np.ones((2, LARGE)), np.eye(LARGE))

    @over(
        lines(
            "d q message",
            (300, 1, r"400 × 300 instance features needs about \d\.\d MiB"),
            (2, 300, r"a grid of 400 × 300 needs about 1\.9 MiB .* 1\.0 MiB are free"),
        )
    )
    @over(every(**every_model))
    def test_features_and_grids_that_are_too_large(self, Model, d, q, message, free):
        free(MIB)
        with pytest.raises(NotEnoughMemoryError, match=message):
            Model().fit(np.ones((LARGE, d)), np.ones((LARGE, q)))


def test_a_task_kernel_that_is_never_formed_needs_no_memory(free):
    # A kernel of the tasks would take 288 MiB.
    free(16 * MIB)
    tasks = np.ones((6000, 6000), dtype=np.float32)
    IndependentTaskRidge().fit(np.ones((5, 2)), np.ones((5, 6000)), tasks)


def test_the_primal_needs_little_beside_the_labels(free):
    free(7 * MIB)
    TwoStepRidge().fit(np.ones((1000, 2)), np.ones((1000, 400)), np.ones((400, 2)))


@pytest.mark.slow
@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak of a process is told on Linux"
)
def test_estimates_are_at_least_the_peak_and_at_most_twice_it_at_each_place():
    script = Path(__file__).parents[2] / "benchmarks" / "memory.py"
    done = subprocess.run(
        [sys.executable, script, "--places"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE},
    )
    assert done.returncode == 0, done.stderr
    ratios = {line[:54].strip(): float(line.split()[-1]) for line in done.stdout.splitlines()[1:-1]}
    assert len(ratios) == 10, done.stdout
    assert all(1.0 <= ratio <= 2.0 for ratio in ratios.values()), done.stdout


def test_memory_of_a_fit_is_checked_before_a_list_becomes_a_grid(free):
    """Training rows of a pair kernel have functions of their own, which take a grid; its labels are 800 MB."""
    rng = np.random.default_rng(0)
    shape = (10_000, 10_000)
    sides = [rng.normal(size=(n, 2)) for n in shape]
    labels = sparse.coo_array((rng.normal(size=3), ([0, 1, 2], [0, 1, 5])), shape=shape)
    model = PairKernelRidge(product=0.5, per_task=0.25, per_instance=0.25)
    free(8 * 1024 * MIB)
    tracemalloc.start()
    with pytest.raises(NotEnoughMemoryError, match="Fitting a grid"):
        model.fit(sides[0], labels, sides[1])
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 1e8
