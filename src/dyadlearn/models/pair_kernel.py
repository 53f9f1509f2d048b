"""Ridge regression on pairs, with a shared function and functions of each task's and each instance's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dyadlearn._checks import check_alpha
from dyadlearn.models._process import ProcessRidge
from dyadlearn.models._side import KernelSpec

__all__ = ["PairKernelRidge"]


class PairKernelRidge(ProcessRidge):
    r"""Kernel ridge regression on pairs, with any kernel that both sides' eigenvectors diagonalise.

    The kernel between the pairs (d, t) and (d', t') is

    .. math:: a\,k(d,d')\,g(t,t') + b\,k(d,d')\,[t=t'] + c\,[d=d']\,g(t,t') ,

    with a share of a function that all pairs have in common (`product`), of a function of the instances for each task
    (`per_task`) and of one of the tasks for each instance (`per_instance`). The first alone is `KroneckerRidge`; the
    other two together are the Cartesian kernel; ``product=1, per_task=ε, per_instance=δ`` and ``alpha=λ + δε`` is
    Kronecker ridge regression with δ and ε added to the diagonals of the kernels.

    A task that was not there in training has nothing in common with any other but the shared function, whatever its
    features: `per_task` says nothing of it, and `per_instance` nothing of a new instance. Instances and tasks of
    training are asked for by None: ``predict(X)`` has `product` and `per_task`, ``predict(None, tasks)`` has `product`
    and `per_instance`, ``predict(None)`` all three, and ``predict(X, tasks)`` has `product` alone.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation :math:`\lambda \ge 0`.
    product, per_task, per_instance : float, default=1.0, 0.0 and 0.0
        The shares a, b and c, at least 0 and not all of them zero. Only what they are beside each other and `alpha`
        matters.
    kernel, task_kernel : str or callable, default="linear"
        Kernel of the instances and of the tasks: a name (see `dyadlearn.kernels.kernel_names`), a
        function of two feature matrices that returns their kernel matrix, or ``"precomputed"``.
        A linear kernel on fewer features than rows is solved in the primal, but for tasks where `per_task`, and for
        instances where `per_instance` is above zero.
    kernel_params, task_kernel_params : dict, default=None
        Parameters of the kernels, such as ``{"gamma": 0.1}``.
    fit_intercept : bool, default=True
        Whether there are main effects of instances and of tasks, regularised as the interactions are, and a grand mean
        that is not regularised: see `KroneckerRidge`.
    repair : {"clip", "shift", "error"}, default="clip"
        What to do with a kernel that is asymmetric or indefinite: see `dyadlearn.kernels.repair`.
    tol, max_iter : float and int, default=1e-8 and 1000
        Where labels are missing or weighted: the relative residual at which conjugate gradients stop, and the
        iterations after which they give up with a `ConvergenceWarning`.
    device : str, default=None
        Where arrays of numpy are computed: None is here, ``"cuda"`` a GPU, by torch or, without it, cupy. Answers are
        arrays of numpy all the same. Arrays of another library are computed where they live, without it.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual parameters of the pairs, which all three share.
    coef_ : array of shape (d, r), without tasks (d, q) or (d,)
        Primal parameters; only where both sides run in the primal.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) or (m,) and (r,) or (q,)
        Grand mean and main effects of the shared function: see `intercept_`.
    completed_ : array or frame of shape (m, q) or (m,)
        Labels where they are observed, predictions elsewhere.
    n_iter_ : int
        Iterations of the solver; 1 for a closed form.
    residual_ : float
        Relative residual of the solved system; 0 for a closed form.
    scale_ : float
        The noise scale of the Gaussian process whose mean is predicted; only of complete labels without weights.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

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

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        product: float = 1.0,
        per_task: float = 0.0,
        per_instance: float = 0.0,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        task_kernel: Any = "linear",
        task_kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        repair: str = "clip",
        tol: float = 1e-8,
        max_iter: int = 1000,
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.product = product
        self.per_task = per_task
        self.per_instance = per_instance
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.tol = tol
        self.max_iter = max_iter
        self.device = device

    def _shares(self) -> tuple[float, float, float]:
        """Return the shares that the model uses, given or chosen."""
        return self.product, self.per_task, self.per_instance

    def _all_shares(self) -> list[tuple[float, float, float]]:
        """Return all shares that the sides are to serve."""
        return [self._shares()]

    def _check_params(self) -> None:
        super()._check_params()
        for shares in self._all_shares():
            check_shares(shares)

    def _spec(self) -> KernelSpec:
        return replace(super()._spec(), dual=any(shares[2] > 0 for shares in self._all_shares()))

    def _task_spec(self) -> KernelSpec:
        return replace(super()._task_spec(), dual=any(shares[1] > 0 for shares in self._all_shares()))


def check_shares(shares: tuple[float, float, float]) -> None:
    """Refuse shares that no pair kernel has."""
    for name, share in zip(("product", "per_task", "per_instance"), shares, strict=True):
        check_alpha(share, name)
    if not any(shares):
        raise ValueError(
            "product, per_task and per_instance are all zero, which leaves no kernel: give one of them a share above 0."
        )
