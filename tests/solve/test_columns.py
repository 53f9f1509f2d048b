"""Independent tasks with missing labels against one scikit-learn refit for each column, or for each cell."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns
from dyadlearn.spectrum import Spectrum
from problems import PATTERNS, SHAPES
from sweeps import covering, every, over

KINDS = ["full", "singular", "primal", "thin", "sparse"]
kinds = {"kind": KINDS}
weightings = {"weighted": {"plain": False, "weighted": True}}


def make_problem(kind: str, shape: tuple[int, int], pattern: str, weighted: bool):
    """Return the spectrum, its kernel, labels with holes, and weights or None."""
    rng = np.random.default_rng([*shape, 3])
    features = grids.features(kind, shape[0], rng)
    Y = rng.normal(size=shape)
    Y[~grids.pattern(pattern, shape, rng)] = np.nan
    weights = rng.uniform(0.2, 4.0, size=shape) if weighted else None
    return grids.spectrum(kind, features), features @ features.T, Y, weights


def refitted(K: np.ndarray, y: np.ndarray, weights: np.ndarray | None, alpha: float) -> np.ndarray:
    """Return the predictions for all rows of ridge regression on those with a label."""
    here = ~np.isnan(y)
    ridge = np.full(here.sum(), alpha) if weights is None else alpha / weights[here]
    return K[:, here] @ np.linalg.solve(K[np.ix_(here, here)] + np.diag(ridge), y[here])


def each_column(
    K: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, alpha: float
) -> np.ndarray:
    columns = [
        refitted(K, Y[:, j], None if weights is None else weights[:, j], alpha)
        for j in range(Y.shape[1])
    ]
    return np.column_stack(columns)


def each_cell(K: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, alpha: float) -> np.ndarray:
    """Return predictions for missing cells, and for each observed one those of a refit without it."""
    expected = each_column(K, Y, weights, alpha)
    for i, j in np.argwhere(~np.isnan(Y)):
        hidden = Y[:, j].copy()
        hidden[i] = np.nan
        expected[i, j] = refitted(K, hidden, None if weights is None else weights[:, j], alpha)[i]
    return expected




@over(covering(**weightings, **kinds, shape=SHAPES, pattern=PATTERNS))
def test_completed_columns_are_those_of_refits(kind, shape, pattern, weighted):
    spectrum, K, Y, weights = make_problem(kind, shape, pattern, weighted)
    side = spectrum.smoother(Tikhonov(), 0.4)
    observed = ~np.isnan(Y)
    labels = complete_columns(side, Y, weights)
    expected = each_column(K, Y, weights, 0.4)
    grids.close(side.hat() @ labels, expected, 1e-10)
    grids.close(np.where(observed, expected, labels), expected, 1e-10)
    if not weighted:
        assert_allclose(labels[observed], Y[observed], rtol=1e-12)


@over(covering(**weightings, **kinds, shape=[(8, 3), (1, 3)], pattern=PATTERNS))
def test_left_out_cells_are_those_of_refits(kind, shape, pattern, weighted):
    spectrum, K, Y, weights = make_problem(kind, shape, pattern, weighted)
    found = leave_one_out_columns(spectrum.smoother(Tikhonov(), 0.4), Y, weights)
    grids.close(found, each_cell(K, Y, weights, 0.4), 1e-9)
















# --- other filters: the penalty built from all rows stays as it is -----------------------------------------


FILTERS = [SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(4)]


@over(covering(**kinds, filter=FILTERS, n_missing=[0, 1, 4]))
def test_other_filters_fill_in_what_they_would_predict(filter, n_missing, kind):
    """What is completed is its own prediction, and what is left out is what would be completed without it."""
    spectrum, _, Y, _ = make_problem(kind, (8, 4), "none missing", False)
    for j in range(4):
        Y[np.random.default_rng(j).permutation(8)[:n_missing], j] = np.nan
    side = spectrum.smoother(filter, 1.5 if isinstance(filter, SpectralCutoff) else 0.6)
    observed = ~np.isnan(Y)
    hat = side.hat()
    expected = Y.copy()
    for column, here in zip(expected.T, observed.T, strict=True):
        system = np.eye((~here).sum()) - hat[np.ix_(~here, ~here)]
        assert not system.size or np.linalg.cond(system) < 1e4
        column[~here] = np.linalg.solve(system, hat[np.ix_(~here, here)] @ column[here])
    grids.close(complete_columns(side, Y), expected, 1e-9)
    held_out = expected.copy()
    found = leave_one_out_columns(side, Y)
    some = np.argwhere(observed)[::3]
    for i, j in some:
        hidden = Y[:, [j]].copy()
        hidden[i] = np.nan
        held_out[i, j] = complete_columns(side, hidden)[i, 0]
    at = tuple(some.T)
    grids.close(found[at], held_out[at], 1e-8)
    grids.close(found[~observed], held_out[~observed], 1e-8)


@over(every(**weightings, **kinds))
def test_weights_under_another_filter(kind, weighted):
    """Iterated ridge has a kernel too, f/(1 − f) of the eigenvalues; the weighted equations hold with it."""
    spectrum, K, Y, weights = make_problem(kind, (8, 4), "50%", weighted)
    side = spectrum.smoother(IteratedTikhonov(2), 0.4)
    residual = np.linalg.matrix_power(0.4 * np.linalg.inv(K + 0.4 * np.eye(8)), 2)
    kernel = np.linalg.inv(residual) - np.eye(8)
    grids.close(
        side.hat() @ complete_columns(side, Y, weights), each_column(kernel, Y, weights, 1.0), 1e-9
    )
    grids.close(leave_one_out_columns(side, Y, weights), each_cell(kernel, Y, weights, 1.0), 1e-9)


@over(covering(**kinds, seed=range(5)))
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
    expected = each_column(kernel, Y, None, 1e-13)
    held_out = each_cell(kernel, Y, None, 1e-13)
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
