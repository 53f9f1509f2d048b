"""Bad parameters and questions get one clear sentence, and nothing is lost by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import KernelError, LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.kernels import kernel_names
from sweeps import every, lines, over

M = 6
Q = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 3))
T = RNG.normal(size=(Q, 2))
Y = RNG.normal(size=(M, Q))
K = X @ X.T + np.eye(M)
G = T @ T.T + np.eye(Q)

MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_model = {"Model": MODELS}
every_pair_model = {"Model": PAIR_MODELS}


def precomputed(Model: Any = TwoStepRidge, **params: Any) -> Any:
    """Return a model on given kernels."""
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = "precomputed"
    return Model(kernel="precomputed", **params)


def spoilt(array: np.ndarray, value: float, *where: int) -> np.ndarray:
    """Return a copy with one entry replaced."""
    copy = array.copy()
    copy[where or (0, 1)] = value
    return copy


# --- parameters --------------------------------------------------------------------------------

BAD_NUMBERS = [(-1e-9, ValueError), (np.nan, ValueError), (np.inf, ValueError)]
NO_NUMBERS = [
    ("1", TypeError),
    (None, TypeError),
    (True, TypeError),
    ([1.0], TypeError),
    (np.ones(2), TypeError),
]
bad_alphas = lines("value error", *BAD_NUMBERS + NO_NUMBERS)


@over(bad_alphas)
@over(every(**every_model))
def test_alpha_must_be_a_number_of_at_least_zero(Model, value, error):
    message = r"^alpha must be a (finite )?number of at least 0, found "
    if Model is IndependentTaskRidge and np.ndim(value):  # which takes a value for each task
        error = ValueError
        message = r"^alpha has \d values, but Y has 4 tasks"
    with pytest.raises(error, match=message):
        Model(alpha=value).fit(X, Y)


@over(bad_alphas)
@over(every(tasks={"without": None, "with": T}))
def test_task_alpha_must_be_a_number_of_at_least_zero(value, error, tasks):
    with pytest.raises(
        error, match=r"^task_alpha must be a (finite )?number of at least 0, found "
    ):
        TwoStepRidge(task_alpha=value).fit(X, Y, tasks=tasks)


@over(bad_alphas)
@over(every(**every_pair_model))
def test_tol_must_be_a_number_of_at_least_zero(Model, value, error):
    with pytest.raises(error, match=r"^tol must be a (finite )?number of at least 0, found "):
        Model(tol=value).fit(X, Y)


@over(every(**every_pair_model, value=[0, -3, 2.5, *(value for value, _ in NO_NUMBERS)]))
def test_max_iter_must_be_a_whole_number_of_at_least_one(Model, value):
    with pytest.raises(ValueError, match=r"^max_iter must be a whole number of at least 1, found "):
        Model(max_iter=value).fit(X, Y, tasks=T)


@over(every(**every_model))
def test_an_unknown_kernel_lists_the_known_ones(Model):
    with pytest.raises(
        KernelError, match=r"^Unknown kernel 'rgf'\. Did you mean 'rbf'\? Known are "
    ) as caught:
        Model(kernel="rgf").fit(X, Y)
    for name in kernel_names():
        assert name in str(caught.value)


@over(every(**every_pair_model))
def test_an_unknown_task_kernel_lists_the_known_ones(Model):
    with pytest.raises(
        KernelError,
        match=r"^Unknown kernel 'tanimto'\. Did you mean 'tanimoto'\? Known are .*linear",
    ):
        Model(task_kernel="tanimto").fit(X, Y, tasks=T)


@over(every(kernel=[3, None, ["rbf"]]))
def test_a_kernel_is_a_name_or_a_callable(kernel):
    with pytest.raises(
        KernelError,
        match=f"kernel must be one of .*rbf.*, or a callable, found {type(kernel).__name__}",
    ):
        TwoStepRidge(kernel=kernel).fit(X, Y)


@over(every(d={"primal": 3, "dual": 12}, side=["instance", "task"]))
def test_parameters_that_a_kernel_does_not_take_are_refused(side, d):
    prefix = "" if side == "instance" else "task_"
    rows = np.ones((10, d))
    tasks = np.ones((10, d))
    model = TwoStepRidge(**{f"{prefix}kernel_params": {"gamma": 1.0}})
    with pytest.raises(
        KernelError, match=r"kernel 'linear' takes no parameter 'gamma'; it takes none"
    ):
        model.fit(rows, np.eye(10), tasks=tasks)


def test_a_callable_must_return_a_block():
    with pytest.raises(KernelError, match=r"expected shape \(6, 6\), found \(6,\)"):
        TwoStepRidge(kernel=lambda A, B: A[:, 0]).fit(X, Y)


@over(every(**every_model, value=["mend", None, True]))
def test_an_unknown_repair_lists_the_known_ones(Model, value):
    with pytest.raises(
        ValueError, match=rf"^repair must be one of 'clip', 'shift', 'error', found {value!r}\.$"
    ):
        Model(repair=value).fit(X, Y)


@over(every(value=["tikhonov", 1.0, Tikhonov]))
def test_a_filter_is_a_filter(value):
    with pytest.raises(
        TypeError, match=r"^filter must be a spectral filter such as Tikhonov\(\), found "
    ):
        TwoStepRidge(filter=value).fit(X, Y)
    with pytest.raises(
        TypeError, match=r"^filter must be a spectral filter such as Tikhonov\(\), found "
    ):
        IndependentTaskRidge(filter=value).fit(X, Y)
    with pytest.raises(
        TypeError, match=r"^task_filter must be a spectral filter such as Tikhonov\(\), found "
    ):
        TwoStepRidge(task_filter=value).fit(X, Y)


# --- what a model cannot do --------------------------------------------------------------------


@over(every(**every_pair_model))
def test_without_a_task_side_there_are_no_new_tasks(Model):
    model = Model().fit(X, Y)
    message = rf"^This {Model.__name__} knows nothing of tasks: fit it with tasks="
    with pytest.raises(ValueError, match=message):
        model.predict(X, tasks=T)
    with pytest.raises(ValueError, match=message):
        model.predict_pairs(X, T, [(0, 0)])
    with pytest.raises(ValueError, match=message):
        model.score(X, Y, tasks=T)


def test_independent_tasks_know_no_new_tasks():
    model = IndependentTaskRidge().fit(X, Y, tasks=T)
    with pytest.raises(
        ValueError, match="knows nothing of tasks: use TwoStepRidge or KroneckerRidge"
    ):
        model.predict(X, tasks=T)


@over(
    lines(
        "model tasks",
        (TwoStepRidge(kernel="rbf"), None),
        (IndependentTaskRidge(kernel="rbf"), None),
        (TwoStepRidge(task_kernel="rbf"), T),
        (KroneckerRidge(kernel="rbf"), T),
        (KroneckerRidge(task_kernel=lambda A, B: A @ B.T), T),
    )
)
def test_coef_exists_only_in_the_primal(model, tasks):
    model.fit(X, Y, tasks=tasks)
    assert not hasattr(model, "coef_")
    with pytest.raises(
        AttributeError,
        match=r"^coef_ exists only in the primal: linear kernels, fewer features than rows; see "
        r"dual_coef_\.$",
    ):
        _ = model.coef_


@over(every(**every_model))
def test_an_unfitted_model_says_so(Model):
    message = f"This {Model.__name__} instance is not fitted yet"
    model = Model()
    for call in (
        lambda: model.predict(X),
        lambda: model.predict_pairs(X, None, [(0, 0)]),
        lambda: model.score(X, Y),
        lambda: model.set_alpha(1.0),
        lambda: model.dual_coef_,
        lambda: model.coef_,
        lambda: model.completed_,
        lambda: model.n_iter_,
        lambda: model.residual_,
        lambda: model.holdout("B"),
    ):
        with pytest.raises(NotFittedError, match=message):
            call()
    assert not hasattr(model, "dual_coef_")


def test_a_failed_first_fit_leaves_the_model_unfitted():
    model = precomputed(repair="error")
    with pytest.raises(KernelError):
        model.fit(K, Y, tasks=spoilt(G, 9.0))
    with pytest.raises(NotFittedError):
        model.predict(K)


# --- nothing is lost ---------------------------------------------------------------------------


@over(lines("value error", *[*BAD_NUMBERS, ("1", TypeError), (True, TypeError)]))
@over(every(**every_model))
def test_a_refused_alpha_leaves_the_model_as_it_was(Model, value, error):
    model = Model(alpha=0.5).fit(X, Y, tasks=T)
    predicted = model.predict(X)
    dual = model.dual_coef_
    params = model.get_params()
    with pytest.raises(error, match="alpha must be a"):
        model.set_alpha(value)
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.dual_coef_, dual)
    assert model.get_params() == params


@over(every(alphas=[(2.0, -1.0), (-1.0, 2.0), (2.0, "x")]))
def test_one_refused_alpha_refuses_both(alphas):
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, tasks=T)
    predicted = model.predict(X, tasks=T)
    with pytest.raises((TypeError, ValueError), match="alpha must be"):
        model.set_alpha(*alphas)
    assert (model.alpha, model.task_alpha) == (0.5, 0.25)
    assert_array_equal(model.predict(X, tasks=T), predicted)


@over(every(model=[TwoStepRidge(0.5, 0.25), KroneckerRidge(0.5)]))
def test_an_alpha_that_cannot_be_solved_leaves_the_model_as_it_was(model):
    """At λ = 0 too few labels are left to say anything of the missing ones: the last thing that may fail."""
    labels = np.full((M, Q), np.nan)
    labels[0] = 1.0
    model.fit(X, labels, tasks=T)
    params = model.get_params()
    predicted = model.predict(X)
    completed = model.completed_
    with pytest.raises(LeverageError):
        model.set_alpha(*[0.0] * (2 if isinstance(model, TwoStepRidge) else 1))
    assert model.get_params() == params
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.completed_, completed)
    assert_array_equal(model.set_alpha().predict(X), predicted)


def test_none_leaves_alphas_as_they_are():
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, tasks=T)
    assert model.set_alpha().get_params()["alpha"] == 0.5
    model.set_alpha(task_alpha=3.0)
    assert (model.alpha, model.task_alpha) == (0.5, 3.0)
    assert_allclose(
        model.predict(X, tasks=T),
        TwoStepRidge(0.5, 3.0).fit(X, Y, tasks=T).predict(X, tasks=T),
        rtol=1e-12,
    )


@over(every(**every_model, kernel=["linear", "rbf"]))
def test_parameters_set_after_fit_wait_for_the_next_fit(Model, kernel):
    model = Model(alpha=0.5, kernel=kernel).fit(X, Y)
    predicted = model.predict(X)
    dual = model.dual_coef_
    model.set_params(alpha=50.0)
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.dual_coef_, dual)


@over(every(**every_model, kernel=["linear", "rbf"]))
def test_a_failed_refit_forgets_no_width(Model, kernel):
    model = Model(kernel=kernel).fit(pd.DataFrame(X, columns=list("fgh")), Y)
    predicted = model.predict(pd.DataFrame(X, columns=list("fgh")))
    with pytest.raises(ValueError, match="Y contains infinity"):
        model.fit(pd.DataFrame(X[:, :2], columns=list("uv")), spoilt(Y, np.inf))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["f", "g", "h"]
    assert_array_equal(model.predict(pd.DataFrame(X, columns=list("fgh"))), predicted)
