"""Labels that are whole numbers."""

from __future__ import annotations

import numpy as np

from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairRegressor
from sweeps import lines, over


@over(lines("of_tasks expected", (None, "float32"), ("float32", "float32"), ("float64", "float64")))
def test_averages_of_whole_labels_have_the_precision_of_the_features(of_tasks, expected):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2)).astype(np.float32)
    pairs = np.argwhere(np.ones((5, 3)))
    if of_tasks is None:
        model = PairRegressor(IndependentTaskRidge(), instances=X)
    else:
        T = rng.normal(size=(3, 2)).astype(of_tasks)
        model = PairRegressor(KroneckerRidge(), instances=X, tasks=T)
    model.fit(pairs, rng.integers(0, 5, size=15))
    assert model.predict(pairs).dtype == expected
