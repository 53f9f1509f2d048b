"""What users hand in is read and never written to: arrays and frames that cannot be written do as well."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn.kernels import (
    Landmarks,
    delta,
    diffusion_kernel,
    gram,
    gram_diagonal,
    graph_distance_kernel,
    kernel_names,
    minmax,
    normalize,
    pedigree,
    repair,
    shared_ancestors_kernel,
    tanimoto,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.KernelRepairWarning"),
]

RNG = np.random.default_rng(0)
N = 9
X = RNG.random((N, 3))
BITS = (X > 0.5).astype(float)
K = gram(X, kernel="rbf")
# Within the rounding that is mended without a word, so that whoever mends in place writes here.
SKEW = K + 1e-9 * RNG.random((N, N))
GRAPH = np.maximum(BITS @ BITS.T > 1, np.eye(N)).astype(float)
EDGES = np.array([[0, 1], [1, 2], [0, 3], [3, 4]])

KERNELS = {
    **{
        f"gram {name}": (lambda A, name=name: gram(A, kernel=name), BITS) for name in kernel_names()
    },
    "gram_diagonal": (gram_diagonal, X),
    "diffusion": (diffusion_kernel, GRAPH),
    "diffusion of a graph that is not quite symmetric": (
        diffusion_kernel,
        GRAPH * (1 + 1e-9 * X[:, :1]),
    ),
    "repair": (repair, SKEW),
    "repair indefinite": (repair, SKEW - 0.5 * np.eye(N)),
    "normalize": (normalize, K),
    "tanimoto": (tanimoto, BITS),
    "minmax": (minmax, X),
    "delta": (delta, X[:, :1]),
    "graph distance": (lambda A: graph_distance_kernel(A, nodes=[0, 1, 2]), EDGES),
    "shared ancestors": (lambda A: shared_ancestors_kernel(A, nodes=[2, 4]), EDGES),
    "pedigree": (pedigree, np.array([[1, 0, 0], [2, 1, 0], [3, 2, 1]])),
    "landmarks": (lambda A: Landmarks(4, random_state=0).fit_transform(A), X),
}
FORMS = ("array", "by columns", "pandas", "sparse")


def locked(values, form, prefix):
    """Return what cannot be written to, and arrays that belong to it."""
    if values is None:
        return None
    values = np.array(values, order="F" if form == "by columns" else "C")
    values.flags.writeable = False
    if form == "pandas":
        ids = [f"{prefix}{row}" for row in range(len(values))]
        return pd.DataFrame(values, index=ids, copy=False)
    if form == "sparse":
        matrix = sparse.csr_array(values)
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
        return matrix
    return values


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.MarkerCodingWarning")
@pytest.mark.parametrize("form", FORMS[:3])
def test_kernels_do_not_write_into_what_they_are_given(form, each):
    for name in each(KERNELS):
        kernel, given = KERNELS[name]
        if form == "pandas" and name in ("graph distance", "shared ancestors"):
            continue  # a frame of edges has two named columns, and no ids of its own
        there = locked(given, form, "i")
        if form == "pandas" and np.asarray(given).shape == (N, N):
            there.columns = there.index
        kernel(there)
        assert_array_equal(np.asarray(there), given)
        # Where it may be written to, it is not either.
        free = np.array(given)
        kernel(free)
        assert_array_equal(free, given)
