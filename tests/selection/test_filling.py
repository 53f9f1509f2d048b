"""New rows that lack descriptions: a ridge regression, with λ by leave-one-out, predicts the part that is missing."""

from functools import cache, partial

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import dyadlearn
from dyadlearn import LearnedKernelRidge
from dyadlearn.kernels.vectors import rbf
from dyadlearn.selection import filling
from problems import pair_kernel
from sweeps import lines, over

M = 14
Q = 6
NEW = 4
rng = np.random.default_rng(0)
X = {
    "a": rng.normal(size=(M + NEW, 2)),
    "b": rng.normal(size=(M + NEW, 3)),
    "c": rng.normal(size=(M + NEW, 2)),
}
X["b"] = np.hstack([X["a"] + 0.2 * X["b"][:, :2], 0.2 * X["b"][:, 2:]])
T = {"s": rng.normal(size=(Q + NEW, 2)), "t": rng.normal(size=(Q + NEW, 2))}
T["t"] = T["s"] + 0.2 * T["t"]
Y = (
    np.sin(X["a"][:M]) @ T["s"][:Q].T
    + np.sin(X["b"][:M, 1:] + X["c"][:M]) @ T["t"][:Q].T
    + 0.1 * rng.normal(size=(M, Q))
)
HOLED = np.where(rng.random((M, Q)) < 0.2, np.nan, Y)
SCALES = {
    "tiny λ": ((1e-9,), ["c", "b"]),
    "large λ": ((1e6,), ["c", "b"]),
    "chosen λ": (None, ["a"]),
}


def rows(tables, here, names=None):
    return {name: table[here] for name, table in tables.items() if names is None or name in names}


OLD = (rows(X, slice(M)), rows(T, slice(Q)))
NEW_ROWS = (rows(X, slice(M, None)), rows(T, slice(Q, None)))


@cache
def fitted(case="pairs"):
    """Return a model that is fitted on some labels, and these labels."""
    labels = HOLED if case == "missing labels" else Y
    model = LearnedKernelRidge(setting="B", stages=1, n_steps=2, cv=2, tol=1e-12, progress=False)
    model.set_params(fit_intercept=case != "no intercept")
    return model.fit(OLD[0], labels, None if case == "no tasks" else OLD[1]), labels


def terms(model, axis, A):
    """Return the weighted kernel of each description between rows of some tables and the training rows, by name."""
    found = {}
    for member in model.fitted_.sides[axis].spec.kernel.members:
        block = rbf(A[member.name], OLD[axis][member.name], **member.params)
        found[member.name] = member.weight * block**member.exponent
    return found


def bordered(K, alpha, targets, border=1.0):
    """Return the solution of kernel ridge regression with an unpenalised mean, its last row; no mean if border is 0."""
    n = len(K)
    system = np.full((n + 1, n + 1), border)
    system[:n, :n] = K + alpha * np.eye(n)
    system[n, n] = 1 - border
    return np.linalg.solve(system, np.vstack([targets, np.zeros((1, targets.shape[1]))]))


def coefficients(model, Y, axis):
    """Return A and μ, so that predictions for kernel rows k of a side are k A + μ, by one solve for all pairs."""
    m, q = Y.shape
    one = float(model.fit_intercept)
    K = sum(terms(model, 0, OLD[0]).values())
    if model.shares_ is None:
        solved = bordered(K, model.alpha_, Y)
        return solved[:-1], solved[-1]
    a, b, c = model.fitted_.spec.shares
    K = K + one
    G = sum(terms(model, 1, OLD[1]).values()) + one
    P = pair_kernel(K, G, a, b, c)
    seen = ~np.isnan(Y).reshape(-1)
    dual = np.zeros(m * q)
    solved = bordered(P[np.ix_(seen, seen)], model.alpha_, Y.reshape(-1, 1)[seen], one)[:, 0]
    dual[seen] = solved[:-1]
    dual = dual.reshape(m, q)
    along = a * dual @ G + b * dual if axis == 0 else a * dual.T @ K + c * dual.T
    return along, one * along.sum(axis=0) + solved[-1]


def scale(K):
    """Return the scale of λ: the largest eigenvalue, or the length of the mean row before centring."""
    centred = K - K.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    return max(np.linalg.eigvalsh(centred).max(), np.linalg.norm(K.mean(axis=0)) * np.sqrt(len(K)))


def by_hand(model, Y, names, alphas, axis=0):
    """Return predictions for new rows of a side with the named descriptions only, by real refits without each row."""
    A, mean = coefficients(model, Y, axis)
    trained = terms(model, axis, OLD[axis])
    new = terms(model, axis, NEW_ROWS[axis])
    K, asked = (sum(each[name] for name in names) for each in (trained, new))
    predictions = asked @ A + mean
    everyone = np.arange(len(K))
    for name in trained.keys() - set(names):
        part = trained[name] @ A

        def error(alpha, part=part):
            total = 0.0
            for i in everyone:
                others = np.delete(everyone, i)
                solved = bordered(K[np.ix_(others, others)], alpha, part[others])
                total += ((K[i, others] @ solved[:-1] + solved[-1] - part[i]) ** 2).sum()
            return total

        solved = bordered(K, min((scale(K) * alpha for alpha in alphas), key=error), part)
        predictions = predictions + asked @ solved[:-1] + solved[-1]
    return predictions


