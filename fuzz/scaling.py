"""Features and kernels of every scale and precision, against references of sixty digits and against scikit-learn.

A model may lose digits where features are badly scaled, but no more than ten times as many as
scikit-learn's solver of the same kind on the same data: ``Ridge(solver="svd")`` for dense features,
``Ridge(solver="cholesky")`` for sparse,
``KernelRidge`` for kernels. Where that solver is off by a thousandth of the labels' standard deviation, so may we be,
with a `PrecisionWarning`.

The errors of scikit-learn on one case are also a matter of luck: zeros and whole numbers are added
without any. So a model may also lose ten times what the exact answer changes if its data are
rounded, as a backward stable method rounds them: dense features by ε times the largest entry, since
a singular value decomposition mixes columns; sparse ones by ε times that of their column; kernels
by ε times their norm. Negative eigenvalues of a kernel are its rounding, too, and are set to zero.
Hold-out comes from one fit of all rows, so that all rows are rounded together, and not only those
that stay. The rounding errors that the documentation grants are allowed up to a thousandth: ε‖K‖/λ
for kernels, ε·s/√λ for features of pairs, ε over the slack for rows that are left out.
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
# Versions of the data that differ by rounding.
N_ROUNDED = 2
# What errors are compared with, and what nobody need be better than, in standard deviations of the
# labels.
EPS = float(np.finfo(float).eps)
TIMES = 10.0
LEAST = {"float64": 1e-8, "float32": 2e-6}
NOTICEABLE = 1e-3


def _features(case: Case, n: int, d: int) -> np.ndarray:
    """Return training and new rows with columns from 10⁻⁸ to 10⁸, offsets up to 10⁶ times the spread."""
    rng = case.rng
    if case.chance(0.3):
        rows = rng.integers(0, 2, size=(n, d)).astype(float)
    else:
        rows = rng.normal(size=(n, d))
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
    return (
        standard @ case.rng.normal(size=(wide.shape[1], q))
        + case.rng.normal(size=(len(wide), q))
        + case.pick(0, 5)
    )


def _exact(array: Any) -> mpmath.matrix:
    if isinstance(array, mpmath.matrix):
        return array
    values = np.asarray(array)
    return mpmath.matrix((values if values.dtype == object else values.astype(float)).tolist())


def _rounded(rng: np.random.Generator, array: np.ndarray, size: Any) -> np.ndarray:
    """Return numbers of sixty digits that differ from an array by ε times a size, one or one for each column."""
    errors = np.finfo(float).eps * size * rng.normal(size=array.shape)
    in_digits = np.vectorize(mpmath.mpf, otypes=[object])
    return in_digits(array.astype(float)) + in_digits(errors)


def _versions(
    seed: int, rows: np.ndarray, new: np.ndarray, by_column: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return features of training and new rows, and `N_ROUNDED` versions as a backward stable method may see them."""
    rng = np.random.default_rng(seed)
    sizes = np.abs(rows.astype(float))
    size = sizes.max(axis=0) if by_column else sizes.max()
    beside = np.abs(new.astype(float))
    return [(rows, new)] + [
        (_rounded(rng, rows, size), _rounded(rng, new, beside)) for _ in range(N_ROUNDED)
    ]


def _products(rows: np.ndarray, tasks: np.ndarray) -> mpmath.matrix:
    """Return features of all pairs, products that are not rounded."""
    first, second = (np.vectorize(mpmath.mpf, otypes=[object])(side) for side in (rows, tasks))
    return mpmath.matrix(np.kron(first, second).tolist())


def _with_ones(constant: bool, *sides: np.ndarray) -> list[np.ndarray]:
    """Return features with a column of ones, where there is a constant; those of any precision in double."""
    wide = [side if side.dtype == object else side.astype(float) for side in sides]
    return [np.column_stack([side, np.ones(len(side))]) if constant else side for side in wide]


def _plain(matrix: mpmath.matrix) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in matrix.tolist()])


def _solved_map(X: mpmath.matrix, Z: mpmath.matrix, alpha: float, is_tall: bool) -> mpmath.matrix:
    """Return Z (XᵀX + αI)⁻¹ Xᵀ, by the smaller of the two systems."""
    if is_tall:
        return Z * (mpmath.inverse(X.T * X + alpha * mpmath.eye(X.cols)) * X.T)
    return (Z * X.T) * mpmath.inverse(X * X.T + alpha * mpmath.eye(X.rows))


