"""All that there is to see of a fitted model: how it does in every setting, with its facts and warnings in words.

A page is written of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_alphas
from dyadlearn._progress import Progress
from dyadlearn._tables import Table, in_order
from dyadlearn.diagnostics.fitted import is_network, known_settings, labelled_model, labels_of
from dyadlearn.diagnostics.screening import Screening, screened
from dyadlearn.exceptions import LeverageError, NoLabelWarning, UndefinedScoreWarning
from dyadlearn.holdout import Plan, plan
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import PreparedScorer, Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.selection.baselines import baseline_scores
from dyadlearn.selection.evaluate import model_holdout, planned_holdout, scoring_of
from dyadlearn.selection.found import edges_of
from dyadlearn.selection.landscape import landscape
from dyadlearn.selection.search import grid_of
from dyadlearn.settings import Setting
from dyadlearn.views.baselines import nothing_learnt
from dyadlearn.views.curves import Points, points_of
from dyadlearn.views.grid import GridView, grid_of_model
from dyadlearn.views.landscape import LandscapeView, landscape_of_scores, landscape_of_search, loss_levels
from dyadlearn.views.spectra import SideSpectrum, spectra_of_model
from dyadlearn.views.words import joined, number, power

__all__ = ["Evaluation", "Result", "Summary", "summary_of"]


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
    """

    setting: Setting
    held_out: np.ndarray | None
    score: float
    others: dict[str, float]
    n_undefined: int
    method: str
    trouble: str | None = None
    labels: np.ndarray | None = None
    baselines: dict[str, float] = field(default_factory=dict)


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
        if self.model._problem().is_complete:
            return every
        own = self.own or (Setting.A if is_network(self.model) else Setting.B)
        return [each for each in every if each is own or self._plan(each).splitter is None]

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
        try:
            if self.is_as_searched:
                found = model_holdout(self.model, setting)
            else:
                found = planned_holdout(self.model, self._plan(setting))
        except LeverageError as error:
            return Result(setting, None, float("nan"), {}, 0, "none", str(error))
        problem = self.model._problem()
        try:
            scored = scored_labels(problem, found.predictions, setting)
        except ValueError as error:
            return Result(setting, None, float("nan"), {}, 0, found.method, str(error))
        held_out, labels = (np.asarray(to_numpy(each), dtype=np.float64) for each in (found.predictions, scored))
        ranks = usual_scoring(self.labels) == "roc_auc"
        names = ("roc_auc", "average_precision") if ranks else ("neg_mean_squared_error", "r2")
        others = {}
        for name in names:
            if name != self.judge.name:
                prepared, _ = _prepared(scorer(name), setting, labels)
                others[name] = float("nan") if prepared is None else float(prepared(held_out))
        prepared, trouble = _prepared(self.judge, setting, labels)
        if prepared is None:
            return Result(setting, held_out, float("nan"), others, 0, found.method, trouble, labels)
        means = baseline_scores(problem, setting, found.units, lambda F: prepared(to_numpy(F)))
        given = (others, prepared.n_undefined, found.method, None, labels, means)
        return Result(setting, held_out, float(prepared(held_out)), *given)

    def landscapes(self, settings: Sequence[Setting]) -> tuple[list[LandscapeView], list[str]]:
        """Return the landscapes of some settings, and what is to be said of those that are not there."""
        fixed = [each for each in self.model._problem().pairing.filters if not each.uses_alpha()]
        if fixed:
            return [], [f"{fixed[0]} does not depend on the regularisation, so there is no landscape over it."]
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
        """Tell whether a whole landscape takes no solving again."""
        how = self._plan(setting)
        return how.swept is not None or (how.splitter is None and not how.problem.pairing.knows_tasks)

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


