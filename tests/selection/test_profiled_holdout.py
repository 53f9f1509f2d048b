"""Held-out predictions of models that describe instances and tasks by their labels: no label tells of itself."""

import functools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.sweeps import lines, over

from dyadlearn import LearnedKernelRidge, evaluate, landscape, load, save
from dyadlearn.holdout import holdout
from dyadlearn.kernels import Descriptions
from dyadlearn.labels import Labels
from dyadlearn.learning.mixture import Mixture, Parameters, profile_kernels
from dyadlearn.settings import Setting

M = 10
Q = 7


def _data(setting="A", seed=0):
    """Return instances, tasks and labels, of which a side that is known is told by its labels rather than features."""
    rng = np.random.default_rng(seed)
    U, V, noise, others = (rng.normal(size=(n, 2)) for n in (M, Q, M, Q))
    Y = np.sin(U) @ V.T + 3
    X = noise if setting == "C" else U
    T = V if setting == "C" else others
    return X, T, np.where(rng.random(Y.shape) < 0.15, np.nan, Y)


def _model(**given):
    return LearnedKernelRidge(**{"setting": "A", "n_steps": 2, "cv": 2, "stages": 2, **given})


def _profiled(setting="A"):
    """Return a model with profiles, and its data."""
    X, T, Y = _data(setting)
    return pickle.loads(_stored(setting)), X, T, Y


@functools.cache
def _stored(setting):
    """Return a model with profiles, pickled, so that each test has one of its own."""
    X, T, Y = _data(setting)
    model = _model(setting=setting).fit(X, Y, tasks=T)
    assert model.n_stages_ == 2
    return pickle.dumps(model)


def _dense_stage(grams, task_grams, own, Y, train):
    """Return what one stage predicts for all cells, from one dense system of the cells that are learned from."""
    K, G = (
        Mixture(each, [True] * len(each), True).mixed(logits, exponents).kernel
        for each, logits, exponents in zip(
            (grams, task_grams), own.weights, own.exponents, strict=True
        )
    )
    a, b, c = own.pair_shares
    m, q = Y.shape
    P = a * np.kron(K, G) + b * np.kron(K, np.eye(q)) + c * np.kron(np.eye(m), G)
    here = np.flatnonzero(train.ravel())
    n = here.size
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = P[np.ix_(here, here)] + own.lam * np.eye(n), 0.0
    solved = np.linalg.solve(system, np.append(Y.ravel()[here], 0.0))
    return (P[:, here] @ solved[:-1] + solved[-1]).reshape(m, q)


def _dense_stages(model, X, T, Y, train, profiled):
    """Return what the stages of a model predict without some cells, step by step."""
    grams, task_grams = (
        [kernel.blocks(rows)[0]]
        for kernel, rows in zip(model.fitted_.described.kernels, (X, T), strict=True)
    )
    start = Parameters.start([Mixture(grams, [True], True), Mixture(task_grams, [True], True)])
    F = _dense_stage(grams, task_grams, start.of(np.array(model.fitted_.learned.path[0])), Y, train)
    grams = [*grams, *(profile_kernels(F) if profiled[0] else [])]
    task_grams = [*task_grams, *(profile_kernels(F.T) if profiled[1] else [])]
    start = Parameters.start(
        [Mixture(each, [True] * len(each), True) for each in (grams, task_grams)]
    )
    return _dense_stage(
        grams, task_grams, start.of(np.array(model.fitted_.learned.path[1])), Y, train
    )


@over(lines("own asked", ("A", "A"), ("B", "B"), ("C", "C")))
def test_folds_go_through_all_stages_with_their_own_labels(own, asked):
    model, X, T, Y = _profiled(own)
    setting = Setting(asked)
    observed = ~np.isnan(Y)
    cells = np.arange(M * Q).reshape(M, Q) % 3
    if asked == "A":
        codes = cells
    else:
        codes = np.broadcast_to((np.arange(M) % 3)[:, None], Y.shape)
    given = {"cells": cells} if asked == "A" else {"groups": np.arange(M) % 3}
    if asked == "C":
        codes = np.broadcast_to(np.arange(Q) % 3, Y.shape)
        given = {"task_groups": np.arange(Q) % 3}
    found = model.holdout(asked, **given)
    for fold in range(3):
        here = codes == fold
        wanted = _dense_stages(model, X, T, Y, observed & ~here, (own != "B", own != "C"))
        # In single precision, to a residual of 10⁻⁵ in each stage.
        assert_allclose(found[here], wanted[here], atol=5e-4)
    assert setting in model.fitted_.settings


@over(lines("own", "A", "B"))
def test_what_was_learned_with_is_what_is_held_out(own):
    model, _, _, Y = _profiled(own)
    found = model.holdout(own)
    observed = ~np.isnan(Y)
    assert_allclose(
        found[observed], model.holdout_[observed], atol=5e-3
    )  # which was solved for to 10⁻³
    assert not np.isnan(found).any()
    if own == "A":
        assert_array_equal(found[observed], model.holdout_[observed])
        assert_allclose(found[~observed], model.predict()[~observed], rtol=1e-6)


