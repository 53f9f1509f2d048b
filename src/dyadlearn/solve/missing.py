r"""Labels with holes: complete the grid, so that a closed form on it is the model of the observed cells.

With the pairwise kernel :math:`\mathbf{P}` and ridge :math:`c` of a model (see `dyadlearn.solve.operators`) and weights
:math:`w` of the observed cells o, the loss :math:`\sum_o w_o(f_o-y_o)^2` and the model's own penalty are minimised by

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} = \mathbf{y}_o, \qquad
          \mathbf{F} = \mathbf{P}_{\cdot o}\mathbf{a}.

Without weights the missing cells m solve an equal system, in which they hold what the model itself puts there,

.. math:: \mathbf{R}_{mm}\,\mathbf{f}_m = (\mathbf{H}\mathbf{y}_o)_m = -(\mathbf{R}\mathbf{y}_o)_m .

A free mean :math:`\mu` is a border of the first system,

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))\,\mathbf{a} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{a} = 0, \qquad \mathbf{F} = \mathbf{P}_{\cdot o}\mathbf{a} + \mu,

which is solved for parameters that sum to zero; the second one knows it from :math:`\mathbf{R}`. Either way labels are
centred first: a constant that is added to all of them is added to all predictions, to rounding.

Either system is solved by conjugate gradients, deflated by leading eigenvectors of the complete grid where that pays
(see `dyadlearn.solve.conjugate_gradients`), or directly where few cells are missing, or few are observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    epsilon,
    is_foreign,
    largest,
    least_positions,
    namespace,
    row_blocks,
    solve,
    take_rows,
    to_numpy,
    with_diagonal,
)
from dyadlearn._rounding import solve_block
from dyadlearn._state import Stored
from dyadlearn.solve.conjugate_gradients import Deflation, Solution, choose_rank, conjugate_gradients, inner
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import leverage_error

# A dense system of this many cells takes 8 MiB, and less time than a few iterations on most grids.
_DIRECT_CELLS = 1024
# So many observed cells are solved for directly, in about the time of thirty iterations.
_DIRECT_OBSERVED = 256
# Where a model may interpolate what is missing, so many cells are solved for directly, to tell.
_CHECKED_CELLS = 4096
# Beyond that, the directions that it keeps whole are looked at instead, up to this many.
_CHECKED_DIRECTIONS = 512
# The small system of a deflation takes no more than 7 MiB, or a few grids.
_LEAST_RANK_LIMIT = 900


@dataclass(frozen=True, eq=False)
class Completion(Stored):
    """A completed grid and how it was found.

    Attributes
    ----------
    labels : array of shape (m, q)
        On which the closed form of the model is the model of the observed cells: without weights the labels where
        they are observed and the model's own predictions elsewhere.
    form : {"missing", "observed", "columns", "block", "pairs"}
        Which system was solved.
    solution : Solution
        Its unknowns are zero, or absent, where the system has none; those of the pairs are a function of directions.
    """

    labels: Array
    form: str
    solution: Solution

    _shapes: ClassVar[Mapping[str, str]] = {"labels": "m q"}

    def _fits(self) -> bool:
        return self.form == "pairs" or self.solution.values.shape == self.labels.shape


def complete(
    operators: GridOperators,
    Y: Array,
    weights: Array | None = None,
    *,
    form: str | None = None,
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
        Of the model on the complete grid.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q), default=None
        Of the squared loss of each observed cell, positive there.
    form : {"missing", "observed"}, default=None
        The system to solve; None is the one that takes less work.
    rank : int, default=None
        Number of leading directions to deflate; None is chosen by cost.
    start : Completion, default=None
        A solution nearby, to start from.
    max_direct : int
        Up to this many missing cells are solved for directly, and fewer observed ones where no `rank` is given.
    tol : float, default=1e-8
        Relative residual at which conjugate gradients stop, but no less than the precision allows.
    max_iter : int, default=1000

    Returns
    -------
    Completion
    """
    xp = namespace(Y)
    observed = ~xp.isnan(Y)
    # As λ vanishes at full rank the model interpolates, and weights no longer matter.
    weights = None if operators.vanishing else weights
    n_observed = int(xp.sum(xp.astype(observed, xp.int64)))
    n_missing = math.prod(Y.shape) - n_observed
    if weights is None and n_missing == 0:
        return Completion(Y, "missing", Solution(xp.zeros_like(Y), 0, 0.0, True))
    if operators.free_mean and n_observed == 0:
        raise nothing_observed()
    tol = max(tol, 50 * epsilon(Y))
    if weights is not None and (operators.floor > 0 or operators.ridge == 0 or form == "missing"):
        raise ValueError(
            "Weights say nothing to a model that interpolates: use a larger alpha (and filters that regularise), or "
            "leave sample_weight out."
        )
    if form is None:
        form = _cheaper_form(operators, n_observed, n_missing, weights is not None, max_direct)
    labels, shift = centred_labels(Y, observed) if operators.free_mean else (Y, 0.0)
    if form == "missing":
        found = _solve_missing(operators, labels, observed, rank, start, max_direct, tol, max_iter)
    else:
        is_direct = rank is None and 0 < n_observed <= min(max_direct, _DIRECT_OBSERVED)
        found = _solve_observed(operators, labels, observed, weights, n_observed, rank, is_direct, start, tol, max_iter)
    if not operators.free_mean:
        return found
    moved = found.labels + shift
    return replace(found, labels=moved if weights is not None else xp.where(observed, Y, moved))


