"""Rankings of candidates by the predictions of the model itself, and what is asked of a ranking."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import as_array_of, is_sparse, row_blocks, to_numpy
from dyadlearn._checks import check_choice, check_flag, check_share, check_whole
from dyadlearn._messages import Message
from dyadlearn._tables import Ids, shown
from dyadlearn.diagnostics.best import best_columns
from dyadlearn.diagnostics.calibration import Calibration, calibrate
from dyadlearn.diagnostics.fitted import closed_form_of, fitted_of, ids_at
from dyadlearn.diagnostics.known_pairs import read_known
from dyadlearn.diagnostics.limits import Best, BestOf, Limits, best_of_grids, best_within
from dyadlearn.diagnostics.ranked_lists import RecommendationLists, Recommendations
from dyadlearn.diagnostics.unobserved import (
    FROM_ALL,
    NO_CONSTANT,
    labels_of_pairs,
    zeros_are_unobserved,
)
from dyadlearn.exceptions import IdError, UnboundedIntervalWarning
from dyadlearn.models.fitted import Asked, Fitted, FittedRidge, Predicting, predicting
from dyadlearn.models.intervals import interval_grids
from dyadlearn.models.reading import among, positions
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.pair_kernel import knows_rows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names

#: What recommendations can be ranked by.
RANKED_BY = ("score", "lower", "upper")


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """The options of `recommend` and `top_pairs`, which document them."""

    n: int
    setting: str | Setting
    zeros: bool | None
    cv: int | None
    sides: Sequence[str] | None
    observed: bool
    by: str
    coverage: float
    probability: bool | Calibration
    limits: tuple[int | None, int | None]
    known: Any = None

    def __post_init__(self) -> None:
        check_whole(self.n, "n")
        check_choice(self.by, "by", RANKED_BY)
        check_share(self.coverage, "coverage")
        check_flag(self.observed, "observed")
        for limit, name in zip(self.limits, ("per_instance", "per_task"), strict=True):
            if limit is not None:
                check_whole(limit, name)
        if self.observed and self.zeros:
            raise ValueError(
                Message("<observed=True> ranks all pairs, whatever their label: leave <zeros> out.")
            )
        if self.observed and self.known is not None:
            raise ValueError(
                Message("<observed=True> ranks observed pairs too: leave <known> out.")
            )

    def check_known(self) -> None:
        """Raise if known pairs are to be ranked by intervals that do not exist."""
        if self.by != "score" and self.hold_out:
            raise ValueError(
                Message(
                    "Intervals of known pairs are those of setting A without folds: leave <setting> "
                    "and <cv> out, or use <by='score'>."
                )
            )

    @property
    def ranked_by(self) -> str:
        """Name of the figure that pairs are ranked by."""
        return "scores" if self.by == "score" else self.by

    @property
    def hold_out(self) -> bool:
        """Whether they ask for predictions of another setting or by folds."""
        return self.cv is not None or as_setting(self.setting) is not Setting.A

    def probabilities(
        self, model: Any, settings: Sequence[Setting], scores: np.ndarray
    ) -> np.ndarray | None:
        """Return the probabilities of scores (a, k) whose rows have settings; None if they are not asked for."""
        if self.probability is False:
            return None
        asked = dict.fromkeys(settings)
        if self.probability is True:
            calibration = calibrate(model, asked, cv=self.cv)
        else:
            calibration = self.probability
        probabilities = np.full_like(scores, np.nan)
        for setting in asked:
            here = np.array([row is setting for row in settings])
            probabilities[here] = calibration[setting].mapping(scores[here])
        return probabilities


def subjects_of(ids: Any, side: str) -> tuple[list[Any], bool]:
    """Return the ids to recommend for as a list, and whether they were passed as a list."""
    several = isinstance(ids, list) or getattr(ids, "ndim", 0) == 1
    subjects = list(ids) if several else [ids]
    if not subjects:
        raise ValueError(f"The list of {side} to recommend for is empty: give at least one.")
    return subjects, several


class Query(NamedTuple):
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
    options : Options
    settings : tuple of Setting, or empty
        Setting of each subject, if they differ.
    """

    subjects: tuple[Any, ...]
    several: bool
    axis: int
    ids: Ids | None
    setting: Setting
    names: SideNames
    options: Options
    settings: tuple[Setting, ...] = ()

    @property
    def in_words(self) -> str:
        """Description of the subjects in messages."""
        if self.several:
            return f"these {self.names.both[self.axis]}"
        return repr(self.subjects[0])

    def known_pairs(self, fitted: Fitted) -> sparse.csr_array | None:
        """Return which pairs of a model are known to the user; the side of the subjects is first."""
        ids = (fitted.instance_ids, fitted.task_ids)
        known, zeros = self.options.known, self.options.zeros
        return read_known(known, ids, fitted.labels.shape, self.names, self.axis, zeros)

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

    def limits(self, n_candidates: int) -> Limits | None:
        """Return how often each candidate may be recommended; None if there is no limit."""
        most = self.options.limits[1 - self.axis]
        if most is None:
            return None
        return Limits(lambda rows, places: (places, places), np.full(n_candidates, most))

    def lists(
        self, best_of: BestOf, n_candidates: int, model: Any, method: str
    ) -> Recommendations | RecommendationLists:
        """Return a list for each subject, without candidates that have no prediction; or a single list.

        Parameters
        ----------
        best_of : callable
            Function that returns the k best candidates of each subject.
        n_candidates : int
        model : fitted estimator
        method : str
        """
        n = self.options.n
        most = self.options.limits[self.axis]
        if most is not None:
            n = min(n, most)
        best = best_within(best_of, n, self.limits(n_candidates))
        lengths = np.count_nonzero(~np.isnan(best.ranks), axis=1)
        figures = {name: values[:, : lengths.max()] for name, values in best.figures.items()}
        settings = self.settings or (self.setting,) * len(self.subjects)
        probabilities = self.options.probabilities(model, settings, figures["scores"])
        if probabilities is not None:
            figures["probabilities"] = probabilities
        ids = []
        for row, length in zip(best.places, lengths, strict=True):
            ids.append(ids_at(self.ids, row[:length]))
        words: dict[str, Any] = {
            "setting": self.setting.value,
            "method": method,
            "sides": self.names,
            "of": "instances" if self.axis else "tasks",
        }
        if self.several or "labels" not in figures:
            several: dict[str, Any] = {"labels": None, **figures}
            return RecommendationLists(**several, **words, subjects=self.subjects, ids=tuple(ids))
        alone: dict[str, Any] = {name: values[0] for name, values in figures.items()}
        return Recommendations(**alone, **words, subject=self.subjects[0], ids=ids[0])


