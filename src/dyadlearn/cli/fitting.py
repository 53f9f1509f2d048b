"""Models by the names the command line gives them: made, fitted, and told what their rows and columns are called."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn._files import parse_number
from dyadlearn.cli.dyads import Dyads
from dyadlearn.cli.sides import Recipe
from dyadlearn.cli.talk import Talk
from dyadlearn.metrics import scorer
from dyadlearn.settings import Setting, as_setting

__all__ = [
    "ModelName",
    "Scoring",
    "alphas_of",
    "check_model",
    "check_online",
    "fitted",
    "kernels_of",
    "named",
    "searched",
    "settings_of",
]

MODELS = ("two-step", "kronecker", "independent", "online")

ModelName = Annotated[str, typer.Option("--model", help=f"One of {', '.join(MODELS)}.")]
Scoring = Annotated[
    str | None,
    typer.Option(help="What is best, such as roc_auc or r2; by default roc_auc for two values, else squared error."),
]


def check_model(name: str, has_tasks: bool) -> None:
    """Refuse a model that is unknown, or that lacks its tasks."""
    if name not in MODELS:
        raise ValueError(f"--model is one of {', '.join(MODELS)}, found {name!r}.")
    if not has_tasks and name in ("two-step", "kronecker"):
        raise ValueError(f"The {name} model learns from tasks: give them by --tasks, or take --model independent.")


def alphas_of(text: str | None, option: str) -> Any:
    """Read regularisations: numbers with commas, ``first:last:count`` in even steps of the exponent, or auto."""
    if text is None or text == "auto":
        return text
    try:
        if ":" in text:
            first, last, count = text.split(":")
            return np.geomspace(parse_number(first), parse_number(last), int(count)).tolist()
        return [parse_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes numbers as 0.1,1,10, a range as 1e-3:1e3:7, or auto; found {text!r}."
        ) from None


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters in a row, or aliases with commas."""
    names = text.split(",") if "," in text or len(text) > 4 else list(text)
    return [as_setting(name) for name in names]


def kernels_of(data: Dyads, with_tasks: bool = True) -> dict[str, Any]:
    """Return the kernel parameters of a model for these data."""
    kernel, params = data.instances.recipe.of_model
    found: dict[str, Any] = {"kernel": kernel, "kernel_params": params}
    if with_tasks and data.tasks is not None:
        kernel, params = data.tasks.recipe.of_model
        found |= {"task_kernel": kernel, "task_kernel_params": params}
    return found


def searched(
    data: Dyads,
    name: str,
    *,
    setting: str,
    scoring: str,
    alphas: Any,
    task_alphas: Any,
    cv: int | None,
    groups: Any,
    task_groups: Any,
    talk: Talk,
) -> Any:
    """Fit a model that chooses its regularisation; the parameters are those of the library's searches."""
    common: dict[str, Any] = {"setting": setting, "scoring": scoring, "cv": cv, "progress": talk.progress}
    scorer(scoring)
    if name == "independent":
        model: Any = IndependentTaskRidgeCV(alphas, **common, **kernels_of(data, with_tasks=False))
    elif name == "kronecker":
        model = KroneckerRidgeCV(alphas, **common, **kernels_of(data))
    else:
        model = TwoStepRidgeCV(alphas, task_alphas, **common, **kernels_of(data))
    tasks = None if data.tasks is None or name == "independent" else data.tasks.values
    model.fit(data.instances.values, data.Y, tasks=tasks, groups=groups, task_groups=task_groups)
    # How it was shown is no part of the model.
    model.progress = None
    return named(model, data)


def fitted(data: Dyads, name: str, alpha: float, task_alpha: float) -> Any:
    """Fit a model with a given regularisation."""
    tasks = None if data.tasks is None else data.tasks.values
    if name == "online":
        model: Any = OnlineTwoStepRidge(alpha, task_alpha)
    elif name == "independent":
        model, tasks = IndependentTaskRidge(alpha, **kernels_of(data, with_tasks=False)), None
    elif name == "kronecker":
        model = KroneckerRidge(alpha, **kernels_of(data))
    else:
        model = TwoStepRidge(alpha, task_alpha, **kernels_of(data))
    return named(model.fit(data.instances.values, data.Y, tasks=tasks), data)


def check_online(data: Dyads) -> None:
    """Refuse what an online model cannot take: missing labels, and sides that are not linear in features."""
    if np.isnan(data.Y).any():
        raise ValueError("An online model needs every label: fill the holes, or take --model two-step.")
    sides: list[tuple[str, Recipe]] = [("instances", data.instances.recipe)]
    if data.tasks is not None:
        sides.append(("tasks", data.tasks.recipe))
    for side, recipe in sides:
        if recipe.of_model[0] != "linear":
            raise ValueError(f"An online model is linear in features, but its {side} are {recipe.in_words}.")


def named(model: Any, data: Dyads) -> Any:
    """Tell a model what its rows, columns and features are called.

    Data frames would do that themselves, but no library of data frames is needed here.
    """
    rows, columns = data.instance_ids, data.task_ids
    names, task_names = data.instances.names, None if data.tasks is None else data.tasks.names
    if model.grows:
        model._learnt = replace(model._learnt, task_ids=columns, task_names=task_names)
        return model
    model._grid = replace(model._grid, instance_ids=rows, task_ids=columns)
    model._side = replace(model._side, ids=rows, names=names)
    if model._task_side is not None:
        model._task_side = replace(model._task_side, ids=columns, names=task_names)
    return model
