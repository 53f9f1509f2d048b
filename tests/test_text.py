"""Small tables as text and as markup: nothing wider than its place, and nothing that is obeyed."""

from html.parser import HTMLParser

import numpy as np
from rich.cells import cell_len

from dyadlearn import TwoStepRidge
from dyadlearn._text import as_text, html_table, make_table
from dyadlearn.diagnostics.fitted import Tabled
from sweeps import lines, over

HOSTILE = '<script>alert("x")</script>\x1b[31m\u202e&'


class Tags(HTMLParser):
    """The tags of some markup, those that were never closed, and its texts."""

    def __init__(self, markup):
        super().__init__()
        self.seen = set()
        self.open = []
        self.texts = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@over(
    lines(
        "heading cell",
        ("score", "a" * 300),
        ("a_metric_with_quite_a_long_name_of_many_words", "two words"),
        ("x" * 200, "タンパク質" * 30),
        ("score", HOSTILE),
    )
)
def test_text_is_never_wider_than_its_place(heading, cell):
    for width in (40, 80):
        text = as_text(
            make_table(["id", heading], [[cell, "-0.1235"]]), f"A sentence on {cell}.", width=width
        )
        assert max(map(cell_len, text.splitlines())) <= width
        assert "-0.1235" in text
        assert "\x1b" not in text
        assert all(line == line.rstrip() and line for line in text.splitlines())
    # A long name is folded, not cut.
    assert "".join(heading.split()) in "".join(as_text(make_table([heading], [])).split())


def test_markup_is_text():
    found = Tags(html_table(["id", HOSTILE], [[HOSTILE, "1"]]))
    assert found.open == []
    assert found.seen == {"table", "thead", "tbody", "tr", "th", "td"}
    shown = '<script>alert("x")</script>\\x1b[31m\\u202e&'
    assert found.texts == ["id", shown, shown, "1"]


def test_a_notebook_shows_the_first_rows_of_a_long_result():
    class Result(Tabled):
        def __init__(self, size):
            self.size = size

        def __repr__(self):
            return "Result(<b>)"

        def columns(self):
            return {
                "drug": [f"<i>{place}" for place in range(self.size)],
                "score": [0.5] * self.size,
            }

    few = Tags(Result(3)._repr_html_())
    many = Tags(Result(50)._repr_html_())
    assert few.texts == [
        "Result(<b>)",
        "drug",
        "score",
        "<i>0",
        "0.5",
        "<i>1",
        "0.5",
        "<i>2",
        "0.5",
    ]
    assert many.texts[-1] == "30 more rows: see frame()."
    assert many.texts.count("0.5") == 20


def test_models_show_the_diagram_of_scikit_learn():
    model = TwoStepRidge()
    assert "sk-" in model._repr_html_()
    assert "sk-" in model.fit(np.eye(3), np.eye(3), np.eye(3))._repr_html_()
