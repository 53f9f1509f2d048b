r"""Comparison of models: differences of their scores, with simultaneous bootstrap intervals.

All models are scored on the same held-out cells and on the same draws of instances and tasks, so
that the difficulty of a draw cancels. Let :math:`d_p` be the difference of the p-th pair of models,
:math:`d_p^{(r)}` that of resample r, and
:math:`s_p` the standard deviation of the latter. With the largest deviation of any pair,

.. math:: M^{(r)} = \max_p \bigl| d_p^{(r)} - d_p \bigr| / s_p ,

the interval of each pair is :math:`d_p \pm c\, s_p` with c the quantile of :math:`M^{(r)}` at the
coverage: the intervals are simultaneous for all pairs of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_share, check_whole
from dyadlearn._tables import Ids, Table
from dyadlearn.diagnostics.fitted import Tabled, fitted_of, ids_at, labels_of
from dyadlearn.labels import read_labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.evaluate import resampled_scores, scoring_of
from dyadlearn.selection.nested import NestedScore
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["Comparison", "Difference", "compare"]

# Fewer resamples are not enough for the tails.
_FEWEST = 10


@dataclass(frozen=True)
class Difference:
    """Difference of the scores of two models, with an interval.

    Attributes
    ----------
    better, other : str
        Names of the two models; the score of `better` is at least as high.
    difference : float
        Difference of their scores, at least 0.
    low, high : float
        Bounds of its interval. The intervals of all pairs are simultaneous.
    p_value : float
        Two-sided p-value, adjusted for all pairs. With the difference d and its standard deviation
        s over the resamples, it is the fraction of resamples in which the largest :math:`|d^{(r)} -
        d| / s` of any pair is at least :math:`|d| / s` of this pair.
    """

    better: str
    other: str
    difference: float
    low: float
    high: float
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the difference excludes zero."""
        return self.low > 0

    def summary(self, scoring: str, coverage: float) -> str:
        """Return the result as a sentence without a full stop."""
        figures = f"{scoring} {self.difference:+.3g}, {100 * coverage:g} % interval {self.low:.3g} to {self.high:.3g}"
        if self.is_significant:
            return f"{self.better} is better than {self.other}: {figures}"
        return f"no significant difference between {self.better} and {self.other}: {figures}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabled):
    """Scores of models on the same held-out cells, best first; the result of `compare`.

    Attributes
    ----------
    setting : str
        Setting of the held-out predictions.
    scoring : str
        Name of the metric; greater is better.
    scores : dict of str to float
        Score of each model, best first.
    differences : tuple of Difference
        Differences of all pairs of models; pairs with the best model come first.
    best_fractions : dict of str to float
        Fraction of resamples in which each model has the highest score; tied models share a
        resample equally.
    methods : dict of str to str
        Hold-out method of each model.
    coverage : float
        Coverage of the intervals.
    n_cells : int
        Number of scored labels: those that all models predict.
    n_resamples, n_undefined : int
        Number of resamples with a score, and number of resamples without one, which are excluded.
    resampled : str
        What was resampled, such as "instances and tasks".
    notes : tuple of str
        Notes on the validity of the comparison.
    """

    setting: str
    scoring: str
    scores: dict[str, float]
    differences: tuple[Difference, ...]
    best_fractions: dict[str, float]
    methods: dict[str, str]
    coverage: float
    n_cells: int
    n_resamples: int
    n_undefined: int
    resampled: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        scores = ", ".join(f"{name!r} {score:.4g}" for name, score in self.scores.items())
        return f"Comparison({self.scoring} in setting {self.setting}: {scores})"

    def __str__(self) -> str:
        return self.verdict

    @property
    def best(self) -> str:
        """Name of the model with the highest score."""
        return next(iter(self.scores))

    @property
    def to_best(self) -> tuple[Difference, ...]:
        """Differences between the best model and each of the others."""
        return self.differences[: len(self.scores) - 1]

    @property
    def verdict(self) -> str:
        """Comparison of the best model with each of the others, one sentence each."""
        sentences = (each.summary(self.scoring, self.coverage) for each in self.to_best)
        return " ".join(
            f"{words[0].upper() + words[1:] if words.startswith('no ') else words}."
            for words in sentences
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return named columns with one row per model; differences are relative to the best model."""
        figures = ("difference", "low", "high", "p_value")
        return {
            "model": list(self.scores),
            self.scoring: list(self.scores.values()),
            **{name: [None, *(getattr(each, name) for each in self.to_best)] for name in figures},
            "best_fraction": list(self.best_fractions.values()),
        }


def compare(
    models: Mapping[str, Any],
    setting: str | Setting,
    *,
    scoring: str | Callable[[Any, Any], float] | None = None,
    n_resamples: int = 1000,
    coverage: float = 0.95,
    random_state: Any = None,
    sides: Any = None,
) -> Comparison:
    """Compare models on the same held-out labels, with intervals for the differences of their scores.

    Each model predicts every held-out label, as in `dyadlearn.evaluate`. Scores use the labels that
    all models predict. The intervals come from a bootstrap: instances and tasks are both drawn with
    replacement, and all models are scored on each draw. Single cells are never drawn, because cells
    of the same instance or task are not independent. The intervals of all pairs are simultaneous:
    the more models, the wider they are.

    Only the scored labels are resampled, not the training labels. So the comparison is about these
    fitted models on other instances and tasks, not about the methods on other training labels.

    Parameters
    ----------
    models : dict of str to fitted estimator or NestedScore
        At least two models, fitted on the same labels: with the same ids in any order, or without
        ids in the same order. A search may be replaced by its `dyadlearn.nested_score` on the same
        grid in this setting.
    setting : {"A", "B", "C", "D"} or an alias
        One setting, that of the held-out predictions.
    scoring : str or callable, default=None
        See `dyadlearn.metrics.scorer`; greater is better. None means the `scoring` that all models
        share, or else the default for the labels, as in `dyadlearn.evaluate`.
    n_resamples : int, default=1000
        Number of draws.
    coverage : float, default=0.95
        Joint coverage of the intervals.
    random_state : int, RandomState or None, default=None
        Seed of the resamples.
    sides : (str, str), default=None
        Names of an instance and of a task, for messages and tables.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If there are not two models, if their labels differ, or if one of them cannot be held out in
        the setting.

    See Also
    --------
    dyadlearn.evaluate : one model in several settings.
    dyadlearn.bootstrap_interval : the interval of one score.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import IndependentTaskRidge, TwoStepRidge, compare
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(40, 8)), rng.normal(size=(25, 2))
    >>> Y = X @ rng.normal(size=(8, 2)) @ T.T + 5 * rng.normal(size=(40, 25))
    >>> models = {"two-step": TwoStepRidge().fit(X, Y, tasks=T), "independent": IndependentTaskRidge().fit(X, Y)}
    >>> found = compare(models, "B", n_resamples=200, random_state=0)
    >>> found.best, found.to_best[0].is_significant
    ('two-step', True)
    >>> print(found)
    two-step is better than independent: neg_mean_squared_error +..., 95 % interval ...
    """
    chosen = as_setting(setting)
    coverage = check_share(coverage, "coverage")
    check_whole(n_resamples, "n_resamples", _FEWEST)
    _check_names(models)
    fitted = {
        name: _of(name, fitted_of, model)
        for name, model in models.items()
        if not isinstance(model, NestedScore)
    }
    if not fitted:
        raise ValueError(
            "Nested scores keep no labels: compare them with at least one fitted model."
        )
    networks = [name for name, model in fitted.items() if model.is_network]
    others = [name for name in fitted if name not in networks]
    if networks and others:
        directions = (
            f"{networks[0]!r} leaves out an edge in both directions and {others[0]!r} does not"
        )
        raise ValueError(f"{directions}: compare networks with networks.")
    names = side_names(sides, network=bool(networks))
    first = next(iter(fitted))
    labels = labels_of(fitted[first])
    predictions: dict[str, np.ndarray] = {}
    methods: dict[str, str] = {}
    for name, model in models.items():
        if name in fitted:
            table = labels_of(fitted[name])
        else:
            table = _nested(name, model, chosen)
        order = _order(table, name, labels, first, names)
        values = table.values
        methods[name] = "nested folds"
        if name in fitted:
            _check_same(values[order], name, labels, first, names)
            found = _of(name, fitted[name].hold_out, chosen)
            values = to_numpy(fitted[name].labels.spread(found.predictions))
            methods[name] = found.method
        predictions[name] = values[order]
    judge = scorer(_scoring(list(fitted.values()), scoring))
    Y = labels.values
    notes = _notes(methods, fitted)
    stack = np.stack([np.asarray(F, dtype=np.float64) for F in predictions.values()])
    common = ~np.isnan(Y) & ~np.isnan(stack).any(axis=0)
    n_labels, n_cells = (int(np.count_nonzero(mask)) for mask in (~np.isnan(Y), common))
    if not n_cells:
        raise ValueError(
            f"No label is predicted by all models in setting {chosen.value}: there is nothing to "
            f"score."
        )
    if n_cells < n_labels:
        notes.append(
            f"{n_labels - n_cells} of {n_labels} labels are not predicted by all models, and not "
            f"scored."
        )
    scored = np.where(common, Y, np.nan)
    average = judge.average_in(chosen)
    over, drawn = _drawn(Y.shape, bool(networks), names)
    observed = np.asarray(
        judge(scored, stack, average=average, tie_tolerance=None), dtype=np.float64
    )
    options: dict[str, Any] = {"average": average, "over": over}
    scores = resampled_scores(
        scored, stack, judge, n_resamples=n_resamples, random_state=random_state, **options
    )
    scores = scores[~np.isnan(scores).any(axis=1)]
    if len(scores) < _FEWEST:
        undefined = f"{n_resamples - len(scores)} of {n_resamples} resamples"
        raise ValueError(
            f"{judge.name} is undefined in {undefined}: there are too few labels for it."
        )
    ranks = np.argsort(-observed, kind="stable")
    words = [list(predictions)[place] for place in ranks]
    observed = observed[ranks]
    scores = scores[:, ranks]
    ahead = scores == scores.max(axis=1, keepdims=True)
    shares = (ahead / ahead.sum(axis=1, keepdims=True)).mean(axis=0)
    pairs = list(combinations(range(len(words)), 2))
    differences = [
        Difference(words[one], words[other], *map(float, figures))
        for (one, other), *figures in zip(
            pairs, *_intervals(observed, scores, pairs, coverage), strict=True
        )
    ]
    by_name, best_fractions = (
        dict(zip(words, each.tolist(), strict=True)) for each in (observed, shares)
    )
    methods = {name: methods[name] for name in words}
    counts = n_cells, len(scores), n_resamples - len(scores)
    figures = by_name, tuple(differences), best_fractions, methods, coverage
    return Comparison(chosen.value, judge.name, *figures, *counts, drawn, tuple(notes))


def _intervals(
    observed: np.ndarray, scores: np.ndarray, pairs: list[tuple[int, int]], coverage: float
) -> tuple[np.ndarray, ...]:
    """Return the differences of all pairs, both ends of their intervals, and p-values, each of shape (p,).

    Parameters
    ----------
    observed : array of shape (s,)
        Scores of the original grid.
    scores : array of shape (n, s)
        Scores of the resamples.
    pairs : list of (int, int), of length p
    coverage : float
    """
    first, second = np.array(pairs).T
    differences = observed[first] - observed[second]
    drawn = scores[:, first] - scores[:, second]
    spread = drawn.std(axis=0, ddof=1)
    # Models with equal predictions differ only by rounding errors.
    rounding = 1e3 * np.finfo(np.float64).eps * np.abs(scores).max()
    varies = spread > rounding
    largest = np.zeros(len(drawn))
    if varies.any():
        largest = (np.abs(drawn - differences)[:, varies] / spread[varies]).max(axis=1)
    half = np.where(varies, np.quantile(largest, coverage) * spread, 0.0)
    away = np.divide(
        differences, spread, out=np.where(differences > rounding, np.inf, 0.0), where=varies
    )
    p_values = (1 + (largest[:, None] >= away).sum(axis=0)) / (1 + len(drawn))
    return differences, differences - half, differences + half, p_values


# Checks and notes -------------------------------------------------------------------------------------


def _check_names(models: Any) -> None:
    """Raise if there are not two or more models with names."""
    if not isinstance(models, Mapping):
        raise TypeError(
            f"models must be a dict of names to fitted models, found {type(models).__name__}."
        )
    for name in models:
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"models must have names that are text, found {name!r}.")
    if len(models) < 2:
        found = f"only {next(iter(models))!r}" if models else "none"
        raise ValueError(f"models must be at least two to be compared, found {found}.")


def _of(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a model, and add the model's name to its errors."""
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name!r} cannot be compared: {error}") from error


