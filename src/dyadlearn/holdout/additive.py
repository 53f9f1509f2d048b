"""Additive effects of rows and columns: least squares on observed cells, and what leaving out a cell changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dyadlearn._array import positive_inverse, row_blocks
from dyadlearn.solve.conjugate_gradients import conjugate_gradients
from dyadlearn.solve.leaving import members_of

# Share of observed cells from which blocks of the grid are multiplied as dense matrices.
_DENSE = 0.05
# Tolerance of effects that are fitted by conjugate gradients; labels have fewer digits.
_TOL = 1e-11


@dataclass(frozen=True, eq=False)
class AdditiveFit:
    """Effects of rows (m,) and of columns (q,), and the connected part of each."""

    effects: tuple[np.ndarray, np.ndarray]
    parts: tuple[np.ndarray, np.ndarray]

    def at(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the fit of some cells, and whether a chain of observed cells leads from the row to the column."""
        fitted = self.effects[0][rows] + self.effects[1][columns]
        is_connected = self.parts[0][rows] == self.parts[1][columns]
        return fitted, is_connected


@dataclass(frozen=True, eq=False)
class Effects:
    r"""Weighted least squares of effects of rows and columns on observed cells.

    With the weights :math:`\mathbf{W}`, diagonal matrices :math:`\mathbf{D}` and
    :math:`\mathbf{D}'` of their sums over rows and columns, :math:`\mathbf{s}` and
    :math:`\mathbf{s}'` those of the weighted labels, and :math:`\mathbf{P} =
    \mathbf{D}^{-1}\mathbf{W}`, the effects of columns and rows are

    .. math::
       (\mathbf{D}' - \mathbf{W}^\top\mathbf{P})\,\mathbf{b} = \mathbf{s}' -
       \mathbf{P}^\top\mathbf{s}, \qquad \mathbf{a} = \mathbf{D}^{-1}(\mathbf{s} -
       \mathbf{W}\mathbf{b}) .

    The system has the order of the smaller side: rows and columns are exchanged if there are fewer
    rows. In each connected part of the graph, a constant can be added to the rows and subtracted
    from the columns. A term of rank one makes the solution unique without changing the sums of both
    effects.

    Attributes
    ----------
    rows, columns : integer arrays of shape (n,)
        Places of the observed cells.
    w : array of shape (n,)
        Their weights.
    shape : (int, int)
        Numbers m of rows and q of columns.
    """

    rows: np.ndarray
    columns: np.ndarray
    w: np.ndarray
    shape: tuple[int, int]

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Place of each cell on the larger side and on the smaller one, on which the system is solved."""
        if self.shape[0] < self.shape[1]:
            return self.columns, self.rows
        return self.rows, self.columns

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """Lengths of the larger and of the smaller side."""
        return max(self.shape), min(self.shape)

    @cached_property
    def W(self) -> sparse.csr_array:  # noqa: N802
        """The weights, of the larger side by the smaller one."""
        return sparse.csr_array((self.w, self.sides), shape=self.lengths)

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of weights of the larger and of the smaller side, one where there are none."""
        large, small = (
            np.bincount(at, self.w, minlength=length)
            for at, length in zip(self.sides, self.lengths, strict=True)
        )
        return np.where(large > 0, large, 1.0), np.where(small > 0, small, 1.0)

    @cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of the connected part of each place of the larger and of the smaller side."""
        return _connected(*self.sides, self.lengths)

    @cached_property
    def has_label(self) -> np.ndarray:
        """Whether a place of the smaller side has a label."""
        return np.bincount(self.sides[1], minlength=self.lengths[1]) > 0

    def product(self, effects: np.ndarray) -> np.ndarray:
        """Return the matrix of the system times effects, without the term of rank one."""
        diagonal = np.where(self.has_label, self.sums[1] * effects, 0.0)
        return np.asarray(diagonal - self.W.T @ ((self.W @ effects) / self.sums[0]))

    def iterate(self, right: np.ndarray) -> np.ndarray:
        """Return a solution of the system by conjugate gradients."""
        # Sums over a connected part are zero up to rounding, which the iterations must not amplify.
        weights = self.sums[1]
        part = self.parts[1]
        sums = np.bincount(part, right)[part]
        right = right - weights * sums / np.bincount(part, weights)[part]
        most = 10 * self.lengths[1]
        solved = conjugate_gradients(
            self.product, right, precondition=self._scaled, tol=_TOL, max_iter=most
        )
        return np.asarray(solved.values)

    def _scaled(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(right / self.sums[1])

    @cached_property
    def is_dense(self) -> bool:
        """Whether so many cells are observed that dense products are faster."""
        return self.w.size > _DENSE * math.prod(self.lengths)

    @cached_property
    def P(self) -> sparse.csr_array:  # noqa: N802
        """The weights, divided by the sums of the larger side."""
        W = self.W
        shares = W.data / np.repeat(self.sums[0], np.diff(W.indptr))
        return sparse.csr_array((shares, W.indices, W.indptr), shape=self.lengths)

    def shares(self, here: slice) -> np.ndarray | sparse.csr_array:
        """Return some rows of P, as a dense matrix if many cells are observed."""
        if self.is_dense:
            return self.P[here].toarray()
        return self.P[here]

    def inverse(self) -> np.ndarray:
        """Return the inverse of the matrix of the system, with a term of rank one for each connected part."""
        q = self.lengths[1]
        system = np.zeros((q, q))
        if self.is_dense:
            for here in row_blocks(self.lengths[0], (4, q)):
                system -= self.W[here].toarray().T @ self.shares(here)
        else:
            system -= (self.W.T @ self.P).toarray()
        weights = self.sums[1]
        part = self.parts[1]
        system[np.diag_indices(q)] += np.where(self.has_label, weights, 0.0)
        scale = weights / np.bincount(part, weights)[part]
        for members in members_of(part):
            system[np.ix_(members, members)] += np.outer(weights[members], scale[members])
        return np.asarray(positive_inverse(system))

    def solver(self, inverse: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function that solves the system by its inverse, refined once."""

        def solve(right: np.ndarray) -> np.ndarray:
            effects = inverse @ right
            return np.asarray(effects + inverse @ (right - self.product(effects)))

        return solve

    def fit(self, y: np.ndarray, solve: Callable[[np.ndarray], np.ndarray]) -> AdditiveFit:
        """Return the effects for labels y (n,), with a function that solves the system."""
        centre = float(self.w @ y / self.w.sum())
        residual = self.w * (y - centre)
        large, small = (
            np.bincount(at, residual, minlength=length)
            for at, length in zip(self.sides, self.lengths, strict=True)
        )
        right = small - self.W.T @ (large / self.sums[0])
        effects = solve(right)
        larger = centre + (large - self.W @ effects) / self.sums[0]
        if self.shape[0] < self.shape[1]:
            return AdditiveFit((effects, larger), self.parts[::-1])
        return AdditiveFit((larger, effects), self.parts)

    def slack(self, inverse: np.ndarray, *, is_network: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return 1 − h of each cell, and in a network the entry of the hat between it and its other direction.

        Parameters
        ----------
        inverse : array of shape (q, q)
        is_network : bool

        Returns
        -------
        alone : array of shape (n,)
        reverse : array of shape (n,) or ()
            0 where no network is given, and for a cell of the diagonal.
        """
        large, small = self.sides
        along = np.empty(self.w.size)
        between = np.empty(self.w.size)
        middle = np.zeros(self.lengths[0])
        order = np.argsort(large, kind="stable")
        ordered = large[order]
        P = self.shares(slice(None)) if is_network else None
        for here in row_blocks(self.lengths[0], (4, max(self.lengths))):
            some = order[slice(*np.searchsorted(ordered, [here.start, here.stop]))]
            image = self.shares(here) @ inverse
            along[some] = image[large[some] - here.start, small[some]]
            if P is not None:
                middle[here] = image[
                    np.arange(here.stop - here.start), np.arange(here.start, here.stop)
                ]
                both = P @ image.T
                between[some] = both[small[some], large[some] - here.start]
        weights = self.sums[0]
        mean = np.bincount(large, self.w / weights[large] * along, minlength=weights.size)
        resistance = (mean + 1.0 / weights)[large] - 2.0 * along + np.diag(inverse)[small]
        alone = 1.0 - self.w * resistance
        if not is_network:
            return alone, np.zeros(())
        reverse = self.w * (between - middle[large] - middle[small] + inverse[large, small])
        return alone, np.where(large == small, 0.0, reverse)


def _connected(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the connected component of each row (m,) and of each column (q,) of some cells."""
    m = shape[0]
    size = sum(shape)
    edges = sparse.coo_array(
        (np.ones(rows.size, dtype=np.int8), (rows, columns + m)), shape=(size, size)
    )
    part = connected_components(edges, directed=False)[1]
    return part[:m], part[m:]
