"""Learn the kernels of a ridge model from descriptions, and the fitted model with learned kernels.

`LearningSpec` holds the validated parameters, `Described` the kernels of the descriptions before
learning, `LearnedKernels` what was learned, and `FittedLearned` the fitted model. All are frozen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, as_array_of, double, namespace, take_rows, to_numpy
from dyadlearn._checks import check_alpha, check_flag, check_whole
from dyadlearn._messages import Message
from dyadlearn._progress import Phase, Progress
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.holdout import Units, check_enough_left, plan_fits
from dyadlearn.holdout.folds import Fold, as_splitter, folds_in_words, folds_of
from dyadlearn.holdout.one_fit import folds_to_compare
from dyadlearn.holdout.planning import check_method
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import scored_labels
from dyadlearn.kernels.descriptions import Descriptions, read_descriptions
from dyadlearn.kernels.learned import (
    LearnedKernel,
    describe,
    is_one_kernel,
    is_pair,
    known_places,
    widen,
)
from dyadlearn.labels import Labels, is_binary
from dyadlearn.learning.error import FINE, ROUGH, ExactError, FoldError, has_exact_error, n_first
from dyadlearn.learning.mixture import PROFILES, Mixture
from dyadlearn.learning.stages import (
    ENOUGH,
    Descent,
    Learned,
    Stage,
    completed_again,
    expected_steps,
    learn,
)
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.decomposing import fit_ridge
from dyadlearn.models.fitted import (
    Fitted,
    FittedRidge,
    Groups,
    HeldOut,
    LeftOut,
    SideTables,
    Validation,
)
from dyadlearn.models.reading import Known, Training, read_rows, read_training, unwrap_tasks
from dyadlearn.models.side import KernelSpec, Side
from dyadlearn.models.spec import PairKernelSpec
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.selection.evaluate import baselines_beside
from dyadlearn.selection.filling import filled_kernel, learned_of
from dyadlearn.selection.nested import Refits
from dyadlearn.selection.searching import FittedChoice, code_groups
from dyadlearn.selection.standardising import (
    Standardised,
    check_learning_memory,
    economical,
    final_kernel,
    side_weights,
    standardised,
)
from dyadlearn.settings import Setting

#: Name of the constant in the weights of a side.
CONSTANT = "constant"

# Names of the sides in messages, of their kernels, and of their rows.
_SIDES = ("X", "tasks")
_KERNELS = ("kernel", "task_kernel")
_ROWS = ("instances", "tasks")
_DIAGONALS = ("diagonal", "task_diagonal")
# Name of a single table without a name.
_FEATURES = "features"
_KERNEL = "kernel"
# Maximum number of stages for stages="auto", on sparse grids and on others.
_SPARSE_STAGES = 2
_STAGES = 3
# Number of multiplications per product of a grid with both kernels below which systems are solved
# to full precision.
_TINY = 1e5

# In setting D, the start value of the weight of a constant relative to the kernels of its side, and
# the weight of the inverse number of labels in the penalty. A constant stands for main effects of
# entities without labels there, and hold-out hardly tells what a large weight costs: few entities
# have most of the labels (experiments/cold_splits.py).
_COLD_CONSTANT = 0.05
_COLD_FEW = 300.0

# Default number of folds.
_N_FOLDS = 5
# Time of the final fit, in steps of learning.
_FIT = 3.0
# Seed of the outer folds. It must differ from the inner seed: in setting A a fold would be empty.
_SEED = 1


# Parameters and results ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedModelSpec(PairKernelSpec):
    """Validated parameters of a ridge model with learned kernels."""

    #: Kernels are learned from a grid.
    takes_pairs: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningSpec(Stored):
    """Validated parameters of a model that learns its kernels.

    Attributes
    ----------
    common : dict
        Parameters that all models have, except the kernels.
    setting : Setting
    stages : int or "auto"
    n_steps, shrinkage, normalize, cv, scoring, random_state, progress
        As the parameters of `LearnedKernelRidge`.
    """

    common: dict[str, Any]
    setting: Setting
    stages: Any
    n_steps: int
    shrinkage: float
    normalize: bool
    cv: Any
    scoring: Any
    random_state: Any
    progress: bool | None

    def model(self, kernels: Sequence[KernelSpec], shares: Any = None) -> LearnedModelSpec:
        """Return the parameters of the model with some kernels and shares."""
        pair = (kernels[0], kernels[-1])
        return LearnedModelSpec(**self.common, kernels=pair, shares=shares or (1.0, 0.0, 0.0))

    @property
    def fit_intercept(self) -> bool:
        """Whether the model has an intercept."""
        return bool(self.common["fit_intercept"])

    @property
    def averages_folds(self) -> bool:
        """Whether stages are compared by the mean of the scores of the folds."""
        if self.scoring is None:
            return False
        return scorer(self.scoring).average_in(self.setting) == "fold"

    @property
    def descent(self) -> Descent:
        """Settings of the descent."""
        how = Descent(self.n_steps, float(self.shrinkage))
        if self.setting is Setting.D:
            return replace(how, constant=_COLD_CONSTANT, few=_COLD_FEW)
        return how

    def check(self) -> None:
        """Raise if a parameter has a wrong value."""
        self.model([KernelSpec("linear", None, self.common["repair"])]).check()
        if self.stages != "auto":
            check_whole(self.stages, "stages")
            if self.stages > 1 and self.setting is Setting.D:
                raise ValueError(
                    Message(
                        "<stages> above 1 use profiles of labels, and in setting D both sides are "
                        "new: set <stages=1>."
                    )
                )
        check_whole(self.n_steps, "n_steps")
        check_alpha(self.shrinkage, "shrinkage")
        scorer(self.scoring or "neg_mean_squared_error")
        check_flag(self.normalize, "normalize")
        self.splitter(knows_tasks=not isinstance(self.cv, list | tuple))

    def _fits(self) -> bool:
        self.check()
        return True

    def splitter(self, *, knows_tasks: bool) -> SettingKFold | GivenFolds:
        """Return the folds to learn from."""
        if isinstance(self.cv, list | tuple) and self.setting is Setting.A and not knows_tasks:
            # Without a task side, leaving out a pair equals leaving out its instance.
            return as_splitter(self.cv, Setting.B)
        if isinstance(self.cv, Integral) and self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            return SettingKFold(self.setting, int(self.cv), random_state=seed)
        return as_splitter(self.cv, self.setting)

    def n_stages(self, *, has_tasks: bool, is_dense: bool) -> int:
        """Return the maximum number of stages."""
        if self.stages != "auto":
            return int(self.stages)
        if self.setting is not Setting.A or not has_tasks:
            return 1
        return _STAGES if is_dense else _SPARSE_STAGES

    def again(self, setting: Setting, shape: tuple[int, int], groups: Groups) -> LearningSpec:
        """Return the parameters to learn on other labels or fewer rows, for predictions in a setting."""
        # Later stages would describe new rows by their labels.
        is_described = set(setting.new) <= set(self.setting.new)
        stages = self.stages if is_described else 1
        cv = _fewer(self.cv, self.setting, shape, groups)
        return replace(self, stages=stages, cv=cv, progress=False)


@dataclass(frozen=True, eq=False)
class Described(Stored):
    """Kernels of the descriptions of each side.

    Attributes
    ----------
    kernels : tuple of LearnedKernel
        Kernel of the descriptions of each side.
    plain : (bool, bool)
        Whether each side is a plain table.
    places : (array or None, array or None)
        Positions of the rows of each side if they are a selection.
    """

    kernels: tuple[LearnedKernel, ...]
    plain: tuple[bool, bool]
    places: tuple[Array | None, Array | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedKernels(Stored):
    """What was learned, besides the kernels of the sides, the shares and the regularisation.

    Attributes
    ----------
    path : list of list of float
        Parameters of each stage of the model.
    is_whole : bool
        Whether the held-out predictions are those of all folds; otherwise they are NaN outside the
        folds of learning.
    error_folds : int
        Number of the first folds whose error was minimised, if these are not all.
    error, score : float
        Mean squared error and score of held-out cells.
    stage_errors : list of float
    history : list of list of float
        Errors of each stage.
    """

    path: list[list[float]]
    is_whole: bool
    error_folds: int
    error: float
    score: float
    stage_errors: list[float]
    history: list[list[float]]


# Reading ---------------------------------------------------------------------------------------------------


def read_described(
    spec: LearningSpec, kernels: Sequence[Any], arguments: tuple[Any, Any, Any, Any]
) -> tuple[Training, Described]:
    """Return checked data with a wide table for each side, and the kernels of the descriptions.

    Parameters
    ----------
    spec : LearningSpec
    kernels : (kernel, task_kernel)
        Parameters of the user.
    arguments : (X, y, tasks, sample_weight)
    """
    X, y, tasks, sample_weight = arguments
    tables = [X, unwrap_tasks(tasks)]
    of_sides = [read_descriptions(table, name) for table, name in zip(tables, _SIDES, strict=True)]
    kernels = list(kernels)
    for axis, descriptions in enumerate(of_sides):
        if descriptions is not None:
            kernels[axis], tables[axis] = _describe(spec, descriptions, kernels[axis], axis)
        elif tables[axis] is not None and not is_one_kernel(kernels[axis]):
            raise ValueError(
                Message(
                    "<{parameter}> is given for several descriptions, but <{name}> is one table: "
                    "give one kernel.",
                    parameter=_KERNELS[axis],
                    name=_SIDES[axis],
                )
            )
    specs = [kernel_spec(kernel, spec.common["repair"]) for kernel in kernels]
    data = read_training(spec.model(specs), tables[0], y, tables[1], sample_weight)
    learned = []
    wide = []
    for axis, table in enumerate(data.sides):
        weights = side_weights(data.labels, axis)
        kernel, side = _scaled_side(spec, (table, of_sides[axis]), kernels[axis], axis, weights)
        learned.append(kernel)
        wide.append(side)
    places = [None if descriptions is None else descriptions.places for descriptions in of_sides]
    plain = (of_sides[0] is None, of_sides[1] is None)
    described = Described(tuple(learned), plain, (places[0], places[1]))
    combined = tuple(KernelSpec(kernel, None, spec.common["repair"]) for kernel in learned)
    return replace(data, sides=tuple(wide), kernels=combined), described


def kernel_spec(chosen: Any, repair: str) -> KernelSpec:
    """Return the kernel of a side that is a plain table, given by its name, a function or with its parameters."""
    kernel, params = chosen if is_pair(chosen) else (chosen, None)
    return KernelSpec(kernel, params, repair)


def _scaled_side(
    spec: LearningSpec,
    side: tuple[Table, Descriptions | None],
    kernel: Any,
    axis: int,
    weights: Array | None,
) -> tuple[LearnedKernel, Table]:
    """Return the kernel of a side, scaled by its rows, and its wide table."""
    table, descriptions = side
    name = _SIDES[axis]
    if descriptions is not None:
        kernel = kernel.scaled(double(table.values), name, weights)
        if descriptions.row_ids is None:  # kernels have the ids that the labels gave to their side
            kernel = kernel.with_ids(table.row_ids)
        return kernel, table
    is_precomputed = kernel_spec(kernel, spec.common["repair"]).is_precomputed
    label = _KERNEL if is_precomputed else _FEATURES
    plain = Descriptions({label: replace(table, kind=None, column_ids=None)})
    kernel, wide = _describe(spec, plain, [kernel], axis)
    table = replace(table, values=double(wide.values))
    [member] = kernel.scaled(table.values, name, weights).members
    if member.is_precomputed and member.normalized and member.new_diagonal is None:
        # Divided by its mean diagonal, because the diagonal of new rows is unknown.
        mean = float(namespace(member.diagonal).mean(member.diagonal))
        member = replace(member, normalized=False, scale=mean or 1.0)
    return LearnedKernel((member,)), table


def _describe(
    spec: LearningSpec, descriptions: Descriptions, kernel: Any, axis: int
) -> tuple[LearnedKernel, Table]:
    """Return the kernel of the descriptions of a side, and their wide table."""
    name = _SIDES[axis]
    taken = [label for label in descriptions.names if label in (CONSTANT, *PROFILES)]
    if taken:
        raise ValueError(
            f"{name} has a description called {taken[0]!r}, which is a reserved name: rename it."
        )
    repair = spec.common["repair"]
    return describe(descriptions, kernel, normalize=spec.normalize, repair=repair, name=name)


# Learning --------------------------------------------------------------------------------------------------


class FoldsToLearn(NamedTuple):
    """What is left out to learn from.

    Attributes
    ----------
    units : Units
    masks : list
        Masks of training and test labels of each fold that is used; none for the error of exact
        leave-one-out.
    is_whole : bool
        Whether all folds are used.
    method : str
        Description for reports.
    """

    units: Units
    masks: list[Any]
    is_whole: bool
    method: str


def learn_ridge(
    spec: LearningSpec, described: Described, data: Training, groups: Groups
) -> FittedLearned:
    """Learn the kernels of checked data, decompose them and solve.

    Parameters
    ----------
    spec : LearningSpec
    described : Described
    data : Training
        Wide tables of the descriptions, and labels.
    groups : (array-like or None, array-like or None)
        Groups of instances and of tasks that are left out together.
    """
    coded = code_groups(data.labels, groups)
    _check_request(spec, data, groups)
    labels = standardised(data, spec.fit_intercept)
    is_dense = labels.labels.cells.is_dense
    n_stages = spec.n_stages(has_tasks=data.has_tasks, is_dense=is_dense)
    folds = _folds_to_learn(spec, data, groups, n_stages, labels)
    profiled = (
        n_stages > 1 and 0 not in spec.setting.new,
        n_stages > 1 and 1 not in spec.setting.new,
    )
    n_folds = max(len(folds.masks), 1)
    check_learning_memory(data.labels.values, described.kernels, n_folds, profiled)
    error = _error_of(spec, described, data, labels, folds)
    steps = expected_steps(data.labels.shape, spec.n_steps, n_stages)
    with Progress(steps + _FIT, "Learning", spec.progress) as bar:
        watching = _Watching(spec, data.labels, labels, bar, folds.units)
        learned = learn(error, spec.descent, n_stages, profiled, watching.watch, watching.judge)
        bar.expect(_FIT)
        with Phase("Final fit", of=_FIT):
            stage = learned.stages[learned.best]
            fitted = _fitted_stage(spec, described, data, stage, labels.unit)
    held_out = labels.restored(learned.held_out, data.labels.values)
    validation = Validation(spec.setting, held_out, folds.method, folds.units, groups=coded)
    return fitted.extended(
        FittedLearned,
        learning=spec,
        described=described,
        learned=_summary(spec, learned, folds, labels),
        validation=validation,
    )


def _check_request(spec: LearningSpec, data: Training, groups: Groups) -> None:
    """Raise if the kernels cannot be learned for the setting from these labels."""
    setting = spec.setting
    if 1 in setting.new and not data.has_tasks:
        raise ValueError(
            Message(
                "Setting {setting} predicts new tasks, which need features: give <tasks=>.",
                setting=setting.value,
            )
        )
    check_enough_left(data.labels, setting, groups, knows_tasks=data.has_tasks)
    if spec.scoring is not None:
        # Raises if the score is undefined; folds are not known yet.
        # A mean over folds is that of one fold of all labels here.
        one = np.zeros(tuple(data.labels.values.shape), dtype=np.intp)
        folds = one if spec.averages_folds else None
        prepared_score(data.labels, spec.scoring, setting, folds=folds)


def _folds_to_learn(
    spec: LearningSpec, data: Training, groups: Groups, n_stages: int, labels: Standardised
) -> FoldsToLearn:
    """Return what is left out to learn from."""
    setting = spec.setting
    whole = data.labels
    # Given folds or groups are always used.
    is_free = isinstance(spec.cv, Integral) and all(group is None for group in groups)
    is_free = is_free and not spec.averages_folds
    splitter = spec.splitter(knows_tasks=data.has_tasks)
    if n_stages == 1 and is_free and has_exact_error(labels.labels, setting):
        return FoldsToLearn(Units(), [], True, "exact leave-one-out")
    units = splitter.units(whole, groups=groups[0], task_groups=groups[1])
    if setting is Setting.A and units.sides[0] is not None:
        # A fold of instances is one of their cells.
        units = Units(cells=whole.at(units.sides[0], 0))
    masks = [fold.masks for fold in folds_of(whole, setting, units)]
    is_whole = True
    if not labels.labels.cells.is_dense:
        # The other folds take as long as several steps; their predictions are computed when they
        # are needed.
        n_used = n_first([np.sum(test & whole.observed) for _, test in masks], ENOUGH)
        is_whole = n_used == len(masks)
        masks = masks[:n_used]
    together = Units.of_groups(whole, setting, groups)
    method = f"{folds_in_words(splitter, setting, together)}, not nested"
    return FoldsToLearn(units, masks, is_whole, method)


def _error_of(
    spec: LearningSpec,
    described: Described,
    data: Training,
    labels: Standardised,
    folds: FoldsToLearn,
) -> ExactError | FoldError:
    """Return the hold-out error that is minimised."""
    targets, sides = economical(labels.labels, mixtures(spec, described, data))
    if not folds.masks:
        return ExactError(targets, sides, spec.setting)
    m, q = data.labels.shape
    precision = FINE if m * q * (m + q) <= _TINY else ROUGH
    return FoldError.of(targets, sides, folds.masks, precision)


@dataclass(eq=False)
class _Watching:
    """What is shown, and what stages are compared by, while kernels are learned.

    Parameters
    ----------
    spec : LearningSpec
    labels : Labels
    standard : Standardised
        The labels in the units of learning.
    bar : Progress
    units : Units
        What is left out together.
    """

    spec: LearningSpec
    labels: Labels
    standard: Standardised
    bar: Progress
    units: Units
    _scores: list[float] = field(default_factory=list, init=False)

    @cached_property
    def _metric(self) -> Scorer:
        """The score to compare stages by, or a metric of ranks to show beside the error."""
        ranking = "average_precision" if is_binary(self.labels.values) else "concordance_index"
        return scorer(self.spec.scoring or ranking)

    @cached_property
    def _folds(self) -> np.ndarray | None:
        if not self.spec.averages_folds and self.units.are_single:
            return None
        return folds_to_compare(self.labels, self._metric, self.spec.setting, self.units)

    def watch(self, stage: int, loss: float) -> None:
        """Show the error of a stage."""
        reached = ""
        if self._scores:
            reached = f" (before: {self._metric.name} {self._scores[-1]:.4g})"
        error = loss * self.standard.variance
        self.bar.advance(title=f"Stage {stage + 1}: hold-out error {error:.4g}{reached}")

    def judge(self, loss: float, held_out: Array) -> float:
        """Return the value by which stages are compared; smaller is better."""
        labels = self.labels
        setting = self.spec.setting
        like = labels.values
        predictions = as_array_of(to_numpy(held_out), like, like.dtype)
        predictions = predictions * self.standard.size + self.standard.centre
        # Equal labels, for example, have no rank.
        ignored = () if self.spec.scoring else (ValueError,)
        with suppress(*ignored):
            targets = scored_labels(labels, predictions, setting, quiet=True)
            prepared = prepared_score(labels, self._metric, setting, targets, folds=self._folds)
            self._scores.append(float(prepared(predictions)))
        return -self._scores[-1] if self.spec.scoring else loss


def _summary(
    spec: LearningSpec, learned: Learned, folds: FoldsToLearn, labels: Standardised
) -> LearnedKernels:
    """Return what was learned, with errors in the units of the labels."""
    variance = labels.variance
    best = learned.stages[learned.best]
    errors = [float(stage.error) * variance for stage in learned.stages]
    stages = learned.stages[: learned.best + 1]
    history = [[float(loss) * variance for loss in stage.losses] for stage in learned.stages]
    return LearnedKernels(
        path=[stage.parameters.vector.tolist() for stage in stages],
        is_whole=folds.is_whole,
        error_folds=len(folds.masks),
        error=errors[learned.best],
        score=float(-best.judged if spec.scoring else -errors[learned.best]),
        stage_errors=errors,
        history=history,
    )


def mixtures(spec: LearningSpec, described: Described, data: Training) -> list[Mixture]:
    """Return the kernels of each side that learning starts from."""
    constant = spec.fit_intercept and data.has_tasks
    starts = []
    for kernel, table in zip(described.kernels, data.sides, strict=True):
        powers = [member.has_exponent for member in kernel.members]
        divisible = [member.is_divisible for member in kernel.members]
        blocks = kernel.blocks(double(table.values))
        starts.append(Mixture(blocks, powers, constant, divisible))
    return starts


def _fitted_stage(
    spec: LearningSpec, described: Described, data: Training, stage: Stage, unit: float
) -> FittedRidge:
    """Return the model with the kernels of a stage; `unit` is that of the weights, in which λ was learned."""
    parameters = stage.parameters
    constant = spec.fit_intercept and data.has_tasks
    kernels = []
    wide = []
    units = []
    for axis, (kernel, table) in enumerate(zip(described.kernels, data.sides, strict=True)):
        final, side, weight = final_kernel(
            kernel,
            table,
            parameters.weights[axis],
            parameters.exponents[axis],
            stage.profiles[axis],
            constant,
        )
        kernels.append(KernelSpec(final, None, "clip", dual=True))
        wide.append(side)
        units.append(weight)
    shares = None
    if len(units) > 1:
        # The constant of a side has weight one in its kernel, so its learned weight moves to the
        # shares.
        a, b, c = parameters.pair_shares
        shares = (a * units[0] * units[1], b * units[0], c * units[1])
    model = spec.model(kernels, shares)
    data = replace(data, sides=tuple(wide))
    with warnings.catch_warnings():
        # Fractional powers of kernels may be slightly indefinite; the user's kernels are not at
        # fault.
        warnings.simplefilter("ignore", KernelRepairWarning)
        return fit_ridge(model, data, {"alpha": parameters.lam * unit})


# The fitted model ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedLearned(FittedChoice):
    """A fitted model with learned kernels.

    Attributes
    ----------
    learning : LearningSpec
        Validated parameters of the fit.
    described : Described
        Kernels of the descriptions before learning.
    learned : LearnedKernels
    validation : Validation
        Held-out predictions whose error was minimised.

    See Also
    --------
    FittedRidge : the other attributes.
    """

    learning: LearningSpec
    described: Described
    learned: LearnedKernels
    validation: Validation

    learns_kernels: ClassVar[bool] = True

    # --- what was learned -----------------------------------------------------------------------------

    @property
    def scoring(self) -> Any:
        """Score by which stages were compared; None means the squared error."""
        return self.learning.scoring

    @property
    def weights(self) -> dict[str, dict[str, float]]:
        """Weights of each description and of the constant; they sum to one on each side."""
        return {name: _weights(side) for name, side in zip(_ROWS, self.sides, strict=False)}

    @property
    def exponents(self) -> dict[str, dict[str, float]]:
        """Exponent of each description."""
        exponents = {}
        for name, side in zip(_ROWS, self.sides, strict=False):
            members = learned_of(side).members
            exponents[name] = {member.name: member.exponent for member in members}
        return exponents

    @property
    def shares(self) -> tuple[float, float, float] | None:
        """Shares of the product kernel, of the kernel per task and of that per instance; None without tasks."""
        if not self.knows_tasks or not isinstance(self.spec, LearnedModelSpec):
            return None
        a, b, c = self.spec.shares
        unit, task_unit = (_weights(side).get(CONSTANT, 1.0) for side in self.sides)
        return a / (unit * task_unit), b / unit, c / task_unit

    @property
    def holdout_method(self) -> str:
        """Method of hold-out, with the folds whose error was minimised if these are not all."""
        n_folds = self.learned.error_folds
        if self.learned.is_whole:
            return self.validation.method
        first = "first fold" if n_folds == 1 else f"first {n_folds} folds"
        return f"{self.validation.method}; error of the {first}"

    @property
    def reached(self) -> str:
        """What an interrupted model has reached."""
        return "Learning was interrupted: the best kernels so far are used."

    @property
    def n_features(self) -> int:
        """Number of columns of all descriptions of the instances together."""
        return sum(member.n_columns for member in self.described.kernels[0].members)

    @property
    def descriptions(self) -> SideTables:
        """Kernel and column names of each description of each side, by name; a single table has the name ""."""
        sides = zip(self.described.kernels, self.described.plain, self.sides, strict=False)
        descriptions: SideTables = []
        for kernel, is_plain, side in sides:
            if is_plain:
                [member] = kernel.members
                descriptions.append({"": (member, side.names)})
            else:
                names = {member.name: (member, member.columns) for member in kernel.members}
                descriptions.append(names)
        return descriptions

    def kernels_given(self, axis: int) -> tuple[str, ...]:
        """Return the names of the descriptions of a side that are precomputed kernels."""
        names = []
        for kernel in self.described.kernels[axis : axis + 1]:
            names += [member.name for member in kernel.members if member.is_precomputed]
        return tuple(names)

    # --- new rows -------------------------------------------------------------------------------------

    def new_rows(self, new: Any, axis: int) -> tuple[Table, NewRows]:
        """Return the ids and the rows of instances (axis 0) or tasks to predict for."""
        side = self.sides[axis]
        kernel = self.described.kernels[axis]
        places = self.described.places[axis]
        descriptions = self._read_descriptions(new, axis)
        if _is_profiled(side):
            return self._known_rows(descriptions, axis)
        table = widen(kernel, descriptions, places, _SIDES[axis])
        rows = self.as_fitted(table.values, axis)
        lacking = kernel.lacking(table.values)
        if lacking.any():
            return table, self._filled_rows(rows, lacking, axis)
        asked = side.new_rows(rows)
        return table, replace(asked, prior=None) if kernel.without_diagonal(rows) else asked

    def _read_descriptions(self, new: Any, axis: int) -> Descriptions:
        """Return the descriptions of new rows; a plain table is one description."""
        name = _SIDES[axis]
        side = self.sides[axis]
        kernel = self.described.kernels[axis]
        is_plain = self.described.plain[axis]
        descriptions = read_descriptions(unwrap_tasks(new), name)
        if (descriptions is None) is not is_plain:
            if is_plain:
                wanted = ("several", "a single table")
            else:
                wanted = ("a single table", shown(kernel.names))
            raise ValueError(
                Message(
                    "<{name}> must be {expected}, as in fit, found {found}.",
                    name=name,
                    expected=wanted[1],
                    found=wanted[0],
                )
            )
        if descriptions is not None:
            return descriptions
        [member] = kernel.members
        spec = KernelSpec(
            "precomputed" if member.is_precomputed else "linear", None, self.spec.repair
        )
        names = None if axis else self.feature_names
        known = Known(self.name, spec, side.ids, side.names, member.n_columns, names)
        table, rows = read_rows(new, axis, known)
        return Descriptions({member.name: replace(table, values=rows, column_ids=None)})

    def _known_rows(self, descriptions: Descriptions, axis: int) -> tuple[Table, NewRows]:
        """Return training rows of a side that is described by its labels; raise for new ones."""
        side = self.sides[axis]
        known = known_places(descriptions, side.ids, self.described.places[axis])
        if known is None or (known < 0).any():
            if known is None:
                unknown = ""
            else:
                unknown = f" ({int((known < 0).sum())} of {len(known)} are new)"
            raise ValueError(
                Message(
                    "The model describes {side} by profiles of their labels, so it predicts only "
                    "those of training, identified by ids{unknown}: leave <{name}> out, or fit "
                    "with <stages=1>.",
                    side=_ROWS[axis],
                    unknown=unknown,
                    name=_SIDES[axis],
                )
            )
        rows = take_rows(side.features, known)
        table = Table(rows, descriptions.row_ids, None, descriptions.kind)
        return table, replace(side.new_rows(rows), places=known)

    def _filled_rows(self, rows: Array, lacking: np.ndarray, axis: int) -> NewRows:
        """Return new rows that lack descriptions, whose kernels are predicted."""
        side = self.sides[axis]
        names = self.described.kernels[axis].names
        missing = shown(
            [label for label, lacks in zip(names, lacking.T, strict=True) if lacks.any()]
        )

        def refuse(rows: Array) -> Array:
            raise ValueError(
                Message(
                    "Deviations, intervals and <labels=> need all descriptions: give {missing} "
                    "for each row.",
                    missing=missing,
                )
            )

        filled = filled_kernel(side, self.expansion.along(axis), lacking)
        with_filled = replace(side, spec=replace(side.spec, kernel=filled))
        return replace(with_filled.new_rows(rows), prior=refuse)

    def _given_diagonal(self, axis: int, ids: Ids | None, rows: NewRows, diagonal: Any) -> Array:
        kernel = learned_of(self.sides[axis])
        names = self.kernels_given(axis)
        argument = _DIAGONALS[axis]
        if not isinstance(diagonal, Mapping):
            if len(names) > 1:
                raise ValueError(
                    f"{argument} must be a mapping with the diagonal of each kernel, "
                    f"{shown(names)}."
                )
            diagonal = {names[0]: diagonal}
        extra = [name for name in diagonal if name not in names]
        needed = [name for name in kernel.without_diagonal(rows.values) if name not in diagonal]
        problems = []
        if extra:
            problems.append(f"has the unknown name {shown(extra)}")
        if needed:
            problems.append(f"lacks {shown(needed)}")
        if problems:
            raise ValueError(
                f"{argument} {' and '.join(problems)}: give one for each of the kernels "
                f"{shown(names)}."
            )
        if kernel.lacking(rows.values).any():
            assert rows.prior is not None
            rows.prior(rows.values)  # raises
        known = {}
        for name in diagonal:
            known[name] = super()._given_diagonal(axis, ids, rows, diagonal[name])
        return kernel.diagonal(double(rows.values), known)

    # --- settings -------------------------------------------------------------------------------------

    @property
    def describes_by_labels(self) -> bool:
        """Whether a side is described by profiles of its labels; then no hold-out formula exists."""
        return any(map(_is_profiled, self.sides))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Settings that the model supports."""
        return tuple(setting for setting in super().settings if not self._profiled_side(setting))

    def check(self, setting: Setting, groups: Groups = (None, None), cells: Any = None) -> None:
        """Raise if the setting has new members of a side that is described by its labels."""
        super().check(setting, groups, cells)
        if side := self._profiled_side(setting):
            raise ValueError(
                Message(
                    "Setting {setting} leaves out {side}, which this model describes by profiles "
                    "of their labels, so it cannot predict new ones: fit it for setting "
                    "{setting}, or with <stages=1>.",
                    setting=setting.value,
                    side=side,
                )
            )

    def _profiled_side(self, setting: Setting) -> str:
        """Return the side that is new in a setting and described by its labels; an empty string if there is none."""
        for axis in setting.new:
            if axis < len(self.sides) and _is_profiled(self.sides[axis]):
                return _ROWS[axis]
        return ""

    # --- hold-out -------------------------------------------------------------------------------------

    @property
    def baselines(self) -> dict[str, float]:
        """Scores of the baselines, held out in the same way as the model, for the labels predicted in learning."""
        stored = self.validation
        targets = scored_labels(self.labels, stored.predictions, stored.setting, quiet=True)
        judge = scorer(self.scoring or "neg_mean_squared_error")
        return baselines_beside(self, judge, stored.setting, stored.units, targets)

    @property
    def held_out(self) -> Array:
        """One held-out prediction per label, of all folds."""
        stored = self.validation
        if self.learned.is_whole:
            return stored.predictions
        compute = partial(self._own_folds, stored.setting, stored.units)
        held_out: HeldOut = self._once("held out", compute)
        return held_out.predictions

    def stored_holdout(self, setting: Setting) -> HeldOut | None:
        """Return the held-out predictions of a setting without learning again; None if they are not known."""
        stored = self.validation
        if setting is stored.setting:
            return HeldOut(self.held_out, stored.method, stored.units)
        if self.describes_by_labels:
            return self._own_holdout(setting)
        return None

    def _hold_out(self, setting: Setting, left_out: LeftOut) -> HeldOut:
        """Return held-out predictions; nested ones learn the kernels again without each fold."""
        check_method(left_out.method)
        if left_out.method == "exact" and (left_out.nested or self.describes_by_labels):
            raise ValueError(
                Message(
                    "Kernels that are learned again for each fold have no formula: leave "
                    '<method="exact"> out, or keep the kernels with <nested=False>.'
                )
            )
        if left_out.nested:
            return self.relearned_holdout(setting, left_out.groups, left_out.cv)
        options = (left_out.cv, *left_out.groups)
        if self.describes_by_labels and any(option is not None for option in options):
            units = Units.of_groups(self.labels, setting, left_out.groups)
            return self._own_holdout(setting, units, left_out.cv)
        return super()._hold_out(setting, left_out)

    def _without_units(self, setting: Setting, units: Units) -> Array:
        if self.describes_by_labels:
            return self._own_holdout(setting, units).predictions
        return super()._without_units(setting, units)

    def _own_holdout(self, setting: Setting, units: Units | None = None, cv: Any = None) -> HeldOut:
        """Return held-out predictions of folds, with all stages computed from the training labels of each fold.

        Without units or `cv`, the folds are those of learning in the setting of the model, and five
        folds in other settings.
        """
        stored = self.validation
        self.check(setting)
        Y = self.training_problem.Y
        xp = namespace(Y)
        if units is None:
            units = Units()
        if units.are_single and cv is None and setting is stored.setting:
            if setting is Setting.A:
                # Missing labels are not used in the fit.
                completed = self.completed_problem.Y
                predictions = xp.where(xp.isnan(Y), completed, self.held_out)
                return HeldOut(predictions, stored.method, stored.units)
            units = stored.units
        return self._own_folds(setting, units, cv)

    def _own_folds(self, setting: Setting, together: Units, cv: Any = None) -> HeldOut:
        """Return held-out predictions of folds, with all stages computed from the training labels of each fold."""
        data = self.training()
        searched = self.validation.setting
        path = self.learned.path
        # The λ of the stages belongs to weights in this unit.
        unit = self.alphas["alpha"] / math.exp(path[-1][-1])
        standard = standardised(data, self.learning.fit_intercept, unit)
        profiled = (0 not in searched.new, 1 not in searched.new)
        starts = mixtures(self.learning, self.described, data)
        labels, sides = economical(standard.labels, starts)

        def predict(fold: Fold) -> Array:
            completed = completed_again(labels, sides, ~fold.left, path, profiled)
            held_out = take_rows(namespace(completed).reshape(completed, (-1,)), fold.test)
            return standard.restored(held_out, self.labels.values)

        how = plan_fits(
            self.labels,
            setting,
            together,
            cv,
            predict=predict,
            method="{n} folds, profiles made again",
            line=lambda n: Progress(n, "Held-out folds", self.learning.progress, of=1),
        )
        return HeldOut(how.held_out(), how.method, how.units, reason=how.explanation)

    def relearned_holdout(
        self, setting: Setting, groups: Groups = (None, None), cv: Any = None
    ) -> HeldOut:
        """Return nested predictions: all parameters are learned again without each fold.

        They are computed once for each setting and number of folds, unless groups are given.
        """
        labels = self.labels
        used = []
        for group, chosen in zip(groups, self.validation.groups, strict=True):
            used.append(chosen if group is None else group)
        together = code_groups(labels, (used[0], used[1]))
        if cv is None:
            cv = min(_N_FOLDS, _most_folds(setting, labels.shape, together))
        if not isinstance(cv, Integral):
            splitter = as_splitter(cv, setting)
            # Given folds ignore the groups of the model.
            own_groups = groups if isinstance(splitter, GivenFolds) else together
            return self._relearned(setting, splitter, together, own_groups)
        splitter = SettingKFold(setting, int(cv), random_state=_SEED)
        compute = partial(self._relearned, setting, splitter, together, together)
        if any(group is not None for group in groups):
            return compute()
        held_out: HeldOut = self._once((setting, int(cv)), compute)
        return held_out

    def _relearned(
        self, setting: Setting, splitter: Any, groups: Groups, together: Groups
    ) -> HeldOut:
        """Return the predictions of models that are fitted without each fold of a splitter."""
        used = Units.of_groups(self.labels, setting, together)
        method = f"{folds_in_words(splitter, setting, used)}, kernels learned again"
        fit = partial(relearn, self.learning, self.described, setting)
        refits = Refits(fit, self.training(), groups, setting, self.learning.progress)
        how = plan_fits(
            self.labels,
            setting,
            used,
            splitter,
            predict=refits.predict,
            method=method,
            line=refits.line,
        )
        return HeldOut(
            refits.held_out(how), how.method, how.units, is_fixed=False, reason=how.explanation
        )

    def training(self) -> Training:
        """Return the training data, without descriptions that depend on the labels."""
        tables = []
        for side, kernel in zip(self.sides, self.described.kernels, strict=True):
            assert side.features is not None
            tables.append(Table(side.features[:, : kernel.n_columns], side.ids))
        return Training(tuple(tables), self.labels, self.form)

    def refitter(self, setting: Setting) -> Callable[[Labels], Fitted]:
        """Return a function that fits the model again to other labels of the same instances and tasks."""
        data = self.training()
        fit = partial(relearn, self.learning, self.described, setting)
        return lambda labels: fit(replace(data, labels=labels), self.validation.groups)

    def _fits(self) -> bool:
        n_sides = len(self.sides)
        return (
            len(self.described.kernels) == n_sides
            and all(isinstance(side.spec.kernel, LearnedKernel) for side in self.sides)
            and isinstance(self.spec, LearnedModelSpec)
            and len(self.learned.path) > 0
            and super()._fits()
        )


