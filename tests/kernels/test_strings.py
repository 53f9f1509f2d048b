"""Texts in messages."""

from dyadlearn.kernels._strings import shortened


def test_only_texts_of_more_than_forty_letters_are_shortened():
    assert shortened("a" * 40) == repr("a" * 40)
    assert shortened("a" * 41) == repr("a" * 40) + "…"
    assert shortened(range(100)) == "range(0, 100)"
