"""Kernels of trees and of taxonomies, against walks along their branches."""

import math

import numpy as np
import pandas
import polars
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import IdError
from dyadlearn.kernels import (
    Tree,
    brownian_kernel,
    graph_distance_kernel,
    read_newick,
    taxonomy_kernel,
    tree_distance_kernel,
)
from sweeps import every, lines, over

APES = "((human:6,chimp:6):84,mouse:90);"


def random_tree(n_nodes, seed, caterpillar=False):
    """Return parent, child and length of every branch; node 0 is the root."""
    rng = default_rng(seed)
    parents = [
        max(child - 2 + child % 2, 0) if caterpillar else int(rng.integers(child))
        for child in range(1, n_nodes)
    ]
    return [(parent, child, float(rng.random())) for child, parent in enumerate(parents, start=1)]


def newick(branches, node=0):
    below = [
        newick(branches, child) + f":{length!r}"
        for parent, child, length in branches
        if parent == node
    ]
    return f"({','.join(below)})n{node}" if below else f"n{node}"


def paths(branches):
    """Return the branches between the root and every tip, each as the set of its lower ends, and all lengths."""
    above = {child: parent for parent, child, _ in branches}
    length = {child: length for _, child, length in branches}
    found = {}
    for tip in set(above) - set(above.values()):
        path = set()
        node = tip
        while node in above:
            path.add(node)
            node = above[node]
        found[f"n{tip}"] = path
    return found, length


TREES = [
    (random_tree(2, 0), "twig"),
    (random_tree(40, 1), "bush"),
    (random_tree(31, 2, caterpillar=True), "caterpillar"),
]


@over(every(branches=[tree for tree, _ in TREES]))
def test_equals_walking_along_all_paths(branches):
    tree = read_newick(newick(branches) + ";")
    path, length = paths(branches)
    assert set(tree.tips) == set(path)
    tips = sorted(path)[::2]
    shared = np.array([[sum(length[x] for x in path[i] & path[j]) for j in tips] for i in tips])
    apart = np.array([[sum(length[x] for x in path[i] ^ path[j]) for j in tips] for i in tips])
    K = brownian_kernel(tree, tips)
    assert_allclose(K, shared, rtol=1e-12, atol=1e-15)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    for scale in (0.3, 5.0):
        K = tree_distance_kernel(tree, tips, scale=scale)
        assert_allclose(K, np.exp(-apart / scale), rtol=1e-12)
        assert_array_equal(K, K.T)
        assert_array_equal(np.diag(K), np.ones(len(tips)))
        assert np.linalg.eigvalsh(K).min() > -1e-12
        edges = [(f"n{parent}", f"n{child}", length) for parent, child, length in branches]
        assert_allclose(K, graph_distance_kernel(edges, tips, scale=scale), rtol=1e-12)
    deepest = max(sum(length[x] for x in some) for some in path.values())
    assert_allclose(tree_distance_kernel(tree, tips), np.exp(-apart / deepest), rtol=1e-12)


def test_order_of_branches_and_names_of_forks_make_no_difference():
    turned = "( mouse:90 ,(chimp:6,human:6)'apes, two':84)root:7 ;\n"
    tips = ["human", "chimp", "mouse"]
    assert_array_equal(brownian_kernel(turned, tips), brownian_kernel(APES, tips))
    assert read_newick(turned).names == ("root", "mouse", "apes, two", "chimp", "human")


@over(
    lines(
        "text tips depths",
        ("A;", ("A",), (0,)),
        ("(A,B);", ("A", "B"), (0, 1, 1)),
        ("((A,B),(C,D));", ("A", "B", "C", "D"), (0, 1, 2, 2, 1, 2, 2)),
        ("(A:1e-1,B:.5,C:2)D:3;", ("A", "B", "C"), (0, 0.1, 0.5, 2)),
        ("('it''s: (A)':1,'':2,'b c':3);", ("it's: (A)", "", "b c"), None),
        ("('it''s: (A)':1,'''':2,'b c':3);", ("it's: (A)", "'", "b c"), (0, 1, 2, 3)),
        ("[&R](A[a [nested] one]:[x]1[y],[z]B_b:2)[;];[end]", ("A", "B_b"), (0, 1, 2)),
        ("(((A:1):1):1);", ("A",), (0, 1, 2, 3)),
    )
)
def test_notation(text, tips, depths):
    if depths is None:
        with pytest.raises(IdError, match="tips of the tree has no id at position 1"):
            read_newick(text)
        return
    tree = read_newick(text)
    assert tree.tips == tips
    assert tree.depths == depths


def test_small_negative_lengths_are_zero():
    tree = read_newick("((human:6,chimp:-0.08):84,mouse:90);")
    assert tree.lengths == (0.0, 84.0, 6.0, 0.0, 90.0)


