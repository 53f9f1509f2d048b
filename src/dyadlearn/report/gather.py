"""From a fitted model to the numbers of a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import to_numpy
from dyadlearn._tables import Ids
from dyadlearn.exceptions import UndefinedScoreWarning
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models import OnlineTwoStepRidge, PairRegressor
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._side import Side as FittedSide
from dyadlearn.report.data import Labels, Report, Result, Side
from dyadlearn.report.scores import Question
from dyadlearn.report.screen import most_contradicting
from dyadlearn.report.words import joined, number, power, setting_words
from dyadlearn.selection._search import edges_of
from dyadlearn.settings import Setting

__all__ = ["gather"]


def gather(
    model: Any, *, title: str | None = None, n_cells: int = 200, notes: Iterable[str] = (), **asked: Any
) -> Report:
    """Compute all that a report shows.

    Parameters
    ----------
    model : fitted model
    title : str or None
    n_cells : int
        How many cells to list.
    notes : iterable of str
        Warnings to show beside those that are found.
    **asked
        Of `Question`.

    Returns
    -------
    Report
    """
    inner = _inner(model)
    question = Question(inner, **asked)
    labels = _labels(model, inner)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = question.results()
        landscapes, said = question.landscapes([each.setting for each in results if each.trouble is None])
    stopped = []
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning | UndefinedScoreWarning):
            stopped.append(str(warning.message))
        else:  # not ours to keep
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    cell_setting = _cell_setting(results, labels)
    cells: list[tuple[int, int, float]] = []
    for each in results:
        if each.setting is cell_setting and each.held_out is not None:
            cells = most_contradicting(labels.values, each.held_out, n_cells, is_network=labels.is_network)
    m, q = labels.values.shape
    return Report(
        title=title or f"{type(inner).__name__}: {m:,} {labels.instance_word}s × {q:,} {labels.task_word}s",
        facts=_facts(question, labels),
        labels=labels,
        sides=_sides(inner),
        scoring=question.judge.name,
        results=results,
        landscapes=landscapes,
        cells=cells,
        cell_setting=cell_setting,
        warnings=[*dict.fromkeys([*notes, *_warnings(question, results), *stopped])],
        notes=[*said, *_remarks(question, results)],
    )


def _inner(model: Any) -> PairwiseRidge:
    if isinstance(model, OnlineTwoStepRidge):
        raise TypeError(
            "OnlineTwoStepRidge keeps statistics only, not the labels that a report shows: fit a TwoStepRidge on them."
        )
    if not isinstance(model, PairwiseRidge | PairRegressor):
        raise TypeError(
            "model must be a TwoStepRidge, KroneckerRidge or IndependentTaskRidge, one that chooses its "
            f"regularisation, or a PairRegressor of one, found {type(model).__name__}."
        )
    check_is_fitted(model)
    return model.model_ if isinstance(model, PairRegressor) else model


def _labels(model: Any, inner: PairwiseRidge) -> Labels:
    grid, is_network = inner._grid, inner._problem().method == "network"
    values = np.asarray(to_numpy(grid.values), dtype=np.float64)
    if isinstance(model, PairRegressor):
        ids: list[Ids | None] = [Ids(model.instance_ids_), Ids(model.task_ids_)]
    else:
        ids = [grid.row_ids, grid.column_ids]
    if is_network:
        ids[1] = ids[1] or ids[0]
    names = [
        [str(label) for label in (range(length) if side is None else side.labels)]
        for side, length in zip(ids, values.shape, strict=True)
    ]
    words = ["node", "node"] if is_network else ["instance", "task"]
    return Labels(values, names[0], names[1], words[0], words[1], is_network)


def _cell_setting(results: list[Result], labels: Labels) -> Setting | None:
    """Return the setting whose predictions are best over all cells: the better they are, the more they can object."""
    usable = {each.setting: each.held_out for each in results if each.held_out is not None}
    judge = scorer(usual_scoring(labels.values))
    return max(usable, key=lambda setting: judge(labels.values, usable[setting], tie_tolerance=None), default=None)


def _facts(question: Question, labels: Labels) -> list[tuple[str, str]]:
    model, problem = question.model, question.model._problem()
    m, q = labels.values.shape
    what = f"{m:,} nodes, pairwise" if labels.is_network else f"{m:,} instances × {q:,} tasks"
    facts = [("Model", type(model).__name__), ("Grid", what)]
    share = 100 * labels.n_observed / labels.values.size
    facts.append(("Labels", f"{labels.n_observed:,}" + ("" if labels.is_complete else f" observed, {share:.3g} %")))
    if labels.is_binary:
        low, high = (number(value) for value in labels.distinct)
        facts.append(("Values", f"{low} and {high}, {100 * labels.share_positive:.3g} % are {high}"))
    else:
        low, high = (number(value) for value in (np.nanmin(labels.values), np.nanmax(labels.values)))
        facts.append(("Values", f"{low} to {high}"))
    chosen = np.unique(getattr(model, "alpha_", problem.alpha))
    if problem.method == "two_step":
        facts.append(("Regularisation", f"λ_d = {power(problem.alpha)}, λ_t = {power(problem.task_alpha)}"))
    elif chosen.size > 1:
        facts.append(("Regularisation", f"λ from {power(chosen[0])} to {power(chosen[-1])}, one for each task"))
    else:
        facts.append(("Regularisation", f"λ = {power(chosen[0])}"))
    if question.own is not None:
        facts.append(("Chosen for", f"setting {setting_words(question.own)}"))
    facts.append(("Judged by", question.judge.name))
    return facts


def _sides(model: PairwiseRidge) -> list[Side]:
    problem, side, task_side = model._problem(), model._side, model._task_side
    alpha = None if np.isnan(problem.alpha) else float(problem.alpha)
    if problem.method == "kronecker":
        assert task_side is not None
        sides = [_side("instances", side, None, None), _side("tasks", task_side, None, None)]
        return [*sides, _pairs(problem, sides)]
    if problem.method == "two_step":
        assert task_side is not None
        task_alpha = float(problem.task_alpha)
        return [
            _side("instances", side, problem.filter, alpha),
            _side("tasks", task_side, problem.task_filter, task_alpha),
        ]
    return [_side("nodes" if problem.method == "network" else "instances", side, problem.filter, alpha)]


def _side(name: str, side: FittedSide, filter: SpectralFilter | None, alpha: float | None) -> Side:
    values = np.sort(np.asarray(to_numpy(side.spectrum.values), dtype=np.float64))[::-1]
    kernel, params = side.spec.kernel, side.spec.params or {}
    word = kernel if isinstance(kernel, str) else getattr(kernel, "__name__", type(kernel).__name__)
    if params:
        word += f" ({', '.join(f'{key}={value}' for key, value in params.items())})"
    kept = None if filter is None or alpha is None else float(filter.shrinkage(values, alpha).sum())
    return Side(name, side.spectrum.n_rows, int(np.count_nonzero(values > 0)), word, values, alpha, kept)


def _pairs(problem: Problem, sides: list[Side]) -> Side:
    r"""Return the pairs that a Kronecker model filters, with :math:`\sum_{ij} \sigma_i s_j/(\sigma_i s_j+\lambda)`."""
    values, tasks = sides[0].values, sides[1].values
    assert values is not None
    assert tasks is not None
    alpha = float(problem.alpha)
    kept = float(sum(Tikhonov().shrinkage(value * tasks, alpha).sum() for value in values))
    n_pairs, rank = sides[0].n_rows * sides[1].n_rows, sides[0].rank * sides[1].rank
    return Side("pairs", n_pairs, rank, "product", None, alpha, kept)


def _warnings(question: Question, results: list[Result]) -> list[str]:
    """Return what a reader must mind."""
    found = [*_edges(question), *_zeros(question.model)]
    completion = question.model._completion
    if completion is not None and not completion.solution.converged:
        found.append(
            f"The solver of the missing labels stopped after {completion.solution.n_iter} iterations at a relative "
            f"residual of {completion.solution.residual:.1e}: raise max_iter, tol or the regularisation."
        )
    for each in results:
        if each.trouble is not None:
            found.append(f"Setting {each.setting.value} has no score. {each.trouble}")
        elif each.n_undefined:
            unit, total = (
                ("tasks", question.labels.shape[1])
                if each.setting is Setting.C
                else ("instances", len(question.labels))
            )
            found.append(
                f"In setting {each.setting.value}, {question.judge.name} is undefined for {each.n_undefined:,} of "
                f"{total:,} {unit}: their labels are all alike, or missing. The score is the mean of the others."
            )
    return found


def _edges(question: Question) -> list[str]:
    """Tell whether a search has ended on the edge of its grid."""
    search = question.search
    # A model that was read from a file may have kept less.
    if search is None or np.ndim(search.alpha_) or not hasattr(search, "landscape_"):
        return []
    return [
        f"The best {name}, {power(best)}, is on the edge of the grid that was searched ({power(low)} … {power(high)}): "
        "a wider one may hold a better value, or this side wants no (or full) regularisation."
        for name, best, low, high in edges_of(search)
    ]


def _zeros(model: PairwiseRidge) -> list[str]:
    """Tell of kernels that have eigenvalues of zero and may have been repaired."""
    found = []
    for name, side in zip(("instance", "task"), dict.fromkeys(model._sides()), strict=False):
        zeros = int(np.count_nonzero(to_numpy(side.spectrum.values) <= 0))
        # A linear kernel has a null space of its own, and nothing to repair.
        if zeros and not side.is_primal and side.spec.kernel != "linear":
            done = "lifted" if side.spec.repair == "shift" else "clipped to zero"
            found.append(
                f"{zeros:,} of {side.spectrum.n_rows:,} eigenvalues of the {name} kernel are zero: it is singular, or "
                f"it was indefinite and its negative eigenvalues were {done}. Fitting with repair='error' tells which."
            )
    return found


def _remarks(question: Question, results: list[Result]) -> list[str]:
    """Return what a reader should know."""
    problem, found = question.model._problem(), []
    if question.search is not None and question.own in [each.setting for each in results]:
        found.append(
            f"The regularisation is the best of many in setting {question.own}, so its score there is a little "
            "optimistic: dyadlearn.nested_score gives one that is not."
        )
    if question.not_shown:
        names = joined([setting.value for setting in question.not_shown])
        if problem.method == "network":
            found.append(f"Labels are missing, and then a network has no held-out predictions in setting {names}.")
        else:
            found.append(
                f"Labels are missing or weighted, so that setting {names} would be solved again for every fold: it is "
                "shown where settings= asks for it."
            )
    methods = {each.method for each in results if each.held_out is not None}
    if question.search is not None and question.is_as_searched and len(methods) > 1 and problem.is_complete:
        found.append(
            "Not all settings leave out the same: compare their scores with care, or give groups=, task_groups= or cv=."
        )
    filters = [problem.filter] + ([] if problem.task_spectrum is None else [problem.task_filter])
    if not all(each.refits for each in filters):
        found.append(
            "Held-out predictions of filters other than Tikhonov are those of a penalty built from all rows, which "
            "is not the same as fitting again without some."
        )
    if problem.method == "kronecker":
        found.append("Kronecker ridge regression filters the pairs: neither side has an effective dimension alone.")
    return found
