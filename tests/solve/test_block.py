"""The closed form for a block of missing labels, against dense systems written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fifty_digits
from dyadlearn._array import namespace
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.solve.columns import complete_block
from dyadlearn.spectrum import Spectrum
from problems import posed
from references import fitted, reference
from sweeps import covering, every, over

# The grid, then the missing rows and columns: one cell, one task, some rows and columns, whole
# rows, whole columns, everything.
BLOCKS = {
    "cell": ((6, 5), [2], [4]),
    "task": ((7, 4), [6, 0, 3, 2], [1]),
    "block": ((5, 6), [4, 1, 2], [0, 5]),
    "rows": ((6, 3), [5, 1], [0, 1, 2]),
    "columns": ((4, 6), [0, 1, 2, 3], [3, 2]),
    "all": ((3, 4), [0, 1, 2], [0, 1, 2, 3]),
}
LAMBDAS = [1e-7, 1e-3, 1.0, 1e6]


def make_features(n: int, rank: str, seed: int) -> np.ndarray:
    """Return features of small whole numbers, so that their kernel is exact, well-conditioned or singular."""
    rng = np.random.default_rng(seed)
    if rank == "full":
        return np.column_stack([rng.integers(-1, 2, size=(n, 3)), 2 * np.eye(n)])
    size = max(1, n - 2)
    return np.vstack([np.eye(size), rng.integers(-1, 2, size=(n - size, size))]).astype(float)


def make_sides(shape: tuple[int, int], rank: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features of both sides and labels."""
    X, T = (make_features(n, rank, seed) for seed, n in enumerate(shape))
    return X, T, np.random.default_rng(2).integers(-4, 5, size=shape).astype(float)


def smoother(Phi: np.ndarray, alpha: float, rank: str = "full", constant: bool = False):
    """Return a side; that of a truncated spectrum is made from features."""
    kind = "free" if constant else None
    if rank == "truncated":
        spectrum = Spectrum.from_features(Phi, constant=kind)
        assert spectrum.is_truncated
    else:
        spectrum = Spectrum.from_gram(Phi @ Phi.T, constant=kind)
    return spectrum.smoother(Tikhonov(), alpha)


def exact(X, T, Y, rows, columns, alphas, constant=False):
    """Return the completed labels in 50 digits."""
    inside = np.ix_(rows, columns)
    holes = Y.copy()
    holes[inside] = np.nan
    completed = Y.copy()
    predicted = fifty_digits.two_step(X, T, holes, np.ones(Y.shape), alphas, (X, T), constant)
    completed[inside] = predicted[inside]
    return completed


@over(
    covering(
        block=BLOCKS,
        rank=["full", "singular", "truncated"],
        alpha=LAMBDAS,
        task_alpha=LAMBDAS,
        constant=[False, True],
        where=lambda block, constant, **_: not constant or block is not BLOCKS["all"],
    )
)
def test_every_digit_at_both_ends(block, rank, alpha, task_alpha, constant):
    shape, rows, columns = block
    X, T, Y = make_sides(shape, rank)
    sides = [smoother(X, alpha, rank, constant), smoother(T, task_alpha, rank, constant)]
    found = complete_block(*sides, Y, rows, columns)
    expected = exact(X, T, Y, rows, columns, (alpha, task_alpha), constant)
    inside = np.ix_(rows, columns)
    # What a null space fits with next to no regularisation is known up to rounding over λ, whoever
    # computes it.
    slack = 1.0 if rank == "full" else min(1.0, max(alpha, task_alpha))
    scale = np.abs(expected[inside]).max() or 1.0
    assert_allclose(found[inside], expected[inside], rtol=0, atol=1e-13 / slack * scale)
    is_missing = np.zeros(shape, dtype=bool)
    is_missing[inside] = True
    assert_array_equal(found[~is_missing], Y[~is_missing])


# Some filters keep directions whole: without any labels in a column, nothing tells what these hold.
@over(
    covering(
        name=["cell", "task", "block", "rows"],
        filter=[SpectralCutoff(), IteratedTikhonov(2), Landweber(5), Landweber()],
    )
)
def test_any_filter(name, filter):
    shape, rows, columns = BLOCKS[name]
    X, T, Y = make_sides(shape, "full")
    kernels = X @ X.T, T @ T.T
    alphas = (5.3, 4.7)
    sides = [
        Spectrum.from_gram(K).smoother(filter, alpha)
        for K, alpha in zip(kernels, alphas, strict=True)
    ]
    found = complete_block(*sides, Y, rows, columns)
    holes = Y.copy()
    holes[np.ix_(rows, columns)] = np.nan
    model = reference("two_step", kernels, alphas, holes, filters=(filter, filter))
    expected = np.where(np.isnan(holes), fitted(model), Y)
    assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_no_regularisation_is_a_limit():
    X, T, Y = make_sides((6, 5), "full")
    rows = [0, 4, 2]
    columns = [3, 1]
    for alphas in ((0.0, 0.0), (0.0, 0.5), (0.5, 0.0)):
        sides = [smoother(side, alpha) for side, alpha in zip((X, T), alphas, strict=True)]
        near = tuple(alpha or 1e-20 for alpha in alphas)
        expected = exact(X, T, Y, rows, columns, near)
        assert_allclose(complete_block(*sides, Y, rows, columns), expected, rtol=0, atol=1e-11)


