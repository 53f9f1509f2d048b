"""Tables of scores against hold-out predictions that are scored by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.metrics import scorer

pytest.importorskip("pandas")


def make_data(m=9, q=7):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(m, 4)), rng.normal(size=(q, 3))
    Y = np.where(X @ rng.normal(size=(4, 3)) @ T.T + rng.normal(size=(m, q)) > 1, 1.0, 0.0)
    Y[2], Y[:, 3] = 0, 0
    return X, Y, T


def worst(Y, F):
    return -float(abs(Y - F).sum(axis=0).max())


@pytest.mark.parametrize(
    "scoring",
    ["neg_mean_squared_error", "r2", "roc_auc", "average_precision", "concordance_index", "precision_at_3", worst],
)
@pytest.mark.parametrize("model", [TwoStepRidge(0.5, 2.0), KroneckerRidge(0.7), TwoStepRidge(1.0, 1.0, kernel="rbf")])
def test_every_setting_has_its_own_average(model, scoring):
    X, Y, T = make_data()
    model.fit(X, Y, tasks=T)
    table = evaluate(model, scoring=scoring)
    assert list(table.columns) == ["setting", "new", "score", "undefined"]
    assert list(table["setting"]) == list("ABCD")
    assert list(table["new"]) == ["pair", "instance", "task", "both"]
    for row in table.itertuples():
        prepared = scorer(scoring).prepare(Y, setting=row.setting)
        assert_allclose(row.score, prepared(model.holdout(row.setting)))
        assert row.undefined == prepared.n_undefined


def test_rows_without_a_positive_are_counted():
    X, Y, T = make_data()
    table = evaluate(TwoStepRidge().fit(X, Y, tasks=T), scoring="roc_auc")
    expected = [0, sum(len(set(row)) < 2 for row in Y), sum(len(set(column)) < 2 for column in Y.T), 0]
    assert list(table["undefined"]) == expected
    assert min(expected[1:3]) >= 1


def test_settings_that_are_asked_for():
    X, Y, T = make_data()
    model = TwoStepRidge().fit(X, Y, tasks=T)
    assert list(evaluate(model, ["both", "leave_x1_out"])["setting"]) == ["D", "B"]
    assert list(evaluate(IndependentTaskRidge().fit(X, Y))["setting"]) == ["A", "B"]
    assert list(evaluate(TwoStepRidge().fit(X, Y), "BC")["setting"]) == ["B"]
    with pytest.raises(ValueError, match="knows nothing of tasks: only settings A and B"):
        evaluate(IndependentTaskRidge().fit(X, Y, tasks=T), "CD")


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_searching_estimators():
    X, Y, T = make_data()
    search = TwoStepRidgeCV([0.1, 1.0, 10.0], [0.1, 1.0, 10.0], setting="D").fit(X, Y, tasks=T)
    assert_allclose(evaluate(search, "D")["score"], [search.best_score_])
    search = IndependentTaskRidgeCV([0.1, 1.0, 10.0]).fit(X, Y[:, 0])
    assert_allclose(evaluate(search, "B")["score"], [search.best_score_])


def test_the_table_is_of_the_library_of_the_labels():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, Y, T = make_data()
    assert isinstance(evaluate(TwoStepRidge().fit(X, pd.DataFrame(Y), tasks=T)), pd.DataFrame)
    table = evaluate(TwoStepRidge().fit(X, pl.DataFrame(Y), tasks=T))
    assert isinstance(table, pl.DataFrame)
    assert table["setting"].to_list() == list("ABCD")


def test_array_libraries(library):
    X, Y, T = make_data()
    for scoring in ("neg_mean_squared_error", "roc_auc"):
        expected = evaluate(TwoStepRidge().fit(X, Y, tasks=T), scoring=scoring)["score"]
        model = TwoStepRidge().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T))
        assert_allclose(evaluate(model, scoring=scoring)["score"], expected, rtol=10 * library.rtol)


def test_bad_input():
    X, Y, T = make_data()
    model = TwoStepRidge()
    with pytest.raises(NotFittedError):
        evaluate(model)
    model.fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match="Unknown scoring 'auc'"):
        evaluate(model, scoring="auc")
    with pytest.raises(ValueError, match="Unknown setting 'E'"):
        evaluate(model, "E")
    with pytest.raises(TypeError, match="scoring must be a name or a function"):
        evaluate(model, scoring=3)


def test_a_regularisation_for_every_task():
    X, Y, _ = make_data()
    labels = Y + np.random.default_rng(1).normal(size=Y.shape)
    model = IndependentTaskRidgeCV(alphas=[0.01, 1.0, 100.0], alpha_per_task=True).fit(X, labels)
    expected = -np.mean((model.holdout("B") - labels) ** 2)
    assert_allclose(evaluate(model, "AB")["score"], [expected, expected], rtol=1e-12)
