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


def _change(case: Case, model: str, given: Given, constant: bool, is_search: bool) -> Changed:
    """Return the data after one to three changes that the theory knows for the model."""
    m, q = given.Y.shape
    done = Changed(given, np.arange(m), np.arange(q))
    known = ["labels", "order"]
    known += ["shift"] if constant else []
    known += ["weights"] if model != "two-step" else []
    # With an intercept, the constant feature of Kronecker ridge regression has the size 1.
    known += ["instances"] if model != "kronecker" or not constant else []
    known += ["tasks"] if model == "two-step" or (model == "kronecker" and not constant) else []
    known += ["exchange"] if model != "independent" else []
    if is_search:
        # A search of setting B is no search of setting C, and folds are drawn by position.
        is_complete = given.W is None and not np.isnan(given.Y).any()
        known = [name for name in known if name != "exchange" and (is_complete or name != "order")]
    for name in case.rng.choice(known, size=int(case.rng.integers(1, 4))):
        factor = float(10.0 ** case.rng.uniform(-12, 12))
        done = _CHANGES[str(name)](case, done, factor)
        done.words.append(str(name))
    return done


def _labels(case: Case, done: Changed, factor: float) -> Changed:
    given = replace(done.given, Y=factor * done.given.Y)
    return replace(done, given=given, scale=factor * done.scale, shift=factor * done.shift)


def _shift(case: Case, done: Changed, factor: float) -> Changed:
    step = float(np.nanstd(done.given.Y)) * case.pick(1.0, 1e3, 1e6)
    return replace(done, given=replace(done.given, Y=done.given.Y + step), shift=done.shift + step)


def _weights(case: Case, done: Changed, factor: float) -> Changed:
    given = done.given
    weights = np.ones(given.Y.shape) if given.W is None else given.W
    return replace(done, given=replace(given, W=factor * weights, alphas=factor * given.alphas))


def _instances(case: Case, done: Changed, factor: float) -> Changed:
    given = done.given
    factor = factor**0.5
    alphas = given.alphas * [factor**2, 1.0, factor**2]
    given = replace(given, X=factor * given.X, new=factor * given.new, alphas=alphas)
    return replace(done, given=given)


def _tasks(case: Case, done: Changed, factor: float) -> Changed:
    given = done.given
    factor = factor**0.5
    alphas = given.alphas * [1.0, factor**2, factor**2]
    given = replace(given, T=factor * given.T, new_tasks=factor * given.new_tasks, alphas=alphas)
    return replace(done, given=given)


def _order(case: Case, done: Changed, factor: float) -> Changed:
    given = done.given
    rows = case.rng.permutation(given.Y.shape[0])
    columns = case.rng.permutation(given.Y.shape[1])
    weights = None if given.W is None else given.W[np.ix_(rows, columns)]
    labels = given.Y[np.ix_(rows, columns)]
    moved = replace(given, X=given.X[rows], T=given.T[columns], Y=labels, W=weights)
    return replace(done, given=moved, rows=done.rows[rows], columns=done.columns[columns])


def _exchange(case: Case, done: Changed, factor: float) -> Changed:
    given = done.given
    weights = None if given.W is None else given.W.T
    sides = {"X": given.T, "T": given.X, "new": given.new_tasks, "new_tasks": given.new}
    turned = replace(given, **sides, Y=given.Y.T, W=weights, alphas=given.alphas[[1, 0, 2]])
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


def _alphas(model: str, given: Given) -> dict[str, float]:
    """Return the regularisations of a model."""
    alpha, task_alpha, of_pairs = map(float, given.alphas)
    if model == "two-step":
        return {"alpha": alpha, "task_alpha": task_alpha}
    return {"alpha": alpha if model == "independent" else of_pairs}


