"""One fitted side of a model: its kernel, its spectrum, its ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dyadlearn._array import Array, is_sparse, itemsize, namespace
from dyadlearn._frames import Ids
from dyadlearn._validation import check_matrix, check_memory
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.gram import check_kernel, gram
from dyadlearn.spectrum import Spectrum

__all__ = ["KernelSpec", "Side", "check_fit_memory", "check_rows", "fit_side", "runs_in_primal"]


@dataclass(frozen=True)
class KernelSpec:
    """Which kernel a side uses, as the user gave it."""

    kernel: str | Callable[..., Any]
    params: Mapping[str, Any] | None
    repair: str

    @property
    def is_precomputed(self) -> bool:
        """Whether the user hands in Gram matrices."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"


@dataclass(frozen=True, eq=False)
class Side:
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

    @property
    def is_primal(self) -> bool:
        """Whether coefficients are those of features."""
        return self.spectrum.components is not None

    def block(self, rows: Array) -> Array:
        """Return what multiplies the coefficients: kernel rows, or in the primal the features."""
        if self.spec.is_precomputed or self.is_primal:
            return rows
        return gram(rows, self.features, kernel=self.spec.kernel, params=self.spec.params)


def runs_in_primal(rows: Array, spec: KernelSpec) -> bool:
    """Tell whether a side is solved by features: a linear kernel with fewer features than rows."""
    return isinstance(spec.kernel, str) and spec.kernel == "linear" and rows.shape[1] < rows.shape[0]


def check_rows(rows: Any, spec: KernelSpec, name: str) -> Array:
    """Return the rows of a side as a finite matrix; features may be sparse."""
    return check_matrix(rows, name, accept_sparse=not spec.is_precomputed)


def check_fit_memory(labels: Array, *sides: tuple[Array | None, KernelSpec, str]) -> None:
    """Refuse a fit that cannot fit in memory, before anything is computed.

    Parameters
    ----------
    labels : array of shape (m, q)
    *sides : (rows, spec, name)
        Rows are None for a side that is not there.
    """
    m, q = labels.shape
    check_memory(6 * m * q * itemsize(labels), labels, f"Fitting a grid of {m} × {q}")
    for rows, spec, name in sides:
        if rows is None:
            continue
        n, d = rows.shape
        if not runs_in_primal(rows, spec):
            # The Gram matrix (if it is not given), its eigenvectors and the solver's workspace of two more.
            need, what = (3 if spec.is_precomputed else 4) * n * n, f"the {n} × {n} {name} kernel"
        elif is_sparse(rows):
            need, what = 4 * d * d, f"the {d} × {d} matrix of sparse {name} features"
        else:
            need, what = 4 * n * d, f"{n} × {d} {name} features"
        check_memory(need * itemsize(labels), labels, f"Decomposing {what}")


def fit_side(rows: Array, spec: KernelSpec, ids: Ids | None, names: Ids | None, name: str) -> Side:
    """Decompose one side.

    Parameters
    ----------
    rows : array or sparse matrix of shape (n, d), or a Gram matrix of shape (n, n)
    spec : KernelSpec
    ids, names : Ids or None
        Of rows and columns.
    name : str
        "instance" or "task", for messages.
    """
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
    kept = rows.copy() if is_sparse(rows) else namespace(rows).asarray(rows, copy=True)
    return Side(spec, _decomposed(kernel, spec, name), ids, names, kept, d)


def _decomposed(kernel: Array, spec: KernelSpec, name: str) -> Spectrum:
    return Spectrum.from_gram(kernel, repair=spec.repair, name=f"The {name} kernel")
