r"""Preconditioning by the leading eigenvectors of the complete grid.

Eigenvectors of the pairs are products :math:`\phi_{ij} = \mathbf{u}_i\mathbf{v}_j^\top`. The r that shrink least form
:math:`\boldsymbol\Phi`, one column each, never formed: products with it are matrix products on grids. At cells with
weights :math:`\boldsymbol\Omega` (1 where observed, 0 elsewhere) they meet in one small system,

.. math:: \mathbf{S} = \mathrm{diag}(\mathbf{d}) + \boldsymbol\Phi^\top\boldsymbol\Omega\boldsymbol\Phi,

from which Woodbury's identity gives the inverse of an operator that is exact on those r directions and a
multiple of the identity on the rest. What is left for conjugate gradients is the spread of the rest.
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, positive_solver, to_numpy, zeros
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich

__all__ = ["Deflation", "choose_rank"]

# An entry-by-entry pass over an array costs as much as this many multiplications of a matrix product per entry.
_PASS_COST = 20
# A solution this rough is there before a deflation is set up.
_ROUGH = 1e-3


def choose_rank(
    remainder: Array, shape: tuple[int, int], product_cost: int, n_unknowns: int, tol: float, max_rank: int
) -> int:
    r"""Return how many leading directions pay to be deflated.

    After deflating r directions the remaining spread is :math:`\rho_{\max}/\rho_{r+1}`, with :math:`\rho` in ascending
    order. Conjugate gradients deal with l outliers in l iterations, so they need about

    .. math:: \min_{l\ge r}\; (l-r) + \tfrac12\sqrt{\rho_{\max}/\rho_{l+1}}\;\log(2/\mathrm{tol})

    of them. The rank is the one of a geometric list with the least estimated work, set-up included. The bound says
    little of the first digits, which are there after a few iterations: where no more are wanted none is deflated.

    Parameters
    ----------
    remainder : array of shape (k, l)
        The residual filter of the pairs, :math:`\rho`.
    shape : (int, int)
        Of the grid.
    product_cost : int
        Multiplications of one product with the operator.
    n_unknowns : int
    tol : float
    max_rank : int

    Returns
    -------
    int
        0 if none pays.
    """
    m, q = shape
    rho = to_numpy(remainder).reshape(-1)
    if not rho.size or tol >= _ROUGH:
        return 0
    largest = 1.0 if rho.size < m * q else float(rho.max())
    # So many outliers are more than conjugate gradients could care for one by one: no need to sort the rest.
    n_sorted = min(rho.size, 8 * max(max_rank, 1))
    order = np.argpartition(rho, n_sorted - 1)[:n_sorted]
    order = order[np.argsort(rho[order])]
    ascending = rho[order].astype(np.float64)
    if n_sorted == rho.size < m * q:  # the null space that a truncated spectrum leaves out
        ascending = np.append(ascending, 1.0)
    spread = np.sqrt(largest / np.maximum(ascending, 1e-300))
    bound = np.arange(ascending.size) + 0.5 * spread * np.log(2 / tol)
    # needed[r]: iterations after deflating r directions.
    needed = np.minimum.accumulate(bound[::-1])[::-1] - np.arange(ascending.size)
    rows, columns = np.divmod(order, remainder.shape[1])
    limit = min(max_rank, ascending.size - 1)
    iteration = float(product_cost + 10 * _PASS_COST * m * q)
    # The bound is loose where few iterations are needed: what it promises must be worth the risk.
    best, least = 0, 0.5 * min(needed[0], n_unknowns) * iteration
    for rank in dict.fromkeys(min(limit, round(64 * 1.4**step)) for step in range(30)):
        a, b = len(np.unique(rows[:rank])), len(np.unique(columns[:rank]))
        extra = 2 * min(m * q * b + a * m * b, m * q * a + a * q * b) + 8 * rank**2
        setup = _gram_cost(m, q, a, b, rank)[0] + rank**3 / 3
        work = setup + min(needed[rank], n_unknowns) * (iteration + extra)
        if rank > 0 and work < least:
            best, least = rank, work
    return best


def _gram_cost(m: int, q: int, a: int, b: int, rank: int) -> tuple[float, bool]:
    """Return the work of forming S, and whether the outer loop runs over the tasks."""
    over_tasks = b * b * m * q / 2 + rank**2 * m / 2 + _PASS_COST * b * m * rank / 2
    over_instances = a * a * m * q / 2 + rank**2 * q / 2 + _PASS_COST * a * q * rank / 2
    return min(over_tasks, over_instances), over_tasks <= over_instances


class Deflation:
    r"""The r leading directions and the small system they pose at weighted cells.

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
    leading : integer array of shape (r,)
        Positions in the raveled (k, l) grid of pairs of eigenvectors.
    diagonal : array of shape (r,)
        :math:`\mathbf{d}`, positive.
    weights : array of shape (m, q)
        :math:`\boldsymbol\Omega`.
    """

    def __init__(
        self, spectrum: Spectrum, task_spectrum: Spectrum, leading: np.ndarray, diagonal: np.ndarray, weights: Array
    ) -> None:
        n_columns = task_spectrum.values.shape[0]
        rows, row_of = np.unique(leading // n_columns, return_inverse=True)
        columns, column_of = np.unique(leading % n_columns, return_inverse=True)
        xp = namespace(weights)
        self.left = xp.take(spectrum.vectors, as_array_of(rows, weights), axis=1)
        self.right = xp.take(task_spectrum.vectors, as_array_of(columns, weights), axis=1)
        m, q = weights.shape
        if _gram_cost(m, q, len(rows), len(columns), len(leading))[1]:
            order = np.lexsort((row_of, column_of))
            gram = _weighted_gram(self.left, self.right, row_of[order], column_of[order], weights)
        else:
            order = np.lexsort((column_of, row_of))
            gram = _weighted_gram(self.right, self.left, column_of[order], row_of[order], weights.T)
        flat = xp.reshape(gram, (-1,))
        flat[:: len(leading) + 1] += as_array_of(diagonal[order], weights, weights.dtype)
        self._solve = positive_solver(xp.reshape(flat, gram.shape))
        where = row_of[order] * len(columns) + column_of[order]
        self._where = as_array_of(where, weights)
        # Directions of the rectangle rows × columns that are not among the leading ones take the zero at the end.
        back = np.full(len(rows) * len(columns), len(leading))
        back[where] = np.arange(len(leading))
        self._back = as_array_of(back, weights)

    def __call__(self, grid: Array) -> Array:
        r"""Return :math:`\boldsymbol\Phi\mathbf{S}^{-1}\boldsymbol\Phi^\top` times a grid of shape (m, q)."""
        xp = namespace(grid)
        inside = sandwich(self.left.T, grid, self.right.T)
        solved = self._solve(xp.take(xp.reshape(inside, (-1,)), self._where, axis=0))
        padded = xp.concat([solved, zeros((1,), solved)])
        return sandwich(self.left, xp.reshape(xp.take(padded, self._back, axis=0), inside.shape), self.right)


def _weighted_gram(left: Array, right: Array, rows: np.ndarray, columns: np.ndarray, weights: Array) -> Array:
    r"""Return the upper triangle of :math:`\boldsymbol\Phi^\top\boldsymbol\Omega\boldsymbol\Phi` (r, r).

    .. math:: S_{(i,j),(i',j')} = \sum_d U_{di}U_{di'} \Big(\sum_t \Omega_{dt}V_{tj}V_{tj'}\Big)

    The directions come sorted by their column; one column at a time is weighed against those that follow.

    Parameters
    ----------
    left, right : arrays of shape (m, a) and (q, b)
        Eigenvectors that take part.
    rows, columns : integer arrays of shape (r,)
        Which of them each direction is made of.
    weights : array of shape (m, q)
    """
    xp = namespace(weights)
    rank = rows.size
    gram = zeros((rank, rank), weights)
    starts = np.searchsorted(columns, np.arange(right.shape[1] + 1))
    step = max(64, weights.shape[1])
    for j in range(right.shape[1]):
        start, stop = int(starts[j]), int(starts[j + 1])
        inner = weights @ (right[:, j:] * right[:, j : j + 1])
        own = xp.take(left, as_array_of(rows[start:stop], weights), axis=1).T
        for first in range(start, rank, step):
            last = min(first + step, rank)
            others = xp.take(left, as_array_of(rows[first:last], weights), axis=1)
            others *= xp.take(inner, as_array_of(columns[first:last] - j, weights), axis=1)
            gram[start:stop, first:last] = own @ others
    return gram
