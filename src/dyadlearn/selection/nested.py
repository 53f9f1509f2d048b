r"""Nested scores: of a search or a model with learned kernels, on labels that were not used in its choices.

A kernel that was learned from a label depends on this label. So a nested prediction comes from a
model that has learned all its kernels again without the fold. This needs no raw data, because the
wide table of a side contains the kernels of all its rows.

The best of many scores is optimistic. For held-out scores :math:`s(\lambda)`,

.. math:: \mathbb{E}\,\max_\lambda s(\lambda) \;\ge\; \max_\lambda \mathbb{E}\,s(\lambda) .

`nested_score` chooses the regularisation without the cells that are scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, cast, namespace
from dyadlearn._checks import caller_level, check_whole
from dyadlearn._messages import Message
from dyadlearn._progress import Progress
from dyadlearn.exceptions import BaselineWarning, GridEdgeWarning, NoLabelWarning
from dyadlearn.holdout import FitAgain, Units, plan_fits
from dyadlearn.holdout.folds import Fold
from dyadlearn.holdout.one_fit import fold_codes, folds_to_compare
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import prepared_score, usual_scoring
from dyadlearn.models.fitted import FittedRidge, Groups
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.reading import Training, fold_predictions, groups_in_order, without_fold
from dyadlearn.selection.evaluate import baseline_scores, best_in_words
from dyadlearn.selection.searching import FittedChoice, code_groups
from dyadlearn.settings import Setting, as_setting

#: Function of training data and of groups that returns a fitted model.
Fit = Callable[[Training, Groups], FittedChoice]


class Prepared(NamedTuple):
    """Checked training data of a model, and the functions that fit it.

    Attributes
    ----------
    data : Training
    fit : callable
        Function that fits the model to the data.
    again : callable
        Function that fits the model to a part of the data, without a progress bar.
    """

    data: Training
    fit: Fit
    again: Fit


class _Refit(NamedTuple):
    """What a fit without a fold gives.

    Attributes
    ----------
    predictions : array
        Predictions of the labels of the fold.
    alphas : dict
        Regularisation that was chosen, by the name of the parameter.
    warned : list of warnings.WarningMessage
    """

    predictions: Array
    alphas: dict[str, Any]
    warned: list[warnings.WarningMessage]


@dataclass(eq=False)
class Refits:
    """Fits of a model without each fold, for a plan of `dyadlearn.holdout.plan_fits`.

    Parameters
    ----------
    fit : callable
        Function of training data and of groups, which the model leaves out together within these
        data, that returns a fitted model.
    data : Training
        Training data.
    groups : Groups
        Groups of all instances and tasks.
    setting : Setting
        Setting of the predictions; it may differ from the setting of the model.
    progress : bool or None
        Whether to show a progress line.

    Attributes
    ----------
    alphas : list of dict
        Regularisation that was chosen in each fold, by the name of the parameter; empty before
        `held_out`.
    """

    fit: Fit
    data: Training
    groups: Groups
    setting: Setting
    progress: bool | None
    alphas: list[dict[str, Any]] = field(default_factory=list, init=False)

    def line(self, n_folds: int) -> Progress:
        """Return the line of progress."""
        return Progress(n_folds, "Nested folds", self.progress, 1)

    def predict(self, fold: Fold) -> _Refit:
        """Fit the model without a fold, and predict the labels of the fold."""
        left, asked = without_fold(self.data, self.setting, fold)
        groups = [
            None if codes is None else codes[staying]
            for codes, staying in zip(self.groups, fold.staying, strict=True)
        ]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = self.fit(left, (groups[0], groups[1]))
            predictions = self._predicted(fitted, asked, fold)
        return _Refit(predictions, fitted.alphas, caught)

    def _predicted(self, fitted: FittedRidge, asked: Sequence[Any], fold: Fold) -> Array:
        """Return the predictions for the labels of a fold by a model that was fitted without it."""
        rows: list[Any] = []
        for axis, new in enumerate(asked):
            rows.append(None if new is None else fitted.sides[axis].new_rows(new))
        if self.data.labels.grid is None:
            places = []
            for leaving, at in zip(fold.leaving, self.data.labels.places, strict=True):
                places.append(np.searchsorted(leaving, at[fold.test]))
            return fitted.expansion.at(rows[0], rows[1], (places[0], places[1]))
        # In A the predictions for the training rows include the hidden labels.
        if self.setting is Setting.A:
            predicted = fitted.completed_problem.Y
        else:
            predicted = fitted.predict(*rows)
        return fold_predictions(predicted, fold)

    def held_out(self, how: FitAgain) -> Array:
        """Return the predictions of a plan, of the shape of the labels' values, and warn once for all folds."""
        results: list[_Refit] = how.results()
        self.alphas = [result.alphas for result in results]
        edges = [
            any(issubclass(record.category, GridEdgeWarning) for record in result.warned)
            for result in results
        ]
        if n_at_edge := sum(edges):
            message = f"In {n_at_edge} of {len(edges)} folds a best regularisation is on the edge of the grid"
            warnings.warn(f"{message}: widen it.", GridEdgeWarning, stacklevel=caller_level())
        # Repeat each distinct warning of the folds once, except those that have a common message
        # for all folds. Lines of this package are the same in every process, those of callers are not.
        caught = [record for result in results for record in result.warned]
        others = {
            (record.category, record.filename, record.lineno): record for record in reversed(caught)
        }
        for (category, _, _), record in others.items():
            if not issubclass(category, (NoLabelWarning, GridEdgeWarning, BaselineWarning)):
                warnings.warn(record.message, stacklevel=caller_level())
        return how.placed([result.predictions for result in results])


