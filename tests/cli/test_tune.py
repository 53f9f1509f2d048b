"""``dyadlearn tune``: the model it writes is the one that the library would choose, or the better of two."""

import errno
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

import dyadlearn._array as array_module
from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    PairKernelRidgeCV,
    TwoStepRegressor,
    TwoStepRidgeCV,
    better_of,
    evaluate,
    load,
)
from dyadlearn.cli import models

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

ALPHAS = [0.01, 0.1, 1.0]


SEARCHES = {
    "two-step": TwoStepRidgeCV,
    "kronecker": KroneckerRidgeCV,
    "pair": PairKernelRidgeCV,
    "independent": IndependentTaskRidgeCV,
}


@pytest.mark.parametrize(("kind", "setting"), list(zip(SEARCHES, "ABBA", strict=True)))
def test_the_model_is_the_one_the_library_chooses(tables, tune, kind, setting):
    words = "--alphas 0.01:1:3 --scoring neg_mean_squared_error --json"
    ran = tune(f"--model {kind} --setting {setting} {words}")
    grids = {"alphas": ALPHAS} | ({"task_alphas": ALPHAS} if kind == "two-step" else {})
    twin = SEARCHES[kind](**grids, setting=setting).fit(tables.X, tables.Y, tables.T)
    found = load("m.dyad")
    assert type(found) is SEARCHES[kind]
    assert found.alpha_ == twin.alpha_ == ran.json["alpha"]
    assert ran.json["task_alpha"] == getattr(twin, "task_alpha_", None)
    assert_allclose(ran.json["score"], twin.best_score_)
    assert ran.json["baselines"] == pytest.approx(twin.baselines_)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X))
    assert found.fitted_.form.row_ids.labels == tuple(tables.users)
    assert found.fitted_.form.column_ids.labels == tuple(tables.items)
    assert (ran.json["output"], ran.json["observed"]) == ("m.dyad", 96)


@pytest.mark.parametrize(
    ("words", "options", "shown"),
    [
        ("--shares 2,1,1 --shares 1,0,0", {"shares": [(2.0, 1.0, 1.0), (1.0, 0.0, 0.0)]}, ", "),
        ("--constants 0.5,20", {"constants": [0.5, 20]}, " and "),
    ],
)
def test_shares_and_constants_are_searched_and_shown(tables, tune, run, words, options, shown):
    [name] = options
    kind = {"shares": "pair", "constants": "kronecker"}[name]
    words = f"--model {kind} --setting A --alphas 0.1,10 --scoring r2 {words}"
    ran = tune(words, "--json")
    twin = SEARCHES[kind]([0.1, 10], **options, setting="A", scoring="r2")
    twin.fit(tables.X, tables.Y, tables.T)
    best = list(getattr(twin, f"{name}_"))
    assert ran.json[name] == list(getattr(load("m.dyad"), f"{name}_")) == best
    assert_allclose(ran.json["score"], twin.best_score_)
    text = shown.join(f"{share:g}" for share in best)
    assert re.search(rf"^{name} +{text} *$", tune(words).out, re.MULTILINE)
    assert run("inspect m.dyad --json").json[name] == best


def test_what_people_see(tune):
    ran = tune("--alphas 0.1,1")
    assert "12 instances × 8 tasks, 100 % observed" in ran.out
    assert "roc_auc in setting B" in ran.out
    assert "features, linear kernel" in ran.out
    assert "note: The best" in ran.err  # at the edge of the grid
    assert "Held-out pairs" not in ran.err  # complete labels: all are of the setting
    assert "Warning" not in ran.err


def letters_of(labels, setting):
    """Return the letter of each label that is held out, by a loop: an entity without another label is new."""
    observed = ~np.isnan(labels)
    letters = []
    for i, j in np.argwhere(observed):
        others = observed.copy()
        if setting in "BD":
            others[i] = False
        if setting in "CD":
            others[:, j] = False
        others[i, j] = False
        is_new = (not others[i].any(), not others[:, j].any())
        letters.append("ABCD"[is_new[0] + 2 * is_new[1]])
    return letters


