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

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_share, check_whole
from dyadlearn._messages import Message, message_of
from dyadlearn._tables import Columns, Ids, Table
from dyadlearn._text import joined
from dyadlearn.diagnostics.fitted import (
    Tabled,
    cells_of,
    fitted_of,
    ids_at,
    labels_of,
    setting_or_new,
)
from dyadlearn.holdout.one_fit import needs_one_fit
from dyadlearn.labels import read_labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.fitted import Fitted
from dyadlearn.selection.evaluate import resampled_scores, scores_in_folds, scoring_of
from dyadlearn.selection.hold_outs import HoldOuts
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

    def sentence(self, scoring: str, coverage: float) -> str:
        """Return the result as a sentence."""
        summary = self.summary(scoring, coverage)
        if self.is_significant:  # it begins with the name of a model, which is written as it is
            return f"{summary}."
        return f"{summary[0].upper()}{summary[1:]}."


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
        return " ".join(
            difference.sentence(self.scoring, self.coverage) for difference in self.to_best
        )

    def columns(self) -> Columns:
        """Return named columns with one row per model; differences are relative to the best model."""
        columns: Columns = {
            "model": list(self.scores),
            self.scoring: list(self.scores.values()),
        }
        for name in ("difference", "low", "high", "p_value"):
            columns[name] = [None, *(getattr(difference, name) for difference in self.to_best)]
        columns["best_fraction"] = list(self.best_fractions.values())
        return columns


