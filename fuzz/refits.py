r"""The models of the library, written once more from their definitions.

Every answer is had by hiding labels and solving a dense system of all cells again. With hat
:math:`H`, residual operator :math:`R = I - H` and weights :math:`W` (zero where a label is missing
or hidden), a model of the whole grid fits :math:`F = H g` where

.. math:: (W H + R)\, g = W y ,

which says in one line that observed cells are met as far as the penalty lets them and that the
others confirm themselves. Kronecker ridge regression and independent tasks have the textbook form
on observed cells.

With an intercept every side of a two-step model has a constant without penalty, and so has every
independent task; Kronecker ridge regression has the kernels K + 11ᵀ and G + 11ᵀ and one free mean,
by which its dual parameters sum to zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dense import LONG, Operators, Side, complement, eigenvalues, is_singular, least_squares, solve

__all__ = ["Model", "UndefinedError"]


class UndefinedError(Exception):
    """The definition has no answer here, or an answer that hangs on rounding: the leverage is 1."""


# Below this the reference says that leverage is 1, or as good as.
SLACK = 1e-6
# Below this eight digits of the reference are lost beside a constant, whose residual is zero up to
# rounding.
LEAST_SLACK = 1e-10


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model by its definition.

    Attributes
    ----------
    kind : {"independent", "two_step", "kronecker", "network"}
    rows, columns : Side
        Without a task side `columns` is None; a network has one side twice.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q) or None
    sign : int
        Of a network.
    noise : array of shape (m·q, m·q) or None
        Rounding of a dense system of all pairs, relative to its largest entry, for a perturbed
        model.
    pair_noise : array of shape (m·q, m·q) or None
        Rounding of the pairwise kernel H R⁻¹ of a two-step model, for a perturbed model with
        weights.
    rounding : (numpy.random.Generator, float) or None
        Rounding of rows of kernels, relative to their largest value, for a perturbed model.
    """

    kind: str
    rows: Side
    columns: Side | None
    Y: np.ndarray
    weights: np.ndarray | None = None
    sign: int = 1
    noise: np.ndarray | None = None
    pair_noise: np.ndarray | None = None
    rounding: tuple[np.random.Generator, float] | None = None

    @property
    def W(self) -> np.ndarray:
        """Weights of all cells, zero where there is no label."""
        weights = np.ones(self.Y.shape) if self.weights is None else self.weights
        return np.where(np.isnan(self.Y), 0.0, weights).astype(LONG)

    def labels(self, W: np.ndarray | None = None) -> np.ndarray:
        """Return what the complete grid would have to be for its closed form to give this fit."""
        Y = np.nan_to_num(self.Y).astype(LONG)
        W = self.W if W is None else W
        return _labels_of_fit(self.rows, self.columns, Y, W, self.noise, self.pair_noise)

    def predict(
        self, rows: np.ndarray, columns: np.ndarray | None = None, W: np.ndarray | None = None
    ) -> np.ndarray:
        """Return predictions from kernel rows with the training sides; of the training tasks without `columns`.

        Parameters
        ----------
        rows, columns : arrays of shape (a, m) and (b, q)
        W : array of shape (m, q), default=None
            Other weights than those of the fit, zero where a label is hidden.
        """
        W = self.W if W is None else W
        Y = np.nan_to_num(self.Y).astype(LONG)
        if self.kind == "independent":
            return np.stack(
                [_column(self.rows, rows, Y[:, j], W[:, j]) for j in range(Y.shape[1])], axis=1
            )
        assert self.columns is not None
        right = self.columns.K if columns is None else columns
        if self.kind == "kronecker":
            one = LONG(self.constant)
            kernels = self.rows.K + one, self.columns.K + one
            dual, mean = _pairs(*kernels, self.rows.alpha, Y, W, self.noise, self.constant)
            return (rows + one) @ dual @ (right + one).T + mean
        g = self.labels(W)
        return self.rows.predictor(rows) @ g @ self.columns.predictor(right).T

    def seen(self, rows: np.ndarray) -> np.ndarray:
        """Return kernel rows as the model sees them: products with large dual coefficients show their rounding."""
        if self.rounding is None:
            return rows
        rng, size = self.rounding
        return rows + LONG(size) * np.abs(rows).max(initial=0) * rng.standard_normal(rows.shape)

    @property
    def constant(self) -> bool:
        """Whether there is an intercept."""
        return self.rows.constant

    @property
    def is_ridge(self) -> bool:
        """Whether every filter is Tikhonov's."""
        sides = [self.rows] if self.columns is None else [self.rows, self.columns]
        return all(side.filter == "tikhonov" for side in sides)

    def left_out(
        self, setting: str, rows: np.ndarray, columns: np.ndarray, cells: np.ndarray
    ) -> np.ndarray:
        """Return predictions for the whole grid by a model that never saw some of it; meant for what was left out.

        Parameters
        ----------
        setting : {"A", "B", "C", "D"}
        rows, columns : integer arrays
            What leaves in B, C and D.
        cells : boolean array of shape (m, q)
            What is hidden in A.
        """
        m, q = self.Y.shape
        hidden = self.W.copy()
        if setting == "A":
            hidden[cells] = 0
        else:
            hidden[rows if setting in "BD" else []] = 0
            hidden[:, columns if setting in "CD" else []] = 0
        if not hidden.any() and self.kind != "network":
            return np.full((m, q), np.nan if self.constant else 0.0, dtype=LONG)
        if self.kind in ("independent", "kronecker"):
            return self.predict(self.rows.K, None, hidden)
        assert self.columns is not None
        if setting == "A":
            return self.rows.H @ self.labels(hidden) @ self.columns.H
        out_rows = rows if setting in "BD" else np.zeros(0, dtype=int)
        out_columns = columns if setting in "CD" else np.zeros(0, dtype=int)
        if self.kind == "network":
            out_rows = out_columns = np.union1d(out_rows, out_columns)
        for side, out in ((self.rows, out_rows), (self.columns, out_columns)):
            if not np.isfinite(side.R).all():
                raise UndefinedError("the reference overflows")
            if not side.definite and side.filter != "tikhonov" and side.slack(out) < SLACK:
                raise UndefinedError(f"leverage 1 under the filter {side.filter}")
        kept, operators, P = self.rows.without(out_rows)
        task_kept, task_operators, task_P = self.columns.without(out_columns)
        if not kept.size or not task_kept.size:
            return np.zeros((m, q), dtype=LONG)
        within = np.ix_(kept, task_kept)
        cells = np.arange(m * q).reshape(m, q)[within].reshape(-1)
        both = np.ix_(cells, cells)
        noise, pair_noise = (
            None if part is None else part[both] for part in (self.noise, self.pair_noise)
        )
        Y = np.nan_to_num(self.Y[within]).astype(LONG)
        g = _solve_grid(operators, task_operators, Y, self.W[within], noise, pair_noise)
        left = np.zeros((m, len(kept)), dtype=LONG)
        right = np.zeros((q, len(task_kept)), dtype=LONG)
        left[kept], left[out_rows] = operators.H, P
        right[task_kept], right[out_columns] = task_operators.H, task_P
        return left @ g @ right.T

    def slack(
        self, setting: str, rows: np.ndarray, columns: np.ndarray, cells: np.ndarray
    ) -> float:
        """Return the smallest eigenvalue of the residual operator among what is missing or left out: 0 is leverage 1.

        A limit as λ → 0 on kernels of full rank is no leverage 1, and has slack 1 here.
        """
        m, q = self.Y.shape
        if self.kind == "independent":
            if self.rows.vanishes:
                return 1.0
            slacks = []
            for j in range(q):
                gone = (self.W[:, j] == 0) | (
                    cells[:, j] if setting == "A" else np.isin(np.arange(m), rows)
                )
                # A task without labels is predicted 0, or has no constant.
                slacks.append(1.0 if gone.all() else self.rows.slack(np.flatnonzero(gone)))
            return min(slacks)
        assert self.columns is not None
        gone = self.W == 0
        if setting == "A":
            gone = gone | cells
        if setting in "BD":
            gone[rows] = True
        if setting in "CD":
            gone[:, columns] = True
        if self.kind == "kronecker":
            if self.constant:
                return 1.0
            if self.rows.alpha > 0:
                alpha = LONG(self.rows.alpha)
                R = alpha * least_squares(np.kron(self.rows.K, self.columns.K), self.rows.alpha)
            elif self.rows.vanishes and self.columns.vanishes:
                return 1.0
            else:
                H = np.kron(
                    *(side.K @ least_squares(side.K, 0.0) for side in (self.rows, self.columns))
                )
                R = np.eye(len(H)) - H
        else:
            if self.rows.vanishes and self.columns.vanishes:
                return 1.0
            R = _pair_residual((self.rows.H, self.rows.R), (self.columns.H, self.columns.R))
        where = np.flatnonzero(gone.reshape(-1))
        return float(eigenvalues(R[np.ix_(where, where)])[0]) if len(where) else 1.0

    def perturbed(self, rng: np.random.Generator, size: float) -> Model:
        """Return the model of kernels that differ by rounding, as a backward stable method would see them."""
        # What else is drawn, without a change of later draws.
        other = rng.spawn(1)[0]
        # Eigenvalues of the kernels with the constant of Kronecker ridge regression have an error
        # of ε‖K + 11ᵀ‖.
        one = float(self.kind == "kronecker" and self.constant)
        rows = _perturbed(self.rows, rng, other, size, one)
        if self.columns is None:
            return replace(self, rows=rows, rounding=(other, size))
        if self.columns is self.rows:
            columns = rows
        else:
            columns = _perturbed(self.columns, rng, other, size, one)
        noise = None
        pair_noise = None
        if self.kind == "kronecker" and not (self.W == 1).all():
            # With holes there is no spectrum of the pairs: a dense system is rounded as a whole.
            noise = size * rng.standard_normal((self.Y.size, self.Y.size))
            noise = (noise + noise.T).astype(LONG)
        elif self.kind != "kronecker" and (not (self.W == 1).all() or not self.is_ridge):
            # Up to a condition of 10⁹ the system of the cells is solved; beyond, no digit need be
            # lost.
            least = _least_residual(self.rows, self.columns)
            share = size if least > 1e-9 else float(np.finfo(LONG).eps)
            noise = share * _symmetric(other, self.Y.size)
            if self.weights is not None and self.is_ridge and float(self.W.max()) <= 1e9 * least:
                # The dense system of weighted labels has the error ε‖P‖ of the pairwise kernel P.
                pair_noise = noise / LONG(least)
        return replace(
            self,
            rows=rows,
            columns=columns,
            noise=noise,
            pair_noise=pair_noise,
            rounding=(other, size),
        )


