"""One fitted side of a model: its kernel, its spectrum, its ids."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import (
    Array,
    copied,
    dense,
    double,
    epsilon,
    is_sparse,
    largest,
    namespace,
    row_major,
    take_block,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._checks import check_matrix
from dyadlearn._means import framed, means_of, with_ones
from dyadlearn._memory import SideSize
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import KernelError, KernelRepairWarning, PrecisionWarning
from dyadlearn.kernels.gram import (
    check_kernel,
    common_diagonal,
    fitted_params,
    gram,
    gram_diagonal,
    takes_missing,
)
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.kernels.similarity import Similarity
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.spectrum import Eigenvalues, Spectrum

# Largest relative error of predictions without a warning.
_NOTICEABLE = 1e-3
# Difference of eigenvalues, relative to the largest one, that rounding may cause in another library.
_SAME_VALUES = 1e-6


@dataclass(frozen=True)
class KernelSpec(Stored):
    """Kernel of one side, as the user specified it, with the requirements of the model.

    Attributes
    ----------
    kernel, params, repair
        Parameters of the estimator: kernel, kernel parameters and repair.
    constant : {"free", "feature"} or None
        Type of the constant term of the side, see `dyadlearn.spectrum`.
    level : float
        Constant that is added to the kernel, if the constant term is a feature; 0 needs `dual`.
    dual : bool
        Whether the model needs all n directions of the side, including the null space of its
        features.
    """

    kernel: str | Callable[..., Any]
    params: Mapping[str, Any] | None
    repair: str
    constant: str | None = None
    dual: bool = False
    level: float = 1.0

    @property
    def is_precomputed(self) -> bool:
        """Whether the user passes Gram matrices."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is the linear kernel of the features."""
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def may_be_nan(self, allow_nan: bool) -> bool:
        """Return whether rows may hold NaN: features, if `allow_nan` is True or the kernel takes them."""
        return takes_missing(self.kernel) or (allow_nan and not self.is_precomputed)

    def take(self, values: Array, rows: Array, training: Array) -> Array:
        """Return some rows of a side: features, or kernel values with the training rows only."""
        if self.is_precomputed:
            return take_block(values, rows, training)
        return take_rows(values, rows)

    def _fits(self) -> bool:
        return self.is_precomputed or check_kernel(self.kernel, self.params) is not None


