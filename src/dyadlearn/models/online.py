"""Two-step ridge regression that is updated batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from dyadlearn._array import Array, copied, dense, double, is_sparse, namespace, take_rows
from dyadlearn._checks import (
    check_alpha,
    check_alphas,
    check_choice,
    check_flag,
    check_instances,
    check_labels,
    check_matrix,
    check_no_infinity,
    check_same_library,
    reading_numbers,
)
from dyadlearn._messages import Message
from dyadlearn._state import all_or_nothing, is_shaped
from dyadlearn._tables import Ids, Table, read_table, shown
from dyadlearn.exceptions import IdError, PrecisionWarning
from dyadlearn.growing.holdout import check_knows_tasks, online_holdout, online_squared_errors
from dyadlearn.growing.knowledge import KNOWN, Batch, Knowledge, stacked
from dyadlearn.growing.row_terms import RowTerms
from dyadlearn.growing.statistics import Statistics, check_room, collect, equal_features, has_holes
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.holdout.units import warn_of_only_labels, warn_of_unlabelled
from dyadlearn.labels import Labels, read_labels
from dyadlearn.metrics.cells import best_point, warn_of_undefined, where_defined
from dyadlearn.models import reading
from dyadlearn.models.base import Predictor, interactions_of, intercept_of, main_effects_of
from dyadlearn.models.fitted import Effects, FittedRidge, Predicting, SideTables
from dyadlearn.models.grid import TwoStepRidge
from dyadlearn.models.side import KernelSpec, check_rows
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting

#: Both sides have linear kernels.
LINEAR = KernelSpec("linear", None, "error")


def _own_ids(ids: Ids | None, rows: Any) -> Ids | None:
    """Return the ids of rows; None for the default RangeIndex of pandas, which holds no ids."""
    index: Any = getattr(rows, "index", None)
    if type(index).__name__ == "RangeIndex" and index.name is None:
        return None
    return ids


def _fitted(transformer: Any, name: str, *data: Any) -> Any:
    """Return a fitted transformer: the given one if it is fitted, else a clone fitted on `data`; check an array."""
    if not hasattr(transformer, "transform"):
        return check_matrix(transformer, name)
    if reading.is_fitted(transformer):
        return transformer
    return clone(transformer).fit(*data)


#: Chunks of instances with their labels.
Chunks = Iterable[tuple[Any, Any]]
#: Values of a regularisation.
Alphas = Iterable[float] | float | None

#: Attributes of a fit that the next one does not use.
_OF_FIT = ("_learnt", "feature_map_", "task_feature_map_", "n_features_in_", "feature_names_in_")

#: Relative rounding error of the remaining statistics above which `forget` warns.
_LOST = 1e-8


@dataclass(eq=False, repr=False)
class OnlineTwoStepRidge(Predictor):
    r"""Two-step ridge regression with linear kernels that is updated with batches of data and can remove data.

    .. math:: f(\mathbf{d}, \mathbf{t}) = \boldsymbol\phi(\mathbf{d})^\top
              (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,\boldsymbol\Phi^\top\mathbf{Y}
              \boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}\boldsymbol\psi(\mathbf{t})

    Instances and tasks can be added and removed in any order (Algorithms 1 and 2 of the paper). If
    labels are complete, the model always equals `TwoStepRidge` with linear kernels, fitted on the
    data that were learned and not forgotten. It stores only the statistics of the formula, whose
    size does not depend on the number of instances: d² + d·q + r² + q·r numbers for d instance
    features, r task features and q tasks; without task features d² + d·q.

    With an intercept, the default, the features of both sides are centred and constants are not
    regularised. Predictions are

    .. math:: \mu + (\boldsymbol\phi-\bar{\boldsymbol\phi})^\top\mathbf{a} +
              \mathbf{b}^\top(\boldsymbol\psi-\bar{\boldsymbol\psi}) +
              (\boldsymbol\phi-\bar{\boldsymbol\phi})^\top\mathbf{W}\,(\boldsymbol\psi-\bar{\boldsymbol\psi})

    The means are updated with the data. Large offsets of features or labels cause no loss of
    precision.

    Labels may be missing (NaN). Then every task j is learned from the instances :math:`o_j` with an
    observed label,

    .. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
              \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j}, \qquad
              \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
              (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1},

    where an intercept centres on the means over :math:`o_j`. This equals `TwoStepRegressor` with
    two ridge regressions, and without task features `IndependentTaskRidge`. It differs from
    `TwoStepRidge`, which completes missing labels by both steps. Tasks that are observed for
    different instances have separate Gram matrices, at most q·d² numbers. A task without labels is
    not used to fit the second step, which predicts it from its features. Without task features such
    a task has no intercept, and its predictions are NaN.

    With ``row_alpha``, the prediction for a known instance i also has a term of its own. Its labels
    are
    :math:`\mathbf{y}_o` for tasks o with features :math:`\mathbf{P}_o`, and :math:`\mathbf{f}` are the predictions
    above:

    .. math:: \hat{\mathbf{y}}_i = \mathbf{f} + \mathbf{P}\,(\mathbf{P}_o^\top\mathbf{P}_o+\mu\mathbf{I})^{-1}
              \mathbf{P}_o^\top(\mathbf{y}_o-\mathbf{f}_o), \qquad
              \mathbf{P} = [(\boldsymbol\Psi-\bar{\boldsymbol\psi})/s, \mathbf{1}]

    The mean :math:`\bar{\boldsymbol\psi}` and the root mean square length s of the centred features
    are those of all known tasks. Without an intercept, features are not centred and there is no
    constant. `predict` adds the term to rows of frames whose ids are known. Rows without ids count
    as new and have no term.

    Parameters
    ----------
    alpha, task_alpha : float, default=1.0
        Regularisation :math:`\lambda_d, \lambda_t \ge 0` of the instances and of the tasks.
    fit_intercept : bool, default=True
        Whether each side has a constant that is not regularised. Then the grand mean is free, main
        effects of instances are regularised by ``alpha`` alone, main effects of tasks by
        ``task_alpha`` alone, and interactions by both. Without task features each task has an
        intercept. False is the model of the paper, for labels with a meaningful zero. A change
        takes effect at the next `fit`.
    feature_map, task_feature_map : transformer or array of shape (p, d), default=None
        Map from rows to features :math:`\boldsymbol\phi` of instances and :math:`\boldsymbol\psi`
        of tasks: `Landmarks` or a scikit-learn transformer. A fitted transformer is used unchanged;
        otherwise a clone is fitted on the first batch. An array is a linear map, by which rows are
        multiplied. None uses the columns as features.
    keep_labels : bool, default=False
        Whether to store all instances and their labels. Then labels of known ids can be replaced,
        and new tasks can be added without passing the instances again. Functions that need the
        labels, such as `evaluate`, then use the model of `to_two_step`. The memory grows with the
        number of instances and observed labels.
    row_alpha : float or None, default=None
        Regularisation :math:`\mu > 0` of a term for each known instance. The term is a ridge
        regression of the residuals of its labels on the features of the tasks, centred and with a
        mean squared length of one, and on a constant, which is regularised too. Instances with
        equal features and different labels then have different predictions. None means no terms; 3
        to 10 are good first values. Terms need ``keep_labels=True`` and features of the tasks. A
        change takes effect at the next prediction.

    Attributes
    ----------
    coef_ : array of shape (d, r), without features of the tasks (d, q) or (d,)
        Coefficients W, for features that are not centred.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) and (r,)
        Grand mean and main effects. A prediction is ``x @ coef_ @ t + x @ instance_coef_ +
        task_coef_ @ t + intercept_`` with features x and t. Without task features it is ``x @ coef_
        + intercept_``, with one intercept per task, of shape (q,) or a float.
    n_seen_, n_tasks_ : int
        Number of instances and of tasks that were learned and not forgotten.
    statistics_ : Statistics
        Sufficient statistics of the data.
    landscape_ : array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
        Scores of `tune`; only after `tune`.
    feature_map_, task_feature_map_ : transformer or array
        Fitted feature maps; only if the parameter is not None.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only if `X` was a frame and all its column names are strings.

    See Also
    --------
    TwoStepRidge : the same model fitted on all data at once, with any kernel.
    TwoStepRegressor : any two regressors; with two `Ridge` it equals this model for missing labels.

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

    _not_always: ClassVar[tuple[str, ...]] = (
        *Predictor._not_always,
        "landscape_",
        "feature_map_",
        "task_feature_map_",
    )

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
    row_alpha: float | None = field(default=None, kw_only=True)

    @property
    def _maps(self) -> FeatureMaps:
        return FeatureMaps(
            self.feature_map_ if self.feature_map is not None else None,
            self.task_feature_map_ if self.task_feature_map is not None else None,
        )

    @property
    def predictor_(self) -> FittedOnline:
        """Predictions of the model in its present state, with its stored data."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return FittedOnline(
            type(self).__name__,
            self._learnt,
            self._maps,
            None if self.row_alpha is None else float(self.row_alpha),
            reading.Known(
                type(self).__name__, LINEAR, None, None, self.n_features_in_, feature_names=names
            ),
        )

    @property
    def statistics_(self) -> Statistics:
        """Sufficient statistics of the data."""
        check_is_fitted(self)
        return self._learnt.model.statistics

    @property
    def n_seen_(self) -> int:
        """Number of instances that were learned and not forgotten."""
        return self.statistics_.n_rows

    @property
    def n_tasks_(self) -> int:
        """Number of tasks that were learned and not forgotten."""
        return self.statistics_.n_tasks

    # Predicting ----------------------------------------------------------------------------------

    @property
    def coef_(self) -> Array:
        """Coefficients W of shape (d, r); without features of the tasks (d, q) or (d,). See `intercept_`."""
        return interactions_of(self.predictor_)

    @property
    def intercept_(self) -> Any:
        """Prediction where every feature is zero: a number, or shape (q,) without features of the tasks.

        A prediction is ``x @ W @ t + x @ instance_coef_ + task_coef_ @ t + intercept_``; without
        features of the tasks it is ``x @ W + intercept_``. x and t are features of an instance and
        a task, after feature maps, and W is `coef_`.
        """
        return intercept_of(self.predictor_)

    @property
    def instance_coef_(self) -> Array:
        """Main effects of instances, which do not depend on the task: shape (d,), see `intercept_`."""
        return main_effects_of(self.predictor_, "instances")

    @property
    def task_coef_(self) -> Array:
        """Main effects of tasks, which do not depend on the instance: shape (r,), see `intercept_`."""
        return main_effects_of(self.predictor_, "tasks")

    def predict_interval(
        self,
        X: Any = None,
        tasks: Any = None,
        *,
        coverage: float = 0.9,
        setting: str | Setting | None = None,
    ) -> tuple[Any, Any]:
        """Return the lower and upper bounds of prediction intervals, as `TwoStepRidge.predict_interval` does.

        Intervals are computed from the residuals of held-out labels, so the model needs
        ``keep_labels=True``. They are those of the model that `to_two_step` returns.
        """
        model = self.to_two_step()
        now = self.predictor_
        if X is not None:
            X, rows = reading.read_rows(X, 0, now.known)
            X = replace(X, values=now.maps.mapped(rows))
        if tasks is not None:
            tasks, Psi = now.known_tasks(tasks, None)
            tasks = replace(tasks, values=Psi)
        return model.predict_interval(X, tasks, coverage=coverage, setting=setting)

    def continue_from(self, statistics: Statistics) -> Self:
        """Replace the statistics of the model by others of the same features and tasks.

        Parameters
        ----------
        statistics : Statistics
        """
        self._learnt = replace(
            self._learnt, model=OnlineRidge(statistics, self.alpha, self.task_alpha)
        )
        return self

    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model.

        Other threads may read the model at the same time: each method and attribute uses either the
        old or the new state, never a mixture. Two threads must not change the same model at the
        same time.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None keeps the current value.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        changed = {}
        for name, value in (("alpha", alpha), ("task_alpha", task_alpha)):
            if value is not None:
                changed[name] = check_alpha(value, name)
        alphas = (changed.get("alpha", self.alpha), changed.get("task_alpha", self.task_alpha))
        self._check_params()
        learnt = self._of_this_fit()
        with all_or_nothing(self):
            self.set_params(**changed)
            self._learnt = replace(learnt, model=learnt.model.with_alphas(alphas))
        return self

    # Checking input ----------------------------------------------------------------------------

    def _read_rows(self, X: Any, y: Any, known: Ids | None) -> tuple[Array, Table, Ids | None]:
        """Return instances (l, p), their labels (l, q) and their ids; rows are matched by id if both have ids."""
        grid = self._read_labels(y, known)
        table = read_table(X, "X")
        reading.check_orientation(grid, table, None)
        has_ids = _own_ids(table.row_ids, X) is not None or _own_ids(grid.row_ids, y) is not None
        table = reading.align_side(table, grid.row_ids, LINEAR, "X", "the rows of Y")
        rows, names = check_instances(
            table,
            type(self).__name__,
            is_kernel=False,
            n_features=getattr(self, "n_features_in_", None),
            feature_names=getattr(self, "feature_names_in_", None),
        )
        self.n_features_in_ = int(rows.shape[1])
        if names is not None:
            self.feature_names_in_ = names
        reading.check_sizes(rows, grid.values, None)
        return rows, grid, table.row_ids if has_ids else None

    def _read_labels(self, y: Any, known: Ids | None) -> Table:
        """Return labels, dense with NaN or CSR; columns are in the order of the `known` ids if both have ids."""
        reading.check_labels_given(y, type(self).__name__)
        if is_sparse(y):
            with reading_numbers(y, "Y"):
                values = check_array(
                    y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y"
                )
            if not values.has_canonical_format:
                values = values.copy()
                values.sum_duplicates()
            return Table(values)
        grid = read_labels(y)
        check_no_infinity(grid.values)
        return grid.columns_as(known, "the columns of Y", "the tasks")

    def _task_features(self, tasks: Any, ids: Ids | None) -> tuple[Array | None, Ids | None]:
        """Return features Ψ (l, r) of tasks, None for a model without task features, and the ids of the tasks."""
        now = self.predictor_
        if not now.knows_tasks:
            if tasks is not None:
                raise ValueError(
                    Message("This model was fitted without task features: leave <tasks> out.")
                )
            return None, ids
        if tasks is None:
            raise ValueError(
                Message(
                    "[tasks is None|--tasks is missing], but this model has task features: give "
                    "those of the new tasks."
                )
            )
        table, Psi = now.known_tasks(tasks, ids)
        return double(copied(Psi)), table.row_ids

    def _known_rows(self, X: Any, y: Any) -> tuple[Batch, Array, Table]:
        """Return instances, their features Φ, and their labels for the known tasks."""
        rows, grid, ids = self._read_rows(X, y, self._learnt.task_ids)
        if grid.values.shape[1] != self.n_tasks_:
            n_columns = grid.values.shape[1]
            raise ValueError(
                f"Y has {n_columns} columns, but {self.n_tasks_} tasks are known: use "
                f"partial_fit_tasks for new ones."
            )
        self.predictor_.check_library(X=rows, Y=grid.values)
        batch = Batch(int(rows.shape[0]), ids, rows, grid.values)
        return batch, self._maps.mapped(rows), grid

    def _task_parts(
        self, pieces: Chunks, n_tasks: int, ids: Ids | None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield features of instances and their labels for tasks with the given ids, chunk by chunk."""
        for X, y in pieces:
            if X is None:
                raise ValueError(
                    Message(
                        "<X> is missing: give the instances of <y>, or [fit|tune] the model with "
                        "<keep_labels=True>."
                    )
                )
            rows, grid, _ = self._read_rows(X, y, ids)
            _check_width(grid, n_tasks)
            yield self._maps.mapped(rows), grid.values

    def _labels_of_kept(self, X: Any, y: Any, n_tasks: int, ids: Ids | None) -> Array:
        """Return labels of some tasks for all stored instances, in the stored order."""
        stored = self._learnt.kept
        if X is None:
            grid = self._read_labels(y, ids)
            grid = replace(grid, row_ids=_own_ids(grid.row_ids, y))
        else:
            _, grid, row_ids = self._read_rows(X, y, ids)
            if row_ids is None or stored.ids is None:
                raise ValueError(
                    Message(
                        "This model stores all instances with their labels: leave <X> out, and "
                        "give the labels of new tasks for all instances in one call, in the order "
                        "in which they were learned, or with their ids."
                    )
                )
            grid = replace(grid, row_ids=row_ids)
        if grid.values.shape[0] != self.n_seen_:
            raise ValueError(
                f"Y has {grid.values.shape[0]} rows, expected one for each of {self.n_seen_} "
                f"instances."
            )
        _check_width(grid, n_tasks)
        return grid.rows_as(stored.ids, "the rows of Y", "the known instances").values

    # Feature maps --------------------------------------------------------------------------------

    def _fit_maps(self, rows: Array, labels: Array, task_rows: Array | None) -> None:
        """Fit the feature maps that are not fitted yet."""
        if self.feature_map is not None:
            self.feature_map_ = _fitted(self.feature_map, "feature_map", rows, labels)
        if self.task_feature_map is not None:
            if task_rows is None:
                raise ValueError(
                    "task_feature_map needs the features of the tasks: fit with tasks=."
                )
            self.task_feature_map_ = _fitted(self.task_feature_map, "task_feature_map", task_rows)

    # Learning and forgetting ---------------------------------------------------------------------

    def fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Fit the model on a first batch; earlier data are forgotten.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, p)
            The instances.
        y : array, sparse matrix, frame or series of shape (m, q) or (m,)
            Labels for all tasks; NaN means "not observed". In a sparse matrix, cells that are not
            stored are zeros, and these are labels, unlike in the other models.
        tasks : array, sparse matrix, frame or Tasks of shape (q, p'), default=None
            The tasks. Without `tasks` there is no task step, and tasks are learned independently.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            for name in _OF_FIT:
                self.__dict__.pop(name, None)
            self._check_params()
            rows, grid, ids = self._read_rows(X, y, None)
            task_rows = None
            task_ids = grid.column_ids
            task_names = None
            if tasks is not None:
                table = _read_tasks(tasks, grid.column_ids)
                task_rows = check_rows(table.values, LINEAR, "tasks")
                task_ids = table.row_ids
                task_names = table.column_ids
            reading.check_sizes(rows, grid.values, task_rows)
            check_same_library({"X": rows, "Y": grid.values, "tasks": task_rows})
            self._fit_maps(rows, grid.values, task_rows)
            Psi = None
            if task_rows is not None:
                Psi = copied(self._maps.mapped_tasks(task_rows))
            Phi = self._maps.mapped(rows)
            _check_labels(grid.values)
            # Frames and whole numbers are copied when they are read.
            is_read = any(
                not isinstance(table, np.ndarray) or table.dtype.kind != "f" for table in (X, y)
            )
            is_constant = bool(self.fit_intercept)
            check_room(
                Phi, grid.values, constant=is_constant, n_copies=is_read + bool(self.keep_labels)
            )
            statistics = collect(Phi, grid.values, Psi, constant=is_constant)
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
            self._changed(None, nothing.keeping(Batch(int(rows.shape[0]), ids, rows, grid.values)))
            _ = self.predictor_.terms  # raises if there is nothing to compute them from
            return self

    def partial_fit(self, X: Any, y: Any, tasks: Any = None, *, known: str = "error") -> Self:
        """Learn new instances or, with ``known="replace"``, new labels of known instances.

        Instances are identified by the ids of a frame: the index of pandas, unless it is the
        default RangeIndex, or a first column of text. Instances without ids cannot be recognised:
        if they are passed twice, they count twice.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
            The instances.
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Labels; NaN means "not observed". Columns with ids are matched with the known tasks.
        tasks : array, sparse matrix, frame or Tasks of shape (q, p'), default=None
            Tasks as in `fit`, for the first call. In later calls, leave them out or pass the same
            tasks.
        known : {"error", "replace"}, default="error"
            Treatment of instances whose ids are known. "error" raises an error with their ids, and
            nothing is learned. "replace" replaces their features and their observed labels; where
            `y` is NaN, the previous label remains. Afterwards the model equals one that was fitted
            on the new values from the start. "replace" needs
            ``keep_labels=True``.

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
                raise ValueError(
                    "tasks differ from the tasks of the model: pass new tasks to partial_fit_tasks."
                )
        batch, Phi, _ = self._known_rows(X, y)
        _check_labels(batch.labels)
        constant = learnt.model.statistics.has_constant
        check_room(Phi, batch.labels, constant=constant, n_copies=int(learnt.keeps_labels))
        places = learnt.known_among(batch.ids)
        if places.size:
            self._check_replaceable(learnt, batch, places, known)
            learnt, lost = learnt.replacing(batch.take(places), self._maps.mapped)
            _warn_of_lost(lost)
            others = np.delete(np.arange(batch.n_rows), places)
            batch = batch.take(others)
            Phi = take_rows(Phi, others)
        if batch.n_rows:
            self._learnt = learnt.with_rows(batch, Phi)
        else:
            self._learnt = learnt
        return self

    def _check_replaceable(
        self, learnt: Knowledge, batch: Batch, places: np.ndarray, known: str
    ) -> None:
        """Raise if instances are known and must not, or cannot, be replaced."""
        ids = () if batch.ids is None else batch.ids.take(places.tolist()).labels
        if known == "error":
            raise IdError(
                Message(
                    "{n_ids} of {n_rows} instances are known already, and would count twice: "
                    "{ids}. Leave them out, [forget them first, |]or replace their labels by "
                    '<known="replace">.',
                    n_ids=len(ids),
                    n_rows=batch.n_rows,
                    ids=shown(ids),
                )
            )
        if not learnt.keeps_labels:
            raise ValueError(
                Message(
                    "Instances {ids} are known, but the model does not store their labels to "
                    "replace them: [fit|tune] it again with <keep_labels=True>[, or forget the "
                    "instances with their old labels and learn them again|].",
                    ids=shown(ids),
                )
            )

    def forget(self, X: Any, y: Any) -> Self:
        """Remove instances; afterwards the model equals one that was fitted without them.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
            The instances to remove, with the features with which they were learned. An instance
            that was learned with an id must be passed with this id, unless labels are stored. With
            ``keep_labels=True`` unknown instances raise an error, and of several equal instances
            the first is removed.
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Labels with which they were learned, for all known tasks; NaN for missing labels.

        Returns
        -------
        self

        Warns
        -----
        PrecisionWarning
            If the removed instances were so much larger than the remaining ones that rounding
            errors matter.
        """
        learnt = self._current()
        batch, Phi, _ = self._known_rows(X, y)
        _check_complete(learnt.model, batch.labels)
        after = learnt.without_rows(batch, Phi)
        _warn_of_lost(learnt.model.digits_lost(after.model))
        return self._changed(learnt, after)

    def partial_fit_tasks(
        self, tasks: Any, y: Any = None, X: Any = None, *, chunks: Chunks | None = None
    ) -> Self:
        """Learn new tasks with their labels for all known instances.

        A label may be NaN, but every instance must be passed. This is checked by comparing the Gram
        matrix of the passed instances with that of all learned instances; an error is raised if
        they differ.

        Parameters
        ----------
        tasks : array, sparse matrix, frame or Tasks of shape (l, p'), or None
            The new tasks. None for a model without features of the tasks.
        y : array, sparse matrix or frame of shape (m, l) or (m,), default=None
            Labels of the new tasks for all instances.
        X : array, sparse matrix or frame of shape (m, p), default=None
            The instances as they were learned. None means all instances in the order in which they
            were learned; this needs ``keep_labels=True``.
        chunks : iterable of (X, y), default=None
            Chunks of instances and labels, instead of `y` and `X`. Each learned instance is in
            exactly one chunk. One chunk is in memory at a time. A model with ``keep_labels=True``
            does not accept chunks.

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
            raise ValueError(
                "chunks is given together with X or y: give either chunks, or X and y."
            )
        if chunks is not None and learnt.keeps_labels:
            raise ValueError(
                "A model with keep_labels=True takes the labels of tasks in one array: give y."
            )
        pieces = iter([(X, y)] if chunks is None else chunks)
        first = next(pieces, None)
        if first is None:
            raise ValueError("chunks is empty: give at least one pair of instances and labels.")
        columns = self._read_labels(first[1], None)
        Psi, ids = self._task_features(tasks, columns.column_ids)
        n_tasks = int(columns.values.shape[1] if Psi is None else Psi.shape[0])
        labels = None
        parts = self._task_parts(chain([first], pieces), n_tasks, ids)
        if learnt.keeps_labels:
            labels = self._labels_of_kept(X, y, n_tasks, ids)
            known = (self._maps.mapped(batch.rows) for batch in learnt.kept.batches)
            parts = zip(known, learnt.kept.split(labels), strict=True)
        ids = learnt.new_ids(ids)
        return self._changed(
            learnt, learnt.with_tasks(learnt.seen_of_tasks(parts, Psi), ids, labels)
        )

    def forget_tasks(self, tasks: Any) -> Self:
        """Remove tasks; afterwards the model equals one that was fitted without them.

        Parameters
        ----------
        tasks : id, position, or sequence of them
            Ids if the known tasks have ids, positions otherwise.

        Returns
        -------
        self
        """
        learnt = self._current()
        n_tasks = learnt.model.statistics.n_tasks
        if isinstance(tasks, str | int | np.integer):
            wanted = [tasks]
        else:
            wanted = list(tasks)
        where = reading.positions(wanted, learnt.task_ids, n_tasks, "the known tasks")
        if len(set(where.tolist())) < len(where):
            raise ValueError("tasks contains a task more than once: give each task once.")
        if len(where) >= n_tasks:
            raise ValueError(
                "These are all tasks, but a model needs at least one task: fit a new model instead."
            )
        return self._changed(learnt, learnt.without_tasks(where))

    def _changed(self, before: Knowledge | None, after: Knowledge) -> Self:
        """Store the new state; warn if more tasks than before have no label and so no intercept."""
        n_before = 0
        if before is not None:
            n_before = int(np.count_nonzero(before.model.unpredicted))
        unpredicted = after.model.unpredicted
        if np.count_nonzero(unpredicted) > n_before:
            warn_of_unlabelled(unpredicted, 3)
        self._learnt = after
        return self

    def _current(self) -> Knowledge:
        """Return the state of the model, with the current regularisation."""
        learnt = self._of_this_fit()
        self._check_params()
        return replace(learnt, model=learnt.model.with_alphas((self.alpha, self.task_alpha)))

    def _of_this_fit(self) -> Knowledge:
        """Return the state of the model; raise if its intercept was changed since the fit."""
        check_is_fitted(self)
        if bool(self.fit_intercept) != self.statistics_.has_constant:
            then = self.statistics_.has_constant
            raise ValueError(
                f"The model was fitted with fit_intercept={then}: set it back, or fit the model "
                f"again."
            )
        return self._learnt

    # Held-out predictions of learned labels that are passed again -------------------------------------

    def holdout(self, X: Any, y: Any, setting: str | Setting = "B") -> Any:
        """Return exact held-out predictions of learned labels, which are passed again.

        `TwoStepRidge.holdout` stores the labels and takes only the setting. This model takes the
        labels first.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
            Some of the learned instances, such as the last batch.
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Their labels for all tasks. Missing labels are NaN and are predicted too.
        setting : {"A", "B", "C", "D"} or an alias, default="B"
            What is left out to predict a cell: the pair alone (A), its instance (B), its task (C)
            or both (D). In A with complete labels, the left-out pair is completed by both steps, as
            in `TwoStepRidge`. In A with missing labels, it is left out of the first step of its
            task only. With ``row_alpha``, terms use the labels of the instance that are not left
            out: none in B and D, all others in A and C.

        Returns
        -------
        array or frame of shape (l, q) or (l,)
            Held-out predictions. They are NaN, with a warning, for the only label of a task, which
            then has no label to estimate its intercept from.
        """
        wanted = as_setting(setting)
        now = self.predictor_
        model, Phi, grid = self._left_out(now, X, y, wanted)
        terms = now.terms
        labels = grid.values
        if terms:
            held_out = terms.holdout(Phi, labels, wanted)
        else:
            held_out = online_holdout(model, Phi, labels, wanted)
        _warn_of_lone(model, grid.values, wanted, "their predictions are NaN")
        return grid.restore(now.home(held_out))

    def landscape(
        self,
        X: Any,
        y: Any,
        alphas: Alphas = None,
        task_alphas: Alphas = None,
        *,
        setting: str | Setting = "B",
    ) -> np.ndarray:
        """Return the negative mean squared error of held-out predictions for every combination of regularisations.

        Parameters
        ----------
        X, y : as in `holdout`
        alphas, task_alphas : iterables of float, or float, default=None
            Values of the two regularisations; None means the 14 powers of ten from 10⁻⁷ to 10⁶.
        setting : {"A", "B", "C", "D"} or an alias, default="B"

        Returns
        -------
        array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
            Scores; greater is better. A score is NaN, with a warning that names the values, if the
            model interpolates the labels that are left out. If it does so for all values,
            `LeverageError` is raised.
        """
        rows = check_alphas(alphas, "alphas")
        columns = check_alphas(task_alphas, "task_alphas")
        wanted = as_setting(setting)
        now = self.predictor_
        model, Phi, grid = self._left_out(now, X, y, wanted)
        # an instance that is left out has no term
        terms = None if 0 in wanted.new else now.terms

        def score(*values: Sequence[float]) -> np.ndarray:
            if terms is not None:
                return -terms.squared_errors(Phi, grid.values, values, wanted)
            return -online_squared_errors(model, Phi, grid.values, values, wanted)

        if not now.knows_tasks:
            columns = columns[:1]
        scores = where_defined(score, rows, columns)
        warn_of_undefined(scores, (rows, columns), wanted.value, 2)
        _warn_of_lone(model, grid.values, wanted, "they are not scored")
        return scores

    def tune(
        self,
        X: Any,
        y: Any,
        alphas: Alphas = None,
        task_alphas: Alphas = None,
        *,
        setting: str | Setting = "B",
    ) -> Self:
        """Set `alpha` and `task_alpha` to the values with the best held-out predictions; parameters as in `landscape`.

        Unlike a search, this changes the parameters of the model. Ties are resolved in favour of
        the largest values. The scores are stored as `landscape_`.
        """
        rows = check_alphas(alphas, "alphas")
        columns = check_alphas(task_alphas, "task_alphas")
        return self.set_best(self.landscape(X, y, rows, columns, setting=setting), rows, columns)

    def set_best(
        self, scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float]
    ) -> Self:
        """Set the regularisation with the best score and store the scores, which are those of `landscape`."""
        best = best_point(scores, *(alphas, task_alphas)[: scores.ndim])
        with all_or_nothing(self):
            self.set_alpha(alphas[best[0]], task_alphas[best[1]] if scores.ndim == 2 else None)
            self.landscape_ = scores
        return self

    def to_two_step(self) -> TwoStepRidge:
        """Return a `TwoStepRidge` with the same parameters, fitted on the stored features and labels.

        It equals this model if labels are complete, or if there are no task features. If labels are
        missing, it is another model: it completes missing labels by both steps, and this model
        learns each task from its observed labels. It has no terms of rows (``row_alpha``).

        Warns
        -----
        UserWarning
            If the two models differ.

        Raises
        ------
        ValueError
            If the model stores only statistics.
        """
        learnt = self._current()
        if not learnt.keeps_labels:
            raise ValueError(
                Message(
                    "{model} keeps statistics only, not the labels: [fit|tune] it with "
                    "<keep_labels=True>.",
                    model=type(self).__name__,
                )
            )
        known = learnt.model.statistics
        stored = learnt.kept
        if self.row_alpha is not None or (known.tasks is not None and not known.is_complete):
            if self.row_alpha is None:
                why = "Labels are missing"
            else:
                why = "Terms of rows are left out"
            text = f"{why}, so this result is that of TwoStepRidge, a different model (see to_two_step)."
            warnings.warn(text, UserWarning, stacklevel=3)
        rows = stacked([batch.rows for batch in stored.batches])
        labels = stacked([batch.all_labels for batch in stored.batches])
        task_rows = None
        if known.tasks is not None:
            task_rows = Table(known.tasks, learnt.task_ids)
        grid = Table(dense(labels), stored.ids, learnt.task_ids)
        model = TwoStepRidge(self.alpha, self.task_alpha, fit_intercept=self.fit_intercept)
        return model.fit(Table(self._maps.mapped(rows), stored.ids), grid, task_rows)

    @property
    def fitted_(self) -> FittedRidge:
        """Labels, sides and pairing of the `TwoStepRidge` of `to_two_step`, with its warning; needs stored labels."""
        return self.to_two_step().fitted_

    def _left_out(
        self, now: FittedOnline, X: Any, y: Any, setting: Setting
    ) -> tuple[OnlineRidge, Array, Table]:
        """Return the model, and the features (l, d) and labels of learned rows that are left out of it."""
        model = now.knowledge.model
        check_knows_tasks(model.statistics, setting)
        _, Phi, grid = self._known_rows(X, y)
        _check_complete(model, grid.values)
        return model, Phi, grid

    # Conventions --------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fits(self) -> bool:
        for name in ("feature_map", "task_feature_map"):
            fitted_map = getattr(self, f"{name}_", None)
            if (getattr(self, name) is None) != (fitted_map is None):
                return False
            if not hasattr(fitted_map, "transform") and not is_shaped(
                fitted_map, None, None, sparse=True
            ):
                return False
        return self.feature_map is not None or self.statistics_.gram.shape[0] == self.n_features_in_

    def _check_params(self) -> None:
        check_alpha(self.alpha, "alpha")
        check_alpha(self.task_alpha, "task_alpha")
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.keep_labels, "keep_labels")
        if self.row_alpha is not None and not check_alpha(self.row_alpha, "row_alpha"):
            raise ValueError(
                "row_alpha must be above 0, found 0: use a small number, or None for no terms."
            )


