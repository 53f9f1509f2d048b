"""Learning in stages: labels completed by one stage describe instances and tasks in the next stage.

Each stage minimises the logarithm of the hold-out error plus a penalty by a quasi-Newton method
(L-BFGS-B), starting from all kernels together with equal weights. Held-out predictions repeat all
stages with the training labels of each fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn._interrupts import current
from dyadlearn.learning.error import ExactError, FoldError, Targets, profiled_sides
from dyadlearn.learning.mixture import Parameters, Sides

# Relative decrease of the error in one iteration, or in the last evaluations, below which the
# descent stops. Errors of equal parameters differ by rounding, because the systems are solved
# roughly.
_LEAST_DECREASE = 1e-5
_ROUNDING = 1e-3
_LAST = 4
# Minimum of the largest change of a parameter in the first step.
_FIRST_STEP = 0.3
# Number of evaluations after which a stage on a large grid ends unless it has a smaller error than
# the stage before.
_TRIAL = 5
# Maximum change of a parameter, except λ, from its start.
_FARTHEST = 3.0
# Relative residual of folds that are solved once per stage, smaller than during learning.
_TOL = 1e-5
# Maximum number of multiplications, per product of a grid with both kernels, for several starts and
# for gradients of all folds.
_SMALL = 1e6
#: On larger grids the gradient is that of the first folds, with at least so many labels to predict.
ENOUGH = 4000

#: Differentiable hold-out error.
HoldoutError = FoldError | ExactError


@dataclass(frozen=True)
class Descent:
    """Settings of the descent.

    Attributes
    ----------
    n_steps : int
        Maximum number of evaluations of the error and its gradient.
    shrinkage : float
        Strength of the penalty on the squared distance of weights and exponents from their start
        values.
    constant : float or None
        Start value of the weight of a constant relative to the sum of the weights of the kernels of
        its side; None means equal weights.
    few : float
        Weight of the inverse number of labels in the penalty: errors of few labels are estimated
        badly.
    """

    n_steps: int
    shrinkage: float
    constant: float | None = None
    few: float = 30.0

    def penalties(self, parameters: Parameters, sizes: tuple[float, float, float]) -> np.ndarray:
        """Return the penalty factor of each parameter.

        It decreases with the number of members of its side and with the number of labels.
        """
        counts = [
            sum(map(len, side))
            for side in zip(parameters.weights, parameters.exponents, strict=True)
        ]
        by_labels = self.few / sizes[2]
        held = [self.shrinkage * (1.0 / size + by_labels) for size in sizes[: len(counts)]]
        return np.repeat([*held, 0.0], [*counts, len(parameters.shares) + len(parameters.alpha)])


class Descended(NamedTuple):
    """Result of a descent.

    Attributes
    ----------
    parameters : Parameters
    loss : float
        Error of these parameters.
    losses : list of float
        Error at each evaluation.
    interrupted : bool
        Whether a keyboard interrupt stopped the learning.
    """

    parameters: Parameters
    loss: float
    losses: list[float]
    interrupted: bool


def descend(
    error: HoldoutError,
    start: Parameters,
    how: Descent,
    watch: Callable[[float], None] = lambda loss: None,
    least_before: float = math.inf,
) -> Descended:
    """Minimise the error, and return the best parameters and the errors of all evaluations.

    The objective is the logarithm of the error plus the penalty, so it does not depend on the units
    of the labels. Where the best result is kept (`keeping_best`), an interrupt returns the best
    parameters so far.

    Parameters
    ----------
    error : HoldoutError
    start : Parameters
    how : Descent
    watch : callable
        Callback that is called with the error of each evaluation.
    least_before : float
        Error of the stage before; the descent ends if it is not below it after some evaluations.
    """
    objective = _Objective(error, start, how, watch, least_before)
    interrupted = False
    try:
        minimize(
            objective,
            np.zeros_like(objective.origin),
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds(),
            options={"ftol": _LEAST_DECREASE},
        )
    except StopIteration:
        pass
    except KeyboardInterrupt as stop:
        current().heed(stop)
        interrupted = True
    best = start.of(objective.best)
    return Descended(best, objective.best_loss, objective.losses, interrupted)


class _Objective:
    """Logarithm of the error plus the penalty, and its gradient, as a function of scaled steps from the start.

    It raises StopIteration where the descent ends; `best` are the parameters of its smallest value.
    Parameters are those of `descend`.
    """

    def __init__(
        self,
        error: HoldoutError,
        start: Parameters,
        how: Descent,
        watch: Callable[[float], None],
        least_before: float,
    ) -> None:
        self.error = error
        self.start = start
        self.n_steps = how.n_steps
        self.watch = watch
        self.least_before = least_before
        self.penalties = how.penalties(start, error.labels.sizes)
        self.origin = np.clip(start.vector, *error.limits)
        # A strong penalty makes the steps of its parameters short; those of the others stay as long
        # as they are.
        self.scale = 1.0 / np.sqrt(1.0 + self.penalties)
        self.best = self.origin
        self.best_loss = math.inf
        self.losses: list[float] = []
        self._values: list[float] = []
        self._least = math.inf
        self._unit = 1.0
        self._worth = _worthwhile(error, start)

    def bounds(self) -> Bounds:
        """Return the bounds of the steps."""
        low, high = self.error.limits
        farthest = np.append(np.full(len(self.origin) - 1, _FARTHEST), np.inf)
        return Bounds(
            np.maximum(low - self.origin, -farthest) / self.scale,
            np.minimum(high - self.origin, farthest) / self.scale,
        )

    def __call__(self, steps: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient, both in a unit that the first gradient determines."""
        if self._is_over():
            raise StopIteration
        vector = self.origin + self.scale * steps
        loss, slope = self.error.slope(self.start.of(vector))
        is_first = not self.losses
        self.losses.append(loss)
        self.watch(loss)
        if loss == 0:
            self.best = vector
            self.best_loss = loss
            raise StopIteration
        is_valid = math.isfinite(loss) and loss > 0 and np.isfinite(slope).all()
        distance = vector - self.origin
        value = math.inf
        if is_valid:
            value = math.log(loss) + float(self.penalties @ distance**2)
        if value < self._least:
            self.best = vector
            self.best_loss = loss
            self._least = value
        self._values.append(value)
        if not is_valid:
            # The line search takes a shorter step.
            return self._unit * (max(self._least, 0.0) + 10.0), np.zeros_like(vector)
        gradient = self.scale * (slope / loss + 2.0 * self.penalties * distance)
        if is_first:
            self._unit = self._unit_of(gradient)
        return self._unit * value, self._unit * gradient

    def _is_over(self) -> bool:
        """Return whether the descent ends: at the maximum number of steps, or because it gains too little."""
        n = len(self.losses)
        if n >= self.n_steps:
            return True
        if n == _TRIAL and self.best_loss > self.least_before:
            return True
        if n <= _LAST:
            return False
        # A failed step of the line search is no reason to stop, values that differ by rounding are.
        differ_by_rounding = max(self._values[-_LAST:]) - self._least < _ROUNDING
        return differ_by_rounding and min(self._values[:-_LAST]) - self._least < self._worth

    def _unit_of(self, gradient: np.ndarray) -> float:
        """Return the unit of the objective.

        The first step is as long as the gradient, and a short one would look like the end of the
        descent.
        """
        longest = float(np.max(np.abs(self.scale * gradient)))
        if longest > 0:
            return max(1.0, _FIRST_STEP / longest)
        return 1.0


