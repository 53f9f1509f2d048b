"""Online learning and forgetting in any order, against a batch fit of what is left."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
import scipy.sparse
from campaign import Case, RefusedError, WrongAnswerError, generator
from dense import LONG, Side, solve, top_value
from drawing import DrawnSide
from fitting import Drawn, agree
from refits import Model
from sklearn.linear_model import Ridge

from dyadlearn import OnlineTwoStepRidge
from dyadlearn.exceptions import PrecisionWarning

__all__: list[str] = []


@generator
def online(case: Case) -> None:
    """Rows and tasks that come and go: the model equals the one fitted at once on what is left."""
    rng = case.rng
    d = int(rng.integers(1, 6))
    r = int(rng.integers(1, 5))
    has_tasks = case.chance(0.7)
    m = int(rng.integers(2, 13))
    q = int(rng.integers(1, 7))
    X = rng.standard_normal((m, d))
    T = rng.standard_normal((q, r))
    Y = rng.standard_normal((m, q))
    if case.chance(0.2):
        X = X * 10.0 ** rng.integers(-3, 4)
    if case.chance(0.2):
        X = np.round(X)
    alpha, task_alpha = (float(10.0 ** rng.uniform(-6, 6)) for _ in range(2))
    constant = case.chance(0.5)
    if constant:
        X, T, Y = (part + float(case.pick(0.0, 1.0, 100.0)) for part in (X, T, Y))
    model = OnlineTwoStepRidge(
        alpha,
        task_alpha,
        fit_intercept=constant,
    )
    make = scipy.sparse.csr_array if case.chance(0.2) else np.asarray
    rows = list(range(int(rng.integers(1, m + 1))))
    columns = list(range(int(rng.integers(1, q + 1))))
    steps = [f"fit {len(rows)}×{len(columns)}"]
    case.what = f"online d={d} r={r if has_tasks else 0} λ={alpha:.3g} μ={task_alpha:.3g}"
    case.what += " with a constant" if constant else ""
    model.fit(
        make(X[rows]), Y[np.ix_(rows, columns)], tasks=make(T[columns]) if has_tasks else None
    )
    for _ in range(int(rng.integers(0, 6))):
        steps.append(_step(case, model, X, T if has_tasks else None, Y, rows, columns))
    if case.chance(0.3):
        alpha, task_alpha = (float(10.0 ** rng.uniform(-6, 6)) for _ in range(2))
        model.set_alpha(alpha, task_alpha)
        steps.append(f"set_alpha {alpha:.3g} {task_alpha:.3g}")
    case.what += ": " + ", ".join(step for step in steps if step)
    if model.n_seen_ != len(rows) or model.n_tasks_ != len(columns):
        raise WrongAnswerError(
            f"{model.n_seen_} × {model.n_tasks_} learnt, expected {len(rows)} × {len(columns)}"
        )
    if constant:
        _compare_with_constant(model, X, T if has_tasks else None, Y, rows, columns)
        return
    exact = X[rows].astype(LONG)
    exact_tasks = T[columns].astype(LONG)
    K = exact @ exact.T
    K_new = X.astype(LONG) @ exact.T
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
    actual = np.asarray(model.predict(X))
    if not agree(
        case, drawn, actual, lambda model: model.predict(K_new), "predict after the last step"
    ):
        raise RefusedError("ill-conditioned: no digits to compare")


def _compare_with_constant(
    model: Any,
    X: np.ndarray,
    T: np.ndarray | None,
    Y: np.ndarray,
    rows: list[int],
    columns: list[int],
) -> None:
    """Compare predictions with those of a constant that is not regularised, beside features about their mean."""
    lost = [
        _digits(X, rows, model.alpha),
        1.0 if T is None else _digits(T, columns, model.task_alpha),
    ]
    if max(lost) > 1e6:
        raise RefusedError("ill-conditioned: no digits to compare")
    wanted = _weights(X, rows, model.alpha, X) @ Y[np.ix_(rows, columns)].astype(LONG)
    if T is not None:
        wanted = wanted @ _weights(T, columns, model.task_alpha, T[columns]).T
    actual = np.asarray(model.predict(X))
    gap = float(np.abs(actual - wanted).max())
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
    largest = top_value(about @ about.T)
    least = top_value(left @ left.T)
    return max(1.0, largest / max(least, alpha)) * max(1.0, least / alpha)


def _step(
    case: Case,
    model: Any,
    X: np.ndarray,
    T: np.ndarray | None,
    Y: np.ndarray,
    rows: list[int],
    columns: list[int],
) -> str:
    """Learn or forget something at random, and keep the lists of what is known up to date."""
    rng = case.rng
    new_rows = [i for i in range(len(X)) if i not in rows]
    new_columns = [j for j in range(Y.shape[1]) if j not in columns]
    kind = str(case.pick("rows", "forget", "tasks", "forget tasks"))
    if kind == "rows" and new_rows:
        some = sorted(
            rng.choice(new_rows, int(rng.integers(1, len(new_rows) + 1)), replace=False).tolist()
        )
        model.partial_fit(X[some], Y[np.ix_(some, columns)])
        rows += some
        return f"learn {len(some)} rows"
    if kind == "forget" and len(rows) > 1:
        some = sorted(rng.choice(rows, int(rng.integers(1, len(rows))), replace=False).tolist())
        model.forget(X[some], Y[np.ix_(some, columns)])
        rows[:] = [i for i in rows if i not in some]
        return f"forget {len(some)} rows"
    if kind == "tasks" and new_columns:
        some = sorted(
            rng.choice(
                new_columns, int(rng.integers(1, len(new_columns) + 1)), replace=False
            ).tolist()
        )
        cut = int(rng.integers(1, len(rows) + 1))
        parts = [part for part in (rows[:cut], rows[cut:]) if part]
        chunks = [(X[part], Y[np.ix_(part, some)]) for part in parts]
        model.partial_fit_tasks(None if T is None else T[some], chunks=chunks)
        columns += some
        return f"learn {len(some)} tasks"
    if kind == "forget tasks" and len(columns) > 1:
        places = sorted(
            rng.choice(len(columns), int(rng.integers(1, len(columns))), replace=False).tolist()
        )
        some = [columns[place] for place in places]
        model.forget_tasks(places)
        columns[:] = [j for j in columns if j not in some]
        return f"forget {len(some)} tasks"
    return ""


@generator
def scales(case: Case) -> None:
    """Features of any scales, offsets and precisions: ten times further from the truth than Ridge at most.

    After rows were forgotten, ten times as far as the rounding of the sums over all of them moves
    the truth.
    """
    rng = case.rng
    m = int(rng.integers(3, 25))
    d = int(rng.integers(1, 7))
    q = int(rng.integers(1, 4))
    X, Y, dtype = _drawn(case, m, d, q)
    if q > 1 and case.chance(0.3):
        T = rng.standard_normal((q, 2)) * 10.0 ** rng.uniform(-4, 4, 2)
    else:
        T = None
    alpha, task_alpha = (
        float(case.pick(10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-12, 0), 1.0, 0.0))
        for _ in range(2)
    )
    constant = case.chance(0.5)
    holes = case.chance(0.3)
    if holes:
        # The first rows have all labels, and the first task has all of its own.
        Y[3:, 1:] = np.where(rng.random((m - 3, q - 1)) < 0.2, np.nan, Y[3:, 1:])
    case.what = f"scales {m}×{d}×{q} {dtype} λ={alpha:.3g}" + (
        " with a constant" if constant else ""
    )
    case.what += (f" μ={task_alpha:.3g}" if T is not None else "") + (
        " with holes" if holes else ""
    )
    model = OnlineTwoStepRidge(alpha, task_alpha, fit_intercept=constant)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        rows = _streamed(case, model, X, Y, T)
        if case.chance(0.3):
            alpha, task_alpha = (float(10.0 ** rng.uniform(-6, 6)) for _ in range(2))
            model.set_alpha(alpha, task_alpha)
            case.what += f", set_alpha {alpha:.3g} {task_alpha:.3g}"
        actual = np.asarray(model.predict(X))
    for warning in told:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    exact = _two_steps(X, Y, T, rows, model, _truth)
    others = [_two_steps(*_mixed(rng, X, Y, T, rows), model, _ridge) for _ in range(5)]
    if len(rows) < m and model.alpha > 0:
        others += [_two_steps(X, Y, T, rows, model, _after_forgetting(rng, X, Y)) for _ in range(3)]
    ours, *gaps = (
        float(np.nanmax(np.abs((other - exact).astype(np.float64)), initial=0.0))
        for other in (actual, *others)
    )
    gap = max(
        gaps
    )  # whose rounding was lucky in one order of rows and features is not so in another
    spread = float(np.nanstd(Y[rows].astype(np.float64)))
    floor = 1e-9 * spread + (2e-7 if actual.dtype == np.float32 else 1e-13) * float(
        np.nanmax(np.abs(exact), initial=0.0)
    )
    if np.isnan(actual).any() != np.isnan(exact.astype(np.float64)).any():
        raise WrongAnswerError("NaN for what has a prediction, or none for what has not")
    if ours > max(10 * gap, floor):
        if model.alpha == 0 and np.isfinite(Y[rows]).sum(axis=0).min() <= d:
            raise RefusedError(
                "as many features as rows: Ridge has the rows themselves where its equations are "
                "singular"
            )
        raise WrongAnswerError(
            f"{ours:.3g} off, Ridge {gap:.3g}, with labels that spread by {spread:.3g}"
        )
    if ours > max(1e-3 * spread, floor) and not any(
        issubclass(raised.category, PrecisionWarning) for raised in told
    ):
        raise WrongAnswerError(f"{ours:.3g} off as Ridge is ({gap:.3g}), without a warning")


def _drawn(case: Case, m: int, d: int, q: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return features whose columns have scales and offsets of their own, labels that follow them, and the dtype."""
    rng = case.rng
    dtype = str(case.pick("float64", "float64", "float64", "float32", "int64"))
    Z = rng.standard_normal((m, d)) + float(case.pick(0.0, 1.0)) * rng.standard_normal((m, 1))
    Z = np.where(rng.random(d) < 0.2, Z > 0, Z)  # some are 0 or 1
    Y = (
        Z @ rng.standard_normal((d, q))
        + 0.1 * rng.standard_normal((m, q))
        + float(case.pick(0.0, 1.0, 1000.0))
    )
    scale = 10.0 ** rng.uniform(0.0 if dtype == "int64" else -8.0, 8.0, d)
    offset = np.where(rng.random(d) < 0.3, 10.0 ** rng.uniform(0.0, 6.0, d), 0.0)
    X = scale * (Z + offset)
    if d > 1 and case.chance(0.2):
        X[:, -1] = X[:, 0]
    X = np.round(X).astype(np.int64) if dtype == "int64" else X.astype(dtype)
    return X, Y.astype(np.float32) if dtype == "float32" else Y, dtype


