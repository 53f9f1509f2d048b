"""Least squares of weighted rows by orthogonal factorisations, against fifty digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fifty_digits
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.solve.directions import LeastSquares
from sweeps import covering, every, over

SHAPES = {"tall": (9, 3), "square": (6, 6), "wide": (4, 7), "one row": (1, 2)}


def draw(shape, spread, deficient):
    rng = np.random.default_rng(3)
    features = rng.normal(size=shape)
    labels = rng.normal(size=(shape[0], 2))
    if deficient:
        features[:, -1] = 0.0
    return (
        features,
        10.0 ** rng.uniform(-spread / 2, 0, size=shape[0]),
        labels,
        rng.normal(size=(3, shape[1])),
    )


def expected(features, root, labels, ridge, has_mean, asked):
    """Return the predictions for rows of features, each column of labels by itself."""
    weights = (root**2)[:, None]
    found = [
        fifty_digits.independent(features, column[:, None], weights, ridge, asked, has_mean)[:, 0]
        for column in labels.T
    ]
    return np.stack(found, axis=1)


def check(features, root, labels, asked, ridge, has_mean, *, rtol):
    """Compare predictions, weights of labels and leverages; `rtol` is that of both predictions."""
    system = LeastSquares(features, root, ridge, has_mean)
    coefficients, means = system.solve(labels)
    truth = expected(features, root, labels, ridge, has_mean, asked)
    size = np.abs(truth).max()
    assert_allclose(asked @ coefficients + means, truth, rtol=0, atol=rtol[0] * size)
    assert_allclose(system.label_weights(asked).T @ labels, truth, rtol=0, atol=rtol[1] * size)
    assert_allclose(system.leverage, np.diagonal(system.label_weights(features)), atol=1e-12)


@over(
    covering(
        shape=SHAPES,
        spread=[0, 8],
        ridge=[1e-20, 1e-3, 1e6],
        has_mean=[False, True],
        deficient=[False, True],
        # The largest features are as good as unpenalised, and the others keep their digits.
        large=[0, 1, 2],
        where=lambda ridge, deficient, large, **_: not large or (ridge == 1e-3 and not deficient),
    )
)
def test_solutions_leverages_and_weights(shape, spread, ridge, has_mean, deficient, large):
    features, root, labels, asked = draw(shape, spread, deficient)
    features[:, :large] *= 1e15
    asked[:, :large] *= 1e15
    if deficient:
        asked[:, -1] = 0.0  # a feature that no row has moves no prediction
    check(features, root, labels, asked, ridge, has_mean, rtol=(1e-9, 1e-8))


@over(
    covering(
        shape={"tall": (9, 3), "wide": (4, 7)},
        spread=[0, 8, 16],
        ridge=[1e-18, 1e-3],
        has_mean=[False, True],
    )
)
def test_leave_one_out(shape, spread, ridge, has_mean):
    """A row of nearly all the weight has leverage one, and is predicted by a fit without it."""
    features, root, labels, _ = draw(shape, spread, deficient=False)
    found = LeastSquares(features, root, ridge, has_mean).leave_one_out(labels)
    for place in range(len(labels)):
        others = np.delete(np.arange(len(labels)), place)
        part = features[others], root[others], labels[others]
        truth = expected(*part, ridge, has_mean, features[[place]])[0]
        assert_allclose(found[place], truth, rtol=1e-6, atol=1e-8 * np.abs(labels).max())


@over(
    covering(shape={"tall": (12, 9), "wide": (9, 12)}, ridge=[1e-10, 1.0], has_mean=[False, True])
)
def test_features_of_different_scales_keep_their_digits(shape, ridge, has_mean):
    """Directions that a filter hardly shrinks have features of 10¹⁰ beside others of 1."""
    features, root, labels, asked = draw(shape, 3, deficient=False)
    scales = 10.0 ** np.random.default_rng(4).uniform(0, 10, size=shape[1])
    given = (features * scales, root, labels, asked * scales, ridge, has_mean)
    check(*given, rtol=(2e-13, 2e-13))


@over(covering(n_levels=[1, 2, 3], has_mean=[False, True], spread=[0, 8]))
def test_combinations_of_large_features_are_no_small_features(n_levels, has_mean, spread):
    """Rows of few levels, as the cells of few instances, have large features that are combinations of each other."""
    features, root, labels, asked = draw((9, 7), spread, deficient=False)
    large = 1e6 * np.random.default_rng(5).normal(size=(n_levels + 1, 4))
    features[:, :4] = large[np.arange(9) % n_levels]
    asked[:, :4] = large[[0, -1, -1]]
    # The large features of new rows have an error of ε·10⁶.
    check(features, root, labels, asked, 1.0, has_mean, rtol=(2e-8, 2e-8))


def test_rounding_of_heavy_rows_is_reported():
    """The second feature is that of a light row alone, up to the rounding of the heavy rows."""
    features = np.array([[1.0, 0.0], [1.0, 1e-3], [1.0, -1e-3], [0.5, 2.0]])
    root = np.array([1.0, 1.0, 1.0, 1e-9])
    labels = np.array([[1.0], [2.0], [5.0], [3.0]])
    LeastSquares(features, root, 1e-18, has_mean=False).solve(
        labels
    )  # the heavy rows have this feature too
    features[:3, 1] = 0.0
    with pytest.warns(PrecisionWarning, match="leaves 0 accurate digits of the predictions"):
        LeastSquares(features, root, 1e-18, has_mean=False).solve(labels)


@over(every(size=[1e5, 1e7, 1e12], ridge=[1e-3, 1.0]))
def test_large_features_that_are_a_constant_stay_out_of_the_mean(size, ridge):
    """No row tells such a feature from the mean, so that its coefficient is zero and other rows predict by the mean."""
    features, root, labels, _ = draw((7, 3), 1, deficient=False)
    features[:, 0] = size * 0.3
    system = LeastSquares(features, root, ridge, has_mean=True)
    coefficients, means = system.solve(labels)
    others, other_means = LeastSquares(features[:, 1:], root, ridge, has_mean=True).solve(labels)
    assert_allclose(size * coefficients[0], 0.0, atol=1e-12)
    assert_allclose(coefficients[1:], others, rtol=1e-9)
    assert_allclose(means, other_means, rtol=1e-9)
    asked = np.array([[0.8 * size, 0.1, 0.2]])
    assert_allclose(system.label_weights(asked).T @ labels, asked[:, 1:] @ others + other_means)


def test_a_row_that_alone_has_a_large_feature_is_left_out_with_a_warning():
    # The other rows know the second feature by rounding alone, and its prediction is theirs times
    # 1e16.
    features = np.array([[1e3, 1.0], [1e3, 0.0], [1e3, -2.0], [0.0, 1e16]])
    labels = np.array([[1.0], [2.0], [4.0], [3.0]])
    system = LeastSquares(features, np.ones(4), 1.0, has_mean=False)
    with pytest.warns(PrecisionWarning, match="leaves 0 accurate digits"):
        system.leave_one_out(labels)
    system.solve(labels)  # no warning: its own label determines its prediction
