"""What simple means reach beside a model, in words."""

from __future__ import annotations

from collections.abc import Mapping

from dyadlearn.selection.baselines import best_baseline
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.words import number

__all__ = ["best_in_words", "in_words", "nothing_learnt"]


_SIDES = SideNames()


def in_words(name: str, sides: SideNames = _SIDES) -> str:
    """Return the name of a baseline as a reader wants it, with what the sides are called.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.views.baselines import in_words
    >>> in_words("task_means"), in_words("task_means", SideNames("host", "parasite"))
    ('task means', 'parasite means')
    """
    own = {"instance_means": f"{sides.instance} means", "task_means": f"{sides.task} means"}
    return own.get(name, name.replace("_", " "))


def best_in_words(scores: Mapping[str, float], sides: SideNames = _SIDES) -> str:
    """Return the score of the best baseline with its name, a dash where none has a score.

    Examples
    --------
    >>> from dyadlearn.views.baselines import best_in_words
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
    >>> from dyadlearn.views.baselines import nothing_learnt
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
