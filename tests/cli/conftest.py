"""How the commands are run in tests, and small tables for them."""

import csv
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import problems
from command_output import in_python
from dyadlearn import cli

# Made once: an app makes all commands anew each time that it is called.
COMMAND = get_command(cli.app)


@pytest.fixture(autouse=True, scope="module")
def _no_draws():
    """Draw no intervals for a report, which take longer than all the rest of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dyadlearn.views.summary._DRAWS", 0)
        yield


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code in (0, 130), self.err
        return json.loads(self.out)


def words(arguments: Sequence[Any]) -> list[str]:
    """Return the words of a command, of which several may be in one text."""
    split = []
    for place, argument in enumerate(arguments):
        is_line = isinstance(argument, str) and (place == 0 or argument.startswith("-"))
        split += shlex.split(argument) if is_line else [str(argument)]
    return split


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., Ran]:
    """Run a command within this process; it must not print a parameter of Python.

    The first argument, and others that begin with a dash, are split as a shell does.
    """
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: Any) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            COMMAND(words(arguments), prog_name="dyadlearn")
        captured = capsys.readouterr()
        assert in_python(captured.err) == [], captured.err
        return Ran(int(stop.value.code or 0), captured.out, captured.err)

    return call


def do(*arguments: Any) -> None:
    """Run a command that must not fail, for fixtures of a module."""
    with pytest.raises(SystemExit) as stop:
        COMMAND(words(arguments), prog_name="dyadlearn")
    assert not stop.value.code, arguments


def refusals(text: str) -> list[dict[str, str]]:
    """Return the command of each line, and a part of the sentence that refuses it."""
    parts = [line.split(" | ") for line in text.strip().splitlines()]
    return [{"command": command.strip(), "sentence": said.strip()} for command, said in parts]


def write_rows(path: Path, rows: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def write_csv(path: Path, rows: Any, columns: Any, values: Any) -> Path:
    """Write a grid with ids."""
    lines = zip(rows, np.asarray(values).tolist(), strict=True)
    return write_rows(path, [["", *columns], *([row, *line] for row, line in lines)])


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="session")
def put() -> Callable[..., Path]:
    return write_csv


@pytest.fixture(scope="session")
def get() -> Callable[[Path], list[list[str]]]:
    return read_csv


@dataclass(frozen=True)
class Tables:
    """Three files and what is in them."""

    folder: Path
    X: np.ndarray
    T: np.ndarray
    Y: np.ndarray
    users: list[str]
    items: list[str]

    @property
    def labels(self) -> Path:
        return self.folder / "labels.csv"

    @property
    def instances(self) -> Path:
        return self.folder / "users.csv"

    @property
    def tasks(self) -> Path:
        return self.folder / "items.csv"

    @property
    def sides(self) -> str:
        return f"--instances {self.instances} --tasks {self.tasks}"


def write_tables(folder: Path) -> Tables:
    """Write labels of 12 users × 8 items that their features nearly explain, as 0 and 1."""
    X, Y, T = problems.data(12, 8, 3, 2, noise=0.1, seed=7)
    Y = (Y > 0).astype(float)
    users = [f"u{i}" for i in range(12)]
    items = [f"i{j}" for j in range(8)]
    found = Tables(folder, X, T, Y, users, items)
    write_csv(found.labels, users, items, Y)
    # In another order than the labels: they must be matched by name.
    write_csv(found.instances, users[::-1], ["age", "height", "mood"], X[::-1])
    write_csv(found.tasks, items[::-1], ["price", "size"], T[::-1])
    return found


@pytest.fixture
def tables(tmp_path, monkeypatch) -> Tables:
    """Give the tables in files of the working folder."""
    monkeypatch.chdir(tmp_path)
    return write_tables(tmp_path)


@pytest.fixture
def tune(tables, run) -> Callable[..., Ran]:
    """Give a function that tunes a model m.dyad on the tables, which must not fail."""

    def call(*more: Any) -> Ran:
        ran = run(f"tune labels.csv {tables.sides} -fo m.dyad", *more)
        assert ran.code == 0, ran.err
        return ran

    return call


@pytest.fixture(scope="session")
def once() -> Callable[..., Path]:
    """Give a function that has a file made by the first who asks for it, and copies it for others."""
    kept: dict[str, bytes] = {}

    def copy(name: str, path: Path, make: Callable[[], Any]) -> Path:
        if name in kept:
            path.write_bytes(kept[name])
        else:
            make()
            kept[name] = path.read_bytes()
        return path

    return copy


MODEL = "--model two-step --setting D --alphas 0.1,1,10 -q"


@pytest.fixture
def model(tables, once) -> Path:
    """A model file made from the tables."""
    path = tables.folder / "model.dyad"
    return once("model", path, lambda: do(f"tune labels.csv {tables.sides} {MODEL} -o", path))
