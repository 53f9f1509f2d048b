"""Ctrl-C in a fit that searches or learns: the best result so far is fitted, whatever the fit was doing."""

import signal
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

import dyadlearn as dl
import problems
from dyadlearn._interrupts import Interrupts
from dyadlearn.exceptions import SearchStoppedWarning
from dyadlearn.learning.error import ExactError, FoldError
from dyadlearn.models import decomposing
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.selection import learning_kernels, searching
from dyadlearn.selection.landscape import _PointScore
from interrupting import send_at
from sweeps import lines, over

# The package has a function of this name.
landscapes = import_module("dyadlearn.selection.landscape")

X, Y, T = problems.data(14, 9, 3, 2)
HOLES = problems.with_holes(Y, 0.3)
GRID = [0.1, 1.0, 10.0]
RBF = {"kernel": "rbf", "task_kernel": "rbf", "setting": "B", "progress": False}
ROUGH = {**RBF, "alphas": GRID, "cv": 2}

pytestmark = [
    pytest.mark.usefixtures("ctrl_c"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.BaselineWarning"),
]


def kronecker(**more):
    return dl.KroneckerRidgeCV(**{**ROUGH, **more})


def two_step(**more):
    return dl.TwoStepRidgeCV(**{**RBF, "alphas": GRID, "task_alphas": GRID, **more})


def per_task(**more):
    given = {"alphas": GRID, "alpha_per_task": True, "progress": False, "setting": "B"}
    return dl.IndependentTaskRidgeCV(**{**given, **more})


def learned(**more):
    return dl.LearnedKernelRidge(**{"setting": "B", "n_steps": 3, "progress": False, **more})


TWO_KERNELS = {"kernel_grid": [{"gamma": 0.1}, {"gamma": 1.0}]}

PHASES = lines(
    "model y owner name call evaluated",
    (kronecker(), HOLES, _PointScore, "__call__", 2, 2),
    (kronecker(), HOLES, searching, "_best_place", 0, 3),
    (kronecker(), HOLES, FittedRidge, "solve", 0, 3),
    (kronecker(), HOLES, searching, "_validated", 0, 3),
    (kronecker(), HOLES, searching, "baselines_beside", 0, 3),
    # The second kernel is planned, or its first point is solved.
    (kronecker(**TWO_KERNELS), HOLES, searching, "planned_for", 1, 3),
    (kronecker(**TWO_KERNELS), HOLES, _PointScore, "__call__", 3, 3),
    # Complete labels are scored in stacks.
    (two_step(scoring="concordance_index"), Y, landscapes, "to_numpy", 1, 3),
    (kronecker(cv=None), Y, FittedRidge, "solve", 0, 3),
    (per_task(), HOLES, Interrupts, "attempt", 1, 9),
    (per_task(), HOLES, FittedRidge, "solve", 0, 27),
    (learned(), Y, ExactError, "slope", 2, None),
    (learned(), HOLES, FoldError, "slope", 2, None),
    (learned(stages=2, setting="A"), HOLES, FoldError, "with_profiles", 0, None),
    (learned(), HOLES, learning_kernels, "_fitted_stage", 0, None),
    (learned(), HOLES, decomposing, "fit_side", 0, None),
    (learned(), HOLES, FittedRidge, "solve", 0, None),
)


@over(PHASES)
def test_the_best_so_far_is_fitted(model, y, owner, name, call, evaluated):
    tasks = None if isinstance(model, dl.IndependentTaskRidgeCV) else T
    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, owner, name, call)
        with pytest.warns(SearchStoppedWarning, match="was interrupted") as told:
            model.fit(X, y, tasks)
    assert np.isfinite(model.predict()).all()
    assert np.isfinite(model.holdout_).any()
    if evaluated is not None:
        assert model.n_evaluated_ == evaluated
        assert any(f"interrupted: {evaluated} of" in str(each.message) for each in told)
        assert np.isfinite(model.best_score_)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@over(
    lines(
        "model owner name",
        (kronecker(), decomposing, "fit_side"),
        (kronecker(), searching, "planned_for"),
        (kronecker(), _PointScore, "__call__"),
        (per_task(), decomposing, "fit_side"),
    )
)
def test_before_there_is_anything_to_keep_nothing_is_fitted(model, owner, name):
    tasks = None if isinstance(model, dl.IndependentTaskRidgeCV) else T
    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, owner, name)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, HOLES, tasks)
    with pytest.raises(NotFittedError):
        model.predict()


def test_a_second_interrupt_leaves_the_model_as_it_was(monkeypatch):
    model = kronecker().fit(X, HOLES, T)
    before = model.predict()
    monkeypatch.setattr("dyadlearn._interrupts._SAME", 0.0)
    send_at(monkeypatch, FittedRidge, "solve")
    send_at(monkeypatch, searching, "_validated")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, HOLES + 1.0, T)
    assert_array_equal(model.predict(), before)


@over(lines("fold", 0, 1))
def test_a_search_within_a_nested_score_ends_all(fold):
    """A fold that was cut short would count as one that was searched."""
    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, _PointScore, "__call__", 3 * fold + 2)
        with pytest.raises(KeyboardInterrupt):
            dl.nested_score(kronecker(), X, HOLES, tasks=T, cv=2)


def test_baselines_are_not_scored_after_an_interrupt(monkeypatch):
    scored = []
    monkeypatch.setattr(
        searching, "baselines_beside", lambda *given, **more: scored.append(given) or {}
    )
    send_at(monkeypatch, FittedRidge, "solve")
    with pytest.warns(SearchStoppedWarning):
        kronecker().fit(X, HOLES, T)
    assert scored == []
