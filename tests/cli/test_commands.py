"""The command itself: what it prints, how it fails, and what it loads."""

import errno
import importlib
import inspect
import re
import sys
from itertools import cycle
from pathlib import Path

import pytest

import dyadlearn
from dyadlearn import cli
from dyadlearn.cli import commands
from dyadlearn.exceptions import KernelError, ModelFileError, NotEnoughMemoryError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
# The rows of the table of commands; some have a row for an option too.
TABLE = PAGE.partition("| command | what it does |")[2].partition("\n\n")[0]
COMMANDS = re.findall(r"^\| `([a-z]+)` \|", TABLE, re.MULTILINE)
FRAMES = ("pandas", "polars", "pyarrow")


def test_help_names_the_commands_and_the_exit_codes(run):
    ran = run("--help")
    assert ran.code == 0
    listed = ran.out.partition("Commands:")[2].partition("Exit codes")[0]
    assert [line.split()[0] for line in listed.splitlines() if line.strip()] == COMMANDS
    assert "..." not in listed  # every line is whole
    assert "Exit codes" in ran.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example_and_speaks_json(run, command):
    ran = run(f"{command} --help")
    assert ran.code == 0
    assert f"dyadlearn {command}" in ran.out.partition("For example:")[2]
    assert "--json" in ran.out
    assert "--quiet" in ran.out


