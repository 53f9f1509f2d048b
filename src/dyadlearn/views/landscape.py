"""Scores over a grid of one or two λ, their loss against the best score, and the levels of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._checks import check_alphas
from dyadlearn._messages import Message, message_of
from dyadlearn._registry import listed
from dyadlearn._text import joined
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import plan
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.cells import best_point
from dyadlearn.models.fitted import Fitted, FittedRidge, as_fitted
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.selection.edges import best_kernel
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.selection.landscape import grids_of, landscape
from dyadlearn.settings import Setting, as_setting

_FROM_SCORES = "use LandscapeDisplay.from_landscape with the scores of dyadlearn.landscape"
# Maximum number of levels that a reader can distinguish by their colours.
_MOST_LEVELS = 9


@dataclass(frozen=True, eq=False)
class DrawnLandscape:
    """Part of a landscape with positive regularisations, in ascending order.

    Attributes
    ----------
    names : tuple of str
        Regularisations with more than one value: ``"alpha"``, ``"task_alpha"`` or both.
    values : list of arrays of shape (n,) each
        Values of these regularisations.
    scores, loss : arrays of shape (n,), or (n_alphas, n_task_alphas)
        Scores, and their differences from the best score; NaN if there is none.
    """

    names: tuple[str, ...]
    values: list[np.ndarray]
    scores: np.ndarray
    loss: np.ndarray

    @property
    def powers(self) -> list[np.ndarray]:
        """Logarithms of the values to base 10."""
        return [np.log10(values) for values in self.values]

    @property
    def edges(self) -> list[np.ndarray]:
        """Edges of the cells of the values, as logarithms to base 10, of shape (n + 1,) each."""
        edges = []
        for powers in self.powers:
            middle = (powers[1:] + powers[:-1]) / 2
            first = 2 * powers[0] - middle[0]
            last = 2 * powers[-1] - middle[-1]
            edges.append(np.concatenate([[first], middle, [last]]))
        return edges


@dataclass(frozen=True, eq=False)
class LandscapeView:
    """Scores of one setting at every regularisation.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
        Scores; greater is better; NaN if there is none.
    alphas : array of shape (n_alphas,)
    task_alphas : array of shape (n_task_alphas,) or None
    alpha : float
        The chosen regularisation.
    task_alpha : float or None
    best_score : float
    setting : Setting or None
    scoring : str
        Name of the score.

    Examples
    --------
    >>> from dyadlearn.views.landscape import landscape_of_scores
    >>> view = landscape_of_scores([[0.5, 0.9, 0.9], [0.8, 0.7, 0.6]], [1.0, 0.1], [0.0, 1.0, 10.0])
    >>> view.best, view.zeros
    ((0.9, 1.0, 10.0), ['task_alpha'])
    >>> view.drawn.names, view.drawn.scores
    (('alpha', 'task_alpha'), array([[0.7, 0.6],
           [0.9, 0.9]]))
    """

    scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    alpha: float | None = None
    task_alpha: float | None = None
    best_score: float = math.nan
    setting: Setting | None = None
    scoring: str = "score"

    @property
    def evaluated(self) -> str:
        """Number of points of the grid that have a score, in words; empty if all have one."""
        n_scored = np.count_nonzero(~np.isnan(self.scores))
        if n_scored == self.scores.size:
            return ""
        return f"{n_scored:,} of {self.scores.size:,} points evaluated"

    @property
    def grids(self) -> dict[str, np.ndarray]:
        """The values of the one or two regularisations, by their names."""
        if self.task_alphas is None:
            return {"alpha": self.alphas}
        return {"alpha": self.alphas, "task_alpha": self.task_alphas}

    @property
    def best(self) -> tuple[float, ...]:
        """Best score of the grid, and its one or two regularisations."""
        place = best_point(self.scores, *self.grids.values())
        alphas = (float(values[at]) for values, at in zip(self.grids.values(), place, strict=False))
        return float(self.scores[place]), *alphas

    def power(self, name: str) -> float:
        """Return the logarithm of the chosen ``"alpha"`` or ``"task_alpha"`` to base 10, NaN for 0 and None."""
        chosen = getattr(self, name)
        return float(np.log10(chosen)) if chosen else math.nan

    @property
    def zeros(self) -> list[str]:
        """Regularisations with a value of 0, which has no logarithm and is not drawn."""
        return [name for name, values in self.grids.items() if (values == 0).any()]

    @cached_property
    def drawn(self) -> DrawnLandscape | None:
        """Part that can be drawn; None if there are fewer than two values of a regularisation."""
        grids = self.grids
        places = {name: _ascending(values) for name, values in grids.items()}
        names = tuple(name for name, place in places.items() if place.size > 1)
        if not names or not all(place.size for place in places.values()):
            return None
        scores = self.scores[np.ix_(*places.values())]
        if len(names) < len(places):  # a single value of one of them leaves a line over the other
            scores = scores.ravel()
        values = [grids[name][places[name]] for name in names]
        loss = np.maximum(np.nanmax(self.scores) - scores, 0.0)
        return DrawnLandscape(names, values, scores, loss)


def landscape_of_search(model: Any) -> LandscapeView:
    """Return the landscape of a fitted search, for its best kernel parameters.

    If each task has a regularisation, the scores are means over all tasks, and the best one is that
    of these means.
    """
    wrapped = model.model if isinstance(model, PairRegressor) else model
    if not getattr(wrapped, "searches", False):
        if isinstance(wrapped, Fitted):
            name = wrapped.name
        else:
            name = type(wrapped).__name__
        raise TypeError(
            f"model must be a {listed(searches=True)}, found {name}: for a model without search "
            f"{_FROM_SCORES}."
        )
    fitted = as_fitted(model)
    if fitted.learns_kernels:
        raise TypeError(
            f"{fitted.name} has learned its regularisation with its kernels: {_FROM_SCORES} for "
            f"these kernels."
        )
    choice = fitted.choice
    view = landscape_of_scores(
        best_kernel(fitted),
        choice.alphas,
        choice.task_alphas,
        setting=fitted.searched_setting,
        scoring=fitted.scoring,
    )
    alpha = fitted.alphas["alpha"]
    if np.ndim(alpha):
        return view
    task_alpha = fitted.alphas.get("task_alpha")
    return replace(view, alpha=alpha, task_alpha=task_alpha, best_score=choice.best_score)


def landscape_of_scores(
    scores: Any,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    *,
    setting: str | Setting | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
) -> LandscapeView:
    """Return scores with the best of them chosen; the parameters are those of `LandscapeDisplay.from_landscape`."""
    if isinstance(scores, dict):
        entries = ", ".join(scores)
        raise TypeError(
            f"scores must be the array of one setting, found a dict: take one of its entries, "
            f"{entries}."
        )
    values = np.asarray(scores, dtype=np.float64)
    rows = np.asarray(check_alphas(alphas, "alphas"))
    columns = None
    expected: tuple[int, ...] = (len(rows),)
    names = "alphas"
    if values.ndim == 2:
        columns = np.asarray(check_alphas(task_alphas, "task_alphas"))
        expected = (len(rows), len(columns))
        names = "alphas and task_alphas"
    if values.shape != expected:
        raise ValueError(
            f"scores must have shape {expected} for these {names}, found shape {values.shape}."
        )
    if np.isnan(values).all():
        raise ValueError("scores are all NaN: there is no best one.")
    chosen = None if setting is None else as_setting(setting)
    name = "score" if scoring is None else scorer(scoring).name
    view = LandscapeView(values, rows, columns, setting=chosen, scoring=name)
    best_score, *best = view.best
    alphas_of_best: dict[str, Any] = dict(zip(view.grids, best, strict=True))
    return replace(view, best_score=best_score, **alphas_of_best)


def landscapes_of_model(
    fitted: FittedRidge,
    settings: Sequence[Setting],
    judge: Scorer,
    *,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    **left_out: Any,
) -> tuple[list[LandscapeView], list[str]]:
    """Return the landscapes of some settings, and notes about those that are left out.

    Parameters
    ----------
    fitted : FittedRidge
    settings : sequence of Setting
    judge : Scorer
    alphas, task_alphas : iterables of float, default=None
        Regularisations; None means those of the search or, without a search,
        `dyadlearn.selection.default_alphas`.
    **left_out
        ``groups``, ``task_groups`` and ``cv``, in the order of the training data, and ``progress``; as in
        `dyadlearn.landscape`.
    """
    obstacle = _obstacle(fitted)
    if obstacle:
        return [], [obstacle]
    views: dict[Setting, LandscapeView] = {}
    notes: list[str] = []
    wanted = list(settings)
    together = {
        name: value for name, value in left_out.items() if name != "progress" and value is not None
    }
    is_usual = alphas is None and task_alphas is None
    searched = fitted.searched_setting
    is_stored = fitted.searches and scorer(scoring_of(fitted)) == judge
    if searched in wanted and is_usual and is_stored and not together:
        wanted.remove(searched)
        views[searched] = landscape_of_search(fitted)
    slow = []
    if is_usual:
        slow = [setting for setting in wanted if _is_slow(fitted, setting, together)]
        wanted = [setting for setting in wanted if setting not in slow]
    if slow:
        letters = joined([setting.value for setting in slow])
        notes.append(
            Message(
                "The landscape of setting {letters} is slow and left out[: it is drawn if alphas= "
                "are given|].",
                letters=letters,
            )
        )
    rows, columns = _grids(fitted, alphas, task_alphas)
    options = {"alphas": rows, "task_alphas": columns, "scoring": judge, **left_out}
    scores, refused = _scores(fitted, wanted, options)
    chosen = _chosen(fitted)
    for letter, values in scores.items():
        if not np.isnan(values).all():
            view = landscape_of_scores(values, rows, columns, setting=letter, scoring=judge)
            views[Setting(letter)] = replace(view, **chosen)
    in_order = [views[setting] for setting in settings if setting in views]
    return in_order, notes + refused


def _obstacle(fitted: FittedRidge) -> str:
    """Return why a model has no landscape, or an empty text."""
    fixed = [side.filter for side in fitted.pairing.smoothers if not side.filter.uses_alpha()]
    if fixed:
        return (
            f"{fixed[0]} does not depend on the regularisation, so there is no landscape over it."
        )
    if fitted.learns_kernels:
        return (
            "There is no landscape of a search for kernels: use dyadlearn.landscape for the "
            "learned kernels."
        )
    return ""


def _is_slow(fitted: FittedRidge, setting: Setting, together: dict[str, Any]) -> bool:
    """Return whether every regularisation needs a separate solve."""
    how = plan(fitted.problem, setting, **together)
    return how.swept is None and (how.n_solves > 0 or how.problem.pairing.knows_tasks)


def _grids(
    fitted: FittedRidge, alphas: Iterable[float] | None, task_alphas: Iterable[float] | None
) -> tuple[Any, Any]:
    """Return the regularisations of a landscape: those of a search, unless others are given."""
    if fitted.searches and alphas is None:
        alphas = fitted.choice.alphas
    if fitted.searches and task_alphas is None:
        task_alphas = fitted.choice.task_alphas
    return grids_of(fitted.problem, alphas, task_alphas)


def _scores(
    fitted: FittedRidge, settings: Sequence[Setting], options: dict[str, Any]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the scores of each setting by its letter, and notes about settings without scores."""
    if not settings:
        return {}, []
    try:
        return landscape(fitted, setting=settings, **options), []
    except LeverageError as error:
        if len(settings) == 1:
            note = Message(
                "There is no landscape of setting {setting}. {reason}",
                setting=settings[0].value,
                reason=message_of(error),
            )
            return {}, [note]
    # At least one of the settings has no landscape: each is computed on its own.
    scores: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for setting in settings:
        scores_of_one, notes_of_one = _scores(fitted, [setting], options)
        scores |= scores_of_one
        notes += notes_of_one
    return scores, notes


