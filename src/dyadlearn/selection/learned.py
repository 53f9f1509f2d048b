"""Kernel ridge regression on pairs with learned kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dyadlearn._messages import Message
from dyadlearn.models.base import ProcessModel
from dyadlearn.models.fitted import as_fitted
from dyadlearn.models.grid import common_parameters
from dyadlearn.models.side import KernelSpec
from dyadlearn.models.spec import ModelSpec
from dyadlearn.selection.learning_kernels import (
    FittedLearned,
    LearningSpec,
    kernel_spec,
    learn_ridge,
    read_described,
    relearn,
)
from dyadlearn.selection.nested import Prepared
from dyadlearn.selection.search import ChoosingModel
from dyadlearn.settings import as_setting


@dataclass(eq=False, repr=False, kw_only=True)
class LearnedKernelRidge(ChoosingModel, ProcessModel):
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
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model will predict: new pairs (A), new instances (B), new tasks (C) or both (D).
    stages : int or "auto", default="auto"
        Maximum number of stages to try; the best is kept. From the second stage on, sides that are
        known in the setting are also described by profiles of their completed labels, so the model
        cannot predict new members of these sides. "auto" means three in setting A with tasks (two
        if few cells of a large grid are observed), and one otherwise.
    n_steps : int, default=60
        Maximum number of evaluations of the error and its gradient in each descent.
    shrinkage : float, default=0.1
        Strength of the penalty that pulls weights towards their start values and exponents towards
        one. The squared distance from these values, times `shrinkage` × (1 / instances or tasks +
        30 / labels), is added to the logarithm of the error. The start values are equal weights. In
        setting D, that of the constant is a twentieth of the sum of the others, and 300 replaces
        30.
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
    average : {"pooled", "instance", "task", "fold"}, default=None
        What `scoring` is averaged over: the score of all labels together, or the mean of the scores
        of each instance, task or fold. It requires `scoring`. With "fold" kernels are learned from
        the folds of `cv`, never from exact leave-one-out. None means the average of a scorer with
        its own, and otherwise pooled in A and D, per instance in B, per task in C.
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
        Score of held-out cells by `scoring` and `average`; the negative of `holdout_error_` if
        `scoring` is None.
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
        `scoring` and `average`.
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

    learns_kernels = True
    takes_descriptions = True
    _choice = "learns it with its kernels"
    _without_choice = "PairKernelRidge"
    _later = ("average",)

    fitted_: FittedLearned = field(init=False)

    kernel: Any = "rbf"
    task_kernel: Any = "rbf"
    setting: str = "B"
    stages: Any = "auto"
    n_steps: int = 60
    shrinkage: float = 0.1
    normalize: bool = True
    fit_intercept: bool = True
    cv: Any = 5
    scoring: Any = None
    average: str | None = None
    repair: str = "clip"
    device: str | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None
    progress: bool | None = None

    def prepared(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Prepared:
        """Return checked training data, and the functions that learn the kernels from them and from a part of them."""
        spec = self._learning_spec()
        kernels = (self.kernel, self.task_kernel)
        data, described = read_described(spec, kernels, (X, y, tasks, sample_weight))
        again = partial(relearn, spec, described, spec.setting)
        return Prepared(data, partial(learn_ridge, spec, described), again)

    def _learning_spec(self) -> LearningSpec:
        """Return the validated parameters."""
        spec = LearningSpec(
            common=common_parameters(self),
            setting=as_setting(self.setting),
            stages=self.stages,
            n_steps=self.n_steps,
            shrinkage=self.shrinkage,
            normalize=self.normalize,
            cv=self.cv,
            scoring=self._averaged_scoring(),
            random_state=self.random_state,
            progress=self.progress,
        )
        spec.check()
        return spec

    def _averaged_scoring(self) -> Any:
        """Return the score that stages are compared by; None for the squared error of all labels."""
        if self.average is not None and self.scoring is None:
            raise ValueError(
                Message(
                    "<average={average!r}> is that of a score, and without one the squared errors "
                    "of all labels are compared: give <scoring=>, such as neg_mean_squared_error.",
                    average=self.average,
                )
            )
        return super()._averaged_scoring()

    def _spec(self) -> ModelSpec:
        return self._learning_spec().model(self.kernel_specs())

    def kernel_specs(self) -> tuple[KernelSpec, KernelSpec]:
        """Return the kernels of plain tables of both sides, as the parameters give them."""
        first, second = (
            kernel_spec(kernel, self.repair) for kernel in (self.kernel, self.task_kernel)
        )
        return first, second

    @property
    def weights_(self) -> dict[str, dict[str, float]]:
        """Weights of each description and of the constant; they sum to one on each side."""
        return as_fitted(self).weights

    @property
    def exponents_(self) -> dict[str, dict[str, float]]:
        """Exponent of each description."""
        return as_fitted(self).exponents

    @property
    def shares_(self) -> tuple[float, float, float] | None:
        """Shares of the product kernel, of the kernel per task and of that per instance; None without tasks."""
        return as_fitted(self).shares

    @property
    def holdout_error_(self) -> float:
        """Mean squared error of held-out cells."""
        return as_fitted(self).learned.error

    @property
    def holdout_score_(self) -> float:
        """Score of held-out cells."""
        return as_fitted(self).learned.score

    @property
    def stage_errors_(self) -> list[float]:
        """Hold-out error of each stage that was compared with the one before."""
        return list(as_fitted(self).learned.stage_errors)

    @property
    def n_stages_(self) -> int:
        """Number of stages of the model."""
        return len(as_fitted(self).learned.path)

    @property
    def history_(self) -> list[list[float]]:
        """Hold-out errors of each stage, one per evaluation."""
        return [list(losses) for losses in as_fitted(self).learned.history]
