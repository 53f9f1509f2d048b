"""How a model predicts, written out step by step, for those who compute it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dyadlearn._array import Array, matmul
from dyadlearn.pairing.expansion import Expansion

__all__ = ["Formula", "RowSteps"]


@dataclass(frozen=True, eq=False)
class RowSteps:
    """What becomes of rows of a side before they multiply the coefficients, in this order.

    Attributes
    ----------
    widths : mapping of str to int
        How many columns each description of the side has; a single table has the name "".
    feature_map : transformer or None
        What makes features of rows.
    centres : tuple of arrays of shape (d,)
        What is subtracted from features, one after the other.
    kernel : str, callable or None
        The kernel with the rows of training; None takes features as they are.
    params : mapping or None
        Its parameters.
    features : array or sparse matrix of shape (n, d) or None
        The rows of training, centred; None without a kernel, and where this was computed beforehand.
    kernel_means : array of shape (n,) or None
        What is subtracted from kernel rows; then the mean of what is left is.
    has_constant : bool
        Whether a one comes at the end.
    """

    widths: Mapping[str, int]
    feature_map: Any = None
    centres: tuple[Array, ...] = ()
    kernel: Any = None
    params: Mapping[str, Any] | None = None
    features: Array | None = None
    kernel_means: Array | None = None
    has_constant: bool = False


@dataclass(frozen=True, eq=False)
class Formula:
    """How a model predicts.

    Attributes
    ----------
    expansion : Expansion
        The coefficients, with how what becomes of rows multiplies them.
    instances : RowSteps
    tasks : RowSteps or None
        None for a model that knows nothing of tasks but their labels.
    known_tasks : array of shape (q, r) or None
        The rows of the tasks of training as they multiply the coefficients, where `expansion` does not know them.
    """

    expansion: Expansion
    instances: RowSteps
    tasks: RowSteps | None
    known_tasks: Array | None = None

    @property
    def factors(self) -> tuple[Array, Array | None]:
        """What rows of instances, and of any tasks, are multiplied by; see `Expansion.factors`."""
        return self.expansion.shared.factors

    @property
    def training_factor(self) -> tuple[Array, float]:
        """What rows of instances are multiplied by for the tasks of training, and what is added."""
        if self.known_tasks is None:
            return self.expansion.training_factor
        return matmul(self.expansion.values, self.known_tasks.T), 0.0
