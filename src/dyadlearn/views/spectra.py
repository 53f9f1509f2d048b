"""The eigenvalues of both sides, and how much of each the filter lets through."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_alpha, check_matrix
from dyadlearn._tables import read_table
from dyadlearn._words import joined
from dyadlearn.diagnostics.fitted import REMEDY, labelled_model
from dyadlearn.exceptions import KernelError
from dyadlearn.filters import SpectralFilter
from dyadlearn.models._inputs import checked_filter
from dyadlearn.models._side import KernelSpec
from dyadlearn.spectrum import Smoother, Spectrum

__all__ = ["SideSpectrum", "spectra_of_model", "spectrum_of_kernel"]


@dataclass(frozen=True, eq=False)
class SideSpectrum:
    r"""The eigenvalues of a kernel under a filter.

    Attributes
    ----------
    values : array of shape (k,)
        Eigenvalues :math:`\sigma` in descending order; those that are left out are zero.
    shrinkage : array of shape (k,) or None
        The filter :math:`f(\sigma)`, from 1 (kept) to 0 (suppressed); None where the kernel is not filtered by itself.
    n_rows : int
        Size of the kernel.
    alpha : float or None
        Its own regularisation, if it has one.
    kernel : str
        In words.
    has_constant : bool
        Whether there is a constant beside the kernel, which no filter shrinks: one more direction, kept whole. The
        eigenvalues are then those of the centred kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views import SideSpectrum
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
        """Number of eigenvalues that are not zero."""
        return int(np.count_nonzero(self.values > 0))

    @property
    def effective_dimension(self) -> float:
        r"""How many directions are kept in all, :math:`\sum_i f(\sigma_i)`, and one for a constant.

        It is the trace of the hat matrix; NaN without a filter of its own.
        """
        return float("nan") if self.shrinkage is None else float(self.shrinkage.sum()) + self.has_constant


def spectra_of_model(model: Any, remedy: str = REMEDY) -> dict[str, SideSpectrum]:
    """Return the spectra of a fitted model under its own regularisation.

    Parameters
    ----------
    model : fitted estimator
    remedy : str
        As in `labelled_model`.

    Returns
    -------
    dict of str to SideSpectrum
        ``"instances"`` and ``"tasks"``, or ``"nodes"`` for a network; where a model filters neither side by itself, as
        Kronecker ridge regression does, ``"pairs"`` as well.
    """
    fitted = labelled_model(model, remedy)
    pairing = fitted._problem().pairing
    kernels = [_kernel(side.spec) for side in fitted._sides()]
    if pairing.smoothers:
        sides = zip(pairing.side_names, pairing.smoothers, kernels, strict=False)
        return {name: _smoothed(side, kernel) for name, side, kernel in sides}
    # No side is filtered by itself: the filter works on the eigenvalues of the kernel between pairs.
    whole = zip(pairing.side_names, pairing.spectra, kernels, strict=False)  # a network has one side twice
    found = {name: _unfiltered(spectrum, kernel) for name, spectrum, kernel in whole}
    values, kept = (to_numpy(part).astype(np.float64).ravel() for part in pairing.pair_spectrum)
    order = np.argsort(values)[::-1]
    n_pairs = math.prod(spectrum.n_rows for spectrum in pairing.spectra)
    kernel = "product" if pairing.is_product else "between pairs"
    return found | {"pairs": SideSpectrum(values[order], kept[order], n_pairs, pairing.alphas["alpha"], kernel)}


def spectrum_of_kernel(K: Any, alpha: float, filter: SpectralFilter | None = None) -> SideSpectrum:
    """Return the spectrum of a kernel, an array or frame of shape (n, n), which is repaired as the models do it."""
    alpha, chosen = check_alpha(alpha, "alpha"), checked_filter(filter, "filter")
    kernel = check_matrix(read_table(K, "K").values, "K")
    if kernel.shape[0] != kernel.shape[1]:
        raise KernelError(f"K must be a square matrix, found shape {tuple(kernel.shape)}.")
    return _smoothed(Spectrum.from_gram(kernel, name="K").smoother(chosen, alpha))


def _smoothed(side: Smoother, kernel: str = "") -> SideSpectrum:
    found = _unfiltered(side.spectrum, kernel)
    if np.isnan(side.alpha):  # with a regularisation for each task there is no single filter
        return found
    return replace(found, shrinkage=side.filter.shrinkage(found.values, side.alpha), alpha=side.alpha)


def _unfiltered(spectrum: Spectrum, kernel: str) -> SideSpectrum:
    values = np.sort(to_numpy(spectrum.penalised).astype(np.float64))[::-1]
    return SideSpectrum(values, None, spectrum.n_rows, None, kernel, spectrum.has_free_constant)


def _kernel(spec: KernelSpec) -> str:
    """Return the kernel of a side with its parameters, or what it was learned of."""
    descriptions = getattr(spec.kernel, "names", ())
    if descriptions:
        return f"learned, of {joined(descriptions)}"
    word = spec.kernel if isinstance(spec.kernel, str) else getattr(spec.kernel, "__name__", type(spec.kernel).__name__)
    values = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in (spec.params or {}).items()}
    params = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{word} ({params})" if params else word
