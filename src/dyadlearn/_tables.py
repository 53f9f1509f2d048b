"""Tables of values with ids, and conversions from and to data frames.

Ids are the index of a pandas frame, or the first column of any other frame if it is text; column
names are ids too. Tables with ids are aligned by their ids, never by position. All functions that
accept a frame accept a `Table`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    is_foreign,
    is_missing,
    is_sparse,
    namespace,
    refuse_mask,
    take_rows,
)
from dyadlearn._state import Stored
from dyadlearn._text import quoted
from dyadlearn.exceptions import IdError

# Maximum number of ids among which similar spellings are searched.
_MANY = 20_000
# Number of characters of an id above which similar ids are not searched.
_LONG = 200

#: Named columns of a table, each with one entry per row.
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Ids(Stored):
    """Distinct ids of one axis, with the name of the axis in a frame."""

    labels: tuple[Hashable, ...]
    name: str | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def _fits(self) -> bool:
        return len(set(self.labels)) == len(self.labels)

    def lacking(self, wanted: Iterable[Hashable]) -> list[Hashable]:
        """Return the ids of `wanted` that are not among these ids, each once."""
        labels = set(self.labels)
        return [label for label in dict.fromkeys(wanted) if label not in labels]

    def positions(self, wanted: Sequence[Hashable], owner: str) -> np.ndarray:
        """Return the position of each id of `wanted`; raise `IdError` that names unknown ids."""
        where = {label: position for position, label in enumerate(self.labels)}
        unknown = self.lacking(wanted)
        if unknown:
            hint = _written_alike(unknown, self.labels)
            raise IdError(
                f"{shown(unknown)} not among the ids of {owner} (such as "
                f"{shown(self.labels, 3)}).{hint}"
            )
        return np.array([where[label] for label in wanted], dtype=np.intp)

    def order_as(self, target: Ids | None, name: str, other: str) -> np.ndarray | None:
        """Return the positions that sort these ids in the order of `target`; None if they are in this order.

        None is also returned without a `target`. Raises `IdError` with a few of the ids that only
        one of the two has; the message calls the two tables `name` and `other`.
        """
        if target is None or self.labels == target.labels:
            return None
        missing = self.lacking(target.labels)
        extra = target.lacking(self.labels)
        if missing or extra:
            parts = []
            if missing:
                parts.append(f"{len(missing)} only in {other} ({shown(missing)})")
            if extra:
                parts.append(f"{len(extra)} only in {name} ({shown(extra)})")
            raise IdError(
                f"The ids of {name} and {other} do not match: {'; '.join(parts)}. Give both tables "
                f"the same ids, in any order.{_written_alike(missing, extra)}"
            )
        return self.positions(target.labels, name)

    def take(self, positions: Iterable[int] | None) -> Ids:
        """Return some of the ids, in this order; None means all of them."""
        if positions is None:
            return self
        # Whole numbers of numpy are slow to index with, one by one.
        places = positions.tolist() if isinstance(positions, np.ndarray) else positions
        return replace(self, labels=tuple(map(self.labels.__getitem__, places)))


def shown(labels: Sequence[Any], limit: int = 5) -> str:
    """Return the first few labels as they are written in Python."""
    shown = ", ".join(quoted(label) for label in labels[:limit])
    return shown + (", …" if len(labels) > limit else "")


def not_found(
    lacking: Sequence[Any], n_wanted: int, of: str, where: str, known: Sequence[Any]
) -> IdError:
    """Return the error for missing ids, with similar existing ids.

    Parameters
    ----------
    lacking : sequence of ids
        Missing ids.
    n_wanted : int
        Number of requested ids.
    of, where : str
        Names of the ids and of the place in the message.
    known : sequence of ids
        Existing ids.
    """
    named = ", ".join(f"{quoted(label)}{_similar(label, known)}" for label in lacking[:5])
    if len(lacking) > 5:
        named += ", …"
    if len(lacking) == n_wanted:
        count = "all"
    else:
        count = f"{len(lacking)} of the"
    such = ""
    if known and "did you mean" not in named:
        such = f" Its ids are such as {shown(known[:3])}."
    return IdError(
        f"{where} lacks {count} {n_wanted} {of}: {named}.{such} Add them, or leave them out."
    )


def _similar(label: Any, known: Sequence[Any]) -> str:
    """Return a hint at the known id that differs in case or punctuation only, else at the most similar one."""
    meant = {_bare_letters(other): other for other in known}.get(_bare_letters(label))
    # Similar spellings of very many or very long ids take too long to find.
    is_short = len(known) <= _MANY and len(str(label)) <= _LONG
    if meant is None and is_short:
        close = difflib.get_close_matches(str(label), map(str, known), n=1, cutoff=0.8)
        meant = next(iter(close), None)
    if meant is None:
        return ""
    return f" (did you mean {quoted(meant)}?)"


def _bare_letters(label: Any) -> str:
    """Return the letters and digits of an id, in one case."""
    return re.sub(r"[\W_]", "", str(label)).casefold()


def looks_transposed(
    rows: Ids | None, columns: Ids | None, instances: Ids | None, tasks: Ids | None
) -> bool:
    """Return whether labels are transposed: their ids have the instances in columns instead of rows.

    Parameters
    ----------
    rows, columns : Ids or None
        Ids of the labels.
    instances, tasks : Ids or None
        Ids of the two sides.
    """
    if rows is None or columns is None or instances is None or rows.labels == columns.labels:
        return False
    if columns.labels == tuple(range(len(columns))):
        return False  # the default column names of a frame are no ids
    row_set = set(rows.labels)
    instance_set = set(instances.labels)
    is_swapped = not row_set & instance_set and bool(set(columns.labels) & instance_set)
    return is_swapped and (tasks is None or not tasks.labels or bool(row_set & set(tasks.labels)))


def near_miss(
    unknown: Iterable[Hashable], known: Iterable[Hashable]
) -> tuple[Hashable, Hashable] | None:
    """Return one of `unknown` and one of `known` ids that differ in type or blanks only, such as 1 and "1"."""
    texts = {_bare_text(label): label for label in known}
    for label in unknown:
        text = _bare_text(label)
        if text in texts:
            return label, texts[text]
    return None


def _bare_text(label: Hashable) -> str:
    """Return an id as text without blanks; a whole number has no decimal point."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label).strip()


