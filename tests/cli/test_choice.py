"""`dyadlearn tune` without --model: the better of two-step and Kronecker ridge, and why; --method forces hold-out."""

from __future__ import annotations

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


def words_of(tables, *more):
    return [
        f"tune {tables.labels} {tables.sides} --alphas 0.1,1,10 -o {tables.folder / 'm.dyad'} -f",
        *more,
    ]


@pytest.mark.parametrize("setting", ["A", "B", "C", "D"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_tune_keeps_the_better_model(tables, run, request, setting, is_complete):
    labels = tables.Y if is_complete else request.getfixturevalue("holes")
    ran = run(*words_of(tables, "--setting", setting, "--json"))
    assert ran.code == 0, ran.err
    twin = chosen(tables, labels, setting)
    assert ran.json["model"] == twin.name
    assert sorted(ran.json["choice"]["scores"]) == sorted(twin.scores)
    for name, score in twin.scores.items():
        assert_allclose(ran.json["choice"]["scores"][name], score, rtol=1e-9)
    assert set(twin.scores) == (
        # Rankings in D are compared in the same folds by both.
        {"two-step", "kronecker"} if is_complete or setting in "AD" else {"kronecker"}
    )
    assert_allclose(ran.json["score"], twin.model.best_score_, rtol=1e-9)
    assert ran.json["reason"] == twin.model.holdout_reason_
    found = load(tables.folder / "m.dyad")
    assert type(found) is type(twin.model)
    assert_allclose(found.predict(tables.X), twin.model.predict(tables.X), rtol=1e-9)
    assert getattr(found, "constants_", None) == getattr(twin.model, "constants_", None)


def test_the_line_says_which_and_why(tables, run, holes):
    ran = run(*words_of(tables, "--setting", "B"))
    assert ran.code == 0, ran.err
    printed = " ".join(ran.out.split())
    assert "model kronecker" in printed
    assert "Why kronecker: roc_auc in setting B: kronecker 0." in printed
    assert (
        "two-step was left out: 5 folds, refitted: two-step ridge regression has no formula for"
        in printed
    )
    found = load(tables.folder / "m.dyad")
    # All say the same of how the score was held out.
    assert f"{found.holdout_reason_}" in printed
    assert evaluate(found, "B").results[0].reason == found.holdout_reason_
    scored = run(f"evaluate {tables.folder / 'm.dyad'} --setting BD --json").json["settings"]
    assert scored[0]["reason"] == found.holdout_reason_
    assert scored[0]["reason"].startswith(f"{scored[0]['method']} by ")
    inspected = run(f"inspect {tables.folder / 'm.dyad'} --json").json
    assert (inspected["model"], inspected["reason"]) == ("KroneckerRidgeCV", found.holdout_reason_)
    page = tables.folder / "report.html"
    assert run(f"report {tables.folder / 'm.dyad'} -o {page} --setting B -q").code == 0
    assert found.holdout_reason_ in page.read_text(encoding="utf-8")


def test_options_of_one_model_choose_it(tables, run):
    for option, model, value in (
        ("--task-alphas", "two-step", "0.1,1"),
        ("--constants", "kronecker", "0.5,20"),
    ):
        ran = run(*words_of(tables, option, value, "--json"))
        assert ran.code == 0, ran.err
        assert ran.json["model"] == model
        assert "choice" not in ran.json
    ran = run(*words_of(tables, "--task-alphas", "1", "--constants", "1"))
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err
        == "dyadlearn: --task-alphas and --constants are of different models: leave one of them "
        "out.\n"
    )
    ran = run(*words_of(tables, "--steps", "3"))
    assert (
        ran.err
        == "dyadlearn: tune without --model has no option --steps: use it with --model learned.\n"
    )


def test_a_method_is_forced(tables, run, holes):
    ran = run(*words_of(tables, "--setting", "B", "--method", "folds", "--json"))
    assert ran.code == 0, ran.err
    assert (ran.json["holdout"], ran.json["reason"]) == (
        "5 folds, refitted",
        "5 folds, refitted: folds were asked for",
    )
    assert sorted(ran.json["choice"]["scores"]) == ["kronecker", "two-step"]
    path = tables.folder / "m.dyad"
    ran = run(*words_of(tables, "--setting", "B", "--model", "two-step", "--method", "exact"))
    assert ran.code == 2
    assert (
        "Setting B has no exact hold-out here: two-step ridge regression has no formula" in ran.err
    )
    assert "Use --method folds, or no method." in ran.err
    scored = run(f"evaluate {path} --setting B --method folds --json").json["settings"]
    assert scored[0]["method"] == "5 folds, refitted"
    for words in (words_of(tables, "--method", "loo"), [f"evaluate {path} --method loo"]):
        ran = run(*words)
        assert (ran.code, ran.err) == (2, "dyadlearn: --method is exact or folds, found 'loo'.\n")
    ran = run(f"evaluate {path} --permutations 2 --method folds")
    assert "--method has no effect beside --permutations" in ran.err
