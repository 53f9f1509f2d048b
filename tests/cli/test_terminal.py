"""How commands speak: JSON without NaN, notes said once, tables that fit."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from command_output import in_python
from dyadlearn import cli
from dyadlearn._checks import check_whole
from dyadlearn._messages import Message, Parameter, message_of
from dyadlearn._text import make_list, make_table, number
from dyadlearn.cli.terminal import _OPTIONS_WITH_VALUE, _OTHER_NAME, Terminal, option_of, spoken
from dyadlearn.kernels.descriptions import title_of
from message_templates import messages
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
        (np.float32(0.25), "0.25"),
        (np.int64(7), "7"),
    )
)
def test_numbers_for_people(value, text):
    assert number(value) == text


@over(
    lines(
        "message text said",
        (Message("give <tasks=>."), "give tasks=.", "give --tasks."),
        (Message("leave <X> out."), "leave X out.", "leave --instances out."),
        (Message('<setting="D"> is new.'), 'setting="D" is new.', "--setting D is new."),
        (Message("use <zeros=True>"), "use zeros=True", "use --zeros"),
        (Message("use <nested=False>"), "use nested=False", "use --no-nested"),
        (
            Message("with <fit_intercept=False>"),
            "with fit_intercept=False",
            "with --no-intercept",
        ),
        (Message("<n_bits> is odd"), "n_bits is odd", "n_bits is odd"),
        (Message("with <alpha=0>"), "with alpha=0", "with --alphas 0"),
        (
            Message('out with <on_error="drop">'),
            'out with on_error="drop"',
            "out with --drop-invalid",
        ),
        (
            Message("raise [max_iter or |]the regularisation."),
            "raise max_iter or the regularisation.",
            "raise the regularisation.",
        ),
        (
            Message("no: {remedy}.", remedy=Message("tune it with <keep_labels=True>")),
            "no: tune it with keep_labels=True.",
            "no: tune it with --keep-labels.",
        ),
        (
            Message("of {title}", title=title_of("ecfp", "X")),
            "of X['ecfp']",
            "of --instances 'ecfp'",
        ),
        ("cv=3/alpha=0.1/Y.csv", "cv=3/alpha=0.1/Y.csv", "cv=3/alpha=0.1/Y.csv"),
        ("the file a\x1b[2J.csv", "the file a\x1b[2J.csv", r"the file a\x1b[2J.csv"),
    )
)
def test_messages_name_parameters_in_python_and_options_on_the_command_line(message, text, said):
    assert str(message) == text
    assert spoken(message) == said
    assert spoken(message_of(ValueError(message))) == said


def test_errors_and_warnings_of_the_library_keep_the_parts_of_their_messages(capsys):
    with pytest.raises(ValueError, match="cv must be a whole number") as caught:
        check_whole(0, "cv")
    assert spoken(message_of(caught.value)) == (
        "--cv must be a whole number of at least 1, found 0."
    )
    with Terminal():
        warnings.warn(Message("Give <tasks=>."), UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "note: Give --tasks.\n"


def test_the_check_of_the_output_of_commands_sees_parameters_of_python():
    for text in ("give tasks=.", "leave X out", 'Use method="folds"', "(cv=3)", "X: 5 features"):
        assert in_python(text), text
    for text in ("--tasks TASKS", "x/cv=3.csv", "a.h5::pool=mean", "'cv=3'", "X.csv", "x=X.csv"):
        assert in_python(text) == [], text


def test_every_parameter_in_a_message_is_an_option():
    parameters = [
        parameter
        for command in get_command(cli.app).commands.values()
        for parameter in command.params
    ]
    options = {
        option
        for parameter in parameters
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    written = set()
    for _, message in messages():
        written |= {part for part in message.parts if isinstance(part, Parameter)}
    assert Parameter("zeros", "=True") in written
    said = {option_of(parameter) for parameter in written if parameter.name.isidentifier()}
    assert {option.partition(" ")[0] for option in said} <= options
    assert set(_OTHER_NAME.values()) | set(_OPTIONS_WITH_VALUE.values()) <= options


def test_long_headings_of_figures_are_broken_where_words_end(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    headings = ["method", "neg_mean_squared_error", "roc_auc", "anunderscorelessheading"]
    Terminal().say(make_table(headings, [["exact leave-one-out", "-1", "2", "3"]]))
    lines = capsys.readouterr().out.splitlines()
    words = [line.split() for line in lines if line.strip()]
    assert words[0] == ["neg_mean_"]
    assert words[1] == ["method", "squared_error", "roc_auc", "anunderscorelessheading"]
    assert words[-1] == ["exact", "leave-one-out", "-1", "2", "3"]


FULL = "dyadlearn: No space left on device.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device_is_one_line():
    command = [sys.executable, "-m", "dyadlearn", "datasets"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (4, FULL)


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as a shell does")
def test_a_reader_that_is_gone_is_no_error():
    command = [sys.executable, "-m", "dyadlearn", "--help"]
    ours, theirs = os.pipe()
    os.close(ours)
    ran = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors as a shell does")
def test_output_may_be_closed():
    closed = f"'{sys.executable}' -m dyadlearn datasets >&-"
    ran = subprocess.run(closed, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
