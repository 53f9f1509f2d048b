"""Long tables of models that learn their kernels, with one table or several descriptions of a side."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import LearnedKernelRidge, PairRegressor, TwoStepRidge
from dyadlearn.kernels import Descriptions
from sweeps import lines, over

M = 14
Q = 7
ROWS = np.array([f"i{i}" for i in range(M)])
COLUMNS = np.array([f"t{j}" for j in range(Q)])
RBF = ("rbf", {"gamma": 0.5})


def _entities():
    rng = default_rng(0)
    U = rng.normal(size=(M, 2))
    V = rng.normal(size=(Q, 2))
    others = rng.normal(size=(Q, 2))
    K = np.exp(-0.3 * ((U[:, None] - U[None]) ** 2).sum(-1))
    return U, K, others, np.sin(U) @ V.T


def _sides(form):
    """Return instances in some form, tasks and kernels."""
    U, K, T, _ = _entities()
    X = pd.DataFrame(U, index=ROWS)
    K = pd.DataFrame(K, index=ROWS, columns=ROWS)
    T = pd.DataFrame(T, index=COLUMNS)
    if form == "plain":
        return X, T, {"kernel": RBF}
    if form == "kernel":
        return K, T, {"kernel": "precomputed"}
    both = {"features": X, "kernel": K.iloc[::-1, ::-1]}
    kernels = {"kernel": {"features": RBF, "kernel": "precomputed"}}
    return (both if form == "mapping" else Descriptions(both)), T, kernels


def _table():
    """Return pairs of the first instances, some of them not there, and their values."""
    Y = _entities()[3]
    seen = default_rng(1).random((11, Q)) < 0.8
    i, j = np.nonzero(seen)
    return pd.DataFrame({"i": ROWS[i], "t": COLUMNS[j]}), Y[i, j]


def _model(form, **given):
    X, T, kernels = _sides(form)
    model = LearnedKernelRidge(
        task_kernel=RBF, n_steps=1, cv=2, **{"setting": "A", **kernels, **given}
    )
    return PairRegressor(model, instances=X, tasks=T)


@cache
def _stored(form, stages):
    """Return a model fitted on the table, as bytes, so that each test has one of its own."""
    return pickle.dumps(_model(form, stages=stages).fit(*_table()))


def _grid_twin(model, form):
    """Return the same model fitted on the grid of the pairs, with whatever a fitted one is asked for by rows."""
    X, T, _ = _sides(form)
    rows, columns = list(model.instance_ids_), list(model.task_ids_)
    pairs, y = _table()
    grid = pd.DataFrame({"i": pairs["i"], "t": pairs["t"], "y": y}).pivot(
        index="i", columns="t", values="y"
    )

    def some(ids):
        if form == "plain":
            return X.loc[ids]
        if form == "kernel":
            return X.loc[ids, rows]
        return {"features": X["features"].loc[ids], "kernel": X["kernel"].loc[ids, rows]}

    twin = LearnedKernelRidge(**model.model.get_params())
    return twin.fit(some(rows), grid.loc[rows, columns], T.loc[columns]), some


@over(
    lines(
        "form setting stages",
        ("kernel", "A", 2),
        ("mapping", "B", 1),
    )
)
def test_pairs_are_those_of_the_grid(form, setting, stages):
    pairs, y = _table()
    model = _model(form, setting=setting, stages=stages).fit(pairs, y)
    twin, some = _grid_twin(model, form)
    assert model.model_.n_stages_ == twin.n_stages_ == stages
    known = [("i2", "t3"), ("i0", "t0"), ("i2", "t0"), ("i9", "t6")]
    # Learned in single precision: where rows lie in memory may show.
    whole = twin.predict()
    assert_allclose(model.predict(known), [whole.loc[pair] for pair in known], atol=1e-3)
    asked = [(list(model.instance_ids_).index(i), list(model.task_ids_).index(t)) for i, t in known]
    assert_allclose(model.predict(known), [model.model_.predict()[pair] for pair in asked])
    bounds = model.predict_interval(known, coverage=0.5)
    wanted = twin.predict_interval(coverage=0.5)
    for one, other in zip(bounds, wanted, strict=True):
        assert_allclose(one, [other.loc[pair] for pair in known], atol=1e-2)
    new = [("i12", "t3"), ("i2", "t3"), ("i13", "t1")]
    if setting == "A" and twin.n_stages_ > 1:
        with pytest.raises(ValueError, match="by profiles of their labels"):
            model.predict(new)
        return
    fresh = twin.predict(some(["i12", "i13"]))
    wanted = [fresh.loc["i12", "t3"], whole.loc["i2", "t3"], fresh.loc["i13", "t1"]]
    assert_allclose(model.predict(new), wanted, atol=1e-3)
    lower, upper = model.predict_interval(new, coverage=0.5)
    assert (lower <= upper).all()


def test_all_forms_of_descriptions_are_one():
    pairs, y = _table()
    U, K, T, _ = _entities()
    numbers = np.stack([[int(each[1:]) for each in pairs[column]] for column in pairs], axis=1)
    wanted = pickle.loads(_stored("mapping", 1)).predict(pairs)
    assert_array_equal(_model("Descriptions", stages=1).fit(pairs, y).predict(pairs), wanted)
    kernels = {"kernel": [RBF, "precomputed"], "task_kernel": RBF}
    model = PairRegressor(
        LearnedKernelRidge(setting="A", n_steps=1, cv=2, stages=1, **kernels),
        instances=[U, K],
        tasks=T,
    )
    assert_allclose(model.fit(numbers, y).predict(numbers), wanted, atol=1e-3)


@over(lines("stages", 1, 2))
def test_other_tables_are_looked_up_by_id(stages):
    pairs, _ = _table()
    model = pickle.loads(_stored("mapping", stages))
    wanted = model.predict(pairs)
    X = model.instances
    order = default_rng(3).permutation(ROWS)[:13]
    order = [*order, *(row for row in model.instance_ids_ if row not in order)]
    model.set_params(
        instances={"features": X["features"].loc[order], "kernel": X["kernel"].loc[order, order]}
    )
    assert_allclose(model.predict(pairs), wanted)
    if stages == 1:
        last = next(row for row in order if row not in model.instance_ids_)
        found = model.predict([(last, "t1")])
        assert_allclose(model.set_params(instances=X).predict([(last, "t1")]), found)


def test_models_of_one_table_refuse_several():
    X, T, _ = _sides("mapping")
    with pytest.raises(
        TypeError, match="TwoStepRidge takes one table of the instances, found 2 descriptions"
    ):
        PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(*_table())
    model = _model("Descriptions")
    with pytest.raises(ValueError, match="a selection of rows of other descriptions"):
        model.set_params(instances=model.instances[:5]).fit(*_table())
