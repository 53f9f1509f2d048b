"""Fits, predictions and hold-out of the batch models, against dense refits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator, refusing
from dense import Side, is_singular, top_value
from drawing import (
    DrawnSide,
    draw_filter,
    draw_folds,
    draw_labels,
    draw_shape,
    draw_side,
    draw_weights,
    hide,
)
from refits import SLACK, Model, UndefinedError

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import LeverageError, NothingLeftError

__all__ = ["Drawn", "agree", "draw_problem", "left_out_sets"]

# Relative to the largest prediction that is compared; looser only by what rounding of the kernels
# does.
DIGITS = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 2e-3}
ROUNDING = 200.0
HOPELESS = 1e-3
# Sets of left-out rows, columns or cells that are refitted for one case.
N_SETS = 4


@dataclass(frozen=True, eq=False)
class Drawn:
    """A problem: a fitted model of the library, and the model of the reference."""

    estimator: Any
    model: Model
    rows: DrawnSide
    columns: DrawnSide | None
    dtype: np.dtype

    @property
    def is_complete(self) -> bool:
        """Whether every label is there and weighs one."""
        return bool((self.model.W == 1).all())

    @property
    def has_zero(self) -> bool:
        """Whether a side is not regularised, or as good as."""
        if self.model.columns is None:
            sides = [self.model.rows]
        else:
            sides = [self.model.rows, self.model.columns]
        if self.model.kind == "kronecker":
            top = np.prod([top_value(side.K) for side in sides])
            return self.model.rows.alpha <= 1e-13 * top
        return any(side.alpha <= 1e-13 * top_value(side.K) for side in sides)

    @property
    def may_lack_a_constant(self) -> bool:
        """Whether a task may have no label to estimate its intercept from."""
        return self.model.kind == "independent" and self.model.constant

    @property
    def reach(self) -> float:
        """How much of a label a prediction can hold at most: little where the regularisation is large."""
        if self.model.constant:
            return 1.0
        if self.model.columns is None:
            sides = [self.model.rows]
        else:
            sides = [self.model.rows, self.model.columns]
        tops = [top_value(side.K) for side in sides]
        if self.model.kind == "kronecker":
            tops = [float(np.prod(tops))]
            sides = sides[:1]
        parts = [
            min(1.0, (side.n_iter or 1) * top / side.alpha) if side.definite else 1.0
            for side, top in zip(sides, tops, strict=True)
        ]
        return float(np.prod(parts))

    @property
    def rounding(self) -> float:
        """The relative error that the documentation grants singular kernels: ε‖K‖/λ.

        Other filters are granted ε over what they leave of a label at least, with missing labels of
        any kernel.
        """
        eps = float(np.finfo(self.dtype).eps) * max(
            1.0, float(self.model.W.max())
        )  # a weight divides λ
        if self.model.columns is None:
            sides = [self.model.rows]
        else:
            sides = [self.model.rows, self.model.columns]
        if not self.is_ridge and not self.is_complete:
            left = [
                (s.alpha / (top_value(s.K) + s.alpha)) ** (s.n_iter or 1) if s.definite else 0.0
                for s in sides
            ]
            least = left[0] if len(left) == 1 else left[0] + (1 - left[0]) * left[1]
            return min(eps / least, 1.0) if least > 0 else 0.0
        if not any(is_singular(side.seen) or is_singular(side.K) for side in sides):
            return 0.0
        if self.model.kind == "kronecker":
            one = float(self.model.constant)  # the constant feature of each side
            top = float(np.prod([top_value(side.K + one) for side in sides]))
            if self.model.rows.alpha > 0:
                return eps * top / self.model.rows.alpha
            return 0.0
        powers = [side.n_iter or 1 if side.filter == "iterated" else 1 for side in sides]
        return max(
            min(eps * (top_value(side.K) / side.alpha) ** power, 1.0) if side.alpha > 0 else 0.0
            for side, power in zip(sides, powers, strict=True)
        )

    @property
    def is_projector(self) -> bool:
        """Whether no residual operator is small without being zero, so that leverage 1 is a matter of yes or no."""
        if self.model.columns is None:
            sides = [self.model.rows]
        else:
            sides = [self.model.rows, self.model.columns]
        return not self.is_ridge and all(side.filter == "cutoff" for side in sides)

    @property
    def is_ridge(self) -> bool:
        """Whether every filter is Tikhonov's."""
        return self.model.is_ridge


