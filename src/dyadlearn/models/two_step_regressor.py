"""The two steps with any regressors: one learns across instances, the other across tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, copied, is_foreign, library, take_rows
from dyadlearn._checks import check_choice, check_labels
from dyadlearn._state import all_or_nothing
from dyadlearn._tables import Table, in_order
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.holdout import Units
from dyadlearn.holdout.folds import as_splitter, folds_of
from dyadlearn.holdout.intervals import FlatIntervals
from dyadlearn.labels import Labels
from dyadlearn.models import reading
from dyadlearn.models.base import Predictor
from dyadlearn.models.fitted import Fitted, HeldOut, predicted_intervals
from dyadlearn.models.side import KernelSpec
from dyadlearn.pairing.leaving import nothing_left
from dyadlearn.settings import Setting, as_setting, check_groups

# The parameters that the estimators of both steps come as.
_NAMES = ("instance_estimator", "task_estimator")


@dataclass(eq=False, repr=False)
class TwoStepRegressor(Predictor, stored=False):
    r"""Any two regressors in a row, one across instances and one across tasks.

    With a regressor :math:`f` of instances and one, :math:`g`, of tasks, each a map from training rows and their
    targets to a function of new rows, new instances :math:`\mathbf{X}_*` and tasks :math:`\mathbf{T}_*` have

    .. math:: \mathbf{Z} = f[\mathbf{X}, \mathbf{Y}](\mathbf{X}_*), \qquad
              \mathbf{F} = g[\mathbf{T}, \mathbf{Z}^\top](\mathbf{T}_*)^\top :

    the first step predicts what the new instances would have for the training tasks, and the second learns from that,
    across tasks, what they have for new ones. With ``first_step="tasks"`` it is the other way round,
    :math:`\mathbf{Z} = g[\mathbf{T}, \mathbf{Y}^\top](\mathbf{T}_*)` and
    :math:`\mathbf{F} = f[\mathbf{X}, \mathbf{Z}^\top](\mathbf{X}_*)`.

    If both are linear in their targets the order does not matter: two of scikit-learn's `Ridge`, with an intercept or
    without, or two `KernelRidge` are `TwoStepRidge` with the same regularisations, which is much faster and has exact
    hold-out. With trees, boosting, support vectors or a regularisation that a search chooses, each order is a model of
    its own, and hold-out tells which is better.

    Parameters
    ----------
    instance_estimator, task_estimator : regressor, default=None
        A regressor of scikit-learn for each side, with `fit` and `predict`; they are cloned. None is
        ``sklearn.linear_model.Ridge()``. One that takes a single target, such as boosting, is fitted for each by
        itself. One whose input is a precomputed kernel (``KernelRidge(kernel="precomputed")``) gets one, as in
        `TwoStepRidge`. Whether features may be sparse or missing is up to the estimator.
    first_step : {"instances", "tasks"}, default="instances"
        The side that the first step learns across. See the notes for what it costs.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of the instances, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    See Also
    --------
    TwoStepRidge : two kernel ridge regressions, in closed form.

    Notes
    -----
    **Cost.** `fit` fits each estimator once. What the second step learns from depends on the rows of the first side
    that are asked for, so that it is fitted again in each call of `predict` with new ones: new instances where the
    instances are first, new tasks where the tasks are. Predict many rows in one call; and if instances come one by one
    while the tasks stay, take ``first_step="tasks"``.

    An estimator that shares something between its targets, as a forest does that splits for all of them at once, makes
    predictions in the second step depend on what is asked for in the same call. Wrap it in scikit-learn's
    `MultiOutputRegressor` where they must not.

    **Missing labels** (NaN). The first step learns each task (with ``first_step="tasks"`` each instance) from its
    observed labels. A task or an instance without any is left to the second step, which predicts it from its features.

    **Not there**: weights of labels, intervals, model files, and whatever needs a closed form (`evaluate`, `compare`,
    `explain` …): score what `holdout` returns by `dyadlearn.metrics`.

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

    #: That is up to the estimators.
    allows_nan = True

    _learnt: _TwoSteps = field(init=False)
    _data: reading.Training = field(init=False)
    _form: Table = field(init=False)
    _precision: str = field(init=False)
    # The estimators of both steps as they were when it was fitted: others may be set after that.
    _used: tuple[Any, Any] = field(init=False)
    # Which step was first then.
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
            The grid of labels Y; NaN where a label is not observed (or None, or masked). The ids of its rows and
            columns, where it has any, are matched with those of `X` and `tasks`.
        tasks : array, sparse matrix, frame or Tasks of shape (q, r) or (q, q), default=None
            The tasks: features, or the kernel between them. Without it there is no task step: `instance_estimator`
            learns every task, and nothing is known of new ones.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_params()
            reading.check_labels_given(y, self)
            # Parameters of theirs that are set later are for the next fit.
            self._used = tuple(clone(estimator) for estimator in self._estimators())
            self._first = int(self.first_step == "tasks" and tasks is not None)
            data = self._read(X, y, tasks)
            self._fit_on(data)
            _warn_of_lone_tasks(np.isnan(data.labels.values).all(axis=0) & (tasks is None), "have no label")
        return self

    def _read(self, X: Any, y: Any, tasks: Any) -> reading.Training:
        """Check the data, and bring them into one order."""
        labels, form = reading.read_given_labels(y)
        labels = labels.dense()
        instances, task_table, form = reading.read_sides(self, X, tasks, form, self._specs())
        _refuse_foreign(X=instances, Y=Table(labels.values), tasks=task_table)
        reading.check_sizes(instances.values, labels, None if task_table is None else task_table.values)
        check_labels(labels.values)
        # Predictions must not change when the caller's arrays do.
        instances = replace(instances, values=copied(instances.values))
        if task_table is not None:
            task_table = replace(task_table, values=copied(task_table.values))
        labels, (spec, task_spec) = replace(labels, values=labels.values.copy()), self._specs()
        are_kernels = (spec.is_precomputed, task_spec.is_precomputed)
        return reading.Training(instances, task_table, labels, form, str(labels.values.dtype), are_kernels)

    def _fit_on(self, data: reading.Training) -> Self:
        """Fit both steps on data that were read."""
        self._data, self._form, self._precision = data, data.form, data.precision
        self._learnt = self._learn(data)
        return self

    def _refitter(self, setting: Setting) -> Callable[[Labels], Self]:
        """Return a function that fits the steps to other labels of the same instances and tasks."""
        return lambda labels: self._snapshot()._fit_on(replace(self._data, labels=labels))

    def _specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Return what each step wants of its side: a kernel, or features."""
        kernels = ["precomputed" if get_tags(each).input_tags.pairwise else "linear" for each in self._used]
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

        Both steps are fitted again for each fold: of instances (B), of tasks (C), of cells (A), and in D for each
        fold of instances with each of tasks. In A the first step learns from the labels that are left.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"} or an alias (see `dyadlearn.settings.as_setting`)
            What is left out for a cell: the pair alone (A), its instance (B), its task (C) or both (D).
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            Labels of instances, for B and D, and of tasks, for C and D, that are left out together.
        cells : array-like of shape (m, q), default=None
            Labels of cells that are left out together, for A.
        cv : int, SettingKFold or list of splits, default=None
            How many folds to make of what is left out, or which. None makes five, but takes groups or cells that are
            given as they are; ``groups=range(m)`` leaves out one instance at a time.

        Returns
        -------
        array or frame of shape (m, q) or (m,)
            In the form the labels came in; a label that is missing is predicted too. NaN, with a `NoLabelWarning`,
            where no task step can help a task of which no label is left.
        """
        check_is_fitted(self)
        setting, form = as_setting(setting), self._form
        check_groups(setting, groups, task_groups, cells)
        groups, task_groups = reading.groups_in_order(form, groups, task_groups)
        units = self._units(setting, groups, task_groups, in_order(cells, form.row_ids, form.column_ids, "cells"), cv)
        held_out, observed = self._without(setting, units), self._data.labels.observed
        _warn_of_lone_tasks((np.isnan(held_out) & observed).any(axis=0), "are left without a label")
        return form.restore(held_out)

    def predict_interval(
        self, X: Any = None, tasks: Any = None, *, coverage: float = 0.9, setting: str | Setting | None = None
    ) -> tuple[Any, Any]:
        """Return bounds that hold a share of the labels, from how far off labels in held-out folds were.

        Both steps are fitted again for five folds of each setting that is asked for. All pairs of a setting have
        intervals of the same width.

        Parameters
        ----------
        X, tasks : as in `predict`
        coverage, setting : as in `TwoStepRidge.predict_interval`

        Returns
        -------
        lower, upper : arrays or frames of shape (a, b)
        """
        check_is_fitted(self)
        intervals = FlatIntervals(self._data.labels, lambda new: self.fitted_.hold_out(new).predictions)
        return predicted_intervals(self.fitted_, intervals, X, tasks, coverage, setting)

    def _hold_out(
        self, setting: Setting, *, cv: Any, groups: Any, task_groups: Any, nested: bool, exact: bool
    ) -> HeldOut:
        """Return held-out predictions and how they were made; arguments as in `Fitted.hold_out`."""
        units = self._units(setting, groups, task_groups, None, cv)
        count = len(folds_of(self._data.labels, setting, units))
        return HeldOut(self._without(setting, units), f"{count} folds, fitted again", units, is_fixed=False)

    def _units(self, setting: Setting, groups: Any, task_groups: Any, cells: Any, cv: Any) -> Units:
        """Return what is left out together: groups as they are given, five folds of what has none, or folds by `cv`."""
        self.fitted_.check(setting)
        if cells is not None and cv is not None:
            raise ValueError("cells are the folds of setting A: leave cv out, or make the folds by cv alone.")
        labels = self._data.labels
        if cv is not None or (groups is None and task_groups is None and cells is None):
            return as_splitter(cv, setting).units(labels, groups=groups, task_groups=task_groups)
        units = Units.of_groups(labels, setting, groups, task_groups, cells)
        if setting.new_instance and units.instances is None:
            units = replace(units, instances=as_splitter(None, Setting.B).units(labels).instances)
        if setting.new_task and units.tasks is None:
            units = replace(units, tasks=as_splitter(None, Setting.C).units(labels).tasks)
        return units

    def _without(self, setting: Setting, units: Units) -> np.ndarray:
        """Return the predictions (m, q) of models that were fitted without the unit of each cell."""
        held_out = np.full(self._data.labels.shape, np.nan)
        for fold in folds_of(self._data.labels, setting, units):
            left, asked = reading.without_fold(self._data, setting, fold)
            held_out.flat[fold.test] = reading.fold_predictions(self._learn(left).grid(*asked), fold)
        return held_out

    def _learn(self, data: reading.Training) -> _TwoSteps:
        """Return both steps after they have learnt a grid, the first from the labels that are observed."""
        Y, sides = data.labels.values, (data.instances, data.tasks)
        if np.isnan(Y).all():
            raise nothing_left()
        steps = [
            None if table is None else _Step(estimator, name, spec, table.values)
            for estimator, name, spec, table in zip(self._used, _NAMES, self._specs(), sides, strict=True)
        ]
        step, other = steps[self._first], steps[1 - self._first]
        assert step is not None
        one = step.learn(Y.T if self._first else Y)
        return _TwoSteps(self._first, one, None if other is None else other.learn(one.predict(None).T))

    def _expansion(self) -> Any:
        return self._learnt

    @property
    def _knows_tasks(self) -> bool:
        return self._data.tasks is not None

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, Array]:
        _refuse_foreign(**{("X", "tasks")[axis]: Table(reading.unwrap_tasks(given))})
        known, ids = ((self._data.instances, self._form.row_ids), (self._data.tasks, self._form.column_ids))[axis]
        assert known is not None
        return reading.read_rows(
            self, given, axis, self._specs()[axis], ids, known.column_ids, int(known.values.shape[1])
        )

    def _check_params(self) -> None:
        check_choice(self.first_step, "first_step", ("instances", "tasks"))
        for name, estimator in zip(_NAMES, self._estimators(), strict=True):
            if not (_has_tags(estimator) and get_tags(estimator).estimator_type == "regressor"):
                raise TypeError(f"{name} must be a regressor of scikit-learn's kind, found {estimator!r}.")

    def _estimators(self) -> tuple[Any, Any]:
        """Return what the steps are made of, for the instances and for the tasks."""
        from sklearn.linear_model import Ridge

        instance, task = (Ridge() if each is None else each for each in (self.instance_estimator, self.task_estimator))
        return instance, task

    @property
    def fitted_(self) -> Fitted:
        """The labels and what can be asked of the model; closed forms it has none."""
        check_is_fitted(self)
        settings = tuple(setting for setting in Setting if self._data.tasks is not None or not setting.new_task)
        return Fitted(self._form, self, self._data.labels, settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        found = [get_tags(each) for each in self._estimators() if _has_tags(each)]
        if len(found) == 2:
            for name in ("pairwise", "sparse", "allow_nan", "positive_only"):
                setattr(tags.input_tags, name, getattr(found[0].input_tags, name))
            tags.input_tags.sparse &= not tags.input_tags.pairwise
            tags.non_deterministic = any(each.non_deterministic for each in found)
        return tags


# The mathematics: steps that learn grids -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Step:
    """What one step is: an estimator, and the training rows of its side.

    Attributes
    ----------
    estimator : regressor
        It is cloned.
    name : str
        The parameter that it came as, for messages.
    spec : KernelSpec
        Whether rows are those of a kernel.
    rows : array or sparse matrix of shape (n, d), or (n, n) for a kernel
    """

    estimator: Any
    name: str
    spec: KernelSpec
    rows: Array

    def learn(self, targets: np.ndarray) -> _Learnt:
        """Learn targets (n, p), each from the rows in which it is not NaN; those alike in this together."""
        observed = ~np.isnan(targets)
        patterns, which = observed[:, :1], np.zeros(targets.shape[1], dtype=np.intp)
        if not observed.all():
            patterns, which = np.unique(observed, axis=1, return_inverse=True)
        parts = []
        for number, pattern in enumerate(patterns.T):
            kept, columns = np.flatnonzero(pattern), np.flatnonzero(which.reshape(-1) == number)
            if kept.size:
                rows = self.rows if kept.size == len(pattern) else self.spec.take(self.rows, kept, kept)
                parts.append((self._fitted(rows, targets[np.ix_(kept, columns)]), kept, columns))
        return _Learnt(self, tuple(parts), targets.shape[1], targets.dtype)

    def _fitted(self, rows: Array, targets: np.ndarray) -> Any:
        model = clone(self.estimator)
        # A pipeline tells whether its last step takes many targets, but not whether it takes a single one.
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        with _saying_which(self.name):
            if targets.shape[1] == 1 and get_tags(last).target_tags.single_output:
                return model.fit(rows, targets[:, 0])
            if not get_tags(model).target_tags.multi_output:
                from sklearn.multioutput import MultiOutputRegressor

                model = MultiOutputRegressor(model)
            return model.fit(rows, targets)


@dataclass(frozen=True, eq=False)
class _Learnt:
    """What a step has learnt: fitted estimators, each with the rows it has seen and the targets that it predicts."""

    step: _Step
    parts: tuple[tuple[Any, np.ndarray, np.ndarray], ...]
    n_targets: int
    dtype: Any

    def predict(self, rows: Array | None) -> np.ndarray:
        """Predict targets (a, p) of rows, None for those of training; NaN for one that had no value anywhere."""
        rows = self.step.rows if rows is None else rows
        found = np.full((rows.shape[0], self.n_targets), np.nan, dtype=self.dtype)
        for model, kept, columns in self.parts:
            seen = take_rows(rows.T, kept).T if self.step.spec.is_precomputed else rows
            with _saying_which(self.step.name):
                found[:, columns] = np.reshape(model.predict(seen), (rows.shape[0], -1))
        return found


@dataclass(frozen=True, eq=False)
class _TwoSteps:
    """Both steps, after they have learnt a grid.

    Attributes
    ----------
    first : int
        The side of the first: 0 for instances, 1 for tasks.
    one : _Learnt
        The first step, from labels.
    two : _Learnt or None
        The second, from what the first says of the rows of training; None without features of the tasks.
    """

    first: int
    one: _Learnt
    two: _Learnt | None

    def grid(self, rows: Array | None, task_rows: Array | None) -> np.ndarray:
        """Return predictions (a, b) for rows of each side, None for those of training."""
        if self.two is None:
            return self.one.predict(rows)
        new, two = (rows, task_rows), self.two
        if new[self.first] is not None:
            two = two.step.learn(self.one.predict(new[self.first]).T)
        found = two.predict(new[1 - self.first])
        return found if self.first else found.T

    def at(self, rows: Array | None, task_rows: Array | None, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the predictions of some pairs (n,); the whole grid of the rows is computed for them."""
        return np.asarray(self.grid(rows, task_rows)[places])

    @property
    def n_instances(self) -> int:
        """Number of instances of training."""
        return self.one.n_targets if self.first else int(self.one.step.rows.shape[0])

    @property
    def n_tasks(self) -> int:
        """Number of tasks of training."""
        return int(self.one.step.rows.shape[0]) if self.first else self.one.n_targets


# What is read -------------------------------------------------------------------------------------------------------


def _has_tags(estimator: Any) -> bool:
    """Return whether something is an estimator of scikit-learn's kind, and no class of them."""
    return hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)


def _refuse_foreign(**tables: Table | None) -> None:
    """Raise if arrays are not numpy's."""
    for name, table in tables.items():
        if table is not None and is_foreign(table.values):
            raise TypeError(
                f"{name} is an array of {library(table.values)}, and TwoStepRegressor computes by scikit-learn's "
                "estimators: give arrays of numpy."
            )


@contextmanager
def _saying_which(name: str) -> Iterator[None]:
    """Add to an error of an estimator which of the two it was: either calls its rows X."""
    try:
        yield
    except Exception as error:
        error.add_note(f"It was raised by {name}, whose rows are the {name.partition('_')[0]}s.")
        raise


def _warn_of_lone_tasks(tasks: np.ndarray, what: str) -> None:
    if tasks.any():
        places = ", ".join(map(str, np.flatnonzero(tasks)[:5])) + (", …" if tasks.sum() > 5 else "")
        warnings.warn(
            f"{tasks.sum()} of {tasks.size} tasks (positions {places}) {what} to learn from: their predictions are "
            "NaN. Leave them out, or give tasks=, the features or kernel of the tasks.",
            NoLabelWarning,
            stacklevel=3,
        )
