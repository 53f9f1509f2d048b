"""Held-out predictions of a fitted model in one setting, as each score needs them.

Scores of errors take the usual hold-out. Rankings and correlations compare predictions, and need
some that were not trained on each other's labels (`dyadlearn.holdout.one_fit`): pairs of labels that
are left out together, or the labels of one fold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import Array
from dyadlearn._checks import caller_level
from dyadlearn.holdout import Units
from dyadlearn.holdout.actual import actual_settings, counts_of, of_setting, tested_labels
from dyadlearn.holdout.one_fit import (
    folds_to_compare,
    larger_folds,
    needs_one_fit,
)
from dyadlearn.holdout.pairs_out import PairScore, PairsOut
from dyadlearn.holdout.units import scored_labels
from dyadlearn.metrics import PreparedScorer, Scorer
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.fitted import Fitted, FittedRidge, HeldOut
from dyadlearn.pairing.base import Pairing
from dyadlearn.settings import Setting


@dataclass(frozen=True, eq=False)
class Judged:
    """Held-out predictions to score by one metric.

    Attributes
    ----------
    fitted : Fitted
    setting : Setting
    judge : Scorer
    held_out : HeldOut
    pairs : PairsOut or None
        The plan to leave pairs of labels out, instead of a score of the predictions.
    targets : array of the shape of the labels' values
        Labels to score, NaN where there is no prediction or no test.
    """

    fitted: Fitted
    setting: Setting
    judge: Scorer
    held_out: HeldOut
    pairs: PairsOut | None
    targets: Array

    @property
    def method(self) -> str:
        """Description of the hold-out method."""
        if self.pairs is None:
            return self.held_out.method
        return self.pairs.method

    @property
    def reason(self) -> str:
        """The method and why it was chosen."""
        if self.pairs is None:
            return self.held_out.reason
        return self.pairs.explanation

    @cached_property
    def folds(self) -> np.ndarray | None:
        """Folds within which predictions are scored; None if all are scored together, or in pairs."""
        if self.pairs is not None:
            return None
        units = self.held_out.units
        return folds_to_compare(
            self.fitted.labels, self.judge, self.setting, units, pairing_of(self.fitted)
        )

    @cached_property
    def _letters(self) -> np.ndarray:
        return actual_settings(self.fitted.labels, self.setting, self.held_out.units)

    @property
    def actual_counts(self) -> dict[str, int]:
        """Number of held-out pairs of each actual setting; empty if all are in that of the hold-out."""
        if self.fitted.is_network or self.held_out.units.strict:
            return {}
        return counts_of(self._letters, self.setting)

    def actual_settings(self) -> list[Setting]:
        """Return the settings that held-out pairs are really in."""
        if self.fitted.is_network:
            return [self.setting]
        present = set(np.unique(self._letters).tolist())
        return [actual for actual in Setting if actual.value in present]

    def targets_of(self, actual: Setting | None) -> Array:
        """Return the labels to score of one actual setting; None means all."""
        if actual is None or self.fitted.is_network:
            return self.targets
        units = self.held_out.units
        return of_setting(self.targets, self.fitted.labels, self.setting, units, actual)

    def prepared(self, targets: Array) -> PreparedScorer:
        """Return the score of held-out predictions of some labels."""
        return prepared_score(
            self.fitted.labels, self.judge, self.setting, targets, folds=self.folds
        )

    def score(self, targets: Array) -> PairScore:
        """Return the score of some labels."""
        if self.pairs is not None:
            return self.pairs.score(targets)
        prepared = self.prepared(targets)
        value = float(prepared(self.held_out.predictions))
        return PairScore(value, prepared.n_undefined, prepared.n_parts)


@dataclass(frozen=True, eq=False)
class HoldOuts:
    """Held-out predictions of a fitted model in one setting.

    Attributes
    ----------
    fitted : Fitted
    setting : Setting
    how : dict
        Arguments of `Fitted.hold_out`.
    """

    fitted: Fitted
    setting: Setting
    how: dict[str, Any]
    _known: dict[int | None, tuple[HeldOut, Array]] = field(default_factory=dict, repr=False)

    def of(self, judge: Scorer, *, pairs: bool = True) -> Judged:
        """Return the held-out predictions that a score needs; `pairs` allows to leave out pairs of labels."""
        held_out, targets = self._held_out(None)
        setting = self.setting
        plan = self._pairs(judge, held_out) if pairs else None
        if plan is None and self.how["cv"] is None:
            labels = self.fitted.labels
            together = Units.of_groups(labels, setting, setting.of_new_sides(self._groups))
            pairing = pairing_of(self.fitted)
            splitter = larger_folds(labels, held_out.units, together, judge, setting, pairing)
            if splitter is not None:
                held_out, targets = self._held_out(splitter)
        return Judged(self.fitted, setting, judge, held_out, plan, targets)

    def _pairs(self, judge: Scorer, held_out: HeldOut) -> PairsOut | None:
        """Return the plan to leave out pairs of labels, where single labels are left out otherwise."""
        fitted = self.fitted
        is_free = self.how["cv"] is None and self.how["method"] != "folds"
        if not is_free or self.setting is not Setting.A or not held_out.units.are_single:
            return None
        if not isinstance(fitted, FittedRidge) or fitted.learns_kernels:
            return None
        if judge.average_in(self.setting) == "fold":
            return None
        if not needs_one_fit(judge, self.setting, fitted.pairing):
            return None
        return PairsOut.of(fitted.training_problem, judge)

    @property
    def _groups(self) -> tuple[Any, Any]:
        """Groups of instances and of tasks: those that are given, or those of the fit."""
        stored = getattr(self.fitted, "validation", None)
        groups = [self.how["groups"], self.how["task_groups"]]
        if stored is not None:
            for axis in (0, 1):
                if groups[axis] is None:
                    groups[axis] = stored.groups[axis]
        return groups[0], groups[1]

    def _held_out(self, splitter: Any) -> tuple[HeldOut, Array]:
        """Return the usual held-out predictions, or those of a splitter, and the labels to score."""
        key = None if splitter is None else splitter.n_splits
        if key not in self._known:
            fitted = self.fitted
            how = self.how
            if splitter is not None:
                how = {**how, "cv": splitter, "exact": False}
            held_out = fitted.hold_out(self.setting, **how)
            targets = scored_labels(
                fitted.labels,
                held_out.predictions,
                self.setting,
                quiet=bool(self._known),
                stacklevel=caller_level(),
            )
            targets = tested_labels(targets, fitted.labels, self.setting, held_out.units)
            self._known[key] = (held_out, targets)
        return self._known[key]


def pairing_of(fitted: Fitted) -> Pairing | None:
    """Return the model of pairs; None if there is none."""
    if isinstance(fitted, FittedRidge):
        return fitted.pairing
    return None
