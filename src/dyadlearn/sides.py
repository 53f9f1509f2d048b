"""Names of the two sides in output: instances and tasks, or names chosen by the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dyadlearn._messages import Message
from dyadlearn._tables import free_name
from dyadlearn.settings import NewSides, Setting

__all__ = ["SideNames", "plural", "side_names"]

# Largest number of letters of a name, which must fit into headings, axes and tables.
_LONGEST = 40
# Characters with a special meaning in pages, pictures and consoles.
_MARKUP = frozenset('<>`$\\{}"')
# Words whose plural is the same as the singular.
_ALIKE = ("species", "series")


class SideNames(NamedTuple):
    """Names of the two sides, in singular and plural.

    Attributes
    ----------
    instance, task : str
        Singular names.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> names = SideNames("host", "parasite")
    >>> names.instances, names.tasks
    ('hosts', 'parasites')
    """

    instance: str = "instance"
    task: str = "task"

    @property
    def instances(self) -> str:
        """Plural name of the first side."""
        return plural(self.instance)

    @property
    def tasks(self) -> str:
        """Plural name of the second side."""
        return plural(self.task)

    @property
    def both(self) -> tuple[str, str]:
        """Plural names of both sides."""
        return self.instances, self.tasks

    def headings(self, taken: Iterable[str] = ()) -> tuple[str, str]:
        """Return two different column names for both sides in one table, none of which is among `taken`.

        Examples
        --------
        >>> from dyadlearn.sides import SideNames
        >>> SideNames("document", "label").headings(["score", "label"]), SideNames("node", "node").headings()
        (('document', 'label_'), ('node', 'other node'))
        """
        first = free_name(self.instance, set(taken))
        if self.instance == self.task:
            second = f"other {self.task}"
        else:
            second = self.task
        return first, free_name(second, {*taken, first})

    def new_in(self, setting: Setting | NewSides) -> str:
        """Return the name of the new part of a setting.

        Examples
        --------
        >>> from dyadlearn.sides import SideNames
        >>> from dyadlearn.settings import Setting
        >>> [SideNames("host", "parasite").new_in(setting) for setting in Setting]
        ['pair', 'host', 'parasite', 'both']
        """
        names: dict[Any, str] = {Setting.B: self.instance, Setting.C: self.task}
        return names.get(setting, setting.description)

    def in_words(self, setting: Setting) -> str:
        """Return the description of a setting for titles and legends.

        Examples
        --------
        >>> from dyadlearn.sides import SideNames
        >>> from dyadlearn.settings import Setting
        >>> SideNames("host", "parasite").in_words(Setting.C)
        'C: new parasite'
        """
        word = self.new_in(setting)
        if word == setting.description:
            return setting.in_words
        return f"{setting.value}: new {word}"


def plural(word: str) -> str:
    """Return the plural of an English noun.

    Examples
    --------
    >>> from dyadlearn.sides import plural
    >>> plural("drug"), plural("assay"), plural("study"), plural("virus")
    ('drugs', 'assays', 'studies', 'viruses')
    >>> plural("species"), plural("analysis"), plural("protein (human)")
    ('species', 'analyses', 'proteins (human)')
    """
    noun, bracket, aside = word.partition(" (")
    lower = noun.lower()
    if lower.endswith("sis"):
        noun = f"{noun[:-2]}es"
    elif lower.endswith("y") and not lower.endswith(("ay", "ey", "oy", "uy")):
        noun = f"{noun[:-1]}ies"
    elif not lower.endswith(_ALIKE):
        noun += "es" if lower.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return f"{noun}{bracket}{aside}"


def side_names(sides: Any = None, *, network: bool = False) -> SideNames:
    """Return the names of the sides.

    Parameters
    ----------
    sides : (str, str) or None
        Singular names of an instance and of a task; None is ``("instance", "task")``, and
        ``("node", "node")`` in a network.
    network : bool, default=False
        Whether both sides are the same nodes, so that both may have the same name.

    Returns
    -------
    SideNames

    Raises
    ------
    ValueError
        If `sides` are not two different short words of plain letters.
    """
    if sides is None:
        if network:
            return SideNames("node", "node")
        return SideNames()
    if isinstance(sides, Sequence) and not isinstance(sides, str):
        pair = tuple(sides)
    else:
        pair = ()
    words = [word.strip() for word in pair if isinstance(word, str)]
    if len(pair) != 2 or len(words) != 2 or not all(words):
        raise _refusal(
            Message(
                'words, for one instance and for one task, such as [("host", '
                '"parasite")|host,parasite]'
            ),
            _cut(sides),
        )
    for word in words:
        if len(word) > _LONGEST:
            raise _refusal(
                f"words of at most {_LONGEST} letters", f"one of {len(word)}: {_cut(word)}"
            )
        if not word.isprintable() or not word[0].isalnum() or _MARKUP & set(word):
            marks = " ".join(sorted(_MARKUP))
            raise _refusal(
                f"words of plain letters, without line breaks and any of {marks}", _cut(word)
            )
    if words[0].casefold() == words[1].casefold() and not (network and words[0] == words[1]):
        raise _refusal("different words", f"{words[0]!r} and {words[1]!r}")
    return SideNames(*words)


def _refusal(expected: str, actual: str) -> ValueError:
    return ValueError(
        Message("<sides> must be two {expected}, found {found}.", expected=expected, found=actual)
    )


def _cut(value: Any) -> str:
    """Return a value as it is written in Python, shortened for a message."""
    text = repr(value)
    if len(text) <= 2 * _LONGEST:
        return text
    return f"{text[: 2 * _LONGEST]}…"
