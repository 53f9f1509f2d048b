"""LearnedKernelRidge: against models that are really refitted, and as the conventions of scikit-learn want it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import dyadlearn
import problems
from dyadlearn import LearnedKernelRidge, SettingKFold
from dyadlearn._progress import Progress
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.kernels import Descriptions
from dyadlearn.kernels.learned import describe
from dyadlearn.learning.error import FoldError
from dyadlearn.selection import learning_kernels
from dyadlearn.selection.standardising import final_kernel
from dyadlearn.settings import Setting
from dyadlearn.solve import cells
from learning_case import dense_predictions, dense_stages
from sweeps import every, lines, over

FAST = {"n_steps": 2}


def _problem(m=14, q=9):
    """Return two descriptions of the instances, labels, and two descriptions of the tasks; the first ones tell."""
    rng = default_rng(0)
    X = rng.normal(size=(m, 2))
    T = rng.normal(size=(q, 2))
    Y = 4.0 + np.tanh(2 * X) @ np.cos(2 * T).T + 0.3 * rng.normal(size=(m, q))
    return [X, rng.normal(size=(m, 3))], Y, [T, rng.normal(size=(q, 2))]


def _holes(Y, share=0.25):
    return problems.with_holes(Y, share)


# Against models of fixed kernels ------------------------------------------------------------------------


def _scaled_gram(kind, rows, normalize):
    """Return the kernel of a description as the documentation defines it: one kind has exponents, the other none."""
    if kind == "linear":
        K = rows @ rows.T
    else:
        K = np.exp(-0.3 * ((rows[:, None] - rows[None]) ** 2).sum(axis=2)) * np.outer(
            rows[:, 0] + 5, rows[:, 0] + 5
        )
    size = np.diag(K)
    return K / np.sqrt(np.outer(size, size)) if normalize else K / size.mean()


@over(
    lines(
        "setting kinds normalize intercept holes",
        ("A", ("precomputed",), True, True, True),
        ("B", ("linear",), True, True, False),
        ("C", ("precomputed", "linear"), False, False, True),
        ("D", ("linear",), False, True, False),
    )
)
def test_predictions_follow_from_the_learned_parameters(
    setting, kinds, normalize, intercept, holes
):
    """The formula of the documentation, written out with weights_, exponents_, shares_ and alpha_."""
    X, Y, T = _problem(7, 5)
    Y = _holes(Y) if holes else Y
    names = [f"d{place}" for place in range(len(kinds))]
    tables = []
    for rows in (X, T):
        own = zip(kinds, rows, strict=False)
        raw = [_scaled_gram(kind, each, False) if kind[0] == "p" else each for kind, each in own]
        tables.append(dict(zip(names, raw, strict=True)))
    kernels = dict(zip(names, kinds, strict=True))
    model = LearnedKernelRidge(kernel=kernels, task_kernel=kernels, setting=setting, stages=1)
    model.set_params(normalize=normalize, fit_intercept=intercept, n_steps=3, tol=1e-13)
    model.fit(tables[0], Y, tables[1])
    totals = []
    for side, rows in (("instances", X), ("tasks", T)):
        weights = model.weights_[side]
        total = weights.get("constant", 0.0)
        for name, kind, each in zip(names, kinds, rows, strict=False):
            K = _scaled_gram(kind, each, normalize)
            total = total + weights[name] * K ** model.exponents_[side][name]
        totals.append(total)
        assert_allclose(sum(weights.values()), 1.0)
    pairs = problems.pair_kernel(*totals, *model.shares_)
    constant = "grand" if intercept else None
    expected = dense_predictions(pairs, model.alpha_, Y, ~np.isnan(Y), None, constant)
    assert_allclose(model.predict(), expected)
    assert_allclose(sum(model.shares_), 1.0)


# Stages --------------------------------------------------------------------------------------------------


def _low_rank():
    rng = default_rng(0)
    Y = rng.normal(size=(16, 1)) @ rng.normal(size=(1, 12)) + 0.1 * rng.normal(size=(16, 12))
    return rng.normal(size=(16, 2)), _holes(Y, 0.2), rng.normal(size=(12, 2))


@pytest.fixture(scope="module")
def profiled():
    """Give a model whose both sides are described by profiles, stored, so that each test has one of its own."""
    X, Y, T = _low_rank()
    model = LearnedKernelRidge(setting="A", n_steps=4, cv=2, stages=2).fit(X, Y, T)
    assert model.n_stages_ == 2
    return pickle.dumps(model)


def test_profiled_sides_cannot_be_new(profiled):
    X, Y, T = _low_rank()
    model = pickle.loads(profiled)
    with pytest.raises(
        ValueError, match="describes instances by profiles of their labels.*fit with stages=1"
    ):
        model.predict(X[:2] + 1)
    with pytest.raises(ValueError, match="describes tasks by profiles"):
        model.predict(tasks=T[:2])
    with pytest.raises(ValueError, match="in setting D both sides are new: set stages=1"):
        LearnedKernelRidge(stages=2, setting="D").fit(X, Y, T)
    assert LearnedKernelRidge(stages="auto", setting="D", cv=2, **FAST).fit(X, Y, T).n_stages_ == 1


@pytest.fixture
def few_cells(monkeypatch):
    """Small grids are treated as large ones of which few cells are observed."""
    monkeypatch.setattr(cells, "_CHEAP", 0)
    monkeypatch.setattr("dyadlearn.vectrick.gather_cost", lambda like: 0)
    monkeypatch.setattr(learning_kernels, "ENOUGH", 1)
    monkeypatch.setattr(learning_kernels, "_TINY", 0)


def test_few_cells_are_learned_from_as_many_folds_as_have_enough_labels(few_cells, monkeypatch):
    X, Y, T = _low_rank()
    n = int(np.sum(~np.isnan(Y)))
    for enough, told in ((n // 2, "; error of the first 2 folds"), (n, "")):
        monkeypatch.setattr(learning_kernels, "ENOUGH", enough)
        model = LearnedKernelRidge(setting="A", n_steps=1, cv=3, stages=1).fit(X, Y, T)
        assert model.holdout_method_ == "3 folds, not nested" + told
        assert model.fitted_.learned.is_whole == (not told)


@over(lines("stages", 1, 2))
def test_few_cells_are_learned_from_the_first_fold_and_all_are_predicted_on_demand(
    stages, few_cells, monkeypatch, tmp_path
):
    X, Y, T = _low_rank()
    shown = []
    monkeypatch.setattr(
        learning_kernels,
        "Progress",
        lambda *given, **more: shown.append(given[:2]) or Progress(*given, **more),
    )
    model = LearnedKernelRidge(setting="A", n_steps=4, cv=3, stages=stages).fit(X, Y, T)
    assert model.n_stages_ == stages
    assert model.holdout_method_ == "3 folds, not nested; error of the first fold"
    assert [title for _, title in shown] == ["Learning"]
    dyadlearn.save(model, tmp_path / "model.dyad")
    codes = model.fitted_.validation.units.cells
    for fold in range(3):
        here = codes == fold
        wanted = dense_stages(model, Y, ~np.isnan(Y) & ~here)
        assert_allclose(model.holdout_[here], wanted[here], rtol=1e-3, atol=1e-4)
    first = ~np.isnan(Y) & (codes == 0)
    assert_allclose(model.holdout_error_, np.mean((Y - model.holdout_)[first] ** 2), rtol=1e-3)
    rest = np.where(first, np.nan, Y)
    errors = (Y - np.nanmean(rest))[first]
    assert_allclose(model.baselines_["grand_mean"], -np.mean(errors**2))
    bounds = model.predict_interval()
    assert_array_equal(model.fitted_.hold_out(Setting.A).predictions, model.holdout_)
    # Predictions of all folds are not called those of the first.
    assert model.fitted_.hold_out(Setting.A).method == "3 folds, not nested"
    if stages == 2:  # one stage has exact leave-one-out
        assert model.fitted_._own_holdout(Setting.A).method == "3 folds, not nested"
        assert_array_equal(model.holdout("A")[~np.isnan(Y)], model.holdout_[~np.isnan(Y)])
    assert shown[1:] == [(3, "Held-out folds")]  # computed once
    for again in (pickle.loads(pickle.dumps(model)), dyadlearn.load(tmp_path / "model.dyad")):
        assert_array_equal(again.holdout_, model.holdout_)
        assert again.baselines_ == model.baselines_
        assert_array_equal(again.predict_interval(), bounds)
    assert shown[1:] == 3 * [(3, "Held-out folds")]


# Folds, sizes, and what is refused -----------------------------------------------------------------------


@over(every(setting="BD"))
def test_constants_start_small_where_both_sides_are_new(setting):
    X, Y, T = _problem(8, 6)
    model = LearnedKernelRidge(setting=setting, n_steps=1, stages=1, cv=2).fit(X, Y, T)
    expected = 0.05 / 1.05 if setting == "D" else 1 / 3
    for weights in model.weights_.values():
        assert_allclose(weights["constant"], expected, rtol=0.01)


ONE = np.full((8, 6), np.nan)
EQUAL = np.full((8, 6), 0.1)
ALL_BUT_ONE = np.full((8, 6), 0.1)
ONE[2, 1] = ALL_BUT_ONE[2, 1] = 3.0
FEW = "there is only 1 {} with {}: give more, or fix alpha without a search"
ONE_CELL = FEW.format("sample and 1 task", "a label")
ONE_ROW = FEW.format("sample", "labels")
ONE_COLUMN = FEW.format("task", "labels")


@over(
    lines(
        "labels rows columns refused",
        (ONE, 8, 6, {"A": ONE_CELL, "B": ONE_ROW, "D": ONE_ROW}),
        (EQUAL, 1, 1, {"A": ONE_CELL, "B": ONE_ROW, "D": ONE_ROW}),
        (EQUAL, 1, 6, {"B": ONE_ROW, "D": ONE_ROW}),
        (EQUAL, 8, 1, {"D": ONE_COLUMN}),
        (EQUAL, 8, 6, {}),
        (ALL_BUT_ONE, 8, 6, {}),
        (ALL_BUT_ONE * 1e-200, 8, 6, {}),
    )
)
@over(lines("setting tasks", ("A", True), ("B", False), ("D", True)))
def test_labels_that_tell_little(labels, rows, columns, refused, setting, tasks):
    """Each has a right answer, or one sentence that says what to do."""
    X, _, T = _problem(8, 6)
    Y = np.asarray(labels, dtype=float)[:rows, :columns]
    # Profiles of such small labels take long.
    stages = 2 if setting == "A" and np.nanmax(Y) > 1e-9 else 1
    model = LearnedKernelRidge(setting=setting, cv=2, stages=stages, **FAST)
    given = X[0][:rows], Y, T[0][:columns] if tasks else None
    if setting in refused:
        with pytest.raises(ValueError, match=refused[setting]):
            model.fit(*given)
        return
    middle = (Y.max() + Y.min()) / 2
    # Predictions stay near the labels, and equal labels are predicted exactly.
    assert_allclose(model.fit(*given).predict(), middle, rtol=1e-12, atol=0.8 * np.ptp(Y))
    assert np.isfinite(model.holdout_).all()


@pytest.fixture(scope="module")
def fitted():
    X, Y, T = _problem()
    return LearnedKernelRidge(setting="A", stages=1, **FAST).fit(X, Y, T)


@over(
    lines(
        "given error message",
        ({"stages": 0}, ValueError, "stages must be a whole number of at least 1, found 0"),
        ({"n_steps": 0}, ValueError, "n_steps must be a whole number of at least 1"),
        ({"shrinkage": -1.0}, ValueError, "shrinkage must be a finite number of at least 0"),
        ({"normalize": "yes"}, TypeError, "normalize"),
        ({"scoring": "roc_auc"}, ValueError, "needs labels of exactly two values"),
        (
            {"cv": SettingKFold("B")},
            ValueError,
            "cv makes folds for setting B, but the setting is A",
        ),
        ({"cv": 200}, ValueError, "use fewer folds"),
        ({"kernel": ["rbf"]}, ValueError, "one kernel for each of 2 descriptions"),
    )
)
def test_what_is_refused_leaves_the_model_as_it_was(given, error, message, fitted):
    X, Y, T = _problem()
    model = pickle.loads(pickle.dumps(fitted))
    before = model.predict()
    model.set_params(stages="auto").set_params(**given)
    with pytest.raises(error, match=message) as raised:
        model.fit(X, Y + 1.0, T)
    assert str(raised.value).endswith(".")
    assert_array_equal(
        model.set_params(
            **{name: getattr(LearnedKernelRidge(setting="A", **FAST), name) for name in given}
        ).predict(),
        before,
    )


def test_what_else_is_refused():
    X, Y, T = _problem()
    with pytest.raises(
        ValueError, match="Setting C predicts new tasks, which need features: give tasks="
    ):
        LearnedKernelRidge(setting="C").fit(X, Y)
    model = LearnedKernelRidge(setting="B", **FAST).fit(X, Y, T)
    with pytest.raises(TypeError, match="learns it with its kernels: fit PairKernelRidge with"):
        model.set_alpha(1.0)
    with pytest.raises(ValueError, match="X must be '1', '2', as in fit, found a single table"):
        model.predict(X[0])


# Over-fitting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["constant", "profile angle"])
def test_names_of_what_joins_by_itself_are_refused(name):
    rng = default_rng(0)
    given = {"a": rng.normal(size=(6, 2)), name: rng.normal(size=(6, 2))}
    with pytest.raises(ValueError, match=f"X has a description called '{name}'"):
        LearnedKernelRidge(setting="B").fit(given, rng.normal(size=(6, 4)), rng.normal(size=(4, 2)))


@over(lines("weighted taken", (False, True), (True, False)))
def test_columns_of_a_kernel_without_ids_stay_in_the_order_in_which_they_came(weighted, taken):
    # Labels come in another order than descriptions, which folds are dealt in; the columns of new
    # rows do not.
    rng = default_rng(0)
    (X, Z), Y, (T, _) = _problem(12, 5)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    ids = np.array([f"i{place}" for place in range(12)])
    train, new = np.split(rng.permutation(12), [9])
    rows = train[rng.permutation(9)]
    kernel = {"z": "rbf", "k": "precomputed"}
    model = LearnedKernelRidge(kernel=kernel, setting="B", stages=1, n_steps=2)
    weights = rng.uniform(0.5, 2.0, size=9) if weighted else None

    def given(here, columns, named=False):
        table = pd.DataFrame(Z[here], index=ids[here]) if named else Z[here]
        return {"z": table, "k": K[np.ix_(here, columns)]}

    model.fit(given(rows, rows), Y[rows], T, weights)
    expected = model.predict(given(new, rows))
    labels = pd.DataFrame(Y[rows], index=ids[rows])
    if taken:
        whole = Descriptions({"z": pd.DataFrame(Z, index=ids), "k": K})
        found = model.fit(whole[train], labels, T, weights).predict(whole[new])
    else:
        model.fit(given(train, train, True), labels, T, weights)
        found = model.predict(given(new, train, True))
    assert_allclose(found, expected, atol=1e-9)


def test_a_score_is_that_of_the_held_out_predictions(capsys):
    (X, _), Y, (T, _) = _problem(10, 7)
    Y = _holes(Y)
    seen = []

    def score(labels, predictions):
        seen.append(-float(np.nanmean(np.abs(labels - predictions))))
        return seen[-1]

    model = LearnedKernelRidge(setting="A", cv=2, stages=2, progress=True, n_steps=1)
    model.fit(X, Y, T)
    assert model.holdout_score_ == -model.holdout_error_
    assert "(before: concordance_index 0." in capsys.readouterr().err
    model.set_params(scoring=score).fit(X, Y, T)
    assert model.holdout_score_ == max(seen)
    assert model.holdout_score_ == score(Y, model.holdout_)
    assert set(model.baselines_.values()) <= set(seen)  # baselines have the same score
    assert "(before: score -0." in capsys.readouterr().err


def test_small_grids_of_other_libraries_are_learned_with_numpy(monkeypatch):
    torch = pytest.importorskip("torch")
    (X, _), Y, (T, _) = _problem(10, 7)
    data = X, _holes(Y), T
    kinds = set()
    evaluate = FoldError.evaluate
    monkeypatch.setattr(
        FoldError,
        "evaluate",
        lambda self, *given: kinds.add(type(self.train)) or evaluate(self, *given),
    )
    model = LearnedKernelRidge(setting="A", cv=2, stages=2, n_steps=1)
    expected = clone(model).fit(*data)
    moved = clone(model).set_params(device="cpu").fit(*data)
    given = clone(model).fit(*map(torch.asarray, data))
    assert kinds == {np.ndarray}
    monkeypatch.setattr("dyadlearn.selection.standardising._FOR_PROCESSORS", 0)
    large = clone(model).fit(*map(torch.asarray, data))
    assert kinds == {np.ndarray, torch.Tensor}
    assert [type(each.predict()) for each in (moved, given)] == [np.ndarray, torch.Tensor]
    for found in (moved, given, large):
        assert_allclose(found.predict(), expected.predict(), rtol=1e-6)
        assert_allclose(found.holdout_, expected.holdout_, rtol=1e-6)


def test_learning_that_does_not_fit_in_memory_is_refused(monkeypatch):
    X, Y, T = _problem()
    free = []
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda like: free[0])
    # Enough to fit all, and to learn in one stage, but not for the profiles of all folds.
    one_stage = 36 * 14 * 9 + 15 * 23**2 + 11 * (14**2 + 9**2)
    profiles = 32 * (14**2 + 9**2)
    free[:] = [8 * (one_stage + profiles / 2)]
    with pytest.raises(
        NotEnoughMemoryError, match=r"Learning 4 kernels of a grid of 14 × 9 .* or stages=1"
    ):
        LearnedKernelRidge(setting="A", n_steps=1).fit(X, _holes(Y), T)
    LearnedKernelRidge(setting="A", stages=1, n_steps=1).fit(X, _holes(Y), T)


def test_profiles_that_are_the_same_everywhere_keep_the_exponents_of_others():
    kernel, wide = describe(
        Descriptions({"a": np.eye(4)}), "precomputed", normalize=True, repair="clip", name="X"
    )
    kernel = kernel.scaled(wide.values, "X")
    angle = np.exp(-np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))))
    found, _, _ = final_kernel(
        kernel, wide, np.zeros(3), np.log([2.0, 3.0]), [np.ones((4, 4)), angle], False
    )
    assert_allclose([member.exponent for member in found.members], [1.0, 2.0, 3.0])
