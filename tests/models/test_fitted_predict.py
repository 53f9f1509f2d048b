"""Predictions made in blocks are those made at once, in little more memory; and how many of their digits are right."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    TwoStepRidge,
    _memory,
)
from dyadlearn.exceptions import NotEnoughMemoryError, PrecisionWarning
from sweeps import covering, every, lines, over
from telling import taken

X, Y, T = problems.data(12, 9, 5, 4)
rng = default_rng(1)
RBF = {"kernel": "rbf", "task_kernel": "rbf"}
MODELS = {
    "independent, kernel": IndependentTaskRidge(kernel="rbf").fit(X, Y),
    "independent, primal": IndependentTaskRidge().fit(X, Y),
    "two-step, kernels": TwoStepRidge(**RBF).fit(X, Y, T),
    "two-step, primal": TwoStepRidge().fit(X, Y, T),
    "Kronecker, kernels": KroneckerRidge(**RBF).fit(X, Y, T),
    "online": OnlineTwoStepRidge().fit(X, Y, T),
    "online, mapped": OnlineTwoStepRidge(feature_map=Nystroem(n_components=8, random_state=0)).fit(
        X, Y, T
    ),
    "vector": IndependentTaskRidge(kernel="rbf").fit(X, Y[:, 0]),
}
PAIR_MODELS = [name for name, model in MODELS.items() if name.startswith(("two", "Kron", "online"))]


# So few bytes that there are many blocks.
BLOCKS = [1, 300]


@over(covering(name=MODELS, block=BLOCKS, strength=1))
def test_blocks_of_instances(name, block, monkeypatch):
    new = rng.normal(size=(5, 5))
    for rows in (new, sparse.csr_array(new), new[:1]):
        whole = name.predict(rows)
        with monkeypatch.context() as patch:
            patch.setattr("dyadlearn._array.BLOCK", block)
            assert_allclose(name.predict(rows), whole, rtol=1e-12, atol=1e-13)


@over(covering(name=PAIR_MODELS, sizes=[(31, 2), (2, 31), (7, 6)], block=BLOCKS))
def test_blocks_of_both_sides(name, sizes, block, monkeypatch):
    new = rng.normal(size=(sizes[0], 5))
    tasks = rng.normal(size=(sizes[1], 4))
    whole = MODELS[name].predict(new, tasks)
    monkeypatch.setattr("dyadlearn._array.BLOCK", block)
    found = MODELS[name].predict(new, tasks)
    assert found.flags.c_contiguous
    assert_allclose(found, whole, rtol=1e-12, atol=1e-13)


@over(
    covering(
        name=[name for name in MODELS if not name.startswith("online")], block=BLOCKS, strength=1
    )
)
def test_blocks_of_pairs(name, block, monkeypatch):
    model = MODELS[name]
    new = rng.normal(size=(6, 5))
    tasks = rng.normal(size=(5, 4)) if name in PAIR_MODELS else None
    b = 1 if name == "vector" else 5
    pairs = np.stack([rng.integers(0, 6, size=8), rng.integers(0, b, size=8)], axis=1)
    for known in (tasks, None):
        expected = model.predict(new, known).reshape(6, -1)[pairs[:, 0], pairs[:, 1]]
        with monkeypatch.context() as patch:
            patch.setattr("dyadlearn._array.BLOCK", block)
            assert_allclose(
                model.predict_pairs(new, known, pairs), expected, rtol=1e-12, atol=1e-13
            )
            assert model.predict_pairs(new, known, pairs[:0]).shape == (0,)


def test_the_kernel_of_new_rows_is_never_whole(monkeypatch):
    rows = rng.normal(size=(200, 3))
    model = IndependentTaskRidge(kernel="rbf").fit(rows, rows[:, 0])
    monkeypatch.setattr("dyadlearn._array.BLOCK", 2**14)
    for n in (3000, 9000):  # whose kernels are 4.6 and 13.7 MiB
        new = rng.normal(size=(n, 3))
        assert taken(lambda new=new: model.predict(new)) < 2**20
        assert taken(lambda new=new: model.predict_pairs(new, None, [(0, 0), (2999, 0)])) < 2**20


def test_a_result_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda like: 2**20)
    new = np.ones((800, 5))
    tasks = np.ones((300, 4))
    with pytest.raises(
        NotEnoughMemoryError,
        match=r"Predicting 800 × 300 labels needs about \d\.\d MiB .* 1\.0 MiB",
    ):
        MODELS["two-step, kernels"].predict(new, tasks)
    assert MODELS["two-step, kernels"].predict_pairs(new, tasks, [(0, 1)]).shape == (1,)


# --- digits: each side costs ε‖K‖/λ, and these add; constants cost none or one -------------------


@over(every(shape=[(5, 5), (5, 7), (7, 5)]))
def test_every_side_costs_its_own_digits(shape):
    """A kernel that is close to singular costs seven digits; both sides would cost fourteen."""
    rng = default_rng(0)
    K, G = (rbf_kernel(0.01 * rng.normal(size=(n, 3)), gamma=0.05) for n in shape)
    given = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
    model = TwoStepRidge(1e-7, 1e-7, **given).fit(K, rng.normal(size=shape), G)
    assert_allclose(model.predict(K, G), model.predict(), rtol=0, atol=1e-6)


@over(lines("shape", (4, 5), (9, 3)))
def test_a_row_far_from_a_large_constant_column_is_warned_about(shape):
    """The constant feature of the model and a large constant column cannot be told apart: ε c² digits are lost."""
    n, d = shape
    rng = default_rng(0)
    X = rng.normal(size=(5, 2))
    Z = rng.normal(size=(n + 1, d))
    Y = X[:, :1] + Z[:n, 1] + 5 + 0.1 * rng.normal(size=(5, n))
    for size, is_lost in ((1e3, False), (1e5, False), (1e8, True)):
        tasks = Z.copy()
        tasks[:, 0] = size
        model = KroneckerRidge().fit(X, Y, tasks[:n])
        model.predict(X, tasks)  # no warning: the new task has the value of the others
        tasks[n, 0] = 0.0
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.predict(X, tasks)
        assert [each.category for each in told] == [PrecisionWarning] * is_lost
        assert all("large and nearly constant in training" in str(each.message) for each in told)


@pytest.mark.parametrize("n", [5, 9, 14])
def test_rounding_of_a_large_common_part_is_warned_about(n):
    rng = default_rng(n)
    rows = 50.0 + rng.normal(size=(n, 1))
    K = (rows @ rows.T + 1.0) ** 3
    with pytest.warns(PrecisionWarning, match="small beside the largest eigenvalue"):
        IndependentTaskRidge(5e-5, kernel="precomputed", fit_intercept=True).fit(
            K, rng.normal(size=(n, 1))
        )
