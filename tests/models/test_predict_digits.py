"""How many digits of a prediction are right, against 60-digit arithmetic: each side costs ε‖K‖/λ, and these add.

With a constant on each side they are the same, or one fewer.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import cycle

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

import fifty_digits
from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, load, save
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.filters import IteratedTikhonov, SpectralCutoff, Tikhonov
from dyadlearn.pairing import expansion
from sweeps import covering, every, lines, over

# Errors of so many units are let pass; of a digit more where there is a constant.
UNITS = {False: 20, True: 200}
both = {"fit_intercept": [False, True]}
# Rows in one block, and each by itself.
BLOCK_BYTES = cycle([2**27, 1])
ALPHAS = [(1e-10, 1e-10), (1e-7, 1e-3), (1e6, 1e-10)]
PHI = {
    Tikhonov(): lambda s, alpha: 1 / (s + alpha),
    IteratedTikhonov(3): lambda s, alpha: (1 - (alpha / (s + alpha)) ** 3) / s,
    SpectralCutoff(): lambda s, alpha: 1 / s if s >= alpha else mpmath.mpf(0),
}


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


def exact(array):
    return mpmath.matrix(np.asarray(array, dtype=float).tolist())


def to_double(matrix):
    return np.array(matrix.tolist(), dtype=float)


def product(left, middle, right):
    return np.asarray(left.astype(np.longdouble) @ middle @ right, dtype=float)


class Rows:
    """A side: rows of training and new ones as a model gets them, and their exact kernels."""

    def __init__(self, known, new, kernel="precomputed", rank=None):
        self.known = known
        self.new = new
        self.kernel = kernel
        right = exact(known).T if kernel == "linear" else mpmath.eye(len(known))
        self.blocks = {False: exact(known) * right, True: exact(new) * right}
        self.size = max(float(mpmath.mnorm(block, "f")) for block in self.blocks.values())
        self.null = len(known) - (rank or len(known))

    @cache  # noqa: B019
    def spectrum(self, constant):
        """Return eigenvalues, None in null directions, and eigenvectors: with a constant, of the kernel without it."""
        K = self.blocks[False]
        n = len(self.known)
        centring = mpmath.eye(n) - mpmath.ones(n) / n if constant else mpmath.eye(n)
        values, vectors = mpmath.eigsy(centring * K * centring)
        null = self.null + constant
        return [None] * null + list(values)[null:], vectors

    @cache  # noqa: B019
    def predictor(self, new, alpha, filter, constant=False):
        """Return what takes labels to predictions of rows of training, or of new ones: nothing in null directions."""
        values, vectors = self.spectrum(constant)
        phi = [0 if s is None else PHI[filter](s, mpmath.mpf(alpha)) for s in values]
        scaled = mpmath.matrix(
            [[phi[k] * entry for entry in vectors[:, k]] for k in range(len(phi))]
        )
        return to_double(
            self.turned(new, constant) * scaled + constant * mpmath.mpf(1) / len(self.known)
        )

    @cache  # noqa: B019
    def turned(self, new, constant):
        """Return rows, centred where there is a constant, in the basis of the eigenvectors."""
        rows = self.blocks[new]
        n = len(self.known)
        if constant:
            means = mpmath.ones(rows.rows, n) / n
            rows = (rows - means * self.blocks[False]) * (mpmath.eye(n) - mpmath.ones(n) / n)
        return rows * self.spectrum(constant)[1]


@cache
def smooth(n, seed):
    """Return an RBF kernel that is close to singular."""
    rows = 0.01 * np.random.default_rng(seed).normal(size=(n + 3, 3))
    return Rows(rbf_kernel(rows[:n], gamma=0.05), rbf_kernel(rows[n:], rows[:n], gamma=0.05))


@cache
def singular(n, seed):
    """Return a kernel in which two rows are the same."""
    rows = np.random.default_rng(seed).integers(-2, 3, size=(n + 3, n)).astype(float)
    rows[1] = rows[0]
    kernel = rows @ rows[:n].T
    return Rows(kernel[:n], kernel[n:], rank=n - 1)


@cache
def clipped(n, seed):
    """Return an indefinite kernel, and new rows that are not zero where it is negative."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    kernel = (vectors * np.r_[-0.5, 10.0 ** np.arange(-n + 2, 1)]) @ vectors.T
    return Rows((kernel + kernel.T) / 2, rng.normal(size=(3, n)), rank=n - 1)


@cache
def primal(d):
    """Return what makes d features that are close to dependent."""

    @cache
    def make(n, seed):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n + 3, 1)) + 1e-3 * rng.normal(size=(n + 3, d))
        return Rows(rows[:n], rows[n:], "linear")

    return make


