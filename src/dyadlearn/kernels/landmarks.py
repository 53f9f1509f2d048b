r"""Approximate any kernel by a few features (Nyström approximation with randomly pivoted Cholesky).

With a set L of rows, the *landmarks*, and the Cholesky factor :math:`\mathbf{K}_{LL} =
\mathbf{R}\mathbf{R}^\top`,

.. math:: \boldsymbol\phi(x) = \mathbf{R}^{-1}\,k(L, x), \qquad
          \boldsymbol\Phi\boldsymbol\Phi^\top = \mathbf{K}_{\cdot
          L}\mathbf{K}_{LL}^{-1}\mathbf{K}_{L\cdot}

is the Nyström approximation, the best approximation of a positive semi-definite kernel in the span
of the rows of L. The residual :math:`\mathbf{K} - \boldsymbol\Phi\boldsymbol\Phi^\top` is positive
semi-definite too, and its diagonal is the error of each row. Landmarks are added one after the
other, and each removes its column from the residual:

.. math:: \mathbf{f} = \frac{\mathbf{g}}{\sqrt{g_s}}, \quad
          \mathbf{g} = \mathbf{K}_{\cdot s} - \boldsymbol\Phi\,\boldsymbol\Phi_{s\cdot}^\top, \quad
          \boldsymbol\Phi \leftarrow [\boldsymbol\Phi, \mathbf{f}], \quad
          \mathbf{d} \leftarrow \mathbf{d} - \mathbf{f}^2

with :math:`\mathbf{d} = \mathrm{diag}(\mathbf{K})` at the start. Randomly pivoted Cholesky draws s
with probability proportional to :math:`\mathbf{d}`: rows with a large error are likely to be next
[1]_.

For speed, a block of candidates is drawn at once, with the probabilities at the beginning of the
block. This needs a few large matrix products instead of a small one for each landmark. Candidate s
is accepted with probability
:math:`d_s^{\text{now}}/d_s^{\text{then}}`, in the order of the block. Landmarks then have exactly the same distribution
as when drawn one by one [2]_. A rejected candidate costs only its kernel values with the other
candidates.

References
----------
.. [1] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky: Practical approximation of a
   kernel matrix with few entry evaluations", Communications on Pure and Applied Mathematics 78,
   2025.
.. [2] E. N. Epperly, J. A. Tropp, R. J. Webber, "Embrace rejection: Kernel matrix approximation by accelerated randomly
   pivoted Cholesky", arXiv:2410.03969, 2024.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    cast,
    copied,
    double,
    drawn,
    epsilon,
    is_foreign,
    is_sparse,
    largest,
    namespace,
    row_blocks,
    solve_lower,
    take_block,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._checks import check_choice, check_instances, check_same_library, check_whole
from dyadlearn._memory import check_memory
from dyadlearn._state import StoredEstimator, all_or_nothing
from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import KernelError, KernelRepairWarning
from dyadlearn.kernels.gram import (
    Params,
    check_kernel,
    common_diagonal,
    fitted_params,
    gram,
    gram_diagonal,
    is_estimated,
    is_precomputed,
    takes_missing,
)
from dyadlearn.kernels.repair import definiteness_tolerance, not_square, symmetrized

_METHODS = ("rpcholesky", "uniform")

#: Number of candidates in a block.
_BLOCK = 128


@dataclass(eq=False, repr=False)
class Landmarks(StoredEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Approximate any kernel by a few features, computed from a few training rows (the landmarks).

    .. math:: \boldsymbol\phi(x) = \mathbf{R}^{-1}\,k(L, x), \qquad \mathbf{R}\mathbf{R}^\top = \mathbf{K}_{LL},
              \qquad \boldsymbol\Phi\boldsymbol\Phi^\top \approx \mathbf{K}

    L are r of the n training rows, the *landmarks*. A linear model on these features approximates a
    model with the kernel k; `error_` is the relative error. The cost does not grow with n²: n·r
    values of the kernel, n·r² operations and memory for n·r numbers. `transform` computes the
    features of new rows.

    The choice of landmarks uses the rows and the kernel, but no labels, so that hold-out scores of
    labels remain valid. Rows that are held out, as in settings B, C and D, affect the features if
    they were part of `fit`, as in any preprocessing of features. To exclude them, fit on the
    training rows only.

    Parameters
    ----------
    n_components : int, default=100
        Maximum number r of landmarks and features. There are fewer if fewer reproduce the kernel up
        to rounding: at most the number of different rows, or the rank of the kernel.
    kernel : str or callable, default="rbf"
        A name from `dyadlearn.kernels.kernel_names`; a callable ``kernel(A, B, **kernel_params)``
        that returns the block of the kernel between rows; or "precomputed": `X` is the kernel
        between the training rows, or between new rows and training rows. A callable may compare
        objects that are not vectors, such as texts: it gets two lists.
    kernel_params : mapping, default=None
        Parameters of the kernel by name, such as ``{"gamma": 0.1}``.
    method : {"rpcholesky", "uniform"}, default="rpcholesky"
        How landmarks are chosen: by randomly pivoted Cholesky, with probability proportional to the
        residual of k(x, x) after the previous landmarks; or uniformly at random.
    random_state : int, RandomState or None, default=None
        Seed of the choice of landmarks.

    Attributes
    ----------
    n_components_ : int
        Number of landmarks.
    component_indices_ : array of shape (`n_components_`,)
        Positions of the landmarks in `X`, in the order in which they were chosen.
    components_ : array or sparse matrix of shape (`n_components_`, p), array of texts or other objects, or None
        The landmarks; None for a precomputed kernel.
    error_ : float
        Relative error of the approximation of the training kernel, :math:`\mathrm{tr}(\mathbf{K} -
        \boldsymbol\Phi\boldsymbol\Phi^\top) / \mathrm{tr}(\mathbf{K})`.
    n_features_in_ : int
        Number of columns of `X`; not defined if rows are not vectors.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; defined only if `X` was a frame whose names are all strings.

    Warns
    -----
    KernelRepairWarning
        If the kernel is not positive semi-definite, so that it is not an inner product of any
        features.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : uniform landmarks for kernels of scikit-learn.
    dyadlearn.OnlineTwoStepRidge : takes it as ``feature_map``.

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky: Practical
    approximation of a kernel matrix with few entry evaluations", Communications on Pure and Applied
    Mathematics 78, 2025.

    E. N. Epperly, J. A. Tropp, R. J. Webber, "Embrace rejection: Kernel matrix approximation by
    accelerated randomly pivoted Cholesky", arXiv:2410.03969, 2024 (drawing landmarks in blocks).

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidge, Landmarks
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(200, 2)), rng.normal(size=(5, 3)), rng.normal(size=(200, 5))
    >>> landmarks = Landmarks(60, random_state=0)
    >>> Phi = landmarks.fit_transform(X)
    >>> Phi.shape, landmarks.error_ < 1e-4
    ((200, 60), True)
    >>> approximate = KroneckerRidge().fit(Phi, Y, tasks=T)
    >>> exact = KroneckerRidge(kernel="rbf").fit(X, Y, tasks=T)
    >>> new = rng.normal(size=(3, 2))
    >>> bool(np.abs(approximate.predict(landmarks.transform(new)) - exact.predict(new)).max() < 0.01)
    True
    """

    n_components_: int = field(init=False)
    component_indices_: np.ndarray = field(init=False)
    components_: Array | None = field(init=False)
    error_: float = field(init=False)
    _factor: Array = field(init=False)
    _diagonal: float | None = field(init=False)
    _columns: Ids | None = field(init=False)
    # Parameters of the kernel, with those that it estimates from all training rows, not only from
    # the landmarks.
    _params: Params = field(init=False)

    _shapes: ClassVar[Mapping[str, str]] = {
        "_factor": "n_components_ n_components_",
        "components_": "sparse n_components_ n_features_in_",
        "_columns": "n_features_in_",
    }

    n_components: int = 100
    _: KW_ONLY
    kernel: Any = "rbf"
    kernel_params: Any = None
    method: str = "rpcholesky"
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks among the rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, p), or n texts or other objects
            Features, a kernel (n, n), or objects for a callable kernel: a list, an array of one
            dimension, a series, or a frame with one column of text.
        y : ignored

        Returns
        -------
        self
        """
        self._fitted(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Choose landmarks among the rows, and return the features of all rows without computing them twice.

        Parameters
        ----------
        X, y : as in `fit`

        Returns
        -------
        array of shape (n, `n_components_`)
        """
        rows, pivots = self._fitted(X)
        return cast(pivots.features, _dtype(rows, pivots.features))

    def transform(self, X: Any) -> Array:
        """Return the features of rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, p), or n texts or other objects
            As in `fit`; a precomputed kernel has a column for each training row.

        Returns
        -------
        array of shape (n, `n_components_`)
        """
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        dtype = _dtype(rows, self._factor)
        features = zeros((rows.shape[0], self.n_components_), self._factor, dtype)
        for part, block in self._mapped(rows):
            features[part, :] = cast(block, dtype)
        return features

    def residual(self, X: Any, diagonal: Any = None) -> Array:
        r"""Return the residual of the approximation of k(x, x) for each row.

        .. math:: k(x, x) - \|\boldsymbol\phi(x)\|^2

        For any two rows, the error of the approximated kernel is at most the square root of the
        product of their residuals. New rows with a large residual are unlike all landmarks.

        Parameters
        ----------
        X : as in `transform`
        diagonal : array of shape (n,), default=None
            k(x, x) of each row; needed for a precomputed kernel whose diagonal is not constant.

        Returns
        -------
        array of shape (n,)
            Non-negative residuals.
        """
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        diagonal = self._self_kernel(rows, diagonal)
        xp = namespace(diagonal)
        squares = [xp.sum(features * features, axis=1) for _, features in self._mapped(rows)]
        residual = diagonal - xp.astype(xp.concat(squares), diagonal.dtype, copy=False)
        return xp.where(residual > 0, residual, 0.0)

    # Fitting -------------------------------------------------------------------------------------

    def _fitted(self, X: Any) -> tuple[Array, PartialCholesky]:
        """Choose and store the landmarks; return the rows that were read and the result of `pivoted`."""
        with all_or_nothing(self):
            self._check_params()
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            rows = self._read(X, reset=True)
            self._params = fitted_params(self.kernel, self.kernel_params, _numbers(rows))
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            rng = np.random.default_rng(seed)
            pivots = pivoted(self._source(rows), int(self.n_components), self.method, rng)
            self.component_indices_ = pivots.positions
            self.n_components_ = len(pivots.positions)
            self.components_ = None
            self._diagonal = None
            if self._is_precomputed:
                self._diagonal = common_diagonal(pivots.diagonal)
            else:
                self.components_ = take_rows(rows, pivots.positions)
            self.error_ = pivots.error
            self._factor = pivots.factor
        return rows, pivots

    def _check_params(self) -> None:
        check_whole(self.n_components, "n_components")
        check_choice(self.method, "method", _METHODS)
        if not self._is_precomputed:
            check_kernel(self.kernel, self.kernel_params)

    def _fits(self) -> bool:
        at = self.component_indices_
        count = self.n_components_
        if self.components_ is not None:
            self._source(self.components_[:1]).diagonal()  # raises for wrong parameters
        return (
            at.dtype.kind == "i"
            and not is_estimated(self.kernel, self._params)
            and at.shape == (count,)
            and (self.components_ is None) == self._is_precomputed
            and (not self._is_precomputed or bool(np.all((at >= 0) & (at < self.n_features_in_))))
        )

    @property
    def _is_precomputed(self) -> bool:
        return is_precomputed(self.kernel)

    def _source(self, rows: Array) -> Source:
        if self._is_precomputed:
            return Source(rows, None)
        kernel = _OnLists(self.kernel) if rows.ndim == 1 else self.kernel
        return Source(rows, kernel, self._params)

    # Reading the input ---------------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool) -> Array:
        """Return the rows as a matrix, or as an array of one dimension if they are not vectors."""
        objects = _objects(X) if callable(self.kernel) else None
        if not reset:
            has_objects = self.components_ is not None and self.components_.ndim == 1
            if has_objects != (objects is not None):
                kinds = ("vectors", "texts or other objects")
                raise ValueError(
                    f"X holds {kinds[not has_objects]}, but the landmarks are "
                    f"{kinds[has_objects]}: pass rows as in fit."
                )
        if objects is not None:
            return objects
        table = read_table(X, "X")
        columns = table.column_ids if self._is_precomputed else None
        if columns is not None and not reset:
            table = table.columns_as(self._columns, "the columns of X", "the rows of training")
        elif columns is not None and len(table.row_ids or columns) == len(columns):
            table = table.squared("X")
        if reset:
            self._columns = table.column_ids if self._is_precomputed else None
        known: dict[str, Any] = {"allow_nan": takes_missing(self.kernel)}
        if not reset:
            known["n_features"] = self.n_features_in_
            known["feature_names"] = getattr(self, "feature_names_in_", None)
        rows, names = check_instances(
            table, type(self).__name__, is_kernel=self._is_precomputed, **known
        )
        if reset:
            self.n_features_in_ = int(rows.shape[1])
        if reset and names is not None:
            self.feature_names_in_ = names
        if not reset:
            check_same_library({"X": rows, "the landmarks": self._factor})
        elif self._is_precomputed:
            if rows.shape[0] != rows.shape[1]:
                raise not_square("", tuple(rows.shape))
            return symmetrized(rows, "error", "X")[0]
        return rows

    def _self_kernel(self, rows: Array, diagonal: Any) -> Array:
        """Return the kernel of rows with themselves, shape (n,)."""
        if diagonal is not None:
            diagonal = as_array_of(diagonal, self._factor, dtype=self._factor.dtype)
            n = rows.shape[0]
            if tuple(diagonal.shape) != (n,):
                raise ValueError(
                    f"diagonal must hold a number for each of {n} rows, found "
                    f"{tuple(diagonal.shape)}."
                )
            return diagonal
        if not self._is_precomputed:
            return self._source(rows).diagonal()
        if self._diagonal is None:
            raise KernelError(
                "k(x, x) of new rows is not part of a precomputed kernel: give diagonal=."
            )
        return namespace(rows).full_like(rows[:, 0], self._diagonal)

    def _mapped(self, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Yield features of rows, block by block."""
        landmarks = self.component_indices_ if self._is_precomputed else self.components_
        for part, K in self._source(rows).columns(landmarks):
            yield part, solve_lower(self._factor, K.T).T

    # scikit-learn ----------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse = not self._is_precomputed
        tags.input_tags.string = callable(self.kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# The kernel --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Kernel of rows, whose blocks are computed on request.

    Attributes
    ----------
    values : array of shape (n, d) or (n,)
        The rows; if `kernel` is None, the precomputed kernel between rows and training rows.
    kernel, params : as in `gram`
    """

    values: Array
    kernel: Any
    params: Params = None

    def diagonal(self) -> Array:
        """Return k(x, x) of all rows, shape (n,)."""
        if self.kernel is None:
            return double(namespace(self.values).linalg.diagonal(self.values))
        return gram_diagonal(_numbers(self.values), **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "kernel_params": self.params}

    def block(self, at: np.ndarray) -> Array:
        """Return the kernel of some rows with each other."""
        if self.kernel is None:
            return double(take_block(self.values, at, at))
        return gram(_numbers(take_rows(self.values, at)), **self._how)

    def columns(self, landmarks: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the kernel of all rows with landmarks (positions if it is precomputed), block by block."""
        n, *shape = self.values.shape
        for part in row_blocks(n, landmarks.shape[0], tuple(shape)):
            rows = self.values[part, ...]
            if self.kernel is None:
                yield part, double(take_rows(rows.T, landmarks).T)
            else:
                yield part, gram(_numbers(rows), _numbers(landmarks), **self._how)


def _dtype(rows: Array, features: Array) -> Any:
    """Return the dtype of the features: that of numeric rows, otherwise the dtype of the computation."""
    return features.dtype if rows.ndim == 1 else rows.dtype


def _numbers(rows: Array) -> Array:
    """Return numeric rows in double precision, and other objects unchanged."""
    return rows if rows.ndim == 1 else double(rows)


class _OnLists:
    """Callable kernel of objects that are not vectors, which passes them as lists."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self.__name__ = getattr(kernel, "__name__", type(kernel).__name__)
        diagonal = getattr(kernel, "diagonal", None)
        self.diagonal: Callable[..., np.ndarray] | None = None
        if callable(diagonal):
            self.diagonal = lambda A, **params: np.asarray(diagonal(A.tolist(), **params))

    def __call__(self, A: np.ndarray, B: np.ndarray, **params: Any) -> Any:
        return self._kernel(A.tolist(), B.tolist(), **params)


def _objects(X: Any) -> np.ndarray | None:
    """Return a sequence of texts or other objects as an array of objects (n,); None for a table of numbers."""
    if is_sparse(X) or is_foreign(X) or isinstance(X, Table):
        return None
    values = read_table(X, "X", of_words=True).values
    objects = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    if objects.ndim == 2 and objects.shape[1] == 1:
        objects = objects[:, 0]
    is_vector = objects.ndim != 1 or objects.size == 0 or objects.dtype.kind not in "OUT"
    if is_vector or isinstance(objects[0], Real | np.bool_):
        return None
    return objects.astype(object)


# The mathematics ---------------------------------------------------------------------------------


def pivoted(
    source: Source, n_components: int, method: str, rng: np.random.Generator
) -> PartialCholesky:
    r"""Choose landmarks, block by block, and remove their columns from the kernel.

    No n × n matrix is formed. The residual of k(x, x) after r products has a rounding error of
    about
    :math:`r\varepsilon\,k(x, x)`. A smaller residual counts as zero, so that rows in the span of previous landmarks,
    such as repeated rows, are never landmarks. If a residual comes out negative, the threshold is
    raised to its size relative to k(x, x), because the kernel itself is inexact or not positive
    semi-definite.

    Parameters
    ----------
    source : Source
        The kernel.
    n_components : int
        Maximum number of landmarks.
    method : {"rpcholesky", "uniform"}
    rng : Generator

    Returns
    -------
    PartialCholesky
    """
    cholesky = PartialCholesky(source, n_components)
    # A uniformly drawn candidate whose residual has lost more than half of its digits would add
    # noise to rows with a large residual. It is skipped, and may be drawn again after all
    # candidates were tried.
    half = math.sqrt(epsilon(cholesky.diagonal))
    unseen = np.empty(0, dtype=np.intp)
    if method == "uniform":
        unseen = rng.permutation(len(cholesky))
    while cholesky.n_left > 0 and largest(cholesky.residual) > 0:
        in_order = len(unseen) == 0
        if in_order:
            positions = drawn(cholesky.residual, rng.random(_BLOCK))
        else:
            positions, unseen = np.split(unseen, [min(_BLOCK, cholesky.n_left)])
        residual = _at(cholesky.residual, positions)
        sizes = _at(cholesky.diagonal, positions)
        least = rng.random(_BLOCK) * residual if in_order else half * sizes
        cholesky.add(_Candidates(positions, residual, sizes, least), in_order=in_order)
    top = largest(cholesky.diagonal)
    allowed = max(definiteness_tolerance(cholesky.diagonal, len(cholesky)), half * top)
    if -cholesky.lowest > allowed:
        warnings.warn(
            f"The kernel is not positive semi-definite: features exceed k(x, x) by up to "
            f"{-cholesky.lowest:.3g}, and its largest value is {top:.3g}. Repair it, or choose "
            f"another one.",
            KernelRepairWarning,
            stacklevel=4,
        )
    cholesky.trim()
    return cholesky


class _Candidates(NamedTuple):
    """Rows that may become landmarks.

    Attributes
    ----------
    positions : ndarray of shape (b,)
        A repeated position is accepted only once.
    residual, sizes : ndarrays of shape (b,)
        Diagonals of the residual and of the kernel.
    least : ndarray of shape (b,)
        Threshold for the residual.
    """

    positions: np.ndarray
    residual: np.ndarray
    sizes: np.ndarray
    least: np.ndarray


class PartialCholesky:
    """Factorisation of a kernel by its columns of the landmarks so far.

    Attributes
    ----------
    source : Source
        The kernel of n rows.
    diagonal : array of shape (n,)
        k(x, x); a row with a negative one counts as zero and has zero features.
    positions : ndarray of shape (r,)
        Positions of the landmarks, in the order in which they were chosen.
    features : array of shape (n, r)
        Φ, such that ΦΦᵀ is close to the kernel. It has space for all landmarks, like `factor`.
    factor : array of shape (r, r)
        R, lower triangular: the Cholesky factor of the kernel between the landmarks, in this order.
    residual : array of shape (n,)
        Diagonal of K − ΦΦᵀ, with negative entries set to zero.
    noise : float
        Share of k(x, x) below which a residual counts as zero.
    lowest : float
        The lowest residual so far, at most 0.
    """

    def __init__(self, source: Source, n_components: int) -> None:
        diagonal = source.diagonal()
        n = diagonal.shape[0]
        xp = namespace(diagonal)
        self.source = source
        self.lowest = min(0.0, float(xp.min(diagonal)))
        self.diagonal = xp.where(diagonal > 0, diagonal, 0.0)
        if largest(self.diagonal) == 0:
            raise KernelError(
                "The kernel of every row with itself is zero or less: choose another kernel, or "
                "other rows."
            )
        most = min(n_components, n)
        need = array_bytes(diagonal, (n, most), (4, n, min(most, _BLOCK)), (most, most))
        check_memory(need, diagonal, f"{most} landmarks of {n} rows", "use fewer landmarks")
        self.noise = max(most, 10) * epsilon(diagonal)
        self.positions = np.empty(0, dtype=np.intp)
        self.residual = copied(self.diagonal)
        self.features = zeros((n, most), diagonal)
        self.factor = zeros((most, most), diagonal)

    def __len__(self) -> int:
        return int(self.diagonal.shape[0])

    @property
    def n_left(self) -> int:
        """Number of landmarks that can still be chosen."""
        return int(self.factor.shape[0]) - len(self.positions)

    @property
    def error(self) -> float:
        """Trace of the residual, relative to the trace of the kernel."""
        xp = namespace(self.diagonal)
        return float(xp.sum(self.residual)) / float(xp.sum(self.diagonal))

    def trim(self) -> None:
        """Remove the space for further landmarks."""
        done = len(self.positions)
        if self.n_left:
            self.features = copied(self.features[:, :done])
            self.factor = copied(self.factor[:done, :done])

    def add(self, candidates: _Candidates, *, in_order: bool) -> None:
        """Add the accepted ones of some candidates to the landmarks; parameters as in `_accepted`."""
        done = len(self.positions)
        ahead = take_rows(self.features, candidates.positions)[:, :done]
        left = to_numpy(self.source.block(candidates.positions) - ahead @ ahead.T)
        accepted, triangle = _accepted(candidates, left, self.noise, self.n_left, in_order=in_order)
        if not len(accepted):
            return
        stop = done + len(accepted)
        chosen = candidates.positions[accepted]
        ahead = take_rows(ahead, accepted)
        triangle = as_array_of(triangle, self.diagonal, dtype=self.diagonal.dtype)
        new = solve_lower(triangle, self._residual_columns(chosen, ahead).T).T
        self.features[:, done:stop] = new
        self.factor[done:stop, :done] = ahead
        self.factor[done:stop, done:stop] = triangle
        self.positions = np.concatenate([self.positions, chosen])
        self._reduce(new, chosen)

    def _residual_columns(self, chosen: np.ndarray, ahead: Array) -> Array:
        """Return the columns (n, t) of the residual at new landmarks, whose features so far are `ahead`."""
        landmarks: Any = chosen
        if self.source.kernel is not None:
            landmarks = take_rows(self.source.values, chosen)
        xp = namespace(self.diagonal)
        columns = xp.concat([K for _, K in self.source.columns(landmarks)])
        return columns - self.features[:, : len(self.positions)] @ ahead.T

    def _reduce(self, new: Array, chosen: np.ndarray) -> None:
        """Subtract new features (n, t) from the residual, and set what is rounding to zero."""
        xp = namespace(self.diagonal)
        residual = self.residual - xp.sum(new * new, axis=1)
        relative = residual / xp.where(self.diagonal > 0, self.diagonal, 1.0)
        self.lowest = min(self.lowest, float(xp.min(residual)))
        self.noise = max(self.noise, -float(xp.min(relative)))
        residual = xp.where(residual > self.noise * self.diagonal, residual, 0.0)
        for position in chosen.tolist():
            residual[position] = 0.0
        self.residual = residual


def _at(values: Array, positions: np.ndarray) -> np.ndarray:
    """Return some of the values (n,) in double precision."""
    return np.asarray(to_numpy(take_rows(values, positions)), dtype=np.float64)


def _accepted(
    candidates: _Candidates, left: np.ndarray, noise: float, most: int, *, in_order: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Accept candidates whose residual, after those accepted before, exceeds a threshold.

    Parameters
    ----------
    candidates : _Candidates
    left : ndarray of shape (b, b)
        Residual of the kernel between candidates, after the landmarks so far.
    noise : float
        Threshold for the residual relative to the diagonal of the kernel.
    most : int
        Maximum number of candidates to accept.
    in_order : bool
        Whether candidates are tried in their order. Otherwise the next one is always that with the
        largest relative residual, which is more accurate.

    Returns
    -------
    accepted : ndarray of shape (t,)
        Positions of accepted candidates in `candidates`.
    triangle : ndarray of shape (t, t)
        Cholesky factor of the residual between accepted candidates.
    """
    positions, residual, sizes, least = candidates
    residual = residual.copy()
    rows = np.zeros((len(positions), min(len(positions), most)))
    scale = np.where(sizes > 0, sizes, 1.0)
    accepted: list[int] = []
    for turn in range(len(positions)):
        place = turn if in_order else int(np.argmax(residual / scale))
        if residual[place] <= max(least[place], noise * sizes[place]):
            continue
        done = len(accepted)
        root = math.sqrt(residual[place])
        rows[:, done] = (left[:, place] - rows[:, :done] @ rows[place, :done]) / root
        rows[place, done] = root
        residual -= rows[:, done] ** 2
        residual[positions == positions[place]] = 0.0
        noise = max(noise, -float(np.min(residual / scale)))
        accepted.append(place)
        if done + 1 == rows.shape[1]:
            break
    places = np.array(accepted, dtype=np.intp)
    return places, np.tril(rows[places, : len(accepted)])
