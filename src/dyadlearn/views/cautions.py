"""Warnings of a report: the important first, and those that repeat each other once, with their count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

# Parts in which warnings differ that say the same: settings, ids and numbers.
_DIFFERENCES = re.compile(r"(?<=[Ss]etting )[A-D]\b|'[^']*'|\d[\d.,]*(?:e[+-]?\d+)?")


class Importance(IntEnum):
    """How much a warning matters to a reader of the scores."""

    #: There is no score, it may be wrong, or it is that of chance.
    RESULT = 0
    #: The score or the model may be better than it looks, or worse.
    DOUBT = 1
    #: A property of the data that mostly does no harm.
    DATA = 2


@dataclass(frozen=True)
class Caution:
    """A warning, or several that differ in settings, ids and numbers only.

    Attributes
    ----------
    texts : tuple of str
        Different texts, in the order of their first appearance.
    count : int
        Number of times that one of them was raised.
    """

    texts: tuple[str, ...]
    count: int

    def written(self, write: Callable[[str], str]) -> Caution:
        """Return the warning with the texts that a function writes for a place other than Python."""
        return Caution(tuple(map(write, self.texts)), self.count)


def cautions_of(warnings: Iterable[tuple[Importance, str]]) -> list[Caution]:
    """Return each warning once, the important first.

    Parameters
    ----------
    warnings : iterable of (Importance, str)
        Warnings in the order in which they were raised.

    Examples
    --------
    >>> from dyadlearn.views.cautions import Importance, cautions_of
    >>> raised = ["The kernel is singular.", "Setting A has no score.", "Setting C has no score."]
    >>> levels = [Importance.DATA, Importance.RESULT, Importance.RESULT]
    >>> for caution in cautions_of(zip(levels, raised)):
    ...     print(caution.count, caution.texts[0])
    2 Setting A has no score.
    1 The kernel is singular.
    """
    groups: dict[str, list[str]] = {}
    levels: dict[str, Importance] = {}
    for importance, text in warnings:
        key = _DIFFERENCES.sub("#", text)
        groups.setdefault(key, []).append(text)
        levels[key] = min(importance, levels.get(key, importance))
    cautions = []
    for key in sorted(groups, key=levels.__getitem__):
        texts = groups[key]
        cautions.append(Caution(tuple(dict.fromkeys(texts)), len(texts)))
    return cautions
