"""Permutation tests: each permutation as a model that is really fitted to it, and p-values that are what they say."""

import sys

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
    load,
    permutation_test,
    save,
)
from dyadlearn.holdout import Units
from dyadlearn.metrics import scorer
from dyadlearn.selection.evaluate import Permutation, permuted_scores
from dyadlearn.settings import Setting
from sweeps import covering, lines, over

permuting = sys.modules[
    permuted_scores.__module__
]  # the name of the module is that of a function too

NEW = {"A": "both", "B": "instances", "C": "tasks", "D": "both"}
N = 2

quiet = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def permutations(permuted, shape, n=N):
    """Return what instance and task each label goes to: rows first, columns then."""
    random = np.random.RandomState(3)
    for _ in range(n):
        if permuted == "tasks":
            rows = np.arange(shape[0])
        else:
            rows = random.permutation(shape[0])
        if permuted == "nodes":
            yield rows, rows
        else:
            yield (
                rows,
                np.arange(shape[1]) if permuted == "instances" else random.permutation(shape[1]),
            )


def refitted(model, X, Y, tasks, permuted, weights=None, **given):
    """Yield permuted labels, and a model that was fitted to them."""
    for rows, columns in permutations(permuted, Y.shape):
        labels = Y[np.ix_(rows, columns)]
        if weights is None:
            options = dict(given)
        else:
            options = {**given, "sample_weight": weights[np.ix_(rows, columns)]}
        yield labels, clone(model).fit(X, labels, tasks, **options)


def scored(model, labels, setting, scoring):
    """Return the score of a model that is asked for its own hold-out."""
    return scorer(scoring)(labels, np.asarray(model.holdout(setting)), setting=setting)


def outcome(model, setting, **options):
    return permutation_test(
        model, setting, n_permutations=N, random_state=3, progress=False, **options
    )


# ---- a fixed regularisation

MODELS = {
    "two-step": TwoStepRidge(0.3, 2.0),
    "two-step without a constant": TwoStepRidge(1e-3, 1e4, kernel="rbf", fit_intercept=False),
    "independent": IndependentTaskRidge(0.5),
    "kronecker": KroneckerRidge(0.7),
    "pair kernel": PairKernelRidge(0.7, per_task=0.5, per_instance=0.2),
}


@over(
    covering(
        model=MODELS,
        setting="ABCD",
        permute=[None, "instances", "tasks", "both"],
        scoring=["neg_mean_squared_error", "concordance_index", "r2"],
        where=lambda model, setting, permute, **_: (
            "Independent" not in type(model).__name__
            or (setting in "AB" and permute in (None, "instances"))
        ),
        strength=1,
    )
)
def test_each_permutation_is_a_refit(model, setting, permute, scoring):
    X, Y, T = problems.data(9, 6)
    fitted = clone(model).fit(X, Y, T)
    test = outcome(fitted, setting, permute=permute, scoring=scoring)
    usual = "instances" if "Independent" in type(model).__name__ else NEW[setting]
    assert test.permuted == (permute or usual)
    expected = [
        scored(again, Y, setting, scoring) for Y, again in refitted(model, X, Y, T, test.permuted)
    ]
    assert_allclose(test.null, expected, rtol=1e-10)
    assert_allclose(test.score, scored(fitted, Y, setting, scoring), rtol=1e-12)
    assert test.p_value == (1 + np.sum(np.array(expected) >= test.score - 1e-10)) / (N + 1)
    assert (test.setting, test.scoring, test.method) == (setting, scoring, "exact leave-one-out")


@over(covering(symmetry=["symmetric", "antisymmetric"], setting="ABCD", strength=1))
def test_vertices_of_a_network(symmetry, setting):
    X, Y, _ = problems.data(7, 7)
    Y = Y + Y.T if symmetry == "symmetric" else Y - Y.T
    network = TwoStepRidge(0.5, 0.5, symmetry=symmetry)
    fitted = clone(network).fit(X, Y)
    test = outcome(fitted, setting)
    assert test.permuted == outcome(fitted, setting, permute="both").permuted == "nodes"
    expected = [
        scored(each, labels, setting, "r2")
        for labels, each in refitted(network, X, Y, None, "nodes")
    ]
    assert_allclose(outcome(fitted, setting, scoring="r2").null, expected, rtol=1e-9)


