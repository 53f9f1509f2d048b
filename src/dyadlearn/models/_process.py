"""What a model says as a Gaussian process: how sure it is, and how likely its labels are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, as_array_of, is_foreign, namespace, to_numpy
from dyadlearn._checks import check_alpha, check_choice, reading_numbers
from dyadlearn._tables import Table, in_order
from dyadlearn.filters import Tikhonov
from dyadlearn.kernels.gram import gram_diagonal
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._side import Side
from dyadlearn.pairing import Independent, Pairing, PairKernel
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.process import Process

__all__ = ["ProcessRidge"]


class ProcessRidge(PairwiseRidge, stored=False):
    """Base of the models whose predictions are the mean of a Gaussian process, given its labels."""

    _coupled: type[PairKernel] = PairKernel

    def predict(
        self,
        X: Any = None,
        tasks: Any = None,
        return_std: bool = False,
        *,
        diagonal: Any = None,
        task_diagonal: Any = None,
    ) -> Any:
        r"""Predict the labels of every given instance with every given task, and how sure that is.

        A deviation is that of the *latent* function, the label without its noise, under the Gaussian process whose mean
        is predicted (see `log_marginal_likelihood`): :math:`\hat\tau\sqrt{v}`, where v is the posterior variance and
        :math:`\hat\tau` is `scale_`. A label itself deviates by :math:`\hat\tau\sqrt{v + \lambda}`. Both are calibrated
        only as far as labels really are such a process; hold-out shows how far off predictions are, whatever they are.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel, default=None
            Instances, new or not: features, or their kernel with the training instances. None stands for the training
            instances.
        tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q), default=None
            Tasks, new or not: features, or their kernel with the training tasks. None stands for
            the training tasks.
        return_std : bool, default=False
            Whether to return deviations too. Labels must be complete and weigh the same.
        diagonal, task_diagonal : array or series of shape (a,) and (b,), default=None
            For deviations from a precomputed kernel: the kernel of every row of `X`, or of `tasks`, with itself.

        Returns
        -------
        predictions : array or frame of shape (a, b)
            A frame if `X` or `tasks` is one. With one-dimensional training labels and no
            `tasks`, shape (a,).
        deviations : array or frame of shape (a, b)
            Only with ``return_std=True``.

        Warns
        -----
        PrecisionWarning
            If a variance comes out negative by more than rounding: a kernel is not positive semi-definite, or
            `diagonal` is not its.
        """
        if not return_std:
            return super().predict(X, tasks)
        check_is_fitted(self)
        self = self._snapshot()
        process, predicted = self._process(), self._predicted(X, tasks)
        asked, asked_tasks, task_side = self._instance_rows(X), self._task_rows(tasks), self._task_side
        assert task_side is not None
        rows, prior = _prior(self._side, *asked, diagonal, "X", "diagonal")
        task_rows, task_prior = _prior(task_side, *asked_tasks, task_diagonal, "tasks", "task_diagonal")
        variance = process.variance(rows, task_rows, prior, task_prior)
        deviations = namespace(variance).sqrt(variance)
        deviations *= process.scale(self._problem().Y)
        deviations = namespace(variance).reshape(deviations, predicted.values.shape)
        return predicted.restore(predicted.values), predicted.restore(self._home(deviations))

    @property
    def scale_(self) -> float:
        r"""The noise scale :math:`\hat\tau` of the process, in the units of the labels.

        .. math:: \hat\tau^2 = \frac{\langle\mathbf{Y}, \mathbf{A}\rangle}{n - 1}

        with the dual parameters **A** and the number n of labels; n itself without an intercept. Labels vary around the
        latent function by :math:`\hat\tau\sqrt\lambda`.
        """
        check_is_fitted(self)
        self = self._snapshot()
        try:
            return self._process().scale(self._problem().Y)
        except ValueError as error:  # an attribute that a model does not have
            raise AttributeError(f"scale_ does not exist. {error}") from error

    def log_marginal_likelihood(
        self, *, method: str = "restricted", scale: float | None = None, eval_gradient: bool = False
    ) -> Any:
        r"""Return how likely the training labels are under the Gaussian process of the model.

        .. math:: \mathrm{vec}(\mathbf{Y}) \sim
                  \mathcal{N}\bigl(\mu\mathbf{1},\; \tau^2(\mathbf{P} + \lambda\mathbf{I})\bigr),

        where **P** is the kernel between all pairs. Without an intercept μ is zero, and both methods are the same.

        Parameters
        ----------
        method : {"restricted", "profile"}, default="restricted"
            What is done with a free mean: it is integrated out with a flat prior, or set to its most likely value.
            Restricted likelihoods of models with and without an intercept do not compare.
        scale : float, default=None
            The noise scale τ, in the units of the labels. None is the most likely one, which is `scale_` where the mean
            is integrated out.
        eval_gradient : bool, default=False
            Whether to return the gradient too.

        Returns
        -------
        value : float
        gradient : dict
            Only with ``eval_gradient=True``: derivatives with respect to the logarithms of ``alpha``, of the shares
            ``product``, ``per_task`` and ``per_instance`` of the kernels (zero for one that is zero), and of ``scale``
            where it is given. That of a factor of all kernels is the sum of those of the shares.

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
            raise ValueError("scale must be above 0, found 0: no label varies then.")
        self = self._snapshot()
        restricted, labels = method == "restricted", self._problem().Y
        value, gradient = self._process().log_likelihood(labels, restricted=restricted, scale=scale)
        return (value, gradient) if eval_gradient else value

    def _pairing(self, side: Side, task_side: Side | None, alpha: float) -> Pairing:
        if task_side is None:
            return Independent(side.spectrum.smoother(Tikhonov(), alpha))
        return self._coupled(side.spectrum, task_side.spectrum, alpha, self._shares(), side.spec.constant is not None)

    def _shares(self) -> tuple[float, float, float]:
        """Return the shares of the product kernel, of the functions of each task and of those of each instance."""
        return 1.0, 0.0, 0.0

    def _process(self) -> Process:
        """Return the process, where there is one."""
        problem, name = self._problem(), type(self).__name__
        process = problem.pairing.process
        if process is None:
            remedy = "judge its predictions by holdout" if problem.pairing.knows_tasks else "fit it with tasks="
            raise ValueError(f"{name} is {problem.pairing.words} here, and has no deviations or likelihood: {remedy}.")
        if not problem.is_complete:
            raise ValueError(
                f"Deviations and likelihoods of {name} are those of complete labels that weigh the same, and some of "
                "these are missing or weighted: fit the rows and columns that are complete, or judge predictions by "
                "holdout."
            )
        return process


