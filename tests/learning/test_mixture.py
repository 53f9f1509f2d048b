"""Mixtures of powers of kernels: their derivatives and limits, that what is accepted is a kernel, and profiles."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.learning import error as errors
from dyadlearn.learning.error import FoldError
from dyadlearn.learning.mixture import DIVISIBLE, PROFILES, Mixture, Parameters, profile_kernels
from dyadlearn.learning.stages import Descent, learn
from learning_case import dense_kernel, differences, distance_kernel, mixture, similarity, targets
from problems import close
from sweeps import every, over


@pytest.mark.parametrize("constant", [True, False])
def test_a_mixture_and_its_derivatives(constant, library):
    rng = default_rng(0)
    given = mixture(7, rng, constant, library.asarray)
    logits = rng.normal(size=given.n_weights)
    exponents = np.array([0.4, -0.3])
    slope = rng.normal(size=(7, 7))
    mixed = given.mixed(logits, exponents)
    close(
        library.to_numpy(mixed.kernel),
        dense_kernel(given, logits, exponents, library.to_numpy),
        library.rtol,
    )

    def function(vector):
        return float(
            np.sum(slope * dense_kernel(given, vector[:-2], vector[-2:], library.to_numpy))
        )

    found = np.concatenate(mixed.gradient(library.asarray(slope)))
    close(found, differences(function, np.append(logits, exponents)), max(library.rtol, 1e-8))


def test_zeros_stay_zeros_and_pull_at_no_exponent(library):
    """Entries without anything in common: their logarithm is not finite, their powers are zero."""
    K = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 1e-9], [0.5, 1e-9, 1.0]])
    given = Mixture([library.asarray(K)], [True], False)
    mixed = given.mixed(np.zeros(1), np.log([2.0]))
    kernel = library.to_numpy(mixed.kernel)
    assert kernel[0, 1] == 0
    assert_allclose(kernel[0, 2], 0.25, rtol=1e-6)
    _, slope = mixed.gradient(library.asarray(np.ones((3, 3))))
    assert_allclose(slope, 2 * 2 * 0.25 * np.log(0.5), rtol=1e-6)


def test_what_exponents_may_be():
    """All powers of an RBF kernel are kernels, below one of no other are they in general."""
    rng = default_rng(0)
    low, high = mixture(5, rng).exponent_limits
    assert_allclose(np.exp(low), [1.0, 0.05])
    assert_allclose(np.exp(high), [9.0, 50.0])
    given = mixture(5, rng)
    limits = Parameters.limits([given], 1e-3)
    wild = Parameters.start([given])
    for value, expected in ((-100.0, [1.0, 0.05, 1e-3]), (100.0, [9.0, 50.0, 1e4])):
        found = wild.of(np.clip(np.full(len(wild.vector), value), *limits))
        assert_allclose(np.exp([*found.exponents[0], *found.alpha]), expected)
        assert_array_equal(found.weights[0], value)


def test_the_gradient_of_kernels_that_differ_between_folds():
    rng = default_rng(0)
    stacked = np.stack([distance_kernel(5, rng), distance_kernel(5, rng)])
    given = Mixture([distance_kernel(5, rng), stacked], [True, True], True, (True, True))
    slope, at = rng.normal(size=(2, 5, 5)), rng.normal(size=5)

    def error(vector):
        return float(np.sum(slope * given.mixed(vector[:3], vector[3:]).kernel))

    found = np.concatenate(given.mixed(at[:3], at[3:]).gradient(slope))
    assert_allclose(found, differences(error, at), rtol=1e-6, atol=1e-8)


def test_a_power_is_accepted_if_it_is_a_kernel_in_every_fold():
    angles = default_rng(0).uniform(0, 2 * np.pi, 8)
    angle = (1 + np.cos(angles[:, None] - angles)) / 2
    assert np.linalg.eigvalsh(angle**1.5).min() < -1e-4
    exponents = np.log([1.5])
    for folds, expected in (
        ([np.eye(8), np.eye(8)], 1.5),
        ([np.eye(8), angle], 2.0),
        ([angle, np.eye(8)], 2.0),
    ):
        found = Mixture([np.stack(folds)], [True], True).accepted(exponents)
        assert_allclose(np.exp(found), expected)


@pytest.mark.parametrize("kind", ["Tanimoto", "angle"])
def test_accepted_powers_are_kernels(kind, library):
    rng = default_rng(0)
    n = 40
    rows = rng.normal(size=(n, 2))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    K = similarity(n, rng) if kind == "Tanimoto" else (1 + rows @ rows.T) / 2
    K = np.clip(K, 0, 1)
    grams = [library.asarray(each) for each in (K, distance_kernel(n, rng))]
    given = Mixture(grams, [True, True], True, (False, True))
    # The slack is that of rounding in the precision that was looked at.
    slack = 20 * n * np.finfo(library.dtype).eps
    changed = 0
    for exponent in (1.0, 1.1, 1.5, 2.0, 3.5):
        exponents = np.log([exponent, 0.5])
        found = given.accepted(exponents)
        assert found[1] == exponents[1]
        assert_array_equal(given.accepted(exponents, given.grams), exponents)
        assert found[0] in (exponents[0], np.log(np.ceil(exponent)))
        changed += int(found[0] != exponents[0])
        assert np.linalg.eigvalsh(K ** np.exp(found[0])).min() > -slack
        # A power that is a kernel is left alone.
        is_kernel = np.linalg.eigvalsh(K**exponent).min() > -slack / 4
        assert is_kernel <= (found[0] == exponents[0])
    assert (changed > 0) == (kind == "angle")


def test_more_kernels_join():
    rng = default_rng(0)
    given = mixture(5, rng)
    more = given.joined([distance_kernel(5, rng), similarity(5, rng)], (True, False))
    assert (more.n_weights, more.n_exponents) == (6, 4)
    assert_allclose(np.exp(more.exponent_limits[0]), [1.0, 0.05, 0.05, 1.0])
    logits = rng.normal(size=6)
    exponents = np.array([0.1, -0.2, 0.3, 0.4])
    plain = Mixture(more.grams, more.has_exponent, True, more.divisible)
    assert_allclose(
        more.mixed(logits, exponents).kernel, plain.mixed(logits, exponents).kernel, rtol=1e-14
    )
    assert_array_equal(
        given.joined([], ()).mixed(logits[:4], exponents[:2]).kernel,
        given.mixed(logits[:4], exponents[:2]).kernel,
    )


# Parameters by their parts ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_kernels", [1, 3])
def test_the_weights_at_the_start(n_kernels):
    rng = default_rng(0)
    side = Mixture([similarity(4, rng)] * n_kernels, [True] * n_kernels, True)
    [equal] = Parameters.start([side]).weights
    assert_allclose(Mixture.weights(equal), np.full(n_kernels + 1, 1 / (n_kernels + 1)))
    [small] = Parameters.start([side], 0.05).weights
    weights = Mixture.weights(small)
    assert_allclose(weights[:-1], weights[0])
    # Each weight is at least a ten-thousandth.
    assert_allclose(weights[-1] / weights[:-1].sum(), 0.05, rtol=0.02)


def test_a_side_without_a_constant_starts_from_equal_weights():
    side = Mixture([similarity(4, default_rng(0))] * 2, [True] * 2, False)
    assert_array_equal(Parameters.start([side], 0.05).vector, Parameters.start([side]).vector)


def test_parameters_of_an_earlier_stage_go_on_with_profiles():
    rng = default_rng(0)
    rows = mixture(5, rng)
    columns = mixture(4, rng)
    before = Parameters.start([rows, columns])
    before = before.of(np.arange(len(before.vector), dtype=float))
    start = Parameters.start([rows.joined(rows.grams[:2], (True, False)), columns])
    found = before.joined(start)
    assert_allclose(np.exp(found.weights[0]), np.exp([0, 1, 2, 3, 3, 3]) * [1, 1, 1, 0.2, 0.2, 1])
    assert_array_equal(found.exponents[0], [4, 5, 0, 0])
    assert_array_equal(found.weights[1], before.weights[1])
    assert_array_equal(found.joined(start).vector, found.vector)


# --- profile kernels: what they are, and that no label gets into those of a fold that leaves it out


@over(every(shape=[(6, 4), (3, 7), (2, 1), (1, 3)]))
def test_profile_kernels_are_what_the_definition_says(shape, library):
    F = default_rng(0).normal(size=shape) + 5.0
    found = [library.to_numpy(kernel) for kernel in profile_kernels(library.asarray(F))]
    assert len(found) == len(PROFILES) == len(DIVISIBLE)
    rows = F - F.mean(axis=0)
    m = len(F)
    squares = np.array([[np.sum((rows[i] - rows[j]) ** 2) for j in range(m)] for i in range(m)])
    distance = np.exp(-squares / (squares.mean() or 1.0))
    lengths = [np.linalg.norm(row) or 1.0 for row in rows]
    angle = [
        [(1 + rows[i] @ rows[j] / lengths[i] / lengths[j]) / 2 for j in range(m)] for i in range(m)
    ]
    np.fill_diagonal(angle := np.array(angle), 1.0)
    for kernel, expected in zip(found, (distance, angle), strict=True):
        close(kernel, expected, 10 * library.rtol)
        assert_array_equal(kernel, kernel.T)
        assert_array_equal(np.diag(kernel), 1.0)
        assert kernel.min() >= 0
        assert np.linalg.eigvalsh(kernel).min() > -1e-5


def test_rows_without_a_profile_give_no_nan():
    for F in (
        np.zeros((4, 3)),
        np.full((4, 3), 0.1),
        np.array([[1.0, 1.0], [0.0, 0.0], [0.5, 0.5]]),
    ):
        for kernel in profile_kernels(F.astype(np.float32)):
            assert np.isfinite(kernel).all()
            assert_allclose(np.diag(kernel), 1.0)


# What leaks --------------------------------------------------------------------------------------------------------


def _noise(shape=(36, 28)):
    rng = default_rng(0)
    sides = [Mixture([distance_kernel(n, rng)], [True], True, [True]) for n in shape]
    Y = rng.normal(size=shape)
    Y /= Y.std()
    code = rng.permutation(Y.size).reshape(shape) % 4
    masks = [(code != fold, code == fold) for fold in range(4)]
    return targets(Y - Y.mean(), None, "grand"), sides, masks


def test_profiles_of_noise_say_nothing(monkeypatch):
    """Labels are noise: whoever predicts held-out ones better than their variance has seen them."""
    labels, sides, masks = _noise()
    how = Descent(5, 0.1)

    def learned():
        return learn(FoldError.of(labels, sides, masks), how, 3, (True, True))

    # The errors are 1.001 at least, and 0.21 with the leak: far from both limits.
    honest = learned()
    assert min(stage.error for stage in honest.stages) > 0.97
    # The same with a leak: profiles of all labels in each fold.
    own = errors.profiled_sides
    grid = labels.grid[None]
    monkeypatch.setattr(
        errors, "profiled_sides", lambda completed, *others: own(completed * 0 + grid, *others)
    )
    leaking = learned()
    assert leaking.stages[-1].error < 0.9


def test_labels_of_test_cells_change_nothing_of_their_fold():
    """At given parameters of all stages, bit for bit: profiles, predictions, and the profiles of what is predicted."""
    labels, sides, masks = _noise()
    changed = np.where(masks[0][1], 3.0 - 2 * labels.grid, labels.grid)
    results = []
    for given in (labels, targets(changed, None, "grand")):
        error = FoldError.of(given, sides, masks[:2])
        for _ in range(3):
            at = Parameters.start(error.sides)
            predicted = error.completed(at)
            error = error.with_profiles(at, sides, (True, True))
        results.append((predicted, error.sides[0].grams[-1]))
    (mine, profile), (again, same) = results
    assert_array_equal(mine[0], again[0])
    assert_array_equal(profile[0], same[0])
    assert np.abs(mine[1] - again[1]).max() > 0.01