@dataclass(frozen=True, eq=False)
class Summary:
    """A fitted model at a glance.

    Attributes
    ----------
    title : str
    facts : list of (str, str)
        What the model is, in words.
    grid : GridView
    sides : dict of str to SideSpectrum
    scoring : str
        Name of the score.
    own : Setting or None
        The setting that the regularisation was chosen for.
    results : list of Result
    landscapes : list of LandscapeView
    contradicting : Screening or None
        The labels that are contradicted most, by the predictions that are the best ones over all cells.
    warnings : list of str
        What a reader must mind.
    notes : list of str
        What a reader should know.
    """

    title: str
    facts: list[tuple[str, str]]
    grid: GridView
    sides: dict[str, SideSpectrum]
    scoring: str
    own: Setting | None
    results: list[Result]
    landscapes: list[LandscapeView]
    contradicting: Screening | None
    warnings: list[str]
    notes: list[str]

    def predictions(self) -> dict[Setting, np.ndarray]:
        """Return the held-out predictions (m, q) of the settings that have them."""
        return {each.setting: each.held_out for each in self.results if each.held_out is not None}

    def points(self, kind: str) -> dict[Setting, Points]:
        """Return the curves or clouds of the settings that have one."""
        found = {}
        for each in self.results:
            if each.held_out is None or each.labels is None:
                continue
            try:
                found[each.setting] = points_of(kind, each.labels, each.held_out, each.setting)
            except ValueError:  # as where no row has labels of both values
                continue
        return found

    def levels(self) -> list[float]:
        """Return the steps that all maps share, of what is lost against the best of each; none without a map."""
        maps = [each.drawn for each in self.landscapes if each.drawn is not None and len(each.drawn.names) == 2]
        return loss_levels(np.concatenate([each.loss.ravel() for each in maps])) if maps else []


def summary_of(
    model: Any, *, title: str | None = None, n_cells: int = 200, notes: Iterable[str] = (), **asked: Any
) -> Summary:
    """Compute all that there is to see of a model.

    Parameters
    ----------
    model : fitted estimator
    title : str or None
    n_cells : int
        How many contradicting cells to list.
    notes : iterable of str
        Warnings to show beside those that are found.
    **asked
        Of `Evaluation`.

    Returns
    -------
    Summary
    """
    fitted = labelled_model(model)
    asked_for, grid = Evaluation(fitted, **asked), grid_of_model(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = asked_for.results()
        landscapes, said = asked_for.landscapes([each.setting for each in results if each.trouble is None])
    stopped = []
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning | NoLabelWarning | UndefinedScoreWarning):
            stopped.append(str(warning.message))
        else:  # not ours to keep
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    sides = spectra_of_model(fitted)
    return Summary(
        title=title or f"{type(fitted).__name__}: {grid.size}",
        facts=_facts(asked_for, grid),
        grid=grid,
        sides=sides,
        scoring=asked_for.judge.name,
        own=asked_for.own,
        results=results,
        landscapes=landscapes,
        contradicting=_contradicting(results, labels_of(model), n_cells, once=grid.is_network),
        warnings=[*dict.fromkeys([*notes, *_warnings(asked_for, results), *stopped])],
        notes=[*said, *_remarks(asked_for, results, grid, sides)],
    )


def _contradicting(results: list[Result], labels: Table, n_cells: int, *, once: bool) -> Screening | None:
    """Return what the predictions that are the best ones over all cells object to: they can object most."""
    judge = scorer(usual_scoring(labels.values))
    usable = [each for each in results if each.held_out is not None]
    best = max(usable, key=lambda each: judge(each.labels, each.held_out, tie_tolerance=None), default=None)
    if best is None or best.held_out is None:
        return None
    found = screened(labels, best.held_out, best.method, best.setting, once=once)
    return found.first(min(n_cells, int(np.count_nonzero(found.contradictions > 0))))


def _facts(evaluation: Evaluation, grid: GridView) -> list[tuple[str, str]]:
    what = f"{len(grid.values):,} nodes, pairwise" if grid.is_network else grid.size
    facts = [("Model", type(evaluation.model).__name__), ("Grid", what)]
    share = 100 * grid.n_observed / grid.values.size
    facts.append(("Labels", f"{grid.n_observed:,}" + ("" if grid.is_complete else f" observed, {share:.3g} %")))
    low, high = (number(value) for value in grid.distinct[[0, -1]])
    if grid.is_binary:
        facts.append(("Values", f"{low} and {high}, {100 * grid.share_positive:.3g} % are {high}"))
    else:
        facts.append(("Values", f"{low} to {high}"))
    alphas = evaluation.model._problem().pairing.alphas
    chosen = np.unique(getattr(evaluation.model, "alpha_", alphas["alpha"]))
    if "task_alpha" in alphas:
        words = f"λ_d = {power(alphas['alpha'])}, λ_t = {power(alphas['task_alpha'])}"
    elif chosen.size > 1:
        words = f"λ from {power(chosen[0])} to {power(chosen[-1])}, one for each task"
    else:
        words = f"λ = {power(chosen[0])}"
    facts.append(("Regularisation", words))
    if evaluation.own is not None:
        facts.append(("Chosen for", f"setting {evaluation.own.in_words}"))
    facts.append(("Judged by", evaluation.judge.name))
    return facts


