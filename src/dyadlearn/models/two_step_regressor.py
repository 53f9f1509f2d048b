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
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, copied, is_foreign, library, take_rows
from dyadlearn._checks import check_choice
from dyadlearn._codes import pattern_codes
from dyadlearn._messages import Message
from dyadlearn._state import all_or_nothing
from dyadlearn._tables import Table
from dyadlearn.holdout import FitAgain, Units, plan_fits
from dyadlearn.holdout.folds import Fold
from dyadlearn.holdout.intervals import FlatIntervals
from dyadlearn.holdout.planning import check_method
from dyadlearn.holdout.units import warn_of_unlabelled
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.models import reading
from dyadlearn.models.base import Predictor
from dyadlearn.models.fitted import Fitted, HeldOut, predicted_intervals
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

    #: The estimators of the steps check for NaN.
    allows_nan = True

    _learnt: _TwoSteps = field(init=False)
    _data: reading.Training = field(init=False)
    _form: Table = field(init=False)
    _precision: str = field(init=False)
    # Estimators of both steps at the time of the fit; set_params may have changed them since.
    _used: tuple[Any, Any] = field(init=False)
    # Side of the first step at the time of the fit: 0 for instances, 1 for tasks.
    _first: int = field(init=False)

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
        with all_or_nothing(self):
            self._check_params()
            reading.check_labels_given(y, self)
            # Parameters that are set later take effect at the next fit.
            self._used = tuple(clone(estimator) for estimator in self._estimators())
            self._first = int(self.first_step == "tasks" and tasks is not None)
            data = self._read(X, y, tasks)
            self._fit_on(data)
            without = np.isnan(data.labels.values).all(axis=0) & (tasks is None)
            warn_of_unlabelled(without, 2, "have no label to learn from", _REMEDY)
        return self

    def _read(self, X: Any, y: Any, tasks: Any) -> reading.Training:
        """Check the data and return them in the order of the labels."""
        _refuse_foreign(X=X, Y=y, tasks=tasks)
        labels, form = reading.read_given_labels(y)
        labels = labels.dense()
        instances, task_table, form = reading.read_sides(self, X, tasks, form, self._specs())
        reading.check_sizes(
            instances.values, labels, None if task_table is None else task_table.values
        )
        # Predictions must not change when the caller's arrays do.
        instances = replace(instances, values=copied(instances.values))
        if task_table is not None:
            task_table = replace(task_table, values=copied(task_table.values))
        labels = replace(labels, values=labels.values.copy())
        specs = self._specs()
        are_kernels = (specs[0].is_precomputed, specs[1].is_precomputed)
        return reading.Training(
            instances, task_table, labels, form, str(labels.values.dtype), are_kernels
        )

    def _fit_on(self, data: reading.Training) -> Self:
        """Fit both steps on checked data."""
        self._data = data
        self._form = data.form
        self._precision = data.precision
        self._learnt = self._learn(data)
        return self

    def _refitter(self, setting: Setting) -> Callable[[Labels], Self]:
        """Return a function that fits the steps to other labels of the same instances and tasks."""
        return lambda labels: self._snapshot()._fit_on(replace(self._data, labels=labels))

    def _specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Return the input of each step: a precomputed kernel, or features."""
        kernels = [
            "precomputed" if get_tags(each).input_tags.pairwise else "linear" for each in self._used
        ]
        return KernelSpec(kernels[0], None, "error"), KernelSpec(kernels[1], None, "error")

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
        groups, task_groups : array-like of shape (m,) and (q,), or "identical", default=None
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
        check_is_fitted(self)
        setting = as_setting(setting)
        form = self._form
        check_groups(setting, (groups, task_groups), cells)
        groups, task_groups = reading.groups_in_order(self._data, groups, task_groups)
        cells = reading.cells_of(self._data.labels, form, cells)
        held_out = self._plan(setting, groups, task_groups, cells, cv).held_out()
        without = (np.isnan(held_out) & self._data.labels.observed).any(axis=0)
        warn_of_unlabelled(without, 2, "are left without a label to learn from", _REMEDY)
        return form.restore(held_out.astype(self._precision))

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
        check_is_fitted(self)
        intervals = FlatIntervals(
            self._data.labels, lambda new: self.fitted_.hold_out(new).predictions
        )
        return predicted_intervals(self.fitted_, intervals, X, tasks, coverage, setting)

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
        """Return held-out predictions and the method used; arguments as in `Fitted.hold_out`."""
        check_method(method)
        if method == "exact":
            raise ValueError(
                Message(
                    "TwoStepRegressor has no formula: it is fitted again for each fold. Leave "
                    '<method="exact"> out.'
                )
            )
        how = self._plan(setting, groups, task_groups, None, cv)
        return HeldOut(
            how.held_out(), how.method, how.units, is_fixed=False, reason=how.explanation
        )

    def _plan(
        self, setting: Setting, groups: Any, task_groups: Any, cells: Any, cv: Any
    ) -> FitAgain:
        """Return the plan to fit both steps without each fold."""
        self.fitted_.check(setting)
        if cells is not None and cv is not None:
            raise ValueError(
                "cells and cv both define the folds of setting A: give only one of them."
            )
        labels = self._data.labels

        def predict(fold: Fold) -> np.ndarray:
            left, asked = reading.without_fold(self._data, setting, fold)
            predicted = reading.fold_predictions(self._learn(left).grid(*asked), fold)
            return np.asarray(predicted, dtype=np.float64)

        together = Units.of_groups(labels, setting, (groups, task_groups), cells)
        return plan_fits(labels, setting, together, cv, predict=predict)

    def _learn(self, data: reading.Training) -> _TwoSteps:
        """Return both steps, fitted on a grid; the first step uses the observed labels."""
        Y, tables, specs = data.labels.values, (data.instances, data.tasks), self._specs()
        if np.isnan(Y).all():
            raise nothing_left()

        def learn(axis: int, targets: np.ndarray) -> _Step | None:
            table = tables[axis]
            if table is None:
                return None
            return _Step(self._used[axis], _NAMES[axis], specs[axis], table.values, targets)

        one = learn(self._first, Y.T if self._first else Y)
        assert one is not None
        return _TwoSteps(self._first, one, learn(1 - self._first, one.predict(None).T))

    def _expansion(self) -> Any:
        return self._learnt

    @property
    def _knows_tasks(self) -> bool:
        return self._data.tasks is not None

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, Array]:
        _refuse_foreign(**{("X", "tasks")[axis]: given})
        known, ids = (
            (self._data.instances, self._form.row_ids),
            (self._data.tasks, self._form.column_ids),
        )[axis]
        assert known is not None
        spec = self._specs()[axis]
        n_columns = int(known.values.shape[1])
        return reading.read_rows(self, given, axis, spec, ids, known.column_ids, n_columns)

    def _n_rows(self, rows: Array) -> int:
        return int(rows.shape[0])

    def _check_params(self) -> None:
        check_choice(self.first_step, "first_step", ("instances", "tasks"))
        for name, estimator in zip(_NAMES, self._estimators(), strict=True):
            if not (_has_tags(estimator) and get_tags(estimator).estimator_type == "regressor"):
                raise TypeError(f"{name} must be a scikit-learn regressor, found {estimator!r}.")

    def _estimators(self) -> tuple[Any, Any]:
        """Return the estimators for the instances and for the tasks."""
        from sklearn.linear_model import Ridge

        instance, task = (
            Ridge() if each is None else each
            for each in (self.instance_estimator, self.task_estimator)
        )
        return instance, task

    @property
    def fitted_(self) -> Fitted:
        """Training labels and supported settings of the model, which has no closed form."""
        check_is_fitted(self)
        settings = tuple(
            setting for setting in Setting if self._data.tasks is not None or 1 not in setting.new
        )
        return Fitted(self._form, self, self._data.labels, settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        steps = [get_tags(each) for each in self._estimators() if _has_tags(each)]
        if len(steps) == 2:
            for name in ("pairwise", "sparse", "allow_nan", "positive_only"):
                setattr(tags.input_tags, name, getattr(steps[0].input_tags, name))
            tags.input_tags.sparse &= not tags.input_tags.pairwise
            tags.non_deterministic = any(step.non_deterministic for step in steps)
        return tags


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
        rows = self.rows if rows is None else rows
        predictions = np.full(
            (rows.shape[0], self.targets.shape[1]), np.nan, dtype=self.targets.dtype
        )
        for model, at, columns in self.parts:
            given = take_rows(rows.T, at).T if self.spec.is_precomputed else rows
            with _saying_which(self.name):
                predictions[:, columns] = np.reshape(model.predict(given), (rows.shape[0], -1))
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


def _refuse_foreign(**given: Any) -> None:
    """Raise if an array is not a numpy array."""
    for name, array in given.items():
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
