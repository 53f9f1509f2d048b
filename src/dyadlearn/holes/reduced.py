r"""One side without the labels of some rows, its penalty as it was built from all of them.

Let a side have the hat :math:`\mathbf{H}` and the residual operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`. When
the rows I leave and the rows O stay, what the fit itself puts in the place of the left-out ones is

.. math:: \mathbf{f}_I = -\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\,\mathbf{y}_O = \mathbf{R}_{II}^{-1}\mathbf{H}_{IO}\,
          \mathbf{y}_O ,

and the residual operator of the rows that stay is the Schur complement

.. math:: \bar{\mathbf{R}} = \mathbf{R}_{OO} - \mathbf{R}_{OI}\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}
          = (\mathbf{I} + \boldsymbol\Xi_{OO})^{-1}, \qquad
          \boldsymbol\Xi = \mathbf{U}\,\tfrac{f}{1-f}\,\mathbf{U}^\top .

So a side under any filter is ridge regression with the kernel :math:`\boldsymbol\Xi` and a ridge of one. For Tikhonov's
filter :math:`\boldsymbol\Xi = \mathbf{K}/\lambda`, and a reduced side is one that is fitted again. Directions that the
filter keeps whole, :math:`1-f = 0`, have no value in this kernel: they carry no penalty, and the others are taken
orthogonal to them. A free constant is one of these, and stays what it is. With weights w of the rows that stay, the
same holds of :math:`\sqrt{w}\,\boldsymbol\Xi_{OO}\sqrt{w}` and of labels multiplied by :math:`\sqrt{w}`.
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, epsilon, largest, namespace, svd, take_rows, to_numpy, zeros
from dyadlearn.filters import Tabulated
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error

__all__ = ["check_hidden", "predict_others", "reduced", "without"]


def reduced(side: Smoother, rows: np.ndarray, weights: Array | None = None) -> Smoother:
    r"""Return the operators of a side that saw the labels of some rows only.

    Neither Ξ nor the Schur complement is formed: the singular values of its factor
    :math:`\mathbf{U}_O\sqrt{f/(1-f)}` span half as many orders of magnitude.

    Parameters
    ----------
    side : Smoother
        Of n rows.
    rows : integer array of shape (p,)
        Those that stay.
    weights : array of shape (p, 1), default=None
        Of their squared loss.

    Returns
    -------
    Smoother
        Of p rows; with weights, of labels that were multiplied by their roots, and so was a free constant. Of its
        eigenvalues only the gap between directions that are kept whole and others is that of the side.

    Raises
    ------
    LeverageError
        If the labels that stay do not determine what is kept whole.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.holes.reduced import reduced
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> reduced(side, np.array([0])).hat().round(6)  # a kernel of 2, a ridge of 1
    array([[0.666667]])
    """
    if weights is None and rows.size == side.spectrum.n_rows:
        return side
    xp, vanishing = namespace(side.shrinkage), side.contrast is not None
    side = side.scaled()
    check_hidden(side, without(rows, side.spectrum.n_rows))
    is_whole, constant = _whole(side), side.spectrum.constant if side.spectrum.has_free_constant else None
    # A free constant, the last direction, comes first: what else is kept whole is taken orthogonal to it.
    whole, others = np.flatnonzero(is_whole)[::-1], np.flatnonzero(~is_whole)
    # From the largest to the smallest: in the other order small singular values drown in the rounding of large ones.
    others = others[np.argsort(to_numpy(side.remainder)[others])]
    own = take_rows(side.spectrum.vectors, rows)
    own = own if weights is None else own * weights**0.5
    shares = take_rows(side.shrinkage, others) / take_rows(side.remainder, others)
    factor = xp.concat([take_rows(own.T, whole).T, take_rows(own.T, others).T * shares**0.5], axis=1)
    orthogonal, triangle = xp.linalg.qr(factor, mode="reduced")
    r, first = whole.size, int(constant is not None)
    turned, roots, _ = svd(triangle[r:, r:])
    vectors = xp.concat([orthogonal[:, first:r], orthogonal[:, r:] @ turned, orthogonal[:, :first]], axis=1)
    squares, last = roots**2, xp.zeros_like(vectors[0, :first])
    free = xp.ones_like(vectors[0, first:r])
    if vanishing:
        spectrum = Spectrum(xp.concat([squares, last]), rows.size, None, vectors, None, constant)
        return spectrum.smoother(Tabulated(xp.ones_like(squares), xp.zeros_like(squares), 1.0 / squares), 0.0)
    values = xp.concat([free, (1.0 - _gap(side, is_whole)) * xp.ones_like(squares)]) if free.shape[0] else squares
    filter = Tabulated(xp.concat([free, squares / (1.0 + squares)]), xp.concat([0.0 * free, 1.0 / (1.0 + squares)]))
    spectrum = Spectrum(xp.concat([values, last]), rows.size, None, vectors, None, constant)
    return spectrum.smoother(filter, side.alpha)


def predict_others(side: Smoother, rows: np.ndarray, labels: Array) -> Array:
    r"""Return what the labels of some rows say of the others, :math:`-\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\mathbf{Y}_O`.

    Parameters
    ----------
    side : Smoother
        Of n rows.
    rows : integer array of shape (p,)
        Those that have labels.
    labels : array of shape (p, c)

    Returns
    -------
    array of shape (n - p, c)
        For the other rows, in ascending order.

    Raises
    ------
    LeverageError
        If the side fits any labels of the others exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.holes.reduced import predict_others
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> predict_others(side, np.array([0]), np.array([[3.0]]))
    array([[1.]])
    """
    side, xp = side.scaled(), namespace(labels)
    hidden = without(rows, side.spectrum.n_rows)
    if not rows.size and not side.spectrum.has_free_constant:
        return zeros((hidden.size, labels.shape[1]), labels)
    check_hidden(side, hidden)
    weights = -side.remainder if side.prefers_residual else side.shrinkage
    right = take_rows(side.spectrum.vectors, hidden) @ (
        weights[:, None] * (take_rows(side.spectrum.vectors, rows).T @ labels)
    )
    return xp.linalg.solve(side.residual_block(hidden), right)


def check_hidden(side: Smoother, hidden: np.ndarray) -> None:
    """Raise `LeverageError` if a side fits hidden rows exactly whatever their labels.

    Then the other rows do not determine all the directions that are kept whole. That is told from singular
    values: an eigenvalue of the residual operator is wrong by ε, the square of a singular value by that of ε.
    """
    whole = np.flatnonzero(_whole(side))
    if whole.size and hidden.size:
        seen = take_rows(side.spectrum.vectors, without(hidden, side.spectrum.n_rows))
        n_seen, roots = int(seen.shape[0]), svd(take_rows(seen.T, whole).T)[1]
        if n_seen < whole.size or float(namespace(roots).min(roots)) ** 2 <= side.slack_floor:
            raise leverage_error(hidden, side.spectrum.n_rows, "rows are missing and")


def without(rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the positions from 0 to `n_rows` - 1 that are not among `rows`, in ascending order."""
    return np.delete(np.arange(n_rows), rows)


def _whole(side: Smoother) -> np.ndarray:
    """Tell which directions are kept whole, or cannot be told from those in the precision at hand."""
    scale = 1.0 if side.spectrum.is_truncated else largest(side.remainder)
    return np.asarray(to_numpy(side.remainder) <= scale * epsilon(side.remainder) ** 2)


def _gap(side: Smoother, is_whole: np.ndarray) -> float:
    """Return the gap between eigenvalues that are kept whole and the others, over the largest."""
    values, is_whole = to_numpy(side.spectrum.penalised), is_whole[: side.spectrum.penalised.shape[0]]
    below = values[~is_whole].max() if not is_whole.all() else 0.0
    return float((values[is_whole].min() - below) / values.max())
