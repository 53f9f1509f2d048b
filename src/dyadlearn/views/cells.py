"""Summary of a model of cells for the report: variances, fixed effects, scores and effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._text import joined, number
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.selection.evaluate import SettingScore, evaluate
from dyadlearn.views.cautions import Caution, Importance, cautions_of
from dyadlearn.views.grid import Points, points_of
from dyadlearn.views.summary import SummaryOptions

# How the variances were found, by the name of the estimation.
_ESTIMATIONS = {
    "likelihood": "restricted likelihood",
    "holdout": "held-out error with new {new}",
    "given": "given numbers",
}


@dataclass(frozen=True, eq=False)
class CellSummary:
    """Summary of a `MultiwayRidge`.

    Attributes
    ----------
    title : str
    facts : list of (str, str)
    variances : dict of str to list
        Columns of `variance_columns`.
    fixed : dict of str to float
        Coefficients of the fixed columns.
    scoring : str
    results : list of SettingScore
        One for each setting.
    others : list of SettingScore
        The same for further scores.
    effects : dict of str to dict of columns
        Effects of the terms of one side, the largest first.
    n_left_out : dict of str to int
        Number of effects of each term that are not listed.
    cautions : list of Caution
    notes : list of str
    id_names : mapping of str to str
        Names to show after ids.
    """

    title: str
    facts: list[tuple[str, str]]
    variances: dict[str, list[Any]]
    fixed: dict[str, float]
    scoring: str
    results: list[SettingScore]
    others: list[SettingScore]
    effects: dict[str, dict[str, Any]]
    n_left_out: dict[str, int]
    cautions: list[Caution]
    notes: list[str]
    id_names: Mapping[str, str]

    def clouds(self) -> list[tuple[str, str, Points, float]]:
        """Return the letter of its colour, the words, the points and their spread for each setting."""
        clouds = []
        for place, result in enumerate(self.results):
            if result.labels is None or result.predictions is None:
                continue
            labels = result.labels[:, None]
            predictions = result.predictions[:, None]
            points = points_of("scatter", labels, predictions)
            errors = np.abs(labels - predictions)
            within = float(np.quantile(errors, 0.9, method="inverted_cdf"))
            clouds.append(("ABCD"[place % 4], result.setting.in_words, points, within))
        return clouds


def cell_summary(model: Any, options: SummaryOptions, new: Sequence[Any] | None) -> CellSummary:
    """Return the summary of a `MultiwayRidge`; `new` are its settings, as in `dyadlearn.evaluate`."""
    _check_options(options)
    fitted: FittedMultiway = model.fitted_
    judge = scorer(options.scoring or usual_scoring(fitted.values))
    further = [name for name in ("neg_mean_squared_error", "r2") if name != judge.name]
    judges = [judge, *map(scorer, further)]
    scores = evaluate(
        model,
        new=new,
        scoring=judges,
        groups=options.groups,
        task_groups=options.task_groups,
        cv=options.cv,
        n_permutations=options.n_permutations,
        sides=options.sides,
        error_score=float("nan"),
    ).results
    results = scores[:: len(judges)]
    effects = {}
    n_left_out = {}
    for name, term in zip(fitted.term_names, fitted.terms, strict=True):
        if len(term) == 1 and fitted.variances[fitted.term_at(name)] > 0:
            columns = fitted.effects(name, None)
            n_left_out[name] = max(0, len(columns["effect"]) - options.n)
            effects[name] = _first(columns, options.n)
    doubts = [(Importance.DOUBT, text) for text in options.notes]
    for result in results:
        doubts += [(Importance.RESULT, text) for text in result.notes()]
    doubts += [(Importance.DOUBT, text) for text in _zeros(fitted)]
    sides = joined([f"{len(side.labelled):,} {side.name}" for side in fitted.sides])
    return CellSummary(
        title=options.title or f"MultiwayRidge: {len(fitted.values):,} labels of {sides}",
        facts=_facts(fitted, judge.name),
        variances=variance_columns(fitted),
        fixed=fitted.fixed_effects(),
        scoring=judge.name,
        results=results,
        others=[score for score in scores if score.judge.name != judge.name],
        effects=effects,
        n_left_out=n_left_out,
        cautions=cautions_of(doubts),
        notes=_notes(fitted),
        id_names={str(label): str(name) for label, name in (options.names or {}).items()},
    )


def _check_options(options: SummaryOptions) -> None:
    """Raise if an option is given that the report of cells does not use."""
    given = {name: getattr(options, name) for name in ("setting", "alphas", "task_alphas")}
    if not options.nested:
        given["nested"] = False
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name} is not available for the report of a MultiwayRidge, which has neither "
                f"regularisations nor learned kernels: leave it out, and choose settings by new=."
            )


def _first(columns: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return the rows of the n largest effects, the largest first."""
    order = np.argsort(-columns["effect"], kind="stable")[:n]
    return {name: [values[place] for place in order] for name, values in columns.items()}


def variance_columns(fitted: FittedMultiway) -> dict[str, list[Any]]:
    """Return the variances of the terms and of the noise, with their standard errors and shares, as named columns.

    The share is that in the variance of a label, with kernels scaled as for a heritability. An error
    is NaN where there is none.
    """
    return {
        "term": list(fitted.variance_problem.names),
        "variance": fitted.variances.tolist(),
        "standard_error": fitted.errors.tolist(),
        "share": fitted.shares().tolist(),
    }


def _facts(fitted: FittedMultiway, scoring: str) -> list[tuple[str, str]]:
    """Return names and descriptions of the model and its labels."""
    levels = []
    for side in fitted.sides:
        kernel = "levels as themselves" if side.spec is None else f"{side.spec.kernel} kernel"
        levels.append(f"{len(side.labelled):,} {side.name} ({kernel})")
    low, high = float(fitted.values.min()), float(fitted.values.max())
    found = _ESTIMATIONS[fitted.estimation].format(new=fitted.setting(fitted.new).value)
    return [
        ("Model", "MultiwayRidge"),
        ("Terms", " + ".join(fitted.term_names)),
        ("Fixed effects", ", ".join(fitted.fixed.names) or "no columns"),
        ("Labels", f"{len(fitted.values):,}, {number(low)} to {number(high)}"),
        ("Sides", joined(levels)),
        ("Variances by", found),
        ("Judged by", scoring),
    ]


def _zeros(fitted: FittedMultiway) -> list[str]:
    """Return a warning for each term without a variance."""
    return [
        f"The variance of {name!r} is 0: the labels show no effect of this term."
        for name, variance in zip(fitted.term_names, fitted.variances, strict=False)
        if variance == 0
    ]


def _notes(fitted: FittedMultiway) -> list[str]:
    """Return notes on how the figures were computed."""
    notes = [
        "Hold-out is exact, with the variances of all labels.",
        "Baselines are means of the labels that remain; they do not use fixed columns.",
    ]
    if fitted.estimation == "likelihood":
        notes.append(f"The restricted log likelihood is {number(fitted.log_likelihood, 6)}.")
    return notes