# Which side stays out of the coefficients: that with fewer rows of them, unless both are in the
# primal.
SIDES = {
    "fewer tasks": (smooth, 7, smooth, 5),
    "fewer instances": (smooth, 5, smooth, 7),
    "few features": (primal(3), 7, smooth, 5),
    "few task features": (smooth, 5, primal(3), 7),
    "many features": (primal(5), 7, smooth, 4),
    "primal": (primal(3), 7, primal(4), 6),
}


@cache
def sides_of(name):
    make, n, make_tasks, n_tasks = SIDES[name]
    return make(n, 1), make_tasks(n_tasks, 2)


def labels_of(rows, tasks):
    return np.random.default_rng(3).normal(size=(len(rows.known), len(tasks.known)))


def check_digits(model, rows, tasks, Y, eps=2.2e-16, read=np.asarray, given=np.asarray):
    """Compare all predictions of a fitted model with exact ones."""
    filters = (model.filter or Tikhonov(), model.task_filter or Tikhonov())
    if model.symmetry:
        filters = (filters[0], filters[0])
    allowed = (
        UNITS[model.fit_intercept]
        * eps
        * (1 + rows.size / model.alpha + tasks.size / model.task_alpha)
    )
    for new in (False, True):
        left = rows.predictor(new, model.alpha, filters[0], model.fit_intercept)
        X = given(rows.new if new else rows.known)
        for new_tasks in (False, True):
            right = tasks.predictor(new_tasks, model.task_alpha, filters[1], model.fit_intercept)
            expected = product(left, Y, right.T)
            # Labels may cancel; errors are measured by what is added.
            atol = allowed * product(abs(left), abs(Y), abs(right.T)).max()
            T = given(tasks.new) if new_tasks else None
            assert_allclose(read(model.predict(X, tasks=T)), expected, rtol=0, atol=atol)
            if (
                new_tasks and not new
            ):  # the other way round, as where nothing but the spectrum knows the instances
                turned = model.fitted_.expansion.transposed.grid(
                    model.fitted_.columns(T)[1], None
                ).T
                assert_allclose(read(turned), expected, rtol=0, atol=atol)
            some = read(model.predict_pairs(X, T, [(2, 1), (0, 2), (2, 0)]))
            assert_allclose(some, expected[[2, 0, 2], [1, 2, 0]], rtol=0, atol=atol)


def two_step(rows, tasks, alphas, **options):
    return TwoStepRidge(*alphas, kernel=rows.kernel, task_kernel=tasks.kernel, **options)


@over(covering(alphas=ALPHAS, name=list(SIDES), **both))
def test_every_side_costs_its_own_digits(name, alphas, fit_intercept, monkeypatch):
    rows, tasks = sides_of(name)
    Y = labels_of(rows, tasks)
    model = two_step(rows, tasks, alphas, fit_intercept=fit_intercept).fit(
        rows.known, Y, tasks=tasks.known
    )
    monkeypatch.setattr(expansion, "_BLOCK_BYTES", next(BLOCK_BYTES))
    check_digits(model, rows, tasks, Y)


@over(
    covering(
        alpha=[1e-10, 1e-7, 1e-3, 1e6],
        sign=[1, -1],
        make={"dual": smooth, "primal": primal(3)},
        **both,
    )
)
def test_networks(make, sign, alpha, fit_intercept):
    nodes = make(6, 1)
    Y = labels_of(nodes, nodes)
    Y = Y + sign * Y.T
    symmetry = "symmetric" if sign > 0 else "antisymmetric"
    options = {"symmetry": symmetry, "fit_intercept": fit_intercept}
    model = two_step(nodes, nodes, (alpha, alpha), **options).fit(nodes.known, Y)
    check_digits(model, nodes, nodes, Y)


@over(
    covering(
        filters=[(0, 1), (1, 0), (1, 1), (2, 2)], name=["fewer tasks", "few task features"], **both
    )
)
def test_other_filters(name, filters, fit_intercept):
    rows, tasks = sides_of(name)
    Y = labels_of(rows, tasks)
    filter, task_filter = (list(PHI)[place] for place in filters)
    options = {"filter": filter, "task_filter": task_filter, "fit_intercept": fit_intercept}
    model = two_step(rows, tasks, (1e-6, 1e-5), **options)
    check_digits(model.fit(rows.known, Y, tasks=tasks.known), rows, tasks, Y)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.KernelRepairWarning")
