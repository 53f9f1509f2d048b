"""Deviations and likelihoods of the estimators against a Gaussian process over all pairs, written out."""

import pickle

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import KroneckerRidge, PairKernelRidge, load, save
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.kernels import Sum, gram
from dyadlearn.labels import Labels
from listed import listed
from process_case import ProcessCase
from sweeps import covering, every, lines, over

__all__ = ["listed"]

rng = default_rng(0)
M = 6
Q = 4
A = 3
B = 2
X = rng.normal(size=(M + A, 3))
T = rng.normal(size=(Q + B, 2))
Y = 5.0 + X[:M] @ rng.normal(size=(3, 2)) @ T[:Q].T + 0.3 * rng.normal(size=(M, Q))


def tent(A, B):
    return (
        np.maximum(
            0.0, 1.0 - 0.1 * np.abs(np.asarray(A)[:, None] - np.asarray(B)[None]).sum(axis=-1)
        )
        + A @ B.T
    )


# How a side is described: its kernel, and how features are handed in.
SIDES = {
    "linear": ("linear", np.asarray),
    "sparse": ("linear", sparse.csr_array),
    "rbf": ("rbf", np.asarray),
    "callable": (tent, np.asarray),
    "sum": (Sum(("rbf", "linear")), np.asarray),
    "precomputed": ("precomputed", np.asarray),
}


def dense(
    K, G, alpha, shares=(1.0, 0.0, 0.0), free_mean=False, Y=Y, weights=None, constants=(1.0, 1.0)
):
    """Return the process of all pairs; new rows are known to differ from each other and from those before."""
    sides = []
    for kernel, constant in zip((K, G), constants, strict=True):
        values, vectors = np.linalg.eigh(kernel + free_mean * constant)
        kept = values > 1e-12 * values.max()
        sides.append(vectors[:, kept] * np.sqrt(values[kept]))
    labels = Labels.of_grid(Y, weights).listed()
    return ProcessCase(sides, ("full", "full"), alpha, shares, free_mean, labels)


def deviations(process):
    """Return the standard deviations of all pairs, new rows last, and the scale."""
    scale = process.likelihood(True, None)[1]
    grids = process.grids()
    variances = np.block([[grids["A"], grids["C"]], [grids["B"], grids["D"]]])
    return scale * np.sqrt(variances), scale


def described(side, values, n, dtype="float64"):
    """Return the training rows of a side and the new ones as a model takes them, and the kernel of all."""
    kernel, put = SIDES[side]
    K = gram(values, kernel="linear" if side == "precomputed" else kernel)
    if side == "precomputed":
        return K[:n, :n].astype(dtype), K[n:, :n].astype(dtype), K
    return put(values[:n].astype(dtype)), put(values[n:].astype(dtype)), K


def posed(side, task_side, model=None, dtype="float64", **params):
    """Return a fitted model, new rows of both sides with the diagonals they need, and the dense process."""
    train, new, K = described(side, X, M, dtype)
    task_train, task_new, G = described(task_side, T, Q, dtype)
    model = (model or KroneckerRidge(alpha=0.3)).set_params(
        kernel=SIDES[side][0], task_kernel=SIDES[task_side][0], **params
    )
    model.fit(train, Y.astype(dtype), task_train)
    given = {"diagonal": np.diag(K)[M:]} if side == "precomputed" else {}
    task_given = {"task_diagonal": np.diag(G)[Q:]} if task_side == "precomputed" else {}
    return model, (new, given), (task_new, task_given), (K, G)


FAMILY = {
    "Kronecker": (None, False),
    "constants": (None, True, (0.4, 3.0)),
    "product": ((1.0, 0.0, 0.0), True),
    "per task": ((0.6, 0.4, 0.0), True),
    "per instance": ((0.7, 0.0, 0.2), False),
    "all": ((0.5, 0.2, 0.3), True),
    "Cartesian": ((0.0, 1.0, 1.0), False),
}


def of_family(shares, fit_intercept, constants=(1.0, 1.0)):
    """Return an estimator, and what the dense process takes."""
    if shares is None:
        params = {"free_mean": fit_intercept, "constants": constants}
        model = KroneckerRidge(alpha=0.3, fit_intercept=fit_intercept, constants=constants)
        return model, params
    names = dict(zip(("product", "per_task", "per_instance"), shares, strict=True))
    model = PairKernelRidge(alpha=0.3, fit_intercept=fit_intercept, **names)
    return model, {"shares": shares, "free_mean": fit_intercept}


@over(
    covering(
        side=list(SIDES),
        task_side=list(SIDES),
        member=FAMILY,
        dtype=["float64", "float32"],
        strength=1,
    )
)
def test_deviations_are_those_of_the_dense_process(side, task_side, member, dtype):
    model, params = of_family(*member)
    model, (new, given), (task_new, task_given), kernels = posed(side, task_side, model, dtype)
    expected, scale = deviations(dense(*kernels, 0.3, **params))
    rtol = 1e-9 if dtype == "float64" else 2e-3
    for rows, own, places in ((None, {}, slice(M)), (new, given, slice(M, None))):
        for tasks, others, columns in (
            (None, {}, slice(Q)),
            (task_new, task_given, slice(Q, None)),
        ):
            mean, deviation = model.predict(rows, tasks, return_std=True, **own, **others)
            assert mean.dtype == deviation.dtype == dtype
            assert_allclose(deviation, expected[places, columns], rtol=rtol, atol=rtol)
    assert_allclose(model.scale_, scale, rtol=rtol)


# --- labels of all forms -------------------------------------------------------------------------

