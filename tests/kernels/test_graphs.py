from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._tables import read_table
from dyadlearn.exceptions import IdError, KernelError, NotEnoughMemoryError
from dyadlearn.kernels import diffusion_kernel, graph_distance_kernel, shared_ancestors_kernel


def floyd(edges, nodes, scale):
    """Shortest paths the slow way, over all nodes as intermediate stops."""
    labels = sorted({label for edge in edges for label in edge[:2]}, key=str)
    distance = {(a, b): 0.0 if a == b else math.inf for a in labels for b in labels}
    for a, b, *length in edges:
        for pair in ((a, b), (b, a)):
            distance[pair] = min(distance[pair], *(length or [1.0]))
    for stop in labels:
        for a in labels:
            for b in labels:
                distance[a, b] = min(distance[a, b], distance[a, stop] + distance[stop, b])
    return np.array([[math.exp(-distance[a, b] / scale) for b in nodes] for a in nodes])


def random_graph(n: int, n_edges: int, seed: int) -> list[tuple[int, int, float]]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(n, size=(n_edges, 2))
    return [
        (int(a), int(b), float(length))
        for (a, b), length in zip(pairs, 5 * rng.random(n_edges), strict=True)
    ]


def test_equals_floyds_algorithm(each):
    for scale, (n, n_edges) in each(product([0.5, 10.0], [(2, 3), (8, 7), (12, 30)])):
        edges = random_graph(n, n_edges, seed=n)
        nodes = sorted({label for edge in edges for label in edge[:2]})[::-1]
        K = graph_distance_kernel(edges, nodes, scale=scale)
        assert_allclose(K, floyd(edges, nodes, scale), rtol=1e-12, atol=1e-300)
        assert_array_equal(K, K.T)
        assert_array_equal(np.diag(K), np.ones(len(nodes)))


def test_some_nodes_in_any_order_and_the_default_scale():
    edges = [("root", "a"), ("root", "b"), ("a", "a1"), ("a", "a2"), ("b", "b1")]
    nodes = ["b1", "a2", "a"]
    expected = np.exp(-np.array([[0, 4, 3], [4, 0, 1], [3, 1, 0]]) / 10)
    assert_allclose(graph_distance_kernel(edges, nodes), expected, rtol=1e-14)


def test_unconnected_nodes_have_nothing_in_common():
    assert_array_equal(graph_distance_kernel([("a", "b"), ("c", "d")], ["a", "c"]), np.eye(2))


def test_the_shortest_of_parallel_edges_counts_in_either_direction():
    edges = [("a", "b", 5), ("b", "a", 2), ("a", "b", 3), ("a", "a", 9)]
    assert_allclose(
        graph_distance_kernel(edges, ["a", "b"], scale=1)[0, 1], math.exp(-2), rtol=1e-14
    )


def test_length_zero_is_a_length():
    assert_allclose(
        graph_distance_kernel([("a", "b", 0.0), ("b", "c", 1.0)], ["a", "c"], scale=1)[0, 1],
        math.exp(-1),
    )
    assert_array_equal(graph_distance_kernel([("a", "b", 0.0)], ["a", "b"]), np.ones((2, 2)))


def test_on_a_tree_it_is_positive_semidefinite():
    rng = np.random.default_rng(0)
    edges = [(child, int(rng.integers(child)), float(rng.random())) for child in range(1, 60)]
    assert np.linalg.eigvalsh(graph_distance_kernel(edges, range(60), scale=2)).min() > 0


def test_arrays_and_frames_are_edges():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    strict = pytest.importorskip("array_api_strict")
    edges = [("x", "y", 1.5), ("y", "z", 0.5)]
    nodes = ["z", "x"]
    expected = floyd(edges, nodes, 10.0)
    columns = {"from": ["x", "y"], "to": ["y", "z"], "length": [1.5, 0.5]}
    for table in (
        [list(edge) for edge in edges],
        np.array(edges),
        np.array(edges, dtype=object),
        pandas.DataFrame(columns, index=[7, 9]),
        polars.DataFrame(columns),
        iter(edges),
    ):
        assert_allclose(
            read_table(graph_distance_kernel(table, nodes), "K").values, expected, rtol=1e-14
        )
    series = (
        np.array(nodes),
        pandas.Index(nodes),
        pandas.Series(nodes),
        polars.Series(nodes),
        tuple(nodes),
    )
    for some in series:
        assert_allclose(
            read_table(graph_distance_kernel(edges, some), "K").values, expected, rtol=1e-14
        )
    numbers = [(0, 1), (1, 2)]
    expected = floyd(numbers, [2, 0], 10.0)
    for table in (np.array(numbers), strict.asarray(np.array(numbers)), pandas.DataFrame(numbers)):
        assert_allclose(graph_distance_kernel(table, np.array([2, 0])), expected, rtol=1e-14)