def agree(
    case: Case,
    drawn: Drawn,
    actual: np.ndarray,
    refer: Callable[[Model], np.ndarray],
    words: str,
    where: np.ndarray | None = None,
) -> bool:
    """Compare with a reference, to as many digits as rounding of the kernels leaves; return whether there were any.

    Parameters
    ----------
    case : Case
    drawn : Drawn
    actual : array
        Of the library.
    refer : callable
        Takes a model of the reference to an array of that shape.
    words : str
        What is compared, for the message.
    where : boolean array, default=None
        The cells that are compared; the others give the scale.
    """
    model = drawn.model
    where = np.ones(actual.shape, dtype=bool) if where is None else where
    size = float(np.finfo(drawn.dtype).eps)
    with np.errstate(all="ignore"):
        try:
            expected = refer(model)
            others = [refer(model.perturbed(case.rng, size)) for _ in range(2)]
        except ZeroDivisionError as error:
            raise RefusedError(str(error)) from None
    # Predictions of a task without a label to estimate its intercept from are NaN.
    if drawn.may_lack_a_constant:
        unknown = np.isnan(expected)
    else:
        unknown = np.zeros(expected.shape, dtype=bool)
    wrong = ~np.where(unknown, np.isnan(actual), np.isfinite(actual)) & where
    if wrong.any():
        raise WrongAnswerError(
            f"{words}: {np.count_nonzero(wrong)} of {actual.size} values are not finite, or should "
            f"not be"
        )
    actual, expected, *others = (
        np.where(unknown | np.isnan(actual), 0.0, part) for part in (actual, expected, *others)
    )
    noise = max(float(np.abs(other - expected)[where].max(initial=0.0)) for other in others)
    scale = float(np.abs(expected).max(initial=0.0))
    labels = float(np.nanmax(np.abs(model.Y)))
    floor = (1e-12 * size / np.finfo(np.float64).eps + drawn.rounding) * labels * drawn.reach
    tolerance = max(
        (DIGITS[drawn.dtype] + 10 * drawn.rounding) * scale, ROUNDING * noise, floor, 1e-290
    )
    errors = np.where(where, np.abs(actual - expected), 0.0)
    error = float(errors.max(initial=0.0))
    if not np.isfinite(expected).all() or not np.isfinite(noise):
        raise RefusedError("the reference overflows")
    if error <= tolerance:
        return tolerance <= max(HOPELESS, 10 * DIGITS[drawn.dtype]) * scale or scale == 0
    if tolerance > HOPELESS * max(scale, labels) and error < 1e3 * max(labels, scale):
        return False
    worst = np.unravel_index(int(np.argmax(errors)), expected.shape)
    raise WrongAnswerError(
        f"{words}: {actual[worst]:.12g}, expected {float(expected[worst]):.12g} (relative error "
        f"{error / scale:.1e}, "
        f"tolerance {tolerance / scale:.1e})"
        if scale
        else f"{words}: {actual[worst]:.3g}, expected 0 (labels of size {labels:.1g})"
    )


