"""What a hold-out prediction is asked of: a method, its spectra, its labels, its regularisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dyadlearn._array import Array, namespace
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.spectrum import Spectrum

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """A fitted model as the hold-out formulas see it.

    Attributes
    ----------
    method : {"independent", "two_step", "kronecker", "network"}
        A network is two-step with one node set on both sides and labels that keep a symmetry.
    Y : array of shape (m, q)
        NaN where not observed.
    spectrum : Spectrum
        Of the instances.
    alpha : float
    task_spectrum : Spectrum or None
        Of the tasks; None for independent tasks.
    task_alpha : float
    filter, task_filter : SpectralFilter
    sign : int
        For a network, +1 if Y is symmetric and −1 if it is antisymmetric.
    weights : array of shape (m, q) or None
        Of the squared loss of each observed cell, positive there.
    tol, max_iter : float and int
        When an iterative solver stops, where labels are missing or weighted.
    """

    method: str
    Y: Array
    spectrum: Spectrum
    alpha: float
    task_spectrum: Spectrum | None = None
    task_alpha: float = 0.0
    filter: SpectralFilter = field(default_factory=Tikhonov)
    task_filter: SpectralFilter = field(default_factory=Tikhonov)
    sign: int = 1
    weights: Array | None = None
    tol: float = 1e-8
    max_iter: int = 1000

    @cached_property
    def is_complete(self) -> bool:
        """Whether every cell is observed and weighs the same, so that the closed forms apply."""
        xp = namespace(self.Y)
        return self.weights is None and not bool(xp.any(xp.isnan(self.Y)))
