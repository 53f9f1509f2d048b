"""What a fitted model has learned from, as everything outside the models reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dyadlearn._array import Array
from dyadlearn._tables import Ids, Table
from dyadlearn.holdout import Problem, Units, leave_out
from dyadlearn.labels import Labels
from dyadlearn.models._side import Side
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting


@dataclass(frozen=True, eq=False)
class Fitted:
    """The labels, the decomposed sides and the model of pairs of a fitted estimator; its attribute `fitted_`.

    Attributes
    ----------
    problem : Problem
        The model of pairs with its labels, as they were fitted.
    closed : Problem
        The same model with completed labels, to which closed forms apply.
    sides : tuple of Side
        The decomposed instances and, where the model has them, tasks.
    coefficients : array
        As the model of pairs has them.
    form : Table
        Without values: the ids of instances and tasks as the user knows them, and the form that the labels came in.
    estimator : PairwiseRidge
        The fitted model of a grid; of a `PairRegressor` the one that it wraps.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(6, 2)), rng.normal(size=(4, 3)), rng.normal(size=(6, 4))
    >>> fitted = TwoStepRidge().fit(X, Y, tasks=T).fitted_
    >>> fitted.labels, fitted.leave_out("B").shape, fitted.predict().shape
    (Labels(24 of 6 × 4), (6, 4), (6, 4))
    """

    problem: Problem
    closed: Problem
    sides: tuple[Side, ...]
    coefficients: Array
    form: Table
    estimator: Any

    @property
    def pairing(self) -> Pairing:
        """The model of pairs."""
        return self.problem.pairing

    @property
    def labels(self) -> Labels:
        """The labels that the model was fitted on."""
        return self.problem.labels

    @property
    def instance_ids(self) -> Ids | None:
        """The ids of the instances as the user knows them."""
        return self.form.row_ids

    @property
    def task_ids(self) -> Ids | None:
        """The ids of the tasks as the user knows them; those of the nodes of a network."""
        return self.form.column_ids or (self.form.row_ids if self.is_network else None)

    @property
    def completed(self) -> Array:
        """The labels (m, q) of a grid, the model's own predictions where they are missing."""
        return self.closed.Y

    @property
    def is_network(self) -> bool:
        """Whether both sides are the same nodes, so that a pair stands in the grid twice."""
        return self.pairing.symmetry != 0

    @cached_property
    def expansion(self) -> Expansion:
        """The coefficients with how rows of each side multiply them."""
        return self.closed.pairing.expansion(self.coefficients)

    def predict(self, rows: NewRows | None = None, columns: NewRows | None = None) -> Array:
        """Return predictions (a, b) for rows of each side; None stands for those of training."""
        return self.expansion.grid(rows, columns)

    def refitter(self, setting: Setting) -> Callable[[Labels], Any]:
        """Return a function that repeats a search, or learns kernels again, on other labels of the same rows.

        Parameters
        ----------
        setting : Setting
            What the estimator that the function returns will be asked for.
        """
        refitter: Callable[[Labels], Any] = self.estimator._refitter(setting)
        return refitter

    def leave_out(self, setting: str | Setting, units: Units | None = None) -> Array:
        """Return the prediction of each label by a model without its unit; None leaves out one at a time.

        The kernels are those of the fit. A model that learned them from the labels has `holdout` for more.
        """
        setting, units = as_setting(setting), Units() if units is None else units
        self.pairing.check_request(setting, units.instances, units.tasks, units.cells)
        self.pairing.check_leaving()
        return leave_out(self.problem, setting, units)
