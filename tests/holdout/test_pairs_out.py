"""Leave-pair-out: samples of pairs, and scores of rows that are drawn again."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from counting import asarray, multiplications
from dyadlearn import KroneckerRidge
from dyadlearn.holdout import pairs_out, planning
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.kernels import gram
from dyadlearn.metrics import scorer
from dyadlearn.pairing.inverses import routes
from dyadlearn.settings import Setting
from fair import pairs_in_order
from problems import pattern, problem
from sweeps import every, over

RBF = {"kernel": "rbf", "task_kernel": "rbf"}


def posed(shape, average=None, missing=0.0):
    """Return a fitted model, its labels, and the plan to leave pairs out."""
    X, Y, T = problems.data(*shape, seed=2, missing=missing)
    # Labels that no model can order as they are.
    drawn = np.random.default_rng(1).random(Y.shape) < 0.5
    Y = np.where(np.isnan(Y), np.nan, drawn)
    model = KroneckerRidge(0.5, **RBF, tol=1e-13).fit(X, Y, tasks=T)
    return model, Y, PairsOut.of(model.fitted_.training_problem, scorer("roc_auc", average=average))


def without(kernel, labels, left_out):
    """Return the predictions for all cells by the model without some of them."""
    seen = np.setdiff1d(np.flatnonzero(~np.isnan(labels)), left_out)
    dual, _ = problems.bordered(kernel[np.ix_(seen, seen)] + 0.5 * np.eye(seen.size), labels[seen])
    return kernel[:, seen] @ dual


def wins(model, Y):
    """Yield each two cells with different labels, the higher one first, and whether dense refits order them so.

    The first answer is that of the model without both labels, the second that of two models without
    one each.
    """
    P = np.kron(*(gram(side.features, kernel="rbf") + 1.0 for side in model.fitted_.sides))
    labels = Y.ravel()
    alone = np.array([without(P, labels, [cell])[cell] for cell in range(labels.size)])
    for high, low in product(np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)):
        both = without(P, labels, [high, low])
        won = float(both[high] > both[low])
        won_alone = float(alone[high] > alone[low])
        yield divmod(high, Y.shape[1]), divmod(low, Y.shape[1]), won, won_alone


def test_a_sample_adds_to_leave_one_out_what_it_gains_between_different_rows():
    model, Y, plan = posed((6, 4))
    outcomes = list(wins(model, Y))
    alone = np.mean([won_alone for *_, won_alone in outcomes])
    gain = np.mean([won - of_one for high, low, won, of_one in outcomes if high[0] != low[0]])
    sampled = replace(plan, n_sampled=4_000)
    found = sampled.score().score
    assert sampled.method == "leave-pair-out, sampled"
    assert abs(found - (alone + gain)) < 0.01 < abs(gain)
    assert sampled.score().score == found


def test_a_small_sample_is_close_to_all_pairs():
    _, _, plan = posed((40, 12))
    assert_allclose(replace(plan, n_sampled=200).score().score, plan.score().score, atol=0.01)


def test_complete_labels_are_sampled_however_many_regularisations_there_are():
    """Leave-one-out alone would give noise an area near 0 where the model smooths much."""
    _, _, plan = posed((40, 12))
    found = PairsOut.of(plan.problem, plan.judge, 10**12)
    assert (plan.n_sampled, found.n_sampled > 0) == (0, True)


def test_comparisons_are_affordable_by_the_time_of_the_processor(monkeypatch):
    """They are made there, wherever the products are."""
    _, _, plan = posed((40, 12))
    monkeypatch.setattr(planning, "is_on_gpu", lambda array: True)
    monkeypatch.setattr(planning, "_MOST_WORK", plan.route.work)
    assert PairsOut.of(plan.problem, plan.judge).n_sampled > 0


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("average", "axis"), [("instance", 0), ("task", 1)])
def test_rows_that_are_drawn_several_times_count_several_times(average, axis, missing):
    model, Y, plan = posed((7, 5), average, missing)
    drawn = np.array([5, 6, 0, 0, 3, 2, 2]), np.array([0, 1, 1, 3, 4])
    counts = [np.bincount(of_side, minlength=n) for of_side, n in zip(drawn, Y.shape, strict=True)]
    weights = np.outer(*counts)
    won = np.zeros(Y.shape[axis])
    total = np.zeros(Y.shape[axis])
    for high, low, is_won, _ in wins(model, Y):
        if high[axis] == low[axis]:
            weight = weights[high] * weights[low]
            won[high[axis]] += weight * is_won
            total[high[axis]] += weight
    is_scored = total > 0
    expected = np.average((won / np.maximum(total, 1))[is_scored], weights=counts[axis][is_scored])
    assert len(set(won[is_scored] / total[is_scored])) > 1
    assert_allclose(plan.resampled(model.fitted_.labels.values, [drawn]), [expected], rtol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("metric", ["roc_auc", "concordance_index"])
def test_scores_do_not_depend_on_the_sizes_of_blocks(metric, missing, monkeypatch):
    X, Y, T = problems.data(7, 5, seed=2, missing=missing)
    if metric == "roc_auc":
        Y = np.where(np.isnan(Y), np.nan, np.random.default_rng(1).random(Y.shape) < 0.5)
    model = KroneckerRidge(0.5, **RBF, tol=1e-13).fit(X, Y, tasks=T)
    plan = PairsOut.of(model.fitted_.training_problem, scorer(metric))
    expected = plan.score().score
    monkeypatch.setattr(pairs_out, "_BLOCK_NUMBERS", 100)
    monkeypatch.setattr(pairs_out, "_CACHED_NUMBERS", 30)
    assert_allclose(plan.score().score, expected, rtol=1e-13)


def test_weighted_labels_of_few_features_leave_pairs_out():
    X, Y, T = problems.data(5, 4, seed=2, missing=0.1)
    # Few different rows have few features.
    X, T = X[[0, 0, 1, 1, 2]], T[[0, 0, 1, 1]]
    Y = np.where(np.isnan(Y), np.nan, np.random.default_rng(1).random(Y.shape) < 0.5)
    weights = 10 ** np.random.default_rng(0).uniform(-1, 1, Y.shape)
    model = KroneckerRidge(0.5, **RBF, tol=1e-13).fit(X, Y, tasks=T, sample_weight=weights)
    plan = PairsOut.of(model.fitted_.training_problem, scorer("roc_auc"))
    plan = replace(plan, route=replace(plan.route, name="features"))
    assert_allclose(plan.score().score, pairs_in_order(model, Y, weights)["pooled"], rtol=1e-12)


@over(every(kind=["full", "thin"], missing=["none missing", "5%", "50%"]))
def test_work_is_what_is_multiplied(kind, missing, monkeypatch):
    monkeypatch.setattr(pairs_out, "_OF_A_PAIR", 0.0)
    shape = (9, 7)
    observed = pattern(missing, shape, np.random.default_rng(0))
    labels = np.where(observed, np.arange(63.0).reshape(shape) % 5, np.nan)
    given = problem("kronecker", shape, (kind, kind), put=asarray, labels=lambda *_: labels)
    judge = scorer("roc_auc")
    units = [np.arange(given.labels.size)]
    ways = routes(given.pairing, given.labels, Setting.A, units)
    if given.labels.is_full:
        ways = [PairsOut.of(given, judge).route]
    for way in ways:
        compared = PairsOut(given, judge, way)
        assert 0.7 < compared.cost.work / multiplications(compared.score) < 1.8, way
