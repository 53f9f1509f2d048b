"""Observed pairs that are held out against models that were really fitted without them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.filters import IteratedTikhonov, Tikhonov
from dyadlearn.holdout import Problem, Units, holdout, plan, planning
from dyadlearn.holdout import folds as module
from dyadlearn.holdout.folds import Folds, as_splitter, folds_of
from dyadlearn.holdout.intervals import FlatIntervals
from dyadlearn.labels import Labels
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import ALL_MODELS, bordered, close, features, spectrum, two_step_pairs
from sweeps import covering, every, lines, over

KINDS = {"full": ("full", "full"), "thin": ("thin", "primal"), "sparse": ("sparse", "singular")}
SHAPES = {"tall": (8, 5), "wide": (5, 8), "square": (6, 6)}
GROUPED = {"A": ("cells",), "B": ("groups",), "C": ("task_groups",), "D": ("groups", "task_groups")}


class Given:
    """A model of observed pairs, with the dense kernels that its twin refits."""

    def __init__(self, model, shape, kinds, *, weighted=False, seed=0, alpha=0.5, task_alpha=0.2):
        rng = np.random.default_rng([seed, *shape])
        self.constant, self.model = model.endswith(" + 1"), model.removesuffix(" + 1")
        self.alphas = (alpha, task_alpha)
        sides = [features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True)]
        if self.constant:
            kept = {"kronecker": "feature"}.get(self.model, "free")
        else:
            kept = None
        spectra = [
            spectrum(kind, side, constant=kept) for kind, side in zip(kinds, sides, strict=True)
        ]
        self.kernels = [side @ side.T for side in sides]
        self.Y = rng.normal(size=shape) + 3.0 * self.constant
        self.Y[rng.random(shape) < 0.4] = np.nan
        self.Y[2], self.Y[:, 3] = np.nan, np.nan  # which count in two-step models all the same
        self.weights = rng.uniform(0.2, 3.0, shape) if weighted else None
        self.pairing = Kronecker(*spectra, alpha, free_mean=self.constant)
        if self.model == "two-step":
            smoothers = (
                side.smoother(Tikhonov(), ridge)
                for side, ridge in zip(spectra, self.alphas, strict=True)
            )
            self.pairing = TwoStep(*smoothers)
        self.rows, self.columns = np.nonzero(~np.isnan(self.Y))
        own = None if self.weights is None else self.weights[self.rows, self.columns]
        labels = Labels((self.rows, self.columns), self.Y[self.rows, self.columns], shape, own)
        self.problem = Problem(self.pairing, labels, tol=1e-13)
        self.groups = {
            "groups": rng.integers(0, 3, shape[0]),
            "task_groups": rng.integers(0, 3, shape[1]),
            "cells": rng.integers(0, 4, self.rows.size),
        }

    def refitted(self, setting, groups):
        """Return some pairs, and what dense systems without the fold of each predict for it."""
        m, q = self.Y.shape
        rows = np.asarray(groups.get("groups", np.arange(m)))
        columns = np.asarray(groups.get("task_groups", np.arange(q)))
        cells = groups.get("cells", np.arange(self.rows.size))
        pairs = np.arange(self.rows.size)[::4]
        found = np.full(pairs.size, np.nan)
        for place, pair in enumerate(pairs):
            out = {
                "A": cells == cells[pair],
                "B": rows[self.rows] == rows[self.rows[pair]],
                "C": columns[self.columns] == columns[self.columns[pair]],
            }
            out["D"] = out["B"] | out["C"]
            stay = ~out[setting]
            kept = [np.arange(m), np.arange(q)]
            if setting in "BD":
                kept[0] = np.flatnonzero(rows != rows[self.rows[pair]])
            if setting in "CD":
                kept[1] = np.flatnonzero(columns != columns[self.columns[pair]])
            found[place] = self._without(stay, kept, pair)
        return pairs, found

    def _without(self, stay, kept, pair):
        """Return the prediction for one pair of a model of some pairs, rows and columns."""
        K, G = self.kernels
        alpha, _ = self.alphas
        y = self.Y[self.rows, self.columns][stay]
        if self.weights is None:
            ridge = np.ones(y.size)
        else:
            ridge = 1.0 / self.weights[self.rows, self.columns][stay]
        if self.model == "kronecker":
            K = K + self.constant
            G = G + self.constant
            rows = self.rows[stay]
            columns = self.columns[stay]
            c = alpha
            P = K[np.ix_(rows, rows)] * G[np.ix_(columns, columns)]
            cross = K[self.rows[pair], rows] * G[self.columns[pair], columns]
        else:
            rows, columns = (
                np.searchsorted(k, at[stay])
                for k, at in zip(kept, (self.rows, self.columns), strict=True)
            )
            own = [kernel[np.ix_(k, k)] for kernel, k in zip((K, G), kept, strict=True)]
            c = 1.0
            P = two_step_pairs(*own, *self.alphas, self.constant)
            at = rows * kept[1].size + columns
            # The function on the grid that stays, and from there to a row or a column that left,
            # each by its own ridge.
            left, right = (
                self._reaching(kernel, k, ridge_, place)
                for kernel, k, ridge_, place in zip(
                    (K, G), kept, self.alphas, (self.rows[pair], self.columns[pair]), strict=True
                )
            )
            cross = np.kron(left, right) @ P[:, at]
            P = P[np.ix_(at, at)]
        system = P + c * np.diag(ridge)
        if self.constant:
            dual, mean = bordered(system, y)
        else:
            dual, mean = (np.linalg.solve(system, y), 0.0)
        return cross @ dual + mean

    def _reaching(self, kernel, kept, alpha, place):
        """Return how a function of the rows that stay, which fits itself, reaches one that may have left."""
        inside = np.flatnonzero(kept == place)
        if inside.size:
            return np.eye(kept.size)[inside[0]]
        own = kernel[np.ix_(kept, kept)]
        row = kernel[place, kept]
        if self.constant:
            row = row - own.mean(axis=0)
            own = own - own.mean(axis=0)
            row = row - row.mean()
            own = own - own.mean(axis=1, keepdims=True)
        # Of a function K c of the side, what K says of another row: its part in the null space of K
        # is none of it.
        return row @ np.linalg.pinv(own, rcond=1e-10) + self.constant / kept.size


def cut(problem, setting, cv=None):
    """Return folds that a splitter makes."""
    return Folds(problem, setting, as_splitter(cv, setting).units(problem.labels))


@over(
    covering(
        model=ALL_MODELS,
        setting=list("ABCD"),
        shape=SHAPES,
        kinds=KINDS,
        weighted=[False, True],
        grouped=[True, False],
    )
)
def test_folds_are_those_of_refitting(model, setting, shape, kinds, weighted, grouped):
    given = Given(model, shape, kinds, weighted=weighted)
    # One side by groups, or all of what leaves; in D what is not given leaves one at a time.
    names = GROUPED[setting] if grouped else GROUPED[setting][:1]
    groups = {name: given.groups[name] for name in names}
    pairs, expected = given.refitted(setting, groups)
    close(holdout(given.problem, Setting(setting), **groups)[pairs], expected, 1e-8)


@over(covering(model=ALL_MODELS, setting=list("ABCD"), kinds=KINDS, weighted=[False, True]))
def test_one_at_a_time_is_refitting(model, setting, kinds, weighted):
    given = Given(model, (8, 6), kinds, weighted=weighted)
    pairs, expected = given.refitted(setting, {})
    close(holdout(given.problem, Setting(setting))[pairs], expected, 1e-9)


@over(every(model=ALL_MODELS, setting=list("ABCD")))
def test_folds_are_those_of_the_grid_with_holes(model, setting):
    given = Given(model, (8, 5), KINDS["thin"])
    groups = {name: given.groups[name] for name in GROUPED[setting]}
    whole = Problem.of(given.pairing, given.Y, None, tol=1e-13)
    named = dict(groups)
    if setting == "A":
        named["cells"] = np.zeros(given.Y.shape, dtype=int)
        named["cells"][given.rows, given.columns] = groups["cells"]
    expected = holdout(whole, Setting(setting), **named)[given.rows, given.columns]
    close(holdout(given.problem, Setting(setting), **groups), expected, 1e-8)


def test_a_filter_of_another_kind_is_left_out_by_pairs_alone():
    given = Given("two-step", (9, 7), KINDS["full"])
    pairing = TwoStep(
        given.pairing.rows, given.pairing.columns.spectrum.smoother(IteratedTikhonov(2), 0.3)
    )
    problem = Problem(pairing, given.problem.labels, tol=1e-13)
    whole = Problem.of(pairing, given.Y, None, tol=1e-13)
    close(holdout(problem, Setting.A), holdout(whole, Setting.A)[given.rows, given.columns], 1e-8)
    for setting in "BCD":
        with pytest.raises(
            ValueError,
            match="^Settings B, C and D of observed pairs fit the model again for each fold",
        ):
            holdout(
                problem, Setting(setting), **{name: given.groups[name] for name in GROUPED[setting]}
            )


def test_folds_of_lists_keep_the_digits_that_their_kernel_loses():
    """As many products of features as cells, and next to no regularisation: iterations find six digits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 6))
    T = rng.normal(size=(6, 6))
    Y = rng.normal(size=(8, 6))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    rows, columns = np.nonzero(~np.isnan(Y))
    labels = Labels((rows, columns), Y[rows, columns], Y.shape)
    sides = [Spectrum.from_features(side) for side in (X, T)]
    for pairing in (
        Kronecker(*sides, 1e-10),
        TwoStep(*(side.smoother(Tikhonov(), 1e-9) for side in sides)),
    ):
        for setting in Setting:
            found = holdout(Problem(pairing, labels), setting)
            close(found, holdout(Problem.of(pairing, Y), setting)[rows, columns], 1e-12)


