"""Permutation test: the score of a model compared with its scores on permuted labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, epsilon, largest, namespace
from dyadlearn._checks import check_choice, check_whole
from dyadlearn._messages import Message
from dyadlearn._parallel import spread
from dyadlearn._progress import Progress
from dyadlearn._tables import Columns
from dyadlearn.diagnostics.fitted import Tabled, cells_of, fitted_of, setting_or_new
from dyadlearn.holdout import plan
from dyadlearn.holdout.cell_units import CellUnits
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import PreparedScorer, Scorer, prepared_score, usual_scoring
from dyadlearn.models.fitted import Fitted, FittedRidge
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.selection.evaluate import (
    Permutation,
    drawn,
    permuted_scores,
    scoring_of,
    what_is_new,
)
from dyadlearn.settings import Setting, as_setting

__all__ = ["PermutationTest", "permutation_test"]

_CHOICES = ("instances", "tasks", "both")
_REMEDY = "fit TwoStepRidge on the labels to permute them"

# Exponent of the relative tolerance of equal scores and predictions; rounding is larger for
# singular kernels.
_TIED = 0.6


# Scores of successive permutations, with the number of the first of them.
Null = Iterator[tuple[int, list[float]]]


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest(Tabled):
    """Score of a model and its scores on permuted labels; the result of `permutation_test`.

    Attributes
    ----------
    score : float
        Score of the original labels.
    null : array of shape (n_permutations,)
        Scores of the permuted labels.
    p_value : float
        Share of permutations whose score is at least `score`; the original labels count as one
        permutation.
    setting : str
        Setting of the held-out predictions.
    permuted : {"instances", "tasks", "both", "nodes"}
        Side that was permuted.
    scoring : str
        Name of the metric; greater is better.
    method : str
        Hold-out method, and whether a search was repeated.
    """

    score: float
    null: np.ndarray
    p_value: float
    setting: str
    permuted: str
    scoring: str
    method: str

    def __len__(self) -> int:
        return len(self.null)

    def __repr__(self) -> str:
        return (
            f"PermutationTest({self.scoring} {self.score:.4g} in setting {self.setting}, "
            f"{self.null.mean():.4g} for "
            f"{len(self)} permutations of {self.permuted}, p = {self.p_value:.3g})"
        )

    @property
    def null_mean(self) -> float:
        """Mean of the null scores."""
        return float(self.null.mean())

    @property
    def null_deviation(self) -> float:
        """Standard deviation of the null scores."""
        return float(self.null.std())

    def columns(self) -> Columns:
        """Return the test as named columns of one row, for a data frame or a file."""
        figures = ("setting", "permuted", "scoring", "score", "null_mean", "null_deviation")
        columns: Columns = {name: [getattr(self, name)] for name in figures}
        return {**columns, "n_permutations": [len(self)], "p_value": [self.p_value]}


def permutation_test(
    model: Any,
    setting: str | Setting | None = None,
    *,
    new: Any = None,
    permute: str | None = None,
    n_permutations: int = 999,
    scoring: str | Callable[[Any, Any], float] | None = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> PermutationTest:
    r"""Test whether a model predicts better than it would if its labels belonged to other instances or tasks.

    The labels are permuted against the instances, the tasks or both. This breaks the relation
    between features and labels and preserves everything else, such as the number of positives of a
    task or the correlation between tasks. With the score s of the labels and :math:`s_1 \dots s_n`
    of n permutations,

    .. math:: p = \frac{1 + \#\{i : s_i \ge s\}}{1 + n} .

    If the features of the permuted side do not matter, then :math:`P(p \le \alpha) \le \alpha` for
    any :math:`\alpha`. Scores that are equal up to rounding count as :math:`\ge`.

    **A search is repeated for every permutation**, including everything that it chooses or learns:
    regularisation, kernel parameters, shares and weights of kernels. So its best score is compared
    with best scores. A model with a fixed regularisation is scored with this regularisation, from
    its spectra. If this value was chosen by a search on the same labels, pass the search instead;
    otherwise p is too small.

    On complete labels, all permutations of a fixed regularisation share one decomposition. Missing
    labels and weights move with the labels, to other pairs with other kernel values. So each
    permutation is held out anew, and takes as long as a hold-out of the model.

    Parameters
    ----------
    model : fitted estimator
        A model that stores its labels. Groups of a search are not permuted. Missing labels and
        weights are permuted with the labels.
    setting : {"A", "B", "C", "D"} or an alias
        One setting, that of the held-out predictions. A search that was fitted for another setting
        chooses in that setting, and the chosen model is scored in this one.
    new : str or sequence of str, default=None
        For a `MultiwayRidge`, the sides that are new, instead of a setting. The descriptions of the
        levels of these sides are permuted, or those of all sides for a new cell; variances that
        were estimated are estimated again.
    permute : {"instances", "tasks", "both"} or None, default=None
        Side to permute. None means what is new: instances in B, tasks in C, and both in A and D;
        instances only for a model without tasks. The nodes of a network are always permuted on both
        sides in the same way.
    n_permutations : int, default=999
        Number of permutations. The smallest possible p is 1 / (n_permutations + 1).
    scoring : str or callable, default=None
        Metric, as in `dyadlearn.evaluate`. None means the `scoring` of a search, or else the
        default for the labels.
    random_state : int, RandomState or None, default=0
        Seed of the permutations.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Returns
    -------
    PermutationTest

    See Also
    --------
    evaluate : scores in several settings, with the mean of a few permutations.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, permutation_test
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(20, 15))
    >>> model = TwoStepRidge().fit(X, Y, tasks=T)
    >>> permutation_test(model, "B", n_permutations=199, random_state=0).p_value
    0.005
    >>> noise = TwoStepRidge().fit(X, rng.normal(size=(20, 15)), tasks=T)
    >>> permutation_test(noise, "B", n_permutations=199, random_state=0).p_value > 0.05
    True
    """
    check_whole(n_permutations, "n_permutations")
    setting_or_new(setting, new)
    if new is not None:
        return _of_cells(cells_of(model), new, n_permutations, scoring, random_state, progress)
    assert setting is not None
    fitted = fitted_of(model, _REMEDY)
    chosen = as_setting(setting)
    fitted.check(chosen)
    permuted = _permuted(fitted, chosen, permute)
    labels = fitted.labels
    judge = scorer(scoring_of(fitted, scoring))
    permutation = check_random_state(random_state).permutation
    draws = islice(drawn(permuted, labels.shape, permutation), n_permutations)
    is_fixed = isinstance(fitted, FittedRidge) and not fitted.searches
    is_closed = is_fixed and plan(fitted.problem, chosen).is_of_grid
    compute = _closed if is_closed else _repeated
    score, method, null = compute(fitted, chosen, judge, draws)
    values = _collected(null, n_permutations, progress)
    slack = _rounding_of_scores(values, score, labels.values)
    slack = max(slack, _score_of_rounding(labels, chosen, judge))
    p_value = _p_value(values, score, slack)
    return PermutationTest(score, values, p_value, chosen.value, permuted, judge.name, method)


def _collected(null: Null, n_permutations: int, progress: bool | None) -> np.ndarray:
    """Return the scores of all permutations, with a progress bar."""
    scores = np.full(n_permutations, np.nan)
    with Progress(n_permutations, "Permutations", progress, of=1) as bar:
        for first, batch in null:
            scores[first : first + len(batch)] = batch
            bar.advance(len(batch))
    return scores


def _p_value(null: np.ndarray, score: float, slack: float) -> float:
    """Return the p-value of a score; scores that are equal up to a slack count as greater."""
    n_as_good = int(np.count_nonzero(~(null < score - slack)))  # NaN counts against the model
    return (1 + n_as_good) / (1 + len(null))


def _of_cells(
    fitted: FittedMultiway,
    new: Any,
    n_permutations: int,
    scoring: Any,
    random_state: Any,
    progress: bool | None,
) -> PermutationTest:
    """Return the test of a model of cells, as `permutation_test` does."""
    setting = fitted.setting(new)
    described = [side.name for side in fitted.sides if side.spec is not None]
    permuted = [name for name in described if not setting.names or name in setting.names]
    if not permuted:
        raise ValueError(
            f"No new side has a description, so that permuting changes nothing: the described "
            f"sides are {described}."
        )
    units = fitted.units(setting)
    judge = scorer(usual_scoring(fitted.values) if scoring is None else scoring)
    prepared = judge.prepare(fitted.values[:, None], average="pooled", tie_tolerance=None)
    permutation = check_random_state(random_state).permutation
    score = float(prepared(fitted.held_out(units)[:, None]))

    others = (fitted.permuted(permuted, permutation) for _ in range(n_permutations))
    null = _one_by_one(partial(_score_of_cells, units, prepared), others)
    values = _collected(null, n_permutations, progress)
    p_value = _p_value(values, score, _rounding_of_scores(values, score, fitted.values))
    method = "exact leave-one-out"
    if fitted.estimation != "given":
        method += ", variances estimated again"
    words = ", ".join(permuted)
    return PermutationTest(score, values, p_value, setting.value, words, judge.name, method)


def _score_of_cells(units: CellUnits, score: PreparedScorer, fitted: FittedMultiway) -> float:
    """Return the score of a model of cells, whose variances are estimated again."""
    return float(score(fitted.estimated().held_out(units)[:, None]))


def _one_by_one(score: Callable[[Any], float], items: Iterable[Any]) -> Null:
    """Yield the score of each item."""
    with closing(spread(score, items)) as scores:
        for place, value in scores:
            yield place, [value]


def _permuted(fitted: Fitted, setting: Setting, permute: str | None) -> str:
    """Return the side to permute; raise if it cannot be permuted."""
    new = what_is_new(fitted, setting)
    if permute is None:
        permuted = new
    else:
        permuted = check_choice(permute, "permute", _CHOICES)
    if fitted.is_network:
        if permuted not in ("nodes", "both"):
            raise ValueError(
                Message(
                    "The nodes of a network are permuted on both sides alike: leave <permute> "
                    "out, found {permute!r}.",
                    permute=permute,
                )
            )
        permuted = new
    elif permuted != "instances" and Setting.C not in fitted.settings:
        raise ValueError(
            Message(
                "{model} has no task features, so permuting tasks changes nothing: use "
                "<permute='instances'>, found {permute!r}.",
                model=fitted.name,
                permute=permute,
            )
        )
    for side, count in zip(("instances", "tasks"), fitted.labels.shape, strict=True):
        if count < 2 and permuted in (side, "both", "nodes"):
            raise ValueError(
                f"Permuting {permuted} takes two {side} or more, found {count}: permute the other "
                f"side, or fit the model on more."
            )
    return permuted


def _closed(
    fitted: Fitted, setting: Setting, judge: Scorer, draws: Iterator[Permutation]
) -> tuple[float, str, Null]:
    """Return the score, the hold-out method and the scores of permutations, computed together by closed forms."""
    problem = fitted.problem
    held_out = fitted.hold_out(setting)
    score = judge.prepare(problem.Y, setting=setting, tie_tolerance=None)
    null = permuted_scores(problem, setting, draws, score, held_out.units)
    return float(score(held_out.predictions)), held_out.method, _numbered(null)


def _numbered(batches: Iterator[np.ndarray]) -> Null:
    """Yield batches of scores with the number of their first permutation."""
    first = 0
    for batch in batches:
        yield first, batch.tolist()
        first += len(batch)


def _repeated(
    fitted: Fitted, setting: Setting, judge: Scorer, draws: Iterator[Permutation]
) -> tuple[float, str, Null]:
    """Return the score, the hold-out method and the scores of permutations, each solved, searched or learned again."""
    labels = fitted.labels
    held_out = fitted.hold_out(setting)
    method = held_out.method
    fit = None
    if fitted.searches or not isinstance(fitted, FittedRidge):
        fit = fitted.refitter(setting)
    # Whether the search chose by this score in this setting, so that its best score is compared.
    is_searched = False
    if fitted.searches:
        scoring = fitted.scoring
        if scoring is None:  # a model that learned its kernels has no scoring
            method += ", learned again"
        else:
            method += ", searched again"
            is_searched = setting is fitted.searched_setting and judge == scorer(scoring)
    if is_searched:
        score = fitted.choice.best_score
    else:
        score = _score(labels, held_out.predictions, setting, judge)

    statistic = _Statistic(fitted, fit, setting, judge, is_searched)
    return score, method, _one_by_one(statistic, draws)


@dataclass(frozen=True, eq=False)
class _Statistic:
    """Score of permuted labels, as a function of a permutation.

    Attributes
    ----------
    fitted : Fitted
    fit : callable or None
        Function that fits the model to other labels; None solves the problem of the model.
    setting : Setting
    judge : Scorer
    is_searched : bool
        Whether the score is that by which a search has chosen.
    """

    fitted: Fitted
    fit: Callable[[Labels], Fitted] | None
    setting: Setting
    judge: Scorer
    is_searched: bool

    def __call__(self, permutation: Permutation) -> float:
        """Return the score; warnings were raised for the original labels."""
        with warnings.catch_warnings(action="ignore"):
            return self._of(self.fitted.labels.permuted(*permutation))

    def _of(self, permuted: Labels) -> float:
        if self.fit is None:
            how = plan(self.fitted.problem.with_labels(permuted), self.setting)
            return _score(permuted, how.held_out(), self.setting, self.judge)
        model: Any = self.fit(permuted)
        if self.is_searched:
            return float(model.choice.best_score)
        held_out = model.hold_out(self.setting).predictions
        return _score(permuted, held_out, self.setting, self.judge)


def _score(labels: Labels, held_out: Array, setting: Setting, judge: Scorer) -> float:
    """Return the score of held-out predictions."""
    targets = scored_labels(labels, held_out, setting, quiet=True)
    return float(prepared_score(labels, judge, setting, targets)(held_out))


def _rounding_of_scores(null: np.ndarray, score: float, like: Array) -> float:
    """Return the difference of scores that may be rounding, relative to the largest score."""
    # The rounding error of a score near zero, such as a share of variance, is that of the other
    # scores.
    size = max(abs(score), float(np.nanmax(np.abs(null), initial=0.0)))
    return float(epsilon(like) ** _TIED * size)


def _score_of_rounding(labels: Labels, setting: Setting, judge: Scorer) -> float:
    """Return how much the score of perfect predictions changes if they are off by a rounding error of the labels.

    All scores may be so close to that of perfect predictions that they differ by rounding only,
    whatever their size.
    """
    xp = namespace(labels.values)
    exact = xp.where(xp.isnan(labels.values), 0.0, labels.values)
    nearly = exact + epsilon(exact) ** _TIED * largest(xp.abs(exact))
    score = prepared_score(labels, judge, setting)
    with warnings.catch_warnings(action="ignore"):
        try:
            change = abs(float(score(exact)) - float(score(nearly)))
        except (ValueError, ArithmeticError):
            # A function of the caller may be undefined for perfect predictions.
            return 0.0
    return change if math.isfinite(change) else 0.0
