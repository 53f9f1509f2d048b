"""Gaussian processes of pair kernels written out over the features of all pairs, in extended precision."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn.labels import Labels
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.cells_process import CellsProcess
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.process import Process
from dyadlearn.spectrum import Spectrum
from problems import features
from references import dense

LONG = dense.LONG
SHARES = [
    (1.0, 0.0, 0.0),
    (0.7, 0.4, 0.0),
    (1.0, 0.0, 0.5),
    (0.6, 0.3, 0.2),
    (0.0, 1.0, 0.5),
    (0.0, 2.0, 0.0),
]
N_NEW = (3, 2)
# Sides whose kernel is given; the others are given by features.
DUAL = ("full", "singular")
# Sides that are not truncated. "spanning" features are no fewer than rows.
WHOLE = (*DUAL, "spanning")
#: Which labels there are.
FORMS = ["all", "missing", "weighted", "both", "few"]


@dataclass
class ProcessCase:
    """A process, with new rows of both sides after those of training.

    Attributes
    ----------
    sides : two arrays of features
    kinds : (str, str)
    alpha : float
    shares : (float, float, float)
    free_mean : bool
    labels : Labels
        A list of labels.
    """

    sides: list[np.ndarray]
    kinds: tuple[str, str]
    alpha: float
    shares: tuple[float, float, float]
    free_mean: bool
    labels: Labels

    @property
    def shape(self) -> tuple[int, int]:
        return self.labels.shape

    @property
    def noise(self) -> np.ndarray:
        """Variance of the noise of each label."""
        weights = self.labels.weights
        return np.full(self.labels.size, self.alpha) / (1.0 if weights is None else weights)

    @property
    def at(self) -> np.ndarray:
        """Position of each label among all pairs."""
        rows, columns = self.labels.places
        return rows * len(self.sides[1]) + columns

    def pair_features(self) -> np.ndarray:
        """Return features of all pairs, whose weights have a prior variance of one."""
        a, b, c = self.shares
        F, H = self.sides
        parts = [
            a**0.5 * np.kron(F, H),
            b**0.5 * np.kron(F, np.eye(len(H))),
            c**0.5 * np.kron(np.eye(len(F)), H),
        ]
        return np.concatenate([part for part in parts if part.any()], axis=1).astype(LONG)

    def kernel(self) -> np.ndarray:
        """Return the prior covariance of the labels."""
        own = self.pair_features()[self.at]
        return own @ own.T

    def covariance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the posterior covariance between pairs, φᵀ(ΦᵀN⁻¹Φ + I)⁻¹φ, which subtracts nothing.

        A flat mean is a feature whose weight has no prior.
        """
        pairs = self.pair_features()
        prior = np.ones(pairs.shape[1])
        if self.free_mean:
            pairs = np.column_stack([pairs, np.ones(len(pairs))])
            prior = np.append(prior, 0.0)
        own = pairs[self.at]
        # Times the smallest noise, so that no number is out of range.
        scale = self.noise.min()
        system = own.T @ (own * (scale / self.noise)[:, None]) + scale * np.diag(prior)
        return (scale * pairs[first] @ dense.solve(system, pairs[second].T)).astype(float)

    def grids(self) -> dict[str, np.ndarray]:
        """Return posterior variances of all pairs in each setting."""
        m, q = self.shape
        everything = np.arange(len(self.sides[0]) * len(self.sides[1]))
        grid = np.diag(self.covariance(everything, everything))
        grid = grid.reshape([len(side) for side in self.sides])
        return {"A": grid[:m, :q], "B": grid[m:, :q], "C": grid[:m, q:], "D": grid[m:, q:]}

    @property
    def prior(self) -> float:
        """The largest prior variance."""
        return float((self.pair_features() ** 2).sum(axis=1).max())

    @property
    def rounding(self) -> float:
        """Rounding error of a variance: of a difference, and of an inverse of this condition."""
        size = np.linalg.norm(self.kernel().astype(float), 2)
        return np.finfo(float).eps * (10.0 + size / self.noise.min()) * self.prior

    def likelihood(self, restricted: bool, scale: float | None) -> tuple[float, float]:
        """Return the log marginal likelihood and the scale; restricted by contrasts, none of which has a mean."""
        C = self.kernel() + np.diag(self.noise)
        y = self.labels.values
        n = len(y)
        if self.free_mean and restricted:
            contrasts = dense.complement(np.ones(n))
            C = contrasts.T @ C @ contrasts
            y = contrasts.T @ y
        elif self.free_mean:
            y = y - dense.solve(C, y).sum() / dense.solve(C, np.ones(n)).sum()
        square = float(y @ dense.solve(C, y))
        logarithm = 2.0 * float(np.log(np.diag(dense.cholesky(C))).sum())
        scale = (square / len(y)) ** 0.5 if scale is None else scale
        value = -0.5 * (square / scale**2 + logarithm + len(y) * np.log(2 * np.pi * scale**2))
        # A flat prior of the mean has density 1 along 1, and contrasts measure along 1/√n.
        return value - (0.5 * np.log(n) if self.free_mean and restricted else 0.0), scale

    # --- the same for the package ---

    def model(self, dtype: str = "float64", put: Any = np.asarray) -> PairKernel:
        spectra = []
        for side, kind, n in zip(self.sides, self.kinds, self.shape, strict=True):
            own = side[:n].astype(dtype)
            if kind in DUAL:
                spectra.append(Spectrum.from_gram(put((side[:n] @ side[:n].T).astype(dtype))))
            else:
                given = sparse.csr_array(own) if kind == "sparse" else put(own)
                spectra.append(Spectrum.from_features(given))
        return PairKernel(*spectra, self.alpha, self.shares, self.free_mean)

    def process(self, closed: bool = False, dtype: str = "float64", put: Any = np.asarray) -> Any:
        """Return the process of the labels, or that of a complete grid."""
        model = self.model(dtype, put)
        return Process(model) if closed else CellsProcess(model, self.labels)

    def values(self, closed: bool = False) -> np.ndarray:
        """Return the labels as the process takes them."""
        return self.labels.values.reshape(self.shape) if closed else self.labels.values

    def asked(self, setting: str, dtype: str = "float64", put: Any = np.asarray) -> dict[str, Any]:
        """Return the new rows of a setting, and k(x, x) where it takes them."""
        found: dict[str, Any] = {}
        words = [("rows", "diagonal", "BD"), ("tasks", "task_diagonal", "CD")]
        given = zip(words, self.sides, self.kinds, self.shape, strict=True)
        for (word, diagonal, settings), side, kind, n in given:
            if setting not in settings:
                continue
            new = side[n:]
            if kind in DUAL:
                rows = put((new @ side[:n].T).astype(dtype))
                found[diagonal] = put(np.sum(new**2, axis=1).astype(dtype))
            else:
                rows = new.astype(dtype)
                rows = sparse.csr_array(rows) if kind == "sparse" else put(rows)
            found[word] = NewRows(rows, lambda block: block, 0)
        return found


