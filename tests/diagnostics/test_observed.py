"""What fitted models are asked, asked of one of observed pairs alone: an answer, or one sentence why there is none."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

import dyadlearn
from dyadlearn import KroneckerRidge, PairRegressor, TwoStepRidgeCV, plots
from dyadlearn.report import write_report
from listed import COLUMNS, ROWS, SPARSE, VALUES, T, X, Y, listed
from sweeps import lines, over

__all__ = ["listed"]

ASKED = {
    "screen": lambda model, path: dyadlearn.screen(model, "B"),
    "top_pairs": lambda model, path: dyadlearn.top_pairs(model, k=2),
    "calibrate": lambda model, path: dyadlearn.calibrate(model),
    "compare": lambda model, path: dyadlearn.compare({"one": model, "other": model}, "B"),
    "explain": lambda model, path: dyadlearn.explain(model, 0, 0),
    "permutation_test": lambda model, path: dyadlearn.permutation_test(model, "B", n_permutations=2),
    "report": lambda model, path: write_report(model, path / "page.html"),
    "GridDisplay": lambda model, path: plots.GridDisplay.from_estimator(model),
}


@pytest.fixture
def models(listed):
    """Return a model, one that searched, and one of a long table."""
    pairs = np.stack([ROWS, COLUMNS], axis=1)
    return [
        KroneckerRidge().fit(X, SPARSE, tasks=T),
        TwoStepRidgeCV([0.5], [2.0], setting="D", cv=2).fit(X, SPARSE, tasks=T),
        PairRegressor(KroneckerRidge(), instances=X, tasks=T).fit(pairs, VALUES),
    ]


@over([{"asked": name} for name in ASKED])
def test_what_takes_a_grid_says_so(models, tmp_path, asked):
    for model in models:
        with pytest.raises(ValueError, match=r"fitted on \d+ observed pairs, and not on the grid of"):
            ASKED[asked](model, tmp_path)
    assert not list(tmp_path.iterdir())


@over(
    lines(
        "asked words",
        (lambda model: dyadlearn.verify_holdout(model, "B"), "labels are missing or weighted here"),
        (lambda _: dyadlearn.nested_score(TwoStepRidgeCV(), X, SPARSE, T), "cross-validate a PairRegressor"),
    )
)
def test_others_have_their_own_words(models, asked, words):
    for model in models:
        with pytest.raises(ValueError, match=words):
            asked(model)


def test_new_instances_are_recommended_for(models):
    for model in models:
        assert len(dyadlearn.recommend(model, X=X[:2], k=3).ids[1]) == 3
    # A long table has the features of those of training, other models have not.
    assert len(dyadlearn.recommend(models[2], instance=0, k=3).ids) == 3
    for model in models[:2]:
        with pytest.raises(ValueError, match="was fitted on observed pairs alone"):
            dyadlearn.recommend(model, instance=0, k=3)


def test_held_out_pairs_are_drawn(models):
    for model in models:
        display = plots.HoldoutDisplay.from_estimator(model, "AD")
        table = dyadlearn.evaluate(model, "AD", scoring="r2")
        assert len(display.view.curves) == 2
        assert_allclose(list(display.scores.values()), table["r2"])
        plots.SpectrumDisplay.from_estimator(model)
        plt.close("all")


def test_a_score_counts_what_is_stored(models):
    for model in models[:2]:
        assert_allclose(model.score(X, SPARSE, T), model.score(X, Y, T))
    with pytest.raises(ValueError, match="leave it out"):
        models[0].score(X, SPARSE, T, sample_weight=np.ones(len(X)))
