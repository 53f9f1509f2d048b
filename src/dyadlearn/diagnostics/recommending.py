"""Pairs that nobody has tried yet: the likeliest ones, for what is known, for what is new, and of the whole grid."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import row_blocks, to_numpy
from dyadlearn._checks import check_count
from dyadlearn._tables import Ids, free_name, write_rows
from dyadlearn.diagnostics.best import best_cells, best_in_rows, merged
from dyadlearn.diagnostics.fitted import asked_of, held_out, ids_at, ids_of, is_network, labelled_model
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._inputs import positions
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["RecommendationLists", "Recommendations", "TopPairs", "recommend", "top_pairs"]

# How many cells are looked at in one go, and how many columns of them where these are made block by block too.
_CELLS, _WIDTH = 2**22, 2**10

_FROM_ALL = "predicted from all observed labels"
_NO_CONSTANT = (
    "for want of labels of the tasks to take constants from: use fit_intercept=False, or a model that knows tasks."
)


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """The best tasks for an instance, or the best instances for a task, as `recommend` found them.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subject : id or position
        The instance or task they are recommended for.
    ids : tuple of length k
        What is recommended, best first: ids, or positions where the labels have no ids.
    scores, labels : arrays of shape (k,)
        Held-out predictions, and what the labels say: NaN where they say nothing, else 0.
    setting : str
        What was left out for each prediction.
    method : str
        How the predictions were made.
    sides : SideNames
        What one of each side is called.
    """

    of: str
    subject: Hashable
    ids: tuple[Hashable, ...]
    scores: np.ndarray
    labels: np.ndarray
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        best = ", ".join(f"{name!r} ({score:.3g})" for name, score in zip(self.ids[:3], self.scores[:3], strict=True))
        words = _counted(len(self), self.of, self.sides)
        return f"Recommendations({words} for {self.subject!r}: {best}{', …' if len(self) > 3 else ''})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the recommendations as named columns, for a data frame or a file."""
        name = self.sides.task if self.of == "tasks" else self.sides.instance
        return {
            free_name(name, ("score", "label")): list(self.ids),
            "score": self.scores.tolist(),
            "label": _labels(self.labels),
        }

    def frame(self) -> Any:
        """Return the recommendations as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


@dataclass(frozen=True, eq=False, repr=False)
class RecommendationLists:
    """The best tasks for each of several instances, or the best instances for each of several tasks.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subjects : tuple of length a
        What it is recommended for: ids, or positions where there are none.
    ids : tuple of length a, of tuples
        The list of each, best first: at most k ids, or positions where there are none.
    scores : array of shape (a, k)
        Predictions; NaN at the end of a list that is shorter.
    labels : array of shape (a, k) or None
        What the labels say: NaN where they say nothing, else 0. None where the subjects are new and have none.
    setting : str
        What is new about the pairs, or was left out for each prediction.
    method : str
        How the predictions were made.
    sides : SideNames
        What one of each side is called.
    """

    of: str
    subjects: tuple[Hashable, ...]
    ids: tuple[tuple[Hashable, ...], ...]
    scores: np.ndarray
    labels: np.ndarray | None
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.subjects)

    def __repr__(self) -> str:
        subjects = _counted(len(self), "instances" if self.of == "tasks" else "tasks", self.sides)
        words = _counted(self.scores.shape[1], self.of, self.sides)
        return f"RecommendationLists({words} each for {subjects}, setting {self.setting})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the lists as named columns in long form, one list below the other, for a data frame or a file."""
        filled = np.arange(self.scores.shape[1]) < np.array([len(own) for own in self.ids])[:, None]
        pairs = [(subject, other) for subject, own in zip(self.subjects, self.ids, strict=True) for other in own]
        taken = ("score",) if self.labels is None else ("score", "label")
        headings = self.sides.headings(taken)
        headings = headings if self.of == "tasks" else headings[::-1]
        found = {heading: [pair[place] for pair in pairs] for place, heading in enumerate(headings)}
        found["score"] = self.scores[filled].tolist()
        return found if self.labels is None else found | {"label": _labels(self.labels[filled])}

    def frame(self) -> Any:
        """Return the lists in long form as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


@dataclass(frozen=True, eq=False, repr=False)
class TopPairs:
    """The likeliest pairs that are not observed, as `top_pairs` found them.

    Attributes
    ----------
    instances, tasks : tuple of length k
        The pairs, best first: ids, or positions where the labels have no ids.
    scores, labels : arrays of shape (k,)
        Predictions, and what the labels say: NaN where they say nothing, else 0.
    setting : str
        What was left out for each prediction.
    method : str
        How the predictions were made.
    sides : SideNames
        What one of each side is called.
    """

    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    scores: np.ndarray
    labels: np.ndarray
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        best = f"({self.instances[0]!r}, {self.tasks[0]!r}), {self.scores[0]:.3g}"
        return f"TopPairs({len(self)} in setting {self.setting}, best {best})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the pairs as named columns, for a data frame or a file."""
        first, second = self.sides.headings(("score", "label"))
        return {
            first: list(self.instances),
            second: list(self.tasks),
            "score": self.scores.tolist(),
            "label": _labels(self.labels),
        }

    def frame(self) -> Any:
        """Return the pairs as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


def recommend(
    model: Any,
    *,
    instance: Any = None,
    task: Any = None,
    X: Any = None,
    tasks: Any = None,
    k: int = 10,
    setting: str | Setting = "A",
    zeros: bool | None = None,
    cv: int | None = None,
    sides: Sequence[str] | None = None,
) -> Recommendations | RecommendationLists:
    """Name the best tasks for an instance, or the best instances for a task: known ones, or new ones.

    Of what is known, cells that are not observed are ranked by predictions that never saw them, so that a zero does not
    speak for itself. What is new has no labels: all tasks, or instances, are ranked by the model's own predictions,
    which are made in blocks and never all there at once. A node of a network is not recommended to itself, unless such
    pairs are observed.

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or position where the labels have no ids, or a list of them
        What to recommend for: one of them, or `X` or `tasks`.
    X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel
        New instances to recommend tasks for, as `predict` takes them.
    tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q)
        New tasks. Beside `X` they are what is recommended, in place of those of training; by themselves they are what
        instances of training are recommended for.
    k : int, default=10
        How many to name; fewer where there are fewer.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        What else the predictions for what is known do without: nothing (A), all labels of the instance (B), of the task
        (C), of both (D).
    zeros : bool, default=None
        Whether a label of zero means that nobody has looked. None says so of grids that hold nothing but zeros and
        ones, missing labels aside.
    cv : int, default=None
        Number of folds where labels are missing or weighted and no shortcut exists; None is five.
    sides : (str, str), default=None
        What an instance and a task are called in words and in names of columns, such as ``("user", "film")``.

    Returns
    -------
    Recommendations, or RecommendationLists
        One list for one `instance` or `task`; for a list of them, `X` or `tasks`, a list for each.

    See Also
    --------
    top_pairs : the likeliest pairs of the whole grid.
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, recommend
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X = T = np.array([[1.0, 0.1], [0.8, 0.0], [0.1, 0.9], [0.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> recommend(model, instance=1, k=1)
    Recommendations(1 task for 1: 1 (0.853))
    >>> found = recommend(model, X=[[1.0, 0.0], [0.0, 1.0]], k=2, sides=("user", "film"))
    >>> found
    RecommendationLists(2 films each for 2 users, setting B)
    >>> found.ids
    ((0, 1), (3, 2))
    """
    check_count(k, "k")
    given = {"instance": instance, "task": task, "X": X, "tasks": tasks}
    found = [name for name, value in given.items() if value is not None]
    if found not in (["instance"], ["task"], ["X"], ["tasks"], ["X", "tasks"]):
        raise ValueError(
            "Say what to recommend for: give either instance= or task=, which are known, or X= or tasks=, which are "
            f"new; found {' and '.join(f'{name}=' for name in found) or 'none of them'}."
        )
    if X is None and tasks is None:
        return _for_known(model, instance, task, k, setting, zeros, cv, sides)
    own = Setting.C if X is None else Setting.B if tasks is None else Setting.D
    if zeros is not None or cv is not None or as_setting(setting) not in (Setting.A, own):
        raise ValueError(
            "What is new has no labels to leave out: leave setting=, zeros= and cv= to instance= and task=, which are "
            "known."
        )
    return _for_new(model, X, tasks, k, own, sides)


def top_pairs(
    model: Any,
    *,
    k: int = 20,
    zeros: bool | None = None,
    setting: str | Setting = "A",
    cv: int | None = None,
    sides: Sequence[str] | None = None,
) -> TopPairs:
    """Name the likeliest pairs of the whole grid that are not observed.

    Zeros that count as not observed are ranked by predictions that never saw them, missing labels by what the model
    itself predicts. The grid is gone through in blocks of rows; of equal pairs the first in the order of rows are
    named.

    In a network each pair is named once, in the direction that is predicted to be positive where labels are
    antisymmetric. Pairs of a node with itself are left out, unless some such pair is observed.

    Parameters
    ----------
    model : fitted estimator
    k : int, default=20
        How many to name; fewer where there are fewer.
    zeros, setting, cv, sides
        As in `recommend`.

    Returns
    -------
    TopPairs

    See Also
    --------
    recommend : the best for one instance or task, or for new ones.
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, top_pairs
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X = T = np.array([[1.0, 0.1], [0.8, 0.0], [0.1, 0.9], [0.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> top_pairs(model, k=2, sides=("user", "film")).columns()["film"]
    [2, 1]
    """
    fitted, labels, chosen = asked_of(model, setting, k)
    symmetry = fitted._problem().pairing.symmetry
    names = side_names(sides, network=symmetry != 0)
    Y = labels.values
    zeros = _zeros_are_unobserved(Y, zeros)
    guesses = _guesses(fitted, Y, chosen, zeros, cv, has_zeros=zeros and bool((Y == 0).any()))
    rows, columns = best_cells(_of_the_grid(guesses, symmetry), k)
    if not rows.size:
        if _any_unobserved(guesses, symmetry):
            raise ValueError(f"Nothing is predicted for any pair that is not observed, {_NO_CONSTANT}")
        raise ValueError(f"Every pair is observed, so there is none to name{_hint(zeros)}.")
    scores = guesses.at(rows, columns)
    if symmetry < 0:
        turned = scores < 0
        rows, columns, scores = np.where(turned, columns, rows), np.where(turned, rows, columns), np.abs(scores)
    ids = ids_at(labels.row_ids, rows), ids_at(labels.column_ids, columns)
    return TopPairs(*ids, scores, Y[rows, columns], chosen.value, guesses.method, names)


# What is known ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Guesses:
    """What is said of cells that are not observed.

    Attributes
    ----------
    Y : array of shape (m, q)
        Labels, NaN where missing.
    zeros : bool
        Whether zeros count as not observed.
    F : array of shape (m, q)
        Predictions that never saw their cells.
    missing : array of shape (m, q) or None
        Predictions that take their place where labels are missing.
    method : str
    """

    Y: np.ndarray
    zeros: bool
    F: np.ndarray
    missing: np.ndarray | None
    method: str

    @property
    def transposed(self) -> _Guesses:
        """The same with tasks for instances."""
        return replace(self, Y=self.Y.T, F=self.F.T, missing=None if self.missing is None else self.missing.T)

    @property
    def has_selves(self) -> bool:
        """Whether some pair of a node with itself is observed, in a network."""
        return not bool(_unobserved(np.diagonal(self.Y), self.zeros).all())

    def at(self, *places: Any) -> np.ndarray:
        """Return predictions of some cells."""
        if self.missing is None:
            return np.asarray(self.F[places])
        return np.asarray(np.where(np.isnan(self.Y[places]), self.missing[places], self.F[places]))

    def wanted(self, *places: Any) -> np.ndarray:
        """Tell which of some cells are not observed."""
        return _unobserved(self.Y[places], self.zeros)


def _unobserved(labels: np.ndarray, zeros: bool) -> np.ndarray:
    missing = np.asarray(np.isnan(labels))
    return missing | (labels == 0) if zeros else missing


def _zeros_are_unobserved(Y: np.ndarray, zeros: bool | None) -> bool:
    return bool(((Y == 0) | (Y == 1) | np.isnan(Y)).all()) if zeros is None else bool(zeros)


def _guesses(
    model: PairwiseRidge, Y: np.ndarray, setting: Setting, zeros: bool, cv: int | None, *, has_zeros: bool
) -> _Guesses:
    """Return predictions of the cells that are not observed; `has_zeros` tells whether zeros are among them."""
    completed = to_numpy(model._closed_problem.Y)
    if setting is Setting.A and not has_zeros:
        # What is missing was never seen: the model itself predicts it, from all that is known.
        return _Guesses(Y, zeros, completed, None, _FROM_ALL)
    F, method = held_out(model, setting, cv)
    return _Guesses(Y, zeros, F, completed if setting is Setting.A else None, method)


def _of_the_grid(guesses: _Guesses, symmetry: int) -> Iterator[tuple[int, np.ndarray]]:
    """Return what is said of all cells in blocks of rows, NaN where they are observed or stand for another."""
    (m, q), past = guesses.Y.shape, 0 if guesses.has_selves else 1
    for here in row_blocks(m, q, _CELLS):
        scores, wanted = guesses.at(here), guesses.wanted(here)
        if symmetry:
            wanted &= np.arange(q) >= np.arange(here.start, here.stop)[:, None] + past
            scores = np.abs(scores) if symmetry < 0 else scores
        yield here.start, np.where(wanted, scores, np.nan)


def _any_unobserved(guesses: _Guesses, symmetry: int) -> bool:
    alone = symmetry and not guesses.has_selves
    return int(guesses.wanted(slice(None)).sum()) > (len(guesses.Y) if alone else 0)


def _for_known(
    model: Any, instance: Any, task: Any, k: int, setting: Any, zeros: bool | None, cv: int | None, sides: Any
) -> Recommendations | RecommendationLists:
    fitted, labels, chosen = asked_of(model, setting, k)
    network = is_network(fitted)
    names = side_names(sides, network=network)
    axis, asked = (0, instance) if task is None else (1, task)
    subjects = list(asked) if isinstance(asked, list) or getattr(asked, "ndim", 0) == 1 else None
    if subjects == []:
        raise ValueError(f"The list of {names.both[axis]} to recommend for is empty: give at least one.")
    ids = (labels.row_ids, labels.column_ids)
    size = labels.values.shape[axis]
    named = (f"the {names.both[axis]}", ("instance", "task")[axis])
    places = positions([asked] if subjects is None else subjects, ids[axis], size, *named)
    Y = labels.values if axis == 0 else labels.values.T
    zeros = _zeros_are_unobserved(Y, zeros)
    blocks = [places[here] for here in row_blocks(len(places), Y.shape[1], _CELLS)]
    has_zeros = zeros and any(bool((Y[block] == 0).any()) for block in blocks)
    guesses = _guesses(fitted, labels.values, chosen, zeros, cv, has_zeros=has_zeros)
    guesses = guesses if axis == 0 else guesses.transposed
    best, scores, n_wanted = [], [], 0
    for block in blocks:
        wanted = guesses.wanted(block)
        if network and not guesses.has_selves:
            wanted[np.arange(len(block)), block] = False
        n_wanted += int(wanted.sum())
        values = np.where(wanted, guesses.at(block), np.nan)
        best.append(best_in_rows(values, k))
        scores.append(np.take_along_axis(values, best[-1], axis=1))
    found, values = np.concatenate(best), np.concatenate(scores)
    if np.isnan(values).all():
        whom = repr(asked) if subjects is None else f"these {names.both[axis]}"
        if n_wanted:
            raise ValueError(f"Nothing is predicted for {whom}, {_NO_CONSTANT}")
        raise ValueError(f"Every label of {whom} is observed, so there is nothing to recommend{_hint(zeros)}.")
    of = ("tasks", "instances")[axis]
    known = np.where(np.isnan(values), np.nan, np.take_along_axis(Y[places], found, axis=1))
    lists = _lists(of, ids_at(ids[axis], places), ids[1 - axis], found, values, known, chosen, guesses.method, names)
    if subjects is not None:
        return lists
    (own,), n = lists.ids, len(lists.ids[0])
    return Recommendations(of, asked, own, values[0, :n], known[0, :n], chosen.value, guesses.method, names)


def _hint(zeros: bool) -> str:
    return "" if zeros else "; zeros=True takes zeros for not observed"


# What is new --------------------------------------------------------------------------------------


def _for_new(model: Any, X: Any, tasks: Any, k: int, setting: Setting, sides: Any) -> RecommendationLists:
    fitted, known, network = _predictor(model)
    names = side_names(sides, network=network)
    if X is None and fitted.grows:
        raise ValueError(
            f"{type(model).__name__} keeps no instances to recommend: give some by X=, beside tasks= or without, or "
            "fit TwoStepRidge on the labels."
        )
    made: Expansion = fitted._expansion()
    task_table, task_rows = fitted._task_rows(tasks)
    if X is None:
        of, subjects, rows, others, ids, made = "instances", task_table, task_rows, None, known[0], made.transposed
    else:
        subjects, rows = fitted._instance_rows(X)
        of, others, ids = "tasks", task_rows, known[1] if tasks is None else task_table.row_ids
    places, scores = _best_new(made, rows, others, k)
    if np.isnan(scores).all():
        raise ValueError(f"Nothing is predicted for any of the {names.tasks}, {_NO_CONSTANT}")
    whom = ids_at(subjects.row_ids, np.arange(len(scores)))
    return _lists(of, whom, ids, places, scores, None, setting, _FROM_ALL, names)


def _predictor(model: Any) -> tuple[Any, tuple[Ids | None, Ids | None], bool]:
    """Return what predicts for new rows, the ids of those it has learnt, and whether both sides are the same nodes."""
    found = getattr(model, "model_", model)
    if getattr(found, "grows", False):  # no labels are needed
        check_is_fitted(found)
        return found, found._ids, False
    fitted = labelled_model(model)
    return fitted, ids_of(model), is_network(fitted)


def _best_new(made: Expansion, rows: NewRows, others: NewRows | None, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of the columns stand for each new row, and their predictions.

    Parameters
    ----------
    made : Expansion
    rows : NewRows
        The a rows to recommend for.
    others : NewRows or None
        What is recommended; None stands for the columns of training.
    k : int

    Returns
    -------
    (integer array, array) of shape (a, min(k, n)) each
    """
    n = made.n_tasks if others is None else others.size
    # New columns are many where there are many; those of training are as many as the coefficients bear.
    columns = [slice(0, n)] if others is None else list(row_blocks(n, 1, _WIDTH))
    places, scores = [], []
    begun, rest = (rows, made) if others is None else (rows.before(made.instances), replace(made, instances=None))
    for here in row_blocks(rows.size, max(columns[0].stop, max(begun.width, rows.values.shape[1]) // 4), _CELLS):
        best = None
        if others is None:
            part = replace(rows, values=rows.values[here, :])
        else:  # what a row comes to is computed once for all columns
            part = NewRows(begun.at(here), lambda block: block, 0)
        for there in columns:
            across = None if others is None else replace(others, values=others.values[there, :])
            best = merged(best, to_numpy(rest.grid(part, across)), there.start, k)
        assert best is not None
        places.append(best[0])
        scores.append(best[1])
    return np.concatenate(places), np.concatenate(scores)


# Words --------------------------------------------------------------------------------------------


def _lists(
    of: str,
    subjects: tuple[Hashable, ...],
    ids: Ids | None,
    places: np.ndarray,
    scores: np.ndarray,
    labels: np.ndarray | None,
    setting: Setting,
    method: str,
    names: SideNames,
) -> RecommendationLists:
    """Return lists of ids, each as long as it has predictions."""
    lengths = np.count_nonzero(~np.isnan(scores), axis=1)
    longest = int(lengths.max())
    own = tuple(ids_at(ids, row[:length]) for row, length in zip(places, lengths, strict=True))
    labels = None if labels is None else labels[:, :longest]
    return RecommendationLists(of, subjects, own, scores[:, :longest], labels, setting.value, method, names)


def _counted(count: int, of: str, names: SideNames) -> str:
    one, several = (names.task, names.tasks) if of == "tasks" else (names.instance, names.instances)
    return f"{count:,} {several if count != 1 else one}"


def _labels(labels: np.ndarray) -> list[float | None]:
    return [None if np.isnan(label) else label for label in labels.tolist()]
