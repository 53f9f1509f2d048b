"""The models of the command line: by the names it gives them, fitted, and in files.

A file keeps with a model how its data came to be, so that new data can be made alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn._files.tables import id_text, text_ids, writing
from dyadlearn._tables import Ids
from dyadlearn.cli.dyads import Dyads
from dyadlearn.cli.entities import Recipe, Recipes
from dyadlearn.cli.options import MODELS, check_has_tasks, given_options, sides_of
from dyadlearn.diagnostics.fitted import is_network
from dyadlearn.exceptions import ModelFileError
from dyadlearn.metrics import scorer
from dyadlearn.selection.duration import SearchTime
from dyadlearn.sides import SideNames, side_names
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum

__all__ = [
    "Loaded",
    "called",
    "check_model",
    "check_online",
    "fitted",
    "learned",
    "load_model",
    "save_model",
    "searched",
]

# As they are fitted with a given regularisation and as they choose it, which an online model leaves to its equal.
_CLASSES: dict[str, tuple[Any, Any]] = {
    "two-step": (TwoStepRidge, TwoStepRidgeCV),
    "kronecker": (KroneckerRidge, KroneckerRidgeCV),
    "independent": (IndependentTaskRidge, IndependentTaskRidgeCV),
    "online": (OnlineTwoStepRidge, TwoStepRidgeCV),
}


# Options that not every model has, by the parameters of the library that say so.
_PARAMETERS = {
    "task_alpha": "task_alpha",
    "task_alphas": "task_alphas",
    "task_kernel": "task_kernel",
    "task_groups": "task_kernel",
    "keep_labels": "keep_labels",
    "device": "device",
    "budget": "budget",
    "exhaustive": "exhaustive",
}


def check_model(name: str, has_tasks: bool, *, searches: bool) -> None:
    """Raise for a model that is unknown or lacks its tasks, and for an option that it does not have.

    Parameters
    ----------
    name : str
    has_tasks : bool
    searches : bool
        Whether the model chooses its regularisation.
    """
    if name not in MODELS:
        raise ValueError(f"--model is one of {', '.join(MODELS)}, found {name!r}.")
    if not has_tasks and name in ("two-step", "kronecker"):
        raise ValueError(f"The {name} model learns from tasks: give them by --tasks, or take --model independent.")
    check_has_tasks(has_tasks)
    for option, parameter in _PARAMETERS.items():
        having = [model for model in MODELS if parameter in _parameters(model, searches)]
        for given in () if name in having else given_options(option):
            raise ValueError(f"{given} is no option of --model {name}: use it with --model {' or '.join(having)}.")


def _parameters(name: str, searches: bool) -> set[str]:
    """Return the parameters of a model that is fitted, or searched and, where it is online, fitted again."""
    own, search = (set(each._get_param_names()) for each in _CLASSES[name])
    if not searches:
        return set() if name == "online" else own
    return search | own if name == "online" else search


def check_online(data: Dyads) -> None:
    """Refuse what an online model cannot take: sides that are not linear in features."""
    for side, entities in (("instances", data.instances), ("tasks", data.tasks)):
        if entities is not None and any(each.of_model[0] != "linear" for each in entities.recipe.members.values()):
            raise ValueError(f"An online model is linear in features, but its {side} are {entities.recipe.in_words}.")


def searched(
    data: Dyads, name: str, announce: Callable[[SearchTime], None], *, groups: Any, task_groups: Any, **params: Any
) -> Any:
    """Fit a model that chooses its regularisation; the parameters are those of the library's searches.

    `announce` is told how long it takes, where folds are solved again.
    """
    scorer(params["scoring"])
    model = _made(_CLASSES[name][1], data, params)
    model._fit_announced(announce, data.instances.table, data.labels, _tasks(data, name), None, groups, task_groups)
    # How it was shown is no part of the model.
    model.progress = None
    return model


def fitted(data: Dyads, name: str, alpha: float, task_alpha: float, intercept: bool, **more: Any) -> Any:
    """Fit a model with a given regularisation, and with those of the other parameters that it has."""
    params = {"alpha": alpha, "task_alpha": task_alpha, "fit_intercept": intercept, **more}
    model = _made(_CLASSES[name][0], data, params)
    return model.fit(data.instances.table, data.labels, tasks=_tasks(data, name))


def learned(data: Dyads, *, groups: Any, task_groups: Any, **params: Any) -> LearnedKernelRidge:
    """Fit a model that learns its kernels; the parameters are those of the library's."""
    for prefix, entities in (("", data.instances), ("task_", data.tasks)):
        if entities is not None:
            kernels = {
                name: kernel if options is None else (kernel, options)
                for name, (kernel, options) in ((name, each.of_model) for name, each in entities.recipe.members.items())
            }
            params[f"{prefix}kernel"] = kernels.get("", kernels)
    model = LearnedKernelRidge(**params)
    tasks = None if data.tasks is None else data.tasks.table
    model.fit(data.instances.table, data.labels, tasks=tasks, groups=groups, task_groups=task_groups)
    model.progress = None
    return model


def _made(model: Any, data: Dyads, params: dict[str, Any]) -> Any:
    """Return a model of a class with the kernels of these data; parameters that it lacks were not asked for."""
    for prefix, entities in (("", data.instances), ("task_", data.tasks)):
        if entities is not None:
            kernel, options = entities.recipe.members[""].of_model
            params = {**params, f"{prefix}kernel": kernel, f"{prefix}kernel_params": options}
    own = model._get_param_names()
    return model(**{name: value for name, value in params.items() if name in own})


def _tasks(data: Dyads, name: str) -> Any:
    return None if data.tasks is None or name == "independent" else data.tasks.table


