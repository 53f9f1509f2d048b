"""The regularised inverse of one side follows its Gram matrix, whichever way it is computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn._means import mean_of
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.growing import inverse
from dyadlearn.growing.inverse import SOLVERS, Cholesky, Eigen, Explicit, RidgeInverse
from sweeps import covering, every, over

every_solver = {"solver": SOLVERS}


def of(rows: np.ndarray, alpha: float = 0.5, solver: str = "auto") -> RidgeInverse:
    return RidgeInverse(rows.T @ rows, len(rows), alpha, solver, n_new=len(rows))


def is_made_anew(side: RidgeInverse) -> bool:
    """Return whether an inverse that could have followed was made from the Gram matrix."""
    return isinstance(side.form, Explicit) and side.settled.drift == side.settled.fresh_drift


def wanted(rows: np.ndarray, alpha: float, B: np.ndarray) -> np.ndarray:
    return np.linalg.solve(rows.T @ rows + alpha * np.eye(rows.shape[1]), B)


@over(covering(**every_solver, asked={"asked between": True, "asked at the end": False}, d=[3, 40]))
def test_rows_come_and_go(solver, asked, d):
    rng = np.random.default_rng(0)
    rows, B = rng.normal(size=(50, d)), rng.normal(size=(d, 2))
    side = of(rows, solver=solver)
    for step, size in enumerate([1, 2, d - 1, d + 5, 1, 3]):
        new = rng.normal(size=(size, d))
        if step % 3 == 2:
            new, rows = rows[:size], rows[size:]
            side = side.with_rows(rows.T @ rows, new, -1)
        else:
            rows = np.vstack([rows, new])
            side = side.with_rows(rows.T @ rows, sparse.csr_array(new) if step % 2 else new, 1)
        assert side.n_rows == len(rows)
        if asked:
            assert_allclose(side.solve(B), wanted(rows, 0.5, B), rtol=1e-9, atol=1e-12)
    assert_allclose(side.solve(B), wanted(rows, 0.5, B), rtol=1e-9, atol=1e-12)


@over(covering(**every_solver, asked={"asked between": True, "asked at the end": False}, d=[3, 40]))
def test_rows_about_a_mean_that_moves(solver, asked, d):
    rng = np.random.default_rng(0)
    rows, B = rng.normal(size=(50, d)) + 5, rng.normal(size=(d, 2))

    def about(rows):
        return rows - rows.mean(axis=0)

    side = of(about(rows), solver=solver)
    for step, size in enumerate([1, 2, d - 1, d + 5, 1, 3]):
        mean, new = mean_of(rows), rng.normal(size=(size, d)) - 2
        if step % 3 == 2:
            new, rows = rows[:size], rows[size:]
            side = side.with_rows(about(rows).T @ about(rows), new, -1, mean)
        else:
            rows = np.vstack([rows, new])
            new = sparse.csr_array(new) if step % 2 else new
            side = side.with_rows(about(rows).T @ about(rows), new, 1, mean)
        assert side.n_rows == len(rows)
        if asked:
            assert_allclose(side.solve(B), wanted(about(rows), 0.5, B), rtol=1e-9, atol=1e-12)
            assert not is_made_anew(side), "the inverse did not follow"
    assert_allclose(side.solve(B), wanted(about(rows), 0.5, B), rtol=1e-9, atol=1e-12)


def test_other_libraries(library):
    rng = np.random.default_rng(0)
    rows, new, B = rng.normal(size=(30, 20)), rng.normal(size=(1, 20)), rng.normal(size=(20, 2))
    for solver in SOLVERS:
        after = np.vstack([rows, new])
        gram, gram_after = (inverse.double(library.asarray(part.T @ part)) for part in (rows, after))
        side = RidgeInverse(gram, 30, 0.5, solver, n_new=1)
        target = inverse.double(library.asarray(B))
        side.solve(target)
        found = side.with_rows(gram_after, library.asarray(new), 1).solve(target)
        assert type(found) is type(target)
        assert_allclose(library.to_numpy(found), wanted(after, 0.5, B), rtol=100 * library.rtol, atol=library.rtol)


def test_which_way_is_taken():
    rng = np.random.default_rng(0)
    d = 40
    rows, few, many = rng.normal(size=(100, d)), rng.normal(size=(2, d)), rng.normal(size=(10, d))

    def form_after(solver: str, *batches: np.ndarray) -> object:
        side, seen = of(rows, solver=solver), rows
        for batch in batches:
            assert side.solve(np.eye(d)) is not None
            seen = np.vstack([seen, batch])
            side = side.with_rows(seen.T @ seen, batch, 1)
        return side.settled

    assert isinstance(form_after("auto"), Cholesky)
    assert isinstance(form_after("auto", few), Explicit)
    assert isinstance(form_after("auto", few, few), Explicit)
    assert isinstance(form_after("auto", few, many), Cholesky)
    assert isinstance(form_after("woodbury"), Explicit)
    assert isinstance(form_after("woodbury", many, rows), Explicit)
    assert isinstance(form_after("cholesky", few, few), Cholesky)


def test_few_rows_change_the_inverse_and_many_make_it_anew(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 40))
    calls = []
    monkeypatch.setattr(
        Explicit, "changed", lambda self, *args, change=Explicit.changed: calls.append(1) or change(self, *args)
    )
    for count, solver, expected in [(2, "auto", 1), (10, "auto", 0), (39, "woodbury", 1), (40, "woodbury", 0)]:
        side = RidgeInverse(rows.T @ rows, 100, 0.5, solver, n_new=1)
        assert isinstance(side.settled, Explicit)
        new = rng.normal(size=(count, 40))
        calls.clear()
        after = side.with_rows(side.gram + new.T @ new, new, 1)
        assert_allclose(after.solve(np.eye(40)), wanted(np.vstack([rows, new]), 0.5, np.eye(40)), atol=1e-10)
        assert len(calls) == expected


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 40))
    side = RidgeInverse(rows.T @ rows, 100, 0.5, "woodbury")
    side.solve(np.eye(40))
    for forbidden in ("changed", "measured"):
        monkeypatch.setattr(Explicit, forbidden, lambda *args: pytest.fail("computed too early"))
    for _ in range(100):
        new = rng.normal(size=(3, 40))
        side = side.with_rows(side.gram + new.T @ new, new, 1)
        assert side.rows is None or len(side.rows) < 40, "rows that wait must not pile up"


def test_rows_that_wait_are_copies():
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(60, 40)), rng.normal(size=(2, 40))
    side = of(rows, solver="woodbury")
    side.solve(np.eye(40))
    after, expected = np.vstack([rows, new]), wanted(np.vstack([rows, new]), 0.5, np.eye(40))
    side = side.with_rows(after.T @ after, new, 1)
    new[:] = 0.0
    assert_allclose(side.solve(np.eye(40)), expected, atol=1e-10)
    assert isinstance(side.settled, Explicit)
    assert not is_made_anew(side), "the rows were lost, and the loss repaired"


@over(every(**every_solver, n_columns=[1, 3]))
def test_a_copy_of_a_feature_costs_no_digits_of_predictions(solver, n_columns, library):
    # The inverse has entries of 1/λ, and products with it are rounded to those.
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    rng = np.random.default_rng(0)
    feature, labels = 2.0**14 * rng.normal(size=(30, 1)), rng.normal(size=(30, n_columns))
    rows = np.hstack([feature, feature])
    side = RidgeInverse(library.asarray(rows.T @ rows), 30, 1.0, solver, n_new=1)
    expected = feature @ (feature.T @ labels) / (feature.T @ feature + 0.5)
    found = library.to_numpy(side.solve(library.asarray(rows.T @ labels)))
    assert_allclose(rows @ found, expected, rtol=0, atol=1e-13)


@over(every(**every_solver))
def test_features_that_nearly_depend_on_others_are_warned_of_once(solver, library):
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 30))
    rows = np.column_stack([first, first + 6e-7 * second]) * [1e6, 1.0]
    gram, B = library.asarray(rows.T @ rows), library.asarray(rows.T @ first[:, None])
    side = RidgeInverse(gram, 30, 0.0, solver, n_new=1)
    with pytest.warns(PrecisionWarning, match="Features depend so nearly on others that beside a regularisation of 0 "):
        side.solve(B)
    assert not isinstance(side.settled, Eigen)
    assert side.with_rows(gram, library.asarray(rows[:1]), 1).solve(B).shape == (2, 1)  # warnings are errors
    assert RidgeInverse(gram, 30, 1.0, solver, n_new=1).solve(B).shape == (2, 1)


SCALES = 10.0 ** np.array([8.0, -8.0, 0.0, 4.0, -4.0, 1.0, 7.0, 0.0])


@over(every(**every_solver, constant=[False, True], alpha=[1e-6, 1.0, 1e3]))
def test_features_of_any_scales(solver, constant, alpha, library):
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(40, 8)) * SCALES, rng.normal(size=(40, 2))

    def fitted(some):
        exact = rows[some].astype(np.longdouble)
        exact = exact - exact.mean(axis=0) if constant else exact
        scale = np.sqrt((exact**2).sum(axis=0) + alpha)
        inner = (exact / scale).T @ (exact / scale) + np.diag(alpha / scale**2)
        target = (exact / scale).T @ labels[some]
        solved = np.linalg.solve(inner.astype(float), target.astype(float))
        return exact.astype(float), (solved / scale[:, None]).astype(float)

    known = list(range(30))
    features, _ = fitted(known)
    side = RidgeInverse(library.asarray(features.T @ features), 30, alpha, solver, n_new=1)
    for new, sign in (([30], 1), ([0, 1], -1), ([31, 32, 33], 1), (list(range(34, 40)), 1)):
        assert side.settled is not None
        mean = library.asarray(mean_of(rows[known])) if constant else None
        known = [*known, *new] if sign > 0 else [row for row in known if row not in new]
        features, weights = fitted(known)
        gram = library.asarray(features.T @ features)
        side = side.with_rows(gram, library.asarray(rows[new]), sign, mean)
        found = library.to_numpy(side.solve(library.asarray(features.T @ labels[known])))
        assert_allclose(features @ found, features @ weights, rtol=0, atol=1e-9)
        if isinstance(side.settled, Explicit):
            assert side.settled.drift < inverse.DRIFT_LIMIT
    for other in (0.0, 1e-9, 10.0):
        alpha = other
        features, weights = fitted(known)
        for form in (side.with_alpha(other), replace(side.with_alpha(other), form=side.eigen)):
            found = library.to_numpy(form.solve(library.asarray(features.T @ labels[known])))
            assert_allclose(features @ found, features @ weights, rtol=0, atol=1e-8)


def test_drift_is_seen_in_small_features_beside_large_ones():
    gram = np.diag([1e16, 1.0])
    wrong = np.diag([1e-16, 1.0 + 1e-6])
    assert Explicit(np.diag([1e-16, 1.0])).measured(gram, 0.0) < inverse.DRIFT_LIMIT
    assert Explicit(wrong).measured(gram, 0.0) > 1e-7
    small = np.diag([1e-16 * (1 + 1e-6), 1.0])
    assert Explicit(small).measured(gram, 0.0) > 1e-7


def test_woodbury_with_rows_added_and_removed():
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(30, 8)), rng.normal(size=(3, 8))
    M = np.linalg.inv(rows.T @ rows + 0.5 * np.eye(8))
    changed = Explicit(M).changed(np.vstack([new, rows[:2]]), np.array([1.0, 1.0, 1.0, -1.0, -1.0]))
    assert_allclose(changed.matrix, wanted(np.vstack([rows[2:], new]), 0.5, np.eye(8)), rtol=1e-10, atol=1e-12)
    assert_allclose(changed.matrix, changed.matrix.T, rtol=0)


def test_many_small_batches_between_two_questions_are_one_large_one():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 40))
    side = of(rows)
    side.solve(np.eye(40))
    for _ in range(5):
        new = rng.normal(size=(2, 40))
        side = side.with_rows(side.gram + new.T @ new, new, 1)
    assert isinstance(side.settled, Cholesky)


@over(every(**every_solver))
def test_without_regularisation_it_is_the_pseudo_inverse(solver):
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    B = rows.T @ np.array([[1.0], [3.0]])
    side = of(rows, 0.0, solver)
    assert_allclose(side.solve(B), np.linalg.pinv(rows.T @ rows) @ B, rtol=1e-10, atol=1e-12)
    assert isinstance(side.settled, Eigen)
    assert_allclose(of(np.zeros((1, 2)), 0.0, solver).solve(np.zeros((2, 1))), np.zeros((2, 1)))


@over(every(**every_solver))
def test_a_regularisation_beside_rounding_is_warned_of_once(solver):
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    B = rows.T @ np.array([[1.0], [3.0]])
    side = of(rows, 1e-18, solver)
    with pytest.warns(PrecisionWarning, match="A regularisation of 1e-18 is rounding beside the largest eigenvalue 25"):
        found = side.solve(B)
    assert_allclose(found, np.linalg.pinv(rows.T @ rows) @ B, rtol=1e-10, atol=1e-12)
    more = np.vstack([rows, rows])
    assert side.with_rows(more.T @ more, rows, 1).solve(B).shape == (3, 1)  # warnings are errors
    assert side.with_alpha(1e-19).solve(B).shape == (3, 1)
    # A feature of zeros is not dropped, and one that is small is none.
    for kept in (np.diag([1.0, 2.0, 0.0]), np.diag([1.0, 1e9, 0.0])):
        assert of(kept, 1e-18, solver).solve(B).shape == (3, 1)


@over(every(**every_solver, decomposed=[False, True]))
def test_another_regularisation_needs_no_other_decomposition(solver, decomposed, monkeypatch):
    rng = np.random.default_rng(0)
    rows, B = rng.normal(size=(20, 5)), rng.normal(size=(5, 2))
    side = of(rows, solver=solver)
    if decomposed:
        assert side.eigen.size == 5
    monkeypatch.setattr(inverse, "gram_eigen", lambda *given: pytest.fail("decomposed"))
    for alpha in (1e-3, 1.0, 1e3):
        side = side.with_alpha(alpha)
        assert_allclose(side.solve(B), wanted(rows, alpha, B), rtol=1e-9)
        assert isinstance(side.settled, Eigen) == decomposed
    more = np.vstack([rows, rows[:2] + 1])
    side = side.with_rows(more.T @ more, more[20:], 1)
    assert_allclose(side.solve(B), wanted(more, 1e3, B), rtol=1e-9)


@over(every(n_columns=[1, 4, 30]))
def test_few_and_many_columns(n_columns):
    # Few are solved by the factor, many by the inverse that is made from it, and then few by that too.
    rng = np.random.default_rng(0)
    rows, B = rng.normal(size=(30, 9)), rng.normal(size=(9, n_columns))
    side = of(rows, solver="cholesky")
    assert_allclose(side.solve(B), wanted(rows, 0.5, B), rtol=1e-10)
    assert ("inverse" in side.settled.__dict__) == (n_columns > 4)
    assert_allclose(side.solve(B[:, :1]), wanted(rows, 0.5, B[:, :1]), rtol=1e-10)


@over(every(wrong=[1e-9, np.nan]))
def test_an_inverse_that_drifted_is_made_anew(wrong):
    rng = np.random.default_rng(0)
    rows, new, B = rng.normal(size=(60, 20)), rng.normal(size=(2, 20)), rng.normal(size=(20, 3))
    side = of(rows, solver="woodbury")
    good = side.settled
    assert good.fresh_drift < 1e-13
    bad = Explicit(good.matrix + wrong * np.eye(20), good.fresh_drift)
    after = np.vstack([rows, new])
    for form in (good, bad):
        side = RidgeInverse(after.T @ after, 62, 0.5, "woodbury", form, new, np.ones(2))
        assert_allclose(side.solve(B), wanted(after, 0.5, B), rtol=1e-11, atol=1e-13)
        assert is_made_anew(side) == (form is bad)
        assert side.settled.drift < inverse.DRIFT_LIMIT


def test_an_ill_conditioned_inverse_is_not_made_anew_each_time():
    rng = np.random.default_rng(0)
    # Not a matter of scale alone, which a factorisation would not feel.
    shape = np.logspace(0, -4, 10)[:, None] * np.linalg.qr(rng.normal(size=(10, 10)))[0]
    rows = rng.normal(size=(60, 10)) @ shape
    side = of(rows, 1e-7, solver="woodbury")
    made_anew = 0
    assert side.settled.fresh_drift > inverse.DRIFT_LIMIT  # the condition costs digits, whatever the method
    for _ in range(10):
        new = rng.normal(size=(1, 10)) @ shape
        rows = np.vstack([rows, new])
        side = side.with_rows(rows.T @ rows, new, 1)
        B = rows.T @ rng.normal(size=(len(rows), 1))
        assert_allclose(side.solve(B), wanted(rows, 1e-7, B), rtol=1e-5)
        made_anew += is_made_anew(side)
    assert made_anew < 10


def test_rows_that_make_the_small_system_singular():
    # Removing what was never there: S + ΦMΦᵀ has no inverse, and the Gram matrix says what to do.
    side = RidgeInverse(np.eye(3), 3, 1.0, "woodbury", Explicit(np.eye(3)), np.array([[1.0, 0.0, 0.0]]), -np.ones(1))
    assert_allclose(side.solve(np.eye(3)), np.eye(3) / 2)


def test_the_identity_for_more_rows_than_features():
    # As printed in the paper the two sides do not even have the same shape.
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(6, 3)), rng.normal(size=(8, 3))
    M = np.linalg.inv(old.T @ old + np.eye(3))
    left = np.linalg.solve(np.eye(8) + new @ M @ new.T, new @ M)
    assert_allclose(left, new @ np.linalg.inv(new.T @ new + np.linalg.inv(M)), rtol=1e-10, atol=1e-12)
