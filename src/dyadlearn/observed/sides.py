"""Spectra of tall features: no copy of them is made, and only their Gram matrix is decomposed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dyadlearn._array import Array, eigh, epsilon, is_sparse, itemsize, namespace, row_blocks, zeros
from dyadlearn._centre import framed, means_of, with_ones
from dyadlearn._checks import check_range
from dyadlearn.kernels.repair import rank_threshold
from dyadlearn.spectrum import Spectrum

__all__ = ["tall_spectrum"]


def tall_spectrum(features: Array, *, name: str = "the features", constant: str | None = None) -> Spectrum:
    r"""Decompose the linear kernel of features (n, d) as `Spectrum.from_features` does, at less cost where d < n.

    Two products with the features and a decomposition of d × d; beside the features there is room for the vectors
    alone. Eigenvalues are resolved down to :math:`\varepsilon\,\sigma_{\max}`, as they are in the dual.

    Parameters
    ----------
    features : array or sparse matrix of shape (n, d)
    name, constant : as in `Spectrum.from_features`

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.observed.sides import tall_spectrum
    >>> tall_spectrum(np.array([[1.0], [2.0], [2.0]])).values
    array([9.])
    """
    if is_sparse(features):
        return Spectrum.from_features(features, name=name, constant=constant)
    xp, (n, d) = namespace(features), features.shape
    size = float(max(xp.max(features), -xp.min(features)))
    overflows = n * size * size > float(xp.finfo(features.dtype).max)
    check_range(size, math.inf if overflows else size * size, features, name)
    means = means_of(features) if constant == "free" else None
    width, lost = d + (constant == "feature"), 0.0
    if means is not None:
        # What centring leaves of a feature that is constant: its rounding, which has a square too.
        lost = n * (4.0 * epsilon(means)) ** 2 * float(xp.vecdot(means, means))

    def blocks() -> Iterator[tuple[slice, Array]]:
        for block in row_blocks(n, width * itemsize(features)):
            rows = features[block, :]
            if means is not None:
                rows = rows - means
            yield block, with_ones(rows) if constant == "feature" else rows

    gram = zeros((width, width), features)
    for _, rows in blocks():
        gram += rows.T @ rows
    values, components = eigh(gram)
    # There may be fewer rows than features, whose null space rounds as theirs does.
    kept = values > max(rank_threshold(values, max(n, width)), lost)
    rank = int(xp.sum(xp.astype(kept, xp.int64)))
    # In ascending order, so that the kept ones are the last.
    values, components = values[width - rank :], components[:, width - rank :]
    vectors = zeros((n, rank + (means is not None)), features)
    for block, rows in blocks():
        vectors[block, :rank] = rows @ (components / values**0.5)
    if means is None:
        return Spectrum(values, n, components, vectors, None, constant)
    vectors[:, rank] = 1.0 / math.sqrt(n)
    components = framed(components, xp.zeros_like(values))
    return Spectrum(xp.concat([values, zeros((1,), values)]), n, components, vectors, None, constant)
