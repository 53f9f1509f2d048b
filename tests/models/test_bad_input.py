"""Bad input gets one clear sentence, and nothing is lost by it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.filters import Tikhonov
from dyadlearn.kernels import kernel_names

M, Q = 6, 4
RNG = np.random.default_rng(0)
X, T, Y = RNG.normal(size=(M, 3)), RNG.normal(size=(Q, 2)), RNG.normal(size=(M, Q))
K, G = X @ X.T + np.eye(M), T @ T.T + np.eye(Q)
ROWS, TASKS = list("abcdef"), ["t0", "t1", "t2", "t3"]

MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_model = pytest.mark.parametrize("Model", MODELS)
every_pair_model = pytest.mark.parametrize("Model", PAIR_MODELS)


def precomputed(Model: Any = TwoStepRidge, **params: Any) -> Any:
    """Return a model on given kernels."""
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = "precomputed"
    return Model(kernel="precomputed", **params)


def spoilt(array: np.ndarray, value: float, *where: int) -> np.ndarray:
    """Return a copy with one entry, symmetric ones in a kernel, replaced."""
    copy = array.copy()
    copy[where or (0, 1)] = value
    return copy


# --- shapes ------------------------------------------------------------------------------------


@every_model
def test_instances_and_rows_of_labels_must_be_as_many(Model, library):
    message = r"^X has 6 instances, but Y has 5 rows: give one row of labels per instance\.$"
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), library.asarray(Y[:5]))
    with pytest.raises(ValueError, match=message):
        precomputed(Model).fit(library.asarray(K), library.asarray(Y[:5]))


@every_model
def test_tasks_and_columns_of_labels_must_be_as_many(Model, library):
    with pytest.raises(
        ValueError,
        match=r"^tasks has 3 rows, but Y has 4 columns: give one row per task\. If .* Tasks holder\.$",
    ):
        Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T[:3]))


@every_model
def test_a_frame_of_another_length_is_told_by_size(Model):
    with pytest.raises(ValueError, match="X has 5 instances, but Y has 6 rows"):
        Model().fit(pd.DataFrame(X[:5], ROWS[:5]), pd.DataFrame(Y, ROWS, TASKS))
    with pytest.raises(ValueError, match="tasks has 3 rows, but Y has 4 columns"):
        Model().fit(X, pd.DataFrame(Y, ROWS, TASKS), tasks=pd.DataFrame(T[:3], TASKS[:3]))


@every_model
def test_a_precomputed_kernel_must_be_square(Model, library):
    message = r"^The precomputed instance kernel must be a square matrix, found shape \(6, 3\)\. For features, "
    with pytest.raises(KernelError, match=message):
        precomputed(Model).fit(library.asarray(X), library.asarray(Y))


@every_pair_model
def test_a_precomputed_task_kernel_must_be_square(Model, library):
    with pytest.raises(
        KernelError, match=r"^The precomputed task kernel must be a square matrix, found shape \(4, 2\)"
    ):
        precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(T))


@every_model
def test_instances_to_predict_must_be_as_wide_as_in_training(Model, library):
    model = Model().fit(library.asarray(X), library.asarray(Y))
    with pytest.raises(ValueError, match=rf"^X has 2 features, but {Model.__name__} is expecting 3 features as input"):
        model.predict(library.asarray(X[:, :2]))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y))
    with pytest.raises(ValueError, match=rf"^X has 5 features, but {Model.__name__} is expecting 6 features as input"):
        model.predict(library.asarray(K[:, :5]))


@every_pair_model
def test_tasks_to_predict_must_be_as_wide_as_in_training(Model, library):
    model = Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T))
    with pytest.raises(ValueError, match=r"^tasks has 1 columns, expected 2 features\.$"):
        model.predict(library.asarray(X), tasks=library.asarray(T[:, :1]))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(G))
    with pytest.raises(ValueError, match=r"^tasks has 3 columns, expected 4 kernel values with the training tasks\.$"):
        model.predict(library.asarray(K), tasks=library.asarray(G[:, :3]))


def test_labels_to_score_must_have_the_shape_of_the_predictions():
    model = TwoStepRidge().fit(X, Y, tasks=T)
    with pytest.raises(
        ValueError, match=r"^Y has shape \(6, 4\), but the predictions .* \(6, 2\)\. .* Tasks holder\.$"
    ):
        model.score(X, Y, tasks=T[:2])
    with pytest.raises(ValueError, match=r"Y has shape \(5, 4\), but the predictions .* have shape \(6, 4\)"):
        model.score(X, Y[:5])


def test_matrices_are_matrices(library):
    with pytest.raises(ValueError, match="X must be a matrix, found 1 dimension|Expected 2D array, got 1D"):
        TwoStepRidge().fit(library.asarray(X[:, 0]), library.asarray(Y))
    with pytest.raises(ValueError, match="tasks must be a matrix, found 1 dimension|Expected 2D array, got 1D"):
        TwoStepRidge().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T[:, 0]))
    with pytest.raises(ValueError, match=r"Y must have one or two dimensions, found 3|Found array with dim 3"):
        TwoStepRidge().fit(library.asarray(X), library.asarray(Y[:, :, None]))


@pytest.mark.parametrize(
    ("name", "x", "y", "tasks"),
    [
        ("Y", X, Y[:, :0], None),
        ("Y", X, Y[:0], None),
        ("Y", X, np.empty(0), None),
        ("tasks", X, Y, T[:0]),
        ("tasks", X, Y, T[:, :0]),
    ],
)
def test_empty_grids_are_refused_by_name(library, name, x, y, tasks):
    with pytest.raises(ValueError, match=f"{name} .*empty") as caught:
        TwoStepRidge().fit(
            library.asarray(x), library.asarray(y), tasks=None if tasks is None else library.asarray(tasks)
        )
    empty = y if name == "Y" else tasks
    assert str(empty.shape) in str(caught.value)


@pytest.mark.parametrize("x", [X[:0], X[:, :0]])
def test_empty_instances_are_refused(library, x):
    with pytest.raises(ValueError, match=re.escape(str(x.shape)).replace(" ", " ?")):
        TwoStepRidge().fit(library.asarray(x), library.asarray(Y))


@every_model
def test_labels_are_needed(Model):
    with pytest.raises(ValueError, match=f"{Model.__name__} requires y to be passed, but the target y is None"):
        Model().fit(X, None)


# --- ids ---------------------------------------------------------------------------------------


def test_repeated_ids_are_named_with_their_table():
    twice = ["a", *ROWS[:5]]
    labels = pd.DataFrame(Y, ROWS, TASKS)
    with pytest.raises(IdError, match=r"^The index of X has repeated ids: 'a'\. Ids must be distinct; aggregate or"):
        TwoStepRidge().fit(pd.DataFrame(X, twice), labels)
    with pytest.raises(IdError, match=r"^The index of Y has repeated ids: 'a'\."):
        TwoStepRidge().fit(X, pd.DataFrame(Y, twice, TASKS))
    with pytest.raises(IdError, match=r"^The index of tasks has repeated ids: 't1', 't0'\."):
        TwoStepRidge().fit(X, labels, tasks=pd.DataFrame(T, ["t0", "t1", "t1", "t0"]))
    with pytest.raises(IdError, match=r"^Column 'who' of X has repeated ids: 'a'\."):
        TwoStepRidge().fit(pl.DataFrame({"who": twice, "f": X[:, 0]}), Y)
    model = TwoStepRidge().fit(X, Y)
    with pytest.raises(IdError, match=r"^The index of X has repeated ids: 'a'\."):
        model.predict(pd.DataFrame(X, twice))


@pytest.mark.parametrize("side", ["X", "Y", "tasks"])
def test_repeated_columns_are_named_with_their_table(side):
    tables = {"X": pd.DataFrame(X), "Y": pd.DataFrame(Y), "tasks": pd.DataFrame(T)}
    tables[side].columns = ["u"] * tables[side].shape[1]
    with pytest.raises(IdError, match=rf"[Cc]olumns of {side} .*repeated ids: 'u'"):
        TwoStepRidge().fit(tables["X"], tables["Y"], tasks=tables["tasks"])


def test_only_a_few_of_many_ids_are_listed():
    names = [f"i{i}" for i in range(30)]
    rows = np.random.default_rng(0).normal(size=(30, 2))
    others = [f"j{i}" for i in range(30)]
    with pytest.raises(IdError) as caught:
        TwoStepRidge().fit(pd.DataFrame(rows, names), pd.DataFrame(rows, others))
    message = str(caught.value)
    assert "30 of the rows of Y not in X ('j0', 'j1', 'j2', 'j3', 'j4', …)" in message
    assert "30 of X not in the rows of Y ('i0', 'i1', 'i2', 'i3', 'i4', …)" in message
    assert "i5" not in message


# --- numbers that are none ---------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@every_model
def test_instances_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        Model().fit(library.asarray(spoilt(X, bad)), library.asarray(Y))
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        precomputed(Model).fit(library.asarray(spoilt(K, bad)), library.asarray(Y))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y))
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        model.predict(library.asarray(spoilt(K, bad)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@every_pair_model
def test_tasks_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(spoilt(T, bad)))
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(spoilt(G, bad)))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(G))
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        model.predict(library.asarray(K), tasks=library.asarray(spoilt(G, bad)))


@every_model
def test_missing_labels_are_counted_and_not_yet_supported(Model, library):
    labels = np.where(Y > 0.5, np.nan, Y)
    count = int(np.isnan(labels).sum())
    assert 1 < count < Y.size
    message = f"Y contains NaN: {count} of 24 labels are not observed, and incomplete labels are not yet supported"
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), library.asarray(labels))


@pytest.mark.parametrize(
    "labels",
    [
        pd.DataFrame({"a": [1.0, None, 2.0, None, 0.0, 1.0]}),
        pd.DataFrame({"a": pd.array([1, None, 2, None, 0, 1], dtype="Int64")}),
        pl.DataFrame({"a": [1, None, 2, None, 0, 1]}),
        pl.DataFrame({"a": [1.0, None, 2.0, float("nan"), 0.0, 1.0]}),
        pl.Series([1.0, None, 2.0, None, 0.0, 1.0]),
    ],
    ids=["pandas", "pandas-Int64", "polars-int", "polars-float", "polars-series"],
)
def test_missing_labels_of_frames_count_too(labels):
    with pytest.raises(ValueError, match="2 of 6 labels are not observed, and incomplete labels are not yet supported"):
        TwoStepRidge().fit(X, labels)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@every_model
def test_labels_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"Y contains infinity"):
        Model().fit(library.asarray(X), library.asarray(spoilt(Y, bad)))


@every_model
def test_sparse_labels_are_refused(Model):
    with pytest.raises(
        TypeError, match=r"^Y is sparse, but its zeros are labels too: give it dense, as Y\.toarray\(\)\.$"
    ):
        Model().fit(X, sparse.csr_array(Y))


def test_a_sparse_precomputed_kernel_is_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse.* X, but dense data is required"):
        precomputed().fit(sparse.csr_array(K), Y)
    with pytest.raises(TypeError, match=r"[Ss]parse.* tasks, but dense data is required"):
        precomputed().fit(K, Y, tasks=sparse.csr_array(G))


TEXT = np.array([["x"] * 4] * 6)


@pytest.mark.parametrize("text", [TEXT, TEXT.astype(object), TEXT.tolist(), pd.DataFrame(TEXT)])
def test_text_where_numbers_belong_is_refused_by_name(text):
    with pytest.raises(ValueError, match=r"\bX\b"):
        TwoStepRidge().fit(text, Y)
    with pytest.raises(ValueError, match=r"\bY\b"):
        TwoStepRidge().fit(X, text)
    with pytest.raises(ValueError, match=r"\btasks\b"):
        TwoStepRidge().fit(X, Y, tasks=text[:4])


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        TwoStepRidge().fit(X + 0j, Y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        TwoStepRidge().fit(X, Y + 0j)


# --- parameters --------------------------------------------------------------------------------

BAD_NUMBERS = [(-1e-9, ValueError), (np.nan, ValueError), (np.inf, ValueError)]
NO_NUMBERS = [
    ("1", TypeError),
    (None, TypeError),
    (True, TypeError),
    ([1.0], TypeError),
    (np.ones(2), TypeError),
]
bad_alphas = pytest.mark.parametrize(("value", "error"), BAD_NUMBERS + NO_NUMBERS, ids=repr)


@every_model
@bad_alphas
def test_alpha_must_be_a_number_of_at_least_zero(Model, value, error):
    with pytest.raises(error, match=r"^alpha must be a (finite )?number of at least 0, found "):
        Model(alpha=value).fit(X, Y)


@bad_alphas
@pytest.mark.parametrize("tasks", [None, T], ids=["without", "with"])
def test_task_alpha_must_be_a_number_of_at_least_zero(value, error, tasks):
    with pytest.raises(error, match=r"^task_alpha must be a (finite )?number of at least 0, found "):
        TwoStepRidge(task_alpha=value).fit(X, Y, tasks=tasks)


@every_model
def test_an_unknown_kernel_lists_the_known_ones(Model):
    with pytest.raises(KernelError, match=r"^Unknown kernel 'rgf'\. Did you mean 'rbf'\? Known are ") as caught:
        Model(kernel="rgf").fit(X, Y)
    for name in kernel_names():
        assert name in str(caught.value)


@every_pair_model
def test_an_unknown_task_kernel_lists_the_known_ones(Model):
    with pytest.raises(KernelError, match=r"^Unknown kernel 'tanimto'\. Did you mean 'tanimoto'\? Known are .*linear"):
        Model(task_kernel="tanimto").fit(X, Y, tasks=T)


@pytest.mark.parametrize("kernel", [3, None, ["rbf"]])
def test_a_kernel_is_a_name_or_a_callable(kernel):
    with pytest.raises(
        KernelError, match=f"kernel must be one of .*rbf.*, or a callable, found {type(kernel).__name__}"
    ):
        TwoStepRidge(kernel=kernel).fit(X, Y)


@pytest.mark.parametrize("d", [3, 12], ids=["primal", "dual"])
@pytest.mark.parametrize("side", ["instance", "task"])
def test_parameters_that_a_kernel_does_not_take_are_refused(side, d):
    prefix = "" if side == "instance" else "task_"
    rows, tasks = np.ones((10, d)), np.ones((10, d))
    model = TwoStepRidge(**{f"{prefix}kernel_params": {"gamma": 1.0}})
    with pytest.raises(KernelError, match=r"kernel 'linear' takes no parameter 'gamma'; it takes none"):
        model.fit(rows, np.eye(10), tasks=tasks)


def test_a_callable_must_return_a_block():
    with pytest.raises(KernelError, match=r"expected shape \(6, 6\), found \(6,\)"):
        TwoStepRidge(kernel=lambda A, B: A[:, 0]).fit(X, Y)


@every_model
@pytest.mark.parametrize("value", ["mend", None, True])
def test_an_unknown_repair_lists_the_known_ones(Model, value):
    with pytest.raises(ValueError, match=rf"^repair must be one of 'clip', 'shift', 'error', found {value!r}\.$"):
        Model(repair=value).fit(X, Y)


@pytest.mark.parametrize("value", ["tikhonov", 1.0, Tikhonov])
def test_a_filter_is_a_filter(value):
    with pytest.raises(TypeError, match=r"^filter must be a spectral filter such as Tikhonov\(\), found "):
        TwoStepRidge(filter=value).fit(X, Y)
    with pytest.raises(TypeError, match=r"^filter must be a spectral filter such as Tikhonov\(\), found "):
        IndependentTaskRidge(filter=value).fit(X, Y)
    with pytest.raises(TypeError, match=r"^task_filter must be a spectral filter such as Tikhonov\(\), found "):
        TwoStepRidge(task_filter=value).fit(X, Y)


# --- what a model cannot do --------------------------------------------------------------------


@every_pair_model
def test_without_a_task_side_there_are_no_new_tasks(Model):
    model = Model().fit(X, Y)
    message = rf"^This {Model.__name__} knows nothing of tasks and cannot predict for new ones: fit it with tasks="
    with pytest.raises(ValueError, match=message):
        model.predict(X, tasks=T)
    with pytest.raises(ValueError, match=message):
        model.predict_pairs(X, T, [(0, 0)])
    with pytest.raises(ValueError, match=message):
        model.score(X, Y, tasks=T)


def test_independent_tasks_know_no_new_tasks():
    model = IndependentTaskRidge().fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match="knows nothing of tasks .*: use TwoStepRidge or KroneckerRidge"):
        model.predict(X, tasks=T)


@pytest.mark.parametrize(
    ("model", "tasks"),
    [
        (TwoStepRidge(kernel="rbf"), None),
        (IndependentTaskRidge(kernel="rbf"), None),
        (TwoStepRidge(task_kernel="rbf"), T),
        (KroneckerRidge(kernel="rbf"), T),
        (KroneckerRidge(task_kernel=lambda A, B: A @ B.T), T),
    ],
)
def test_coef_exists_only_in_the_primal(model, tasks):
    model.fit(X, Y, tasks=tasks)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match=r"^coef_ exists only in the primal: linear kernels .* see dual_coef_\.$"):
        _ = model.coef_


@every_model
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


@every_model
@pytest.mark.parametrize(("value", "error"), [*BAD_NUMBERS, ("1", TypeError), (True, TypeError)], ids=repr)
def test_a_refused_alpha_leaves_the_model_as_it_was(Model, value, error):
    model = Model(alpha=0.5).fit(X, Y, tasks=T)
    predicted, dual, params = model.predict(X), model.dual_coef_, model.get_params()
    with pytest.raises(error, match="alpha must be a"):
        model.set_alpha(value)
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.dual_coef_, dual)
    assert model.get_params() == params


@pytest.mark.parametrize("alphas", [(2.0, -1.0), (-1.0, 2.0), (2.0, "x")])
def test_one_refused_alpha_refuses_both(alphas):
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, tasks=T)
    predicted = model.predict(X, tasks=T)
    with pytest.raises((TypeError, ValueError), match="alpha must be"):
        model.set_alpha(*alphas)
    assert (model.alpha, model.task_alpha) == (0.5, 0.25)
    assert_array_equal(model.predict(X, tasks=T), predicted)


def test_none_leaves_alphas_as_they_are():
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, tasks=T)
    assert model.set_alpha().get_params()["alpha"] == 0.5
    model.set_alpha(task_alpha=3.0)
    assert (model.alpha, model.task_alpha) == (0.5, 3.0)
    assert_allclose(
        model.predict(X, tasks=T), TwoStepRidge(0.5, 3.0).fit(X, Y, tasks=T).predict(X, tasks=T), rtol=1e-12
    )


@every_model
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_parameters_set_after_fit_wait_for_the_next_fit(Model, kernel):
    model = Model(alpha=0.5, kernel=kernel).fit(X, Y)
    predicted, dual = model.predict(X), model.dual_coef_
    model.set_params(alpha=50.0)
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.dual_coef_, dual)


@pytest.mark.parametrize("Model", PAIR_MODELS)
def test_a_failed_refit_leaves_the_model_as_it_was(Model):
    model = Model(kernel="rbf", task_kernel="precomputed", repair="error").fit(X, Y, tasks=G)
    predicted, dual = model.predict(X), model.dual_coef_
    with pytest.raises(KernelError, match="task kernel is not symmetric"):
        model.fit(X + 1.5, Y, tasks=spoilt(G, 9.0))
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.set_alpha(1.0).predict(X), predicted)
    assert_array_equal(model.dual_coef_, dual)


@every_model
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_failed_refit_forgets_no_width(Model, kernel):
    model = Model(kernel=kernel).fit(pd.DataFrame(X, columns=list("fgh")), Y)
    predicted = model.predict(pd.DataFrame(X, columns=list("fgh")))
    with pytest.raises(ValueError, match="incomplete labels are not yet supported"):
        model.fit(pd.DataFrame(X[:, :2], columns=list("uv")), spoilt(Y, np.nan))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["f", "g", "h"]
    assert_array_equal(model.predict(pd.DataFrame(X, columns=list("fgh"))), predicted)


@every_model
def test_inputs_are_never_written_to(Model):
    given = [K.copy(), Y.copy(), G.copy()]
    for array in given:
        array.flags.writeable = False
    model = precomputed(Model).fit(given[0], given[1], tasks=given[2])
    model.predict(given[0])
    assert_array_equal(given[0], K)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        bent = spoilt(K, 3.0)
        bent.flags.writeable = False
        precomputed(Model).fit(bent, given[1], tasks=given[2])
    assert_array_equal(bent, spoilt(K, 3.0))