def _nested(name: str, found: NestedScore, setting: Setting) -> Table:
    """Return the predictions of nested folds."""
    if found.setting != setting.value:
        raise ValueError(
            f"{name!r} has nested scores of setting {found.setting}, not of {setting.value}."
        )
    table = read_labels(found.predictions, name)
    return replace(table, values=to_numpy(table.values))


def _order(
    table: Table, name: str, labels: Table, first: str, names: SideNames
) -> tuple[np.ndarray, ...]:
    """Return the index of a grid that brings rows and columns into the order of the labels of the first model."""
    ids = (
        (table.row_ids, labels.row_ids, names.instances),
        (table.column_ids, labels.column_ids, names.tasks),
    )
    places = []
    for axis, (found, expected, side) in enumerate(ids):
        count = table.values.shape[axis]
        n_labels = labels.values.shape[axis]
        if count != n_labels:
            sizes = f"{first!r} was fitted on {n_labels} {side} and {name!r} on {count}"
            raise ValueError(f"{sizes}: compare models of the same labels.")
        found, expected = _counted(found, expected, count), _counted(expected, found, count)
        own = f"the {side} of {name!r}"
        other = f"those of {first!r}"
        if found is None or expected is None:
            order = None
        else:
            order = found.order_as(expected, own, other)
        places.append(np.arange(count) if order is None else order)
    return np.ix_(*places)