def _perturbed(
    side: Side, rng: np.random.Generator, other: np.random.Generator, size: float, one: float = 0.0
) -> Side:
    """Return a side with a rounded kernel, to which `one` is added before it is decomposed."""
    noise = _symmetric(rng, len(side.K))
    # Operators of other filters are formed from a spectrum; those of ridge regression are solved
    # for, here with few digits more.
    share = float(np.finfo(LONG).eps) if side.filter == "tikhonov" else size
    side = replace(side, noise=share * _symmetric(other, len(side.K)))
    if side.interpolates and is_singular(side.seen):
        # The range stays what it is: the pseudo-inverse is not continuous.
        factor = np.eye(len(side.K), dtype=LONG) + LONG(size) * noise
        return replace(side, K=factor @ side.K @ factor.T)
    norm = float(np.abs(eigenvalues(side.K + one)).max(initial=0.0))
    return replace(side, K=side.K + LONG(size * norm) * noise)


def _least_residual(rows: Side, columns: Side) -> float:
    """Return the smallest eigenvalue of I − H ⊗ H', but for that of a mean."""
    left, right = (np.clip(eigenvalues(side.R), 0.0, 1.0) for side in (rows, columns))
    both = np.sort((left[:, None] + (1 - left[:, None]) * right).reshape(-1))
    both = both[1:] if rows.constant else both
    return float(both[0]) if len(both) else 1.0


