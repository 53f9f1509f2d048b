"""Similarity matrices that are no kernels: repaired with one warning, or refused."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import KernelError, KernelRepairWarning
from sweeps import every, over

M = 6
Q = 4
X, Y, T = problems.data(M, Q, 3, 2)
K = X @ X.T + np.eye(M)

every_model = {"Model": [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]}
every_pair_model = {"Model": [KroneckerRidge, TwoStepRidge]}


def precomputed(Model=TwoStepRidge, **params):
    """Return a model on given kernels, of which it sees all: with a constant only what is left without their means."""
    params = {"fit_intercept": False, **params}
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = "precomputed"
    return Model(kernel="precomputed", **params)


EIGENVALUES = np.array([-1.5, -0.25, 0.5, 1.0, 2.0, 4.0])
U = np.linalg.qr(default_rng(5).normal(size=(M, M)))[0]
INDEFINITE = (U * EIGENVALUES) @ U.T
INDEFINITE = (INDEFINITE + INDEFINITE.T) / 2
TWIST = np.triu(default_rng(6).normal(size=(M, M)), 1)
TWIST *= 0.15 / np.abs(TWIST).max()
# Its mean with its transpose is the indefinite one, the largest gap 0.3.
BENT = INDEFINITE + TWIST - TWIST.T
ALPHA = 0.3


def hat(values, alpha=ALPHA):
    return (U * (values / (values + alpha))) @ U.T


def parameters(values, alpha=ALPHA):
    """Return U φ(σ) Uᵀ, where null directions count nothing."""
    return (U * np.where(values > 0, 1 / (values + alpha), 0)) @ U.T


def repaired(model, *args, **kwargs):
    """Fit and return what was warned."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*args, **kwargs)
    assert {warning.category for warning in caught} <= {KernelRepairWarning}
    return [str(warning.message) for warning in caught]


CLIPPED = np.clip(EIGENVALUES, 0, None)
SHIFTED = EIGENVALUES + 1.5


@over(every(**every_model))
def test_an_indefinite_kernel_is_clipped_with_one_warning(Model):
    model = precomputed(Model, alpha=ALPHA)
    (message,) = repaired(model, INDEFINITE, Y)
    assert message == (
        "The instance kernel is indefinite (eigenvalues from -1.5 to 4; clipped to zero). All rows "
        "were used for this, "
        "also those that a hold-out leaves out: use dyadlearn.kernels.repair to do this "
        "explicitly, or repair='error' "
        "to refuse it."
    )
    assert_allclose(model.predict(INDEFINITE), hat(CLIPPED) @ Y, rtol=1e-9, atol=1e-12)


@over(every(**every_model))
def test_an_asymmetric_kernel_is_averaged_and_clipped_with_one_warning(Model):
    model = precomputed(Model, alpha=ALPHA)
    (message,) = repaired(model, BENT, Y)
    assert (
        "The instance kernel is asymmetric (largest gap 0.3; averaged with its transpose) and "
        "indefinite" in message
    )
    assert "(eigenvalues from -1.5 to 4; clipped to zero)" in message
    assert_allclose(model.predict(INDEFINITE), hat(CLIPPED) @ Y, rtol=1e-9, atol=1e-12)


@over(every(**every_pair_model))
def test_both_sides_are_repaired_and_each_warned_of_once(Model):
    model = precomputed(Model, alpha=ALPHA)
    first, second = repaired(model, BENT, Y[:, [0, 1, 2, 3, 0, 1]], tasks=INDEFINITE)
    assert first.startswith("The instance kernel is asymmetric (largest gap 0.3")
    assert second.startswith("The task kernel is indefinite (eigenvalues from -1.5 to 4; clipped")
    labels = Y[:, [0, 1, 2, 3, 0, 1]]
    if Model is TwoStepRidge:
        expected = hat(CLIPPED) @ labels @ hat(CLIPPED, 1.0)
    else:
        products = np.outer(CLIPPED, CLIPPED)
        expected = U @ (products / (products + ALPHA) * (U.T @ labels @ U)) @ U.T
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(model.predict(INDEFINITE), expected, rtol=1e-9, atol=1e-12)
        assert_allclose(model.predict(INDEFINITE, INDEFINITE), expected, rtol=1e-9, atol=1e-12)
        model.set_alpha(ALPHA)


def test_a_shifted_kernel_is_shifted_for_the_training_rows():
    model = precomputed(alpha=ALPHA, task_alpha=0.5, repair="shift")
    labels = Y[:, [0, 1, 2, 3, 0, 1]]
    first, second = repaired(model, BENT, labels, tasks=INDEFINITE)
    assert "indefinite (eigenvalues from -1.5 to 4; shifted up to zero)" in first
    assert "indefinite (eigenvalues from -1.5 to 4; shifted up to zero)" in second
    new = default_rng(7).normal(size=(3, M))
    middle = parameters(SHIFTED) @ labels @ parameters(SHIFTED, 0.5)
    # A shift is similarity to oneself: rows that are given are others, the training tasks are
    # themselves.
    assert_allclose(model.predict(new, new), new @ middle @ new.T, rtol=1e-9, atol=1e-12)
    expected = new @ parameters(SHIFTED) @ labels @ hat(SHIFTED, 0.5)
    assert_allclose(model.predict(new), expected, rtol=1e-9, atol=1e-12)


@over(every(**every_model))
def test_a_kernel_that_needs_repair_can_be_refused(Model):
    model = precomputed(Model, repair="error")
    with pytest.raises(
        KernelError, match=r"^The instance kernel is not positive semi-definite: 2 of its 6 .*-1\.5"
    ):
        model.fit(INDEFINITE, Y)
    with pytest.raises(KernelError, match=r"^The instance kernel is not symmetric: .* is 0\.3"):
        model.fit(BENT, Y)
    model.fit(K, Y)


def test_rounding_is_no_reason_to_warn():
    singular = X @ X.T
    for fit_intercept in (False, True):
        model = precomputed(repair="error", fit_intercept=fit_intercept)
        model.fit(singular * (1 + 1e-15), Y, T @ T.T)
        expected = TwoStepRidge(fit_intercept=fit_intercept).fit(X, Y, T).predict(X)
        assert_allclose(model.predict(singular), expected, rtol=1e-9)


@over(every(**every_model))
def test_with_a_constant_only_what_has_none_must_be_positive(Model):
    """Minus squared distances are no kernel, but without their means they are that of the features."""
    distances = -((X[:, None] - X[None]) ** 2).sum(-1) / 2
    model = precomputed(Model, repair="error", fit_intercept=True).fit(distances, Y)
    assert_allclose(model.predict(distances), Model().fit(X, Y).predict(X), rtol=1e-9)
    with pytest.raises(KernelError, match="^The instance kernel is not positive semi-definite"):
        precomputed(Model, repair="error", fit_intercept=True).fit(INDEFINITE, Y)
