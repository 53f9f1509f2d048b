"""The models of the command line: by the names it gives them, fitted, and in files.

A file keeps with a model how its data came to be, so that new data can be made alike.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
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
from dyadlearn._files.tables import writing
from dyadlearn._tables import Ids, Table, id_text, text_ids
from dyadlearn.cli.dyads import Dyads
from dyadlearn.cli.entities import Files, Recipe, Recipes, in_words, new_side, recipes_from_state, recipes_state
from dyadlearn.cli.options import MODELS, ModelArgument, Sides, check_has_tasks, given_options, sides_of
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import ModelFileError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.metrics import scorer
from dyadlearn.sides import SideNames, side_names
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum

# As they are fitted with a given regularisation and as they choose it, which an online model leaves to its equal.
_CLASSES: dict[str, tuple[Any, Any]] = {
    "two-step": (TwoStepRidge, TwoStepRidgeCV),
    "kronecker": (KroneckerRidge, KroneckerRidgeCV),
    "independent": (IndependentTaskRidge, IndependentTaskRidgeCV),
    "online": (OnlineTwoStepRidge, TwoStepRidgeCV),
}


# Options that not every model has. Those that have tasks have their groups.
_OWN_OPTIONS = ("task_alpha", "task_alphas", "task_kernel", "task_groups", "keep_labels", "device", "exhaustive")


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
    for option in _OWN_OPTIONS:
        parameter = "task_kernel" if option == "task_groups" else option
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
    """Raise for what an online model cannot take: sides that are not linear in features."""
    for side, entities in (("instances", data.instances), ("tasks", data.tasks)):
        if entities is not None and any(recipe.of_model[0] != "linear" for recipe in entities.recipes.values()):
            raise ValueError(f"An online model is linear in features, but its {side} are {in_words(entities.recipes)}.")


def searched(data: Dyads, name: str, *, groups: Any, task_groups: Any, **params: Any) -> Any:
    """Fit a model that chooses its regularisation; the parameters are those of the library's searches."""
    scorer(params["scoring"])
    model = _made(_CLASSES[name][1], data, params)
    model.fit(data.instances.table, data.labels, _tasks(data, name), groups=groups, task_groups=task_groups)
    model.progress = None  # how it was shown is no part of the model
    return model


def fitted(data: Dyads, name: str, alpha: float, task_alpha: float, intercept: bool, **more: Any) -> Any:
    """Fit a model with a given regularisation, and with those of the other parameters that it has."""
    params = {"alpha": alpha, "task_alpha": task_alpha, "fit_intercept": intercept, **more}
    return _made(_CLASSES[name][0], data, params).fit(data.instances.table, data.labels, tasks=_tasks(data, name))


def learned(data: Dyads, *, groups: Any, task_groups: Any, **params: Any) -> LearnedKernelRidge:
    """Fit a model that learns its kernels; the parameters are those of the library's."""
    for prefix, recipes in _recipes(data).items():
        specs = {name: recipe.of_model for name, recipe in recipes.items()}
        kernels = {name: kernel if options is None else (kernel, options) for name, (kernel, options) in specs.items()}
        params[f"{prefix}kernel"] = kernels.get("", kernels)
    model = LearnedKernelRidge(**params)
    model.fit(data.instances.table, data.labels, _tasks(data), groups=groups, task_groups=task_groups)
    model.progress = None
    return model


def _made(model: Any, data: Dyads, params: dict[str, Any]) -> Any:
    """Return a model of a class with the kernels of these data; parameters that it lacks were not asked for."""
    for prefix, recipes in _recipes(data).items():
        kernel, options = recipes[""].of_model
        params = {**params, f"{prefix}kernel": kernel, f"{prefix}kernel_params": options}
    own = model._get_param_names()
    return model(**{name: value for name, value in params.items() if name in own})


def _recipes(data: Dyads) -> dict[str, Recipes]:
    """Return the recipes of the sides by what the parameters of their kernels begin with."""
    sides = {"": data.instances, "task_": data.tasks}
    return {prefix: entities.recipes for prefix, entities in sides.items() if entities is not None}


