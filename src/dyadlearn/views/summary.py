"""Summary of a fitted model for the report: scores, spectra, weights of learned kernels, notes and warnings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import to_numpy
from dyadlearn._progress import Progress
from dyadlearn._tables import Table
from dyadlearn._text import joined, number, power
from dyadlearn.diagnostics.explaining import Explanation, explain
from dyadlearn.diagnostics.fitted import closed_form_of, known_settings, labels_of
from dyadlearn.diagnostics.recommending import Screening, TopPairs, screened, top_pairs
from dyadlearn.exceptions import LeverageError, NoLabelWarning, UndefinedScoreWarning
from dyadlearn.holdout import plan
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.fitted import FittedRidge, as_fitted
from dyadlearn.models.side import KernelSpec
from dyadlearn.pairing.base import working
from dyadlearn.selection.edges import edges_of
from dyadlearn.selection.evaluate import Interval, SettingScore, evaluate, scoring_of
from dyadlearn.selection.learning_kernels import CONSTANT
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.spectrum import Smoother, Spectrum
from dyadlearn.views.grid import GridView, Points, grid_of_labels, points_of
from dyadlearn.views.landscape import LandscapeView, landscapes_of_model, loss_levels


@dataclass(frozen=True, eq=False)
class SideSpectrum:
    r"""The eigenvalues of a kernel under a filter.

    Attributes
    ----------
    values : array of shape (k,)
        Eigenvalues :math:`\sigma` in descending order; truncated eigenvalues are zero.
    shrinkage : array of shape (k,) or None
        The filter :math:`f(\sigma)`, from 1 to 0; None if the kernel has no separate filter.
    n_rows : int
        Size of the kernel.
    alpha : float or None
        Its regularisation; None if it has no separate one.
    kernel : str
        Description of the kernel.
    has_constant : bool
        Whether the side has a constant, which no filter shrinks. The eigenvalues are then those of
        the centred kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.summary import SideSpectrum
    >>> SideSpectrum(np.array([3.0, 1.0]), np.array([0.75, 0.5]), n_rows=2).effective_dimension
    1.25
    """

    values: np.ndarray
    shrinkage: np.ndarray | None
    n_rows: int
    alpha: float | None = None
    kernel: str = ""
    has_constant: bool = False

    @property
    def rank(self) -> int:
        """Number of non-zero eigenvalues."""
        return int(np.count_nonzero(self.values > 0))

    @property
    def effective_dimension(self) -> float:
        r"""Trace of the hat matrix, :math:`\sum_i f(\sigma_i)` plus one for a constant; NaN without a filter."""
        if self.shrinkage is None:
            return float("nan")
        return float(self.shrinkage.sum()) + self.has_constant


def spectra_of_model(model: Any) -> dict[str, SideSpectrum]:
    """Return the spectra of a fitted model with its regularisation.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    dict of str to SideSpectrum
        ``"instances"`` and ``"tasks"``, or ``"nodes"`` for a network; also ``"pairs"`` if the model filters pairs, as
        Kronecker ridge regression does.
    """
    fitted = closed_form_of(model)
    pairing = fitted.pairing
    kernels = [_kernel(side.spec) for side in fitted.sides]
    sides: Sequence[Smoother | Spectrum] = pairing.smoothers or pairing.spectra
    named = zip(pairing.side_names, sides, kernels, strict=False)  # a network has one side twice
    spectra = {name: _side_spectrum(side, kernel) for name, side, kernel in named}
    if pairing.smoothers:
        return spectra
    # The filter is applied to the eigenvalues of the kernel between pairs.
    operators = working(pairing)
    both = (operators.kernel_values, operators.shrinkage)
    values, shrinkage = (to_numpy(part).astype(np.float64).ravel() for part in both)
    order = np.argsort(values)[::-1]
    n_pairs = math.prod(spectrum.n_rows for spectrum in pairing.spectra)
    kernel = "product" if operators.is_product else "between pairs"
    return spectra | {
        "pairs": SideSpectrum(
            values[order], shrinkage[order], n_pairs, pairing.alphas["alpha"], kernel
        )
    }


def _side_spectrum(side: Smoother | Spectrum, kernel: str) -> SideSpectrum:
    spectrum = side.spectrum if isinstance(side, Smoother) else side
    values = np.sort(to_numpy(spectrum.penalised).astype(np.float64))[::-1]
    shrinkage = alpha = None
    if isinstance(side, Smoother) and not np.isnan(
        side.alpha
    ):  # NaN: each task has a regularisation
        shrinkage = side.filter.shrinkage(values, side.alpha)
        alpha = side.alpha
    return SideSpectrum(
        values, shrinkage, spectrum.n_rows, alpha, kernel, spectrum.has_free_constant
    )


def _kernel(spec: KernelSpec) -> str:
    """Return the kernel of a side with its parameters and its constant, or the descriptions of a learned kernel."""
    descriptions = getattr(spec.kernel, "names", ())
    if descriptions:
        return f"learned, of {joined(descriptions)}"
    if isinstance(spec.kernel, str):
        word = spec.kernel
    else:
        word = getattr(spec.kernel, "__name__", type(spec.kernel).__name__)
    values = {
        key: f"{value:.4g}" if isinstance(value, float) else value
        for key, value in (spec.params or {}).items()
    }
    params = ", ".join(f"{key}={value}" for key, value in values.items())
    words = f"{word} ({params})" if params else word
    return words if spec.level == 1 else f"{words} + {number(spec.level, 3)}"


def called(name: str, names: SideNames) -> str:
    """Return the user's name of a side of a model."""
    return {"instances": names.instances, "tasks": names.tasks, "nodes": names.instances}.get(
        name, name
    )