def _ridge_map(rows: np.ndarray, new: np.ndarray, alpha: float, constant: bool) -> mpmath.matrix:
    """Return the map (a, n) from labels of rows to predictions for new ones, by normal equations.

    They have sixty digits, or twice as many where squares of features hide the regularisation.
    """
    X = _exact(rows)
    Z = _exact(new)
    n = X.rows
    d = X.cols
    a = Z.rows
    ones = mpmath.ones(n, 1)
    new_ones = mpmath.ones(a, 1)
    if constant:
        mean = (ones.T * X) / n
        X = X - ones * mean
        Z = Z - new_ones * mean
    is_tall = d <= n
    try:
        solved = _solved_map(X, Z, alpha, is_tall)
    except ZeroDivisionError:
        with mpmath.workdps(2 * DIGITS):
            solved = _solved_map(X, Z, alpha, is_tall)
    if not constant:
        return solved
    return solved - (solved * ones) * ones.T / n + new_ones * ones.T / n


def _judge(
    ours: np.ndarray,
    theirs: np.ndarray,
    exact: list[np.ndarray],
    Y: np.ndarray,
    told: list[Any],
    granted: float = 0.0,
) -> None:
    """Compare both errors.

    Parameters
    ----------
    ours, theirs : arrays
    exact : list of arrays
        The exact answer, and those of data that differ by rounding.
    Y : array
        Labels.
    told : list
        Warnings that came with ours.
    granted : float
        Error that the documentation grants, relative to the unit of errors.
    """
    truth, *others = exact
    unit = (
        max(float(Y.std()), float(np.abs(truth).max())) or 1.0
    )  # predictions far from all training rows are large
    least = LEAST[str(np.asarray(ours).dtype)]
    error, other, *moved = (
        float(np.abs(values - truth).max()) / unit for values in (ours, theirs, *others)
    )
    warned = any(issubclass(values.category, PrecisionWarning) for values in told)
    if not error <= max(TIMES * other, TIMES * max(moved), least, min(granted, NOTICEABLE)):
        if warned:
            raise RefusedError("less precise than scikit-learn, and said so")
        raise WrongAnswerError(
            f"{error:.1e} SD off, scikit-learn {other:.1e}, rounding {max(moved):.1e}"
        )
    if error > max(NOTICEABLE, least) and not warned:
        raise WrongAnswerError(f"{error:.1e} SD off without a warning, scikit-learn {other:.1e}")


