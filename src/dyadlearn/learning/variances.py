r"""Variances of the terms of a kernel between cells, by restricted likelihood or by held-out error.

With the covariance :math:`\mathbf{V} = \sum_k v_k\mathbf{K}_k` of the labels (the terms and the noise),
orthonormal columns **F** of the fixed part, and **N** of `dyadlearn.solve.fixed`, the restricted log
likelihood and its derivatives are

.. math:: \ell = -\tfrac12\bigl[(n - r)\log 2\pi + \log|\mathbf{V}| + \log|\mathbf{F}^\top\mathbf{V}^{-1}\mathbf{F}|
          + \mathbf{y}^\top\mathbf{Ny}\bigr], \qquad
          \frac{\partial\ell}{\partial v_k} = \tfrac12\bigl[\mathbf{y}^\top\mathbf{NK}_k\mathbf{Ny}
          - \mathrm{tr}(\mathbf{NK}_k)\bigr] .

It does not depend on the basis of the fixed part. It is maximised over the logarithms of the
variances with the average information

.. math:: \tfrac12\,\mathbf{y}^\top\mathbf{NK}_k\mathbf{NK}_l\mathbf{Ny}

(Gilmour, Thompson and Cullis 1995, Biometrics 51:1440), whose inverse is the covariance of the
estimates. Steps that lose likelihood are shortened, as by Levenberg and Marquardt.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, epsilon, largest, namespace, to_numpy, zeros
from dyadlearn._checks import caller_level
from dyadlearn.exceptions import LeverageError
from dyadlearn.pairing.multiway import CellTerms, confounded
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse

# Share of the total variance below which a variance is zero.
_ZERO = 1e-6
# Largest change of the logarithm of a variance in one step.
_LONGEST_STEP = 3.0
# Expected gain of the log likelihood at which the search ends.
_GAIN = 1e-9
# Steps that are tried with more and more damping.
_MOST_TRIALS = 12
# Least eigenvalue of the correlations of two terms that the labels tell apart.
_CONFOUNDED = 1e-10
# Range of the logarithms of variances relative to the noise, for held-out errors.
_WIDEST = 14.0


@dataclass(frozen=True, eq=False)
class VarianceProblem:
    """Labels of cells whose variances are unknown.

    Attributes
    ----------
    terms : CellTerms
    fixed : FixedPart
        Orthonormal columns.
    noise : array of shape (n,)
        Variance of each label relative to that of a label of weight one, 1/w.
    labels : array of shape (n,)
    names : tuple of str
        Names of the terms, and of the noise.
    """

    terms: CellTerms
    fixed: FixedPart
    noise: Array
    labels: Array
    names: tuple[str, ...]

    @property
    def degrees(self) -> int:
        """Number of labels minus the number of fixed columns."""
        return self.terms.n_labels - self.fixed.n_columns

    def inverse(self, variances: np.ndarray) -> CellsInverse:
        """Return the inverse for the variances of the terms and of the noise."""
        return self.terms.inverse(variances[:-1], variances[-1] * self.noise, self.fixed)

    def likelihood(self, inverse: CellsInverse) -> tuple[float, Array]:
        """Return the restricted log likelihood, and N times the labels (n,)."""
        solved = inverse.times(self.labels[:, None])[:, 0]
        fixed = 0.0
        if inverse.fixed is not None:
            fixed = inverse.fixed.log_determinant
        square = float(namespace(solved).sum(self.labels * solved))
        value = self.degrees * math.log(2.0 * math.pi) + inverse.log_determinant + fixed + square
        return -value / 2, solved

    def at(self, variances: np.ndarray) -> Likelihood:
        """Return the restricted likelihood of some variances with its derivatives."""
        inverse = self.inverse(variances)
        xp = namespace(self.labels)
        value, solved = self.likelihood(inverse)
        n_terms = len(self.terms.terms)
        images = zeros((self.terms.n_labels, n_terms + 1), self.labels)
        traces = np.zeros(n_terms + 1)
        for here, terms in self.terms.blocks():
            rows = inverse.matrix[here, :]
            for place, term in enumerate(terms):
                images[here, place] = term @ solved
                traces[place] += float(xp.sum(rows * term))
        images[:, -1] = self.noise * solved
        traces[-1] = float(xp.sum(self.noise * xp.linalg.diagonal(inverse.matrix)))
        slopes = (to_numpy(solved @ images) - traces) / 2
        information = to_numpy(images.T @ inverse.times(images)) / 2
        return Likelihood(value, slopes, information)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Mean diagonal minus mean of each term on the labels, and mean variance of the noise."""
        xp = namespace(self.labels)
        n = self.terms.n_labels
        sizes = np.zeros(len(self.names))
        for here, terms in self.terms.blocks():
            for place, term in enumerate(terms):
                trace = float(xp.sum(xp.linalg.diagonal(term, offset=here.start)))
                sizes[place] += trace / n - float(xp.sum(term)) / n**2
        sizes[-1] = float(xp.mean(self.noise))
        return sizes

    @property
    def total(self) -> float:
        """Variance of the labels beside the fixed columns; 0 if it is only rounding."""
        size = largest(namespace(self.labels).abs(self.labels))
        if size == 0:
            return 0.0
        scaled = self.labels / size
        residuals = scaled - self.fixed.columns @ (self.fixed.columns.T @ scaled)
        variance = float(namespace(scaled).sum(residuals**2)) / self.degrees
        if variance < (10.0 * epsilon(scaled)) ** 2:
            return 0.0
        return variance * size**2

    @property
    def start(self) -> np.ndarray:
        """Variances with equal shares of the variance of the labels."""
        shares = self.total / len(self.names) / np.where(self.sizes > 0, self.sizes, 1.0)
        return np.asarray(shares)

    def check(self) -> None:
        """Raise if the labels do not tell the variances apart."""
        if self.degrees < len(self.names):
            n_labels = self.terms.n_labels
            n_fixed = self.fixed.n_columns
            labels = "label" if n_labels == 1 else "labels"
            fixed = "fixed column" if n_fixed == 1 else "fixed columns"
            raise ValueError(
                f"{len(self.names)} variances need more than {n_labels} {labels} with {n_fixed} "
                f"{fixed}: give more labels, or fewer terms."
            )
        if not self.total:
            raise ValueError(
                "The labels do not vary beside the fixed columns, so that no variance can be "
                "estimated: give variances as numbers."
            )
        products, sizes = self._products()
        scale = np.sqrt(np.diag(products).clip(0.0))
        alone = np.flatnonzero(scale <= math.sqrt(_CONFOUNDED) * sizes)
        if alone.size:
            raise confounded([self.names[alone[0]]], with_fixed=True)
        values, vectors = np.linalg.eigh(products / np.multiply.outer(scale, scale))
        if values[0] < _CONFOUNDED:
            share = np.abs(vectors[:, 0])
            raise confounded(
                [self.names[k] for k in np.flatnonzero(share > 0.05 * share.max())],
                with_fixed=False,
            )

    def _products(self) -> tuple[np.ndarray, np.ndarray]:
        """Return tr(PK_kPK_l) of all terms, where P projects the fixed columns out, and the norm of each term."""
        xp = namespace(self.labels)
        n = self.terms.n_labels
        size = len(self.names)
        columns = self.fixed.columns
        images = [zeros(tuple(columns.shape), columns) for _ in range(size)]
        products = np.zeros((size, size))
        for here, terms in self.terms.blocks():
            is_diagonal = np.arange(n)[here, None] == np.arange(n)
            diagonal = as_array_of(is_diagonal, self.noise, self.noise.dtype)
            blocks = [*terms, diagonal * self.noise]
            for k, block in enumerate(blocks):
                images[k][here, :] = block @ columns
                for j, other in enumerate(blocks[: k + 1]):
                    products[k, j] += float(xp.sum(block * other))
        sizes = np.sqrt(np.diag(products))
        within = [columns.T @ image for image in images]
        for k in range(size):
            for j in range(k + 1):
                products[k, j] -= 2.0 * float(xp.sum(images[k] * images[j]))
                products[k, j] += float(xp.sum(within[k] * within[j]))
                products[j, k] = products[k, j]
        return products, sizes