@over(
    lines(
        "model setting weighted",
        (TwoStepRidge(0.5, 2.0), "A", False),
        (TwoStepRidge(0.5, 2.0), "B", True),
        (KroneckerRidge(5.0), "D", False),
        (IndependentTaskRidge(0.5), "B", True),
    )
)
def test_holes_and_weights_go_with_their_labels(model, setting, weighted):
    X, Y, T = problems.data(11, 8, missing=0.1)
    if weighted:
        weights = default_rng(0).uniform(0.5, 2.0, size=Y.shape)
    else:
        weights = None
    fitted = clone(model).fit(X, Y, T, weights)
    test = outcome(fitted, setting)
    score = "neg_mean_squared_error"
    expected = [
        evaluate(each, setting)[score][0]
        for _, each in refitted(model, X, Y, T, test.permuted, weights)
    ]
    assert_allclose(test.null, expected, rtol=1e-9)
    assert_allclose(test.score, evaluate(fitted, setting)[score][0], rtol=1e-12)
    assert [test.method] == evaluate(fitted, setting)["method"]


@over(lines("model setting", (TwoStepRidge(0.3, 2.0), "A"), (KroneckerRidge(0.7), "D")))
def test_stacks_may_be_of_any_size(model, setting, monkeypatch):
    X, Y, T = problems.data(9, 6)
    fitted = clone(model).fit(X, Y, T)
    options = {"n_permutations": 7, "random_state": 3, "progress": False}
    expected = permutation_test(fitted, setting, **options).null
    monkeypatch.setattr(permuting, "_STACK_BYTES", 3 * 8 * 8 * 9 * 6)
    assert_allclose(permutation_test(fitted, setting, **options).null, expected, rtol=1e-11)


@over(lines("setting model", ("A", TwoStepRidge(0.3, 2.0)), ("D", KroneckerRidge(0.7))))
def test_in_every_library(setting, model, library):
    X, Y, T = problems.data(6, 5)
    expected = outcome(clone(model).fit(X, Y, T), setting)
    test = outcome(
        clone(model).fit(*map(library.asarray, (X, Y)), tasks=library.asarray(T)), setting
    )
    assert_allclose(test.null, expected.null, rtol=10 * library.rtol)
    assert test.p_value == expected.p_value


@over(
    covering(
        value=[0.0, 7.0, 1e6, -1e-9],
        model=[TwoStepRidge(), IndependentTaskRidge(1e-6), KroneckerRidge(100.0)],
        scoring=["neg_mean_squared_error", "neg_mean_absolute_error", "neg_median_absolute_error"],
        strength=1,
    )
)
def test_no_permutation_changes_labels_that_are_all_equal(value, model, scoring):
    rng = default_rng(0)
    X = rng.normal(size=(6, 3))
    fitted = clone(model).fit(X, np.full((6, 4), value), rng.normal(size=(4, 2)))
    found = permutation_test(fitted, "B", scoring=scoring, n_permutations=19, progress=False)
    assert found.p_value == 1.0


def test_equal_scores_count_whatever_rounding_does():
    # Without regularisation every task is interpolated, and one set of tasks is as good as another.
    X, Y, T = problems.data(10, 4, r=4)
    model = TwoStepRidge(0.5, 0.0, fit_intercept=False).fit(X, Y, T)
    test = outcome(model, "B", permute="tasks")
    assert_allclose(test.null, test.score, rtol=1e-10)
    assert test.p_value == 1.0
    twins = TwoStepRidge(0.5, 0.3).fit(np.repeat(X[:1], 6, axis=0), Y[:6], T)
    for scoring in ("neg_mean_squared_error", "concordance_index"):
        assert outcome(twins, "B", scoring=scoring).p_value == 1.0


