r"""Scores that may be reported: not chosen on the cells they are computed on.

The best of many scores is optimistic, since luck takes part in the choice: with held-out scores :math:`s(\lambda)`,

.. math:: \mathbb{E}\,\max_\lambda s(\lambda) \;\ge\; \max_\lambda \mathbb{E}\,s(\lambda) .

`nested_score` chooses without the cells that are scored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from dyadlearn._array import Array, cast, namespace, take_block, take_rows
from dyadlearn._codes import group_codes
from dyadlearn.exceptions import KernelError
from dyadlearn.holdout.baselines import baselines
from dyadlearn.holdout.folds import Fold
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models._inputs import groups_in_order
from dyadlearn.selection.evaluate import best_in_words, prepared_score, scored_means
from dyadlearn.selection.refitting import predict_folds
from dyadlearn.settings import Setting, as_setting


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
    whole, Y = data.labels, data.labels.values
    groups, task_groups = groups_in_order(data.form, groups, task_groups)
    groups = None if groups is None else group_codes(groups, whole.shape[:1], "groups")
    task_groups = None if task_groups is None else group_codes(task_groups, whole.shape[1:], "task_groups")
    for axis, (table, name) in enumerate(((data.instances, "X"), (data.tasks, "tasks"))):
        if table is not None and data.are_kernels[axis] and table.values.shape[0] != table.values.shape[1]:
            raise KernelError(
                f"{name} must be a square matrix for a precomputed kernel, found shape {tuple(table.values.shape)}."
            )
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
    labels = scored_labels(whole, F, setting)
    prepared = prepared_score(whole, judge, setting, labels)
    score, means = float(prepared(F)), baselines(whole, setting, units)
    return NestedScore(
        score=score,
        setting=setting.value,
        fold_scores=np.array([_score_of(judge, whole, labels, F, fold, setting) for fold in found.folds]),
        alphas=np.array(found.alphas),
        task_alphas=None if found.task_alphas is None else np.array(found.task_alphas),
        predictions=whole.restored(cast(F, getattr(namespace(F), data.precision)), data.form),
        baselines=scored_means(means, prepared),
    )


def _score_of(judge: Scorer, labels: Labels, targets: Array, F: Array, fold: Fold, setting: Setting) -> float:
    """Return the score of a fold alone, NaN if it is undefined."""
    left = np.zeros(tuple(labels.values.shape), dtype=bool)
    left.reshape(-1)[fold.test] = True
    if labels.grid is None:
        part, F = replace(labels, values=targets).take(left), take_rows(F, fold.test)
    elif setting is Setting.A:
        part = Labels.of_grid(targets).hide(~left)
    else:
        part, F = Labels.of_grid(take_block(targets, *fold.leaving)), take_block(F, *fold.leaving)
    try:
        return float(prepared_score(part, judge, setting)(F))
    except (ValueError, ArithmeticError):
        return math.nan
