"""What a search keeps of the predictions that it was chosen by, and what simple means reach beside them.

Models that learn their kernels from labels: what is held out of them, they learn without.

A kernel that was learned with a label knows something of it. Predictions for labels that had no part in anything come
from a model that has learned all of its kernels again, without the fold that it predicts. That takes no raw data: the
wide table of a side tells the kernels of any of its rows.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, is_sparse, namespace, take_block, take_rows, to_numpy
from dyadlearn._codes import group_codes
from dyadlearn._progress import Progress
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import GridEdgeWarning, NoLabelWarning
from dyadlearn.holdout import Problem, Units, plan
from dyadlearn.holdout.folds import as_splitter, each_fold
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.learning.error import Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.stages import cascaded
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._observed import Training
from dyadlearn.models._side import KernelSpec, Side
from dyadlearn.selection.evaluate import baseline_scores, prepared_score
from dyadlearn.settings import Setting, as_setting


class KeptHoldout(PairwiseRidge, stored=False):
    """A model that keeps held-out predictions of one setting, in the file too."""

    setting: str
    scoring: Any

    holdout_: Any
    holdout_method_: str
    holdout_setting_: str
    # What left together for them, without which nothing else can be held out alike.
    _units: Units

    _shapes: ClassVar[Mapping[str, str]] = {**PairwiseRidge._shapes, "holdout_": "sparse m q"}

    def state(self) -> dict[str, Any]:
        """Return the parameters and what was learnt; held-out predictions as an array, whatever the labels came in."""
        found = super().state()
        if not hasattr(self, "holdout_") or self._is_listed:
            return found
        kept = self._kept_holdout(self._searched_setting)
        return found if kept is None else {**found, "holdout_": kept[0]}

    def _fits(self) -> bool:
        if not super()._fits():
            return False
        if not self._is_listed:
            return not is_sparse(self.holdout_) and self._units.fit(self._grid.values.shape)
        return self._keeps_pairs() and self._units.fit(self._grid.values.shape, (self._grid.values.nnz,))

    def _keeps_pairs(self) -> bool:
        """Tell whether what is kept are predictions of the pairs that are observed."""
        kept, labels = self.holdout_, self._grid.values
        return is_sparse(kept) and all(
            np.array_equal(getattr(kept, name), getattr(labels, name)) for name in ("indptr", "indices")
        )

    def _pose_again(self, changed: Mapping[str, Any]) -> None:
        super()._pose_again(changed)
        self.holdout_ = self.holdout_ if self._is_listed else self._grid.restore(self.holdout_)

    def _in_kept_form(self, held_out: Array) -> Any:
        """Return held-out predictions in the form that labels came in; of observed pairs as a sparse matrix."""
        if self._is_listed:
            return self._fitted_problem.labels.to_sparse(held_out)
        return self._grid.restore(self._home(held_out))

    @property
    def _searched_setting(self) -> Setting:
        """The setting that the regularisation was chosen for, whatever `setting` was set to since."""
        return as_setting(getattr(self, "holdout_setting_", self.setting))

    @property
    def baselines_(self) -> dict[str, float]:
        """What simple means reach in the setting of the search, held out as the predictions that it was chosen by."""
        check_is_fitted(self)
        setting = self._searched_setting
        kept = self._kept_holdout(setting)
        units = plan(self._problem(), setting).units if kept is None else kept[2]
        return baseline_scores(self._problem(), setting, units, self._score(setting))

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        """Return what the model was chosen by: a score of predictions (m, q), squared error where it names none."""
        scoring = "neg_mean_squared_error" if self.scoring is None else self.scoring
        return prepared_score(self._problem(), scoring, setting)

    def _kept_holdout(self, setting: Setting) -> tuple[Array, str, Units] | None:
        # Nothing of another setting than that of the search, nor after a file that kept less.
        if setting is not self._searched_setting or not hasattr(self, "holdout_"):
            return None
        if self._is_listed:
            like = self._problem().targets
            return as_array_of(self.holdout_.data, like, like.dtype), self.holdout_method_, self._units
        Y = self._grid.values
        kept = to_numpy(read_table(self.holdout_, "holdout_").values).reshape(Y.shape[0], -1)
        # Ids of rows may stand in a first column.
        return as_array_of(kept[:, -Y.shape[1] :], Y, Y.dtype), self.holdout_method_, self._units


# Instances, and tasks, that leave together: numbers that are equal where they do.
Groups = tuple[np.ndarray | None, np.ndarray | None]
# Folds that are left out where nobody says how many.
_N_FOLDS = 5
# Deals them. Another than that of the folds that are learned from: in setting A one of these would be empty.
_SEED = 1


@dataclass(frozen=True, eq=False)
class LearnedAgain:
    """What models predict that were learned without a fold each.

    Attributes
    ----------
    predictions : array of shape (m, q)
        NaN where no fold predicts.
    tests : list of boolean arrays of shape (m, q)
        What each fold left out.
    problem : Problem
        Of the last one.
    alphas : list of float, or of arrays of shape (q,)
        The regularisation that was learned in each.
    task_alphas : list of float or None
        That of the tasks, where there is one.
    """

    predictions: Array
    tests: list[np.ndarray]
    problem: Problem
    alphas: list[Any]
    task_alphas: list[float] | None = None


def predict_folds(
    Y: Array,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
    fit_without: Callable[[np.ndarray, np.ndarray], tuple[Any, Array]],
    progress: bool | None,
) -> LearnedAgain:
    """Leave out folds in turn, fit a search without each, and predict it.

    Parameters
    ----------
    Y : array of shape (m, q)
    folds : iterable of (train, test)
        Masks (m, q) of cells to learn from, and to predict.
    fit_without : callable
        Takes the masks of a fold, returns a fitted search and a grid (m, q) with its predictions for the fold.
    progress : bool or None
    """
    xp, folds = namespace(Y), list(folds)
    predictions, chosen, n_at_edge = xp.full_like(Y, float("nan")), [], 0
    with warnings.catch_warnings(record=True) as caught, Progress(len(folds), "Nested folds", progress) as bar:
        warnings.simplefilter("always")
        for train, test in folds:
            n_before = len(caught)
            inner, predicted = fit_without(train, test)
            predictions = xp.where(as_array_of(test, Y), predicted, predictions)
            chosen.append((inner.alpha_, getattr(inner, "task_alpha_", None)))
            n_at_edge += any(issubclass(warning.category, GridEdgeWarning) for warning in caught[n_before:])
            bar.advance()
    if n_at_edge:
        warnings.warn(
            f"In {n_at_edge} of {len(folds)} folds a best regularisation is on the edge of the grid: widen it.",
            GridEdgeWarning,
            stacklevel=4,
        )
    _pass_on(caught)
    alphas, task_alphas = map(list, zip(*chosen, strict=True))
    tests = [test for _, test in folds]
    return LearnedAgain(predictions, tests, inner._problem(), alphas, None if task_alphas[0] is None else task_alphas)


def axes_of(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns that a block of cells is made of."""
    return np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))


