"""Base classes of all models: predicting, scoring, another regularisation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, cast, namespace, to_numpy
from dyadlearn._checks import check_alpha, check_instances, check_labels
from dyadlearn._codes import id_columns
from dyadlearn._state import StoredEstimator
from dyadlearn._tables import Ids, Table, in_order
from dyadlearn.labels import read_labels
from dyadlearn.metrics.errors import R2
from dyadlearn.models._inputs import in_range, listed_determination, positions, read_given_labels
from dyadlearn.models._side import KernelSpec
from dyadlearn.pairing.expansion import Expansion, NewRows

#: Where a model that was fitted without tasks could have had them from.
WITH_TASKS = "fit it with tasks=, the features or kernel of the training tasks."


class Predictor(StoredEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Base class of all models of a grid: predictions, and their score.

    A subclass reads rows to predict for (`_instance_rows`, `_task_rows`), returns what it multiplies them by
    (`_expansion`) and keeps what its rows and columns are called (`_form`).
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

    @property
    def _ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks that were learnt, as far as the model keeps them."""
        return self._form.row_ids, self._form.column_ids

    @property
    def _is_vector(self) -> bool:
        """Whether the labels came with one dimension."""
        return self._form.is_vector

    @abstractmethod
    def _expansion(self) -> Expansion:
        """Return the coefficients with how rows of each side multiply them."""

    @abstractmethod
    def _instance_rows(self, X: Any) -> tuple[Table, NewRows | None]:
        """Read the instances to predict for; None stands for those that were learnt, with a table of their ids."""

    @abstractmethod
    def _task_rows(self, tasks: Any) -> tuple[Table | None, NewRows | None]:
        """Read the tasks to predict for; None stands for those that were learnt."""

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
        column_ids = self._ids[1] if task_table is None else task_table.row_ids
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
        ids, name = (self._ids[1], "the training tasks") if task_table is None else (task_table.row_ids, "tasks")
        places = (
            positions(first, instances.row_ids, n_rows, "the training instances" if rows is None else "X"),
            positions(second, ids, n_tasks, name),
        )
        return self._home(model.at(rows, task_rows, places))

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
        labels = read_given_labels(y)[0]
        if labels.grid is None:
            if sample_weight is not None:
                raise ValueError("score takes sample_weight only where every label is observed: leave it out.")
            at = np.stack(labels.places, axis=1)
            return listed_determination(labels, to_numpy(self.predict_pairs(X, tasks, at)))
        return determination(self._predicted(X, tasks), y, sample_weight)

    def _in_form(self, values: Array) -> Array:
        """Return an array with one column for each task as one-dimensional labels came, where they did."""
        return namespace(values).reshape(values, (-1,)) if self._is_vector else values

    def _home(self, values: Array) -> Array:
        """Return results in the precision of the data, and as arrays of numpy if they were computed on a device."""
        values = cast(values, getattr(namespace(values), self._precision))
        return values if self.device is None else to_numpy(values)

    def _validated_instances(self, table: Table, spec: KernelSpec, *, reset: bool) -> Array:
        """Check X as scikit-learn does, in whatever library it came."""
        is_kernel = spec.is_precomputed
        allow_nan = self.allows_nan and not is_kernel
        return check_instances(self, table, is_kernel=is_kernel, reset=reset, allow_nan=allow_nan)

    def _refuse_tasks(self) -> NoReturn:
        name = type(self).__name__
        raise ValueError(f"This {name} knows nothing of tasks and cannot predict for new ones: {self._tasks_remedy}")


def determination(predicted: Table, y: Any, sample_weight: Any = None) -> float:
    """Return the coefficient of determination R² of predictions, averaged over tasks.

    Parameters
    ----------
    predicted : Table of shape (a, b) or (a,)
        With the ids that instances and tasks have.
    y, sample_weight : as in `PairModel.score`
    """
    truth = read_labels(y)
    check_labels(truth.values)
    values, F = to_numpy(truth.values), to_numpy(predicted.values)
    F = F.reshape(len(F), -1)
    if values.shape != F.shape:
        raise ValueError(
            f"Y has shape {values.shape}, but the predictions for X and tasks have shape {F.shape}. If "
            "scikit-learn cut the tasks, hand them in a Tasks holder."
        )
    truth = replace(truth, values=values).rows_as(predicted.row_ids, "the rows of Y", "X")
    values = truth.columns_as(predicted.column_ids, "the columns of Y", "the tasks").values
    sample_weight = in_order(sample_weight, predicted.row_ids, None, "sample_weight", "X")
    # A task that had no label to take its constant from says nothing, as was told when it was fitted.
    values = np.where(np.isnan(F).all(axis=0), np.nan, values)
    values, F = in_range(values, F)
    observed = ~np.isnan(values)
    if observed.all():
        return float(r2_score(values, F, sample_weight=sample_weight))
    if sample_weight is not None:
        raise ValueError("score takes sample_weight only where every label is observed: leave it out.")
    return float(R2(values, average="task")(F))


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

    def _check_alphas(self) -> None:
        for name, value in self._alphas.items():
            self._checked_alpha(value, name)

    def _checked_alpha(self, value: Any, name: str) -> Any:
        """Return a regularisation as a number."""
        return check_alpha(value, name)
