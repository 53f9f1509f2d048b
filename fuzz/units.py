"""Other units of labels, weights, kernels and features, other orders of rows and exchanged sides: the same answers.

No reference is needed: a model that is fitted on changed data must give the answers that follow
from those before. In `heavy_weights`, weighted ridge regression in sixty digits is the reference.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import PrecisionWarning

__all__: list[str] = []

# Digits that two fits agree to, relative to the spread of the labels.
DIGITS = 1e-6
MODELS = {
    "independent": (IndependentTaskRidge, IndependentTaskRidgeCV),
    "two-step": (TwoStepRidge, TwoStepRidgeCV),
    "kronecker": (KroneckerRidge, KroneckerRidgeCV),
}


@dataclass(frozen=True)
class Given:
    """What a model is fitted on: features of both sides, labels and weights, and new rows.

    The regularisations are those of the instances, of the tasks and of the pairs.
    """

    X: np.ndarray
    T: np.ndarray
    Y: np.ndarray
    W: np.ndarray | None
    new: np.ndarray
    new_tasks: np.ndarray
    alphas: np.ndarray


@dataclass(frozen=True)
class Changed:
    """Changed data, and how answers follow from those before: order of rows and columns, factor and shift."""

    given: Given
    rows: np.ndarray
    columns: np.ndarray
    scale: float = 1.0
    shift: float = 0.0
    is_turned: bool = False
    words: list[str] = field(default_factory=list)


def _draw(case: Case) -> Given:
    rng = case.rng
    m = int(rng.integers(3, 9))
    q = int(rng.integers(3, 8))
    d, r = (int(rng.integers(1, 2 * n)) for n in (m, q))
    X = rng.normal(size=(m, d))
    T = rng.normal(size=(q, r))
    Y = rng.normal(size=(m, q)) + X[:, :1] + T[:, 0] + case.pick(0.0, 3.0)
    if case.chance(0.4):
        Y[rng.random(Y.shape) < rng.uniform(0.05, 0.3)] = np.nan
    if np.isnan(Y).all(axis=0).any() or np.isnan(Y).all(axis=1).any():
        Y = np.nan_to_num(Y)
    W = 10.0 ** rng.uniform(-1, 1, size=Y.shape) if case.chance(0.4) else None
    alphas = 10.0 ** rng.uniform(-2, 2, size=3)
    return Given(X, T, Y, W, rng.normal(size=(2, d)), rng.normal(size=(2, r)), alphas)


def _change(case: Case, model: str, posed: Given, constant: bool, is_search: bool) -> Changed:
    """Return the data after one to three changes that the theory knows for the model."""
    m, q = posed.Y.shape
    done = Changed(posed, np.arange(m), np.arange(q))
    known = ["labels", "order"]
    known += ["shift"] if constant else []
    known += ["weights"] if model != "two-step" else []
    # With an intercept, the constant feature of Kronecker ridge regression has the size 1.
    known += ["instances"] if model != "kronecker" or not constant else []
    known += ["tasks"] if model == "two-step" or (model == "kronecker" and not constant) else []
    known += ["exchange"] if model != "independent" else []
    if is_search:
        # A search of setting B is no search of setting C, and folds are drawn by position.
        is_complete = posed.W is None and not np.isnan(posed.Y).any()
        known = [name for name in known if name != "exchange" and (is_complete or name != "order")]
    for name in case.rng.choice(known, size=int(case.rng.integers(1, 4))):
        factor = float(10.0 ** case.rng.uniform(-12, 12))
        done = _CHANGES[str(name)](case, done, factor)
        done.words.append(str(name))
    return done


def _labels(case: Case, done: Changed, factor: float) -> Changed:
    posed = replace(done.given, Y=factor * done.given.Y)
    return replace(done, given=posed, scale=factor * done.scale, shift=factor * done.shift)


def _shift(case: Case, done: Changed, factor: float) -> Changed:
    step = float(np.nanstd(done.given.Y)) * case.pick(1.0, 1e3, 1e6)
    return replace(done, given=replace(done.given, Y=done.given.Y + step), shift=done.shift + step)


def _weights(case: Case, done: Changed, factor: float) -> Changed:
    posed = done.given
    weights = np.ones(posed.Y.shape) if posed.W is None else posed.W
    return replace(done, given=replace(posed, W=factor * weights, alphas=factor * posed.alphas))


def _instances(case: Case, done: Changed, factor: float) -> Changed:
    posed = done.given
    factor = factor**0.5
    alphas = posed.alphas * [factor**2, 1.0, factor**2]
    posed = replace(posed, X=factor * posed.X, new=factor * posed.new, alphas=alphas)
    return replace(done, given=posed)


def _tasks(case: Case, done: Changed, factor: float) -> Changed:
    posed = done.given
    factor = factor**0.5
    alphas = posed.alphas * [1.0, factor**2, factor**2]
    posed = replace(posed, T=factor * posed.T, new_tasks=factor * posed.new_tasks, alphas=alphas)
    return replace(done, given=posed)


def _order(case: Case, done: Changed, factor: float) -> Changed:
    posed = done.given
    rows = case.rng.permutation(posed.Y.shape[0])
    columns = case.rng.permutation(posed.Y.shape[1])
    weights = None if posed.W is None else posed.W[np.ix_(rows, columns)]
    labels = posed.Y[np.ix_(rows, columns)]
    moved = replace(posed, X=posed.X[rows], T=posed.T[columns], Y=labels, W=weights)
    return replace(done, given=moved, rows=done.rows[rows], columns=done.columns[columns])


def _exchange(case: Case, done: Changed, factor: float) -> Changed:
    posed = done.given
    weights = None if posed.W is None else posed.W.T
    sides = {"X": posed.T, "T": posed.X, "new": posed.new_tasks, "new_tasks": posed.new}
    turned = replace(posed, **sides, Y=posed.Y.T, W=weights, alphas=posed.alphas[[1, 0, 2]])
    return replace(
        done, given=turned, rows=done.columns, columns=done.rows, is_turned=not done.is_turned
    )


_CHANGES = {
    "labels": _labels,
    "shift": _shift,
    "weights": _weights,
    "instances": _instances,
    "tasks": _tasks,
    "order": _order,
    "exchange": _exchange,
}


def _alphas(model: str, posed: Given) -> dict[str, float]:
    """Return the regularisations of a model."""
    alpha, task_alpha, of_pairs = map(float, posed.alphas)
    if model == "two-step":
        return {"alpha": alpha, "task_alpha": task_alpha}
    return {"alpha": alpha if model == "independent" else of_pairs}


def _answers(model: Any, posed: Given, name: str) -> dict[str, np.ndarray]:
    asked = (posed.new,) if name == "independent" else (posed.new, posed.new_tasks)
    if name == "independent":
        settings = "AB"
    else:
        settings = [letter for letter in "ABCD" if _leaves_labels(posed.Y, letter)]
    return {"predict": model.predict(*asked)} | {
        setting: model.holdout(setting) for setting in settings
    }


def _leaves_labels(Y: np.ndarray, setting: str) -> bool:
    """Return whether labels remain without any row, any column or both; the library refuses hold-out otherwise."""
    seen = ~np.isnan(Y)
    of_rows = seen.sum(axis=1)
    of_columns = seen.sum(axis=0)
    left = {
        "A": np.ones(1),
        "B": of_rows,
        "C": of_columns,
        "D": of_rows[:, None] + of_columns - seen,
    }
    return bool(left[setting].max() < seen.sum())


def _back(done: Changed, name: str, setting: str, values: np.ndarray) -> np.ndarray:
    """Return answers in the units and the order before the change."""
    values = (np.asarray(values) - done.shift) / done.scale
    if setting == "predict":
        if name == "independent":  # the columns are those of the training tasks
            values = values[:, np.argsort(done.columns)]
        return values.T if done.is_turned else values
    placed = np.empty_like(values)
    placed[np.ix_(done.rows, done.columns)] = values
    return placed.T if done.is_turned else placed


@generator
def units(case: Case) -> None:
    """Fit, hold out and search in other units, orders and with exchanged sides: the answers follow."""
    posed = _draw(case)
    name = str(case.pick(*MODELS))
    constant = case.chance(0.6)
    if name == "independent" and np.isnan(posed.Y).any() and constant:
        posed = replace(posed, Y=np.nan_to_num(posed.Y))
    is_search = case.chance(0.3)
    done = _change(case, name, posed, constant, is_search)
    case.what = (
        f"{name} {posed.Y.shape} constant {constant} search {is_search}: {', '.join(done.words)}"
    )
    spread = float(np.nanstd(posed.Y)) or 1.0
    answers = []
    for one in (posed, done.given):
        params = {} if is_search else _alphas(name, one)
        estimator = MODELS[name][is_search](**params | {"fit_intercept": constant})
        if name != "independent":
            estimator.set_params(tol=1e-12)
        if is_search:
            estimator.set_params(progress=False)
        weights = {} if one.W is None else {"sample_weight": one.W}
        estimator.fit(one.X, one.Y, tasks=one.T, **weights)
        answers.append(_answers(estimator, one, name))
    for setting, expected in answers[0].items():
        if done.is_turned:
            turned = {"B": "C", "C": "B"}.get(setting, setting)
        else:
            turned = setting
        values = _back(done, name, setting, answers[1][turned])
        # A shift of the labels takes digits from them.
        tolerance = DIGITS * spread + 1e-13 * abs(done.shift / done.scale)
        error = float(np.nanmax(np.abs(values - expected)))
        if not error <= tolerance * max(1.0, float(np.nanmax(np.abs(expected))) / spread):
            raise WrongAnswerError(
                f"{setting}: {error / spread:.1e} of the spread of the labels off"
            )


@generator
def heavy_weights(case: Case) -> None:
    """Fit weights from 1e-18 to 1e18 that differ by up to 1e16, against weighted ridge regression in sixty digits."""
    rng = case.rng
    name = str(case.pick("independent", "kronecker"))
    posed = replace(_draw(case), W=None)
    constant = case.chance(0.6)
    if name == "independent":
        posed = replace(posed, Y=np.nan_to_num(posed.Y))
    spread = float(case.pick(0.0, 2.0, 8.0, 16.0))
    scale = float(10.0 ** rng.uniform(-18, 18))
    W = scale * 10.0 ** rng.uniform(-spread / 2, spread / 2, size=posed.Y.shape)
    case.what = f"{name} {posed.Y.shape} constant {constant} weights {scale:.0e} spread {spread:g}"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = MODELS[name][0](posed.alphas[0], fit_intercept=constant)
        model.fit(posed.X, posed.Y, tasks=posed.T, sample_weight=W)
        asked = (posed.new,) if name == "independent" else (posed.new, posed.new_tasks)
        actual = model.predict(*asked)
    with mpmath.workdps(60):
        expected = _weighted(name, posed, W, constant)
    size = float(np.abs(expected).max()) or 1.0
    error = float(np.abs(actual - expected).max()) / size
    if error <= 1e-6:
        return
    # Residuals of heavy labels, times the rounding of their features, move what light labels
    # determine. A fit of pairs rounds the features of each pair by itself, so that it may lose ten
    # times what that changes.
    with mpmath.workdps(60):
        errors = np.random.default_rng(case.seed)
        others = [_weighted(name, posed, W, constant, errors) for _ in range(2)]
    if error > 10 * max(float(np.abs(other - expected).max()) for other in others) / size:
        if any(issubclass(warning.category, PrecisionWarning) for warning in told):
            raise RefusedError("digits are lost, and it said so")
        raise WrongAnswerError(f"{error:.1e} of the largest prediction off")


def _exact(array: np.ndarray) -> np.ndarray:
    return np.vectorize(mpmath.mpf, otypes=[object])(array)


def _weighted(
    name: str,
    posed: Given,
    W: np.ndarray,
    constant: bool,
    errors: np.random.Generator | None = None,
) -> np.ndarray:
    """Return the predictions for new rows, each task by itself or all pairs together.

    With a generator of `errors`, features are rounded to double precision in another way.
    """

    def rounded(features: np.ndarray) -> np.ndarray:
        if errors is None:
            return features
        size = np.finfo(float).eps * float(np.abs(features).max())
        return features + _exact(size * errors.normal(size=features.shape))

    one = np.ones(int(constant and name == "kronecker"))
    X, T, new, new_tasks = (
        _exact(np.column_stack([side, np.tile(one, (len(side), 1))]))
        for side in (posed.X, posed.T, posed.new, posed.new_tasks)
    )
    if name == "independent":
        rows = rounded(X)
        columns = [
            _ridge(
                rows @ rows.T,
                new @ rows.T,
                _exact(posed.Y[:, j]),
                posed.alphas[0] / _exact(W[:, j]),
                constant,
            )
            for j in range(posed.Y.shape[1])
        ]
        return np.stack(columns, axis=1)
    i, j = np.nonzero(~np.isnan(posed.Y))
    pairs = rounded((X[i][:, :, None] * T[j][:, None, :]).reshape(len(i), -1))
    noise = posed.alphas[0] / _exact(W[i, j])
    predicted = _ridge(
        pairs @ pairs.T, np.kron(new, new_tasks) @ pairs.T, _exact(posed.Y[i, j]), noise, constant
    )
    return predicted.reshape(len(new), len(new_tasks))


def _ridge(
    K: np.ndarray, rows: np.ndarray, y: np.ndarray, noise: np.ndarray, constant: bool
) -> np.ndarray:
    """Return predictions from kernel rows; a free mean makes the dual coefficients sum to zero."""
    system = K + np.diag(noise)
    right = y
    if constant:
        ones = _exact(np.ones((len(y), 1)))
        system = np.block([[system, ones], [ones.T, _exact(np.zeros((1, 1)))]])
        right = np.append(y, mpmath.mpf(0))
        rows = np.concatenate([rows, _exact(np.ones((len(rows), 1)))], axis=1)
    dual = mpmath.lu_solve(mpmath.matrix(system.tolist()), mpmath.matrix(right.tolist()))
    return np.array([float(value) for value in rows @ np.array(list(dual), dtype=object)])
