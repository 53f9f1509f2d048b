"""What the Gaussian process of missing or weighted labels has beyond that of complete ones."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.labels import Labels
from dyadlearn.pairing.cells_process import CellsProcess, process_of
from dyadlearn.pairing.process import Process
from process_case import FORMS, SHARES, case, may_be
from sweeps import covering, over

PRODUCT = SHARES[0]


@over(
    covering(
        kinds=[("full", "full"), ("full", "thin"), ("thin", "thin")],
        shares=SHARES,
        free_mean=[False, True],
        form=FORMS,
        strength=1,
        where=may_be,
    )
)
def test_sides_in_either_order_have_the_same_variances(kinds, shares, free_mean, form, monkeypatch):
    problem = case(kinds, 0.3, shares, free_mean, form)
    process = problem.process()
    for setting in "ABCD":
        found = []
        for sign in (1, -1):
            costs = iter((sign, 0))
            monkeypatch.setattr(CellsProcess, "_cost", lambda *_, costs=costs: next(costs))
            found.append(process.variance(**problem.asked(setting)))
        assert_allclose(found[0], found[1], rtol=1e-9, atol=problem.rounding, err_msg=setting)


@over(covering(alpha=[1e-9, 1.0, 1e9], free_mean=[False, True], form=["both", "all"]))
def test_variances_of_observed_pairs_have_all_digits(alpha, free_mean, form):
    problem = case(("full", "full"), alpha, PRODUCT, free_mean, form)
    found = problem.process().variance()[problem.labels.places]
    expected = problem.grids()["A"][problem.labels.places]
    assert_allclose(found, expected, rtol=1e-6 if alpha < 1e-6 else 1e-9)


def test_observed_pairs_without_noise_are_certain():
    problem = case(alpha=0.0, free_mean=False)
    assert_array_equal(problem.process().variance()[problem.labels.places], 0.0)


def test_a_process_is_chosen_by_the_labels():
    problem = case(form="all")
    Y = problem.values(closed=True)
    for labels in (problem.labels, Labels.of_grid(Y)):
        process, values = process_of(problem.model(), labels)
        assert isinstance(process, Process)
        assert_array_equal(values, Y)
    weights = np.linspace(0.1, 1.0, Y.size).reshape(Y.shape)
    for labels in (Labels.of_grid(Y, weights), Labels.of_grid(np.where(weights < 0.2, np.nan, Y))):
        process, values = process_of(problem.model(), labels)
        assert isinstance(process, CellsProcess)
        assert_array_equal(values, Y[labels.observed])


def test_a_label_of_hardly_any_weight_costs_no_digit_of_others():
    problem = case(form="weighted")
    weights = np.array(problem.labels.weights)
    weights[::4] = 1e-200
    light = replace(problem, labels=replace(problem.labels, weights=weights))
    without = replace(problem, labels=problem.labels.take(weights > 1e-100))
    for setting in "BCD":
        asked = problem.asked(setting)
        found, expected = (each.process().variance(**asked) for each in (light, without))
        assert_allclose(found, expected, rtol=1e-9)


def test_noise_that_rounding_hides_is_told_or_refused():
    problem = case(("thin", "thin"), 1e-13, PRODUCT, False, "weighted")
    message = "leaves [0-9] accurate digits of the deviations and likelihoods: use"
    with pytest.warns(PrecisionWarning, match=message):
        problem.process().scale(problem.values())
    problem = replace(problem, alpha=1e-25)
    message = "alpha = 1e-25 is lost in the rounding of the kernel between 30 observed"
    with pytest.raises(ValueError, match=message):
        problem.process().scale(problem.values())
