"""The models among scikit-learn's tools: routed tasks, clones, pipelines, searches, files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import problems
from dyadlearn import KroneckerRidge, Tasks, TwoStepRidge
from sweeps import every, lines, over

# As many tasks as instances: where scikit-learn would cut the tasks with the rows.
M = Q = 12
X, Y, T = problems.data(M, Q, 3, 2, noise=0.1)
RNG = np.random.default_rng(1)
K = X @ X.T + 0.1 * np.eye(M)
G = T @ T.T + 0.1 * np.eye(Q)
T_NEW = RNG.normal(size=(4, 2))
FOLDS = KFold(2)

PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_pair_model = {"Model": PAIR_MODELS}


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


def precomputed(Model=TwoStepRidge, **params):
    return Model(kernel="precomputed", task_kernel="precomputed", **params)


def requesting(model, *methods):
    """Let a model ask for tasks in these methods and in no other."""
    for method in ("fit", "predict", "score"):
        getattr(model, f"set_{method}_request")(tasks=method in methods)
    return model


def by_hand(model, rows, tasks, pairwise):
    """Return the scores of all folds and the predictions for the rows that each leaves out."""
    scores = []
    predictions = np.empty_like(Y)
    for train, test in FOLDS.split(rows):
        columns = train if pairwise else slice(None)
        fitted = clone(model).fit(rows[train][:, columns], Y[train], tasks=tasks)
        predictions[test] = fitted.predict(rows[test][:, columns])
        scores.append(r2_score(Y[test], predictions[test]))
    return np.array(scores), predictions


SIDES = {"features": (X, T, False), "precomputed": (K, G, True)}
both_sides = lines("rows tasks pairwise", *SIDES.values())


def model_for(Model, pairwise, **params):
    return precomputed(Model, **params) if pairwise else Model(**params)


# --- cross-validation --------------------------------------------------------------------------


@over(both_sides)
def test_cross_validation_splits_rows_and_keeps_tasks_whole(rows, tasks, pairwise):
    model = requesting(model_for(TwoStepRidge, pairwise, alpha=0.2), "fit", "score", "predict")
    expected, predictions = by_hand(model, rows, tasks, pairwise)
    result = cross_validate(
        model, rows, Y, cv=FOLDS, params={"tasks": Tasks(tasks)}, error_score="raise"
    )
    assert_allclose(result["test_score"], expected, rtol=1e-9)
    predicted = cross_val_predict(model, rows, Y, cv=FOLDS, params={"tasks": Tasks(tasks)})
    assert_allclose(predicted, predictions, rtol=1e-9)


@over(both_sides)
def test_a_frame_of_tasks_that_was_cut_names_the_holder_too(rows, tasks, pairwise):
    model = requesting(model_for(TwoStepRidge, pairwise), "fit")
    names = [f"t{j}" for j in range(Q)]
    params = {"tasks": pd.DataFrame(tasks, names, names[: tasks.shape[1]])}
    for labels in (Y, pd.DataFrame(Y, columns=names)):
        with pytest.raises(ValueError, match=r"Tasks\(tasks\)"):
            cross_validate(model, rows, labels, cv=FOLDS, params=params, error_score="raise")


# --- pipelines ---------------------------------------------------------------------------------


@over(every(**every_pair_model))
def test_a_pipeline_routes_tasks_in_every_method(Model):
    model = requesting(Model(0.2, kernel="rbf"), "fit", "predict", "score")
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y, tasks=T)
    scaled = StandardScaler().fit_transform(X)
    expected = Model(0.2, kernel="rbf").fit(scaled, Y, T)
    predicted = pipeline.predict(X, tasks=T_NEW)
    assert_allclose(predicted, expected.predict(scaled, tasks=T_NEW), rtol=1e-9)
    score = expected.score(scaled, Y[:, :4], tasks=T_NEW)
    assert_allclose(pipeline.score(X, Y[:, :4], tasks=T_NEW), score, rtol=1e-9)


def test_tasks_that_nobody_requested_are_not_lost_silently():
    with pytest.raises(UnsetMetadataPassedError, match="tasks"):
        make_pipeline(StandardScaler(), TwoStepRidge()).fit(X, Y, tasks=T)


# --- the holder --------------------------------------------------------------------------------


@over(every(**every_pair_model))
def test_the_holder_stands_for_what_it_holds(Model):
    model = Model().fit(X, Y, T)
    held = Model().fit(X, Y, Tasks(T))
    assert_array_equal(held.predict(X), model.predict(X))
    assert_array_equal(held.predict(X, tasks=Tasks(T_NEW)), model.predict(X, tasks=T_NEW))
    assert_array_equal(
        held.predict_pairs(X, Tasks(T_NEW), [(0, 1), (2, 3)]),
        model.predict_pairs(X, T_NEW, [(0, 1), (2, 3)]),
    )
    assert held.score(X, Y[:, :4], tasks=Tasks(T_NEW)) == model.score(X, Y[:, :4], tasks=T_NEW)


def test_the_holder_is_not_array_like():
    holder = Tasks(T)
    assert holder.array is T
    assert not any(
        hasattr(holder, name)
        for name in ("__len__", "shape", "__array__", "__getitem__", "__iter__")
    )


# --- clones, parameters, files, pictures -------------------------------------------------------


def test_parameters_of_a_nested_kernel_are_reached():
    model = TwoStepRidge(kernel=RBF(1.0))
    assert model.get_params()["kernel__length_scale"] == 1.0
    model.set_params(kernel__length_scale=3.0).fit(X, Y)
    expected = TwoStepRidge(kernel="rbf", kernel_params={"gamma": 1 / 18}).fit(X, Y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