def test_the_actual_settings_of_the_held_out_pairs_are_said(each, tables, tune):
    labels = np.where(np.arange(8) < 2, tables.Y, np.nan)
    labels[0] = labels[1] = np.nan
    labels[0, 0] = tables.Y[0, 0]  # the only label of its instance
    labels[1, 7] = tables.Y[1, 7]  # of its instance and of its task
    labels[2:5, 5] = tables.Y[2:5, 5]
    rows = [
        f"{tables.users[i]},{tables.items[j]},{float(labels[i, j])}\n"
        for i, j in np.argwhere(~np.isnan(labels))
    ]
    tables.labels.write_text("".join(rows))
    lines = []
    for setting in each("AB"):
        counts = Counter(letters_of(labels, setting))
        words = f"--model kronecker --setting {setting} --format long --alphas 1"
        ran = tune(words, "--scoring neg_mean_squared_error")
        letters = [f"{counts[letter]} {letter}" for letter in "ABCD" if counts[letter]]
        line = f"Held-out pairs of {setting} are {', '.join(letters[:-1])} and {letters[-1]}: "
        said = " ".join(ran.err.split())
        assert f"{line}an entity without another label is new. evaluate --by setting" in said
        lines.append(len(letters))
    assert lines == [3, 2]


def test_the_edge_of_the_default_grid_is_said(tables, put, run):
    """Labels without noise want no regularisation; the sentence names the option."""
    put(tables.labels, tables.users, tables.items, tables.X @ np.ones((3, 8)) + np.arange(8))
    ran = run("tune labels.csv --instances users.csv --model independent -o m.dyad")
    assert ran.code == 0, ran.err
    found = load("m.dyad")
    limits = f"{found.alphas_[0]:g} … {found.alphas_[-1]:g}"
    said = " ".join(ran.err.split())
    edge = f"note: The best alpha, {found.alpha_:g}, is on the edge of the default grid ({limits})"
    assert f"{edge}: give smaller --alphas." in said
    assert found.alpha_ == found.alphas_[0]


def test_names_of_features_are_kept(model):
    found = models.load_model(model)
    assert found.recipes[0][""].names == ["age", "height", "mood"]
    assert found.model.fitted_.sides[0].names.labels == ("age", "height", "mood")
    assert found.origin["files"] == {
        "labels": "labels.csv",
        "instances": "users.csv",
        "tasks": "items.csv",
    }


TWO_STEP = "--model two-step --alphas 0.1,1,10 --json"


@pytest.mark.parametrize("option", ["--groups", "--task-groups", "--groups identical"])
def test_rows_of_a_group_are_left_out_together(tables, tune, put, option):
    of_tasks = "task" in option
    how = {"setting": "C" if of_tasks else "B", "scoring": "roc_auc"}
    ids = tables.items if of_tasks else tables.users
    codes = np.arange(len(ids)) // 3
    X = tables.X
    if option.endswith("identical"):
        X = tables.X[codes]
        put(tables.instances, tables.users, ["age", "height", "mood"], X)
    else:
        lines = map("{},{}".format, ids, codes)
        (tables.folder / "groups.csv").write_text("\n".join(["id,group", *lines]))
        option += " groups.csv"
    ran = tune(f"{TWO_STEP} --setting {how['setting']} {option}")
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], **how)
    twin.fit(X, tables.Y, tables.T, **{"task_groups" if of_tasks else "groups": codes})
    assert ran.json["holdout"] == "exact leave-group-out"
    assert_allclose(ran.json["score"], twin.best_score_)
    assert ran.json["baselines"] == pytest.approx(twin.baselines_)


def test_identical_rows_are_told(tables, tune, run, put):
    put(tables.instances, tables.users, ["age", "height", "mood"], tables.X[np.arange(12) // 2])
    tune("--model two-step --alphas 1")
    scores = run("evaluate m.dyad --setting B")
    assert "In setting B, 12 held-out instances have an identical one in training" in scores.err
    assert "--groups" in scores.err


def test_molecules_of_one_scaffold_are_left_out_together(tables, run):
    pytest.importorskip("rdkit")
    from dyadlearn.kernels.chemistry import fingerprints

    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", ""]
    smiles = [f"{'C' * (i // 4 + 1)}{rings[i % 4]}" for i in range(12)]
    lines = map(",".join, zip(tables.users, smiles, strict=True))
    (tables.folder / "drugs.csv").write_text("\n".join(["id,smiles", *lines]))
    sides = "--instances drugs.csv --instances-smiles smiles --tasks items.csv"
    ran = run(f"tune labels.csv {sides} {TWO_STEP} --groups scaffold -q -o m.dyad")
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], kernel="tanimoto", scoring="roc_auc")
    twin.fit(fingerprints(smiles)[0], tables.Y, tables.T, groups=np.arange(12) % 4)
    assert_allclose(ran.json["score"], twin.best_score_)


