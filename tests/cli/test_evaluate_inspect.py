"""``dyadlearn inspect`` and ``dyadlearn report``."""

import errno
import re
from pathlib import Path

import numpy as np
import pytest

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    Landmarks,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    __version__,
    load,
    save,
)
from dyadlearn.store.container import read_container, write_container


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

    monkeypatch.setattr("dyadlearn.report.write_report", fail)
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
