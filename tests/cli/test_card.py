"""``dyadlearn card``."""

from __future__ import annotations

import pytest

from dyadlearn import OnlineTwoStepRidge, PairRegressor, TwoStepRidge, load, save

yaml = pytest.importorskip("yaml")


def front_of(path):
    return yaml.safe_load(path.read_text(encoding="utf-8").split("\n---\n")[0])


def test_a_card_tells_how_the_model_was_made(tables, model, run, monkeypatch):
    monkeypatch.setattr("dyadlearn.views.evaluation._DRAWS", 0)
    path = tables.folder / "README.md"
    ran = run("card", model, "-o", path, "--license", "mit", "--sides", "user,item", "--title", "Users & items", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    text, told = path.read_text(encoding="utf-8"), front_of(path)
    assert (told["license"], told["pipeline_tag"]) == ("mit", "tabular-classification")
    results = {each["dataset"]["config"][-1]: each["metrics"][0] for each in told["model-index"][0]["results"]}
    assert results["D"]["value"] == load(model).best_score_
    scored = run("evaluate", model, "--json").json["settings"]
    assert {setting: each["value"] for setting, each in results.items()} == {
        row["setting"]: row["scores"]["roc_auc"] for row in scored
    }
    for part in ("# Users &amp; items", "| Users | features, linear kernel |", "labels labels.csv", "dyadlearn 0."):
        assert part in text
    assert "dyadlearn predict model.dyad" in text
    ran = run("card", model, "-o", path)
    assert (ran.code, "--force" in ran.err) == (2, True)
    assert run("card", model, "-o", path, "-f", "--settings", "B", "--json").json["output"] == str(path)
    assert len(front_of(path)["model-index"][0]["results"]) == 1


def test_models_saved_in_python(tables, run, monkeypatch):
    monkeypatch.setattr("dyadlearn.views.evaluation._DRAWS", 0)
    model, path = tables.folder / "m.dyad", tables.folder / "card.md"
    save(OnlineTwoStepRidge().fit(tables.X, tables.Y, tasks=tables.T), model)
    assert run("card", model, "-o", path).code == 0
    assert "There are none here" in path.read_text(encoding="utf-8")
    pairs = [(i, j) for i in range(12) for j in range(8)]
    long = PairRegressor(TwoStepRidge(), instances=tables.X, tasks=tables.T).fit(pairs, tables.Y.ravel())
    save(long, model)
    assert run("card", model, "-o", path, "-f", "--settings", "B").code == 0
    assert "model.predict(pairs)" in path.read_text(encoding="utf-8")