def compare(
    models: Mapping[str, Any],
    setting: str | Setting | None = None,
    *,
    new: Any = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    average: str | None = None,
    n_resamples: int = 1000,
    coverage: float = 0.95,
    random_state: Any = 0,
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
    new : str or sequence of str, default=None
        For models of cells (`MultiwayRidge`), the sides that are new, instead of a setting. Levels
        of all sides that the models share are drawn.
    scoring : str or callable, default=None
        See `dyadlearn.metrics.scorer`; greater is better. None means the `scoring` that all models
        share, or else the default for the labels, as in `dyadlearn.evaluate`.
    average : {"pooled", "instance", "task", "fold"}, default=None
        As in `dyadlearn.evaluate`. Rankings and correlations are compared within folds where
        leave-one-out predictions would be trained on each other's labels.
    n_resamples : int, default=1000
        Number of draws.
    coverage : float, default=0.95
        Joint coverage of the intervals.
    random_state : int, RandomState or None, default=0
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
    >>> comparison = compare(models, "B", n_resamples=200, random_state=0)
    >>> comparison.best, comparison.to_best[0].is_significant
    ('two-step', True)
    >>> print(comparison)
    two-step is better than independent: neg_mean_squared_error +..., 95 % interval ...
    """
    coverage = check_share(coverage, "coverage")
    check_whole(n_resamples, "n_resamples", _FEWEST)
    setting_or_new(setting, new)
    resampling: dict[str, Any] = {"n_resamples": n_resamples, "random_state": random_state}
    if setting is None:
        compared = _compared_cells(models, new, scoring, **resampling)
    else:
        compared = _compared_pairs(models, as_setting(setting), scoring, average, sides, resampling)
    return _ranked(compared, coverage)


class _Compared(NamedTuple):
    """Scores (s,) of models in their order, those of resamples (n, s), and words of the result."""

    setting: str
    scoring: str
    scores: np.ndarray
    draws: np.ndarray
    methods: dict[str, str]
    n_cells: int
    resampled: str
    notes: tuple[str, ...] = ()


def _ranked(compared: _Compared, coverage: float) -> Comparison:
    """Return the comparison of models, the best first."""
    draws = _defined(compared.draws, compared.scoring)
    ranks = np.argsort(-compared.scores, kind="stable")
    scores = compared.scores[ranks]
    draws = draws[:, ranks]
    ranked = [list(compared.methods)[place] for place in ranks]
    # Tied models share a draw.
    is_best = draws == draws.max(axis=1, keepdims=True)
    fractions = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
    return Comparison(
        setting=compared.setting,
        scoring=compared.scoring,
        scores=dict(zip(ranked, scores.tolist(), strict=True)),
        differences=_differences(ranked, scores, draws, coverage),
        best_fractions=dict(zip(ranked, fractions.tolist(), strict=True)),
        methods={name: compared.methods[name] for name in ranked},
        coverage=coverage,
        n_cells=compared.n_cells,
        n_resamples=len(draws),
        n_undefined=len(compared.draws) - len(draws),
        resampled=compared.resampled,
        notes=compared.notes,
    )


def _compared_pairs(
    models: Mapping[str, Any],
    setting: Setting,
    scoring: Any,
    average: str | None,
    sides: Any,
    resampling: Mapping[str, Any],
) -> _Compared:
    """Return the scores of models of pairs; arguments as in `compare`, `resampling` those of the draws."""
    fitted = _fitted_models(models)
    is_network = _are_networks(fitted)
    names = side_names(sides, network=is_network)
    judge = scorer(_scoring(list(fitted.values()), scoring)).averaged(average)
    held_out = _hold_out(models, fitted, setting, names, judge)
    Y, F = held_out.in_common(setting)
    over, resampled = _resampled_side(Y.shape, is_network, names)
    used = judge.average_in(setting)
    folds = held_out.stack_of_folds(Y.shape)
    return _Compared(
        setting=setting.value,
        scoring=judge.name,
        scores=scores_in_folds(Y, F, judge, used, folds),
        draws=resampled_scores(Y, F, judge, average=used, folds=folds, over=over, **resampling),
        methods={name: held_out.methods[name] for name in models},
        n_cells=int(np.count_nonzero(~np.isnan(Y))),
        resampled=resampled,
        notes=(*_notes(held_out.methods, fitted), *_notes_on_labels(held_out.labels, Y)),
    )


def _compared_cells(
    models: Mapping[str, Any], new: Any, scoring: Any, n_resamples: int, random_state: Any
) -> _Compared:
    """Return the scores of models of cells; arguments as in `compare`."""
    _check_names(models)
    fitted = {name: _naming(name, cells_of, model) for name, model in models.items()}
    first, *_ = fitted.values()
    for name, model in fitted.items():
        same = np.array_equal(model.rows, first.rows) and np.array_equal(model.values, first.values)
        if not same:
            raise ValueError(
                f"{name!r} was fitted on other labels than {next(iter(models))!r}: fit all models "
                f"on the same table."
            )
    sides = [
        name
        for name in first.side_names
        if all(name in other.side_names for other in fitted.values())
    ]
    if not sides:
        raise ValueError("The models share no side whose levels can be drawn.")
    judge = scorer(usual_scoring(first.values) if scoring is None else scoring)
    held_out = []
    for name, model in fitted.items():
        held_out.append(model.held_out(model.units(_naming(name, model.setting, new))))
    F = np.stack(held_out)[:, :, None]
    Y = first.values[:, None]
    pooled: dict[str, Any] = {"average": "pooled", "tie_tolerance": None}
    random = check_random_state(random_state)
    draws = np.full((n_resamples, len(fitted)), np.nan)
    for resample in range(n_resamples):
        counts = np.ones(len(Y), dtype=np.intp)
        for name in sides:
            at = first.places[first.side_names.index(name)]
            size = int(at.max()) + 1
            counts *= np.bincount(random.randint(size, size=size), minlength=size)[at]
        at = np.repeat(np.arange(len(Y)), counts)
        with suppress(ValueError):  # the score stays NaN if it is undefined
            draws[resample] = judge(Y[at], F[:, at], **pooled)
    return _Compared(
        setting=first.setting(new).value,
        scoring=judge.name,
        scores=np.asarray(judge(Y, F, **pooled), dtype=np.float64),
        draws=draws,
        methods=dict.fromkeys(fitted, "exact leave-one-out"),
        n_cells=len(Y),
        resampled=f"levels of {joined(sides)}",
    )


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out predictions of all models, for the same labels.

    Attributes
    ----------
    labels : Table
        Labels (m, q) of the first fitted model.
    predictions : dict of str to array of shape (m, q)
        Predictions of each model, in the order of the labels; NaN means missing.
    methods : dict of str to str
        Hold-out method of each model.
    folds : dict of str to array of shape (m, q), or None
        Folds within which the predictions of a model are compared; None for all together.
    """

    labels: Table
    predictions: dict[str, np.ndarray]
    methods: dict[str, str]
    folds: dict[str, np.ndarray | None]

    def stack_of_folds(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return the folds of all models (s, m, q); None if no model has any."""
        if all(folds is None for folds in self.folds.values()):
            return None
        one = np.zeros(shape, dtype=np.intp)
        return np.stack([one if folds is None else folds for folds in self.folds.values()])

    def in_common(self, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels (m, q) that all models predict, NaN elsewhere, and the stack of predictions (s, m, q)."""
        Y = self.labels.values
        F = np.stack([np.asarray(values, np.float64) for values in self.predictions.values()])
        is_common = ~np.isnan(Y) & ~np.isnan(F).any(axis=0)
        if not is_common.any():
            raise ValueError(
                f"No label is predicted by all models in setting {setting.value}: there is nothing "
                f"to score."
            )
        return np.where(is_common, Y, np.nan), F


# How models are held out: as they usually are.
_AS_USUAL = {"cv": None, "method": None, "groups": None, "task_groups": None}


def _hold_out(
    models: Mapping[str, Any],
    fitted: Mapping[str, Fitted],
    setting: Setting,
    names: SideNames,
    judge: Scorer,
) -> _HeldOut:
    """Return the held-out predictions of all models in the order of the labels of the first fitted model.

    Parameters
    ----------
    models : dict of str to fitted estimator or NestedScore
    fitted : dict of str to Fitted
        The models among them that are no nested scores.
    setting : Setting
    names : SideNames
    judge : Scorer
    """
    first = next(iter(fitted))
    labels = labels_of(fitted[first])
    predictions = {}
    methods = {}
    folds: dict[str, np.ndarray | None] = {}
    compares = needs_one_fit(judge, setting)
    for name, model in models.items():
        if name not in fitted:
            table = _nested_predictions(name, model, setting)
            order = _order(table, name, labels, first, names)
            predictions[name] = table.values[order]
            methods[name] = "nested folds"
            is_within = compares and model.folds is not None
            folds[name] = model.folds[order] if is_within else None
            continue
        table = labels_of(fitted[name])
        order = _order(table, name, labels, first, names)
        _check_same(table.values[order], name, labels, first, names)
        hold_outs = HoldOuts(fitted[name], setting, dict(_AS_USUAL))
        held = _naming(name, partial(hold_outs.of, pairs=False), judge)
        spread = fitted[name].labels.spread
        predictions[name] = to_numpy(spread(held.held_out.predictions))[order]
        methods[name] = held.method
        within = held.folds
        if within is not None:
            within = to_numpy(spread(within.astype(np.float64), -1.0)).astype(np.intp)[order]
        folds[name] = within
    return _HeldOut(labels, predictions, methods, folds)


def _defined(draws: np.ndarray, name: str) -> np.ndarray:
    """Return the resampled scores (n, s) of resamples in which all are defined; raise if these are few."""
    defined: np.ndarray = draws[~np.isnan(draws).any(axis=1)]
    if len(defined) < _FEWEST:
        raise ValueError(
            f"{name} is undefined in {len(draws) - len(defined)} of {len(draws)} resamples: there "
            f"are too few labels for it."
        )
    return defined


def _differences(
    names: Sequence[str], scores: np.ndarray, draws: np.ndarray, coverage: float
) -> tuple[Difference, ...]:
    """Return the differences of all pairs of models; scores (s,) are in descending order, draws are (n, s)."""
    pairs = list(combinations(range(len(names)), 2))
    figures = zip(*_intervals(scores, draws, pairs, coverage), strict=True)
    differences = []
    for (better, other), (difference, low, high, p_value) in zip(pairs, figures, strict=True):
        differences.append(
            Difference(
                better=names[better],
                other=names[other],
                difference=float(difference),
                low=float(low),
                high=float(high),
                p_value=float(p_value),
            )
        )
    return tuple(differences)


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
        deviations = np.abs(drawn - differences)[:, varies]
        largest = (deviations / spread[varies]).max(axis=1)
    half = np.where(varies, np.quantile(largest, coverage) * spread, 0.0)
    distance = np.where(differences > rounding, np.inf, 0.0)
    np.divide(differences, spread, out=distance, where=varies)
    n_as_far = (largest[:, None] >= distance).sum(axis=0)
    p_values = (1 + n_as_far) / (1 + len(drawn))
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
        in_words = f"only {next(iter(models))!r}" if models else "none"
        raise ValueError(f"models must be at least two to be compared, found {in_words}.")


def _fitted_models(models: Mapping[str, Any]) -> dict[str, Fitted]:
    """Return `fitted_` of the models that are no nested scores, after checking the names of all."""
    _check_names(models)
    fitted = {}
    for name, model in models.items():
        if not isinstance(model, NestedScore):
            fitted[name] = _naming(name, fitted_of, model)
    if not fitted:
        raise ValueError(
            "Nested scores keep no labels: compare them with at least one fitted model."
        )
    return fitted


def _are_networks(fitted: Mapping[str, Fitted]) -> bool:
    """Return whether all models are networks; raise if only some are."""
    networks = [name for name, model in fitted.items() if model.is_network]
    others = [name for name in fitted if name not in networks]
    if networks and others:
        raise ValueError(
            f"{networks[0]!r} leaves out an edge in both directions and {others[0]!r} does not: "
            f"compare networks with networks."
        )
    return bool(networks)


def _naming(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a model, and add the model's name to its errors."""
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(
            Message("{name!r} cannot be compared: {error}", name=name, error=message_of(error))
        ) from error


def _nested_predictions(name: str, nested: NestedScore, setting: Setting) -> Table:
    """Return the predictions of nested folds."""
    if nested.setting != setting.value:
        raise ValueError(
            f"{name!r} has nested scores of setting {nested.setting}, not of {setting.value}."
        )
    table = read_labels(nested.predictions, name)
    return replace(table, values=to_numpy(table.values))


def _order(
    table: Table, name: str, labels: Table, first: str, names: SideNames
) -> tuple[np.ndarray, ...]:
    """Return the index of a grid that brings rows and columns into the order of the labels of the first model."""
    ids = (table.row_ids, table.column_ids)
    expected_ids = (labels.row_ids, labels.column_ids)
    places = []
    for axis, side in enumerate(names.both):
        count = table.values.shape[axis]
        n_labels = labels.values.shape[axis]
        if count != n_labels:
            raise ValueError(
                f"{first!r} was fitted on {n_labels} {side} and {name!r} on {count}: compare "
                f"models of the same labels."
            )
        side_ids = _ids_or_positions(ids[axis], expected_ids[axis], count)
        expected = _ids_or_positions(expected_ids[axis], ids[axis], count)
        order = None
        if side_ids is not None and expected is not None:
            order = side_ids.order_as(expected, f"the {side} of {name!r}", f"those of {first!r}")
        places.append(np.arange(count) if order is None else order)
    return np.ix_(*places)


def _ids_or_positions(ids: Ids | None, others: Ids | None, count: int) -> Ids | None:
    """Return ids; positions count as ids if the other model's ids are the same numbers in any order."""
    if ids is None and others is not None and set(others.labels) == set(range(count)):
        return Ids(tuple(range(count)))
    return ids


def _check_same(Y: np.ndarray, name: str, labels: Table, first: str, names: SideNames) -> None:
    """Raise if labels are not those of the first model."""
    values = labels.values
    # Compare labels in single precision if one of the tables has it.
    is_single = _has_single_precision(Y) or _has_single_precision(values)
    dtype = np.float32 if is_single else np.float64
    one = values.astype(dtype)
    other = Y.astype(dtype)
    differ = (one != other) & ~(np.isnan(one) & np.isnan(other))
    if not differ.any():
        return
    row, column = np.argwhere(differ)[0]
    instance = ids_at(labels.row_ids, np.array([row]))[0]
    task = ids_at(labels.column_ids, np.array([column]))[0]
    in_words = " and ".join(
        "none" if np.isnan(label) else f"{label:g}"
        for label in (values[row, column], Y[row, column])
    )
    raise ValueError(
        f"{first!r} and {name!r} were fitted on different labels: {np.count_nonzero(differ)} of "
        f"{differ.size} differ, such as {names.instance} {instance!r}, {names.task} {task!r} "
        f"({in_words}). Compare models of the same labels."
    )


def _has_single_precision(values: np.ndarray) -> bool:
    """Return whether single precision stores all numbers exactly."""
    return np.array_equal(values, values.astype(np.float32), equal_nan=True)


def _scoring(models: list[Any], scoring: Any) -> Any:
    """Return the metric: the given one, the one that all searches share, or the default for the labels."""
    metrics = [scoring_of(model, scoring) for model in models]
    if all(metric == metrics[0] for metric in metrics):
        return metrics[0]
    return usual_scoring(models[0].labels.values)


def _resampled_side(shape: tuple[int, ...], is_network: bool, names: SideNames) -> tuple[str, str]:
    """Return what to resample, ``"instances"``, ``"tasks"``, ``"both"`` or ``"nodes"``, and its description."""
    if is_network:
        return "nodes", names.instances
    m, q = shape
    if m > 1 and q > 1:
        return "both", " and ".join(names.both)
    if m > 1:
        return "instances", names.instances
    if q > 1:
        return "tasks", names.tasks
    raise ValueError("There is only one label, which cannot be resampled: give more labels.")


def _notes_on_labels(labels: Table, Y: np.ndarray) -> list[str]:
    """Return a note on labels that are not scored, because not all models predict them."""
    n_labels = int(np.count_nonzero(~np.isnan(labels.values)))
    n_skipped = n_labels - int(np.count_nonzero(~np.isnan(Y)))
    if not n_skipped:
        return []
    return [f"{n_skipped} of {n_labels} labels are not predicted by all models, and not scored."]


def _notes(methods: Mapping[str, str], fitted: Mapping[str, Fitted]) -> list[str]:
    """Return notes on how the models were held out and chosen."""
    notes = []
    # A formula and refits leave out the same labels.
    left_out = {
        method.removeprefix("exact ").removesuffix(", refitted") for method in methods.values()
    }
    if len(left_out) > 1:
        how = "; ".join(f"{name} by {method}" for name, method in methods.items())
        notes.append(
            f"The models were held out in different ways ({how}): part of a difference may come "
            f"from the number of training labels."
        )
    chosen = []
    learned = []
    for name, model in fitted.items():
        if model.learns_kernels:
            learned.append(name)
        elif model.searches:
            chosen.append(name)
    if chosen:
        notes.append(
            Message(
                "{names} chose the regularisation with the labels that are scored here, which "
                "makes scores a little optimistic[: compare the nested_score instead|].",
                names=", ".join(chosen),
            )
        )
    if learned:
        notes.append(
            Message(
                "{names} learned the kernels with the labels that are scored here, which makes "
                "scores optimistic[: compare the nested_score instead|].",
                names=", ".join(learned),
            )
        )
    return notes
