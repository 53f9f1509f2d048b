"""Model files of the command line.

A model file stores how the data were read, so that new data are read in the same way.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dyadlearn
from dyadlearn._files.tables import writing
from dyadlearn._tables import Ids, Table, id_text, text_ids
from dyadlearn._text import one_line
from dyadlearn.cli import entities
from dyadlearn.cli.dyads import names_of
from dyadlearn.cli.entities import Recipe, Recipes
from dyadlearn.cli.one_table import structure_id
from dyadlearn.cli.options import OfModel, written_options
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import ModelFileError
from dyadlearn.models.fitted import predicting
from dyadlearn.settings import Setting, as_settings
from dyadlearn.sides import SideNames, side_names
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters without commas, such as AB, or names of other libraries, separated by commas."""
    return as_settings(text.split(",") if "," in text else text)


def one_setting(text: str | None) -> str:
    """Read an option that must name a single setting."""
    settings = settings_of(text or "")
    if len(settings) != 1:
        raise ValueError(f"--setting must name one setting here, found {text!r}.")
    return settings[0].value


# Key of the header entry of a model file that only the command line uses.
_KEY = "command_line"


@dataclass(frozen=True)
class Loaded:
    """A model with the content of its file.

    Attributes
    ----------
    model : estimator
    recipes : (dict of str to Recipe, dict of str to Recipe or None)
        How the files of instances and of tasks are read; None for tasks if the model uses no
        features of tasks.
    origin : dict
        Names of the training files, and the setting, scoring and score of the search.
    versions : dict
        Versions of the libraries that wrote the file.
    path : Path or None
        The model file.
    checksum : str or None
        Checksum of the file when it was read.
    sides : SideNames or None
        Names of an instance and of a task; None means "instance" and "task".
    """

    model: Any
    recipes: tuple[Recipes, Recipes | None]
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None
    sides: SideNames | None = None

    @property
    def has_cells(self) -> bool:
        """Whether labels belong to cells of any number of sides."""
        return isinstance(self.model, dyadlearn.MultiwayRidge)

    def named(self, words: str | None) -> Loaded:
        """Return the model with other names of its sides; None keeps the names in its file."""
        if words is None:
            return self
        return replace(self, sides=names_of(words, network=_is_network(self.model)))

    @property
    def names(self) -> SideNames:
        """The names of the sides in tables and sentences."""
        return side_names(self.sides, network=_is_network(self.model))

    def role(self, word: str | None, option: str, roles: tuple[str, str], *more: str) -> str | None:
        """Return the element of `roles` that the value of an option names, by that word or by the name of the side.

        `more` has other words that the option takes. None is returned as it is.
        """
        if word is None:
            return None
        names = self.names.both if roles[0] == "instances" else tuple(self.names)
        role_of = {names[1]: roles[1], names[0]: roles[0]}
        role_of |= {role: role for role in (*roles, *more)}
        if word not in role_of:
            listed = ", ".join((*more, names[0]))
            raise ValueError(f"{option} must be {listed} or {names[1]}, found {word!r}.")
        return role_of[word]

    @property
    def model_ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks in the model: texts or whole numbers."""
        fitted = predicting(self.model)
        return fitted.instance_ids, fitted.task_ids

    @property
    def ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks as text; an error is raised if two are equal as text."""
        texts: list[Ids | None] = []
        for ids, side in zip(self.model_ids, ("instances", "tasks"), strict=True):
            texts.append(None if ids is None else text_ids(ids, f"The {side} of the model"))
        return texts[0], texts[1]

    def known_as(self, axis: int, text: str) -> str:
        """Return the training id of a structure, however it is written, such as CCO for OCC; other texts unchanged."""
        ids = self.ids[axis]
        columns = self.origin.get("columns")
        if ids is None or text in ids.labels or not isinstance(columns, list):
            return text
        kinds = [pair[0] for pair in columns if isinstance(pair, list) and pair]
        if len(kinds) != 2 or kinds[axis] not in ("smiles", "sequences"):
            return text
        label = structure_id(kinds[axis], text)
        if label is None or label not in ids.labels:
            return text
        return label

    def model_id(self, axis: int, text: str, where: str) -> Any:
        """Return the id or the position in the model of an instance (axis 0) or a task (axis 1) that a text names."""
        ids = self.ids[axis]
        text = self.known_as(axis, text)
        model_ids = self.model_ids[axis]
        if ids is None or model_ids is None:
            return int(text)
        return model_ids.labels[int(ids.positions([text], where)[0])]

    def new(
        self, paths: list[str], axis: int, option: str, terminal: Terminal, asked: Any = None
    ) -> entities.Entities:
        """Read the files of new instances (axis 0) or tasks (axis 1); `asked` is as in `entities.new_side`."""
        recipes = self.recipes[axis]
        if recipes is None:
            tasks = self.names.tasks
            raise ValueError(
                f"The model knows nothing of {tasks} and cannot predict for new ones: leave "
                f"{option} out."
            )
        files = entities.Files.of(paths, option)
        side = entities.new_side(files, recipes, self.ids[axis], terminal, asked)
        if isinstance(side, Table):
            return self.with_names(side, axis)
        return side

    def with_names(self, table: Table, axis: int) -> Table:
        """Return new rows with the feature names that the model knows, which may be numbers; the file has the same."""
        if table.column_ids is None:
            return table
        _, names = predicting(self.model).descriptions[axis].get("", (None, None))
        return replace(table, column_ids=names)


