r"""Two-step ridge regression: one regression over the instances, then one over the tasks.

The labels are smoothed from the left and from the right, :math:`\mathbf{H} =
\mathbf{H}_g\otimes\mathbf{H}_k` and
:math:`\mathbf{R} = \mathbf{R}_k\otimes\mathbf{I} + \mathbf{H}_k\otimes\mathbf{R}_g` (instances first). It is ridge
regression on pairs with the kernel :math:`(1-\rho)/\rho` in the rotated labels and a ridge of one,
where
:math:`\rho_{ij} = \rho_i + f_i\rho'_j`.

Everything held out is (instance operator) Y (task operator). With :math:`\mathbf{H}` the hat matrix
and
:math:`\mathbf{L}` the leave-one-out operator of a side,

==========  ==================================================
B           :math:`\mathbf{L}_k\mathbf{Y}\mathbf{H}_g`
C           :math:`\mathbf{H}_k\mathbf{Y}\mathbf{L}_g^\top`
D           :math:`\mathbf{L}_k\mathbf{Y}\mathbf{L}_g^\top`
==========  ==================================================

and A is the one case where the sides are coupled:

.. math:: F_A = \frac{\mathbf{H}_k^\circ\mathbf{Y}\mathbf{H}_g
                           + \mathrm{diag}(\mathbf{h}_k)\mathbf{Y}\mathbf{H}_g^\circ}
                     {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}.

These are Corollaries 2 (A), 3 (B), 4 (C) and 5 (D) of the paper. With Tikhonov's filter, B, C and D
equal refitting without the rows and columns. With any other filter, the penalty of the complete
kernel is kept, and the left-out labels are imputed so that the fit reproduces them (transductive
hold-out). A is always transductive, since two-step is defined on full grids: the left-out cell is
imputed by the value that the model fitted with it returns.

Two-step is a model of the whole grid: the features of an instance influence it even if all labels
of the instance are missing. Where labels are missing, settings B, C and D therefore remove the
held-out instance or task from the kernel and predict it as a new one. With a filter other than
Tikhonov's the penalty of all rows is kept, see `dyadlearn.solve.operators`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    cached_blocks,
    epsilon,
    is_foreign,
    largest,
    namespace,
    take_rows,
    to_numpy,
    values_in,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._rounding import ratio, settle
from dyadlearn.labels import Labels, Places
from dyadlearn.leverage import check_cells
from dyadlearn.pairing import full, incomplete
from dyadlearn.pairing.base import Coupled, Pairing
from dyadlearn.pairing.certainty import Jackknife, side_jackknife
from dyadlearn.pairing.dense import Masks, OfHidden, Sides, fitted_without, refit_block, refit_cells
from dyadlearn.pairing.expansion import Asked, Expansion, Part, hat_row
from dyadlearn.pairing.full import Stack, Sweep
from dyadlearn.pairing.incomplete import Axes
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_block, leave_one_out_beside_block, loses_digits
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.directions import suit_directions
from dyadlearn.solve.leaving import Members, in_order, leave_out
from dyadlearn.solve.missing import Completion, centred_labels, nothing_observed
from dyadlearn.solve.observed import complete_grid
from dyadlearn.solve.operators import SideProduct, common_floor, predict_others, reduced, without
from dyadlearn.spectrum import Smoother
from dyadlearn.vectrick import entries_at

# Position of λ_t, setting and predictions of shape (n, m, q).
_Stacks = Iterator[tuple[int, Setting, Array]]


@dataclass(frozen=True, eq=False)
class TwoStepSweep(Sweep):
    r"""Two-step ridge regression: stacks of many λ_d by one λ_t, or the other way round.

    Every grid point of settings B, C and D is (instance operator) Y (task operator): the left
    products
    :math:`\mathbf{L}_k\mathbf{Y}` are stacked over all :math:`\lambda_d` and multiplied by one task operator at a
    time. Where several settings are asked for, all four come from the one product
    :math:`D = \mathbf{L}_k\mathbf{Y}\mathbf{L}_g^\top`, since
    :math:`\mathbf{H} = \mathrm{diag}(\mathbf{e})\mathbf{L} + \mathrm{diag}(\mathbf{h})`:

    .. math::
       B &= D\,\mathrm{diag}(\mathbf{e}_g) + \mathbf{L}_k\mathbf{Y}\,\mathrm{diag}(\mathbf{h}_g) \\
       C &= \mathrm{diag}(\mathbf{e}_k)\,D +
       \mathrm{diag}(\mathbf{h}_k)\,\mathbf{Y}\mathbf{L}_g^\top \\ A &= \frac{\mathbf{e}_k\circ B +
       \mathbf{h}_k\mathbf{e}_g^\top\circ\mathbf{Y}\mathbf{L}_g^\top}
                 {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}

    The sums have terms of similar size, so that results are accurate for small and for large
    regularisation.

    Squared error needs no grid point at all: with P the instance and Q the task operator,

    .. math:: \|\mathbf{PYQ}-\mathbf{Y}\|^2 = \langle(\mathbf{PY})^\top\mathbf{PY}, \mathbf{QQ}^\top\rangle
              - 2\langle(\mathbf{PY})^\top\mathbf{Y}, \mathbf{Q}\rangle + \|\mathbf{Y}\|^2,

    and if Q is a hat matrix, as in B, only sums over the columns of :math:`\mathbf{PYV}` are
    needed: one product for each :math:`\lambda_d`. C is B with the sides exchanged.
    """

    model: TwoStep

    @cached_property
    def transposed(self) -> TwoStepSweep:
        """Sweep of the transposed labels, in which tasks are the instances."""
        groups = (self.task_members, self.members)
        return TwoStepSweep(self.model.transposed, self.Y.T, self.task_alphas, self.alphas, *groups)

    @property
    def _is_wide(self) -> bool:
        """Whether the transposed problem costs less: products are m × q by q × q, and q should be the smaller side."""
        return bool(self.Y.shape[0] < self.Y.shape[1])

    @cached_property
    def _rows(self) -> list[Smoother]:
        return [self.model.rows.at(alpha) for alpha in self.alphas]

    @cached_property
    def _columns(self) -> list[Smoother]:
        return [self.model.columns.at(alpha) for alpha in self.task_alphas]

    @cached_property
    def _rotated(self) -> Array:
        return self.model.rows.spectrum.rotate(self.Y)

    def check_memory(self, settings: Sequence[Setting], per_stack: int, *, squared: bool) -> None:
        """Raise if stacks of predictions, or the operators of the closed form of squared error, do not fit."""
        Y = self.Y
        n_alphas = (len(self.alphas), len(self.task_alphas))
        closed = [setting for setting in settings if squared and setting is not Setting.A]
        m, q = Y.shape
        small = min(m, q)
        # Operators of the closed form and their squares, of the smaller side.
        operators = 0.0
        if closed:
            operators = values_in((4, sum(n_alphas), small, small), (7, m, q))
        # Left products, predictions and intermediate arrays of scores, for one setting or for
        # several.
        n_formed = min(len(settings) - len(closed), 2)
        stacks = values_in((4, n_formed, min(max(n_alphas), per_stack), m, q))
        check_memory(
            array_bytes(Y, max(operators, stacks), (4, m, q)),
            Y,
            f"A landscape of {n_alphas[0]} × {n_alphas[1]} regularisations of a grid of {m} × {q}",
            "try fewer regularisations at a time, a smaller max_memory, or fewer rows",
        )

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        """Yield predictions for all regularisations, as many at a time as memory allows."""
        if self._is_wide:
            mirrored = self.transposed.walk([asked.transposed for asked in settings], per_stack)
            for rows, columns, setting, stack in mirrored:
                yield (
                    columns,
                    rows,
                    setting.transposed,
                    namespace(stack).permute_dims(stack, (0, 2, 1)),
                )
            return
        has_groups = self.members is not None or self.task_members is not None
        if has_groups or len(settings) <= 1:
            predict = self._separate
        else:
            predict = self._derived
        for start in range(0, len(self._rows), per_stack):
            rows = slice(start, min(start + per_stack, len(self._rows)))
            for column, setting, stack in predict(self._rows[rows], settings):
                yield rows, column, setting, stack
        if Setting.A in settings:
            # If both regularisations are zero, A is a separate limit.
            both_zero = np.logical_and.outer(
                np.equal(self.alphas, 0), np.equal(self.task_alphas, 0)
            )
            for row, column in np.argwhere(both_zero):
                both = full.hold_out(self.model.at(0.0, 0.0), self.Y, Setting.A)
                yield slice(int(row), int(row) + 1), int(column), Setting.A, both[None, ...]

    def _left_out(self, side: Smoother) -> Array:
        """Return LY, shape (m, q)."""
        return leave_out(side, self.Y, self.members, self._rotated)

    def _stack(self, product: Callable[[Smoother], Array], sides: Sequence[Smoother]) -> Array:
        """Return one product for each side, shape (n, m, q)."""
        return namespace(self.Y).stack([product(side) for side in sides])

    def _separate(self, sides: Sequence[Smoother], settings: Sequence[Setting]) -> _Stacks:
        """Yield (index of λ_t, setting, predictions of shape (n, m, q)), with one product for each setting."""
        if Setting.A in settings:
            yield from self._pairs(sides)
        if any(0 in setting.new for setting in settings):
            new = self._stack(self._left_out, sides)
        else:
            new = None
        if Setting.C in settings:
            known = self._stack(lambda side: side.smooth(self.Y, self._rotated), sides)
        else:
            known = None
        for index, side in enumerate(self._columns):
            for setting in [setting for setting in settings if setting is not Setting.A]:
                operator = _task_operator(side, 1 in setting.new, self.task_members)
                yield index, setting, _product(new if 0 in setting.new else known, operator)

    def _pairs(self, sides: Sequence[Smoother]) -> _Stacks:
        """Yield setting A alone, from the off-diagonal hats."""
        left = self._stack(lambda side: side.smooth_others(self.Y, self._rotated)[1], sides)
        for index, side in enumerate(self._columns):
            others = side.smooth_others(self.Y.T)[1].T
            stack = _product(left, side.hat())
            for a, rows in enumerate(sides):
                _divide_pairs(stack[a, ...], rows, side, others)
            yield index, Setting.A, stack

    def _derived(self, sides: Sequence[Smoother], settings: Sequence[Setting]) -> _Stacks:
        """Yield as `_separate`, with one product for all settings; other settings follow from it grid by grid."""
        left = self._stack(self._left_out, sides)
        known = zeros(left.shape, left) if Setting.C in settings else None
        for index, side in enumerate(self._columns):
            both = _product(left, _task_operator(side, True, None))
            if Setting.D in settings:
                yield index, Setting.D, both
            half = side.leave_one_out(self.Y.T).T
            if known is not None:
                for a, rows in enumerate(sides):
                    known[a, ...] = (
                        rows.slack[:, None] * both[a, ...] + rows.leverage[:, None] * half
                    )
                yield index, Setting.C, known
            if Setting.A in settings or Setting.B in settings:
                for a in range(len(sides)):
                    both[a, ...] *= side.slack
                    both[a, ...] += side.leverage * left[a, ...]
            if Setting.B in settings:
                yield index, Setting.B, both
            if Setting.A in settings:
                others = half * side.slack
                for a, rows in enumerate(sides):
                    both[a, ...] *= rows.slack[:, None]
                    _divide_pairs(both[a, ...], rows, side, others)
                yield index, Setting.A, both

    def squared_errors(
        self, settings: Sequence[Setting], per_stack: int
    ) -> dict[Setting, np.ndarray]:
        """Return mean squared errors of B, C and D without computing predictions."""
        if self._is_wide:
            mirrored = self.transposed.squared_errors(
                [asked.transposed for asked in settings], per_stack
            )
            return {setting.transposed: errors.T for setting, errors in mirrored.items()}
        # Errors do not depend on a constant that is added to all labels, but the accuracy of their
        # squares does.
        if self.model.free_mean:
            centred = replace(self, Y=self.Y - namespace(self.Y).mean(self.Y))
        else:
            centred = self
        sums = {
            Setting.B: lambda: centred._errors_of_known_tasks(),
            Setting.C: lambda: centred.transposed._errors_of_known_tasks().T,
            Setting.D: lambda: centred._errors_of_new_tasks(per_stack),
        }
        return {
            setting: sums[setting]() / math.prod(self.Y.shape)
            for setting in settings
            if setting in sums
        }

    def _errors_of_known_tasks(self) -> np.ndarray:
        """Return sums of squared errors (n, n_tasks) of setting B, with the tasks rotated: their hats are diagonal."""
        xp = namespace(self.Y)
        spectrum = self.model.columns.spectrum
        labels = spectrum.rotate(self.Y.T).T
        rotated = self.model.rows.spectrum.rotate(labels)
        total = xp.sum(labels * labels)
        shrinkages = xp.stack([side.shrinkage for side in self._columns])
        sums = []
        for side in self._rows:
            left = leave_out(side, labels, self.members, rotated)
            fitted = shrinkages**2 @ xp.sum(left * left, axis=0)
            with_labels = shrinkages @ xp.sum(left * labels, axis=0)
            sums.append(xp.stack([fitted - 2.0 * with_labels + total, fitted]))
        # Predictions for training tasks are zero outside of a truncated spectrum.
        if spectrum.is_truncated:
            outside = float(xp.sum((self.Y - labels @ spectrum.vectors.T) ** 2))
        else:
            outside = 0.0
        errors, terms = np.moveaxis(to_numpy(xp.stack(sums)), 1, 0)
        return self._settled(errors + outside, np.maximum(float(total), terms), Setting.B)

    def _errors_of_new_tasks(self, per_stack: int) -> np.ndarray:
        """Return sums of squared errors (n, n_tasks) of setting D."""
        xp = namespace(self.Y)
        m, q = self.Y.shape
        operators = xp.stack(
            [_task_operator(side, True, self.task_members) for side in self._columns]
        )
        squares = operators @ xp.permute_dims(operators, (0, 2, 1))
        total = xp.sum(self.Y * self.Y)
        sizes = _norms(squares)
        sums = []
        step = max(1, 2 * per_stack * m // q)
        for start in range(0, len(self._rows), step):
            rows = self._rows[start : start + step]
            grams, crosses = (zeros((len(rows), q, q), self.Y) for _ in range(2))
            for row, side in enumerate(rows):
                left = self._left_out(side)
                grams[row, ...] = left.T @ left
                crosses[row, ...] = left.T @ self.Y
            errors = (
                _inner_products(grams, squares) - 2.0 * _inner_products(crosses, operators) + total
            )
            sums.append(xp.stack([errors, _norms(grams)[:, None] * sizes]))
        errors, terms = to_numpy(xp.concat(sums, axis=1))
        return self._settled(errors, np.maximum(float(total), terms), Setting.D)

    def _settled(self, errors: np.ndarray, terms: np.ndarray, setting: Setting) -> np.ndarray:
        """Return sums of squared errors, recomputed from the predictions where the difference of terms lost digits.

        These are errors below a share of the terms: six of sixteen digits are lost, or three of
        seven.
        """
        doubtful = 1e-6 if epsilon(self.Y) < 1e-10 else 1e-3
        errors = errors.copy()
        for row, column in np.argwhere(errors < doubtful * terms):
            model = self.model.at(self.alphas[row], self.task_alphas[column])
            held_out = full.hold_out(model, self.Y, setting, *self._groups(setting))
            errors[row, column] = float(namespace(self.Y).sum((held_out - self.Y) ** 2))
        return errors


def _divide_pairs(grid: Array, rows: Smoother, columns: Smoother, others: Array) -> None:
    """Replace H°_k Y H_g by the predictions of setting A, in place; `others` is Y H°_g."""
    if rows.remainder_limit is not None and columns.remainder_limit is not None:
        return  # both regularisations are zero, which `walk` computes separately
    h = rows.leverage[:, None]
    e = rows.slack[:, None]
    if floor := common_floor(rows, columns):
        check_cells(e + h * columns.slack, floor)
    # Blocks whose arrays stay in the cache of a processor take a third of the time.
    for here in cached_blocks(grid.shape[0], grid, (4, grid.shape[1])):
        block = grid[here, :]
        block += h[here, :] * others[here, :]
        block /= e[here, :] + h[here, :] * columns.slack


def _product(stack: Array, operator: Array) -> Array:
    """Return the product of every grid of a stack (n, m, q) with one operator (q, q)."""
    xp = namespace(stack)
    n, m, q = stack.shape
    return xp.reshape(xp.reshape(stack, (n * m, q)) @ operator, (n, m, q))


def _task_operator(side: Smoother, is_new: bool, members: Members) -> Array:
    """Return the dense operator that acts on the tasks from the right, shape (q, q)."""
    if not is_new:
        return side.hat()
    if members is None:
        side = side.scaled()
        side.check_slack()
        return side.off_diagonal() / side.slack  # the transpose of L, since the hat is symmetric
    values = side.spectrum.values
    identity = namespace(values).eye(side.spectrum.n_rows, dtype=values.dtype, device=values.device)
    return leave_out(side, identity, members).T


def _inner_products(left: Array, right: Array) -> Array:
    """Return the inner products (n, p) of two stacks of matrices, (n, a, b) and (p, a, b)."""
    xp = namespace(left)
    if not is_foreign(left):
        return xp.reshape(left, (left.shape[0], -1)) @ xp.reshape(right, (right.shape[0], -1)).T
    # A product of few long rows by few long columns uses a small part of an accelerator.
    rows = [
        xp.stack([xp.sum(left[a, ...] * right[b, ...]) for b in range(right.shape[0])])
        for a in range(left.shape[0])
    ]
    return xp.stack(rows)


def _norms(stack: Array) -> Array:
    """Return the norm of each matrix of a stack, (n,)."""
    xp = namespace(stack)
    squares = [xp.sum(stack[a, ...] ** 2) for a in range(stack.shape[0])]
    return xp.stack(squares) ** 0.5


# Main effects with more than this many times the kernel values of interactions are a border of the
# system.
_OUTWEIGHS = 100.0
# Largest factor of rounding errors by coefficients that contain the spectral weights of both sides.
_MOST_REACH = 1e4


@dataclass(frozen=True, eq=False)
class TwoStep(Coupled):
    """Two-step ridge regression, with a filter and a regularisation for each side."""

    words: ClassVar[str] = "two-step ridge regression"
    takes_pairs: ClassVar[bool] = True

    rows: Smoother
    columns: Smoother
    #: For each side: multiplication by H or by I − H, whichever is smaller, if models share it.
    shared: tuple[SideProduct, SideProduct] | None = field(default=None, kw_only=True)

    # --- sides and regularisation ---------------------------------------------------------------------

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Operators of instances and tasks."""
        return self.rows, self.columns

    def at(self, *alphas: Any) -> Self:
        """Return the same model with another regularisation of the instances, or of both sides."""
        rows = self.rows.at(alphas[0])
        if len(alphas) > 1:
            columns = self.columns.at(alphas[1])
        else:
            columns = self.columns
        return replace(self, rows=rows, columns=columns, shared=None)

    @property
    def transposed(self) -> TwoStep:
        """Model of the transposed labels, in which tasks are the instances."""
        return TwoStep(self.columns, self.rows)

    # --- operators ----------------------------------------------------------------------------------

    @cached_property
    def hat_is_identity(self) -> bool:
        """Whether λ = 0 at full rank on both sides: hat matrices are identities, and residuals defined up to scale."""
        return self.rows.remainder_limit is not None and self.columns.remainder_limit is not None

    @cached_property
    def scaled(self) -> tuple[Smoother, Smoother]:
        """Smoothers of both sides, with scaled residuals that do not vanish."""
        if self.hat_is_identity:
            return self.rows.scaled(), self.columns.scaled()
        return self.rows, self.columns

    @property
    def ridge(self) -> float:
        """The ridge: 1, or 0 if `hat_is_identity`."""
        return 0.0 if self.hat_is_identity else 1.0

    @property
    def prefers_residual(self) -> bool:
        """Whether both sides prefer the residual."""
        return all(side.prefers_residual for side in self.scaled)

    @cached_property
    def floor(self) -> float:
        """Lower bound of slacks; 0 if all directions are penalised."""
        return common_floor(*self.scaled)

    @property
    def residual_cost(self) -> float:
        """Multiplications in one product on each side."""
        return SideProduct.cost(*self.grid_spectra)

    @cached_property
    def shrinkage(self) -> Array:
        r"""The hat in the rotated labels, :math:`f_if'_j`, shape (k, l)."""
        rows, columns = self.scaled
        return rows.shrinkage[:, None] * columns.shrinkage[None, :]

    @cached_property
    def remainder(self) -> Array:
        r"""The residual in the rotated labels, :math:`\rho_i + f_i\rho'_j`, shape (k, l)."""
        rows, columns = self.scaled
        kept = 1.0 if self.hat_is_identity else rows.shrinkage[:, None]
        return rows.remainder[:, None] + kept * columns.remainder[None, :]

    @cached_property
    def _products(self) -> tuple[SideProduct, SideProduct]:
        """For each side: multiplication by H or by I − H, whichever is smaller."""
        if self.shared is not None and not self.hat_is_identity:
            return self.shared
        rows, columns = self.scaled
        return _smaller(rows), _smaller(columns)

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        if self.hat_is_identity:
            return grid
        return self.rows.smooth(self.columns.smooth(grid.T).T)

    def residual(self, grid: Array) -> Array:
        """Return the grid minus the fitted grid, without loss of digits."""
        left, right = self._products
        rows, columns = self.scaled
        product = right.right(grid)
        difference = grid - product
        if columns.prefers_residual:
            rest, kept = (product, difference)
        else:
            rest, kept = (difference, product)
        if self.hat_is_identity:
            kept = grid
        image = left.left(kept)
        if not rows.prefers_residual:
            image *= -1.0
            image += kept
        image += rest
        return image

    def part_diagonal(self, *, hat: bool) -> Array:
        """Return the diagonal of the hat, or of the residual operator, shape (m, q)."""
        rows, columns = self.scaled
        leverage = rows.leverage[:, None]
        if hat:
            return leverage * columns.leverage
        kept = 1.0 if self.hat_is_identity else leverage
        return rows.slack[:, None] + kept * columns.slack

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        return self.between((rows, columns), (rows, columns), hat=False)

    def _side_block(self, axis: int, first: np.ndarray, second: np.ndarray, *, hat: bool) -> Array:
        """Return the hat, or the residual operator, of a side between some rows and others.

        For λ = 0 at full rank, the hat is the identity.
        """
        side = self.scaled[axis]
        if hat and self.hat_is_identity:
            like = side.remainder
            return as_array_of(first[:, None] == second, like, like.dtype)
        return side.between(first, second, hat=hat)

    def between(self, first: Places, second: Places, *, hat: bool) -> Array:
        """Return the hat, or the residual operator, between some cells and others, shape (s, n)."""
        (rows, columns), (task_rows, task_columns) = zip(first, second, strict=True)
        row_hat = self._side_block(0, rows, columns, hat=True)
        if hat:
            return row_hat * self._side_block(1, task_rows, task_columns, hat=True)
        block = row_hat * self._side_block(1, task_rows, task_columns, hat=False)
        same_task = task_rows[:, None] == task_columns[None, :]
        if same_task.any():
            row_residual = self._side_block(0, rows, columns, hat=False)
            block = block + as_array_of(same_task, block, block.dtype) * row_residual
        return block

    def split_kernel(
        self, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[Array, Array | None, Array | None]:
        """Return the kernel between some cells (n, n) without large main effects, and these as a border.

        If the regularisation of a side is tiny, its main effects are almost unpenalised. Their part
        of the kernel is so large that the rest would be lost in rounding.
        """
        if not self.free_mean:
            return super().split_kernel(rows, columns)
        xp = namespace(self.kernel_values)
        values = self.kernel_values
        known = to_numpy(values)
        inside = known[:-1, :-1].max(initial=0.0)
        free = np.zeros(known.shape, dtype=bool)
        free[-1, :], free[:, -1] = (
            known[-1, :] > _OUTWEIGHS * inside,
            known[:, -1] > _OUTWEIGHS * inside,
        )
        if np.count_nonzero(free) >= rows.size:  # more than these cells determine
            free[:] = False
        free[-1, -1] = True
        penalised = xp.where(as_array_of(free, values), 0.0, values)
        block = self.block(penalised, rows, columns)
        first, second = np.nonzero(free)
        vectors, task_vectors = self.vectors
        left = take_rows(take_rows(vectors.T, first).T, rows)
        right = take_rows(take_rows(task_vectors.T, second).T, columns)
        free_values = entries_at(values, first, second)
        return block, left * right, ratio(1.0, free_values)

    # --- complete labels ----------------------------------------------------------------------------

    @cached_property
    def _absorbed(self) -> tuple[bool, bool]:
        """Whether the coefficients contain the spectral weights of instances and of tasks.

        If a side is in the dual, or coefficients of both would lose digits, they do not contain
        those of the smaller side, see `dyadlearn.pairing.expansion`.
        """
        is_primal = all(spectrum.components is not None for spectrum in self.grid_spectra)
        if is_primal and _reach(self.rows) * _reach(self.columns) <= _MOST_REACH:
            return True, True
        first, second = (spectrum.n_coefficients for spectrum in self.grid_spectra)
        return second <= first, first < second

    def expansion(self, coefficients: Array) -> Expansion:
        """Return predictions for new rows from coefficients."""
        sides = zip((self.rows, self.columns), self._absorbed, strict=True)
        return Expansion(
            coefficients,
            *(Part(side.spectrum, None if absorbed else side) for side, absorbed in sides),
        )

    def coefficients(self, Y: Array) -> Array:
        r"""Return the coefficients, with the spectral weights of absorbed sides only.

        .. math:: \mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}\mathbf{V}\,
                  \varphi_t(\mathbf{S})\,\mathbf{B}_g^\top
        """
        return self._of_rotated(self.rotated(Y))

    def coefficients_of(self, spectral: Array, mean: float) -> Array:
        """Return the coefficients of a function from its values along pairs of directions, see `Coupled`."""
        copy = replace(self)
        values = spectral * copy.kernel_values**0.5
        if self.free_mean:
            values[-1, -1] = mean * math.sqrt(self.n_cells)
        # Rotated labels of which the function is the fit.
        return self._of_rotated(ratio(values, copy.shrinkage))

    def _of_rotated(self, rotated: Array) -> Array:
        """Return coefficients from rotated labels, which may be overwritten."""
        rows = self.rows
        columns = self.columns
        if self._absorbed[0]:
            rotated *= rows.phi[:, None]
            rotated = rows.spectrum.lift(rotated)
        if self._absorbed[1]:
            rotated *= columns.phi[None, :]
            rotated = columns.spectrum.lift(rotated.T).T
        return rotated

    def dual(self, Y: Array) -> Array:
        r"""Return :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}(\mathbf{G}+\lambda_t\mathbf{I})^{-1}`."""
        return self.columns.dual(self.rows.dual(Y).T).T


@full.holdout_grids.register(TwoStep)
def _holdout_grids(model: TwoStep) -> tuple[float, float]:
    return (15.0 if model.symmetry else 5.5), 0.0


full.sweep.register(TwoStep, TwoStepSweep)


@full.hold_out_stack.register(TwoStep)
def _hold_out_stack(model: TwoStep, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return hold-out predictions; grids are concatenated along the tasks for the instances, and the reverse."""
    if setting is Setting.A and model.hat_is_identity:
        return full.each_grid(partial(pairs_without_ridge, model.rows, model.columns), stack)
    (n, m, q), rows, columns, xp = stack.shape, model.rows, model.columns, namespace(stack)
    members, task_members = groups or (None, None)

    def side_by_side(turned: Array) -> Array:
        """Return results of the step over the tasks (q, n m) as targets of the step over the instances (m, n q)."""
        return xp.reshape(xp.permute_dims(xp.reshape(turned.T, (n, m, q)), (1, 0, 2)), (m, n * q))

    below = xp.reshape(stack, (n * m, q)).T
    if setting is Setting.A:
        smoothed, others = (side_by_side(grids) for grids in columns.smooth_others(below))
        held_out = rows.smooth_others(smoothed)[1]
        held_out += rows.leverage[:, None] * others
        slack = full.cell_slack(model)
        check_cells(slack, model.floor)
    else:
        half = side_by_side(
            leave_out(columns, below, task_members) if 1 in setting.new else columns.smooth(below)
        )
        if 0 in setting.new:
            held_out = leave_out(rows, half, members)
        else:
            held_out = rows.smooth(half)
    held_out = xp.permute_dims(xp.reshape(held_out, (m, n, q)), (1, 0, 2))
    if setting is Setting.A:
        held_out /= slack
    return held_out


@full.jackknife.register(TwoStep)
def _jackknife(model: TwoStep, Y: Array, members: Members = None) -> Jackknife | None:
    """Return the jackknife models, regressions on labels smoothed over the tasks."""
    return side_jackknife(model.rows, model.columns.smooth(Y.T).T, members)


@full.cell_slack.register(TwoStep)
def slack_of_cells(model: TwoStep) -> Array:
    """Return the diagonal of the residual operator, shape (m, q)."""
    rows, columns = model.scaled
    leverage = 1.0 if model.hat_is_identity else rows.leverage[:, None]
    return rows.slack[:, None] + leverage * columns.slack[None, :]


@full.closed_weights.register(TwoStep)
def _closed_weights(model: TwoStep, row: Asked, column: Asked) -> Array:
    """Return the weights of the instances times those of the tasks; for a network, the mean of both directions."""
    weights = hat_row(model.rows, row)[:, None] * hat_row(model.columns, column)[None, :]
    if model.symmetry:
        return (weights + model.symmetry * weights.T) / 2
    return weights


# Missing or weighted labels --------------------------------------------------------------------------


@incomplete.completion.register(TwoStep)
def _completion(model: TwoStep, Y: Array, weights: Array | None, **options: Any) -> Completion:
    block = _missing_block(Y, weights)
    if block is None or _needs_directions(model, Y, block):
        return complete_grid(replace(model), Y, weights, **options)
    if model.free_mean and math.prod(Y.shape) == block[0].size * block[1].size:
        raise nothing_observed()
    xp = namespace(Y)
    observed = ~namespace(Y).isnan(Y)
    centred, shift = centred_labels(Y, observed) if model.free_mean else (Y, 0.0)
    labels = xp.where(
        observed, Y, complete_block(model.rows, model.columns, centred, *block) + shift
    )
    return Completion(labels, "block", Solution(labels, 0, 0.0, True))


def _needs_directions(model: TwoStep, Y: Array, block: Axes) -> bool:
    """Return whether the closed form of a block would lose digits that a fit of its directions keeps."""
    n_observed = math.prod(Y.shape) - block[0].size * block[1].size
    return suit_directions(model, n_observed) and loses_digits(model.rows, model.columns, *block)


@incomplete.has_formula.register(TwoStep)
def _has_formula(model: TwoStep, labels: Labels, setting: Setting) -> bool:
    """Return whether the missing cells form a block, or the default formula applies, in setting A."""
    has_block = _block_to_leave_beside(model, labels, setting) is not None
    return has_block or incomplete.has_formula.dispatch(Pairing)(model, labels, setting)


@incomplete.leave_one_out.register(TwoStep)
def _leave_one_out(
    model: TwoStep, labels: Labels, setting: Setting, completed: Callable[[], Array]
) -> Array:
    """Return setting A beside a block of missing labels, or by the default formula."""
    block = _block_to_leave_beside(model, labels, setting)
    if block is None:
        return incomplete.leave_one_out.dispatch(Pairing)(model, labels, setting, completed)
    incomplete.check_mean_of_others(model, labels)
    filled = completed()
    shift = namespace(filled).mean(filled) if model.free_mean else 0.0
    return leave_one_out_beside_block(replace(model), *model.scaled, filled - shift, block) + shift


def _block_to_leave_beside(model: TwoStep, labels: Labels, setting: Setting) -> Axes | None:
    """Return the block of missing labels for which setting A has a formula; None for networks."""
    if setting is not Setting.A or model.symmetry or not labels.has_missing:
        return None
    return _missing_block(labels.values, labels.weights)


@incomplete.rows_leave_kernels.register(TwoStep)
def _rows_leave_kernels(model: TwoStep, setting: Setting) -> bool:
    if model.symmetry and setting is not Setting.A:
        raise ValueError(
            f"Setting {setting.value} of a network with missing labels is not supported: leave out "
            f"edges "
            "(setting A), or complete the labels first."
        )
    return setting is not Setting.A


@incomplete.part_of.register(TwoStep)
def _part_of(model: TwoStep, axes: Axes, spectra: Any, sides: Any = None) -> TwoStep:
    if sides is None:
        sides = {}
    parts = []
    for axis, (side, rows) in enumerate(zip((model.rows, model.columns), axes, strict=True)):
        key = (axis, side.alpha, rows.tobytes())
        key_of_rows = (axis, rows.tobytes())
        if key not in sides:
            if side.filter.refits and key_of_rows not in spectra:
                spectra[key_of_rows] = side.spectrum.part(rows)
            refit = side.filter.refits
            if refit:
                part = spectra[key_of_rows].smoother(side.filter, side.alpha)
            else:
                part = reduced(side, rows)
            sides[key] = part, _smaller(part)
        parts.append(sides[key])
    smoothers, products = zip(*parts, strict=True)
    return TwoStep(*smoothers, shared=products)


@incomplete.predict_outside.register(TwoStep)
def _predict_outside(model: TwoStep, axes: Axes, completed: Array) -> Array:
    values = completed.T
    for side, kept in zip((model.columns, model.rows), axes[::-1], strict=True):
        left = without(kept, side.spectrum.n_rows)
        if left.size:
            values = in_order([predict_others(side, kept, values), values], [left, kept]).T
        else:  # all rows are predicted as training rows
            values = side.smooth(values).T
    return values.T


@incomplete.expansion_of_fold.register(TwoStep)
def _expansion_of_fold(model: TwoStep, axes: Axes | None, completed: Array) -> Expansion:
    """Return the predictions for new instances, from targets of training instances and predictions of left-out ones."""
    if axes is None:
        return model.expansion(model.coefficients(completed))
    kept = axes[0]
    spectrum = model.rows.spectrum
    smoothed = model.columns.smooth(completed.T).T
    pieces = [smoothed, predict_others(model.rows, kept, smoothed)]
    targets = in_order(pieces, [kept, without(kept, spectrum.n_rows)])
    return Expansion(model.rows.coefficients(targets), Part(spectrum))


# Reference implementation ----------------------------------------------------------------------------


@refit_block.register(TwoStep)
def _refit_block(
    model: TwoStep, sides: Sides, Y: np.ndarray, kept: Masks, asked: Masks
) -> np.ndarray:
    if model.symmetry:  # a vertex is left out of both sides
        kept = (kept[0] & kept[1],) * 2
    left, right = (
        side.predictor(*masks)
        for side, masks in zip(sides, zip(kept, asked, strict=True), strict=True)
    )
    return np.asarray(left @ Y[np.ix_(*kept)] @ right.T)


@refit_cells.register(TwoStep)
def _refit_cells(model: TwoStep, sides: Sides, Y: np.ndarray) -> OfHidden:
    r"""Return the predictions for hidden cells by the paper's transductive objective over the others.

    The kernel between cells has the eigenvalues :math:`1/(u + v + uv)` with :math:`u =
    \lambda_d/\sigma` and
    :math:`v = \lambda_t/s`, none for a free constant, and a ridge of 1. At :math:`\lambda_d = \lambda_t = 0` they
    are infinite; let both vanish together: λ times the kernel has ridge λ, and tends to
    :math:`1/(1/\sigma + 1/s)` with ridge 0.
    """
    if not all(side.is_ridge for side in sides):

        def impute(hidden: np.ndarray) -> np.ndarray:
            i, j = np.nonzero(hidden)
            H, task_H = (side.hat for side in sides)
            known = (H @ np.where(hidden, 0.0, Y) @ task_H)[hidden]
            return np.asarray(
                np.linalg.solve(np.eye(len(i)) - H[np.ix_(i, i)] * task_H[np.ix_(j, j)], known)
            )

        return impute
    alpha = sides[0].ridge
    task_alpha = sides[1].ridge
    ridge = 1.0
    if alpha == 0 and task_alpha == 0:
        alpha = 1.0
        task_alpha = 1.0
        ridge = 0.0
    u = sides[0].penalties(alpha)[:, None]
    v = sides[1].penalties(task_alpha)[None, :]
    with np.errstate(invalid="ignore"):  # a null direction with a constant: 0 times infinity
        total = u + v + (ridge * u * v if ridge else 0.0)
    kernel = ratio(1.0, np.where(np.isfinite(total), total, 0.0))
    return fitted_without((sides[0].eigh[1], sides[1].eigh[1]), kernel, ridge, Y, model.free_mean)


def _reach(side: Smoother) -> float:
    """Return the largest feature times the largest coefficient of a side, of labels of size one."""
    xp = namespace(side.phi)
    values = side.spectrum.penalised
    roots = xp.where(values > 0, values, 0.0) ** 0.5
    return largest(roots) * largest(roots * side.filter.phi(values, side.alpha))


def _smaller(side: Smoother) -> SideProduct:
    """Return the multiplication by H or by I − H of a side, whichever is smaller."""
    return SideProduct(side.spectrum, side.smaller)


def pairs_without_ridge(rows: Smoother, columns: Smoother, Y: Array) -> Array:
    """Return setting A in the limit of both regularisations to 0 at full rank, where hat matrices are identities."""
    rows = rows.scaled()
    columns = columns.scaled()
    residual = rows.product(Y) + columns.product(Y.T).T
    slack = rows.slack[:, None] + columns.slack[None, :]
    check_cells(slack, 0.0)  # a constant interpolates a single cell
    held_out = settle(slack * Y - residual, rows.level(Y)[None, :] + columns.level(Y.T)[:, None])
    held_out /= slack
    return held_out


def _missing_block(Y: Array, weights: Array | None) -> Axes | None:
    """Return the rows and columns of the missing cells, if these form a block and there is a closed form."""
    if weights is not None:
        return None
    missing = np.isnan(to_numpy(Y))
    rows = np.flatnonzero(missing.any(axis=1))
    columns = np.flatnonzero(missing.any(axis=0))
    if missing[np.ix_(rows, columns)].all():
        return rows, columns
    return None
