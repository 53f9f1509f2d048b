"""Profile kernels: what they are, and that no label gets into those of a fold that leaves it out."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.learning import error as errors
from dyadlearn.learning.error import FoldError
from dyadlearn.learning.mixture import DIVISIBLE, PROFILES, Mixture, Parameters, profile_kernels
from dyadlearn.learning.stages import Descent, learn
from learning_case import distance_kernel, targets
from problems import close
from sweeps import every, over


@over(every(shape=[(6, 4), (3, 7), (2, 1), (1, 3)]))
def test_profile_kernels_are_what_the_definition_says(shape, library):
    F = np.random.default_rng(0).normal(size=shape) + 5.0
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


def _noise(seed=0, shape=(36, 28)):
    rng = np.random.default_rng(seed)
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
