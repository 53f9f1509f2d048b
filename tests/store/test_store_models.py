"""Models that the market lacks come back as they were, down to the bit; the others are in test_store_market.py."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import problems
from dyadlearn import (
    KroneckerRidgeCV,
    PairRegressor,
    SettingKFold,
    Tasks,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn._tables import Ids, write_table
from dyadlearn.filters import SpectralCutoff
from dyadlearn.kernels import Product, Sum, gram
from dyadlearn.metrics import scorer
from dyadlearn.settings import Setting

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

M = 9
Q = 6
D = 4
R = 3
X, Y, T = problems.data(M, Q, D, R, noise=0.5)
RNG = np.random.default_rng(1)
K = gram(X, kernel="rbf")
SPARSE = sparse.random(40, 9, density=0.4, format="csr", random_state=1)
SPARSE_TWICE = sparse.csr_array(np.repeat(SPARSE[:, :2].toarray(), [4, 5], axis=1))
TALL = RNG.normal(size=(40, Q))
GAPS = RNG.normal(size=(M, 2 * D))[:, ::2]
HOLES = problems.with_holes(Y, 0.3)

RBF = {"kernel": "rbf", "task_kernel": "rbf", "kernel_params": {"gamma": 0.3}}
COMBINED = Sum(
    ("linear", ("rbf", {"gamma": 0.2}), Product(["linear", "cosine"])), weights=(1, 0.5, 2)
)
ALPHAS = {"alphas": [0.01, 0.1, 1.0, 10.0]}
BOTH = {**ALPHAS, "task_alphas": (0.05, 0.5, 5.0)}

# Name, model, what fit gets, and what predict gets (instances, tasks).
CASES = {
    "two-step float32": (TwoStepRidge(0.3), tuple(a.astype(np.float32) for a in (X, Y, T)), (X, T)),
    "two-step sparse of rank 2": (
        TwoStepRidge(0.3, fit_intercept=False),
        (SPARSE_TWICE, TALL, T),
        (SPARSE, T),
    ),
    "two-step sparse": (TwoStepRidge(0.3), (SPARSE, TALL, T), (SPARSE, T)),
    "two-step gaps": (TwoStepRidge(0.3, **RBF), (GAPS, Y, T), (X, T)),
    "two-step combined": (TwoStepRidge(0.3, kernel=COMBINED), (X, Y, T), (X, T)),
    "search two-step kernels": (
        TwoStepRidgeCV(
            **BOTH,
            kernel="rbf",
            kernel_grid=[{"gamma": 0.1}, {"gamma": np.float32(0.5)}],
            scoring="ndcg_at_3",
        ),
        (X, np.abs(Y), T),
        (X, T),
    ),
    "search two-step folds": (
        TwoStepRidgeCV(
            **BOTH, setting=Setting.A, cv=SettingKFold("A", 3, random_state=4), tol=1e-5
        ),
        (X, HOLES, T),
        (X, T),
    ),
    "search kronecker scorer": (
        KroneckerRidgeCV(**ALPHAS, scoring=scorer("precision_at_k", k=2)),
        (X, (Y > 0).astype(float), T),
        (X, T),
    ),
}


def fitted(name):
    model, (instances, labels, tasks), _ = CASES[name]
    return model.fit(instances, labels, tasks)


def fresh(array):
    """Return a copy: a model takes a short cut where it is asked for the very array it was fitted on."""
    return None if array is None else array.copy()


def answers(model, name, settings):
    """Return everything that the model says, as arrays; an error is an answer too."""
    instances, tasks = CASES[name][2]
    found = {
        "predict": model.predict(fresh(instances), fresh(tasks)),
        "training tasks": model.predict(fresh(instances)),
        "pairs": model.predict_pairs(
            fresh(instances), fresh(tasks), [(0, 0), (3, model.fitted_.labels.values.shape[1] - 1)]
        ),
    }
    for word in ("dual_coef_", "coef_", "completed_", "n_iter_", "residual_"):
        found[word] = getattr(model, word, None)
    for setting in settings:
        try:
            found[setting] = model.holdout(setting)
        except ValueError as error:
            found[setting] = str(error)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_model_comes_back_as_it_was(name, round_trip, assert_same):
    model = fitted(name)
    loaded = round_trip(model)
    assert_same(loaded, model)
    settings = "BC" if list(CASES).index(name) % 2 else "AD"
    assert_same(answers(loaded, name, settings), answers(model, name, settings))


def test_eigenvectors_that_were_made_after_fitting_are_kept(round_trip, assert_same):
    model = fitted("two-step sparse")
    model.holdout("B")  # makes them, which changes the way later products are rounded
    loaded = round_trip(model)
    assert_same(loaded.set_alpha(4.0), model.set_alpha(4.0))
    answered = (answers(one, "two-step sparse", "B") for one in (loaded, model))
    assert_same(*answered)


def test_parameters_set_after_fitting_do_not_change_what_was_fitted(round_trip):
    model = fitted("two-step gaps")
    expected = model.holdout("D")
    loaded = round_trip(model.set_params(alpha=77.0, filter=SpectralCutoff()))
    assert loaded.alpha == 77.0
    np.testing.assert_array_equal(loaded.holdout("D"), expected)


def test_parts_that_are_one_stay_one(round_trip):
    loaded = round_trip(TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, X @ X.T))
    assert loaded.fitted_.sides[1] is loaded.fitted_.sides[0]
    (spectrum,) = loaded.fitted_.training_problem.pairing.spectra
    assert spectrum is loaded.fitted_.sides[0].spectrum
    assert loaded.fitted_.training_problem.Y is loaded.fitted_.labels.values


def test_arrays_of_torch_come_back_as_those_of_numpy(round_trip):
    torch = pytest.importorskip("torch")
    data = [torch.as_tensor(a) for a in (X, Y, T)]
    model = TwoStepRidgeCV(**BOTH, kernel="rbf").fit(*data)
    loaded = round_trip(model)
    found = loaded.predict(X, T)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, model.predict(data[0], data[2]).numpy(), rtol=1e-12)
    np.testing.assert_array_equal(loaded.holdout_, model.holdout_.numpy())
    np.testing.assert_allclose(loaded.holdout("D"), model.holdout("D").numpy(), rtol=1e-9)


@pytest.fixture(params=["pandas", "polars"])
def frames(request):
    """Give features, labels and tasks as frames of a library."""
    pytest.importorskip(request.param)
    rows = tuple(f"row {i}\n'\"é" for i in range(M))
    columns = tuple(f"task {j}" for j in range(Q))
    return (
        write_table(X, Ids(rows, "protein"), Ids(tuple("abcd")), request.param),
        write_table(Y, Ids(rows), Ids(columns, "drug"), request.param),
        write_table(T, Ids(columns), None, request.param),
    )


def test_frames_in_frames_out(frames, round_trip, assert_same):
    instances, labels, tasks = frames
    model = TwoStepRidgeCV(**BOTH).fit(instances, labels, tasks)
    loaded = round_trip(model)
    assert_same(loaded, model)
    assert_same(loaded.holdout("D"), model.holdout("D"))
    assert_same(loaded.predict(instances[::-1], tasks), model.predict(instances[::-1], tasks))
    assert type(loaded.completed_) is type(labels)


PAIRS = [(f"row {i}", j) for i in range(M - 2) for j in range(Q) if (i + j) % 3] + [("row 0", 1)]
VALUES = np.arange(len(PAIRS)) % 5 + 0.25


def entities(kind):
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(M)])
    return {
        "frame": (TwoStepRidge(0.3), frame, Tasks(np.asfortranarray(T))),
        "ints": (
            TwoStepRidge(0.3, kernel="rbf"),
            frame.round().astype(int),
            sparse.csc_array(np.abs(T)),
        ),
        "fitted": (TwoStepRidge(0.1).fit(X, Y), frame, sparse.coo_array(T)),
    }[kind]


@pytest.mark.parametrize("kind", ["frame", "ints", "fitted"])
def test_a_regressor_of_pairs_comes_back_with_its_tables(kind, round_trip, assert_same):
    model, instances, tasks = entities(kind)
    model = PairRegressor(model, instances=instances, tasks=tasks).fit(PAIRS, VALUES)
    loaded = round_trip(model)
    if kind != "fitted":  # there the tasks came in a format that is read row by row
        assert_same(loaded, model)
    wanted = [*PAIRS, (f"row {M - 1}", 3), (f"row {M - 2}", 0)]
    assert_same(loaded.predict(wanted), model.predict(wanted))
    assert_same(
        loaded.fit(PAIRS[5:], VALUES[5:]).predict(wanted),
        model.fit(PAIRS[5:], VALUES[5:]).predict(wanted),
    )
