"""The table of probabilities: its figures on the smallest network, and what is computed beside `calibrate`."""

from pathlib import Path

import numpy as np
from numpy.testing import assert_allclose
from sklearn.metrics import brier_score_loss

PROJECT = Path(__file__).parents[2]


def test_scores_as_they_are(script):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(9, 7))
    Y = (rng.random((9, 7)) < 0.4).astype(float)
    found = script.as_they_are(scores, Y)
    assert_allclose(
        found["score brier"], brier_score_loss(Y.ravel(), np.clip(scores, 0, 1).ravel())
    )


def test_the_figures_of_the_docs(script, shared_data):
    rows = list(script.measured(["nr"], "BD", shared_data))
    page = (PROJECT / "docs" / "intervals.md").read_text(encoding="utf-8")
    lines = script.table(rows).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line in page
