"""Comparison of held-out predictions with models that are fitted without what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from dyadlearn.testing.trial import Trial, dense

# Units of each setting that are left out by fitting again.
N_UNITS = 2


def compare_with_refits(
    trial: Trial, model: Any, setting: str, units: Mapping[str, Any], name: str
) -> None:
    """Compare held-out predictions with those of models that are fitted without some of the units."""
    actual = trial.hold_out(model, setting, **units)
    m, q = actual.shape
    cells = np.asarray(units.get("cells", np.arange(m * q).reshape(m, q)))
    rows = np.asarray(units.get("groups", np.arange(m)))
    columns = np.asarray(units.get("task_groups", np.arange(q)))
    again = trial.again(model)
    observed = ~np.isnan(trial.data.y)
    done: set[Any] = set()
    for i in range(m):
        j = (2 * i + 1) % q
        if trial.symmetry and i == j:
            j = (j + 1) % q
        if not observed[i, j]:
            continue
        unit = {"A": cells[i, j], "B": rows[i], "C": columns[j], "D": (rows[i], columns[j])}
        if unit[setting] in done or len(done) == N_UNITS:
            continue
        done.add(unit[setting])
        hidden = (cells == cells[i, j]) & (setting == "A")
        gone = (rows == rows[i]) & (setting in "BD")
        gone_columns = (columns == columns[j]) & (setting in "CD")
        if trial.symmetry:
            hidden = hidden | hidden.T
            gone = gone_columns = gone | gone_columns
        keep, keep_columns = np.flatnonzero(~gone), np.flatnonzero(~gone_columns)
        data = trial.data.without(hidden, keep, keep_columns)
        refitted = clone(again).fit(**data.arguments())
        expected = _predicted(trial, refitted, setting, (i, j), (keep, keep_columns))
        what = f"{name}: setting {setting}, instance {i}, task {j}"
        trial.close(actual[i, j], expected, name, what)
    assert done, "the check compares nothing"


def _predicted(
    trial: Trial,
    model: Any,
    setting: str,
    cell: tuple[int, int],
    kept: tuple[np.ndarray, np.ndarray],
) -> float:
    """Return the prediction of a cell by a model that was fitted on some of the rows and columns."""
    i, j = cell
    X = trial.data.X
    if trial.data.tasks is None:
        tasks = trial.data.X
    else:
        tasks = trial.data.tasks
    row, column = int(np.searchsorted(kept[0], i)), int(np.searchsorted(kept[1], j))
    # None stands for the training rows, which some models treat differently from new rows.
    rows: list[Any] = [X.kept(kept[0]).known if trial.grows else None, None]
    if i not in kept[0]:
        rows[0] = X.beside(X.known[[i]], kept[0])
        row = 0
    if j not in kept[1]:
        rows[1] = tasks.beside(tasks.known[[j]], kept[1])
        column = 0
    return float(dense(model.predict(rows[0], rows[1]))[row, column])
