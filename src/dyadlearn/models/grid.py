"""The models of a grid: ridge regression for each task on its own, in two steps, and on pairs."""

from __future__ import annotations

from typing import Any, Self

from dyadlearn.filters import SpectralFilter
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._inputs import checked_filter
from dyadlearn.models._process import ProcessRidge
from dyadlearn.models._side import Side
from dyadlearn.pairing import Independent, Kronecker, Network, Pairing, TwoStep

__all__ = ["IndependentTaskRidge", "KroneckerRidge", "TwoStepRidge"]


class IndependentTaskRidge(PairwiseRidge):
    r"""Kernel ridge regression for every task on its own.

    .. math:: \mathbf{f}(\mathbf{d}) = \mathbf{k}^\top(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}

    With an intercept, which is the default, kernel and labels are those of the task without their means.

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
    fit_intercept : bool, default=True
        Whether every task has a constant of its own, which is not regularised. False is the model of the paper, for
        labels whose zero means something. A task without any label has no constant: its predictions are NaN, and
        labels that nothing is predicted for once they are left out are not scored; `NoLabelWarning` says which.
    repair : {"clip", "shift", "error"}, default="clip"
        What to do with a kernel that is asymmetric or indefinite: see `dyadlearn.kernels.repair`.
    device : str, default=None
        Where arrays of numpy are computed: None is here, ``"cuda"`` a GPU, by torch or, without it, cupy. Answers are
        arrays of numpy all the same. Arrays of another library are computed where they live, without it.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual parameters.
    coef_ : array of shape (d, q) or (d,)
        Primal parameters; only in the primal.
    intercept_ : array of shape (q,) or float
        What is added to features times `coef_`, or kernel values times `dual_coef_`.
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
    array([[3., 2.]])
    >>> IndependentTaskRidge(alpha=0.0, fit_intercept=False).fit(X, Y).predict([[3.0]]).round(6)
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
        fit_intercept: bool = True,
        repair: str = "clip",
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.filter = filter
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.device = device

    def _check_params(self) -> None:
        super()._check_params()
        checked_filter(self.filter, "filter")

    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Independent:
        return Independent(side.spectrum.smoother(checked_filter(self.filter, "filter"), alpha))


class TwoStepRidge(PairwiseRidge):
    r"""Two kernel ridge regressions in a row, over instances and over tasks.

    .. math:: f(\mathbf{d}, \mathbf{t}) = \mathbf{k}^\top(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\,
              \mathbf{Y}\,(\mathbf{G}+\lambda_t\mathbf{I})^{-1}\mathbf{g}

    With an intercept, which is the default, each side has a constant: the kernels are centred, and predictions are

    .. math:: \mu + \mathbf{k}_c^\top\mathbf{a} + \mathbf{b}^\top\mathbf{g}_c
              + \mathbf{k}_c^\top\mathbf{A}\,\mathbf{g}_c

    Parameters
    ----------
    alpha, task_alpha : float, default=1.0
        Regularisation :math:`\lambda_d, \lambda_t \ge 0` of the instances and of the tasks. With
        ``task_alpha=0`` a full-rank task kernel gives independent-task ridge, a singular one projects
        the labels on its range.
    kernel, task_kernel : str or callable, default="linear"
        Kernel of the instances and of the tasks: a name (see `dyadlearn.kernels.kernel_names`), a
        function of two feature matrices that returns their kernel matrix, or ``"precomputed"``.
        A linear kernel on fewer features than rows is solved in the primal.
    kernel_params, task_kernel_params : dict, default=None
        Parameters of the kernels, such as ``{"gamma": 0.1}``.
    filter, task_filter : SpectralFilter, default=None
        Spectral filter of each side; None is `Tikhonov`, ridge regression itself.
    fit_intercept : bool, default=True
        Whether each side has a constant that is not regularised: a free grand mean, main effects of instances
        regularised by ``alpha`` alone and of tasks by ``task_alpha`` alone, interactions by both. False is the model
        of the paper, for labels whose zero means something.
    repair : {"clip", "shift", "error"}, default="clip"
        What to do with a kernel that is asymmetric or indefinite: see `dyadlearn.kernels.repair`.
    tol, max_iter : float and int, default=1e-8 and 1000
        Where labels are missing or weighted: the relative residual at which conjugate gradients stop, and the
        iterations after which they give up with a `ConvergenceWarning`.
    symmetry : {"symmetric", "antisymmetric"}, default=None
        For a network, whose nodes are instances and tasks at once: Y is square and equal to its
        transpose, or to minus its transpose. `X` describes the nodes, `tasks` is not given, and there is
        one kernel, one filter and one regularisation (``task_alpha`` equal to ``alpha``). Hold-out then
        takes edges and vertices out of both sides.
    device : str, default=None
        Where arrays of numpy are computed: None is here, ``"cuda"`` a GPU, by torch or, without it, cupy. Answers are
        arrays of numpy all the same. Arrays of another library are computed where they live, without it.

    Attributes
    ----------
    dual_coef_ : array of shape (m, q) or (m,)
        Dual parameters.
    coef_ : array of shape (d, r), without tasks (d, q) or (d,)
        Primal parameters; only where both sides run in the primal.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) or (m,) and (r,) or (q,)
        Grand mean and main effects, for features or kernel values as they come: see `intercept_`.
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
    >>> from dyadlearn import TwoStepRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    >>> model = TwoStepRidge(alpha=1.0, task_alpha=1.0, **kernels).fit(K, np.array([[101.0, 100], [100, 101]]), tasks=G)
    >>> model.predict([[0.0, 1.0]], tasks=[[0.0, 1.0]])
    array([[100.625]])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        task_alpha: float = 1.0,
        *,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        task_kernel: Any = "linear",
        task_kernel_params: dict[str, Any] | None = None,
        filter: SpectralFilter | None = None,
        task_filter: SpectralFilter | None = None,
        fit_intercept: bool = True,
        repair: str = "clip",
        tol: float = 1e-8,
        max_iter: int = 1000,
        symmetry: str | None = None,
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.task_alpha = task_alpha
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.filter = filter
        self.task_filter = task_filter
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.tol = tol
        self.max_iter = max_iter
        self.symmetry = symmetry
        self.device = device

    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> Self:
        """Change the regularisation of a fitted model without a new decomposition; a network has one.

        Parameters
        ----------
        alpha, task_alpha : float, default=None
            New values; None leaves one as it is.

        Returns
        -------
        self
        """
        if self.symmetry is not None:
            alpha = task_alpha = self._one_alpha(alpha, task_alpha)
        return super().set_alpha(alpha, task_alpha)

    def _check_params(self) -> None:
        super()._check_params()
        checked_filter(self.filter, "filter")
        checked_filter(self.task_filter, "task_filter")

    def _check_alphas(self) -> None:
        super()._check_alphas()
        if self.symmetry is not None:
            self._one_alpha(self.alpha, self.task_alpha)

    def _one_alpha(self, alpha: float | None, task_alpha: float | None) -> float | None:
        if alpha is not None and task_alpha is not None and alpha != task_alpha:
            raise ValueError(
                f"A network has one regularisation for both sides: set task_alpha equal to alpha, found {task_alpha} "
                f"and {alpha}."
            )
        return task_alpha if alpha is None else alpha

    def _pairing(self, side: Side, task_side: Side | None, alpha: float, task_alpha: float | None = None) -> Pairing:
        rows = side.spectrum.smoother(checked_filter(self.filter, "filter"), alpha)
        if task_side is None:
            return Independent(rows)
        if self.symmetry is not None:
            return Network.of(rows, self._sign)
        assert task_alpha is not None
        return TwoStep(rows, task_side.spectrum.smoother(checked_filter(self.task_filter, "task_filter"), task_alpha))


