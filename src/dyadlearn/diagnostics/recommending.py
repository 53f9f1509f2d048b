r"""Recommendations: the best unobserved pairs of an instance or a task, or of the whole grid.

Predictions of a rows and n columns are
:math:`\boldsymbol\Phi_*\,\mathbf{W}\,\boldsymbol\Psi_*^\top`, usually far more than are listed. The
coefficients :math:`\mathbf{W}` (r × s) are first multiplied by the side that is cheaper: by the
rows, which leaves a·s·n products, or once by the columns, which leaves a·r·n. Predictions are then
computed in blocks, and only the best of each block are stored (`dyadlearn.diagnostics.best`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from dyadlearn._array import as_array_of, is_sparse, row_blocks, to_numpy
from dyadlearn._checks import check_whole
from dyadlearn._messages import Message
from dyadlearn._tables import Ids, shown
from dyadlearn.diagnostics.best import best_columns, best_in_rows
from dyadlearn.diagnostics.fitted import asked_of, fitted_of, ids_at, labels_of
from dyadlearn.diagnostics.known_pairs import read_known
from dyadlearn.diagnostics.ranked_lists import RecommendationLists, Recommendations, TopPairs
from dyadlearn.diagnostics.unobserved import (
    FROM_ALL,
    NO_CONSTANT,
    advice_on_zeros,
    has_selves,
    labels_of_pairs,
    unobserved,
    unused_predictions,
    zeros_are_unobserved,
)
from dyadlearn.exceptions import IdError
from dyadlearn.models.fitted import Fitted, FittedRidge, predicting
from dyadlearn.models.reading import among, positions
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.pair_kernel import knows_rows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["recommend", "top_pairs"]

# Number of stored labels of an online model that are read at once.
_CELLS = 2**22


def recommend(
    model: Any,
    *,
    instance: Any = None,
    task: Any = None,
    X: Any = None,
    tasks: Any = None,
    known: Any = None,
    n: int = 10,
    setting: str | Setting = "A",
    zeros: bool | None = None,
    cv: int | None = None,
    sides: Sequence[str] | None = None,
) -> Recommendations | RecommendationLists:
    """Recommend the tasks with the highest predictions for an instance, or the instances for a task.

    For known instances and tasks, unobserved cells are ranked by held-out predictions, so that a
    zero label does not influence its prediction. New instances and tasks have no labels except
    those in `known`; all other pairs are ranked by the predictions of the model, which are computed
    in blocks to save memory. A node of a network is not recommended to itself, unless such pairs
    are observed.

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or position where the labels have no ids, or a list of them
        Known instance or task to recommend for. Pass either `instance`, or `task`, or `X` (`tasks`
        are then optional), or `tasks` alone. `OnlineTwoStepRidge` accepts them only with
        ``keep_labels=True``, and `tasks` only with `X`. A `PairRegressor` knows all ids in its
        tables, in training or not. Known and new ids need two calls if its model has individual
        effects (see `PairKernelRidge`), or if labels are 0 and 1.
    X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel
        New instances to recommend tasks for, as in `predict`.
    tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q)
        New tasks. With `X`, they are the candidates to recommend, instead of the training tasks.
        Without `X`, training instances are recommended for them.
    known : sparse matrix, array or frame of labels, or long table of pairs, default=None
        Known pairs in addition to the training labels; they are not recommended. A grid has one row
        per instance and one column per task, those of `X` and `tasks` if given, else those of
        training; NaN and cells that a sparse matrix does not store are unknown. A long table is an
        array, list of rows or frame of shape (p, 2) or (p, 3): an instance, a task and optionally a
        label. Ids are matched, and other ids are ignored; without ids, positions are used. If the
        shape fits both, a list is a long table and anything else a grid.
    n : int, default=10
        Maximum number of recommendations in each list.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        Setting of the held-out predictions for known instances and tasks: leave out the cell alone
        (A), all labels of the instance (B), of the task (C), or of both (D).
    zeros : bool, default=None
        Whether a zero label means "not observed". None means True if every pair has a label and all
        labels are zeros and ones. If some pairs have no label, zeros are labels of tested pairs,
        which are not recommended. This applies to labels in `known` too.
    cv : int, default=None
        Number of folds. None means one unit at a time where a formula is affordable, else five
        folds. Complete labels of a model with a formula are left out one unit at a time in any
        case.
    sides : (str, str), default=None
        Names of an instance and of a task in messages and column names, such as ``("user",
        "film")``.

    Returns
    -------
    Recommendations, or RecommendationLists
        One list for a single `instance` or `task`; one list each for a list of ids, `X` or `tasks`.

    See Also
    --------
    top_pairs : the unobserved pairs of the whole grid with the highest predictions.
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, recommend
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X = T = np.array([[1.0, 0.1], [0.8, 0.0], [0.1, 0.9], [0.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> recommend(model, instance=1, n=1)
    Recommendations(1 task for 1: 1 (0.853))
    >>> lists = recommend(model, X=[[1.0, 0.0], [0.0, 1.0]], n=2, sides=("user", "film"))
    >>> lists
    RecommendationLists(2 films each for 2 users, setting B)
    >>> lists.ids
    ((0, 1), (3, 2))
    >>> recommend(model, X=[[1.0, 0.0], [0.0, 1.0]], n=2, known=[(0, 1), (1, 3)]).ids
    ((0, 2), (2, 1))
    """
    check_whole(n, "n")
    _check_sources(instance=instance, task=task, X=X, tasks=tasks)
    options = _Options(known, n, setting, zeros, cv, sides)
    if instance is not None:
        return _for_ids(model, instance, 0, options)
    if task is not None:
        return _for_ids(model, task, 1, options)
    return _for_new(model, X, tasks, options)


def top_pairs(
    model: Any,
    *,
    n: int = 20,
    zeros: bool | None = None,
    setting: str = "A",
    cv: int | None = None,
    sides: Any = None,
) -> TopPairs:
    """Return the unobserved pairs of the whole grid with the highest predictions.

    Zeros that count as not observed are ranked by held-out predictions, missing labels by the
    predictions of the model. If the labels are a list of pairs, the grid is computed in blocks of
    rows. Ties are resolved by the order of rows.

    In a network each pair is listed once; for antisymmetric labels, in the direction with a
    positive prediction. Pairs of a node with itself are left out, unless such a pair is observed.

    Parameters
    ----------
    model : fitted estimator
    n : int, default=20
        Maximum number of pairs.
    zeros, setting, cv, sides
        Parameters as in `recommend`.

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
    >>> top_pairs(model, n=2, sides=("user", "film")).columns()["film"]
    [2, 1]
    """
    check_whole(n, "n")
    fitted = fitted_of(model)
    chosen = as_setting(setting)
    symmetry = fitted.symmetry
    names = side_names(sides, network=symmetry != 0)
    options = _Options(None, n, chosen, zeros, cv, sides)
    if _ranks_list(fitted, options):
        return _top_of_list(cast(FittedRidge, fitted), n, names)
    labels = labels_of(fitted)
    Y = labels.values
    zeros = zeros_are_unobserved(labels_of_pairs(Y, fitted), zeros)
    has_zeros = zeros and bool((Y == 0).any())
    F, method = unused_predictions(fitted, Y, chosen, cv, has_zeros=has_zeros)
    wanted = unobserved(Y, zeros)
    if symmetry:  # both directions are one pair
        wanted = np.triu(wanted, 0 if has_selves(Y, zeros) else 1)
    ranks = np.abs(F) if symmetry < 0 else F
    ranks = np.where(wanted, ranks, np.nan).ravel()
    places, values = best_in_rows(ranks[None, :], n)
    rows, columns = np.divmod(places[~np.isnan(values)], Y.shape[1])
    if not rows.size:
        if wanted.any():
            raise ValueError(
                Message("Nothing is predicted for unobserved pairs: {reason}", reason=NO_CONSTANT)
            )
        raise ValueError(
            Message(
                "All pairs are observed: there is none to recommend{advice}.",
                advice=advice_on_zeros(zeros),
            )
        )
    scores = F[rows, columns]
    if symmetry < 0:
        is_reversed = scores < 0
        scores = np.abs(scores)
        first = np.where(is_reversed, columns, rows)
        columns = np.where(is_reversed, rows, columns)
        rows = first
    ids = (ids_at(labels.row_ids, rows), ids_at(labels.column_ids, columns))
    return TopPairs(scores, Y[rows, columns], chosen.value, method, names, *ids)


@dataclass(frozen=True, eq=False)
class _Options:
    """The options of `recommend`, which it documents."""

    known: Any
    n: int
    setting: str | Setting
    zeros: bool | None
    cv: int | None
    sides: Sequence[str] | None

    @property
    def hold_out(self) -> bool:
        """Whether they ask for predictions of another setting or by folds."""
        return self.cv is not None or as_setting(self.setting) is not Setting.A


def _check_sources(**sources: Any) -> None:
    """Raise unless one source is given, or `X` and `tasks` together."""
    names = [name for name, value in sources.items() if value is not None]
    if names in (["instance"], ["task"], ["X"], ["tasks"], ["X", "tasks"]):
        return
    in_words = " and ".join(f"{name}=" for name in names) or "none of them"
    raise ValueError(
        f"Give either instance= or task=, which are known, or X= or tasks=, which are new; "
        f"found {in_words}."
    )


def _subjects(ids: Any, side: str) -> tuple[list[Any], bool]:
    """Return the ids to recommend for as a list, and whether they were passed as a list."""
    several = isinstance(ids, list) or getattr(ids, "ndim", 0) == 1
    subjects = list(ids) if several else [ids]
    if not subjects:
        raise ValueError(f"The list of {side} to recommend for is empty: give at least one.")
    return subjects, several


class _Query(NamedTuple):
    """The instances or tasks to recommend for.

    Attributes
    ----------
    subjects : tuple
        Ids of instances (axis 0) or of tasks (axis 1).
    several : bool
        Whether they were given as a list.
    axis : int
    ids : Ids or None
        Ids of the candidates on the other side.
    setting : Setting
    names : SideNames
    """

    subjects: tuple[Any, ...]
    several: bool
    axis: int
    ids: Ids | None
    setting: Setting
    names: SideNames

    @property
    def in_words(self) -> str:
        """Description of the subjects in messages."""
        if self.several:
            return f"these {self.names.both[self.axis]}"
        return repr(self.subjects[0])

    def with_known(
        self,
        observed: sparse.csr_array,
        known: Any,
        trained: Sequence[Hashable],
        sizes: tuple[int, int],
    ) -> sparse.csr_array:
        """Return which pairs of the subjects are observed or known; `trained` has the ids of their side in training."""
        all_ids = Ids(tuple(dict.fromkeys((*trained, *self.subjects))))
        ids = (self.ids, all_ids) if self.axis else (all_ids, self.ids)
        pairs = read_known(known, ids, sizes, self.names, self.axis)
        if pairs is None:
            return observed
        known_pairs: sparse.csr_array = pairs[among(self.subjects, all_ids.labels)]
        return sparse.csr_array(observed + known_pairs)

    def lists(
        self, places: np.ndarray, scores: np.ndarray, labels: np.ndarray | None, method: str
    ) -> Recommendations | RecommendationLists:
        """Return a list for each subject, without candidates that have no prediction; or a single list.

        Parameters
        ----------
        places : integer array of shape (a, k)
            Positions of the candidates, best first.
        scores : array of shape (a, k)
            Their predictions; NaN if there is none.
        labels : array of shape (a, k) or None
        method : str
        """
        lengths = np.count_nonzero(~np.isnan(scores), axis=1)
        longest = int(lengths.max())
        scores = scores[:, :longest]
        if labels is not None:
            labels = labels[:, :longest]
        ids = []
        for row, length in zip(places, lengths, strict=True):
            ids.append(ids_at(self.ids, row[:length]))
        of = "instances" if self.axis else "tasks"
        words = (self.setting.value, method, self.names, of)
        if self.several or labels is None:
            return RecommendationLists(scores, labels, *words, self.subjects, tuple(ids))
        return Recommendations(scores[0], labels[0], *words, self.subjects[0], ids[0])


# Predictions that never used their labels -----------------------------------------------------------


def _for_ids(
    model: Any, ids: Any, axis: int, options: _Options
) -> Recommendations | RecommendationLists:
    """Recommend for known rows (axis 0) or columns (axis 1)."""
    if not getattr(model, "grows", False):
        fitted = fitted_of(model)
        if _ranks_list(fitted, options):
            return _ranking_of_list(cast(FittedRidge, fitted), ids, axis, options).best(options.n)
    ranking = _ranking_of_ids(model, ids, axis, options)
    if ranking is None:
        return _held_out_lists(model, ids, axis, options)
    if options.zeros or options.hold_out:
        raise ValueError(
            Message(
                "These pairs are ranked by the predictions of the model, and nothing is held out: "
                "leave <setting=>, <zeros=> and <cv=> out."
            )
        )
    return ranking.best(options.n)


def _held_out_lists(
    model: Any, ids: Any, axis: int, options: _Options
) -> Recommendations | RecommendationLists:
    """Recommend for rows or columns of a grid of labels, by predictions that were computed without their cells."""
    fitted, labels, setting = asked_of(model, options.setting, options.n)
    names = side_names(options.sides, network=fitted.is_network)
    side = names.both[axis]
    subjects, several = _subjects(ids, side)
    side_ids = (labels.row_ids, labels.column_ids)
    shape = labels.values.shape
    argument = "task" if axis else "instance"
    places = positions(subjects, side_ids[axis], shape[axis], f"the {side}", argument)
    query = _Query(
        ids_at(side_ids[axis], places), several, axis, side_ids[1 - axis], setting, names
    )
    known = read_known(options.known, side_ids, shape, names, axis, options.zeros)
    Y = labels.values.T if axis else labels.values
    zeros = zeros_are_unobserved(labels_of_pairs(Y, fitted), options.zeros)
    rows = Y[places]
    F, method = unused_predictions(
        fitted, labels.values, setting, options.cv, has_zeros=zeros and bool((rows == 0).any())
    )
    predictions = (F.T if axis else F)[places]
    wanted = unobserved(rows, zeros)
    if known is not None:
        wanted &= ~known[places].toarray()
    if fitted.is_network and not has_selves(Y, zeros):
        wanted[np.arange(len(places)), places] = False
    best, scores = best_in_rows(np.where(wanted, predictions, np.nan), options.n)
    if np.isnan(scores).all():
        if wanted.any():
            raise ValueError(
                Message(
                    "Nothing is predicted for {subjects}: {reason}",
                    subjects=query.in_words,
                    reason=NO_CONSTANT,
                )
            )
        raise ValueError(
            Message(
                "Every label of {subjects} is observed, so there is nothing to recommend{advice}.",
                subjects=query.in_words,
                advice=advice_on_zeros(zeros),
            )
        )
    best_labels = np.take_along_axis(rows, best, 1)
    best_labels = np.where(np.isnan(scores), np.nan, best_labels)
    return query.lists(best, scores, best_labels, method)


# Predictions of the model itself --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ranking:
    """Subjects and candidates as rows of a model, whose predictions rank the candidates.

    Attributes
    ----------
    query : _Query
    expansion : Expansion
        The model, with the side of the subjects first.
    rows : NewRows
        The a subjects.
    candidates : NewRows or None
        The n candidates; None means those of training.
    known : sparse array of shape (a, n) or None
        Observed and known pairs, which are not recommended.
    """

    query: _Query
    expansion: Expansion
    rows: NewRows
    candidates: NewRows | None
    known: Any

    def best(self, n: int, *, has_labels: bool = True) -> Recommendations | RecommendationLists:
        """Return the n best candidates of each subject that are not known.

        Parameters
        ----------
        n : int
        has_labels : bool, default=True
            Whether the lists have a column of labels; lists of new rows have none.
        """
        places, scores = best_columns(self.expansion, self.rows, self.candidates, n, self.known)
        if np.isnan(scores).all():
            raise ValueError(self._nothing)
        labels = np.full_like(scores, np.nan) if has_labels else None
        return self.query.lists(places, scores, labels, FROM_ALL)

    @property
    def _nothing(self) -> str:
        """Why there is nothing to recommend."""
        if self.known is None or not self.known.nnz:
            return Message(
                "Nothing is predicted for any of the {tasks}: {reason}",
                tasks=self.query.names.tasks,
                reason=NO_CONSTANT,
            )
        return f"Everything is known of {self.query.in_words}, so there is nothing to recommend."


def _ranking_of_ids(model: Any, ids: Any, axis: int, options: _Options) -> _Ranking | None:
    """Return the ranking of known rows by the predictions of the model itself, or None to hold them out.

    It is used for models without a grid of labels, and for subjects that only the tables of a
    `PairRegressor` describe.
    """
    if getattr(model, "grows", False):
        if _all_batches_have_zeros(model, options.zeros):
            return None
        return _ranking_of_stored(model, ids, axis, options)
    fitted: Any = fitted_of(model)
    names = side_names(options.sides, network=fitted.is_network)
    subjects, several = _subjects(ids, names.both[axis])
    side_ids = (fitted.instance_ids, fitted.task_ids)
    trained = side_ids[axis]
    if fitted.tables is None or trained is None:
        return None
    places = among(subjects, trained.labels)
    is_trained = places >= 0
    labels = fitted.labels
    if labels.grid is not None and is_trained.any():
        # Labels of a grid may have to be held out, and the model may know more about training rows
        # than features.
        if is_trained.all():
            return None
        grid_labels = labels_of_pairs(to_numpy(labels.grid), fitted)
        if knows_rows(fitted.pairing) or zeros_are_unobserved(grid_labels, options.zeros):
            new = [label for label, place in zip(subjects, places, strict=True) if place < 0]
            raise ValueError(
                f"Known and new {names.both[axis]} are ranked differently: use one call for the "
                f"known ones and one for the new ones, {shown(new)}."
            )
    read_rows = fitted.columns if axis else fitted.rows
    _, rows = read_rows(fitted.describe(subjects, axis))
    observed = _observed_pairs(fitted, places, axis, len(trained))
    if is_trained.any():
        setting = Setting.A
    else:
        setting = Setting.C if axis else Setting.B
    query = _Query(tuple(subjects), several, axis, side_ids[1 - axis], setting, names)
    known = query.with_known(observed, options.known, trained.labels, labels.shape)
    expansion = fitted.expansion.transposed if axis else fitted.expansion
    return _Ranking(query, expansion, rows, None, known)


def _ranks_list(fitted: Any, options: _Options) -> bool:
    """Return whether the labels are a list of pairs, and the others are ranked by the predictions of the model itself.

    Then no array of the shape of the grid is needed.
    """
    if not isinstance(fitted, FittedRidge) or fitted.tables is not None:
        return False
    labels = fitted.labels
    is_list = labels.grid is None and labels.size < math.prod(labels.shape)
    return is_list and not (options.zeros or options.hold_out or knows_rows(fitted.pairing))


def _ranking_of_list(fitted: FittedRidge, ids: Any, axis: int, options: _Options) -> _Ranking:
    """Return the ranking for rows (axis 0) or columns of a list of labels, by the predictions of the model itself."""
    check_whole(options.n, "n")
    names = side_names(options.sides, network=fitted.is_network)
    side = names.both[axis]
    subjects, several = _subjects(ids, side)
    side_ids = (fitted.instance_ids, fitted.task_ids)
    shape = fitted.labels.shape
    argument = "task" if axis else "instance"
    places = positions(subjects, side_ids[axis], shape[axis], f"the {side}", argument)
    known = _observed_pairs(fitted, places, axis, shape[axis])
    others = read_known(options.known, side_ids, shape, names, axis, options.zeros)
    if others is not None:
        known = sparse.csr_array(known + others[places])
    query = _Query(
        ids_at(side_ids[axis], places), several, axis, side_ids[1 - axis], Setting.A, names
    )
    whole = fitted.expansion.transposed if axis else fitted.expansion
    expansion, rows = whole.by_training_rows()
    return _Ranking(query, expansion, rows.take(places), None, known)


def _top_of_list(fitted: FittedRidge, n: int, names: SideNames) -> TopPairs:
    """Return the n best pairs that are not in a list of labels, by the predictions of the model itself."""
    m = fitted.labels.shape[0]
    observed = _observed_pairs(fitted, np.arange(m), 0, m)
    expansion, rows = fitted.expansion.by_training_rows()
    columns, scores = best_columns(expansion, rows, None, n, observed)
    places, values = best_in_rows(scores.reshape(1, -1), n)
    places = places[~np.isnan(values)]
    if not places.size:
        raise ValueError(
            Message("Nothing is predicted for unobserved pairs: {reason}", reason=NO_CONSTANT)
        )
    best_rows = places // scores.shape[1]
    best = columns.reshape(-1)[places]
    ids = (ids_at(fitted.instance_ids, best_rows), ids_at(fitted.task_ids, best))
    missing = np.full(places.size, np.nan)
    return TopPairs(scores.reshape(-1)[places], missing, Setting.A.value, FROM_ALL, names, *ids)


def _observed_pairs(
    fitted: Fitted, places: np.ndarray, axis: int, n_trained: int
) -> sparse.csr_array:
    """Return which pairs of training rows or columns have a label; the position -1 is an empty row."""
    labels = fitted.labels
    listed = labels.listed()
    cells = listed.places[::-1] if axis else listed.places
    # One more row, the last, is that of the position -1.
    shape = (n_trained + 1, labels.shape[1 - axis])
    is_observed = np.ones(labels.size, dtype=bool)
    grid = sparse.csr_array((is_observed, cells), shape)
    observed: sparse.csr_array = grid[places]
    return observed


def _all_batches_have_zeros(model: Any, zeros: bool | None) -> bool:
    """Return whether zeros count as not observed in all batches of labels that an online model stores."""
    if not model.keep_labels:
        return False
    fitted: Any = predicting(model)
    batches = fitted.knowledge.kept.batches
    return bool(batches) and all(_zeros_of_batch(batch, zeros) for batch in batches)


def _zeros_of_batch(batch: Any, zeros: bool | None) -> bool:
    """Return whether zero labels of a batch of an online model count as not observed."""
    labels = batch.labels
    if not is_sparse(labels):
        return zeros_are_unobserved(to_numpy(labels), zeros)
    has_missing = batch.is_thin and labels.nnz < math.prod(labels.shape)
    if zeros is None and has_missing:
        return False
    # Zeros that a sparse matrix does not store cannot change the answer.
    return zeros_are_unobserved(labels.data, zeros)


def _ranking_of_stored(model: Any, ids: Any, axis: int, options: _Options) -> _Ranking:
    """Return the ranking for, or of, the instances that an online model stores with labels."""
    fitted: Any = predicting(model)
    knowledge = fitted.knowledge
    names = side_names(options.sides)
    if not knowledge.keeps_labels:
        raise ValueError(
            Message(
                "{model} keeps statistics only, not the labels: [fit|tune] it with "
                "<keep_labels=True>[, or give instances by X= and their known pairs by known=|].",
                model=type(model).__name__,
            )
        )
    subjects, several = _subjects(ids, names.both[axis])
    stored = knowledge.kept
    sizes = (len(stored), model.n_tasks_)
    side_ids = (stored.ids, knowledge.task_ids)
    places: Any = range(sizes[0])
    columns = np.arange(sizes[1])
    if axis:
        columns = positions(subjects, side_ids[1], sizes[1], f"the {names.tasks}", "task")
    else:
        places = _stored_places(stored, subjects, names)
    observed = _observed_of_stored(knowledge, places, columns, sizes[1])
    query = _Query(tuple(subjects), several, axis, side_ids[1 - axis], Setting.A, names)
    subject_ids = side_ids[axis]
    trained = range(sizes[axis]) if subject_ids is None else subject_ids.labels
    if axis:
        observed = sparse.csr_array(observed.T)
    known = query.with_known(observed, options.known, trained, sizes)
    rows = fitted.kept_rows(places)
    _, tasks = fitted.columns(None)
    expansion = fitted.expansion
    if axis == 0:
        return _Ranking(query, expansion, rows, tasks, known)
    if tasks is None:
        units = as_array_of(np.eye(sizes[1])[columns], expansion.values)
        tasks = NewRows(units, lambda part: part, 0)
    else:
        tasks = tasks.take(columns)
    return _Ranking(query, expansion.transposed, tasks, rows, known)


def _stored_places(stored: Any, subjects: list[Any], names: SideNames) -> Any:
    """Return the positions of ids among the instances that an online model stores."""
    places = stored.places(subjects)
    unknown = [label for label, place in zip(subjects, places, strict=True) if place is None]
    if unknown:
        raise IdError(
            Message(
                "The model has kept no {instances} with the ids {unknown}: pass their features by "
                "<X=>.",
                instances=names.instances,
                unknown=shown(unknown),
            )
        )
    return places


def _observed_of_stored(
    knowledge: Any, places: Any, columns: np.ndarray, n_tasks: int
) -> sparse.csr_array:
    """Return which labels an online model stores for some instances and tasks."""
    parts = []
    for block in row_blocks(len(places), n_tasks, _CELLS):
        labels = to_numpy(knowledge.labels_at(places[block]))[:, columns]
        parts.append(sparse.csr_array(~np.isnan(labels)))
    return sparse.csr_array(sparse.vstack(parts))


def _for_new(
    model: Any, X: Any, tasks: Any, options: _Options
) -> Recommendations | RecommendationLists:
    """Recommend for new instances or tasks, by the predictions of the model."""
    setting = _setting_of_new(X, tasks)
    needs_labels = options.zeros is not None and options.known is None
    is_other = as_setting(options.setting) not in (Setting.A, setting)
    if needs_labels or options.cv is not None or is_other:
        raise ValueError(
            Message(
                "New instances and tasks have no labels to hold out: leave <setting=> and <cv=> "
                "out, and <zeros=>[ unless known= is given|]."
            )
        )
    return _ranking_of_new(model, X, tasks, setting, options).best(options.n, has_labels=False)


def _setting_of_new(X: Any, tasks: Any) -> Setting:
    """Return the setting of pairs of new instances, new tasks, or both."""
    if X is None:
        return Setting.C
    return Setting.B if tasks is None else Setting.D


def _ranking_of_new(
    model: Any, X: Any, tasks: Any, setting: Setting, options: _Options
) -> _Ranking:
    """Return the ranking for new instances, or for new tasks if `X` is None."""
    is_online = bool(getattr(model, "grows", False))
    # An online model needs no labels here.
    fitted = predicting(model) if is_online else fitted_of(model)
    is_network = isinstance(fitted, Fitted) and fitted.is_network
    names = side_names(options.sides, network=is_network)
    if X is None and is_online:
        raise ValueError(
            Message(
                "{model} lists no known instances for new tasks: [pass X=, or |]fit TwoStepRidge "
                "on the labels.",
                model=type(model).__name__,
            )
        )
    X = fitted.given(X, 0)
    tasks = fitted.given(tasks, 1)
    expansion = fitted.expansion
    task_table, candidates = fitted.columns(tasks)
    n_tasks = expansion.n_tasks if candidates is None else candidates.size
    if X is None:
        axis = 1
        instance_table = None
        rows = candidates
        n_instances = expansion.n_instances
    else:
        axis = 0
        instance_table, rows = fitted.rows(X)
        n_instances = rows.size
    ids = [
        fitted.instance_ids if instance_table is None else instance_table.row_ids,
        fitted.task_ids if task_table is None else task_table.row_ids,
    ]
    sizes = (n_instances, n_tasks)
    known = read_known(options.known, ids, sizes, names, axis, options.zeros)
    subjects = ids_at(ids[axis], np.arange(rows.size))
    query = _Query(subjects, True, axis, ids[1 - axis], setting, names)
    if axis:
        return _Ranking(query, expansion.transposed, rows, None, known)
    return _Ranking(query, expansion, rows, candidates, known)