# --- folds -------------------------------------------------------------------------------------------------------


def test_labels_of_groups_may_be_anything():
    given = Given("kronecker", (9, 7), KINDS["thin"])
    numbers = given.groups["groups"]
    expected = holdout(given.problem, Setting.B, groups=numbers)
    for groups in (
        numbers * 100 - 7,
        [f"g{number}" for number in numbers],
        numbers.astype(float),
        list(numbers),
    ):
        assert_array_equal(holdout(given.problem, Setting.B, groups=groups), expected)


def test_every_pair_is_tested_once_and_never_trained_on():
    given = Given("two-step", (11, 7), KINDS["full"])
    labels = given.problem.labels
    for setting in "ABCD":
        groups = {name: given.groups[name] for name in GROUPED[setting]}
        both = (groups.get("groups"), groups.get("task_groups"))
        folds = folds_of(labels, Setting(setting), Units.of_groups(labels, Setting(setting), both))
        assert_array_equal(
            np.sort(np.concatenate([fold.test for fold in folds])), np.arange(labels.size)
        )
        for fold in folds:
            train = np.flatnonzero(~fold.left)
            test = fold.test
            rows, columns = fold.staying
            assert not set(train) & set(test)
            assert np.isin(labels.places[0][train], rows).all()
            assert np.isin(labels.places[1][train], columns).all()
            if setting in "BD":  # rows without labels leave with their group
                assert_array_equal(
                    rows,
                    np.flatnonzero(groups["groups"] != groups["groups"][labels.places[0][test[0]]]),
                )
            else:
                assert_array_equal(rows, np.arange(11))


