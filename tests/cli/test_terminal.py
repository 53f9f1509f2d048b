"""How commands speak: JSON without NaN, notes said once, tables that fit."""

from __future__ import annotations

import ast
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import dyadlearn
from dyadlearn._text import make_list, make_table, number
from dyadlearn.cli.terminal import _PHRASES, Terminal, spoken
from sweeps import lines, over


def test_json_holds_what_json_can_hold(capsys):
    figures = {
        "a": float("nan"),
        "b": np.array([1.5, np.inf]),
        3: (True, None, "é"),
        "d": np.int64(4),
    }
    Terminal(json=True).result(figures)
    out = capsys.readouterr().out
    assert json.loads(out) == {
        "a": None,
        "b": [1.5, None],
        "3": [True, None, "é"],
        "d": 4,
        "notes": [],
    }
    assert "é" in out


def test_warnings_become_notes_and_are_said_once(capsys):
    with Terminal() as terminal:
        for _ in range(2):
            warnings.warn("Mind the gap.", UserWarning, stacklevel=1)
        warnings.warn("Somebody else's business.", DeprecationWarning, stacklevel=1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "note: Mind the gap.\n")
    assert terminal.notes == ["Mind the gap."]
    with pytest.warns(UserWarning, match="outside"):
        warnings.warn("outside", UserWarning, stacklevel=1)


def test_ids_are_folded_and_figures_are_not(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    Terminal().say(make_table(["id", "score"], [[80 * "x", "0.12345678"], ["[red]:cat:", "1"]]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.count("x") for line in lines) == 80
    assert "0.12345678" in "\n".join(lines)
    assert "[red]:cat:" in "\n".join(lines)


def test_a_terminal_is_told_nothing_but_text(capsys):
    bad = "red\x1b[31m\x07\x9b2J\u202e"
    with Terminal() as terminal:
        terminal.note(bad)
        terminal.say(bad, make_table([bad], [[bad + "\n\tx"]]), make_list([(bad, bad)]))
    Terminal(json=True).result({"id": bad})
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert r"red\x1b[31m\x07\x9b2J\u202e\n\tx" in captured.out
    assert json.loads(captured.out[captured.out.index("{") :])["id"] == bad


@over(
    lines(
        "value text",
        (None, "–"),
        (float("nan"), "–"),
        (0.123456, "0.1235"),
        (12, "12"),
        ("a", "a"),
        (True, "True"),
        (1e-7, "1e-07"),
    )
)
def test_numbers_for_people(value, text):
    assert number(value) == text


@over(
    lines(
        "sentence said",
        (
            "nothing is left; zeros=True takes zeros for it.",
            "nothing is left; --zeros takes zeros for it.",
        ),
        ('leave them out with on_error="drop".', "leave them out with --drop-invalid."),
        ("fit it with tasks=, or ask for setting A.", "fit it with --tasks, or ask for setting A."),
        ("by data_home= or by a variable.", "by --data-home or by a variable."),
        ('setting="D" needs scoring="r2".', "--setting D needs --scoring r2."),
        (
            "pass folds as groups= and task_groups=, for example five.",
            "give --cv, a number of folds, for example five.",
        ),
        ("9 folds need at least as many.", "9 folds (--cv) need at least as many."),
        (
            "cv=3/alpha=0.1/Y.csv: found 'cv=3' in x/cv=3.csv.",
            "cv=3/alpha=0.1/Y.csv: found 'cv=3' in x/cv=3.csv.",
        ),
        ("alpha=0.1, cv=3.", "--alpha 0.1, --cv 3."),
        ("the file a\x1b[2J.csv", r"the file a\x1b[2J.csv"),
    )
)
def test_sentences(sentence, said):
    assert spoken(sentence) == said


def texts_of(file):
    """Return every text in a source, with a number, an id or the name of an argument in place of each value."""
    found = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        if isinstance(node, ast.JoinedStr):
            for value in ("1", "X", "tasks"):
                ids = {ord("r"): "'a'"}
                parts = (
                    part.value
                    if isinstance(part, ast.Constant)
                    else ids.get(part.conversion, value)
                    for part in node.values
                )
                found.append("".join(parts))
    return found


def is_in(sources, parsed, phrase):
    """Return whether a text of the sources has a phrase; sources with most of its words are parsed first."""
    words = re.findall(r"[A-Za-z_]+", re.sub(r"\\[bd]", " ", phrase.pattern))
    likely = sorted(
        sources,
        key=lambda file: (file not in parsed, -sum(word in sources[file] for word in words)),
    )
    for file in likely:
        parsed[file] = parsed.get(file) or texts_of(file)
        if any(map(phrase.search, parsed[file])):
            return True
    return False


def test_phrases_that_are_replaced_are_those_of_the_library():
    files = [
        file for file in Path(dyadlearn.__file__).parent.rglob("*.py") if file.name != "terminal.py"
    ]
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    parsed = {}
    assert [phrase.pattern for phrase, _ in _PHRASES if not is_in(sources, parsed, phrase)] == []


def test_long_headings_of_figures_are_broken_where_words_end(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    headings = ["method", "neg_mean_squared_error", "roc_auc", "anunderscorelessheading"]
    Terminal().say(make_table(headings, [["exact leave-one-out", "-1", "2", "3"]]))
    lines = capsys.readouterr().out.splitlines()
    words = [line.split() for line in lines if line.strip()]
    assert words[0] == ["neg_mean_"]
    assert words[1] == ["method", "squared_error", "roc_auc", "anunderscorelessheading"]
    assert words[-1] == ["exact", "leave-one-out", "-1", "2", "3"]
