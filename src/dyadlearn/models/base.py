"""Base classes of all models: predict, score, set_alpha, and fit and holdout of grid models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
    check_flag,
    check_instances,
    check_same_library,
    check_whole,
)
from dyadlearn._codes import id_columns
from dyadlearn._messages import Message
from dyadlearn._progress import Phase, announce
from dyadlearn._state import StoredEstimator, all_or_nothing, is_shaped, misfit
from dyadlearn._tables import Ids, Table, in_order
from dyadlearn.holdout import Problem, Units, leave_out, plan
from dyadlearn.holdout.intervals import intervals_of
from dyadlearn.holdout.units import warn_of_unlabelled, warn_of_unpredicted
from dyadlearn.labels import Labels
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models import reading
from dyadlearn.models.fitted import FittedRidge, HeldOut, predicted_intervals
from dyadlearn.models.side import KernelSpec, Side, computed_kernel, fit_side
from dyadlearn.pairing import Independent, Network, Pairing, TwoStep
from dyadlearn.pairing.base import (
    check_regularisation,
    check_request,
    has_task_constants,
    settings_of,
)
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.new_labels import check_takes_labels, predict_with_labels
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import ObservedSolution

# Fold of each instance and of each task; None means leave-one-out.
Groups = tuple[np.ndarray | None, np.ndarray | None]

# Constants that are added to the kernel of the instances and to that of the tasks.
Constants = tuple[float, float]

# Decomposed sides: one row per instance kernel, with one entry per task kernel and pair of
# constants.
Sides = list[list[tuple[Side, Side | None]]]

# Decomposed kernels of one side, by the constant that is added to them.
LevelSides = dict[float, list[Side]]


#: How to fix a model that was fitted without tasks; the end of error messages.
WITH_TASKS = Message("fit it with <tasks=>, the features or kernel of the training tasks.")


# Names of the rows of each side, and of the argument with the kernel of each row with itself.
_DIAGONALS = (("X", "diagonal"), ("tasks", "task_diagonal"))


class Predictor(StoredEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Base class of all grid models: predict, predict_pairs and score.

    A subclass implements `_new_rows`, which reads new rows, and `_expansion`, which returns the
    coefficients. It stores the ids of its rows and columns as `_form`.
    """

    #: Device that computes with numpy arrays; None means the CPU.
    device: str | None = None

    #: Whether the model is updated batch by batch; such a model stores statistics of the data, not
    #: the labels.
    grows = False

    #: Whether the model chooses its regularisation itself.
    searches = False

    #: Whether the model also learns its kernels from the labels.
    learns_kernels = False

    #: Whether features may be NaN.
    allows_nan = False

    # How to fix a model without a task side; the end of error messages.
    _tasks_remedy: str = WITH_TASKS

    # Table without values: the ids of both sides, if the model stores them, and the type of the
    # labels.
    _form: Table

    @abstractmethod
    def _expansion(self) -> Expansion:
        """Return the coefficients, as an object that multiplies them by rows of each side."""

    @property
    @abstractmethod
    def _knows_tasks(self) -> bool:
        """Whether the model was fitted with features, or a kernel, of the tasks."""

    @abstractmethod
    def _new_rows(self, given: Any, axis: int) -> tuple[Table, Any]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""

    def _instance_rows(self, X: Any) -> tuple[Table, Any]:
        """Return the ids and the rows of instances to predict for; None means the training instances."""
        return (self._form, None) if X is None else self._new_rows(X, 0)

    def _task_rows(self, tasks: Any) -> tuple[Table | None, Any]:
        """Return the ids and the rows of tasks to predict for; None means the training tasks."""
        if tasks is None:
            return None, None
        if not self._knows_tasks:
            raise ValueError(
                Message(
                    "This {model} knows nothing of tasks: {remedy}",
                    model=type(self).__name__,
                    remedy=self._tasks_remedy,
                )
            )
        return self._new_rows(tasks, 1)

    def predict(self, X: Any = None, tasks: Any = None) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None means
            the training instances, if the model stores them.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None means the
            training tasks.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame, or if `X` is None and the training labels were a
            frame. The shape is (a,) if the training labels were one-dimensional and `tasks` is
            None.
        """
        table = self._predicted(X, tasks)
        return table.restore(table.values)

    def _predicted(self, X: Any, tasks: Any) -> Table:
        """Return predictions (a, b) with the ids of instances and tasks and the type of returned predictions."""
        self = self._snapshot()
        form, rows = self._asked(X, tasks)
        return replace(form, values=self._home(self._expansion().grid(*rows)))

    def _asked(self, X: Any, tasks: Any) -> tuple[Table, tuple[Any, Any]]:
        """Return a table without values, with the ids and the type of predictions, and the rows of both sides."""
        instances, rows = self._instance_rows(X)
        task_table, task_rows = self._task_rows(tasks)
        kind = instances.kind or (task_table.kind if task_table else None)
        column_ids = self._form.column_ids if task_table is None else task_table.row_ids
        is_vector = self._form.is_vector and tasks is None
        return Table(None, instances.row_ids, column_ids, kind, is_vector), (rows, task_rows)

    def predict_pairs(self, X: Any, tasks: Any, pairs: Any) -> Array:
        """Predict the labels of the given pairs only.

        Parameters
        ----------
        X, tasks : as in `predict`
        pairs : array-like or frame of shape (n, 2)
            One instance and one task per row. They are ids if `X` or `tasks` is a frame with ids
            (for None: if the training labels had ids), and row positions otherwise.

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
        form, rows = self._asked(X, tasks)
        model = self._expansion()
        columns = ([], []) if len(pairs) == 0 else id_columns(pairs, "pairs")
        names = (
            "the training instances" if X is None else "X",
            "the training tasks" if tasks is None else "tasks",
        )
        known = zip((model.n_instances, model.n_tasks), rows, strict=True)
        sizes = [n if side is None else self._n_rows(side) for n, side in known]
        first, second = map(
            reading.positions, columns, (form.row_ids, form.column_ids), sizes, names
        )
        return self._home(model.at(*rows, (first, second)))

    def _n_rows(self, rows: Any) -> int:
        """Return the number of rows that `_new_rows` returned."""
        return int(rows.size)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², averaged over tasks.

        Parameters
        ----------
        X, tasks : as in `predict`
        y : array, frame or series of shape (a, b)
            True labels. Ids of its rows and columns are matched with those of `X` and `tasks`.
            Cells that are NaN are excluded, and so are tasks with fewer than two labels and tasks
            without predictions. In a sparse matrix, cells that are not stored are excluded.
        sample_weight : array of shape (a,), default=None
            Weights of the instances.

        Returns
        -------
        float
        """
        labels, form = reading.read_given_labels(y)
        if labels.grid is None:
            predicted = to_numpy(self.predict_pairs(X, tasks, np.stack(labels.places, axis=1)))
            values = to_numpy(labels.values).astype(np.float64)
        else:
            table = self._predicted(X, tasks)
            truth = replace(form, values=to_numpy(labels.values))
            predicted = to_numpy(table.values)
            if truth.values.shape != predicted.shape:
                raise ValueError(
                    f"Y has shape {truth.values.shape}, but the predictions for X and tasks have "
                    f"shape "
                    f"{predicted.shape}. If scikit-learn has sliced the tasks, pass them as "
                    f"Tasks(tasks)."
                )
            truth = truth.rows_as(table.row_ids, "the rows of Y", "X")
            values = truth.columns_as(table.column_ids, "the columns of Y", "the tasks").values
            sample_weight = in_order(sample_weight, table.row_ids, None, "sample_weight", "X")
            # Tasks without a training label have no intercept and no predictions; fit has warned
            # about them.
            values = np.where(np.isnan(predicted).all(axis=0), np.nan, values)
        values, predicted = reading.in_range(values, predicted)
        if labels.grid is not None and not np.isnan(values).any():
            return float(r2_score(values, predicted, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("score takes sample_weight only if no label is missing: leave it out.")
        return float(prepared_score(replace(labels, values=values), "r2", Setting.C)(predicted))

    def _in_form(self, values: Array) -> Array:
        """Return values of shape (n,) if the labels were one-dimensional, and unchanged otherwise."""
        if self._form.is_vector:
            return namespace(values).reshape(values, (-1,))
        return values

    def _home(self, values: Array) -> Array:
        """Return results in the precision of the data; as numpy arrays if they were computed on `device`."""
        values = cast(values, getattr(namespace(values), self._precision))
        return values if self.device is None else to_numpy(values)

    def _validated_instances(self, table: Table, spec: KernelSpec, *, reset: bool) -> Array:
        """Check X as scikit-learn does, for arrays of any supported library, and return it."""
        allow_nan = self.allows_nan and not spec.is_precomputed
        return check_instances(
            self, table, is_kernel=spec.is_precomputed, reset=reset, allow_nan=allow_nan
        )


class PairModel(Predictor, stored=False):
    """Base class of the ridge models: regularisation (set_alpha) and coefficients (coef_, intercept_)."""

    @property
    def _alphas(self) -> dict[str, Any]:
        """Regularisation of the model, chosen by a search or set by the user: alpha and, if it exists, task_alpha."""
        return {
            name: getattr(self, name) for name in ("alpha", "task_alpha") if hasattr(self, name)
        }

    @property
    @abstractmethod
    def _descriptions(self) -> list[dict[str, tuple[Any, Ids | None]]]:
        """Kernel and column names of each description of each side, by name; a single table has the name ""."""

    @abstractmethod
    def _solve(self) -> Self:
        """Compute the coefficients for the current regularisation."""

    def set_alpha(self, alpha: Any = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model without a new decomposition.

        Other threads may read the model at the same time: each method and attribute uses either the
        old or the new state, never a mixture. Two threads must not change the same model at the
        same time.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None keeps the current value. A model with one regularisation has no
            `task_alpha`. `IndependentTaskRidge` also accepts an array of shape (q,) as `alpha`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = {"alpha": alpha, "task_alpha": task_alpha}
        given = {
            name: self._checked_alpha(value, name)
            for name, value in given.items()
            if value is not None
        }
        changed = self._snapshot().set_params(**given)
        changed._solve()
        self.__dict__ = changed.__dict__  # in one step
        return self

    @abstractmethod
    def _effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        """Return interactions, main effects of instances, main effects of tasks, and constants.

        An effect that the model does not have is None. The effects multiply features, or kernel
        values, that are not centred. There is one constant, or one per task.
        """

    @property
    def coef_(self) -> Array:
        """Coefficients W of shape (d, r); without a task side (d, q) or (d,). See `intercept_` for the formula."""
        check_is_fitted(self)
        interactions = self._effects()[0]
        return self._home(interactions if self._knows_tasks else self._in_form(interactions))

    @property
    def intercept_(self) -> Any:
        """Prediction where every feature, or kernel value, is zero: a number, or shape (q,) without a task side.

        A prediction is ``x @ W @ t + x @ instance_coef_ + task_coef_ @ t + intercept_``; without a
        task side it is ``x @ W + intercept_``. In the primal, x and t are the features of an
        instance and a task, after feature maps, and W is `coef_`. In the dual, they are kernel
        values with the training rows, and W is `dual_coef_`.
        """
        check_is_fitted(self)
        constants = self._effects()[3]
        if constants is None:
            return 0.0
        if self._knows_tasks or self._form.is_vector:
            return float(constants[0])
        return self._home(constants)

    @property
    def instance_coef_(self) -> Array:
        """Main effects of instances, which do not depend on the task: shape (d,) or (m,), see `intercept_`."""
        return self._main_effects("instance_coef_", 1)

    @property
    def task_coef_(self) -> Array:
        """Main effects of tasks, which do not depend on the instance: shape (r,) or (q,), see `intercept_`."""
        return self._main_effects("task_coef_", 2)

    def _main_effects(self, name: str, place: int) -> Array:
        check_is_fitted(self)
        effects = self._effects()[place]
        if effects is None:
            raise AttributeError(f"{name} exists only with fit_intercept=True and a task side.")
        return self._home(effects)

    def _check_alphas(self) -> None:
        for name, value in self._alphas.items():
            self._checked_alpha(value, name)

    def _checked_alpha(self, value: Any, name: str) -> Any:
        """Return a regularisation as a float; raise if it is negative or not a number."""
        return check_alpha(value, name)


class PairwiseRidge(PairModel, stored=False):
    """Base class of kernel ridge models of a grid of labels, with an instance side and an optional task side.

    A subclass implements `_pairing`, which returns the pairing of its parameters and fitted sides.
    """

    kernel: Any
    kernel_params: dict[str, Any] | None
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    repair: str
    fit_intercept: bool = False
    symmetry: str | None = None

    # Whether the model can be fitted on a list of observed pairs, without forming the grid.
    _takes_pairs = True

    #: Whether a side may have several tables of descriptions.
    takes_descriptions = False

    # Class of the pairing if tasks are passed; one without a task side ignores their features.
    _coupled: type[Pairing] = TwoStep

    _side: Side
    _task_side: Side | None
    # Training labels.
    _labels: Labels
    # Precision of returned arrays: "float32" or "float64".
    _precision: str
    _coefficients: Array
    # Solution for missing or weighted labels, of a grid or of a list of pairs; None for a closed
    # form.
    _solution: Completion | ObservedSolution | None
    _fitted_problem: Problem
    _closed_problem: Problem
    # Parameters at the last solve; set_params may have changed them since.
    _solved_with: dict[str, Any]
    # Held-out residuals for intervals, computed at the first call of predict_interval.
    _residuals: list[Any]

    _made_again: ClassVar[tuple[str, ...]] = (
        "_fitted_problem",
        "_closed_problem",
        "_solved_with",
        "_residuals",
    )

    @property
    def _descriptions(self) -> list[dict[str, tuple[Any, Ids | None]]]:
        return [{"": (side.spec, side.names)} for side in self._sides()]

    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model on a grid of labels, complete or with missing labels.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, d), or (m, m) for a precomputed kernel
            The instances: features, or the kernel between them.
        y : array, frame or series of shape (m, q) or (m,)
            Grid of labels Y. NaN, None and masked cells mean "not observed". Ids of its rows and
            columns are matched with those of `X` and `tasks`. In a sparse matrix, cells that are
            not stored are not observed; stored zeros are labels. The grid of a sparse matrix is not
            formed if it does not fit in memory or if computing on the pairs is cheaper, see
            `dyadlearn.solve.observed`.
        tasks : array, sparse matrix, frame or Tasks of shape (q, r) or (q, q), default=None
            The tasks: features, or the kernel between them. Without `tasks` there is no task side,
            and the model equals `IndependentTaskRidge`, which accepts and ignores `tasks`.
        sample_weight : array or frame of shape (m,) or (m, q), default=None
            Weights of the squared loss, one per instance or one per cell. A cell of weight zero is
            treated as not observed. With a sparse `y`, a sparse matrix with one weight per label is
            accepted too.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            return self._fit_on(self._read(X, y, tasks, sample_weight))

    def _read(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> reading.Training:
        """Check parameters and data, and return the data in the order of the labels."""
        return reading.read_training(self, X, y, tasks, sample_weight)

    def _fit_on(self, data: reading.Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Fit the model on checked data; a search leaves out instances or tasks of the same group together."""
        self._keep_labels(data)
        [[(self._side, self._task_side)]] = self._decomposed(
            data, [self._spec()], [self._task_spec()]
        )
        return self._solve()

    def _refitted(self, data: reading.Training, groups: Groups, setting: Setting) -> Self:
        """Return a clone that is fitted on other data, for predictions in a setting."""
        again: Self = clone(self).set_params(progress=False)
        again.n_features_in_ = int(data.instances.values.shape[1])
        return again._fit_on(data, *groups)

    def _keep_labels(self, data: reading.Training) -> None:
        """Store the labels for hold-out and for other regularisations."""
        self._labels = data.labels
        self._form = data.form
        self._precision = data.precision
        self._solution = None

    def _decomposed(
        self, data: reading.Training, specs: Sequence[KernelSpec], task_specs: Sequence[KernelSpec]
    ) -> Sides:
        """Return the decomposed sides, one decomposition per kernel and constant of a side."""
        tasks = data.tasks if self._coupled.knows_tasks else None
        if self.fit_intercept:
            constant = self._pairing_type(tasks is not None).constant
        else:
            constant = None
        pairs = self._all_constants() if constant == "feature" else [(1.0, 1.0)]

        def decomposed(
            table: Table, kernels: Sequence[KernelSpec], name: str, levels: Iterable[float]
        ) -> LevelSides:
            found: LevelSides = {level: [] for level in levels}
            for spec in kernels:
                # Constants share the kernel, which may take long to compute.
                kernel = computed_kernel(table, spec) if len(found) > 1 else None
                for level, sides in found.items():
                    wanted = replace(spec, constant=constant, level=level)
                    sides.append(_decompose(table, wanted, name, kernel))
            return found

        sides = decomposed(data.instances, specs, "instance", [level for level, _ in pairs])
        task_sides: LevelSides = {}
        if tasks is not None:
            task_sides = decomposed(tasks, task_specs, "task", [level for _, level in pairs])
        return self._with_constants(sides, task_sides, pairs)

    def _all_constants(self) -> list[Constants]:
        """Return all constants of both kernels for which sides are decomposed, if the constants are features."""
        return [(1.0, 1.0)]

    def _with_constants(
        self, sides: LevelSides, task_sides: LevelSides, pairs: Sequence[Constants]
    ) -> Sides:
        """Return all pairs of sides; each pair of kernels is followed by the same with the other constants."""
        each = [self._paired(sides[level], task_sides.get(other, [])) for level, other in pairs]
        return [
            [both for some in zip(*rows, strict=True) for both in some]
            for rows in zip(*each, strict=True)
        ]

    def _paired(self, sides: Sequence[Side], task_sides: Sequence[Side | None]) -> Sides:
        """Return all pairs of an instance side and a task side; a network has the same nodes on both sides."""
        if self.symmetry is not None:
            return [[(side, side)] for side in sides]
        return [[(side, task_side) for task_side in task_sides or [None]] for side in sides]

    def _problem_at(self, side: Side, task_side: Side | None, alphas: Mapping[str, Any]) -> Any:
        """Return the problem of sides and regularisation, with the labels and the solver's stopping rule."""
        return Problem.scaled(
            self._pairing(side, task_side, **alphas), self._labels, **self._stopping()
        )

    def _solve(self) -> Self:
        """Compute the coefficients for the current regularisation from the spectra.

        Missing labels are completed. The problem is stored with its coefficients.
        """
        problem = self._problem_at(self._side, self._task_side, self._alphas)
        check_regularisation(problem.pairing)
        # Warm start from the solution for the previous regularisation.
        self._solution = solution = problem.solve(self._solution)
        if has_task_constants(problem.pairing):
            warn_of_unlabelled(np.all(~problem.labels.observed, axis=0), 3)
        self._keep(problem)
        if isinstance(solution, ObservedSolution):
            self._coefficients = problem.pairing.coefficients_of(solution.spectral, solution.mean)
        else:
            self._coefficients = self._closed_problem.pairing.coefficients(self._closed_problem.Y)
        return self

    def _keep(self, problem: Problem) -> None:
        """Store the problem, and the problem with completed labels, which has a closed form."""
        self._fitted_problem = self._closed_problem = problem
        if isinstance(self._solution, Completion):
            self._closed_problem = problem.with_grid(self._solution.labels)
        self._solved_with = self.get_params(deep=False)
        self._residuals = []

    def state(self) -> dict[str, Any]:
        """Return the parameters and fitted attributes; the problem is rebuilt from them on loading."""
        state = super().state()
        if self.__sklearn_is_fitted__():
            then = self._solved_with.items()
            state["solved_with"] = {
                name: value for name, value in then if value is not getattr(self, name)
            }
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the model of a stored state; arguments and errors as in `Stored`."""
        stored = dict(state)
        changed = stored.pop("solved_with") if stored.keys() > {"parameters"} else {}
        model = super().from_state(stored, where)
        if model.__sklearn_is_fitted__():
            model._pose_again(changed)
        return model

    def _fits(self) -> bool:
        labels = self._labels
        solution = self._solution
        arrays = [self._coefficients]
        ranks = [side.spectrum.values.shape[0] for side in self._sides()]
        if isinstance(solution, Completion):
            arrays.append(solution.labels)
            starts = solution.route != "pairs" or is_shaped(solution.solution.values, *ranks)
        else:
            starts = solution is None or is_shaped(solution.spectral, *ranks)
        return (
            all(
                side.spectrum.n_rows == n
                for side, n in zip(self._sides(), labels.shape, strict=False)
            )
            and self.n_features_in_ == self._n_columns
            and all(array.dtype == labels.values.dtype for array in arrays)
            and self._precision in ("float32", "float64")
            and self._form.fits(labels.shape)
            and (len(arrays) == 1 or arrays[1].shape == labels.shape)
            and starts
        )

    def _pose_again(self, changed: Mapping[str, Any]) -> None:
        """Rebuild the problem of a loaded model; `changed` has the parameters that differed at the last solve."""
        now = self.get_params(deep=False)
        if not changed.keys() <= now.keys():
            raise misfit(type(self).__name__)
        self.__dict__.update(changed)
        self._check_params()
        self._keep(self._problem_at(self._side, self._task_side, self._alphas))
        self.__dict__.update(now)
        expansion = self._expansion()
        sides = zip(self._labels.shape, (expansion.instances, expansion.tasks), strict=True)
        if not is_shaped(
            expansion.values, *(length if part is None else part.size for length, part in sides)
        ):
            raise misfit(type(self).__name__)

    def _stopping(self) -> dict[str, Any]:
        """Return the stopping rule of the iterative solver, empty for models without one."""
        checks = {"tol": check_alpha, "max_iter": check_whole}
        return {
            name: check(getattr(self, name), name)
            for name, check in checks.items()
            if hasattr(self, name)
        }

    @property
    def completed_(self) -> Any:
        """Labels where they are observed and predictions elsewhere, in the form the labels came in.

        Without weights, closed forms and hold-out formulas of the complete grid apply to these
        completed labels.
        """
        self = self._snapshot()
        problem = self._gridded("completed_")
        closed = self._closed_problem
        xp = namespace(problem.Y)
        return self._form.restore(self._home(xp.where(xp.isnan(problem.Y), closed.Y, problem.Y)))

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver; 1 for a closed form or a dense system."""
        return max(1, self._iterated.n_iter)

    @property
    def residual_(self) -> float:
        """Relative residual norm of the solved linear system, computed from the solution; 0 for a closed form."""
        return self._iterated.residual

    @property
    def _iterated(self) -> Solution | ObservedSolution:
        """Solution of the iterative solver; a closed form has zero iterations."""
        solution = self._snapshot()._solution
        if isinstance(solution, Completion):
            return solution.solution
        return Solution(None, 0, 0.0, True) if solution is None else solution

    def _expansion(self) -> Expansion:
        """Return the coefficients, as an object that multiplies them by rows of each side."""
        pairing: Pairing = self._closed_problem.pairing
        return pairing.expansion(self._coefficients)

    def predict(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        labels: Any = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None means
            the training instances.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None means the
            training tasks.
        labels : array or frame of shape (a, b), default=None
            Known labels of new instances with training tasks (``tasks=None``), or of training
            instances with new tasks (``X=None``); NaN means not known. The predictions are exactly
            those of a model that is fitted again with the new row and its labels, with the same
            kernels and regularisation. Each new row is added alone: its labels do not change the
            predictions for other rows. A frame is matched by ids, and may lack rows and columns
            without labels. Complete training labels have a formula; if some are missing or
            weighted, the model is solved once for each new row.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself; required for `labels` with a
            precomputed kernel whose training diagonal is not constant.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame, or if `X` is None and the training labels were a
            frame. The shape is (a,) if the training labels were one-dimensional and `tasks` is
            None.
        """
        if labels is None:
            return super().predict(X, tasks)
        self = self._snapshot()
        check_takes_labels(self._problem().pairing)
        form, sides = self._asked(X, tasks)
        if self.describes_by_labels:
            raise ValueError(
                Message(
                    "A model with profiles of labels takes no labels of new rows: fit it with "
                    "<stages=1>."
                )
            )
        if sum(rows is not None for rows in sides) != 1:
            raise ValueError(
                Message(
                    "<labels> are those of {fold_in}: give either <X> or <tasks>.",
                    fold_in=reading.FOLD_IN,
                )
            )
        axis = int(sides[0] is None)
        problem = self._problem()
        predictions = self._expansion().grid(*sides)
        few = as_array_of(
            reading.few_labels(labels, form, predictions.shape), predictions, predictions.dtype
        )
        prior = self._priors(form, sides, diagonal, task_diagonal)[axis]
        known = (problem.labels, sides[axis], prior, predictions, few, axis)
        options: dict[str, Any] = {
            "weight": 1.0 / problem.unit,
            "tol": problem.tol,
            "max_iter": problem.max_iter,
        }
        return form.restore(self._home(predict_with_labels(problem.pairing, *known, **options)))

    def _priors(
        self, form: Table, rows: Sequence[NewRows | None], *given: Any
    ) -> list[Array | None]:
        """Return the kernel of each row of both sides with itself; None for training rows and in the primal."""
        priors: list[Array | None] = []
        for axis, (asked, values) in enumerate(zip(rows, given, strict=True)):
            if values is not None:
                priors.append(self._given_prior(axis, form, asked, values))
            elif asked is None or self._sides()[axis].is_primal:
                priors.append(None)
            else:
                priors.append(asked.self_kernel)
                if priors[-1] is None:
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
        return priors

    def _with_diagonals(
        self, form: Table, rows: Sequence[NewRows | None], *given: Any
    ) -> list[NewRows | None]:
        """Return the rows of both sides with the kernel of each row with itself, where the user gave it."""
        asked = list(rows)
        for axis, values in enumerate(given):
            if values is not None:
                own = self._given_prior(axis, form, rows[axis], values)
                asked[axis] = replace(asked[axis], diagonal=own)  # type: ignore[type-var]
        return asked

    def _given_prior(self, axis: int, form: Table, rows: NewRows | None, given: Any) -> Array:
        """Return the kernel of each row of a side with itself, from the values that the user gave."""
        owner, name = _DIAGONALS[axis]
        side = next(iter(self._sides()[axis : axis + 1]), None)
        is_given = side is not None and (
            side.spec.is_precomputed or bool(self._kernels_given(axis))
        )
        if side is None or rows is None or rows.places is not None or not is_given:
            raise ValueError(
                f"{name} is only for rows of {owner} from a precomputed kernel: leave it out."
            )
        values = self._given_diagonal(axis, (form.row_ids, form.column_ids)[axis], rows, given)
        return side.prior(rows.values, values)

    def _given_diagonal(self, axis: int, ids: Ids | None, rows: NewRows, given: Any) -> Array:
        """Return the kernel of each row with itself before centring, from the values that the user gave."""
        owner, name = _DIAGONALS[axis]
        values = reading.nonnegative(in_order(given, ids, None, name, owner), name)
        if values.shape not in ((rows.size,), (rows.size, 1)):
            expected = f"a number for each of {rows.size} rows of {owner}"
            raise ValueError(f"{name} must hold {expected}, found shape {values.shape}.")
        like = self._sides()[axis].spectrum.values
        return as_array_of(values.reshape(-1), like, like.dtype)

    def holdout(
        self,
        setting: str | Setting,
        *,
        groups: Any = None,
        task_groups: Any = None,
        cells: Any = None,
    ) -> Any:
        """Predict every label of the training grid by a model that was fitted without it.

        The predictions are exact. They are computed from the fitted spectra without refitting. If
        labels are missing or weighted and there is no formula, each fold is hidden and the model is
        refitted.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"} or an alias (see `dyadlearn.settings.as_setting`)
            What is left out to predict a cell: the pair alone (A), its instance (B), its task (C)
            or both (D).
        groups : array-like of shape (m,) or "identical", default=None
            Group of each instance (fold, cluster); a group is left out together. For B and D.
            "identical" leaves out instances with equal rows of the kernel together.
        task_groups : array-like of shape (q,) or "identical", default=None
            Group of each task; a group is left out together. For C and D.
        cells : array-like of shape (m, q), default=None
            Fold of each cell; a fold is left out together. For A. A sparse matrix stores a fold,
            which may be 0, for each label.

        Returns
        -------
        array or frame of shape (m, q) or (m,)
            Held-out predictions, of the type of the labels. They are NaN, with a `NoLabelWarning`,
            where an independent task has no other label from which to estimate its intercept. A
            model that was fitted on a list of observed pairs returns a sparse matrix with one
            prediction per pair. For such a model `cells` may also be an array with one fold per
            pair, ordered by row and column.

        Raises
        ------
        LeverageError
            If the model interpolates the labels that are left out (leverage 1).
        """
        self = self._snapshot()
        problem = self._problem()
        setting = as_setting(setting)
        groups, task_groups = self.fitted_.in_groups(groups, task_groups)
        cells = reading.cells_of(problem.labels, self._form, cells)
        self._check_request(setting, groups, task_groups, cells)
        units = Units.of_groups(problem.labels, setting, (groups, task_groups), cells)
        held_out = self._held_out(setting, units)
        warn_of_unpredicted(problem.labels, held_out, setting)
        return self._as_labels(held_out)

    def _as_labels(self, values: Array) -> Any:
        """Return one value per label in the type of the training labels; a sparse matrix for a list of pairs."""
        return self._problem().labels.restored(self._home(values), self._form)

    def predict_interval(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        coverage: float = 0.9,
        setting: str | Setting | None = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> tuple[Any, Any]:
        """Return prediction intervals, computed from the held-out residuals of the same setting.

        Intervals for new instances (B) or new tasks (C) are jackknife+ intervals of leave-one-out,
        also if labels are missing or weighted and the hold-out of `evaluate` in this setting leaves
        out one row at a time. If it refits folds, they are CV+ intervals of these. They contain a
        new label with probability at least ``2 * coverage - 1`` (with folds slightly less), in
        practice about `coverage`, if rows (columns) are exchangeable and the regularisation was not
        chosen on them. If labels are missing, this holds for labels that would have been observed.
        Intervals for known pairs (A), for pairs that are new on both sides (D) and for networks are
        calibrated on the residuals of that setting and have no guarantee. All intervals are wider
        for rows that are far from the training rows. Nothing is refitted, except where hold-out
        refits, and results are cached. A model that was fitted on a list of observed pairs has
        these intervals if there are formulas in B and C and most rows and columns have nine labels;
        with fewer labels, and for other lists, intervals have one width per setting, from the
        residuals that `evaluate` scores, without a guarantee.

        Parameters
        ----------
        X, tasks : as in `predict`
        coverage : float, default=0.9
            Share of labels that the intervals should contain.
        setting : {"A", "B", "C", "D"} or an alias, default=None
            Which sides are new. With None, the ids decide: rows with a training id are known, all
            other rows are new, and rows without ids are new. ``X=None`` or ``tasks=None`` means the
            known training rows. For a known id the training features are used, whatever features
            are passed.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself, for a precomputed kernel whose
            training diagonal is not constant. The distance of new rows from the training rows
            depends on it. Without it, all new rows have the median distance.

        Returns
        -------
        lower, upper : arrays or frames of shape (a, b)
            Bounds, of the type that `predict` returns. They are infinite, with an
            `UnboundedIntervalWarning`, if there are too few residuals for the coverage, and NaN
            where the prediction is NaN. For observed training labels they are centred on the
            held-out prediction, because the fitted prediction has used the label.

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
        given = (diagonal, task_diagonal)
        return predicted_intervals(
            self.fitted_, self._intervals(), X, tasks, coverage, setting, given
        )

    def _intervals(self) -> Any:
        """Return the interval estimator, which computes the held-out residuals once per setting."""

        def stored(setting: Setting) -> tuple[Array, Units] | None:
            held_out = self._kept_holdout(setting)
            return None if held_out is None else (held_out.predictions, held_out.units)

        if not self._residuals:  # if two threads append, the first entry is used
            self._residuals.append(
                intervals_of(self._problem(), stored, by_formula=not self.describes_by_labels)
            )
        return self._residuals[0]

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle; cached results are left out and recomputed when needed."""
        empty: dict[str, Any] = {"_residuals": [], "_computed": {}}
        return {name: empty.get(name, value) for name, value in super().__getstate__().items()}

    def _kept_holdout(self, setting: Setting) -> HeldOut | None:
        """Return the stored held-out predictions of a setting; None if there are none."""
        return None

    def _kernels_given(self, axis: int) -> tuple[str, ...]:
        """Return the names of the descriptions of a side that are precomputed kernels."""
        return ()

    def _hold_out(
        self,
        setting: Setting,
        cv: Any,
        groups: Any,
        task_groups: Any,
        nested: bool,
        exact: bool,
        method: str | None = None,
    ) -> HeldOut:
        """Return held-out predictions and the method used; arguments as in `Fitted.hold_out`.

        Without groups and folds, a search returns the predictions by which it has chosen its model,
        if it stores them.
        """
        is_usual = cv is None and groups is None and task_groups is None and method is None
        stored = self._kept_holdout(setting) if is_usual else None
        if stored is not None:
            return stored
        how = plan(self._problem(), setting, groups, task_groups, cv, method=method, exact=exact)
        self._check_request(setting)
        announce(f"Setting {setting.value}: {how.words}", how.cost.seconds)
        return HeldOut(how.held_out(everywhere=True), how.method, how.units, reason=how.explanation)

    def _held_out(self, setting: Setting, units: Units) -> Array:
        """Return one held-out prediction per label."""
        return leave_out(self._problem(), setting, units)

    @property
    def dual_coef_(self) -> Array:
        """Dual coefficients A of shape (m, q), or (m,) for one-dimensional labels."""
        self = self._snapshot()
        dual = self._expansion().dual
        if dual is None:
            self._gridded("dual_coef_")
            dual = self._closed_problem.pairing.dual(self._closed_problem.Y)
        return self._home(self._in_form(dual))

    @property
    def coef_(self) -> Array:
        """Primal coefficients W of shape (d, r); without a task side (d, q) or (d,). See `intercept_` for the formula.

        The attribute exists only if every side is solved in the primal.
        """
        check_is_fitted(self)
        if not all(side.is_primal and side.directions is None for side in self._sides()):
            raise AttributeError(
                "coef_ exists only in the primal: linear kernels, fewer features than rows; see "
                "dual_coef_."
            )
        return super().coef_

    def _effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        self = self._snapshot()
        coefficients = self._side.uncentred(self._expansion().absorbed)
        if self._task_side is not None:
            coefficients = self._task_side.uncentred(coefficients.T).T
        if self._side.spec.constant is None:
            return coefficients, None, None, None
        if self._task_side is None:
            return coefficients[:-1, :], None, None, coefficients[-1, :]
        return (
            coefficients[:-1, :-1],
            coefficients[:-1, -1],
            coefficients[-1, :-1],
            coefficients[-1:, -1],
        )

    @property
    def _n_columns(self) -> int:
        """Number of columns of the training instances."""
        return self._side.n_columns

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_coefficients")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._spec().is_precomputed
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _pairing_type(self, has_tasks: bool) -> type[Pairing]:
        """Return the class of the pairing that `_pairing` will return."""
        if self.symmetry is not None:
            return Network
        return self._coupled if has_tasks else Independent

    @property
    def _sign(self) -> int:
        """Sign s of a network's labels, Y = s Yᵀ: 1 for symmetric, -1 for antisymmetric labels."""
        return -1 if self.symmetry == "antisymmetric" else 1

    @abstractmethod
    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Pairing:
        """Return the pairing: the model of pairs with these sides and this regularisation."""

    @property
    def fitted_(self) -> FittedRidge:
        """Training labels, decomposed sides and pairing of the fitted model; see `FittedRidge`."""
        now = self._snapshot()
        return FittedRidge(
            labels=now._labels,
            form=now._form,
            estimator=now,
            settings=now._settings,
            training_problem=now._fitted_problem,
            completed_problem=now._closed_problem,
            sides=tuple(now._sides()),
            coefficients=now._coefficients,
        )

    @property
    def describes_by_labels(self) -> bool:
        """Whether the labels are also features of a side; then no formula holds them out, and the model is refitted."""
        return False

    @property
    def _settings(self) -> tuple[Setting, ...]:
        """Settings that the model supports."""
        return settings_of(self._problem().pairing)

    def _check_request(
        self, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
    ) -> None:
        """Raise if the model does not support the setting, or these groups in it."""
        check_request(self._problem().pairing, setting, (groups, task_groups), cells)

    def _problem(self) -> Problem:
        """Return the last solved problem."""
        check_is_fitted(self)
        return self._fitted_problem

    def _gridded(self, name: str) -> Problem:
        """Return the problem of a grid; raise AttributeError for `name` if the model was fitted on a list of pairs."""
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
            raise TypeError(
                f'device must be the name of a device such as "cuda", or None, found '
                f"{self.device!r}."
            )
        if self.symmetry is not None:
            check_choice(self.symmetry, "symmetry", ("symmetric", "antisymmetric"))
        self._stopping()

    def _sides(self) -> list[Side]:
        if self._task_side is None:
            return [self._side]
        return [self._side, self._task_side]

    @property
    def _knows_tasks(self) -> bool:
        return self._task_side is not None

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, NewRows]:
        side = self._sides()[axis]
        table, rows = reading.read_rows(
            self, given, axis, side.spec, side.ids, side.names, side.n_columns
        )
        return table, side.new_rows(self._as_fitted(rows, ("X", "tasks")[axis]))

    def _as_fitted(self, rows: Array, name: str) -> Array:
        # A model with a device that was loaded from a file computes on the CPU.
        if self.device is not None and is_foreign(self._coefficients) and not is_foreign(rows):
            rows = as_array_of(dense(rows), self._coefficients)
        check_same_library({name: rows, "the fitted model": self._coefficients})
        return rows


def _decompose(table: Table, spec: KernelSpec, name: str, kernel: Array | None) -> Side:
    """Return a decomposed side, as `fit_side` does; it takes long if there are many rows."""
    with Phase(f"Decomposing {table.values.shape[0]:,} {name}s"):
        return fit_side(table, spec, name, kernel)
