"""Estimators that choose their regularisation by exact held-out predictions."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np

from dyadlearn._checks import caller_level, check_alphas
from dyadlearn._documenting import documented
from dyadlearn._interrupts import current, keeping_best
from dyadlearn._progress import Phase
from dyadlearn.exceptions import SearchStoppedWarning
from dyadlearn.filters import SpectralFilter
from dyadlearn.metrics import scorer
from dyadlearn.models.base import GridModel, ProcessModel
from dyadlearn.models.fitted import Groups, as_fitted
from dyadlearn.models.grid import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
    independent_spec,
    pair_kernel_spec,
    two_step_spec,
)
from dyadlearn.models.reading import Training, groups_in_order, read_training
from dyadlearn.models.spec import (
    NO_CONSTANTS,
    Constants,
    ModelSpec,
    Shares,
    check_constants,
    check_shares,
    identity_shares,
)
from dyadlearn.selection.edges import warn_of_choice
from dyadlearn.selection.nested import Prepared
from dyadlearn.selection.searching import (
    FittedChoice,
    FittedSearch,
    PosedSearch,
    SearchSpec,
)
from dyadlearn.settings import as_setting


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
        See `dyadlearn.metrics.scorer`; greater is better. Rankings and correlations leave out pairs of
        labels, or compare labels of one fold, where leave-one-out predictions would be trained on
        each other's labels (see `dyadlearn.holdout.one_fit`).
    average : {"pooled", "instance", "task", "fold"}, default=None
        Score of all labels together, or mean of the scores of each instance, task or fold. None
        means that of a scorer with its own, and otherwise pooled in A and D, per instance in B, per
        task in C.
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
        The score of `holdout_`, or of the same model by leave-pair-out.
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


class TaskSearchParameters:
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


class ConstantsSearchParameter:
    """Parameter of searches over the constants of the kernels, besides the regularisation.

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


def fit_search(spec: SearchSpec, data: Training, groups: Groups) -> FittedSearch:
    """Return the model with the best parameters, and warn of a choice that is on an edge or useless."""
    fitted = PosedSearch.of(spec, data, groups).run()
    with Phase("Baselines"):
        current().attempt(partial(warn_of_choice, fitted))
    return fitted


