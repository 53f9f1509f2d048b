"""Compare one leave-out of each inverse with refits, in all settings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn._array import slices
from dyadlearn.exceptions import LeverageError, NothingLeftError, PrecisionWarning
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing.base import operators_of
from dyadlearn.pairing.inverses import inverse_of
from dyadlearn.solve import factor_inverse
from dyadlearn.solve import inverse as inverse_module
from dyadlearn.solve.factor_inverse import FactorInverse, FeatureInverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.spectrum import Spectrum
from references import left_out
from sweeps import covering, over

SHAPES = {"tall": (7, 5), "wide": (4, 7), "one row": (1, 8)}
KINDS = {"full": ("full", "full"), "thin": ("thin", "thin"), "sparse": ("sparse", "primal")}
NAMES = ["cells", "missing", "spectrum", "features"]


def made(method="kronecker", shape=(7, 6), kinds=KINDS["full"], alpha=0.5, **options):
    """Return the list of the labels, the model of pairs and the reference."""
    rng = np.random.default_rng(shape)
    sides = tuple(problems.features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True))
    Y = rng.normal(size=shape) + 2.0
    Y[rng.random(shape) < 0.3] = np.nan
    if options.pop("orders", 0):
        options["weights"] = 10.0 ** rng.uniform(-1.0, 1.0, shape)
    problem, model = problems.twins(method, sides, (alpha, alpha), Y, kinds=kinds, **options)
    return problem.labels.listed(), problem.pairing, model


def grid_of_units(units, shape):
    """Return the number of the unit of each pair, labelled or not."""
    m, q = shape
    cells = np.arange(m * q).reshape(shape)
    rows, columns = np.indices(shape)
    return {
        "each": cells,
        "rows": 3 * rows - 4,
        "columns": columns,
        "three": np.random.default_rng(1).permutation(cells.ravel()).reshape(shape) % 3 + 5,
    }[units]


def leave_out(name, pairing, labels, *codes):
    """Return what models without each unit predict for it; with a free mean, from centred labels."""
    shift = labels.values.mean() if pairing.free_mean else 0.0
    inverse = inverse_of(pairing, labels, name)
    leave = inverse.leave_crossed_out if len(codes) == 2 else inverse.leave_out
    return leave((labels.values - shift)[:, None], *codes)[:, 0] + shift


@over(
    covering(
        name=NAMES,
        method=["kronecker", "two_step"],
        units=["each", "rows", "columns", "three", "crossed"],
        largest=[64, 7, 0],
        shape=SHAPES,
        kinds=KINDS,
        alpha=[1e-3, 1.0, 1e5],
        constant=[False, True],
        orders=[0, 2],
        blocks=[False, True],
        where=lambda name, method, units, shape, orders, **_: (
            (not orders or name in ("cells", "features"))
            and (method == "kronecker" or (name != "spectrum" and units != "crossed"))
            and (shape[0] > 1 or units not in ("rows", "crossed"))
        ),
    )
)
def test_every_inverse_leaves_out_as_refits_do(
    name, method, units, largest, shape, kinds, alpha, constant, orders, blocks, monkeypatch
):
    """In setting D all sets are solved as a whole, or some or none of them."""
    monkeypatch.setattr("dyadlearn.solve.crossing._SMALL_SET", largest)
    if blocks:  # of two rows, or two groups
        for module in (inverse_module, factor_inverse):
            monkeypatch.setattr(module, "row_blocks", lambda n, *_: slices(n, 2))
    labels, pairing, model = made(method, shape, kinds, alpha, constant=constant, orders=orders)
    observed = ~np.isnan(model.Y)
    if units == "crossed":
        found = leave_out(name, pairing, labels, *labels.places)
        expected = left_out(model, "D", where=observed)
    else:
        cells = grid_of_units(units, shape)
        found = leave_out(name, pairing, labels, cells[labels.places])
        expected = left_out(model, "A", cells=cells, where=observed)
    shift = labels.values.mean() if constant else 0.0
    # Digits are relative to the predictions, which are small where the regularisation is large.
    problems.close(found - shift, expected[observed] - shift, 1e-9)


def test_missing_labels_of_a_kernel_of_zeros():
    """Kernels without any direction predict zero."""
    X, Y, T = problems.data(6, 5)
    Y[1, 2] = np.nan
    observed, missing = (np.nonzero(each) for each in (~np.isnan(Y), np.isnan(Y)))
    for sides in ((np.zeros((6, 2)), T), (X, np.zeros((5, 2)))):
        model = TwoStepRidge(1.0, 1.0, fit_intercept=False).fit(sides[0], Y, tasks=sides[1])
        operators = operators_of(model.fitted_.problem.pairing)
        assert_array_equal(operators.between(missing, observed, hat=True), np.zeros((1, 29)))
        assert_array_equal(model.holdout("A")[observed], 0.0)
    model = KroneckerRidge(1.0, fit_intercept=False).fit(np.zeros((6, 2)), Y, tasks=T)
    inverse = MissingInverse(operators_of(model.fitted_.problem.pairing), observed, missing)
    assert_array_equal(inverse.leave_out(Y[observed][:, None]), 0.0)


def test_nothing_left():
    """A unit with all labels leaves nothing to learn from."""
    labels, pairing, _ = made()
    same = np.zeros(labels.size, dtype=int)
    inverse = inverse_of(pairing, labels, "cells")
    with pytest.raises(NothingLeftError):
        inverse.leave_out(labels.values[:, None], same)
    with pytest.raises(NothingLeftError):
        inverse.leave_crossed_out(labels.values[:, None], labels.places[0], same)


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
