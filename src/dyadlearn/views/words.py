"""Numbers and names as a reader wants them."""

from __future__ import annotations

from dyadlearn._words import joined, number, power, superscript
from dyadlearn.sides import SideNames

__all__ = ["joined", "number", "power", "superscript", "told_apart"]


def told_apart(names: SideNames) -> SideNames:
    """Return names of two sides that differ, as those of a network do not.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.views.words import told_apart
    >>> tuple(told_apart(SideNames("node", "node"))), tuple(told_apart(SideNames("host", "parasite")))
    (('first node', 'second node'), ('host', 'parasite'))
    """
    return SideNames(f"first {names.instance}", f"second {names.task}") if names.instance == names.task else names
