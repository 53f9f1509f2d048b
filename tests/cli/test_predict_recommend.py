"""``dyadlearn screen`` and ``dyadlearn recommend``: what the library says, in tables and in JSON."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from dyadlearn import TwoStepRidge, calibrate, load, recommend, save, screen, top_pairs
from dyadlearn._tables import Table, make_ids


def test_screen_prints_what_the_library_finds(model, run):
    found = screen(load(model), "B", n=4)
    ran = run(f"screen {model} -n 4 --setting B --json")
    assert [(cell["instance"], cell["task"]) for cell in ran.json["cells"]] == list(
        zip(found.instances, found.tasks, strict=True)
    )
    assert_allclose([cell["contradiction"] for cell in ran.json["cells"]], found.contradictions)
    seen = run(f"screen {model} -n 4 --setting B")
    assert "in setting B (exact leave-one-out)" in seen.out
    assert all(name in seen.out for name in found.instances)


def test_screen_of_one_label_into_a_file(tables, model, run, get):
    out = tables.folder / "suspicious.csv"
    assert run(f"screen {model} --label 0 -n 3 -o {out}").out == f"Wrote 3 rows to {out}.\n"
    lines = get(out)
    assert lines[0] == ["instance", "task", "label", "prediction", "contradiction"]
    assert [line[2] for line in lines[1:]] == ["0.0"] * 3
    refused = run(f"screen {model} --label 0 -o {out}")
    assert (refused.code, "exists already" in refused.err) == (2, True)
    assert get(out) == lines


@pytest.mark.parametrize(("subject", "of"), [("u3", "tasks"), ("i5", "instances")])
def test_recommend_for_either_side(tables, model, run, subject, of):
    found = recommend(load(model), **{"instance" if of == "tasks" else "task": subject}, n=2)
    ran = run(f"recommend {model} --for {subject} -n 2 --json")
    assert ran.json["recommended"] == of
    assert [entry[of.removesuffix("s")] for entry in ran.json["best"]] == list(found.ids)
    assert_allclose([entry["score"] for entry in ran.json["best"]], found.scores)
    seen = run("recommend", model, "--for", subject, "-n", 2)
    assert f"Best {of} for {subject} that are not observed" in seen.out


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--by", "upper", "--coverage", "0.8"], {"by": "upper", "coverage": 0.8}),
        (["--observed", "--by", "lower"], {"observed": True, "by": "lower"}),
        (["--per-instance", 1, "--per-task", 2], {"per_instance": 1, "per_task": 2}),
        (["--observed", "--setting", "B"], {"observed": True, "setting": "B"}),
    ],
)
def test_what_is_recommended(model, run, words, asked):
    loaded = load(model)
    for of, found in (
        (["--pairs"], top_pairs(loaded, **asked)),
        (["--for", "u3"], recommend(loaded, instance="u3", **asked)),
    ):
        ran = run("recommend", model, *of, *words, "--json")
        columns = found.columns()
        assert list(ran.json["best"][0]) == list(columns)
        for name in set(columns) & {"score", "lower", "upper"}:
            assert_allclose([entry[name] for entry in ran.json["best"]], columns[name])
        assert [entry["task"] for entry in ran.json["best"]] == columns["task"]


def test_recommended_with_probabilities(tables, model, run, put):
    loaded = load(model)
    X = np.random.default_rng(4).normal(size=(3, 3))
    users = put(tables.folder / "new.csv", ["n0", "n1", "n2"], ["age", "height", "mood"], X)
    for words, setting, more in (
        (["--for", "u3"], "A", []),
        (["--pairs", "--setting", "D"], "D", []),
        (["--new", users], "B", ["--prevalence", "0.05"]),
    ):
        ran = run("recommend", model, *words, "--probability", *more, "--json")
        prevalence = 0.05 if more else None
        mapping = calibrate(loaded, setting, prevalence=prevalence)[setting].mapping
        best = ran.json["best"]
        scores = np.array([entry["score"] for entry in best])
        assert_allclose([entry["probability"] for entry in best], mapping(scores))


def test_ids_that_are_unknown_or_of_both_sides(tables, run, put):
    both = [f"x{j}" for j in range(8)]
    put(tables.labels, both, tables.items[:4] + both[:4], tables.Y[:8])
    put(tables.instances, both, "abc", tables.X[:8])
    put(tables.tasks, tables.items[:4] + both[:4], "ab", tables.T)
    path = tables.folder / "b.dyad"
    run(f"tune {tables.labels} {tables.sides} --alphas 1,10 -o {path} -q")
    ran = run(f"recommend {path} --for x2")
    assert (ran.code, ran.err) == (
        2,
        "dyadlearn: 'x2' is among the instances and the tasks: choose one by --side.\n",
    )
    assert run(f"recommend {path} --for x2 --side task --json").json["recommended"] == "instances"


def test_a_node_of_a_network_is_one(tables, run):
    path = tables.folder / "n.dyad"
    Y = (tables.X @ tables.X.T > 0).astype(float)
    frame = pd.DataFrame(Y, index=tables.users, columns=tables.users)
    save(TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(tables.X, frame), path)
    ran = run(f"recommend {path} --for u2 -n 1 --json")
    assert ran.json["recommended"] == "nodes"
    assert [entry["node"] for entry in ran.json["best"]] == list(
        recommend(load(path), instance="u2", n=1).ids
    )


def test_models_without_ids_are_asked_by_position(tables, run):
    path = tables.folder / "p.dyad"
    save(TwoStepRidge().fit(tables.X, tables.Y, tables.T), path)
    ran = run(f"recommend {path} --for 11 -n 1 --json")
    assert ran.json["best"][0]["task"] == recommend(load(path), instance=11, n=1).ids[0]


def test_recommend_for_new_ones(tables, model, run, put, get):
    X_new = tables.X[:3] + 0.5
    T_new = tables.T[:2] - 0.5
    names = ["n0", "n1", "n2"]
    # With columns in another order and one that nobody asked for.
    values = np.column_stack([X_new[:, [2, 0, 1]], X_new[:, 0]])
    put(Path("new.csv"), names, ["mood", "age", "height", "shoes"], values)
    put(Path("new_tasks.csv"), ["t0", "t1"], ["price", "size"], T_new)
    found = recommend(load(model), X=Table(X_new, make_ids(names, None, "X")), n=2).columns()
    words = "recommend model.dyad --new new.csv -n 2"
    ran = run(words, "--json").json
    assert (ran["recommended"], ran["setting"]) == ("tasks", "B")
    for name in ("instance", "task", "score"):
        assert [entry[name] for entry in ran["best"]] == pytest.approx(list(found[name]))
    assert "Best tasks for each of 3 new instances" in run(words, "-q").out
    ran = run("recommend model.dyad --new new_tasks.csv --side task -n 3 -o wanted.csv")
    assert ran.out == "Wrote 6 rows to wanted.csv.\n"
    lines = get(Path("wanted.csv"))
    assert lines[0] == ["task", "instance", "score"]
    turned = recommend(load(model), tasks=T_new, n=3)
    assert [line[1] for line in lines[1:]] == [name for own in turned.ids for name in own]


def test_the_top_pairs(model, run):
    found = top_pairs(load(model), n=4)
    ran = run(f"recommend {model} --pairs --number 4 --json")
    assert ran.json["recommended"] == "pairs"
    assert [(pair["instance"], pair["task"]) for pair in ran.json["best"]] == list(
        zip(found.instances, found.tasks, strict=True)
    )
    seen = run(f"recommend {model} --pairs")
    assert "Best pairs that are not observed" in seen.out
    assert "label" in seen.out  # zeros are observed
