"""``dyadlearn demo`` on a part of the data, so that it is fast."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

from dyadlearn import TwoStepRidge, datasets, evaluate
from dyadlearn.cli import demo
from dyadlearn.cli.terminal import with_options
from dyadlearn.datasets import debtags_kernels, load_debtags
from dyadlearn.report.page import render
from dyadlearn.views import summary

ROWS = np.arange(0, 1500, 40)
COLUMNS = np.arange(0, 151, 10)


@pytest.fixture(scope="module")
def kernels():
    """The kernels of 38 packages and 16 tags."""
    K, G = debtags_kernels(load_debtags())
    return K[np.ix_(ROWS, ROWS)], G[np.ix_(COLUMNS, COLUMNS)]


@pytest.fixture
def small_debtags(kernels, monkeypatch, tmp_path):
    """Let the demonstration run on a part of the data, in an empty folder."""
    data = load_debtags()
    rows = ROWS
    columns = COLUMNS
    part = Bunch(
        X=data.X[rows],
        tasks=data.tasks[columns],
        Y=data.Y[np.ix_(rows, columns)],
        instance_names=data.instance_names[rows],
        task_names=data.task_names[columns],
        facets=data.facets,
    )
    monkeypatch.setattr(demo, "_ALPHAS", (0.3, 3.0))
    monkeypatch.setattr(datasets, "load_debtags", lambda: part)
    monkeypatch.setattr(datasets, "debtags_kernels", lambda _: kernels)
    monkeypatch.chdir(tmp_path)
    return part


def test_every_setting_and_what_is_missing(small_debtags, run, tmp_path):
    ran = run("demo")
    assert ran.code == 0, ran.err
    assert "38 Debian packages × 16 tags" in ran.out
    for setting in ("A: pair", "B: new package", "C: new tag", "D: both new"):
        assert setting in ran.out
    for name in ("independent", "kronecker", "two-step"):
        assert name in ran.out
    assert "guess" not in ran.out
    means = {
        line.split()[0]: line.split()[2:] for line in ran.out.splitlines() if " means " in line
    }
    assert set(means) == {"tag", "package", "both"}
    assert [["–" in cell for cell in cells] for cells in means.values()] == [
        [False, False, True, True],
        [False, True, False, True],
        [False, True, True, True],
    ]
    assert "The likeliest missing tags" in ran.out
    assert "Done in" in ran.out
    assert (
        (tmp_path / "report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_figures_are_those_of_the_models(small_debtags, run, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    refused = run("demo --json")
    assert (refused.code, "report.html: it exists already" in refused.err) == (2, True)
    assert (tmp_path / "report.html").read_text() == "mine"
    ran = run("demo --json -o other.html")
    assert ran.json["report"] == "other.html"
    best = ran.json["models"]["two-step"]
    K, G = datasets.debtags_kernels(small_debtags)
    Y = small_debtags.Y
    for setting in "AD":  # to 1e-4, as nearly equal predictions count as tied in one of the two
        model = TwoStepRidge(
            best[setting]["alpha"],
            best[setting]["task_alpha"],
            kernel="precomputed",
            task_kernel="precomputed",
        ).fit(K, Y, G)
        assert_allclose(best[setting]["auc"], evaluate(model, setting)["roc_auc"], 1e-4)
    assert set(ran.json["models"]["independent"]) == {"A", "B"}
    # Popularity of a tag among the other packages, package by package.
    others = (Y.sum(axis=0) - Y) / (len(Y) - 1)
    areas = [roc_auc_score(y, f) for y, f in zip(Y, others, strict=True) if 0 < y.sum() < y.size]
    assert_allclose(ran.json["baselines"]["B"]["task_means"], np.mean(areas))
    # The likeliest missing tag is the highest zero of the model that is best for pairs.
    model.set_alpha(best["A"]["alpha"], best["A"]["task_alpha"])
    held_out = np.where(Y == 0, model.holdout("A"), -np.inf)
    row, column = np.unravel_index(np.argmax(held_out), Y.shape)
    missing = ran.json["likeliest_missing"]
    assert missing["instance"][0] == small_debtags.instance_names[row]
    assert missing["task"][0] == small_debtags.task_names[column]
    assert_allclose(missing["prediction"][0], held_out[row, column])


def test_quiet_means_quiet(small_debtags, run, tmp_path, monkeypatch):
    def summary_of(model, options):
        assert options.progress is False
        return summary.summary_of(model, options)

    monkeypatch.setattr(demo, "summary_of", summary_of)
    ran = run(f"demo -q -o {tmp_path / 'page.html'}")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "page.html").exists()


def test_the_report_is_that_of_the_model(small_debtags, run, tmp_path, monkeypatch):
    models = []

    def summary_of(model, options):
        models.append(model)
        return summary.summary_of(model, options)

    monkeypatch.setattr(demo, "summary_of", summary_of)
    run("demo -q")
    title = "Debian packages and their tags"
    asked = {"title": title, "sides": ("package", "tag"), "scoring": "roc_auc", "progress": False}
    page = render(summary.summary_of(models[0], summary.SummaryOptions(**asked)), with_options)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert "dyadlearn predict for labels that dyadlearn tune did not see is not" in page
    assert "nested_score" not in page
