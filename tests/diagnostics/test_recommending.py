"""The best pairs that are not observed, against a slow and obvious twin."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    SettingKFold,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    recommend,
    top_pairs,
)
from dyadlearn.diagnostics import best as ranking
from dyadlearn.diagnostics import unobserved
from dyadlearn.exceptions import IdError, NoLabelWarning
from dyadlearn.models import reading as _training
from dyadlearn.pairing import expansion
from dyadlearn.settings import Setting
from sweeps import covering, lines, over


def make(m=9, q=7):
    X, Y, T = problems.data(m, q, 3, 2, noise=0.3)
    return X, T, (Y > 0.4).astype(float)


def ids_of(letter, n):
    return [f"{letter}{place}" for place in range(n)]


def cells_of(found):
    return list(zip(found.instances, found.tasks, strict=True))


def test_missing_labels_are_predicted_by_the_model_itself():
    X, T, Y = make()
    Y[2, 1:4] = np.nan
    Y[5, 3] = np.nan
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, T)
    completed = np.asarray(model.completed_)
    found = recommend(model, instance=2)
    assert set(found.ids) == {1, 2, 3}
    assert_allclose(found.scores, completed[2, list(found.ids)])
    assert np.isnan(found.labels).all()
    assert found.method == "predicted from all observed labels"
    # Among zeros, which are held out, the missing ones keep what the model says. Folds hide other
    # labels too, but that is no reason to forget anything about what is missing.
    zeros = [j for j in range(7) if Y[2, j] == 0]
    fold = SettingKFold("A", 2, random_state=0).units(model.fitted_.labels).cells
    for options, held_out in (
        ({}, model.holdout("A")),
        ({"cv": 2}, model.holdout("A", cells=fold)),
    ):
        found = recommend(model, instance=2, n=7, zeros=True, **options)
        scores = dict(zip(found.ids, found.scores, strict=True))
        assert set(found.ids) == {1, 2, 3, *zeros}
        assert_allclose([scores[j] for j in (1, 2, 3)], completed[2, 1:4])
        assert_allclose([scores[j] for j in zeros], held_out[2, zeros])
    assert found.method.startswith("exact leave-fold-out")
    assert np.abs(held_out[2, 1:4] - completed[2, 1:4]).min() > 1e-3


def test_when_zeros_count_as_unobserved():
    X, T, Y = make()
    graded = np.where(Y == 1, 3.0, 0.0)
    model = TwoStepRidge().fit(X, graded, T)
    with pytest.raises(ValueError, match=r"Every label of 1 is observed.*zeros=True"):
        recommend(model, instance=1)
    assert set(recommend(model, instance=1, zeros=True).ids) == set(np.flatnonzero(graded[1] == 0))
    with pytest.raises(ValueError, match="Every label of 1 is observed"):
        recommend(TwoStepRidge().fit(X, Y, T), instance=1, zeros=False)


def test_zeros_are_labels_where_labels_are_missing(each):
    """A measured zero is a tested pair: it is no news, however high its prediction."""
    X, T, Y = make()
    Y[2, 1:4] = np.nan
    Y[5, 3] = np.nan
    observed = ~np.isnan(Y)
    pairs = np.stack(np.nonzero(observed), axis=1)
    stored = csr_array((Y[observed], pairs.T), shape=Y.shape)
    regressor = PairRegressor(TwoStepRidge(0.3, 2.0), instances=X, tasks=T)
    for model in each(
        (
            TwoStepRidge(0.3, 2.0).fit(X, Y, T),
            TwoStepRidge(0.3, 2.0).fit(X, stored, T),
            regressor.fit(pairs, Y[observed]),
        )
    ):
        assert set(recommend(model, instance=2, n=7).ids) == {1, 2, 3}
        assert set(recommend(model, task=3, n=9).ids) == {2, 5}
        found = top_pairs(model, n=40)
        assert set(zip(found.instances, found.tasks, strict=True)) == {
            (2, 1),
            (2, 2),
            (2, 3),
            (5, 3),
        }
        zeros = set(np.flatnonzero(Y[2] == 0))
        assert set(recommend(model, instance=2, n=7, zeros=True).ids) == {1, 2, 3} | zeros


def test_a_network_without_loops_is_complete():
    X, _, _ = make(m=12)
    Y = (X @ X.T > 0.3).astype(float)
    np.fill_diagonal(Y, np.nan)
    model = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, Y)
    assert set(recommend(model, instance=2, n=12).ids) == set(np.flatnonzero(Y[2] == 0))
    Y[1, 4] = Y[4, 1] = np.nan
    model = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, Y)
    found = top_pairs(model)
    assert (found.instances, found.tasks) == ((1,), (4,))


def test_ids_frames_and_words():
    X, T, Y = make()
    rows = list("abcdefghi")
    columns = list("PQRSTUV")
    model = TwoStepRidge().fit(X, pd.DataFrame(Y, index=rows, columns=columns), T)
    plain = recommend(TwoStepRidge().fit(X, Y, T), instance=3, n=4)
    found = recommend(model, instance="d", n=4)
    assert found.ids == tuple(columns[j] for j in plain.ids)
    assert list(found.frame().columns) == ["task", "score", "label"]
    assert repr(found).startswith(f"Recommendations({len(found)} tasks for 'd': '{found.ids[0]}' (")
    assert list(recommend(model, task="P", n=1).columns()) == ["instance", "score", "label"]
    with pytest.raises(IdError, match="'z' not among the ids of the instances"):
        recommend(model, instance="z")


def test_what_cannot_be_recommended():
    X, T, Y = make()
    model = TwoStepRidge().fit(X, Y, T)
    for asked, words in (
        ({}, "^Give either instance= or task="),
        ({"instance": 0, "task": 0}, "^Give either instance= or task="),
        ({"instance": 0, "n": 1.5}, "n must be a whole number"),
        ({"instance": 9}, "outside the instances: positions 9 to 9 in 9 rows"),
    ):
        with pytest.raises(ValueError, match=words):
            recommend(model, **asked)
    with pytest.raises(ValueError, match="keeps statistics"):
        recommend(OnlineTwoStepRidge().fit(X, Y, T), instance=0)


# New ones ------------------------------------------------------------------------------------------


def best_of(F, k):
    """Return where the k best of each row stand."""
    return [sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))[:k] for row in F]


def assert_best(ids, scores, F, k, names):
    """Assert that lists have the k best of each row of predictions, NaN for those that may not be named."""
    for own, values, row in zip(ids, scores, F, strict=True):
        best = [j for j in np.argsort(-row, kind="stable")[:k] if not np.isnan(row[j])]
        assert own == tuple(names[j] for j in best)
        assert_allclose(values[: len(best)], row[best], rtol=1e-10)


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a handful of cells be a block."""
    monkeypatch.setattr("dyadlearn._array.BLOCK", 25)
    monkeypatch.setattr(expansion, "_LEAST_ROWS", 4)


