"""Two-step ridge regression that learns and forgets batch by batch.

How a model that learns batch by batch reads what it is given, and what multiplies its coefficients.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from dyadlearn._array import Array, copied, dense, double, is_sparse, namespace, take_rows
from dyadlearn._checks import (
    check_alphas,
    check_choice,
    check_flag,
    check_labels,
    check_matrix,
    check_no_infinity,
    check_same_library,
)
from dyadlearn._state import all_or_nothing
from dyadlearn._tables import Ids, Table, read_table, shown
from dyadlearn.exceptions import IdError, PrecisionWarning
from dyadlearn.growing.holdout import check_knows_tasks, lone_labels, online_holdout, online_squared_errors
from dyadlearn.growing.knowledge import KNOWN, Batch, Knowledge, stacked
from dyadlearn.growing.statistics import Statistics, check_room, collect, equal_features, has_holes
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.holdout.units import warn_of_lone, warn_of_unlabelled
from dyadlearn.labels import Labels, read_labels
from dyadlearn.metrics.cells import best_point, warn_of_undefined, where_defined
from dyadlearn.models import reading
from dyadlearn.models.base import PairModel
from dyadlearn.models.fitted import FittedRidge, Predicting
from dyadlearn.models.grid import TwoStepRidge
from dyadlearn.models.side import KernelSpec, check_rows
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting

#: The sides are linear in their features.
LINEAR = KernelSpec("linear", None, "error")


def _own_ids(ids: Ids | None, given: Any) -> Ids | None:
    """Return ids of rows as they came, but for the numbers that pandas gives to rows by itself: those are no ids."""
    index: Any = getattr(given, "index", None)
    return None if type(index).__name__ == "RangeIndex" and index.name is None else ids


def _fitted(transformer: Any, name: str, *data: Any) -> Any:
    """Return a transformer that is fitted as it is, or a clone fitted on `data`; a linear map as a checked array."""
    if not hasattr(transformer, "transform"):
        return check_matrix(transformer, name)
    return transformer if reading.is_fitted(transformer) else clone(transformer).fit(*data)


#: Instances with their labels, piece by piece.
Chunks = Iterable[tuple[Any, Any]]
#: Values of a regularisation.
Alphas = Iterable[float] | float | None

#: How much of what is left may be rounding of what was forgotten, before that is said.
_LOST = 1e-8


@dataclass(eq=False, repr=False)
class OnlineTwoStepRidge(PairModel):
    r"""Two-step ridge regression, linear in features, that learns and forgets batch by batch.

    .. math:: f(\mathbf{d}, \mathbf{t}) = \boldsymbol\phi(\mathbf{d})^\top
              (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,\boldsymbol\Phi^\top\mathbf{Y}
              \boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}\boldsymbol\psi(\mathbf{t})

    Instances and tasks come and go in any order; at every moment the model equals `TwoStepRidge` with linear kernels
    fitted on what it has learnt and not forgotten, if labels are complete. It keeps the statistics in the middle of
    the formula, whose size does not depend on the number of instances: d² + d·q + r² + q·r numbers for d features of
    the instances and r of the q tasks, without features of the tasks d² + d·q.

    With an intercept, which is the default, the features of both sides are those about their means, and constants
    beside them are not regularised: predictions are

    .. math:: \mu + (\boldsymbol\phi-\bar{\boldsymbol\phi})^\top\mathbf{a} +
              \mathbf{b}^\top(\boldsymbol\psi-\bar{\boldsymbol\psi}) +
              (\boldsymbol\phi-\bar{\boldsymbol\phi})^\top\mathbf{W}\,(\boldsymbol\psi-\bar{\boldsymbol\psi})

    with means that move with the data. Offsets of features and of labels, however large, cost no digits.

    Labels may have holes, NaN where they are not observed. Then every task j is learnt from the instances
    :math:`o_j` that it is observed for,

    .. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
              \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j}, \qquad
              \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
              (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1},

    with an intercept about means over :math:`o_j`. That is `TwoStepRegressor` with two ridge regressions, and without
    features of the tasks `IndependentTaskRidge`; it is not `TwoStepRidge`, which with holes completes its labels by
    both steps. Tasks that were observed for different instances have a Gram matrix each, q·d² numbers at worst. A
    task without a label has no part in the second step, which predicts it from its features; without any there is
    nothing to take its constant from, and NaN is predicted.

    Parameters
    ----------
    alpha, task_alpha : float, default=1.0
        Regularisation :math:`\lambda_d, \lambda_t \ge 0` of the instances and of the tasks.
    fit_intercept : bool, default=True
        Whether each side has a constant that is not regularised: a free grand mean, main effects of instances
        regularised by ``alpha`` alone and of tasks by ``task_alpha`` alone, interactions by both; without features of
        the tasks each task has a constant of its own. False is the model of the paper, for labels whose zero means
        something. It counts from the next `fit`.
    feature_map, task_feature_map : transformer or array of shape (p, d), default=None
        What makes features :math:`\boldsymbol\phi` of instances and :math:`\boldsymbol\psi` of tasks:
        `Landmarks` or any of scikit-learn's. One that is fitted is used as it is; of any other a clone is fitted on
        the first batch. An array is a linear map: rows are multiplied by it. None takes the features as they come.
    keep_labels : bool, default=False
        Whether to keep all instances and their labels, so that the labels of known ids can be replaced and new tasks
        need not bring the instances again. Takes memory for every instance and every observed label.

    Attributes
    ----------
    coef_ : array of shape (d, r), without features of the tasks (d, q) or (d,)
        The parameters W, of features as they come.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) and (r,)
        Grand mean and main effects: see `intercept_`. Without features of the tasks there is an intercept for each of
        them, shape (q,) or a float.
    n_seen_, n_tasks_ : int
        Number of instances and of tasks that are learnt and not forgotten.
    statistics_ : Statistics
        What is known of the data.
    feature_map_, task_feature_map_ : transformer or array
        The fitted feature maps, where there are any.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    See Also
    --------
    TwoStepRidge : the same model fitted at once, with any kernel.
    TwoStepRegressor : two regressors in a row, which with two `Ridge` is the same for labels with holes.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(50, 3)), rng.normal(size=(6, 2)), rng.normal(size=(50, 6))
    >>> model = OnlineTwoStepRidge().fit(X[:20], Y[:20, :4], tasks=T[:4])
    >>> model = model.partial_fit(X[20:], Y[20:, :4]).partial_fit_tasks(T[4:], Y[:, 4:], X=X)
    >>> model.forget(X[:5], Y[:5]).n_seen_, model.n_tasks_
    (45, 6)
    >>> batch = TwoStepRidge().fit(X[5:], Y[5:], tasks=T)
    >>> np.testing.assert_allclose(model.predict(X), batch.predict(X))
    """

    _tasks_remedy = "fit it with tasks=, the features of the tasks."

    landscape_: np.ndarray = field(init=False)
    feature_map_: Any = field(init=False)
    task_feature_map_: Any = field(init=False)
    _learnt: Knowledge = field(init=False)

    grows = True

    alpha: float = 1.0
    task_alpha: float = 1.0
    fit_intercept: bool = field(default=True, kw_only=True)
    feature_map: Any = field(default=None, kw_only=True)
    task_feature_map: Any = field(default=None, kw_only=True)
    keep_labels: bool = field(default=False, kw_only=True)

    @property
    def _form(self) -> Table:  # type: ignore[override]
        return Table(None, None, self._learnt.task_ids, is_vector=self._learnt.is_vector)

    @property
    def _columns(self) -> list[tuple[KernelSpec, Ids | None]]:
        return [(LINEAR, None)] * (1 + self._knows_tasks)

    @property
    def _knows_tasks(self) -> bool:
        return self._learnt.model.statistics.tasks is not None

    @property
    def statistics_(self) -> Statistics:
        """What is known of the data."""
        check_is_fitted(self)
        return self._learnt.model.statistics

    @property
    def n_seen_(self) -> int:
        """Number of instances that are learnt and not forgotten."""
        return self.statistics_.n_rows

    @property
    def n_tasks_(self) -> int:
        """Number of tasks that are learnt and not forgotten."""
        return self.statistics_.n_tasks

    # Predicting ----------------------------------------------------------------------------------

    def _expansion(self) -> Expansion:
        return Expansion(self._learnt.model.coefficients)

    @property
    def _precision(self) -> str:
        return self._learnt.precision

    def predict_interval(
        self, X: Any = None, tasks: Any = None, *, coverage: float = 0.9, setting: str | Setting | None = None
    ) -> tuple[Any, Any]:
        """Return the lower and upper ends of intervals, as `TwoStepRidge.predict_interval` does.

        Intervals are made of the residuals of held-out labels, so the model must have ``keep_labels=True``.
        """
        model, table, task_table = self.to_two_step(), None, None
        if X is not None:
            table = read_table(X, "X")
            table = replace(table, values=self._mapped(self._validated_instances(table, LINEAR, reset=False)))
        if tasks is not None:
            task_table = read_table(reading.unwrap_tasks(tasks), "tasks")
            task_table = replace(task_table, values=self._mapped_tasks(check_rows(task_table.values, LINEAR, "tasks")))
        return model.predict_interval(table, task_table, coverage=coverage, setting=setting)

    def _predicting(self) -> FittedOnline:
        """Return how the model predicts, and what it has kept."""
        now = self._snapshot()
        return FittedOnline(now._form, now, now._learnt)

    def continue_from(self, statistics: Statistics) -> Self:
        """Replace what the model has learnt by statistics of the same features and tasks that were gathered elsewhere.

        Parameters
        ----------
        statistics : Statistics
        """
        self._learnt = replace(self._learnt, model=OnlineRidge(statistics, self.alpha, self.task_alpha))
        return self

    def _instance_rows(self, X: Any) -> tuple[Table, NewRows]:
        if X is None:
            raise ValueError(f"{type(self).__name__} keeps no instances to predict for: give X.")
        return self._new_rows(X, 0)

    def _task_rows(self, tasks: Any) -> tuple[Table | None, NewRows | None]:
        known = self._learnt.model.statistics.tasks
        return (None, self._columns_of(known)) if tasks is None and known is not None else super()._task_rows(tasks)

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, NewRows]:
        if axis:
            table, Psi = self._known_tasks(given, None)
            self._check_library(tasks=Psi)
            return table, self._columns_of(Psi)
        table = read_table(given, "X")
        rows = self._validated_instances(table, LINEAR, reset=False)
        self._check_library(X=rows)
        return table, self._rows_of(rows)

    def _columns_of(self, Psi: Array) -> NewRows:
        """Return features of tasks (b, r) as rows to predict for."""
        return NewRows(self._learnt.model.statistics.rows_of_tasks(double(Psi)), lambda part: part, 0)

    def _rows_of(self, rows: Array) -> NewRows:
        """Return instances (a, p) that are checked already as rows to predict for."""
        # A feature map may make many features of few, and with a constant or in single precision they are copied.
        model = self._learnt.model
        is_copied = model.statistics.has_constant or rows.dtype != model.statistics.gram.dtype
        width = model.n_coefficients if is_copied or self.feature_map is not None else 0
        return NewRows(rows, lambda part: model.rows(self._mapped(part)), width)

    # What users hand in --------------------------------------------------------------------------

    def _check_library(self, **given: Array) -> None:
        check_same_library({**given, "the model": self._learnt.model.statistics.gram})

    def _read_rows(self, X: Any, y: Any, known: Ids | None, *, reset: bool) -> tuple[Array, Table, Ids | None]:
        """Return instances (l, p), their labels (l, q), matched by id where both have ids, and the ids."""
        grid, table = self._read_labels(y, known), read_table(X, "X")
        reading.check_orientation(grid, table, None)
        has_ids = _own_ids(table.row_ids, X) is not None or _own_ids(grid.row_ids, y) is not None
        table = reading.align_side(table, grid.row_ids, LINEAR, "X", "the rows of Y")
        rows = self._validated_instances(table, LINEAR, reset=reset)
        reading.check_sizes(rows, grid.values, None)
        return rows, grid, table.row_ids if has_ids else None

    def _read_labels(self, y: Any, known: Ids | None) -> Table:
        """Return labels, NaN where not observed, or CSR, with columns in the order of `known` ids if both have ids."""
        reading.check_labels_given(y, self)
        if is_sparse(y):
            values = check_array(y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y")
            if not values.has_canonical_format:
                values = values.copy()
                values.sum_duplicates()
            return Table(values)
        grid = read_labels(y)
        check_no_infinity(grid.values)
        return grid.columns_as(known, "the columns of Y", "the tasks")

    def _read_tasks(self, tasks: Any, target: Ids | None) -> Table:
        """Return tasks as they came, in the order of the `target` ids where both have ids."""
        table = read_table(reading.unwrap_tasks(tasks), "tasks")
        return reading.align_side(table, target, LINEAR, "tasks", "the columns of Y")

    def _known_tasks(self, tasks: Any, target: Ids | None) -> tuple[Table, Array]:
        """Return what `_read_tasks` does, and features Ψ, of tasks that are described as those of training were."""
        table = self._read_tasks(tasks, target)
        rows = reading.checked_tasks(table, LINEAR, self._learnt.task_names, self._learnt.n_task_features)
        return table, self._mapped_tasks(rows)

    def _task_features(self, tasks: Any, ids: Ids | None) -> tuple[Array | None, Ids | None]:
        """Return features Ψ (l, r) of tasks, None for a model that knows none, and their ids."""
        if not self._knows_tasks:
            if tasks is not None:
                raise ValueError("This model was fitted without features of the tasks: leave tasks out.")
            return None, ids
        if tasks is None:
            raise ValueError("tasks is None, but this model has features of its tasks: give those of the new tasks.")
        table, Psi = self._known_tasks(tasks, ids)
        return double(copied(Psi)), table.row_ids

    def _known_rows(self, X: Any, y: Any) -> tuple[Batch, Array, Table]:
        """Return instances, their features Φ, and the labels they have for the known tasks."""
        rows, grid, ids = self._read_rows(X, y, self._learnt.task_ids, reset=False)
        if grid.values.shape[1] != self.n_tasks_:
            raise ValueError(
                f"Y has {grid.values.shape[1]} columns, but {self.n_tasks_} tasks are known: give one label per task, "
                "and new tasks to partial_fit_tasks."
            )
        self._check_library(X=rows, Y=grid.values)
        return Batch(int(rows.shape[0]), ids, rows, grid.values), self._mapped(rows), grid

    def _task_parts(
        self, pieces: Iterable[tuple[Any, Any]], n_tasks: int, ids: Ids | None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield features of instances and their labels for some tasks, which have these ids, piece by piece."""
        for X, y in pieces:
            if X is None:
                raise ValueError("X is missing: give the instances that y labels, or let the model keep_labels=True.")
            rows, grid, _ = self._read_rows(X, y, ids, reset=False)
            _check_width(grid, n_tasks)
            yield self._mapped(rows), grid.values

    def _labels_of_kept(self, X: Any, y: Any, n_tasks: int, ids: Ids | None) -> Array:
        """Return labels of some tasks for the instances that are kept, in their order."""
        kept = self._learnt.kept
        if X is None:
            grid = self._read_labels(y, ids)
            grid = replace(grid, row_ids=_own_ids(grid.row_ids, y))
        else:
            _, grid, row_ids = self._read_rows(X, y, ids, reset=False)
            if row_ids is None or kept.ids is None:
                raise ValueError(
                    "This model keeps all instances with their labels: give the labels of new tasks for all of them at "
                    "once and leave X out, in the order that they were learnt, or with their ids."
                )
            grid = replace(grid, row_ids=row_ids)
        if grid.values.shape[0] != self.n_seen_:
            raise ValueError(f"Y has {grid.values.shape[0]} rows, expected one for each of {self.n_seen_} instances.")
        _check_width(grid, n_tasks)
        return grid.rows_as(kept.ids, "the rows of Y", "the known instances").values

    # Feature maps --------------------------------------------------------------------------------

    def _fit_maps(self, rows: Array, labels: Array, task_rows: Array | None) -> None:
        """Fit the feature maps that are not fitted yet."""
        if self.feature_map is not None:
            self.feature_map_ = _fitted(self.feature_map, "feature_map", rows, labels)
        if self.task_feature_map is not None:
            if task_rows is None:
                raise ValueError("task_feature_map needs the features of the tasks: fit with tasks=.")
            self.task_feature_map_ = _fitted(self.task_feature_map, "task_feature_map", task_rows)

    def _mapped(self, rows: Array) -> Array:
        """Return the features Φ of instances."""
        return rows if self.feature_map is None else reading.mapped(rows, self.feature_map_, "feature_map")

    def _mapped_tasks(self, rows: Array) -> Array:
        """Return the features Ψ of tasks, dense."""
        if self.task_feature_map is not None:
            rows = reading.mapped(rows, self.task_feature_map_, "task_feature_map")
        return dense(rows)

    # Learning and forgetting ---------------------------------------------------------------------

    def fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Forget everything and learn a first batch.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, p)
            The instances.
        y : array, sparse matrix, frame or series of shape (m, q) or (m,)
            Their labels for all tasks; NaN where a label is not observed. The zeros that a sparse matrix does not
            store are labels too.
        tasks : array, sparse matrix, frame or Tasks of shape (q, p'), default=None
            The tasks. Without it there is no task step, and tasks are learnt independently.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            for name in ("_learnt", "feature_map_", "task_feature_map_"):
                self.__dict__.pop(name, None)
            self._check_params()
            rows, grid, ids = self._read_rows(X, y, None, reset=True)
            task_rows, task_ids, task_names = None, grid.column_ids, None
            if tasks is not None:
                table = self._read_tasks(tasks, grid.column_ids)
                task_rows = check_rows(table.values, LINEAR, "tasks")
                task_ids, task_names = table.row_ids, table.column_ids
            reading.check_sizes(rows, grid.values, task_rows)
            check_same_library({"X": rows, "Y": grid.values, "tasks": task_rows})
            self._fit_maps(rows, grid.values, task_rows)
            Psi = None if task_rows is None else copied(self._mapped_tasks(task_rows))
            Phi = self._mapped(rows)
            _check_labels(grid.values)
            check_room(Phi, grid.values)
            statistics = collect(Phi, grid.values, Psi, constant=bool(self.fit_intercept))
            dtype = reading.result_dtype((rows, X), (task_rows, tasks), (grid.values, y))
            nothing = Knowledge(
                OnlineRidge(statistics, self.alpha, self.task_alpha),
                f"float{namespace(Phi).finfo(dtype).bits}",
                grid.is_vector,
                task_ids,
                task_names,
                0 if task_rows is None else int(task_rows.shape[1]),
                keeps_labels=bool(self.keep_labels),
            )
            return self._changed(None, nothing.keeping(Batch(int(rows.shape[0]), ids, rows, grid.values)))

    def partial_fit(self, X: Any, y: Any, tasks: Any = None, *, known: str = "error") -> Self:
        """Learn instances: new ones, and with ``known="replace"`` new labels of known ones.

        Instances are known by their ids, which are those of frames: the index of pandas, unless it is the numbering
        that pandas makes by itself, or a first column of text. Of instances without ids nobody can tell whether they
        were learnt before: given twice they count twice.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            NaN where a label is not observed. Columns with ids are matched with the known tasks.
        tasks : array, sparse matrix, frame or Tasks of shape (q, p'), default=None
            For the first call, as in `fit`; later either left out or the same.
        known : {"error", "replace"}, default="error"
            What becomes of instances whose ids are known. An error names them, and nothing is learnt. If they are
            replaced, their labels are exchanged for those given, which may be as little as one: where `y` is NaN,
            the label that an instance had stays. The features are those given now. Afterwards the model is as if
            they had come so at first. That needs ``keep_labels=True``.

        Returns
        -------
        self
        """
        check_choice(known, "known", KNOWN)
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, tasks)
        learnt = self._current()
        if tasks is not None:
            Psi, _ = self._task_features(tasks, learnt.task_ids)
            if not equal_features(Psi, learnt.model.statistics.tasks):
                raise ValueError("tasks are not those the model knows: give new tasks to partial_fit_tasks.")
        batch, Phi, _ = self._known_rows(X, y)
        _check_labels(batch.labels)
        places = learnt.known_among(batch.ids)
        if places.size:
            self._check_replaceable(learnt, batch, places, known)
            learnt, lost = learnt.replacing(batch.take(places), self._mapped)
            _warn_of_lost(lost)
            others = np.delete(np.arange(batch.n_rows), places)
            batch, Phi = batch.take(others), take_rows(Phi, others)
        self._learnt = learnt.with_rows(batch, Phi) if batch.n_rows else learnt
        return self

    def _check_replaceable(self, learnt: Knowledge, batch: Batch, places: np.ndarray, known: str) -> None:
        """Raise if instances are known already, unless they are to be replaced and can be."""
        ids = () if batch.ids is None else batch.ids.take(places.tolist()).labels
        if known == "error":
            raise IdError(
                f"{len(ids)} of {batch.n_rows} instances are known already, and would count twice: {shown(ids)}. Leave "
                'them out, forget them first, or replace their labels by known="replace".'
            )
        if not learnt.keeps_labels:
            raise ValueError(
                f"Instances {shown(ids)} are known, and to replace their labels the model must have kept them: fit it "
                "anew with keep_labels=True, or forget the instances with their old labels and learn them again."
            )

    def forget(self, X: Any, y: Any) -> Self:
        """Unlearn instances: afterwards the model is as if they had never come.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Instances as they were learnt, and their labels for all known tasks, NaN where they had none. An instance
            that was learnt with an id is known by it, and has to be given with it unless labels are kept. Where
            they are, those that the model does not know are refused, and of several equal ones the first that was
            learnt leaves.

        Returns
        -------
        self

        Warns
        -----
        PrecisionWarning
            If the instances were so much larger than those that are left that their rounding shows.
        """
        learnt = self._current()
        batch, Phi, _ = self._known_rows(X, y)
        if learnt.model.statistics.is_complete:
            _check_complete(batch.labels)
        after = learnt.without_rows(batch, Phi)
        _warn_of_lost(learnt.model.digits_lost(after.model))
        return self._changed(learnt, after)

    def partial_fit_tasks(self, tasks: Any, y: Any = None, X: Any = None, *, chunks: Chunks | None = None) -> Self:
        """Learn new tasks, labelled for all known instances.

        A label may be NaN, not observed; the instance must come all the same. So the Gram matrix of the instances that
        come is compared with that of all that were learnt, and other instances are refused.

        Parameters
        ----------
        tasks : array, sparse matrix, frame or Tasks of shape (l, p'), or None
            The new tasks. None for a model without features of the tasks.
        y : array, sparse matrix or frame of shape (m, l) or (m,), default=None
            Their labels for all instances.
        X : array, sparse matrix or frame of shape (m, p), default=None
            The instances, as they were learnt. None stands for all of them, in the order they were learnt, if the model
            keeps their labels.
        chunks : iterable of (X, y), default=None
            Instances and labels in pieces, in place of `y` and `X`: each learnt instance is in one of the pieces. One
            piece is in memory at a time. A model with ``keep_labels=True`` does not take pieces.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import OnlineTwoStepRidge
        >>> rng = np.random.default_rng(0)
        >>> X, T, Y = rng.normal(size=(50, 3)), rng.normal(size=(6, 2)), rng.normal(size=(50, 6))
        >>> model = OnlineTwoStepRidge().fit(X, Y[:, :4], tasks=T[:4])
        >>> pieces = ((X[rows], Y[rows, 4:]) for rows in (slice(0, 30), slice(30, 50)))
        >>> model.partial_fit_tasks(T[4:], chunks=pieces).n_tasks_
        6
        """
        learnt = self._current()
        if chunks is not None and (X is not None or y is not None):
            raise ValueError("There are chunks beside X or y: give either of them.")
        if chunks is not None and learnt.keeps_labels:
            raise ValueError(
                "A model with keep_labels=True takes the labels of tasks in one piece: give y, not chunks."
            )
        pieces = iter([(X, y)] if chunks is None else chunks)
        first = next(pieces, None)
        if first is None:
            raise ValueError("chunks is empty: give at least one pair of instances and labels.")
        columns = self._read_labels(first[1], None)
        Psi, ids = self._task_features(tasks, columns.column_ids)
        n_tasks = int(columns.values.shape[1] if Psi is None else Psi.shape[0])
        labels, parts = None, self._task_parts(chain([first], pieces), n_tasks, ids)
        if learnt.keeps_labels:
            labels = self._labels_of_kept(X, y, n_tasks, ids)
            known = (self._mapped(batch.rows) for batch in learnt.kept.batches)
            parts = zip(known, learnt.kept.split(labels), strict=True)
        ids = learnt.new_ids(ids)
        return self._changed(learnt, learnt.with_tasks(learnt.seen_of_tasks(parts, Psi), ids, labels))

    def forget_tasks(self, tasks: Any) -> Self:
        """Unlearn tasks: afterwards the model is as if they had never come.

        Parameters
        ----------
        tasks : id, position, or sequence of them
            Ids where the known tasks have ids, else positions.

        Returns
        -------
        self
        """
        learnt = self._current()
        n_tasks = learnt.model.statistics.n_tasks
        wanted = [tasks] if isinstance(tasks, str | int | np.integer) else list(tasks)
        where = reading.positions(wanted, learnt.task_ids, n_tasks, "the known tasks")
        if len(set(where.tolist())) < len(where):
            raise ValueError("tasks names a task more than once.")
        if len(where) >= n_tasks:
            raise ValueError("A model needs at least one task: these are all it has. Fit it anew instead.")
        return self._changed(learnt, learnt.without_tasks(where))

    def _changed(self, before: Knowledge | None, after: Knowledge) -> Self:
        """Keep what is known now; warn if more tasks than before have no label to take their constant from."""
        unpredicted = after.model.unpredicted
        if np.count_nonzero(unpredicted) > (0 if before is None else np.count_nonzero(before.model.unpredicted)):
            warn_of_unlabelled(unpredicted, 3)
        self._learnt = after
        return self

    def _current(self) -> Knowledge:
        """Return what is known, under the regularisation that is set now."""
        check_is_fitted(self)
        self._check_params()
        if bool(self.fit_intercept) != self.statistics_.has_constant:
            raise ValueError(
                f"The model was fitted with fit_intercept={self.statistics_.has_constant}, and what it keeps of its "
                "data serves nothing else: set it back, or fit the model anew."
            )
        return replace(self._learnt, model=self._learnt.model.with_alphas(self.alpha, self.task_alpha))

    def _solve(self) -> Self:
        self._learnt = self._current()
        return self

    def _effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        return self._learnt.model.effects

    # Held-out predictions of what was learnt and is shown again -------------------------------------

    def holdout(self, X: Any, y: Any, setting: str | Setting = "B") -> Any:
        """Predict learnt labels as if the model had never seen them, exactly.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Some of the instances that were learnt, such as the last batch, and their labels; NaN where they had none,
            which is predicted too.
        setting : {"B", "A", "C", "D"} or an alias, default="B"
            What is left out for a cell: its instance (B), the pair alone (A), its task (C) or both (D). A pair that is
            left out of complete labels is completed by both steps, as in `TwoStepRidge`; once there were holes, its
            label leaves its task and nothing else.

        Returns
        -------
        array or frame of shape (l, q) or (l,)
            NaN, with a warning, for the only label of a task where that has nothing else to take its constant from.
        """
        wanted, self = as_setting(setting), self._snapshot()
        model, Phi, grid = self._left_out(X, y, wanted)
        held_out = online_holdout(model, Phi, grid.values, wanted)
        _warn_of_lone(model, grid.values, wanted, "their predictions are NaN")
        return grid.restore(self._home(held_out))

    def landscape(
        self, X: Any, y: Any, alphas: Alphas = None, task_alphas: Alphas = None, *, setting: str | Setting = "B"
    ) -> np.ndarray:
        """Return the negative mean squared error of hold-out predictions for every regularisation.

        Parameters
        ----------
        X, y : as in `holdout`
        alphas, task_alphas : iterables of float, or float, default=None
            Values of the two regularisations; None is 10⁻⁷ … 10⁶.
        setting : {"B", "A", "C", "D"} or an alias, default="B"

        Returns
        -------
        array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
            Greater is better. NaN, with a warning that names the values, where the model interpolates what is to be
            left out; if it does so everywhere, `LeverageError` is raised.
        """
        rows = check_alphas(alphas, "alphas")
        columns = check_alphas(task_alphas, "task_alphas")
        wanted, self = as_setting(setting), self._snapshot()
        model, Phi, grid = self._left_out(X, y, wanted)
        scores = where_defined(
            lambda values, task_values: -online_squared_errors(model, Phi, grid.values, values, task_values, wanted),
            rows,
            columns if self._knows_tasks else columns[:1],
        )
        warn_of_undefined(scores, rows, columns if self._knows_tasks else None, wanted.value, 2)
        _warn_of_lone(model, grid.values, wanted, "they are not scored")
        return scores

    def tune(
        self, X: Any, y: Any, alphas: Alphas = None, task_alphas: Alphas = None, *, setting: str | Setting = "B"
    ) -> Self:
        """Set the regularisation that is best for hold-out predictions; parameters as in `landscape`.

        Of values that are equally good the largest are taken. The scores are kept as `landscape_`.
        """
        rows, columns = check_alphas(alphas, "alphas"), check_alphas(task_alphas, "task_alphas")
        return self.set_best(self.landscape(X, y, rows, columns, setting=setting), rows, columns)

    def set_best(self, scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float]) -> Self:
        """Set the regularisation that has the best of scores as `landscape` returns them, and keep these."""
        best = best_point(scores, alphas, task_alphas if scores.ndim == 2 else None)
        with all_or_nothing(self):
            self.set_alpha(alphas[best[0]], task_alphas[best[1]] if scores.ndim == 2 else None)
            self.landscape_ = scores
        return self

    def to_two_step(self) -> TwoStepRidge:
        """Return the equal `TwoStepRidge`, fitted on the features and labels of the instances that are kept.

        Raises
        ------
        ValueError
            If the model keeps statistics only.
        """
        learnt = self._current()
        if not learnt.keeps_labels:
            raise ValueError(
                f"{type(self).__name__} keeps statistics only, not the labels: fit it with keep_labels=True, or fit "
                "TwoStepRidge on the labels."
            )
        known, kept = learnt.model.statistics, learnt.kept
        rows = stacked([batch.rows for batch in kept.batches])
        labels = stacked([batch.labels_of(np.arange(batch.n_rows)) for batch in kept.batches])
        task_rows = None if known.tasks is None else Table(known.tasks, learnt.task_ids)
        grid = Table(dense(labels), kept.ids, learnt.task_ids)
        model = TwoStepRidge(self.alpha, self.task_alpha, fit_intercept=self.fit_intercept)
        return model.fit(Table(self._mapped(rows), kept.ids), grid, task_rows)

    @property
    def fitted_(self) -> FittedRidge:
        """What the equal `TwoStepRidge` has learned from, where labels are kept: see `to_two_step`."""
        return self.to_two_step().fitted_

    def _left_out(self, X: Any, y: Any, setting: Setting) -> tuple[OnlineRidge, Array, Table]:
        """Return features (l, d) and labels of rows that were learnt, and what they are left out of."""
        check_is_fitted(self)
        model = self._learnt.model
        check_knows_tasks(model.statistics, setting)
        _, Phi, grid = self._known_rows(X, y)
        if model.statistics.is_complete:
            _check_complete(grid.values)
        return model, Phi, grid

    # Conventions --------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fits(self) -> bool:
        maps = ("feature_map", "task_feature_map")
        return all((getattr(self, name) is not None) == hasattr(self, f"{name}_") for name in maps) and (
            self.feature_map is not None or self.statistics_.gram.shape[0] == self.n_features_in_
        )

    def _check_params(self) -> None:
        self._check_alphas()
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.keep_labels, "keep_labels")


