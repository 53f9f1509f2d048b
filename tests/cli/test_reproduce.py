"""``dyadlearn reproduce``: experiments of a checkout, and a clear sentence elsewhere."""

from __future__ import annotations

import pytest

from dyadlearn.cli import reproduce


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose experiments only say how they were called."""
    (tmp_path / "src" / "dyadlearn").mkdir(parents=True)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "pyproject.toml").touch()
    script = "import sys; open(sys.argv[1], 'w').write(' '.join(sys.argv[2:])); sys.exit(7)"
    (tmp_path / "experiments" / "drug_target.py").write_text(script)
    monkeypatch.setattr(reproduce.dyadlearn, "__file__", str(tmp_path / "src" / "dyadlearn" / "__init__.py"))
    return tmp_path


def test_what_follows_is_handed_on(checkout, run):
    ran = run("reproduce", "table2", checkout / "out.txt", "--quick", "--sets", "nr")
    assert ran.code == 7
    assert (checkout / "out.txt").read_text() == "--quick --sets nr"


def test_help_of_the_experiment_comes_after_two_dashes(checkout, run):
    assert run("reproduce", "table2", "--", checkout / "out.txt", "--help").code == 7
    assert (checkout / "out.txt").read_text() == "--help"
    assert "Run an experiment of the paper" in run("reproduce", "--help").out


def test_an_experiment_that_is_not_there(checkout, run):
    ran = run("reproduce", "transfer")
    assert (ran.code, ran.err) == (2, "dyadlearn: This checkout has no transfer.py: get one that has, by git pull.\n")


def test_an_unknown_experiment(run):
    ran = run("reproduce", "table9")
    assert ran.code == 2
    assert "the names are all, table2, transfer, online-text, records" in ran.err


def test_outside_a_checkout(tmp_path, monkeypatch, run):
    monkeypatch.setattr(reproduce.dyadlearn, "__file__", str(tmp_path / "lib" / "dyadlearn" / "__init__.py"))
    ran = run("reproduce", "table2")
    assert ran.code == 2
    assert "clone the repository" in ran.err
    assert ran.err.count("\n") == 1
