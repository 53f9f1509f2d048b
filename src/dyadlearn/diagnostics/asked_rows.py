"""Rows of a table of known and new entities: which of them a model can predict, and why it cannot predict others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._tables import Columns, shown
from dyadlearn._text import joined
from dyadlearn.exceptions import IdError
from dyadlearn.settings import Setting
from dyadlearn.sides import plural


@dataclass(frozen=True)
class Reason:
    """Why a row of a table has no prediction: a kind, such as "unknown", and the side or setting it is about."""

    kind: str
    of: str

    def __str__(self) -> str:
        return f"{self.kind} {self.of}"


@dataclass(frozen=True, eq=False)
class AskedSide:
    """The instances, or the tasks, of the rows of a table.

    Attributes
    ----------
    name : str
        Word for an instance or a task.
    labels : sequence of length n
        The id of each row; None if it is missing, or if its structure is not valid.
    known : integer array of shape (n,)
        Positions in training, -1 for new ids.
    is_described : array of bool of shape (n,)
        Whether the model can describe a new id.
    column : str
        Name of the column; empty if it has none.
    what : {"structure", "id"}
        What the column holds.
    """

    name: str
    labels: Sequence[Any]
    known: np.ndarray
    is_described: np.ndarray
    column: str = ""
    what: str = "structure"

    @property
    def is_invalid(self) -> np.ndarray:
        """Which rows have no id."""
        return np.array([label is None for label in self.labels], dtype=bool)

    @property
    def is_unknown(self) -> np.ndarray:
        """Which rows have an id that is neither in training nor described."""
        is_unknown: np.ndarray = (self.known < 0) & ~self.is_described & ~self.is_invalid
        return is_unknown

    def unknown(self, is_unknown: np.ndarray) -> str:
        """Return a sentence about the unknown ids of some rows."""
        rows = np.flatnonzero(is_unknown).tolist()
        fresh = list(dict.fromkeys(self.labels[row] for row in rows))
        where = f" in column {self.column!r}" if self.column else ""
        return (
            f"{len(fresh):,} of the {self.name} ids{where} are not in the model, which knows "
            f"nothing else of {plural(self.name)}: {shown(fresh)} ({len(rows):,} of "
            f"{len(is_unknown):,} rows)."
        )


@dataclass(frozen=True, eq=False)
class AskedRows:
    """Rows of a table to predict.

    Attributes
    ----------
    sides : (AskedSide, AskedSide)
    settings : sequence of Setting
        Settings that the model predicts.
    name_of_row : callable
        Function of a row that returns its name in sentences.
    """

    sides: tuple[AskedSide, AskedSide]
    settings: Sequence[Setting]
    name_of_row: Callable[[int], str]

    @cached_property
    def reasons(self) -> np.ndarray:
        """Why each row has no prediction; None for rows with one."""
        is_new = [side.known < 0 for side in self.sides]
        letters = np.array([setting.value for setting in Setting])[is_new[0] + 2 * is_new[1]]
        reasons = np.full(len(letters), None, dtype=object)
        for setting in set(Setting).difference(self.settings):
            reasons[letters == setting.value] = Reason("setting", setting.value)
        for side in self.sides:
            reasons[side.is_unknown] = Reason("unknown", side.name)
        for side in self.sides:
            reasons[side.is_invalid] = Reason("no valid", side.name)
        return reasons

    @cached_property
    def sentences(self) -> list[str]:
        """A sentence for each kind of reason: how many rows it concerns, and which."""
        n_rows = len(self.reasons)
        sentences = []
        invalid = self._rows_of("no valid")
        if invalid.size:
            verb = "lacks" if invalid.size == 1 else "lack"
            words = " or ".join(dict.fromkeys(side.what for side in self.sides))
            sentences.append(
                f"{invalid.size:,} of {n_rows:,} rows {verb} a valid {words}; the first is "
                f"{self.name_of_row(int(invalid[0]))}."
            )
        for side in self.sides:
            is_unknown = self.reasons == Reason("unknown", side.name)
            if is_unknown.any():
                sentences.append(side.unknown(is_unknown))
        refused = self._rows_of("setting")
        if refused.size:
            letters = sorted({reason.of for reason in self.reasons[refused]})
            predicted = joined([setting.value for setting in self.settings])
            sentences.append(
                f"{refused.size:,} of {n_rows:,} rows are in setting {joined(letters)}, and the "
                f"model predicts {predicted} only."
            )
        return sentences

    def _rows_of(self, kind: str) -> np.ndarray:
        """Return the rows with a kind of reason."""
        kinds = [None if reason is None else reason.kind for reason in self.reasons]
        return np.flatnonzero([found == kind for found in kinds])

    def check(self, source: str) -> None:
        """Raise IdError that begins with the name of the table if no row can be predicted."""
        if not is_predicted(self.reasons).any():
            raise IdError(f"{source}: no row can be predicted. {' '.join(self.sentences)}")

    def located(
        self, describe: Callable[[list[Hashable], int], Any]
    ) -> tuple[list[np.ndarray], list[Any]]:
        """Return the rows with a prediction in the form that `predict_mixed` takes.

        Parameters
        ----------
        describe : callable
            Function of new ids and their side, 0 or 1, that returns the table of these ids.

        Returns
        -------
        places : list of two integer arrays
        new : list of two tables
            None for a side without new ids.
        """
        rows = np.flatnonzero(is_predicted(self.reasons)).tolist()
        places = []
        new = []
        for axis, side in enumerate(self.sides):
            known = side.known[rows].tolist()
            labels = [side.labels[row] for row in rows]
            pairs = list(zip(labels, known, strict=True))
            fresh = list(dict.fromkeys(label for label, place in pairs if place < 0))
            number = {label: -1 - k for k, label in enumerate(fresh)}
            at = [place if place >= 0 else number[label] for label, place in pairs]
            places.append(np.array(at, dtype=np.intp))
            new.append(describe(fresh, axis) if fresh else None)
        return places, new


def is_predicted(reasons: np.ndarray) -> np.ndarray:
    """Return which rows have a prediction, because they have no reason for none."""
    return np.array([reason is None for reason in reasons], dtype=bool)


def columns_of_rows(predicted: Mapping[str, Sequence[Any]], reasons: np.ndarray) -> Columns:
    """Return columns of all rows, from those of the rows with a prediction; None in other rows.

    If some rows have no prediction, the column ``no_prediction`` says why.
    """
    rows = np.flatnonzero(is_predicted(reasons))
    columns: Columns = {}
    for name, values in predicted.items():
        column: list[Any] = [None] * len(reasons)
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        columns[name] = column
    if len(rows) < len(reasons):
        columns["no_prediction"] = [None if reason is None else str(reason) for reason in reasons]
    return columns
