"""``dyadlearn evaluate``, the scores of the library for a model file; ``inspect`` and ``report``."""

import errno
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    Landmarks,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    __version__,
    compare,
    load,
    permutation_test,
    save,
)
from dyadlearn import evaluate as evaluated
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.metrics import scorer
from dyadlearn.store.container import read_container, write_container


def scores(ran, name="roc_auc"):
    return {row["setting"]: row["scores"][name] for row in ran.json["settings"]}


def test_a_model_file(model, run):
    ran = run(f"evaluate {model} --json --scoring roc_auc --scoring r2")
    assert ran.code == 0, ran.err
    for name in ("roc_auc", "r2"):
        expected = evaluated(load(model), scoring=name)
        assert_allclose(list(scores(ran, name).values()), expected[name])
        for mean in BASELINES:
            found = [row["baselines"][name][mean] for row in ran.json["settings"]]
            assert_allclose(found, expected[mean])
    assert list(scores(ran)) == ["A", "B", "C", "D"]


@pytest.fixture
def fitted(tables):
    """Return a function that fits a model, saves it, and returns its file."""

    def saved(model=None, **more):
        path = tables.folder / "fitted.dyad"
        labels = more.get("labels", tables.Y)
        save((model or TwoStepRidge(0.5, 2.0)).fit(tables.X, labels, tables.T), path)
        return path

    return saved


def test_verify_refits(model, run):
    ran = run(f"evaluate {model} --verify -n 5 --json")
    assert all(0 <= row["difference"] < 1e-9 for row in ran.json["settings"])
    seen = run(f"evaluate {model} --verify -n 1 --setting B")
    assert "from refitting" in seen.out
    assert "exact leave-one-out" in seen.out


def test_missing_labels_have_nothing_to_verify(tables, fitted, run):
    Y = tables.Y.copy()
    Y[3, 4] = np.nan
    ran = run("evaluate", fitted(labels=Y), "--verify --json --setting A")
    assert ran.code == 0
    assert ran.json["settings"][0]["difference"] is None
    assert "refits are compared for complete labels only, nothing is verified" in ran.err
    assert "from refitting" not in run(f"evaluate {tables.folder}/fitted.dyad --verify").out


def test_a_model_without_tasks_is_told_about(fitted, run):
    ran = run("evaluate", fitted(IndependentTaskRidge()), "--json")
    assert list(scores(ran)) == ["A", "B"]
    assert "settings C and D are left out" in ran.err
    assert ran.json["notes"]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_is_judged_by_what_it_was_chosen_by(tables, run):
    path = tables.folder / "search.dyad"
    for scoring, name in (
        ("average_precision", "average_precision"),
        (scorer("precision_at_k", k=3), "precision_at_3"),
    ):
        search = TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0], setting="D", scoring=scoring).fit(
            tables.X, tables.Y, tables.T
        )
        save(search, path)
        ran = run(f"evaluate {path} --json --setting D")
        assert ran.code == 0, ran.err
        assert_allclose(scores(ran, name)["D"], search.best_score_)
        assert name in run(f"evaluate {path} --setting D").out


def test_what_is_no_model_file(tables, run):
    ran = run(f"evaluate {tables.labels}")
    assert ran.code == 3
    assert ran.err == f"dyadlearn: {tables.labels} is not a model file of dyadlearn.\n"


def test_the_best_mean_stands_beside_the_score(model, run):
    rows = run(f"evaluate {model} --json").json["settings"]
    seen = run(f"evaluate {model}").out
    assert "best baseline" in seen
    assert max(map(len, seen.splitlines())) <= 80
    for row in rows:
        name, score = max(row["baselines"]["roc_auc"].items(), key=lambda mean: mean[1])
        (line,) = [line for line in seen.splitlines() if line.split()[:1] == [row["setting"]]]
        assert line.rstrip().endswith(f"{score:.4g} {name.partition('_')[0]}")


# Comparison of models ----------------------------------------------------------------------------