MODELS = {
    "two-step": TwoStepRidge(0.3, 2.0),
    "kernels": TwoStepRidge(0.3, 2.0, kernel="rbf", task_kernel="rbf"),
    "constant": TwoStepRidge(0.3, 2.0, fit_intercept=False),
    "kronecker": KroneckerRidge(0.7),
    "pairs": PairKernelRidge(0.7),
    "search": TwoStepRidgeCV([0.1, 1.0, 10.0, 100.0]),
    "online": OnlineTwoStepRidge(0.3, 2.0),
    "single": TwoStepRidge(0.3, 2.0, kernel="rbf"),
    "other": TwoStepRidge(0.3, 2.0, task_kernel="rbf"),
    "other kronecker": KroneckerRidge(0.7, task_kernel="rbf"),
    "other pairs": PairKernelRidge(0.7, task_kernel="rbf"),
}


@over(
    covering(
        model=MODELS, new=["X", "tasks", "both"], k=[1, 4, 50], sparse=[False, True], strength=1
    )
)
def test_new_ones_by_what_predict_says(model, new, k, sparse, small_blocks):
    X, T, Y = make()
    rng = default_rng(5)
    X_new = rng.normal(size=(11, 3))
    T_new = rng.normal(size=(8, 2))
    model = clone(model).fit(X, Y, T)
    given = {"X": X_new if new != "tasks" else None, "tasks": T_new if new != "X" else None}
    if new == "tasks" and model.grows:
        with pytest.raises(
            ValueError, match="OnlineTwoStepRidge lists no known instances for new tasks: pass X="
        ):
            recommend(model, **given)
        return
    F = model.predict(given["X"] if new != "tasks" else X, given["tasks"])
    F = F.T if new == "tasks" else F
    if sparse:
        given = {name: None if each is None else csr_array(each) for name, each in given.items()}
    found = recommend(model, **given, n=k)
    assert_best(found.ids, found.scores, F, k, range(F.shape[1]))
    assert found.subjects == tuple(range(len(F)))
    assert found.setting == {"X": "B", "tasks": "C", "both": "D"}[new]
    assert (found.of, found.labels) == ("instances" if new == "tasks" else "tasks", None)