@dataclass(frozen=True, eq=False)
class Side(Stored):
    """Decomposed side, with the data needed to predict for new rows.

    Attributes
    ----------
    spec : KernelSpec
    spectrum : Spectrum
    ids : Ids or None
    names : Ids or None
        Column names.
    features : array of shape (n, d) or None
        Training rows, stored only if a kernel function needs them for predictions.
    n_columns : int
        Number of columns of a new row: d features, or n kernel values.
    feature_means : array of shape (d,) or None
        Means that are subtracted from the features of a side with a free constant. Centring the
        features avoids the rounding errors of centring a kernel with large entries. Sparse features
        are not centred.
    directions : array of shape (d, k) or None
        Orthonormal basis of the span of the training rows; only for a linear kernel of dense
        features with d ≥ n. Each row is represented by its coordinates in this basis and by its
        distance from the span. Coefficients belong to these coordinates instead of to the features.
    kernel_means : array of shape (n,) or None
        Means that are subtracted from kernel rows of a side with a free constant, for kernels that
        are not linear.
    offset : array of shape (d,) or None
        Means of the features in units of their spread, for a side with a constant feature whose
        means are so large that predictions for rows far from them lose digits; else None.
    spread : float
        Root mean square distance of the training rows from their mean, if there is an `offset`.
    """

    spec: KernelSpec
    spectrum: Spectrum
    ids: Ids | None
    names: Ids | None
    features: Array | None
    n_columns: int
    feature_means: Array | None = None
    kernel_means: Array | None = None
    directions: Array | None = None
    offset: Array | None = None
    spread: float = 1.0

    _shapes: ClassVar[Mapping[str, str]] = {
        "ids": "spectrum.n_rows",
        "names": "n_columns",
        "features": "sparse spectrum.n_rows n_columns",
        "feature_means": "n_columns",
        "kernel_means": "spectrum.n_rows",
        "directions": "n_columns k",
        "offset": "n_columns",
    }

    def state(self) -> dict[str, Any]:
        """Return the fields; a learned kernel leaves out what it can compute again.

        These are the eigenvectors, and the places of the training rows in its table.
        """
        state = super().state()
        kernel = self.spec.kernel
        if not isinstance(kernel, LearnedKernel) or self.features is None:
            return state
        parts = kernel.training_parts(self.features)
        state["features"] = self.features if parts is None else parts
        state["spectrum"] = self.spectrum.eigenvalues
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the side of a state; eigenvectors that were left out are computed when they are needed."""
        fields = dict(state)
        spec = fields["spec"]
        if isinstance(fields["features"], list):
            fields["features"] = spec.kernel.training_table(fields["features"])
        values = fields["spectrum"]
        if isinstance(values, Eigenvalues):
            fields["spectrum"] = values.spectrum(_Eigenvectors(spec, fields["features"], values))
        return super().from_state(fields, where)

    def _fits(self) -> bool:
        n = self.spectrum.n_rows
        d = self.n_columns
        components = self.spectrum.components
        if self.spec.constant != self.spectrum.constant or self.spec.level != self.spectrum.level:
            return False
        if not 0 < self.spread < math.inf:
            return False
        if self._needs_kernel and self.features is not None:
            self._try_kernel()
        if self.spec.is_precomputed:
            return n == d and components is None and self.features is None
        if self.directions is not None:
            d = self.directions.shape[1] + 1
        d += self.spec.constant is not None
        return (components is None) != (self.features is None) and (
            components is None or components.shape[0] == d
        )

    def _try_kernel(self) -> None:
        """Raise if the parameters of the kernel are wrong; the fit has told the warnings about features."""
        features = double(self.features)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            params = fitted_params(self.spec.kernel, self.spec.params, features)
            gram(features[:1], kernel=self.spec.kernel, kernel_params=params)

    @property
    def is_primal(self) -> bool:
        """Whether coefficients belong to features (primal) and not to training rows (dual)."""
        return self.spectrum.components is not None

    def similarity(self) -> Similarity:
        """Return the normalised kernel between the training rows, without a constant."""
        rows = self._original_rows()
        if rows is not None:
            return Similarity.of_table(rows, self.spec.kernel, self.spec.params)
        diagonal = to_numpy(self._uncentred_diagonal())
        return Similarity(self.spectrum.n_rows, self._uncentred_rows, diagonal)

    def _original_rows(self) -> Array | None:
        """Return the features of the training rows if they are stored; else None."""
        if not self._needs_kernel:
            features = self.spectrum.sparse_features
            # A constant may be their last column.
            if features is None:
                return None
            return features[:, : self.n_columns]
        if self.spec.is_linear and self.feature_means is not None:
            return self.features + self.feature_means
        return self.features

    def _uncentred_rows(self, places: np.ndarray) -> Array:
        """Return rows (b, n) of the decomposed kernel between training rows, not centred and without a constant."""
        spectrum = self.spectrum
        rows = (take_rows(spectrum.vectors, places) * spectrum.values) @ spectrum.vectors.T
        if self.spec.constant == "feature":
            return rows - spectrum.level
        means, common = self._centring
        if means is None:
            return rows
        return rows + take_rows(means, places)[:, None] + means + common

    def _uncentred_diagonal(self) -> Array:
        """Return the diagonal (n,) of this kernel."""
        diagonal = self.spectrum.diagonal(self.spectrum.values)
        if self.spec.constant == "feature":
            return diagonal - self.spectrum.level
        means, common = self._centring
        if means is None:
            return diagonal
        return diagonal + 2 * means + common

    @property
    def _centring(self) -> tuple[Array | None, Any]:
        """Means (n,) and a number that were subtracted from the kernel: None and 0 if it is not centred."""
        means = self.kernel_means
        if means is not None:
            return means, -namespace(means).mean(means)
        if self.feature_means is not None:
            return self._along_means(self.feature_means), self.feature_means @ self.feature_means
        return None, 0.0

    def _along_means(self, means: Array) -> Array:
        """Return the products (n,) of the centred features of the training rows with their means (d,)."""
        directions = self.directions
        if directions is None:
            assert self.spectrum.components is not None  # features in the primal
            directions = self.spectrum.components[: self.n_columns, :]
        k = directions.shape[1]
        scaled = self.spectrum.vectors[:, :k] * self.spectrum.values[:k] ** 0.5
        return scaled @ (directions.T @ means)

    def new_rows(self, rows: Array) -> NewRows:
        """Return new rows, features or kernel values, in the form that multiplies the coefficients."""
        self._check_distance(rows)
        # The kernel of a new row with itself is known if it can be computed or is the same for all
        # rows.
        has_prior = not self.is_primal and (self._needs_kernel or self._common_diagonal is not None)
        prior = self.prior if has_prior else None
        if self._needs_kernel or self.spec.constant or self.directions is not None:
            is_thin = is_sparse(rows) and not self._needs_kernel and self.feature_means is None
            return NewRows(
                rows, self._made_of, 0 if is_thin else self.spectrum.n_coefficients, prior
            )
        is_copied = not is_sparse(rows) and double(rows[:0, :]).dtype != rows.dtype
        return NewRows(rows, double, int(rows.shape[1]) if is_copied else 0, prior)

    def _check_distance(self, rows: Array) -> None:
        """Warn if new rows are so far from the training rows that rounding changes their predictions.

        The constant feature cannot be told from a feature that is large and the same for all
        training rows. For a row at the distance t from the mean m, predictions have an error of
        about ε|mᵀt| in units of the spread.
        """
        if self.offset is None:
            return
        xp = namespace(self.offset)
        along = (double(rows) / self.spread) @ self.offset - self.offset @ self.offset
        error = epsilon(self.offset) * largest(xp.abs(along))
        if error > _NOTICEABLE:
            warnings.warn(
                "A new row differs from all training rows in a feature that is large and nearly "
                "constant in training: "
                f"rounding may change its predictions by {min(error, 1.0):.0e} standard deviations "
                f"of the labels. "
                "Subtract the training means from the features.",
                PrecisionWarning,
                stacklevel=5,
            )

    @cached_property
    def _common_diagonal(self) -> float | None:
        """Common diagonal value of the training kernel, as in normalised kernels; None if the diagonal varies."""
        spectrum = self.spectrum
        xp = namespace(self.spectrum.values)
        diagonal = spectrum.diagonal(spectrum.values)
        if self.kernel_means is not None:
            diagonal = diagonal + 2.0 * self.kernel_means - xp.mean(self.kernel_means)
        elif spectrum.constant == "feature":
            diagonal = diagonal - spectrum.level
        return common_diagonal(diagonal)

    def prior(self, rows: Array, known: Array | None = None) -> Array:
        """Return the kernel of each new row with itself, centred as the decomposed kernel is, shape (a,).

        `known` is that of a precomputed kernel, not centred; None means the common value of its
        training diagonal.
        """
        xp = namespace(self.spectrum.values)
        rows = double(rows)
        if known is not None:
            diagonal = known
        elif self._needs_kernel:
            if self.feature_means is not None:
                rows = dense(rows) - self.feature_means
            params = fitted_params(self.spec.kernel, self.spec.params, double(self.features))
            diagonal = gram_diagonal(rows, kernel=self.spec.kernel, kernel_params=params)
        else:
            diagonal = xp.full_like(rows[:, 0], self._common_diagonal)
        if self.kernel_means is not None:
            kernel = self._kernel_of(rows) if self._needs_kernel else rows
            return diagonal - 2.0 * xp.mean(kernel, axis=1) + xp.mean(self.kernel_means)
        if self.spec.constant == "feature":
            return diagonal + self.spec.level
        return diagonal

    @property
    def _needs_kernel(self) -> bool:
        return not (self.spec.is_precomputed or self.is_primal)

    def _kernel_of(self, rows: Array) -> Array:
        """Return the kernel of rows (a, d) with the training rows in double precision, shape (a, n)."""
        return gram(
            rows, double(self.features), kernel=self.spec.kernel, kernel_params=self.spec.params
        )

    def _made_of(self, rows: Array) -> Array:
        """Return rows in the form that multiplies the coefficients: double precision, centred, with a last entry."""
        rows = double(rows)
        if self.feature_means is not None:
            rows = dense(rows) - self.feature_means
        if self._needs_kernel:
            rows = self._kernel_of(rows)
        if self.directions is not None:
            rows = _coordinates(dense(rows), self.directions)
        if self.kernel_means is not None:
            rows = rows - self.kernel_means
            # The coefficients sum to zero, up to rounding.
            rows -= namespace(rows).mean(rows, axis=1, keepdims=True)
        if self.spec.constant:
            return with_ones(rows, self.spectrum.last_entry)
        return rows

    def uncentred(self, coefficients: Array) -> Array:
        """Return the coefficients (n or d, p) for rows that are not centred; the last row belongs to an entry of 1."""
        if self.kernel_means is None:
            means = self.feature_means
        else:
            means = self.kernel_means
        if self.directions is not None:
            coefficients = self.spectrum.as_dual(coefficients)
        elif self.spectrum.last_entry != 1.0:
            last = self.spectrum.last_entry * coefficients[-1:, :]
            coefficients = namespace(coefficients).concat([coefficients[:-1, :], last])
        if means is None:
            return coefficients
        if self.directions is not None:  # means of features, while the coefficients are dual
            means = self._along_means(means)
        elif self.features is not None and self.feature_means is not None:
            means = self.features @ means
        last = coefficients[-1:, :] - means[None, :] @ coefficients[:-1, :]
        return namespace(coefficients).concat([coefficients[:-1, :], last])


@dataclass(frozen=True, eq=False)
class _Eigenvectors:
    """Function that computes the eigenvectors of a kernel again, which a model file leaves out.

    Attributes
    ----------
    spec : KernelSpec
    features : array of shape (n, d)
        Training rows.
    values : Eigenvalues
        The eigenvalues in the file.
    """

    spec: KernelSpec
    features: Array
    values: Eigenvalues

    def __call__(self) -> Array:
        """Return the eigenvectors (n, k); raise if their eigenvalues are not those of the file."""
        return self._vectors

    @cached_property
    def _vectors(self) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KernelRepairWarning)  # it was given in `fit`
            side = fit_side(Table(self.features, None), self.spec, "training")
        again = side.spectrum
        same = again.values.shape == self.values.values.shape and (
            largest(namespace(again.values).abs(again.values - self.values.values))
            <= _SAME_VALUES * max(self.values.size, again.size)
        )
        if not same:
            raise KernelError(
                "The eigenvalues of the kernel that is computed from the model file are not those in "
                "the file: fit the model again."
            )
        return again.vectors


def with_level(side: Side, level: float, name: str) -> Side:
    """Return a side with another constant feature; a side that is not in the dual needs a positive constant."""
    if level == side.spec.level:
        return side
    spec = replace(side.spec, level=level)
    if side.features is not None:
        return fit_side(Table(side.features, side.ids, side.names), spec, name)
    return replace(side, spec=spec, spectrum=side.spectrum.at_level(level))


def _coordinates(rows: Array, directions: Array) -> Array:
    """Return the coordinates of rows (a, d) in the basis (d, k); the last column is the distance from its span."""
    xp = namespace(rows)
    inside = rows @ directions
    squares = xp.sum(rows**2, axis=1) - xp.sum(inside**2, axis=1)
    distance = xp.where(squares > 0, squares, 0.0) ** 0.5
    return xp.concat([inside, distance[:, None]], axis=1)


def check_rows(rows: Any, spec: KernelSpec, name: str, *, allow_nan: bool = False) -> Array:
    """Return the rows of a side as a finite matrix; features may be sparse, or NaN if allowed here or by the kernel."""
    may_be_nan = spec.may_be_nan(allow_nan)
    return check_matrix(rows, name, accept_sparse=not spec.is_precomputed, allow_nan=may_be_nan)


def side_size(rows: Array, spec: KernelSpec, name: str) -> SideSize:
    """Return the size of a side, "instance" or "task"; raise if its precomputed kernel is not square."""
    n, d = rows.shape
    if spec.is_precomputed and n != d:
        raise KernelError(
            f"The precomputed {name} kernel must be a square matrix, found shape ({n}, {d}). For "
            f"features, choose "
            'another kernel than "precomputed"; if scikit-learn has sliced the tasks, pass them as '
            "Tasks(tasks)."
        )
    return SideSize(n, d, _form(rows, spec))


def _form(rows: Array, spec: KernelSpec) -> str:
    """Return the form in which a side is decomposed, see `SideSize`."""
    if spec.is_precomputed:
        return "gram"
    if spec.is_linear and not spec.dual and rows.shape[1] < rows.shape[0]:
        return "sparse" if is_sparse(rows) else "features"
    if spec.is_linear and not spec.dual and not is_sparse(rows):
        return "wide"
    return "kernel"


def computed_kernel(table: Table, spec: KernelSpec) -> Array | None:
    """Return the kernel (n, n) of the rows of a side, if it has to be computed to decompose the side; else None."""
    rows = table.values
    if _form(rows, spec) != "kernel" or (spec.is_linear and not is_sparse(rows)):
        return None
    check_kernel(spec.kernel, spec.params)
    return gram(double(rows), kernel=spec.kernel, kernel_params=spec.params)


def fit_side(table: Table, spec: KernelSpec, name: str, kernel: Array | None = None) -> Side:
    """Compute the spectrum of one side and return the fitted side.

    Parameters
    ----------
    table : Table
        Features, an array or sparse matrix of shape (n, d), or a Gram matrix of shape (n, n), of
        any precision.
    spec : KernelSpec
    name : str
        Name of the side in messages: "instance" or "task".
    kernel : array of shape (n, n), default=None
        Result of `computed_kernel`, if it is known.
    """
    rows = table.values
    ids = table.row_ids
    names = table.column_ids
    is_free = spec.constant == "free"
    form = _form(rows, spec)
    words = f"The {name} features"
    features = None
    means = None
    kernel_means = None
    directions = None
    if form != "gram":
        check_kernel(spec.kernel, spec.params)
    if is_free and spec.is_linear and not is_sparse(rows):
        means = means_of(rows)
    if form == "wide":
        spectrum, directions = _wide_spectrum(rows, spec, words)
    elif form in ("features", "sparse"):
        # Dense features are not stored; sparse features are, so they are copied.
        copied_rows = rows.copy() if form == "sparse" else rows
        spectrum = Spectrum.from_features(
            copied_rows, name=words, constant=spec.constant, level=spec.level
        )
    elif form == "kernel" and spec.is_linear and not is_sparse(rows):
        spectrum = _completed_spectrum(rows, spec, words)
        features = copied(rows) if means is None else double(rows) - means
    else:
        # Predictions must not change when the caller's array does.
        features = None if form == "gram" else copied(rows)
        if kernel is None:
            kernel = rows if form == "gram" else computed_kernel(table, spec)
        assert kernel is not None
        kernel_means = _means(kernel) if is_free else None
        repaired: dict[str, Any] = {"repair": spec.repair, "name": f"The {name} kernel"}
        spectrum = Spectrum.from_gram(kernel, **repaired, constant=spec.constant, level=spec.level)
    offset = None
    spread = 1.0
    if form in ("features", "wide") and spec.constant == "feature":
        offset, spread = _offset(rows)
    centring = (means, kernel_means, directions, offset, spread)
    return Side(spec, spectrum, ids, names, features, rows.shape[1], *centring)


def _offset(rows: Array) -> tuple[Array | None, float]:
    """Return the means of features (n, d) in units of their spread, if that is large, and the spread."""
    xp = namespace(rows)
    means = means_of(rows)
    size = largest(xp.abs(means))
    if size == 0:
        return None, 1.0
    # Squares of large features would overflow.
    squares = xp.sum(((double(rows) - means) / size) ** 2, axis=1)
    spread = float(xp.mean(squares)) ** 0.5
    ratio = (means / size) @ (means / size)
    if spread == 0 or epsilon(means) * float(ratio) <= 0.01 * _NOTICEABLE * spread**2:
        return None, 1.0
    return means / (size * spread), size * spread


def _completed_spectrum(rows: Array, spec: KernelSpec, name: str) -> Spectrum:
    """Return the spectrum of features (n, d) in the dual, with all n directions."""
    if (
        spec.constant == "feature" and spec.level == 0
    ):  # the constant has no direction among the features
        spectrum = Spectrum.from_features(rows, name=name).completed()
        return replace(spectrum, constant="feature", level=0.0)
    return Spectrum.from_features(
        rows, name=name, constant=spec.constant, level=spec.level
    ).completed()


def _wide_spectrum(rows: Array, spec: KernelSpec, name: str) -> tuple[Spectrum, Array]:
    """Return the spectrum of features (n, d) with d ≥ n, and an orthonormal basis (d, k) of their span.

    The spectrum is that of the coordinates in this basis and of a last coordinate that is zero for
    training rows.
    """
    xp = namespace(rows)
    constant = spec.constant
    whole = Spectrum.from_features(rows, name=name, constant=None if constant is None else "free")
    assert whole.components is not None
    k = int(whole.values.shape[0]) - (constant is not None)
    # Products with a part of the components would be rounded differently from those of a loaded
    # model.
    directions = row_major(whole.components[: rows.shape[1], :k])
    means = zeros((0,), whole.values)
    if constant == "feature":
        # The means are not in the span of the centred features: add one direction.
        means = means_of(rows)
        inside = directions.T @ means
        outside = means - directions @ inside
        outside = outside - directions @ (directions.T @ outside)
        distance = float(xp.linalg.vector_norm(outside))
        means = xp.concat([inside, zeros((1,), inside) + distance, zeros((1,), inside)])
        directions = xp.concat([directions, outside[:, None] / (distance or 1.0)], axis=1)
    components = xp.eye(
        directions.shape[1] + 1, k, dtype=directions.dtype, device=directions.device
    )
    if constant is not None:
        components = framed(components, xp.zeros_like(whole.values[:k]))
    spectrum = replace(whole, components=components)
    if constant == "feature":
        spectrum = spectrum.with_constant_feature(means, spec.level)
    return spectrum, directions


def _means(kernel: Array) -> Array:
    """Return the mean row of a kernel (n, n); for an asymmetric kernel the average of row and column means."""
    xp = namespace(kernel)
    return (xp.mean(double(kernel), axis=0) + xp.mean(double(kernel), axis=1)) / 2
