"""Models by the names that the command line gives them, and model files.

A file keeps with a model how its data were read, so that new data are read in the same way.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any

import dyadlearn
from dyadlearn._files.tables import writing
from dyadlearn._registry import MODELS
from dyadlearn._tables import Ids, id_text, text_ids
from dyadlearn.cli.dyads import Dyads, names_of
from dyadlearn.cli.entities import Entities, Files, Recipe, Recipes, new_side, recipes_from_state, recipes_state
from dyadlearn.cli.options import OfModel
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import ModelFileError
from dyadlearn.models.fitted import predicting
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters in a row, or names of other libraries with commas."""
    names = text.split(",") if "," in text or len(text) > 4 else list(text)
    return list(dict.fromkeys(map(as_setting, names)))


def one_setting(text: str | None) -> str:
    """Read an option that must name a single setting."""
    settings = settings_of(text or "")
    if len(settings) != 1:
        raise ValueError(f"--setting must name one setting here, found {text!r}.")
    return settings[0].value


def fit_model(name: str, data: Dyads, params: dict[str, Any], *, searches: bool = False, **groups: Any) -> Any:
    """Fit a model on data, with those of the parameters that it has.

    Parameters
    ----------
    name : str
        As --model has it.
    data : Dyads
    params : dict
    searches : bool, default=False
        Whether the model chooses its regularisation.
    **groups
        Groups of instances and of tasks, for searches and learned kernels.
    """
    for prefix, recipes in zip(("", "task_"), data.recipes, strict=True):
        specs = {name: recipe.of_model for name, recipe in (recipes or {}).items()}
        if name == "learned" and specs:
            each = {key: kernel if options is None else (kernel, options) for key, (kernel, options) in specs.items()}
            params = {**params, f"{prefix}kernel": each.get("", each)}
        elif specs:
            params = {**params, f"{prefix}kernel": specs[""][0], f"{prefix}kernel_params": specs[""][1]}
    kind = getattr(dyadlearn, str(MODELS[name].search if searches else MODELS[name].model))
    model = kind(**{key: value for key, value in params.items() if key in signature(kind).parameters})
    model.fit(data.instances, data.labels, tasks=data.tasks if "C" in MODELS[name].settings else None, **groups)
    if hasattr(model, "progress"):
        model.progress = None  # how it was shown is no part of the model
    return model


# Model files ---------------------------------------------------------------------------------------

# The entry of the header of a model file for what only the command line needs.
_KEY = "command_line"


