"""The standing campaign: it runs, it replays, its references agree with each other, and it sees what is wrong."""

import importlib
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps import every, over

FUZZ = Path(__file__).parents[1] / "fuzz"


@pytest.fixture(scope="module")
def script():
    names = [path.stem for path in FUZZ.glob("*.py")]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FUZZ))
        yield importlib.import_module("run")
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def rooms(script):
    return sys.modules


def test_every_generator_runs_and_replays(rooms):
    play = rooms["campaign"].play
    for name in rooms["campaign"].GENERATORS:
        first = play(name, 1)
        second = play(name, 2)
        assert first.what != second.what
        assert {first.verdict, second.verdict} <= {"agreed", "refused", "failed"}
        assert play(name, 1) == first


def changing(change):
    """Return what makes a function that changes the answer of another."""
    return lambda function: lambda *arguments, **options: change(function(*arguments, **options))


def raising(function):
    return lambda *arguments, **options: {}["a bare error"]


# What is broken and how, for the generator that must see it.
BREAKS = {
    "independent": (
        "fitting",
        "IndependentTaskRidge.holdout",
        changing(lambda found: found * (1 + 1e-6)),
    ),
    "two_step": (
        "fitting",
        "TwoStepRidge.holdout",
        changing(lambda found: found + 1e-6 * abs(found).max()),
    ),
    "kronecker": ("fitting", "KroneckerRidge.predict", changing(lambda found: found * (1 + 1e-6))),
    "network": ("fitting", "TwoStepRidge.fit", raising),
    "online": ("growing", "OnlineTwoStepRidge.predict", changing(lambda found: found[::-1])),
    "units": ("units", "TwoStepRidge.predict", changing(lambda found: found + 1.0)),
    "heavy_weights": (
        "units",
        "KroneckerRidge.predict",
        changing(lambda found: found * (1 + 1e-5)),
    ),
    "scales": (
        "growing",
        "OnlineTwoStepRidge.predict",
        changing(lambda found: found + 1e-6 * np.ptp(found)),
    ),
    "scaled_features": (
        "scaling",
        "TwoStepRidge.predict",
        changing(lambda found: found * (1 + 1e-4)),
    ),
    "scaled_kernels": (
        "scaling",
        "IndependentTaskRidge.predict",
        changing(lambda found: found * (1 + 1e-4)),
    ),
    "searches": ("searching", "between", changing(lambda found: (2.0, 3.0))),
    "metrics": ("scoring", "average_precision", changing(lambda found: (found[0] / 2, found[1]))),
    "folds": (
        "splitting",
        "SettingKFold.split",
        changing(lambda found: [(train, train) for train, _ in found]),
    ),
    "long_tables": (
        "splitting",
        "to_grid",
        changing(lambda found: replace(found, grid=found.grid + 1)),
    ),
    "files": ("storing", "load", changing(lambda found: found.set_params(repair="shift"))),
    "broken_files": ("storing", "load", raising),
    "told_files": ("commanding", "app", raising),
    "tables": ("commanding", "app", raising),
    "sparse_files": ("commanding", "command", raising),
}


def test_there_is_a_break_for_every_generator(rooms):
    assert set(BREAKS) == set(rooms["campaign"].GENERATORS)


@over(every(name=list(BREAKS)))
def test_a_wrong_answer_is_seen(rooms, name):
    room, path, replacement = BREAKS[name]
    play = rooms["campaign"].play
    owner, _, attribute = path.rpartition(".")
    target = getattr(rooms[room], owner) if owner else rooms[room]
    for seed in range(60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, attribute, replacement(getattr(target, attribute)))
            broken = play(name, seed).verdict
        if broken == "failed" and play(name, seed).verdict != "failed":
            return
    pytest.fail("nothing was seen")


def test_a_strange_warning_is_seen(rooms, monkeypatch):
    play = rooms["campaign"].play
    fitting = rooms["fitting"]
    seed = next(seed for seed in range(100) if play("kronecker", seed).verdict == "agreed")

    def warn(found):
        warnings.warn("divide by zero", RuntimeWarning, stacklevel=1)
        return found

    monkeypatch.setattr(fitting.KroneckerRidge, "fit", changing(warn)(fitting.KroneckerRidge.fit))
    outcome = play("kronecker", seed)
    assert outcome.verdict == "failed"
    assert "RuntimeWarning" in outcome.note


def test_the_campaign_counts_and_says_how_to_replay(script, rooms, monkeypatch, capsys):
    def odd(case):
        """Fail at odd seeds."""
        if case.seed % 2:
            raise rooms["campaign"].WrongAnswerError("odd")

    monkeypatch.setitem(rooms["campaign"].GENERATORS, "odd", odd)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "odd", "--seed", "10", "--cases", "4"])
    assert script.main() == 1
    assert "python fuzz/run.py --only odd --seed 13 --cases 1" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "odd", "--seed", "10", "--cases", "1"])
    assert script.main() == 0


def test_an_interruption_shows_what_was_found(script, rooms, monkeypatch, capsys):
    def impatient(case):
        """Interrupt the third case."""
        if case.seed == 2:
            raise KeyboardInterrupt
        raise rooms["campaign"].WrongAnswerError("bad")

    monkeypatch.setitem(rooms["campaign"].GENERATORS, "impatient", impatient)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "impatient", "--seed", "0"])
    assert script.main() == 1
    assert "--only impatient --seed 1 --cases 1" in capsys.readouterr().out


# --- old against new --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compare(script):
    """Return the module that compares two versions; `script` takes all of them out again."""
    return importlib.import_module("compare")


def answered(rooms, kind, seed):
    return rooms["cases"].answer(kind, seed, rooms["cases"].Library({}))[1]


@pytest.mark.slow
def test_two_processes_of_one_tree_agree(compare):
    workers = compare.tree_worker(), compare.tree_worker()
    try:
        tally = compare.campaign([workers], list(range(8)))
    finally:
        for worker in workers:
            worker.close()
    assert not tally.failed
    assert sum(tally.cases.values()) == 8
    # Most answers are numbers, not refusals.
    assert sum(tally.quantities.values()) > 50
    assert sum(tally.refused.values()) < 0.3 * sum(tally.quantities.values())


def test_a_difference_is_noticed(compare, rooms, monkeypatch):
    right = answered(rooms, "models", 1)
    assert compare.differences(right, answered(rooms, "models", 1)) == []
    for model in ("IndependentTaskRidge", "KroneckerRidge", "TwoStepRidge", "PairKernelRidge"):
        kind = getattr(importlib.import_module("dyadlearn"), model)
        monkeypatch.setattr(
            kind, "holdout", changing(lambda found: found * (1 + 1e-8))(kind.holdout)
        )
    found = compare.differences(right, answered(rooms, "models", 1))
    assert found
    assert all(each.quantity.startswith("holdout") and 1 < each.ratio < 100 for each in found)


def test_lines_for_faults_are_there(compare):
    planting = importlib.import_module("planting")
    source = FUZZ.parent / "src"
    texts = planting.read_texts(source)
    for fault in planting.FAULTS:
        assert planting.place(fault, source, texts).is_file()
