"""How well a fitted model does in each setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array
from dyadlearn._tables import frame_library, write_rows
from dyadlearn.holdout import Plan, Problem, plan
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.settings import Setting, as_setting

__all__ = ["evaluate", "model_holdout", "planned_holdout", "scoring_of"]

#: Columns beside the score, which a function must not be called as if its name is to be the heading.
_OTHERS = ("setting", "new", "undefined", "method")


def evaluate(
    model: Any,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[Any, Any], float] | None = None,
    *,
    cv: int | None = None,
) -> Any:
    """Score the hold-out predictions of one fitted model in several settings.

    Parameters
    ----------
    model : fitted estimator
    settings : iterable of settings, default="ABCD"
        Letters or aliases. A model without tasks is scored in those of A and B that are asked for.
    scoring : str or callable, default=None
        None is the score that the model was chosen by; for one that was not chosen, ``"roc_auc"`` for labels of two
        values and ``"neg_mean_squared_error"`` for all others. Else a name (see `dyadlearn.metrics.scorer`) or a
        function of the labels and the held-out predictions, both of shape (m, q); greater is better. Rank metrics are
        averaged as the setting wants: over all cells for A and D, per instance for B, per task for C.
    cv : int, default=None
        Number of folds to leave out where labels are missing or weighted; None takes a shortcut where one exists, and
        five folds elsewhere. Complete labels need no folds. In its own setting a search is scored by the predictions it
        was chosen by, with the groups and folds that it was given.

    Returns
    -------
    frame with columns ``setting``, ``new``, the name of the score, ``undefined``, ``method``
        One row per setting. The scores stand in a column that is called as the metric is, such as ``roc_auc``;
        ``undefined`` counts the instances or tasks for which the metric is undefined and that were left out,
        ``method`` says how the predictions were made. The frame is of the library the labels came in, else of pandas
        or polars, whichever is installed; without either it is a dict of the same columns, each a list.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> table = evaluate(model)
    >>> list(table), list(table["setting"])
    (['setting', 'new', 'neg_mean_squared_error', 'undefined', 'method'], ['A', 'B', 'C', 'D'])
    """
    check_is_fitted(model)
    model = getattr(model, "model_", model)  # a model of long tables wraps one of grids
    problem = model._problem()
    asked = [as_setting(setting) for setting in settings]
    wanted = [setting for setting in asked if setting in problem.pairing.settings]
    if asked and not wanted:
        problem.pairing.check_request(asked[0], None, None, None)  # which says why not
    judge = scorer(scoring_of(model, scoring))
    scores, undefined, methods = [], [], []
    for setting in wanted:
        held_out, method = model_holdout(model, setting, cv)
        labels = scored_labels(problem, held_out, setting)
        prepared = judge.prepare(labels, setting=setting, tie_tolerance=None)
        scores.append(float(prepared(held_out)))
        undefined.append(prepared.n_undefined)
        methods.append(method)
    columns: dict[str, list[Any]] = {
        "setting": [setting.value for setting in wanted],
        "new": [setting.description for setting in wanted],
        "score" if judge.name in _OTHERS else judge.name: scores,
        "undefined": undefined,
        "method": methods,
    }
    kind = frame_library(model._grid.kind)
    return columns if kind is None else write_rows(columns, kind)


def model_holdout(model: Any, setting: Setting, cv: int | None = None) -> tuple[Array, str]:
    """Predict every label as if a fitted model had never seen what the setting leaves out.

    Parameters
    ----------
    model : fitted model of a grid
    setting : Setting
    cv : int, default=None
        Number of folds where labels are missing or weighted; None takes what a search has kept for its own setting,
        else what `dyadlearn.holdout.plan` decides.

    Returns
    -------
    predictions : array of shape (m, q)
    method : str
        How they were made, in words.
    """
    # A search answers in its own setting as it was chosen: with its groups and folds, and without solving again.
    kept: tuple[Array, str] | None = model._kept_holdout(setting) if cv is None else None
    if kept is not None:
        return kept
    problem: Problem = model._problem()
    return planned_holdout(model, plan(problem, setting, cv=None if problem.is_complete else cv))


def planned_holdout(model: Any, how: Plan) -> tuple[Array, str]:
    """Return the predictions (m, q) of a fitted model as a plan for its problem has them, and its words."""
    how.problem.pairing.check_request(how.setting, how.groups, how.task_groups, None)
    if how.splitter is not None:
        if math.isnan(how.problem.pairing.alphas["alpha"]):
            raise ValueError("A model with a regularisation for each task leaves out one instance at a time: no cv.")
        return how.held_out(), how.words
    return model._held_out(how.setting, groups=how.groups, task_groups=how.task_groups), how.words


def scoring_of(model: Any, scoring: Any = None) -> Any:
    """Return the score that a fitted model of a grid is judged by: the one given, its own, or what suits its labels."""
    own = getattr(model, "scoring", None) if scoring is None else scoring
    return usual_scoring(model._problem().Y) if own is None else own
