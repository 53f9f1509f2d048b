"""Weighted ridge regressions in fifty digits, from their definitions: linear kernels, missing labels, any weights.

Arrays of numpy hold numbers of mpmath. Nothing here is shared with the library, and no digit is
lost where weights or regularisations differ by forty orders of magnitude.
"""

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np

# Arithmetic inside a function has so many digits, whatever the caller has chosen.
in_fifty_digits = mpmath.workdps(50)


def exact(array: Any) -> np.ndarray:
    """Return an array of numbers with fifty digits."""
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(array, dtype=float))


def plain(array: np.ndarray) -> np.ndarray:
    """Return an array in double precision."""
    return np.vectorize(float, otypes=[float])(array)


def solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A⁻¹B by Gaussian elimination with pivots."""
    n = len(A)
    both = np.concatenate([A, B.reshape(n, -1)], axis=1)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(both[k:, k])))
        both[[k, pivot]] = both[[pivot, k]]
        both[k + 1 :, k:] -= np.multiply.outer(both[k + 1 :, k] / both[k, k], both[k, k:])
    X = both[:, n:]
    for k in range(n - 1, -1, -1):
        X[k] = (X[k] - both[k, k + 1 : n] @ X[k + 1 :]) / both[k, k]
    return X.reshape(B.shape)


def _ridge(
    kernel: np.ndarray, noise: np.ndarray, y: np.ndarray, constant: bool
) -> tuple[np.ndarray, Any]:
    """Return dual coefficients, and a free mean, which makes them sum to zero; the mean is 0 without a constant."""
    n = len(y)
    system = kernel + np.diag(noise)
    if not constant:
        return solve(system, y), mpmath.mpf(0)
    ones = exact(np.ones((n, 1)))
    bordered = np.block([[system, ones], [ones.T, exact([[0.0]])]])
    found = solve(bordered, np.concatenate([y, exact([0.0])]))
    return found[:-1], found[-1]


@in_fifty_digits
def independent(
    X: np.ndarray, Y: np.ndarray, W: np.ndarray, alpha: float, new: np.ndarray, constant: bool
) -> np.ndarray:
    """Return the predictions of independent tasks for new instances."""
    rows = exact(X)
    asked = exact(new)
    found = np.empty((len(new), Y.shape[1]), dtype=object)
    for j in range(Y.shape[1]):
        o = np.flatnonzero(~np.isnan(Y[:, j]))
        dual, mean = _ridge(rows[o] @ rows[o].T, alpha / exact(W[o, j]), exact(Y[o, j]), constant)
        found[:, j] = asked @ (rows[o].T @ dual) + mean
    return plain(found)


@in_fifty_digits
def pair_kernel(
    X: np.ndarray,
    T: np.ndarray,
    Y: np.ndarray,
    W: np.ndarray,
    alpha: float,
    new: tuple[np.ndarray, np.ndarray],
    constant: bool,
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0),
) -> np.ndarray:
    """Return the predictions for pairs that are new on both sides: the shared function and the mean."""
    one = mpmath.mpf(int(constant))
    K, G = (exact(rows) @ exact(rows).T + one for rows in (X, T))
    K_new, G_new = (exact(rows) @ exact(own).T + one for rows, own in zip(new, (X, T), strict=True))
    i, j = np.nonzero(~np.isnan(Y))
    product, per_task, per_instance = exact(shares)
    left = K[np.ix_(i, i)]
    right = G[np.ix_(j, j)]
    kernel = product * left * right
    kernel = kernel + per_task * left * (j[:, None] == j)
    kernel = kernel + per_instance * right * (i[:, None] == i)
    dual, mean = _ridge(kernel, alpha / exact(W[i, j]), exact(Y[i, j]), constant)
    grid = np.full(Y.shape, mpmath.mpf(0), dtype=object)
    grid[i, j] = dual
    return plain(product * (K_new @ grid @ G_new.T) + mean)


def _side(
    rows: np.ndarray, new: np.ndarray, alpha: float, constant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the hat matrix of a side, and the map from its labels to predictions for new rows."""
    X = exact(rows)
    Z = exact(new)
    n = len(rows)
    mean = exact(np.full((n, n), 1.0)) / n
    if constant:
        middle = X.sum(axis=0) / n
        X = X - middle
        Z = Z - middle
    inverse = solve(X @ X.T + alpha * exact(np.eye(n)), exact(np.eye(n)))
    H = X @ X.T @ inverse
    P = Z @ X.T @ inverse
    if constant:
        P = P - P @ mean + exact(np.full((len(new), n), 1.0)) / n
        H = H + mean
    return H, P


@in_fifty_digits
def hidden_rows(
    X: np.ndarray, kept: np.ndarray, labels: np.ndarray, alpha: float, n_iter: int, constant: bool
) -> np.ndarray:
    """Return the predictions of iterated ridge regression for rows without labels: R_II f = −R_IO y."""
    rows = exact(X)
    n = len(X)
    eye = exact(np.eye(n))
    R = eye
    if constant:
        R = eye - exact(np.ones((n, n))) / n
        rows = R @ rows
    step = solve(rows @ rows.T + alpha * eye, alpha * eye)
    for _ in range(n_iter):
        R = R @ step
    hidden = np.delete(np.arange(n), kept)
    return plain(solve(R[np.ix_(hidden, hidden)], -R[np.ix_(hidden, kept)] @ exact(labels)))


@in_fifty_digits
def two_step(
    X: np.ndarray,
    T: np.ndarray,
    Y: np.ndarray,
    W: np.ndarray,
    alphas: tuple[float, float],
    new: tuple[np.ndarray, np.ndarray],
    constant: bool,
) -> np.ndarray:
    """Return the predictions of two steps for pairs that are new on both sides: (W H + I − H) g = W y."""
    (H, P), (task_H, task_P) = (
        _side(rows, asked, alpha, constant)
        for rows, asked, alpha in zip((X, T), new, alphas, strict=True)
    )
    hat = np.kron(H, task_H)
    weights = exact(np.where(np.isnan(Y), 0.0, W)).ravel()
    system = weights[:, None] * hat + exact(np.eye(len(hat))) - hat
    labels = solve(system, weights * exact(np.nan_to_num(Y)).ravel()).reshape(Y.shape)
    return plain(P @ labels @ task_P.T)


def left_out(
    Y: np.ndarray, setting: str, cell: tuple[int, int]
) -> tuple[np.ndarray, list[int], list[int]]:
    """Return the labels without what a setting leaves out for a cell, and the rows and columns that stay."""
    i, j = cell
    hidden = Y.copy()
    if setting == "A":
        hidden[i, j] = np.nan
    if setting in "BD":
        hidden[i] = np.nan
    if setting in "CD":
        hidden[:, j] = np.nan
    rows = [row for row in range(len(Y)) if row != i or setting in "AC"]
    columns = [column for column in range(Y.shape[1]) if column != j or setting in "AB"]
    return hidden, rows, columns


def cells_of(Y: np.ndarray, step: int) -> Iterator[tuple[int, int]]:
    """Yield some observed cells."""
    yield from map(tuple, np.argwhere(~np.isnan(Y))[::step].tolist())
