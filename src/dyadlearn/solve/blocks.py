"""Blocks of the inverse of the system of observed labels, between the labels of sets.

`dyadlearn.solve.inverse` leaves sets of labels out with them, `dyadlearn.solve.crossing` unions of
two sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    namespace,
    take_rows,
    to_numpy,
)
from dyadlearn._rounding import rounding_level, settle
from dyadlearn.leverage import leverage_error

# Most labels for which an inverse of another form is written as a matrix for this.
_MOST_ROWS = 1024
#: Largest slack that counts as rounding of a difference.
LARGEST_ERROR = 1e-6


class Blocks(ABC):
    """Blocks of the inverse N of the system of n observed labels, or of the hat H = I − N."""

    #: Whether `parts` and `part_rows` are those of the hat H = I − N, and not those of N.
    is_hat: bool = False
    #: Lower bound of the slack, and whether a block may be singular, see
    #: `dyadlearn._rounding.solve_block`.
    floor: float = 0.0
    is_graded: bool = False
    #: Absolute error of the eigenvalues of a block of N.
    error: float = 0.0

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels."""

    @abstractmethod
    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of N, or of the hat, between the members (number, size) of sets."""

    @abstractmethod
    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of N, or of the hat."""

    @abstractmethod
    def times(self, labels: Array) -> Array:
        """Return N, or the hat, times labels (n, p)."""

    @abstractmethod
    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""

    def prediction_level(self, labels: Array) -> Array:
        """Return the rounding error of a prediction that is zero, for each column of labels, shape (p,)."""
        if self.is_hat:
            return self.level(labels)
        return rounding_level(labels, 1.0)

    def sums(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array, parts: Array
    ) -> Array:
        r"""Return :math:`\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S}` for some sets, shape (number, size, p).

        Parameters
        ----------
        members : integer array of shape (number, size)
            Labels of each set.
        units : integer array of shape (n,)
            Set of each label.
        labels, image : arrays of shape (n, p)
            Labels, and `times` these.
        parts : array of shape (number, size, size)
            Blocks of the sets.
        """
        others = gathered(image, members) - parts @ gathered(labels, members)
        others = settle(others, self.level(labels))
        return -others if self.is_hat else others

    def blocks(self, parts: Array) -> Array:
        """Return blocks (…, size, size) of N from those of `parts`."""
        if not self.is_hat:
            return parts
        return identity(parts) - parts

    def rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of N."""
        rows = self.part_rows(at)
        if self.is_hat:
            rows = -rows
            xp = namespace(rows)
            is_diagonal = as_array_of(at[:, None] == np.arange(self.n_labels)[None, :], rows)
            rows = xp.where(is_diagonal, 1.0 + rows, rows)
        return rows

    def between(self, at: np.ndarray, others: np.ndarray) -> Array:
        """Return the block (s, r) of N between some labels and others, of which none is among the former."""
        xp = namespace(self.parts(at[:1, None]))
        rows = self.rows(at)
        return xp.take(rows, as_array_of(others, rows), axis=1)

    def whole(self) -> Array | None:
        """Return N as a matrix (n, n), or None if it takes much memory or time."""
        if self.n_labels <= _MOST_ROWS:
            return self.rows(np.arange(self.n_labels))
        return None


def gathered(values: Array, members: np.ndarray) -> Array:
    """Return rows of values (n, p) for members (number, size) of sets, shape (number, size, p)."""
    xp = namespace(values)
    return xp.reshape(take_rows(values, members.reshape(-1)), (*members.shape, values.shape[1]))


def error_of_difference(like: Array, n_terms: int) -> float:
    """Return the least eigenvalue of the difference of an identity and a hat matrix that has six accurate digits."""
    return min(1e6 * n_terms * epsilon(like), LARGEST_ERROR)


def identity(like: Array) -> Array:
    """Return an identity matrix of the order of `like` (…, n, n)."""
    return namespace(like).eye(like.shape[-1], dtype=like.dtype, device=like.device)


def singular_set(blocks: Array, members: np.ndarray, n_labels: int) -> Exception:
    """Return the error for the set, of members (number, size), whose block has the smallest eigenvalue."""
    least = to_numpy(namespace(blocks).linalg.eigvalsh(blocks))[:, 0]
    return leverage_error(members[least.argmin()], n_labels, "cells form a set that")
