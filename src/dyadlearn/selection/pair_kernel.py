"""Ridge regression on pairs that chooses its regularisation and the shares of its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from dyadlearn._array import namespace
from dyadlearn.holdout import Problem
from dyadlearn.models._base import Sides
from dyadlearn.models.pair_kernel import PairKernelRidge, check_shares
from dyadlearn.pairing import PairKernel
from dyadlearn.selection.search import Search, TaskSearchParameters
from dyadlearn.spectrum import Spectrum

__all__ = ["PairKernelRidgeCV"]

# Quarters of the kernel between pairs, of which the product of both kernels has at least one.
_QUARTERS = [(a, b, 4 - a - b) for a in range(4, 0, -1) for b in range(4 - a, -1, -1)]


@dataclass(eq=False, repr=False)
class PairKernelRidgeCV(Search, TaskSearchParameters, PairKernelRidge):
    r"""Pair kernel ridge regression that chooses its regularisation and the shares of its kernel itself.

    Everything is scored by exact hold-out predictions in the setting that the model is meant for. Neither another
    regularisation nor other shares take another decomposition of a side; setting D, which decomposes the smaller side
    without each of its rows, does so once for each of the shares.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas : sequence of float or float, default=None
        Values of :math:`\lambda`; None is 10⁻⁷ … 10⁶.
    shares : sequence of (product, per_task, per_instance), default=None
        The shares to try, see `PairKernelRidge`. None is ten of them, all in quarters in which the product of both
        kernels has one or more, where a whole stands for the average of the kernel between a pair and itself: each
        kernel alone is brought to that scale.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel, task_kernel, kernel_params, task_kernel_params, fit_intercept, repair
        As in `PairKernelRidge`. Both sides are solved in the dual where any of the shares wants it.
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well; each costs one decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, or complete but for whole rows
        and columns, and of single pairs where few are observed; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.
    tol, max_iter : float and int, default=1e-8 and 1000
        As in `PairKernelRidge`; while searching 1e-5 will do.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation where folds are solved again. By default a grid with seven or more
        values on an axis is searched from coarse to fine then.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.
    device : str, default=None
        Where arrays of numpy are computed, as in the model without search.

    Attributes
    ----------
    alpha_ : float
        The best value; of equals the largest.
    shares_ : (float, float, float) or None
        The best shares, of equals the first: product, per_task and per_instance. None without tasks.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
    landscape_ : array of shape (n_shares, n_alphas), without tasks (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.coarse`.
    n_evaluated_ : int
        Number of points of `landscape_` that were evaluated.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions at the best values.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    completed_, n_iter_, residual_
        As in `PairKernelRidge`.
    dual_coef_, coef_, intercept_, instance_coef_, task_coef_
        As in `PairKernelRidge`.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import PairKernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> own = X @ rng.normal(size=(8, 15))  # each task has a function of its own, which no feature tells
    >>> Y = own + 6 * rng.normal(size=(20, 15))
    >>> search = PairKernelRidgeCV(alphas=[1, 10, 100, 1000], shares=[(1, 0, 0), (0.5, 0.5, 0), (0, 1, 0)])
    >>> search.fit(X, Y, tasks=T).landscape_.shape
    (3, 4)
    >>> search.shares_
    (0.5, 0.5, 0.0)
    """

    alphas: Any = None
    shares: Sequence[tuple[float, float, float]] | None = None
    shares_: tuple[float, float, float] | None = field(init=False)

    def _shares(self) -> tuple[float, float, float]:
        return self._all_shares()[0] if self.shares_ is None else self.shares_

    def _all_shares(self) -> list[tuple[float, float, float]]:
        if self.shares is None:
            return [(a / 4.0, b / 4.0, c / 4.0) for a, b, c in _QUARTERS]
        if not len(self.shares):
            raise ValueError("shares is empty: give at least one (product, per_task, per_instance).")
        for triple in self.shares:
            if np.shape(triple) != (3,):
                raise ValueError(f"shares must be triples (product, per_task, per_instance), found {triple!r}.")
            check_shares(triple)
        return [(float(a), float(b), float(c)) for a, b, c in self.shares]

    def _problems(self, sides: Sides) -> list[Problem]:
        self.shares_ = None  # those of another fit may want other sides
        return super()._problems(sides)

    def _variants(self, problem: Problem) -> list[Problem]:
        if not problem.pairing.knows_tasks:
            return [problem]
        pairing = cast(PairKernel, problem.pairing)
        return [replace(problem, pairing=pairing.with_shares(shares)) for shares in self._scaled(*pairing.spectra)]

    def _choose_variant(self, variant: int, n_variants: int) -> tuple[int, ...]:
        if self._task_side is None:
            return ()
        self.shares_ = self._scaled(self._side.spectrum, self._task_side.spectrum)[variant]
        return (n_variants,)

    def _scaled(self, spectrum: Spectrum, task_spectrum: Spectrum) -> list[tuple[float, float, float]]:
        """Return the shares to try on two sides."""
        if self.shares is not None:
            return self._all_shares()
        rows, columns = (
            float(namespace(side.values).sum(side.values)) / side.n_rows or 1.0 for side in (spectrum, task_spectrum)
        )
        return [(a, b * columns, c * rows) for a, b, c in self._all_shares()]
