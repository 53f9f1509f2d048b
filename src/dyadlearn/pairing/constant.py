r"""Unpenalised grand mean of a pairwise kernel, of all labels and of those that are not left out.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dyadlearn._array import Array, epsilon, largest, namespace, zeros
from dyadlearn._rounding import ratio, rounding_level
from dyadlearn.leverage import check_cells
from dyadlearn.solve.leaving import Members, summed
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich


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
class GrandMean:
    r"""Unpenalised grand mean of a grid of labels, from :math:`\mathbf{E} = \mathbf{C}^{-1}\mathbf{1}`.

    Attributes
    ----------
    spectra : (Spectrum, Spectrum)
    rotated : array of shape (k, l)
        E in the rotated labels, up to its scale where λ = 0.
    total : float
        Sum :math:`\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}` of E, the precision of the mean.
    factor : float
        Factor of :math:`\mathbf{EE}^\top` over the total that is subtracted from the residual
        operator, and added to the hat matrix unless λ = 0 at full rank.
    """

    spectra: tuple[Spectrum, Spectrum]
    rotated: Array
    total: float
    factor: float

    @cached_property
    def grid(self) -> Array:
        """The grid E of shape (m, q)."""
        rows, columns = self.spectra
        return sandwich(rows.vectors, self.rotated, columns.vectors)

    def of(self, Y: Array) -> float:
        """Return the mean of labels (m, q)."""
        return float(namespace(Y).sum(Y * self.grid)) / self.total

    def of_rotated(self, rotated: Array) -> float:
        """Return the mean of labels that are rotated, shape (k, l)."""
        return float(namespace(rotated).sum(self.rotated * rotated)) / self.total

    def of_other_cells(self, Y: Array, held_out: Array, left: Array) -> Array:
        """Return the mean (m, q) of all labels but one, for each label that is left out.

        Parameters
        ----------
        Y : array of shape (m, q)
            Labels.
        held_out : array of shape (m, q)
            Predictions for each label from the others, without the mean.
        left : array of shape (m, q)
            What these predictions leave of a grid of ones.
        """
        labels = self.of(Y) * self.total - self.grid * (Y - held_out)
        return mean_of_others(labels, self.total - self.grid * left, self.total, Y, "cells")


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


def rounding_of_centred(Y: Array) -> Array:
    """Return the rounding error of predictions that are zero, for labels from which a mean was subtracted and added.

    Predictions from training labels that are all zero must be exactly zero, so that they tie.
    """
    return rounding_level(namespace(Y).reshape(Y, (-1, 1)), 1.0, n_terms=sum(Y.shape))


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
