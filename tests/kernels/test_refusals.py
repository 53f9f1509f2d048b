"""What kernels refuse: calls, the type of the error, and a part of its sentence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels import (
    Product,
    Sum,
    brownian_kernel,
    diffusion_kernel,
    gram,
    gram_diagonal,
    graph_distance_kernel,
    kernel_names,
    normalize,
    read_newick,
    repair,
    shared_ancestors_kernel,
    taxonomy_kernel,
    tree_distance_kernel,
    vectors,
)
from dyadlearn.kernels.repair import asymmetry, mended, repaired_values, symmetrized
from sweeps import lines, over

rng = np.random.default_rng(0)
A, B = rng.random((7, 5)), rng.random((4, 5))
SMALL = np.ones((3, 2))
APES = "((human:6,chimp:6):84,mouse:90);"
EDGE = [("a", "b")]
RANKS = [("Mammalia", "Felidae", "Felis"), ("Aves", "Corvidae", "Corvus")]
TENSE = np.array([[1.0, 0.5], [0.25, 1.0]])


def one_sided(A):
    return A


def with_power(A, B, power):
    return A @ B.T


def table(function, *rows):
    """Return rows of arguments with a function in front."""
    return [(function, *row) for row in rows]


GRAM = table(
    lambda kernel, params=None: gram(A, B, kernel=kernel, kernel_params=params),
    (("tanimito",), KernelError, r"Unknown kernel 'tanimito'\. Did you mean 'tanimoto'\? Known"),
    (("zzz",), KernelError, ".*".join(kernel_names())),
    (("precomputed",), KernelError, "'precomputed' is a Gram matrix already"),
    (
        ("poly", {"gama": 1}),
        KernelError,
        "'poly' takes no parameter 'gama'; it takes degree, gamma, coef0",
    ),
    (
        ("linear", {"gamma": 1}),
        KernelError,
        "'linear' takes no parameter 'gamma'; it takes none",
    ),
    (("rbf", 0.5), KernelError, "params must be a mapping"),
    (("rbf", {"gamma": -1}), KernelError, "gamma of kernel 'rbf' must be .* at least 0, found -1"),
    ((one_sided,), KernelError, r"one_sided\(A\) cannot be called as kernel\(A, B"),
    ((with_power,), KernelError, r"with_power.*missing a required argument: 'power'"),
    ((RBF(), {"gamma": 1}), KernelError, r"RBF.*unexpected keyword argument 'gamma'"),
    # An error inside a function is left alone.
    ((lambda A, B: len(None),), TypeError, "NoneType"),
    ((lambda A, B: B @ A.T,), KernelError, r"expected shape \(7, 4\), found \(4, 7\)"),
    ((lambda A, B: A.sum(axis=1),), KernelError, r"expected shape \(7, 4\), found \(7,\)"),
    ((lambda A, B: 1j * (A @ B.T),), KernelError, "real numbers, found dtype complex128"),
    ((3,), KernelError, "or a callable, found int"),
)
DIAGONAL = table(
    lambda kernel, params=None: gram_diagonal(SMALL, kernel=kernel, kernel_params=params),
    (("rbf", {"gamma": -1.0}), KernelError, "gamma of kernel 'rbf' must be a number"),
    (("rbf", {"width": 1.0}), KernelError, "takes no parameter 'width'"),
    (("precomputed",), KernelError, "cannot be computed from features"),
    ((lambda A, B: np.ones((1, 1)),), KernelError, "must return one row per row of A"),
)
NO_ROWS = table(
    lambda kernel: gram(A, np.ones((0, 5)), kernel=kernel),
    (("linear",), ValueError, "0"),
    ((lambda A, B: A @ B.T,), ValueError, "0"),
)
VECTORS = table(
    lambda name, *given: getattr(vectors, name)(*given),
    (("linear", SMALL, np.ones((3, 4))), ValueError, "same features, found 2 and 4 of them"),
    (("linear", np.ones(3)), ValueError, "Expected 2D array, got 1D array"),
    (("linear", SMALL, np.ones((0, 2))), ValueError, r"B is empty: found shape \(0, 2\)"),
    (("linear", np.array([["a", "b"]])), ValueError, "A holds text where numbers belong"),
    (("chi2", SMALL, sparse.csr_array(SMALL)), ValueError, "takes no sparse features"),
    (("minmax", sparse.csr_array([[0.0, -2.0]])), ValueError, "A contains negative entries"),
    (("tanimoto", sparse.csr_array([[0.0, np.nan]])), ValueError, "A contains NaN"),
    (("tanimoto", sparse.csr_array([[0.0, np.inf]])), ValueError, "A contains infinity"),
)
PARAMETERS = [
    (
        lambda name, parameter, value: getattr(vectors, name)(SMALL, **{parameter: value}),
        (name, parameter, value),
        KernelError,
        f"{parameter} of kernel '{name}' must be a number",
    )
    for name, parameter, values in [
        ("rbf", "gamma", [-1, "scale"]),
        ("laplacian", "gamma", [np.nan]),
        ("chi2", "gamma", [None]),
        ("polynomial", "degree", [0]),
        ("polynomial", "gamma", [True, -0.1]),
        ("polynomial", "coef0", [None, np.inf]),
    ]
    for value in values
]
COMBINED = [
    (combination, given, error, message)
    for combination in (Sum, Product)
    for given, error, message in [
        ((("linear", "rfb"),), KernelError, r"Unknown kernel 'rfb'\. Did you mean 'rbf'"),
        (((("rbf", {"degree": 1}),),), KernelError, "'rbf' takes no parameter 'degree'"),
        ((("rbf", {"gamma": 1}),), KernelError, r"a name, a pair .* found {'gamma': 1}"),
        (("rbf",), KernelError, "sequence of kernels, found the single 'rbf'"),
        (((),), ValueError, "kernels must hold at least one"),
        ((("rbf", "linear"), (1,)), ValueError, "one number for each of 2 kernels, found 1"),
        *[
            ((("rbf", "linear"), (1, weight)), ValueError, "weights must be non-negative finite")
            for weight in (-1, np.nan, np.inf, "1")
        ],
    ]
]
NORMALIZED = table(
    normalize,
    ((np.ones((2, 3)),), KernelError, r"K must be square unless .* found shape \(2, 3\)"),
    ((np.ones((2, 3)), [1.0, 1.0]), ValueError, "go together"),
    (
        (np.ones((2, 3)), [1.0, 1.0], [1.0, 1.0]),
        ValueError,
        r"column_diagonal must .* each of the 3 columns of K, found shape \(2,\)",
    ),
    (
        (np.ones((2, 3)), [1.0, -1.0], [1.0, 1.0, 1.0]),
        KernelError,
        "row_diagonal must be finite and non-negative.* -1",
    ),
    ((-np.eye(2),), KernelError, "the diagonal of K must be finite and non-negative"),
    (([[1.0, np.nan], [np.nan, 1.0]],), ValueError, "K contains NaN or infinity"),
    (
        (np.diag([1.0, 1e-310]),),
        KernelError,
        "the diagonal of K has the tiny value 1e-310: multiply the kernel",
    ),
)
REPAIRED = [
    *table(
        lambda K, symmetrize, psd="clip": repair(K, symmetrize=symmetrize, psd=psd),
        ((TENSE, "error"), KernelError, "K is not symmetric"),
        (
            (np.array([[1.0, 2.0], [2.0, 1.0]]), "mean", "error"),
            KernelError,
            "K is not positive semi-definite: 1 of its 2 eigenvalues",
        ),
        ((SMALL[:2], "max"), ValueError, "symmetrize must be one of 'mean', 'error', found 'max'"),
        (
            (SMALL[:2], "mean", "flip"),
            ValueError,
            "psd must be one of 'clip', 'shift', 'error', found 'flip'",
        ),
    ),
    *table(
        symmetrized,
        ((SMALL[:2], "max"), ValueError, "symmetrize must be one of"),
        (
            (TENSE, "error", "G"),
            KernelError,
            "G is not symmetric: .* is 0.25, the tolerance is 1e-08",
        ),
    ),
    *table(
        repaired_values,
        ((np.ones(2), "flip", 2), ValueError, "psd must be one of"),
        (
            (np.array([-0.5, -1.1e-6, -0.9e-6, 1.0]), "error", 4, "G"),
            KernelError,
            r"G is not .*: 2 of its 4 eigenvalues .* smallest -0.5 \(the largest is 1\)",
        ),
    ),
    (mended, (np.diag([1.0, -1e-4]), "error", "K"), KernelError, "1 of its 2 eigenvalues"),
    *[
        (function, (np.ones(shape),), KernelError, r"K must be square with at least one row, fo")
        for function in (repair, symmetrized, asymmetry)
        for shape in [(0, 0), (2, 3), (4,), (2, 2, 2)]
    ],
]
DISTANCES = table(
    graph_distance_kernel,
    ((EDGE, ["c", "a", "d"]), IdError, "2 of 3 nodes are in no edge: 'c', 'd'"),
    ((EDGE, range(9)), IdError, "9 of 9 nodes are in no edge: 0, 1, 2, 3, 4, …"),
    ((EDGE, ["a", "b", "a"]), IdError, "nodes must be different, but 1 are repeated: 'a'"),
    ((EDGE, []), ValueError, "nodes must hold at least one label"),
    *[
        (([("a", "b", 1), ("b", "c", length)], ["a"]), ValueError, "finite and non-negative, found")
        for length in (-1, np.nan, np.inf)
    ],
    *[
        (([("a", "b", length)], ["a"]), ValueError, "third column of edges must hold lengths")
        for length in ("far", None)
    ],
    *[
        ((edges, ["a"]), ValueError, f"2 columns .* or 3 .* found {found}")
        for edges, found in [
            ([], "no edges"),
            ([("a",)], "rows of width 1"),
            ([("a", "b"), ("a", "b", 1)], "rows of width 2, 3"),
            (np.ones((2, 4)), "rows of width 4"),
            (["ab", "bc"], "rows of width 0"),
        ]
    ],
)
SCALES = [
    (
        lambda kernel, *given: kernel(*given[:-1], scale=given[-1]),
        (*given, scale),
        ValueError,
        "scale must be a positive number, found",
    )
    for given in [(graph_distance_kernel, EDGE, ["a", "b"]), (tree_distance_kernel, APES)]
    for scale in [0, -1.0, np.nan, np.inf, "10", True]
]
ANCESTORS = table(
    shared_ancestors_kernel,
    (
        ([("a", "b"), ("b", "c"), ("c", "b")], ["a"]),
        ValueError,
        "no term may be its own ancestor, .* cycle: ('b' → 'c' → 'b'|'c' → 'b' → 'c')",
    ),
    (
        ([("a", "b", 1.0)], ["a"]),
        ValueError,
        r"edges must have 2 columns \(two nodes\), found rows of width 3",
    ),
    ((EDGE, ["c"]), IdError, "1 of 1 nodes are in no edge: 'c'"),
)
DIFFUSION = table(
    diffusion_kernel,
    (
        (np.ones((3, 2)),),
        KernelError,
        r"square adjacency matrix, found shape \(3, 2\); for edges, give nodes too",
    ),
    (
        ([[0, 1], [2, 0]],),
        KernelError,
        "graph is not symmetric: the largest gap to its transpose is 1, ",
    ),
    (([[0, -1], [-1, 0]],), ValueError, "weights of graph must not be negative, found -1"),
    (([[0, np.nan], [np.nan, 0]],), ValueError, "NaN"),
    (([[0, "x"], ["x", 0]],), ValueError, "graph holds text where numbers belong"),
    ((np.empty((0, 0)),), ValueError, "graph is empty"),
    (([("a", "b", "heavy")], ["a"]), ValueError, "third column of edges must hold weights"),
    (
        ([("a", "b", -2)], ["a"]),
        ValueError,
        "weights of edges must be finite and non-negative, found -2",
    ),
    ((EDGE, ["z"]), IdError, "1 of 1 nodes are in no edge: 'z'"),
)
OPTIONS_OF_DIFFUSION = table(
    lambda option, value: diffusion_kernel(EDGE, ["a"], **{option: value}),
    (
        ("kind", "cold"),
        ValueError,
        "kind must be one of 'heat', 'regularized_laplacian', found 'cold'",
    ),
    (("beta", -1), ValueError, "beta must be a finite number of at least 0, found -1"),
)
TREES = [
    *table(
        read_newick,
        (("(human,(human,mouse));",), IdError, "tips of the tree has repeated ids: 'human'"),
        (("(,);",), IdError, "tips of the tree has no id at position 0"),
        ((3,), TypeError, "is a text, found int"),
    ),
    *table(
        brownian_kernel,
        (
            (APES, ["rat", "human", "cat"]),
            IdError,
            "2 of 3 tips are not in the tree: 'rat', 'cat'",
        ),
        (
            (APES, ["human", "mouse", "human"]),
            IdError,
            "tips must be different, but 1 are repeated: 'human'",
        ),
        ((APES, []), ValueError, "tips must hold at least one label"),
    ),
]
TAXONOMIES = table(
    taxonomy_kernel,
    *[
        ((table_,), ValueError, rf"A must be a table .* found shape \({shape}\)")
        for table_, shape in [
            ([], "0,"),
            ([()], "1, 0"),
            (["Felis", "Canis"], "2,"),
            ([("a", "b"), ("c",)], "2,"),
            (np.array([1.0, 2.0]), "2,"),
            (None, ""),
            ("abc", ""),
        ]
    ],
    (([("a", 1.5)],), ValueError, "the rank 1 holds 1.5, which is no name"),
    (([("a", ["b"])],), ValueError, r"the rank 1 holds \['b'\], which is no name"),
)
OPTIONS_OF_TAXONOMIES = table(
    lambda option, value: taxonomy_kernel(RANKS, **{option: value}),
    (("weights", (1, 2)), ValueError, "weights must hold one number for each of 3 ranks, found 2"),
    (("weights", (0, 0, 0)), ValueError, "all zero"),
    (("weights", (1, 1, -1)), ValueError, "non-negative"),
    (("ranks", []), ValueError, "ranks must hold at least one"),
    (
        ("ranks", "cls"),
        TypeError,
        "ranks must be a list of columns, the highest first, found the text 'cls'",
    ),
    (("ranks", [1, 0, 1]), IdError, "The list of ranks has repeated ids: 1"),
    (("B", [("a", "b")]), ValueError, "the same ranks, found 3 in A and 2 in B"),
)


@over(
    lines(
        "call given error message",
        *GRAM,
        *DIAGONAL,
        *NO_ROWS,
        *VECTORS,
        *PARAMETERS,
        *COMBINED,
        *NORMALIZED,
        *REPAIRED,
        *DISTANCES,
        *SCALES,
        *ANCESTORS,
        *DIFFUSION,
        *OPTIONS_OF_DIFFUSION,
        *TREES,
        *TAXONOMIES,
        *OPTIONS_OF_TAXONOMIES,
    )
)
def test_calls_are_refused(call, given, error, message):
    with pytest.raises(error, match=message):
        call(*given)


def test_what_is_not_finite_is_refused_in_every_library(library):
    large = library.asarray(np.array([[1e15], [-1e15]]))
    for kernel, params in (
        ("poly", {"degree": 40, "gamma": 1}),
        ("poly", {"degree": 1.5}),
        (lambda A, B: A @ B.T + float("nan"), None),
    ):
        with pytest.raises(ValueError, match="gave NaN or infinity"):
            gram(large, kernel=kernel, kernel_params=params)
    good = library.asarray([[1.0, 2.0]])
    for value in (np.nan, np.inf, -np.inf):
        bad = library.asarray([[value, 2.0]])
        with pytest.raises(ValueError, match="A contains (NaN|infinity)"):
            vectors.delta(bad)
        with pytest.raises(ValueError, match="B contains (NaN|infinity)"):
            vectors.tanimoto(good, bad)
        for place in ((0, 0), (1, 0)):
            plain = np.eye(3)
            plain[place] = value
            with pytest.raises(ValueError, match="K contains NaN or infinity"):
                repair(library.asarray(plain))


def test_negative_entries_are_refused_in_every_library(library):
    good = library.asarray([[1.0, 2.0]])
    bad = library.asarray([[1.0, -2.0]])
    for kernel in (vectors.minmax, vectors.chi2):
        message = f"A contains negative entries, down to -2; kernel '{kernel.__name__}'"
        with pytest.raises(ValueError, match=message):
            kernel(bad)
        with pytest.raises(ValueError, match="B contains negative entries"):
            kernel(good, bad)


def test_two_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    for other in (SMALL, sparse.csr_array(SMALL)):
        with pytest.raises(TypeError, match="one library, found A of array_api_strict, B of numpy"):
            vectors.tanimoto(strict.asarray(SMALL), other)
