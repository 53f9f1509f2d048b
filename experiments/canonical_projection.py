"""Features that say most about the labels, from sparse counts that come in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dyadlearn._array import row_blocks

__all__ = ["CanonicalProjection"]

#: Singular values below this share of the largest are rounding.
_NEGLIGIBLE = 1e-7


class CanonicalProjection(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Project features on the orthogonal directions that vary most with the labels.

    The columns of :math:`\mathbf{V}` are the leading left singular vectors of the covariance
    between features and standardised labels,

    .. math:: \mathbf{X}^\top\mathbf{Y}_s \approx \mathbf{V}\,\mathrm{diag}(\boldsymbol\sigma)\,\mathbf{U}^\top, \qquad
              \mathbf{Y}_s = (\mathbf{Y} - \mathbf{1}\bar{\mathbf{y}}^\top)\,\mathrm{diag}(1/s_1,
              \dots, 1/s_q),

    so that among all unit vectors :math:`\mathbf{v}` orthogonal to those before, each is the one
    whose component
    :math:`\mathbf{Xv}` has the largest variance times the sum of its squared correlations with all labels. A rare
    label counts as much as a frequent one. The features are
    :math:`(\mathbf{x}-\bar{\mathbf{x}})^\top\mathbf{V}`.

    Features and labels may be sparse and come in any number of chunks: only
    :math:`\mathbf{X}^\top\mathbf{Y}` is kept, as a sparse matrix, and sums. The singular value
    decomposition is randomised, works on blocks of it, and never forms a dense matrix with a side
    of p but :math:`\mathbf{V}` itself, which is as precise as `X` was.

    Parameters
    ----------
    n_components : int, default=100
        Number k of components; there are no more than labels, and none whose singular value is
        zero.
    n_oversamples : int, default=10
        Number of directions that are followed beside the wanted ones.
    n_iter : int, default=3
        Number of power iterations; more are more precise where singular values decay slowly.
    random_state : int, RandomState or None, default=None
        For the first directions.

    Attributes
    ----------
    components_ : array of shape (k, p)
        :math:`\mathbf{V}^\top`.
    singular_values_ : array of shape (k,)
        :math:`\boldsymbol\sigma`, from large to small.
    n_features_in_ : int
        Number p of features.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from canonical_projection import CanonicalProjection
    >>> X = sparse.csr_array([[1.0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]])  # the second feature says nothing
    >>> Y = sparse.csr_array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    >>> projection = CanonicalProjection(1).fit(X, Y)
    >>> abs(projection.components_.round(6))
    array([[0.707107, 0.      , 0.707107]])
    >>> projection.transform(X).shape
    (4, 1)
    """

    _seen: _Seen

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_oversamples: int = 10,
        n_iter: int = 3,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_oversamples = n_oversamples
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Find the components of all rows at once.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
        y : array or sparse matrix of shape (n, q) or (n,)

        Returns
        -------
        self
        """
        self._seen = self._read(X, y, reset=True)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Take in a chunk of rows; the components are found when they are asked for.

        Parameters
        ----------
        X : array or sparse matrix of shape (l, p)
        y : array or sparse matrix of shape (l, q) or (l,)

        Returns
        -------
        self
        """
        first = not self.__sklearn_is_fitted__()
        chunk = self._read(X, y, reset=first)
        self._seen = chunk if first else self._seen.plus(chunk)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)

        Returns
        -------
        array of shape (n, k)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        V = self._seen.directions[0]
        # Of one precision with V: a product of two would make a copy of all of V.
        features = rows.astype(V.dtype, copy=False) @ V
        return np.asarray(features - self._seen.centre)

    @property
    def components_(self) -> np.ndarray:
        """Orthogonal directions in the space of features, shape (k, p)."""
        check_is_fitted(self)
        return np.asarray(self._seen.directions[0].T)

    @property
    def singular_values_(self) -> np.ndarray:
        """Singular values of the covariance, shape (k,)."""
        check_is_fitted(self)
        return self._seen.directions[1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_seen")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _rows(self, X: Any, *, reset: bool) -> Any:
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32]
        )

    def _read(self, X: Any, y: Any, *, reset: bool) -> _Seen:
        """Return what a chunk says, with the parameters that are set."""
        labels = check_array(
            y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_2d=False, input_name="y"
        )
        labels = labels.reshape(-1, 1) if labels.ndim == 1 else labels
        rows = self._rows(X, reset=reset)
        if rows.shape[0] != labels.shape[0]:
            raise ValueError(
                f"X has {rows.shape[0]} rows, but y has {labels.shape[0]}: give labels for every "
                f"row."
            )
        if not reset and labels.shape[1] != self._seen.y_sum.shape[0]:
            raise ValueError(
                f"y has {labels.shape[1]} columns, expected {self._seen.y_sum.shape[0]} labels as "
                f"before."
            )
        labels = sparse.csr_array(labels)
        cross = sparse.csr_array(sparse.csr_array(rows).T @ labels, dtype=rows.dtype)
        if reset:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        else:
            seed = self._seen.seed
        sums = (_sums(rows), _sums(labels), _sums(labels**2))
        how = (int(self.n_components), int(self.n_oversamples), int(self.n_iter))
        return _Seen(rows.shape[0], *sums, (cross,), *how, seed)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Sums over rows, and the directions they lead to.

    `parts` are sparse matrices (p, q) whose sum is XᵀY: chunks are added to each other first, and
    to the large sum of all before only when they have grown as large, so that a stream is read in
    about linear time.
    """

    n_rows: int
    x_sum: np.ndarray
    y_sum: np.ndarray
    y_squares: np.ndarray
    parts: tuple[Any, ...]
    n_components: int
    n_oversamples: int
    n_iter: int
    seed: int

    def plus(self, chunk: _Seen) -> _Seen:
        parts = [*self.parts, *chunk.parts]
        while len(parts) > 1 and parts[-1].nnz >= parts[-2].nnz / 2:
            last = parts.pop()
            parts[-1] = sparse.csr_array(parts[-1] + last)
        return replace(
            chunk,
            n_rows=self.n_rows + chunk.n_rows,
            x_sum=self.x_sum + chunk.x_sum,
            y_sum=self.y_sum + chunk.y_sum,
            y_squares=self.y_squares + chunk.y_squares,
            parts=tuple(parts),
        )

    @property
    def x_mean(self) -> np.ndarray:
        return self.x_sum / self.n_rows

    @cached_property
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Left singular vectors V (p, k) and singular values (k,)."""
        q = self.y_sum.shape[0]
        wanted = self.n_components
        width = min(q, wanted + self.n_oversamples)
        rng = np.random.default_rng(self.seed)
        if width == q:
            Q = np.eye(q)
        else:
            Q = np.linalg.qr(rng.standard_normal((q, width)))[0]
        cross = sparse.csr_array(sum(self.parts[1:], start=self.parts[0]))
        for _ in range(0 if width == q else self.n_iter):
            Q = np.linalg.qr(self._squared(cross, Q))[0]
        # In ascending order.
        values, vectors = np.linalg.eigh(Q.T @ self._squared(cross, Q))
        values = np.sqrt(np.clip(values, 0.0, None))
        kept = values > _NEGLIGIBLE * max(values[-1], np.finfo(np.float64).tiny)
        kept[: max(len(values) - wanted, 0)] = False
        values = values[kept][::-1]
        U = (Q @ vectors[:, kept])[:, ::-1]
        V = np.empty((self.x_sum.shape[0], len(values)), dtype=cross.dtype)
        for rows, product in self._products(cross, U / values):
            V[rows] = product
        return V, values

    @cached_property
    def centre(self) -> np.ndarray:
        """The components of the mean, shape (k,)."""
        V = self.directions[0]
        mean = self.x_mean
        centre = np.zeros(V.shape[1])
        # A product in double precision copies what it multiplies.
        for rows in row_blocks(*V.shape):
            centre += mean[rows] @ V[rows]
        return centre.astype(V.dtype)

    @cached_property
    def _scale(self) -> np.ndarray:
        """Inverse standard deviations of the labels, 0 for a label that never changes, shape (q,)."""
        variance = self.y_squares / self.n_rows - (self.y_sum / self.n_rows) ** 2
        varies = variance > 1e-12 * np.maximum(
            self.y_squares / self.n_rows, np.finfo(np.float64).tiny
        )
        return np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)

    def _products(self, cross: Any, right: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows of XᵀY_s times a matrix (q, w)."""
        scaled = self._scale[:, None] * right
        centre = (self.y_sum / self.n_rows) @ scaled
        for rows in row_blocks(cross.shape[0], (2, right.shape[1])):
            block = cross[rows] @ scaled
            block -= np.outer(self.x_sum[rows], centre)
            yield rows, block

    def _squared(self, cross: Any, right: np.ndarray) -> np.ndarray:
        """Return Y_sᵀX XᵀY_s times a matrix (q, w)."""
        product = np.zeros(right.shape)
        weights = np.zeros(right.shape[1])
        for rows, block in self._products(cross, right):
            product += cross[rows].T @ block
            weights += self.x_sum[rows] @ block
        product -= np.outer(self.y_sum / self.n_rows, weights)
        return self._scale[:, None] * product


def _sums(matrix: Any) -> np.ndarray:
    """Return the sums of columns (p,) in double precision."""
    sums: np.ndarray = np.asarray(matrix.sum(axis=0, dtype=np.float64)).ravel()
    return sums
