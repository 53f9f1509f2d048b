r"""Completion of grids with missing labels: the closed form on the completed grid equals the fit on observed cells.

With the pairwise kernel :math:`\mathbf{P}` and ridge :math:`c` of a model (see
`dyadlearn.solve.operators`) and weights
:math:`w` of the observed cells o, the loss :math:`\sum_o w_o(f_o-y_o)^2` plus the penalty of the model is minimised by

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} = \mathbf{y}_o, \qquad
          \mathbf{F} = \mathbf{P}_{\cdot o}\mathbf{a}.

Without weights, the predictions of the missing cells m solve an equivalent system,

.. math:: \mathbf{R}_{mm}\,\mathbf{f}_m = (\mathbf{H}\mathbf{y}_o)_m = -(\mathbf{R}\mathbf{y}_o)_m .

A free mean :math:`\mu` is a border of the first system,

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{a} = 0, \qquad \mathbf{F} = \mathbf{P}_{\cdot o}\mathbf{a} + \mu,

which is solved for dual coefficients that sum to zero. In the second system, :math:`\mathbf{R}`
includes the mean. In both cases labels are centred first, for accuracy.

Either system is solved by conjugate gradients, deflated by leading eigenvectors of the complete
grid where that pays (see `dyadlearn.solve.conjugate_gradients`), or directly where few cells are
missing, or few are observed. Where few cells of a large grid are observed, and the model has a pair
kernel, products at these cells take less time (see `dyadlearn.solve.cells`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    epsilon,
    largest,
    least_positions,
    namespace,
    row_blocks,
    take_rows,
    to_numpy,
)
from dyadlearn._memory import fits_in_memory
from dyadlearn._messages import Message
from dyadlearn._rounding import is_noticeable, rounding_level, solve_block, warn_of_rounding
from dyadlearn._state import Stored
from dyadlearn._work import FACTORED, products
from dyadlearn.labels import Labels
from dyadlearn.leverage import leverage_error
from dyadlearn.solve.cells import CellOperator, CellSet, CellSystem, are_few
from dyadlearn.solve.conjugate_gradients import (
    Deflation,
    Solution,
    choose_rank,
    conjugate_gradients,
)
from dyadlearn.solve.directions import CellsFit, suit_directions
from dyadlearn.solve.factor import CellsFactor
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.operators import GridOperators
from dyadlearn.vectrick import sandwich

# A dense system of this many cells takes 8 MiB, and less time than a few iterations on most grids.
_DIRECT_CELLS = 1024
# Maximum number of observed cells for a direct solve, which takes about the time of thirty
# iterations.
_DIRECT_OBSERVED = 256
#: Number of iterations of conjugate gradients, for estimates of their work.
ITERATIONS = 30
# The same for missing cells that the model may interpolate: the direct solve detects it.
_CHECKED_CELLS = 4096
# Maximum number of unpenalised directions that are checked for more missing cells.
_CHECKED_DIRECTIONS = 512
# Minimum share of the product kernel for products at observed cells, which divide by it and would
# lose digits.
_LEAST_SHARE = 1e-4
# The small system of a deflation of this rank takes 7 MiB.
_LEAST_RANK_LIMIT = 900


@dataclass(frozen=True, eq=False)
class Completion(Stored):
    """Completed grid, with the method and the solution of its system.

    Attributes
    ----------
    labels : array of shape (m, q)
        Completed labels, on which the closed form equals the fit on the observed cells. Without
        weights, they are the observed labels, and the predictions of the model for missing ones.
    route : {"missing", "observed", "columns", "block", "pairs"}
        System that was solved.
    solution : Solution
        Solution of the system, with zeros for cells that are not unknowns; for "pairs", in the
        directions of the spectra.
    """

    labels: Array
    route: str
    solution: Solution

    _shapes: ClassVar[Mapping[str, str]] = {"labels": "m q"}

    def _fits(self) -> bool:
        return self.route == "pairs" or self.solution.values.shape == self.labels.shape


def complete(
    operators: GridOperators,
    Y: Array,
    weights: Array | None = None,
    *,
    route: str | None = None,
    rank: int | None = None,
    start: Completion | None = None,
    max_direct: int = _DIRECT_CELLS,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Completion:
    """Complete a grid of labels.

    Parameters
    ----------
    operators : GridOperators
        Operators of the model on the complete grid.
    Y : array of shape (m, q)
        Labels; NaN where missing.
    weights : array of shape (m, q), default=None
        Positive weight of each observed cell in the squared loss.
    route : {"missing", "observed", "direct"}, default=None
        System to solve, "direct" for a dense one of the observed cells; None is the one with less
        work.
    rank : int, default=None
        Number of leading directions to deflate; None minimises the estimated work.
    start : Completion, default=None
        Solution of a similar problem.
    max_direct : int
        Maximum number of missing cells for a direct solve; 0 means iterations. Observed cells are
        solved for directly if that takes less work, and if `rank` is None.
    tol : float, default=1e-8
        Relative residual at which conjugate gradients stop, but no less than the precision allows.
    max_iter : int, default=1000

    Returns
    -------
    Completion
    """
    xp = namespace(Y)
    observed = ~xp.isnan(Y)
    if operators.hat_is_identity:  # for λ = 0 at full rank, weights have no effect
        weights = None
    known = Labels.of_grid(Y, weights)
    n_observed = known.size
    if weights is None and n_observed == math.prod(Y.shape):
        return Completion(Y, "missing", Solution(xp.zeros_like(Y), 0, 0.0, True))
    if operators.free_mean and n_observed == 0:
        raise nothing_observed()
    if weights is not None and (operators.interpolates or route == "missing"):
        raise ValueError(
            "sample_weight has no effect on a model that interpolates the labels: use a larger "
            "alpha (and filters that "
            "regularise), or leave sample_weight out."
        )
    labels, shift = centred_labels(Y, observed) if operators.free_mean else (Y, 0.0)
    top = known.largest_weight
    holes = _Holes(operators, labels, observed, weights, n_observed, top)
    method = _method_for(holes, route, rank, max_direct)
    wanted = "missing" if method == "missing" else "observed"
    begin = None
    if start is not None and start.route == wanted:
        begin = start.solution.values
    stopping: dict[str, Any] = {"tol": max(tol, 50 * epsilon(Y)), "max_iter": max_iter}
    completion = _solved_by(method, holes, begin, rank=rank, max_direct=max_direct, **stopping)
    settled = _settled(operators, completion.labels, labels, observed, top)
    moved = settled + shift
    if weights is None:  # observed labels stay as they are
        moved = xp.where(observed, Y, moved)
    return replace(completion, labels=moved)


class _Holes(NamedTuple):
    """Labels (m, q) of a grid of which some are missing; attributes as in `complete`, without the grand mean."""

    operators: GridOperators
    labels: Array
    observed: Array
    weights: Array | None
    n_observed: int
    largest_weight: float


def _solved_by(
    method: str,
    holes: _Holes,
    start: Array | None,
    *,
    rank: int | None,
    max_direct: int,
    **stopping: Any,
) -> Completion:
    """Return the labels that a method of `_method_for` completes; other arguments as in `complete`."""
    operators = holes.operators
    labels = holes.labels
    observed = holes.observed
    if method == "missing":
        right = _right_of_missing(operators, labels, observed)
        solution = solve_missing(
            operators, right, observed, rank=rank, start=start, max_direct=max_direct, **stopping
        )
        return Completion(solution.values, "missing", solution)
    if method == "cells":
        return _completed_by_cells(operators, labels, observed, start, **stopping)
    system = _ObservedCells(operators, labels, observed, holes.weights)
    return system.completed(method, start, rank=rank, **stopping)


def _method_for(holes: _Holes, route: str | None, rank: int | None, max_direct: int) -> str:
    """Return how the labels are completed; arguments as in `complete`.

    Returns
    -------
    {"directions", "missing", "direct", "cells", "iterations"}
        By least squares in the directions of the kernel; by the system of the missing cells; by
        that of the observed cells, directly, by products at the cells, or by products of grids.
    """
    operators = holes.operators
    n_observed = holes.n_observed
    if route == "direct":
        return "direct"
    is_free = route is None and rank is None
    if is_free and suit_directions(operators, n_observed, holes.largest_weight):
        return "directions"
    is_direct = False
    if route != "missing" and rank is None and max_direct > 0:
        is_direct = 0 < n_observed <= min(max_direct, _DIRECT_OBSERVED)
        if route is None and not is_direct:
            is_direct = suits_direct(operators, n_observed, operators.kernel_cost, holes.labels)
    if route is None and holes.weights is None:
        n_missing = math.prod(holes.labels.shape) - n_observed
        route = _cheaper_route(operators, n_observed, n_missing, max_direct, is_direct=is_direct)
    if route == "missing":
        return "missing"
    if is_direct:
        return "direct"
    is_plain = holes.weights is None and rank is None
    if is_plain and _suits_cells(operators, n_observed, holes.labels):
        return "cells"
    return "iterations"


def _right_of_missing(operators: GridOperators, labels: Array, observed: Array) -> Array:
    """Return the right-hand side (m, q) of the system of the missing cells."""
    known = _where(observed, labels)
    if operators.prefers_residual:
        right = -operators.residual(known)
    else:
        right = operators.hat(known)
    return _where(~observed, right)


def _settled(
    operators: GridOperators, completed: Array, labels: Array, observed: Array, top: float
) -> Array:
    """Return completed labels in which predictions of missing labels that are only rounding are exactly zero.

    `top` is the largest weight.
    """
    xp = namespace(completed)
    known = xp.reshape(_where(observed, labels), (-1, 1))
    # The largest share of a label in a prediction.
    share = largest(operators.shrinkage)
    if top < 1.0 and operators.ridge > 0:
        share = min(share, top * largest(operators.kernel_values) / operators.ridge)
    level = rounding_level(known, share)[0]
    return xp.where(~observed & (xp.abs(completed) <= level), 0.0, completed)


def nothing_observed() -> ValueError:
    """Return the error for a grid without labels and a model with an unpenalised mean."""
    return ValueError(
        Message(
            "No label is observed, and nothing else determines the grand mean: give labels, or "
            "use <fit_intercept=False>."
        )
    )


def centred_labels(Y: Array, observed: Array) -> tuple[Array, Array]:
    """Return labels minus the mean of the observed ones, with rounding set to zero, and that mean."""
    xp = namespace(Y)
    labels = _where(observed, Y)
    shift = xp.sum(labels) / xp.sum(xp.astype(observed, Y.dtype))
    rest = Y - shift
    level = 4.0 * epsilon(Y) * xp.max(xp.abs(labels))
    return xp.where(xp.abs(rest) <= level, 0.0, rest), shift


def _cheaper_route(
    operators: GridOperators, n_observed: int, n_missing: int, max_direct: int, *, is_direct: bool
) -> str:
    """Return the system of labels without weights that takes less work."""
    if operators.interpolates or n_missing <= max_direct:
        return "missing"
    if is_direct:
        return "observed"
    # Both systems have similar condition numbers, so that costs of products are compared. A small
    # system needs fewer iterations.
    missing = operators.residual_cost * min(n_missing, 100)
    observed = operators.kernel_cost * min(n_observed, 100)
    return "observed" if observed < missing else "missing"


def _where(mask: Array, grid: Array) -> Array:
    """Return a grid with zeros outside the mask."""
    return namespace(grid).where(mask, grid, 0.0)


def solve_missing(
    operators: GridOperators,
    right: Array,
    observed: Array,
    *,
    rank: int | None = None,
    start: Array | None = None,
    max_direct: int = _DIRECT_CELLS,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Solution:
    r"""Solve :math:`\mathbf{R}_{mm}\,\mathbf{x} = \mathbf{b}` for the cells m that are not observed.

    Parameters
    ----------
    operators, rank, max_direct, tol, max_iter : as in `complete`
    right : array of shape (m, q)
        Zero where observed.
    observed : boolean array of shape (m, q)
    start : array of shape (m, q), default=None
        Solution of a similar problem.

    Returns
    -------
    Solution
        Its unknowns are zero where observed.
    """
    missing = ~observed
    n_missing = int(np.count_nonzero(to_numpy(missing)))
    if operators.floor > 0:
        max_direct = max(max_direct, _CHECKED_CELLS)
    if n_missing <= max_direct:
        return Solution(_solve_directly(operators, right, to_numpy(missing)), 0, 0.0, True)
    if operators.floor > 0:
        _check_determined(operators, to_numpy(observed))
    limit = _rank_limit(operators, 1.5)
    if rank is None:
        rank = choose_rank(
            operators.remainder, right.shape, operators.residual_cost, n_missing, tol, limit
        )
    precondition = None
    if rank:
        precondition = _missing_preconditioner(operators, observed, min(rank, limit))
    return conjugate_gradients(
        lambda grid: _where(missing, operators.residual(grid)),
        right,
        precondition=precondition,
        start=None if start is None else _where(missing, start),
        tol=tol,
        max_iter=max_iter,
    )


def _solve_directly(operators: GridOperators, right: Array, mask: np.ndarray) -> Array:
    """Solve for the missing cells as one dense system; `right` is zero elsewhere."""
    cells = CellSet.only(mask, right)
    system = operators.residual_block(cells.rows, cells.columns)
    refusal = partial(leverage_error, np.flatnonzero(mask), mask.size, "cells form a set that")
    known = cells.take(right[None, ...]).T
    solved = solve_block(system, known, operators.floor, operators.is_graded, refusal)
    return cells.grid(solved.T)[0, ...]


def _check_determined(operators: GridOperators, observed: np.ndarray) -> None:
    """Raise `LeverageError` if the observed cells do not determine the unpenalised directions.

    If there are too many directions to check, only their number is compared with the number of
    cells.
    """
    is_free = to_numpy(operators.remainder) == 0
    rows, columns = np.nonzero(observed)
    vectors, task_vectors = operators.vectors
    left = take_rows(take_rows(vectors.T, np.flatnonzero(is_free.any(axis=1))).T, rows)
    right = take_rows(take_rows(task_vectors.T, np.flatnonzero(is_free.any(axis=0))).T, columns)
    n_whole = int(left.shape[1] * right.shape[1])
    xp = namespace(left)
    undetermined = rows.size < n_whole
    if not undetermined and n_whole <= _CHECKED_DIRECTIONS:
        gram = xp.zeros((n_whole, n_whole), dtype=left.dtype, device=left.device)
        for cells in row_blocks(rows.size, n_whole):
            pairs = xp.reshape(
                left[cells, :][:, :, None] * right[cells, :][:, None, :], (-1, n_whole)
            )
            gram += pairs.T @ pairs
        undetermined = float(xp.min(xp.linalg.eigvalsh(gram))) <= min(operators.floor**0.5, 1e-6)
    if undetermined:
        raise leverage_error(np.flatnonzero(~observed), observed.size, "cells form a set that")


def _rank_limit(operators: GridOperators, grids: float) -> int:
    """Return the maximum rank of a deflation, whose small system takes as much memory as `grids` grids."""
    rows, columns = operators.remainder.shape
    size = operators.n_cells
    # All directions of a truncated spectrum may be deflated, because the null space remains.
    return int(min(max(_LEAST_RANK_LIMIT, math.isqrt(int(grids * size))), rows * columns, size - 1))


def _leading(values: Array, rank: int, outside: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return positions and values of the `rank` smallest values, and the next value.

    Values that equal the next one are left out. If all values are among the smallest, the next
    value is `outside`, that of the null space of a truncated spectrum.
    """
    flat = namespace(values).reshape(values, (-1,))
    size = int(flat.shape[0])
    if rank >= size:
        nearest = np.arange(size)
    else:
        nearest = least_positions(flat, rank + 1)
    smallest = to_numpy(take_rows(flat, nearest))
    edge = outside if rank >= size else float(smallest.max())
    return nearest[smallest < edge], smallest[smallest < edge], edge


