"""Kernel ridge models of a grid of labels: independent tasks, two-step, Kronecker and pair kernels.

Kronecker and pair-kernel models are also Gaussian processes, with posterior deviations and a
marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn._checks import check_alpha, check_alphas, check_choice
from dyadlearn._documenting import documented
from dyadlearn._messages import Message
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.models.base import Constants, PairwiseRidge
from dyadlearn.models.reading import checked_filter
from dyadlearn.models.side import KernelSpec, Side
from dyadlearn.pairing import Independent, Kronecker, Network, Pairing, PairKernel, TwoStep
from dyadlearn.pairing.cells_process import inverse_bytes, process_of
from dyadlearn.pairing.process import GaussianProcess
from dyadlearn.pairing.remembering import last_inverse


@dataclass(eq=False, repr=False, kw_only=True)
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

    kernel: Any = "linear"
    kernel_params: dict[str, Any] | None = None
    fit_intercept: bool = True
    repair: str = "clip"
    device: str | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class TaskKernelParameters(KernelParameters):
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

    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    tol: float = 1e-8
    max_iter: int = 1000


class KnownRows(PairwiseRidge, stored=False):
    """Base class of models in which training rows may have individual effects, besides their features.

    Parameters
    ----------
    identity : float or (float, float), default=0.0
        Shares δ and ε of the identity in the kernels: K + δI of the training instances and G + εI
        of the training tasks; one number is for both. A known row then has an individual effect:
        two rows with equal features and different labels have different predictions. A new row has
        none, so δ acts as a larger ridge for new instances, and ε for new tasks. `predict` treats
        all rows as new; pass None for the training rows.
    """

    identity: Any = 0.0

    def _shares(self) -> tuple[float, float, float]:
        """Return the shares `product`, `per_task` and `per_instance` of the pair kernel."""
        if np.ndim(self.identity) == 0:
            pair = (self.identity, self.identity)
        else:
            pair = tuple(self.identity)
        if len(pair) != 2:
            raise ValueError(
                f"identity must be one number, or two for instances and tasks, found "
                f"{self.identity!r}."
            )
        per_instance, per_task = (check_alpha(share, "identity") for share in pair)
        return 1.0, per_task, per_instance

    def _all_shares(self) -> list[tuple[float, float, float]]:
        """Return all shares for which the decomposed sides are used."""
        return [self._shares()]

    def _check_params(self) -> None:
        super()._check_params()
        self._all_shares()

    def _spec(self) -> KernelSpec:
        return replace(super()._spec(), dual=any(shares[2] > 0 for shares in self._all_shares()))

    def _task_spec(self) -> KernelSpec:
        return replace(
            super()._task_spec(), dual=any(shares[1] > 0 for shares in self._all_shares())
        )


class MainEffects(PairwiseRidge, stored=False):
    """Base class of models of products of kernels, whose main effects have a weight.

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

    constants: Any = 1.0

    def _all_constants(self) -> list[Constants]:
        return [check_constants(self.constants)]

    def _check_params(self) -> None:
        super()._check_params()
        is_default = set(self._all_constants()) == {(1.0, 1.0)}
        if not (self.fit_intercept or is_default):
            raise ValueError(
                Message(
                    "<constants={constants!r}> are weights of main effects, which "
                    "<fit_intercept=False> leaves out: set <fit_intercept=True>, or leave "
                    "<constants> out.",
                    constants=self.constants,
                )
            )

    # Ones are no combination of a few features, and the mean needs them.

    def _spec(self) -> KernelSpec:
        spec = super()._spec()
        return replace(
            spec, dual=spec.dual or any(level == 0 for level, _ in self._all_constants())
        )

    def _task_spec(self) -> KernelSpec:
        spec = super()._task_spec()
        return replace(
            spec, dual=spec.dual or any(level == 0 for _, level in self._all_constants())
        )


def check_constants(constants: Any, where: str = "constants") -> Constants:
    """Return one constant for both kernels, or one for each, as a pair; raise if one is negative or no number.

    `where` names the parameter, or an entry of it, in messages.
    """
    if not isinstance(constants, list | tuple) and getattr(constants, "ndim", 0) == 0:
        level = check_alpha(constants, where)
        return level, level
    if len(constants) != 2:
        raise ValueError(
            f"{where} must be one number, or two for instances and tasks, found {constants!r}."
        )
    first, second = (check_alpha(level, where) for level in constants)
    return first, second


