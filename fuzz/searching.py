"""The estimators that choose: landscape, best score, chosen model and its predictions, against refits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator
from dense import LONG, Side
from drawing import draw_folds, draw_side, hide
from fitting import ROUNDING as MARGIN
from fitting import Drawn, agree, left_out_sets
from refits import Model
from scoring import AVERAGES, between, rows_of

from dyadlearn import IndependentTaskRidgeCV, KroneckerRidgeCV, TwoStepRidgeCV

__all__: list[str] = []

# Held-out predictions of the reference that differ by less than this share of their size are equal
# to each other, and those that differ by more than the second are not; between them rounding may
# decide.
EXACT = 1e-17
CLEAR = 1e-9
# Scores that differ by less than this share are equal.
ROUNDING = 1e-12


@generator
def searches(case: Case) -> None:
    """Landscapes and what is chosen from them."""
    rng = case.rng
    kind = str(case.pick("independent", "two_step", "kronecker"))
    m = int(rng.integers(2, 7))
    q = int(rng.integers(2, 6))
    rows = draw_side(case, m, kinds=("primal", "dual", "precomputed", "rbf"))
    if kind == "independent":
        columns = None
    else:
        columns = draw_side(case, q, kinds=("primal", "dual", "precomputed", "rbf"))
    setting = str(case.pick(*("AB" if kind == "independent" else "ABCD")))
    scoring = str(case.pick("neg_mean_squared_error", "roc_auc", "concordance_index"))
    if scoring != "roc_auc":
        Y = rng.standard_normal((m, q))
    else:
        Y = rng.integers(0, 2, (m, q)).astype(float)
    holes = "complete"
    # Folds of grids with holes are drawn by the library; only leave-one-out is judged here.
    if kind == "independent" or setting == "A":
        Y, holes = hide(case, Y, 0.4)
    groups: dict[str, Any] = {}
    if holes == "complete" and case.chance(0.3):
        if setting in "BD":
            groups["groups"] = draw_folds(case, m)
        if setting in "CD":
            groups["task_groups"] = draw_folds(case, q)
    if any(len(np.unique(labels)) < 2 for labels in groups.values()):
        groups = {}
    top = float(np.abs(rows.K).max()) or 1.0
    task_top = 1.0 if columns is None else float(np.abs(columns.K).max()) or 1.0
    alphas = _grid(case, top * (task_top if kind == "kronecker" else 1), 3)
    task_alphas = _grid(case, task_top, 2)
    if case.chance(0.3):
        alphas = alphas[::-1]
    sides: dict[str, Any] = {"kernel": rows.kernel, "kernel_params": rows.params}
    if columns is not None:
        sides |= {"task_kernel": columns.kernel, "task_kernel_params": columns.params}
    constant = case.chance(0.5)
    if scoring != "neg_mean_squared_error" and setting in "AD":
        # Beside a free mean, rankings compare other predictions than those of leave-one-out.
        constant = False
    options = {
        "setting": setting,
        "scoring": scoring,
        "progress": False,
        "fit_intercept": constant,
        **sides,
    }
    search: Any
    if kind == "independent":
        search = IndependentTaskRidgeCV(alphas, **options)
    elif kind == "kronecker":
        search = KroneckerRidgeCV(alphas, tol=1e-12, **options)
    else:
        search = TwoStepRidgeCV(alphas, task_alphas, tol=1e-12, **options)
    case.what = (
        f"{type(search).__name__} {m}×{q} K={rows.what} G={columns and columns.what} {setting} "
        f"{scoring} {holes} "
        f"{'/'.join(groups)} alphas={alphas} {task_alphas if kind == 'two_step' else ''}"
        f"{' intercept' if constant else ''}"
    )
    predicted = Y.copy()
    if kind == "independent" and constant:
        # Without its only label a task has no constant, and the label is not scored.
        predicted[:, (~np.isnan(Y)).sum(axis=0) < 2] = np.nan
    n_values = 1 if scoring == "neg_mean_squared_error" else 2
    defined = any(
        len(set(y)) >= n_values for y, _ in rows_of(predicted, predicted, AVERAGES[setting])
    )
    observed = Y[~np.isnan(Y)]
    if scoring == "roc_auc" and len(np.unique(observed)) < 2:
        raise RefusedError("labels of one value")
    try:
        search.fit(rows.rows, Y, tasks=None if columns is None else columns.rows, **groups)
    except ValueError as error:
        if isinstance(error, np.linalg.LinAlgError):
            raise
        if not defined:
            raise RefusedError("undefined everywhere") from None
        if min((~np.isnan(Y)).any(axis=axis).sum() for axis in (0, 1)) < 2 or len(observed) < 3:
            raise RefusedError("nothing to learn from once something is left out") from None
        raise
    if columns is None:
        task_side = None
    else:
        task_side = Side(columns.K, "tikhonov", task_alphas[0], constant=constant)
    model = Model(kind, Side(rows.K, "tikhonov", alphas[0], constant=constant), task_side, Y)
    sets = left_out_sets(
        setting, Y.shape, groups.get("groups"), groups.get("task_groups"), None, False
    )

    def held_out(model: Model) -> np.ndarray:
        predictions = np.zeros(Y.shape, dtype=LONG)
        for left in sets:
            predictions[left.wanted] = model.left_out(setting, left.rows, left.columns, left.cells)[
                left.wanted
            ]
        return predictions

    landscape = np.asarray(search.landscape_)
    points = list(product(range(len(alphas)), range(len(task_alphas) if kind == "two_step" else 1)))
    if landscape.size != len(points):
        raise WrongAnswerError(f"a landscape of shape {landscape.shape} for {len(points)} points")
    for (row, column), score in zip(points, landscape.reshape(-1), strict=True):
        at = _regularised(model, alphas[row], task_alphas[column])
        F = held_out(at)
        words = f"landscape at point {row}, {column}"
        # As `agree` has it: the relative error that is granted to predictions of singular kernels,
        # with its margin.
        granted = 10 * Drawn(search, at, rows, columns, np.dtype(np.float64)).rounding
        rounded = held_out(
            at.perturbed(np.random.default_rng(case.seed), float(np.finfo(np.float64).eps))
        )
        # The first is NaN where nothing can be predicted.
        error = max(
            granted * float(np.nanmax(np.abs(F))), MARGIN * float(np.nanmax(np.abs(rounded - F)))
        )
        _check_score(
            np.where(np.isnan(F), np.nan, Y),
            F,
            AVERAGES[setting],
            scoring,
            float(score),
            words,
            error,
        )
    best = float(np.nanmax(landscape))
    # Of scores that differ by rounding only, the most regularised is chosen.
    equal = landscape >= best - ROUNDING * abs(best)
    place = (
        alphas.index(search.alpha_),
        task_alphas.index(search.task_alpha_) if kind == "two_step" else 0,
    )
    if not equal.reshape(len(alphas), -1)[place]:
        raise WrongAnswerError(f"alpha_ {search.alpha_} has not the best score")
    if search.best_score_ != landscape.reshape(len(alphas), -1)[place]:
        raise WrongAnswerError(
            f"best_score_ {search.best_score_} is not that of alpha_ {search.alpha_}"
        )
    if kind != "two_step" and any(
        same and a > search.alpha_ for same, a in zip(equal, alphas, strict=True)
    ):
        raise WrongAnswerError(f"alpha_ {search.alpha_} is not the most regularised of equals")
    chosen = _regularised(model, alphas[place[0]], task_alphas[place[1]])
    drawn = Drawn(search, chosen, rows, columns, np.dtype(np.float64))
    agree(case, drawn, np.asarray(search.holdout_), held_out, "holdout_ of the chosen model")
    agree(
        case,
        drawn,
        np.asarray(search.predict(rows.new)),
        lambda model: model.predict(rows.K_new),
        "predict",
    )


def _grid(case: Case, size: float, n: int) -> list[float]:
    """Return up to n regularisations about the size of a kernel."""
    return sorted({float(f"{size * 10.0**power:.3g}") for power in case.rng.uniform(-4, 3, n)})


def _error_of_sums(n: int) -> float:
    """Return the error of a difference of labels and a sum of n products with them, as a share of the labels.

    Held-out predictions are such differences: those far smaller than the labels have fewer digits,
    or none.
    """
    return 4 * float(np.finfo(np.float64).eps) * n**0.5


def _regularised(model: Model, alpha: float, task_alpha: float) -> Model:
    rows = replace(model.rows, alpha=alpha)
    if model.columns is None:
        return replace(model, rows=rows)
    return replace(model, rows=rows, columns=replace(model.columns, alpha=task_alpha))


def _check_score(
    Y: np.ndarray,
    F: np.ndarray,
    average: str,
    scoring: str,
    actual: float,
    words: str,
    error: float,
) -> None:
    """Compare a score with that of the reference's predictions, given the error that the library's may have."""
    if scoring == "neg_mean_squared_error":
        errors = [
            np.mean([(a - b) ** 2 for a, b in zip(y, f, strict=True)])
            for y, f in rows_of(Y, F, average)
            if y
        ]
        expected = -float(np.mean(errors))
        # The free landscape of squared errors is a difference of large terms.
        tolerance = 1e-8 * abs(expected) + 1e-12 * float(np.nanmean(Y**2))
        # What (y - f)² changes by where f is off by the error.
        tolerance += error * (2 * (-expected) ** 0.5 + error)
        if not abs(actual - expected) <= tolerance:
            raise WrongAnswerError(f"{words}: {actual:.12g}, expected {expected:.12g}")
        return
    size = float(np.nanmax(np.abs(F)))
    labels = float(np.nanmax(np.abs(Y)))
    clear = max(CLEAR * size, 1e-13 * labels, 2 * error)
    # Ties that are narrower than the error of predictions need not be seen.
    rounding = max(_error_of_sums(Y.size) * labels, error)
    bounds = between(Y, F, average, EXACT * size, clear, rounding)
    if bounds is None:
        raise WrongAnswerError(f"{words}: {actual} where the score is undefined")
    if not bounds[0] - 1e-9 <= actual <= bounds[1] + 1e-9:
        raise WrongAnswerError(
            f"{words}: {scoring} {actual:.6f}, expected {bounds[0]:.6f} … {bounds[1]:.6f}"
        )