def _worthwhile(error: HoldoutError, parameters: Parameters) -> float:
    """Return the decrease of the logarithm of the error in the last evaluations below which a descent ends.

    On sparse grids, whose evaluations take long, it is p / n for p parameters and n labels: about
    the decrease that p parameters without any use give by chance.
    """
    if isinstance(error, ExactError) or error.labels.cells.is_dense:
        return _LEAST_DECREASE
    return len(parameters.vector) / float(namespace(error.test).sum(error.test))


@dataclass(frozen=True, eq=False)
class Stage:
    """Learned parameters of one stage, with their error.

    Attributes
    ----------
    parameters : Parameters
    error : float
        Mean squared error of held-out cells, in the units of `Targets`.
    predicted : array of shape (f, n), or (m, q) for exact leave-one-out
        Predictions of each fold at the observed cells.
    reached : float
        Error at the end of the descent that found the parameters, of the folds that it used.
    losses : list of float
        Error at each evaluation of this descent.
    judged : float
        Value by which stages are compared; smaller is better.
    profiles : list of lists of arrays of shape (m, m) and (q, q)
        Profile kernels of each side, from all training labels.
    """

    parameters: Parameters
    error: float
    predicted: Array
    reached: float
    losses: list[float]
    judged: float
    profiles: Sequence[Sequence[Array]] = ((), ())