class Likelihood(NamedTuple):
    """Restricted log likelihood, with its derivatives in the variances and its average information."""

    value: float
    slopes: np.ndarray
    information: np.ndarray


class Estimate(NamedTuple):
    """Estimated variances of the terms and of the noise.

    Attributes
    ----------
    variances : array of shape (t + 1,)
    errors : array of shape (t + 1,)
        Standard errors; NaN where there is none.
    value : float
        Restricted log likelihood.
    """

    variances: np.ndarray
    errors: np.ndarray
    value: float


def most_likely(problem: VarianceProblem, max_iter: int = 100) -> Estimate:
    """Return the variances with the greatest restricted likelihood.

    A variance below 1e-6 of the total is zero and has no standard error. It is tried again where
    the search ends, if the likelihood then increases with it.
    """
    problem.check()
    size = math.sqrt(problem.total)
    unit = replace(problem, labels=problem.labels / size)
    best = _climbed(unit, max_iter)
    value = best.value - problem.degrees * math.log(size)
    return Estimate(best.variances * size**2, best.errors * size**2, value)


def _climbed(problem: VarianceProblem, max_iter: int) -> Estimate:
    """Return the variances with the greatest restricted likelihood, for labels whose variance is one."""
    variances = problem.start
    tried: set[int] = set()
    best = problem.at(variances)
    damping = 0.0
    for _ in range(max_iter):
        gain, trials = _steps(variances, best, damping)
        if gain < _GAIN:
            again = _to_try_again(problem, variances, best, tried)
            if again is None:
                break
            tried.add(again)
            variances = variances.copy()
            variances[again] = 1e3 * _ZERO * (variances @ problem.sizes) / problem.sizes[again]
            best = problem.at(variances)
            continue
        for damping, moved in trials:
            moved = _without_tiny(problem, moved)
            reached = _at(problem, moved)
            if reached is not None and reached.value >= best.value - _GAIN:
                variances = moved
                best = reached
                damping = damping / 10.0 if damping > 1e-3 else 0.0
                break
        else:
            break
    else:
        warnings.warn(
            f"The restricted likelihood did not converge in {max_iter} iterations: use a larger "
            f"max_iter, or fewer terms.",
            ConvergenceWarning,
            stacklevel=caller_level(),
        )
    return Estimate(variances, _errors(variances, best), best.value)


