r"""Scores of regularisations that are solved for one by one: all of them, or a coarse-to-fine search.

Where labels are missing or weighted, every regularisation is solved for again in every fold. The coarse-to-fine search
evaluates every fourth value of each axis, the middle of the grid first. Then it evaluates the neighbours of the best
point, two values away and then one, until all neighbours of the best point have a score. Each solve starts from the
solution of the point before.

The search compares points by rough solutions: conjugate gradients stop at a relative residual of :math:`10^{-2}` or
after 60 iterations. In setting D, whose folds cut both sides, it uses the folds on the diagonal alone if they have
enough labels; then it goes on from the best point in all folds, to neighbours along the axes. The directions that a few
iterations do not resolve have little weight: they change the score in its third digit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, namespace, to_numpy
from dyadlearn._progress import Progress
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import PreparedScorer
from dyadlearn.metrics.choice import best_point
from dyadlearn.selection.observed import prepared_score

__all__ = ["Evaluated", "coarse_to_fine", "score_points"]

Point = tuple[int, int]

# Tolerance of conjugate gradients where all points are evaluated: scores need no more digits.
_TOL = 1e-5
# Tolerance and number of iterations of the rough solutions of a search.
_ROUGH = {"tol": 1e-2, "max_iter": 60}
# Number of labels in the folds on the diagonal from which these suffice for a search.
_ENOUGH_LABELS = 2000
# Number of values on an axis from which the search is coarse to fine.
_LONG = 7
# Distance between the first points on an axis, and from the best point to its neighbours.
_COARSE, _STEPS = 4, (2, 1)


class Evaluated(NamedTuple):
    """Scores of a grid of regularisations.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        NaN where a point has no score or was not evaluated.
    n_points : int
        Number of points that were evaluated.
    is_rough : bool
        Whether the scores are those of rough solutions.
    was_interrupted : bool
        Whether an interrupt from the keyboard ended the search.
    """

    scores: np.ndarray
    n_points: int
    is_rough: bool
    was_interrupted: bool


def coarse_to_fine(
    scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float], start: Point | None = None
) -> Iterator[Point]:
    """Yield the points that a coarse-to-fine search evaluates.

    Parameters
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        The caller writes the score of each point here before it asks for the next one.
    alphas, task_alphas : sequences of float
        In any order.
    start : (row, column), default=None
        Where to start instead of every fourth value; neighbours are then those along the axes, one value away.

    Yields
    ------
    (row, column)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.selection.coarse import coarse_to_fine
    >>> scores = np.full((14, 1), np.nan)
    >>> for point in coarse_to_fine(scores, np.arange(14.0), [1.0]):
    ...     scores[point] = -abs(point[0] - 4)
    >>> np.flatnonzero(np.isfinite(scores)).tolist()
    [1, 3, 4, 5, 6, 7, 11]
    """
    orders = [np.argsort(values, kind="stable") for values in (alphas, task_alphas)]
    ranks = [np.argsort(order) for order in orders]
    evaluated: set[Point] = set()

    def new(points: Iterable[tuple[int, ...]]) -> Iterator[Point]:
        for first, second in points:
            inside = 0 <= first < len(orders[0]) and 0 <= second < len(orders[1])
            if inside and (first, second) not in evaluated:
                evaluated.add((first, second))
                yield int(orders[0][first]), int(orders[1][second])

    if start is not None:
        yield from new([(int(ranks[0][start[0]]), int(ranks[1][start[1]]))])
    else:
        yield from new(product(*(_every_fourth(len(order)) for order in orders)))
    if np.isnan(scores).all():  # the model interpolates there, and perhaps not elsewhere
        yield from new(product(*(range(len(order)) for order in orders)))
    if np.isnan(scores).all():
        return
    for step in _STEPS if start is None else (1,):
        n_before = -1
        while len(evaluated) > n_before:
            n_before = len(evaluated)
            best = best_point(scores, alphas, task_alphas)
            row, column = (int(own[at]) for own, at in zip(ranks, best, strict=True))
            moves = product((0, step, -step), repeat=2)
            yield from new((row + down, column + right) for down, right in moves if start is None or not down * right)


def _every_fourth(n_values: int) -> list[int]:
    """Return every fourth position of an axis, from the middle outwards."""
    middle = n_values // 2
    return sorted(range(middle % _COARSE, n_values, _COARSE), key=lambda position: abs(position - middle))


def _n_expected(shape: Point, again: bool) -> int:
    """Return about how many points a coarse-to-fine search evaluates, first on the diagonal and again in all folds."""
    n_axes = sum(size > 1 for size in shape)
    n_first = len(_every_fourth(shape[0])) * len(_every_fourth(shape[1]))
    n_again = 1 + 2 * n_axes if again else 0
    return min(n_first + len(_STEPS) * int(3**n_axes - 1), shape[0] * shape[1]) + n_again


def _all_points(alphas: Sequence[float], task_alphas: Sequence[float]) -> Iterator[Point]:
    """Yield all points from strong to weak; successive points are neighbours, which helps warm starts."""
    path = np.argsort(task_alphas)[::-1]
    for row in np.argsort(alphas)[::-1]:
        for column in path:
            yield int(row), int(column)
        path = path[::-1]


class _PointScore:
    """Score of the hold-out predictions of one regularisation after the other.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    quiet : bool
        As in `dyadlearn.holdout.lone.scored_labels`.
    is_rough : bool
        Whether folds are solved roughly, and in setting D those on the diagonal alone.
    """

    def __init__(self, how: Plan, scoring: Any, quiet: bool, is_rough: bool) -> None:
        # Raises an error before folds are made if the score of the labels is undefined.
        self._of_all = prepared_score(how.problem, scoring, how.setting)
        self.how, self._scoring, self._quiet = how, scoring, quiet
        self.tol, self.n_unconverged, self.refusal = max(how.problem.tol, _TOL), 0, LeverageError()
        self._options: dict[str, Any] = dict(_ROUGH) if is_rough else {"tol": self.tol}
        # The folds on the diagonal, if they suffice.
        self.diagonal: list[int] | None = None
        if is_rough and how.folds is not None and len(how.folds.scouts) < how.folds.n_folds:
            self.diagonal = how.folds.scouts if how.folds.n_tested(how.folds.scouts) >= _ENOUGH_LABELS else None
        self._prepared: PreparedScorer | None = None

    def use_all_folds(self) -> None:
        """Hold out all folds from now on."""
        self.diagonal = self._prepared = None

    def __call__(self, alpha: float, task_alpha: float) -> float:
        """Return a score, NaN where the model interpolates what is to be left out."""
        how, problem = self.how, self.how.problem.at(alpha, task_alpha)
        try:
            if how.folds is None:
                held_out = how.held_out(problem, self.tol)
            else:
                with warnings.catch_warnings():
                    # One warning for all points follows in the end.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    held_out = how.folds.held_out(problem.pairing, numbers=self.diagonal, **self._options)
                self.n_unconverged += not how.folds.converged
        except LeverageError as error:
            self.refusal = error
            return float("nan")
        if self._prepared is None:  # the labels that have a prediction are the same for all regularisations
            if self.diagonal is None:
                labels = scored_labels(how.problem, held_out, how.setting, quiet=self._quiet, stacklevel=6)
            else:
                labels = _where_predicted(how.problem.targets, held_out)
            is_whole = labels is how.problem.targets
            self._prepared = (
                self._of_all if is_whole else prepared_score(how.problem, self._scoring, how.setting, labels)
            )
        return float(self._prepared(held_out))


def _where_predicted(labels: Array, held_out: Array) -> Array:
    """Return labels, NaN where nothing is predicted."""
    xp = namespace(labels)
    missing = as_array_of(np.isnan(to_numpy(held_out)), labels)
    return xp.where(missing, xp.full_like(labels, float("nan")), labels)


def score_points(
    how: Plan,
    scoring: Any,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    *,
    search: bool = False,
    exhaustive: bool = True,
    quiet: bool = False,
    progress: bool | None = None,
) -> Evaluated:
    """Score regularisations one after the other, where labels are missing or weighted.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.
    search : bool, default=False
        Whether an interrupt from the keyboard keeps the scores so far, if there are any.
    exhaustive : bool, default=True
        Whether all points are evaluated, instead of a coarse-to-fine search of long grids whose folds are solved again.
    quiet : bool, default=False
        As in `dyadlearn.holdout.lone.scored_labels`.
    progress : bool, default=None
        As in `dyadlearn._progress.Progress`.

    Returns
    -------
    Evaluated

    Raises
    ------
    LeverageError
        If the model interpolates what is to be left out at every point.
    """
    shape = len(alphas), len(task_alphas)
    is_coarse = not exhaustive and how.splitter is not None and max(shape) >= _LONG
    score, was_interrupted = _PointScore(how, scoring, quiet, is_coarse), False
    # Of each pass: on the diagonal, and in all folds.
    grids, counts = [np.full(shape, np.nan)], [0]

    def evaluate(points: Iterator[Point]) -> None:
        for row, column in points:
            grids[-1][row, column] = score(alphas[row], task_alphas[column])
            counts[-1] += 1
            bar.advance()

    n_expected = _n_expected(shape, score.diagonal is not None) if is_coarse else grids[0].size
    with Progress(n_expected, f"{'Search' if search else 'Landscape'} {how.setting.value}", progress) as bar:
        try:
            evaluate(coarse_to_fine(grids[0], alphas, task_alphas) if is_coarse else _all_points(alphas, task_alphas))
            if score.diagonal is not None and np.isfinite(grids[0]).any():
                best = best_point(grids[0], alphas, task_alphas)
                score.use_all_folds()
                grids.append(np.full(shape, np.nan))
                counts.append(0)
                evaluate(coarse_to_fine(grids[1], alphas, task_alphas, (best[0], best[1])))
        except KeyboardInterrupt:
            if not search or np.isnan(grids[0]).all():
                raise
            was_interrupted = True
    if np.isnan(grids[-1]).all():  # interrupted before the first score in all folds, or nothing but interpolation
        grids, counts = grids[:1], counts[:1]
    if np.isnan(grids[-1]).all() and score.refusal.args:
        raise score.refusal
    if score.n_unconverged and not is_coarse:
        warnings.warn(
            f"For {score.n_unconverged} of {counts[-1]} regularisations {how.problem.max_iter} conjugate-gradient "
            f"iterations did not reach a relative residual of {score.tol:g}, so that their scores are rough: raise "
            "max_iter, or leave out the smallest regularisations.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Evaluated(grids[-1], counts[-1], is_coarse, was_interrupted)