@over(
    every(
        model=["two-step", "two-step + 1", "kronecker", "kronecker + 1"],
        setting=list("ABCD"),
        lacks_lines=[False, True],
    )
)
def test_a_list_that_lacks_no_pair_has_the_closed_form_of_its_grid(model, setting, lacks_lines):
    given = Given(model, (8, 6), KINDS["thin"])
    Y = np.random.default_rng(1).normal(size=(8, 6))
    if lacks_lines:
        Y[2] = np.nan
        Y[:, 3] = np.nan
    grid = Problem(given.pairing, Labels.of_grid(Y), tol=1e-13)
    listed = Problem(given.pairing, grid.labels.listed(), tol=1e-13)
    observed = grid.labels.observed
    how = plan(listed, Setting(setting))
    assert (how.method, how.reason) == (
        plan(grid, Setting(setting)).method,
        plan(grid, Setting(setting)).reason,
    )
    close(how.held_out(), plan(grid, Setting(setting)).held_out()[observed], 1e-10)
    groups = {name: given.groups[name] for name in GROUPED[setting] if name != "cells"}
    close(
        holdout(listed, Setting(setting), **groups),
        holdout(grid, Setting(setting), **groups)[observed],
        1e-8,
    )
    if setting == "A":
        cells = np.random.default_rng(2).integers(0, 4, Y.shape)
        expected = holdout(grid, Setting.A, cells=cells)[observed]
        close(holdout(listed, Setting.A, cells=cells[observed]), expected, 1e-8)


