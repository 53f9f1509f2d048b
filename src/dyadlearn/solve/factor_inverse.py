r"""Inverses of the system of observed labels from a factor of it.

`FactorInverse` has the eigenvectors of the kernel between the observed cells, for many
regularisations. `FeatureInverse` computes the features of pairs when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np

from dyadlearn._array import (
    Array,
    cholesky,
    epsilon,
    largest,
    namespace,
    row_blocks,
    solve_lower,
    take_rows,
    zeros,
)
from dyadlearn._rounding import rounding_level, solve_block
from dyadlearn.leverage import leverage_error
from dyadlearn.solve.blocks import error_of_difference, identity
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.leaving import members_of
from dyadlearn.spectrum import Smoother


@dataclass(frozen=True, eq=False)
class FactorInverse(Inverse):
    r"""The inverse from a factor: :math:`\mathbf{B} = \mathbf{V}\,\mathrm{diag}(b)\,\mathbf{V}^\top` is N or the hat.

    Attributes
    ----------
    vectors : array of shape (n, k)
        The factor V.
    weights : array of shape (k,)
        The weights b.
    is_hat : bool
        Whether B is the hat.
    floor, is_graded, root, error : as in `Inverse`
    dual_weights : array of shape (k,) or None
        Weights of the vectors in the dual coefficients; None if these are residuals divided by the
        ridge.
    """

    vectors: Array
    weights: Array
    is_hat: bool = True
    floor: float = 0.0
    is_graded: bool = False
    root: Array | None = None
    error: float = 0.0
    dual_weights: Array | None = None
    # The last labels, and their product with the factor.
    _latest: list[tuple[Array, Array]] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of_spectrum(cls, side: Smoother) -> Self:
        """Return the inverse of a kernel between the observed cells, from its decomposition.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.filters import Tikhonov
        >>> from dyadlearn.solve.factor_inverse import FactorInverse
        >>> from dyadlearn.spectrum import Spectrum
        >>> cells = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
        >>> FactorInverse.of_spectrum(cells).leave_out(np.array([[3.0], [6.0]])).round(6)
        array([[2.],
               [1.]])
        """
        known = side.scaled()
        is_hat = not known.prefers_residual
        weights = known.shrinkage if is_hat else known.remainder
        floors = (known.slack_floor, known.is_graded)
        dual_weights = None
        if side.alpha == 0:  # a free constant is no part of the kernel
            dual_weights = namespace(weights).where(side.spectrum.values > 0, side.phi, 0.0)
        if is_hat and known.slack_floor:
            error = error_of_difference(weights, side.spectrum.n_rows)
        else:
            error = 0.0
        return cls(
            side.spectrum.vectors, weights, is_hat, *floors, error=error, dual_weights=dual_weights
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.vectors.shape[0])

    def solved(self, labels: Array, ridge: float) -> Array:
        """Return the dual coefficients (n, p) of labels, also for a ridge of zero if `dual_weights` are known."""
        if self.dual_weights is None:
            return super().solved(labels, ridge)
        return self.vectors @ (self.dual_weights[:, None] * self.gathered(labels))

    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of B between the members (number, size) of sets."""
        rows = self.take(members.reshape(-1))
        xp = namespace(rows)
        rows = xp.reshape(rows, (*members.shape, rows.shape[1]))
        return (rows * self.weights) @ xp.matrix_transpose(rows)

    def take(self, at: np.ndarray) -> Array:
        """Return rows (s, k) of the factor."""
        return take_rows(self.vectors, at)

    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of B."""
        rows = self.take(at) * self.weights
        pieces = [self.spread(here, rows.T).T for here in self._everybody()]
        return namespace(rows).concat(pieces, axis=1)

    def times(self, labels: Array) -> Array:
        """Return B times labels (n, p)."""
        along = self.weights[:, None] * self._along(labels)
        return namespace(along).concat(
            [self.spread(here, along) for here in self._everybody()], axis=0
        )

    def spread(self, at: np.ndarray, along: Array) -> Array:
        """Return rows of the factor times coefficients (k, p), shape (s, p)."""
        return self.take(at) @ along

    def _along(self, labels: Array) -> Array:
        """Return the result of `gathered`, computed once for all sets of the same labels."""
        latest = self._latest[-1] if self._latest else None
        if latest is None or latest[0] is not labels:
            latest = (labels, self.gathered(labels))
            self._latest[:] = [latest]
        return latest[1]

    def gathered(self, labels: Array) -> Array:
        """Return the transposed factor times labels (n, p), shape (k, p)."""
        total = zeros((int(self.weights.shape[0]), int(labels.shape[1])), labels)
        for here in self._everybody():
            total = total + self.take(here).T @ take_rows(labels, here)
        return total

    def _everybody(self) -> list[np.ndarray]:
        """Return the positions of all labels, in blocks of rows of the factor of bounded memory."""
        positions = np.arange(self.n_labels)
        return [positions[here] for here in row_blocks(self.n_labels, self.width)]

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, largest(self.weights))

    @property
    def width(self) -> int:
        """Number k of directions: the length of the row of a label."""
        return int(self.weights.shape[0])

    def _left_out(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array
    ) -> Array:
        if not self.is_hat or members.shape[1] <= self.weights.shape[0]:
            return super()._left_out(members, units, labels, image)
        pieces = [self._left_out_of_many(at, labels) for at in members]
        return namespace(labels).concat(pieces, axis=0)

    def _left_out_of_many(self, at: np.ndarray, labels: Array) -> Array:
        r"""Return predictions (s, p) of a set with more labels than directions.

        .. math:: \hat{\mathbf{y}}_S = \mathbf{F}_S(\mathbf{I} - \mathbf{F}_S^\top\mathbf{F}_S)^{-1}
                  \mathbf{F}_{\bar S}^\top\mathbf{y}_{\bar S}, \qquad \mathbf{F} = \mathbf{V}\sqrt b
        """
        roots = self.weights**0.5
        blocks = [at[here] for here in row_blocks(at.size, self.width)]
        system = identity(roots[:, None] * roots)
        right = roots[:, None] * self._along(labels)
        for here in blocks:
            rows = self.take(here) * roots
            system = system - rows.T @ rows
            right = right - rows.T @ take_rows(labels, here)
        refusal = partial(leverage_error, at, self.n_labels, "cells form a set that")
        solved = solve_block(system, right, self.floor, self.is_graded, refusal, error=self.error)
        solved = roots[:, None] * solved
        return namespace(solved).concat([self.spread(here, solved) for here in blocks], axis=0)


@dataclass(frozen=True, eq=False)
class FeatureInverse(FactorInverse):
    r"""The inverse of ridge regression on few features of many pairs, whose factor is computed when it is used.

    .. math:: \mathbf{F} = \sqrt{w}\,\mathbf{Z}\,\mathbf{L}^{-\top}, \qquad
              \mathbf{LL}^\top = \mathbf{Z}^\top\mathrm{diag}(w)\mathbf{Z} +
              \mathrm{diag}(\mathbf{d})

    Attributes
    ----------
    features : callable
        Function that returns the features of some pairs, multiplied by the roots of their weights,
        shape (s, k).
    lower : array of shape (k, k)
        The inverse of L.
    n_pairs : int
    norm : float
        Upper bound of the norm of the hat.
    error : float
        Absolute error of the eigenvalues of a block of N, which is the difference of an identity
        and the hat.
    rounding : float
        As in `Inverse`.
    """

    features: Callable[[np.ndarray], Array] = field(kw_only=True)
    lower: Array = field(kw_only=True)
    n_pairs: int = field(kw_only=True)
    norm: float = field(kw_only=True)
    error: float = field(kw_only=True)
    rounding: float = field(kw_only=True)

    @classmethod
    def of(
        cls,
        features: Callable[[np.ndarray], Array],
        n_pairs: int,
        penalties: Array,
        root: Array | None,
        refusal: Callable[[], Exception],
    ) -> Self:
        """Return the inverse from the normal equations.

        Parameters
        ----------
        features, n_pairs : as attributes
        penalties : array of shape (k,)
            Penalty d of each feature; 0 for a constant feature whose coefficient is free.
        root : array of shape (n,) or None
            Roots of the weights w of the pairs in the squared loss.
        refusal : callable
            Function that returns the error to raise if the normal equations are singular.
        """
        k = int(penalties.shape[0])
        xp = namespace(penalties)
        gram = zeros((k, k), penalties)
        for here in row_blocks(n_pairs, k):
            rows = features(np.arange(n_pairs)[here])
            gram = gram + rows.T @ rows
        system = gram + penalties * identity(gram)
        try:
            lower = solve_lower(cholesky(system), identity(gram))
        except np.linalg.LinAlgError:
            raise refusal() from None
        # The largest sum of a row bounds the norm, which is that of the hat; it is small for a
        # large regularisation.
        norm = min(1.0, largest(xp.sum(xp.abs(lower @ gram @ lower.T), axis=1)))
        return cls(
            lower,
            xp.ones_like(penalties),
            is_graded=True,
            root=root,
            features=features,
            lower=lower,
            n_pairs=n_pairs,
            norm=norm,
            error=epsilon(gram) * n_pairs,
            rounding=epsilon(gram) * _scaled_condition(system, lower),
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.n_pairs

    def take(self, at: np.ndarray) -> Array:
        """Return rows (s, k) of the factor."""
        return self.features(at) @ self.lower.T

    def spread(self, at: np.ndarray, along: Array) -> Array:
        """Return rows of the factor times coefficients (k, p), shape (s, p), without the factor."""
        return self.features(at) @ (self.lower.T @ along)

    def gathered(self, labels: Array) -> Array:
        """Return the transposed factor times labels (n, p), shape (k, p), without the factor."""
        total = zeros((int(self.weights.shape[0]), int(labels.shape[1])), labels)
        for here in self._everybody():
            total = total + self.features(here).T @ take_rows(labels, here)
        return self.lower @ total

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, self.norm)

    def label_weights(self, asked: Array) -> Array:
        r"""Return the weight (n,) of each label in the prediction for a pair with some features (k,).

        .. math:: \sqrt w\,\mathbf{F}\,\mathbf{L}^{-1}\mathbf{z}
        """
        along = self.lower @ asked
        pieces = [self.take(here) @ along for here in self._everybody()]
        return self._scaled(namespace(along).concat(pieces)[:, None])[:, 0]

    def coefficients_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int
    ) -> Array:
        r"""Return the coefficients of the features in the models without each unit, shape (k, u).

        They are :math:`\boldsymbol\theta -
        (\mathbf{LL}^\top)^{-1}\mathbf{Z}_S^\top\mathrm{diag}(w_S)\,\mathbf{e}_S`. Arguments are
        those of `duals_without`.
        """
        residuals = self._scaled((labels - held_out)[:, None])
        along = self.gathered(self._scaled(labels[:, None]))
        columns = [along] * n_units
        for members in members_of(units):
            unit = int(units[members[0]])
            gone = self.features(members).T @ take_rows(residuals, members)
            columns[unit] = along - self.lower @ gone
        return self.lower.T @ namespace(labels).concat(columns, axis=1)


def _scaled_condition(system: Array, lower: Array) -> float:
    """Return an upper bound of the condition number of a system (k, k) that is scaled to a unit diagonal.

    The error of a Cholesky factor depends on this number alone, because it does not change if
    features are multiplied. `lower` is the inverse of the factor.
    """
    xp = namespace(system)
    scale = xp.linalg.diagonal(system) ** 0.5
    inverse = lower.T @ lower
    inverse *= scale[:, None]
    inverse *= scale[None, :]
    scaled = system / scale[:, None] / scale[None, :]
    norms = [largest(xp.sum(xp.abs(matrix), axis=1)) for matrix in (scaled, inverse)]
    return norms[0] * norms[1]
