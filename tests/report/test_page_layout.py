"""Nothing on the page lies over anything else, is cut off, or breaks where it should not."""

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from dyadlearn import LearnedKernelRidge, TwoStepRidge, TwoStepRidgeCV
from dyadlearn.report import write_report
from dyadlearn.selection import Interval, SettingScore

pytestmark = pytest.mark.slow

_PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
_ROWS = [f"CHEMBL{i:06}" for i in range(24)]
_COLUMNS = [f"Mitogen-activated_protein_kinase_{j}" for j in range(16)]

# Where every word of a page is drawn: pictures apart, (text, left, top, right, bottom) in pixels of
# the screen.
_BOXES = """svgs => svgs.map(svg => {
  const box = (node) => {
    const {left, top, right, bottom} = node.getBoundingClientRect();
    return [node.textContent, left, top, right, bottom];
  };
  return [box(svg), [...svg.querySelectorAll("text")].filter(node => node.textContent).map(box)];
})"""


def models(real, binary, holes):
    """Return models whose figures have long numbers, equal regularisations, one side, holes, and lines."""
    rng = np.random.default_rng(0)
    X, Y, T = real
    two = binary[1]
    gaps = holes[1]
    wild = 1e3 * Y + 1e4 * rng.standard_t(1.5, size=Y.shape)
    network = (Y[:16] + Y[:16].T > 1).astype(float)
    yield TwoStepRidge(1.0, 1.0).fit(X, pd.DataFrame(wild, _ROWS, _COLUMNS), T)
    yield TwoStepRidge(30.0, 30.0).fit(X, pd.DataFrame(gaps, _ROWS, _COLUMNS), T)
    yield TwoStepRidge(symmetry="symmetric").fit(X[:16], network)
    wide = ["x" * 300, "\U0001f9ec" * 60, "\u05e9" * 90, "a\nb " * 40, "<b>" * 50, "_" * 200]
    rows, columns = ([f"{wide[i % 6]}{i}" for i in range(n)] for n in two.shape)
    yield TwoStepRidge().fit(X, pd.DataFrame(two, rows, columns), T)
    yield TwoStepRidgeCV([1e-9, 1.0, 1e9], [1e-9, 1.0, 1e9], setting="B").fit(X, 1e9 * Y, T)
    described = {"W" * 60: X[:, :2], "an unusually long name of a description": X[:, 2:], "x": X}
    yield LearnedKernelRidge(setting="A", stages=2, n_steps=3).fit(
        described, pd.DataFrame(gaps, _ROWS, _COLUMNS), T
    )


@pytest.fixture(scope="module")
def addresses(real, binary, holes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("layout")
    longest = ("W" * 40, "an unusually long word for one side")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr("dyadlearn.views.summary._DRAWS", 100)
        wide = Interval(-1.234e-5, -9.876e7, -1.234e-5, 0.95, 100, 0)
        patch.setattr(SettingScore, "interval", lambda *_: wide)
        found = [(each, None) for each in models(real, binary, holes)]
        found += [(each, longest) for each, _ in found[:3]]
        pages = [
            write_report(each, folder / f"{k}.html", sides=sides)
            for k, (each, sides) in enumerate(found)
        ]
    return [page.as_uri() for page in pages]


@pytest.mark.parametrize("look", [{}, _PHONE], ids=["desktop", "phone"])
def test_words_in_figures_keep_apart(visit, addresses, each, look):
    for address in each(addresses):
        figures = visit(address, **look).locator("figure svg:not(.legend svg)").evaluate_all(_BOXES)
        assert len(figures) >= 3
        for (_, left, top, right, bottom), texts in each(figures):
            for text, *box in texts:
                assert left - 0.5 <= box[0] < box[2] <= right + 0.5, text
                assert top - 0.5 <= box[1] < box[3] <= bottom + 0.5, text
            for (one, *a), (other, *b) in combinations(texts, 2):
                apart = a[2] <= b[0] or b[2] <= a[0] or a[3] - 1.5 <= b[1] or b[3] - 1.5 <= a[1]
                assert apart, (one, other)


def test_tables_on_a_phone(visit, addresses, each):
    for address in each(addresses):
        page = visit(address, **_PHONE)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        style = """nodes => nodes.map(node => {
          const {background, position} = getComputedStyle(node);
          return [background, position, node.scrollWidth <= node.clientWidth];
        })"""
        # Pairs are read without moving sideways.
        assert all(fits for *_, fits in page.locator(".listing .scroll").evaluate_all(style))
        # What goes on beyond an edge casts a shadow there, that nothing covers before the end is
        # reached.
        for background, *_ in page.locator(".scroll").evaluate_all(style):
            assert background.count("linear-gradient") == 4
            assert background.count("local") == 2
        assert {
            position for _, position, _ in page.locator(".scores tbody th").evaluate_all(style)
        } == {"sticky"}


def test_ids_and_numbers_break_between_words(visit, addresses):
    page = visit(addresses[0], **_PHONE)
    # Where a range of letters has boxes at several heights, it was broken.
    broken = """nodes => nodes.filter(node => {
      const range = document.createRange();
      return [...node.childNodes].filter(part => part.nodeType === 3).some(part => {
        range.selectNodeContents(part);
        return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
      });
    }).map(node => node.textContent)"""
    assert page.locator("#cell-table bdi").count() > 100
    assert page.locator("#cell-table bdi").evaluate_all(broken) == []
    assert page.locator(".tiles .value").evaluate_all(broken) == []
    assert page.locator("#cell-table td[data-value]").evaluate_all(broken) == []
