"""What kernels refuse: calls, the type of the error, and a part of its sentence."""

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


def table(function, error, *rows):
    """Return calls of a function: of each row the error if it is another one, the words, and the arguments."""
    found = []
    for row in rows:
        kind, words, *given = row if isinstance(row[0], type) else (error, *row)
        found.append((function, given, kind, words))
    return found


GRAM = table(
    lambda kernel, params=None: gram(A, B, kernel=kernel, kernel_params=params),
    KernelError,
    (r"Unknown kernel 'tanimito'\. Did you mean 'tanimoto'\? Known", "tanimito"),
    (".*".join(kernel_names()), "zzz"),
    ("'precomputed' is a Gram matrix already", "precomputed"),
    ("'poly' takes no parameter 'gama'; it takes degree, gamma, coef0", "poly", {"gama": 1}),
    ("'linear' takes no parameter 'gamma'; it takes none", "linear", {"gamma": 1}),
    ("params must be a mapping", "rbf", 0.5),
    ("gamma of kernel 'rbf' must be .* at least 0, found -1", "rbf", {"gamma": -1}),
    (r"one_sided\(A\) cannot be called as kernel\(A, B", one_sided),
    (r"with_power.*missing a required argument: 'power'", with_power),
    (r"RBF.*unexpected keyword argument 'gamma'", RBF(), {"gamma": 1}),
    # An error inside a function is left alone.
    (TypeError, "NoneType", lambda A, B: len(None)),
    (r"expected shape \(7, 4\), found \(4, 7\)", lambda A, B: B @ A.T),
    (r"expected shape \(7, 4\), found \(7,\)", lambda A, B: A.sum(axis=1)),
    ("real numbers, found dtype complex128", lambda A, B: 1j * (A @ B.T)),
    ("or a callable, found int", 3),
)
DIAGONAL = table(
    lambda kernel, params=None: gram_diagonal(SMALL, kernel=kernel, kernel_params=params),
    KernelError,
    ("gamma of kernel 'rbf' must be a number", "rbf", {"gamma": -1.0}),
    ("takes no parameter 'width'", "rbf", {"width": 1.0}),
    ("cannot be computed from features", "precomputed"),
    ("must return one row per row of A", lambda A, B: np.ones((1, 1))),
)
NO_ROWS = table(
    lambda kernel: gram(A, np.ones((0, 5)), kernel=kernel),
    ValueError,
    ("0", "linear"),
    ("0", lambda A, B: A @ B.T),
)
VECTORS = table(
    lambda name, *given: getattr(vectors, name)(*given),
    ValueError,
    ("same features, found 2 and 4 of them", "linear", SMALL, np.ones((3, 4))),
    ("Expected 2D array, got 1D array", "linear", np.ones(3)),
    (r"B is empty: found shape \(0, 2\)", "linear", SMALL, np.ones((0, 2))),
    ("A holds text where numbers belong", "linear", np.array([["a", "b"]])),
    ("takes no sparse features", "chi2", SMALL, sparse.csr_array(SMALL)),
    ("A contains negative entries", "minmax", sparse.csr_array([[0.0, -2.0]])),
    ("A contains NaN", "tanimoto", sparse.csr_array([[0.0, np.nan]])),
    ("A contains infinity", "tanimoto", sparse.csr_array([[0.0, np.inf]])),
)
PARAMETERS = table(
    lambda name, parameter, value: getattr(vectors, name)(SMALL, **{parameter: value}),
    KernelError,
    *[
        (f"{parameter} of kernel '{name}' must be a number", name, parameter, value)
        for name, parameter, value in [
            ("rbf", "gamma", -1),
            ("rbf", "gamma", "scale"),
            ("laplacian", "gamma", np.nan),
            ("chi2", "gamma", None),
            ("polynomial", "degree", 0),
            ("polynomial", "gamma", True),
            ("polynomial", "coef0", np.inf),
        ]
    ],
)
COMBINED = [
    case
    for combination in (Sum, Product)
    for case in table(
        combination,
        KernelError,
        (r"Unknown kernel 'rfb'\. Did you mean 'rbf'", ("linear", "rfb")),
        ("'rbf' takes no parameter 'degree'", (("rbf", {"degree": 1}),)),
        (r"a name, a pair .* found {'gamma': 1}", ("rbf", {"gamma": 1})),
        ("sequence of kernels, found the single 'rbf'", "rbf"),
        (ValueError, "kernels must hold at least one", ()),
        (ValueError, "one number for each of 2 kernels, found 1", ("rbf", "linear"), (1,)),
        *[
            (ValueError, "weights must be non-negative finite", ("rbf", "linear"), (1, weight))
            for weight in (-1, np.nan, np.inf, "1")
        ],
    )
]
NORMALIZED = table(
    normalize,
    KernelError,
    (r"K must be square unless .* found shape \(2, 3\)", np.ones((2, 3))),
    (ValueError, "go together", np.ones((2, 3)), [1.0, 1.0]),
    (
        ValueError,
        r"column_diagonal must .* each of the 3 columns of K, found shape \(2,\)",
        np.ones((2, 3)),
        [1.0, 1.0],
        [1.0, 1.0],
    ),
    (
        "row_diagonal must be finite and non-negative.* -1",
        np.ones((2, 3)),
        [1.0, -1.0],
        [1.0, 1.0, 1.0],
    ),
    ("the diagonal of K must be finite and non-negative", -np.eye(2)),
    (ValueError, "K contains NaN or infinity", [[1.0, np.nan], [np.nan, 1.0]]),
    ("the diagonal of K has the tiny value 1e-310: multiply the kernel", np.diag([1.0, 1e-310])),
)
REPAIRED = [
    *table(
        lambda K, symmetrize, psd="clip": repair(K, symmetrize=symmetrize, psd=psd),
        KernelError,
        ("K is not symmetric", TENSE, "error"),
        (
            "K is not positive semi-definite: 1 of its 2 eigenvalues",
            np.array([[1.0, 2.0], [2.0, 1.0]]),
            "mean",
            "error",
        ),
        (ValueError, "symmetrize must be one of 'mean', 'error', found 'max'", SMALL[:2], "max"),
        (
            ValueError,
            "psd must be one of 'clip', 'shift', 'error', found 'flip'",
            SMALL[:2],
            "mean",
            "flip",
        ),
    ),
    *table(
        symmetrized,
        ValueError,
        ("symmetrize must be one of", SMALL[:2], "max"),
        (
            KernelError,
            "G is not symmetric: .* is 0.25, the tolerance is 1e-08",
            TENSE,
            "error",
            "G",
        ),
    ),
    *table(
        repaired_values,
        ValueError,
        ("psd must be one of", np.ones(2), "flip", 2),
        (
            KernelError,
            r"G is not .*: 2 of its 4 eigenvalues .* smallest -0.5 \(the largest is 1\)",
            np.array([-0.5, -1.1e-6, -0.9e-6, 1.0]),
            "error",
            4,
            "G",
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
    ValueError,
    (IdError, "2 of 3 nodes are in no edge: 'c', 'd'", EDGE, ["c", "a", "d"]),
    (IdError, "9 of 9 nodes are in no edge: 0, 1, 2, 3, 4, …", EDGE, range(9)),
    (IdError, "nodes must be different, but 1 are repeated: 'a'", EDGE, ["a", "b", "a"]),
    ("nodes must hold at least one label", EDGE, []),
    *[
        ("finite and non-negative, found", [("a", "b", 1), ("b", "c", length)], ["a"])
        for length in (-1, np.nan, np.inf)
    ],
    *[
        ("third column of edges must hold lengths", [("a", "b", length)], ["a"])
        for length in ("far", None)
    ],
    *[
        (f"2 columns .* or 3 .* found {found}", edges, ["a"])
        for edges, found in [
            ([], "no edges"),
            ([("a",)], "rows of width 1"),
            ([("a", "b"), ("a", "b", 1)], "rows of width 2, 3"),
            (np.ones((2, 4)), "rows of width 4"),
            (["ab", "bc"], "rows of width 0"),
        ]
    ],
)
SCALES = table(
    lambda kernel, *given: kernel(*given[:-1], scale=given[-1]),
    ValueError,
    *[
        ("scale must be a positive number, found", *given, scale)
        for given in [(graph_distance_kernel, EDGE, ["a", "b"]), (tree_distance_kernel, APES)]
        for scale in [0, -1.0, np.nan, np.inf, "10", True]
    ],
)
ANCESTORS = table(
    shared_ancestors_kernel,
    ValueError,
    (
        "no term may be its own ancestor, .* cycle: ('b' → 'c' → 'b'|'c' → 'b' → 'c')",
        [("a", "b"), ("b", "c"), ("c", "b")],
        ["a"],
    ),
    (r"edges must have 2 columns \(two nodes\), found rows of width 3", [("a", "b", 1.0)], ["a"]),
    (IdError, "1 of 1 nodes are in no edge: 'c'", EDGE, ["c"]),
)
DIFFUSION = table(
    diffusion_kernel,
    ValueError,
    (
        KernelError,
        r"square adjacency matrix, found shape \(3, 2\); for edges, give nodes too",
        np.ones((3, 2)),
    ),
    (
        KernelError,
        "graph is not symmetric: the largest gap to its transpose is 1, ",
        [[0, 1], [2, 0]],
    ),
    ("weights of graph must not be negative, found -1", [[0, -1], [-1, 0]]),
    ("NaN", [[0, np.nan], [np.nan, 0]]),
    ("graph holds text where numbers belong", [[0, "x"], ["x", 0]]),
    ("graph is empty", np.empty((0, 0))),
    ("third column of edges must hold weights", [("a", "b", "heavy")], ["a"]),
    ("weights of edges must be finite and non-negative, found -2", [("a", "b", -2)], ["a"]),
    (IdError, "1 of 1 nodes are in no edge: 'z'", EDGE, ["z"]),
)
OPTIONS_OF_DIFFUSION = table(
    lambda option, value: diffusion_kernel(EDGE, ["a"], **{option: value}),
    ValueError,
    ("kind must be one of 'heat', 'regularized_laplacian', found 'cold'", "kind", "cold"),
    ("beta must be a finite number of at least 0, found -1", "beta", -1),
)
TREES = [
    *table(
        read_newick,
        IdError,
        ("tips of the tree has repeated ids: 'human'", "(human,(human,mouse));"),
        ("tips of the tree has no id at position 0", "(,);"),
        (TypeError, "is a text, found int", 3),
    ),
    *table(
        brownian_kernel,
        IdError,
        ("2 of 3 tips are not in the tree: 'rat', 'cat'", APES, ["rat", "human", "cat"]),
        ("tips must be different, but 1 are repeated: 'human'", APES, ["human", "mouse", "human"]),
        (ValueError, "tips must hold at least one label", APES, []),
    ),
]
TAXONOMIES = table(
    taxonomy_kernel,
    ValueError,
    *[
        (rf"A must be a table .* found shape \({shape}\)", table_)
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
    ("the rank 1 holds 1.5, which is no name", [("a", 1.5)]),
    (r"the rank 1 holds \['b'\], which is no name", [("a", ["b"])]),
)
OPTIONS_OF_TAXONOMIES = table(
    lambda option, value: taxonomy_kernel(RANKS, **{option: value}),
    ValueError,
    ("weights must hold one number for each of 3 ranks, found 2", "weights", (1, 2)),
    ("all zero", "weights", (0, 0, 0)),
    ("non-negative", "weights", (1, 1, -1)),
    ("ranks must hold at least one", "ranks", []),
    (
        TypeError,
        "ranks must be a list of columns, the highest first, found the text 'cls'",
        "ranks",
        "cls",
    ),
    (IdError, "The list of ranks has repeated ids: 1", "ranks", [1, 0, 1]),
    ("the same ranks, found 3 in A and 2 in B", "B", [("a", "b")]),
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
        with pytest.raises(
            ValueError, match=f"A contains negative entries, down to -2; kernel '{kernel.__name__}'"
        ):
            kernel(bad)
        with pytest.raises(ValueError, match="B contains negative entries"):
            kernel(good, bad)


def test_two_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    for other in (SMALL, sparse.csr_array(SMALL)):
        with pytest.raises(TypeError, match="one library, found A of array_api_strict, B of numpy"):
            vectors.tanimoto(strict.asarray(SMALL), other)