def _is_network(model: Any) -> bool:
    if isinstance(model, dyadlearn.MultiwayRidge):
        return False
    return not model.grows and model.fitted_.is_network


def load(options: OfModel, *, cells: bool = False) -> Loaded:
    """Read the model file that a command names; `cells` is as in `load_model`."""
    loaded = load_model(options.source, cells=cells)
    if loaded.has_cells:
        refuse_pairs(options, "sides")
        return loaded
    return loaded.named(options.sides)


def refuse_pairs(options: OfModel, *names: str) -> None:
    """Raise if one of some options is given, which are for models of pairs."""
    for option in written_options(*names):
        raise ValueError(
            f"{option} is for pairs, but the labels of {options.source} belong to cells of other "
            f"sides: leave it out."
        )


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file atomically; the file that it was read from is replaced only if it did not change meanwhile."""
    instances, tasks = map(entities.recipes_state, loaded.recipes)
    sides = None if loaded.sides is None else list(loaded.sides)
    about = {"instances": instances, "tasks": tasks, "origin": loaded.origin, "sides": sides}
    is_same = loaded.path is not None and os.path.realpath(loaded.path) == os.path.realpath(path)
    over = loaded.checksum if is_same else None
    with writing(path):
        write_model(loaded.model, path, over=over, **{_KEY: about})


def load_model(path: Path, *, cells: bool = False) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python.

    A model of cells is refused unless `cells` is true.
    """
    checksum = read_checksum(path)  # before the rest, so that a change in between is noticed
    model, header = read_model(path)
    if isinstance(model, dyadlearn.PairRegressor):
        model = _with_ids(model)
    if isinstance(model, dyadlearn.MultiwayRidge) and not cells:
        raise ValueError(
            f"{path} holds a MultiwayRidge, whose labels belong to cells and not to pairs: only "
            f"evaluate, predict, inspect and report take it."
        )
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path} holds a feature map, not a model: it cannot predict.")
    try:
        versions = header.get("versions", {})
        if type(versions) is not dict or not all(type(text) is str for text in versions.values()):
            raise TypeError("versions are names and texts")
        about = header.get(_KEY)
        if about is None:
            loaded = Loaded(model, _python_recipes(model))
        else:
            loaded = _described(model, about)
        return replace(loaded, versions=versions, path=path, checksum=checksum)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        fault = f"{type(error).__name__}: {one_line(error)}"
        why = f"its header does not describe how its data were read ({fault})"
        raise ModelFileError(
            f"{path} is damaged or was written by another version: {why}."
        ) from error


def _with_ids(regressor: Any) -> Any:
    """Return the model of a regressor of pairs, with the ids of the pairs if its tables are arrays without ids."""
    model = regressor.model_
    fitted = model.fitted_
    ids = [Ids(known) for known in (regressor.instance_ids_, regressor.task_ids_)]
    form = replace(
        fitted.form,
        row_ids=fitted.form.row_ids or ids[0],
        column_ids=fitted.form.column_ids or ids[1],
    )
    model.fitted_ = fitted.with_tables(form, fitted.tables)
    return model


def _described(model: Any, about: Any) -> Loaded:
    """Return a model with the header entry of the command line, after checking it: a file may come from anywhere."""
    if isinstance(model, dyadlearn.MultiwayRidge):
        return Loaded(model, ({}, None), _origin_of(about))
    instances = entities.recipes_from_state(about["instances"], "instances")
    tasks = entities.recipes_from_state(about["tasks"], "tasks")
    if instances is None:
        raise TypeError("no instances")
    origin = _origin_of(about)
    sides = about.get("sides")
    # Raises if a name has control characters.
    names = None
    if sides is not None:
        names = side_names(sides, network=_is_network(model))
    return Loaded(model, (instances, tasks), origin, sides=names)


def _origin_of(about: Any) -> dict[str, Any]:
    """Return the entry about training files and the search, after checking it."""
    origin = about["origin"]
    if type(origin) is not dict:
        raise TypeError("wrong types in origin")
    for name in ("scoring", "setting"):
        if not isinstance(origin.get(name), str | None):
            raise TypeError("wrong types in origin")
    return origin


def _python_recipes(model: Any) -> tuple[Recipes, Recipes | None]:
    """Return the recipes of a model that was saved in Python, from its kernels and the names of its columns."""
    if isinstance(model, dyadlearn.MultiwayRidge):
        return {}, None
    sides: list[Recipes] = []
    for descriptions in predicting(model).descriptions:
        sides.append({name: _recipe(*description) for name, description in descriptions.items()})
    return sides[0], sides[1] if len(sides) > 1 else None


def _recipe(spec: Any, names: Ids | None) -> Recipe:
    kind = "kernel" if spec.is_precomputed else "features"
    kernel = spec.kernel if isinstance(spec.kernel, str) else "own"
    if names is None or spec.is_precomputed:
        labels = None
    else:
        labels = list(map(id_text, names.labels))
    return Recipe(kind, kernel, dict(spec.params or {}), names=labels)
