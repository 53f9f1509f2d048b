"""Compare the closed forms of rows, columns and both of a nearly complete grid with refits and blocks of labels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import KroneckerRidge, PairKernelRidge
from dyadlearn._array import solve_positive
from dyadlearn._codes import is_same_partition, unit_sizes
from dyadlearn.pairing.base import operators_of
from dyadlearn.pairing.inverses import routes
from dyadlearn.settings import Setting
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.solve.nearly_complete import blocks_work, lines_left_out, lines_work

PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed"}
SHARES = {"product": 0.5, "per_task": 0.3, "per_instance": 0.2}


def kernel(rng, n, rank):
    """Return a kernel (n, n): a Gaussian one, or one of few features, which is singular."""
    features = rng.normal(size=(n, rank or 3))
    if rank:
        return features @ features.T
    return np.exp(-0.3 * ((features[:, None] - features) ** 2).sum(2))


class Case:
    """A nearly complete grid, a model fitted to it, and refits with dense matrices."""

    def __init__(self, seed, shape, missing, alpha, free_mean=False, shares=None, ranks=(0, 0)):
        rng = np.random.default_rng(seed)
        K, G = (kernel(rng, n, rank) for n, rank in zip(shape, ranks, strict=True))
        self.Y = rng.normal(size=shape) + 2.0
        if isinstance(missing, int):
            hidden = rng.choice(self.Y.size, missing, replace=False)
        else:
            hidden = missing
        self.Y.flat[hidden] = np.nan
        options = {**PRECOMPUTED, "fit_intercept": free_mean}
        if shares:
            self.model = PairKernelRidge(alpha, **shares, **options)
        else:
            self.model = KroneckerRidge(alpha, **options)
        self.model.fit(K, self.Y, tasks=G)
        self.labels = self.model.fitted_.problem.labels
        self.pairing = self.model.fitted_.problem.pairing
        self.observed = np.nonzero(~np.isnan(self.Y))
        self.y = self.Y[self.observed]
        self.shift = self.y.mean() if free_mean else 0.0
        self.free_mean = free_mean
        self.alpha = alpha
        rows, columns = np.divmod(np.arange(self.Y.size), shape[1])
        a, b, c = shares.values() if shares else (1.0, 0.0, 0.0)
        left = (K + free_mean)[np.ix_(rows, rows)]
        right = (G + free_mean)[np.ix_(columns, columns)]
        self.kernel = a * left * right + b * left * (columns[:, None] == columns)
        self.kernel += c * (rows[:, None] == rows) * right
        self.scale = np.linalg.eigvalsh(self.kernel)[-1]

    @property
    def inverse(self):
        """The inverse from the operators of the complete grid."""
        return MissingInverse(
            operators_of(self.pairing), self.observed, np.nonzero(np.isnan(self.Y))
        )

    def units(self, setting):
        """Return the units of each label."""
        return {"B": self.observed[:1], "C": self.observed[1:], "D": self.observed}[setting]

    def left_out(self, setting):
        """Return predictions (m, q) of all cells by the closed form."""
        grid = self.inverse.grid_left_out((self.y - self.shift)[:, None], *self.units(setting))
        assert grid is not None
        return grid[:, :, 0] + self.shift

    def refit(self, setting):
        """Return predictions (m, q) of all cells by refits without their row, column or both."""
        expected = np.empty(self.Y.shape)
        known = ~np.isnan(self.Y)
        lines = {
            "B": [(i, None) for i in range(self.Y.shape[0])],
            "C": [(None, j) for j in range(self.Y.shape[1])],
        }
        for i, j in lines.get(setting, list(np.ndindex(self.Y.shape))):
            kept = known.copy()
            asked = np.zeros(self.Y.shape, dtype=bool)
            asked[slice(None) if i is None else i, slice(None) if j is None else j] = True
            if i is not None:
                kept[i] = False
            if j is not None:
                kept[:, j] = False
            expected[asked] = self.prediction(np.flatnonzero(kept), np.flatnonzero(asked))
        return expected

    def prediction(self, kept, asked):
        """Return predictions of some cells by the model of others."""
        system = self.kernel[np.ix_(kept, kept)] + self.alpha * np.eye(kept.size)
        labels = self.Y.flat[kept]
        mean = 0.0
        if self.free_mean:
            ones = np.linalg.solve(system, np.ones(kept.size))
            mean = ones @ labels / ones.sum()
        return self.kernel[np.ix_(asked, kept)] @ np.linalg.solve(system, labels - mean) + mean

    def check(self, setting):
        """Compare the closed form with refits."""
        actual = self.left_out(setting) - self.shift
        expected = self.refit(setting) - self.shift
        # Digits are relative to the predictions, which are small where the regularisation is large.
        digits = max(1e-8, 100 * np.finfo(float).eps * self.scale / self.alpha)
        assert_allclose(actual, expected, rtol=digits, atol=digits * abs(expected).mean())


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Let closed forms be used whatever they cost, unless a test sets another cost."""
    monkeypatch.setattr("dyadlearn.solve.missing_inverse.blocks_work", lambda *given: np.inf)


