"""Scorers by name, for model selection: greater is always better.

A scorer of scikit-learn is called with an estimator, its input and labels. Here it is called with a
regressor that returns its input. If this call succeeds, the scorer can score real-valued
predictions.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Protocol

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from dyadlearn._array import Array, as_array_of, namespace, to_numpy
from dyadlearn._checks import keywords_of
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import Table
from dyadlearn.labels import Labels, distinct_labels, is_binary, read_labels
from dyadlearn.metrics.cells import METRICS, Cells, Metric, as_average, read_stack, refuse_nan
from dyadlearn.settings import NewSides, Setting

# Every score of real-valued predictions is defined here: two positive labels, and no exact
# prediction.
_LABELS = np.array([1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0])
_PREDICTIONS = np.array([1.3, 1.6, 0.9, 2.1, 1.2, 1.4, 1.8, 0.7])


class _Numbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that predicts its input."""

    score = None  # the estimator's score method must not be used

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


class Borrowed(Metric):
    """Score of scikit-learn, for all cells together, or the mean over rows or columns.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN means "not observed".
    scorer : str or callable
        Name of a scikit-learn scorer, or a scorer that `sklearn.metrics.make_scorer` returned.
    **options
        Options as in `Metric`. The scorer decides how ties are treated.
    """

    title = "The score of scikit-learn"
    needs = "observed labels that it is defined for"
    can_tie = False

    def __init__(self, Y: Any, *, scorer: str | Callable[..., Any], **options: Any) -> None:
        self._scorer = get_scorer(scorer)
        self._estimator = _Numbers()
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        rows = zip(cells.filled, cells.observed, strict=True)
        return np.asarray(
            [mask.any() and self._is_defined(truth[mask]) for truth, mask in rows], dtype=bool
        )

    def _is_defined(self, truth: np.ndarray) -> bool:
        """Return whether the score of labels (n,) is defined, tested with perfect predictions."""
        with warnings.catch_warnings(action="error"):
            try:
                return not np.isnan(self._scorer(self._estimator, truth, truth))
            except Warning:
                return False
            except ValueError:  # other code reports errors of these predictions
                return True

    def _prepare(self) -> None:
        self._rows = list(zip(self._cells.filled, self._cells.observed, strict=True))

    def _score(self, F: Array) -> Array:
        stack = to_numpy(self._cells.arrange(F)).astype(np.float64)
        if np.isnan(stack[:, self._cells.observed]).any():
            refuse_nan()
        with config_context(skip_parameter_validation=True):  # they were validated before
            scores = [
                self._scorer(self._estimator, row[mask], truth[mask])
                for rows in stack
                for row, (truth, mask) in zip(rows, self._rows, strict=True)
            ]
        shape = (len(stack), len(self._rows))
        return self._cells.place(np.asarray(scores, dtype=np.float64).reshape(shape))


