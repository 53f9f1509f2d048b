"""Pair kernels of which some come from the labels themselves, so that their sides cannot be new."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

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

    words: ClassVar[str] = "pair kernel ridge regression on profiles of its labels"

    profiled: tuple[bool, bool] = (True, True)

    @property
    def knows_rows(self) -> bool:
        """Whether rows of training are known by themselves: by their profiles."""
        return True

    @property
    def uses_labels(self) -> bool:
        """Whether kernels are made of the labels: they are."""
        return True

    @property
    def transposed(self) -> Self:
        """The same with tasks for instances."""
        return replace(super().transposed, profiled=self.profiled[::-1])

    @property
    def process(self) -> None:
        """None: labels say how alike instances are, and so are not drawn given that."""
        return None

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