def draw_problem(case: Case, kind: str, *, holes: float = 0.5, filters: float = 0.25) -> Drawn:
    """Draw and fit a problem of a kind: "independent", "two_step", "kronecker" or "network"."""
    rng = case.rng
    m, q = draw_shape(case)
    is_network = kind == "network"
    if is_network:
        m = q = max(1, min(m, 7))
    dtype = np.dtype(np.float32 if case.chance(0.06) else np.float64)
    rows = draw_side(case, m, dtype)
    columns = None if kind == "independent" or is_network else draw_side(case, q, dtype)
    Y = draw_labels(case, (m, q))
    sign = 1
    if is_network:
        sign = int(rng.choice([1, -1]))
        Y = Y + sign * Y.T
    Y, holes_word = hide(case, Y, holes)
    if is_network:
        Y = np.where(np.isnan(Y) | np.isnan(Y.T), np.nan, Y)
        if np.isnan(Y).all():
            Y[0, 0] = float(sign > 0)
    if is_network:
        sample_weight, weights, weights_word = (None, None, "")
    else:
        sample_weight, weights, weights_word = draw_weights(case, Y)
    Y = Y.astype(dtype)
    constant = case.chance(0.5)
    filter, side = draw_filter(case, rows.K, 0.0 if kind == "kronecker" else filters)
    task_filter = None
    task_side = side if is_network else None
    if columns is not None:
        task_filter, task_side = draw_filter(
            case, columns.K, 0.0 if kind == "kronecker" else filters
        )
    if dtype == np.float32:
        # Three digits are promised from ‖K‖/100 on.
        filter = task_filter = None
        floor = float(10.0 ** rng.uniform(-1.5, 2))
        side = Side(rows.K, "tikhonov", (top_value(rows.K) or 1.0) * floor)
        if columns is not None:
            assert task_side is not None
            task_side = Side(columns.K, "tikhonov", (top_value(columns.K) or 1.0) * floor)
        task_side = side if is_network else task_side
    if kind == "kronecker":
        assert task_side is not None
        assert columns is not None
        if case.chance(0.5) or dtype == np.float32:
            side = Side(rows.K, "tikhonov", side.alpha * (top_value(columns.K) or 1.0))
        if constant and side.alpha == 0:
            side = Side(rows.K, "tikhonov", 1.0)
        task_side = Side(columns.K, "tikhonov", side.alpha)
    if constant:
        side = _about_its_mean(case, side)
        if is_network:
            task_side = side
        else:
            task_side = task_side and _about_its_mean(case, task_side)
    model = Model(kind, side, task_side, Y.astype(np.float64), weights, sign)
    sides = {"kernel": rows.kernel, "kernel_params": rows.params}
    if columns is not None:
        sides |= {"task_kernel": columns.kernel, "task_kernel_params": columns.params}
    stopping = {"tol": 1e-12, "max_iter": 20_000}
    case.what = (
        f"{kind} {m}×{q} {dtype} K={rows.what} G={columns.what if columns else None} "
        f"λ={side.alpha:.3g} "
        f"μ={task_side.alpha if task_side else 0:.3g} "
        f"filters={side.filter},{task_side and task_side.filter} "
        f"{holes_word} {weights_word}{' intercept' if constant else ''}"
    )
    sides["fit_intercept"] = constant
    estimator: Any
    if kind == "independent":
        estimator = _without_tasks(case, side.alpha, filter, sides)
    elif kind == "two_step":
        assert task_side is not None
        estimator = TwoStepRidge(
            side.alpha, task_side.alpha, filter=filter, task_filter=task_filter, **sides, **stopping
        )
    elif kind == "kronecker":
        estimator = KroneckerRidge(side.alpha, **sides, **stopping)
    else:
        symmetry = "symmetric" if sign > 0 else "antisymmetric"
        estimator = TwoStepRidge(
            side.alpha, side.alpha, filter=filter, symmetry=symmetry, **sides, **stopping
        )
    drawn = Drawn(estimator, model, rows, columns, dtype)
    with refusing(lambda error: _why_not_fit(drawn, error)):
        tasks = None if columns is None else columns.rows
        extra = {} if sample_weight is None else {"sample_weight": sample_weight}
        estimator.fit(rows.rows, Y, tasks=tasks, **extra)
    return drawn


def _about_its_mean(case: Case, side: Side) -> Side:
    """Return the side with a constant; cut-offs and steps of gradient descent belong to the kernel without it."""
    centred = replace(side, constant=True)
    if side.filter in ("cutoff", "landweber") and len(side.K) > 1:
        _, drawn = draw_filter(case, centred.seen, 1.0)
        while drawn.filter != side.filter or (drawn.n_iter is None) != (side.n_iter is None):
            _, drawn = draw_filter(case, centred.seen, 1.0)
        centred = replace(centred, alpha=drawn.alpha, n_iter=side.n_iter)
    return centred


def _without_tasks(case: Case, alpha: float, filter: Any, sides: dict[str, Any]) -> Any:
    """Return one of the estimators that are independent tasks where there is no task side."""
    if filter is None and case.chance(0.2):
        return KroneckerRidge(alpha, **sides)
    if case.chance(0.3):
        return TwoStepRidge(alpha, 3.0, filter=filter, **sides)
    return IndependentTaskRidge(alpha, filter=filter, **sides)


