r"""Few features for any kernel: those of rows that stand for all of them.

With a set L of rows, the *landmarks*, and the Cholesky factor :math:`\mathbf{K}_{LL} = \mathbf{R}\mathbf{R}^\top`,

.. math:: \boldsymbol\phi(x) = \mathbf{R}^{-1}\,k(L, x), \qquad
          \boldsymbol\Phi\boldsymbol\Phi^\top = \mathbf{K}_{\cdot L}\mathbf{K}_{LL}^{-1}\mathbf{K}_{L\cdot}

is the best approximation of a positive semi-definite kernel by what the rows of L span, known after Nyström. What is
left, :math:`\mathbf{K} - \boldsymbol\Phi\boldsymbol\Phi^\top`, is positive semi-definite too, and its diagonal says how
far off each row is. Landmarks come one after the other, and each takes its own column out of what is left:

.. math:: \mathbf{f} = \frac{\mathbf{g}}{\sqrt{g_s}}, \quad
          \mathbf{g} = \mathbf{K}_{\cdot s} - \boldsymbol\Phi\,\boldsymbol\Phi_{s\cdot}^\top, \quad
          \boldsymbol\Phi \leftarrow [\boldsymbol\Phi, \mathbf{f}], \quad
          \mathbf{d} \leftarrow \mathbf{d} - \mathbf{f}^2

with :math:`\mathbf{d} = \mathrm{diag}(\mathbf{K})` at the start. Randomly pivoted Cholesky draws s with odds
:math:`\mathbf{d}`: rows that are badly off are likely to be next [1]_.

So that this is a few large products and not one small product a landmark, a block of candidates is drawn with the odds
that stand at its beginning. They are gone through in order, and candidate s is kept with probability
:math:`d_s^{\text{now}}/d_s^{\text{then}}`. Landmarks are then drawn exactly as one by one [2]_, since a candidate was
proposed with odds :math:`d_s^{\text{then}}`. A rejected one costs its values with the other candidates only.

References
----------
.. [1] Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky: Practical approximation of a
   kernel matrix with few entry evaluations", Communications on Pure and Applied Mathematics 78, 2025.
.. [2] E. N. Epperly, J. A. Tropp, R. J. Webber, "Embrace rejection: Kernel matrix approximation by accelerated randomly
   pivoted Cholesky", arXiv:2410.03969, 2024.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from dyadlearn import _array as arrays
from dyadlearn._array import Array
from dyadlearn._checks import check_choice, check_instances, check_same_library, check_whole
from dyadlearn._memory import check_memory
from dyadlearn._state import StoredEstimator, all_or_nothing
from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import KernelError, KernelRepairWarning
from dyadlearn.kernels.gram import check_kernel, common_diagonal, gram, gram_diagonal
from dyadlearn.kernels.repair import definiteness_tolerance, not_square, symmetrized

_METHODS = ("rpcholesky", "uniform")

#: Candidates at a time.
_BLOCK = 128


@dataclass(eq=False, repr=False)
class Landmarks(StoredEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Make few features of rows, whose products are close to any kernel: those of a few rows that stand for all.

    .. math:: \boldsymbol\phi(x) = \mathbf{R}^{-1}\,k(L, x), \qquad \mathbf{R}\mathbf{R}^\top = \mathbf{K}_{LL},
              \qquad \boldsymbol\Phi\boldsymbol\Phi^\top \approx \mathbf{K}

    L are r of the n rows of training, the *landmarks*. A model with a linear kernel on these features is one with the
    kernel k, up to `error_`, at a cost that does not grow with the square of n: here n·r values of the kernel, n·r²
    operations and n·r numbers. New rows have features too.

    Landmarks are chosen by the rows and the kernel alone. Labels are never looked at, so that scores of labels that are
    held out stay honest. Rows that are held out, as in settings B, C and D, have a say in the features if they were
    among those of `fit`, as they have in whatever is done to features beforehand; fit on the rows of training to leave
    them none.

    Parameters
    ----------
    n_components : int, default=100
        Number r of landmarks and of features. There are fewer where fewer reproduce the kernel to rounding: no more
        than rows that differ, or than the rank of the kernel.
    kernel : str or callable, default="rbf"
        A name out of `dyadlearn.kernels.kernel_names`; a callable ``kernel(A, B, **kernel_params)`` that returns the
        block of the kernel between rows; or "precomputed": `X` is the kernel of the rows of training with themselves,
        for new rows with those of training. A callable may compare things that are no vectors, such as texts: it gets
        two lists of them.
    kernel_params : mapping, default=None
        Parameters of the kernel by name, such as ``{"gamma": 0.1}``.
    method : {"rpcholesky", "uniform"}, default="rpcholesky"
        How landmarks are chosen: by randomly pivoted Cholesky, each with odds that are what those before it leave of
        k(x, x); or each row alike, without looking.
    random_state : int, RandomState or None, default=None
        For the choice.

    Attributes
    ----------
    n_components_ : int
        Number of landmarks.
    component_indices_ : array of shape (`n_components_`,)
        Where the landmarks stand in `X`, in the order in which they were chosen.
    components_ : array or sparse matrix of shape (`n_components_`, p), array of texts or other things, or None
        The landmarks themselves; None with a precomputed kernel.
    error_ : float
        What the features leave of the kernel of training, :math:`\mathrm{tr}(\mathbf{K} -
        \boldsymbol\Phi\boldsymbol\Phi^\top) / \mathrm{tr}(\mathbf{K})`.
    n_features_in_ : int
        Number of columns of `X`; not there where rows are no vectors.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    Warns
    -----
    KernelRepairWarning
        If the kernel is not positive semi-definite, so that no features have it for products.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : uniform landmarks for kernels of scikit-learn.
    dyadlearn.OnlineTwoStepRidge : takes it as ``feature_map``.

    References
    ----------
    Y. Chen, E. N. Epperly, J. A. Tropp, R. J. Webber, "Randomly pivoted Cholesky: Practical approximation of a kernel
    matrix with few entry evaluations", Communications on Pure and Applied Mathematics 78, 2025.

    E. N. Epperly, J. A. Tropp, R. J. Webber, "Embrace rejection: Kernel matrix approximation by accelerated randomly
    pivoted Cholesky", arXiv:2410.03969, 2024: how many are drawn at once.

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
    >>> few, all = KroneckerRidge(), KroneckerRidge(kernel="rbf")
    >>> few, all = few.fit(Phi, Y, tasks=T), all.fit(X, Y, tasks=T)
    >>> new = rng.normal(size=(3, 2))
    >>> bool(np.abs(few.predict(landmarks.transform(new)) - all.predict(new)).max() < 0.01)
    True
    """

    n_components_: int = field(init=False)
    component_indices_: np.ndarray = field(init=False)
    components_: Array | None = field(init=False)
    error_: float = field(init=False)
    _factor: Array = field(init=False)
    _diagonal: float | None = field(init=False)
    _columns: Ids | None = field(init=False)

    _shapes: ClassVar[Mapping[str, str]] = {
        "_factor": "n_components_ n_components_",
        "components_": "sparse n_components_ n_features_in_",
        "_columns": "n_features_in_",
    }

    n_components: int = 100
    kernel: Any = field(default="rbf", kw_only=True)
    kernel_params: Any = field(default=None, kw_only=True)
    method: str = field(default="rpcholesky", kw_only=True)
    random_state: Any = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks among rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, p), or n texts or other things
            Features, a kernel (n, n), or what a callable kernel compares: a list, an array of one dimension, a series,
            or a frame with one column of text.
        y : ignored

        Returns
        -------
        self
        """
        self._fitted(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Choose landmarks among rows, and return the features of these, which are at hand then.

        Parameters
        ----------
        X, y : as in `fit`

        Returns
        -------
        array of shape (n, `n_components_`)
        """
        rows, found = self._fitted(X)
        return arrays.cast(found.features, _dtype(rows, found.features))

    def transform(self, X: Any) -> Array:
        """Return the features of rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, p), or n texts or other things
            As in `fit`; a precomputed kernel has a column for each row of training.

        Returns
        -------
        array of shape (n, `n_components_`)
        """
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        features = None
        for part, found in self._mapped(rows):
            dtype = _dtype(rows, found)
            features = arrays.zeros((rows.shape[0], self.n_components_), found, dtype) if features is None else features
            features[part, :] = arrays.cast(found, dtype)
        return features

    def residual(self, X: Any, diagonal: Any = None) -> Array:
        r"""Return what the features leave of the kernel of rows with themselves.

        .. math:: k(x, x) - \|\boldsymbol\phi(x)\|^2

        For any two rows, the kernel and the product of their features differ by no more than the root of the product of
        these two numbers. New rows that have much left are unlike all landmarks.

        Parameters
        ----------
        X : as in `transform`
        diagonal : array of shape (n,), default=None
            k(x, x), for a precomputed kernel in which that is not one number for all rows.

        Returns
        -------
        array of shape (n,)
            None is negative.
        """
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        own = self._own(rows, diagonal)
        xp = arrays.namespace(own)
        squares = [xp.sum(found * found, axis=1) for _, found in self._mapped(rows)]
        left = own - xp.astype(xp.concat(squares), own.dtype, copy=False)
        return xp.where(left > 0, left, xp.zeros_like(left))

    # Fitting -------------------------------------------------------------------------------------

    def _fitted(self, X: Any) -> tuple[Array, Pivots]:
        """Choose landmarks, keep them, and return the rows that were read with all that was found."""
        with all_or_nothing(self):
            self._check_params()
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            rows = self._read(X, reset=True)
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            found = pivoted(self._source(rows), int(self.n_components), self.method, np.random.default_rng(seed))
            self.component_indices_ = found.positions
            self.n_components_ = len(found.positions)
            self.components_ = None if self._is_precomputed else arrays.take_rows(rows, found.positions)
            self.error_ = found.error
            self._factor = found.factor
            self._diagonal = common_diagonal(found.diagonal) if self._is_precomputed else None
        return rows, found

    def _check_params(self) -> None:
        check_whole(self.n_components, "n_components")
        check_choice(self.method, "method", _METHODS)
        if not self._is_precomputed:
            check_kernel(self.kernel, self.kernel_params)

    def _fits(self) -> bool:
        at, count = self.component_indices_, self.n_components_
        return (
            at.dtype.kind == "i"
            and at.shape == (count,)
            and (self.components_ is None) == self._is_precomputed
            and (not self._is_precomputed or bool(np.all((at >= 0) & (at < self.n_features_in_))))
        )

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _source(self, rows: Array) -> Source:
        if self._is_precomputed:
            return Source(rows, None)
        return Source(rows, _OnLists(self.kernel) if rows.ndim == 1 else self.kernel, self.kernel_params)

    # What users hand in --------------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool) -> Array:
        """Return rows: a matrix, or an array of one dimension where they are no vectors."""
        things = _things(X) if callable(self.kernel) else None
        if not reset and (things is not None) != (self.components_ is not None and self.components_.ndim == 1):
            kinds = ("vectors", "texts or other things")
            raise ValueError(f"X holds {kinds[things is not None]}, but the landmarks are {kinds[things is None]}.")
        if things is not None:
            return things
        table = self._aligned(read_table(X, "X"), reset=reset)
        if reset:
            self._columns = table.column_ids if self._is_precomputed else None
        rows = check_instances(self, table, is_kernel=self._is_precomputed, reset=reset)
        if not reset:
            check_same_library({"X": rows, "the landmarks": self._factor})
        elif self._is_precomputed:
            if rows.shape[0] != rows.shape[1]:
                raise not_square("", tuple(rows.shape))
            return symmetrized(rows, "error", "X")[0]
        return rows

    def _aligned(self, table: Table, *, reset: bool) -> Table:
        """Return a precomputed kernel with its columns in the order of training, where they have ids."""
        if not self._is_precomputed or table.column_ids is None:
            return table
        if not reset:
            return table.columns_as(self._columns, "the columns of X", "the rows of training")
        return table.squared("X") if len(table.row_ids or table.column_ids) == len(table.column_ids) else table

    def _own(self, rows: Array, diagonal: Any) -> Array:
        """Return the kernel of rows with themselves, shape (n,)."""
        if diagonal is not None:
            own = arrays.as_array_of(diagonal, self._factor, dtype=self._factor.dtype)
            if tuple(own.shape) != (rows.shape[0],):
                raise ValueError(f"diagonal must hold a number for each of {rows.shape[0]} rows, found {own.shape}.")
            return own
        if not self._is_precomputed:
            return self._source(rows).diagonal()
        if self._diagonal is None:
            raise KernelError("A precomputed kernel does not tell what new rows are to themselves: give diagonal=.")
        return arrays.namespace(rows).full_like(rows[:, 0], self._diagonal)

    def _mapped(self, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Yield features of rows, block by block."""
        landmarks = self.component_indices_ if self._is_precomputed else self.components_
        for part, K in self._source(rows).columns(landmarks):
            yield part, arrays.solve_lower(self._factor, K.T).T

    # What scikit-learn asks ----------------------------------------------------------------------

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


# Where the kernel comes from ---------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """The kernel of rows, of which only what is asked for is computed.

    Attributes
    ----------
    values : array of shape (n, d) or (n,)
        The rows, or where there is no `kernel` that of rows with all of training.
    kernel, params : as in `gram`
    """

    values: Array
    kernel: Any
    params: Mapping[str, Any] | None = None

    def landmarks(self, at: np.ndarray) -> Array:
        """Return some of the rows, or their positions where the kernel of all is there."""
        return at if self.kernel is None else arrays.take_rows(self.values, at)

    def diagonal(self) -> Array:
        """Return k(x, x) of all rows, shape (n,)."""
        if self.kernel is None:
            return arrays.double(arrays.namespace(self.values).linalg.diagonal(self.values))
        return gram_diagonal(_numbers(self.values), kernel=self.kernel, params=self.params)

    def block(self, at: np.ndarray) -> Array:
        """Return the kernel of some rows with each other."""
        if self.kernel is None:
            return arrays.double(arrays.take_block(self.values, at, at))
        return gram(_numbers(arrays.take_rows(self.values, at)), kernel=self.kernel, params=self.params)

    def columns(self, landmarks: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the kernel of all rows with landmarks, block by block."""
        width = max(landmarks.shape[0], math.prod(self.values.shape[1:]))
        for part in arrays.row_blocks(self.values.shape[0], 8 * width):
            rows = self.values[part, ...]
            if self.kernel is None:
                yield part, arrays.double(arrays.take_rows(rows.T, landmarks).T)
            else:
                yield part, gram(_numbers(rows), _numbers(landmarks), kernel=self.kernel, params=self.params)


def _dtype(rows: Array, features: Array) -> Any:
    """Return the dtype of features of rows: that of rows of numbers, else that they were computed in."""
    return features.dtype if rows.ndim == 1 else rows.dtype


def _numbers(rows: Array) -> Array:
    """Return rows of numbers in double precision, and things that are no numbers as they are."""
    return rows if rows.ndim == 1 else arrays.double(rows)


class _OnLists:
    """A kernel of things that are no vectors, which gets them in lists."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self.__name__ = getattr(kernel, "__name__", type(kernel).__name__)
        own = getattr(kernel, "diagonal", None)
        self.diagonal = (lambda A, **params: np.asarray(own(A.tolist(), **params))) if callable(own) else None

    def __call__(self, A: np.ndarray, B: np.ndarray, **params: Any) -> Any:
        return self._kernel(A.tolist(), B.tolist(), **params)


def _things(X: Any) -> np.ndarray | None:
    """Return what is no table of numbers but a sequence of texts or other things, as an array of objects (n,)."""
    if arrays.is_sparse(X) or arrays.is_foreign(X) or isinstance(X, Table):
        return None
    values = read_table(X, "X", of_words=True).values
    things = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
    if things.ndim == 2 and things.shape[1] == 1:
        things = things[:, 0]
    is_vector = things.ndim != 1 or things.size == 0 or things.dtype.kind not in "OUT"
    return None if is_vector or isinstance(things[0], Real | np.bool_) else things.astype(object)


# The mathematics ---------------------------------------------------------------------------------


class Pivots(NamedTuple):
    """Landmarks, and the features of all rows that they make.

    Attributes
    ----------
    positions : ndarray of shape (r,)
        Of the landmarks, in the order in which they were chosen.
    features : array of shape (n, r)
        Φ, such that ΦΦᵀ is close to the kernel.
    factor : array of shape (r, r)
        R, lower triangular: the Cholesky factor of the kernel of the landmarks, which are its rows in this order.
    residual, diagonal : arrays of shape (n,)
        Of K − ΦΦᵀ and of K, with zeros for what is negative.
    """

    positions: np.ndarray
    features: Array
    factor: Array
    residual: Array
    diagonal: Array

    @property
    def error(self) -> float:
        """The trace of what is left, relative to that of the kernel."""
        xp = arrays.namespace(self.diagonal)
        return float(xp.sum(self.residual)) / float(xp.sum(self.diagonal))


def pivoted(source: Source, n_components: int, method: str, rng: np.random.Generator) -> Pivots:
    r"""Choose landmarks, block by block, and take their columns out of the kernel.

    Nothing of size n × n is formed. What a sum of r products leaves of k(x, x) is known up to
    :math:`r\varepsilon\,k(x, x)`; less than that is noise and counts as nothing, so that rows which those before span,
    such as repeated ones, are never landmarks. So does less than what came out below zero, of any row and relative to
    its k(x, x): as much is wrong with the kernel itself, by its rounding or because it is none.

    Parameters
    ----------
    source : Source
        The kernel.
    n_components : int
        How many landmarks there may be.
    method : {"rpcholesky", "uniform"}
    rng : Generator

    Returns
    -------
    Pivots
    """
    given = source.diagonal()
    n, xp = given.shape[0], arrays.namespace(given)
    # A row that is less than nothing to itself has no features; that is told at the end.
    diagonal, lowest = xp.where(given > 0, given, xp.zeros_like(given)), min(0.0, float(xp.min(given)))
    if arrays.largest(diagonal) == 0:
        raise KernelError("The kernel of every row with itself is zero or less: choose another kernel, or other rows.")
    most = min(n_components, n)
    need = arrays.itemsize(diagonal) * (n * (most + 4 * min(most, _BLOCK)) + most**2)
    check_memory(need, diagonal, f"{most} landmarks of {n} rows", "use fewer landmarks")
    noise = max(most, 10) * arrays.epsilon(diagonal)
    # Less than half of the digits of a landmark that was drawn without looking would be noise to the features of rows
    # that are still far off: such a landmark waits until none is.
    half = math.sqrt(arrays.epsilon(diagonal))
    residual = arrays.copied(diagonal)
    features, factor = arrays.zeros((n, most), diagonal), arrays.zeros((most, most), diagonal)
    positions = np.empty(0, dtype=np.intp)
    unseen = rng.permutation(n) if method == "uniform" else positions
    while (done := len(positions)) < most and arrays.largest(residual) > 0:
        in_order = len(unseen) == 0
        if not in_order:
            candidates, unseen = np.split(unseen, [min(_BLOCK, most - done)])
            least = half * _at(diagonal, candidates)
        else:
            candidates = arrays.drawn(residual, rng.random(_BLOCK))
            least = rng.random(_BLOCK) * _at(residual, candidates)
        ahead = arrays.take_rows(features, candidates)[:, :done]
        left = arrays.to_numpy(source.block(candidates) - ahead @ ahead.T)
        own, sizes = _at(residual, candidates), _at(diagonal, candidates)
        kept, triangle = _kept(candidates, left, own, least, sizes, noise, most - done, in_order=in_order)
        if not len(kept):
            continue
        chosen, stop = candidates[kept], done + len(kept)
        ahead, triangle = arrays.take_rows(ahead, kept), arrays.as_array_of(triangle, diagonal, dtype=diagonal.dtype)
        columns = xp.concat([K for _, K in source.columns(source.landmarks(chosen))])
        columns = columns - features[:, :done] @ ahead.T
        new = arrays.solve_lower(triangle, columns.T).T
        features[:, done:stop] = new
        factor[done:stop, :done], factor[done:stop, done:stop] = ahead, triangle
        positions = np.concatenate([positions, chosen])
        residual = residual - xp.sum(new * new, axis=1)
        lowest = min(lowest, float(xp.min(residual)))
        noise = max(noise, -float(xp.min(residual / xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal)))))
        residual = xp.where(residual > noise * diagonal, residual, xp.zeros_like(residual))
        for position in chosen.tolist():
            residual[position] = 0.0
    if -lowest > max(definiteness_tolerance(diagonal, n), half * arrays.largest(diagonal)):
        excess = (
            f"features have up to {-lowest:.3g} too much of k(x, x), which is at most {arrays.largest(diagonal):.3g}"
        )
        message = f"The kernel is not positive semi-definite: {excess}. Repair it, or choose another one."
        warnings.warn(message, KernelRepairWarning, stacklevel=4)
    done = len(positions)
    if done < most:
        features, factor = arrays.copied(features[:, :done]), arrays.copied(factor[:done, :done])
    return Pivots(positions, features, factor, residual, diagonal)


def _at(values: Array, positions: np.ndarray) -> np.ndarray:
    """Return some of the values (n,) in double precision."""
    return np.asarray(arrays.to_numpy(arrays.take_rows(values, positions)), dtype=np.float64)


def _kept(
    candidates: np.ndarray,
    left: np.ndarray,
    own: np.ndarray,
    least: np.ndarray,
    sizes: np.ndarray,
    noise: float,
    most: int,
    *,
    in_order: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Go through candidates, and keep those of whom those kept before leave more than the least.

    Parameters
    ----------
    candidates : ndarray of shape (b,)
        Positions; one may occur again, and is kept once.
    left : ndarray of shape (b, b)
        What landmarks so far leave of the kernel between candidates.
    own, least, sizes : ndarrays of shape (b,)
        Its diagonal, what must be left of it, and that of the kernel.
    noise : float
        What must be left of it at least, relative to the kernel.
    most : int
        How many may be kept.
    in_order : bool
        Whether they are gone through as they come; otherwise next is always who has most left, relative to the kernel,
        which is kinder to its digits.

    Returns
    -------
    kept : ndarray of shape (t,)
        Places among the candidates.
    triangle : ndarray of shape (t, t)
        Cholesky factor of what is left between those.
    """
    own, rows = own.copy(), np.zeros((len(candidates), min(len(candidates), most)))
    scale = np.where(sizes > 0, sizes, 1.0)
    kept: list[int] = []
    for turn in range(len(candidates)):
        place = turn if in_order else int(np.argmax(own / scale))
        if own[place] <= max(least[place], noise * sizes[place]):
            continue
        done, root = len(kept), math.sqrt(own[place])
        rows[:, done] = (left[:, place] - rows[:, :done] @ rows[place, :done]) / root
        rows[place, done] = root
        own -= rows[:, done] ** 2
        own[candidates == candidates[place]] = 0.0
        noise = max(noise, -float(np.min(own / scale)))
        kept.append(place)
        if done + 1 == rows.shape[1]:
            break
    places = np.array(kept, dtype=np.intp)
    return places, np.tril(rows[places, : len(kept)])
