"""Nested scores and intervals against loops that say what is meant."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import problems
from dyadlearn import IndependentTaskRidgeCV, KroneckerRidgeCV, Tasks, TwoStepRidge, TwoStepRidgeCV
from dyadlearn.exceptions import GridEdgeWarning, KernelError
from dyadlearn.metrics import roc_auc, scorer
from dyadlearn.selection.evaluate import Interval, bootstrap_interval
from dyadlearn.selection.nested import nested_score
from fair import fitted_in_folds
from sweeps import covering, lines, over

GRID = [0.03, 1.0]
quiet = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def make_data(m=13, q=10):
    return problems.data(m, q, 9, 7, noise=0.5, scale=None)


def make_search(cls, grid=GRID, **options):
    grids = {"task_alphas": grid} if cls is TwoStepRidgeCV else {}
    return cls(grid, **grids, **options)


@quiet
@over(
    lines(
        "cls letter scoring holes grouped",
        (TwoStepRidgeCV, "B", "concordance_index", False, False),
        (KroneckerRidgeCV, "C", "neg_mean_squared_error", False, True),
        (KroneckerRidgeCV, "D", "concordance_index", False, True),
        (TwoStepRidgeCV, "D", "neg_mean_squared_error", False, False),
        # In setting A the cells of a fold are hidden in the grid, and the search fills it.
        (TwoStepRidgeCV, "A", "neg_mean_squared_error", True, False),
        (KroneckerRidgeCV, "A", "concordance_index", False, False),
        (IndependentTaskRidgeCV, "A", "neg_mean_squared_error", True, False),
        (TwoStepRidgeCV, "B", "neg_mean_squared_error", True, True),
        (KroneckerRidgeCV, "C", "neg_mean_squared_error", True, False),
    )
)
def test_nested_equals_a_loop(cls, letter, scoring, holes, grouped):
    X, Y, T = make_data()
    Y = with_holes(Y) if holes else Y
    given = {
        "groups": np.arange(13) // 2 if grouped and letter in "BD" else None,
        "task_groups": list("aabbccddee") if grouped and letter in "CD" else None,
    }
    cv = 2 if holes and letter != "A" else None
    search = make_search(cls, setting=letter, scoring=scoring, cv=cv)
    found = nested_score(search, X, Y, T, cv=2, random_state=7, **given)
    F, fits = fitted_in_folds(search, (X, Y, T), letter, 7, **given)
    blocks = [test for _, test in fits]
    judge = scorer(scoring)
    scores = [judge(np.where(block, Y, np.nan), F, setting=letter) for block in blocks]
    assert found.setting == letter
    assert_allclose(found.predictions, F, rtol=1e-6, atol=1e-8)
    assert_allclose(found.fold_scores, scores, rtol=1e-6)
    # Rankings of pairs compare those of one fold.
    within = letter in "AD" and scoring == "concordance_index"
    expected = np.mean(scores) if within else judge(Y, F, setting=letter)
    assert_allclose(found.score, expected, rtol=1e-6)
    assert_array_equal(found.alphas, [inner.alpha_ for inner, _ in fits])
    if cls is TwoStepRidgeCV:
        assert_array_equal(found.task_alphas, [inner.task_alpha_ for inner, _ in fits])
    else:
        assert found.task_alphas is None
    assert len(found.fold_scores) == (4 if letter == "D" else 2)
    assert not hasattr(search, "alpha_")


def with_holes(Y):
    return problems.with_holes(Y, 0.3)


@quiet
def test_nested_kernel_grids_sparse_features_and_vectors():
    X, Y, T = make_data()
    grid = [{"gamma": 0.01}, {"gamma": 1.0}]
    search = make_search(TwoStepRidgeCV, kernel="rbf", kernel_grid=grid)
    found = nested_score(search, X, Y, Tasks(T), cv=2, random_state=1)
    assert_allclose(found.predictions, fitted_in_folds(search, (X, Y, T), "B", 1)[0])
    search = make_search(TwoStepRidgeCV, setting="D")
    dense = nested_score(search, X, Y, T, cv=2, random_state=1)
    cut = nested_score(search, sparse.csc_array(X), Y, sparse.csr_array(T), cv=2, random_state=1)
    assert_allclose(cut.predictions, dense.predictions, rtol=1e-6, atol=1e-8)
    vector = nested_score(IndependentTaskRidgeCV(GRID), X, Y[:, 0], cv=3, random_state=1)
    assert vector.predictions.shape == (13,)
    assert_allclose(vector.score, -np.mean((vector.predictions - Y[:, 0]) ** 2))


@quiet
def test_nested_frames_are_aligned_by_id():
    X, Y, T = make_data()
    rows = [f"i{i}" for i in range(13)]
    columns = [f"t{j}" for j in range(10)]
    X = X @ X.T
    frames = pd.DataFrame(X, rows, rows), pd.DataFrame(T, columns)
    labels = pd.DataFrame(Y, pd.Index(rows, name="drug"), columns)
    groups = pd.Series(np.arange(13) // 2, rows)
    rng = default_rng(0)
    search = make_search(TwoStepRidgeCV, setting="D", kernel="precomputed")
    plain = nested_score(search, X, Y, T, groups=groups.to_numpy(), cv=2, random_state=3)
    found = nested_score(
        search,
        frames[0].iloc[rng.permutation(13)],
        labels,
        frames[1].iloc[rng.permutation(10)],
        groups=groups.iloc[rng.permutation(13)],
        cv=2,
        random_state=3,
    )
    pd.testing.assert_frame_equal(
        found.predictions, pd.DataFrame(plain.predictions, labels.index, columns)
    )
    assert_allclose(found.score, plain.score)


@quiet
def test_nested_array_libraries():
    strict = pytest.importorskip("array_api_strict")
    data = make_data(9, 7)
    X, Y, T = map(strict.asarray, data)
    search = TwoStepRidgeCV(GRID, [1.0], setting="B")
    found = nested_score(search, X, Y, T, cv=2, random_state=3)
    expected = nested_score(search, *data, cv=2, random_state=3)
    assert type(found.predictions) is type(Y)
    assert_array_equal(found.alphas, expected.alphas)
    assert_allclose(np.from_dlpack(found.predictions), expected.predictions, atol=1e-9)


@quiet
def test_folds_without_a_score():
    X, _, T = make_data()
    Y = np.zeros((13, 10))
    Y[:, :3] = 1.0
    search = make_search(TwoStepRidgeCV, setting="C", scoring="roc_auc")
    Y[0] = np.arange(10) % 2
    found = nested_score(search, X, Y, T, random_state=0)
    assert_allclose(found.score, roc_auc(Y, found.predictions, setting="C"))
    defined = ~np.isnan(found.fold_scores)
    assert 0 < defined.sum() < 5


def test_edges_are_told_once():
    X, Y, T = make_data()
    with pytest.warns(
        GridEdgeWarning, match="In 4 of 4 folds a best regularisation is on the edge"
    ) as seen:
        nested_score(
            TwoStepRidgeCV([1e-5, 1e-4], [1e7, 1e8], setting="D"),
            X,
            Y,
            T,
            cv=2,
            random_state=0,
        )
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nested_score(TwoStepRidgeCV([1.0], [1.0], setting="D"), X, Y, T, cv=2, random_state=0)


def test_nested_progress_is_one_bar(capfd):
    X, Y, T = make_data()
    nested_score(TwoStepRidgeCV([1.0], [1.0]), X, Y, T, cv=2)
    assert capfd.readouterr().err == ""
    nested_score(TwoStepRidgeCV([1.0], [1.0], progress=True), X, Y, T, cv=2)
    error = capfd.readouterr().err
    assert error.count("Nested folds") == 1
    assert "Landscape" not in error


@over(
    lines(
        "search given error message",
        (
            TwoStepRidgeCV(setting="A"),
            {"groups": np.arange(13)},
            ValueError,
            "setting A leaves none out",
        ),
        (
            TwoStepRidgeCV(setting="C"),
            {"tasks": None},
            ValueError,
            "Setting C leaves out tasks: give tasks=",
        ),
        (TwoStepRidge(), {}, TypeError, "^TwoStepRidge has no search, so evaluate"),
        (IndependentTaskRidgeCV(setting="D"), {}, ValueError, "this model knows nothing of tasks"),
        (
            TwoStepRidgeCV(kernel="precomputed"),
            {},
            KernelError,
            r"must be a square matrix, found shape \(13, 9\)",
        ),
        (TwoStepRidgeCV(), {"y": np.full((13, 10), np.nan)}, ValueError, "Y is NaN everywhere"),
        (TwoStepRidgeCV(), {"cv": 1}, ValueError, "cv must be a whole number of at least 2"),
        (TwoStepRidgeCV(), {"task_groups": np.arange(10)}, ValueError, "setting B leaves none out"),
        (
            TwoStepRidgeCV(),
            {"groups": [1, 2]},
            ValueError,
            "groups must have one value for each of 13 rows",
        ),
    )
)
def test_nested_bad_input(search, given, error, message):
    X, Y, T = make_data()
    with pytest.raises(error, match=message):
        nested_score(search, **({"X": X, "y": Y, "tasks": T} | given))


def draws(random, m, q, over, n_resamples):
    """Yield rows and columns as the interval draws them."""
    for _ in range(n_resamples):
        if over in ("instances", "both"):
            rows = random.randint(m, size=m)
        else:
            rows = np.arange(m)
        if over in ("tasks", "both"):
            columns = random.randint(q, size=q)
        else:
            columns = np.arange(q)
        yield rows, columns


@over(
    covering(
        over=["instances", "tasks", "both"],
        average=["pooled", "instance", "task"],
        scoring=["roc_auc", "neg_root_mean_squared_error", "r2", "precision_at_2", "callable"],
    )
)
def test_interval_equals_a_loop(scoring, average, over):
    rng = default_rng(0)
    Y = (rng.random((7, 6)) < 0.3).astype(float)
    Y[0], Y[:, 1] = 0, 0
    F = rng.normal(size=(7, 6))
    scoring = (
        (lambda Y, F: float(np.max(Y * F) if Y.any() else np.nan))
        if scoring == "callable"
        else scoring
    )
    found = bootstrap_interval(
        Y, F, scoring, average=average, over=over, n_resamples=12, coverage=0.8, random_state=3
    )
    scores = []
    undefined = 0
    for rows, columns in draws(np.random.RandomState(3), 7, 6, over, 12):
        try:
            score = scorer(scoring)(Y[rows][:, columns], F[rows][:, columns], average=average)
        except ValueError:
            score = np.nan
        undefined += np.isnan(score)
        scores += [] if np.isnan(score) else [score]
    assert_allclose(found.score, scorer(scoring)(Y, F, average=average))
    assert_allclose((found.low, found.high), np.quantile(scores, [0.1, 0.9]))
    assert (found.coverage, found.n_resamples, found.n_undefined) == (
        0.8,
        12 - undefined,
        undefined,
    )


def test_labels_that_are_not_observed_do_not_count():
    rng = default_rng(0)
    Y, F = rng.normal(size=(2, 8, 6))
    Y[rng.random((8, 6)) < 0.3] = np.nan
    found = bootstrap_interval(Y, F, n_resamples=40, random_state=0)
    F[np.isnan(Y)] = 1e9
    assert bootstrap_interval(Y, F, n_resamples=40, random_state=0) == found


def test_how_an_interval_reads():
    assert (
        str(Interval(0.87021, 0.85, 0.88123, 0.95, 1000, 0))
        == "0.8702 (95 % interval 0.85 … 0.8812)"
    )


@over(
    lines(
        "given message",
        ({"over": "cells"}, "over must be one of 'instances', 'tasks', 'both', found 'cells'"),
        ({"n_resamples": 2.5}, "n_resamples must be a whole number"),
        ({"coverage": 95}, "coverage must be a number between 0 and 1, found 95"),
        ({"F": np.ones((3, 4, 5))}, "F must be one grid of predictions"),
        ({"F": np.ones((4, 4))}, "a prediction for each of the 4 × 5 labels"),
        ({"Y": np.ones((1, 5)), "F": np.ones((1, 5))}, "only 1 of the instances to resample"),
        ({"setting": "B", "average": "pooled"}, "Give average or setting, not both"),
        ({"scoring": "roc_auc", "Y": np.ones((4, 5))}, "labels of exactly two values"),
        (
            {"scoring": lambda Y, F: float("nan"), "n_resamples": 30},
            "undefined in all 30 resamples",
        ),
    )
)
def test_interval_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(**({"Y": np.ones((4, 5)), "F": np.ones((4, 5))} | given))
