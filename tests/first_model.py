"""The shortest model of pairs: five members, and an estimator of a few lines (CONTRIBUTING, how to add a model)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dyadlearn._array import Array
from dyadlearn.filters import Tikhonov
from dyadlearn.models.base import PairwiseRidge
from dyadlearn.models.grid import TaskKernelParameters
from dyadlearn.pairing import Coupled, Independent, Pairing
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich


@dataclass(frozen=True, eq=False)
class Plain(Coupled):
    """Kronecker ridge regression, of which no formula is known."""

    words: ClassVar[str] = "a model with five members"

    spectrum: Spectrum
    task_spectrum: Spectrum
    alpha: float

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        return self.spectrum, self.task_spectrum

    @property
    def alphas(self) -> dict[str, float]:
        return {"alpha": self.alpha}

    @property
    def remainder(self) -> Array:
        values = self.spectrum.values[:, None] * self.task_spectrum.values[None, :]
        return self.alpha / (values + self.alpha)

    def coefficients(self, Y: Array) -> Array:
        rotated = (
            self.task_spectrum.rotate(self.spectrum.rotate(Y).T).T * self.remainder / self.alpha
        )
        return sandwich(self.spectrum.basis, rotated, self.task_spectrum.basis)


@dataclass(eq=False, repr=False)
class PlainRidge(TaskKernelParameters, PairwiseRidge):
    """The estimator of `Plain`, without an intercept."""

    _coupled = Plain

    alpha: float = 1.0
    fit_intercept: bool = False

    def _pairing(self, side: Any, task_side: Any, alpha: float) -> Pairing:
        if task_side is None:
            return Independent.of(side.spectrum, Tikhonov(), alpha)
        return Plain(side.spectrum, task_side.spectrum, alpha)
