"""Eigenvalues of the kernels of a fitted model, and how its filters shrink them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._text import joined, number
from dyadlearn.diagnostics.fitted import closed_form_of
from dyadlearn.models.side import KernelSpec
from dyadlearn.pairing.base import operators_of
from dyadlearn.sides import SideNames
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class SideSpectrum:
    r"""The eigenvalues of a kernel under a filter.

    Attributes
    ----------
    values : array of shape (k,)
        Eigenvalues :math:`\sigma` in descending order; truncated eigenvalues are zero.
    shrinkage : array of shape (k,) or None
        The filter :math:`f(\sigma)`, from 1 to 0; None if the kernel has no separate filter.
    n_rows : int
        Size of the kernel.
    alpha : float or None
        Its regularisation; None if it has no separate one.
    kernel : str
        Description of the kernel.
    has_constant : bool
        Whether the side has a constant, which no filter shrinks. The eigenvalues are then those of
        the centred kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.spectrum import SideSpectrum
    >>> SideSpectrum(np.array([3.0, 1.0]), np.array([0.75, 0.5]), n_rows=2).effective_dimension
    1.25
    """

    values: np.ndarray
    shrinkage: np.ndarray | None
    n_rows: int
    alpha: float | None = None
    kernel: str = ""
    has_constant: bool = False

    @property
    def rank(self) -> int:
        """Number of non-zero eigenvalues."""
        return int(np.count_nonzero(self.values > 0))

    @property
    def effective_dimension(self) -> float:
        r"""Trace of the hat matrix, :math:`\sum_i f(\sigma_i)` plus one for a constant; NaN without a filter."""
        if self.shrinkage is None:
            return float("nan")
        return float(self.shrinkage.sum()) + self.has_constant


def spectra_of_model(model: Any) -> dict[str, SideSpectrum]:
    """Return the spectra of a fitted model with its regularisation.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    dict of str to SideSpectrum
        ``"instances"`` and ``"tasks"``, or ``"nodes"`` for a network; also ``"pairs"`` if the model filters pairs, as
        Kronecker ridge regression does.
    """
    fitted = closed_form_of(model)
    pairing = fitted.pairing
    kernels = [_kernel(side.spec) for side in fitted.sides]
    sides: Sequence[Smoother | Spectrum] = pairing.smoothers or pairing.spectra
    named = zip(pairing.side_names, sides, kernels, strict=False)  # a network has one side twice
    spectra = {name: _spectrum_of_side(side, kernel) for name, side, kernel in named}
    if pairing.smoothers:
        return spectra
    return {**spectra, "pairs": _spectrum_of_pairs(pairing)}


def _spectrum_of_pairs(pairing: Any) -> SideSpectrum:
    """Return the eigenvalues of the kernel between pairs, to which a model applies its filter."""
    operators = operators_of(pairing)
    values = to_numpy(operators.kernel_values).astype(np.float64).ravel()
    shrinkage = to_numpy(operators.shrinkage).astype(np.float64).ravel()
    order = np.argsort(values)[::-1]
    return SideSpectrum(
        values[order],
        shrinkage[order],
        n_rows=math.prod(spectrum.n_rows for spectrum in pairing.spectra),
        alpha=pairing.alphas["alpha"],
        kernel="product" if operators.is_product else "between pairs",
    )


def _spectrum_of_side(side: Smoother | Spectrum, kernel: str) -> SideSpectrum:
    """Return the eigenvalues of one side, with its filter if it has a separate one."""
    spectrum = side.spectrum if isinstance(side, Smoother) else side
    values = np.sort(to_numpy(spectrum.penalised).astype(np.float64))[::-1]
    shrinkage = None
    alpha = None
    # The regularisation is NaN if each task has one.
    if isinstance(side, Smoother) and not np.isnan(side.alpha):
        alpha = side.alpha
        shrinkage = side.filter.shrinkage(values, alpha)
    has_constant = spectrum.has_free_constant
    return SideSpectrum(values, shrinkage, spectrum.n_rows, alpha, kernel, has_constant)


def _kernel(spec: KernelSpec) -> str:
    """Return the kernel of a side with its parameters and its constant, or the descriptions of a learned kernel."""
    descriptions = getattr(spec.kernel, "names", ())
    if descriptions:
        return f"learned, of {joined(descriptions)}"
    if isinstance(spec.kernel, str):
        words = spec.kernel
    else:
        words = getattr(spec.kernel, "__name__", type(spec.kernel).__name__)
    params = []
    for key, value in (spec.params or {}).items():
        text = f"{value:.4g}" if isinstance(value, float) else value
        params.append(f"{key}={text}")
    if params:
        words += f" ({', '.join(params)})"
    if spec.level != 1:
        words += f" + {number(spec.level, 3)}"
    return words


def called(name: str, names: SideNames) -> str:
    """Return the user's name of a side of a model."""
    names_of_sides = {
        "instances": names.instances,
        "tasks": names.tasks,
        "nodes": names.instances,
    }
    return names_of_sides.get(name, name)
