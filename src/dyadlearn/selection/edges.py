"""Best values of a search that are on the edge of their grid, and warnings about what was chosen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._checks import caller_level
from dyadlearn._messages import Message
from dyadlearn.exceptions import BaselineWarning, GridEdgeWarning
from dyadlearn.metrics import scorer
from dyadlearn.metrics.cells import as_good, best_point
from dyadlearn.models.fitted import as_fitted
from dyadlearn.selection.evaluate import nothing_learnt
from dyadlearn.selection.searching import FittedSearch

# A score at the edge of a default grid is reported if it is better than all scores inside by more
# than this share of the loss: beyond the edge, scores are constant up to about as much.
_WORTH_MENTIONING = 1e-4


def best_kernel(search: Any) -> np.ndarray:
    """Return the landscape (n_alphas, …) at the chosen kernel parameters and shares.

    With ``alpha_per_task=True`` it is the mean over tasks.

    Parameters
    ----------
    search : fitted search, or its `fitted_`
    """
    choice = as_fitted(search).choice
    if as_fitted(search).search.alpha_per_task:
        return np.asarray(np.nanmean(choice.landscape, axis=1))
    grids = [choice.alphas]
    if choice.task_alphas is not None:
        grids.append(choice.task_alphas)
    scores = choice.landscape.reshape(-1, *(values.size for values in grids))
    return np.asarray(scores[best_point(scores, *grids)[0]])


@dataclass(frozen=True)
class Edge:
    """Best value of a regularisation that is on the edge of its grid, and better than all values inside.

    Attributes
    ----------
    name : str
        ``"alpha"`` or ``"task_alpha"``.
    best, least, greatest : float
        The best value, and the edges of the grid.
    is_default : bool
        Whether the grid was not given.
    of_tasks : str
        Of how many tasks the best value is on an edge, in words, if each task has a regularisation;
        `best` is then the edge of most of them.
    """

    name: str
    best: float
    least: float
    greatest: float
    is_default: bool
    of_tasks: str = ""

    @property
    def is_least(self) -> bool:
        """Whether the best value is the smallest one."""
        return self.best == self.least

    def note(self, write: Callable[[float], str] = "{:g}".format) -> str:
        """Return a sentence that says what to do; `write` returns a number as text."""
        which = self.of_tasks or f", {write(self.best)},"
        limits = f"{write(self.least)} … {write(self.greatest)}"
        if not self.is_default:
            return f"The best {self.name}{which} is on the edge of the grid ({limits}): widen the grid."
        return Message(
            "The best {name}{which} is on the edge of the default grid ({limits}): give {direction} "
            "<{values}=>.",
            name=self.name,
            which=which,
            limits=limits,
            direction="smaller" if self.is_least else "larger",
            values=f"{self.name}s",
        )


def edges_of(search: Any) -> list[Edge]:
    """Return the best values that are on the edge of their grid and better than all values inside it.

    A default grid is wide, and beyond most edges scores do not change. So an edge of a default grid
    counts only if its loss is smaller by more than a ten-thousandth; the loss is an error, or one
    minus another score. The same holds if each task has a regularisation, because some of many
    tasks are noise. If the baselines are as good, the greatest value of a default grid does not
    count: it predicts means, as the baselines do, and greater values would too.

    Parameters
    ----------
    search : fitted search, or its `fitted_`
    """
    fitted: FittedSearch = as_fitted(search)
    if fitted.only_label is not None:
        return []
    landscape = fitted.choice.landscape
    scores = np.where(np.isnan(landscape), -np.inf, landscape)
    if fitted.search.alpha_per_task:
        edges = _edge_of_tasks(fitted, scores)
    else:
        edges = _edges_of_sides(fitted, scores)
    predicts_means = [edge.is_default and not edge.is_least for edge in edges]
    if any(predicts_means) and nothing_was_learnt(fitted) is not None:
        return [edge for edge, means in zip(edges, predicts_means, strict=True) if not means]
    return edges


def nothing_was_learnt(fitted: FittedSearch) -> str | None:
    """Return a note if the best score is not better than that of the baselines; else None."""
    name = scorer(fitted.scoring).name
    setting = fitted.validation.setting
    return nothing_learnt(name, setting, fitted.choice.best_score, fitted.baselines)


def warn_of_choice(fitted: FittedSearch) -> None:
    """Warn if all labels are equal, if the baselines are as good as the best score, or of an edge of the grid."""
    only = fitted.only_label
    if only is not None:
        message = f"All labels are {only:g}: there is nothing to learn."
        warnings.warn(message, UserWarning, stacklevel=caller_level())
        return
    for edge in edges_of(fitted):
        warnings.warn(edge.note(), GridEdgeWarning, stacklevel=caller_level())
    note = nothing_was_learnt(fitted)
    if note is not None:
        warnings.warn(note, BaselineWarning, stacklevel=caller_level())


def _edges_of_sides(fitted: FittedSearch, scores: np.ndarray) -> list[Edge]:
    """Return the edges of one or two grids."""
    grids = {"alpha": fitted.choice.alphas, "task_alpha": fitted.choice.task_alphas}
    if grids["task_alpha"] is None:
        n_columns = 1
    else:
        n_columns = grids["task_alpha"].size
    scores = scores.reshape(-1, fitted.choice.alphas.size, n_columns)
    edges = []
    for name, axes in (("alpha", (0, 2)), ("task_alpha", (0, 1))):
        values = grids[name]
        if values is None or not _is_on_edge(values, scores.max(axis=axes), _slack(fitted, name)):
            continue
        best = float(fitted.alphas[name])
        is_default = fitted.search.has_default(name)
        edges.append(Edge(name, best, float(values.min()), float(values.max()), is_default))
    return edges


def _slack(fitted: FittedSearch, name: str) -> Callable[[float], float]:
    """Return by how much scores inside the grid of a regularisation may be worse than the best score, a function."""
    judge = scorer(fitted.scoring)
    perfect = 0.0 if judge.name.startswith("neg_") or judge.is_function else 1.0
    if fitted.search.has_default(name) or fitted.search.alpha_per_task:
        share = _WORTH_MENTIONING
    else:
        share = 0.0
    return lambda top: share * abs(perfect - top)


def _is_on_edge(values: np.ndarray, scores: np.ndarray, slack: Callable[[float], float]) -> bool:
    """Return whether the values (n,) with the best scores (n,) are all on the edge of the grid."""
    top = float(scores.max())
    best = values[as_good(scores, top - slack(top))]
    least = values.min()
    greatest = values.max()
    return bool(least < greatest and not ((best > least) & (best < greatest)).any())


def _edge_of_tasks(fitted: FittedSearch, scores: np.ndarray) -> list[Edge]:
    """Return the edge with the number of tasks whose best values are there; nothing if there are none."""
    values = fitted.choice.alphas
    least = float(values.min())
    greatest = float(values.max())
    has_score = np.isfinite(scores).any(axis=0)
    slack = _slack(fitted, "alpha")
    on_edge = [
        has and _is_on_edge(values, column, slack)
        for has, column in zip(has_score, scores.T, strict=True)
    ]
    best = fitted.alphas["alpha"][np.asarray(on_edge)]
    if not best.size:
        return []
    most = least if 2 * np.count_nonzero(best == least) >= best.size else greatest
    is_default = fitted.search.has_default("alpha")
    of_tasks = f" of {best.size} of {scores.shape[1]} tasks"
    return [Edge("alpha", most, least, greatest, is_default, of_tasks)]
