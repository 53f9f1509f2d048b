"""Parameters may be numbers, truth values and texts of numpy, as np.logspace and np.array give them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import dyadlearn
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn._registry import MODELS
from dyadlearn._state import stored_estimators
from dyadlearn.exceptions import GridEdgeWarning, PrecisionWarning
from dyadlearn.kernels import Descriptions, Landmarks

RNG = np.random.default_rng(3)
X = RNG.normal(size=(14, 3))
T = RNG.normal(size=(9, 2))
Y = RNG.normal(size=(14, 9))
WEIGHTS = 10 ** RNG.uniform(-3, 3, size=Y.shape)
HOLES = np.where(RNG.random(Y.shape) < 0.2, np.nan, Y)
SQUARE = RNG.normal(size=(14, 14))
PAIRS = [(i, j) for i in range(14) for j in range(9) if (i + j) % 4]
RBF = {"kernel": "rbf", "task_kernel": "rbf", "kernel_params": {"gamma": 0.3}}
FEW = {"alphas": [1e-8, 1e-3, 1.0], "cv": 3}
DESCRIBED = Descriptions({"a": X, "b": X[:, :2]})

# A model, and what fit gets.
CASES = {
    "independent": (IndependentTaskRidge(0.5), (X, Y, {})),
    "independent holes": (IndependentTaskRidge(1e-8, kernel="rbf"), (X, HOLES, {})),
    "two-step": (TwoStepRidge(0.5, 2.0, **RBF), (X, Y, {"tasks": T})),
    "two-step weights": (TwoStepRidge(1e-8, 1e-8), (X, Y, {"tasks": T, "sample_weight": WEIGHTS})),
    "two-step holes": (TwoStepRidge(1e-6, 1e-6), (X, HOLES, {"tasks": T})),
    "symmetric": (TwoStepRidge(symmetry="symmetric"), (X, SQUARE + SQUARE.T, {})),
    "kronecker": (KroneckerRidge(0.5), (X, Y, {"tasks": T})),
    "kronecker weights": (
        KroneckerRidge(1e-10, **RBF),
        (X, Y, {"tasks": T, "sample_weight": WEIGHTS}),
    ),
    "kronecker holes": (KroneckerRidge(1e-6, tol=1e-6), (X, HOLES, {"tasks": T})),
    "pair kernel": (PairKernelRidge(0.5), (X, Y, {"tasks": T})),
    "pair kernel holes": (PairKernelRidge(1e-6), (X, HOLES, {"tasks": T})),
    "learned": (
        LearnedKernelRidge(setting="A", n_steps=1, stages=1, cv=2),
        (DESCRIBED, Y, {"tasks": T}),
    ),
    "search independent": (IndependentTaskRidgeCV(**FEW), (X, Y, {})),
    "search two-step": (
        TwoStepRidgeCV([1e-8, 1.0], [1e-3, 1.0], kernel="rbf"),
        (X, Y, {"tasks": T}),
    ),
    "search kronecker": (
        KroneckerRidgeCV(**FEW, **RBF),
        (X, Y, {"tasks": T, "sample_weight": WEIGHTS}),
    ),
    "search pair kernel": (PairKernelRidgeCV(**FEW), (X, Y, {"tasks": T})),
    "online": (OnlineTwoStepRidge(0.5, 2.0), (X, Y, {"tasks": T})),
    "pairs": (
        PairRegressor(KroneckerRidge(1e-8), instances=X, tasks=T),
        (PAIRS, np.arange(len(PAIRS)) % 5, {}),
    ),
    "landmarks": (Landmarks(4, kernel="rbf", random_state=0), (X, None, {})),
}
# Models of the registry that the table above does not name.
for _entry in MODELS.values():
    for _name in (_entry.model, _entry.search):
        if _name is not None and _name not in {type(model).__name__ for model, _ in CASES.values()}:
            _options = FEW if _name == _entry.search else {}
            CASES[_name] = getattr(dyadlearn, _name)(**_options), (X, Y, {"tasks": T})


def as_numpy(value):
    """Return a parameter with scalars of numpy wherever it has those of Python."""
    if isinstance(value, dict):
        return {name: as_numpy(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(as_numpy, value))
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds else value


def test_every_estimator_has_a_case():
    assert {type(model).__name__ for model, _ in CASES.values()} == set(stored_estimators())


@pytest.mark.parametrize("name", CASES)
def test_a_model_with_parameters_of_numpy_is_that_with_those_of_python(
    name, round_trip, assert_same
):
    model, data = CASES[name]
    numpy = clone(model)
    inner = numpy.get_params(deep=False).get("estimator")
    for each in [numpy] if inner is None else [inner, numpy]:
        each.set_params(
            **{name: as_numpy(value) for name, value in each.get_params(deep=False).items()}
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        warnings.simplefilter("ignore", PrecisionWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, numpy = (each.fit(*data[:2], **data[2]) for each in (clone(model), numpy))
    loaded = round_trip(numpy)
    assert_same(loaded.get_params(deep=False), model.get_params(deep=False))
    act = "transform" if name == "landmarks" else "predict"
    assert_same(getattr(loaded, act)(data[0]), getattr(model, act)(data[0]))
