"""The kernel of rows that lack descriptions, from ridge regressions on those that they have."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from dyadlearn._array import Array, double, take_rows, zeros
from dyadlearn._means import with_ones
from dyadlearn._tables import Table
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.filters import Tikhonov
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.models.side import KernelSpec, Side, fit_side
from dyadlearn.pairing import Independent
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.solve.leaving import in_order

# Regularisations of the regression of missing descriptions, relative to the largest eigenvalue of
# its kernel.
_FILLING_ALPHAS = tuple(10.0 ** (power / 2) for power in range(-14, 7))


def learned_of(side: Side) -> LearnedKernel:
    """Return the learned kernel of a side."""
    kernel = side.spec.kernel
    assert isinstance(kernel, LearnedKernel)
    return kernel


def filled_kernel(
    side: Side, expansion: Expansion, lacking: np.ndarray
) -> Callable[[Array, Array], Array]:
    """Return the kernel between rows that lack descriptions and the training rows.

    Parameters
    ----------
    side : Side
    expansion : Expansion
        Coefficients of the model, in which the rows of the side are the instances.
    lacking : array of shape (n, number of descriptions)
        Which descriptions each row lacks.
    """
    fillers = {
        missing: _filler(side, expansion, np.array(missing)) for missing in set(map(tuple, lacking))
    }

    def kernel(A: Array, B: Array) -> Array:
        lacking = learned_of(side).lacking(A)
        places = {
            missing: np.flatnonzero((lacking == missing).all(axis=1))
            for missing in set(map(tuple, lacking))
        }
        return in_order(
            [fillers[missing](take_rows(A, here)) for missing, here in places.items()],
            [*places.values()],
        )

    return kernel


def _filler(side: Side, expansion: Expansion, missing: np.ndarray) -> Callable[[Array], Array]:
    r"""Return the kernel between rows without some descriptions and the training rows.

    The part of a description in the fitted function of a row is linear in the kernel row of the
    description. Kernel rows of missing descriptions are therefore predicted by ridge regression,
    with the kernel of the descriptions that are present. Its :math:`\lambda` is that which predicts
    the part of each training row best in leave-one-out.
    """
    learned = learned_of(side)
    rows = double(side.features)
    present = learned.only(~missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelRepairWarning)  # as in the fit
        ridge = fit_side(
            Table(present(rows)), KernelSpec("precomputed", None, "clip", "free"), "instance"
        )
    spectrum = ridge.spectrum
    coefficients = zeros((rows.shape[0] + 1, rows.shape[0]), ridge.spectrum.values)
    models = [
        Independent.of(spectrum, Tikhonov(), spectrum.size * alpha) for alpha in _FILLING_ALPHAS
    ]
    for place in np.flatnonzero(missing):
        K = learned.only(np.arange(missing.size) == place)(rows)
        # Constants in the part do not matter, because the ridge regression has a free one.
        part = expansion.grid(
            NewRows(with_ones(K) if side.spec.constant else K, lambda rows: rows, 0), None
        )
        errors = [float(((model.rows.leave_one_out(part) - part) ** 2).sum()) for model in models]
        coefficients += models[int(np.argmin(errors))].coefficients(K)

    def kernel(A: Array) -> Array:
        known = present(A, rows)
        return known + ridge.new_rows(known).block(known) @ coefficients

    return kernel
