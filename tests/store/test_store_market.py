"""Models of the market come back from a file, down to the bit, also with parameters that are scalars of numpy."""

import numpy as np
import pytest
from sklearn.base import clone

from dyadlearn import KroneckerRidge, MultiwayRidge, PairRegressor
from dyadlearn._state import stored_estimators
from dyadlearn.kernels import Landmarks
from dyadlearn.testing import Trial
from market import ENTRIES, GridOfPairs, not_stored

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(14, 3))
PAIRS = [(i, j) for i in range(14) for j in range(9) if (i + j) % 4]
# What the market has only inside of others: a model that is not fitted, and what fit gets.
OTHERS = {
    "pairs": (
        PairRegressor(KroneckerRidge(1e-8), instances=X, tasks=RNG.normal(size=(9, 2))),
        (PAIRS, np.arange(len(PAIRS)) % 5),
    ),
    "landmarks": (Landmarks(4, kernel="rbf", random_state=0), (X, None)),
    "cells": (
        MultiwayRidge("a + b", variances={"a": 1.0, "b": 0.5, "residual": 0.1}),
        ({"a": [i for i, _ in PAIRS], "b": [j for _, j in PAIRS]}, np.arange(len(PAIRS)) % 5),
    ),
}
# Models of the market that a file can hold, and the last of their forms of labels.
STORED = {
    name: entry.forms[-1]
    for name, entry in ENTRIES.items()
    if not isinstance(entry.make(), GridOfPairs)
    and not name.startswith(("PlainRidge", "TwoStepRegressor"))
}


def as_numpy(value):
    """Return a parameter with scalars of numpy wherever it has those of Python."""
    if isinstance(value, dict):
        return {name: as_numpy(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(as_numpy, value))
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds else value


def with_numpy(model):
    """Return a clone with parameters of numpy, in the models inside of it too."""
    return clone(model).set_params(
        **{name: as_numpy(value) for name, value in model.get_params().items()}
    )


@pytest.mark.parametrize("name", STORED)
def test_a_model_comes_back_and_is_that_with_parameters_of_numpy(name, round_trip, assert_same):
    entry = ENTRIES[name]
    form = STORED[name]
    trial = Trial(entry.make(), form, entry.letters(form))
    model = trial.fit()
    # Nothing that was learnt is left out.
    assert not_stored(model) == []
    loaded = round_trip(model)
    if name != "LearnedKernelRidge":  # whose file has no eigenvectors: see test_compact.py
        assert_same(loaded, model)
    if "alpha" in model.get_params():
        assert_same(trial.predict(loaded.set_alpha(4.0)), trial.predict(model.set_alpha(4.0)))
    other = Trial(with_numpy(entry.make()), form, entry.letters(form))
    model = trial.fit()
    loaded = round_trip(other.fit())
    assert_same(loaded.get_params(deep=False), model.get_params(deep=False))
    assert_same(trial.predict(loaded), trial.predict(model))


@pytest.mark.parametrize("name", OTHERS)
def test_other_estimators_with_parameters_of_numpy(name, round_trip, assert_same):
    model, data = OTHERS[name]
    loaded = round_trip(with_numpy(model).fit(*data))
    model.fit(*data)
    assert_same(loaded.get_params(deep=False), model.get_params(deep=False))
    act = "transform" if name == "landmarks" else "predict"
    assert_same(getattr(loaded, act)(data[0]), getattr(model, act)(data[0]))


def test_every_estimator_has_a_case():
    cases = [ENTRIES[name].make() for name in STORED] + [model for model, _ in OTHERS.values()]
    assert {type(model).__name__ for model in cases} == set(stored_estimators())
