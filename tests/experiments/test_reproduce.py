"""The plan of all experiments: what runs, what is left out, and how it ends."""

import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


def test_the_plan_says_what_lacks_which_data(script, tmp_path):
    steps = {step.name: step for step in script.plan(["table2", "text"], tmp_path)}
    nothing = f"no drugs and targets in {tmp_path}: nothing to run on"
    assert (steps["table2"].runs, steps["table2"].words) == (False, nothing)
    assert (steps["transfer"].runs, steps["transfer"].words) == (False, "not asked for")
    assert steps["text"].runs
    assert steps["text"].words.startswith(
        f"no web pages, packages in {tmp_path}: only the 1,500 packages"
    )
    for name in ("yamanishi2008", "lshtc1_dryrun", "debtags"):
        (tmp_path / name).mkdir()
    assert [step.words for step in script.plan(["table2", "text"], tmp_path)] == [
        "all data here",
        "not asked for",
        "all data here",
    ]


def test_what_cannot_be_had_and_not_be_done_without_is_left_out(script, monkeypatch, tmp_path):
    monkeypatch.setitem(
        script.EXPERIMENTS,
        "text",
        script.Experiment("texts", "online_text.py", ("lshtc1_dryrun",), 1.0, 1.0),
    )
    step = script.plan(["text"], tmp_path)[-1]
    assert (step.runs, step.words) == (False, f"no web pages in {tmp_path}: nothing to run on")


def test_a_failure_keeps_nobody_else_from_running(script, monkeypatch, tmp_path, capsys):
    called = []

    def run(command, check):
        called.append(command)
        return subprocess.CompletedProcess(command, 3 if "drug_target.py" in command[1] else 0)

    monkeypatch.setattr(script.subprocess, "run", run)
    for name in ("yamanishi2008", "davis"):
        (tmp_path / name).mkdir()
    with pytest.raises(SystemExit) as ended:
        script.main(
            ["--quick", "--out", str(tmp_path), "--data-home", str(tmp_path), "--text=--repeats 2"]
        )
    assert ended.value.code == 1
    assert [Path(command[1]).name for command in called] == [
        "drug_target.py",
        "transfer.py",
        "online_text.py",
    ]
    assert all("--quick" in command and str(tmp_path) in command for command in called)
    assert called[-1][-2:] == ["--repeats", "2"]
    told = capsys.readouterr().out
    assert told.index("What runs") < told.index("table2: failed (3)")
    assert "text: done" in told


def test_every_experiment_and_every_other_script_is_there(script):
    for name in [each.script for each in script.EXPERIMENTS.values()] + list(script.OTHERS):
        assert (FOLDER / name).is_file(), name


def test_the_plan_alone_runs_nothing(script, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(script.subprocess, "run", None)
    script.main(["--plan", "--data-home", str(tmp_path)])
    told = " ".join(capsys.readouterr().out.split())
    assert "nothing to run on" in told
    assert "done after" not in told
