"""Training data and predictions of a fitted model, as other packages read them, and prediction intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, namespace, take_block, take_rows, to_numpy
from dyadlearn._checks import check_share
from dyadlearn._codes import nearly_identical_rows
from dyadlearn._messages import Message
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.exceptions import IdError, NothingLeftError, UnboundedIntervalWarning
from dyadlearn.holdout import Problem, Units, leave_out
from dyadlearn.holdout.folds import warn_of_merged_groups
from dyadlearn.holdout.intervals import Bounds, FlatIntervals, Intervals, largest_coverage
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.labels import Labels
from dyadlearn.models.reading import among, cells_of, groups_in_order
from dyadlearn.models.side import Side
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.base import check_request
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import Solution


class HeldOut(NamedTuple):
    """Held-out predictions of all labels.

    Attributes
    ----------
    predictions : array of the shape of the labels' values
    method : str
        Description of the hold-out method, for reports.
    units : Units
        Folds of instances, tasks or pairs.
    is_fixed : bool
        Whether the predictions use the kernels of the fitted model. False if a model with other
        kernels was fitted for each fold.
    reason : str
        The method and why it was chosen; empty if it was not planned.
    """

    predictions: Array
    method: str
    units: Units
    is_fixed: bool = True
    reason: str = ""


class Asked(NamedTuple):
    """Rows of one side to predict for.

    Attributes
    ----------
    rows : NewRows, array or None
        The rows; None means all training rows.
    ids : Ids or None
        Ids of the rows.
    places : integer array or None
        Training positions of the rows, -1 for new rows; not used if `rows` is None.
    """

    rows: Any
    ids: Ids | None
    places: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Predicting:
    """Interface for predictions of a fitted estimator, which need not store its labels.

    Attributes
    ----------
    form : Table
        Table without values: the user's ids of instances and tasks, and the type of the labels.
    estimator : estimator
        The fitted grid model; for a `PairRegressor`, the wrapped model.
    """

    form: Table
    estimator: Any

    @property
    def instance_ids(self) -> Ids | None:
        """The user's ids of the instances; None means no ids."""
        return self.form.row_ids

    @property
    def task_ids(self) -> Ids | None:
        """The user's ids of the tasks; None means no ids."""
        return self.form.column_ids

    @property
    def descriptions(self) -> list[dict[str, tuple[Any, Ids | None]]]:
        """Kernel and column names of each description of each side, by name; a single table has the name ""."""
        return self.estimator._descriptions  # type: ignore[no-any-return]

    def describe(self, wanted: Sequence[Hashable], axis: int) -> Any:
        """Return the rows of some instances (axis 0) or tasks in the user's tables; None without tables."""
        return None

    def given(self, values: Any, axis: int) -> Any:
        """Return the user's instances (axis 0) or tasks in the form that the estimator accepts."""
        return values

    def rows(self, X: Any) -> tuple[Table, Any]:
        """Return the ids and checked rows of instances to predict for; None means the training instances."""
        return self.estimator._instance_rows(X)  # type: ignore[no-any-return]

    def columns(self, tasks: Any) -> tuple[Table | None, Any]:
        """Return the ids and checked rows of tasks to predict for; None means the training tasks."""
        return self.estimator._task_rows(tasks)  # type: ignore[no-any-return]

    @cached_property
    def expansion(self) -> Any:
        """Coefficients, as an object whose methods `grid` and `at` return predictions."""
        return self.estimator._expansion()

    def predict(self, rows: Any = None, columns: Any = None) -> Array:
        """Return predictions (a, b) for rows of each side; None means the training rows."""
        return self.expansion.grid(rows, columns)

    def predicted(self, X: Any, tasks: Any) -> Table:
        """Return predictions for the user's instances and tasks, with their ids."""
        return self.estimator._predicted(X, tasks)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Fitted(Predicting):
    """Labels, supported settings and hold-out of a fitted estimator; its attribute `fitted_`.

    Attributes
    ----------
    form, estimator : as in `Predicting`
    labels : Labels
        Training labels.
    settings : tuple of Setting
        Settings that the model supports.
    """

    labels: Labels
    settings: tuple[Setting, ...]

    @property
    def is_network(self) -> bool:
        """Whether instances and tasks are the same nodes; then each pair is in the grid twice."""
        return self.symmetry != 0

    @property
    def symmetry(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ; 0 if the model is not a network."""
        return 0

    @property
    def task_ids(self) -> Ids | None:
        """The user's ids of the tasks, or of the nodes of a network; None means no ids."""
        return self.form.column_ids or (self.form.row_ids if self.is_network else None)

    @property
    def completed(self) -> Array:
        """Labels (m, q), with predictions in place of missing labels."""
        labels = self.labels.dense().values
        predictions = self.predict()
        xp = namespace(labels)
        return xp.where(xp.isnan(labels), predictions, labels)

    @property
    def problem(self) -> Problem:
        """Pairing with its labels; raises TypeError if the estimator has no closed form."""
        raise TypeError(
            f"{type(self.estimator).__name__} has no closed form: fit TwoStepRidge on the labels."
        )

    @property
    def searched_setting(self) -> Setting | None:
        """Setting for which a search has chosen its parameters; None for a model without a search."""
        setting = getattr(self.estimator, "holdout_setting_", None)
        return None if setting is None else as_setting(setting)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator at its last fit."""
        return self.estimator._solved_with  # type: ignore[no-any-return]

    def places(self, X: Any, tasks: Any) -> list[np.ndarray | None]:
        """Return training positions of instances and of tasks, -1 for new rows; None means all training rows."""
        return [side.places for side in self.asked(*self.estimator._asked(X, tasks))]

    def asked(self, form: Table, rows: Sequence[Any]) -> list[Asked]:
        """Return the rows of each side to predict for, with their ids, which are those of `form`."""
        sides = zip(
            rows, (form.row_ids, form.column_ids), (self.instance_ids, self.task_ids), strict=True
        )
        return [
            Asked(each, ids, None if each is None else training_places(each, ids, known))
            for each, ids, known in sides
        ]

    def check(self, setting: Setting) -> None:
        """Raise ValueError if the model does not support the setting."""
        if setting not in self.settings:
            raise ValueError(
                Message(
                    "Setting {setting} predicts new tasks: fit with <tasks=>, their features or "
                    "kernel.",
                    setting=setting.value,
                )
            )

    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for training instances (axis 0) or tasks with equal descriptions; None without any."""
        return self.estimator._data.identical(axis)  # type: ignore[no-any-return]

    def in_groups(self, groups: Any, task_groups: Any) -> list[Any]:
        """Return groups of instances and of tasks, which may be "identical", in the order of the training data."""
        return groups_in_order(self, groups, task_groups)

    def in_folds(self, cells: Any) -> Any:
        """Return the fold of each label, of the shape of the labels' values, in the order of the training data."""
        return cells_of(self.labels, self.form, cells)

    def hold_out(
        self,
        setting: Setting,
        *,
        cv: Any = None,
        groups: Any = None,
        task_groups: Any = None,
        nested: bool = False,
        exact: bool = False,
        method: str | None = None,
    ) -> HeldOut:
        """Predict every label by a model that was fitted without what the setting leaves out.

        Parameters
        ----------
        setting : Setting
        cv : int, SettingKFold or list of folds, default=None
            Folds to leave out. Without folds and groups, a search returns the stored predictions of
            the setting for which it was fitted; in all other cases `dyadlearn.holdout.plan` chooses
            the method.
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            Groups that are left out together, in the order of the training data. They are ignored
            in settings that do not leave out that side.
        nested : bool, default=False
            Whether a model with learned kernels learns them again without each fold.
        exact : bool, default=False
            Whether complete labels are left out one at a time by the exact formula; `cv` is then
            ignored.
        method : {"exact", "folds"}, default=None
            Method to use, as in `dyadlearn.holdout.plan`; stored predictions are not returned then.
        """
        groups = groups if 0 in setting.new else None
        task_groups = task_groups if 1 in setting.new else None
        held_out: HeldOut = self.estimator._hold_out(
            setting, cv, groups, task_groups, nested, exact, method
        )
        if cv is None:
            together = Units.of_groups(self.labels, setting, (groups, task_groups))
            warn_of_merged_groups(together, held_out.units, setting, stacklevel=4)
        return held_out

    def refitter(self, setting: Setting) -> Callable[[Labels], Any]:
        """Return a function that fits the estimator, its search included, to other labels of the same rows.

        Parameters
        ----------
        setting : Setting
            Setting in which the refitted estimator will predict.
        """
        return self.estimator._refitter(setting)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class FittedRidge(Fitted):
    """Labels, decomposed sides and pairing of a fitted kernel ridge model.

    Attributes
    ----------
    labels, form, estimator, settings : as in `Fitted`
    training_problem : Problem
        Pairing with the training labels.
    completed_problem : Problem
        The same pairing with completed labels, which has a closed form.
    sides : tuple of Side
        Decomposed instances and, if the model has a task side, tasks.
    coefficients : array
        Coefficients of the pairing.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(6, 2)), rng.normal(size=(4, 3)), rng.normal(size=(6, 4))
    >>> fitted = TwoStepRidge().fit(X, Y, tasks=T).fitted_
    >>> fitted.labels, fitted.leave_out("B").shape, fitted.predict().shape
    (Labels(24 of 6 × 4), (6, 4), (6, 4))
    """

    training_problem: Problem
    completed_problem: Problem
    sides: tuple[Side, ...]
    coefficients: Array

    @property
    def problem(self) -> Problem:
        """Pairing with the training labels; raises ValueError if labels are also features of a side."""
        if self.estimator.describes_by_labels:
            raise ValueError(
                Message(
                    "This model uses profiles of the labels as features, so it has no hold-out "
                    "formula: use [model.holdout() or evaluate()|dyadlearn evaluate], or fit the "
                    "model with <stages=1>."
                )
            )
        return self.training_problem

    def check(self, setting: Setting) -> None:
        """Raise ValueError if the model does not support the setting."""
        self.estimator._check_request(setting)

    @property
    def pairing(self) -> Pairing:
        """Pairing: the model of pairs."""
        return self.training_problem.pairing

    @property
    def solution(self) -> Solution:
        """Solution of the iterative solver; a closed form has zero iterations."""
        return self.estimator._iterated  # type: ignore[no-any-return]

    @property
    def completed(self) -> Array:
        """Labels (m, q), with predictions in place of missing labels."""
        return super().completed if self.labels.grid is None else self.completed_problem.Y

    @property
    def symmetry(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ; 0 if the model is not a network."""
        return self.pairing.symmetry

    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for training rows of a side with equal rows of the kernel; None without such a side."""
        spectra = [side.spectrum for side in self.sides] * (2 if self.is_network else 1)
        if axis < len(spectra):
            return nearly_identical_rows(spectra[axis].vectors, spectra[axis].values)
        return None

    def leave_out(self, setting: str | Setting, units: Units | None = None) -> Array:
        """Return held-out predictions of all labels; without `units`, one label, row or column is left out at a time.

        The kernels are not learned again. For a model with learned kernels see `holdout`.
        """
        setting = as_setting(setting)
        units = Units() if units is None else units
        check_request(self.pairing, setting, units.sides, units.cells)
        return leave_out(self.problem, setting, units)


def as_fitted(model: Any) -> Any:
    """Return the attribute `fitted_` of an estimator; return a `Fitted` object unchanged."""
    if isinstance(model, Fitted):
        return model
    check_is_fitted(model)
    return model.fitted_


def predicting(model: Any) -> Predicting:
    """Return the prediction interface of a fitted model, also for online models that do not store labels."""
    if isinstance(model, Predicting) or not getattr(model, "grows", False):
        return as_fitted(model)  # type: ignore[no-any-return]
    check_is_fitted(model)
    return model._predicting()  # type: ignore[no-any-return]


# Prediction intervals: find out which rows are new, and compute the bounds -------------------------------------

# Training positions of the instances and of the tasks to predict for, -1 for new ones.
Places = tuple[np.ndarray, np.ndarray]


def training_places(rows: Any, ids: Ids | None, training: Ids | None) -> np.ndarray:
    """Return the training position of each of n rows, -1 for new rows; rows without ids are new.

    Parameters
    ----------
    rows : NewRows, or array of shape (n, d)
        Rows as read; decomposed rows may store their positions.
    ids, training : Ids or None
        Ids of the rows and of the training rows.
    """
    places: np.ndarray | None = getattr(rows, "places", None)
    if places is not None:
        return places
    known = own_ids(ids)
    if known is None or training is None:
        return np.full(_size(rows), -1)
    return among(known.labels, training.labels)


def interval_grids(
    fitted: Fitted,
    intervals: Any,
    asked: Sequence[Asked],
    coverage: Any,
    setting: Any,
    pairs: Any = None,
) -> Bounds:
    """Return lower and upper bounds as arrays (a, b), with a warning if some are infinite.

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
        Interval estimator of the same model.
    asked : (Asked, Asked)
        Instances and tasks to predict for.
    coverage, setting : as in `PairwiseRidge.predict_interval`
    pairs : (integer array, integer array), default=None
        Positions of the pairs that are asked for; None means all pairs.
    """
    coverage = check_share(coverage, "coverage")
    is_new_side: tuple[bool | None, bool | None] = (None, None)
    if setting is not None:
        chosen = as_setting(setting)
        fitted.check(chosen)
        is_new_side = (0 in chosen.new, 1 in chosen.new)
    sides = zip(
        asked,
        fitted.labels.shape,
        is_new_side,
        (("X", "instances"), ("tasks", "tasks")),
        strict=True,
    )
    where, others = (_checked_places(*side) for side in sides)
    rows = [side.rows for side in asked]
    bounds_of = _flat_bounds if isinstance(intervals, FlatIntervals) else _local_bounds
    bounds = bounds_of(fitted, intervals, rows, (where, others), coverage)
    infinite = np.isinf(to_numpy(bounds[0])) | np.isinf(to_numpy(bounds[1]))
    if pairs is not None:
        asked_for = np.zeros_like(infinite)
        asked_for[pairs] = True
        infinite &= asked_for
    if infinite.any():
        _warn_of_infinite(fitted, intervals, infinite, (where, others), coverage)
    return bounds


def _flat_bounds(
    fitted: Fitted, intervals: FlatIntervals, rows: Sequence[Any], places: Places, coverage: float
) -> Bounds:
    """Return bounds of one width per setting, around the held-out predictions of observed pairs.

    Parameters
    ----------
    fitted : Fitted
    intervals : FlatIntervals
    rows : (rows, rows)
        Instances and tasks as read; None means the training rows.
    places : (integer array of shape (a,), integer array of shape (b,))
        Training positions of the instances and of the tasks, -1 for new ones.
    coverage : float
    """
    predicted = fitted.predict(*rows)
    centre = to_numpy(predicted).copy()
    reach = np.empty(predicted.shape)
    for each in Setting:
        block = np.ix_(*_inside(each, places))
        if reach[block].size:
            reach[block] = intervals.reach(each, coverage)
    old, old_tasks = (np.flatnonzero(inside) for inside in _inside(Setting.A, places))
    if np.isfinite(reach[np.ix_(old, old_tasks)]).any():
        at, task_at, held_out = intervals.known(places[0][old], places[1][old_tasks])
        centre[old[at], old_tasks[task_at]] = held_out
    lower, upper = (
        as_array_of(end, predicted, predicted.dtype) for end in (centre - reach, centre + reach)
    )
    return lower, upper


def _inside(setting: Setting, places: Places) -> list[np.ndarray]:
    """Return masks of the rows and of the columns of a setting, given their training positions, -1 for new ones."""
    return [(known < 0) == (axis in setting.new) for axis, known in enumerate(places)]


def _warn_of_infinite(
    fitted: Fitted, intervals: Any, infinite: np.ndarray, places: Places, coverage: float
) -> None:
    """Warn of infinite intervals (a, b), for which there are too few held-out residuals; `places` as in `_flat_bounds`.

    A new instance is compared with the labels of each known task, a new task with those of each
    known instance, and all other pairs with all labels.
    """
    observed = fitted.labels.observed
    counts = list[int]()
    if fitted.is_network:  # the grid contains each edge twice
        observed = np.triu(observed)
    for setting in Setting:
        inside = _inside(setting, places)
        block = infinite[np.ix_(*inside)]
        if not block.any():
            continue
        if (
            fitted.labels.grid is None
            or isinstance(intervals, FlatIntervals)
            or setting in (Setting.A, Setting.D)
        ):
            counts.append(int(observed.sum()))
            continue
        axis = 0 if setting is Setting.B else 1
        beside = places[1 - axis][inside[1 - axis]][block.any(axis=axis)]
        edges = np.triu(observed, 1)
        per_row = (edges | edges.T if fitted.is_network else observed).sum(axis=axis)
        counts += per_row[beside].tolist()
    if min(counts) < max(counts):
        found = f"{min(counts)} to {max(counts)}"
    else:
        found = f"{counts[0]}"
    # One label has no residual: none remains to predict it from.
    most = largest_coverage(min(counts)) if min(counts) > 1 else 0.0
    if most:
        remedy = f"use a coverage of at most {most:g}, or give more labels"
    else:
        remedy = "give more labels"
    warnings.warn(
        f"Some intervals are infinite, because {found} held-out residuals are too few for a "
        f"coverage of {coverage:g}: "
        f"{remedy}.",
        UnboundedIntervalWarning,
        stacklevel=5,
    )


def _local_bounds(
    fitted: Fitted, intervals: Intervals, rows: Sequence[Any], places: Places, coverage: float
) -> Bounds:
    """Return bounds of local width; arguments as in `_flat_bounds`."""
    where, others = places
    blocks: list[list[Bounds]] = []
    for here, is_new in _kinds(where):
        new_rows = rows[0].take(here) if is_new else None
        blocks.append([])
        for there, is_new_task in _kinds(others):
            new = (new_rows, rows[1].take(there) if is_new_task else None)
            known = (where[here], others[there])
            try:
                bounds = _block(fitted, intervals, new, known, coverage)
            except NothingLeftError:
                bounds = _unbounded(fitted, new, known)
            blocks[-1].append(bounds)
    xp = namespace(blocks[0][0][0])
    back = [
        np.argsort(np.concatenate([kind for kind, _ in _kinds(each)])) for each in (where, others)
    ]
    lower, upper = (
        take_block(
            xp.concat([xp.concat([block[end] for block in row], axis=1) for row in blocks]), *back
        )
        for end in (0, 1)
    )
    return lower, upper


def _checked_places(
    asked: Asked, size: int, new: bool | None, words: tuple[str, str]
) -> np.ndarray:
    """Return the training position of each row, -1 for new rows; `new` forces all rows to be new (True) or known."""
    rows, ids, places = asked
    name, what = words
    if rows is None or places is None:
        if new:
            raise ValueError(
                f"The setting predicts new {what}: give {name}, or choose a setting with known "
                f"{what}."
            )
        return np.arange(size)
    if new is False and (places < 0).any():
        known = own_ids(ids)
        if known is None:
            raise ValueError(
                f"The setting predicts known {what}, but {name} has no ids, and rows without ids "
                f"count as new: leave "
                f"{name} out, or give ids to {name} and to the labels."
            )
        unknown = [known.labels[place] for place in np.flatnonzero(places < 0)]
        raise IdError(
            f"The setting predicts known {what}, but {shown(unknown)} are new: leave them out."
        )
    return np.full(_size(rows), -1) if new else places


def _kinds(places: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Return the positions of known rows and of new rows, each with whether they are new."""
    kinds = [(np.flatnonzero(places >= 0), False), (np.flatnonzero(places < 0), True)]
    return [kind for kind in kinds if kind[0].size] or kinds[1:]


def _block(
    fitted: Fitted,
    intervals: Intervals,
    new: tuple[Any, Any],
    known: tuple[np.ndarray, np.ndarray],
    coverage: float,
) -> Bounds:
    """Return bounds of pairs of one setting: of new rows, or of the known training positions if they are None."""
    rows, columns = new
    places, task_places = known
    if rows is not None and columns is not None:
        return intervals.new_both(rows, columns, fitted.predict(rows, columns), coverage)
    if rows is not None:
        lower, upper = intervals.new_rows(rows, fitted.predict(rows, None), coverage)
        return take_rows(lower.T, task_places).T, take_rows(upper.T, task_places).T
    if columns is not None:
        whole = fitted.predict(None, columns).T
        sign = fitted.symmetry
        if sign:
            # A new node has the same edges as instance and as task, with opposite signs if
            # antisymmetric.
            lower, upper = intervals.new_rows(columns, sign * whole, coverage)
            lower, upper = (lower, upper) if sign > 0 else (-upper, -lower)
        else:
            lower, upper = intervals.mirrored.new_rows(columns, whole, coverage)
        return take_rows(lower.T, places), take_rows(upper.T, places)
    lower, upper = intervals.known(fitted.completed, coverage)
    return take_block(lower, places, task_places), take_block(upper, places, task_places)


def predicted_intervals(
    fitted: Fitted,
    intervals: Any,
    X: Any,
    tasks: Any,
    coverage: float,
    setting: str | Setting | None,
    diagonals: tuple[Any, Any] = (None, None),
) -> tuple[Any, Any]:
    """Return lower and upper bounds as `PairwiseRidge.predict_interval` does.

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
    X, tasks, coverage, setting : as in `PairwiseRidge.predict_interval`
    diagonals : (diagonal, task_diagonal)
        As in `PairwiseRidge.predict_interval`.
    """
    model = fitted.estimator
    form, rows = model._asked(X, tasks)
    if any(given is not None for given in diagonals):
        rows = model._with_diagonals(form, rows, *diagonals)
    bounds = interval_grids(fitted, intervals, fitted.asked(form, rows), coverage, setting)
    lower, upper = (form.restore(model._home(bound)) for bound in bounds)
    return lower, upper


def _unbounded(
    fitted: Fitted, new: tuple[Any, Any], known: tuple[np.ndarray, np.ndarray]
) -> Bounds:
    """Return infinite bounds, which stand where no residual is known; NaN where the prediction is NaN."""
    predicted = fitted.predict(*new)
    if new[0] is None:
        predicted = take_rows(predicted, known[0])
    if new[1] is None:
        predicted = take_rows(predicted.T, known[1]).T
    return predicted - math.inf, predicted + math.inf


def _size(rows: Any) -> int:
    """Return the number of rows of an array or of decomposed rows."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else int(rows.size)
