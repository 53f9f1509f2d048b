"""Long tables to grids and back, folds of pairs and their audit, against loops over single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from campaign import Case, RefusedError, WrongAnswerError, generator

from dyadlearn import SettingKFold, audit
from dyadlearn.labels import to_grid

__all__: list[str] = []


def _ids(case: Case, n: int) -> list[Any]:
    """Return n distinct ids of one kind, text or whole numbers."""
    kind = case.pick("positions", "numbers", "words", "odd")
    if kind == "numbers":
        return [int(value) for value in case.rng.permutation(n) * 7 - 3]
    if kind == "words":
        return [f"id {value}" for value in case.rng.permutation(n)]
    if kind == "odd":
        return [f"é\u2028,{'x' * value}" for value in range(n)]
    return list(range(n))


@generator
def long_tables(case: Case) -> None:
    """to_grid: repeated pairs, weights and missing values, against a dictionary."""
    rng = case.rng
    instances = _ids(case, int(rng.integers(1, 6)))
    tasks = _ids(case, int(rng.integers(1, 6)))
    n = int(rng.integers(1, 30))
    pairs = [
        (instances[int(rng.integers(len(instances)))], tasks[int(rng.integers(len(tasks)))])
        for _ in range(n)
    ]
    y = [float(value) if rng.random() > 0.15 else float("nan") for value in rng.integers(0, 4, n)]
    if case.chance(0.4):
        weights = [float(value) for value in rng.integers(0, 3, n)]
    else:
        weights = None
    case.what = (
        f"{n} rows of {len(instances)} × {len(tasks)} ids such as {instances[0]!r}, {tasks[0]!r}"
    )
    cells: dict[tuple[Any, Any], list[tuple[float, float]]] = {}
    missing = weightless = 0
    for row, (pair, value) in enumerate(zip(pairs, y, strict=True)):
        weight = 1.0 if weights is None else weights[row]
        if value != value:
            missing += 1
        elif weight == 0:
            weightless += 1
        else:
            cells.setdefault(pair, []).append((value, weight))
    is_ordered = case.chance(0.3)
    if not cells and not is_ordered:
        raise RefusedError("a table without a usable row")
    order: dict[str, Any] = {"instances": instances, "tasks": tasks} if is_ordered else {}
    try:
        converted = to_grid(pairs, y, weights=weights, **order)
    except ValueError:
        if not cells:
            raise RefusedError("a table without a usable row") from None
        raise
    counts = (
        converted.n_rows,
        converted.n_missing_values,
        converted.n_zero_weight,
        converted.n_observed,
    )
    if counts != (n, missing, weightless, len(cells)):
        raise WrongAnswerError(f"counts {counts}, expected {(n, missing, weightless, len(cells))}")
    repeated = [values for values in cells.values() if len(values) > 1]
    contradicting = sum(len({value for value, _ in values}) > 1 for values in repeated)
    if (converted.n_repeated, converted.n_contradicting) != (len(repeated), contradicting):
        raise WrongAnswerError(
            f"{converted.n_repeated} repeated, {converted.n_contradicting} contradicting"
        )
    expected = np.full((len(converted.instances), len(converted.tasks)), np.nan)
    for (i, t), values in cells.items():
        total = sum(weight for _, weight in values)
        place = converted.instances.index(i), converted.tasks.index(t)
        expected[place] = sum(value * weight for value, weight in values) / total
        if abs(converted.weights[place] - total) > 1e-12 * total:
            raise WrongAnswerError(
                f"weight {converted.weights[place]} of {i!r}, {t!r}, expected {total}"
            )
    if not np.array_equal(np.isnan(converted.grid), np.isnan(expected)):
        raise WrongAnswerError("other cells are observed")
    if np.nanmax(np.abs(converted.grid - expected), initial=0.0) > 1e-12:
        raise WrongAnswerError(f"grid {converted.grid.tolist()}, expected {expected.tolist()}")


@generator
def folds(case: Case) -> None:
    """SettingKFold and audit: every pair tested once, and each split what it says, against sets."""
    rng = case.rng
    setting = str(case.pick("A", "B", "C", "D"))
    instances = _ids(case, int(rng.integers(1, 9)))
    tasks = _ids(case, int(rng.integers(1, 9)))
    n = int(rng.integers(1, 40))
    pairs = [
        (instances[int(rng.integers(len(instances)))], tasks[int(rng.integers(len(tasks)))])
        for _ in range(n)
    ]
    n_splits = int(rng.integers(2, 5))
    if setting in "BD" and case.chance(0.3):
        group_of = {i: int(rng.integers(0, 4)) for i in instances}
    else:
        group_of = None
    if setting in "CD" and case.chance(0.3):
        task_group_of = {t: int(rng.integers(0, 4)) for t in tasks}
    else:
        task_group_of = None
    groups: dict[str, Any] = {}
    if group_of is not None:
        groups["groups"] = [group_of[i] for i, _ in pairs]
    if task_group_of is not None:
        groups["task_groups"] = [task_group_of[t] for _, t in pairs]
    shuffle = case.chance(0.7)
    splitter = SettingKFold(setting, n_splits, shuffle=shuffle, random_state=3 if shuffle else None)
    case.what = f"setting {setting}, {n} pairs, {n_splits} splits, {'/'.join(groups)}"
    units = {
        "A": len(set(pairs)),
        "B": len({i for i, _ in pairs} if group_of is None else {group_of[i] for i, _ in pairs}),
        "C": len(
            {t for _, t in pairs} if task_group_of is None else {task_group_of[t] for _, t in pairs}
        ),
    }
    units["D"] = min(units["B"], units["C"])
    try:
        splits = list(splitter.split(pairs, **groups))
    except ValueError as error:
        if units[setting] < n_splits:
            raise RefusedError("fewer things than folds") from None
        if setting == "D" and "no pair to train on" in str(error):
            raise RefusedError("nothing to train on") from None
        raise
    if units[setting] < n_splits:
        raise WrongAnswerError(f"{len(splits)} splits of {units[setting]} things")
    tested = sorted(int(row) for _, test in splits for row in test)
    if tested != list(range(n)):
        raise WrongAnswerError(f"rows tested: {tested}")
    for train, test in splits:
        _check_split(setting, pairs, train.tolist(), test.tolist(), group_of, task_group_of)


def _check_split(
    setting: str,
    pairs: list[tuple[Any, Any]],
    train: list[int],
    test: list[int],
    group_of: dict[Any, int] | None,
    task_group_of: dict[Any, int] | None,
) -> None:
    used = [pairs[row] for row in train]
    asked = [pairs[row] for row in test]
    left = {pairs[row] for row in range(len(pairs)) if row not in set(train) | set(test)}
    known = {i for i, _ in used}
    known_tasks = {t for _, t in used}
    asked_instances = {i for i, _ in asked}
    asked_tasks = {t for _, t in asked}
    if set(used) & set(asked):
        raise WrongAnswerError("a pair is in training and in test")
    if setting in "BD" and known & asked_instances:
        raise WrongAnswerError("an instance is in training and in test")
    if setting in "CD" and known_tasks & asked_tasks:
        raise WrongAnswerError("a task is in training and in test")
    for of, seen, tested in (
        (group_of, known, asked_instances),
        (task_group_of, known_tasks, asked_tasks),
    ):
        if of is not None and {of[i] for i in seen} & {of[i] for i in tested}:
            raise WrongAnswerError("a group is in training and in test")
    if setting != "D" and left:
        raise WrongAnswerError(f"{len(left)} pairs are unused")
    report = audit(used, asked, setting=setting)
    expected = ["DCBA"[(i in known) + 2 * (t in known_tasks)] for i, t in asked]
    if report.settings.tolist() != expected:
        raise WrongAnswerError(f"audit says {report.settings.tolist()}, expected {expected}")
    if report.n_leaks:
        raise WrongAnswerError(f"audit finds {report.n_leaks} leaks in a fold of the library")
