"""The estimators of pair kernels: the tests of every model of pairs, shares that are chosen, rows that are known."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import problems
from dyadlearn import PairKernelRidge, PairKernelRidgeCV, landscape
from dyadlearn.selection.searching import PosedSearch
from problems import data
from sweeps import covering, every, lines, over

# Where shares are looked at, the best regularisation may stand anywhere.
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def named(shares):
    return dict(zip(("product", "per_task", "per_instance"), shares, strict=True))


# --- the estimators ------------------------------------------------------------------------------------------------

SHARES = [(1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.4, 0.3, 0.3), (0.0, 1.0, 0.0)]
ALPHAS = [0.1, 10.0, 1000.0]


@pytest.fixture(scope="module")
def table():
    """Features of both sides, some of them new, and labels in which each task has a function of its own."""
    X, Y, T = data(10, 7, 5, 4, n_new=3, noise=3.0)
    return X, Y + X[:10] @ default_rng(1).normal(size=(5, 7)) + 20.0, T


@over(covering(shares=SHARES, fit_intercept=[True, False], strength=1))
def test_features_and_their_kernels_give_the_same(table, shares, fit_intercept):
    """In the primal as far as the shares allow it, and in the dual."""
    X, Y, T = table
    m, q = Y.shape
    given = {**named(shares), "alpha": 0.7, "fit_intercept": fit_intercept}
    linear = PairKernelRidge(**given).fit(X[:m], Y, T[:q])
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    dual = PairKernelRidge(**given, **kernels).fit(X[:m] @ X[:m].T, Y, T[:q] @ T[:q].T)
    assert [side.is_primal for side in linear.fitted_.sides] == [shares[2] == 0, shares[1] == 0]
    assert not any(side.is_primal for side in dual.fitted_.sides)
    for rows, tasks in ((None, None), (X[m:], None), (None, T[q:]), (X[m:], T[q:])):
        others = [
            None if new is None else new @ own.T for new, own in ((rows, X[:m]), (tasks, T[:q]))
        ]
        assert_allclose(linear.predict(rows, tasks), dual.predict(*others), rtol=1e-8)
    # Only the proportions of the shares and the regularisation matter.
    twice = PairKernelRidge(**{name: 2 * value for name, value in given.items()})
    twice.set_params(fit_intercept=fit_intercept).fit(X[:m], Y, T[:q])
    assert_allclose(twice.predict(X[m:], T[q:]), linear.predict(X[m:], T[q:]), rtol=1e-8)
    for letter in "ABCD":
        assert_allclose(linear.holdout(letter), dual.holdout(letter), rtol=1e-8)
    assert_allclose(linear.dual_coef_, dual.dual_coef_, rtol=0, atol=1e-9)
    if fit_intercept:
        assert abs(float(np.sum(linear.dual_coef_))) < 1e-9


@over(every(letter="BD"))
def test_shares_are_chosen_with_the_regularisation(table, letter):
    X, Y, T = table
    search = PairKernelRidgeCV(ALPHAS, setting=letter).fit(X[:10], Y, T[:7])
    posed = PosedSearch(search.search_spec(), None, (None, None), [])
    tried = posed._scaled_shares(search.fitted_.pairing)
    assert search.landscape_.shape == (len(tried), len(ALPHAS))
    best = np.unravel_index(np.argmax(search.landscape_), search.landscape_.shape)
    assert search.shares_ == tried[best[0]]
    assert search.alpha_ == ALPHAS[best[1]]
    for row in (0, 2):
        model = PairKernelRidge(1.0, **named(tried[row])).fit(X[:10], Y, T[:7])
        assert_allclose(
            landscape(model, alphas=ALPHAS, setting=letter)[letter],
            search.landscape_[row],
            rtol=1e-9,
        )


@over(
    lines(
        "shares message",
        ([], "shares is empty"),
        ([(1.0, 0.0)], r"shares must be triples .* found \(1.0, 0.0\)"),
        ([(1.0, -1.0, 0.0)], "per_task must be a finite number of at least 0, found -1"),
        ([(0.0, 0.0, 0.0)], "all zero, which leaves no kernel"),
    )
)
def test_shares_that_are_none(table, shares, message):
    X, Y, T = table
    with pytest.raises(ValueError, match=message):
        PairKernelRidgeCV(ALPHAS, shares).fit(X[:10], Y, T[:7])


@over(every(shares=[(1.0, 0.3, 0.2), (0.0, 0.3, 0.2)], fit_intercept=[True, False]))
def test_null_directions_of_both_sides_do_not_multiply_rounding(shares, fit_intercept):
    """What neither features of instances nor of tasks can tell is divided by λ alone, and multiplied by zero."""
    X, Y, T = problems.data(40, 30, 5, 4)
    rng = default_rng(1)
    new = rng.normal(size=(6, 5)), rng.normal(size=(7, 4))
    found = []
    for dtype in (np.float32, np.float64):
        model = PairKernelRidge(1e-5, **named(shares), fit_intercept=fit_intercept)
        model.fit(X.astype(dtype), Y.astype(dtype), T.astype(dtype))
        rows, tasks = (part.astype(dtype) for part in new)
        found.append(
            [
                model.predict(),
                model.predict(rows),
                model.predict(rows, tasks),
                model.predict(None, tasks),
            ]
        )
    for single, double in zip(*found, strict=True):
        assert_allclose(single, double, rtol=1e-3, atol=1e-3 * np.abs(double).max())
