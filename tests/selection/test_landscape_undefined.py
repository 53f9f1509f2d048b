"""What has no score: a column, a regularisation, all of them."""

import warnings

import numpy as np
import pytest

import problems
from dyadlearn import IndependentTaskRidgeCV, KroneckerRidgeCV, TwoStepRidgeCV, landscape
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from sweeps import every, lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

GRID = [0.1, 1.0, 10.0]
X, Y, T = problems.data(20, 4, 3, 2)
EMPTY = np.where(np.arange(4) == 1, np.nan, Y)
# The last row is like no other, and the kernel is singular: without regularisation it is
# interpolated.
SINGULAR = np.diag([1.0, 1.0, 0.0])


# A task without labels has zeros for predictions, not NaN, and the kernel above a null space.
PAPER = {"fit_intercept": False}


@over(
    every(
        search=[
            IndependentTaskRidgeCV([0.0, 0.1, 1.0], kernel="precomputed", **PAPER),
            IndependentTaskRidgeCV(
                [0.0, 0.1, 1.0], kernel="precomputed", alpha_per_task=True, **PAPER
            ),
            KroneckerRidgeCV([0.0, 0.1, 1.0], kernel="precomputed", setting="B", **PAPER),
            TwoStepRidgeCV([0.0, 0.1, 1.0], [1.0], kernel="precomputed", setting="B", **PAPER),
        ]
    )
)
def test_a_regularisation_without_a_score_is_not_chosen(search):
    with pytest.warns(
        UndefinedScoreWarning, match="setting B there is no score for alpha 0, where"
    ) as seen:
        search.fit(SINGULAR, Y[:3], T)
    assert {warning.filename for warning in seen} == {__file__}
    assert np.isnan(search.landscape_[0]).all()
    assert np.isfinite(search.landscape_[1:]).all()
    assert np.all(search.alpha_ > 0)
    with pytest.raises(LeverageError, match="leverage 1"):
        search.set_params(alphas=[0.0]).fit(SINGULAR, Y[:3], T)


def test_kernel_parameters_without_a_score_are_not_chosen():
    """A width that makes all rows alike, or each its own, interpolates whatever alpha is."""
    grid = [{"degree": 1, "gamma": 1.0, "coef0": 0.0}, {"degree": 1, "gamma": 1e-3, "coef0": 1.0}]
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    search = IndependentTaskRidgeCV([0.0, 1e-290], kernel="polynomial", kernel_grid=grid, **PAPER)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search.fit(rows, Y[:4])
    assert np.isnan(search.landscape_[0, 0, 0])
    assert search.best_score_ == np.nanmax(search.landscape_)
    assert (
        len([warning for warning in seen if issubclass(warning.category, UndefinedScoreWarning)])
        == 1
    )


@over(
    lines(
        "search shape groups message",
        (TwoStepRidgeCV(), (1, 3), None, "each instance .* only 1 sample with labels"),
        (TwoStepRidgeCV(setting="C"), (3, 1), None, "each task .* only 1 task with labels"),
        (TwoStepRidgeCV(setting="A"), (1, 1), None, "only 1 sample and 1 task with a label"),
        (IndependentTaskRidgeCV(setting="A"), (1, 3), None, "only 1 sample with labels"),
        (KroneckerRidgeCV(setting="D"), (4, 3), [7] * 4, "only 1 group of instances with labels"),
    )
)
def test_something_must_be_left_to_learn_from(search, shape, groups, message):
    m, q = shape
    with pytest.raises(ValueError, match=f"Setting . leaves out .*{message}"):
        search.fit(X[:m], Y[:m, :q], T[:q], groups=groups)
    # Rows and columns without labels are nothing to learn from.
    hidden = np.full((m + 2, 4), np.nan)
    hidden[:m, :q] = Y[:m, :q]
    groups = None if groups is None else [*groups, 1, 2]
    with pytest.raises(ValueError, match="leaves out"):
        search.fit(X[: m + 2], hidden, T, groups=groups)


def test_a_single_row_is_enough_where_pairs_are_left_out():
    search = TwoStepRidgeCV(GRID, GRID, setting="A").fit(X[:1], Y[:1], T)
    assert np.isfinite(search.landscape_).all()
    assert np.isfinite(landscape(search, setting="AC")["C"]).all()


def test_one_label_whose_square_is_no_number_is_refused():
    labels = Y.copy()
    labels[0, 0] = 1e160
    with pytest.raises(ValueError, match="square of the largest label of Y, 1e\\+160"):
        TwoStepRidgeCV(GRID, GRID).fit(X, labels, T)


@over(every(scale=[1e160, 1e-170]))
def test_labels_whose_squares_are_no_numbers_are_refused(scale):
    for search in (
        TwoStepRidgeCV(GRID, GRID, setting="D"),
        KroneckerRidgeCV(GRID),
        IndependentTaskRidgeCV(GRID, scoring="r2"),
    ):
        for labels in (Y * scale, EMPTY * scale):
            with pytest.raises(
                ValueError, match="square of the largest label of Y, .*, is out of the range of f"
            ):
                search.fit(X, labels, T)
    ranked = IndependentTaskRidgeCV(GRID, scoring="concordance_index").fit(X, Y * scale)
    assert (
        ranked.best_score_
        == IndependentTaskRidgeCV(GRID, scoring="concordance_index").fit(X, Y).best_score_
    )
