"""What the two sides are called."""

from __future__ import annotations

import pytest

from dyadlearn.diagnostics.sides import SideNames, plural, side_names


def test_sides_have_the_names_that_are_given():
    assert side_names() == SideNames("instance", "task")
    assert side_names(network=True).both == ("nodes", "nodes")
    assert side_names([" host ", "parasite"]).both == ("hosts", "parasites")
    assert side_names(("gene", "gene"), network=True).both == ("genes", "genes")


@pytest.mark.parametrize("sides", ["ab", ("host",), ("host", ""), ("host", 3), ("a", "b", "c"), ("x" * 41, "y"), 5])
def test_names_that_are_none_are_refused(sides):
    with pytest.raises(ValueError, match="two words"):
        side_names(sides)


def test_two_sides_need_two_names():
    with pytest.raises(ValueError, match="different"):
        side_names(("drug", "drug"))


@pytest.mark.parametrize(("word", "words"), [("city", "cities"), ("box", "boxes"), ("key", "keys"), ("Day", "Days")])
def test_words_for_several(word, words):
    assert plural(word) == words
