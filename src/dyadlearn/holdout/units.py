"""What leaves together when predictions are held out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dyadlearn._state import Stored
from dyadlearn.settings import Setting

__all__ = ["Units"]


@dataclass(frozen=True, eq=False)
class Units(Stored):
    """Numbers that are equal where something leaves together; None where everything leaves by itself.

    Attributes
    ----------
    instances, tasks : integer arrays of shape (m,) and (q,), or None
        In the settings that leave them out.
    cells : integer array of shape (m, q), of observed pairs (n,), or None
        In setting A.
    """

    instances: np.ndarray | None = None
    tasks: np.ndarray | None = None
    cells: np.ndarray | None = None

    @classmethod
    def of_folds(cls, tests: Iterable[np.ndarray], setting: Setting, shape: tuple[int, int]) -> Self:
        """Return the units of folds that predict every cell once, given masks (m, q) of what each of them predicts.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.holdout.units import Units
        >>> from dyadlearn.settings import Setting
        >>> first = np.array([[True, True], [False, False], [True, True]])
        >>> Units.of_folds([first, ~first], Setting.B, (3, 2)).instances
        array([0, 1, 0])
        """
        rows, columns, cells = (np.full(size, -1) for size in (*shape, shape))
        for number, test in enumerate(tests):
            if setting is Setting.A:
                cells[test] = number
            else:
                # A block of both sides: the last one of a row of blocks gives all of them its number.
                rows[test.any(axis=1)], columns[test.any(axis=0)] = number, number
        if setting is Setting.A:
            return cls(cells=cells)
        return cls(rows if setting.new_instance else None, columns if setting.new_task else None)

    def fit(self, shape: tuple[int, ...], cells: tuple[int, ...] | None = None) -> bool:
        """Tell whether these are units of a grid (m, q), with cells of the same shape or of another."""
        wanted = ((self.instances, shape[:1]), (self.tasks, shape[1:]), (self.cells, shape if cells is None else cells))
        return all(each is None or (each.dtype.kind in "iu" and each.shape == size) for each, size in wanted)
