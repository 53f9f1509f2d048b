"""Kernels say how much memory they need before they compute anything, and they need no more."""

import numpy as np
import pytest
from scipy import sparse

from dyadlearn.datasets import make_dyads
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.kernels import (
    brownian_kernel,
    delta,
    gram,
    graph_distance_kernel,
    kernel_names,
    minmax,
    normalize,
    pairs_of,
    pedigree,
    repair,
    shared_ancestors_kernel,
    tanimoto,
    taxonomy_kernel,
    tree_distance_kernel,
)
from dyadlearn.kernels.sequences import smith_waterman, spectrum_kernel
from telling import MIB, taken, told, with_free

N = 500
RNG = np.random.default_rng(0)
COUNTS = RNG.integers(0, 3, size=(N, 6)).astype(float)
SQUARE = COUNTS @ COUNTS.T
SINGLE = COUNTS.astype(np.float32)
SPARSE = sparse.csr_array(COUNTS)
TIPS = [f"t{tip}" for tip in range(N)]
TREE = f"({','.join(f'{tip}:1' for tip in TIPS)});"
EDGES = [(0, node) for node in range(1, N + 1)]
SEQUENCES = ["".join(letters) for letters in RNG.choice(list("ACDEFGHIKLMNPQRSTVWY"), size=(N, 6))]
NODES = range(1, N + 1)

CALLS = {
    "tanimoto": lambda: tanimoto(COUNTS),
    "tanimoto of sparse features": lambda: tanimoto(SPARSE),
    "minmax in single precision": lambda: minmax(SINGLE, SINGLE[:400]),
    "delta": lambda: delta(COUNTS),
    **{f"gram {name}": lambda name=name: gram(COUNTS, kernel=name) for name in kernel_names()[::2]},
    "gram rbf, single": lambda: gram(SINGLE, COUNTS[:300], kernel="rbf"),
    "gram of sparse features": lambda: gram(SPARSE, kernel="cosine"),
    "gram of a function": lambda: gram(COUNTS, kernel=lambda A, B: A @ B.T),
    "brownian": lambda: brownian_kernel(TREE),
    "tree distance": lambda: tree_distance_kernel(TREE, TIPS[::-1]),
    "taxonomy": lambda: taxonomy_kernel([(tip[:2], tip) for tip in TIPS]),
    "graph distance": lambda: graph_distance_kernel(EDGES, NODES),
    "shared ancestors": lambda: shared_ancestors_kernel(EDGES, NODES),
    "pedigree": lambda: pedigree([(row, row - 1, row // 2) for row in range(1, 500)]),
    "spectrum": lambda: spectrum_kernel(SEQUENCES, k=1),
    "pairs": lambda: pairs_of(SQUARE, list(range(400)), list(range(1, 401))),
    "pairs of features": lambda: pairs_of(
        COUNTS, list(range(400)), list(range(1, 401)), kernel="linear"
    ),
    "normalize": lambda: normalize(SQUARE),
    "repair": lambda: repair(SQUARE - 1.0),
    "dyads": lambda: make_dyads(N, 300, main_effects=0.5, missing=0.1, random_state=0),
    "network": lambda: make_dyads(N, symmetry="symmetric", random_state=0),
}


def test_what_is_told_is_an_upper_bound(each):
    words = r" needs about .* MiB of memory, but only 1\.0 MiB are free: "
    for name in each(CALLS):
        need = told(CALLS[name])
        peak = taken(CALLS[name])
        # Half a megabyte is for lists of names, and sequences as arrays.
        assert peak - 2**19 < need < 3 * peak
        # Nothing is computed without it.
        with with_free(MIB), pytest.raises(NotEnoughMemoryError, match=words):
            CALLS[name]()


def test_no_sequence_is_aligned_without_memory(monkeypatch):
    monkeypatch.setattr("dyadlearn.kernels.sequences._engine", lambda: None)
    with (
        with_free(MIB),
        pytest.raises(NotEnoughMemoryError, match="A kernel of 500 × 500 entities needs about"),
    ):
        smith_waterman(SEQUENCES, progress=False)