def _symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a random symmetric matrix of a norm of about one."""
    noise = rng.standard_normal((n, n))
    return ((noise + noise.T) / (2 * np.sqrt(max(n, 1)))).astype(LONG)


def _column(side: Side, rows: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the predictions of one task on its own."""
    if side.filter == "tikhonov":
        o = np.flatnonzero(w)
        if not o.size:
            return np.full(len(rows), np.nan if side.constant else 0.0, dtype=LONG)
        dual, mean = _ridge(side.K[np.ix_(o, o)], side.alpha, y[o], w[o], side.constant)
        return rows[:, o] @ dual + mean
    if not w.any():
        return np.full(len(rows), np.nan if side.constant else 0.0, dtype=LONG)
    g = _labels_of_fit(side, None, y[:, None], w[:, None])[:, 0]
    if side.vanishes and not side.constant:
        return rows @ solve(side.K, g)
    return side.predictor(rows) @ g


def _ridge(
    kernel: np.ndarray, alpha: float, y: np.ndarray, w: np.ndarray, constant: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return dual coefficients of weighted labels, and the constant beside them, 0 where there is none."""
    if not constant:
        root = _roots(kernel, alpha, w)
        return root * (least_squares(root[:, None] * kernel * root, alpha) @ (root * y)), LONG(0)
    basis = complement(np.ones(len(y)))
    root = _roots(basis.T @ kernel @ basis, alpha, w)
    basis = complement(root)
    weighted = basis.T @ (root[:, None] * kernel * root) @ basis
    dual = root * (basis @ (least_squares(weighted, alpha) @ (basis.T @ (root * y))))
    return dual, (root**2 @ (y - kernel @ dual)) / (root**2).sum()


def _roots(kernel: np.ndarray, alpha: float, w: np.ndarray) -> np.ndarray:
    """Return the roots of weights, which say nothing where all labels can be met, and would spoil the rank there."""
    if alpha == 0 and not is_singular(kernel):
        return np.ones(len(w), dtype=LONG)
    return np.sqrt(w)


def _pairs(
    K: np.ndarray,
    G: np.ndarray,
    alpha: float,
    Y: np.ndarray,
    W: np.ndarray,
    noise: np.ndarray | None,
    constant: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dual coefficients of ridge regression on the observed pairs, and the mean beside it."""
    dual = np.zeros(Y.size, dtype=LONG)
    mean = LONG(0)
    w = W.reshape(-1)
    o = np.flatnonzero(w)
    if o.size:
        i, j = np.unravel_index(o, Y.shape)
        kernel = K[np.ix_(i, i)] * G[np.ix_(j, j)]
        if noise is not None and (alpha > 0 or not is_singular(kernel)):
            root = _roots(kernel, alpha, w[o])
            size = np.abs(root[:, None] * kernel * root).max()
            kernel = kernel + noise[np.ix_(o, o)] * size / (root[:, None] * root)
        dual[o], mean = _ridge(kernel, alpha, Y.reshape(-1)[o], w[o], constant)
    return dual.reshape(Y.shape), mean


def _pair_residual(rows: tuple, columns: tuple) -> np.ndarray:
    """Return I − H ⊗ H' as a sum of positive parts."""
    H, R = rows
    _, task_R = columns
    return np.kron(R, np.eye(len(task_R), dtype=LONG)) + np.kron(H, task_R)


def _labels_of_fit(
    rows: Side, columns: Side | None, Y: np.ndarray, W: np.ndarray, *noises: Any
) -> np.ndarray:
    return _solve_grid(
        rows.operators, None if columns is None else columns.operators, Y, W, *noises
    )


def _solve_grid(
    rows: Operators,
    columns: Operators | None,
    Y: np.ndarray,
    W: np.ndarray,
    noise: np.ndarray | None = None,
    pair_noise: np.ndarray | None = None,
) -> np.ndarray:
    """Solve (W H + R) g = W y; where the residual operator vanishes, with the limit of its direction."""
    if (W == 1).all():
        return Y
    w = W.reshape(-1)
    y = Y.reshape(-1)
    if columns is None:
        H = rows.H
        residual = rows.R
        limit = rows.limit
        definite = rows.definite
    else:
        eye, task_eye = (np.eye(len(side.H), dtype=LONG) for side in (rows, columns))
        H = np.kron(rows.H, columns.H)
        residual = _pair_residual((rows.H, rows.R), (columns.H, columns.R))
        definite = rows.is_definite_with(columns)
        limit = None
        if rows.limit is not None and columns.limit is not None:
            limit = np.kron(rows.limit, task_eye) + np.kron(eye, columns.limit)
    if noise is not None:
        residual = residual + np.abs(residual).max() * noise
        limit = None if limit is None else limit + np.abs(limit).max() * noise
    if pair_noise is not None:
        H = H + pair_noise @ residual
    if limit is not None:
        # In the limit observed labels are met, and the hidden ones follow.
        residual = limit
        system = np.where(w[:, None] > 0, np.eye(len(w), dtype=LONG), residual)
        right = np.where(w > 0, y, 0)
    else:
        system = w[:, None] * H + residual
        right = w * y
    gone = np.flatnonzero(w == 0)
    if (
        len(gone)
        and limit is None
        and not definite
        and eigenvalues(residual[np.ix_(gone, gone)])[0] < SLACK
    ):
        raise UndefinedError("the missing labels are not determined: leverage 1")
    has_constant = rows.constant or (columns is not None and columns.constant)
    if (
        len(gone)
        and limit is None
        and has_constant
        and eigenvalues(residual[np.ix_(gone, gone)])[0] < LEAST_SLACK
    ):
        raise UndefinedError("the reference loses the digits of missing labels beside a constant")
    try:
        return solve(system, right).reshape(Y.shape)
    except ZeroDivisionError as error:
        raise UndefinedError(str(error)) from None