@over(
    lines(
        "model folds", (TwoStepRidge(task_kernel="rbf"), True), (TwoStepRidge(kernel="rbf"), False)
    )
)
def test_coefficients_are_multiplied_by_the_side_that_makes_it_cheaper(model, folds, monkeypatch):
    X, T, Y = make()
    model.fit(X, Y, T)
    F = model.predict(X)
    used = []
    grid = expansion.Expansion.grid
    monkeypatch.setattr(expansion.Expansion, "grid", lambda *given: used.append(1) or grid(*given))
    found = recommend(model, X=X, n=7)
    assert bool(used) is not folds
    assert_allclose(found.scores, -np.sort(-F, axis=1), rtol=1e-10)


def test_kernel_rows_and_frames_with_ids(small_blocks):
    X, T, Y = make()
    rows = list("abcdefghi")
    columns = list("PQRSTUV")
    labels = pd.DataFrame(Y, index=rows, columns=columns)
    K = pd.DataFrame(X @ X.T, index=rows, columns=rows)
    model = TwoStepRidge(0.3, 2.0, kernel="precomputed").fit(K, labels, T)
    new = pd.DataFrame(X[:5] @ X.T + 0.1, index=list("vwxyz"), columns=rows)
    F = model.predict(new)
    found = recommend(model, X=new[rows[::-1]], n=2, sides=("user", "film"))
    assert found.subjects == tuple("vwxyz")
    assert found.ids == tuple(tuple(columns[j] for j in own) for own in best_of(F.to_numpy(), 2))
    columns = found.columns()
    assert list(columns) == ["user", "film", "score"]
    named = zip(columns["user"], columns["film"], strict=True)
    assert_allclose(columns["score"], [F.loc[pair] for pair in named])
    assert repr(found) == "RecommendationLists(2 films each for 5 users, setting B)"
    turned = recommend(model, tasks=T[:3], n=2)
    assert list(turned.columns()) == ["task", "instance", "score"]
    assert set(turned.columns()["instance"]) <= set(rows)


def test_models_with_effects_of_known_rows_recommend_for_new_ones_in_another_call():
    X, T, Y = make()
    users = pd.DataFrame(X, index=ids_of("u", 9))
    items = pd.DataFrame(T, index=ids_of("i", 7))
    cells = [(i, j) for i in range(8) for j in range(6) if i != j]  # u8 and i6 are new
    pairs = [(f"u{i}", f"i{j}") for i, j in cells]
    model = PairRegressor(PairKernelRidge(per_instance=0.5), instances=users, tasks=items)
    model.fit(pairs, [Y[cell] + 3 for cell in cells])
    for side, ids, new in (("instance", ["u1", "u8"], "u8"), ("task", ["i6", "i2"], "i6")):
        words = f"Known and new {side}s are ranked differently: .* one for the new ones, '{new}'"
        with pytest.raises(ValueError, match=words):
            recommend(model, **{side: ids})
        assert all(len(recommend(model, **{side: [each]}).ids[0]) for each in ids)


