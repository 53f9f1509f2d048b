"""The best pairs of which at most some have the same instance or task.

Pairs are chosen one after the other, the best first, and a pair is left out if its instance or its
task has been chosen often enough. Lists of the best candidates are made longer until none of them
runs out of candidates, so that the result is that of complete lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn.diagnostics.best import best_in_rows

# Factor by which lists that ran out of candidates become longer.
_LONGER = 4


@dataclass(frozen=True, eq=False)
class Best:
    """The best candidates of each row, best first.

    Attributes
    ----------
    places : integer array of shape (a, k)
        Positions of the candidates.
    ranks : array of shape (a, k)
        Numbers that the candidates are sorted by; NaN at the end of shorter rows.
    figures : dict of str to array of shape (a, k)
        All that is known of the candidates, by name: scores, bounds and labels.
    """

    places: np.ndarray
    ranks: np.ndarray
    figures: dict[str, np.ndarray]

    def take(self, order: np.ndarray, is_listed: np.ndarray) -> Best:
        """Return the candidates at some positions (a, n) of each row; those that are not listed become NaN."""
        figures = {}
        for name, values in {"": self.ranks, **self.figures}.items():
            chosen = np.take_along_axis(values, order, axis=1)
            figures[name] = np.where(is_listed, chosen, np.nan)
        places = np.take_along_axis(self.places, order, axis=1)
        ranks = figures.pop("")
        return replace(self, places=places, ranks=ranks, figures=figures)


#: Function that returns the k best candidates of each row.
BestOf = Callable[[int], Best]


def best_of_grids(ranks: np.ndarray, figures: dict[str, np.ndarray]) -> BestOf:
    """Return a function that returns the k best columns of each row of a grid.

    Parameters
    ----------
    ranks : array of shape (a, n)
        NaN marks columns that must not be listed.
    figures : dict of str to array of shape (a, n)
    """

    def best(k: int) -> Best:
        places, values = best_in_rows(ranks, k)
        chosen = {}
        for name, grid in figures.items():
            of_places = np.take_along_axis(grid, places, axis=1)
            chosen[name] = np.where(np.isnan(values), np.nan, of_places)
        return Best(places, values, chosen)

    return best


@dataclass(frozen=True, eq=False)
class Limits:
    """How often entities may be chosen.

    Attributes
    ----------
    ends : callable
        Function of the rows and the places of candidates that returns the codes of the entities of
        each pair, as two integer arrays. Pairs of one entity with itself count once.
    most : integer array of shape (n,)
        Maximum number of pairs of each entity, by its code.
    """

    ends: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    most: np.ndarray

    def keep(self, best: Best, n: int) -> np.ndarray:
        """Return which candidates (a, k) are chosen, at most n of each row."""
        is_kept = np.zeros(best.places.shape, dtype=bool)
        rows, columns = np.nonzero(~np.isnan(best.ranks))
        order = np.lexsort((columns, rows, -best.ranks[rows, columns]))
        rows = rows[order]
        columns = columns[order]
        first, second = self.ends(rows, best.places[rows, columns])
        lengths = [0] * len(best.places)
        left = self.most.tolist()
        pairs = zip(rows.tolist(), columns.tolist(), first.tolist(), second.tolist(), strict=True)
        for row, column, one, other in pairs:
            if lengths[row] == n or not left[one] or not left[other]:
                continue
            is_kept[row, column] = True
            lengths[row] += 1
            left[one] -= 1
            if other != one:
                left[other] -= 1
        return is_kept


def best_within(best_of: BestOf, n: int, limits: Limits | None) -> Best:
    """Return the n best candidates of each row; with limits, the best that these allow.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.limits import Limits, best_of_grids, best_within
    >>> best_of = best_of_grids(np.array([[5.0, 1.0, 3.0], [4.0, 3.0, 2.0]]), {})
    >>> once = Limits(lambda rows, places: (places, places), np.array([1, 1, 1]))
    >>> best_within(best_of, 1, None).places.tolist(), best_within(best_of, 1, once).places.tolist()
    ([[0], [0]], [[0], [1]])
    """
    if limits is None:
        return best_of(n)
    k = n
    while True:
        best = best_of(k)
        is_kept = limits.keep(best, n)
        is_short = is_kept.sum(axis=1) < n
        # A row that is as long as it may be might have more candidates.
        is_cut = best.ranks.shape[1] == k
        if not is_cut or not (is_short & ~np.isnan(best.ranks[:, -1])).any():
            break
        k *= _LONGER
    order = np.argsort(~is_kept, axis=1, kind="stable")[:, :n]
    return best.take(order, np.take_along_axis(is_kept, order, axis=1))