def test_blocks_make_no_difference(monkeypatch):
    from sys import modules

    edges = random_graph(12, 30, seed=5)
    nodes = sorted({label for edge in edges for label in edge[:2]})
    whole = graph_distance_kernel(edges, nodes)
    monkeypatch.setattr(
        modules["dyadlearn.kernels.graphs"],
        "row_blocks",
        lambda n, _: (slice(i, min(i + 5, n)) for i in range(0, n, 5)),
    )
    assert_array_equal(graph_distance_kernel(edges, nodes), whole)


def test_unknown_nodes_are_named():
    with pytest.raises(IdError, match="2 of 3 nodes are in no edge: 'c', 'd'"):
        graph_distance_kernel([("a", "b")], ["c", "a", "d"])
    with pytest.raises(IdError, match="9 of 9 nodes are in no edge: 0, 1, 2, 3, 4, …"):
        graph_distance_kernel([("a", "b")], range(9))


def test_repeated_nodes_are_named():
    with pytest.raises(IdError, match="nodes must be different, but 1 are repeated: 'a'"):
        graph_distance_kernel([("a", "b")], ["a", "b", "a"])


def test_a_scale_that_is_not_positive_is_refused(each):
    for scale in each([0, -1.0, np.nan, np.inf, "10"]):
        with pytest.raises(ValueError, match="scale must be a positive number, found"):
            graph_distance_kernel([("a", "b")], ["a", "b"], scale=scale)


def test_lengths_that_are_none_are_refused(each):
    for length in each([-1, np.nan, np.inf]):
        with pytest.raises(ValueError, match="must be finite and non-negative, found"):
            graph_distance_kernel([("a", "b", 1), ("b", "c", length)], ["a", "b"])


def test_lengths_must_be_numbers():
    for length in ("far", None):
        with pytest.raises(ValueError, match="third column of edges must hold lengths"):
            graph_distance_kernel([("a", "b", length)], ["a", "b"])


def test_edges_of_the_wrong_width_are_refused(each):
    cases = [
        ([], "no edges"),
        ([("a",)], "rows of width 1"),
        ([("a", "b"), ("a", "b", 1)], "rows of width 2, 3"),
        (np.ones((2, 4)), "rows of width 4"),
        (["ab", "bc"], "rows of width 0"),
    ]
    for edges, found in each(cases):
        with pytest.raises(ValueError, match=f"2 columns .* or 3 .* found {found}"):
            graph_distance_kernel(edges, ["a", "b"])


def test_no_nodes_are_refused():
    with pytest.raises(ValueError, match="nodes must hold at least one label"):
        graph_distance_kernel([("a", "b")], [])


ONTOLOGY = [
    ("thing", "toy"),
    ("thing", "vehicle"),
    ("toy", "toy car"),
    ("vehicle", "toy car"),
    ("toy", "doll"),
]


def slow_ancestors(edges, node):
    return {node}.union(
        *(slow_ancestors(edges, parent) for parent, child in edges if child == node)
    )


