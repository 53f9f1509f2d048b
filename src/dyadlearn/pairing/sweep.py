r"""Hold-out predictions over many regularisations, at the speed of matrix products.

A `Sweep` asks for one regularisation after the other. Of two-step ridge regression every grid point of settings B, C
and D is (instance operator) Y (task operator): the left products :math:`\mathbf{L}_k\mathbf{Y}` are stacked over all
:math:`\lambda_d` and multiplied by one task operator at a time. Where several settings are asked for, all four come
from the one product :math:`D = \mathbf{L}_k\mathbf{Y}\mathbf{L}_g^\top`, since
:math:`\mathbf{H} = \mathrm{diag}(\mathbf{e})\mathbf{L} + \mathrm{diag}(\mathbf{h})`:

.. math::
   B &= D\,\mathrm{diag}(\mathbf{e}_g) + \mathbf{L}_k\mathbf{Y}\,\mathrm{diag}(\mathbf{h}_g) \\
   C &= \mathrm{diag}(\mathbf{e}_k)\,D + \mathrm{diag}(\mathbf{h}_k)\,\mathbf{Y}\mathbf{L}_g^\top \\
   A &= \frac{\mathbf{e}_k\circ B + \mathbf{h}_k\mathbf{e}_g^\top\circ\mathbf{Y}\mathbf{L}_g^\top}
             {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}

These only add terms of one order, so no digits are lost at either end of the regularisation.

Squared error needs no grid point at all: with P the instance and Q the task operator,

.. math:: \|\mathbf{PYQ}-\mathbf{Y}\|^2 = \langle(\mathbf{PY})^\top\mathbf{PY}, \mathbf{QQ}^\top\rangle
          - 2\langle(\mathbf{PY})^\top\mathbf{Y}, \mathbf{Q}\rangle + \|\mathbf{Y}\|^2,

and where Q is a hat, as in B, sums over the columns of :math:`\mathbf{PYV}` are all it takes: one product for each
:math:`\lambda_d`. C is B with the sides exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dyadlearn._array import Array, epsilon, is_foreign, itemsize, namespace, to_numpy, with_diagonal, zeros
from dyadlearn._memory import check_memory, holdout_numbers
from dyadlearn.holes.operators import common_floor
from dyadlearn.pairing.leaving import Members, leave_out, refuse
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, check_cells

if TYPE_CHECKING:
    from dyadlearn.pairing.base import Pairing
    from dyadlearn.pairing.two_step import TwoStep

__all__ = ["Sweep", "TwoStepSweep"]

#: Positions among the regularisations of instances and of tasks, the setting, and predictions of shape (n, m, q).
Stack = tuple[slice | int, slice | int, Setting, Array]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A model on complete labels, to be held out under each of some regularisations.

    Attributes
    ----------
    pairing : Pairing
    Y : array of shape (m, q)
    alphas, task_alphas : sequences of float
        The latter is one value, whatever it is, for a model with one regularisation.
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks, used by the settings that leave them out.
    """

    pairing: Pairing
    Y: Array
    alphas: Sequence[float]
    task_alphas: Sequence[float]
    members: Members
    task_members: Members

    def _groups(self, setting: Setting) -> tuple[Members, Members]:
        """Return the groups that a setting leaves out."""
        return self.members if setting.new_instance else None, self.task_members if setting.new_task else None

    def check_memory(self, settings: Sequence[Setting], per_stack: int, *, squared: bool) -> None:
        """Refuse to score predictions that do not fit in memory; `squared` tells that squared errors are wanted."""
        grids, rotated = self.pairing.holdout_grids
        grids += 1 + 3 * len(settings)  # each setting has labels prepared for its scores
        for setting in settings:
            sizes = [rows.size for members in self._groups(setting) for rows in members or ()]
            need = holdout_numbers(
                self.Y.shape, self.pairing.ranks, (grids, rotated), largest_group=max(sizes, default=1)
            )
            refuse(need, self.Y, setting)

    def squared_errors(self, settings: Sequence[Setting], per_stack: int) -> dict[Setting, np.ndarray]:
        """Return mean squared errors (n, n_tasks) that need no predictions, of the settings that have them."""
        return {}

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        """Yield predictions for all regularisations, some together.

        Parameters
        ----------
        settings : sequence of Setting
        per_stack : int
            How many grids may be held at once.

        Yields
        ------
        rows, columns : slice or int
            Which regularisations.
        setting : Setting
        predictions : array of shape (n, m, q)
            The next one may overwrite it.
        """
        for setting in settings:
            for row, alpha in enumerate(self.alphas):
                held_out = self.pairing.at(alpha).holdout(self.Y, setting, *self._groups(setting))
                yield slice(row, row + 1), 0, setting, held_out[None, ...]


