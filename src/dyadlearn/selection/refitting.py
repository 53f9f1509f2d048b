r"""What a search keeps of its held-out predictions, and models that are fitted again without each fold.

A kernel that was learned with a label knows something of it. Predictions for labels that had no part in anything come
from a model that has learned all of its kernels again, without the fold that it predicts. That takes no raw data: the
wide table of a side tells the kernels of any of its rows.

The best of many scores is optimistic, since luck takes part in the choice: with held-out scores :math:`s(\lambda)`,

.. math:: \mathbb{E}\,\max_\lambda s(\lambda) \;\ge\; \max_\lambda \mathbb{E}\,s(\lambda) .

`nested_score` chooses without the cells that are scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, cast, namespace, placed, take_rows
from dyadlearn._codes import group_codes
from dyadlearn._progress import Progress
from dyadlearn._state import is_shaped
from dyadlearn.exceptions import GridEdgeWarning, KernelError, NoLabelWarning
from dyadlearn.holdout import Units, plan
from dyadlearn.holdout.baselines import baselines
from dyadlearn.holdout.folds import Fold, folds_of
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.base import Groups, PairwiseRidge
from dyadlearn.models.fitted import HeldOut
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.reading import Training, fold_predictions, groups_in_order, without_fold
from dyadlearn.selection.evaluate import baseline_scores, best_in_words, prepared_score, scored_means
from dyadlearn.settings import Setting, as_setting


class KeptHoldout(PairwiseRidge, stored=False):
    """A model that keeps held-out predictions of one setting, in the file too."""

    setting: str
    scoring: Any

    holdout_method_: str
    holdout_setting_: str
    # The predictions, of the shape of the labels' values, and what left together for them.
    _predictions: Array
    _units: Units
    # What was to leave together, as numbers.
    _groups: np.ndarray | None
    _task_groups: np.ndarray | None

    @property
    def holdout_(self) -> Any:
        """Held-out predictions at the chosen values, in the form that the labels came in."""
        return self._as_labels(self._predictions)

    def _keep_groups(self, groups: Any, task_groups: Any) -> None:
        """Keep what leaves together."""
        m, q = self._labels.shape
        self._groups = None if groups is None else group_codes(groups, (m,), "groups")
        self._task_groups = None if task_groups is None else group_codes(task_groups, (q,), "task_groups")

    def _fits(self) -> bool:
        labels = self._labels
        return (
            super()._fits()
            and is_shaped(self._predictions, *labels.values.shape)
            and self._units.fit(labels)
            and Units(self._groups, self._task_groups).fit(labels)
        )

    @property
    def _searched_setting(self) -> Setting:
        """The setting that the regularisation was chosen for, whatever `setting` was set to since."""
        return as_setting(getattr(self, "holdout_setting_", self.setting))

    @property
    def baselines_(self) -> dict[str, float]:
        """What simple means reach in the setting of the search, held out as the predictions that it was chosen by."""
        check_is_fitted(self)
        setting = self._searched_setting
        kept = self._kept_holdout(setting)
        units = plan(self.fitted_.problem, setting).units if kept is None else kept.units
        fitted = self.fitted_
        return baseline_scores(fitted.labels, setting, units, self._score(setting), symmetry=fitted.symmetry)

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        """Return what the model was chosen by: a score of predictions (m, q), squared error where it names none."""
        scoring = "neg_mean_squared_error" if self.scoring is None else self.scoring
        return prepared_score(self._labels, scoring, setting)

    def _kept_holdout(self, setting: Setting) -> HeldOut | None:
        if setting is not self._searched_setting:
            return None
        return HeldOut(self._predictions, self.holdout_method_, self._units)

    def _hold_out(
        self, setting: Setting, *, cv: Any, groups: Any, task_groups: Any, nested: bool, exact: bool
    ) -> HeldOut:
        """Return held-out predictions; without groups and folds those that the model was chosen by."""
        kept = self._kept_holdout(setting) if cv is None and groups is None and task_groups is None else None
        if kept is not None:
            return kept
        how = {"cv": cv, "groups": groups, "task_groups": task_groups}
        return super()._hold_out(setting, **how, nested=nested, exact=exact)


class LearnedAgain(NamedTuple):
    """What models predict that were learned without a fold each.

    Attributes
    ----------
    predictions : array of shape (m, q)
        NaN where no fold predicts.
    folds : list of Fold
    alphas : list of float
        The regularisation that was learned in each.
    task_alphas : list of float or None
        That of the tasks, where there is one.
    """

    predictions: Array
    folds: list[Fold]
    alphas: list[Any]
    task_alphas: list[float] | None = None


def predict_folds(model: Any, data: Training, groups: Groups, setting: Setting, units: Units) -> LearnedAgain:
    """Leave out units in turn, fit a model without each, and predict it.

    Parameters
    ----------
    model : PairwiseRidge
        Need not be fitted.
    data : Training
        With a grid of labels.
    groups : (array or None, array or None)
        What the model leaves out together within the folds.
    setting : Setting
        What is asked, which need not be what the model chooses for.
    units : Units
    """
    labels = data.labels
    folds = folds_of(labels, setting, units)
    predictions, chosen, n_at_edge = [], [], 0
    with warnings.catch_warnings(record=True) as caught, Progress(len(folds), "Nested folds", model.progress) as bar:
        warnings.simplefilter("always")
        for fold in folds:
            n_before = len(caught)
            inner, predicted = _fit_without(model, data, groups, setting, fold)
            predictions.append(predicted)
            chosen.append((inner.alpha_, getattr(inner, "task_alpha_", None)))
            n_at_edge += any(issubclass(warning.category, GridEdgeWarning) for warning in caught[n_before:])
            bar.advance()
    if n_at_edge:
        warnings.warn(
            f"In {n_at_edge} of {len(folds)} folds a best regularisation is on the edge of the grid: widen it.",
            GridEdgeWarning,
            stacklevel=3,
        )
    _pass_on(caught)
    alphas, task_alphas = map(list, zip(*chosen, strict=True))
    flat = placed(predictions, [fold.test for fold in folds], labels.observed.size)
    found = namespace(flat).reshape(flat, labels.values.shape)
    return LearnedAgain(found, folds, alphas, None if task_alphas[0] is None else task_alphas)


def _fit_without(model: Any, data: Training, groups: Groups, setting: Setting, fold: Fold) -> tuple[Any, Array]:
    """Return a model that is fitted without a fold, and its predictions for the labels of the fold."""
    left, asked = without_fold(data, setting, fold)
    if setting is not Setting.A:
        staying = [None if codes is None else codes[kept] for codes, kept in zip(groups, fold.staying, strict=True)]
        groups = (staying[0], staying[1])
    again = model._refitted(left, groups, setting)
    sides = (again._side, again._task_side)
    rows = [None if new is None else side.new_rows(new) for side, new in zip(sides, asked, strict=True)]
    if data.labels.grid is None:
        places = [at[fold.test] for at in data.labels.places]
        if setting is not Setting.A:
            places = [np.searchsorted(own, at) for own, at in zip(fold.leaving, places, strict=True)]
        return again, again._expansion().at(*rows, (places[0], places[1]))
    # In A what is predicted for training includes the labels that were completed.
    predicted = again._closed_problem.Y if setting is Setting.A else again._expansion().grid(*rows)
    return again, fold_predictions(predicted, fold)


def _pass_on(caught: Sequence[warnings.WarningMessage]) -> None:
    """Warn once of each thing that was warned of in folds, but for what is said of all of them together."""
    others = {(each.category, each.filename, each.lineno): each for each in reversed(caught)}
    for (category, filename, line), each in others.items():
        if not issubclass(category, (NoLabelWarning, GridEdgeWarning)):
            warnings.warn_explicit(each.message, category, filename, line)


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
    alphas : array of shape (n_folds,)
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
    sample_weight: Any = None,
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
    search : TwoStepRidgeCV, or any other model that chooses its regularisation
        What to judge; it is cloned, not fitted. Its `setting` and `scoring` are those of the score; where it has no
        scoring, as `LearnedKernelRidge`, that is what suits the labels. The latter learns its kernels in each fold.
    X, y, tasks, sample_weight
        As in its `fit`; for a `PairRegressor` of such a model, X are the pairs.
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
    if isinstance(search, PairRegressor):
        X, y, tasks, sample_weight = search.given_to_model(X, y, sample_weight)
        search = search.model
    if not getattr(search, "searches", False):
        raise TypeError(
            f"{type(search).__name__} chooses nothing, so that evaluate(model, cv=5) is its nested score: give "
            "nested_score an estimator that chooses its regularisation, such as TwoStepRidgeCV."
        )
    if search.symmetry is not None:
        raise ValueError("A network has no folds of one side: nested_score is for grids of instances and tasks.")
    setting = as_setting(search.setting)
    if setting.new_task and tasks is None:
        raise ValueError(f"Setting {setting.value} leaves out tasks: give tasks=, their features or kernel.")
    reader = clone(search)
    data = reader._read(X, y, tasks, sample_weight)
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
    others = np.ones(tuple(labels.values.shape), dtype=bool)
    others.reshape(-1)[fold.test] = False
    part = replace(labels, values=targets, weights=None).hide(others)
    try:
        return float(prepared_score(part, judge, setting)(F if part.grid is not None else take_rows(F, fold.test)))
    except (ValueError, ArithmeticError):
        return math.nan
