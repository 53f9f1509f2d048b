"""Access to the labels and held-out predictions of fitted models, and the base class of tabular results."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from html import escape
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import to_numpy
from dyadlearn._registry import listed
from dyadlearn._tables import Columns, Ids, Table, write_rows
from dyadlearn._text import html_table, number, printable
from dyadlearn.models.fitted import Fitted, FittedRidge
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.settings import Setting, as_settings

# Maximum number of rows that a notebook shows.
_SHOWN = 20


class Tabled:
    """Base class of results with rows and named columns."""

    def columns(self) -> Columns:
        """Return the result as named columns, for a data frame or a file."""
        raise NotImplementedError

    def frame(self) -> Any:
        """Return `columns` as a data frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)

    def _repr_html_(self) -> str:
        columns = self.columns()
        n_rows = len(next(iter(columns.values())))
        rows = []
        for row in islice(zip(*columns.values(), strict=True), _SHOWN):
            rows.append([number(value) for value in row])
        # Texts come first and are aligned to the left.
        n_texts = 0
        for column in columns.values():
            if any(isinstance(value, float) for value in column):
                break
            n_texts += 1
        table = html_table(list(columns), rows, n_texts)
        more = ""
        if n_rows > _SHOWN:
            more = f"<p>{n_rows - _SHOWN:,} more rows: see frame().</p>"
        return f"<p>{escape(printable(str(self)))}</p>{table}{more}"


# Default remedy in errors about models that do not store their labels.
REMEDY = "fit TwoStepRidge on the labels"


def fitted_of(model: Any, remedy: str = REMEDY) -> Fitted:
    """Return the attribute `fitted_` of a model; raise if the model does not store its labels.

    Parameters
    ----------
    model : fitted estimator
    remedy : str
        How to fix the problem, for the error message.

    Raises
    ------
    TypeError
        If the object is not a model of this package.
    ValueError
        If the model stores only statistics.
    """
    if isinstance(model, Fitted):
        return model
    if hasattr(model, "fit"):
        check_is_fitted(model)
    name = type(model).__name__
    grows = getattr(model, "grows", None)
    if grows and not model.keep_labels:
        raise ValueError(f"{name} keeps statistics only, not the labels: {remedy}.")
    fitted = getattr(model, "fitted_", None)
    if isinstance(fitted, Fitted):
        return fitted
    if isinstance(fitted, FittedMultiway):
        return fitted.problem  # type: ignore[no-any-return]  # raises
    raise TypeError(
        f"model must be a {listed(searches=False)}, one that chooses its regularisation, or a "
        f"PairRegressor of one, found {name}: {remedy}."
    )


def cells_of(model: Any) -> FittedMultiway:
    """Return `fitted_` of a `MultiwayRidge`; raise TypeError for another model."""
    check_is_fitted(model)
    if not isinstance(model.fitted_, FittedMultiway):
        raise TypeError(
            f"new= names sides of a MultiwayRidge, found {type(model).__name__}: give a setting."
        )
    return model.fitted_


def setting_or_new(setting: Any, new: Any) -> None:
    """Raise if a setting and the new sides of cells are both given, or neither."""
    if (setting is None) == (new is None):
        raise ValueError(
            "Give a setting for models of pairs, or new=, the names of the new sides, for a "
            "MultiwayRidge, and not both."
        )


def closed_form_of(model: Any, remedy: str = REMEDY) -> FittedRidge:
    """Return `fitted_` of a model with a closed form; arguments and errors as in `fitted_of`."""
    fitted = fitted_of(model, remedy)
    if not isinstance(fitted, FittedRidge):
        raise TypeError(f"{fitted.name} has no closed form, which this needs: {remedy}.")
    return fitted


def labels_of(fitted: Fitted) -> Table:
    """Return the training labels (m, q) of a model as a numpy array, with the user's ids."""
    return replace(
        fitted.form, values=to_numpy(fitted.labels.dense().values), column_ids=fitted.task_ids
    )


def known_settings(fitted: Fitted, settings: Iterable[str | Setting] = Setting) -> list[Setting]:
    """Return the given settings that the model supports, without repetitions."""
    return [
        setting for setting in dict.fromkeys(as_settings(settings)) if setting in fitted.settings
    ]


def held_out(fitted: Fitted, setting: Setting, cv: int | None = None) -> tuple[np.ndarray, str]:
    """Return the held-out predictions (m, q) that `dyadlearn.evaluate` scores, and the name of the method."""
    result = fitted.hold_out(setting, cv=cv, exact=True)
    return to_numpy(fitted.labels.spread(result.predictions)), result.method


def ids_at(ids: Ids | None, positions: np.ndarray) -> tuple[Hashable, ...]:
    """Return the ids at some positions, or the positions if there are no ids."""
    if ids is None:
        return tuple(positions.tolist())
    return ids.take(positions).labels
