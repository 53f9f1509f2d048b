"""A report is written whole or not at all."""

import os

import pytest

from dyadlearn import TwoStepRidge
from dyadlearn.report import write_report


@pytest.fixture
def model(real):
    X, Y, T = real
    return TwoStepRidge().fit(X, Y, T)


def test_a_report_is_a_file(model, tmp_path):
    (tmp_path / "report.html").write_text("old")
    path = write_report(model, str(tmp_path / "report.html"), title="Mine", alphas=[1.0, 2.0], n=7)
    assert path == tmp_path / "report.html"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "<h1>Mine</h1>" in text
    n_tasks = model.fitted_.labels.shape[1]
    assert text.count("<bdi>") == 2 * 7 + n_tasks
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_an_old_report_stays_if_a_new_one_fails(model, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(model, path, alphas=[1.0, 2.0])
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_places_that_cannot_be_written_to(model, tmp_path):
    with pytest.raises(IsADirectoryError, match="This is a folder"):
        write_report(model, tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no such folder"):
        write_report(model, tmp_path / "nowhere" / "report.html")


def test_a_senseless_number_of_cells(model, tmp_path):
    with pytest.raises(ValueError, match="n must be"):
        write_report(model, tmp_path / "report.html", n=2.5)
    assert list(tmp_path.iterdir()) == []
