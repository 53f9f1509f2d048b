import math
from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from scipy.sparse import coo_matrix, csgraph

from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.kernels import diffusion_kernel, graph_distance_kernel, shared_ancestors_kernel


def by_floyd(edges, nodes, scale):
    """Return exp(-d / scale) for the shortest paths of Floyd's algorithm."""
    labels = sorted({label for edge in edges for label in edge[:2]}, key=str)
    lengths = np.full((len(labels), len(labels)), math.inf)
    for a, b, *length in edges:
        place = labels.index(a), labels.index(b)
        lengths[place] = lengths[place[::-1]] = min(lengths[place], *(length or [1.0]))
    distances = csgraph.floyd_warshall(csgraph.csgraph_from_dense(lengths, null_value=math.inf))
    at = [labels.index(node) for node in nodes]
    return np.exp(-distances[np.ix_(at, at)] / scale)


def random_graph(n, n_edges, seed):
    rng = default_rng(seed)
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
        assert_allclose(K, by_floyd(edges, nodes, scale), rtol=1e-12, atol=1e-300)
        assert_array_equal(K, K.T)
        assert_array_equal(np.diag(K), np.ones(len(nodes)))


def test_the_shortest_of_parallel_edges_counts_and_zero_is_a_length():
    edges = [("a", "b", 5), ("b", "a", 2), ("a", "b", 3), ("a", "a", 9), ("b", "c", 0.0)]
    found = graph_distance_kernel(edges, ["a", "b", "c"], scale=1)
    assert_allclose(found[0], [1, math.exp(-2), math.exp(-2)], rtol=1e-14)
    assert_array_equal(graph_distance_kernel(edges[-1:], ["b", "c"]), np.ones((2, 2)))


def test_arrays_are_edges():
    """Frames are in test_kernels_ids.py."""
    strict = pytest.importorskip("array_api_strict")
    edges = [("x", "y", 1.5), ("y", "z", 0.5)]
    expected = by_floyd(edges, ["z", "x"], 10.0)
    for table in ([list(edge) for edge in edges], np.array(edges), np.array(edges, dtype=object)):
        assert_allclose(graph_distance_kernel(table, np.array(["z", "x"])), expected, rtol=1e-14)
    numbers = strict.asarray([[0, 1], [1, 2]])
    expected = by_floyd([(0, 1), (1, 2)], [2, 0], 10.0)
    assert_allclose(graph_distance_kernel(numbers, np.array([2, 0])), expected, rtol=1e-14)


def test_blocks_make_no_difference(monkeypatch):
    edges = random_graph(12, 30, seed=5)
    nodes = sorted({label for edge in edges for label in edge[:2]})
    whole = graph_distance_kernel(edges, nodes)
    monkeypatch.setattr("dyadlearn._array.BLOCK", 5 * len(nodes))
    assert_array_equal(graph_distance_kernel(edges, nodes), whole)


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


def random_ontology(n, seed):
    rng = default_rng(seed)
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


def random_network(n, seed):
    rng = default_rng(seed)
    weights = np.where(rng.random((n, n)) < 0.3, rng.random((n, n)), 0.0)
    weights[n // 2, :] = weights[:, n // 2] = 0.0
    return np.triu(weights) + np.triu(weights, 1).T


def slow_diffusion(A, kind, beta, normalized):
    """Follow the definitions."""
    degrees = A.sum(axis=1)
    L = np.diag(degrees) - A
    if normalized:
        roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
        L = L / np.outer(roots, roots)
    if kind == "regularized_laplacian":
        return np.linalg.inv(np.eye(len(A)) + beta * L)
    return expm(-beta * L)


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
        tolerance = 1e-5 if library.dtype == "float32" else 1e-11
        assert_allclose(
            K, slow_diffusion(A, kind, beta, normalized), rtol=tolerance, atol=tolerance
        )
        assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-6
        # What flows is neither made nor lost, and nothing reaches the member without edges.
        if not normalized:
            assert_allclose(K.sum(axis=1), 1, rtol=1e-5)
        assert_allclose(np.delete(K[n // 2], n // 2), 0, atol=1e-6)


def test_edges_and_matrices_are_the_same_network():
    A = random_network(9, seed=4)
    np.fill_diagonal(A, 0)
    rows, columns = np.nonzero(np.triu(A))
    K = diffusion_kernel(A)
    edges = [(f"v{i}", f"v{j}", A[i, j]) for i, j in zip(rows, columns, strict=True)]
    # Edges may be told in both directions, and lighter ones beside them do not count.
    told = [*edges, *[(b, a, weight) for a, b, weight in edges], (*edges[0][:2], edges[0][2] / 2)]
    wanted = [7, 0, 3]
    for given, whole in (
        (edges, K),
        (told, K),
        ([edge[:2] for edge in edges], diffusion_kernel(A > 0)),
    ):
        found = diffusion_kernel(given, [f"v{i}" for i in wanted])
        assert_allclose(found, whole[np.ix_(wanted, wanted)], rtol=1e-12, atol=1e-15)
    assert_array_equal(diffusion_kernel(coo_matrix(A)), K)


def test_diffusion_that_does_not_fit_is_refused(monkeypatch):
    from sys import modules

    monkeypatch.setattr(modules["dyadlearn._memory"], "available_memory", lambda _: 100)
    for graph in ((np.zeros((2, 2)),), ([("a", "b")], ["a"])):
        with pytest.raises(NotEnoughMemoryError, match="Diffusion between 2 nodes needs"):
            diffusion_kernel(*graph)
