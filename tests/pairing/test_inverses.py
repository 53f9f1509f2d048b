"""Pairs that leave by the inverse of few features against models that were fitted without them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from counting import asarray, multiplications
from dyadlearn._array import namespace
from dyadlearn.exceptions import LeverageError
from dyadlearn.labels import Labels
from dyadlearn.pairing import Kronecker
from dyadlearn.pairing.base import operators_of
from dyadlearn.pairing.inverses import inverse_of, routes
from dyadlearn.pairing.without_units import UnitsLeftOut, models_by_inverse, models_cost
from dyadlearn.settings import Setting
from dyadlearn.solve.nearly_complete import missing_work
from dyadlearn.spectrum import Spectrum
from problems import holes, pattern, problem
from sweeps import every, over

# Of more pairs than there are unknowns some leave together, where sides are thin.
KINDS = {"full": ("full", "full"), "thin": ("thin", "thin"), "sparse": ("sparse", "primal")}


def labels_of(given, weights=None):
    rows, columns = np.nonzero(given.observed)
    own = None if weights is None else weights[rows, columns]
    return Labels((rows, columns), given.Y[rows, columns], given.Y.shape, own)


def leave_out(pairing, labels, groups=None):
    """Return what models without each group predict for it; with a free mean, from centred labels."""
    shift = namespace(labels.values).mean(labels.values) if pairing.free_mean else 0.0
    inverse = inverse_of(pairing, labels, "features")
    return inverse.leave_out((labels.values - shift)[:, None], groups)[:, 0] + shift


def groups_of(kind, given):
    rows, columns = np.nonzero(given.observed)
    return {
        "each": None,
        "rows": rows,
        "columns": columns,
        "three": np.random.default_rng(1).permutation(np.arange(rows.size) % 3) + 5,
        "most": (np.arange(rows.size) < rows.size - 2).astype(int) - 4,
    }[kind]


def test_pairs_that_are_fitted_exactly_are_refused():
    given = holes("kronecker", (5, 4), "none missing", KINDS["full"], alpha=1e-17)
    message = r"^\d+ of \d+ (?:pairs|cells) form a set that have leverage 1 .* Use a larger alpha"
    for groups in (None, "rows"):
        with pytest.raises(LeverageError, match=message):
            leave_out(
                given.operators,
                labels_of(given),
                None if groups is None else groups_of(groups, given),
            )
    # Not even the normal equations can be factorised.
    given = holes("kronecker", (9, 9), "95%", KINDS["full"], alpha=1e-25)
    with pytest.raises(LeverageError, match=message):
        leave_out(given.operators, labels_of(given))


@over(every(by_rows=[False, True], alpha=[1e-9, 1e-13]))
def test_features_keep_the_digits_that_the_kernel_of_cells_loses(by_rows, alpha):
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(14, 4)), rng.normal(size=(10, 4))]
    rows, columns = np.divmod(np.sort(rng.choice(140, 60, replace=False)), 10)
    y = rng.normal(size=60)
    model = Kronecker(*map(Spectrum.from_features, sides), alpha)
    labels = Labels((rows, columns), y, (14, 10))
    products = np.einsum("ni,nj->nij", sides[0][rows], sides[1][columns]).reshape(60, -1)
    groups = rows if by_rows else np.arange(60)
    expected = np.empty(60)
    for group in np.unique(groups):
        stay = groups != group
        expected[~stay] = products[~stay] @ np.linalg.lstsq(products[stay], y[stay])[0]
    inverse = inverse_of(model, labels, "features")
    assert_allclose(
        inverse.leave_out(y[:, None], groups)[:, 0], expected, rtol=0, atol=100 * alpha + 1e-12
    )
    assert inverse.rounding < 1e-13
    by_cells = inverse_of(model, labels, "cells")
    error = np.abs(by_cells.leave_out(y[:, None], groups)[:, 0] - expected).max()
    assert 1e-12 < error < 10 * by_cells.rounding


# --- work -----------------------------------------------------------------------------------------


CASES = {
    "few missing": ((9, 11), ("full", "full"), "5%"),
    "half missing": ((9, 6), ("full", "full"), "50%"),
    "long": ((5, 14), ("full", "singular"), "5%"),
    "few features": ((12, 6), ("thin", "thin"), "50%"),
}
AXES = {"A": (), "B": (0,), "D": (0, 1)}


def torch_labels(case, setting):
    """Return a model, labels of torch, and the units that a setting leaves out, such as four rows for B4."""
    shape, kinds, missing = case
    given = problem("kronecker", shape, kinds, put=asarray)
    observed = pattern(missing, shape, np.random.default_rng(0))
    labels = Labels.of_grid(asarray(np.where(observed, given.Y, np.nan)))
    units = [labels.places[axis] // int(setting[1:] or 1) for axis in AXES[setting[0]]]
    return given.pairing, labels, units or [np.arange(labels.size)]


def left_out(name, pairing, labels, units, cache=None):
    """Return the inverse after leaving the units out."""
    inverse = inverse_of(pairing, labels, name, cache)
    leave = inverse.leave_crossed_out if len(units) == 2 else inverse.leave_out
    leave(labels.listed().values[:, None], *units)
    return inverse


@over(every(case=CASES, setting=["A", "B", "B4", "D4"]))
def test_work_of_routes_is_what_is_multiplied(case, setting):
    given = torch_labels(case, setting)
    pairing, labels, units = given
    for route in routes(pairing, labels, Setting(setting[0]), units, n_alphas=9):
        cache = {}
        counted = multiplications(left_out, route.name, *given, cache)
        if route.name == "spectrum":
            counted += 8 * multiplications(left_out, route.name, *given, cache)
            counted /= 9
        # Small units that cross take longer by features, beside work that is little.
        if (route.name, setting[0]) != ("features", "D"):
            assert 0.5 < route.work / counted < 1.7, route
        if setting == "B":
            inverse = left_out(route.name, *given)
            y = labels.listed().values
            left = UnitsLeftOut(labels, y, y, 0.0, np.arange(labels.shape[0]))
            work = models_cost(pairing, labels, left.n_units, route.name)[0]
            ratio = work / multiplications(models_by_inverse, pairing, inverse, left)
            assert 0.4 < ratio < 3.0, (route, ratio)


@over(every(case=CASES, setting="BD"))
def test_missing_cells_take_the_form_with_fewer_multiplications(case, setting, monkeypatch):
    given = torch_labels(case, setting)
    pairing, labels, units = given
    lines = missing_work(operators_of(pairing), labels.places, units)[1]
    counted = []
    for work in (-1.0, np.inf):
        monkeypatch.setattr(
            "dyadlearn.solve.nearly_complete.blocks_work", lambda *_, work=work: work
        )
        counted.append(multiplications(left_out, "missing", *given))
    assert counted[lines is not None] < 1.3 * min(counted)
