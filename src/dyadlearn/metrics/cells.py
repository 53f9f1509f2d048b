"""The cells that count, in the rows that a metric is computed on, and what all metrics share.

Scores of a grid of regularisations: those that do not exist, and the best: of equals, the most regularised.
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

from dyadlearn._array import Array, as_array_of, epsilon, is_foreign, is_sparse, namespace, row_blocks, to_numpy
from dyadlearn._checks import check_alpha, check_choice, check_real, check_same_library, reading_numbers
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from dyadlearn.labels import read_labels
from dyadlearn.settings import Setting, as_setting

#: The metrics that `scoring` knows, by their names; each enters when its class is declared.
METRICS: dict[str, type[Metric]] = {}

_AVERAGES = ("micro", "instance", "task")

# A block of this many bytes stays in the cache of a processor; an accelerator wants more work at a time.
BLOCK_BYTES, FOREIGN_BLOCK_BYTES = 2**24, 2**28
# The sorted copy, positions and counts that a metric holds for each cell of a block, generously.
CELL_BYTES = 64


def block_bytes(like: Array) -> int:
    """Return the bytes of cells that are scored together where `like` lives."""
    return FOREIGN_BLOCK_BYTES if is_foreign(like) else BLOCK_BYTES


def as_average(average: str | None, setting: str | Setting | None) -> str:
    """Return the average that is asked for, by its name or by the setting that it belongs to."""
    if setting is None:
        return "micro" if average is None else check_choice(average, "average", _AVERAGES)
    if average is not None:
        raise ValueError(
            f"Give average or setting, not both: setting {as_setting(setting).value} already chooses an average, found "
            f"average={average!r} too."
        )
    return {Setting.B: "instance", Setting.C: "task"}.get(as_setting(setting), "micro")


@dataclass(frozen=True)
class Cells:
    """The observed cells of a grid of labels, arranged in rows that are each ranked on their own.

    Attributes
    ----------
    grid : Table
        The labels of m instances × q tasks.
    average : str
        ``"micro"``: one row of all observed cells; ``"instance"``: the rows of the grid;
        ``"task"``: its columns.
    rows : array of shape (R,)
        Which rows or columns of the grid these are.
    is_whole : bool
        Whether every label of the grid is observed.
    """

    grid: Table
    average: str
    rows: np.ndarray
    is_whole: bool

    # What not every metric asks for is made when one does: a grid may be large, and live elsewhere.

    @cached_property
    def width(self) -> int:
        """The number n of cells in a row."""
        m, q = self.grid.values.shape
        if self.average != "micro":
            return int(q if self.average == "instance" else m)
        return int(m * q if self.is_whole else self._places.size)

    @cached_property
    def _values(self) -> np.ndarray:
        """The labels with a row for each instance, or for each task where these are averaged."""
        values = to_numpy(self.grid.values)
        return values.T if self.average == "task" else values

    @cached_property
    def _places(self) -> np.ndarray:
        """Where the observed labels stand in the raveled grid."""
        return np.flatnonzero(~np.isnan(self._values))

    @cached_property
    def labels(self) -> np.ndarray:
        """The labels (R, n), NaN where not observed."""
        values = self._values
        if self.average == "micro":
            values = values.reshape(1, -1) if self.is_whole else values.reshape(-1)[None, self._places]
        elif self.rows.size != values.shape[0]:
            values = values[self.rows]
        return values.astype(np.float64, copy=False)

    @cached_property
    def observed(self) -> np.ndarray:
        """Mask of the cells that count, of shape (R, n)."""
        if self.are_complete:
            return np.broadcast_to(np.True_, (self.rows.size, self.width))
        return np.asarray(~np.isnan(self.labels))

    @cached_property
    def counts(self) -> np.ndarray:
        """Return the number of observed cells in each row, of shape (R,)."""
        if self.are_complete:
            return np.full(self.rows.size, self.width, dtype=np.int64)
        return np.asarray(self.observed.sum(axis=1, dtype=np.int64))

    @cached_property
    def vary(self) -> np.ndarray:
        """Mask of the rows (R,) that have two labels that differ."""
        low = np.where(self.observed, self.labels, np.inf).min(axis=1, initial=np.inf)
        high = np.where(self.observed, self.labels, -np.inf).max(axis=1, initial=-np.inf)
        return np.asarray(low < high)

    @cached_property
    def are_complete(self) -> bool:
        """Whether every cell is observed."""
        return self.is_whole or self.average == "micro" or not bool(np.isnan(self.labels).any())

    @property
    def filled(self) -> np.ndarray:
        """Return the labels (R, n), 0 where they are not observed; maybe not a copy."""
        return self.labels if self.are_complete else np.where(self.observed, self.labels, 0)

    def keep(self, rows: np.ndarray) -> Cells:
        """Return only the rows where the mask `rows` (R,) is true."""
        return self if rows.all() else replace(self, rows=self.rows[rows])

    def place(self, values: np.ndarray) -> Array:
        """Put values in the library and on the device of the labels."""
        return as_array_of(values, self.grid.values)

    @cached_property
    def _order(self) -> Array:
        return self.place(self._places if self.average == "micro" else self.rows)

    @cached_property
    def _mask(self) -> Array:
        return self.place(self.observed)

    @cached_property
    def _last(self) -> Array:
        return self.place(np.arange(self.counts.size) * self.width + self.counts - 1)

    def arrange(self, F: Array) -> Array:
        """Return predictions (s, m, q) in rows (s, R, n), NaN where a label is not observed; maybe a view."""
        xp = namespace(F)
        if self.average == "micro":
            flat = xp.reshape(F, (F.shape[0], -1))
            if flat.shape[1] != self.width:
                flat = xp.take(flat, self._order, axis=1)
            return xp.reshape(flat, (F.shape[0], 1, -1))
        if self.average == "task":
            F = xp.permute_dims(F, (0, 2, 1))
        if F.shape[1] != self.rows.size:
            F = xp.take(F, self._order, axis=1)
        return F if self.are_complete else xp.where(self._mask, F, xp.full_like(F, float("nan")))

    def sort(self, rows: Array) -> Array:
        """Return rows (s, R, n) in ascending order, those not observed last; the argument may be overwritten."""
        if is_foreign(rows):
            rows = namespace(rows).sort(rows, axis=-1)
        else:
            rows.sort(axis=-1)
        self.check_last(rows)
        return rows

    def _greatest(self, rows: Array) -> Array:
        """Return the last prediction that counts (s, R) of each sorted row (s, R, n)."""
        xp = namespace(rows)
        return xp.take(xp.reshape(rows, (rows.shape[0], -1)), self._last, axis=1)

    def check_last(self, rows: Array) -> None:
        """Raise if a prediction is NaN, given sorted rows (s, R, n): the last one that counts would be NaN."""
        xp = namespace(rows)
        if bool(xp.any(xp.isnan(self._greatest(rows)))):
            refuse_nan()

    def tie_width(self, rows: Array, tolerance: float | None) -> Array:
        """Return how far apart two predictions may be and yet tie (s, R), given sorted rows (s, R, n)."""
        xp = namespace(rows)
        # Ties of hold-out predictions come out of the products apart by some hundreds of ε of the largest at most.
        share = epsilon(rows) ** 0.75 if tolerance is None else tolerance
        ends = [xp.abs(end) for end in (rows[..., 0], self._greatest(rows))]
        width = share * xp.where(ends[0] > ends[1], ends[0], ends[1])
        return xp.where(xp.isfinite(width), width, xp.zeros_like(width))

    def tied(self, rows: Array, tolerance: float | None) -> Array:
        """Return which predictions of sorted rows (s, R, n) tie with the one before, of shape (s, R, n − 1)."""
        if tolerance == 0:
            return rows[..., 1:] == rows[..., :-1]
        return rows[..., 1:] - rows[..., :-1] <= self.tie_width(rows, tolerance)[..., None]


def refuse_nan() -> None:
    """Raise the error for predictions that are not numbers."""
    raise ValueError("F contains NaN where Y is observed: every observed cell needs a prediction.")


def check_tolerance(tolerance: Any) -> float | None:
    """Return a tolerance of ties, refusing what is not a share."""
    share = None if tolerance is None else check_alpha(tolerance, "tie_tolerance")
    if share is not None and share >= 1:
        raise ValueError(f"tie_tolerance is a share of the largest prediction, in [0, 1), found {tolerance}.")
    return share


def read_cells(Y: Any, average: str | None, setting: str | Setting | None) -> Cells:
    """Return the observed cells of `Y` in the rows of an average."""
    grid, average = read_labels(Y), as_average(average, setting)
    values, xp = grid.values, namespace(grid.values)
    if bool(xp.any(xp.isinf(values))):
        raise ValueError("Y contains infinity: labels are finite, or NaN where they are not observed.")
    n_rows = {"micro": 1, "instance": values.shape[0], "task": values.shape[1]}[average]
    return Cells(grid, average, np.arange(n_rows), not bool(xp.any(xp.isnan(values))))


def read_stack(F: Any, grid: Table) -> tuple[Array, tuple[int, ...]]:
    """Return predictions as a stack (s, m, q), and the shape (…) that the stack came in.

    A frame is aligned with the ids of the labels; a vector will do where the labels are one.
    """
    table = read_table(F, "F").rows_as(grid.row_ids, "the rows of F", "the rows of Y")
    table = table.columns_as(grid.column_ids, "the columns of F", "the columns of Y")
    values = table.values
    if is_sparse(values):
        raise TypeError("F is sparse, but its zeros are predictions too: give it dense, as F.toarray().")
    with reading_numbers(values, "F"):
        values = check_real(values if is_foreign(values) else np.asarray(values), "F")
    check_same_library({"Y": grid.values, "F": values})
    m, q = grid.values.shape
    xp = namespace(values)
    if grid.is_vector and tuple(values.shape) == (m,):
        return xp.reshape(values, (1, m, 1)), ()
    if tuple(values.shape[-2:]) != (m, q):
        raise ValueError(
            f"F must hold a prediction for each of the {m} × {q} labels of Y, as a grid or a stack of grids "
            f"(…, {m}, {q}); found shape {tuple(values.shape)}."
        )
    shape = tuple(values.shape[:-2])
    return xp.reshape(values, (int(np.prod(shape, dtype=np.int64)), m, q)), shape


class Metric(ABC):
    """A metric of one grid of labels, with all that depends on the labels alone computed once.

    It is called with predictions, as often as there are any, from any number of threads.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together, or the mean over the rows or over the columns of the grid.
    setting : str or Setting, default=None
        Chooses the average instead: A and D micro, B instance, C task.
    tie_tolerance : float or None, default=0.0
        Predictions that differ by no more than this share of the largest, in absolute value, that they are ranked
        with are ties to metrics of order. None is what rounding makes of the ties of hold-out predictions:
        ε to the power of 3/4, 1.8e-12 in float64 and 6.4e-6 in float32.
    return_undefined : bool, default=False
        Of functions: also return the number of rows or columns where the metric is undefined.

    Attributes
    ----------
    rows : array of shape (R,)
        The rows or columns where the metric is defined.
    n_undefined : int
        The number of those that are left out.
    """

    #: What messages call the metric, and what a row must have for it.
    title: ClassVar[str]
    needs: ClassVar[str] = "an observed label"
    #: What `scoring` calls it, where greater is better. A name that ends in ``_at_k`` stands for any number too.
    scoring: ClassVar[str]
    #: Whether a row or column has a score of its own, whatever the others are.
    is_of_rows: ClassVar[bool] = True
    #: Whether it depends on which predictions tie.
    can_tie: ClassVar[bool] = True

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
        self._tie_tolerance = check_tolerance(tie_tolerance)
        cells = read_cells(Y, average, setting)
        defined = self._defined(cells)
        if not bool(defined.any()):
            owner = {"micro": "Y does not have", "instance": "no row of Y has", "task": "no column of Y has"}
            raise ValueError(f"{self.title} is undefined here: it needs {self.needs}, and {owner[cells.average]} that.")
        self._cells = cells.keep(defined)
        self.rows = self._cells.rows
        self.n_undefined = int(defined.size - self.rows.size)
        self._prepare()

    def __call__(self, F: Any) -> Any:
        """Return the metric of predictions (…, m, q): a float, or an array of shape (…) for a stack."""
        mean = self.combined(self.each(F))
        return mean if mean.ndim else float(mean)

    def each(self, F: Any) -> Array:
        """Return the metric of every row or column where it is defined.

        Parameters
        ----------
        F : array of shape (…, m, q)

        Returns
        -------
        array of shape (…, R), in the order of `rows`; R = 1 for the micro average
        """
        stack, shape = read_stack(F, self._cells.grid)
        xp = namespace(stack)
        blocks = [self._score(stack[block, ...]) for block in self._blocks(stack)]
        if not blocks:
            return xp.reshape(self._cells.place(np.empty((0, self.rows.size))), (*shape, self.rows.size))
        scores = blocks[0] if len(blocks) == 1 else xp.concat(blocks)
        return xp.reshape(scores, (*shape, self.rows.size))

    def combined(self, scores: Array) -> Array:
        """Return one score (…) of those of the rows or columns (…, R): their mean, but for roots."""
        return namespace(scores).mean(scores, axis=-1)

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """What makes scores of mean squared errors over all cells of a complete grid, None where these do not tell.

        Such errors are often known without any predictions.
        """
        return None

    def _blocks(self, stack: Array) -> Iterable[slice]:
        """Return which grids of a stack (s, m, q) are scored together."""
        return row_blocks(stack.shape[0], CELL_BYTES * stack.shape[1] * stack.shape[2], block_bytes(stack))

    @abstractmethod
    def _defined(self, cells: Cells) -> np.ndarray:
        """Return in which rows (R,) the metric is defined."""

    def _prepare(self) -> None:  # noqa: B027
        """Compute what depends on the labels alone."""

    @abstractmethod
    def _score(self, F: Array) -> Array:
        """Return the metric (s, R) of each row for a block of predictions (s, m, q)."""


def function_of(metric: type[Metric]) -> Callable[..., Any]:
    """Return the function of (Y, F, …) that a metric computes, documented as its class is; losses are positive."""
    name = metric.scoring.removeprefix("neg_")
    sign = 1 if name == metric.scoring else -1
    options = {"average": None, "setting": None, "tie_tolerance": 0.0, "return_undefined": False}
    given = signature(metric).parameters.values()
    own = [each for each in given if each.kind is each.KEYWORD_ONLY and each.name not in options]
    if not metric.can_tie:
        del options["tie_tolerance"]
    taken = Signature(
        [
            *(Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in ("Y", "F")),
            *(each.replace(kind=each.POSITIONAL_OR_KEYWORD) for each in own),
            *(Parameter(each, Parameter.KEYWORD_ONLY, default=default) for each, default in options.items()),
        ]
    )

    def score(*args: Any, **kwargs: Any) -> Any:
        try:
            given = taken.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        Y, F, returned = given.pop("Y"), given.pop("F"), given.pop("return_undefined", False)
        prepared = metric(Y, **given)
        return (sign * prepared(F), prepared.n_undefined) if returned else sign * prepared(F)

    score.__doc__ = f"Return {metric.__doc__[:1].lower()}{metric.__doc__[1:]}" if metric.__doc__ else None
    score.__name__ = score.__qualname__ = name
    score.__module__ = metric.__module__
    score.__signature__ = taken  # type: ignore[attr-defined]
    return score


# Scores that differ by less than this share of the best one differ by rounding only.
_ROUNDING = 1e-12


def as_good(scores: np.ndarray, best: float) -> np.ndarray:
    """Return which scores are equal to the best one up to rounding, or better; NaN is not."""
    slack = _ROUNDING * abs(best) if np.isfinite(best) else 0.0
    return np.asarray(np.asarray(scores) >= best - slack)


def best_point(
    scores: np.ndarray, alphas: Sequence[float] | np.ndarray, task_alphas: Sequence[float] | np.ndarray | None = None
) -> tuple[int, ...]:
    """Return where the best score stands, NaN being none.

    Where scores are equal up to rounding, as on the plateau of a rank metric or with a kernel that tells nothing, the
    labels do not say how much regularisation is best. The most is chosen then, since it promises the least: of two
    regularisations the largest product, and of those the largest first one. Of kernel parameters that do equally well
    the first are taken.

    Parameters
    ----------
    scores : array of shape (…, n_alphas) or (…, n_alphas, n_task_alphas)
        The leading axes are kernel parameters.
    alphas, task_alphas : sequences of float, or None
        What the last axes stand for.

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
        raise ValueError("No score is a number, so that none is the best: the metric is undefined for every value.")
    rows = np.asarray(alphas, dtype=np.float64)
    columns = np.ones(1) if task_alphas is None else np.asarray(task_alphas, dtype=np.float64)
    n_kernels = scores.size // (rows.size * columns.size)
    equal = as_good(scores, float(np.nanmax(scores))).reshape(n_kernels, rows.size, columns.size)
    kernel = int(np.argmax(equal.any(axis=(1, 2))))
    with np.errstate(divide="ignore"):
        # Rounded, so that a product does not depend on how its factors are rounded.
        product = np.round(np.log10(rows)[:, None] + np.log10(columns), 9)
    places = np.argwhere(equal[kernel])
    row, column = max(places.tolist(), key=lambda place: (product[tuple(place)], rows[place[0]], columns[place[1]]))
    return tuple(int(i) for i in np.unravel_index((kernel * rows.size + row) * columns.size + column, scores.shape))


