"""Scores of simple means, beside which the score of a model has a meaning, and what is to be said of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from dyadlearn._array import Array
from dyadlearn._printing import number
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.holdout import Units
from dyadlearn.holdout.baselines import BASELINES, baselines
from dyadlearn.holdout.pair_baselines import pair_baselines
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

__all__ = ["baseline_scores", "best_baseline", "best_in_words", "in_words", "nothing_learnt", "scored_means"]

_SIDES = SideNames()


def baseline_scores(problem: Any, setting: Setting, units: Units, score: Callable[[Any], Any]) -> dict[str, float]:
    """Score what simple means predict for the labels of a problem, held out as its model is.

    Parameters
    ----------
    problem : Problem or PairProblem
        Of which the labels, their weights and whether they are those of a network are looked at.
    setting : Setting
    units : Units
        What leaves together.
    score : callable
        Of predictions (m, q), greater being better.

    Returns
    -------
    dict of str to float
        By the names of `dyadlearn.holdout.baselines.BASELINES`; NaN where the score of a mean is undefined, as that of
        a constant may be, or memory does not suffice.
    """
    sign = problem.pairing.symmetry
    try:
        if problem.is_listed:
            return scored_means(pair_baselines(problem.labels, setting, units), score)
        predictions = baselines(problem.Y, setting, units, weights=problem.weights, symmetry=sign)
    except NotEnoughMemoryError:  # the score of the model is there all the same
        return dict.fromkeys(BASELINES, float("nan"))
    return scored_means(predictions, score)


def scored_means(predictions: Mapping[str, Array], score: Callable[[Any], Any]) -> dict[str, float]:
    """Score what means predict, as `dyadlearn.holdout.baselines.baselines` returns it; NaN where that is undefined."""
    # Means that cannot differ are scored once.
    scores = {id(each): _score(score, each) for each in {id(F): F for F in predictions.values()}.values()}
    return {name: scores[id(each)] for name, each in predictions.items()}


def _score(score: Callable[[Any], Any], F: Any) -> float:
    with warnings.catch_warnings():
        # Whatever is to be said of constants was not said by the model.
        warnings.simplefilter("ignore")
        try:
            return float(score(F))
        except (ValueError, ArithmeticError):
            return float("nan")


def best_baseline(scores: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the name and the score of the best baseline, of equals the simplest; None where none has a score.

    Examples
    --------
    >>> from dyadlearn.selection.baselines import best_baseline
    >>> best_baseline({"grand_mean": 0.5, "instance_means": 0.5, "task_means": 0.7, "additive": 0.7})
    ('task_means', 0.7)
    """
    defined = {name: score for name, score in scores.items() if not math.isnan(score)}
    return max(defined.items(), key=lambda each: each[1], default=None)


def in_words(name: str, sides: SideNames = _SIDES) -> str:
    """Return the name of a baseline as a reader wants it, with what the sides are called.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.selection.baselines import in_words
    >>> in_words("task_means"), in_words("task_means", SideNames("host", "parasite"))
    ('task means', 'parasite means')
    """
    own = {"instance_means": f"{sides.instance} means", "task_means": f"{sides.task} means"}
    return own.get(name, name.replace("_", " "))


def best_in_words(scores: Mapping[str, float], sides: SideNames = _SIDES) -> str:
    """Return the score of the best baseline with its name, a dash where none has a score.

    Examples
    --------
    >>> from dyadlearn.selection.baselines import best_in_words
    >>> best_in_words({"grand_mean": 0.5, "task_means": 0.71234})
    '0.7123, task means'
    """
    best = best_baseline(scores)
    return "–" if best is None else f"{number(best[1])}, {in_words(best[0], sides)}"


def nothing_learnt(
    scoring: str, setting: Setting, score: float, scores: Mapping[str, float], sides: SideNames = _SIDES
) -> str | None:
    """Return what is to be said of a model that does no better than simple means; None where it does.

    Examples
    --------
    >>> from dyadlearn.settings import Setting
    >>> from dyadlearn.selection.baselines import nothing_learnt
    >>> nothing_learnt("roc_auc", Setting.B, 0.9, {"task_means": 0.7})
    >>> nothing_learnt("roc_auc", Setting.B, 0.6, {"task_means": 0.7})
    'In setting B the model reaches roc_auc 0.6, no more than simple means do without any features: 0.7, task means.'
    """
    best = best_baseline(scores)
    if best is None or score > best[1]:
        return None
    return (
        f"In setting {setting.value} the model reaches {scoring} {number(score)}, no more than simple means do without "
        f"any features: {best_in_words(scores, sides)}."
    )