def _written_alike(unknown: Iterable[Hashable], known: Iterable[Hashable]) -> str:
    """Return a sentence on ids that differ in type or blanks only, if there are any."""
    pair = near_miss(unknown, known)
    if pair is None:
        return ""
    return (
        f" {quoted(pair[0])} and {quoted(pair[1])} differ in type or blanks only: read both alike."
    )


def make_ids(labels: Sequence[Any], name: Any, owner: str) -> Ids:
    """Return `Ids` after checking that each is text or a whole number, none is empty, and none repeats."""
    ids = Ids(tuple(labels), None if name is None else str(name))
    for position, label in enumerate(ids.labels):
        if is_missing(label) or (isinstance(label, str) and not label.strip()):
            raise IdError(
                f"{owner} has no id at position {position} ({label!r}): give it one, or leave it "
                f"out."
            )
    check_id_types(ids.labels, owner)
    if len(set(ids.labels)) < len(ids.labels):
        seen: set[Hashable] = set()
        repeated: dict[Hashable, None] = {}
        for label in ids.labels:
            if label in seen:
                repeated[label] = None
            seen.add(label)
        raise IdError(
            f"{owner} has repeated ids: {shown(list(repeated))} ({len(repeated)} of {len(seen)} ids): "
            f"aggregate or rename them."
        )
    return ids


def check_id_types(labels: Sequence[Any], owner: str) -> None:
    """Raise `IdError` if an id is neither text nor a whole number; messages call the table `owner`."""
    if set(map(type, labels)) <= {str, int}:
        return
    for label in labels:
        if not isinstance(label, str | Integral) or isinstance(label, bool):
            raise IdError(
                f"{owner} has the id {quoted(label)} of type {type(label).__name__}: ids must be "
                f"text or whole numbers: use .astype(str)."
            )


# The libraries that a frame can be of.
_FRAMES = ("pandas", "polars", "pyarrow", "modin", "cudf")


