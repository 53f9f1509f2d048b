"""Predictions for pairs of known and new entities in one call, each with its setting and its certainty."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import take_rows, to_numpy
from dyadlearn._checks import caller_level, check_share
from dyadlearn._codes import list_of, missing, pair_numbers
from dyadlearn._messages import Message
from dyadlearn._tables import Columns, Table, free_name, library_of, write_rows
from dyadlearn.diagnostics.asked_rows import AskedRows, AskedSide, columns_of_rows
from dyadlearn.diagnostics.calibration import calibrate
from dyadlearn.diagnostics.fitted import Tabled, fitted_of
from dyadlearn.exceptions import NoPredictionWarning
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.kernels.structures import Structures
from dyadlearn.labels import is_binary
from dyadlearn.models.fitted import Asked, Fitted
from dyadlearn.models.intervals import interval_grids
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

__all__ = ["MixedPredictions", "predict_mixed", "predict_table"]

# Numbers in the grid of one block of bounds.
_BLOCK = 2**21


@dataclass(frozen=True, eq=False, repr=False)
class MixedPredictions(Tabled):
    """Predictions of pairs with their settings; the result of `predict_mixed`.

    Attributes
    ----------
    settings : array of str of shape (n,)
        Setting of each pair, by which of its entities have a label in training.
    predictions : array of shape (n,)
    lower, upper : array of shape (n,) or None
        Bounds of the interval; None for labels of two values. The interval of a pair with a
        training label is around the prediction without that label.
    probabilities : array of shape (n,) or None
        Probability of the larger label; None if labels have other than two values.
    labels : array of shape (n,)
        The training label of each pair; NaN without one.
    coverage : float
    """

    settings: np.ndarray
    predictions: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    probabilities: np.ndarray | None
    labels: np.ndarray
    coverage: float

    @property
    def n_known(self) -> int:
        """Number of pairs with a training label."""
        return int(np.count_nonzero(~np.isnan(self.labels)))

    def __repr__(self) -> str:
        counts = [f"{letter.value}={(self.settings == letter.value).sum()}" for letter in Setting]
        return f"MixedPredictions of {len(self.settings)} pairs ({', '.join(counts)})"

    def columns(self) -> Columns:
        """Return the setting, the prediction and its certainty as named columns."""
        columns = {
            "setting": self.settings,
            "prediction": self.predictions,
            "lower": self.lower,
            "upper": self.upper,
            "probability": self.probabilities,
        }
        if self.n_known:
            columns["training_label"] = self.labels
        return {name: values.tolist() for name, values in columns.items() if values is not None}


def predict_mixed(
    model: Any,
    places: Sequence[np.ndarray],
    new: Sequence[Any] = (None, None),
    *,
    coverage: float = 0.9,
    prevalence: float | None = None,
) -> MixedPredictions:
    """Predict pairs of known and new entities, each in its own setting.

    Parameters
    ----------
    model : fitted estimator
    places : two integer arrays of shape (n,)
        The instance and the task of each pair: a position in training, or -1 - k for row k of `new`.
    new : two tables, default=(None, None)
        New instances and new tasks, as the model's `predict` takes them.
    coverage : float, default=0.9
        Coverage of the intervals.
    prevalence : float, default=None
        Base rate of the probabilities, as in `dyadlearn.calibrate`.

    Returns
    -------
    MixedPredictions
        Intervals, or probabilities if the labels have two values.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.diagnostics import predict_mixed
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(21, 3)), rng.normal(size=(15, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + 0.1 * rng.normal(size=(21, 15))
    >>> model = TwoStepRidge(0.1, 0.1).fit(X[:20], Y[:20], tasks=T)
    >>> result = predict_mixed(model, ([7, -1, -1], [3, 3, 8]), (X[20:], None))
    >>> result
    MixedPredictions of 3 pairs (A=1, B=2, C=0, D=0)
    >>> bool(((result.lower < result.predictions) & (result.predictions < result.upper))[1:].all())
    True
    """
    check_share(coverage, "coverage")
    fitted = fitted_of(model)
    if fitted.tables is not None:
        fitted = fitted.tables.fitted
    at = [np.asarray(side, dtype=np.intp) for side in places]
    is_new = [side < 0 for side in at]
    settings = np.array([letter.value for letter in Setting])[is_new[0] + 2 * is_new[1]]
    has_two = is_binary(fitted.labels.values)
    if prevalence is not None and not has_two:
        raise ValueError(
            Message("<prevalence> is for labels of two values: leave it out for intervals.")
        )
    of_bounds = None if has_two else coverage
    # Predictions, and lower and upper bounds of labels with many values.
    figures = np.full((1 if has_two else 3, len(settings)), np.nan)
    for setting in dict.fromkeys(map(Setting, settings.tolist())):
        fitted.check(setting)
        here = np.flatnonzero(settings == setting.value)
        rows = setting.of_new_sides(new)
        inside = [np.where(side[here] < 0, -1 - side[here], side[here]) for side in at]
        for block, asked, pairs in _blocks(fitted, setting, rows, inside):
            figures[:, here[block]] = _figures(fitted, asked, pairs, of_bounds)
    predicted, *bounds = figures
    labels = _training_labels(fitted, at)
    if has_two:
        probabilities = _probabilities(model, settings, predicted, at, prevalence)
        return MixedPredictions(settings, predicted, None, None, probabilities, labels, coverage)
    lower, upper = bounds
    return MixedPredictions(settings, predicted, lower, upper, None, labels, coverage)


def predict_table(
    model: Any, pairs: Any, *, coverage: float = 0.9, prevalence: float | None = None
) -> Any:
    """Return a table of pairs with the setting, the prediction and the certainty of each row.

    The table may mix pairs of known entities with pairs of new ones, which are in the tables of the
    model, or are structures if it was fitted by `PairRegressor.from_table`.

    Parameters
    ----------
    model : fitted PairRegressor
    pairs : array or frame of shape (n, 2); or frame with the columns of `PairRegressor.from_table`
        Rows that cannot be predicted stay in the table, with a `NoPredictionWarning`: those with a
        missing or unknown id, or with a structure that cannot be read.
    coverage : float, default=0.9
        Coverage of the intervals.
    prevalence : float, default=None
        Base rate of the probabilities, as in `dyadlearn.calibrate`.

    Returns
    -------
    frame
        The columns of `pairs`, then ``setting``; ``prediction``; ``lower`` and ``upper``, or
        ``probability`` if the labels have two values; ``training_label``, if some pairs are in
        training; and ``no_prediction``, if some rows have no prediction, which is then NaN, or null
        in polars.

    Raises
    ------
    IdError
        If no row can be predicted.

    Examples
    --------
    >>> import pandas as pd
    >>> from dyadlearn import KroneckerRidge, PairRegressor, predict_table
    >>> x = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 6.0]}, index=list("abcde"))
    >>> pairs = [(i, t) for i in "abcd" for t in "abcd"]
    >>> y = [x.x[i] * x.x[t] for i, t in pairs]
    >>> model = PairRegressor(KroneckerRidge(1e-6), instances=x, tasks=x).fit(pairs, y)
    >>> predict_table(model, [("a", "e"), ("e", "e")], coverage=0.6).round(1)[["setting", "prediction"]]
      setting  prediction
    0       C         6.0
    1       D        36.0
    """
    if not isinstance(model, PairRegressor):
        raise TypeError(
            f"predict_table takes a PairRegressor, found {type(model).__name__}: use predict_mixed."
        )
    asked, columns = _asked_rows(model, pairs)
    asked.check("pairs")
    if asked.sentences:
        warnings.warn(
            f"{' '.join(asked.sentences)} They have no prediction.",
            NoPredictionWarning,
            stacklevel=caller_level(),
        )
    places, new = asked.located(model.fitted_.tables.looked_up)
    result = predict_mixed(model, places, new, coverage=coverage, prevalence=prevalence)
    return _beside(pairs, columns, columns_of_rows(result.columns(), asked.reasons))


def _asked_rows(model: PairRegressor, pairs: Any) -> tuple[AskedRows, list[list[Any]]]:
    """Return which rows of a table of pairs can be predicted, and the ids of both sides, None if there is none."""
    fitted = model.fitted_
    tables = fitted.tables
    columns = []
    for column in model.id_columns(pairs, skip_invalid=True):
        absent = missing(column)
        ids = list_of(column)
        columns.append([None if lacks else label for label, lacks in zip(ids, absent, strict=True)])
    known = tables.places(columns)
    sides = []
    for axis, name in enumerate(SideNames()):
        is_structure = isinstance(tables.given_tables[axis], Structures)
        sides.append(
            AskedSide(
                name,
                columns[axis],
                known[axis],
                tables.lists(columns[axis], axis),
                what="structure" if is_structure else "id",
            )
        )
    return AskedRows((sides[0], sides[1]), fitted.settings, "row {}".format), columns


def _beside(pairs: Any, ids: Sequence[Any], figures: Columns) -> Any:
    """Return the columns of a table of pairs with figures beside them, as a frame."""
    import narwhals as nw

    frame: Any = nw.from_native(pairs, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        kind = None
        columns = {"instance": list(ids[0]), "task": list(ids[1])}
    else:
        kind = library_of(pairs)
        columns = {name: frame.get_column(name).to_list() for name in frame.columns}
    for name, values in figures.items():
        columns[free_name(name, columns)] = values
    return write_rows(columns, kind)


def _blocks(
    fitted: Fitted, setting: Setting, rows: Sequence[Any], at: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, list[Any], list[np.ndarray]]]:
    """Yield the positions of pairs, their new rows and their places, so that each grid of new rows is small."""
    if not setting.new:
        yield np.arange(len(at[0])), list(rows), list(at)
        return
    axis = setting.new[0]
    if len(setting.new) == 1:
        width = fitted.labels.shape[1 - axis]
    else:
        width = len(np.unique(at[1 - axis]))
    step = max(1, _BLOCK // max(1, width))
    entities = np.unique(at[axis])
    for start in range(0, len(entities), step):
        block = np.flatnonzero(np.isin(at[axis], entities[start : start + step]))
        asked = list(rows)
        pairs = [side[block] for side in at]
        for side in setting.new:
            taken, pairs[side] = np.unique(pairs[side], return_inverse=True)
            asked[side] = _taken(rows[side], taken)
        yield block, asked, pairs


def _taken(rows: Any, places: np.ndarray) -> Any:
    """Return some rows of a table."""
    if isinstance(rows, Table):
        return rows.take(places)
    if isinstance(rows, Descriptions):
        return rows[places]
    return take_rows(rows, places)


def _figures(
    fitted: Fitted, new: Sequence[Any], pairs: Sequence[np.ndarray], coverage: float | None
) -> np.ndarray:
    """Return the predictions of pairs of one setting and, with a coverage, both bounds: (1 or 3, n)."""
    _, rows = fitted.read(*new)
    predicted = to_numpy(fitted.expansion.at(*rows, tuple(pairs)))
    if coverage is None:
        return predicted[None]
    asked: list[Asked] = []
    for side, read in zip(new, rows, strict=True):
        places = None
        if side is not None:
            n_new = len(np.unique(pairs[len(asked)]))
            places = np.full(n_new, -1)
        asked.append(Asked(read, None, places))
    bounds = interval_grids(fitted, asked, coverage, pairs=(pairs[0], pairs[1]))
    lower, upper = (to_numpy(end)[pairs[0], pairs[1]] for end in bounds)
    return np.stack([predicted, lower, upper])


def _probabilities(
    model: Any,
    settings: np.ndarray,
    scores: np.ndarray,
    at: Sequence[np.ndarray],
    prevalence: float | None,
) -> np.ndarray:
    """Return calibrated probabilities of predictions; pairs of known entities use held-out scores."""
    asked = list(dict.fromkeys(settings.tolist()))
    calibration = calibrate(model, asked, prevalence=prevalence)
    probabilities = np.empty(len(scores))
    for letter, calibrated in calibration.settings.items():
        here = settings == letter
        values = scores[here]
        if letter == "A":
            values = calibrated.scores[at[0][here], at[1][here]]
        probabilities[here] = calibrated.mapping(values)
    return probabilities


def _training_labels(fitted: Fitted, at: Sequence[np.ndarray]) -> np.ndarray:
    """Return the training labels of pairs, NaN without one."""
    labels = fitted.labels
    n_tasks = labels.shape[1]
    observed = pair_numbers(*labels.places, n_tasks)
    values = to_numpy(labels.values)[labels.observed]
    order = np.argsort(observed, kind="stable")
    asked = np.where((at[0] >= 0) & (at[1] >= 0), pair_numbers(at[0], at[1], n_tasks), -1)
    found_at = np.minimum(np.searchsorted(observed[order], asked), len(observed) - 1)
    is_known = observed[order][found_at] == asked
    return np.where(is_known, values[order][found_at], np.nan)
