"""Kernels of frames are frames with the ids of both sides; what has ids is put in order by them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._tables import Ids, Table, read_table, write_table
from dyadlearn.exceptions import IdError
from dyadlearn.kernels import (
    Product,
    Sum,
    brownian_kernel,
    diffusion_kernel,
    gram,
    gram_diagonal,
    graph_distance_kernel,
    normalize,
    repair,
    shared_ancestors_kernel,
    tree_distance_kernel,
)

NAMES = tuple("abcd")
OTHERS = tuple("xyz")
FEATURES = ("f", "g", "h")
KINDS = ("pandas", "polars", "table")


def named(values, rows, columns, kind):
    """Return values with ids, as a frame of some library or as the library's own table."""
    if kind == "table":
        return Table(values, Ids(tuple(rows)), Ids(tuple(columns)))
    return write_table(values, Ids(tuple(rows)), Ids(tuple(columns)), kind)


def check(found, values, rows, columns, kind):
    """Check the values, the ids and the form of an answer."""
    assert isinstance(found, Table) == (kind == "table")
    table = read_table(found, "found")
    assert table.kind == (None if kind == "table" else kind)
    assert table.row_ids.labels == tuple(rows)
    assert table.column_ids.labels == tuple(columns)
    assert_allclose(np.asarray(table.values), values, rtol=1e-14, atol=1e-15)


@pytest.fixture
def features():
    rng = default_rng(0)
    return rng.random((4, 3)), rng.random((3, 3))


