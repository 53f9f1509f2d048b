import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import IdError
from dyadlearn.kernels import (
    taxonomy_kernel,
)
from sweeps import lines, over

RANKS = ["class", "order", "family", "genus"]
HOSTS = {
    "cat": ("Mammalia", "Carnivora", "Felidae", "Felis"),
    "lynx": ("Mammalia", "Carnivora", "Felidae", "Lynx"),
    "dog": ("Mammalia", "Carnivora", "Canidae", "Canis"),
    "crow": ("Aves", "Passeriformes", "Corvidae", "Corvus"),
}


def random_taxonomy(n, n_ranks, seed, missing=0.0):
    """Return rows whose names are few, so that the same ones stand below different ones."""
    rng = np.random.default_rng(seed)
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
            assert_allclose(K, slowly(rows, rows, **options), rtol=1e-14, atol=0)
            assert_array_equal(K, K.T)
            assert np.linalg.eigvalsh(K).min() > -1e-12 * max(K.max(), 1)
            block = taxonomy_kernel(others, rows, **options)
            assert_allclose(block, slowly(others, rows, **options), rtol=1e-14, atol=0)


@pytest.mark.parametrize("nothing", [None, float("nan"), "", "  ", "pandas"])
def test_a_missing_rank_ends_the_path(nothing):
    if nothing == "pandas":
        nothing = pytest.importorskip("pandas").NA
    rows = [("a", nothing, "x"), ("a", nothing, "x"), ("a", "b", "x"), (nothing, "b", "x")]
    found = taxonomy_kernel(rows, normalized=False)
    assert_array_equal(found, [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 3, 0], [0, 0, 0, 0]])
    # What has no highest rank is similar to nothing.
    root = 1 / math.sqrt(3)
    assert_allclose(
        taxonomy_kernel(rows), [[1, 1, root, 0], [1, 1, root, 0], [root, root, 1, 0], [0, 0, 0, 0]]
    )


def test_frames_and_tables_keep_their_ids(each):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
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
    weights = 0.1 + np.random.default_rng(n_ranks).random(n_ranks)
    for given in (None, weights.tolist()):
        K = taxonomy_kernel([["a"] * n_ranks, ["b"] * n_ranks], weights=given)
        assert_array_equal(K, np.eye(2))
