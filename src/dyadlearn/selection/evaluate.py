"""How well a fitted model does in each setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array
from dyadlearn._checks import check_flag, check_whole
from dyadlearn._state import StoredEstimator
from dyadlearn.holdout import Plan, Problem, Units, plan
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.baselines import baseline_scores
from dyadlearn.selection.observed import prepared_score
from dyadlearn.selection.permuting import null_mean
from dyadlearn.selection.scores import Scores
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import side_names

__all__ = ["HeldOut", "evaluate", "model_holdout", "planned_holdout", "scoring_of"]

#: Columns beside the score, which a function must not be called as if its name is to be the heading.
_OTHERS = ("setting", "undefined", "new", "method", "null", *BASELINES)


class HeldOut(NamedTuple):
    """Predictions of a model for labels that it has not seen.

    Attributes
    ----------
    predictions : array of shape (m, q)
    method : str
        How they were made, in words.
    units : Units
        What left together.
    is_fixed : bool
        Whether they are those of the model as it is: another one that was learned again has no kernels in common.
    """

    predictions: Array
    method: str
    units: Units
    is_fixed: bool = True


def evaluate(
    model: Any,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[Any, Any], float] | None = None,
    *,
    cv: int | None = None,
    n_permutations: int = 10,
    sides: Any = None,
    nested: bool = True,
) -> Scores:
    """Score the hold-out predictions of one fitted model in several settings, beside what simple means reach.

    A model that has learnt something of the features does better than all of these, which know none and are held out
    as the model is. Which means are left depends on what is new: for a new instance those of the tasks, such as how
    popular each is, for a new task those of the instances, and for both only one number; see
    `dyadlearn.holdout.baselines`.

    A model that learned its kernels from the labels, `LearnedKernelRidge`, learns them again without each fold that it
    is scored on, for its own setting, and is asked in each of those given: as many times as there are folds. What it
    finds is kept on the model, so that the next call costs nothing, but not in its file.

    Parameters
    ----------
    model : fitted estimator
    settings : iterable of settings, default="ABCD"
        Letters or aliases. A model without tasks is scored in those of A and B that are asked for.
    scoring : str or callable, default=None
        None is the score that the model was chosen by; for one that was not chosen, ``"roc_auc"`` for labels of two
        values and ``"neg_mean_squared_error"`` for all others. Else a name (see `dyadlearn.metrics.scorer`) or a
        function of the labels and the held-out predictions, both of shape (m, q); greater is better. Rank metrics are
        averaged as the setting wants: over all cells for A and D, per instance for B, per task for C. A model of
        observed pairs alone is scored over all of them, in every setting.
    cv : int, default=None
        Number of folds to leave out where labels are missing or weighted; None takes a shortcut where one exists, and
        five folds elsewhere. Complete labels need no folds. In its own setting a search is scored by the predictions it
        was chosen by, with the groups and folds that it was given.
    n_permutations : int, default=10
        How many times the labels are permuted for the column ``null``; 0 leaves it empty.
    sides : (str, str), default=None
        What an instance and a task are called, for the column ``new``.
    nested : bool, default=True
        Whether a model that learned its kernels is scored without having learned them on what is scored. False scores
        the predictions that it was learned with, in its own setting, or holds out with its kernels as they are: quick,
        and optimistic. Of other models it says nothing.

    Returns
    -------
    Scores
        A dict of columns, each a list with an entry for each setting, that prints as a table; `Scores.frame` makes a
        data frame of it. ``setting``, and in a column that is called as the metric is, such as ``roc_auc``, the score;
        ``undefined`` counts the instances or tasks for which the metric is undefined and that were left out, ``new``
        says what was held out and ``method`` how. ``null`` is the mean score of labels that were permuted against what
        is new, under the regularisation that the model has: what no signal looks like on this scale, the same each
        time, but no test (see `permutation_test`). It is NaN where it would take more than a few products: where labels
        are missing or weighted, where tasks have regularisations of their own, where a side is decomposed again for
        all that leaves, as in setting D of Kronecker ridge regression, and where kernels are learned again. Scores of
        means follow: ``grand_mean``, ``instance_means``, ``task_means`` and ``additive``, which is an effect of the
        instance and one of the task; NaN where they have none.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> scores = evaluate(model)
    >>> scores
                                          neg_mean_
     new         method               squared_error    null      best mean
     ─────────────────────────────────────────────────────────────────────
     A pair      exact leave-one-out       -0.01956  -1.316  -0.9583 grand
     B instance  exact leave-one-out       -0.01695  -2.227  -0.9447 grand
     C task      exact leave-one-out       -0.04312  -2.193  -0.9266 grand
     D both      exact leave-one-out        -0.0567  -2.474  -0.9065 grand
    >>> list(scores)[1], list(scores)[5:]
    ('neg_mean_squared_error', ['null', 'grand_mean', 'instance_means', 'task_means', 'additive'])
    """
    check_is_fitted(model)
    check_whole(n_permutations, "n_permutations", 0)
    check_flag(nested, "nested")
    model = getattr(model, "model_", model)  # a model of long tables wraps one of grids
    if isinstance(model, StoredEstimator):
        model = model._snapshot()
    problem = model._problem()
    asked = [as_setting(setting) for setting in settings]
    wanted = [setting for setting in asked if setting in problem.pairing.settings]
    if asked and not wanted:
        problem.pairing.check_request(asked[0], None, None, None)  # which says why not
    judge, names = scorer(scoring_of(model, scoring)), side_names(sides, network=problem.pairing.symmetry != 0)
    scores, nulls, means, undefined, methods = [], [], [], [], []
    for setting in wanted:
        found = model_holdout(model, setting, cv, nested=nested)
        labels = scored_labels(problem, found.predictions, setting)
        prepared = prepared_score(problem, judge, setting, labels)
        scores.append(float(prepared(found.predictions)))
        repeated = n_permutations if found.is_fixed else 0
        nulls.append(null_mean(problem, setting, found.units, prepared, repeated))
        means.append(baseline_scores(problem, setting, found.units, prepared))
        undefined.append(prepared.n_undefined)
        methods.append(found.method)
    name = "score" if judge.name in _OTHERS else judge.name
    columns: dict[str, list[Any]] = {
        "setting": [setting.value for setting in wanted],
        name: scores,
        "undefined": undefined,
        "new": [names.new_in(setting) for setting in wanted],
        "method": methods,
        "null": nulls,
        **{name: [each[name] for each in means] for name in BASELINES},
    }
    return Scores(columns, name, names, model._grid.kind)


def model_holdout(model: Any, setting: Setting, cv: int | None = None, *, nested: bool = False) -> HeldOut:
    """Predict every label as if a fitted model had never seen what the setting leaves out.

    Parameters
    ----------
    model : fitted model of a grid
    setting : Setting
    cv : int, default=None
        Number of folds where labels are missing or weighted; None takes what a search has kept for its own setting,
        else what `dyadlearn.holdout.plan` decides.
    nested : bool, default=False
        Whether a model that learned its kernels learns them again without each fold.

    Returns
    -------
    HeldOut
    """
    again: tuple[Array, str, Units] | None = model._relearned_holdout(setting, cv) if nested else None
    if again is not None:
        return HeldOut(*again, is_fixed=False)
    # A search answers in its own setting as it was chosen: with its groups and folds, and without solving again.
    kept: tuple[Array, str, Units] | None = model._kept_holdout(setting) if cv is None else None
    if kept is not None:
        return HeldOut(*kept)
    own: tuple[Array, str, Units] | None = model._own_holdout(setting, cv=cv)
    if own is not None:
        return HeldOut(*own)
    problem: Problem = model._problem()
    return planned_holdout(model, plan(problem, setting, cv=None if problem.is_complete else cv))


def planned_holdout(model: Any, how: Plan) -> HeldOut:
    """Return the predictions of a fitted model as a plan for its problem has them."""
    how.problem.pairing.check_request(how.setting, how.groups, how.task_groups, None)
    own = model._own_holdout(how.setting, groups=how.groups, task_groups=how.task_groups, cv=how.splitter)
    if own is not None:
        return HeldOut(*own)
    if how.splitter is not None:
        if math.isnan(how.problem.pairing.alphas["alpha"]):
            raise ValueError("A model with a regularisation for each task leaves out one instance at a time: no cv.")
        return HeldOut(how.held_out(), how.words, how.units)
    predictions = model._held_out(how.setting, groups=how.groups, task_groups=how.task_groups)
    return HeldOut(predictions, how.words, how.units)


def scoring_of(model: Any, scoring: Any = None) -> Any:
    """Return the score that a fitted model of a grid is judged by: the one given, its own, or what suits its labels."""
    own = getattr(model, "scoring", None) if scoring is None else scoring
    return usual_scoring(model._problem().targets) if own is None else own
