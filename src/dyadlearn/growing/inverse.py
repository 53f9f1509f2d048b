r"""The regularised inverse of a Gram matrix.

.. math:: \mathbf{M} = (\boldsymbol\Phi^\top\boldsymbol\Phi + \lambda\mathbf{I})^{-1}

The matrix is scaled to a unit diagonal and factorised. If features are collinear, or if
:math:`\lambda = 0` leaves a null space, the eigendecomposition without the null space is used
instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack

from dyadlearn._array import (
    Array,
    cholesky,
    epsilon,
    is_foreign,
    largest,
    namespace,
    solve,
    with_diagonal,
)
from dyadlearn._svd import gram_eigen, unit_noise, unit_scale

#: Largest diagonal entry of an explicit inverse by which many columns are multiplied, which is
#: faster than solving. The rounding error of such a product is proportional to the largest entry.
INFLATION = 1e3
#: Largest relative rounding error of predictions without a warning.
ROUGH = 1e-3
#: Triangular matrices up to this order are inverted by LAPACK.
_LEAF = 64


class Eigen(NamedTuple):
    r"""Eigenvalues (k,) and eigenvectors (d, k) of a Gram matrix, without its null space."""

    values: Array
    vectors: Array

    def solve(self, B: Array, alpha: float) -> Array:
        r"""Return :math:`(\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda\mathbf{I})^{-1}\mathbf{B}`, shape (d, p)."""
        return self.vectors @ ((self.vectors.T @ B) / (self.values + alpha)[:, None])


@dataclass(frozen=True, eq=False)
class Inverse:
    r"""Regularised inverse of a Gram matrix, stored as a factorisation.

    Attributes
    ----------
    alpha : float
        Regularisation λ.
    scale : array of shape (d,)
        Factors of rows and columns that give a unit diagonal.
    matrix : array of shape (d, d)
        Lower Cholesky factor of the scaled matrix; for other libraries than numpy, the scaled
        matrix.
    eigen : Eigen or None
        Eigendecomposition, if there is no Cholesky factor.
    doubt : str or None
        Text of a warning about the accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.inverse import Inverse
    >>> Inverse.of(np.array([[2.0, 0.0], [0.0, 0.0]]), 1, 1.0).solve(np.array([[3.0], [0.0]]))
    array([[1.],
           [0.]])
    """

    alpha: float
    scale: Array
    matrix: Array
    eigen: Eigen | None = None
    doubt: str | None = None

    @classmethod
    def of(cls, gram: Array, n_rows: int, alpha: float, rounding: Array | None = None) -> Inverse:
        """Return the inverse for the Gram matrix (d, d) of `n_rows` rows; `rounding` is as in `Group`."""
        xp = namespace(gram)
        matrix = plus_diagonal(gram, alpha)
        scale = unit_scale(xp.linalg.diagonal(matrix))
        matrix *= scale
        matrix *= scale[:, None]
        noise = largest(unit_noise(xp.linalg.diagonal(gram), scale, n_rows, rounding))
        # Upper bound of the condition: all eigenvalues are at least the scaled λ and at most the
        # trace.
        least = max(alpha * float(xp.min(scale)) ** 2, float(np.finfo(np.float64).tiny))
        condition = float(xp.linalg.trace(matrix)) / least
        is_rough = not condition < min(1.0 / noise, ROUGH / epsilon(matrix))
        if is_foreign(matrix):
            # The Array API has no triangular solve, so that each solve factorises the matrix again.
            if is_rough:
                condition = _condition(matrix)
        else:
            size = 0.0
            if is_rough:
                size = float(xp.linalg.matrix_norm(matrix, ord=1))
            try:
                # numpy and scipy each have a BLAS with threads of its own, and the idle threads of
                # one slow down the other. Large products and this factorisation use that of numpy.
                matrix = cholesky(matrix)
                if is_rough:
                    condition = 1.0 / max(lapack.dpocon(matrix.T, size)[0], epsilon(matrix))
            except np.linalg.LinAlgError:
                condition = float("inf")
        if not condition * noise < 1.0:  # it may be NaN
            eigen = Eigen(*gram_eigen(gram, n_rows, rounding))
            return cls(alpha, scale, matrix, eigen, _doubt_of_alpha(gram, n_rows, alpha, eigen))
        share = condition * epsilon(gram)
        doubt = None
        if share > ROUGH:
            doubt = (
                f"Features are nearly collinear: with a regularisation of {alpha:g}, rounding may "
                f"change predictions "
                f"by {100 * share:.1g} %. Leave some of the features out, centre them, or raise "
                f"the regularisation."
            )
        return cls(alpha, scale, matrix, doubt=doubt)

    def solve(self, B: Array) -> Array:
        r"""Return :math:`(\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda\mathbf{I})^{-1}\mathbf{B}` of shape (d, p)."""
        if self.eigen is not None:
            return self.eigen.solve(B, self.alpha)
        scale = self.scale[:, None]
        if is_foreign(B):
            return scale * solve(self.matrix, scale * B)
        # For many columns, the inverse and one product are faster than two triangular solves.
        if 2 * B.shape[1] >= B.shape[0] and self._explicit is not None:
            # The inverse is symmetric; the product has the memory order of B.
            if B.strides[0] > B.strides[1]:
                return self._explicit @ B
            return (B.T @ self._explicit).T
        return scale * cho_solve((self.matrix.T, False), scale * B, check_finite=False)

    @cached_property
    def _explicit(self) -> np.ndarray | None:
        """The inverse; None if a product with it is inaccurate."""
        root = _lower_inverse(self.matrix)
        if np.max(np.einsum("ij,ij->j", root, root)) > INFLATION:
            return None
        root *= self.scale
        inverse: np.ndarray = root.T @ root
        return inverse


def _lower_inverse(lower: np.ndarray) -> np.ndarray:
    """Return the inverse of a lower triangular matrix (d, d), mostly by matrix products."""
    half = len(lower) // 2
    if len(lower) <= _LEAF:
        return np.asarray(lapack.dtrtri(lower.T)[0].T)
    inverse = np.zeros_like(lower)
    inverse[:half, :half] = _lower_inverse(lower[:half, :half])
    inverse[half:, half:] = _lower_inverse(lower[half:, half:])
    inverse[half:, :half] = -inverse[half:, half:] @ (lower[half:, :half] @ inverse[:half, :half])
    return inverse


def _doubt_of_alpha(gram: Array, n_rows: int, alpha: float, eigen: Eigen) -> str | None:
    """Return the text of a warning if features are collinear and the regularisation is below rounding."""
    xp = namespace(gram)
    top = largest(eigen.values)
    least = max(n_rows, int(gram.shape[0])) * epsilon(gram) * top
    n_features = int(xp.sum(xp.astype(xp.linalg.diagonal(gram) > 0, xp.int64)))
    if not 0 < alpha <= least or int(eigen.values.shape[0]) >= n_features:
        return None
    return (
        f"The features are collinear, and a regularisation of {alpha:g} is smaller than the "
        f"rounding errors of their "
        f"largest eigenvalue {top:.3g}: predictions are those without regularisation. Use 0, or "
        f"more than {least:.1g}, "
        "or scale the largest features down."
    )


def _condition(matrix: Array) -> float:
    """Return the condition of a matrix in the 1-norm; infinity if it is singular."""
    xp = namespace(matrix)
    try:
        norms = [xp.linalg.matrix_norm(factor, ord=1) for factor in (matrix, xp.linalg.inv(matrix))]
        return float(norms[0]) * float(norms[1])
    except (np.linalg.LinAlgError, RuntimeError):  # torch raises a RuntimeError
        return float("inf")


def plus_diagonal(matrix: Array, weights: Any) -> Array:
    """Return a square matrix (d, d) with a number, or an array (d,), added to its diagonal."""
    xp = namespace(matrix)
    return with_diagonal(xp.asarray(matrix, copy=True), xp.linalg.diagonal(matrix) + weights)
