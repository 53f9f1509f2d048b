"""Independent tasks with missing labels, and blocks of missing labels, against refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fifty_digits
import problems as grids
from dyadlearn._array import namespace
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.solve.columns import (
    complete_block,
    complete_columns,
    leave_one_out_columns,
    loses_digits,
)
from dyadlearn.spectrum import Spectrum
from problems import PATTERNS, SHAPES, posed
from references import fitted, left_out, reference
from sweeps import covering, every, over

KINDS = ["full", "singular", "primal", "thin", "sparse"]
weightings = {"weighted": {"plain": False, "weighted": True}}


def make_problem(kind, shape, pattern, weighted):
    """Return the spectrum, its kernel, labels with holes, and weights or None."""
    rng = np.random.default_rng([*shape, 3])
    features = grids.features(kind, shape[0], rng)
    Y = rng.normal(size=shape)
    Y[~grids.pattern(pattern, shape, rng)] = np.nan
    weights = rng.uniform(0.2, 4.0, size=shape) if weighted else None
    if weighted:
        weights[np.isnan(Y)] = np.nan  # which nobody reads
    return grids.spectrum(kind, features), features @ features.T, Y, weights


def refits(K, Y, weights, alpha):
    """Return the predictions of refits: for all rows, and for each observed one without its label."""
    model = reference("independent", (K, K), (alpha, alpha), Y, weights)
    everywhere = fitted(model)
    return everywhere, np.where(np.isnan(Y), everywhere, left_out(model, "A", where=~np.isnan(Y)))


@over(
    covering(
        **weightings,
        kind=KINDS,
        shape=SHAPES,
        pattern=PATTERNS[1:],
        alpha=[1e-6, 0.4, 1e6],
        # A singular kernel plus little of the identity loses digits, whoever computes it.
        where=lambda kind, alpha, **_: kind == "full" or alpha > 0.1,
    )
)
def test_columns_are_those_of_refits(kind, shape, pattern, weighted, alpha):
    spectrum, K, Y, weights = make_problem(kind, shape, pattern, weighted)
    side = spectrum.smoother(Tikhonov(), alpha)
    observed = ~np.isnan(Y)
    labels = complete_columns(side, Y, weights)
    expected, held_out = refits(K, Y, weights, alpha)
    grids.close(side.hat() @ labels, expected, 1e-9)
    grids.close(np.where(observed, expected, labels), expected, 1e-9)
    if not weighted:
        assert_allclose(labels[observed], Y[observed], rtol=1e-12)
    if shape[0] > 1:
        grids.close(leave_one_out_columns(side, Y, weights), held_out, 1e-8)


# --- other filters: the penalty built from all rows stays as it is -----------------------------------------


FILTERS = [SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(4)]


@over(covering(kind=KINDS, filter=FILTERS, n_missing=[0, 1, 4]))
def test_other_filters_fill_in_what_they_would_predict(filter, n_missing, kind):
    spectrum, K, Y, _ = make_problem(kind, (8, 4), "none missing", False)
    for j in range(4):
        Y[np.random.default_rng(j).permutation(8)[:n_missing], j] = np.nan
    alpha = 1.5 if isinstance(filter, SpectralCutoff) else 0.55
    side = spectrum.smoother(filter, alpha)
    model = reference("independent", (K, K), (alpha, alpha), Y, filters=(filter, filter))
    observed = ~np.isnan(Y)
    expected = fitted(model)
    grids.close(complete_columns(side, Y)[~observed], expected[~observed], 1e-9)
    held_out = leave_one_out_columns(side, Y)
    some = observed & (np.add.outer(np.arange(8), np.arange(4)) % 3 == 0)
    grids.close(held_out[some], left_out(model, "A", where=some)[some], 1e-8)
    grids.close(held_out[~observed], expected[~observed], 1e-8)


@over(every(kind=KINDS, seed=[0]))
def test_rows_that_the_model_interpolates_are_refused(kind, seed):
    """Fewer labels than directions that are kept whole say nothing of the other rows."""
    rng = np.random.default_rng(seed)
    spectrum = grids.spectrum(kind, grids.features(kind, 9, rng))
    side = spectrum.smoother(SpectralCutoff(), 0.2)
    kept = int(np.sum(side.shrinkage))
    Y = np.full((9, 1), np.nan)
    Y[rng.permutation(9)[: kept - 1], 0] = 1.0
    with pytest.raises(LeverageError, match="leverage 1"):
        complete_columns(side, Y)
    Y[np.flatnonzero(np.isnan(Y[:, 0]))[0]] = 1.0
    # As many labels as directions determine them, but none of them can be left out.
    with pytest.raises(LeverageError, match="leverage 1"):
        leave_one_out_columns(side, Y)


@over(covering(filter=[Tikhonov(), IteratedTikhonov(2)], pattern=PATTERNS[1::2]))
def test_without_regularisation_the_limit_is_taken(filter, pattern):
    """At λ = 0 with full rank every label is kept, and what is predicted is what small λ comes to."""
    spectrum, K, Y, weights = make_problem("full", (7, 3), pattern, True)
    side = spectrum.smoother(filter, 0.0)
    kernel = np.linalg.matrix_power(K, getattr(filter, "n_iter", 1))
    expected, held_out = refits(kernel, Y, None, 1e-13)
    observed = ~np.isnan(Y)
    for given in (None, weights):
        labels = complete_columns(side, Y, given)
        assert_allclose(labels[observed], Y[observed], rtol=1e-9)
        grids.close(labels, expected, 1e-9)
        grids.close(leave_one_out_columns(side, Y, given), held_out, 1e-9)


def test_missing_rows_that_only_together_are_interpolated_are_refused():
    """Eigenvalues of a block are rounding there, not exactly zero; on a flat spectrum that is easily overlooked."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(9, 7)))[0]
        side = Spectrum.from_gram(basis @ basis.T).smoother(Tikhonov(), 0.0)
        Y = rng.normal(size=(9, 1))
        Y[rng.permutation(9)[:3]] = np.nan
        for solve in (complete_columns, leave_one_out_columns):
            with pytest.raises(LeverageError, match="leverage 1"):
                solve(side, Y)


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


def make_features(n, rank, seed):
    """Return features of small whole numbers, so that their kernel is exact, well-conditioned or singular."""
    rng = np.random.default_rng(seed)
    if rank == "full":
        return np.column_stack([rng.integers(-1, 2, size=(n, 3)), 2 * np.eye(n)])
    size = max(1, n - 2)
    return np.vstack([np.eye(size), rng.integers(-1, 2, size=(n - size, size))]).astype(float)


def make_sides(shape, rank):
    """Return features of both sides and labels."""
    X, T = (make_features(n, rank, seed) for seed, n in enumerate(shape))
    return X, T, np.random.default_rng(2).integers(-4, 5, size=shape).astype(float)


def smoother(Phi, alpha, rank="full", constant=False):
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


@over(every(reverse=[False, True], seed=range(4)))
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


@over(every(axis=[0, 1], least=[1e-3, 1e-12]))
def test_a_block_loses_digits_where_the_slacks_of_either_side_differ(axis, least):
    """The slack of a missing row is what the others do not say of it; that of a pair joins both."""
    even = Spectrum.from_gram(np.eye(4)).smoother(Tikhonov(), 1e-13)
    uneven = Spectrum.from_gram(np.diag([1.0, 1.0, 1e-3 * least, 1.0])).smoother(Tikhonov(), least)
    sides = (uneven, even) if axis == 0 else (even, uneven)
    missing = np.array([1, 2])
    assert loses_digits(*sides, missing, missing) == (least == 1e-12)
