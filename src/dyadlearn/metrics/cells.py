"""Base class of all metrics, and the observed cells of a grid, in the rows that a metric is computed on.

Also functions for the scores of a grid of regularisations: which are undefined, and which is best.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    cached_blocks,
    epsilon,
    is_foreign,
    is_sparse,
    namespace,
    to_numpy,
)
from dyadlearn._checks import (
    check_alpha,
    check_choice,
    check_real,
    check_same_library,
    reading_numbers,
    warn_renamed,
)
from dyadlearn._documenting import function_doc
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from dyadlearn.labels import read_labels
from dyadlearn.settings import NewSides, Setting, as_setting

#: Metrics by their names for ``scoring="…"``; each is registered when its class is defined.
METRICS: dict[str, type[Metric]] = {}

#: Values of one regularisation.
Values = Sequence[float]

#: What a score is computed for: all labels together, or the mean over instances, tasks or folds.
AVERAGES = ("pooled", "instance", "task", "fold")
# Name of the first average in release 0.1.0.
_OLD_POOLED = "micro"

#: Number of values for each cell of a block: the sorted copy, positions and counts; an upper bound.
CELL_VALUES = 8
# Number of values of the grids that are scored at once: they stay in the cache of a processor.
_SCORED = 2**21


def as_average(average: str | None, setting: str | Setting | NewSides | None) -> str:
    """Return the average, given its name or the setting that determines it."""
    if average == _OLD_POOLED:
        warn_renamed("average='micro'", "average='pooled'")
        average = "pooled"
    if setting is None or isinstance(setting, NewSides):
        if average is None:
            return "pooled"
        return check_choice(average, "average", AVERAGES)
    if average is not None:
        both = f"setting={as_setting(setting).value!r} and average={average!r}"
        raise ValueError(
            f"Give average or setting, not both: a setting has its average, found {both}."
        )
    return {Setting.B: "instance", Setting.C: "task"}.get(as_setting(setting), "pooled")


@dataclass(frozen=True)
class Cells:
    """The observed cells of a grid of labels, arranged in rows that are scored separately.

    Attributes
    ----------
    grid : Table
        Labels of m instances × q tasks.
    average : str
        ``"pooled"``: one row of all observed cells; ``"instance"``: the rows of the grid; ``"task"``: its columns.
    rows : array of shape (R,)
        Positions of the rows or columns in the grid.
    is_whole : bool
        Whether every label of the grid is observed.
    """

    grid: Table
    average: str
    rows: np.ndarray
    is_whole: bool

    # Properties are computed on first use, because a grid may be large or on another device.

    @cached_property
    def width(self) -> int:
        """Number n of cells in a row."""
        m, q = self.grid.values.shape
        if self.average != "pooled":
            return int(q if self.average == "instance" else m)
        return int(m * q if self.is_whole else self._places.size)

    @cached_property
    def _values(self) -> np.ndarray:
        """Labels with a row for each instance, or for each task if the average is over tasks."""
        values = to_numpy(self.grid.values)
        return values.T if self.average == "task" else values

    @cached_property
    def _places(self) -> np.ndarray:
        """Positions of the observed labels in the raveled grid."""
        return np.flatnonzero(~np.isnan(self._values))

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels (R, n), NaN if not observed."""
        values = self._values
        if self.average == "pooled":
            if self.is_whole:
                values = values.reshape(1, -1)
            else:
                values = values.reshape(-1)[None, self._places]
        elif self.rows.size != values.shape[0]:
            values = values[self.rows]
        return values.astype(np.float64, copy=False)

    @cached_property
    def observed(self) -> np.ndarray:
        """Mask of the observed cells, of shape (R, n)."""
        if self.are_complete:
            return np.broadcast_to(np.True_, (self.rows.size, self.width))
        return np.asarray(~np.isnan(self.labels))

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of observed cells in each row, of shape (R,)."""
        if self.are_complete:
            return np.full(self.rows.size, self.width, dtype=np.int64)
        return np.asarray(self.observed.sum(axis=1, dtype=np.int64))

    @cached_property
    def vary(self) -> np.ndarray:
        """Mask of the rows (R,) with two different labels."""
        low = np.where(self.observed, self.labels, np.inf).min(axis=1, initial=np.inf)
        high = np.where(self.observed, self.labels, -np.inf).max(axis=1, initial=-np.inf)
        return np.asarray(low < high)

    @cached_property
    def are_complete(self) -> bool:
        """Whether every cell is observed."""
        return self.is_whole or self.average == "pooled" or not bool(np.isnan(self.labels).any())

    @property
    def filled(self) -> np.ndarray:
        """Labels (R, n), 0 if not observed; may be a view."""
        if self.are_complete:
            return self.labels
        return np.where(self.observed, self.labels, 0)

    def place(self, values: np.ndarray) -> Array:
        """Return values as an array in the library and on the device of the labels."""
        return as_array_of(values, self.grid.values)

    @cached_property
    def _order(self) -> Array:
        return self.place(self._places if self.average == "pooled" else self.rows)

    @cached_property
    def _mask(self) -> Array:
        return self.place(self.observed)

    @cached_property
    def _last(self) -> Array:
        return self.place(np.arange(self.counts.size) * self.width + self.counts - 1)

    def arrange(self, F: Array) -> Array:
        """Return predictions (s, m, q) in rows (s, R, n), NaN if the label is not observed; may be a view."""
        xp = namespace(F)
        if self.average == "pooled":
            flat = xp.reshape(F, (F.shape[0], -1))
            if flat.shape[1] != self.width:
                flat = xp.take(flat, self._order, axis=1)
            return xp.reshape(flat, (F.shape[0], 1, -1))
        if self.average == "task":
            F = xp.permute_dims(F, (0, 2, 1))
        if F.shape[1] != self.rows.size:
            F = xp.take(F, self._order, axis=1)
        return self.masked(F, float("nan"))

    def masked(self, rows: Array, value: float) -> Array:
        """Return rows (s, R, n) with `value` in the cells that are not observed."""
        xp = namespace(rows)
        if self.are_complete:
            return rows
        return xp.where(self._mask, rows, value)

    def _greatest(self, rows: Array) -> Array:
        """Return the last observed prediction (s, R) of each sorted row (s, R, n)."""
        xp = namespace(rows)
        return xp.take(xp.reshape(rows, (rows.shape[0], -1)), self._last, axis=1)

    def check_last(self, rows: Array) -> None:
        """Raise if a prediction is NaN, given sorted rows (s, R, n): the last observed one is NaN then."""
        xp = namespace(rows)
        if bool(xp.any(xp.isnan(self._greatest(rows)))):
            refuse_nan()

    def tie_width(self, rows: Array, share: float) -> Array:
        """Return the largest difference of two tied predictions (s, R), given sorted rows (s, R, n)."""
        xp = namespace(rows)
        ends = [xp.abs(end) for end in (rows[..., 0], self._greatest(rows))]
        width = share * xp.where(ends[0] > ends[1], ends[0], ends[1])
        return xp.where(xp.isfinite(width), width, 0.0)


def refuse_nan() -> None:
    """Raise the error for predictions that are NaN."""
    raise ValueError("F contains NaN where Y is observed: every observed cell needs a prediction.")


def read_cells(Y: Any, average: str) -> Cells:
    """Return the observed cells of `Y` in the rows of an average."""
    grid = read_labels(Y)
    values = grid.values
    xp = namespace(grid.values)
    if bool(xp.any(xp.isinf(values))):
        raise ValueError(
            "Y contains infinity: labels are finite, or NaN where they are not observed."
        )
    n_rows = {"pooled": 1, "instance": values.shape[0], "task": values.shape[1]}[average]
    return Cells(grid, average, np.arange(n_rows), not bool(xp.any(xp.isnan(values))))


def read_stack(F: Any, grid: Table) -> tuple[Array, tuple[int, ...]]:
    """Return predictions as a stack (s, m, q), and the shape (…) that the stack came in.

    A frame is aligned with the ids of the labels. A vector is accepted if the labels are a vector.
    """
    table = read_table(F, "F", describes=False).rows_as(
        grid.row_ids, "the rows of F", "the rows of Y"
    )
    table = table.columns_as(grid.column_ids, "the columns of F", "the columns of Y")
    values = table.values
    if is_sparse(values):
        raise TypeError(
            "F is sparse, but its zeros are predictions too: give it dense, as F.toarray()."
        )
    with reading_numbers(values, "F"):
        values = check_real(values if is_foreign(values) else np.asarray(values), "F")
    check_same_library({"Y": grid.values, "F": values})
    m, q = grid.values.shape
    xp = namespace(values)
    if grid.is_vector and tuple(values.shape) == (m,):
        return xp.reshape(values, (1, m, 1)), ()
    if tuple(values.shape[-2:]) != (m, q):
        shapes = f"expected shape (…, {m}, {q}), found {tuple(values.shape)}"
        raise ValueError(
            f"F must hold a prediction for each of the {m} × {q} labels of Y: {shapes}."
        )
    shape = tuple(values.shape[:-2])
    return xp.reshape(values, (int(np.prod(shape, dtype=np.int64)), m, q)), shape


class Metric(ABC):
    """Metric of one grid of labels; the parts that depend on the labels alone are computed once.

    An instance is called with predictions, any number of times and from any number of threads. The
    function of a metric (see `function_of`) takes the labels, the predictions and the options at
    once. Its docstring has the entries below, unless the class of the metric documents the
    parameter.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN means "not observed".
    F : array of shape (…, m, q)
        Predictions: a grid or a stack of grids, of the same array library as `Y`.
    average : {"pooled", "instance", "task"}, default=None
        ``"pooled"``: all cells together; ``"instance"``: the mean over the rows; ``"task"``: the mean over the
        columns. None means the average of `setting`, or ``"pooled"`` without a setting.
    setting : str or Setting, default=None
        Setting that determines the average: pooled in A and D, instance in B, task in C. Pass it or
        `average`, not both.
    tie_tolerance : float or None, default=0.0
        Two predictions that are ranked together tie if they differ by at most this fraction of the
        largest absolute prediction among them. 0 compares exactly. None means the tolerance for
        held-out predictions: 1.8e-12 in float64, 6.4e-6 in float32.
    return_undefined : bool, default=False
        Whether to return a pair: the score, and the number of excluded rows or columns.

    Attributes
    ----------
    rows : array of shape (R,)
        Positions of the rows or columns for which the metric is defined.
    n_undefined : int
        Number of rows or columns that are excluded, because the metric is undefined.
    n_parts : int
        Number of all rows or columns, 1 for the pooled average.
    """

    #: Name of the metric in messages, and what it needs in a row.
    title: ClassVar[str]
    needs: ClassVar[str] = "an observed label"
    #: Name for ``scoring="…"``; greater is better. A name that ends in ``_at_k`` accepts any number
    #: in place of k.
    scoring: ClassVar[str]
    #: Whether each row or column has a score that does not depend on the others; else all averages
    #: are the same.
    is_of_rows: ClassVar[bool] = True
    #: Whether tied predictions affect the score.
    can_tie: ClassVar[bool] = True
    #: Whether predictions of a row are compared with each other, so that they must come from fits
    #: without any label of the row (see `dyadlearn.selection.one_fit`).
    compares: ClassVar[bool] = False
    #: Whether it is a correlation, or a share of pairs of cells that are in the right order.
    correlates: ClassVar[bool] = False
    counts_pairs: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "scoring" in vars(cls):
            METRICS[cls.scoring] = cls

    def __init__(
        self,
        Y: Any,
        *,
        average: str | None = None,
        setting: str | Setting | None = None,
        tie_tolerance: float | None = 0.0,
    ) -> None:
        if tie_tolerance is None:
            self._tie_tolerance = None
        else:
            self._tie_tolerance = check_alpha(tie_tolerance, "tie_tolerance")
        if self._tie_tolerance is not None and self._tie_tolerance >= 1:
            raise ValueError(
                f"tie_tolerance is a share of the largest prediction, in [0, 1), found "
                f"{tie_tolerance}."
            )
        average = as_average(average, setting)
        if average == "fold":
            raise ValueError(
                "average='fold' is the mean over the folds of a hold-out, which labels and "
                "predictions alone do not tell: use evaluate or a search, or another average."
            )
        cells = read_cells(Y, average if self.is_of_rows else "pooled")
        defined = self._defined(cells)
        if not bool(defined.any()):
            owner = {
                "pooled": "Y does not have",
                "instance": "no row of Y has",
                "task": "no column of Y has",
            }
            reason = f"it needs {self.needs}, and {owner[cells.average]} that"
            raise ValueError(
                f"{self.title} is undefined here: {reason}. Give such labels, or use another "
                f"metric."
            )
        if defined.all():
            self._cells = cells
        else:
            self._cells = replace(cells, rows=cells.rows[defined])
        self.rows = self._cells.rows
        self.n_parts = int(defined.size)
        self.n_undefined = self.n_parts - int(self.rows.size)
        self._prepare()

    def __call__(self, F: Any) -> Any:
        """Return the metric of predictions (…, m, q): a float, or an array of shape (…) for a stack."""
        mean = self.combined(self.each(F))
        return mean if mean.ndim else float(mean)

    @property
    def average(self) -> str:
        """What is scored together: all cells (``"pooled"``), or those of an instance or a task."""
        return self._cells.average

    def each(self, F: Any) -> Array:
        """Return the metric of every row or column for which it is defined.

        Parameters
        ----------
        F : array of shape (…, m, q)

        Returns
        -------
        array of shape (…, R), in the order of `rows`; R = 1 for the pooled average
        """
        stack, shape = read_stack(F, self._cells.grid)
        xp = namespace(stack)
        blocks = [self._score(stack[block, ...]) for block in self._blocks(stack)]
        blocks = blocks or [self._cells.place(np.empty((0, self.rows.size)))]
        scores = blocks[0] if len(blocks) == 1 else xp.concat(blocks)
        return xp.reshape(scores, (*shape, self.rows.size))

    def combined(self, scores: Array) -> Array:
        """Return the mean (…) of the scores of rows or columns (…, R); metrics that are roots override this."""
        return namespace(scores).mean(scores, axis=-1)

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Function from mean squared errors of a complete grid to scores; None if errors do not determine the score.

        Such errors are often known without computing predictions.
        """
        return None

    def _blocks(self, stack: Array) -> Iterable[slice]:
        """Return the blocks of grids of a stack (s, m, q) that are scored at once."""
        n, m, q = stack.shape
        return cached_blocks(n, stack, (CELL_VALUES, m, q), limit=_SCORED)

    def _defined(self, cells: Cells) -> np.ndarray:
        """Return the mask of the rows (R,) for which the metric is defined; by default those with an observed label."""
        return np.asarray(cells.counts > 0)

    def _prepare(self) -> None:  # noqa: B027
        """Compute the parts that depend on the labels alone."""

    def _tie_share(self, F: Array) -> float:
        """Return the share of the largest prediction up to which predictions tie.

        Tied hold-out predictions differ after matrix products by at most some hundreds of ε,
        relative to the largest.
        """
        return epsilon(F) ** 0.75 if self._tie_tolerance is None else self._tie_tolerance

    @abstractmethod
    def _score(self, F: Array) -> Array:
        """Return the metric (s, R) of each row for a block of predictions (s, m, q)."""


