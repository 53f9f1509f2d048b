"""Landscapes against the hold-out predictions of every grid point, scored one by one."""

import contextlib

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import landscape
from dyadlearn._array import to_numpy
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.holdout import holdout
from dyadlearn.metrics import scorer
from dyadlearn.pairing import full, two_step
from dyadlearn.pairing.two_step import TwoStepSweep
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import gram, posed
from problems import problem as problem_of
from sweeps import covering, every, lines, over

SHAPES = {"tall": (9, 5), "wide": (5, 9), "square": (6, 6)}
MANY = [1e-10, 1e-3, 0.7, 1e3, 1e10]
EXTREME = [1e-10, 0.7, 1e10]


def worst(Y, F):
    """Score that no formula knows, and that is not symmetric in instances and tasks."""
    xp = Y.__array_namespace__() if hasattr(Y, "__array_namespace__") else np
    return -float(xp.max(xp.sum(xp.abs(Y - F), axis=0)))


SCORINGS = {
    "mse": "neg_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
    "auc": "roc_auc",
    "r2": "r2",
    "callable": worst,
}


def make_problem(method, shape, kinds=("full", "full"), **others):
    return problem_of(method, shape, kinds, 1.0, 1.0, **others)


def binary(m, q):
    """Return labels of two values, both in every row and column."""
    return (np.add.outer(np.arange(m), 2 * np.arange(q)) % 3 == 0) * 2.0 - 1.0


def one_by_one(problem, alphas, task_alphas, letter, scoring, groups=None, task_groups=None):
    """Return the landscape of one setting from the hold-out predictions of each grid point."""
    groups = groups if letter in "BD" else None
    task_groups = task_groups if letter in "CD" else None

    def score(alpha, task_alpha):
        held_out = holdout(
            problem.at(alpha, task_alpha), letter, groups=groups, task_groups=task_groups
        )
        if scoring is worst:
            return scoring(problem.Y, held_out)
        return scorer(scoring)(
            to_numpy(problem.Y), to_numpy(held_out), setting=letter, tie_tolerance=None
        )

    if "task_alpha" in problem.pairing.alphas:
        return np.array(
            [[score(alpha, task_alpha) for task_alpha in task_alphas] for alpha in alphas]
        )
    return np.array([score(alpha, alpha) for alpha in alphas])


def compare(problem, alphas, task_alphas, letters, scoring, rtol=1e-9, **options):
    found = landscape(
        problem, alphas=alphas, task_alphas=task_alphas, setting=letters, scoring=scoring, **options
    )
    known = [letter for letter in letters if problem.pairing.knows_tasks or letter in "AB"]
    assert list(found) == known
    groups = {name: options.get(name) for name in ("groups", "task_groups")}
    for letter in known:
        expected = one_by_one(problem, alphas, task_alphas, letter, scoring, **groups)
        assert isinstance(found[letter], np.ndarray)
        assert_allclose(found[letter], expected, rtol=rtol, err_msg=letter)
    return found


@over(
    covering(
        method=["two_step", "kronecker", "independent", "network"],
        scoring=list(SCORINGS),
        shape=["tall", "wide"],
        letters=["ABCD", "B", "DB", "A"],
    )
)
def test_every_grid_point_has_the_score_of_its_hold_out(method, shape, scoring, letters):
    problem = make_problem(method, SHAPES[shape], labels=binary if scoring == "auc" else None)
    compare(problem, EXTREME, [1e-10, 0.2], letters, SCORINGS[scoring])


@over(
    lines(
        "method scoring letters shape sides",
        ("independent", "neg_mean_squared_error", "A", "square", ["groups"]),
        ("two_step", "r2", "ABCD", "tall", ["groups", "task_groups"]),
        ("two_step", "roc_auc", "ABCD", "wide", ["groups"]),
        ("kronecker", "r2", "ABCD", "tall", ["groups", "task_groups"]),
        ("kronecker", "neg_mean_squared_error", "CD", "square", ["task_groups"]),
    )
)
def test_groups(method, shape, letters, scoring, sides):
    m, q = SHAPES[shape]
    problem = make_problem(method, (m, q), labels=binary if scoring == "roc_auc" else None)
    groups = {"groups": np.arange(m) % 4, "task_groups": np.array(list("uuwxyzuvw"))[:q]}
    given = {name: groups[name] for name in sides}
    compare(problem, [1e-6, 1e6], [1e-6, 0.5], letters, scoring, **given)


