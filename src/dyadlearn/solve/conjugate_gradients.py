r"""Conjugate gradients on grids of labels, preconditioned by leading eigenvectors of the complete grid.

Eigenvectors of the pairs are products :math:`\phi_{ij} = \mathbf{u}_i\mathbf{v}_j^\top`. The r
eigenvectors with the least shrinkage are the columns of :math:`\boldsymbol\Phi`. It is never
formed: products with it are matrix products on grids. With weights :math:`\boldsymbol\Omega` of the
cells (1 if observed, else 0), they have one small system,

.. math:: \mathbf{S} = \mathrm{diag}(\mathbf{d}) + \boldsymbol\Phi^\top\boldsymbol\Omega\boldsymbol\Phi,

from which Woodbury's identity gives the inverse of an operator that is exact on these r directions
and a multiple of the identity on the others. The number of iterations depends on the spread of the
other eigenvalues.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import (
    Array,
    as_array_of,
    least_positions,
    namespace,
    positive_solver,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._checks import caller_level
from dyadlearn._messages import Message
from dyadlearn._rounding import ratio
from dyadlearn._state import Stored
from dyadlearn._work import FACTORED, SYMMETRIC, products
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich, sandwich_work

Operator = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Solution(Stored):
    """Solution of an iterative solver.

    Attributes
    ----------
    values : array
        The solution, of the shape of the right-hand side.
    n_iter : int
        Number of iterations.
    residual : float
        Norm of the residual relative to that of the right-hand side, recomputed from the solution
        unless the tolerance is rough.
    converged : bool
        Whether the residual is below the tolerance.
    """

    values: Array
    n_iter: int
    residual: float
    converged: bool

    _shapes: ClassVar[Mapping[str, str]] = {"values": "m q"}


def conjugate_gradients(
    operator: Operator,
    right: Array,
    *,
    precondition: Operator | None = None,
    start: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
    rounding: float = 0.0,
    square: Operator | None = None,
    dot: Callable[[Array, Array], Array] | None = None,
    rest: Array | None = None,
) -> Solution:
    r"""Solve :math:`\mathbf{Ax} = \mathbf{b}` for a positive definite operator on arrays of any shape.

    Each iteration takes one product with the operator. The residual is updated in each iteration,
    and differs from the true one by rounding. When it falls below the tolerance, unless that is
    rough, the true residual is computed. If that is larger, the iteration restarts from the current
    solution.

    Parameters
    ----------
    operator : callable
        Applies :math:`\mathbf{A}` to an array of the shape of `right`.
    right : array
        The right-hand side :math:`\mathbf{b}`.
    precondition : callable, default=None
        Applies a positive definite approximation of :math:`\mathbf{A}^{-1}`.
    start : array, default=None
        Initial solution; None is zero.
    tol : float, default=1e-10
        Stop when the residual norm falls below this share of :math:`\|\mathbf{b}\|`.
    max_iter : int, default=1000
    rounding : float, default=0.0
        Rounding error of a product, relative to the norm of the solution:
        :math:`\varepsilon\|\mathbf{A}\|`. A residual of the size of this rounding that no longer
        decreases counts as converged.
    square : callable, default=None
        Function that returns the squared norm of residuals and of :math:`\mathbf{b}`, as an array
        of shape (); None is the Euclidean norm.
    dot : callable, default=None
        Function that returns the inner products of independent systems, which are solved together,
        as an array that broadcasts with `right`; None is the inner product of one system. The
        relative residual is the largest one.
    rest : array, default=None
        Array of the shape of `right` that the last residual is written to.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.solve.conjugate_gradients import conjugate_gradients
    >>> conjugate_gradients(lambda x: 2.0 * x, np.array([[2.0, 4.0]])).values
    array([[1., 2.]])
    """
    xp = namespace(right)
    dot = dot or inner_there
    square = square or (lambda array: dot(array, array))
    scale = square(right)
    if float(xp.max(scale)) == 0:
        if rest is not None:
            rest[...] = right
        return Solution(xp.zeros_like(right), 0, 0.0, True)
    iteration = _Iteration(operator, precondition, dot, square, scale)
    if start is None:
        values = xp.zeros_like(right)
        residual = xp.asarray(right, copy=True)
    else:
        values = xp.asarray(start, copy=True)
        residual = right - operator(values)
    goal = tol
    size = iteration.size_of(square(residual))
    n_iter = 0
    while size > goal and n_iter < max_iter:
        before = size
        n_iter += iteration.improve(values, residual, goal, max_iter - n_iter)
        if tol < _ROUGH:
            residual = right - operator(values)
        size = iteration.size_of(square(residual))
        # Stop at the precision if a restart reduced the residual by less than half.
        if size > 0.5 * before:
            if n_iter < max_iter:
                norm = iteration.size_of(dot(values, values))
                goal = max(goal, 2.0 * rounding * norm)
            break
    if rest is not None:
        rest[...] = residual
    return Solution(values, n_iter, size, bool(size <= goal))  # tol may be a number of numpy


class _Iteration(NamedTuple):
    """Iterations of conjugate gradients; attributes as in `conjugate_gradients`, and the squared norm `scale` of b."""

    operator: Operator
    precondition: Operator | None
    dot: Callable[[Array, Array], Array]
    square: Operator
    scale: Array

    def size_of(self, squares: Array) -> float:
        """Return the largest norm relative to that of the right-hand side, from squared norms."""
        return math.sqrt(float(namespace(squares).max(ratio(squares, self.scale))))

    def improve(self, values: Array, residual: Array, goal: float, max_iter: int) -> int:
        """Improve `values` in place until the updated `residual` falls below a goal; return the iterations taken."""
        xp = namespace(residual)
        improved = self._preconditioned(residual)
        direction = xp.asarray(improved, copy=True)
        product = self.dot(residual, improved)
        squares = self.square(residual)
        del improved  # arrays as large as the grid are freed early
        for n_iter in range(1, max_iter + 1):
            image = self.operator(direction)
            curvature = self.dot(direction, image)
            # A system that is solved does not depend on how long the others take.
            step = xp.where(squares > goal**2 * self.scale, ratio(product, curvature), 0.0)
            image *= step
            residual -= image
            del image
            values += step * direction
            # A curvature is only negative by rounding: this direction gives no further improvement.
            # One value is read from an accelerator in each iteration.
            squares = xp.where(curvature > 0, self.square(residual), 0.0)
            if self.size_of(squares) <= goal:
                return n_iter
            improved = self._preconditioned(residual)
            previous = product
            product = self.dot(residual, improved)
            direction *= ratio(product, previous)
            direction += improved
            del improved
        return max_iter

    def _preconditioned(self, residual: Array) -> Array:
        if self.precondition is None:
            return residual
        return self.precondition(residual)


def warn_unless_converged(solution: Any, tol: float, where: str = "") -> None:
    """Warn, at the line that called the package, if conjugate gradients did not converge.

    Parameters
    ----------
    solution : Solution, or an object with its attributes
    tol : float
    where : str, default=""
        Description of the system for the message, with a leading blank.
    """
    if not solution.converged and solution.residual > tol:
        warnings.warn(
            Message(
                "Conjugate gradients stopped{where} after {n_iter} iterations at a relative "
                "residual of {residual:.1e}, short of [tol={tol:g}|{tol:g}]: raise [max_iter, tol "
                "or |]the regularisation.",
                where=where,
                n_iter=solution.n_iter,
                residual=solution.residual,
                tol=tol,
            ),
            ConvergenceWarning,
            stacklevel=caller_level(),
        )


def inner(left: Array, right: Array) -> float:
    """Return the sum of products of the entries of two arrays."""
    return float(inner_there(left, right))


def inner_there(left: Array, right: Array) -> Array:
    """Return the sum of products as an array of shape (), on the device of the arrays."""
    xp = namespace(left)
    return xp.asarray(xp.vecdot(xp.reshape(left, (-1,)), xp.reshape(right, (-1,))))


# An entry-by-entry pass over an array costs as much as this many multiplications of a matrix
# product per entry.
_PASS_COST = 20
# The same for the vectors of an iteration, about ten passes.
_VECTORS_COST = 200
# Cost of a solve of the small system of rank r, relative to r² multiplications.
_SOLVED_COST = 8
# Ranks of deflations that are tried.
_RANKS = tuple(round(64 * 1.4**step) for step in range(30))
# With a tolerance from here on, the solution takes less time than the set-up of a deflation, and
# rounding is far below the tolerance.
_ROUGH = 1e-3


def choose_rank(
    remainder: Array,
    shape: tuple[int, int],
    product_cost: float,
    n_unknowns: int,
    tol: float,
    max_rank: int,
) -> int:
    r"""Return the number of leading directions to deflate with the least estimated work.

    After deflating r directions the remaining spread is :math:`\rho_{\max}/\rho_{r+1}`, with
    :math:`\rho` in ascending order. Conjugate gradients resolve l outliers in l iterations, so they
    need about

    .. math:: \min_{l\ge r}\; (l-r) + \tfrac12\sqrt{\rho_{\max}/\rho_{l+1}}\;\log(2/\mathrm{tol})

    iterations. The rank is the one of a geometric list with the least estimated work, set-up
    included. The bound is not meaningful for the first digits, which take a few iterations: for a
    large tolerance nothing is deflated.

    Parameters
    ----------
    remainder : array of shape (k, l)
        The residual filter of the pairs, :math:`\rho`.
    shape : (int, int)
        Shape of the grid.
    product_cost : float
        Multiplications of one product with the operator.
    n_unknowns : int
    tol : float
    max_rank : int

    Returns
    -------
    int
        The rank; 0 if deflation does not reduce the work.
    """
    m, q = shape
    xp = namespace(remainder)
    size = math.prod(remainder.shape)
    if not size or tol >= _ROUGH:
        return 0
    rho = xp.reshape(remainder, (-1,))
    largest = 1.0 if size < m * q else float(xp.max(rho))
    # More outliers than this would take too many iterations, so that the other values need not be
    # sorted.
    n_sorted = min(size, 8 * max(max_rank, 1))
    order = least_positions(rho, n_sorted)
    ascending = to_numpy(take_rows(rho, order)).astype(np.float64)
    order = order[np.argsort(ascending)]
    ascending.sort()
    if n_sorted == size < m * q:  # the null space that a truncated spectrum leaves out
        ascending = np.append(ascending, 1.0)
    spread = np.sqrt(largest / np.maximum(ascending, 1e-300))
    bound = np.arange(ascending.size) + 0.5 * spread * np.log(2 / tol)
    # needed[r]: iterations after deflating r directions.
    needed = np.minimum.accumulate(bound[::-1])[::-1] - np.arange(ascending.size)
    rows, columns = np.divmod(order, remainder.shape[1])
    limit = min(max_rank, ascending.size - 1)
    iteration = product_cost + products((_VECTORS_COST, m, q))
    # The bound is loose for few iterations: a deflation must save at least half of the estimated
    # work.
    best = 0
    least = 0.5 * min(needed[0], n_unknowns) * iteration
    for rank in sorted({min(limit, rank) for rank in _RANKS} - {0}):
        a = np.unique(rows[:rank]).size
        b = np.unique(columns[:rank]).size
        # Products with leading directions before and after a solve of their system.
        deflating = 2.0 * min(sandwich_work(a, b, m, q)) + products((_SOLVED_COST, rank, rank))
        setup = min(_gram_work(shape, (a, b), rank)) + products((FACTORED, rank, rank, rank))
        work = setup + min(needed[rank], n_unknowns) * (iteration + deflating)
        if work < least:
            best = rank
            least = work
    return best


def _gram_work(shape: tuple[int, int], n_sides: tuple[int, int], rank: int) -> tuple[float, float]:
    """Return the work of forming S, with sums over the tasks and over the instances first.

    Directions that share a column (or a row) share the sums over the tasks (or instances).

    Parameters
    ----------
    shape : (int, int)
        Shape of the grid.
    n_sides : (int, int)
        Numbers of eigenvectors of the instances and of the tasks in the directions.
    rank : int
        Number of directions.
    """
    m, q = shape
    a, b = n_sides
    over_tasks = products((b, b, m, q), (rank, rank, m), (_PASS_COST, b, m, rank))
    over_instances = products((a, a, m, q), (rank, rank, q), (_PASS_COST, a, q, rank))
    # S is symmetric.
    return SYMMETRIC * over_tasks, SYMMETRIC * over_instances


class Deflation:
    r"""Deflation by r leading directions, with their small system S at weighted cells.

    Parameters
    ----------
    spectra : (Spectrum, Spectrum)
    leading : integer array of shape (r,)
        Positions in the raveled (k, l) grid of pairs of eigenvectors.
    diagonal : array of shape (r,)
        :math:`\mathbf{d}`, positive.
    weights : array of shape (m, q)
        :math:`\boldsymbol\Omega`.
    """

    def __init__(
        self,
        spectra: tuple[Spectrum, Spectrum],
        leading: np.ndarray,
        diagonal: np.ndarray,
        weights: Array,
    ) -> None:
        n_columns = spectra[1].values.shape[0]
        rows, row_of = np.unique(leading // n_columns, return_inverse=True)
        columns, column_of = np.unique(leading % n_columns, return_inverse=True)
        xp = namespace(weights)
        self.left = xp.take(spectra[0].vectors, as_array_of(rows, weights), axis=1)
        self.right = xp.take(spectra[1].vectors, as_array_of(columns, weights), axis=1)
        over_tasks, over_instances = _gram_work(
            weights.shape, (len(rows), len(columns)), len(leading)
        )
        is_turned = over_instances < over_tasks
        order = np.lexsort((column_of, row_of) if is_turned else (row_of, column_of))
        row_order = row_of[order]
        column_order = column_of[order]
        if is_turned:
            gram = _weighted_gram(self.right, self.left, column_order, row_order, weights.T)
        else:
            gram = _weighted_gram(self.left, self.right, row_order, column_order, weights)
        flat = xp.reshape(gram, (-1,))
        flat[:: len(leading) + 1] += as_array_of(diagonal[order], weights, weights.dtype)
        self._solve = positive_solver(xp.reshape(flat, gram.shape))
        where = row_of[order] * len(columns) + column_of[order]
        self._where = as_array_of(where, weights)
        # Directions of the rectangle rows × columns that are not among the leading ones take the
        # zero at the end.
        back = np.full(len(rows) * len(columns), len(leading))
        back[where] = np.arange(len(leading))
        self._back = as_array_of(back, weights)

    def __call__(self, grid: Array) -> Array:
        r"""Return :math:`\boldsymbol\Phi\mathbf{S}^{-1}\boldsymbol\Phi^\top` times a grid of shape (m, q)."""
        xp = namespace(grid)
        inside = sandwich(self.left.T, grid, self.right.T)
        solved = self._solve(xp.take(xp.reshape(inside, (-1,)), self._where, axis=0))
        padded = xp.concat([solved, zeros((1,), solved)])
        return sandwich(
            self.left, xp.reshape(xp.take(padded, self._back, axis=0), inside.shape), self.right
        )


def _weighted_gram(
    left: Array, right: Array, rows: np.ndarray, columns: np.ndarray, weights: Array
) -> Array:
    r"""Return the upper triangle of :math:`\boldsymbol\Phi^\top\boldsymbol\Omega\boldsymbol\Phi` (r, r).

    .. math:: S_{(i,j),(i',j')} = \sum_d U_{di}U_{di'} \Big(\sum_t \Omega_{dt}V_{tj}V_{tj'}\Big)

    The directions are sorted by their column. Each column is combined with those that follow.

    Parameters
    ----------
    left, right : arrays of shape (m, a) and (q, b)
        Eigenvectors of both sides.
    rows, columns : integer arrays of shape (r,)
        Positions of the two eigenvectors of each direction.
    weights : array of shape (m, q)
    """
    xp = namespace(weights)
    rank = rows.size
    gram = zeros((rank, rank), weights)
    starts = np.searchsorted(columns, np.arange(right.shape[1] + 1))
    step = max(64, weights.shape[1])
    for j in range(right.shape[1]):
        start = int(starts[j])
        stop = int(starts[j + 1])
        inner = weights @ (right[:, j:] * right[:, j : j + 1])
        these = xp.take(left, as_array_of(rows[start:stop], weights), axis=1).T
        for first in range(start, rank, step):
            last = min(first + step, rank)
            others = xp.take(left, as_array_of(rows[first:last], weights), axis=1)
            others *= xp.take(inner, as_array_of(columns[first:last] - j, weights), axis=1)
            gram[start:stop, first:last] = these @ others
    return gram