class PreparedScorer(Protocol):
    """Score of one grid of labels; call it with predictions of shape (…, m, q)."""

    @property
    def n_undefined(self) -> int:
        """Number of rows, columns or folds that are excluded because their score is undefined."""

    @property
    def n_parts(self) -> int:
        """Number of all rows, columns or folds."""

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Function from mean squared errors of a complete grid to scores; None if errors do not determine the score."""

    def __call__(self, F: Any) -> Any:
        """Return a float, or an array of shape (…) for a stack."""


@dataclass(frozen=True)
class _GridByGrid:
    """Any function of two grids (m, q), called for each grid of a stack."""

    function: Callable[[Any, Any], float]
    grid: Table
    n_undefined: int = 0
    n_parts: int = 1
    of_squared_errors: None = None

    def __call__(self, F: Any) -> Any:
        stack, shape = read_stack(F, self.grid)
        scores = [
            float(self.function(self.grid.values, stack[index, ...]))
            for index in range(stack.shape[0])
        ]
        if not shape:
            return scores[0]
        values = as_array_of(np.asarray(scores), stack)
        return namespace(values).reshape(values, shape)


@dataclass(frozen=True)
class Scorer(Stored):
    """Score of predictions; greater is better.

    Attributes
    ----------
    name : str
        Name of the metric or of the function.
    metric : subclass of Metric, or callable
        A callable takes labels and predictions, both of shape (m, q), and returns a number.
    options : dict
        Parameters of the metric, such as ``k``. An ``average`` among them holds in every setting.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import scorer
    >>> Y, F = np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> scorer("roc_auc")(Y, F, setting="B")
    0.5
    >>> score = scorer("neg_mean_squared_error").prepare(Y)
    >>> score(np.stack([Y, F]))
    array([ 0.   , -0.205])
    """

    name: str
    metric: type[Metric] | Callable[[Any, Any], float]
    options: dict[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """Return the name and the options of a metric, for model files; functions cannot be stored."""
        named = {"name": self.name, "options": self.options}
        if self.is_function:
            return {**named, "metric": self.metric}
        return named

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Scorer:
        """Return the scorer of a named metric."""
        return scorer(state["name"], **state["options"])

    @property
    def is_function(self) -> bool:
        """Whether the score is a user's function, whose cost is unknown."""
        return not isinstance(self.metric, type)

    @property
    def compares(self) -> bool:
        """Whether predictions are compared with each other, as by ranks and correlations."""
        return bool(getattr(self.metric, "compares", False))

    @property
    def correlates(self) -> bool:
        """Whether the score is a correlation."""
        return bool(getattr(self.metric, "correlates", False))

    @property
    def counts_pairs(self) -> bool:
        """Whether the score is the share of pairs of labels that are in the right order."""
        return bool(getattr(self.metric, "counts_pairs", False))

    def averaged(self, average: str | None) -> Scorer:
        """Return the same score with an average for every setting; None changes nothing.

        Examples
        --------
        >>> from dyadlearn.metrics import scorer
        >>> str(scorer("roc_auc").averaged("task"))
        'roc_auc, mean per task'
        """
        if average is None:
            return self
        if self.is_function:
            raise TypeError(
                Message(
                    "<average={average}> is for named metrics and scorers of scikit-learn: the "
                    "function {name} computes its own average.",
                    average=average,
                    name=self.name,
                )
            )
        return replace(self, options={**self.options, "average": as_average(average, None)})

    def __str__(self) -> str:
        """Return the name, with the average if the score has its own."""
        means = {
            "pooled": ", pooled",
            "instance": ", mean per instance",
            "task": ", mean per task",
            "fold": ", mean per fold",
        }
        return self.name + means.get(self.options.get("average", ""), "")

    def average_in(
        self, setting: str | Setting | NewSides | None, average: str | None = None
    ) -> str:
        """Return the average of the score: the given one, else that of its options, else that of the setting.

        Parameters
        ----------
        setting : str, Setting, NewSides or None
        average : {"pooled", "instance", "task", "fold"}, default=None
        """
        chosen = as_average(average, setting)
        option: str | None = self.options.get("average")
        if option is None or average is not None:
            return chosen
        return option

    def prepare(
        self,
        Y: Any,
        *,
        average: str | None = None,
        setting: str | Setting | None = None,
        tie_tolerance: float | None = 0.0,
    ) -> PreparedScorer:
        """Precompute the parts that depend on the labels alone, and return the score of predictions.

        Parameters
        ----------
        Y : array of shape (m, q)
            Labels; NaN means "not observed".
        average : {"pooled", "instance", "task"}, default=None
            Over all cells together, or the mean over the rows or over the columns. None means the
            average of the scorer's options, else that of `setting`, or ``"pooled"`` without a
            setting. A callable gets the whole grids and computes its average itself.
        setting : str or Setting, default=None
            Setting that determines the average: pooled in A and D, instance in B, task in C.
        tie_tolerance : float or None, default=0.0
            For rank metrics: two predictions tie if they differ by at most this fraction of the
            largest prediction. 0 compares exactly. None means the tolerance for held-out
            predictions. A callable treats ties itself.

        Returns
        -------
        callable
            Function of predictions of shape (…, m, q) that returns a float, or an array of shape
            (…). Its attribute
            ``n_undefined`` is the number of excluded rows or columns. It is thread-safe.
        """
        average = self.average_in(setting, average)
        if isinstance(self.metric, type):
            options = {"tie_tolerance": tie_tolerance, **self.options, "average": average}
            prepared: PreparedScorer = self.metric(Y, **options)
            return prepared
        return _GridByGrid(self.metric, read_labels(Y))

    def prepare_each_task(
        self, Y: Any, folds: np.ndarray | None = None
    ) -> Callable[[Any], np.ndarray]:
        """Return a function of held-out predictions (m, q) that scores each task separately.

        The scores have shape (q,), NaN for tasks where the score is undefined; ValueError if it is
        so for all. With folds (m, q), they are means over the folds of a task.
        """
        if folds is not None:
            parts = _ScoreOfParts(self.averaged("task"), Labels.of_grid(Y), Y, Setting.A, folds)
            return partial(parts.of_each, n_rows=Y.shape[1])
        metric = None
        if isinstance(self.metric, type):
            metric = self.metric(Y, **{"tie_tolerance": None, **self.options, "average": "task"})
            if not metric.is_of_rows:
                remedy = "use another scoring, such as 'concordance_index', or one regularisation for all tasks"
                raise ValueError(
                    f"{self.name} compares tasks with each other and has no score of one task: "
                    f"{remedy}."
                )

        def score(F: Any) -> np.ndarray:
            scores = np.full(Y.shape[1], np.nan)
            if metric is not None:
                scores[metric.rows] = to_numpy(metric.each(F))
                return scores
            for task in np.flatnonzero(~np.isnan(to_numpy(Y)).all(axis=0)).tolist():
                with suppress(
                    ValueError
                ):  # raised by functions for labels that they have no score for
                    scores[task] = self(Y[:, task : task + 1], F[:, task : task + 1])
            return scores

        return score

    def __call__(self, Y: Any, F: Any, **options: Any) -> Any:
        """Return the score of predictions (…, m, q): a float, or an array of shape (…); options as in `prepare`."""
        return self.prepare(Y, **options)(F)