def _missing_preconditioner(
    operators: GridOperators, observed: Array, rank: int
) -> Callable[[Array], Array] | None:
    r"""Return the inverse of τI − Φ_m (τ − ρ) Φ_mᵀ, where τ replaces the residual filter of all other directions.

    .. math:: \tfrac1\tau\left(\mathbf{I} + \boldsymbol\Phi_m\mathbf{S}^{-1}\boldsymbol\Phi_m^\top\right), \qquad
              \mathbf{d} = \rho/(\tau-\rho)
    """
    leading, rho, edge = _leading(operators.remainder, rank, 1.0)
    if not leading.size:
        return None
    bounded = np.maximum(rho, 1e3 * epsilon(operators.remainder) * edge)
    weights = namespace(observed).astype(observed, operators.remainder.dtype)
    deflate = Deflation(operators.grid_spectra, leading, bounded / (edge - rho), weights)
    return lambda grid: grid + _where(~observed, deflate(grid))


def check_dual(operators: GridOperators, dual: Array, labels: Array) -> None:
    """Warn if dual coefficients are so large beside the labels that their products with the kernel are mostly rounding.

    Parameters
    ----------
    operators : GridOperators
    dual : array
        Dual coefficients, of any shape.
    labels : array of shape (n,)
    """
    xp = namespace(dual)
    kernel_values = operators.kernel_values
    size = largest(xp.abs(labels))
    if not size:
        return
    unit = epsilon(dual) * float(xp.linalg.vector_norm(dual)) / size
    # No entry of the kernel exceeds its largest eigenvalue.
    if is_noticeable(unit * largest(kernel_values)):
        left, right = operators.vectors
        warn_of_rounding(unit * largest(sandwich(left**2, kernel_values, right**2)))


