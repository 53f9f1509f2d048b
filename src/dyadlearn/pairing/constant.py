r"""Unpenalised grand mean of a pairwise kernel, and eigendecompositions of a kernel without each of its rows.

Let :math:`\mathbf{C}` be the kernel between the cells of a grid with its ridge on the diagonal. The
model
:math:`f + \mu` with a free :math:`\mu` solves the bordered system

.. math:: \begin{pmatrix}\mathbf{C} & \mathbf{1}\\ \mathbf{1}^\top & 0\end{pmatrix}
          \begin{pmatrix}\mathbf{a}\\ \mu\end{pmatrix} = \begin{pmatrix}\mathbf{y}\\ 0\end{pmatrix},
          \qquad \mu =
          \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}},
          \quad \mathbf{a} = \mathbf{C}^{-1}(\mathbf{y} - \mu\mathbf{1}) .

When the cells I are left out, the mean is estimated from the other cells. Let :math:`\mathbf{p}`
and
:math:`1 - \mathbf{e}` be the predictions for I by a model *without* the mean, fitted to the labels of the other cells
and to ones in their place. Then

.. math:: \mathbf{f}_I = \mathbf{p} + \mu_{\setminus I}\,\mathbf{e}, \qquad
          \mu_{\setminus I} =
          \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y} -
          \mathbf{E}_I^\top(\mathbf{y}_I-\mathbf{p})} {\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1} -
          \mathbf{E}_I^\top\mathbf{e}}, \qquad \mathbf{E} = \mathbf{C}^{-1}\mathbf{1} ,

so that a hold-out formula without a mean gives one with a mean, for one more product. The accuracy
of
:math:`\mathbf{p}` is preserved for small and for large regularisation. Where rotated tasks are independent problems,
with systems :math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}`, the sums run over their
columns.

`without_each` computes the eigendecomposition of a kernel without one of its rows from the roots of
the secular equation, for many rows at once.

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

from dataclasses import dataclass

from dyadlearn._array import Array, cast, epsilon, largest, namespace, zeros
from dyadlearn._rounding import ratio
from dyadlearn.solve.leaving import Members, summed
from dyadlearn.spectrum import Spectrum, check_cells


def ones_of(spectrum: Spectrum) -> Array:
    """Return the projection Uᵀ1 of a column of ones on the eigenvectors of a side, shape (k,).

    Raises
    ------
    ValueError
        If ones are not in the span of a truncated spectrum.
    """
    ones = zeros((spectrum.n_rows, 1), spectrum.values) + 1.0
    inside = spectrum.rotate(ones)[:, 0]
    if spectrum.components is not None and spectrum.constant == "feature":
        # If the last feature is a constant √a, Uᵀ1 = diag(s) Wᵀ e/√a is accurate for small entries
        # too.
        exact = spectrum.values**0.5 * spectrum.components[-1, :] / spectrum.last_entry
        if largest(namespace(exact).abs(exact - inside)) <= 1e-8 * spectrum.n_rows**0.5:
            return exact
    if spectrum.is_truncated:
        outside = ones[:, 0] - spectrum.vectors @ inside
        # The tolerance is the root of the precision: eigenvectors of sparse features are no more
        # accurate.
        if float(outside @ outside) > epsilon(inside) * spectrum.n_rows:
            raise ValueError(
                "An unpenalised mean needs a constant feature on both sides: add a column of ones."
            )
    return settled_ones(inside, spectrum.n_rows)


def settled_ones(inside: Array, n: int) -> Array:
    """Return the projection (k,) of n ones with entries of the size of rounding set to zero.

    Along a direction with a tiny eigenvalue, only the ridge would divide the rounding error.
    """
    xp = namespace(inside)
    return xp.where(xp.abs(inside) > 16.0 * epsilon(inside) * n**0.5, inside, 0.0)


@dataclass(frozen=True, eq=False)
class ConstantColumns:
    r"""Solutions for ones of the systems :math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}` of columns.

    Attributes
    ----------
    residuals : array of shape (m, n c)
        Residual operator of each column times ones, for each of n regularisations, with the scale
        of `dyadlearn.solve.leaving`. Where that is zero, because there is no ridge and the kernel
        is singular, it is the pseudo-inverse times ones.
    inverse : array of shape (n, c)
        Factor that turns the residuals into :math:`\mathbf{M}_c^{-1}\mathbf{1}`.
    sign : array of shape (n, c)
        Factor that turns the hold-out residuals into those of ones.
    """

    residuals: Array
    inverse: Array
    sign: Array

    @classmethod
    def of(
        cls, spectrum: Spectrum, ones: Array, values: Array, ridges: Array, direct: Array
    ) -> ConstantColumns:
        r"""Return it for columns with kernels :math:`\kappa\mathbf{K}` and ridges :math:`\nu`.

        Parameters
        ----------
        spectrum : Spectrum
        ones : array of shape (k,)
            Projection of ones on this side, see `ones_of`.
        values : array of shape (c,)
        ridges : array of shape (n, c)
        direct : array of shape (n c,)
            1.0 for columns computed from the hat matrix, see
            `dyadlearn.solve.leaving.column_weights`.
        """
        xp = namespace(values)
        kernels = xp.broadcast_to(values, ridges.shape)
        # The residual operator is the ridge times the inverse; where the ridge is 0, it is the
        # inverse of K.
        unit = xp.where(ridges > 0, ridges, kernels)
        is_determined = (ridges > 0) | ((unit > 0) & (not spectrum.is_singular))
        unit = xp.where(unit > 0, unit, 1.0)
        totals = spectrum.values[:, None] * xp.reshape(kernels, (1, -1)) + xp.reshape(
            ridges, (1, -1)
        )
        residuals = spectrum.vectors @ (ratio(ones[:, None], totals) * xp.reshape(unit, (1, -1)))
        sign = xp.reshape(1.0 - 2.0 * direct, ridges.shape) * xp.astype(is_determined, unit.dtype)
        return cls(residuals, 1.0 / unit, sign)


@dataclass(frozen=True, eq=False)
class MeanOfOthers:
    r"""Unpenalised mean of the other labels for each left-out row, summed column by column.

    Attributes
    ----------
    members : list of integer arrays, or None
        Rows that are left out together.
    labels, weights : arrays of shape (n, m)
        :math:`\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y} - \mathbf{E}_I^\top(\mathbf{y}_I-\mathbf{p})` for each row,
        under each of n regularisations, and the same of ones for labels.
    whole : array of shape (n, 1)
        The weights if no row is left out.
    """

    members: Members
    labels: Array
    weights: Array
    whole: Array

    @classmethod
    def start(cls, n: int, Y: Array, members: Members) -> MeanOfOthers:
        """Return sums of zero, for n regularisations of labels (m, q)."""
        return cls(members, *(zeros((n, width), Y) for width in (Y.shape[0], Y.shape[0], 1)))

    def add(
        self,
        here: slice,
        constant: ConstantColumns,
        share: Array,
        columns: Array,
        held_out: Array,
        left: Array,
    ) -> Array:
        """Add some columns for some regularisations, and return the hold-out residuals of ones, shape (m, n c).

        Parameters
        ----------
        here : slice
            Positions of the regularisations.
        constant : ConstantColumns
        share : array of shape (c,)
            Projection of ones of the other side on each column.
        columns : array of shape (m, c)
            Labels.
        held_out, left : arrays of shape (m, n c)
            Hold-out predictions of labels, and hold-out residuals of ones; the latter are
            overwritten.
        """
        xp = namespace(share)
        n, c = constant.inverse.shape
        m = columns.shape[0]
        scale = (share * constant.inverse)[:, :, None]
        left *= xp.reshape(share * constant.sign, (n * c,))
        residuals, fitted, residuals_of_ones = (
            xp.permute_dims(xp.reshape(grid, (m, n, c)), (1, 0, 2))
            for grid in (constant.residuals, held_out, left)
        )
        labels = ((residuals * columns) @ scale)[:, :, 0]
        residual_labels = labels - ((residuals * fitted) @ scale)[:, :, 0]
        ones = (residuals @ (share[:, None] * scale))[:, :, 0]
        residual_ones = ((residuals * residuals_of_ones) @ scale)[:, :, 0]
        whole = xp.sum(ones, axis=1, keepdims=True)
        self.labels[here, :] += (
            xp.sum(labels, axis=1, keepdims=True) - summed(residual_labels.T, self.members).T
        )
        self.weights[here, :] += whole - summed(residual_ones.T, self.members).T
        self.whole[here, :] += whole
        return left

    def value(self, Y: Array, what: str) -> Array:
        """Return the mean, shape (n, m); `what` names the left-out units in messages."""
        return mean_of_others(self.labels, self.weights, self.whole, Y, what)


def mean_of_others(labels: Array, ones: Array, whole: Array | float, Y: Array, what: str) -> Array:
    """Return the unpenalised mean of the training labels.

    Parameters
    ----------
    labels, ones : arrays of one shape
        Sum over the training labels, and their weight.
    whole : float or array that broadcasts with them
        Weight of all labels, of whose rounding the weight of the training labels must be larger.
    Y : array of shape (m, q)
        All labels.
    what : {"rows", "cells", "pairs"}
        Name of the left-out units, for the message.

    Raises
    ------
    LeverageError
        If the training labels do not determine the mean.
    """
    check_cells(ones - 16.0 * epsilon(Y) * (Y.shape[0] * Y.shape[1]) ** 0.5 * whole, 0.0, what)
    return labels / ones


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
    >>> from dyadlearn.pairing.constant import without_each
    >>> values, vectors, cross = without_each(*np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 3.0]])), slice(0, 2))
    >>> values.round(6).tolist(), np.abs(cross).round(6).tolist()
    ([[3.0], [2.0]], [[1.0], [1.0]])
    """
    xp = namespace(values)
    dtype = values.dtype
    q = values.shape[0]
    order = xp.argsort(values)
    poles = cast(xp.take(values, order), xp.float64)
    size = poles[-1]
    poles = poles / xp.where(size > 0, size, 1.0)
    basis = cast(xp.take(vectors, order, axis=1), xp.float64)
    share = basis[rows, :]
    precision = float(xp.finfo(xp.float64).eps)
    squares = xp.clip(share * share, precision**2, 1.0)
    # Equal poles are separated by less than rounding.
    index = xp.arange(q, device=values.device)
    place = xp.astype(index, xp.float64) * precision**2
    between = (poles[:, None] - poles[None, :]) + (place[:, None] - place[None, :])
    to_left = between[:, :-1]
    to_right = between[:, 1:]
    half = 0.5 * xp.linalg.diagonal(between[1:, :-1])
    # f grows from −∞ to ∞ between two poles: its sign in the middle determines the nearer pole.
    is_left = squares @ (1.0 / (to_left - half)) > 0
    from_pole = xp.where(is_left[:, None, :], to_left, to_right)
    direction = xp.where(is_left, xp.ones_like(half), -xp.ones_like(half))

    def is_nearer(distance: Array) -> Array:
        """Return a mask of the roots that are nearer to their pole than some distance."""
        return (
            xp.sum(squares[:, :, None] / (from_pole - (direction * distance)[:, None, :]), axis=1)
            > 0
        ) == is_left

    power = xp.zeros_like(direction)
    for bit in reversed(range(_POWERS)):
        further = power + 2.0**bit
        power = xp.where(is_nearer(half * 2.0**-further), further, power)
    least = half * 2.0 ** -(power + 1.0)
    fraction = xp.zeros_like(least)
    for digit in range(1, _DIGITS):
        further = fraction + 0.5**digit
        fraction = xp.where(is_nearer(least * (1.0 + further)), fraction, further)
    distance = direction * least * (1.0 + fraction)
    beyond = from_pole - distance[:, None, :]
    roots = xp.where(is_left, poles[:-1], poles[1:]) + distance
    # Each factor of the numerator is divided by a larger one of the denominator.
    below = index[None, :-1] < index[:, None]
    ratios = xp.abs(beyond) / xp.abs(xp.where(below, to_left, to_right))
    exact = xp.prod(ratios, axis=2) ** 0.5
    del ratios
    exact = xp.where(share < 0, -exact, exact)
    solutions = exact[:, :, None] / beyond
    del beyond
    cross = 1.0 / xp.sum(solutions * solutions, axis=1) ** 0.5
    solutions *= cross[:, None, :]
    solutions = basis @ solutions
    is_out = index[rows][:, None] == index[None, :]
    solutions = xp.where(is_out[:, :, None], 0.0, solutions)
    return cast(size * roots, dtype), cast(solutions, dtype), cast(size * cross, dtype)