def expected_steps(shape: tuple[int, int], n_steps: int, n_stages: int) -> int:
    """Return the maximum number of evaluations of all stages."""
    return n_steps * (1 + (2 if is_small(shape) else 1) * (n_stages - 1))


def is_small(shape: tuple[int, int]) -> bool:
    """Return whether products of a grid of this shape with both kernels cost little."""
    m, q = shape
    return m * q * (m + q) <= _SMALL


# Function of the error and the held-out predictions (m, q) whose value is smaller for better
# stages.
Judge = Callable[[float, Array], float]


# Callback that is called with the stage and the error of each evaluation.
Watch = Callable[[int, float], None]


class _Search(NamedTuple):
    """How stages are learned and compared; attributes as in `learn`."""

    how: Descent
    watch: Watch
    judge: Judge

    def best_stage(
        self,
        number: int,
        first: HoldoutError,
        whole: Callable[[], HoldoutError],
        starts: Sequence[Parameters],
        least_before: float = math.inf,
    ) -> tuple[Stage | None, bool]:
        """Return the best stage from several starts, and whether learning was interrupted.

        The error of the first folds is minimised, and starts are compared by that of all folds.
        There is no stage if its descent does not reach an error below `least_before`.
        """
        best = None
        descended = Descended(starts[-1], math.inf, [], False)
        interrupted = False
        watch = partial(self.watch, number)
        try:
            for start in starts:
                descended = descend(first, start, self.how, watch, least_before)
                interrupted = descended.interrupted
                if descended.losses and descended.loss > least_before:
                    return None, interrupted
                stage = _stage(whole(), descended, self.judge)
                if best is None or stage.judged < best.judged:
                    best = stage
                if interrupted:
                    break
        except KeyboardInterrupt as stop:
            current().heed(stop)
            interrupted = True
        if best is None:
            best = _stage(whole(), descended._replace(losses=[]), self.judge)
        return best, interrupted

    def next_stage(
        self, number: int, error: FoldError, stage: Stage, sides: Sides, profiled: tuple[bool, bool]
    ) -> tuple[tuple[Stage, FoldError] | None, bool]:
        """Return the stage after another one with its error, if it is better, and whether learning was interrupted.

        Parameters
        ----------
        number : int
            Number of the new stage.
        error : FoldError
            Error of all folds of the stage before.
        stage : Stage
            The stage before.
        sides : sequence of Mixture
            Kernels of the original descriptions.
        profiled : (bool, bool)
        """
        small = is_small(error.labels.cells.shape)
        described = (stage.parameters, sides, profiled)
        # Profiles of all folds take long on large grids: they are computed once a stage is better in
        # the first.
        first = (error if small else error.first(ENOUGH)).with_profiles(*described)
        whole = cache(partial(_of_all_folds, error, first, described))
        start = Parameters.start(first.sides, self.how.constant)
        starts = [stage.parameters.joined(start)]
        if small:
            starts.insert(0, start)
        least_before = math.inf
        if stage.judged == stage.error and not small:
            least_before = stage.reached * (1.0 - _worthwhile(first, start))
        following, interrupted = self.best_stage(number, first, whole, starts, least_before)
        if following is None:
            return None, interrupted
        profiles = [
            side.grams[len(old.grams) :] for side, old in zip(whole().whole, sides, strict=True)
        ]
        return (replace(following, profiles=profiles), whole()), interrupted