def _why_not_fit(drawn: Drawn, error: Exception) -> str | None:
    if (
        drawn.model.weights is not None
        and "interpolates" in str(error)
        and not isinstance(error, LeverageError)
    ):
        sides = [drawn.model.rows] + ([drawn.model.columns] if drawn.model.columns else [])
        if not all(side.definite for side in sides):
            return "weights without regularisation"
        return None
    if isinstance(error, LeverageError) or not drawn.is_complete:
        nothing = np.zeros(0, dtype=int)
        slack = drawn.model.slack("A", nothing, nothing, np.zeros(drawn.model.Y.shape, dtype=bool))
        if slack < SLACK and (drawn.has_zero or not drawn.is_ridge):
            return "the missing labels are not determined"
    return None


@dataclass(frozen=True, eq=False)
class LeftOut:
    """One set of labels that leaves: rows, columns, or cells in setting A, and the cells to predict."""

    rows: np.ndarray
    columns: np.ndarray
    cells: np.ndarray
    wanted: np.ndarray


def left_out_sets(
    setting: str, shape: tuple[int, int], groups: Any, task_groups: Any, cells: Any, network: bool
) -> list[LeftOut]:
    """List all that is left out in turn, as the documentation of `holdout` has it."""
    m, q = shape
    nothing = np.zeros(0, dtype=int)
    sets = []
    if setting == "A":
        folds = np.arange(m * q).reshape(shape) if cells is None else np.asarray(cells)
        for fold in np.unique(folds):
            hidden = folds == fold
            sets.append(LeftOut(nothing, nothing, hidden | hidden.T if network else hidden, hidden))
        return sets
    row_folds = np.arange(m) if groups is None else np.asarray(groups)
    column_folds = np.arange(q) if task_groups is None else np.asarray(task_groups)
    for i in np.unique(row_folds) if setting in "BD" else [None]:
        for j in np.unique(column_folds) if setting in "CD" else [None]:
            rows = nothing if i is None else np.flatnonzero(row_folds == i)
            columns = nothing if j is None else np.flatnonzero(column_folds == j)
            wanted = np.zeros(shape, dtype=bool)
            wanted[
                np.ix_(
                    rows if i is not None else np.arange(m),
                    columns if j is not None else np.arange(q),
                )
            ] = True
            sets.append(LeftOut(rows, columns, np.zeros(shape, dtype=bool), wanted))
    return sets


def _check_holdout(case: Case, drawn: Drawn) -> None:
    """Compare the hold-out of one setting, with groups or cells or without, with refits of some of what is left out."""
    model = drawn.model
    rng = case.rng
    setting = str(case.pick(*("AB" if model.kind == "independent" else "ABCD")))
    arguments: dict[str, Any] = {}
    if model.kind != "network" and case.chance(0.5):
        if setting in "BD" and case.chance(0.8):
            arguments["groups"] = draw_folds(case, model.Y.shape[0])
        if setting in "CD" and case.chance(0.8):
            arguments["task_groups"] = draw_folds(case, model.Y.shape[1])
        if setting == "A":
            arguments["cells"] = draw_folds(case, model.Y.size).reshape(model.Y.shape)
    case.what += f" holdout {setting} {'/'.join(arguments)}"
    sets = left_out_sets(
        setting,
        model.Y.shape,
        *(arguments.get(name) for name in ("groups", "task_groups", "cells")),
        model.kind == "network",
    )
    with refusing(lambda error: _why_not_held_out(drawn, setting, sets, error)):
        actual = np.asarray(
            drawn.estimator.holdout(setting, **arguments), dtype=np.float64
        ).reshape(model.Y.shape)
    if not (np.isfinite(actual).all() or drawn.may_lack_a_constant):
        raise WrongAnswerError(
            f"holdout {setting}: {np.count_nonzero(~np.isfinite(actual))} values are not finite"
        )
    chosen = rng.choice(len(sets), min(N_SETS, len(sets)), replace=False)
    digits = 0
    undefined = 0
    for number in chosen:
        left = sets[int(number)]

        def refer(model: Model, left: LeftOut = left) -> np.ndarray:
            return model.left_out(setting, left.rows, left.columns, left.cells)

        words = f"holdout {setting} of set {number}"
        try:
            digits += agree(case, drawn, actual, refer, words, left.wanted)
        except UndefinedError:
            undefined += 1
            if (
                drawn.is_projector
                and model.slack(setting, left.rows, left.columns, left.cells) < 1e-13
            ):
                raise WrongAnswerError(
                    f"{words}: a number where the leverage is 1 and there is none"
                ) from None
    if not digits:
        raise RefusedError(
            "leverage 1 within rounding" if undefined else "ill-conditioned: no digits to compare"
        )


