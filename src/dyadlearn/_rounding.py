"""Effects of rounding: differences that should be zero, and small systems that are numerically singular."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from dyadlearn._array import Array, epsilon, namespace, solve
from dyadlearn._checks import caller_level
from dyadlearn.exceptions import PrecisionWarning

# The error of a sum of n products is about ε√n/2 times the largest product; the margin is eight
# times as large.
_MARGIN = 4.0


def rounding_level(labels: Array, top: Array | float, n_terms: int | None = None) -> Array:
    r"""Return an upper bound of the rounding error of a difference that is zero, for each column of labels.

    The operator :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top` has no entry above
    :math:`\max|w|`, so that its product with a column y, and the subtracted values, have errors of
    a few
    :math:`\varepsilon\sqrt n\,\max|w|\,\max|y|`.

    Parameters
    ----------
    labels : array of shape (n, p)
    top : float or array of shape (p,)
        The largest weight.
    n_terms : int, default=None
        Number of terms of the sums; None is n.

    Returns
    -------
    array of shape (p,)
    """
    xp = namespace(labels)
    if labels.shape[0] == 0:
        return xp.zeros_like(xp.sum(labels, axis=0))
    highest = xp.max(labels, axis=0)
    lowest = -xp.min(labels, axis=0)
    size = xp.where(
        highest > lowest, highest, lowest
    )  # no copy of all labels, nor squares that could overflow
    return (_MARGIN * epsilon(labels) * math.sqrt(n_terms or labels.shape[0])) * size * top


def settle(difference: Array, level: Array) -> Array:
    """Set entries of a difference that are only rounding to exactly zero, in place, and return the difference.

    Predictions that are zero when a model is fitted again are then exactly zero, so that they tie.
    Entries above the level are not changed.

    Parameters
    ----------
    difference : array of shape (n, p)
    level : array of shape (p,), or one that broadcasts with the difference
    """
    difference[namespace(difference).abs(difference) <= level] = 0.0
    return difference


def settled_difference(
    labels: Array,
    weights: Array | None,
    product: Array,
    level: Array,
    over: Array | None = None,
    *,
    sign: int = 1,
) -> Array:
    r"""Return :math:`\pm(\mathbf{w}\circ\mathbf{Y} - \mathbf{P})/\mathbf{e}`, settled, in place of the product P.

    Parameters
    ----------
    labels, product : arrays of shape (n, p)
        Y and P.
    weights : array that broadcasts with them, or None
        w; None is one.
    level : as in `settle`
    over : array that broadcasts with them, or None
        e; None is one.
    sign : {1, -1}

    Returns
    -------
    array of shape (n, p)
    """
    product -= labels if weights is None else weights * labels
    product *= -sign
    settle(product, level)
    if over is not None:
        product /= over
    return product


def ratio(top: Array | float, bottom: Array) -> Array:
    """Return quotients, zero where the divisor is not positive."""
    xp = namespace(bottom)
    positive = bottom > 0
    return xp.where(positive, top / xp.where(positive, bottom, 1.0), 0.0)


def check_ridge(name: str, ridge: float, size: float, like: Array) -> None:
    """Raise if a ridge is smaller than the rounding errors of the eigenvalues.

    Parameters
    ----------
    name : str
        Name of the ridge in messages.
    ridge : float
    size : float
        The largest eigenvalue.
    like : array
        Array of the precision of the eigenvalues.
    """
    finfo = namespace(like).finfo(like.dtype)
    visible = size * float(finfo.smallest_normal) / float(finfo.eps)
    if 0 < ridge < visible:
        raise ValueError(
            f"{name} = {ridge:g} vanishes beside eigenvalues of up to {size:.3g}: use 0, or at "
            f"least {visible:.1g}."
        )


# Largest relative error of predictions without a warning.
_NOTICEABLE = 1e-3


def is_noticeable(error: float) -> bool:
    """Return whether rounding changes predictions by more than a thousandth of the labels."""
    return error > _NOTICEABLE


def warn_of_rounding(error: float, what: str = "predictions", *, name: str = "alpha") -> None:
    """Warn, at the line that called the package, if rounding changes predictions by more than a thousandth of labels.

    Parameters
    ----------
    error : float
        Estimated error of a prediction, relative to the largest label.
    what : str
        What the error is of, in the message.
    name : str
        Name of the regularisation.
    """
    if is_noticeable(error):
        digits = max(0, math.floor(-math.log10(min(error, 1.0))))
        warnings.warn(
            f"{name} is so small, or weights differ so much, that rounding leaves {digits} "
            f"accurate digits of the {what}: use a larger {name.removeprefix('The ')}, or weights "
            f"that differ less.",
            PrecisionWarning,
            stacklevel=caller_level(),
        )


def is_graded(remainders: Array, n_rows: int, truncated: bool) -> bool:
    r"""Return whether residual filters (k, p) span more than the precision resolves.

    The smallest value is then lost in the entries of a block
    :math:`\mathbf{U}_I\,\mathrm{diag}(1-f)\,\mathbf{U}_I^\top`, which may be singular. The largest value is 1 if a
    truncated spectrum omits a null space.
    """
    xp = namespace(remainders)
    if 0 in remainders.shape:
        return False
    if truncated:
        top = xp.ones_like(remainders[0, :])
    else:
        top = xp.max(remainders, axis=0)
    return bool(xp.any(xp.min(remainders, axis=0) <= n_rows * epsilon(remainders) * top))


def digits_left(like: Array) -> float:
    """Return the factor by which eigenvalues must exceed their rounding error if some remainders are zero."""
    return min(1e7, 1.0 / math.sqrt(epsilon(like)))


def solve_block(
    block: Array,
    right: Array,
    floor: float,
    graded: bool,
    refusal: Callable[[], Exception],
    *,
    error: float = 0.0,
) -> Array:
    r"""Solve systems of blocks of a residual operator; raise if a block is numerically singular.

    The entries of a block are rounded, so that the error of its eigenvalues is :math:`\varepsilon`
    times the largest. If some remainders are zero, the smallest eigenvalue must have six accurate
    digits (half of all digits in single precision) and exceed the `floor` of slacks; otherwise one
    digit is enough.

    Parameters
    ----------
    block : array of shape (…, n, n)
        Positive or, all of them, negative semidefinite.
    right : array of shape (…, n, p)
    floor : float
        Lower bound of the slack 1 − h; 0 if every direction is penalised.
    graded : bool
        Whether a block may be singular, see `is_graded`; False skips the check.
    refusal : callable
        Function that returns the error to raise if a block is singular.
    error : float, default=0.0
        Absolute error of the eigenvalues, for a block that is the difference of an identity and a
        hat matrix.

    Returns
    -------
    array of shape (…, n, p)
    """
    xp = namespace(block)
    if graded:
        values = xp.abs(xp.linalg.eigvalsh(block))
        digits = digits_left(block) if floor else 1e1
        rounding = digits * block.shape[-1] * epsilon(block) * xp.max(values, axis=-1)
        least = xp.min(values, axis=-1)
        if bool(xp.any((least <= max(floor, error)) | (least <= rounding))):
            raise refusal()
    if block.shape[-1] == 1 and bool(xp.all(block != 0)):
        return right / block
    try:
        return solve(block, right)
    except np.linalg.LinAlgError:
        raise refusal() from None