@pytest.fixture
def files(tables):
    """Two models of the same labels."""
    models = {"two_step": TwoStepRidge(0.5, 0.5), "kronecker": KroneckerRidge(50.0)}
    models = {name: model.fit(tables.X, tables.Y, tables.T) for name, model in models.items()}
    paths = [tables.folder / f"{name}.dyad" for name in models]
    for path, model in zip(paths, models.values(), strict=True):
        save(model, path)
    return paths, models


def test_what_the_library_finds(files, run):
    found = compare(files[1], "B", n_resamples=50, random_state=3)
    words = "evaluate two_step.dyad --against kronecker.dyad --setting B --resamples 50 --seed 3"
    [figures] = run(f"{words} --json").json["settings"]
    assert (figures["verdict"], figures["coverage"]) == (found.verdict, 0.95)
    assert figures["scores"] == pytest.approx(found.scores)
    [line] = figures["differences"]
    [expected] = found.differences
    assert_allclose([line["low"], line["high"]], [expected.low, expected.high])
    seen = " ".join(run(f"{words} --sides host,parasite").out.split())
    assert "95 % intervals from 50 bootstrap samples of hosts and parasites" in seen
    for word in (found.verdict, "two_step", "kronecker", "difference", "best fraction"):
        assert word in seen


@pytest.mark.parametrize(
    ("words", "each"),
    [("--against kronecker.dyad --resamples 10", 2), ("--permutations 2", 1), ("", 1)],
)
def test_several_settings_have_an_answer_each(files, run, get, words, each):
    assert run(f"evaluate two_step.dyad --setting BD -o table.csv -q {words}").code == 0
    lines = get(Path("table.csv"))
    found = [line[lines[0].index("setting")] for line in lines[1:]]
    assert found == ["B"] * each + ["D"] * each


def test_files_of_the_same_name_are_called_by_their_paths(files, run):
    paths, _ = files
    other = paths[0].parent / "other"
    other.mkdir()
    (other / "two_step.dyad").write_bytes(paths[1].read_bytes())
    ran = run(
        f"evaluate {paths[0]} --against {other / 'two_step.dyad'} --setting B --resamples 10 --json"
    )
    assert set(ran.json["settings"][0]["scores"]) == {str(paths[0]), str(other / "two_step.dyad")}


def test_the_setting_that_all_were_tuned_for(tables, run):
    words = f"tune labels.csv {tables.sides} --model two-step"
    for more in ("-o a.dyad --setting D", "-o b.dyad --setting D", "-o c.dyad --setting B"):
        assert run(words, f"--alphas {len(more)} {more}").code == 0
    against = "evaluate a.dyad --against b.dyad --resamples 10"
    ran = run(f"{against} --json")
    assert (ran.code, ran.json["settings"][0]["setting"]) == (0, "D")
    assert "which makes scores a little optimistic.\n" in ran.err  # Python has a remedy
    [own] = run("evaluate a.dyad --setting D --json").json["settings"]
    [permuted] = run("evaluate a.dyad --permutations 1 --json").json["settings"]
    # One model in one setting has one score, whichever command tells it.
    found = [own["scores"]["roc_auc"], permuted["score"]]
    assert_allclose(found, ran.json["settings"][0]["scores"]["a"])
    line = next(line for line in run(against).out.splitlines() if "difference" in line)
    assert "roc_auc" in line
    assert "'a' for D, 'c' for B" in run("evaluate a.dyad --against c.dyad").err


# Permutation tests -------------------------------------------------------------------------------


def test_a_table_and_its_figures(model, run):
    found = permutation_test(load(model), "D", n_permutations=4, random_state=2)
    ran = run(f"evaluate {model} --setting D --permutations 4 --seed 2 --json")
    assert_allclose(ran.json["settings"][0]["null"], found.null)
    [figures] = ran.json["settings"]
    assert_allclose([figures["score"], figures["null_mean"]], [found.score, found.null.mean()])
    assert (figures["p_value"], figures["permuted"]) == (found.p_value, "both")
    seen = run(f"evaluate {model} --setting D --permutations 4 --seed 2").out
    assert "4 permutations of the labels" in seen
    assert f" both      {found.method} " in seen
    assert f"{found.score:.4g}" in seen
    assert f"{found.null_mean:.4g} ± {found.null_deviation:.4g}" in seen


