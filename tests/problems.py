"""The maker of problems: grids, kernels, holes, and the dense systems that say what belongs there.

Grids are ravelled row by row, so that the pairwise kernel of cells is K ⊗ G. Nothing here knows spectra or operators
of the package but what it makes them from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.pairing import Independent, Kronecker, Network, TwoStep
from dyadlearn.spectrum import Spectrum

SHAPES = {"tall": (9, 4), "wide": (4, 9), "square": (6, 6), "one row": (1, 8), "one column": (8, 1)}
COMPLETE = {"tall": (7, 5), "wide": (5, 7), "square": (6, 6)}
PATTERNS = ["5%", "50%", "95%", "rows", "columns", "rows and columns", "one cell", "none missing"]
# The kernel of a side: well-conditioned; with a null space kept, or left out and then large or small.
KINDS = ["full", "singular", "primal", "thin", "sparse"]
MODELS = ["two-step", "kronecker"]
RIDGE = Tikhonov()


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
    kind: str, given: np.ndarray, dtype: str = "float64", put: Callable[[np.ndarray], Any] = np.asarray
) -> Spectrum:
    """Return the spectrum of features (n, d), by the way that the kind of side takes."""
    if kind in ("full", "singular"):
        return Spectrum.from_gram(put((given @ given.T).astype(dtype)))
    given = given.astype(dtype)
    return Spectrum.from_features(sparse.csr_array(given) if kind == "sparse" else put(given))


def residual_of(K: np.ndarray, alpha: float) -> np.ndarray:
    return alpha * np.linalg.inv(K + alpha * np.eye(len(K)))


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

    `n_new` more rows stand at the end of each side. Features are divided by `scale`, None for the root of their
    number; a share of the labels may be `missing`.
    """
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(m + n_new, d)), rng.normal(size=(q + n_new, r))
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
    observed : bool array of shape (m, q)
    """

    operators: Any
    K: np.ndarray
    G: np.ndarray
    Y: np.ndarray
    P: np.ndarray
    ridge: float

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

    def dual(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return a as a grid, zero where nothing is observed."""
        grid = np.zeros(self.Y.size)
        grid[self.observed.ravel()] = np.linalg.solve(*self.system(weights))
        return grid.reshape(self.Y.shape)

    def fitted(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the predictions P_·o a for all cells."""
        return (self.P @ self.dual(weights).ravel()).reshape(self.Y.shape)

    def completed(self) -> np.ndarray:
        return np.where(self.observed, self.Y, self.fitted())


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
    """Return a two-step or Kronecker problem under Tikhonov's filter; Kronecker's λ is `alpha`."""
    rng = np.random.default_rng([seed, *shape])
    sides = [features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True)]
    spectra = [spectrum(kind, side, dtype) for kind, side in zip(kinds, sides, strict=True)]
    K, G = (side @ side.T for side in sides)
    Y = rng.normal(size=shape)
    Y[~pattern(missing, shape, rng)] = np.nan
    if model == "kronecker":
        return Holes(Kronecker(*spectra, alpha), K, G, Y, np.kron(K, G), alpha)
    smoothers = spectra[0].smoother(Tikhonov(), alpha), spectra[1].smoother(Tikhonov(), task_alpha)
    R, task_R = residual_of(K, alpha), residual_of(G, task_alpha)
    H, task_H = K @ R / alpha, G @ task_R / task_alpha
    P = np.kron(H, task_H) @ np.linalg.inv(np.kron(R, np.eye(shape[1])) + np.kron(H, task_R))
    return Holes(TwoStep(*smoothers), K, G, Y, P, 1.0)


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
        return Problem(Independent(rows), Y, **others)
    if method == "network":
        return Problem(Network.of(rows, sign), Y, **others)
    if method == "kronecker":
        return Problem(Kronecker(spectrum, task_spectrum, alpha), Y, **others)
    return Problem(TwoStep(rows, task_spectrum.smoother(task_filter, task_alpha)), Y, **others)


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

    `put` takes arrays to the library that computes; `labels` gives those of m rows and q columns in place of noise.
    """
    rng = np.random.default_rng(seed)
    m, q = (shape[0], shape[0]) if method == "network" else shape
    own, tasks = (spectrum(kind, features(kind, n, rng), put=put) for kind, n in zip(kinds, (m, q), strict=True))
    Y = rng.normal(size=(m, q)) if labels is None else labels(m, q)
    Y = Y + sign * Y.T if method == "network" else Y
    return posed(method, put(Y), own, alpha, tasks, task_alpha, sign=sign, **others)


# --- how close ---------------------------------------------------------------------------------------------------


def close(found: Any, expected: np.ndarray, rtol: float, message: str = "") -> None:
    """Compare up to rounding of the largest entry."""
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), expected, rtol=0, atol=rtol * (scale or 1.0), err_msg=message
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
