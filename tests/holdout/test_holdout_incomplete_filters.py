"""Filters where labels are missing: the penalty of all rows stays, with holes as without; or it is fitted again."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import IndependentTaskRidge, TwoStepRidge, verify_holdout
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import SpectralCutoff, SpectralFilter
from dyadlearn.holdout.refit import refit

M = 7
Q = 5
X, Y, T = problems.data(M, Q)
BLOCK = Y.copy()
BLOCK[np.ix_([1, 4], [0, 3])] = np.nan


@dataclass(frozen=True)
class Squared(SpectralFilter):
    """Ridge regression whose parameter is the root of the ridge."""

    refits: ClassVar[bool] = True
    qualification: ClassVar[float] = 1.0

    def vanishing_residual(self, values):
        return 1.0 / values

    def _phi(self, values, alpha):
        return 1.0 / (values + alpha**2)

    def _shrinkage(self, values, alpha):
        return values / (values + alpha**2)

    def _remainder(self, values, alpha):
        return alpha**2 / (values + alpha**2)


def test_a_filter_that_refits_is_believed():
    """Under another name and another parameter it is the ridge regression it says it is."""
    kernels = {"kernel": "rbf", "task_kernel": "rbf", "tol": 1e-12}
    for labels in (Y, BLOCK):
        ridge = TwoStepRidge(0.25, 0.04, **kernels).fit(X, labels, T)
        named = TwoStepRidge(0.5, 0.2, filter=Squared(), task_filter=Squared(), **kernels).fit(
            X, labels, T
        )
        for letter in "ABCD":
            assert_allclose(named.holdout(letter), ridge.holdout(letter), atol=1e-10)
            if labels is Y and letter in "AD":
                assert verify_holdout(named, letter, n=5) < 1e-10
                some = np.add.outer(np.arange(M), np.arange(Q)) % 3 == 0
                again, expected = (
                    refit(model.fitted_.training_problem, letter, where=some)
                    for model in (named, ridge)
                )
                assert_allclose(again[some], expected[some], atol=1e-10)
    empty = np.where(np.arange(M)[:, None] == 2, np.nan, Y)
    ridge = IndependentTaskRidge(0.25, kernel="rbf").fit(X, empty)
    named = IndependentTaskRidge(0.5, kernel="rbf", filter=Squared()).fit(X, empty)
    assert_allclose(named.holdout("B"), ridge.holdout("B"), atol=1e-10)


def test_what_the_rest_does_not_determine_is_refused():
    """Four directions kept whole, and four rows that stay: any label of the others would be met."""
    labels = np.where(np.arange(M * Q).reshape(M, Q) % 9 == 0, np.nan, Y)
    options = {"task_kernel": "rbf", "filter": SpectralCutoff(), "fit_intercept": False}
    model = TwoStepRidge(1e-9, 1.0, **options).fit(X, labels, T)
    with pytest.raises(
        LeverageError, match=r"4 of 7 rows are missing and have leverage 1 \(positions 3, 4, 5, 6\)"
    ):
        model.holdout("B", groups=np.array([0, 0, 0, 1, 1, 1, 1]))
