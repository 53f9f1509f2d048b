"""Independent-task kernel ridge regression."""

from __future__ import annotations

from typing import Any

from dyadlearn.filters import SpectralFilter
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._inputs import checked_filter
from dyadlearn.models._side import Side
from dyadlearn.pairing import Independent

__all__ = ["IndependentTaskRidge"]


class IndependentTaskRidge(PairwiseRidge):
    r"""Kernel ridge regression for every task on its own.

    .. math:: \mathbf{f}(\mathbf{d}) = \mathbf{k}^\top(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}

    There is no intercept: centre the labels or add a constant feature.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation :math:`\lambda_d \ge 0`; 0 is least squares (the pseudo-inverse).
    kernel : str or callable, default="linear"
        Name of a kernel (see `dyadlearn.kernels.kernel_names`), a function of two feature
        matrices that returns their kernel matrix, or ``"precomputed"``. A linear kernel on fewer
        features than rows is solved in the primal.
    kernel_params : dict, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    filter : SpectralFilter, default=None
        Spectral filter; None is `Tikhonov`, ridge regression itself.
    repair : {"clip", "shift", "error"}, default="clip"
        What to do with a kernel that is asymmetric or indefinite: see `dyadlearn.kernels.repair`.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual parameters.
    coef_ : array of shape (d, q) or (d,)
        Primal parameters; only in the primal.
    completed_ : array or frame of shape (m, q) or (m,)
        Labels where they are observed, predictions elsewhere.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.
    feature_names_in_ : array of shape (`n_features_in_`,)
        Column names; only where `X` was a frame whose names are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import IndependentTaskRidge
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> IndependentTaskRidge(alpha=0.0).fit(X, Y).predict([[3.0]]).round(6)
    array([[3. , 1.2]])
    """

    # Tasks may be handed in, so that all models are called alike.
    _learns_from_tasks = False
    _tasks_remedy = "use TwoStepRidge or KroneckerRidge."

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        filter: SpectralFilter | None = None,
        repair: str = "clip",
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.filter = filter
        self.repair = repair

    def _check_params(self) -> None:
        super()._check_params()
        checked_filter(self.filter, "filter")

    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Independent:
        return Independent(side.spectrum.smoother(checked_filter(self.filter, "filter"), alpha))
