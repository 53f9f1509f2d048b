"""Rows that the model interpolates, and what is left at alpha = 0."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.sparse import csr_array

import problems
from dyadlearn import TwoStepRidge
from dyadlearn.exceptions import LeverageError, PrecisionWarning
from dyadlearn.filters import SpectralCutoff
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.spectrum import Spectrum
from problems import posed
from sweeps import covering, every, lines, over

PAIRED = ["two_step", "kronecker"]


@pytest.fixture
def lonely():
    """Give a singular kernel whose rows 1 and 3 have leverage 1 at alpha = 0: no other row is like them."""
    shared = np.array([[1.0, 0.5], [1.0, -0.5], [1.0, 0.2], [1.0, 0.9]])
    order = [2, 0, 3, 1, 4, 5]
    K = block_diag(np.diag([2.0, 3.0]), shared @ shared.T)[np.ix_(order, order)]
    assert np.linalg.matrix_rank(K) == 4
    return Spectrum.from_gram(K)


def as_primal(spectrum):
    return Spectrum.from_features((spectrum.vectors * spectrum.values**0.5)[:, spectrum.values > 0])


@over(every(primal=[False, True], method=["independent", *PAIRED]))
def test_rows_of_leverage_one_are_named(lonely, method, primal):
    spectrum = as_primal(lonely) if primal else lonely
    tasks = Spectrum.from_gram(problems.gram(4, 4, default_rng(0)))
    problem = posed(method, np.ones((6, 4)), spectrum, 0.0, tasks, 0.5)
    for setting in "AB" if method == "independent" else "BD":
        with pytest.raises(LeverageError, match=r"\b1, 3\b"):
            holdout(problem, setting)
    with pytest.raises(LeverageError, match=r"positions 1, 2\b"):
        holdout(problem, "B", groups=[0, 1, 1, 2, 2, 2])
    if method == "independent":
        return
    alpha = 0.0 if method == "kronecker" else 0.5
    swapped = posed(method, np.ones((4, 6)), tasks, alpha, spectrum, 0.0)
    for setting in "CD":
        with pytest.raises(LeverageError, match=r"\b1, 3\b"):
            holdout(swapped, setting)


@over(every(primal=[False, True]))
def test_cells_of_leverage_one_are_refused(lonely, primal):
    spectrum = as_primal(lonely) if primal else lonely
    tasks = Spectrum.from_gram(problems.gram(4, 4, default_rng(0)))
    cells = default_rng(0).integers(0, 5, size=(6, 4))
    for method, sides in (("two_step", (spectrum, lonely)), ("kronecker", (spectrum, tasks))):
        problem = posed(method, np.ones((6, sides[1].n_rows)), sides[0], 0.0, sides[1], 0.0)
        with pytest.raises(LeverageError, match="leverage 1"):
            holdout(problem, "A")
    problem = posed("kronecker", np.ones((6, 4)), spectrum, 0.0, tasks)
    with pytest.raises(LeverageError, match="leverage 1"):
        holdout(problem, "A", cells=cells)


@over(every(setting="ABCD"))
def test_vertices_of_leverage_one_are_refused(lonely, setting):
    labels = default_rng(0).normal(size=(6, 6))
    problem = posed("network", labels + labels.T, lonely, 0.0, lonely, 0.0)
    with pytest.raises(LeverageError, match="leverage 1"):
        holdout(problem, setting)


def test_an_interpolating_cut_off_is_refused():
    rng = default_rng(1)
    spectrum, tasks = (Spectrum.from_gram(problems.gram(n, n, rng)) for n in (6, 4))
    filters = {"filter": SpectralCutoff(), "task_filter": SpectralCutoff()}
    Y = rng.normal(size=(6, 4))
    with pytest.raises(LeverageError, match="6 of 6 .*0, 1, 2, 3, 4, 5"):
        holdout(posed("independent", Y, spectrum, 1e-3, filter=SpectralCutoff()), "B")
    problem = posed("two_step", Y, spectrum, 1e-3, tasks, 1e-3, **filters)
    for setting in "ABCD":
        with pytest.raises(LeverageError, match="leverage 1"):
            holdout(problem, setting)
    # Half of the directions are cut: nothing is interpolated any more.
    assert np.isfinite(holdout(problem.at(1.0, 1.0), "D")).all()


def rows_with_their_own_features(rng):
    """Return features (n, d) of which one or two rows share nothing with the others, which are dependent."""
    n = int(rng.integers(5, 9))
    k = int(rng.integers(1, 3))
    order = rng.permutation(n)
    rank = n - k - 2
    features = np.zeros((n, k + rank))
    features[order[:k], :k] = np.diag(rng.uniform(0.5, 3.0, k))
    features[order[k:], k:] = rng.normal(size=(n - k, rank))
    return features @ np.linalg.qr(rng.normal(size=(k + rank, k + rank)))[0]


@over(
    lines(
        "method setting",
        *[("independent", "B"), *((method, setting) for method in PAIRED for setting in "ABD")],
    )
)
@over(every(grouped=[False, True], primal=[False, True]))
def test_leverage_one_is_never_answered_by_noise(method, setting, primal, grouped):
    """Whatever rounding makes of a slack of zero: it is refused, or right."""
    refused = 0
    for seed in range(4):
        rng = default_rng(seed)
        features = rows_with_their_own_features(rng)
        n = len(features)
        q = int(rng.integers(3, 8))
        if primal:
            spectrum = Spectrum.from_features(features)
        else:
            spectrum = Spectrum.from_gram(features @ features.T)
        if method == "independent":
            tasks = None
        else:
            tasks = Spectrum.from_gram(problems.gram(q, q, rng))
        # A task side that is not interpolated leaves slack in every cell.
        task_alpha = 0.0 if setting == "A" else 0.5
        problem = posed(method, rng.normal(size=(n, q)), spectrum, 0.0, tasks, task_alpha)
        labels = {"groups": np.arange(n) // 2} if grouped and setting in "BD" else {}
        if grouped and setting == "A":
            labels = {"cells": rng.integers(0, n * q // 4, size=(n, q))}
        try:
            found = holdout(problem, setting, **labels)
        except LeverageError:
            refused += 1
        else:
            assert problems.error(found, refit(problem, setting, **labels)) < 1e-6, seed
    assert refused > 0


# ---- alpha = 0 where the limit exists


@over(
    covering(
        kinds=[("singular", "singular"), ("primal", "primal"), ("full", "singular")],
        setting="ABCD",
        method=PAIRED,
    )
)
def test_singular_kernels_without_leverage_one_are_least_squares(method, setting, kinds):
    """A null space that every row shares leaves each row to be predicted, by least squares of least norm."""
    problem = problems.problem(method, kinds=kinds, alpha=0.0, task_alpha=0.0)
    assert problems.error(holdout(problem, setting), refit(problem, setting)) <= 1e-8


# ---- blocks that are singular though no single row is


def twins(rng, n):
    """Return features (n, n + 1) of which the first rows are alike, in pairs."""
    features = rng.normal(size=(n, n + 1))
    features[1] = features[0]
    features[3] = features[2]
    return features


@over(every(method=["independent", *PAIRED]))
def test_groups_of_a_singular_kernel_are_refused_or_right(method):
    """Eigenvalues of a block are known less well than slacks: noise of 1e-16 is no slack of 1e-16."""
    outcomes = []
    for seed in range(12):
        rng = default_rng(seed)
        n = int(rng.integers(4, 8))
        features = twins(rng, n) if seed % 3 == 0 else rng.normal(size=(n, n // 2))
        if seed % 3 == 0:
            groups = [0, 0, *range(1, n - 1)]
        else:
            groups = np.arange(n) >= seed % 2 + 1
        tasks = None if method == "independent" else Spectrum.from_gram(np.eye(3) + 0.2)
        problem = posed(
            method,
            rng.normal(size=(n, 3)),
            Spectrum.from_gram(features @ features.T),
            0.0,
            tasks,
            0.3,
        )
        try:
            found = holdout(problem, "B", groups=groups)
        except LeverageError:
            outcomes.append("refused")
        else:
            assert_allclose(found, refit(problem, "B", groups=groups), rtol=1e-5, atol=1e-5)
            outcomes.append("right")
    assert set(outcomes) == {"refused", "right"}


@over(every(alpha=[0.0, 1e-12, 1e-6]))
def test_twins_in_a_network_are_refused_or_right(alpha):
    """Each may be left out alone, and both together are interpolated: r² takes all of the slack."""
    outcomes = set()
    for seed in range(2):
        rng = default_rng(seed)
        for features in (twins(rng, 5), rng.normal(size=(5, 3)), rng.normal(size=(5, 5))):
            for spectrum in (
                Spectrum.from_gram(features @ features.T),
                Spectrum.from_features(features),
            ):
                labels = rng.normal(size=(5, 5))
                problem = posed("network", labels + labels.T, spectrum, alpha, spectrum, alpha)
                try:
                    # The slack of rows of their own is about 1e-13.
                    with warnings.catch_warnings(action="ignore" if alpha == 1e-12 else "error"):
                        found = holdout(problem, "D")
                except LeverageError:
                    outcomes.add("refused")
                else:
                    tolerance = 1e-6 if alpha != 1e-12 else 0.1
                    some = np.add.outer(np.arange(5), np.arange(5)) % 3 == 0
                    assert (
                        problems.error(found[some], refit(problem, "D", where=some)[some])
                        < tolerance
                    )
                    outcomes.add("right")
    assert outcomes == ({"refused", "right"} if alpha == 0 else {"right"})


@over(every(empty=[0, 1], alpha=[0.0, 0.1]))
def test_a_side_of_zeros_predicts_zeros(empty, alpha):
    """In the primal such a side has no direction at all."""
    features = [np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0]])]
    features[empty] = np.zeros((3, 1))
    for method in PAIRED:
        sides = [Spectrum.from_features(side) for side in features]
        problem = posed(method, np.ones((3, 3)), sides[0], alpha, sides[1], 0.1)
        for setting in "ABCD":
            groups = {"groups": [0, 0, 1]} if setting in "BD" else {}
            for given in ({}, groups):
                assert_allclose(holdout(problem, setting, **given), np.zeros((3, 3)))


def test_cells_beside_a_missing_block_are_refused_or_right():
    """Without regularisation, of singular kernels: by a dense least-squares fit of all that is left."""
    outcomes = set()
    for seed in range(10, 20):
        rng = default_rng(seed)
        features, task_features = (rng.integers(-2, 3, size=(5, 3)).astype(float) for _ in range(2))
        Y = rng.normal(size=(5, 5))
        Y[:2, :2] = np.nan
        sides = [Spectrum.from_gram(side @ side.T) for side in (features, task_features)]
        pairs = np.kron(features, task_features)
        seen = np.flatnonzero(~np.isnan(Y).ravel())
        rank = np.linalg.matrix_rank(pairs)
        determined = all(
            np.linalg.matrix_rank(pairs[np.delete(seen, c)], tol=1e-8) == rank
            for c in range(seen.size)
        )
        try:
            found = holdout(posed("two_step", Y, sides[0], 0.0, sides[1], 0.0), "A")
        except LeverageError:
            assert not determined
            outcomes.add("refused")
            continue
        assert determined
        for c in seen:
            rest = seen[seen != c]
            expected = pairs[c] @ np.linalg.lstsq(pairs[rest], Y.ravel()[rest], rcond=1e-10)[0]
            assert_allclose(found.ravel()[c], expected, atol=1e-7)
        outcomes.add("right")
    assert outcomes == {"refused", "right"}


@over(every(setting="BC", alpha=[1e-14, 1e-6], sparse=[False, True]))
def test_digits_that_are_lost_near_leverage_one_are_counted(setting, alpha, sparse):
    """One row alone has a feature of size one: its slack is about α, and its residual is rounded."""
    rng = default_rng(0)
    features = np.column_stack([np.eye(8)[0], 1e-3 * rng.normal(size=(8, 2))])
    side = Spectrum.from_features(csr_array(features) if sparse else features)
    other = Spectrum.from_features(rng.normal(size=(6, 2)))
    sides = (side, alpha, other, 1.0) if setting == "B" else (other, 1.0, side, alpha)
    problem = posed("two_step", rng.normal(size=(8, 6) if setting == "B" else (6, 8)), *sides)
    if alpha < 1e-9:
        with pytest.warns(PrecisionWarning, match="rounding leaves 1 accurate digits"):
            holdout(problem, setting)
    else:
        holdout(problem, setting)


def is_determined(kept, seen):
    """Return whether labels at some cells determine a function of the kept directions, by the rank of their values."""
    vectors, task_vectors = kept
    values = np.einsum("ia,jb->ijab", vectors, task_vectors).reshape(*seen.shape, -1)[seen]
    return np.linalg.matrix_rank(values, tol=1e-8) == values.shape[1]


def kept_by_cut_off(kernel, fit_intercept):
    """Return the alpha that keeps the first direction of a kernel, and this direction, beside the constant."""
    n = len(kernel)
    centre = np.eye(n) - fit_intercept / n
    values, vectors = np.linalg.eigh(centre @ kernel @ centre)
    constant = np.ones((n, int(fit_intercept)))
    return values[-1] * (1 - 1e-6), np.hstack(
        [vectors[:, values > values[-1] * (1 - 1e-6)], constant]
    )


@over(every(seed=range(0, 30, 2), symmetry=[None, "symmetric"], fit_intercept=[False, True]))
def test_labels_that_cut_offs_need_are_refused_where_others_are_missing(
    seed, symmetry, fit_intercept
):
    """Labels that determine a direction alone have leverage 1, and the rounding of differences does not hide it."""
    rng = default_rng(seed)
    m, q = rng.integers(2, 5, size=2)
    q = m if symmetry else q
    factors = [rng.integers(-1, 2, size=(n, n)).astype(float) for n in (m, q)]
    K, G = (factor @ factor.T + np.eye(len(factor)) for factor in factors)
    seen = rng.random((m, q)) < 0.8
    Y = rng.normal(size=(m, q))
    if symmetry:
        G = K
        seen = seen & seen.T
        Y = Y + Y.T
    (alpha, first), (task_alpha, second) = (
        kept_by_cut_off(kernel, fit_intercept) for kernel in (K, G)
    )
    kept = (first, second)
    if seen.all() or np.count_nonzero(seen) < 3 or not is_determined(kept, seen):
        return
    params = {"filter": SpectralCutoff(), "kernel": "precomputed", "fit_intercept": fit_intercept}
    if symmetry:
        model = TwoStepRidge(alpha, alpha, symmetry=symmetry, **params).fit(
            K, np.where(seen, Y, np.nan)
        )
    else:
        params |= {"task_filter": SpectralCutoff(), "task_kernel": "precomputed"}
        model = TwoStepRidge(alpha, task_alpha, **params).fit(K, np.where(seen, Y, np.nan), G)
    is_needed = []
    for i, j in np.argwhere(seen):
        rest = seen.copy()
        rest[i, j] = False
        if symmetry:
            rest[j, i] = False
        is_needed.append(not is_determined(kept, rest))
    if any(is_needed):
        with pytest.raises(LeverageError):
            model.holdout("A")
    else:
        assert np.isfinite(model.holdout("A")).all()


@over(every(kernel=["rbf", "precomputed"], fit_intercept=[False, True], seed=range(3)))
def test_missing_labels_of_repeated_rows_are_completed_without_regularisation(
    kernel, fit_intercept, seed
):
    """Repeated rows have equal predictions, although rounding tells their kernels apart."""
    rng = default_rng(seed)
    rows = rng.normal(size=(3, 8))
    tasks = rng.normal(size=(3, 8))
    repeated = np.array([0, 1, 2, 2, 1, 0, 0])
    X = rows[repeated[:5]]
    T = tasks[repeated]
    params = {"kernel": kernel, "task_kernel": kernel}
    if kernel == "rbf":
        params |= {"kernel_params": {"gamma": 0.3}, "task_kernel_params": {"gamma": 1.0}}
    else:
        # A common part, of which the rounding remains where the kernel is centred.
        X, T = (100.0 + side[:, :3] @ side[:, :3].T for side in (X, T))
    values = rng.normal(size=(3, 3))
    Y = values[np.ix_(repeated[:5], repeated)]
    seen = np.zeros((5, 7), dtype=bool)
    seen[np.ix_([0, 1, 2], [0, 1, 3])] = True
    seen[4, 5] = True
    model = TwoStepRidge(0.0, 0.0, fit_intercept=fit_intercept, tol=1e-12, **params)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", PrecisionWarning
        )  # a singular kernel without regularisation
        model.fit(X, np.where(seen, Y, np.nan), T)
    assert_allclose(model.predict(X), Y, rtol=0, atol=1e-6)