def _streamed(
    case: Case, model: Any, X: np.ndarray, Y: np.ndarray, T: np.ndarray | None
) -> list[int]:
    """Let a model learn rows in batches and forget some, with questions between, and return those that it knows."""
    rng = case.rng
    m, steps = (len(X), [])
    order = rng.permutation(m).tolist()
    order.sort(key=lambda row: row > 2)  # the first rows stay
    known = order[: max(3, int(rng.integers(1, m + 1)))]
    rest = order[len(known) :]
    model.fit(X[known], Y[known], tasks=T)
    while rest:
        if case.chance(0.5):
            assert np.asarray(model.predict(X[:1])).shape[0] == 1
        count = int(rng.integers(1, len(rest) + 1))
        model.partial_fit(X[rest[:count]], Y[rest[:count]])
        known = known + rest[:count]
        rest = rest[count:]
        steps.append(f"+{count}")
        if len(known) > 6 and case.chance(0.4):
            gone = [
                row
                for row in rng.choice(known, int(rng.integers(1, len(known) // 2)), replace=False)
                if row > 2
            ]
            if gone:
                model.forget(X[gone], Y[gone])
                known = [row for row in known if row not in gone]
                steps.append(f"-{len(gone)}")
    case.what += " " + " ".join(steps)
    return known


def _mixed(
    rng: np.random.Generator, X: np.ndarray, Y: np.ndarray, T: np.ndarray | None, rows: list[int]
) -> Any:
    """Return the same problem with features of both sides, and the known rows, in another order."""
    T = None if T is None else T[:, rng.permutation(T.shape[1])]
    return X[:, rng.permutation(X.shape[1])], Y, T, rng.permutation(rows).tolist()


def _two_steps(
    X: np.ndarray, Y: np.ndarray, T: np.ndarray | None, rows: list[int], model: Any, fit: Any
) -> np.ndarray:
    """Return predictions (m, q) for all rows: of every task from the rows that have its label, then over tasks."""
    columns = []
    constant = model.fit_intercept
    for j in range(Y.shape[1]):
        labelled = [row for row in rows if not np.isnan(Y[row, j])]
        columns.append(fit(X[labelled], Y[labelled, j : j + 1], X, model.alpha, constant)[:, 0])
    half = np.stack(columns, axis=1)
    return half if T is None else fit(T, half.T, T, model.task_alpha, constant).T


def _ridge(
    X: np.ndarray, Y: np.ndarray, new: np.ndarray, alpha: float, constant: bool
) -> np.ndarray:
    """Return predictions of scikit-learn in double precision."""
    X, Y, new = (part.astype(np.float64) for part in (X, Y, new))
    if len(X) < X.shape[1]:
        # For fewer rows than features Ridge solves with a kernel, which an online model does not
        # keep: rows of zeros change nothing but that.
        mean, level = (X.mean(axis=0), Y.mean(axis=0)) if constant else (0.0, 0.0)
        X, Y = (
            np.vstack([part, np.zeros((X.shape[1], part.shape[1]))])
            for part in (X - mean, Y - level)
        )
        return _ridge(X, Y, new - mean, alpha, False) + level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = Ridge(alpha, fit_intercept=constant, solver="cholesky").fit(X, Y).predict(new)
    return np.asarray(predicted).reshape(len(new), -1)


def _after_forgetting(rng: np.random.Generator, learnt: np.ndarray, labels: np.ndarray) -> Any:
    """Return a fit whose sums have the rounding of all rows that were learnt, of which some were forgotten again.

    With a constant the sums are those of deviations from the means, and without one those of the
    features themselves.
    """
    eps = np.finfo(np.float64).eps

    def fit(
        X: np.ndarray, Y: np.ndarray, new: np.ndarray, alpha: float, constant: bool
    ) -> np.ndarray:
        if new is not learnt:  # the tasks
            return _truth(X, Y, new, alpha, constant)
        A, B, C = (part.astype(LONG) for part in (X, Y, new))
        level = B.mean(axis=0) if constant else LONG(0)
        summed = learnt.astype(np.float64)
        summed_labels = labels.astype(np.float64)
        if constant:
            A, C = A - A.mean(axis=0), C - A.mean(axis=0)
            summed = summed - summed.mean(axis=0)
            summed_labels = summed_labels - np.nanmean(summed_labels)
        sizes = np.linalg.norm(summed, axis=0)
        spread = np.sqrt(np.nansum(summed_labels**2))
        noise = rng.standard_normal((len(sizes), len(sizes)))
        inner = (
            A.T @ A
            + LONG(alpha) * np.eye(len(sizes))
            + eps * sizes[:, None] * (noise + noise.T) * sizes
        )
        right = A.T @ (B - level) + eps * spread * sizes[:, None] * rng.standard_normal(
            (len(sizes), B.shape[1])
        )
        return C @ solve(inner, right) + level

    return fit


def _truth(
    X: np.ndarray, Y: np.ndarray, new: np.ndarray, alpha: float, constant: bool
) -> np.ndarray:
    """Return predictions by the definition in 120 digits; without regularisation those of next to none."""
    with mpmath.workdps(120):
        A, B, C = (
            mpmath.matrix(
                [
                    [
                        mpmath.mpf(str(v)) if isinstance(v, LONG) else mpmath.mpf(v.item())
                        for v in row
                    ]
                    for row in part
                ]
            )
            for part in (X, Y, new)
        )
        n = len(X)
        level = mpmath.zeros(1, B.cols)
        if constant:
            ones = mpmath.ones(1, n) / n
            mean = ones * A
            level = ones * B
            A = A - mpmath.ones(n, 1) * mean
            C = C - mpmath.ones(len(new), 1) * mean
        inner = A.T * A + (mpmath.mpf(alpha) or mpmath.mpf(10) ** -45) * mpmath.eye(A.cols)
        # About the mean the labels' own mean has no part in the product.
        predicted = C * mpmath.inverse(inner) * (A.T * B) + mpmath.ones(len(new), 1) * level
        return np.array([[LONG(mpmath.nstr(v, 25)) for v in row] for row in predicted.tolist()])
