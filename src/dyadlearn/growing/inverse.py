r"""The regularised inverse of one side, kept up to date while rows come and go.

.. math:: \mathbf{M} = (\boldsymbol\Phi^\top\boldsymbol\Phi + \lambda\mathbf{I})^{-1}

A few rows :math:`\boldsymbol\Phi_2`, with signs :math:`\mathbf{S} = \mathrm{diag}(\pm 1)` as they are added or removed,
change it by Woodbury's identity,

.. math:: \mathbf{M} - \mathbf{M}\boldsymbol\Phi_2^\top
          (\mathbf{S} + \boldsymbol\Phi_2\mathbf{M}\boldsymbol\Phi_2^\top)^{-1}\boldsymbol\Phi_2\mathbf{M};

where the Gram matrix is about the mean of n rows, N afterwards, what changes it are rows less the mean before, of which
a part of their own mean is taken away,

.. math:: \mathbf{A} - (1 - \sqrt{n/N})\,\mathbf{1}\bar{\mathbf{a}}^\top, \qquad
          \mathbf{A} = \boldsymbol\Phi_2 - \mathbf{1}\bar{\boldsymbol\phi}^\top .

Many rows are better added to the Gram matrix alone, which is factorised when somebody asks. The Gram matrix is the
truth either way: how far the inverse has drifted from it is measured after every change, and an inverse that has
drifted is thrown away.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_solve, lapack

from dyadlearn._array import Array, as_array_of, copied, dense, double, epsilon, is_foreign, largest, namespace, solve
from dyadlearn._means import centred
from dyadlearn._state import Stored
from dyadlearn._svd import gram_eigen, unit_noise, unit_scale
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.growing.statistics import plus_diagonal

SOLVERS = ("auto", "woodbury", "cholesky")

#: What ‖M(ΦᵀΦ+λI)z − z‖ may grow to, relative to ‖z‖, before the inverse is made anew.
DRIFT_LIMIT = 1e-11
#: Products with an inverse are rounded in all directions to the size of its largest entries, unlike solutions by a
#: factor. So large may they be before solutions are sought in other ways.
INFLATION = 1e3
#: Share of predictions that rounding may change before the user is warned.
ROUGH = 1e-3


@dataclass(frozen=True, eq=False)
class Eigen(Stored):
    r"""Eigenvalues (k,) and eigenvectors (d, k) of a Gram matrix, without its null space.

    It serves any regularisation; where that is 0 it gives the pseudo-inverse.
    """

    values: Array
    vectors: Array

    _shapes: ClassVar[Mapping[str, str]] = {"values": "k", "vectors": "d k"}

    @property
    def size(self) -> int:
        """Number d of features."""
        return int(self.vectors.shape[0])

    @classmethod
    def of(cls, gram: Array, n_rows: int, rounding: Array | None = None) -> Eigen:
        """Decompose the Gram matrix (d, d) of `n_rows` rows; `rounding` is as in `Statistics`."""
        return cls(*gram_eigen(gram, n_rows, rounding))

    def solve(self, B: Array, alpha: float) -> Array:
        r"""Return :math:`(\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda\mathbf{I})^{-1}\mathbf{B}`, shape (d, p)."""
        return self.vectors @ ((self.vectors.T @ B) / (self.values + alpha)[:, None])


@dataclass(frozen=True, eq=False)
class Cholesky(Stored):
    """Lower Cholesky factor (d, d) of the regularised Gram matrix."""

    lower: np.ndarray

    _shapes: ClassVar[Mapping[str, str]] = {"lower": "d d"}

    @property
    def size(self) -> int:
        """Number d of features."""
        return int(self.lower.shape[0])

    @cached_property
    def inverse(self) -> np.ndarray:
        """The inverse itself, shape (d, d)."""
        half = lapack.dpotri(self.lower, lower=1)[0]
        inverse: np.ndarray = half + half.T
        np.fill_diagonal(inverse, np.diagonal(half))
        return inverse

    @cached_property
    def _inflation(self) -> float:
        """The largest entry on the diagonal of the inverse, of a matrix with a diagonal of ones."""
        return float(np.max(np.einsum("ij,ij->i", self.lower, self.lower) * np.diagonal(self.inverse)))

    def solve(self, B: Array, alpha: float) -> Array:
        """Return the inverse times B (d, p)."""
        # Two triangular solutions take the time of two products: for many columns an inverse and one product are less.
        if (2 * B.shape[1] >= B.shape[0] or "inverse" in vars(self)) and self._inflation <= INFLATION:
            return self.inverse @ B
        return cho_solve((self.lower, True), B, check_finite=False)


@dataclass(frozen=True, eq=False)
class Explicit(Stored):
    """The inverse itself, which Woodbury's identity can change.

    Attributes
    ----------
    matrix : array of shape (d, d)
    fresh_drift : float
        Drift when it was last made from the Gram matrix: what its condition does to any method.
    drift : float
        Drift after the last change.
    """

    matrix: Array
    fresh_drift: float = 0.0
    drift: float = 0.0

    _shapes: ClassVar[Mapping[str, str]] = {"matrix": "d d"}

    @property
    def size(self) -> int:
        """Number d of features."""
        return int(self.matrix.shape[0])

    def solve(self, B: Array, alpha: float) -> Array:
        """Return the inverse times B (d, p)."""
        return self.matrix @ B

    @property
    def n_refinements(self) -> int:
        """How often what a solution leaves of the equations should improve it: an error becomes drift times itself."""
        if self.drift <= INFLATION * np.finfo(np.float64).eps:
            return 0
        return math.ceil(-16.0 / math.log10(min(self.drift, 1e-2)))

    def changed(self, rows: Array, signs: Array) -> Explicit:
        """Return the inverse with rows (p, d) added where their sign (p,) is +1 and removed where it is −1."""
        product = self.matrix @ rows.T
        inner = plus_diagonal(rows @ product, signs)
        matrix = self.matrix - product @ solve(inner, product.T)
        return replace(self, matrix=(matrix + matrix.T) / 2)

    def measured(self, gram: Array, alpha: float) -> float:
        r"""Return :math:`\|\mathbf{M}(\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda\mathbf{I})\mathbf{z}-\mathbf{z}\|`.

        z is a fixed random direction of unit length, so all directions have their share. It is that of features whose
        scales are those of the regularised Gram matrix, so that small features have theirs too.
        """
        xp = namespace(gram)
        scale = unit_scale(xp.linalg.diagonal(gram) + alpha)[:, None]
        z = as_array_of(_probe(int(gram.shape[0])), gram, gram.dtype)
        back = self.matrix @ (gram @ (scale * z) + alpha * scale * z)
        return float(xp.linalg.matrix_norm(back / scale - z))


def _one_norm(matrix: Array) -> float:
    """Return the largest sum of absolute values of a column."""
    xp = namespace(matrix)
    return float(xp.max(xp.sum(xp.abs(matrix), axis=0)))


@lru_cache(maxsize=16)
def _probe(d: int) -> np.ndarray:
    """Return a random direction (d, 1) of unit length, always the same."""
    z = np.random.default_rng(0).standard_normal((d, 1))
    return z / np.linalg.norm(z)


Form = Eigen | Cholesky | Explicit


@dataclass(frozen=True, eq=False)
class RidgeInverse(Stored):
    r"""One side's Gram matrix and regularisation, ready to be solved with.

    Nothing is computed before it is asked for, so any number of changes between two questions costs one solution.
    Rows that an explicit inverse has not yet taken in wait in `rows`, never more than d of them.

    Attributes
    ----------
    gram : array of shape (d, d)
    n_rows : int
    alpha : float
    solver : {"auto", "woodbury", "cholesky"}
    form : Eigen, Cholesky, Explicit or None
        The inverse for the Gram matrix without `rows`.
    rows : array of shape (p, d) or None
    signs : array of shape (p,) or None
    n_new : int
        Number of rows since the last solution, whether or not they are kept in `rows`.
    rounding : array of shape (d,) or None
        As in `Statistics`.
    is_told : bool
        Whether the user has been warned that the regularisation is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.inverse import RidgeInverse
    >>> side = RidgeInverse(np.array([[2.0, 0.0], [0.0, 0.0]]), 1, 1.0)
    >>> side.solve(np.array([[3.0], [0.0]]))
    array([[1.],
           [0.]])
    """

    gram: Array
    n_rows: int
    alpha: float
    solver: str = "auto"
    form: Form | None = None
    rows: Array | None = None
    signs: Array | None = None
    n_new: int = 0
    rounding: Array | None = None
    is_told: bool = False

    _kept: ClassVar[tuple[str, ...]] = ("settled", "eigen")
    _shapes: ClassVar[Mapping[str, str]] = {"gram": "d d", "rows": "p d", "signs": "p", "rounding": "d"}

    def _fits(self) -> bool:
        forms = (self.form, vars(self).get("settled"), vars(self).get("eigen"))
        return (self.rows is None) == (self.signs is None) and all(
            form is None or form.size == self.gram.shape[0] for form in forms
        )

    def solve(self, B: Array) -> Array:
        r"""Return :math:`(\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda\mathbf{I})^{-1}\mathbf{B}` of shape (d, p)."""
        form = self.settled
        solved = form.solve(B, self.alpha)
        for _ in range(form.n_refinements if isinstance(form, Explicit) else 0):
            solved = solved + form.solve(B - (self.gram @ solved + self.alpha * solved), self.alpha)
        return solved

    def with_rows(
        self, gram: Array, rows: Array, sign: int, mean: Array | None = None, rounding: Array | None = None
    ) -> RidgeInverse:
        """Return the side after a change of rows.

        Parameters
        ----------
        gram : array of shape (d, d)
            The Gram matrix after the change.
        rows : array or sparse matrix of shape (l, d)
        sign : int
            +1 if they were added, −1 if they were removed.
        mean : array of shape (2, d), default=None
            Of the rows before, where the Gram matrix is about their mean.
        rounding : array of shape (d,), default=None
            That of the Gram matrix after the change.

        Returns
        -------
        RidgeInverse
        """
        done = "settled" in self.__dict__
        form, waiting, signs = (self.settled, None, None) if done else (self.form, self.rows, self.signs)
        count = int(rows.shape[0])
        n_new = count if done else count + self.n_new
        new = replace(self.of(gram, self.n_rows + sign * count, rounding), n_new=n_new)
        if not isinstance(form, Explicit) or not self._pays(count + (0 if waiting is None else waiting.shape[0])):
            return new
        xp = namespace(gram)
        # A copy: what the caller does with the rows afterwards is none of our business.
        own = dense(double(copied(rows)))
        if mean is not None:
            if new.n_rows == 0:
                return new
            own = centred(own, mean)
            own = own - (1.0 - math.sqrt(self.n_rows / new.n_rows)) * xp.mean(own, axis=0)
        own_signs = xp.ones_like(own[:, 0]) * sign
        if waiting is not None:
            own, own_signs = xp.concat([waiting, own], axis=0), xp.concat([signs, own_signs], axis=0)
        return replace(new, form=form, rows=own, signs=own_signs)

    def of(self, gram: Array, n_rows: int, rounding: Array | None = None) -> RidgeInverse:
        """Return the side of another Gram matrix (d, d) under the same regularisation."""
        new = RidgeInverse(gram, n_rows, self.alpha, self.solver, n_new=n_rows)
        return replace(new, rounding=rounding, is_told=self.has_told)

    def with_alpha(self, alpha: float) -> RidgeInverse:
        """Return the side under another regularisation, solved by the eigendecomposition only where that is known."""
        known = self.form if isinstance(self.form, Eigen) else vars(self).get("eigen")
        return replace(self, alpha=alpha, form=known, rows=None, signs=None, is_told=self.has_told)

    @cached_property
    def eigen(self) -> Eigen:
        """The eigendecomposition of the Gram matrix."""
        return self.form if isinstance(self.form, Eigen) else Eigen.of(self.gram, self.n_rows, self.rounding)

    @cached_property
    def settled(self) -> Form:
        """The inverse for the Gram matrix as it is now."""
        form = self._settle()
        if isinstance(form, Eigen) and self.alpha > 0:
            top = largest(form.values)
            least = max(self.n_rows, form.size) * epsilon(self.gram) * top
            xp = namespace(self.gram)
            n_features = int(xp.sum(xp.astype(xp.linalg.diagonal(self.gram) > 0, xp.int64)))
            if self.alpha <= least and int(form.values.shape[0]) < n_features:
                self._warn(
                    f"A regularisation of {self.alpha:g} is rounding beside the largest eigenvalue {top:.3g} of the "
                    "features, some of which depend linearly on others: predictions are those without regularisation. "
                    f"Use 0, or more than {least:.1g}, or scale the largest features down."
                )
        return form

    @property
    def has_told(self) -> bool:
        """Whether the user has been warned by now, before or in solving."""
        return bool(vars(self).get("_has_told", self.is_told))

    def note_told(self, is_told: bool) -> None:
        """Remember that the user has been warned."""
        vars(self)["_has_told"] = is_told or self.has_told

    def _warn(self, message: str) -> None:
        """Warn the user of few digits, unless that was done before."""
        if not self.is_told:
            warnings.warn(message, PrecisionWarning, stacklevel=4)
        self.note_told(True)

    def _settle(self) -> Form:
        if self.form is not None and self.rows is None:
            return self.form
        changed = self._changed(self.form) if isinstance(self.form, Explicit) else None
        return self._fresh() if changed is None else changed

    def _changed(self, form: Explicit) -> Explicit | None:
        """Return the inverse with the waiting rows taken in, or None if it drifted."""
        assert self.rows is not None
        try:
            changed = form.changed(self.rows, self.signs)
        except np.linalg.LinAlgError:
            return None
        drift = changed.measured(self.gram, self.alpha)
        if not drift <= max(DRIFT_LIMIT, 10 * form.fresh_drift):  # drift may be NaN
            return None
        return replace(changed, drift=drift)

    def _fresh(self) -> Form:
        """Return the inverse made from the Gram matrix, which is scaled to a diagonal of about one.

        Factors of it are as good whatever the scales of the features, and only then its condition says how good.
        """
        xp, matrix = namespace(self.gram), plus_diagonal(self.gram, self.alpha)
        scale = unit_scale(xp.linalg.diagonal(matrix))
        matrix *= scale
        matrix *= scale[:, None]
        rounding = largest(unit_noise(xp.linalg.diagonal(self.gram), scale, self.n_rows, self.rounding))
        # No eigenvalue is less than what λ has become, and none more than the sum of all: mostly that will do.
        least = max(self.alpha * float(xp.min(scale)) ** 2, float(np.finfo(np.float64).tiny))
        condition, limit = float(xp.linalg.trace(matrix)) / least, min(1.0 / rounding, ROUGH / epsilon(matrix))
        if is_foreign(matrix):
            # The Array API has no triangular solve, so there the inverse is always explicit.
            try:
                inverse = xp.linalg.inv(matrix)
            except (np.linalg.LinAlgError, RuntimeError):  # torch raises the latter
                return self.eigen
            if not condition < limit:
                condition = _one_norm(matrix) * _one_norm(inverse)
            if not self._is_known_well(condition, rounding):
                return self.eigen
            return self._made(inverse * scale * scale[:, None])
        size = 0.0 if condition < limit else _one_norm(matrix)
        # The transpose lies in memory as LAPACK wants it, so that nothing is copied.
        lower, failed = lapack.dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        if not failed and size:
            condition = 1.0 / max(lapack.dpocon(lower, size, uplo="L")[0], epsilon(lower))
        if failed or not self._is_known_well(condition, rounding):
            return self.eigen
        lower /= scale[:, None]
        factor = Cholesky(lower)
        if self.solver == "woodbury" or self._pays(self.n_new):
            return self._made(factor.inverse)
        return factor

    def _is_known_well(self, condition: float, rounding: float) -> bool:
        """Tell whether a Gram matrix of unit diagonal has no null space, and warn where little of it is known."""
        if not condition * rounding < 1.0:  # it may be NaN
            return False
        share = condition * epsilon(self.gram)
        if share > ROUGH:
            self._warn(
                f"Features depend so nearly on others that beside a regularisation of {self.alpha:g} rounding may "
                f"change predictions by {100 * share:.1g} %: leave some of them out, centre them, or raise the "
                "regularisation."
            )
        return True

    def _made(self, matrix: Array) -> Explicit:
        drift = Explicit(matrix).measured(self.gram, self.alpha)
        return Explicit(matrix, drift, drift)

    def _pays(self, n_rows: int) -> bool:
        """Tell whether Woodbury's identity with so many rows is cheaper than factorising the Gram matrix."""
        d = int(self.gram.shape[0])
        if self.solver == "auto":
            # About 4·l·d·(d + l) operations against d³/3.
            return 12 * n_rows * (d + n_rows) < d * d
        return self.solver == "woodbury" and n_rows < d