def scorer(scoring: str | Callable[[Any, Any], float] | Scorer, **options: Any) -> Scorer:
    """Return the scorer of a name or a function.

    Parameters
    ----------
    scoring : str, callable or Scorer
        Name of a metric in `scorer_names`, with any number for k, such as ``"precision_at_10"``; or
        a function of labels and predictions, both of shape (m, q), where greater is better. Names
        and scorers of scikit-learn are accepted if they score real-valued predictions, such as
        ``"neg_median_absolute_error"`` or ``make_scorer`` of a metric of two vectors. They are
        applied to the observed cells with the average of the setting. If this library has the same
        metric, its version is used.
    **options
        Parameters of a metric: ``k`` for ``"precision_at_k"`` and similar metrics, ``fraction`` for
        ``"enrichment_factor"``, ``max_comparisons`` for ``"ic_index"``, and ``tie_tolerance``. All metrics and the
        scorers of scikit-learn take ``average``: ``"pooled"``, ``"instance"``, ``"task"`` or ``"fold"`` in
        every setting, in place of the average of the setting. ``"fold"`` is for the held-out predictions of
        `dyadlearn.evaluate` and of searches.

    Returns
    -------
    Scorer

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import scorer
    >>> Y, F = np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> scorer("precision_at_1")(Y, F, average="instance")
    0.5
    >>> scorer("precision_at_1", average="pooled")(Y, F, setting="B")
    1.0
    >>> scorer(lambda Y, F: -abs(Y - F).max())(Y, F)
    -0.8
    """
    if options.get("average") is not None:
        options = {**options, "average": as_average(options["average"], None)}
    if isinstance(scoring, str):
        return _named(scoring, options)
    if isinstance(scoring, Scorer) and options.keys() <= {"average"}:
        return scoring.averaged(options.get("average"))
    if hasattr(scoring, "get_metadata_routing"):  # as what make_scorer of scikit-learn returns has
        return _borrowed(scoring, options)
    if options:
        raise TypeError(
            f"Only a named metric takes options, found {', '.join(options)} with {scoring!r}."
        )
    if not callable(scoring):
        raise TypeError(f"scoring must be a name or a function of (Y, F), found {scoring!r}.")
    if not _takes_two(scoring):
        kinds = "a name, such as 'r2', a scorer of scikit-learn, or a function of (Y, F)"
        raise TypeError(
            f"scoring must be {kinds}, but {scoring!r} cannot be called with two grids."
        )
    return Scorer(getattr(scoring, "__name__", type(scoring).__name__), scoring)


