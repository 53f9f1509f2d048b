"""Pair kernels of which some come from the labels themselves, so that their sides cannot be new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.settings import Setting

__all__ = ["Profiled"]


@dataclass(frozen=True, eq=False)
class Profiled(PairKernel):
    """A pair kernel whose sides are described by profiles of labels.

    Parameters
    ----------
    profiled : (bool, bool)
        Whether instances are, and whether tasks are.
    """

    profiled: tuple[bool, bool] = (True, True)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings in which no side is new that is described by its labels."""
        return tuple(setting for setting in super().settings if not self._described_by_labels(setting))

    def check_request(self, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> None:
        """Refuse settings in which a side is new that is described by its labels."""
        super().check_request(setting, groups, task_groups, cells)
        if side := self._described_by_labels(setting):
            raise ValueError(
                f"Setting {setting.value} leaves out {side}, which this model describes by profiles of their labels, "
                f"so that nothing is known of new ones: fit it for setting {setting.value}, or with stages=1."
            )

    def _described_by_labels(self, setting: Setting) -> str:
        """Return which side is new in a setting and described by labels; nothing where none is."""
        if setting.new_instance and self.profiled[0]:
            return "instances"
        return "tasks" if setting.new_task and self.profiled[1] else ""
