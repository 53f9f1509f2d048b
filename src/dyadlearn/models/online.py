"""Two-step ridge regression that learns and forgets batch by batch."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import reduce
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, namespace, take_rows
from dyadlearn._checks import check_alpha, check_choice, check_same_library
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._inputs import cast, check_sizes, positions, working_dtype
from dyadlearn.models._online_inputs import all_or_nothing, check_state_memory, equal_features
from dyadlearn.models._online_state import Learnt, Pending, Reservoir, copied
from dyadlearn.models._online_tuning import OnlineTuning
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.solvers.online import OnlineRidge
from dyadlearn.solvers.ridge_side import SOLVERS
from dyadlearn.solvers.statistics import Statistics, collect, digits_lost, merge

__all__ = ["OnlineTwoStepRidge"]

#: How much of what is left may be rounding of what was forgotten, before that is said.
_LOST = 1e-8


class OnlineTwoStepRidge(OnlineTuning):
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
            table, task_rows = None, None
            if tasks is not None:
                table, task_rows = self._read_tasks(tasks, grid.column_ids)
            check_sizes(rows, grid.values, task_rows)
            check_same_library({"X": rows, "Y": grid.values, "tasks": task_rows})
            self._fit_maps(rows, grid.values, task_rows)
            Psi = None if task_rows is None else copied(self._mapped_tasks(task_rows))
            Phi = self._mapped(rows)
            width = grid.values.shape[1] if self.keep_tasks or Psi is None else Psi.shape[1]
            check_state_memory(Phi.shape[1], width, grid.values)
            statistics = collect(Phi, grid.values, Psi, per_task=self.keep_tasks)
            self._learnt = Learnt(
                OnlineRidge.start(statistics, self.alpha, self.task_alpha, solver=self.solver),
                working_dtype((rows, X), (task_rows, tasks), (grid.values, y)),
                grid.is_vector,
                grid.column_ids if table is None else table.row_ids,
                None if table is None else table.column_ids,
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
        self._check_same_tasks(tasks)
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
        self._forgotten(learnt, learnt.forgetting_rows(rows, Phi, grid.values))
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
            Psi, ids = self._new_tasks(tasks, grid.column_ids)
            wanted = grid.values.shape[1] if Psi is None else Psi.shape[0]
        else:
            Psi, ids, wanted = pending.statistics.tasks, pending.ids, pending.statistics.n_tasks
            if tasks is not None and not equal_features(self._new_tasks(tasks, ids)[0], Psi):
                learnt.check_settled("learn other tasks")
        if grid.values.shape[1] != wanted:
            raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {wanted} new task(s).")
        seen = _gathered(pending, chunks, Psi, learnt.model.statistics.per_task)
        self._learnt = learnt.with_pending(Pending(seen, ids))
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
        if pending is not None and not (pending.positions is not None and np.array_equal(pending.positions, where)):
            learnt.check_settled("forget other tasks")
        if known.per_task:
            self._forgotten(learnt, learnt.forgetting_tasks(where))
            return self
        if y is None:
            raise ValueError(
                "The labels of the tasks are needed to forget them: give them as y, with the instances as X, or let "
                "the model keep its tasks apart (keep_tasks=True)."
            )
        ids = None if learnt.task_ids is None else Ids(tuple(learnt.task_ids.labels[place] for place in where))
        grid, chunks = self._chunks(X, y, ids)
        if grid.values.shape[1] != len(where):
            raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {len(where)} task(s).")
        seen = _gathered(pending, chunks, take_rows(known.tasks, where), per_task=False)
        self._forgotten(learnt, learnt.with_pending(Pending(seen, ids, where)))
        return self

    def abandon_tasks(self) -> Self:
        """Give pending tasks up: new ones stay unknown, those being forgotten stay known."""
        self._learnt = replace(self._current(), pending=None)
        return self

    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation without data, by eigendecompositions that are made once for all values.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None leaves one as it is.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        given = {"alpha": alpha, "task_alpha": task_alpha}
        given = {name: check_alpha(value, name) for name, value in given.items() if value is not None}
        with all_or_nothing(self):
            self.set_params(**given)
            self._learnt = self._current()
        return self

    def predict(self, X: Any, tasks: Any = None) -> Any:
        """Predict the labels of every given instance with every given task.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, p)
        tasks : array, sparse matrix, frame or Tasks of shape (b, p'), default=None
            Tasks, new or not; None stands for the known ones.

        Returns
        -------
        array or frame of shape (a, b)
            A frame if `X` or `tasks` is one. With one-dimensional labels and no `tasks`, shape (a,).
        """
        table = self._predicted(X, tasks)
        return table.restore(table.values)

    def _predicted(self, X: Any, tasks: Any) -> Table:
        check_is_fitted(self)
        learnt = self._learnt
        table, rows = self._read_instances(X, reset=False)
        Psi, task_table = learnt.model.statistics.tasks, None
        if tasks is not None:
            if Psi is None:
                raise ValueError(
                    f"This {type(self).__name__} knows nothing of tasks and cannot predict for new ones: fit it with "
                    "tasks=, the features of the tasks."
                )
            task_table, task_rows = self._read_tasks(tasks, None, learnt.task_names, learnt.n_task_features)
            Psi = self._mapped_tasks(task_rows)
        check_same_library({"X": rows, "tasks": Psi, "the model": learnt.model.statistics.gram})
        coefficients = cast(learnt.model.coefficients, learnt.dtype)
        known = None if Psi is None else NewRows(cast(Psi, learnt.dtype), lambda part: part, 0)
        # A feature map may make many features of few.
        width = 0 if self.feature_map is None else coefficients.shape[0]
        new = NewRows(rows, lambda part: cast(self._mapped(part), learnt.dtype), width)
        values = Expansion(coefficients).grid(new, known)
        if learnt.is_vector and tasks is None:
            values = namespace(values).reshape(values, (-1,))
        ids = learnt.task_ids if task_table is None else task_table.row_ids
        return Table(values, table.row_ids, ids, table.kind or (task_table.kind if task_table else None))

    score = PairwiseRidge.score

    @property
    def coef_(self) -> Array:
        """The parameters W of shape (d, r), without features of the tasks (d, q) or (d,)."""
        check_is_fitted(self)
        coef = cast(self._learnt.model.coefficients, self._learnt.dtype)
        without_tasks = self._learnt.model.task_side is None
        return namespace(coef).reshape(coef, (-1,)) if self._learnt.is_vector and without_tasks else coef

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_params(self) -> None:
        check_alpha(self.alpha, "alpha")
        check_alpha(self.task_alpha, "task_alpha")
        check_choice(self.solver, "solver", SOLVERS)
        if isinstance(self.reservoir, bool) or not isinstance(self.reservoir, Integral) or self.reservoir < 0:
            raise ValueError(f"reservoir must be a whole number of at least 0, found {self.reservoir!r}.")

    def _fits(self) -> bool:
        maps = ("feature_map", "task_feature_map")
        return all((getattr(self, name) is not None) == hasattr(self, f"{name}_") for name in maps) and (
            self.feature_map is not None or self.statistics_.gram.shape[0] == self.n_features_in_
        )

    def _forgotten(self, before: Learnt, after: Learnt) -> None:
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

    def _current(self) -> Learnt:
        """Return what is known, under the regularisation that is set now."""
        check_is_fitted(self)
        self._check_params()
        return replace(self._learnt, model=self._learnt.model.with_alphas(self.alpha, self.task_alpha))

    def _new_reservoir(self, rows: Array, labels: Array) -> Reservoir | None:
        if not self.reservoir:
            return None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Reservoir(int(self.reservoir), seed).offered(rows, labels)


def _gathered(
    pending: Pending | None, chunks: list[tuple[Array, Array]], Psi: Array | None, per_task: bool
) -> Statistics:
    """Return the statistics of pending tasks with the labels in `chunks` added."""
    seen = [] if pending is None else [pending.statistics]
    gram = None if pending is None else pending.statistics.task_gram
    seen += [collect(Phi, labels, Psi, task_gram=gram, per_task=per_task) for Phi, labels in chunks]
    return reduce(merge, seen)
