"""What a search has found: its landscape for the kernels that it has chosen, and values at the end of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dyadlearn.metrics.choice import as_good, best_point

if TYPE_CHECKING:
    from dyadlearn.selection.search import Search

__all__ = ["best_kernel", "edges_of"]


def best_kernel(search: Search) -> np.ndarray:
    """Return the landscape (n_alphas, …) of the kernel parameters, and of whatever else a search has chosen."""
    if isinstance(search.alpha_, np.ndarray):  # each task has one of its own
        return search.landscape_
    alphas, task_alphas = search._grids()
    if search.task_alpha_ is None:
        task_alphas = None
    last = (len(alphas),) if task_alphas is None else (len(alphas), len(task_alphas))
    if search.landscape_.shape == last:
        return search.landscape_
    scores = search.landscape_.reshape(-1, *last)
    return np.asarray(scores[best_point(scores, alphas, task_alphas)[0]])


def edges_of(search: Search) -> list[tuple[str, float, float, float]]:
    """Tell which best values are at an end of a grid that was given, no value inside it being as good.

    Parameters
    ----------
    search : Search
        With one regularisation for all tasks.

    Returns
    -------
    list of (name, best value, least value, greatest value)
    """
    grids = search._grids()
    scores = search.landscape_.reshape(-1, len(grids[0]), 1 if search.task_alpha_ is None else len(grids[1] or [0.0]))
    equal = as_good(scores, float(np.nanmax(scores)))
    found = []
    for name, values, axes in (("alpha", grids[0], (0, 2)), ("task_alpha", grids[1], (0, 1))):
        best, given = getattr(search, f"{name}_"), getattr(search, f"{name}s", None)
        if best is None or values is None or given is None or isinstance(given, str):
            continue
        low, high = min(values), max(values)
        if low < high and not any(low < value < high for value in np.asarray(values)[np.asarray(equal.any(axis=axes))]):
            found.append((name, float(best), low, high))
    return found