@dataclass(frozen=True, eq=False, repr=False)
class NestedScore:
    """Score of a search on cells that were not used in its choices.

    Attributes
    ----------
    score : float
        Score of all held-out predictions; rankings and correlations are compared within folds.
    setting : str
    fold_scores : array of shape (n_folds,)
        Score of the predictions of each fold; NaN if the metric is undefined in the fold.
    alphas : array of shape (n_folds,)
        Regularisation chosen in each fold.
    task_alphas : array of shape (n_folds,) or None
        Regularisation of the tasks chosen in each fold; None if the model has none.
    predictions : array or frame of shape (m, q)
        Prediction of every cell by the model that was fitted without it, of the type of the labels.
    baselines : dict of str to float
        Scores of the baselines in the same folds; see `dyadlearn.holdout.baselines`.
    folds : integer array of shape (m, q), or (n,) for a list of n pairs
        Fold of each label.
    """

    score: float
    setting: str
    fold_scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    predictions: Any
    baselines: dict[str, float]
    folds: np.ndarray | None = None

    def __repr__(self) -> str:
        means = best_in_words(self.baselines)
        return f"NestedScore({self.score:.4g} in setting {self.setting}, {len(self.fold_scores)} folds; means: {means})"


def nested_score(
    search: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cv: int = 5,
    random_state: Any = None,
) -> NestedScore:
    """Score a search by nested cross-validation, on cells that were not used in its choices.

    Unlike `dyadlearn.evaluate`, this function takes an estimator that need not be fitted, and the
    training data.

    Folds of pairs (setting A), of instances (B), of tasks (C) or blocks of both (D) are left out in
    turn. For each fold the whole search runs on the remaining data, and the chosen model predicts
    the left-out cells. All predictions are scored together, except that rankings and correlations
    compare predictions of the same fold only, and the score is the mean over folds. In setting A
    the labels of a fold are hidden and the grid becomes incomplete. An instance or task without
    remaining labels stays in the grid and is predicted from its features; an independent task
    without an intercept is predicted as 0, and one with an intercept as NaN. NaN predictions are
    not scored.

    Parameters
    ----------
    search : TwoStepRidgeCV, or any other model that chooses its regularisation
        The search to score; it is cloned, not fitted. The score uses its `setting`, `scoring` and
        `average`; without `scoring` the metric depends on the labels. `LearnedKernelRidge` learns its kernels
        again in each fold.
    X, y, tasks, sample_weight
        Arguments of its `fit`; for a `PairRegressor` of a search, `X` are the pairs.
    groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
        Groups of instances and of tasks. A group is left out together, by the folds and by the
        search within them.
    cv : int, default=5
        Number of folds; setting D has this number squared of blocks.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

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
    >>> nested = nested_score(search, X, Y, tasks=T, cv=2, random_state=0)
    >>> nested.alphas.shape, nested.score < search.fit(X, Y, tasks=T).best_score_
    ((4,), True)
    """
    if isinstance(search, PairRegressor):
        X, y, tasks, sample_weight = search.given_to_model(X, y, sample_weight)
        search = search.model
    _check_search(search, tasks)
    setting = as_setting(search.setting)
    prepared = search.prepared(X, y, tasks, sample_weight)
    data = prepared.data
    labels = data.labels
    together = code_groups(labels, groups_in_order(data, groups, task_groups))
    # A model that learns its kernels may use groups in other settings too.
    grouped = setting if search.learns_kernels else Setting.D
    used = Units.of_groups(labels, grouped, together)
    splitter = SettingKFold(setting, check_whole(cv, "cv", 2), random_state=random_state)
    refits = Refits(prepared.again, data, together, setting, search.progress)
    how = plan_fits(labels, setting, used, splitter, predict=refits.predict, line=refits.line)
    F = refits.held_out(how)
    scoring = search.scoring
    if scoring is None:
        scoring = usual_scoring(labels.values)
    judge = scorer(scoring).averaged(search.average)
    targets = scored_labels(labels, F, setting)
    compared = folds_to_compare(labels, judge, setting, how.units)
    score = prepared_score(labels, judge, setting, targets, folds=compared)
    task_alphas = None
    if "task_alpha" in refits.alphas[0]:
        task_alphas = np.array([chosen["task_alpha"] for chosen in refits.alphas])
    fold_scores = [_score_of(judge, labels, targets, F, fold, setting) for fold in how.folds]
    return NestedScore(
        score=float(score(F)),
        setting=setting.value,
        fold_scores=np.array(fold_scores),
        alphas=np.array([chosen["alpha"] for chosen in refits.alphas]),
        task_alphas=task_alphas,
        predictions=labels.restored(cast(F, getattr(namespace(F), data.precision)), data.form),
        baselines=baseline_scores(labels, setting, how.units, score),
        folds=fold_codes(labels, setting, how.units),
    )


