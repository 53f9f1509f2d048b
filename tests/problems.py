"""The maker of problems: grids, kernels, holes, and the dense systems that say what belongs there.

Grids are ravelled row by row, so that the pairwise kernel of cells is K ⊗ G. Nothing here knows
spectra or operators of the package but what it makes them from.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import default_rng
from scipy import sparse

from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.holdout.baselines import baselines
from dyadlearn.labels import Labels
from dyadlearn.pairing import Independent, Kronecker, Network, TwoStep
from dyadlearn.spectrum import Spectrum
from references import reference

SHAPES = {"tall": (9, 4), "wide": (4, 9), "square": (6, 6), "one row": (1, 8), "one column": (8, 1)}
COMPLETE = {"tall": (7, 5), "wide": (5, 7), "square": (6, 6)}
PATTERNS = ["5%", "50%", "95%", "rows", "columns", "rows and columns", "one cell", "none missing"]
# The kernel of a side: well-conditioned; with a null space kept, or left out and then large or
# small.
KINDS = ["full", "singular", "primal", "thin", "sparse"]
MODELS = ["two-step", "kronecker"]
# The same with a constant on each side, the grand mean free.
WITH_MEAN = ["two-step + 1", "kronecker + 1"]
ALL_MODELS = MODELS + WITH_MEAN
RIDGE = Tikhonov()
# Similarities that are no kernel.
INDEFINITE = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.9], [0.1, 0.9, 1.0]])


# --- long tables ---------------------------------------------------------------------------------------------


def to_long(
    grid: np.ndarray, instances: Any = None, tasks: Any = None
) -> tuple[list[tuple[Any, Any]], np.ndarray]:
    """Return the pairs of the observed cells of a grid, by position or by id, and their labels."""
    rows, columns = np.nonzero(~np.isnan(grid))
    instances, tasks = (
        range(n) if ids is None else ids
        for n, ids in zip(grid.shape, (instances, tasks), strict=True)
    )
    return [(instances[i], tasks[j]) for i, j in zip(rows, columns, strict=True)], grid[
        rows, columns
    ]


# --- one side ------------------------------------------------------------------------------------------------


def features(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return features (n, d) whose kernel has positive eigenvalues between 0.3 and 3."""
    rank = {"full": n, "thin": min(2, n)}.get(kind, max(1, n - 2))
    left = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank]
    right = np.linalg.qr(rng.normal(size=(rank, rank)))[0]
    return (left * np.geomspace(3.0, 0.3, rank) ** 0.5) @ right