@dataclass(frozen=True)
class Loaded:
    """A model with how it was made.

    Attributes
    ----------
    model : estimator
    recipes : (dict of str to Recipe, dict of str to Recipe or None)
        How the files of instances and tasks are read; None for tasks that the model knows nothing of.
    origin : dict
        The names of the files it was made from, and how it was chosen.
    versions : dict
        Of the libraries that wrote it.
    path : Path or None
        Where it was read.
    checksum : str or None
        Of the file as it was read.
    sides : (str, str) or None
        Names of an instance and of a task, if they were given.
    """

    model: Any
    recipes: tuple[Recipes, Recipes | None]
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None
    sides: tuple[str, str] | None = None

    def named(self, words: str | None) -> Loaded:
        """Return the model with other names of its sides; None keeps those of its file."""
        if words is None:
            return self
        names = names_of(words, network=_is_network(self.model))
        return replace(self, sides=(names.instance, names.task))

    @property
    def names(self) -> SideNames:
        """The names of the sides in tables and sentences."""
        return side_names(self.sides, network=_is_network(self.model))

    def role(self, word: str | None, option: str, roles: tuple[str, str], *more: str) -> str | None:
        """Return the one of the `roles` of the sides that an option names, by its own word or by that of the side.

        Other words that the option takes are `more`; None stays None.
        """
        names = self.names.both if roles[0] == "instances" else tuple(self.names)
        words = {names[1]: roles[1], names[0]: roles[0], **{role: role for role in (*roles, *more)}}
        if word is not None and word not in words:
            raise ValueError(f"{option} must be {', '.join((*more, names[0]))} or {names[1]}, found {word!r}.")
        return None if word is None else words[word]

    @property
    def own_ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks, as the model has them."""
        found = predicting(self.model)
        return found.instance_ids, found.task_ids

    @property
    def ids(self) -> tuple[Ids | None, Ids | None]:
        """The same as text, in which no two may be equal."""
        sides = zip(self.own_ids, ("instances", "tasks"), strict=True)
        instances, tasks = (None if ids is None else text_ids(ids, f"The {side} of the model") for ids, side in sides)
        return instances, tasks

    def own_id(self, side: int, text: str, where: str) -> Any:
        """Return the id or the position of an instance (side 0) or a task (side 1) that a text names."""
        ids, own = self.ids[side], self.own_ids[side]
        return int(text) if ids is None or own is None else own.labels[int(ids.positions([text], where)[0])]

    def new(self, given: list[str], side: int, option: str, terminal: Terminal, asked: Any = None) -> Entities:
        """Read the files of new instances (side 0) or tasks (side 1); `asked` is as in `new_side`."""
        recipes = self.recipes[side]
        if recipes is None:
            tasks = self.names.tasks
            raise ValueError(f"The model knows nothing of {tasks} and cannot predict for new ones: leave {option} out.")
        return new_side(Files.of(given, option), recipes, self.ids[side], terminal, asked)


def _is_network(model: Any) -> bool:
    return not model.grows and model.fitted_.is_network


def load(given: OfModel) -> Loaded:
    """Read the model file that a command names."""
    return load_model(given.source).named(given.sides)


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file, whole or not at all; the file it was read from is replaced only if nobody changed it."""
    instances, tasks = map(recipes_state, loaded.recipes)
    sides = None if loaded.sides is None else list(loaded.sides)
    about = {"instances": instances, "tasks": tasks, "origin": loaded.origin, "sides": sides}
    is_own = loaded.path is not None and os.path.realpath(loaded.path) == os.path.realpath(path)
    with writing(path):
        write_model(loaded.model, path, over=loaded.checksum if is_own else None, **{_KEY: about})


def load_model(path: Path) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python."""
    checksum = read_checksum(path)  # before the rest, so that a change in between is noticed
    model, header = read_model(path)
    if isinstance(model, dyadlearn.PairRegressor):
        model = model.model_
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path} holds a feature map, which predicts nothing.")
    try:
        about, versions = header.get(_KEY), header.get("versions", {})
        if type(versions) is not dict or not {type(text) for text in versions.values()} <= {str}:
            raise TypeError("versions are names and texts")
        loaded = Loaded(model, _python_recipes(model)) if about is None else _described(model, about)
        return replace(loaded, versions=versions, path=path, checksum=checksum)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its header does not say how its data were read ({type(error).__name__}: {error})"
        raise ModelFileError(f"{path} is damaged or was made by another version: {why}.") from error


def _described(model: Any, about: Any) -> Loaded:
    """Return a model with what the command line wrote about it, checked: a file may come from anywhere."""
    instances, tasks = (recipes_from_state(about[side], side) for side in ("instances", "tasks"))
    if instances is None:
        raise TypeError("no instances")
    origin, sides = about["origin"], about.get("sides")
    if type(origin) is not dict or any(not isinstance(origin.get(name), str | None) for name in ("scoring", "setting")):
        raise TypeError("an origin of wrong parts")
    names = side_names(sides, network=_is_network(model))  # no terminal obeys them
    return Loaded(model, (instances, tasks), origin, sides=None if sides is None else (names.instance, names.task))


def _python_recipes(model: Any) -> tuple[Recipes, Recipes | None]:
    """Return the recipes of a model that was saved in Python, from its kernels and the names of its columns."""
    sides = [
        {name: _recipe(*described) for name, described in descriptions.items()}
        for descriptions in predicting(model).descriptions
    ]
    return sides[0], sides[1] if len(sides) > 1 else None


def _recipe(spec: Any, names: Ids | None) -> Recipe:
    kernel = spec.kernel if isinstance(spec.kernel, str) else "own"
    labels = None if names is None or spec.is_precomputed else list(map(id_text, names.labels))
    return Recipe("kernel" if spec.is_precomputed else "features", kernel, dict(spec.params or {}), names=labels)