def where_defined(
    score: Callable[[Sequence[float], Sequence[float]], np.ndarray],
    alphas: Sequence[float],
    task_alphas: Sequence[float],
) -> np.ndarray:
    """Score a grid of regularisations, NaN where the model interpolates what is to be left out.

    The grid is scored at one go. Only if that is refused it is halved, until the points that are to blame stand alone.

    Parameters
    ----------
    score : callable
        Takes values of both regularisations, returns scores (n_alphas, n_task_alphas), or (n_alphas,) whatever the
        second is, or raises `LeverageError`.
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas) or (n_alphas,)

    Raises
    ------
    LeverageError
        If there is no point with a score.
    """
    try:
        return score(alphas, task_alphas)
    except LeverageError:
        if len(alphas) == len(task_alphas) == 1:
            raise
    by_rows = len(alphas) > 1
    parts: list[np.ndarray | None] = []
    for value in alphas if by_rows else task_alphas:
        try:
            parts.append(where_defined(score, *(([value], task_alphas) if by_rows else (alphas, [value]))))
        except LeverageError as error:
            parts.append(None)
            refusal = error
    found = next((part for part in parts if part is not None), None)
    if found is None:
        raise refusal
    undefined = np.full_like(found, np.nan)
    return np.concatenate([undefined if part is None else part for part in parts], axis=0 if by_rows else 1)


