"""How a fitted model does in every setting, and at every regularisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_alphas
from dyadlearn._progress import Progress
from dyadlearn._tables import in_order
from dyadlearn._text import joined
from dyadlearn.diagnostics.fitted import is_network, known_settings
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan, plan
from dyadlearn.holdout.units import scored_labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.selection.evaluate import model_holdout, planned_holdout, score_holdout, scoring_of
from dyadlearn.selection.landscape import landscape
from dyadlearn.selection.nested import Interval, bootstrap_interval, score_or_nan
from dyadlearn.selection.search import grid_of
from dyadlearn.settings import Setting
from dyadlearn.views.landscape import LandscapeView, landscape_of_scores, landscape_of_search

# Multiplications that solving the folds of a setting again may take if nobody has asked for it: half a minute at most.
_MOST_WORK = 1e11
# Cells that an interval may draw in all: a few seconds.
_MOST_DRAWN, _DRAWS = 10_000_000, 200
# How many permuted labels a null is the mean of.
_PERMUTED = 10


@dataclass(frozen=True, eq=False)
class Result:
    """How a model does in one setting.

    Attributes
    ----------
    setting : Setting
    held_out : array of shape (m, q) or None
        Predictions without what the setting leaves out.
    score : float
        NaN where there is none.
    others : dict of str to float
        Further scores, by their names.
    n_undefined : int
        Instances or tasks that the score leaves out, for it is undefined there.
    method : str
        How the predictions were made.
    trouble : str or None
        Why there is no score.
    labels : array of shape (m, q) or None
        What the predictions are compared with.
    baselines : dict of str to float
        What simple means reach, held out alike, by their names; none where there are no predictions.
    interval : Interval or None
        How far the score may be off because other instances and tasks could have been drawn; None where drawing them
        takes too long, or has no meaning.
    null : float
        The mean score of a few permuted labels; NaN where these would be solved for again.
    within : float
        How far from their held-out predictions 90 % of the labels lie at most; NaN for labels of two values.
    """

    setting: Setting
    held_out: np.ndarray | None = None
    score: float = float("nan")
    others: dict[str, float] = field(default_factory=dict)
    n_undefined: int = 0
    method: str = "none"
    trouble: str | None = None
    labels: np.ndarray | None = None
    baselines: dict[str, float] = field(default_factory=dict)
    interval: Interval | None = None
    null: float = float("nan")
    within: float = float("nan")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A fitted model under a score, with what is left out together.

    Attributes
    ----------
    model : fitted model of a grid
    scoring : str, callable or None
        None is the score the model was chosen by; for one that was not chosen, ``"roc_auc"`` for labels of two
        values and ``"neg_mean_squared_error"`` for all others.
    wanted : iterable of settings or None
        None is all of them; where labels are missing, those that nothing has to be solved again for, those in which
        that is little work, and the model's own.
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

    @property
    def own(self) -> Setting | None:
        """The setting that the regularisation was chosen for, if the model has chosen it itself."""
        return getattr(self.model, "_searched_setting", None)

    @cached_property
    def judge(self) -> Scorer:
        """The score, greater being better."""
        return scorer(scoring_of(self.model, self.scoring))

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
        if self.wanted is not None:
            wanted = known_settings(self.model, self.wanted)
            if not wanted:
                raise ValueError("settings names none that this model can be shown in: give some of A, B, C and D.")
            return wanted
        every = known_settings(self.model)
        if self.model._problem().labels.full is not None:
            return every
        own = self.own or (Setting.A if is_network(self.model) else Setting.B)
        return [each for each in every if each is own or self._is_quick(each)]

    def _is_quick(self, setting: Setting) -> bool:
        """Return whether a setting has predictions that need no folds, or only folds that are little work."""
        how = self._plan(setting)
        if how.folds is None:
            return True
        if is_network(self.model):  # which has no folds of nodes
            return False
        return self.is_little_work(how.n_solves)

    def is_little_work(self, n_solves: int) -> bool:
        """Return whether an incomplete grid may be completed so often without anybody having asked for it.

        That takes about as many steps as it took when the model was fitted, a product with both sides in each; to take
        a side apart costs a few more.
        """
        if self.model._problem().labels.full is not None:
            return True
        (m, q), completion = self.labels.shape, self.model._completion
        n_steps = 10 + (0 if completion is None else completion.solution.n_iter)
        return bool(n_solves * n_steps * m * q * (m + q) <= _MOST_WORK)

    def has_pairs(self) -> bool:
        """Return whether predictions in setting A are there, or to be had with little work."""
        return self.own is Setting.A or self._is_quick(Setting.A)

    @property
    def not_shown(self) -> list[Setting]:
        """Settings that are left out by default, for they take long where labels are missing."""
        if self.wanted is not None:
            return []
        return [setting for setting in known_settings(self.model) if setting not in self.settings]

    def _plan(self, setting: Setting) -> Plan:
        return plan(self.model._problem(), setting, *self.left_out)

    def results(self) -> list[Result]:
        """Return how the model does in each setting."""
        with Progress(len(self.settings), "Hold-out", self.progress) as bar:
            found = []
            for setting in self.settings:
                found.append(self._result(setting))
                bar.advance()
        return found

    def _result(self, setting: Setting) -> Result:
        m, q = self.labels.shape
        if (setting.new_instance and m < 2) or (setting.new_task and q < 2):
            return Result(setting, trouble="A side has one member only, and without it nothing is left to learn from.")
        try:
            if self.is_as_searched:
                found = model_holdout(self.model, setting)
            else:
                found = planned_holdout(self.model, self._plan(setting))
        except LeverageError as error:
            return Result(setting, trouble=str(error))
        problem = self.model._problem()
        try:
            scored = scored_labels(problem, found.predictions, setting)
        except ValueError as error:
            return Result(setting, method=found.method, trouble=str(error))
        held_out, labels = (np.asarray(to_numpy(each), dtype=np.float64) for each in (found.predictions, scored))
        ranks = usual_scoring(self.labels) == "roc_auc"
        names = ("roc_auc", "average_precision") if ranks else ("neg_mean_squared_error", "r2")
        others = {
            name: float(score_or_nan(scorer(name), labels, held_out, setting=setting))
            for name in names
            if name != self.judge.name
        }
        result = Result(setting, held_out, others=others, method=found.method, labels=labels)
        try:
            each = score_holdout(problem, setting, found, self.judge, scored, _PERMUTED)
        except ValueError as error:
            return replace(result, trouble=str(error))
        return replace(
            result,
            **each._asdict(),
            interval=self._interval(setting, labels, held_out),
            within=math.nan if ranks else float(np.nanquantile(np.abs(labels - held_out), 0.9, method="inverted_cdf")),
        )

    def _interval(self, setting: Setting, labels: np.ndarray, held_out: np.ndarray) -> Interval | None:
        """Return how far the score may be off because other instances and tasks could have been drawn."""
        n_resamples = min(_DRAWS, _MOST_DRAWN // labels.size)
        # Both sides of a network are one.
        if n_resamples < 100 or is_network(self.model) or self.judge.is_function:
            return None
        try:
            return bootstrap_interval(
                labels, held_out, self.judge, setting=setting, n_resamples=n_resamples, random_state=0
            )
        except ValueError:  # a side of one, or too few labels in every draw
            return None

    def landscapes(self, settings: Sequence[Setting]) -> tuple[list[LandscapeView], list[str]]:
        """Return the landscapes of some settings, and what is to be said of those that are not there."""
        fixed = [each for each in self.model._problem().pairing.filters if not each.uses_alpha()]
        if fixed:
            return [], [f"{fixed[0]} does not depend on the regularisation, so there is no landscape over it."]
        if self.model._problem().pairing.uses_labels:
            return [], ["A model that describes instances or tasks by profiles of their labels has no landscape."]
        kept = self._kept_landscape()
        found = {} if kept is None or self.own not in settings else {self.own: kept}
        wanted = [setting for setting in settings if setting not in found]
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
        for setting, scores in self._scored([each for each in wanted if each not in slow], said).items():
            if not np.isnan(scores).all():
                found[setting] = self._view(setting, scores)
        return [found[setting] for setting in settings if setting in found], said

    def _is_closed(self, setting: Setting) -> bool:
        """Return whether a whole landscape takes no solving again."""
        how = self._plan(setting)
        return how.swept is not None or (how.folds is None and not how.problem.pairing.knows_tasks)

    @cached_property
    def grids(self) -> tuple[list[float], list[float]]:
        """The regularisations of the landscapes."""
        rows, columns = (
            grid_of(getattr(self.model, name, None), name) if given is None else check_alphas(given, name)
            for name, given in (("alphas", self.alphas), ("task_alphas", self.task_alphas))
        )
        return rows, columns

    def _view(self, setting: Setting, scores: np.ndarray) -> LandscapeView:
        """Return scores over the grids, with the regularisation of the model in place of the best one."""
        found = landscape_of_scores(scores, *self.grids, setting=setting, scoring=self.judge)
        alphas = self.model._problem().pairing.alphas
        return replace(found, alpha=getattr(self.model, "alpha_", alphas["alpha"]), task_alpha=alphas.get("task_alpha"))

    def _kept_landscape(self) -> LandscapeView | None:
        """Return the landscape that the model has searched, if it is the one that is asked for."""
        if self.alphas is not None or self.task_alphas is not None or not self.is_as_searched:
            return None
        # A model that was read from a file may have kept less.
        if not hasattr(self.model, "landscape_") or scorer(scoring_of(self.model)) != self.judge:
            return None
        kept = landscape_of_search(self.model)
        return None if np.ndim(kept.alpha) else kept

    def _scored(self, settings: Sequence[Setting], said: list[str]) -> dict[Setting, np.ndarray]:
        if not settings:
            return {}
        groups, task_groups, cv = self.left_out
        options = {"groups": groups, "task_groups": task_groups, "cv": cv, "progress": self.progress}
        try:
            found = landscape(self.model, *self.grids, settings, self.judge, **options)
        except LeverageError as error:
            if len(settings) > 1:
                return {key: value for each in settings for key, value in self._scored([each], said).items()}
            said.append(f"There is no landscape of setting {settings[0].value}. {error}")
            return {}
        return {Setting(letter): scores for letter, scores in found.items()}
