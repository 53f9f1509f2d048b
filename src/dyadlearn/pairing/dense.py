r"""Reference implementation of the models: dense kernels in numpy, fitted again without the hidden labels.

A side that loses some rows and keeps the rows :math:`o` predicts by
:math:`\mathbf{P} = \mathbf{K}_{\cdot o}(\mathbf{K}_{oo} + \lambda\mathbf{I})^{-1}`, a matrix that takes the labels of
the kept rows to predictions for any rows. Where single cells are hidden, those that remain are
fitted as pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import NamedTuple

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._rounding import ratio
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.pairing.base import Pairing, operators_of, side_ridges
from dyadlearn.solve.conjugate_gradients import conjugate_gradients
from dyadlearn.spectrum import Spectrum

# Largest number of cells for which the pairwise kernel is a dense matrix; above, only its products
# are computed.
_DENSE_CELLS = 400
_MAX_STEPS = 500


@dataclass(frozen=True, eq=False)
class DenseSide:
    """One side of the reference implementation: its kernel (n, n) and its regularisation.

    Attributes
    ----------
    kernel : array of shape (n, n)
    filter : SpectralFilter
    alpha : float
    fixed_penalty : bool
        Whether the filter of all rows is kept, and hidden labels are imputed so that the fit
        reproduces them.
    has_constant : bool
        Whether there is an unpenalised constant: every fit then centres its kernel.
    """

    kernel: np.ndarray
    filter: SpectralFilter
    alpha: float
    fixed_penalty: bool
    has_constant: bool = False

    @classmethod
    def of(
        cls, spectrum: Spectrum, filter: SpectralFilter, alpha: float, fixed_penalty: bool
    ) -> DenseSide:
        """Return the side of a spectrum, in double precision."""
        values, vectors = (
            to_numpy(part).astype(np.float64) for part in (spectrum.values, spectrum.vectors)
        )
        return cls(
            (vectors * values) @ vectors.T, filter, alpha, fixed_penalty, spectrum.has_free_constant
        )

    @property
    def is_ridge(self) -> bool:
        """Whether hiding rows equals a ridge regression without them."""
        return self.filter.refits and not self.fixed_penalty

    @cached_property
    def ridge(self) -> float:
        """The λ of φ = 1/(σ + λ), for a filter that is a ridge regression."""
        return self.filter.ridge(self.alpha)

    @cached_property
    def eigh(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (n,) and eigenvectors (n, n) of the kernel; infinity for an unpenalised constant."""
        if not self.has_constant:
            return _eigh(self.kernel)
        n = len(self.kernel)
        basis = np.linalg.qr(np.c_[np.ones(n), np.eye(n)[:, : n - 1]])[0]
        values, vectors = _eigh(basis[:, 1:].T @ self.kernel @ basis[:, 1:])
        return np.append(values, np.inf), np.c_[basis[:, 1:] @ vectors, np.full(n, n**-0.5)]

    def penalties(self, alpha: float) -> np.ndarray:
        """Return λ/σ (n,): infinity for null directions, 0 for an unpenalised constant."""
        values = self.eigh[0]
        return np.where(values > 0, alpha / np.where(values > 0, values, 1.0), np.inf)

    @cached_property
    def hat(self) -> np.ndarray:
        """Hat matrix (n, n) of the complete side."""
        kernel = _centred(self.kernel) if self.has_constant else self.kernel
        return self._constant(len(kernel)) + _spectral(
            kernel, lambda values: self.filter.shrinkage(values, self.alpha)
        )

    def _constant(self, n: int) -> np.ndarray | float:
        """Return the weight of each of n labels in their mean; 0 without a constant."""
        return 1.0 / n if self.has_constant else 0.0

    def predictor(self, kept: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the matrix that maps labels of the `kept` rows to predictions for `rows`, both masks."""
        if self.fixed_penalty:
            H = self.hat
            hidden = ~kept
            gap = np.eye(hidden.sum()) - H[np.ix_(hidden, hidden)]
            imputed = np.linalg.solve(gap, H[np.ix_(hidden, kept)])
            return np.asarray(H[np.ix_(rows, kept)] + H[np.ix_(rows, hidden)] @ imputed)
        K = self.kernel[np.ix_(kept, kept)]
        K_rows = self.kernel[np.ix_(rows, kept)]
        if self.has_constant:
            if not len(K):
                raise ValueError("No training row is left to estimate the intercept from.")
            K, K_rows = _centred(K), _without_mean(K_rows - K.mean(axis=0))
        if self.is_ridge and self.ridge > 0:
            weights = np.linalg.solve(K + self.ridge * np.eye(len(K)), K_rows.T).T
        else:
            weights = K_rows @ _spectral(K, lambda values: self.filter.phi(values, self.alpha))
        return np.asarray(self._constant(len(K)) + weights)


@singledispatch
def dense_sides(model: Pairing, fixed_penalty: bool) -> list[DenseSide]:
    """Return the sides of the reference implementation of a model; a network has the same side twice."""
    filters = [side.filter for side in model.smoothers] or [Tikhonov()] * len(model.spectra)
    sides = zip(model.spectra, filters, side_ridges(model), strict=True)
    dense = [DenseSide.of(*side, fixed_penalty) for side in sides]
    if model.symmetry:
        return [*dense, *dense]
    return dense


#: Sides of the reference; masks (m,) and (q,) of rows and columns; predictions for hidden cells,
#: given as a mask.
Sides = Sequence[DenseSide]
Masks = Sequence[np.ndarray]
OfHidden = Callable[[np.ndarray], np.ndarray]


@singledispatch
def refit_block(
    model: Pairing, sides: Sides, Y: np.ndarray, kept: Masks, asked: Masks
) -> np.ndarray:
    """Return predictions for some rows and columns by the reference implementation, fitted on other ones.

    By default all other cells are hidden.

    Parameters
    ----------
    model : Pairing
    sides : DenseSide of each side
    Y : array of shape (m, q)
    kept, asked : (boolean array of shape (m,), boolean array of shape (q,))
    """
    hidden = ~np.logical_and.outer(*kept)
    predictions = np.zeros(Y.shape)
    predictions[hidden] = refit_cells(model, sides, Y)(hidden)
    return np.asarray(predictions[np.ix_(*asked)])


@singledispatch
def refit_cells(model: Pairing, sides: Sides, Y: np.ndarray) -> OfHidden:
    """Return a function that maps a mask of hidden cells to their predictions by a fit on the other cells.

    By default the fit uses the pairwise kernel.
    """
    operators = operators_of(model)
    left, right = map(to_numpy, operators.vectors)
    return fitted_without(
        (left, right), to_numpy(operators.kernel_values), operators.ridge, Y, operators.free_mean
    )


def fit_pairs(
    K: np.ndarray,
    G: np.ndarray,
    Y: np.ndarray,
    alpha: float,
    shares: tuple[float, float, float],
    free_mean: bool,
) -> tuple[np.ndarray, float]:
    """Return A (m, q) and a mean with a K A G + b K A + c A G + alpha A + mean = Y.

    The mean is zero unless `free_mean`, in which case A sums to zero. If A is not unique, it has
    the least norm.
    """
    product, per_task, per_instance = shares
    if Y.size <= _DENSE_CELLS:
        same = np.eye(len(K))
        task_same = np.eye(len(G))
        pairs = (
            product * np.kron(K, G)
            + per_task * np.kron(K, task_same)
            + per_instance * np.kron(same, G)
        )
        dual, mean = _fitted(pairs, Y.ravel(), alpha, free_mean)
        return dual.reshape(Y.shape), mean
    (values, U), (task_values, V) = _eigh(K), _eigh(G)
    pairs = (
        product * np.outer(values, task_values)
        + per_task * values[:, None]
        + per_instance * task_values
    )
    inverse = ratio(1.0, pairs + alpha)

    def solve(grid: np.ndarray) -> np.ndarray:
        return np.asarray(U @ (inverse * (U.T @ grid @ V)) @ V.T)

    dual = solve(Y)
    if not free_mean:
        return dual, 0.0
    ones = solve(np.ones(Y.shape))
    mean = float(dual.sum() / ones.sum())
    return dual - mean * ones, mean


def _fitted(
    kernel: np.ndarray, labels: np.ndarray, alpha: float, free_mean: bool
) -> tuple[np.ndarray, float]:
    """Return the dual coefficients (n,) of labels and their mean, zero unless `free_mean`."""
    if not free_mean or not labels.size:
        return _ridge(kernel, labels, alpha), 0.0
    ones = np.ones((labels.size, 1))
    if alpha > 0:
        bordered = np.block(
            [[kernel + alpha * np.eye(labels.size), ones], [ones.T, np.zeros((1, 1))]]
        )
        solution = np.linalg.solve(bordered, np.append(labels, 0.0))
        return solution[:-1], float(solution[-1])
    inverse = np.linalg.pinv(kernel, rcond=_cut(len(kernel)), hermitian=True)
    # For alpha = 0, the mean is estimated outside of the range of the kernel, or else has the least
    # dual norm.
    outside = ones[:, 0] - kernel @ (inverse @ ones[:, 0])
    if np.abs(outside).max() > 1e-7:
        weights = outside
    else:
        weights = inverse @ ones[:, 0]
    mean = float(weights @ labels / weights.sum())
    return inverse @ (labels - mean), mean


def fitted_without(
    vectors: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    ridge: float,
    Y: np.ndarray,
    free_mean: bool = False,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that maps a mask of hidden cells to their predictions by a fit on the other cells.

    Parameters
    ----------
    vectors : (array of shape (m, k), array of shape (q, l))
        Eigenvectors of the sides.
    values : array of shape (k, l)
        Eigenvalues of the kernel between cells, whose eigenvectors are those of the Kronecker
        product.
    ridge : float
        Ridge that is added to the kernel.
    Y : array of shape (m, q)
    free_mean : bool, default=False
        Whether there is an unpenalised mean.
    """
    U, V = vectors
    if Y.size > _DENSE_CELLS:
        return _FitByProducts(U, V, values, ridge, Y, free_mean).predict
    basis = np.kron(U, V)
    kernel = (basis * values.ravel()) @ basis.T

    def predict(hidden: np.ndarray) -> np.ndarray:
        hidden = hidden.ravel()
        dual, mean = _fitted(kernel[np.ix_(~hidden, ~hidden)], Y.ravel()[~hidden], ridge, free_mean)
        return np.asarray(kernel[np.ix_(hidden, ~hidden)] @ dual + mean)

    return predict


class _FitByProducts(NamedTuple):
    """The predictions of `fitted_without` by conjugate gradients, for kernels that are too large to store.

    The inverse for the complete grid is the preconditioner: n hidden cells take at most about n
    steps. Attributes are those of `fitted_without`.
    """

    U: np.ndarray
    V: np.ndarray
    values: np.ndarray
    ridge: float
    Y: np.ndarray
    free_mean: bool

    def predict(self, hidden: np.ndarray) -> np.ndarray:
        """Return the predictions of hidden cells (m, q) by a fit on the other ones."""
        observed = ~hidden
        dual = self._solved(self.Y[observed], observed)
        mean = 0.0
        if self.free_mean:
            ones = self._solved(np.ones(dual.size), observed)
            mean = dual.sum() / ones.sum()
            dual = dual - mean * ones
        return np.asarray(self._spread(self.values, dual, observed)[hidden] + mean)

    def _spread(self, weights: np.ndarray, dual: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """Return the matrix with eigenvalues `weights` between all cells and the observed ones, times a vector."""
        grid = np.zeros(self.Y.shape)
        grid[observed] = dual
        return np.asarray(self.U @ (weights * (self.U.T @ grid @ self.V)) @ self.V.T)

    def _solved(self, labels: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """Return the dual coefficients of labels (n,) of the observed cells."""
        inverse = ratio(1.0, self.values + self.ridge)

        def product(dual: np.ndarray) -> np.ndarray:
            kernel = self._spread(self.values, dual, observed)[observed]
            return np.asarray(kernel + self.ridge * dual)

        def precondition(dual: np.ndarray) -> np.ndarray:
            return np.asarray(self._spread(inverse, dual, observed)[observed])

        solution = conjugate_gradients(
            product,
            labels,
            precondition=precondition,
            tol=1e-12,
            max_iter=_MAX_STEPS,
            rounding=_cut(1) * float(self.values.max() + self.ridge),
        )
        if not solution.converged:
            n_hidden = observed.size - labels.size
            warnings.warn(
                f"Refitting without {n_hidden} cell(s) stopped after {solution.n_iter} steps at a "
                f"relative residual of {solution.residual:.1e}: the comparison is not more "
                f"accurate than that.",
                RuntimeWarning,
                stacklevel=4,
            )
        return np.asarray(solution.values)


def _ridge(kernel: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
    """Return the dual coefficients (kernel + alpha I)⁻¹ labels; for alpha = 0 those of least norm."""
    if alpha > 0:
        return np.asarray(np.linalg.solve(kernel + alpha * np.eye(len(kernel)), labels))
    return np.asarray(np.linalg.pinv(kernel, rcond=_cut(len(kernel)), hermitian=True) @ labels)


def _centred(kernel: np.ndarray) -> np.ndarray:
    """Return a kernel (n, n) with rows and columns that sum to zero."""
    return _without_mean(_without_mean(kernel).T).T


def _without_mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _cut(n: int) -> float:
    """Return the relative size below which an eigenvalue of n is rounding."""
    return n * float(np.finfo(np.float64).eps)


def _eigh(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues (n,), set to zero where they are rounding, and eigenvectors (n, n)."""
    values, vectors = np.linalg.eigh(kernel)
    return np.where(values > _cut(len(values)) * values.max(initial=0.0), values, 0.0), vectors


def _spectral(kernel: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a function of a symmetric matrix (n, n), by its eigenvalues."""
    values, vectors = _eigh(kernel)
    return np.asarray((vectors * function(values)) @ vectors.T)
