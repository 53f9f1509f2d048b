"""Compare one leave-out of each inverse with refits, in all settings."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.exceptions import LeverageError, NothingLeftError, PrecisionWarning
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing.base import operators_of
from dyadlearn.solve.factor_inverse import FactorInverse, FeatureInverse
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.spectrum import Spectrum

SHARES = {"product": 0.5, "per_task": 0.3, "per_instance": 0.2}


class Case:
    """A grid with missing labels, its pairwise kernel over the observed cells, and refits with dense matrices."""

    def __init__(self, seed, shares, free_mean, alpha, missing=0.3, weighted=False):
        rng = np.random.default_rng(seed)
        m, q = rng.integers(4, 9, 2)
        sides = [rng.normal(size=(n, 3)) for n in (m, q)]
        K, G = (np.exp(-0.3 * ((side[:, None] - side) ** 2).sum(2)) for side in sides)
        self.Y = rng.normal(size=(m, q)) + 2.0
        self.Y[rng.random((m, q)) < missing] = np.nan
        self.i, self.j = np.nonzero(~np.isnan(self.Y))
        self.y = self.Y[self.i, self.j]
        self.alpha = alpha
        self.free_mean = free_mean
        if weighted:
            weights = rng.uniform(0.1, 1.0, self.y.size)
        else:
            weights = np.ones(self.y.size)
        self.ridges = alpha / weights
        constants = {
            "kernel": "precomputed",
            "task_kernel": "precomputed",
            "fit_intercept": free_mean,
        }
        if shares:
            model = PairKernelRidge(alpha, **shares, **constants)
        else:
            model = KroneckerRidge(alpha, **constants)
        self.operators = operators_of(model.fit(K, self.Y, tasks=G).fitted_.problem.pairing)
        a, b, c = shares.values() if shares else (1.0, 0.0, 0.0)
        left = (K + free_mean)[np.ix_(self.i, self.i)]
        right = (G + free_mean)[np.ix_(self.j, self.j)]
        same = self.i[:, None] == self.i
        same_task = self.j[:, None] == self.j
        self.kernel = a * left * right + b * left * same_task + c * same * right

    def refit(self, left_out, asked):
        """Return the prediction of one label by the model without some labels."""
        kept = np.setdiff1d(np.arange(self.y.size), left_out)
        system = self.kernel[np.ix_(kept, kept)] + np.diag(self.ridges[kept])
        ones = np.ones(kept.size)
        mean = 0.0
        if self.free_mean:
            mean = (
                ones
                @ np.linalg.solve(system, self.y[kept])
                / (ones @ np.linalg.solve(system, ones))
            )
        return self.kernel[asked, kept] @ np.linalg.solve(system, self.y[kept] - mean) + mean

    def inverse(self, name):
        """Return one of the inverses."""
        if name == "cells":
            if self.free_mean:
                fixed = FixedPart.constant(self.y.size, self.kernel)
            else:
                fixed = None
            return CellsInverse.of(self.operators.kernel_block(self.i, self.j), self.ridges, fixed)
        if name == "missing":
            return MissingInverse(self.operators, (self.i, self.j), np.nonzero(np.isnan(self.Y)))
        if name == "spectrum":
            constant = "free" if self.free_mean else None
            cells = Spectrum.from_gram(self.kernel.copy(), constant=constant).smoother(
                Tikhonov(), self.alpha
            )
            return FactorInverse.of_spectrum(cells)
        # The rows of a root of the kernel are features; a last one of ones is free.
        values, vectors = np.linalg.eigh(self.kernel)
        rows = vectors * np.sqrt(np.clip(values, 0.0, None))
        penalties = np.full(values.size, self.alpha)
        if self.free_mean:
            rows = np.c_[rows, np.ones(values.size)]
            penalties = np.append(penalties, 0.0)
        root = np.sqrt(self.alpha / self.ridges)
        return FeatureInverse.of(
            lambda at: rows[at] * root[at, None], values.size, penalties, root, AssertionError
        )

    def left_out(self, setting, groups):
        """Return the units of each label, of its instance and of its task, and the labels to leave out with each."""
        i = self.i // 2 if groups else self.i
        j = self.j // 2 if groups else self.j
        units = {"A": np.arange(self.y.size) // (2 if groups else 1), "B": i, "C": j}
        if setting == "D":
            return (i, j), [np.flatnonzero((i == i[p]) | (j == j[p])) for p in range(self.y.size)]
        codes = units[setting]
        return (codes,), [np.flatnonzero(codes == codes[p]) for p in range(self.y.size)]


def held_out(case, inverse, codes):
    """Return held-out predictions of the inverse, from centred labels if the mean is free."""
    shift = case.y.mean() if case.free_mean else 0.0
    labels = (case.y - shift)[:, None]
    leave_out = inverse.leave_crossed_out if len(codes) == 2 else inverse.leave_out
    return leave_out(labels, *codes)[:, 0] + shift


@pytest.mark.parametrize(
    ("setting", "largest"), [("A", 64), ("B", 64), ("C", 64), ("D", 64), ("D", 7), ("D", 0)]
)
@pytest.mark.parametrize("name", ["cells", "missing", "spectrum", "features"])
def test_leave_out_equals_refits(name, setting, largest, monkeypatch):
    """Every inverse leaves out pairs, instances, tasks and both as refits do, with and without groups and a mean.

    In setting D all sets are solved as a whole, or some or none of them.
    """
    monkeypatch.setattr("dyadlearn.solve.crossing._SMALL_SET", largest)
    for seed, alpha in enumerate([1e-3, 0.1, 1.0, 30.0, 1e5]):
        case = Case(seed, SHARES if seed % 2 else {}, seed % 3 == 0, alpha)
        inverse = case.inverse(name)
        for groups in (False, True):
            codes, sets = case.left_out(setting, groups)
            expected = np.array(
                [case.refit(left_out, place) for place, left_out in enumerate(sets)]
            )
            shift = case.y.mean() if case.free_mean else 0.0
            # Digits are relative to the prediction itself, which is small where the regularisation
            # is large.
            digits = 1e-8 if name != "features" else 1e-6
            actual = held_out(case, inverse, codes)
            assert_allclose(
                actual - shift,
                expected - shift,
                rtol=digits,
                atol=digits * abs(expected - shift).mean(),
            )


@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        ("cells", False),
        ("cells", True),
        ("missing", False),
        ("features", False),
        ("features", True),
    ],
)
def test_weights_of_labels(name, weighted):
    """A label weighs as much as is predicted from this label of one, where all others are zero."""
    for seed, alpha in enumerate([1e-3, 0.1, 1.0, 30.0, 1e5]):
        case = Case(seed, SHARES if seed % 2 else {}, seed % 3 == 0, alpha, weighted=bool(weighted))
        inverse = case.inverse(name)
        n = case.y.size
        asked = 2
        if name == "cells":
            found = inverse.label_weights(case.kernel[:, asked].copy())
        elif name == "features":
            values, vectors = np.linalg.eigh(case.kernel)
            rows = vectors * np.sqrt(np.clip(values, 0.0, None))
            found = inverse.label_weights(np.append(rows[asked], np.ones(int(case.free_mean))))
        else:
            unit = np.zeros(case.Y.shape)
            unit[case.i[asked], case.j[asked]] = 1.0
            grid = case.operators.hat(unit)
            found = inverse.label_weights(grid[case.i, case.j], grid[np.isnan(case.Y)])
        expected = np.zeros(n)
        for place in range(n):
            case.y = np.where(np.arange(n) == place, 1.0, 0.0)
            expected[place] = case.refit([], asked)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("setting", "largest"), [("A", 64), ("B", 64), ("C", 64), ("D", 64), ("D", 0)]
)
@pytest.mark.parametrize("name", ["cells", "features"])
def test_weighted_labels(name, setting, largest, monkeypatch):
    """Weights divide the ridge of their cells."""
    monkeypatch.setattr("dyadlearn.solve.crossing._SMALL_SET", largest)
    for seed in range(4):
        case = Case(seed, {}, seed % 2 == 0, 0.3, weighted=True)
        codes, sets = case.left_out(setting, groups=False)
        expected = [case.refit(left_out, place) for place, left_out in enumerate(sets)]
        assert_allclose(held_out(case, case.inverse(name), codes), expected, rtol=1e-8)


@pytest.mark.parametrize("largest", [64, 7, 0])
def test_many_columns_of_labels(largest, monkeypatch):
    """Several columns of labels are left out together."""
    monkeypatch.setattr("dyadlearn.solve.crossing._SMALL_SET", largest)
    case = Case(3, {}, False, 0.5)
    labels = np.c_[case.y, case.y**2]
    for name in ("cells", "missing", "spectrum", "features"):
        inverse = case.inverse(name)
        each = [inverse.leave_crossed_out(column[:, None], case.i, case.j) for column in labels.T]
        assert_allclose(
            inverse.leave_crossed_out(labels, case.i, case.j), np.hstack(each), rtol=1e-10
        )


def test_no_missing_cell():
    """A complete grid is the case of no missing cell."""
    case = Case(1, {}, True, 0.5, missing=0.0)
    for setting in "ABCD":
        codes, sets = case.left_out(setting, groups=False)
        expected = [case.refit(left_out, place) for place, left_out in enumerate(sets)]
        assert_allclose(held_out(case, case.inverse("missing"), codes), expected, rtol=1e-8)


@pytest.mark.parametrize("constant", [False, True])
def test_missing_labels_of_a_kernel_of_zeros(constant):
    """Kernels without any direction predict zero, or the mean of the other labels."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(6, 5))
    Y[1, 2] = np.nan
    for X, T in (
        (np.zeros((6, 2)), rng.normal(size=(5, 2))),
        (rng.normal(size=(6, 2)), np.zeros((5, 2))),
    ):
        model = TwoStepRidge(1.0, 1.0, fit_intercept=constant).fit(X, Y, tasks=T)
        operators = operators_of(model.fitted_.problem.pairing)
        observed = np.nonzero(~np.isnan(Y))
        missing = np.nonzero(np.isnan(Y))
        half = operators.between(missing, observed, hat=True)
        assert half.shape == (1, 29)
        held_out = model.holdout("A")[observed]
        if not constant:
            assert_allclose(half, 0.0)
            assert_allclose(held_out, 0.0)
    operators = operators_of(
        KroneckerRidge(1.0, fit_intercept=False)
        .fit(np.zeros((6, 2)), Y, tasks=T)
        .fitted_.problem.pairing
    )
    inverse = MissingInverse(operators, observed, missing)
    assert_allclose(inverse.leave_out(Y[observed][:, None]), 0.0)