@pytest.fixture
def similarity():
    return default_rng(1).random((4, 4)) + 2 * np.eye(4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_square_kernel_has_its_ids_on_both_sides(kind, similarity):
    """Columns in another order than the rows are brought into theirs, so that the diagonal is the diagonal."""
    turned = [2, 0, 3, 1]
    K = named(similarity[:, turned], NAMES, [NAMES[place] for place in turned], kind)
    indefinite = similarity - 2.5 * np.eye(4)
    other = named(indefinite[:, turned], NAMES, [NAMES[place] for place in turned], kind)
    check(normalize(K), normalize(similarity), NAMES, NAMES, kind)
    check(repair(K), repair(similarity), NAMES, NAMES, kind)
    check(repair(other, psd="shift"), repair(indefinite, psd="shift"), NAMES, NAMES, kind)
    symmetric = similarity + similarity.T
    graph = named(symmetric[:, turned], NAMES, [NAMES[place] for place in turned], kind)
    check(diffusion_kernel(graph), diffusion_kernel(symmetric), NAMES, NAMES, kind)
    strange = named(similarity, NAMES, ("a", "b", "c", "q"), kind)
    for function in (normalize, repair, diffusion_kernel):
        with pytest.raises(IdError, match=r"the columns of (K|graph) and the rows of .*'d'.*'q'"):
            function(strange)


def test_a_diagonal_is_matched_by_its_ids(features):
    A, B = features
    block = A @ B.T
    rows = (A * A).sum(axis=1)
    columns = (B * B).sum(axis=1)
    K = named(block, NAMES, OTHERS, "pandas")
    diagonals = pd.Series(rows, NAMES)[::-1], pd.Series(columns, OTHERS)[::-1]
    check(normalize(K, *diagonals), normalize(block, rows, columns), NAMES, OTHERS, "pandas")
    with pytest.raises(IdError, match="row_diagonal and the rows of K"):
        normalize(K, *diagonals[::-1])


@pytest.mark.parametrize("kind", KINDS)
def test_gram_of_frames(kind, features):
    A, B = features
    first = named(A, NAMES, FEATURES, kind)
    second = named(B[:, [2, 0, 1]], OTHERS, ("h", "f", "g"), kind)
    kernels = (
        "rbf",
        Sum(("linear", "tanimoto")),
        Product(("linear", ("rbf", {"gamma": 2})), weights=(1, 2)),
        lambda A, B: np.asarray(A) @ np.asarray(B).T,
    )
    for kernel in kernels:
        check(gram(first, kernel=kernel), gram(A, kernel=kernel), NAMES, NAMES, kind)
        # Features are matched by their names.
        check(gram(first, second, kernel=kernel), gram(A, B, kernel=kernel), NAMES, OTHERS, kind)
        diagonal = gram_diagonal(first, kernel=kernel)
        assert kind != "pandas" or diagonal.index.tolist() == list(NAMES)
        assert_allclose(np.asarray(diagonal), gram_diagonal(A, kernel=kernel), rtol=1e-14)
    with pytest.raises(IdError, match=r"the columns of B and the columns of A.*'g'.*'i'"):
        gram(first, named(B, OTHERS, ("f", "i", "h"), kind))


def test_callables_take_words_and_series():
    """A frame of words is no mistake for a function of one's own; for a kernel by name it is."""
    words = {"name": ["a", "b", "c"], "colour": ["red", "blue", "red"]}

    def same(A, B):
        return np.equal.outer(np.asarray(A).reshape(-1), np.asarray(B).reshape(-1))

    expected = np.array([[1.0, 0, 1], [0, 1, 0], [1, 0, 1]])
    check(
        gram(pd.DataFrame(words).set_index("name"), kernel=same),
        expected,
        "abc",
        "abc",
        "pandas",
    )
    check(gram(pl.DataFrame(words), kernel=same), expected, "abc", "abc", "polars")
    check(
        gram(pd.Series(words["colour"], words["name"]), kernel=same),
        expected,
        "abc",
        "abc",
        "pandas",
    )
    assert_array_equal(gram_diagonal(pl.DataFrame(words), kernel=same), np.ones(3))
    with pytest.raises(ValueError, match="A holds text .such as 'red'. in column 'colour'"):
        gram(pl.DataFrame(words))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_graphs_and_trees_in_frames(kind):
    library = pd if kind == "pandas" else pl
    edges = [("root", "a"), ("root", "b"), ("b", "c"), ("b", "d")]
    frame = library.DataFrame(
        {"from": [edge[0] for edge in edges], "to": [edge[1] for edge in edges]}
    )
    nodes = ["d", "a", "c"]
    for function in (graph_distance_kernel, shared_ancestors_kernel, diffusion_kernel):
        expected = function(edges, nodes)
        assert isinstance(expected, np.ndarray)
        check(function(frame, iter(nodes)), expected, nodes, nodes, kind)
        check(function(edges, library.Series(nodes)), expected, nodes, nodes, kind)
    tree = "((a:1,c:2):3,d:4);"
    for function in (brownian_kernel, tree_distance_kernel):
        expected = function(tree, nodes)
        assert isinstance(expected, np.ndarray)
        check(function(tree, library.Series(nodes)), expected, nodes, nodes, kind)
        if kind == "pandas":
            check(function(tree, library.Index(nodes)), expected, nodes, nodes, kind)


IDS = list("abcd")
TURNED = list("cadb")
F = default_rng(0).normal(size=(4, 6))
K = pd.DataFrame(F @ F.T + np.eye(4), IDS, IDS)


@pytest.mark.parametrize("kind", ["array", "series"])
def test_diagonals_without_ids_are_in_the_order_of_what_they_belong_to(kind):
    """Of the columns as they are given, which are only then brought into the order of the rows."""
    block = K.loc[IDS, TURNED]
    form = np.asarray if kind == "array" else pl.Series
    rows = np.diag(K)
    found = normalize(block, form(rows), form(np.diag(K.loc[TURNED, TURNED])))
    wanted = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert_allclose(found.loc[IDS, IDS], wanted)
    assert found.columns.tolist() == IDS
    assert_allclose(normalize(block, form(rows), pd.Series(np.diag(K), IDS)).loc[IDS, IDS], wanted)
