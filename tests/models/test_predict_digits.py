"""How many digits of a prediction are right, against fifty digits: each side costs ε‖K‖/λ, and these add.

With a constant on each side they are the same, or one fewer.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.pairing import expansion
from fifty_digits import exact, in_fifty_digits, plain, solve
from sweeps import covering, lines, over

# Errors of so many units are let pass; of a digit more where there is a constant.
UNITS = {False: 20, True: 200}
both = {"fit_intercept": [False, True]}
ALPHAS = [(1e-10, 1e-10), (1e6, 1e-10)]


class Rows(NamedTuple):
    """A side: rows of training and new ones as a model gets them."""

    known: np.ndarray
    new: np.ndarray
    kernel: str = "precomputed"

    @in_fifty_digits
    def blocks(self):
        """Return the exact kernels of the rows of training, and of the new ones."""
        known, new = exact(self.known), exact(self.new)
        right = known.T if self.kernel == "linear" else exact(np.eye(len(known)))
        return known @ right, new @ right

    @property
    def size(self):
        return max(float(np.linalg.norm(plain(block))) for block in self.blocks())


@in_fifty_digits
def predictors(K, rows, alpha, constant):
    """Return what takes labels to predictions of rows of training, and of new ones, by ridge regression."""
    n = len(K)
    eye = exact(np.eye(n))
    mean = exact(np.full((n, n), float(constant))) / n
    centre = eye - mean
    inverse = centre @ solve(centre @ K @ centre + alpha * eye, centre)
    return [plain((block - mean[:1] @ K) @ inverse + mean[:1]) for block in (K, rows)]


@cache
def smooth(n, seed):
    """Return an RBF kernel that is close to singular."""
    rows = 0.01 * np.random.default_rng(seed).normal(size=(n + 3, 3))
    return Rows(rbf_kernel(rows[:n], gamma=0.05), rbf_kernel(rows[n:], rows[:n], gamma=0.05))


@cache
def primal(d):
    """Return what makes d features that are close to dependent."""

    @cache
    def make(n, seed):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n + 3, 1)) + 1e-3 * rng.normal(size=(n + 3, d))
        return Rows(rows[:n], rows[n:], "linear")

    return make


# Which side stays out of the coefficients: that with fewer rows of them, unless both are in the
# primal.
SIDES = {
    "fewer tasks": (smooth, 7, smooth, 5),
    "fewer instances": (smooth, 5, smooth, 7),
    "few features": (primal(3), 7, smooth, 5),
    "few task features": (smooth, 5, primal(3), 7),
    "many features": (primal(5), 7, smooth, 4),
    "primal": (primal(3), 7, primal(4), 6),
}


@cache
def sides_of(name):
    make, n, make_tasks, n_tasks = SIDES[name]
    return make(n, 1), make_tasks(n_tasks, 2)


@over(covering(alphas=ALPHAS, name=list(SIDES), **both, block=[2**27, 1]))
def test_every_side_costs_its_own_digits(name, alphas, fit_intercept, block, monkeypatch):
    """In one block, and each row by itself."""
    sides = sides_of(name)
    Y = np.random.default_rng(3).normal(size=[len(side.known) for side in sides])
    kernels = {"kernel": sides[0].kernel, "task_kernel": sides[1].kernel}
    model = TwoStepRidge(*alphas, fit_intercept=fit_intercept, **kernels)
    model.fit(sides[0].known, Y, tasks=sides[1].known)
    monkeypatch.setattr(expansion, "_BLOCK_BYTES", block)
    lost = 1 + sum(side.size / alpha for side, alpha in zip(sides, alphas, strict=True))
    exact_sides = (
        predictors(*side.blocks(), alpha, fit_intercept)
        for side, alpha in zip(sides, alphas, strict=True)
    )
    for (new, left), (new_tasks, right) in product(*map(enumerate, exact_sides)):
        expected = left @ Y @ right.T
        # Labels may cancel; errors are measured by what is added.
        added = (abs(left) @ abs(Y) @ abs(right.T)).max()
        rounding = {"rtol": 0, "atol": UNITS[fit_intercept] * 2.2e-16 * lost * added}
        X = sides[0].new if new else sides[0].known
        T = sides[1].new if new_tasks else None
        assert_allclose(model.predict(X, tasks=T), expected, **rounding)
        if new_tasks and not new:
            # The other way round, as where nothing but the spectrum knows the instances.
            asked = model.fitted_.columns(T)[1]
            turned = model.fitted_.expansion.transposed.grid(asked, None).T
            assert_allclose(turned, expected, **rounding)
        some = model.predict_pairs(X, T, [(2, 1), (0, 2), (2, 0)])
        assert_allclose(some, expected[[2, 0, 2], [1, 2, 0]], **rounding)


@over(lines("shape", (4, 5), (9, 3)))
def test_a_row_far_from_a_large_constant_column_is_warned_about(shape):
    """The constant feature of the model and a large constant column cannot be told apart: ε c² digits are lost."""
    n, d = shape
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    Z = rng.normal(size=(n + 1, d))
    Y = X[:, :1] + Z[:n, 1] + 5 + 0.1 * rng.normal(size=(5, n))
    for size, is_lost in ((1e3, False), (1e5, False), (1e8, True)):
        tasks = Z.copy()
        tasks[:, 0] = size
        model = KroneckerRidge().fit(X, Y, tasks=tasks[:n])
        model.predict(X, tasks)  # no warning: the new task has the value of the others
        tasks[n, 0] = 0.0
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.predict(X, tasks)
        assert [each.category for each in told] == [PrecisionWarning] * is_lost
        assert all("large and nearly constant in training" in str(each.message) for each in told)


@pytest.mark.parametrize("n", [5, 9, 14])
def test_rounding_of_a_large_common_part_is_warned_about(n):
    rng = np.random.default_rng(n)
    rows = 50.0 + rng.normal(size=(n, 1))
    K = (rows @ rows.T + 1.0) ** 3
    with pytest.warns(PrecisionWarning, match="small beside the largest eigenvalue"):
        IndependentTaskRidge(5e-5, kernel="precomputed", fit_intercept=True).fit(
            K, rng.normal(size=(n, 1))
        )
