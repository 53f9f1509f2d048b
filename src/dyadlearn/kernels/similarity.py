r"""Similarity of the rows of one side: groups of similar rows, and the nearest row elsewhere.

The similarity of two rows is their normalised kernel, :math:`s_{ij} = k_{ij} / \sqrt{k_{ii} k_{jj}}`:
1 for equal rows, the cosine for a linear kernel, the kernel itself for "rbf" or "tanimoto". It is
computed in blocks of rows, so that no n × n matrix has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dyadlearn._array import Array, double, is_foreign, is_sparse, row_blocks, take_rows, to_numpy
from dyadlearn._messages import Message
from dyadlearn._tables import read_table
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.gram import (
    Kernel,
    Params,
    fitted_params,
    gram,
    gram_diagonal,
    is_precomputed,
)

__all__ = ["Similarity", "similar_groups", "threshold_of"]

#: Threshold of groups="similar".
THRESHOLD = 0.6
# Similarities that are lower by less than this are equal up to rounding.
_ROUNDING = 1e-9


def similar_groups(
    X: Any,
    threshold: float = THRESHOLD,
    *,
    kernel: Kernel = "linear",
    kernel_params: Params = None,
) -> np.ndarray:
    """Return the group of each row: rows that are similar, or connected by a chain of similar rows.

    Passed as `groups` or `task_groups`, they leave out similar rows together, so that no held-out
    row has a row in training that is as similar as the threshold. ``groups="similar:0.6"`` does the
    same with the kernel of the model.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n, d); or (n, n) for a precomputed kernel
    threshold : float, default=0.6
        Similarity from which on rows are in one group, above 0 and at most 1.
    kernel : str or callable, default="linear"
        Kernel whose normalised values are the similarities, as in `gram`; or "precomputed".
    kernel_params : mapping, default=None

    Returns
    -------
    integer array of shape (n,)
        Number of the group of each row, counted from 0 in the order of first appearance.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import similar_groups
    >>> similar_groups(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]), 0.9)
    array([0, 1, 0])
    >>> similar_groups(np.array([[0.0], [1.0], [5.0], [2.0]]), 0.3, kernel="rbf", kernel_params={"gamma": 1})
    array([0, 0, 1, 0])
    """
    check_threshold(threshold, "threshold")
    return Similarity.of_table(X, kernel, kernel_params).groups(threshold)


@dataclass(frozen=True, eq=False)
class Similarity:
    """Similarities between the n rows of a side.

    Attributes
    ----------
    n : int
    kernel_rows : callable
        Function of positions (b,) that returns their kernel with all rows, (b, n).
    diagonal : array of shape (n,)
        Kernel of each row with itself.
    """

    n: int
    kernel_rows: Callable[[np.ndarray], Array]
    diagonal: np.ndarray

    @classmethod
    def of_table(
        cls, X: Any, kernel: Kernel = "linear", kernel_params: Params = None
    ) -> Similarity:
        """Return the similarities of the rows of a table; parameters as in `similar_groups`."""
        if is_precomputed(kernel):
            K = to_numpy(read_table(X, "X").values)
            if K.ndim != 2 or K.shape[0] != K.shape[1]:
                raise KernelError(
                    f"A precomputed kernel is a square matrix, found shape {K.shape}."
                )
            return cls(len(K), lambda places: K[places], np.diagonal(K))
        rows = read_table(X, "X").values
        if is_sparse(rows):
            rows = rows.tocsr()
        elif not is_foreign(rows):
            rows = np.asarray(rows)
        rows = double(rows)
        params = dict(fitted_params(kernel, kernel_params, rows) or {})
        how: dict[str, Any] = {"kernel": kernel, "kernel_params": params}
        diagonal = to_numpy(gram_diagonal(rows, **how))
        return cls(
            int(rows.shape[0]), lambda places: gram(take_rows(rows, places), rows, **how), diagonal
        )

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the similarities (b, n) of some rows with all rows; 0 for a row of zeros."""
        scale = np.where(self.diagonal > 0, self.diagonal, np.inf) ** -0.5
        return np.asarray(to_numpy(self.kernel_rows(places)) * scale[places, None] * scale)

    def groups(self, threshold: float) -> np.ndarray:
        """Return the connected components (n,) of the rows that are at least as similar as a threshold."""
        everything = np.arange(self.n)
        codes = everything
        for block, values in self._blocks(everything):
            first, second = np.nonzero(values >= threshold - _ROUNDING)
            # Edges of earlier blocks are kept as one edge of each row, to the first of its group.
            starts = np.concatenate([everything[block][first], everything])
            ends = np.concatenate([second, codes])
            edges = (np.ones(len(starts), dtype=bool), (starts, ends))
            graph = sparse.coo_array(edges, shape=(self.n, self.n))
            _, parts = connected_components(graph, directed=False)
            _, first_at, part = np.unique(parts, return_index=True, return_inverse=True)
            codes = first_at[part]
        return np.unique(codes, return_inverse=True)[1]

    def nearest(self, asked: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest similarity of each asked row to a known one, and the position of that.

        Without a known row, similarities are -inf and positions -1.
        """
        largest = np.full(len(asked), -np.inf)
        where = np.full(len(asked), -1)
        if len(known):
            for block, similarities in self._blocks(asked):
                values = similarities[:, known]
                largest[block] = values.max(axis=1)
                where[block] = known[values.argmax(axis=1)]
        return largest, where

    def nearest_outside(self, folds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the largest similarity of each row to a row of another fold, and the position of that.

        If there is one fold, similarities are -inf and positions -1.
        """
        largest = np.full(self.n, -np.inf)
        where = np.full(self.n, -1)
        for block, values in self._blocks(np.arange(self.n)):
            values[folds[block, None] == folds] = -np.inf
            largest[block] = values.max(axis=1)
            where[block] = np.where(np.isfinite(largest[block]), values.argmax(axis=1), -1)
        return largest, where

    def _blocks(self, asked: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the similarities (b, n) of blocks of some rows with all rows."""
        for block in row_blocks(len(asked), self.n):
            yield block, self.rows(asked[block])


def threshold_of(text: Any, name: str) -> float | None:
    """Return the threshold of ``"similar"`` or ``"similar:0.6"``; None for anything else.

    Parameters
    ----------
    text : object
    name : str
        Name of the parameter in messages.

    Examples
    --------
    >>> from dyadlearn.kernels.similarity import threshold_of
    >>> threshold_of("similar:0.8", "groups"), threshold_of("similar", "groups"), threshold_of("identical", "groups")
    (0.8, 0.6, None)
    """
    if not isinstance(text, str):
        return None
    word, colon, rest = text.partition(":")
    if word.strip() != "similar":
        return None
    if not colon:
        return THRESHOLD
    try:
        threshold = float(rest)
    except ValueError:
        threshold = float("nan")
    return check_threshold(threshold, name, text)


def check_threshold(threshold: float, name: str, text: Any = None) -> float:
    """Return a threshold; raise unless it is above 0 and at most 1."""
    if not 0 < threshold <= 1:
        such = 0.6 if text is None else "similar:0.6"
        value = threshold if text is None else text
        raise ValueError(
            Message.about(
                name, f"takes a similarity above 0 and at most 1, such as {such}, found {value!r}."
            )
        )
    return float(threshold)
