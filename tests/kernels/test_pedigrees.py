"""The relationship by pedigree against Henderson's recursive definition."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.exceptions import IdError
from dyadlearn.kernels import pedigree

# The example of Henderson (1976) with an inbred animal.
TEXTBOOK = [(1, 0, 0), (2, 0, 0), (3, 1, 2), (4, 1, 0), (5, 4, 3), (6, 5, 2)]


def age(animal, parents):
    """Return the number of generations before an animal."""
    known = [parent for parent in parents.get(animal, ()) if parent is not None]
    return 1 + max((age(parent, parents) for parent in known), default=-1)


def relationship(a, b, parents):
    """Return the numerator relationship of two animals by its definition: from parents of the younger one."""
    if a is None or b is None:
        return 0.0
    if a == b:
        first, second = parents.get(a, (None, None))
        return 1.0 + relationship(first, second, parents) / 2
    if age(a, parents) < age(b, parents):
        a, b = b, a
    first, second = parents.get(a, (None, None))
    return (relationship(first, b, parents) + relationship(second, b, parents)) / 2


def random_pedigree(rng, n):
    """Return a table of n animals and their parents: earlier animals, possibly the same one twice, or unknown."""
    rows = []
    for animal in range(n):
        among = [None, *range(animal)]
        both = [among[int(rng.integers(len(among)))] for _ in range(2)]
        rows.append((f"a{animal}", *(None if one is None else f"a{one}" for one in both)))
    return rows


def test_equals_the_recursive_definition(each):
    for seed, n in each([(0, 2), (1, 6), (2, 9), (3, 12), (4, 12)]):
        rng = np.random.default_rng(seed)
        rows = random_pedigree(rng, n)
        parents = {animal: both for animal, *both in rows}
        # Parents may come after their children.
        shuffled = [rows[i] for i in rng.permutation(n)]
        ids = [row[0] for row in shuffled]
        expected = [[relationship(a, b, parents) for b in ids] for a in ids]
        assert_allclose(pedigree(shuffled), expected, rtol=1e-14)
        some = ids[::2]
        expected = [[relationship(a, b, parents) for b in some] for a in some]
        assert_allclose(pedigree(shuffled, some), expected, rtol=1e-14)


def test_the_textbook_example():
    A = pedigree(TEXTBOOK)
    assert_allclose(np.diag(A), [1, 1, 1, 1, 1.125, 1.125])
    assert_allclose(A[5], [0.25, 0.625, 0.5625, 0.3125, 0.6875, 1.125])


def test_generations_of_selfing_are_steps_of_the_pedigree(each):
    """A line is the last of a chain of animals, of which each has the one before as both parents."""
    for generations in each((1, 3)):
        chained = []
        for animal, first, second in TEXTBOOK:
            before = [0 if parent == 0 else f"{parent}-{generations}" for parent in (first, second)]
            chained.append((f"{animal}-0", *before))
            for step in range(generations):
                chained.append((f"{animal}-{step + 1}", f"{animal}-{step}", f"{animal}-{step}"))
        lines = [f"{row[0]}-{generations}" for row in TEXTBOOK]
        expected = pedigree(chained, lines)
        assert_allclose(pedigree(TEXTBOOK, selfing=generations), expected, rtol=1e-14)
    inbred = pedigree(TEXTBOOK, selfing=math.inf)
    assert_array_equal(np.diag(inbred), np.full(6, 2.0))
    assert_allclose(pedigree(TEXTBOOK, selfing=60), inbred)


def test_a_parent_without_a_row_is_a_founder():
    rows = [("child", "mother", "father"), ("other", "mother", "")]
    A = pedigree(rows, ["mother", "child", "other"])
    assert_array_equal(A, [[1, 0.5, 0.5], [0.5, 1, 0.25], [0.5, 0.25, 1]])
    assert_array_equal(pedigree(rows), [[1, 0.25], [0.25, 1]])


def test_all_words_for_unknown_parents_are_understood(each):
    expected = pedigree([("a", "b", None)])
    for unknown in each((None, math.nan, "", "0", "NA", 0, pd.NA)):
        assert_array_equal(pedigree([("a", "b", unknown)]), expected)
    numbers = pd.DataFrame({"id": [2, 1], "sire": [1, np.nan], "dam": [np.nan, np.nan]})
    assert_array_equal(pedigree(numbers), [[1, 0.5], [0.5, 1]])
    other = pedigree([(0, None, None), (1, 0, -1)], unknown=[-1])
    assert_array_equal(other, [[1, 0.5], [0.5, 1]])


def test_a_frame_gives_a_frame():
    rows = random_pedigree(np.random.default_rng(0), 12)
    frame = pd.DataFrame(rows, columns=["line", "mother", "father"])
    A = pedigree(frame)
    assert list(A.index) == list(A.columns) == list(frame["line"])
    assert_array_equal(A, pedigree(rows))


REFUSED = (
    ([("a", "b", 0), ("b", "c", 0), ("c", "a", 0)], {}, ValueError, r"own ancestor.*'[abc]' → "),
    ([("a", "a", 0)], {}, ValueError, r"own ancestor.*'a' → 'a'"),
    ([("a", 0, 0), ("a", 0, 0)], {}, IdError, r"1 are repeated: 'a'"),
    ([(0, 0, 0)], {}, IdError, r"row 0 has no individual"),
    ([("a", "b")], {}, ValueError, r"3 columns .*found rows of width 2"),
    ([], {}, ValueError, r"3 columns .*found no rows"),
    ([("a", 0, 0)], {"ids": ["z"]}, IdError, r"1 of 1 ids are not in the pedigree: 'z'"),
    ([("a", 0, 0)], {"selfing": -1}, ValueError, r"selfing must be .*found -1"),
    ([("a", 0, 0)], {"selfing": math.nan}, ValueError, r"selfing must be .*found nan"),
    ([("a", 0, 0)], {"selfing": True}, ValueError, r"selfing must be .*found True"),
)


def test_what_is_no_pedigree_is_refused(each):
    for rows, options, error, words in each(REFUSED):
        with pytest.raises(error, match=words):
            pedigree(rows, **options)