HOLES = np.where(np.eye(M, Q) + np.eye(M, Q, 2) > 0, np.nan, Y)
HOLES[4] = HOLES[:, 3] = np.nan
WEIGHTS = default_rng(1).uniform(0.2, 30.0, size=(M, Q))
# Labels and their weights.
GIVEN = {
    "complete": (Y, None),
    "missing": (HOLES, None),
    "weighted": (Y, WEIGHTS),
    "both": (HOLES, WEIGHTS),
}


def fitted(model, labels, weights, form="grid"):
    """Return a model that is fitted on a grid, or on a sparse matrix of the observed labels."""
    if form == "sparse":
        places = np.nonzero(~np.isnan(labels))
        labels, weights = (
            None if values is None else sparse.csr_array((values[places], places), shape=(M, Q))
            for values in (labels, weights)
        )
    return model.fit(X[:M], labels, T[:Q], weights)


@pytest.mark.usefixtures("listed")
@over(
    covering(
        side=["linear", "rbf"],
        task_side=["linear", "rbf"],
        member=FAMILY,
        given=GIVEN,
        form=["grid", "sparse"],
        strength=1,
        also=every(
            side=["rbf"],
            task_side=["linear"],
            member=[FAMILY["constants"]],
            given=GIVEN,
            form=["grid", "sparse"],
        ),
    )
)
def test_labels_of_all_forms_have_the_dense_process(side, task_side, member, given, form):
    model, params = of_family(*member)
    labels, weights = given
    model = fitted(
        model.set_params(kernel=side, task_kernel=task_side, tol=1e-12), labels, weights, form
    )
    assert (model.fitted_.labels.grid is None) == (
        form == "sparse" and type(model) is KroneckerRidge
    )
    kernels = described(side, X, M)[2], described(task_side, T, Q)[2]
    process = dense(*kernels, 0.3, **params, Y=labels, weights=weights)
    expected, scale = deviations(process)
    for rows, places in ((None, slice(M)), (X[M:], slice(M, None))):
        for tasks, columns in ((None, slice(Q)), (T[Q:], slice(Q, None))):
            _, deviation = model.predict(rows, tasks, return_std=True)
            assert_allclose(deviation, expected[places, columns], rtol=1e-8, atol=1e-8)
    assert_allclose(model.scale_, scale, rtol=1e-9)
    for method in ("restricted", "profile"):
        for scale in (None, 0.7):
            found = model.log_marginal_likelihood(method=method, scale=scale)
            expected = process.likelihood(method == "restricted", scale)[0]
            assert_allclose(found, expected, rtol=1e-9)


def test_the_matrix_of_observed_labels_is_in_no_pickle_and_no_file(tmp_path):
    model = KroneckerRidge(kernel="rbf").fit(X[:M], HOLES, T[:Q])
    model.fitted_.labels.listed()  # the places of labels are found once
    before = len(pickle.dumps(model))
    deviation = model.predict(X, return_std=True)[1]
    assert len(pickle.dumps(model)) == before
    save(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model")):
        assert_allclose(again.predict(X, return_std=True)[1], deviation, rtol=1e-12)


@over(
    lines(
        "fit ask message",
        (
            {"y": Y},
            {},
            "as .* ridge regression has no deviations and no likelihood: fit it with tasks=",
        ),
        (
            {"y": Y, "tasks": T[:Q]},
            {"diagonal": np.ones(M + A)},
            "diagonal is only for rows of X from a precomputed",
        ),
        (
            {"y": Y, "tasks": T[:Q]},
            {"task_diagonal": np.ones(Q)},
            "task_diagonal is only for rows of tasks from a precomputed kernel",
        ),
    )
)
def test_what_has_no_deviations_is_refused(fit, ask, message):
    model = KroneckerRidge(fit_intercept=False).fit(X[:M], **fit)
    with pytest.raises(ValueError, match=message):
        model.predict(X, return_std=True, **ask)
    if not ask:
        with pytest.raises(ValueError, match=message):
            model.log_marginal_likelihood()
        with pytest.raises(AttributeError, match=f"scale_ does not exist. .*{message}"):
            _ = model.scale_
    assert model.predict(X).shape == (M + A, Q)


@over(
    lines(
        "ask message",
        ({}, "The kernel of every row of X with itself is not known: give diagonal=, 3 numbers"),
        (
            {"diagonal": np.ones(4)},
            r"diagonal must hold a number for each of 3 rows of X, found shape \(4,\)",
        ),
        ({"diagonal": -np.ones(3)}, "diagonal must hold finite numbers of at least 0"),
        ({"diagonal": np.full(3, np.nan)}, "diagonal must hold finite numbers of at least 0"),
        ({"diagonal": ["a"] * 3}, "diagonal holds text where numbers belong"),
    )
)
def test_diagonals_of_a_precomputed_kernel(ask, message):
    model, (new, _), _, _ = posed("precomputed", "rbf")
    with pytest.raises(ValueError, match=message):
        model.predict(new, return_std=True, **ask)


def test_a_diagonal_of_other_rows_is_told():
    model, (new, given), _, _ = posed("precomputed", "rbf")
    with pytest.warns(PrecisionWarning, match="negative by more than rounding"):
        model.predict(new, return_std=True, diagonal=0.01 * given["diagonal"])


def test_bad_parameters_of_a_likelihood():
    model = KroneckerRidge().fit(X[:M], Y, T[:Q])
    for params, error, message in (
        ({"method": "ml"}, ValueError, "method must be one of 'restricted', 'profile', found 'ml'"),
        ({"scale": 0.0}, ValueError, "scale must be above 0"),
        ({"scale": -1.0}, ValueError, "scale must be a finite number of at least 0"),
        ({"scale": "big"}, TypeError, "scale must be a number"),
    ):
        with pytest.raises(error, match=message):
            model.log_marginal_likelihood(**params)
