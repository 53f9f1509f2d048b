import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.exceptions import IdError
from dyadlearn.kernels import (
    Tree,
    brownian_kernel,
    graph_distance_kernel,
    read_newick,
    tree_distance_kernel,
)
from sweeps import every, lines, over

APES = "((human:6,chimp:6):84,mouse:90);"


def random_tree(n_nodes, seed, caterpillar=False):
    """Return parent, child and length of every branch; node 0 is the root."""
    rng = np.random.default_rng(seed)
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
