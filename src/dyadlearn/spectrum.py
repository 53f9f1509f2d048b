r"""Spectrum of the kernel of one side, and its operators: hat matrix, residual, leave-one-out.

The kernel of one side (instances or tasks) is decomposed once,

.. math:: \mathbf{K} = \mathbf{U}\,\mathrm{diag}(\boldsymbol\sigma)\,\mathbf{U}^\top,

and the operators are functions of :math:`\boldsymbol\sigma`: the hat matrix
:math:`\mathbf{H} = \mathbf{U} f(\boldsymbol\sigma)\mathbf{U}^\top`, the residual operator
:math:`\mathbf{R} = \mathbf{I} - \mathbf{H}` and the leave-one-out operator :math:`\mathbf{L}`.

A side may have a constant of one of two kinds. A *free* constant is an unpenalised direction
:math:`\mathbf{1}/\sqrt n`, in addition to the spectrum of the centred kernel :math:`\mathbf{K}_c`:

.. math:: \mathbf{H} = \tfrac1n\mathbf{11}^\top + \mathbf{K}_c(\mathbf{K}_c+\lambda\mathbf{I})^{-1}, \qquad
          \mathbf{H1} = \mathbf{1}.

A constant *feature* is an additional feature of the same value :math:`\sqrt a` for all rows,
penalised as the others:
:math:`\mathbf{K} + a\mathbf{11}^\top`. In both cases rows to predict for have a last entry, and the coefficients have a
last row for it. The entry is one, and for a constant feature in the primal :math:`\sqrt a`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    epsilon,
    is_sparse,
    largest,
    matmul,
    namespace,
    product_like,
    row_blocks,
    take_block,
    take_rows,
    to_numpy,
    with_diagonal,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._rounding import is_graded, ratio, rounding_level, settle, settled_difference
from dyadlearn._state import Stored, has_unit_columns
from dyadlearn.decomposing import (
    GAP,
    Decomposition,
    decompose_features,
    decompose_gram,
    decompose_sparse,
    with_constant_feature,
)
from dyadlearn.filters import SpectralFilter, Tabulated
from dyadlearn.leverage import check_cells

__all__ = ["Smoother", "Spectrum", "slack_floor"]

# Slack of a row below which its residual is computed by itself.
_HIGH = 1e-2


@dataclass(frozen=True, eq=False)
class Eigenvalues(Stored):
    """A spectrum without its eigenvectors, which are computed again when they are needed.

    Attributes
    ----------
    values, n_rows, constant, noise, size, identity, level
        As in `Spectrum`.
    """

    values: Array
    n_rows: int
    constant: str | None
    noise: float
    size: float
    identity: float
    level: float

    def spectrum(self, source: Callable[[], Array]) -> Spectrum:
        """Return the spectrum whose eigenvectors a function computes."""
        return Spectrum(**vars(self), _source=source)


@dataclass(frozen=True, eq=False)
class Spectrum(Stored):
    r"""Eigenvalues and eigenvectors of the kernel of one side, always in double precision.

    Create one with `from_gram` (dual) or `from_features` (a linear kernel). Eigenvalues that are
    indistinguishable from zero because of rounding are only set to zero for a ridge that is as
    small, see `resolved`.

    Attributes
    ----------
    values : array of shape (k,)
        Eigenvalues :math:`\boldsymbol\sigma \ge 0`, in any order.
    vectors : array of shape (n, k)
        Eigenvectors :math:`\mathbf{U}`. With k < n the spectrum is truncated: the other eigenvalues
        are zero.
    components : array of shape (d, k) or None
        The right singular vectors :math:`\mathbf{W}` of the features
        :math:`\boldsymbol\Phi = \mathbf{U}\,\mathrm{diag}(\sqrt{\boldsymbol\sigma})\,\mathbf{W}^\top`.
    constant : {"free", "feature"} or None
        Kind of constant. A free constant is the last direction; its entry of `values` is zero, and
        filters do not apply to it.
    noise : float
        Size up to which eigenvalues are indistinguishable from zero because of rounding. The
        spectrum of features does not contain such eigenvalues.
    size : float
        Largest eigenvalue before centring, the scale of the rounding errors.
    identity : float
        Part of the kernel of a new row with itself that comes from its identity, see
        `with_identity`.
    level : float
        Constant a that a constant feature adds to the kernel; positive in the primal, at least zero
        in the dual.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.spectrum import Spectrum
    >>> Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).values
    array([1., 3.])
    """

    values: Array
    n_rows: int
    components: Array | None = None
    _vectors: Array | None = None
    _features: Array | None = None
    constant: str | None = None
    noise: float = 0.0
    size: float = 0.0
    identity: float = 0.0
    level: float = 1.0
    #: Function that computes the eigenvectors, if they were left out of a model file.
    _source: Callable[[], Array] | None = None

    _shapes: ClassVar[Mapping[str, str]] = {
        "values": "k",
        "components": "d k",
        "_vectors": "n_rows k",
        "_features": "sparse n_rows d",
    }

    @classmethod
    def from_gram(
        cls,
        gram: Array,
        *,
        repair: str = "clip",
        name: str = "the kernel",
        constant: str | None = None,
        level: float = 1.0,
    ) -> Spectrum:
        """Return the spectrum of a Gram matrix of shape (n, n), with or without a constant.

        An asymmetric matrix is averaged with its transpose. Negative eigenvalues are set to zero
        (``repair="clip"``) or the spectrum is shifted (``"shift"``). Both give a warning with the
        size of the change; with
        ``repair="error"`` they raise `KernelError`. A matrix without positive eigenvalues always does. `name` is the
        name of the matrix in messages.
        """
        parts = decompose_gram(gram, repair, name, constant, level)
        return cls.of(parts, gram.shape[0], constant, level)

    @classmethod
    def from_features(
        cls,
        features: Array,
        *,
        name: str = "the features",
        constant: str | None = None,
        level: float = 1.0,
    ) -> Spectrum:
        r"""Return the spectrum of the linear kernel of features :math:`\boldsymbol\Phi` (n, d).

        Dense features are decomposed by their singular values, see `dyadlearn._svd`, and read in
        blocks, without a copy in double precision. Sparse features stay sparse: their d × d Gram
        matrix is decomposed. `name` is the name of the features in messages.

        With a free constant, the components belong to rows :math:`(\boldsymbol\phi -
        \bar{\boldsymbol\phi}, 1)` of dense features, and to :math:`(\boldsymbol\phi, 1)` of sparse
        ones, which are not centred.
        """
        n = features.shape[0]
        if not is_sparse(features):
            return cls.of(decompose_features(features, name, constant, level), n, constant, level)
        features, parts = decompose_sparse(features, name, constant, level)
        return replace(cls.of(parts, n, constant, level), _features=features)

    @classmethod
    def of(cls, parts: Decomposition, n_rows: int, constant: str | None, level: float) -> Spectrum:
        """Return the spectrum of a decomposition of n rows."""
        spectrum = cls(
            parts.values,
            n_rows,
            parts.components,
            parts.vectors,
            constant=constant,
            noise=parts.noise,
            size=parts.size,
        )
        if constant == "feature":
            return replace(spectrum, level=level)
        return spectrum

    def with_constant_feature(self, means: Array, level: float = 1.0) -> Spectrum:
        """Return the spectrum of features with a constant column, from that of centred features with a free constant.

        The eigenvectors of this spectrum are overwritten. Arguments are those of
        `dyadlearn.decomposing.with_constant_feature`.
        """
        centred = Decomposition(self.values, self.vectors, self.components, self.noise, self.size)
        parts = with_constant_feature(centred, means, level)
        return Spectrum.of(parts, self.n_rows, "feature", level)

    def resolved(self, ridge: float) -> Spectrum:
        """Return the spectrum for a ridge, with eigenvalues up to `floor(ridge)` set to zero."""
        whole: Spectrum = vars(self).get("_whole", self)
        return whole._without_noise if whole.floor(ridge) else whole

    def floor(self, ridge: float) -> float:
        """Return the size up to which eigenvalues count as zero if the ridge is no larger than it, else 0."""
        if ridge <= self._unresolved and self.components is None:
            return self._unresolved
        return 0.0

    @cached_property
    def _unresolved(self) -> float:
        """Size up to which eigenvalues are rounding: `noise`, or that of the common part that centring subtracted."""
        if self.components is not None or not self.has_free_constant:
            return self.noise
        # The common part c of all entries has the norm cn, and their rounding errors one of about
        # 2εc√n.
        level = 8.0 * epsilon(self.values) * self.size / math.sqrt(self.n_rows)
        values = self.penalised
        above = values[values > level]
        if level <= self.noise or 0 in above.shape:
            return self.noise
        has_gap = float(namespace(values).min(above)) > GAP * largest(values)
        return level if has_gap else self.noise

    @cached_property
    def _without_noise(self) -> Spectrum:
        xp = namespace(self.values)
        zero = namespace(self.values).zeros_like(self.values)
        quiet = (self.values > 0) & (self.values <= self._unresolved)
        if not bool(xp.any(quiet)):
            return self
        part = replace(self, values=xp.where(quiet, zero, self.values))
        vars(part)["_whole"] = self
        return part

    def rounding(self, ridge: float) -> float:
        r"""Return the largest relative error of :math:`1/(\sigma+\lambda)` that rounding may cause.

        Eigenvalues of a kernel are known up to :math:`\varepsilon\,\sigma_{\max}`. Singular values
        of features are known up to :math:`\varepsilon\,s_{\max}`, and so a small eigenvalue up to
        :math:`2\varepsilon\sqrt{\sigma\,\sigma_{\max}}`. The Gram matrix of sparse features is known up to
        :math:`\varepsilon` times the lengths of its columns, whatever their scales: the error grows with the variance
        inflation of a column that is close to a combination of others. With `noise`, the features
        themselves were decomposed.
        """
        values = self.resolved(ridge).penalised
        error = epsilon(self.values)
        positive = values[values > 0]
        if 0 in positive.shape:
            return 0.0
        if self._features is not None and not self.noise:
            return error * self._inflation(ridge)
        if ridge <= self._unresolved and (
            self.components is not None or positive.shape[0] < values.shape[0]
        ):
            return math.inf  # eigenvalues that were set to zero may be positive
        # Features that are dependent have directions whose singular values are rounding.
        has_dropped = self.components is not None and self._features is None and self.noise > 0
        if has_dropped:
            divisor = ridge
        else:
            divisor = ridge + float(namespace(values).min(positive))
        if self.components is None:
            return error * self.size / divisor
        return 8 * error * math.sqrt(self.size / divisor)

    def _inflation(self, ridge: float) -> float:
        r"""Return the largest :math:`[\mathbf{G}]_{jj}[(\mathbf{G}+\lambda\mathbf{I})^{-1}]_{jj}` of the Gram G."""
        assert self.components is not None
        values = self.penalised
        components = self.components[:, : values.shape[0]]
        if self.has_free_constant:
            components = components[:-1, :]
        squares = components**2
        return largest((squares @ values) * (squares @ (1.0 / (values + ridge))))

    def state(self) -> dict[str, Any]:
        """Return the fields, and whether eigenvectors were computed from features, which affects rounding."""
        if self._source is None:
            whole = self
        else:
            whole = replace(self, _vectors=self.vectors, _source=None)
        fields = super(Spectrum, whole).state()
        del fields["source"]
        return fields | {"recomputed": "vectors" in vars(whole)}

    @property
    def eigenvalues(self) -> Eigenvalues:
        """The spectrum without its eigenvectors; it must be that of a kernel, not of features."""
        names = ("values", "n_rows", "constant", "noise", "size", "identity", "level")
        return Eigenvalues(**{name: getattr(self, name) for name in names})

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Spectrum:
        """Return the spectrum of a state; eigenvectors of sparse features are computed again, not stored."""
        fields = dict(state)
        recomputed = fields.pop("recomputed")
        fields["source"] = None
        spectrum = super().from_state(fields, where)
        if recomputed is True:
            if spectrum._vectors is not None:
                need = 0
            else:
                need = spectrum.n_rows * spectrum.values.nbytes
            check_memory(need, spectrum.values, f"Computing the eigenvectors of its {where}")
            _ = spectrum.vectors
        return spectrum

    def _fits(self) -> bool:
        k = self.values.size
        components = self.components
        features = self._features
        return (
            (self._vectors is None) != (features is None and self._source is None)
            and (features is None or components is not None)
            # Eigenvectors (n, k) must not be larger than the features.
            and k <= (self.n_rows if components is None else min(self.n_rows, components.shape[0]))
            and (features is None or not is_sparse(features) or features.format == "csr")
            and self.constant in (None, "free", "feature")
            and 0 <= self.level < math.inf
            and (self.level > 0 or components is None)
            and min(self.noise, self.size) >= 0
            and max(self.noise, self.size) < math.inf
            and (self.constant != "free" or (k > 0 and self.values[-1] == 0))
            # Unit length, so that no divisor becomes zero.
            and (self._vectors is None or has_unit_columns(self._vectors))
        )

    @cached_property
    def vectors(self) -> Array:
        r"""Eigenvectors :math:`\mathbf{U}` of shape (n, k).

        They are computed on first use if features are sparse, or if a model file leaves them out.
        """
        if self._vectors is not None:
            return self._vectors
        if self._source is not None:
            return self._source()
        return matmul(self._features, self.components / self._roots)

    @property
    def sparse_features(self) -> Array | None:
        """The decomposed features if they are sparse, not centred and with a constant if there is one; else None."""
        return self._features

    @property
    def has_free_constant(self) -> bool:
        """Whether the last direction is an unpenalised constant."""
        return self.constant == "free"

    @property
    def penalised(self) -> Array:
        """Eigenvalues of the penalised directions: all but a free constant."""
        if self.has_free_constant:
            return self.values[:-1]
        return self.values

    @property
    def mean(self) -> float:
        """Mean of the n eigenvalues of the kernel, centred if there is a free constant."""
        return float(namespace(self.values).sum(self.penalised)) / self.n_rows

    @cached_property
    def _roots(self) -> Array:
        r"""Singular values of the features, shape (k,); :math:`\sqrt n` for a free constant."""
        roots = self.values**0.5
        if self.has_free_constant:
            roots[-1] = math.sqrt(self.n_rows)
        return roots

    @property
    def has_vectors(self) -> bool:
        """Whether the eigenvectors are used, which those of sparse features are once they are computed."""
        return self._features is None or "vectors" in self.__dict__

    @property
    def is_sparse(self) -> bool:
        """Whether it is the spectrum of sparse features."""
        return self._features is not None

    @property
    def is_truncated(self) -> bool:
        """Whether `vectors` omit a null space."""
        return int(self.values.shape[0]) < self.n_rows

    @cached_property
    def is_singular(self) -> bool:
        """Whether the kernel has a null space, omitted or not."""
        return self.is_truncated or not bool(namespace(self.values).all(self.penalised > 0))

    @property
    def uncertainty(self) -> float:
        """Relative rounding error of the smallest positive eigenvalue, between 0 and 1."""
        xp = namespace(self.values)
        top = largest(self.values)
        # Eigenvalues from singular values of features are accurate enough.
        if top == 0 or (self.components is not None and self._features is None):
            return 0.0
        return epsilon(self.values) * top / float(xp.min(self.values[self.values > 0]))

    @property
    def n_coefficients(self) -> int:
        """Number of model coefficients: n, or d in the primal, plus one for a constant."""
        if self.components is not None:
            return int(self.components.shape[0])
        return self.n_rows + (self.constant is not None)

    @cached_property
    def basis(self) -> Array:
        r"""Map from spectral to model coefficients, shape (n, k) or, in the primal, (d, k).

        In the dual a prediction is a kernel row times :math:`\mathbf{U}\boldsymbol\gamma`, in the
        primal a feature row times
        :math:`\mathbf{W}\,\mathrm{diag}(\sqrt{\boldsymbol\sigma})\boldsymbol\gamma`. `lift` and
        `project` add the constant in the dual.
        """
        if self.components is None:
            return self.vectors
        return self.components * self._roots

    @property
    def last_entry(self) -> float:
        r"""Last entry of rows to predict for, if there is a constant: 1, or :math:`\sqrt a` in the primal."""
        if self.constant == "feature" and self.components is not None:
            return math.sqrt(self.level)
        return 1.0

    def lift(self, spectral: Array) -> Array:
        r"""Return the coefficients (n or d, p) of kernel or feature rows from spectral coefficients (k, p)."""
        if self.components is None:
            return self._dual_of(spectral)
        return self.basis @ spectral

    def as_dual(self, coefficients: Array) -> Array:
        """Return dual coefficients (n, p) from the coefficients of features (d, p)."""
        assert self.components is not None
        xp = namespace(coefficients)
        roots = self._roots[:, None]
        mean = None
        along = self.components.T @ coefficients
        if self.constant == "feature":
            # The last row also contains a free mean, which is not part of the kernel.
            last = self.components[-1:, :]
            mean = (coefficients[-1:, :] - last @ along) / (1.0 - float(last[0, :] @ last[0, :]))
            along = along - last.T @ mean
        dual = self._dual_of(ratio(1.0, roots) * along)
        if mean is None:
            return dual
        return xp.concat([dual[:-1, :], dual[-1:, :] + self.last_entry * mean])

    def _dual_of(self, spectral: Array) -> Array:
        """Return the coefficients of kernel rows, with a last row for a constant, from spectral coefficients."""
        xp = namespace(spectral)
        if self.has_free_constant:
            return xp.concat(
                [self.vectors[:, :-1] @ spectral[:-1, :], math.sqrt(self.n_rows) * spectral[-1:, :]]
            )
        lifted = self.vectors @ spectral
        if self.constant is None:
            return lifted
        return xp.concat([lifted, self.level * xp.sum(lifted, axis=0, keepdims=True)])

    def completed(self) -> Spectrum:
        """Return the same spectrum in the dual, including its null space."""
        xp = namespace(self.values)
        k = int(self.values.shape[0])
        values = self.values
        vectors = self.vectors
        if self.is_truncated:
            if k:
                every = xp.linalg.qr(vectors, mode="complete")[0]
            else:
                every = xp.eye(self.n_rows, dtype=values.dtype)
            n_penalised = k - self.has_free_constant  # a free constant stays the last direction
            vectors = xp.concat(
                [vectors[:, :n_penalised], every[:, k:], vectors[:, n_penalised:]], axis=1
            )
            values = xp.concat(
                [values[:n_penalised], zeros((self.n_rows - k,), values), values[n_penalised:]]
            )
        return replace(self, values=values, components=None, _vectors=vectors)

    def with_identity(self, share: float) -> Spectrum:
        r"""Return the spectrum of :math:`\mathbf{K} + \delta\mathbf{I}`, in which each row also counts as itself.

        The kernel is centred, too, if there is a free constant. The spectrum must be in the dual
        and not truncated.
        """
        if not share:
            return self
        if self.components is not None or self.is_truncated:
            raise ValueError(
                "identity needs all directions of the kernel: fit the model again with this "
                "identity."
            )
        values = self.values + share
        if self.has_free_constant:
            values[-1] = 0.0
        identity = share * (1.0 + self.has_free_constant / self.n_rows)
        return replace(self, values=values, size=self.size + share, identity=identity)

    def project(self, rows: Array) -> Array:
        """Return kernel or feature rows (a, n or d) projected on the eigenvectors, shape (a, k): see `lift`."""
        if self.components is not None or self.constant is None:
            return matmul(rows, self.basis)
        if not self.has_free_constant:
            return (rows[:, :-1] + self.level * rows[:, -1:]) @ self.vectors
        along = rows[:, :-1] @ self.vectors[:, :-1]
        return namespace(rows).concat([along, math.sqrt(self.n_rows) * rows[:, -1:]], axis=1)

    @property
    def means(self) -> Array | None:
        """Means (d,) of sparse features with a free constant, which are not centred; else None."""
        if self._features is None or not self.has_free_constant:
            return None
        return np.asarray(self._features.mean(axis=0), dtype=self.values.dtype).reshape(-1)[:-1]

    def rotate(self, labels: Array) -> Array:
        r"""Return :math:`\mathbf{U}^\top\mathbf{Y}` of shape (k, q) for labels of shape (n, q)."""
        if not self.has_vectors:
            assert self.components is not None
            assert self._features is not None
            return (self.components.T @ matmul(self._features.T, labels)) / self._roots[:, None]
        return product_like(self.vectors.T, labels)

    def expand(self, product: Array) -> Array:
        r"""Return `product` (a, k) times :math:`\mathbf{U}^\top`, shape (a, n)."""
        if self._features is not None:
            return matmul(self._features, self.components @ (product / self._roots).T).T
        return product @ self.vectors.T

    def training_rows(self, product: Array) -> Array:
        r"""Return `product` (a, n or d) times the transposed training block: predictions for training rows.

        In the dual the block is :math:`\mathbf{K}`, in the primal :math:`\boldsymbol\Phi`, with a
        last column of `last_entry` where there is a constant.
        """
        if self._features is not None:
            return matmul(self._features, product.T).T
        if self.components is not None:
            return ((product @ self.components) * self._roots) @ self.vectors.T
        rows = product if self.constant is None else product[:, :-1]
        trained = ((rows @ self.vectors) * self.values) @ self.vectors.T
        if self.constant is None:
            return trained
        rest = product[:, -1:]
        if not self.has_free_constant:  # the kernel already contains the constant feature
            rest = rest - self.level * namespace(rows).sum(rows, axis=1, keepdims=True)
        return trained + rest

    def apply(self, weights: Array, null_weight: float, labels: Array) -> Array:
        r"""Return :math:`\mathbf{U}w\mathbf{U}^\top\mathbf{Y}`, with a weight for the omitted null space.

        .. math:: \mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top\mathbf{Y}
                  + w_0(\mathbf{I}-\mathbf{UU}^\top)\mathbf{Y}

        Parameters
        ----------
        weights : array of shape (k,)
        null_weight : float
            Weight :math:`w_0` of the null space that a truncated spectrum omits.
        labels : array of shape (n, q)

        Returns
        -------
        array of shape (n, q)
        """
        rotated = self.rotate(labels)
        if self.is_truncated and null_weight != 0:
            outside = labels - product_like(self.vectors, rotated)
            return product_like(self.vectors, weights[:, None] * rotated) + null_weight * outside
        rotated *= weights[:, None]
        return product_like(self.vectors, rotated)

    def matrix(self, weights: Array) -> Array:
        r"""Return :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top` of shape (n, n)."""
        return (self.vectors * weights) @ self.vectors.T

    def block(self, weights: Array, rows: np.ndarray, columns: np.ndarray | None = None) -> Array:
        """Return some rows and columns (None: the same) of `matrix` without forming it."""
        left = take_rows(self.vectors, rows)
        right = left
        if columns is not None:
            right = take_rows(self.vectors, columns)
        return (left * weights) @ right.T

    def diagonal(self, weights: Array) -> Array:
        r"""Return the diagonal of `matrix` without forming it, :math:`(\mathbf{U}\circ\mathbf{U})w`.

        Parameters
        ----------
        weights : array of shape (k,) or (k, p)
            One set of weights, or p of them.

        Returns
        -------
        array of shape (n,) or (n, p)
        """
        n, k = self.vectors.shape
        blocks = list(row_blocks(n, k))
        if len(blocks) == 1:
            squares = self.vectors**2
            if weights.ndim == 2:
                return product_like(squares, weights)
            return squares @ weights
        result = zeros((n, *weights.shape[1:]), self.vectors)
        for rows in blocks:
            result[rows, ...] = self.vectors[rows, :] ** 2 @ weights
        return result

    @cached_property
    def outside(self) -> Array:
        r"""Share of each row in the null space that a truncated spectrum omits, shape (n,)."""
        xp = namespace(self.values)
        return xp.clip(1.0 - self.diagonal(xp.ones_like(self.values)), 0.0, 1.0)

    def part(self, rows: np.ndarray) -> Spectrum:
        """Return the spectrum of the kernel of some rows only."""
        if rows.size == self.n_rows:
            return self
        vectors = take_rows(self.vectors, rows)
        constant = "free" if self.has_free_constant else None
        if self.components is not None:
            part = Spectrum.from_features(vectors * self.values**0.5, constant=constant)
        else:
            part = Spectrum.from_gram((vectors * self.values) @ vectors.T, constant=constant)
        return replace(part, constant=self.constant, level=self.level)

    def at_level(self, level: float) -> Spectrum:
        """Return the spectrum of the same kernel with another constant added; in the primal the constant is positive.

        The kernel is that of this spectrum: if negative eigenvalues were set to zero, they stay so.
        """
        assert self.constant == "feature"
        if self.components is None:
            gram = self.matrix(self.values) + (level - self.level)
            return replace(Spectrum.from_gram(gram), constant="feature", level=level)
        if self._features is None:
            features = (self.vectors * self._roots) @ self.components[:-1, :].T
        else:
            features = self._features[:, :-1]
        return Spectrum.from_features(features, constant="feature", level=level)

    def smoother(self, filter: SpectralFilter, alpha: float) -> Smoother:
        """Return the operators of the side with a filter and its regularisation."""
        return Smoother(self.resolved(alpha), filter, alpha)


@dataclass(frozen=True, eq=False)
class Smoother:
    r"""Operators of one side with a filter: hat matrix, residual, leverage, leave-one-out.

    Hat matrix and leverage are computed from the shrinkage f, the residual operator and its
    diagonal from 1 − f, and neither from the other by subtraction. Products use the smaller and
    thus more accurate of the two: the residual for small λ, the hat matrix for large λ.

    Attributes
    ----------
    spectrum : Spectrum
        Spectrum of the kernel.
    filter : SpectralFilter
        Spectral filter.
    alpha : float
        Regularisation λ.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> side.leverage.round(6), side.slack.round(6)
    (array([0.625, 0.625]), array([0.375, 0.375]))
    >>> side.leave_one_out(np.array([[1.0], [0.0]])).round(6)
    array([[0.      ],
           [0.333333]])
    """

    spectrum: Spectrum
    filter: SpectralFilter
    alpha: float

    @cached_property
    def phi(self) -> Array:
        r"""The regularised inverse :math:`\varphi(\boldsymbol\sigma)`, shape (k,); zero on null directions.

        Kernel rows are zero along null directions, and :math:`\varphi(0) = 1/\lambda` would amplify
        rounding errors.
        """
        xp = namespace(self.spectrum.values)
        values = self.spectrum.penalised
        phi = self.filter.phi(values, self.alpha)
        return self._and_constant(xp.where(values > 0, phi, 0.0), 1.0 / self.spectrum.n_rows)

    @cached_property
    def shrinkage(self) -> Array:
        r"""The shrinkage :math:`f(\boldsymbol\sigma)`, shape (k,); 1 for a free constant."""
        return self._and_constant(self.filter.shrinkage(self.spectrum.penalised, self.alpha), 1.0)

    @cached_property
    def remainder(self) -> Array:
        r"""The residual filter :math:`1 - f(\boldsymbol\sigma)`, shape (k,); 0 for a free constant."""
        return self._and_constant(self.filter.remainder(self.spectrum.penalised, self.alpha), 0.0)

    @cached_property
    def remainder_limit(self) -> Array | None:
        """Limit of 1 − f up to a factor, for λ = 0 and full rank, where 1 − f is zero; else None."""
        if self.alpha != 0 or self.spectrum.is_singular:
            return None
        limit = self.filter.remainder_limit(self.spectrum.penalised)
        if limit is None:
            return None
        return self._and_constant(limit, 0.0)

    def _and_constant(self, weights: Array, value: float) -> Array:
        """Return filter values, with a last value for a free constant if the side has one."""
        if not self.spectrum.has_free_constant:
            return weights
        return namespace(weights).concat([weights, zeros((1,), weights) + value])

    def _of_filter(self, weights: Array) -> Array:
        """Return filter values without that of a free constant."""
        if self.spectrum.has_free_constant:
            return weights[:-1]
        return weights

    def at(self, alpha: float) -> Smoother:
        """Return the same side with another regularisation."""
        if alpha == self.alpha:
            return self
        return self.spectrum.smoother(self.filter, alpha)

    def coefficients(self, labels: Array) -> Array:
        r"""Return the coefficients of kernel or feature rows, from labels (n, p): see `Spectrum.lift`."""
        return self.spectrum.lift(self.phi[:, None] * self.spectrum.rotate(labels))

    def dual(self, labels: Array) -> Array:
        r"""Return the dual parameters :math:`\varphi(\mathbf{K})\mathbf{Y}`, null directions included, shape (n, p)."""
        phi = self._and_constant(self.filter.phi(self.spectrum.penalised, self.alpha), 0.0)
        return self.spectrum.apply(phi, self.null_phi, labels)

    @property
    def null_phi(self) -> float:
        r"""The filter :math:`\varphi(0)` for the null space that a truncated spectrum omits."""
        values = self.spectrum.penalised
        with_zero = namespace(values).concat([values, zeros((1,), values)])
        return float(self.filter.phi(with_zero, self.alpha)[-1])

    @cached_property
    def _diagonals(self) -> tuple[Array, Array]:
        """Leverage and slack, in one pass over the eigenvectors."""
        both = self.spectrum.diagonal(
            namespace(self.shrinkage).stack([self.shrinkage, self.remainder], axis=1)
        )
        leverage = both[:, 0]
        slack = both[:, 1]
        if self.spectrum.is_truncated:
            slack = slack + self.spectrum.outside
        return leverage, slack

    @cached_property
    def leverage(self) -> Array:
        r"""Diagonal of the hat matrix, :math:`\mathbf{h} = (\mathbf{U}\circ\mathbf{U})f`, shape (n,)."""
        return self._diagonals[0]

    @cached_property
    def slack(self) -> Array:
        r"""Diagonal :math:`\mathbf{e} = (\mathbf{U}\circ\mathbf{U})(1-f)` of the residual operator, shape (n,)."""
        return self._diagonals[1]

    @cached_property
    def prefers_residual(self) -> bool:
        """Whether f is mostly above 1/2, so that products with 1 − f are more accurate.

        False for a truncated spectrum: its null space enters the residual by subtraction.
        """
        xp = namespace(self.shrinkage)
        kept = int(xp.sum(xp.astype(self.shrinkage > 0.5, xp.int64)))
        return not self.spectrum.is_truncated and 2 * kept > self.spectrum.n_rows

    @property
    def smaller(self) -> Array:
        """1 − f if `prefers_residual`, else f: the weights (k,) of `product`."""
        return self.remainder if self.prefers_residual else self.shrinkage

    @property
    def off_diagonal_weights(self) -> Array:
        """−(1 − f) if `prefers_residual`, else f: both are weights of the hat matrix off its diagonal."""
        return -self.remainder if self.prefers_residual else self.shrinkage

    def hat(self) -> Array:
        r"""Return :math:`\mathbf{H} = \mathbf{U}f\mathbf{U}^\top` of shape (n, n)."""
        return self.spectrum.matrix(self.shrinkage)

    def residual(self) -> Array:
        r"""Return :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}` of shape (n, n), from 1 − f."""
        return self.residual_block(np.arange(self.spectrum.n_rows))

    def residual_block(self, rows: np.ndarray) -> Array:
        """Return the residual operator between some distinct rows without forming it."""
        if not self.spectrum.is_truncated:
            return self.spectrum.block(self.remainder, rows)
        return with_diagonal(
            self.spectrum.block(-self.shrinkage, rows), take_rows(self.slack, rows)
        )

    @cached_property
    def _latest(self) -> dict[bool, tuple[int, np.ndarray, Array]]:
        """For the hat and the residual: the entries computed so far, the latest rows, and the block of these."""
        return {}

    def between(self, first: np.ndarray, second: np.ndarray, *, hat: bool) -> Array:
        """Return the hat matrix, or the residual operator, between some rows and others.

        The block of the latest rows is kept.
        """
        n_rows = self.spectrum.n_rows
        distinct = np.union1d(first, second)
        spent, known, block = self._latest.get(hat, (0, None, None))
        if known is None or not (known.size == n_rows or np.array_equal(known, distinct)):
            spent += distinct.size**2
            # Many blocks take as long as all rows, which are kept then.
            known = distinct
            if spent > n_rows**2:
                known = np.arange(n_rows)
            if hat:
                block = self.spectrum.block(self.shrinkage, known)
            else:
                block = self.residual_block(known)
            self._latest[hat] = (spent, known, block)
        places = (np.searchsorted(known, rows) for rows in (first, second))
        return take_block(block, *places)

    def off_diagonal(self) -> Array:
        r"""Return :math:`\mathbf{H}^\circ`, the hat matrix with a zero diagonal, shape (n, n)."""
        return with_diagonal(self.spectrum.matrix(self.off_diagonal_weights), 0.0)

    def smooth(self, labels: Array, rotated: Array | None = None) -> Array:
        r"""Return :math:`\mathbf{HY}` for labels of shape (n, p); `rotated` as in `product`."""
        if self.remainder_limit is not None:
            return labels
        product = self.product(labels, rotated)
        if self.prefers_residual:
            return settled_difference(labels, None, product, self.level(labels))
        return product

    def smooth_others(self, labels: Array, rotated: Array | None = None) -> tuple[Array, Array]:
        r"""Return :math:`\mathbf{HY}` and :math:`\mathbf{H}^\circ\mathbf{Y}` for labels of shape (n, p).

        `rotated` is as in `product`.
        """
        product = self.product(labels, rotated)
        level = self.level(labels)
        if self.prefers_residual:
            return settle(labels - product, level), settle(
                self.slack[:, None] * labels - product, level
            )
        return product, settle(product - self.leverage[:, None] * labels, level)

    def leave_one_out(self, labels: Array, rotated: Array | None = None) -> Array:
        r"""Return :math:`\mathbf{LY}` with :math:`\mathbf{L} = \mathrm{diag}(1/\mathbf{e})\mathbf{H}^\circ`.

        Row i is the prediction for row i by the model trained without it.

        Parameters
        ----------
        labels : array of shape (n, p)
        rotated : array of shape (k, p), default=None
            As in `product`.

        Returns
        -------
        array of shape (n, p)

        Raises
        ------
        LeverageError
            If a row has leverage 1: the model fits its labels exactly, whatever they are.
        """
        if self.remainder_limit is not None:
            return self.scaled().leave_one_out(labels, rotated)
        self.check_slack()
        product = self.product(labels, rotated)
        level = self.level(labels)
        slack = self.slack[:, None]
        if self.prefers_residual:
            diagonal, sign = (slack, 1)
        else:
            diagonal, sign = (self.leverage[:, None], -1)
        held_out = settled_difference(labels, diagonal, product, level, slack, sign=sign)
        if self.prefers_residual or self.spectrum.is_truncated:
            return held_out
        # Rows of high leverage are outliers beside others whose residuals are large: theirs are
        # small.
        high = np.flatnonzero(to_numpy(self.slack) < _HIGH)
        if not high.size:
            return held_out
        places = np.arange(self.spectrum.n_rows)
        places[high] = self.spectrum.n_rows + np.arange(high.size)
        both = [held_out, self._from_residuals(high, labels, rotated)]
        return take_rows(namespace(labels).concat(both), places)

    def _from_residuals(self, rows: np.ndarray, labels: Array, rotated: Array | None) -> Array:
        """Return the leave-one-out predictions of some rows by the residual operator, shape (r, p)."""
        along = self.spectrum.rotate(labels) if rotated is None else rotated
        product = take_rows(self.spectrum.vectors, rows) @ (self.remainder[:, None] * along)
        labels_of_rows = take_rows(labels, rows)
        slack = take_rows(self.slack, rows)[:, None]
        return settled_difference(
            labels_of_rows,
            slack,
            product,
            rounding_level(labels, largest(self.remainder)) * slack,
            slack,
        )

    def rounding_of_left_out(self) -> float:
        """Return an upper bound of the rounding error of `leave_one_out`, relative to the largest label.

        Residuals have the rounding error of products, and are divided by the slack.
        """
        side = self.scaled()
        least = -largest(-side.slack)
        error = epsilon(side.slack) * largest(side.smaller)
        if self.spectrum.is_sparse:
            error = max(error, self.spectrum.rounding(self.alpha))
        return error / least

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `product` for each column of labels, shape (p,)."""
        return rounding_level(labels, largest(self.smaller))

    def scaled(self) -> Smoother:
        """Return operators with a scaled residual that is nonzero at λ = 0; hold-out does not depend on the scale."""
        if self.remainder_limit is None:
            return self
        known = Tabulated(self._of_filter(self.shrinkage), self._of_filter(self.remainder_limit))
        return Smoother(self.spectrum, known, self.alpha)

    @cached_property
    def slack_floor(self) -> float:
        """Lower bound of the slack, below which it counts as zero; 0 if the filter leaves a remainder everywhere."""
        kept = to_numpy(self._of_filter(self.remainder)) == 0
        if not kept.any():
            return 0.0
        if kept.all():
            return slack_floor(self.spectrum, 1.0)  # there is no other direction to mix with
        values = to_numpy(self.spectrum.penalised)
        gap = float(values[kept].min() - values[~kept].max())
        return slack_floor(
            self.spectrum, largest(self.spectrum.values) / gap if gap > 0 else math.inf
        )

    @cached_property
    def is_graded(self) -> bool:
        """Whether remainders are so small, or zero, that blocks of the residual operator may be singular.

        A free constant is ignored: any remaining row determines it.
        """
        return is_graded(
            self._of_filter(self.remainder)[:, None],
            self.spectrum.n_rows,
            self.spectrum.is_truncated,
        )

    def check_slack(self) -> None:
        """Raise `LeverageError` naming the rows whose leverage is 1."""
        # With a positive remainder everywhere, the slack is positive; only remainders of exactly
        # zero can make it zero.
        check_cells(self.slack, self.slack_floor, "rows")

    def product(self, labels: Array, rotated: Array | None = None) -> Array:
        r"""Return RY if `prefers_residual`, else HY, in the cheaper of two ways.

        Parameters
        ----------
        labels : array of shape (n, p)
        rotated : array of shape (k, p), default=None
            :math:`\mathbf{U}^\top\mathbf{Y}`, if already computed.

        Returns
        -------
        array of shape (n, p)
        """
        weights = self.smaller
        n, k = self.spectrum.vectors.shape
        p = labels.shape[1]
        if rotated is not None:
            return product_like(self.spectrum.vectors, weights[:, None] * rotated)
        if 2 * k * p <= n * (k + p):
            return self.spectrum.apply(weights, 0.0, labels)
        return product_like(self.spectrum.matrix(weights), labels)


def slack_floor(spectrum: Spectrum, condition: float) -> float:
    r"""Return the slack below which fewer than six digits are accurate, if some remainders are zero.

    The slack is then the diagonal of a projector, a sum of squares of components. Their error is
    :math:`\varepsilon` times the `condition`: the largest eigenvalue divided by the gap between the
    eigenvalues with and without a remainder. For a truncated spectrum, the slack is computed by
    subtraction from 1 instead. Eigenvalues of blocks are less accurate than this bound.
    """
    precision = spectrum.n_rows * epsilon(spectrum.values)
    if spectrum.is_truncated:
        floor = 1e6 * precision
    else:
        floor = 1e12 * (precision * condition) ** 2
    return min(floor, 1e-6)