def _warnings(evaluation: Evaluation, results: list[Result]) -> list[str]:
    """Return what a reader must mind."""
    model = evaluation.model
    found = [*_edges(model), *_zeros(model)]
    completion = model._completion
    if completion is not None and not completion.solution.converged:
        found.append(
            f"The solver of the missing labels stopped after {completion.solution.n_iter} iterations at a relative "
            f"residual of {completion.solution.residual:.1e}: raise max_iter, tol or the regularisation."
        )
    m, q = evaluation.labels.shape
    for each in results:
        if each.trouble is not None:
            found.append(f"Setting {each.setting.value} has no score. {each.trouble}")
        elif each.n_undefined:
            of = f"{q:,} tasks" if each.setting is Setting.C else f"{m:,} instances"
            found.append(
                f"In setting {each.setting.value}, {evaluation.judge.name} is undefined for {each.n_undefined:,} of "
                f"{of}: their labels are all alike, or missing. The score is the mean of the others."
            )
        said = nothing_learnt(evaluation.judge.name, each.setting, each.score, each.baselines)
        found += [] if said is None else [said]
    return found


def _edges(model: Any) -> list[str]:
    """Tell whether a search has ended on the edge of its grid; a model that was read from a file may not know."""
    if not hasattr(model, "landscape_") or np.ndim(model.alpha_):
        return []
    return [
        f"The best {name}, {power(best)}, is on the edge of the grid that was searched ({power(low)} … {power(high)}): "
        "a wider one may hold a better value, or this side wants no (or full) regularisation."
        for name, best, low, high in edges_of(model)
    ]


def _zeros(model: PairwiseRidge) -> list[str]:
    """Tell of kernels that have eigenvalues of zero and may have been repaired."""
    found = []
    for name, side in zip(("instance", "task"), dict.fromkeys(model._sides()), strict=False):
        zeros = int(np.count_nonzero(to_numpy(side.spectrum.penalised) <= 0))
        # A linear kernel has a null space of its own, and nothing to repair.
        if zeros and not side.is_primal and side.spec.kernel != "linear":
            done = "lifted" if side.spec.repair == "shift" else "clipped to zero"
            found.append(
                f"{zeros:,} of {side.spectrum.n_rows:,} eigenvalues of the {name} kernel are zero: it is singular, or "
                f"it was indefinite and its negative eigenvalues were {done}. Fitting with repair='error' tells which."
            )
    return found


def _remarks(
    evaluation: Evaluation, results: list[Result], grid: GridView, sides: dict[str, SideSpectrum]
) -> list[str]:
    """Return what a reader should know."""
    found, problem = [], evaluation.model._problem()
    if evaluation.own in [each.setting for each in results]:
        found.append(
            f"The regularisation is the best of many in setting {evaluation.own}, so its score there is a little "
            "optimistic: dyadlearn.nested_score gives one that is not."
        )
    if evaluation.not_shown:
        names = joined([setting.value for setting in evaluation.not_shown])
        if grid.is_network:
            found.append(f"Labels are missing, and then a network has no held-out predictions in setting {names}.")
        else:
            found.append(
                f"Labels are missing or weighted, so that setting {names} would be solved again for every fold: it is "
                "shown where settings= asks for it."
            )
    methods = {each.method for each in results if each.held_out is not None}
    if evaluation.own is not None and evaluation.is_as_searched and len(methods) > 1 and problem.is_complete:
        found.append(
            "Not all settings leave out the same: compare their scores with care, or give groups=, task_groups= or cv=."
        )
    if not problem.pairing.refits:
        found.append(
            "Held-out predictions of filters other than Tikhonov are those of a penalty built from all rows, which "
            "is not the same as fitting again without some."
        )
    if "pairs" in sides:
        words = problem.pairing.words
        found.append(f"{words[0].upper()}{words[1:]} filters the pairs: neither side has an effective dimension alone.")
    return found


def _prepared(judge: Scorer, setting: Setting, labels: np.ndarray) -> tuple[PreparedScorer | None, str | None]:
    """Return a score made ready for labels, or none and why it is undefined for them."""
    try:
        return judge.prepare(labels, setting=setting, tie_tolerance=None), None
    except ValueError as error:
        return None, str(error)
