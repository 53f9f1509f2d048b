"""Bootstrap draws of a sparse grid, scored as lists of cells, against scores of whole grids."""

from importlib import import_module

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn.metrics import scorer
from dyadlearn.metrics.cells import METRICS
from dyadlearn.selection.evaluate import resampled_scores
from sweeps import covering, over


def sparse_grid(*, two_values):
    """Return labels of which few are observed, with popular rows and columns, and predictions of two models."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(30, 24))
    observed = (
        rng.random(Y.shape) < 0.3 / np.sqrt(np.outer(np.arange(1, 31), np.arange(1, 25))) ** 0.4
    )
    Y = np.where(observed, (Y > 0) if two_values else Y, np.nan)
    stack = np.where(
        observed, np.nan_to_num(Y) + rng.normal(size=(2, *Y.shape)), rng.normal(size=(2, *Y.shape))
    )
    return Y, stack


@over(
    covering(
        scoring=[name.replace("_at_k", "_at_3") for name in sorted(METRICS)],
        average=["pooled", "instance", "task"],
        strength=1,
    )
)
def test_draws_are_scored_as_grids(scoring, average, monkeypatch):
    module = import_module(
        "dyadlearn.selection.evaluate"
    )  # the package has a function of this name
    judge = scorer(scoring)
    average = judge.average_in(None, average)
    n_defined = 0
    for place, drawn in enumerate(("instances", "tasks", "both")):
        # Each average has real labels in one of the three.
        is_real_too = place == len(average) % 3
        for two_values in (True, False)[: 1 + is_real_too]:
            Y, stack = sparse_grid(two_values=two_values)
            options = {"average": average, "folds": None, "over": drawn, "n_resamples": 2}
            found = []
            for most in (1.0, 0.0):
                monkeypatch.setattr(module, "_SPARSE", most)
                try:
                    found.append(resampled_scores(Y, stack, judge, random_state=0, **options))
                except ValueError:  # the metric is undefined for these labels
                    found.append(np.full((2, 2), np.nan))
            assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-14, err_msg=drawn)
            n_defined += np.count_nonzero(~np.isnan(found[0]))
    assert n_defined
