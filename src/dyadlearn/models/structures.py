"""Tables of pairs of structures: their columns, and entities that are looked up by their structure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array
from dyadlearn._codes import Column, id_columns, series_column
from dyadlearn._tables import Ids, shown
from dyadlearn.kernels.structures import Structures


@dataclass(frozen=True, eq=False)
class StructuralEntities:
    """Entities whose ids are their structures; they are described when they are looked up.

    Attributes
    ----------
    structures : Structures
    side : str
        Name of the side in messages: "instances" or "tasks".
    """

    structures: Structures
    side: str

    #: Structures have neither names of features nor ids of all rows.
    names: ClassVar[None] = None
    base: ClassVar[None] = None

    @property
    def arrays(self) -> list[Array]:
        """An array of the precision of the features."""
        return [np.empty(0)]

    def looked_up(
        self,
        wanted: Sequence[Hashable],
        training: Sequence[Hashable],
        base: Ids | None = None,
        kernels: Collection[str] = (),
    ) -> Array:
        """Return the features of structures, or their alignments with those of training."""
        return self.structures.features(wanted, training)


def structure_columns(
    pairs: Any,
    structures: Sequence[Structures | None],
    names: Sequence[str] | None,
    *,
    skip_invalid: bool = False,
) -> list[tuple[Any, Any]] | Any:
    """Return pairs with canonical structures in place of the given ones; other pairs unchanged.

    Parameters
    ----------
    pairs : table of two columns; or frame with the named columns
    structures : (Structures or None, Structures or None)
        Of each side; None for a side with a table.
    names : (str, str) or None
        Names of the columns.
    skip_invalid : bool, default=False
        Whether structures that cannot be read are None instead of an error.
    """
    if all(side is None for side in structures):
        return pairs
    columns = list(id_columns(pairs, "pairs") if names is None else named_columns(pairs, names))
    for axis, side in enumerate(structures):
        if side is not None:
            columns[axis] = side.read(columns[axis], skip_invalid=skip_invalid)
    return list(zip(*columns, strict=True))


def named_columns(table: Any, names: Sequence[str]) -> list[Column]:
    """Return named columns of a frame; of an array or a list of rows with two columns, both of these."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return list(id_columns(table, "pairs"))
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"The table lacks the columns {shown(lacking)}: its columns are {shown(frame.columns)}."
        )
    return [series_column(frame.get_column(name)) for name in names]


def chosen_columns(smiles: Any, sequence: Any) -> list[tuple[str, str]]:
    """Return the kind and the name of both columns; raise unless there are two."""
    columns = []
    for kind, names in (("smiles", smiles), ("sequences", sequence)):
        if isinstance(names, str):
            columns.append((kind, names))
        else:
            columns += [(kind, name) for name in names or ()]
    if len(columns) != 2:
        raise ValueError(
            f"Name two columns of structures by smiles= and sequence=, one for each side, found "
            f"{len(columns)}."
        )
    return columns
