"""Small random problems for a model of pairs, and how close its answers must be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

#: Forms of labels: a complete grid, a grid with missing labels, a grid with weights, and a list of
#: observed pairs (a sparse matrix).
FORMS = ("full", "missing", "weights", "list")

#: The largest error of each check, relative to the largest value that is compared.
TOLERANCES = {
    "hold-out": 1e-6,
    "groups": 1e-6,
    "order": 1e-6,
    "scale": 1e-6,
    "weights": 1e-6,
    "refit": 1e-9,
    "pairs": 1e-9,
    "vector": 1e-6,
    "frames": 1e-6,
    "libraries": 1e-6,
    "float32": 2e-3,
    "score": 1e-6,
    "explain": 1e-6,
    "threads": 1e-9,
    "ends of intervals": 1e-9,
}

# Sizes of the random problems. Those of a side all differ, so that no axis is taken for another.
N_ROWS = 7
N_COLUMNS = 5
N_NEW = 4
N_NEW_TASKS = 3
N_FEATURES = 3
N_TASK_FEATURES = 2


@dataclass(frozen=True)
class Rows:
    """Rows of one side: features, or kernels between rows.

    Attributes
    ----------
    known : array of shape (n, d), or (n, n) for kernels
        Training rows.
    new : array of shape (a, d), or (a, n) for kernels
        New rows.
    are_kernels : bool
    """

    known: np.ndarray
    new: np.ndarray
    are_kernels: bool = False

    @classmethod
    def of_features(cls, known: np.ndarray, new: np.ndarray, are_kernels: bool) -> Rows:
        """Return features, or the kernels exp(−|a − b|²/d) between them."""
        if not are_kernels:
            return cls(known, new)
        return cls(_kernel(known, known), _kernel(new, known), True)

    def kept(self, places: np.ndarray) -> Rows:
        """Return the side with some of its training rows, in the given order."""
        known = self.known[places]
        if not self.are_kernels:
            return replace(self, known=known)
        return replace(self, known=known[:, places], new=self.new[:, places])

    def beside(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return rows of `known` or `new` for a model that was trained on some of the training rows."""
        return rows[:, places] if self.are_kernels else rows

    def converted(self, convert: Callable[[np.ndarray], Any]) -> Rows:
        """Return the side in another type of arrays."""
        return Rows(convert(self.known), convert(self.new), self.are_kernels)


def _kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    distances = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    kernel: np.ndarray = np.exp(-distances / A.shape[1])
    return kernel


