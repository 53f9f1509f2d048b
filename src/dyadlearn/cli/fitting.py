"""Models by the names the command line gives them, made and fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.cli.dyads import Dyads
from dyadlearn.cli.options import MODELS
from dyadlearn.metrics import scorer

__all__ = ["check_model", "check_online", "fitted", "searched"]

# As they are fitted with a given regularisation and as they choose it, which an online model leaves to its equal.
_CLASSES = {
    "two-step": (TwoStepRidge, TwoStepRidgeCV),
    "kronecker": (KroneckerRidge, KroneckerRidgeCV),
    "independent": (IndependentTaskRidge, IndependentTaskRidgeCV),
    "online": (OnlineTwoStepRidge, TwoStepRidgeCV),
}


def check_model(name: str, has_tasks: bool) -> None:
    """Refuse a model that is unknown, or that lacks its tasks."""
    if name not in MODELS:
        raise ValueError(f"--model is one of {', '.join(MODELS)}, found {name!r}.")
    if not has_tasks and name in ("two-step", "kronecker"):
        raise ValueError(f"The {name} model learns from tasks: give them by --tasks, or take --model independent.")


def check_online(data: Dyads) -> None:
    """Refuse what an online model cannot take: missing labels, and sides that are not linear in features."""
    if np.isnan(data.labels.values).any():
        raise ValueError("An online model needs every label: fill the holes, or take --model two-step.")
    for side, entities in (("instances", data.instances), ("tasks", data.tasks)):
        if entities is not None and entities.recipe.of_model[0] != "linear":
            raise ValueError(f"An online model is linear in features, but its {side} are {entities.recipe.in_words}.")


def searched(data: Dyads, name: str, *, groups: Any, task_groups: Any, **params: Any) -> Any:
    """Fit a model that chooses its regularisation; the parameters are those of the library's searches."""
    scorer(params["scoring"])
    model = _made(_CLASSES[name][1], data, params)
    model.fit(data.instances.table, data.labels, tasks=_tasks(data, name), groups=groups, task_groups=task_groups)
    # How it was shown is no part of the model.
    model.progress = None
    return model


def fitted(data: Dyads, name: str, alpha: float, task_alpha: float) -> Any:
    """Fit a model with a given regularisation."""
    model = _made(_CLASSES[name][0], data, {"alpha": alpha, "task_alpha": task_alpha})
    return model.fit(data.instances.table, data.labels, tasks=_tasks(data, name))


def _made(model: Any, data: Dyads, params: dict[str, Any]) -> Any:
    """Return a model of a class with those of the parameters that it has, and the kernels of these data."""
    for prefix, entities in (("", data.instances), ("task_", data.tasks)):
        if entities is not None:
            kernel, options = entities.recipe.of_model
            params = {**params, f"{prefix}kernel": kernel, f"{prefix}kernel_params": options}
    own = model._get_param_names()
    return model(**{name: value for name, value in params.items() if name in own})


def _tasks(data: Dyads, name: str) -> Any:
    return None if data.tasks is None or name == "independent" else data.tasks.table
