"""Models of observed pairs alone against the same models of a grid with holes."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from dyadlearn import IndependentTaskRidge, KroneckerRidge, PairKernelRidge, TwoStepRidge, recommend
from dyadlearn._memory import SideSize
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.holdout.actual import actual_settings
from dyadlearn.models import reading as training
from dyadlearn.pairing import Kronecker, PairKernel, TwoStep
from dyadlearn.settings import Setting
from listed import COLUMNS, FULL, ROWS, SPARSE, SPARSE_WEIGHTS, M, Q, T, X, Y, listed
from sweeps import every, lines, over

__all__ = ["listed"]

RNG = default_rng(17)
GROUPS = RNG.integers(0, 4, M)
CELLS = RNG.integers(0, 4, (M, Q))


def test_folds_of_cells_come_in_all_forms(listed):
    pairs = KroneckerRidge(tol=1e-10).fit(X, SPARSE, T)
    expected = pairs.holdout("A", cells=CELLS[ROWS, COLUMNS]).toarray()
    shuffled = default_rng(0).permutation(ROWS.size)
    stored = sparse.coo_array(
        (CELLS[ROWS, COLUMNS][shuffled], (ROWS[shuffled], COLUMNS[shuffled])), shape=(M, Q)
    )  # zeros among them
    for cells in (
        CELLS,
        list(CELLS[ROWS, COLUMNS]),
        stored,
        stored.tocsr(),
        sparse.csr_array(CELLS + 1),
    ):
        assert_array_equal(pairs.holdout("A", cells=cells).toarray(), expected)


# --- weights -------------------------------------------------------------------------------------------------------


def test_weights_come_in_all_forms(listed):
    rows = np.linspace(0.5, 2.0, M)
    cells = np.broadcast_to(rows[:, None], (M, Q))
    stored = sparse.csr_array((cells[ROWS, COLUMNS], (ROWS, COLUMNS)), shape=(M, Q))
    expected = KroneckerRidge(tol=1e-11).fit(X, SPARSE, T, stored).predict()
    more = sparse.csr_array(cells)  # weights of pairs that have no label
    for weights in (rows, rows[:, None], cells, list(rows), more, stored.tocoo()):
        assert_array_equal(
            KroneckerRidge(tol=1e-11).fit(X, SPARSE, T, weights).predict(),
            expected,
        )


# --- when the grid is left unformed ----------------------------------------------------------------------------------


class _Counted:
    """Labels of which only the shape and the number are asked."""

    def __init__(self, shape, size):
        self.shape = shape
        self.size = size
        self.weights = None


@over(
    lines(
        "pairing shape nnz ranks fits expected",
        (Kronecker, (1024, 1024), 10, (5, 5), False, False),  # a small grid is no burden
        (Kronecker, (1024, 1025), 10, (5, 5), False, True),  # which does not fit
        (Kronecker, (1024, 1025), 10, (5, 5), True, True),  # few pairs cost less
        (TwoStep, (1024, 1025), 10, (5, 5), True, True),
        (Kronecker, (1024, 1025), 1024 * 1025, (5, 5), True, False),  # all of them cost more
        (Kronecker, (4096, 512), 4096 * 64, (64, 8), True, True),  # tasks first
        (Kronecker, (512, 4096), 4096 * 64, (8, 64), True, True),  # instances first
        (
            Kronecker,
            (4096, 512),
            4096 * 256,
            (64, 64),
            True,
            False,
        ),  # twice the cost of half the cells
        (TwoStep, (20_000, 5000), 10**7, (200, 100), True, True),
        (
            Kronecker,
            (20_000, 5000),
            3 * 10**7,
            (5, 5),
            True,
            False,
        ),  # passes over pairs cost more than over cells
        (
            Kronecker,
            (20_000, 5000),
            3 * 10**7,
            (200, 200),
            True,
            True,
        ),  # but less than products of all cells
        (PairKernel, (10**5, 10**5), 10, (5, 5), False, False),  # has no solver of pairs
        (Kronecker, (10**5, 10**5), 10, (5,), False, False),
    )
)
def test_pairs_are_preferred_where_the_grid_costs_more(
    monkeypatch, pairing, shape, nnz, ranks, fits, expected
):
    monkeypatch.setattr(training, "fits_in_memory", lambda *_: fits)
    sides = [SideSize(n, rank, "features") for n, rank in zip(shape, ranks, strict=False)]
    assert training.prefers_pairs(pairing, _Counted(shape, nnz), sides, np.empty(0)) is expected


def test_models_that_know_no_pairs_take_the_grid(monkeypatch):
    monkeypatch.setattr(training, "SMALL_GRID", 0)
    monkeypatch.setattr(training, "fits_in_memory", lambda *_: False)
    labels = sparse.csr_array(np.where(np.isnan(Y), 0.0, Y))
    for model in (PairKernelRidge(), IndependentTaskRidge(), TwoStepRidge()):
        tasks = None if model.__class__ in (IndependentTaskRidge, TwoStepRidge) else T
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, expected = (clone(model).fit(X, given, tasks) for given in (labels, Y))
        assert_array_equal(found.predict(), expected.predict())
    edges = np.triu(FULL[:, :1] @ FULL[:, :1].T)
    network = np.where(edges + edges.T == 0, 1.0, edges + edges.T)
    found = TwoStepRidge(symmetry="symmetric").fit(X, sparse.csr_array(network))
    assert_array_equal(
        found.predict(), TwoStepRidge(symmetry="symmetric").fit(X, network).predict()
    )


@over(lines("model", KroneckerRidge(1e-3), TwoStepRidge(1e-8, 1e-8)))
def test_a_grid_that_is_never_formed(monkeypatch, model):
    # 100 million cells would take 800 MB.
    m = q = 10_000
    rng = default_rng(0)
    rows = rng.integers(0, m, 1000)
    columns = rng.integers(0, q, 1000)
    features = rng.normal(size=(m, 3))
    tasks = rng.normal(size=(q, 3))
    truth = np.sum((features[rows] @ rng.normal(size=(3, 3))) * tasks[columns], axis=1)
    labels = sparse.csr_array((truth + 3.0, (rows, columns)), shape=(m, q))
    groups = np.arange(m) % 2
    task_groups = np.arange(q) % 2
    tracemalloc.start()
    try:
        found = clone(model).fit(features, labels, tasks)
        held_out = found.holdout("A", cells=np.arange(labels.nnz) % 2)
        new = found.holdout("D", groups=groups, task_groups=task_groups)
        pairs = np.c_[rows, columns]
        predicted = [
            found.predict_pairs(*given, pairs) for given in given_or_known(features, tasks)
        ]
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Products of features are computed in blocks of up to 32 MiB.
    assert taken < 40 * 2**20
    for values in predicted:
        assert_allclose(values, truth + 3.0, atol=0.1)
        assert_allclose(values, predicted[0])
    assert held_out.nnz == new.nnz == labels.nnz
    assert np.abs(held_out - labels).max() < 0.5
    assert np.abs(new - labels).max() < 0.5
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda _: 2**29)
    with pytest.raises(
        NotEnoughMemoryError, match="^Predicting 10000 × 10000 labels needs about 0.7 GiB"
    ):
        found.predict()


def given_or_known(features, tasks):
    """Return both sides, as rows that are given and as those of training."""
    return ((features, tasks), (features, None), (None, tasks), (None, None))


# --- intervals -------------------------------------------------------------------------------------------------------


def test_intervals_of_few_labels_a_row_are_of_one_width():
    rng = default_rng(0)
    rows = rng.normal(size=(46, 4))
    tasks = rng.normal(size=(36, 3))
    labels = sparse.random_array((40, 30), density=0.15, rng=rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SMALL_GRID", 0)
        patch.setattr(training, "fits_in_memory", lambda *_: False)
        found = KroneckerRidge().fit(rows[:40], labels, tasks[:30])
    for setting, given in zip(
        "BCD", ((rows[40:], None), (None, tasks[30:]), (rows[40:], tasks[30:])), strict=True
    ):
        lower, upper = found.predict_interval(*given, coverage=0.9)
        held_out = found.fitted_.hold_out(Setting(setting))
        known = found.fitted_.labels
        # The only label of a task or of an instance is that of a new one when it is held out.
        is_actual = actual_settings(known, Setting(setting), held_out.units) == setting
        errors = np.sort(np.abs(known.values - held_out.predictions)[is_actual])
        reach = errors[int(np.ceil(0.9 * (errors.size + 1))) - 1]
        assert_allclose(upper - lower, 2 * reach, rtol=1e-9)


# --- what is refused -------------------------------------------------------------------------------------------------


def with_value(value):
    changed = SPARSE.copy()
    changed.data[7] = value
    return changed


def twice(matrix):
    places = np.r_[ROWS, ROWS[:1]], np.r_[COLUMNS, COLUMNS[:1]]
    return sparse.coo_array((np.r_[matrix.data, 1.0], places), shape=(M, Q))


FEWER = sparse.csr_array((SPARSE.data[1:], (ROWS[1:], COLUMNS[1:])), shape=(M, Q))
NEGATIVE = with_value(-1.0)
REFUSED = {
    "infinite": (
        {"y": with_value(np.inf)},
        ValueError,
        "^Input Y contains infinity or a value too large",
    ),
    "nothing": (
        {"y": sparse.csr_array((M, Q))},
        ValueError,
        "^Y stores no label: give at least one",
    ),
    "complex": (
        {"y": SPARSE.astype(complex)},
        TypeError,
        "^Y must hold real numbers, found complex128",
    ),
    "twice": (
        {"y": twice(SPARSE)},
        ValueError,
        r"^Y stores 1 pair\(s\) more than once, first that of row 0",
    ),
    "all ones": (
        {"y": SPARSE != 0},
        ValueError,
        "^All .* labels that Y stores are 1, and cells that a sparse",
    ),
    "columns": (
        {"y": SPARSE[:, :-1]},
        ValueError,
        f"^tasks has {Q} rows, but Y has {Q - 1} columns",
    ),
    "turned": (
        {"y": SPARSE.T},
        ValueError,
        "Y looks transposed: pass Y.T, or exchange X and tasks",
    ),
    "fewer weights": (
        {"sample_weight": FEWER},
        ValueError,
        rf"^sample_weight is sparse .* stores none for 1 of {ROWS.size} labels, the first in row "
        rf"{ROWS[0]} and column",
    ),
    "shape of weights": (
        {"sample_weight": SPARSE_WEIGHTS[:, :-1]},
        ValueError,
        rf"^sample_weight is sparse and of shape \({M}, {Q - 1}\), but Y is of shape \({M}, {Q}\)",
    ),
    "negative": (
        {"sample_weight": NEGATIVE},
        ValueError,
        "^sample_weight must hold finite numbers of at least 0",
    ),
    "no weight": (
        {"sample_weight": SPARSE_WEIGHTS * 0.0},
        ValueError,
        "^sample_weight is zero wherever Y is observed",
    ),
    "alpha": (
        {"alpha": 0.0},
        ValueError,
        "^Observed pairs alone determine no model without regularisation: use an",
    ),
}


@over(every(case=REFUSED))
def test_bad_input_gets_a_sentence(listed, case):
    given, kind, message = case
    given = {"y": SPARSE, **given}
    model = TwoStepRidge(given.pop("alpha", 1.0))
    with pytest.raises(kind, match=message) as caught:
        model.fit(X, given.pop("y"), T, **given)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "_coefficients")


def test_folds_that_do_not_fit_get_a_sentence(listed):
    model = KroneckerRidge().fit(X, SPARSE, T)
    for setting, groups, message in (
        (
            "A",
            {"cells": np.zeros(3)},
            f"^cells must have one value for each of {ROWS.size} rows, found shape",
        ),
        ("A", {"cells": FEWER}, "^cells is sparse and must store a fold for every label of Y"),
        ("A", {"cells": SPARSE[:3]}, r"^cells is sparse and of shape"),
        ("B", {"groups": np.zeros(3)}, f"^groups must have one value for each of {M} rows"),
        (
            "C",
            {"task_groups": np.zeros(3)},
            f"^task_groups must have one value for each of {Q} rows",
        ),
        (
            "A",
            {"groups": GROUPS},
            "^groups are groups of left-out instances, and setting A leaves none out",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            model.holdout(setting, **groups)


def test_attributes_of_a_grid_are_not_there(listed):
    model = KroneckerRidge().fit(X, SPARSE, T)
    for name in ("completed_", "dual_coef_"):
        with pytest.raises(AttributeError, match=f"^{name} does not exist. "):
            getattr(model, name)
    # New instances need no labels.
    assert len(recommend(model, X=X[:2], n=3)) == 2
    assert model.coef_.shape == (3, 4)


# --- other libraries -------------------------------------------------------------------------------------------------
