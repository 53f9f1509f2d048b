"""Units do not matter: what happens to every answer if labels, features, kernels or weights are multiplied or moved.

Each change of the data says how it changes the regularisation and the answers. All models and forms
of labels undergo all changes that the theory knows for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    TwoStepRidge,
    evaluate,
    explain,
    permutation_test,
)

HUGE = 1e12
FACTORS = (HUGE, 1 / HUGE)
# Digits of answers that are compared, relative to the spread of the labels.
RTOL = 1e-7


@dataclass(frozen=True)
class Data:
    """What a model is fitted on, and new rows."""

    X: np.ndarray
    T: np.ndarray
    Y: np.ndarray
    W: np.ndarray | None
    new: np.ndarray
    new_tasks: np.ndarray


def draw(form: str, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    m = 7
    q = 6
    X, T, new, new_tasks = (rng.normal(size=(n, 3)) for n in (m, q, 2, 2))
    Y = X[:, :1] * T[:, 0] + X[:, 1:2] + 0.5 * rng.normal(size=(m, q)) + 2.0
    W = None
    if form == "missing":
        Y[rng.random(Y.shape) < 0.2] = np.nan
    if form == "weighted":
        W = rng.uniform(0.5, 2.0, size=(m, q))
    return Data(X, T, Y, W, new, new_tasks)


@dataclass(frozen=True)
class Change:
    """A change of the data, and what follows from it.

    Attributes
    ----------
    data : callable
        Returns the changed data.
    alphas : callable
        Returns the factors of `alpha` and `task_alpha` that leave the model what it is, for a model
        with one regularisation (True) or two (False).
    scale, shift : float
        What predictions are multiplied by, and what is added.
    models : set of str
        Models for which the theory knows the change; all if it is empty.
    """

    data: Callable[[Data], Data]
    alphas: Callable[[bool], tuple[float, float]] = lambda one: (1.0, 1.0)
    scale: float = 1.0
    shift: float = 0.0
    models: frozenset[str] = field(default_factory=frozenset)


def _labels(data: Data, *, factor: float, shift: float = 0.0) -> Data:
    return replace(data, Y=factor * data.Y + shift)


def _instances(data: Data, *, factor: float) -> Data:
    return replace(data, X=factor * data.X, new=factor * data.new)


def _tasks(data: Data, *, factor: float) -> Data:
    return replace(data, T=factor * data.T, new_tasks=factor * data.new_tasks)


def _weights(data: Data, *, factor: float) -> Data:
    weights = np.ones(data.Y.shape) if data.W is None else data.W
    return replace(data, W=factor * weights)


# With an intercept, Kronecker ridge regression adds a constant of size 1 to each kernel: its
# features have a unit.
WITHOUT_UNIT = frozenset({"independent", "two-step", "kronecker, no intercept", "network"})
TAKES_UP = frozenset({"independent", "kronecker", "kronecker, no intercept"})
HAS_INTERCEPT = frozenset({"independent", "two-step", "kronecker", "network"})


def one_side(index: int, c: float) -> Callable[[bool], tuple[float, float]]:
    """Return the factors of the regularisations if the kernel of one side is multiplied by c."""
    return lambda one: (c, 1.0) if one or index == 0 else (1.0, c)


CHANGES: dict[str, Change] = {}
for c in FACTORS:
    nodes = WITHOUT_UNIT - {"network"}
    CHANGES |= {
        f"labels × {c:g}": Change(partial(_labels, factor=c), scale=c),
        f"weights × {c:g}": Change(partial(_weights, factor=c), one_side(0, c), models=TAKES_UP),
        f"instances × {c:g}": Change(
            partial(_instances, factor=c), one_side(0, c**2), models=nodes
        ),
        f"tasks × {c:g}": Change(
            partial(_tasks, factor=c), one_side(1, c**2), models=nodes - {"independent"}
        ),
        f"nodes × {c:g}": Change(
            partial(_instances, factor=c),
            lambda one, c=c: (c**2, c**2),
            models=frozenset({"network"}),
        ),
    }
# A millionth of a standard deviation is left of each label.
CHANGES["labels + 1e6"] = Change(
    partial(_labels, factor=1.0, shift=1e6), shift=1e6, models=HAS_INTERCEPT
)


@dataclass(frozen=True)
class Entry:
    """A model: how it is made, and what it accepts."""

    make: Callable[..., Any]
    one: bool = True
    forms: tuple[str, ...] = ("full", "missing", "weighted")
    settings: str = "ABCD"

    def settings_of(self, form: str) -> str:
        """Return the settings to ask for; leaving out each pair of rows and columns takes long with missing labels."""
        return self.settings if form == "full" else self.settings.replace("D", "")


def network(**params: Any) -> TwoStepRidge:
    alpha = params.pop("alpha")
    params.pop("task_alpha")
    return TwoStepRidge(alpha, alpha, symmetry="symmetric", **params)


MODELS = {
    "independent": Entry(lambda alpha, task_alpha: IndependentTaskRidge(alpha), settings="AB"),
    "kronecker": Entry(lambda alpha, task_alpha: KroneckerRidge(alpha)),
    "kronecker, no intercept": Entry(
        lambda alpha, task_alpha: KroneckerRidge(alpha, fit_intercept=False)
    ),
    "two-step": Entry(TwoStepRidge, one=False),
    "network": Entry(network, one=False, forms=("full",)),
}


def fit(name: str, data: Data, alpha: float = 0.7, task_alpha: float = 0.3) -> Any:
    model = MODELS[name].make(alpha=alpha, task_alpha=task_alpha)
    if name == "network":
        square = np.tril(data.Y[:, : len(data.Y)][: data.Y.shape[1]])
        square = square + np.tril(square, -1).T
        return model.fit(data.X[: len(square)], square)
    given = {} if data.W is None else {"sample_weight": data.W}
    return model.fit(data.X, data.Y, tasks=data.T, **given)


def answers(name: str, model: Any, data: Data, settings: str) -> dict[str, np.ndarray]:
    """Return what is in the units of the labels, and changes with them."""
    found = {f"holdout {setting}": model.holdout(setting) for setting in settings}
    if name in ("independent", "network"):
        asked = (data.new,)
    else:
        asked = (data.new, data.new_tasks)
    found["predict"] = model.predict(*asked)
    found["fitted"] = model.predict()
    found["lower"], found["upper"] = model.predict_interval(data.new, coverage=0.5)
    return found


def unchanged(model: Any, *, is_permuted: bool = True) -> dict[str, Any]:
    """Return what has no units: shares of labels, scores, and scores of permuted labels."""
    found: dict[str, Any] = {"explain": explain(model, 1, 2).weights}
    found["scores"] = evaluate(model, "B", scoring=["r2", "pearson"])["score"]
    if not is_permuted:
        return found
    options = {"scoring": "r2", "n_permutations": 2, "random_state": 0, "progress": False}
    found["null"] = permutation_test(model, "B", **options).null
    return found


def cases() -> list[Any]:
    return [
        pytest.param(name, form, id=f"{name}, {form}")
        for name, entry in MODELS.items()
        for form in entry.forms
    ]


@pytest.mark.parametrize(("name", "form"), cases())
def test_units_do_not_matter(name, form):
    data = draw(form)
    entry = MODELS[name]
    settings = entry.settings_of(form)
    plain = fit(name, data)
    expected = answers(name, plain, data, settings)
    same = unchanged(plain)
    spread = float(np.nanstd(data.Y))
    for words, change in CHANGES.items():
        if change.models and name not in change.models:
            continue
        changed = change.data(data)
        factors = change.alphas(entry.one)
        model = fit(name, changed, 0.7 * factors[0], 0.3 * factors[1])
        # A shift of a million standard deviations leaves six digits fewer.
        atol = (RTOL if change.shift == 0 else 1e-5) * spread
        for answer, values in answers(name, model, changed, settings).items():
            back = (values - change.shift) / change.scale
            assert_allclose(back, expected[answer], rtol=0, atol=atol, err_msg=f"{answer}, {words}")
        # Permuted labels are large or small as the labels are.
        is_permuted = words.startswith("labels")
        for answer, values in unchanged(model, is_permuted=is_permuted).items():
            assert_allclose(
                values, same[answer], rtol=1e-5, atol=1e-6, err_msg=f"{answer}, {words}"
            )
