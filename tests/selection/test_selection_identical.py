"""Identical rows across the split: they are counted, and groups="identical" keeps them together."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge

from dyadlearn import (
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    audit,
    evaluate,
)
from dyadlearn._codes import identical_rows, nearly_identical_rows
from sweeps import covering, over

# Rows 0, 4 and 7 of the instances are identical, and so are 2 and 5; tasks 1 and 3.
COPIES = np.array([0, 1, 2, 3, 0, 2, 6, 0, 8])
TASK_COPIES = np.array([0, 1, 2, 1, 4])


def data():
    rng = default_rng(0)
    X = rng.normal(size=(9, 3))[COPIES]
    T = rng.normal(size=(5, 2))[TASK_COPIES]
    return X, X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(9, 5)), T


def slow_codes(rows):
    """Compare all pairs of rows; the code is the position of the first equal row."""
    return np.array(
        [
            min(j for j in range(len(rows)) if np.array_equal(rows[i], rows[j]))
            for i in range(len(rows))
        ]
    )


def same_partition(first, second):
    assert_array_equal(np.equal.outer(first, first), np.equal.outer(second, second))


@over(covering(n=[1, 2, 40], d=[0, 1, 3], kind=["dense", "sparse", "kernel"]))
def test_codes_of_equal_rows(n, d, kind):
    rng = default_rng(n + d)
    rows = rng.integers(0, 2, size=(n, d)) * 0.1
    if kind == "kernel":
        noise = 1.0 + 1e-15 * rng.normal(size=(n, n))
        same_partition(nearly_identical_rows(rows @ rows.T * noise), slow_codes(rows))
    else:
        same_partition(
            identical_rows(sparse.csr_array(rows) if kind == "sparse" else rows), slow_codes(rows)
        )


def test_rows_that_differ_a_little_are_not_identical():
    kernel = np.eye(4)
    kernel[1] = kernel[0]
    kernel[2] = kernel[0] + np.array([0.0, 0.0, 0.0, 1e-6])
    same_partition(nearly_identical_rows(kernel), [0, 0, 2, 3])


def models():
    """Models with equal descriptions of the same rows."""
    X, Y, T = data()
    yield TwoStepRidge().fit(X, Y, T)
    yield PairKernelRidge(per_task=0.5, per_instance=0.5).fit(X, Y, T)
    yield KroneckerRidge(kernel="precomputed", task_kernel="precomputed").fit(X @ X.T, Y, T @ T.T)
    yield TwoStepRidge().fit(sparse.csr_array(X), Y, sparse.csr_array(T))
    yield TwoStepRidgeCV(1.0, 1.0).fit(X, Y, T)
    yield TwoStepRegressor(Ridge(), Ridge()).fit(X, Y, T)


def test_counts_and_groups_of_every_model():
    for model in models():
        fitted = model.fitted_
        same_partition(fitted.identical(0), COPIES)
        same_partition(fitted.identical(1), TASK_COPIES)
        folds = {"cv": 3} if isinstance(model, TwoStepRegressor) else {}
        scores = evaluate(model, "ABCD", **folds)
        counts = {each.setting.value: each.n_identical for each in scores.results}
        if not folds:
            assert counts == {"A": (0, 0), "B": (5, 0), "C": (0, 2), "D": (5, 2)}
        assert counts["A"] == (0, 0)
        assert counts["B"][1] == counts["C"][0] == 0
        together = evaluate(model, "ABCD", groups="identical", task_groups="identical", **folds)
        assert [each.n_identical for each in together.results] == [(0, 0)] * 4
        by_hand = evaluate(model, "ABCD", groups=COPIES, task_groups=TASK_COPIES, **folds)
        assert_allclose(together[together.scoring], by_hand[by_hand.scoring], rtol=1e-12)
        assert_allclose(
            model.holdout("B", groups="identical"),
            model.holdout("B", groups=COPIES),
            rtol=1e-12,
            atol=1e-12,
        )


def test_notes():
    X, Y, T = data()
    model = TwoStepRidge().fit(X, Y, T)
    scores = evaluate(
        model, "ABCD", scoring=["r2", "neg_mean_squared_error"], sides=("drug", "target")
    )
    notes = [note for note in scores.notes if "identical" in note]
    assert len(notes) == 4  # once for both scores
    assert notes[0] == (
        "In setting B, 5 held-out drugs have an identical one in training: if these are copies, "
        'groups="identical" keeps them together.'
    )
    assert notes[1].startswith("In setting C, 2 held-out targets have")
    assert 'task_groups="identical"' in notes[1]
    assert not [note for note in evaluate(model, "A").notes if "identical" in note]


def test_searches_find_identical_rows_before_they_fit():
    X, Y, T = data()
    for given, kernel in ((X, "linear"), (X @ X.T, "precomputed")):
        search = TwoStepRidgeCV(1.0, 1.0, setting="B", kernel=kernel)
        search.fit(given, Y, T, groups="identical")
        same_partition(search.fitted_.validation.groups[0], COPIES)


def test_audit_counts_new_rows_that_equal_one_in_training():
    X, _, T = data()
    train = [(0, 0), (1, 1), (2, 2)]
    test = [(4, 1), (5, 3), (6, 4), (7, 3), (0, 4)]
    found = audit(train, test, instances=X, tasks=sparse.csr_array(T))
    assert found.n_identical == (3, 1)  # instances 4, 5 and 7 of 4, 5, 6 and 7; task 3 of 3 and 4
    assert "3 new instances identical to one in training, 1 new task identical" in found.message
    assert audit(train, test, instances=X).n_identical == (3, 0)
    known = audit(train, [(0, 1), (2, 0)], "A", instances=X, tasks=T)
    assert known.message == "Setting A holds for 2 test pairs."
    nodes = audit([(0, 1), (1, 2)], [(4, 5), (5, 6)], network=True, instances=X)
    assert nodes.n_identical == (2, 0)
    assert "2 new nodes identical to one in training" in nodes.message
