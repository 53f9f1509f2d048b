r"""Estimators that choose their regularisation by exact held-out predictions, and nested scores of them.

`Search` is a mix-in and precedes the model in the list of base classes. It lets the model pose its
problem for every kernel, scores every regularisation, and keeps the best.

A kernel that was learned from a label depends on this label. So a nested prediction comes from a
model that has learned all its kernels again without the fold. This needs no raw data, because the
wide table of a side contains the kernels of all its rows.

The best of many scores is optimistic. For held-out scores :math:`s(\lambda)`,

.. math:: \mathbb{E}\,\max_\lambda s(\lambda) \;\ge\; \max_\lambda \mathbb{E}\,s(\lambda) .

`nested_score` chooses the regularisation without the cells that are scored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.base import clone

from dyadlearn._array import Array, cast, namespace, to_numpy
from dyadlearn._checks import DEFAULT_ALPHAS, check_alphas, check_flag, check_whole
from dyadlearn._documenting import documented
from dyadlearn._interrupts import Interrupted, current, keeping_best
from dyadlearn._messages import Message
from dyadlearn._progress import Phase, Progress
from dyadlearn._state import all_or_nothing, is_shaped
from dyadlearn._tables import Table, shown
from dyadlearn.exceptions import (
    BaselineWarning,
    GridEdgeWarning,
    LeverageError,
    NoLabelWarning,
    SearchStoppedWarning,
    UndefinedScoreWarning,
)
from dyadlearn.holdout import FitAgain, Problem, SolveAgain, Units, plan_fits
from dyadlearn.holdout.folds import Fold, as_splitter, warn_of_merged_groups
from dyadlearn.holdout.planning import Plan, check_method
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.cells import as_good, best_point, warn_of_undefined, where_defined
from dyadlearn.metrics.scorers import prepared_score, usual_scoring
from dyadlearn.models.base import Constants, Groups, LevelSides, PairwiseRidge, Sides
from dyadlearn.models.fitted import HeldOut
from dyadlearn.models.grid import (
    IndependentTaskRidge,
    KroneckerRidge,
    MainEffects,
    PairKernelRidge,
    TwoStepRidge,
    check_constants,
    check_shares,
)
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.reading import Training, fold_predictions, groups_in_order, without_fold
from dyadlearn.models.side import KernelSpec, Side, fit_side, with_level
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.base import absorbs_weights
from dyadlearn.selection.evaluate import baseline_scores, best_in_words, nothing_learnt
from dyadlearn.selection.landscape import (
    Evaluated,
    Expected,
    LeftOut,
    expected_points,
    grids_of,
    planned_for,
    score_plan,
)
from dyadlearn.settings import Setting, as_setting
from dyadlearn.spectrum import Spectrum

# Values of one or two regularisations to try.
Grids = tuple[list[float], list[float] | None]

# A score at the edge of a default grid is reported if it is better than all scores inside by more
# than this share of the loss: beyond the edge, scores are constant up to about as much.
_WORTH_MENTIONING = 1e-4

# Measured time of the final fit and of its hold-out predictions, in points of the search. The
# points of a coarse search are solved roughly.
_FIT = 1.0
_HOLDOUT = 1.0
_HOLDOUT_OF_ROUGH = 5.0


class KeptHoldout(PairwiseRidge, stored=False):
    """Base class of models that store the held-out predictions of one setting, also in model files."""

    setting: str
    scoring: Any
    progress: bool | None

    holdout_method_: str
    holdout_setting_: str
    # One held-out prediction per label, and the folds that were left out.
    _predictions: Array
    _units: Units
    # Groups of instances and of tasks, as integers.
    _groups: np.ndarray | None
    _task_groups: np.ndarray | None

    def fit(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        task_groups: Any = None,
    ) -> Self:
        """Fit the model, and choose its regularisation or learn its kernels.

        An interrupt (Ctrl-C) ends the search or the learning: the best result so far is fitted,
        with a `SearchStoppedWarning`. An interrupt after that is heard when the fit is finished. A
        second interrupt, or one before the first result, raises `KeyboardInterrupt` and leaves the
        model as it was.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (m, d), or (m, m) for a precomputed kernel
            The instances: features, or the kernel between them. `LearnedKernelRidge` also accepts a
            mapping or list of such tables, or `Descriptions`.
        y : array, frame or series of shape (m, q) or (m,)
            Grid of labels; NaN means "not observed". Ids of its rows and columns are matched with
            those of `X` and `tasks`. In a sparse matrix, cells that are not stored are not
            observed.
        tasks : the same as `X` for the q tasks, default=None
            The tasks: features, or the kernel between them. Without `tasks` each task is learned
            independently. `IndependentTaskRidgeCV` ignores `tasks`.
        sample_weight : array or frame of shape (m,) or (m, q), default=None
            Weights of the squared loss, in the fit and in the hold-out error that kernels are
            learned by. The `scoring` of a search counts all labels with positive weight equally.
        groups, task_groups : array-like of shape (m,) and (q,), or "identical", default=None
            Groups of instances and of tasks; a group is left out together. "identical" groups rows
            with equal features or kernels.

        Returns
        -------
        self
        """
        with all_or_nothing(self), keeping_best(self.progress) as interrupts:
            data = self._read(X, y, tasks, sample_weight)
            self._fit_on(data, *groups_in_order(data, groups, task_groups))
        if interrupts.heard is not None:
            warnings.warn(self._reached(), SearchStoppedWarning, stacklevel=2)
        return self

    def _reached(self) -> str:
        """Return what an interrupted fit has reached."""
        raise NotImplementedError

    def set_alpha(self, alpha: Any = None, task_alpha: float | None = None) -> NoReturn:
        """Raise TypeError, because the search chooses the regularisation, or learns it with the kernels."""
        if self.learns_kernels:
            how = "learned its regularisation with its kernels"
        else:
            how = "chosen its regularisation"
        raise TypeError(
            f"{type(self).__name__} has {how}: fit it again, or fit the model without search."
        )

    @property
    def holdout_(self) -> Any:
        """Held-out predictions at the chosen values, of the type of the labels."""
        return self._as_labels(self._kept_predictions())

    def _kept_predictions(self) -> Array:
        """Return one held-out prediction per label."""
        return self._predictions

    def _keep_groups(self, groups: Any, task_groups: Any) -> None:
        """Store the groups of instances and of tasks."""
        self._groups, self._task_groups = code_groups(self._labels, groups, task_groups)

    def _fits(self) -> bool:
        labels = self._labels
        return (
            super()._fits()
            and is_shaped(self._predictions, *labels.values.shape)
            and self._units.match(labels)
            and Units((self._groups, self._task_groups)).match(labels)
        )

    @property
    def _searched_setting(self) -> Setting:
        """Setting of the last fit, for which the regularisation was chosen."""
        return as_setting(getattr(self, "holdout_setting_", self.setting))

    @property
    def baselines_(self) -> dict[str, float]:
        """Scores of the baselines in the setting of the search, held out in the same way as the model."""
        fitted = self.fitted_
        setting = self._searched_setting
        return baseline_scores(
            fitted.labels, setting, self._units, self._score(setting), symmetry=fitted.symmetry
        )

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        """Return the score by which the model was chosen; negative squared error if it has no `scoring`."""
        scoring = "neg_mean_squared_error" if self.scoring is None else self.scoring
        return prepared_score(self._labels, scoring, setting)

    def _hold_out(
        self,
        setting: Setting,
        cv: Any,
        groups: Any,
        task_groups: Any,
        nested: bool,
        exact: bool,
        method: str | None = None,
    ) -> HeldOut:
        """Return held-out predictions; the groups of the fit are the default, unless a list of folds is given."""
        is_stored = setting is self._searched_setting and method is None
        is_stored &= cv is None and groups is None and task_groups is None
        if not is_stored and not isinstance(cv, list | tuple):
            groups = self._groups if groups is None and 0 in setting.new else groups
            task_groups = (
                self._task_groups if task_groups is None and 1 in setting.new else task_groups
            )
        return super()._hold_out(setting, cv, groups, task_groups, nested, exact, method)

    def _kept_holdout(self, setting: Setting) -> HeldOut | None:
        if setting is not self._searched_setting:
            return None
        return HeldOut(
            self._kept_predictions(),
            self.holdout_method_,
            self._units,
            reason=getattr(self, "holdout_reason_", ""),
        )


class Refits:
    """Fits of a model without each fold, for a plan of `dyadlearn.holdout.plan_fits`.

    Parameters
    ----------
    model : PairwiseRidge
        Model to clone and fit; it need not be fitted.
    data : Training
        Training data with a grid of labels.
    groups : (array or None, array or None)
        Groups that the model leaves out together within the training part of each fold.
    setting : Setting
        Setting of the predictions; it may differ from the setting of the model.

    Attributes
    ----------
    alphas : list of dict
        Regularisation that was chosen in each fold, by the name of the parameter.
    """

    def __init__(self, model: Any, data: Training, groups: Groups, setting: Setting) -> None:
        self.model = model
        self.data = data
        self.groups = groups
        self.setting = setting
        self.alphas: list[dict[str, Any]] = []
        self._caught: list[warnings.WarningMessage] = []
        self._n_at_edge = 0

    def line(self, n_folds: int) -> Progress:
        """Return the line of progress."""
        return Progress(n_folds, "Nested folds", self.model.progress, 1)

    def predict(self, fold: Fold) -> Array:
        """Fit the model without a fold, and predict the labels of the fold."""
        n_before = len(self._caught)
        inner, predicted = _fit_without(self.model, self.data, self.groups, self.setting, fold)
        self.alphas.append(inner._alphas)
        self._n_at_edge += any(
            issubclass(each.category, GridEdgeWarning) for each in self._caught[n_before:]
        )
        return predicted

    def held_out(self, how: FitAgain) -> Array:
        """Return the predictions of a plan, of the shape of the labels' values, and warn once for all folds."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._caught = caught
            predictions = how.held_out()
        if self._n_at_edge:
            message = f"In {self._n_at_edge} of {len(how.folds)} folds a best regularisation is on the edge of the grid"
            warnings.warn(f"{message}: widen it.", GridEdgeWarning, stacklevel=3)
        # Repeat each distinct warning of the folds once, except those that have a common message
        # for all folds.
        others = {(each.category, each.filename, each.lineno): each for each in reversed(caught)}
        for (category, filename, line), each in others.items():
            if not issubclass(category, (NoLabelWarning, GridEdgeWarning, BaselineWarning)):
                warnings.warn_explicit(each.message, category, filename, line)
        return predictions