@dataclass(frozen=True)
class Data:
    """A small problem.

    Attributes
    ----------
    X : Rows
        Instances.
    tasks : Rows or None
        Tasks; None for a network.
    y : array of shape (m, q)
        Labels, NaN where missing.
    weights : array of shape (m, q) or None
    is_list : bool
        Whether the labels are passed as a sparse matrix.
    new_y : array of shape (a, q) or None
        Some labels of the new instances.
    """

    X: Rows
    tasks: Rows | None
    y: Any
    weights: Any = None
    is_list: bool = False
    new_y: Any = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit`."""
        arguments: dict[str, Any] = {"X": self.X.known, "y": self.y}
        if self.is_list:
            arguments["y"] = _stored(self.y, self.y)
        if self.tasks is not None:
            arguments["tasks"] = self.tasks.known
        if self.weights is not None:
            arguments["sample_weight"] = self.weights
        return arguments

    def without(self, hidden: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Data:
        """Return the data without hidden labels, and with some of the rows and columns."""
        y = np.where(hidden, np.nan, self.y)[np.ix_(rows, columns)]
        tasks = None if self.tasks is None else self.tasks.kept(columns)
        weights = None
        if self.weights is not None:
            weights = self.weights[np.ix_(rows, columns)]
        return replace(self, X=self.X.kept(rows), tasks=tasks, y=y, weights=weights)

    def converted(self, convert: Callable[[np.ndarray], Any]) -> Data:
        """Return the data in another type of arrays."""
        tasks = None if self.tasks is None else self.tasks.converted(convert)
        weights = None if self.weights is None else convert(self.weights)
        return replace(
            self,
            X=self.X.converted(convert),
            tasks=tasks,
            y=convert(self.y),
            weights=weights,
            new_y=convert(self.new_y),
        )


def _stored(values: np.ndarray, labels: np.ndarray) -> sparse.csr_array:
    """Return the values of the cells with a label as a sparse matrix."""
    rows, columns = np.nonzero(~np.isnan(labels))
    return sparse.csr_array((values[rows, columns], (rows, columns)), shape=labels.shape)


@dataclass(frozen=True)
class Trial:
    """A model that is not fitted, and a small problem in one form of labels.

    Attributes
    ----------
    estimator : estimator
    form : str
        One of `FORMS`.
    settings : str
        Letters of the settings that the model supports.
    is_exact : bool
        Whether hold-out equals refits. False if a part of the model depends on all rows.
    random_state : int
    """

    estimator: Any
    form: str = "full"
    settings: str = "ABCD"
    is_exact: bool = True
    random_state: int = 0

    @cached_property
    def symmetry(self) -> int:
        """Sign of a network, 0 if instances and tasks differ."""
        words = {"symmetric": 1, "antisymmetric": -1}
        return words.get(self.estimator.get_params().get("symmetry"), 0)

    @property
    def knows_tasks(self) -> bool:
        """Whether the model predicts for new tasks."""
        return "C" in self.settings

    @cached_property
    def has_intercept(self) -> bool:
        """Whether the model has a constant that is not regularised."""
        return bool(self.estimator.get_params().get("fit_intercept", False))

    @property
    def grows(self) -> bool:
        """Whether the model is updated with batches and is told the labels again for hold-out."""
        return bool(getattr(self.estimator, "grows", False))

    @cached_property
    def data(self) -> Data:
        """The problem; nobody may write into it."""
        rng = np.random.default_rng(self.random_state)
        n_columns = N_ROWS if self.symmetry else N_COLUMNS
        X, X_new = rng.normal(size=(N_ROWS, N_FEATURES)), rng.normal(size=(N_NEW, N_FEATURES))
        T = rng.normal(size=(n_columns, N_TASK_FEATURES))
        T_new = rng.normal(size=(N_NEW_TASKS, N_TASK_FEATURES))
        y = X @ rng.normal(size=(N_FEATURES, N_TASK_FEATURES)) @ T.T
        y = y + rng.normal(size=y.shape) + 2.0
        if self.symmetry:
            y = y + self.symmetry * y.T
        weights = rng.random(y.shape) + 0.5
        # Every row and every column keeps most of its labels.
        places = np.arange(y.shape[0])
        columns = (3 * places + 1) % y.shape[1]
        params = self.estimator.get_params()
        side = Rows.of_features(X, X_new, params.get("kernel") == "precomputed")
        tasks = Rows.of_features(T, T_new, params.get("task_kernel") == "precomputed")
        new_y = rng.normal(size=(N_NEW, n_columns)) + 2.0
        new_y[:, ::2] = np.nan
        data = Data(side, None if self.symmetry else tasks, y, new_y=new_y)
        if self.form in ("missing", "list"):
            y[places[::2], columns[::2]] = np.nan
            if self.symmetry:
                y += 0 * y.T
        if self.form == "weights":
            data = replace(data, weights=(weights + weights.T) / 2 if self.symmetry else weights)
        return replace(data, is_list=self.form == "list")

    @cached_property
    def fitted(self) -> Any:
        """A clone of the model, fitted on the problem; nobody may change it."""
        return self.fit()

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the model answers after a fit on the problem; nobody may write into it."""
        return self.answers(self.fitted)

    def fit(self, data: Data | None = None, **params: Any) -> Any:
        """Return a clone of the model, fitted on the problem or on other data."""
        model = clone(self.estimator).set_params(**params)
        return model.fit(**(self.data if data is None else data).arguments())

    def again(self, model: Any) -> Any:
        """Return an unfitted model with the regularisation of a fitted one: a search has one candidate."""
        same = clone(self.estimator)
        known = same.get_params()
        candidates = {"alpha_": "alphas", "task_alpha_": "task_alphas", "shares_": "shares"}
        chosen = {
            name: [getattr(model, attribute)]
            for attribute, name in candidates.items()
            if name in known and getattr(model, attribute, None) is not None
        }
        return same.set_params(**chosen)

    def predict(self, model: Any, data: Data | None = None) -> Any:
        """Return predictions for the new instances, and for the new tasks if the model knows tasks."""
        if data is None:
            data = self.data
        if self.knows_tasks and data.tasks is not None:
            return model.predict(data.X.new, tasks=data.tasks.new)
        return model.predict(data.X.new)

    def answers(self, model: Any, data: Data | None = None) -> dict[str, Any]:
        """Return what a fitted model can be asked for, by names."""
        if data is None:
            data = self.data
        X = data.X.new
        tasks = None
        if self.knows_tasks and data.tasks is not None:
            tasks = data.tasks.new
        options = inspect.signature(model.predict).parameters
        answers = {"predictions": self.predict(model, data)}
        for setting in self.settings[:2]:
            if self.grows:
                held_out = model.holdout(data.X.known, data.y, setting)
            else:
                held_out = model.holdout(setting, **self.units(model, setting))
            answers[f"hold-out {setting}"] = held_out
        if not self.grows:
            answers["predictions of training rows"] = model.predict()
            if "B" in self.settings and not self.symmetry:
                answers["hold-out of groups"] = model.holdout("B", **self.groups("B"))
        if hasattr(model, "completed_"):
            answers["completed labels"] = model.completed_
        if self.has_intervals:
            answers["lower ends"], answers["upper ends"] = model.predict_interval(X, coverage=0.3)
        if "return_std" in options:
            answers["deviations"] = model.predict(X, tasks, return_std=True)[1]
        if "labels" in options and tasks is not None:
            answers["predictions with labels"] = model.predict(X, labels=data.new_y)
        return answers

    @property
    def has_intervals(self) -> bool:
        """Whether the model has intervals of new instances."""
        is_asked = "B" in self.settings and not self.grows
        return is_asked and hasattr(self.estimator, "predict_interval")

    def hold_out(self, model: Any, setting: str, **units: Any) -> np.ndarray:
        """Return the held-out predictions as a grid, NaN where there are none."""
        if self.grows:
            return dense(model.holdout(self.data.X.known, self.data.y, setting))
        chosen = units or self.units(model, setting)
        if self.data.is_list and "cells" in chosen:
            chosen = {"cells": _stored(chosen["cells"], self.data.y)}
        return dense(model.holdout(setting, **chosen))

    def units(self, model: Any, setting: str) -> dict[str, Any]:
        """Return the units that hold-out leaves out by default, as its arguments; none means one at a time."""
        if "cv" in inspect.signature(model.holdout).parameters:
            return self.groups(setting)
        return {}

    def groups(self, setting: str) -> dict[str, Any]:
        """Return a few groups of instances, tasks or pairs, as arguments of `holdout`."""
        m, q = self.data.y.shape
        units: dict[str, Any] = {}
        if setting in "BD":
            units["groups"] = np.arange(m) % 3
        if setting in "CD":
            units["task_groups"] = np.array(list("ab"))[np.arange(q) % 2]
        if setting == "A":
            units["cells"] = np.add.outer(2 * np.arange(m), np.arange(q)) % 4
        return units

    def close(self, found: Any, expected: Any, name: str, what: str = "") -> None:
        """Compare two arrays by the tolerance of a check."""
        expected = dense(expected)
        found = dense(found)
        finite = np.isfinite(expected)
        assert finite.any(), "the check compares nothing"
        scale = np.max(np.abs(expected[finite]))
        tolerance = TOLERANCES[name] * scale
        assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=what or name)

    def same(
        self, model: Any, data: Data, expected: dict[str, Any], name: str, what: str
    ) -> dict[str, Any]:
        """Compare all answers of a model by the tolerance of a check, and return them."""
        answers = self.answers(model, data)
        assert answers.keys() == expected.keys()
        for question, values in answers.items():
            self.close(values, expected[question], name, f"{what}: {question}")
        return answers


def dense(values: Any) -> np.ndarray:
    """Return predictions of any type as an array of numpy; a sparse matrix has NaN where nothing is stored."""
    if sparse.issparse(values):
        return _spread(values)
    if hasattr(values, "to_dicts"):
        # A frame of polars has its ids in the first column.
        values = values.drop(values.columns[0])
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        return np.asarray(np.from_dlpack(values), dtype=float)
    return np.asarray(values, dtype=float)


def _spread(values: Any) -> np.ndarray:
    """Return a sparse matrix as an array with NaN where nothing is stored."""
    stored = values.tocoo()
    grid = np.full(stored.shape, np.nan)
    grid[stored.coords] = stored.data
    return grid