@over(
    lines(
        "case scale",
        ("pairs", "tiny λ"),
        ("pairs", "chosen λ"),
        ("no intercept", "large λ"),
        ("missing labels", "chosen λ"),
        ("no tasks", "chosen λ"),
    )
)
def test_a_ridge_regression_predicts_the_part_that_is_missing(monkeypatch, case, scale):
    alphas, names = SCALES[scale]
    model, labels = fitted(case)
    if alphas is not None:
        monkeypatch.setattr(filling, "_FILLING_ALPHAS", alphas)
    expected = by_hand(model, labels, names, filling._FILLING_ALPHAS)
    assert_allclose(model.predict(rows(NEW_ROWS[0], ..., names)), expected, rtol=1e-6, atol=1e-7)
    if case != "no tasks":
        expected = by_hand(model, labels, ["t"], filling._FILLING_ALPHAS, axis=1)
        assert_allclose(
            model.predict(tasks=rows(NEW_ROWS[1], ..., ["t"])).T, expected, rtol=1e-6, atol=1e-7
        )


def test_rows_are_grouped_by_what_they_lack():
    model, _ = fitted()
    given = {name: table.copy() for name, table in NEW_ROWS[0].items()}
    given["a"][1] = given["b"][1] = given["c"][3] = np.nan
    found = model.predict(given)
    whole = model.predict(NEW_ROWS[0])
    alone = model.predict(rows(NEW_ROWS[0], ..., ["c"]))
    without = model.predict(rows(NEW_ROWS[0], ..., ["a", "b"]))
    expected = np.stack([whole[0], alone[1], whole[2], without[3]])
    assert_allclose(found, expected, rtol=1e-10)
    assert_allclose(
        model.predict_pairs(given, None, [(3, 0), (1, 2)]), [found[3, 0], found[1, 2]], rtol=1e-10
    )
    assert_allclose(
        dyadlearn.explain(model, rows(given, [3]), 2).prediction, found[3, 2], rtol=1e-8
    )
    assert dyadlearn.recommend(model, X=given, n=2).columns()["task"]


def test_kernels_and_sparse_tables(tmp_path):
    K = rbf(X["b"], gamma=0.3)
    thin = sparse.csr_array(X["a"])
    kernel = {"a": "linear", "k": "precomputed"}
    model = LearnedKernelRidge(kernel=kernel, setting="B", stages=1, n_steps=2, progress=False)
    model.fit({"a": thin[:M], "k": K[:M, :M]}, Y, OLD[1])
    dense = X["a"][M:]
    new = K[M:, :M]
    expected = model.predict({"a": dense})
    dyadlearn.save(model, tmp_path / "model.dyad")
    again = dyadlearn.load(tmp_path / "model.dyad")
    for found, wanted in (
        (model.predict({"a": thin[M:], "k": new * np.nan}), expected),
        (again.predict({"a": dense}), expected),
        (model.predict({"a": dense * np.nan, "k": new}), model.predict({"k": new})),
    ):
        assert_allclose(found, wanted, rtol=1e-10)


def test_frames():
    frames = {
        name: pandas.DataFrame(table.copy(), index=list("wxyz"))
        for name, table in NEW_ROWS[0].items()
    }
    frames["b"] = frames["b"].iloc[::-1].copy()
    frames["b"].loc["y"] = np.nan
    found = fitted()[0].predict(frames)
    assert list(found.index) == list("wxyz")
    assert_allclose(
        found.loc[["y"]], fitted()[0].predict(rows(NEW_ROWS[0], [2], ["a", "c"])), rtol=1e-10
    )


def test_what_is_refused():
    model, _ = fitted()
    new = NEW_ROWS[0]
    partly = {**new, "b": new["b"].copy()}
    partly["b"][2, 0] = np.nan
    with pytest.raises(
        ValueError, match=r"X\['b'\] has NaN in part of row 2: fill it in, or make all of it NaN"
    ):
        model.predict(partly)
    with pytest.raises(
        ValueError, match="X has no description of row 0, 1, 2, 3: give one of 'a', 'b', 'c'"
    ):
        model.predict({"a": new["a"] * np.nan})
    with pytest.raises(ValueError, match="have the unknown name 'd': give those of training"):
        model.predict({"a": new["a"], "d": new["b"]})
    few = np.where(np.arange(Q) < 2, Y[:NEW], np.nan)
    for ask in (
        partial(model.predict, return_std=True),
        partial(model.predict, labels=few),
        model.predict_interval,
    ):
        with pytest.raises(ValueError, match="need all descriptions: give 'b', 'c' for each row"):
            ask({"a": new["a"]})
