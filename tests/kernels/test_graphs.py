from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.exceptions import IdError
from dyadlearn.kernels import graph_distance_kernel


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
    return [(int(a), int(b), float(length)) for (a, b), length in zip(pairs, 5 * rng.random(n_edges), strict=True)]


@pytest.mark.parametrize(("n", "n_edges"), [(2, 3), (8, 7), (12, 30)])
@pytest.mark.parametrize("scale", [0.5, 10.0])
def test_equals_floyds_algorithm(n, n_edges, scale):
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
    assert_allclose(graph_distance_kernel(edges, ["a", "b"], scale=1)[0, 1], math.exp(-2), rtol=1e-14)


def test_length_zero_is_a_length():
    assert_allclose(graph_distance_kernel([("a", "b", 0.0), ("b", "c", 1.0)], ["a", "c"], scale=1)[0, 1], math.exp(-1))
    assert_array_equal(graph_distance_kernel([("a", "b", 0.0)], ["a", "b"]), np.ones((2, 2)))


def test_on_a_tree_it_is_positive_semidefinite():
    rng = np.random.default_rng(0)
    edges = [(child, int(rng.integers(child)), float(rng.random())) for child in range(1, 60)]
    assert np.linalg.eigvalsh(graph_distance_kernel(edges, range(60), scale=2)).min() > 0


def test_arrays_and_frames_are_edges():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
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
        assert_allclose(graph_distance_kernel(table, nodes), expected, rtol=1e-14)
    series = (np.array(nodes), pandas.Index(nodes), pandas.Series(nodes), polars.Series(nodes), tuple(nodes))
    for some in series:
        assert_allclose(graph_distance_kernel(edges, some), expected, rtol=1e-14)
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


@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf, "10"])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ValueError, match="scale must be a positive number, found"):
        graph_distance_kernel([("a", "b")], ["a", "b"], scale=scale)


@pytest.mark.parametrize("length", [-1, np.nan, np.inf])
def test_lengths_that_are_none_are_refused(length):
    with pytest.raises(ValueError, match="must be finite and non-negative, found"):
        graph_distance_kernel([("a", "b", 1), ("b", "c", length)], ["a", "b"])


def test_lengths_must_be_numbers():
    for length in ("far", None):
        with pytest.raises(ValueError, match="third column of edges must hold lengths"):
            graph_distance_kernel([("a", "b", length)], ["a", "b"])


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ([], "no edges"),
        ([("a",)], "rows of width 1"),
        ([("a", "b"), ("a", "b", 1)], "rows of width 2, 3"),
        (np.ones((2, 4)), "rows of width 4"),
        (["ab", "bc"], "rows of width 0"),
    ],
)
def test_edges_of_the_wrong_width_are_refused(edges, found):
    with pytest.raises(ValueError, match=f"2 columns .* or 3 .* found {found}"):
        graph_distance_kernel(edges, ["a", "b"])


def test_no_nodes_are_refused():
    with pytest.raises(ValueError, match="nodes must hold at least one label"):
        graph_distance_kernel([("a", "b")], [])