def test_trees_can_be_deep():
    n = 5000
    text = "(" * n + "tip0:1" + "".join(f",tip{level}:1):1" for level in range(1, n + 1)) + ";"
    K = brownian_kernel(text, ["tip0", "tip1", f"tip{n}", f"tip{n // 2}"])
    assert_array_equal(
        K, [[n, n - 1, 0, n / 2], [n - 1, n, 0, n / 2], [0, 0, 1, 0], [n / 2, n / 2, 0, n / 2 + 1]]
    )


# A tree, and a part of the sentence that refuses it.
NO_TREES = r"""
((human:6,chimp:6):84,mou | ends without a semicolon: is the text cut off\?, at character 26
((human,chimp),mouse; | has 1 parentheses that are not closed, at character 21 \(near
(human,chimp)),mouse); | has '\)' where ',', '\)' or ';' belongs
human,chimp; | has ',' where
(human chimp); | has 'c' where
(human](chimp)); | has ']' where
(human(chimp)); | has '\(' where
(human:six,chimp:6); | has 'six' where a length belongs
(human:1_0,chimp:6); | has '1_0' where a length belongs
(human:,chimp:6); | has '' where a length belongs
(human:-1,chimp:6); | has a branch of length -1: lengths must not be negative .* to 0
(human:nan,chimp:6); | has a branch of length nan
(human:inf,chimp:6); | has a branch of length inf
('human,chimp); | has a quote that is not closed
(human[an ape,chimp); | has a comment that is not closed
(human,chimp); (mouse,rat); | goes on after the semicolon: give one tree at a time
((human:6,chimp):84,mouse:90); | 1 of the 4 branches of the tree have no length: give all
"""


def test_what_is_no_tree_is_refused(each):
    for line in each(NO_TREES.strip().splitlines()):
        text, message = line.split(" | ")
        with pytest.raises(ValueError, match=message):
            read_newick(text)
    with pytest.raises(ValueError, match="ends without a semicolon: is the text cut off"):
        read_newick("")


def test_without_any_length_everything_is_the_same():
    assert_array_equal(tree_distance_kernel("(A:0,B:0);"), np.ones((2, 2)))
    assert_array_equal(
        brownian_kernel(Tree(("", "A", "B"), (-1, 0, 0), (0.0, 0.0, 0.0))), np.zeros((2, 2))
    )


# --- taxonomies ----------------------------------------------------------------------------------

RANKS = ["class", "order", "family", "genus"]
HOSTS = {
    "cat": ("Mammalia", "Carnivora", "Felidae", "Felis"),
    "lynx": ("Mammalia", "Carnivora", "Felidae", "Lynx"),
    "dog": ("Mammalia", "Carnivora", "Canidae", "Canis"),
    "crow": ("Aves", "Passeriformes", "Corvidae", "Corvus"),
}


def random_taxonomy(n, n_ranks, seed, missing=0.0):
    """Return rows whose names are few, so that the same ones stand below different ones."""
    rng = default_rng(seed)
    rows = [[f"t{rng.integers(2 + rank)}" for rank in range(n_ranks)] for _ in range(n)]
    gone = rng.random((n, n_ranks)) < missing
    return [
        [None if lost else name for name, lost in zip(row, line, strict=True)]
        for row, line in zip(rows, gone, strict=True)
    ]


def slowly(A, B, weights=None, normalized=True):
    """Compare each pair of rows from the top down, by the definition."""

    def shared(a, b):
        total = 0.0
        for rank, (one, other) in enumerate(zip(a, b, strict=True)):
            if one is None or other is None or one != other:
                break
            total += 1.0 if weights is None else weights[rank]
        return total

    def entry(a, b):
        if not normalized:
            return shared(a, b)
        own = shared(a, a) * shared(b, b)
        return shared(a, b) / math.sqrt(own) if own else 0.0

    return np.array([[entry(a, b) for b in B] for a in A])


def test_it_is_what_a_walk_down_each_pair_finds():
    cases = [
        (1, 1, 0.0, None),
        (7, 1, 0.3, (2.0,)),
        (30, 4, 0.0, None),
        (30, 5, 0.2, None),
        (25, 3, 0.6, (1.0, 0.0, 4.0)),
        (25, 3, 0.0, (0.0, 3.0, 0.25)),
        (12, 2, 1.0, None),
    ]
    for seed, (n, n_ranks, missing, weights) in enumerate(cases):
        rows = random_taxonomy(n, n_ranks, seed, missing)
        others = random_taxonomy(n + 3, n_ranks, seed + 100, missing)
        for normalized in (True, False):
            options = {"weights": weights, "normalized": normalized}
            K = taxonomy_kernel(rows, **options)
            assert_allclose(K, slowly(rows, rows, **options), rtol=1e-14)
            assert_array_equal(K, K.T)
            assert np.linalg.eigvalsh(K).min() > -1e-12 * max(K.max(), 1)
            block = taxonomy_kernel(others, rows, **options)
            assert_allclose(block, slowly(others, rows, **options), rtol=1e-14)


