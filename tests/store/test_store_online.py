"""An online model comes back in whatever state it was, and goes on as if it had never been away."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import problems
from dyadlearn import OnlineTwoStepRidge
from dyadlearn.exceptions import IdError, ModelFileError
from dyadlearn.growing.statistics import Group, Statistics
from dyadlearn.kernels import Landmarks
from market import not_stored

X, Y, T = problems.data(60, 7, 12, 4, seed=3)


HOLES = problems.with_holes(Y, 0.4, seed=4)
NAMES = [f"u{row}" for row in range(60)]


def learnt(labels=Y, **parameters):
    return OnlineTwoStepRidge(0.5, 0.2, **parameters).fit(X[:40], labels[:40], T)


def with_frames():
    labels = pd.DataFrame(Y[:40], columns=[f"drug {j}" for j in range(7)])
    return OnlineTwoStepRidge().fit(
        pd.DataFrame(X[:40]), labels, pd.DataFrame(T, index=labels.columns)
    )


def mapped():
    linear = X[:3].T.copy()
    landmarks = Landmarks(2, random_state=1).fit(T)
    return OnlineTwoStepRidge(feature_map=linear, task_feature_map=landmarks).fit(X[:40], Y[:40], T)


def replaced():
    """A model that knows its instances and has exchanged labels of some, so that others have gone."""
    rows = pd.DataFrame(X, NAMES)
    labels = pd.DataFrame(HOLES, NAMES)
    model = OnlineTwoStepRidge(0.5, 0.2, keep_labels=True)
    model.fit(rows[:40], labels[:40], T)
    return model.partial_fit(rows[10:15] + 1, labels[10:15].fillna(0.0), known="replace")


STATES = {
    "tuned": lambda: learnt().tune(X[:15], Y[:15]),
    "vector": lambda: OnlineTwoStepRidge(0.5).fit(X[:40], Y[:40, 0]),
    "sparse": lambda: OnlineTwoStepRidge(keep_labels=True).fit(
        sparse.csr_array(np.maximum(X[:40], 0)), sparse.csr_array(np.maximum(Y[:40], 0)), T
    ),
    "frames": with_frames,
    "mapped": mapped,
    "holes, asked": lambda: _asked(learnt(HOLES)),
    "holes, some solved": lambda: _asked(learnt(HOLES)).partial_fit(
        X[40:41], np.where(np.arange(7) < 2, 1.0, np.nan)[None]
    ),
    "replaced": replaced,
}


def _asked(model):
    model.predict(X)
    return model


@pytest.mark.parametrize("state", STATES)
def test_an_online_model_comes_back_as_it_was(state, round_trip, assert_same):
    model = STATES[state]()
    loaded = round_trip(model)
    assert_same(loaded, model)
    assert_same(loaded.predict(X), model.predict(X))
    assert_same(loaded.coef_, model.coef_)
    labels = Y[:, 0] if state == "vector" else Y
    for lesson in (slice(45, 47), slice(47, 60)):
        for one in (loaded, model):
            one.partial_fit(X[lesson], labels[lesson])
        assert_same(loaded, model)
        assert_same(loaded.predict(X), model.predict(X))
    assert_same(
        loaded.forget(X[45:47], labels[45:47]).coef_, model.forget(X[45:47], labels[45:47]).coef_
    )


def test_labels_are_replaced_after_loading(round_trip, assert_same):
    model = replaced()
    loaded = round_trip(model)
    with pytest.raises(IdError, match="'u12'"):
        loaded.partial_fit(pd.DataFrame(X[12:13], ["u12"]), Y[12:13])
    for one in (model, loaded):
        one.partial_fit(pd.DataFrame(X[12:13], ["u12"]), Y[12:13], known="replace")
    assert_same(loaded, model)
    assert_same(loaded.predict(X), model.predict(X))


def test_statistics_that_do_not_fit_together_are_refused():
    known = learnt(HOLES)._learnt.model.statistics
    group = known.groups[0]
    for wrong in (
        {"group_of": known.group_of + 1},
        {"groups": (replace(group, n_rows=41), *known.groups[1:])},
        {"groups": (replace(group, mean=None, label_mean=None), *known.groups[1:])},
        {"groups": (group.columns(np.arange(0)), *known.groups[1:])},
        {"tasks": None},
        {"task_sums": replace(known.task_sums, n_rows=3)},
    ):
        with pytest.raises(ModelFileError, match="do not fit together|is of type"):
            Statistics.from_state({**known.state(), **wrong}, "statistics")
    for wrong in ({"mean": None}, {"mean": group.mean[:1]}, {"label_mean": group.label_mean[1:]}):
        with pytest.raises(ModelFileError, match="do not fit together"):
            Group.from_state({**group.state(), **wrong}, "group")
    assert Statistics.from_state(known.state(), "statistics").n_tasks == 7


def test_nothing_that_was_learnt_is_left_out():
    for model in (STATES["mapped"](), STATES["tuned"](), STATES["mapped"]().task_feature_map_):
        assert not_stored(model) == []