class KroneckerRidge(ProcessRidge):
    r"""Kernel ridge regression on pairs, with the product of both kernels.

    .. math:: (\mathbf{G}\otimes\mathbf{K}+\lambda\mathbf{I})\,\mathrm{vec}(\mathbf{A})
              = \mathrm{vec}(\mathbf{Y}), \qquad
              f(\mathbf{d}, \mathbf{t}) = \mathbf{k}^\top\mathbf{A}\,\mathbf{g}

    With an intercept, which is the default, each side has a constant feature, whose products with the other side's
    kernel are main effects, and the grand mean is not regularised at all: the kernels are :math:`\mathbf{K} +
    \mathbf{11}^\top` and :math:`\mathbf{G} + \mathbf{11}^\top`, and :math:`f` has a free :math:`\mu` beside it.

    A network, whose nodes are instances and tasks at once, is for `TwoStepRidge` with ``symmetry=``.

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
    fit_intercept : bool, default=True
        Whether there are main effects of instances and of tasks, regularised as the interactions are, and a grand mean
        that is not regularised. False is the model of the paper, for labels whose zero means something.
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
        Dual parameters.
    coef_ : array of shape (d, r), without tasks (d, q) or (d,)
        Primal parameters; only where both sides run in the primal.
    intercept_, instance_coef_, task_coef_ : float and arrays of shape (d,) or (m,) and (r,) or (q,)
        Grand mean and main effects, for features or kernel values as they come: see `intercept_`.
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
    >>> from dyadlearn import KroneckerRidge
    >>> K, G = np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)
    >>> model = KroneckerRidge(alpha=1.0, kernel="precomputed", task_kernel="precomputed", fit_intercept=False)
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
        fit_intercept: bool = True,
        repair: str = "clip",
        tol: float = 1e-8,
        max_iter: int = 1000,
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