def _fit_without(
    model: Any, data: Training, groups: Groups, setting: Setting, fold: Fold
) -> tuple[Any, Array]:
    """Return a model that is fitted without a fold, and its predictions for the labels of the fold."""
    left, asked = without_fold(data, setting, fold)
    staying = [
        None if codes is None else codes[at] for codes, at in zip(groups, fold.staying, strict=True)
    ]
    again = model._refitted(left, (staying[0], staying[1]), setting)
    sides = (again._side, again._task_side)
    rows = [
        None if new is None else side.new_rows(new) for side, new in zip(sides, asked, strict=True)
    ]
    if data.labels.grid is None:
        axes = zip(fold.leaving, data.labels.places, strict=True)
        places = [np.searchsorted(leaving, at[fold.test]) for leaving, at in axes]
        return again, again._expansion().at(*rows, (places[0], places[1]))
    # In A the predictions for the training rows include the hidden labels.
    if setting is Setting.A:
        predicted = again._closed_problem.Y
    else:
        predicted = again._expansion().grid(*rows)
    return again, fold_predictions(predicted, fold)


@dataclass(frozen=True, eq=False, repr=False)
class NestedScore:
    """Score of a search on cells that were not used in its choices.

    Attributes
    ----------
    score : float
        Score of all held-out predictions together.
    setting : str
    fold_scores : array of shape (n_folds,)
        Score of the predictions of each fold; NaN if the metric is undefined in the fold.
    alphas : array of shape (n_folds,)
        Regularisation chosen in each fold.
    task_alphas : array of shape (n_folds,) or None
        Regularisation of the tasks chosen in each fold; None if the model has none.
    predictions : array or frame of shape (m, q)
        Prediction of every cell by the model that was fitted without it, of the type of the labels.
    baselines : dict of str to float
        Scores of the baselines in the same folds; see `dyadlearn.holdout.baselines`.
    """

    score: float
    setting: str
    fold_scores: np.ndarray
    alphas: np.ndarray
    task_alphas: np.ndarray | None
    predictions: Any
    baselines: dict[str, float]

    def __repr__(self) -> str:
        means = best_in_words(self.baselines)
        return f"NestedScore({self.score:.4g} in setting {self.setting}, {len(self.fold_scores)} folds; means: {means})"


