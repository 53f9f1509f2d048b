"""Random problems for the comparison of old and new: sides, labels, missing labels, weights, groups and networks.

Nothing is close to singular, so that two ways to compute the same agree to many digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from cases import SINGLE, TOL, Drawing

__all__ = [
    "Problem",
    "dense",
    "draw_alpha",
    "draw_alphas",
    "draw_groups",
    "draw_labels",
    "draw_missing",
    "draw_network",
    "draw_problem",
    "draw_side",
]


@dataclass
class Side:
    """One side: rows of training, new rows, and the parameters that say how to compare them."""

    rows: Any
    new: Any
    kernel: Any
    params: dict[str, Any] | None
    what: str


KERNELS = (
    "tall",
    "wide",
    "sparse",
    "rbf",
    "rbf",
    "poly",
    "laplacian",
    "tanimoto",
    "cosine",
    "matrix",
    "matrix",
    "sum",
)


def draw_side(case: Drawing, n: int, kinds: tuple[str, ...] = KERNELS, n_new: int = 2) -> Side:
    """Return a side of n entities."""
    rng = case.rng
    name = str(case.pick(*kinds))
    if name == "tall":
        d = int(rng.integers(1, max(2, n - 1)))
    else:
        d = int(rng.integers(2, 2 * n))
    if name == "wide":
        d = int(rng.integers(n + 1, 2 * n + 2))
    features = rng.normal(size=(n + n_new, d)) + float(case.pick(0.0, 0.0, 2.0))
    if name == "tanimoto":
        features = (rng.random((n + n_new, max(d, 4))) < 0.5).astype(float)
        features[:, 0] = 1.0
    rows = features[:n]
    new = features[n:]
    if name in ("tall", "wide"):
        return Side(rows, new, "linear", None, f"linear {n}x{d}")
    if name == "sparse":
        features = np.where(rng.random(features.shape) < 0.5, features, 0.0)
        return Side(
            scipy.sparse.csr_array(features[:n]),
            scipy.sparse.csr_array(features[n:]),
            "linear",
            None,
            name,
        )
    if name == "matrix":
        K = features @ features.T / d + float(case.pick(0.0, 1.0)) * np.eye(n + n_new)
        if case.chance(0.1):
            K = K - 0.5 * np.eye(n + n_new)  # not positive semi-definite any more: it is repaired
        return Side(K[:n, :n], K[n:, :n], "precomputed", None, name)
    if name == "sum":
        kernel = case.lib.call(
            "kernels.Sum", kernels=("linear", ("rbf", {"gamma": 0.3})), weights=(1.0, 0.5)
        )
        return Side(rows, new, kernel, None, name)
    params = {"rbf": {"gamma": float(case.pick(0.1, 0.5))}, "laplacian": {"gamma": 0.2}}.get(name)
    if name == "poly":
        params = {"degree": 2, "gamma": 1.0 / d, "coef0": 1.0}
    return Side(rows, new, name, params, name)


def draw_alpha(case: Drawing, zero: float = 0.0) -> float:
    """Return a regularisation at which nothing is close to singular, rarely none."""
    return 0.0 if case.chance(zero) else float(10.0 ** case.rng.uniform(-1.5, 1.5))


def draw_filter(case: Drawing) -> Any:
    """Return a filter, as a rule none."""
    if case.chance(0.75):
        return None
    name, options = case.pick(
        ("Tikhonov", {}),
        ("SpectralCutoff", {}),
        ("IteratedTikhonov", {"n_iter": 3}),
        ("Landweber", {}),
        ("Landweber", {"n_iter": 20}),
    )
    case.what.append(name)
    return case.lib.call(f"filters.{name}", **options)


def draw_labels(case: Drawing, shape: tuple[int, int], rows: Any, columns: Any) -> np.ndarray:
    """Return labels that the features of both sides explain in part: numbers or zeros and ones."""
    rng = case.rng
    parts = [
        np.asarray(side.rows.todense() if scipy.sparse.issparse(side.rows) else side.rows)
        for side in (rows, columns)
    ]
    left, right = (
        part @ rng.normal(size=(part.shape[1], 2)) / np.sqrt(part.shape[1]) for part in parts
    )
    Y = left @ right.T + 0.5 * rng.normal(size=shape)
    if case.chance(0.3):
        return (np.median(Y) < Y).astype(float)
    return np.asarray(Y * 10.0 ** rng.integers(-2, 3) + float(case.pick(0.0, 0.0, 1.0, 30.0)))


def draw_missing(case: Drawing, Y: np.ndarray) -> np.ndarray:
    """Return labels of which some are NaN: single ones, a block, a row or a column."""
    rng = case.rng
    Y = Y.copy()
    form = str(case.pick("cells", "cells", "cells", "block", "row", "column", "one"))
    case.what.append(f"missing {form}")
    if form == "cells":
        Y[rng.random(Y.shape) < rng.uniform(0.1, 0.5)] = np.nan
    elif form == "block":
        Y[: len(Y) // 2, : Y.shape[1] // 2] = np.nan
    elif form == "row":
        Y[int(rng.integers(len(Y)))] = np.nan
    elif form == "column":
        Y[:, int(rng.integers(Y.shape[1]))] = np.nan
    else:
        Y.flat[int(rng.integers(Y.size))] = np.nan
    return Y


def draw_groups(case: Drawing, n: int) -> np.ndarray:
    """Return the group of each of n entities."""
    codes = case.rng.permutation(np.arange(n) % int(case.rng.integers(2, n)))
    return np.array([f"g{code}" for code in codes]) if case.chance(0.3) else codes


@dataclass
class Problem:
    """What a model is fitted on and asked for."""

    name: str
    params: dict[str, Any]
    X: Any
    Y: Any
    tasks: Any
    new_rows: Any
    new_tasks: Any
    weights: Any
    settings: str
    network: bool = False
    form: str = "full"
    binary: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """The arguments of `fit`."""
        data = {"X": self.X, "y": self.Y, "tasks": self.tasks, "sample_weight": self.weights}
        return {key: value for key, value in data.items() if value is not None}

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the grid."""
        return tuple(np.shape(self.Y)) if np.ndim(self.Y) == 2 else (len(self.Y), 1)


