"""Commands with a task of one label: it is not scored, which is noted once for each setting."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn import load


def test_labels_that_nothing_predicts_are_noted_and_not_scored(tables, run, put):
    Y = tables.Y.copy()
    Y[1:, 3] = np.nan
    put(tables.labels, tables.users, tables.items, Y)
    given = [tables.labels, "--instances", tables.instances, "--model", "independent"]
    ran = run("evaluate", *given, "--alpha", 1, "--scoring", "neg_mean_squared_error", "--settings", "A", "--json")
    assert ran.code == 0, ran.err
    words = "In setting A, 1 of 85 labels leave no other label of their task (positions 3)"
    assert " ".join(ran.err.split()).count(words) == 1
    tuned = run(
        "tune",
        *given,
        "--setting",
        "B",
        "--scoring",
        "neg_mean_squared_error",
        "--alphas",
        "1,10",
        "-o",
        tables.folder / "m.dyad",
    )
    assert tuned.code == 0, tuned.err
    assert " ".join(tuned.err.split()).count(words.replace("A", "B", 1)) == 1
    search = load(tables.folder / "m.dyad")
    errors = (Y - np.asarray(search.holdout_)) ** 2
    assert np.isnan(errors[0, 3])
    assert_allclose(search.best_score_, -np.mean([row[~np.isnan(row)].mean() for row in errors]), rtol=1e-9)
