r"""Scores over all regularisations, at the speed of matrix products.

For two-step ridge regression every grid point of settings B, C and D is (instance operator) Y (task
operator). The left products :math:`\mathbf{L}_k\mathbf{Y}` are stacked over all :math:`\lambda_d` and
multiplied by one task operator at a time. Where several settings are asked for, all four come from the one
product :math:`D = \mathbf{L}_k\mathbf{Y}\mathbf{L}_g^\top`, since
:math:`\mathbf{H} = \mathrm{diag}(\mathbf{e})\mathbf{L} + \mathrm{diag}(\mathbf{h})`:

.. math::
   B &= D\,\mathrm{diag}(\mathbf{e}_g) + \mathbf{L}_k\mathbf{Y}\,\mathrm{diag}(\mathbf{h}_g) \\
   C &= \mathrm{diag}(\mathbf{e}_k)\,D + \mathrm{diag}(\mathbf{h}_k)\,\mathbf{Y}\mathbf{L}_g^\top \\
   A &= \frac{\mathbf{e}_k\circ B + \mathbf{h}_k\mathbf{e}_g^\top\circ\mathbf{Y}\mathbf{L}_g^\top}
             {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}

These only add terms of one order, so no digits are lost at either end of the regularisation.

Squared error needs no grid point at all: with P the instance and Q the task operator,

.. math:: \|\mathbf{PYQ}-\mathbf{Y}\|^2 = \langle(\mathbf{PY})^\top\mathbf{PY}, \mathbf{QQ}^\top\rangle
          - 2\langle(\mathbf{PY})^\top\mathbf{Y}, \mathbf{Q}\rangle + \|\mathbf{Y}\|^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dyadlearn._array import Array, epsilon, itemsize, namespace, to_numpy, with_diagonal, zeros
from dyadlearn._estimates import landscape_numbers, scoring_numbers
from dyadlearn._frames import in_order
from dyadlearn._validation import check_alphas, check_memory
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Problem, check_arguments, holdout
from dyadlearn.holdout.groups import group_members, leave_out
from dyadlearn.holdout.labelled import labelled_part
from dyadlearn.holdout.memory import check_holdout_memory
from dyadlearn.holdout.two_step import Members, check_cells
from dyadlearn.metrics import PreparedScorer, scorer
from dyadlearn.metrics.undefined import check_enough_labels, warn_of_undefined, where_defined
from dyadlearn.selection._one_alpha import one_alpha
from dyadlearn.selection._progress import Progress
from dyadlearn.selection.incomplete import fold_groups, incomplete_landscape
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solvers.pairs import common_floor
from dyadlearn.spectrum import Smoother

__all__ = ["MAX_MEMORY", "landscape", "scored"]

#: About how many bytes stacks of predictions take, unless told otherwise.
MAX_MEMORY = 2**30


def landscape(
    model: Any,
    alphas: Iterable[float] | float | None = None,
    task_alphas: Iterable[float] | float | None = None,
    settings: Iterable[str | Setting] = "ABCD",
    scoring: str | Callable[[Any, Any], float] | None = None,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    max_memory: int = MAX_MEMORY,
    progress: bool | None = None,
) -> dict[str, np.ndarray]:
    """Score the hold-out predictions of a model for every regularisation.

    The predictions are exact leave-one-out where the labels are complete and for independent tasks, of Kronecker ridge
    also where whole rows and columns are missing, and of single pairs where few are observed or, for two-step, a block
    is missing. Where labels are missing or weighted elsewhere, folds are left out and solved again.

    Parameters
    ----------
    model : fitted estimator or Problem
        Its spectra and labels are used; its own regularisation is not.
    alphas, task_alphas : iterables of float, or float, default=None
        Values of the two regularisations; None is 10⁻⁷ … 10⁶.
    settings : iterable of settings, default="ABCD"
        Letters or aliases. For a model without tasks, those of A and B that are asked for.
    scoring : str or callable, default=None
        None is the score that the model was chosen by, and ``"neg_mean_squared_error"`` for one that was not chosen.
        Else a name (see `dyadlearn.metrics.scorer`) or a function of labels and predictions, both of shape (m, q);
        greater is better. Rank metrics are averaged as the setting wants: over all cells for A and D, per instance
        for B, per task for C.
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Instances and tasks that are left out together.
    cv : int or SettingKFold, default=None
        Folds to leave out instead of one thing at a time; None is five folds where no shortcut exists. A
        `SettingKFold` goes with one setting.
    max_memory : int, default=2**30
        About how many bytes stacks of predictions may take.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Returns
    -------
    dict of str to array
        For each setting letter, scores of shape (n_alphas, n_task_alphas), or (n_alphas,) for models that have
        one regularisation. NaN, with a warning that names the values, where the model interpolates what is to be left
        out; if it does so everywhere in a setting, `LeverageError` is raised.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge().fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> {letter: scores.shape for letter, scores in landscape(model, [0.1, 1], [1], "BD").items()}
    {'B': (2, 1), 'D': (2, 1)}
    """
    model = getattr(model, "model_", model)  # a model of long tables wraps one of grids
    if scoring is None:
        scoring = getattr(model, "scoring", "neg_mean_squared_error")
    if isinstance(model, Problem):
        problem = model
    else:
        problem, grid = model._problem(), model._grid
        groups = in_order(groups, grid.instance_ids, None, "groups")
        task_groups = in_order(task_groups, grid.task_ids, None, "task_groups")
    wanted = list(dict.fromkeys(as_setting(setting) for setting in settings))
    if problem.task_spectrum is None:
        wanted = [setting for setting in wanted if not setting.new_task] or wanted
    rows = check_alphas(alphas, "alphas")
    columns = check_alphas(task_alphas, "task_alphas")
    options = {"max_memory": max_memory, "progress": progress}
    scores = scored(problem, rows, columns, wanted, scoring, (groups, task_groups, cv), options)
    for letter, found in scores.items():
        warn_of_undefined(found, rows, columns if found.ndim == 2 else None, letter, 2)
    return scores


def scored(
    problem: Problem,
    alphas: list[float],
    task_alphas: list[float],
    settings: Sequence[Setting],
    scoring: Any,
    labels: tuple[Any, Any, Any],
    options: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Do the work of `landscape`, with all arguments checked; NaN is not warned of.

    Parameters
    ----------
    problem : Problem
    alphas, task_alphas : lists of float
    settings : sequence of Setting
    scoring : str, callable or Scorer
    labels : (groups, task_groups, cv)
    options : dict
        ``max_memory`` and ``progress``.
    """
    groups, task_groups, cv = labels
    for setting in settings:
        used = (groups if setting.new_instance else None, task_groups if setting.new_task else None)
        check_arguments(problem, setting, *used, None)
        if cv is None:  # folds are counted as they are made
            check_enough_labels(problem, setting, *used)
    for filter in (problem.filter, problem.task_filter):
        if not filter.uses_alpha():
            raise ValueError(f"{filter} does not depend on alpha, so there is no landscape over it.")
    if cv is not None or not problem.is_complete:
        return _with_folds(problem, alphas, task_alphas, settings, scoring, labels, options)
    members = group_members(groups, problem.Y.shape[0], "groups")
    task_members = group_members(task_groups, problem.Y.shape[1], "task_groups")
    prepared = {
        setting: scorer(scoring).prepare(problem.Y, setting=setting, tie_tolerance=None) for setting in settings
    }
    grid_bytes = 4 * itemsize(problem.Y) * problem.Y.shape[0] * problem.Y.shape[1]
    per_grid = max(1, options["max_memory"] // max(1, grid_bytes))
    has_two = problem.method == "two_step" and problem.task_spectrum is not None
    n_steps = len(task_alphas) if has_two else len(alphas) * len(settings)
    squared = scoring == "neg_mean_squared_error"
    if has_two:
        _check_memory(problem.Y, (len(alphas), len(task_alphas)), per_grid, settings, squared)
    else:
        for setting in settings:
            used = (groups if setting.new_instance else None, task_groups if setting.new_task else None)
            check_holdout_memory(problem, setting, *used, None, scoring_numbers(problem.Y.shape, len(settings)))
    with Progress(n_steps, "Landscape", options["progress"]) as bar:

        def score(
            scorers: Mapping[Setting, PreparedScorer], rows: Sequence[float], columns: Sequence[float]
        ) -> dict[str, np.ndarray]:
            if has_two:
                return _two_step(problem, rows, columns, scorers, members, task_members, per_grid, squared, bar)
            return one_alpha(problem, rows, scorers, groups, task_groups, members, task_members, per_grid, bar)

        try:
            return score(prepared, alphas, task_alphas)
        except LeverageError:  # of one setting, maybe, and of some of the values
            columns = task_alphas if has_two else task_alphas[:1]
            return {
                setting.value: where_defined(partial(_alone, score, setting, judge), alphas, columns)
                for setting, judge in prepared.items()
            }


def _alone(
    score: Callable[..., dict[str, np.ndarray]],
    setting: Setting,
    judge: PreparedScorer,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
) -> np.ndarray:
    return score({setting: judge}, alphas, task_alphas)[setting.value]


def _with_folds(
    problem: Problem,
    alphas: list[float],
    task_alphas: list[float],
    settings: Sequence[Setting],
    scoring: Any,
    labels: tuple[Any, Any, Any],
    options: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Score where labels are missing or folds are given: by the shortcuts where they apply, else by solving again."""
    groups, task_groups, cv = labels
    scores: dict[str, np.ndarray] = {}
    alone = all(label is None for label in labels) and problem.task_spectrum is not None
    for setting in settings:
        part = labelled_part(problem) if alone else None
        if part is not None:
            scores |= scored(part.problem, alphas, task_alphas, [setting], scoring, labels, options)
        elif problem.is_complete and setting is not Setting.A:
            folds = fold_groups(cv, setting, problem.Y.shape, groups, task_groups)
            scores |= scored(problem, alphas, task_alphas, [setting], scoring, (*folds, None), options)
        else:
            prepared = scorer(scoring).prepare(problem.Y, setting=setting, tie_tolerance=None)
            n_points = len(alphas) * (len(task_alphas) if problem.method == "two_step" else 1)
            with Progress(n_points, f"Landscape {setting.value}", options["progress"]) as bar:
                scores[setting.value] = incomplete_landscape(
                    problem, alphas, task_alphas, setting, prepared, labels, bar
                )
    return scores


def _two_step(
    problem: Problem,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    scorers: Mapping[Setting, PreparedScorer],
    members: Members,
    task_members: Members,
    per_grid: int,
    squared: bool,
    bar: Progress,
) -> dict[str, np.ndarray]:
    Y, spectrum, task_spectrum = problem.Y, problem.spectrum, problem.task_spectrum
    assert task_spectrum is not None
    m, q = Y.shape
    if m < q:  # the products are m × q by q × q: let q be the smaller side
        mirror = {Setting.A: Setting.A, Setting.B: Setting.C, Setting.C: Setting.B, Setting.D: Setting.D}
        swapped = Problem(
            "two_step",
            Y.T,
            task_spectrum,
            problem.task_alpha,
            spectrum,
            problem.alpha,
            problem.task_filter,
            problem.filter,
        )
        flipped = {mirror[setting]: _Transposed(score) for setting, score in scorers.items()}
        result = _two_step(
            swapped, task_alphas, alphas, flipped, task_members, members, per_grid, squared, bar.rescaled(len(alphas))
        )
        return {mirror[Setting(letter)].value: values.T for letter, values in result.items()}
    sides = [spectrum.smoother(problem.filter, alpha) for alpha in alphas]
    tasks = [task_spectrum.smoother(problem.task_filter, alpha) for alpha in task_alphas]
    scores = {setting.value: np.empty((len(alphas), len(task_alphas))) for setting in scorers}
    closed = [setting for setting in scorers if squared and setting is not Setting.A]
    if closed:
        found = _squared_errors(Y, sides, tasks, closed, members, task_members, per_grid)
        scores |= {letter: -errors for letter, errors in found.items()}
    left = {setting: score for setting, score in scorers.items() if setting not in closed}
    if not left:
        return scores
    grids = _Grids(Y, spectrum.rotate(Y), members, task_members)
    for start in range(0, len(sides), per_grid):
        rows = slice(start, min(start + per_grid, len(sides)))
        for index, setting, stack in grids.walk(sides[rows], tasks, list(left)):
            scores[setting.value][rows, index] = to_numpy(left[setting](stack))
            if setting is list(left)[-1] and rows.stop == len(sides):
                bar.advance()
    _settle_interpolation(problem, alphas, task_alphas, left, scores)
    return scores


def _check_memory(
    Y: Array, n_alphas: tuple[int, int], per_grid: int, settings: Sequence[Setting], squared: bool
) -> None:
    """Refuse a landscape that does not fit in memory."""
    closed = [setting for setting in settings if squared and setting is not Setting.A]
    operators = len({setting.new_instance for setting in closed}), len({setting.new_task for setting in closed})
    formed = "".join(setting.value for setting in settings if setting not in closed)
    check_memory(
        landscape_numbers(Y.shape, n_alphas, per_grid, operators, formed) * itemsize(Y),
        Y,
        f"A landscape of {n_alphas[0]} × {n_alphas[1]} regularisations of a grid of {Y.shape[0]} × {Y.shape[1]}",
        "try fewer regularisations at a time, a smaller max_memory, fewer rows or float32",
    )


class _Transposed:
    """A scorer of grids that arrive with instances and tasks exchanged."""

    def __init__(self, score: PreparedScorer) -> None:
        self.score = score

    @property
    def n_undefined(self) -> int:
        return self.score.n_undefined

    def __call__(self, F: Array) -> Array:
        return self.score(namespace(F).permute_dims(F, (0, 2, 1)) if F.ndim == 3 else F.T)


class _Grids:
    """Walks over the grid points of a landscape in stacks of many λ_d by one λ_t."""

    def __init__(self, Y: Array, rotated: Array, members: Members, task_members: Members) -> None:
        self.Y, self.rotated = Y, rotated
        self.members, self.task_members = members, task_members
        self.grouped = members is not None or task_members is not None

    def walk(
        self, sides: Sequence[Smoother], tasks: Sequence[Smoother], settings: list[Setting]
    ) -> Iterator[tuple[int, Setting, Array]]:
        """Yield (index of λ_t, setting, predictions of shape (n, m, q))."""
        if Setting.A in settings and (self.grouped or len(settings) == 1):  # A knows no groups, the others do
            yield from self._pairs(sides, tasks)
            settings = [setting for setting in settings if setting is not Setting.A]
        if self.grouped or len(settings) == 1:
            yield from self._separate(sides, tasks, settings)
        elif settings:
            yield from self._derived(sides, tasks, settings)

    def left_out(self, side: Smoother) -> Array:
        """Return LY, shape (m, q)."""
        if self.members is None:
            return side.leave_one_out(self.Y, self.rotated)
        return leave_out(side, self.Y, self.members)

    def smoothed(self, side: Smoother) -> Array:
        """Return HY, shape (m, q)."""
        return side.smooth(self.Y, self.rotated)

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
        new = self._stack(self.left_out, sides) if any(setting.new_instance for setting in settings) else None
        known = self._stack(self.smoothed, sides) if Setting.C in settings else None
        for index, side in enumerate(tasks):
            for setting in settings:
                operator = _task_operator(side, setting.new_task, self.task_members)
                yield index, setting, _product(new if setting.new_instance else known, operator)

    def _pairs(self, sides: Sequence[Smoother], tasks: Sequence[Smoother]) -> Iterator[tuple[int, Setting, Array]]:
        """Yield setting A alone, from the off-diagonal hats."""
        left = self._stack(lambda side: side.smooth_others(self.Y, self.rotated)[1], sides)
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
        left = self._stack(self.left_out, sides)
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


def _squared_errors(
    Y: Array,
    sides: Sequence[Smoother],
    tasks: Sequence[Smoother],
    settings: Sequence[Setting],
    members: Members,
    task_members: Members,
    per_grid: int,
) -> dict[str, np.ndarray]:
    """Return mean squared errors of B, C or D without a single grid point."""
    xp = namespace(Y)
    (m, q), total = Y.shape, float(xp.sum(Y * Y))
    # Where less than this share of the terms is left of their sum, too few digits are: ten of sixteen, three of seven.
    doubtful = 1e-6 if epsilon(Y) < 1e-10 else 1e-3
    rotated = sides[0].spectrum.rotate(Y)
    grids = _Grids(Y, rotated, members, task_members)
    result = {setting.value: np.empty((len(sides), len(tasks))) for setting in settings}
    operators = {
        new: xp.stack([_task_operator(side, new, task_members) for side in tasks])
        for new in {setting.new_task for setting in settings}
    }
    shape = (len(tasks), q * q)
    flat = {new: xp.reshape(stack, shape) for new, stack in operators.items()}
    squares = {new: xp.reshape(stack @ xp.matrix_transpose(stack), shape) for new, stack in operators.items()}
    sizes = {new: _norms(found) for new, found in squares.items()}
    step = max(1, 2 * per_grid * m // q)
    for new_instance in {setting.new_instance for setting in settings}:
        product = grids.left_out if new_instance else grids.smoothed
        for start in range(0, len(sides), step):
            rows = slice(start, min(start + step, len(sides)))
            grams, crosses = zeros((rows.stop - start, q * q), Y), zeros((rows.stop - start, q * q), Y)
            for row, side in enumerate(sides[rows]):
                if new_instance:
                    left = product(side)
                    gram, cross = left.T @ left, left.T @ Y
                else:  # HY is diagonal in the rotated labels, and need not be formed
                    kept, half = (weights[:, None] * rotated for weights in (side.shrinkage, side.shrinkage**0.5))
                    gram, cross = kept.T @ kept, half.T @ half
                grams[row, :], crosses[row, :] = xp.reshape(gram, (-1,)), xp.reshape(cross, (-1,))
            for setting in settings:
                if setting.new_instance != new_instance:
                    continue
                new = setting.new_task
                errors = to_numpy(grams @ squares[new].T) - 2.0 * to_numpy(crosses @ flat[new].T) + total
                terms = np.maximum(total, _norms(grams)[:, None] * sizes[new])
                for row, column in np.argwhere(errors < doubtful * terms):
                    # Little but cancellation is left of the closed form: look at the predictions.
                    left = product(sides[start + int(row)])
                    operator = operators[new][int(column), ...]
                    errors[row, column] = float(xp.sum((left @ operator - Y) ** 2))
                result[setting.value][rows, :] = errors / (m * q)
    return result


def _norms(rows: Array) -> np.ndarray:
    # Products of single rows need no array of squares.
    return to_numpy(rows[:, None, :] @ rows[:, :, None])[:, 0, 0] ** 0.5


def _settle_interpolation(
    problem: Problem,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    scorers: Mapping[Setting, PreparedScorer],
    scores: dict[str, np.ndarray],
) -> None:
    """Score setting A where both regularisations are zero, a limit of its own."""
    if Setting.A not in scorers:
        return
    for row, alpha in enumerate(alphas):
        for column, task_alpha in enumerate(task_alphas):
            if alpha == 0 and task_alpha == 0:
                both = replace(problem, alpha=alpha, task_alpha=task_alpha)
                scores["A"][row, column] = scorers[Setting.A](holdout(both, Setting.A))
