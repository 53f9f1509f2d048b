"""What models show of what they have learned from."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, PairRegressor, TwoStepRidge
from dyadlearn.holdout import Units
from sweeps import lines, over

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3))
T = RNG.normal(size=(6, 2))
Y = RNG.normal(size=(8, 6))
HOLES = np.where(RNG.random(Y.shape) < 0.3, np.nan, Y)
GROUPS = np.arange(8) % 3


@over(lines("labels", Y, HOLES))
@over(lines("kind", TwoStepRidge, KroneckerRidge))
def test_it_predicts_and_leaves_out_as_the_model(kind, labels):
    model = kind(fit_intercept=True).fit(X, labels, tasks=T)
    fitted = model.fitted_
    assert_allclose(fitted.predict(), model.predict())
    assert_allclose(fitted.leave_out("B", Units((GROUPS, None))), model.holdout("B", groups=GROUPS))
    assert_allclose(fitted.leave_out("A"), model.holdout("A"))
    missing = np.isnan(labels)
    assert_allclose(fitted.completed[missing], model.completed_[missing])
    assert fitted.labels.size == np.count_nonzero(~missing)
    assert len(fitted.sides) == 2


def test_that_of_pairs_has_the_ids_of_the_pairs():
    pairs = [(3, 1), (0, 2), (3, 2), (0, 1), (5, 2)]
    model = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(
        pairs, [1.0, 2.0, 0.5, 3.0, 1.5]
    )
    fitted = model.fitted_
    assert fitted.instance_ids.labels == model.instance_ids_ == (3, 0, 5)
    assert fitted.task_ids.labels == model.task_ids_ == (1, 2)
    assert fitted.labels.size == len(pairs)


def test_what_a_network_cannot_leave_out_is_refused():
    fitted = TwoStepRidge(symmetry="symmetric").fit(X, np.ones((8, 8)) + np.eye(8)).fitted_
    assert fitted.is_network
    with pytest.raises(ValueError, match="one edge or vertex at a time"):
        fitted.leave_out("B", Units((GROUPS, None)))
