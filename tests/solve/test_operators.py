"""A side without some rows against Schur complements and ridge regression with its own kernel, written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fifty_digits
import problems as grids
from dyadlearn.exceptions import LeverageError, PrecisionWarning
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.solve.operators import predict_others, reduced
from dyadlearn.spectrum import Spectrum
from sweeps import covering, every, over

N = 8
ROWS = np.array([0, 1, 3, 4, 6, 7])
HIDDEN = np.array([2, 5])
FILTERS = [Tikhonov(), IteratedTikhonov(3), SpectralCutoff(), Landweber(), Landweber(6)]


def spectrum_of(kind, constant=None):
    return grids.spectrum(
        kind, grids.features(kind, N, np.random.default_rng(4)), constant=constant
    )


kinds = {"kind": ["full", "singular", "primal", "thin"], "constant": [None, "free"]}


@over(covering(filter=FILTERS, **kinds, alpha=[0.05, 0.8, 50.0]))
def test_what_stays_is_the_schur_complement(filter, kind, constant, alpha):
    side = spectrum_of(kind, constant).smoother(filter, alpha)
    R = side.residual()  # not 1 − f by a difference: little is left of some directions
    own = R[np.ix_(HIDDEN, HIDDEN)]
    between = R[np.ix_(HIDDEN, ROWS)]
    labels = np.random.default_rng(0).normal(size=(6, 3))
    if np.linalg.eigvalsh(own).min() < 1e-8:
        for ask, given in ((reduced, (side, ROWS)), (predict_others, (side, ROWS, labels))):
            with pytest.raises(LeverageError, match="2 of 8 rows are missing and have leverage 1"):
                ask(*given)
        return
    found = reduced(side, ROWS)
    schur = R[np.ix_(ROWS, ROWS)] - between.T @ np.linalg.solve(own, between)
    assert_allclose(found.residual(), schur, atol=1e-11)
    assert_allclose(found.hat(), np.eye(6) - schur, atol=1e-11)
    assert found.spectrum.has_free_constant == (constant is not None)
    assert (found.slack_floor > 0) == (side.slack_floor > 0)
    predicted = predict_others(side, ROWS, labels)
    assert_allclose(predicted, -np.linalg.solve(own, between @ labels), atol=1e-11)
    if constant:
        assert_allclose(predict_others(side, ROWS, labels + 5.0), predicted + 5.0, atol=1e-12)
    if schur[5, 5] > 1e-8:  # one row after the other, or all at once
        last = reduced(found, np.arange(5))
        assert_allclose(last.residual(), reduced(side, ROWS[:5]).residual(), atol=1e-10)


@over(covering(n_iter=[2, 4], alpha=[1e-3, 1e-5], dual=[True, False], constant=[None, "free"]))
def test_hidden_rows_keep_their_digits_if_little_is_left_of_a_direction(
    n_iter, alpha, dual, constant
):
    X = np.random.default_rng(3).integers(-3, 4, size=(N, 4)).astype(float)
    labels = np.random.default_rng(0).normal(size=(3, 2))
    kept = np.array([0, 3, 6])
    built = Spectrum.from_gram if dual else Spectrum.from_features
    spectrum = built(X @ X.T if dual else X, constant=constant)
    found = predict_others(spectrum.smoother(IteratedTikhonov(n_iter), alpha), kept, labels)
    expected = fifty_digits.hidden_rows(X, kept, labels, alpha, n_iter, constant is not None)
    assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@over(every(constant=[None, "free"]))
def test_without_regularisation_the_limit_is_kept(constant):
    """At λ = 0 with full rank hats are identities, and residuals known up to scale: those of the inverse kernel."""
    spectrum = spectrum_of("full", constant)
    K = spectrum.matrix(spectrum.values)[np.ix_(ROWS, ROWS)]
    found = reduced(spectrum.smoother(Tikhonov(), 0.0), ROWS)
    Z = np.eye(6) if constant is None else grids.complement(6)
    assert_allclose(found.shrinkage, 1.0)
    expected = Z @ np.linalg.inv(Z.T @ K @ Z) @ Z.T
    assert_allclose(found.scaled().residual(), expected, atol=1e-10)


@over(every(**kinds))
def test_weights_count_as_repeated_rows(kind, constant):
    side = spectrum_of(kind, constant).smoother(IteratedTikhonov(2), 0.4)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 0.2])
    labels = np.random.default_rng(0).normal(size=6)
    Z = np.eye(N) if constant is None else grids.complement(N)
    kernel = Z @ (np.linalg.inv(Z.T @ side.residual() @ Z) - np.eye(Z.shape[1])) @ Z.T
    system = kernel[np.ix_(ROWS, ROWS)] + np.diag(1.0 / weights)
    if constant is None:
        dual, mean = np.linalg.solve(system, labels), 0.0
    else:
        dual, mean = grids.bordered(system, labels)
    root = weights[:, None] ** 0.5
    found = reduced(side, ROWS, weights[:, None]).smooth(root * labels[:, None]) / root
    assert_allclose(found[:, 0], kernel[np.ix_(ROWS, ROWS)] @ dual + mean, atol=1e-10)


def test_digits_that_are_lost_of_hidden_rows_are_counted():
    # The first two rows are equal, but not their labels; nothing but rounding separates the rows.
    X = np.random.default_rng(3).integers(-3, 4, size=(N, 4)).astype(float)
    X[1] = X[0]
    side = Spectrum.from_gram(X @ X.T).smoother(IteratedTikhonov(4), 1e-5)
    with pytest.warns(PrecisionWarning, match="rounding leaves 0 accurate digits"):
        predict_others(side, np.array([0, 1, 2]), np.array([[1.0], [2.0], [3.0]]))


def test_filters_whose_remainders_underflow_are_refused():
    """Each row of a diagonal kernel says nothing about the others, and its labels are interpolated."""
    # All remainders underflow, or only what is compared with those that have.
    for n_iter, largest, rows in ((1070, np.finfo(float).tiny, [1, 2]), (1000, 1e-300, [0, 1])):
        side = Spectrum.from_gram(np.diag([0.5, 1.0, 1.0])).smoother(Landweber(n_iter=n_iter), 0.5)
        assert 0.0 < side.remainder.max() < largest
        with pytest.raises(LeverageError):
            predict_others(side, np.array(rows), np.ones((2, 1)))