# Predictions of the model itself --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranking:
    """Subjects and candidates as rows of a model, whose predictions rank the candidates.

    Attributes
    ----------
    query : Query
    expansion : Expansion
        The model, with the side of the subjects first.
    rows : NewRows
        The a subjects.
    candidates : NewRows or None
        The n candidates; None means those of training.
    known : sparse array of shape (a, n) or None
        Observed and known pairs, which are not recommended.
    fitted : Predicting
    places : integer array of shape (a,) or None
        Positions of the subjects in training, -1 for new ones; None if all are new.
    """

    query: Query
    expansion: Expansion
    rows: NewRows
    candidates: NewRows | None
    known: Any
    fitted: Predicting
    places: np.ndarray | None = None

    def best(self, model: Any, *, has_labels: bool = True) -> Recommendations | RecommendationLists:
        """Return the best candidates of each subject that are not known.

        Parameters
        ----------
        model : fitted estimator
        has_labels : bool, default=True
            Whether the lists have a column of labels; lists of new rows have none.
        """
        if self.query.options.by == "score":
            best_by = self._by_score
        else:
            best_by = self._by_bound

        def best_of(k: int) -> Best:
            best = best_by(k)
            if np.isnan(best.ranks).all():
                raise ValueError(self._nothing)
            if has_labels:
                best.figures["labels"] = np.full_like(best.ranks, np.nan)
            return best

        return self.query.lists(best_of, self._n_candidates, model, FROM_ALL)

    @property
    def _n_candidates(self) -> int:
        if self.candidates is None:
            return self.expansion.n_tasks
        return self.candidates.size

    def _by_score(self, k: int) -> Best:
        """Return the k candidates of each subject with the highest predictions."""
        places, scores = best_columns(self.expansion, self.rows, self.candidates, k, self.known)
        return Best(places, scores, {"scores": scores})

    def _by_bound(self, k: int) -> Best:
        """Return the k candidates of each subject with the highest bound of their prediction intervals."""
        options = self.query.options
        parts = []
        n = self._n_candidates
        for here in row_blocks(self.rows.size, (len(RANKED_BY), n)):
            rows = self.rows.take(here)
            scores = to_numpy(self.expansion.grid(rows, self.candidates))
            if self.places is None:
                places = np.full(rows.size, -1)
            else:
                places = self.places[here]
            sides = [Asked(rows, None, places)]
            if self.candidates is None:
                sides.append(Asked(None, None, None))
            else:
                sides.append(Asked(self.candidates, None, np.full(n, -1)))
            bounds = bounds_of(
                self.fitted, sides[:: -1 if self.query.axis else 1], options.coverage
            )
            lower, upper = (bound.T if self.query.axis else bound for bound in bounds)
            figures = {"scores": scores, "lower": lower, "upper": upper}
            ranks = np.array(figures[options.by])
            if self.known is not None:
                pairs = self.known[here].tocoo()
                ranks[pairs.row, pairs.col] = np.nan
            parts.append(best_of_grids(ranks, figures)(k))
        figures = {}
        for name in ("scores", "lower", "upper"):
            figures[name] = np.concatenate([part.figures[name] for part in parts])
        places = np.concatenate([part.places for part in parts])
        return Best(places, np.concatenate([part.ranks for part in parts]), figures)

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


