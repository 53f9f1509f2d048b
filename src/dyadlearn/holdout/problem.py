"""What a hold-out prediction is asked of: a method, its spectra, its labels, its regularisation."""

from __future__ import annotations

from dataclasses import dataclass, field

from dyadlearn._array import Array
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
    spectrum : Spectrum
        Of the instances.
    alpha : float
    task_spectrum : Spectrum or None
        Of the tasks; None for independent tasks.
    task_alpha : float
    filter, task_filter : SpectralFilter
    sign : int
        For a network, +1 if Y is symmetric and −1 if it is antisymmetric.
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