@pytest.mark.parametrize("setting", ["B", "C", "D"])
@pytest.mark.parametrize("free_mean", [False, True])
@pytest.mark.parametrize("shares", [None, SHARES])
def test_lines_equal_refits(setting, free_mean, shares):
    """Rows, columns and both are left out as by refits, for all cells, with any number of missing labels."""
    for seed, (shape, missing, alpha) in enumerate(
        [
            ((6, 8), 1, 0.1),
            ((8, 6), 2, 1e-3),
            ((7, 9), 30, 1.0),
            ((9, 5), 12, 1e5),
            ((2, 7), 2, 0.1),
            ((7, 2), 1, 30.0),
        ]
    ):
        Case(seed, shape, missing, alpha, free_mean, shares).check(setting)


@pytest.mark.parametrize("setting", ["B", "C", "D"])
@pytest.mark.parametrize("free_mean", [False, True])
@pytest.mark.parametrize("ranks", [(2, 0), (0, 2), (3, 2)])
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1e6])
def test_singular_kernels(setting, free_mean, ranks, alpha):
    """Kernels of few features are singular, on one side or on both."""
    for shape in ((7, 6), (6, 9)):
        Case(3, shape, 4, alpha, free_mean, None, ranks).check(setting)


@pytest.mark.parametrize("setting", ["B", "C", "D"])
def test_many_missing_labels_of_large_systems(setting):
    """Systems of many missing labels are factorised one by one."""
    Case(2, (10, 14), 60, 0.1, True).check(setting)


@pytest.mark.parametrize("setting", ["B", "C", "D"])
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e8])
def test_closed_forms_equal_blocks(setting, alpha, monkeypatch):
    """Both sides of the choice by cost agree, for several columns of labels."""
    case = Case(4, (9, 13), 5, alpha, True)
    labels = np.c_[case.y, case.y**2] - case.shift
    leave = "leave_crossed_out" if setting == "D" else "leave_out"
    closed = getattr(case.inverse, leave)(labels, *case.units(setting))
    monkeypatch.setattr("dyadlearn.solve.missing_inverse.blocks_work", lambda *given: 0.0)
    assert case.inverse.grid_left_out(labels, *case.units(setting)) is None
    blocks = getattr(case.inverse, leave)(labels, *case.units(setting))
    digits = max(1e-8, 100 * np.finfo(float).eps * case.scale / alpha)
    assert_allclose(closed, blocks, rtol=digits, atol=digits * abs(blocks).mean())