@over(
    covering(
        alphas=[(1e-7, 1e-7), (1e-3, 1e-7), (1.0, 1.0)],
        sizes=[(6, 4), (4, 6)],
        make=[singular, clipped],
        **both,
    )
)
def test_null_directions_are_left_out(make, sizes, alphas, fit_intercept):
    if (
        fit_intercept and make is clipped
    ):  # what is clipped is the centred kernel: another direction
        return
    rows = make(sizes[0], 1)
    tasks = make(sizes[1], 2)
    Y = labels_of(rows, tasks)
    model = two_step(rows, tasks, alphas, fit_intercept=fit_intercept).fit(
        rows.known, Y, tasks=tasks.known
    )
    check_digits(model, rows, tasks, Y)


@over(lines("shape", (4, 5), (9, 3)))
def test_a_row_far_from_a_large_constant_column_is_warned_about(shape):
    """The constant feature of the model and a large constant column cannot be told apart: ε c² digits are lost."""
    n, d = shape
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    Z = rng.normal(size=(n + 1, d))
    Y = X[:, :1] + Z[:n, 1] + 5 + 0.1 * rng.normal(size=(5, n))
    for size, is_lost in ((1e3, False), (1e5, False), (1e8, True)):
        tasks = Z.copy()
        tasks[:, 0] = size
        model = KroneckerRidge().fit(X, Y, tasks=tasks[:n])
        model.predict(X, tasks)  # no warning: the new task has the value of the others
        tasks[n, 0] = 0.0
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.predict(X, tasks)
        assert [each.category for each in told] == [PrecisionWarning] * is_lost
        assert all("large and nearly constant in training" in str(each.message) for each in told)


@over(every(**both, sizes=[(1e6, 1e7), (1e7, 1e3)]))
def test_errors_of_features_of_both_sides_add(fit_intercept, sizes, tmp_path):
    """A large direction of each side, which no column shows: each costs digits of its own, and not of the other."""
    rng = np.random.default_rng(2)
    sides = []
    for n, d, size in ((8, 4, sizes[0]), (7, 3, sizes[1])):
        turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
        sides.append((rng.normal(size=(n, d)) * [*[1.0] * (d - 1), size]) @ turned)
    (X, new), (T, new_tasks) = ((side[:-3], side[-3:]) for side in sides)
    Y = rng.normal(size=(5, 4))
    model = TwoStepRidge(0.5, 0.1, fit_intercept=fit_intercept).fit(X, Y, tasks=T)
    weights = np.ones(Y.shape)
    expected = fifty_digits.two_step(X, T, Y, weights, (0.5, 0.1), (new, new_tasks), fit_intercept)
    atol = 20 * np.finfo(float).eps * max(sizes) * np.abs(expected).max()
    assert_allclose(model.predict(new, new_tasks), expected, rtol=0, atol=atol)
    save(model, tmp_path / "model.h5")
    assert_array_equal(
        load(tmp_path / "model.h5").predict(new, new_tasks), model.predict(new, new_tasks)
    )


def predicted_by_kernel(K, block, y, alpha):
    """Return predictions of kernel ridge regression with a free mean."""
    n = len(y)
    ones = mpmath.ones(n, 1)
    centre = mpmath.eye(n) - ones * ones.T / n
    kernel = exact(K)
    labels = exact(y[:, None])
    rows = (exact(block) - mpmath.ones(len(block), 1) * (ones.T * kernel / n)) * centre
    dual = mpmath.inverse(centre * kernel * centre + alpha * mpmath.eye(n)) * (centre * labels)
    return to_double(rows * dual)[:, 0] + float((ones.T * labels / n)[0])


@over(lines("n gamma alpha", (4, 3e-4, 1e-6), (5, 3e-4, 5e-8), (6, 3e-3, 1e-7)))
def test_small_eigenvalues_beside_a_large_common_part_count_for_a_larger_ridge(n, gamma, alpha):
    """They are smaller than what centring leaves of the common part, but the ridge is not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n + 3, 1))
    K = rbf_kernel(rows, gamma=gamma)
    y = rng.normal(size=n)
    model = IndependentTaskRidge(alpha, kernel="precomputed", fit_intercept=True).fit(
        K[:n, :n], y[:, None]
    )
    expected = predicted_by_kernel(K[:n, :n], K[n:, :n], y, alpha)
    assert_allclose(model.predict(K[n:, :n])[:, 0], expected, rtol=0, atol=20 * n * 2.2e-16 / alpha)


@pytest.mark.parametrize("n", [5, 9, 14])
def test_rounding_of_a_large_common_part_is_warned_about(n):
    rng = np.random.default_rng(n)
    rows = 50.0 + rng.normal(size=(n, 1))
    K = (rows @ rows.T + 1.0) ** 3
    with pytest.warns(PrecisionWarning, match="small beside the largest eigenvalue"):
        IndependentTaskRidge(5e-5, kernel="precomputed", fit_intercept=True).fit(
            K, rng.normal(size=(n, 1))
        )
