"""Labels of cells that are left out together, for any new sides, and baselines without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array
from dyadlearn.leverage import nothing_left
from dyadlearn.solve.crossing import Condition, leave_unions_out
from dyadlearn.solve.inverse import Inverse


@dataclass(frozen=True, eq=False)
class CellUnits:
    """Labels of cells that are left out together.

    A label is predicted without all labels that meet one of its conditions: those of its level, or
    group of levels, of a new side, or those of its cell if no side is new.

    Attributes
    ----------
    conditions : tuple of Condition
        One for each new side, or one for the cell.
    """

    conditions: tuple[Condition, ...]

    @classmethod
    def of(
        cls,
        places: Sequence[np.ndarray],
        new: Sequence[int],
        alike: tuple[int, int] | None = None,
        groups: Sequence[np.ndarray | None] | None = None,
    ) -> CellUnits:
        """Return the units of labels.

        Parameters
        ----------
        places : sequence of integer arrays of shape (n,)
            Level of each side, for each label.
        new : sequence of int
            Sides that are new.
        alike : (int, int) or None
            Two sides with the same levels whose order does not matter: a level is left out on both.
        groups : sequence of integer arrays, or None
            Group of each level of each side; None means single levels.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.holdout.cell_units import CellUnits
        >>> units = CellUnits.of([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 2])], (0, 1))
        >>> [members.tolist() for _, members in units.sets()]
        [[0, 1, 2], [0, 1], [0, 2, 3], [2, 3]]
        """
        codes = []
        for side, at in enumerate(places):
            of_side = None if groups is None else groups[side]
            codes.append(at if of_side is None else of_side[at])
        if not len(new):
            columns = list(places)
            if alike is not None:
                first, second = (places[side] for side in alike)
                columns[alike[0]] = np.minimum(first, second)
                columns[alike[1]] = np.maximum(first, second)
            cell = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
            return cls(((cell, (cell,)),))
        conditions: list[Condition] = []
        for side in new:
            both = alike if alike is not None and side in alike else (side,)
            conditions.append((codes[side], tuple(codes[other] for other in both)))
        return cls(tuple(conditions))

    def sets(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield positions of labels with the same conditions, and of the labels that are left out for them."""
        asked = np.stack([codes for codes, _ in self.conditions])
        distinct, number = np.unique(asked, axis=1, return_inverse=True)
        order = np.argsort(number.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(number.reshape(-1)))
        for codes, here in zip(distinct.T, np.split(order, ends[:-1]), strict=True):
            is_left = np.zeros(asked.shape[1], dtype=bool)
            for code, (_, holders) in zip(codes, self.conditions, strict=True):
                for held in holders:
                    is_left |= held == code
            yield here, np.flatnonzero(is_left)

    @property
    def as_partition(self) -> np.ndarray | None:
        """Unit of each label; None if labels are in several sets."""
        if len(self.conditions) == 1 and len(self.conditions[0][1]) == 1:
            return self.conditions[0][0]
        return None

    def left_out(self, inverse: Inverse, labels: Array) -> Array:
        """Return the prediction (n,) of each label by the model without what its conditions leave out."""
        column = labels[:, None]
        units = self.as_partition
        if units is not None:
            return inverse.leave_out(column, units)[:, 0]
        if len(self.conditions) == 2 and all(len(holders) == 1 for _, holders in self.conditions):
            codes = [codes for codes, _ in self.conditions]
            return inverse.leave_crossed_out(column, *codes)[:, 0]
        return leave_unions_out(inverse, labels, self.conditions)

    def baselines(
        self,
        labels: np.ndarray,
        weights: np.ndarray,
        sides: Sequence[tuple[str, np.ndarray]],
        new: Sequence[str],
    ) -> dict[str, np.ndarray]:
        """Return predictions of the labels from means of the labels that are not left out.

        They are the grand mean; the mean of the level of each side that is not new; and their sum,
        the grand mean plus the difference of each of these means from it. A mean that is not
        available is replaced by the grand mean.

        Parameters
        ----------
        labels, weights : arrays of shape (n,)
        sides : sequence of (name, integer array of shape (n,))
            Name of each side, and the level of each label.
        new : sequence of str
            Names of the new sides.
        """
        values = labels * weights
        grand = np.empty(len(labels))
        known = {name: at for name, at in sides if name not in new}
        means = {name: np.empty(len(labels)) for name in known}
        for asked, left in self.sets():
            if len(left) == len(labels):
                raise nothing_left()
            kept = np.ones(len(labels), dtype=bool)
            kept[left] = False
            total = values[kept].sum() / weights[kept].sum()
            grand[asked] = total
            for name, at in known.items():
                size = int(at.max()) + 1
                sums = np.bincount(at[kept], values[kept], minlength=size)[at[asked]]
                counts = np.bincount(at[kept], weights[kept], minlength=size)[at[asked]]
                means[name][asked] = np.where(counts > 0, sums / np.maximum(counts, 1e-300), total)
        result = {"grand_mean": grand}
        for name, _ in sides:
            result[f"{name}_means"] = means.get(name, grand)
        result["sum"] = grand + sum(mean - grand for mean in means.values())
        return result
