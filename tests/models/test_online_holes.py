"""Labels with holes: what the online model makes of them, and which models it then equals."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

import problems
from dyadlearn import (
    IndependentTaskRidge,
    OnlineTwoStepRidge,
    TwoStepRegressor,
    TwoStepRidge,
    evaluate,
)
from dyadlearn.exceptions import NoLabelWarning, NotEnoughMemoryError
from sweeps import every, over
from two_ridges import two_ridges

M = 24
Q = 6
both = {"fit_intercept": [True, False]}


def make():
    X, Y, T = problems.data(M, Q, 5, missing=0.4)
    return X, Y + 3, T + 1


@dataclass(frozen=True, eq=False)
class Twin:
    """Two ridge regressions in a row, written out, the first from the labels that each task has."""

    X: np.ndarray
    Y: np.ndarray
    T: np.ndarray
    alpha: float = 0.3
    task_alpha: float = 0.7
    fit_intercept: bool = True

    def predict(self, rows, tasks=None):
        new_tasks = self.T if tasks is None else tasks
        return two_ridges(
            self.X, self.Y, self.T, rows, new_tasks, self.alpha, self.task_alpha, self.fit_intercept
        )


def test_which_models_it_equals():
    X, Y, T = make()
    full = np.nan_to_num(Y, nan=1.0)
    online = OnlineTwoStepRidge(0.3, 0.7)
    # Complete labels: the two-step model, whatever came in between.
    model = online.fit(X, full, T).partial_fit(X[:3], Y[:3]).forget(X[:3], Y[:3])
    assert_allclose(model.predict(X), TwoStepRidge(0.3, 0.7).fit(X, full, T).predict(X), rtol=1e-8)
    # Holes: not the two-step model that completes them by both steps, but two regressions in a row.
    found = online.fit(X, Y, T).predict(X)
    two_ridges_in_a_row = TwoStepRegressor(Ridge(0.3), Ridge(0.7)).fit(X, Y, T)
    assert_allclose(found, two_ridges_in_a_row.predict(X), rtol=1e-8)
    assert np.abs(found - TwoStepRidge(0.3, 0.7).fit(X, Y, T).predict(X)).max() > 0.05
    # Without features of the tasks the two are the same.
    wanted = IndependentTaskRidge(0.3).fit(X, Y)
    assert_allclose(OnlineTwoStepRidge(0.3).fit(X, Y).predict(X), wanted.predict(X), rtol=1e-8)


@over(every(**both))
def test_a_task_without_a_label(fit_intercept):
    X, Y, T = make()
    Y[:, 2] = np.nan
    bare = OnlineTwoStepRidge(0.3, fit_intercept=fit_intercept)
    if fit_intercept:
        with pytest.warns(
            NoLabelWarning,
            match=r"1 of 6 tasks \(positions 2\) have no label to estimate an intercept",
        ) as caught:
            bare.fit(X, Y)
        assert caught[0].filename == __file__
        with pytest.warns(NoLabelWarning):
            wanted = IndependentTaskRidge(0.3).fit(X, Y).predict(X)
        assert np.isnan(bare.intercept_[2])
        assert np.isfinite(bare.coef_).all()
    else:
        bare.fit(X, Y)
        wanted = IndependentTaskRidge(0.3, fit_intercept=False).fit(X, Y).predict(X)
    assert_allclose(bare.predict(X), wanted, rtol=1e-8)
    # With features it has no part in the second step, and is predicted as a new one.
    model = OnlineTwoStepRidge(0.3, 0.7, fit_intercept=fit_intercept).fit(X, Y, T)
    columns = [0, 1, 3, 4, 5]
    known = Twin(X, Y[:, columns], T[columns], fit_intercept=fit_intercept)
    assert_allclose(model.predict(X), known.predict(X, T), rtol=1e-8)
    # Its first label makes it one of the others, and forgetting this undoes it.
    more = np.where(np.arange(Q) == 2, 1.0, np.nan)[None, :]
    model.partial_fit(X[:1] + 1, more)
    wanted = Twin(np.vstack([X, X[:1] + 1]), np.vstack([Y, more]), T, fit_intercept=fit_intercept)
    assert_allclose(model.predict(X), wanted.predict(X), rtol=1e-8)
    bare.partial_fit(X[:1] + 1, more)
    assert np.isfinite(bare.predict(X)).all()
    if fit_intercept:
        with pytest.warns(NoLabelWarning, match="positions 2"):
            bare.forget(X[:1] + 1, more)
    assert_allclose(model.forget(X[:1] + 1, more).predict(X), known.predict(X, T))


def test_forgetting_everything():
    X, Y, T = make()
    model = OnlineTwoStepRidge().fit(X, Y, T).forget(X, Y)
    assert np.isnan(model.predict(X)).all()
    assert_allclose(
        model.partial_fit(X, Y).predict(X), Twin(X, Y, T, 1.0, 1.0).predict(X), rtol=1e-8
    )
    plain = OnlineTwoStepRidge(fit_intercept=False).fit(X, Y, T).forget(X, Y)
    assert_array_equal(plain.predict(X), np.zeros((M, Q)))


# --- What cannot be done with holes is told, and changes nothing ----------------------------------


@over(every(method=["forget", "holdout", "landscape"]))
def test_labels_that_were_learnt(method):
    X, Y, T = make()
    model = OnlineTwoStepRidge().fit(X, np.nan_to_num(Y), T)
    with pytest.raises(ValueError, match="the model was fitted on complete labels"):
        getattr(model, method)(X, Y)


def test_gram_matrices_that_do_not_fit(monkeypatch):
    _, Y, _ = make()
    X = np.random.default_rng(0).normal(size=(len(Y), 200))
    model = OnlineTwoStepRidge().fit(X, np.nan_to_num(Y))
    before = model._learnt
    # Enough for the rows and one Gram matrix, but not for one of each task.
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda like: 10 * 8 * 200**2)
    with pytest.raises(
        NotEnoughMemoryError,
        match=r"200 features for \d tasks that are observed for different inst",
    ):
        model.partial_fit(X, Y)
    assert model._learnt is before


def test_lone_labels_of_independent_tasks_are_not_scored():
    X, Y, _ = make()
    Y[:, 4] = np.nan
    Y[7, 4] = 2.0
    model = OnlineTwoStepRidge(0.3).fit(X, Y)
    with pytest.warns(
        NoLabelWarning,
        match=r"In setting B, 1 of \d+ labels .*\(positions 4\).*predictions are NaN",
    ):
        held_out = model.holdout(X, Y)
    with pytest.warns(NoLabelWarning):
        wanted = IndependentTaskRidge(0.3).fit(X, Y).holdout("B")
    assert_allclose(held_out, wanted, rtol=1e-8)
    with pytest.warns(NoLabelWarning, match="they are not scored"):
        scores = model.landscape(X, Y, [0.3])
    assert_allclose(scores, [-np.nanmean((wanted - Y) ** 2)], rtol=1e-8)
    with pytest.raises(ValueError, match="no label to score"):
        model.landscape(X[[7]], np.where(np.arange(Q) == 4, Y[[7]], np.nan), [0.3])


def test_another_model_is_announced():
    X, Y, T = make()
    message = "Labels are missing, so this result is that of TwoStepRidge"
    model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True).fit(X, Y, T)
    for ask in (
        lambda: model.fitted_,
        model.to_two_step,
        lambda: evaluate(model, "B"),
        model.predict_interval,
    ):
        with pytest.warns(UserWarning, match=message):
            ask()
    # Without task features, or with complete labels, both models are equal.
    for labels, tasks in ((Y, None), (np.nan_to_num(Y), T)):
        model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True).fit(X, labels, tasks)
        assert_allclose(model.to_two_step().predict(X), model.predict(X), rtol=1e-8)
    with pytest.raises(ValueError, match="predicts only for given instances: give X"):
        model.predict()