class ProcessRidge(PairwiseRidge, stored=False):
    """Base class of models whose predictions are the posterior mean of a Gaussian process.

    Attributes
    ----------
    scale_ : float
        Scale of the Gaussian process in the units of the labels; the standard deviation of the
        noise of a label of weight w is ``scale_ * sqrt(alpha / w)``.
    """

    _coupled: type[PairKernel] = PairKernel

    def predict(
        self,
        X: Any = None,
        tasks: Any = None,
        return_std: bool = False,
        *,
        labels: Any = None,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> Any:
        r"""Predict the labels of every given instance with every given task, optionally with standard deviations.

        The deviation is the posterior standard deviation of the *latent* function, that is, of the
        label without its noise (see `log_marginal_likelihood`). It is :math:`\hat\tau\sqrt{v}`,
        where v is the posterior variance and
        :math:`\hat\tau` is `scale_`. The deviation of a label of weight w is :math:`\hat\tau\sqrt{v + \lambda/w}`.
        Both are calibrated only if the labels follow this Gaussian process. Hold-out errors do not
        need that assumption. Deviations for missing or weighted labels take the memory and time of
        a dense inverse over the n observed labels.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances: features, or their kernel with the training instances. None means the
            training instances. With `identity` or `per_instance`, only None includes the individual
            effects of instances.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks: features, or their kernel with the training tasks. None means the training tasks.
            With `identity` or `per_task`, only None includes the individual effects of tasks.
        return_std : bool, default=False
            Whether to return deviations too.
        labels : array or frame of shape (a, b), default=None
            Known labels of new instances with training tasks, or of training instances with new
            tasks; NaN means not known. See `TwoStepRidge.predict`.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            Kernel of every row of `X`, or of `tasks`, with itself; required for deviations and for
            `labels` with a precomputed kernel whose training diagonal is not constant.

        Returns
        -------
        predictions : array or frame of shape (a, b)
            A frame if `X` or `tasks` is a frame. The shape is (a,) if the training labels were
            one-dimensional and `tasks` is None.
        deviations : array or frame of shape (a, b)
            Only with ``return_std=True``.

        Warns
        -----
        PrecisionWarning
            If a variance is negative by more than rounding errors: a kernel is not positive
            semi-definite, or `diagonal` belongs to another kernel. Also if `alpha` is so small that
            rounding changes deviations for missing or weighted labels.

        Raises
        ------
        NotEnoughMemoryError
            If some labels are missing or weighted, and a matrix of n × n observed labels does not
            fit into memory.
        """
        if not return_std:
            return super().predict(
                X, tasks, labels=labels, diagonal=diagonal, task_diagonal=task_diagonal
            )
        if labels is not None:
            raise ValueError(
                "return_std gives deviations without labels of new rows: leave return_std or "
                "labels out."
            )
        self = self._snapshot()
        process, values = self._process()
        form, (rows, task_rows) = self._asked(X, tasks)
        variance = process.variance(
            rows, task_rows, *self._priors(form, (rows, task_rows), diagonal, task_diagonal)
        )
        deviations = namespace(variance).sqrt(variance)
        deviations *= process.scale(values)
        predictions = self._expansion().grid(rows, task_rows)
        return form.restore(self._home(predictions)), form.restore(self._home(deviations))

    @property
    def scale_(self) -> float:
        r"""Scale :math:`\hat\tau` of the Gaussian process, in the units of the labels.

        .. math:: \hat\tau^2 = \frac{\langle\mathbf{Y}, \mathbf{A}\rangle}{n - 1}

        **A** are the dual coefficients and n is the number of observed labels; without an intercept
        the denominator is n. The standard deviation of the noise of a label of weight w is
        :math:`\hat\tau\sqrt{\lambda/w}`.
        """
        self = self._snapshot()
        try:
            process, values = self._process()
            return process.scale(values)
        except ValueError as error:  # hasattr expects AttributeError
            raise AttributeError(f"scale_ does not exist. {error}") from error

    def log_marginal_likelihood(
        self, *, method: str = "restricted", scale: float | None = None, eval_gradient: bool = False
    ) -> Any:
        r"""Return the log marginal likelihood of the training labels under the Gaussian process of the model.

        .. math:: \mathrm{vec}(\mathbf{Y}) \sim
                  \mathcal{N}\bigl(\mu\mathbf{1},\; \tau^2(\mathbf{P} + \lambda\mathbf{I})\bigr),

        where **P** is the kernel between all pairs. If labels are missing, **Y** and **P** are
        those of the n observed pairs. The noise of a label of weight w is :math:`\lambda/w` instead
        of λ. Without an intercept, μ is zero and both methods give the same value. The likelihood
        of missing or weighted labels takes the memory and time of a dense inverse over the n
        labels.

        Parameters
        ----------
        method : {"restricted", "profile"}, default="restricted"
            Treatment of the free mean μ: integrate it out with a flat prior, or set it to its most
            likely value. Restricted likelihoods of a model with an intercept and of one without
            cannot be compared.
        scale : float, default=None
            Scale τ, in the units of the labels. None means its most likely value, which equals
            `scale_` if the mean is integrated out.
        eval_gradient : bool, default=False
            Whether to return the gradient too.

        Returns
        -------
        value : float
        gradient : dict
            Only with ``eval_gradient=True``: derivatives with respect to the logarithms of
            ``alpha``, of the shares
            ``product``, ``per_task`` and ``per_instance`` (the derivative of a zero share is zero), and of ``scale`` if
            it is given. The derivative with respect to a common factor of all kernels is the sum of
            the derivatives of the shares.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn import KroneckerRidge
        >>> rng = np.random.default_rng(0)
        >>> X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
        >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(20, 15))
        >>> model = KroneckerRidge().fit(X, Y, tasks=T)
        >>> likely = [model.set_alpha(alpha).log_marginal_likelihood() for alpha in (1e-3, 1.0, 1e3)]
        >>> int(np.argmax(likely))
        1
        """
        check_choice(method, "method", ("restricted", "profile"))
        if scale is not None and check_alpha(scale, "scale") == 0:
            raise ValueError("scale must be above 0, found 0: give a positive number, or None.")
        self = self._snapshot()
        process, values = self._process()
        value, gradient = process.log_likelihood(
            values, restricted=method == "restricted", scale=scale
        )
        return (value, gradient) if eval_gradient else value

    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Pairing:
        if task_side is None:
            return Independent.of(side.spectrum, Tikhonov(), alpha)
        return self._coupled(
            side.spectrum, task_side.spectrum, alpha, self._shares(), side.spec.constant is not None
        )

    def _shares(self) -> tuple[float, float, float]:
        """Return the shares `product`, `per_task` and `per_instance` of the pair kernel."""
        return 1.0, 0.0, 0.0

    def _process(self) -> tuple[GaussianProcess, Array]:
        """Return the Gaussian process and the labels as it takes them; raise if the model has none."""
        problem = self._problem()
        name = type(self).__name__
        if self.describes_by_labels or not isinstance(problem.pairing, PairKernel):
            if problem.pairing.knows_tasks:
                remedy = Message("assess its predictions by [holdout|evaluate]")
            else:
                remedy = Message("fit it with <tasks=>")
            if self.describes_by_labels:
                reason = "with profiles of labels"
            else:
                reason = f"as {problem.pairing.words}"
            raise ValueError(
                Message(
                    "{name} {reason} has no deviations and no likelihood: {remedy}.",
                    name=name,
                    reason=reason,
                    remedy=remedy,
                )
            )
        labels = problem.labels
        if labels.is_full:
            return process_of(problem.pairing, labels)
        known = last_inverse.known(problem, "process")
        if known is not None:
            process, values = known[1]
            process.check_precision()
            return process, values
        compute = partial(process_of, problem.pairing, labels)
        return last_inverse.of(problem, "process", compute, inverse_bytes(labels), labels.values)  # type: ignore[no-any-return]


@documented
@dataclass(eq=False, repr=False)
class IndependentTaskRidge(KernelParameters, PairwiseRidge):
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
    _coupled = Independent
    _tasks_remedy = "use TwoStepRidge or KroneckerRidge."

    alpha: Any = 1.0
    filter: SpectralFilter | None = field(default=None, kw_only=True)

    def _checked_alpha(self, value: Any, name: str) -> Any:
        if np.ndim(value) == 0:
            return super()._checked_alpha(value, name)
        return np.asarray(check_alphas(value, name))

    def _pairing(self, side: Side, task_side: Side | None, alpha: Any) -> Independent:
        alpha = self._checked_alpha(alpha, "alpha")
        n_tasks = self._labels.shape[1]
        if np.shape(alpha) not in ((), (n_tasks,)):
            raise ValueError(
                f"alpha has {len(alpha)} values, but Y has {n_tasks} tasks: give one, or one per "
                f"task."
            )
        return Independent.of(side.spectrum, checked_filter(self.filter, "filter"), alpha)


@documented
@dataclass(eq=False, repr=False)
class TwoStepRidge(TaskKernelParameters, KnownRows):
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
    filter: SpectralFilter | None = field(default=None, kw_only=True)
    task_filter: SpectralFilter | None = field(default=None, kw_only=True)
    identity: Any = field(default=0.0, kw_only=True)
    symmetry: str | None = field(default=None, kw_only=True)

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
            alpha = task_alpha = self._one_alpha(alpha, task_alpha)
        return super().set_alpha(alpha, task_alpha)

    def _check_alphas(self) -> None:
        super()._check_alphas()
        if self.symmetry is not None:
            self._one_alpha(self.alpha, self.task_alpha)
            _, per_task, per_instance = self._shares()
            if per_task != per_instance:
                raise ValueError(
                    f"A network has one kernel: give one number as identity, found "
                    f"{self.identity!r}."
                )

    def _one_alpha(self, alpha: float | None, task_alpha: float | None) -> float | None:
        if alpha is not None and task_alpha is not None and alpha != task_alpha:
            raise ValueError(
                Message(
                    "A network has one regularisation for both sides: set "
                    "<task_alpha={task_alpha!r}> equal to <alpha={alpha!r}>.",
                    task_alpha=task_alpha,
                    alpha=alpha,
                )
            )
        return task_alpha if alpha is None else alpha

    def _pairing(
        self, side: Side, task_side: Side | None, alpha: float, task_alpha: float | None = None
    ) -> Pairing:
        _, per_task, per_instance = self._shares()
        rows = side.spectrum.with_identity(per_instance).smoother(
            checked_filter(self.filter, "filter"), alpha
        )
        if task_side is None:
            return Independent(rows)
        if self.symmetry is not None:
            return Network.of(rows, self._sign)
        assert task_alpha is not None
        columns = task_side.spectrum.with_identity(per_task)
        return TwoStep(
            rows, columns.smoother(checked_filter(self.task_filter, "task_filter"), task_alpha)
        )


@documented
@dataclass(eq=False, repr=False)
class KroneckerRidge(TaskKernelParameters, MainEffects, KnownRows, ProcessRidge):
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
    identity: Any = field(default=0.0, kw_only=True)
    constants: Any = field(default=1.0, kw_only=True)

    @property
    def _coupled(self) -> type[PairKernel]:  # type: ignore[override]
        return PairKernel if any(self._shares()[1:]) else Kronecker


@documented
@dataclass(eq=False, repr=False)
class PairKernelRidge(TaskKernelParameters, MainEffects, KnownRows, ProcessRidge):
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
    product: float = field(default=1.0, kw_only=True)
    per_task: float = field(default=0.0, kw_only=True)
    per_instance: float = field(default=0.0, kw_only=True)
    constants: Any = field(default=1.0, kw_only=True)

    def _shares(self) -> tuple[float, float, float]:
        """Return the shares of the model, set by the user or chosen by a search."""
        return check_shares((self.product, self.per_task, self.per_instance))


def check_shares(shares: Any) -> tuple[float, float, float]:
    """Return three shares as floats; raise if one is negative or all are zero."""
    if np.shape(shares) != (3,):
        raise ValueError(
            f"shares must be triples (product, per_task, per_instance), found {shares!r}."
        )
    a, b, c = map(check_alpha, shares, ("product", "per_task", "per_instance"))
    if not any((a, b, c)):
        raise ValueError(
            "product, per_task and per_instance are all zero, which leaves no kernel: set one "
            "above 0."
        )
    return a, b, c