@dataclass(frozen=True)
class Table(Stored):
    """Values with the ids of their rows and columns, if there are any.

    Attributes
    ----------
    values : array, sparse matrix, sequence or native frame without its id column, or None
        Values; None for a table that only has ids.
    row_ids, column_ids : Ids or None
        Ids of the rows and of the columns.
    kind : str or None
        Library of the input frame or series, such as ``"pandas"`` or ``"polars"``; None for arrays.
    is_vector : bool
        Whether the input had one dimension, as the labels of a single task.
    """

    values: Any
    row_ids: Ids | None = None
    column_ids: Ids | None = None
    kind: str | None = None
    is_vector: bool = False

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Table:
        """Return the table of a state; without the library of its frame answers are arrays, and ids stay."""
        table = super().from_state(state, where)
        if table.kind is not None and find_spec(table.kind) is None:
            return replace(table, kind=None)
        return table

    def _fits(self) -> bool:
        if self.kind not in (None, *_FRAMES):
            return False
        return self.values is None or self.fits(self.values.shape)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether the ids are as many as the rows and columns of a shape (m, q)."""
        if self.is_vector and shape[1] != 1:
            return False
        axes = zip((self.row_ids, self.column_ids), shape, strict=True)
        return all(ids is None or len(ids) == length for ids, length in axes)

    def __repr__(self) -> str:
        if self.values is None:
            return "Table of ids"
        counts = zip(self.values.shape, ("rows", "columns"), strict=False)
        shape = " × ".join(f"{n} {word}" for n, word in counts)
        kind = getattr(self.values, "dtype", self.kind)
        ids = ""
        if self.row_ids is not None:
            ids = f", ids {shown(self.row_ids.labels, 3)}"
        return f"Table of {shape} ({kind}){ids}"

    @property
    def ids(self) -> tuple[Hashable, ...] | None:
        """Ids of the rows, in their order; None if they have none."""
        return None if self.row_ids is None else self.row_ids.labels

    def to_frame(self, kind: str | None = None) -> Any:
        """Return the table as a data frame with its ids.

        Parameters
        ----------
        kind : {"pandas", "polars", "pyarrow"}, default=None
            Library of the frame; None is that of the input, else pandas or polars, whichever is
            installed.
        """
        return write_table(
            np.asarray(self.values),
            self.row_ids,
            self.column_ids,
            _frame_library(kind or self.kind),
        )

    @property
    def transposed(self) -> Table:
        """Table with rows and columns exchanged."""
        return replace(self, values=self.values.T, row_ids=self.column_ids, column_ids=self.row_ids)

    def take(self, rows: np.ndarray | None, columns: np.ndarray | None = None) -> Table:
        """Return some rows and columns, in this order; None means all of them."""
        row_ids = None if self.row_ids is None else self.row_ids.take(rows)
        column_ids = None
        if self.column_ids is not None:
            column_ids = self.column_ids.take(columns)
        values = _taken(self.values, rows, columns)
        return replace(self, values=values, row_ids=row_ids, column_ids=column_ids)

    def rows_as(self, target: Ids | None, name: str, other: str) -> Table:
        """Return the table with its rows in the order of `target`, if both have ids.

        Raises `IdError` if the ids differ; the message calls them `name` and `other`.
        """
        if self.row_ids is None:
            return self
        return self.take(self.row_ids.order_as(target, name, other))

    def columns_as(self, target: Ids | None, name: str, other: str) -> Table:
        """Return the table with its columns in the order of `target`, as `rows_as` does with rows."""
        if self.column_ids is None:
            return self
        return self.take(None, self.column_ids.order_as(target, name, other))

    def squared(self, name: str) -> Table:
        """Return a kernel (n, n) with its columns in the order of its rows, and its ids on both sides.

        Raises `IdError` if the ids of rows and columns differ; the message calls the kernel `name`.
        """
        rows = self.row_ids or self.column_ids
        table = replace(self, row_ids=rows, column_ids=self.column_ids or rows)
        return table.columns_as(rows, f"the columns of {name}", f"the rows of {name}")

    def restore(self, values: Array) -> Any:
        """Return other values (m, q) in the type of the input: vector, series, frame or array."""
        if self.is_vector:
            values = namespace(values).reshape(values, (-1,))
        if self.kind is None:
            return values
        return write_table(values, self.row_ids, self.column_ids, self.kind)


def _taken(values: Any, rows: np.ndarray | None, columns: np.ndarray | None) -> Any:
    """Return some rows and columns of an array, a sparse matrix or a frame; None means all of them."""
    if values is None or (rows is None and columns is None):
        return values
    if isinstance(values, np.ndarray) or is_sparse(values) or is_foreign(values):
        if rows is not None:
            values = take_rows(values, rows)
        if columns is None:
            return values
        if is_foreign(values):
            return take_rows(values.T, columns).T
        return values[:, columns]
    import narwhals as nw

    frame = nw.from_native(values, allow_series=True)
    if columns is not None:
        frame = frame.select([nw.col(frame.columns[position]) for position in columns])
    if rows is not None:
        frame = frame[rows.tolist()]
    return frame.to_native()


def read_table(
    table: Any,
    name: str,
    *,
    of_words: bool = False,
    n_columns: int | None = None,
    describes: bool = True,
) -> Table:
    """Return the `Table` of a frame, with its values and ids; other objects have no ids, a `Table` is not changed.

    Parameters
    ----------
    table : object
    name : str
        Name of the table in messages.
    of_words : bool, default=False
        Whether values may be text or other objects; False only allows numbers.
    n_columns : int, default=None
        Number of columns without that of the ids, if it is known: a frame with so many columns has
        no column of ids.
    describes : bool, default=True
        Whether the rows describe entities, so that text may be SMILES.
    """
    if isinstance(table, Table):
        return table
    if isinstance(table, np.ndarray | list | tuple) or is_sparse(table) or is_foreign(table):
        return Table(refuse_mask(table, name))
    import narwhals as nw

    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        # Repeated names of pandas columns are reported here, before narwhals raises another error.
        _column_ids(table.columns, name)
    frame = nw.from_native(table, allow_series=True, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"{name} is a lazy frame: collect it first.")
    if not isinstance(frame, nw.DataFrame | nw.Series):
        return Table(table)
    kind = str(frame.implementation.value)
    index = nw.maybe_get_index(frame)
    row_ids = None
    if index is not None:
        row_ids = make_ids(index.tolist(), index.name, f"The index of {name}")
    if isinstance(frame, nw.Series):
        return Table(table, row_ids, None, kind)
    first = next(iter(frame.schema), None)
    may_have_ids = index is None and len(frame.schema) != n_columns
    if may_have_ids and first is not None and _is_text(frame.schema[first]):
        row_ids = make_ids(frame.get_column(first).to_list(), first, f"Column {first!r} of {name}")
        frame = frame.drop(first)
    if not of_words:
        _check_numbers(frame, name, describes)
    native = frame.to_native()
    axis = getattr(getattr(native, "columns", None), "name", None)
    return Table(native, row_ids, _column_ids(frame.schema, name, axis), kind)


def _check_numbers(frame: Any, name: str, describes: bool) -> None:
    """Raise if a column of a frame of narwhals holds text, times or lists.

    Parameters
    ----------
    frame : DataFrame of narwhals
    name : str
        Name of the table in messages.
    describes : bool
        Whether the rows describe entities, so that text may be SMILES.
    """
    text = []
    odd = []
    for column, dtype in frame.schema.items():
        if _is_text(dtype):
            text.append(column)
        elif dtype.is_temporal() or dtype.is_nested():
            odd.append(column)
    if text:
        example = ""
        for cell in frame.get_column(text[0]).to_list():
            if not is_missing(cell):
                example = str(cell)
                break
        raise ValueError(
            f"{name} holds text (such as {example[:20]!r}) in column {shown(text)}: expected "
            f"numbers. {_advice_on_text(example, describes)}"
        )
    if odd:
        raise ValueError(
            f"{name} holds values of type {frame.schema[odd[0]]} in column {shown(odd)}: expected "
            f"numbers. Convert them to numbers, such as days since a fixed date."
        )


def _advice_on_text(example: str, describes: bool) -> str:
    """Return what to do with text in a table of numbers, by one of its cells."""
    if re.fullmatch(r"[-+]?\d*,\d+", example.strip()):
        return "Write decimals with a point."
    advice = "Put ids in the index of a pandas frame or in the first column of any other"
    if describes:
        return f"{advice}; for SMILES, use dyadlearn.kernels.chemistry.Fingerprints."
    return f"{advice}."


def library_of(value: Any) -> str | None:
    """Return the library of a frame, a series or an index; None for other objects."""
    library = type(value).__module__.partition(".")[0]
    return library if library in _FRAMES else None


def like_inputs(table: Table, *inputs: Any) -> Any:
    """Return a table in the type of the inputs: a `Table`, a frame or an array."""
    if any(isinstance(item, Table) for item in inputs):
        return table
    return table.restore(table.values)


def is_whole(values: Any) -> bool:
    """Return whether all values of a table, besides its ids, are whole numbers or booleans, which have no precision."""
    if isinstance(values, Table):
        values = values.values
    if is_foreign(values):
        return bool(namespace(values).isdtype(values.dtype, ("bool", "integral")))
    if not isinstance(values, np.ndarray | list | tuple) and not is_sparse(values):
        import narwhals as nw

        frame = nw.from_native(values, allow_series=True, pass_through=True)
        if isinstance(frame, nw.Series):
            return _is_whole_type(frame.dtype)
        if isinstance(frame, nw.DataFrame):
            return all(_is_whole_type(dtype) for dtype in frame.schema.values())
    if hasattr(values, "dtype"):
        dtype = values.dtype
    else:
        dtype = np.asarray(values).dtype
    return dtype.kind in "biu"


def _is_whole_type(dtype: Any) -> bool:
    """Return whether a type of narwhals is of whole numbers or booleans, or of ids."""
    import narwhals as nw

    return _is_text(dtype) or dtype.is_integer() or isinstance(dtype, nw.Boolean)


def _is_text(dtype: Any) -> bool:
    """Return whether a type of narwhals is of text or categories."""
    import narwhals as nw

    return isinstance(dtype, nw.String | nw.Categorical | nw.Enum)


def _column_ids(labels: Iterable[Any], name: str, axis: str | None = None) -> Ids:
    """Return the ids of columns. A name that is neither text nor a whole number, such as a wavelength, becomes text."""
    texts = []
    for label in labels:
        is_id = isinstance(label, str | int) or is_missing(label)
        texts.append(label if is_id else str(label))
    return make_ids(texts, axis, f"The columns of {name}")


def in_order(
    labels: Any,
    row_ids: Ids | None,
    column_ids: Ids | None,
    name: str,
    other: str = "the training data",
    *,
    n_columns: int | None = None,
) -> Any:
    """Return labels as an array, groups and folds in their own type, in the order of the given ids if both have ids.

    Parameters
    ----------
    labels : array-like, series or frame, or None
        One label per row, or one per cell.
    row_ids, column_ids : Ids or None
        The order of the result.
    name, other : str
        Names of the labels, and of the data they are matched with, in messages.
    n_columns : int, default=None
        Number of columns of groups or folds, which may be text or any other values; None only
        allows numbers.
    """
    if labels is None:
        return None
    are_words = n_columns is not None
    table = read_table(labels, name, of_words=are_words, n_columns=n_columns, describes=False)
    table = table.rows_as(row_ids, name, other)
    table = table.columns_as(column_ids, f"the columns of {name}", other)
    if table.kind is None or are_words:
        return table.values
    return np.asarray(table.values)


def in_rows_of(values: Any, table: Any, name: str, other: str) -> Any:
    """Return values of the rows of a long table, after checking that their index is that of the table.

    Values or tables without an index go by position, and so does the default index 0, 1, 2, … of
    one of them beside other ids. The same ids in another order are refused: a user may have meant
    the ids, and scikit-learn, which shuffles labels with their index, the positions.

    Parameters
    ----------
    values : array-like or series
        One value for each row of the table; anything else is returned as it is.
    table : frame, or mapping of names to columns
        The index of a mapping is that of its first series.
    name, other : str
        Names of the values and of the table in messages.

    Raises
    ------
    IdError
        If both have an index of pandas, and these differ.
    """
    return in_order_of(values, index_of_rows(table), name, other)


def in_order_of(values: Any, wanted: Any, name: str, other: str) -> Any:
    """Return values of the rows of a long table, as `in_rows_of` does, given the index of the table or None."""
    given = _index_of(values)
    if given is None or wanted is None or given.equals(wanted):
        return values
    remedy = f"To match by position, pass {name}.to_numpy()."
    if sorted(map(repr, given)) == sorted(map(repr, wanted)):
        raise IdError(
            f"The index of {name} has the ids of {other} in another order. To match by ids, sort "
            f"one like the other, for example by .loc. {remedy}"
        )
    if _is_numbered(given) or _is_numbered(wanted):
        return values
    ids = (Ids(tuple(given.tolist())), Ids(tuple(wanted.tolist())))
    try:
        ids[0].order_as(ids[1], f"the index of {name}", f"the index of {other}")
    except IdError as error:
        raise IdError(f"{error} {remedy}") from None
    raise IdError(f"The index of {name} is not that of {other}. {remedy}")


def index_of_rows(table: Any) -> Any:
    """Return the index of a long table of pandas, or of a mapping of names to columns; None for other tables."""
    columns = table.values() if isinstance(table, Mapping) else (table,)
    return next((index for index in map(_index_of, columns) if index is not None), None)


def _index_of(table: Any) -> Any:
    """Return the index of a frame or series of pandas; None for other objects."""
    if library_of(table) is None:
        return None
    import narwhals as nw

    frame = nw.from_native(table, allow_series=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.Series):
        return None
    return nw.maybe_get_index(frame)


def _is_numbered(index: Any) -> bool:
    """Return whether an index is the default one: 0, 1, 2 and so on."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def write_table(values: Array, row_ids: Ids | None, column_ids: Ids | None, kind: Any) -> Any:
    """Return `values` (n, q) or (n,) as a frame or series of library `kind` with its ids.

    Rows or columns without ids are numbered.
    """
    import narwhals as nw

    if kind == "pandas":
        return _write_pandas(values, row_ids, column_ids)
    if values.ndim == 1:
        return nw.new_series("", values, backend=kind).to_native()
    columns: Iterable[Any] = range(values.shape[1])
    if column_ids is not None:
        columns = text_ids(column_ids, "The columns", str).labels
    names = [str(label) for label in columns]
    data: dict[str, Any] = {}
    if row_ids is not None:
        # A column holds values of one type.
        if len(set(map(type, row_ids.labels))) != 1:
            row_ids = text_ids(row_ids, "The rows", str)
        data[free_name(row_ids.name or "id", names)] = list(row_ids.labels)
    for position, name in enumerate(names):
        data[name] = values[:, position]
    return nw.from_dict(data, backend=kind).to_native()


