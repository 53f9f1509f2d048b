r"""Reliability of probabilities: how often labels are positive, by their probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dyadlearn._tables import Columns
from dyadlearn.diagnostics.fitted import Tabled
from dyadlearn.diagnostics.monotone import BaseRate

__all__ = ["Reliability"]


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Tabled):
    r"""Mean probability and fraction of positive labels in bins of equal width; empty bins are left out.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
        Edges of all bins, including empty ones.
    probability, fraction : arrays of shape (n,)
        Mean probability and fraction of positive labels in each bin.
    count : integer array of shape (n,)
        Number of cells in each bin.
    share : array of shape (n,)
        Fraction of all pairs in each bin: of the cells, or of pairs with another base rate.
    low, high : arrays of shape (n,)
        Wilson's 95 % interval of the fraction, for the effective number of independent cells.
        Labels of the same instance or task are correlated, so their deviations are summed per
        instance and per task before they are squared. (If a network counts both directions of an
        edge, its intervals are slightly too wide.)

    Notes
    -----
    With :math:`u_{ij} = y_{ij} - \bar y` in a bin of n cells, the effective number of independent
    cells is

    .. math:: n_{\mathrm{eff}} = n \frac{\sum_{ij} u_{ij}^2}{\sum_i \bigl(\sum_j u_{ij}\bigr)^2 +
       \sum_j \bigl(\sum_i u_{ij}\bigr)^2 - \sum_{ij} u_{ij}^2},

    at most n. A bin whose labels are all equal has the ratio :math:`n_{\mathrm{eff}} / n` of all
    bins together.
    """

    edges: np.ndarray
    probability: np.ndarray
    fraction: np.ndarray
    count: np.ndarray
    share: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"Reliability({int(self.count.sum())} cells in {len(self)} bins, error {self.error:.3g})"

    @property
    def error(self) -> float:
        """Expected calibration error: mean absolute difference of probability and positive fraction over all pairs."""
        return float(self.share @ np.abs(self.probability - self.fraction))

    def columns(self) -> Columns:
        """Return the bins as named columns, for a data frame or a file."""
        return {
            name: getattr(self, name).tolist()
            for name in ("probability", "fraction", "count", "low", "high")
        }


def reliability(
    probabilities: np.ndarray,
    positive: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    *,
    n_bins: int = 10,
    base_rate: BaseRate | None = None,
) -> Reliability:
    """Compare probabilities of cells with their labels.

    With another base rate, fractions and means are those of pairs with this base rate, and the ends
    of the intervals are converted as probabilities are.

    Parameters
    ----------
    probabilities : array of shape (n,)
    positive : boolean array of shape (n,)
    rows, columns : integer arrays of shape (n,)
        Instance and task of each cell. A node of a network has the same number on both sides.
    n_bins : int, default=10
    base_rate : BaseRate or None
        Base rate that the probabilities are for; None means that of the labels.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.reliability import reliability
    >>> probabilities = np.array([0.1, 0.1, 0.9])
    >>> bins = reliability(probabilities, np.array([False, True, True]), np.arange(3), np.arange(3, 6))
    >>> bins.fraction, bins.count
    (array([0.5, 1. ]), array([2, 1]))
    >>> round(bins.error, 3)
    0.3
    """
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    # A probability on an edge belongs to the bin below, as in scikit-learn.
    bins = np.searchsorted(edges[1:-1], probabilities)
    count = np.bincount(bins, minlength=n_bins)
    filled = np.flatnonzero(count)
    n = count[filled]
    if base_rate is None:
        base_rate = BaseRate(0.5, 0.5)
    weights = base_rate.weights(positive)
    totals = np.bincount(bins, weights, n_bins)[filled]
    mean = np.bincount(bins, weights * probabilities, n_bins)[filled] / totals
    fraction = np.bincount(bins, positive, n_bins)[filled] / n
    bins = np.searchsorted(filled, bins)  # without empty bins
    deviations = positive - fraction[bins]
    n_independent = n * _independent(deviations, bins, rows, columns, len(filled))
    ends = _wilson(fraction, n_independent)
    fraction, low, high = (base_rate(part) for part in (fraction, *ends))
    return Reliability(edges, mean, fraction, n, totals / totals.sum(), low, high)


def _independent(
    deviations: np.ndarray, bins: np.ndarray, rows: np.ndarray, columns: np.ndarray, n_bins: int
) -> np.ndarray:
    """Return the effective fraction of independent cells in each bin."""
    size = int(max(rows.max(), columns.max())) + 1
    # A cell is in two sums but counts once; a loop of a network has one node and is in one sum.
    second = np.where(rows == columns, 0.0, deviations)
    sums = np.bincount(bins * size + rows, deviations, n_bins * size)
    sums += np.bincount(bins * size + columns, second, n_bins * size)
    alone = np.bincount(bins, deviations**2, n_bins)
    together = (sums.reshape(n_bins, size) ** 2).sum(axis=1)
    together -= np.bincount(bins, second**2, n_bins)
    total = alone.sum()
    overall = 1.0
    if total > 0:
        overall = total / max(float(together.sum()), total)
    # A bin whose labels are all equal has the fraction of all bins together.
    varied = alone > 0
    at_least = np.where(varied, alone, 1.0)
    return np.where(varied, alone / np.maximum(together, at_least), overall)


def _wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval of a fraction of n independent cells."""
    z = 1.959963984540054  # 97.5 % of a normal distribution
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)
