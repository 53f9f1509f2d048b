"""Base classes of all models: predicting, scoring, another regularisation, and what the models of a grid share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, cast, dense, is_foreign, namespace, to_numpy
from dyadlearn._checks import (
    check_alpha,
    check_choice,
    check_count,
    check_flag,
    check_instances,
    check_labels,
    check_same_library,
)
from dyadlearn._codes import id_columns
from dyadlearn._state import StoredEstimator, all_or_nothing, is_shaped, misfit
from dyadlearn._tables import Ids, Table, in_order
from dyadlearn.holdout import Formula, Problem, Units, leave_out, plan
from dyadlearn.holdout.intervals import intervals_of
from dyadlearn.holdout.units import warn_of_lone_labels, warn_of_tasks_without_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models import reading
from dyadlearn.models.fitted import FittedRidge, HeldOut, predicted_intervals
from dyadlearn.models.side import KernelSpec, Side, fit_side
from dyadlearn.pairing import Independent, Network, Pairing, TwoStep
from dyadlearn.pairing.base import check_regularisation, check_request, settings_of
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import ObservedSolution

# Units of the instances and of the tasks that are left out together, or None.
Groups = tuple[np.ndarray | None, np.ndarray | None]

# Both sides, decomposed: for each kernel of the instances a row, with an entry for each kernel of the tasks.
Sides = list[list[tuple[Side, Side | None]]]


#: Where a model that was fitted without tasks could have had them from.
WITH_TASKS = "fit it with tasks=, the features or kernel of the training tasks."


class Predictor(StoredEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Base class of all models of a grid: predictions, and their score.

    A subclass reads rows to predict for (`_new_rows`), returns what it multiplies them by (`_expansion`) and keeps what
    its rows and columns are called (`_form`).
    """

    #: Where arrays of numpy are computed, for models that can be told: None is here.
    device: str | None = None

    #: Whether the model learns and forgets batch by batch: then it keeps statistics of the data, and no labels.
    grows = False

    #: Whether the model chooses its regularisation itself.
    searches = False

    #: Whether it learns its kernels from the labels as well.
    learns_kernels = False

    #: Whether features may be missing.
    allows_nan = False

    # Where tasks of its own can come from, for a model that knows of none.
    _tasks_remedy = WITH_TASKS

    # Without values: the ids of both sides as far as the model keeps them, and the form that the labels came in.
    _form: Table

    @abstractmethod
    def _expansion(self) -> Expansion:
        """Return the coefficients with how rows of each side multiply them."""

    @property
    @abstractmethod
    def _knows_tasks(self) -> bool:
        """Whether the model has learnt from features, or a kernel, of the tasks."""

    @abstractmethod
    def _new_rows(self, given: Any, axis: int) -> tuple[Table, Any]:
        """Read instances (axis 0) or tasks to predict for: their ids, and their rows."""

    def _instance_rows(self, X: Any) -> tuple[Table, Any]:
        """Read the instances to predict for; None stands for those of training."""
        return (self._form, None) if X is None else self._new_rows(X, 0)

    def _task_rows(self, tasks: Any) -> tuple[Table | None, Any]:
        """Read the tasks to predict for; None stands for those of training."""
        if tasks is None:
            return None, None
        if not self._knows_tasks:
            raise ValueError(
                f"This {type(self).__name__} knows nothing of tasks and cannot predict for new ones: "
                f"{self._tasks_remedy}"
            )
        return self._new_rows(tasks, 1)

    def predict(self, X: Any = None, tasks: Any = None) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None stands for the training
            instances, where the model keeps them.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None stands for
            the training tasks.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is one, and with ``X=None`` if the training labels were. With one-dimensional
            training labels and no `tasks`, shape (a,).
        """
        table = self._predicted(X, tasks)
        return table.restore(table.values)

    def _predicted(self, X: Any, tasks: Any) -> Table:
        """Return predictions with the ids that instances and tasks have."""
        self = self._snapshot()
        instances, rows = self._instance_rows(X)
        task_table, task_rows = self._task_rows(tasks)
        values = self._expansion().grid(rows, task_rows)
        values = self._home(self._in_form(values) if tasks is None else values)
        kind = instances.kind or (task_table.kind if task_table else None)
        column_ids = self._form.column_ids if task_table is None else task_table.row_ids
        return Table(values, instances.row_ids, column_ids, kind)

    def predict_pairs(self, X: Any, tasks: Any, pairs: Any) -> Array:
        """Predict the labels of some pairs only.

        Parameters
        ----------
        X, tasks : as in `predict`
        pairs : array-like or frame of shape (n, 2)
            An instance and a task each: ids where `X` or `tasks` is a frame that has them (with
            None, where the training labels had them), else row positions.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import IndependentTaskRidge
        >>> model = IndependentTaskRidge(alpha=1.0).fit(np.eye(2), np.array([[2.0, 4.0], [6.0, 8.0]]))
        >>> model.predict_pairs(np.eye(2), None, [(0, 1), (1, 0)])
        array([5., 5.])
        """
        self = self._snapshot()
        instances, rows = self._instance_rows(X)
        task_table, task_rows = self._task_rows(tasks)
        first, second = ([], []) if len(pairs) == 0 else id_columns(pairs, "pairs")
        model = self._expansion()
        n_rows = model.n_instances if rows is None else rows.size
        n_tasks = model.n_tasks if task_rows is None else task_rows.size
        ids, name = (self._form.column_ids, "the training tasks")
        if task_table is not None:
            ids, name = task_table.row_ids, "tasks"
        own = reading.positions(first, instances.row_ids, n_rows, "the training instances" if rows is None else "X")
        return self._home(model.at(rows, task_rows, (own, reading.positions(second, ids, n_tasks, name))))

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², averaged over tasks.

        Parameters
        ----------
        X, tasks : as in `predict`
        y : array, frame or series of shape (a, b)
            True labels; where they have ids, they are matched with those of `X` and `tasks`. Cells that are
            NaN do not count, and neither do tasks of fewer than two labels, nor those that have no predictions.
            In a sparse matrix what is not stored does not count.
        sample_weight : array of shape (a,), default=None
            Weights of the instances.

        Returns
        -------
        float
        """
        labels, form = reading.read_given_labels(y)
        if labels.grid is None:
            predicted = to_numpy(self.predict_pairs(X, tasks, np.stack(labels.places, axis=1)))
            values, predicted = reading.in_range(to_numpy(labels.values).astype(np.float64), predicted)
        else:
            check_labels(labels.values)
            table = self._predicted(X, tasks)
            truth, predicted = replace(form, values=to_numpy(labels.values)), to_numpy(table.values)
            predicted = predicted.reshape(len(predicted), -1)
            if truth.values.shape != predicted.shape:
                raise ValueError(
                    f"Y has shape {truth.values.shape}, but the predictions for X and tasks have shape "
                    f"{predicted.shape}. If scikit-learn cut the tasks, hand them in a Tasks holder."
                )
            truth = truth.rows_as(table.row_ids, "the rows of Y", "X")
            values = truth.columns_as(table.column_ids, "the columns of Y", "the tasks").values
            sample_weight = in_order(sample_weight, table.row_ids, None, "sample_weight", "X")
            # A task that had no label to take its constant from says nothing, as was told when it was fitted.
            values = np.where(np.isnan(predicted).all(axis=0), np.nan, values)
            values, predicted = reading.in_range(values, predicted)
            if not np.isnan(values).any():
                return float(r2_score(values, predicted, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("score takes sample_weight only where every label is observed: leave it out.")
        return float(prepared_score(replace(labels, values=values), "r2", Setting.C)(predicted))

    def _in_form(self, values: Array) -> Array:
        """Return an array with one column for each task as one-dimensional labels came, where they did."""
        return namespace(values).reshape(values, (-1,)) if self._form.is_vector else values

    def _home(self, values: Array) -> Array:
        """Return results in the precision of the data, and as arrays of numpy if they were computed on a device."""
        values = cast(values, getattr(namespace(values), self._precision))
        return values if self.device is None else to_numpy(values)

    def _validated_instances(self, table: Table, spec: KernelSpec, *, reset: bool) -> Array:
        """Check X as scikit-learn does, in whatever library it came."""
        is_kernel = spec.is_precomputed
        allow_nan = self.allows_nan and not is_kernel
        return check_instances(self, table, is_kernel=is_kernel, reset=reset, allow_nan=allow_nan)


class PairModel(Predictor, stored=False):
    """Base class of the ridge models: regularisation, intervals, and how they follow new parameters (`_solve`)."""

    @property
    def _alphas(self) -> dict[str, Any]:
        """The regularisation that the model uses, chosen or given: one or two numbers by their names."""
        given = self.get_params(deep=False)
        return {name: given[name] for name in ("alpha", "task_alpha") if name in given}

    @property
    @abstractmethod
    def _columns(self) -> list[tuple[KernelSpec, Ids | None]]:
        """What the columns of each side are that the model knows of: its kernel, and what they are called."""

    @property
    def _descriptions(self) -> list[dict[str, Any]]:
        """What each side was described by, with its kernel, by names; a single table has the name ""."""
        return [{"": spec} for spec, _ in self._columns]

    @abstractmethod
    def _solve(self) -> Self:
        """Follow the regularisation that is set."""

    def set_alpha(self, alpha: Any = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model without a new decomposition.

        Other threads may go on reading the model meanwhile: each method and attribute answers from the old state or
        from the new one, never from a mixture. Two threads that change a model must take turns.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None leaves one as it is. A model with one regularisation has no `task_alpha`; independent
            tasks take an array of shape (q,) as `alpha` too.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = {"alpha": alpha, "task_alpha": task_alpha}
        given = {name: self._checked_alpha(value, name) for name, value in given.items() if value is not None}
        changed = self._snapshot()
        changed.set_params(**given)
        changed._solve()
        self.__dict__ = changed.__dict__  # in one step
        return self

    @abstractmethod
    def _effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        """Return interactions, main effects of instances and of tasks, and constants; None for what there is not.

        They are those of features, or kernel values, as they come; constants are one, or one for each task.
        """

    @property
    def coef_(self) -> Array:
        """The parameters W of shape (d, r), without features of the tasks (d, q) or (d,); see `intercept_`."""
        check_is_fitted(self)
        interactions = self._effects()[0]
        return self._home(interactions if self._knows_tasks else self._in_form(interactions))

    @property
    def intercept_(self) -> Any:
        """What is predicted where every feature, or kernel value, is zero: a number, or (q,) without a task side.

        With x and t the features of an instance and a task, mapped if there are feature maps, or their kernel values
        with those of training, and with `coef_` or `dual_coef_` for W, a prediction is
        ``x @ W @ t + x @ instance_coef_ + task_coef_ @ t + intercept_``; without a task side it is
        ``x @ W + intercept_``.
        """
        check_is_fitted(self)
        constants = self._effects()[3]
        if constants is None:
            return 0.0
        return float(constants[0]) if self._knows_tasks or self._form.is_vector else self._home(constants)

    @property
    def instance_coef_(self) -> Array:
        """Main effects of instances, (d,) or (m,): what they add whatever the task, see `intercept_`."""
        return self._main_effects("instance_coef_", 1)

    @property
    def task_coef_(self) -> Array:
        """Main effects of tasks, (r,) or (q,): what they add whatever the instance, see `intercept_`."""
        return self._main_effects("task_coef_", 2)

    def _main_effects(self, name: str, place: int) -> Array:
        check_is_fitted(self)
        found = self._effects()[place]
        if found is None:
            raise AttributeError(f"{name} exists only with fit_intercept=True and a task side.")
        return self._home(found)

    def _check_alphas(self) -> None:
        for name, value in self._alphas.items():
            self._checked_alpha(value, name)

    def _checked_alpha(self, value: Any, name: str) -> Any:
        """Return a regularisation as a number."""
        return check_alpha(value, name)


class PairwiseRidge(PairModel, stored=False):
    """Base of the models of a grid: labels of pairs from an instance side and, where there is one, a task side.

    A subclass says which model of pairs its parameters and its fitted sides make (`_pairing`).
    """

    kernel: Any
    kernel_params: dict[str, Any] | None
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    repair: str
    fit_intercept: bool = False
    symmetry: str | None = None

    # Whether labels may be those of observed pairs alone.
    _takes_pairs = True

    #: Whether a side may be described by several tables.
    takes_descriptions = False

    # Of what kind the model of pairs is; one that knows no tasks learns nothing from those beside the labels.
    _coupled: type[Pairing] = TwoStep

    _side: Side
    _task_side: Side | None
    # What the model was fitted on.
    _labels: Labels
    # What the user receives: "float32" or "float64".
    _precision: str
    _coefficients: Array
    # What was solved for where some labels are missing or weighted, of a grid or of a list; else None.
    _solution: Completion | ObservedSolution | None
    _fitted_problem: Any
    _closed_problem: Any
    # The parameters that the problem was posed with: others may be set before it is solved again.
    _solved_with: dict[str, Any]
    # What intervals are made of, once somebody has asked for them.
    _residuals: list[Any]

    _made_again: ClassVar[tuple[str, ...]] = ("_fitted_problem", "_closed_problem", "_solved_with", "_residuals")

    @property
    def _columns(self) -> list[tuple[KernelSpec, Ids | None]]:
        return [(side.spec, side.names) for side in self._sides()]

    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model on a grid of labels, all of them or some.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, d), or (m, m) for a precomputed kernel
            The instances: features, or the kernel between them.
        y : array, frame or series of shape (m, q) or (m,)
            The grid of labels Y; NaN where a label is not observed (or None, or masked). The ids of its rows and
            columns, where it has any, are matched with those of `X` and `tasks`. In a sparse matrix what is not stored
            is not observed (zeros that it stores are labels); where the grid would not fit or would cost more, it is
            never formed, see `dyadlearn.solve.observed`.
        tasks : array, sparse matrix, frame or Tasks of shape (q, r) or (q, q), default=None
            The tasks: features, or the kernel between them. Without it there is no task
            step, and the model equals `IndependentTaskRidge`.
        sample_weight : array or frame of shape (m,) or (m, q), default=None
            Weights of the squared loss, for each instance or for each cell; a cell of weight zero counts as not
            observed. Beside a sparse `y` a sparse matrix may hold a weight for each of its labels.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            return self._fit_on(self._read(X, y, tasks, sample_weight))

    def _read(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> reading.Training:
        """Check parameters and data, and bring the data into one order."""
        return reading.read_training(self, X, y, tasks, sample_weight)

    def _fit_on(self, data: reading.Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Fit the model on data that were read; groups are what a search leaves out together."""
        self._keep_labels(data)
        [[(self._side, self._task_side)]] = self._decomposed(data, [self._spec()], [self._task_spec()])
        return self._solve()

    def _refitted(self, data: reading.Training, groups: Groups, setting: Setting) -> Self:
        """Return a model like this one that is fitted on other data, to be asked in a setting."""
        again: Self = clone(self).set_params(progress=False)
        again.n_features_in_ = int(data.instances.values.shape[1])
        return again._fit_on(data, *groups)

    def _keep_labels(self, data: reading.Training) -> None:
        """Keep the labels, for hold-out and other regularisations."""
        self._labels, self._form, self._precision = data.labels, data.form, data.precision
        self._solution = None

    def _decomposed(
        self, data: reading.Training, specs: Sequence[KernelSpec], task_specs: Sequence[KernelSpec]
    ) -> Sides:
        """Decompose each side, once for each of its kernels."""
        has_tasks = data.tasks is not None and self._coupled.knows_tasks
        wanted: dict[str, Any] = {"constant": self._pairing_type(has_tasks).constant if self.fit_intercept else None}
        sides = [fit_side(data.instances, replace(spec, **wanted), "instance") for spec in specs]
        task_sides: list[Side | None] = [None]
        if data.tasks is not None and has_tasks:
            task_sides = [fit_side(data.tasks, replace(spec, **wanted), "task") for spec in task_specs]
        if self.symmetry is not None:
            return [[(side, side)] for side in sides]
        return [[(side, task_side) for task_side in task_sides] for side in sides]

    def _posed(self) -> Any:
        """Return the problem of the sides and the regularisation that the model has."""
        return self._pose(self._side, self._task_side, self._alphas)

    def _pose(self, side: Side, task_side: Side | None, alphas: Mapping[str, Any]) -> Any:
        """Return the problem with what every model has: the labels and when a solver stops."""
        return Problem(self._pairing(side, task_side, **alphas), self._labels, **self._stopping())

    def _solve(self) -> Self:
        """Compute the coefficients from the spectra, for the regularisation that is set.

        Labels are completed where some are missing; the problem is kept with its coefficients.
        """
        problem = self._posed()
        check_regularisation(problem.pairing)
        # The solution for another regularisation is a good place to start.
        self._solution = found = problem.solve(self._solution)
        warn_of_tasks_without_labels(problem, 3)
        self._keep(problem)
        if isinstance(found, ObservedSolution):
            self._coefficients = problem.pairing.coefficients_of(found.spectral, found.mean)
        else:
            self._coefficients = self._closed_problem.pairing.coefficients(self._closed_problem.Y)
        return self

    def _keep(self, problem: Any) -> None:
        """Keep the problem that was posed, and the one whose closed form solves it."""
        self._fitted_problem = self._closed_problem = problem
        if isinstance(self._solution, Completion):
            self._closed_problem = problem.with_grid(self._solution.labels)
        self._solved_with, self._residuals = self.get_params(deep=False), []

    def state(self) -> dict[str, Any]:
        """Return the parameters and what was learnt; the problem is posed again when they are read."""
        found = super().state()
        if self.__sklearn_is_fitted__():
            then = self._solved_with.items()
            found["solved_with"] = {name: value for name, value in then if value is not getattr(self, name)}
        return found

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the model that a state describes; arguments and errors as in `Stored`."""
        own = dict(state)
        changed = own.pop("solved_with", {})
        model = super().from_state(own, where)
        if model.__sklearn_is_fitted__():
            model._pose_again(changed)
        return model

    def _fits(self) -> bool:
        labels, found, ranks = self._labels, self._solution, [side.spectrum.values.shape[0] for side in self._sides()]
        arrays = [self._coefficients]
        if isinstance(found, Completion):
            arrays.append(found.labels)
            starts = found.form != "pairs" or is_shaped(found.solution.values, *ranks)
        else:
            starts = found is None or is_shaped(found.spectral, *ranks)
        return (
            all(side.spectrum.n_rows == n for side, n in zip(self._sides(), labels.shape, strict=False))
            and self.n_features_in_ == self._n_columns
            and all(array.dtype == labels.values.dtype for array in arrays)
            and self._precision in ("float32", "float64")
            and self._form.fits(labels.shape)
            and (len(arrays) == 1 or arrays[1].shape == labels.shape)
            and starts
        )

    def _pose_again(self, changed: Mapping[str, Any]) -> None:
        """Pose the problem of a model that was read; `changed` are the parameters that were other ones then."""
        now = self.get_params(deep=False)
        if not changed.keys() <= now.keys():
            raise misfit(type(self).__name__)
        self.__dict__.update(changed)
        self._check_params()
        self._keep(self._posed())
        self.__dict__.update(now)
        made = self._expansion()
        sides = zip(self._labels.shape, (made.instances, made.tasks), strict=True)
        if not is_shaped(made.values, *(length if part is None else part.size for length, part in sides)):
            raise misfit(type(self).__name__)

    def _stopping(self) -> dict[str, Any]:
        """Return when an iterative solver stops, for models that have one."""
        checks = {"tol": check_alpha, "max_iter": check_count}
        return {name: check(getattr(self, name), name) for name, check in checks.items() if hasattr(self, name)}

    @property
    def completed_(self) -> Any:
        """Labels where they are observed and predictions elsewhere, in the form the labels came in.

        Closed forms and hold-out shortcuts of the complete grid apply to it. With weights, or where all labels are
        observed, it is the grid of labels itself, holes filled.
        """
        self = self._snapshot()
        problem, closed = self._gridded("completed_"), self._closed_problem
        xp = namespace(problem.Y)
        return self._form.restore(self._home(xp.where(xp.isnan(problem.Y), closed.Y, problem.Y)))

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver; 1 for a closed form or a dense system."""
        return max(1, self._iterated.n_iter)

    @property
    def residual_(self) -> float:
        """Relative norm of what the solved linear system leaves over, computed anew; 0 where none was iterated on."""
        return self._iterated.residual

    @property
    def _iterated(self) -> Solution | ObservedSolution:
        """What an iterative solver found; no iterations for a closed form."""
        found = self._snapshot()._solution
        if isinstance(found, Completion):
            return found.solution
        return Solution(None, 0, 0.0, True) if found is None else found

    def _expansion(self) -> Expansion:
        """Return the coefficients with how rows of each side multiply them."""
        pairing: Pairing = self._closed_problem.pairing
        return pairing.expansion(self._coefficients)

    def holdout(self, setting: str | Setting, *, groups: Any = None, task_groups: Any = None, cells: Any = None) -> Any:
        """Predict every label of the training grid as if the model had never seen it.

        The answer is exact. It comes from the fitted spectra without refitting, but where labels are missing or
        weighted and no shortcut exists: there what is left out is hidden, and the rest solved again.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"} or an alias (see `dyadlearn.settings.as_setting`)
            What is left out for a cell: the pair alone (A), its instance (B), its task (C) or both (D).
        groups : array-like of shape (m,), default=None
            Labels of instances that are left out together (k-fold, clusters), for B and D.
        task_groups : array-like of shape (q,), default=None
            Labels of tasks that are left out together, for C and D.
        cells : array-like of shape (m, q), default=None
            Fold labels of cells that are left out together, for A.

        Returns
        -------
        array or frame of shape (m, q) or (m,)
            In the form the labels came in. NaN, with a `NoLabelWarning`, where an independent task has no other label
            to take its constant from. Of a model of observed pairs alone a sparse matrix, with a prediction for each
            of them; `cells` may then be a sparse matrix too, or have a fold for each pair in the order of rows and
            columns.

        Raises
        ------
        LeverageError
            If the model interpolates what is to be left out.
        """
        self = self._snapshot()
        problem, setting = self._problem(), as_setting(setting)
        groups, task_groups = reading.groups_in_order(self._form, groups, task_groups)
        cells = reading.cells_of(problem.labels, self._form, cells)
        self._check_request(setting, groups, task_groups, cells)
        held_out = self._held_out(setting, Units.of_groups(problem.labels, setting, groups, task_groups, cells))
        warn_of_lone_labels(problem.labels, held_out, setting)
        return self._as_labels(held_out)

    def _as_labels(self, values: Array) -> Any:
        """Return values of the labels in the form that the labels came in; those of a list as a sparse matrix."""
        return self._problem().labels.restored(self._home(values), self._form)

    def predict_interval(
        self, X: Any = None, tasks: Any = None, *, coverage: float = 0.9, setting: str | Setting | None = None
    ) -> tuple[Any, Any]:
        """Return intervals of labels, from how far off labels were when they were held out alike.

        Intervals for new instances, or new tasks, are jackknife+ intervals of exact leave-one-out; where labels are
        missing or weighted they come from folds (CV+). If rows (columns) are exchangeable, and the regularisation was
        not chosen on them, they hold a new label with a probability of at least ``2 * coverage - 1``, and of about
        `coverage` in practice. Intervals for pairs of known instances and tasks, for pairs that are new on both sides,
        and in a network, are calibrated by the residuals of that setting, without a guarantee. All of them widen where
        a row lies far from those of training. Nothing is fitted again, but for folds, which are kept. A model of
        observed pairs alone has intervals of one width for each setting, from the residuals of five folds.

        Parameters
        ----------
        X, tasks : as in `predict`
        coverage : float, default=0.9
            The share of labels that intervals are to hold.
        setting : {"A", "B", "C", "D"} or an alias, default=None
            What is new. None tells it by ids: those of training are known, others new; rows without ids are new, and
            with None for `X` or `tasks` those of training are known. Known rows are those of training whatever
            features come with their ids.

        Returns
        -------
        lower, upper : arrays or frames of shape (a, b)
            As `predict` returns predictions. Infinite where there are too few residuals for such a coverage, and NaN
            where nothing is predicted. For observed labels of training they lie around the held-out prediction, not
            around the fitted one, which has seen the label; but for those of a model of observed pairs alone.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import TwoStepRidge
        >>> rng = np.random.default_rng(0)
        >>> X, T = rng.normal(size=(60, 3)), rng.normal(size=(40, 2))
        >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(60, 40))
        >>> model = TwoStepRidge().fit(X[:40], Y[:40], tasks=T)
        >>> lower, upper = model.predict_interval(X[40:])
        >>> bool(0.85 < ((lower <= Y[40:]) & (Y[40:] <= upper)).mean() < 0.95)
        True
        """
        self = self._snapshot()
        return predicted_intervals(self.fitted_, self._intervals(), X, tasks, coverage, setting)

    def _intervals(self) -> Any:
        """Return what held-out residuals say of other labels, computed once for each setting."""
        if not self._residuals:
            self._residuals.append(self._made_intervals())  # of two threads the first counts
        return self._residuals[0]

    def _made_intervals(self) -> Any:
        def kept(setting: Setting) -> tuple[Array, Units] | None:
            found = self._kept_holdout(setting)
            return None if found is None else (found.predictions, found.units)

        return intervals_of(self._problem(), kept, by_formula=not self.describes_by_labels)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is kept of a model, less what intervals have found so far: they find it again."""
        state = super().__getstate__()
        return {**state, "_residuals": []} if "_residuals" in state else state

    def _kept_holdout(self, setting: Setting) -> HeldOut | None:
        """Return the held-out predictions that the model keeps of a setting; None if it keeps none."""
        return None

    def _kernels_given(self, axis: int) -> tuple[str, ...]:
        """Return which descriptions of a side are kernels that were computed beforehand, after several were given."""
        return ()

    def _hold_out(
        self, setting: Setting, *, cv: Any, groups: Any, task_groups: Any, nested: bool, exact: bool
    ) -> HeldOut:
        """Return held-out predictions and how they were made; arguments as in `Fitted.hold_out`.

        Without groups and folds they are those that a model was chosen by, where it keeps them.
        """
        kept = self._kept_holdout(setting) if cv is None and groups is None and task_groups is None else None
        if kept is not None:
            return kept
        problem = self._problem()
        how = plan(problem, setting, groups, task_groups, None if exact and problem.labels.full is not None else cv)
        if not isinstance(how, Formula):
            self._check_request(setting)
            return HeldOut(how.held_out(), how.words, how.units)
        self._check_request(setting, how.units.instances, how.units.tasks)
        return HeldOut(self._held_out(setting, how.units), how.words, how.units)

    def _held_out(self, setting: Setting, units: Units) -> Array:
        """Return held-out predictions of the shape of the labels' values."""
        return leave_out(self._problem(), setting, units)

    @property
    def dual_coef_(self) -> Array:
        """Dual parameters A of shape (m, q), or (m,) after one-dimensional labels."""
        self = self._snapshot()
        dual = self._expansion().dual
        if dual is None:
            self._gridded("dual_coef_")
            dual = self._closed_problem.pairing.dual(self._closed_problem.Y)
        return self._home(self._in_form(dual))

    @property
    def _has_constant(self) -> bool:
        """Whether the sides were fitted with a constant."""
        return self._side.spec.constant is not None

    @property
    def coef_(self) -> Array:
        """Primal parameters W of shape (d, r), without a task side (d, q) or (d,); see `intercept_`.

        Only there when every side runs in the primal.
        """
        check_is_fitted(self)
        if not all(side.is_primal and side.directions is None for side in self._sides()):
            raise AttributeError(
                "coef_ exists only in the primal: linear kernels with fewer features than rows on every side; "
                "see dual_coef_."
            )
        return super().coef_

    def _effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        self = self._snapshot()
        found = self._side.uncentred(self._expansion().folded)
        if self._task_side is not None:
            found = self._task_side.uncentred(found.T).T
        if not self._has_constant:
            return found, None, None, None
        if self._task_side is None:
            return found[:-1, :], None, None, found[-1, :]
        return found[:-1, :-1], found[:-1, -1], found[-1, :-1], found[-1:, -1]

    @property
    def _n_columns(self) -> int:
        """How many columns the instances came with."""
        return self._side.n_columns

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_coefficients")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._spec().is_precomputed
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return what `_pairing` will be."""
        if self.symmetry is not None:
            return Network
        return self._coupled if has_tasks else Independent

    @property
    def _sign(self) -> int:
        """What the labels of a network equal their transpose times."""
        return -1 if self.symmetry == "antisymmetric" else 1

    @abstractmethod
    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Pairing:
        """Return the model of pairs that parameters, fitted sides and regularisations make."""

    @property
    def fitted_(self) -> FittedRidge:
        """What the model has learned from: labels, decomposed sides, the model of pairs; see `FittedRidge`."""
        now = self._snapshot()
        posed: Problem = now._fitted_problem
        return FittedRidge(
            labels=now._labels,
            form=now._form,
            estimator=now,
            settings=now._settings,
            posed=posed,
            closed=now._closed_problem,
            sides=tuple(now._sides()),
            coefficients=now._coefficients,
        )

    @property
    def describes_by_labels(self) -> bool:
        """Whether the labels describe a side too: no formula leaves them out, but the model does so itself."""
        return False

    @property
    def _settings(self) -> tuple[Setting, ...]:
        """The settings that the model can be asked about."""
        return settings_of(self._problem().pairing)

    def _check_request(self, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None) -> None:
        """Raise if a setting, or what leaves together in it, has no meaning for this model."""
        check_request(self._problem().pairing, setting, groups, task_groups, cells)

    def _problem(self) -> Problem:
        """Return the problem that was solved last."""
        check_is_fitted(self)
        problem: Problem = self._fitted_problem
        return problem

    def _gridded(self, name: str) -> Problem:
        """Return the problem of a grid for an attribute of some name, which a model of pairs alone does not have."""
        problem = self._problem()
        try:
            _ = problem.Y
        except ValueError as error:
            raise AttributeError(f"{name} does not exist. {error}") from error
        return problem

    def _spec(self) -> KernelSpec:
        return KernelSpec(self.kernel, self.kernel_params, self.repair)

    def _task_spec(self) -> KernelSpec:
        return KernelSpec(self.task_kernel, self.task_kernel_params, self.repair)

    def _check_params(self) -> None:
        self._check_alphas()
        for name in ("filter", "task_filter"):
            reading.checked_filter(getattr(self, name, None), name)
        check_flag(self.fit_intercept, "fit_intercept")
        check_choice(self.repair, "repair", ("clip", "shift", "error"))
        if self.device is not None and not isinstance(self.device, str):
            raise TypeError(f'device must be the name of a device such as "cuda", or None, found {self.device!r}.')
        if self.symmetry is not None:
            check_choice(self.symmetry, "symmetry", ("symmetric", "antisymmetric"))
        self._stopping()

    def _sides(self) -> list[Side]:
        return [self._side] if self._task_side is None else [self._side, self._task_side]

    @property
    def _knows_tasks(self) -> bool:
        return self._task_side is not None

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, NewRows]:
        side = self._sides()[axis]
        table, rows = reading.read_rows(self, given, axis, side.spec, side.ids, side.names, side.n_columns)
        return table, side.new_rows(self._as_fitted(rows, ("X", "tasks")[axis]))

    def _as_fitted(self, rows: Array, name: str) -> Array:
        # A model with a device that was read from a file computes here.
        if self.device is not None and is_foreign(self._coefficients) and not is_foreign(rows):
            rows = as_array_of(dense(rows), self._coefficients)
        check_same_library({name: rows, "the fitted model": self._coefficients})
        return rows
