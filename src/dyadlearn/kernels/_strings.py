"""Texts with ids, such as molecules and sequences: reading, validation, and output with the same ids."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dyadlearn._array import array_bytes, is_sparse
from dyadlearn._checks import check_choice
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._tables import Ids, make_ids, read_table, write_table


@dataclass(frozen=True)
class Strings:
    """Texts in order, with their ids if they have any.

    Attributes
    ----------
    values : list of length n
        Strings; other objects in the input are kept here, to be reported as not valid.
    what : str
        Name of the texts in messages, such as "molecules".
    ids : Ids or None
    kind : str or None
        Library of the input frame or series; None for plain sequences.
    """

    values: list[Any]
    what: str
    ids: Ids | None = None
    kind: str | None = None

    @property
    def labels(self) -> list[Hashable]:
        """The ids, or positions if there are none."""
        if self.ids is None:
            return list(range(len(self.values)))
        return list(self.ids.labels)

    def sift(self, wrong: Mapping[int, str], on_error: str | None) -> Strings:
        """Return the valid texts; raise if others are present, or leave these out with a warning.

        Parameters
        ----------
        wrong : mapping of int to str
            Positions of the texts that are not valid, and why.
        on_error : {"raise", "drop", "skip"} or None
            None raises too, but the message does not suggest leaving texts out. "skip" leaves them
            out without a warning, also if no text is valid: the caller says it.
        """
        if on_error not in (None, "skip"):
            check_choice(on_error, "on_error", ("raise", "drop"))
        if not wrong:
            return self
        labels = self.labels
        valid = [position for position in range(len(self.values)) if position not in wrong]
        if on_error == "skip":
            return self._only(valid)
        name = "" if self.ids else "position "
        reasons = []
        for position, reason in sorted(wrong.items())[:20]:
            reasons.append(f"{name}{labels[position]!r} ({reason})")
        if len(wrong) > 20:
            reasons.append("…")
        message = f"Not valid: {len(wrong)} of {len(self.values)} {self.what}: {', '.join(reasons)}"
        if on_error == "drop" and valid:
            warnings.warn(f"{message}. They are left out.", UserWarning, stacklevel=4)
            return self._only(valid)
        remedy = Message("Correct or remove them")
        if on_error == "raise":
            remedy = Message('{remedy}, or leave them out with <on_error="drop">', remedy=remedy)
        raise ValueError(Message("{message}. {remedy}.", message=message, remedy=remedy))

    def _only(self, positions: Sequence[int]) -> Strings:
        """Return some of the texts, with their ids or positions as ids."""
        labels = self.labels
        kept_labels = tuple(labels[position] for position in positions)
        ids = Ids(kept_labels, self.ids.name if self.ids else None)
        values = [self.values[position] for position in positions]
        return Strings(values, self.what, ids, self.kind)

    def write(self, values: Any, column_ids: Ids | None) -> Any:
        """Return a matrix (n, d) as a frame with the ids, if the input was a frame or series; otherwise unchanged."""
        if self.kind is None:
            return values
        if is_sparse(values):
            # Eight bytes each, as models convert the frame to floats.
            purpose = (
                f"A frame of {values.shape[1]} columns (a plain list would give a sparse matrix)"
            )
            check_memory(array_bytes(None, values.shape), None, purpose)
            values = values.toarray()
        return write_table(values, self.ids, column_ids, self.kind)


def read_strings(texts: Any, what: str, ids: Sequence[Hashable] | None = None) -> Strings:
    """Read texts and their ids from a sequence, mapping, series or frame.

    Parameters
    ----------
    texts : sequence, mapping of id to text, series, or frame with one column of text
        The ids of a pandas series or frame are its index. In another frame of two columns the first
        holds ids.
    what : str
        Name of the texts in messages.
    ids : sequence, optional
        One id for each text, if `texts` has no ids.
    """
    strings = _read(texts, what)
    if not strings.values:
        raise ValueError(f"There are no {what}: found an empty {type(texts).__name__}.")
    if ids is None:
        return strings
    if strings.ids is not None:
        raise ValueError(f"ids were given twice: the {what} have ids already, so leave ids out.")
    labels = list(ids)
    if len(labels) != len(strings.values):
        raise ValueError(
            f"ids must name each of the {len(strings.values)} {what}, found {len(labels)}."
        )
    return Strings(strings.values, what, make_ids(labels, None, "ids"), strings.kind)


def _read(texts: Any, what: str) -> Strings:
    """Read texts and their ids; parameters as in `read_strings`."""
    if isinstance(texts, str | bytes):
        raise TypeError(f"{what} must be several: put a single text into a list.")
    if isinstance(texts, Mapping):
        ids = make_ids(list(texts), None, f"The mapping of {what}")
        return Strings(list(texts.values()), what, ids)
    import narwhals as nw

    frame: Any = nw.from_native(texts, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and len(frame.columns) == 1:
        texts = frame.get_column(frame.columns[0]).to_native()
    elif not isinstance(frame, nw.DataFrame | nw.Series | list | tuple | np.ndarray):
        try:
            texts = list(texts)
        except TypeError:
            raise TypeError(
                f"{what} must be a sequence of text, found {type(texts).__name__}."
            ) from None
    table = read_table(texts, f"the {what}", of_words=True)
    values = np.asarray(table.values, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"{what} must be one column of text, found shape {values.shape}; ids belong in the "
            f"index of a pandas frame, or the first of two columns of any other."
        )
    return Strings(values.tolist(), what, table.row_ids, table.kind)


class TextStep(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of pipeline steps that take text."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class TextFeatures(TextStep):
    """Base class of pipeline steps that compute features of each text separately; `fit` learns nothing.

    A subclass has `get_feature_names_out`, ``_check_parameters()``, which raises if a parameter is
    out of range, and
    ``_computed(X, ids=None, on_error=None)``, which returns the valid texts and their features (n_kept, n_features).
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters.

        Parameters
        ----------
        X : sequence, series or one-column frame of n texts
        y : ignored
        """
        self._check_parameters()
        return self

    def transform(self, X: Any) -> Any:
        """Return the features.

        Parameters
        ----------
        X : sequence, series or one-column frame of n texts

        Returns
        -------
        sparse array, or frame, of shape (n, n_features)
            A frame with the same ids if `X` is a frame or series; otherwise a sparse array.
        """
        texts, features = self._computed(X)
        names = None
        if texts.kind is not None:
            names = Ids(tuple(self.get_feature_names_out()))
        return texts.write(features, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def shortened(text: Any) -> str:
    """Return the beginning of a text, quoted."""
    if not isinstance(text, str) or len(text) <= 40:
        return repr(text)
    return repr(text[:40]) + "…"