def completion_work(
    operators: GridOperators, shape: tuple[int, int], n_observed: int, is_weighted: bool
) -> float:
    """Return the number of multiplications of a completion by `complete`."""
    iteration = float(min(operators.kernel_cost, operators.residual_cost))
    n_missing = math.prod(shape) - n_observed
    if not is_weighted and n_missing <= _DIRECT_CELLS:
        return 2.0 * iteration + products((FACTORED, n_missing, n_missing, n_missing))
    return ITERATIONS * iteration


def suits_direct(operators: GridOperators, n_observed: int, iteration: float, like: Array) -> bool:
    """Return whether one dense system of the observed cells of a pair kernel takes less work than iterations.

    Parameters
    ----------
    operators : GridOperators
    n_observed : int
    iteration : float
        Number of multiplications of one iteration.
    like : array
        An array on the device of the system.
    """
    if operators.shares is None or operators.interpolates or n_observed == 0:
        return False
    solving = products((FACTORED, n_observed, n_observed, n_observed))
    is_quick = solving <= ITERATIONS * iteration
    return is_quick and fits_in_memory(array_bytes(like, (2, n_observed, n_observed)), like)


def _suits_cells(operators: GridOperators, n_observed: int, Y: Array) -> bool:
    """Return whether so few cells of a grid of a pair kernel are observed that products at them cost less."""
    m, q = Y.shape
    shares = operators.shares
    if shares is None or shares[0] <= _LEAST_SHARE * sum(shares) or n_observed <= _DIRECT_OBSERVED:
        return False
    need = array_bytes(Y, (3, m + q, m + q))
    return are_few(n_observed, (m, q), Y) and fits_in_memory(need, Y)


