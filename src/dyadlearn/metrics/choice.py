"""Scores of a grid of regularisations: those that do not exist, and the best: of equals, the most regularised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning

__all__ = ["as_good", "best_point", "warn_of_undefined", "where_defined"]

# Scores that differ by less than this share of the best one differ by rounding only.
_ROUNDING = 1e-12


def as_good(scores: np.ndarray, best: float) -> np.ndarray:
    """Tell which scores are equal to the best one up to rounding, or better; NaN is not."""
    slack = _ROUNDING * abs(best) if np.isfinite(best) else 0.0
    return np.asarray(np.asarray(scores) >= best - slack)


def best_point(
    scores: np.ndarray, alphas: Sequence[float] | np.ndarray, task_alphas: Sequence[float] | np.ndarray | None = None
) -> tuple[int, ...]:
    """Return where the best score stands, NaN being none.

    Where scores are equal up to rounding, as on the plateau of a rank metric or with a kernel that tells nothing, the
    labels do not say how much regularisation is best. The most is chosen then, since it promises the least: of two
    regularisations the largest product, and of those the largest first one. Of kernel parameters that do equally well
    the first are taken.

    Parameters
    ----------
    scores : array of shape (…, n_alphas) or (…, n_alphas, n_task_alphas)
        The leading axes are kernel parameters.
    alphas, task_alphas : sequences of float, or None
        What the last axes stand for.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics.choice import best_point
    >>> best_point(np.array([0.5, 0.7, 0.7, 0.6]), [0.1, 1.0, 10.0, 100.0])
    (2,)
    """
    scores = np.asarray(scores, dtype=np.float64)
    if np.isnan(scores).all():
        raise ValueError("No score is a number, so that none is the best: the metric is undefined for every value.")
    rows = np.asarray(alphas, dtype=np.float64)
    columns = np.ones(1) if task_alphas is None else np.asarray(task_alphas, dtype=np.float64)
    n_kernels = scores.size // (rows.size * columns.size)
    equal = as_good(scores, float(np.nanmax(scores))).reshape(n_kernels, rows.size, columns.size)
    kernel = int(np.argmax(equal.any(axis=(1, 2))))
    with np.errstate(divide="ignore"):
        # Rounded, so that a product does not depend on how its factors are rounded.
        product = np.round(np.log10(rows)[:, None] + np.log10(columns), 9)
    places = np.argwhere(equal[kernel])
    row, column = max(places.tolist(), key=lambda place: (product[tuple(place)], rows[place[0]], columns[place[1]]))
    return tuple(int(i) for i in np.unravel_index((kernel * rows.size + row) * columns.size + column, scores.shape))


def where_defined(
    score: Callable[[Sequence[float], Sequence[float]], np.ndarray],
    alphas: Sequence[float],
    task_alphas: Sequence[float],
) -> np.ndarray:
    """Score a grid of regularisations, NaN where the model interpolates what is to be left out.

    The grid is scored at one go. Only if that is refused it is halved, until the points that are to blame stand alone.

    Parameters
    ----------
    score : callable
        Takes values of both regularisations, returns scores (n_alphas, n_task_alphas), or (n_alphas,) whatever the
        second is, or raises `LeverageError`.
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas) or (n_alphas,)

    Raises
    ------
    LeverageError
        If there is no point with a score.
    """
    try:
        return score(alphas, task_alphas)
    except LeverageError:
        if len(alphas) == len(task_alphas) == 1:
            raise
    by_rows = len(alphas) >= len(task_alphas)
    values = alphas if by_rows else task_alphas
    halves = [values[: len(values) // 2], values[len(values) // 2 :]]
    parts: list[np.ndarray | None] = []
    for half in halves:
        try:
            parts.append(where_defined(score, *((half, task_alphas) if by_rows else (alphas, half))))
        except LeverageError as error:
            parts.append(None)
            refusal = error
    found = next((part for part in parts if part is not None), None)
    if found is None:
        raise refusal
    axis = 0 if by_rows else 1
    shapes = [(*found.shape[:axis], len(half), *found.shape[axis + 1 :]) for half in halves]
    return np.concatenate(
        [np.full(shape, np.nan) if part is None else part for part, shape in zip(parts, shapes, strict=True)], axis
    )


def warn_of_undefined(
    scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float] | None, setting: str, stacklevel: int
) -> None:
    """Name the regularisations without a score, if there are any.

    Parameters
    ----------
    scores : array of shape (…, n_alphas, n_task_alphas), or (…, n_alphas) without `task_alphas`
    alphas, task_alphas : sequences of float, or None
    setting : str
    stacklevel : int
        Of the warning, as seen from here.
    """
    columns = [1.0] if task_alphas is None else task_alphas
    missing = np.isnan(scores).reshape(-1, len(alphas), len(columns)).any(axis=0)
    if not missing.any():
        return
    whole_rows, whole_columns = missing.all(axis=1), missing.all(axis=0) & (task_alphas is not None)
    words = [
        f"{name} {', '.join(f'{value:g}' for value in np.asarray(values)[whole])}"
        for name, values, whole in (("alpha", alphas, whole_rows), ("task_alpha", columns, whole_columns))
        if whole.any()
    ]
    single = np.argwhere(missing & ~whole_rows[:, None] & ~whole_columns)
    words += [f"alpha {alphas[row]:g} with task_alpha {columns[column]:g}" for row, column in single[:3]]
    more = f" and {len(single) - 3} more" if len(single) > 3 else ""
    warnings.warn(
        f"In setting {setting} there is no score for {'; '.join(words)}{more}, where the model interpolates what is to "
        "be left out, or the metric is undefined: NaN stands there, and is not chosen. Leave such values out.",
        UndefinedScoreWarning,
        stacklevel=stacklevel + 1,
    )
