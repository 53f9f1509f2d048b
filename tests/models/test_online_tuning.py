"""The choice of regularisation while learning, and feature maps."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, evaluate, landscape, verify_holdout
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from sweeps import every, over

# --- Regularisation -------------------------------------------------------------------------------


def test_parameters_that_are_set_count_from_the_next_batch(data, model):
    X, Y, T = data
    known = model.predict(X)
    model.set_params(alpha=5.0)
    assert_array_equal(model.predict(X), known)
    model.partial_fit(X[20:], Y[20:, :5])
    wanted = TwoStepRidge(5.0, 0.7).fit(X, Y[:, :5], T[:5])
    assert_allclose(model.coef_, wanted.coef_, rtol=1e-9)


def test_the_most_regularised_of_equals_is_chosen():
    """Rows at right angles say nothing of each other, whatever the regularisation."""
    Y = default_rng(0).normal(size=(4, 3))
    model = OnlineTwoStepRidge().fit(np.eye(4), Y)
    assert model.tune(np.eye(4), Y, [0.1, 10.0, 1.0]).alpha == 10.0
    model = OnlineTwoStepRidge().fit(np.eye(4), Y, np.eye(3))
    model.tune(np.eye(4), Y, [0.1, 10.0, 1.0], [1.0, 2.0, 0.5], setting="D")
    assert (model.alpha, model.task_alpha) == (10.0, 2.0)


def test_a_value_without_a_score_is_not_chosen():
    X = np.array(
        [[1.0, 0.0], [2.0, 0.0], [1.5, 0.0], [0.0, 1.0]]
    )  # the last row has a feature of its own
    Y = default_rng(0).normal(size=(4, 3))
    model = OnlineTwoStepRidge().fit(X, Y, np.array([[1.0], [2.0], [0.5]]))
    with pytest.warns(
        UndefinedScoreWarning, match="setting B there is no score for alpha 0, where"
    ):
        model.tune(X, Y, [0.0, 0.1, 1.0], [0.1, 1.0])
    assert np.isnan(model.landscape_[0]).all()
    assert_allclose(model.landscape_[1:], model.landscape(X, Y, [0.1, 1.0], [0.1, 1.0]))
    assert model.alpha > 0
    with pytest.raises(LeverageError, match="leverage 1"):
        model.tune(X, Y, [0.0], [0.1])


def test_landscape_and_tune(data):
    X, Y, T = data
    model = OnlineTwoStepRidge().fit(X[:9], Y[:9], T).partial_fit(X[9:], Y[9:])
    grid = {"alphas": [0.1, 1, 10, 100], "task_alphas": [0.5, 5, 50]}
    wanted = landscape(TwoStepRidge().fit(X, Y, T), **grid, setting="B")["B"]
    assert_allclose(model.landscape(X, Y, **grid), wanted, rtol=1e-9)
    assert model.landscape(X, Y).shape == (14, 14)
    assert model.tune(X, Y, **grid) is model
    row, column = np.unravel_index(np.argmax(wanted), wanted.shape)
    best = grid["alphas"][row], grid["task_alphas"][column]
    assert (model.alpha, model.task_alpha) == best
    assert_allclose(model.landscape_, wanted, rtol=1e-9)
    assert_allclose(model.coef_, TwoStepRidge(*best).fit(X, Y, T).coef_, rtol=1e-8)
    with pytest.raises(ValueError, match="alphas is empty"):
        model.tune(X, Y, [])


# --- Feature maps ---------------------------------------------------------------------------------


def test_fitted_on_the_first_batch(data):
    X, Y, T = data
    scaler = StandardScaler()
    kernel_map = Nystroem(gamma=0.1, n_components=4, random_state=0)
    model = OnlineTwoStepRidge(0.3, 0.7, feature_map=kernel_map, task_feature_map=scaler)
    model.fit(X[:15], Y[:15], T).partial_fit(X[15:], Y[15:])
    assert not hasattr(scaler, "mean_")
    Phi = clone(kernel_map).fit(X[:15]).transform(X)
    Psi = clone(scaler).fit(T).transform(T)
    wanted = TwoStepRidge(0.3, 0.7).fit(Phi, Y, Psi).predict(Phi, Psi[:2])
    assert_allclose(model.predict(X, T[:2]), wanted, rtol=1e-8)
    assert model.coef_.shape == (4, 3)
    assert model.n_features_in_ == 5


def test_one_that_is_fitted_is_used_as_it_is(data):
    X, Y, T = data
    scaler = StandardScaler().fit(X + 1)
    model = OnlineTwoStepRidge(feature_map=scaler).fit(X, Y, T)
    assert model.feature_map_ is scaler
    assert_allclose(model.coef_, TwoStepRidge().fit(scaler.transform(X), Y, T).coef_, rtol=1e-9)


def test_an_array_is_a_linear_map(data):
    X, Y, T = data
    V = np.linspace(-1.0, 1.0, 2 * X.shape[1]).reshape(-1, 2)
    W = np.ones((T.shape[1], 1))
    model = OnlineTwoStepRidge(feature_map=V, task_feature_map=W)
    model.fit(sparse.csr_array(X), sparse.csr_array(Y), T).partial_fit(X, Y)
    twice = TwoStepRidge().fit(np.vstack([X @ V] * 2), np.vstack([Y] * 2), T @ W)
    assert_allclose(model.predict(X), twice.predict(X @ V), rtol=1e-9)
    with pytest.raises(
        ValueError, match=r"feature_map has \d rows, expected \d: one for each feature"
    ):
        OnlineTwoStepRidge(feature_map=V[1:]).fit(X, Y)


def test_a_map_of_tasks_needs_tasks(data):
    with pytest.raises(ValueError, match="task_feature_map needs the features of the tasks"):
        OnlineTwoStepRidge(task_feature_map=StandardScaler()).fit(*data[:2])


@over(every(question=[landscape, verify_holdout, evaluate]))
def test_what_needs_all_labels_says_so(data, question):
    X, Y, T = data
    model = OnlineTwoStepRidge().fit(X, Y, T)
    with pytest.raises(
        ValueError, match="OnlineTwoStepRidge keeps statistics only, not the labels"
    ):
        question(model, setting="B")
