"""The shortcuts equal refitting: every model, setting, shape, rank, regularisation and grouping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import dyadlearn.pairing.full as full_module
import dyadlearn.pairing.new_both as new_both_module
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.pairing import Independent
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import COMPLETE, posed
from sweeps import covering, every, lines, over

LEGAL = [
    *(("independent", s) for s in "AB"),
    *((method, s) for method in ("two_step", "kronecker") for s in "ABCD"),
]
KINDS = [
    ("full", "full"),
    ("singular", "singular"),
    ("primal", "primal"),
    ("full", "primal"),
    ("primal", "singular"),
    ("singular", "full"),
]
ALPHAS = [1e-10, 1e-3, 1.0, 1e6, 1e10]
# Two-step also with its sides at opposite ends.
ALPHA_PAIRS = [(1e-10, 1e-10), (1.0, 1.0), (1e10, 1e10), (1e-10, 1e10)]
GROUPINGS = ["none", "unequal", "all but one"]
GROUPED = [(*legal, grouping) for legal in LEGAL for grouping in GROUPINGS]


def labels_of(grouping, setting, shape):
    """Return the groups or folds of a setting as keyword arguments."""
    if grouping == "none":
        return {}

    def split(size, start):
        if grouping == "all but one":
            return np.where(np.arange(size) == start % size, "one", "rest")
        # Groups of 1, 2, 3, … members, scattered over the rows.
        sizes = np.repeat(np.arange(size), np.arange(1, size + 1))[:size]
        return sizes[np.random.default_rng(start).permutation(size)]

    m, q = shape
    if setting == "A":
        return {"cells": split(m * q, 3).reshape(shape)}
    labels = {"groups": split(m, 1)} if setting in "BD" else {}
    return labels | ({"task_groups": split(q, 2)} if setting in "CD" else {})


def some_cells(shape):
    """Return a third of the cells, in every row and every column."""
    return np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 3 == 0


@over(
    covering(
        where=lambda legal, alphas, **others: legal[0] == "two_step" or alphas[0] == alphas[1],
        legal=LEGAL,
        grouping=GROUPINGS,
        kinds=KINDS[:2] + KINDS[3:5],
        shape=COMPLETE,
        alphas=ALPHA_PAIRS,
    )
)
def test_equals_refitting(cases, legal, grouping, shape, kinds, alphas):
    # The next test takes every grouping of every model to sides of either kind.
    method, setting = legal
    problem = cases.problem(method, shape, kinds, *alphas)
    # Well-conditioned kernels leave no excuse.
    allowed = 1e-8 if kinds == ("full", "full") else cases.tolerance(problem)
    labels = labels_of(grouping, setting, shape)
    some = some_cells(shape)
    expected = refit(problem, setting, **labels, where=some)
    assert cases.error(holdout(problem, setting, **labels)[some], expected[some]) <= allowed


@over(
    covering(
        legal=GROUPED, kinds=KINDS[:3:2], shape={"tall": (7, 5), "wide": (5, 7)}, share=[1e-2, 1e4]
    )
)
def test_equals_refitting_in_single_precision(cases, legal, kinds, shape, share):
    method, setting, grouping = legal
    exact = cases.problem(method, shape, kinds)
    spectrum, *tasks = (single(side) for side in exact.pairing.spectra)
    alpha, *task_alpha = (share * float(side.values.max()) for side in (spectrum, *tasks))
    alpha *= float(tasks[0].values.max()) if method == "kronecker" else 1.0
    problem = posed(method, exact.Y.astype(np.float32), spectrum, alpha, *tasks, *task_alpha)
    labels = labels_of(grouping, setting, shape)
    some = some_cells(shape)
    found = holdout(problem, setting, **labels)
    assert found.dtype == np.float64
    assert cases.error(found[some], refit(problem, setting, **labels, where=some)[some]) <= 1e-9


def single(spectrum):
    """Return a spectrum that was computed in single precision."""
    if spectrum.components is None:
        return Spectrum.from_gram(
            ((spectrum.vectors * spectrum.values) @ spectrum.vectors.T).astype(np.float32)
        )
    features = (spectrum.vectors * spectrum.values**0.5) @ spectrum.components.T
    return Spectrum.from_features(features.astype(np.float32))


@over(lines("method setting", *LEGAL))
def test_sparse_features(cases, method, setting):
    rng = np.random.default_rng(4)
    features = sparse.random(9, 4, density=0.6, random_state=1, format="csr") + sparse.eye(
        9, 4, format="csr"
    )
    if method == "independent":
        task_spectrum = None
    else:
        task_spectrum = cases.spectrum("full", cases.features("full", 5, rng))
    problem = posed(
        method, rng.normal(size=(9, 5)), Spectrum.from_features(features), 0.5, task_spectrum, 0.2
    )
    for grouping in GROUPINGS:
        labels = labels_of(grouping, setting, (9, 5))
        some = some_cells((9, 5))
        found = holdout(problem, setting, **labels)
        expected = refit(problem, setting, **labels, where=some)
        assert_allclose(found[some], expected[some], rtol=1e-9, atol=1e-10)


@over(lines("method setting", *LEGAL))
def test_a_kernel_of_zeros_predicts_zero(method, setting):
    spectrum = Spectrum.from_gram(np.zeros((4, 4)))
    task_spectrum = None if method == "independent" else Spectrum.from_gram(np.eye(3))
    problem = posed(method, np.ones((4, 3)), spectrum, 1.0, task_spectrum, 1.0)
    assert_allclose(holdout(problem, setting), np.zeros((4, 3)), atol=1e-14)


@over(lines("method setting", *LEGAL))
def test_one_group_of_everything_is_refused(cases, method, setting):
    for kinds in KINDS[:3]:
        problem = cases.problem(method, kinds=kinds)
        m, q = problem.Y.shape
        everything = {
            "A": {"cells": np.zeros((m, q))},
            "B": {"groups": np.zeros(m)},
            "C": {"task_groups": np.zeros(q)},
            "D": {"groups": np.zeros(m), "task_groups": np.zeros(q)},
        }[setting]
        with pytest.raises(ValueError, match="^No label remains to learn from"):
            holdout(problem, setting, **everything)


def test_one_row_and_one_column(cases):
    rng = np.random.default_rng(0)
    for shape in ((1, 4), (4, 1), (1, 1)):
        sides = [Spectrum.from_gram(cases.gram(n, n, rng)) for n in shape]
        Y = rng.normal(size=shape)
        for method in ("two_step", "kronecker"):
            problem = posed(method, Y, sides[0], 0.5, sides[1], 0.2)
            for setting in "ABCD":
                if (setting in "BD" and shape[0] == 1) or (setting in "CD" and shape[1] == 1):
                    with pytest.raises(ValueError, match="^No label remains to learn from"):
                        holdout(problem, setting)
                else:
                    assert_allclose(
                        holdout(problem, setting), refit(problem, setting), rtol=1e-10, atol=1e-13
                    )


# ---- both sides of every choice by cost


@over(
    covering(
        kinds=KINDS,
        shape=[(6, 4), (4, 6)],
        n_groups=[(None, None), (2, None), (None, 2), (2, 3), (3, 2)],
    )
)
def test_both_sides_of_the_loop_of_kronecker_d(cases, kinds, shape, n_groups):
    """D loops over whichever side has fewer groups: each side in turn, with and without groups."""
    problem = cases.problem("kronecker", shape, kinds)
    groups, task_groups = (
        None if n is None else np.arange(size) % n for size, n in zip(shape, n_groups, strict=True)
    )
    labels = {"groups": groups, "task_groups": task_groups}
    some = some_cells(shape)
    expected = refit(problem, "D", **labels, where=some)
    assert_allclose(holdout(problem, "D", **labels)[some], expected[some], rtol=1e-9, atol=1e-10)


@over(
    covering(
        block=[1, 60, 10**6],
        kinds=[("full", "full"), ("full", "primal"), ("full", "singular")],
        shape=COMPLETE,
        strength=1,
    )
)
def test_kronecker_d_of_many_alphas(cases, kinds, block, shape, monkeypatch):
    monkeypatch.setattr(new_both_module, "_BLOCK_NUMBERS", block)
    alphas = [1e-3, 0.0, 1.0, 0.0, 1e4]
    problem = cases.problem("kronecker", shape, kinds)
    found = new_both_module.new_both(problem.pairing, problem.Y[None, ...], alphas)[0, ...]
    assert found.shape == (len(alphas), *shape)
    for alpha, grid in zip(alphas, found, strict=True):
        some = some_cells(shape)
        assert_allclose(
            grid[some], refit(problem.at(alpha), "D", where=some)[some], rtol=1e-8, atol=1e-9
        )


@over(every(block=[1, 40], setting="BCD"))
def test_kronecker_groups_in_small_blocks(cases, setting, block, monkeypatch):
    problem = cases.problem("kronecker")
    labels = labels_of("unequal", setting, (7, 5))
    expected = holdout(problem, setting, **labels)
    monkeypatch.setattr(new_both_module, "_BLOCK_NUMBERS", block)
    assert_allclose(holdout(problem, setting, **labels), expected, rtol=1e-11)


@over(covering(kinds=KINDS, method=["independent", "two_step", "kronecker"]))
def test_large_folds_of_cells_are_solved_by_iteration(cases, method, kinds, monkeypatch):
    for alpha in (1e-3, 1e6):
        problem = cases.problem(method, (5, 4), kinds, alpha, alpha)
        for grouping in GROUPINGS[1:]:
            labels = labels_of(grouping, "A", (5, 4))
            expected = refit(problem, "A", **labels)
            with monkeypatch.context() as patch:
                patch.setattr(full_module, "_DIRECT_CELLS", 0)
                assert cases.error(holdout(problem, "A", **labels), expected) <= 1e-8, (
                    alpha,
                    grouping,
                )


# ---- what must agree with what


@over(every(kinds=KINDS[:3]))
def test_d_is_c_after_b(cases, kinds):
    problem = cases.problem("two_step", kinds=kinds)
    rows = replace(problem, pairing=Independent(problem.pairing.rows))
    half = holdout(rows, "B")
    columns = Problem.of(Independent(problem.pairing.columns), half.T)
    assert_allclose(holdout(problem, "D"), holdout(columns, "B").T, rtol=1e-11)
    labels = labels_of("unequal", "D", (7, 5))
    half = holdout(rows, "B", groups=labels["groups"])
    columns = columns.with_grid(half.T)
    expected = holdout(columns, "B", groups=labels["task_groups"]).T
    assert_allclose(holdout(problem, "D", **labels), expected, rtol=1e-11)


@over(lines("method setting", *LEGAL))
@over(every(kinds=[KINDS[0], KINDS[4]]))
def test_groups_of_one_are_leave_one_out(cases, method, setting, kinds):
    problem = cases.problem(method, kinds=kinds)
    m, q = problem.Y.shape
    rng = np.random.default_rng(1)
    singles = {
        "A": {"cells": rng.permutation(m * q).reshape(m, q)},
        "B": {"groups": rng.permutation(m)},
        "C": {"task_groups": list("edcba")},
        "D": {"groups": rng.permutation(m), "task_groups": rng.permutation(q)},
    }[setting]
    assert_allclose(
        holdout(problem, setting, **singles), holdout(problem, setting), rtol=1e-10, atol=1e-12
    )


@over(covering(grouping=GROUPINGS, kind=["full", "singular", "primal"], alpha=ALPHAS[::2]))
def test_kronecker_with_unrelated_tasks_is_independent(cases, kind, grouping, alpha):
    independent = cases.problem("independent", kinds=(kind, kind), alpha=alpha)
    tasks = Spectrum.from_gram(np.eye(5))
    pairs = posed("kronecker", independent.Y, independent.pairing.rows.spectrum, alpha, tasks)
    for setting in "BA":
        labels = labels_of(grouping, setting, (7, 5))
        error = cases.error(
            holdout(pairs, setting, **labels), holdout(independent, setting, **labels)
        )
        assert error <= cases.tolerance(independent)


@over(
    covering(
        grouping=GROUPINGS,
        kinds=KINDS,
        method=["two_step", "kronecker"],
        settings=["AA", "BC", "CB", "DD"],
    )
)
def test_swapping_the_sides_transposes(cases, method, kinds, grouping, settings):
    problem = cases.problem(method, kinds=kinds)
    spectrum, tasks = problem.pairing.spectra
    alpha, *others = problem.pairing.alphas.values()
    swapped = posed(method, problem.Y.T, tasks, (others or [alpha])[0], spectrum, alpha)
    setting, mirror = settings
    labels = labels_of(grouping, setting, (7, 5))
    mirrored = {}
    if "cells" in labels:
        mirrored["cells"] = labels["cells"].T
    if "groups" in labels:
        mirrored["task_groups"] = labels["groups"]
    if "task_groups" in labels:
        mirrored["groups"] = labels["task_groups"]
    expected = holdout(swapped, mirror, **mirrored).T
    assert_allclose(holdout(problem, setting, **labels), expected, rtol=1e-10, atol=1e-12)


@over(lines("alias setting", ("leave_x1_out", "B"), ("both", "D"), (Setting.C, "C"), ("r", "A")))
def test_names_of_other_libraries(cases, alias, setting):
    problem = cases.problem("two_step")
    assert_allclose(holdout(problem, alias), holdout(problem, setting), rtol=0)


@over(lines("method setting", *LEGAL))
def test_predictions_ignore_what_they_hold_out(cases, method, setting):
    """The point of it all: changing a label changes nothing in its own prediction."""
    problem = cases.problem(method)
    labels = problem.Y.copy()
    labels[3, 2] += 100.0
    changed = holdout(problem.with_grid(labels), setting) - holdout(problem, setting)
    assert abs(changed[3, 2]) < 1e-10
    assert np.abs(changed).max() > 0.1


@over(lines("method setting", *LEGAL))
def test_the_problem_is_left_as_it_was(cases, method, setting):
    for alpha in (1e-3, 1e3):
        problem = cases.problem(method, alpha=alpha, task_alpha=alpha)
        spectrum = problem.pairing.spectra[0]
        before = [problem.Y.copy(), spectrum.values.copy(), spectrum.vectors.copy()]
        for grouping in GROUPINGS:
            holdout(problem, setting, **labels_of(grouping, setting, (7, 5)))
        for array, copy in zip((problem.Y, spectrum.values, spectrum.vectors), before, strict=True):
            assert_allclose(array, copy, rtol=0)


@over(
    lines(
        "method setting arguments message",
        ("two_step", "E", {}, "Unknown setting 'E'"),
        ("independent", "C", {}, "Setting C"),
        ("independent", "D", {}, "Setting D"),
        ("two_step", "A", {"groups": np.zeros(7)}, "setting A"),
        ("kronecker", "A", {"task_groups": np.zeros(5)}, "setting A"),
        ("two_step", "C", {"groups": np.zeros(7)}, "groups .* setting C"),
        ("two_step", "B", {"task_groups": np.zeros(5)}, "task_groups .* setting B"),
        ("two_step", "B", {"cells": np.zeros((7, 5))}, "cells .* setting B"),
        ("two_step", "D", {"cells": np.zeros((7, 5))}, "cells .* setting D"),
        ("two_step", "B", {"groups": np.zeros(5)}, r"groups .* 7 rows, found shape \(5,\)"),
        (
            "two_step",
            "C",
            {"task_groups": np.zeros((5, 1))},
            r"task_groups .* 5 rows, found shape \(5, 1\)",
        ),
        (
            "kronecker",
            "D",
            {"groups": np.zeros(7), "task_groups": np.zeros(7)},
            r"task_groups .* 5 rows",
        ),
        (
            "two_step",
            "A",
            {"cells": np.zeros((5, 7))},
            r"cells .* 7 × 5 cells, found shape \(5, 7\)",
        ),
        (
            "kronecker",
            "B",
            {"groups": [0, 1, 2, 3, 4, 5, np.nan]},
            "groups has a missing value in row 6",
        ),
    )
)
def test_bad_input_is_refused(cases, method, setting, arguments, message):
    with pytest.raises(ValueError, match=message):
        holdout(cases.problem(method), setting, **arguments)
