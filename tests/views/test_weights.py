"""What was learned of kernels, in numbers and in words."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import LearnedKernelRidge
from dyadlearn.sides import SideNames
from dyadlearn.views.spectrum import spectra_of_model
from dyadlearn.views.summary import SummaryOptions, summary_of
from dyadlearn.views.weights import Weights, percent, weights_of_model
from problems import pair_kernel

NAMES = SideNames("drug", "protein")


@pytest.fixture(scope="module")
def learned(real):
    X, Y, T = real
    model = LearnedKernelRidge(setting="B", n_steps=2)
    return model.fit({"some": X[:, :3], "rest": X[:, 3:], "all": X}, Y, {"t": T})


def test_the_numbers_are_those_of_the_model(learned):
    found = weights_of_model(learned)
    for side in ("instances", "tasks"):
        assert found.weights[side] == learned.weights_[side]
        assert found.exponents[side] == learned.exponents_[side]
        *described, last = found.weights[side]
        assert last == "constant"
        assert described == sorted(described, key=lambda name: -learned.weights_[side][name])
    assert found.figures()["weights"] == learned.weights_
    assert (found.stage_errors, found.n_stages) == (learned.stage_errors_, learned.n_stages_)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shares_are_those_of_kernels_whose_weights_sum_to_one(real, fit_intercept):
    X, Y, T = real
    model = LearnedKernelRidge(setting="B", n_steps=1, fit_intercept=fit_intercept)
    model.fit(X, Y, T)
    found = weights_of_model(model)
    assert_allclose(sum(found.shares.values()), 1)
    # The kernel between pairs written out, once as the model has it and once in the words of the
    # view, constants too.
    units = []
    for side in model.fitted_.sides:
        raw = side.spec.kernel(side.features) + fit_intercept
        units.append((raw, raw / np.trace(raw) * len(raw)))
    (K, K_one), (G, G_one) = units
    wanted = pair_kernel(K, G, *model.fitted_.spec.shares)
    ours = pair_kernel(K_one, G_one, *found.shares.values())
    assert_allclose(ours, wanted, rtol=1e-10)


def test_words():
    only = {"features": 1.0}
    weights = {"ecfp": 0.62, "sim": 0.328, "odd": 0.002, "constant": 0.05}
    exponents = {"ecfp": 1.8, "sim": 1, "odd": 1}
    sides = {"instances": weights, "tasks": only}, {"instances": exponents, "tasks": only}
    found = Weights(*sides, None, [0.5, 0.25, 0.3], 2)
    assert (
        found.in_words("instances")
        == "ecfp 62 % (exponent 1.8), sim 33 %, odd below 1 %, constant 5 %"
    )
    assert found.lines(NAMES)[0] == ("error by stage", "0.5, 0.25 (kept), 0.3")
    assert found.lines(NAMES)[1] == ("weights of drugs", found.in_words("instances"))
    assert len(found.lines(NAMES)) == 3
    shared = Weights(
        {"instances": only},
        {"instances": only},
        {"product": 0.9, "instances": 0.06, "tasks": 0.04},
        [0.5],
        1,
    )
    assert shared.lines(NAMES)[-1][1] == (
        "90 % product of both kernels, 6 % functions of the drugs for each protein, 4 % functions "
        "of the proteins for "
        "each drug"
    )
    assert (percent(0.0094), percent(0.0096)) == ("below 1 %", "1 %")


def test_a_model_without_tasks_has_no_shares(real):
    X, Y, _ = real
    found = weights_of_model(
        LearnedKernelRidge(setting="B", n_steps=2).fit({"a": X, "b": X[:, :2]}, Y)
    )
    assert found.shares is None
    assert list(found.weights) == ["instances"]
    assert_allclose(sum(found.weights["instances"].values()), 1)


def test_other_models_have_learned_nothing(ridge):
    assert weights_of_model(ridge) is None


def test_a_summary_has_them_and_says_what_scores_are_worth(learned):
    found = summary_of(learned, SummaryOptions(alphas=[0.1, 1.0], setting="B"))
    assert found.weights.weights["instances"] == learned.weights_["instances"]
    assert any("learned again without each fold that is scored" in note for note in found.notes)
    assert spectra_of_model(learned)["instances"].kernel == "learned, of some, rest and all"
