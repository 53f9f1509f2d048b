"""Compare the closed forms of rows, columns and both of a nearly complete grid with refits and blocks of labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn._array import solve_positive
from dyadlearn.holdout import Problem, plan
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.base import operators_of
from dyadlearn.settings import Setting
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.solve.nearly_complete import lines_left_out
from dyadlearn.spectrum import Spectrum
from references import left_out, reference
from sweeps import covering, every, over

SHARES = (0.5, 0.3, 0.2)
AXES = {"B": (0,), "C": (1,), "D": (0, 1)}


class Case:
    """A nearly complete grid, a pair kernel on it, and its reference."""

    def __init__(
        self, shape, missing, alpha, free_mean=False, shares=(1.0, 0.0, 0.0), ranks=(3, 4)
    ):
        rng = np.random.default_rng(missing)
        a, b, c = shares
        kernels = []
        for n, rank in zip(shape, ranks, strict=True):
            features = rng.normal(size=(n, rank or 3))
            distances = ((features[:, None] - features) ** 2).sum(2)
            kernels.append(features @ features.T if rank else np.exp(-0.3 * distances))
        self.Y = rng.normal(size=shape) + 2.0
        self.Y.flat[rng.choice(self.Y.size, missing, replace=False)] = np.nan
        spectra = [
            Spectrum.from_gram(kernel, constant="feature" if free_mean else None)
            for kernel in kernels
        ]
        self.pairing = PairKernel(*spectra, alpha, shares, free_mean)
        self.problem = Problem.of(self.pairing, self.Y)
        # (aK + cI) ⊗ (G + bI/a) has all terms, and bc/a of the ridge.
        K, G = kernels
        m, q = shape
        left = a * (K + free_mean) + c * np.eye(m) - free_mean
        own = left, G + b / a * np.eye(q)
        self.model = reference(
            "kronecker", own, (alpha - b * c / a, 0.0), self.Y, constant=free_mean
        )
        self.observed = np.nonzero(~np.isnan(self.Y))
        self.y = self.Y[self.observed]
        self.shift = self.y.mean() if free_mean else 0.0
        # Digits are relative to the predictions, which are small where the regularisation is large.
        norms = [np.linalg.norm(kernel + free_mean, 2) for kernel in own]
        self.digits = max(1e-8, 100 * np.finfo(float).eps * norms[0] * norms[1] / (alpha or 1.0))

    @property
    def inverse(self):
        """The inverse from the operators of the complete grid."""
        missing = np.nonzero(np.isnan(self.Y))
        return MissingInverse(operators_of(self.pairing), self.observed, missing)

    def units(self, setting):
        """Return the units of each label."""
        return [self.observed[axis] for axis in AXES[setting]]

    def check(self, setting):
        """Compare the closed form with refits."""
        grid = self.inverse.grid_left_out((self.y - self.shift)[:, None], *self.units(setting))
        self.agree(grid[:, :, 0], setting, self.shift)

    def agree(self, found, setting, shift=0.0):
        """Compare predictions less a shift of a few pairs, in all rows and columns."""
        m, q = self.Y.shape
        some = np.add.outer(np.arange(m), 2 * np.arange(q)) % min(max(m, q), 7) == 0
        expected = left_out(self.model, setting, where=some)[some] - shift
        atol = self.digits * abs(expected).mean()
        assert_allclose(found[some], expected, rtol=self.digits, atol=atol)


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Let closed forms be used whatever they cost, unless a test sets another cost."""
    monkeypatch.setattr("dyadlearn.solve.nearly_complete.blocks_work", lambda *given: np.inf)


GRIDS = [((6, 8), 1), ((8, 6), 2), ((9, 5), 12), ((2, 7), 2)]


@over(
    covering(
        setting="BCD",
        free_mean=[False, True],
        shares=[(1.0, 0.0, 0.0), SHARES],
        grid=[*GRIDS, ((10, 14), 60)],
        ranks=[(0, 0), (0, 2), (3, 2)],
        alpha=[1e-6, 1e-3, 0.2, 1e6],
        where=lambda setting, shares, grid, ranks, alpha, **_: (
            (shares != SHARES or alpha > 0.1)
            and (alpha > 1e-5 or ranks != (0, 0))
            # Systems of many missing labels are factorised one by one.
            and (grid[1] != 60 or (setting == "B" and alpha == 0.2))
        ),
    )
)
def test_lines_equal_refits(setting, free_mean, shares, grid, ranks, alpha):
    """Rows, columns and both are left out as by refits, for all pairs, with any number of missing labels."""
    Case(*grid, alpha, free_mean, shares, ranks).check(setting)


@over(every(setting="BCD", alpha=[1e-6, 1.0, 1e8]))
def test_closed_forms_equal_blocks(setting, alpha, monkeypatch):
    """Both sides of the choice by cost agree, for several columns of labels."""
    case = Case((9, 13), 5, alpha, True)
    labels = np.c_[case.y, case.y**2] - case.shift
    leave = "leave_crossed_out" if setting == "D" else "leave_out"
    closed = getattr(case.inverse, leave)(labels, *case.units(setting))
    monkeypatch.setattr("dyadlearn.solve.nearly_complete.blocks_work", lambda *given: 0.0)
    assert case.inverse.grid_left_out(labels, *case.units(setting)) is None
    blocks = getattr(case.inverse, leave)(labels, *case.units(setting))
    assert_allclose(closed, blocks, rtol=case.digits, atol=case.digits * abs(blocks).mean())


def test_other_units_are_left_to_blocks():
    """Groups, pairs, models without regularisation and pairs without other labels have no closed form here."""
    case = Case((6, 7), 3, 0.1)
    labels = case.y[:, None]
    i, j = case.observed
    assert case.inverse.grid_left_out(labels, i // 2) is None
    assert case.inverse.grid_left_out(labels, np.arange(i.size)) is None
    assert case.inverse.grid_left_out(labels, i, j // 2) is None
    assert case.inverse.grid_left_out(labels, 3 * i + 5) is not None
    without_ridge = Case((6, 7), 3, 0.0, ranks=(0, 0))
    assert lines_left_out(operators_of(without_ridge.pairing), without_ridge.observed, [i]) is None
    corner = Case((2, 2), 1, 0.1)
    corner.Y[:] = [[1.0, 2.0], [3.0, np.nan]]
    corner.observed = np.nonzero(~np.isnan(corner.Y))
    y = corner.Y[corner.observed][:, None]
    assert corner.inverse.grid_left_out(y, *corner.observed) is None
    assert_allclose(corner.inverse.leave_crossed_out(y, *corner.observed)[0], 0.0)


@over(every(setting="BCD"))
def test_models_use_the_closed_form(setting, monkeypatch):
    """Hold-out of a model never leaves out blocks of labels, and predicts missing labels too."""
    monkeypatch.setattr(Inverse, "leave_out", None)
    monkeypatch.setattr(Inverse, "leave_crossed_out", None)
    case = Case((6, 7), 2, 0.1, True)
    case.agree(plan(case.problem, Setting[setting]).held_out(), setting)


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
