"""`better_of`: the search with the best exact hold-out, among those that are affordable."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    better_of,
    evaluate,
    load,
    save,
)
from dyadlearn._progress import Progress
from dyadlearn.datasets import make_dyads
from dyadlearn.exceptions import GridEdgeWarning, LeverageError, SearchStoppedWarning
from dyadlearn.holdout import planning
from dyadlearn.models.spec import TwoStepSpec
from dyadlearn.selection import choosing
from dyadlearn.selection.landscape import _PointScore
from dyadlearn.selection.searching import PosedSearch
from interrupting import send_at
from sweeps import every, over

pytestmark = [
    pytest.mark.usefixtures("ctrl_c"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning"),
]

DATA = make_dyads(14, 9, noise=0.5, random_state=0)
X = DATA.X
T = DATA.tasks
Y = DATA.Y
HOLES = problems.with_holes(Y, 0.3, seed=0)
ALPHAS = [0.01, 0.1, 1.0, 10.0]
KERNELS = {"kernel": "rbf", "task_kernel": "rbf"}
# Kernels of radial basis functions have ones on their diagonals.
CONSTANTS = [(0.1, 0.1), (1.0, 1.0), (10.0, 10.0)]


def searches(setting="B", **options):
    given = {"setting": setting, **KERNELS, **options}
    return {
        "two-step": TwoStepRidgeCV(ALPHAS, ALPHAS, **given),
        "kronecker": KroneckerRidgeCV(ALPHAS, **given),
    }


def twins(labels, setting="B", **options):
    """Fit both searches alone."""
    found = searches(setting, **options)
    found["kronecker"].set_params(constants=CONSTANTS)
    return {name: each.fit(X, labels, T) for name, each in found.items()}


@over(every(setting="AD"))
def test_the_better_of_two_searches_of_complete_labels(setting):
    found = better_of(searches(setting), X, Y, T)
    fitted = twins(Y, setting)
    scores = {name: each.best_score_ for name, each in fitted.items()}
    assert found.name == max(scores, key=scores.get)
    assert sorted(found.scores) == sorted(scores)
    assert_allclose([found.scores[name] for name in scores], list(scores.values()), rtol=1e-12)
    twin = fitted[found.name]
    assert type(found.model) is type(twin)
    assert_allclose(found.model.predict(X), twin.predict(X), rtol=1e-12)
    assert found.model.holdout_reason_ == "exact leave-one-out by closed form of a complete grid"
    for words in (
        "two-step -",
        "kronecker -",
        f"in setting {setting}: {found.name}",
        found.model.holdout_reason_,
    ):
        assert words in found.reason
    assert repr(found) == f"Better({found.name}: {found.reason})"


def test_where_two_step_has_no_formula_kronecker_is_kept():
    found = better_of(searches("B"), X, HOLES, T)
    twin = KroneckerRidgeCV(ALPHAS, setting="B", constants=CONSTANTS, **KERNELS).fit(X, HOLES, T)
    assert (found.name, list(found.scores)) == ("kronecker", ["kronecker"])
    assert_allclose(found.model.best_score_, twin.best_score_, rtol=1e-12)
    assert found.model.holdout_method_ == "exact leave-one-out"
    assert (
        "two-step was left out: 5 folds, refitted: two-step ridge regression has no formula for"
        in found.reason
    )
    assert " points take about " in found.plans["two-step"]
    assert found.plans["two-step"] in found.reason


def test_a_dear_search_is_left_out(monkeypatch):
    monkeypatch.setattr(choosing, "_SOME_SECONDS", 0.0)
    monkeypatch.setattr(choosing, "_LITTLE_MORE", 1.0)
    found = better_of(searches("D"), X, Y, T)
    assert list(found.scores) == ["two-step"]
    assert (
        "kronecker was left out: exact leave-one-out by closed form of a complete grid; 12 points"
        in found.reason
    )


def test_constants_are_multiples_of_the_mean_diagonal():
    given = {"kronecker": KroneckerRidgeCV(ALPHAS, kernel="precomputed", setting="B")}
    K = X @ X.T
    found = better_of(given, K, Y, T)
    sizes = np.diagonal(K).mean(), (T**2).sum(axis=1).mean()
    expected = [(multiple * sizes[0], multiple * sizes[1]) for multiple in (0.1, 1.0, 10.0)]
    assert_allclose(found.model.constants, expected, rtol=1e-12)
    assert given["kronecker"].constants is None
    for options, tasks, constants in (
        ({"constants": 2.0}, T, (2.0, 2.0)),
        ({"fit_intercept": False}, T, None),
        ({}, None, None),
    ):
        own = better_of({"kronecker": KroneckerRidgeCV(ALPHAS, **options)}, X, Y, tasks)
        assert own.model.constants_ == constants


def test_groups_and_weights_are_passed_on():
    groups = np.arange(14) // 3
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=14)
    found = better_of({"two-step": searches("B")["two-step"]}, X, Y, T, weights, groups=groups)
    twin = searches("B")["two-step"].fit(X, Y, T, weights, groups=groups)
    assert found.model.holdout_method_ == twin.holdout_method_
    assert_allclose(found.model.best_score_, twin.best_score_, rtol=1e-12)


def test_pairs_of_ids_and_a_file(tmp_path):
    drugs = pd.DataFrame(X, index=[f"d{i}" for i in range(14)])
    proteins = pd.DataFrame(T, index=[f"p{j}" for j in range(9)])
    rows, columns = np.nonzero(~np.isnan(HOLES))
    pairs = pd.DataFrame({"drug": drugs.index[rows], "protein": proteins.index[columns]})
    models = {
        name: PairRegressor(each, instances=drugs, tasks=proteins)
        for name, each in searches("B").items()
    }
    found = better_of(models, pairs, HOLES[rows, columns])
    expected = better_of(searches("B"), X, HOLES, T)
    assert found.name == expected.name == "kronecker"
    assert_allclose(found.scores["kronecker"], expected.scores["kronecker"], rtol=1e-9)
    predicted = expected.model.predict(X)[[2, 13], [3, 0]]
    assert_allclose(found.model.predict([("d2", "p3"), ("d13", "p0")]), predicted)
    reason = found.model.model_.holdout_reason_
    assert evaluate(found.model, "B").results[0].reason == reason
    save(found.model, tmp_path / "m.dyad")
    assert load(tmp_path / "m.dyad").model_.holdout_reason_ == reason


def test_what_cannot_be_compared():
    two_step = searches("B")["two-step"]
    refused = "better_of compares searches"
    for given, error, message in (
        ({}, ValueError, "give at least one search"),
        ([two_step, searches("D")["kronecker"]], ValueError, "have the settings B and D"),
        ([two_step, searches(scoring="r2")["kronecker"]], ValueError, "give them the same scoring"),
        ([TwoStepRidge()], TypeError, f"'0' is TwoStepRidge: {refused}"),
        ([LearnedKernelRidge(setting="A")], TypeError, refused),
        ([IndependentTaskRidgeCV(alpha_per_task=True)], TypeError, refused),
    ):
        models = {str(place): each for place, each in enumerate(given)}
        with pytest.raises(error, match=message):
            better_of(models, X, Y, T)


def test_a_search_without_any_score_is_told(monkeypatch):
    """A model that interpolates everywhere has no hold-out."""

    run = PosedSearch.run

    def refuse(self, *given, **more):
        if isinstance(self.spec.model, TwoStepSpec):
            raise LeverageError("a row has leverage 1.")
        return run(self, *given, **more)

    monkeypatch.setattr(PosedSearch, "run", refuse)
    refused, kept = searches("A").values()
    found = better_of({"two-step": refused, "kronecker": kept}, X, Y, T)
    assert (found.name, list(found.scores)) == ("kronecker", ["kronecker"])
    assert found.reason.endswith("two-step has no score: a row has leverage 1.")
    with pytest.raises(LeverageError):
        better_of({"two-step": refused}, X, Y, T)


@pytest.mark.filterwarnings("default::dyadlearn.exceptions.GridEdgeWarning")
def test_only_the_search_that_is_kept_warns():
    models = {
        "bad": TwoStepRidgeCV([1e5, 1e6], [1e5, 1e6], **KERNELS),
        "good": TwoStepRidgeCV(**KERNELS),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert better_of(models, X, Y, T).name == "good"
    assert not [each for each in caught if issubclass(each.category, GridEdgeWarning)]
    with pytest.warns(GridEdgeWarning, match="The best alpha"):
        better_of({"bad": models["bad"]}, X, Y, T)


# Interrupts ---------------------------------------------------------------------------------------


def interrupted(monkeypatch, owner, name, call, **options):
    """Return the result where the n-th call of a function is interrupted; the first interrupt is by Ctrl-C."""
    send_at(monkeypatch, owner, name, call)
    return better_of(searches("A", progress=False, **options), X, HOLES, T)


# The kronecker search is the one with the least work, so it comes first: 12 points, then 16 of the
# two-step search.


def test_an_interrupt_before_any_score_raises(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        interrupted(monkeypatch, _PointScore, "__call__", 0)


@pytest.mark.parametrize("call", [5, 14])
def test_an_interrupt_keeps_the_best_so_far(monkeypatch, call):
    with pytest.warns(SearchStoppedWarning):
        found = interrupted(monkeypatch, _PointScore, "__call__", call)
    assert np.isfinite(found.model.predict(X)).all()
    assert found.model.best_score_ == max(found.scores.values())
    assert list(found.scores) == (["kronecker"] if call < 13 else ["kronecker", "two-step"])
    if call < 13:
        assert "two-step has no score, because of the interrupt" in found.reason


# Methods that are forced --------------------------------------------------------------------------


def test_searches_take_the_method_that_is_asked_for():
    folds = TwoStepRidgeCV([0.1, 1.0], [1.0], method="folds", **KERNELS).fit(X, Y, T)
    assert (folds.holdout_method_, folds.holdout_reason_) == (
        "5 folds, refitted",
        "5 folds, refitted: folds were asked for",
    )
    exact = TwoStepRidgeCV([0.1, 1.0], [1.0], cv=5, **KERNELS).fit(X, Y, T)
    assert exact.holdout_method_ == "exact leave-fold-out"
    assert_allclose(folds.best_score_, exact.best_score_, rtol=1e-6)
    with pytest.raises(ValueError, match="Setting B has no exact hold-out here: two-step ridge"):
        TwoStepRidgeCV([1.0], [1.0], method="exact", **KERNELS).fit(X, HOLES, T)
    with pytest.raises(ValueError, match="method must be one of 'exact', 'folds', found 'loo'"):
        TwoStepRidgeCV([1.0], [1.0], method="loo").fit(X, Y, T)


def test_models_without_a_formula_refuse_the_exact_method():
    refitted = TwoStepRegressor(IndependentTaskRidge(), TwoStepRidge()).fit(X, Y, T)
    with pytest.raises(ValueError, match="TwoStepRegressor has no formula"):
        evaluate(refitted, "B", method="exact")
    learned = LearnedKernelRidge(n_steps=2, setting="B").fit(X, Y, T)
    with pytest.raises(ValueError, match="learned again for each fold have no formula"):
        evaluate(learned, "B", method="exact")


# Costs that are told --------------------------------------------------------------------------------


def test_a_long_search_tells_its_cost_before_it_starts(monkeypatch, capsys):
    monkeypatch.setattr(planning, "seconds_of", lambda work: 100.0)
    KroneckerRidgeCV([1.0], setting="B", **KERNELS).fit(X, HOLES, T)
    search = "Search B: exact leave-one-out by inverse over "
    assert capsys.readouterr().err.startswith(search)
    KroneckerRidgeCV([1.0], setting="B", progress=False, **KERNELS).fit(X, HOLES, T)
    assert capsys.readouterr().err == ""
    model = TwoStepRidge(**KERNELS).fit(X, HOLES, T)
    with Progress(None, "Working", None):
        evaluate(model, "A")
    line = capsys.readouterr().err
    assert line.startswith("Setting A: exact leave-one-out by inverse over ")
    assert "(about 2 min and " in line
    evaluate(model, "A")
    assert capsys.readouterr().err == ""
