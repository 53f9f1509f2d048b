r"""Regions of a map above a level, as closed lines.

The scores of a landscape stand on a grid in :math:`\log\lambda`. Between its points they are interpolated by cubic
pieces that rise and fall only where the scores do, and the region above each level is bounded by walking round the
cells that it cuts (marching squares).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import PchipInterpolator

__all__ = ["loss_levels", "refined", "rings"]


def loss_levels(losses: np.ndarray, most: int = 9) -> list[float]:
    """Return steps 1, 2, 5, 10, … for what is lost against the best, fine where most scores lie.

    Parameters
    ----------
    losses : array of any shape
        At least 0; NaN does not count.
    most : int, default=9
        The largest number of steps.

    Returns
    -------
    list of float
        Ascending; empty if nothing is lost anywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.contours import loss_levels
    >>> loss_levels(np.array([0.0, 0.011, 0.03, 0.08, 0.3]))
    [0.02, 0.05, 0.1, 0.2]
    """
    above = losses[np.isfinite(losses) & (losses > 0)]
    if above.size == 0:
        return []
    low, high = np.quantile(above, [0.02, 0.9])
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [float(f"{digit}e{exponent}") for exponent in powers for digit in (1, 2, 5)]
    steps = [step for step in steps if low <= step <= high]
    if not steps:
        return [float(high)]
    # Too many: leave out every second one, the highest stays.
    while len(steps) > most:
        steps = steps[::-1][::2][::-1]
    return steps


def refined(values: np.ndarray, x: np.ndarray, y: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a map on a finer grid, without new hills or hollows between its points.

    Parameters
    ----------
    values : array of shape (n_y, n_x)
        With NaN in it, the map is returned as it is.
    x, y : arrays of shape (n_x,) and (n_y,)
        Ascending.
    factor : int
        Into how many each step is divided.

    Returns
    -------
    values, x, y
    """
    if not np.isfinite(values).all():
        return values, x, y
    finer = [np.interp(np.arange(factor * (axis.size - 1) + 1) / factor, np.arange(axis.size), axis) for axis in (x, y)]
    across = PchipInterpolator(x, values, axis=1)(finer[0])
    return PchipInterpolator(y, across, axis=0)(finer[1]), finer[0], finer[1]


def rings(values: np.ndarray, x: np.ndarray, y: np.ndarray, level: float) -> list[np.ndarray]:
    """Return the closed lines that bound the region where a map is at least `level`.

    Parameters
    ----------
    values : array of shape (n_y, n_x)
        NaN is below any level.
    x, y : arrays of shape (n_x,) and (n_y,)
    level : float

    Returns
    -------
    list of arrays of shape (n, 2)
        Points (x, y), the last one joined to the first. Holes are rings of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.contours import rings
    >>> hill = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    >>> axis = np.arange(3.0)
    >>> [ring.tolist() for ring in rings(hill, axis, axis, 0.5)]
    [[[0.5, 1.0], [1.0, 0.5], [1.5, 1.0], [1.0, 1.5]]]
    """
    # A low frame around the map closes what would run out of it.
    field = np.pad(np.where(np.isnan(values), -np.inf, values), 1, constant_values=-np.inf)
    x, y = np.pad(x, 1, mode="edge"), np.pad(y, 1, mode="edge")
    above = field >= level
    follow: dict[tuple[int, int, int, int], tuple[int, int, int, int]] = {}
    corners = np.stack([above[:-1, :-1], above[:-1, 1:], above[1:, 1:], above[1:, :-1]])
    cut = corners.any(axis=0) & ~corners.all(axis=0)
    for i, j in zip(*np.nonzero(cut), strict=True):
        nodes = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
        inside = [bool(above[node]) for node in nodes]
        # Walking round a cell, the region is left and entered in turn, once or twice.
        leave = [k for k in range(4) if inside[k] and not inside[(k + 1) % 4]]
        enter = [k for k in range(4) if not inside[k] and inside[(k + 1) % 4]]
        # Two corners that face each other hang together where the middle of the cell is in the region.
        joined = len(leave) == 2 and np.mean([field[node] for node in nodes]) >= level
        for start in leave:
            turns = [(end - start if joined else start - end) % 4 for end in enter]
            follow[_edge(nodes, start)] = _edge(nodes, enter[int(np.argmin(turns))])
    found = []
    while follow:
        edge = next(iter(follow))
        points = []
        while edge in follow:
            points.append(_crossing(field, x, y, edge, level))
            edge = follow.pop(edge)
        found.append(np.array(points))
    return found


def _edge(nodes: list[tuple[int, int]], k: int) -> tuple[int, int, int, int]:
    """Name the edge after corner k the same way in both cells it belongs to."""
    first, second = sorted((nodes[k], nodes[(k + 1) % 4]))
    return int(first[0]), int(first[1]), int(second[0]), int(second[1])


def _crossing(
    field: np.ndarray, x: np.ndarray, y: np.ndarray, edge: tuple[int, int, int, int], level: float
) -> tuple[float, float]:
    """Return where the level lies on an edge."""
    inner, outer = edge[:2], edge[2:]
    if field[inner] < level:
        inner, outer = outer, inner
    # From the inner end, which is finite though the outer one may not be.
    share = (field[inner] - level) / (field[inner] - field[outer])
    return (
        float(x[inner[1]] + share * (x[outer[1]] - x[inner[1]])),
        float(y[inner[0]] + share * (y[outer[0]] - y[inner[0]])),
    )
