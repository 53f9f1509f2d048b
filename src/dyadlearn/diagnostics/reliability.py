"""Whether probabilities are what they say: of the cells at 0.3, three in ten should be positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn.diagnostics.results import Tabled

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Tabled):
    r"""What probabilities said and what happened, in bins of equal width that hold a cell.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
        Of all bins, empty or not.
    probability, share : arrays of shape (n,)
        The mean of the probabilities in each bin, and the share of positive labels.
    count : integer array of shape (n,)
    lower, upper : arrays of shape (n,)
        An interval for the share, at 95 %: Wilson's, for as many cells as would tell as much if they were independent.
        Labels of one instance are alike, and so are those of one task: their deviations are added up within each
        before they are squared. (Both directions of an edge share two nodes and are added up twice: where a network
        counts both, intervals are rather too wide.)

    Notes
    -----
    With :math:`u_{ij} = y_{ij} - \bar y` in a bin, its n cells count as n times

    .. math:: \frac{\sum_{ij} u_{ij}^2}{\sum_i \bigl(\sum_j u_{ij}\bigr)^2 + \sum_j \bigl(\sum_i u_{ij}\bigr)^2 -
       \sum_{ij} u_{ij}^2},

    and never as more than n. A bin whose labels are all the same takes the factor of all bins together.
    """

    edges: np.ndarray
    probability: np.ndarray
    share: np.ndarray
    count: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"Reliability({int(self.count.sum())} cells in {len(self)} bins, error {self.error:.3g})"

    @property
    def error(self) -> float:
        """The expected calibration error: how far probability and share are apart, in the mean over all cells."""
        return float(self.count @ np.abs(self.probability - self.share) / self.count.sum())

    def columns(self) -> dict[str, list[Any]]:
        """Return the bins as named columns, for a data frame or a file."""
        return {name: getattr(self, name).tolist() for name in ("probability", "share", "count", "lower", "upper")}


def reliability(
    probabilities: np.ndarray, positive: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, n_bins: int = 10
) -> Reliability:
    """Compare probabilities of cells with their labels.

    Parameters
    ----------
    probabilities : array of shape (n,)
    positive : boolean array of shape (n,)
    rows, columns : integer arrays of shape (n,)
        The instance and the task of each cell. The nodes of a network have one number on either side.
    n_bins : int, default=10

    Returns
    -------
    Reliability

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.reliability import reliability
    >>> found = reliability(np.array([0.1, 0.1, 0.9]), np.array([False, True, True]), np.arange(3), np.arange(3, 6))
    >>> found.share, found.count
    (array([0.5, 1. ]), array([2, 1]))
    >>> round(found.error, 3)
    0.3
    """
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    # A probability on an edge belongs to the bin below, as in scikit-learn.
    bins = np.searchsorted(edges[1:-1], probabilities)
    count = np.bincount(bins, minlength=n_bins)
    filled = np.flatnonzero(count)
    n = count[filled]
    mean, share = (np.bincount(bins, values, n_bins)[filled] / n for values in (probabilities, positive))
    place = np.searchsorted(filled, bins)
    independent = n * _independent(positive - share[place], place, rows, columns, len(filled))
    return Reliability(edges, mean, share, n, *_wilson(share, independent))


def _independent(
    deviations: np.ndarray, bins: np.ndarray, rows: np.ndarray, columns: np.ndarray, n_bins: int
) -> np.ndarray:
    """Return, for each bin, which part of its cells would tell as much if they were independent."""
    size = int(max(rows.max(), columns.max())) + 1
    # A cell is in two sums and counts once; both ends of a loop in a network are one node, and so one sum.
    second = np.where(rows == columns, 0.0, deviations)
    sums = np.bincount(bins * size + rows, deviations, n_bins * size)
    sums += np.bincount(bins * size + columns, second, n_bins * size)
    alone = np.bincount(bins, deviations**2, n_bins)
    together = (sums.reshape(n_bins, size) ** 2).sum(axis=1) - np.bincount(bins, second**2, n_bins)
    total = alone.sum()
    overall = total / max(float(together.sum()), total) if total > 0 else 1.0
    varied = alone > 0
    return np.where(varied, alone / np.maximum(together, np.where(varied, alone, 1.0)), overall)


def _wilson(share: np.ndarray, n: np.ndarray, z: float = 1.959963984540054) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval for a share of n independent cells."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