def test_lists_for_several_known_ones(small_blocks):
    X, T, Y = make()
    Y[3, :] = 1  # of whom nothing is left to recommend
    Y[4, 2] = np.nan
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, T)
    for side, subjects in (("instance", [4, 1, 8]), ("task", np.array([6, 2]))):
        found = recommend(model, **{side: subjects}, n=3, zeros=True)
        assert found.subjects == tuple(subjects)
        for row, subject in enumerate(subjects):
            alone = recommend(model, **{side: int(subject)}, n=3, zeros=True)
            assert found.ids[row] == alone.ids
            assert_allclose(found.scores[row, : len(alone)], alone.scores)
            assert_array_equal(found.labels[row, : len(alone)], alone.labels)
    assert recommend(model, instance=[3, 4], zeros=True).ids[0] == ()
    with pytest.raises(ValueError, match="list of instances to recommend for is empty"):
        recommend(model, instance=[])
    with pytest.raises(ValueError, match="Every label of these instances is observed"):
        recommend(model, instance=[3, 3])


def test_what_cannot_be_recommended_to_new_ones():
    X, T, Y = make()
    model = TwoStepRidge().fit(X, Y, T)
    for more in ({"zeros": True}, {"cv": 3}, {"setting": "D"}):
        with pytest.raises(ValueError, match="have no labels to hold out"):
            recommend(model, X=X, **more)
    assert recommend(model, X=X, setting="B").setting == "B"
    with pytest.raises(ValueError, match="found instance= and X="):
        recommend(model, X=X, instance=0)
    steps = TwoStepRegressor().fit(X, Y, T)
    for new in ({"X": X[:2]}, {"tasks": T[:2]}):
        with pytest.raises(TypeError, match="has no closed form"):
            recommend(steps, **new)


def test_memory_stays_bounded(monkeypatch):
    X, T, Y = make()
    monkeypatch.setattr("dyadlearn._array.BLOCK", 2**10)
    monkeypatch.setattr(expansion, "_LEAST_ROWS", 16)
    merged = ranking.merged
    sizes = []

    def watched(kept, scores, first, k):
        sizes.append(scores.size)
        return merged(kept, scores, first, k)

    monkeypatch.setattr(ranking, "merged", watched)
    X_new, T_new = np.repeat(X, 20, axis=0), np.repeat(T, 20, axis=0)
    for model in (TwoStepRidge(kernel="rbf", task_kernel="rbf"), OnlineTwoStepRidge()):
        sizes.clear()
        recommend(model.fit(X, Y, T), X=X_new, tasks=T_new, n=2)
        assert max(sizes) <= 2**10
        assert sum(sizes) == 180 * 140