def test_what_is_not_said_is_what_the_model_was_tuned_for(tables, model, run):
    own = load(model)
    ran = run(f"evaluate {model} --permutations 2 --json").json["settings"][0]
    assert (ran["setting"], ran["scoring"]) == (own.holdout_setting_, own.scoring)
    assert_allclose(ran["score"], own.best_score_)
    path = tables.folder / "fixed.dyad"
    save(TwoStepRidge().fit(tables.X, tables.Y, tables.T), path)
    ran = run(f"evaluate {path} --permutations 2 --permute tasks --scoring r2 --json").json[
        "settings"
    ][0]
    assert (ran["setting"], ran["permuted"], ran["scoring"]) == ("B", "tasks", "r2")


def test_sides_are_called_by_their_names(tune, run):
    tune("--model two-step --alphas 1 --setting B --sides user,film")
    assert " users " in run("evaluate m.dyad --setting B --permutations 2").out
    for word in ("films", "tasks"):
        ran = run(f"evaluate m.dyad --permutations 1 --permute {word} --json")
        assert ran.json["settings"][0]["permuted"] == "tasks"
    wrong = run("evaluate m.dyad --permutations 2 --permute rows")
    assert wrong.err == "dyadlearn: --permute must be both, users or films, found 'rows'.\n"
    asked = "predict --explain m.dyad --instance u0 --task i0"
    seen = run(asked, "--sides reader,book").out
    assert "reader" in seen
    assert "book" in seen
    for word, heading in (("film", "film"), ("task", "film"), ("user", "user"), ("pair", "user")):
        assert run(asked, f"--by {word} -f -o out.csv").code == 0
        assert Path("out.csv").read_text().startswith(heading)
    wrong = run(asked, "--by row -f -o out.csv")
    assert "--by must be pair, user or film, found 'row'" in wrong.err
    wrong = run("predict --explain m.dyad --instance nobody --task i0")
    assert "not among the ids of the users" in wrong.err


# --- inspect and report --------------------------------------------------------------------------


def test_what_a_file_holds(tables, model, run):
    found = run(f"inspect {model} --json").json
    assert found["model"] == "TwoStepRidgeCV"
    assert (found["instances"], found["tasks"], found["observed"]) == (12, 8, 96)
    assert (found["setting"], found["scoring"]) == ("D", "roc_auc")
    assert (found["alpha"], found["score"]) == (load(model).alpha_, load(model).best_score_)
    assert found["task_ids"] == tables.items
    assert found["versions"]["dyadlearn"] == __version__
    assert (found["fit_intercept"], found["intercept"]) == (True, load(model).intercept_)
    seen = run(f"inspect {model}")
    assert re.search(rf"^intercept +{load(model).intercept_:.4g} *$", seen.out, re.MULTILINE)
    assert "'u0', 'u1', 'u2', …" in seen.out
    assert "features, linear kernel" in seen.out