def _why_not_held_out(
    drawn: Drawn, setting: str, sets: list[LeftOut], error: Exception
) -> str | None:
    model = drawn.model
    zero = drawn.has_zero or not drawn.is_ridge
    if model.kind == "network" and not drawn.is_complete and setting != "A":
        return "vertices of a network with holes"
    emptied = any(not _anything_left(model, setting, left) for left in sets)
    if isinstance(error, NothingLeftError):
        # Without a task side, a pair of one row leaves with the row.
        is_single = (
            any(len(left.rows) == model.Y.shape[0] for left in sets) or model.Y.shape[0] == 1
        )
        return "a fold leaves no label to learn from" if emptied or is_single else None
    if isinstance(error, LeverageError) and model.constant and emptied:
        return "no label is left to take a constant from"
    if isinstance(error, LeverageError) and zero:
        if min(_side_slack(model, setting, left) for left in sets) < SLACK:
            return "leverage 1"
        return "leverage 1 of all that is left" if emptied else None
    if isinstance(error, LeverageError):
        return None
    if emptied:
        return "a fold leaves no label to learn from"
    if zero and not drawn.is_complete:
        return "missing labels without regularisation"
    return None


def _side_slack(model: Model, setting: str, left: LeftOut) -> float:
    slacks = [model.slack(setting, left.rows, left.columns, left.cells)]
    if setting != "A":
        if model.kind == "network":
            rows = np.union1d(left.rows, left.columns)
        else:
            rows = left.rows
        slacks.append(model.rows.slack(rows))
        if model.columns is not None:
            slacks.append(model.columns.slack(rows if model.kind == "network" else left.columns))
    return min(slacks)


def _anything_left(model: Model, setting: str, left: LeftOut) -> bool:
    W = model.W.copy()
    rows = left.rows
    columns = left.columns
    if model.kind == "network":  # a vertex leaves both sides
        rows = columns = np.union1d(rows, columns)
    W[left.cells] = 0
    W[rows] = 0
    W[:, columns] = 0
    if model.kind == "independent":
        return bool((W.any(axis=0) == model.W.any(axis=0)).all())
    return bool(W.any())


def _check_predict(case: Case, drawn: Drawn) -> None:
    """Compare predictions for training and new entities with the definition."""
    model = drawn.model
    columns = drawn.columns
    digits = 0
    for words, X, K in (
        ("training", drawn.rows.rows, model.rows.K),
        ("new", drawn.rows.new, drawn.rows.K_new),
    ):
        actual = np.asarray(drawn.estimator.predict(X), dtype=np.float64)
        digits += agree(
            case, drawn, actual, _predictor(K, words, None), f"predict {words} instances"
        )
        if columns is not None and case.chance(0.5):
            actual = np.asarray(drawn.estimator.predict(X, tasks=columns.new), dtype=np.float64)
            refer = _predictor(K, words, columns.K_new)
            digits += agree(case, drawn, actual, refer, f"predict {words} instances, new tasks")
    if not digits:
        raise RefusedError("ill-conditioned: no digits to compare")


def _predictor(
    K: np.ndarray, words: str, task_K: np.ndarray | None
) -> Callable[[Model], np.ndarray]:
    def refer(model: Model) -> np.ndarray:
        rows = model.seen(model.rows.K if words == "training" else K)
        if task_K is None and model.kind == "kronecker" and model.columns is not None:
            # Predictions for the training tasks are products of dual coefficients with their
            # kernel, too.
            return model.predict(rows, model.seen(model.columns.K))
        return model.predict(rows, None if task_K is None else model.seen(task_K))

    return refer


def _check(case: Case, kind: str) -> None:
    drawn = draw_problem(case, kind)
    try:
        (_check_predict if case.chance(0.25) else _check_holdout)(case, drawn)
    except UndefinedError as reason:
        raise RefusedError(str(reason)) from None


@generator
def independent(case: Case) -> None:
    """Independent tasks: IndependentTaskRidge, and the others without a task side."""
    _check(case, "independent")


@generator
def two_step(case: Case) -> None:
    """Two-step ridge regression and its other filters."""
    _check(case, "two_step")


@generator
def kronecker(case: Case) -> None:
    """Kronecker ridge regression."""
    _check(case, "kronecker")


@generator
def network(case: Case) -> None:
    """Symmetric and antisymmetric networks."""
    _check(case, "network")
