"""Filters where labels are missing: the penalty of all rows stays, with holes as without; or it is fitted again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, TwoStepRidge, verify_holdout
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem, Units, holdout
from dyadlearn.holdout.folds import Folds
from dyadlearn.holdout.refit import refit
from dyadlearn.settings import Setting
from sweeps import covering, every, over

M = 7
Q = 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 4))
T = RNG.normal(size=(Q, 3))
Y = RNG.normal(size=(M, Q))
HOLES = np.where(RNG.random((M, Q)) < 0.25, np.nan, Y)
BLOCK = Y.copy()
BLOCK[np.ix_([1, 4], [0, 3])] = np.nan
GROUPS = np.array([0, 1, 1, 2, 0, 2, 2])
TASK_GROUPS = np.array([0, 0, 1, 1, 0])
# Filters of both sides with their λ.
PAIRS = {
    "iterated": (IteratedTikhonov(2), 0.5, IteratedTikhonov(3), 0.2),
    "iterated and ridge": (IteratedTikhonov(2), 0.5, Tikhonov(), 0.2),
    "cut-off": (SpectralCutoff(), 1.5, SpectralCutoff(), 1.2),
    "Landweber": (Landweber(), 0.4, Landweber(3), 1.0),
}


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


def problem_of(cases, labels, name, kinds=("full", "full")) -> Problem:
    filter, alpha, task_filter, task_alpha = PAIRS[name]
    filters = {"filter": filter, "task_filter": task_filter}
    return cases.problem(
        "two_step", (M, Q), kinds, alpha, task_alpha, **filters, tol=1e-13
    ).with_grid(labels)


def grouping(letter):
    sides = {
        "groups": GROUPS if letter in "BD" else None,
        "task_groups": TASK_GROUPS if letter in "CD" else None,
    }
    return {name: labels for name, labels in sides.items() if labels is not None}


def hat_of(spectrum, filter, alpha):
    return spectrum.matrix(filter.shrinkage(spectrum.values, alpha))


def predictors(hat, kept):
    """Return the hat of the rows that stay, and what takes their labels to all rows, under the penalty of all."""
    R = np.eye(len(hat)) - hat
    hidden = ~kept
    inside = np.linalg.solve(R[np.ix_(hidden, hidden)], R[np.ix_(hidden, kept)])
    everywhere = np.zeros((len(hat), kept.sum()))
    everywhere[hidden] = -inside
    everywhere[kept] = np.eye(kept.sum()) - R[np.ix_(kept, kept)] + R[np.ix_(kept, hidden)] @ inside
    return everywhere[kept], everywhere


def twin(problem, letter, groups, task_groups):
    """Return hold-out predictions from dense Schur complements: hide, complete what confirms itself, predict."""
    hats = [hat_of(side.spectrum, side.filter, side.alpha) for side in problem.pairing.smoothers]
    expected = np.full((M, Q), np.nan)
    for group in np.unique(groups) if letter in "BD" else [None]:
        for task_group in np.unique(task_groups) if letter in "CD" else [None]:
            kept = ~np.equal(groups, group)
            task_kept = ~np.equal(task_groups, task_group)
            own, left = predictors(hats[0], kept)
            task_own, right = predictors(hats[1], task_kept)
            labels = problem.Y[np.ix_(kept, task_kept)].ravel()
            both = np.kron(own, task_own)
            missing = np.isnan(labels)
            gap = np.eye(missing.sum()) - both[np.ix_(missing, missing)]
            labels[missing] = np.linalg.solve(
                gap, both[np.ix_(missing, ~missing)] @ labels[~missing]
            )
            found = left @ labels.reshape(kept.sum(), -1) @ right.T
            cells = np.ix_(
                ~kept if group is not None else kept,
                ~task_kept if task_group is not None else task_kept,
            )
            expected[cells] = found[cells]
    return expected


@over(
    covering(
        letter="BCD",
        name=list(PAIRS),
        labels={"holes": HOLES, "block": BLOCK},
        kinds=[("full", "full"), ("singular", "primal")],
        grouped=[True, False],
    )
)
def test_rows_and_columns_leave_under_the_penalty_of_all(
    cases, letter, name, labels, kinds, grouped
):
    problem = problem_of(cases, labels, name, kinds)
    units = {"groups": GROUPS, "task_groups": TASK_GROUPS}
    units = units if grouped else {"groups": np.arange(M), "task_groups": np.arange(Q)}
    found = holdout(problem, letter, **(grouping(letter) if grouped else {}))
    assert_allclose(found, twin(problem, letter, **units), atol=1e-8)


@over(every(name=list(PAIRS)))
def test_without_holes_it_is_the_closed_form(cases, name):
    """The same folds, refitted on a grid that has no hole, are what the shortcuts of complete grids give."""
    problem = problem_of(cases, Y, name)
    for letter in "BCD":
        again = Folds(problem, Setting(letter), Units((GROUPS, TASK_GROUPS))).held_out()
        assert_allclose(again, holdout(problem, letter, **grouping(letter)), atol=1e-10)


@over(every(weighted={"": False, "weighted": True}))
def test_a_filter_is_ridge_regression_with_its_own_kernel(weighted):
    """Iterated ridge, left out, is a ridge of one on the kernel (I − H)⁻¹ − I that is really fitted again."""
    if weighted:
        weights = np.random.default_rng(3).uniform(0.3, 3.0, size=(M, Q))
    else:
        weights = None
    options = {
        "kernel": "rbf",
        "task_kernel": "rbf",
        "filter": IteratedTikhonov(2),
        "task_filter": IteratedTikhonov(2),
    }
    options["fit_intercept"] = False
    model = TwoStepRidge(0.5, 0.2, tol=1e-12, **options).fit(
        X, HOLES, tasks=T, sample_weight=weights
    )
    problem = model.fitted_.training_problem
    kernels = []
    for spectrum, alpha in zip(problem.pairing.spectra, (0.5, 0.2), strict=True):
        kernels.append(
            np.linalg.inv(np.eye(spectrum.n_rows) - hat_of(spectrum, IteratedTikhonov(2), alpha))
        )
        kernels[-1] -= np.eye(spectrum.n_rows)
    found = model.holdout("D", groups=GROUPS, task_groups=TASK_GROUPS)
    for group in range(3):
        for task_group in range(2):
            i = ~np.equal(GROUPS, group)
            j = ~np.equal(TASK_GROUPS, task_group)
            K = kernels[0][np.ix_(i, i)]
            G = kernels[1][np.ix_(j, j)]
            kernel = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
            again = TwoStepRidge(1.0, 1.0, tol=1e-12, **kernel)
            again.fit(
                K,
                HOLES[np.ix_(i, j)],
                tasks=G,
                sample_weight=None if weights is None else weights[np.ix_(i, j)],
            )
            expected = again.predict(kernels[0][np.ix_(~i, i)], kernels[1][np.ix_(~j, j)])
            assert_allclose(found[np.ix_(~i, ~j)], expected, atol=1e-8)


def test_a_filter_that_refits_is_believed():
    """Under another name and another parameter it is the ridge regression it says it is."""
    kernels = {"kernel": "rbf", "task_kernel": "rbf", "tol": 1e-12}
    for labels in (Y, HOLES, BLOCK):
        ridge = TwoStepRidge(0.25, 0.04, **kernels).fit(X, labels, tasks=T)
        named = TwoStepRidge(0.5, 0.2, filter=Squared(), task_filter=Squared(), **kernels).fit(
            X, labels, tasks=T
        )
        for letter in "ABCD":
            assert_allclose(named.holdout(letter), ridge.holdout(letter), atol=1e-10)
            if labels is Y and letter in "AD":
                assert verify_holdout(named, letter, n=5, random_state=0) < 1e-10
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
    model = TwoStepRidge(1e-9, 1.0, **options).fit(X, labels, tasks=T)
    with pytest.raises(
        LeverageError, match=r"4 of 7 rows are missing and have leverage 1 \(positions 3, 4, 5, 6\)"
    ):
        model.holdout("B", groups=np.array([0, 0, 0, 1, 1, 1, 1]))


@over(covering(fit_intercept=[True, False], letter="ABC", alpha=[1e-3, 1.0]))
def test_iterated_filter_with_tiny_regularisation_of_the_tasks_leaves_tasks_apart(
    fit_intercept, letter, alpha
):
    """The remainders of the tasks are about 1e-44, and the labels of other instances are still told apart."""
    K, G = (
        side @ side.T + np.eye(len(side))
        for side in (X, np.random.default_rng(1).normal(size=(Q, Q)))
    )
    options = {"fit_intercept": fit_intercept, "kernel": "precomputed"}
    task_filter = {"task_filter": IteratedTikhonov(4), "task_kernel": "precomputed"}
    model = TwoStepRidge(alpha, 1e-10, **task_filter, **options).fit(K, HOLES, tasks=G)
    apart = IndependentTaskRidge(alpha, **options)
    if letter != "C":
        expected = apart.fit(K, HOLES).holdout(letter)
        seen = np.isfinite(HOLES)
        assert_allclose(
            np.asarray(model.holdout(letter))[seen], np.asarray(expected)[seen], atol=1e-7
        )
        return
    centre = np.eye(Q) - fit_intercept / Q
    limit = np.linalg.matrix_power(np.linalg.pinv(centre @ G @ centre), 4)
    found = model.holdout("C")
    for task in range(Q):
        kept = np.delete(np.arange(Q), task)
        fitted = apart.fit(K, HOLES[:, kept]).predict(K)
        expected = -fitted @ limit[kept, task] / limit[task, task]
        assert_allclose(found[:, task], expected, atol=1e-6 * np.abs(expected).max())