@over(lines("several more holes", (False, True, False), (True, True, True), (True, False, True)))
def test_a_growing_model_recommends_to_those_that_it_has_kept(several, more, holes, small_blocks):
    X, T, Y = make(m=13)
    Y = Y + X[:, :1]
    Y = problems.with_holes(Y, 0.6)
    Y[5] = np.nan if holes else 1.0
    users = ids_of("u", 13)
    items = ids_of("i", 7)
    X_, Y_ = pd.DataFrame(X, index=users), pd.DataFrame(Y, index=users, columns=items)
    model = OnlineTwoStepRidge(0.3, 2.0, keep_labels=True).fit(X_[:8], Y_[:8], T)
    model.partial_fit(X_[8:], Y_[8:])
    F = np.where(np.isnan(Y), model.predict(X_), np.nan)
    known = [(user, "i2") for user in users] if more else None
    if more:
        F[:, 2] = np.nan
    if more and holes:  # a grid has a row for each that was learnt
        known = np.where(np.arange(7) == 2, 1.0, np.full(Y.shape, np.nan))
    asked = ["u9", "u5", "u0", "u9"] if several else "u9"
    found = recommend(model, instance=asked, n=3, known=known)
    ids = found.ids if several else [found.ids]
    rows = F[[9, 5, 0, 9]] if several else F[[9]]
    assert_best(ids, np.atleast_2d(found.scores), rows, 3, items)
    assert (found.setting, found.of) == ("A", "tasks")
    with pytest.raises(IdError, match="kept no instances with the ids 'z': pass their features by"):
        recommend(model, instance="z")
    with pytest.raises(ValueError, match="nothing is held out"):
        recommend(model, instance="u1", cv=3)
    if not holes:
        with pytest.raises(ValueError, match="Everything is known of 'u5'"):
            recommend(model, instance="u5")


def test_a_growing_model_knows_instances_without_ids_by_their_positions():
    X, T, Y = make()
    Y[:, :3] = np.nan
    model = OnlineTwoStepRidge(keep_labels=True).fit(X[:4], Y[:4], T)
    model.partial_fit(X[4:], Y[4:])
    for position in (0, 3, 4, 8):  # first and last of each batch
        found = recommend(model, instance=position, n=3)
        expected = model.predict(X)[position, :3]
        assert list(found.ids) == list(np.argsort(-expected))
        assert_allclose(found.scores, np.sort(expected)[::-1], rtol=1e-10)
    for wrong in (9, "0"):
        with pytest.raises(IdError, match="The model has kept no instances with the ids"):
            recommend(model, instance=wrong)


@over(
    lines(
        "several features row_alpha named",
        (False, True, 0.8, True),
        (True, True, None, False),
        (True, False, None, True),
    )
)
def test_a_growing_model_recommends_stored_instances_for_a_task(
    several, features, row_alpha, named, small_blocks
):
    X, T, Y = make(m=13)
    T = T if features else None
    Y = Y + X[:, :1]
    Y = problems.with_holes(Y, 0.6)
    users = [f"u{i}" if named else i for i in range(13)]
    items = [f"i{j}" if named else j for j in range(7)]
    X_, Y_ = pd.DataFrame(X, index=users), pd.DataFrame(Y, index=users, columns=items)
    whole = OnlineTwoStepRidge(0.3, 2.0, keep_labels=True, row_alpha=row_alpha)
    model = clone(whole)
    learned = (X_, Y_) if named else (X, Y)
    model.fit(learned[0][:8], learned[1][:8], T)
    model.partial_fit(learned[0][8:], learned[1][8:])
    F = np.where(np.isnan(Y), whole.fit(X_, Y_, T).predict(X_), np.nan)
    F[[4, 5, 6], [2, 6, 0]] = np.nan
    known = [(users[4], items[2]), (users[5], items[6]), (users[6], items[0])]
    asked = [2, 6, 0] if several else [2]
    subject = [items[j] for j in asked] if several else items[2]
    found = recommend(model, task=subject, n=4, known=known)
    lists = (found.ids, found.scores) if several else ([found.ids], [found.scores])
    assert_best(*lists, F[:, asked].T, 4, users)
    assert (found.setting, found.of) == ("A", "instances")
    with pytest.raises(IdError if named else ValueError, match="tasks"):
        recommend(model, task="z" if named else 7)