def _chosen(fitted: FittedRidge) -> dict[str, Any]:
    """Return the regularisation of a model, to mark in a landscape."""
    alphas = fitted.training_problem.alphas
    if np.ndim(alphas["alpha"]):
        # Each task has a regularisation: the landscape marks the best for all.
        return {}
    return {name: alphas.get(name) for name in ("alpha", "task_alpha")}


def loss_levels(losses: np.ndarray) -> list[float]:
    """Return levels of the loss against the best score: 0, then 1, 2, 5, 10, … among most losses, then a maximum.

    Parameters
    ----------
    losses : array of any shape
        Losses, at least 0; NaN is ignored.

    Returns
    -------
    list of float
        Ascending, from 0 to at least the largest loss.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.landscape import loss_levels
    >>> loss_levels(np.array([0.0, 0.011, 0.03, 0.08, 0.3]))
    [0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    """
    above = losses[np.isfinite(losses) & (losses > 0)]
    if above.size == 0:
        return [0.0, 1.0]
    low, high, highest = (float(value) for value in np.quantile(above, [0.02, 0.9, 1.0]))
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(highest)) + 1)
    steps: list[float] = []
    for power in powers:
        steps += [float(f"{digit}e{power}") for digit in (1, 2, 5)]
    # Each step is at most 2.5 times the one before, so one of them is below the lowest loss.
    inside = [step for step in steps if low / 2.5 <= step <= high and step < highest]
    while len(inside) > _MOST_LEVELS:  # drop every second one, but not the highest
        inside = inside[::-1][::2][::-1]
    return [0.0, *inside, next(step for step in steps if step >= highest)]


def _ascending(alphas: np.ndarray) -> np.ndarray:
    """Return the positions of the distinct positive values, in ascending order."""
    values, first = np.unique(alphas, return_index=True)
    return first[values > 0]