def relearn(
    spec: LearningSpec, described: Described, setting: Setting, data: Training, groups: Groups
) -> FittedLearned:
    """Return the model fitted on other labels, or on fewer rows, of the same descriptions.

    Parameters
    ----------
    spec : LearningSpec
    described : Described
    setting : Setting
        Setting of the predictions; it may differ from the setting of the model.
    data : Training
    groups : Groups
    """
    again = spec.again(setting, data.labels.shape, groups)
    return learn_ridge(again, described, data, groups)


def _is_profiled(side: Side) -> bool:
    """Return whether a side is described by profiles of its labels."""
    return any(name in PROFILES for name in learned_of(side).names)


def _weights(side: Side) -> dict[str, float]:
    """Return the weights of a side, scaled to sum to one; the stored weight of the constant is one."""
    weights = {member.name: member.weight for member in learned_of(side).members}
    if side.spec.constant == "feature":
        weights[CONSTANT] = 1.0
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _most_folds(setting: Setting, shape: tuple[int, int], groups: Groups) -> int:
    """Return the maximum number of folds in a setting, at least two."""
    counts = []
    for axis in setting.new:
        codes = groups[axis]
        counts.append(shape[axis] if codes is None else len(np.unique(codes)))
    return max(2, min(counts or [shape[0] * shape[1]]))


def _fewer(cv: Any, setting: Setting, shape: tuple[int, int], groups: Groups) -> Any:
    """Return the folds to learn from on fewer rows: at most one per row, without rows that were removed."""
    most = _most_folds(setting, shape, groups)
    if isinstance(cv, list | tuple):
        return min(len(cv), most)
    if cv is None or isinstance(cv, Integral):
        return min(_N_FOLDS if cv is None else int(cv), most)
    if cv.n_splits <= most:
        return cv
    return SettingKFold(cv.setting, most, random_state=cv.random_state)
