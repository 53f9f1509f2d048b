r"""A grand mean that no penalty holds, beside a pairwise kernel.

Let :math:`\mathbf{C}` be the kernel between the cells of a grid with its ridge on the diagonal. The model
:math:`f + \mu` with a free :math:`\mu` solves the bordered system

.. math:: \begin{pmatrix}\mathbf{C} & \mathbf{1}\\ \mathbf{1}^\top & 0\end{pmatrix}
          \begin{pmatrix}\mathbf{a}\\ \mu\end{pmatrix} = \begin{pmatrix}\mathbf{y}\\ 0\end{pmatrix},
          \qquad \mu = \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}},
          \quad \mathbf{a} = \mathbf{C}^{-1}(\mathbf{y} - \mu\mathbf{1}) .

When the cells I are left out, the mean of the others is free again. Let :math:`\mathbf{p}` and :math:`1 - \mathbf{e}`
be what a model *without* the mean, fitted to the others, predicts for I from their labels and from ones there. Then

.. math:: \mathbf{f}_I = \mathbf{p} + \mu_{\setminus I}\,\mathbf{e}, \qquad
          \mu_{\setminus I} =
          \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y} - \mathbf{E}_I^\top(\mathbf{y}_I-\mathbf{p})}
          {\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1} - \mathbf{E}_I^\top\mathbf{e}}, \qquad
          \mathbf{E} = \mathbf{C}^{-1}\mathbf{1} ,

so that whatever holds out without a mean holds out with one, for one more product. It keeps the digits of
:math:`\mathbf{p}` at both ends of the regularisation. Where rotated tasks are problems of their own, with systems
:math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}`, the sums run over their columns.

A side without one of its rows, decomposed by roots of an equation instead of anew: for many rows at once.

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

from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, cast, epsilon, is_foreign, itemsize, largest, namespace, row_blocks, to_numpy, zeros
from dyadlearn._rounding import ratio
from dyadlearn.pairing.leaving import Members, summed
from dyadlearn.spectrum import Spectrum, leverage_error


def ones_of(spectrum: Spectrum) -> Array:
    """Return a column of ones along each eigenvector of a side, shape (k,).

    Raises
    ------
    ValueError
        If a truncated spectrum leaves out some of it.
    """
    ones = zeros((spectrum.n_rows, 1), spectrum.values) + 1.0
    inside = spectrum.rotate(ones)[:, 0]
    if spectrum.components is not None and spectrum.constant == "feature":
        # Where they are the last feature, small parts of them keep their digits: Uᵀ1 = diag(s) Wᵀ e.
        exact = spectrum.values**0.5 * spectrum.components[-1, :]
        if largest(namespace(exact).abs(exact - inside)) <= 1e-8 * spectrum.n_rows**0.5:
            return exact
    if spectrum.is_truncated:
        outside = ones[:, 0] - spectrum.vectors @ inside
        # By a root of the precision: of sparse features eigenvectors are known no better.
        if float(outside @ outside) > epsilon(inside) * spectrum.n_rows:
            raise ValueError("A free mean needs sides that have a constant among their features.")
    return settled_ones(inside, spectrum.n_rows)


def settled_ones(inside: Array, n: int) -> Array:
    """Return what n ones have of each direction (k,), zero where that is no more than rounding.

    Along a direction of next to no eigenvalue the ridge alone would divide it.
    """
    xp = namespace(inside)
    return xp.where(xp.abs(inside) > 16.0 * epsilon(inside) * n**0.5, inside, xp.zeros_like(inside))


@dataclass(frozen=True, eq=False)
class ConstantColumns:
    r"""What ones come to under the systems :math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}` of columns.

    Attributes
    ----------
    residuals : array of shape (m, n c)
        What the residual operator of each column makes of ones, for each of n regularisations, as
        `dyadlearn.pairing.leaving` scales it. Where it leaves nothing of them, for want of a ridge beside a singular
        kernel, it stands for what the pseudo-inverse makes of ones.
    inverse : array of shape (n, c)
        What takes that to :math:`\mathbf{M}_c^{-1}\mathbf{1}`.
    sign : array of shape (n, c)
        What takes the residuals, once rows are left out, to what is left of ones.
    """

    residuals: Array
    inverse: Array
    sign: Array

    @classmethod
    def of(
        cls,
        spectrum: Spectrum,
        ones: Array,
        values: Array,
        ridges: Array,
        filters: tuple[Array, Array],
        along: Array | None = None,
    ) -> ConstantColumns:
        r"""Return it for columns with kernels :math:`\kappa\mathbf{K}` and ridges :math:`\nu`.

        Parameters
        ----------
        spectrum : Spectrum
        ones : array of shape (k,)
            Of this side, see `ones_of`. Where a ridge is zero, they must have no part in a null space.
        values : array of shape (c,)
        ridges : array of shape (n, c)
        filters : (weights, direct)
            Of the columns, see `dyadlearn.pairing.leaving.column_weights`.
        along : array of shape (m, k), default=None
            Eigenvectors times what ones have of each, where that is known already.
        """
        xp, (weights, direct) = namespace(values), filters
        sign = xp.reshape(1.0 - 2.0 * direct, ridges.shape)
        if bool(xp.any(ridges == 0)):
            return cls._without_ridge(spectrum, ones, values, ridges, sign)
        if spectrum.is_truncated:
            # What a hat that keeps ones almost whole leaves of them is lost in it.
            weights = spectrum.values[:, None] * xp.reshape(values[None, :] / ridges, (1, -1)) + 1.0
            residuals = spectrum.vectors @ (ones[:, None] / weights)
        else:
            residuals = spectrum.vectors @ (weights * ones[:, None]) if along is None else along @ weights
            if bool(xp.any(direct > 0)):  # hats, which keep no more than half
                residuals *= 1.0 - 2.0 * direct
                residuals += direct
        return cls(residuals, 1.0 / ridges, sign)

    @classmethod
    def _without_ridge(
        cls, spectrum: Spectrum, ones: Array, values: Array, ridges: Array, sign: Array
    ) -> ConstantColumns:
        """Return it for one regularisation that leaves some columns without a ridge."""
        xp = namespace(values)
        total = spectrum.values[:, None] * values[None, :] + ridges
        weights = ratio(ones[:, None], total)
        # The residual operator is the ridge times the inverse, and without one the inverse of K alone.
        unit = xp.where(ridges > 0, ridges, values[None, :])
        is_left = (ridges > 0) | ((unit > 0) & (not spectrum.is_singular))
        unit = xp.where(unit > 0, unit, xp.ones_like(unit))
        return cls((spectrum.vectors @ weights) * unit, 1.0 / unit, sign * xp.astype(is_left, sign.dtype))


@dataclass(frozen=True, eq=False)
class MeanOfOthers:
    r"""The free mean of the labels that stay while each row is left out, gathered column by column.

    Attributes
    ----------
    members : list of integer arrays, or None
        Rows that are left out together.
    labels, weights : arrays of shape (n, m)
        :math:`\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y} - \mathbf{E}_I^\top(\mathbf{y}_I-\mathbf{p})` for each row,
        under each of n regularisations, and the same of ones for labels.
    whole : array of shape (n, 1)
        The latter with all rows.
    """

    members: Members
    labels: Array
    weights: Array
    whole: Array

    @classmethod
    def start(cls, n: int, Y: Array, members: Members) -> MeanOfOthers:
        """Begin without any column, for n regularisations of labels (m, q)."""
        return cls(members, *(zeros((n, width), Y) for width in (Y.shape[0], Y.shape[0], 1)))

    def add(
        self, here: slice, constant: ConstantColumns, share: Array, columns: Array, held_out: Array, left: Array
    ) -> Array:
        """Add some columns for some regularisations, and return what is left of ones in them, shape (m, n c).

        Parameters
        ----------
        here : slice
            Which regularisations.
        constant : ConstantColumns
        share : array of shape (c,)
            What ones of the other side have of each column.
        columns : array of shape (m, c)
            Labels.
        held_out, left : arrays of shape (m, n c)
            What is predicted of labels, and the residuals with rows left out; the latter is overwritten.
        """
        xp, (n, c), m = namespace(share), constant.inverse.shape, columns.shape[0]
        labels, ones, own, own_ones = (zeros((n, m), columns) for _ in range(4))
        scale = (share * constant.inverse)[:, :, None]
        left *= xp.reshape(share * constant.sign, (n * c,))

        def cut(grid: Array, rows: slice) -> Array:
            """Return some rows for each regularisation, shape (n, a, c)."""
            return xp.permute_dims(xp.reshape(grid[rows, :], (-1, n, c)), (1, 0, 2))

        # In blocks that stay in the cache of a processor.
        for rows in row_blocks(m, n * c * itemsize(columns), 2**28 if is_foreign(columns) else 2**18):
            residuals = cut(constant.residuals, rows)
            labels[:, rows] = ((residuals * columns[None, rows, :]) @ scale)[:, :, 0]
            own[:, rows] = labels[:, rows] - ((residuals * cut(held_out, rows)) @ scale)[:, :, 0]
            ones[:, rows] = (residuals @ (share[:, None] * scale))[:, :, 0]
            own_ones[:, rows] = ((residuals * cut(left, rows)) @ scale)[:, :, 0]
        whole = xp.sum(ones, axis=1, keepdims=True)
        self.labels[here, :] += xp.sum(labels, axis=1, keepdims=True) - summed(own.T, self.members).T
        self.weights[here, :] += whole - summed(own_ones.T, self.members).T
        self.whole[here, :] += whole
        return left

    def value(self, Y: Array, what: str) -> Array:
        """Return the mean, shape (n, m); `what` is left out, for messages."""
        return mean_of_others(self.labels, self.weights, least_weight(Y, self.whole), what)


def least_weight(Y: Array, whole: Array | float) -> Array | float:
    """Return what must be left of the weight of a mean: more than rounding leaves of all of it."""
    return 16.0 * epsilon(Y) * (Y.shape[0] * Y.shape[1]) ** 0.5 * whole


def mean_of_others(labels: Array, ones: Array, least: Array, what: str, among: tuple[int, int] | None = None) -> Array:
    """Return the mean that the labels left in determine, where they do.

    Parameters
    ----------
    labels, ones : arrays of one shape
        What is left of both sums.
    least : array that broadcasts with them
        What the latter must exceed.
    what : {"rows", "cells", "pairs"}
        What is left out, for the message.
    among : (int, int), default=None
        Where the first of them stands and how many there are, where these are some of many.

    Raises
    ------
    LeverageError
        If nothing left in tells the mean from what is left out.
    """
    tight = to_numpy(ones <= least)
    if tight.any():
        first, total = among or (0, tight.size)
        raise leverage_error(first + np.flatnonzero(tight), total, what)
    return labels / ones


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
    >>> from dyadlearn.pairing.constant import without_each
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
        """Return where the root lies nearer to its pole than some distance."""
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
