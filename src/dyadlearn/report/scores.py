"""How a model does in each setting, beside what that is to be compared with, in plain words for page and card."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from dyadlearn._printing import number
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.baselines import in_words
from dyadlearn.selection.nested import Interval
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.evaluation import Result
from dyadlearn.views.summary import Summary
from dyadlearn.views.words import told_apart

__all__ = ["ScoreRow", "comparison", "in_between", "introduction", "said", "score_rows"]


class ScoreRow(NamedTuple):
    """One line of a table whose columns are settings.

    Attributes
    ----------
    kind : {"main", "", "words"}
        Whether it is the score itself, another number, or words.
    name : str
    texts : list of str
        One for each setting.
    """

    kind: str
    name: str
    texts: list[str]


def in_between(interval: Interval | None) -> str:
    """Return the two ends of an interval, a dash where there is none.

    Examples
    --------
    >>> from dyadlearn.report.scores import in_between
    >>> in_between(None)
    '–'
    """
    return "–" if interval is None else f"{number(interval.low, 3)} … {number(interval.high, 3)}"


def score_rows(summary: Summary) -> list[ScoreRow]:
    """Return the scores of all settings and what they are to be compared with, as far as anything is known of it."""
    found, names = summary.results, summary.apart
    rows = [ScoreRow("main", summary.scoring, [number(each.score) for each in found])]

    def add(kind: str, name: str, texts: Iterable[str]) -> None:
        texts = list(texts)
        if any(text != "–" for text in texts):
            rows.append(ScoreRow(kind, name, texts))

    add("", "95 % interval", (in_between(each.interval) for each in found))
    add("", "permuted labels", (number(each.null) for each in found))
    for name in BASELINES:
        add("", in_words(name, names), (number(each.baselines.get(name, float("nan"))) for each in found))
    for name in dict.fromkeys(name for each in found for name in each.others):
        add("", name, (number(each.others.get(name, float("nan"))) for each in found))
    add("", "90 % of labels within ±", (number(each.within, 3) for each in found))
    if any(each.n_undefined for each in found):
        add("", "undefined for", (_undefined(each, summary) for each in found))
    add("words", "held out by", (each.method for each in found))
    return rows


def introduction(summary: Summary) -> str:
    """Return what the scores are."""
    names = summary.apart
    return (
        "Every label was predicted as if the model had never seen what the setting calls new. Greater scores are "
        f"better; those that rank are averaged over all cells in A and D, per {names.instance} in B and per "
        f"{names.task} in C."
    )


def comparison(summary: Summary) -> str:
    """Return what it is that scores are to be compared with."""
    names = summary.apart
    return (
        f"Simple means know no features and are held out alike: of all labels, of the {names.instance}, of "
        f"the {names.task}, and an effect of each (additive). Where a side is new, nothing is left of its own "
        f"mean. {_null_words(summary)}{_interval_words(summary)}"
    )


def said(setting: Setting, names: SideNames) -> str:
    """Return what is new in a setting, in a sentence.

    Examples
    --------
    >>> from dyadlearn.report.scores import said
    >>> from dyadlearn.settings import Setting
    >>> from dyadlearn.sides import SideNames
    >>> said(Setting.B, SideNames("host", "parasite"))
    'A new host, with the known parasites.'
    """
    first, second = told_apart(names)
    every, other = names.both
    return {
        Setting.A: f"A pair that is missing; its {first} and its {second} are both known.",
        Setting.B: f"A new {first}, with the known {other}.",
        Setting.C: f"A new {second}, with the known {every}.",
        Setting.D: f"A new {first} with a new {second}: zero-shot.",
    }[setting]


def _null_words(summary: Summary) -> str:
    if all(math.isnan(each.null) for each in summary.results):
        return ""
    return (
        "Permuted labels are ten draws in which labels were dealt out anew among what is new, under the same "
        "regularisation: their mean is what the model reaches where there is nothing to learn, and no test "
        "(dyadlearn.permutation_test is one). "
    )


def _interval_words(summary: Summary) -> str:
    found = [each.interval for each in summary.results if each.interval is not None]
    if not found:
        return ""
    return (
        f"The interval holds 95 % of the scores of {found[0].n_resamples:,} grids whose "
        f"{summary.names.instances} and {summary.names.tasks} were drawn from these with replacement: "
        "how far the score may be off because others could have been studied."
    )


def _undefined(each: Result, summary: Summary) -> str:
    if not each.n_undefined:
        return "–"
    m, q = summary.grid.values.shape
    names = summary.names
    return f"{each.n_undefined:,} of " + (
        f"{q:,} {names.tasks}" if each.setting is Setting.C else f"{m:,} {names.instances}"
    )
