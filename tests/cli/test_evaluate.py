"""``dyadlearn evaluate``: the scores of the library, for a model file or for tables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, TwoStepRidgeCV, cli, load, save
from dyadlearn import evaluate as evaluated
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.metrics import scorer


def scores(ran, name="roc_auc"):
    return {row["setting"]: row["scores"][name] for row in ran.json["settings"]}


def test_a_model_file(model, run):
    pytest.importorskip("pandas")
    ran = run("evaluate", model, "--json", "--scoring", "roc_auc", "--scoring", "r2")
    assert ran.code == 0, ran.err
    for name in ("roc_auc", "r2"):
        expected = evaluated(load(model), scoring=name)
        assert_allclose(list(scores(ran, name).values()), expected[name])
        for mean in BASELINES:
            found = [row["baselines"][name][mean] for row in ran.json["settings"]]
            assert_allclose(found, expected[mean])
    assert list(scores(ran)) == ["A", "B", "C", "D"]


def test_tables_with_given_regularisation(tables, run):
    pytest.importorskip("pandas")
    ran = run("evaluate", tables.labels, *tables.sides, "--alpha", 0.5, "--task-alpha", 2, "--json", "--settings", "DB")
    twin = TwoStepRidge(0.5, 2.0).fit(tables.X, tables.Y, tasks=tables.T)
    expected = evaluated(twin, "DB", "roc_auc")
    assert_allclose(list(scores(ran).values()), expected["roc_auc"])
    assert list(scores(ran)) == ["D", "B"]


def test_tables_without_an_intercept(tables, model, run):
    pytest.importorskip("pandas")
    for kind, cls in (("two-step", TwoStepRidge), ("kronecker", KroneckerRidge), ("independent", IndependentTaskRidge)):
        words = [
            "evaluate",
            tables.labels,
            *tables.sides,
            "--model",
            kind,
            "--settings",
            "B",
            "--scoring",
            "r2",
            "--json",
        ]
        for option, fit_intercept in (("--intercept", True), ("--no-intercept", False)):
            twin = cls(fit_intercept=fit_intercept).fit(tables.X, tables.Y, tasks=tables.T)
            assert_allclose(scores(run(*words, option), "r2")["B"], evaluated(twin, "B", "r2")["r2"][0])


def test_verify_refits(model, run):
    ran = run("evaluate", model, "--verify", "--cells", 5, "--json")
    assert all(0 <= row["difference"] < 1e-9 for row in ran.json["settings"])
    seen = run("evaluate", model, "--verify", "--cells", 5)
    assert "from refitting" in seen.out
    assert "exact leave-one-out" in seen.out


def test_as_many_cells_are_refitted_as_asked_for(model, run, monkeypatch):
    asked = []
    monkeypatch.setattr(
        cli.evaluate, "verify_holdout", lambda model, setting, **more: asked.append(more["n_cells"]) or 0.0
    )
    assert run("evaluate", model, "--verify", "--cells", 3, "--settings", "AD", "-q").code == 0
    assert asked == [3, 3]


def test_missing_labels_have_nothing_to_verify(tables, run, put):
    Y = tables.Y.copy()
    Y[3, 4] = np.nan
    put(tables.labels, tables.users, tables.items, Y)
    ran = run("evaluate", tables.labels, *tables.sides, "--verify", "--json", "--settings", "A")
    assert ran.code == 0
    assert ran.json["settings"][0]["difference"] is None
    assert "nothing to verify" in ran.err


def test_a_model_without_tasks_is_told_about(tables, run):
    words = ["evaluate", tables.labels, "--instances", tables.instances, "--model", "independent", "--json"]
    ran = run(*words)
    assert list(scores(ran)) == ["A", "B"]
    assert "settings C and D are left out" in ran.err
    assert ran.json["notes"]


def test_other_alphas_for_a_model_file(tables, model, run):
    plain = tables.folder / "plain.dyad"
    save(TwoStepRidge(3.0, 4.0).fit(tables.X, tables.Y, tasks=tables.T), plain)
    ran = run("evaluate", plain, "--alpha", 0.5, "--task-alpha", 2, "--json")
    twin = run("evaluate", tables.labels, *tables.sides, "--alpha", 0.5, "--task-alpha", 2, "--json")
    assert_allclose(list(scores(ran).values()), list(scores(twin).values()))
    refused = run("evaluate", model, "--alpha", 1)
    assert refused.code == 2
    assert "chose its own regularisation" in refused.err


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_is_judged_by_what_it_was_chosen_by(tables, run):
    path = tables.folder / "search.dyad"
    for scoring, name in (
        ("average_precision", "average_precision"),
        (scorer("precision_at_k", k=3), "precision_at_3"),
    ):
        search = TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0], setting="D", scoring=scoring).fit(tables.X, tables.Y, tables.T)
        save(search, path)
        ran = run("evaluate", path, "--json", "--settings", "D")
        assert ran.code == 0, ran.err
        assert_allclose(scores(ran, name)["D"], search.best_score_)
        assert name in run("evaluate", path, "--settings", "D").out


@pytest.mark.parametrize(
    ("words", "message"), [(["--settings", "X"], "Unknown setting"), (["--scoring", "auc"], "Unknown scoring")]
)
def test_wrong_words(model, run, words, message):
    ran = run("evaluate", model, *words)
    assert ran.code == 2
    assert message in ran.err


def test_what_is_no_model_file(tables, run):
    ran = run("evaluate", tables.labels)
    assert ran.code == 3
    assert ran.err == f"dyadlearn: {tables.labels} is not a model file of dyadlearn.\n"


def test_the_best_mean_stands_beside_the_score(model, run):
    rows = run("evaluate", model, "--json").json["settings"]
    seen = run("evaluate", model).out
    assert "best mean" in seen
    assert max(map(len, seen.splitlines())) <= 80
    for row in rows:
        name, score = max(row["baselines"]["roc_auc"].items(), key=lambda mean: mean[1])
        (line,) = [line for line in seen.splitlines() if line.split()[:1] == [row["setting"]]]
        assert line.rstrip().endswith(f"{score:.4g} {name.partition('_')[0]}")


def test_a_model_that_has_learnt_nothing_is_noted(tables, run, put):
    rng = np.random.default_rng(0)
    put(tables.labels, tables.users, tables.items, 9 + 5 * rng.normal(size=8) + 0.1 * rng.normal(size=(12, 8)))
    ran = run("evaluate", tables.labels, *tables.sides, "--alpha", 1e6, "--settings", "B")
    assert "note: In setting B the model reaches neg_mean_squared_error" in ran.err
    assert "no more than simple means do without any features" in ran.err


def test_permuted_labels_beside_a_score(model, run):
    table = evaluated(load(model), n_permutations=3)
    ran = run("evaluate", model, "--permutations", 3, "--json").json["settings"]
    name = list(table)[1]
    assert_allclose([row["null"][name] for row in ran], table["null"])
    assert "null" in run("evaluate", model, "--permutations", 3).out
    assert "null" not in run("evaluate", model).out
    # Several scores have a row each, so that there is room for it.
    both = ("--scoring", "r2", "--scoring", "average_precision")
    seen = run("evaluate", model, *both, "--settings", "BD", "--permutations", 3).out
    assert [seen.count(word) for word in ("null", "score ", "r2", "average_precision")] == [1, 1, 2, 2]
    assert set(run("evaluate", model, *both, "--settings", "B", "--json").json["settings"][0]["null"]) == set(
        both[1::2]
    )
