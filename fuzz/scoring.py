"""Metrics by counting pairs and places one after the other, and the checks of the library's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator

from dyadlearn.metrics import (
    average_precision,
    concordance_index,
    enrichment_factor,
    ic_index,
    mean_absolute_error,
    mean_squared_error,
    ndcg_at_k,
    pearson,
    precision_at_k,
    r2,
    recall_at_k,
    roc_auc,
    root_mean_squared_error,
    spearman,
)

__all__ = ["AVERAGES", "between", "rows_of"]

# Held-out predictions tie up to this share of the largest of those that are ranked together, as
# documented.
TIE = 1.8e-12
AVERAGES = {"A": "pooled", "B": "instance", "C": "task", "D": "pooled"}

# Takes the labels and predictions of one row to its score, None where it is undefined.
RowScore = Callable[[list[float], list[float]], float | None]


def rows_of(Y: np.ndarray, F: np.ndarray, average: str) -> list[tuple[list[float], list[float]]]:
    """Return the observed labels and their predictions, in the rows that are scored each on their own."""
    if average == "pooled":
        pairs = [(Y.reshape(-1), F.reshape(-1))]
    elif average == "instance":
        pairs = list(zip(Y, F, strict=True))
    else:
        pairs = list(zip(Y.T, F.T, strict=True))
    return [(y[~np.isnan(y)].tolist(), f[~np.isnan(y)].tolist()) for y, f in pairs]


def between(
    Y: np.ndarray, F: np.ndarray, average: str, exact: float, clear: float, rounding: float
) -> tuple[float, float] | None:
    """Return the least and the largest concordance index that rounding could give, None where it is undefined.

    Differences of predictions up to `exact` are ties, those of at least `clear` are none, others
    may be either. So may be ties of predictions that are so small beside the labels that their
    error, `rounding`, is wider than a tie.
    """
    low = []
    high = []
    for y, f in rows_of(Y, F, average):
        least = 0.0
        most = 0.0
        pairs = 0
        are_ties_seen = rounding <= TIE * max(map(abs, f), default=0.0)
        for a, fa in zip(y, f, strict=True):
            for b, fb in zip(y, f, strict=True):
                if a <= b:
                    continue
                pairs += 1
                difference = fa - fb
                if abs(difference) <= exact and are_ties_seen:
                    least = least + 0.5
                    most = most + 0.5
                elif abs(difference) >= clear:
                    least = least + (difference > 0)
                    most = most + (difference > 0)
                else:
                    most += 1
        if pairs:
            low.append(least / pairs)
            high.append(most / pairs)
    return (float(np.mean(low)), float(np.mean(high))) if low else None


def _concordance(y: list[float], f: list[float]) -> float | None:
    pairs = [
        (fa > fb) + (fa == fb) / 2
        for a, fa in zip(y, f, strict=True)
        for b, fb in zip(y, f, strict=True)
        if a > b
    ]
    return sum(pairs) / len(pairs) if pairs else None


def _precision_curve(y: list[float], f: list[float]) -> float | None:
    precisions = []
    for a, fa in zip(y, f, strict=True):
        if a == 1:
            above = [b for b, fb in zip(y, f, strict=True) if fb >= fa]
            precisions.append(above.count(1) / len(above))
    # Without a negative label every ranking is perfect.
    return sum(precisions) / len(precisions) if 0 < len(precisions) < len(y) else None


def _squared(y: list[float], f: list[float]) -> float | None:
    return sum((a - b) ** 2 for a, b in zip(y, f, strict=True)) / len(y) if y else None


def _absolute(y: list[float], f: list[float]) -> float | None:
    if y:
        return math.fsum(abs(a - b) for a, b in zip(y, f, strict=True)) / len(y)
    return None


def _correlated(y: list[float], f: list[float]) -> float | None:
    if len(set(y)) < 2:
        return None
    if len(set(f)) < 2:
        return 0.0
    a, b = ([value - math.fsum(row) / len(row) for value in row] for row in (y, f))
    product = math.fsum(one * other for one, other in zip(a, b, strict=True))
    return product / math.sqrt(math.fsum(one**2 for one in a) * math.fsum(one**2 for one in b))


def _ranked(y: list[float], f: list[float]) -> float | None:
    return _correlated(
        *([sum(b < a for b in row) + row.count(a) / 2 for a in row] for row in (y, f))
    )


def _interactions(Y: np.ndarray, F: np.ndarray) -> float | None:
    """Return the IC-index of a grid, over all pairs of rows and of columns."""
    won = []
    rows, columns = (itertools.combinations(range(size), 2) for size in Y.shape)
    for (i, k), (j, l) in itertools.product(rows, columns):  # noqa: E741
        a, b = (grid[i, j] + grid[k, l] - grid[i, l] - grid[k, j] for grid in (Y, F))
        if abs(a) > 1e-9:  # NaN is not
            won.append(0.5 if abs(b) < 1e-9 else float(a * b > 0))
    return sum(won) / len(won) if won else None


def _determined(y: list[float], f: list[float]) -> float | None:
    if len(set(y)) < 2:
        return None
    mean = math.fsum(y) / len(y)
    return 1 - math.fsum((a - b) ** 2 for a, b in zip(y, f, strict=True)) / math.fsum(
        (a - mean) ** 2 for a in y
    )


def _chances(f: list[float], worths: list[float]) -> list[float]:
    """Return the mean worth of the places that each cell may take among those it ties with."""
    chances = []
    for value in f:
        above = sum(other > value for other in f)
        same = f.count(value)
        chances.append(sum(worths[above : above + same]) / same)
    return chances


def _precision_at(k: int) -> RowScore:
    def score(y: list[float], f: list[float]) -> float | None:
        if not y:
            return None
        best = min(k, len(y))
        chances = _chances(f, [float(place < best) for place in range(len(y))])
        return sum(chance for a, chance in zip(y, chances, strict=True) if a == 1) / best

    return score


def _recall_at(k: int) -> RowScore:
    def score(y: list[float], f: list[float]) -> float | None:
        if 1 not in y:
            return None
        chances = _chances(f, [float(place < k) for place in range(len(y))])
        return sum(chance for a, chance in zip(y, chances, strict=True) if a == 1) / y.count(1)

    return score


def _gain_at(k: int | None) -> RowScore:
    def score(y: list[float], f: list[float]) -> float | None:
        if not any(a > 0 for a in y):
            return None
        worths = [
            1 / math.log2(place + 2) if k is None or place < k else 0.0 for place in range(len(y))
        ]
        gained = sum(a * worth for a, worth in zip(y, _chances(f, worths), strict=True))
        return gained / sum(
            a * worth for a, worth in zip(sorted(y, reverse=True), worths, strict=True)
        )

    return score


def _enrichment(percent: int) -> RowScore:
    def score(y: list[float], f: list[float]) -> float | None:
        if 1 not in y:
            return None
        best = max(1, -(-percent * len(y) // 100))
        chances = _chances(f, [float(place < best) for place in range(len(y))])
        return (
            sum(c for a, c in zip(y, chances, strict=True) if a == 1) / best / (y.count(1) / len(y))
        )

    return score


_NAMES = ("auc", "ap", "ci", "mse", "mae", "rmse", "r2", "pearson", "spearman", "ic")
_NAMES += ("precision", "recall", "ndcg", "ef")


@generator
def metrics(case: Case) -> None:
    """Every metric, with ties, holes and constant rows, against counting pairs and places."""
    rng = case.rng
    shape = tuple(int(rng.integers(1, 7)) for _ in range(2))
    name = str(case.pick(*_NAMES))
    binary = name in ("auc", "ap", "precision", "recall", "ef")
    if binary:
        Y = rng.integers(0, 2, shape).astype(float)
    else:
        Y = rng.integers(0, 5, shape) / float(case.pick(1, 3))
    if case.chance(0.3):
        Y[int(rng.integers(shape[0]))] = Y[0, 0]
    if case.chance(0.5):
        Y[rng.random(shape) < rng.uniform(0, 0.6)] = np.nan
    n_values = len(np.unique(Y[~np.isnan(Y)]))
    if n_values == 0 or (binary and n_values < 2):
        raise RefusedError("labels of one value")
    depth = int(rng.integers(1, 4)) if case.chance(0.3) else 0
    F = rng.standard_normal((max(depth, 1), *shape))
    if case.chance(0.6):
        F = np.round(F * float(case.pick(1, 2)))
    k = int(rng.integers(1, 8))
    percent = int(rng.integers(1, 101))
    average = str(case.pick("pooled", "instance", "task"))
    function, reference, options = {
        "auc": (roc_auc, _concordance, {}),
        "ap": (average_precision, _precision_curve, {}),
        "ci": (concordance_index, _concordance, {}),
        "mse": (mean_squared_error, _squared, {}),
        "mae": (mean_absolute_error, _absolute, {}),
        "rmse": (root_mean_squared_error, _squared, {}),
        "r2": (r2, _determined, {}),
        "pearson": (pearson, _correlated, {}),
        "spearman": (spearman, _ranked, {}),
        "ic": (ic_index, None, {}),
        "precision": (precision_at_k, _precision_at(k), {"k": k}),
        "recall": (recall_at_k, _recall_at(k), {"k": k}),
        "ndcg": (ndcg_at_k, _gain_at(k if k < 6 else None), {"k": k if k < 6 else None}),
        "ef": (enrichment_factor, _enrichment(percent), {"fraction": percent / 100}),
    }[name]
    case.what = f"{name} {shape} {average} {options}, {np.isnan(Y).sum()} missing, stack of {depth}"
    expected = []
    undefined = 0
    for grid in F:
        if name == "ic":  # of the whole grid, whatever the average
            expected.append(_interactions(Y, grid))
            continue
        scores = [reference(y, f) for y, f in rows_of(Y, grid, average)]
        undefined = scores.count(None)
        kept = [score for score in scores if score is not None]
        expected.append((sum(kept) / len(kept)) ** (0.5 if name == "rmse" else 1) if kept else None)
    try:
        actual, left_out = function(
            Y, F if depth else F[0], average=average, return_undefined=True, **options
        )
    except ValueError as error:
        if expected[0] is None and "undefined" in str(error):
            raise RefusedError("undefined everywhere") from None
        raise
    if expected[0] is None:
        raise WrongAnswerError(f"{actual} where the metric is undefined everywhere")
    if left_out != undefined:
        raise WrongAnswerError(f"{left_out} rows called undefined, expected {undefined}")
    error = np.abs(np.asarray(actual).reshape(-1) - np.asarray(expected, dtype=float)).max()
    if not error <= 1e-11 * max(1.0, np.abs(np.asarray(expected, dtype=float)).max()):
        raise WrongAnswerError(f"{actual}, expected {expected}")