def _check_width(grid: Table, n_tasks: int) -> None:
    """Raise if the labels do not have one column per task."""
    if grid.values.shape[1] != n_tasks:
        raise ValueError(
            Message(
                "<Y> has {n_columns} columns, expected the labels of {n_tasks} task(s).",
                n_columns=grid.values.shape[1],
                n_tasks=n_tasks,
            )
        )


def _check_labels(labels: Array) -> None:
    """Raise if no label is observed."""
    if not is_sparse(labels):
        check_labels(labels)


def _check_complete(model: OnlineRidge, labels: Array) -> None:
    """Raise if a label is missing, for a model that was fitted on complete labels."""
    if model.statistics.is_complete and has_holes(labels):
        raise ValueError(
            "Y contains NaN, but the model was fitted on complete labels: give the labels of the "
            "fit."
        )


def _warn_of_lone(model: OnlineRidge, labels: Array, setting: Setting, what: str) -> None:
    """Warn about labels without a held-out prediction, because they are the only labels of their tasks."""
    known = model.statistics
    if known.has_own_constants:
        learned_labels = Labels.of_grid(dense(labels))
        warn_of_only_labels(
            learned_labels.observed & (known.counts == 1), learned_labels, setting, what, 3
        )


def _warn_of_lost(lost: float) -> None:
    """Warn if the relative rounding error of the remaining statistics is large."""
    if lost > _LOST:
        warnings.warn(
            "The forgotten data were much larger than the remaining data: results may have a "
            "relative rounding error "
            f"of {lost:.0e}. Fit a new model on the remaining data, and scale large values before "
            f"they are learned.",
            PrecisionWarning,
            stacklevel=3,
        )


