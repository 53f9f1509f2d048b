"""``dyadlearn tune``: the model it writes is the one that the library would choose."""

from __future__ import annotations

import errno
import re
from collections import Counter

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
    load,
)
from dyadlearn._registry import names_where
from dyadlearn.cli import models

ALPHAS = [0.01, 0.1, 1.0, 10.0, 100.0]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("kind", ["two-step", "kronecker", "pair", "independent"])
@pytest.mark.parametrize("setting", ["A", "B"])
def test_the_model_is_the_one_the_library_chooses(tables, run, kind, setting):
    path = tables.folder / "m.dyad"
    words = [
        "tune",
        tables.labels,
        *tables.sides,
        "--model",
        kind,
        "--setting",
        setting,
        "-o",
        path,
        "--json",
    ]
    ran = run(*words, "--alphas 0.01:100:5 --scoring neg_mean_squared_error")
    assert ran.code == 0, ran.err
    cls = {
        "two-step": TwoStepRidgeCV,
        "kronecker": KroneckerRidgeCV,
        "pair": PairKernelRidgeCV,
        "independent": IndependentTaskRidgeCV,
    }[kind]
    grids = {"alphas": ALPHAS} | ({"task_alphas": ALPHAS} if kind == "two-step" else {})
    twin = cls(**grids, setting=setting)
    twin.fit(tables.X, tables.Y, tasks=tables.T)
    found = load(path)
    assert type(found) is cls
    assert found.alpha_ == twin.alpha_ == ran.json["alpha"]
    assert ran.json["task_alpha"] == getattr(twin, "task_alpha_", None)
    assert_allclose(ran.json["score"], twin.best_score_)
    assert_allclose(
        [ran.json["baselines"][name] for name in twin.baselines_], list(twin.baselines_.values())
    )
    assert_allclose(found.predict(tables.X), twin.predict(tables.X))
    assert found.fitted_.form.row_ids.labels == tuple(tables.users)
    assert found.fitted_.form.column_ids.labels == tuple(tables.items)
    assert ran.json["output"] == str(path)
    assert ran.json["observed"] == 96


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_shares_are_searched_and_shown(tables, run):
    """--model pair is the search of Python, with its shares in all output."""
    path = tables.folder / "m.dyad"
    words = [f"tune {tables.labels} {tables.sides} -o {path} --force --alphas 1e-5:1e5:3"]
    words += ["--setting A --scoring neg_mean_squared_error"]
    asked = ["--model pair --shares 2,1,1 --shares 1,0,0"]
    ran = run(*words, *asked, "--json")
    assert ran.code == 0, ran.err
    found = load(path)
    shares = [(2.0, 1.0, 1.0), (1.0, 0.0, 0.0)]
    alphas = [1e-5, 1.0, 1e5]
    twin = PairKernelRidgeCV(alphas, shares=shares, setting="A").fit(tables.X, tables.Y, tables.T)
    assert_allclose(found.best_score_, twin.best_score_)
    assert ran.json["shares"] == list(found.shares_) == list(twin.shares_)
    words_of_shares = ", ".join(f"{share:g}" for share in twin.shares_)
    shown = run(*words, *asked).out
    assert re.search(rf"^shares +{words_of_shares} *$", shown, re.MULTILINE)
    assert run("inspect", path, "--json").json["shares"] == list(twin.shares_)
    assert f"{twin.shares_[0]:g}" in run("inspect", path).out
    for more, fault in (
        ("--model pair --shares 1,2", "--shares takes three weights, such as 2,1,1"),
        ("--model pair --shares 1,x,2", "found '1,x,2'"),
        ("--shares 1,1,1", "tune without --model has no option --shares: use it with --model pair"),
    ):
        ran = run(*words, more)
        assert (ran.code, fault in ran.err) == (2, True), ran.err


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_constants_are_searched_and_shown(tables, run):
    path = tables.folder / "m.dyad"
    words = [f"tune {tables.labels} {tables.sides} --model kronecker --alphas 0.1,1,10 -o {path}"]
    ran = run(*words, "--scoring r2 --constants 0.5,20 --json")
    assert ran.code == 0, ran.err
    found = load(path)
    twin = KroneckerRidgeCV([0.1, 1, 10], constants=[0.5, 20], scoring="r2").fit(
        tables.X, tables.Y, tasks=tables.T
    )
    assert ran.json["constants"] == list(found.constants_) == list(twin.constants_)
    assert_allclose(ran.json["score"], twin.best_score_)
    level = f"{twin.constants_[0]:g}"
    shown = run(*words, "--scoring r2 --constants 0.5,20 --force").out
    assert re.search(rf"^constants +{level} and {level} *$", shown, re.MULTILINE)
    assert run(f"inspect {path} --json").json["constants"] == list(twin.constants_)


