"""What the two sides are called: instances and tasks, or what a user says they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["SideNames", "plural", "side_names"]

# A name stands in a heading, on an axis and in a table.
_LONGEST = 40


class SideNames(NamedTuple):
    """What one of each side is called, with the words for several.

    Attributes
    ----------
    instance, task : str

    Examples
    --------
    >>> from dyadlearn.diagnostics.sides import SideNames
    >>> names = SideNames("host", "parasite")
    >>> names.instances, names.tasks
    ('hosts', 'parasites')
    """

    instance: str = "instance"
    task: str = "task"

    @property
    def instances(self) -> str:
        """What several of the first side are called."""
        return plural(self.instance)

    @property
    def tasks(self) -> str:
        """What several of the second side are called."""
        return plural(self.task)

    @property
    def both(self) -> tuple[str, str]:
        """What several of each side are called."""
        return self.instances, self.tasks


def plural(word: str) -> str:
    """Return the word for several things.

    Examples
    --------
    >>> from dyadlearn.diagnostics.sides import plural
    >>> plural("drug"), plural("assay"), plural("study"), plural("virus")
    ('drugs', 'assays', 'studies', 'viruses')
    """
    lower = word.lower()
    if lower.endswith("y") and not lower.endswith(("ay", "ey", "oy", "uy")):
        return f"{word[:-1]}ies"
    return f"{word}es" if lower.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def side_names(sides: Any = None, *, network: bool = False) -> SideNames:
    """Return what the sides are called.

    Parameters
    ----------
    sides : (str, str) or None
        Words for one instance and for one task; None is ``("instance", "task")``, and ``("node", "node")`` in a
        network.
    network : bool, default=False
        Whether both sides are the same nodes, so that both may have the same name.

    Returns
    -------
    SideNames

    Raises
    ------
    ValueError
        If these are not two different words.
    """
    if sides is None:
        return SideNames("node", "node") if network else SideNames()
    given = tuple(sides) if isinstance(sides, Sequence) and not isinstance(sides, str) else ()
    words = [word.strip() for word in given if isinstance(word, str)]
    if len(given) != 2 or len(words) != 2 or not all(words) or max(map(len, words)) > _LONGEST:
        raise ValueError(
            'sides must be two words, for one instance and for one task, such as ("host", "parasite"), found '
            f"{sides!r}."
        )
    if words[0] == words[1] and not network:
        raise ValueError(f"sides must be two different words, found {words[0]!r} twice.")
    return SideNames(*words)
