r"""Scores over all regularisations.

How predictions are held out, `dyadlearn.holdout.plan` decides. Where labels are complete, or where a complete part has
the same scores, a sweep of the model gives the predictions for many regularisations at the speed of matrix products
(see `dyadlearn.pairing.sweep`), and squared error often without any predictions. Elsewhere one regularisation follows
the other, and folds that are solved again start from the solution for the one before: see `dyadlearn.selection.coarse`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dyadlearn._array import itemsize, to_numpy
from dyadlearn._checks import check_alphas
from dyadlearn._progress import Progress
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan, Problem, check_enough_left, plan
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import warn_of_undefined, where_defined
from dyadlearn.models._inputs import groups_in_order
from dyadlearn.pairing.leaving import group_members
from dyadlearn.selection.coarse import Evaluated, score_points
from dyadlearn.settings import Setting, as_setting

__all__ = ["LeftOut", "landscape", "score_plan"]

#: About how many bytes stacks of predictions take, unless told otherwise.
MAX_MEMORY = 2**30

#: What is left out together: the groups of instances and of tasks, and the folds.
LeftOut = tuple[Any, Any, Any]


def landscape(
    model: Any,
    alphas: Iterable[float] | float | None = None,
    task_alphas: Iterable[float] | float | None = None,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[Any, Any], float] | None = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    max_memory: int = MAX_MEMORY,
    progress: bool | None = None,
) -> dict[str, np.ndarray]:
    """Score the hold-out predictions of a model for every regularisation.

    The predictions are exact leave-one-out where the labels are complete and for independent tasks, of Kronecker ridge
    also where whole rows and columns are missing, and of single pairs where few are observed or, for two-step, a block
    is missing. Where labels are missing or weighted elsewhere, folds are left out and solved again.

    Parameters
    ----------
    model : fitted estimator or Problem
        Its spectra and labels are used; its own regularisation is not.
    alphas, task_alphas : iterables of float, or float, default=None
        Values of the two regularisations; None is 10⁻⁷ … 10⁶.
    settings : iterable of settings, default="ABCD"
        Letters or aliases. For a model without tasks, those of A and B that are asked for.
    scoring : str or callable, default=None
        None is the score that the model was chosen by, and ``"neg_mean_squared_error"`` for one that was not chosen.
        Else a name (see `dyadlearn.metrics.scorer`) or a function of labels and predictions, both of shape (m, q);
        greater is better. Rank metrics are averaged as the setting wants: over all cells for A and D, per instance
        for B, per task for C.
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Instances and tasks that are left out together.
    cv : int or SettingKFold, default=None
        Folds to leave out instead of one thing at a time; None is five folds where no shortcut exists. A
        `SettingKFold` goes with one setting.
    max_memory : int, default=2**30
        About how many bytes stacks of predictions may take.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.

    Returns
    -------
    dict of str to array
        For each setting letter, scores of shape (n_alphas, n_task_alphas), or (n_alphas,) for models that have
        one regularisation. NaN, with a warning that names the values, where the model interpolates what is to be left
        out; if it does so everywhere in a setting, `LeverageError` is raised.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge().fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> {letter: scores.shape for letter, scores in landscape(model, [0.1, 1], [1], "BD").items()}
    {'B': (2, 1), 'D': (2, 1)}
    """
    model = getattr(model, "model_", model)  # a model of long tables wraps one of grids
    if scoring is None:
        own = getattr(model, "scoring", None)
        scoring = "neg_mean_squared_error" if own is None else own
    if isinstance(model, Problem):
        problem = model
    else:
        problem = model._problem()
        groups, task_groups = groups_in_order(model._grid, groups, task_groups)
    wanted = list(dict.fromkeys(as_setting(setting) for setting in settings))
    wanted = [setting for setting in wanted if setting in problem.pairing.settings] or wanted
    rows = check_alphas(alphas, "alphas")
    columns = check_alphas(task_alphas, "task_alphas")
    plans = [planned(problem, setting, (groups, task_groups, cv)) for setting in wanted]
    if problem.is_complete and cv is None:  # all settings share their products
        columns = columns if len(problem.pairing.alphas) > 1 else [1.0]
        found = _swept(problem, rows, columns, wanted, scoring, groups, task_groups, max_memory, progress)
    else:
        found = {}
        for how in plans:
            each = score_plan(how, scoring, rows, columns, max_memory=max_memory, progress=progress)
            found[how.setting] = each.scores
    scores = {setting.value: _on_axes(problem, found[setting]) for setting in wanted}
    for letter, grid in scores.items():
        warn_of_undefined(grid, rows, columns if grid.ndim == 2 else None, letter, 2)
    return scores


def planned(problem: Problem, setting: Setting, left_out: LeftOut) -> Plan:
    """Return how to hold out for every regularisation, after checking that the model can.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    left_out : (groups, task_groups, cv)
    """
    groups, task_groups, cv = left_out
    pairing = problem.pairing
    pairing.check_leaving()
    used = (groups if setting.new_instance else None, task_groups if setting.new_task else None)
    pairing.check_request(setting, *used, None)
    if cv is None and not problem.is_listed:  # folds are counted as they are made
        known = {"knows_tasks": pairing.knows_tasks, "is_complete": problem.is_complete}
        check_enough_left(problem.Y, setting, *used, **known)
    for filter in pairing.filters:
        if not filter.uses_alpha():
            raise ValueError(f"{filter} does not depend on alpha, so there is no landscape over it.")
    return plan(problem, setting, groups, task_groups, cv)


def score_plan(
    how: Plan,
    scoring: Any,
    alphas: list[float],
    task_alphas: list[float],
    *,
    max_memory: int = MAX_MEMORY,
    progress: bool | None = None,
    **search: bool,
) -> Evaluated:
    """Score every regularisation, or search for the best where folds are solved again; NaN is not warned of.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    alphas, task_alphas : lists of float
    max_memory, progress : as in `landscape`
    **search : bool
        As in `dyadlearn.selection.coarse.score_points`.

    Returns
    -------
    Evaluated
        Scores of shape (n_alphas, n_task_alphas), or (n_alphas,) for models that have one regularisation.
    """
    columns = task_alphas if len(how.problem.pairing.alphas) > 1 else [1.0]
    if how.swept is None:
        found = score_points(how, scoring, alphas, columns, progress=progress, **search)
    else:
        given = (how.groups, how.task_groups, max_memory, progress)
        scores = _swept(how.swept, alphas, columns, [how.setting], scoring, *given)[how.setting]
        found = Evaluated(scores, scores.size, is_rough=False, was_interrupted=False)
    return found._replace(scores=_on_axes(how.problem, found.scores))


def _on_axes(problem: Problem, scores: np.ndarray) -> np.ndarray:
    """Return scores without the second axis for a model that has one regularisation."""
    return scores if len(problem.pairing.alphas) > 1 or scores.ndim == 1 else scores[:, 0]


def _swept(
    problem: Problem,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    settings: Sequence[Setting],
    scoring: Any,
    groups: Any,
    task_groups: Any,
    max_memory: int,
    progress: bool | None,
) -> dict[Setting, np.ndarray]:
    """Score complete labels, many regularisations and settings together."""
    Y = problem.Y
    scorers = {setting: scorer(scoring).prepare(Y, setting=setting, tie_tolerance=None) for setting in settings}
    members = (group_members(groups, Y.shape[0], "groups"), group_members(task_groups, Y.shape[1], "task_groups"))
    per_stack = max(1, max_memory // max(1, 4 * itemsize(Y) * Y.shape[0] * Y.shape[1]))
    # Where squared errors tell the score, they may be known without predictions.
    told = {setting: scorers[setting].of_squared_errors for setting in settings}
    closed = {setting: of_errors for setting, of_errors in told.items() if of_errors is not None}
    whole = problem.pairing.sweep(Y, alphas, task_alphas, *members)
    for squared, some in ((True, list(closed)), (False, [setting for setting in settings if setting not in closed])):
        if some:
            whole.check_memory(some, per_stack, squared=squared)
    with Progress(len(alphas) * len(task_alphas) * len(settings), "Landscape", progress) as bar:

        def score(
            wanted: Sequence[Setting], rows: Sequence[float], columns: Sequence[float]
        ) -> dict[Setting, np.ndarray]:
            sweep = problem.pairing.sweep(Y, rows, columns, *members)
            errors = sweep.squared_errors([setting for setting in wanted if setting in closed], per_stack)
            scores = {setting: closed[setting](found) for setting, found in errors.items()}
            bar.advance(len(rows) * len(columns) * len(scores))
            left = [setting for setting in wanted if setting not in scores]
            scores |= {setting: np.empty((len(rows), len(columns))) for setting in left}
            for here, there, setting, stack in sweep.walk(left, per_stack):
                scores[setting][here, there] = to_numpy(scorers[setting](stack))
                bar.advance(stack.shape[0])
            return scores

        def alone(setting: Setting, rows: Sequence[float], columns: Sequence[float]) -> np.ndarray:
            return score([setting], rows, columns)[setting]

        try:
            return score(settings, alphas, task_alphas)
        except LeverageError:  # of one setting, maybe, and of some of the values
            return {setting: where_defined(partial(alone, setting), alphas, task_alphas) for setting in settings}
