"""The relationship of individuals from a pedigree: a table of individuals and their parents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from numbers import Real
from typing import Any

import numpy as np

from dyadlearn._array import is_missing
from dyadlearn._memory import check_kernel_memory
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.graphs import listed, places, with_labels

_UNKNOWN = (0, "0", "", "NA")


def pedigree(
    table: Any,
    ids: Iterable[Any] | None = None,
    *,
    selfing: float = 0,
    unknown: Collection[Any] = _UNKNOWN,
) -> Any:
    r"""Compute the additive relationship of individuals from their parents.

    With the parents p and q of the younger individual i, and zero for an unknown parent,

    .. math:: A_{ij} = (A_{pj} + A_{qj}) / 2, \qquad A_{ii} = 1 + F_i, \qquad
              F_i = 1 - (1 - A_{pq} / 2) / 2^t ,

    where F is the inbreeding, and t the generations of selfing after a cross. Individuals without
    parents are unrelated.

    Parameters
    ----------
    table : array, sequence or frame of shape (n, 3)
        An individual and its two parents in each row, in any order of rows. A parent without a row
        has unknown parents.
    ids : sequence, optional
        Individuals of the result, in this order, of the first column or the others. The default
        are those of the first column.
    selfing : float, default=0
        Generations of selfing after each cross, of the individuals without parents too: for lines.
        ``math.inf`` is for doubled haploids and fully inbred lines, which have 2 on the diagonal.
    unknown : collection, default=(0, "0", "", "NA")
        Values for an unknown parent, beside missing values.

    Returns
    -------
    ndarray or frame of shape (n, n)
        Symmetric, positive semi-definite. A frame with the individuals as ids if `table` is one or
        `ids` a series.

    Raises
    ------
    IdError
        If an individual has two rows or no name, or an id is not in the pedigree.
    ValueError
        If the table has not three columns, or an individual is its own ancestor.

    See Also
    --------
    gram : ``kernel="vanraden"`` is the relationship from markers.

    Examples
    --------
    >>> from dyadlearn.kernels import pedigree
    >>> pedigree([("child", "mother", "father"), ("half-sister", "mother", None)])
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    parents = _parents(listed(table), unknown)
    labels = list(parents) if ids is None else listed(ids)
    outbred = 0.5 ** _generations(selfing)
    order = _from_the_oldest(parents)
    places(labels, dict.fromkeys(order, 0), "ids", "not in the pedigree")
    order = _ancestors(labels, order, parents)
    place = {individual: position for position, individual in enumerate(order)}
    n = len(order)
    check_kernel_memory(n, n, None, n_kernels=2)
    A = np.zeros((n, n))
    for i, individual in enumerate(order):
        known = [place[parent] for parent in parents.get(individual, ()) if parent is not None]
        for parent in known:
            A[i, :i] += 0.5 * A[parent, :i]
        A[:i, i] = A[i, :i]
        inbreeding = 0.5 * A[known[0], known[1]] if len(known) == 2 else 0.0
        A[i, i] = 2.0 - outbred * (1.0 - inbreeding)
    wanted = [place[individual] for individual in labels]
    return with_labels(A[np.ix_(wanted, wanted)], labels, table, ids)


def _generations(selfing: Any) -> float:
    """Return the generations of selfing; raise if they are no number of at least 0."""
    is_number = isinstance(selfing, Real) and not isinstance(selfing, bool)
    if not is_number or not float(selfing) >= 0:
        raise ValueError(f"selfing must be a number of at least 0, found {selfing!r}.")
    return float(selfing)


def _parents(rows: list[Any], unknown: Collection[Any]) -> dict[Any, list[Any]]:
    """Return the two parents of each individual, None for an unknown one."""
    widths = {len(row) if isinstance(row, list | tuple | np.ndarray) else 0 for row in rows}
    if widths != {3}:
        found = "no rows"
        if rows:
            found = f"rows of width {', '.join(map(str, sorted(widths)))}"
        raise ValueError(
            f"a pedigree must have 3 columns (an individual and its two parents), found {found}."
        )

    def known(label: Any) -> Any:
        if is_missing(label) or label in unknown:
            return None
        # A column of whole numbers with missing values holds floats.
        return int(label) if isinstance(label, float) and label.is_integer() else label

    individuals = [known(row[0]) for row in rows]
    if None in individuals:
        row = individuals.index(None)
        raise IdError(
            f"row {row} has no individual: {rows[row][0]!r} stands for an unknown parent; give "
            f"other values in unknown, or leave the row out."
        )
    place = {individual: row for row, individual in enumerate(individuals)}
    places(individuals, place, "individuals of a pedigree", "")
    return {
        individual: [known(row[1]), known(row[2])]
        for individual, row in zip(individuals, rows, strict=True)
    }


def _from_the_oldest(parents: Mapping[Any, list[Any]]) -> list[Any]:
    """Return all individuals, parents before children; raise if one is its own ancestor."""
    earlier = {}
    for individual, both in parents.items():
        earlier[individual] = [parent for parent in both if parent is not None]
    try:
        return list(TopologicalSorter(earlier).static_order())
    except CycleError as error:
        circle = " → ".join([repr(individual) for individual in error.args[1]][:10])
        raise ValueError(
            f"no individual may be its own ancestor, but parents form a cycle: {circle}."
        ) from None


def _ancestors(labels: list[Any], order: list[Any], parents: Mapping[Any, list[Any]]) -> list[Any]:
    """Return individuals and their ancestors, in the given order of all."""
    needed = set(labels)
    for individual in reversed(order):
        if individual in needed:
            needed.update(parents.get(individual, ()))
    return [individual for individual in order if individual in needed]
