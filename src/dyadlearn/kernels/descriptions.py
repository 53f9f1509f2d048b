"""Several descriptions of the entities of one side: named tables whose rows are the same entities.

Each table holds features or a kernel. Indexing takes the same rows of all tables, so that splitters
treat several descriptions as one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from dyadlearn._array import Array, to_numpy
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, read_table, shown
from dyadlearn.exceptions import IdError


class Descriptions(Stored):
    """Named tables that describe the same entities of one side, one row for each entity.

    A model with several kernels for a side takes ``fit({"ecfp": F, "similarity": K}, Y)`` and
    creates this object itself. Create it explicitly to use scikit-learn's splitters: it has a
    length, and rows can be indexed. Indexing keeps all columns of a kernel, and `places` has the
    positions of the rows among them. The model then selects the columns of its training rows, in
    `fit` and in `predict`.

    Parameters
    ----------
    tables : mapping of str to array, sparse matrix or frame of two dimensions; or a sequence of these
        Features (n, d) or a kernel (n, n). In `predict`, a kernel has a column for each entity of
        training, and tables or rows of tables may be missing, see `LearnedKernelRidge`. The tables
        of a sequence get the names "1", "2" and so on. Tables with ids are brought into the order
        of the first table with ids. If the columns of a square table have the ids of its rows, they
        are reordered too.
    places, n_first : array of shape (n,) and int, default=None
        Positions of the rows in the original tables, and number of rows of these tables. Indexing
        sets both; do not pass them.

    Raises
    ------
    TypeError
        If a name is not text, or `tables` is neither a mapping nor a sequence.
    ValueError
        If there is no table, a table does not have two dimensions, or tables differ in their number
        of rows.
    IdError
        If the tables have different ids.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import Descriptions
    >>> drugs = Descriptions({"bits": np.eye(4)[:, :3], "similarity": np.full((4, 4), 0.5)})
    >>> drugs
    Descriptions of 4 entities: bits (3 columns), similarity (4 columns)
    >>> drugs.names, drugs.shape, len(drugs)
    (('bits', 'similarity'), (4, 7), 4)
    >>> drugs[[3, 1]].places
    array([3, 1])

    scikit-learn's splitters accept it like an array:

    >>> from sklearn.model_selection import train_test_split
    >>> train, test = train_test_split(drugs, test_size=1, random_state=0)
    >>> len(train), len(test)
    (3, 1)
    """

    def __init__(
        self, tables: Any, places: Array | None = None, n_first: int | None = None
    ) -> None:
        # Tables that come from indexing are in order already, and their kernels keep all columns.
        self.tables: dict[str, Table] = _read(tables, "tables") if n_first is None else tables
        self.places = places
        self.n_first = len(self) if n_first is None else n_first

    def __repr__(self) -> str:
        columns = [
            f"{name} ({table.values.shape[1]} columns)" for name, table in self.tables.items()
        ]
        return f"Descriptions of {len(self)} entities: {', '.join(columns)}"

    def __len__(self) -> int:
        return int(next(iter(self.tables.values())).values.shape[0])

    def __getitem__(self, rows: Any) -> Descriptions:
        """Return some rows of all tables: by a slice, a mask, or positions in any order.

        Parameters
        ----------
        rows : slice, or array or list of truth values or whole numbers
        """
        # scikit-learn indexes objects with a shape as [rows, ...] or [rows, :].
        is_pair = isinstance(rows, tuple) and len(rows) == 2
        if is_pair and (rows[1] is Ellipsis or rows[1] == slice(None)):
            rows = rows[0]
        if isinstance(rows, str | tuple | Integral):
            raise TypeError(
                f"Take rows of descriptions by a slice, a mask or a list of positions, found "
                f"{rows!r}."
            )
        if not isinstance(rows, slice):
            rows = to_numpy(rows)
            if rows.size == 0:
                rows = rows.astype(np.intp)
        taken = np.arange(len(self))[rows]
        tables = {name: table.take(taken) for name, table in self.tables.items()}
        places = taken if self.places is None else self.places[taken]
        return Descriptions(tables, places, self.n_first)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the descriptions, in order."""
        return tuple(self.tables)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of entities, and total number of columns."""
        return len(self), sum(int(table.values.shape[1]) for table in self.tables.values())

    @property
    def row_ids(self) -> Ids | None:
        """Ids of the entities; None if no table has ids."""
        for table in self.tables.values():
            if table.row_ids is not None:
                return table.row_ids
        return None

    @property
    def kind(self) -> str | None:
        """Library of the first table that was a frame; None if no table was."""
        for table in self.tables.values():
            if table.kind is not None:
                return table.kind
        return None

    def _fits(self) -> bool:
        if not isinstance(self.tables, dict) or not self.tables:
            return False
        tables = self.tables.values()
        if not all(isinstance(table, Table) and len(table.values.shape) == 2 for table in tables):
            return False
        n = len(self)
        if not all(table.values.shape[0] == n for table in tables):
            return False
        places = self.places
        if places is None:
            return True
        if places.dtype.kind != "i" or places.shape != (n,):
            return False
        return bool(((places >= 0) & (places < self.n_first)).all())


def read_descriptions(X: Any, name: str) -> Descriptions | None:
    """Return the descriptions of one side; None if `X` is a single table.

    Parameters
    ----------
    X : object
        Several tables are a mapping of names to tables, a sequence of two-dimensional tables, or
        `Descriptions`. A single table is an array, a frame, a sparse matrix, a `Table` or a
        sequence of rows.
    name : str
        Name of the side in messages.

    Returns
    -------
    Descriptions or None

    Raises
    ------
    TypeError, ValueError, IdError
        As `Descriptions`.

    Examples
    --------
    >>> import numpy as np
    >>> read_descriptions([np.eye(3), np.ones((3, 2))], "X")
    Descriptions of 3 entities: 1 (3 columns), 2 (2 columns)
    >>> read_descriptions([[0.0, 1.0], [1.0, 0.0]], "X") is None
    True
    """
    if isinstance(X, Descriptions):
        return X
    is_several = False
    if isinstance(X, Mapping):
        is_several = _dimensions(X) is None  # a sparse matrix may be a dictionary, but is one table
    elif isinstance(X, list | tuple):
        is_several = any(_dimensions(item) == 2 for item in X)
    return Descriptions(_read(X, name)) if is_several else None


def check_description_names(names: Sequence[Any], owner: str) -> None:
    """Raise if a name of a description is not text, empty or repeated; `owner` is the name of the side in messages."""
    for position, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(
                Message(
                    "The names of the descriptions in <{owner}> must be text, found {name!r}.",
                    owner=owner,
                    name=name,
                )
            )
        if not name.strip() or name.startswith("$"):  # $ marks objects in a model file
            raise ValueError(
                Message(
                    "The descriptions in <{owner}> must have names that do not begin with $, "
                    "found {name!r}.",
                    owner=owner,
                    name=name,
                )
            )
        if name in names[:position]:
            raise ValueError(
                Message(
                    "The descriptions in <{owner}> must have different names, found {name!r} "
                    "twice.",
                    owner=owner,
                    name=name,
                )
            )


def own_ids(ids: Ids | None) -> Ids | None:
    """Return ids; None if they are only the default index 0, 1, 2, … of a frame."""
    is_default = ids is not None and ids.labels == tuple(range(len(ids)))
    return None if is_default else ids


def _dimensions(item: Any) -> int | None:
    """Return the number of dimensions of a table; None for an object without a shape."""
    values = item.values if isinstance(item, Table) else item
    shape = getattr(values, "shape", None)
    return None if shape is None else len(shape)


def _read(tables: Any, owner: str) -> dict[str, Table]:
    """Return tables by their names, all in the order of the first that has ids."""
    if isinstance(tables, Descriptions):
        tables = tables.tables
    if isinstance(tables, list | tuple):
        tables = {str(position): table for position, table in enumerate(tables, 1)}
    if not isinstance(tables, Mapping):
        kind = type(tables).__name__
        raise TypeError(
            f"The descriptions in {owner} must be a mapping or a list of tables, found {kind}."
        )
    if not tables:
        raise ValueError(f"There is no description in {owner}: give at least one table.")
    check_description_names(list(tables), owner)
    read: dict[str, Table] = {}
    for name, values in tables.items():
        title = title_of(name, owner)
        table = read_table(values, title)
        if isinstance(table.values, list | tuple):
            table = replace(table, values=np.asarray(table.values))
        if _dimensions(table) != 2:
            raise ValueError(
                Message(
                    "{title} must have two dimensions, found {dimensions}.",
                    title=title,
                    dimensions=_dimensions(table) or "none",
                )
            )
        read[name] = table
    lengths = {name: int(table.values.shape[0]) for name, table in read.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(
            Message(
                "The descriptions in <{owner}> must have one row for each entity, but {listed} "
                "rows.",
                owner=owner,
                listed=listed,
            )
        )
    with_ids = [name for name, table in read.items() if table.row_ids is not None]
    if not with_ids:
        return read
    first = with_ids[0]
    target = read[first].row_ids
    ordered = {}
    for name, table in read.items():
        ordered[name] = _in_order(table, target, title_of(name, owner), title_of(first, owner))
    return ordered


def title_of(name: str, owner: str) -> Message:
    """Return the name of one description of a side for messages."""
    return Message("<{owner}>[[{name!r}]| {name!r}]", owner=owner, name=name)


def _in_order(table: Table, target: Ids | None, name: str, other: str) -> Table:
    """Return a table with its rows, and the columns that have the ids of its rows, in the order of `target`."""
    if table.row_ids is None or target is None:
        return table
    rows = table.row_ids
    columns = table.column_ids
    order = rows.order_as(target, name, other)
    is_square = len(rows) == table.values.shape[1]
    if is_square and columns is not None and set(columns.labels) == set(rows.labels):
        return table.take(order, columns.order_as(target, name, other))
    if order is not None and is_square and own_ids(columns) is None:
        # The columns of a kernel must be reordered with its rows, but those of features must not.
        raise IdError(
            f"The rows of {name} are in another order than those of {other}. If it is a kernel, its "
            f"columns, which have no ids, must be reordered too: name its columns, or give its rows "
            f"in the order {shown(target.labels, 3)}."
        )
    return table.take(order)