def test_predictions_of_zero_are_exact():
    """Predictions from labels of zero are exactly zero, so that they tie."""
    case = Case(5, (8, 7), 3, 1e-3)
    y = np.where(case.observed[0] == 2, case.y, 0.0)[:, None]
    grid = case.inverse.grid_left_out(y, *case.units("B"))
    assert_array_equal(grid[2], 0.0)
    y = np.where((case.observed[0] == 2) | (case.observed[1] == 4), case.y, 0.0)[:, None]
    assert_array_equal(case.inverse.grid_left_out(y, *case.units("D"))[2, 4], 0.0)


def test_other_units_are_left_to_blocks():
    """Groups, pairs, models without regularisation and pairs without other labels have no closed form here."""
    case = Case(6, (6, 7), 3, 0.1)
    labels = case.y[:, None]
    i, j = case.observed
    assert case.inverse.grid_left_out(labels, i // 2) is None
    assert case.inverse.grid_left_out(labels, np.arange(i.size)) is None
    assert case.inverse.grid_left_out(labels, i, j // 2) is None
    assert case.inverse.grid_left_out(labels, 3 * i + 5) is not None
    without_ridge = Case(6, (6, 7), 3, 0.0)
    assert lines_left_out(operators_of(without_ridge.pairing), without_ridge.observed, [i]) is None
    corner = Case(7, (2, 2), [3], 0.1)
    assert corner.inverse.grid_left_out(corner.y[:, None], *corner.observed) is None
    assert_allclose(corner.inverse.leave_crossed_out(corner.y[:, None], *corner.observed)[0], 0.0)


def test_plan_states_the_cost_of_the_cheaper_form():
    """The cost of the route by missing cells is that of the form that is computed."""
    few = Case(8, (12, 15), 1, 0.1)
    many = Case(8, (12, 15), 80, 0.1)
    for case in (few, many):
        u = int(np.isnan(case.Y).sum())
        for setting, axes in (("B", (0,)), ("C", (1,)), ("D", (0, 1))):
            units = case.units(setting)
            given = (case.Y.shape, case.pairing.ranks, u)
            closed = lines_work(*given, axes)
            blocks = blocks_work(*given, [unit_sizes(each) for each in units])
            found = {
                each.name: each
                for each in routes(case.pairing, case.labels, Setting[setting], units)
            }
            assert found["missing"].work == min(closed, blocks)
            if case is few:
                assert closed < 0.7 * blocks
            elif setting != "D":
                assert closed > blocks


@pytest.mark.parametrize("setting", ["B", "C", "D"])
def test_models_use_the_closed_form(setting, monkeypatch):
    """Hold-out of a model never leaves out blocks of labels, and predicts missing labels too."""
    monkeypatch.setattr(Inverse, "leave_out", None)
    monkeypatch.setattr(Inverse, "leave_crossed_out", None)
    case = Case(9, (9, 11), 2, 0.1, True)
    assert_allclose(
        case.model.fitted_.hold_out(Setting[setting]).predictions, case.refit(setting), rtol=1e-8
    )


def test_units_as_codes():
    """Codes may be large or negative."""
    assert_array_equal(unit_sizes(np.array([7, -2, 7])), [1, 2])
    assert_array_equal(unit_sizes(np.array([10**12, 5, 5])), [2, 1])
    assert is_same_partition(np.array([10**12, -5, -5]), np.array([1, 0, 0]))
    assert not is_same_partition(np.array([0, 1, 1]), np.array([0, 1, 2]))
    assert not is_same_partition(np.array([0, 1, 2]), np.array([0, 1, 1]))


def test_positive_systems():
    """Large systems are factorised one by one, and singular ones are refused."""
    rng = np.random.default_rng(0)
    for n in (5, 60):
        factors = rng.normal(size=(3, n, 2 * n))
        systems = factors @ factors.transpose(0, 2, 1)
        right = rng.normal(size=(3, n, 2))
        expected = np.linalg.solve(systems, right)
        assert_allclose(solve_positive(systems.copy(), right), expected, rtol=1e-9)
        with pytest.raises(np.linalg.LinAlgError):
            solve_positive(0.0 * systems, right)
