"""The closed form for a block of missing labels, against dense systems written out."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fifty_digits
from dyadlearn._array import namespace
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.holdout import holdout
from dyadlearn.solve.columns import complete_block
from dyadlearn.spectrum import Spectrum
from problems import posed
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
blocks = {"block": BLOCKS}
ranks = {"rank": ["full", "singular"]}
LAMBDAS = [1e-7, 1e-3, 1.0, 1e6]


def make_features(n: int, rank: str, seed: int) -> np.ndarray:
    """Return features of small whole numbers, so that their kernel is exact, singular or well-conditioned."""
    rng = np.random.default_rng(seed)
    if rank == "full":
        return np.column_stack([rng.integers(-1, 2, size=(n, 3)), 2 * np.eye(n)])
    size = max(1, n - 2)
    return np.vstack([np.eye(size), rng.integers(-1, 2, size=(n - size, size))]).astype(float)


def make_sides(shape: tuple[int, int], rank: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return both kernels and labels."""
    K, G = (make_features(n, rank, seed) for seed, n in enumerate(shape))
    return K @ K.T, G @ G.T, np.random.default_rng(2).integers(-4, 5, size=shape).astype(float)


def smoother(K: np.ndarray, alpha: float):
    return Spectrum.from_gram(K).smoother(Tikhonov(), alpha)


def dense(
    hat: np.ndarray, task_hat: np.ndarray, Y: np.ndarray, rows: list, columns: list
) -> np.ndarray:
    """Solve (I − H_mm) f = H_mo y_o with H = H_g ⊗ H_k written out."""
    H = np.kron(task_hat, hat)
    is_missing = np.zeros(Y.shape, dtype=bool)
    is_missing[np.ix_(rows, columns)] = True
    missing = is_missing.ravel(order="F")
    labels = Y.ravel(order="F").copy()
    system = np.eye(missing.sum()) - H[np.ix_(missing, missing)]
    labels[missing] = np.linalg.solve(system, H[np.ix_(missing, ~missing)] @ labels[~missing])
    return labels.reshape(Y.shape, order="F")


def exact(
    K: np.ndarray,
    G: np.ndarray,
    Y: np.ndarray,
    rows: list,
    columns: list,
    alpha: float,
    task_alpha: float,
):
    """Do the same in 50 digits, from the kernels."""
    with mpmath.workdps(50):
        hats = [
            mpmath.matrix(M.tolist())
            * (mpmath.matrix(M.tolist()) + mpmath.mpf(a) * mpmath.eye(len(M))) ** -1
            for M, a in ((K, alpha), (G, task_alpha))
        ]
        cells = [(int(i), int(j)) for i in rows for j in columns]
        others = [(i, j) for i in range(len(K)) for j in range(len(G)) if (i, j) not in set(cells)]
        system = mpmath.eye(len(cells))
        right = mpmath.matrix(len(cells), 1)
        for a, (i, j) in enumerate(cells):
            for b, (row, task) in enumerate(cells):
                system[a, b] -= hats[0][i, row] * hats[1][j, task]
            right[a] = mpmath.fsum(
                hats[0][i, row] * hats[1][j, task] * mpmath.mpf(Y[row, task])
                for row, task in others
            )
        solution = mpmath.lu_solve(system, right)
        result = Y.copy()
        for a, (i, j) in enumerate(cells):
            result[i, j] = float(solution[a])
    return result


@over(covering(**blocks, **ranks, alpha=LAMBDAS, task_alpha=LAMBDAS))
def test_every_digit_at_both_ends(block, rank, alpha, task_alpha):
    shape, rows, columns = block
    K, G, Y = make_sides(shape, rank)
    found = complete_block(smoother(K, alpha), smoother(G, task_alpha), Y, rows, columns)
    expected = exact(K, G, Y, rows, columns, alpha, task_alpha)
    inside = np.ix_(rows, columns)
    # What a null space fits with next to no regularisation is known up to rounding over λ, whoever
    # computes it.
    slack = min(1.0, max(alpha, task_alpha)) if rank == "singular" else 1.0
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
    K, G, Y = make_sides(shape, "full")
    sides = [
        Spectrum.from_gram(K).smoother(filter, 5.0),
        Spectrum.from_gram(G).smoother(filter, 4.5),
    ]
    expected = dense(sides[0].hat(), sides[1].hat(), Y, rows, columns)
    assert_allclose(complete_block(*sides, Y, rows, columns), expected, rtol=0, atol=1e-11)








def test_no_regularisation_is_a_limit():
    K, G, Y = make_sides((6, 5), "full")
    rows = [0, 4, 2]
    columns = [3, 1]
    for alpha, task_alpha in ((0.0, 0.0), (0.0, 0.5), (0.5, 0.0)):
        side = smoother(K, alpha)
        tasks = smoother(G, task_alpha)
        near = [value or 1e-20 for value in (alpha, task_alpha)]
        expected = exact(K, G, Y, rows, columns, *near)
        assert_allclose(complete_block(side, tasks, Y, rows, columns), expected, rtol=0, atol=1e-11)


def test_labels_that_nothing_predicts_are_refused():
    K, G, Y = make_sides((6, 5), "singular")
    side = smoother(K, 0.0)
    tasks = smoother(G, 0.0)
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
    K, G, Y = make_sides(shape, "full")
    expected = complete_block(smoother(K, 0.5), smoother(G, 0.2), Y, rows, columns)
    side = smoother(library.asarray(K), 0.5)
    tasks = smoother(library.asarray(G), 0.2)
    labels = library.asarray(Y)
    found = complete_block(side, tasks, labels, rows, columns)
    assert type(found) is type(labels)
    assert found.dtype == namespace(found).float64
    assert_allclose(library.to_numpy(found), expected, rtol=0, atol=10 * library.rtol)


def test_nothing_in_the_block_is_looked_at_and_nothing_is_overwritten():
    shape, rows, columns = BLOCKS["block"]
    K, G, Y = make_sides(shape, "full")
    holes = Y.copy()
    holes[np.ix_(rows, columns)] = np.nan
    before = holes.copy()
    side = smoother(K, 0.5)
    tasks = smoother(G, 0.2)
    assert_array_equal(
        complete_block(side, tasks, holes, rows, columns),
        complete_block(side, tasks, Y, rows, columns),
    )
    assert_array_equal(holes, before)
