"""Kernel ridge models of a grid of labels: independent tasks, two-step, Kronecker and pair kernels.

Kronecker and pair-kernel models are also Gaussian processes, with posterior deviations and a
marginal likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from dyadlearn._documenting import documented
from dyadlearn._messages import Message
from dyadlearn.filters import SpectralFilter
from dyadlearn.models.base import ProcessModel, RidgeModel
from dyadlearn.models.side import KernelSpec
from dyadlearn.models.spec import (
    NO_CONSTANTS,
    Constants,
    IndependentSpec,
    ModelSpec,
    PairKernelSpec,
    Shares,
    TwoStepSpec,
    check_constants,
    check_shares,
    checked_filter,
    dual_kernels,
    identity_shares,
    one_alpha,
)

# Parameters that several models have ----------------------------------------------------------------------------


class KernelParameters:
    """Parameters of all kernel ridge models of a grid.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        Name of a kernel (see `dyadlearn.kernels.kernel_names`), a function of two feature matrices
        that returns their kernel matrix, or ``"precomputed"``. A linear kernel with fewer features
        than rows is solved in the primal.
    kernel_params : dict, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    repair : {"clip", "shift", "error"}, default="clip"
        Treatment of an asymmetric or indefinite kernel: see `dyadlearn.kernels.repair`.
    device : str, default=None
        Device that computes with numpy arrays. None means the CPU. ``"cuda"`` means a GPU, used
        through torch or, if torch is not installed, through cupy. Results are numpy arrays in any
        case. Arrays of other libraries are computed on their current device; leave `device` out for
        them.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual coefficients A.
    coef_ : array of shape (d, q) or (d,)
        Primal coefficients W; only if the model is solved in the primal.
    intercept_ : array of shape (q,) or float
        Constant term, added to features times `coef_`, or to kernel values times `dual_coef_`.
    completed_ : array or frame of shape (m, q) or (m,)
        Labels where they are observed, predictions elsewhere.
    n_iter_ : int
        Iterations of the solver; 1 for a closed form.
    residual_ : float
        Relative residual of the solved system; 0 for a closed form.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only if `X` was a frame and all its column names are strings.
    """


class TaskKernelParameters:
    """Parameters of all kernel ridge models with a task kernel.

    Parameters
    ----------
    kernel, task_kernel : str or callable, default="linear"
        Kernel of the instances and of the tasks: a name (see `dyadlearn.kernels.kernel_names`), a
        function of two feature matrices that returns their kernel matrix, or ``"precomputed"``. A
        linear kernel with fewer features than rows is solved in the primal.
    kernel_params, task_kernel_params : dict, default=None
        Parameters of the kernels, such as ``{"gamma": 0.1}``.
    tol, max_iter : float and int, default=1e-8 and 1000
        Stopping rule of conjugate gradients, which are used only if labels are missing or weighted:
        the relative residual to reach, and the number of iterations after which a
        `ConvergenceWarning` is issued.

    Attributes
    ----------
    coef_ : array of shape (d, r), without tasks (d, q) or (d,)
        Primal coefficients W; only if both sides are solved in the primal.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) or (m,) and (r,) or (q,)
        Grand mean and main effects. A prediction is ``x @ W @ t + x @ instance_coef_ + task_coef_ @
        t + intercept_``, where x and t are features and W is `coef_`, or x and t are kernel values
        and W is `dual_coef_`.
    """


class IdentityParameter:
    """Parameter of models in which training rows may have individual effects, besides their features.

    Parameters
    ----------
    identity : float or (float, float), default=0.0
        Shares δ and ε of the identity in the kernels: K + δI of the training instances and G + εI
        of the training tasks; one number is for both. A known row then has an individual effect:
        two rows with equal features and different labels have different predictions. A new row has
        none, so δ acts as a larger ridge for new instances, and ε for new tasks. `predict` treats
        all rows as new; pass None for the training rows.
    """


class ConstantsParameter:
    """Parameter of models of products of kernels, whose main effects have a weight.

    Parameters
    ----------
    constants : float or (float, float), default=1.0
        Constants a and b that are added to the kernels if there is an intercept: K + a of the
        instances and G + b of the tasks; one number is for both. They are the weights of the main
        effects, a of those of tasks and b of those of instances; 0 leaves these effects out. They
        have the units of the kernels, so multiples of the mean diagonal of each kernel are sensible
        values. A side with a constant of 0 is solved in the dual. Without tasks there are no main
        effects, and constants are ignored.
    """


def common_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a specification that all models have, without the kernels."""
    names = [name for name in ("tol", "max_iter") if hasattr(model, name)]
    return {
        "name": type(model).__name__,
        "repair": model.repair,
        "fit_intercept": model.fit_intercept,
        "device": model.device,
        "stopping": {name: getattr(model, name) for name in names},
    }


