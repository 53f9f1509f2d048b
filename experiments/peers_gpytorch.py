"""What is equal to Gaussian processes of GPyTorch, for `peers.py`: kernels and noise are given, nothing is trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpytorch as gp
import numpy as np
import torch
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.means import ConstantMean, MultitaskMean, ZeroMean
from peers_problem import ALPHA, GAMMA, RBF, Problem, Row, compare

from dyadlearn import IndependentTaskRidge, KroneckerRidge

TASK_RBF: dict[str, Any] = {"task_kernel": "rbf", "task_kernel_params": {"gamma": GAMMA}}


def processes(on: Problem) -> Iterator[Row]:
    """Exact processes of all tasks at once, of the pairs that are observed, and of each task on its own."""
    yield from _multitask(on)
    yield from _pairs(on)
    q = on.Y.shape[1]
    batch = torch.Size([q])
    ours = IndependentTaskRidge(ALPHA, **RBF, fit_intercept=False).fit(on.X, on.Y)
    model = Process(
        _tensor(on.X),
        _tensor(on.Y),
        _noise(q),
        ZeroMean(batch_shape=batch),
        _rbf(batch_shape=batch),
    )
    theirs = model.answers(_tensor(on.X_new))[0]
    yield compare(
        "a batch of independent processes", "`IndependentTaskRidge`", theirs, ours.predict(on.X_new)
    )


class Process(gp.models.ExactGP):
    """A mean and a kernel, of one task or of a batch of them."""

    def __init__(
        self, inputs: Any, labels: torch.Tensor, likelihood: Any, mean: Any, kernel: Any
    ) -> None:
        super().__init__(inputs, labels, likelihood)
        self.mean = mean
        self.kernel = kernel

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the distribution before any label."""
        prior = MultivariateNormal(self.mean(inputs[0]), self.kernel(*inputs))
        if prior.batch_shape:
            return MultitaskMultivariateNormal.from_batch_mvn(prior)
        return prior

    def answers(self, *new: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return means, variances of the latent function and variances of labels."""
        self.eval()
        with torch.no_grad():
            posterior = self(*new)
            return (
                posterior.mean.numpy(),
                posterior.variance.numpy(),
                self.likelihood(posterior, *new).variance.numpy(),
            )


class KroneckerProcess(Process):
    """All tasks at once, by a kernel of inputs and one of tasks."""

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the distribution before any label."""
        return MultitaskMultivariateNormal(self.mean(*inputs), self.kernel(*inputs))

    def log_likelihood(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the marginal log likelihood of all labels; the library divides by their number."""
        self.train()
        return (
            gp.mlls.ExactMarginalLogLikelihood(self.likelihood, self)(self(inputs), labels)
            * labels.numel()
        )


class Hadamard(torch.nn.Module):
    """The kernel of single pairs: that of the inputs times that of the tasks."""

    def __init__(self, rows: Any, columns: Any) -> None:
        super().__init__()
        self.rows = rows
        self.columns = columns

    def forward(self, x: torch.Tensor, task: torch.Tensor) -> Any:
        """Return the kernel between pairs."""
        return self.rows(x).mul(self.columns(task))


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _rbf(**params: Any) -> Any:
    kernel = gp.kernels.RBFKernel(**params).double()
    kernel.lengthscale = 1 / np.sqrt(2 * GAMMA)
    return kernel


def _noise(q: int, variance: float = ALPHA) -> Any:
    likelihood = gp.likelihoods.MultitaskGaussianLikelihood(
        num_tasks=q, has_task_noise=False
    ).double()
    likelihood.noise = variance
    return likelihood


def _factors(kernel: Any, q: int, *more: np.ndarray) -> np.ndarray:
    """Give a kernel of tasks its factors and variances, and return its matrix."""
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(q, 2))
    variances = rng.uniform(0.5, 1.5, size=q)
    factor = np.hstack([factor, *more])
    kernel.initialize(covar_factor=_tensor(factor))
    kernel.var = _tensor(variances)
    return factor @ factor.T + np.diag(variances)


def _multitask(on: Problem) -> Iterator[Row]:
    """Complete labels: means, variances and likelihoods, without constants and with ours."""
    q = on.Y.shape[1]
    X = _tensor(on.X)
    Y = _tensor(on.Y)
    X_new = _tensor(on.X_new)
    kernel = gp.kernels.MultitaskKernel(_rbf(), num_tasks=q, rank=2).double()
    B = _factors(kernel.task_covar_module, q)
    model = KroneckerProcess(X, Y, _noise(q), MultitaskMean(ZeroMean(), num_tasks=q), kernel)
    ours = KroneckerRidge(ALPHA, **RBF, task_kernel="precomputed", fit_intercept=False).fit(
        on.X, on.Y, tasks=B
    )
    mean, latent, label = model.answers(X_new)
    actual, deviation = ours.predict(on.X_new, return_std=True)
    variance = (deviation / ours.scale_) ** 2
    yield compare(
        "`MultitaskKernel`: `model(x).mean`", "`KroneckerRidge(noise).predict(x)`", mean, actual
    )
    yield compare("`model(x).variance`", "`(deviation / scale_)**2`", latent, variance)
    yield compare(
        "`likelihood(model(x)).variance`",
        "`(deviation / scale_)**2 + alpha`",
        label,
        variance + ALPHA,
    )
    value = model.log_likelihood(X, Y)
    likely, gradient = ours.log_marginal_likelihood(scale=1.0, eval_gradient=True)
    yield compare(
        "`ExactMarginalLogLikelihood` × labels",
        "`log_marginal_likelihood(scale=1)`",
        value.item(),
        likely,
    )
    value.backward()
    raw = model.likelihood.raw_noise
    slope = (
        ALPHA * raw.grad / torch.sigmoid(raw.detach())
    )  # the noise is softplus(raw) and a constant
    yield compare(
        "its derivative by log noise",
        '`eval_gradient=True`, `["alpha"]`',
        slope.item(),
        gradient["alpha"],
    )

    scaled = gp.kernels.ScaleKernel(_rbf()).double()
    scaled.outputscale = 4.0
    kernel = gp.kernels.MultitaskKernel(scaled, num_tasks=q, rank=2).double()
    _factors(kernel.task_covar_module, q)
    model = KroneckerProcess(
        X, Y, _noise(q, 4 * ALPHA), MultitaskMean(ZeroMean(), num_tasks=q), kernel
    )
    yield compare(
        "`ScaleKernel`: `model(x).mean`",
        "`KroneckerRidge(noise / outputscale)`",
        model.answers(X_new)[0],
        actual,
    )
    likely = ours.log_marginal_likelihood(scale=2.0)
    yield compare(
        "its likelihood", "`scale=sqrt(outputscale)`", model.log_likelihood(X, Y).item(), likely
    )

    # Our default: a constant beside each kernel, and a mean that is not regularised.
    constant = gp.kernels.ConstantKernel().double()
    constant.constant = _tensor(np.ones(1))
    kernel = gp.kernels.MultitaskKernel(_rbf() + constant, num_tasks=q, rank=3).double()
    _factors(kernel.task_covar_module, q, np.ones((q, 1)))
    ours = KroneckerRidge(ALPHA, **RBF, task_kernel="precomputed").fit(on.X, on.Y, tasks=B)
    mean = ConstantMean().double()
    mean.initialize(constant=_tensor(ours.intercept_))
    model = KroneckerProcess(X, Y, _noise(q), MultitaskMean(mean, num_tasks=q), kernel)
    theirs = model.answers(X_new)[0]
    yield compare(
        "1 added to both kernels, the most likely `ConstantMean`",
        "the default",
        theirs,
        ours.predict(on.X_new),
    )
    likely = ours.log_marginal_likelihood(method="profile", scale=1.0)
    yield compare("its likelihood", '`method="profile"`', model.log_likelihood(X, Y).item(), likely)

    # Noise of each task, beside that of all: a label weighs by how much less noise it has than
    # alpha.
    likelihood = gp.likelihoods.MultitaskGaussianLikelihood(num_tasks=q).double()
    own_noise = np.linspace(0.2, 2, q)
    likelihood.noise, likelihood.task_noises = ALPHA, _tensor(own_noise)
    kernel = gp.kernels.MultitaskKernel(_rbf(), num_tasks=q, rank=2).double()
    B = _factors(kernel.task_covar_module, q)
    model = KroneckerProcess(X, Y, likelihood, MultitaskMean(ZeroMean(), num_tasks=q), kernel)
    ours = KroneckerRidge(ALPHA, **RBF, task_kernel="precomputed", fit_intercept=False, tol=1e-12)
    ours.fit(
        on.X, on.Y, tasks=B, sample_weight=np.tile(ALPHA / (ALPHA + own_noise), (len(on.X), 1))
    )
    theirs = model.answers(X_new)[0]
    yield compare(
        "`task_noises`", "`sample_weight=alpha / (alpha + noises)`", theirs, ours.predict(on.X_new)
    )


def _pairs(on: Problem) -> Iterator[Row]:
    """Labels of some pairs: tasks by their numbers, and tasks with features."""
    q, X, T, X_new, T_new = on.Y.shape[1], *map(_tensor, (on.X, on.tasks, on.X_new, on.tasks_new))
    row, column = (torch.tensor(places) for places in np.nonzero(on.observed))
    labels = _tensor(on.Y[on.observed])
    noise = gp.likelihoods.GaussianLikelihood().double()
    noise.noise = ALPHA

    index = gp.kernels.IndexKernel(num_tasks=q, rank=2).double()
    B = _factors(index, q)
    model = Process((X[row], column[:, None]), labels, noise, ZeroMean(), Hadamard(_rbf(), index))
    theirs = model.answers(
        X_new.repeat_interleave(q, dim=0), torch.arange(q).repeat(len(X_new))[:, None]
    )[0]
    ours = KroneckerRidge(ALPHA, **RBF, task_kernel="precomputed", fit_intercept=False, tol=1e-12)
    actual = ours.fit(on.X, on.holes, tasks=B).predict(on.X_new)
    yield compare(
        "`IndexKernel` on the pairs that are observed",
        "NaN in `y`",
        theirs.reshape(actual.shape),
        actual,
    )

    d = on.X.shape[1]
    r = on.tasks.shape[1]
    kernel = _rbf(active_dims=tuple(range(d))) * _rbf(active_dims=tuple(range(d, d + r)))
    model = Process(torch.hstack([X[row], T[column]]), labels, noise, ZeroMean(), kernel)
    asked = torch.hstack([X_new.repeat_interleave(len(T_new), dim=0), T_new.repeat(len(X_new), 1)])
    ours = KroneckerRidge(ALPHA, **RBF, **TASK_RBF, fit_intercept=False, tol=1e-12)
    actual = ours.fit(on.X, on.holes, tasks=on.tasks).predict(on.X_new, tasks=on.tasks_new)
    theirs = model.answers(asked)[0].reshape(actual.shape)
    yield compare(
        "a product of kernels by `active_dims`, new tasks", "`predict(X, tasks)`", theirs, actual
    )
