"""One fitted side of a model: its kernel, its spectrum, its ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dyadlearn._array import Array, copied, is_sparse, take_block, take_rows
from dyadlearn._checks import check_matrix
from dyadlearn._estimates import SideSize
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.gram import check_kernel, gram
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.spectrum import Spectrum

__all__ = ["KernelSpec", "Side", "check_rows", "fit_side", "runs_in_primal", "side_size"]


@dataclass(frozen=True)
class KernelSpec(Stored):
    """Which kernel a side uses, as the user gave it."""

    kernel: str | Callable[..., Any]
    params: Mapping[str, Any] | None
    repair: str

    @property
    def is_precomputed(self) -> bool:
        """Whether the user hands in Gram matrices."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def take(self, values: Array, rows: Array, training: Array) -> Array:
        """Return some rows of a side, features or kernel; of a kernel only their values with those of training."""
        return take_block(values, rows, training) if self.is_precomputed else take_rows(values, rows)

    def _fits(self) -> bool:
        return self.is_precomputed or check_kernel(self.kernel, self.params) is not None


@dataclass(frozen=True, eq=False)
class Side(Stored):
    """A decomposed side and what it takes to predict for new rows of it.

    Attributes
    ----------
    spec : KernelSpec
    spectrum : Spectrum
    ids : Ids or None
    names : Ids or None
        What the columns were called.
    features : array of shape (n, d) or None
        Training rows, kept where a kernel function needs them.
    n_columns : int
        What a new row must have: d features, or n kernel values.
    """

    spec: KernelSpec
    spectrum: Spectrum
    ids: Ids | None
    names: Ids | None
    features: Array | None
    n_columns: int

    _shapes: ClassVar[Mapping[str, str]] = {
        "ids": "spectrum.n_rows",
        "names": "n_columns",
        "features": "sparse spectrum.n_rows n_columns",
    }

    def _fits(self) -> bool:
        n, d, own = self.spectrum.n_rows, self.n_columns, self.spectrum.components
        if self.spec.is_precomputed:
            return n == d and own is None and self.features is None
        return (own is None) != (self.features is None) and (own is None or own.shape[0] == d)

    @property
    def is_primal(self) -> bool:
        """Whether coefficients are those of features."""
        return self.spectrum.components is not None

    def new_rows(self, rows: Array) -> NewRows:
        """Return rows to predict for: kernel rows and, in the primal, features multiply coefficients as they are."""
        if self.spec.is_precomputed or self.is_primal:
            return NewRows(rows, lambda part: part, 0)
        return NewRows(rows, self._kernel_rows, self.spectrum.n_rows)

    def _kernel_rows(self, rows: Array) -> Array:
        return gram(rows, self.features, kernel=self.spec.kernel, params=self.spec.params)


def runs_in_primal(rows: Array, spec: KernelSpec) -> bool:
    """Tell whether a side is solved by features: a linear kernel with fewer features than rows."""
    return isinstance(spec.kernel, str) and spec.kernel == "linear" and rows.shape[1] < rows.shape[0]


def check_rows(rows: Any, spec: KernelSpec, name: str) -> Array:
    """Return the rows of a side as a finite matrix; features may be sparse."""
    return check_matrix(rows, name, accept_sparse=not spec.is_precomputed)


def side_size(rows: Array, spec: KernelSpec) -> SideSize:
    """Return how large the side of some rows is, and so what it takes to decompose it."""
    n, d = rows.shape
    if runs_in_primal(rows, spec):
        return SideSize(n, d, d, "sparse" if is_sparse(rows) else "features")
    return SideSize(n, n, d, "gram" if spec.is_precomputed else "kernel")


def fit_side(table: Table, spec: KernelSpec, name: str) -> Side:
    """Decompose one side.

    Parameters
    ----------
    table : Table
        Features, an array or sparse matrix of shape (n, d), or a Gram matrix of shape (n, n).
    spec : KernelSpec
    name : str
        "instance" or "task", for messages.
    """
    rows, ids, names = table.values, table.row_ids, table.column_ids
    n, d = rows.shape
    if spec.is_precomputed:
        if n != d:
            raise KernelError(
                f"The precomputed {name} kernel must be a square matrix, found shape ({n}, {d}). For features, choose "
                'another kernel than "precomputed"; for tasks cut by scikit-learn, hand them in a Tasks holder.'
            )
        return Side(spec, _decomposed(rows, spec, name), ids, names, None, d)
    check_kernel(spec.kernel, spec.params)
    if runs_in_primal(rows, spec):
        # Dense features are decomposed and let go; sparse ones are kept.
        kept = rows.copy() if is_sparse(rows) else rows
        return Side(spec, Spectrum.from_features(kept, name=f"The {name} features"), ids, names, None, d)
    kernel = gram(rows, kernel=spec.kernel, params=spec.params)
    # Predictions must not change when the caller's array does.
    return Side(spec, _decomposed(kernel, spec, name), ids, names, copied(rows), d)


def _decomposed(kernel: Array, spec: KernelSpec, name: str) -> Spectrum:
    return Spectrum.from_gram(kernel, repair=spec.repair, name=f"The {name} kernel")
