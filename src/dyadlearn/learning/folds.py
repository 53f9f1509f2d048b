r"""The hold-out error of folds, and its gradient by one more solve.

With the training cells o of a fold, weights w and the kernel P between pairs, the model of the fold is

.. math:: (\mathbf{P}_{oo} + \lambda\,\mathrm{diag}(1/w))\,\mathbf{x} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{x} = 0, \qquad \mathbf{F} = P(\mathbf{x}) + \mu ,

without :math:`\mu` and its condition where there is no constant. Let :math:`\mathbf{D}` be the derivatives of the error
with respect to **F**. With the solution **u** of the same system for the right-hand side :math:`P(\mathbf{D})_o`, whose
entries sum to those of **D**, the derivative of the error along any change of the kernel and of λ is

.. math:: \langle\mathbf{D} - \mathbf{u},\, dP(\mathbf{x})\rangle - \langle\mathbf{u}, \mathbf{x}/w\rangle\,d\lambda .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.holes.conjugate_gradients import conjugate_gradients, inner
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.pair_operator import PairOperator
from dyadlearn.learning.parameters import Limits, Parameters

__all__ = ["FINE", "ROUGH", "ErrorOfLabels", "Fold", "FoldError", "Labels", "Tolerances"]


@dataclass(frozen=True)
class Tolerances:
    """Relative residuals at which solvers stop.

    Attributes
    ----------
    learning, adjoint : float
        For models on the way, and for their gradients.
    comparing : float
        For errors that are compared.
    """

    learning: float
    adjoint: float
    comparing: float


#: A rough direction is enough to learn. Ten times less took twice the iterations on Davis and on ion channels, and led
#: to the same errors in three digits.
ROUGH = Tolerances(1e-2, 1e-2, 1e-3)
#: Where a grid is so small that it costs nothing, and in double precision.
FINE = Tolerances(1e-10, 1e-10, 1e-10)

_MAX_ITER = 600
# Less noise than this costs iterations, in single precision, and gains nothing that was measured.
_LEAST_ALPHA = 4e-3


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels to learn from.

    Attributes
    ----------
    values : array of shape (m, q)
        Zero where not observed; on a scale on which they deviate by about one.
    observed : array of shape (m, q)
        One where they are, else zero.
    weights : array of shape (m, q) or None
        Positive where they are.
    constant : {"grand", "task"} or None
        What is not regularised: one number, or one for each task.
    """

    values: Array
    observed: Array
    weights: Array | None
    constant: str | None

    @property
    def sizes(self) -> tuple[float, float]:
        """How many instances and tasks have labels; an instance that weighs twice as much counts twice."""
        xp = namespace(self.values)
        labelled = xp.any(self.observed > 0, axis=1), xp.any(self.observed > 0, axis=0)
        tasks = float(xp.sum(xp.astype(labelled[1], self.values.dtype)))
        if self.weights is None:
            return float(xp.sum(xp.astype(labelled[0], self.values.dtype))), tasks
        counts = xp.sum(self.observed, axis=1)
        weights = xp.sum(self.observed * self.weights, axis=1) / xp.where(counts > 0, counts, xp.ones_like(counts))
        return float(xp.sum(weights)), tasks


@dataclass(frozen=True, eq=False)
class Fold:
    """Cells to learn from and cells to predict, with the kernels that may be used.

    Attributes
    ----------
    train, test : arrays of shape (m, q)
        One where a cell is, else zero; only observed cells are.
    mixture, tasks : Mixture, the latter or None
    """

    train: Array
    test: Array
    mixture: Mixture
    tasks: Mixture | None
    # Where the last two solves ended.
    ends: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _System:
    """The linear system of a fold."""

    operator: PairOperator
    labels: Labels
    cells: Array

    def apply(self, X: Array) -> Array:
        found = self.operator(X)
        found *= self.cells
        found += self._ridge(X)
        return self.centred(found)

    def _ridge(self, X: Array) -> Array:
        ridge = self.operator.parameters.lam * X
        return ridge if self.labels.weights is None else self.over_weights(ridge)

    def over_weights(self, X: Array) -> Array:
        weights = self.labels.weights
        if weights is None:
            return X
        xp = namespace(X)
        return X / xp.where(weights > 0, weights, xp.ones_like(weights))

    def _means(self, X: Array) -> Any:
        """Return sums, of all values or of each column, over the number of cells that are learnt from."""
        xp = namespace(X)
        if self.labels.constant == "grand":
            return xp.sum(X) / xp.sum(self.cells)
        counts = xp.sum(self.cells, axis=0)
        return xp.sum(X, axis=0) / xp.where(counts > 0, counts, xp.ones_like(counts))

    def centred(self, X: Array) -> Array:
        return X if self.labels.constant is None else X - self._means(X) * self.cells

    def solve(self, right: Array, start: Array | None, tol: float) -> Array:
        return conjugate_gradients(self.apply, right, start=start, tol=tol, max_iter=_MAX_ITER).values

    def model(self, start: Array | None, tol: float) -> tuple[Array, Array]:
        """Return dual parameters and predictions, all (m, q)."""
        y = self.labels.values * self.cells
        X = self.solve(self.centred(y), None if start is None else self.centred(start * self.cells), tol)
        found = self.operator(X)
        if self.labels.constant is None:
            return X, found
        return X, found + self._means(y - (found * self.cells + self._ridge(X)))

    def adjoint(self, slope: Array, start: Array | None, tol: float) -> Array:
        """Return the solution for the derivatives of an error with respect to all predictions."""
        right = self.operator(slope) * self.cells
        if self.labels.constant is None:
            return self.solve(right, start, tol)
        # A part whose sum is that of the slope, and the rest, which sums to zero.
        beside = self._means(slope) * self.cells
        right = self.centred(right - (self.operator(beside) * self.cells + self._ridge(beside)))
        return beside + self.solve(right, None if start is None else start, tol)