def test_what_people_see(tables, run):
    ran = run(f"tune {tables.labels} {tables.sides} --alphas 0.1,1 -o {tables.folder / 'm.dyad'}")
    assert ran.code == 0
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


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_the_actual_settings_of_the_held_out_pairs_are_said(each, tables, run):
    labels = np.where(np.arange(8) < 2, tables.Y, np.nan)
    labels[0] = labels[1] = np.nan
    labels[0, 0] = tables.Y[0, 0]  # the only label of its instance
    labels[1, 7] = tables.Y[1, 7]  # of its instance and of its task
    labels[2:5, 5] = tables.Y[2:5, 5]
    path = tables.folder / "m.dyad"
    lines = []
    for setting in each("AB"):
        counts = Counter(letters_of(labels, setting))
        with tables.labels.open("w") as file:
            for i, j in np.argwhere(~np.isnan(labels)):
                file.write(f"{tables.users[i]},{tables.items[j]},{float(labels[i, j])}\n")
        words = f"tune {tables.labels} {tables.sides} --model kronecker --setting {setting}"
        ran = run(
            f"{words} --format long --alphas 1 --scoring neg_mean_squared_error --force", "-o", path
        )
        assert ran.code == 0, ran.err
        letters = [f"{counts[letter]} {letter}" for letter in "ABCD" if counts[letter]]
        line = f"Held-out pairs of {setting} are {', '.join(letters[:-1])} and {letters[-1]}: "
        said = " ".join(ran.err.split())
        assert f"{line}an entity without another label is new. evaluate --by setting" in said
        lines.append(len(letters))
    assert lines == [3, 2]


def test_the_edge_of_the_default_grid_is_said(tables, run):
    """Labels without noise want no regularisation; the sentence names the option."""
    labels = tables.X @ np.ones((3, 8)) + np.arange(8)
    lines = [",".join(["", *tables.items])]
    lines += [
        ",".join([user, *map(repr, row)])
        for user, row in zip(tables.users, labels.tolist(), strict=True)
    ]
    tables.labels.write_text("\n".join(lines))
    path = tables.folder / "m.dyad"
    given = (f"--instances {tables.instances} --model independent -o {path}",)
    ran = run(f"tune {tables.labels}", *given)
    assert ran.code == 0, ran.err
    found = load(path)
    limits = f"{found.alphas_[0]:g} … {found.alphas_[-1]:g}"
    said = " ".join(ran.err.split())
    assert (
        f"note: The best alpha, {found.alpha_:g}, is on the edge of the default grid ({limits}): "
        f"give" in said
    )
    assert "give smaller --alphas." in said
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


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("option", ["--groups", "--task-groups", "--groups identical"])
def test_rows_of_a_group_are_left_out_together(tables, run, put, option):
    how = {"setting": "C" if "task" in option else "B", "scoring": "roc_auc"}
    n, ids = (8, tables.items) if "task" in option else (12, tables.users)
    codes = np.arange(n) // 3
    X = tables.X
    words = [option]
    if option.endswith("identical"):
        X = tables.X[codes]
        put(tables.instances, tables.users, ["age", "height", "mood"], X)
    else:
        path = tables.folder / "groups.csv"
        path.write_text("id,group\n" + "\n".join(map("{},{}".format, ids, codes)))
        words += [str(path)]
    given = [f"tune {tables.labels} {tables.sides} --setting {how['setting']} --alphas 0.1,1,10"]
    given += ["-o", tables.folder / "m.dyad", "--model two-step --json"]
    ran = run(*given, " ".join(words))
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], **how)
    groups = {"task_groups" if "task" in option else "groups": codes}
    twin.fit(X, tables.Y, tasks=tables.T, **groups)
    assert ran.json["holdout"] == "exact leave-group-out"
    assert_allclose(ran.json["score"], twin.best_score_)
    assert_allclose(
        [ran.json["baselines"][name] for name in twin.baselines_], list(twin.baselines_.values())
    )


