"""The best of many scores, against a search through all of them."""

import itertools

import numpy as np
import pytest

from dyadlearn.metrics.cells import best_point
from sweeps import lines, over

NAN = float("nan")


@over(
    lines(
        "scores alphas place",
        ([0.1, 0.7, 0.3], [1.0, 2.0, 3.0], 1),
        ([0.5, 0.5, 0.5], [1.0, 100.0, 10.0], 1),
        ([-1.0, -1.0 - 1e-15, -1.0 - 1e-9], [1.0, 2.0, 3.0], 1),
        ([0.0, 0.0, -1e-30], [1.0, 2.0, 3.0], 1),
        ([NAN, 0.2, NAN], [3.0, 1.0, 2.0], 1),
        ([0.4, 0.4], [0.0, 1e-320], 1),
        ([-np.inf, -3.0, -np.inf], [1.0, 2.0, 3.0], 1),
        ([-np.inf, -np.inf], [1.0, 2.0], 1),
        ([np.inf, 3.0], [1.0, 2.0], 0),
    )
)
def test_one_regularisation(scores, alphas, place):
    assert best_point(np.array(scores), alphas) == (place,)


def test_two_regularisations():
    """Of equals the largest product, then the largest alpha: written out."""
    rng = np.random.default_rng(0)
    alphas = [10.0, 0.1, 0.0, 1.0]
    task_alphas = [1.0, 0.1, 10.0, 0.0, 100.0]
    for _ in range(50):
        scores = rng.integers(3, size=(4, 5)) / 7 * (1 + rng.uniform(-1e-15, 1e-15, size=(4, 5)))
        best = [
            place
            for place in itertools.product(range(4), range(5))
            if scores[place] > scores.max() - 1e-10
        ]
        expected = max(
            best,
            key=lambda place: (
                round(alphas[place[0]] * task_alphas[place[1]], 12),
                alphas[place[0]],
                task_alphas[place[1]],
            ),
        )
        assert best_point(scores, alphas, task_alphas) == expected


def test_the_first_of_equal_kernels():
    scores = np.zeros((3, 2, 4))
    scores[1, 1, [0, 2]] = scores[2, 0, 3] = 0.5
    assert best_point(scores, [1.0, 2.0, 3.0, 4.0]) == (1, 1, 2)
    both = np.zeros((2, 2, 3, 2))
    both[1, 0, 0, 1] = both[1, 0, 2, 0] = both[1, 1] = 0.5
    assert best_point(both, [1.0, 2.0, 3.0], [1.0, 2.0]) == (1, 0, 2, 0)


def test_a_product_does_not_depend_on_how_its_factors_are_rounded():
    assert best_point(np.zeros((3, 3)), [0.3, 3.0, 0.03], [0.1, 0.01, 1.0])[0] == 1
    # 0.1 · 10, 1 · 1 and 10 · 0.1 are the same: the largest alpha.
    powers = [10.0**power for power in range(-7, 7)]
    scores = np.full((14, 14), -1.0)
    for place in range(14):
        scores[place, 13 - place] = 0.5
    assert best_point(scores, powers, powers) == (13, 0)


def test_nothing_is_best_of_nothing():
    with pytest.raises(ValueError, match="No score is the best, because the metric is undefined"):
        best_point(np.full((2, 3), NAN), [1.0, 2.0], [1.0, 2.0, 3.0])
