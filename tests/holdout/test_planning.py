"""What a plan says before it computes, its estimates of costs, and how groups share folds."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import problems
from counting import asarray, multiplications
from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge, TwoStepRidgeCV, evaluate
from dyadlearn.exceptions import MergedGroupsWarning
from dyadlearn.holdout import FitAgain, Formula, SolveAgain, Units, plan, plan_fits, planning
from dyadlearn.holdout.folds import warn_of_merged_groups
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer
from dyadlearn.pairing.inverses import routes
from dyadlearn.pairing.without_units import models_cost
from dyadlearn.selection import SettingKFold
from dyadlearn.settings import Setting
from sweeps import every, lines, over


def mean_of_the_rest(labels):
    """Return the prediction of a fold by the mean of the labels that stay, for `plan_fits`."""

    def predict(fold):
        return np.full(fold.test.size, labels.values[~fold.left].mean())

    return predict


def planned(labels, setting, together=None, cv=None, **options):
    together = Units() if together is None else together
    return plan_fits(
        labels, Setting(setting), together, cv, predict=mean_of_the_rest(labels), **options
    )


def problem_of(X, Y, tasks):
    return TwoStepRidge().fit(X, Y, tasks).fitted_.problem


LABELS = Labels.of_grid(np.random.default_rng(1).normal(size=(9, 4)))
GROUPED = Units((np.arange(9) // 3, None))


def test_a_plan_has_three_outcomes():
    X, Y, tasks = problems.data(8, 6)
    problem = problem_of(X, Y, tasks)
    exact = plan(problem, Setting.B)
    assert type(exact) is Formula
    assert exact.words.startswith("exact leave-one-out by closed form of a complete grid (about ")
    folds = plan(problem, Setting.A, cv=3)
    assert type(folds) is Formula
    assert folds.cost.work > 0
    Y[2, 3] = np.nan
    again = plan(problem_of(X, Y, tasks), Setting.B, method="folds")
    assert type(again) is SolveAgain
    assert again.words.startswith("5 folds, refitted: folds were asked for (about ")
    fits = planned(problem.labels, "D")
    assert type(fits) is FitAgain
    assert fits.n_solves == 25
    assert fits.words.startswith("25 folds, fitted again: ")
    assert fits.words.endswith("(the time of 25 fits)")


def test_a_plan_says_whether_a_decomposition_serves_all_labels():
    X, Y, tasks = problems.data(8, 6)
    problem = problem_of(X, Y, tasks)
    assert plan(problem, Setting.B).is_of_grid
    assert plan(problem, Setting.B, cv=2).is_of_grid
    assert not plan(problem, Setting.A, cv=2).is_of_grid  # each fold of pairs is completed
    assert not plan(problem, Setting.B, method="folds").is_of_grid
    Y[2] = np.nan
    assert not plan(problem_of(X, Y, tasks), Setting.B).is_of_grid


def test_folds_are_for_missing_labels_where_exact_ones_are_wanted():
    X, Y, tasks = problems.data(8, 6)
    for holes, method in ((False, "exact leave-one-out"), (True, "exact leave-fold-out")):
        if holes:
            Y[2, 3] = np.nan
        problem = problem_of(X, Y, tasks)
        assert plan(problem, Setting.A, cv=3, exact=True).method == method
        assert plan(problem, Setting.A, cv=3).method == "exact leave-fold-out"


@over(
    lines(
        "setting together cv n_folds",
        ("A", Units(), None, 5),
        ("B", Units(), None, 5),
        ("D", Units(), 2, 4),
        ("B", Units(), [(np.arange(1, 9), [0]), ([0], np.arange(1, 9))], 2),
        ("B", GROUPED, None, 3),  # a fold is a group
        ("B", GROUPED, 2, 2),  # groups share folds
        ("D", GROUPED, None, 12),  # three groups, and folds of the other side
    )
)
def test_folds_of_fits(setting, together, cv, n_folds):
    how = planned(LABELS, setting, together, cv)
    assert how.method == f"{n_folds} folds, fitted again"
    assert how.n_solves == len(how.folds) == n_folds
    for axis, codes in together.of_sides(LABELS.shape, Setting(setting)):
        if together.sides[axis] is not None:
            used = how.units.sides[axis]
            # No group is torn.
            assert np.unique(np.stack([codes, used]), axis=1).shape[1] == np.unique(codes).size
    found = how.held_out()
    expected = np.empty((9, 4))
    for fold in how.folds:
        expected.flat[fold.test] = LABELS.values[~fold.left].mean()
    assert_array_equal(found, expected)


def test_folds_of_fits_are_those_of_a_splitter():
    splitter = SettingKFold("B", 3, random_state=4)
    how = planned(LABELS, "B", cv=splitter, method="three times, {n} folds")
    assert how.method == "three times, 3 folds"
    assert_array_equal(how.units.sides[0], splitter.units(LABELS).sides[0])
    with pytest.raises(ValueError, match="cv makes folds for setting B, but the setting is C"):
        planned(LABELS, "C", cv=splitter)


def test_every_fold_of_fits_is_a_step_of_progress():
    steps = []

    class Line:
        def __init__(self, n_folds):
            steps.append(n_folds)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            steps.append("end")

        def advance(self):
            steps.append("fold")

    planned(LABELS, "B", cv=3, line=Line).held_out()
    assert steps == [3, "fold", "fold", "fold", "end"]


X, Y, T = problems.data(20, 14)
HOLES = problems.with_holes(Y, 0.1, seed=0)
GROUPS = np.arange(20) // 2
TASK_GROUPS = np.arange(14) // 2
GIVEN = {"B": {"groups": GROUPS}, "C": {"task_groups": TASK_GROUPS}}
GIVEN["D"] = GIVEN["B"] | GIVEN["C"]
WORDS = {
    "B": (
        "10 groups in 5 folds",
        "10 groups of instances are in 5 folds: a model is fitted without 2 groups",
    ),
    "C": (
        "7 groups in 5 folds",
        "7 groups of tasks are in 5 folds: a model is fitted without 1 or 2 groups",
    ),
    "D": ("10×7 groups in 5×5 folds", "10 groups of instances are in 5 folds"),
}


ALPHAS = [1.0, 100.0]


@pytest.fixture
def many_refits(monkeypatch):
    """Let seven refits be too many for leaving out one group at a time."""
    monkeypatch.setattr(planning, "_MOST_REFITS", 6e9)


def method_of(how, setting):
    """Return the method that is told for labels with holes."""
    if how == "evaluate":
        return evaluate(TwoStepRidge(1.0).fit(X, HOLES, T), setting, **GIVEN[setting])["method"][0]
    search = TwoStepRidgeCV(ALPHAS, setting=setting)
    return search.fit(X, HOLES, T, **GIVEN[setting]).holdout_method_


@pytest.mark.usefixtures("many_refits")
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_evaluate_and_searches_say_how_many_groups_are_left_out_together(each):
    for setting, how in each([*product("BCD", ["evaluate"]), ("B", "search")]):
        method, sentence = WORDS[setting]
        with pytest.warns(MergedGroupsWarning) as recorded:
            found = method_of(how, setting)
        assert found == f"{method}, refitted"
        recorded = [warning for warning in recorded if warning.category is MergedGroupsWarning]
        texts = [str(warning.message) for warning in recorded]
        assert len(texts) == (2 if setting == "D" else 1)
        assert texts[0].startswith(f"In setting {setting}, {sentence}")
        assert ("With cv=" in texts[0]) == (setting != "D")
        assert {warning.filename for warning in recorded} == {__file__}


@pytest.mark.usefixtures("many_refits")
def test_no_warning_where_nothing_is_merged_or_folds_are_given(each):
    model = TwoStepRidge(1.0).fit(X, HOLES, T)
    exact = KroneckerRidge(1.0).fit(X, HOLES, T)
    complete = KroneckerRidge(1.0).fit(X, Y, T)
    five = {"groups": np.arange(20) % 5}
    cases = [
        (model, {"groups": GROUPS, "cv": 5}, "10 groups in 5 folds, refitted"),
        (model, {"groups": GROUPS, "cv": 10}, "10 folds, refitted"),
        (model, five, "leave-group-out, refitted"),
        (
            model,
            {"groups": np.maximum(np.arange(20), 2)},
            "18 groups in 5 folds, refitted",
        ),  # a few copies
        (exact, {"groups": GROUPS}, "exact leave-group-out"),
        (exact, {"groups": GROUPS, "cv": 5}, "10 groups in 5 folds, exact"),
        (complete, {"groups": GROUPS}, "exact leave-group-out"),
        (complete, {"groups": GROUPS, "cv": 4}, "10 groups in 4 folds, exact"),
        (complete, {"groups": GROUPS, "cv": 10}, "exact leave-fold-out"),
    ]
    for fitted, how, method in each(cases):
        assert evaluate(fitted, "B", **how)["method"] == [method]


@pytest.mark.usefixtures("many_refits")
def test_the_remedy_leaves_out_one_group_at_a_time():
    model = TwoStepRidge(1.0).fit(X, HOLES, T)
    with pytest.warns(
        MergedGroupsWarning, match=r"With cv=10 it is fitted without one group at a time\.$"
    ):
        evaluate(model, "B", groups=GROUPS)
    units = model.fitted_.hold_out(Setting.B, groups=GROUPS, cv=10).units
    pairs = np.unique(np.stack([GROUPS, units.sides[0]]), axis=1)
    assert pairs.shape == (2, 10)
    with pytest.warns(MergedGroupsWarning, match="without 2 groups at a time"):
        warn_of_merged_groups(Units((GROUPS, None)), Units((GROUPS // 2, None)), Setting.B)


# --- costs grow with the table, at most as fast as the work that they count ----------------------


@over(every(method=["two-step", "kronecker"], shape=[(12, 8), (8, 12)], setting="ABCD"))
def test_work_of_closed_forms_is_what_is_multiplied(method, shape, setting):
    # With groups, a side without each of them is decomposed, and small steps count more.
    decomposes = (method, setting) == ("kronecker", "D")
    groups = map(np.arange, shape) if decomposes else ()
    how = plan(problems.problem(method, shape, put=asarray), Setting(setting), *groups)
    ratio = how.cost.work / multiplications(how.held_out)
    assert 1.3 < ratio / (3.0 if decomposes else 1.0) < 2.2


RBF = {"kernel": "rbf", "task_kernel": "rbf", "fit_intercept": False}
# Models with full kernels, few features, and functions of each side.
MODELS = {
    "kronecker": lambda: KroneckerRidge(0.5, **RBF),
    "features": lambda: KroneckerRidge(0.5, fit_intercept=False),
    "pair kernel": lambda: PairKernelRidge(0.5, per_task=0.3, **RBF),
    "two-step": lambda: TwoStepRidge(0.5, 0.5, **RBF),
}
# The inverse of all pairs grows by the third power of both sides; counts of few labels grow in steps.
MOST = 2.0**7
MOST_MEMORY = 2.0**27


@cache
def fitted(name, m, q, missing):
    """Return a fitted problem in which the same share of labels is missing, whatever its size."""
    X, Y, tasks = problems.data(m, q)
    places = np.arange(m)[:, None] + np.arange(q)
    Y[places % 10 < round(10 * missing)] = np.nan
    return MODELS[name]().fit(X, Y, tasks).fitted_.problem


@cache
def pairs_of(problem):
    return PairsOut.of(problem, scorer("roc_auc"))


def units_of(labels, setting):
    rows, columns = labels.places
    units = {
        "A": [np.arange(labels.size)],
        "B": [rows],
        "C": [columns],
        "D": [rows, columns],
    }
    return units[setting.name]


def costs(name, m, q, missing, setting):
    """Return all estimates of work and of memory of a problem by name, of whatever route."""
    problem = fitted(name, m, q, missing)
    setting = Setting(setting)
    found = {}
    if problem.labels.is_full:
        chosen = plan(problem, setting).cost
        found["work of the plan"] = chosen.work
        found["memory of the plan"] = chosen.memory
    else:
        units = units_of(problem.labels, setting)
        for route in routes(problem.pairing, problem.labels, setting, units):
            found[f"work by {route.name}"] = route.work
            found[f"memory by {route.name}"] = route.numbers
            names = ("work", "memory")
            figures = models_cost(problem.pairing, problem.labels, m, route.name)
            for which, figure in zip(names, figures, strict=True):
                found[f"{which} of the models by {route.name}"] = figure
    pairs_out = pairs_of(problem)
    if pairs_out is not None:
        found["work of pairs"] = pairs_out.cost.work
        found["memory of pairs"] = pairs_out.cost.memory
    return found


@over(every(name=list(MODELS), missing=[0.0, 0.1, 0.7], setting=["A", "B", "C", "D"]))
def test_larger_tables_cost_more(name, missing, setting):
    small = costs(name, 10, 10, missing, setting)
    for m, q, least in ((20, 20, 2.0), (20, 10, 1.0), (10, 20, 1.0)):
        large = costs(name, m, q, missing, setting)
        for what in small.keys() & large.keys():
            ratio = large[what] / small[what]
            # A route may change to a method that takes less memory.
            fewest = 0.0 if what.startswith("memory") else least
            assert small[what] > 0
            assert fewest <= ratio <= MOST, (what, ratio)
            assert what.startswith("work") or large[what] < MOST_MEMORY, what