MODELS = ("IndependentTaskRidge", "KroneckerRidge", "TwoStepRidge", "PairKernelRidge")
FORMS = ("full", "full", "full", "missing", "missing", "weights", "missing weights", "sparse")


def draw_problem(case: Drawing, forms: tuple[str, ...] = FORMS) -> Problem:
    """Return a problem of any model and any form of labels."""
    rng = case.rng
    name = str(case.pick(*MODELS))
    # Five folds of each side are the default where labels are missing.
    if case.chance(0.85):
        m, q = (int(rng.integers(6, 12)), int(rng.integers(5, 9)))
    else:
        m, q = (4, 3)
    kinds = ("tall",) if case.chance(0.15) else KERNELS
    rows = draw_side(case, m, kinds)
    columns = draw_side(case, q, kinds)
    form = str(case.pick(*forms))
    case.what.append(f"{name} {m}x{q} {rows.what} x {columns.what} {form}")
    Y = draw_labels(case, (m, q), rows, columns)
    if form.startswith("missing") or form == "sparse":
        Y = draw_missing(case, Y)
    seen = Y[~np.isnan(Y)]
    case.scale = float(np.ptp(seen))
    binary = bool(np.isin(seen, (0.0, 1.0)).all())
    if binary:
        case.what.append("0/1 labels")
    weights = None
    if form.endswith("weights"):
        weights = rng.uniform(0.3, 3.0, size=m if case.chance(0.3) else (m, q))
        if weights.ndim == 2 and case.chance(0.2):
            weights[rng.random((m, q)) < 0.1] = 0.0
    params: dict[str, Any] = {
        "alpha": draw_alpha(case, 0.04),
        "kernel": rows.kernel,
        "kernel_params": rows.params,
        "fit_intercept": case.chance(0.6),
        "repair": str(case.pick("clip", "clip", "clip", "shift", "error")),
    }
    if name != "IndependentTaskRidge":
        params |= {"task_kernel": columns.kernel, "task_kernel_params": columns.params, "tol": TOL}
    if name in ("IndependentTaskRidge", "TwoStepRidge"):
        params["filter"] = draw_filter(case)
    if name == "TwoStepRidge":
        params |= {"task_alpha": draw_alpha(case, 0.04), "task_filter": draw_filter(case)}
    if name == "PairKernelRidge":
        shares = (1.0, 0.0, 0.0), (1.0, 0.5, 0.0), (0.5, 0.0, 0.5), (0.0, 1.0, 1.0), (1.0, 0.3, 0.2)
        params |= dict(
            zip(("product", "per_task", "per_instance"), case.pick(*shares), strict=True)
        )
    case.what.append(
        f"alpha={params['alpha']:.3g}{' intercept' if params['fit_intercept'] else ''}"
    )
    has_tasks = name != "IndependentTaskRidge" and case.chance(0.93)
    X = rows.rows
    T = columns.rows if has_tasks else None
    new_X = rows.new
    new_T = columns.new if has_tasks else None
    if case.chance(0.08) and form != "sparse":
        X, T, new_X, new_T, Y, weights = (
            None if part is None else part.astype(np.float32)
            for part in (X, T, new_X, new_T, Y, weights)
        )
        case.share = SINGLE
        case.what.append("float32")
    elif case.chance(0.15) and form != "sparse":
        X = _framed(X, rows, "i")
        Y = pd.DataFrame(Y, [f"i{i}" for i in range(m)], [f"t{j}" for j in range(q)])
        Y = Y.iloc[rng.permutation(m)] if weights is None else Y
        T = None if T is None else _framed(T, columns, "t")
        case.what.append("frames")
    elif form == "sparse":
        at = np.nonzero(~np.isnan(Y))
        Y = scipy.sparse.csr_array((Y[at], at), shape=(m, q))
    settings = "ABCD" if T is not None else "AB"
    return Problem(name, params, X, Y, T, new_X, new_T, weights, settings, form=form, binary=binary)


