"""The four prediction settings A to D, and their names in other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Self

from dyadlearn._checks import warn_renamed
from dyadlearn._state import Stored

__all__ = ["NewSides", "Setting", "as_setting", "as_settings"]

#: Groups of the rows of each side that are left out together; None for a side without groups.
Groups = tuple[Any, ...]

#: Names of the parameters that take the groups of each side, and of what they group.
GROUP_NAMES = ("groups", "task_groups")
_GROUPED = ("instances", "tasks")


class Setting(Stored, StrEnum):
    """Prediction setting: the set of sides of a pair that are new at prediction time.

    A is a new pair of a known instance and a known task, B a new instance with a known task, C a
    known instance with a new task, and D a new instance with a new task.

    Attributes
    ----------
    new : tuple of int
        Axes of the new sides, in ascending order: 0 for the instances, 1 for the tasks.

    Examples
    --------
    >>> from dyadlearn.settings import Setting
    >>> [setting.new for setting in Setting]
    [(), (0,), (1,), (0, 1)]
    """

    new: tuple[int, ...]

    A = "A", ()
    B = "B", (0,)
    C = "C", (1,)
    D = "D", (0, 1)

    def __new__(cls, letter: str, new: tuple[int, ...] = ()) -> Self:
        """Return the member with a letter and the axes of its new sides."""
        setting = str.__new__(cls, letter)
        setting._value_ = letter
        setting.new = new
        return setting

    @property
    def new_instance(self) -> bool:
        """Deprecated: whether the instance is new."""
        warn_renamed("Setting.new_instance", "0 in setting.new")
        return 0 in self.new

    @property
    def new_task(self) -> bool:
        """Deprecated: whether the task is new."""
        warn_renamed("Setting.new_task", "1 in setting.new")
        return 1 in self.new

    @classmethod
    def of(cls, new: Iterable[int]) -> Setting:
        """Return the setting in which the sides of some axes are new.

        Examples
        --------
        >>> from dyadlearn.settings import Setting
        >>> Setting.of([1]).value
        'C'
        """
        axes = tuple(sorted(new))
        return next(setting for setting in cls if setting.new == axes)

    def of_new_sides(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return what is given for each side, such as groups, with None for the sides that are known.

        Examples
        --------
        >>> from dyadlearn.settings import Setting
        >>> Setting.B.of_new_sides(["families", "classes"])
        ('families', None)
        """
        return tuple(value if axis in self.new else None for axis, value in enumerate(values))

    def state(self) -> dict[str, Any]:
        """Return the letter of the setting."""
        return {"value": self.value}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Setting:
        """Return the setting of a letter."""
        return cls(**state)

    @property
    def description(self) -> str:
        """Name of the new part: pair, instance, task or both."""
        return {"A": "pair", "B": "instance", "C": "task", "D": "both"}[self.value]

    @property
    def in_words(self) -> str:
        """Letter and description for titles and legends, such as ``"B: new instance"`` or ``"D: both new"``."""
        return f"{self.value}: {'both new' if self is Setting.D else f'new {self.description}'}"

    @property
    def transposed(self) -> Setting:
        """Setting of the transposed problem, in which tasks are the instances."""
        return Setting.of(1 - axis for axis in self.new)


class NewSides(NamedTuple):
    """Prediction setting of cells of N sides: the set of the sides that are new, none for a new cell.

    Attributes
    ----------
    new : tuple of int
        Positions of the new sides, in ascending order.
    names : tuple of str
        Their names.

    Examples
    --------
    >>> from dyadlearn.settings import NewSides
    >>> NewSides((0, 2), ("mother", "trial")).value, NewSides((), ()).value
    ('mother + trial', 'cell')
    """

    new: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def value(self) -> str:
        """Names of the new sides in one text."""
        return " + ".join(self.names) or "cell"

    @property
    def description(self) -> str:
        """Empty: the value describes the setting."""
        return ""

    @property
    def in_words(self) -> str:
        """Description for titles and legends."""
        return f"new {self.value}"


#: Names of the settings elsewhere, in lower case: RLScore, xnet, TDC and DeepPurpose, DataSAIL,
#: genomic prediction of lines in environments, and of hybrids.
_WORDS = {
    Setting.A: ("in_sample_loo", "interaction", "edges", "random", "r", "cv2", "t2"),
    Setting.B: ("leave_x1_out", "row", "cold_instance", "i1e", "cv1"),
    Setting.C: ("leave_x2_out", "column", "cold_task", "i1f", "cv0"),
    Setting.D: ("out_of_sample_loo", "both", "vertices", "cold_both", "i2", "cv00", "t0"),
}


def as_setting(name: str | Setting) -> Setting:
    """Return the setting with a given name.

    Parameters
    ----------
    name : str or Setting
        A letter A to D, or the name of the setting elsewhere, such as ``leave_x1_out`` of RLScore,
        ``row`` or
        ``vertices`` of xnet, ``I1e`` of DataSAIL, ``cold_task`` as in TDC, or ``CV1`` of genomic prediction.

    Returns
    -------
    Setting

    Examples
    --------
    >>> from dyadlearn.settings import as_setting
    >>> as_setting("leave_x2_out").value
    'C'
    """
    if not isinstance(name, str):
        raise TypeError(
            f"A setting is named by a string, such as 'B', found {type(name).__name__}; sides of a "
            f"MultiwayRidge that are new are named by new=."
        )
    word = name.strip().lower().replace("-", "_")
    for setting, words in _WORDS.items():
        if word in (setting.value.lower(), *words):
            return setting
    if word == "t1":
        raise ValueError(
            "T1 does not name the new parent: use B if new parents are rows, C if they are columns."
        )
    raise ValueError(
        f"Unknown setting {name!r}: expected A (a new pair), B (a new instance), C (a new task) or "
        f"D (both new)."
    )


# What a call for one or several settings takes.
_EXPECTED = "letters of A, B, C and D such as 'BD', one name, or a list of names"


def as_settings(settings: str | Iterable[str | Setting]) -> list[Setting]:
    """Return one or several settings, given as letters such as ``"AD"``, as a name, or as a sequence of names.

    Examples
    --------
    >>> from dyadlearn.settings import as_settings
    >>> [setting.value for setting in as_settings("CV1")], [setting.value for setting in as_settings("AD")]
    (['B'], ['A', 'D'])
    """
    if isinstance(settings, str):
        is_letters = set(settings.upper()) <= set("ABCD")
        settings = list(settings) if is_letters else [settings]
    if not isinstance(settings, Iterable):
        raise TypeError(f"setting must be {_EXPECTED}, found {settings!r}.")
    wanted = [as_setting(name) for name in settings]
    if not wanted:
        raise ValueError(f"setting names no setting: expected {_EXPECTED}.")
    repeated = [name.value for name in dict.fromkeys(wanted) if wanted.count(name) > 1]
    if repeated:
        raise ValueError(
            f"setting must name each setting once, found {', '.join(repeated)} more than once."
        )
    return wanted


def check_groups(setting: Setting, groups: Groups, cells: Any = None) -> None:
    """Raise if there are groups of instances, tasks or pairs that the setting does not leave out."""
    unused = [
        (GROUP_NAMES[axis], _GROUPED[axis])
        for axis, groups_of_side in enumerate(groups)
        if groups_of_side is not None and axis not in setting.new
    ]
    if cells is not None and setting is not Setting.A:
        unused.append(("cells", "single pairs"))
    if unused:
        name, what = unused[0]
        raise ValueError(
            f"{name} are groups of left-out {what}, and setting {setting.value} leaves none out."
        )