@cache
def _known_scorers() -> dict[str, str]:
    """Return the names of the scorers of scikit-learn by their descriptions; it copies each that it returns."""
    return {repr(get_scorer(name)): name for name in get_scorer_names()}


def _borrowed(scoring: Any, options: dict[str, Any]) -> Scorer:
    """Return the scorer of this library that a scorer of scikit-learn, or its name, stands for."""
    if others := options.keys() - {"average", "scorer"}:
        which = f"{', '.join(sorted(others))} with {scoring!r}"
        raise TypeError(
            f"A scorer of scikit-learn takes no option but average here, found {which}."
        )
    borrowed = get_scorer(scoring)
    function = getattr(borrowed, "_score_func", None)
    name = _known_scorers().get(repr(borrowed))
    # Other functions may have the name of one of scikit-learn's.
    if name is not None and getattr(get_scorer(name), "_score_func", None) is not function:
        name = None
    if name in METRICS:
        return _named(name, options)
    cause: Exception | None = None
    with warnings.catch_warnings(action="error"):
        # For example, that clusters are discrete, or that all classes are among the best two.
        try:
            scores_numbers = bool(np.isfinite(float(borrowed(_Numbers(), _PREDICTIONS, _LABELS))))
        except Exception as error:  # scorers of classifiers raise various errors
            scores_numbers = False
            cause = error
    if not scores_numbers:
        raise ValueError(
            Message(
                "<scoring={scoring!r}> of scikit-learn judges the classes, probabilities or "
                "decisions of a classifier, but these models predict numbers: use 'roc_auc', "
                "'r2', 'neg_median_absolute_error'[ or a function of (Y, F)|].",
                scoring=scoring,
            )
        ) from cause
    if name is not None:
        return Scorer(name, Borrowed, {**options, "scorer": name})
    title = getattr(function, "__name__", repr(scoring))
    return Scorer(
        f"neg_{title}" if getattr(borrowed, "_sign", 1) < 0 else title,
        Borrowed,
        {**options, "scorer": scoring},
    )


