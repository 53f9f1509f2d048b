"""What is equal to other libraries: the part of it that needs none but scikit-learn, and how differences are told."""

from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def test_every_row_on_scikit_learn_is_an_equality(script):
    rows = list(script.scikit_learn(script.Problem(12, 8)))
    assert len(rows) == 15
    assert {row.theirs: row.difference for row in rows if row.verdict != "equal"} == {}
    assert all(row.limit == 1e-10 for row in rows)
    page = (EXPERIMENTS.parent / "docs" / "coming_from.md").read_text(encoding="utf-8")
    assert [row.theirs for row in rows if f"\n| {row.theirs} | {row.ours} | " not in page] == []


def test_a_difference_is_told_and_ends_with_an_error(script, monkeypatch, capsys):
    def off(on):
        yield script.compare("`theirs`", "`ours`", on.Y + 1e-3, on.Y)
        yield script.compare("`known`", "`ours`", on.Y + 1.0, on.Y, None)

    monkeypatch.setitem(script.PEERS, "sklearn", ("scikit-learn", off))
    monkeypatch.setitem(script.PEERS, "nowhere", ("nowhere", off))
    assert script.main(["sklearn", "nowhere"]) == 1
    seen = capsys.readouterr().out
    assert [line.split()[-1] for line in seen.splitlines() if line.startswith("  ")] == [
        "EQUAL",
        "differs",
    ]
    assert "not installed, and not compared: nowhere" in seen
    assert "1 rows are NOT EQUAL" in seen
    assert script.main(["sklearn", "--markdown"]) == 1
    assert "| `theirs` | `ours` | NOT EQUAL |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script.main(["xnet"])
    with pytest.raises(ValueError, match=r"has the shape \(2,\), and"):
        script.compare("a", "b", np.ones(2), np.ones(3))