def _tasks(data: Dyads, name: str = "") -> Any:
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
    instances : dict of str to Recipe
    tasks : dict of str to Recipe, or None
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
    """

    model: Any
    instances: Recipes
    tasks: Recipes | None
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None
    sides: tuple[str, str] | None = None

    def named(self, words: str | None = None) -> Loaded:
        """Return the model with other words for its sides; None leaves those of its file."""
        return self if words is None else replace(self, sides=_sides(sides_of(words), self.model))

    @property
    def names(self) -> SideNames:
        """What the sides are called in tables and sentences."""
        return side_names(self.sides, network=_is_network(self.model))

    def role(self, word: str | None, option: str, roles: tuple[str, str], *more: str) -> str | None:
        """Return which of the `roles` of the sides an option names, by its own word or by that of the side.

        Other words that the option takes are `more`; None stays None.
        """
        names = self.names.both if roles[0] == "instances" else tuple(self.names)
        words = {names[1]: roles[1], names[0]: roles[0], **{role: role for role in (*roles, *more)}}
        if word is not None and word not in words:
            raise ValueError(f"{option} must be {', '.join((*more, names[0]))} or {names[1]}, found {word!r}.")
        return None if word is None else words[word]

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
        sides = zip(self.own_ids, ("instances", "tasks"), strict=True)
        instances, tasks = (None if ids is None else text_ids(ids, f"The {side} of the model") for ids, side in sides)
        return instances, tasks

    def new(self, given: list[str], side: int, option: str, terminal: Terminal, **how: Any) -> Table | Descriptions:
        """Read the files of new instances (side 0) or tasks (side 1); the rest is as in `new_side`."""
        recipes = (self.instances, self.tasks)[side]
        if recipes is None:
            raise ValueError(
                f"The model knows nothing of {self.names.tasks} and cannot predict for new ones: leave {option} out."
            )
        return new_side(Files.of(given, option), recipes, self.ids[side], terminal, **how)


@dataclass(frozen=True)
class ModelFile:
    """A model file, and other words for its sides."""

    model: ModelArgument
    sides: Sides = None

    def load(self) -> Loaded:
        """Read the file."""
        return load_model(self.model).named(self.sides)


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file, whole or not at all; the file it was read from only if that is still what it was."""
    about = {
        "instances": recipes_state(loaded.instances),
        "tasks": recipes_state(loaded.tasks),
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
        found = _described(model, header.get(_KEY))
        return replace(found, versions=_texts(header.get("versions", {})), path=path, checksum=checksum)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} was made by another version of the command line, or is damaged: its header does not say how its "
            f"data came to be ({type(error).__name__}: {error})."
        ) from error


def _described(model: Any, about: Any) -> Loaded:
    """Return a model with what the command line has written about it or, where it has not, what the model keeps."""
    if about is None:
        recipes = [
            {name: _recipe(spec, names if name == "" else spec.columns) for name, spec in specs.items()}
            for specs, (_, names) in zip(model._descriptions, model._columns, strict=True)
        ]
        return Loaded(model, recipes[0], recipes[1] if len(recipes) > 1 else None)
    instances = recipes_from_state(about["instances"], "instances")
    if instances is None:
        raise TypeError("no instances")
    tasks, sides = recipes_from_state(about["tasks"], "tasks"), _sides(about.get("sides"), model)
    return Loaded(model, instances, tasks, _origin(about["origin"]), sides=sides)


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
    return not model.grows and model.fitted_.is_network


def _sides(plain: Any, model: Any) -> tuple[str, str] | None:
    """Return what the sides are called after checking that no terminal obeys it: a file may come from anywhere."""
    if plain is None:
        return None
    names = side_names(plain, network=_is_network(model))
    return names.instance, names.task


def _recipe(spec: Any, names: Ids | None) -> Recipe:
    """Return the recipe of one table, from what a model says of its kernel."""
    return Recipe(
        "kernel" if spec.is_precomputed else "features",
        spec.kernel if isinstance(spec.kernel, str) else "own",
        dict(spec.params or {}),
        names=None if names is None or spec.is_precomputed else [id_text(name) for name in names.labels],
    )
