r"""Two-step ridge regression on a network: one node set on both sides, and symmetric or antisymmetric labels.

Both sides have the same kernel, filter and regularisation, and :math:`\mathbf{Y} =
\epsilon\mathbf{Y}^\top` with :math:`\epsilon = \pm 1`. Hold-out applies to both sides: A leaves out
the edge (i, j) together with (j, i), B and C leave out one vertex, D leaves out both. With :math:`r
= R_{ij}`:

.. math::
   F^A_{ij} &= Y_{ij} - \frac{(\mathbf{RY}+\mathbf{HYR})_{ij}}{e_i + (1-e_i)e_j - \epsilon r^2}
   \quad (i \ne j) \\ F^B_{ij} &= (\mathbf{LYH})_{ij} + (\mathbf{LYR})_{ii}\, r / e_i

and on the diagonal the single cell (A) or the single vertex (B, C, D) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    largest,
    namespace,
    take_rows,
    to_numpy,
    with_diagonal,
)
from dyadlearn._rounding import rounding_level, settle
from dyadlearn.leverage import check_cells, leverage_error, nothing_left
from dyadlearn.pairing import full
from dyadlearn.pairing.full import Sweep
from dyadlearn.pairing.two_step import TwoStep, pairs_without_ridge, slack_of_cells
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import Members
from dyadlearn.spectrum import Smoother, Spectrum

# Least determinant of two vertices, relative to the geometric mean of its maximum and of that of
# unrelated vertices of the same slack. Below, the common formula has fewer than nine digits, and
# the pair is computed separately.
_TIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class Network(TwoStep):
    """Two-step model of a network, with one smoother of the nodes for rows and columns; `symmetry` is +1 or −1."""

    words: ClassVar[str] = "two-step ridge regression on a network"
    side_names: ClassVar[tuple[str, ...]] = ("nodes",)
    takes_pairs: ClassVar[bool] = False

    symmetry: int = 1

    @classmethod
    def of(cls, nodes: Smoother, symmetry: int) -> Network:
        """Return the model of a node set."""
        return cls(nodes, nodes, symmetry)

    @property
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectrum of the nodes, for rows and for columns."""
        return self.rows.spectrum, self.rows.spectrum

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Smoother of the nodes."""
        return (self.rows,)

    def at(self, *alphas: Any) -> Self:
        """Return the same model with another regularisation."""
        nodes = self.rows.at(alphas[0])
        return replace(self, rows=nodes, columns=nodes)

    def coefficients(self, Y: Array) -> Array:
        """Return the coefficients, exactly symmetric if they contain both sides."""
        coefficients = super().coefficients(Y)
        if all(self._absorbed):
            return (coefficients + self.symmetry * coefficients.T) / 2
        return coefficients


full.sweep.register(Network, Sweep)


@full.jackknife.register(Network)
def _jackknife(model: Network, Y: Array, members: Members = None) -> None:
    """Return None: leaving out a vertex changes both sides, so that there is no formula."""


@full.hold_out_stack.register(Network)
def _hold_out_stack(model: Network, stack: Array, setting: Setting, *groups: Members) -> Array:
    return full.each_grid(partial(_hold_out, model, setting), stack)


def _hold_out(model: Network, setting: Setting, Y: Array) -> Array:
    """Return hold-out predictions, shape (n, n)."""
    side = model.rows
    if setting is Setting.A:
        return _new_edges(model, Y)
    if side.remainder_limit is None:
        side.check_slack()
    if setting is Setting.D:
        if Y.shape[0] == 2:
            raise nothing_left()
        return _with_vertex_diagonal(_new_edges_between_new_vertices(side, Y), side, Y)
    held_out = _with_vertex_diagonal(_new_vertices(side, Y), side, Y)
    if setting is Setting.B:
        return held_out
    return model.symmetry * held_out.T


@full.cell_slack.register(Network)
def _cell_slack(model: Network) -> Array:
    """Return the diagonal of the residual operator on edges, shape (n, n)."""
    # For λ = 0, the entries between an edge and its transpose vanish faster than the diagonal.
    return slack_of_cells(model) - (
        0.0 if model.rows.remainder_limit is not None else _links(model)
    )


def _links(model: Network) -> Array:
    """Return the entries of the hat matrix between (i, j) and (j, i), which are left out together; 0 for i = j."""
    return model.symmetry * model.rows.off_diagonal() ** 2


def _new_edges(model: Network, Y: Array) -> Array:
    side = model.rows
    if side.remainder_limit is not None:
        return pairs_without_ridge(side, side, Y)
    links = _links(model)
    slack = slack_of_cells(model) - links
    check_cells(slack, side.slack_floor)
    smoothed, half = (grid.T for grid in side.smooth_others(Y.T))
    held_out = side.smooth_others(smoothed)[1]
    held_out += side.leverage[:, None] * half
    held_out -= links * Y
    if side.prefers_residual:
        top = side.level(Y)
    else:
        top = largest(side.shrinkage) * side.level(Y)
    settle(held_out, top)
    held_out /= slack
    return held_out


def _diagonal(matrix: Array) -> Array:
    return namespace(matrix).linalg.diagonal(matrix)


def _with_vertex_diagonal(held_out: Array, side: Smoother, Y: Array) -> Array:
    """Return predictions with a new diagonal, the predictions of each vertex with itself by the model without it."""
    return with_diagonal(held_out, _diagonal(side.leave_one_out(side.leave_one_out(Y.T).T)))


def _new_vertices(side: Smoother, Y: Array) -> Array:
    left = side.leave_one_out(Y)
    if (
        side.remainder_limit is not None
    ):  # for λ = 0 the tasks are interpolated, and R vanishes faster than e
        return left
    # A vertex is not among its own tasks: it would add two terms that cancel, and that are large
    # for a small slack.
    left = with_diagonal(left, 0.0)
    product = side.product(left.T).T
    if side.prefers_residual:
        smoothed = left - product
        diagonal = _diagonal(product)
    else:
        smoothed = product
        diagonal = -_diagonal(product)
    held_out = smoothed - side.off_diagonal() * (diagonal / side.slack)[:, None]
    # Rows of LY differ in size, and so do their rounding errors.
    return settle(
        held_out,
        rounding_level(left.T, 1.0 if side.prefers_residual else largest(side.shrinkage))[:, None],
    )


def _new_edges_between_new_vertices(side: Smoother, Y: Array) -> Array:
    r"""Return the prediction for each edge (i, j) by the model without the vertices i and j.

    With S = {i, j} both sides are the operator of the group S, and
    :math:`\mathbf{R}_{SS}^{-1} = \Delta^{-1}\begin{pmatrix} e_j & -r \\ -r & e_i\end{pmatrix}`,
    :math:`\Delta = e_i e_j - r^2`.
    """
    side = side.scaled()
    r = -side.off_diagonal()
    e_i = side.slack[:, None]
    e_j = side.slack[None, :]
    delta = with_diagonal(e_i * e_j - r**2, 1.0)
    if side.is_graded:
        _check_pairs(side, delta)
    top = largest(side.smaller)
    xp = namespace(Y)
    tight = with_diagonal(delta < _TIGHT * top * xp.sqrt(e_i * e_j), False)
    pairs = to_numpy(tight)
    held_out = _between_loose_vertices(side, Y, -r, xp.where(tight, 1.0, delta))
    R = with_diagonal(r, side.slack)
    for vertex in map(int, np.flatnonzero(pairs.any(axis=1))):
        others = np.flatnonzero(pairs[vertex])
        place = np.zeros(len(pairs), dtype=np.intp)
        place[others] = np.arange(others.size)
        predictions = take_rows(_between_tight_vertices(R, Y, vertex, others), place)
        held_out[vertex, :] = xp.where(tight[vertex, :], predictions, held_out[vertex, :])
    return held_out


def _check_pairs(side: Smoother, delta: Array) -> None:
    """Raise `LeverageError` if a pair of vertices has leverage 1, given the determinants."""
    e_i = side.slack[:, None]
    e_j = side.slack[None, :]
    # As for blocks of any size: the smaller eigenvalue is close to the determinant over the larger
    # one.
    rounding = side.spectrum.n_rows * epsilon(delta) * e_i * e_j
    if side.slack_floor:
        rounding = 1e6 * rounding
    tight = with_diagonal((delta <= rounding) | (delta <= side.slack_floor * (e_i + e_j)), False)
    if bool(namespace(tight).any(tight)):
        vertices = np.flatnonzero(to_numpy(tight).any(axis=1))
        raise leverage_error(vertices, side.spectrum.n_rows, "vertices belong to pairs that")


def _between_tight_vertices(R: Array, Y: Array, vertex: int, others: np.ndarray) -> Array:
    r"""Return the predictions (n,) for the edges of a vertex i with nearly equal vertices j.

    Here :math:`1/\Delta^2` would magnify rounding. The operators of i without j and of j without i,
    :math:`(r\mathbf{R}_j/e_j - \mathbf{R}_i)\,e_j/\Delta` and its mirror image, are formed instead.
    """
    row = take_rows(R, np.array([vertex]))
    other_rows = take_rows(R, others)
    e_i = R[vertex, vertex]
    e_j = take_rows(_diagonal(R), others)[:, None]
    r = other_rows[:, vertex][:, None]
    absent = np.arange(R.shape[0])[None, :] == others[:, None]
    absent[:, vertex] = True
    left = (r * other_rows / e_j - row) / (e_i - r**2 / e_j)
    right = (r * row / e_i - other_rows) / (e_j - r**2 / e_i)
    is_training = as_array_of(~absent, Y, Y.dtype)
    return namespace(Y).sum(((left * is_training) @ Y) * (right * is_training), axis=1)


def _between_loose_vertices(side: Smoother, Y: Array, h: Array, delta: Array) -> Array:
    r"""Return the predictions for all pairs of vertices that are not nearly equal.

    With :math:`h = -r`, the rows :math:`\mathbf{a}` and :math:`\mathbf{b}` of i and j of the hat,
    zero at both, weigh the other vertices by :math:`(e_j\mathbf{a} + h\mathbf{b})/\Delta` for i and
    by
    :math:`(e_i\mathbf{b} + h\mathbf{a})/\Delta` for j. The sums exclude the left-out vertices, so that the result is as
    accurate as the hat matrix or the residual operator, whichever is smaller.
    """
    e_i = side.slack[:, None]
    e_j = side.slack[None, :]
    left = side.smooth_others(Y)[1]
    right = side.smooth_others(Y.T)[1].T
    both = side.smooth_others(left.T)[1].T
    left_diagonal, right_diagonal, both_diagonal, label_diagonal = (
        _diagonal(grid) for grid in (left, right, both, Y)
    )
    a_b = both - h * (left_diagonal[:, None] + right_diagonal[None, :]) + h**2 * Y.T
    a_a = both_diagonal[:, None] - h * (left + right.T) + h**2 * label_diagonal[None, :]
    held_out = (e_i * e_j * a_b + h * (e_j * a_a + e_i * a_a.T) + h**2 * a_b.T) / delta**2
    top = largest(side.smaller)
    return settle(
        held_out, namespace(Y).max(side.level(Y)) * top * (0.5 * (e_i + e_j) / delta) ** 2
    )