def nothing_observed() -> ValueError:
    """Return the error for a grid without labels whose model has a free mean."""
    return ValueError(
        "No label is observed, and nothing else determines the grand mean: give labels, or use fit_intercept=False."
    )


def centred_labels(Y: Array, observed: Array) -> tuple[Array, Array]:
    """Return labels without the mean of those observed, and that mean; what rounding leaves of labels is zero."""
    xp = namespace(Y)
    labels = _where(observed, Y)
    shift = xp.sum(labels) / xp.sum(xp.astype(observed, Y.dtype))
    rest, level = Y - shift, 4.0 * epsilon(Y) * xp.max(xp.abs(labels))
    return xp.where(xp.abs(rest) <= level, xp.zeros_like(rest), rest), shift


def _cheaper_form(operators: GridOperators, n_observed: int, n_missing: int, weighted: bool, max_direct: int) -> str:
    if weighted:
        return "observed"
    interpolates = operators.floor > 0 or operators.ridge == 0
    if interpolates or n_missing <= max_direct:
        return "missing"
    # Both systems are conditioned alike, so what counts is the cost of a product; a small system ends early.
    missing = operators.residual_cost * min(n_missing, 100)
    observed = operators.kernel_cost * min(n_observed, 100)
    return "observed" if observed < missing else "missing"


def _where(mask: Array, grid: Array) -> Array:
    """Return a grid with zeros outside the mask."""
    xp = namespace(grid)
    return xp.where(mask, grid, xp.zeros((), dtype=grid.dtype, device=grid.device))