@over(every(shape=["tall", "wide"]))
def test_one_product_for_all_settings_keeps_the_digits(shape):
    """Predictions are as small as 1e-12 there, and the labels must not hide them."""
    problem = make_problem("two_step", SHAPES[shape])

    def size(Y, F):
        return float(np.sum(F * np.abs(F)))

    compare(problem, [1e-6, 1e6], [1e-6, 1e6], "ABCD", size, rtol=1e-11)


@over(
    covering(
        scoring=["neg_mean_squared_error", "r2"],
        method=["two_step", "kronecker"],
        shape=SHAPES,
        strength=1,
    )
)
def test_memory_changes_nothing(shape, method, scoring):
    problem = make_problem(method, shape)
    given = {"alphas": MANY, "task_alphas": MANY[1:], "setting": "ABCD", "scoring": scoring}
    whole = landscape(problem, **given)
    for grids in (0, 3):
        parts = landscape(problem, **given, max_memory=grids * 8 * 4 * problem.Y.size)
        for letter, scores in whole.items():
            assert_allclose(parts[letter], scores, rtol=1e-12)


@over(
    lines(
        "scoring formed",
        ("neg_mean_squared_error", "A"),
        (scorer("neg_mean_squared_error"), "A"),
        (scorer("neg_root_mean_squared_error"), "A"),
        ("r2", "ABC"),
        ("neg_mean_absolute_error", "ABCD"),
    )
)
def test_predictions_are_formed_only_where_squared_errors_do_not_tell_the_score(
    scoring, formed, monkeypatch
):
    asked = []

    def walk(self, settings, per_stack, walked=TwoStepSweep.walk):
        asked.extend(setting.value for setting in settings)
        return walked(self, settings, per_stack)

    monkeypatch.setattr(TwoStepSweep, "walk", walk)
    compare(make_problem("two_step", (9, 5)), EXTREME, [0.2], "ABCD", scoring)
    assert "".join(asked) == formed


@over(every(shape=["tall", "wide"]))
def test_sides_without_regularisation_have_the_limit_of_both(shape):
    compare(make_problem("two_step", SHAPES[shape]), [0.0, 1.0], [0.0, 1.0], "AD", worst)


@over(lines("method letter", ("two_step", "A"), ("kronecker", "D")))
def test_stacks_stay_within_the_memory(method, letter, monkeypatch):
    problem = make_problem(method, (9, 5))
    needs = []
    monkeypatch.setattr(two_step, "check_memory", lambda need, *_: needs.append(need))
    for n_alphas in (3, 8):
        sweep = full.sweep(problem.pairing, problem.Y, [1.0] * n_alphas, [1.0])
        stacks = [len(stack) for *_, stack in sweep.walk([Setting(letter)], 2)]
        assert max(stacks) == 2
        assert sum(stacks) == n_alphas
        sweep.check_memory([Setting(letter)], 2, squared=False)
    assert method != "two_step" or needs == 2 * [8 * (4 * 2 * 45 + 4 * 45)]


def make_isolated(n, rng):
    """Return a singular kernel in which the first row is like no other, so that it is interpolated at alpha = 0."""
    isolated = np.zeros((n, n))
    isolated[0, 0], isolated[1:, 1:] = 1.0, gram(n - 1, 3, rng)
    return Spectrum.from_gram(isolated)


