"""Signals in every phase of a command: one line, an exit code, and files that are complete or absent."""

import os
import signal
from contextlib import contextmanager
from itertools import cycle

import numpy as np
import pytest

from dyadlearn import load
from dyadlearn._interrupts import raise_interrupt
from dyadlearn.cli import models, tune
from dyadlearn.learning.error import FoldError
from dyadlearn.models import decomposing
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.selection import learning_kernels, searching
from dyadlearn.selection.landscape import _PointScore
from interrupting import send_at
from sweeps import lines, over

CODES = {
    signal.SIGINT: (130, "dyadlearn: interrupted."),
    signal.SIGTERM: (143, "dyadlearn: terminated."),
}


@contextmanager
def interrupting(owner, name, number, call=0):
    """Handle signals as a command does, and send one when a function is called for the n-th time, counted from 0."""
    before = {each: signal.signal(each, raise_interrupt) for each in CODES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raise_interrupt, "_last", -np.inf)
        send_at(patch, owner, name, call, number)
        yield
    for each, handler in before.items():
        # The command is over, and a signal comes too late.
        assert signal.signal(each, handler) is signal.SIG_IGN


@pytest.fixture
def holes(tables, put):
    """Return the tables with labels missing, so that the search goes from point to point."""
    Y = tables.Y.copy()
    Y[::3, ::2] = np.nan
    put(tables.labels, tables.users, tables.items, np.where(np.isnan(Y), "", Y.astype(object)))
    return tables


def ends(ran, number, folder, before, *, kept, notes=()):
    """Check how an interrupted command ended."""
    code, line = CODES[number]
    path = folder / "m.dyad"
    assert ran.code == code
    assert ran.err.splitlines()[-1] == line
    assert ran.err.count("dyadlearn: ") == 1
    if kept:
        assert sorted(folder.iterdir()) == sorted({*before, path})
        assert np.isfinite(load(path).predict()).all()
        assert "Wrote" in ran.out
        path.unlink()
    else:
        assert (ran.err, ran.out) == (f"{line}\n", "")
        assert sorted(folder.iterdir()) == before
    for note in notes:
        assert note in ran.err


def with_signals(phases):
    """Return the phases with one signal after the other; all signals have one handler."""
    return [
        {**phase, "number": number} for phase, number in zip(phases, cycle(CODES), strict=False)
    ]


PHASES = lines(
    "owner name call kept notes",
    (tune, "read_dyads", 0, False, ()),
    (decomposing, "fit_side", 0, False, ()),
    (_PointScore, "__call__", 0, False, ()),
    (_PointScore, "__call__", 2, True, ("was interrupted: 2 of 9", "not compared with baselines")),
    (searching, "_best_place", 0, True, ("was interrupted: 9 of 9", "Interrupt again to stop")),
    (FittedRidge, "solve", 0, True, ("was interrupted: 9 of 9",)),
    (searching, "_validated", 0, True, ("was interrupted: 9 of 9",)),
    (searching, "baselines_beside", 0, True, ("not compared with baselines",)),
    (searching, "baselines_beside", 1, True, ("not compared with baselines",)),
    (tune, "save_model", 0, True, ("Interrupt again to stop",)),
    (models, "write_model", 0, True, ("Interrupt again to stop",)),
    (os, "replace", 0, True, ("Interrupt again to stop",)),
    (tune, "make_list", 0, True, ("Interrupt again to stop",)),
)


@over(with_signals(PHASES))
def test_a_signal_in_any_phase_of_tune_keeps_the_best_model(
    owner, name, call, kept, notes, number, holes, run
):
    before = sorted(holes.folder.iterdir())
    with interrupting(owner, name, number, call):
        ran = run(f"tune labels.csv {holes.sides} --cv 2 --alphas 1,10,100 -o m.dyad")
    ends(ran, number, holes.folder, before, kept=kept, notes=notes)


LEARNING = lines(
    "owner name call kept",
    (FoldError, "slope", 2, True),
    (FoldError, "evaluate", 0, True),
    (learning_kernels, "_fitted_stage", 0, True),
    (decomposing, "fit_side", 0, True),
    (FittedRidge, "solve", 0, True),
    (learning_kernels, "baselines_beside", 0, True),
    (models, "write_model", 0, True),
)