def random_ontology(n: int, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    return [(int(parent), child) for child in range(1, n) for parent in rng.integers(child, size=2)]


def test_shared_ancestors_are_counted(each):
    for edges in each([ONTOLOGY, random_ontology(25, 0), random_ontology(60, 1)]):
        nodes = sorted({label for edge in edges for label in edge}, key=str)[::-2]
        ancestors = [slow_ancestors(edges, node) for node in nodes]
        K = shared_ancestors_kernel(edges, nodes)
        assert_allclose(
            K, [[len(a & b) / len(a | b) for b in ancestors] for a in ancestors], rtol=1e-14
        )
        assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-12


def test_ancestors_by_hand_and_from_frames():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    columns = {"parent": [edge[0] for edge in ONTOLOGY], "child": [edge[1] for edge in ONTOLOGY]}
    expected = [[1, 2 / 5, 1 / 4], [2 / 5, 1, 1 / 3], [1 / 4, 1 / 3, 1]]
    for edges in (
        ONTOLOGY,
        ONTOLOGY[::-1] * 2,
        np.array(ONTOLOGY),
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
    ):
        found = read_table(shared_ancestors_kernel(edges, ["toy car", "doll", "thing"]), "K")
        assert_allclose(found.values, expected, rtol=1e-15)


def test_circles_and_other_mistakes_in_an_ontology_are_told():
    with pytest.raises(
        ValueError,
        match="no term may be its own ancestor, .* cycle: ('b' → 'c' → 'b'|'c' → 'b' → 'c')",
    ):
        shared_ancestors_kernel([("a", "b"), ("b", "c"), ("c", "b")], ["a"])
    with pytest.raises(
        ValueError, match=r"edges must have 2 columns \(two nodes\), found rows of width 3"
    ):
        shared_ancestors_kernel([("a", "b", 1.0)], ["a"])
    with pytest.raises(IdError, match="1 of 1 nodes are in no edge: 'c'"):
        shared_ancestors_kernel([("a", "b")], ["c"])


def random_network(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = np.where(rng.random((n, n)) < 0.3, rng.random((n, n)), 0.0)
    weights[n // 2, :] = weights[:, n // 2] = 0.0
    return np.triu(weights) + np.triu(weights, 1).T


def slow_diffusion(A, kind, beta, normalized):
    """Follow the definitions, with the exponential as the limit of many small steps."""
    n = len(A)
    L = np.array([[sum(A[i]) * (i == j) - A[i, j] for j in range(n)] for i in range(n)])
    if normalized:
        degree = [sum(row) for row in A]
        L = np.array(
            [
                [
                    L[i, j] / math.sqrt(degree[i] * degree[j]) if degree[i] * degree[j] else 0.0
                    for j in range(n)
                ]
                for i in range(n)
            ]
        )
    if kind == "regularized_laplacian":
        return np.linalg.inv(np.eye(n) + beta * L)
    step = np.eye(n) - beta * L / 2**30
    for _ in range(30):
        step = step @ step
    return step


def test_diffusion_follows_its_definition(each, library):
    for (n, beta), normalized, kind in each(
        product(
            [(1, 1.0), (6, 0.5), (15, 3.0), (15, 0.0)],
            [False, True],
            ["heat", "regularized_laplacian"],
        )
    ):
        A = random_network(n, seed=n)
        K = diffusion_kernel(library.asarray(A), kind=kind, beta=beta, normalized=normalized)
        assert type(K) is type(library.asarray(A))
        K = library.to_numpy(K)
        assert K.dtype == library.dtype
        tolerance = 1e-5 if library.dtype == "float32" else 1e-7
        assert_allclose(
            K, slow_diffusion(A, kind, beta, normalized), rtol=tolerance, atol=tolerance
        )
        assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-6
        # What flows is neither made nor lost, and nothing reaches the member without edges.
        if not normalized:
            assert_allclose(K.sum(axis=1), 1, rtol=1e-5)
        assert_allclose(np.delete(K[n // 2], n // 2), 0, atol=1e-6)


def test_diffusion_by_hand():
    # One edge: L = [[1, -1], [-1, 1]] has eigenvalues 0 and 2.
    edge = np.array([[0, 1], [1, 0]])
    near = (1 + math.exp(-2 * 0.7)) / 2
    far = (1 - math.exp(-2 * 0.7)) / 2
    assert_allclose(diffusion_kernel(edge, beta=0.7), [[near, far], [far, near]], rtol=1e-14)
    expected = np.array([[1.7, 0.7], [0.7, 1.7]]) / 2.4
    assert_allclose(
        diffusion_kernel(edge, beta=0.7, kind="regularized_laplacian"), expected, rtol=1e-14
    )
    # A loop changes the normalised Laplacian only: degree 4 and 1.
    looped = np.array([[3, 1], [1, 0]])
    assert_allclose(
        diffusion_kernel(looped, beta=0.7), diffusion_kernel(edge, beta=0.7), rtol=1e-14
    )
    expected = np.linalg.inv([[5 / 4, -1 / 2], [-1 / 2, 2]])
    assert_allclose(
        diffusion_kernel(looped, kind="regularized_laplacian", normalized=True),
        expected,
        rtol=1e-14,
    )


def test_edges_and_matrices_are_the_same_network():
    from scipy.sparse import coo_matrix, csr_array

    A = random_network(9, seed=4)
    np.fill_diagonal(A, 0)
    rows, columns = np.nonzero(np.triu(A))
    K = diffusion_kernel(A)
    names = [f"v{i}" for i in range(9)]
    edges = [(names[i], names[j], A[i, j]) for i, j in zip(rows, columns, strict=True)]
    # Edges may be told in both directions, and lighter ones beside them do not count.
    told = [*edges, *[(b, a, weight) for a, b, weight in edges], (*edges[0][:2], edges[0][2] / 2)]
    wanted = [7, 0, 3]
    for some in (edges, told):
        assert_allclose(
            diffusion_kernel(some, [names[i] for i in wanted]),
            K[np.ix_(wanted, wanted)],
            rtol=1e-12,
            atol=1e-15,
        )
    unweighted = diffusion_kernel([edge[:2] for edge in edges], [names[i] for i in wanted])
    assert_allclose(
        unweighted, diffusion_kernel(A > 0)[np.ix_(wanted, wanted)], rtol=1e-12, atol=1e-15
    )
    for sparse in (csr_array(A), coo_matrix(A)):
        assert_array_equal(diffusion_kernel(sparse), K)


def test_frames_of_a_network_keep_their_ids():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    A = random_network(4, seed=2)
    K = diffusion_kernel(A)
    names = list("abcd")
    frame = pandas.DataFrame(A, names, names)
    answer = diffusion_kernel(frame[["c", "a", "d", "b"]])
    assert answer.index.to_list() == answer.columns.to_list() == names
    assert_array_equal(answer, K)
    answer = diffusion_kernel(
        polars.DataFrame({"node": names} | {name: A[:, j] for j, name in enumerate(names)})
    )
    assert answer.columns == ["node", *names]
    assert_array_equal(answer[names].to_numpy(), K)
    with pytest.raises(IdError, match="'x'"):
        diffusion_kernel(frame.rename(columns={"a": "x"}))


def test_what_is_no_network_is_refused(each):
    cases = [
        (
            np.ones((3, 2)),
            KernelError,
            r"square adjacency matrix, found shape \(3, 2\); for edges, give nodes too",
        ),
        (
            [[0, 1], [2, 0]],
            KernelError,
            "graph is not symmetric: the largest gap to its transpose is 1, ",
        ),
        ([[0, -1], [-1, 0]], ValueError, "weights of graph must not be negative, found -1"),
        ([[0, np.nan], [np.nan, 0]], ValueError, "NaN"),
        ([[0, "x"], ["x", 0]], ValueError, "graph holds text where numbers belong"),
        (np.empty((0, 0)), ValueError, "graph is empty"),
        (np.ones(3), ValueError, "Expected 2D array, got 1D array"),
    ]
    for graph, error, message in each(cases):
        with pytest.raises(error, match=message):
            diffusion_kernel(graph)


def test_bad_edges_and_parameters_of_diffusion_are_refused():
    edges = [("a", "b")]
    with pytest.raises(
        ValueError, match="kind must be one of 'heat', 'regularized_laplacian', found 'cold'"
    ):
        diffusion_kernel(edges, ["a"], kind="cold")
    with pytest.raises(ValueError, match="beta must be a finite number of at least 0, found -1"):
        diffusion_kernel(edges, ["a"], beta=-1)
    with pytest.raises(ValueError, match="third column of edges must hold weights"):
        diffusion_kernel([("a", "b", "heavy")], ["a"])
    with pytest.raises(
        ValueError, match="weights of edges must be finite and non-negative, found -2"
    ):
        diffusion_kernel([("a", "b", -2)], ["a"])
    with pytest.raises(IdError, match="1 of 1 nodes are in no edge: 'z'"):
        diffusion_kernel(edges, ["z"])


def test_diffusion_that_does_not_fit_is_refused(monkeypatch):
    from sys import modules

    monkeypatch.setattr(modules["dyadlearn._memory"], "available_memory", lambda _: 100)
    for graph in ((np.zeros((2, 2)),), ([("a", "b")], ["a"])):
        with pytest.raises(NotEnoughMemoryError, match="Diffusion between 2 nodes needs"):
            diffusion_kernel(*graph)
