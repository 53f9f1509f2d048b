"""How commands speak: JSON without NaN, notes said once, tables that fit."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

from dyadlearn.cli.talk import Talk, make_list, make_table, number


def test_json_holds_what_json_can_hold(capsys):
    Talk(as_json=True).result({"a": float("nan"), "b": np.array([1.5, np.inf]), 3: (True, None, "é"), "d": np.int64(4)})
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": None, "b": [1.5, None], "3": [True, None, "é"], "d": 4, "notes": []}
    assert "é" in out


def test_warnings_become_notes_and_are_said_once(capsys):
    with Talk() as talk:
        for _ in range(2):
            warnings.warn("Mind the gap.", UserWarning, stacklevel=1)
        warnings.warn("Somebody else's business.", DeprecationWarning, stacklevel=1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "note: Mind the gap.\n")
    assert talk.notes == ["Mind the gap."]
    with pytest.warns(UserWarning, match="outside"):
        warnings.warn("outside", UserWarning, stacklevel=1)


def test_ids_are_folded_and_figures_are_not(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    Talk().show(make_table(["id", "score"], [[80 * "x", "0.12345678"], ["[red]:cat:", "1"]]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("x") for line in lines) == 80
    assert "0.12345678" in "\n".join(lines)
    assert "[red]:cat:" in "\n".join(lines)


def test_a_terminal_is_told_nothing_but_text(capsys):
    bad = "red\x1b[31m\x07\x9b2J\u202e"
    with Talk() as talk:
        talk.note(bad)
        talk.show(bad, make_table([bad], [[bad + "\n\tx"]]), make_list([(bad, bad)]))
    Talk(as_json=True).result({"id": bad})
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert r"red\x1b[31m\x07\x9b2J\u202e\n\tx" in captured.out
    assert json.loads(captured.out[captured.out.index("{") :])["id"] == bad


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (float("nan"), "–"), (0.123456, "0.1235"), (12, "12"), ("a", "a"), (True, "True"), (1e-7, "1e-07")],
)
def test_numbers_for_people(value, text):
    assert number(value) == text
