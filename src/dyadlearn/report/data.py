"""What a report shows, as plain numbers: nothing here knows how it will look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dyadlearn.metrics.choice import best_point
from dyadlearn.settings import Setting

__all__ = ["Degrees", "Labels", "Landscape", "Report", "Result", "Side"]


@dataclass(frozen=True, eq=False)
class Labels:
    """The grid of labels.

    Attributes
    ----------
    values : array of shape (m, q)
        NaN where not observed.
    instances, tasks : sequences of str, of length m and q
        Ids, or positions where there are none.
    instance_word, task_word : str
        What an instance and a task are called.
    is_network : bool
        Whether both sides are the same nodes, so that a pair stands in the grid twice.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.data import Labels
    >>> labels = Labels(np.array([[1.0, 0.0, np.nan]]), ["ann"], ["tea", "milk", "cola"])
    >>> labels.is_binary, labels.n_observed, labels.share_positive
    (True, 2, 0.5)
    """

    values: np.ndarray
    instances: Sequence[str]
    tasks: Sequence[str]
    instance_word: str = "instance"
    task_word: str = "task"
    is_network: bool = False

    @property
    def observed(self) -> np.ndarray:
        """Tell which cells have a label, of shape (m, q)."""
        return np.asarray(~np.isnan(self.values))

    @property
    def n_observed(self) -> int:
        """Number of cells that have a label."""
        return int(self.observed.sum())

    @property
    def is_complete(self) -> bool:
        """Whether every cell has a label."""
        return self.n_observed == self.values.size

    @property
    def distinct(self) -> np.ndarray:
        """Return the values that labels have, in ascending order."""
        return np.unique(self.values[self.observed])

    @property
    def is_binary(self) -> bool:
        """Whether labels are of exactly two values, the larger being the positive one."""
        return self.distinct.size == 2

    @property
    def positive(self) -> np.ndarray:
        """Tell which cells have the larger label, of shape (m, q)."""
        return np.asarray(self.values == self.distinct[-1])

    @property
    def share_positive(self) -> float:
        """Share of the larger label among the observed ones."""
        return float(self.positive.sum() / self.n_observed)

    def degrees(self) -> tuple[Degrees, Degrees]:
        """Return how many positive labels, or observed ones if they are not binary, each side has."""
        counted = self.positive if self.is_binary else self.observed
        return Degrees(counted.sum(axis=1)), Degrees(counted.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Degrees:
    """How many labels each instance or task has.

    Attributes
    ----------
    counts : integer array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.data import Degrees
    >>> levels, share = Degrees(np.array([1, 1, 3, 0])).at_least()
    >>> levels, share
    (array([0, 1, 3]), array([1.  , 0.75, 0.25]))
    """

    counts: np.ndarray

    def at_least(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the degrees that occur, and the share of those with so many or more."""
        levels, count = np.unique(self.counts, return_counts=True)
        return levels, np.cumsum(count[::-1])[::-1] / self.counts.size


@dataclass(frozen=True, eq=False)
class Side:
    r"""The spectrum of one side.

    Attributes
    ----------
    name : str
        ``"instances"``, ``"tasks"``, ``"nodes"`` of a network, or the ``"pairs"`` that a Kronecker model filters.
    n_rows, rank : int
    kernel : str
        In words.
    values : array of shape (k,)
        Eigenvalues in descending order; those that are left out are zero. None for pairs: there are too many.
    alpha : float or None
        Its own regularisation, if it has one.
    effective_dimension : float or None
        :math:`\sum_i f(\sigma_i)`, how many directions the filter lets through, if it has a filter of its own.
    """

    name: str
    n_rows: int
    rank: int
    kernel: str
    values: np.ndarray | None
    alpha: float | None
    effective_dimension: float | None


@dataclass(frozen=True, eq=False)
class Result:
    """How a model does in one setting.

    Attributes
    ----------
    setting : Setting
    is_own : bool
        Whether the regularisation was chosen for this setting.
    held_out : array of shape (m, q) or None
        Predictions without what the setting leaves out.
    score : float
        NaN where there is none.
    others : dict of str to float
        Further scores, by their names.
    n_undefined : int
        Instances or tasks that the score leaves out, for it is undefined there.
    method : str
        How the predictions were made.
    trouble : str or None
        Why there is no score.
    """

    setting: Setting
    is_own: bool
    held_out: np.ndarray | None
    score: float
    others: dict[str, float]
    n_undefined: int
    method: str
    trouble: str | None = None


@dataclass(frozen=True, eq=False)
class Landscape:
    """Scores of one setting over all regularisations.

    Attributes
    ----------
    setting : Setting
    is_own : bool
        Whether the regularisation was chosen here.
    scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
        Greater is better; NaN where there is none.
    alphas : array of shape (n_alphas,)
    task_alphas : array of shape (n_task_alphas,) or None
    chosen : tuple of float
        The regularisation of the model; several for a model with one for each task, none if it is not a number.
    chosen_task : float or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.data import Landscape
    >>> from dyadlearn.settings import Setting
    >>> map = Landscape(Setting.B, True, np.array([0.5, 0.7, 0.6]), np.array([0.1, 1.0, 10.0]), None, (1.0,), None)
    >>> map.best
    (0.7, 1.0, None)
    """

    setting: Setting
    is_own: bool
    scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    chosen: tuple[float, ...]
    chosen_task: float | None

    @property
    def best(self) -> tuple[float, float, float | None]:
        """Return the best score and the one or two regularisations it is found at."""
        place = best_point(self.scores, self.alphas, self.task_alphas)
        task_alpha = None if self.task_alphas is None else float(self.task_alphas[place[1]])
        return float(self.scores[place]), float(self.alphas[place[0]]), task_alpha


@dataclass(frozen=True, eq=False)
class Report:
    """All that a page shows.

    Attributes
    ----------
    title : str
    facts : list of (str, str)
        What the model is, in words.
    labels : Labels
    sides : list of Side
    scoring : str
        Name of the score.
    results : list of Result
    landscapes : list of Landscape
    cells : list of (int, int, float)
        Instance, task and contradiction of the cells that contradict their prediction most, the worst first.
    cell_setting : Setting or None
        Whose predictions these are: the best ones over all cells.
    warnings : list of str
        What a reader must mind.
    notes : list of str
        What a reader should know.
    """

    title: str
    facts: list[tuple[str, str]]
    labels: Labels
    sides: list[Side]
    scoring: str
    results: list[Result]
    landscapes: list[Landscape]
    cells: list[tuple[int, int, float]]
    cell_setting: Setting | None
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def result(self, setting: Setting | None) -> Result | None:
        """Return what was found in a setting, if it has predictions."""
        found = (each for each in self.results if each.setting is setting and each.held_out is not None)
        return next(found, None)
