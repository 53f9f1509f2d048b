"""Two-step model with any two regressors: one learns across instances, the other across tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags, get_tags

from dyadlearn._array import Array, copied, is_foreign, library, take_rows
from dyadlearn._checks import caller_level, check_choice
from dyadlearn._codes import pattern_codes
from dyadlearn._messages import Message
from dyadlearn._tables import Table
from dyadlearn.holdout import FitAgain, Units, plan_fits
from dyadlearn.holdout.folds import Fold
from dyadlearn.holdout.intervals import FlatIntervals
from dyadlearn.holdout.planning import check_method
from dyadlearn.holdout.units import warn_of_unlabelled
from dyadlearn.kernels.similarity import Similarity
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.models import reading
from dyadlearn.models.base import Predictor
from dyadlearn.models.fitted import Fitted, Groups, HeldOut, LeftOut, SideTables, as_fitted
from dyadlearn.models.intervals import predicted_intervals
from dyadlearn.models.side import KernelSpec
from dyadlearn.settings import Setting, as_setting, check_groups
from dyadlearn.solve.leaving import members_of

# Names of the parameters that hold the estimators of both steps.
_NAMES = ("instance_estimator", "task_estimator")
# How to predict for tasks without labels; the end of a warning.
_REMEDY = Message("or give <tasks=>, the features or kernel of the tasks")


@dataclass(eq=False, repr=False)
class TwoStepRegressor(Predictor, stored=False):
    r"""Two-step model with any two regressors: one learns across instances, the other across tasks.

    Let :math:`f` be the regressor of instances and :math:`g` the regressor of tasks; each maps
    training rows and targets to a function of new rows. The predictions **F** for new instances
    :math:`\mathbf{X}_*` and new tasks
    :math:`\mathbf{T}_*` are

    .. math:: \mathbf{Z} = f[\mathbf{X}, \mathbf{Y}](\mathbf{X}_*), \qquad
              \mathbf{F} = g[\mathbf{T}, \mathbf{Z}^\top](\mathbf{T}_*)^\top .

    The first step predicts the labels of the new instances for the training tasks. The second step
    is trained on these predictions and predicts the labels for new tasks. With
    ``first_step="tasks"`` the order is reversed,
    :math:`\mathbf{Z} = g[\mathbf{T}, \mathbf{Y}^\top](\mathbf{T}_*)` and :math:`\mathbf{F} = f[\mathbf{X},
    \mathbf{Z}^\top](\mathbf{X}_*)`.

    If both regressors are linear in their targets, the order does not matter. Two `Ridge` of
    scikit-learn, with or without an intercept, or two `KernelRidge` equal `TwoStepRidge` with the
    same regularisations, which is much faster and has exact hold-out. With trees, boosting, support
    vectors or a regularisation chosen by a search, the two orders are different models; compare
    them by `holdout`.

    Parameters
    ----------
    instance_estimator, task_estimator : regressor, default=None
        A scikit-learn regressor for each side; it is cloned. None means
        ``sklearn.linear_model.Ridge()``. A regressor for a single target, such as boosting, is
        fitted once per target. For a regressor with a precomputed kernel
        (``KernelRidge(kernel="precomputed")``), `X` or `tasks` is a kernel, as in `TwoStepRidge`.
        The estimators determine whether features may be sparse or missing.
    first_step : {"instances", "tasks"}, default="instances"
        The side that the first step learns across. The notes compare the cost.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of the instances, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only if `X` was a frame and all its column names are strings.

    See Also
    --------
    TwoStepRidge : two kernel ridge regressions, in closed form.

    Notes
    -----
    **Cost.** `fit` fits each estimator once. The training targets of the second step depend on the
    new rows of the first side. So each call of `predict` with new rows of that side fits the second
    step again: with new instances if
    ``first_step="instances"``, with new tasks if ``first_step="tasks"``. Predict many rows in one call. If instances
    arrive one by one and the tasks stay the same, use ``first_step="tasks"``.

    Some estimators are not fitted independently per target; for example, a forest uses the same
    splits for all targets. With such an estimator in the second step, a prediction depends on the
    other rows of the same call. To avoid this, wrap the estimator in scikit-learn's
    `MultiOutputRegressor`.

    **Missing labels** (NaN). The first step learns each task (with ``first_step="tasks"`` each
    instance) from its observed labels. A task or an instance without labels is predicted by the
    second step from its features.

    **Not supported**: weights of labels, model files, `explain` and reports, which need a closed
    form.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from dyadlearn import TwoStepRegressor, TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(5, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T
    >>> X_new, T_new = rng.normal(size=(2, 3)), rng.normal(size=(4, 2))
    >>> model = TwoStepRegressor(Ridge(0.5), Ridge(0.1)).fit(X, Y, tasks=T)
    >>> ridge = TwoStepRidge(0.5, 0.1).fit(X, Y, tasks=T)
    >>> np.testing.assert_allclose(model.predict(X_new, tasks=T_new), ridge.predict(X_new, tasks=T_new))
    >>> neighbours = TwoStepRegressor(KNeighborsRegressor(3), Ridge(0.1)).fit(X, Y, tasks=T)
    >>> neighbours.predict(X_new, tasks=T_new).shape
    (2, 4)
    >>> neighbours.holdout("D", cv=2).shape
    (8, 5)
    """

    fitted_: FittedSteps = field(init=False)

    instance_estimator: Any = None
    task_estimator: Any = None
    first_step: str = field(default="instances", kw_only=True)

    def fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Fit both steps on a grid of labels.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, d), or (m, m) for a precomputed kernel
            The instances: features, or the kernel between them.
        y : array, frame or series of shape (m, q) or (m,)
            Grid of labels Y. NaN, None and masked cells mean "not observed". Ids of its rows and
            columns are matched with those of `X` and `tasks`.
        tasks : array, sparse matrix, frame or Tasks of shape (q, r) or (q, q), default=None
            The tasks: features, or the kernel between them. Without `tasks` there is no task step:
            `instance_estimator` learns every task, and new tasks cannot be predicted.

        Returns
        -------
        self
        """
        self._check_params()
        reading.check_labels_given(y, type(self).__name__)
        # Parameters that are set later take effect at the next fit.
        instance, task = (clone(estimator) for estimator in self._estimators())
        first = int(self.first_step == "tasks" and tasks is not None)
        plan = StepPlan(type(self).__name__, (instance, task), first)
        fitted = FittedSteps.fit(plan, plan.read(X, y, tasks))
        without = np.isnan(fitted.labels.values).all(axis=0) & (tasks is None)
        warn_of_unlabelled(without, caller_level(), "have no label to learn from", _REMEDY)
        self.fitted_ = fitted
        return self

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """Number of features of the instances, or of training instances for a precomputed kernel."""
        return int(as_fitted(self).data.sides[0].values.shape[1])

    @property
    def feature_names_in_(self) -> np.ndarray:  # type: ignore[override]
        """Column names; only if `X` was a frame and all its column names are strings."""
        names = as_fitted(self).data.feature_names
        if names is None:
            raise AttributeError("feature_names_in_ exists only if X was a frame with names.")
        return names

    def holdout(
        self,
        setting: str | Setting,
        *,
        groups: Any = None,
        task_groups: Any = None,
        cells: Any = None,
        cv: Any = None,
    ) -> Any:
        """Predict every label of the training grid by models that were fitted without it.

        Both steps are fitted again for each fold of cells (A), of instances (B) or of tasks (C),
        and in D for each combination of a fold of instances and a fold of tasks. In A the first
        step is fitted on the remaining labels.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"} or an alias (see `dyadlearn.settings.as_setting`)
            What is left out to predict a cell: the pair alone (A), its instance (B), its task (C)
            or both (D).
        groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
            Group of each instance, for B and D, and of each task, for C and D. A group is left out
            together.
        cells : array-like of shape (m, q), default=None
            Fold of each cell; a fold is left out together. For A.
        cv : int, SettingKFold or list of splits, default=None
            Number of folds, a splitter, or the folds. None means five folds, or one fold per group
            if `groups`, `task_groups` or `cells` is given. ``groups=range(m)`` leaves out one
            instance at a time.

        Returns
        -------
        array or frame of shape (m, q) or (m,)
            Held-out predictions, of the type of the labels; missing labels are predicted too.
            Without a task step, a task with no remaining label has NaN predictions and raises a
            `NoLabelWarning`.
        """
        fitted = as_fitted(self)
        setting = as_setting(setting)
        check_groups(setting, (groups, task_groups), cells)
        together = fitted.in_groups(groups, task_groups)
        folds = fitted.in_folds(cells)
        held_out = fitted.plan(setting, together, folds, cv).held_out()
        without = (np.isnan(held_out) & fitted.labels.observed).any(axis=0)
        lack = "are left without a label to learn from"
        warn_of_unlabelled(without, caller_level(), lack, _REMEDY)
        return fitted.form.restore(held_out.astype(fitted.precision))

    def predict_interval(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        coverage: float = 0.9,
        setting: str | Setting | None = None,
    ) -> tuple[Any, Any]:
        """Return prediction intervals, computed from the residuals of held-out folds.

        Both steps are fitted again for five folds of each setting that occurs. All pairs of a
        setting have intervals of the same width.

        Parameters
        ----------
        X, tasks : as in `predict`
        coverage, setting : as in `TwoStepRidge.predict_interval`

        Returns
        -------
        lower, upper : arrays or frames of shape (a, b)
        """
        fitted = as_fitted(self)
        return predicted_intervals(fitted, fitted.read(X, tasks), coverage, setting)

    def _check_params(self) -> None:
        check_choice(self.first_step, "first_step", ("instances", "tasks"))
        for name, estimator in zip(_NAMES, self._estimators(), strict=True):
            if not (_has_tags(estimator) and get_tags(estimator).estimator_type == "regressor"):
                raise TypeError(f"{name} must be a scikit-learn regressor, found {estimator!r}.")

    def _estimators(self) -> tuple[Any, Any]:
        """Return the estimators for the instances and for the tasks."""
        from sklearn.linear_model import Ridge

        instance, task = (
            Ridge() if estimator is None else estimator
            for estimator in (self.instance_estimator, self.task_estimator)
        )
        return instance, task

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        steps = [get_tags(estimator) for estimator in self._estimators() if _has_tags(estimator)]
        if len(steps) == 2:
            for name in ("pairwise", "sparse", "allow_nan", "positive_only"):
                setattr(tags.input_tags, name, getattr(steps[0].input_tags, name))
            tags.input_tags.sparse &= not tags.input_tags.pairwise
            tags.non_deterministic = any(step.non_deterministic for step in steps)
        return tags


# The fitted model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StepPlan:
    """Estimators of both steps and their order.

    Attributes
    ----------
    name : str
        Class of the model, for messages.
    estimators : (regressor, regressor)
        Regressors of the instances and of the tasks, to clone and fit.
    first : int
        Side of the first step: 0 for instances, 1 for tasks.
    """

    name: str
    estimators: tuple[Any, Any]
    first: int

    @property
    def specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Input of each step: a precomputed kernel, or features."""
        kernels = []
        for estimator in self.estimators:
            is_kernel = get_tags(estimator).input_tags.pairwise
            kernels.append("precomputed" if is_kernel else "linear")
        return KernelSpec(kernels[0], None, "error"), KernelSpec(kernels[1], None, "error")

    def read(self, X: Any, y: Any, tasks: Any) -> reading.Training:
        """Check the data and return them in the order of the labels."""
        _refuse_foreign(X=X, Y=y, tasks=tasks)
        specs = self.specs
        labels, form = reading.read_given_labels(y)
        labels = labels.dense()
        # The estimators of the steps check for NaN.
        tables, form, names = reading.read_sides(self.name, (X, tasks), form, specs, allow_nan=True)
        task_rows = tables[1].values if len(tables) > 1 else None
        reading.check_sizes(tables[0].values, labels, task_rows)
        # Predictions must not change when the caller's arrays do.
        tables = tuple(replace(table, values=copied(table.values)) for table in tables)
        labels = replace(labels, values=labels.values.copy())
        are_kernels = (specs[0].is_precomputed, specs[1].is_precomputed)
        precision = str(labels.values.dtype)
        return reading.Training(tables, labels, form, precision, are_kernels, names)

    def learn(self, data: reading.Training) -> _TwoSteps:
        """Return both steps, fitted on a grid; the first step uses the observed labels."""
        Y = data.labels.values
        if np.isnan(Y).all():
            raise nothing_left()
        one = self._step(data, self.first, Y.T if self.first else Y)
        other = 1 - self.first
        if other >= len(data.sides):
            return _TwoSteps(self.first, one, None)
        return _TwoSteps(self.first, one, self._step(data, other, one.predict(None).T))

    def _step(self, data: reading.Training, axis: int, targets: np.ndarray) -> _Step:
        """Return the fitted step of a side."""
        rows = data.sides[axis].values
        return _Step(self.estimators[axis], _NAMES[axis], self.specs[axis], rows, targets)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedSteps(Fitted):
    """A fitted two-step model of any two regressors, which has no closed form.

    Attributes
    ----------
    steps : StepPlan
        Estimators at the time of the fit.
    data : Training
    learned : _TwoSteps
        The fitted steps.
    name, labels, form, precision : as in `Fitted`
    """

    steps: StepPlan
    data: reading.Training
    learned: _TwoSteps
    name: str
    labels: Labels
    form: Table
    precision: str

    @classmethod
    def fit(cls, steps: StepPlan, data: reading.Training) -> Self:
        """Return both steps, fitted on checked data."""
        return cls(
            steps=steps,
            data=data,
            learned=steps.learn(data),
            name=steps.name,
            labels=data.labels,
            form=data.form,
            precision=data.precision,
        )

    @property
    def knows_tasks(self) -> bool:
        """Whether the model was fitted with features, or a kernel, of the tasks."""
        return self.data.has_tasks

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings that the model supports."""
        return tuple(setting for setting in Setting if self.knows_tasks or 1 not in setting.new)

    @property
    def descriptions(self) -> SideTables:
        """Kernel and column names of the table of each side, by the empty name."""
        sides = zip(self.steps.specs, self.data.sides, strict=False)
        return [{"": (spec, table.column_ids)} for spec, table in sides]

    @property
    def expansion(self) -> _TwoSteps:
        """The fitted steps, whose methods `grid` and `at` return predictions."""
        return self.learned

    @property
    def intervals(self) -> FlatIntervals:
        """Estimator of prediction intervals of one width, from the residuals of folds."""
        return FlatIntervals(self.labels, lambda setting: self.hold_out(setting).predictions)

    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for training instances (axis 0) or tasks with equal descriptions; None without any."""
        return self.data.identical(axis)

    def similarity(self, axis: int) -> Similarity | None:
        """Return the similarities of training instances (axis 0) or tasks; None without descriptions."""
        return self.data.similarity(axis)

    def new_rows(self, new: Any, axis: int) -> tuple[Table, Array]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""
        _refuse_foreign(**{("X", "tasks")[axis]: new})
        table = self.data.sides[axis]
        known = reading.Known(
            self.name,
            self.steps.specs[axis],
            (self.form.row_ids, self.form.column_ids)[axis],
            table.column_ids,
            int(table.values.shape[1]),
            None if axis else self.data.feature_names,
            allow_nan=True,
        )
        return reading.read_rows(new, axis, known)

    def refitter(self, setting: Setting) -> Callable[[Labels], Fitted]:
        """Return a function that fits the steps to other labels of the same instances and tasks."""

        def fit(labels: Labels) -> Fitted:
            return type(self).fit(self.steps, replace(self.data, labels=labels))

        return fit

    def _hold_out(self, setting: Setting, left_out: LeftOut) -> HeldOut:
        check_method(left_out.method)
        if left_out.method == "exact":
            raise ValueError(
                Message(
                    "TwoStepRegressor has no formula: it is fitted again for each fold. Leave "
                    '<method="exact"> out.'
                )
            )
        how = self.plan(setting, left_out.groups, None, left_out.cv)
        return HeldOut(
            how.held_out(), how.method, how.units, is_fixed=False, reason=how.explanation
        )

    def plan(self, setting: Setting, groups: Groups, cells: Any = None, cv: Any = None) -> FitAgain:
        """Return the plan to fit both steps without each fold."""
        self.check(setting)
        if cells is not None and cv is not None:
            raise ValueError(
                "cells and cv both define the folds of setting A: give only one of them."
            )

        def predict(fold: Fold) -> np.ndarray:
            left, asked = reading.without_fold(self.data, setting, fold)
            predicted = reading.fold_predictions(self.steps.learn(left).grid(*asked), fold)
            return np.asarray(predicted, dtype=np.float64)

        together = Units.of_groups(self.labels, setting, groups, cells)
        return plan_fits(self.labels, setting, together, cv, predict=predict)


# The two steps -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Step:
    """Fitted step: estimators of one side, each with the positions of its training rows and of its targets.

    Attributes
    ----------
    estimator : regressor
        Regressor to clone and fit.
    name : str
        Name of its parameter, for messages.
    spec : KernelSpec
        Input of the step: a precomputed kernel, or features.
    rows : array or sparse matrix of shape (n, d), or (n, n) for a kernel
    targets : array of shape (n, p)
        Each target is fitted on the rows in which it is not NaN; targets with equal rows are fitted
        together.
    """

    estimator: Any
    name: str
    spec: KernelSpec
    rows: Array
    targets: np.ndarray

    def __post_init__(self) -> None:
        _ = self.parts  # an error of an estimator is raised by fit

    @cached_property
    def parts(self) -> list[tuple[Any, np.ndarray, np.ndarray]]:
        """Fitted estimators, with the positions of their rows and targets."""
        observed = ~np.isnan(self.targets)
        targets = self.targets
        parts = []
        for columns in members_of(pattern_codes(observed)):
            at = np.flatnonzero(observed[:, columns[0]])
            if at.size:
                if at.size == len(observed):
                    rows = self.rows
                else:
                    rows = self.spec.take(self.rows, at, at)
                parts.append((self._fitted(rows, targets[np.ix_(at, columns)]), at, columns))
        return parts

    def _fitted(self, rows: Array, targets: np.ndarray) -> Any:
        model = clone(self.estimator)
        # The tags of a pipeline report multi_output of its last step, but not single_output.
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        with _saying_which(self.name):
            if targets.shape[1] == 1 and get_tags(last).target_tags.single_output:
                return model.fit(rows, targets[:, 0])
            if not get_tags(model).target_tags.multi_output:
                from sklearn.multioutput import MultiOutputRegressor

                model = MultiOutputRegressor(model)
            return model.fit(rows, targets)

    def predict(self, rows: Array | None) -> np.ndarray:
        """Predict targets (a, p) of rows; None means the training rows. A target without values is NaN."""
        if rows is None:
            rows = self.rows
        predictions = np.full(
            (rows.shape[0], self.targets.shape[1]), np.nan, dtype=self.targets.dtype
        )
        for model, at, columns in self.parts:
            chosen = rows
            if self.spec.is_precomputed:
                chosen = take_rows(rows.T, at).T
            with _saying_which(self.name):
                predictions[:, columns] = np.reshape(model.predict(chosen), (rows.shape[0], -1))
        return predictions


@dataclass(frozen=True, eq=False)
class _TwoSteps:
    """Both fitted steps.

    Attributes
    ----------
    first : int
        Side of the first step: 0 for instances, 1 for tasks.
    one : _Step
        The first step, fitted on the labels.
    two : _Step or None
        The second step, fitted on the predictions of the first step for the training rows; None
        without task features.
    """

    first: int
    one: _Step
    two: _Step | None

    def grid(self, rows: Array | None, task_rows: Array | None) -> np.ndarray:
        """Return predictions (a, b) for rows of each side; None means the training rows."""
        if self.two is None:
            return self.one.predict(rows)
        new = (rows, task_rows)
        two = self.two
        if new[self.first] is not None:
            two = replace(two, targets=self.one.predict(new[self.first]).T)
        predictions = two.predict(new[1 - self.first])
        return predictions if self.first else predictions.T

    def at(
        self, rows: Array | None, task_rows: Array | None, places: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Return the predictions of some pairs (n,); the predictions of all rows and columns are computed."""
        return np.asarray(self.grid(rows, task_rows)[places])

    @property
    def n_instances(self) -> int:
        """Number of training instances."""
        return int(self.one.targets.shape[self.first])

    @property
    def n_tasks(self) -> int:
        """Number of training tasks."""
        return int(self.one.targets.shape[1 - self.first])


# Checks -------------------------------------------------------------------------------------------------------


def _has_tags(estimator: Any) -> bool:
    """Return whether an object is a scikit-learn estimator, not a class."""
    return hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)


def _refuse_foreign(**arrays: Any) -> None:
    """Raise if an array is not a numpy array."""
    for name, array in arrays.items():
        array = reading.unwrap_tasks(array)
        if is_foreign(array):
            raise TypeError(
                f"{name} is an array of {library(array)}: TwoStepRegressor takes numpy arrays."
            )


@contextmanager
def _saying_which(name: str) -> Iterator[None]:
    """Add a note to an error that names the estimator which raised it; both call their rows X."""
    try:
        yield
    except Exception as error:
        error.add_note(f"It was raised by {name}, whose rows are the {name.partition('_')[0]}s.")
        raise
