"""What a fitted model has learned from, as everything outside the models reads it, and intervals of predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, namespace, take_block, take_rows
from dyadlearn._checks import check_share
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.exceptions import IdError
from dyadlearn.holdout import Problem, Units, leave_out
from dyadlearn.holdout.intervals import Bounds, FlatIntervals, Intervals
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.labels import Labels
from dyadlearn.models.reading import among
from dyadlearn.models.side import Side
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.base import check_request
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import Solution


class HeldOut(NamedTuple):
    """Predictions of a model for labels that it has not seen.

    Attributes
    ----------
    predictions : array of the shape of the labels' values
    method : str
        How they were made, in words.
    units : Units
        What left together.
    is_fixed : bool
        Whether they are those of the model as it is: another one that was fitted again has no kernels in common.
    """

    predictions: Array
    method: str
    units: Units
    is_fixed: bool = True


@dataclass(frozen=True, eq=False)
class Predicting:
    """How rows of a user are read, and predicted for, by a fitted estimator; labels it may have none.

    Attributes
    ----------
    form : Table
        Without values: the ids of instances and tasks as the user knows them, and the form that the labels came in.
    estimator : estimator
        The fitted model of a grid; of a `PairRegressor` the one that it wraps.
    """

    form: Table
    estimator: Any

    @property
    def instance_ids(self) -> Ids | None:
        """The ids of the instances as the user knows them."""
        return self.form.row_ids

    @property
    def task_ids(self) -> Ids | None:
        """The ids of the tasks as the user knows them."""
        return self.form.column_ids

    @property
    def descriptions(self) -> list[dict[str, tuple[Any, Ids | None]]]:
        """What each side was described by: its kernel and the names of its columns, by names; "" is a single table."""
        sides = zip(self.estimator._descriptions, self.estimator._columns, strict=True)
        return [
            {name: (spec, names if name == "" else spec.columns) for name, spec in specs.items()}
            for specs, (_, names) in sides
        ]

    def describe(self, wanted: Sequence[Hashable], axis: int) -> Any:
        """Return what tables of the user say of instances (axis 0) or tasks; None without tables."""
        return None

    def given(self, values: Any, axis: int) -> Any:
        """Return instances (axis 0) or tasks of the user as the estimator takes them."""
        return values

    def rows(self, X: Any) -> tuple[Table, Any]:
        """Return instances to predict for, read and checked: their ids, and their rows; None is those of training."""
        return self.estimator._instance_rows(X)  # type: ignore[no-any-return]

    def columns(self, tasks: Any) -> tuple[Table | None, Any]:
        """Return tasks to predict for, as `rows` returns instances."""
        return self.estimator._task_rows(tasks)  # type: ignore[no-any-return]

    @cached_property
    def expansion(self) -> Any:
        """What rows of each side are multiplied by: `grid` and `at` return predictions."""
        return self.estimator._expansion()

    def predict(self, rows: Any = None, columns: Any = None) -> Array:
        """Return predictions (a, b) for rows of each side; None stands for those of training."""
        return self.expansion.grid(rows, columns)

    def predicted(self, X: Any, tasks: Any) -> Table:
        """Return predictions for instances and tasks as the user has them, with their ids."""
        return self.estimator._predicted(X, tasks)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Fitted(Predicting):
    """The labels of a fitted estimator and what can be asked of it; its attribute `fitted_`.

    Attributes
    ----------
    form, estimator : as in `Predicting`
    labels : Labels
        Those that the model was fitted on.
    settings : tuple of Setting
        Those that the model can be asked about.
    """

    labels: Labels
    settings: tuple[Setting, ...]

    @property
    def is_network(self) -> bool:
        """Whether both sides are the same nodes, so that a pair stands in the grid twice."""
        return self.symmetry != 0

    @property
    def symmetry(self) -> int:
        """0, or in a network what the labels equal their transpose times."""
        return 0

    @property
    def task_ids(self) -> Ids | None:
        """The ids of the tasks as the user knows them; those of the nodes of a network."""
        return self.form.column_ids or (self.form.row_ids if self.is_network else None)

    @property
    def completed(self) -> Array:
        """The labels (m, q), the model's own predictions where they are missing."""
        labels, predictions = self.labels.dense().values, self.predict()
        xp = namespace(labels)
        return xp.where(xp.isnan(labels), predictions, labels)

    @property
    def problem(self) -> Problem:
        """The model of pairs with its labels; TypeError if the estimator has no closed form."""
        raise TypeError(
            f"{type(self.estimator).__name__} has no closed form, which this needs: fit TwoStepRidge on the labels."
        )

    @property
    def searched_setting(self) -> Setting | None:
        """The setting that a search has chosen for; None for a model that has chosen nothing."""
        own = getattr(self.estimator, "holdout_setting_", None)
        return None if own is None else as_setting(own)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the estimator was fitted with, whatever was set since."""
        return self.estimator._solved_with  # type: ignore[no-any-return]

    def places(self, X: Any, tasks: Any) -> list[np.ndarray | None]:
        """Return where instances and tasks stand in training, -1 for new ones; None where they are all of it."""
        found: list[np.ndarray | None] = []
        for given, read, ids in ((X, self.rows, self.instance_ids), (tasks, self.columns, self.task_ids)):
            table, rows = (None, None) if given is None else read(given)
            found.append(None if table is None or rows is None else training_places(rows, table.row_ids, ids))
        return found

    def check(self, setting: Setting) -> None:
        """Raise ValueError if the model cannot be asked about a setting."""
        if setting not in self.settings:
            raise ValueError(
                f"Setting {setting.value} predicts new tasks, of which this {type(self.estimator).__name__} knows "
                "nothing: fit it with tasks=, the features or kernel of the training tasks."
            )

    def hold_out(
        self,
        setting: Setting,
        *,
        cv: Any = None,
        groups: Any = None,
        task_groups: Any = None,
        nested: bool = False,
        exact: bool = False,
    ) -> HeldOut:
        """Predict every label as if the estimator had never seen what the setting leaves out.

        Parameters
        ----------
        setting : Setting
        cv : int, SettingKFold or list of folds, default=None
            Folds to leave out. Without folds and groups a search returns the predictions it keeps of its own setting,
            and for the others `dyadlearn.holdout.plan` decides.
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            What is left out together, in the order of the training data; ignored in settings that leave none out.
        nested : bool, default=False
            Whether a model that learned its kernels learns them again without each fold.
        exact : bool, default=False
            Whether complete labels are left out one at a time, by formulas, whatever `cv` is.
        """
        how = {
            "cv": cv,
            "groups": groups if setting.new_instance else None,
            "task_groups": task_groups if setting.new_task else None,
        }
        return self.estimator._hold_out(setting, **how, nested=nested, exact=exact)  # type: ignore[no-any-return]

    def refitter(self, setting: Setting) -> Callable[[Labels], Any]:
        """Return a function that fits the estimator, its search included, to other labels of the same rows.

        Parameters
        ----------
        setting : Setting
            What the estimator that the function returns will be asked for.
        """
        return self.estimator._refitter(setting)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class FittedRidge(Fitted):
    """The labels, the decomposed sides and the model of pairs of a fitted estimator.

    Attributes
    ----------
    labels, form, estimator, settings : as in `Fitted`
    posed : Problem
        The model of pairs with its labels, as they were fitted.
    closed : Problem
        The same model with completed labels, to which closed forms apply.
    sides : tuple of Side
        The decomposed instances and, where the model has them, tasks.
    coefficients : array
        As the model of pairs has them.

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

    posed: Problem
    closed: Problem
    sides: tuple[Side, ...]
    coefficients: Array

    @property
    def problem(self) -> Problem:
        """The model of pairs with its labels, as they were fitted; ValueError if the labels describe its sides."""
        if self.estimator.describes_by_labels:
            raise ValueError(
                "This model describes instances or tasks by profiles of the labels that would be left out, so that it "
                "cannot be held out with its kernels as they are: use its own holdout(), evaluate(), which learns them "
                "again, or fit it with stages=1."
            )
        return self.posed

    def check(self, setting: Setting) -> None:
        """Raise ValueError if the model cannot be asked about a setting."""
        self.estimator._check_request(setting)

    @property
    def pairing(self) -> Pairing:
        """The model of pairs."""
        return self.posed.pairing

    @property
    def solution(self) -> Solution:
        """What an iterative solver found; no iterations for a closed form."""
        return self.estimator._iterated  # type: ignore[no-any-return]

    @property
    def completed(self) -> Array:
        """The labels (m, q), the model's own predictions where they are missing."""
        return super().completed if self.labels.grid is None else self.closed.Y

    @property
    def symmetry(self) -> int:
        """0, or in a network what the labels equal their transpose times."""
        return self.pairing.symmetry

    def leave_out(self, setting: str | Setting, units: Units | None = None) -> Array:
        """Return the prediction of each label by a model without its unit; None leaves out one at a time.

        The kernels are those of the fit. A model that learned them from the labels has `holdout` for more.
        """
        setting, units = as_setting(setting), Units() if units is None else units
        check_request(self.pairing, setting, units.instances, units.tasks, units.cells)
        return leave_out(self.problem, setting, units)