def _stage(error: HoldoutError, descended: Descended, judge: Judge) -> Stage:
    """Return a stage with the error of its parameters."""
    parameters = error.accepted(descended.parameters)
    loss, predicted = error.evaluate(parameters)
    return Stage(
        parameters,
        loss,
        predicted,
        descended.loss,
        descended.losses,
        judge(loss, error.assembled(predicted)),
    )


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
    judge: Judge = lambda loss, held_out: loss,
) -> Learned:
    """Learn kernels stage by stage, as long as the stages get better.

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
        Callback that is called with the stage and the error of each evaluation.
    judge : callable
        Function of the error and the held-out predictions, by which stages and starts are compared.
    """
    sides = error.sides
    search = _Search(how, watch, judge)
    if is_small(error.labels.cells.shape):
        first = error
    else:
        first = error.first(ENOUGH)
    start = Parameters.start(sides, how.constant)
    stage, interrupted = search.best_stage(0, first, lambda: error, [start])
    assert stage is not None
    interrupts = current()
    interrupts.keep()
    stages = [stage]
    best = 0
    held_out = error.assembled(stage.predicted)
    try:
        with interrupts.raising():
            while isinstance(error, FoldError) and len(stages) < n_stages:
                if interrupted or best < len(stages) - 1:
                    break
                number = len(stages)
                following, interrupted = search.next_stage(
                    number, error, stages[-1], sides, profiled
                )
                if following is None:
                    break
                stage, error = following
                stages.append(stage)
                if stage.judged < stages[best].judged:
                    best = number
                    held_out = error.assembled(stage.predicted)
    except KeyboardInterrupt as stop:
        interrupts.heed(stop)
        interrupted = True
    return Learned(stages, best, held_out, interrupted)


def _of_all_folds(
    error: FoldError, first: FoldError, described: tuple[Parameters, Sides, tuple[bool, bool]]
) -> FoldError:
    """Return the error of all folds with profiles; `first` is that of the first folds."""
    if first.train.shape == error.train.shape:
        return first
    return error.with_profiles(*described, first.whole)


def completed_again(
    labels: Targets,
    sides: Sides,
    train: np.ndarray,
    path: Sequence[Sequence[float]],
    profiled: tuple[bool, bool],
) -> Array:
    """Return the predictions of learned stages, with profiles computed from some training labels.

    Parameters
    ----------
    labels : Targets
    sides : sequence of Mixture
        Kernels of the original descriptions, without profiles.
    train : boolean array of shape (m, q)
        Mask of the cells to learn from, where observed.
    path : sequence of vectors
        Parameters of each stage, as returned by `Parameters.vector`.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.

    Returns
    -------
    array of shape (m, q)

    Raises
    ------
    ValueError
        If no training label remains.
    """
    Y = labels.values
    cells = labels.cells
    xp = namespace(labels.values)
    chosen = (as_array_of(train[cells.rows, cells.columns], Y, Y.dtype) * labels.observed)[None, :]
    if not float(xp.sum(chosen)) > 0:
        raise ValueError("A fold leaves no label to learn from: use more folds, or other groups.")
    used = sides
    completed = None
    for vector in path:
        if completed is not None:
            used = profiled_sides(completed, sides, profiled)
        parameters = Parameters.start(used).of(np.asarray(vector))
        completed = FoldError(labels, chosen, chosen, used, used).completed(parameters, _TOL)
    assert completed is not None
    return completed[0, ...]
