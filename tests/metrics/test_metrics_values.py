"""Every metric against scikit-learn, scipy or a slow obvious twin, over grids of many kinds."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import metrics as sk

from dyadlearn import metrics
from dyadlearn.metrics import cells, concordance_index, roc_auc, scorer, scorer_names
from dyadlearn.metrics import ranks as concordance
from sweeps import covering, every, over


def auc_twin(y, f):
    return sk.roc_auc_score(y == TOP, f) if len(set(y)) > 1 else None


def average_precision_twin(y, f):
    return sk.average_precision_score(y == TOP, f) if (y == TOP).any() else None


def concordance_twin(y, f):
    wins = ((f[:, None] > f) + (f[:, None] == f) / 2)[y[:, None] > y]
    return np.mean(wins) if wins.size else None


def squared_error_twin(y, f):
    return sk.mean_squared_error(y, f) if len(y) else None


def absolute_error_twin(y, f):
    return sk.mean_absolute_error(y, f) if len(y) else None


def correlation_twin(correlate, y, f):
    if len(set(y)) < 2:
        return None
    return correlate(y, f).statistic if len(set(f)) > 1 else 0.0


def r2_twin(y, f):
    return sk.r2_score(y, f) if len(set(y)) > 1 else None


def chance_among_best(f, i, k):
    """Return the chance that cell i is among the best k when ties are broken at random."""
    before = (f > f[i]).sum()
    tied = (f == f[i]).sum()
    return min(max((k - before) / tied, 0), 1)


def hits(y, f, k):
    return sum(chance_among_best(f, i, k) for i in range(len(y)) if y[i] == TOP)


def precision_twin(y, f, k=3):
    return hits(y, f, min(k, len(y))) / min(k, len(y)) if len(y) else None


def recall_twin(y, f, k=3):
    return hits(y, f, k) / (y == TOP).sum() if (y == TOP).any() else None


def enrichment_twin(y, f):
    k = math.ceil(len(y) / 5)
    return hits(y, f, k) / k / (y == TOP).mean() if (y == TOP).any() else None


def ndcg_twin(y, f, k=3):
    if not (y > 0).any():
        return None
    discount = np.array([1 / math.log2(place + 2) if place < k else 0 for place in range(len(y))])
    gained = 0.0
    for i in range(len(y)):
        before = (f > f[i]).sum()
        tied = (f == f[i]).sum()
        gained += y[i] * discount[before : before + tied].mean()
    return gained / (np.sort(y)[::-1] @ discount)


# The label that is the positive class wherever labels are binary here.
TOP = 2.0
BINARY = "binary"
REAL = "real"
METRICS = {
    "roc_auc": (BINARY, auc_twin, {}),
    "average_precision": (BINARY, average_precision_twin, {}),
    "concordance_index": (REAL, concordance_twin, {}),
    "mean_squared_error": (REAL, squared_error_twin, {}),
    "mean_absolute_error": (REAL, absolute_error_twin, {}),
    "root_mean_squared_error": (REAL, squared_error_twin, {}),
    "r2": (REAL, r2_twin, {}),
    "pearson": (REAL, partial(correlation_twin, stats.pearsonr), {}),
    "spearman": (REAL, partial(correlation_twin, stats.spearmanr), {}),
    "precision_at_k": (BINARY, precision_twin, {"k": 3}),
    "recall_at_k": (BINARY, recall_twin, {"k": 3}),
    "ndcg_at_k": (REAL, ndcg_twin, {"k": 3}),
    "enrichment_factor": (BINARY, enrichment_twin, {"fraction": 0.2}),
}
AVERAGES = ("pooled", "instance", "task")


# The root is taken of the mean of the rows.
AFTERWARDS = {"root_mean_squared_error": math.sqrt}
# What selection calls metrics of which less is better.
LOSSES = ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error")


def averaged(name, Y, F, average):
    """Return a metric of vectors by its average, and the number of vectors that it is undefined for."""
    twin = METRICS[name][1]
    vectors = {
        "pooled": [(Y.ravel(), F.ravel())],
        "instance": list(zip(Y, F, strict=True)),
        "task": list(zip(Y.T, F.T, strict=True)),
    }[average]
    scores = [twin(y[~np.isnan(y)], f[~np.isnan(y)]) for y, f in vectors]
    defined = [score for score in scores if score is not None]
    return AFTERWARDS.get(name, float)(np.mean(defined)), len(scores) - len(defined)


def make_labels(kind, shape, seed, missing=0.0):
    rng = default_rng(seed)
    if kind == BINARY:
        Y = np.where(rng.random(shape) < 0.3, TOP, 1.0)
    else:
        # Some equal, some not, and rows and columns that are all alike.
        Y = np.round(rng.gamma(1.0, size=shape), 1)
    Y[0, :], Y[:, 1] = 1.0, 1.0
    # Each kind of label is there, whatever the seed.
    Y[1, 0], Y[2, 2] = TOP, 0.0 if kind == REAL else 1.0
    Y[rng.random(shape) < missing] = np.nan
    if missing:
        Y[3, :], Y[1, 0] = np.nan, TOP
    return Y


def make_predictions(kind, shape, seed):
    F = default_rng(1000 + seed).normal(size=shape)
    if kind == "tied":
        return np.round(F)
    if kind == "constant":
        return np.ones(shape)
    if kind == "infinite":
        return np.where(np.abs(F) > 1, np.sign(F) * np.inf, F)
    return F


def problem(name, seed, missing=0.3):
    """Return a metric, and labels and predictions for it."""
    kind, _, options = METRICS[name]
    Y = make_labels(kind, (7, 6), seed, missing)
    return (
        partial(getattr(metrics, name), **options),
        Y,
        make_predictions("distinct", Y.shape, seed),
    )


@over(
    covering(
        name=list(METRICS),
        missing=[0.0, 0.3],
        predictions=["distinct", "tied", "constant"],
        average=AVERAGES,
        shape=[(7, 6), (5, 17)],
    )
)
def test_metric_equals_its_twin(name, missing, predictions, average, shape, library):
    kind, _, options = METRICS[name]
    labels = library.asarray(make_labels(kind, shape, shape[0], missing))
    grid = library.asarray(make_predictions(predictions, shape, shape[0]))
    given = (library.to_numpy(values).astype(np.float64) for values in (labels, grid))
    expected, undefined = averaged(name, *given, average)
    metric = partial(getattr(metrics, name), **options, average=average)
    found = metric(labels, grid, return_undefined=True)
    assert isinstance(found[0], float)
    rtol = 1e-13 if library.name == "numpy" else max(library.rtol, 1e-12)
    assert_allclose(found[0], expected, rtol=rtol, atol=rtol / 10)
    assert found[1] == undefined
    scores = metric(labels, grid[None, ...])
    assert type(scores) is type(grid)
    assert library.to_numpy(scores).tolist() == [found[0]]


@over(
    covering(
        name=list(METRICS),
        average=AVERAGES,
        setting=[None, "A", "B", "C", "D"],
        missing=[0.0, 0.3],
        strength=1,
    )
)
def test_a_scorer_keeps_its_own_average(name, average, setting, missing):
    metric, Y, F = problem(name, 9, missing)
    expected, undefined = averaged(name, Y, F, average)
    sign = -1 if name in LOSSES else 1
    score = scorer(f"neg_{name}" if name in LOSSES else name, average=average, **metric.keywords)
    prepared = score.prepare(Y, setting=setting)
    assert_allclose(prepared(F), sign * expected, rtol=1e-13, atol=1e-14)
    assert prepared.n_undefined == undefined
    for other in AVERAGES:  # an explicit average is used in place of its own
        assert_allclose(
            score(Y, F, average=other),
            sign * averaged(name, Y, F, other)[0],
            rtol=1e-13,
            atol=1e-14,
        )


def test_a_stack_is_scored_grid_by_grid(each, monkeypatch):
    for name, average in each(product(METRICS, AVERAGES)):
        metric, Y, _ = problem(name, 3, 0.0)
        stack = default_rng(0).normal(size=(2, 3, 7, 6)).round(1)
        expected = [[metric(Y, F, average=average) for F in row] for row in stack]
        for limit in (1, 4 * cells.CELL_VALUES * Y.size, 2**21):
            monkeypatch.setattr("dyadlearn._array.BLOCK", limit)
            scores = metric(Y, stack, average=average)
            assert scores.shape == (2, 3)
            assert_array_equal(scores, expected)
        assert metric(Y, stack[:, :0], average=average).shape == (2, 0)


def test_what_lies_where_nothing_was_observed_does_not_count(each):
    for name, average in each(product(METRICS, AVERAGES)):
        metric, Y, F = problem(name, 5)
        expected = metric(Y, F, average=average)
        for junk in (np.nan, np.inf, -np.inf, 0.0):
            assert metric(Y, np.where(np.isnan(Y), junk, F), average=average) == expected


# Errors of held-out predictions that are rounding


@over(
    every(
        name=["neg_mean_squared_error", "neg_mean_absolute_error", "neg_root_mean_squared_error"],
        size=[1e-9, 7.0, 1e6],
        average=AVERAGES,
    )
)
def test_errors_of_held_out_predictions_are_zero_if_they_are_rounding(name, size, average):
    Y = np.full((3, 4), size)
    Y[1, 2] = np.nan
    judge = scorer(name)
    off = np.full((3, 4), 1e-13 * size)
    held_out = judge.prepare(Y, average=average, tie_tolerance=None)
    assert held_out(Y + off) == 0.0
    assert judge(Y, Y + off, average=average) < 0.0  # the metric itself counts them
    assert held_out(Y + 1e3 * off) == judge(Y, Y + 1e3 * off, average=average) < 0.0


def test_squared_errors_that_are_rounding_are_zero_without_predictions():
    Y = np.array([[7.0, 7.0], [7.0, 8.0]])
    for name, perfect in (
        ("neg_mean_squared_error", 0.0),
        ("neg_root_mean_squared_error", 0.0),
        ("r2", 1.0),
    ):
        prepared = scorer(name).prepare(Y, average="pooled", tie_tolerance=None)
        assert_array_equal(prepared.of_squared_errors(np.array([1e-26, 0.0])), [perfect, perfect])
        for score in (prepared.of_squared_errors(np.array([0.0]))[0], prepared(Y)):
            assert f"{score:g}" == f"{perfect:g}"  # which would be -0 for a negative zero
        assert prepared.of_squared_errors(np.array([1e-12]))[0] < perfect
    assert f"{metrics.mean_squared_error(Y, Y):g}" == "0"


@over(every(metric=[metrics.concordance_index, metrics.spearman], average=["pooled", "task"]))
def test_held_out_predictions_that_differ_by_rounding_are_tied(metric, average):
    """Wherever they stand among the others."""
    rng = default_rng(3)
    Y = rng.normal(size=(12, 5))
    F = rng.integers(0, 4, Y.shape) - 1.0
    nearly = F + 1e-15 * rng.normal(size=Y.shape)
    expected = metric(Y, F, average=average)
    assert metric(Y, nearly, average=average) != expected
    assert_allclose(metric(Y, nearly, average=average, tie_tolerance=None), expected, rtol=1e-12)


# The area under the ROC curve, and average precision


def test_the_larger_of_any_two_labels_is_the_positive_class(each):
    rng = default_rng(0)
    chosen, F = rng.random((5, 6)) < 0.4, rng.normal(size=(5, 6))
    for low, high in each([(-3.5, -3.25), (False, True), (7, 1e9)]):
        area = sk.roc_auc_score(chosen.ravel(), F.ravel())
        assert roc_auc(np.where(chosen, high, low), F) == area


def test_infinite_predictions_are_ranked_like_others():
    Y = make_labels(BINARY, (7, 6), 8, missing=0.3)
    F = make_predictions("infinite", Y.shape, 8)
    finite = np.clip(F, -1e9, 1e9)
    for average in AVERAGES:
        expected = averaged("roc_auc", Y, finite, average)[0]
        assert_allclose(roc_auc(Y, F, average=average), expected, rtol=1e-13)


def test_neighbouring_numbers_are_no_ties():
    one = 1.0
    more = np.nextafter(1.0, 2.0)
    assert roc_auc([1, 0], [more, one]) == 1.0
    assert roc_auc([1, 0], [one, more]) == 0.0
    assert roc_auc([1, 0], [one, one]) == 0.5
    assert roc_auc([1, 0], [0.0, -0.0]) == 0.5


# The concordance index


def test_concordance_where_only_left_out_rows_have_a_third_label():
    Y = np.array([[1.0, 2.0, 2.0], [5.0, 5.0, 5.0]])
    F = np.array([[0.3, 0.1, 0.4], [0.1, 0.2, 0.3]])
    assert concordance_index(Y, F, average="instance", return_undefined=True) == (0.5, 1)


def test_concordance_of_a_long_row(each, monkeypatch):
    for levels, key in each(product([3, 4, 5, 8, 9, 300], [0, 2**31])):
        monkeypatch.setattr(
            concordance, "_LARGEST_KEY", key
        )  # with the order of ranks packed in one number, or not
        rng = default_rng(levels)
        y = rng.integers(levels, size=300).astype(float)
        for f in (rng.normal(size=300) + y, rng.normal(size=300).round(1), y, -y, np.zeros(300)):
            above = y[:, None] > y[None, :]
            wins = (f[:, None] > f[None, :]) + 0.5 * (f[:, None] == f[None, :])
            assert_allclose(concordance_index(y, f), wins[above].mean(), rtol=1e-14)


def test_concordance_counts_more_pairs_than_32_bits_hold():
    n = 100_000
    order = default_rng(0).permutation(n).astype(float)
    assert concordance_index(order, order) == 1.0
    assert concordance_index(order, -order) == 0.0
    # Two neighbours swapped are one pair of n(n−1)/2 wrong.
    swapped = order + 1.5 * (order == 7)
    assert (1 - concordance_index(order, swapped)) * n * (n - 1) / 2 == pytest.approx(1, rel=1e-5)
    # The lowest label is predicted to be the highest: n−1 pairs are wrong.
    labels = np.arange(float(n))
    assert concordance_index(labels, np.roll(labels, 1)) == pytest.approx(1 - 2 / n, rel=1e-12)


# The best ranked cells, and the rest


def test_of_a_row_with_fewer_than_k_cells_all_are_taken():
    Y = np.array([[1.0, 0.0, np.nan], [0.0, 1.0, 0.0]])
    F = np.zeros((2, 3))
    assert_allclose(metrics.precision_at_k(Y, F, 5, average="instance"), (1 / 2 + 1 / 3) / 2)
    assert metrics.recall_at_k(Y, F, 5, average="instance") == 1.0


def test_best_fraction_is_rounded_up_but_not_for_the_noise_of_floats():
    y = np.zeros(100)
    y[:8] = 1
    f = -np.arange(100.0)
    # 0.07 · 100 is 7.000000000000001 in floating point.
    assert_allclose(metrics.recall_at_k(y, f, 7), 7 / 8)
    assert_allclose(metrics.enrichment_factor(y, -abs(f - f[7]), 0.07), 4 / 7 / 0.08)
    # However small the fraction, one cell is the best.
    for fraction in (0.001, 1e-15):
        assert_allclose(metrics.enrichment_factor(y, f, fraction), 1 / 0.08)
    assert metrics.enrichment_factor(y, f, 1) == 1.0


def test_scores_of_squared_errors_are_those_of_predictions(each):
    Y = make_labels(REAL, (7, 6), 4)
    stack = default_rng(0).normal(size=(3, 7, 6))
    errors = metrics.mean_squared_error(Y, stack)
    for name, average in each(product(scorer_names(), AVERAGES)):
        if METRICS.get(name.removeprefix("neg_"), [REAL])[0] == REAL and name != "precision_at_k":
            prepared = scorer(name).prepare(Y, average=average)
            of_errors = prepared.of_squared_errors
            knows = name in ("neg_mean_squared_error", "neg_root_mean_squared_error")
            assert (of_errors is not None) == (knows or (name, average) == ("r2", "pooled"))
            if of_errors is not None:
                assert_allclose(of_errors(errors), prepared(stack), rtol=1e-12)


# Correlations


def test_correlations_do_not_depend_on_level_or_scale(each):
    Y = make_labels(REAL, (7, 6), 12, missing=0.2)
    F = make_predictions("tied", Y.shape, 12)
    for name, (scale, level) in each(
        product(("pearson", "spearman"), [(1e-200, 0.0), (1e200, 0.0), (4.0, 2.0**20)])
    ):
        metric = getattr(metrics, name)
        for average in AVERAGES:
            expected = metric(Y, F, average=average)
            assert_allclose(metric(Y, scale * F + level, average=average), expected, rtol=1e-9)
            assert_allclose(metric(scale * Y + level, F, average=average), expected, rtol=1e-9)
            assert_allclose(metric(Y, -F, average=average), -expected, rtol=1e-13)


def test_perfect_correlations_are_not_beyond_one():
    rng = default_rng(0)
    for n in range(2, 60):
        y = rng.normal(size=n)
        assert 1 - 1e-12 < metrics.pearson(y, 0.1 * y + 0.3) <= 1
        assert -1 <= metrics.pearson(y, 7 - 0.1 * y) < -1 + 1e-12
        assert 1 - 1e-12 < metrics.spearman(y, np.exp(y)) <= 1


def test_equal_predictions_correlate_with_nothing():
    Y = np.array([[1.0, 2.0, 4.0], [3.0, np.nan, 1.0]])
    nearly = 0.1 + 1e-15 * np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]])
    for metric in (metrics.pearson, metrics.spearman):
        for average in AVERAGES:
            assert metric(Y, np.full(Y.shape, 0.1), average=average) == 0
            assert metric(Y, nearly, average=average) != 0
            assert metric(Y, nearly, average=average, tie_tolerance=None) == 0
            assert metric(Y, np.zeros(Y.shape), average=average, tie_tolerance=None) == 0


def test_infinite_predictions_have_ranks_but_no_line():
    Y = make_labels(REAL, (7, 6), 8, missing=0.3)
    F = make_predictions("infinite", Y.shape, 8)
    as_ranked = np.clip(F, -1e9, 1e9)
    for average in AVERAGES:
        assert metrics.spearman(Y, F, average=average) == metrics.spearman(
            Y, as_ranked, average=average
        )
        with pytest.raises(
            ValueError, match="F contains infinity where Y is observed: Pearson correlation needs"
        ):
            metrics.pearson(Y, F, average=average)


def test_float32_predictions_are_not_added_up_in_float32():
    Y = np.zeros((1000, 1000), np.float32)
    F = np.full((1000, 1000), 0.1, np.float32)
    assert_allclose(metrics.mean_squared_error(Y, F), float(np.float32(0.1)) ** 2, rtol=1e-12)


def test_each_row_is_told(each):
    for name in each(METRICS):
        kind, twin, options = METRICS[name]
        Y = make_labels(kind, (7, 6), 10, missing=0.3)
        stack = np.stack(
            [make_predictions(predictions, Y.shape, 10) for predictions in ("distinct", "tied")]
        )
        sign = -1 if name in LOSSES else 1
        after = AFTERWARDS.get(name, float)
        prepared = scorer(f"neg_{name}" if name in LOSSES else name, **options).prepare(
            Y, setting="B"
        )
        scores = prepared.each(stack)
        assert scores.shape == (2, prepared.rows.size)
        for F, of_rows in zip(stack, scores, strict=True):
            twins = [twin(y[~np.isnan(y)], f[~np.isnan(y)]) for y, f in zip(Y, F, strict=True)]
            assert_array_equal(
                prepared.rows, [row for row, score in enumerate(twins) if score is not None]
            )
            assert_allclose(
                of_rows, [sign * after(score) for score in twins if score is not None], rtol=1e-13
            )
        assert_allclose(prepared(stack), prepared.combined(scores))
