"""`dyadlearn tune` without --model: the better of two-step and Kronecker ridge, and why; --method forces hold-out."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidgeCV, TwoStepRidgeCV, better_of, evaluate, load

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

ALPHAS = [0.1, 1.0, 10.0]


@pytest.fixture
def holes(tables, put):
    """Write labels of which a fifth is missing, and return them."""
    labels = np.where(np.add.outer(np.arange(12), np.arange(8)) % 5 == 0, np.nan, tables.Y)
    put(tables.labels, tables.users, tables.items, labels)
    return labels


def chosen(tables, labels, setting):
    given = {"setting": setting, "scoring": "roc_auc"}
    searches = {
        "two-step": TwoStepRidgeCV(ALPHAS, ALPHAS, **given),
        "kronecker": KroneckerRidgeCV(ALPHAS, **given),
    }
    return better_of(searches, tables.X, labels, tasks=tables.T)


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