@over(
    lines(
        "model alone side k",
        (KroneckerRidge(0.7), True, "task", 3),
        (TwoStepRidge(0.3, 2.0), True, "instance", 50),
        (TwoStepRidge(0.3, 2.0), False, "instance", 3),
    )
)
def test_long_tables_know_whom_their_tables_know(model, alone, side, k, small_blocks, monkeypatch):
    if alone:  # fitted on observed pairs alone
        monkeypatch.setattr(_training, "prefers_pairs", lambda *given, **more: True)
    X, T, Y = make(m=13, q=11)
    users = pd.DataFrame(X, index=ids_of("u", 13))
    items = pd.DataFrame(T, index=ids_of("i", 11))
    rng = default_rng(2)
    Y = np.where(rng.random(Y.shape) < 0.4, Y + X[:, :1], np.nan)[:9, :8]  # others are new
    pairs = [(f"u{i}", f"i{j}") for i, j in np.argwhere(~np.isnan(Y))]
    fitted = PairRegressor(model, instances=users, tasks=items).fit(pairs, Y[~np.isnan(Y)])
    assert (fitted.model_.fitted_.labels.grid is None) == alone
    is_row = side == "instance"
    new = ["u12", "u10"] if is_row else ["i9", "i8"]
    known = ["u1", "u8", "u1"] if is_row else ["i2", "i7", "i2"]
    trained = fitted.task_ids_ if is_row else fitted.instance_ids_

    def cell(subject, other):
        return (subject, other) if is_row else (other, subject)

    for subjects in (new, [*new, *known], known[0], new[0]):
        found = recommend(fitted, **{side: subjects}, n=k)
        several = isinstance(subjects, list)
        asked = subjects if several else [subjects]
        assert found.setting == ("A" if set(asked) & set(known) else "B" if is_row else "C")
        lists = found.ids if several else [found.ids]
        for subject, own, scores in zip(asked, lists, np.atleast_2d(found.scores), strict=True):
            left = [other for other in trained if cell(subject, other) not in pairs]
            values = fitted.predict([cell(subject, other) for other in left])
            best = np.argsort(-values, kind="stable")[:k]
            assert own == tuple(left[place] for place in best)
            assert_allclose(scores[: len(best)], values[best], rtol=1e-8)
    with pytest.raises(IdError, match="'z9'"):
        recommend(fitted, **{side: "z9"})
    for subject in (known[0], new[0]):
        first = recommend(fitted, **{side: [subject]}, n=1).ids
        told = [cell(subject, first[0][0])]
        assert recommend(fitted, **{side: [subject]}, n=1, known=told).ids != first
    if alone:
        assert len(top_pairs(fitted, n=2)) == 2


# What is known of them already -----------------------------------------------------------------------


def in_form(form, W, rows, columns):
    """Return known labels (a, n), NaN where there are none, as somebody might have them."""
    first, second = np.nonzero(~np.isnan(W))
    pairs = [(rows[i], columns[j]) for i, j in zip(first, second, strict=True)]
    values = W[first, second]
    return {
        "grid": lambda: pd.DataFrame(W, index=rows, columns=columns).iloc[::-1, ::-1],
        "array": lambda: W,
        "sparse": lambda: coo_array((values, (first, second)), shape=W.shape),
        "pairs": lambda: pairs,
        "long": lambda: pd.DataFrame(pairs, columns=["who", "what"]).assign(value=values),
    }[form]()


FORMS = ["grid", "array", "sparse", "pairs", "long"]