def _framed(values: Any, side: Side, letter: str) -> Any:
    """Return features or a kernel as a frame with ids; sparse ones stay as they are."""
    if scipy.sparse.issparse(values):
        return values
    ids = [f"{letter}{number}" for number in range(len(values))]
    if side.kernel == "precomputed":
        return pd.DataFrame(values, ids, ids)
    return pd.DataFrame(values, ids, [f"f{number}" for number in range(values.shape[1])])


def draw_network(case: Drawing) -> Problem:
    """Return a network: one side, labels that equal their transpose or its negative."""
    rng = case.rng
    m = int(case.rng.integers(5, 10))
    side = draw_side(case, m)
    symmetry = str(case.pick("symmetric", "antisymmetric"))
    case.what.append(f"network {m} {side.what} {symmetry}")
    Y = draw_labels(case, (m, m), side, side)
    binary = bool(np.isin(Y, (0.0, 1.0)).all()) and symmetry == "symmetric"
    if symmetry == "symmetric":
        Y = np.triu(Y) + np.triu(Y, 1).T
    else:
        Y = np.triu(Y, 1) - np.triu(Y, 1).T
    form = str(case.pick("full", "full", "full", "missing"))
    if form == "missing":
        hidden = rng.random((m, m)) < 0.2
        Y[hidden | hidden.T] = np.nan
    case.scale = float(np.nanmax(Y) - np.nanmin(Y))
    alpha = draw_alpha(case)
    params = {
        "alpha": alpha,
        "task_alpha": alpha,
        "kernel": side.kernel,
        "kernel_params": side.params,
        "fit_intercept": case.chance(0.6),
        "symmetry": symmetry,
        "tol": TOL,
    }
    case.what.append(form)
    data = side.rows, Y, None, side.new, None, None
    return Problem("TwoStepRidge", params, *data, "ABCD", network=True, form=form, binary=binary)


def draw_alphas(case: Drawing, most: int = 4) -> list[float]:
    """Return values to choose from."""
    powers = np.sort(case.rng.uniform(-1.5, 1.5, int(case.rng.integers(2, most + 1))))
    return [float(f"{10.0**power:.3g}") for power in powers]


def dense(Y: Any) -> Any:
    """Return sparse labels as a grid with NaN where there are none."""
    if not scipy.sparse.issparse(Y):
        return Y
    listed = scipy.sparse.coo_array(Y)
    grid = np.full(listed.shape, np.nan)
    grid[listed.coords] = listed.data
    return grid
