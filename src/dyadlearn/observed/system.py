r"""Ridge regression on the observed pairs, in as many unknowns as pairs of directions.

On the complete grid a model of pairs is a kernel :math:`\mathbf{P} = (\mathbf{V}\otimes\mathbf{U})\,\mathrm{diag}(S)\,
(\mathbf{V}\otimes\mathbf{U})^\top` with a ridge c (see `dyadlearn.holes.operators`). Of the pairs o that are observed,
with weights w, it minimises over functions :math:`f = \mathbf{U}(\sqrt S\circ\mathbf{X})\mathbf{V}^\top + \mu`

.. math:: \sum_o w_o\,(f_o - y_o)^2 + c\,\|\mathbf{X}\|^2 ,

normal equations in the r × s unknowns :math:`\mathbf{X}` that conjugate gradients solve. One product takes
:math:`q r s + n r` multiplications, or :math:`m r s + n s`, see `dyadlearn.observed.pairs`. The free mean is
taken out of values at the pairs by projection.

Were pairs drawn independently on both sides, with the weights :math:`\mathbf{d}, \mathbf{t}` that instances and tasks
have in them, :math:`N` together, the loss of a product kernel would have the Hessian

.. math:: \tfrac1N\,(\boldsymbol\Phi^\top\mathrm{diag}(\mathbf{d})\,\boldsymbol\Phi) \otimes
          (\boldsymbol\Psi^\top\mathrm{diag}(\mathbf{t})\,\boldsymbol\Psi) .

Features are rotated once into its eigenvectors, where it is diagonal: the preconditioner is a division, and popular
tasks cost no iterations; where all rows occur about as often, these are the directions of the spectrum. A kernel that
is no product stays in its own directions, and takes the diagonal there.

Conjugate gradients stop when the parameters :math:`\mathbf{a} = w(y-f)/c` of the pairs solve their own system
:math:`(\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} = y - \mu` to a relative residual `tol`, as they do on
grids with holes. With the residual :math:`\mathbf{G}` of the normal equations that is
:math:`\|\sqrt w\,f(\mathbf{G})\|/c\,\|\sqrt w\,y\|`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from dyadlearn._array import Array, eigh, epsilon, itemsize, largest, namespace, row_blocks, zeros
from dyadlearn._state import Stored
from dyadlearn.holes.conjugate_gradients import conjugate_gradients, inner, inner_there
from dyadlearn.holes.operators import GridOperators
from dyadlearn.observed.pairs import GridLabels, GridProducts, PairLabels, PairProducts, mean_of
from dyadlearn.spectrum import Spectrum

__all__ = ["ObservedSolution", "ObservedSystem"]

# Rows whose weights vary by no more than this share of their mean, squared, are taken for even.
_EVEN = 0.02
# How often the goal is lowered where the residual of the parameters turns out larger than it was taken for.
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class ObservedSolution(Stored):
    """A function of pairs that the observed ones determine.

    Attributes
    ----------
    spectral : array of shape (k, l)
        X, its values along pairs of directions over the roots of their eigenvalues.
    mean : float
        The free mean, 0 where there is none.
    n_iter : int
    residual : float
        Relative norm of what the parameters of the pairs leave of their own system, computed anew.
    converged : bool
    """

    spectral: Array
    mean: float
    n_iter: int
    residual: float
    converged: bool

    _shapes: ClassVar[Mapping[str, str]] = {"spectral": "k l"}


class _Basis(NamedTuple):
    """Features of both sides in directions that make the preconditioner diagonal.

    Attributes
    ----------
    left, right : arrays of shape (m, k) and (q, l)
    turns : (array of shape (k, k) or None, array of shape (l, l) or None) or None
        What they were rotated by, where they were; None for a kernel that is no product of both sides'.
    loads : (array of shape (k,), array of shape (l,))
        Diagonals of the Gram matrices of both, rows weighed as they occur in the pairs.
    total : float
        How much all pairs weigh.
    """

    left: Array
    right: Array
    turns: tuple[Array | None, Array | None] | None
    loads: tuple[Array, Array]
    total: float


@dataclass(frozen=True, eq=False)
class ObservedSystem:
    """The normal equations of observed pairs under one regularisation.

    Attributes
    ----------
    operators : GridOperators
        Of the model on the complete grid, of which only the spectra and their pair kernel are asked for.
    labels : PairLabels or GridLabels
    basis : _Basis
    products : PairProducts or GridProducts
    """

    operators: GridOperators
    labels: PairLabels | GridLabels
    basis: _Basis
    products: PairProducts | GridProducts

    @classmethod
    def of(cls, operators: GridOperators, labels: PairLabels | GridLabels) -> Self:
        """Return the system of a model and of some pairs; features are rotated once for all that is made of it.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.observed.pairs import PairLabels
        >>> from dyadlearn.observed.system import ObservedSystem
        >>> from dyadlearn.pairing import Kronecker
        >>> from dyadlearn.spectrum import Spectrum
        >>> sides = [Spectrum.from_features(np.array([[1.0], [2.0]])), Spectrum.from_features(np.array([[1.0], [0.0]]))]
        >>> pairs = PairLabels(np.array([0]), np.array([0]), np.array([3.0]), (2, 2))
        >>> system = ObservedSystem.of(Kronecker(*sides, 1.0), pairs)
        >>> system.fitted(system.solve())  # a kernel of 1, a ridge of 1
        array([1.5])
        """
        check_regularised(operators)
        spectra = operators.grid_spectra
        weights = labels.sums(1), labels.sums(0)
        if operators.is_product:
            (left, turn, load), (right, task_turn, task_load) = map(_turned, spectra, weights)
            basis = _Basis(left, right, (turn, task_turn), (load, task_load), labels.total)
        else:
            load, task_load = (_diagonal(side.vectors, own) for side, own in zip(spectra, weights, strict=True))
            basis = _Basis(spectra[0].vectors, spectra[1].vectors, None, (load, task_load), labels.total)
        return cls(operators, labels, basis, labels.products(basis.left, basis.right))

    def at(self, operators: GridOperators) -> Self:
        """Return the same pairs under another regularisation of the same model."""
        check_regularised(operators)
        return replace(self, operators=operators)

    def among(self, labels: PairLabels) -> Self:
        """Return the same model of other pairs of the same grid; the preconditioner is that of these ones."""
        return replace(self, labels=labels, products=labels.products(self.basis.left, self.basis.right))

    def solve(
        self, start: ObservedSolution | None = None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> ObservedSolution:
        """Return the function that the labels determine.

        Parameters
        ----------
        start : ObservedSolution, default=None
            Of a problem nearby.
        tol : float, default=1e-8
            Relative residual at which conjugate gradients stop, but no less than the precision allows.
        max_iter : int, default=1000
        """
        ridge, scale, y = self.operators.ridge, self.scale, self.labels.values
        shift = mean_of(y, self.labels.weights) if self.operators.free_mean else 0.0
        # Of labels far from zero their mean is rounded, and what that leaves of it is taken out too.
        centred = self._centred(y - shift)
        right, diagonal = self._gathered(centred, scale), self._diagonal(scale)
        size = math.sqrt(inner(centred, self._weighted(centred)))
        del centred  # as large as the labels
        tol = max(tol, 50 * epsilon(y))
        values = None if start is None else self._turned(start.spectral)
        n_iter, residual, goal = 0, math.inf, tol

        def square(rest: Array) -> Array:
            """Estimate the squared norm of a residual at the pairs by the preconditioner."""
            return inner_there(rest, diagonal * rest) / ridge**2

        def measured(rest: Array) -> float:
            return math.sqrt(float(square(rest)))

        def product(function: Array) -> Array:
            return self._normal(function, scale) + ridge * function

        if size == 0 or measured(right) == 0:
            return ObservedSolution(namespace(right).zeros_like(right), shift, 0, 0.0, True)
        # A function that is small beside the labels, as under a large ridge, is to have as many digits as they.
        least = min(size, measured(right))
        for _ in range(_ROUNDS):
            found = conjugate_gradients(
                product,
                right,
                precondition=lambda rest: rest / diagonal,
                start=values,
                tol=goal * least / measured(right),
                max_iter=max_iter - n_iter,
                square=square,
            )
            n_iter, values, before = n_iter + found.n_iter, found.values, residual
            left = right - product(values)
            rest = self._values(left, scale)
            residual = math.sqrt(inner(rest, self._weighted(rest))) / (ridge * size)
            if residual <= tol or n_iter >= max_iter or residual > 0.5 * before:
                break
            goal = min(goal, measured(left) / least) * 0.5 * tol / residual
        # Rounding of one product with the normal equations, as it shows in the parameters of the pairs.
        allowed = max(tol, 8.0 * epsilon(y) * largest(diagonal) / ridge if n_iter < max_iter else 0.0)
        mean = shift
        if self.operators.free_mean:
            fitted = self.products.values(values if scale is None else scale * values)
            mean = shift + mean_of((y - shift) - fitted, self.labels.weights)
        return ObservedSolution(self._turned(values, back=True), mean, n_iter, residual, residual <= allowed)

    def fitted(self, solution: ObservedSolution, products: PairProducts | GridProducts | None = None) -> Array:
        """Return the function at the pairs, or at others that products of this basis know."""
        function = self._turned(solution.spectral)
        scale = self.scale
        products = self.products if products is None else products
        return products.values(function if scale is None else scale * function) + solution.mean

    @property
    def scale(self) -> Array | None:
        """What unknowns are multiplied by, (k, l), before features multiply them; None is one."""
        return None if self.basis.turns is not None else self.operators.kernel_values**0.5

    def _diagonal(self, scale: Array | None) -> Array:
        rows, columns = self.basis.loads
        # Some of the pairs have that share of what all of them weigh.
        found = rows[:, None] * (columns * (self.labels.total / self.basis.total**2))
        return (found if scale is None else scale**2 * found) + self.operators.ridge

    def _weighted(self, values: Array) -> Array:
        return values if self.labels.weights is None else values * self.labels.weights

    def _centred(self, values: Array) -> Array:
        return values - mean_of(values, self.labels.weights) if self.operators.free_mean else values

    def _values(self, function: Array, scale: Array | None) -> Array:
        """Return a function at the pairs, less its mean where that is free."""
        return self._centred(self.products.values(function if scale is None else scale * function))

    def _gathered(self, values: Array, scale: Array | None) -> Array:
        found = self.products.gathered(self._weighted(values))
        return found if scale is None else scale * found

    def _normal(self, function: Array, scale: Array | None) -> Array:
        """Return the Hessian of the loss, without the ridge, times a function: one look at the pairs there and back."""
        scaled = function if scale is None else scale * function
        found = self.products.normal(scaled, self.labels.weights, free_mean=self.operators.free_mean)
        return found if scale is None else scale * found

    def _turned(self, spectral: Array, back: bool = False) -> Array:
        """Return unknowns in the directions of the basis, or back in those of the spectra."""
        if self.basis.turns is None:
            return spectral
        rows, columns = self.basis.turns
        if rows is not None:
            spectral = (rows if back else rows.T) @ spectral
        return spectral if columns is None else spectral @ (columns.T if back else columns)


def check_regularised(operators: GridOperators) -> None:
    """Refuse a model that interpolates."""
    if operators.ridge <= 0 or operators.floor > 0:
        raise ValueError(
            "Observed pairs alone determine no model without regularisation: use an alpha above 0 (and filters that "
            "regularise), or give the grid of labels with NaN where they are missing."
        )


def _gram(vectors: Array, load: Array) -> Array:
    """Return the Gram matrix (k, k) of weighted rows, of which no copy as large as them is made."""
    found = zeros((int(vectors.shape[1]),) * 2, vectors)
    for block in row_blocks(vectors.shape[0], vectors.shape[1] * itemsize(vectors)):
        rows = vectors[block, :]
        found += rows.T @ (load[block][:, None] * rows)
    return found


def _diagonal(vectors: Array, load: Array) -> Array:
    """Return the diagonal (k,) of the Gram matrix of weighted rows."""
    found = zeros((int(vectors.shape[1]),), vectors)
    for block in row_blocks(vectors.shape[0], vectors.shape[1] * itemsize(vectors)):
        found += load[block] @ vectors[block, :] ** 2
    return found


def _turned(spectrum: Spectrum, load: Array) -> tuple[Array, Array | None, Array]:
    """Return the features of a side in the eigenvectors of their weighted Gram matrix, these, and its eigenvalues.

    Where all rows weigh about the same these are the directions of the spectrum, and nothing is rotated: None.
    """
    xp, roots = namespace(load), spectrum.values**0.5
    if float(xp.var(load)) <= _EVEN * float(xp.mean(load)) ** 2:
        return spectrum.vectors * roots, None, spectrum.values * _diagonal(spectrum.vectors, load)
    values, turn = eigh(roots[:, None] * _gram(spectrum.vectors, load) * roots)
    return spectrum.vectors @ (roots[:, None] * turn), turn, xp.clip(values, 0.0, None)
