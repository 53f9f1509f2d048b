"""Summary of a fitted model for the report: scores, landscapes, doubtful labels, notes and warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_flag
from dyadlearn._messages import Message, message_of
from dyadlearn._progress import Progress
from dyadlearn._tables import Ids, Table
from dyadlearn._text import joined, number, power
from dyadlearn.diagnostics.explaining import Explanation, explain
from dyadlearn.diagnostics.fitted import closed_form_of, known_settings, labels_of
from dyadlearn.diagnostics.ranked_lists import TopPairs
from dyadlearn.diagnostics.recommending import top_pairs
from dyadlearn.diagnostics.screening import Screening, screened
from dyadlearn.exceptions import LeverageError, NoLabelWarning, UndefinedScoreWarning
from dyadlearn.holdout import plan
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.selection.edges import edges_of
from dyadlearn.selection.evaluate import (
    Interval,
    SettingScore,
    evaluate,
    nothing_learnt,
    scoring_of,
)
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.by_similarity import SimilarityScores, scores_by_similarity
from dyadlearn.views.by_task import TaskCorrelations, correlations_by_task, folds_by_task
from dyadlearn.views.cautions import Caution, Importance, cautions_of
from dyadlearn.views.grid import GridView, Points, grid_of_labels, points_of
from dyadlearn.views.landscape import LandscapeView, landscapes_of_model, loss_levels
from dyadlearn.views.spectrum import SideSpectrum, spectra_of_model
from dyadlearn.views.weights import Weights, weights_of_model

# Number of unobserved pairs that a report lists, and number of those that it explains.
_PAIRS = 50
_EXPLAINED = 5
# Maximum number of multiplications for solving the folds of a setting that was not requested: half
# a minute.
_MOST_WORK = 1e11
# Maximum number of resampled cells of an interval, a few seconds; and number of resamples.
_MOST_DRAWN = 10_000_000
_DRAWS = 200
# An interval of fewer resamples says little.
_FEWEST_DRAWS = 100
# Warnings about scores, which a summary lists; it issues all other warnings again.
_LISTED = ConvergenceWarning | NoLabelWarning | UndefinedScoreWarning


@dataclass(frozen=True, eq=False)
class SummaryOptions:
    """What a summary shows, and how its scores are computed; `dyadlearn.report.write_report` explains each.

    Attributes
    ----------
    title : str or None
        None means the name of the model and the size of the grid.
    setting : iterable of settings or None
        Settings to show; None means all, with the exceptions that `write_report` describes.
    scoring : str, callable or None
    alphas, task_alphas : iterables of float or None
        Regularisations of the landscapes.
    groups, task_groups, cv
        What is left out together, as in `dyadlearn.evaluate`.
    nested : bool
        Whether learned kernels are learned again in each fold.
    n_permutations : int
    n : int
        Number of contradicted labels to list.
    notes : iterable of str
        Further warnings to show.
    sides : (str, str) or None
        Names of an instance and of a task.
    names : mapping of id to str or None
        Names of instances and tasks, to show after their ids.
    progress : bool or None
    """

    title: str | None = None
    setting: Iterable[str | Setting] | None = None
    scoring: str | Callable[[Any, Any], float] | None = None
    alphas: Iterable[float] | None = None
    task_alphas: Iterable[float] | None = None
    groups: Any = None
    task_groups: Any = None
    cv: Any = None
    nested: bool = True
    n_permutations: int = 0
    n: int = 200
    notes: Iterable[str] = ()
    sides: Any = None
    names: Mapping[Any, str] | None = None
    progress: bool | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """Summary of a fitted model.

    Attributes
    ----------
    title : str
    facts : list of (str, str)
        Names and descriptions of model, labels and regularisation.
    grid : GridView
    sides : dict of str to SideSpectrum
    weights : Weights or None
        Weights of learned kernels.
    scoring : str
        Name of the score.
    searched : Setting or None
        Setting of the search; None without a search.
    results : list of SettingScore
        One for each setting.
    others : list of SettingScore
        The same for further scores, each in the order of `results`.
    intervals : dict of Setting to Interval
        Intervals of the scores, unless they take long or are undefined.
    landscapes : list of LandscapeView
    by_similarity : list of SimilarityScores
        Scores by the similarity of what was held out to what remained.
    contradicting : Screening or None
        The labels that are contradicted most, by the setting with the best predictions over all
        cells.
    by_task : TaskCorrelations or None
        Correlations within each task, in the setting of the search, else in B; None for labels of
        two values, for networks, and if it takes long.
    likeliest : TopPairs or None
        The likeliest unobserved pairs; None if there are none, or if the model would have to be
        solved again.
    explanations : list of Explanation
        Explanations of the first few of these.
    cautions : list of Caution
        Warnings, the important first.
    notes : list of str
        Notes on how the numbers were computed.
    id_names : dict of str to str
        Names of instances and tasks by their ids as text, to show after the ids.
    task_ids : Ids or None
        Ids of the tasks.
    """

    title: str
    facts: list[tuple[str, str]]
    grid: GridView
    sides: dict[str, SideSpectrum]
    weights: Weights | None
    scoring: str
    searched: Setting | None
    results: list[SettingScore]
    others: list[SettingScore]
    intervals: dict[Setting, Interval]
    landscapes: list[LandscapeView]
    by_similarity: list[SimilarityScores]
    contradicting: Screening | None
    by_task: TaskCorrelations | None
    likeliest: TopPairs | None
    explanations: list[Explanation]
    cautions: list[Caution]
    notes: list[str]
    id_names: dict[str, str] = field(default_factory=dict)
    task_ids: Ids | None = None

    @property
    def warnings(self) -> list[str]:
        """All different warnings, the important first."""
        return [text for caution in self.cautions for text in caution.texts]

    @property
    def names(self) -> SideNames:
        """Names of the two sides."""
        return self.grid.names

    @property
    def apart(self) -> SideNames:
        """Names of the two sides that differ even if both are the same nodes."""
        return _apart(self.names)

    def within(self) -> dict[Setting, float]:
        """Return the 90 % quantile of the absolute residuals in each setting; NaN for binary labels."""
        quantiles = {}
        for result in self.results:
            quantiles[result.setting] = math.nan
            if result.labels is None or result.predictions is None or self.grid.is_binary:
                continue
            errors = np.abs(result.labels - result.predictions)
            quantile = np.nanquantile(errors, 0.9, method="inverted_cdf")
            quantiles[result.setting] = float(quantile)
        return quantiles

    def points(self, kind: str) -> dict[Setting, Points]:
        """Return the curves or scatter plots of the settings that have one."""
        # The score of the page, if it is that of the curve.
        same = {"roc": "roc_auc", "precision_recall": "average_precision"}.get(kind)
        points = {}
        for result in self.results:
            if result.predictions is None or result.labels is None:
                continue
            folds = None if kind == "scatter" else result.folds
            # A curve is undefined if no row has labels of both values.
            with suppress(ValueError):
                score = result.score if result.judge.name == same else None
                points[result.setting] = points_of(
                    kind, result.labels, result.predictions, result.setting, folds, score
                )
        return points

    def levels(self) -> list[float]:
        """Return the levels of the loss that all maps share; empty without a map."""
        losses = []
        for view in self.landscapes:
            drawn = view.drawn
            if drawn is not None and len(drawn.names) == 2:
                losses.append(drawn.loss.ravel())
        return loss_levels(np.concatenate(losses)) if losses else []


def summary_of(model: Any, options: SummaryOptions | None = None) -> Summary:
    """Compute the summary of a model.

    Parameters
    ----------
    model : fitted estimator
    options : SummaryOptions, default=None
        None means the defaults.

    Returns
    -------
    Summary
    """
    request = _read_request(model, options or SummaryOptions())
    fitted = request.fitted
    grid = request.grid
    messages: list[tuple[Importance, str]] = []
    title = "Hold-out and landscapes"
    with _listing_warnings(messages):
        with Progress(len(request.settings) + 1, title, request.options.progress):
            results, others = _scores(request)
            landscapes, notes = _landscapes(request, results)
        by_task, more_notes = _by_task(request, results)
        likeliest = _likeliest(request)
    intervals = _intervals(request, results)
    sides = spectra_of_model(fitted)
    notes = [*notes, *more_notes, *likeliest.notes, *_notes_on_settings(request)]
    notes += _notes_on_scores(request, results, landscapes)
    notes += _notes_on_omissions(request, results, intervals)
    notes += _notes_on_pairs(fitted, sides)
    all_warnings = [(Importance.DOUBT, text) for text in request.options.notes]
    all_warnings += _warnings(fitted, grid.names)
    for result in results:
        all_warnings += _warnings_about_score(result, _apart(grid.names))
    all_warnings += messages
    named = request.options.names or {}
    return Summary(
        title=request.options.title or f"{fitted.name}: {grid.size}",
        facts=_facts(request),
        grid=grid,
        sides=sides,
        weights=weights_of_model(fitted),
        scoring=request.judge.name,
        searched=fitted.searched_setting,
        results=results,
        others=others,
        intervals=intervals,
        landscapes=landscapes,
        by_similarity=scores_by_similarity(fitted, results, request.left_out),
        contradicting=_contradicting(request, results),
        by_task=by_task,
        likeliest=likeliest.pairs,
        explanations=likeliest.explanations,
        cautions=cautions_of(all_warnings),
        notes=notes,
        id_names={str(label): str(name) for label, name in named.items()},
        task_ids=request.labels.column_ids,
    )


# Reading the options -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Request:
    """A fitted model with the checked options of its summary.

    Attributes
    ----------
    model : fitted estimator
        The model as the caller passed it.
    fitted : FittedRidge
    options : SummaryOptions
    labels : Table
        Labels of shape (m, q), with the user's ids.
    grid : GridView
    judge : Scorer
    left_out : dict
        ``groups``, ``task_groups`` and ``cv``, in the order of the training data.
    settings : list of Setting
        Settings to show.
    """

    model: Any
    fitted: FittedRidge
    options: SummaryOptions
    labels: Table
    grid: GridView
    judge: Scorer
    left_out: dict[str, Any]
    settings: list[Setting]


def _read_request(model: Any, options: SummaryOptions) -> _Request:
    """Read the options for a model; raise if the model is unfit for a summary, or an option for the model."""
    fitted = closed_form_of(model)
    labels = labels_of(fitted)
    judge = scorer(scoring_of(fitted, options.scoring))
    grid = grid_of_labels(labels.values, network=fitted.is_network, sides=options.sides)
    groups, task_groups = fitted.in_groups(options.groups, options.task_groups)
    check_flag(options.nested, "nested")
    left_out = {"groups": groups, "task_groups": task_groups, "cv": options.cv}
    relearns = fitted.learns_kernels and (options.nested or fitted.describes_by_labels)
    settings = _settings_to_show(fitted, options.setting, left_out, relearns=relearns)
    return _Request(model, fitted, options, labels, grid, judge, left_out, settings)


def _settings_to_show(
    fitted: FittedRidge,
    wanted: Iterable[str | Setting] | None,
    left_out: dict[str, Any],
    *,
    relearns: bool,
) -> list[Setting]:
    """Return the settings to show: the requested ones, or by default those that do not take long.

    Parameters
    ----------
    fitted : FittedRidge
    wanted : iterable of settings or None
    left_out : dict
        As in `_Request`.
    relearns : bool
        Whether kernels or profiles are learned again in each fold.
    """
    known = known_settings(fitted, Setting if wanted is None else wanted)
    if not known:
        letters = joined([setting.value for setting in fitted.settings])
        raise ValueError(
            f"setting must include a setting that this model predicts, {letters}: found none of "
            f"them."
        )
    if wanted is not None:
        return known
    searched = fitted.searched_setting
    if relearns:
        return [setting for setting in known if setting is searched]
    if fitted.labels.is_full:
        return known
    if searched is None:
        searched = Setting.A if fitted.is_network else Setting.B
    shown = []
    for setting in known:
        if setting is searched or _is_quick(fitted, setting, left_out):
            shown.append(setting)
    return shown


def _is_quick(fitted: FittedRidge, setting: Setting, left_out: dict[str, Any]) -> bool:
    """Return whether a setting of an incomplete grid has held-out predictions without refits, or with fast ones."""
    if fitted.is_network and setting is not Setting.A:
        return False  # where labels are missing, nodes of a network cannot be left out
    how = plan(fitted.problem, setting, **left_out)
    return how.n_solves == 0 or _is_little_work(fitted, how.n_solves)


def _is_little_work(fitted: FittedRidge, n_solves: int) -> bool:
    """Return whether solving for the missing labels `n_solves` times takes little time.

    A solve takes about as many iterations as in `fit`, each with a product with both sides, and a
    few more for the decompositions.
    """
    if fitted.labels.is_full:
        return True
    m, q = fitted.labels.shape
    n_steps = 10 + fitted.solution.n_iter
    return bool(n_solves * n_steps * m * q * (m + q) <= _MOST_WORK)


# Scores --------------------------------------------------------------------------------------------


@contextmanager
def _listing_warnings(messages: list[tuple[Importance, str]]) -> Iterator[None]:
    """Append the warnings about scores to a list, and issue all other warnings again in the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if issubclass(warning.category, _LISTED):
            is_wrong = issubclass(warning.category, ConvergenceWarning)
            importance = Importance.RESULT if is_wrong else Importance.DOUBT
            message: Any = warning.message  # a Warning, although its type allows text
            messages.append((importance, message_of(message)))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _scores(request: _Request) -> tuple[list[SettingScore], list[SettingScore]]:
    """Return the score of each setting, and all further scores of each setting."""
    judge = request.judge
    if request.grid.is_binary:
        further = ("roc_auc", "average_precision")
    else:
        further = ("neg_mean_squared_error", "r2")
    judges = [judge, *(name for name in further if name != judge.name)]
    options = {
        **request.left_out,
        "scoring": judges,
        "n_permutations": request.options.n_permutations,
        "nested": request.options.nested,
        "error_score": math.nan,
    }
    results = []
    others = []
    for setting in request.settings:
        evaluation = evaluate(request.fitted, [setting], **options)
        first, *rest = (_in_grid(score, request.fitted) for score in evaluation.results)
        results.append(first)
        others += rest
    return results, others