class ChoosingModel(GridModel, stored=False):
    """Base class of models whose parameters are chosen, or learned, by held-out predictions."""

    searches = True
    # Words of `set_alpha`: where the regularisation comes from, and a model in which it is given;
    # by default that of the search.
    _choice = "chooses it by held-out scores"
    _without_choice = ""

    fitted_: FittedChoice
    progress: bool | None
    average: str | None

    @abstractmethod
    def prepared(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Prepared:
        """Return checked training data, and the functions that fit the model to them and to a part of them."""

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
        sample_weight : array, series or frame of shape (m,), (q,) or (m, q), default=None
            Weights of instances, of tasks or of labels in the squared loss, in the fit and in the
            hold-out error that kernels are learned by. The `scoring` of a search counts all labels
            with positive weight equally.
        groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
            Groups of instances and of tasks; a group is left out together. "identical" groups rows
            with equal features or kernels.

        Returns
        -------
        self
        """
        with keeping_best(self.progress) as interrupts:
            prepared = self.prepared(X, y, tasks, sample_weight)
            groups = groups_in_order(prepared.data, groups, task_groups)
            fitted = prepared.fit(prepared.data, groups)
        self.fitted_ = fitted
        if interrupts.heard is not None:
            warnings.warn(fitted.reached, SearchStoppedWarning, stacklevel=caller_level())
        return self

    def set_alpha(self, alpha: Any = None, task_alpha: float | None = None) -> NoReturn:
        """Raise TypeError: the regularisation of this model is not a parameter."""
        name = type(self).__name__
        other = self._without_choice or name.removesuffix("CV")
        raise TypeError(
            f"set_alpha needs a model whose regularisation is given, found {name}, which "
            f"{self._choice}: fit {other} with the new alpha."
        )

    def _averaged_scoring(self) -> Any:
        """Return the score with its average; the score itself if no average is given."""
        if self.average is None:
            return self.scoring
        return scorer(self.scoring).averaged(self.average)

    @property
    def alpha_(self) -> Any:
        """The best, or learned, value."""
        return as_fitted(self).alphas["alpha"]

    @property
    def holdout_(self) -> Any:
        """Held-out predictions at the chosen values, of the type of the labels."""
        fitted = as_fitted(self)
        return fitted.as_labels(fitted.held_out)

    @property
    def holdout_method_(self) -> str:
        """Method of `holdout_`."""
        return as_fitted(self).holdout_method

    @property
    def holdout_setting_(self) -> str:
        """Setting of `holdout_`."""
        return as_fitted(self).validation.setting.value

    @property
    def baselines_(self) -> dict[str, float]:
        """Scores of the baselines in the setting of the model, held out in the same way as the model."""
        return as_fitted(self).baselines


@dataclass(eq=False, repr=False)
class Search(ChoosingModel, stored=False):
    """Base class of searches: sides are decomposed once, and every regularisation is scored.

    The attribute `fitted_` is the fitted model with what the search has chosen.
    """

    fitted_: FittedSearch = field(init=False)

    alphas: Any = None
    _: KW_ONLY
    kernel: Any = "linear"
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    repair: str = "clip"
    device: str | None = None
    setting: str = "B"
    scoring: Any = "neg_mean_squared_error"
    average: str | None = None
    kernel_grid: Sequence[dict[str, Any]] | None = None
    cv: Any = None
    method: str | None = None
    exhaustive: bool = False
    progress: bool | None = None

    def search_spec(self) -> SearchSpec:
        """Return the validated parameters of the search."""
        alphas = _grid(self.alphas, "alphas")
        task_alphas = _grid(getattr(self, "task_alphas", None), "task_alphas")
        kernel_grids = []
        for grid in (self.kernel_grid, getattr(self, "task_kernel_grid", None)):
            kernel_grids.append(None if grid is None else tuple(grid))
        constants = None
        if hasattr(self, "constants"):
            constants = _constants_to_try(self.constants)
        spec = SearchSpec(
            model=self._spec(),
            setting=as_setting(self.setting),
            scoring=self._averaged_scoring(),
            alphas=alphas,
            task_alphas=task_alphas,
            kernel_grids=(kernel_grids[0], kernel_grids[1]),
            constants=constants,
            shares=self._searched_shares(),
            has_default_shares=getattr(self, "shares", None) is None,
            searches_constants=isinstance(getattr(self, "constants", None), Iterable),
            cv=self.cv,
            method=self.method,
            exhaustive=self.exhaustive,
            progress=self.progress,
            alpha_per_task=getattr(self, "alpha_per_task", False),
        )
        spec.check()
        return spec

    def prepared(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Prepared:
        """Return checked training data, and the functions that run the search on them and on a part of them."""
        spec = self.search_spec()
        data = read_training(spec.model, X, y, tasks, sample_weight)
        again = partial(fit_search, replace(spec, progress=False))
        return Prepared(data, partial(fit_search, spec), again)

    def _searched_shares(self) -> tuple[Shares, ...] | None:
        """Return all shares to try; None if shares are not searched."""
        return None

    def _check_params(self) -> None:
        self.search_spec()

    @property
    def task_alpha_(self) -> Any:
        """The best value for the tasks; None if there is one regularisation."""
        return as_fitted(self).alphas.get("task_alpha")

    @property
    def alphas_(self) -> np.ndarray:
        """The values that were tried, with kernel grids those for the best kernel."""
        return as_fitted(self).choice.alphas

    @property
    def task_alphas_(self) -> np.ndarray | None:
        """The values that were tried for the tasks; None if there is one regularisation."""
        return as_fitted(self).choice.task_alphas

    @property
    def kernel_params_(self) -> Any:
        """Chosen kernel parameters of the instances."""
        return as_fitted(self).sides[0].spec.params

    @property
    def task_kernel_params_(self) -> Any:
        """Chosen kernel parameters of the tasks; None without tasks."""
        sides = as_fitted(self).sides
        return sides[1].spec.params if len(sides) > 1 else None

    @property
    def best_score_(self) -> float:
        """The score of `holdout_`."""
        return as_fitted(self).choice.best_score

    @property
    def landscape_(self) -> np.ndarray:
        """Scores; NaN where the score is undefined or was not computed."""
        return as_fitted(self).choice.landscape

    @property
    def n_evaluated_(self) -> int:
        """Number of points of `landscape_` that were evaluated."""
        return as_fitted(self).choice.n_evaluated

    @property
    def holdout_reason_(self) -> str:
        """The method and why it was chosen."""
        return as_fitted(self).validation.reason


def _grid(values: Any, name: str) -> tuple[float, ...] | None:
    """Return the values of a parameter to try; None stays."""
    _check_sequence(values, name)
    if values is None:
        return None
    return tuple(check_alphas(values, name))


def _check_sequence(values: Any, name: str) -> None:
    """Raise if the values of a parameter to try can be read only once."""
    if isinstance(values, Iterator):
        raise TypeError(
            f"{name} is an iterator, which can be read only once: give a sequence, such as "
            f"list({name})."
        )


def _constants_to_try(constants: Any) -> tuple[Constants, ...]:
    """Return all constants of both kernels to try, from the parameter of the user."""
    if constants is None:
        return (NO_CONSTANTS,)
    _check_sequence(constants, "constants")
    is_one = isinstance(constants, str) or getattr(constants, "ndim", 1) == 0
    if is_one or not isinstance(constants, Iterable):
        return (check_constants(constants),)
    tried = tuple(check_constants(level, "each of constants") for level in constants)
    if not tried:
        raise ValueError("constants is empty: give at least one number or pair of numbers.")
    return tried


@documented(TaskSearchParameters, SearchParameters, TwoStepRidge)
@dataclass(eq=False, repr=False)
class TwoStepRidgeCV(Search):
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

    task_alphas: Any = None
    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    filter: SpectralFilter | None = None
    task_filter: SpectralFilter | None = None
    identity: Any = 0.0
    symmetry: str | None = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None

    def _spec(self) -> ModelSpec:
        return two_step_spec(self)


@documented(TaskSearchParameters, SearchParameters, ConstantsSearchParameter, KroneckerRidge)
@dataclass(eq=False, repr=False)
class KroneckerRidgeCV(Search, ProcessModel):
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

    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    identity: Any = 0.0
    constants: Any = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None

    def _spec(self) -> ModelSpec:
        shares = identity_shares(self.identity)
        constants = _constants_to_try(self.constants)
        return pair_kernel_spec(self, [shares], constants, is_kronecker=True)

    @property
    def constants_(self) -> Constants | None:
        """The best constants of both kernels; None without tasks or without an intercept."""
        return as_fitted(self).choice.constants


@documented(TaskSearchParameters, SearchParameters, ConstantsSearchParameter, PairKernelRidge)
@dataclass(eq=False, repr=False)
class PairKernelRidgeCV(Search, ProcessModel):
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

    shares: Sequence[tuple[float, float, float]] | None = None
    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    constants: Any = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None

    def _spec(self) -> ModelSpec:
        constants = _constants_to_try(self.constants)
        return pair_kernel_spec(self, self._searched_shares(), constants)

    def _searched_shares(self) -> tuple[Shares, ...]:
        if self.shares is None:
            # The product kernel has at least one quarter.
            quarters = [(a, b, 4 - a - b) for a in range(4, 0, -1) for b in range(4 - a, -1, -1)]
            return tuple((a / 4.0, b / 4.0, c / 4.0) for a, b, c in quarters)
        if not len(self.shares):
            raise ValueError(
                "shares is empty: give at least one (product, per_task, per_instance)."
            )
        return tuple(check_shares(triple) for triple in self.shares)

    @property
    def shares_(self) -> Shares | None:
        """The best shares: product, per_task and per_instance; None without tasks."""
        return as_fitted(self).choice.shares

    @property
    def constants_(self) -> Constants | None:
        """The best constants of both kernels; None without tasks or without an intercept."""
        return as_fitted(self).choice.constants


@documented(SearchParameters, IndependentTaskRidge)
@dataclass(eq=False, repr=False)
class IndependentTaskRidgeCV(Search):
    r"""Independent-task ridge regression that chooses its regularisation by exact hold-out.

    `sample_weight` weights the squared loss of each fit, also within the search. The scores are not
    weighted: every observed cell with a positive weight counts equally, unless a `scoring` function
    weights the cells itself.

    Parameters
    ----------
    setting : {"A", "B"} or an alias, default="B"
        What the model will predict. The predictions are the same in both settings, but scores are
        pooled in A and means per instance in B.
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

    _: KW_ONLY
    filter: SpectralFilter | None = None
    alpha_per_task: bool = False

    def _spec(self) -> ModelSpec:
        return independent_spec(self)
