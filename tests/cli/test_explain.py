"""``dyadlearn explain``: what the library says, in tables, in JSON and in files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, TwoStepRidge, explain, load, save


@pytest.fixture
def new(tables, put):
    """Two new users, the columns in another order than in training, and one new item."""
    rng = np.random.default_rng(1)
    X, T = rng.normal(size=(2, 3)), rng.normal(size=(1, 2))
    users = put(tables.folder / "new_users.csv", ["n0", "n1"], ["mood", "age", "height"], X[:, [2, 0, 1]])
    items = put(tables.folder / "new_items.csv", ["m0"], ["price", "size"], T)
    return {"X": X, "T": T, "users": users, "items": items}


def test_a_pair_of_training(model, run):
    found = explain(load(model), "u3", "i5", top=4)
    ran = run("explain", model, "--instance", "u3", "--task", "i5", "-k", 4, "--json")
    assert ran.json["prediction"] == pytest.approx(found.prediction)
    assert (ran.json["instance"], ran.json["setting"], ran.json["label"]) == ("u3", "A", found.label)
    for kind in ("pair", "instance", "task"):
        listed, rest = ran.json[f"{kind}s"]["listed"], ran.json[f"{kind}s"]["rest"]
        assert_allclose([row["contribution"] for row in listed], found.by(kind).contributions)
        assert_allclose(sum(row["contribution"] for row in listed) + rest["contribution"], found.prediction)
    assert (listed[0]["task"], rest["count"]) == (found.tasks.ids[0], 4)
    seen = run("explain", model, "--instance", "u3", "--task", "i5", "-k", 4)
    assert f"{found.prediction:.4g} is predicted for instance 'u3' and task 'i5', which comes from:" in seen.out
    assert "92 others" in seen.out
    assert "note: The regularisation was chosen by these labels too" in seen.err


def test_new_entities_of_files(model, new, run):
    loaded = load(model)
    cases = [
        (["--new-instance", new["users"], "--instance", "n1", "--task", "i2"], (new["X"][1:], "i2"), "B"),
        (["--instance", "u2", "--new-task", new["items"]], ("u2", new["T"]), "C"),
        (
            ["--new-instance", new["users"], "--instance", "n0", "--new-task", new["items"], "--task", "m0"],
            (new["X"][:1], new["T"]),
            "D",
        ),
    ]
    for words, asked, setting in cases:
        ran = run("explain", model, *words, "--json")
        assert (ran.json["prediction"], ran.json["setting"]) == (
            pytest.approx(explain(loaded, *asked).prediction),
            setting,
        )
    assert (ran.json["instance"], ran.json["task"], ran.json["label"]) == ("n0", "m0", None)
    ran = run("explain", model, "--new-instance", new["users"], "--task", "i2")
    assert (ran.code, "has 2 rows: say which instance is meant by --instance" in ran.err) == (2, True)
    assert (
        "'n7' not among the ids of"
        in run("explain", model, "--new-instance", new["users"], "--instance", "n7", "--task", "i2").err
    )


def test_one_list_into_a_file(tables, model, run, get):
    out = tables.folder / "why.csv"
    words = ("explain", model, "--instance", "u3", "--task", "i5", "-k", 2, "-o", out)
    assert run(*words, "--by", "instance").out == f"Wrote 2 rows to {out}.\n"
    lines = get(out)
    assert lines[0] == ["instance", "weight", "mean_label", "contribution"]
    refused = run(*words)
    assert (refused.code, "exists already" in refused.err) == (2, True)
    assert get(out) == lines
    assert "--by must be" in run(*words, "--by", "row", "--force").err
    run(*words, "--force")
    assert get(out)[0] == ["instance", "task", "weight", "label", "contribution"]


def test_what_cannot_be_explained(tables, model, new, run):
    for words, message in (
        (("--instance", "u3"), "Say which task is meant: give --task, an id of training, or --new-task, a file."),
        (("--instance", "nobody", "--task", "i5"), "'nobody' not among the ids of the instances"),
        (("--instance", "u3", "--task", "i5", "--new-instance", "gone.csv"), "gone.csv"),
    ):
        ran = run("explain", model, *words)
        assert (ran.code, message in ran.err) == (2, True), ran.err
    path = tables.folder / "other.dyad"
    save(OnlineTwoStepRidge().fit(tables.X, tables.Y, tasks=tables.T), path)
    ran = run("explain", path, "--instance", 1, "--task", 2)
    assert (ran.code, "keeps statistics only, not the labels" in ran.err) == (2, True)
    save(IndependentTaskRidge().fit(tables.X, tables.Y), path)
    ran = run("explain", path, "--instance", 1, "--new-task", new["items"])
    assert (ran.code, "leave --new-task out" in ran.err) == (2, True)
    assert "is a position from 0, found 'x'" in run("explain", path, "--instance", "x", "--task", 2).err
    ran = run("explain", path, "--instance", 1, "--task", 2, "--json")
    assert ran.json["prediction"] == pytest.approx(explain(load(path), 1, 2).prediction)


def test_a_network_lists_its_nodes_once(tables, run):
    path = tables.folder / "n.dyad"
    Y = tables.X @ tables.X.T
    save(TwoStepRidge(symmetry="symmetric").fit(tables.X, Y), path)
    ran = run("explain", path, "--instance", 1, "--task", 2, "--json")
    assert set(ran.json) >= {"pairs", "instances"}
    assert "tasks" not in ran.json
    assert "other node" in run("explain", path, "--instance", 1, "--task", 2).out
