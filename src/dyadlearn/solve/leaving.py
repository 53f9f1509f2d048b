r"""Hold-out of labels from the inverse of a regularised system.

Let :math:`\mathbf{N}` be the inverse of the system of the observed labels, minus its unpenalised part
(`inverse_with_border`). The predictions for the labels S by the model trained without them are

.. math:: \hat{\mathbf{y}}_S = \mathbf{y}_S - \mathbf{N}_{SS}^{-1}(\mathbf{N}\mathbf{y})_S
          = -\mathbf{N}_{SS}^{-1}\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S} .

The scale of :math:`\mathbf{N}` does not matter, and a residual operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}` is
one such :math:`\mathbf{N}`. With :math:`\mathbf{B}` the smaller of :math:`\mathbf{R}` (:math:`\delta = 0`) and
:math:`\mathbf{H}` (:math:`\delta = 1`), which carries the digits, both read

.. math:: \hat{\mathbf{y}}_S = (\mathbf{B}_{SS} - \delta\mathbf{I})^{-1}
          \left[\mathbf{B}_{SS}\mathbf{y}_S - (\mathbf{B}\mathbf{y})_S\right] .
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, solve, take_block, take_rows, with_diagonal


def leave_units_out(inverse: Array, labels: Array, units: np.ndarray | None = None) -> Array:
    """Return the hold-out predictions of labels, by the models trained without their unit.

    The sum over the other labels is computed directly, so that small predictions are accurate too.

    Parameters
    ----------
    inverse : array of shape (n, n)
        The matrix N.
    labels : array of shape (n, p)
    units : integer array of shape (n,), default=None
        Unit of each label; None means leave-one-out.

    Returns
    -------
    array of shape (n, p)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.solve.leaving import leave_units_out
    >>> inverse = np.linalg.inv(np.array([[3.0, 1.0], [1.0, 3.0]]))  # a kernel of 2 and 1, a ridge of 1
    >>> leave_units_out(inverse, np.array([[3.0], [6.0]]))
    array([[2.],
           [1.]])
    """
    xp = namespace(inverse)
    if units is None:
        own = xp.asarray(xp.linalg.diagonal(inverse), copy=True)
        return -(with_diagonal(inverse, 0.0) @ labels) / own[:, None]
    together = as_array_of(units[:, None] == units[None, :], inverse)
    right = xp.where(together, xp.zeros_like(inverse), inverse) @ labels
    flat, pieces, places = xp.reshape(inverse, (-1,)), [], []
    for members in members_of_one_size(units):
        cells = members[:, :, None] * units.size + members[:, None, :]
        blocks = xp.reshape(take_rows(flat, cells.reshape(-1)), cells.shape)
        own = xp.reshape(take_rows(right, members.reshape(-1)), (*members.shape, -1))
        pieces.append(xp.reshape(-solve(blocks, own), (members.size, -1)))
        places.append(members.reshape(-1))
    return take_rows(xp.concat(pieces), np.argsort(np.concatenate(places)))


def leave_set_out(inverse: Array, labels: Array, left_out: np.ndarray) -> Array:
    """Return the predictions (s, p) for the labels at positions (s,) by the model trained without them."""
    others = np.delete(np.arange(labels.shape[0]), left_out)
    right = take_block(inverse, left_out, others) @ take_rows(labels, others)
    return -solve(take_block(inverse, left_out, left_out), right)


def members_of_one_size(units: np.ndarray) -> list[np.ndarray]:
    """Return positions of the members of all units, as one array (number, size) for each unit size."""
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=units[order[0]] - 1))
    sizes = np.diff(np.append(starts, units.size))
    return [order[starts[sizes == size][:, None] + np.arange(size)[None, :]] for size in np.unique(sizes).tolist()]


def inverse_with_border(inverse: Array, border: Array | None = None, penalties: Array | None = None) -> Array:
    r"""Return the inner block (n, n) of the inverse of a bordered system, from the inverse without the border.

    .. math:: \mathbf{Q} - \mathbf{Q}\boldsymbol\Phi\left(\mathrm{diag}(\mathbf{d}) +
              \boldsymbol\Phi^\top\mathbf{Q}\boldsymbol\Phi\right)^{-1}\boldsymbol\Phi^\top\mathbf{Q}

    Parameters
    ----------
    inverse : array of shape (n, n)
        The inverse Q without the border.
    border : array of shape (n, r), default=None
        Directions Φ of the border; None is a column of ones.
    penalties : array of shape (r,), default=None
        Penalty d of each direction; None means unpenalised.
    """
    xp = namespace(inverse)
    border = xp.ones_like(inverse[:, :1]) if border is None else border
    along = inverse @ border
    system = border.T @ along
    if penalties is not None:
        system = with_diagonal(system, xp.linalg.diagonal(system) + penalties)
    return inverse - along @ xp.linalg.solve(system, along.T)