@pytest.mark.parametrize("nothing", [None, float("nan"), "", "  ", "pandas"])
def test_a_missing_rank_ends_the_path(nothing):
    if nothing == "pandas":
        nothing = pandas.NA
    rows = [("a", nothing, "x"), ("a", nothing, "x"), ("a", "b", "x"), (nothing, "b", "x")]
    found = taxonomy_kernel(rows, normalized=False)
    assert_array_equal(found, [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 3, 0], [0, 0, 0, 0]])
    # What has no highest rank is similar to nothing.
    root = 1 / math.sqrt(3)
    assert_allclose(
        taxonomy_kernel(rows), [[1, 1, root, 0], [1, 1, root, 0], [root, root, 1, 0], [0, 0, 0, 0]]
    )


def test_frames_and_tables_keep_their_ids(each):
    names = list(HOSTS)
    expected = slowly(HOSTS.values(), HOSTS.values())
    frame = pandas.DataFrame(list(HOSTS.values()), index=names, columns=RANKS)
    of_polars = polars.from_pandas(frame.reset_index(names="host"))
    # New ones are matched by the names of the ranks; other columns are nobody's business.
    new = frame.loc[["lynx"], RANKS[::-1]].assign(mass=3.5)
    for table in each(
        (
            frame.astype("category"),
            of_polars.cast(polars.Categorical),
            Table(frame.to_numpy(dtype=object), Ids(tuple(names)), Ids(tuple(RANKS))),
        )
    ):
        found = taxonomy_kernel(table)
        assert isinstance(found, Table) == isinstance(table, Table)
        read = read_table(found, "K")
        assert read.row_ids.labels == read.column_ids.labels == tuple(names)
        assert_allclose(np.asarray(read.values), expected, rtol=1e-14)
        block = read_table(taxonomy_kernel(new, table), "K")
        assert (block.row_ids.labels, block.column_ids.labels) == (("lynx",), tuple(names))
        assert_allclose(np.asarray(block.values), expected[[1]], rtol=1e-14)
    found = taxonomy_kernel(frame, ranks=["class", "family"])
    assert_allclose(found, slowly(*[[(row[0], row[2]) for row in HOSTS.values()]] * 2))
    # Without names, ranks are positions; with names beside, from left to right.
    array = frame.to_numpy()
    assert_allclose(taxonomy_kernel(array, ranks=[0, 2]), found)
    assert_allclose(taxonomy_kernel(array[:2], frame), expected[:2])
    with pytest.raises(IdError, match="'tribe' not among the ids of the columns of A"):
        taxonomy_kernel(frame, ranks=["class", "tribe"])
    with pytest.raises(IdError, match="'genus' not among the ids of the columns of A"):
        taxonomy_kernel(frame[RANKS[:3]], frame)


def test_ranks_say_which_column_is_the_highest():
    turned = [row[::-1] for row in HOSTS.values()]
    assert_allclose(
        taxonomy_kernel(turned, ranks=[3, 2, 1, 0]), slowly(HOSTS.values(), HOSTS.values())
    )
    assert_allclose(taxonomy_kernel(turned[:2], turned)[0], [1, 0, 0, 0])


def test_names_are_compared_as_text():
    """However a library keeps them: as whole numbers, as floats beside what is missing, as bytes."""
    rows = [["1", "7"], ["1", "8"], ["2", "7"]]
    wanted = taxonomy_kernel(rows)
    for form in (np.array(rows, dtype="S"), np.array(rows, dtype=int), np.array(rows, dtype=float)):
        assert_array_equal(taxonomy_kernel(form), wanted)
        assert_array_equal(taxonomy_kernel(form, rows), wanted)
        assert_array_equal(taxonomy_kernel(rows, form), wanted)
    # Whole ones stay so beside one that is missing.
    known = [(1, 3.0), (1, float("nan")), (2, 3.0)]
    assert_allclose(taxonomy_kernel([(1, 3)], known, normalized=False), [[2, 1, 0]])


@over(lines("n_ranks", *range(1, 12)))
def test_everything_has_similarity_one_to_itself_exactly(n_ranks):
    weights = 0.1 + default_rng(n_ranks).random(n_ranks)
    for given in (None, weights.tolist()):
        K = taxonomy_kernel([["a"] * n_ranks, ["b"] * n_ranks], weights=given)
        assert_array_equal(K, np.eye(2))
