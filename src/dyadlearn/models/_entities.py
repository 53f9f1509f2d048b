"""Tables of all instances, or all tasks, that are looked up by id: one table of a side, or several descriptions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dyadlearn._array import Array, is_foreign, is_sparse, take_rows
from dyadlearn._tables import Ids, Table, read_table, shown
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels.descriptions import Descriptions, own_ids, read_descriptions
from dyadlearn.models._inputs import align_side, unwrap_tasks
from dyadlearn.models._side import KernelSpec

if TYPE_CHECKING:
    from dyadlearn.models._base import PairwiseRidge

__all__ = ["DescribedEntities", "Entities", "PlainEntities", "positions_of", "read_entities"]


@dataclass(frozen=True, eq=False)
class PlainEntities:
    """One table of a side.

    Attributes
    ----------
    table : Table
        A matrix, the ids of its rows and, of features, their names where they have any.
    spec : KernelSpec
    side : str
        What messages call it.
    """

    table: Table
    spec: KernelSpec
    side: str

    @property
    def names(self) -> Ids | None:
        """The names of features."""
        return self.table.column_ids

    @property
    def base(self) -> None:
        """None: nothing has a place but by its id."""
        return None

    @property
    def arrays(self) -> list[Array]:
        """The table itself."""
        return [self.table.values]

    def looked_up(
        self,
        wanted: Sequence[Hashable],
        training: Sequence[Hashable],
        base: Ids | None = None,
        kernels: Collection[str] = (),
    ) -> Array:
        """Return the rows of some ids; of a kernel only their values with those of the training ids.

        Parameters
        ----------
        wanted, training : sequences of ids
        base, kernels : Ids or None, and names
            Of several descriptions, see `DescribedEntities`.
        """
        taken = take_rows(self.table.values, _found(self.table.row_ids, wanted, self.side))
        if not self.spec.is_precomputed:
            return taken
        return take_rows(taken.T, _found(self.table.row_ids, training, self.side)).T


@dataclass(frozen=True, eq=False)
class DescribedEntities:
    """Several descriptions of a side.

    Attributes
    ----------
    tables : Descriptions
        Without ids.
    ids : Ids
        Of all entities.
    side : str
    """

    tables: Descriptions
    ids: Ids
    side: str

    @property
    def names(self) -> None:
        """None: descriptions look after those of their features."""
        return None

    @property
    def base(self) -> Ids:
        """The ids of all entities: where they stand is where the columns of kernels do."""
        return self.ids

    @property
    def arrays(self) -> list[Array]:
        """The tables of all descriptions."""
        return [table.values for table in self.tables.tables.values()]

    def looked_up(
        self,
        wanted: Sequence[Hashable],
        training: Sequence[Hashable],
        base: Ids | None = None,
        kernels: Collection[str] = (),
    ) -> Descriptions:
        """Return the rows of some ids, with the places that they had when the model was fitted.

        Parameters
        ----------
        wanted, training : sequences of ids
        base : Ids, default=None
            Those of all entities then; None if it is to be fitted now.
        kernels : names
            Of descriptions that are kernels: their columns are put where they stood then.
        """
        rows = _found(self.ids, wanted, self.side)
        if base is None or base.labels == self.ids.labels:
            return self.tables[rows]
        _found(self.ids, training, self.side)
        now = {label: place for place, label in enumerate(self.ids.labels)}
        # Of those that are gone nothing is looked at, as they are not of training.
        columns = np.array([now.get(label, 0) for label in base.labels], dtype=np.intp)
        tables = {
            name: table.take(rows, columns if name in kernels else None) for name, table in self.tables.tables.items()
        }
        then = {label: place for place, label in enumerate(base.labels)}
        places = np.array([then.get(label, len(base) + row) for label, row in zip(wanted, rows, strict=True)])
        return Descriptions(tables, places, len(base))


Entities = PlainEntities | DescribedEntities


def read_entities(given: Any, model: PairwiseRidge, axis: int) -> Entities:
    """Return what there is to know of all instances (axis 0) or tasks, as the kernels of a model want it.

    Parameters
    ----------
    given : table, or Descriptions, mapping or list of tables
    model : PairwiseRidge
    axis : int
    """
    side, given = ("instances", "tasks")[axis], unwrap_tasks(given)
    several = read_descriptions(given, side)
    if several is None:
        spec = (model._spec, model._task_spec)[axis]()
        return PlainEntities(_read_table(given, spec, side), spec, side)
    if not model.takes_descriptions:
        raise TypeError(
            f"{type(model).__name__} takes one table of the {side}, found {len(several.names)} descriptions: give one "
            "of them, or use LearnedKernelRidge."
        )
    if several.places is not None:
        raise ValueError(f"{side} were taken out of other descriptions: give all of them, which are looked up by id.")
    ids = several.row_ids or Ids(tuple(range(len(several))))
    tables = {name: _bare(table, ids) for name, table in several.tables.items()}
    return DescribedEntities(Descriptions(tables, None, several.n_first), ids, side)


def positions_of(ids: Ids, wanted: Sequence[Hashable], side: str, where: str, remedy: str) -> np.ndarray:
    """Return where some ids stand; those that do not are counted and a few of them named."""
    place = {label: position for position, label in enumerate(ids.labels)}
    unknown = [label for label in wanted if label not in place]
    if unknown:
        raise IdError(f"{len(unknown)} of {len(wanted)} {side} are {where}: {shown(unknown)}; {remedy}.")
    return np.array([place[label] for label in wanted], dtype=np.intp)


def _found(ids: Ids | None, wanted: Sequence[Hashable], side: str) -> np.ndarray:
    """Return where some ids stand in the table of a side."""
    assert ids is not None
    remedy = f"add them to it, or leave their pairs out (ids are such as {ids.labels[0]!r})"
    return positions_of(ids, wanted, side, f"not in the table {side}=", remedy)


def _read_table(given: Any, spec: KernelSpec, side: str) -> Table:
    """Return the table of a side: a matrix, the ids of its rows and, of features, their names where they have any."""
    table = align_side(read_table(given, side), None, spec, side, side)
    if table.kind is not None and table.row_ids is None:
        raise IdError(
            f"{side} is a frame of {table.kind} without ids: put them in its first column as text, or give an array, "
            "whose ids are its row positions."
        )
    values = _matrix(table.values)
    if values.ndim != 2:
        raise ValueError(f"{side} must be a matrix with a row for each of the {side}, found shape {values.shape}.")
    if spec.is_precomputed and values.shape[0] != values.shape[1]:
        raise KernelError(
            f"{side} must be a square matrix for a precomputed kernel, over all {side} there are, found shape "
            f"{tuple(values.shape)}."
        )
    names = None if spec.is_precomputed else table.column_ids
    return Table(values, table.row_ids or Ids(tuple(range(values.shape[0]))), names)


def _matrix(values: Any) -> Array:
    """Return values that can be cut by rows."""
    if is_sparse(values):
        return values.tocsr()
    return values if is_foreign(values) else np.asarray(values)


def _bare(table: Table, ids: Ids) -> Table:
    """Return one description without ids, of which the names of features stay."""
    names = own_ids(table.column_ids)
    if names is not None and set(names.labels) == set(ids.labels):
        names = None  # columns of a kernel, which are in the order of its rows
    return replace(table, values=_matrix(table.values), row_ids=None, column_ids=names, kind=None)
