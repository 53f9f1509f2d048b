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
    as_array_of,
    epsilon,
    is_foreign,
    itemsize,
    largest,
    namespace,
    take_block,
    take_rows,
    to_numpy,
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
from dyadlearn.solve.operators import (
    SideProduct,
    between,
    common_floor,
    predict_others,
    reduced,
    without,
)
from dyadlearn.spectrum import Smoother

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
        grid = Y.shape[0] * Y.shape[1]
        small = min(Y.shape)
        # Operators of the closed form and their squares, of the smaller side.
        operators = 0.0
        if closed:
            operators = 4.0 * sum(n_alphas) * small**2 + 7.0 * grid
        # Left products, predictions and intermediate arrays of scores, for one setting or for
        # several.
        n_formed = len(settings) - len(closed)
        if n_formed:
            stacks = (8 if n_formed > 1 else 4) * min(max(n_alphas), per_stack) * grid
        else:
            stacks = 0
        check_memory(
            (max(operators, stacks) + 4 * grid) * itemsize(Y),
            Y,
            f"A landscape of {n_alphas[0]} × {n_alphas[1]} regularisations of a grid of "
            f"{Y.shape[0]} × {Y.shape[1]}",
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
    slack = rows.slack[:, None] + h * columns.slack
    if floor := common_floor(rows, columns):
        check_cells(slack, floor)
    grid += h * others
    grid /= slack


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
