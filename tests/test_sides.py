"""What the two sides are called."""

import pytest

from dyadlearn.sides import SideNames, plural, side_names
from sweeps import every, lines, over


def test_sides_have_the_names_that_are_given():
    assert side_names() == SideNames("instance", "task")
    assert side_names(network=True).both == ("nodes", "nodes")
    assert side_names([" host ", "parasite"]).both == ("hosts", "parasites")
    assert side_names(("gene", "gene"), network=True).both == ("genes", "genes")


@over(
    lines("sides", "ab", ("host",), ("host", ""), ("host", 3), ("a", "b", "c"), ("x" * 41, "y"), 5)
)
def test_names_that_are_none_are_refused(sides):
    with pytest.raises(ValueError, match="two words"):
        side_names(sides)


def test_two_sides_need_two_names():
    with pytest.raises(ValueError, match="different"):
        side_names(("drug", "drug"))
    with pytest.raises(ValueError, match="different"):
        side_names(("Drug", "drug "))
    with pytest.raises(ValueError, match="different"):
        side_names(("Gene", "gene"), network=True)


HOSTILE = [
    "<script>alert(1)</script>",
    "a\nb",
    "a\x1b[31mb",
    "a\u202eb",
    "a\x00b",
    "$\\frac{1}{2}$",
    "=cmd",
    "-o",
    "\ud800",
    'x"y',
    "`id`",
]


@over(every(word=HOSTILE))
def test_words_that_something_obeys_are_refused(word):
    for sides in ((word, "task"), ("host", word)):
        with pytest.raises(ValueError, match="plain letters") as refused:
            side_names(sides)
        # What is told can be printed anywhere.
        assert str(refused.value).isprintable()


@over(
    every(
        words=[
            ("Wirt", "Schmarotzer"),
            ("宿主", "寄生虫"),
            ("protein (human)", "R&D project 2"),
            ("café", "d'or"),
        ]
    )
)
def test_plain_words_of_any_script(words):
    assert side_names(words) == words


def test_headings_are_apart():
    assert SideNames("host", "parasite").headings(["score"]) == ("host", "parasite")
    assert SideNames("score", "label").headings(["score", "label"]) == ("score_", "label_")
    assert SideNames("label_", "label").headings(["label"]) == ("label_", "label__")
    assert SideNames("gene", "gene").headings() == ("gene", "other gene")


@over(
    lines(
        "word words",
        ("city", "cities"),
        ("box", "boxes"),
        ("key", "keys"),
        ("Day", "Days"),
        ("Subspecies", "Subspecies"),
        ("time series", "time series"),
        ("hypothesis", "hypotheses"),
        ("assay (cell)", "assays (cell)"),
    )
)
def test_words_for_several(word, words):
    assert plural(word) == words
