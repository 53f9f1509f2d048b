r"""Scores that may be reported: not chosen on the cells they are computed on, and with an interval.

The best of many scores is optimistic, since luck takes part in the choice: with held-out scores :math:`s(\lambda)`,

.. math:: \mathbb{E}\,\max_\lambda s(\lambda) \;\ge\; \max_\lambda \mathbb{E}\,s(\lambda) .

`nested_score` chooses without the cells that are scored; `bootstrap_interval` tells how far a score may be off because
other instances or tasks could have been drawn.

Scores of a grid whose instances and tasks are drawn again: how far they may be off.

Cells are never drawn one by one: those of a row share their instance and those of a column their task, so there is
less to learn from them than their number says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from dyadlearn._array import Array, as_array_of, cast, is_sparse, namespace, take_block, to_numpy
from dyadlearn._checks import check_choice, check_share, check_whole
from dyadlearn._codes import group_codes
from dyadlearn.exceptions import KernelError
from dyadlearn.holdout.baselines import baselines
from dyadlearn.holdout.folds import Fold
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels, read_labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.cells import Metric, as_average, read_stack
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models._inputs import groups_in_order
from dyadlearn.selection.evaluate import best_in_words, scored_means
from dyadlearn.selection.refitting import predict_folds
from dyadlearn.settings import Setting, as_setting


def resampled_scores(
    labels: Array,
    stack: Array,
    judge: Scorer,
    *,
    average: str,
    over: str = "both",
    n_resamples: int,
    random_state: Any = None,
) -> np.ndarray:
    """Return the scores of some predictions on grids of instances and tasks that are drawn with replacement.

    Parameters
    ----------
    labels : array of shape (m, q)
        NaN where not observed.
    stack : array of shape (s, m, q)
        Predictions of s models; all are scored on the same draws.
    judge : Scorer
    average : {"micro", "instance", "task"}
    over : {"instances", "tasks", "both", "nodes"}, default="both"
        What is drawn, as often as there are any. Nodes are those of a network, the same on both sides; a node that is
        drawn twice makes no pair with itself.
    n_resamples : int
    random_state : int, RandomState or None, default=None

    Returns
    -------
    array of shape (n_resamples, s)
        NaN where a score is undefined.
    """
    (m, q), prepared, by_row = labels.shape, judge.prepare(labels, average=average, tie_tolerance=None), None
    if (average, over) in (("instance", "instances"), ("task", "tasks")):
        # Where the score of a row does not depend on the other rows, it is computed once.
        by_row = prepared if isinstance(prepared, Metric) and prepared.is_of_rows else None
    each = np.full((stack.shape[0], m if over == "instances" else q), np.nan)
    if by_row is not None:
        each[:, by_row.rows] = to_numpy(by_row.each(stack))
    random, scores = check_random_state(random_state), np.full((n_resamples, stack.shape[0]), np.nan)
    for resample in range(n_resamples):
        rows = np.arange(m) if over == "tasks" else random.randint(m, size=m)
        columns = rows if over == "nodes" else np.arange(q) if over == "instances" else random.randint(q, size=q)
        if by_row is None:
            drawn = take_block(labels, rows, columns)
            drawn = _without_twins(drawn, rows) if over == "nodes" else drawn
            scores[resample] = score_or_nan(judge, drawn, _blocks(stack, rows, columns), average=average)
        else:
            own = each[:, rows if over == "instances" else columns]
            defined = own[:, ~np.isnan(own[0])]
            scores[resample] = by_row.combined(defined) if defined.size else np.nan
    return scores


def score_or_nan(judge: Scorer, Y: Array, F: Array, **average: Any) -> Any:
    """Return the score of a part of a grid, NaN where it is undefined; the whole grid is known to have one."""
    try:
        return to_numpy(judge(Y, F, tie_tolerance=None, **average))
    except ValueError:
        return float("nan")


def _blocks(stack: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return the same rows and columns of every grid of a stack (s, m, q)."""
    return namespace(stack).stack([take_block(stack[place, ...], rows, columns) for place in range(stack.shape[0])])


def _without_twins(drawn: Array, nodes: np.ndarray) -> Array:
    """Return labels (n, n) of drawn nodes, NaN where a node meets another draw of itself."""
    twins = np.equal.outer(nodes, nodes)
    np.fill_diagonal(twins, False)
    xp = namespace(drawn)
    return xp.where(as_array_of(twins, drawn), xp.full_like(drawn, float("nan")), drawn)


