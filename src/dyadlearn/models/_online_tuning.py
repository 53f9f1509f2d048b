"""Hold-out predictions of an online model, and the choice of its regularisation by them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array
from dyadlearn._checks import check_alphas
from dyadlearn._tables import Table
from dyadlearn.holdout.online import online_holdout, online_squared_errors
from dyadlearn.metrics.choice import best_point
from dyadlearn.metrics.undefined import warn_of_undefined, where_defined
from dyadlearn.models._inputs import cast
from dyadlearn.models._online_inputs import OnlineInputs, all_or_nothing
from dyadlearn.models._online_state import Learnt
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solvers.online import OnlineRidge
from dyadlearn.solvers.statistics import collect

__all__ = ["OnlineTuning"]


class OnlineTuning(OnlineInputs, stored=False):
    """What an online model can tell of rows it has learnt and is shown again."""

    alpha: float
    task_alpha: float
    _learnt: Learnt

    @abstractmethod
    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation."""

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
        Phi, grid = self._learnt_rows(X, y)
        held_out = online_holdout(self._telling_apart(wanted, Phi, grid.values), Phi, grid.values, wanted)
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
        Phi, grid = self._learnt_rows(X, y)
        model = self._telling_apart(wanted, Phi, grid.values)
        has_two = model.task_side is not None
        scores = where_defined(
            lambda values, task_values: -online_squared_errors(model, Phi, grid.values, values, task_values, wanted),
            rows,
            columns if has_two else columns[:1],
        )
        warn_of_undefined(scores, rows, columns if has_two else None, wanted.value, 2)
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
        best = best_point(scores, rows, columns if scores.ndim == 2 else None)
        with all_or_nothing(self):
            self.set_alpha(rows[best[0]], columns[best[1]] if scores.ndim == 2 else None)
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
        if wanted.new_task and self._learnt.model.task_side is None:
            raise ValueError(
                f"Setting {wanted.value} is about new tasks, and a model without features of the tasks cannot speak of "
                "them: fit with tasks=, or ask for A or B."
            )
        return wanted

    def _learnt_rows(self, X: Any, y: Any) -> tuple[Array, Table]:
        """Return features (l, d) and labels of rows that were learnt: those given, or the reservoir."""
        if X is None and y is None:
            sample = self._learnt.reservoir
            if sample is None or sample.rows is None:
                raise ValueError("There is no sample of learnt rows: give X and y, or ask for one with reservoir=1000.")
            return self._mapped(sample.rows), Table(sample.labels)
        _, grid, Phi = self._known_rows(X, y)
        return Phi, grid

    def _telling_apart(self, setting: Setting, Phi: Array, labels: Array) -> OnlineRidge:
        """Return the model; for new tasks, if its statistics do not tell the tasks apart, that of the rows alone."""
        model = self._learnt.model
        known = model.statistics
        if not setting.new_task or known.per_task or model.task_side is None:
            return model
        alone = collect(Phi, labels, known.tasks, task_gram=known.task_gram, per_task=True)
        return OnlineRidge.start(alone, model.side.alpha, model.task_side.alpha)
