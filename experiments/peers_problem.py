"""What `peers.py` asks of both sides: one small problem, and rows that say how far apart two answers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn.datasets import make_dyads

ALPHA = 0.5
TASK_ALPHA = 0.1
GAMMA = 0.1
ALPHAS = np.logspace(-3, 2, 12)
RBF: dict[str, Any] = {"kernel": "rbf", "kernel_params": {"gamma": GAMMA}}
GIVEN: dict[str, Any] = {"kernel": "precomputed", "fit_intercept": False}
BOTH_GIVEN: dict[str, Any] = {**GIVEN, "task_kernel": "precomputed"}


@dataclass
class Row:
    """One row of a table: words there, words here, and how far apart the two answers are."""

    theirs: str
    ours: str
    difference: float
    limit: float | None  # None where the two are known to differ

    @property
    def verdict(self) -> str:
        """What the difference means."""
        if self.limit is None:
            return "differs"
        return "equal" if self.difference <= self.limit else "NOT EQUAL"


def compare(theirs: str, ours: str, answer: Any, actual: Any, limit: float | None = 1e-10) -> Row:
    """Return a row with the largest difference of two answers over the largest number of ours."""
    answer = np.asarray(answer, dtype=float)
    actual = np.asarray(actual, dtype=float)
    if answer.shape != actual.shape:
        raise ValueError(f"{theirs} has the shape {answer.shape}, and {ours} has {actual.shape}.")
    return Row(theirs, ours, float(np.abs(answer - actual).max() / np.abs(actual).max()), limit)


class Problem:
    """A grid of labels with features and kernels of both sides, things that are new, holes, folds and two networks."""

    def __init__(self, m: int = 30, q: int = 20) -> None:
        data = make_dyads(m + 6, q + 4, noise=0.3, random_state=0)
        rng = np.random.default_rng(0)
        self.X = data.X[:m]
        self.tasks = data.tasks[:q]
        self.Y = data.Y[:m, :q]
        self.X_new = data.X[m:]
        self.tasks_new = data.tasks[q:]
        self.K, self.K_new = (
            rbf_kernel(rows, self.X, gamma=GAMMA) for rows in (self.X, self.X_new)
        )
        self.G, self.G_new = (
            rbf_kernel(rows, self.tasks, gamma=GAMMA) for rows in (self.tasks, self.tasks_new)
        )
        self.observed = rng.random((m, q)) < 0.5
        self.fold, self.task_fold = np.arange(m) % 5, np.arange(q) % 4
        edges = rng.normal(size=(m, m))
        self.symmetric = edges + edges.T
        self.antisymmetric = edges - edges.T
        self.shares = np.array([1.0, 0.3, 0.2])

    @property
    def holes(self) -> np.ndarray:
        """The labels that are observed, and NaN."""
        return np.where(self.observed, self.Y, np.nan)