@over(
    covering(
        model={name: MODELS[name] for name in ("two-step", "kronecker", "online", "other pairs")},
        new=["X", "tasks", "both"],
        k=[1, 3, 50],
        form=FORMS,
        strength=1,
        where=lambda model, new, **_: new != "tasks" or not model.grows,
    )
)
def test_known_pairs_are_not_named(model, new, k, form, small_blocks):
    X, T, Y = make()
    rng = default_rng(5)
    users = ids_of("u", 9)
    items = ids_of("i", 7)
    model = clone(model).fit(X, pd.DataFrame(Y, index=users, columns=items), T)
    given = {}
    if new != "tasks":
        users = [f"v{i}" for i in range(11)]
        given["X"] = pd.DataFrame(rng.normal(size=(11, 3)), index=users)
    if new != "X":
        items = [f"j{i}" for i in range(8)]
        given["tasks"] = pd.DataFrame(rng.normal(size=(8, 2)), index=items)
    shape = len(users), len(items)
    W = np.where(rng.random(shape) < 0.4, rng.integers(1, 6, shape), np.nan)
    W[2], W[3] = np.nan, 3.0
    F = np.asarray(model.predict(given.get("X", X), given.get("tasks")))
    F = np.where(np.isnan(W), F, np.nan)
    subjects, others, F = (users, items, F) if new != "tasks" else (items, users, F.T)
    found = recommend(model, **given, n=k, known=in_form(form, W, users, items))
    assert_best(found.ids, found.scores, F, k, others)
    assert found.subjects == tuple(subjects)


