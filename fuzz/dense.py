r"""Linear algebra of the references: dense, in extended precision, and without a line of the library.

A side is a kernel matrix and a filter. What a filter does is written as matrices, never through a
decomposition that the library might share: ridge regression as an inverse, iterated ridge
regression and gradient descent as polynomials of matrices. Only the cut-off, which is defined by
eigenvalues, is computed from them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = [
    "LONG",
    "Operators",
    "Side",
    "cholesky",
    "complement",
    "eigen",
    "eigenvalues",
    "is_singular",
    "least_squares",
    "solve",
    "top_value",
]

LONG = np.longdouble

# A kernel whose smallest eigenvalue is below this share of its largest counts as singular at λ = 0.
RANK_SHARE = 1e-11
# Rounds of rotations after a decomposition in double precision; each squares the error.
N_SWEEPS = 3


def solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return A⁻¹B by Gaussian elimination with pivots, in extended precision, rows scaled to size 1."""
    A = np.array(A, dtype=LONG)
    B = np.array(B, dtype=LONG)
    n = A.shape[0]
    is_vector = B.ndim == 1
    if n == 0:
        return B
    size = np.abs(A).max(axis=1, initial=0)
    size[size == 0] = 1
    both = np.concatenate([A, B.reshape(n, -1)], axis=1) / size[:, None]
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(both[k:, k])))
        if both[pivot, k] == 0:
            raise ZeroDivisionError("the reference met a singular matrix")
        if pivot != k:
            both[[k, pivot]] = both[[pivot, k]]
        both[k + 1 :, k:] -= np.outer(both[k + 1 :, k] / both[k, k], both[k, k:])
    X = both[:, n:]
    for k in range(n - 1, -1, -1):
        X[k] = (X[k] - both[k, k + 1 : n] @ X[k + 1 :]) / both[k, k]
    return X[:, 0] if is_vector else X


def inverse(A: np.ndarray) -> np.ndarray:
    """Return the symmetric inverse of a matrix that is symmetric up to rounding.

    A positive definite one is inverted by the Cholesky factor of its lower half. By elimination X
    would be the inverse of both halves, and the mean of X and its transpose that of neither.
    """
    lower = cholesky(A)
    if lower is None:
        solved = solve(A, np.eye(len(A), dtype=LONG))
        return (solved + solved.T) / 2
    root = solve(lower, np.eye(len(A), dtype=LONG))
    return root.T @ root


def cholesky(A: np.ndarray) -> np.ndarray | None:
    """Return the lower Cholesky factor of a symmetric matrix in extended precision, None if there is none."""
    A = np.array(A, dtype=LONG)
    lower = np.zeros_like(A)
    for k in range(len(A)):
        rest = A[k:, k] - lower[k:, :k] @ lower[k, :k]
        if not rest[0] > 0:
            return None
        lower[k:, k] = rest / np.sqrt(rest[0])
    return lower


def eigenvalues(K: np.ndarray) -> np.ndarray:
    """Return ascending eigenvalues, in double precision."""
    if len(K):
        return np.linalg.eigvalsh(np.asarray(K, dtype=np.float64))
    return np.zeros(0)