def test_folds_that_nothing_is_left_of_are_refused():
    given = Given("kronecker", (9, 7), KINDS["thin"])
    message = "^No label remains to learn from"
    with pytest.raises(ValueError, match=message):
        holdout(given.problem, Setting.B, groups=np.zeros(9))
    one = Labels((np.array([3]), np.array([2])), np.array([1.0]), (9, 7))
    row = Labels((np.array([3, 3]), np.array([2, 4])), np.array([1.0, 2.0]), (9, 7))
    for labels, setting in ((row, "B"), (one, "B"), (one, "C"), (one, "D")):
        with pytest.raises(ValueError, match=message):
            holdout(Problem(given.pairing, labels), Setting(setting))
    # A model without labels predicts zero, unless it has a mean.
    assert_array_equal(holdout(Problem(given.pairing, one), Setting.A), [0.0])
    with pytest.raises(ValueError, match=message):
        holdout(Problem(Given("kronecker + 1", (9, 7), KINDS["thin"]).pairing, one), Setting.A)


def test_more_folds_than_there_is_memory_for_are_refused(monkeypatch):
    given = Given("kronecker", (9, 7), KINDS["thin"])
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda _: 1000)
    message = rf"^Leaving out {given.rows.size} folds of {given.rows.size} observed pairs needs .*: pass groups"
    with pytest.raises(NotEnoughMemoryError, match=message):
        Folds(given.problem, Setting.A, Units())


def test_systems_too_large_for_a_formula_are_solved_again(monkeypatch):
    given = Given("kronecker", (9, 7), KINDS["thin"])
    exact = {letter: holdout(given.problem, Setting(letter)) for letter in "ABCD"}
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    for letter, expected in exact.items():
        how = plan(given.problem, Setting(letter))
        assert (how.method, how.n_solves) == (
            "leave-one-out, refitted",
            {"A": expected.size, "B": 8, "C": 6}.get(letter, 48),
        )
        close(holdout(given.problem, Setting(letter)), expected, 1e-8)
    monkeypatch.setattr(module, "_MOST_FOLDS", 3)
    for letter, name in (
        ("A", "cells="),
        ("B", "groups="),
        ("C", "task_groups="),
        ("D", "groups= and task_groups="),
    ):
        message = (
            f"^Setting {letter} of .* solved again .* times: pass folds as {name}, for example five"
        )
        with pytest.raises(ValueError, match=message):
            holdout(given.problem, Setting(letter))


@over(
    covering(
        strength=1,
        model=ALL_MODELS,
        setting=list("ABCD"),
        splitter={"five": None, "two": 2},
    )
)
def test_splitters_of_tables_make_folds(model, setting, splitter):
    given = Given(model, (9, 8), KINDS["thin"])
    folds = cut(given.problem, Setting(setting), splitter)
    found = folds.held_out()
    labels = given.problem.labels
    tested = np.unique(np.concatenate([fold.test for fold in folds.folds]))
    assert_array_equal(np.flatnonzero(~np.isnan(found)), tested)
    last = folds.folds[-1]
    # As a model of the training pairs alone, rows that leave gone.
    groups = {}
    if setting in "BD":
        fold = folds.units.sides[0]
        groups["groups"] = (fold == fold[labels.places[0][last.test[0]]]).astype(int)
    if setting in "CD":
        fold = folds.units.sides[1]
        groups["task_groups"] = (fold == fold[labels.places[1][last.test[0]]]).astype(int)
    if setting == "A":
        groups["cells"] = np.isin(
            np.arange(labels.size), np.flatnonzero(~last.left), invert=True
        ).astype(int)
    close(found[last.test], holdout(given.problem, Setting(setting), **groups)[last.test], 1e-8)