def _in_grid(result: SettingScore, fitted: FittedRidge) -> SettingScore:
    """Return the score of a setting with labels and predictions as grids, whatever form the labels have."""
    if result.predictions is None or result.labels is None:
        return result
    spread = fitted.labels.spread
    return replace(result, predictions=spread(result.predictions), labels=spread(result.labels))


def _landscapes(
    request: _Request, results: Sequence[SettingScore]
) -> tuple[list[LandscapeView], list[str]]:
    """Return the landscapes of the settings that have a score, and notes about those that are left out."""
    scored = [result.setting for result in results if result.trouble is None]
    if not scored:
        return [], []
    options = request.options
    return landscapes_of_model(
        request.fitted,
        scored,
        request.judge,
        alphas=options.alphas,
        task_alphas=options.task_alphas,
        progress=options.progress,
        **request.left_out,
    )


def _intervals(request: _Request, results: Sequence[SettingScore]) -> dict[Setting, Interval]:
    """Return the intervals of the scores, unless resampling takes long."""
    if request.judge.is_function:
        return {}
    n_resamples = min(_DRAWS, _MOST_DRAWN // request.grid.values.size)
    if n_resamples < _FEWEST_DRAWS:
        return {}
    intervals = {}
    for result in results:
        interval = result.interval(n_resamples)
        if interval is not None:
            intervals[result.setting] = interval
    return intervals


def _by_task(
    request: _Request, results: Sequence[SettingScore]
) -> tuple[TaskCorrelations | None, list[str]]:
    """Return the correlations within tasks in one setting, and a note if they take long."""
    fitted = request.fitted
    scored = [result.setting for result in results if result.trouble is None]
    if request.grid.is_binary or fitted.is_network or not scored:
        return None, []
    setting = scored[0]
    for preferred in (Setting.B, fitted.searched_setting):
        if preferred in scored:
            setting = preferred
    how = {**request.left_out, "nested": request.options.nested}
    keeps_kernels = not fitted.learns_kernels or not (
        request.options.nested or fitted.describes_by_labels
    )
    if keeps_kernels and not fitted.labels.is_full:
        folds = {"cv": folds_by_task(fitted.labels, setting)}
        left_out = folds if how["cv"] is None else {}
        n_solves = plan(fitted.problem, setting, **{**request.left_out, **left_out}).n_solves
        if not _is_little_work(fitted, n_solves):
            tasks = request.grid.names.tasks
            note = f"Correlations of single {tasks} would need another hold-out of so large a grid."
            return None, [note]
    try:
        correlations = correlations_by_task(fitted, setting, **how)
    except ValueError:  # nothing is left to learn from without a fold
        return None, []
    return (None if correlations.is_empty else correlations), []


# Lists of pairs ------------------------------------------------------------------------------------


def _contradicting(request: _Request, results: Sequence[SettingScore]) -> Screening | None:
    """Return the labels that are contradicted most, by the setting with the best predictions over all cells."""
    labels = request.labels
    grid = request.grid
    judge = scorer(usual_scoring(labels.values))
    predicted = [result for result in results if result.predictions is not None]
    if not predicted:
        return None

    def score(result: SettingScore) -> float:
        return float(judge(result.labels, result.predictions, tie_tolerance=None))

    best = max(predicted, key=score)
    assert best.predictions is not None
    screening = screened(
        labels,
        best.predictions,
        method=best.method,
        setting=best.setting.value,
        names=grid.names,
        once=grid.is_network,
    )
    n_contradicted = int(np.count_nonzero(screening.contradictions > 0))
    return screening.first(min(request.options.n, n_contradicted))


@dataclass(frozen=True, eq=False)
class _Likeliest:
    """The likeliest unobserved pairs, explanations of the first few, and notes on what is left out."""

    pairs: TopPairs | None = None
    explanations: list[Explanation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _likeliest(request: _Request) -> _Likeliest:
    """Return the best unobserved pairs, and explanations of the first few if these are fast."""
    fitted = request.fitted
    grid = request.grid
    has_unobserved = grid.n_missing > 0 or np.isin(grid.distinct, (0, 1)).all()
    if not has_unobserved:
        return _Likeliest()
    in_setting_a = fitted.searched_setting is Setting.A
    if not in_setting_a and not _is_quick(fitted, Setting.A, request.left_out):
        note = Message(
            "The likeliest unobserved pairs would need another solution: "
            "[dyadlearn.top_pairs names|dyadlearn recommend --pairs names] them."
        )
        return _Likeliest(notes=[note])
    n_pairs = min(request.options.n, _PAIRS)
    try:
        pairs = top_pairs(request.model, n=n_pairs, sides=tuple(grid.names))
    except (LeverageError, ValueError):  # there are no such pairs, or no predictions of them
        return _Likeliest()
    if not _is_little_work(fitted, _EXPLAINED):
        note = Message(
            "The likeliest pairs are not explained, as the grid is large: "
            "[dyadlearn.explain|dyadlearn predict --explain] does it."
        )
        return _Likeliest(pairs, notes=[note])
    try:
        explanations = explain(
            request.model,
            list(pairs.instances[:_EXPLAINED]),
            list(pairs.tasks[:_EXPLAINED]),
            n=5,
            sides=tuple(grid.names),
        )
    except ValueError as error:
        return _Likeliest(pairs, notes=[f"The likeliest pairs are not explained. {error}"])
    return _Likeliest(pairs, explanations)


# Facts ---------------------------------------------------------------------------------------------


def _facts(request: _Request) -> list[tuple[str, str]]:
    """Return names and descriptions of the model, its labels and its regularisation."""
    fitted = request.fitted
    grid = request.grid
    names = grid.names
    if grid.is_network:
        size = f"{len(grid.values):,} {names.instances}, pairwise"
    else:
        size = grid.size
    n_labels = f"{grid.n_observed:,}"
    if grid.n_missing:
        n_labels += f" observed, {100 * grid.n_observed / grid.values.size:.3g} %"
    low, high = (number(value) for value in grid.distinct[[0, -1]])
    if grid.is_binary:
        values = f"{low} and {high}, {100 * grid.share_positive:.3g} % are {high}"
    else:
        values = f"{low} to {high}"
    facts = [
        ("Model", fitted.name),
        ("Grid", size),
        ("Labels", n_labels),
        ("Values", values),
        ("Regularisation", _regularisation(fitted, names)),
    ]
    setting = fitted.searched_setting
    if setting is not None:
        facts.append(("Chosen for", f"setting {_apart(names).in_words(setting)}"))
    facts.append(("Judged by", request.judge.name))
    return facts


def _regularisation(fitted: FittedRidge, names: SideNames) -> str:
    """Return the regularisation of a fitted model in words."""
    alphas = fitted.training_problem.alphas
    if "task_alpha" in alphas:
        return f"λ_d = {power(alphas['alpha'])}, λ_t = {power(alphas['task_alpha'])}"
    chosen = np.unique(alphas["alpha"])
    if chosen.size > 1:
        return f"λ from {power(chosen[0])} to {power(chosen[-1])}, one for each {names.task}"
    return f"λ = {power(chosen[0])}"


def _apart(names: SideNames) -> SideNames:
    """Return different names of the two sides, also for a network."""
    if names.instance == names.task:
        return SideNames(f"first {names.instance}", f"second {names.task}")
    return names


# Warnings and notes --------------------------------------------------------------------------------


def _warnings(fitted: FittedRidge, names: SideNames) -> list[tuple[Importance, str]]:
    """Return warnings about a model that do not depend on its scores."""
    texts = [(Importance.DATA, text) for text in _zero_eigenvalues(fitted, names)]
    # A model from a file may not know its search.
    if fitted.searches and not fitted.learns_kernels:
        texts += [(Importance.DOUBT, edge.note(power)) for edge in edges_of(fitted)]
    solution = fitted.solution
    if not solution.converged:
        stopped = Message(
            "The solver of the missing labels stopped after {n_iter} iterations at a relative "
            "residual of {residual:.1e}: raise [max_iter, tol or |]the regularisation.",
            n_iter=solution.n_iter,
            residual=solution.residual,
        )
        texts.append((Importance.RESULT, stopped))
    return texts


def _warnings_about_score(result: SettingScore, names: SideNames) -> list[tuple[Importance, str]]:
    """Return warnings about a setting; a score that is missing or no better than the baselines is important."""
    scoring = result.judge.name
    useless = nothing_learnt(scoring, result.setting, result.score, result.baselines, names)
    texts = []
    for text in result.notes(names):
        is_of_result = result.trouble is not None or text == useless
        texts.append((Importance.RESULT if is_of_result else Importance.DOUBT, text))
    return texts


def _zero_eigenvalues(fitted: FittedRidge, names: SideNames) -> list[str]:
    """Return warnings about kernels that have eigenvalues of zero and may have been repaired."""
    texts: list[str] = []
    for name, side in zip(names, dict.fromkeys(fitted.sides), strict=False):
        n_zeros = int(np.count_nonzero(to_numpy(side.spectrum.penalised) <= 0))
        # A linear kernel is singular in general and needs no repair.
        if not n_zeros or side.is_primal or side.spec.kernel == "linear":
            continue
        done = "lifted" if side.spec.repair == "shift" else "clipped to zero"
        text = (
            f"{n_zeros:,} of {side.spectrum.n_rows:,} eigenvalues of the {name} kernel are zero: "
            f"it is singular, or was indefinite and its negative eigenvalues were {done}."
        )
        texts.append(Message("{text}[ Fitting with repair='error' tells which.|]", text=text))
    return texts


def _notes_on_settings(request: _Request) -> list[str]:
    """Return a sentence about the settings that are left out by default."""
    fitted = request.fitted
    if request.options.setting is not None:
        return []
    missing = [setting for setting in known_settings(fitted) if setting not in request.settings]
    if not missing:
        return []
    names = joined([setting.value for setting in missing])
    word = "it" if len(missing) == 1 else "them"
    if fitted.learns_kernels and request.options.nested:
        return [
            Message(
                "Setting {names} would take kernels learned again for every fold: "
                '<setting="ABCD"> asks for {word}.',
                names=names,
                word=word,
            )
        ]
    if fitted.is_network:
        return [
            f"Labels are missing, and then a network has no held-out predictions in setting "
            f"{names}."
        ]
    return [
        Message(
            'Setting {names} would be refitted for every fold of so large a grid: <setting="ABCD"> '
            "asks for {word}.",
            names=names,
            word=word,
        )
    ]


def _notes_on_choice(request: _Request, results: Sequence[SettingScore]) -> list[str]:
    """Return a note on scores of a model that was chosen or learned by such scores."""
    fitted = request.fitted
    searched = fitted.searched_setting
    if fitted.learns_kernels and request.options.nested:
        return ["Kernels and regularisation were learned again without each fold that is scored."]
    if fitted.learns_kernels:
        return [
            "Kernels and regularisation are those of all labels, also in the folds that are scored, "
            "so the scores are optimistic."
        ]
    if searched not in [result.setting for result in results]:
        return []
    return [
        Message(
            "The regularisation was chosen in setting {searched}, so its score there is a little "
            "optimistic: [dyadlearn.nested_score gives one that is not|that of dyadlearn predict "
            "for labels that dyadlearn tune did not see is not].",
            searched=searched,
        )
    ]


def _notes_on_scores(
    request: _Request, results: Sequence[SettingScore], landscapes: Sequence[LandscapeView]
) -> list[str]:
    """Return notes on how the scores were computed."""
    fitted = request.fitted
    searched = fitted.searched_setting
    notes = _notes_on_choice(request, results)
    for view in landscapes:
        if view.setting is searched and view.evaluated:
            notes.append(
                Message(
                    "The search went from coarse to fine ({evaluated}); "
                    "[exhaustive=True|dyadlearn tune --exhaustive] evaluates all points.",
                    evaluated=view.evaluated,
                )
            )
    methods = {result.method for result in results if result.predictions is not None}
    # Without groups and folds, the setting of a search is held out as it was chosen.
    as_searched = searched is not None and not any(
        value is not None for value in request.left_out.values()
    )
    if as_searched and len(methods) > 1 and fitted.training_problem.labels.is_full:
        notes.append(
            Message(
                "Settings differ in what they leave out: [give groups=, task_groups= or cv=|use "
                "dyadlearn evaluate --cv] to compare scores."
            )
        )
    if not fitted.training_problem.pairing.refits:
        notes.append(
            "Hold-out of filters other than Tikhonov keeps the penalty of all rows: it is no refit."
        )
    return notes


def _notes_on_omissions(
    request: _Request, results: Sequence[SettingScore], intervals: Mapping[Setting, Interval]
) -> list[str]:
    """Return notes on scores without permuted labels or without an interval."""
    notes: list[str] = []
    scored = [result for result in results if result.trouble is None]
    unpermuted = [result.setting.value for result in scored if math.isnan(result.null)]
    if request.options.n_permutations and unpermuted:
        notes.append(
            Message(
                "Labels were not permuted in setting {settings}: "
                "[dyadlearn.permutation_test|dyadlearn evaluate --permutations] does it.",
                settings=joined(unpermuted),
            )
        )
    if any(result.setting not in intervals for result in scored):
        notes.append(
            Message(
                "Intervals of large grids are left out[ (dyadlearn.bootstrap_interval)|], and of "
                "networks."
            )
        )
    return notes


def _notes_on_pairs(fitted: FittedRidge, sides: Mapping[str, SideSpectrum]) -> list[str]:
    """Return a note on models that filter the pairs, so that no side has an effective dimension."""
    if "pairs" not in sides:
        return []
    words = fitted.pairing.words
    return [
        f"{words[0].upper()}{words[1:]} filters the pairs: neither side has an effective dimension."
    ]
