"""The generator: its truth is the stated function, in the stated kernels, under the stated noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.datasets import make_dyads
from dyadlearn.kernels import gram
from sweeps import every, lines, over

SHAPES = [(12, 7), (6, 15), (9, 9), (1, 4)]
NETWORKS = [("symmetric", 1), ("antisymmetric", -1)]


@over(lines("m q", *SHAPES))
def test_shapes_and_kernels(m, q):
    sides = {
        "n_features": 3,
        "n_task_features": 2,
        "kernel_params": {"gamma": 0.7},
        "task_kernel": "linear",
    }
    data = make_dyads(m, q, **sides, random_state=0)
    assert data.X.shape == (m, 3)
    assert data.tasks.shape == (q, 2)
    assert data.Y.shape == data.truth.shape == data.observed.shape == (m, q)
    assert_array_equal(data.K, gram(data.X, kernel="rbf", kernel_params={"gamma": 0.7}))
    assert_array_equal(data.G, gram(data.tasks))
    assert np.abs(data.X).max() <= 1


def test_the_truth_is_a_sum_of_kernel_expansions():
    data = make_dyads(5, 4, rank=2, kernel_params={"gamma": 0.5}, random_state=3)
    parts = []
    for table, side, gamma in (
        (data.X, data.function.first, 0.5),
        (data.tasks, data.function.second, 0.25),
    ):
        squares = ((table[:, None] - side.centres) ** 2).sum(axis=2)
        parts.append(np.exp(-gamma * squares) @ side.weights)
    assert_allclose(data.truth, parts[0] @ parts[1].T, rtol=1e-9, atol=1e-9)


@over(
    every(
        symmetry=[None, "symmetric", "antisymmetric"],
        kernel=["rbf", "linear", "laplacian", lambda A, B: (A @ B.T + 1) ** 2],
    )
)
def test_the_truth_has_about_unit_variance(kernel, symmetry):
    variances = [
        make_dyads(
            150, kernel=kernel, symmetry=symmetry, random_state=seed, n_tasks=150
        ).truth.var()
        for seed in range(3)
    ]
    assert 0.6 < np.mean(variances) < 1.4


@over(every(symmetry=[None, "symmetric", "antisymmetric"]))
def test_a_larger_sample_is_drawn_from_the_same_truth(symmetry):
    small = make_dyads(8, 6, symmetry=symmetry, random_state=5)
    large = make_dyads(40, 30, symmetry=symmetry, noise=2.0, missing=0.5, random_state=5)
    new = np.random.default_rng(0).uniform(-1, 1, size=(7, 5))
    new_tasks = new if symmetry else new[:, :4]
    assert_array_equal(small.function(new, new_tasks), large.function(new, new_tasks))
    assert_array_equal(large.X[:8], small.X)
    columns = 8 if symmetry else 6
    assert_allclose(large.truth[:8, :columns], small.truth, atol=1e-12)


def test_noise_has_the_stated_size_and_is_not_in_the_truth():
    clean, noisy = (make_dyads(80, 60, noise=noise, random_state=0) for noise in (0.0, 0.5))
    assert_array_equal(clean.Y, clean.truth)
    assert_array_equal(noisy.truth, clean.truth)
    assert_allclose(np.std(noisy.Y - noisy.truth), 0.5, rtol=0.05)


def test_missing_labels_are_nan_and_only_those():
    data = make_dyads(80, 60, missing=0.3, random_state=0)
    assert_array_equal(np.isnan(data.Y), ~data.observed)
    assert_allclose(np.mean(~data.observed), 0.3, atol=0.03)
    assert np.isfinite(data.truth).all()
    assert make_dyads(5, 4, random_state=0).observed.all()


def test_binary_labels_are_the_sign_of_the_noisy_truth():
    real, binary = (
        make_dyads(30, 20, labels=labels, noise=0.5, missing=0.2, random_state=0)
        for labels in ("real", "binary")
    )
    assert_array_equal(np.unique(binary.Y[binary.observed]), [0.0, 1.0])
    assert_array_equal(binary.Y[binary.observed], (real.Y > 0)[binary.observed])
    assert_array_equal(binary.truth, real.truth)
    assert ((real.truth > 0) != (binary.Y > 0))[binary.observed].any()


@over(lines("symmetry sign", *NETWORKS))
def test_networks_are_exactly_symmetric_or_antisymmetric(symmetry, sign):
    data = make_dyads(15, 3, symmetry=symmetry, noise=0.5, missing=0.2, random_state=0)
    assert data.tasks is None
    assert data.Y.shape == (15, 15)
    assert data.G is data.K
    assert_array_equal(data.truth, sign * data.truth.T)
    assert_array_equal(data.Y, sign * data.Y.T)
    assert_array_equal(data.observed, data.observed.T)
    assert not data.observed.all()
    assert np.abs(data.Y - data.truth)[data.observed].max() > 0.5
    assert_allclose(data.function(data.X, data.X), data.truth, atol=1e-12)
    assert_array_equal(data.function(data.X), data.truth)
    assert_allclose(data.function(data.X[:4], data.X[4:]), data.truth[:4, 4:], atol=1e-12)
    assert np.abs(data.truth).max() > 0.1


@over(
    lines(
        "arguments error message",
        (
            {"n_instances": 0},
            ValueError,
            "n_instances must be a whole number of at least 1, found 0",
        ),
        ({"noise": -1}, ValueError, "noise must be a finite number of at least 0, found -1"),
        ({"missing": 1.0}, ValueError, "missing must be a probability"),
        ({"labels": "text"}, ValueError, "labels must be one of 'real', 'binary', found 'text'"),
        ({"symmetry": "antisymmetric", "labels": "binary"}, ValueError, "cannot be antisymmetric"),
        (
            {"symmetry": "antisymmetric", "kernel": "linear", "n_features": 1},
            ValueError,
            "zero everywhere",
        ),
        ({"kernel": "delta"}, ValueError, "zero everywhere"),
    )
)
def test_bad_input_gets_one_clear_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        make_dyads(**{"random_state": 0, **arguments})


@over(lines("symmetry sign", (None, 1), *NETWORKS))
def test_mean_and_main_effects_are_added_to_the_same_interactions(symmetry, sign):
    """What is added is a + b + mean, of the stated mean square, and nothing else changes."""
    given = {"noise": 0.0, "symmetry": symmetry, "random_state": 5}
    mean = 0.0 if symmetry == "antisymmetric" else 100.0
    plain = make_dyads(20, 15, **given)
    data = make_dyads(20, 15, mean=mean, main_effects=4.0, **given)
    assert_array_equal(plain.X, data.X)
    added = data.truth - plain.truth - mean
    # A sum of a row and a column effect has no interactions.
    centred = added - added.mean(axis=0) - added.mean(axis=1, keepdims=True) + added.mean()
    assert_allclose(centred, 0, atol=1e-12)
    assert_allclose(data.Y, data.truth, rtol=0)
    if symmetry:
        assert_array_equal(data.Y, sign * data.Y.T)
    rows = data.function(data.X[:3], data.X[:5] if symmetry else data.tasks[:5])
    assert_allclose(rows, data.truth[:3, :5], rtol=1e-12, atol=1e-13)
    if symmetry is None:
        assert 2.0 < added.var(axis=0).mean() < 6.0
