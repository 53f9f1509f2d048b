"""Labels that were made wrong on purpose, and the table of what screening finds of them."""

import json
import sys

import numpy as np
import pytest


def test_as_many_labels_as_asked_for_are_exchanged(script):
    Y = (np.random.default_rng(0).random((20, 15)) < 0.2).astype(float)
    wrong_labels, wrong = script.flipped(Y, 0.1, 3)
    assert wrong.sum() == 30
    assert (np.abs(wrong_labels - Y) == wrong).all()
    assert (script.flipped(Y, 0.1, 3)[1] == wrong).all()
    assert (script.flipped(Y, 0.1, 4)[1] != wrong).any()


def test_the_record_on_gpcr(script, shared_data):
    """Two seeds of the documented ones."""
    data = script.load("gpcr", shared_data)
    for seed in (0, 1):
        assert script.screened(data, "two-step", "A", 0.02, seed)["times"] > 14


def test_the_table_from_the_command(script, shared_data, monkeypatch, capsys, tmp_path):
    out = tmp_path / "found.json"
    words = f"wrong_labels.py --data {shared_data} --sets nr --settings A --seeds 1 --json {out}"
    monkeypatch.setattr(sys, "argv", [*words.split(), "--markdown"])
    script.main()
    seen = capsys.readouterr().out
    assert "| nr | A | two-step | " in seen
    assert "| nr | A | Kronecker | " in seen
    rows = json.loads(out.read_text())
    assert [row["model"] for row in rows] == ["two-step", "Kronecker"]
    monkeypatch.setattr(sys, "argv", ["wrong_labels.py", "--share", "0.7"])
    with pytest.raises(SystemExit):
        script.main()
    assert "below 0.5" in capsys.readouterr().err
