r"""Recommendations: the best unobserved pairs of an instance or a task, or of the whole grid.

Predictions of a rows and n columns are
:math:`\boldsymbol\Phi_*\,\mathbf{W}\,\boldsymbol\Psi_*^\top`, usually far more than are listed. The
coefficients :math:`\mathbf{W}` (r × s) are first multiplied by the side that is cheaper: by the
rows, which leaves a·s·n products, or once by the columns, which leaves a·r·n. Predictions are then
computed in blocks, and only the best of each block are stored (`dyadlearn.diagnostics.best`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dyadlearn._messages import Message
from dyadlearn.diagnostics.best import best_columns, best_in_rows
from dyadlearn.diagnostics.calibration import Calibration
from dyadlearn.diagnostics.fitted import fitted_of, ids_at, labels_of
from dyadlearn.diagnostics.limits import Limits, best_of_grids, best_within
from dyadlearn.diagnostics.ranked_lists import RecommendationLists, Recommendations, TopPairs
from dyadlearn.diagnostics.rankings import (
    Options,
    Query,
    bounds_of,
    observed_pairs,
    query_of_ids,
    ranking_of_ids,
    ranking_of_list,
    ranking_of_new,
    ranks_list,
)
from dyadlearn.diagnostics.unobserved import (
    FROM_ALL,
    NO_CONSTANT,
    advice_on_zeros,
    labels_of_pairs,
    unobserved,
    unused_predictions,
    zeros_are_unobserved,
)
from dyadlearn.models.fitted import Asked, Fitted, FittedRidge
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import side_names

__all__ = ["recommend", "top_pairs"]

_KNOWN = Asked(None, None, None)
_NOTHING = Message("Nothing is predicted for unobserved pairs: {reason}", reason=NO_CONSTANT)


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
    observed: bool = False,
    by: str = "score",
    coverage: float = 0.9,
    probability: bool | Calibration = False,
    per_instance: int | None = None,
    per_task: int | None = None,
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
    observed : bool, default=False
        Whether to rank the observed pairs of known instances and tasks too, by predictions without
        their labels.
    by : {"score", "lower", "upper"}, default="score"
        What pairs are ranked by: the prediction, or the lower or upper bound of its prediction
        interval (see `predict_interval`). The upper bound prefers uncertain pairs that may be very
        good, the lower bound pairs that are good with certainty. Known pairs need setting A without
        `cv`.
    coverage : float, default=0.9
        Coverage of the intervals if pairs are ranked by a bound.
    probability : bool or Calibration, default=False
        Whether to add the probability of the positive label, for labels of two values. True means
        that of `dyadlearn.calibrate` for the setting of the pairs; a `Calibration` may have another
        method or prevalence.
    per_instance, per_task : int, default=None
        Maximum number of lists that may contain an instance, or a task. Pairs with higher scores
        come first. A limit of the side to recommend for is one of the lengths of lists, as `n` is.
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
    >>> recommend(model, X=[[1.0, 0.0], [0.8, 0.1]], n=2, per_task=1).ids
    ((0, 1), (2, 3))
    """
    _check_sources(instance=instance, task=task, X=X, tasks=tasks)
    options = Options(
        known=known,
        n=n,
        setting=setting,
        zeros=zeros,
        cv=cv,
        sides=sides,
        observed=observed,
        by=by,
        coverage=coverage,
        probability=probability,
        limits=(per_instance, per_task),
    )
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
    observed: bool = False,
    by: str = "score",
    coverage: float = 0.9,
    probability: bool | Calibration = False,
    per_instance: int | None = None,
    per_task: int | None = None,
    setting: str = "A",
    cv: int | None = None,
    sides: Any = None,
) -> TopPairs:
    """Return the unobserved pairs of the whole grid with the highest predictions.

    Zeros that count as not observed are ranked by held-out predictions, missing labels by the
    predictions of the model. If the labels are a list of pairs, the grid is computed in blocks of
    rows, unless there are limits or bounds. Ties are resolved by the order of rows.

    In a network each pair is listed once; for antisymmetric labels, in the direction with a
    positive prediction. Pairs of a node with itself are left out, unless such a pair is observed.

    Parameters
    ----------
    model : fitted estimator
    n : int, default=20
        Maximum number of pairs.
    per_instance, per_task : int, default=None
        Maximum number of pairs of each instance, and of each task. Pairs are chosen one after the
        other, the best first. In a network the smaller one limits the pairs of each node.
    zeros, observed, by, coverage, probability, setting, cv, sides
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
    options = Options(
        n=n,
        setting=setting,
        zeros=zeros,
        cv=cv,
        sides=sides,
        observed=observed,
        by=by,
        coverage=coverage,
        probability=probability,
        limits=(per_instance, per_task),
    )
    return _top_pairs(model, options)


def _top_pairs(model: Any, options: Options) -> TopPairs:
    """Return the best pairs of the whole grid."""
    options.check_known()
    fitted = fitted_of(model)
    setting = as_setting(options.setting)
    # Limits need the candidates of all rows in one order.
    if options.limits == (None, None) and ranks_list(fitted, options):
        pairs = _best_of_list(cast(FittedRidge, fitted), options.n)
    else:
        pairs = _best_of_grid(fitted, setting, options)
    figures = pairs.figures
    probabilities = options.probabilities(model, [setting], figures["scores"][None, :])
    if probabilities is not None:
        figures["probabilities"] = probabilities[0]
    return TopPairs(
        **figures,
        setting=setting.value,
        method=pairs.method,
        sides=side_names(options.sides, network=fitted.is_network),
        instances=ids_at(fitted.instance_ids, pairs.rows),
        tasks=ids_at(fitted.task_ids, pairs.columns),
    )


class _Pairs(NamedTuple):
    """The best pairs of a grid.

    Attributes
    ----------
    rows, columns : integer arrays of shape (k,)
        Positions of instances and tasks.
    figures : dict of str to array of shape (k,)
        As those of `_grids`.
    method : str
        Hold-out method.
    """

    rows: np.ndarray
    columns: np.ndarray
    figures: dict[str, np.ndarray]
    method: str


def _best_of_grid(fitted: Fitted, setting: Setting, options: Options) -> _Pairs:
    """Return the best pairs of a grid of labels, by predictions that did not use the labels of their pairs."""
    Y = labels_of(fitted).values
    q = Y.shape[1]
    wanted, zeros = _wanted(fitted, Y, options)
    if fitted.is_network:  # both directions are one pair
        wanted = np.triu(wanted)
    has_labels = bool((wanted & ~np.isnan(Y)).any())
    figures, method = _grids(fitted, Y, setting, options, has_labels=has_labels)
    is_reversed = (figures["scores"] < 0) & (fitted.symmetry < 0)
    if is_reversed.any():
        figures = _reversed(figures, is_reversed)
    ranks = np.where(wanted, figures[options.ranked_by], np.nan)
    flat = {name: grid.reshape(1, -1) for name, grid in figures.items()}
    limits = _limits_of_pairs(Y.shape, options.limits, is_network=fitted.is_network)
    best = best_within(best_of_grids(ranks.reshape(1, -1), flat), options.n, limits)
    listed = ~np.isnan(best.ranks[0])
    if not listed.any() and wanted.any():
        raise ValueError(_NOTHING)
    if not listed.any():
        raise ValueError(
            Message(
                "All pairs are observed: there is none to recommend{advice}.",
                advice=advice_on_zeros(zeros),
            )
        )
    places = best.places[0, listed]
    rows = places // q
    columns = places % q
    turned = is_reversed[rows, columns]
    chosen = {name: values[0, listed] for name, values in best.figures.items()}
    first = np.where(turned, columns, rows)
    second = np.where(turned, rows, columns)
    return _Pairs(first, second, chosen, method)


def _wanted(fitted: Fitted, Y: np.ndarray, options: Options) -> tuple[np.ndarray, bool]:
    """Return which pairs of a grid of labels are to be ranked, and whether zeros count as not observed."""
    zeros = zeros_are_unobserved(labels_of_pairs(Y, fitted), options.zeros)
    if options.observed:
        wanted = np.ones(Y.shape, dtype=bool)
    else:
        wanted = unobserved(Y, zeros)
    if fitted.is_network:
        selves = np.diagonal(Y)
        if unobserved(selves, zeros and not options.observed).all():
            np.fill_diagonal(wanted, False)
    return wanted, zeros


def _best_of_list(fitted: FittedRidge, n: int) -> _Pairs:
    """Return the n best pairs that are not in a list of labels, by the predictions of the model itself."""
    m = fitted.labels.shape[0]
    observed = observed_pairs(fitted, np.arange(m), 0, m)
    expansion, rows = fitted.expansion.by_training_rows()
    columns, scores = best_columns(expansion, rows, None, n, observed)
    (places,), (values,) = best_in_rows(scores.reshape(1, -1), n)
    places = places[~np.isnan(values)]
    if not places.size:
        raise ValueError(_NOTHING)
    figures = {"scores": scores.reshape(-1)[places], "labels": np.full(places.size, np.nan)}
    return _Pairs(places // scores.shape[1], columns.reshape(-1)[places], figures, FROM_ALL)


def _reversed(figures: dict[str, np.ndarray], is_reversed: np.ndarray) -> dict[str, np.ndarray]:
    """Return the figures of antisymmetric pairs in the direction with a positive prediction."""
    turned = dict(figures)
    for name, other in (("scores", "scores"), ("lower", "upper"), ("upper", "lower")):
        if name in figures:
            turned[name] = np.where(is_reversed, -figures[other], figures[name])
    return turned


def _limits_of_pairs(
    shape: tuple[int, int], limits: tuple[int | None, int | None], *, is_network: bool
) -> Limits | None:
    """Return how often each instance and task of a grid of pairs may be chosen; None without limits."""
    if limits == (None, None):
        return None
    m, q = shape
    most = [m * q if limit is None else limit for limit in limits]
    if is_network:  # both ends of a pair are nodes
        return Limits(lambda _, places: np.divmod(places, q), np.full(m, min(most)))

    def ends(_: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = np.divmod(places, q)
        return rows, m + columns

    return Limits(ends, np.repeat(most, [m, q]))


def _grids(
    fitted: Fitted, Y: np.ndarray, setting: Setting, options: Options, *, has_labels: bool
) -> tuple[dict[str, np.ndarray], str]:
    """Return the figures of all pairs of a grid, and the hold-out method.

    The figures are predictions that did not use the labels of their pairs ("scores"), labels and,
    to rank by them, bounds. `has_labels` tells whether pairs with a label are ranked.
    """
    F, method = unused_predictions(fitted, Y, setting, options.cv, has_labels=has_labels)
    figures = {"scores": F, "labels": Y}
    if options.by != "score":
        bounds = bounds_of(fitted, (_KNOWN, _KNOWN), options.coverage)
        figures["lower"], figures["upper"] = bounds
    return figures, method


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


def _for_ids(
    model: Any, ids: Any, axis: int, options: Options
) -> Recommendations | RecommendationLists:
    """Recommend for known rows (axis 0) or columns (axis 1)."""
    if not getattr(model, "grows", False):
        fitted = fitted_of(model)
        if ranks_list(fitted, options):
            return ranking_of_list(cast(FittedRidge, fitted), ids, axis, options).best(model)
    ranking = ranking_of_ids(model, ids, axis, options)
    if ranking is None:
        options.check_known()
        return _held_out_lists(model, ids, axis, options)
    if options.zeros or options.hold_out:
        raise ValueError(
            Message(
                "These pairs are ranked by the predictions of the model, and nothing is held out: "
                "leave <setting=>, <zeros=> and <cv=> out."
            )
        )
    return ranking.best(model)


def _held_out_lists(
    model: Any, ids: Any, axis: int, options: Options
) -> Recommendations | RecommendationLists:
    """Recommend for rows or columns of a grid of labels, by predictions that were computed without their cells."""
    fitted = fitted_of(model)
    query, places = query_of_ids(fitted, ids, axis, options)
    Y = labels_of(fitted).values
    known = query.known_pairs(fitted)
    whole, zeros = _wanted(fitted, Y, options)
    rows = Y
    if axis == 1:
        whole = whole.T
        rows = Y.T
    wanted = whole[places]
    if known is not None:
        wanted &= ~known[places].toarray()
    rows = rows[places]
    has_labels = bool((wanted & ~np.isnan(rows)).any())
    grids, method = _grids(fitted, Y, query.setting, options, has_labels=has_labels)
    figures = {}
    for name, grid in grids.items():
        figures[name] = (grid.T if axis else grid)[places]
    ranks = np.where(wanted, figures[options.ranked_by], np.nan)
    if np.isnan(ranks).all():
        raise ValueError(_nothing(query, wanted, zeros))
    return query.lists(best_of_grids(ranks, figures), rows.shape[1], model, method)


def _nothing(query: Query, wanted: np.ndarray, zeros: bool) -> str:
    """Return why there is nothing to recommend among the pairs to rank."""
    if wanted.any():
        return Message(
            "Nothing is predicted for {subjects}: {reason}",
            subjects=query.in_words,
            reason=NO_CONSTANT,
        )
    return Message(
        "Every label of {subjects} is observed, so there is nothing to recommend{advice}.",
        subjects=query.in_words,
        advice=advice_on_zeros(zeros),
    )


def _for_new(
    model: Any, X: Any, tasks: Any, options: Options
) -> Recommendations | RecommendationLists:
    """Recommend for new instances or tasks, by the predictions of the model."""
    setting = Setting.of(axis for axis, rows in enumerate((X, tasks)) if rows is not None)
    needs_labels = options.zeros is not None and options.known is None
    is_other = as_setting(options.setting) not in (Setting.A, setting)
    if needs_labels or options.cv is not None or is_other or options.observed:
        raise ValueError(
            Message(
                "New instances and tasks have no labels to hold out: leave <setting=>, <observed=> "
                "and <cv=> out, and <zeros=>[ unless known= is given|]."
            )
        )
    return ranking_of_new(model, X, tasks, setting, options).best(model, has_labels=False)