def as_fitted(model: Any) -> Any:
    """Return what a fitted estimator has learned from, or what is that already."""
    if isinstance(model, Fitted):
        return model
    check_is_fitted(model)
    return model.fitted_


def predicting(model: Any) -> Predicting:
    """Return how a fitted model predicts, labels or not: a growing one keeps statistics only."""
    if isinstance(model, Predicting) or not getattr(model, "grows", False):
        return as_fitted(model)  # type: ignore[no-any-return]
    check_is_fitted(model)
    return model._predicting()  # type: ignore[no-any-return]


# Intervals: which pairs are new, and how, and what held-out residuals say of them -------------------------------------


def training_places(rows: Any, ids: Ids | None, training: Ids | None) -> np.ndarray:
    """Return where each of n rows stands in training, -1 for new ones; rows without ids are new.

    Parameters
    ----------
    rows : NewRows, or array of shape (n, d)
        As they are read; those that are decomposed may know their places.
    ids, training : Ids or None
        Those of the rows and of training.
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
    rows: tuple[Any, Any],
    ids: tuple[Ids | None, Ids | None],
    places: tuple[np.ndarray | None, np.ndarray | None],
    coverage: Any,
    setting: Any,
) -> Bounds:
    """Return lower and upper bounds as arrays (a, b).

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
        Of the same model.
    rows : (rows or None, rows or None)
        Instances and tasks that are asked for; None stands for those of training.
    ids : (Ids or None, Ids or None)
        Of these.
    places : (integer array or None, integer array or None)
        Where they stand in training, -1 for new ones.
    coverage, setting : as in `PairwiseRidge.predict_interval`
    """
    coverage = check_share(coverage, "coverage")
    new: tuple[bool | None, bool | None] = (None, None)
    if setting is not None:
        chosen = as_setting(setting)
        fitted.check(chosen)
        new = (chosen.new_instance, chosen.new_task)
    sides = zip(rows, ids, places, fitted.labels.shape, new, (("X", "instances"), ("tasks", "tasks")), strict=True)
    where, others = (_checked_places(*side) for side in sides)
    if isinstance(intervals, FlatIntervals):
        centre, reach = fitted.predict(*rows), np.empty((where.size, others.size))
        for each in Setting:
            asked = np.ix_((where < 0) == each.new_instance, (others < 0) == each.new_task)
            if reach[asked].size:
                reach[asked] = intervals.reach(each, coverage)
        width = as_array_of(reach, centre, centre.dtype)
        return centre - width, centre + width
    blocks: list[list[Bounds]] = []
    for here, is_new in _kinds(where):
        new_rows = rows[0].take(here) if is_new else None
        blocks.append([])
        for there, is_new_task in _kinds(others):
            new_columns = rows[1].take(there) if is_new_task else None
            blocks[-1].append(_block(fitted, intervals, new_rows, new_columns, where[here], others[there], coverage))
    xp = namespace(blocks[0][0][0])
    back = [np.argsort(np.concatenate([kind for kind, _ in _kinds(each)])) for each in (where, others)]
    lower, upper = (
        take_block(xp.concat([xp.concat([block[end] for block in row], axis=1) for row in blocks]), *back)
        for end in (0, 1)
    )
    return lower, upper


def _checked_places(
    rows: Any, ids: Ids | None, places: np.ndarray | None, size: int, new: bool | None, words: tuple[str, str]
) -> np.ndarray:
    """Return where each row of a side stands in training, -1 for new ones; `new` says that all are new, or none."""
    name, what = words
    if rows is None or places is None:
        if new:
            raise ValueError(f"The setting is one of new {what}: give {name}, or a setting in which these are known.")
        return np.arange(size)
    if new is False and (places < 0).any():
        known = own_ids(ids)
        if known is None:
            raise ValueError(
                f"The setting is one of known {what}, but {name} has no ids, and rows without ids count as new: leave "
                f"{name} out, or give ids to it and to the labels."
            )
        unknown = [known.labels[place] for place in np.flatnonzero(places < 0)]
        raise IdError(
            f"The setting is one of known {what}, but {shown(unknown)} were not in training: leave them out, or ask "
            "for another setting."
        )
    return np.full(_size(rows), -1) if new else places


def _kinds(places: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Return which rows are known, and which are new, with whether they are new."""
    kinds = [(np.flatnonzero(places >= 0), False), (np.flatnonzero(places < 0), True)]
    return [kind for kind in kinds if kind[0].size] or kinds[1:]