def test_identical_rows_are_told(tables, run, put):
    put(tables.instances, tables.users, ["age", "height", "mood"], tables.X[np.arange(12) // 2])
    path = tables.folder / "m.dyad"
    words = [f"tune {tables.labels} {tables.sides} --model two-step --alphas 1 -o {path} -f"]
    run(*words)
    scores = run(f"evaluate {path} --setting B")
    assert "In setting B, 12 held-out instances have an identical one in training" in scores.err
    assert "--groups" in scores.err
    ran = run(*words, "--groups scaffold")
    assert ran.code == 2
    assert "Scaffolds need SMILES of the instances: name their column" in ran.err


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_molecules_of_one_scaffold_are_left_out_together(tables, run):
    pytest.importorskip("rdkit")
    from dyadlearn.kernels.chemistry import fingerprints

    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", ""]
    smiles = [f"{'C' * (i // 4 + 1)}{rings[i % 4]}" for i in range(12)]
    path = tables.folder / "drugs.csv"
    path.write_text(
        "id,smiles\n" + "\n".join(map(",".join, zip(tables.users, smiles, strict=True))) + "\n"
    )
    words = [
        f"tune {tables.labels} --instances {path}",
        *tables.sides[2:],
        "--instances-smiles smiles",
    ]
    words += ["--model two-step"]
    ran = run(
        *words, f"--groups scaffold --alphas 0.1,1,10 --json -q -o {tables.folder / 'm.dyad'}"
    )
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], kernel="tanimoto", scoring="roc_auc")
    twin.fit(fingerprints(smiles)[0], tables.Y, tasks=tables.T, groups=np.arange(12) % 4)
    assert_allclose(ran.json["score"], twin.best_score_)


