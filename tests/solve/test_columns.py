"""Independent tasks with missing labels, against refits of each column, and without each label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns
from dyadlearn.spectrum import Spectrum
from problems import PATTERNS, SHAPES
from references import fitted, left_out, reference
from sweeps import covering, every, over

KINDS = ["full", "singular", "primal", "thin", "sparse"]
weightings = {"weighted": {"plain": False, "weighted": True}}


def make_problem(kind: str, shape: tuple[int, int], pattern: str, weighted: bool):
    """Return the spectrum, its kernel, labels with holes, and weights or None."""
    rng = np.random.default_rng([*shape, 3])
    features = grids.features(kind, shape[0], rng)
    Y = rng.normal(size=shape)
    Y[~grids.pattern(pattern, shape, rng)] = np.nan
    weights = rng.uniform(0.2, 4.0, size=shape) if weighted else None
    if weighted:
        weights[np.isnan(Y)] = np.nan  # which nobody reads
    return grids.spectrum(kind, features), features @ features.T, Y, weights


def refits(K: np.ndarray, Y: np.ndarray, weights: Any, alpha: float) -> tuple[Any, Any]:
    """Return the predictions of refits: for all rows, and for each observed one without its label."""
    model = reference("independent", (K, K), (alpha, alpha), Y, weights)
    everywhere = fitted(model)
    return everywhere, np.where(np.isnan(Y), everywhere, left_out(model, "A", where=~np.isnan(Y)))


@over(
    covering(
        **weightings,
        kind=KINDS,
        shape=SHAPES,
        pattern=PATTERNS,
        alpha=[1e-6, 1e-3, 0.4, 1e3, 1e6],
        # A singular kernel plus little of the identity loses digits, whoever computes it.
        where=lambda kind, alpha, **_: kind == "full" or alpha > 0.1,
    )
)
def test_columns_are_those_of_refits(kind, shape, pattern, weighted, alpha):
    spectrum, K, Y, weights = make_problem(kind, shape, pattern, weighted)
    side = spectrum.smoother(Tikhonov(), alpha)
    observed = ~np.isnan(Y)
    labels = complete_columns(side, Y, weights)
    expected, held_out = refits(K, Y, weights, alpha)
    grids.close(side.hat() @ labels, expected, 1e-9)
    grids.close(np.where(observed, expected, labels), expected, 1e-9)
    if not weighted:
        assert_allclose(labels[observed], Y[observed], rtol=1e-12)
    if shape[0] > 1:
        grids.close(leave_one_out_columns(side, Y, weights), held_out, 1e-8)


# --- other filters: the penalty built from all rows stays as it is -----------------------------------------


FILTERS = [SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(4)]


@over(covering(kind=KINDS, filter=FILTERS, n_missing=[0, 1, 4]))
def test_other_filters_fill_in_what_they_would_predict(filter, n_missing, kind):
    spectrum, K, Y, _ = make_problem(kind, (8, 4), "none missing", False)
    for j in range(4):
        Y[np.random.default_rng(j).permutation(8)[:n_missing], j] = np.nan
    alpha = 1.5 if isinstance(filter, SpectralCutoff) else 0.55
    side = spectrum.smoother(filter, alpha)
    model = reference("independent", (K, K), (alpha, alpha), Y, filters=(filter, filter))
    observed = ~np.isnan(Y)
    expected = fitted(model)
    grids.close(complete_columns(side, Y)[~observed], expected[~observed], 1e-9)
    held_out = leave_one_out_columns(side, Y)
    some = observed & (np.add.outer(np.arange(8), np.arange(4)) % 3 == 0)
    grids.close(held_out[some], left_out(model, "A", where=some)[some], 1e-8)
    grids.close(held_out[~observed], expected[~observed], 1e-8)


@over(every(**weightings, kind=KINDS))
def test_weights_under_another_filter(kind, weighted):
    """Iterated ridge has a kernel too, f/(1 − f) of the eigenvalues; the weighted equations hold with it."""
    spectrum, K, Y, weights = make_problem(kind, (8, 4), "50%", weighted)
    side = spectrum.smoother(IteratedTikhonov(2), 0.4)
    residual = np.linalg.matrix_power(0.4 * np.linalg.inv(K + 0.4 * np.eye(8)), 2)
    kernel = np.linalg.inv(residual) - np.eye(8)
    expected, held_out = refits(kernel, Y, weights, 1.0)
    grids.close(side.hat() @ complete_columns(side, Y, weights), expected, 1e-9)
    grids.close(leave_one_out_columns(side, Y, weights), held_out, 1e-9)


@over(covering(kind=KINDS, seed=range(5)))
def test_rows_that_the_model_interpolates_are_refused(kind, seed):
    """Fewer labels than directions that are kept whole say nothing of the other rows."""
    rng = np.random.default_rng(seed)
    spectrum = grids.spectrum(kind, grids.features(kind, 9, rng))
    side = spectrum.smoother(SpectralCutoff(), 0.2)
    kept = int(np.sum(side.shrinkage))
    Y = np.full((9, 1), np.nan)
    Y[rng.permutation(9)[: kept - 1], 0] = 1.0
    with pytest.raises(LeverageError, match="leverage 1"):
        complete_columns(side, Y)
    Y[np.flatnonzero(np.isnan(Y[:, 0]))[0]] = 1.0
    # As many labels as directions determine them, but none of them can be left out.
    with pytest.raises(LeverageError, match="leverage 1"):
        leave_one_out_columns(side, Y)


@over(covering(filter=[Tikhonov(), IteratedTikhonov(2)], pattern=PATTERNS))
def test_without_regularisation_the_limit_is_taken(filter, pattern):
    """At λ = 0 with full rank every label is kept, and what is predicted is what small λ comes to."""
    spectrum, K, Y, weights = make_problem("full", (7, 3), pattern, True)
    side = spectrum.smoother(filter, 0.0)
    kernel = np.linalg.matrix_power(K, getattr(filter, "n_iter", 1))
    expected, held_out = refits(kernel, Y, None, 1e-13)
    observed = ~np.isnan(Y)
    for given in (None, weights):
        labels = complete_columns(side, Y, given)
        assert_allclose(labels[observed], Y[observed], rtol=1e-9)
        grids.close(labels, expected, 1e-9)
        grids.close(leave_one_out_columns(side, Y, given), held_out, 1e-9)


def test_missing_rows_that_only_together_are_interpolated_are_refused():
    """Eigenvalues of a block are rounding there, not exactly zero; on a flat spectrum that is easily overlooked."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(9, 7)))[0]
        side = Spectrum.from_gram(basis @ basis.T).smoother(Tikhonov(), 0.0)
        Y = rng.normal(size=(9, 1))
        Y[rng.permutation(9)[:3]] = np.nan
        for solve in (complete_columns, leave_one_out_columns):
            with pytest.raises(LeverageError, match="leverage 1"):
                solve(side, Y)


