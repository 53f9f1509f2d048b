"""Scores of held-out predictions by the similarity of what was held out to what remained, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dyadlearn.holdout import plan
from dyadlearn.holdout.units import Units
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.selection.evaluate import SettingScore
from dyadlearn.selection.nearness import KnownNearness, holdout_nearness, stacked_bands
from dyadlearn.settings import Setting

# Largest number of members of a side whose similarities are all computed.
_MOST_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class SimilarityScores:
    """Scores in one setting, by the largest similarity of each held-out entity to one in training.

    Attributes
    ----------
    setting : Setting
    scoring : str
    columns : dict of str to list
        As those of `dyadlearn.selection.Audit.bands`, with a column of scores.
    """

    setting: Setting
    scoring: str
    columns: dict[str, list[Any]]


def scores_by_similarity(
    fitted: FittedRidge, results: Iterable[SettingScore], left_out: Mapping[str, Any]
) -> list[SimilarityScores]:
    """Return the scores by similarity of each setting that leaves out a side, if there are bands to compare.

    Parameters
    ----------
    fitted : FittedRidge
    results : iterable of SettingScore
    left_out : mapping
        ``groups``, ``task_groups`` and ``cv`` of the results, as in `dyadlearn.evaluate`.
    """
    listed = []
    if fitted.is_network or max(fitted.labels.shape) > _MOST_ROWS:
        return []
    labels = fitted.labels
    known: KnownNearness = {}
    for result in results:
        setting = result.setting
        units = _units(fitted, setting, left_out) if setting.new else None
        if units is None or result.labels is None or result.predictions is None:
            continue
        sides = holdout_nearness(fitted, setting, units, known)
        # The results of a list of pairs may be lists, or grids as pages draw them.
        at: Any
        if result.labels.ndim > 1:
            at = labels.places
        else:
            at = labels.observed
        y = result.labels[at]
        predicted = result.predictions[at]
        scores = [side.scores(y, predicted, result.judge) for _, side in sides]
        columns = stacked_bands(sides, **{result.judge.name: scores})
        if len(columns["side"]) > len(sides):
            listed.append(SimilarityScores(setting, result.judge.name, columns))
    return listed


def _units(fitted: FittedRidge, setting: Setting, left_out: Mapping[str, Any]) -> Units | None:
    """Return what was left out together; None if the kernels of the model depend on what was left out."""
    if fitted.learns_kernels:
        return None
    is_stored = all(value is None for value in left_out.values())
    if is_stored and fitted.validation is not None and setting is fitted.searched_setting:
        return fitted.validation.units
    units: Units = plan(fitted.problem, setting, **left_out).units
    return units
