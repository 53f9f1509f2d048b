"""What hold-out and its refits refuse: calls, and parts of their sentences."""

from functools import partial

import numpy as np
import pytest

import problems
from dyadlearn import TwoStepRidge, verify_holdout
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from sweeps import every, lines, over

ZEROS = np.zeros((7, 5))
ARGUMENTS = lines(
    "method setting arguments message",
    ("two_step", "E", {}, "Unknown setting 'E'"),
    ("independent", "C", {}, "Setting C leaves out tasks"),
    ("independent", "D", {}, "Setting D leaves out tasks"),
    (
        "two_step",
        "A",
        {"groups": ZEROS[:, 0]},
        "^groups are groups of left-out instances, and setting A leaves none out",
    ),
    (
        "kronecker",
        "B",
        {"task_groups": ZEROS[0]},
        "^task_groups are groups of left-out tasks, and setting B leaves none out",
    ),
    (
        "two_step",
        "B",
        {"cells": ZEROS},
        "^cells are groups of left-out single pairs, and setting B leaves none out",
    ),
    (
        "two_step",
        "B",
        {"groups": ZEROS[0]},
        r"groups must have one value for each of 7 rows.*found shape \(5,\)",
    ),
    (
        "two_step",
        "C",
        {"task_groups": ZEROS[0][:, None]},
        r"task_groups .* 5 rows, found shape \(5, 1\)",
    ),
    ("two_step", "A", {"cells": ZEROS.T}, r"each of 7 × 5 cells, found shape \(5, 7\)"),
    (
        "kronecker",
        "B",
        {"groups": [0, 1, 2, 3, 4, 5, np.nan]},
        "groups has a missing value in row 6",
    ),
    ("network", "A", {"groups": ZEROS[:, 0]}, "^groups are groups of left-out instances, and"),
    ("network", "A", {"cells": np.zeros((7, 7))}, "one edge or vertex at a time"),
    ("network", "D", {"groups": ZEROS[:, 0]}, "one edge or vertex at a time"),
)


@over(ARGUMENTS)
def test_arguments_are_refused(method, setting, arguments, message):
    problem = problems.problem(method)
    for again in (holdout, refit, partial(refit, fixed_penalty=True)):
        with pytest.raises(ValueError, match=message):
            again(problem, setting, **arguments)


@over(lines("method setting arguments message", *(tuple(c.values()) for c in ARGUMENTS)))
def test_arguments_are_refused_beside_missing_labels(method, setting, arguments, message):
    problem = problems.problem(method)
    labels = problem.Y.copy()
    labels[2, 3] = labels[3, 2] = np.nan
    with pytest.raises(ValueError, match=message):
        holdout(problem.with_grid(labels), setting, **arguments)


def test_where_must_have_the_shape_of_the_labels():
    with pytest.raises(
        ValueError, match=r"where must have .* shape \(7, 5\), found shape \(5, 7\)"
    ):
        refit(problems.problem("two_step"), "A", where=np.ones((5, 7)))


@over(every(letter="BCD"))
def test_vertices_of_networks_with_missing_edges_are_refused(letter):
    problem = problems.problem("network")
    labels = problem.Y.copy()
    labels[0, 3] = labels[3, 0] = np.nan
    with pytest.raises(
        ValueError, match=f"^Setting {letter} of a network with missing labels is not supported"
    ):
        holdout(problem.with_grid(labels), letter)


def fitted(labels=None, model=None, **options):
    """Return a two-step model of 7 × 5 labels."""
    X, Y, T = problems.data(7, 5)
    model = TwoStepRidge(**options) if model is None else model
    return model.fit(X, Y if labels is None else labels(Y), T)


@over(
    lines(
        "options error message",
        ({"n": 0}, ValueError, "n must be a whole number of at least 1"),
        ({"n": 2.5}, ValueError, "n must be a whole number of at least 1"),
        ({"setting": "E"}, ValueError, "Unknown setting 'E'"),
        ({"groups": np.zeros(8)}, ValueError, r"groups .*7 rows, found shape \(8,\)"),
    )
)
def test_verify_holdout_refuses(options, error, message):
    options = {"setting": "B"} | options
    with pytest.raises(error, match=message):
        verify_holdout(fitted(), **options)


def test_verify_holdout_is_for_complete_labels():
    def with_hole(Y):
        return np.where(np.arange(35).reshape(7, 5) == 3, np.nan, Y)

    with pytest.raises(
        ValueError, match="^verify_holdout compares the formulas for complete labels with refitting"
    ):
        verify_holdout(fitted(with_hole), "B")


@over(every(alpha=[0.0, 1e-3, 1.0]))
def test_a_single_pair_has_nothing_to_take_its_mean_from(alpha):
    """Also where λ vanishes, at full rank, and residuals are known up to scale only."""
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    model = TwoStepRidge(alpha, alpha, **kernels).fit([[2.0]], [[3.0]], [[1.5]])
    network = TwoStepRidge(alpha, alpha, kernel="precomputed", symmetry="symmetric")
    for single in (model, network.fit([[2.0]], [[3.0]])):
        with pytest.raises(LeverageError, match="^No label remains to learn from"):
            single.holdout("A")
