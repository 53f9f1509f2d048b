"""The four prediction settings A to D, and their names in other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from dyadlearn._state import Stored

__all__ = ["Setting", "as_setting", "as_settings"]


class Setting(Stored, StrEnum):
    """Prediction setting: which parts of a pair are new at prediction time.

    A is a new pair of a known instance and a known task, B a new instance with a known task, C a
    known instance with a new task, and D a new instance with a new task.

    Examples
    --------
    >>> from dyadlearn.settings import Setting
    >>> Setting.D.new_instance, Setting.D.new_task
    (True, True)
    """

    A = "A"
    B = "B"
    C = "C"
    D = "D"

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
    def new_instance(self) -> bool:
        """Whether the instance has no training pair."""
        return self in (Setting.B, Setting.D)

    @property
    def new_task(self) -> bool:
        """Whether the task has no training pair."""
        return self in (Setting.C, Setting.D)

    @property
    def transposed(self) -> Setting:
        """Setting of the transposed problem, in which tasks are the instances."""
        return {Setting.B: Setting.C, Setting.C: Setting.B}.get(self, self)


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
        raise TypeError(f"A setting is named by a string, found {type(name).__name__}.")
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
    found = [as_setting(each) for each in settings]
    if not found:
        raise ValueError(f"setting names no setting: expected {_EXPECTED}.")
    repeated = [each.value for each in dict.fromkeys(found) if found.count(each) > 1]
    if repeated:
        raise ValueError(
            f"setting must name each setting once, found {', '.join(repeated)} more than once."
        )
    return found


def check_groups(setting: Setting, groups: Any, task_groups: Any, cells: Any = None) -> None:
    """Raise if there are groups of instances, tasks or pairs that the setting does not leave out."""
    for labels, name, what, leaves in (
        (groups, "groups", "instances", setting.new_instance),
        (task_groups, "task_groups", "tasks", setting.new_task),
        (cells, "cells", "single pairs", setting is Setting.A),
    ):
        if labels is not None and not leaves:
            raise ValueError(
                f"{name} are groups of left-out {what}, and setting {setting.value} leaves none "
                f"out."
            )