def kernels_of(model: Any) -> tuple[KernelSpec, KernelSpec]:
    """Return the kernels of both sides; a model without a kernel of the tasks has the default there."""
    task_kernel = getattr(model, "task_kernel", "linear")
    task_params = getattr(model, "task_kernel_params", None)
    return (
        KernelSpec(model.kernel, model.kernel_params, model.repair),
        KernelSpec(task_kernel, task_params, model.repair),
    )


def independent_spec(model: Any) -> IndependentSpec:
    """Return the validated parameters of an independent-task model, or of a search over one."""
    spec = IndependentSpec(
        **common_parameters(model),
        kernels=kernels_of(model),
        filter=checked_filter(model.filter, "filter"),
    )
    spec.check()
    return spec


def two_step_spec(model: Any) -> TwoStepSpec:
    """Return the validated parameters of a two-step model, or of a search over one."""
    shares = identity_shares(model.identity)
    filters = (
        checked_filter(model.filter, "filter"),
        checked_filter(model.task_filter, "task_filter"),
    )
    spec = TwoStepSpec(
        **common_parameters(model),
        kernels=dual_kernels(kernels_of(model), [shares]),
        filters=filters,
        shares=shares,
        symmetry=model.symmetry,
    )
    spec.check()
    return spec


def pair_kernel_spec(
    model: Any,
    shares: Sequence[Shares],
    constants: Sequence[Constants],
    *,
    is_kronecker: bool = False,
) -> PairKernelSpec:
    """Return the validated parameters of a model with a kernel between pairs, or of a search over one.

    Parameters
    ----------
    model : estimator
    shares, constants : sequences
        Shares and constants of the model; those of a search are all that it tries.
    is_kronecker : bool, default=False
        As in `PairKernelSpec`.
    """
    spec = PairKernelSpec(
        **common_parameters(model),
        kernels=dual_kernels(kernels_of(model), shares, constants),
        shares=shares[0],
        constants=constants[0],
        is_kronecker=is_kronecker,
    )
    spec.check()
    if not (model.fit_intercept or set(constants) == {NO_CONSTANTS}):
        raise ValueError(
            Message(
                "<constants={constants!r}> are weights of main effects, which <fit_intercept=False> "
                "leaves out: set <fit_intercept=True>, or leave <constants> out.",
                constants=model.constants,
            )
        )
    return spec


# The models -----------------------------------------------------------------------------------------------------


@documented(KernelParameters)
@dataclass(eq=False, repr=False)
class IndependentTaskRidge(RidgeModel):
    r"""Kernel ridge regression for each task independently.

    .. math:: \mathbf{f}(\mathbf{d}) = \mathbf{k}^\top(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}

    This is Equation 2 of the paper. With an intercept, the default, the kernel and the labels of
    each task are centred.

    Parameters
    ----------
    alpha : float or array of shape (q,), default=1.0
        Regularisation :math:`\lambda_d \ge 0`, one value for all tasks or one per task; 0 means
        least squares (the pseudo-inverse).
    filter : SpectralFilter, default=None
        Spectral filter; None means `Tikhonov`, which is ridge regression.
    fit_intercept : bool, default=True
        Whether each task has an intercept, which is not regularised. False is the model of the
        paper, for labels with a meaningful zero. A task without labels has no intercept, so its
        predictions are NaN. The only label of a task has no held-out prediction and is not scored.
        A `NoLabelWarning` names these tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import IndependentTaskRidge
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> IndependentTaskRidge(alpha=0.0).fit(X, Y).predict([[3.0]]).round(6)
    array([[3., 2.]])
    >>> IndependentTaskRidge(alpha=0.0, fit_intercept=False).fit(X, Y).predict([[3.0]]).round(6)
    array([[3. , 1.2]])
    """

    # fit accepts and ignores tasks, so that all models have the same signature.

    alpha: Any = 1.0
    _: KW_ONLY
    filter: SpectralFilter | None = None

    def _spec(self) -> ModelSpec:
        return independent_spec(self)