def test_a_search_of_missing_labels_is_that_of_the_library(tables, tune, holes):
    grids = [0.1, 1.0, 10.0], [0.1, 1.0]
    ran = tune("--alphas 0.1:10:3 --task-alphas 0.1,1 --cv 2 --exhaustive --json")
    twin = TwoStepRidgeCV(*grids, scoring="roc_auc", cv=2, exhaustive=True)
    twin.fit(tables.X, holes, tables.T)
    assert (ran.json["alpha"], ran.json["task_alpha"], ran.json["score"]) == pytest.approx(
        (twin.alpha_, twin.task_alpha_, twin.best_score_)
    )


def test_an_online_model_is_the_two_step_model(tables, tune):
    ran = tune("--model online --alphas 0.1,1,10 --no-intercept --json")
    found = load("m.dyad")
    assert isinstance(found, OnlineTwoStepRidge)
    assert (found.alpha, found.task_alpha) == (ran.json["alpha"], ran.json["task_alpha"])
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], scoring="roc_auc", fit_intercept=False)
    twin.fit(tables.X, tables.Y, tables.T)
    assert_allclose(ran.json["score"], twin.best_score_)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X))
    # Of labels with holes every task is learnt from those that it has.
    tables.labels.write_text(tables.labels.read_text().replace(",1.0", ",", 1))
    ran = tune("--model online --alphas 1")
    assert "Some labels are missing: the online model learns each task" in ran.err
    labels = tables.Y.copy()
    labels.flat[np.argmax(labels == 1)] = np.nan
    twin = TwoStepRegressor(Ridge(1.0), Ridge(1.0)).fit(tables.X, labels, tables.T)
    assert_allclose(load("m.dyad").predict(tables.X), twin.predict(tables.X))


def test_constant_labels_have_one_note(tables, tune, put):
    put(tables.labels, tables.users, tables.items, np.full((12, 8), 5.0))
    said = tune("--alphas 0.1,1,10").err.splitlines()
    assert [line for line in said if "edge of the grid" not in line] == [
        "note: All labels are 5: there is nothing to learn."
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(errno.ENOSPC, "No space left on device"), 4), (KeyboardInterrupt(), 130)],
)
def test_nothing_is_left_of_a_file_that_could_not_be_written(tables, run, monkeypatch, error, code):
    def fail(*arguments, **more):
        raise error

    before = sorted(tables.folder.iterdir())
    monkeypatch.setattr(models, "write_model", fail)
    ran = run(f"tune labels.csv {tables.sides} --model two-step --alphas 1 -o m.dyad -q")
    assert ran.code == code
    if code == 4:
        assert ran.err == "dyadlearn: m.dyad: could not be written (No space left on device).\n"
    assert sorted(tables.folder.iterdir()) == before


@pytest.mark.parametrize("model", ["two-step", "online"])
def test_baselines_are_printed_and_kept(tune, run, model):
    ran = tune(f"--model {model} --alphas 1 --setting B --scoring roc_auc")
    told = run("inspect m.dyad --json").json["baselines"]
    line = f"{told['grand_mean']:.4g} grand mean, {told['instance_means']:.4g} instance means,"
    assert f"baselines {line}" in " ".join(ran.out.split())
    assert f"task means {told['task_means']:.4g}" in run("inspect m.dyad").out


# Devices -----------------------------------------------------------------------------------------


def test_molecules_are_computed_on_a_device(tables, run):
    pytest.importorskip("torch")
    pytest.importorskip("rdkit")
    lines = [f"{user},{'C' * (place + 1)}O\n" for place, user in enumerate(tables.users)]
    (tables.folder / "drugs.csv").write_text("".join(["id,smiles\n", *lines]))
    words = "tune labels.csv --instances drugs.csv --instances-smiles smiles --tasks items.csv"
    words = f"{words} --alphas 0.1,1 -fo m.dyad --json"
    here, there = run(words), run(words, "--device cpu")
    assert (here.code, there.code) == (0, 0), there.err
    assert_allclose(there.json["score"], here.json["score"], rtol=1e-8)
    assert run("predict m.dyad --instances drugs.csv --json").code == 0
    assert array_module.library(load("m.dyad").fitted_.labels.values) == "numpy"