def test_a_ridge_that_is_lost_beside_the_kernel():
    """Of duplicates with weights: the kernel of the observed rows, 1/(1 − f) − 1, has no room for the ridge of 1."""
    rng = np.random.default_rng(0)
    side = Spectrum.from_gram(np.kron(np.diag([6.0, 9.0, 13.0]), np.ones((2, 2)))).smoother(
        IteratedTikhonov(2), 1e-7
    )
    Y = rng.normal(size=(6, 3))
    weights = rng.uniform(0.5, 2.0, size=(6, 3))
    Y[1, 0] = Y[2, 1] = np.nan
    # In the limit a pair of twins has the weighted mean of its labels, and without one of them the
    # label of the other.
    labels = complete_columns(side, Y, weights)
    held_out = leave_one_out_columns(side, Y, weights)
    means = np.nansum((weights * Y).reshape(3, 2, 3), axis=1) / np.where(
        np.isnan(Y), 0, weights
    ).reshape(3, 2, 3).sum(1)
    assert_allclose(side.hat() @ labels, np.repeat(means, 2, axis=0), rtol=1e-12)
    twins = Y.reshape(3, 2, 3)[:, ::-1].reshape(6, 3)
    paired = ~np.isnan(Y) & ~np.isnan(twins)
    assert_allclose(held_out[paired], twins[paired], rtol=1e-12)
