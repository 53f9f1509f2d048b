"""Scores of predictions that were not trained on each other's labels, computed by loops."""

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone

from dyadlearn.metrics import scorer
from dyadlearn.selection import SettingKFold
from dyadlearn.settings import Setting


def fold_numbers(setting: str, n_folds: int, shape: tuple[int, int]) -> np.ndarray:
    """Return the number of the fold of each cell (m, q); in setting D that of its block."""
    numbers = np.full(shape, -1)
    splits = SettingKFold(setting, n_folds, random_state=0).split_grid(*shape)
    for number, (_, test) in enumerate(splits):
        numbers[test] = number
    return numbers


def held_out_in_folds(model: Any, setting: str, n_folds: int) -> np.ndarray:
    """Return the exact held-out predictions (m, q) of a fitted model in the folds of `fold_numbers`."""
    shape = model.fitted_.labels.shape
    if setting == "A":
        return model.holdout("A", cells=fold_numbers("A", n_folds, shape))
    units = SettingKFold(setting, n_folds, random_state=0).units(model.fitted_.labels)
    names = ("groups", "task_groups")
    given = zip(names, units.sides, strict=True)
    groups = {name: codes for name, codes in given if codes is not None}
    return model.holdout(setting, **groups)


def fitted_in_folds(
    model: Any,
    data: tuple[Any, np.ndarray, Any],
    setting: str,
    seed: int,
    weights: np.ndarray | None = None,
    **groups: Any,
) -> tuple[np.ndarray, list[tuple[Any, np.ndarray]]]:
    """Return predictions (m, q) of models that are fitted without each of two folds, on arrays that are cut out.

    The models follow, with masks of their test cells. `data` are X, Y and the tasks.
    """
    X, Y, T = data
    F = np.full(Y.shape, np.nan)
    fits = []
    new = Setting(setting).new
    axes = {"groups": 0, "task_groups": 1}
    groups = {name: np.asarray(codes) for name, codes in groups.items() if codes is not None}
    cut = {name: codes for name, codes in groups.items() if axes[name] in new}

    def sides_of(mask: np.ndarray) -> list[np.ndarray]:
        return [
            np.flatnonzero(mask.any(axis=1 - axis)) if axis in new else np.arange(n)
            for axis, n in enumerate(Y.shape)
        ]

    for train, test in SettingKFold(setting, 2, random_state=seed).split_grid(*Y.shape, **cut):
        kept = sides_of(train)
        own = {name: codes[kept[axes[name]]] for name, codes in groups.items()}
        own["sample_weight"] = None if weights is None else weights[np.ix_(*kept)]
        labels = np.where(train, Y, np.nan)[np.ix_(*kept)]
        tasks = None if T is None else T[kept[1]]
        inner = clone(model).fit(X[kept[0]], labels, tasks, **own)
        asked = sides_of(test)
        rows = X[asked[0]] if 0 in new else None
        columns = T[asked[1]] if 1 in new else None
        grid = np.full(Y.shape, np.nan)
        grid[np.ix_(*asked)] = inner.predict(rows, columns) if new else inner.predict()
        F[test] = grid[test]
        fits.append((inner, test))
    return F, fits


def score_in_folds(
    Y: np.ndarray, F: np.ndarray, numbers: np.ndarray, scoring: Any, average: str
) -> tuple[float, int]:
    """Return the mean over rows of the mean over folds of a score, and the number of parts without one."""
    rows = {"instance": list(range(len(Y))), "task": list(range(Y.shape[1]))}.get(average, [0])
    means = []
    n_undefined = 0
    for row in rows:
        is_row = np.zeros(Y.shape, dtype=bool)
        if average == "instance":
            is_row[row] = True
        elif average == "task":
            is_row[:, row] = True
        else:
            is_row[:] = True
        scores = []
        for number in np.unique(numbers[is_row & ~np.isnan(Y)]):
            part = is_row & (numbers == number) & ~np.isnan(Y)
            if np.unique(Y[part]).size < 2:
                n_undefined += 1
                continue
            scores.append(scorer(scoring, average="pooled")(Y[part], F[part], tie_tolerance=None))
        if scores:
            means.append(np.mean(scores))
    return float(np.mean(means)), n_undefined


def pairs_in_order(
    model: Any, Y: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, float]:
    """Return the share of pairs of labels in the right order, each pair hidden and the model fitted again.

    The shares are means over all pairs, and over instances and over tasks of the pairs of each.
    """
    tasks = model.fitted_.sides[1].features if len(model.fitted_.sides) > 1 else None
    won: dict[str, dict[int, list[float]]] = {"pooled": {}, "instance": {}, "task": {}}
    cells = [tuple(cell) for cell in np.argwhere(~np.isnan(Y))]
    for first, other in combinations(cells, 2):
        if Y[first] == Y[other]:
            continue
        hidden = Y.copy()
        hidden[first] = hidden[other] = np.nan
        again = clone(model).fit(model.fitted_.sides[0].features, hidden, tasks, weights)
        F = again.fitted_.completed
        gap = (F[first] - F[other]) * np.sign(Y[first] - Y[other])
        is_tie = abs(gap) <= 1e-9 * max(abs(F[first]), abs(F[other]))
        win = 0.5 if is_tie else float(gap > 0)
        won["pooled"].setdefault(0, []).append(win)
        for axis, average in enumerate(("instance", "task")):
            if first[axis] == other[axis]:
                won[average].setdefault(int(first[axis]), []).append(win)
    return {
        average: float(np.mean([np.mean(wins) for wins in rows.values()]))
        for average, rows in won.items()
    }