@dataclass(frozen=True)
class Weights:
    """Weights of the learned kernels of a model.

    Attributes
    ----------
    weights : dict of str to dict of str to float
        For ``"instances"`` and, if tasks have features, ``"tasks"``: the weight of each
        description, largest first, and of the constant, last; they sum to one.
    exponents : dict of str to dict of str to float
        For each side, the exponent of each description.
    shares : dict of str to float or None
        Shares of the terms of the kernel between pairs, which sum to one: the ``"product"`` of both
        kernels, a function of the ``"instances"`` for each task, and one of the ``"tasks"`` for
        each instance. None without tasks.
    stage_errors : list of float
        Held-out mean squared error of each stage that was tried.
    n_stages : int
        Number of stages of the model.
    """

    weights: dict[str, dict[str, float]]
    exponents: dict[str, dict[str, float]]
    shares: dict[str, float] | None
    stage_errors: list[float]
    n_stages: int

    def in_words(self, side: str) -> str:
        """Return the weights of a side, such as "ecfp 62 % (exponent 1.8), similarity 33 %, constant 5 %"."""
        words = []
        for name, weight in self.weights[side].items():
            exponent = self.exponents[side].get(name, 1.0)
            power = "" if exponent == 1 else f" (exponent {number(exponent, 3)})"
            words.append(f"{name} {percent(weight)}{power}")
        return ", ".join(words)

    def lines(self, names: SideNames) -> list[tuple[str, str]]:
        """Return the weights as pairs of a name and a text."""
        lines = [
            (f"weights of {called(side, names)}", self.in_words(side)) for side in self.weights
        ]
        if len(self.stage_errors) > 1:
            errors = [number(error) for error in self.stage_errors]
            errors[self.n_stages - 1] += " (kept)"
            lines.insert(0, ("error by stage", ", ".join(errors)))
        if self.shares is None:
            return lines
        return [*lines, ("pairs", self.shares_in_words(names))]

    def shares_in_words(self, names: SideNames) -> str:
        """Return the shares of the terms of the kernel between pairs, in words."""
        assert self.shares is not None
        return (
            f"{percent(self.shares['product'])} product of both kernels, "
            f"{percent(self.shares['instances'])} functions "
            f"of the {names.instances} for each {names.task}, {percent(self.shares['tasks'])} "
            f"functions of the "
            f"{names.tasks} for each {names.instance}"
        )

    def figures(self) -> dict[str, Any]:
        """Return the weights as plain values, for JSON."""
        return {
            name: getattr(self, name) for name in ("weights", "exponents", "shares", "stage_errors")
        }


def weights_of_model(model: Any) -> Weights | None:
    """Return the weights of the learned kernels of a fitted model; None if its kernels are not learned.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    Weights or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import LearnedKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X, noise, T = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(20, 2))
    >>> model = LearnedKernelRidge(setting="B", n_steps=20)
    >>> model.fit({"noise": noise, "signal": X}, np.sin(2 * X) @ np.cos(T).T, tasks=T).n_stages_
    1
    >>> list(weights_of_model(model).weights["instances"])
    ['signal', 'noise', 'constant']
    """
    if not getattr(model, "learns_kernels", False):
        return None
    fitted = as_fitted(model)
    weights = {}
    exponents = {}
    for side, values in fitted.weights.items():
        ordered = sorted(values.items(), key=lambda item: (item[0] == CONSTANT, -item[1]))
        weights[side] = dict(ordered)
        given = fitted.exponents[side]
        exponents[side] = {name: given[name] for name in weights[side] if name in given}
    shares = None
    if fitted.shares is not None:
        shares = dict(zip(("product", "instances", "tasks"), fitted.shares, strict=True))
    learned = fitted.learned
    return Weights(weights, exponents, shares, list(learned.stage_errors), len(learned.path))


