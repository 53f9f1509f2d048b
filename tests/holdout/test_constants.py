"""Hold-out with constants where labels are missing or weighted: every fold is fitted again, and centred anew.

The twins are dense: a model of the rows and columns that stay, its system of observed cells with a
border of ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import TwoStepRidge
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, SpectralCutoff
from dyadlearn.holdout import Problem, Units, holdout
from dyadlearn.holdout.folds import Folds
from dyadlearn.pairing import PairKernel, TwoStep
from dyadlearn.pairing.full import hold_out
from dyadlearn.pairing.incomplete import complete_labels, part_of
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import bordered, predictor, two_step_pairs
from sweeps import covering, every, over

M = 7
Q = 5
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(M, 4)), RNG.normal(size=(Q, 3))
K, G = (np.exp(-0.3 * ((x[:, None] - x[None, :]) ** 2).sum(axis=2)) for x in FEATURES)
LINEAR = tuple(x @ x.T for x in FEATURES)
Y = 20.0 + RNG.normal(size=(M, 1)) + RNG.normal(size=(1, Q)) + 0.5 * RNG.normal(size=(M, Q))
WEIGHTS = RNG.uniform(0.2, 3.0, size=(M, Q))
GROUPS = np.array([0, 1, 1, 2, 0, 2, 2])
TASK_GROUPS = np.array([0, 0, 1, 1, 0])
ALPHA = 0.5
TASK_ALPHA = 0.2


def with_holes(
    share: float = 0.0, rows: Any = (), columns: Any = (), block: Any = None
) -> np.ndarray:
    labels = np.where(np.random.default_rng(1).random((M, Q)) < share, np.nan, Y)
    labels[list(rows)], labels[:, list(columns)] = np.nan, np.nan
    if block is not None:
        labels[np.ix_(*block)] = np.nan
    return labels


PATTERNS = {
    "some": with_holes(share=0.3),
    "most": with_holes(share=0.7),
    "one cell": with_holes(block=([2], [3])),
    "rows": with_holes(rows=[1, 5]),
    "columns": with_holes(columns=[0, 4]),
    "rows and columns": with_holes(rows=[1, 5], columns=[0]),
    "block": with_holes(block=([1, 2, 5], [0, 4])),
    "rows and some": with_holes(share=0.2, rows=[5], columns=[4]),
}
# Shares of the pair kernel; None is two-step.
MODELS = {"two-step": None, "kronecker": (1.0, 0.0, 0.0), "mixture": (0.6, 0.3, 0.2)}


def posed(
    shares: Any, kernels: tuple[np.ndarray, np.ndarray], labels: np.ndarray, weights: Any
) -> Problem:
    if shares is None:
        rows, columns = (Spectrum.from_gram(kernel, constant="free") for kernel in kernels)
        pairing = TwoStep(
            rows.smoother(problems.RIDGE, ALPHA), columns.smoother(problems.RIDGE, TASK_ALPHA)
        )
    else:
        spectra = (Spectrum.from_gram(kernel, constant="feature") for kernel in kernels)
        pairing = PairKernel(*spectra, ALPHA, shares, free_mean=True)
    return Problem.of(pairing, labels, weights, tol=1e-12)


def twin(
    shares: Any,
    kernels: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray,
    weights: Any,
    rows,
    columns,
):
    """Return what a model of some rows and columns (masks) predicts for all cells."""
    kernel, task_kernel = kernels
    weights = np.ones((M, Q)) if weights is None else weights
    if shares is None:
        at = np.ix_(rows, columns)
        P = two_step_pairs(
            kernel[np.ix_(rows, rows)],
            task_kernel[np.ix_(columns, columns)],
            ALPHA,
            TASK_ALPHA,
            True,
        )
        given = labels[at].ravel()
        dual = np.zeros(labels[at].size)
        seen = ~np.isnan(given)
        system = P[np.ix_(seen, seen)] + np.diag(1.0 / weights[at].ravel()[seen])
        dual[seen], mean = bordered(system, given[seen])
        completed = (P @ dual + dual + mean).reshape(labels[at].shape)
        left = predictor(kernel, rows, ALPHA, True)
        right = predictor(task_kernel, columns, TASK_ALPHA, True)
        return left @ completed @ right.T
    a, b, c = shares
    one = kernel + 1.0
    other = task_kernel + 1.0
    P = a * np.kron(one, other) + b * np.kron(one, np.eye(Q)) + c * np.kron(np.eye(M), other)
    seen = ~np.isnan(np.where(np.outer(rows, columns), labels, np.nan)).ravel()
    system = P[np.ix_(seen, seen)] + ALPHA * np.diag(1.0 / weights.ravel()[seen])
    dual, mean = bordered(system, labels.ravel()[seen])
    return (P[:, seen] @ dual + mean).reshape(M, Q)


def expected(
    shares: Any,
    kernels: Any,
    labels: np.ndarray,
    weights: Any,
    letter: str,
    groups: Any,
    task_groups: Any,
):
    """Return what models say that never saw a cell, or a group of rows and of columns; in A of every third cell."""
    found = np.full((M, Q), np.nan)
    everything = (np.ones(M, dtype=bool), np.ones(Q, dtype=bool))
    if letter == "A":
        for cell in np.argwhere(~np.isnan(labels))[::3]:
            cell = tuple(cell)
            hidden = labels.copy()
            hidden[cell] = np.nan
            found[cell] = twin(shares, kernels, hidden, weights, *everything)[cell]
        return found
    for group in np.unique(groups) if letter in "BD" else [None]:
        for task_group in np.unique(task_groups) if letter in "CD" else [None]:
            if group is None:
                rows, columns = everything
            else:
                rows, columns = (groups != group, everything[1])
            columns = columns if task_group is None else task_groups != task_group
            asked = np.outer(
                rows if group is None else ~rows, columns if task_group is None else ~columns
            )
            found[asked] = twin(shares, kernels, labels, weights, rows, columns)[asked]
    return found


def close(found: Any, wanted: np.ndarray) -> None:
    known = ~np.isnan(wanted)
    assert known.any()
    assert_allclose(
        np.asarray(found)[known], wanted[known], rtol=0, atol=1e-8 * np.abs(wanted[known]).max()
    )


@over(
    covering(
        model=MODELS,
        kernels={"full": (K, G), "singular": LINEAR, "mixed": (LINEAR[0], G)},
        labels=PATTERNS,
        letter="ABCD",
        grouped=[False, True],
        weighted=[False, True],
    )
)
def test_every_fold_is_fitted_again(model, kernels, labels, letter, grouped, weighted):
    weights = WEIGHTS if weighted else None
    if grouped:
        groups, task_groups = (GROUPS, TASK_GROUPS)
    else:
        groups, task_groups = (np.arange(M), np.arange(Q))
    wanted = expected(model, kernels, labels, weights, letter, groups, task_groups)
    given = {"groups": groups} if letter in "BD" else {}
    given |= {"task_groups": task_groups} if letter in "CD" else {}
    problem = posed(model, kernels, labels, weights)
    close(holdout(problem, letter, **(given if grouped else {})), wanted)


@over(covering(model=MODELS, pattern=["rows", "columns", "rows and columns"], strength=1))
def test_what_is_complete_but_for_whole_rows_has_its_shortcuts(model, pattern, monkeypatch):
    """A free mean does not change that: of a pair kernel rows without labels say nothing."""

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("solved again")

    problem = posed(model, (K, G), PATTERNS[pattern], None)
    wanted = {
        letter: expected(model, (K, G), problem.Y, None, letter, np.arange(M), np.arange(Q))
        for letter in "ABCD"
    }
    monkeypatch.setattr(Folds, "held_out", refuse)
    for letter in "ABCD":
        if model is None and letter != "A":
            with pytest.raises(AssertionError, match="solved again"):
                holdout(problem, letter)
        else:
            close(holdout(problem, letter), wanted[letter])


@over(every(model=MODELS, weighted=[False, True]))
def test_removing_the_mean_of_all_labels_first_is_another_thing(model, weighted):
    """It would pass with labels that are moved; the labels that are left out would have a say in it, though."""
    labels = PATTERNS["some"].copy()
    weights = WEIGHTS if weighted else None
    one = holdout(posed(model, (K, G), labels, weights), "B")
    labels[3] += 100.0
    other = holdout(posed(model, (K, G), labels, weights), "B")
    assert_allclose(one[3], other[3], rtol=1e-9)
    assert np.abs(one - other)[[0, 1, 2, 4, 5, 6]].max() > 1.0


@over(every(model=MODELS, weighted=[False, True]))
def test_the_last_label_leaves_nothing(model, weighted):
    labels = np.full((M, Q), np.nan)
    labels[3, 2] = 2.0
    problem = posed(model, (K, G), labels, WEIGHTS if weighted else None)
    assert_allclose(problem.complete().labels, 2.0, rtol=1e-12)
    for letter in "AB":
        with pytest.raises(ValueError, match="^No label remains to learn from"):
            holdout(problem, letter)
    labels[4, 2] = 4.0  # each is predicted by the other
    held_out = holdout(posed(model, (K, G), labels, WEIGHTS if weighted else None), "A")
    assert_allclose([held_out[3, 2], held_out[4, 2]], [4.0, 2.0], rtol=1e-10)


@over(every(model=MODELS))
def test_a_path_of_regularisations_starts_from_the_one_before(model):
    problem = posed(model, (K, G), PATTERNS["some"], None)
    folds = Folds(problem, Setting.B, Units((GROUPS, None)))
    for alpha in (10.0, 1.0, 0.1):
        close(
            folds.held_out(problem.pairing.at(alpha)),
            holdout(problem.at(alpha), "B", groups=GROUPS),
        )


@over(every(letter="BCD", filter=[IteratedTikhonov(2), SpectralCutoff()]))
def test_other_filters_keep_the_penalty_of_all_rows(letter, filter):
    """What leaves is taken out of a side as it was built: labels and a constant give predictions and that constant."""
    alpha = 1.5 if filter == SpectralCutoff() else 0.5
    spectra = [Spectrum.from_gram(kernel, constant="free") for kernel in (K, G)]
    pairing = TwoStep(*(spectrum.smoother(filter, alpha) for spectrum in spectra))
    labels = PATTERNS["one cell"]
    complete = Y.copy()
    found = holdout(Problem.of(pairing, labels, None, tol=1e-12), letter)
    moved = holdout(Problem.of(pairing, labels + 50.0, None, tol=1e-12), letter)
    assert_allclose(moved, found + 50.0, rtol=1e-10)
    # With what the others put in the place of the missing label, complete labels have the same
    # hold-out.
    for row in range(M) if letter == "B" else []:
        rows = np.setdiff1d(np.arange(M), [row])
        part = part_of(pairing, (rows, np.arange(Q)), {})
        complete[rows], complete[row] = complete_labels(part, labels[rows], tol=1e-13).labels, 0.0
        assert_allclose(found[row], hold_out(pairing, complete, Setting.B)[row], rtol=1e-8)


@over(every(symmetry=["symmetric", "antisymmetric"]))
def test_networks(symmetry):
    """An edge leaves in both directions; antisymmetric labels have no mean."""
    sign = 1.0 if symmetry == "symmetric" else -1.0
    labels = RNG.normal(size=(M, M)) + (7.0 if sign > 0 else 0.0)
    hidden = np.random.default_rng(2).random((M, M)) < 0.2
    labels = np.where(hidden | hidden.T, np.nan, labels + sign * labels.T)
    options = {
        "alpha": 0.5,
        "task_alpha": 0.5,
        "kernel": "precomputed",
        "tol": 1e-12,
        "symmetry": symmetry,
    }
    network = TwoStepRidge(**options).fit(K, labels)
    P = two_step_pairs(K, K, 0.5, 0.5, True)

    def predicted(given: np.ndarray) -> np.ndarray:
        seen = ~np.isnan(given).ravel()
        dual, mean = bordered(P[np.ix_(seen, seen)] + np.eye(seen.sum()), given.ravel()[seen])
        return (P[:, seen] @ dual + mean).reshape(M, M)

    assert_allclose(network.predict(K), predicted(labels), rtol=0, atol=1e-9)
    held_out = network.holdout("A")
    assert_allclose(held_out, sign * held_out.T, atol=1e-10)
    for i, j in [(0, 0), (2, 1), (3, 2), (4, 4), (5, 0), (6, 3)]:
        without = labels.copy()
        without[i, j] = without[j, i] = np.nan
        assert_allclose(held_out[i, j], predicted(without)[i, j], atol=1e-8)
    if sign > 0:
        moved = TwoStepRidge(**options).fit(K, labels + 1e3)
        assert_allclose(moved.holdout("A"), held_out + 1e3, rtol=1e-11)
    else:
        assert abs(network.intercept_) < 1e-9


def test_without_regularisation_a_row_without_labels_is_refused():
    """Every row has a constant of its own then; as both regularisations vanish the limit is that of small ones."""
    spectra = [Spectrum.from_gram(kernel, constant="free") for kernel in (K, G)]
    one = TwoStep(
        spectra[0].smoother(problems.RIDGE, 0.0), spectra[1].smoother(problems.RIDGE, 0.2)
    )
    with pytest.raises(LeverageError, match="have leverage 1"):
        Problem.of(one, PATTERNS["rows"]).complete()
    both, nearly = (
        TwoStep(*(s.smoother(problems.RIDGE, alpha) for s in spectra)) for alpha in (0.0, 1e-8)
    )
    for name in ("some", "rows and columns", "block"):
        found, near = (
            Problem.of(pairing, PATTERNS[name], tol=1e-14).complete().labels
            for pairing in (both, nearly)
        )
        assert_allclose(found, near, rtol=0, atol=1e-5 * np.abs(near).max())


def test_a_single_cell_has_nothing_to_take_its_mean_from():
    """Also where λ vanishes, at full rank, and residuals are known up to scale only."""
    for alpha in (0.0, 1e-3, 1.0):
        model = TwoStepRidge(alpha, alpha, kernel="precomputed", task_kernel="precomputed")
        with pytest.raises(LeverageError, match="^No label remains to learn from"):
            model.fit([[2.0]], [[3.0]], tasks=[[1.5]]).holdout("A")
        network = TwoStepRidge(alpha, alpha, kernel="precomputed", symmetry="symmetric").fit(
            [[2.0]], [[3.0]]
        )
        with pytest.raises(LeverageError, match="^No label remains to learn from"):
            network.holdout("A")
