"""Random grids, kernels, regularisations and folds, with a liking for the awkward ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from campaign import Case
from dense import LONG, Side, eigenvalues, top_value

from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov

__all__ = [
    "DrawnSide",
    "draw_alpha",
    "draw_filter",
    "draw_folds",
    "draw_labels",
    "draw_shape",
    "draw_side",
    "draw_weights",
    "hide",
]


@dataclass(frozen=True, eq=False)
class DrawnSide:
    """One side, as the library gets it and as the reference sees it.

    Attributes
    ----------
    what : str
    kernel : str
    params : dict or None
    rows, new : array or sparse matrix
        What the library gets of the training side and of new entities.
    K, K_new : arrays of shape (n, n) and (2, n)
        Kernels in extended precision.
    features : array or None
        For linear kernels.
    """

    what: str
    kernel: str
    params: dict[str, Any] | None
    rows: Any
    new: Any
    K: np.ndarray
    K_new: np.ndarray
    features: np.ndarray | None


def draw_shape(case: Case, largest: tuple[int, int] = (12, 10)) -> tuple[int, int]:
    """Return the shape of a grid: small as a rule, sometimes of one row or column."""
    rng = case.rng
    m, q = (int(rng.integers(1, 8)) for _ in range(2))
    if case.chance(0.1):
        m, q = (int(rng.integers(1, most + 1)) for most in largest)
    if case.chance(0.08):
        m = 1
    if case.chance(0.08):
        q = 1
    return m, q


def draw_side(
    case: Case, n: int, dtype: Any = np.float64, kinds: tuple[str, ...] | None = None
) -> DrawnSide:
    """Return a side of n entities: features in the primal or the dual, dense or sparse, a kernel, or a radial basis."""
    rng = case.rng
    kind = str(
        case.pick(
            *(kinds or ("primal", "dual", "sparse", "precomputed", "precomputed", "rbf", "rbf"))
        )
    )
    if kind == "primal" and n > 1:
        d = int(rng.integers(1, n))
    else:
        d = int(rng.integers(n, 2 * n + 3))
    if kind in ("sparse", "precomputed") and case.chance(0.4):
        d = int(rng.integers(1, n + 1))
    style = str(case.pick("normal", "normal", "integer", "integer", "duplicates", "scaled", "zero"))
    if style == "zero" and case.chance(0.6):
        style = "normal"
    features = rng.standard_normal((n + 2, d))
    if style == "integer":
        features = rng.integers(-3, 4, size=(n + 2, d)).astype(float)
    elif style == "duplicates":
        features = features[rng.integers(0, max(1, n // 2 + 1), size=n + 2)]
    elif style == "scaled":
        power = int(rng.integers(-4, 5))
        # Squared distances of large features are differences, in scikit-learn too, and the kernel
        # lacks their digits.
        features = features * 10.0 ** (min(power, 0) if kind == "rbf" else power)
    elif style == "zero":
        features = np.zeros_like(features)
    if kind == "sparse":
        features = features * (rng.random(features.shape) < 0.6)
    features = features.astype(dtype)
    known = features[:n]
    new = features[n:]
    what = f"{kind}/{style}{'' if kind in ('precomputed', 'rbf') else f' d={d}'}"
    if kind == "precomputed":
        K = np.asarray(known @ known.T)
        K = (K + K.T) / 2
        if case.chance(0.3):
            K = K + np.asarray(np.eye(n) * float(case.pick(0.5, 1.0, 3.0)), dtype=dtype)
        K_new = np.asarray(new @ known.T)
        return DrawnSide(
            what, "precomputed", None, K, K_new, K.astype(LONG), K_new.astype(LONG), None
        )
    exact = known.astype(LONG)
    exact_new = new.astype(LONG)
    if kind == "rbf":
        gamma = float(case.pick(0.05, 0.3, 1.0))
        K = np.exp(-LONG(gamma) * ((exact[:, None] - exact[None]) ** 2).sum(axis=2))
        K_new = np.exp(-LONG(gamma) * ((exact_new[:, None] - exact[None]) ** 2).sum(axis=2))
        return DrawnSide(what, "rbf", {"gamma": gamma}, known, new, K, K_new, None)
    K = exact @ exact.T
    K_new = exact_new @ exact.T
    if kind == "sparse":
        return DrawnSide(
            what,
            "linear",
            None,
            scipy.sparse.csr_array(known),
            scipy.sparse.csr_array(new),
            K,
            K_new,
            known,
        )
    return DrawnSide(what, "linear", None, known, new, K, K_new, known)


def draw_alpha(case: Case, K: np.ndarray) -> float:
    """Return a regularisation: 0, anything from 1e-12 to 1e12, or one of the size of the kernel."""
    draw = case.rng.random()
    if draw < 0.12:
        return 0.0
    if draw < 0.5:
        return float(10.0 ** case.rng.uniform(-12, 12))
    return float((top_value(K) or 1.0) * 10.0 ** case.rng.uniform(-3, 1))


def draw_filter(case: Case, K: np.ndarray, probability: float) -> tuple[Any, Side]:
    """Return a filter of the library (None for the default) and the side of the reference, regularised by it."""
    rng = case.rng
    top = top_value(K)
    if not case.chance(probability):
        return case.pick(None, Tikhonov()), Side(K, "tikhonov", draw_alpha(case, K))
    kind = case.pick("iterated", "landweber", "cutoff", "steps")
    if kind == "iterated":
        n_iter = int(rng.integers(1, 5))
        return IteratedTikhonov(n_iter), Side(K, "iterated", draw_alpha(case, K), n_iter)
    if kind == "steps":
        n_iter = int(rng.integers(1, 40))
        return Landweber(n_iter), Side(K, "landweber", draw_alpha(case, K), n_iter)
    if case.chance(0.08):
        if kind == "landweber":
            return (Landweber(), Side(K, "landweber", 0.0))
        return (SpectralCutoff(), Side(K, "cutoff", 0.0))
    if kind == "landweber":
        # Half-way between two numbers of steps: the number jumps where σ_max/λ is whole.
        steps = int(10.0 ** rng.uniform(0, 4))
        return Landweber(), Side(K, "landweber", (top or 1.0) / (steps - 0.5))
    # Well between two eigenvalues: the cut-off jumps at each.
    values = np.concatenate([[1e-6 * (top or 1.0)], eigenvalues(K), [4 * (top or 1.0)]])
    values = np.unique(values[values >= 1e-6 * (top or 1.0)])
    wide = np.flatnonzero(values[1:] > 1.5 * values[:-1])
    place = int(wide[rng.integers(len(wide))])
    return SpectralCutoff(), Side(K, "cutoff", float(np.sqrt(values[place] * values[place + 1])))


def draw_labels(case: Case, shape: tuple[int, int]) -> np.ndarray:
    """Return labels of several kinds and sizes."""
    rng = case.rng
    kind = case.pick(
        "normal", "normal", "normal", "binary", "signs", "integers", "scaled", "sparse", "constant"
    )
    if kind == "binary":
        return rng.integers(0, 2, size=shape).astype(float)
    if kind == "signs":
        return rng.choice([-1.0, 1.0], size=shape)
    if kind == "integers":
        return rng.integers(-4, 5, size=shape).astype(float)
    if kind == "constant":
        return np.full(shape, float(rng.integers(0, 3)))
    Y = rng.standard_normal(shape)
    if kind == "scaled":
        return np.asarray(Y * 10.0 ** rng.integers(-6, 7))
    return np.asarray(Y * (rng.random(shape) < 0.3)) if kind == "sparse" else Y


def hide(case: Case, Y: np.ndarray, probability: float = 0.5) -> tuple[np.ndarray, str]:
    """Return labels with holes, and in words which: none, some, a block, whole rows or columns, nearly all."""
    rng = case.rng
    m, q = Y.shape
    Y = Y.copy()
    if not case.chance(probability):
        return Y, "complete"
    kind = str(
        case.pick(
            "holes", "holes", "rows", "columns", "block", "rows and holes", "few left", "one hole"
        )
    )
    missing = np.zeros(Y.shape, dtype=bool)
    if kind in ("holes", "rows and holes"):
        missing |= rng.random(Y.shape) < rng.uniform(0.05, 0.7)
    if kind in ("rows", "rows and holes"):
        missing[rng.random(m) < 0.4] = True
    if kind == "columns":
        missing[:, rng.random(q) < 0.4] = True
    if kind == "block":
        missing[np.ix_(rng.random(m) < 0.5, rng.random(q) < 0.5)] = True
    if kind == "few left":
        missing[:] = True
        missing.flat[rng.choice(Y.size, min(Y.size, 3), replace=False)] = False
    if kind == "one hole":
        missing.flat[rng.integers(Y.size)] = True
    if missing.all():
        missing.flat[rng.integers(Y.size)] = False
    Y[missing] = np.nan
    return Y, kind if missing.any() else "complete"


def draw_weights(case: Case, Y: np.ndarray) -> tuple[Any, np.ndarray | None, str]:
    """Return weights as the library takes them, the weight of each cell, and a word."""
    rng = case.rng
    shape = Y.shape
    draw = rng.random()
    if draw < 0.75:
        return None, None, ""
    if draw < 0.85:
        weights: np.ndarray = rng.uniform(0.2, 4.0, size=shape[0])
        cells = np.broadcast_to(weights[:, None], shape)
    else:
        weights = cells = (
            rng.integers(0, 4, size=shape).astype(float)
            if draw < 0.93
            else 10.0 ** rng.uniform(-2, 2, shape)
        )
    if not (cells[~np.isnan(Y)] > 0).any():
        return None, None, ""
    return weights, cells, f"weights {weights.shape}"


def draw_folds(case: Case, n: int) -> np.ndarray:
    """Return group labels of n things: numbers or words, few or many, never sorted."""
    codes = case.rng.integers(0, int(case.rng.integers(2, n + 3)), size=n)
    return np.array([f"g{code}" for code in codes]) if case.chance(0.3) else codes
