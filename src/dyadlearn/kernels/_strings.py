"""Things that come as text, such as molecules and sequences: read with their ids, sifted, written back with them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from dyadlearn._array import is_sparse
from dyadlearn._checks import check_choice
from dyadlearn._memory import check_memory
from dyadlearn._tables import Ids, make_ids, read_table, write_table


@dataclass(frozen=True)
class Strings:
    """Texts in order, with their ids where they came with any.

    Attributes
    ----------
    values : list of length n
        Strings, and whatever else was found where a string belongs.
    what : str
        What messages call them, such as "molecules".
    ids : Ids or None
    kind : str or None
        The library of the frame or series they came in, None for plain sequences.
    """

    values: list[Any]
    what: str
    ids: Ids | None = None
    kind: str | None = None

    @property
    def labels(self) -> list[Hashable]:
        """The ids, or positions where there are none."""
        return list(range(len(self.values))) if self.ids is None else list(self.ids.labels)

    def sift(self, wrong: Mapping[int, str], on_error: str | None) -> Strings:
        """Return the texts that are valid; the others raise or are left out.

        Parameters
        ----------
        wrong : mapping of int to str
            Positions of the texts that are not valid, and why.
        on_error : {"raise", "drop"} or None
            None raises too, where leaving out is not possible.
        """
        if on_error is not None:
            check_choice(on_error, "on_error", ("raise", "drop"))
        if not wrong:
            return self
        labels = self.labels
        kept = [position for position in range(len(self.values)) if position not in wrong]
        name = "" if self.ids else "position "
        listed = [f"{name}{labels[position]!r} ({reason})" for position, reason in sorted(wrong.items())]
        shown = ", ".join(listed[:20]) + (", …" if len(listed) > 20 else "")
        message = f"{len(wrong)} of {len(self.values)} {self.what} are not valid: {shown}"
        if on_error == "drop" and kept:
            warnings.warn(f"{message}. They are left out.", UserWarning, stacklevel=4)
            ids = Ids(tuple(labels[position] for position in kept), self.ids.name if self.ids else None)
            return Strings([self.values[position] for position in kept], self.what, ids, self.kind)
        hint = ', or leave them out with on_error="drop"' if on_error == "raise" else ""
        raise ValueError(f"{message}. Correct or remove them{hint}.")

    def write(self, values: Any, column_ids: Ids | None) -> Any:
        """Return a matrix (n, d) in the kind of container the texts came in, with their ids."""
        if self.kind is None:
            return values
        if is_sparse(values):
            # As models compute on floats, that is what the frame will cost.
            purpose = f"A frame of {values.shape[1]} columns (a plain list would give a sparse matrix)"
            check_memory(8 * values.shape[0] * values.shape[1], None, purpose)
            values = values.toarray()
        return write_table(values, self.ids, column_ids, self.kind)


def read_strings(texts: Any, what: str, ids: Sequence[Hashable] | None = None) -> Strings:
    """Read texts and their ids out of whatever holds them.

    Parameters
    ----------
    texts : sequence, mapping of id to text, series, or frame with one column of text
        The ids of a pandas series or frame are its index. In another frame of two columns the first holds ids.
    what : str
        What messages call the texts.
    ids : sequence, optional
        One per text, where `texts` has none of its own.
    """
    found = _read(texts, what)
    if not found.values:
        raise ValueError(f"There are no {what}: found an empty {type(texts).__name__}.")
    if ids is None:
        return found
    if found.ids is not None:
        raise ValueError(f"ids were given twice: the {what} come with ids of their own.")
    labels = list(ids)
    if len(labels) != len(found.values):
        raise ValueError(f"ids must name each of the {len(found.values)} {what}, found {len(labels)}.")
    return Strings(found.values, what, make_ids(labels, None, "ids"), found.kind)


def _read(texts: Any, what: str) -> Strings:
    if isinstance(texts, str | bytes):
        raise TypeError(f"{what} must be several: put a single text into a list.")
    if isinstance(texts, Mapping):
        return Strings(list(texts.values()), what, make_ids(list(texts), None, f"The mapping of {what}"))
    import narwhals as nw

    frame: Any = nw.from_native(texts, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and len(frame.columns) == 1:
        texts = frame.get_column(frame.columns[0]).to_native()
    elif not isinstance(frame, nw.DataFrame | nw.Series | list | tuple | np.ndarray):
        try:
            texts = list(texts)
        except TypeError:
            raise TypeError(f"{what} must be a sequence of text, found {type(texts).__name__}.") from None
    table = read_table(texts, f"the {what}", of_words=True)
    values = np.asarray(table.values, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        place = "the index of a pandas frame, or the first of two columns of any other"
        raise ValueError(f"{what} must be one column of text, found shape {values.shape}; ids belong in {place}.")
    return Strings(values.tolist(), what, table.row_ids, table.kind)


class TextStep(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step of a pipeline that takes text."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class TextFeatures(TextStep):
    """A step of a pipeline that computes the features of each text on its own, so that nothing is learned in `fit`.

    A subclass has `get_feature_names_out`, ``_check_parameters()``, which raises if a parameter is out of range, and
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
            A frame or series gives a frame with the same ids, anything else a sparse array.
        """
        texts, features = self._computed(X)
        names = None if texts.kind is None else Ids(tuple(self.get_feature_names_out()))
        return texts.write(features, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def shortened(text: Any) -> str:
    """Return the beginning of a text, quoted."""
    return repr(text) if not isinstance(text, str) or len(text) <= 40 else repr(text[:40]) + "…"