def _write_pandas(values: Array, row_ids: Ids | None, column_ids: Ids | None) -> Any:
    """Return `values` (n, q) or (n,) as a frame or series of pandas."""
    import pandas as pd

    index = None
    if row_ids is not None:
        index = pd.Index(list(row_ids.labels), name=row_ids.name)
    if values.ndim == 1:
        return pd.Series(values, index=index)
    columns = None
    if column_ids is not None:
        columns = pd.Index(list(column_ids.labels), name=column_ids.name)
    return pd.DataFrame(values, index=index, columns=columns)


def id_text(label: Any) -> str:
    """Return an id as text for files and the command line, without surrounding blanks; empty for None."""
    if label is None:
        return ""
    if isinstance(label, bytes):
        text = label.decode()
    else:
        text = str(label)
    return text.strip()


def text_ids(ids: Ids, owner: str, text: Callable[[Any], str] = id_text) -> Ids:
    """Return ids as text; raise if two are the same there, such as 1 and "1".

    Parameters
    ----------
    ids : Ids
    owner : str
        Name of their owners in messages.
    text : callable
        Converts an id to text.
    """
    texts: dict[str, Hashable] = {}
    for label in ids.labels:
        other = texts.setdefault(text(label), label)
        if other is not label:
            raise IdError(
                f"{owner} have the ids {quoted(other)} and {quoted(label)}, which are the same as "
                f"text: rename one, or use pandas."
            )
    return Ids(tuple(texts), ids.name)


def free_name(name: str, taken: Container[str]) -> str:
    """Return `name`, lengthened until no column has it."""
    while name in taken:
        name += "_"
    return name


def _frame_library(kind: str | None) -> Any:
    """Return the library that a frame is written in: `kind`, else pandas or polars."""
    library = kind or next((name for name in ("pandas", "polars") if find_spec(name)), None)
    if library is None:
        raise ImportError("A data frame needs its library: install pandas or polars.")
    return library


def write_rows(columns: Mapping[str, Sequence[Any]], kind: str | None) -> Any:
    """Return a small frame of library `kind`, or of the first installed of pandas and polars."""
    import narwhals as nw

    return nw.from_dict(dict(columns), backend=_frame_library(kind)).to_native()