@over(
    lines(
        "method shape is_grouped scoring",
        ("two_step", (8, 6), True, "r2"),
        ("kronecker", (6, 8), False, "neg_mean_squared_error"),
        ("independent", (8, 6), False, "r2"),
        ("two_step", (6, 8), False, "neg_mean_squared_error"),
    )
)
def test_what_is_interpolated_has_no_score(shape, method, is_grouped, scoring):
    """Some regularisations interpolate: they are NaN and named, and all others are scored as ever."""
    rng = default_rng(1)
    sides = [make_isolated(n, rng) for n in shape]
    task_side = [] if method == "independent" else [sides[1], 1.0]
    problem = posed(method, rng.normal(size=shape), sides[0], 1.0, *task_side)
    alphas = [2.0, 0.0, 0.5]
    task_alphas = [0.3, 0.0] if method == "two_step" else [1.0]
    groups = [np.arange(n) // 2 if is_grouped else None for n in shape]
    given = {"task_alphas": task_alphas, "scoring": scoring, "groups": groups[0]}
    letters = "AB" if method == "independent" else "ABCD"
    with pytest.warns(UndefinedScoreWarning, match="there is no score for .*alpha 0") as seen:
        scores = landscape(problem, letters, alphas=alphas, task_groups=groups[1], **given)
    assert {warning.filename for warning in seen} == {__file__}
    n_undefined = 0
    for letter in letters:
        expected = np.full((3, len(task_alphas)), np.nan)
        used = {"groups": groups[0]} if letter in "BD" else {}
        used |= {"task_groups": groups[1]} if letter in "CD" else {}
        for at in np.ndindex(*expected.shape):
            with contextlib.suppress(LeverageError):
                held_out = holdout(problem.at(alphas[at[0]], task_alphas[at[1]]), letter, **used)
                expected[at] = scorer(scoring)(problem.Y, held_out, setting=letter)
        n_undefined += np.isnan(expected).any()
        assert_allclose(scores[letter].reshape(expected.shape), expected)
    assert len(seen) == n_undefined
    with pytest.raises(LeverageError):
        landscape(problem, "B", alphas=[0.0], **given)


@over(
    covering(
        filter=[SpectralCutoff(), IteratedTikhonov(3), Landweber()],
        shape=SHAPES,
        letters=["ABCD", "C"],
        scoring=["neg_mean_squared_error", "r2"],
        side=["filter", "task_filter"],
        strength=1,
    )
)
def test_filters(shape, filter, letters, scoring, side):
    problem = make_problem("two_step", shape, **{side: filter})
    grids = [0.5, 1.0, 4.0], [0.01, 1.0]
    compare(problem, *(grids if side == "filter" else grids[::-1]), letters, scoring)


@over(
    covering(
        put=[np.float64, np.float32],
        noise=[0.0, 1e-9, 1e-3],
        letter="BCD",
        options=[{}, {"max_memory": 0}],
    )
)
def test_squared_errors_near_zero(letter, noise, put, options):
    """Labels that the kernels explain all but completely: the closed form cancels, and is not believed."""
    rng = default_rng(0)
    X = rng.normal(size=(14, 3))
    T = rng.normal(size=(10, 2))
    Y = X @ rng.normal(size=(3, 2)) @ T.T + noise * rng.normal(size=(14, 10))
    spectra = [Spectrum.from_gram((side @ side.T).astype(put)) for side in (X, T)]
    problem = posed("two_step", Y.astype(put), spectra[0], 1.0, spectra[1], 1.0)
    grid = [1e-4, 1e-2, 1.0, 1e2]
    rtol = 1e-8 if put is np.float64 else 2e-2
    compare(problem, grid, grid, letter, "neg_mean_squared_error", rtol=rtol, **options)


@over(
    lines(
        "problem options message",
        ("two_step", {"alphas": []}, "alphas is empty"),
        ("two_step", {"task_alphas": [float("nan")]}, "task_alphas must be a finite number"),
        ("two_step", {"setting": "AE"}, "Unknown setting 'AE'"),
        ("two_step", {"scoring": "roc_auc"}, "two values"),
        ("two_step", {"task_groups": [1, 2]}, "task_groups must have one value for each of 5 rows"),
        (
            "independent",
            {"setting": "D"},
            "Setting D leaves out tasks, but this model knows nothing of tasks",
        ),
        (
            "network",
            {"groups": [0] * 7, "setting": "B"},
            "A network leaves out one edge or vertex at a time",
        ),
    )
)
def test_bad_input(problem, options, message):
    with pytest.raises(ValueError, match=message):
        landscape(make_problem(problem, (7, 5)), **options)
