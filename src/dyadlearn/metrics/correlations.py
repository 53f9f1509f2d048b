"""Metrics of how far predictions go up and down with the labels, whatever their level and scale."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Unpack

import numpy as np

from dyadlearn._array import Array, epsilon, namespace
from dyadlearn.metrics.cells import Cells, Metric, Ranking, refuse_nan
from dyadlearn.metrics.concordance import take_along_rows

__all__ = ["Pearson", "Spearman", "pearson", "spearman"]


class Correlation(Metric):
    """What both correlations have in common: a product of centred rows of length 1."""

    needs = "two observed labels that differ"

    def _defined(self, cells: Cells) -> np.ndarray:
        return cells.vary

    @abstractmethod
    def _measured(self, cells: Cells) -> np.ndarray:
        """Return what is correlated of the labels (R, n); what stands where they are not observed does not count."""

    def _prepare(self) -> None:
        cells = self._cells
        values = np.where(cells.observed, self._measured(cells), 0)
        values = np.where(cells.observed, values - values.sum(axis=1, keepdims=True) / cells.counts[:, None], 0)
        self._directions = cells.place(values / np.sqrt((values**2).sum(axis=1, keepdims=True)))
        self._observed = cells.place(cells.observed)
        self._counts = cells.place(cells.counts.astype(np.float64))

    def _correlate(self, centred: Array, directions: Array) -> Array:
        """Return the correlation (s, R) of centred rows (s, R, n) with those of the labels; 0 for rows of zeros."""
        xp = namespace(centred)
        length = xp.sqrt(xp.sum(centred * centred, axis=-1))
        product = xp.sum(centred * directions, axis=-1)
        found = product / xp.where(length > 0, length, xp.ones_like(length))
        # Rounding may lead a little beyond the ends.
        return xp.clip(found, -1.0, 1.0)


class Pearson(Correlation):
    """The correlation of labels and predictions; see `pearson`."""

    title = "The Pearson correlation"
    scoring = "pearson"

    def _measured(self, cells: Cells) -> np.ndarray:
        # No square of what is left is out of range then.
        return np.asarray(cells.filled / np.abs(cells.filled).max(axis=1, keepdims=True))

    def _prepare(self) -> None:
        super()._prepare()
        observed = self._cells.observed
        self._first = self._cells.place(np.argmax(observed, axis=1) + np.arange(len(observed)) * observed.shape[1])

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        rows = self._cells.arrange(F)
        share = epsilon(rows) ** 0.75 if self._tie_tolerance is None else self._tie_tolerance
        rows = self._masked(xp.astype(rows, xp.float64))
        largest = xp.max(xp.abs(rows), axis=-1)
        if not bool(xp.all(xp.isfinite(largest))):
            _refuse(largest)
        rows = rows / xp.where(largest > 0, largest, xp.ones_like(largest))[..., None]
        # As far as they are from the first of them, equal predictions are 0, and so they go neither up nor down.
        first = xp.take(xp.reshape(rows, (rows.shape[0], -1)), self._first, axis=1)
        rows = self._masked(rows - first[..., None])
        varies = xp.max(rows, axis=-1) - xp.min(rows, axis=-1) > share
        rows = self._masked(rows - (xp.sum(rows, axis=-1) / self._counts)[..., None])
        return self._correlate(xp.where(varies[..., None], rows, xp.zeros_like(rows)), self._directions)

    def _masked(self, rows: Array) -> Array:
        """Return rows (s, R, n) with 0 where nothing is observed."""
        xp = namespace(rows)
        return rows if self._cells.are_complete else xp.where(self._observed, rows, xp.zeros_like(rows))


def pearson(Y: Any, F: Any, **options: Unpack[Ranking]) -> Any:
    r"""Return the correlation of Pearson: 1 for predictions that rise with the labels on a line, −1 where they fall.

    .. math::

        \frac{\sum_i (y_i - \bar y)(f_i - \bar f)}{\sqrt{\sum_i (y_i - \bar y)^2 \sum_i (f_i - \bar f)^2}}

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns of equal labels
        are left out; equal predictions have a correlation of 0.
    tie_tolerance : float or None, default=0.0
        Predictions are equal where all lie within this share of the largest, in absolute value, of their row. None is
        the rounding of hold-out predictions, 1.8e-12 in float64.
    **options
        ``setting`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import pearson
    >>> Y = np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    >>> F = np.array([[0.1, 0.3, 0.2], [0.1, 0.2, 0.3]])
    >>> round(pearson(Y, F, setting="B"), 4), pearson(Y, F, setting="B", return_undefined=True)[1]
    (0.5, 1)
    """
    return Pearson.of(Y, F, **options)


class Spearman(Correlation):
    """The correlation of the ranks of labels and predictions; see `spearman`."""

    title = "The Spearman correlation"
    scoring = "spearman"

    def _measured(self, cells: Cells) -> np.ndarray:
        from scipy.stats import rankdata

        # What is not observed comes last, and so does not count in the ranks of the others.
        return np.asarray(rankdata(np.where(cells.observed, cells.labels, np.inf), axis=1))

    def _score(self, F: Array) -> Array:
        xp, cells = namespace(F), self._cells
        rows = cells.arrange(F)
        order = xp.argsort(rows, axis=-1, stable=False)
        rows = take_along_rows(rows, order)
        cells.check_last(rows)
        directions = take_along_rows(xp.broadcast_to(self._directions, rows.shape), order)
        place = cells.place(np.arange(float(rows.shape[-1])))
        middle = (self._counts[:, None] - 1) / 2
        ranks = xp.broadcast_to(place - middle, rows.shape)
        tied = cells.tied(rows, self._tie_tolerance)
        if bool(xp.any(tied)):
            ranks = _mean_places(tied) - middle
        if not cells.are_complete:
            ranks = xp.where(place < self._counts[:, None], ranks, xp.zeros_like(ranks))
        return self._correlate(ranks, directions)


def spearman(Y: Any, F: Any, **options: Unpack[Ranking]) -> Any:
    r"""Return the correlation of Spearman: that of Pearson between the ranks of labels and predictions.

    Equal labels, and predictions that tie, share the mean of their ranks r and s:

    .. math::

        \frac{\sum_i (r_i - \bar r)(s_i - \bar s)}{\sqrt{\sum_i (r_i - \bar r)^2 \sum_i (s_i - \bar s)^2}}

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns of equal labels
        are left out; equal predictions have a correlation of 0.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import spearman
    >>> round(spearman(np.array([[1.0, 2.0, 8.0, 9.0]]), np.array([[0.1, 0.3, 0.3, 5.0]])), 4)
    0.9487
    """
    return Spearman.of(Y, F, **options)


def _mean_places(tied: Array) -> Array:
    """Return the mean place (s, R, n) of the run that each sorted cell is in, given which tie with the one before."""
    xp = namespace(tied)
    s, R, n = tied.shape[0], tied.shape[1], tied.shape[2] + 1
    begins = xp.reshape(xp.concat([xp.ones_like(tied[..., :1]), ~tied], axis=-1), (-1,))
    (starts,) = xp.nonzero(begins)
    lengths = xp.concat([starts[1:], xp.full_like(starts[:1], s * R * n)]) - starts
    middles = xp.astype(starts % n, xp.float64) + xp.astype(lengths - 1, xp.float64) / 2
    run = xp.cumulative_sum(xp.astype(begins, xp.int64)) - 1
    return xp.reshape(xp.take(middles, run), (s, R, n))


def _refuse(largest: Array) -> None:
    """Raise the error for predictions that have no correlation."""
    if bool(namespace(largest).any(namespace(largest).isnan(largest))):
        refuse_nan()
    raise ValueError("F contains infinity where Y is observed: the Pearson correlation needs finite predictions.")
