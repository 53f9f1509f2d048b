"""Features and kernels of every scale and precision, against references of sixty digits and against scikit-learn.

A model may lose digits where features are badly scaled, but no more than ten times as many as scikit-learn's solver of
the same kind on the same data: ``Ridge(solver="svd")`` for dense features, ``Ridge(solver="cholesky")`` for sparse,
``KernelRidge`` for kernels. Where that solver is off by a thousandth of the labels' standard deviation, so may we be,
with a `PrecisionWarning`.
"""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import pairwise_kernels

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import PrecisionWarning

__all__: list[str] = []

DIGITS = 60
# What errors are compared with, and what nobody need be better than, in standard deviations of the labels.
TIMES, LEAST, NOTICEABLE = 10.0, {"float64": 1e-8, "float32": 2e-6}, 1e-3


def _features(case: Case, n: int, d: int) -> np.ndarray:
    """Return training and new rows with columns from 10⁻⁸ to 10⁸, offsets up to 10⁶ times the spread."""
    rng = case.rng
    rows = rng.integers(0, 2, size=(n, d)).astype(float) if case.chance(0.3) else rng.normal(size=(n, d))
    form = case.pick("all", "first", "last", "twice", "turned", "none")
    scales = np.ones(d)
    if form == "all":
        scales = 10.0 ** rng.uniform(-8, 8, size=d)
    elif form != "none":
        scales[0 if form == "first" else -1] = 10.0 ** rng.uniform(0, 8)
    rows *= scales
    if form == "twice" and d > 1:
        rows[:, 0] = rows[:, -1]
    if form == "turned":
        rows = rows @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    if case.chance(0.4):
        rows += np.abs(rows).max(axis=0) * 10.0 ** rng.uniform(0, 6) * rng.normal(size=d)
    precision = case.pick("float64", "float64", "float32", "int64")
    if precision == "int64":
        rows = np.round(rows.clip(-(2.0**52), 2.0**52))
    case.what += f" {form} {precision} {n} × {d}"
    return rows.astype(precision)


def _labels(case: Case, features: np.ndarray, q: int) -> np.ndarray:
    wide = features.astype(float)
    spread = wide.std(axis=0)
    standard = (wide - wide.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return standard @ case.rng.normal(size=(wide.shape[1], q)) + case.rng.normal(size=(len(wide), q)) + case.pick(0, 5)


def _exact(array: Any) -> mpmath.matrix:
    return array if isinstance(array, mpmath.matrix) else mpmath.matrix(np.asarray(array, dtype=float).tolist())


def _products(rows: np.ndarray, tasks: np.ndarray) -> mpmath.matrix:
    """Return features of all pairs, products that are not rounded."""
    first, second = (np.vectorize(mpmath.mpf, otypes=[object])(each) for each in (rows, tasks))
    return mpmath.matrix(np.kron(first, second).tolist())


def _plain(matrix: mpmath.matrix) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in matrix.tolist()])


def _ridge_map(rows: np.ndarray, new: np.ndarray, alpha: float, constant: bool) -> mpmath.matrix:
    """Return the map (a, n) from labels of rows to predictions for new ones, by normal equations in sixty digits."""
    X, Z = _exact(rows), _exact(new)
    n, d, a = X.rows, X.cols, Z.rows
    ones, new_ones = mpmath.ones(n, 1), mpmath.ones(a, 1)
    if constant:
        mean = (ones.T * X) / n
        X, Z = X - ones * mean, Z - new_ones * mean
    if d <= n:
        found = Z * (mpmath.inverse(X.T * X + alpha * mpmath.eye(d)) * X.T)
    else:
        found = (Z * X.T) * mpmath.inverse(X * X.T + alpha * mpmath.eye(n))
    if not constant:
        return found
    return found - (found * ones) * ones.T / n + new_ones * ones.T / n


def _judge(case: Case, ours: np.ndarray, theirs: np.ndarray, truth: np.ndarray, Y: np.ndarray, told: list[Any]) -> None:
    """Compare both errors; `told` are the warnings that came with ours."""
    unit = max(float(Y.std()), float(np.abs(truth).max())) or 1.0  # predictions far from all training rows are large
    least = LEAST[str(np.asarray(ours).dtype)]
    own, other = (float(np.abs(each - truth).max()) / unit for each in (ours, theirs))
    warned = any(issubclass(each.category, PrecisionWarning) for each in told)
    if not own <= max(TIMES * other, least):
        if warned:
            raise RefusedError("less precise than scikit-learn, and said so")
        raise WrongAnswerError(f"{own:.1e} SD off, scikit-learn {other:.1e}")
    if own > max(NOTICEABLE, least) and not warned:
        raise WrongAnswerError(f"{own:.1e} SD off without a warning, scikit-learn {other:.1e}")


