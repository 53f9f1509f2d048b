"""Explanation of a prediction by the contributions of the training labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import array_bytes, is_sparse, to_numpy
from dyadlearn._checks import check_choice, check_whole
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._tables import Columns, Ids, Table, free_name
from dyadlearn.diagnostics.contributions import (
    Contribution,
    Contributions,
    Listing,
    Weighed,
    figures_of,
    largest,
    of_side,
)
from dyadlearn.diagnostics.explaining_cells import CellExplanation, explain_cells
from dyadlearn.diagnostics.fitted import closed_form_of, ids_at
from dyadlearn.labels import Labels
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.models.reading import Tasks
from dyadlearn.pairing.base import has_task_constants
from dyadlearn.pairing.expansion import Asked
from dyadlearn.pairing.weighing import Weigher, label_weigher
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["CellExplanation", "Contribution", "Contributions", "Explanation", "explain"]

_CHOSEN = "The weights assume a fixed regularisation; the search might choose another one if a label changed."
_LEARNED = "The weights assume fixed kernels; other kernels might be learned if a label changed."
# Number of arrays of the shape of the labels in memory: positions, weights, contributions, masks
# and orders.
_ARRAYS = 10.0
# Values of the parameter `sort`.
_SORTS = ("contribution", "weight")
_REMEDY = "fit TwoStepRidge on the labels, whose predictions can be explained"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Weighed):
    """Contributions to one prediction; the result of `explain`.

    Attributes
    ----------
    prediction : float
        Prediction of the model, which is the sum of all contributions.
    instance, task : id or position
        Ids of the predicted pair; for a new row the id that it came with, or None.
    label : float
        Label of the pair if it is a labelled training pair, otherwise NaN. Such a label is one of
        the contributions.
    setting : str
        What is new: nothing (A), the instance (B), the task (C), or both (D).
    instances, tasks, pairs : Contributions
        Contributions by training instance, by training task, and by pair. In a network an edge is
        one pair, and each of its nodes gets half of its contribution.
    weights : array of shape (m, q)
        Weight of every training label; zero for missing labels. A sparse array if the model was
        fitted on a list of observed pairs.
    mean : float
        Mean of the training labels.
    sort : {"contribution", "weight"}
        What the lists are sorted by.
    sides : SideNames
        Names of an instance and of a task.
    notes : tuple of str
        Notes on the validity of the weights.
    """

    prediction: float
    instance: Hashable
    task: Hashable
    label: float
    setting: str
    instances: Contributions
    tasks: Contributions
    pairs: Contributions
    weights: np.ndarray | sparse.csr_array
    mean: float
    sort: str = "contribution"
    sides: SideNames = field(default_factory=SideNames)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if len(self.pairs):
            first = f", largest {self.sort}: pair {self.pairs.ids[0]!r}"
        else:
            first = ""
        return f"Explanation({self.prediction:.4g} for {self.subject}{first})"

    @property
    def is_network(self) -> bool:
        """Whether both sides are the same nodes; then they are listed once."""
        return self.sides.instance == self.sides.task

    @property
    def subject(self) -> str:
        """Description of the predicted pair."""
        words = []
        ids = (self.instance, self.task)
        for name, label, is_new in zip(self.sides, ids, self.is_new, strict=True):
            words_of_side = f"a new {name}" if is_new else name
            if label is not None:
                words_of_side += f" {label!r}"
            words.append(words_of_side)
        return " and ".join(words)

    @property
    def is_new(self) -> tuple[bool, bool]:
        """Whether the instance and the task are new."""
        setting = Setting(self.setting)
        return 0 in setting.new, 1 in setting.new

    def by(self, by: str) -> Contributions:
        """Return the contributions of pairs, of instances or of tasks.

        Parameters
        ----------
        by : {"pair", "instance", "task"}
        """
        lists = {"pair": self.pairs, "instance": self.instances, "task": self.tasks}
        return lists[check_choice(by, "by", tuple(lists))]

    def columns(self, by: str = "pair") -> Columns:
        """Return the listed contributions as named columns, for a data frame or a file.

        Parameters
        ----------
        by : {"pair", "instance", "task"}, default="pair"
            How contributions are grouped. For instances and tasks, the column ``mean_label`` is the
            mean of their labels.
        """
        listed = self.by(by)
        label = "label" if by == "pair" else "mean_label"
        figures = figures_of(listed, label)
        columns: Columns = {}
        if by == "pair":
            for side, name in enumerate(self.sides.headings(figures)):
                columns[name] = [pair[side] for pair in listed.ids]
        else:
            name = free_name(getattr(self.sides, by), figures)
            columns[name] = list(listed.ids)
        return {**columns, **figures}


def explain(
    model: Any,
    instance: Any,
    task: Any = None,
    *,
    n: int = 10,
    sort: str = "contribution",
    sides: Any = None,
) -> Any:
    r"""Return the contribution of each training label to one prediction, or to several.

    All kernel ridge models are linear in their labels, so a prediction is

    .. math:: f = \sum_{ij} w_{ij} Y_{ij} .

    The weight :math:`w_{ij}` is exactly the increase of the prediction if this label were larger by
    one and the model were refitted with the same regularisation. The contributions :math:`w_{ij}
    Y_{ij}` are summed by training instance, by training task and by pair; each of the three sums to
    the prediction. They explain the prediction of the model, not the causes of the labels.

    The prediction is also the sum of two shares: that of the mean of all labels, and that of the
    deviations of the labels from it (`share_of_mean` and `share_of_deviations`).

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or array or frame of shape (1, d)
        Id of a training instance or task, or its position if the labels have no ids. For a new one:
        one row with its features, or with its kernel values to the training rows. A list of ids
        explains several pairs, which takes less time than one at a time. Two lists are read pair by
        pair; one list is combined with one id or row. For a `MultiwayRidge`, `instance` is a cell, a
        dict with the id of each side and the value of each fixed column, or a table of cells; it
        has no `task`.
    n : int, default=10
        Number of contributions to list by instance, by task and by pair.
    sort : {"contribution", "weight"}, default="contribution"
        Whether to list the largest contributions, or the labels, instances and tasks with the
        largest weights, whatever their labels. A label of zero contributes nothing, but its weight
        explains a low prediction.
    sides : (str, str), default=None
        Names of an instance and of a task, such as ``("host", "parasite")``.

    Returns
    -------
    Explanation, or list of Explanation if `instance` or `task` is a list of ids
        For a `MultiwayRidge` a `CellExplanation`, or a list for a table of cells.

    Raises
    ------
    ValueError
        If the model does not store its labels, if the prediction of a pair is NaN, or if two lists
        differ in length.

    See Also
    --------
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, explain
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(30, 3)), rng.normal(size=(20, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(30, 20))
    >>> model = TwoStepRidge().fit(X, Y, tasks=T)
    >>> explanation = explain(model, 4, [[0.5, -1.0]], n=3)
    >>> explanation
    Explanation(2.916 for instance 4 and a new task, largest contribution: pair (4, 7))
    >>> predicted = model.predict(tasks=np.array([[0.5, -1.0]]))[4, 0]
    >>> bool(np.isclose(explanation.prediction, predicted))
    True
    >>> [round(of_task.prediction, 3) for of_task in explain(model, 4, [0, 1])]
    [-3.832, 0.499]
    """
    check_whole(n, "n")
    check_choice(sort, "sort", _SORTS)
    if isinstance(getattr(model, "fitted_", None), FittedMultiway):
        return explain_cells(model.fitted_, instance, task, sides, (n, sort))
    if task is None:
        raise TypeError("task is missing: only a prediction of MultiwayRidge is that of one cell.")
    fitted = closed_form_of(model, _REMEDY)
    names = side_names(sides, network=fitted.is_network)
    instances = _as_list(instance)
    tasks = _as_list(task)
    count = max(len(instances), len(tasks))
    if not {len(instances), len(tasks)} <= {1, count}:
        raise ValueError(
            f"instance and task must be lists of one length, found {len(instances)} and "
            f"{len(tasks)} ids."
        )
    rows = [_read_row(fitted, value, 0) for value in instances] * (count // len(instances))
    columns = [_read_row(fitted, value, 1) for value in tasks] * (count // len(tasks))
    weigher = _weigher(fitted, count)
    listed = fitted.labels.listed()
    listed = replace(listed, values=to_numpy(listed.values))
    lists = Listing(n, sort, names)
    explanations = []
    for row, column in zip(rows, columns, strict=True):
        explanations.append(_explanation(fitted, listed, (row, column), weigher, lists))
    are_several = instances is instance or tasks is task
    return explanations if are_several else explanations[0]


def _weigher(fitted: FittedRidge, count: int) -> Weigher:
    """Check the memory for a number of predictions, and return what computes the weights of their labels."""
    problem = fitted.training_problem
    values = problem.labels.values
    weigher = label_weigher(
        problem.pairing,
        problem.labels,
        count,
        tol=problem.tol,
        max_iter=problem.max_iter,
        problem=problem,
    )
    need = array_bytes(values, (_ARRAYS, *values.shape), weigher.numbers)
    m, q = problem.labels.shape
    purpose = f"Weighing {problem.labels.size} of {m} × {q} labels"
    check_memory(need, values, purpose)
    return weigher


def _as_list(value: Any) -> Any:
    """Return a list of ids as it is, and a list that contains a single id or row."""
    if not isinstance(value, list) or not value:
        return [value]
    are_ids = all(isinstance(label, str | int | np.integer) for label in value)
    return value if are_ids else [value]


class _Row(NamedTuple):
    """An instance or a task to explain a prediction for.

    Attributes
    ----------
    value : int or NewRows
        Position in training, or a new row.
    id : id, position or None
    """

    value: Asked
    id: Hashable

    @property
    def is_new(self) -> bool:
        """Whether it is not in training."""
        return not isinstance(self.value, int)


def _explanation(
    fitted: FittedRidge,
    labels: Labels,
    pair: tuple[_Row, _Row],
    weigher: Weigher,
    lists: Listing,
) -> Explanation:
    """Return the explanation of one pair, an instance and a task."""
    row, column = pair
    rows, columns = labels.places
    names = lists.names
    has_label = column.is_new or (columns == column.value).any()
    if has_task_constants(fitted.pairing) and not has_label:
        raise ValueError(
            Message(
                "Nothing is predicted for the {task} {task_id!r}, which has no label to estimate "
                "an intercept from: use <fit_intercept=False>, or a model with task features.",
                task=names.task,
                task_id=column.id,
            )
        )
    weights = to_numpy(weigher.weights(row.value, column.value))
    listed = weights[fitted.labels.observed]
    parts = labels.values * listed
    prediction = float(parts.sum(dtype=np.float64))
    if not np.isfinite(prediction):
        raise ValueError(
            f"The prediction for {row.id!r} and {column.id!r} is {prediction}: there is nothing to "
            f"explain."
        )
    is_new = (row.is_new, column.is_new)
    label = float("nan")
    if not any(is_new):
        for value in labels.values[(rows == row.value) & (columns == column.value)]:
            label = float(value)
    figures = (listed, labels.values, parts)
    m, q = labels.shape
    return Explanation(
        prediction=prediction,
        instance=row.id,
        task=column.id,
        label=label,
        setting=Setting.of(axis for axis in (0, 1) if is_new[axis]).value,
        instances=of_side(fitted.instance_ids, rows, m, figures, lists),
        tasks=of_side(fitted.task_ids, columns, q, figures, lists),
        pairs=_of_pairs(fitted, labels, figures, lists),
        weights=fitted.labels.restored(weights),
        mean=float(labels.values.mean(dtype=np.float64)),
        sort=lists.sort,
        sides=names,
        notes=_notes(fitted),
    )


def _notes(fitted: FittedRidge) -> tuple[str, ...]:
    """Return notes on what the weights keep fixed."""
    if fitted.learns_kernels:
        return (_LEARNED,)
    return (_CHOSEN,) if fitted.searches else ()


def _of_pairs(
    fitted: FittedRidge, labels: Labels, figures: Sequence[np.ndarray], lists: Listing
) -> Contributions:
    """Return the contributions of single labels to list; each edge of a network is listed once."""
    weights, values, parts = figures
    rows, columns = labels.places
    listed = np.ones(rows.size, dtype=bool)
    if fitted.is_network:
        both = np.where(rows == columns, 1.0, 2.0)
        weights = weights * both
        parts = parts * both
        listed = rows <= columns
    positions, chosen = largest((weights, values, parts), listed, lists)
    instances = ids_at(fitted.instance_ids, rows[positions])
    tasks = ids_at(fitted.task_ids, columns[positions])
    return Contributions(tuple(zip(instances, tasks, strict=True)), *chosen)


def _read_row(fitted: FittedRidge, value: Any, axis: int) -> _Row:
    """Return an instance (axis 0) or a task as a row for the pairing, with its id."""
    name = ("instance", "task")[axis]
    ids = (fitted.instance_ids, fitted.task_ids)[axis]
    label: Hashable = None
    if not _is_described(value):
        # The tables of a PairRegressor may have rows that are not in training.
        is_in_training = fitted.tables is None or ids is None or not ids.lacking([value])
        if is_in_training:
            place = _position(value, ids, fitted.labels.shape[axis], name)
            return _Row(place, ids_at(ids, np.array([place]))[0])
        label = value
        value = fitted.describe([value], axis)
    read: Any = (fitted.rows, fitted.columns)[axis]
    table, rows = read(value)
    if rows.size != 1:
        raise ValueError(
            f"One prediction is explained at a time: {name} must be one row, found {rows.size}."
        )
    if rows.places is not None:
        return _Row(int(rows.places[0]), ids_at(ids, rows.places)[0])
    if table.row_ids is not None:
        label = table.row_ids.labels[0]
    return _Row(rows, label)


def _is_described(value: Any) -> bool:
    """Return whether the argument is a row of numbers, not an id."""
    if isinstance(value, Mapping):
        return bool(value)  # a mapping of descriptions
    if isinstance(value, list | Tasks | Table) or is_sparse(value):
        return True
    return getattr(value, "shape", ()) != ()


def _position(value: Any, ids: Ids | None, count: int, name: str) -> int:
    """Return the position of an id; check a position if there are no ids."""
    if ids is not None:
        try:
            return int(ids.positions([value], f"the {name}s")[0])
        except TypeError:
            raise TypeError(
                f"{name} must be an id or a row of numbers, found {type(value).__name__}."
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"The labels have no ids for {name}s: {name} must be a position or a row of numbers, "
            f"found {value!r}."
        )
    if not 0 <= value < count:
        raise ValueError(
            f"{name} must be a position from 0 to {count - 1}, or a row of numbers, found {value}."
        )
    return int(value)