@over(with_signals(LEARNING))
def test_a_signal_in_any_phase_of_learning_keeps_the_best_model(
    owner, name, call, kept, number, holes, run
):
    before = sorted(holes.folder.iterdir())
    words = "--model learned --cv 2 --steps 3 --setting B -o m.dyad"
    with interrupting(owner, name, number, call):
        ran = run(f"tune labels.csv {holes.sides} {words}")
    ends(ran, number, holes.folder, before, kept=kept)


COMMANDS = lines(
    "words output",
    ("predict {model} --pairs {pairs}", "o.csv"),
    ("evaluate {model} --setting B", "o.csv"),
    ("screen {model}", "o.csv"),
    ("recommend {model} --pairs", "o.csv"),
    ("report {model} --setting B", "o.html"),
)


@over(COMMANDS)
def test_a_signal_leaves_no_unfinished_file(words, output, tables, model, run):
    pairs = tables.folder / "pairs.csv"
    pairs.write_text(f"user,item\n{tables.users[0]},{tables.items[0]}\n", encoding="utf-8")
    path = tables.folder / output
    path.write_text("old", encoding="utf-8")
    before = sorted(tables.folder.iterdir())
    for (number, (code, line)), function in zip(CODES.items(), ("replace", "fsync"), strict=True):
        with interrupting(os, function, number):
            ran = run(f"{words.format(model=model, pairs=pairs)} -f -o {path} -q")
        assert (ran.code, ran.err, ran.out) == (code, f"{line}\n", ""), function
        assert sorted(tables.folder.iterdir()) == before
        assert path.read_text(encoding="utf-8") == "old"


def test_a_second_signal_ends_the_command(holes, run, monkeypatch):
    monkeypatch.setattr("dyadlearn._interrupts._SAME", 0.0)
    before = sorted(holes.folder.iterdir())
    own = searching._validated

    def again(self, *given):
        signal.raise_signal(signal.SIGINT)
        return own(self, *given)

    monkeypatch.setattr(searching, "_validated", again)
    with interrupting(FittedRidge, "solve", signal.SIGINT):
        ran = run(f"tune labels.csv {holes.sides} --cv 2 --alphas 1,10 -o m.dyad")
    *_, told, line = ran.err.splitlines()
    assert "is being finished" in told
    assert (ran.code, line, ran.out) == (130, "dyadlearn: interrupted.", "")
    assert sorted(holes.folder.iterdir()) == before


def test_nothing_of_an_interrupt_is_told_to_the_quiet(holes, run):
    words = f"tune labels.csv {holes.sides} --cv 2 --alphas 1,10 -fo m.dyad"
    with interrupting(FittedRidge, "solve", signal.SIGINT):
        ran = run(words, "-q")
    assert (ran.code, ran.err) == (130, "dyadlearn: interrupted.\n")
    assert (holes.folder / "m.dyad").exists()
    with interrupting(FittedRidge, "solve", signal.SIGINT):
        figures = run(words, "--json").json
    assert figures["baselines"] == {}
    assert "Because of the interrupt, the model is not compared with baselines." in figures["notes"]


@pytest.mark.parametrize(("call", "model"), [(1, "two-step"), (12, None)])
def test_a_signal_keeps_the_better_of_both_models(holes, run, call, model):
    """Nine points of two-step ridge, which have the least work, come before nine of Kronecker ridge."""
    with interrupting(_PointScore, "__call__", signal.SIGINT, call):
        ran = run(f"tune labels.csv {holes.sides} --setting A --alphas 1,10,100 -o m.dyad")
    assert ran.code == 130
    assert ran.err.splitlines()[-1] == "dyadlearn: interrupted."
    assert "Wrote" in ran.out
    printed = " ".join(ran.out.split())
    if model is not None:
        assert f"model {model}" in printed
        assert "kronecker has no score, because of the interrupt" in printed
    else:
        assert "kronecker 0." in printed
        assert "two-step 0." in printed
    assert np.isfinite(load("m.dyad").predict()).all()
