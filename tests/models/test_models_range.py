"""Numbers so large, so small or so alike that digits are lost: right answers or one clear sentence."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.linalg import hilbert

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.exceptions import KernelError, KernelRepairWarning, PrecisionWarning
from sweeps import every, lines, over

X, Y, T = problems.data(8, 5, 3, 2)
RNG = default_rng(1)
K = X @ X.T + np.eye(8)


def test_a_regularisation_too_small_to_divide_by_is_refused():
    for Model in (IndependentTaskRidge, TwoStepRidge, KroneckerRidge, OnlineTwoStepRidge):
        with pytest.raises(
            ValueError, match=r"^alpha is too small .* use 0 or at least 1e-300, found 1e-320\.$"
        ):
            Model(1e-320).fit(X, Y)
    with pytest.raises(
        ValueError,
        match=r"^alpha = 1e-305 vanishes beside eigenvalues of up to .*: use 0, or at least",
    ):
        KroneckerRidge(1e-305).fit(X, Y, T)
    model = KroneckerRidge(1e-285).fit(X, Y, T)
    for setting in "ABCD":
        assert np.isfinite(model.holdout(setting)).all()
    before = model.predict(X)
    with pytest.raises(ValueError, match="vanishes"):
        model.set_alpha(1e-305)
    assert_allclose(model.predict(X), before, rtol=0)


@over(every(scale=[1e160, 1e300]))
def test_labels_whose_squares_overflow_are_scored_as_any_others(scale):
    holes = np.where(np.arange(40).reshape(8, 5) == 7, np.nan, Y)
    for y in (Y, holes):
        small = TwoStepRidge().fit(X, y, T)
        large = TwoStepRidge().fit(X, y * scale, T)
        assert_allclose(large.predict(X) / scale, small.predict(X), rtol=1e-9)
        assert_allclose(large.score(X, y * scale), small.score(X, y), rtol=1e-9)


@over(lines("scale word", (1e200, "large"), (1e-200, "small")))
@over(every(form=[np.asarray, sparse.csr_array]))
def test_features_whose_kernel_leaves_the_range_are_refused(scale, word, form):
    sentence = rf"features are so {word} .*the kernel leaves the range of float64: scale them\.$"
    with pytest.raises(ValueError, match="^The instance " + sentence):
        TwoStepRidge().fit(form(X * scale), Y)
    with pytest.raises(ValueError, match="^The task " + sentence):
        KroneckerRidge().fit(X, Y, form(T * scale))


def test_kernels_too_small_to_divide_by_are_refused():
    for alpha in (0.0, 1.0):
        with pytest.raises(
            ValueError,
            match=r"^The eigenvalues of the instance kernel are so small .*: scale them\.$",
        ):
            IndependentTaskRidge(alpha, kernel="precomputed").fit(K * 1e-310, Y)
    with pytest.raises(ValueError, match=r"^The eigenvalues of the task kernel are so small"):
        TwoStepRidge(task_kernel="precomputed").fit(X, Y, (T @ T.T + np.eye(5)) * 1e-300)
    model = IndependentTaskRidge(0.0, kernel="precomputed").fit(K * 1e-280, Y)
    assert_allclose(
        model.holdout("B"), IndependentTaskRidge(0.0, kernel="precomputed").fit(K, Y).holdout("B")
    )


@over(lines("Model", IndependentTaskRidge, TwoStepRidge, KroneckerRidge))
def test_a_regularisation_beside_which_rounding_is_much_is_warned_of(Model):
    """The warning names the regularisation and the largest eigenvalue; without anything to lose there is none."""
    smooth = np.exp(-1e-3 * (np.arange(30.0)[:, None] - np.arange(30.0)) ** 2)
    options = {"kernel": "precomputed", "fit_intercept": False}
    with pytest.warns(
        PrecisionWarning,
        match=r"^alpha = 1e-13 is small beside .* instance kernel, \d.*, or scale the",
    ):
        Model(1e-13, **options).fit(smooth, RNG.normal(size=(30, 2)))
    Model(1e-9, **options).fit(smooth, RNG.normal(size=(30, 2)))
    Model(1e-13, **options).fit(np.eye(30), RNG.normal(size=(30, 2)))


def test_features_that_overflow_online_are_refused_and_nothing_is_lost():
    model = OnlineTwoStepRidge().fit(X, Y, T)
    before = model.coef_.copy()
    for rows, labels in ((X * 1e200, Y), (X * 1e150, Y * 1e200)):
        with pytest.raises(
            ValueError, match=r"^Sums of products .* overflow: scale X, Y or tasks down\.$"
        ):
            model.partial_fit(rows, labels)
    assert_allclose(model.coef_, before, rtol=0)


def test_an_almost_singular_kernel_without_regularisation_is_warned_of_once():
    with pytest.warns(
        PrecisionWarning, match=r"^The instance kernel is nearly singular: .*larger alpha\.$"
    ) as caught:
        IndependentTaskRidge(0.0, kernel="precomputed").fit(hilbert(12), RNG.normal(size=(12, 2)))
    assert len(caught) == 1
    model = IndependentTaskRidge(1e-6, kernel="precomputed").fit(
        hilbert(12), RNG.normal(size=(12, 2))
    )
    with pytest.warns(PrecisionWarning, match="instance kernel"):
        model.set_alpha(0.0)
    with pytest.warns(PrecisionWarning, match=r"^The task kernel .* with task_alpha=0"):
        TwoStepRidge(1.0, 0.0, task_kernel="precomputed").fit(
            X, RNG.normal(size=(8, 12)), hilbert(12)
        )


def test_a_negative_kernel_has_a_sentence_of_its_own():
    with pytest.raises(
        KernelError, match=r"^The instance kernel is negative: its eigenvalues .*minus the matrix"
    ):
        IndependentTaskRidge(kernel="precomputed").fit(-K, Y)
    with pytest.warns(KernelRepairWarning, match="is negative .*shifted up to zero"):
        model = IndependentTaskRidge(kernel="precomputed", repair="shift").fit(-K, Y)
    assert model.predict(-K).any()


def test_forgetting_what_was_far_larger_is_warned_of():
    for rows, labels in (
        (X[:1] * 1e8, Y[:1]),
        (X[:1], Y[:1] * 1e12),
        (X[:1] * [1.0, 1e8, 1.0], Y[:1]),
    ):
        model = OnlineTwoStepRidge().fit(X, Y, T)
        before = model.coef_.copy()
        model.partial_fit(rows, labels)
        with pytest.warns(
            PrecisionWarning, match="Fit a new model on the remaining data"
        ) as caught:
            model.forget(rows, labels)
        assert len(caught) == 1
        assert np.abs(model.coef_ - before).max() > 1e-9 * np.abs(before).max()


def test_ordinary_forgetting_is_not_warned_of():
    rng = default_rng(1)
    rows = rng.normal(size=(400, 5)) * [1.0, 1e3, 1e-3, 1.0, 1.0]
    labels = rng.normal(size=(400, 3))
    rows[:390, 3] = 0.0  # a feature that comes late, and one that goes early
    rows[200:, 4] = 0.0
    for alpha in (0.0, 1.0):
        model = OnlineTwoStepRidge(alpha).fit(rows, labels)
        for start in range(0, 380, 20):
            model.forget(rows[start : start + 20], labels[start : start + 20])
        model.forget(rows[380:395], labels[380:395])
        twin = OnlineTwoStepRidge(alpha).fit(rows[395:], labels[395:])
        assert_allclose(model.predict(rows[395:]), twin.predict(rows[395:]), rtol=1e-6, atol=1e-6)
        assert model.forget(rows[395:], labels[395:]).n_seen_ == 0
    tasks = OnlineTwoStepRidge().fit(X, Y * [1.0, 1.0, 1.0, 1.0, 1e3], T)
    assert tasks.forget_tasks([4]).n_tasks_ == 4