def _quietly(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


@generator
def scaled_features(case: Case) -> None:
    """Fit linear kernels of scaled features, in one step, two steps and on products of both sides."""
    rng = case.rng
    model = case.pick("independent", "two-step", "kronecker")
    n = int(rng.integers(4, 14))
    q = int(rng.integers(2, 6))
    a = 3
    constant = case.chance(0.6)
    both = _features(case, n + a, int(rng.integers(1, 4 if model == "kronecker" else 18)))
    X = both[:n]
    new = both[n:]
    Y = _labels(case, X, q).astype(X.dtype if X.dtype == np.float32 else float)
    alpha = float(10.0 ** rng.uniform(-4, 4))
    wide = Y.astype(float)
    is_sparse = model == "independent" and X.shape[1] < n and case.chance(0.3)
    if is_sparse:
        both[case.rng.random(both.shape) < 0.6] = 0
    solver = "cholesky" if is_sparse else "svd"
    case.what = f"{model} alpha {alpha:.1e} constant {constant} sparse {is_sparse}{case.what}"

    def theirs(
        rows: np.ndarray, labels: np.ndarray, asked: np.ndarray, ridge: float, free: bool = constant
    ) -> Any:
        data = rows.astype(float), labels.astype(float)
        fitted = Ridge(ridge, fit_intercept=free, solver=solver)
        return _quietly(
            lambda: fitted.fit(*data).predict(asked.astype(float)).reshape(len(asked), -1)
        )

    with warnings.catch_warnings(record=True) as told, mpmath.workdps(DIGITS):
        warnings.simplefilter("always")
        if model == "independent":
            stored = [sparse.csr_array(version) if is_sparse else version for version in (X, new)]
            fitted = IndependentTaskRidge(alpha, fit_intercept=constant).fit(stored[0], Y)
            versions = _versions(case.seed, X, new, is_sparse)
            exact = [
                _plain(_ridge_map(*version, alpha, constant) * _exact(wide)) for version in versions
            ]
            _judge(fitted.predict(stored[1]), theirs(X, Y, new, alpha), exact, wide, told)
            left = int(rng.integers(n))
            kept = np.delete(np.arange(n), left)
            exact = [
                _plain(_ridge_map(rows[kept], rows[[left]], alpha, constant) * _exact(wide[kept]))
                for rows, _ in versions
            ]
            refitted = theirs(X[kept], Y[kept], X[[left]], alpha)
            # Residuals have the rounding of the labels, and are divided by the slack.
            slack = 1 - _ridge_map(X, X, alpha, constant)[left, left]
            granted = 100 * EPS / float(slack) if slack > 0 else np.inf
            _judge(fitted.holdout("B")[[left]], refitted, exact, wide, told, granted)
            return
        granted = 0.0
        both = _features(case, q + 2, int(rng.integers(1, 4)))
        T = both[:q]
        new_tasks = both[q:]
        versions = _versions(case.seed, X, new, False)
        task_versions = _versions(case.seed + 1, T, new_tasks, False)
        if model == "two-step":
            ridge = float(10.0 ** rng.uniform(-4, 4))
            fitted = TwoStepRidge(alpha, ridge, fit_intercept=constant).fit(X, Y, tasks=T)
            lefts = [_ridge_map(*version, alpha, constant) for version in versions]
            rights = [_ridge_map(*version, ridge, constant) for version in task_versions]
            exact = [
                _plain(left * _exact(wide) * right.T)
                for left, right in zip(lefts, rights, strict=True)
            ]
            halfway = theirs(X, Y, new, alpha)
            other = theirs(T, halfway.T, new_tasks, ridge).T
        else:
            fitted = KroneckerRidge(alpha, fit_intercept=constant).fit(X, Y, tasks=T)
            flat = wide.reshape(-1, 1)
            exact = []
            for (rows, asked), (task_rows, asked_tasks) in zip(
                versions, task_versions, strict=True
            ):
                pairs = [
                    _products(*_with_ones(constant, *sides))
                    for sides in ((rows, task_rows), (asked, asked_tasks))
                ]
                exact.append(
                    _plain(_ridge_map(*pairs, alpha, constant) * _exact(flat)).reshape(a, -1)
                )
            rows, asked = (_with_ones(constant, *sides) for sides in ((X, T), (new, new_tasks)))
            other = theirs(np.kron(*rows), flat, np.kron(*asked), alpha).reshape(a, -1)
            # The features of pairs are never formed: the singular values of both sides are, with a
            # rounding error each.
            granted = (
                TIMES
                * EPS
                * float(np.prod([np.linalg.norm(side, 2) for side in rows]))
                / alpha**0.5
            )
        _judge(fitted.predict(new, new_tasks), other, exact, wide, told, granted)


@generator
def scaled_kernels(case: Case) -> None:
    """Fit smooth kernels, and kernels with a large common part."""
    rng = case.rng
    n = int(rng.integers(4, 16))
    q = 3
    d = int(rng.integers(1, 5))
    constant = case.chance(0.5)
    both = (rng.normal(size=(n + 3, d)) + case.pick(0.0, 0.0, 5.0, 50.0)).astype(
        case.pick("float64", "float32")
    )
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
        plain, plain_rows, plain_mean = (K + K.T) / 2, block, np.zeros(q)
        if constant:
            C = np.eye(n) - 1 / n
            plain_mean = wide.mean(axis=0)
            plain_rows = (block - plain.mean(axis=0)) @ C
            plain = C @ plain @ C
        fitted = KernelRidge(alpha=alpha, kernel="precomputed")
        theirs = (
            _quietly(lambda: fitted.fit(plain, wide - plain_mean).predict(plain_rows)) + plain_mean
        )
        exact = [
            _by_kernel(*version, wide, alpha, constant)
            for version in _kernel_versions(case.seed, K, block)
        ]
        # As documented: eigenvalues have an error of ε‖K‖.
        _judge(
            ours, theirs, exact, wide, told, TIMES * EPS * float(np.linalg.norm(plain, 2)) / alpha
        )


def _kernel_versions(
    seed: int, K: np.ndarray, block: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return kernels of training and new rows, versions as a backward stable method may see them, and repaired ones."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    size = values.max() / np.sqrt(len(K))
    versions = [(K, block)]
    for _ in range(N_ROUNDED):
        rounded = _rounded(rng, K, size)
        versions.append(((rounded + rounded.T) / 2, _rounded(rng, block, np.abs(block).max())))
    below = vectors[:, values < 0]
    # Rows of the repaired kernel have no part along its negative directions.
    versions.append((K - (below * values[values < 0]) @ below.T, block - block @ below @ below.T))
    return versions


def _by_kernel(
    K: np.ndarray, block: np.ndarray, Y: np.ndarray, alpha: float, constant: bool
) -> np.ndarray:
    """Return predictions of kernel ridge regression in sixty digits."""
    n, q = Y.shape
    kernel = _exact(K)
    rows = _exact(block)
    labels = _exact(Y)
    ones = mpmath.ones(n, 1)
    kernel = (kernel + kernel.T) / 2
    mean = mpmath.zeros(1, q)
    if constant:
        centre = mpmath.eye(n) - ones * ones.T / n
        mean = ones.T * labels / n
        labels = centre * labels
        rows = (rows - mpmath.ones(rows.rows, 1) * (ones.T * kernel / n)) * centre
        kernel = centre * kernel * centre
    dual = mpmath.inverse(kernel + alpha * mpmath.eye(n)) * labels
    return _plain(rows * dual + mpmath.ones(rows.rows, 1) * mean)
