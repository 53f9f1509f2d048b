"""What a hold-out prediction is asked of: a model of pairs, its labels, and when a solver stops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from dyadlearn._array import Array, double, namespace
from dyadlearn.holes.complete import Completion
from dyadlearn.pairing import Pairing

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A fitted model as the hold-out formulas see it.

    Attributes
    ----------
    pairing : Pairing
        The model of pairs, on its sides and under its regularisation.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q) or None
        Of the squared loss of each observed cell, positive there.
    tol, max_iter : float and int
        When an iterative solver stops, where labels are missing or weighted.
    """

    pairing: Pairing
    Y: Array
    weights: Array | None = None
    tol: float = 1e-8
    max_iter: int = 1000

    #: Whether labels are those of some pairs, and there is no grid: see `dyadlearn.holdout.observed.PairProblem`.
    is_listed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("Y", "weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, double(getattr(self, name)))

    @cached_property
    def is_complete(self) -> bool:
        """Whether every cell is observed and weighs the same, so that the closed forms apply."""
        xp = namespace(self.Y)
        return self.weights is None and not bool(xp.any(xp.isnan(self.Y)))

    @property
    def targets(self) -> Array:
        """What held-out predictions are compared with: the labels (m, q), NaN where not observed."""
        return self.Y

    def at(self, alpha: float, task_alpha: float | None = None) -> Problem:
        """Return the same problem under another regularisation."""
        posed = replace(self, pairing=self.pairing.at(alpha, task_alpha))
        if "is_complete" in self.__dict__:  # a grid is looked through once
            posed.__dict__["is_complete"] = self.is_complete
        return posed

    def complete(self, start: Completion | None = None) -> Completion:
        """Complete the labels, from the solution of a problem nearby."""
        return self.pairing.complete(self.Y, self.weights, start, tol=self.tol, max_iter=self.max_iter)