def warn_of_undefined(
    scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float] | None, setting: str, stacklevel: int
) -> None:
    """Name the regularisations without a score, if there are any.

    Parameters
    ----------
    scores : array of shape (…, n_alphas, n_task_alphas), or (…, n_alphas) without `task_alphas`
    alphas, task_alphas : sequences of float, or None
    setting : str
    stacklevel : int
        Of the warning, as seen from here.
    """
    columns = [1.0] if task_alphas is None else task_alphas
    missing = np.isnan(scores).reshape(-1, len(alphas), len(columns)).any(axis=0)
    if not missing.any():
        return
    whole = missing.all(axis=1)
    words = [f"alpha {alphas[row]:g}" for row in np.flatnonzero(whole).tolist()]
    single = np.argwhere(missing & ~whole[:, None])
    words += [f"alpha {alphas[row]:g} with task_alpha {columns[column]:g}" for row, column in single.tolist()]
    more = f" and {len(words) - 5} more" if len(words) > 5 else ""
    warnings.warn(
        f"In setting {setting} there is no score for {', '.join(words[:5])}{more}, where the model interpolates what "
        "is to be left out, or the metric is undefined: NaN stands there, and is not chosen. Leave such values out.",
        UndefinedScoreWarning,
        stacklevel=stacklevel + 1,
    )