def hidden(Y: Array, shown: np.ndarray) -> Array:
    """Return labels with NaN outside a mask."""
    xp = namespace(Y)
    return xp.where(as_array_of(shown, Y), Y, xp.full_like(Y, float("nan")))


def in_place(block: Array, axes: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]) -> Array:
    """Return a grid that has a block in the rows and columns `axes`, and values without a meaning elsewhere."""
    places = [np.zeros(size, dtype=np.intp) for size in shape]
    for place, members in zip(places, axes, strict=True):
        place[members] = np.arange(members.size)
    return take_block(block, *places)


class Relearning(KeptHoldout, stored=False):
    """A model that can learn its kernels again on a part of its own training data."""

    searches = True
    learns_kernels = True
    takes_descriptions = True
    # Kernels are learned from a grid.
    _takes_pairs = False

    stages: Any
    cv: Any
    progress: bool | None
    alpha_: float
    shares_: tuple[float, float, float] | None
    holdout_error_: float
    stage_errors_: list[float]
    n_stages_: int
    history_: list[list[float]]
    # Of each side: the kernel of its descriptions as they came, and where its rows stood if taken from others.
    _kernel: LearnedKernel
    _task_kernel: LearnedKernel | None
    _places: Array | None
    _task_places: Array | None
    # Which sides came as plain tables.
    _plain: tuple[bool, bool]
    # How each side is read: as descriptions, or None as a plain table.
    _described: tuple[KernelSpec | None, KernelSpec | None]
    # Instances and tasks that were left out together while learning.
    _groups: np.ndarray | None
    _task_groups: np.ndarray | None
    # The parameters of each stage that the model has.
    _path: list[list[float]]
    # Whether somebody stopped the learning.
    _interrupted: bool
    # What models without folds predicted, by setting and number of folds.
    _relearned: dict[tuple[Setting, int], tuple[Array, str, Units]]

    _made_again: ClassVar[tuple[str, ...]] = (*KeptHoldout._made_again, "_relearned", "_interrupted")

    @abstractmethod
    def _scaled(self, data: Training) -> tuple[Labels, float, float]:
        """Return labels as kernels are learned from them, with the centre and the scale that they had."""

    @abstractmethod
    def _mixtures(self, data: Training) -> tuple[Mixture, Mixture | None]:
        """Return the kernels of both sides that are to be mixed."""

    @abstractmethod
    def _learn(self, data: Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Learn kernels and fit the model with them; the kernels of the descriptions are there."""

    def _kernels_given(self, axis: int) -> tuple[str, ...]:
        kernel = (self._kernel, self._task_kernel)[axis]
        return () if kernel is None else tuple(each.name for each in kernel.members if each.is_precomputed)

    def _keep_groups(self, groups: Any, task_groups: Any) -> None:
        """Keep what leaves together, and nothing that was learned again for other labels."""
        m, q = self._grid.values.shape
        self._groups = None if groups is None else group_codes(groups, (m,), "groups")
        self._task_groups = None if task_groups is None else group_codes(task_groups, (q,), "task_groups")
        self._relearned = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what is kept of a model, less what was learned again for folds."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_relearned"}

    def _fits(self) -> bool:
        m, q = self._grid.values.shape
        return super()._fits() and Units(self._groups, self._task_groups).fit((m, q))

    def _relearned_holdout(self, setting: Setting, cv: int | None = None) -> tuple[Array, str, Units]:
        kept: dict[tuple[Setting, int], tuple[Array, str, Units]] = self.__dict__.setdefault("_relearned", {})
        groups = (self._groups, self._task_groups)
        splitter = _splitter(setting, cv, self._grid.values.shape, groups)
        key = (setting, splitter.n_splits)
        if key not in kept:
            found = self._learn_without(self._training(), groups, setting, splitter)
            count = f"{splitter.n_splits}×{splitter.n_splits}" if setting is Setting.D else str(splitter.n_splits)
            units = Units.of_folds(found.tests, setting, self._grid.values.shape)
            kept[key] = (found.predictions, f"{count} folds, kernels learned again", units)
        return kept[key]

    def _own_holdout(
        self, setting: Setting, *, groups: Any = None, task_groups: Any = None, cells: Any = None, cv: Any = None
    ) -> tuple[Array, str, Units] | None:
        """Return what folds predict that have gone through all stages with their own labels, if there are profiles.

        Without anything that is given, these are the folds that were learned with, in the setting of the model, and
        five folds in another.
        """
        problem = self._problem()
        if not problem.pairing.uses_labels:
            return None
        problem.pairing.check_request(setting, groups, task_groups, cells)
        Y, xp = problem.Y, namespace(problem.Y)
        if all(given is None for given in (groups, task_groups, cells, cv)):
            kept = self._kept_holdout(setting)
            if kept is not None and setting is Setting.A:
                # What is not observed was never seen.
                return xp.where(xp.isnan(Y), self._closed_problem.Y, kept[0]), kept[1], kept[2]
            if kept is not None:
                groups, task_groups = kept[2].instances, kept[2].tasks
        if cv is None and not (groups is None and task_groups is None and cells is None):
            folds = list(each_fold(problem, setting, groups, task_groups, cells))
        else:
            splitter = cv if hasattr(cv, "split_grid") else as_splitter(cv, setting)
            folds = list(splitter.split_grid(*Y.shape, groups=groups, task_groups=task_groups))
        units = Units.of_folds((test for _, test in folds), setting, Y.shape)
        return self._cascaded(folds), f"{len(folds)} folds, profiles made again", units

    def _cascaded(self, folds: Sequence[tuple[np.ndarray, np.ndarray]]) -> Array:
        """Return what the stages that were learned predict for folds, in the units of the labels."""
        data = self._training()
        labels, centre, size = self._scaled(data)
        own = as_setting(self.holdout_setting_)
        profiled = (not own.new_instance, not own.new_task)
        return cascaded(labels, *self._mixtures(data), folds, self._path, profiled) * size + centre

    def _training(self) -> Training:
        """Return what a fitted model has learned from, as far as labels have no part in what describes it."""
        tasks = None
        if self._task_side is not None and self._task_kernel is not None:
            tasks = _as_given(self._task_side, self._task_kernel)
        return Training(_as_given(self._side, self._kernel), tasks, self._grid, self._weights)

    def _learn_without(self, data: Training, groups: Groups, setting: Setting, splitter: SettingKFold) -> LearnedAgain:
        """Leave out folds in turn, learn the kernels without each, and predict it.

        Parameters
        ----------
        data : Training
            Whose tables are those of the kernels of the descriptions.
        groups : Groups
            What leaves together, from the folds and from those within them.
        setting : Setting
            Which need not be that of the model: it learns for its own, and is asked in this one.
        splitter : SettingKFold
        """
        given = _of_setting(groups, setting)
        folds = splitter.split_grid(*data.grid.values.shape, groups=given[0], task_groups=given[1])
        return predict_folds(
            data.grid.values, folds, partial(self._learned_without, data, groups, setting), self.progress
        )

    def _learned_without(
        self, data: Training, groups: Groups, setting: Setting, train: np.ndarray, test: np.ndarray
    ) -> tuple[Self, Array]:
        """Return the model that is learned without a fold, and its predictions, put in place in a grid (m, q)."""
        if setting is Setting.A:
            shown = replace(data.grid, values=hidden(data.grid.values, train))
            inner = self._learned_on(replace(data, grid=shown), groups, setting)
            return inner, inner._closed_problem.Y
        rows, columns = axes_of(train)
        inner = self._learned_on(_taken(data, rows, columns), groups_at(groups, rows, columns), setting)
        asked = axes_of(test)
        new_rows = inner._side.new_rows(take_rows(data.instances.values, asked[0])) if setting.new_instance else None
        new_columns = None
        if setting.new_task:
            assert data.tasks is not None
            assert inner._task_side is not None
            new_columns = inner._task_side.new_rows(take_rows(data.tasks.values, asked[1]))
        return inner, in_place(inner._expansion().grid(new_rows, new_columns), asked, data.grid.values.shape)

    def _learned_for(self, setting: Setting, Y: Array, weights: Array | None) -> Self:
        """Return a model that has learned its kernels on other labels (m, q), to be asked in a setting."""
        data = self._training()
        data = replace(data, grid=replace(data.grid, values=Y), weights=weights)
        return self._learned_on(data, (self._groups, self._task_groups), setting)

    def _learned_on(self, data: Training, groups: Groups, setting: Setting) -> Self:
        """Return a model like this one that has learned on other labels, or fewer rows, of the same descriptions."""
        own: dict[str, Any] = getattr(self, "_solved_with", None) or self.get_params(deep=False)
        inner: Self = clone(self).set_params(**{**own, "progress": False})
        searched = as_setting(own["setting"])
        inner.cv = _fewer(inner.cv, searched, data.grid.values.shape, groups)
        if (setting.new_instance and not searched.new_instance) or (setting.new_task and not searched.new_task):
            inner.stages = 1  # more would describe by labels what is new here
        inner._kernel, inner._task_kernel = self._kernel, self._task_kernel
        inner.n_features_in_ = self.n_features_in_
        inner._learn(data, *groups)
        if inner._interrupted:
            raise KeyboardInterrupt
        return inner


def _splitter(setting: Setting, cv: int | None, shape: tuple[int, int], groups: Groups) -> SettingKFold:
    """Return the folds to leave out: as many as somebody wants, else five, or fewer where there are not as many."""
    n_splits = min(_N_FOLDS, _most_folds(setting, shape, groups)) if cv is None else cv
    return SettingKFold(setting, n_splits, random_state=_SEED)


def _most_folds(setting: Setting, shape: tuple[int, int], groups: Groups) -> int:
    """Return how many folds of a setting there can be, at least two."""
    sides = zip(shape, groups, (setting.new_instance, setting.new_task), strict=True)
    counts = [size if own is None else len(np.unique(own)) for size, own, is_new in sides if is_new]
    return max(2, min(counts or [shape[0] * shape[1]]))


def _fewer(cv: Any, setting: Setting, shape: tuple[int, int], groups: Groups) -> Any:
    """Return the folds to learn from on fewer rows: no more than there can be, and none of rows that are not there."""
    most = _most_folds(setting, shape, groups)
    if isinstance(cv, list | tuple):
        return min(len(cv), most)
    if cv is None or isinstance(cv, Integral):
        return min(_N_FOLDS if cv is None else int(cv), most)
    return cv if cv.n_splits <= most else SettingKFold(cv.setting, most, random_state=cv.random_state)


def _of_setting(groups: Groups, setting: Setting) -> Groups:
    """Return the groups of those sides that a setting leaves out."""
    return groups[0] if setting.new_instance else None, groups[1] if setting.new_task else None


def groups_at(groups: Groups, rows: np.ndarray, columns: np.ndarray) -> Groups:
    """Return the groups of some instances and tasks."""
    return None if groups[0] is None else groups[0][rows], None if groups[1] is None else groups[1][columns]


def _as_given(side: Side, kernel: LearnedKernel) -> Table:
    """Return the wide table of a fitted side without what labels have added to it."""
    features = side.features
    assert features is not None
    return Table(features[:, : kernel.n_columns], side.ids)


def _taken(data: Training, rows: np.ndarray, columns: np.ndarray) -> Training:
    """Return the data of some instances and tasks."""
    return Training(
        data.instances.take(rows),
        None if data.tasks is None else data.tasks.take(columns),
        replace(data.grid.take(rows, columns), is_vector=False),
        None if data.weights is None else take_block(data.weights, rows, columns),
    )


def _pass_on(caught: Sequence[warnings.WarningMessage]) -> None:
    """Warn once of each thing that was warned of in folds, but for what is said of all of them together."""
    others = {(each.category, each.filename, each.lineno): each for each in reversed(caught)}
    for (category, filename, line), each in others.items():
        if not issubclass(category, (NoLabelWarning, GridEdgeWarning)):
            warnings.warn_explicit(each.message, category, filename, line)
