"""Small problems of learned kernels, and the dense systems that say what belongs there."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyadlearn.learning.error import FoldError, Targets
from dyadlearn.learning.mixture import DIVISIBLE, Mixture, Parameters, profile_kernels
from dyadlearn.selection.learning_kernels import mixtures
from dyadlearn.solve.cells import CellSet
from problems import bordered, pair_kernel


def similarity(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return a Tanimoto kernel (n, n) of random bits."""
    bits = (rng.random((n, 24)) < 0.3).astype(float)
    bits[:, 0] = 1.0
    common = bits @ bits.T
    sizes = bits.sum(axis=1)
    return common / (sizes[:, None] + sizes - common)


def distance_kernel(n: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(n, 2))
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    return np.exp(-squares / (squares.mean() or 1.0))


def correlation(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return a kernel with negative entries, and so without exponents."""
    rows = rng.normal(size=(n, n + 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows @ rows.T


def mixture(
    n: int, rng: np.random.Generator, constant: bool = True, put: Any = np.asarray
) -> Mixture:
    grams = [similarity(n, rng), correlation(n, rng), distance_kernel(n, rng)]
    return Mixture(
        [put(gram) for gram in grams], (True, False, True), constant, (False, False, True)
    )


def parameters(sides: Sequence[Mixture], rng: np.random.Generator) -> Parameters:
    """Return parameters somewhere within the limits."""
    start = Parameters.start(sides)
    moved = start.of(start.vector + 0.3 * rng.normal(size=len(start.vector)))
    for exponents in moved.exponents:
        exponents[0] = abs(exponents[0]) + 0.1
    moved.alpha[0] = math.log(0.2)
    return moved


def dense_kernel(
    given: Mixture, logits: np.ndarray, log_exponents: np.ndarray, to_numpy: Any = np.asarray
) -> Any:
    """Return the kernel of a side, entry by entry as the definition reads."""
    shares = np.exp(logits) / np.exp(logits).sum()
    shares = (1 - len(shares) * 1e-4) * shares + 1e-4
    exponents = iter(np.exp(log_exponents))
    total = shares[-1] * given.constant
    for share, gram, has_exponent in zip(shares, given.grams, given.has_exponent, strict=False):
        gram = to_numpy(gram).astype(float)
        total = total + share * (gram ** next(exponents) if has_exponent else gram)
    return total


def dense_pairs(
    sides: Sequence[Mixture], at: Parameters, n_tasks: int, to_numpy: Any = np.asarray
) -> np.ndarray:
    """Return the kernel between all pairs (mq, mq)."""
    given = zip(sides, at.weights, at.exponents, strict=True)
    K, *others = (dense_kernel(*side, to_numpy) for side in given)
    if not others:
        return np.kron(K, np.eye(n_tasks))
    [G] = others
    shares = np.exp(at.shares)
    return pair_kernel(K, G, *shares / shares.sum())


def dense_predictions(
    pairs: np.ndarray,
    lam: float,
    Y: np.ndarray,
    train: np.ndarray,
    weights: np.ndarray | None,
    constant: str | None,
) -> np.ndarray:
    """Return what the training cells tell of all cells (m, q), from systems that are written out."""
    weights = np.ones(Y.shape) if weights is None else weights
    if constant == "task":
        found = np.empty(Y.shape)
        for task in range(Y.shape[1]):
            own = np.arange(Y.size).reshape(Y.shape)[:, task]
            one = (each[:, [task]] for each in (Y, train, weights))
            values, cells, weight = one
            found[:, [task]] = dense_predictions(
                pairs[np.ix_(own, own)], lam, values, cells, weight, "grand"
            )
        return found
    at = np.flatnonzero(train)
    system = pairs[np.ix_(at, at)] + lam * np.diag(1.0 / weights.ravel()[at])
    y = Y.ravel()[at]
    if constant is None:
        dual, mean = (np.linalg.solve(system, y), 0.0)
    else:
        dual, mean = bordered(system, y)
    return (pairs[:, at] @ dual + mean).reshape(Y.shape)


def dense_stages(
    model: Any, Y: np.ndarray, train: np.ndarray, profiled: tuple[bool, bool] = (True, True)
) -> np.ndarray:
    """Return what the stages of a learned model predict for all cells if they see some labels alone."""
    fitted = model.fitted_
    given = mixtures(fitted.learning, fitted.described, fitted.training())
    sides = given
    for vector in fitted.learned.path:
        at = Parameters.start(sides).of(np.array(vector))
        pairs = dense_pairs(sides, at, Y.shape[1])
        F = dense_predictions(pairs, at.lam, np.nan_to_num(Y), train, None, "grand")
        sides = [
            side.joined(profile_kernels(values), DIVISIBLE) if is_profiled else side
            for side, values, is_profiled in zip(given, (F, F.T), profiled, strict=True)
        ]
    return F


def left_out(setting: str, shape: tuple[int, int]) -> list[np.ndarray]:
    """Return masks of what leaves together: cells (A), rows (B) or columns (C)."""
    cells = np.arange(shape[0] * shape[1]).reshape(shape)
    rows, columns = np.indices(shape)
    of = {"A": cells, "B": rows, "C": columns}[setting]
    return [of == each for each in np.unique(of)]


def differences(function: Any, vector: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return central differences along each coordinate."""
    return np.array(
        [
            (function(vector + each) - function(vector - each)) / (2 * step)
            for each in step * np.eye(len(vector))
        ]
    )


def fold_error(
    Y: np.ndarray,
    masks: list[tuple[np.ndarray, np.ndarray]],
    sides: Sequence[Mixture],
    weights: np.ndarray | None = None,
    constant: str | None = None,
    put: Any = np.asarray,
) -> FoldError:
    """Return the error of folds; labels may have holes (NaN)."""
    return FoldError.of(targets(Y, weights, constant, put), sides, masks)


def targets(
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    constant: str | None = None,
    put: Any = np.asarray,
) -> Targets:
    """Return labels to learn from; they may have holes (NaN)."""
    observed = ~np.isnan(Y)
    cells = CellSet.of(observed, put(np.zeros(0)))
    values, seen, *given = (
        put(grid.astype(float)[cells.rows, cells.columns])
        for grid in (np.nan_to_num(Y), observed, *([] if weights is None else [weights]))
    )
    return Targets(values, seen, given[0] if given else None, constant, cells)