# ---- a search

GRIDS = {"alphas": [0.1, 1.0, 10.0], "task_alphas": [0.5, 5.0]}


@quiet
@over(
    lines(
        "search setting given",
        (TwoStepRidgeCV(**GRIDS, setting="A"), "A", {}),
        (TwoStepRidgeCV(**GRIDS, setting="D", scoring="concordance_index"), "D", {}),
        (TwoStepRidgeCV(**GRIDS, setting="B"), "B", {"groups": np.arange(10) // 3}),
        (TwoStepRidgeCV(**GRIDS, setting="D", cv=3), "D", {"groups": np.arange(10) // 2}),
        (
            TwoStepRidgeCV(
                **GRIDS,
                kernel="rbf",
                kernel_grid=[{"gamma": 0.01}, {"gamma": 1.0}],
                task_kernel_grid=[{}, {}],
            ),
            "B",
            {},
        ),
        (KroneckerRidgeCV([0.1, 10.0], setting="C"), "C", {}),
        (PairKernelRidgeCV([0.1, 10.0], shares=[(1, 0, 0), (1, 1, 0)], setting="B"), "B", {}),
        (IndependentTaskRidgeCV([0.1, 1.0, 10.0], cv=4), "B", {}),
    )
)
def test_a_search_is_repeated_whole(search, setting, given, tmp_path):
    X, Y, T = problems.data(10, 7, noise=2.0)
    search = clone(search).set_params(progress=False)
    fitted = clone(search).fit(X, Y, T, **given)
    test = outcome(fitted, setting)
    expected = [each.best_score_ for _, each in refitted(search, X, Y, T, test.permuted, **given)]
    assert_allclose(test.null, expected, rtol=1e-10)
    assert test.score == fitted.best_score_
    assert test.method == f"{fitted.holdout_method_}, searched again"
    if given or search.cv or search.scoring == "concordance_index":
        return
    # Whatever was set since, what is tested is what was fitted; and a file is as good.
    save(fitted.set_params(alphas=[3.0]), tmp_path / "search.dyad")
    assert_allclose(outcome(load(tmp_path / "search.dyad"), setting).null, test.null, rtol=1e-10)


@quiet
@over(lines("setting scoring", ("A", None), ("D", "r2")))
def test_another_setting_scores_what_the_own_one_chose(setting, scoring):
    X, Y, T = problems.data(10, 7, noise=2.0)
    search = TwoStepRidgeCV(**GRIDS, setting="B", progress=False)
    fitted = clone(search).fit(X, Y, T)
    test = outcome(fitted, setting, scoring=scoring)
    word = scoring or "neg_mean_squared_error"
    expected = [
        scored(each, labels, setting, word)
        for labels, each in refitted(search, X, Y, T, test.permuted)
    ]
    assert_allclose(test.null, expected, rtol=1e-10)
    assert_allclose(test.score, scored(fitted, Y, setting, word), rtol=1e-12)


@quiet
@over(
    lines(
        "options given",
        ({"setting": "A"}, {}),
        ({"setting": "B"}, {"groups": np.arange(10) // 2}),
        ({"setting": "B", "cv": SettingKFold("B", 2, random_state=1)}, {}),
        (
            {
                "setting": "B",
                "cv": [(np.arange(5), np.arange(5, 10)), (np.arange(5, 10), np.arange(5))],
            },
            {},
        ),
    )
)
def test_folds_that_are_solved_again_stay_where_they_are(options, given):
    X, Y, T = problems.data(10, 7, noise=2.0, missing=0.1)
    search = TwoStepRidgeCV([1.0, 10.0], [1.0], progress=False, **options)
    test = outcome(clone(search).fit(X, Y, T, **given), options["setting"])
    expected = [each.best_score_ for _, each in refitted(search, X, Y, T, test.permuted, **given)]
    assert_allclose(test.null, expected, rtol=1e-9)


# ---- what comes out, what goes in


def test_what_a_test_tells():
    X, Y, T = problems.data(9, 6)
    model = TwoStepRidge().fit(X, Y, T)
    test = outcome(model, "row", scoring="r2")
    assert repr(test) == (
        f"PermutationTest(r2 {test.score:.4g} in setting B, {test.null.mean():.4g} for {N} "
        f"permutations of instances, "
        f"p = {test.p_value:.3g})"
    )
    assert len(test) == N
    columns = test.columns()
    assert (columns["permuted"], columns["n_permutations"]) == (["instances"], [N])
    assert_allclose(columns["null_mean"], [test.null.mean()])
    assert_allclose(columns["null_deviation"], [test.null.std()])
    assert_array_equal(outcome(model, "B", scoring="r2").null, test.null)
    other = permutation_test(model, "B", scoring="r2", n_permutations=N, random_state=4)
    assert (other.null != test.null).any()


def test_long_tables_and_single_tasks():
    X, Y, T = problems.data(9, 6)
    pairs = np.array([(i, j) for i in range(9) for j in range(6)])
    wrapped = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(pairs, Y.ravel())
    assert_allclose(
        outcome(wrapped, "B").null, outcome(TwoStepRidge().fit(X, Y, T), "B").null, rtol=1e-10
    )
    single = TwoStepRidge().fit(X, Y[:, :1], T[:1])
    assert outcome(single, "A").permuted == "instances"


def test_bad_input_gets_one_sentence():
    X, Y, T = problems.data(9, 6)
    model = TwoStepRidge().fit(X, Y, T)
    for options, error, words in (
        (
            {"n_permutations": 0},
            ValueError,
            "n_permutations must be a whole number of at least 1, found 0",
        ),
        ({"permute": "rows"}, ValueError, "permute must be .*instances.*found 'rows'"),
    ):
        with pytest.raises(error, match=words):
            permutation_test(model, "B", **options)
    alone = IndependentTaskRidge().fit(X, Y)
    with pytest.raises(
        ValueError, match="knows nothing of tasks: fit one that does, .* with tasks="
    ):
        permutation_test(alone, "C")
    with pytest.raises(
        ValueError, match="permuting tasks changes nothing: use permute='instances', found 'tasks'"
    ):
        permutation_test(alone, "B", permute="tasks")
    single = TwoStepRidge().fit(X, Y[:, :1], T[:1])
    with pytest.raises(ValueError, match="Permuting tasks takes two tasks or more, found 1"):
        permutation_test(single, "B", permute="tasks")
    network = TwoStepRidge(symmetry="symmetric").fit(X, Y @ Y.T)
    with pytest.raises(
        ValueError, match="permuted on both sides alike: leave permute out, found 'tasks'"
    ):
        permutation_test(network, "A", permute="tasks")
    with pytest.raises(
        ValueError, match="keeps statistics only, not the labels: fit TwoStepRidge on the labels"
    ):
        permutation_test(OnlineTwoStepRidge().fit(X, Y, T), "B")


def test_groups_of_tasks_leave_permuted_labels_together():
    X, Y, T = problems.data(9, 8, 3, 2, seed=32)
    rng = default_rng(33)
    model = TwoStepRidge(0.3, 0.4).fit(X, Y, T)
    groups = np.arange(8) // 3
    permutation = Permutation(np.arange(9), rng.permutation(8))
    score = scorer("r2").prepare(Y, setting=Setting.C, tie_tolerance=None)
    [[found]] = permuted_scores(
        model.fitted_.training_problem, Setting.C, iter([permutation]), score, Units((None, groups))
    )
    moved = TwoStepRidge(0.3, 0.4).fit(X, permutation.of(Y), T).holdout("C", task_groups=groups)
    assert_allclose(found, score(permutation.back(moved)), rtol=1e-10)