@dataclass(frozen=True, eq=False, repr=False)
class NestedScore:
    """What a search is worth on cells that it did not see.

    Attributes
    ----------
    score : float
        Of all held-out predictions together.
    setting : str
    fold_scores : array of shape (n_folds,)
        Of each fold's predictions alone; NaN where the metric is undefined there.
    alphas : array of shape (n_folds,), or (n_folds, q) with one regularisation per task
        What was chosen in each fold.
    task_alphas : array of shape (n_folds,) or None
        The same for the tasks, where the model has such a regularisation.
    predictions : array or frame of shape (m, q)
        Every cell as predicted by the fold that left it out, in the form the labels came in.
    baselines : dict of str to float
        What simple means reach in the same folds; see `dyadlearn.holdout.baselines`.
    """

    score: float
    setting: str
    fold_scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    predictions: Any
    baselines: dict[str, float]

    def __repr__(self) -> str:
        means = best_in_words(self.baselines)
        return f"NestedScore({self.score:.4g} in setting {self.setting}, {len(self.fold_scores)} folds; means: {means})"


@dataclass(frozen=True)
class Interval:
    """A score and how far it may be off.

    Attributes
    ----------
    score : float
        Of the grid itself.
    low, high : float
        Ends of the interval.
    level : float
        The share of resamples in it.
    n_resamples : int
        Resamples that have a score.
    n_undefined : int
        Resamples where the metric is undefined, left out.
    """

    score: float
    low: float
    high: float
    level: float
    n_resamples: int
    n_undefined: int

    def __str__(self) -> str:
        return f"{self.score:.4g} ({100 * self.level:g} % interval {self.low:.4g} … {self.high:.4g})"


def nested_score(
    search: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
    n_splits: int = 5,
    random_state: Any = None,
) -> NestedScore:
    """Score a search on cells that had no part in its choices.

    Folds of pairs (setting A), of instances (B), of tasks (C) or blocks of both (D) are left out in turn. In each the
    whole search runs on what remains, without the cells of a left-out instance or task, and the model that it
    chooses predicts the left-out cells. All predictions are scored together. In setting A the folds are hidden in
    the grid, which is incomplete then: an instance or task that loses all its labels to a fold stays in it, and is
    predicted as the model predicts one without labels (from its features, or 0 for an independent task). An
    independent task with an intercept has no prediction then, NaN, and these labels are not scored.

    Each fold decomposes its own part of the kernels. A leave-group-out formula from the spectra of all rows
    would have to be evaluated for every regularisation and every row within the fold, which costs more than
    one decomposition per fold.

    Parameters
    ----------
    search : TwoStepRidgeCV, KroneckerRidgeCV, IndependentTaskRidgeCV, PairKernelRidgeCV or LearnedKernelRidge
        What to judge; it is cloned, not fitted. Its `setting` and `scoring` are those of the score; where it has no
        scoring, as `LearnedKernelRidge`, that is what suits the labels. The latter learns its kernels in each fold.
    X, y, tasks
        As in its `fit`.
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Instances and tasks that are left out together, by the folds and by the search within them.
    n_splits : int, default=5
        Number of folds of each side that is cut; setting D has their square of blocks.
    random_state : int, RandomState or None, default=None
        Deals the instances and tasks to the folds.

    Returns
    -------
    NestedScore

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> from dyadlearn import nested_score
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> search = TwoStepRidgeCV(setting="D")
    >>> found = nested_score(search, X, Y, tasks=T, n_splits=2, random_state=0)
    >>> found.alphas.shape, found.score < search.fit(X, Y, tasks=T).best_score_
    ((4,), True)
    """
    if not getattr(search, "searches", False):
        raise TypeError(
            "search must be an estimator that chooses its regularisation, such as TwoStepRidgeCV, found "
            f"{type(search).__name__}."
        )
    if search.symmetry is not None:
        raise ValueError("A network has no folds of one side: nested_score is for grids of instances and tasks.")
    setting = as_setting(search.setting)
    if setting.new_task and tasks is None:
        raise ValueError(f"Setting {setting.value} leaves out tasks: give tasks=, their features or kernel.")
    reader = clone(search)
    data = reader._read(X, y, tasks, None)
    grid, Y = data.grid, data.grid.values
    if is_sparse(Y):
        raise ValueError(
            f"nested_score cuts a grid, and one of {Y.shape[0]} × {Y.shape[1]} with {Y.nnz} labels is not formed: "
            "cross-validate a PairRegressor of the search with SettingKFold, which cuts the pairs."
        )
    groups, task_groups = groups_in_order(grid, groups, task_groups)
    groups = None if groups is None else group_codes(groups, Y.shape[:1], "groups")
    task_groups = None if task_groups is None else group_codes(task_groups, Y.shape[1:], "task_groups")
    for axis, (table, name) in enumerate(((data.instances, "X"), (data.tasks, "tasks"))):
        if table is not None and data.are_kernels[axis] and table.values.shape[0] != table.values.shape[1]:
            raise KernelError(
                f"{name} must be a square matrix for a precomputed kernel, found shape {tuple(table.values.shape)}."
            )
    whole = Labels.of_grid(Y)
    folds = SettingKFold(setting, n_splits, random_state=random_state)
    # A model that learns its kernels may have groups in other settings: it learns with them.
    used = [
        each if leaves or not search.learns_kernels else None
        for each, leaves in ((groups, setting.new_instance), (task_groups, setting.new_task))
    ]
    units = folds.units(whole, groups=used[0], task_groups=used[1])
    found = predict_folds(reader, data, (groups, task_groups), setting, units)
    F = found.predictions
    judge = scorer(usual_scoring(Y) if search.scoring is None else search.scoring)
    labels = scored_labels(found.problem.with_grid(Y), F, setting)
    prepared = judge.prepare(labels, setting=setting, tie_tolerance=None)
    score, means = float(prepared(F)), baselines(whole, setting, units)
    return NestedScore(
        score=score,
        setting=setting.value,
        fold_scores=np.array(
            [score_or_nan(judge, *_tested(labels, F, fold, setting), setting=setting) for fold in found.folds]
        ),
        alphas=np.array(found.alphas),
        task_alphas=None if found.task_alphas is None else np.array(found.task_alphas),
        predictions=grid.restore(cast(F, getattr(namespace(F), data.precision))),
        baselines=scored_means(means, prepared),
    )


