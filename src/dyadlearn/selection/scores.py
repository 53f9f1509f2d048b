"""The table of scores that `evaluate` returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from dyadlearn._printing import as_text, html_table, make_table, number
from dyadlearn._tables import write_rows
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.baselines import best_baseline, in_words, nothing_learnt
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

__all__ = ["HEADINGS", "Scores", "before", "beside", "remarks"]

_SIDES = SideNames()
# Letters of a name that there is room for beside a figure.
_LONGEST = 16

#: What stands left and right of the score in a table for people.
HEADINGS = ("new", "method"), ("null", "best mean")


class Scores(dict[str, list[Any]]):
    """How well a model does in some settings: named columns, each a list with an entry for each setting.

    It is a dict, so that any data frame can be made of it. Printed, it is a table for people in 80 columns, and in a
    notebook one of markup: with the best of the means alone, and with what there is to mind below it.

    Attributes
    ----------
    scoring : str
        The name of the column that has the scores.
    sides : SideNames
        What an instance and a task are called.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> scores = evaluate(model, "BD", sides=("host", "parasite"))
    >>> scores
                                      neg_mean_
     new     method               squared_error    null      best mean
     ─────────────────────────────────────────────────────────────────
     B host  exact leave-one-out       -0.01695  -2.227  -0.9447 grand
     D both  exact leave-one-out        -0.0567  -2.474  -0.9065 grand
    >>> scores["setting"], scores.scoring
    (['B', 'D'], 'neg_mean_squared_error')
    """

    def __init__(
        self,
        columns: Mapping[str, list[Any]],
        scoring: str,
        sides: SideNames = _SIDES,
        kind: str | None = None,
    ) -> None:
        super().__init__(columns)
        self.scoring, self.sides, self._kind = scoring, sides, kind

    def frame(self, kind: str | None = None) -> Any:
        """Return the columns as a data frame.

        Parameters
        ----------
        kind : {"pandas", "polars"} or None, default=None
            The library, or any other that narwhals knows; None is the one the labels came in, else the first of these
            that is installed.

        Returns
        -------
        frame with a row for each setting
        """
        return write_rows(self, kind or self._kind)

    @property
    def notes(self) -> list[str]:
        """What there is to mind of these scores, in sentences."""
        return [
            note
            for row in (self.rows() if self._is_whole else [])
            for note in remarks(
                self.scoring, Setting(row["setting"]), row[self.scoring], row["undefined"], _means(row), self.sides
            )
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return the columns turned around: a dict for each setting."""
        return [dict(zip(self, row, strict=True)) for row in zip(*self.values(), strict=True)]

    @property
    def _is_whole(self) -> bool:
        """Whether all columns are there that the table is made of: whoever has a dict may change it."""
        needed = {"setting", "new", "method", self.scoring, "null", "undefined", *BASELINES}
        return needed <= self.keys() and len(set(map(len, self.values()))) == 1

    def _table(self) -> tuple[list[str], list[list[str]], int]:
        words, figures = HEADINGS
        headings = [*words, self.scoring, *figures]
        lines = [
            [*before(row), *beside(row[self.scoring], row["null"], _means(row), self.sides)] for row in self.rows()
        ]
        if all(map(math.isnan, self["null"])):  # nobody asked for it, or it would have taken long
            place = headings.index("null")
            headings, *lines = ([*line[:place], *line[place + 1 :]] for line in (headings, *lines))
        return headings, lines, len(words)

    def __repr__(self) -> str:
        if not self._is_whole:
            return super().__repr__()
        return as_text(make_table(*self._table()), *self.notes)

    def _repr_html_(self) -> str:
        if not self._is_whole:
            return f"<pre>{escape(super().__repr__())}</pre>"
        return html_table(*self._table()) + "".join(f"<p>{escape(note)}</p>" for note in self.notes)


def before(row: Mapping[str, Any]) -> list[str]:
    """Return the setting with what is new in it, in one cell, and how it was held out."""
    return [f"{row['setting']} {row['new']}", row["method"]]


def _means(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in BASELINES}


def beside(score: float, null: float, means: Mapping[str, float], sides: SideNames = _SIDES) -> list[str]:
    """Return a score, that of permuted labels, and the best of simple means, its name one word: tables stay narrow.

    Examples
    --------
    >>> from dyadlearn.selection.scores import beside
    >>> beside(0.91, float("nan"), {"grand_mean": 0.5, "task_means": 0.71234})
    ['0.91', '–', '0.7123 task']
    """
    best = best_baseline(means)
    word = "" if best is None else in_words(best[0], sides).removesuffix("s").removesuffix(" mean")
    word = word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"
    return [number(score), number(null), "–" if best is None else f"{number(best[1])} {word}"]


def remarks(
    scoring: str,
    setting: Setting,
    score: float,
    n_undefined: int,
    means: Mapping[str, float],
    sides: SideNames = _SIDES,
) -> list[str]:
    """Return what is to be said of a score: that simple means are as good, and what it does not count.

    Examples
    --------
    >>> from dyadlearn.selection.scores import remarks
    >>> from dyadlearn.settings import Setting
    >>> remarks("roc_auc", Setting.C, 0.9, 3, {"instance_means": 0.7})
    ['roc_auc is undefined for 3 tasks in setting C, which do not count.']
    """
    said = nothing_learnt(scoring, setting, score, means, sides)
    found = [] if said is None else [said]
    if n_undefined:
        of = {Setting.B: sides.instances, Setting.C: sides.tasks}.get(setting, "cells")
        found.append(f"{scoring} is undefined for {n_undefined} {of} in setting {setting.value}, which do not count.")
    return found
