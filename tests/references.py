"""The models of the library written out in extended precision (`fuzz/refits.py`), for the tests.

They share no code with the library. What is left out is really hidden, and the model is solved
again.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, SpectralFilter, Tikhonov

FUZZ = Path(__file__).parents[1] / "fuzz"
NAMES = {
    Tikhonov: "tikhonov",
    IteratedTikhonov: "iterated",
    Landweber: "landweber",
    SpectralCutoff: "cutoff",
}


def _modules() -> tuple[Any, Any]:
    sys.path.insert(0, str(FUZZ))
    try:
        return importlib.import_module("dense"), importlib.import_module("refits")
    finally:
        sys.path.remove(str(FUZZ))


dense, refits = _modules()


def side(
    K: np.ndarray, alpha: float, filter: SpectralFilter | None = None, constant: bool = False
) -> Any:
    """Return a side of a reference: a kernel and what a filter makes of it."""
    filter = Tikhonov() if filter is None else filter
    n_iter = getattr(filter, "n_iter", None)
    return dense.Side(K.astype(dense.LONG), NAMES[type(filter)], alpha, n_iter, constant)


def reference(
    kind: str,
    kernels: tuple[np.ndarray, np.ndarray],
    alphas: tuple[float, float],
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    filters: tuple[SpectralFilter | None, SpectralFilter | None] = (None, None),
    constant: bool = False,
    sign: int = 1,
) -> Any:
    """Return a model by its definition.

    Parameters
    ----------
    kind : {"independent", "two_step", "kronecker", "network"}
    kernels : arrays of shape (m, m) and (q, q)
        A network has the first kernel on both sides, and independent tasks have no second one.
    alphas : (float, float)
        Kronecker ridge regression and networks have the first one only.
    Y : array of shape (m, q)
        Labels, NaN where missing.
    weights : array of shape (m, q), default=None
    filters : pair of filters
    constant : bool
        Whether there is an intercept. Kernels are given without it.
    sign : int
        1 for a symmetric network, -1 for an antisymmetric one.
    """
    sides = [
        side(K, alpha, filter, constant)
        for K, alpha, filter in zip(kernels, alphas, filters, strict=True)
    ]
    columns = {"independent": None, "network": sides[0]}.get(kind, sides[1])
    return refits.Model(kind, sides[0], columns, Y, weights, sign)


def fitted(model: Any) -> np.ndarray:
    """Return the predictions for all training pairs."""
    if model.kind == "kronecker" or model.columns is None:
        return model.predict(model.rows.K).astype(float)
    # Rows with labels of their own, as in setting A: filters are applied to the whole side.
    return (model.rows.H @ model.labels() @ model.columns.H).astype(float)


def left_out(
    model: Any,
    setting: str,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    where: np.ndarray | None = None,
) -> np.ndarray:
    """Return held-out predictions by a refit for each unit.

    Parameters
    ----------
    model : Model
    setting : {"A", "B", "C", "D"}
    groups, task_groups, cells : arrays
        Units as in `holdout`; one at a time by default.
    where : bool array of shape (m, q), default=None
        Pairs to predict; all others are NaN. By default all are predicted.
    """
    m, q = model.Y.shape
    rows = np.arange(m) if groups is None else np.asarray(groups)
    columns = np.arange(q) if task_groups is None else np.asarray(task_groups)
    codes = np.arange(m * q).reshape(m, q) if cells is None else np.asarray(cells)
    wanted = np.ones((m, q), dtype=bool) if where is None else where
    found = np.full((m, q), np.nan)
    done = np.zeros((m, q), dtype=bool)
    for i, j in np.argwhere(wanted):
        if done[i, j]:
            continue
        row, column = rows == rows[i], columns == columns[j]
        if setting == "A":
            out = codes == codes[i, j]
            if model.kind == "network":
                out |= out.T
        else:
            out = np.outer(row | (setting == "C"), column | (setting == "B"))
        grid = model.left_out(setting, np.flatnonzero(row), np.flatnonzero(column), out)
        done |= out
        found[out & wanted] = grid[out & wanted].astype(float)
    return found