def test_what_is_missing_is_said(tables, run, monkeypatch):
    monkeypatch.setattr(array_module, "find_spec", lambda name: None)
    ran = run(f"tune labels.csv {tables.sides} --device cuda -o m.dyad")
    assert ran.code != 0
    said = " ".join(ran.err.split())
    assert "--device cuda needs torch or cupy, neither of which is installed" in said


# --- without --model: the better of two-step and Kronecker ridge; --method forces hold-out -------

WIDE = [0.1, 1.0, 10.0]


@pytest.fixture
def holes(tables, put):
    """Write labels of which a fifth is missing, and return them."""
    labels = np.where(np.add.outer(np.arange(12), np.arange(8)) % 5 == 0, np.nan, tables.Y)
    put(tables.labels, tables.users, tables.items, labels)
    return labels


def chosen(tables, labels, setting):
    given = {"setting": setting, "scoring": "roc_auc"}
    searches = {
        "two-step": TwoStepRidgeCV(WIDE, WIDE, **given),
        "kronecker": KroneckerRidgeCV(WIDE, **given),
    }
    return better_of(searches, tables.X, labels, tables.T)


@pytest.mark.parametrize(
    ("setting", "is_complete"), [("A", False), ("B", False), ("C", True), ("D", False)]
)
def test_tune_keeps_the_better_model(tables, tune, request, setting, is_complete):
    labels = tables.Y if is_complete else request.getfixturevalue("holes")
    ran = tune(f"--alphas 0.1,1,10 --setting {setting} --json")
    twin = chosen(tables, labels, setting)
    assert ran.json["model"] == twin.name
    # Rankings in D are compared in the same folds by both.
    both = {"two-step", "kronecker"} if is_complete or setting in "AD" else {"kronecker"}
    assert set(twin.scores) == both
    assert ran.json["choice"]["scores"] == pytest.approx(twin.scores, rel=1e-9)
    assert_allclose(ran.json["score"], twin.model.best_score_, rtol=1e-9)
    assert ran.json["reason"] == twin.model.holdout_reason_
    found = load("m.dyad")
    assert type(found) is type(twin.model)
    assert_allclose(found.predict(tables.X), twin.model.predict(tables.X), rtol=1e-9)
    assert getattr(found, "constants_", None) == getattr(twin.model, "constants_", None)


def test_the_line_says_which_and_why(tune, run, holes):
    printed = " ".join(tune("--alphas 0.1,1,10 --setting B").out.split())
    assert "model kronecker" in printed
    assert "Why kronecker: roc_auc in setting B: kronecker 0." in printed
    left_out = "two-step was left out: 5 folds, refitted: two-step ridge regression has no formula"
    assert left_out in printed
    found = load("m.dyad")
    # All say the same of how the score was held out.
    assert f"{found.holdout_reason_}" in printed
    assert evaluate(found, "B").results[0].reason == found.holdout_reason_
    [scored] = run("evaluate m.dyad --setting B --json").json["settings"]
    assert scored["reason"] == found.holdout_reason_
    assert scored["reason"].startswith(f"{scored['method']} by ")
    inspected = run("inspect m.dyad --json").json
    assert (inspected["model"], inspected["reason"]) == ("KroneckerRidgeCV", found.holdout_reason_)
    assert run("report m.dyad -o report.html --setting B -q").code == 0
    assert found.holdout_reason_ in Path("report.html").read_text(encoding="utf-8")


def test_options_of_one_model_choose_it(tune):
    for option, model in (("--task-alphas 0.1", "two-step"), ("--constants 0.5,20", "kronecker")):
        ran = tune(f"--alphas 1 {option} --json")
        assert ran.json["model"] == model
        assert "choice" not in ran.json


def test_a_method_is_forced(tables, tune, run, holes):
    ran = tune("--alphas 1 --setting B --method folds --cv 2 --json")
    assert ran.json["holdout"] == "2 folds, refitted"
    assert ran.json["reason"] == "2 folds, refitted: folds were asked for"
    assert sorted(ran.json["choice"]["scores"]) == ["kronecker", "two-step"]
    words = f"tune labels.csv {tables.sides} --setting B --model two-step --method exact"
    ran = run(words, "-fo m.dyad")
    assert ran.code == 2
    no_formula = "Setting B has no exact hold-out here: two-step ridge regression has no formula"
    assert no_formula in ran.err
    assert "Use --method folds, or no method." in ran.err
    [scored] = run("evaluate m.dyad --setting B --method folds --cv 2 --json").json["settings"]
    assert scored["method"] == "2 folds, refitted"
