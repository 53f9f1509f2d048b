"""Model files of the command line: the model, and how its data came to be, so that new data can be made alike."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dyadlearn._files.tables import id_text, text_ids
from dyadlearn._files.writing import writing
from dyadlearn._tables import Ids
from dyadlearn.cli.entities import Recipe
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum

__all__ = ["Loaded", "load_model", "save_model"]


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
        Where it was read.
    checksum : str or None
        Of the file as it was read.
    """

    model: Any
    instances: Recipe
    tasks: Recipe | None
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None

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


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file, whole or not at all; the file it was read from only if that is still what it was."""
    about = {
        "instances": loaded.instances.state(),
        "tasks": None if loaded.tasks is None else loaded.tasks.state(),
        "origin": loaded.origin,
    }
    is_own = loaded.path is not None and os.path.realpath(loaded.path) == os.path.realpath(path)
    with writing(path):
        write_model(loaded.model, path, over=loaded.checksum if is_own else None, **{_KEY: about})


def load_model(path: Path) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python."""
    checksum = read_checksum(path)  # before the rest, so that a change in between is one
    model, header = read_model(path)
    model = getattr(model, "model_", model)
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path} holds a feature map, which predicts nothing.")
    try:
        versions, about = _texts(header.get("versions", {})), header.get(_KEY)
        if about is None:
            return replace(_from_python(model), versions=versions, path=path, checksum=checksum)
        instances = Recipe.from_state(about["instances"], "instances")
        tasks = None if about["tasks"] is None else Recipe.from_state(about["tasks"], "tasks")
        return Loaded(model, instances, tasks, _origin(about["origin"]), versions, path, checksum)
    except (AttributeError, LookupError, TypeError, ModelFileError) as error:
        raise ModelFileError(
            f"{path} was made by another version of the command line, or is damaged: its header does not say how its "
            f"data came to be ({type(error).__name__}: {error})."
        ) from error


def _texts(plain: Any) -> dict[str, str]:
    if type(plain) is not dict or not {type(text) for text in plain.values()} <= {str}:
        raise TypeError("versions are names and texts")
    return plain


def _origin(plain: Any) -> dict[str, Any]:
    """Return what is known of the making of a model after checking what the commands use of it."""
    if type(plain) is not dict or any(not isinstance(plain.get(name), str | None) for name in ("scoring", "setting")):
        raise TypeError("an origin of wrong parts")
    return plain


def _from_python(model: Any) -> Loaded:
    """Tell what new data must look like from what the model itself keeps."""
    recipes = [
        Recipe(
            "kernel" if spec.is_precomputed else "features",
            spec.kernel if isinstance(spec.kernel, str) else "own",
            dict(spec.params or {}),
            names=None if names is None or spec.is_precomputed else [id_text(name) for name in names.labels],
        )
        for spec, names in model._columns
    ]
    return Loaded(model, recipes[0], recipes[1] if len(recipes) > 1 else None)
