"""Weighted labels with holes: dense weighted equations, repeated observations, and the limits of large and small."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from dyadlearn.solve.missing import complete
from problems import ALL_MODELS, PATTERNS, SHAPES
from sweeps import covering, every, over

# Chosen, and with no, few and all directions deflated.
WAYS = {
    "chosen": {},
    "plain": {"rank": 0},
    "deflated": {"rank": 5},
    "all deflated": {"rank": 10**6},
}


def make_weights(shape: tuple[int, int], spread: float = 10.0) -> np.ndarray:
    return np.exp(np.random.default_rng(5).uniform(-1, 1, size=shape) * np.log(spread))


def check(
    given, weights: np.ndarray, rtol: float, dtype: str = "float64", ways=WAYS, **options
) -> None:
    """The closed form on the labels found is the weighted model, whose dual parameters they betray."""
    expected = given.fitted(weights)
    dual = given.dual(weights)
    for name, way in ways.items():
        found = complete(
            given.operators, given.Y.astype(dtype), weights.astype(dtype), **way, **options
        )
        assert found.route == "observed"
        assert found.solution.converged, name
        assert found.labels.dtype == np.float64
        grids.close(given.operators.hat(found.labels), expected, rtol, name)
        grids.close(found.labels, expected + given.ridge * dual, rtol, name)


USUAL = (0.3, 0.2)
KINDS = [("full", "full"), ("singular", "full"), ("thin", "primal"), ("sparse", "singular")]


@over(
    covering(
        model=ALL_MODELS,
        shape=SHAPES,
        pattern=PATTERNS,
        way=list(WAYS),
        kinds=KINDS,
        spread=[1.0, 10.0, 1e3, 1e6],
        alphas=[USUAL, (1e-6, 1e-6), (1e-6, 1e3), (1e3, 1e-3), (1e6, 1e6)],
        where=lambda kinds, spread, alphas, **_: (
            spread != 10.0 if alphas == USUAL else kinds == KINDS[0] and spread == 10.0
        ),
    )
)
def test_whatever_is_missing(model, shape, pattern, way, kinds, spread, alphas):
    given = grids.holes(model, shape, pattern, kinds, *alphas)
    rtol = 1e-9 if spread < 10 else 1e-7
    if alphas != USUAL:
        # Main effects of one side may carry next to no penalty: a condition of 1e8 beside a
        # residual of 1e-14.
        rtol = 1e-7 if given.free_mean else 1e-8
    check(given, make_weights(shape, spread), rtol, ways={way: WAYS[way]}, tol=1e-13)


@over(every(model=ALL_MODELS))
def test_cells_that_weigh_nothing_are_missing(model):
    given = grids.holes(model, (6, 5), "50%")
    full = np.where(given.observed, given.Y, 100.0)
    weights = np.where(given.observed, 1.0, 1e-13)
    found = complete(given.operators, full, weights, tol=1e-13)
    fitted = given.operators.hat(found.labels)
    grids.close(fitted, given.fitted(), 1e-8)
    heavy = complete(given.operators, given.Y, np.full((6, 5), 1e10), tol=1e-13)
    assert_allclose(
        given.operators.hat(heavy.labels)[given.observed], given.Y[given.observed], atol=1e-8
    )


@over(every(model=ALL_MODELS))
def test_weights_of_missing_cells_do_not_matter(model):
    given = grids.holes(model, (6, 5), "50%")
    weights = make_weights((6, 5))
    expected = complete(given.operators, given.Y, weights).labels
    for other in (np.nan, -1.0, 0.0, 1e9):
        found = complete(given.operators, given.Y, np.where(given.observed, weights, other)).labels
        assert_array_equal(found, expected)


@over(every(shape={"few cells": (16, 16), "many": (17, 16)}, model=ALL_MODELS))
def test_few_observed_cells_are_solved_for_directly(model, shape):
    given = grids.holes(model, shape, "none missing")
    weights = make_weights(shape)
    found = complete(given.operators, given.Y, weights, tol=1e-13)
    assert (found.solution.n_iter == 0) == (shape == (16, 16))
    assert complete(given.operators, given.Y, weights, max_direct=0).solution.n_iter > 0
    grids.close(given.operators.hat(found.labels), given.fitted(weights), 1e-9)