def _check_search(search: Any, tasks: Any) -> None:
    """Raise if a model has no search, or if its nested folds are undefined."""
    if not getattr(search, "searches", False):
        name = type(search).__name__
        raise TypeError(
            f"{name} has no search, so evaluate(model, cv=5) is its nested score: give a "
            f"TwoStepRidgeCV, say."
        )
    if search.symmetry is not None:
        raise ValueError(
            "A network has no folds of one side: nested_score is for grids of instances and tasks."
        )
    setting = as_setting(search.setting)
    if 1 in setting.new and tasks is None:
        raise ValueError(
            Message(
                "Setting {setting} leaves out tasks: give <tasks=>, their features or kernel.",
                setting=setting.value,
            )
        )


def _score_of(
    judge: Scorer, labels: Labels, targets: Array, F: Array, fold: Fold, setting: Setting
) -> float:
    """Return the score of one fold, NaN if it is undefined."""
    hidden = ~fold.masks[1]
    part = replace(labels, values=targets, weights=None).hide(hidden)
    one = np.zeros(part.values.shape, dtype=np.intp)
    folds = one if judge.average_in(setting) == "fold" else None
    try:
        score = prepared_score(part, judge, setting, folds=folds)
        return float(score(labels.kept(F, hidden)))
    except (ValueError, ArithmeticError):
        return math.nan
