"""What the pages of the documentation are built with: the list beside the API, and formulas."""

import importlib
import pkgutil
import re
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import dyadlearn
from dyadlearn import exceptions

_DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture
def extension(monkeypatch):
    """Give a function that imports an extension of the documentation."""
    monkeypatch.setattr(sys, "path", [str(_DOCS), *sys.path])
    return importlib.import_module


def test_the_list_beside_the_api_has_every_name_under_its_heading(extension):
    groups = dict(
        extension("api_sidebar").groups_of((_DOCS / "api.md").read_text(encoding="utf-8"))
    )
    assert groups["Models"][0] == (
        "IndependentTaskRidge",
        "generated/dyadlearn.IndependentTaskRidge",
    )
    assert ("report.write_report", "generated/dyadlearn.report.write_report") in groups["Report"]
    online = "OnlineTwoStepRidge", "generated/dyadlearn.OnlineTwoStepRidge"
    assert online in groups["Models that learn batch by batch"]
    pages = [page for entries in groups.values() for _, page in entries]
    assert len(pages) > 100
    assert len(set(pages)) == len(pages)


def public_rooms():
    """Return the rooms that are imported by name: all of the ground plan that are not private, and two of kernels."""
    rooms = [
        room.name
        for room in pkgutil.iter_modules(dyadlearn.__path__)
        if not room.name.startswith("_")
    ]
    assert "datasets" in rooms
    # The command line has a page of its own; the other two are words and products that only the
    # rooms above them use.
    return [
        "",
        *sorted(set(rooms) - {"cli", "sides", "vectrick"}),
        "kernels.chemistry",
        "kernels.sequences",
    ]


def test_the_api_has_everything_public(each, extension):
    groups = extension("api_sidebar").groups_of((_DOCS / "api.md").read_text(encoding="utf-8"))
    rooms = {
        room: importlib.import_module(f"dyadlearn.{room}".rstrip(".")) for room in public_rooms()
    }
    # A thing may stand there under the name of another room that has it too.
    listed = {id(attrgetter(name)(dyadlearn)) for _, entries in groups for name, _ in entries}
    for room in each(rooms):
        public = getattr(rooms[room], "__all__", [])
        assert not [name for name in public if id(getattr(rooms[room], name)) not in listed]


def test_every_page_is_in_one_group_of_the_start_page():
    start = (_DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", start, re.MULTILINE | re.DOTALL)
    entries = [
        line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")
    ]
    listed = [re.sub(r".*<(.*)>", r"\1", entry) for entry in entries]
    pages = [page.stem for page in _DOCS.glob("*.md") if page.stem != "index"]
    assert sorted(listed) == sorted([*pages, "gallery/index"])
    # Beside the tree, which is for the list beside each page, stands a line that says what a page
    # is about.
    assert set(re.findall(r"{doc}`([^`<]+)`", start)) >= set(listed)


def test_an_index_stands_beside_a_letter_with_an_accent(extension):
    pytest.importorskip("sphinx")
    mathml = extension("mathml").mathml
    found = "".join(mathml(r"\tilde{Y}_{i} \dots \sum_{i=1}^n", block=False).split())
    assert '<msub><moveraccent="true"><mi>Y</mi>' in found
    assert found.count("<munderover>") == 1  # of the sum
    assert "…" in found
    assert "&lt;" in mathml(r"a < \log b", block=True)


def test_every_error_and_warning_has_a_row_and_a_place_in_the_api(extension):
    rows, text = (
        (_DOCS / name).read_text(encoding="utf-8") for name in ("troubleshooting.md", "api.md")
    )
    api = extension("api_sidebar").expanded(text)
    assert [
        name
        for name in exceptions.__all__
        if f"| `{name}` | `" not in rows or f"\n   {name}\n" not in api
    ] == []
    bases = {name: getattr(exceptions, name).__bases__[0].__name__ for name in exceptions.__all__}
    assert [name for name, base in bases.items() if f"| `{name}` | `{base}` |" not in rows] == []


def test_a_bold_letter_ends_with_itself(extension):
    pytest.importorskip("sphinx")
    found = "".join(
        extension("mathml")
        .mathml(r"(\bar{\boldsymbol\phi}_2)^\top \boldsymbol\Phi", block=False)
        .split()
    )
    assert '<moveraccent="true"><mi>𝝓</mi>' in found
    assert "<msup>" in found.split("</mover>")[1]
    assert "<mi>𝚽</mi>" in found


def test_a_fraction_without_braces_is_one_half_and_not_twelve(extension):
    pytest.importorskip("sphinx")
    found = extension("mathml").mathml(r"\tfrac12\bigl[k + \frac12\log n\bigr]", block=False)
    halves = re.findall(r"<mn>1</mn><mn>2</mn></mfrac>", "".join(found.split()))
    assert len(halves) == 2


def test_no_line_of_a_formula_begins_a_list(each):
    # Lists of pages begin with hyphens: a plus or a star at the beginning of a line cuts a formula.
    for page in each(sorted(_DOCS.glob("*.md"))):
        assert not re.findall(r"^[+*] .*", page.read_text(encoding="utf-8"), re.MULTILINE)