def _solve_missing(
    operators: GridOperators,
    Y: Array,
    observed: Array,
    rank: int | None,
    start: Completion | None,
    max_direct: int,
    tol: float,
    max_iter: int,
) -> Completion:
    right = _missing_right(operators, _where(observed, Y), ~observed)
    begin = start.solution.values if start is not None and start.form == "missing" else None
    solution = solve_missing(
        operators, right, observed, rank=rank, start=begin, max_direct=max_direct, tol=tol, max_iter=max_iter
    )
    return Completion(solution.values + _where(observed, Y), "missing", solution)


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
        Unknowns of a problem nearby.

    Returns
    -------
    Solution
        Its unknowns are zero where observed.
    """
    missing, n_missing = ~observed, int(np.count_nonzero(~to_numpy(observed)))
    if n_missing <= (max(max_direct, _CHECKED_CELLS) if operators.floor > 0 else max_direct):
        return Solution(_solve_directly(operators, right, to_numpy(missing)), 0, 0.0, True)
    if operators.floor > 0:
        _check_determined(operators, to_numpy(observed))
    limit = _rank_limit(operators, 1.5)
    if rank is None:
        rank = choose_rank(operators.remainder, right.shape, operators.residual_cost, n_missing, tol, limit)
    return conjugate_gradients(
        lambda grid: _where(missing, operators.residual(grid)),
        right,
        precondition=_missing_preconditioner(operators, observed, min(rank, limit)) if rank else None,
        start=None if start is None else _where(missing, start),
        tol=tol,
        max_iter=max_iter,
    )


def _missing_right(operators: GridOperators, labels: Array, missing: Array) -> Array:
    return _where(missing, -operators.residual(labels) if operators.prefers_residual else operators.hat(labels))


def _solve_directly(operators: GridOperators, right: Array, mask: np.ndarray) -> Array:
    """Solve for the missing cells as one dense system; `right` is zero elsewhere."""
    xp = namespace(right)
    system = operators.residual_block(*np.nonzero(mask))
    flat = np.flatnonzero(mask)
    refusal = partial(leverage_error, flat, mask.size, "cells form a set that")
    known = take_rows(xp.reshape(right, (-1,)), flat)[:, None]
    return _scattered(solve_block(system, known, operators.floor, operators.is_graded, refusal)[:, 0], mask)


def _scattered(values: Array, mask: np.ndarray) -> Array:
    """Return a grid with values (n,) in the cells of a mask and zeros elsewhere."""
    xp, flat = namespace(values), np.flatnonzero(mask)
    # Cells outside the mask take the zero at the end.
    padded = xp.concat([values, xp.zeros((1,), dtype=values.dtype, device=values.device)])
    back = np.full(mask.size, flat.size)
    back[flat] = np.arange(flat.size)
    return xp.reshape(take_rows(padded, back), mask.shape)


def _check_determined(operators: GridOperators, observed: np.ndarray) -> None:
    """Raise `LeverageError` if the observed cells do not determine the directions that are kept whole.

    So many directions at most are looked at together; of more, only whether there are as many cells.
    """
    kept, (rows, columns) = to_numpy(operators.remainder) == 0, np.nonzero(observed)
    left, right = (
        take_rows(take_rows(side.vectors.T, np.flatnonzero(kept.any(axis=axis))).T, index)
        for side, axis, index in zip(operators.grid_spectra, (1, 0), (rows, columns), strict=True)
    )
    n_whole, xp = int(left.shape[1] * right.shape[1]), namespace(left)
    undetermined = rows.size < n_whole
    if not undetermined and n_whole <= _CHECKED_DIRECTIONS:
        gram = xp.zeros((n_whole, n_whole), dtype=left.dtype, device=left.device)
        for cells in row_blocks(rows.size, 8 * n_whole):
            pairs = xp.reshape(left[cells, :][:, :, None] * right[cells, :][:, None, :], (-1, n_whole))
            gram += pairs.T @ pairs
        undetermined = float(xp.min(xp.linalg.eigvalsh(gram))) <= min(operators.floor**0.5, 1e-6)
    if undetermined:
        raise leverage_error(np.flatnonzero(~observed), observed.size, "cells form a set that")


def _rank_limit(operators: GridOperators, grids: float) -> int:
    """Return the rank at which the small system takes as much memory as so many grids."""
    rows, columns = operators.remainder.shape
    size = math.prod(side.n_rows for side in operators.grid_spectra)
    # All directions may be deflated where a truncated spectrum leaves others to stand for the rest.
    return int(min(max(_LEAST_RANK_LIMIT, math.isqrt(int(grids * size))), rows * columns, size - 1))


def _leading(values: Array, rank: int, outside: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the positions of the `rank` smallest of many values, as far as they lie below the next one, and that one.

    Beyond all values comes what stands `outside` of a truncated spectrum. Beside the positions stand their values.
    """
    flat = namespace(values).reshape(values, (-1,))
    size = int(flat.shape[0])
    nearest = np.arange(size) if rank >= size else least_positions(flat, rank + 1)
    found = to_numpy(take_rows(flat, nearest))
    edge = outside if rank >= size else float(found.max())
    return nearest[found < edge], found[found < edge], edge


def _missing_preconditioner(operators: GridOperators, observed: Array, rank: int) -> Callable[[Array], Array] | None:
    r"""Invert τI − Φ_m (τ − ρ) Φ_mᵀ, where τ stands for the residual filter of all that is not deflated.

    .. math:: \tfrac1\tau\left(\mathbf{I} + \boldsymbol\Phi_m\mathbf{S}^{-1}\boldsymbol\Phi_m^\top\right), \qquad
              \mathbf{d} = \rho/(\tau-\rho)
    """
    leading, rho, edge = _leading(operators.remainder, rank, 1.0)
    if not leading.size:
        return None
    kept = np.maximum(rho, 1e3 * epsilon(operators.remainder) * edge)
    weights = namespace(observed).astype(observed, operators.remainder.dtype)
    diagonal = kept / (edge - rho)
    deflate = Deflation(*operators.grid_spectra, leading, diagonal, weights)
    return lambda grid: grid + _where(~observed, deflate(grid))


