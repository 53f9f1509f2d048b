"""The constants of models: labels that move take predictions with them, and who is left out is centred without.

The twins solve bordered systems, [[K + λI, 1], [1ᵀ, 0]], and know nothing of centred kernels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from sweeps import covering, every, over

M = 9
Q = 7
NEW = 3
X, Y, T = problems.data(M, Q, 4, 3, n_new=NEW)
ALPHA = 0.6
TASK_ALPHA = 0.3
FILTERS = [Tikhonov(), IteratedTikhonov(3), Landweber(5), SpectralCutoff()]


def wide(rows):
    """Return more features than rows."""
    return np.hstack([rows, np.sin(3 * rows), np.cos(2 * rows), rows**2])


# Kernel of a side, and what its rows, those of training first, come to.
FORMS: dict[str, tuple[str, Callable[[np.ndarray, int], Any]]] = {
    "primal": ("linear", lambda rows, n: rows),
    "sparse": ("linear", lambda rows, n: sparse.csr_array(rows)),
    "dual": ("linear", lambda rows, n: wide(rows)),
    "sparse dual": ("linear", lambda rows, n: sparse.csr_array(wide(rows))),
    "rbf": ("rbf", lambda rows, n: rows),
    "precomputed": ("precomputed", lambda rows, n: rbf_kernel(rows, rows[:n])),
}
MIXED = [(name, name) for name in FORMS] + [
    ("rbf", "primal"),
    ("primal", "dual"),
    ("sparse", "precomputed"),
]


def kernel_of(form, rows):
    """Return the kernel (n + new, n + new) of rows in a form."""
    if form in ("rbf", "precomputed"):
        return rbf_kernel(rows)
    rows = wide(rows) if "dual" in form else rows
    return rows @ rows.T


def fitted(name, forms, labels, dtype="float64", **options):
    """Return a fitted model, and rows and tasks to predict for: those of training, and new ones."""
    kernel, rows_of = FORMS[forms[0]]
    task_kernel, tasks_of = FORMS[forms[1]]
    rows = rows_of(X, M).astype(dtype)
    tasks = tasks_of(T, Q).astype(dtype)
    labels = labels.astype(dtype)
    if name == "independent":
        return (
            IndependentTaskRidge(ALPHA, kernel=kernel, **options).fit(rows[:M], labels),
            rows,
            None,
        )
    if name == "network":
        options = {"symmetry": "symmetric", **options}
        model = TwoStepRidge(ALPHA, ALPHA, kernel=kernel, **options).fit(rows[:M], labels)
        return model, rows, rows
    options |= {"kernel": kernel, "task_kernel": task_kernel}
    if name == "kronecker":
        model = KroneckerRidge(ALPHA, **options)
    else:
        model = TwoStepRidge(ALPHA, TASK_ALPHA, **options)
    return model.fit(rows[:M], labels, tasks[:Q]), rows, tasks


# --- what is learnt --------------------------------------------------------------------------------------------


@over(covering(form=list(FORMS), filter=FILTERS, alpha=[0.0, 1e-6, 1.0, 1e8]))
def test_constant_labels_are_constant_predictions(form, filter, alpha):
    """H1 = 1, for every filter and however much is regularised, also of rows that are new."""
    if alpha == 0 and isinstance(filter, Landweber | SpectralCutoff):
        return
    model, rows, tasks = fitted(
        "two-step", (form, form), np.full((M, Q), 3.0), filter=filter, task_filter=filter
    )
    model.set_alpha(alpha, alpha)
    assert_allclose(model.predict(rows, tasks), 3.0, rtol=1e-9)
    side = model.fitted_.training_problem.pairing.smoothers[0]
    assert_allclose(side.hat() @ np.ones(M), 1.0, rtol=1e-10)
    assert_allclose(side.residual() @ np.ones(M), 0.0, atol=1e-10)


@over(every(form={"dense": np.asarray, "sparse": sparse.csr_array}, value=[0.0, 1.0, 0.1, 1e6 / 3]))
def test_features_that_say_nothing_leave_the_means(form, value):
    rows = np.full((M, 2), value)
    tasks = np.full((Q, 3), value)
    model = TwoStepRidge(0.5, 0.2).fit(form(rows), Y, form(tasks))
    assert_allclose(model.predict(form(rows), form(tasks)), Y.mean(), rtol=1e-9)
    own = IndependentTaskRidge(0.5).fit(form(rows), Y)
    assert_allclose(own.holdout("B"), (Y.sum(axis=0) - Y) / (M - 1), rtol=1e-9)


# --- attributes --------------------------------------------------------------------------------------------------


@over(
    every(name=["two-step", "kronecker"], forms=[pair for pair in MIXED if "sparse" not in pair[0]])
)
def test_attributes_make_the_predictions(name, forms):
    model, rows, tasks = fitted(name, forms, Y + 10)
    given = []
    W = model.dual_coef_
    for form, entities, training in ((forms[0], X, M), (forms[1], T, Q)):
        is_primal = form == "primal"
        given.append(entities if is_primal else kernel_of(form, entities)[:, :training])
    if forms[0] == "primal":
        W = X[:M].T @ W
    if forms[1] == "primal":
        W = W @ T[:Q]
    x, t = given
    by_hand = (
        x @ W @ t.T + (x @ model.instance_coef_)[:, None] + t @ model.task_coef_ + model.intercept_
    )
    assert_allclose(model.predict(rows, tasks), by_hand, rtol=1e-9)
    assert type(model.intercept_) is float
    assert hasattr(model, "coef_") == (forms == ("primal", "primal"))
    if forms == ("primal", "primal"):
        assert_allclose(model.coef_, W, rtol=1e-9)
    own, rows, _ = fitted("independent", forms, Y + 10)
    W = own.coef_ if forms[0] == "primal" else own.dual_coef_
    assert_allclose(own.predict(rows), x @ W + own.intercept_, rtol=1e-9)


@over(every(value=[1, 0, None, "yes"]))
def test_an_intercept_is_there_or_not(value):
    with pytest.raises(TypeError, match=f"^fit_intercept must be True or False, found {value!r}"):
        TwoStepRidge(fit_intercept=value).fit(X[:M], Y)


# --- networks ----------------------------------------------------------------------------------------------------


def test_an_antisymmetric_network_has_main_effects_but_no_mean():
    """How strong nodes are, one less the other: a linear kernel has it without products of features."""
    strength = X[:M] @ [1.0, -2.0, 0.5, 3.0]
    labels = np.subtract.outer(strength, strength)
    model = TwoStepRidge(1e-9, 1e-9, symmetry="antisymmetric").fit(X[:M], labels)
    assert_allclose(
        model.predict(X, X), np.subtract.outer(*[X @ [1.0, -2.0, 0.5, 3.0]] * 2), atol=1e-6
    )
    assert_allclose(model.holdout("D"), labels, atol=1e-6)
    assert_allclose(model.instance_coef_, -model.task_coef_, atol=1e-12)
    assert_allclose(model.intercept_, 0.0, atol=1e-12)


# --- digits ------------------------------------------------------------------------------------------------------


@over(
    covering(
        offset=[2.0**13, -(2.0**23)],
        forms=[("primal", "primal"), ("dual", "dual"), ("primal", "dual")],
        alphas=[(1e-8, 1e-8), (0.5, 0.2), (1e6, 1e6)],
    )
)
def test_features_far_from_zero_keep_their_digits(offset, forms, alphas):
    """The offsets are added without rounding, so that what is without them is exact."""
    made = []
    for form, entities in zip(forms, (X, T), strict=True):
        rows = wide(entities) if form == "dual" else entities
        made.append(np.round(rows * 2**20) / 2**20)
    rows, tasks = made
    near, far = (
        TwoStepRidge(*alphas).fit(rows[:M] + shift, Y, tasks[:Q] + shift) for shift in (0.0, offset)
    )
    expected = near.predict(rows, tasks)
    problems.close(far.predict(rows + offset, tasks + offset), expected, 1e-9)
    for setting in "ABCD":
        problems.close(far.holdout(setting), near.holdout(setting), 1e-8, setting)


def test_a_mean_beside_large_features_keeps_its_digits():
    """What the ones have of a direction of small eigenvalue is no rounding: it is known from the features."""
    rng = np.random.default_rng(7)
    rows = 1e-7 * rng.normal(size=(9, 1)) - 7e-7
    tasks = np.full((2, 1), 2e10)
    labels = rng.normal(size=(9, 2)) + 5.0

    def pairs(first, second):
        return np.kron(*(np.column_stack([each, np.ones(len(each))]) for each in (first, second)))

    expected = Ridge(7.0, solver="svd").fit(pairs(rows, tasks), labels.ravel())
    found = KroneckerRidge(7.0).fit(rows, labels, tasks)
    new = tasks[:1] * 0.998
    assert_allclose(found.predict(rows, new)[:, 0], expected.predict(pairs(rows, new)), rtol=1e-9)