@pytest.mark.parametrize("options", [[], ["--exhaustive"]])
def test_a_search_of_missing_labels_is_that_of_the_library(tables, run, put, options):
    labels = np.where(np.add.outer(np.arange(12), np.arange(8)) % 5 == 0, np.nan, tables.Y)
    put(tables.labels, tables.users, tables.items, labels)
    path = tables.folder / "m.dyad"
    grid = np.geomspace(1e-3, 1e3, 7)
    given = [
        f"tune {tables.labels} {tables.sides} --setting B --alphas 1e-3:1e3:7 --cv 2 -o {path}"
    ]
    ran = run(*given, "--task-alphas 0.1,1,10", *options, "--json")
    assert ran.code == 0, ran.err
    params = {"scoring": "roc_auc", "cv": 2, "exhaustive": bool(options)}
    twin = TwoStepRidgeCV(grid, [0.1, 1, 10], **params).fit(tables.X, labels, tasks=tables.T)
    assert (ran.json["alpha"], ran.json["task_alpha"], ran.json["score"]) == pytest.approx(
        (twin.alpha_, twin.task_alpha_, twin.best_score_)
    )


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_an_online_model_is_the_two_step_model(tables, run):
    path = tables.folder / "m.dyad"
    words = [f"tune {tables.labels} {tables.sides} --model online -o {path} -f --json"]
    ran = run(*words, "--alphas 0.1,1,10 --no-intercept")
    assert ran.code == 0, ran.err
    found = load(path)
    assert isinstance(found, OnlineTwoStepRidge)
    assert (found.alpha, found.task_alpha) == (ran.json["alpha"], ran.json["task_alpha"])
    twin = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], scoring="roc_auc", fit_intercept=False)
    twin.fit(tables.X, tables.Y, tasks=tables.T)
    assert_allclose(ran.json["score"], twin.best_score_)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X))
    refused = run(*words, "--kernel rbf")
    assert refused.code == 2
    assert "needs features with a linear kernel; instances are features, rbf kernel" in refused.err
    tables.labels.write_text(tables.labels.read_text().replace(",1.0", ",", 1))
    # Of labels with holes every task is learnt from those that it has.
    ran = run(*words, "--alphas 1")
    assert ran.code == 0, ran.err
    assert "Some labels are missing: the online model learns each task" in ran.err
    labels = tables.Y.copy()
    labels.flat[np.argmax(labels == 1)] = np.nan
    twin = TwoStepRegressor(Ridge(1.0), Ridge(1.0)).fit(tables.X, labels, tasks=tables.T)
    assert_allclose(load(path).predict(tables.X), twin.predict(tables.X))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model deep"], f"--model is one of {', '.join(names_where())}, found 'deep'"),
        (["--setting E"], "Unknown setting 'E'"),
        (["--scoring roc"], "Unknown scoring 'roc'"),
        (["--alphas", "1;2"], "--alphas takes numbers as 0.1,1,10 or a range"),
        (["--alphas -1,2"], "--alphas must be a finite number of at least 0, found -1"),
        (
            ["--task-alphas -1,2"],
            "--task-alphas must be a finite number of at least 0, found -1",
        ),
        (
            ["--model kronecker --constants -1"],
            "--constants must be a finite number of at least 0, found -1",
        ),
        (
            ["--model kronecker --constants 1,2 --no-intercept"],
            "--constants are weights of main effects, which --no-intercept leaves out: leave out "
            "either.",
        ),
        (["--cv 1"], "--cv must be a whole number of at least 2, found 1"),
        (["--transpose"], "looks transposed: its tasks are ids of "),
        (["--transpose"], "the file of --instances: leave --transpose out."),
        (["--sides user"], "--sides must be two words"),
        (
            ["--model independent --setting D"],
            "--model independent ignores --tasks: use --setting A or B",
        ),
        (
            ["--setting C --groups g.csv"],
            "--groups has no effect in setting C: leave it out, or use setting B",
        ),
        (
            ["--kernel precomputed"],
            "a precomputed kernel is square: if it contains features, leave --kernel",
        ),
        (["--kernel rdf"], "Unknown kernel 'rdf'"),
        (["--format wide"], "--format is grid or long"),
        (["--columns a,b,c"], "no column 'a'"),
    ],
)
def test_wrong_words_are_one_sentence(tables, run, words, message):
    before = names(tables.folder)
    ran = run(f"tune {tables.labels} {tables.sides} -o {tables.folder / 'm.dyad'}", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert names(tables.folder) == before


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ("tasks", "Give the instances by --instances, or name columns of the table by --smiles"),
        ("instances", "give them by --tasks, or use --model independent"),
    ],
)
def test_both_sides_are_asked_for(tables, run, side, message):
    ran = run(
        f"tune {tables.labels} --{side} {getattr(tables, side)} -o {tables.folder / 'm.dyad'}"
    )
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_constant_labels_have_one_note(tables, run, put):
    put(tables.labels, tables.users, tables.items, np.full((12, 8), 5.0))
    ran = run(f"tune {tables.labels} {tables.sides} -o {tables.folder / 'm.dyad'}")
    assert ran.code == 0
    assert [line for line in ran.err.splitlines() if "edge of the grid" not in line] == [
        "note: All labels are 5: there is nothing to learn."
    ]


