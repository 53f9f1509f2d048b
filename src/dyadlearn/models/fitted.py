"""Fitted models: training data, solution, predictions and held-out predictions, as other packages read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    as_array_of,
    cast,
    dense,
    is_foreign,
    namespace,
    to_numpy,
)
from dyadlearn._checks import caller_level, check_same_library
from dyadlearn._codes import id_columns, nearly_identical_rows
from dyadlearn._messages import Message
from dyadlearn._progress import announce
from dyadlearn._state import Stored, is_shaped
from dyadlearn._tables import Ids, Table, in_order
from dyadlearn.holdout import Problem, Units, leave_out, plan
from dyadlearn.holdout.folds import warn_of_merged_groups
from dyadlearn.holdout.intervals import intervals_of
from dyadlearn.holdout.units import warn_of_unlabelled, warn_of_unpredicted
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.kernels.similarity import Similarity
from dyadlearn.labels import Labels
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models import reading
from dyadlearn.models.reading import among
from dyadlearn.models.side import Side
from dyadlearn.models.spec import WITH_TASKS, ModelSpec
from dyadlearn.pairing import Pairing, PairKernel
from dyadlearn.pairing.base import (
    check_regularisation,
    check_request,
    has_task_constants,
    settings_of,
)
from dyadlearn.pairing.cells_process import inverse_bytes, process_of
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.new_labels import check_takes_labels, predict_with_labels
from dyadlearn.pairing.process import GaussianProcess
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import ObservedSolution

#: Group (fold, cluster) of each instance and of each task; None means that there are no groups.
Groups = tuple[np.ndarray | None, np.ndarray | None]

Ridge = TypeVar("Ridge", bound="FittedRidge")

FittedOf = TypeVar("FittedOf", covariant=True)


class HasFitted(Protocol[FittedOf]):
    """An estimator with the attribute `fitted_`."""

    @property
    def fitted_(self) -> FittedOf:
        """What the estimator was fitted to."""


#: Kernel and column names of each description of each side, by name.
SideTables = list[dict[str, tuple[Any, Ids | None]]]

# Names of the rows of each side, and of the argument with the kernel of each row with itself.
_DIAGONALS = (("X", "diagonal"), ("tasks", "task_diagonal"))


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


class LeftOut(NamedTuple):
    """What hold-out leaves out, and how.

    Attributes
    ----------
    groups : (array or None, array or None)
        Groups of instances and of tasks that are left out together.
    cv, method : as in `Fitted.hold_out`
    nested, exact : bool
        As in `Fitted.hold_out`.
    """

    groups: Groups = (None, None)
    cv: Any = None
    method: str | None = None
    nested: bool = False
    exact: bool = False

    @property
    def is_usual(self) -> bool:
        """Whether no groups, folds or method are given."""
        options = (*self.groups, self.cv, self.method)
        return all(option is None for option in options)


class Effects(NamedTuple):
    """Effects of a model of pairs, for features or kernel values that are not centred.

    Attributes
    ----------
    interactions : array of shape (d, r)
    instances, tasks : array of shape (d,) and (r,), or None
        Main effects; None if the model does not have them.
    constants : array of shape (1,) or (q,), or None
        One constant, or one per task.
    """

    interactions: Array
    instances: Array | None = None
    tasks: Array | None = None
    constants: Array | None = None


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
class Validation(Stored):
    """Held-out predictions by which the parameters of a model were chosen or learned.

    Attributes
    ----------
    setting : Setting
    predictions : array of the shape of the labels' values
    method, reason : str
        As in `HeldOut`.
    units : Units
        Folds that were left out.
    groups : (array or None, array or None)
        Groups of instances and of tasks, as integers.
    """

    setting: Setting
    predictions: Array
    method: str
    units: Units
    reason: str = ""
    groups: Groups = (None, None)

    def fits(self, labels: Labels) -> bool:
        """Return whether predictions, units and groups are those of some labels."""
        return (
            is_shaped(self.predictions, *labels.values.shape)
            and self.units.match(labels)
            and Units(self.groups).match(labels)
        )


class Predicting(ABC):
    """Predictions of a fitted model, which need not store its labels.

    Attributes
    ----------
    form : Table
        Table without values: the user's ids of instances and tasks, and the type of the labels.
    name : str
        Class of the estimator.
    precision : {"float32", "float64"}
        Precision of returned arrays.
    device : str or None
        Device that computes with numpy arrays.
    """

    form: Table
    precision: str
    name: str
    device: str | None = None
    #: How to fix a model without a task side; the end of error messages.
    tasks_remedy: str = WITH_TASKS

    @property
    def instance_ids(self) -> Ids | None:
        """The user's ids of the instances; None means no ids."""
        return self.form.row_ids

    @property
    def task_ids(self) -> Ids | None:
        """The user's ids of the tasks; None means no ids."""
        return self.form.column_ids

    @property
    @abstractmethod
    def descriptions(self) -> SideTables:
        """Kernel and column names of each description of each side, by name; a single table has the name ""."""

    @property
    @abstractmethod
    def knows_tasks(self) -> bool:
        """Whether the model was fitted with features, or a kernel, of the tasks."""

    @property
    @abstractmethod
    def expansion(self) -> Any:
        """Coefficients, as an object whose methods `grid` and `at` return predictions."""

    @abstractmethod
    def new_rows(self, new: Any, axis: int) -> tuple[Table, Any]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""

    def describe(self, wanted: Sequence[Hashable], axis: int) -> Any:
        """Return the rows of some instances (axis 0) or tasks in the user's tables; None without tables."""
        return None

    def given(self, values: Any, axis: int) -> Any:
        """Return the user's instances (axis 0) or tasks in the form that the model accepts."""
        return values

    def rows(self, X: Any) -> tuple[Table, Any]:
        """Return the ids and checked rows of instances to predict for; None means the training instances."""
        if X is None:
            return self.form, None
        return self.new_rows(X, 0)

    def columns(self, tasks: Any) -> tuple[Table | None, Any]:
        """Return the ids and checked rows of tasks to predict for; None means the training tasks."""
        if tasks is None:
            return None, None
        if not self.knows_tasks:
            raise ValueError(
                Message(
                    "This {model} knows nothing of tasks: {remedy}",
                    model=self.name,
                    remedy=self.tasks_remedy,
                )
            )
        return self.new_rows(tasks, 1)

    def read(self, X: Any, tasks: Any) -> tuple[Table, tuple[Any, Any]]:
        """Return a table without values, with the ids and the type of predictions, and the rows of both sides."""
        instances, rows = self.rows(X)
        task_table, task_rows = self.columns(tasks)
        kind = instances.kind or (task_table.kind if task_table else None)
        if task_table is None:
            column_ids = self.form.column_ids
        else:
            column_ids = task_table.row_ids
        is_vector = self.form.is_vector and tasks is None
        return Table(None, instances.row_ids, column_ids, kind, is_vector), (rows, task_rows)

    def predict(self, rows: Any = None, columns: Any = None) -> Array:
        """Return predictions (a, b) for rows of each side; None means the training rows."""
        return self.expansion.grid(rows, columns)

    def predicted(self, X: Any, tasks: Any) -> Table:
        """Return predictions for the user's instances and tasks, with their ids and the type of the result."""
        form, rows = self.read(X, tasks)
        return replace(form, values=self.home(self.predict(*rows)))

    def predicted_pairs(self, X: Any, tasks: Any, pairs: Any) -> Array:
        """Return predictions (n,) for pairs of the user's instances and tasks."""
        form, rows = self.read(X, tasks)
        model = self.expansion
        columns = ([], []) if len(pairs) == 0 else id_columns(pairs, "pairs")
        names = (
            "the training instances" if X is None else "X",
            "the training tasks" if tasks is None else "tasks",
        )
        known = zip((model.n_instances, model.n_tasks), rows, strict=True)
        sizes = [n if side is None else size_of(side) for n, side in known]
        ids = (form.row_ids, form.column_ids)
        first, second = map(reading.positions, columns, ids, sizes, names)
        return self.home(model.at(*rows, (first, second)))

    def home(self, values: Array) -> Array:
        """Return results in the precision of the data; as numpy arrays if they were computed on `device`."""
        values = cast(values, getattr(namespace(values), self.precision))
        return values if self.device is None else to_numpy(values)

    def in_form(self, values: Array) -> Array:
        """Return values of shape (n,) if the labels were one-dimensional, and unchanged otherwise."""
        if self.form.is_vector:
            return namespace(values).reshape(values, (-1,))
        return values

    def score(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> float:
        """Return the coefficient of determination R², averaged over tasks; arguments as in `Predictor.score`."""
        labels, form = reading.read_given_labels(y)
        if labels.grid is None:
            pairs = np.stack(labels.places, axis=1)
            predicted = to_numpy(self.predicted_pairs(X, tasks, pairs))
            values = to_numpy(labels.values).astype(np.float64)
            values, predicted = reading.in_range(values, predicted)
        else:
            table = self.predicted(X, tasks)
            predicted = to_numpy(table.values)
            truth = _matched(replace(form, values=to_numpy(labels.values)), table)
            sample_weight = in_order(sample_weight, table.row_ids, None, "sample_weight", "X")
            # Tasks without a training label have no intercept and no predictions; fit has warned
            # about them.
            values = np.where(np.isnan(predicted).all(axis=0), np.nan, truth)
            values, predicted = reading.in_range(values, predicted)
            if not np.isnan(values).any():
                return float(r2_score(values, predicted, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("score takes sample_weight only if no label is missing: leave it out.")
        return float(prepared_score(replace(labels, values=values), "r2", Setting.C)(predicted))


def _matched(truth: Table, predicted: Table) -> Array:
    """Return true labels in the order of predictions; raise if their shapes or ids differ."""
    if truth.values.shape != predicted.values.shape:
        raise ValueError(
            f"Y has shape {truth.values.shape}, but the predictions for X and tasks have "
            f"shape "
            f"{predicted.values.shape}. If scikit-learn has sliced the tasks, pass them as "
            f"Tasks(tasks)."
        )
    truth = truth.rows_as(predicted.row_ids, "the rows of Y", "X")
    return truth.columns_as(predicted.column_ids, "the columns of Y", "the tasks").values


class Fitted(Predicting):
    """Labels, supported settings and hold-out of a fitted model; the attribute `fitted_` of an estimator.

    Attributes
    ----------
    labels : Labels
        Training labels.
    settings : tuple of Setting
        Settings that the model supports.
    """

    labels: Labels
    #: Tables in which a `PairRegressor` looks up ids; None for other models.
    tables: Any = None

    #: What a search has chosen; None for a model without a search.
    choice: Any = None
    #: Whether the model has chosen, or learned, its regularisation.
    searches: ClassVar[bool] = False
    #: Whether the model has learned its kernels from the labels.
    learns_kernels: ClassVar[bool] = False

    @property
    @abstractmethod
    def settings(self) -> tuple[Setting, ...]:
        """Settings that the model supports."""

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
        """Pairing with its labels; raises TypeError if the model has no closed form."""
        raise TypeError(f"{self.name} has no closed form: fit TwoStepRidge on the labels.")

    @property
    def intervals(self) -> Any:
        """Estimator of prediction intervals, which computes the held-out residuals once per setting."""
        raise TypeError(f"{self.name} has no prediction intervals.")

    @property
    def searched_setting(self) -> Setting | None:
        """Setting for which the parameters were chosen; None for a model without a search."""
        return None

    @property
    def scoring(self) -> Any:
        """Score by which the parameters were chosen; None for a model without a search."""
        return None

    @property
    def describes_by_labels(self) -> bool:
        """Whether the labels are also features of a side; then no formula holds them out, and the model is refitted."""
        return False

    def places(self, X: Any, tasks: Any) -> list[np.ndarray | None]:
        """Return training positions of instances and of tasks, -1 for new rows; None means all training rows."""
        return [side.places for side in self.asked(*self.read(X, tasks))]

    def asked(self, form: Table, rows: Sequence[Any]) -> list[Asked]:
        """Return the rows of each side to predict for, with their ids, which are those of `form`."""
        ids = (form.row_ids, form.column_ids)
        trained = (self.instance_ids, self.task_ids)
        asked = []
        for side, side_ids, known in zip(rows, ids, trained, strict=True):
            places = None if side is None else training_places(side, side_ids, known)
            asked.append(Asked(side, side_ids, places))
        return asked

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

    @abstractmethod
    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for training instances (axis 0) or tasks with equal descriptions; None without any."""

    @abstractmethod
    def similarity(self, axis: int) -> Similarity | None:
        """Return the similarities of training instances (axis 0) or tasks; None without descriptions."""

    def in_groups(self, groups: Any, task_groups: Any) -> tuple[Any, Any]:
        """Return groups of instances and of tasks, which may be words, in the order of the training data."""
        return reading.groups_in_order(self, groups, task_groups)

    def in_folds(self, cells: Any) -> Any:
        """Return the fold of each label, of the shape of the labels' values, in the order of the training data."""
        return reading.cells_of(self.labels, self.form, cells)

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
        together = setting.of_new_sides((groups, task_groups))
        left_out = LeftOut(together, cv, method, nested, exact)
        held_out = self._hold_out(setting, left_out)
        if cv is None:
            used = Units.of_groups(self.labels, setting, together)
            warn_of_merged_groups(used, held_out.units, setting, stacklevel=caller_level())
        return held_out

    @abstractmethod
    def _hold_out(self, setting: Setting, left_out: LeftOut) -> HeldOut:
        """Return held-out predictions and the method used."""

    @abstractmethod
    def refitter(self, setting: Setting) -> Callable[[Labels], Fitted]:
        """Return a function that fits the model, its search included, to other labels of the same rows.

        Parameters
        ----------
        setting : Setting
            Setting in which the refitted model will predict.
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedRidge(Fitted, Stored):
    """A fitted kernel ridge model: parameters, labels, decomposed sides and solution.

    Nothing in it is changed. Another regularisation gives another object (`at`).

    Attributes
    ----------
    spec : ModelSpec
        Validated parameters of the fit.
    labels : Labels
        Training labels.
    form : Table
        Table without values: the user's ids of instances and tasks, and the type of the labels.
    precision : {"float32", "float64"}
        Precision of returned arrays.
    sides : tuple of Side
        Decomposed instances and, if the model has a task side, tasks; twice the nodes of a network.
    alphas : dict
        Regularisation: "alpha" and, if the model has one for the tasks, "task_alpha".
    solved : Completion, ObservedSolution or None
        Solution for missing or weighted labels, of a grid or of a list of pairs; None for a closed
        form.
    coefficients : array
        Coefficients of the pairing.
    feature_names : array of str or None
        Names of the features of the instances as scikit-learn knows them.
    validation : Validation or None
        Held-out predictions by which the parameters were chosen.
    tables : PairTables or None
        Tables in which a `PairRegressor` looks up ids.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(6, 2)), rng.normal(size=(4, 3)), rng.normal(size=(6, 4))
    >>> fitted = TwoStepRidge().fit(X, Y, tasks=T).fitted_
    >>> fitted.labels, fitted.holdout("B").shape, fitted.predict().shape
    (Labels(24 of 6 × 4), (6, 4), (6, 4))
    """

    spec: ModelSpec
    labels: Labels
    form: Table
    precision: str
    sides: tuple[Side, ...]
    alphas: dict[str, Any]
    solved: Completion | ObservedSolution | None
    coefficients: Array
    feature_names: np.ndarray | None = None
    validation: Validation | None = None
    tables: Any = field(default=None, init=False, repr=False)
    # Results that are computed on demand. They are in no file and in no pickle.
    _computed: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def solve(
        cls,
        spec: ModelSpec,
        data: Any,
        sides: tuple[Side, ...],
        alphas: Mapping[str, Any],
        start: Any = None,
        **more: Any,
    ) -> Self:
        """Return the model with the coefficients for a regularisation, from decomposed sides.

        Parameters
        ----------
        spec : ModelSpec
        data : Training or FittedRidge
            Labels with their ids, and the precision and names of the data.
        sides : tuple of Side
        alphas : mapping
        start : Completion, ObservedSolution or None
            Solution of a similar problem.
        **more
            Other attributes of the class.
        """
        problem = spec.problem(sides, data.labels, alphas)
        check_regularisation(problem.pairing)
        solved = problem.solve(start)
        if has_task_constants(problem.pairing):
            without = np.all(~problem.labels.observed, axis=0)
            warn_of_unlabelled(without, caller_level())
        if isinstance(solved, ObservedSolution):
            pairing: Any = problem.pairing
            coefficients = pairing.coefficients_of(solved.spectral, solved.mean)
        else:
            coefficients = problem.pairing.coefficients(_completed_of(problem, solved).Y)
        fitted = cls(
            spec=spec,
            labels=data.labels,
            form=data.form,
            precision=data.precision,
            sides=sides,
            alphas=dict(alphas),
            solved=solved,
            coefficients=coefficients,
            feature_names=data.feature_names,
            **more,
        )
        # The problem of the solution, to which remembered inverses belong.
        fitted._computed["problem"] = problem
        return fitted

    def at(self, spec: ModelSpec, alphas: Mapping[str, Any]) -> Self:
        """Return the model of the same sides with another regularisation, solved from the present solution."""
        return self.solve(spec, self, self.sides, alphas, self.solved)

    def with_tables(self, form: Table, tables: Any) -> Self:
        """Return the same model with other ids, and tables that describe them."""
        same = replace(self, form=form)
        object.__setattr__(same, "tables", tables)
        object.__setattr__(same, "_computed", self._computed)
        return same

    def extended(self, cls: type[Ridge], **more: Any) -> Ridge:
        """Return the same model as an object of a derived class, with further attributes."""
        kept = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}
        same = cls(**{**kept, **more})
        object.__setattr__(same, "_computed", self._computed)
        return same

    def _once(self, name: Any, compute: Callable[[], Any]) -> Any:
        """Return a result that is computed once; if two threads compute it, the first one is used."""
        if name not in self._computed:
            self._computed.setdefault(name, compute())
        return self._computed[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_computed": {}}

    # --- the model ------------------------------------------------------------------------------------

    @property
    def name(self) -> str:  # type: ignore[override]
        """Class of the estimator."""
        return self.spec.name

    @property
    def device(self) -> str | None:  # type: ignore[override]
        """Device that computes with numpy arrays."""
        return self.spec.device

    @property
    def tasks_remedy(self) -> str:  # type: ignore[override]
        """How to fix a model without a task side; the end of error messages."""
        return self.spec.tasks_remedy

    @property
    def training_problem(self) -> Problem:
        """Pairing with the training labels."""
        compute = partial(self.spec.problem, self.sides, self.labels, self.alphas)
        problem: Problem = self._once("problem", compute)
        return problem

    @property
    def completed_problem(self) -> Problem:
        """The same pairing with completed labels, which has a closed form."""
        compute = partial(_completed_of, self.training_problem, self.solved)
        problem: Problem = self._once("completed problem", compute)
        return problem

    @property
    def problem(self) -> Problem:
        """Pairing with the training labels; raises ValueError if labels are also features of a side."""
        if self.describes_by_labels:
            raise ValueError(
                Message(
                    "This model uses profiles of the labels as features, so it has no hold-out "
                    "formula: use [model.holdout() or evaluate()|dyadlearn evaluate], or fit the "
                    "model with <stages=1>."
                )
            )
        return self.training_problem

    @property
    def pairing(self) -> Pairing:
        """Pairing: the model of pairs."""
        return self.training_problem.pairing

    @property
    def solution(self) -> Solution | ObservedSolution:
        """Solution of the iterative solver; a closed form has zero iterations."""
        if isinstance(self.solved, Completion):
            return self.solved.solution
        if self.solved is None:
            return Solution(None, 0, 0.0, True)
        return self.solved

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings that the model supports."""
        return settings_of(self.pairing)

    @property
    def searched_setting(self) -> Setting | None:
        """Setting for which the parameters were chosen; None for a model without a search."""
        if self.validation is None:
            return None
        return self.validation.setting

    def check(self, setting: Setting, groups: Groups = (None, None), cells: Any = None) -> None:
        """Raise ValueError if the model does not support the setting, or these groups in it."""
        check_request(self.pairing, setting, groups, cells)

    @property
    def completed(self) -> Array:
        """Labels (m, q), with predictions in place of missing labels."""
        if self.labels.grid is None:
            return super().completed
        return self.completed_problem.Y

    @property
    def symmetry(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ; 0 if the model is not a network."""
        return self.spec.sign

    @property
    def knows_tasks(self) -> bool:
        """Whether the model was fitted with features, or a kernel, of the tasks."""
        return len(self.sides) > 1

    @property
    def n_features(self) -> int:
        """Number of features of an instance, or of training instances for a precomputed kernel."""
        return self.sides[0].n_columns

    @property
    def descriptions(self) -> SideTables:
        """Kernel and column names of each description of each side, by name; a single table has the name ""."""
        return [{"": (side.spec, side.names)} for side in self.sides]

    def kernels_given(self, axis: int) -> tuple[str, ...]:
        """Return the names of the descriptions of a side that are precomputed kernels."""
        return ()

    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for training rows of a side with equal rows of the kernel; None without such a side."""
        if axis >= len(self.sides):
            return None
        spectrum = self.sides[axis].spectrum
        return nearly_identical_rows(spectrum.vectors, spectrum.values)

    def similarity(self, axis: int) -> Similarity | None:
        """Return the similarities of the training rows of a side by its kernel; None without such a side."""
        if axis >= len(self.sides):
            return None
        return self.sides[axis].similarity()

    # --- predictions ----------------------------------------------------------------------------------

    @property
    def expansion(self) -> Expansion:
        """Coefficients, as an object that multiplies them by rows of each side."""
        return self.completed_problem.pairing.expansion(self.coefficients)

    def describe(self, wanted: Sequence[Hashable], axis: int) -> Any:
        """Return the rows of some instances (axis 0) or tasks in the user's tables; None without tables."""
        if self.tables is None:
            return None
        return self.tables.looked_up(wanted, axis)

    def given(self, values: Any, axis: int) -> Any:
        """Return instances (axis 0) or tasks that are in no table in the form that `rows` accepts."""
        if self.tables is None or values is None:
            return values
        return self.tables.given(values, axis)

    def new_rows(self, new: Any, axis: int) -> tuple[Table, NewRows]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""
        side = self.sides[axis]
        names = None if axis else self.feature_names
        known = reading.Known(self.name, side.spec, side.ids, side.names, side.n_columns, names)
        table, rows = reading.read_rows(new, axis, known)
        return table, side.new_rows(self.as_fitted(rows, axis))

    def as_fitted(self, rows: Array, axis: int) -> Array:
        """Return new rows as arrays of the library of the model; raise if they are of another one."""
        # A model with a device that was loaded from a file computes on the CPU.
        if self.device is not None and is_foreign(self.coefficients) and not is_foreign(rows):
            rows = as_array_of(dense(rows), self.coefficients)
        name = ("X", "tasks")[axis]
        check_same_library({name: rows, "the fitted model": self.coefficients})
        return rows

    def predicted_with(self, X: Any, tasks: Any, labels: Any, diagonals: tuple[Any, Any]) -> Table:
        """Return predictions for new rows of one side with some of their labels, as `GridModel.predict` does."""
        problem = self.training_problem
        check_takes_labels(problem.pairing)
        form, rows = self.read(X, tasks, diagonals)
        if self.describes_by_labels:
            raise ValueError(
                Message(
                    "A model with profiles of labels takes no labels of new rows: fit it with "
                    "<stages=1>."
                )
            )
        if sum(side is not None for side in rows) != 1:
            raise ValueError(
                Message(
                    "<labels> are those of {fold_in}: give either <X> or <tasks>.",
                    fold_in=reading.FOLD_IN,
                )
            )
        axis = int(rows[0] is None)
        predictions = self.predict(*rows)
        known = reading.few_labels(labels, form, predictions.shape)
        few = as_array_of(known, predictions, predictions.dtype)
        updated = predict_with_labels(
            problem.pairing,
            problem.labels,
            rows[axis],
            self.priors(rows)[axis],
            predictions,
            few,
            axis,
            weight=1.0 / problem.unit,
            tol=problem.tol,
            max_iter=problem.max_iter,
        )
        return replace(form, values=self.home(updated))

    def read(
        self, X: Any, tasks: Any, diagonals: Sequence[Any] = (None, None)
    ) -> tuple[Table, tuple[Any, Any]]:
        """Return ids and rows as `Predicting.read` does, with the diagonals of kernels that the user gave."""
        form, rows = super().read(X, tasks)
        asked = list(rows)
        for axis, diagonal in enumerate(diagonals):
            if diagonal is not None:
                asked[axis] = self._with_diagonal(axis, form, rows[axis], diagonal)
        return form, (asked[0], asked[1])

    def priors(self, rows: Sequence[NewRows | None]) -> list[Array | None]:
        """Return k(x, x) of the new rows of each side; None for training rows and in the primal."""
        priors: list[Array | None] = []
        for axis, asked in enumerate(rows):
            prior = None
            if asked is not None and not self.sides[axis].is_primal:
                prior = asked.self_kernel
                if prior is None:
                    owner, name = _DIAGONALS[axis]
                    raise ValueError(
                        Message(
                            "The kernel of every row of <{owner}> with itself is not known[: give "
                            "{name}=, {size} numbers|].",
                            owner=owner,
                            name=name,
                            size=asked.size,
                        )
                    )
            priors.append(prior)
        return priors

    def _with_diagonal(
        self, axis: int, form: Table, rows: NewRows | None, diagonal: Any
    ) -> NewRows:
        """Return rows of a side with the kernel of each row with itself, from the values that the user gave."""
        owner, name = _DIAGONALS[axis]
        side = self.sides[axis] if axis < len(self.sides) else None
        is_given = side is not None and (side.spec.is_precomputed or bool(self.kernels_given(axis)))
        if side is None or rows is None or rows.places is not None or not is_given:
            raise ValueError(
                f"{name} is only for rows of {owner} from a precomputed kernel: leave it out."
            )
        ids = (form.row_ids, form.column_ids)[axis]
        known = self._given_diagonal(axis, ids, rows, diagonal)
        return replace(rows, diagonal=side.prior(rows.values, known))

    def _given_diagonal(self, axis: int, ids: Ids | None, rows: NewRows, diagonal: Any) -> Array:
        """Return the kernel of each row with itself before centring, from the values that the user gave."""
        owner, name = _DIAGONALS[axis]
        values = reading.nonnegative(in_order(diagonal, ids, None, name, owner), name)
        if values.shape not in ((rows.size,), (rows.size, 1)):
            expected = f"a number for each of {rows.size} rows of {owner}"
            raise ValueError(f"{name} must hold {expected}, found shape {values.shape}.")
        like = self.sides[axis].spectrum.values
        return as_array_of(values.reshape(-1), like, like.dtype)

    @property
    def intervals(self) -> Any:
        """Estimator of prediction intervals, which computes the held-out residuals once per setting."""

        def stored(setting: Setting) -> tuple[Array, Units] | None:
            held_out = self.stored_holdout(setting)
            if held_out is None:
                return None
            return held_out.predictions, held_out.units

        by_formula = not self.describes_by_labels
        compute = partial(intervals_of, self.training_problem, stored, by_formula=by_formula)
        return self._once("intervals", compute)

    # --- coefficients ---------------------------------------------------------------------------------

    @property
    def dual(self) -> Array:
        """Dual coefficients A of shape (m, q)."""
        dual = self.expansion.dual
        if dual is None:
            self.grid_of("dual_coef_")
            problem = self.completed_problem
            dual = problem.pairing.dual(problem.Y)
        return dual

    def grid_of(self, name: str) -> Problem:
        """Return the problem of a grid; raise AttributeError for `name` if the model was fitted on a list of pairs."""
        problem = self.training_problem
        try:
            _ = problem.Y
        except ValueError as error:
            raise AttributeError(f"{name} does not exist. {error}") from error
        return problem

    @property
    def is_primal(self) -> bool:
        """Whether the coefficients belong to features on every side."""
        return all(side.is_primal and side.directions is None for side in self.sides)

    @property
    def effects(self) -> Effects:
        """Interactions, main effects and constants, for features or kernel values that are not centred."""
        coefficients = self.sides[0].uncentred(self.expansion.absorbed)
        if len(self.sides) > 1:
            coefficients = self.sides[1].uncentred(coefficients.T).T
        if self.sides[0].spec.constant is None:
            return Effects(coefficients)
        if len(self.sides) == 1:
            return Effects(coefficients[:-1, :], constants=coefficients[-1, :])
        return Effects(
            coefficients[:-1, :-1],
            coefficients[:-1, -1],
            coefficients[-1, :-1],
            coefficients[-1:, -1],
        )

    def process(self) -> tuple[GaussianProcess, Array]:
        """Return the Gaussian process and the labels as it takes them; raise if the model has none."""
        problem = self.training_problem
        pairing = problem.pairing
        if self.describes_by_labels or not isinstance(pairing, PairKernel):
            if pairing.knows_tasks:
                remedy = Message("assess its predictions by [holdout|evaluate]")
            else:
                remedy = Message("fit it with <tasks=>")
            if self.describes_by_labels:
                reason = "with profiles of labels"
            else:
                reason = f"as {pairing.words}"
            raise ValueError(
                Message(
                    "{name} {reason} has no deviations and no likelihood: {remedy}.",
                    name=self.name,
                    reason=reason,
                    remedy=remedy,
                )
            )
        labels = problem.labels
        if labels.is_full:
            return process_of(pairing, labels)
        known = last_inverse.known(problem, "process")
        if known is not None:
            process, values = known[1]
            process.check_precision()
            return process, values
        compute = partial(process_of, pairing, labels)
        return last_inverse.of(problem, "process", compute, inverse_bytes(labels), labels.values)  # type: ignore[no-any-return]

    # --- hold-out -------------------------------------------------------------------------------------

    def holdout(
        self,
        setting: str | Setting,
        *,
        groups: Any = None,
        task_groups: Any = None,
        cells: Any = None,
    ) -> Any:
        """Return held-out predictions of all labels, of the type of the labels, as `GridModel.holdout` does."""
        setting = as_setting(setting)
        together = self.in_groups(groups, task_groups)
        cells = self.in_folds(cells)
        self.check(setting, together, cells)
        labels = self.training_problem.labels
        units = Units.of_groups(labels, setting, together, cells)
        held_out = self._without_units(setting, units)
        warn_of_unpredicted(labels, held_out, setting)
        return self.as_labels(held_out)

    def as_labels(self, values: Array) -> Any:
        """Return one value per label in the type of the training labels; a sparse matrix for a list of pairs."""
        return self.training_problem.labels.restored(self.home(values), self.form)

    def _without_units(self, setting: Setting, units: Units) -> Array:
        """Return one held-out prediction per label."""
        return leave_out(self.training_problem, setting, units)

    def stored_holdout(self, setting: Setting) -> HeldOut | None:
        """Return the stored held-out predictions of a setting; None if there are none."""
        stored = self.validation
        if stored is None or setting is not stored.setting:
            return None
        return HeldOut(stored.predictions, stored.method, stored.units, reason=stored.reason)

    def _hold_out(self, setting: Setting, left_out: LeftOut) -> HeldOut:
        """Return held-out predictions and the method used.

        Without groups and folds, a search returns the predictions by which it has chosen its model,
        if it stores them. The groups of its fit are the default in other settings, unless a list of
        folds is given.
        """
        left_out = self._with_groups_of_fit(setting, left_out)
        stored = self.stored_holdout(setting) if left_out.is_usual else None
        if stored is not None:
            return stored
        groups, cv, method, _, exact = left_out
        how = plan(self.training_problem, setting, *groups, cv, method=method, exact=exact)
        self.check(setting)
        announce(f"Setting {setting.value}: {how.words}", how.cost.seconds)
        return HeldOut(how.held_out(everywhere=True), how.method, how.units, reason=how.explanation)

    def _with_groups_of_fit(self, setting: Setting, left_out: LeftOut) -> LeftOut:
        """Return what is left out, with the groups of the fit where none are given."""
        stored = self.validation
        if stored is None or isinstance(left_out.cv, list | tuple):
            return left_out
        if left_out.is_usual and setting is stored.setting:
            return left_out
        groups = []
        for axis, group in enumerate(left_out.groups):
            is_default = group is None and axis in setting.new
            groups.append(stored.groups[axis] if is_default else group)
        return left_out._replace(groups=(groups[0], groups[1]))

    def refitter(self, setting: Setting) -> Callable[[Labels], Fitted]:
        """Return a function that fits the model to other labels of the same instances and tasks."""

        def fit(labels: Labels) -> Fitted:
            return self.solve(self.spec, replace(self, labels=labels), self.sides, self.alphas)

        return fit

    # --- model files ----------------------------------------------------------------------------------

    def _fits(self) -> bool:
        labels = self.labels
        solved = self.solved
        has_tasks = len(self.sides) > 1
        n_rows = [side.spectrum.n_rows for side in self.sides]
        ranks = [side.spectrum.values.shape[0] for side in self.sides]
        arrays = [self.coefficients]
        if isinstance(solved, Completion):
            arrays.append(solved.labels)
            starts = solved.route != "pairs" or is_shaped(solved.solution.values, *ranks)
        else:
            starts = solved is None or is_shaped(solved.spectral, *ranks)
        if not (
            len(self.sides) in (1, 2)
            and (self.spec.uses_tasks or not has_tasks)
            and (not self.spec.sign or (has_tasks and self.sides[0] is self.sides[1]))
            and n_rows == list(labels.shape)[: len(n_rows)]
            and all(array.dtype == labels.values.dtype for array in arrays)
            and self.precision in ("float32", "float64")
            and self.form.fits(labels.shape)
            and (len(arrays) == 1 or arrays[1].shape == labels.shape)
            and starts
            and self._names_fit()
            and (self.validation is None or self.validation.fits(labels))
        ):
            return False
        # Raises if a regularisation is no number, or is one of another model.
        self.spec.checked_alphas(self.alphas)
        expansion = self.expansion
        sides = zip(labels.shape, (expansion.instances, expansion.tasks), strict=True)
        shape = [length if part is None else part.size for length, part in sides]
        return is_shaped(expansion.values, *shape)

    def _names_fit(self) -> bool:
        """Return whether there are as many names as features."""
        names = self.feature_names
        return names is None or (names.dtype == object and names.shape == (self.n_features,))


def _completed_of(problem: Problem, solved: Any) -> Problem:
    """Return a problem with completed labels."""
    if isinstance(solved, Completion):
        return problem.with_grid(solved.labels)
    return problem


def as_fitted(model: HasFitted[FittedOf]) -> FittedOf:
    """Return the attribute `fitted_` of an estimator; return a `Fitted` object unchanged."""
    if isinstance(model, Fitted):
        return model  # type: ignore[return-value]
    check_is_fitted(model)
    return model.fitted_


def predicting(model: Any) -> Predicting:
    """Return the predictions of a fitted model, also for online models that do not store labels."""
    if isinstance(model, Predicting):
        return model
    check_is_fitted(model)
    fitted: Predicting
    if getattr(model, "grows", False):
        fitted = model.predictor_
    else:
        fitted = model.fitted_
    return fitted


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
        return np.full(size_of(rows), -1)
    return among(known.labels, training.labels)


def size_of(rows: Any) -> int:
    """Return the number of rows of an array or of decomposed rows."""
    if hasattr(rows, "shape"):
        return int(rows.shape[0])
    return int(rows.size)
