"""Learning in stages: labels completed by one stage describe instances and tasks in the next stage.

Each stage minimises the logarithm of the hold-out error plus a penalty by Adam, starting from all kernels together and
from single kernels, and keeps the best result. Held-out predictions repeat all stages with the training labels of each
fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.learning.error import ExactError, Fold, FoldError, Targets, profiled_fold
from dyadlearn.learning.mixture import Parameters, Sides, Single

# Adam: first step size, ratio of last to first step size, and decay of the moments.
_STEP, _LAST, _FADING = 0.1, 0.1, (0.9, 0.999)
# Maximum norm of a gradient; longer gradients are clipped.
_LONGEST = 1.0
# Relative residual of folds that are solved once per stage, smaller than during learning.
_TOL = 1e-5


#: Differentiable hold-out error, a mean of parts.
HoldoutError = FoldError | ExactError


@dataclass(frozen=True)
class Descent:
    """Settings of the gradient descent.

    Attributes
    ----------
    n_steps : int
    shrinkage : float
        Strength of the penalty on the squared distance of weights and exponents from their start values; it is divided
        by the number of members of the side.
    """

    n_steps: int
    shrinkage: float

    def penalties(self, parameters: Parameters, sizes: tuple[float, float]) -> np.ndarray:
        """Return the penalty factor of each parameter; it decreases with the number of members of its side."""
        counts = [sum(map(len, side)) for side in zip(parameters.weights, parameters.exponents, strict=True)]
        held = [self.shrinkage / size for size in sizes[: len(counts)]]
        return np.repeat([*held, 0.0], [*counts, len(parameters.shares) + len(parameters.alpha)])


class Descended(NamedTuple):
    """Result of a gradient descent.

    Attributes
    ----------
    parameters : Parameters
    losses : list of float
        Error of one part of the error at each step.
    interrupted : bool
        Whether a keyboard interrupt stopped the learning.
    """

    parameters: Parameters
    losses: list[float]
    interrupted: bool


def descend(
    error: HoldoutError,
    start: Parameters,
    how: Descent,
    watch: Callable[[float], None] = lambda loss: None,
    held: np.ndarray | None = None,
) -> Descended:
    """Minimise the error by gradient descent, and return the parameters and the errors of all steps.

    Each step uses one part of the error in turn. The objective is the logarithm of the error plus the penalty, so it
    does not depend on the units of the labels. A step without a finite error or gradient is skipped. If the error has
    one part, the parameters of its least value are returned. A keyboard interrupt returns the current parameters.

    Parameters
    ----------
    error : HoldoutError
    start : Parameters
    how : Descent
    watch : callable
        Callback that is called with the error of each step.
    held : array of bool, optional
        Mask of the parameters that are not changed.
    """
    losses: list[float] = []
    limits = error.limits
    origin, penalties = np.clip(start.vector, *limits), how.penalties(start, error.labels.sizes)
    vector, first, second, taken = origin.copy(), np.zeros_like(origin), np.zeros_like(origin), 0
    best, least, interrupted = origin, math.inf, False

    def value(loss: float) -> float:
        return math.log(loss) + float(penalties @ (vector - origin) ** 2)

    try:
        for step in range(how.n_steps):
            loss, slope = error.slope(start.of(vector), step % error.n_parts)
            losses.append(loss)
            watch(loss)
            if not (math.isfinite(loss) and loss > 0 and np.isfinite(slope).all()):
                continue
            if error.n_parts == 1 and value(loss) < least:
                best, least = vector, value(loss)
            slope = slope / loss + 2.0 * penalties * (vector - origin)
            if held is not None:
                slope = np.where(held, 0.0, slope)
            slope *= min(1.0, _LONGEST / max(float(np.linalg.norm(slope)), 1e-300))
            taken += 1
            first = _FADING[0] * first + (1 - _FADING[0]) * slope
            second = _FADING[1] * second + (1 - _FADING[1]) * slope**2
            mean, square = first / (1 - _FADING[0] ** taken), second / (1 - _FADING[1] ** taken)
            rate = _STEP * (_LAST + (1 - _LAST) * 0.5 * (1 + math.cos(math.pi * step / how.n_steps)))
            vector = np.clip(vector - rate * mean / (np.sqrt(square) + 1e-8), *limits)
        if error.n_parts == 1:
            loss = error.loss(start.of(vector), 0)
            vector = vector if 0 < loss < math.inf and value(loss) < least else best
    except KeyboardInterrupt:
        vector, interrupted = best if error.n_parts == 1 else vector, True
    return Descended(start.of(vector), losses, interrupted)


# Maximum number of multiplications, per product of a grid with both kernels, for gradient descents from several starts
# and from single kernels. On larger grids single kernels are compared without descent, on one part of the error.
_SMALL = 1e7
# Share of all steps after which single kernels are compared.
_SHORT = 1 / 6


@dataclass(frozen=True, eq=False)
class Stage:
    """Learned parameters of one stage, with their error.

    Attributes
    ----------
    parameters : Parameters
    error : float
        Mean squared error of held-out cells, in the units of `Targets`.
    losses : list of float
        Error of one part at each step of the descent that found the parameters.
    predicted : list of arrays of shape (m, q)
        Predictions of each part of the error.
    profiles : list of lists of arrays of shape (m, m) and (q, q)
        Profile kernels of each side, from all training labels.
    """

    parameters: Parameters
    error: float
    losses: list[float]
    predicted: list[Array]
    profiles: Sequence[Sequence[Array]] = ((), ())


def expected_steps(shape: tuple[int, int], n_kernels: tuple[int, int], n_steps: int, n_stages: int) -> int:
    """Return the approximate maximum number of gradient steps of all stages."""
    n_rows, n_columns = (count if count > 1 else 0 for count in n_kernels)
    has_both = min(n_rows, n_columns) > 0
    descents = 1.0 + (2 if _is_small(shape) else 1) * (n_stages - 1)
    if n_rows or n_columns:  # a descent with all kernels from the best single ones
        descents += 1
        if _is_small(shape):
            descents += _SHORT * ((2 if has_both else 1) * n_rows + n_columns) + (3 if has_both else 1)
    return round(descents * n_steps)


def _is_small(shape: tuple[int, int]) -> bool:
    m, q = shape
    return m * q * (m + q) <= _SMALL


@dataclass(eq=False)
class _Search:
    """Search for the best parameters of a stage, from several starts and from single kernels.

    Attributes
    ----------
    error : HoldoutError
    n_kernels : (int, int)
        Number of kernels of each side without the constant, of which single ones are tried; 0 or 1 for none.
    how : Descent
    watch : callable
        Callback that is called with the error of each step.
    best : Stage or None
        Best result so far.
    """

    error: HoldoutError
    n_kernels: tuple[int, int]
    how: Descent
    watch: Callable[[float], None]
    best: Stage | None = None

    def run(self, starts: Sequence[Parameters]) -> tuple[Stage, bool]:
        """Return the best stage, and whether learning was interrupted; large grids use the first start only."""
        self.reached, is_small, interrupted = starts[0], _is_small(self.error.labels.values.shape), False
        try:
            for start in starts if is_small else starts[:1]:
                self.descend(start)
            if max(self.n_kernels) > 1 and self.best is not None:
                (self._descend_with_singles if is_small else self._compare_singles)(starts[0], self.best)
        except KeyboardInterrupt:
            interrupted = True
        return self.best or self.keep(self.reached, []), interrupted

    def descend(self, start: Parameters, single: Single = (None, None), share: float = 1.0) -> Stage:
        """Run a gradient descent for a share of all steps; kernels other than the given single ones are held fixed."""
        held = None
        if single != (None, None):
            start, held = start.singled(single), start.beside(single)
        how = replace(self.how, n_steps=max(round(share * self.how.n_steps), 1))
        self.reached, losses, interrupted = descend(self.error, start, how, self.watch, held)
        stage = self.keep(self.reached, losses)
        if interrupted:
            raise KeyboardInterrupt
        return stage

    def keep(self, parameters: Parameters, losses: list[float]) -> Stage:
        """Evaluate parameters, and store them if they are the best so far."""
        parameters = self.error.accepted(parameters)
        error, predicted = self.error.evaluate(parameters)
        stage = Stage(parameters, error, losses, predicted)
        if self.best is None or error < self.best.error:
            self.best = stage
        return stage

    def _descend_with_singles(self, start: Parameters, mixed: Stage) -> None:
        """Descend with the best single kernels of short descents and, if the error fell, again with all kernels."""
        single = self._best_single(lambda each: self.descend(mixed.parameters, each, _SHORT).error)
        before = self.best
        self.descend(start, single)
        if None not in single:
            self.descend(start, (single[0], None))
            self.descend(start, (None, single[1]))
        if self.best is not before and self.best is not None:
            self.descend(self.best.parameters.opened())

    def _compare_singles(self, start: Parameters, mixed: Stage) -> None:
        """Descend from single kernels if they are better than all kernels together."""
        learned = mixed.parameters
        single = learned.singled(self._best_single(lambda each: self.error.loss(learned.singled(each), 0)))
        if self.keep(single, mixed.losses) is self.best:
            self.descend(single.opened())

    def _best_single(self, error: Callable[[Single], float]) -> Single:
        """Return the best kernel of each side, chosen one side after the other; None for a side with one kernel."""
        n_rows, n_columns = self.n_kernels
        member, task_member = None, None
        if n_rows > 1:
            member = _least(error((i, None)) for i in range(n_rows))
        if n_columns > 1:
            task_member = _least(error((member, j)) for j in range(n_columns))
        if member is not None and task_member is not None:
            member = _least(error((i, task_member)) for i in range(n_rows))
        return member, task_member


def _least(errors: Iterable[float]) -> int:
    values = np.array(list(errors))
    return int(np.argmin(np.where(np.isfinite(values), values, np.inf)))


# Callback that is called with the stage and the error of each step.
Watch = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Learned:
    """All stages, with the position of the best one.

    Attributes
    ----------
    stages : list of Stage
    best : int
    held_out : array of shape (m, q)
        Held-out predictions of the best stage; NaN for cells in no fold.
    interrupted : bool
        Whether a keyboard interrupt stopped the learning.
    """

    stages: list[Stage]
    best: int
    held_out: Array
    interrupted: bool


def learn(
    error: HoldoutError,
    how: Descent,
    n_stages: int = 1,
    profiled: tuple[bool, bool] = (False, False),
    watch: Watch = lambda stage, loss: None,
) -> Learned:
    """Learn kernels stage by stage, as long as the hold-out error falls.

    Parameters
    ----------
    error : HoldoutError
        Error with the original descriptions; an exact leave-one-out error allows one stage only.
    how : Descent
    n_stages : int
        Maximum number of stages.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.
    watch : callable
        Callback that is called with the stage and the error of each step.
    """
    given = error.sides
    # Single kernels are tried in the first stage only: later stages must be better than it.
    search = _Search(error, n_kernels(given), how, partial(watch, 0))
    stage, interrupted = search.run([Parameters.start(given)])
    stages, best, held_out = [stage], 0, error.assembled(stage.predicted)
    try:
        while isinstance(error, FoldError) and not interrupted and best == len(stages) - 1 < n_stages - 1:
            completed = [*stage.predicted, error.completed(stage.parameters, error.whole)]
            error = error.with_profiles(completed, given, profiled)
            start, number = Parameters.start(error.sides), len(stages)
            search = _Search(error, (0, 0), how, partial(watch, number))
            stage, interrupted = search.run([start, stage.parameters.joined(start)])
            profiles = [side.grams[len(first.grams) :] for side, first in zip(error.sides, given, strict=True)]
            stages.append(replace(stage, profiles=profiles))
            if stage.error < stages[best].error:
                best, held_out = number, error.assembled(stage.predicted)
    except KeyboardInterrupt:
        interrupted = True
    return Learned(stages, best, held_out, interrupted)


def n_kernels(sides: Sides) -> tuple[int, int]:
    """Return the number of kernels of each side without the constant; 0 without a task side."""
    rows, columns, *_ = [*(len(side.grams) for side in sides), 0]
    return rows, columns


def held_out_again(
    labels: Targets,
    sides: Sides,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
    path: Sequence[Sequence[float]],
    profiled: tuple[bool, bool],
) -> Array:
    """Return held-out predictions of learned stages, with profiles computed from the training labels of each fold.

    Parameters
    ----------
    labels : Targets
    sides : sequence of Mixture
        Kernels of the original descriptions, without profiles.
    folds : iterable of (train, test)
        Masks (m, q) of cells to learn from, where observed, and to predict.
    path : sequence of vectors
        Parameters of each stage, as returned by `Parameters.vector`.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.

    Returns
    -------
    array of shape (m, q)
        Held-out predictions; NaN for cells in no fold.

    Raises
    ------
    ValueError
        If no training label remains without a fold.
    """
    Y, xp = labels.values, namespace(labels.values)
    held_out = xp.full_like(Y, float("nan"))
    for train, test in folds:
        cells = as_array_of(train, Y, Y.dtype) * labels.observed
        if not float(xp.sum(cells)) > 0:
            raise ValueError("A fold leaves no label to learn from: use more folds, or other groups.")
        fold, completed = Fold(cells, cells, sides), None
        for vector in path:
            if completed is not None:
                fold = profiled_fold(fold, completed, sides, profiled)
            parameters = Parameters.start(fold.sides).of(np.asarray(vector))
            completed = FoldError(labels, [fold], fold).completed(parameters, fold, _TOL)
        held_out = xp.where(as_array_of(test, Y), completed, held_out)
    return held_out