def percent(share: float) -> str:
    """Return a proportion as a whole percentage, or "below 1 %"."""
    return f"{100 * share:.0f} %" if share >= 0.0095 else "below 1 %"


# Number of unobserved pairs that a report lists, and number of those that it explains.
_PAIRS = 50
_EXPLAINED = 5
# Maximum number of multiplications for solving the folds of a setting that was not requested: half
# a minute.
_MOST_WORK = 1e11
# Maximum number of resampled cells of an interval, a few seconds; and number of resamples.
_MOST_DRAWN = 10_000_000
_DRAWS = 200


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
    own : Setting or None
        Setting of the search.
    results : list of SettingScore
        One for each setting.
    others : list of SettingScore
        The same for further scores, each in the order of `results`.
    intervals : dict of Setting to Interval
        Intervals of the scores, unless they take long or are undefined.
    landscapes : list of LandscapeView
    contradicting : Screening or None
        The labels that are contradicted most, by the setting with the best predictions over all
        cells.
    likeliest : TopPairs or None
        The likeliest unobserved pairs; None if there are none, or if the model would have to be
        solved again.
    explanations : list of Explanation
        Explanations of the first few of these.
    warnings, notes : list of str
        Warnings, and notes on how the numbers were computed.
    id_names : dict of str to str
        Names of instances and tasks by their ids as text, to show after the ids.
    """

    title: str
    facts: list[tuple[str, str]]
    grid: GridView
    sides: dict[str, SideSpectrum]
    weights: Weights | None
    scoring: str
    own: Setting | None
    results: list[SettingScore]
    others: list[SettingScore]
    intervals: dict[Setting, Interval]
    landscapes: list[LandscapeView]
    contradicting: Screening | None
    likeliest: TopPairs | None
    explanations: list[Explanation]
    warnings: list[str]
    notes: list[str]
    id_names: dict[str, str] = field(default_factory=dict)

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
        for each in self.results:
            quantiles[each.setting] = math.nan
            if each.labels is not None and each.predictions is not None and not self.grid.is_binary:
                errors = np.abs(each.labels - each.predictions)
                quantiles[each.setting] = float(np.nanquantile(errors, 0.9, method="inverted_cdf"))
        return quantiles

    def points(self, kind: str) -> dict[Setting, Points]:
        """Return the curves or scatter plots of the settings that have one."""
        points = {}
        for each in self.results:
            if each.predictions is not None and each.labels is not None:
                with suppress(
                    ValueError
                ):  # a curve is undefined if no row has labels of both values
                    points[each.setting] = points_of(
                        kind, each.labels, each.predictions, each.setting
                    )
        return points

    def levels(self) -> list[float]:
        """Return the levels of the loss that all maps share; empty without a map."""
        maps = [
            each.drawn
            for each in self.landscapes
            if each.drawn is not None and len(each.drawn.names) == 2
        ]
        if maps:
            return loss_levels(np.concatenate([each.loss.ravel() for each in maps]))
        return []


def summary_of(
    model: Any,
    *,
    title: str | None = None,
    n_cells: int = 200,
    notes: Iterable[str] = (),
    sides: Any = None,
    wanted: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    n_permutations: int = 0,
    progress: bool | None = None,
) -> Summary:
    """Compute the summary of a model.

    Parameters
    ----------
    model : fitted estimator
    title : str or None
    n_cells : int
        Number of contradicted cells to list.
    notes : iterable of str
        Further warnings to show.
    sides : (str, str) or None
        Names of an instance and of a task.
    wanted : iterable of settings or None
        Settings to show; None means all, with the exceptions that `dyadlearn.report.write_report`
        describes.
    scoring, groups, task_groups, cv, n_permutations
        As in `dyadlearn.evaluate`.
    alphas, task_alphas : iterables of float or None
        Regularisations of the landscapes; None means those of the search or, without a search, the
        default grid.
    progress : bool or None

    Returns
    -------
    Summary
    """
    fitted = closed_form_of(model)
    labels = labels_of(fitted)
    judge = scorer(scoring_of(fitted, scoring))
    grid = grid_of_labels(labels.values, network=fitted.is_network, sides=sides)
    groups, task_groups = fitted.in_groups(groups, task_groups)
    left_out: dict[str, Any] = {"groups": groups, "task_groups": task_groups, "cv": cv}
    settings = _shown(fitted, wanted, left_out)
    if grid.is_binary:
        further = ("roc_auc", "average_precision")
    else:
        further = ("neg_mean_squared_error", "r2")
    judges = [judge, *(name for name in further if name != judge.name)]
    evaluation: dict[str, Any] = {
        **left_out,
        "n_permutations": n_permutations,
        "error_score": math.nan,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        every: list[SettingScore] = []
        with Progress(len(settings) + 1, "Hold-out and landscapes", progress):
            for setting in settings:
                scores = evaluate(fitted, [setting], scoring=judges, **evaluation)
                every += [_in_grid(each, fitted.labels.spread) for each in scores.results]
            results = every[:: len(judges)]
            scored = [each.setting for each in results if each.trouble is None]
            options = {
                **left_out,
                "alphas": alphas,
                "task_alphas": task_alphas,
                "progress": progress,
            }
            if scored:
                landscapes, remarks = landscapes_of_model(fitted, scored, judge, **options)
            else:
                landscapes, remarks = ([], [])
        likeliest, explanations = _likeliest(model, fitted, left_out, grid, n_cells, remarks)
    stopped = []
    for warning in caught:
        if issubclass(
            warning.category, ConvergenceWarning | NoLabelWarning | UndefinedScoreWarning
        ):
            stopped.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if judge.is_function:
        n_resamples = 0
    else:
        n_resamples = min(_DRAWS, _MOST_DRAWN // grid.values.size)
    drawn = [(each.setting, each.interval(n_resamples)) for each in results if n_resamples >= 100]
    intervals = {setting: interval for setting, interval in drawn if interval is not None}
    spectra = spectra_of_model(fitted)
    names = _apart(grid.names)
    about = [
        *_warnings(fitted, grid.names),
        *(note for each in results for note in each.notes(names)),
    ]
    remarks += _not_shown(fitted, settings) if wanted is None else []
    remarks += _remarks(
        fitted, results, landscapes, as_searched=all(each is None for each in left_out.values())
    )
    unpermuted = [
        each.setting.value for each in results if math.isnan(each.null) and each.trouble is None
    ]
    if n_permutations and unpermuted:
        remarks.append(
            f"Labels were not permuted in setting {joined(unpermuted)}: dyadlearn.permutation_test "
            f"does it."
        )
    if any(each.setting not in intervals and each.trouble is None for each in results):
        remarks.append(
            "Intervals of large grids are left out (dyadlearn.bootstrap_interval), and of networks."
        )
    if "pairs" in spectra:
        words = fitted.pairing.words
        remarks.append(
            f"{words[0].upper()}{words[1:]} filters the pairs: neither side has an effective "
            f"dimension."
        )
    return Summary(
        title=title or f"{fitted.name}: {grid.size}",
        facts=_facts(fitted, judge.name, grid),
        grid=grid,
        sides=spectra,
        weights=weights_of_model(fitted),
        scoring=judge.name,
        own=fitted.searched_setting,
        results=results,
        others=[each for each in every if each.judge != judge],
        intervals=intervals,
        landscapes=landscapes,
        contradicting=_contradicting(results, labels, n_cells, grid),
        likeliest=likeliest,
        explanations=explanations,
        warnings=[*dict.fromkeys([*notes, *about, *stopped])],
        notes=remarks,
    )


def _in_grid(result: SettingScore, spread: Callable[[Any], Any]) -> SettingScore:
    """Return the score of a setting with labels and predictions as grids, whatever form the labels have."""
    if result.predictions is None or result.labels is None:
        return result
    return replace(result, predictions=spread(result.predictions), labels=spread(result.labels))


def _shown(
    fitted: FittedRidge, wanted: Iterable[str | Setting] | None, left_out: dict[str, Any]
) -> list[Setting]:
    """Return the settings to show: the requested ones, or by default those that do not take long."""
    every = known_settings(fitted, Setting if wanted is None else wanted)
    searched = fitted.searched_setting
    if not every:
        raise ValueError(
            "settings names none that this model can be shown in: give some of A, B, C and D."
        )
    if wanted is not None:
        return every
    if fitted.learns_kernels:
        return [setting for setting in every if setting is searched]
    if fitted.labels.full is not None:
        return every
    searched = searched or (Setting.A if fitted.is_network else Setting.B)
    return [each for each in every if each is searched or _is_quick(fitted, each, left_out)]


def _is_quick(fitted: FittedRidge, setting: Setting, left_out: dict[str, Any]) -> bool:
    """Return whether a setting of an incomplete grid has held-out predictions without refits, or with fast ones."""
    if fitted.is_network and setting is not Setting.A:
        return False  # where labels are missing, nodes of a network cannot be left out
    how = plan(fitted.problem, setting, **left_out)
    return how.n_solves == 0 or _is_little_work(fitted, how.n_solves)


def _is_little_work(fitted: FittedRidge, n_solves: int) -> bool:
    """Return whether the missing labels can be solved for so often in reasonable time.

    A solve takes about as many iterations as in `fit`, each with a product with both sides, and a
    few more for the decompositions.
    """
    m, q = fitted.labels.shape
    n_steps = 10 + fitted.solution.n_iter
    return fitted.labels.full is not None or bool(
        n_solves * n_steps * m * q * (m + q) <= _MOST_WORK
    )


def _not_shown(fitted: FittedRidge, settings: list[Setting]) -> list[str]:
    """Return a sentence about the settings that are left out by default."""
    missing = [setting for setting in known_settings(fitted) if setting not in settings]
    if not missing:
        return []
    names = joined([setting.value for setting in missing])
    word = "it" if len(missing) == 1 else "them"
    if fitted.learns_kernels:
        return [
            f'Setting {names} would take kernels learned again for every fold: setting="ABCD" asks '
            f"for {word}."
        ]
    if fitted.is_network:
        return [
            f"Labels are missing, and then a network has no held-out predictions in setting "
            f"{names}."
        ]
    return [
        f'Setting {names} would be refitted for every fold of so large a grid: setting="ABCD" asks '
        f"for {word}."
    ]


def _contradicting(
    results: list[SettingScore], labels: Table, n_cells: int, grid: GridView
) -> Screening | None:
    """Return the labels that are contradicted most, by the setting with the best predictions over all cells."""
    judge = scorer(usual_scoring(labels.values))
    usable = [each for each in results if each.predictions is not None]
    best = max(
        usable,
        key=lambda each: judge(each.labels, each.predictions, tie_tolerance=None),
        default=None,
    )
    if best is None or best.predictions is None:
        return None
    found = screened(
        labels, best.predictions, best.method, best.setting.value, grid.names, grid.is_network
    )
    return found.first(min(n_cells, int(np.count_nonzero(found.contradictions > 0))))


def _likeliest(
    model: Any,
    fitted: FittedRidge,
    left_out: dict[str, Any],
    grid: GridView,
    n_cells: int,
    remarks: list[str],
) -> tuple[TopPairs | None, list[Explanation]]:
    """Return the best unobserved pairs, and explanations of the first few if these are fast."""
    if not grid.n_missing and not np.isin(grid.distinct, (0, 1)).all():
        return None, []  # every pair has a label
    if fitted.searched_setting is not Setting.A and not _is_quick(fitted, Setting.A, left_out):
        remarks.append(
            "The likeliest unobserved pairs would need another solution: dyadlearn.top_pairs names "
            "them."
        )
        return None, []
    sides = tuple(grid.names)
    try:
        found = top_pairs(model, n=min(n_cells, _PAIRS), sides=sides)
    except (LeverageError, ValueError):  # there are no such pairs, or no predictions of them
        return None, []
    if not _is_little_work(fitted, _EXPLAINED):
        remarks.append(
            "The likeliest pairs are not explained, as the grid is large: dyadlearn.explain does "
            "it."
        )
        return found, []
    instances, tasks = (list(ids[:_EXPLAINED]) for ids in (found.instances, found.tasks))
    try:
        return found, explain(model, instances, tasks, n=5, sides=sides)
    except ValueError as error:
        remarks.append(f"The likeliest pairs are not explained. {error}")
        return found, []


def _facts(fitted: FittedRidge, scoring: str, grid: GridView) -> list[tuple[str, str]]:
    names = grid.names
    if grid.is_network:
        what = f"{len(grid.values):,} {names.instances}, pairwise"
    else:
        what = grid.size
    if grid.n_missing:
        share = f" observed, {100 * grid.n_observed / grid.values.size:.3g} %"
    else:
        share = ""
    low, high = (number(value) for value in grid.distinct[[0, -1]])
    two_values = f"{low} and {high}, {100 * grid.share_positive:.3g} % are {high}"
    setting = fitted.searched_setting
    return [
        ("Model", fitted.name),
        ("Grid", what),
        ("Labels", f"{grid.n_observed:,}{share}"),
        ("Values", two_values if grid.is_binary else f"{low} to {high}"),
        ("Regularisation", _regularisation(fitted, names)),
        *(
            []
            if setting is None
            else [("Chosen for", f"setting {_apart(names).in_words(setting)}")]
        ),
        ("Judged by", scoring),
    ]


def _regularisation(fitted: FittedRidge, names: SideNames) -> str:
    """Return the regularisation of a fitted model in words."""
    alphas = fitted.posed.alphas
    if "task_alpha" in alphas:
        return f"λ_d = {power(alphas['alpha'])}, λ_t = {power(alphas['task_alpha'])}"
    chosen = np.unique(alphas["alpha"])
    if chosen.size > 1:
        return f"λ from {power(chosen[0])} to {power(chosen[-1])}, one for each {names.task}"
    return f"λ = {power(chosen[0])}"


def _warnings(fitted: FittedRidge, names: SideNames) -> list[str]:
    """Return warnings about a model that do not depend on its scores."""
    # A model from a file may not know its search.
    if fitted.searches and not fitted.learns_kernels:
        edges = edges_of(fitted)
    else:
        edges = []
    found = _zeros(fitted, names)
    solution = fitted.solution
    found += [edge.note(power) for edge in edges]
    if not solution.converged:
        where = (
            f"after {solution.n_iter} iterations at a relative residual of {solution.residual:.1e}"
        )
        found.append(
            f"The solver of the missing labels stopped {where}: raise max_iter, tol or the "
            f"regularisation."
        )
    return found


def _zeros(fitted: FittedRidge, names: SideNames) -> list[str]:
    """Return warnings about kernels that have eigenvalues of zero and may have been repaired."""
    found = []
    for name, side in zip(names, dict.fromkeys(fitted.sides), strict=False):
        zeros = int(np.count_nonzero(to_numpy(side.spectrum.penalised) <= 0))
        # A linear kernel is singular in general and needs no repair.
        if zeros and not side.is_primal and side.spec.kernel != "linear":
            done = "lifted" if side.spec.repair == "shift" else "clipped to zero"
            share = (
                f"{zeros:,} of {side.spectrum.n_rows:,} eigenvalues of the {name} kernel are zero"
            )
            cause = f"it is singular, or was indefinite and its negative eigenvalues were {done}"
            found.append(f"{share}: {cause}. Fitting with repair='error' tells which.")
    return found


def _remarks(
    fitted: FittedRidge,
    results: list[SettingScore],
    landscapes: list[LandscapeView],
    *,
    as_searched: bool,
) -> list[str]:
    """Return notes on how the scores were computed.

    Parameters
    ----------
    fitted : FittedRidge
    results : list of SettingScore
    landscapes : list of LandscapeView
    as_searched : bool
        Whether no groups or folds are given, so that the setting of a search is held out as it was
        chosen.
    """
    remarks = []
    problem = fitted.posed
    searched = fitted.searched_setting
    if fitted.learns_kernels:
        remarks.append(
            "Kernels and regularisation were learned again without each fold that is scored."
        )
    elif searched in [each.setting for each in results]:
        score = f"The regularisation was chosen in setting {searched}, so its score there is a little optimistic"
        remarks.append(f"{score}: dyadlearn.nested_score gives one that is not.")
    evaluated = next((each.evaluated for each in landscapes if each.setting is searched), "")
    if evaluated:
        remarks.append(
            f"The search went from coarse to fine ({evaluated}); exhaustive=True evaluates all "
            f"points."
        )
    methods = {each.method for each in results if each.predictions is not None}
    if (
        searched is not None
        and as_searched
        and len(methods) > 1
        and problem.labels.full is not None
    ):
        remarks.append(
            "Settings differ in what they leave out: give groups=, task_groups= or cv= to compare "
            "scores."
        )
    if not problem.pairing.refits:
        remarks.append(
            "Hold-out of filters other than Tikhonov keeps the penalty of all rows: it is no refit."
        )
    return remarks


def _apart(names: SideNames) -> SideNames:
    """Return different names of the two sides, also for a network."""
    if names.instance == names.task:
        return SideNames(f"first {names.instance}", f"second {names.task}")
    return names
