"""Kernel ridge regression on pairs with learned kernels.

The module prepares labels and kernels for `dyadlearn.learning` and combines the learned parameters
into one kernel per side.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, double, namespace, take_rows, to_numpy, zeros
from dyadlearn._checks import check_alpha, check_flag, check_whole
from dyadlearn._means import with_ones
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._progress import Phase, Progress
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Units, check_enough_left, plan_fits
from dyadlearn.holdout.folds import Fold, as_splitter, folds_in_words, folds_of
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
from dyadlearn.learning.error import (
    FINE,
    ROUGH,
    ExactError,
    FoldError,
    Targets,
    has_exact_error,
    n_first,
    weight_unit,
)
from dyadlearn.learning.mixture import PROFILES, Mixture, Sides, single
from dyadlearn.learning.stages import ENOUGH, Descent, Stage, completed_again, expected_steps, learn
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.base import Groups
from dyadlearn.models.fitted import HeldOut
from dyadlearn.models.grid import ProcessRidge
from dyadlearn.models.reading import Training, read_rows, unwrap_tasks
from dyadlearn.models.side import KernelSpec, Side, fit_side
from dyadlearn.pairing import Independent, PairKernel
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.selection.search import KeptHoldout, Refits, code_groups
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.cells import CellSet
from dyadlearn.solve.leaving import in_order

# In the method of the hold-out, before the folds of the error.
_ERROR_OF = "; error of the "


def check_learning_memory(
    Y: Array, kernels: Sequence[LearnedKernel], n_folds: int, profiled: tuple[bool, bool]
) -> None:
    """Raise if the kernels to learn from, and their parts in each fold, do not fit in memory."""
    m, q = Y.shape
    counts = [len(kernel.members) for kernel in kernels]
    # Grids and preconditioners of all folds; kernels of each side, their logarithms and powers, and
    # profiles of all folds.
    numbers = (4.0 * n_folds + 16.0) * m * q + 3.0 * n_folds * (m + q) ** 2
    for n, count, has_profiles in zip((m, q), counts, profiled, strict=False):
        numbers += (3.0 * count + 5.0 + (4.0 * n_folds + 12.0) * has_profiles) * n * n
    purpose = f"Learning {sum(counts)} kernels of a grid of {m} × {q}"
    remedy = Message("use fewer rows or fewer descriptions")
    if any(profiled):
        remedy = Message("{remedy}, or <stages=1>", remedy=remedy)
    check_memory(8 * numbers, Y, purpose, remedy)


class Standardised(NamedTuple):
    """Labels to learn from, in units that do not depend on those of the labels and of the weights.

    Attributes
    ----------
    labels : Targets
        Labels with mean zero, for a model with an intercept, and deviation one.
    centre, size : float
        Mean and deviation of the given labels.
    unit : float
        Unit of the given weights; 1 without weights.
    """

    labels: Targets
    centre: float
    size: float
    unit: float


def standardised(data: Training, fit_intercept: bool, unit: float | None = None) -> Standardised:
    """Return the observed labels in units of their deviation, and their weights in a common unit.

    Parameters
    ----------
    data : Training
    fit_intercept : bool
        Whether the labels are centred.
    unit : float, optional
        Unit of the weights; by default `weight_unit` of the observed labels.
    """
    if fit_intercept:
        constant = "task" if data.tasks is None else "grand"
    else:
        constant = None
    Y = data.labels.values
    given = data.labels.weights
    xp = namespace(data.labels.values)
    present = ~xp.isnan(Y)
    weights, unit = _in_units(given, data.labels.observed, unit)
    if weights is None:
        share = xp.astype(present, Y.dtype)
    else:
        share = xp.where(present, weights, 0.0)
    share = share / xp.sum(share)
    Y = xp.where(present, Y, 0.0)
    # A power of two changes no digit, and squares of labels neither overflow nor underflow.
    scale = 2.0 ** (math.frexp(float(xp.max(xp.abs(Y))))[1] - 1)
    Y = Y / scale
    first = float(xp.max(xp.where(present, Y, -math.inf)))
    are_equal = first == float(xp.min(xp.where(present, Y, math.inf)))
    centre = 0.0
    if constant is not None:
        centre = first if are_equal else float(xp.sum(share * Y))
    size = float(xp.sum(share * (Y - centre) ** 2)) ** 0.5 or 1.0
    cells = CellSet.of(data.labels.observed, Y)
    values, observed = (
        cells.take(grid[None, ...])[0, ...]
        for grid in ((Y - centre) / size, xp.astype(present, Y.dtype))
    )
    if weights is not None:
        # Missing labels have any weight that is not zero.
        weights = cells.take(xp.where(present, weights, 1.0)[None, ...])[0, ...]
    labels = Targets(values * observed, observed, weights, constant, cells)
    return Standardised(labels, centre * scale, size * scale, unit)


def _in_units(
    weights: Array | None, observed: np.ndarray, unit: float | None
) -> tuple[Array | None, float]:
    """Return weights (m, q) divided by their unit, and the unit; None if all observed labels have the same weight."""
    if weights is None:
        return None, 1.0
    known = to_numpy(weights)[observed]
    unit = weight_unit(known) if unit is None else unit
    return (None if (known == unit).all() else weights / unit), unit


def side_weights(labels: Labels, axis: int) -> Array | None:
    """Return the weight of each instance (axis 0) or task: the mean weight of its labels, in a common unit.

    An entity without labels has the mean of the weights that were given for its cells.
    """
    if labels.weights is None:
        return None
    weights = to_numpy(labels.weights)
    observed = labels.observed
    if axis == 1:
        weights = weights.T
        observed = observed.T
    has_labels = np.any(observed, axis=1)
    counted = observed | ~has_labels[:, None]
    means = np.sum(weights * counted, axis=1) / np.sum(counted, axis=1)
    return as_array_of(means / weight_unit(means[has_labels]), labels.values)


def final_kernel(
    kernel: LearnedKernel,
    table: Table,
    logits: np.ndarray,
    log_exponents: np.ndarray,
    profiles: Sequence[Array],
    constant: bool,
) -> tuple[LearnedKernel, Table, float]:
    """Return the kernel with its learned parameters, the table for it, and the weight of the constant.

    If there is a constant, all weights are divided by its weight.
    """
    if profiles:
        arrays = [as_array_of(to_numpy(profile), table.values) for profile in profiles]
        kernel, table = kernel.joined(PROFILES, arrays, table)
    weights = Mixture.weights(logits)
    unit = float(weights[-1]) if constant else 1.0
    powers = iter(np.exp(log_exponents))
    exponents = [float(next(powers)) if member.has_exponent else 1.0 for member in kernel.members]
    return (
        kernel.with_parameters(list(weights[: len(kernel.members)] / unit), exponents),
        table,
        unit,
    )


def filled_kernel(
    side: Side, expansion: Expansion, lacking: np.ndarray
) -> Callable[[Array, Array], Array]:
    """Return the kernel between rows that lack descriptions and the training rows.

    Parameters
    ----------
    side : Side
    expansion : Expansion
        Coefficients of the model, in which the rows of the side are the instances.
    lacking : array of shape (n, number of descriptions)
        Which descriptions each row lacks.
    """
    fillers = {
        missing: _filler(side, expansion, np.array(missing)) for missing in set(map(tuple, lacking))
    }

    def kernel(A: Array, B: Array) -> Array:
        lacking = _learned(side).lacking(A)
        places = {
            missing: np.flatnonzero((lacking == missing).all(axis=1))
            for missing in set(map(tuple, lacking))
        }
        return in_order(
            [fillers[missing](take_rows(A, here)) for missing, here in places.items()],
            [*places.values()],
        )

    return kernel


def _filler(side: Side, expansion: Expansion, missing: np.ndarray) -> Callable[[Array], Array]:
    r"""Return the kernel between rows without some descriptions and the training rows.

    The part of a description in the fitted function of a row is linear in the kernel row of the
    description. Kernel rows of missing descriptions are therefore predicted by ridge regression,
    with the kernel of the descriptions that are present. Its :math:`\lambda` is that which predicts
    the part of each training row best in leave-one-out.
    """
    learned = _learned(side)
    rows = double(side.features)
    present = learned.only(~missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelRepairWarning)  # as in the fit
        ridge = fit_side(
            Table(present(rows)), KernelSpec("precomputed", None, "clip", "free"), "instance"
        )
    spectrum = ridge.spectrum
    coefficients = zeros((rows.shape[0] + 1, rows.shape[0]), ridge.spectrum.values)
    models = [
        Independent.of(spectrum, Tikhonov(), spectrum.size * alpha) for alpha in _FILLING_ALPHAS
    ]
    for place in np.flatnonzero(missing):
        K = learned.only(np.arange(missing.size) == place)(rows)
        # Constants in the part do not matter, because the ridge regression has a free one.
        part = expansion.grid(
            NewRows(with_ones(K) if side.spec.constant else K, lambda rows: rows, 0), None
        )
        errors = [float(((model.rows.leave_one_out(part) - part) ** 2).sum()) for model in models]
        coefficients += models[int(np.argmin(errors))].coefficients(K)

    def kernel(A: Array) -> Array:
        known = present(A, rows)
        return known + ridge.new_rows(known).block(known) @ coefficients

    return kernel


#: Name of the constant in the weights of a side.
CONSTANT = "constant"

# Names of the sides in messages.
_SIDES = ("X", "tasks")
# Name of a single table without a name.
_FEATURES = "features"
_KERNEL = "kernel"
# Maximum number of stages for stages="auto", on sparse grids and on others.
_SPARSE_STAGES = 2
_STAGES = 3
# Number of multiplications per product of a grid with both kernels below which systems are solved
# to full precision.
_TINY = 1e5

# Number of multiplications per product up to which kernels are learned on the processor, whatever
# the device.
_FOR_PROCESSORS = 3e7

# Regularisations of the regression of missing descriptions, relative to the largest eigenvalue of
# its kernel.
_FILLING_ALPHAS = tuple(10.0 ** (power / 2) for power in range(-14, 7))

# Default number of folds.
_N_FOLDS = 5
# Time of the final fit, in steps of learning.
_FIT = 3.0
# Seed of the outer folds. It must differ from the inner seed: in setting A a fold would be empty.
_SEED = 1


@dataclass(eq=False, repr=False, kw_only=True)
class LearnedKernelRidge(KeptHoldout, ProcessRidge):
    r"""Kernel ridge regression on pairs that learns its kernels by minimising the hold-out error of a setting.

    Each side may have several descriptions: tables of features, or kernels. The kernel of a side is
    a weighted sum of powers of the kernels of its descriptions, plus a constant. The kernel between
    pairs has three shares, as in `PairKernelRidge`:

    .. math:: \mathbf{K} = \sum_i w_i\mathbf{K}_i^{\circ p_i} + w_0\mathbf{11}^\top, \qquad
              a\,\mathbf{G}\otimes\mathbf{K} + b\,\mathbf{I}\otimes\mathbf{K} +
              c\,\mathbf{G}\otimes\mathbf{I}

    The weights w of a side sum to one, and so do the shares a, b and c. Weights, exponents (for an
    RBF kernel this is a factor of gamma), shares and :math:`\lambda` are learned by a quasi-Newton
    method (L-BFGS-B) on the hold-out error of the setting. The error is that of exact
    leave-one-out, or of folds (see `cv`). The gradient has a closed form or needs one more solve.
    In setting A, further *stages* follow: the completed labels of an instance or task (its profile)
    become an additional description, and all parameters are learned again. Stages are added as long
    as they lower the error.

    Parameters
    ----------
    kernel, task_kernel : str, callable, pair, mapping or sequence, default="rbf"
        Kernel of each description: a name or a function as in `KroneckerRidge`, ``"precomputed"``,
        or a pair of a kernel and its parameters. Give one kernel for all descriptions, a mapping by
        their names, or a sequence in their order. "rbf" without gamma starts at one over the mean
        squared distance.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        What the model will predict: new pairs (A), new instances (B), new tasks (C) or both (D).
    stages : int or "auto", default="auto"
        Maximum number of stages to try; the best is kept. From the second stage on, sides that are
        known in the setting are also described by profiles of their completed labels, so the model
        cannot predict new members of these sides. "auto" means three in setting A with tasks (two
        if few cells of a large grid are observed), and one otherwise.
    n_steps : int, default=60
        Maximum number of evaluations of the error and its gradient in each descent.
    shrinkage : float, default=0.1
        Strength of the penalty that pulls weights towards equal weights and exponents towards one.
        The squared distance from these values, times `shrinkage` × (1 / instances or tasks + 30 /
        labels), is added to the logarithm of the error.
    normalize : bool, default=True
        Whether kernels are scaled to a unit diagonal (True) or divided by the mean of their
        diagonal (False). A single precomputed kernel with a varying diagonal is always divided by
        the mean, because the diagonal values of new rows are unknown.
    fit_intercept : bool, default=True
        Whether the model has main effects of both sides, with learned weights, and a grand mean
        that is not regularised.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=5
        Folds to learn from if exact leave-one-out is not used: for missing or weighted labels, in
        setting D, with more than one stage, and for more than about 400 instances or tasks. If `cv`
        is not a number, or if groups are passed to `fit`, exact leave-one-out is never used.
    scoring : str or callable, default=None
        Score of held-out predictions by which stages and starting points are compared, see
        `dyadlearn.metrics.scorer`. None means the squared error, which kernels are always learned
        by. The progress line shows the score of the last stage; for None it is average precision
        for labels of two values, and the concordance index otherwise.
    repair : {"clip", "shift", "error"}, default="clip"
        Treatment of a precomputed kernel that is asymmetric or indefinite: see
        `dyadlearn.kernels.repair`.
    device : str, default=None
        Device for numpy arrays, such as ``"cuda"``, by torch or cupy. Small grids are learned on
        the processor, also if their arrays are on another device.
    tol, max_iter : float and int, default=1e-8 and 1000
        Stopping rule of conjugate gradients in the last fit; used only if labels are missing or
        weighted.
    random_state : int, RandomState or None, default=None
        Seed of the folds. Unlike in scikit-learn, None means the same folds in every fit.
    progress : bool, default=None
        Whether to show a progress line with the error. None shows it on a terminal, and in a log
        after a few seconds.

    Attributes
    ----------
    weights_ : dict of str to dict of str to float
        Weights of each description and of the constant, for ``"instances"`` and ``"tasks"``; they
        sum to one on each side.
    exponents_ : dict of str to dict of str to float
        Exponent of each description; 1 for kernels without an exponent.
    alpha_ : float
        Learned regularisation :math:`\lambda`. A common factor of all weights (`sample_weight`)
        multiplies `alpha_` and changes nothing else.
    shares_ : (float, float, float) or None
        Shares a, b and c of the product kernel, of the kernel per task and of the kernel per
        instance in the formula above, whose **K** and **G** include their constants. They sum to
        one; None without tasks.
    holdout_error_ : float
        Mean squared error of held-out cells; smaller is better. It was minimised and is therefore
        optimistic. If few cells of a large grid are observed, these are the cells of the first
        fold, or of as many folds as have 4,000 labels together.
    holdout_score_ : float
        Score of held-out cells by `scoring`; the negative of `holdout_error_` for None.
    stage_errors_ : list of float
        Hold-out error of each stage that was compared with the one before.
    n_stages_ : int
        Number of stages of the model.
    history_ : list of list of float
        Hold-out errors of each stage, one per evaluation.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions of all folds. They are computed when they are first needed if few cells
        of a large grid are observed; this takes about as long as three steps for each fold.
    holdout_method_, holdout_setting_ : str
        Method and setting of `holdout_` and of `holdout_error_`.
    baselines_ : dict of str to float
        Scores of the baselines, held out in the same way: negative mean squared errors, or those of
        `scoring`.
    completed_, dual_coef_, n_iter_, residual_
        Attributes as in `PairKernelRidge`.
    n_features_in_ : int
        Number of columns of all descriptions together.

    See Also
    --------
    dyadlearn.PairKernelRidgeCV : chooses among given shares, with fixed kernels.
    dyadlearn.Descriptions : several tables of one side, for scikit-learn's splitters.

    Notes
    -----
    Unlike a search, this model has no `best_score_` or `landscape_`.

    During learning, systems are solved to a relative residual of 10⁻², and errors that are compared
    to 10⁻³; small grids (some dozens of rows per side) are solved to full precision. The last fit
    is solved to `tol`. A keyboard interrupt ends the learning with a `SearchStoppedWarning`, and
    the best parameters so far are fitted.

    New rows may lack descriptions: leave a description out of the mapping, or give rows of NaN in
    its table. The part of a missing description in the prediction is predicted from the other
    descriptions, by a ridge regression whose regularisation is chosen by leave-one-out. Such rows
    have no deviations and intervals, and take no `labels`.

    The kernels were learned from all labels, so `holdout` and `holdout_error_` are optimistic: they
    keep the learned parameters, and only profiles of labels are computed again in each fold.
    `dyadlearn.evaluate` and `dyadlearn.nested_score` learn the kernels again without the scored
    labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import LearnedKernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X, noise, T = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(20, 2))
    >>> Y = np.sin(2 * X) @ np.cos(T).T
    >>> model = LearnedKernelRidge(setting="B").fit({"signal": X, "noise": noise}, Y, tasks=T)
    >>> model.weights_["instances"]["signal"] > 5 * model.weights_["instances"]["noise"]
    True
    """

    # Kernel parameters are part of `kernel` and `task_kernel`.
    kernel_params = None

    _coupled = PairKernel
    _made_again: ClassVar[tuple[str, ...]] = (*KeptHoldout._made_again, "_computed")

    searches = True
    learns_kernels = True
    takes_descriptions = True
    # Kernels are learned from a grid.
    _takes_pairs = False

    kernel: Any = "rbf"
    task_kernel: Any = "rbf"
    setting: str = "A"
    stages: Any = "auto"
    n_steps: int = 60
    shrinkage: float = 0.1
    normalize: bool = True
    fit_intercept: bool = True
    cv: Any = 5
    scoring: Any = None
    repair: str = "clip"
    device: str | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None
    progress: bool | None = None

    alpha_: float = field(init=False)
    # Shares of kernels that are divided by the weight of their constant; None without tasks.
    _shares_: tuple[float, float, float] | None = field(init=False)
    holdout_error_: float = field(init=False)
    holdout_score_: float = field(init=False)
    stage_errors_: list[float] = field(init=False)
    n_stages_: int = field(init=False)
    history_: list[list[float]] = field(init=False)
    # Kernel of the descriptions of each side, and positions of its rows if they are a selection.
    _kernels: list[LearnedKernel] = field(init=False)
    _places: tuple[Array | None, Array | None] = field(init=False)
    # Whether each side is a plain table.
    _plain: tuple[bool, bool] = field(init=False)
    # Groups of instances and of tasks used in learning.
    _groups: np.ndarray | None = field(init=False)
    _task_groups: np.ndarray | None = field(init=False)
    # Parameters of each stage of the model.
    _path: list[list[float]] = field(init=False)
    # Whether `_predictions` are those of all folds; otherwise they are NaN outside the folds of
    # learning.
    _is_whole: bool = field(init=False)
    # Predictions computed on demand: nested ones, by setting and number of folds, and those of all
    # folds as 0 folds.
    _computed: dict[tuple[Setting, int], HeldOut] = field(init=False)

    @property
    def weights_(self) -> dict[str, dict[str, float]]:
        """Weights of each description and of the constant; they sum to one on each side."""
        check_is_fitted(self)
        return {
            name: _weights(side)
            for name, side in zip(("instances", "tasks"), self._sides(), strict=False)
        }

    @property
    def exponents_(self) -> dict[str, dict[str, float]]:
        """Exponent of each description."""
        check_is_fitted(self)
        return {
            name: {member.name: member.exponent for member in _learned(side).members}
            for name, side in zip(("instances", "tasks"), self._sides(), strict=False)
        }

    @property
    def shares_(self) -> tuple[float, float, float] | None:
        """Shares of the product kernel, of the kernel per task and of that per instance; None without tasks."""
        check_is_fitted(self)
        if self._shares_ is None:
            return None
        a, b, c = self._shares_
        unit, task_unit = (_weights(side).get(CONSTANT, 1.0) for side in self._sides())
        return a / (unit * task_unit), b / unit, c / task_unit

    @property
    def _descriptions(self) -> list[dict[str, tuple[Any, Ids | None]]]:
        sides = zip(self._kernels, self._plain, self._sides(), strict=False)
        return [
            {
                "" if plain else each.name: (each, side.names if plain else each.columns)
                for each in kernel.members
            }
            for kernel, plain, side in sides
        ]

    @property
    def _alphas(self) -> dict[str, Any]:
        return {"alpha": self.alpha_}

    @property
    def _n_columns(self) -> int:
        return sum(member.n_columns for member in self._kernels[0].members)

    def _check_alphas(self) -> None:
        """Nothing is given."""

    def _check_params(self) -> None:
        super()._check_params()
        setting = as_setting(self.setting)
        if self.stages != "auto":
            check_whole(self.stages, "stages")
            if self.stages > 1 and setting is Setting.D:
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
        self._splitter(setting, knows_tasks=not isinstance(self.cv, list | tuple))

    # Reading -----------------------------------------------------------------------------------------

    def _spec(self) -> KernelSpec:
        return self._spec_of(0, self.kernel)

    def _task_spec(self) -> KernelSpec:
        return self._spec_of(1, self.task_kernel)

    def _spec_of(self, axis: int, given: Any) -> KernelSpec:
        """Return a side as descriptions, or as a plain table."""
        if not self.__dict__.get("_plain", (True, True))[axis]:
            given = self._kernels[axis]
        kernel, params = given if is_pair(given) else (given, None)
        return KernelSpec(kernel, params, self.repair)

    def _read(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Training:
        self._check_params()
        tables = [X, unwrap_tasks(tasks)]
        kernels = [self.kernel, self.task_kernel]
        given = [read_descriptions(table, name) for table, name in zip(tables, _SIDES, strict=True)]
        for axis, (described, name) in enumerate(zip(given, _SIDES, strict=True)):
            if described is not None:
                kernels[axis], tables[axis] = self._describe(described, kernels[axis], name)
            elif tables[axis] is not None and not is_one_kernel(kernels[axis]):
                parameter = ("kernel", "task_kernel")[axis]
                raise ValueError(
                    Message(
                        "<{parameter}> is given for several descriptions, but <{name}> is one "
                        "table: give one kernel.",
                        parameter=parameter,
                        name=name,
                    )
                )
        self._plain = (given[0] is None, given[1] is None)
        first, second = (None if described is None else described.places for described in given)
        self._places = first, second
        self._kernels = kernels
        data = super()._read(tables[0], y, tables[1], sample_weight)
        weights = [side_weights(data.labels, axis) for axis in (0, 1)]
        scaled = [self._scaled_side(data.instances, given[0], kernels[0], "X", weights[0])]
        if data.tasks is not None:
            scaled.append(self._scaled_side(data.tasks, given[1], kernels[1], "tasks", weights[1]))
        self._kernels = [kernel for kernel, _ in scaled]
        wide = [table for _, table in scaled]
        self.n_features_in_ = self._n_columns
        return replace(data, instances=wide[0], tasks=wide[1] if len(wide) > 1 else None)

    def _scaled_side(
        self, side: Table, given: Descriptions | None, kernel: Any, name: str, weights: Array | None
    ) -> tuple[LearnedKernel, Table]:
        """Return the kernel of a side, scaled by its rows, and its wide table."""
        if given is not None:
            kernel = kernel.scaled(double(side.values), name, weights)
            if given.row_ids is None:  # kernels have the ids that the labels gave to their side
                kernel = kernel.with_ids(side.row_ids)
            return kernel, side
        if self._spec_of(_SIDES.index(name), kernel).is_precomputed:
            label = _KERNEL
        else:
            label = _FEATURES
        plain = Descriptions({label: replace(side, kind=None, column_ids=None)})
        kernel, wide = self._describe(plain, [kernel], name)
        side = replace(side, values=double(wide.values))
        [member] = kernel.scaled(side.values, name, weights).members
        if member.is_precomputed and member.normalized and member.new_diagonal is None:
            # Divided by its mean diagonal, because the diagonal of new rows is unknown.
            mean = float(namespace(member.diagonal).mean(member.diagonal))
            member = replace(member, normalized=False, scale=mean or 1.0)
        return LearnedKernel((member,)), side

    def _describe(self, given: Descriptions, kernel: Any, name: str) -> tuple[LearnedKernel, Table]:
        taken = [label for label in given.names if label in (CONSTANT, *PROFILES)]
        if taken:
            raise ValueError(
                f"{name} has a description called {taken[0]!r}, which is a reserved name: rename "
                f"it."
            )
        return describe(given, kernel, normalize=self.normalize, repair=self.repair, name=name)

    def _new_rows(self, given: Any, axis: int) -> tuple[Table, NewRows]:
        name = _SIDES[axis]
        side = self._sides()[axis]
        kernel = self._kernels[axis]
        places = self._places[axis]
        described = read_descriptions(unwrap_tasks(given), name)
        if (described is None) is not self._plain[axis]:
            if self._plain[axis]:
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
        if described is None:
            [member] = kernel.members
            spec = KernelSpec(
                "precomputed" if member.is_precomputed else "linear", None, self.repair
            )
            table, rows = read_rows(self, given, axis, spec, side.ids, side.names, member.n_columns)
            described = Descriptions({member.name: replace(table, values=rows, column_ids=None)})
        if _is_profiled(side):
            known = known_places(described, side.ids, places)
            if known is None or (known < 0).any():
                if known is None:
                    unknown = ""
                else:
                    unknown = f" ({int((known < 0).sum())} of {len(known)} are new)"
                raise ValueError(
                    Message(
                        "The model describes {side} by profiles of their labels, so it predicts "
                        "only those of training, identified by ids{unknown}: leave <{name}> out, "
                        "or fit with <stages=1>.",
                        side=("instances", "tasks")[axis],
                        unknown=unknown,
                        name=name,
                    )
                )
            table = Table(take_rows(side.features, known), described.row_ids, None, described.kind)
            return table, replace(side.new_rows(table.values), places=known)
        table = widen(kernel, described, places, name)
        rows = self._as_fitted(table.values, name)
        lacking = kernel.lacking(table.values)
        if not lacking.any():
            asked = side.new_rows(rows)
            return table, replace(asked, prior=None) if kernel.without_diagonal(rows) else asked
        missing = shown(
            [label for label, lacks in zip(kernel.names, lacking.T, strict=True) if lacks.any()]
        )

        def refuse(rows: Array) -> Array:
            raise ValueError(
                Message(
                    "Deviations, intervals and <labels=> need all descriptions: give {missing} "
                    "for each row.",
                    missing=missing,
                )
            )

        filled = filled_kernel(
            side, self._expansion() if axis == 0 else self._expansion().transposed, lacking
        )
        return table, replace(
            replace(side, spec=replace(side.spec, kernel=filled)).new_rows(rows), prior=refuse
        )

    # Learning ----------------------------------------------------------------------------------------

    def _fit_on(self, data: Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Learn kernels, decompose them and solve."""
        setting = as_setting(self.setting)
        has_tasks = data.tasks is not None
        self._keep_labels(data)
        self._keep_groups(groups, task_groups)
        if 1 in setting.new and not has_tasks:
            raise ValueError(
                Message(
                    "Setting {setting} predicts new tasks, which need features: give <tasks=>.",
                    setting=setting.value,
                )
            )
        check_enough_left(data.labels, setting, (groups, task_groups), knows_tasks=has_tasks)
        if self.scoring is not None:
            prepared_score(data.labels, self.scoring, setting)  # raises if it is undefined
        labels, centre, size, unit = standardised(data, self.fit_intercept)
        variance = size * size
        n_stages = self.stages
        if n_stages == "auto":
            most = _STAGES if labels.cells.is_dense else _SPARSE_STAGES
            n_stages = most if setting is Setting.A and has_tasks else 1
        # Given folds or groups are always used.
        is_free = isinstance(self.cv, Integral) and groups is None and task_groups is None
        exact = n_stages == 1 and is_free and has_exact_error(labels, setting)
        splitter = self._splitter(setting, has_tasks)
        if exact:
            units = Units()
        else:
            units = splitter.units(data.labels, groups=groups, task_groups=task_groups)
        if (
            setting is Setting.A and units.sides[0] is not None
        ):  # a fold of instances is one of their cells
            units = Units(cells=data.labels.at(units.sides[0], 0))
        if exact:
            folds = []
        else:
            folds = [fold.masks for fold in folds_of(data.labels, setting, units)]
        self._is_whole = True
        if not (exact or labels.cells.is_dense):
            # The other folds take as long as several steps; their predictions are computed when
            # they are needed.
            n_used = n_first([np.sum(test & data.labels.observed) for _, test in folds], ENOUGH)
            self._is_whole = n_used == len(folds)
            folds = folds[:n_used]
        profiled = (
            n_stages > 1 and 0 not in setting.new,
            n_stages > 1 and 1 not in setting.new,
        )
        check_learning_memory(data.labels.values, self._kernels, max(len(folds), 1), profiled)
        how = Descent(self.n_steps, float(self.shrinkage))
        m, q = data.labels.shape
        like = data.labels.values
        labels, sides = _economical(labels, self._mixtures(data))
        error: ExactError | FoldError
        if exact:
            error = ExactError(labels, sides, setting)
            self.holdout_method_ = "exact leave-one-out"
        else:
            error = FoldError.of(labels, sides, folds, FINE if m * q * (m + q) <= _TINY else ROUGH)
            together = Units.of_groups(data.labels, setting, (groups, task_groups))
            self.holdout_method_ = f"{folds_in_words(splitter, setting, together)}, not nested"
            if not self._is_whole:
                first = "first fold" if len(folds) == 1 else f"first {len(folds)} folds"
                self.holdout_method_ += f"{_ERROR_OF}{first}"
        metric, scores = scorer(self.scoring or _ranking(data.labels)), list[float]()
        steps = expected_steps((m, q), self.n_steps, n_stages)
        with Progress(steps + _FIT, "Learning", self.progress) as bar:

            def watch(stage: int, loss: float) -> None:
                reached = f" (before: {metric.name} {scores[-1]:.4g})" if scores else ""
                bar.advance(
                    title=f"Stage {stage + 1}: hold-out error {loss * variance:.4g}{reached}"
                )

            def judge(loss: float, held_out: Array) -> float:
                held_out = as_array_of(to_numpy(held_out), like, like.dtype) * size + centre
                ignored = (
                    () if self.scoring else (ValueError,)
                )  # equal labels, for example, have no rank
                with suppress(*ignored):
                    targets = scored_labels(data.labels, held_out, setting, quiet=True)
                    scores.append(
                        float(prepared_score(data.labels, metric, setting, targets)(held_out))
                    )
                return -scores[-1] if self.scoring else loss

            learned = learn(error, how, n_stages, profiled, watch, judge)
            bar.expect(_FIT)
            with Phase("Final fit", of=_FIT):
                self._fit_stage(data, learned.stages[learned.best], unit)
        self._units = units
        self.holdout_setting_ = setting.value
        self._predictions = (
            as_array_of(to_numpy(learned.held_out), like, double(like).dtype) * size + centre
        )
        self.n_stages_ = learned.best + 1
        self.stage_errors_ = [float(each.error) * variance for each in learned.stages]
        self.history_ = [
            [float(loss) * variance for loss in each.losses] for each in learned.stages
        ]
        self.holdout_error_ = self.stage_errors_[learned.best]
        if self.scoring:
            self.holdout_score_ = -learned.stages[learned.best].judged
        else:
            self.holdout_score_ = -self.holdout_error_
        self._path = [each.parameters.vector.tolist() for each in learned.stages[: self.n_stages_]]
        return self

    def _reached(self) -> str:
        return "Learning was interrupted: the best kernels so far are used."

    def _mixtures(self, data: Training) -> list[Mixture]:
        """Return the kernels of each side that learning starts from."""
        mixtures = []
        for kernel, table in zip(self._kernels, _tables(data), strict=True):
            powers = [member.has_exponent for member in kernel.members]
            divisible = [member.is_divisible for member in kernel.members]
            constant = self.fit_intercept and data.tasks is not None
            mixtures.append(
                Mixture(kernel.blocks(double(table.values)), powers, constant, divisible)
            )
        return mixtures

    def _fit_stage(self, data: Training, stage: Stage, unit: float) -> Self:
        """Fit the model with the kernels of a stage; `unit` is that of the weights, in which λ was learned."""
        parameters = stage.parameters
        tables = _tables(data)
        constant = self.fit_intercept and len(tables) > 1
        learned = zip(
            self._kernels,
            tables,
            parameters.weights,
            parameters.exponents,
            stage.profiles,
            strict=False,
        )
        kernels, wide, units = zip(
            *(final_kernel(*side, constant) for side in learned), strict=True
        )
        data = replace(data, **dict(zip(("instances", "tasks"), wide, strict=False)))
        specs = [KernelSpec(kernel, None, "clip", dual=True) for kernel in kernels]
        self.alpha_ = parameters.lam * unit
        self._shares_ = None
        if len(units) > 1:
            # The constant of a side has weight one in its kernel, so its learned weight moves to
            # the shares.
            a, b, c = parameters.pair_shares
            self._shares_ = (a * units[0] * units[1], b * units[0], c * units[1])
        with warnings.catch_warnings():
            # Fractional powers of kernels may be slightly indefinite; the user's kernels are not at
            # fault.
            warnings.simplefilter("ignore", KernelRepairWarning)
            [[(self._side, self._task_side)]] = self._decomposed(data, specs[:1], specs[1:])
        return self._solve()

    def _shares(self) -> tuple[float, float, float]:
        assert self._shares_ is not None
        return self._shares_

    def _kernels_given(self, axis: int) -> tuple[str, ...]:
        kernels = self._kernels[axis : axis + 1]
        return tuple(
            each.name for kernel in kernels for each in kernel.members if each.is_precomputed
        )

    def _given_diagonal(self, axis: int, ids: Ids | None, rows: NewRows, given: Any) -> Array:
        kernel = _learned(self._sides()[axis])
        names = self._kernels_given(axis)
        argument = ("diagonal", "task_diagonal")[axis]
        if not isinstance(given, Mapping):
            if len(names) > 1:
                raise ValueError(
                    f"{argument} must be a mapping with the diagonal of each kernel, "
                    f"{shown(names)}."
                )
            given = {names[0]: given}
        extra = [name for name in given if name not in names]
        needed = [name for name in kernel.without_diagonal(rows.values) if name not in given]
        problems = [f"has the unknown name {shown(extra)}"] * bool(extra) + [
            f"lacks {shown(needed)}"
        ] * bool(needed)
        if problems:
            raise ValueError(
                f"{argument} {' and '.join(problems)}: give one for each of the kernels "
                f"{shown(names)}."
            )
        if kernel.lacking(rows.values).any():
            assert rows.prior is not None
            rows.prior(rows.values)  # raises
        known = {
            name: super(LearnedKernelRidge, self)._given_diagonal(axis, ids, rows, given[name])
            for name in given
        }
        return kernel.diagonal(double(rows.values), known)

    def _relearned_holdout(
        self, setting: Setting, cv: Any = None, *, groups: Any = None, task_groups: Any = None
    ) -> HeldOut:
        """Return nested predictions: all parameters are learned again without each fold."""
        given = ((self._groups, groups), (self._task_groups, task_groups))
        together = code_groups(
            self._labels, *(used_groups if other is None else other for used_groups, other in given)
        )
        cv = min(_N_FOLDS, _most_folds(setting, self._labels.shape, together)) if cv is None else cv
        is_number = isinstance(cv, Integral)
        # Only predictions with the groups of the model are cached.
        if is_number and groups is None and task_groups is None:
            key = (setting, int(cv))
        else:
            key = None
        if key is not None and key in self._computed:
            return self._computed[key]
        splitter = (
            SettingKFold(setting, int(cv), random_state=_SEED)
            if is_number
            else as_splitter(cv, setting)
        )
        # Given folds ignore the groups of the model.
        if isinstance(splitter, GivenFolds):
            used_groups = (groups, task_groups)
        else:
            used_groups = together
        used = Units.of_groups(self._labels, setting, used_groups)
        method = f"{folds_in_words(splitter, setting, used)}, kernels learned again"
        refits = Refits(self, self._training(), together, setting)
        how = plan_fits(
            self._labels,
            setting,
            used,
            splitter,
            predict=refits.predict,
            method=method,
            line=refits.line,
        )
        held_out = HeldOut(
            refits.held_out(how), how.method, how.units, is_fixed=False, reason=how.explanation
        )
        if key is not None:
            self._computed[key] = held_out
        return held_out

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
        """Return held-out predictions; nested ones learn the kernels again without each fold."""
        check_method(method)
        if method == "exact" and (nested or self.describes_by_labels):
            raise ValueError(
                Message(
                    "Kernels that are learned again for each fold have no formula: leave "
                    '<method="exact"> out, or keep the kernels with <nested=False>.'
                )
            )
        if nested:
            return self._relearned_holdout(setting, cv, groups=groups, task_groups=task_groups)
        if self.describes_by_labels and any(
            given is not None for given in (cv, groups, task_groups)
        ):
            units = Units.of_groups(self._labels, setting, (groups, task_groups))
            return self._own_holdout(setting, units, cv)
        return super()._hold_out(setting, cv, groups, task_groups, nested, exact, method)

    def _held_out(self, setting: Setting, units: Units) -> Array:
        if self.describes_by_labels:
            return self._own_holdout(setting, units).predictions
        return super()._held_out(setting, units)

    def _kept_holdout(self, setting: Setting) -> HeldOut | None:
        stored = super()._kept_holdout(setting)
        if stored is None:
            return self._own_holdout(setting) if self.describes_by_labels else None
        return stored._replace(method=self._method_of_all)

    @property
    def _method_of_all(self) -> str:
        """Method of the predictions of all folds, without the folds of the error."""
        return self.holdout_method_.partition(_ERROR_OF)[0]

    def _kept_predictions(self) -> Array:
        if self._is_whole:
            return self._predictions
        setting = self._searched_setting
        if (setting, 0) not in self._computed:
            self._computed[setting, 0] = self._own_folds(setting, self._units)
        return self._computed[setting, 0].predictions

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        """Return the score of the labels that were predicted in learning."""
        targets = scored_labels(self._labels, self._predictions, setting, quiet=True)
        return prepared_score(
            self._labels, self.scoring or "neg_mean_squared_error", setting, targets
        )

    def _keep(self, problem: Any) -> None:
        super()._keep(problem)
        self._computed = {}

    @property
    def describes_by_labels(self) -> bool:
        """Whether a side is described by profiles of its labels; then no hold-out formula exists."""
        return any(map(_is_profiled, self._sides()))

    @property
    def _settings(self) -> tuple[Setting, ...]:
        return tuple(setting for setting in super()._settings if not self._profiled_side(setting))

    def _check_request(
        self, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
    ) -> None:
        """Raise if the setting has new members of a side that is described by its labels."""
        super()._check_request(setting, groups, task_groups, cells)
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
        sides = self._sides()
        for axis in setting.new:
            if axis < len(sides) and _is_profiled(sides[axis]):
                return ("instances", "tasks")[axis]
        return ""

    def _own_holdout(self, setting: Setting, units: Units | None = None, cv: Any = None) -> HeldOut:
        """Return held-out predictions of folds, with all stages computed from the training labels of each fold.

        Without units or `cv`, the folds are those of learning in the setting of the model, and five
        folds in other settings.
        """
        problem = self._problem()
        self._check_request(setting)
        Y = problem.Y
        xp = namespace(problem.Y)
        units = Units() if units is None else units
        if units.are_single and cv is None and setting is self._searched_setting:
            if setting is Setting.A:
                # Missing labels are not used in the fit.
                predictions = xp.where(
                    xp.isnan(Y), self._closed_problem.Y, self._kept_predictions()
                )
                return HeldOut(predictions, self._method_of_all, self._units)
            units = self._units
        return self._own_folds(setting, units, cv)

    def _own_folds(self, setting: Setting, together: Units, cv: Any = None) -> HeldOut:
        """Return held-out predictions of folds, with all stages computed from the training labels of each fold."""
        data = self._training()
        searched = self._searched_setting
        like = self._labels.values
        # The λ of the stages belongs to weights in this unit.
        unit = self.alpha_ / math.exp(self._path[-1][-1])
        labels, centre, size, _ = standardised(data, self.fit_intercept, unit)
        profiled = (0 not in searched.new, 1 not in searched.new)
        labels, sides = _economical(labels, self._mixtures(data))

        def predict(fold: Fold) -> Array:
            completed = completed_again(labels, sides, ~fold.left, self._path, profiled)
            held_out = take_rows(namespace(completed).reshape(completed, (-1,)), fold.test)
            return as_array_of(to_numpy(held_out), like, double(like).dtype) * size + centre

        how = plan_fits(
            self._labels,
            setting,
            together,
            cv,
            predict=predict,
            method="{n} folds, profiles made again",
            line=lambda n: Progress(n, "Held-out folds", self.progress, of=1),
        )
        return HeldOut(how.held_out(), how.method, how.units, reason=how.explanation)

    def _training(self) -> Training:
        """Return the training data of a fitted model, without descriptions that depend on the labels."""
        tables = []
        for side, kernel in zip(self._sides(), self._kernels, strict=True):
            assert side.features is not None
            tables.append(Table(side.features[:, : kernel.n_columns], side.ids))
        return Training(tables[0], tables[1] if len(tables) > 1 else None, self._labels, self._form)

    def _refitter(self, setting: Setting) -> Callable[[Labels], Self]:
        """Return a function that fits the model again on other labels of the same instances and tasks."""
        data = self._training()
        groups = (self._groups, self._task_groups)
        return lambda labels: self._refitted(replace(data, labels=labels), groups, setting)

    def _refitted(self, data: Training, groups: Groups, setting: Setting) -> Self:
        """Return a clone that is fitted on other labels, or on fewer rows, of the same descriptions."""
        params: dict[str, Any] = getattr(self, "_solved_with", None) or self.get_params(deep=False)
        inner: Self = clone(self).set_params(**{**params, "progress": False})
        searched = as_setting(params["setting"])
        inner.cv = _fewer(inner.cv, searched, data.labels.shape, groups)
        if not set(setting.new) <= set(searched.new):
            inner.stages = 1  # later stages would describe new rows by their labels
        inner._kernels = self._kernels
        inner.n_features_in_ = self.n_features_in_
        return inner._fit_on(data, *groups)

    def _splitter(self, setting: Setting, knows_tasks: bool) -> SettingKFold | GivenFolds:
        if isinstance(self.cv, list | tuple) and setting is Setting.A and not knows_tasks:
            # Without a task side, leaving out a pair equals leaving out its instance.
            return as_splitter(self.cv, Setting.B)
        if isinstance(self.cv, Integral) and self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            return SettingKFold(setting, int(self.cv), random_state=seed)
        return as_splitter(self.cv, setting)