def test_a_file_is_not_replaced_unasked(tables, model, run):
    before = model.read_bytes()
    words = [f"tune {tables.labels} {tables.sides} --alphas 1,10 -o {model}"]
    ran = run(*words)
    assert ran.code == 2
    assert (
        ran.err == f"dyadlearn: {model}: it exists already, choose another name or add --force.\n"
    )
    assert model.read_bytes() == before
    assert run(*words, "--force -q").code == 0
    assert model.read_bytes() != before


@pytest.mark.parametrize(
    ("where", "message"), [("", "This is a folder"), ("none/m.dyad", "There is no such folder")]
)
def test_places_that_cannot_be_written_to_are_told_first(tables, run, where, message):
    # The labels are not even there: nothing is read before the place is checked.
    ran = run(f"tune nonesuch.csv {tables.sides} -o {tables.folder / where}")
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_nothing_is_left_of_a_file_that_could_not_be_written(tables, run, monkeypatch, error):
    def fail(*arguments, **more):
        raise error

    before = names(tables.folder)
    monkeypatch.setattr(models, "write_model", fail)
    path = tables.folder / "m.dyad"
    ran = run(f"tune {tables.labels} {tables.sides} --alphas 1,10 -o {path} -q")
    if isinstance(error, OSError):
        assert ran.code == 4
        assert ran.err == f"dyadlearn: {path}: could not be written (No space left on device).\n"
    else:
        assert ran.code == 130
    assert names(tables.folder) == before


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_baselines_are_printed_and_kept(tables, run):
    words = [f"tune {tables.labels} {tables.sides} --alphas 0.1,1,10 --setting B --scoring roc_auc"]
    for model in ("two-step", "online"):
        path = tables.folder / f"{model}.dyad"
        ran = run(*words, f"--model {model} -o {path}")
        assert ran.code == 0, ran.err
        told = run(f"inspect {path} --json").json["baselines"]
        line = next(line for line in " ".join(ran.out.split()).split("baselines ")[1:])
        assert line.startswith(
            f"{told['grand_mean']:.4g} grand mean, {told['instance_means']:.4g} instance means,"
        )
        assert f"task means {told['task_means']:.4g}" in run(f"inspect {path}").out


# Labels that nothing predicts --------------------------------------------------------------------


# Devices -----------------------------------------------------------------------------------------


def test_molecules_are_computed_on_a_device(tables, run):
    pytest.importorskip("torch")
    pytest.importorskip("rdkit")
    drugs = tables.folder / "drugs.csv"
    path = tables.folder / "device.dyad"
    drugs.write_text(
        "id,smiles\n"
        + "".join(f"{user},{'C' * (place + 1)}O\n" for place, user in enumerate(tables.users))
    )
    data = [tables.labels, f"--instances {drugs} --instances-smiles smiles --tasks {tables.tasks}"]
    here, there = (
        run("tune", *data, f"-o {path} -f --json", *more) for more in ([], ["--device cpu"])
    )
    assert (here.code, there.code) == (0, 0), there.err
    assert_allclose(there.json["score"], here.json["score"], rtol=1e-8)
    ran = run(f"predict {path} --instances {drugs} --json")
    assert ran.code == 0
    opened = load(path).fitted_.labels.values
    assert array_module.library(opened) == "numpy"
    ran = run("tune", *data, f"-o {path} -f --device gpu")
    assert (ran.code, ran.err) == (
        2,
        "dyadlearn: torch cannot compute on --device gpu here: use 'cpu' or 'cuda'.\n",
    )


def test_what_is_missing_is_said(tables, run, monkeypatch):
    monkeypatch.setattr(array_module, "find_spec", lambda name: None)
    ran = run(f"tune {tables.labels} {tables.sides} --device cuda -o {tables.folder / 'm.dyad'}")
    assert ran.code != 0
    assert "--device cuda needs torch or cupy, neither of which is installed" in " ".join(
        ran.err.split()
    )
