"""How many digits of a prediction are right, against fifty digits: each side costs ε‖K‖/λ, and these add.

With a constant on each side they are the same, or one fewer.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import PrecisionWarning
from sweeps import every, lines, over


@over(every(shape=[(5, 5), (5, 7), (7, 5)]))
def test_every_side_costs_its_own_digits(shape):
    """A kernel that is close to singular costs seven digits; both sides would cost fourteen."""
    rng = np.random.default_rng(0)
    K, G = (rbf_kernel(0.01 * rng.normal(size=(n, 3)), gamma=0.05) for n in shape)
    given = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
    model = TwoStepRidge(1e-7, 1e-7, **given).fit(K, rng.normal(size=shape), tasks=G)
    assert_allclose(model.predict(K, tasks=G), model.predict(), rtol=0, atol=1e-6)


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