def _solve_observed(
    operators: GridOperators,
    Y: Array,
    observed: Array,
    weights: Array | None,
    n_observed: int,
    rank: int | None,
    is_direct: bool,
    start: Completion | None,
    tol: float,
    max_iter: int,
) -> Completion:
    """Solve for the unknowns √(1/w) a of the observed cells."""
    xp, cells = namespace(Y), _Cells(observed)
    root = cells.gather(xp.astype(observed, Y.dtype) if weights is None else _where(observed, weights) ** 0.5)
    right = root * cells.gather(_where(observed, Y))
    border = _Border(root) if operators.free_mean else None
    values = _solve_cells_directly(operators, cells, root, right, to_numpy(observed)) if is_direct else None
    if values is not None:
        found = Solution(values, 0, 0.0, True)
    else:
        limits = (n_observed, rank, tol, max_iter)
        found = _iterate(operators, cells, root, right, border, weights is not None, start, *limits)
    if border is not None:
        found = replace(found, values=border.project(found.values))
    dual = cells.scatter(root * found.values)
    fitted = operators.kernel(dual)
    if border is not None:
        fitted += border.share(right - root * cells.gather(fitted))
    labels = xp.where(observed, Y, fitted) if weights is None else fitted + operators.ridge * dual
    return Completion(labels, "observed", replace(found, values=cells.scatter(found.values)))


class _Cells:
    """Takes grids to what is iterated on, and back: to a list of the observed cells, which takes less memory.

    Arrays of other libraries stay grids, which are zero where nothing is observed.
    """

    def __init__(self, observed: Array) -> None:
        self.shape = observed.shape
        self.at = None if is_foreign(observed) else np.flatnonzero(observed)

    def gather(self, grid: Array) -> Array:
        return grid if self.at is None else grid.reshape(-1)[self.at]

    def scatter(self, values: Array) -> Array:
        if self.at is None:
            return values
        grid = np.zeros(self.shape, dtype=values.dtype)
        grid.reshape(-1)[self.at] = values
        return grid


def _solve_cells_directly(
    operators: GridOperators, cells: _Cells, root: Array, right: Array, mask: np.ndarray
) -> Array | None:
    """Solve for the observed cells as one dense system, scaled to a unit diagonal, which a free mean borders.

    None is returned where the system is singular: conjugate gradients then find one of its solutions.
    """
    xp, flat = namespace(right), np.flatnonzero(mask)
    root, known = (take_rows(xp.reshape(cells.scatter(each), (-1,)), flat) for each in (root, right))
    system = operators.kernel_block(*np.nonzero(mask)) * root[:, None] * root[None, :]
    diagonal = xp.linalg.diagonal(system) + operators.ridge
    scale = diagonal**-0.5
    system = with_diagonal(system, diagonal) * scale[:, None] * scale[None, :]
    try:
        solved = scale[:, None] * solve(system, scale[:, None] * xp.stack([known, root], axis=1))
    except np.linalg.LinAlgError:
        return None
    values = solved[:, 0]
    if operators.free_mean:
        values = values - solved[:, 1] * (inner(root, values) / inner(root, solved[:, 1]))
    return cells.gather(_scattered(values, mask))


