"""Held-out predictions and landscapes of a fitted model, as a report needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_alphas
from dyadlearn._progress import Progress
from dyadlearn._tables import in_order
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout.labelled import labelled_part
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.report.data import Landscape, Result
from dyadlearn.report.words import joined
from dyadlearn.selection._search import RidgeSearch, best_kernel, grid_of
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.selection.incomplete import fold_groups, folds_of, has_shortcut, method_in_words
from dyadlearn.selection.landscape import landscape
from dyadlearn.settings import Setting, as_setting

__all__ = ["Question"]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a fitted model.

    Attributes
    ----------
    model : fitted model
    scoring : str, callable or None
        None is the score the model was chosen by; for one that was not chosen, ``"roc_auc"`` for labels of two
        values and ``"neg_mean_squared_error"`` for all others.
    wanted : iterable of settings or None
        None is all of them; where labels are missing, only those that nothing has to be solved again for, and the
        model's own.
    alphas, task_alphas : iterables of float or None
        Of the landscapes; None is what the model has searched, else 10⁻⁷ … 10⁶.
    groups, task_groups, cv
        What is left out together, as in `dyadlearn.landscape`.
    progress : bool or None
    """

    model: PairwiseRidge
    scoring: str | Callable[[Any, Any], float] | None = None
    wanted: Iterable[str | Setting] | None = None
    alphas: Iterable[float] | None = None
    task_alphas: Iterable[float] | None = None
    groups: Any = None
    task_groups: Any = None
    cv: Any = None
    progress: bool | None = None

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels of shape (m, q)."""
        return np.asarray(to_numpy(self.model._problem().Y), dtype=np.float64)

    @cached_property
    def search(self) -> RidgeSearch | None:
        """The model, if it has chosen its regularisation itself."""
        return self.model if isinstance(self.model, RidgeSearch) else None

    @cached_property
    def own(self) -> Setting | None:
        """The setting that the regularisation was chosen for."""
        return None if self.search is None else self.search._searched_setting

    @cached_property
    def judged_by(self) -> Any:
        """The name or function of the score."""
        return scoring_of(self.model, self.scoring)

    @cached_property
    def judge(self) -> Scorer:
        """The score, greater being better."""
        return scorer(self.judged_by)

    @cached_property
    def is_binary(self) -> bool:
        """Whether the labels are of two values."""
        return np.unique(self.labels[~np.isnan(self.labels)]).size == 2

    @cached_property
    def left_out(self) -> tuple[Any, Any, Any]:
        """Groups, task groups and folds, in the order of the training data."""
        grid = self.model._grid
        groups = in_order(self.groups, grid.row_ids, None, "groups")
        return groups, in_order(self.task_groups, grid.column_ids, None, "task_groups"), self.cv

    @property
    def is_as_searched(self) -> bool:
        """Whether nothing is said of what is left out together, so that what a search has kept may be shown again."""
        return all(given is None for given in self.left_out)

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings to show."""
        problem = self.model._problem()
        if self.wanted is not None:
            wanted = list(dict.fromkeys(as_setting(setting) for setting in self.wanted))
            if problem.task_spectrum is None:
                wanted = [setting for setting in wanted if not setting.new_task]
            if not wanted:
                raise ValueError("settings names none that this model can be shown in: give some of A, B, C and D.")
            return wanted
        every = [setting for setting in Setting if problem.task_spectrum is not None or not setting.new_task]
        if problem.is_complete:
            return every
        own = self.own or (Setting.A if problem.method == "network" else Setting.B)
        return [setting for setting in every if setting is own or self._is_quick(setting)]

    @property
    def not_shown(self) -> list[Setting]:
        """Settings that are left out by default, for they take long where labels are missing."""
        if self.wanted is not None or self.model._problem().task_spectrum is None:
            return []
        return [setting for setting in Setting if setting not in self.settings]

    def _is_quick(self, setting: Setting) -> bool:
        problem = self.model._problem()
        return problem.is_complete or has_shortcut(problem, setting, *self.left_out)

    def _is_closed(self, setting: Setting) -> bool:
        """Tell whether a whole landscape takes no solving again."""
        problem = self.model._problem()
        if problem.is_complete:
            return self.cv is None or setting is not Setting.A
        return self.is_as_searched and (problem.task_spectrum is None or labelled_part(problem) is not None)

    def results(self) -> list[Result]:
        """Return how the model does in each setting."""
        with Progress(len(self.settings), "Hold-out", self.progress) as bar:
            found = []
            for setting in self.settings:
                found.append(self._result(setting))
                bar.advance()
        return found

    def _result(self, setting: Setting) -> Result:
        is_own, nothing = setting is self.own, float("nan")
        try:
            held_out, method = self._held_out(setting)
        except LeverageError as error:
            return Result(setting, is_own, None, nothing, {}, 0, "none", str(error))
        others = {}
        for name in ("roc_auc", "average_precision") if self.is_binary else ("neg_mean_squared_error", "r2"):
            if name != self.judge.name:
                others[name] = _score_or_nan(scorer(name), self.labels, held_out, setting)
        try:
            prepared = self.judge.prepare(self.labels, setting=setting, tie_tolerance=None)
        except ValueError as error:  # undefined for these labels
            return Result(setting, is_own, held_out, nothing, others, 0, method, str(error))
        return Result(setting, is_own, held_out, float(prepared(held_out)), others, prepared.n_undefined, method)

    def _held_out(self, setting: Setting) -> tuple[np.ndarray, str]:
        """Return predictions of shape (m, q), and how they were made."""
        model, problem = self.model, self.model._problem()
        kept = self.search._kept_holdout(setting) if self.search is not None and self.is_as_searched else None
        if kept is not None:
            return np.asarray(to_numpy(kept[0]), dtype=np.float64), kept[1]
        groups, task_groups, cv = self.left_out
        groups, task_groups = groups if setting.new_instance else None, task_groups if setting.new_task else None
        method = method_in_words(problem, setting, groups, task_groups, cv)
        if problem.is_complete and cv is not None and setting is not Setting.A:
            folds = fold_groups(cv, setting, problem.Y.shape, groups, task_groups)
            held_out = model._held_out(setting, groups=folds[0], task_groups=folds[1])
        elif cv is None and (problem.is_complete or has_shortcut(problem, setting, groups, task_groups, cv)):
            held_out = model._held_out(setting, groups=groups, task_groups=task_groups)
        elif np.isnan(problem.alpha):
            raise ValueError("A model with a regularisation for each task leaves out one instance at a time: no cv.")
        else:
            folds_left_out = folds_of(problem, setting, groups, task_groups, cv)
            held_out = folds_left_out.held_out(problem.alpha, problem.task_alpha)
        return np.asarray(to_numpy(held_out), dtype=np.float64), method

    def landscapes(self, settings: Sequence[Setting]) -> tuple[list[Landscape], list[str]]:
        """Return the landscapes of some settings, and what is to be said of those that are not there."""
        problem = self.model._problem()
        fixed = [each for each in (problem.filter, problem.task_filter) if not each.uses_alpha()]
        if fixed:
            return [], [f"{fixed[0]} does not depend on the regularisation, so there is no landscape over it."]
        kept = self._kept_landscape()
        wanted = [setting for setting in settings if setting is not self.own or kept is None]
        said, slow = [], []
        if self.alphas is None and self.task_alphas is None:
            slow = [setting for setting in wanted if not self._is_closed(setting)]
        if slow:
            names = joined([setting.value for setting in slow])
            said.append(
                f"There is no landscape of setting {names}: every regularisation would be solved for again. It is "
                "drawn where alphas= are given, and a model that chooses its regularisation keeps that of its own "
                "setting."
            )
        found = {} if kept is None else {self.own: kept}
        for setting, scores in self._scored([each for each in wanted if each not in slow], said).items():
            found[setting] = scores
        rows, columns = self.grids
        chosen = tuple(float(value) for value in np.unique(getattr(self.model, "alpha_", problem.alpha)))
        landscapes = []
        for setting in settings:
            if setting in found and not np.isnan(found[setting]).all():
                two = found[setting].ndim == 2
                tasks = (np.asarray(columns), float(problem.task_alpha)) if two else (None, None)
                shown = (setting is self.own, found[setting], np.asarray(rows))
                landscapes.append(Landscape(setting, *shown, tasks[0], chosen, tasks[1]))
        return landscapes, said

    @cached_property
    def grids(self) -> tuple[list[float], list[float]]:
        """The regularisations of the landscapes."""
        rows, columns = (
            grid_of(getattr(self.model, name, None), name) if given is None else check_alphas(given, name)
            for name, given in (("alphas", self.alphas), ("task_alphas", self.task_alphas))
        )
        return rows, columns

    def _kept_landscape(self) -> np.ndarray | None:
        """Return the landscape that the model has searched, if it is the one that is asked for."""
        search = self.search
        if search is None or not self.is_as_searched or not hasattr(search, "landscape_"):
            return None
        if self.alphas is not None or self.task_alphas is not None:
            return None
        if scorer(search.scoring) != self.judge or np.ndim(search.alpha_):
            return None
        scores = search.landscape_
        if scores.ndim > 2:  # kernel parameters were searched too
            scores = best_kernel(search)
        return scores

    def _scored(self, settings: Sequence[Setting], said: list[str]) -> dict[Setting, np.ndarray]:
        if not settings:
            return {}
        groups, task_groups, cv = self.left_out
        rows, columns = self.grids
        options = {"groups": groups, "task_groups": task_groups, "cv": cv, "progress": self.progress}
        try:
            found = landscape(self.model, rows, columns, settings, self.judged_by, **options)
        except LeverageError as error:
            if len(settings) > 1:
                return {key: value for each in settings for key, value in self._scored([each], said).items()}
            said.append(f"There is no landscape of setting {settings[0].value}. {error}")
            return {}
        return {Setting(letter): scores for letter, scores in found.items()}


def _score_or_nan(judge: Scorer, Y: np.ndarray, F: np.ndarray, setting: Setting) -> float:
    try:
        return float(judge(Y, F, setting=setting, tie_tolerance=None))
    except ValueError:
        return float("nan")