@documented(TaskKernelParameters, KernelParameters, IdentityParameter)
@dataclass(eq=False, repr=False)
class TwoStepRidge(RidgeModel):
    r"""Two-step kernel ridge regression: one step over instances, one step over tasks.

    .. math:: f(\mathbf{d}, \mathbf{t}) = \mathbf{k}^\top(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\,
              \mathbf{Y}\,(\mathbf{G}+\lambda_t\mathbf{I})^{-1}\mathbf{g}

    These are Equations 11 to 13 of the paper.

    With an intercept, the default, the kernels are centred, each side has a constant, and
    predictions are

    .. math:: \mu + \mathbf{k}_c^\top\mathbf{a} + \mathbf{b}^\top\mathbf{g}_c
              + \mathbf{k}_c^\top\mathbf{A}\,\mathbf{g}_c

    Parameters
    ----------
    alpha, task_alpha : float, default=1.0
        Regularisation :math:`\lambda_d, \lambda_t \ge 0` of the instances and of the tasks. With
        ``task_alpha=0``, a task kernel of full rank gives `IndependentTaskRidge` (Theorem 1 of the
        paper); a singular task kernel projects the labels onto its range.
    filter, task_filter : SpectralFilter, default=None
        Spectral filter of each side; None means `Tikhonov`, which is ridge regression.
    fit_intercept : bool, default=True
        Whether each side has a constant that is not regularised. Then the grand mean is free, main
        effects of instances are regularised by ``alpha`` alone, main effects of tasks by
        ``task_alpha`` alone, and interactions by both. False is the model of the paper, for labels
        with a meaningful zero.
    symmetry : {"symmetric", "antisymmetric"}, default=None
        For a network, whose nodes are both the instances and the tasks: Y is square and equals its
        transpose, or minus its transpose. `X` describes the nodes and `tasks` is left out. There is
        one kernel, one filter and one regularisation (``task_alpha`` equal to ``alpha``). Hold-out
        leaves edges and nodes out of both sides.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    >>> model = TwoStepRidge(alpha=1.0, task_alpha=1.0, **kernels).fit(K, np.array([[101.0, 100], [100, 101]]), tasks=G)
    >>> model.predict([[0.0, 1.0]], tasks=[[0.0, 1.0]])
    array([[100.625]])
    """

    alpha: float = 1.0
    task_alpha: float = 1.0
    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    filter: SpectralFilter | None = None
    task_filter: SpectralFilter | None = None
    identity: Any = 0.0
    symmetry: str | None = None

    def _spec(self) -> ModelSpec:
        return two_step_spec(self)

    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model without a new decomposition.

        A network has one regularisation: `task_alpha` is left out or equals `alpha`.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None keeps the current value.

        Returns
        -------
        self
        """
        if self.symmetry is not None:
            alpha = task_alpha = one_alpha(alpha, task_alpha)
        return super().set_alpha(alpha, task_alpha)


@documented(TaskKernelParameters, KernelParameters, IdentityParameter, ConstantsParameter)
@dataclass(eq=False, repr=False)
class KroneckerRidge(RidgeModel, ProcessModel):
    r"""Kernel ridge regression on pairs with the product (Kronecker) kernel.

    .. math:: (\mathbf{G}\otimes\mathbf{K}+\lambda\mathbf{I})\,\mathrm{vec}(\mathbf{A})
              = \mathrm{vec}(\mathbf{Y}), \qquad f(\mathbf{d}, \mathbf{t}) = \mathbf{k}^\top\mathbf{A}\,\mathbf{g}

    These are Equations 5 and 6 of the paper.

    With an intercept, the default, each side has a constant feature. Its products with the kernel
    of the other side are the main effects. The grand mean is not regularised. The kernels are
    :math:`\mathbf{K} + a\mathbf{11}^\top` and
    :math:`\mathbf{G} + b\mathbf{11}^\top` with the `constants` a and b, and :math:`\mu` is added to :math:`f`. The
    kernel between the pairs (d, t) and (d', t') is

    .. math:: k(d,d')\,g(t,t') + b\,k(d,d') + a\,g(t,t') + ab ,

    where the last term does not matter beside the mean.

    For a network, whose nodes are both the instances and the tasks, use `TwoStepRidge` with
    ``symmetry=``.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation :math:`\lambda \ge 0`; 0 means ordinary Kronecker kernel least squares.
    fit_intercept : bool, default=True
        Whether the model has main effects of instances and of tasks, regularised as the
        interactions are, and a grand mean that is not regularised. False is the model of the paper,
        for labels with a meaningful zero.
    identity : float or (float, float), default=0.0
        Shares δ and ε of the identity in the kernels, (G + εI)⊗(K + δI), for the training instances
        and the training tasks; one number is for both. This is `PairKernelRidge` with
        ``per_instance=δ, per_task=ε``. The term δε I⊗I is an effect of a single pair. It is part of
        the ridge `alpha`, so predictions exclude it. `predict` treats all rows as new; pass None
        for the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> model = KroneckerRidge(alpha=1.0, kernel="precomputed", task_kernel="precomputed", fit_intercept=False)
    >>> model.fit(K, np.array([[1.0, 0.0], [0.0, 1.0]]), tasks=G).predict(K).round(3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """

    alpha: float = 1.0
    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    identity: Any = 0.0
    constants: Any = 1.0

    def _spec(self) -> ModelSpec:
        shares = identity_shares(self.identity)
        constants = check_constants(self.constants)
        return pair_kernel_spec(self, [shares], [constants], is_kronecker=True)


@documented(TaskKernelParameters, KernelParameters, ConstantsParameter)
@dataclass(eq=False, repr=False)
class PairKernelRidge(RidgeModel, ProcessModel):
    r"""Kernel ridge regression on pairs with a sum of three kernels: of pairs, per task and per instance.

    The kernel between the pairs (d, t) and (d', t') is

    .. math:: a\,k(d,d')\,g(t,t') + b\,k(d,d')\,[t=t'] + c\,[d=d']\,g(t,t') ,

    where a is the weight of a function that all pairs have in common (`product`), b that of a
    separate function of the instances for each task (`per_task`), and c that of a separate function
    of the tasks for each instance (`per_instance`). The weights are called shares; they need not
    sum to one. `product` alone is `KroneckerRidge`. `per_task` and `per_instance` together are the
    Cartesian kernel. ``product=1, per_task=ε, per_instance=δ`` with
    ``alpha=λ + δε`` is Kronecker ridge regression with δ added to the diagonal of the instance kernel and ε to that of
    the task kernel.

    `per_task` contributes nothing to a new task, and `per_instance` nothing to a new instance,
    whatever their features, unless some of their labels are passed to `predict`. Pass None for the
    training instances or the training tasks: ``predict(X)`` uses `product` and `per_task`,
    ``predict(None, tasks)`` uses `product` and `per_instance`, ``predict(None)`` uses all three, and ``predict(X,
    tasks)`` uses `product` alone.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation :math:`\lambda \ge 0`.
    product, per_task, per_instance : float, default=1.0, 0.0 and 0.0
        The shares a, b and c of the three kernels, at least 0 and not all zero. Multiplying all
        three and `alpha` by the same factor does not change the predictions.
    kernel, task_kernel : str or callable, default="linear"
        Kernel of the instances and of the tasks: a name (see `dyadlearn.kernels.kernel_names`), a
        function of two feature matrices that returns their kernel matrix, or ``"precomputed"``. A
        linear kernel with fewer features than rows is solved in the primal, except for the tasks if
        `per_task` is above zero and for the instances if `per_instance` is above zero.
    fit_intercept : bool, default=True
        Whether the model has main effects of instances and of tasks, regularised as the
        interactions are, and a grand mean that is not regularised: see `KroneckerRidge`.
    constants : float or (float, float), default=1.0
        Constants a and b of the kernels with an intercept: k + a of the instances and g + b of the
        tasks, in all three terms; one number is for both. See `KroneckerRidge`.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual coefficients of the pairs, common to all three kernels.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) or (m,) and (r,) or (q,)
        Grand mean and main effects of the product kernel's function. Its prediction is ``x @ W @ t
        + x @ instance_coef_
        + task_coef_ @ t + intercept_``, where x and t are features and W is `coef_`, or x and t are kernel values and W
        is `dual_coef_`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import PairKernelRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> kernels = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
    >>> model = PairKernelRidge(alpha=1.0, product=0.5, per_task=0.5, **kernels)
    >>> model.fit(K, np.array([[1.0, 0.0], [0.0, 1.0]]), tasks=G).predict(None).round(3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """

    alpha: float = 1.0
    _: KW_ONLY
    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000
    product: float = 1.0
    per_task: float = 0.0
    per_instance: float = 0.0
    constants: Any = 1.0

    def _spec(self) -> ModelSpec:
        shares = check_shares((self.product, self.per_task, self.per_instance))
        constants = check_constants(self.constants)
        return pair_kernel_spec(self, [shares], [constants])