def _ranking(labels: Labels) -> str:
    """Return the metric of ranks to show beside the error."""
    return "average_precision" if is_binary(labels.values) else "concordance_index"


def _economical(labels: Targets, sides: Sides) -> tuple[Targets, Sides]:
    """Return labels and kernels in the precision, and on the device, that learning takes least time with."""
    m, q = labels.cells.shape
    if not labels.cells.is_dense:
        # With few labels of a large grid, the learned λ is large enough for single precision.
        return labels.converted(single), [side.converted(single) for side in sides]
    if m * q * (m + q) <= _FOR_PROCESSORS:
        return labels.converted(to_numpy), [side.converted(to_numpy) for side in sides]
    return labels, sides


def _tables(data: Training) -> list[Table]:
    """Return the table of each side."""
    return [data.instances] if data.tasks is None else [data.instances, data.tasks]


def _learned(side: Side) -> LearnedKernel:
    kernel = side.spec.kernel
    assert isinstance(kernel, LearnedKernel)
    return kernel


def _is_profiled(side: Side) -> bool:
    """Return whether a side is described by profiles of its labels."""
    return any(name in PROFILES for name in _learned(side).names)


def _weights(side: Side) -> dict[str, float]:
    """Return the weights of a side, scaled to sum to one; the stored weight of the constant is one."""
    weights = {member.name: member.weight for member in _learned(side).members}
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