def test_labels_that_nothing_predicts_are_refused():
    X, T, Y = make_sides((6, 5), "singular")
    side = smoother(X, 0.0)
    tasks = smoother(T, 0.0)
    # A model that interpolates all labels of its range leaves a whole grid undetermined.
    with pytest.raises(LeverageError, match="6 of 6 rows with missing labels have leverage 1"):
        complete_block(side, tasks, Y, range(6), range(5))
    identity = smoother(np.diag([1.0, 2.0, 0.0]), 0.0)
    with pytest.raises(
        LeverageError, match="1 of 3 rows with missing labels have leverage 1 .positions 1."
    ):
        complete_block(identity, identity, np.ones((3, 3)), [1], [1])
    # The one row has labels of other tasks, so that something remains to learn from.
    with pytest.raises(
        LeverageError, match="1 of 1 rows with missing labels have leverage 1"
    ) as error:
        complete_block(smoother(np.ones((1, 1)), 0.0), identity, np.ones((1, 3)), [0], [1])
    assert error.type is LeverageError
    # The row that the kernel knows nothing of is not interpolated but predicted, by zero.
    assert complete_block(identity, identity, np.ones((3, 3)), [2], [1])[2, 1] == 0


@over(every(reverse=[False, True], seed=range(8)))
def test_means_of_rows_without_labels_and_without_a_penalty_are_refused(reverse, seed):
    """The slack of the constant of the tasks is rounding, in a truncated spectrum too; of some seeds it is zero."""
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(7, 7))
    instances = Spectrum.from_gram(K @ K.T, constant="free")
    tasks = Spectrum.from_features(rng.normal(size=(20, 4)), constant="free")
    Y = rng.normal(size=(7, 20))
    Y[[0, 5]] = np.nan
    if reverse:
        given = (Y.T, tasks, 1.0, instances, 0.0)
    else:
        given = (Y, instances, 0.0, tasks, 1.0)
    with pytest.raises(LeverageError, match="have leverage 1"):
        posed("two_step", *given).complete()


@over(every(n_iter=[2, 3], alpha=[1e-6, 1e-8], dual=[True, False]))
def test_a_block_keeps_its_digits_if_little_is_left_of_a_direction(n_iter, alpha, dual):
    rng = np.random.default_rng(4)
    X = rng.integers(-3, 4, size=(6, 4)).astype(float)
    instances = Spectrum.from_gram(X @ X.T) if dual else Spectrum.from_features(X)
    Y = rng.normal(size=(6, 5))
    kept = np.array([1, 4])
    expected = fifty_digits.hidden_rows(X, kept, Y[kept, 2:], alpha, n_iter, False)
    hidden = np.array([0, 2, 3, 5])
    Y[hidden, 2:] = np.nan
    # A task kernel of full rank without a penalty: each task is on its own.
    tasks = Spectrum.from_gram(np.diag([1.0, 2.0, 3.0, 4.0, 5.0]))
    problem = posed("two_step", Y, instances, alpha, tasks, 0.0, filter=IteratedTikhonov(n_iter))
    found = problem.complete().labels[hidden, 2:]
    assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_libraries(library):
    shape, rows, columns = BLOCKS["block"]
    X, T, Y = make_sides(shape, "full")
    expected = complete_block(smoother(X, 0.5), smoother(T, 0.2), Y, rows, columns)
    labels = library.asarray(Y)
    sides = [smoother(library.asarray(side), alpha) for side, alpha in ((X, 0.5), (T, 0.2))]
    found = complete_block(*sides, labels, rows, columns)
    assert type(found) is type(labels)
    assert found.dtype == namespace(found).float64
    assert_allclose(library.to_numpy(found), expected, rtol=0, atol=10 * library.rtol)


def test_labels_inside_the_block_are_neither_read_nor_overwritten():
    shape, rows, columns = BLOCKS["block"]
    X, T, Y = make_sides(shape, "full")
    sides = smoother(X, 0.5), smoother(T, 0.2)
    holes = Y.copy()
    holes[np.ix_(rows, columns)] = np.nan
    before = holes.copy()
    found = complete_block(*sides, holes, rows, columns)
    assert_array_equal(found, complete_block(*sides, Y, rows, columns))
    assert_array_equal(holes, before)
    for nothing in (([], [1, 2]), ([1], [])):
        assert_array_equal(complete_block(*sides, Y, *nothing), Y)