def case(
    kinds: tuple[str, str] = ("full", "full"),
    alpha: float = 0.3,
    shares: tuple[float, float, float] = SHARES[3],
    free_mean: bool = True,
    form: str = "both",
    *,
    shape: tuple[int, int] = (6, 5),
    beyond: bool = False,
    seed: int = 0,
) -> ProcessCase:
    """Return a process; with `beyond`, new rows have a feature that those of training lack.

    Of `few` labels none is in the last row or the last column.
    """
    rng = np.random.default_rng([seed, *shape])
    sides = []
    for kind, n, n_new in zip(kinds, shape, N_NEW, strict=True):
        own = features("full" if kind == "spanning" else kind, n, rng)
        side = np.concatenate([own, rng.normal(size=(n_new, own.shape[1])) / own.shape[1] ** 0.5])
        if beyond:
            side = np.column_stack([side, np.r_[np.zeros(n), rng.normal(size=n_new)]])
        sides.append(np.column_stack([side, np.ones(len(side))]) if free_mean else side)
    Y = 100.0 * free_mean + rng.normal(size=shape)
    share = {"missing": 0.3, "both": 0.3, "few": 0.7}.get(form, 0.0)
    Y[rng.random(shape) < share] = np.nan
    if form == "few":
        Y[-1], Y[:, -1] = np.nan, np.nan
    weights = rng.uniform(0.05, 1.0, shape) if form in ("weighted", "both") else None
    labels = Labels.of_grid(Y, weights).listed()
    return ProcessCase(sides, kinds, alpha, shares, free_mean, labels)


def may_be(kinds: tuple[str, str], shares: tuple[float, float, float], **_: Any) -> bool:
    """Return whether no truncated side has a term on its null space."""
    _, b, c = shares
    return not (c and kinds[0] not in WHOLE) and not (b and kinds[1] not in WHOLE)