def fail_with(error, monkeypatch):
    def fail():
        raise error

    monkeypatch.setattr(dyadlearn.datasets, "load_debtags", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KernelError("The kernel is odd."), 2),
        (FileNotFoundError("There is no such thing."), 2),
        (ModelFileError("It is cut short."), 3),
        (NotEnoughMemoryError("Too much."), 4),
        (ImportError("This needs rdkit."), 4),
        (ConnectionError("Nobody answers."), 4),
    ],
)
def test_errors_of_the_library_are_one_sentence_on_stderr(error, code, run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fail_with(error, monkeypatch)
    ran = run("demo")
    assert ran.code == code
    assert ran.err == f"dyadlearn: {error}\n"
    assert ran.out == ""


def test_errors_of_the_system_name_the_file_and_no_number(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fail_with(OSError(errno.ENOSPC, "No space left on device", "model.dyad"), monkeypatch)
    ran = run("demo")
    assert (ran.code, ran.err) == (4, "dyadlearn: model.dyad: No space left on device.\n")


def test_a_reader_that_has_read_enough_is_no_error(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dyadlearn.cli.terminal._drop_output", lambda: None)
    fail_with(BrokenPipeError(errno.EPIPE, "Broken pipe"), monkeypatch)
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("moment", ["typer.main.get_command", "typer.core.TyperGroup.parse_args"])
def test_an_interrupt_before_there_is_a_command_is_one_sentence_too(moment, monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, interrupt)
    monkeypatch.setattr(sys, "argv", ["dyadlearn", "demo"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().err) == (130, "dyadlearn: interrupted.\n")


def test_a_bug_is_not_hidden(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fail_with(ZeroDivisionError(), monkeypatch)
    monkeypatch.setattr(sys, "argv", ["dyadlearn", "demo"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_no_command_needs_a_library_of_data_frames(tables, model, run, tmp_path, monkeypatch):
    expected = run(f"predict {model} {tables.sides}").out

    class Nothing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in FRAMES:
                raise ModuleNotFoundError(name, name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] in FRAMES]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Nothing(), *sys.meta_path])
    path = tmp_path / "other.dyad"
    for words in (
        [f"tune {tables.labels} {tables.sides} -o {path} -q --alphas 1,10"],
        ["evaluate", path],
        ["screen", path],
        [f"recommend {path} --for u3"],
    ):
        assert run(*words).code == 0, words
    assert run(f"predict {model} {tables.sides}").out == expected
    with pytest.raises(ModuleNotFoundError):
        import pandas  # noqa: F401


# An input of each command, and the command without its output.
INPUTS = """
y.csv: tune y.csv --instances x.csv
x.csv: tune y.csv --instances x.csv
x.csv: tune y.csv --instances a.csv --tasks x.csv
x.csv: tune y.csv --model learned --instances ecfp=x.csv --instances sim=a.csv
x.npz: tune y.csv --instances x.npz::matrix,row_ids=names
x.ids.txt: tune y.csv --instances x.npy
some.txt: tune y.csv --instances x.npy::row_ids=some.txt
wanted.txt: tune y.csv --instances x.h5::group/data,ids=wanted.txt
groups.csv: tune y.csv --instances x.csv --groups groups.csv
groups.csv: tune y.csv --instances x.csv --tasks a.csv --task-groups groups.csv
m.csv: predict m.csv
x.csv: predict m.dyad --instances x.csv
x.csv: predict m.dyad --instances ecfp=x.csv
pairs.csv: predict m.dyad --pairs pairs.csv
y.csv: predict m.dyad --instances x.csv --labels y.csv
m.csv: recommend m.csv
x.csv: recommend m.dyad --new x.csv
m.csv: screen m.csv
m.csv: evaluate m.csv
other.csv: evaluate m.dyad --against other.csv
m.html: report m.html
names.html: report m.dyad --names names.html
y.csv: update m.dyad --instances x.csv --labels y.csv
x.csv: update m.dyad --instances x.csv --labels y.csv
x.csv: update m.dyad --tasks x.csv --labels y.csv
"""


def test_an_output_is_no_input_of_the_same_command(tmp_path, run, monkeypatch, each):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    links = cycle(["", "folder/..", "soft", "hard"])
    for line, link in each(zip(INPUTS.strip().splitlines(), links, strict=False)):
        name, _, command = line.partition(": ")
        # Nothing is read: no file has the content that the command needs.
        for path in tmp_path.glob("*.*"):
            path.unlink()
        (tmp_path / name).write_text("content")
        output = Path(link, name) if "folder" in link else Path(link + name)
        if link == "soft":
            output.symlink_to(name)
        if link == "hard":
            output.hardlink_to(name)
        ran = run(*command.split(), f"-f -o {output}")
        which = f"The output {output} would replace {name}, which this command reads"
        assert ran.err == f"dyadlearn: {which}: choose another name for the output.\n"
        assert ran.code == 2
        assert (tmp_path / name).read_text() == "content"


def test_other_outputs_are_not_taken_for_inputs(tmp_path, run, monkeypatch, each):
    monkeypatch.chdir(tmp_path)
    for name in ("linear", "m.dyad"):
        (tmp_path / name).write_text("content")
    cases = [
        (
            "tune y.csv --model independent --instances x.csv --kernel linear -o linear -f",
            "x.csv: No such file",
        ),
        ("tune y.csv --model independent --instances . -o linear -f", ".: Is a directory"),
        (
            "update m.dyad --instances x.csv --labels y.csv -o m.dyad -f",
            "m.dyad is not a model file",
        ),
    ]
    for command, expected in each(cases):
        assert f"dyadlearn: {expected}" in run(*command.split()).err


# Options and the parameters of Python whose defaults they have.
SAME_DEFAULTS = """
Tune.setting: TwoStepRidgeCV.setting KroneckerRidgeCV.setting PairKernelRidgeCV.setting
Tune.setting: IndependentTaskRidgeCV.setting LearnedKernelRidge.setting
Tune.seed: LearnedKernelRidge.random_state
Tune.stages: LearnedKernelRidge.stages
Tune.steps: LearnedKernelRidge.n_steps
Tune.shrinkage: LearnedKernelRidge.shrinkage
Tune.normalize: LearnedKernelRidge.normalize
Evaluate.seed: permutation_test.random_state compare.random_state verify_holdout.random_state
Evaluate.resamples: compare.n_resamples
Evaluate.coverage: compare.coverage
Evaluate.number: verify_holdout.n
Evaluate.nested: evaluate.nested
Predict.number: explain.n
Predict.sort: explain.sort
Predict.prevalence: calibrate.prevalence
Recommend.setting: recommend.setting top_pairs.setting
Recommend.by: recommend.by top_pairs.by
Recommend.coverage: recommend.coverage top_pairs.coverage
Recommend.observed: recommend.observed top_pairs.observed
Screen.setting: screen.setting
Screen.number: screen.n
Report.nested: report.write_report.nested
Report.permutations: report.write_report.n_permutations
"""


def default_of(owner, path):
    """Return the default of a parameter, whose path ends with the names of the function and its own."""
    *rooms, function, parameter = path.split(".")
    for room in rooms:
        owner = importlib.import_module(f"{owner.__name__}.{room}")
    return inspect.signature(getattr(owner, function)).parameters[parameter].default


def test_defaults_are_those_of_python(each):
    for line in each(SAME_DEFAULTS.strip().splitlines()):
        option, _, paths = line.partition(": ")
        for path in paths.split():
            assert default_of(dyadlearn, path) == default_of(commands, option), path
