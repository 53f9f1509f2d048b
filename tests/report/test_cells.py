"""The report of a MultiwayRidge: its figures are those of the model, and it opens on a telephone."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, MultiwayRidge, evaluate
from dyadlearn.report import write_report
from dyadlearn.report.cells import render_cells
from dyadlearn.views.cells import cell_summary
from dyadlearn.views.summary import SummaryOptions

NEW = [(), "mother", ("mother", "father")]


@pytest.fixture(scope="module")
def model():
    rng = default_rng(0)
    table = pd.DataFrame(
        {
            "mother": rng.choice([f"m{i}" for i in range(12)], 200),
            "father<b>": rng.choice([f"f{i}" for i in range(12)], 200),
            "trial": rng.choice(["t1", "t2", "t3"], 200),
        }
    ).rename(columns={"father<b>": "father"})
    values = {name: rng.normal() for name in pd.unique(table[["mother", "father"]].values.ravel())}
    y = table["mother"].map(values) + table["father"].map(values) + rng.normal(size=200)
    return MultiwayRidge("mother + father", fixed="trial").fit(table, y)


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("<main>")[2]))


@pytest.fixture(scope="module")
def summary(model):
    return cell_summary(model, SummaryOptions(scoring="r2", n=5), NEW)


def test_the_figures_are_those_of_the_model(model, summary):
    columns = summary.variances
    assert columns["term"] == ["mother", "father", "residual"]
    assert_allclose(columns["variance"], list(model.variances_.values()))
    assert_allclose(columns["standard_error"], list(model.standard_errors_.values()))
    shares = columns["share"]
    assert_allclose(shares[:2], [model.heritability("mother"), model.heritability("father")])
    assert_allclose(sum(shares), 1.0)
    assert summary.fixed == model.fixed_effects_
    scores = evaluate(model, new=NEW, scoring="r2")
    assert_allclose([result.score for result in summary.results], scores["r2"])
    assert summary.results[0].baselines == scores.results[0].baselines
    effects = pd.DataFrame(model.effects("mother")).sort_values("effect", ascending=False)
    assert summary.effects["mother"]["mother"] == list(effects["mother"][:5])
    assert_allclose(summary.effects["mother"]["std"], effects["std"][:5])
    assert summary.n_left_out == {"mother": 7, "father": 7}


def test_the_page_shows_them(model, summary):
    page = text_of(render_cells(summary))
    for name, variance in model.variances_.items():
        assert f"{name} {variance:.4g}" in page
    assert "The other 7 are left out." in page
    assert "trial=" in page
    for result in summary.results:
        assert f"{result.score:.4g}" in page
        assert result.setting.in_words in page
    for heading in ("Variances", "Fixed effects", "Settings", "Held-out predictions", "Notes"):
        assert heading in page


def test_points_are_labels_and_held_out_predictions(model, summary):
    clouds = summary.clouds()
    assert [words for _, words, _, _ in clouds] == ["new cell", "new mother", "new mother + father"]
    held_out = model.holdout(new="mother")
    assert_allclose(clouds[1][2].y, held_out)
    errors = np.sort(np.abs(model.fitted_.values - held_out))
    assert_allclose(clouds[1][3], errors[179])


def test_warnings_name_scores_below_baselines_and_terms_without_variance():
    rng = default_rng(3)
    table = {name: rng.integers(0, 9, 80).astype(str) for name in ("a", "b")}
    model = MultiwayRidge("a + b").fit(table, rng.normal(size=80))
    summary = cell_summary(model, SummaryOptions(notes=["Look here."]), None)
    zeros = [name for name, value in model.variances_.items() if value == 0]
    assert zeros
    warned = " ".join(text for caution in summary.cautions for text in caution.texts)
    assert f"The variance of {zeros[0]!r} is 0" in warned
    assert "best baseline" in warned
    assert "Look here." in warned
    assert zeros[0] not in summary.effects


def test_ids_are_escaped(tmp_path):
    table = {"a": ["<script>"] * 3 + ["x"] * 3, "b": list("uvwuvw")}
    model = MultiwayRidge("a", variances={"a": 1.0}).fit(table, np.arange(6.0))
    names = {"x": "<b>Xenia"}
    path = write_report(model, tmp_path / "report.html", title="<i>", names=names, new=["a"])
    page = path.read_text()
    assert "<i>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    assert "x (&lt;b&gt;Xenia)" in page


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"setting": "A"}, "setting is not available for the report"),
        ({"nested": False}, "nested is not available"),
        ({"sides": ("a", "b")}, "sides is not available"),
        ({"new": ["trial"]}, "trial"),
    ],
)
def test_refusals(model, tmp_path, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_report(model, tmp_path / "report.html", **options)
    assert not (tmp_path / "report.html").exists()


def test_models_of_pairs_have_no_new_sides(tmp_path):
    rng = default_rng(0)
    pairs = KroneckerRidge().fit(rng.normal(size=(5, 2)), rng.normal(size=(5, 4)), np.eye(4))
    with pytest.raises(TypeError, match="new= names sides of a MultiwayRidge"):
        write_report(pairs, tmp_path / "report.html", new=["mother"])


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_into_a_window(model, tmp_path, visit, width):
    path = write_report(model, tmp_path / "report.html", new=NEW)
    page = visit(path.as_uri(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#effects-of-0 input").fill("m1")
    assert page.locator("#effects-of-0 output").inner_text().endswith("of 12")
