"""Model files of the command line: the model, and how its data came to be, so that new data can be made alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import OnlineTwoStepRidge
from dyadlearn._frames import Ids
from dyadlearn.cli.files import writing
from dyadlearn.cli.sides import Recipe
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store.files import read_model, write_model

__all__ = ["Loaded", "ModelArgument", "load_model", "save_model"]

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]

# Where the header of a model file has what only the command line needs.
_KEY = "command_line"


@dataclass(frozen=True)
class Loaded:
    """A model with what is known of its making.

    Attributes
    ----------
    model : estimator
    instances : Recipe
    tasks : Recipe or None
    origin : dict
        The names of the files it was made from, and how it was chosen.
    versions : dict
        Of the libraries that wrote it.
    path : Path or None
    """

    model: Any
    instances: Recipe
    tasks: Recipe | None
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None

    @property
    def ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks that the model knows, as text."""
        if isinstance(self.model, OnlineTwoStepRidge):
            return None, _as_text(self.model._learnt.task_ids)
        grid = self.model._grid
        return _as_text(grid.instance_ids), _as_text(grid.task_ids)


def _as_text(ids: Ids | None) -> Ids | None:
    return None if ids is None else Ids(tuple(map(str, ids.labels)), ids.name)


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file, whole or not at all."""
    about = {
        "instances": loaded.instances.to_json(),
        "tasks": None if loaded.tasks is None else loaded.tasks.to_json(),
        "origin": loaded.origin,
    }
    with writing(path):
        write_model(loaded.model, path, **{_KEY: about})


def load_model(path: Path) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python."""
    model, header = read_model(path)
    if not hasattr(model, "_grid") and not isinstance(model, OnlineTwoStepRidge):
        model = getattr(model, "model_", None)
        if model is None:
            raise ModelFileError(f"{path} holds a feature map, which predicts nothing.")
    about = header.get(_KEY)
    versions = dict(header.get("versions", {}))
    if about is None:
        return replace(_from_python(model), versions=versions, path=path)
    try:
        instances = Recipe(**about["instances"])
        tasks = None if about["tasks"] is None else Recipe(**about["tasks"])
        return Loaded(model, instances, tasks, dict(about["origin"]), versions, path)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{path} was made by another version of the command line ({error}).") from error


def _from_python(model: Any) -> Loaded:
    """Tell what new data must look like from what the model itself keeps."""
    if isinstance(model, OnlineTwoStepRidge):
        tasks = None if model._learnt.model.task_side is None else Recipe("features", "linear")
        return Loaded(model, Recipe("features", "linear"), tasks)
    recipes = [
        None
        if side is None
        else Recipe(
            "kernel" if side.spec.is_precomputed else "features",
            side.spec.kernel if isinstance(side.spec.kernel, str) else "own",
            dict(side.spec.params or {}),
            names=None if side.names is None or side.spec.is_precomputed else [str(n) for n in side.names.labels],
        )
        for side in (model._side, model._task_side)
    ]
    assert recipes[0] is not None
    return Loaded(model, recipes[0], recipes[1])