def _block(
    fitted: Fitted,
    intervals: Intervals,
    rows: Any,
    columns: Any,
    places: np.ndarray,
    task_places: np.ndarray,
    coverage: float,
) -> Bounds:
    """Return bounds of pairs of one setting; rows, or columns, that are None are those at some places in training."""
    if rows is not None and columns is not None:
        return intervals.new_both(rows, columns, fitted.predict(rows, columns), coverage)
    if rows is not None:
        lower, upper = intervals.new_rows(rows, fitted.predict(rows, None), coverage)
        return take_rows(lower.T, task_places).T, take_rows(upper.T, task_places).T
    if columns is not None:
        whole, sign = fitted.predict(None, columns).T, fitted.symmetry
        if sign:
            # A new vertex has the same neighbours whichever side it stands on, of the other sign in one kind.
            lower, upper = intervals.new_rows(columns, sign * whole, coverage)
            lower, upper = (lower, upper) if sign > 0 else (-upper, -lower)
        else:
            lower, upper = intervals.mirrored.new_rows(columns, whole, coverage)
        return take_rows(lower.T, places), take_rows(upper.T, places)
    lower, upper = intervals.known(fitted.completed, coverage)
    return take_block(lower, places, task_places), take_block(upper, places, task_places)


def predicted_intervals(
    fitted: Fitted, intervals: Any, X: Any, tasks: Any, coverage: float, setting: str | Setting | None
) -> tuple[Any, Any]:
    """Return lower and upper bounds as `PairwiseRidge.predict_interval` does.

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
    X, tasks, coverage, setting : as in `PairwiseRidge.predict_interval`
    """
    predicted, (instances, rows) = fitted.predicted(X, tasks), fitted.rows(X)
    task_table, task_rows = fitted.columns(tasks)
    ids = (instances.row_ids, None if task_table is None else task_table.row_ids)
    places = [
        None if asked is None else training_places(asked, own, known)
        for asked, own, known in zip((rows, task_rows), ids, (fitted.instance_ids, fitted.task_ids), strict=True)
    ]
    given = ((rows, task_rows), ids, (places[0], places[1]))
    ends, model = interval_grids(fitted, intervals, *given, coverage, setting), fitted.estimator
    lower, upper = (predicted.restore(model._home(model._in_form(end) if tasks is None else end)) for end in ends)
    return lower, upper


def _size(rows: Any) -> int:
    """Return the number of rows, decomposed or as they came."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else int(rows.size)
