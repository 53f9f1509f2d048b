"""A grand mean that carries no penalty, where labels are missing or weighted: dense systems with a border."""

import numpy as np
import pytest

import problems as grids
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import TwoStep
from dyadlearn.pairing.incomplete import complete_labels
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_block
from dyadlearn.solve.missing import complete
from dyadlearn.solve.operators import predict_others
from dyadlearn.spectrum import Spectrum
from problems import WITH_MEAN
from sweeps import every, over

WAYS = {
    "direct": {"route": "missing"},
    "missing": {"route": "missing", "rank": 0, "max_direct": 0},
    "missing, deflated": {"route": "missing", "rank": 5, "max_direct": 0},
    "missing, rank chosen": {"route": "missing", "max_direct": 0},
    "observed": {"route": "observed", "rank": 0},
    "observed, deflated": {"route": "observed", "rank": 5},
}
MISSING_WAYS = {name: way for name, way in WAYS.items() if way["route"] == "missing"}


def smoothers(K, G, filters, alphas):
    spectra = [Spectrum.from_gram(kernel, constant="free") for kernel in (K, G)]
    return TwoStep(*(s.smoother(f, a) for s, f, a in zip(spectra, filters, alphas, strict=True)))


# --- labels that are moved ---------------------------------------------------------------------------


@over(every(model=WITH_MEAN))
def test_without_any_label_there_is_no_mean(model):
    given = grids.holes(model, (5, 4))
    nothing = np.full((5, 4), np.nan)
    for way in WAYS.values():
        with pytest.raises(
            ValueError,
            match=r"^No label is observed, .* grand mean: give labels, or use fit_intercep",
        ):
            complete(given.operators, nothing, **way)
    with pytest.raises(
        ValueError, match=r"^No label is observed, and nothing else determines the grand mean"
    ):
        complete_labels(given.operators, nothing)


# --- kernels and filters -----------------------------------------------------------------------------


def test_no_regularisation_on_one_side():
    """Every row is then a problem of its own, with a constant of its own; one without labels has none."""
    given = grids.holes("two-step + 1", (6, 5), "30%")
    Y = given.Y.copy()
    observed = given.observed
    assert observed.any(axis=1).all()
    operators = smoothers(given.K, given.G, [Tikhonov()] * 2, (0.0, 0.2))
    expected = Y.copy()
    for row, here in zip(expected, observed, strict=True):
        dual, mean = grids.bordered(
            given.G[np.ix_(here, here)] + 0.2 * np.eye(here.sum()), row[here]
        )
        row[~here] = given.G[np.ix_(~here, here)] @ dual + mean
    for name, way in MISSING_WAYS.items():
        grids.close(complete(operators, Y, tol=1e-13, **way).labels, expected, 1e-9, name)
    Y[2] = np.nan
    with pytest.raises(LeverageError, match="cells form a set that have leverage 1"):
        complete(operators, Y)
    with pytest.raises(LeverageError, match="rows with missing labels have leverage 1"):
        complete_block(operators.rows, operators.columns, Y, [2], range(5))


# --- one side ------------------------------------------------------------------------------------------


def test_nothing_says_anything_of_a_constant_without_rows():
    side = Spectrum.from_gram(np.eye(3), constant="free").smoother(Tikhonov(), 1.0)
    with pytest.raises(LeverageError, match="3 of 3 rows are missing and have leverage 1"):
        predict_others(side, np.array([], dtype=int), np.zeros((0, 2)))


# --- main effects that are almost free -------------------------------------------------------------------------


@over(every(alphas=[(1e-10, 1.0), (1e10, 1e-10)]))
def test_a_regularisation_that_vanishes_on_one_side(alphas):
    """Its main effects outweigh all else in the kernel by 1e10, and leave all digits of the others nevertheless."""
    given = grids.holes("two-step + 1", (6, 5), "5%", alpha=alphas[0], task_alpha=alphas[1])
    Y = given.Y.copy()
    Y[[0, 2, 3, 5], [1, 0, 4, 2]] = np.nan
    filled = complete(given.operators, Y).labels
    held_out = holdout(Problem.of(given.operators, Y), Setting.A)
    expected = held_out.copy()
    for cell in [*zip(*np.nonzero(~np.isnan(Y)), strict=True)][::3]:
        hidden = Y.copy()
        hidden[cell] = np.nan
        expected[cell] = complete(given.operators, hidden).labels[cell]
    grids.close(held_out, expected, 1e-10)
    # Iterations know the kernel up to rounding of its largest value.
    for rank, weights in ((0, np.ones_like(Y)), (5, None), (10**6, np.ones_like(Y))):
        found = complete(given.operators, Y, weights, route="observed", rank=rank, tol=1e-12)
        grids.close(given.operators.hat(found.labels), given.operators.hat(filled), 1e-4, f"{rank}")
