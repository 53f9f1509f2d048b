"""Two-step ridge regression that learns and forgets batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import assert_all_finite, check_array, check_is_fitted

from dyadlearn._array import Array, cast, copied, dense, is_foreign, is_sparse, namespace, take_rows
from dyadlearn._checks import check_alphas, check_choice, check_same_library, check_whole
from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.growing.holdout import online_holdout, online_squared_errors
from dyadlearn.growing.inverse import SOLVERS
from dyadlearn.growing.knowledge import Knowledge, Reservoir
from dyadlearn.growing.statistics import Statistics, check_room, collect, digits_lost, double, equal_features
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.labels import read_labels
from dyadlearn.metrics.choice import best_point, warn_of_undefined, where_defined
from dyadlearn.models._inputs import (
    align_side,
    check_labels_given,
    check_orientation,
    check_sizes,
    checked_tasks,
    is_fitted,
    mapped,
    positions,
    unwrap_tasks,
    working_dtype,
)
from dyadlearn.models._model import PairModel, all_or_nothing
from dyadlearn.models._side import KernelSpec, check_rows
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting

__all__ = ["OnlineTwoStepRidge"]

# The sides are linear in their features.
_LINEAR = KernelSpec("linear", None, "error")

#: How much of what is left may be rounding of what was forgotten, before that is said.
_LOST = 1e-8


class OnlineTwoStepRidge(PairModel):
    r"""Two-step ridge regression, linear in features, that learns and forgets batch by batch.

    .. math:: f(\mathbf{d}, \mathbf{t}) = \boldsymbol\phi(\mathbf{d})^\top
              (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,\boldsymbol\Phi^\top\mathbf{Y}
              \boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}\boldsymbol\psi(\mathbf{t})

    Instances and tasks come and go in any order; at every moment the model equals `TwoStepRidge` with linear kernels
    fitted on what it has learnt and not forgotten. It keeps the statistics in the middle of the formula, whose size
    does not depend on the number of instances: d² + d·r + r² + q·r numbers for d features of the instances and r of
    the q tasks, without features of the tasks d² + d·q. There is no intercept: add a constant feature.

    Parameters
    ----------
    alpha, task_alpha : float, default=1.0
        Regularisation :math:`\lambda_d, \lambda_t \ge 0` of the instances and of the tasks.
    feature_map, task_feature_map : transformer, default=None
        What makes features :math:`\boldsymbol\phi` of instances and :math:`\boldsymbol\psi` of tasks:
        `CanonicalProjection` or any of scikit-learn's, such as `Nystroem`. One that is fitted is used as it is; of any
        other a clone is fitted on the first batch. None takes the features as they come.
    solver : {"auto", "woodbury", "cholesky"}, default="auto"
        How coefficients follow new data: by changing an inverse (Woodbury's identity, for fewer new rows than
        features), by factorising the accumulated Gram matrix, or by the cheaper of the two. The answers are the same.
    keep_instances : bool, default=False
        Whether to keep all instances, so that new tasks need not bring them again. Takes memory for each.
    keep_tasks : bool, default=False
        Whether to keep :math:`\boldsymbol\Phi^\top\mathbf{Y}` (d·q numbers) of all tasks, so that they can be forgotten
        without their labels and left out in settings C and D.
    reservoir : int, default=0
        Size of a random sample of learnt rows with their labels, for `landscape` and `tune`.
    prequential : bool, default=False
        Whether `partial_fit` first predicts what it is given, for the running score `prequential_`.
    random_state : int, RandomState or None, default=None
        For the sample.

    Attributes
    ----------
    coef_ : array of shape (d, r), without features of the tasks (d, q) or (d,)
        The parameters W.
    n_seen_, n_tasks_ : int
        Number of instances and of tasks that are learnt and not forgotten.
    n_pending_tasks_ : int
        Number of tasks whose labels are still incomplete.
    prequential_ : float
        Mean squared error of predictions made just before learning; NaN before there are any.
    statistics_ : Statistics
        What is known of the data.
    feature_map_, task_feature_map_ : transformer
        The fitted feature maps, where there are any.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    See Also
    --------
    TwoStepRidge : the same model fitted at once, with any kernel.

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

    grows = True
    _tasks_remedy = "fit it with tasks=, the features of the tasks."

    _learnt: Knowledge
    feature_map_: Any
    task_feature_map_: Any
    landscape_: np.ndarray

    def __init__(
        self,
        alpha: float = 1.0,
        task_alpha: float = 1.0,
        *,
        feature_map: Any = None,
        task_feature_map: Any = None,
        solver: str = "auto",
        keep_instances: bool = False,
        keep_tasks: bool = False,
        reservoir: int = 0,
        prequential: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.task_alpha = task_alpha
        self.feature_map = feature_map
        self.task_feature_map = task_feature_map
        self.solver = solver
        self.keep_instances = keep_instances
        self.keep_tasks = keep_tasks
        self.reservoir = reservoir
        self.prequential = prequential
        self.random_state = random_state

    # Learning and forgetting ---------------------------------------------------------------------

    def fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Forget everything and learn a first batch.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, p)
            The instances.
        y : array, sparse matrix, frame or series of shape (m, q) or (m,)
            Their labels for all tasks. The zeros that a sparse matrix does not store are labels too.
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
            rows, grid = self._read_rows(X, y, None, reset=True)
            task_rows, task_ids, task_names = None, grid.column_ids, None
            if tasks is not None:
                table = self._read_tasks(tasks, grid.column_ids)
                task_rows = check_rows(table.values, _LINEAR, "tasks")
                task_ids, task_names = table.row_ids, table.column_ids
            check_sizes(rows, grid.values, task_rows)
            check_same_library({"X": rows, "Y": grid.values, "tasks": task_rows})
            self._fit_maps(rows, grid.values, task_rows)
            Psi = None if task_rows is None else copied(self._mapped_tasks(task_rows))
            Phi = self._mapped(rows)
            check_room(Phi, grid.values, None if self.keep_tasks else Psi)
            statistics = collect(Phi, grid.values, Psi, per_task=self.keep_tasks)
            self._learnt = Knowledge(
                OnlineRidge.start(statistics, self.alpha, self.task_alpha, solver=self.solver),
                working_dtype((rows, X), (task_rows, tasks), (grid.values, y)),
                grid.is_vector,
                task_ids,
                task_names,
                0 if task_rows is None else int(task_rows.shape[1]),
                instances=(copied(rows),) if self.keep_instances else None,
                reservoir=self._new_reservoir(rows, grid.values),
            )
        return self

    def partial_fit(self, X: Any, y: Any, tasks: Any = None) -> Self:
        """Learn new instances, labelled for all known tasks.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Columns with ids are matched with the known tasks.
        tasks : array, sparse matrix, frame or Tasks of shape (q, p'), default=None
            For the first call, as in `fit`; later either left out or the same.

        Returns
        -------
        self
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, tasks)
        learnt = self._current()
        learnt.check_settled("learn new instances")
        if tasks is not None:
            Psi, _ = self._task_features(tasks, learnt.task_ids)
            if not equal_features(Psi, learnt.model.statistics.tasks):
                raise ValueError("tasks are not those the model knows: give new tasks to partial_fit_tasks.")
        rows, grid, Phi = self._known_rows(X, y)
        if self.prequential:
            learnt = learnt.scored(learnt.model.squared_error(Phi, grid.values), grid.values)
        self._learnt = learnt.with_rows(rows, Phi, grid.values)
        return self

    def forget(self, X: Any, y: Any) -> Self:
        """Unlearn instances: afterwards the model is as if they had never come.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Instances as they were learnt, and their labels for all known tasks. Where the model keeps its instances,
            those that it does not know are refused, and of several equal ones the first that was learnt leaves.

        Returns
        -------
        self

        Warns
        -----
        PrecisionWarning
            If the instances were so much larger than those that are left that their rounding shows.
        """
        learnt = self._current()
        learnt.check_settled("forget instances")
        rows, grid, Phi = self._known_rows(X, y)
        self._forgotten(learnt, learnt.without_rows(rows, Phi, grid.values))
        return self

    def partial_fit_tasks(self, tasks: Any, y: Any, X: Any = None) -> Self:
        """Learn new tasks, labelled for all known instances, in any number of chunks.

        The tasks are pending until the Gram matrix of the instances that came with their labels equals that of all that
        were learnt: a task labelled for some of them only would count the rest as zeros. Until then `predict` does
        not know the tasks, and instances can neither be learnt nor forgotten.

        Parameters
        ----------
        tasks : array, sparse matrix, frame or Tasks of shape (l, p'), or None
            The new tasks, the same in every chunk. None stands for the pending ones, and for a model without features
            of the tasks.
        y : array, sparse matrix or frame of shape (n, l) or (n,)
            Their labels for the instances of this chunk.
        X : array, sparse matrix or frame of shape (n, p), default=None
            The instances of this chunk, as they were learnt. None stands for all of them, in the order they were
            learnt, if the model keeps them.

        Returns
        -------
        self
        """
        learnt = self._current()
        pending = learnt.pending
        if pending is not None and pending.positions is not None:
            learnt.check_settled("learn new tasks")
        grid, chunks = self._chunks(X, y, None if pending is None else pending.ids)
        if pending is None:
            Psi, ids = self._task_features(tasks, grid.column_ids)
            ids, n_new = learnt.new_ids(ids), grid.values.shape[1] if Psi is None else Psi.shape[0]
        else:
            Psi, ids, n_new = pending.statistics.tasks, pending.ids, pending.statistics.n_tasks
            if tasks is not None and not equal_features(self._task_features(tasks, ids)[0], Psi):
                learnt.check_settled("learn other tasks")
        if grid.values.shape[1] != n_new:
            raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {n_new} new task(s).")
        self._learnt = learnt.with_labels(chunks, Psi, ids)
        return self

    def forget_tasks(self, tasks: Any, y: Any = None, X: Any = None) -> Self:
        """Unlearn tasks: afterwards the model is as if they had never come.

        A model that tells its tasks apart (without features of the tasks, or with ``keep_tasks=True``) forgets them at
        once. Any other needs their labels for all instances, in any number of chunks as in `partial_fit_tasks`, and
        until they have come the tasks are known still.

        Parameters
        ----------
        tasks : id, position, or sequence of them
            Ids where the known tasks have ids, else positions; the same in every chunk.
        y : array, sparse matrix or frame of shape (n, l) or (n,), default=None
            The labels of these tasks for the instances of this chunk.
        X : array, sparse matrix or frame of shape (n, p), default=None
            The instances of this chunk, as they were learnt. None stands for all of them, if the model keeps them.

        Returns
        -------
        self
        """
        learnt = self._current()
        known, pending = learnt.model.statistics, learnt.pending
        wanted = [tasks] if isinstance(tasks, str | int | np.integer) else list(tasks)
        where = positions(wanted, learnt.task_ids, known.n_tasks, "the known tasks")
        if len(set(where.tolist())) < len(where):
            raise ValueError("tasks names a task more than once.")
        if len(where) >= known.n_tasks:
            raise ValueError("A model needs at least one task: these are all it has. Fit it anew instead.")
        if pending is not None and (pending.positions is None or not np.array_equal(pending.positions, where)):
            learnt.check_settled("forget other tasks")
        if known.per_task:
            self._forgotten(learnt, learnt.without_tasks(where))
            return self
        if y is None:
            raise ValueError(
                "The labels of the tasks are needed to forget them: give them as y, with the instances as X, or let "
                "the model keep its tasks apart (keep_tasks=True)."
            )
        ids = None if learnt.task_ids is None else learnt.task_ids.take(where)
        grid, chunks = self._chunks(X, y, ids)
        if grid.values.shape[1] != len(where):
            raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {len(where)} task(s).")
        self._forgotten(learnt, learnt.with_labels(chunks, take_rows(known.tasks, where), ids, where))
        return self

    def abandon_tasks(self) -> Self:
        """Give pending tasks up: new ones stay unknown, those being forgotten stay known."""
        self._learnt = replace(self._current(), pending=None)
        return self

    def _forgotten(self, before: Knowledge, after: Knowledge) -> None:
        """Take over what is left, and warn where much of it is rounding."""
        lost = digits_lost(before.model.statistics, after.model.statistics, self.alpha)
        if lost > _LOST:
            warnings.warn(
                "What was forgotten was so much larger than what is left that its rounding may change that by "
                f"{lost:.0e} of it: fit a new model on the data that are left, and scale what is so large before it is "
                "learnt.",
                PrecisionWarning,
                stacklevel=3,
            )
        self._learnt = after

    def _current(self) -> Knowledge:
        """Return what is known, under the regularisation that is set now."""
        check_is_fitted(self)
        self._check_params()
        return replace(self._learnt, model=self._learnt.model.with_alphas(self.alpha, self.task_alpha))

    def _solve(self) -> Self:
        self._learnt = self._current()
        return self

    # What was learnt -----------------------------------------------------------------------------

    @property
    def coef_(self) -> Array:
        """The parameters W of shape (d, r), without features of the tasks (d, q) or (d,)."""
        check_is_fitted(self)
        coef = self._expansion().values
        return coef if self._knows_tasks else self._in_form(coef)

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

    @property
    def n_pending_tasks_(self) -> int:
        """Number of tasks whose labels are still incomplete."""
        check_is_fitted(self)
        return 0 if self._learnt.pending is None else self._learnt.pending.statistics.n_tasks

    @property
    def prequential_(self) -> float:
        """Mean squared error of predictions made just before learning; NaN before there are any."""
        check_is_fitted(self)
        return self._learnt.squared_error / self._learnt.n_scored if self._learnt.n_scored else float("nan")

    @property
    def _ids(self) -> tuple[Ids | None, Ids | None]:
        return None, self._learnt.task_ids

    @property
    def _columns(self) -> list[tuple[KernelSpec, Ids | None]]:
        return [(_LINEAR, None)] * (1 + self._knows_tasks)

    @property
    def _is_vector(self) -> bool:
        return self._learnt.is_vector

    @property
    def _knows_tasks(self) -> bool:
        return self._learnt.model.task_inverse is not None

    # Held-out predictions of what was learnt and is shown again -------------------------------------

    def holdout(self, X: Any, y: Any, setting: str | Setting = "B") -> Any:
        """Predict learnt labels as if the model had never seen them, exactly.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (l, p)
        y : array, sparse matrix, frame or series of shape (l, q) or (l,)
            Some of the instances that were learnt, such as the last batch, and their labels.
        setting : {"B", "A", "C", "D"} or an alias, default="B"
            What is left out for a cell: its instance (B), the pair alone (A), its task (C) or both (D). For C and D the
            model must tell its tasks apart (``keep_tasks=True``); otherwise the given rows are taken for all there are.

        Returns
        -------
        array or frame of shape (l, q) or (l,)
        """
        wanted = self._checked_setting(setting)
        model, Phi, grid = self._left_out(X, y, wanted)
        held_out = online_holdout(model, Phi, grid.values, wanted)
        return grid.restore(cast(held_out, self._learnt.dtype))

    def landscape(
        self,
        X: Any = None,
        y: Any = None,
        alphas: Iterable[float] | float | None = None,
        task_alphas: Iterable[float] | float | None = None,
        *,
        setting: str | Setting = "B",
    ) -> np.ndarray:
        """Return the negative mean squared error of hold-out predictions for every regularisation.

        Parameters
        ----------
        X, y : as in `holdout`
            None stands for the reservoir.
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
        wanted = self._checked_setting(setting)
        model, Phi, grid = self._left_out(X, y, wanted)
        scores = where_defined(
            lambda values, task_values: -online_squared_errors(model, Phi, grid.values, values, task_values, wanted),
            rows,
            columns if self._knows_tasks else columns[:1],
        )
        warn_of_undefined(scores, rows, columns if self._knows_tasks else None, wanted.value, 2)
        return scores

    def tune(
        self,
        X: Any = None,
        y: Any = None,
        alphas: Iterable[float] | float | None = None,
        task_alphas: Iterable[float] | float | None = None,
        *,
        setting: str | Setting = "B",
    ) -> Self:
        """Set the regularisation that is best for hold-out predictions; parameters as in `landscape`.

        Of values that are equally good the largest are taken. The scores are kept as `landscape_`.
        """
        rows, columns = check_alphas(alphas, "alphas"), check_alphas(task_alphas, "task_alphas")
        scores = self.landscape(X, y, rows, columns, setting=setting)
        return self._chosen(rows, columns, scores)

    def _chosen(self, alphas: list[float], task_alphas: list[float], scores: np.ndarray) -> Self:
        """Set the best of some regularisations, and keep their scores."""
        two = scores.ndim == 2
        best = best_point(scores, alphas, task_alphas if two else None)
        with all_or_nothing(self):
            self.set_alpha(alphas[best[0]], task_alphas[best[1]] if two else None)
            self.landscape_ = scores
        return self

    def _problem(self) -> NoReturn:
        """Refuse what needs the labels of all rows: see `dyadlearn.landscape`."""
        raise TypeError(
            f"{type(self).__name__} keeps statistics and no labels: use its own holdout and landscape with rows that "
            "are at hand, or fit a TwoStepRidge."
        )

    def _checked_setting(self, setting: str | Setting) -> Setting:
        check_is_fitted(self)
        wanted = as_setting(setting)
        if wanted.new_task and not self._knows_tasks:
            raise ValueError(
                f"Setting {wanted.value} is about new tasks, and a model without features of the tasks cannot speak of "
                "them: fit with tasks=, or ask for A or B."
            )
        return wanted

    def _left_out(self, X: Any, y: Any, setting: Setting) -> tuple[OnlineRidge, Array, Table]:
        """Return features (l, d) and labels of rows that were learnt, and what they are left out of.

        The rows are those given, or the reservoir. Where tasks are left out and the statistics do not tell them apart,
        the rows are left out of the model of these rows alone.
        """
        if X is None and y is None:
            sample = self._learnt.reservoir
            if sample is None or sample.rows is None:
                raise ValueError("There is no sample of learnt rows: give X and y, or ask for one with reservoir=1000.")
            Phi, grid = self._mapped(sample.rows), Table(sample.labels)
        else:
            _, grid, Phi = self._known_rows(X, y)
        model = self._learnt.model
        return model.telling_apart(Phi, grid.values) if setting.new_task else model, Phi, grid

    # What users hand in --------------------------------------------------------------------------

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
        check_choice(self.solver, "solver", SOLVERS)
        check_whole(self.reservoir, "reservoir", 0)

    def _expansion(self) -> Expansion:
        return Expansion(cast(self._learnt.model.coefficients, self._learnt.dtype))

    def _instance_rows(self, X: Any) -> tuple[Table, NewRows | None]:
        if X is None:
            raise ValueError("OnlineTwoStepRidge keeps no instances to predict for: give X.")
        table, dtype = read_table(X, "X"), self._learnt.dtype
        rows = self._validated_instances(table, _LINEAR, reset=False)
        self._check_library(X=rows)
        # A feature map may make many features of few.
        width = 0 if self.feature_map is None else int(self._learnt.model.statistics.gram.shape[0])
        return table, NewRows(rows, lambda part: cast(self._mapped(part), dtype), width)

    def _task_rows(self, tasks: Any) -> tuple[Table | None, NewRows | None]:
        table, Psi = None, self._learnt.model.statistics.tasks
        if tasks is not None:
            if Psi is None:
                self._refuse_tasks()
            table, Psi = self._known_tasks(tasks, None)
            self._check_library(tasks=Psi)
        return table, None if Psi is None else NewRows(cast(Psi, self._learnt.dtype), lambda part: part, 0)

    def _check_library(self, **given: Array) -> None:
        check_same_library({**given, "the model": self._learnt.model.statistics.gram})

    def _read_rows(self, X: Any, y: Any, known: Ids | None, *, reset: bool) -> tuple[Array, Table]:
        """Return instances (l, p) and their labels (l, q), matched by id where both have ids."""
        grid, table = self._read_labels(y, known), read_table(X, "X")
        check_orientation(grid, table, None)
        table = align_side(table, grid.row_ids, _LINEAR, "X", "the rows of Y")
        rows = self._validated_instances(table, _LINEAR, reset=reset)
        check_sizes(rows, grid.values, None)
        return rows, grid

    def _read_labels(self, y: Any, known: Ids | None) -> Table:
        """Return complete labels, dense or CSR, with columns in the order of the `known` ids where both have ids."""
        check_labels_given(y, self)
        if is_sparse(y):
            values = check_array(y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y")
            if not values.has_canonical_format:
                values = values.copy()
                values.sum_duplicates()
            return Table(values)
        grid = read_labels(y)
        if not is_foreign(grid.values):
            assert_all_finite(grid.values, input_name="Y")
        elif not bool(namespace(grid.values).all(namespace(grid.values).isfinite(grid.values))):
            raise ValueError("Input Y contains NaN or infinity: online learning needs every label of a row.")
        return grid.columns_as(known, "the columns of Y", "the tasks")

    def _read_tasks(self, tasks: Any, target: Ids | None) -> Table:
        """Return tasks as they came, in the order of the `target` ids where both have ids."""
        table = read_table(unwrap_tasks(tasks), "tasks")
        return align_side(table, target, _LINEAR, "tasks", "the columns of Y")

    def _known_tasks(self, tasks: Any, target: Ids | None) -> tuple[Table, Array]:
        """Return what `_read_tasks` does, and features Ψ, of tasks that are described as those of training were."""
        table = self._read_tasks(tasks, target)
        rows = checked_tasks(table, _LINEAR, self._learnt.task_names, self._learnt.n_task_features)
        return table, self._mapped_tasks(rows)

    def _task_features(self, tasks: Any, ids: Ids | None) -> tuple[Array | None, Ids | None]:
        """Return features Ψ (l, r) of tasks, None for a model that knows none, and their ids."""
        if not self._knows_tasks:
            if tasks is not None:
                raise ValueError("This model was fitted without features of the tasks: leave tasks out.")
            return None, ids
        if tasks is None:
            raise ValueError("tasks is None, but there are none pending: give the features of the new tasks.")
        table, Psi = self._known_tasks(tasks, ids)
        return double(copied(Psi)), table.row_ids

    def _known_rows(self, X: Any, y: Any) -> tuple[Array, Table, Array]:
        """Return instances (l, p), their labels for the known tasks, and their features (l, d)."""
        rows, grid = self._read_rows(X, y, self._learnt.task_ids, reset=False)
        if grid.values.shape[1] != self.n_tasks_:
            raise ValueError(
                f"Y has {grid.values.shape[1]} columns, but {self.n_tasks_} tasks are known: give one label per task, "
                "and new tasks to partial_fit_tasks."
            )
        self._check_library(X=rows, Y=grid.values)
        return rows, grid, self._mapped(rows)

    def _chunks(self, X: Any, y: Any, ids: Ids | None) -> tuple[Table, list[tuple[Array, Array]]]:
        """Return labels of some tasks, and with the features of the instances batch by batch."""
        if X is not None:
            rows, grid = self._read_rows(X, y, ids, reset=False)
            return grid, [(self._mapped(rows), grid.values)]
        grid, instances = self._read_labels(y, ids), self._learnt.instances
        if instances is None:
            raise ValueError("X is missing: give the instances that y labels, or let the model keep_instances=True.")
        if grid.values.shape[0] != self.n_seen_:
            raise ValueError(f"Y has {grid.values.shape[0]} rows, expected one for each of {self.n_seen_} instances.")
        ends = np.cumsum([batch.shape[0] for batch in instances])
        parts = [grid.values[end - batch.shape[0] : end, :] for batch, end in zip(instances, ends, strict=True)]
        return grid, [(self._mapped(batch), part) for batch, part in zip(instances, parts, strict=True)]

    def _new_reservoir(self, rows: Array, labels: Array) -> Reservoir | None:
        if not self.reservoir:
            return None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Reservoir(int(self.reservoir), seed).offered(rows, labels)

    # Feature maps --------------------------------------------------------------------------------

    def _fit_maps(self, rows: Array, labels: Array, task_rows: Array | None) -> None:
        """Fit the feature maps that are not fitted yet."""
        if self.feature_map is not None:
            self.feature_map_ = _fitted(self.feature_map, rows, labels)
        if self.task_feature_map is not None:
            if task_rows is None:
                raise ValueError("task_feature_map needs the features of the tasks: fit with tasks=.")
            self.task_feature_map_ = _fitted(self.task_feature_map, task_rows)

    def _mapped(self, rows: Array) -> Array:
        """Return the features Φ of instances."""
        return rows if self.feature_map is None else mapped(rows, self.feature_map_, "feature_map")

    def _mapped_tasks(self, rows: Array) -> Array:
        """Return the features Ψ of tasks, dense."""
        if self.task_feature_map is not None:
            rows = mapped(rows, self.task_feature_map_, "task_feature_map")
        return dense(rows)


def _fitted(transformer: Any, *data: Any) -> Any:
    """Return a transformer that is fitted as it is, or a clone fitted on `data`."""
    return transformer if is_fitted(transformer) else clone(transformer).fit(*data)
