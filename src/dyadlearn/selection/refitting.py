"""What a search keeps of the predictions that it was chosen by, and what simple means reach beside them.

Models that learn their kernels from labels: what is held out of them, they learn without.

A kernel that was learned with a label knows something of it. Predictions for labels that had no part in anything come
from a model that has learned all of its kernels again, without the fold that it predicts. That takes no raw data: the
wide table of a side tells the kernels of any of its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, namespace, placed
from dyadlearn._codes import group_codes
from dyadlearn._progress import Progress
from dyadlearn._state import is_shaped
from dyadlearn.exceptions import GridEdgeWarning, NoLabelWarning
from dyadlearn.holdout import Units, plan
from dyadlearn.holdout.folds import Fold, folds_of
from dyadlearn.models._base import Groups, PairwiseRidge
from dyadlearn.models.fitted import HeldOut
from dyadlearn.models.training import Training, fold_predictions, without_fold
from dyadlearn.selection.evaluate import baseline_scores, prepared_score
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