# Model files ---------------------------------------------------------------------------------------

# Where the header of a model file has what only the command line needs.
_KEY = "command_line"


@dataclass(frozen=True)
class Loaded:
    """A model with what is known of its making.

    Attributes
    ----------
    model : estimator
    instances : Recipe or Recipes
    tasks : Recipe, Recipes or None
    origin : dict
        The names of the files it was made from, and how it was chosen.
    versions : dict
        Of the libraries that wrote it.
    path : Path or None
        Where it was read.
    checksum : str or None
        Of the file as it was read.
    sides : (str, str) or None
        What an instance and a task are called, where somebody has said so.
    saved : estimator or None
        What the file holds, which may wrap the model.
    """

    model: Any
    instances: Recipe | Recipes
    tasks: Recipe | Recipes | None
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None
    sides: tuple[str, str] | None = None
    saved: Any = None

    def named(self, words: str | None = None) -> Loaded:
        """Return the model with other words for its sides; None leaves those of its file."""
        if words is None:
            return self
        names = side_names(sides_of(words), network=_is_network(self.model))
        return replace(self, sides=(names.instance, names.task))

    @property
    def names(self) -> SideNames:
        """What the sides are called in tables and sentences."""
        return side_names(self.sides, network=_is_network(self.model))

    def headed(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns of a table, among them instance and task, with the names that the sides have."""
        sides = ("instance", "task")
        words = dict(zip(sides, self.names.headings(set(columns) - {*sides}), strict=True))
        return {words.get(name, name): column for name, column in columns.items()}

    @property
    def own_ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks, as the model has them."""
        instances, tasks = self.model._ids
        return instances, tasks

    @property
    def ids(self) -> tuple[Ids | None, Ids | None]:
        """The same as text, where no two may be alike."""
        instances, tasks = self.own_ids
        return (
            None if instances is None else text_ids(instances, "The instances of the model"),
            None if tasks is None else text_ids(tasks, "The tasks of the model"),
        )


def called(sides: str | None, names: SideNames) -> tuple[str, str] | None:
    """Return what a model file keeps of the names of the sides; None where nobody has said any."""
    return None if sides is None else (names.instance, names.task)


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file, whole or not at all; the file it was read from only if that is still what it was."""
    about = {
        "instances": loaded.instances.state(),
        "tasks": None if loaded.tasks is None else loaded.tasks.state(),
        "origin": loaded.origin,
        "sides": None if loaded.sides is None else list(loaded.sides),
    }
    is_own = loaded.path is not None and os.path.realpath(loaded.path) == os.path.realpath(path)
    with writing(path):
        write_model(loaded.model, path, over=loaded.checksum if is_own else None, **{_KEY: about})


def load_model(path: Path) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python."""
    checksum = read_checksum(path)  # before the rest, so that a change in between is one
    saved, header = read_model(path)
    model = getattr(saved, "model_", saved)
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path} holds a feature map, which predicts nothing.")
    try:
        versions, about = _texts(header.get("versions", {})), header.get(_KEY)
        if about is None:
            return replace(_from_python(model), versions=versions, path=path, checksum=checksum, saved=saved)
        instances = _recipe(about["instances"], "instances")
        tasks = None if about["tasks"] is None else _recipe(about["tasks"], "tasks")
        sides = _sides(about.get("sides"), model)  # which older files lack
        return Loaded(model, instances, tasks, _origin(about["origin"]), versions, path, checksum, sides, saved)
    except (AttributeError, LookupError, TypeError, ModelFileError) as error:
        raise ModelFileError(
            f"{path} was made by another version of the command line, or is damaged: its header does not say how its "
            f"data came to be ({type(error).__name__}: {error})."
        ) from error


def _recipe(plain: Any, side: str) -> Recipe | Recipes:
    return (Recipes if "descriptions" in plain else Recipe).from_state(plain, side)


def _texts(plain: Any) -> dict[str, str]:
    if type(plain) is not dict or not {type(text) for text in plain.values()} <= {str}:
        raise TypeError("versions are names and texts")
    return plain


def _origin(plain: Any) -> dict[str, Any]:
    """Return what is known of the making of a model after checking what the commands use of it."""
    if type(plain) is not dict or any(not isinstance(plain.get(name), str | None) for name in ("scoring", "setting")):
        raise TypeError("an origin of wrong parts")
    return plain


def _is_network(model: Any) -> bool:
    return not model.grows and is_network(model)


def _sides(plain: Any, model: Any) -> tuple[str, str] | None:
    """Return what the sides are called after checking that nothing obeys it: a file may come from anywhere."""
    if plain is None:
        return None
    try:
        names = side_names(plain, network=_is_network(model))
    except ValueError as error:
        raise TypeError("names of sides that are none") from error
    return names.instance, names.task


def _from_python(model: Any) -> Loaded:
    """Tell what new data must look like from what the model itself keeps."""
    recipes: list[Recipe | Recipes] = []
    for descriptions, (_, names) in zip(model._descriptions, model._columns, strict=True):
        if "" in descriptions:
            recipes.append(_recipe_from_python(descriptions[""], names))
        else:
            recipes.append(
                Recipes({name: _recipe_from_python(each, each.columns) for name, each in descriptions.items()})
            )
    return Loaded(model, recipes[0], recipes[1] if len(recipes) > 1 else None)


def _recipe_from_python(spec: Any, names: Ids | None) -> Recipe:
    """Return the recipe of one table, from what a model says of its kernel."""
    return Recipe(
        "kernel" if spec.is_precomputed else "features",
        spec.kernel if isinstance(spec.kernel, str) else "own",
        dict(spec.params or {}),
        names=None if names is None or spec.is_precomputed else [id_text(name) for name in names.labels],
    )