def test_nothing_left():
    """A unit with all labels leaves nothing to learn from."""
    case = Case(0, {}, False, 1.0)
    same = np.zeros(case.y.size, dtype=int)
    inverse = case.inverse("cells")
    with pytest.raises(NothingLeftError):
        inverse.leave_out(case.y[:, None], same)
    with pytest.raises(NothingLeftError):
        inverse.leave_crossed_out(case.y[:, None], case.i, same)


def test_interpolated_labels_are_refused():
    """Without regularisation, a label that others do not determine has leverage 1."""
    kernel = np.diag([1.0, 0.0, 0.0])
    cells = Spectrum.from_gram(kernel).smoother(Tikhonov(), 0.0)
    inverse = FactorInverse.of_spectrum(cells)
    with pytest.raises(LeverageError):
        inverse.leave_out(np.array([[1.0], [2.0], [3.0]]))


def test_predictions_keep_their_digits_where_the_penalty_is_large():
    """Predictions are as small as the kernel relative to the penalty, and are not taken for rounding."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(14, 3))
    labels = rng.normal(size=14)
    inverse = FeatureInverse.of(lambda at: features[at], 14, np.full(3, 1e12), None, AssertionError)
    held_out = inverse.leave_out(labels[:, None])[:, 0]
    for place in range(14):
        others = np.delete(np.arange(14), place)
        expected = features[place] @ features[others].T @ labels[others] / 1e12
        assert_allclose(held_out[place], expected, rtol=1e-8)


def test_features_of_all_labels_are_computed_once_and_not_for_each_set():
    rng = np.random.default_rng(0)
    rows, values = rng.normal(size=(60, 3)), rng.normal(size=(60, 1))
    asked = []

    def features(at):
        asked.append(at.size)
        return rows[at]

    inverse = FeatureInverse.of(features, 60, np.ones(3), None, AssertionError)
    units = np.arange(60) % 12
    found = inverse.leave_out(values, units)
    assert sum(asked) <= 6 * 60  # and not 12 times 60
    for unit in range(12):
        kept = units != unit
        left = units == unit
        theta = np.linalg.solve(rows[kept].T @ rows[kept] + np.eye(3), rows[kept].T @ values[kept])
        assert_allclose(found[left], rows[left] @ theta, rtol=1e-9, atol=1e-12)
    assert_allclose(inverse.leave_out(2 * values, units), 2 * found, rtol=1e-12)


@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("ridge", [1.0, 1e-6, 1e-14])
def test_rounding_of_normal_equations_is_told(gap, ridge):
    """Features that the labels hardly tell apart lose digits; features of different sizes lose none."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(14, 3))
    features[:, 1] = features[:, 0] + gap * features[:, 1]
    features[:, 2] *= 1e-9
    labels = rng.normal(size=14)
    inverse = FeatureInverse.of(
        lambda at: features[at], 14, np.full(3, ridge), None, AssertionError
    )
    held_out = inverse.leave_out(labels[:, None])[:, 0]
    error = 0.0
    penalty = np.sqrt(ridge) * np.eye(3)
    for place in range(14):
        others = np.delete(np.arange(14), place)
        rows = np.vstack([features[others], penalty])
        # An orthogonal factorisation does not square the condition number.
        theta = np.linalg.lstsq(rows, np.append(labels[others], np.zeros(3)), rcond=0.0)[0]
        error = max(error, abs(held_out[place] - features[place] @ theta))
    assert error <= 10.0 * inverse.rounding * abs(labels).max()
    assert (inverse.rounding > 1e-5) == (gap == 1e-6 and ridge == 1e-14)


def test_rounding_of_features_is_warned_about(monkeypatch):
    """Rows without labels tell two features apart that are nearly the same in all others."""
    for module in ("inverses", "incomplete"):
        # As with more than 512 directions.
        monkeypatch.setattr(f"dyadlearn.pairing.{module}.suit_directions", lambda *given: False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    T = rng.normal(size=(9, 2))
    X[:10, 1] = X[:10, 0] + 1e-8 * X[:10, 1]
    Y = rng.normal(size=(12, 9))
    Y[10:] = np.nan
    Y[3, :4] = np.nan
    model = KroneckerRidge(1e-14, fit_intercept=False).fit(X, Y, tasks=T)
    with pytest.warns(PrecisionWarning, match="digits"):
        model.holdout("A")
