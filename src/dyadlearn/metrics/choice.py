"""Which of many scores is the best: of equals, the most regularised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["as_good", "best_point"]

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
