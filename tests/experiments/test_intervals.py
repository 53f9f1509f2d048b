"""The experiment on intervals: which labels are missing."""

import numpy as np
import pytest


def test_half_of_the_labels_are_observed_and_only_one_mechanism_depends_on_them(script):
    Y = np.random.default_rng(0).normal(10.0, 2.0, size=(400, 300))
    gaps = {}
    spreads = {}
    for mechanism in script.MECHANISMS:
        observed = script.observation(mechanism, Y, np.random.default_rng(1))
        np.testing.assert_allclose(observed.mean(), 0.5, atol=0.1)
        gaps[mechanism] = Y[observed].mean() - Y[~observed].mean()
        spreads[mechanism] = observed.mean(axis=1).std()
    np.testing.assert_allclose([gaps["random"], gaps["sides"]], 0.0, atol=0.05)
    assert gaps["labels"] > 1.0
    assert spreads["sides"] > 0.1 > spreads["random"]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.UnboundedIntervalWarning")
def test_labels_missing_by_their_size_are_covered_less(script):
    shares = script.incomplete("labels", "Kronecker", 0, 0.9)
    assert {setting for setting, _ in shares} == set("ABCD")
    assert all(0.0 <= share <= 1.0 for share in shares.values())
    assert shares["D", False] < shares["D", True]