def _quietly(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


@generator
def scaled_features(case: Case) -> None:
    """Fit linear kernels of scaled features, in one step, two steps and on products of both sides."""
    rng, model = case.rng, case.pick("independent", "two-step", "kronecker")
    n, q, a, constant = int(rng.integers(4, 14)), int(rng.integers(2, 6)), 3, case.chance(0.6)
    both = _features(case, n + a, int(rng.integers(1, 4 if model == "kronecker" else 18)))
    X, new = both[:n], both[n:]
    Y = _labels(case, X, q).astype(X.dtype if X.dtype == np.float32 else float)
    alpha, wide = float(10.0 ** rng.uniform(-4, 4)), Y.astype(float)
    is_sparse = model == "independent" and X.shape[1] < n and case.chance(0.3)
    if is_sparse:
        both[case.rng.random(both.shape) < 0.6] = 0
    solver = "cholesky" if is_sparse else "svd"
    case.what = f"{model} alpha {alpha:.1e} constant {constant} sparse {is_sparse}{case.what}"

    def theirs(rows: np.ndarray, labels: np.ndarray, asked: np.ndarray, ridge: float, free: bool = constant) -> Any:
        given = rows.astype(float), labels.astype(float)
        fitted = Ridge(ridge, fit_intercept=free, solver=solver)
        return _quietly(lambda: fitted.fit(*given).predict(asked.astype(float)).reshape(len(asked), -1))

    with warnings.catch_warnings(record=True) as told, mpmath.workdps(DIGITS):
        warnings.simplefilter("always")
        if model == "independent":
            given = [sparse.csr_array(each) if is_sparse else each for each in (X, new)]
            fitted = IndependentTaskRidge(alpha, fit_intercept=constant).fit(given[0], Y)
            truth = _plain(_ridge_map(X, new, alpha, constant) * _exact(wide))
            _judge(case, fitted.predict(given[1]), theirs(X, Y, new, alpha), truth, wide, told)
            left = int(rng.integers(n))
            kept = np.delete(np.arange(n), left)
            truth = _plain(_ridge_map(X[kept], X[[left]], alpha, constant) * _exact(wide[kept]))
            refitted = theirs(X[kept], Y[kept], X[[left]], alpha)
            _judge(case, fitted.holdout("B")[[left]], refitted, truth, wide, told)
            return
        both = _features(case, q + 2, int(rng.integers(1, 4)))
        T, new_tasks = both[:q], both[q:]
        if model == "two-step":
            ridge = float(10.0 ** rng.uniform(-4, 4))
            fitted = TwoStepRidge(alpha, ridge, fit_intercept=constant).fit(X, Y, tasks=T)
            left, right = _ridge_map(X, new, alpha, constant), _ridge_map(T, new_tasks, ridge, constant)
            truth = _plain(left * _exact(wide) * right.T)
            halfway = theirs(X, Y, new, alpha)
            other = theirs(T, halfway.T, new_tasks, ridge).T
        else:
            fitted = KroneckerRidge(alpha, fit_intercept=constant).fit(X, Y, tasks=T)

            sides = [each.astype(float) for each in (X, T, new, new_tasks)]
            sides = [np.column_stack([each, np.ones(len(each))]) if constant else each for each in sides]
            rows, asked, flat = sides[:2], sides[2:], wide.reshape(-1, 1)
            truth = _plain(_ridge_map(_products(*rows), _products(*asked), alpha, constant) * _exact(flat))
            truth = truth.reshape(a, -1)
            other = theirs(np.kron(*rows), flat, np.kron(*asked), alpha).reshape(a, -1)
        _judge(case, fitted.predict(new, new_tasks), other, truth, wide, told)


@generator
def scaled_kernels(case: Case) -> None:
    """Fit smooth kernels, and kernels with a large common part."""
    rng = case.rng
    n, q, d, constant = int(rng.integers(4, 16)), 3, int(rng.integers(1, 5)), case.chance(0.5)
    both = (rng.normal(size=(n + 3, d)) + case.pick(0.0, 0.0, 5.0, 50.0)).astype(case.pick("float64", "float32"))
    name, params = case.pick(
        ("rbf", {"gamma": float(10.0 ** rng.uniform(-4, 1))}),
        ("polynomial", {"degree": 3, "gamma": 1.0, "coef0": 1.0}),
        ("linear", {}),
    )
    alpha = float(10.0 ** rng.uniform(-8, 3))
    K = _quietly(lambda: pairwise_kernels(both.astype(float), metric=name, **params))
    Y = (rng.normal(size=(n, q)) + case.pick(0.0, 3.0)).astype(both.dtype)
    case.what = f"{name} {params} alpha {alpha:.1e} constant {constant} {both.dtype} {n} × {d}, mean {both.mean():.0f}"
    K, block = K[:n, :n], K[n:, :n]
    wide = Y.astype(float)
    with warnings.catch_warnings(record=True) as told, mpmath.workdps(DIGITS):
        warnings.simplefilter("always")
        model = IndependentTaskRidge(alpha, kernel="precomputed", fit_intercept=constant).fit(K, Y)
        ours = model.predict(block)
        exact, rows, labels, ones = _exact(K), _exact(block), _exact(wide), mpmath.ones(n, 1)
        exact = (exact + exact.T) / 2
        mean = mpmath.zeros(1, q)
        plain, plain_rows, plain_mean = (K + K.T) / 2, block, np.zeros(q)
        if constant:
            centre = mpmath.eye(n) - ones * ones.T / n
            mean, labels = ones.T * labels / n, centre * labels
            rows = (rows - mpmath.ones(3, 1) * (ones.T * exact / n)) * centre
            exact = centre * exact * centre
            C, plain_mean = np.eye(n) - 1 / n, wide.mean(axis=0)
            plain_rows, plain = (block - plain.mean(axis=0)) @ C, C @ plain @ C
        dual = mpmath.inverse(exact + alpha * mpmath.eye(n)) * labels
        truth = _plain(rows * dual + mpmath.ones(3, 1) * mean)
        fitted = KernelRidge(alpha=alpha, kernel="precomputed")
        theirs = _quietly(lambda: fitted.fit(plain, wide - plain_mean).predict(plain_rows)) + plain_mean
        _judge(case, ours, theirs, truth, wide, told)
