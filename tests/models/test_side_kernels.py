"""Kernels inside models: by name, callable, combined, sparse; primal where that is the smaller system."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, decomposing
from dyadlearn.kernels import gram
from dyadlearn.models import side
from kernels_by_hand import BY_HAND, CHOICES, DENSE_ONLY, ESTIMATED, PARAMS
from sweeps import covering, every, lines, over

M = 8
Q = 6
D = 4
R = 3
RNG = default_rng(0)
# Counts with zeros: features that every kernel takes.
X = RNG.integers(0, 3, size=(M, D)).astype(float)
T = RNG.integers(0, 3, size=(Q, R)).astype(float)
X_NEW = RNG.integers(0, 3, size=(5, D)).astype(float)
T_NEW = RNG.integers(0, 3, size=(4, R)).astype(float)
X_NEW[0] = X[2]
T_NEW[0] = T[1]
Y = RNG.normal(size=(M, Q))
ALPHA = 0.6
TASK_ALPHA = 0.9


every_choice = lines("name params", *CHOICES)
# These are kernels in name only: eigenvalues below zero are clipped, with a warning.
may_be_indefinite = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.KernelRepairWarning")


def make(
    Model,
    kernel,
    params=None,
    task_kernel=None,
    task_params=None,
    **options,
):
    alphas = {"alpha": ALPHA} | ({"task_alpha": TASK_ALPHA} if Model is TwoStepRidge else {})
    return Model(
        kernel=kernel,
        kernel_params=params,
        task_kernel=task_kernel or kernel,
        task_kernel_params=task_params if task_kernel else params,
        **alphas,
        **options,
    )


pair_models = {"Model": [KroneckerRidge, TwoStepRidge]}


# --- names -------------------------------------------------------------------------------------


@may_be_indefinite
@over(every_choice)
def test_a_named_kernel_is_that_of_its_gram_matrices(name, params):
    model = make(TwoStepRidge, name, params or None).fit(X, Y, T)
    K, G = (gram(rows, kernel=name, kernel_params=params) for rows in (X, T))
    sides = ((X_NEW, X), (T_NEW, T))
    K_new, G_new = (gram(*rows, kernel=name, kernel_params=params) for rows in sides)
    expected = make(TwoStepRidge, "precomputed").fit(K, Y, G).predict(K_new, G_new)
    assert_allclose(model.predict(X_NEW, T_NEW), expected, rtol=1e-8, atol=1e-10)


# --- callables and combinations ----------------------------------------------------------------


def test_a_callable_sees_new_rows_against_training_rows():
    seen = []

    def spy(A, B):
        seen.append((A.shape, B.shape))
        return A @ B.T + 1.0

    IndependentTaskRidge(kernel=spy).fit(X, Y).predict(X_NEW)
    assert seen == [((M, D), (M, D)), ((5, D), (M, D))]


# --- primal or dual ----------------------------------------------------------------------------


@pytest.fixture
def decompositions(monkeypatch):
    """Record the shape of everything that is decomposed."""
    calls = []

    def spy(room, name, label):
        original = getattr(room, name)

        def record(given, *more):
            calls.append((label, tuple(given.shape)))
            return original(given, *more)

        monkeypatch.setattr(room, name, record)

    spy(decomposing, "economy_svd", "features")
    spy(decomposing, "eigh", "kernel")
    spy(decomposing, "gram_eigen", "sparse")
    return calls


@over(every(d=[1, M - 1, M, M + 1]))
def test_the_primal_is_chosen_exactly_for_fewer_features_than_rows(d, decompositions):
    rows = default_rng(d).normal(size=(M, d))
    for fit_intercept in (False, True):
        decompositions.clear()
        model = IndependentTaskRidge(ALPHA, fit_intercept=fit_intercept).fit(rows, Y)
        assert hasattr(model, "coef_") == (d < M)
        n = M - fit_intercept  # rows less their mean have one direction less
        assert decompositions == [("features", (max(n, d), min(n, d)))]
        if d < M:
            own = rows - rows.mean(axis=0) if fit_intercept else rows
            found = np.linalg.solve(own.T @ own + ALPHA * np.eye(d), own.T @ Y)
            assert_allclose(model.coef_, found, rtol=1e-8, atol=1e-10)


# --- sparse features ---------------------------------------------------------------------------

SPARSE = [name for name in BY_HAND if name not in DENSE_ONLY]


@pytest.fixture
def stays_sparse(monkeypatch):
    """Fail when a matrix of features, or its transpose, is made dense."""
    shapes = {rows.shape[::step] for rows in (X, X_NEW, T, T_NEW) for step in (1, -1)}
    assert not shapes & {(M, M), (Q, Q), (D, D), (R, R), (5, M), (4, Q)}

    def watch(cls, method):
        original = getattr(cls, method)

        def watched(self, *args, **kwargs):
            assert self.shape not in shapes, f"{method} of the features"
            return original(self, *args, **kwargs)

        monkeypatch.setattr(cls, method, watched)

    for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):
        watch(cls, "toarray")
        watch(cls, "todense")


@may_be_indefinite
@over(covering(**pair_models, form=[sparse.csr_array, sparse.csr_matrix], name=SPARSE, strength=1))
def test_sparse_features_stay_sparse(Model, form, name, stays_sparse):
    params = PARAMS[name] if name in ESTIMATED else None
    dense = make(Model, name, params).fit(X, Y, T)
    model = make(Model, name, params).fit(form(X), Y, form(T))
    near = {"rtol": 1e-8, "atol": 1e-10}
    predicted = model.predict(form(X_NEW), form(T_NEW))
    assert type(predicted) is np.ndarray
    assert_allclose(predicted, dense.predict(X_NEW, T_NEW), **near)
    pairs = [(0, 1), (4, 3), (2, 0)]
    assert_allclose(
        model.predict_pairs(form(X_NEW), form(T_NEW), pairs),
        dense.predict_pairs(X_NEW, T_NEW, pairs),
        **near,
    )


def test_sparse_features_run_in_the_primal(stays_sparse, decompositions):
    for fit_intercept in (False, True):
        decompositions.clear()
        model = TwoStepRidge(ALPHA, TASK_ALPHA, fit_intercept=fit_intercept)
        model.fit(sparse.csr_array(X), Y, sparse.csr_array(T))
        assert decompositions == [("sparse", (D, D)), ("sparse", (R, R))]
        own, task_own = (side - side.mean(axis=0) if fit_intercept else side for side in (X, T))
        left = np.linalg.solve(own.T @ own + ALPHA * np.eye(D), own.T)
        right = np.linalg.solve(task_own.T @ task_own + TASK_ALPHA * np.eye(R), task_own.T)
        assert type(model.coef_) is np.ndarray
        assert_allclose(model.coef_, left @ Y @ right.T, rtol=1e-8, atol=1e-10)


@over(every(name=DENSE_ONLY))
def test_kernels_that_take_no_sparse_features_say_so(name):
    with pytest.raises(
        ValueError, match=f"kernel '{name}' takes no sparse features; make them dense"
    ):
        IndependentTaskRidge(kernel=name).fit(sparse.csr_array(X), Y)


def test_the_gram_matrix_is_computed_once_for_a_fit(monkeypatch):
    calls = []
    gram = side.gram
    monkeypatch.setattr(
        side, "gram", lambda *args, **kwargs: calls.append(args) or gram(*args, **kwargs)
    )
    model = make(TwoStepRidge, "rbf").fit(X, Y, T)
    assert len(calls) == 2
    model.set_alpha(2.0, 3.0)
    _ = model.dual_coef_
    assert len(calls) == 2
    # For the training tasks no kernel is computed again.
    model.predict(X_NEW)
    assert len(calls) == 3