def _at(problem: VarianceProblem, variances: np.ndarray) -> Likelihood | None:
    """Return the restricted likelihood; None if the covariance is singular."""
    try:
        return problem.at(variances)
    except LeverageError:
        return None


def _steps(
    variances: np.ndarray, likelihood: Likelihood, damping: float
) -> tuple[float, list[tuple[float, np.ndarray]]]:
    """Return the expected gain of a step, and steps with more and more damping."""
    active = np.flatnonzero(variances > 0)
    slopes = (variances * likelihood.slopes)[active]
    scaled = np.multiply.outer(variances, variances) * likelihood.information
    information = scaled[np.ix_(active, active)]
    diagonal = np.diag(np.diag(information))
    full = np.linalg.lstsq(information, slopes, rcond=None)[0]
    trials = []
    for _ in range(_MOST_TRIALS):
        step = np.linalg.lstsq(information + damping * diagonal, slopes, rcond=None)[0]
        moved = variances.copy()
        moved[active] *= np.exp(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        trials.append((damping, moved))
        damping = max(4.0 * damping, 0.1)
    return float(slopes @ full) / 2, trials


def _without_tiny(problem: VarianceProblem, variances: np.ndarray) -> np.ndarray:
    """Return variances with zero for those of terms below a share of the total; the noise keeps a hundredth of this."""
    total = float(variances @ problem.sizes)
    is_tiny = variances * problem.sizes < _ZERO * total
    is_tiny[-1] = False
    kept = np.where(is_tiny, 0.0, variances)
    kept[-1] = max(kept[-1], 1e-2 * _ZERO * total / problem.sizes[-1])
    return kept


def _to_try_again(
    problem: VarianceProblem, variances: np.ndarray, likelihood: Likelihood, tried: set[int]
) -> int | None:
    """Return the position of a zero variance with which the likelihood increases; None if there is none."""
    total = float(variances @ problem.sizes)
    for place in np.flatnonzero(variances == 0).tolist():
        gain = likelihood.slopes[place] * _ZERO * total / problem.sizes[place]
        if place not in tried and gain > _GAIN:
            return int(place)
    return None


def _errors(variances: np.ndarray, likelihood: Likelihood) -> np.ndarray:
    """Return the standard errors of variances; NaN for those that are zero."""
    active = np.flatnonzero(variances > 0)
    errors = np.full(len(variances), np.nan)
    covariance = np.linalg.pinv(likelihood.information[np.ix_(active, active)])
    errors[active] = np.sqrt(np.diag(covariance).clip(0.0))
    return errors


def least_error(problem: VarianceProblem, error: Callable[[CellsInverse], float]) -> Estimate:
    """Return the variances, relative to each other, with the least held-out error.

    They are scaled to the greatest restricted likelihood. They have no standard errors.

    Parameters
    ----------
    problem : VarianceProblem
    error : callable
        Function that returns the mean squared held-out error, given the inverse of a model.
    """
    start = problem.start
    scale = float(start @ problem.sizes)

    def variances_at(logs: np.ndarray) -> np.ndarray:
        return np.asarray(start * np.append(np.exp(logs), 1.0))

    def loss(logs: np.ndarray) -> float:
        return math.log(error(problem.inverse(variances_at(logs))) / scale + 1e-300)

    bounds = [(-_WIDEST, _WIDEST)] * len(problem.terms.terms)
    minimum = minimize(
        loss, np.zeros(len(bounds)), method="L-BFGS-B", bounds=bounds, options={"eps": 1e-5}
    )
    variances = _without_tiny(problem, variances_at(minimum.x))
    return scaled(problem, variances)


def scaled(problem: VarianceProblem, variances: np.ndarray) -> Estimate:
    """Return variances times the factor of the greatest restricted likelihood."""
    _, solved = problem.likelihood(problem.inverse(variances))
    factor = float(namespace(solved).sum(problem.labels * solved)) / problem.degrees
    return estimate_of(problem, variances * factor)


def estimate_of(problem: VarianceProblem, variances: np.ndarray) -> Estimate:
    """Return given variances with their restricted likelihood."""
    value, _ = problem.likelihood(problem.inverse(variances))
    return Estimate(variances, np.full(len(variances), np.nan), value)