def _completed_by_cells(
    operators: GridOperators,
    Y: Array,
    observed: Array,
    start: Array | None,
    tol: float,
    max_iter: int,
) -> Completion:
    """Return the completed grid of a pair kernel without weights, with one unknown for each observed cell."""
    assert operators.shares is not None
    cells = CellSet.of(to_numpy(observed), Y)
    kernels = [side.matrix(side.values) for side in operators.grid_spectra]
    values = cells.take(Y[None, ...])
    constant = "grand" if operators.free_mean else None
    ends = {}
    if start is not None:
        ends = {"model": cells.take(start[None, ...])}
    operator = CellOperator(kernels, operators.shares, cells)
    train = namespace(Y).ones_like(values)
    system = CellSystem(operator, operators.ridge, values[0, :], train, None, constant, ends)
    rounding = epsilon(Y) * (operators.ridge + largest(operators.kernel_values))
    solution = system.solve("model", system.centred(values), tol, max_iter, rounding)
    fitted = system.complete(solution.values)[0, ...]
    solution = replace(solution, values=cells.grid(solution.values)[0, ...])
    return Completion(fitted, "observed", solution)


class _ObservedCells:
    r"""The system of the observed cells, in the unknowns :math:`\mathbf{a}/\mathbf{r}` with r the roots of the weights.

    The unknowns are an array (n,), one for each observed cell: grids would take more memory.

    With a free mean the unknowns stay orthogonal to r, so that the dual coefficients sum to zero.
    With
    :math:`\boldsymbol\Pi = \mathbf{I} - \mathbf{rr}^\top/\mathbf{r}^\top\mathbf{r}` the system :math:`\mathbf{A}`
    becomes :math:`\boldsymbol\Pi\mathbf{A}\boldsymbol\Pi`, and its approximate inverse
    :math:`\mathbf{M}` becomes
    :math:`\mathbf{M} - \mathbf{Mrr}^\top\mathbf{M}/\mathbf{r}^\top\mathbf{Mr}`.
    """

    def __init__(
        self, operators: GridOperators, Y: Array, observed: Array, weights: Array | None
    ) -> None:
        self.operators = operators
        self.is_weighted = weights is not None
        self.cells = CellSet.only(to_numpy(observed), Y)
        labels = self._at(Y)
        if weights is None:
            self.root = namespace(Y).ones_like(labels)
        else:
            self.root = self._at(weights) ** 0.5
        self.right = self.root * labels
        part = operators.fixed_part(int(self.root.shape[0]), self.root)
        self._weighted = FixedPart(part.columns * self.root[:, None])
        self._fixed = self._weighted.solved(lambda columns: columns)

    def _at(self, grid: Array) -> Array:
        """Return the values of a grid at the observed cells."""
        return self.cells.take(grid[None, ...])[0, :]

    def _grid(self, values: Array) -> Array:
        """Return a grid with values at the observed cells and zeros elsewhere."""
        return self.cells.grid(values[None, :])[0, ...]

    def completed(self, method: str, start: Array | None, **options: Any) -> Completion:
        """Return the fitted grid, or completed labels with weights, by a method of `_method_for`."""
        if method == "directions":
            return self._completed_by_directions()
        values = self._solved_directly() if method == "direct" else None
        if values is None:
            begin = None if start is None else self._at(start)
            solution = self._iterated(start=begin, **options)
        else:
            solution = Solution(values, 0, 0.0, True)
        values = self._project(solution.values)
        dual = self._grid(self.root * values)
        check_dual(self.operators, dual, self.right / self.root)
        fitted = self.operators.kernel(dual)
        if self.operators.free_mean:
            fitted += self._fixed.coefficients(self.right - self.root * self._at(fitted))[0]
        labels = fitted
        if self.is_weighted:
            labels = fitted + self.operators.ridge * dual
        return Completion(labels, "observed", replace(solution, values=self._grid(values)))

    def _completed_by_directions(self) -> Completion:
        """Return the same for a ridge that the kernel of the cells loses."""
        rows = self.cells.rows
        columns = self.cells.columns
        fit = CellsFit(self.operators, rows, columns, self.right / self.root, self.root)
        excess = fit.excess()
        if self.is_weighted:
            labels = fit.grid() + self._grid(excess)
        else:
            labels = fit.grid()
        values = self._grid(excess / (self.operators.ridge * self.root))
        return Completion(labels, "observed", Solution(values, 0, 0.0, True))

    def _project(self, values: Array) -> Array:
        """Return values without their part along r, if there is a free mean."""
        return self._fixed.projected(values)

    def _solved_directly(self) -> Array | None:
        """Return the solution of one dense system.

        If the system is singular, return None: conjugate gradients then compute one of its
        solutions.
        """
        try:
            factor = CellsFactor.of(
                self.operators, (self.cells.rows, self.cells.columns), self.root
            )
        except np.linalg.LinAlgError:
            return None
        return factor.dual(self.right / self.root) / self.root

    def _iterated(
        self, rank: int | None, start: Array | None, tol: float, max_iter: int
    ) -> Solution:
        """Return the solution by conjugate gradients; with a free mean, up to a multiple of r."""
        operators = self.operators
        root = self.root
        shape = self.cells.shape

        def multiply(values: Array) -> Array:
            image = root * self._at(operators.kernel(self._grid(root * values)))
            image += operators.ridge * values
            return self._project(image)

        limit = _rank_limit(operators, 3.8)
        if rank is None:
            n_observed = len(self.cells.rows)
            rank = choose_rank(
                operators.remainder, shape, operators.kernel_cost, n_observed, tol, limit
            )
        precondition = None
        if rank:
            precondition = self._preconditioner(min(rank, limit))
        if precondition is None and operators.free_mean and self.is_weighted:
            # The projection mixes weights of all magnitudes, so that the unknowns are scaled first.
            mean_kernel = float(namespace(root).sum(operators.kernel_values)) / math.prod(shape)
            scale = operators.ridge + mean_kernel * root**2

            def precondition(values: Array) -> Array:
                return values / scale

        if operators.free_mean:
            if precondition:
                precondition = self._bordered(precondition)
            else:
                precondition = self._project
        return conjugate_gradients(
            multiply,
            self._project(self.right),
            precondition=precondition,
            start=None if start is None else self._project(start),
            tol=tol,
            max_iter=max_iter,
            rounding=epsilon(root)
            * (operators.ridge + largest(operators.kernel_values) * largest(root) ** 2),
        )

    def _bordered(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return an approximate inverse under the border of a free mean."""
        border = self._weighted.solved(lambda columns: inverse(columns[:, 0])[:, None])
        return lambda values: self._project(border.projected(inverse(values)))

    def _preconditioner(self, rank: int) -> Callable[[Array], Array] | None:
        r"""Return the inverse of C + √w Φ (p − τ) Φᵀ √w, where τ is the mean kernel value p of all other directions.

        .. math:: \mathbf{C}^{-1} - \mathbf{C}^{-1}\sqrt{w}\,\boldsymbol\Phi\mathbf{S}^{-1}\boldsymbol\Phi^\top
                  \sqrt{w}\,\mathbf{C}^{-1}, \qquad \mathbf{C} = c + \tau w, \quad
                  \boldsymbol\Omega = w/\mathbf{C}, \quad \mathbf{d} = 1/(p-\tau)
        """
        operators = self.operators
        values = self.operators.kernel_values
        root = self.root
        leading, leading_values, edge = _leading(-values, rank, 0.0)
        leading_values = -leading_values
        # For smaller differences, Woodbury's identity would only return rounding.
        least = 1e3 * epsilon(values) * largest(values)
        edge = max(-edge, least)
        leading = leading[leading_values > edge]
        leading_values = leading_values[leading_values > edge]
        if not leading.size:
            return None
        rest = float(namespace(values).sum(values)) - float(leading_values.sum())
        rest /= max(operators.n_cells - leading.size, 1)
        edge = min(max(rest, least), edge)
        scale = operators.ridge + edge * (root**2 if self.is_weighted else 1.0)
        weights = self._grid(root**2 / scale)
        deflate = Deflation(operators.grid_spectra, leading, 1.0 / (leading_values - edge), weights)
        factor = root / scale

        def inverse(values: Array) -> Array:
            inside = factor * self._at(deflate(self._grid(factor * values)))
            return values / scale - inside

        return inverse
