"""Online learning and forgetting in any order, against a batch fit of what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from campaign import Case, RefusedError, WrongAnswerError, generator
from dense import LONG, Side, solve, top_value
from drawing import DrawnSide
from fitting import Drawn, agree
from refits import Model

from dyadlearn import OnlineTwoStepRidge

__all__: list[str] = []


@generator
def online(case: Case) -> None:
    """Rows and tasks that come and go: the model equals the one fitted at once on what is left."""
    rng = case.rng
    d, r = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    has_tasks = case.chance(0.7)
    m, q = int(rng.integers(2, 13)), int(rng.integers(1, 7))
    X, T, Y = rng.standard_normal((m, d)), rng.standard_normal((q, r)), rng.standard_normal((m, q))
    if case.chance(0.2):
        X = X * 10.0 ** rng.integers(-3, 4)
    if case.chance(0.2):
        X = np.round(X)
    alpha, task_alpha = (float(10.0 ** rng.uniform(-6, 6)) for _ in range(2))
    keep, constant = case.chance(0.5), case.chance(0.5)
    if constant:
        X, T, Y = (part + float(case.pick(0.0, 1.0, 100.0)) for part in (X, T, Y))
    model = OnlineTwoStepRidge(
        alpha,
        task_alpha,
        fit_intercept=constant,
        solver=str(case.pick("auto", "woodbury", "cholesky")),
        keep_instances=case.chance(0.5),
        keep_tasks=keep,
    )
    make = scipy.sparse.csr_array if case.chance(0.2) else np.asarray
    rows = list(range(int(rng.integers(1, m + 1))))
    columns = list(range(int(rng.integers(1, q + 1))))
    steps = [f"fit {len(rows)}×{len(columns)}"]
    case.what = f"online d={d} r={r if has_tasks else 0} λ={alpha:.3g} μ={task_alpha:.3g} {model.solver}"
    case.what += " with a constant" if constant else ""
    model.fit(make(X[rows]), Y[np.ix_(rows, columns)], tasks=make(T[columns]) if has_tasks else None)
    for _ in range(int(rng.integers(0, 6))):
        steps.append(_step(case, model, X, T if has_tasks else None, Y, rows, columns))
    if case.chance(0.3):
        alpha, task_alpha = (float(10.0 ** rng.uniform(-6, 6)) for _ in range(2))
        model.set_alpha(alpha, task_alpha)
        steps.append(f"set_alpha {alpha:.3g} {task_alpha:.3g}")
    case.what += ": " + ", ".join(step for step in steps if step)
    if model.n_seen_ != len(rows) or model.n_tasks_ != len(columns):
        raise WrongAnswerError(f"{model.n_seen_} × {model.n_tasks_} learnt, expected {len(rows)} × {len(columns)}")
    if constant:
        _compare_with_constant(model, X, T if has_tasks else None, Y, rows, columns)
        return
    exact, exact_tasks = X[rows].astype(LONG), T[columns].astype(LONG)
    K, K_new = exact @ exact.T, X.astype(LONG) @ exact.T
    side = DrawnSide("features", "linear", None, X, X, K, K_new, X)
    reference = Model(
        "two_step" if has_tasks else "independent",
        Side(K, "tikhonov", alpha),
        Side(exact_tasks @ exact_tasks.T, "tikhonov", task_alpha) if has_tasks else None,
        Y[np.ix_(rows, columns)],
    )
    drawn = Drawn(model, reference, side, None, np.dtype(np.float64))
    # What was learnt and forgotten again has left its rounding behind.
    lost = top_value(X @ X.T) / max(top_value(K), 1e-300) * max(1.0, top_value(K) / alpha)
    if lost > 1e6:
        raise RefusedError("ill-conditioned: no digits to compare")
    found = np.asarray(model.predict(X))
    if not agree(case, drawn, found, lambda model: model.predict(K_new), "predict after the last step"):
        raise RefusedError("ill-conditioned: no digits to compare")


def _compare_with_constant(
    model: Any, X: np.ndarray, T: np.ndarray | None, Y: np.ndarray, rows: list[int], columns: list[int]
) -> None:
    """Compare predictions with those of a constant that is not regularised, beside features about their mean."""
    lost = [_digits(X, rows, model.alpha), 1.0 if T is None else _digits(T, columns, model.task_alpha)]
    if max(lost) > 1e6:
        raise RefusedError("ill-conditioned: no digits to compare")
    wanted = _weights(X, rows, model.alpha, X) @ Y[np.ix_(rows, columns)].astype(LONG)
    if T is not None:
        wanted = wanted @ _weights(T, columns, model.task_alpha, T[columns]).T
    found = np.asarray(model.predict(X))
    gap = float(np.abs(found - wanted).max())
    if gap > 1e-13 * max(lost) * max(1.0, float(np.abs(Y).max())) * 10:
        raise WrongAnswerError(f"predictions with a constant are {gap:.3g} off")


def _weights(features: np.ndarray, known: list[int], alpha: float, new: np.ndarray) -> np.ndarray:
    """Return what labels of known rows are multiplied by for predictions of new ones, shape (a, n)."""
    exact = features[known].astype(LONG)
    mean = exact.mean(axis=0)
    about = exact - mean
    inner = about.T @ about + LONG(alpha) * np.eye(features.shape[1], dtype=LONG)
    return 1 / LONG(len(known)) + (new.astype(LONG) - mean) @ solve(inner, about.T)


def _digits(features: np.ndarray, known: list[int], alpha: float) -> float:
    """Return what rounding grows by: of what was learnt and forgotten again, and of the equations."""
    about, left = (part - part.mean(axis=0) for part in (features, features[known]))
    largest, least = top_value(about @ about.T), top_value(left @ left.T)
    return max(1.0, largest / max(least, alpha)) * max(1.0, least / alpha)


def _step(
    case: Case, model: Any, X: np.ndarray, T: np.ndarray | None, Y: np.ndarray, rows: list[int], columns: list[int]
) -> str:
    """Learn or forget something at random, and keep the lists of what is known up to date."""
    rng = case.rng
    new_rows = [i for i in range(len(X)) if i not in rows]
    new_columns = [j for j in range(Y.shape[1]) if j not in columns]
    kind = str(case.pick("rows", "forget", "tasks", "forget tasks"))
    if kind == "rows" and new_rows:
        some = sorted(rng.choice(new_rows, int(rng.integers(1, len(new_rows) + 1)), replace=False).tolist())
        model.partial_fit(X[some], Y[np.ix_(some, columns)])
        rows += some
        return f"learn {len(some)} rows"
    if kind == "forget" and len(rows) > 1:
        some = sorted(rng.choice(rows, int(rng.integers(1, len(rows))), replace=False).tolist())
        model.forget(X[some], Y[np.ix_(some, columns)])
        rows[:] = [i for i in rows if i not in some]
        return f"forget {len(some)} rows"
    if kind == "tasks" and new_columns:
        some = sorted(rng.choice(new_columns, int(rng.integers(1, len(new_columns) + 1)), replace=False).tolist())
        cut = int(rng.integers(1, len(rows) + 1))
        for part in (rows[:cut], rows[cut:]):
            if part:
                model.partial_fit_tasks(None if T is None else T[some], Y[np.ix_(part, some)], X=X[part])
        columns += some
        return f"learn {len(some)} tasks"
    if kind == "forget tasks" and len(columns) > 1:
        places = sorted(rng.choice(len(columns), int(rng.integers(1, len(columns))), replace=False).tolist())
        some = [columns[place] for place in places]
        if model.keep_tasks or T is None:
            model.forget_tasks(places)
        else:
            model.forget_tasks(places, Y[np.ix_(rows, some)], X=X[rows])
        columns[:] = [j for j in columns if j not in some]
        return f"forget {len(some)} tasks"
    return ""
