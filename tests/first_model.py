"""The shortest model of pairs: five members, and an estimator of a few lines (CONTRIBUTING, how to add a model)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dyadlearn._array import Array
from dyadlearn.filters import Tikhonov
from dyadlearn.models.base import RidgeModel
from dyadlearn.models.side import KernelSpec, Side
from dyadlearn.models.spec import ModelSpec
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


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainSpec(ModelSpec):
    """Parameters of `PlainRidge`."""

    def pairing_type(self, has_tasks: bool) -> type[Pairing]:
        return Plain if has_tasks else Independent

    def pairing(self, sides: tuple[Side, ...], alphas: Mapping[str, Any]) -> Pairing:
        spectra = [side.spectrum for side in sides]
        if len(spectra) == 1:
            return Independent.of(*spectra, Tikhonov(), alphas["alpha"])
        return Plain(*spectra, alphas["alpha"])


@dataclass(eq=False, repr=False)
class PlainRidge(RidgeModel):
    """The estimator of `Plain`, without an intercept; instances and tasks have the same kind of kernel."""

    alpha: float = 1.0
    fit_intercept: bool = False

    def _spec(self) -> ModelSpec:
        if self.fit_intercept:
            raise ValueError("PlainRidge has no intercept: set fit_intercept=False.")
        kernel = KernelSpec(self.kernel, self.kernel_params, self.repair)
        return PlainSpec(
            name=type(self).__name__,
            kernels=(kernel, kernel),
            repair=self.repair,
            fit_intercept=False,
            device=self.device,
        )