def _read_tasks(tasks: Any, target: Ids | None) -> Table:
    """Return the table of tasks, in the order of the `target` ids if both have ids."""
    table = read_table(reading.unwrap_tasks(tasks), "tasks")
    return reading.align_side(table, target, LINEAR, "tasks", "the columns of Y")


@dataclass(frozen=True, eq=False)
class FeatureMaps:
    """Fitted feature maps of both sides; None means that the columns are the features.

    Attributes
    ----------
    instances, tasks : transformer, array or None
    """

    instances: Any
    tasks: Any

    def mapped(self, rows: Array) -> Array:
        """Return the features Φ of instances."""
        if self.instances is None:
            return rows
        return reading.mapped(rows, self.instances, "feature_map")

    def mapped_tasks(self, rows: Array) -> Array:
        """Return the features Ψ of tasks, dense."""
        if self.tasks is not None:
            rows = reading.mapped(rows, self.tasks, "task_feature_map")
        return dense(rows)


@dataclass(frozen=True, eq=False)
class FittedOnline(Predicting):
    """Predictions of an online model, with its stored data.

    Attributes
    ----------
    name : str
        Class of the model, for messages.
    knowledge : Knowledge
        Statistics, ids and, with ``keep_labels=True``, labels.
    maps : FeatureMaps
    row_alpha : float or None
        Regularisation of the terms of known instances.
    known : Known
        Columns of the training instances.
    """

    name: str
    knowledge: Knowledge
    maps: FeatureMaps
    row_alpha: float | None
    known: reading.Known

    tasks_remedy = Message("fit it with <tasks=>, the features of the tasks.")

    @property
    def form(self) -> Table:  # type: ignore[override]
        """Table without values: the user's ids of the tasks, and the type of the labels."""
        return Table(None, None, self.knowledge.task_ids, is_vector=self.knowledge.is_vector)

    @property
    def precision(self) -> str:  # type: ignore[override]
        """Precision of returned arrays."""
        return self.knowledge.precision

    @property
    def knows_tasks(self) -> bool:
        """Whether the model was fitted with features of the tasks."""
        return self.knowledge.model.statistics.tasks is not None

    @property
    def descriptions(self) -> SideTables:
        """Kernel and column names of each side, by the empty name."""
        names = self.known.feature_names
        instances = LINEAR, None if names is None else Ids(tuple(names.tolist()))
        sides: SideTables = [{"": instances}]
        if self.knows_tasks:
            sides.append({"": (LINEAR, self.knowledge.task_names)})
        return sides

    @property
    def expansion(self) -> Expansion:
        """Coefficients, as an object whose methods `grid` and `at` return predictions."""
        values = self.knowledge.model.coefficients
        if self.terms is not None:
            # The rows are multiplied by the coefficients before the terms are added.
            n_columns = int(values.shape[1])
            values = namespace(values).eye(n_columns, dtype=values.dtype, device=values.device)
        return Expansion(values)

    @property
    def effects(self) -> Effects:
        """Interactions, main effects and constants, for features that are not centred."""
        return Effects(*self.knowledge.model.effects)

    @property
    def terms(self) -> RowTerms | None:
        """Terms of known instances; None without them."""
        if self.row_alpha is None:
            return None
        if not (self.knowledge.keeps_labels and self.knows_tasks):
            raise ValueError(
                Message(
                    "row_alpha needs labels and features of tasks: [fit|tune] with "
                    "<keep_labels=True> and <tasks=>."
                )
            )
        return RowTerms(self.knowledge.model, self.row_alpha)

    def rows(self, X: Any) -> tuple[Table, Any]:
        """Return the ids and checked rows of instances to predict for."""
        if X is None:
            raise ValueError(
                Message("{name} predicts only for given instances: give <X>.", name=self.name)
            )
        return self.new_rows(X, 0)

    def columns(self, tasks: Any) -> tuple[Table | None, Any]:
        """Return the ids and checked rows of tasks to predict for; None means the training tasks."""
        statistics = self.knowledge.model.statistics
        if tasks is None and statistics.tasks is not None:
            return None, NewRows(statistics.task_rows, lambda part: part, 0)
        return super().columns(tasks)

    def new_rows(self, new: Any, axis: int) -> tuple[Table, NewRows]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""
        if axis:
            table, Psi = self.known_tasks(new, None)
            self.check_library(tasks=Psi)
            rows_of = self.knowledge.model.statistics.rows_of_tasks(double(Psi))
            return table, NewRows(rows_of, lambda part: part, 0)
        table, rows = reading.read_rows(new, 0, self.known)
        self.check_library(X=rows)
        kept = self.knowledge.kept
        ids = _own_ids(table.row_ids, new) if kept.n_named else None
        places = [None] * int(rows.shape[0]) if ids is None else kept.places(ids.labels)
        return table, self.rows_at(rows, places)

    def known_tasks(self, tasks: Any, target: Ids | None) -> tuple[Table, Array]:
        """Return the table and the features Ψ of tasks, whose columns must be those of the training tasks."""
        table = _read_tasks(tasks, target)
        knowledge = self.knowledge
        rows = reading.checked_tasks(table, LINEAR, knowledge.task_names, knowledge.n_task_features)
        return table, self.maps.mapped_tasks(rows)

    def check_library(self, **arrays: Array) -> None:
        """Raise if arrays are not of the library of the model."""
        check_same_library({**arrays, "the model": self.knowledge.model.statistics.gram})

    def rows_at(self, rows: Array, places: Sequence[int | None]) -> NewRows:
        """Return checked instances (a, p), with stored positions or None, as rows to predict for."""
        # A feature map may add many features; with a constant or in single precision features are
        # copied.
        learnt = self.knowledge
        model = learnt.model
        mapped = self.maps.mapped
        is_copied = model.statistics.has_constant or rows.dtype != model.statistics.gram.dtype
        width = 0
        if is_copied or self.maps.instances is not None:
            width = model.n_coefficients
        terms = self.terms
        if terms is None:
            return NewRows(rows, lambda part: model.rows(mapped(part)), width)

        def block(part: np.ndarray) -> Array:
            labels = learnt.labels_at([places[row] for row in part[:, 0]])
            return terms.coefficients(mapped(take_rows(rows, part[:, 0])), labels)

        return NewRows(np.arange(len(places))[:, None], block, width + model.statistics.n_tasks)

    def kept_rows(self, places: Sequence[int]) -> NewRows:
        """Return the stored rows at positions as rows to predict for."""
        return self.rows_at(self.knowledge.kept.part_of(places, "rows"), places)