def _counted(ids: Ids | None, others: Ids | None, count: int) -> Ids | None:
    """Return ids; positions count as ids if the other model's ids are the same numbers in any order."""
    if ids is None and others is not None and set(others.labels) == set(range(count)):
        return Ids(tuple(range(count)))
    return ids


def _check_same(Y: np.ndarray, name: str, labels: Table, first: str, names: SideNames) -> None:
    """Raise if labels are not those of the first model."""
    values = labels.values
    # Compare labels in single precision if one of the tables has it.
    is_single = any(
        np.array_equal(each, each.astype(np.float32), equal_nan=True) for each in (Y, values)
    )
    found, expected = (each.astype(np.float32 if is_single else np.float64) for each in (Y, values))
    differ = (found != expected) & ~(np.isnan(found) & np.isnan(expected))
    if not differ.any():
        return
    i, j = (int(place) for place in np.argwhere(differ)[0])
    instance, task = (
        ids_at(ids, np.array([at]))[0] for ids, at in ((labels.row_ids, i), (labels.column_ids, j))
    )
    one, two = ("none" if np.isnan(value) else f"{value:g}" for value in (values[i, j], Y[i, j]))
    raise ValueError(
        f"{first!r} and {name!r} were fitted on different labels: {np.count_nonzero(differ)} of "
        f"{differ.size} differ, "
        f"such as {names.instance} {instance!r}, {names.task} {task!r} ({one} and {two}). Compare "
        f"models of the same "
        "labels."
    )