def nested_score(
    search: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cv: int = 5,
    random_state: Any = None,
) -> NestedScore:
    """Score a search by nested cross-validation, on cells that were not used in its choices.

    Unlike `dyadlearn.evaluate`, this function takes an estimator that need not be fitted, and the
    training data.

    Folds of pairs (setting A), of instances (B), of tasks (C) or blocks of both (D) are left out in
    turn. For each fold the whole search runs on the remaining data, and the chosen model predicts
    the left-out cells. All predictions are scored together. In setting A the labels of a fold are
    hidden and the grid becomes incomplete. An instance or task without remaining labels stays in
    the grid and is predicted from its features; an independent task without an intercept is
    predicted as 0, and one with an intercept as NaN. NaN predictions are not scored.

    Parameters
    ----------
    search : TwoStepRidgeCV, or any other model that chooses its regularisation
        The search to score; it is cloned, not fitted. The score uses its `setting` and `scoring`;
        without `scoring` the metric depends on the labels. `LearnedKernelRidge` learns its kernels
        again in each fold.
    X, y, tasks, sample_weight
        Arguments of its `fit`; for a `PairRegressor` of a search, `X` are the pairs.
    groups, task_groups : array-like of shape (m,) and (q,), or "identical", default=None
        Groups of instances and of tasks. A group is left out together, by the folds and by the
        search within them.
    cv : int, default=5
        Number of folds; setting D has this number squared of blocks.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

    Returns
    -------
    NestedScore

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> from dyadlearn import nested_score
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> search = TwoStepRidgeCV(setting="D")
    >>> found = nested_score(search, X, Y, tasks=T, cv=2, random_state=0)
    >>> found.alphas.shape, found.score < search.fit(X, Y, tasks=T).best_score_
    ((4,), True)
    """
    if isinstance(search, PairRegressor):
        X, y, tasks, sample_weight = search.given_to_model(X, y, sample_weight)
        search = search.model
    if not getattr(search, "searches", False):
        name = type(search).__name__
        raise TypeError(
            f"{name} has no search, so evaluate(model, cv=5) is its nested score: give a "
            f"TwoStepRidgeCV, say."
        )
    if search.symmetry is not None:
        raise ValueError(
            "A network has no folds of one side: nested_score is for grids of instances and tasks."
        )
    setting = as_setting(search.setting)
    if 1 in setting.new and tasks is None:
        raise ValueError(
            Message(
                "Setting {setting} leaves out tasks: give <tasks=>, their features or kernel.",
                setting=setting.value,
            )
        )
    reader = clone(search)
    data = reader._read(X, y, tasks, sample_weight)
    whole = data.labels
    groups, task_groups = code_groups(whole, *groups_in_order(data, groups, task_groups))
    # A model that learns its kernels may use groups in other settings too.
    used = Units.of_groups(
        whole, setting if search.learns_kernels else Setting.D, (groups, task_groups)
    )
    splitter = SettingKFold(setting, check_whole(cv, "cv", 2), random_state=random_state)
    refits = Refits(reader, data, (groups, task_groups), setting)
    how = plan_fits(whole, setting, used, splitter, predict=refits.predict, line=refits.line)
    F = refits.held_out(how)
    alphas = refits.alphas
    judge = scorer(usual_scoring(whole.values) if search.scoring is None else search.scoring)
    labels = scored_labels(whole, F, setting)
    prepared = prepared_score(whole, judge, setting, labels)
    return NestedScore(
        score=float(prepared(F)),
        setting=setting.value,
        fold_scores=np.array(
            [_score_of(judge, whole, labels, F, fold, setting) for fold in how.folds]
        ),
        alphas=np.array([chosen["alpha"] for chosen in alphas]),
        task_alphas=np.array([chosen["task_alpha"] for chosen in alphas])
        if "task_alpha" in alphas[0]
        else None,
        predictions=whole.restored(cast(F, getattr(namespace(F), data.precision)), data.form),
        baselines=baseline_scores(whole, setting, how.units, prepared),
    )


def code_groups(labels: Labels, groups: Any, task_groups: Any) -> Groups:
    """Return the groups of instances and of tasks as integers."""
    rows, columns = Units.of_groups(labels, Setting.D, (groups, task_groups)).sides
    return rows, columns


def _score_of(
    judge: Scorer, labels: Labels, targets: Array, F: Array, fold: Fold, setting: Setting
) -> float:
    """Return the score of one fold, NaN if it is undefined."""
    hidden = ~fold.masks[1]
    part = replace(labels, values=targets, weights=None).hide(hidden)
    try:
        return float(prepared_score(part, judge, setting)(labels.kept(F, hidden)))
    except (ValueError, ArithmeticError):
        return math.nan


@dataclass(eq=False, repr=False, kw_only=True)
class SearchParameters:
    r"""Parameters of all searches.

    Parameters
    ----------
    alphas : sequence of float or float, default=None
        Values of :math:`\lambda` to try. None means 10⁻⁷, 10⁻⁶, …, 10⁶ times the mean eigenvalue of
        the kernel and the mean weight of the labels, so that units do not matter; see
        `dyadlearn.selection.default_alphas`.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model will predict: new pairs (A), new instances (B), new tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel_grid : list of dict, default=None
        Kernel parameters to try, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each needs one
        decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None means leave-one-out: exact where a formula is affordable, always
        with complete labels, or by a few refits; otherwise it means five folds. A sequence, as
        splitters of scikit-learn yield it, splits the instances in setting B.
    method : {"exact", "folds"}, default=None
        Method of hold-out. "exact" takes a formula whatever it costs, and raises an error if there
        is none; "folds" refits folds. None takes a formula if there is one that is affordable.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation if hold-out has no formula and each fold is
        refitted. By default such a search is coarse-to-fine if an axis has seven or more values.
    progress : bool, default=None
        Whether to show a progress line. None shows it on a terminal, and in a log after a few
        seconds.

    Attributes
    ----------
    alpha_ : float
        The best value; ties are resolved in favour of the largest.
    alphas_ : array of shape (n_alphas,)
        The values that were tried, with kernel grids those for the best kernel.
    kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
    landscape_ : array of shape (n_alphas,)
        Scores; NaN where the score is undefined. With kernel grids, two axes for their values come
        first; by default each kernel has its own values of alpha, and the last axis is that of
        their multiples 10⁻⁷ to 10⁶. After a coarse-to-fine search, points that were not evaluated
        are NaN and the scores are approximate: see `dyadlearn.selection.landscape`.
    n_evaluated_ : int
        Number of points of `landscape_` that were evaluated.
    holdout_ : array or frame of shape (m, q), or sparse matrix of observed pairs alone
        Held-out predictions at the best values.
    holdout_method_ : str
        Method of `holdout_`: exact leave-one-out, leave-group-out or leave-fold-out by a formula,
        or refits.
    holdout_reason_ : str
        The method and why it was chosen, such as "exact leave-one-out by closed form of a complete
        grid".
    holdout_setting_ : {"A", "B", "C", "D"}
        Setting of `holdout_`.
    baselines_ : dict of str to float
        Scores of the baselines ``grand_mean``, ``instance_means``, ``task_means`` and ``additive``,
        held out in the same way and comparable with `best_score_`.
    """

    setting: str = "B"
    scoring: Any = "neg_mean_squared_error"
    kernel_grid: Sequence[dict[str, Any]] | None = None
    cv: Any = None
    method: str | None = None
    exhaustive: bool = False
    progress: bool | None = None
    # The search chooses alpha.
    alpha: Any = field(default=None, init=False)