@dataclass(frozen=True, eq=False)
class ErrorOfLabels:
    """What errors of some labels have in common.

    Parameters
    ----------
    labels : Labels
    """

    labels: Labels

    @property
    def shape(self) -> tuple[int, int]:
        """How many instances and tasks there are."""
        m, q = self.labels.values.shape
        return int(m), int(q)

    @property
    def sizes(self) -> tuple[float, float]:
        """How many instances and tasks have a say; one that weighs twice as much counts twice."""
        return self.labels.sizes


@dataclass(frozen=True, eq=False)
class FoldError(ErrorOfLabels):
    """The mean squared error of folds that are left out, as something to descend on.

    Parameters
    ----------
    labels : Labels
    folds : sequence of Fold
    whole : Fold
        All labels of training, with kernels of theirs.
    tolerances : Tolerances
    """

    folds: Sequence[Fold]
    whole: Fold
    tolerances: Tolerances = ROUGH

    @property
    def n_parts(self) -> int:
        """Of how many parts the error is the mean."""
        return len(self.folds)

    @property
    def limits(self) -> Limits:
        """What parameters may be."""
        return Limits.of(self.folds[0].mixture, self.folds[0].tasks, _LEAST_ALPHA)

    def _loss(self, fold: Fold, predicted: Array) -> tuple[float, float, Array]:
        """Return the sum of squares, the sum of weights and the weighted errors (m, q)."""
        weights = fold.test if self.labels.weights is None else fold.test * self.labels.weights
        error = weights * (predicted - self.labels.values)
        return inner(error, predicted - self.labels.values), float(namespace(error).sum(weights)), error

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return the error of one fold and its derivatives."""
        fold = self.folds[part]
        operator = PairOperator.at(fold.mixture, fold.tasks, parameters)
        system = _System(operator, self.labels, fold.train)
        X, predicted = system.model(fold.ends.get("model"), self.tolerances.learning)
        squares, count, error = self._loss(fold, predicted)
        D = error * (2.0 / count)
        U = system.adjoint(D, fold.ends.get("adjoint"), self.tolerances.adjoint)
        fold.ends.update(model=X, adjoint=system.centred(U))
        slopes = operator.slopes(D - U, X, -inner(U, system.over_weights(X)))
        return squares / count, operator.gradient(slopes)

    def loss(self, parameters: Parameters, part: int) -> float:
        """Return the error of one fold."""
        fold = self.folds[part]
        squares, count, _ = self._loss(fold, self.completed(parameters, fold, self.tolerances.learning))
        return squares / count

    def completed(self, parameters: Parameters, fold: Fold, tol: float | None = None) -> Array:
        """Return what the model of a fold predicts, for all cells."""
        tol = self.tolerances.comparing if tol is None else tol
        operator = PairOperator.at(fold.mixture, fold.tasks, parameters)
        X, predicted = _System(operator, self.labels, fold.train).model(fold.ends.get("model"), tol)
        fold.ends["model"] = X
        return predicted

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error over all folds, and the predictions (m, q) of each."""
        found = [self.completed(parameters, fold) for fold in self.folds]
        sums = [self._loss(fold, predicted)[:2] for fold, predicted in zip(self.folds, found, strict=True)]
        return sum(squares for squares, _ in sums) / sum(count for _, count in sums), found

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters with powers that are kernels, in all folds and in the whole."""
        whole = (self.whole.mixture, self.whole.tasks)
        parameters = parameters.accepted(whole)
        for fold in self.folds:
            # All but their profiles are the same.
            parameters = parameters.accepted((fold.mixture, fold.tasks), whole)
        return parameters
