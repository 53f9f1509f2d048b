"""Models on long tables: the same as on grids, and at home in scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
)
from dyadlearn.exceptions import IdError, KernelError
from sweeps import covering, lines, over

M = 14
Q = 11
X, Y, T = problems.data(M, Q, 3, 2, noise=0.3)
INSTANCES = [f"p{i}" for i in range(M)]
TASKS = [f"d{j}" for j in range(Q)]
# Training uses the first entities of both tables, the others are new.
SEEN = 10
KNOWN = 8

CELLS = np.argwhere(np.ones((M, Q), dtype=bool))
VALUES = Y[CELLS[:, 0], CELLS[:, 1]]


def cells(m, q):
    """Return the cells of a block, shuffled so that rows and columns appear in another order than in the tables."""
    return np.random.default_rng(1).permutation(np.argwhere(np.ones((m, q), dtype=bool)))


def frame(kind, values, ids, columns):
    if kind == "pandas":
        return pd.DataFrame(values, ids, columns)
    return pl.DataFrame({"id": ids, **dict(zip(columns, values.T, strict=True))})


def tables(kernel, kind):
    """Return the entities of both sides, as features or as kernels."""
    pair = (X, T)
    names = (["x", "y", "z"], ["u", "v"])
    if kernel == "precomputed":
        pair = (X @ X.T, T @ T.T)
        names = (INSTANCES, TASKS)
    if kind == "array":
        return pair
    return frame(kind, pair[0], INSTANCES, names[0]), frame(kind, pair[1], TASKS, names[1])


def named(chosen, kind):
    """Return pairs as the tables call them."""
    if kind == "array":
        return chosen
    ids = np.array(INSTANCES)[chosen[:, 0]], np.array(TASKS)[chosen[:, 1]]
    Frame = pd.DataFrame if kind == "pandas" else pl.DataFrame
    return Frame(dict(zip(("protein", "drug"), ids, strict=True)))


def on_the_grid(model, kernel):
    """Return what the model itself predicts for all cells when fitted on the training block."""
    left, right = tables(kernel, "array")
    if kernel == "precomputed":
        model.fit(left[:SEEN, :SEEN], Y[:SEEN, :KNOWN], tasks=right[:KNOWN, :KNOWN])
        return model.predict(left[:, :SEEN], tasks=right[:, :KNOWN])
    return model.fit(left[:SEEN], Y[:SEEN, :KNOWN], tasks=right[:KNOWN]).predict(left, tasks=right)


# --- complete tables ---------------------------------------------------------------------------


@over(
    covering(
        Model=[TwoStepRidge, KroneckerRidge],
        kernel=["linear", "rbf", "precomputed"],
        kind=["array", "pandas", "polars"],
    )
)
def test_a_complete_table_is_a_grid(Model, kernel, kind):
    model = Model(alpha=0.5, kernel=kernel, task_kernel=kernel)
    instances, tasks = tables(kernel, kind)
    train = cells(SEEN, KNOWN)
    regressor = PairRegressor(model, instances=instances, tasks=tasks)
    regressor.fit(named(train, kind), Y[train[:, 0], train[:, 1]])
    # All four settings, with repeats.
    asked = np.concatenate([cells(M, Q), cells(3, 3)])
    predicted = regressor.predict(named(asked, kind))
    assert type(predicted) is np.ndarray
    expected = on_the_grid(clone(model), kernel)[asked[:, 0], asked[:, 1]]
    assert_allclose(predicted, expected, rtol=1e-9)
    assert (regressor.n_dropped_, regressor.n_repeated_, regressor.n_contradicting_) == (0, 0, 0)
    assert regressor.n_features_in_ == 2
    order = dict.fromkeys(train[:, 0].tolist())
    wanted = order if kind == "array" else [INSTANCES[label] for label in order]
    assert regressor.instance_ids_ == tuple(wanted)
    assert not hasattr(model, "model_")
    assert not hasattr(model, "dual_coef_")


@over(lines("Model tasks", (TwoStepRidge, None), (IndependentTaskRidge, T)))
def test_without_a_task_side_training_tasks_can_be_predicted(Model, tasks):
    train = cells(SEEN, KNOWN)
    regressor = PairRegressor(Model(0.5, kernel="rbf"), instances=X, tasks=tasks)
    regressor.fit(train, Y[train[:, 0], train[:, 1]])
    expected = Model(0.5, kernel="rbf").fit(X[:SEEN], Y[:SEEN, :KNOWN]).predict(X)
    asked = cells(M, KNOWN)
    assert_allclose(regressor.predict(asked), expected[tuple(asked.T)], rtol=1e-9)
    remedy = "IndependentTaskRidge has no task side"
    if tasks is None:
        remedy = "give tasks=, their features"
    with pytest.raises(IdError, match=rf"^2 of 3 tasks are in no training pair: 9, 8; {remedy}"):
        regressor.predict([(0, 9), (0, 1), (1, 8)])


def test_tables_may_grow_after_fitting():
    K, G = tables("precomputed", "pandas")
    model = TwoStepRidge(0.5, 0.5, kernel="precomputed", task_kernel="precomputed")
    train = cells(SEEN, KNOWN)
    regressor = PairRegressor(model, instances=K.iloc[:SEEN, :SEEN], tasks=G.iloc[:KNOWN, :KNOWN])
    regressor.fit(named(train, "pandas"), Y[train[:, 0], train[:, 1]])
    asked = named(CELLS, "pandas")
    words = "4 of 14 instances are not in the table instances=: 'p10', 'p11', 'p12', 'p13'"
    with pytest.raises(IdError, match=words):
        regressor.predict(asked)
    regressor.set_params(instances=K.iloc[::-1, ::-1], tasks=G)
    expected = on_the_grid(clone(model), "precomputed").ravel()
    assert_allclose(regressor.predict(asked), expected, rtol=1e-9)


def test_a_table_with_other_features_is_refused(fitted_well):
    instances, tasks = NAMED
    for name, table in (("instances", instances[["y", "x", "z"]]), ("tasks", tasks[["v", "u"]])):
        changed = pickle.loads(fitted_well).set_params(**{name: table})
        words = f"^The feature names of {name} should match those that were passed during fit, in the sa"
        with pytest.raises(ValueError, match=words):
            changed.predict([("p0", "d0")])


# --- weights -----------------------------------------------------------------------------------


class Weighed(TwoStepRidge):
    """Notes the weights that it is given."""

    def fit(self, X, y, tasks=None, sample_weight=None):
        self.weights_ = sample_weight
        return super().fit(X, y, tasks)


def test_weights_become_those_of_the_cells():
    pairs = np.concatenate([CELLS, CELLS[:1]])
    labels = np.append(VALUES, VALUES[0] + 4)
    expected = np.arange(1.0, M * Q + 1)
    regressor = PairRegressor(Weighed(), instances=X, tasks=T)
    regressor.fit(pairs, labels, sample_weight=np.append(expected, 3.0))
    expected[0] = 4.0
    assert_array_equal(regressor.model_.weights_.toarray().ravel(), expected)
    grid = Y.copy()
    grid[0, 0] += 3.0
    expected = TwoStepRidge().fit(X, grid, T).predict(X).ravel()
    assert_allclose(regressor.predict(CELLS), expected, rtol=1e-9)


def test_series_have_the_index_of_their_frame():
    rows = [f"row {place}" for place in range(M * Q)]
    pairs = pd.DataFrame(CELLS, rows, ["instance", "task"])
    labels = pd.Series(VALUES, rows)
    weights = pd.Series(np.arange(1.0, M * Q + 1), rows)
    regressor = PairRegressor(Weighed(), instances=X, tasks=T)
    expected = clone(regressor).fit(CELLS, VALUES, weights.to_numpy())
    regressor.fit(pairs, labels, weights)
    assert_array_equal(regressor.predict(CELLS), expected.predict(CELLS))
    for y, loads in ((labels.iloc[::-1], weights), (labels, weights.iloc[::-1])):
        with pytest.raises(IdError, match="has the ids of pairs in another order"):
            regressor.fit(pairs, y, loads)
        with pytest.raises(IdError, match="has the ids of pairs in another order"):
            regressor.score(pairs, y, loads)


def test_the_score_is_that_of_the_observed_pairs():
    regressor = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(CELLS, VALUES)
    labels = VALUES[:6].copy()
    labels[2] = np.nan
    kept = [0, 1, 3, 4, 5]
    for weights in (None, np.arange(1.0, 7.0)):
        found = regressor.score(CELLS[:6], labels, sample_weight=weights)
        w = None if weights is None else weights[kept]
        expected = r2_score(labels[kept], regressor.predict(CELLS[kept]), sample_weight=w)
        assert_allclose(found, expected, rtol=1e-12)


@over(lines("of_tasks expected", (None, "float32"), ("float64", "float64")))
def test_averages_of_whole_labels_have_the_precision_of_the_features(of_tasks, expected):
    tasks = None if of_tasks is None else T.astype(of_tasks)
    model = PairRegressor(TwoStepRidge(), instances=X.astype(np.float32), tasks=tasks)
    assert model.fit(CELLS, np.round(VALUES).astype(int)).predict(CELLS).dtype == expected


# --- inside scikit-learn -----------------------------------------------------------------------


class Precious(np.ndarray):
    """A table too large to be copied."""

    def __deepcopy__(self, memo):
        raise AssertionError("the table was copied")


def test_no_clone_copies_the_tables_on_its_way():
    instances = X.view(Precious)
    tasks = T.view(Precious)
    regressor = PairRegressor(TwoStepRidge(), instances=instances, tasks=tasks)
    search = GridSearchCV(regressor, {"model__alpha": [0.1, 1.0]}, cv=SettingKFold("B", 2))
    search.fit(CELLS, VALUES)
    assert search.best_estimator_.tasks is tasks
    assert clone(clone(search.best_estimator_)).instances is instances


def test_parameters_in_and_out():
    regressor = PairRegressor(TwoStepRidge(0.3), instances=X, tasks=T)
    assert regressor.get_params()["instances"] is X
    assert regressor.get_params()["model__alpha"] == 0.3
    regressor.set_params(model__alpha=7.0, tasks=None)
    assert regressor.model.alpha == 7.0
    assert regressor.tasks is None
    assert repr(PairRegressor(TwoStepRidge())) == "PairRegressor(model=TwoStepRidge())"


# --- bad input ---------------------------------------------------------------------------------

NAMED = tables("linear", "pandas")


@pytest.fixture(scope="module")
def fitted_well():
    """Give a fitted model, stored, so that each case has one of its own."""
    model = PairRegressor(Weighed(), instances=NAMED[0], tasks=NAMED[1])
    return pickle.dumps(model.fit(named(CELLS, "pandas"), VALUES))


@over(
    lines(
        "change error message",
        ({"model": "ridge"}, TypeError, r"^model must be a TwoStepRidge, .* found 'ridge'\.$"),
        (
            {"model": TwoStepRidge(symmetry="symmetric")},
            ValueError,
            r"^A network has one set of nodes, but PairReg",
        ),
        (
            {"instances": None},
            ValueError,
            r"^instances is None: give the features or the kernel of the inst",
        ),
        (
            {"tasks": NAMED[1].iloc[6:]},
            IdError,
            r"^6 of 11 tasks are not in the table tasks=: .*'d4', …; add them",
        ),
        (
            {"instances": X},
            IdError,
            r"^14 of 14 instances are not in the table instances=: 'p0', .*first id is 0\)\.$",
        ),
        (
            {"tasks": pd.concat([NAMED[1]] * 2)},
            IdError,
            r"^The index of tasks has repeated ids: 'd0', ",
        ),
        (
            {"instances": pl.DataFrame(X)},
            IdError,
            r"^instances is a frame of polars without ids: put them in",
        ),
        (
            {"model": TwoStepRidge(kernel="precomputed")},
            KernelError,
            r"^instances must be a square matrix for a pre",
        ),
        (
            {"pairs": np.ones((4, 3))},
            ValueError,
            r"^pairs must have two columns .* found shape \(4, 3\)\.$",
        ),
        ({"pairs": []}, ValueError, r"^pairs is empty\.$"),
        (
            {"y": None},
            ValueError,
            r"^PairRegressor requires y to be passed, but the target y is None",
        ),
        (
            {"y": Y},
            ValueError,
            r"^y must have one value for each of 154 pairs, found shape \(14, 11\)\.$",
        ),
        (
            {"y": np.where(np.arange(M * Q) == 7, np.inf, VALUES)},
            ValueError,
            r"^y contains infinity, first in row 7",
        ),
        (
            {"sample_weight": -np.ones(M * Q)},
            ValueError,
            r"^sample_weight must be finite and at least 0, found -1",
        ),
        (
            {"sample_weight": np.ones(3)},
            ValueError,
            r"^sample_weight must have one value for each of 154 pairs",
        ),
    )
)
def test_what_cannot_be_fitted(change, error, message, fitted_well):
    good = pickle.loads(fitted_well)
    params = good.get_params(deep=False)
    given = {"pairs": named(CELLS, "pandas"), "y": VALUES} | change
    expected = good.predict([("p1", "d1")])
    fitted = good.model_
    good.set_params(**{name: given.pop(name) for name in change if name in params})
    with pytest.raises(error, match=message):
        good.fit(**given)
    # Nothing is half-changed.
    good.set_params(**params)
    assert good.model_ is fitted
    assert_array_equal(good.predict([("p1", "d1")]), expected)


@over(
    lines(
        "pairs error message",
        (
            [("x", "d0"), ("p0", "d0")],
            IdError,
            r"^1 of 2 instances are not in the table instances=: 'x'; add them to",
        ),
        (
            [("p0", 3)],
            IdError,
            r"^1 of 1 tasks are not in the table tasks=: 3; .*\(its first id is 'd0'\)\.$",
        ),
        ([("p0",)], ValueError, r"^pairs must have two columns"),
        ([], ValueError, r"^pairs is empty\.$"),
    )
)
def test_what_cannot_be_predicted(pairs, error, message, fitted_well):
    with pytest.raises(error, match=message):
        pickle.loads(fitted_well).predict(pairs)


# --- ids that are in no table --------------------------------------------------------------------------------------


@over(
    lines(
        "model weighted",
        (TwoStepRidge(0.5, identity=1.0), True),
        (IndependentTaskRidge(0.5), False),
    )
)
def test_unknown_ids_are_predicted_by_means(model, weighted):
    """By that of the known side, or that of all labels; all others as without them."""
    at = CELLS[(CELLS[:, 0] < SEEN) & (CELLS[:, 1] < KNOWN) & (CELLS.sum(axis=1) % 3 > 0)]
    labels = Y[at[:, 0], at[:, 1]]
    weights = np.where(at[:, 0] == 0, 3.0, 1.0) if weighted else None
    tables = {"instances": pd.DataFrame(X, INSTANCES), "tasks": pd.DataFrame(T, TASKS)}
    if not weighted:
        del tables["tasks"]
    given = (named(at, "pandas"), labels, weights)
    strict = PairRegressor(model, **tables).fit(*given)
    lenient = PairRegressor(model, **tables, unknown="baseline").fit(*given)
    known = [("p12", "d3"), ("p1", "d2"), ("p0", "d0")]
    asked = [*known, ("who", "d2"), ("p0", "what"), ("p12", "what"), ("who", "what")]
    found = lenient.predict(asked)
    assert_array_equal(found[:3], strict.predict(known))
    expected = [
        np.average(labels[rows], weights=weights[rows] if weighted else None)
        for rows in (at[:, 1] == 2, at[:, 0] == 0, at[:, 0] >= 0, at[:, 0] >= 0)
    ]
    assert_allclose(found[3:], expected, rtol=1e-12)
    assert_allclose(lenient.predict(asked[-1:]), expected[-1:], rtol=1e-12)
    with pytest.raises(IdError, match="who"):
        strict.predict(asked)
    assert_array_equal(strict.set_params(unknown="baseline").predict(asked), found)


@pytest.mark.parametrize("identity", [0.0, 0.5])
def test_single_pairs_of_a_model_without_a_table_of_tasks(identity):
    pairs = [(INSTANCES[i], TASKS[j]) for i in range(SEEN) for j in range(KNOWN)]
    table = pd.DataFrame(X, index=INSTANCES)
    model = PairRegressor(TwoStepRidge(identity=identity), instances=table)
    model.fit(pairs, Y[:SEEN, :KNOWN].ravel())
    grid = TwoStepRidge(identity=identity).fit(X[:SEEN], Y[:SEEN, :KNOWN])
    asked = [(INSTANCES[9], TASKS[7]), (INSTANCES[12], TASKS[5]), (INSTANCES[9], TASKS[2])]
    expected = [grid.predict()[9, 7], grid.predict(X[[12]])[0, 5], grid.predict()[9, 2]]
    for some in (slice(0, 1), slice(1, 3), slice(0, 3)):
        assert_allclose(model.predict(asked[some]), expected[some])