def bootstrap_interval(
    Y: Any,
    F: Any,
    scoring: Any = "neg_mean_squared_error",
    *,
    setting: str | Setting | None = None,
    average: str | None = None,
    over: str = "both",
    n_resamples: int = 1000,
    level: float = 0.95,
    random_state: Any = None,
) -> Interval:
    """Tell how far a score may be off because other instances or tasks could have been drawn.

    Instances, tasks or both are drawn with replacement as often as there are any, the score is computed on the
    grid of those drawn, and the interval holds the middle share `level` of the scores. Cells are never drawn
    one by one: those of a row share their instance and those of a column their task, so there is less to
    learn from them than their number says, and the interval would be too narrow.

    The interval knows nothing of how the predictions were chosen: give it those of `nested_score`, or of a
    regularisation that was fixed beforehand.

    Parameters
    ----------
    Y : array or frame of shape (m, q)
        Labels; NaN where not observed.
    F : array or frame of shape (m, q)
        Predictions that were made without their labels.
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`.
    setting : str or Setting, default=None
        Chooses the average: micro in A and D, per instance in B, per task in C.
    average : {"micro", "instance", "task"}, default=None
        The average itself, instead of `setting`.
    over : {"instances", "tasks", "both"}, default="both"
        What is drawn: whatever would be another in a repetition of the study.
    n_resamples : int, default=1000
    level : float, default=0.95
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Interval
        Draws where the score is undefined are left out, and counted.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(30, 20))
    >>> print(bootstrap_interval(Y, Y + rng.normal(size=(30, 20)), "r2", over="instances", random_state=0))
    0.07397 (95 % interval ...)
    """
    check_choice(over, "over", ("instances", "tasks", "both"))
    n_resamples, level = check_whole(n_resamples, "n_resamples"), check_share(level, "level")
    grid, where = read_labels(Y), as_average(average, setting)
    stack, shape = read_stack(F, grid)
    if shape:
        raise ValueError(f"F must be one grid of predictions, found a stack of shape {shape} of them.")
    labels, predicted, (m, q) = grid.values, stack[0, ...], grid.values.shape
    for count, name, spared in ((m, "instances", "tasks"), (q, "tasks", "instances")):
        if over != spared and count < 2:
            raise ValueError(f"Y has only {count} of the {name} that are to be drawn: at least two are needed.")
    judge = scorer(scoring)
    score = float(judge(labels, predicted, average=where, tie_tolerance=None))
    options: dict[str, Any] = {"average": where, "over": over, "n_resamples": n_resamples, "random_state": random_state}
    scores = resampled_scores(labels, stack, judge, **options)[:, 0]
    scores = scores[~np.isnan(scores)]
    if not scores.size:
        raise ValueError(f"{judge.name} is undefined in all {n_resamples} resamples: there are too few labels for it.")
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(score, float(low), float(high), level, scores.size, n_resamples - scores.size)


def _tested(Y: Array, F: Array, fold: Fold, setting: Setting) -> tuple[Array, Array]:
    """Return labels and predictions of a fold alone."""
    if setting is Setting.A:
        return Labels.of_grid(Y).hide(~fold.left).values, F
    return take_block(Y, *fold.leaving), take_block(F, *fold.leaving)
