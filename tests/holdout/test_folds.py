"""Hold-out where labels are missing or weighted, against models that are really fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, verify_holdout
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.holdout import Units, planning
from dyadlearn.holdout.folds import Folds
from dyadlearn.settings import Setting
from sweeps import covering, every, over

M = 7
Q = 5
X, Y, T = problems.data(M, Q)
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3.0, size=(M, Q))
GROUPS = np.array([0, 1, 1, 2, 0, 2, 2])
TASK_GROUPS = np.array(list("aabba"))


def with_holes(
    *, share: float = 0.0, rows: Any = (), columns: Any = (), block: Any = None
) -> np.ndarray:
    labels = Y.copy()
    labels[np.random.default_rng(1).random((M, Q)) < share] = np.nan
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
# Tasks without labels have predictions too, zero, where they need no constant.
PAPER = {"fit_intercept": False}
MODELS = {
    "two-step": TwoStepRidge(0.5, 0.2, kernel="rbf", task_kernel="rbf", tol=1e-12, **PAPER),
    "two-step primal": TwoStepRidge(0.5, 0.2, tol=1e-12, **PAPER),
    "Kronecker": KroneckerRidge(0.5, kernel="rbf", task_kernel="rbf", tol=1e-12, **PAPER),
    "Kronecker primal": KroneckerRidge(0.5, tol=1e-12, **PAPER),
    "independent": IndependentTaskRidge(0.5, kernel="rbf", **PAPER),
    "independent primal": IndependentTaskRidge(0.5, **PAPER),
}
every_model = {"model": MODELS}
pair_models = {"model": list(MODELS.values())[:4]}
every_pattern = {"labels": PATTERNS}
new_sides = {"letter": "BCD"}
weighted_or_not = {"weights": {"": None, "weighted": WEIGHTS}}


def fitted(
    model: Any,
    labels: np.ndarray,
    weights: np.ndarray | None,
    rows: Any = None,
    columns: Any = None,
) -> Any:
    """Return a model of some rows and columns of the grid."""
    rows = np.arange(M) if rows is None else rows
    columns = np.arange(Q) if columns is None else columns
    at = np.ix_(rows, columns)
    fresh = type(model)(**model.get_params())
    return fresh.fit(
        X[rows],
        labels[at],
        tasks=T[columns],
        sample_weight=None if weights is None else weights[at],
    )


def some(things: Any, number: int) -> Any:
    """Return a few of many things, or all of a few."""
    if len(things) <= number:
        return things
    return np.random.default_rng(9).permutation(things)[:number]


def without_cells(
    model: Any, labels: np.ndarray, weights: np.ndarray | None, cells: np.ndarray
) -> np.ndarray:
    """Return predictions of models for which the cells of a fold really are NaN."""
    expected = np.full((M, Q), np.nan)
    for fold in some(np.unique(cells), 3):
        inside = cells == fold
        hidden = np.where(inside, np.nan, labels)
        expected[inside] = fitted(model, hidden, weights).predict(X)[inside]
    return expected


def without_sides(
    model: Any,
    labels: np.ndarray,
    weights: np.ndarray | None,
    letter: str,
    groups: Any,
    task_groups: Any,
) -> np.ndarray:
    """Return predictions of models that were fitted without the rows and columns of a group."""
    groups = np.arange(M) if groups is None else np.asarray(groups)
    task_groups = np.arange(Q) if task_groups is None else np.asarray(task_groups)
    expected = np.full((M, Q), np.nan)
    for group in some(np.unique(groups), 3 if letter == "B" else 2) if letter in "BD" else [None]:
        for task_group in some(np.unique(task_groups), 2) if letter in "CD" else [None]:
            new = np.flatnonzero(groups == group)
            asked = np.flatnonzero(task_groups == task_group)
            seen = np.setdiff1d(np.arange(M), new)
            known = np.setdiff1d(np.arange(Q), asked)
            own = fitted(model, labels, weights, seen, known)
            new = np.arange(M) if group is None else new
            asked = np.arange(Q) if task_group is None else asked
            tasks = None if task_group is None else T[asked]
            expected[np.ix_(new, asked)] = own.predict(X[new], tasks)
    return expected


def close(found: Any, expected: np.ndarray, rtol: float = 1e-8) -> None:
    """Compare what was fitted again."""
    found = np.asarray(found)
    known = ~np.isnan(expected)
    assert known.any()
    assert np.isfinite(found).all()
    assert_allclose(
        found[known], expected[known], rtol=0, atol=rtol * np.abs(expected[known]).max()
    )


# --- single cells --------------------------------------------------------------------------------


@over(
    covering(
        **every_model,
        **every_pattern,
        strength=1,
        also=every(**every_model, labels={"some": PATTERNS["some"]}),
    )
)
def test_single_cells(model, labels):
    own = fitted(model, labels, None)
    expected = without_cells(model, labels, None, np.arange(M * Q).reshape(M, Q))
    found = own.holdout("A")
    close(found, expected)
    close(found[np.isnan(labels)], own.completed_[np.isnan(labels)])


@over(
    covering(**every_model, labels={"holes": PATTERNS["rows and some"], "complete": Y}, strength=1)
)
def test_single_cells_with_weights(model, labels):
    expected = without_cells(model, labels, WEIGHTS, np.arange(M * Q).reshape(M, Q))
    close(fitted(model, labels, WEIGHTS).holdout("A"), expected)


@over(
    covering(
        strength=1,
        also=every(**every_model, weights={"weighted": WEIGHTS}, name=["rows and some"]),
        **every_model,
        **weighted_or_not,
        name=["some", "block"],
    )
)
def test_folds_of_cells(model, weights, name):
    labels = PATTERNS[name]
    cells = np.random.default_rng(4).integers(3, size=(M, Q))
    expected = without_cells(model, labels, weights, cells)
    own = fitted(model, labels, weights)
    close(own.holdout("A", cells=cells), expected)
    close(own.holdout("A", cells=np.array(list("xyz"))[cells]), expected)


@over(every(**every_model))
def test_the_last_label_leaves_nothing(model):
    labels = np.full((M, Q), np.nan)
    labels[3, 2] = 2.0
    assert_allclose(fitted(model, labels, None).holdout("A")[3, 2], 0.0, atol=1e-12)


# --- instances and tasks -------------------------------------------------------------------------


@over(covering(**pair_models, **new_sides, **every_pattern, strength=1))
def test_new_instances_and_tasks(model, letter, labels):
    found = fitted(model, labels, None).holdout(letter)
    close(found, without_sides(model, labels, None, letter, None, None))


@over(covering(**pair_models, **new_sides, strength=1))
def test_new_instances_and_tasks_with_weights(model, letter):
    labels = PATTERNS["rows and some"]
    found = fitted(model, labels, WEIGHTS).holdout(letter)
    close(found, without_sides(model, labels, WEIGHTS, letter, None, None))


@over(
    covering(
        **pair_models, **new_sides, **weighted_or_not, name=["some", "rows and columns", "block"]
    )
)
def test_groups_of_instances_and_tasks(model, letter, weights, name):
    labels = PATTERNS[name]
    groups = {
        "groups": GROUPS if letter in "BD" else None,
        "task_groups": TASK_GROUPS if letter in "CD" else None,
    }
    found = fitted(model, labels, weights).holdout(letter, **groups)
    close(found, without_sides(model, labels, weights, letter, **groups))


@over(
    covering(
        name=["independent", "independent primal"], **every_pattern, **weighted_or_not, strength=1
    )
)
def test_independent_tasks(name, labels, weights):
    own = fitted(MODELS[name], labels, weights)
    expected = without_sides(MODELS[name], labels, weights, "B", None, None)
    observed = ~np.isnan(labels)
    for letter in "AB":
        found = own.holdout(letter)
        close(found[observed], expected[observed])
        # Nothing has to leave for a cell that was never seen.
        close(found[~observed], own.predict(X)[~observed])
    close(
        own.holdout("B", groups=GROUPS),
        without_sides(MODELS[name], labels, weights, "B", GROUPS, None),
    )


@over(
    every(
        name=["Kronecker", "Kronecker primal", "independent"],
        pattern=["rows", "columns", "rows and columns"],
    )
)
def test_sides_without_labels_leave_the_shortcuts(name, pattern, monkeypatch):
    """What is complete but for whole rows and columns is left out by the formulas of a complete grid."""

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("solved again")

    own = fitted(MODELS[name], PATTERNS[pattern], None)
    monkeypatch.setattr(Folds, "held_out", refuse)
    for letter in "ABCD" if name != "independent" else "AB":
        own.holdout(letter)
    two_step = fitted(MODELS["two-step"], PATTERNS[pattern], None)
    with pytest.raises(AssertionError, match="solved again"):
        two_step.holdout("B")


def test_hiding_a_row_is_more_than_leaving_it_out_of_a_two_step_grid():
    """Why its rows are taken out altogether: a new instance brings no features to the model of the others."""
    model = MODELS["two-step"]
    labels = PATTERNS["some"]
    hidden = labels.copy()
    hidden[3] = np.nan
    known_features = fitted(model, hidden, None).predict(X)[3]
    assert np.abs(fitted(model, labels, None).holdout("B")[3] - known_features).max() > 1e-3
    kronecker = MODELS["Kronecker"]
    close(
        fitted(kronecker, labels, None).holdout("B")[3],
        fitted(kronecker, hidden, None).predict(X)[3],
    )


def test_a_path_of_regularisations_starts_from_the_one_before():
    for name in ("two-step", "Kronecker"):
        problem = fitted(MODELS[name], PATTERNS["some"], None).fitted_.training_problem
        folds = Folds(problem, Setting.B, Units((GROUPS, None)))
        for alpha in (10.0, 1.0, 0.1):
            task_alpha = 0.3 if name == "two-step" else alpha
            params = {"alpha": alpha} | ({"task_alpha": 0.3} if name == "two-step" else {})
            fresh = type(MODELS[name])(**(MODELS[name].get_params() | params)).fit(
                X, PATTERNS["some"], tasks=T
            )
            close(
                folds.held_out(problem.pairing.at(alpha, task_alpha)),
                fresh.holdout("B", groups=GROUPS),
            )


def test_single_cells_under_another_filter():
    options = {"kernel": "rbf", "task_kernel": "rbf", "tol": 1e-12, "filter": IteratedTikhonov(2)}
    model = TwoStepRidge(0.5, 0.2, **options, **PAPER)
    own = fitted(model, PATTERNS["some"], None)
    labels = PATTERNS["some"]
    close(own.holdout("A"), without_cells(model, labels, None, np.arange(M * Q).reshape(M, Q)))


# --- networks ------------------------------------------------------------------------------------


@over(every(symmetry=["symmetric", "antisymmetric"], holes=["edges", "vertex", "loop"]))
def test_an_edge_leaves_with_its_transpose(symmetry, holes):
    if symmetry == "symmetric":
        labels = Y[:, :4] @ Y[:, :4].T
    else:
        labels = np.subtract.outer(Y[:, 0], Y[:, 0])
    hidden = np.random.default_rng(2).random((M, M)) < 0.3
    hidden = hidden | hidden.T if holes == "edges" else np.zeros((M, M), dtype=bool)
    if holes == "vertex":
        hidden[2], hidden[:, 2] = True, True
    if holes == "loop":
        hidden[4, 4] = True
    labels = np.where(hidden, np.nan, labels)
    options = {
        "alpha": 0.5,
        "task_alpha": 0.5,
        "kernel": "rbf",
        "tol": 1e-12,
        "symmetry": symmetry,
    } | PAPER
    network = TwoStepRidge(**options).fit(X, labels)
    held_out = network.holdout("A")
    sign = 1 if symmetry == "symmetric" else -1
    assert_allclose(held_out, sign * held_out.T, atol=1e-10)
    for i, j in [(0, 0), (2, 1), (3, 2), (4, 4), (5, 0), (6, 3)]:
        without = labels.copy()
        without[i, j] = without[j, i] = np.nan
        assert_allclose(
            held_out[i, j], TwoStepRidge(**options).fit(X, without).predict(X)[i, j], atol=1e-9
        )


# --- forms and libraries -------------------------------------------------------------------------


def test_frames_are_left_out_by_id():
    rows = list("abcdefg")
    columns = list("uvwxy")
    labels = pd.DataFrame(PATTERNS["some"], rows, columns)
    own = fitted(MODELS["two-step"], PATTERNS["some"], None)
    framed = TwoStepRidge(**MODELS["two-step"].get_params()).fit(X, labels, tasks=T)
    found = framed.holdout(
        "D", groups=pd.Series(GROUPS, rows)[::-1], task_groups=pd.Series(TASK_GROUPS, columns)[::-1]
    )
    expected = own.holdout("D", groups=GROUPS, task_groups=TASK_GROUPS)
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected, rows, columns))
    cells = pd.DataFrame(np.arange(M * Q).reshape(M, Q) % 3, rows, columns)
    found = framed.holdout("A", cells=cells.iloc[::-1, ::-1])
    pd.testing.assert_frame_equal(
        found, pd.DataFrame(own.holdout("A", cells=cells.to_numpy()), rows, columns)
    )
    vector = IndependentTaskRidge().fit(X, PATTERNS["some"][:, 0]).holdout("B")
    assert_array_equal(
        vector, IndependentTaskRidge().fit(X, PATTERNS["some"][:, :1]).holdout("B")[:, 0]
    )


# --- what is too much, or has no meaning ---------------------------------------------------------


@over(every(model=[TwoStepRidge(), KroneckerRidge()]))
def test_what_takes_too_long_is_refused(model, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(70, 3))
    tasks = rng.normal(size=(60, 2))
    labels = rng.normal(size=(70, 60))
    labels[[0, 1, 2], [0, 1, 2]] = np.nan
    model.fit(rows, labels, tasks=tasks)
    # One inverse takes less than the 4200 refits.
    held_out = model.holdout("A")
    for cell in ((0, 1), (30, 20), (69, 59)):
        hidden = labels.copy()
        hidden[cell] = np.nan
        assert_allclose(
            held_out[cell],
            type(model)(tol=1e-12).fit(rows, hidden, tasks=tasks).predict()[cell],
            rtol=1e-8,
        )
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    for letter, folds in (("A", "cells="), ("D", "groups= and task_groups=")):
        again = f"^Setting {letter} of 4197 labels, .* solved again 4200 times"
        with pytest.raises(ValueError, match=f"{again}: pass folds as {folds}, for example five"):
            model.holdout(letter)
    assert np.isfinite(model.holdout("A", cells=rng.integers(2, size=(70, 60)))).all()
    assert np.isfinite(
        model.holdout("D", groups=np.arange(70) % 2, task_groups=np.arange(60) % 2)
    ).all()


@over(every(**pair_models))
def test_folds_that_leave_no_label_are_refused(model):
    labels = np.full((M, Q), np.nan)
    labels[2, :3] = 1.0
    own = fitted(model, labels, WEIGHTS)
    with pytest.raises(ValueError, match=r"^No label remains to learn from"):
        own.holdout("B")
    assert np.isfinite(own.holdout("C")).all()


@over(
    every(
        model=[KroneckerRidge(0.0, **PAPER), TwoStepRidge(0.0, 0.0, **PAPER)],
        kernel=["rbf", "linear"],
    )
)
def test_single_cells_need_no_regularisation_where_the_others_determine_them(model, kernel):
    """The rbf kernels interpolate; four by three linear features take twelve labels."""
    model.set_params(kernel=kernel, task_kernel=kernel)
    enough = PATTERNS["some"]
    assert np.count_nonzero(~np.isnan(enough)) == 26
    close(
        fitted(model, enough, None).holdout("A"),
        without_cells(model, enough, None, np.arange(M * Q).reshape(M, Q)),
    )
    exactly = np.full((M, Q), np.nan)
    exactly[:4, :3] = Y[:4, :3]
    exactly[0, 0], exactly[4, 3] = np.nan, Y[4, 3]
    if kernel == "linear":
        own = fitted(model, exactly, None)
        assert_allclose(own.predict()[~np.isnan(exactly)], exactly[~np.isnan(exactly)], rtol=1e-8)
        with pytest.raises(LeverageError, match="form a set that have leverage 1"):
            own.holdout("A")


@over(every(**new_sides))
def test_vertices_of_networks_with_missing_edges_are_refused(letter):
    labels = np.add.outer(Y[:, 0], Y[:, 0])
    labels[0, 3] = labels[3, 0] = np.nan
    network = TwoStepRidge(kernel="rbf", symmetry="symmetric").fit(X, labels)
    with pytest.raises(
        ValueError, match=rf"^Setting {letter} of a network with missing labels is not supported"
    ):
        network.holdout(letter)
    with pytest.raises(ValueError, match=r"^A network leaves out one edge or vertex at a time"):
        network.holdout("A", cells=np.zeros((M, M)))


@over(every(**every_model))
def test_arguments_are_checked_as_for_complete_labels(model):
    own = fitted(model, PATTERNS["some"], None)
    with pytest.raises(ValueError, match="setting A leaves none out"):
        own.holdout("A", groups=GROUPS)
    with pytest.raises(
        ValueError,
        match="^cells are groups of left-out single pairs, and setting B leaves none out",
    ):
        own.holdout("B", cells=np.zeros((M, Q)))
    with pytest.raises(
        ValueError, match=r"one value for each of 7 × 5 cells, found shape \(5, 7\)"
    ):
        own.holdout("A", cells=np.zeros((Q, M)))
    with pytest.raises(ValueError, match=r"groups must give .* found shape \(3,\)|groups .* 7"):
        own.holdout("B", groups=[1, 2, 3])
    if isinstance(model, IndependentTaskRidge):
        with pytest.raises(ValueError, match="knows nothing of tasks"):
            own.holdout("D")


def test_there_is_nothing_to_verify():
    own = fitted(MODELS["two-step"], PATTERNS["some"], None)
    with pytest.raises(
        ValueError, match="^verify_holdout compares the formulas for complete labels with refitting"
    ):
        verify_holdout(own, "B")