def _takes_two(function: Callable[..., Any]) -> bool:
    """Return whether the signature of a function accepts two arguments; True if it has no signature."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some compiled functions have no signature
        pass
    return True


def prepared_score(
    labels: Labels,
    scoring: Any,
    setting: Setting,
    targets: Array | None = None,
    *,
    folds: np.ndarray | None = None,
) -> PreparedScorer:
    """Return the score of held-out predictions, with the average of the setting or of the scorer.

    Parameters
    ----------
    labels : Labels
    scoring : str, callable or Scorer
    setting : Setting
    targets : array, default=None
        Labels to score, as `dyadlearn.holdout.units.scored_labels` returns them; None means all
        labels.
    folds : integer array of the shape of the labels' values, default=None
        Fold of each label; only predictions of the same fold are compared, and ``average="fold"``
        is the mean over them. None means one fold.
    """
    judge = scorer(scoring)
    if targets is None:
        targets = labels.values
    is_of_rows = getattr(judge.metric, "is_of_rows", False)
    average = judge.average_in(setting)
    if average == "fold" and folds is None:
        raise ValueError(
            "average='fold' is the mean over the folds of a hold-out, and there are none here: "
            "use another average."
        )
    if is_of_rows and folds is not None:
        return _ScoreOfParts(judge, labels, targets, setting, folds)
    if labels.grid is not None:
        return judge.prepare(targets, setting=setting, tie_tolerance=None)
    if not is_of_rows:
        return _ScoreOfGrid(judge, labels, targets, setting)
    if average == "pooled":
        return judge.prepare(targets, average="pooled", tie_tolerance=None)
    return _ScoreOfParts(judge, labels, targets, setting)


class _ScoreOfGrid:
    """Score of a list of labels by a metric of the whole grid, with NaN for cells without a label."""

    of_squared_errors = None
    average = "pooled"

    def __init__(self, judge: Scorer, labels: Labels, targets: Array, setting: Setting) -> None:
        numbered = replace(labels, values=np.arange(labels.size, dtype=np.float64), weights=None)
        grid = numbered.dense().values
        self._places = np.where(np.isnan(grid), labels.size, grid).astype(np.intp)
        arranged = _arranged(targets[None, :], self._places, math.nan)[0, ...]
        self._prepared = judge.prepare(arranged, setting=setting, tie_tolerance=None)
        self.n_parts = self._prepared.n_parts
        self.can_tie = getattr(judge.metric, "can_tie", False)
        self.n_undefined = self._prepared.n_undefined

    def __call__(self, F: Array) -> Any:
        """Return the score of predictions (n,)."""
        return self._prepared(_arranged(F[None, :], self._places, 0.0)[0, ...])


class _ScoreOfParts:
    """Score of the labels of each instance, task or fold, of a list or of a grid.

    A part is what is scored together: the labels of an instance, of a task or of a fold, or those
    of an instance or a task in one fold. Parts with about the same number of labels share a matrix,
    with NaN behind the labels of each, so that all matrices need little more memory than the list.

    Parameters
    ----------
    judge : Scorer
    labels : Labels
    targets : array of the shape of the labels' values
    setting : Setting
        Setting whose average is that of the scores.
    folds : integer array of the shape of the labels' values, default=None
        Folds within which labels are scored together; None means one fold.
    """

    of_squared_errors = None

    def __init__(
        self,
        judge: Scorer,
        labels: Labels,
        targets: Array,
        setting: Setting,
        folds: np.ndarray | None = None,
    ) -> None:
        self.can_tie = getattr(judge.metric, "can_tie", False)
        self.average = judge.average_in(setting)
        self._size = math.prod(labels.values.shape)
        self._n_axes = len(labels.values.shape)
        flat = _flat(targets, self._size)
        # This raises for labels that the metric cannot use.
        judge.prepare(flat[0, :], average="pooled", tie_tolerance=None)
        parts = _Parts.of(labels, self.average, folds)
        matrices = _rows_of_a_length(parts.codes, parts.places, self._size)
        self._n_added = 0  # rows at the end of each block of which the score is not used
        if distinct_labels(targets).size == 2:
            matrices = [_with_both_values(at, to_numpy(flat)[0]) for at in matrices]
            self._n_added = 1
        self._blocks: list[tuple[np.ndarray, Any]] = []
        refusal = ValueError(
            f"{judge.name} is undefined here: no labels that may be compared are left. Give more "
            f"labels, or use a metric of errors such as 'neg_mean_squared_error'."
        )
        scored = []
        for at in matrices:
            arranged = _arranged(flat, at, math.nan)[0, ...]
            try:
                prepared: Any = judge.prepare(arranged, average="instance", tie_tolerance=None)
            except ValueError as error:  # no row of the block has a score
                refusal = error
                continue
            rows = prepared.rows[: self._n_rows(at, prepared)]
            if rows.size:
                self._blocks.append((at, prepared))
                scored.append(parts.rows[at[rows, 0]])
        if not self._blocks:
            raise refusal
        self._rows = np.concatenate(scored)
        self._weights = parts.weights(self._rows)
        self.n_parts = parts.n_parts
        self.n_undefined = self.n_parts - int(self._rows.size)

    def _n_rows(self, at: np.ndarray, prepared: Any) -> int:
        """Return the number of rows of a block that have a score, without added rows."""
        return int(np.count_nonzero(prepared.rows < len(at) - self._n_added))

    def __call__(self, F: Array) -> Any:
        """Return the score of predictions of the shape of the labels' values, or the scores (s,) of a stack."""
        joined = self._of_parts(F)
        if self._weights is None:
            means = self._blocks[0][1].combined(joined)
        else:
            means = joined @ as_array_of(self._weights, joined, joined.dtype)
        is_stack = len(F.shape) > self._n_axes
        return means if is_stack else float(means[0])

    def of_each(self, F: Array, n_rows: int) -> np.ndarray:
        """Return the score (n_rows,) of each instance or task, NaN where it is undefined."""
        scores = to_numpy(self._of_parts(F))[0]
        counts = np.bincount(self._rows, minlength=n_rows)
        sums = np.bincount(self._rows, weights=scores, minlength=n_rows)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def _of_parts(self, F: Array) -> Array:
        """Return the scores (s, p) of the parts."""
        flat = _flat(F, self._size)
        scores = []
        for at, prepared in self._blocks:
            of_rows = prepared.each(_arranged(flat, at, 0.0))
            scores.append(of_rows[:, : self._n_rows(at, prepared)])
        return namespace(flat).concat(scores, axis=1)