@dataclass(frozen=True, eq=False)
class TwoStepSweep(Sweep):
    """Two-step ridge regression: stacks of many λ_d by one λ_t, or the other way round."""

    pairing: TwoStep

    @cached_property
    def _mirror(self) -> TwoStepSweep | None:
        """The same with tasks for instances: products are m × q by q × q, and q should be the smaller side."""
        if self.Y.shape[0] >= self.Y.shape[1]:
            return None
        groups = (self.task_members, self.members)
        return TwoStepSweep(self.pairing.transposed, self.Y.T, self.task_alphas, self.alphas, *groups)

    @cached_property
    def _rows(self) -> list[Smoother]:
        return [self.pairing.rows.at(alpha) for alpha in self.alphas]

    @cached_property
    def _columns(self) -> list[Smoother]:
        return [self.pairing.columns.at(alpha) for alpha in self.task_alphas]

    @cached_property
    def _rotated(self) -> Array:
        return self.pairing.rows.spectrum.rotate(self.Y)

    @property
    def _grouped(self) -> bool:
        return self.members is not None or self.task_members is not None

    def check_memory(self, settings: Sequence[Setting], per_stack: int, *, squared: bool) -> None:
        """Refuse stacks of predictions, or the operators of the closed form of squared error, that do not fit."""
        Y, n_alphas = self.Y, (len(self.alphas), len(self.task_alphas))
        closed = [setting for setting in settings if squared and setting is not Setting.A]
        grid, small = Y.shape[0] * Y.shape[1], min(Y.shape)
        # Operators of the closed form and their squares, of the smaller side.
        operators = 4.0 * sum(n_alphas) * small**2 + 7.0 * grid if closed else 0.0
        # Left products, predictions and what scores take of them, of one setting or derived for several.
        n_formed = len(settings) - len(closed)
        stacks = (8 if n_formed > 1 else 4) * min(max(n_alphas), per_stack) * grid if n_formed else 0
        check_memory(
            (max(operators, stacks) + 4 * grid) * itemsize(Y),
            Y,
            f"A landscape of {n_alphas[0]} × {n_alphas[1]} regularisations of a grid of {Y.shape[0]} × {Y.shape[1]}",
            "try fewer regularisations at a time, a smaller max_memory, or fewer rows",
        )

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        """Yield predictions for all regularisations, as many together as there is room for."""
        if self._mirror is not None:
            for rows, columns, setting, stack in self._mirror.walk([each.transposed for each in settings], per_stack):
                yield columns, rows, setting.transposed, namespace(stack).permute_dims(stack, (0, 2, 1))
            return
        for start in range(0, len(self._rows), per_stack):
            rows = slice(start, min(start + per_stack, len(self._rows)))
            for column, setting, stack in self._walk(self._rows[rows], self._columns, list(settings)):
                yield rows, column, setting, stack
        if Setting.A in settings:
            # Where both regularisations are zero, A is a limit of its own.
            for row, column in np.argwhere(
                np.logical_and.outer(np.equal(self.alphas, 0), np.equal(self.task_alphas, 0))
            ):
                both = self.pairing.at(0.0, 0.0).holdout(self.Y, Setting.A)
                yield slice(int(row), int(row) + 1), int(column), Setting.A, both[None, ...]

    def _walk(
        self, sides: Sequence[Smoother], tasks: Sequence[Smoother], settings: list[Setting]
    ) -> Iterator[tuple[int, Setting, Array]]:
        """Yield (index of λ_t, setting, predictions of shape (n, m, q))."""
        if Setting.A in settings and (self._grouped or len(settings) == 1):  # A knows no groups, the others do
            yield from self._pairs(sides, tasks)
            settings = [setting for setting in settings if setting is not Setting.A]
        if self._grouped or len(settings) == 1:
            yield from self._separate(sides, tasks, settings)
        elif settings:
            yield from self._derived(sides, tasks, settings)

    def _left_out(self, side: Smoother) -> Array:
        """Return LY, shape (m, q)."""
        if self.members is None:
            return side.leave_one_out(self.Y, self._rotated)
        return leave_out(side, self.Y, self.members)

    def _smoothed(self, side: Smoother) -> Array:
        """Return HY, shape (m, q)."""
        return side.smooth(self.Y, self._rotated)

    def _stack(self, product: Callable[[Smoother], Array], sides: Sequence[Smoother]) -> Array:
        """Return one product for each side, shape (n, m, q)."""
        stack = zeros((len(sides), *self.Y.shape), self.Y)
        for index, side in enumerate(sides):
            stack[index, ...] = product(side)
        return stack

    def _separate(
        self, sides: Sequence[Smoother], tasks: Sequence[Smoother], settings: list[Setting]
    ) -> Iterator[tuple[int, Setting, Array]]:
        """One product for each setting: nothing else is computed."""
        new = self._stack(self._left_out, sides) if any(setting.new_instance for setting in settings) else None
        known = self._stack(self._smoothed, sides) if Setting.C in settings else None
        for index, side in enumerate(tasks):
            for setting in settings:
                operator = _task_operator(side, setting.new_task, self.task_members)
                yield index, setting, _product(new if setting.new_instance else known, operator)

    def _pairs(self, sides: Sequence[Smoother], tasks: Sequence[Smoother]) -> Iterator[tuple[int, Setting, Array]]:
        """Yield setting A alone, from the off-diagonal hats."""
        left = self._stack(lambda side: side.smooth_others(self.Y, self._rotated)[1], sides)
        for index, side in enumerate(tasks):
            others = side.smooth_others(self.Y.T)[1].T
            stack = _product(left, side.hat())
            for a, rows in enumerate(sides):
                _divide_pairs(stack[a, ...], rows, side, others)
            yield index, Setting.A, stack

    def _derived(
        self, sides: Sequence[Smoother], tasks: Sequence[Smoother], settings: list[Setting]
    ) -> Iterator[tuple[int, Setting, Array]]:
        """Every setting from one product; grid by grid, so that what is derived stays in the cache."""
        left = self._stack(self._left_out, sides)
        known = zeros(left.shape, left) if Setting.C in settings else None
        for index, side in enumerate(tasks):
            both = _product(left, _task_operator(side, True, None))
            if Setting.D in settings:
                yield index, Setting.D, both
            half = side.leave_one_out(self.Y.T).T
            if known is not None:
                for a, rows in enumerate(sides):
                    known[a, ...] = rows.slack[:, None] * both[a, ...] + rows.leverage[:, None] * half
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

    def squared_errors(self, settings: Sequence[Setting], per_stack: int) -> dict[Setting, np.ndarray]:
        """Return mean squared errors of B, C and D without a single grid point."""
        if self._mirror is not None:
            mirrored = self._mirror.squared_errors([each.transposed for each in settings], per_stack)
            return {setting.transposed: errors.T for setting, errors in mirrored.items()}
        settings = [setting for setting in settings if setting is not Setting.A]
        if not settings:
            return {}
        if self.pairing.free_mean:
            # Errors do not feel what is added to all labels, but the digits of their squares do.
            return replace(self, Y=self.Y - namespace(self.Y).mean(self.Y))._squared_errors(settings, per_stack)
        return self._squared_errors(settings, per_stack)

    def _squared_errors(self, settings: Sequence[Setting], per_stack: int) -> dict[Setting, np.ndarray]:
        found: dict[Setting, np.ndarray] = {}
        if Setting.C in settings:
            groups = (self.task_members, self.members)
            turned = TwoStepSweep(self.pairing.transposed, self.Y.T, self.task_alphas, self.alphas, *groups)
            found[Setting.C] = turned._errors(known=True, both=False, per_stack=per_stack)[0].T
        known, both = Setting.B in settings, Setting.D in settings
        if both and known and not self._turns_tasks:  # on labels that lie otherwise
            found[Setting.D] = self._errors(known=False, both=True, per_stack=per_stack)[1]
            both = False
        if known or both:
            errors = self._errors(known=known, both=both, per_stack=per_stack)
            found |= {setting: each for setting, each in zip((Setting.B, Setting.D), errors, strict=True) if each.size}
        return {setting: found[setting] / (self.Y.shape[0] * self.Y.shape[1]) for setting in settings}

    @property
    def _turns_tasks(self) -> bool:
        """Whether leaving single tasks out is known in their eigenvectors, without a product."""
        return self.task_members is None and not self.pairing.columns.spectrum.is_truncated

    def _errors(self, *, known: bool, both: bool, per_stack: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Return sums of squared errors (n, n_tasks) of new instances in known tasks, and of both new; or nothing.

        With the tasks rotated, :math:`\tilde{\mathbf{Y}} = \mathbf{YV}`, hats of theirs are diagonal, and
        :math:`\tilde{\mathbf{Q}} = \mathbf{V}^\top\mathbf{Q}` has the entries :math:`V_{tj}(f_j-h_t)/e_t`.
        """
        xp, tasks, spectrum = namespace(self.Y), self._columns, self.pairing.columns.spectrum
        turned = known or self._turns_tasks
        labels = spectrum.rotate(self.Y.T).T if turned else self.Y
        rotated = self.pairing.rows.spectrum.rotate(labels)

        def product(side: Smoother) -> Array:
            if self.members is None:
                return side.leave_one_out(labels, rotated)
            return leave_out(side, labels, self.members)

        total, outside = xp.sum(labels * labels), 0.0
        if known:
            kept = xp.stack([side.shrinkage for side in tasks])
            if spectrum.is_truncated:  # of what lies there a known task says nothing
                outside = float(xp.sum((self.Y - labels @ spectrum.vectors.T) ** 2))
        if both:
            operators = zeros((len(tasks), labels.shape[1], self.Y.shape[1]), self.Y)
            squares = zeros((len(tasks), labels.shape[1], labels.shape[1]), self.Y)
            for index, side in enumerate(tasks):
                operator = _turned_operator(side) if turned else _task_operator(side, True, self.task_members)
                operators[index, ...], squares[index, ...] = operator, operator @ operator.T
            sizes = _norms(squares)
        of_known, of_both = [], []
        (m, q), start = labels.shape, 0
        step = max(1, 2 * per_stack * m // q)
        for start in range(0, len(self._rows), step):
            rows = self._rows[start : start + step]
            grams, crosses = (zeros((len(rows) if both else 0, q, last), self.Y) for last in (q, self.Y.shape[1]))
            for row, side in enumerate(rows):
                left = product(side)
                if known:
                    own, with_labels = xp.sum(left * left, axis=0), xp.sum(left * labels, axis=0)
                    fitted = kept**2 @ own
                    of_known.append(xp.stack([fitted - 2.0 * (kept @ with_labels) + total, fitted])[:, None, :])
                if both:
                    grams[row, ...], crosses[row, ...] = left.T @ left, left.T @ self.Y
                del left
            if both:
                errors = _inner_products(grams, squares) - 2.0 * _inner_products(crosses, operators) + total
                of_both.append(xp.stack([errors, _norms(grams)[:, None] * sizes]))
        # Where less than this share of the terms is left of their sum, too few digits are, ten of sixteen or three of
        # seven: the predictions are looked at then.
        doubtful = 1e-6 if epsilon(self.Y) < 1e-10 else 1e-3

        def settled(found: list[Array], setting: Setting) -> np.ndarray:
            errors, terms = to_numpy(xp.concat(found, axis=1)) if found else np.empty((2, 0, 0))
            errors = errors + (outside if setting is Setting.B else 0.0)
            for row, column in np.argwhere(errors < doubtful * np.maximum(float(total), terms)):
                pairing = self.pairing.at(self.alphas[row], self.task_alphas[column])
                held_out = pairing.holdout(self.Y, setting, *self._groups(setting))
                errors[row, column] = float(xp.sum((held_out - self.Y) ** 2))
            return errors

        return settled(of_known, Setting.B), settled(of_both, Setting.D)


def _divide_pairs(grid: Array, rows: Smoother, columns: Smoother, others: Array) -> None:
    """Turn H°_k Y H_g into setting A, in place; `others` is Y H°_g."""
    if rows.contrast is not None and columns.contrast is not None:
        return  # both regularisations are zero: 0/0, settled afterwards
    h = rows.leverage[:, None]
    slack = rows.slack[:, None] + h * columns.slack
    if floor := common_floor(rows, columns):
        check_cells(slack, floor)
    grid += h * others
    grid /= slack


def _product(stack: Array, operator: Array) -> Array:
    """Multiply every grid of a stack by one operator, as one large product."""
    xp = namespace(stack)
    n, m, q = stack.shape
    return xp.reshape(xp.reshape(stack, (n * m, q)) @ operator, (n, m, q))


def _task_operator(side: Smoother, new_task: bool, members: Members) -> Array:
    """Return the dense operator that acts on the tasks from the right, shape (q, q)."""
    if not new_task:
        return side.hat()
    if members is None:
        side = side.scaled()
        side.check_slack()
        return side.off_diagonal() / side.slack  # the transpose of L, since the hat is symmetric
    xp = namespace(side.shrinkage)
    identity = with_diagonal(zeros((side.spectrum.n_rows, side.spectrum.n_rows), side.shrinkage), 1.0)
    return xp.matrix_transpose(leave_out(side, identity, members))


def _turned_operator(side: Smoother) -> Array:
    """Return the same for single tasks, multiplied by their transposed eigenvectors: no product is needed for that."""
    side = side.scaled()
    side.check_slack()
    weights, diagonal = (-side.remainder, -side.slack) if side.prefers_residual else (side.shrinkage, side.leverage)
    return side.spectrum.vectors.T * ((weights[:, None] - diagonal) / side.slack)


def _inner_products(left: Array, right: Array) -> Array:
    """Return the inner products (n, p) of two stacks of matrices, (n, a, b) and (p, a, b)."""
    xp = namespace(left)
    if not is_foreign(left):
        return xp.reshape(left, (left.shape[0], -1)) @ xp.reshape(right, (right.shape[0], -1)).T
    # A product of long rows by long columns would keep one part of an accelerator busy, and the others waiting.
    return xp.sum(xp.permute_dims(left, (1, 0, 2)) @ xp.permute_dims(right, (1, 2, 0)), axis=0)


def _norms(stack: Array) -> Array:
    """Return the norm of each matrix of a stack, (n,)."""
    xp = namespace(stack)
    rows = xp.reshape(stack, (stack.shape[0], -1))
    if is_foreign(stack):
        return xp.linalg.vector_norm(rows, axis=1)
    return (rows[:, None, :] @ rows[:, :, None])[:, 0, 0] ** 0.5  # needs no array of squares
