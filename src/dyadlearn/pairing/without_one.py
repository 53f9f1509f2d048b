r"""Eigendecompositions of a kernel without each of its rows, from the roots of the secular equation.

Let :math:`\mathbf{G} = \mathbf{V}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top` and let
:math:`\mathbf{v}` be row j of
:math:`\mathbf{V}`. An eigenvector :math:`\mathbf{w}` of :math:`\mathbf{G}` without row and column j, with a zero in
place j, has :math:`\mathbf{Gw} = t\mathbf{w} + \gamma\mathbf{e}_j`, and so

.. math:: \mathbf{w} = \gamma\,\mathbf{V}\frac{\mathbf{v}}{\mathbf{s}-t}, \qquad
          f(t) = \sum_i \frac{v_i^2}{s_i-t} = 0, \qquad \mathbf{w}^\top\mathbf{G}\mathbf{e}_j =
          \gamma .

Between any two eigenvalues of :math:`\mathbf{G}` lies one root. Bisection computes its distance
from the nearer eigenvalue to full precision. The eigenvectors are those of the
:math:`\hat{\mathbf{v}}` for which the computed roots are exact,

.. math:: \hat v_i^2 = \frac{\prod_l (t_l-s_i)}{\prod_{k\ne i}(s_k-s_i)},

and are therefore orthogonal up to rounding (Gu and Eisenstat, SIAM J. Matrix Anal. Appl. 15, 1994).
Equal eigenvalues are separated, and zero entries of :math:`\mathbf{v}` replaced, by less than the
rounding of a decomposition.

All operations are sums over arrays of many rows at once. On an accelerator they are much faster
than hundreds of small decompositions.
"""

from __future__ import annotations

from typing import NamedTuple

from dyadlearn._array import Array, cast, namespace

# Distances are fractions of half the gap between two eigenvalues. They exceed 2⁻¹²⁸, because
# squared entries of an eigenvector are clipped to at least 2⁻¹⁰⁴. Bisection determines the power of
# two first, then the digits.
_POWERS = 7
_DIGITS = 53


def without_each(values: Array, vectors: Array, rows: slice) -> tuple[Array, Array, Array]:
    r"""Decompose a kernel without each of some of its rows.

    Parameters
    ----------
    values : array of shape (q,)
        Eigenvalues of the kernel of all q > 1 rows, not negative, in any order.
    vectors : array of shape (q, q)
    rows : slice
        The b rows to leave out, one at a time.

    Returns
    -------
    values : array of shape (b, q − 1)
        Eigenvalues in ascending order.
    vectors : array of shape (b, q, q − 1)
        Eigenvectors, with zeros in the left-out row.
    cross : array of shape (b, q − 1)
        :math:`\mathbf{w}^\top\mathbf{G}\mathbf{e}_j`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.pairing.without_one import without_each
    >>> values, vectors, cross = without_each(*np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 3.0]])), slice(0, 2))
    >>> values.round(6).tolist(), np.abs(cross).round(6).tolist()
    ([[3.0], [2.0]], [[1.0], [1.0]])
    """
    xp = namespace(values)
    dtype = values.dtype
    order = xp.argsort(values)
    poles = cast(xp.take(values, order), xp.float64)
    basis = cast(xp.take(vectors, order, axis=1), xp.float64)
    size = poles[-1]
    poles = poles / xp.where(size > 0, size, 1.0)
    gaps = _gaps(poles)
    entries = basis[rows, :]
    roots = _roots(poles, gaps, entries)
    exact = _exact_entries(roots, gaps, entries)
    solutions = exact[:, :, None] / roots.beyond
    cross = 1.0 / xp.sum(solutions * solutions, axis=1) ** 0.5
    solutions *= cross[:, None, :]
    solutions = basis @ solutions
    index = xp.arange(poles.shape[0], device=poles.device)
    is_out = index[rows][:, None] == index[None, :]
    solutions = xp.where(is_out[:, :, None], 0.0, solutions)
    return cast(size * roots.values, dtype), cast(solutions, dtype), cast(size * cross, dtype)


class _Gaps(NamedTuple):
    """Differences between each of q poles and the two ends of each of the q − 1 intervals between them.

    Attributes
    ----------
    to_left, to_right : arrays of shape (q, q − 1)
        Each pole minus the left and the right end of each interval.
    half : array of shape (q − 1,)
        Half the length of each interval.
    """

    to_left: Array
    to_right: Array
    half: Array


class _Roots(NamedTuple):
    """Roots of the secular equation of each of b rows.

    Attributes
    ----------
    values : array of shape (b, q − 1)
    beyond : array of shape (b, q, q − 1)
        Each pole minus each root, to full precision.
    """

    values: Array
    beyond: Array


def _gaps(poles: Array) -> _Gaps:
    """Return the gaps between ascending poles (q,); equal poles are separated by less than rounding."""
    xp = namespace(poles)
    index = xp.arange(poles.shape[0], device=poles.device)
    place = xp.astype(index, xp.float64) * _precision(poles) ** 2
    between = (poles[:, None] - poles[None, :]) + (place[:, None] - place[None, :])
    half = 0.5 * xp.linalg.diagonal(between[1:, :-1])
    return _Gaps(between[:, :-1], between[:, 1:], half)


def _precision(poles: Array) -> float:
    return float(namespace(poles).finfo(poles.dtype).eps)


def _roots(poles: Array, gaps: _Gaps, entries: Array) -> _Roots:
    r"""Return the roots of :math:`f(t) = \sum_i v_i^2/(s_i - t)` for entries v of shape (b, q) and poles s (q,)."""
    xp = namespace(poles)
    squares = xp.clip(entries * entries, _precision(poles) ** 2, 1.0)
    # f grows from −∞ to ∞ between two poles: its sign in the middle determines the nearer pole.
    is_left = squares @ (1.0 / (gaps.to_left - gaps.half)) > 0
    from_pole = xp.where(is_left[:, None, :], gaps.to_left, gaps.to_right)
    direction = xp.where(is_left, xp.ones_like(gaps.half), -xp.ones_like(gaps.half))

    def is_nearer(distance: Array) -> Array:
        """Return a mask of the roots that are nearer to their pole than some distance."""
        poles_minus_point = from_pole - (direction * distance)[:, None, :]
        return (xp.sum(squares[:, :, None] / poles_minus_point, axis=1) > 0) == is_left

    power = xp.zeros_like(direction)
    for bit in reversed(range(_POWERS)):
        further = power + 2.0**bit
        power = xp.where(is_nearer(gaps.half * 2.0**-further), further, power)
    least = gaps.half * 2.0 ** -(power + 1.0)
    fraction = xp.zeros_like(least)
    for digit in range(1, _DIGITS):
        further = fraction + 0.5**digit
        fraction = xp.where(is_nearer(least * (1.0 + further)), fraction, further)
    distance = direction * least * (1.0 + fraction)
    values = xp.where(is_left, poles[:-1], poles[1:]) + distance
    return _Roots(values, from_pole - distance[:, None, :])


def _exact_entries(roots: _Roots, gaps: _Gaps, entries: Array) -> Array:
    """Return the entries (b, q) for which the computed roots are exact, with the signs of other entries."""
    xp = namespace(entries)
    index = xp.arange(entries.shape[1], device=entries.device)
    # Each factor of the numerator is divided by a larger one of the denominator.
    below = index[None, :-1] < index[:, None]
    ratios = xp.abs(roots.beyond) / xp.abs(xp.where(below, gaps.to_left, gaps.to_right))
    exact = xp.prod(ratios, axis=2) ** 0.5
    return xp.where(entries < 0, -exact, exact)