def _iterate(
    operators: GridOperators,
    cells: _Cells,
    root: Array,
    right: Array,
    border: _Border | None,
    weighted: bool,
    start: Completion | None,
    n_observed: int,
    rank: int | None,
    tol: float,
    max_iter: int,
) -> Solution:
    """Solve for the observed cells by conjugate gradients; with a border up to what its projection takes away."""

    def multiply(values: Array) -> Array:
        image = cells.gather(operators.kernel(cells.scatter(root * values)))
        image *= root
        image += operators.ridge * values
        return image

    limit = _rank_limit(operators, 4)
    if rank is None:
        rank = choose_rank(operators.remainder, cells.shape, operators.kernel_cost, n_observed, tol, limit)
    product: Callable[[Array], Array] = multiply
    precondition = _observed_preconditioner(operators, cells, root, min(rank, limit)) if rank else None
    begin = cells.gather(start.solution.values) if start is not None and start.form == "observed" else None
    if border is not None:
        if precondition is None and weighted:
            # Projection mixes weights of all magnitudes: rounding of the largest would stand beside the smallest.
            mean_kernel = float(namespace(right).sum(operators.kernel_values)) / math.prod(cells.shape)
            scale = operators.ridge + mean_kernel * root**2

            def precondition(values: Array) -> Array:
                return values / scale

        product, precondition = border.around(product), border.beside(precondition) if precondition else border.project
        begin = None if begin is None else border.project(begin)
    return conjugate_gradients(
        product,
        right if border is None else border.project(right),
        precondition=precondition,
        start=begin,
        tol=tol,
        max_iter=max_iter,
        norm=operators.ridge + largest(operators.kernel_values) * largest(root) ** 2,
    )


class _Border:
    r"""Keeps unknowns orthogonal to the roots r of the weights, so that the dual parameters sum to zero.

    With :math:`\boldsymbol\Pi = \mathbf{I} - \mathbf{rr}^\top/\mathbf{r}^\top\mathbf{r}` the system
    :math:`\mathbf{A}` becomes :math:`\boldsymbol\Pi\mathbf{A}\boldsymbol\Pi`, and its approximate inverse
    :math:`\mathbf{M}` one of that: :math:`\mathbf{M} - \mathbf{Mrr}^\top\mathbf{M}/\mathbf{r}^\top\mathbf{Mr}`.
    """

    def __init__(self, root: Array) -> None:
        self.root, self.square = root, inner(root, root)

    def share(self, values: Array) -> float:
        """Return the multiple of r that is nearest to values."""
        return inner(self.root, values) / self.square

    def project(self, values: Array) -> Array:
        """Return what is left of values without it."""
        return values - self.root * self.share(values)

    def around(self, product: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return a product with unknowns that are orthogonal to r, made so as well."""
        return lambda values: self.project(product(values))

    def beside(self, inverse: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return the inverse under the border."""
        along = inverse(self.root)
        square = inner(self.root, along)

        def bordered(values: Array) -> Array:
            found = inverse(values)
            found -= along * (inner(along, values) / square)
            return self.project(found)

        return bordered


def _observed_preconditioner(
    operators: GridOperators, cells: _Cells, root: Array, rank: int
) -> Callable[[Array], Array] | None:
    r"""Invert C + √w Φ (p − τ) Φᵀ √w, where τ stands for the kernel values p of all that is not deflated: their mean.

    Some of these are larger, but what most of the unknowns feel is the mean.

    .. math:: \mathbf{C}^{-1} - \mathbf{C}^{-1}\sqrt{w}\,\boldsymbol\Phi\mathbf{S}^{-1}\boldsymbol\Phi^\top
              \sqrt{w}\,\mathbf{C}^{-1}, \qquad \mathbf{C} = c + \tau w, \quad \boldsymbol\Omega = w/\mathbf{C}, \quad
              \mathbf{d} = 1/(p-\tau)
    """
    values = operators.kernel_values
    leading, kept, edge = _leading(-values, rank, 0.0)
    kept = -kept
    # Closer to the ridge than this, Woodbury's difference would be rounding.
    least = 1e3 * epsilon(values) * largest(values)
    edge = max(-edge, least)
    leading, kept = leading[kept > edge], kept[kept > edge]
    if not leading.size:
        return None
    n_left = math.prod(side.n_rows for side in operators.grid_spectra) - leading.size
    rest = (float(namespace(values).sum(values)) - float(kept.sum())) / max(n_left, 1)
    edge = min(max(rest, least), edge)
    scale = operators.ridge + edge * root**2
    deflate = Deflation(*operators.grid_spectra, leading, 1.0 / (kept - edge), cells.scatter(root**2 / scale))

    def inverse(values: Array) -> Array:
        scaled = values / scale
        inside = cells.gather(deflate(cells.scatter(root * scaled)))
        inside *= root
        inside /= scale
        return scaled - inside

    return inverse