def _check_width(grid: Table, n_tasks: int) -> None:
    """Raise if labels are not those of so many tasks."""
    if grid.values.shape[1] != n_tasks:
        raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {n_tasks} task(s).")


def _check_labels(labels: Array) -> None:
    """Raise if none of the labels to learn from is observed."""
    if not is_sparse(labels):
        check_labels(labels)


def _check_complete(labels: Array) -> None:
    """Raise if a label of instances that were learnt with every label is missing."""
    if has_holes(labels):
        raise ValueError(
            "Y contains NaN, but every label of these instances was learnt: give the labels that they were learnt with."
        )


def _warn_of_lone(model: OnlineRidge, labels: Array, setting: Setting, what: str) -> None:
    """Warn of labels that have no prediction without them, being the only ones of their tasks."""
    if not model.statistics.is_complete:
        warn_of_lone(lone_labels(model, labels), Labels.of_grid(dense(labels)), setting, what, 3)


def _warn_of_lost(lost: float) -> None:
    """Warn if much of what is left is rounding of what was forgotten."""
    if lost > _LOST:
        warnings.warn(
            "What was forgotten was so much larger than what is left that its rounding may change that by "
            f"{lost:.0e} of it: fit a new model on the data that are left, and scale what is so large before it is "
            "learnt.",
            PrecisionWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class FittedOnline(Predicting):
    """How an online model predicts, and what it has kept.

    Attributes
    ----------
    form, estimator : as in `Predicting`
    knowledge : Knowledge
        Statistics, ids, and labels where they are kept.
    """

    knowledge: Knowledge

    def kept_rows(self, rows: Array) -> NewRows:
        """Return rows that the model has kept, to predict for."""
        found: NewRows = self.estimator._rows_of(rows)
        return found