def _scoring(models: list[Any], scoring: Any) -> Any:
    """Return the metric: the given one, the one that all searches share, or the default for the labels."""
    metrics = [scoring_of(model, scoring) for model in models]
    if all(each == metrics[0] for each in metrics):
        return metrics[0]
    return usual_scoring(models[0].labels.values)


def _drawn(shape: tuple[int, ...], network: bool, names: SideNames) -> tuple[str, str]:
    """Return the side to resample and its description."""
    if network:
        return "nodes", names.instances
    several = dict(zip(("instances", "tasks"), names.both, strict=True))
    drawn = [side for side, count in zip(several, shape, strict=True) if count > 1]
    if not drawn:
        raise ValueError("There is only one label, which cannot be resampled: give more labels.")
    return drawn[0] if len(drawn) == 1 else "both", " and ".join(several[side] for side in drawn)


def _notes(methods: Mapping[str, str], fitted: Mapping[str, Any]) -> list[str]:
    """Return notes on how the models were held out and chosen."""
    notes = []
    # A formula and refits leave out the same labels.
    left_out = {
        method.removeprefix("exact ").removesuffix(", refitted") for method in methods.values()
    }
    if len(left_out) > 1:
        how = "; ".join(f"{name} by {method}" for name, method in methods.items())
        cause = "part of a difference may come from the number of training labels"
        notes.append(f"The models were held out in different ways ({how}): {cause}.")
    chosen = [name for name, model in fitted.items() if model.searches and not model.learns_kernels]
    learned = [name for name, model in fitted.items() if model.learns_kernels]
    for names, what, how in (
        (chosen, "chose the regularisation", " a little"),
        (learned, "learned the kernels", ""),
    ):
        if names:
            notes.append(
                f"{', '.join(names)} {what} with the labels that are scored here, which makes "
                f"scores{how} optimistic: compare the nested_score instead."
            )
    return notes
