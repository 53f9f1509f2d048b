"""Kronecker kernel ridge regression."""

from __future__ import annotations

from typing import Any

from dyadlearn.filters import Tikhonov
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._side import Side
from dyadlearn.pairing import Independent, Kronecker, Pairing

__all__ = ["KroneckerRidge"]


class KroneckerRidge(PairwiseRidge):
    r"""Kernel ridge regression on pairs, with the product of both kernels.

    .. math:: (\mathbf{G}\otimes\mathbf{K}+\lambda\mathbf{I})\,\mathrm{vec}(\mathbf{A})
              = \mathrm{vec}(\mathbf{Y}), \qquad
              f(\mathbf{d}, \mathbf{t}) = \mathbf{k}^\top\mathbf{A}\,\mathbf{g}

    There is no intercept: centre the labels or add a constant feature.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation :math:`\lambda \ge 0`; 0 is ordinary Kronecker kernel least squares.
    kernel, task_kernel : str or callable, default="linear"
        Kernel of the instances and of the tasks: a name (see `dyadlearn.kernels.kernel_names`), a
        function of two feature matrices that returns their kernel matrix, or ``"precomputed"``.
        A linear kernel on fewer features than rows is solved in the primal.
    kernel_params, task_kernel_params : dict, default=None
        Parameters of the kernels, such as ``{"gamma": 0.1}``.
    repair : {"clip", "shift", "error"}, default="clip"
        What to do with a kernel that is asymmetric or indefinite: see `dyadlearn.kernels.repair`.
    tol, max_iter : float and int, default=1e-8 and 1000
        Where labels are missing or weighted: the relative residual at which conjugate gradients stop, and the
        iterations after which they give up with a `ConvergenceWarning`.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual parameters.
    coef_ : array of shape (d, r), without tasks (d, q) or (d,)
        Primal parameters; only where both sides run in the primal.
    completed_ : array or frame of shape (m, q) or (m,)
        Labels where they are observed, predictions elsewhere.
    n_iter_ : int
        Iterations of the solver; 1 for a closed form.
    residual_ : float
        Relative residual of the solved system; 0 for a closed form.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> model = KroneckerRidge(alpha=1.0, kernel="precomputed", task_kernel="precomputed")
    >>> model.fit(K, np.array([[1.0, 0.0], [0.0, 1.0]]), tasks=G).predict(K).round(3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """

    _coupled = Kronecker

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        task_kernel: Any = "linear",
        task_kernel_params: dict[str, Any] | None = None,
        repair: str = "clip",
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.repair = repair
        self.tol = tol
        self.max_iter = max_iter

    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Pairing:
        if task_side is None:
            return Independent(side.spectrum.smoother(Tikhonov(), alpha))
        return Kronecker(side.spectrum, task_side.spectrum, alpha)