@dataclass(frozen=True)
class _Parts:
    """Labels that are scored together.

    Attributes
    ----------
    places : integer array of shape (n,)
        Position of each observed label in the flattened values.
    codes : integer array of shape (n,)
        Part of each observed label.
    rows : integer array of shape (number of labels of the values,)
        Instance, task or fold that each label is averaged over, by its position.
    n_parts : int
        Number of parts, with instances and tasks without labels.
    is_nested : bool
        Whether an instance or a task may have several parts, one in each fold.
    """

    places: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    n_parts: int
    is_nested: bool

    @classmethod
    def of(cls, labels: Labels, average: str, folds: np.ndarray | None) -> _Parts:
        """Return the parts of an average, within folds if there are any."""
        places = np.flatnonzero(labels.observed)
        within = np.zeros(places.size, dtype=np.intp)
        if folds is not None:
            within = np.unique(np.asarray(folds).reshape(-1)[places], return_inverse=True)[1]
        axis = {"instance": 0, "task": 1}.get(average)
        rows = within if axis is None else labels.places[axis]
        n_folds = int(within.max(initial=0)) + 1
        parts, codes = np.unique(rows * n_folds + within, return_inverse=True)
        n_parts = parts.size
        if axis is not None:
            n_parts += labels.shape[axis] - np.unique(rows).size
        by_place = np.zeros(math.prod(labels.values.shape), dtype=np.intp)
        by_place[places] = rows
        return cls(places, codes, by_place, n_parts, axis is not None and n_folds > 1)

    def weights(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the weight of each scored part in the mean, given its row: folds first, then rows; None if equal."""
        if not self.is_nested:
            return None
        _, codes, counts = np.unique(rows, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (counts[codes] * counts.size))


def _flat(values: Array, size: int) -> Array:
    """Return a stack of values (…) as rows (s, size)."""
    return namespace(values).reshape(values, (-1, size))


def _arranged(flat: Array, at: np.ndarray, outside: float) -> Array:
    """Return values (s, n) at some positions (rows, size), and the value `outside` at position n.

    Metrics ignore predictions of cells without a label, but some raise if these are NaN.
    """
    xp = namespace(flat)
    padding = xp.full_like(flat[:, :1], outside)
    padded = xp.concat([flat, padding], axis=1)
    taken = xp.take(padded, as_array_of(at.reshape(-1), flat), axis=1)
    return xp.reshape(taken, (flat.shape[0], *at.shape))


def _with_both_values(at: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the positions (rows, size) with a last row of the least and the greatest label.

    So a metric of two values knows both, also if all rows have the same.
    """
    width = max(at.shape[1], 2)
    padded = np.full((at.shape[0] + 1, width), targets.size)
    padded[:-1, : at.shape[1]] = at
    padded[-1, :2] = np.nanargmin(targets), np.nanargmax(targets)
    return padded


def _rows_of_a_length(codes: np.ndarray, places: np.ndarray, outside: int) -> list[np.ndarray]:
    """Return the positions of the labels of each code as rows of matrices, padded with `outside`.

    At most half of the entries of a matrix are padding.
    """
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.diff(np.append(starts, codes.size))
    powers = np.ceil(np.log2(sizes))
    matrices = []
    for power in np.unique(powers):
        rows = np.flatnonzero(powers == power)
        steps = np.arange(sizes[rows].max())
        inside = steps < sizes[rows][:, None]
        at = order[np.where(inside, starts[rows][:, None] + steps, 0)]
        matrices.append(np.where(inside, places[at], outside))
    return matrices


def scorer_names() -> list[str]:
    """Return the names of all metrics of this library that `scoring` accepts, sorted.

    Returns
    -------
    list of str
        Names. In names that end in ``_at_k``, replace k by a number.

    Examples
    --------
    >>> from dyadlearn.metrics import scorer_names
    >>> "roc_auc" in scorer_names(), "precision_at_k" in scorer_names()
    (True, True)
    """
    return sorted(METRICS)


def usual_scoring(Y: Any) -> str:
    """Return the default metric of labels (m, q): a rank metric for two values, squared error otherwise."""
    if is_binary(Y):
        return "roc_auc"
    return "neg_mean_squared_error"


def _named(name: str, options: dict[str, Any]) -> Scorer:
    """Return the scorer of a metric by its name; in the name of a metric at k, k may be a number."""
    known = name
    at = re.fullmatch(r"(.+_at_)(\d+)", name)
    if at:
        known = f"{at[1]}k"
        options = {"k": int(at[2]), **options}
    if known not in METRICS and name in get_scorer_names():
        return _borrowed(name, options)
    if known not in METRICS:
        names = scorer_names()
        numbered = [f"{other.removesuffix('k')}10" for other in names if other.endswith("_at_k")]
        close = difflib.get_close_matches(name, [*names, *numbered], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        others = "a name or scorer of scikit-learn for regression, or a function"
        raise ValueError(
            f"Unknown scoring {name!r}: expected one of {', '.join(names)}, {others}.{hint}"
        )
    metric = METRICS[known]
    keywords = keywords_of(metric)
    if known.endswith("_at_k") and "k" not in options and keywords["k"] is not None:
        raise ValueError(
            Message(
                "{name} needs k: say how many, as in <scoring='{stem}10'>.",
                name=name,
                stem=name.removesuffix("k"),
            )
        )
    taken = {"average", "tie_tolerance", *keywords} - {"setting"}
    if unknown := options.keys() - taken:
        expected = f"expected {', '.join(sorted(taken))}, found {', '.join(sorted(unknown))}"
        raise TypeError(f"{name} has no such option: {expected}.")
    if "k" in options:  # the name in tables includes the number
        name = f"{known.removesuffix('k')}{options['k']}"
    return Scorer(name, metric, options)