def test_one_fold_after_another_starts_where_it_was():
    for model in ALL_MODELS:
        given = Given(model, (9, 6), KINDS["full"])
        problem = Problem(given.pairing, given.problem.labels, tol=1e-10)
        for setting in "AB" if model == ALL_MODELS[0] else "A":
            folds = cut(problem, Setting(setting), 2)
            folds.held_out()
            cold = [start.n_iter for start in folds.starts]
            assert folds.converged
            again = folds.held_out()
            assert all(start.n_iter <= 1 for start in folds.starts)
            other = given.pairing.at(0.6)
            fresh = cut(
                Problem(other, given.problem.labels, tol=1e-10), Setting(setting), 2
            ).held_out()
            close(folds.held_out(other), fresh, 1e-8)
            assert max(cold) > 1
            assert np.abs(again - fresh).max() > 1e-4
            loose = cut(problem, Setting(setting), 2)
            loose.held_out(tol=1e-2)
            assert max(start.n_iter for start in loose.starts) < max(cold)


def test_folds_that_stop_short_are_told(monkeypatch):
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    monkeypatch.setattr(planning, "_MOST_REFITS", 0.0)
    given = Given("kronecker", (11, 7), KINDS["full"], alpha=1e-3)
    problem = Problem(given.pairing, given.problem.labels, tol=1e-10, max_iter=2)
    folds = cut(problem, Setting.A, 3)
    message = "^Conjugate gradients stopped in 3 of 3 folds after 2 iterations at a relative"
    with pytest.warns(ConvergenceWarning, match=message) as told:
        folds.held_out()
    assert told[0].filename == __file__
    assert not folds.converged
    with pytest.warns(ConvergenceWarning, match=message) as told:
        holdout(problem, Setting.A, cells=np.arange(given.rows.size) % 3)
    assert told[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="^Conjugate gradients stopped in 5 of 5 folds"):
        FlatIntervals(problem.labels, lambda setting: plan(problem, setting).held_out()).reach(
            Setting.B, 0.9
        )


# --- intervals -----------------------------------------------------------------------------------------------------


def test_reaches_are_residuals_of_folds_and_of_few_single_pairs():
    given = Given("kronecker + 1", (6, 7), KINDS["thin"])
    intervals = FlatIntervals(
        given.problem.labels, lambda setting: plan(given.problem, setting).held_out()
    )
    for setting in Setting:
        is_single = setting is Setting.A
        if is_single:
            held_out = holdout(given.problem, setting)
        else:
            held_out = cut(given.problem, setting).held_out()
        errors = np.abs(given.problem.labels.values - held_out)
        rank = int(np.ceil((errors.size + 1) * 0.8))
        assert_allclose(intervals.reach(setting, 0.8), np.sort(errors)[rank - 1], rtol=1e-9)
    assert intervals.reach(Setting.A, 0.9999) == np.inf


# --- other libraries -----------------------------------------------------------------------------------------------


@over(lines("setting model", ("D", "two-step"), ("A", "kronecker")))
def test_every_library_computes_the_same(library, setting, model):
    rng = np.random.default_rng(0)
    X, T, Y = rng.normal(size=(7, 3)), rng.normal(size=(6, 2)), rng.normal(size=25) + 2.0
    rows, columns = np.divmod(np.sort(rng.choice(42, 25, replace=False)), 6)
    groups = {
        "groups": np.arange(7) % 3,
        "task_groups": np.arange(6) % 2,
        "cells": np.arange(25) % 3,
    }

    def found(put):
        kind = "free" if model == "two-step" else "feature"
        sides = [Spectrum.from_features(put(side), constant=kind) for side in (X, T)]
        pairing = Kronecker(*sides, 0.5, free_mean=True)
        if model == "two-step":
            pairing = TwoStep(*(side.smoother(Tikhonov(), 0.5) for side in sides))
        problem = Problem(pairing, Labels((rows, columns), put(Y), (7, 6)), tol=1e-9)
        return holdout(
            problem, Setting(setting), **{name: groups[name] for name in GROUPED[setting]}
        )

    values = found(library.asarray)
    assert type(values) is type(library.asarray(Y))
    close(library.to_numpy(values), found(np.asarray), 1e3 * library.rtol)


def test_no_grid_can_be_had():
    problem = Given("kronecker", (9, 7), KINDS["thin"]).problem
    with pytest.raises(
        ValueError,
        match="^This method needs a grid of 9 × 7 labels, but the model was fitted on a list of",
    ):
        _ = problem.Y