def gram(n: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Return a kernel (n, n) whose positive eigenvalues lie between 0.3 and 3, in a random basis."""
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank]
    return (basis * np.geomspace(0.3, 3.0, rank)) @ basis.T


def spectrum(
    kind: str,
    given: np.ndarray,
    dtype: str = "float64",
    put: Callable[[np.ndarray], Any] = np.asarray,
    constant: str | None = None,
) -> Spectrum:
    """Return the spectrum of features (n, d), by the way that the kind of side takes."""
    if kind in ("full", "singular"):
        return Spectrum.from_gram(put((given @ given.T).astype(dtype)), constant=constant)
    given = given.astype(dtype)
    return Spectrum.from_features(
        sparse.csr_array(given) if kind == "sparse" else put(given), constant=constant
    )


def residual_of(K: np.ndarray, alpha: float) -> np.ndarray:
    return alpha * np.linalg.inv(K + alpha * np.eye(len(K)))


@functools.cache
def complement(n: int) -> np.ndarray:
    """Return an orthonormal basis (n, n - 1) of all that sums to zero, which nobody may change."""
    basis = np.linalg.qr(np.c_[np.ones(n), np.eye(n)[:, : n - 1]])[0][:, 1:]
    basis.flags.writeable = False
    return basis


def hat_and_residual(
    K: np.ndarray, alpha: float, constant: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return what ridge regression with a kernel does to its labels; a constant, if there is one, is not penalised."""
    if not constant:
        R = residual_of(K, alpha)
        return K @ R / alpha, R
    Z = complement(len(K))
    H, R = hat_and_residual(Z.T @ K @ Z, alpha)
    return Z @ H @ Z.T + 1.0 / len(K), Z @ R @ Z.T


def two_step_pairs(
    K: np.ndarray, G: np.ndarray, alpha: float, task_alpha: float, constant: bool
) -> np.ndarray:
    """Return the pairwise kernel H/R of two-step ridge regression (mq, mq); a free mean has no value in it."""
    H, R = hat_and_residual(K, alpha, constant)
    task_H, task_R = hat_and_residual(G, task_alpha, constant)
    hat = np.kron(H, task_H)
    residual = np.kron(R, np.eye(len(G))) + np.kron(H, task_R)
    if not constant:
        return hat @ np.linalg.inv(residual)
    Z = complement(len(residual))
    return Z @ (Z.T @ hat @ Z) @ np.linalg.inv(Z.T @ residual @ Z) @ Z.T


def pair_kernel(
    K: np.ndarray, G: np.ndarray, a: float = 1.0, b: float = 0.0, c: float = 0.0
) -> np.ndarray:
    """Return the kernel between all pairs (mq, mq), with the shares of the three kernels."""
    return a * np.kron(K, G) + b * np.kron(K, np.eye(len(G))) + c * np.kron(np.eye(len(K)), G)


def bordered(system: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    """Solve for parameters that sum to zero beside a mean that is free."""
    n = len(system)
    border = np.block([[system, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(border, np.append(labels, 0.0))
    return found[:n], float(found[n])


def distance(
    K: np.ndarray, row: int, others: np.ndarray, ridge: float, is_free: bool = False
) -> float:
    """Return the variance left of a row given others, relative to the noise; a constant may be free."""
    n = len(others)
    k = np.append(K[others, row], 1.0)
    system = np.block(
        [[K[np.ix_(others, others)] + ridge * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), 0.0]]
    )
    kept = slice(None if is_free else n)
    left = K[row, row] - k[kept] @ np.linalg.solve(system[kept, kept], k[kept])
    return float((left + ridge) / ridge)


# --- features and labels -------------------------------------------------------------------------------------


def data(
    m: int,
    q: int,
    d: int = 4,
    r: int = 3,
    *,
    noise: float = 1.0,
    scale: float | None = 1.0,
    missing: float = 0.0,
    n_new: int = 0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features X (m, d), labels Y (m, q) that are bilinear but for their noise, and features T (q, r).

    `n_new` more rows stand at the end of each side. Features are divided by `scale`, None for the
    root of their number; a share of the labels may be `missing`.
    """
    rng = default_rng(seed)
    X = rng.normal(size=(m + n_new, d))
    T = rng.normal(size=(q + n_new, r))
    X, T = (side / (side.shape[1] ** 0.5 if scale is None else scale) for side in (X, T))
    Y = X[:m] @ rng.normal(size=(d, r)) @ T[:q].T + noise * rng.normal(size=(m, q))
    return X, np.where(rng.random((m, q)) < missing, np.nan, Y), T


# --- holes -----------------------------------------------------------------------------------------------------


def pattern(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return which cells (m, q) are observed, at least one."""
    observed = np.ones(shape, dtype=bool)
    if name.endswith("%"):
        n_missing = min(max(1, round(observed.size * int(name[:-1]) / 100)), observed.size - 1)
        observed.flat[rng.permutation(observed.size)[:n_missing]] = False
    if "rows" in name:
        observed[rng.permutation(shape[0])[: shape[0] // 3], :] = False
    if "columns" in name:
        observed[:, rng.permutation(shape[1])[: shape[1] // 3]] = False
    if name == "one cell":
        observed[:] = False
        observed[shape[0] // 2, shape[1] // 3] = True
    return observed


def with_holes(Y: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    """Return labels of which a share is missing."""
    return np.where(default_rng(seed).random(Y.shape) < share, np.nan, Y)


def stored(Y: np.ndarray) -> sparse.csr_array:
    """Return the observed labels as a sparse matrix, zeros too."""
    cells = np.nonzero(~np.isnan(Y))
    return sparse.csr_array((Y[cells], cells), shape=Y.shape)


def some_cells(shape: tuple[int, int]) -> np.ndarray:
    """Return a third of the cells, in every row and every column."""
    return np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 3 == 0


@dataclass(frozen=True)
class Holes:
    """A problem with missing labels and the pairwise kernel P of its model, with the ridge c.

    Attributes
    ----------
    operators : Pairing
    K, G : arrays of shape (m, m) and (q, q)
    Y : array of shape (m, q)
        NaN where not observed.
    P : array of shape (mq, mq)
    ridge : float
    free_mean : bool
        Whether a mean stands beside the kernel, without a penalty.
    observed : bool array of shape (m, q)
    """

    operators: Any
    K: np.ndarray
    G: np.ndarray
    Y: np.ndarray
    P: np.ndarray
    ridge: float
    free_mean: bool = False

    @property
    def observed(self) -> np.ndarray:
        return ~np.isnan(self.Y)

    def residual(self) -> np.ndarray:
        """Return the residual operator c(P + cI)⁻¹ of all cells."""
        return self.ridge * np.linalg.inv(self.P + self.ridge * np.eye(len(self.P)))

    def system(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the dense normal equations (P_oo + c/w) a = y_o."""
        at = np.flatnonzero(self.observed)
        inverse = np.ones(at.size) if weights is None else 1.0 / weights.ravel()[at]
        return self.P[np.ix_(at, at)] + self.ridge * np.diag(inverse), self.Y.ravel()[at]

    def solved(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Return a as a grid, zero where nothing is observed, and the free mean."""
        grid = np.zeros(self.Y.size)
        system = self.system(weights)
        if self.free_mean:
            grid[self.observed.ravel()], mean = bordered(*system)
        else:
            grid[self.observed.ravel()], mean = (np.linalg.solve(*system), 0.0)
        return grid.reshape(self.Y.shape), mean

    def dual(self, weights: np.ndarray | None = None) -> np.ndarray:
        return self.solved(weights)[0]

    def fitted(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the predictions P_·o a, and the mean, for all cells."""
        dual, mean = self.solved(weights)
        return (self.P @ dual.ravel()).reshape(self.Y.shape) + mean

    def completed(self) -> np.ndarray:
        return np.where(self.observed, self.Y, self.fitted())


@cache
def _sides(
    kinds: tuple[str, str], shape: tuple[int, int], dtype: str, seed: int, constant: str | None
) -> tuple[list[np.ndarray], list[Spectrum], Any]:
    """Return features of both sides, their spectra, and the state of what draws the labels."""
    rng = default_rng([seed, *shape])
    sides = [features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True)]
    spectra = [
        spectrum(kind, side, dtype, constant=constant)
        for kind, side in zip(kinds, sides, strict=True)
    ]
    return sides, spectra, rng.bit_generator.state


def holes(
    model: str,
    shape: tuple[int, int] = (9, 4),
    missing: str = "50%",
    kinds: tuple[str, str] = ("full", "full"),
    alpha: float = 0.5,
    task_alpha: float = 0.2,
    dtype: str = "float64",
    seed: int = 0,
) -> Holes:
    """Return a two-step or Kronecker problem under Tikhonov's filter; Kronecker's λ is `alpha`.

    With a constant on each side (`WITH_MEAN`) labels are some way off zero.
    """
    constant = model.endswith(" + 1")
    model = model.removesuffix(" + 1")
    kept = {"kronecker": "feature"}.get(model, "free") if constant else None
    sides, spectra, state = _sides(kinds, shape, dtype, seed, kept)
    rng = default_rng()
    rng.bit_generator.state = state
    K, G = (side @ side.T for side in sides)
    Y = rng.normal(size=shape) + 3.0 * constant
    Y[~pattern(missing, shape, rng)] = np.nan
    if model == "kronecker":
        P = np.kron(K + constant, G + constant)
        return Holes(Kronecker(*spectra, alpha, free_mean=constant), K, G, Y, P, alpha, constant)
    smoothers = spectra[0].smoother(Tikhonov(), alpha), spectra[1].smoother(Tikhonov(), task_alpha)
    P = two_step_pairs(K, G, alpha, task_alpha, constant)
    return Holes(TwoStep(*smoothers), K, G, Y, P, 1.0, constant)


# --- held out ----------------------------------------------------------------------------------------------------


def posed(
    method: str,
    Y: Any,
    spectrum: Spectrum,
    alpha: float,
    task_spectrum: Spectrum | None = None,
    task_alpha: float = 0.0,
    filter: SpectralFilter = RIDGE,
    task_filter: SpectralFilter = RIDGE,
    sign: int = 1,
    **others: Any,
) -> Problem:
    """Return the problem of a model by its word; what that has no use for is not looked at."""
    rows = spectrum.smoother(filter, alpha)
    if method == "independent":
        return Problem.of(Independent(rows), Y, **others)
    if method == "network":
        return Problem.of(Network.of(rows, sign), Y, **others)
    if method == "kronecker":
        free_mean = spectrum.constant is not None
        pairing = Kronecker(spectrum, task_spectrum, alpha, free_mean=free_mean)
        return Problem.of(pairing, Y, **others)
    return Problem.of(TwoStep(rows, task_spectrum.smoother(task_filter, task_alpha)), Y, **others)


def twins(
    method: str,
    sides: tuple[np.ndarray, np.ndarray],
    alphas: tuple[float, float],
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    kinds: tuple[str, str] = ("full", "full"),
    filters: tuple[SpectralFilter, SpectralFilter] = (RIDGE, RIDGE),
    constant: bool = False,
    sign: int = 1,
    dtype: str = "float64",
    **others: Any,
) -> tuple[Problem, Any]:
    """Return the problem of a model on features of both sides, and its reference in extended precision."""
    kept = {"kronecker": "feature"}.get(method, "free") if constant else None
    spectra = [
        spectrum(kind, side, dtype, constant=kept) for kind, side in zip(kinds, sides, strict=True)
    ]
    labels = Y.astype(dtype)
    problem = posed(
        method,
        labels,
        spectra[0],
        alphas[0],
        spectra[1],
        alphas[1],
        *filters,
        sign,
        weights=weights,
        **others,
    )
    kernels = tuple(side @ side.T for side in sides)
    options = {"filters": filters, "constant": constant, "sign": sign}
    return problem, reference(method, kernels, alphas, Y, weights, **options)


def problem(
    method: str,
    shape: tuple[int, int] = (7, 5),
    kinds: tuple[str, str] = ("full", "full"),
    alpha: float = 0.5,
    task_alpha: float = 0.2,
    sign: int = 1,
    seed: int = 0,
    put: Callable[[np.ndarray], Any] = np.asarray,
    labels: Callable[[int, int], np.ndarray] | None = None,
    **others: Any,
) -> Problem:
    """Return a problem with random spectra and complete labels; a network has its first side on both sides.

    `put` takes arrays to the library that computes; `labels` gives those of m rows and q columns in
    place of noise.
    """
    rng = default_rng(seed)
    m, q = (shape[0], shape[0]) if method == "network" else shape
    own, tasks = (
        spectrum(kind, features(kind, n, rng), put=put)
        for kind, n in zip(kinds, (m, q), strict=True)
    )
    Y = rng.normal(size=(m, q)) if labels is None else labels(m, q)
    Y = Y + sign * Y.T if method == "network" else Y
    return posed(method, put(Y), own, alpha, tasks, task_alpha, sign=sign, **others)


# --- how close ---------------------------------------------------------------------------------------------------


def close(found: Any, expected: np.ndarray, rtol: float, message: str = "") -> None:
    """Compare up to rounding of the largest entry."""
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(
        np.asarray(found, dtype=float),
        expected,
        rtol=0,
        atol=rtol * (scale or 1.0),
        err_msg=message,
    )


def error(found: Any, expected: np.ndarray) -> float:
    """Return the largest difference over the largest expected value (over 1 where zeros are expected)."""
    assert np.isfinite(found).all()
    return float(np.max(np.abs(found - expected)) / (np.max(np.abs(expected)) or 1.0))


def tolerance(given: Problem) -> float:
    """Return the relative error that rounding may cause, whoever makes it, in double precision."""
    sizes = [float(np.max(spectrum.values)) for spectrum in given.pairing.spectra]
    alphas = given.pairing.alphas.values()
    if len(sizes) > len(alphas):  # one for the pairs
        sizes = [float(np.prod(sizes))]
    conditions = [size / alpha for size, alpha in zip(sizes, alphas, strict=True)]
    return max(1e-8, 1e3 * np.finfo(np.float64).eps * max(conditions))


def grid_baselines(Y, setting, units=None, *, weights=None, symmetry=0):
    """Return the baselines of a grid of labels."""
    return baselines(Labels.of_grid(Y, weights), setting, units, symmetry=symmetry)
