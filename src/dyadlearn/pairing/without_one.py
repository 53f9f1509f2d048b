r"""A side without one of its rows, decomposed by roots of an equation instead of anew: for many rows at once.

Let :math:`\mathbf{G} = \mathbf{V}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top` and let :math:`\mathbf{v}` be row j of
:math:`\mathbf{V}`. An eigenvector :math:`\mathbf{w}` of :math:`\mathbf{G}` without row and column j, with a zero in
place j, has :math:`\mathbf{Gw} = t\mathbf{w} + \gamma\mathbf{e}_j`, and so

.. math:: \mathbf{w} = \gamma\,\mathbf{V}\frac{\mathbf{v}}{\mathbf{s}-t}, \qquad
          f(t) = \sum_i \frac{v_i^2}{s_i-t} = 0, \qquad \mathbf{w}^\top\mathbf{G}\mathbf{e}_j = \gamma .

Between any two eigenvalues of :math:`\mathbf{G}` lies one root. It is kept as its distance from the nearer of the two,
which bisection finds to all its digits; the eigenvectors are those of the :math:`\hat{\mathbf{v}}` for which the roots
that were found are exact,

.. math:: \hat v_i^2 = \frac{\prod_l (t_l-s_i)}{\prod_{k\ne i}(s_k-s_i)},

and are orthogonal to rounding therefore (Gu and Eisenstat, SIAM J. Matrix Anal. Appl. 15, 1994). Eigenvalues that
coincide are set apart, and rows without a part in one are given one, by less than the rounding of a decomposition.

All of it is sums over arrays of many rows at once, which is what an accelerator is good at, and hundreds of small
decompositions are what it is not.
"""

from __future__ import annotations

from dyadlearn._array import Array, cast, namespace

__all__ = ["without_each"]

# Distances are a share of half the gap between two eigenvalues, which is known to be above 2⁻¹²⁸: squares of what a
# row has of an eigenvector are taken for no less than 2⁻¹⁰⁴. First the power of two is looked for, then its digits.
_POWERS, _DIGITS = 7, 53


def without_each(values: Array, vectors: Array, rows: slice) -> tuple[Array, Array, Array]:
    r"""Decompose a kernel without each of some of its rows.

    Parameters
    ----------
    values : array of shape (q,)
        Eigenvalues of the kernel of all q > 1 rows, not negative, in any order.
    vectors : array of shape (q, q)
    rows : slice
        The b rows that leave, one at a time.

    Returns
    -------
    values : array of shape (b, q − 1)
        In ascending order.
    vectors : array of shape (b, q, q − 1)
        With zeros in the row that left.
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
    xp, dtype, q = namespace(values), values.dtype, values.shape[0]
    order = xp.argsort(values)
    poles = cast(xp.take(values, order), xp.float64)
    size = poles[-1]
    poles = poles / xp.where(size > 0, size, xp.ones_like(size))
    basis = cast(xp.take(vectors, order, axis=1), xp.float64)
    share = basis[rows, :]
    precision = float(xp.finfo(xp.float64).eps)
    squares = xp.clip(share * share, precision**2, 1.0)
    # Poles that coincide are set apart, by what nothing else feels.
    index = xp.arange(q, device=values.device)
    place = xp.astype(index, xp.float64) * precision**2
    between = (poles[:, None] - poles[None, :]) + (place[:, None] - place[None, :])
    to_left, to_right = between[:, :-1], between[:, 1:]
    half = 0.5 * xp.linalg.diagonal(between[1:, :-1])
    # The equation grows from −∞ to ∞ between two poles: its sign in the middle tells which is the nearer.
    is_left = squares @ (1.0 / (to_left - half)) > 0
    from_pole = xp.where(is_left[:, None, :], to_left, to_right)
    direction = xp.where(is_left, xp.ones_like(half), -xp.ones_like(half))

    def is_nearer(distance: Array) -> Array:
        """Tell where the root lies nearer to its pole than some distance."""
        return (xp.sum(squares[:, :, None] / (from_pole - (direction * distance)[:, None, :]), axis=1) > 0) == is_left

    power = xp.zeros_like(direction)
    for bit in reversed(range(_POWERS)):
        further = power + 2.0**bit
        power = xp.where(is_nearer(half * 2.0**-further), further, power)
    least = half * 2.0 ** -(power + 1.0)
    found = xp.zeros_like(least)
    for digit in range(1, _DIGITS):
        further = found + 0.5**digit
        found = xp.where(is_nearer(least * (1.0 + further)), found, further)
    distance = direction * least * (1.0 + found)
    beyond = from_pole - distance[:, None, :]
    roots = xp.where(is_left, poles[:-1], poles[1:]) + distance
    # Each factor of the numerator with one of the denominator that is larger.
    below = index[None, :-1] < index[:, None]
    ratios = xp.abs(beyond) / xp.abs(xp.where(below, to_left, to_right))
    exact = xp.prod(ratios, axis=2) ** 0.5
    del ratios
    exact = xp.where(share < 0, -exact, exact)
    turned = exact[:, :, None] / beyond
    del beyond
    cross = 1.0 / xp.sum(turned * turned, axis=1) ** 0.5
    turned *= cross[:, None, :]
    turned = basis @ turned
    is_out = index[rows][:, None] == index[None, :]
    turned = xp.where(is_out[:, :, None], xp.zeros_like(turned[:1, :1, :1]), turned)
    return cast(size * roots, dtype), cast(turned, dtype), cast(size * cross, dtype)
