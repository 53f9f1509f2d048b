"""Hold-out where labels are missing, weighted or listed, against references that are fitted again."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import problems
from dyadlearn.exceptions import LeverageError, NotEnoughMemoryError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.holdout import Problem, Units, holdout, plan, planning
from dyadlearn.holdout import folds as module
from dyadlearn.holdout.folds import Folds, as_splitter
from dyadlearn.labels import Labels
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import close
from references import left_out
from sweeps import covering, every, lines, over

M = 7
Q = 5
ALPHAS = (0.5, 0.2)
UNITS = {
    "cells": default_rng(4).integers(4, size=(M, Q)),
    "groups": np.array([0, 1, 1, 2, 0, 2, 2]),
    "task_groups": np.array([0, 0, 1, 1, 0]),
}
NAMES = {"A": ["cells"], "B": ["groups"], "C": ["task_groups"], "D": ["groups", "task_groups"]}
KINDS = [("full", "full"), ("singular", "primal"), ("thin", "sparse")]
HOLES = ["one", "60%", "rows", "columns", "block", "rows and some"]
# A third of the pairs, in every row and column.
SOME = np.add.outer(np.arange(M), np.arange(Q)) % 3 == 0


def with_holes(Y, name):
    """Return labels of which some are missing."""
    observed = np.ones(Y.shape, dtype=bool)
    if name == "block":
        observed[np.ix_([1, 2, 5], [0, 4])] = False
    elif name == "one":
        observed[2, 3] = False
    else:
        rng = default_rng(1)
        observed = problems.pattern(name, Y.shape, rng)
        if name.endswith("some"):
            observed &= problems.pattern("20%", Y.shape, rng)
    return np.where(observed, Y, np.nan)


def made(
    method,
    holes="30%",
    kinds=KINDS[0],
    *,
    alphas=ALPHAS,
    weighted=False,
    constant=False,
    listed=False,
    **options,
):
    """Return a problem with missing labels and its reference."""
    rng = default_rng(0)
    sides = tuple(problems.features(kind, n, rng) for kind, n in zip(kinds, (M, Q), strict=True))
    Y = with_holes(rng.normal(size=(M, Q)) + 20.0 * constant, holes)
    weights = rng.uniform(0.2, 3.0, size=(M, Q)) if weighted else None
    options = {"constant": constant, "tol": 1e-13} | options
    problem, reference = problems.twins(method, sides, alphas, Y, weights, kinds=kinds, **options)
    if listed:
        problem = Problem(problem.pairing, problem.labels.listed(), tol=1e-13)
    return problem, reference


def units_of(setting, problem, grouped):
    """Return groups for `holdout`; a list of labels has folds of its pairs."""
    if not grouped:
        return {}
    units = {name: UNITS[name] for name in NAMES[setting]}
    if setting == "A":
        units["cells"] = problem.labels.of(units["cells"])
    return units


# --- held-out predictions are those of refits -------------------------------------------------------------


def agree(problem, reference, setting, grouped):
    """Compare some predictions with refits."""
    found = holdout(problem, setting, **units_of(setting, problem, grouped))
    units = {name: UNITS[name] for name in NAMES[setting]} if grouped else {}
    where = SOME if problem.labels.grid is not None else SOME & ~np.isnan(reference.Y)
    expected = left_out(reference, setting, **units, where=where)
    found = found[problem.labels.of(where)]
    expected = expected[where]
    # Independent tasks without labels have no constant.
    assert_array_equal(np.isnan(found), np.isnan(expected))
    close(np.nan_to_num(found), np.nan_to_num(expected), 1e-8)


@over(
    covering(
        method=["two_step", "kronecker", "independent"],
        setting="ABCD",
        holes=HOLES,
        kinds=KINDS,
        constant=[False, True],
        weighted=[False, True],
        grouped=[False, True],
        listed=[False, True],
        where=lambda method, setting, listed, **_: (
            method != "independent" or (setting in "AB" and not listed)
        ),
    )
)
def test_held_out_predictions_are_those_of_refits(
    method, setting, holes, kinds, constant, weighted, grouped, listed
):
    problem, reference = made(
        method, holes, kinds, weighted=weighted, constant=constant, listed=listed
    )
    agree(problem, reference, setting, grouped)


FILTERS = {
    "iterated": (IteratedTikhonov(2), IteratedTikhonov(3)),
    "iterated and ridge": (IteratedTikhonov(2), Tikhonov()),
    "cut-off": (SpectralCutoff(), SpectralCutoff()),
    "Landweber": (Landweber(), Landweber(3)),
}
ITERATED = [FILTERS["iterated"], FILTERS["iterated and ridge"]]


@over(
    covering(
        filters=FILTERS,
        setting="ABCD",
        holes=["30%", "block"],
        kinds=KINDS[:2],
        constant=[False, True],
        grouped=[False, True],
        weighted=[False, True],
        # Models that keep a direction whole take no weights.
        where=lambda filters, weighted, **_: not weighted or filters in ITERATED,
    )
)
def test_rows_and_columns_leave_under_the_penalty_of_all(
    filters, setting, holes, kinds, constant, grouped, weighted
):
    # With λ = 0.45 no number of steps is decided by rounding.
    alphas = (2.0, 2.0) if SpectralCutoff() in filters else (0.45, 0.2)
    options = {"alphas": alphas, "filters": filters, "constant": constant, "weighted": weighted}
    problem, reference = made("two_step", holes, kinds, **options)
    agree(problem, reference, setting, grouped)


@over(
    covering(
        method=["two_step", "kronecker", "independent"],
        holes=["rows", "columns", "rows and columns"],
        constant=[False, True],
    )
)
def test_rows_and_columns_without_labels_leave_the_closed_form(
    method, holes, constant, monkeypatch
):
    """Of a pair kernel and of independent tasks, rows without labels say nothing; of two-step models they do."""

    def refuse(*args, **options):
        raise AssertionError("solved again")

    monkeypatch.setattr(Folds, "held_out", refuse)
    problem, reference = made(method, holes, constant=constant)
    for setting in "AB" if method == "independent" else "ABCD":
        if method == "two_step" and setting != "A":
            with pytest.raises(AssertionError, match="solved again"):
                holdout(problem, setting)
        else:
            agree(problem, reference, setting, grouped=False)


@over(
    covering(
        method=["two_step", "kronecker"],
        constant=[False, True],
        setting="ABCD",
        lacks_lines=[False, True],
    )
)
def test_a_list_that_lacks_no_pair_has_the_closed_form_of_its_grid(
    method, constant, setting, lacks_lines
):
    holes = "rows and columns" if lacks_lines else "none missing"
    problem, reference = made(method, holes, ("thin", "primal"), constant=constant)
    listed = Problem(problem.pairing, problem.labels.listed(), tol=1e-13)
    how, expected = plan(listed, Setting(setting)), plan(problem, Setting(setting))
    assert (how.method, how.reason) == (expected.method, expected.reason)
    close(how.held_out(), expected.held_out()[problem.labels.observed], 1e-10)
    agree(listed, reference, setting, grouped=True)


@over(every(method=["two_step", "kronecker"], kinds=[KINDS[0], ("primal", "primal")]))
def test_single_pairs_need_no_regularisation_where_the_others_determine_them(method, kinds):
    """Kernels of full rank interpolate; five by three features take fifteen labels."""
    agree(*made(method, "30%", kinds, alphas=(0.0, 0.0)), "A", grouped=False)


def test_labels_that_features_just_determine_are_refused():
    problem, _ = made("kronecker", "30%", ("primal", "primal"), alphas=(0.0, 0.0))
    exactly = np.full((M, Q), np.nan)
    exactly[:5, :3] = 1.0
    exactly[0, 0], exactly[6, 4] = np.nan, 1.0
    with pytest.raises(LeverageError, match="form a set that have leverage 1"):
        holdout(problem.with_grid(exactly), "A")


def test_a_row_that_is_a_problem_of_its_own_needs_labels():
    """Without regularisation of the instances, every row has a constant of its own."""
    problem, _ = made("two_step", "rows", alphas=(0.0, 0.2), constant=True)
    with pytest.raises(LeverageError, match="have leverage 1"):
        problem.complete()


@over(every(method=["two_step", "kronecker"], weighted=[False, True], constant=[False, True]))
def test_the_last_label_leaves_nothing(method, weighted, constant):
    problem, _ = made(method, weighted=weighted, constant=constant)
    labels = np.full((M, Q), np.nan)
    labels[3, 2] = 2.0
    alone = problem.with_grid(labels)
    message = "^No label remains to learn from"
    with pytest.raises(ValueError, match=message):
        holdout(alone, "B")
    if not constant:
        assert_allclose(holdout(alone, "A")[3, 2], 0.0, atol=1e-12)
        return
    assert_allclose(alone.complete().labels, 2.0, rtol=1e-12)
    with pytest.raises(ValueError, match=message):
        holdout(alone, "A")
    labels[4, 2] = 4.0  # each is predicted by the other
    held_out = holdout(problem.with_grid(labels), "A")
    assert_allclose([held_out[3, 2], held_out[4, 2]], [4.0, 2.0], rtol=1e-10)


def test_folds_of_a_list_that_nothing_is_left_of_are_refused():
    problem, _ = made("kronecker", kinds=("thin", "primal"), listed=True)
    message = "^No label remains to learn from"
    with pytest.raises(ValueError, match=message):
        holdout(problem, Setting.B, groups=np.zeros(M))
    one = Labels((np.array([3]), np.array([2])), np.array([1.0]), (M, Q))
    row = Labels((np.array([3, 3]), np.array([2, 4])), np.array([1.0, 2.0]), (M, Q))
    for labels, setting in ((row, "B"), (one, "B"), (one, "C"), (one, "D")):
        with pytest.raises(ValueError, match=message):
            holdout(Problem(problem.pairing, labels), Setting(setting))
    # A model without labels predicts zero, unless it has a mean.
    assert_array_equal(holdout(Problem(problem.pairing, one), Setting.A), [0.0])
    free, _ = made("kronecker", constant=True)
    with pytest.raises(ValueError, match=message):
        holdout(Problem(free.pairing, one), Setting.A)


def test_other_filters_of_a_list_leave_out_pairs_alone():
    problem, reference = made("two_step", filters=FILTERS["iterated"], listed=True)
    agree(problem, reference, "A", grouped=False)
    for setting in "BCD":
        message = "^Settings B, C and D of observed pairs fit the model again for each fold"
        with pytest.raises(ValueError, match=message):
            holdout(problem, Setting(setting), **units_of(setting, problem, grouped=True))


def test_folds_of_lists_keep_the_digits_that_their_kernel_loses():
    """As many products of features as pairs, and next to no regularisation: iterations find six digits."""
    X, Y, T = problems.data(8, 6, 6, 6, missing=0.3)
    sides = [Spectrum.from_features(side) for side in (X, T)]
    smoothers = (side.smoother(Tikhonov(), 1e-9) for side in sides)
    for pairing in (Kronecker(*sides, 1e-10), TwoStep(*smoothers)):
        for setting in (Setting.A, Setting.D):
            found = holdout(Problem(pairing, Labels.of_grid(Y).listed()), setting)
            close(found, holdout(Problem.of(pairing, Y), setting)[~np.isnan(Y)], 1e-12)


# --- folds ------------------------------------------------------------------------------------------------


def cut(problem, setting, cv=None):
    """Return folds that a splitter makes."""
    return Folds(problem, setting, as_splitter(cv, setting).units(problem.labels))


# --- what costs too much ----------------------------------------------------------------------------------


def test_more_folds_than_there_is_memory_for_are_refused(monkeypatch):
    problem, _ = made("kronecker", listed=True)
    n = problem.labels.size
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda _: 1000)
    message = rf"^Leaving out {n} folds of {n} observed pairs needs .*: pass groups"
    with pytest.raises(NotEnoughMemoryError, match=message):
        Folds(problem, Setting.A, Units())


@over(every(listed=[False, True]))
def test_systems_too_large_for_a_formula_are_solved_again(listed, monkeypatch):
    problem, _ = made("kronecker", kinds=("thin", "primal"), listed=listed)
    exact = {letter: holdout(problem, Setting(letter)) for letter in "ABCD"}
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    for letter, expected in exact.items():
        how = plan(problem, Setting(letter))
        assert how.method == "leave-one-out, refitted"
        assert how.n_solves == {"A": expected.size, "B": M, "C": Q, "D": M * Q}[letter]
        close(holdout(problem, Setting(letter)), expected, 1e-8)
    monkeypatch.setattr(module, "_MOST_FOLDS", 3)
    folds = {"A": "cells=", "B": "groups=", "C": "task_groups=", "D": "groups= and task_groups="}
    for letter, name in folds.items():
        message = f"^Setting {letter} of .* solved again .* times: pass folds as {name}, for exam"
        with pytest.raises(ValueError, match=message):
            holdout(problem, Setting(letter))


def test_folds_that_stop_short_are_told(monkeypatch):
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    monkeypatch.setattr(planning, "_MOST_REFITS", 0.0)
    problem, _ = made("kronecker", alphas=(1e-3, 1e-3), listed=True)
    problem = Problem(problem.pairing, problem.labels, tol=1e-10, max_iter=2)
    folds = cut(problem, Setting.A, 3)
    message = "^Conjugate gradients stopped in 3 of 3 folds after 2 iterations at a relative"
    with pytest.warns(ConvergenceWarning, match=message) as told:
        folds.held_out()
    assert told[0].filename == __file__
    assert not folds.converged
    with pytest.warns(ConvergenceWarning, match=message) as told:
        holdout(problem, Setting.A, cells=np.arange(problem.labels.size) % 3)
    assert told[0].filename == __file__


@over(lines("setting method", ("D", "two_step"), ("A", "kronecker")))
def test_lists_in_every_library(library, setting, method):
    rng = default_rng(0)
    X, T, y = rng.normal(size=(M, 3)), rng.normal(size=(Q, 2)), rng.normal(size=25) + 2.0
    places = np.divmod(np.sort(rng.choice(M * Q, 25, replace=False)), Q)
    units = {name: UNITS[name] for name in NAMES[setting]}
    if setting == "A":
        units["cells"] = units["cells"][places]

    def found(put):
        kind = "free" if method == "two_step" else "feature"
        sides = [Spectrum.from_features(put(side), constant=kind) for side in (X, T)]
        problem = problems.posed(method, put(np.zeros((M, Q))), sides[0], 0.5, sides[1], 0.5)
        labels = Labels(places, put(y), (M, Q))
        return holdout(Problem(problem.pairing, labels, tol=1e-9), Setting(setting), **units)

    values = found(library.asarray)
    assert type(values) is type(library.asarray(y))
    close(library.to_numpy(values), found(np.asarray), 1e3 * library.rtol)


def test_a_list_has_no_grid():
    problem, _ = made("kronecker", listed=True)
    message = f"^This method needs a grid of {M} × {Q} labels, but the model was fitted on a list"
    with pytest.raises(ValueError, match=message):
        _ = problem.Y