def bounds_of(
    fitted: Any, sides: Sequence[Asked], coverage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds (a, b) of prediction intervals; raise if some are infinite.

    Parameters
    ----------
    fitted : Fitted
    sides : (Asked, Asked)
        Instances and tasks to predict for.
    coverage : float
    """
    if not isinstance(fitted, Fitted):
        raise ValueError(
            Message(
                "This model has no prediction intervals: use <by='score'>[, or convert an online "
                "model by to_two_step()|]."
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnboundedIntervalWarning)
        try:
            lower, upper = interval_grids(fitted, sides, coverage)
        except UnboundedIntervalWarning as warning:
            raise ValueError(f"{warning} Infinite intervals have no order.") from None
    return to_numpy(lower), to_numpy(upper)


def ranking_of_ids(model: Any, ids: Any, axis: int, options: Options) -> Ranking | None:
    """Return the ranking of known rows by the predictions of the model itself, or None to hold them out.

    It is used for models without a grid of labels, and for subjects that only the tables of a
    `PairRegressor` describe.
    """
    if getattr(model, "grows", False):
        if model.keep_labels and (options.observed or options.by != "score"):
            return None
        if _all_batches_have_zeros(model, options.zeros):
            return None
        return _ranking_of_stored(model, ids, axis, options)
    fitted: Any = fitted_of(model)
    names = side_names(options.sides, network=fitted.is_network)
    subjects, several = subjects_of(ids, names.both[axis])
    side_ids = (fitted.instance_ids, fitted.task_ids)
    trained = side_ids[axis]
    if fitted.tables is None or trained is None:
        return None
    places = among(subjects, trained.labels)
    is_trained = places >= 0
    labels = fitted.labels
    if is_trained.any() and (labels.grid is not None or options.observed):
        # Labels of a grid may have to be held out, and the model may know more about training rows
        # than features.
        if is_trained.all():
            return None
        if (
            options.observed
            or knows_rows(fitted.pairing)
            or zeros_are_unobserved(labels_of_pairs(to_numpy(labels.grid), fitted), options.zeros)
        ):
            new = [label for label, place in zip(subjects, places, strict=True) if place < 0]
            raise ValueError(
                f"Known and new {names.both[axis]} are ranked differently: use one call for the "
                f"known ones and one for the new ones, {shown(new)}."
            )
    read_rows = fitted.columns if axis else fitted.rows
    _, rows = read_rows(fitted.describe(subjects, axis))
    observed = observed_pairs(fitted, places, axis, len(trained))
    of_new = Setting.of([axis])
    settings = tuple(Setting.A if known else of_new for known in is_trained)
    setting = Setting.A if is_trained.any() else of_new
    candidates = side_ids[1 - axis]
    query = Query(tuple(subjects), several, axis, candidates, setting, names, options, settings)
    known = query.with_known(observed, options.known, trained.labels, labels.shape)
    expansion = fitted.expansion.along(axis)
    return Ranking(query, expansion, rows, None, known, fitted, places)


def ranks_list(fitted: Any, options: Options) -> bool:
    """Return whether the labels are a list of pairs, and the others are ranked by the predictions of the model itself.

    Then no array of the shape of the grid is needed.
    """
    if not isinstance(fitted, FittedRidge) or fitted.tables is not None:
        return False
    labels = fitted.labels
    is_list = labels.grid is None and labels.size < math.prod(labels.shape)
    needs_grid = options.zeros or options.hold_out or options.observed or options.by != "score"
    return is_list and not (needs_grid or knows_rows(fitted.pairing))


def ranking_of_list(fitted: FittedRidge, ids: Any, axis: int, options: Options) -> Ranking:
    """Return the ranking for rows (axis 0) or columns of a list of labels, by the predictions of the model itself."""
    query, places = query_of_ids(fitted, ids, axis, options)
    known = observed_pairs(fitted, places, axis, fitted.labels.shape[axis])
    others = query.known_pairs(fitted)
    if others is not None:
        known = sparse.csr_array(known + others[places])
    expansion, rows = fitted.expansion.along(axis).by_training_rows()
    return Ranking(query, expansion, rows.take(places), None, known, fitted, places)


def query_of_ids(fitted: Fitted, ids: Any, axis: int, options: Options) -> tuple[Query, np.ndarray]:
    """Return the query for rows (axis 0) or columns of the labels, with their positions."""
    names = side_names(options.sides, network=fitted.is_network)
    side = names.both[axis]
    subjects, several = subjects_of(ids, side)
    side_ids = (fitted.instance_ids, fitted.task_ids)
    argument = ("instance", "task")[axis]
    n = fitted.labels.shape[axis]
    places = positions(subjects, side_ids[axis], n, f"the {side}", argument)
    of_subjects = ids_at(side_ids[axis], places)
    setting = as_setting(options.setting)
    query = Query(of_subjects, several, axis, side_ids[1 - axis], setting, names, options)
    return query, places


def observed_pairs(
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


def _ranking_of_stored(model: Any, ids: Any, axis: int, options: Options) -> Ranking:
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
    subjects, several = subjects_of(ids, names.both[axis])
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
    query = Query(tuple(subjects), several, axis, side_ids[1 - axis], Setting.A, names, options)
    subject_ids = side_ids[axis]
    if subject_ids is None:
        trained = range(sizes[axis])
    else:
        trained = subject_ids.labels
    if axis:
        observed = sparse.csr_array(observed.T)
    known = query.with_known(observed, options.known, trained, sizes)
    rows = fitted.kept_rows(places)
    _, tasks = fitted.columns(None)
    expansion = fitted.expansion
    if axis and tasks is None:
        units = as_array_of(np.eye(sizes[1])[columns], expansion.values)
        tasks = NewRows(units, lambda part: part, 0)
    elif axis:
        tasks = tasks.take(columns)
    sides = (rows, tasks)
    return Ranking(query, expansion.along(axis), sides[axis], sides[1 - axis], known, fitted)


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
    for block in row_blocks(len(places), n_tasks):
        labels = to_numpy(knowledge.labels_at(places[block]))[:, columns]
        parts.append(sparse.csr_array(~np.isnan(labels)))
    return sparse.csr_array(sparse.vstack(parts))


def ranking_of_new(model: Any, X: Any, tasks: Any, setting: Setting, options: Options) -> Ranking:
    """Return the ranking for new instances, or for new tasks if `X` is None."""
    is_online = bool(getattr(model, "grows", False))
    # An online model needs no labels here.
    fitted: Predicting = predicting(model) if is_online else closed_form_of(model)
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
    form, rows = fitted.read(fitted.given(X, 0), fitted.given(tasks, 1))
    expansion = fitted.expansion
    trained = (expansion.n_instances, expansion.n_tasks)
    sizes = [n if side is None else side.size for n, side in zip(trained, rows, strict=True)]
    ids = (form.row_ids, fitted.task_ids if tasks is None else form.column_ids)
    axis = int(X is None)
    known = read_known(options.known, ids, sizes, names, axis, options.zeros)
    subjects = ids_at(ids[axis], np.arange(sizes[axis]))
    query = Query(subjects, True, axis, ids[1 - axis], setting, names, options)
    return Ranking(query, expansion.along(axis), rows[axis], rows[1 - axis], known, fitted)