class Search(SearchParameters, KeptHoldout, stored=False):
    """Mix-in that chooses the regularisation of a model: sides are decomposed once, and every value is scored."""

    searches = True
    _not_always: ClassVar[tuple[str, ...]] = (*KeptHoldout._not_always, "shares_", "constants_")

    alphas: Any
    task_alphas: Any = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None
    alpha_per_task: bool = False

    alpha_: Any
    task_alpha_: Any
    # Values that were tried, for the chosen kernel.
    alphas_: np.ndarray
    task_alphas_: np.ndarray | None
    shares_: Any
    constants_: Any
    holdout_reason_: str
    best_score_: float
    landscape_: np.ndarray
    n_evaluated_: int

    def _fit_on(self, data: Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Decompose the sides for all kernels to try, and choose the best parameters."""
        self._search(self._posed(data, groups, task_groups))
        with Phase("Baselines"):
            current().attempt(self._warn_of_choice)
        return self

    def _posed(self, data: Training, groups: Any = None, task_groups: Any = None) -> Sides:
        """Store the labels, and return the decomposed sides for all kernels to try."""
        self._keep_labels(data)
        self._keep_groups(groups, task_groups)
        specs = _specs(self._spec(), self.kernel_grid, "instance")
        sides = self._decomposed(
            data, specs, _specs(self._task_spec(), self.task_kernel_grid, "task")
        )
        self._scale_weights(sides)
        return sides

    def _reached(self) -> str:
        tried = f"{self.n_evaluated_} of {self.landscape_.size} points were tried"
        return f"The search was interrupted: {tried}; the best is chosen."

    def _scale_weights(self, sides: Sides) -> None:
        """Divide the weights by their mean if the regularisation cannot, so that default grids suit any weights."""
        if self._labels.weights is None:
            return
        pairing = self._problems(sides)[0].pairing
        has_default = any(getattr(self, f"{name}s") is None for name in pairing.alphas)
        if has_default and not absorbs_weights(pairing):
            self._labels = replace(
                self._labels, weights=self._labels.weights / self._labels.mean_weight
            )

    def _warn_of_choice(self) -> None:
        """Warn if all labels are equal, if the baselines are as good as the best score, or of an edge of the grid."""
        only = _only_label(self)
        if only is not None:
            warnings.warn(
                f"All labels are {only:g}: there is nothing to learn.", UserWarning, stacklevel=5
            )
            return
        for edge in edges_of(self):
            warnings.warn(edge.note(), GridEdgeWarning, stacklevel=5)
        note = self._nothing_learnt()
        if note is not None:
            warnings.warn(note, BaselineWarning, stacklevel=5)

    def _nothing_learnt(self) -> str | None:
        """Return a note if the best score is not better than that of the baselines; else None."""
        return nothing_learnt(
            scorer(self.scoring).name, self._searched_setting, self.best_score_, self.baselines_
        )

    def _search(self, sides: Sides, of: float = 0.0) -> Self:
        """Choose the regularisation for decomposed sides; `of` is as in `Progress`."""
        choose = self._choose_each_task if self.alpha_per_task else self._choose
        return choose(sides, self._left_out, of)

    @property
    def _left_out(self) -> LeftOut:
        """What hold-out leaves out, and by which method."""
        return LeftOut(self._groups, self._task_groups, self.cv, self.method)

    def _expected(self, sides: Sides) -> Expected:
        """Return what the search for decomposed sides will do, and its cost."""
        problems = self._problems(sides)
        grids = self._grids(problems[0])
        how = planned_for(problems[0], as_setting(self.setting), self._left_out, *grids)
        return Expected(
            how, len(problems), expected_points(how, *grids, exhaustive=self.exhaustive)
        )

    def _refitter(self, setting: Setting) -> Callable[[Labels], Self]:
        """Return a function that repeats the search on other labels of the same instances and tasks."""
        template = self._snapshot()
        template.__dict__.update(self._solved_with)
        template.progress = False
        sides = template._tried_sides()

        def search(labels: Labels) -> Any:
            again = template._snapshot()
            again._labels = labels
            again._solution = None
            return again._search(sides)

        return search

    def _tried_sides(self) -> Sides:
        """Return the sides for all kernels that were tried; kernels that were not chosen are decomposed again."""
        pairs = self._tried_constants()
        kernels = _tried(self._side, self._solved_with["kernel_grid"], "instance")
        sides = _at_levels(kernels, [level for level, _ in pairs], "instance")
        task_sides: LevelSides = {}
        if self._task_side is not None:
            kernels = _tried(self._task_side, self._solved_with.get("task_kernel_grid"), "task")
            task_sides = _at_levels(kernels, [level for _, level in pairs], "task")
        return self._with_constants(sides, task_sides, pairs)

    def _tried_constants(self) -> list[Constants]:
        """Return the constants of both kernels that were tried, in the order of the decomposed sides."""
        if self._side.spec.constant == "feature":
            return self._all_constants()
        return [(1.0, 1.0)]

    @property
    def kernel_params_(self) -> Any:
        """Chosen kernel parameters of the instances."""
        return self._side.spec.params

    @property
    def _alphas(self) -> dict[str, Any]:
        return _named(self.alpha_, self.task_alpha_)

    def _check_params(self) -> None:
        as_splitter(self.cv, as_setting(self.setting))
        check_method(self.method)
        scorer(self.scoring)
        super()._check_params()
        for name in ("task_alphas", "task_kernel_grid"):
            if self.symmetry is not None and getattr(self, name) is not None:
                raise ValueError(
                    f"A network has one kernel and one regularisation for both sides: leave {name} "
                    f"out."
                )
        check_flag(self.exhaustive, "exhaustive")

    def _check_alphas(self) -> None:
        for name in ("alphas", "task_alphas"):
            _check_grid(getattr(self, name), name)

    def _problems(self, sides: Sides) -> list[Problem]:
        """Return the problems to try, at any regularisation: one or more for each pair of decomposed sides."""
        start = {name: 1.0 for name in ("alpha", "task_alpha") if hasattr(self, name)}
        return [self._problem_at(*both, start) for row in sides for both in row]

    def _grids(self, problem: Problem) -> tuple[list[float], list[float] | None]:
        """Return the values of one or two regularisations to try for a problem."""
        return grids_of(problem, self.alphas, self.task_alphas)

    def _choose(self, sides: Sides, left_out: LeftOut, of: float = 0.0) -> Self:
        """Score all regularisations for all sides to try, and solve for the best."""
        setting = as_setting(self.setting)
        problems = self._problems(sides)
        grids = [self._grids(problem) for problem in problems]
        first = planned_for(problems[0], setting, left_out, *grids[0])
        n_points = expected_points(first, *grids[0], exhaustive=self.exhaustive)
        if isinstance(first, SolveAgain) and not self.exhaustive:
            n_holdout = _HOLDOUT_OF_ROUGH
        else:
            n_holdout = _HOLDOUT
        total = len(problems) * n_points + _FIT + n_holdout
        with Progress(total, f"Search {setting.value}", self.progress, of):
            Expected(first, len(problems), n_points).announce()
            stack, is_rough, best_plan = self._scored(problems, grids, first, left_out, n_points)
            place = self._take_best(stack, sides, problems, grids)
            with Phase("Final fit", of=_FIT):
                self._solve()
            with Phase("Hold-out", 1, of=n_holdout):
                # Folds that were solved in the search are warm starts, now at the tolerance of the
                # fit.
                if best_plan[0] == place:
                    how = best_plan[1]
                else:
                    how = left_out.plan(self.fitted_.problem, setting)
                labels = self._keep_holdout(how)
        if is_rough:
            self.best_score_ = float(
                prepared_score(self._labels, self.scoring, setting, labels)(self._predictions)
            )
        return self

    def _take_best(
        self, stack: np.ndarray, sides: Sides, problems: Sequence[Problem], grids: Sequence[Grids]
    ) -> int:
        """Store the sides and regularisation with the best score, and return the position of their problem."""
        if self.n_evaluated_ == stack.size:
            self._warn_of_undefined(stack, grids)
        # Grids of different kernels are in the same order.
        place = best_point(stack, *(values for values in grids[0] if values is not None))
        alphas, task_alphas = grids[place[0]]
        n_sides = (len(sides), len(sides[0]))
        n_forms = len(stack) // (len(sides) * len(sides[0]))
        first, second, _ = np.unravel_index(place[0], (*n_sides, n_forms))
        self._side, self._task_side = sides[first][second]
        n_constants = len(self._tried_constants())
        n_kernels = (n_sides[0], n_sides[1] // n_constants)
        # Drop the axes of kernel grids that are not searched.
        leading = [*n_kernels] if max(n_kernels) > 1 else []
        if hasattr(self, "constants"):
            self.constants_ = self._chosen_constants()
            is_searched = self.constants_ is not None and isinstance(self.constants, Iterable)
            leading += [n_constants] if is_searched else []
        if hasattr(self, "shares"):
            self.shares_ = getattr(problems[place[0]].pairing, "shares", None)
            leading += [] if self.shares_ is None else [n_forms]
        self.landscape_ = stack.reshape(*leading, *stack.shape[1:])
        self.best_score_ = float(stack[place])
        self.alpha_ = alphas[place[1]]
        self.task_alpha_ = None if task_alphas is None else task_alphas[place[2]]
        self.alphas_ = np.asarray(alphas)
        self.task_alphas_ = None if task_alphas is None else np.asarray(task_alphas)
        return int(place[0])

    def _chosen_constants(self) -> Constants | None:
        """Return the constants of both kernels; None if the model has none."""
        if self._task_side is None or self._side.spec.constant != "feature":
            return None
        return self._side.spec.level, self._task_side.spec.level

    def _keep_holdout(self, how: Plan) -> Array:
        """Store the held-out predictions at the chosen values, and return the labels that have a prediction."""
        self._predictions = how.held_out(self.fitted_.problem, everywhere=True)
        self.holdout_method_ = how.method
        self.holdout_reason_ = how.explanation
        self.holdout_setting_ = how.setting.value
        self._units = how.units
        if self.cv is None:
            groups = (self._groups, self._task_groups)
            used = Units.of_groups(self._labels, how.setting, groups)
            warn_of_merged_groups(used, how.units, how.setting, stacklevel=6)
        return scored_labels(
            self._labels, self._predictions, how.setting, stacklevel=6
        )  # warns about the others

    def _choose_each_task(self, sides: Sides, left_out: LeftOut, of: float = 0.0) -> Self:
        """Score all regularisations for each task separately, and solve with the best value of each task."""
        setting, [problem] = as_setting(self.setting), self._problems(sides)
        alphas, _ = self._grids(problem)
        [[(self._side, self._task_side)]] = sides
        how, interrupts = planned_for(problem, setting, left_out, alphas, None), current()
        judge = scorer(self.scoring)
        score = None

        def scored(values: Sequence[float], _: Sequence[float]) -> np.ndarray:
            nonlocal score
            rows: list[np.ndarray] = []
            for alpha in values:
                held_out = interrupts.attempt(partial(how.held_out, problem.at(alpha)))
                if held_out is None:
                    rows.append(np.full(problem.labels.shape[1], np.nan))
                    continue
                if (
                    score is None
                ):  # the labels that have a prediction are the same for all regularisations
                    labels = scored_labels(problem.labels, held_out, setting, quiet=True)
                    score = judge.prepare_each_task(labels)
                rows.append(score(held_out))
                if np.isfinite(rows[-1]).any():
                    interrupts.keep()
                bar.advance()
            return np.stack(rows)

        with Progress(
            len(alphas) + _FIT + _HOLDOUT, f"Search {setting.value}", self.progress, of
        ) as bar:
            Expected(how, 1, len(alphas)).announce()
            scores = where_defined(scored, alphas, [1.0])
        undefined = np.isnan(scores).all(axis=0)
        if undefined.all():
            raise ValueError(
                f"{judge.name} is undefined for every task, so no alpha can be chosen."
            )
        if interrupts.heard is None:
            warn_of_undefined(scores[:, ~undefined].T, (alphas, None), setting.value, 5)
        # A task without a score gets the value that is best for the other tasks together.
        filled = np.where(undefined, scores[:, ~undefined].mean(axis=1, keepdims=True), scores)
        best = [best_point(task_scores, alphas)[0] for task_scores in filled.T]
        if undefined.any():
            ids = self._form.column_ids
            places = np.flatnonzero(undefined)
            names = shown(places.tolist() if ids is None else ids.take(places).labels)
            warnings.warn(
                f"{judge.name} is undefined for {len(places)} of {undefined.size} tasks ({names}): "
                f"they get alpha "
                f"{alphas[best[places[0]]]:g}, the best for all others together, and are excluded "
                f"from the score.",
                UndefinedScoreWarning,
                stacklevel=5,
            )
        self.alphas_ = np.asarray(alphas)
        self.task_alphas_ = None
        self.alpha_ = self.alphas_[best]
        self.task_alpha_ = None
        self.landscape_ = scores
        self.best_score_ = float(np.nanmean(scores[best, np.arange(len(best))]))
        n_rows = (
            len(alphas)
            if interrupts.heard is None
            else np.count_nonzero(np.isfinite(scores).any(axis=1))
        )
        self.n_evaluated_ = n_rows * scores.shape[1]
        self._solve()
        self._keep_holdout(how)
        return self

    def _warn_of_undefined(self, stack: np.ndarray, grids: Sequence[Grids]) -> None:
        """Warn of the regularisations without a score, by their multiples if kernels have different grids."""
        alphas, task_alphas = grids[0]
        names = ["alpha", "task_alpha"]
        if len(grids) > 1 and self.alphas is None:
            alphas = list(DEFAULT_ALPHAS)
            names[0] = "relative alpha"
        if len(grids) > 1 and self.task_alphas is None and task_alphas is not None:
            task_alphas = list(DEFAULT_ALPHAS)
            names[1] = "relative task_alpha"
        warn_of_undefined(
            stack, (alphas, task_alphas), as_setting(self.setting).value, 7, names=names
        )

    def _scored(
        self,
        problems: Sequence[Problem],
        grids: Sequence[Grids],
        first: Plan,
        left_out: LeftOut,
        n_points: int,
    ) -> tuple[np.ndarray, bool, tuple[int, Plan]]:
        """Score all regularisations of some problems, and store the number of evaluated points.

        `first` is the plan of the first problem, and `n_points` the expected number of points of
        each problem.

        Returns
        -------
        stack : array of shape (n_problems, n_alphas, …)
            Scores; NaN for problems that always interpolate, and for points that were not
            evaluated.
        is_rough : bool
            Whether the scores are those of approximate solutions.
        best : (int, Plan)
            Position of the problem with the best score, and its hold-out plan.
        """
        evaluated: dict[int, Evaluated] = {}
        top = -np.inf
        refusal = LeverageError()
        interrupts = current()
        options: dict[str, Any] = {
            "search": True,
            "exhaustive": self.exhaustive,
            "progress": self.progress,
        }
        for place, (problem, values) in enumerate(zip(problems, grids, strict=True)):
            if place:
                how = planned_for(problem, first.setting, left_out, *values)
            else:
                how = first
            try:
                each = score_plan(how, self.scoring, *values, **options, of=n_points)
            except LeverageError as error:
                refusal = error
                continue
            except KeyboardInterrupt as error:
                if not evaluated:
                    raise
                interrupts.heed(error)
                break
            evaluated[place] = each
            score = float(np.nanmax(each.scores, initial=-np.inf))
            if score > top or len(evaluated) == 1:
                top = score
                best = (place, how)
            if interrupts.heard is not None:
                break
        if not evaluated:
            raise refusal
        if interrupts.heard is not None and top == -np.inf:
            raise Interrupted(interrupts.heard)  # what is kept is the result of another search
        self.n_evaluated_ = sum(each.n_points for each in evaluated.values())
        stack = np.full((len(problems), *each.scores.shape), np.nan)
        for place, one in evaluated.items():
            stack[place] = one.scores
        return stack, each.is_rough, best

    def _fits(self) -> bool:
        for value in self._alphas.values():
            self._checked_alpha(value, "What was chosen")
        grids = [values for values in (self.alphas_, self.task_alphas_) if values is not None]
        if np.ndim(self.alpha_):
            axes = self.landscape_.shape[:1]
        else:
            axes = self.landscape_.shape[-len(grids) :]
        return (
            super()._fits()
            and self.landscape_.dtype.kind == "f"
            and all(
                is_shaped(values, n_values) for values, n_values in zip(grids, axes, strict=True)
            )
        )


def _tried(side: Side, grid: Any, name: str) -> list[Side]:
    """Return a side for each set of kernel parameters; the chosen one is already decomposed."""
    specs = _specs(side.spec, grid, name)
    table = Table(side.features, side.ids, side.names)
    # Features are stored for all kernels that have parameters.
    alone = side.features is None or side.spec.is_linear
    return [
        side if alone or spec.params == side.spec.params else fit_side(table, spec, name)
        for spec in specs
    ]


def _at_levels(sides: Sequence[Side], levels: Sequence[float], name: str) -> LevelSides:
    """Return sides with each of some constant features."""
    return {
        level: [with_level(side, level, name) for side in sides] for level in dict.fromkeys(levels)
    }


class ConstantsSearch(MainEffects, stored=False):
    """Base class of searches over the constants of the kernels, besides the regularisation.

    Parameters
    ----------
    constants : sequence of float or (float, float), or float, default=None
        Constants to try, each as the parameter `constants` of `KroneckerRidge`: a number for both
        kernels, or a pair (a, b). One number is not searched, and None means 1.0. A pair alone is
        ``[(a, b)]``. Each kernel is decomposed once for each of its constants. The constants have
        the units of the kernels, so multiples of the mean diagonal of each kernel are sensible
        values.

    Attributes
    ----------
    constants_ : (float, float) or None
        The best constants, of the kernel of the instances and of that of the tasks; of equally good
        pairs the first. None without tasks or without an intercept.
    """

    constants: Any = None

    def _all_constants(self) -> list[Constants]:
        if self.constants is None:
            return [(1.0, 1.0)]
        _check_sequence(self.constants, "constants")
        is_one = isinstance(self.constants, str) or getattr(self.constants, "ndim", 1) == 0
        if is_one or not isinstance(self.constants, Iterable):
            return [check_constants(self.constants)]
        tried = [check_constants(each, "each of constants") for each in self.constants]
        if not tried:
            raise ValueError("constants is empty: give at least one number or pair of numbers.")
        return tried


@dataclass(eq=False, repr=False, kw_only=True)
class TaskSearchParameters(SearchParameters):
    """Parameters of all searches over models with a task kernel.

    Parameters
    ----------
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to try, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each needs one
        decomposition.

    Attributes
    ----------
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    """

    task_kernel_grid: Sequence[dict[str, Any]] | None = None

    @property
    def task_kernel_params_(self: Any) -> Any:
        """Chosen kernel parameters of the tasks."""
        return None if self._task_side is None else self._task_side.spec.params


@documented
@dataclass(eq=False, repr=False)
class TwoStepRidgeCV(Search, TaskSearchParameters, TwoStepRidge):
    r"""Two-step ridge regression that chooses both regularisations by exact hold-out.

    Every pair :math:`(\lambda_d, \lambda_t)` of the grid is scored by exact held-out predictions.
    This needs only two decompositions in total. `best_score_` is the best of many scores and
    therefore optimistic: see `nested_score`.

    `sample_weight` weights the squared loss of each fit, also within the search. The scores are not
    weighted: every observed cell with a positive weight counts equally, unless a `scoring` function
    weights the cells itself. If `alphas` or `task_alphas` is None, the search divides the weights
    by their mean, so that only their ratios matter; `TwoStepRidge` gives the same model with
    weights of mean 1. With given values weights are used as they are.

    Parameters
    ----------
    alphas, task_alphas : sequences of float or float, default=None
        Values of :math:`\lambda_d` and :math:`\lambda_t` to try. None means 10⁻⁷, 10⁻⁶, …, 10⁶
        times the mean eigenvalue of the kernel of the side, so that units do not matter; see
        `dyadlearn.selection.default_alphas`. A network has one regularisation, `alphas`.
    symmetry : {"symmetric", "antisymmetric"}, default=None
        For a network, as in `TwoStepRidge`. Edges or nodes are left out of both sides, one at a
        time.

    Attributes
    ----------
    alpha_, task_alpha_ : float
        The best values. Ties are resolved in favour of the largest product, then of the largest
        `alpha_`. `task_alpha_` is None without tasks and for a network, where `alpha_` applies to
        both sides.
    alphas_, task_alphas_ : arrays of shape (n_alphas,) and (n_task_alphas,)
        The values that were tried, with kernel grids those for the best kernel; `task_alphas_` is
        None where `task_alpha_` is.
    landscape_ : array of shape (n_alphas, n_task_alphas), without tasks and for a network (n_alphas,)
        Scores; NaN where the score is undefined. With kernel grids, two axes for their values come
        first. After a coarse-to-fine search, points that were not evaluated are NaN and the scores
        are approximate: see `dyadlearn.selection.landscape`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> search = TwoStepRidgeCV(alphas=[0.1, 1, 10, 100], task_alphas=[0.01, 0.1, 1, 10, 100], setting="D")
    >>> search.fit(X, Y, tasks=T).landscape_.shape
    (4, 5)
    """

    alphas: Any = None
    task_alphas: Any = None
    task_alpha: Any = field(default=None, init=False)


@documented
@dataclass(eq=False, repr=False)
class KroneckerRidgeCV(Search, ConstantsSearch, TaskSearchParameters, KroneckerRidge):
    r"""Kronecker ridge regression that chooses its regularisation by exact hold-out in any of the four settings.

    It can also choose the `constants` of its kernels, the weights of the main effects.

    `sample_weight` weights the squared loss of each fit, also within the search. The scores are not
    weighted: every observed cell with a positive weight counts equally, unless a `scoring` function
    weights the cells itself.

    Attributes
    ----------
    landscape_ : array of shape (n_alphas,), with a sequence of `constants` (n_constants, n_alphas)
        Scores; NaN where the score is undefined. With kernel grids, two axes for their values come
        first. By default each kernel has its own values of alpha, and the last axis is that of
        their multiples 10⁻⁷ to 10⁶. After a coarse-to-fine search, points that were not evaluated
        are NaN and the scores are approximate: see `dyadlearn.selection.landscape`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(12, 3)), rng.normal(size=(9, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(12, 9))
    >>> KroneckerRidgeCV(alphas=[0.1, 1, 10, 100, 1000], setting="D").fit(X, Y, tasks=T).landscape_.shape
    (5,)
    >>> effects = 3 * X @ rng.normal(size=(3, 1))  # of the instances, in all tasks
    >>> search = KroneckerRidgeCV(constants=[0.1, 1, (1, 100)], setting="D").fit(X, Y + effects, tasks=T)
    >>> search.landscape_.shape, search.constants_
    ((3, 14), (1.0, 100.0))
    """

    alphas: Any = None
    constants: Any = field(default=None, kw_only=True)
    constants_: Constants | None = field(init=False)


def _named(alpha: Any, task_alpha: Any) -> dict[str, Any]:
    """Return one or two regularisations, by name."""
    if task_alpha is None:
        return {"alpha": alpha}
    return {"alpha": alpha, "task_alpha": task_alpha}


def _specs(spec: KernelSpec, grid: Sequence[dict[str, Any]] | None, name: str) -> list[KernelSpec]:
    """Return the kernels of a side to try, one per set of parameters."""
    if grid is None:
        return [spec]
    if not grid:
        raise ValueError(f"The grid of {name} kernel parameters is empty: give at least one dict.")
    return [replace(spec, params=params) for params in grid]


def _check_grid(alphas: Any, name: str) -> None:
    """Raise if the values of a parameter to try are not valid; None is."""
    _check_sequence(alphas, name)
    check_alphas(alphas, name)


def _check_sequence(values: Any, name: str) -> None:
    """Raise if the values of a parameter to try can be read only once."""
    if isinstance(values, Iterator):
        raise TypeError(
            f"{name} is an iterator, which can be read only once: give a sequence, such as "
            f"list({name})."
        )


def best_kernel(search: Search) -> np.ndarray:
    """Return the landscape (n_alphas, …) at the chosen kernel parameters and shares.

    With ``alpha_per_task=True`` it is the mean over tasks.
    """
    if np.ndim(search.alpha_):
        return np.asarray(np.nanmean(search.landscape_, axis=1))
    grids = [search.alphas_]
    if search.task_alphas_ is not None:
        grids.append(search.task_alphas_)
    scores = search.landscape_.reshape(-1, *(values.size for values in grids))
    return np.asarray(scores[best_point(scores, *grids)[0]])


def _only_label(search: Search) -> float | None:
    """Return the value of all labels if they are equal, so that no regularisation is better than another; else None."""
    observed = to_numpy(search._labels.values)[search._labels.observed]
    return float(observed[0]) if observed.min() == observed.max() else None


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
    """

    name: str
    best: float
    least: float
    greatest: float
    is_default: bool

    @property
    def is_least(self) -> bool:
        """Whether the best value is the smallest one."""
        return self.best == self.least

    def note(self, write: Callable[[float], str] = "{:g}".format) -> str:
        """Return a sentence that says what to do; `write` returns a number as text."""
        return Message(
            "The best {name}, {best}, is on the edge of {rest}.",
            name=self.name,
            best=write(self.best),
            rest=self._rest(write),
        )

    def _rest(self, write: Callable[[float], str]) -> str:
        """Return the end of the sentence: the grid, and what to do."""
        limits = f"{write(self.least)} … {write(self.greatest)}"
        if not self.is_default:
            return f"the grid ({limits}): widen the grid"
        direction = "smaller" if self.is_least else "larger"
        return Message(
            "the default grid ({limits}): give {direction} <{values}=>",
            limits=limits,
            direction=direction,
            values=f"{self.name}s",
        )


@dataclass(frozen=True)
class EdgeOfTasks(Edge):
    """Edge of the grid of a model that has a regularisation for each task; `best` is the edge of most of the tasks.

    Attributes
    ----------
    n_here, n_tasks : int
        Number of tasks whose best value is on an edge, and of all tasks.
    """

    n_here: int
    n_tasks: int

    def note(self, write: Callable[[float], str] = "{:g}".format) -> str:
        """Return a sentence that says what to do; `write` returns a number as text."""
        return Message(
            "The best {name} of {n_here} of {n_tasks} tasks is on the edge of {rest}.",
            name=self.name,
            n_here=self.n_here,
            n_tasks=self.n_tasks,
            rest=self._rest(write),
        )


def edges_of(search: Search) -> list[Edge]:
    """Return the best values that are on the edge of their grid and better than all values inside it.

    A default grid is wide, and beyond most edges scores do not change. So an edge of a default grid
    counts only if its loss is smaller by more than a ten-thousandth; the loss is an error, or one
    minus another score. The same holds if each task has a regularisation, because some of many
    tasks are noise. If the baselines are as good, the greatest value of a default grid does not
    count: it predicts means, as the baselines do, and greater values would too.
    """
    if _only_label(search) is not None:
        return []
    scores = np.where(np.isnan(search.landscape_), -np.inf, search.landscape_)
    if np.ndim(search.alpha_):
        found = _edge_of_tasks(search, scores)
    else:
        found = _edges_of_sides(search, scores)
    predicts_means = [edge.is_default and not edge.is_least for edge in found]
    if any(predicts_means) and search._nothing_learnt() is not None:
        return [edge for edge, means in zip(found, predicts_means, strict=True) if not means]
    return found


def _edges_of_sides(search: Search, scores: np.ndarray) -> list[Edge]:
    """Return the edges of one or two grids."""
    n_columns = 1 if search.task_alphas_ is None else search.task_alphas_.size
    scores = scores.reshape(-1, search.alphas_.size, n_columns)
    found = []
    for name, axes in (("alpha", (0, 2)), ("task_alpha", (0, 1))):
        values = getattr(search, f"{name}s_")
        is_default = _has_default(search, name)
        if values is not None and _is_on_edge(values, scores.max(axis=axes), _slack(search, name)):
            best = float(getattr(search, f"{name}_"))
            found.append(Edge(name, best, float(values.min()), float(values.max()), is_default))
    return found


def _has_default(search: Search, name: str) -> bool:
    """Return whether the grid of a regularisation was not given to the last fit."""
    return search._solved_with.get(f"{name}s") is None


def _slack(search: Search, name: str) -> Callable[[float], float]:
    """Return by how much scores inside the grid of a regularisation may be worse than the best score, a function."""
    judge = scorer(search.scoring)
    perfect = 0.0 if judge.name.startswith("neg_") or judge.is_function else 1.0
    if _has_default(search, name) or search.alpha_per_task:
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


def _edge_of_tasks(search: Search, scores: np.ndarray) -> list[Edge]:
    """Return the edge with the number of tasks whose best values are there; nothing if there are none."""
    values = search.alphas_
    is_default = _has_default(search, "alpha")
    least = float(values.min())
    greatest = float(values.max())
    has_score = np.isfinite(scores).any(axis=0)
    slack = _slack(search, "alpha")
    on_edge = [
        has and _is_on_edge(values, each, slack)
        for has, each in zip(has_score, scores.T, strict=True)
    ]
    best = search.alpha_[np.asarray(on_edge)]
    if not best.size:
        return []
    most = least if 2 * np.count_nonzero(best == least) >= best.size else greatest
    return [EdgeOfTasks("alpha", most, least, greatest, is_default, best.size, scores.shape[1])]


# Shares of the three kernels in quarters; the product kernel has at least one quarter.
_QUARTERS = [(a, b, 4 - a - b) for a in range(4, 0, -1) for b in range(4 - a, -1, -1)]


@documented
@dataclass(eq=False, repr=False)
class PairKernelRidgeCV(Search, ConstantsSearch, TaskSearchParameters, PairKernelRidge):
    r"""Pair kernel ridge regression that chooses its regularisation and the shares of its kernel by hold-out.

    All combinations are scored by exact held-out predictions in the chosen setting. Other
    regularisations or shares need no new decomposition. Only setting D decomposes the smaller side
    without each of its rows, once per triple of shares.

    `sample_weight` weights the squared loss of each fit, also within the search. The scores are not
    weighted: every observed cell with a positive weight counts equally, unless a `scoring` function
    weights the cells itself.

    Parameters
    ----------
    shares : sequence of (product, per_task, per_instance), default=None
        Triples (a, b, c) to try, as the parameters `product`, `per_task` and `per_instance` of
        `PairKernelRidge`. None means the ten triples (i, j, k) / 4 with i + j + k = 4 and i ≥ 1,
        after the three kernels were scaled to the same mean diagonal. A side is solved in the dual
        if any of the triples needs it.

    Attributes
    ----------
    shares_ : (float, float, float) or None
        The best shares: product, per_task and per_instance; of equally good triples the first. None
        without tasks.
    landscape_ : array of shape (n_shares, n_alphas), without tasks (n_alphas,)
        Scores; NaN where the score is undefined. With kernel grids, two axes for their values come
        first, and with a sequence of `constants` one for these, before that of the shares. After a
        coarse-to-fine search, points that were not evaluated are NaN and the scores are
        approximate: see `dyadlearn.selection.landscape`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import PairKernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> separate = X @ rng.normal(size=(8, 15))  # each task has its own function, unrelated to its features
    >>> Y = separate + 6 * rng.normal(size=(20, 15))
    >>> search = PairKernelRidgeCV(alphas=[1, 10, 100, 1000], shares=[(1, 0, 0), (0.5, 0.5, 0), (0, 1, 0)])
    >>> search.fit(X, Y, tasks=T).landscape_.shape
    (3, 4)
    >>> search.shares_
    (0.5, 0.5, 0.0)
    """

    alphas: Any = None
    _not_always: ClassVar[tuple[str, ...]] = KeptHoldout._not_always

    shares: Sequence[tuple[float, float, float]] | None = None
    shares_: tuple[float, float, float] | None = field(init=False)
    constants: Any = field(default=None, kw_only=True)
    constants_: Constants | None = field(init=False)
    product: Any = field(default=None, init=False)
    per_task: Any = field(default=None, init=False)
    per_instance: Any = field(default=None, init=False)

    def _shares(self) -> tuple[float, float, float]:
        return self._all_shares()[0] if self.shares_ is None else self.shares_

    def _all_shares(self) -> list[tuple[float, float, float]]:
        if self.shares is None:
            return [(a / 4.0, b / 4.0, c / 4.0) for a, b, c in _QUARTERS]
        if not len(self.shares):
            raise ValueError(
                "shares is empty: give at least one (product, per_task, per_instance)."
            )
        return [check_shares(triple) for triple in self.shares]

    def _problems(self, sides: Sides) -> list[Problem]:
        self.shares_ = None  # shares of an earlier fit must not affect the sides
        problems = super()._problems(sides)
        kernels = [
            problem.pairing for problem in problems if isinstance(problem.pairing, PairKernel)
        ]
        return [
            replace(problems[0], pairing=replace(kernel, shares=shares))
            for kernel in kernels
            for shares in self._scaled(*kernel.spectra)
        ] or problems

    def _scaled(
        self, spectrum: Spectrum, task_spectrum: Spectrum
    ) -> list[tuple[float, float, float]]:
        """Return the shares to try for two decomposed sides."""
        if self.shares is not None:
            return self._all_shares()
        rows, columns = (
            float(namespace(side.values).sum(side.values)) / side.n_rows or 1.0
            for side in (spectrum, task_spectrum)
        )
        return [(a, b * columns, c * rows) for a, b, c in self._all_shares()]


@documented
@dataclass(eq=False, repr=False)
class IndependentTaskRidgeCV(Search, IndependentTaskRidge):
    r"""Independent-task ridge regression that chooses its regularisation by exact hold-out.

    `sample_weight` weights the squared loss of each fit, also within the search. The scores are not
    weighted: every observed cell with a positive weight counts equally, unless a `scoring` function
    weights the cells itself.

    Parameters
    ----------
    setting : {"A", "B"} or an alias, default="B"
        What the model will predict. The predictions are the same in both settings, but rank metrics
        are averaged over all cells in A and per instance in B.
    alpha_per_task : bool, default=False
        Whether to choose a separate regularisation for each task, by the score of its column. A
        task without a score (no labels, or all labels equal) gets the value that is best for the
        other tasks together, with a warning.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None means exact leave-one-out, or five folds of the groups if `groups`
        is given and labels are missing. A sequence, as splitters of scikit-learn yield it, splits
        the instances in setting B.

    Attributes
    ----------
    alpha_ : float, or array of shape (q,) with ``alpha_per_task=True``
        The best value, or the best value of each task; ties are resolved in favour of the largest.
    best_score_ : float
        The score of `holdout_`; with ``alpha_per_task=True`` the mean over tasks of their best
        scores.
    landscape_ : array of shape (n_alphas,), or (n_alphas, q) with ``alpha_per_task=True``
        Scores; NaN where the score is undefined. With a kernel grid, two axes come first, the
        second of length 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import IndependentTaskRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 3))
    >>> Y = X @ rng.normal(size=(3, 4)) + rng.normal(size=(20, 4))
    >>> IndependentTaskRidgeCV(alphas=[0.01, 1, 10, 100, 1000]).fit(X, Y).landscape_.shape
    (5,)
    >>> IndependentTaskRidgeCV(alpha_per_task=True).fit(X, Y).alpha_.shape
    (4,)
    """

    _tasks_remedy = "use TwoStepRidgeCV or KroneckerRidgeCV."

    alphas: Any = None
    alpha_per_task: bool = field(default=False, kw_only=True)

    def _check_params(self) -> None:
        super()._check_params()
        if check_flag(self.alpha_per_task, "alpha_per_task") and self.kernel_grid is not None:
            raise ValueError("alpha_per_task=True searches alphas only: leave kernel_grid out.")

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        if not self.alpha_per_task:
            return super()._score(setting)
        score = scorer(self.scoring).prepare_each_task(self._labels.values)
        return lambda predictions: np.nanmean(score(predictions))
