"""Small grids with holes, and the dense systems that say what belongs there.

Grids are raveled row by row, so that the pairwise kernel of cells is K ⊗ G. Nothing here knows spectra or operators
of the package but what it makes them from.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dyadlearn.filters import Tikhonov
from dyadlearn.solvers.pairs import KroneckerPairs, TwoStepPairs
from dyadlearn.spectrum import Spectrum

SHAPES = {"tall": (9, 4), "wide": (4, 9), "square": (6, 6), "one row": (1, 8), "one column": (8, 1)}
PATTERNS = ["5%", "50%", "95%", "rows", "columns", "rows and columns", "one cell", "none missing"]
# The kernel of a side: well-conditioned; with a null space kept, or left out and then large or small.
KINDS = ["full", "singular", "primal", "thin", "sparse"]


def make_features(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return features (n, d) whose kernel has positive eigenvalues between 0.3 and 3."""
    rank = {"full": n, "thin": min(2, n)}.get(kind, max(1, n - 2))
    left = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank]
    right = np.linalg.qr(rng.normal(size=(rank, rank)))[0]
    return (left * np.geomspace(3.0, 0.3, rank) ** 0.5) @ right


def make_spectrum(kind: str, features: np.ndarray, dtype: str = "float64") -> Spectrum:
    if kind in ("full", "singular"):
        return Spectrum.from_gram((features @ features.T).astype(dtype))
    features = features.astype(dtype)
    return Spectrum.from_features(sparse.csr_array(features) if kind == "sparse" else features)


def make_pattern(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
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
    operators : PairOperators
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


def residual_of(K: np.ndarray, alpha: float) -> np.ndarray:
    return alpha * np.linalg.inv(K + alpha * np.eye(len(K)))


def make_holes(
    model: str,
    shape: tuple[int, int] = (9, 4),
    pattern: str = "50%",
    kinds: tuple[str, str] = ("full", "full"),
    alpha: float = 0.5,
    task_alpha: float = 0.2,
    dtype: str = "float64",
    seed: int = 0,
) -> Holes:
    """Return a two-step or Kronecker problem under Tikhonov's filter; Kronecker's λ is `alpha`."""
    rng = np.random.default_rng([seed, *shape])
    features = [make_features(kind, n, rng) for kind, n in zip(kinds, shape, strict=True)]
    spectrum, task_spectrum = (make_spectrum(kind, x, dtype) for kind, x in zip(kinds, features, strict=True))
    K, G = (x @ x.T for x in features)
    Y = rng.normal(size=shape)
    Y[~make_pattern(pattern, shape, rng)] = np.nan
    if model == "kronecker":
        return Holes(KroneckerPairs(spectrum, task_spectrum, alpha), K, G, Y, np.kron(K, G), alpha)
    sides = spectrum.smoother(Tikhonov(), alpha), task_spectrum.smoother(Tikhonov(), task_alpha)
    R, task_R = residual_of(K, alpha), residual_of(G, task_alpha)
    H, task_H = K @ R / alpha, G @ task_R / task_alpha
    P = np.kron(H, task_H) @ np.linalg.inv(np.kron(R, np.eye(shape[1])) + np.kron(H, task_R))
    return Holes(TwoStepPairs(*sides), K, G, Y, P, 1.0)


def assert_close(found: Any, expected: np.ndarray, rtol: float, message: str = "") -> None:
    """Compare up to rounding of the largest entry."""
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), expected, rtol=0, atol=rtol * (scale or 1.0), err_msg=message
    )


@pytest.fixture(scope="session")
def grids() -> SimpleNamespace:
    """Give what the tests of incomplete grids build their problems from."""
    return SimpleNamespace(
        holes=make_holes,
        features=make_features,
        spectrum=make_spectrum,
        pattern=make_pattern,
        close=assert_close,
    )


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Run the test for grids of all proportions."""
    return request.param


@pytest.fixture(params=PATTERNS)
def pattern(request: pytest.FixtureRequest) -> str:
    """Run the test for many ways in which labels are missing."""
    return request.param


@pytest.fixture(params=["two-step", "kronecker"])
def model(request: pytest.FixtureRequest) -> str:
    """Run the test for both models."""
    return request.param
