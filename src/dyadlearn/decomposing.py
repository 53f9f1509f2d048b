r"""Decompositions of the kernel of one side: of a Gram matrix, of dense features and of sparse features.

They are pure functions of arrays. `dyadlearn.spectrum.Spectrum` holds their results.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import (
    Array,
    double,
    eigh,
    epsilon,
    largest,
    matmul,
    namespace,
    row_blocks,
    row_major,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._checks import check_range
from dyadlearn._means import (
    add_constant,
    framed,
    means_of,
    moments,
    reflected,
    rest_of,
    to_complement,
    value,
    with_constant,
    with_ones,
)
from dyadlearn._svd import Blocks, economy_svd, graded_svd, gram_eigen, gram_error, right_svd
from dyadlearn.kernels.repair import (
    announced_repair,
    rank_threshold,
    symmetrized,
    symmetry_tolerance,
)

__all__ = [
    "Decomposition",
    "decompose_features",
    "decompose_gram",
    "decompose_sparse",
    "with_constant_feature",
]

#: A kernel has a null space if some eigenvalues are noise and all others exceed this share of the
#: largest one. If eigenvalues decrease smoothly there is no such gap, and eigenvalues below the
#: noise are not set to zero.
GAP = 1e-8
# Most multiplications of a decomposition of sparse features, beside those of the eigenvectors of
# their Gram matrix.
_MOST_WORK = 2e10
# Largest relative error of a combination of sparse features for which their Gram matrix is used in
# any case.
_ROUGH_GRAM = 1e-10


class Decomposition(NamedTuple):
    """Eigenvalues and eigenvectors of a kernel; attributes as in `dyadlearn.spectrum.Spectrum`.

    With a free constant, it is the last direction.
    """

    values: Array
    vectors: Array | None
    components: Array | None = None
    noise: float = 0.0
    size: float = 0.0


def decompose_gram(
    gram: Array, repair: str, name: str, constant: str | None, level: float
) -> Decomposition:
    """Decompose a Gram matrix of shape (n, n); arguments as in `Spectrum.from_gram`."""
    symmetric, gap = symmetrized(gram, "error" if repair == "error" else "mean", name)
    if gap <= symmetry_tolerance(gram):
        gap = 0.0
    symmetric = double(symmetric)
    xp = namespace(gram)
    n = gram.shape[0]
    beside = 0.0
    if constant == "feature":
        symmetric = symmetric + level
    is_reflected = constant != "free" and _has_common_part(symmetric)
    if is_reflected:
        # A large common part of all entries is separated, so that the other directions keep
        # their digits.
        symmetric = reflected(symmetric)
        symmetric = reflected(symmetric.T)
    elif constant == "free":
        beside = _length(xp.mean(symmetric, axis=0)) * math.sqrt(n)
        symmetric = to_complement(symmetric)
        symmetric = to_complement(symmetric.T)
    if symmetric.shape[0] == 0:  # a single row with a constant
        return Decomposition(zeros((1,), symmetric), zeros((1, 1), symmetric) + 1.0)
    raw, vectors = eigh(symmetric)
    del symmetric  # large
    if is_reflected:
        vectors = reflected(vectors)
    size = largest(xp.abs(raw))
    if size <= n * epsilon(raw) * beside:  # after centring only rounding errors remain
        raw = xp.zeros_like(raw)
        size = 0.0
    # Eigenvalues as small as the rounding error of the largest one are divided by.
    what = f"The eigenvalues of {name[:1].lower()}{name[1:]}"
    check_range(size, size * epsilon(raw), raw, what)
    values = announced_repair(raw, repair, n, name, beside, gap)
    noise = rank_threshold(values, max(n, 8))
    values = _with_null_space(values, raw, noise)
    if constant == "free":
        values = xp.concat([values, zeros((1,), values)])
        vectors = with_constant(vectors)
    return Decomposition(values, vectors, None, noise, max(size, beside))


def decompose_features(
    features: Array, name: str, constant: str | None, level: float
) -> Decomposition:
    """Decompose dense features of shape (n, d) by their singular values; arguments as in `Spectrum.from_features`."""
    xp = namespace(features)
    n, d = features.shape
    # The largest absolute value, without a copy. Features of a part of a side may have no column.
    extreme = 0.0
    if d:
        extreme = max(float(xp.max(features)), -float(xp.min(features)))
    like = zeros((0,), features, xp.float64)
    check_range(extreme, n * extreme * extreme, like, name)
    if constant is None:
        return _of_singular_values(*_singular_values(features, None, like))
    means = means_of(features)
    centred = _of_singular_values(*_singular_values(features, means, like))
    if constant == "feature":
        return with_constant_feature(centred, means, level)
    return centred


class _Svd(NamedTuple):
    """Singular values of features of rows in coordinates orthogonal to a free constant, if there is one.

    Attributes
    ----------
    roots : array of shape (k,)
    vectors : array of shape (n, k) or (n, k + 1)
        Left singular vectors; the last one is the free constant.
    components : array of shape (d, k)
    doubt : array of shape (k,)
        Size up to which each singular value is rounding.
    """

    roots: Array
    vectors: Array
    components: Array
    doubt: Array


def _singular_values(features: Array, means: Array | None, like: Array) -> tuple[_Svd, bool]:
    """Return the decomposition of features (n, d), about their means if given, and whether these are given."""
    is_free = means is not None
    n, d = features.shape
    rows = n - is_free
    shift = None if means is None else _complement_shift(features, means)

    def cut(places: slice, columns: slice) -> Array:
        """Return a block in double precision: centred, and in coordinates orthogonal to the constant."""
        block = double(features[places.start + is_free : places.stop + is_free, columns])
        # Means and shift are subtracted one after the other, because their sum would be rounded.
        if means is None or shift is None:
            return block
        return (block - means[columns]) - shift[columns]

    k = min(rows, d)
    if rows < d:
        columns = Blocks((d, rows), lambda here: cut(slice(0, rows), here).T, like)
        svd = economy_svd(columns, zeros((d, k), like))
        vectors = row_major(svd.right)
        if is_free:
            vectors = with_constant(vectors)
        return _Svd(svd.roots, vectors, svd.left, svd.doubt(None)), is_free
    vectors = zeros((n, k + is_free), like)
    blocks = Blocks((rows, d), lambda here: cut(here, slice(0, d)), like)
    svd = economy_svd(blocks, vectors[n - rows :, :k])
    if is_free:
        add_constant(vectors)
    return _Svd(svd.roots, vectors, row_major(svd.right), svd.doubt(means)), is_free


def _of_singular_values(svd: _Svd, is_free: bool) -> Decomposition:
    """Return the eigenvalues, without the singular values that are rounding."""
    roots, vectors, components, doubt = svd
    xp = namespace(roots)
    k = int(roots.shape[0])
    seen = roots > doubt
    noise = largest(xp.where(seen, 0.0, doubt)) ** 2
    places = np.flatnonzero(to_numpy(seen))
    if places.size < k:
        roots = take_rows(roots, places)
        components = take_rows(components.T, places).T
        kept = np.append(places, k) if is_free else places
        vectors = take_rows(vectors.T, kept).T
    with np.errstate(under="ignore"):
        values = roots**2
    size = largest(values)
    if is_free:
        components = framed(components, xp.zeros_like(values))
        values = xp.concat([values, zeros((1,), values)])
    return Decomposition(values, vectors, components, noise, size)


def with_constant_feature(centred: Decomposition, means: Array, level: float) -> Decomposition:
    r"""Return the decomposition of features with a constant column, from that of centred features with a free constant.

    .. math:: [\boldsymbol\Phi, \sqrt a\,\mathbf{1}] = [\mathbf{U}, \mathbf{1}/\sqrt n]
              \begin{bmatrix}\mathrm{diag}(\mathbf{s})\mathbf{W}^\top & \mathbf{0} \\
              \sqrt n\,\bar{\boldsymbol\phi}^\top & \sqrt{na}\end{bmatrix}

    The matrix on the right is small. Features far from zero are nearly multiples of the column
    of ones, and a joint decomposition would lose their differences.

    Parameters
    ----------
    centred : Decomposition
        Its vectors are overwritten.
    means : array of shape (d,)
        Means of the features.
    level : float
        Constant a > 0 that is added to the kernel.
    """
    assert centred.components is not None
    assert centred.vectors is not None
    xp = namespace(means)
    vectors = centred.vectors
    n = vectors.shape[0]
    right = centred.components[:-1, :-1]
    roots = centred.values[:-1] ** 0.5
    above = xp.concat([roots[:, None] * right.T, zeros((right.shape[1], 1), right)], axis=1)
    last = math.sqrt(n) * xp.concat([means, zeros((1,), means) + math.sqrt(level)])
    left, roots, rows = graded_svd(xp.concat([above, last[None, :]], axis=0))
    for here in row_blocks(*vectors.shape):
        vectors[here, : left.shape[1]] = vectors[here, :] @ left
    values = roots**2
    vectors = vectors[:, : left.shape[1]]
    return Decomposition(values, vectors, row_major(rows.T), centred.noise, largest(values))


def decompose_sparse(
    features: Array, name: str, constant: str | None, level: float
) -> tuple[Array, Decomposition]:
    """Return sparse features in double precision, with a constant, and their decomposition without vectors.

    Arguments are those of `Spectrum.from_features`.
    """
    n = features.shape[0]
    features = double(features)
    size = float(abs(features).max()) if features.nnz else 0.0
    check_range(size, n * size * size, features, name)
    if constant == "feature":
        features = with_ones(features, math.sqrt(level))
    if constant != "free":
        gram = matmul(features.T, features)
        values, components, noise = _decomposed_sparse(features, None, gram)
        return features, Decomposition(values, None, components, noise, largest(values))
    means, gram = moments(features)
    values, components, noise = _decomposed_sparse(features, means, gram)
    components = framed(components, -(value(means) @ components))
    parts = Decomposition(np.append(values, 0.0), None, components, noise, largest(values))
    return with_ones(features), parts


def _decomposed_sparse(
    features: Any, means: Array | None, gram: Array
) -> tuple[Array, Array, float]:
    """Return eigenvalues, right singular vectors and noise of sparse features, about their means (2, d) if given.

    They are those of the Gram matrix, unless it loses digits and a decomposition of the features is
    affordable. The noise of a Gram matrix is zero if it hides nothing: that of its rank is relative
    to each feature.
    """
    n, d = features.shape
    if means is None:
        offsets = np.zeros(d)
    else:
        offsets = value(means)

    def lengths_along(combinations: np.ndarray) -> np.ndarray:
        """Return the lengths (p,) of the features along combinations (d, p)."""
        squares = np.zeros(combinations.shape[1])
        for rows in row_blocks(n, combinations.shape[1]):
            squares += np.sum((features[rows] @ combinations - offsets @ combinations) ** 2, axis=0)
        return np.asarray(squares**0.5)

    error = gram_error(gram, n, lengths_along) if d <= n else 0.0
    is_affordable = 2.0 * n * d * d <= max(_MOST_WORK, 20.0 * d**3)
    if error > _ROUGH_GRAM and is_affordable:
        blocks = Blocks((n, d), lambda rows: features[rows].toarray() - offsets, gram)
        roots, components, noise = right_svd(blocks, offsets)
        if 8.0 * epsilon(roots) * largest(roots) < error * -largest(-roots):
            return roots**2, components, noise
    values, components = gram_eigen(gram, n)
    noise = 0.0
    if math.isinf(error):
        # Combinations that the Gram matrix hides have eigenvalues up to its rounding error.
        noise = n * epsilon(values) * largest(values)
    return values, components, noise


def _has_common_part(kernel: Array) -> bool:
    """Return whether the common part of all entries of a kernel (n, n) is much larger than the rest."""
    xp = namespace(kernel)
    common = float(xp.sum(kernel)) / kernel.shape[0]
    return bool(kernel.shape[0] > 1 and common > 1e4 * (float(xp.linalg.trace(kernel)) - common))


def _with_null_space(values: Array, raw: Array, noise: float) -> Array:
    """Return repaired eigenvalues: with zeros for a null space, or all positive if there is no null space.

    `raw` are the eigenvalues before the repair. Those that are negative beyond rounding are always
    set to zero.
    """
    xp = namespace(values)
    size = largest(values)
    null = values <= noise
    if size == 0 or float(xp.min(values[~null])) > GAP * size:
        return xp.where(null, 0.0, values)
    rounding = (values == 0) & (raw > -noise)
    return xp.where(rounding, epsilon(values) ** 2 * size, values)


def _complement_shift(features: Array, means: Array) -> Array:
    r"""Return the row (d,) that `to_complement` subtracts from each row of centred features."""
    root = math.sqrt(features.shape[0])
    # Because means are rounded, centred features do not sum exactly to zero.
    return (double(features[0, :]) - means + root * rest_of(features, means)) / (root + 1.0)


def _length(vector: Array) -> float:
    """Return the Euclidean norm of a vector (n,) whose squares may overflow or underflow."""
    xp = namespace(vector)
    size = largest(xp.abs(vector))
    if 0 < size < math.inf:
        return size * float(xp.linalg.vector_norm(vector / size))
    return size