def eigen(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors in extended precision, by rotations of those in double precision (Jacobi)."""
    vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))[1].astype(LONG)
    # One step towards the nearest orthogonal matrix.
    vectors = vectors @ (3 * np.eye(len(K), dtype=LONG) - vectors.T @ vectors) / 2
    turned = vectors.T @ K @ vectors
    least = np.finfo(LONG).eps * np.abs(turned).max(initial=0)
    for _ in range(N_SWEEPS):
        for i, j in itertools.combinations(range(len(K)), 2):
            if abs(turned[i, j]) <= least / len(K):
                continue
            angle = np.arctan2(2 * turned[i, j], turned[j, j] - turned[i, i]) / 2
            if abs(angle) > np.pi / 4:
                angle -= np.copysign(np.pi / 2, angle)
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
            turned[:, [i, j]] = turned[:, [i, j]] @ turn
            turned[[i, j]] = turn.T @ turned[[i, j]]
            vectors[:, [i, j]] = vectors[:, [i, j]] @ turn
    return np.diagonal(turned).copy(), vectors


def top_value(K: np.ndarray) -> float:
    """Return the largest eigenvalue, 0 for an empty matrix."""
    return float(max(eigenvalues(K), default=0.0))


def is_singular(K: np.ndarray) -> bool:
    """Tell whether a kernel has no full rank; an empty one has."""
    values = eigenvalues(K)
    return bool(len(values)) and values[0] <= RANK_SHARE * max(values[-1], 0.0)


def pseudo_inverse(K: np.ndarray) -> np.ndarray:
    """Return the pseudo-inverse of a singular kernel, one step of refinement after double precision."""
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=np.float64))
    kept = values > RANK_SHARE * max(values[-1], 0.0)
    range_ = vectors[:, kept].astype(LONG)
    if not kept.any():
        return np.zeros_like(K)
    return range_ @ inverse(range_.T @ K @ range_) @ range_.T


def least_squares(K: np.ndarray, alpha: float) -> np.ndarray:
    """Return (K + λI)⁻¹, at λ = 0 the pseudo-inverse."""
    if alpha > 0 or not is_singular(K):
        return inverse(K + LONG(alpha) * np.eye(len(K), dtype=LONG))
    return pseudo_inverse(K)


def complement(c: np.ndarray) -> np.ndarray:
    """Return orthonormal columns (n, n − 1) that are orthogonal to a vector (n,), each made of the ones before it.

    With sᵢ = c₀² + … + cᵢ², column i is proportional to (c₀cᵢ₊₁, …, cᵢcᵢ₊₁, −sᵢ, 0, …).
    """
    n = len(c)
    basis = np.zeros((n, max(n - 1, 0)), dtype=LONG)
    squares = np.cumsum(c.astype(LONG) ** 2)
    for i in range(n - 1):
        basis[: i + 1, i] = c[: i + 1] * c[i + 1]
        basis[i + 1, i] = -squares[i]
        basis[:, i] /= np.sqrt(squares[i] * squares[i + 1])
    return basis


def power(B: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Bⁿ and I + B + … + Bⁿ⁻¹ by doubling."""
    eye = np.eye(len(B), dtype=LONG)
    done = eye
    total = np.zeros_like(eye)
    for digit in bin(n)[2:]:
        total = total + total @ done
        done = done @ done
        if digit == "1":
            total = total + done
            done = done @ B
    return done, total


@dataclass(frozen=True, eq=False)
class Operators:
    """Hat and residual operator of a side.

    Attributes
    ----------
    H, R : arrays of shape (n, n)
    limit : array of shape (n, n) or None
        What R is proportional to on the way to zero, where it vanishes.
    definite : bool
        Whether R is positive definite by construction, however small its eigenvalues are, but for a
        constant.
    constant : bool
        Whether there is a constant without penalty.
    """

    H: np.ndarray
    R: np.ndarray
    limit: np.ndarray | None
    definite: bool
    constant: bool

    def is_definite_with(self, other: Operators) -> bool:
        """Return whether the residual operator of pairs is positive definite, but for their mean."""
        if self.definite and other.definite:
            return True
        # A constant of one side leaves all that the other side leaves unpenalised.
        return any(side.definite and not side.constant for side in (self, other))


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a reference model.

    Attributes
    ----------
    K : array of shape (n, n)
        Kernel, in extended precision.
    filter : {"tikhonov", "iterated", "landweber", "cutoff"}
    alpha : float
    n_iter : int or None
        Rounds of the iterated filter, or steps of gradient descent where they do not follow from
        alpha.
    constant : bool
        Whether there is a constant without penalty. The kernel is then seen on all that sums to
        zero, `seen`.
    noise : array of shape (n, n) or None
        Rounding of the residual operator, as a share of its largest entry, for a perturbed side.
    """

    K: np.ndarray
    filter: str
    alpha: float
    n_iter: int | None = None
    constant: bool = False
    noise: np.ndarray | None = None

    @cached_property
    def _basis(self) -> np.ndarray:
        return complement(np.ones(len(self.K))) if self.constant else self._eye

    @cached_property
    def seen(self) -> np.ndarray:
        """The kernel that the filter works on; zero where it is only rounding, as for a constant kernel."""
        seen = self._basis.T @ self.K @ self._basis
        level = len(self.K) * np.finfo(LONG).eps * np.abs(self.K).max(initial=0)
        return np.zeros_like(seen) if np.abs(seen).max(initial=0) <= level else seen

    @property
    def _mean(self) -> Any:
        """What takes labels to their mean, of every row."""
        if self.constant:
            return np.full_like(self._eye, LONG(1) / len(self.K))
        return np.zeros_like(self._eye)

    @property
    def _eye(self) -> np.ndarray:
        return np.eye(len(self.K), dtype=LONG)

    @property
    def interpolates(self) -> bool:
        """Whether the filter is the pseudo-inverse."""
        return self.alpha == 0 and not (self.filter == "landweber" and self.n_iter is not None)

    @property
    def vanishes(self) -> bool:
        """Whether the residual operator is zero but has a limit up to its scale, as λ → 0 does."""
        return (
            self.interpolates
            and self.filter in ("tikhonov", "iterated")
            and not is_singular(self.seen)
        )

    @cached_property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """φ(K) and R = I − H, neither from the other where digits would be lost."""
        phi, R = self._filtered
        return self._basis @ phi @ self._basis.T, self._rounded(self._basis @ R @ self._basis.T)

    def _rounded(self, R: np.ndarray) -> np.ndarray:
        return R if self.noise is None else R + np.abs(R).max(initial=0) * self.noise

    @property
    def _filtered(self) -> tuple[np.ndarray, np.ndarray]:
        K = self.seen
        eye = np.eye(len(K), dtype=LONG)
        if not len(K):
            return K, K
        if self.interpolates:
            phi = least_squares(K, 0.0)
            return phi, (eye - K @ phi if is_singular(K) else np.zeros_like(K))
        if self.filter == "tikhonov":
            phi = least_squares(K, self.alpha)
            return phi, LONG(self.alpha) * phi
        if self.filter == "iterated":
            step = least_squares(K, self.alpha)
            R, total = power(LONG(self.alpha) * step, self.n_iter or 2)
            return total @ step, R
        if self.filter == "landweber":
            top = top_value(K)
            if top <= 0:
                return np.zeros_like(K), eye
            steps = self.n_iter or int(np.ceil(top / self.alpha))
            R, total = power(eye - K / LONG(top), steps)
            return total / LONG(top), R
        values, vectors = eigen(K)
        kept = values >= max(self.alpha, RANK_SHARE * max(values.max(), 0.0))
        U = vectors[:, kept]
        V = vectors[:, ~kept]
        return (U / values[kept]) @ U.T, V @ V.T

    @property
    def phi(self) -> np.ndarray:
        """What takes labels to dual coefficients."""
        return self._matrices[0]

    @property
    def R(self) -> np.ndarray:
        """Residual operator."""
        return self._matrices[1]

    @cached_property
    def H(self) -> np.ndarray:
        """Hat matrix."""
        if self.vanishes:
            return self._eye
        return self._mean + self._basis @ (self._basis.T @ self.K @ self.phi)

    def predictor(self, rows: np.ndarray) -> np.ndarray:
        """Return what takes labels to predictions for rows of the kernel, shape (a, n)."""
        if not self.constant:
            return rows @ self.phi
        n = len(self.K)
        return LONG(1) / n + (rows - self.K.sum(axis=0) / n) @ self.phi

    @cached_property
    def limit(self) -> np.ndarray:
        """What R is proportional to where it vanishes."""
        limit = power(
            least_squares(self.seen, 0.0), 1 if self.filter == "tikhonov" else self.n_iter or 2
        )[0]
        return self._rounded(self._basis @ limit @ self._basis.T)

    @property
    def definite(self) -> bool:
        """Whether R is positive definite by construction, however small its eigenvalues are."""
        return self.alpha > 0 and self.filter in ("tikhonov", "iterated")

    def slack(self, left_out: np.ndarray) -> float:
        """Return the smallest eigenvalue of R among some rows: 0 where nothing is said of them once they are gone."""
        if not len(left_out) or self.vanishes:
            return 1.0
        return float(eigenvalues(self.R[np.ix_(left_out, left_out)])[0])

    @property
    def operators(self) -> Operators:
        """What the side does to labels."""
        return Operators(
            self.H, self.R, self.limit if self.vanishes else None, self.definite, self.constant
        )

    def without(self, left_out: np.ndarray) -> tuple[np.ndarray, Operators, np.ndarray]:
        """Take rows out of the side.

        Returns
        -------
        kept : integer array
        operators : Operators
            Of the rows that stay.
        P : array of shape (number left out, number kept)
            What predicts the rows that left from the labels of those that stay.

        Notes
        -----
        Ridge regression is fitted again on the kernel that stays. Other filters keep the penalty
        built from all of it: R of the rows that stay is a Schur complement.
        """
        kept = np.setdiff1d(np.arange(len(self.K)), left_out)
        within = np.ix_(kept, kept)
        between = np.ix_(left_out, kept)
        if self.filter == "tikhonov":
            rest = Side(
                self.K[within], "tikhonov", self.alpha, constant=self.constant and bool(len(kept))
            )
            return kept, rest.operators, rest.predictor(self.K[between])
        if not len(left_out):
            return kept, self.operators, np.zeros((0, len(kept)), dtype=LONG)
        R = self.limit if self.vanishes else self.R
        P = -inverse(R[np.ix_(left_out, left_out)]) @ R[between]
        added = R[between].T @ P
        if self.vanishes:
            eye = np.eye(len(kept), dtype=LONG)
            return (
                kept,
                Operators(eye, np.zeros_like(eye), R[within] + added, False, self.constant),
                P,
            )
        rest = Operators(
            self.H[within] - added, R[within] + added, None, self.definite, self.constant
        )
        return kept, rest, P
