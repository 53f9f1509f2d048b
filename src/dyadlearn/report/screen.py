"""Which labels contradict most what a model predicts for them without having seen them."""

from __future__ import annotations

import numpy as np

from dyadlearn.views.screening import contradictions

__all__ = ["most_contradicting"]


def most_contradicting(
    Y: np.ndarray, F: np.ndarray, n_cells: int, *, is_network: bool = False
) -> list[tuple[int, int, float]]:
    """Return the cells whose labels contradict their held-out predictions most, as `dyadlearn.screen` orders them.

    Parameters
    ----------
    Y, F : arrays of shape (m, q)
        Labels and held-out predictions; NaN where there are none.
    n_cells : int
        How many, at most.
    is_network : bool, default=False
        Whether a pair stands in the grid twice, and is wanted once.

    Returns
    -------
    list of (instance, task, contradiction)
        The worst first; those that agree are never among them. Of equally bad ones, first those whose prediction is
        farther from the label.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.screen import most_contradicting
    >>> most_contradicting(np.array([[2.0, 5.0], [1.0, 1.0]]), np.array([[2.5, 1.0], [1.0, 1.1]]), 2)
    [(0, 1, 4.0), (0, 0, 0.5)]
    """
    found = contradictions(Y, F)
    usable = found > 0  # NaN is not
    if is_network:
        usable &= np.triu(np.ones(Y.shape, dtype=bool))
    rows, columns = np.nonzero(usable)
    worst = found[rows, columns]
    order = np.lexsort((-np.abs(Y - F)[rows, columns], -worst))[:n_cells]
    return [(int(rows[place]), int(columns[place]), float(worst[place])) for place in order]
