"""Learning curves: scores against the amount of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import take_block, to_numpy
from dyadlearn.diagnostics.fitted import REMEDY, labelled_model
from dyadlearn.holdout import Problem, plan
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["LearningCurve", "curve_of_model", "curve_of_scores"]


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Scores of one or several methods as the data grow.

    Attributes
    ----------
    sizes : array of shape (n_sizes,)
        Amounts of data.
    scores : dict of str to array of shape (n_repeats, n_sizes)
        For each method; NaN where there is none.
    size_name, score_name : str
        What the axes are called.
    title : str
    """

    sizes: np.ndarray
    scores: dict[str, np.ndarray]
    size_name: str = "instances"
    score_name: str = "score"
    title: str = ""

    def mean_and_spread(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sizes in ascending order, and mean and standard deviation (n,) of a method's scores there."""
        scores = self.scores[name]
        order = np.argsort(self.sizes, kind="stable")
        there = order[~np.isnan(scores).all(axis=0)[order]]
        return self.sizes[there], np.nanmean(scores[:, there], axis=0), np.nanstd(scores[:, there], axis=0)


def curve_of_scores(
    sizes: Any, scores: Any, *, size_name: str = "instances", score_name: str = "score", title: str = ""
) -> LearningCurve:
    """Return scores that have been recorded; the parameters are those of `LearningCurveDisplay.from_scores`."""
    amounts = np.asarray(sizes, dtype=np.float64)
    if amounts.ndim != 1 or amounts.size == 0 or not np.isfinite(amounts).all():
        raise ValueError(f"sizes must be a list of finite numbers, found shape {amounts.shape}.")
    named = scores if isinstance(scores, Mapping) else {score_name: scores}
    if not named:
        raise ValueError("scores is an empty dict: give the scores of at least one method.")
    read = {}
    for name, given in named.items():
        values = np.atleast_2d(np.asarray(given, dtype=np.float64))
        if values.ndim != 2 or values.shape[1] != amounts.size or values.shape[0] == 0:
            raise ValueError(
                f"The scores of {name!r} must have shape (n_repeats, {amounts.size}), a column for each of the "
                f"sizes, found {np.shape(given)}."
            )
        read[str(name)] = values
    return LearningCurve(amounts, read, size_name, score_name, title)


def curve_of_model(
    model: Any,
    setting: str | Setting = "B",
    *,
    sizes: Iterable[float],
    scoring: str | Callable[[Any, Any], float] | None = None,
    n_repeats: int = 10,
    random_state: Any = None,
    name: str | None = None,
    remedy: str = REMEDY,
) -> LearningCurve:
    """Score a model on random parts of its grid; the parameters are those of `LearningCurveDisplay.from_estimator`."""
    fitted, chosen = labelled_model(model, remedy), as_setting(setting)
    judge, shares = scorer(scoring_of(fitted, scoring)), sorted(set(map(float, sizes)))
    if not shares or not 0 < shares[0] <= shares[-1] <= 1:
        raise ValueError(f"sizes are shares of the labels, above 0 and at most 1, found {shares}.")
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1, found {n_repeats}.")
    problem = fitted._problem()
    if math.isnan(problem.pairing.alphas["alpha"]):
        raise ValueError("A model with a regularisation for each task has no learning curve: use one for all.")
    problem.pairing.check_request(chosen, None, None, None)
    # Complain about a score that is not even defined on the whole grid.
    judge.prepare(problem.Y, setting=chosen)
    random, scores = check_random_state(random_state), np.full((n_repeats, len(shares)), np.nan)
    shapes = [_shape(problem, chosen, share) for share in shares]
    for column, (shape, share) in enumerate(zip(shapes, shares, strict=True)):
        for repeat in range(n_repeats if share < 1 else 1):
            scores[repeat, column] = _score(_part(fitted, shape, random), chosen, judge)
    observed = float(np.mean(~np.isnan(to_numpy(problem.Y))))
    amounts = {Setting.B: [m for m, _ in shapes], Setting.C: [q for _, q in shapes]}
    return LearningCurve(
        np.array(amounts.get(chosen, [round(m * q * observed) for m, q in shapes]), dtype=np.float64),
        {name or type(fitted).__name__: scores},
        {Setting.B: "instances", Setting.C: "tasks"}.get(chosen, "labels"),
        judge.name,
        chosen.in_words,
    )


def _shape(problem: Problem, setting: Setting, share: float) -> tuple[int, int]:
    """Return the number of instances and tasks of a part with a share of the labels."""
    pairing = problem.pairing
    both = pairing.symmetry != 0 or (setting in (Setting.A, Setting.D) and pairing.knows_tasks)
    left, cut = math.sqrt(share) if both else share, (both or setting is not Setting.C, both or setting is Setting.C)
    m, q = (max(min(5, n), round(left * n)) if is_cut else n for n, is_cut in zip(problem.Y.shape, cut, strict=True))
    return m, q


def _part(model: PairwiseRidge, shape: tuple[int, int], random: np.random.RandomState) -> Problem:
    """Return what a model of the same parameters, fitted on random rows and columns, would have posed."""
    problem = model._problem()
    is_network, (m, q) = problem.pairing.symmetry != 0, problem.Y.shape
    rows = np.sort(random.choice(m, shape[0], replace=False))
    columns = rows if is_network else np.sort(random.choice(q, shape[1], replace=False))
    side, task_side = replace(model._side, spectrum=model._side.spectrum.part(rows)), model._task_side
    if task_side is not None:
        task_side = side if is_network else replace(task_side, spectrum=task_side.spectrum.part(columns))
    return replace(
        problem,
        pairing=model._pairing(side, task_side, **problem.pairing.alphas),
        Y=take_block(problem.Y, rows, columns),
        weights=None if problem.weights is None else take_block(problem.weights, rows, columns),
    )


def _score(problem: Problem, setting: Setting, judge: Scorer) -> float:
    """Return the hold-out score of a part, NaN where it is undefined."""
    if np.isnan(to_numpy(problem.Y)).all():
        return math.nan
    F = plan(problem, setting).held_out()
    try:
        Y = scored_labels(problem, F, setting, quiet=True)
        return float(judge(to_numpy(Y), to_numpy(F), setting=setting, tie_tolerance=None))
    except ValueError:  # the whole grid has a score, so that this part has too few labels for one
        return math.nan
