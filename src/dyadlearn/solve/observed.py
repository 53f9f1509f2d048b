r"""Ridge regression on observed pairs without forming the grid, with one unknown for each pair of directions.

On the complete grid a model of pairs is a kernel :math:`\mathbf{P} =
(\mathbf{V}\otimes\mathbf{U})\,\mathrm{diag}(S)\, (\mathbf{V}\otimes\mathbf{U})^\top` with a ridge c
(see `dyadlearn.solve.operators`). For observed pairs o with weights w, it minimises over functions
:math:`f = \mathbf{U}(\sqrt S\circ\mathbf{X})\mathbf{V}^\top + \mu`

.. math:: \sum_o w_o\,(f_o - y_o)^2 + c\,\|\mathbf{X}\|^2 ,

Conjugate gradients solve the normal equations in the r × s unknowns :math:`\mathbf{X}`. One product
takes
:math:`q r s + n r` multiplications, or :math:`m r s + n s`, whichever is less. A free mean is removed from values at
the pairs by projection.

If pairs were drawn independently on both sides, with total weights :math:`\mathbf{d}` of the
instances and
:math:`\mathbf{t}` of the tasks, :math:`N` together, the loss of a product kernel would have the Hessian

.. math:: \tfrac1N\,(\boldsymbol\Phi^\top\mathrm{diag}(\mathbf{d})\,\boldsymbol\Phi) \otimes
          (\boldsymbol\Psi^\top\mathrm{diag}(\mathbf{t})\,\boldsymbol\Psi) .

Features are rotated once into its eigenvectors, so that the preconditioner is a division. Tasks
with many labels then take no additional iterations. If all rows have similar weights, the
eigenvectors are those of the spectrum. A kernel that is no product is not rotated, and the
preconditioner is the diagonal.

Conjugate gradients stop when the dual coefficients :math:`\mathbf{a} = w(y-f)/c` of the pairs solve
their system
:math:`(\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} = y - \mu` to a relative residual `tol`, as they do on
grids with missing labels. With the residual :math:`\mathbf{G}` of the normal equations that is
:math:`\|\sqrt w\,f(\mathbf{G})\|/c\,\|\sqrt w\,y\|`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dyadlearn._array import (
    Array,
    Scatter,
    array_bytes,
    as_array_of,
    eigh,
    epsilon,
    largest,
    namespace,
    row_blocks,
    zeros,
)
from dyadlearn._memory import fits_in_memory
from dyadlearn._state import Stored
from dyadlearn._work import products
from dyadlearn.labels import Labels
from dyadlearn.solve.conjugate_gradients import Solution, conjugate_gradients, inner, inner_there
from dyadlearn.solve.crossed import CrossedSystem, crossed_work
from dyadlearn.solve.directions import CellsFit, suit_directions
from dyadlearn.solve.factor import CellsFactor
from dyadlearn.solve.fixed import mean_of
from dyadlearn.solve.missing import (
    ITERATIONS,
    Completion,
    check_dual,
    complete,
    completion_work,
    suits_direct,
)
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import dots_at, few_dots, sandwich


def product_costs(
    shape: tuple[int, int], n_pairs: int, ranks: tuple[int, int], like: Array
) -> tuple[float, float]:
    """Return the multiplications of a product with features at the pairs, with tasks and with instances first.

    Parameters
    ----------
    shape : (int, int)
        Shape of the grid.
    n_pairs : int
    ranks : (int, int)
        Numbers of features of instances and of tasks, r and s.
    like : array
        Array on the device of the computation.
    """
    m, q = shape
    r, s = ranks
    dots = few_dots(n_pairs, shape, like)
    return products((q, r, s), (dots, r)), products((m, r, s), (dots, s))


class PairProducts:
    r"""Values of a function :math:`\mathbf{L}\mathbf{W}\mathbf{R}^\top` at the observed pairs, and the adjoint.

    One matrix product multiplies :math:`\mathbf{W}` (r × s) by the cheaper side. One dot product
    for each pair follows. Memory is that of the features and of the pairs.

    Parameters
    ----------
    left, right : arrays of shape (m, r) and (q, s)
        Features of both sides.
    labels : Labels
        Labels, of which only the positions are used.
    """

    def __init__(self, left: Array, right: Array, labels: Labels) -> None:
        self.left = left
        self.right = right
        self._scatter = Scatter(*labels.places, labels.shape, left)
        self._rows, self._columns = (as_array_of(place, left) for place in labels.places)
        ranks = (int(left.shape[1]), int(right.shape[1]))
        of_tasks, of_instances = product_costs(labels.shape, labels.size, ranks, left)
        self._tasks_first = of_tasks <= of_instances

    def values(self, function: Array) -> Array:
        """Return the values (n,) at the pairs of a function W (r, s)."""
        if self._tasks_first:
            return dots_at(self.right @ function.T, self.left, self._columns, self._rows)
        return dots_at(self.left @ function, self.right, self._rows, self._columns)

    def gathered(self, values: Array) -> Array:
        r"""Return :math:`\sum_p v_p\,\mathbf{l}_{i(p)}\mathbf{r}_{j(p)}^\top` of shape (r, s) for values (n,)."""
        if self._tasks_first:
            return self._scatter.times(values, self.left, transposed=True).T @ self.right
        return self.left.T @ self._scatter.times(values, self.right)


class GridProducts:
    """Values of a function on the whole grid, and the adjoint, as `PairProducts` for pairs.

    Parameters
    ----------
    left, right : arrays of shape (m, r) and (q, s)
    """

    def __init__(self, left: Array, right: Array) -> None:
        self.left = left
        self.right = right

    def values(self, function: Array) -> Array:
        """Return the values (m, q) of a function W (r, s)."""
        return sandwich(self.left, function, self.right)

    def gathered(self, values: Array) -> Array:
        """Return LᵀVR of shape (r, s) for values (m, q)."""
        return sandwich(self.left.T, values, self.right.T)


def _products_at(labels: Labels, basis: _Basis) -> PairProducts | GridProducts:
    """Return products of features at the labels of a list, or on the whole grid."""
    left = basis.left
    right = basis.right
    if labels.grid is None:
        return PairProducts(left, right, labels)
    return GridProducts(left, right)


# Maximum variance of the weights of rows, relative to their squared mean, for which features are
# not rotated.
_EVEN = 0.02
# Maximum number of runs, each with a smaller tolerance, until the residual of the dual coefficients
# is small enough.
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class ObservedSolution(Stored):
    """Solution of an `ObservedSystem`: a function of pairs.

    Attributes
    ----------
    spectral : array of shape (k, l)
        The matrix X.
    mean : float
        The free mean; 0 without one.
    n_iter : int
        Number of iterations.
    residual : float
        Relative residual of the dual coefficients of the pairs, recomputed from the solution.
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
    turns : (array of shape (k, k) or None, array of shape (l, l) or None)
        Rotation of the features of each side; None if they are not rotated.
    loads : (array of shape (k,), array of shape (l,))
        Diagonals of the Gram matrices of both, with rows weighted by the pairs.
    total : float
        Total weight of all pairs.
    """

    left: Array
    right: Array
    turns: tuple[Array | None, Array | None]
    loads: tuple[Array, Array]
    total: float


@dataclass(frozen=True, eq=False)
class ObservedSystem:
    """The normal equations of observed pairs under one regularisation.

    Attributes
    ----------
    operators : GridOperators
        Operators of the model on the complete grid, of which only the spectra and the pairwise
        kernel are used.
    labels : Labels
        A list, or a grid if products with the whole grid cost less. The values and weights of a
        grid are zero for missing labels.
    basis : _Basis
    products : PairProducts or GridProducts
    """

    operators: GridOperators
    labels: Labels
    basis: _Basis
    products: PairProducts | GridProducts

    @classmethod
    def of(cls, operators: GridOperators, labels: Labels) -> Self:
        """Return the system of a model and of some pairs, with rotated features.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.labels import Labels
        >>> from dyadlearn.solve.observed import ObservedSystem
        >>> from dyadlearn.pairing import Kronecker
        >>> from dyadlearn.spectrum import Spectrum
        >>> sides = [Spectrum.from_features(np.array([[1.0], [2.0]])), Spectrum.from_features(np.array([[1.0], [0.0]]))]
        >>> pairs = Labels((np.array([0]), np.array([0])), np.array([3.0]), (2, 2))
        >>> system = ObservedSystem.of(Kronecker(*sides, 1.0), pairs)
        >>> system.fitted(system.solve())  # a kernel of 1, a ridge of 1
        array([1.5])
        """
        check_regularised(operators)
        sides = zip(operators.grid_spectra, (labels.sums(1), labels.sums(0)), strict=True)
        (left, turn, load), (right, task_turn, task_load) = (
            _features(*side, operators.is_product) for side in sides
        )
        basis = _Basis(left, right, (turn, task_turn), (load, task_load), labels.total)
        return cls(operators, labels, basis, _products_at(labels, basis))

    def at(self, operators: GridOperators) -> Self:
        """Return the system of the same pairs for another regularisation of the model."""
        check_regularised(operators)
        return replace(self, operators=operators)

    def among(self, labels: Labels) -> Self:
        """Return the system of other pairs of the same grid, with the same preconditioner."""
        return replace(self, labels=labels, products=_products_at(labels, self.basis))

    def solve(
        self, start: ObservedSolution | None = None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> ObservedSolution:
        """Return the solution for the labels of the system.

        Parameters
        ----------
        start : ObservedSolution, default=None
            Solution of a similar problem.
        tol : float, default=1e-8
            Relative residual at which conjugate gradients stop, but no less than the precision
            allows.
        max_iter : int, default=1000
        """
        y = self.labels.values
        shift = self.operators.shift_of(y, self.labels.weights)
        # The mean of labels far from zero is rounded: the mean of the difference is subtracted too.
        centred = self._centred(y - shift)
        right = self._gathered(centred)
        size = self._norm_at_pairs(centred)
        del centred  # as large as the labels
        diagonal = self._diagonal()
        tol = max(tol, 50 * epsilon(y))
        if size == 0 or math.sqrt(float(self._square(right, diagonal))) == 0:
            return ObservedSolution(namespace(right).zeros_like(right), shift, 0, 0.0, True)
        begin = None if start is None else self._turned(start.spectral)
        values, n_iter, residual = self._iterated(right, diagonal, size, begin, tol, max_iter)
        allowed = tol
        if n_iter < max_iter:
            # Rounding error of one product with the normal equations, in the dual coefficients.
            rounding = 8.0 * epsilon(y) * largest(diagonal) / self.operators.ridge
            allowed = max(tol, rounding)
        mean = shift
        if self.operators.free_mean:
            fitted = self.products.values(self._scaled(values))
            mean = shift + mean_of((y - shift) - fitted, self.labels.weights)
        return ObservedSolution(
            self._turned(values, back=True), mean, n_iter, residual, residual <= allowed
        )

    def _iterated(
        self,
        right: Array,
        diagonal: Array,
        size: float,
        begin: Array | None,
        tol: float,
        max_iter: int,
    ) -> tuple[Array, int, float]:
        """Return the unknowns (k, l), the number of iterations, and the relative residual at the pairs.

        Parameters
        ----------
        right : array of shape (k, l)
            Right-hand side of the normal equations.
        diagonal : array of shape (k, l)
            The preconditioner.
        size : float
            Norm of the labels at the pairs.
        begin : array of shape (k, l) or None
            Initial unknowns.
        tol, max_iter : float and int
        """
        ridge = self.operators.ridge
        square = partial(self._square, diagonal=diagonal)

        def norm(rest: Array) -> float:
            return math.sqrt(float(square(rest)))

        def product(function: Array) -> Array:
            return self._gathered(self._values(function)) + ridge * function

        # A function that is small beside the labels, as for a large ridge, is computed to as many
        # digits.
        least = min(size, norm(right))
        values = begin
        n_iter = 0
        residual = math.inf
        goal = tol
        for _ in range(_ROUNDS):
            run = conjugate_gradients(
                product,
                right,
                precondition=lambda rest: rest / diagonal,
                start=values,
                tol=goal * least / norm(right),
                max_iter=max_iter - n_iter,
                square=square,
            )
            n_iter += run.n_iter
            values = run.values
            before = residual
            left = right - product(values)
            residual = self._norm_at_pairs(self._values(left)) / (ridge * size)
            if residual <= tol or n_iter >= max_iter or residual > 0.5 * before:
                break
            goal = min(goal, norm(left) / least) * 0.5 * tol / residual
        return values, n_iter, residual

    def _square(self, rest: Array, diagonal: Array) -> Array:
        """Return an estimate of the squared norm of a residual at the pairs, by the preconditioner."""
        return inner_there(rest, diagonal * rest) / self.operators.ridge**2

    def _norm_at_pairs(self, values: Array) -> float:
        """Return the weighted norm of values at the pairs."""
        return math.sqrt(inner(values, self._weighted(values)))

    def fitted(
        self, solution: ObservedSolution, products: PairProducts | GridProducts | None = None
    ) -> Array:
        """Return the function at the pairs, or at those of other products with the same basis."""
        if products is None:
            products = self.products
        return products.values(self._scaled(self._turned(solution.spectral))) + solution.mean

    @cached_property
    def scale(self) -> Array | None:
        """Factor of the unknowns, (k, l), that the features do not contain; None is one."""
        if self.operators.is_product:
            return None
        return self.operators.kernel_values**0.5

    def _scaled(self, unknowns: Array) -> Array:
        if self.scale is None:
            return unknowns
        return self.scale * unknowns

    def _diagonal(self) -> Array:
        rows, columns = self.basis.loads
        # The pairs may be a part of those that the basis is computed from.
        diagonal = rows[:, None] * (columns * (self.labels.total / self.basis.total**2))
        return self._scaled(self._scaled(diagonal)) + self.operators.ridge

    def _weighted(self, values: Array) -> Array:
        if self.labels.weights is None:
            return values
        return values * self.labels.weights

    def _centred(self, values: Array) -> Array:
        if self.operators.free_mean:
            return values - mean_of(values, self.labels.weights)
        return values

    def _values(self, function: Array) -> Array:
        """Return a function at the pairs, minus its mean if the mean is free."""
        return self._centred(self.products.values(self._scaled(function)))

    def _gathered(self, values: Array) -> Array:
        return self._scaled(self.products.gathered(self._weighted(values)))

    def _turned(self, spectral: Array, back: bool = False) -> Array:
        """Return unknowns in the directions of the basis from those of the spectra, or the reverse."""
        rows, columns = self.basis.turns
        if rows is not None:
            spectral = (rows if back else rows.T) @ spectral
        if columns is None:
            return spectral
        return spectral @ (columns.T if back else columns)


def check_regularised(operators: GridOperators) -> None:
    """Raise if a model interpolates."""
    if operators.interpolates:
        raise ValueError(
            "Observed pairs alone determine no model without regularisation: use an alpha above 0 "
            "(and filters that "
            "regularise), or give the grid of labels with NaN where they are missing."
        )


def _gram(vectors: Array, load: Array) -> Array:
    """Return the Gram matrix (k, k) of weighted rows, without a copy of the rows."""
    gram = zeros((int(vectors.shape[1]),) * 2, vectors)
    for block in row_blocks(*vectors.shape):
        rows = vectors[block, :]
        gram += rows.T @ (load[block][:, None] * rows)
    return gram


def _diagonal(vectors: Array, load: Array) -> Array:
    """Return the diagonal (k,) of the Gram matrix of weighted rows."""
    diagonal = zeros((int(vectors.shape[1]),), vectors)
    for block in row_blocks(*vectors.shape):
        diagonal += load[block] @ vectors[block, :] ** 2
    return diagonal


def _features(
    spectrum: Spectrum, load: Array, is_product: bool
) -> tuple[Array, Array | None, Array]:
    """Return the features of a side in the eigenvectors of their weighted Gram matrix, and its eigendecomposition.

    If all rows have similar weights, features are not rotated, and the eigenvectors are None. For a
    kernel that is no product, features are the eigenvectors of the spectrum.
    """
    if not is_product:
        return spectrum.vectors, None, _diagonal(spectrum.vectors, load)
    xp = namespace(load)
    roots = spectrum.values**0.5
    if float(xp.var(load)) <= _EVEN * float(xp.mean(load)) ** 2:
        return spectrum.vectors * roots, None, spectrum.values * _diagonal(spectrum.vectors, load)
    values, turn = eigh(roots[:, None] * _gram(spectrum.vectors, load) * roots)
    return spectrum.vectors @ (roots[:, None] * turn), turn, xp.clip(values, 0.0, None)


# Normal equations that take more iterations than this are left to the other systems, which keep
# more digits.
_MOST_CROSSED = 200
# Multiplications of a dense system that take as long as one of an iteration.
_DENSE = 10.0
# Grids of fewer cells are completed by their cells.
_LITTLE_WORK = 2**16
# For a product kernel, the system of the pairs with rotated features takes about a third of the
# iterations or fewer, so that each may cost this many times as much. It takes more iterations if
# few cells are observed, or for other kernels.
_FEWER = 3.0
_FEW = 0.05


def complete_grid(
    operators: GridOperators, Y: Array, weights: Array | None, **options: Any
) -> Completion:
    """Complete a grid of labels by the way that takes the least work.

    The arguments are those of `dyadlearn.solve.missing.complete`; the options are `start`, `tol`
    and `max_iter`. If iterations do not converge, a dense system that takes about as long is solved.
    """
    completion = _COMPLETING[quickest(operators, Y, weights)](operators, Y, weights, **options)
    solution = completion.solution
    if solution.converged:
        return completion
    tried = _tried(operators.kernel_cost, solution.n_iter)
    if not suits_direct(operators, Labels.of_grid(Y).size, tried, Y):
        return completion
    options["start"] = completion
    return complete(operators, Y, weights, route="direct", **options)


def quickest(operators: GridOperators, Y: Array, weights: Array | None) -> str:
    """Return the name of the way to complete a grid of labels that takes the least work.

    ==========  =======================================================  ===============================
    way         system                                                   work
    ==========  =======================================================  ===============================
    cells       one unknown for each missing or observed cell            `completion_work`
    pairs       one for each pair of directions                          iterations at the pairs
    crossed     few features of both sides                               `crossed_work`
    ==========  =======================================================  ===============================
    """
    n_observed = Labels.of_grid(Y).size
    if suits_direct(operators, n_observed, operators.kernel_cost, Y):
        return "cells"
    shape = (int(Y.shape[0]), int(Y.shape[1]))
    work = {"cells": completion_work(operators, shape, n_observed, weights is not None)}
    work["crossed"] = crossed_work(operators, shape, n_observed)
    if _is_possible_by_pairs(operators, Y, weights, n_observed):
        cost = min(product_costs(shape, n_observed, operators.n_directions, Y))
        fewer = _FEWER if operators.is_product and n_observed > _FEW * math.prod(shape) else 1
        work["pairs"] = 2.0 * ITERATIONS * cost / fewer
    return min(work, key=lambda name: work[name])


def solve_by_directions(operators: GridOperators, labels: Labels) -> ObservedSolution | None:
    """Return the solution of a list of pairs in the directions of their kernel; None unless it would lose digits."""
    if not suit_directions(operators, labels.size, labels.largest_weight):
        return None
    shift = operators.shift_of(labels.values, labels.weights)
    spectral, mean = CellsFit.of(operators, labels, labels.values - shift).spectral()
    return ObservedSolution(spectral, shift + mean, 0, 0.0, True)


def _tried(iteration: float, n_iter: int) -> float:
    """Return the work of an iteration for which `suits_direct` allows as much time as some that did not converge."""
    return _DENSE * iteration * n_iter / ITERATIONS


def solve_pairs(
    operators: GridOperators,
    labels: Labels,
    factor: Callable[[], CellsFactor] | None = None,
    n_tried: int | None = None,
) -> ObservedSolution | None:
    """Return the solution of a list of pairs by one dense system of the pairs; None if iterations take less work.

    Parameters
    ----------
    operators : GridOperators
    labels : Labels
    factor : callable, default=None
        Function that returns the factor of the system, which the caller keeps; None computes it
        here.
    n_tried : int, default=None
        Number of iterations that have not converged; None if none was tried.
    """
    y = labels.values
    iteration = min(product_costs(labels.shape, labels.size, operators.n_directions, y))
    if n_tried is not None:
        iteration = _tried(iteration, n_tried)
    if not suits_direct(operators, labels.size, iteration, y):
        return None
    shift = operators.shift_of(y, labels.weights)
    try:
        if factor is None:
            solved = factor_of(operators, labels)
        else:
            solved = factor()
    except np.linalg.LinAlgError:
        return None
    dual = solved.dual(y - shift)
    return _of_dual(operators, labels, Solution(dual, 0, 0.0, True), shift)


def solve_crossed(
    operators: GridOperators, labels: Labels, *, tol: float = 1e-8, max_iter: int = 1000
) -> ObservedSolution | None:
    """Return the solution of a list of pairs by `CrossedSystem`; None if that takes more work or does not converge."""
    y = labels.values
    cost = min(product_costs(labels.shape, labels.size, operators.n_directions, y))
    if crossed_work(operators, labels.shape, labels.size) >= 2.0 * ITERATIONS * cost:
        return None
    shift = operators.shift_of(y, labels.weights)
    most = min(max_iter, _MOST_CROSSED)
    solution = CrossedSystem(operators, labels).dual(y - shift, tol, most)
    if not solution.converged:
        return None
    return _of_dual(operators, labels, solution, shift)


def _of_dual(
    operators: GridOperators, labels: Labels, solution: Solution, shift: float
) -> ObservedSolution:
    """Return the function of pairs with the dual coefficients of a solution, for labels less a number."""
    dual = solution.values
    y = labels.values
    check_dual(operators, dual, y - shift)
    products = PairProducts(*operators.vectors, labels)
    spectral = operators.kernel_values**0.5 * products.gathered(dual)
    mean = shift
    if operators.free_mean:
        fitted = products.values(operators.kernel_values**0.5 * spectral)
        mean = shift + mean_of((y - shift) - fitted, labels.weights)
    outcome = (solution.n_iter, solution.residual, solution.converged)
    return ObservedSolution(spectral, mean, *outcome)


def factor_of(operators: GridOperators, labels: Labels) -> CellsFactor:
    """Return the factor of the system of the observed pairs of a list of labels."""
    return CellsFactor.of(operators, labels.places, labels.loss_weights**0.5)


def _is_possible_by_pairs(
    operators: GridOperators, Y: Array, weights: Array | None, n_observed: int
) -> bool:
    """Return whether a grid of labels may be completed by the system of its observed pairs."""
    m, q = Y.shape
    k, r = operators.n_directions
    if not operators.takes_pairs or m * q < _LITTLE_WORK or operators.interpolates:
        return False
    if n_observed == 0 or (weights is None and n_observed == m * q):
        return False
    return fits_in_memory(array_bytes(Y, (m, k), (q, r), (8, k, r), (3, m, q)), Y)


def _labels_to_solve_for(Y: Array, weights: Array | None) -> Labels:
    """Return the labels as a list, or as a grid with weights of zero where products with all of it cost less."""
    labels = Labels.of_grid(Y, weights)
    xp = namespace(Y)
    if few_dots(labels.size, labels.shape, Y) < labels.observed.size:
        return labels.listed()
    missing = xp.isnan(Y)
    nothing = xp.zeros_like(Y)
    positive = xp.ones_like(Y) if weights is None else weights
    return Labels.of_grid(xp.where(missing, nothing, Y), xp.where(missing, nothing, positive))


def complete_by_pairs(
    operators: GridOperators,
    Y: Array,
    weights: Array | None,
    start: Completion | None = None,
    **options: Any,
) -> Completion:
    """Complete a grid as `dyadlearn.solve.missing.complete` does, by solving for the observed pairs."""
    system = ObservedSystem.of(operators, _labels_to_solve_for(Y, weights))
    known = None
    if start is not None and start.route == "pairs":
        known = ObservedSolution(start.solution.values, 0.0, 0, 0.0, True)
    solution = system.solve(known, **options)
    fitted = operators.on_grid(operators.kernel_values**0.5 * solution.spectral) + solution.mean
    outcome = (solution.n_iter, solution.residual, solution.converged)
    completed = _completed(Y, weights, fitted)
    return Completion(completed, "pairs", Solution(solution.spectral, *outcome))


def complete_crossed(
    operators: GridOperators,
    Y: Array,
    weights: Array | None,
    start: Completion | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Completion:
    """Complete a grid as `dyadlearn.solve.missing.complete` does, by `CrossedSystem`.

    If that does not converge, `complete` continues from its solution.
    """
    grid = Labels.of_grid(Y, weights)
    labels = grid.listed()
    shift = operators.shift_of(labels.values, labels.weights)
    values = labels.values - shift
    root = labels.loss_weights**0.5
    begin = None
    if start is not None and start.route == "observed":
        begin = root * labels.of(start.solution.values)
    most = min(max_iter, _MOST_CROSSED)
    solution = CrossedSystem(operators, labels).dual(values, tol, most, begin)
    if solution.converged:
        check_dual(operators, solution.values, values)
    fitted = operators.kernel(grid.shaped(solution.values, 0.0)) + shift
    if operators.free_mean:
        rest = labels.values - labels.of(fitted)
        fitted += mean_of(rest, labels.weights)
    unknowns = grid.shaped(solution.values / root, 0.0)
    completed = _completed(Y, weights, fitted)
    completion = Completion(completed, "observed", replace(solution, values=unknowns))
    if solution.converged:
        return completion
    return complete(operators, Y, weights, start=completion, tol=tol, max_iter=max_iter)


def _completed(Y: Array, weights: Array | None, fitted: Array) -> Array:
    """Return the labels for which the closed form without weights returns a fit."""
    observed = Y if weights is None else fitted + weights * (Y - fitted)
    xp = namespace(Y)
    return xp.where(xp.isnan(Y), fitted, observed)


#: Ways to complete a grid, see `quickest`.
_COMPLETING: dict[str, Callable[..., Completion]] = {
    "cells": complete,
    "pairs": complete_by_pairs,
    "crossed": complete_crossed,
}