def _prior(
    side: Side, table: Table | None, rows: NewRows | None, given: Any, owner: str, name: str
) -> tuple[NewRows | None, Array | None]:
    """Return rows, with their kernel with themselves of what was decomposed; None where nobody asks for it."""
    needs = rows is not None and side.spec.is_precomputed
    if given is not None and not needs:
        raise ValueError(
            f"{name} goes with rows of {owner} from a precomputed kernel; here it is known already: leave it out."
        )
    if rows is None or side.is_primal:
        return rows, None
    if given is None and needs:
        raise ValueError(
            f"return_std needs the kernel of every row of {owner} with itself, and a precomputed kernel tells that of "
            f"{owner} with training only: give {name}=, {rows.size} numbers."
        )
    if needs:
        given = in_order(given, None if table is None else table.row_ids, None, name, owner)
        prior = _checked_diagonal(given, rows.size, side.spectrum.values, owner, name)
    else:
        prior = gram_diagonal(rows.values, kernel=side.spec.kernel, params=side.spec.params)
    return rows, prior + 1.0 if side.spec.constant else prior


def _checked_diagonal(given: Any, size: int, like: Array, owner: str, name: str) -> Array:
    """Return variances that a user gave as an array in the library and precision of the model."""
    with reading_numbers(given, name):
        values = np.asarray(to_numpy(given) if is_foreign(given) else given, dtype=np.float64)
    if values.shape not in ((size,), (size, 1)):
        raise ValueError(f"{name} must hold a number for each of {size} rows of {owner}, found shape {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"{name} must hold finite numbers of at least 0, found NaN, infinity or less.")
    return as_array_of(values.reshape(-1), like, like.dtype)
