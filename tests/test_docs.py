"""What the pages of the documentation are built with: the list beside the API, and formulas."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from dyadlearn import exceptions

_DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture
def extension(monkeypatch):
    """Give a function that imports an extension of the documentation."""
    monkeypatch.setattr(sys, "path", [str(_DOCS), *sys.path])
    return importlib.import_module


def test_the_list_beside_the_api_has_every_name_under_its_heading(extension):
    groups = dict(extension("api_sidebar").groups_of((_DOCS / "api.md").read_text(encoding="utf-8")))
    assert groups["Models"][0] == ("IndependentTaskRidge", "generated/dyadlearn.IndependentTaskRidge")
    assert ("report.write_report", "generated/dyadlearn.report.write_report") in groups["Report"]
    assert ("OnlineTwoStepRidge", "api#dyadlearn.OnlineTwoStepRidge") in groups["Models that learn batch by batch"]
    pages = [page for entries in groups.values() for _, page in entries]
    assert len(pages) > 100
    assert len(set(pages)) == len(pages)


def test_an_index_stands_beside_a_letter_with_an_accent(extension):
    pytest.importorskip("sphinx")
    mathml = extension("mathml").mathml
    found = "".join(mathml(r"\tilde{Y}_{i} \dots \sum_{i=1}^n", block=False).split())
    assert '<msub><moveraccent="true"><mi>Y</mi>' in found
    assert found.count("<munderover>") == 1  # of the sum
    assert "…" in found
    assert "&lt;" in mathml(r"a < \log b", block=True)


def test_every_error_and_warning_has_a_row_and_a_place_in_the_api():
    rows, api = ((_DOCS / name).read_text(encoding="utf-8") for name in ("troubleshooting.md", "api.md"))
    assert [name for name in exceptions.__all__ if f"| `{name}` | `" not in rows or f"\n   {name}\n" not in api] == []
    bases = {name: getattr(exceptions, name).__bases__[0].__name__ for name in exceptions.__all__}
    assert [name for name, base in bases.items() if f"| `{name}` | `{base}` |" not in rows] == []
