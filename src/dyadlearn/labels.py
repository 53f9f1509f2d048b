"""The grid of labels: instances × tasks, with ids where it came with any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from dyadlearn._array import Array, is_foreign, is_sparse, namespace, take_rows
from dyadlearn._frames import Ids, read_table, write_table
from dyadlearn._validation import check_not_empty, check_real, naming_text

__all__ = ["LabelGrid", "fisher_relabel", "read_labels", "symmetric_grid"]


@dataclass(frozen=True)
class LabelGrid:
    """Labels of m instances × q tasks.

    Attributes
    ----------
    values : array of shape (m, q)
    instance_ids, task_ids : Ids or None
    kind : str or None
        Library of the frame or series the labels came in.
    is_vector : bool
        Whether they came with one dimension, as the labels of a single task.
    """

    values: Array
    instance_ids: Ids | None = None
    task_ids: Ids | None = None
    kind: str | None = None
    is_vector: bool = False

    def restore(self, values: Array) -> Any:
        """Return a grid of new values in the form the labels came in: vector, series, frame or array."""
        if self.is_vector:
            values = namespace(values).reshape(values, (-1,))
        return values if self.kind is None else write_table(values, self.instance_ids, self.task_ids, self.kind)


def read_labels(Y: Any, name: str = "Y") -> LabelGrid:
    """Return labels given as a grid, a frame, a vector or a series; NaN may stand in it."""
    table = read_table(Y, name)
    values = table.values
    if is_sparse(values):
        raise TypeError(f"{name} is sparse, but its zeros are labels too: give it dense, as {name}.toarray().")
    check_not_empty(values, name)
    if is_foreign(values):
        values = check_real(values, name)
        if values.ndim not in (1, 2):
            raise ValueError(f"{name} must have one or two dimensions, found {values.ndim}.")
    else:
        with naming_text(name):
            values = check_array(
                values, dtype=[np.float64, np.float32], ensure_2d=False, ensure_all_finite=False, input_name=name
            )
    is_vector = values.ndim == 1
    if is_vector:
        values = namespace(values).reshape(values, (-1, 1))
    return LabelGrid(values, table.row_ids, table.column_ids, table.kind, is_vector)


def symmetric_grid(grid: LabelGrid, sign: int) -> LabelGrid:
    """Return the labels of a network with columns in the order of the rows, checked for their symmetry.

    Parameters
    ----------
    grid : LabelGrid
        Of m nodes × the same m nodes.
    sign : int
        +1 for symmetric labels, −1 for antisymmetric ones.
    """
    values, ids = grid.values, grid.instance_ids
    xp = namespace(values)
    if values.shape[0] != values.shape[1]:
        raise ValueError(f"The labels of a network form a square grid, found {values.shape[0]} × {values.shape[1]}.")
    if ids is not None and grid.task_ids is not None:
        order = grid.task_ids.order_as(ids, "the columns of Y", "the rows of Y")
        if order is not None:
            values = take_rows(values.T, order).T
    gap = xp.abs(values - sign * values.T)
    # NaN means not observed: a pair is either missing both ways or not at all.
    if bool(xp.any(xp.isnan(values) != xp.isnan(values.T))) or bool(xp.any(gap > 0)):
        largest = float(xp.max(xp.where(xp.isnan(gap), xp.zeros_like(gap), gap)))
        word = "symmetric" if sign > 0 else "antisymmetric"
        raise ValueError(
            f"Y is not {word}: it differs from {'' if sign > 0 else 'minus '}its transpose by up to {largest:.3g}. "
            f"Use (Y {'+' if sign > 0 else '-'} Y.T) / 2 if that is what is meant."
        )
    return replace(grid, values=values, task_ids=ids if grid.task_ids is not None else None)


def fisher_relabel(Y: Any) -> Array:
    r"""Relabel a binary grid so that ridge regression becomes Fisher's discriminant.

    With :math:`N` cells, of which :math:`N^+` are positive and :math:`N^-` negative, positives
    become :math:`N/N^+` and negatives :math:`-N/N^-`, so that both classes weigh the same.

    .. math:: y \mapsto \begin{cases} N/N^+ & y \text{ positive} \\ -N/N^- & y \text{ negative}\end{cases}

    Parameters
    ----------
    Y : array of shape (m, q)
        Two distinct values, the larger being the positive class; NaN stays NaN and does not count.

    Returns
    -------
    array of shape (m, q), a frame for a frame

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.labels import fisher_relabel
    >>> fisher_relabel(np.array([[1, 0], [0, 0]]))
    array([[ 4.        , -1.33333333],
           [-1.33333333, -1.33333333]])
    """
    grid = read_labels(Y)
    values = grid.values
    xp = namespace(values)
    observed = ~xp.isnan(values)
    distinct = xp.unique_values(values[observed])
    if distinct.shape[0] != 2:
        raise ValueError(f"Fisher's rule needs labels of exactly two values, found {distinct.shape[0]} in Y.")
    positive = values == distinct[1]
    total = int(xp.sum(xp.astype(observed, xp.int64)))
    n_positive = int(xp.sum(xp.astype(positive, xp.int64)))
    relabelled = xp.where(
        positive,
        xp.full_like(values, total / n_positive),
        xp.full_like(values, -total / (total - n_positive)),
    )
    relabelled = xp.where(observed, relabelled, xp.full_like(values, float("nan")))
    return grid.restore(relabelled)