def test_zeros_and_others_in_what_is_known():
    X, T, Y = make()
    model = OnlineTwoStepRidge().fit(X, Y, T)
    plain = recommend(model, X=X[:2], n=7).ids
    without = (plain[0][1:], plain[1])
    known = np.zeros((2, 7))
    known[0, plain[0][0]] = 1
    users = pd.DataFrame(X[:2], index=["a", "b"])
    # Pairs of other users, and of items that are no longer sold, are no mistake; ids that are
    # written otherwise are.
    for rows, told, expected in (
        (X[:2], known, without),
        (X[:2], known > 0, without),
        (X[:2], [], plain),
        (users, [("a", plain[0][0]), ("z", 3)], without),
        (users, [("y", 3), ("z", 3)], plain),
    ):
        assert recommend(model, X=rows, n=7, known=told).ids == expected
    with pytest.raises(ValueError, match="Everything is known of these instances"):
        recommend(model, X=X[:2], known=known, zeros=False)
    with pytest.raises(
        IdError, match="none of the instances, but 'a ' in known and 'a' in the mod"
    ):
        recommend(model, X=users, known=[("a ", 3), ("z", 3)])
    for wrong, words in (
        (np.ones((3, 7)), r"shape \(3, 7\), expected \(2, 7\)"),
        ([(0, 9)], "known points outside the tasks: positions 9 to 9 in 7 rows"),
        ([("a", 1)], "has no ids, so known must give whole row positions"),
        ([(0, 1, 2, 3)], "known must be a grid|shape"),
        (3, "known must be a grid of labels or a long table of pairs, found int"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            recommend(model, X=X[:2], known=wrong)


# Top pairs -----------------------------------------------------------------------------------------


def every_pair(Y, F, k, zeros):
    """Return the k best cells that are not observed: all of them, sorted."""
    cells = [
        (i, j)
        for i in range(Y.shape[0])
        for j in range(Y.shape[1])
        if np.isnan(Y[i, j]) or (zeros and Y[i, j] == 0)
    ]
    return sorted(cells, key=lambda cell: -F[cell])[:k]


@over(
    covering(
        model=[TwoStepRidge(0.3, 2.0), KroneckerRidge(0.7), IndependentTaskRidge(0.5)],
        setting=["A", "B", "C", "D"],
        k=[1, 6, 1000],
        holes=[False, True],
        where=lambda model, setting, k, holes: (
            setting in "AB" or "IndependentTask" not in str(model)
        ),
        strength=1,
    )
)
def test_the_top_of_all_pairs(model, setting, k, holes, small_blocks):
    X, T, Y = make()
    if holes:
        Y = problems.with_holes(Y, 0.15)
    model = clone(model).fit(X, Y, None if "IndependentTask" in str(model) else T)
    F = model.fitted_.hold_out(Setting(setting)).predictions
    if setting == "A":
        F = np.where(np.isnan(Y), model.completed_, F)
    assert np.isfinite(F).all()
    expected = every_pair(Y, F, k, zeros=True)
    found = top_pairs(model, n=k, setting=setting, zeros=True if holes else None)
    assert cells_of(found) == expected
    assert_allclose(found.scores, [F[cell] for cell in expected])
    assert_array_equal(found.labels, [Y[cell] for cell in expected])


def test_missing_pairs_need_no_hold_out(monkeypatch, small_blocks):
    X, T, Y = make()
    Y = Y + X[:, :1]
    Y = problems.with_holes(Y, 0.4)
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, T)
    monkeypatch.setattr(unobserved, "held_out", None)
    found = top_pairs(model, n=5, sides=("user", "film"))
    expected = every_pair(Y, np.asarray(model.completed_), 5, zeros=False)
    assert cells_of(found) == expected
    assert found.method == "predicted from all observed labels"
    assert list(found.frame().columns) == ["user", "film", "score", "label"]
    assert found.columns()["label"] == [None] * 5
    assert repr(found).startswith(f"TopPairs(5 in setting A, best {expected[0]}, ")


def test_equal_pairs_come_in_the_order_of_rows(small_blocks):
    Y = np.zeros((4, 5))
    Y[::2, 1] = 1
    model = TwoStepRidge(fit_intercept=False).fit(np.ones((4, 1)), Y, np.ones((5, 1)))
    F = model.holdout("D")
    assert np.unique(F).size < 8  # so that there is something to see
    assert cells_of(top_pairs(model, n=9, setting="D")) == every_pair(Y, F, 9, zeros=True)


@over(
    lines(
        "symmetry selves holes",
        ("symmetric", True, False),
        ("symmetric", False, True),
        ("antisymmetric", False, True),
    )
)
def test_pairs_of_a_network_are_named_once(symmetry, selves, holes, small_blocks):
    X, _, _ = make(m=12)
    hidden = np.triu(default_rng(2).random((12, 12)) < 0.2, 1)
    hidden = hidden | hidden.T
    is_symmetric = symmetry == "symmetric"
    if is_symmetric:
        Y = (X @ X.T > 0.3).astype(float)
        np.fill_diagonal(Y, 0)
        Y[4, 4] = 1.0 if selves else 0.0
    else:
        Y = np.sign(X[:, :1] @ X[:, 1:2].T - X[:, 1:2] @ X[:, :1].T)
        Y[hidden[::-1, ::-1]] = 0.0
    if holes:
        Y[hidden] = np.nan
    model = TwoStepRidge(0.5, 0.5, symmetry=symmetry).fit(X, Y)
    found = top_pairs(model, n=7, zeros=True)
    F = model.fitted_.hold_out(Setting.A).predictions
    F = np.where(np.isnan(Y), model.completed_, F)
    cells = [
        (i, j) if is_symmetric or F[i, j] >= 0 else (j, i)
        for i, j in zip(*np.triu_indices(12), strict=True)
        if not Y[i, j] or np.isnan(Y[i, j])
    ]
    expected = [cell for cell in cells if selves or cell[0] != cell[1]]
    expected = sorted(expected, key=lambda cell: -F[cell])[:7]
    assert cells_of(found) == expected
    assert_allclose(found.scores, [F[cell] for cell in expected], rtol=1e-9)
    assert list(found.columns()) == ["node", "other node", "score", "label"]
    node = next(i for i in range(12) if Y[i, i] == 0)
    assert (node in recommend(model, instance=node, n=12, zeros=True).ids) == selves


def test_top_pairs_that_cannot_be_had():
    X, T, Y = make()
    with pytest.raises(
        ValueError, match="All pairs are observed: there is none to recommend; use zeros=True"
    ):
        top_pairs(TwoStepRidge().fit(X, 3 * Y, T))
    Y[:, 2] = np.nan
    with pytest.warns(NoLabelWarning):
        model = IndependentTaskRidge().fit(X, Y)
    with pytest.raises(ValueError, match="Nothing is predicted for unobserved pairs"):
        top_pairs(model, zeros=False)
