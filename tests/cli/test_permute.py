"""``dyadlearn permute``: what the library finds, as a table and as JSON."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, load, permutation_test, save


def test_a_table_and_its_figures(model, run):
    found = permutation_test(load(model), "D", n_permutations=4, random_state=2)
    ran = run("permute", model, "--setting", "D", "-n", 4, "--seed", 2, "--json")
    assert_allclose(ran.json["null"], found.null)
    assert_allclose([ran.json["score"], ran.json["null_mean"]], [found.score, found.null.mean()])
    assert (ran.json["p_value"], ran.json["permuted"]) == (found.p_value, "both")
    seen = run("permute", model, "--setting", "D", "-n", 4, "--seed", 2).out
    assert f"4 permutations of both ({found.method})" in seen
    assert f"{found.score:.4g}" in seen
    assert f"{found.null_mean:.4g} ± {found.null_deviation:.4g}" in seen


def test_what_is_not_said_is_what_the_model_was_tuned_for(tables, model, run):
    own = load(model)
    ran = run("permute", model, "-n", 2, "--json").json
    assert (ran["setting"], ran["scoring"]) == (own.holdout_setting_, own.scoring)
    assert_allclose(ran["score"], own.best_score_)
    path = tables.folder / "fixed.dyad"
    save(TwoStepRidge().fit(tables.X, tables.Y, tasks=tables.T), path)
    ran = run("permute", path, "-n", 2, "--permute", "tasks", "--scoring", "r2", "--json").json
    assert (ran["setting"], ran["permuted"], ran["scoring"]) == ("B", "tasks", "r2")


def test_wrong_words(tables, model, run):
    assert "permute must be" in run("permute", model, "--permute", "rows").err.replace("--permute must", "permute must")
    assert run("permute", model, "-n", 0).code == 2
    path = tables.folder / "online.dyad"
    save(OnlineTwoStepRidge().fit(tables.X, tables.Y, tasks=tables.T), path)
    ran = run("permute", path)
    assert ran.code == 2
    assert "keeps statistics only" in ran.err
    with pytest.raises(ValueError, match="Unknown setting"):
        permutation_test(load(model), "Z")
    assert run("permute", model, "--setting", "Z").code == 2


def test_sides_are_called_by_their_names(tables, run):
    path = tables.folder / "named.dyad"
    given = ("tune", tables.labels, "--instances", tables.instances, "--tasks", tables.tasks, "-o", path)
    assert run(*given, "--setting", "B", "--sides", "user,film").code == 0
    assert "permutations of users" in run("permute", path, "--setting", "B", "-n", "3").out
    ran = run("explain", path, "--instance", "u0", "--task", "i0", "--sides", "reader,book")
    assert ran.code == 0
    assert "reader" in ran.out
    assert "book" in ran.out
    assert run("permute", path, "-n", 2, "--permute", "films", "--json").json["permuted"] == "tasks"
    assert run("permute", path, "-n", 2, "--permute", "tasks", "--json").json["permuted"] == "tasks"
    wrong = run("permute", path, "--permute", "rows")
    assert wrong.err == "dyadlearn: --permute must be both, users or films, found 'rows'.\n"
    asked = ("explain", path, "--instance", "u0", "--task", "i0")
    for word, heading in (("film", "film"), ("task", "film"), ("user", "user"), ("pair", "user")):
        out = tables.folder / f"{word}.csv"
        assert run(*asked, "--by", word, "-o", out).code == 0
        assert out.read_text().startswith(heading)
    assert "--by must be pair, user or film, found 'row'" in run(*asked, "--by", "row").err
    assert "not among the ids of the users" in run("explain", path, "--instance", "nobody", "--task", "i0").err