def function_of(metric: type[Metric]) -> Callable[..., Any]:
    """Return the function of (Y, F, …) of a metric, with the docstring of its class; losses are positive."""
    name = metric.scoring.removeprefix("neg_")
    sign = 1 if name == metric.scoring else -1
    options = {"average": None, "setting": None, "tie_tolerance": 0.0, "return_undefined": False}
    parameters = [Parameter(array, Parameter.POSITIONAL_OR_KEYWORD) for array in ("Y", "F")]
    for parameter in signature(metric).parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and parameter.name not in options:
            parameters.append(parameter.replace(kind=Parameter.POSITIONAL_OR_KEYWORD))
    if not metric.can_tie:
        del options["tie_tolerance"]
    for option, default in options.items():
        parameters.append(Parameter(option, Parameter.KEYWORD_ONLY, default=default))
    taken = Signature(parameters)

    def score(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = taken.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        Y = arguments.pop("Y")
        F = arguments.pop("F")
        returns_undefined = arguments.pop("return_undefined", False)
        prepared = metric(Y, **arguments)
        value = sign * prepared(F) + 0.0  # turns −0 into 0
        if returns_undefined:
            return value, prepared.n_undefined
        return value

    score.__doc__ = function_doc(metric, taken.parameters)
    score.__name__ = score.__qualname__ = name
    score.__module__ = metric.__module__
    score.__signature__ = taken  # type: ignore[attr-defined]
    return score


# Scores that differ by less than this share of the best one differ by rounding only.
_ROUNDING = 1e-12


def as_good(scores: np.ndarray, best: float) -> np.ndarray:
    """Return the mask of the scores that are equal to the best one up to rounding, or better; False for NaN."""
    slack = _ROUNDING * abs(best) if np.isfinite(best) else 0.0
    return np.asarray(np.asarray(scores) >= best - slack)


def best_point(scores: np.ndarray, *alphas: Values | np.ndarray) -> tuple[int, ...]:
    """Return the position of the best score; NaN is never the best.

    If scores are equal up to rounding, as on the plateau of a rank metric or with a kernel that has
    no information, the strongest regularisation is chosen: of two regularisations those with the
    largest product, and of these the largest first one. Of kernel parameters with equal scores, the
    first are chosen.

    Parameters
    ----------
    scores : array of shape (…, n_alphas) or (…, n_alphas, n_task_alphas)
        The leading axes are kernel parameters.
    *alphas : sequences of float
        Values of one regularisation for each of the last axes.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics.cells import best_point
    >>> best_point(np.array([0.5, 0.7, 0.7, 0.6]), [0.1, 1.0, 10.0, 100.0])
    (2,)
    """
    scores = np.asarray(scores, dtype=np.float64)
    if np.isnan(scores).all():
        raise ValueError(
            "No score is the best, because the metric is undefined (NaN) for every value."
        )
    grids = [np.asarray(values, dtype=np.float64) for values in alphas]
    equal = as_good(scores, float(np.nanmax(scores)))
    equal = equal.reshape(-1, *(values.size for values in grids))
    places = np.argwhere(equal)
    places = places[places[:, 0] == places[0, 0]]
    values = np.stack([grid[at] for grid, at in zip(grids, places.T[1:], strict=True)], axis=1)
    with np.errstate(divide="ignore"):
        product = np.log10(values).sum(axis=1)
    # A tolerance, so that the rounding of factors does not decide between equal products.
    strongest = np.flatnonzero(product >= product.max() - 1e-9).tolist()
    best = max(strongest, key=lambda at: values[at].tolist())
    flat = np.ravel_multi_index(tuple(places[best]), equal.shape)
    return tuple(int(at) for at in np.unravel_index(flat, scores.shape))


def where_defined(score: Callable[..., np.ndarray], *alphas: Values) -> np.ndarray:
    """Score a grid of regularisations, NaN where the model interpolates the labels that are left out.

    The whole grid is scored at once. If this raises, its rows are scored separately, and then the
    points of the rows that raise.

    Parameters
    ----------
    score : callable
        Takes values of both regularisations and returns scores (n_alphas, n_task_alphas), or
        (n_alphas,) if the second has no effect, or raises `LeverageError`.
    *alphas : sequences of float
        Values of each regularisation; one that has no effect has a single value.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas) or (n_alphas,)

    Raises
    ------
    LeverageError
        If no point has a score.
    """
    try:
        return score(*alphas)
    except LeverageError:
        if all(len(values) == 1 for values in alphas):
            raise
    axis = next(axis for axis, values in enumerate(alphas) if len(values) > 1)
    parts: list[np.ndarray | None] = []
    for value in alphas[axis]:
        try:
            parts.append(where_defined(score, *alphas[:axis], [value], *alphas[axis + 1 :]))
        except LeverageError as error:
            parts.append(None)
            refusal = error
    defined = [part for part in parts if part is not None]
    if not defined:
        raise refusal
    undefined = np.full_like(defined[0], np.nan)
    return np.concatenate([undefined if part is None else part for part in parts], axis=axis)


def warn_of_undefined(
    scores: np.ndarray,
    alphas: Sequence[Values | None],
    setting: str,
    stacklevel: int,
    *,
    names: Sequence[str] = ("alpha", "task_alpha"),
) -> None:
    """Warn of the regularisations without a score, if there are any.

    Parameters
    ----------
    scores : array of shape (…, n_alphas, n_task_alphas), or (…, n_alphas)
    alphas : (sequence of float, sequence of float or None)
        Values of both regularisations; None for the second if there is only one.
    setting : str
    stacklevel : int
        Level of the warning, counted from this function.
    names : (str, str)
        Names of the two regularisations.
    """
    rows, columns = ([1.0] if values is None else values for values in alphas)
    missing = np.isnan(scores).reshape(-1, len(rows), len(columns)).any(axis=0)
    if not missing.any():
        return
    whole = missing.all(axis=1)
    first, second = names
    words = [f"{first} {rows[row]:g}" for row in np.flatnonzero(whole).tolist()]
    single = np.argwhere(missing & ~whole[:, None])
    words += [
        f"{first} {rows[row]:g} with {second} {columns[column]:g}"
        for row, column in single.tolist()
    ]
    more = f" and {len(words) - 5} more" if len(words) > 5 else ""
    warnings.warn(
        f"In setting {setting} there is no score for {', '.join(words[:5])}{more}, where the model "
        f"interpolates what "
        "is to be left out, or the metric is undefined: NaN stands there, and is not chosen. Leave "
        "such values out.",
        UndefinedScoreWarning,
        stacklevel=stacklevel + 1,
    )