def _answers(model: Any, given: Given, name: str) -> dict[str, np.ndarray]:
    asked = (given.new,) if name == "independent" else (given.new, given.new_tasks)
    if name == "independent":
        settings = "AB"
    else:
        settings = [letter for letter in "ABCD" if _leaves_labels(given.Y, letter)]
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
    given = _draw(case)
    name = str(case.pick(*MODELS))
    constant = case.chance(0.6)
    if name == "independent" and np.isnan(given.Y).any() and constant:
        given = replace(given, Y=np.nan_to_num(given.Y))
    is_search = case.chance(0.3)
    done = _change(case, name, given, constant, is_search)
    case.what = (
        f"{name} {given.Y.shape} constant {constant} search {is_search}: {', '.join(done.words)}"
    )
    spread = float(np.nanstd(given.Y)) or 1.0
    found = []
    for each in (given, done.given):
        params = {} if is_search else _alphas(name, each)
        estimator = MODELS[name][is_search](**params | {"fit_intercept": constant})
        if name != "independent":
            estimator.set_params(tol=1e-12)
        if is_search:
            estimator.set_params(progress=False)
        weights = {} if each.W is None else {"sample_weight": each.W}
        estimator.fit(each.X, each.Y, tasks=each.T, **weights)
        found.append(_answers(estimator, each, name))
    for setting, expected in found[0].items():
        if done.is_turned:
            turned = {"B": "C", "C": "B"}.get(setting, setting)
        else:
            turned = setting
        values = _back(done, name, setting, found[1][turned])
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
    given = replace(_draw(case), W=None)
    constant = case.chance(0.6)
    if name == "independent":
        given = replace(given, Y=np.nan_to_num(given.Y))
    spread = float(case.pick(0.0, 2.0, 8.0, 16.0))
    scale = float(10.0 ** rng.uniform(-18, 18))
    W = scale * 10.0 ** rng.uniform(-spread / 2, spread / 2, size=given.Y.shape)
    case.what = f"{name} {given.Y.shape} constant {constant} weights {scale:.0e} spread {spread:g}"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = MODELS[name][0](given.alphas[0], fit_intercept=constant)
        model.fit(given.X, given.Y, tasks=given.T, sample_weight=W)
        asked = (given.new,) if name == "independent" else (given.new, given.new_tasks)
        found = model.predict(*asked)
    with mpmath.workdps(60):
        expected = _weighted(name, given, W, constant)
    size = float(np.abs(expected).max()) or 1.0
    error = float(np.abs(found - expected).max()) / size
    if error <= 1e-6:
        return
    # Residuals of heavy labels, times the rounding of their features, move what light labels
    # determine. A fit of pairs rounds the features of each pair by itself, so that it may lose ten
    # times what that changes.
    with mpmath.workdps(60):
        errors = np.random.default_rng(case.seed)
        others = [_weighted(name, given, W, constant, errors) for _ in range(2)]
    if error > 10 * max(float(np.abs(other - expected).max()) for other in others) / size:
        if any(issubclass(each.category, PrecisionWarning) for each in told):
            raise RefusedError("digits are lost, and it said so")
        raise WrongAnswerError(f"{error:.1e} of the largest prediction off")


def _exact(array: np.ndarray) -> np.ndarray:
    return np.vectorize(mpmath.mpf, otypes=[object])(array)


def _weighted(
    name: str,
    given: Given,
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
        _exact(np.column_stack([each, np.tile(one, (len(each), 1))]))
        for each in (given.X, given.T, given.new, given.new_tasks)
    )
    if name == "independent":
        rows = rounded(X)
        columns = [
            _ridge(
                rows @ rows.T,
                new @ rows.T,
                _exact(given.Y[:, j]),
                given.alphas[0] / _exact(W[:, j]),
                constant,
            )
            for j in range(given.Y.shape[1])
        ]
        return np.stack(columns, axis=1)
    i, j = np.nonzero(~np.isnan(given.Y))
    pairs = rounded((X[i][:, :, None] * T[j][:, None, :]).reshape(len(i), -1))
    noise = given.alphas[0] / _exact(W[i, j])
    found = _ridge(
        pairs @ pairs.T, np.kron(new, new_tasks) @ pairs.T, _exact(given.Y[i, j]), noise, constant
    )
    return found.reshape(len(new), len(new_tasks))


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