def test_a_label_that_is_left_out_tells_nothing_of_itself():
    model, _, _, Y = _profiled()
    cells = np.arange(M * Q).reshape(M, Q) % 4
    wrong = np.where(cells == 1, Y + 50.0, Y)
    # The same parameters, which labels of all folds have a part in.
    other, _, _, _ = _profiled()
    other.fitted_ = replace(other.fitted_, labels=Labels.of_grid(wrong))
    one, two = (each.holdout("A", cells=cells) for each in (model, other))
    assert_allclose(
        one[cells == 1], two[cells == 1], atol=5e-2
    )  # single precision of labels that are larger
    assert np.nanmax(np.abs(one - two)[cells != 1]) > 5


@over(lines("own refused", ("A", "BCD"), ("B", "CD"), ("C", "BD")))
def test_settings_in_which_a_profiled_side_is_new_are_refused(own, refused):
    model, *_ = _profiled(own)
    for asked in refused:
        with pytest.raises(
            ValueError, match=f"Setting {asked} leaves out .* profiles of their labels"
        ):
            model.holdout(asked)
        with pytest.raises(
            ValueError, match=f"Setting {asked} leaves out .* profiles of their labels"
        ):
            evaluate(model, asked)
    assert own in list(evaluate(model, nested=False)["setting"])


def test_formulas_that_would_leak_are_refused():
    model, *_ = _profiled()
    with pytest.raises(ValueError, match="profiles of the labels as features"):
        holdout(model.fitted_.problem, "A")
    with pytest.raises(ValueError, match="profiles of the labels as features"):
        landscape(model, setting="A")
    with pytest.raises(
        ValueError, match="with profiles of labels has no deviations and no likelihood"
    ):
        model.predict(return_std=True)
    assert np.isnan(evaluate(model, "A", nested=False)["null"]).all()


def test_intervals_come_from_residuals_that_were_held_out():
    model, _, _, Y = _profiled()
    lower, upper = model.predict_interval(coverage=0.8)
    observed = ~np.isnan(Y)
    assert_allclose(((lower + upper) / 2)[observed], model.holdout_[observed])
    assert 0.75 < ((lower <= Y) & (upper >= Y))[observed].mean() < 0.85
    model, X, _, _ = _profiled("B")
    lower, upper = model.predict_interval(X + 0.1, coverage=0.5)
    assert_allclose((lower + upper) / 2, model.predict(X + 0.1))
    model, _, T, _ = _profiled("C")
    lower, upper = model.predict_interval(tasks=T + 0.1, coverage=0.5)
    assert_allclose((lower + upper) / 2, model.predict(tasks=T + 0.1))


def test_rows_of_training_are_known_by_their_ids():
    X, T, Y = _data()
    rows = [f"i{i}" for i in range(M)]
    columns = [f"t{j}" for j in range(Q)]
    X = pd.DataFrame(X, index=rows)
    T = pd.DataFrame(T, index=columns)
    model = _model().fit(X, pd.DataFrame(Y, index=rows, columns=columns), tasks=T)
    assert model.n_stages_ == 2
    assert min(model.shares_) > 0  # what an instance has of its own would be lost
    whole = model.predict()
    some = X.iloc[[5, 2, 7]]
    few = T.iloc[[6, 1]]
    assert_allclose(model.predict(some), whole.loc[some.index])
    assert_allclose(model.predict(tasks=few), whole[few.index])
    assert_allclose(model.predict(some, few), whole.loc[some.index, few.index])
    pairs = [("i2", "t1"), ("i7", "t6"), ("i2", "t6")]
    wanted = [whole.loc[pair] for pair in pairs]
    for given in ((some, few), (some, None), (None, few), (None, None)):
        assert_allclose(model.predict_pairs(*given, pairs), wanted)
    for one, all_of_them in zip(
        model.predict_interval(some, few), model.predict_interval(), strict=True
    ):
        assert_allclose(one, all_of_them.loc[some.index, few.index])
    with pytest.raises(ValueError, match=r"1 of 2 are new"):
        model.predict(pd.DataFrame(X.to_numpy()[:2], index=["i0", "other"]))
    with pytest.raises(ValueError, match="identified by ids: leave X out"):
        model.predict(pd.DataFrame(X.to_numpy()))  # numbers that are nobody's


def test_rows_of_training_are_known_by_their_places():
    X, T, Y = _data()
    given = Descriptions({"x": X})
    model = _model().fit(given[np.arange(9)], Y[:9], tasks=T)
    assert model.n_stages_ == 2
    assert_allclose(model.predict(given[[3, 1]]), model.predict()[[3, 1]])
    assert_allclose(model.predict_interval(given[[3, 1]])[0], model.predict_interval()[0][[3, 1]])
    with pytest.raises(ValueError, match=r"1 of 2 are new"):
        model.predict(given[[3, 9]])


def test_a_file_keeps_the_stages(tmp_path):
    model, *_ = _profiled()
    save(model, tmp_path / "model.dyad")
    cells = np.arange(M * Q).reshape(M, Q) % 3
    assert_allclose(
        load(tmp_path / "model.dyad").holdout("A", cells=cells),
        model.holdout("A", cells=cells),
        rtol=1e-5,
    )
