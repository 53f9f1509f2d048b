"""The table that `evaluate` returns: a dict for machines, a table for people."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from rich.cells import cell_len

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge, evaluate, screen
from dyadlearn.diagnostics import compare
from dyadlearn.holdout import Formula
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.metrics import scorer
from dyadlearn.selection import Scores, SettingScore
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from sweeps import lines, over

LONG = "a very long name for one of the two side"


@pytest.fixture(scope="module")
def fitted():
    X, Y, T = problems.data(12, 9)
    return TwoStepRidge(0.5, 2.0).fit(X, Y, T)


def scores_of(
    score=0.5,
    null=0.25,
    means=(0.1, 0.2, 0.4, 0.3),
    undefined=0,
    labels=None,
    **more,
):
    """Return made-up scores of setting C."""
    baselines = dict(zip(BASELINES, means, strict=True))
    labels = np.zeros((5, 7)) if labels is None else labels
    figures = {
        "method": "exact leave-one-out",
        "null": null,
        "baselines": baselines,
        "labels": labels,
    }
    figures |= {"average": "task", "n_parts": 7}
    return Scores(
        [SettingScore(Setting.C, scorer("roc_auc"), score, undefined, **figures)], "roc_auc", **more
    )


def test_several_scores_of_one_hold_out(fitted, monkeypatch):
    names = ["r2", "neg_mean_squared_error", "pearson"]
    single = {name: evaluate(fitted, "BD", scoring=name) for name in names}
    held_out = Formula.held_out
    times = []
    monkeypatch.setattr(
        Formula,
        "held_out",
        lambda self, *args, **more: times.append(1) or held_out(self, *args, **more),
    )
    scores = evaluate(fitted, "BD", scoring=names)
    assert len(times) == 3  # correlations in D have folds of their own
    assert scores["setting"] == list("BBBDDD")
    assert scores["scoring"] == 2 * names
    assert scores.scoring == "score"
    for row in scores.rows():
        name = row["scoring"]
        place = "BD".index(row["setting"])
        own = single[name].rows()[place]
        assert row["score"] == own.pop(name)
        assert own.items() <= row.items()
    assert [line[2] for line in scores.table()[1]] == 2 * names
    assert [line[3] for line in scores.table()[1]] == ["instance"] * 3 + ["pooled"] * 3
    assert (repr(scores).count("scoring"), repr(scores).count("pearson")) == (1, 2)
    assert (
        "In setting B, r2 is the mean of the r2 of each instance, which is often far below"
        in scores.notes[-1]
    )


def test_what_is_printed_is_what_is_there():
    assert repr(scores_of()).splitlines() == [
        " new     method               average  roc_auc  null  best baseline",
        " ──────────────────────────────────────────────────────────────────",
        " C task  exact leave-one-out  task         0.5  0.25       0.4 task",
    ]
    nothing = repr(scores_of(null=np.nan, means=[np.nan] * 4)).splitlines()
    assert nothing[-1].split() == ["C", "task", "exact", "leave-one-out", "task", "0.5", "–"]
    assert "null" not in nothing[0]
    assert str(scores_of()) == repr(scores_of())


def test_notes_stand_below():
    poor = scores_of(score=0.3, undefined=2, sides=SideNames("host", "parasite"))
    assert poor.notes == [
        "In setting C the model reaches roc_auc 0.3, worse than the best baseline, which uses no "
        "features: 0.4, "
        "parasite means.",
        "In setting C, roc_auc is undefined for 2 of 7 parasites, whose labels are all alike or "
        "missing: they are "
        "excluded.",
    ]
    of_list = scores_of(score=0.3, undefined=2, labels=np.zeros(9))
    assert "is undefined for 2 of 7 tasks" in of_list.notes[-1]
    assert " ".join(repr(poor).split()).endswith(" ".join(poor.notes))
    assert all(note in poor._repr_html_() for note in poor.notes)
    assert "roc_auc 0.4, no better than the best baseline" in scores_of(score=0.4 - 1e-9).notes[0]


@over(
    lines(
        "settings options",
        ("ABCD", {}),
        ("ABCD", {"scoring": "neg_root_mean_squared_error"}),
        ("BC", {"sides": (LONG, f"{LONG[:-1]}2")}),
        ("AD", {"sides": ("タンパク質", "化合物")}),
    )
)
def test_print_fits_eighty_columns(fitted, settings, options):
    scores = evaluate(fitted, settings, n_permutations=2, **options)
    lines = repr(scores).splitlines()
    assert max(map(cell_len, lines)) <= 80
    for row in scores.rows():
        assert f"{row[scores.scoring]:.4g}" in repr(scores)


def test_frames_are_of_the_library_of_the_labels():
    X, Y, T = problems.data(9, 7)
    named = pd.DataFrame(Y, columns=[f"t{j}" for j in range(7)])
    for library, labels, other in ((pd, named, pl), (pl, pl.DataFrame(Y), pd)):
        scores = evaluate(TwoStepRidge().fit(X, labels, T), n_permutations=0)
        frame = scores.frame()
        assert isinstance(frame, library.DataFrame)
        assert list(frame.columns) == list(scores)
        assert isinstance(scores.frame(other.__name__), other.DataFrame)


def test_without_a_library_of_frames_there_is_the_table_all_the_same(fitted, monkeypatch):
    monkeypatch.setattr("dyadlearn._tables.find_spec", lambda name: None)
    scores = evaluate(fitted, "B")
    assert "exact leave-one-out" in repr(scores)
    with pytest.raises(ImportError, match="install pandas or polars"):
        scores.frame()


def test_it_is_a_dict_that_can_be_kept(fitted):
    scores = evaluate(fitted, "BD", n_permutations=2, sides=("host", "parasite"))
    for other in (pickle.loads(pickle.dumps(scores)), copy.deepcopy(scores)):
        assert repr(other) == repr(scores)
        assert other.sides == SideNames("host", "parasite")
    assert json.loads(json.dumps(scores)) == scores
    assert [row["setting"] for row in scores.rows()] == scores["setting"] == ["B", "D"]


def test_other_results_have_a_table_in_notebooks_too(fitted):
    X, Y, T = problems.data(12, 9)
    other = KroneckerRidge().fit(X, Y, T)
    for result in (
        screen(fitted, n=3),
        compare({"<b>": fitted, "other": other}, "B", n_resamples=10),
    ):
        markup = result._repr_html_()
        assert markup.count("<tr>") == 1 + len(next(iter(result.columns().values())))
        assert "<b>" not in markup
