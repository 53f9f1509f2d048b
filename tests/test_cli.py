"""The command line: what it prints, how it fails, and what it loads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch
from typer.testing import CliRunner

import dyadlearn
from dyadlearn import cli
from dyadlearn.exceptions import KernelError, NotEnoughMemoryError

runner = CliRunner()


@pytest.fixture
def small_debtags(monkeypatch):
    """Let the demonstration run on a part of the data, so that it is fast."""
    data = cli.load_debtags()
    rows = np.arange(0, 1500, 5)
    part = Bunch(
        **{key: data[key] for key in ("tasks", "task_names", "facets")},
        X=data.X[rows],
        Y=data.Y[rows],
        instance_names=data.instance_names[rows],
    )
    monkeypatch.setattr(cli, "load_debtags", lambda: part)
    return part


def test_version():
    result = runner.invoke(cli.app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"dyadlearn {dyadlearn.__version__}\n"


def test_version_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "dyadlearn.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert result.stdout == f"dyadlearn {dyadlearn.__version__}\n"
    assert result.stderr == ""


def test_help_names_the_commands():
    result = runner.invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_an_unknown_command_is_an_error():
    result = runner.invoke(cli.app, ["nonesuch"])
    assert result.exit_code == 2
    assert "nonesuch" in result.output


def test_demo_prints_every_setting_and_what_the_models_predict(small_debtags, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = runner.invoke(cli.app, ["demo"])
    assert result.exit_code == 0, result.output
    assert "300 Debian packages × 151 tags" in result.output
    for setting in ("B: new packages", "C: new tags", "D: both new"):
        assert setting in result.output
    cells = [line.split("│") for line in result.output.splitlines() if "│" in line]
    rows = {line[1].strip(): line[2:5] for line in cells}
    for name in ("independent-task ridge", "Kronecker ridge", "two-step ridge"):
        new_package, *new_tag = (cell.strip() for cell in rows[name])
        assert 0.8 < float(new_package.split()[0]) < 1
        if name == "independent-task ridge":
            assert new_tag == ["–", "–"]
        else:
            assert all(0.5 < float(cell.split()[0]) < 1 for cell in new_tag)
    assert result.output.count("likeliest tags of") == 3
    assert result.output.count("never seen") == 9
    assert "Done in" in result.output


def test_a_fifth_of_both_sides_is_hidden_and_always_the_same(small_debtags):
    split, again = cli._hide_a_fifth(small_debtags), cli._hide_a_fifth(small_debtags)
    m, q = small_debtags.Y.shape
    assert_array_equal(np.sort(np.concatenate([split.rows, split.new_rows])), np.arange(m))
    assert_array_equal(np.sort(np.concatenate([split.columns, split.new_columns])), np.arange(q))
    assert len(split.new_rows) == 60
    assert len(split.new_columns) == 31
    assert_array_equal(split.new_rows, again.new_rows)
    assert_array_equal(split.new_columns, again.new_columns)


def test_the_tags_shown_are_the_ones_with_the_highest_scores(small_debtags):
    split = cli._hide_a_fifth(small_debtags)
    model = split.fit(cli._models()["two-step ridge"])
    row = split.new_rows[0]
    shown = [list(column.cells) for column in cli._likeliest(split, model, row, small_debtags).columns]
    K, G = split.K[np.ix_(split.rows, split.rows)], split.G[np.ix_(split.columns, split.columns)]
    inner = np.linalg.solve(K + 3 * np.eye(len(K)), split.Y[np.ix_(split.rows, split.columns)])
    dual = np.linalg.solve(G + np.eye(len(G)), inner.T).T
    expected = []
    for columns, seen, count in ((split.columns, "yes", 5), (split.new_columns, "never seen", 3)):
        scores = split.K[row, split.rows] @ dual @ split.G[np.ix_(columns, split.columns)].T
        for best in sorted(range(len(columns)), key=lambda j: -scores[j])[:count]:
            true = "yes" if small_debtags.Y[row, columns[best]] else "no"
            expected.append([small_debtags.task_names[columns[best]], f"{scores[best]:.3f}", true, seen])
    assert [list(line) for line in zip(*shown, strict=True)] == expected


@pytest.mark.parametrize("error", [KernelError("The kernel is odd."), NotEnoughMemoryError("Too much.")])
def test_errors_of_the_library_are_one_sentence_on_stderr(error, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr(cli, "load_debtags", fail)
    monkeypatch.setattr(sys, "argv", ["dyadlearn", "demo"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    captured = capsys.readouterr()
    assert captured.err == f"dyadlearn: {error}\n"
    assert captured.out == ""


def test_a_bug_is_not_hidden(monkeypatch):
    def fail():
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "load_debtags", fail)
    monkeypatch.setattr(sys, "argv", ["dyadlearn", "demo"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_only_the_command_line_loads_typer_and_rich():
    # scikit-learn itself loads rich where it finds it, so being loaded proves nothing: being needed does.
    hide = "import sys; sys.modules['typer'] = sys.modules['rich'] = None;"
    for module, fails in (("dyadlearn.datasets", False), ("dyadlearn.cli", True)):
        result = subprocess.run(
            [sys.executable, "-c", f"{hide} import {module}"], capture_output=True, text=True, check=False
        )
        assert ("ModuleNotFoundError" in result.stderr) == fails, result.stderr
        assert (result.returncode != 0) == fails
