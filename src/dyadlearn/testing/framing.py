"""The problem of a trial as data frames, whose rows are in another order than the labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dyadlearn.testing.trial import N_NEW, N_NEW_TASKS, Data, Rows, Trial


class Frames:
    """Frames of one library.

    Parameters
    ----------
    library : module
        pandas or polars.
    trial : Trial

    Attributes
    ----------
    known_rows, new_rows, known_columns, new_columns : list of str
        Ids of the instances and of the tasks.
    asks_for_tasks : bool
        Whether predictions are for new tasks.
    """

    def __init__(self, library: Any, trial: Trial) -> None:
        self.library = library
        self.trial = trial
        m, q = trial.data.y.shape
        self.known_rows = [f"row {i}" for i in range(m)]
        self.new_rows = [f"new {i}" for i in range(N_NEW)]
        self.known_columns = [f"column {j}" for j in range(q)]
        if trial.symmetry:
            self.known_columns = self.known_rows
        self.new_columns = [f"other {j}" for j in range(N_NEW_TASKS)]
        self.asks_for_tasks = trial.knows_tasks and trial.data.tasks is not None

    def data(self) -> Data:
        """Return the problem as frames: features are in another order than the labels."""
        data = self.trial.data
        tasks = data.tasks
        if tasks is not None:
            tasks = self._side(tasks, self.known_columns, self.new_columns)
        weights = data.weights
        if weights is not None:
            weights = self.table(weights, self.known_rows, self.known_columns)
        return replace(
            data,
            X=self._side(data.X, self.known_rows, self.new_rows),
            tasks=tasks,
            y=self.table(data.y, self.known_rows, self.known_columns),
            weights=weights,
            new_y=self.table(data.new_y, self.new_rows, self.known_columns),
        )

    def _side(self, side: Rows, known: list[str], new: list[str]) -> Rows:
        order = np.random.default_rng(3).permutation(len(known))
        shuffled = [known[place] for place in order]
        values = side.known[order]
        if side.are_kernels:
            values = values[:, order]
            names = shuffled
            new_names = known
        else:
            names = [f"feature {k}" for k in range(values.shape[1])]
            new_names = names
        return Rows(
            self.table(values, shuffled, names),
            self.table(side.new, new, new_names),
            side.are_kernels,
        )

    def table(self, values: np.ndarray, rows: list[str], columns: list[str]) -> Any:
        """Return a frame with ids of its rows and names of its columns."""
        if self.library.__name__ == "pandas":
            return self.library.DataFrame(values, index=rows, columns=columns)
        named = {name: values[:, place] for place, name in enumerate(columns)}
        return self.library.DataFrame({"id": rows, **named})

    def ids_of(self, frame: Any) -> tuple[list[str], list[str]]:
        """Return the ids of the rows and of the columns of an answer."""
        if self.library.__name__ == "pandas":
            return list(frame.index), list(frame.columns)
        first, *columns = frame.columns
        return frame[first].to_list(), columns