def test_models_saved_in_python(tables, run):
    path = tables.folder / "p.dyad"
    each = np.linspace(0.5, 4.0, tables.Y.shape[1])
    rbf = {"kernel": "rbf", "kernel_params": {"gamma": 0.1}}
    cases = (
        (TwoStepRidge(0.5, **rbf), {"instance_side": "features, rbf (gamma=0.1) kernel"}),
        (IndependentTaskRidge(each), {"alpha": each.tolist(), "fit_intercept": True}),
        (IndependentTaskRidge(fit_intercept=False), {"fit_intercept": False, "intercept": None}),
        (OnlineTwoStepRidge(), {"instances": 12, "tasks": 8, "task_side": None}),
    )
    for model, expected in cases:
        given = {"tasks": tables.T} if isinstance(model, TwoStepRidge) else {}
        save(model.fit(tables.X, tables.Y, **given), path)
        found = run(f"inspect {path} --json").json
        assert found.items() >= expected.items()
        if model.fit_intercept:
            assert found["intercept"] == np.asarray(load(path).intercept_).tolist()
        assert run(f"inspect {path}").code == 0
    regressor = PairRegressor(TwoStepRidge(), instances=tables.X, tasks=tables.T)
    save(regressor.fit([(0, 0), (1, 1)], [1.0, 2.0]), path)
    assert run(f"inspect {path} --json").json["observed"] == 2
    save(Landmarks(2).fit(tables.X), path)
    ran = run(f"inspect {path}")
    assert (ran.code, ran.err) == (
        3,
        f"dyadlearn: {path} holds a feature map, not a model: it cannot predict.\n",
    )


def test_files_that_are_none(model, run):
    content = model.read_bytes()
    model.write_bytes(content[: len(content) // 2])
    ran = run(f"inspect {model}")
    assert ran.code == 3
    assert "was cut short" in ran.err
    assert ran.err.count("\n") == 1


def test_report(model, run):
    words = f"report {model} -o report.html -f"
    page = Path("report.html")
    ran = run(words, "--setting D --title", "Users & items")
    assert (ran.code, ran.out) == (0, "Wrote report.html: open it in a browser.\n"), ran.err
    text = page.read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>")
    assert "Users &amp; items" in text
    assert run(words.removesuffix(" -f")).code == 2
    Path("items.fasta").write_text(">i1 first <item>\nMKV\n>i2\nMKV\n")
    Path("names.csv").write_text("id,name\nu1,Ann\n")
    names = "--names items.fasta --names names.csv --sides user,item --setting A"
    assert run(words, names).code == 0
    text = page.read_text(encoding="utf-8")
    assert "i1 (first &lt;item&gt;)" in text.replace("<wbr>", "")
    assert "u1 (Ann)" in text
    assert "12 users × 8 items" in text


def test_a_report_that_cannot_be_written(tables, model, run, monkeypatch):
    def fail(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dyadlearn.report.write.write_page", fail)
    ran = run(f"report {model} -o {tables.folder / 'r.html'}")
    assert ran.code == 4
    assert (
        ran.err == f"dyadlearn: {tables.folder / 'r.html'}: could not be written (No space left on "
        f"device).\n"
    )


def test_a_forged_header_is_a_bad_model_file(tables, model, run):
    header, arrays = read_container(model)
    about = header["command_line"]
    for change in (
        {"versions": 3},
        {"versions": None},
        {"versions": {"numpy": []}},
        {"command_line": 3},
        {"command_line": {}},
        {"command_line": {**about, "origin": [1]}},
        {"command_line": {**about, "origin": {"scoring": {}}}},
        *(
            {"command_line": {**about, "instances": {**about["instances"], **wrong}}}
            for wrong in (
                {"kind": {}},
                {"params": 3},
                {"kernel": None},
                {"names": [{}]},
                {"column": 1},
                {"more": 1},
            )
        ),
    ):
        write_container(model, {**header, **change}, arrays)
        for words in (["inspect", model], [f"predict {model} --instances {tables.instances}"]):
            ran = run(*words)
            assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1), (change, ran.err)
            assert ran.err.startswith(
                f"dyadlearn: {model} is damaged or was written by another version"
            )


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_regularisation_for_each_task_survives_the_file(tables, run):
    search = IndependentTaskRidgeCV([0.1, 1.0, 10.0], alpha_per_task=True)
    save(search.fit(tables.X, tables.Y + 0.1 * np.arange(8)), "each.dyad")
    found = run("inspect each.dyad --json").json
    assert (found["alpha"], found["score"]) == (search.alpha_.tolist(), search.best_score_)
    assert run("report each.dyad -o each.html").code == 0
    assert "one for each task" in Path("each.html").read_text(encoding="utf-8")
