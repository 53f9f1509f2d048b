"""What a model file holds of an object, and the object again out of it.

An object that can be stored derives from `Stored` and thereby has two verbs: `state` takes it apart into named values,
`from_state` puts it together again and refuses what does not fit. Its state is **what it was made from**: the arguments
of its constructor, which for a dataclass are its fields. So a new filter or kernel that is a dataclass of numbers and
arrays has nothing to add; one whose parts must fit together says so in `_shapes` and `_fits`. An estimator has, beside
its parameters, what it has learnt: the attributes that its class declares with their types.

A file can make objects of these classes and of no others: those of this library that derive from `Stored`. Nothing is
ever imported or called by a name that stands in a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, is_sparse
from dyadlearn.exceptions import ModelFileError

_classes: dict[str, type[Stored]] = {}


def stored_class(name: str) -> type[Stored] | None:
    """Return the class that has this name in model files; None where there is none."""
    return _classes.get(name)


def name_in_file(value: Any) -> str | None:
    """Return what the class of an object is called in model files; None if it is not stored."""
    return value._file_name if isinstance(value, Stored) else None


def stored_estimators() -> list[str]:
    """Return the names of the estimators that a model file can hold."""
    return [name for name, cls in _classes.items() if issubclass(cls, StoredEstimator)]


class Stored:
    """Base of whatever a model file can hold.

    A class that is a base only is declared with ``stored=False``. Classes that users derive are not stored: whoever
    reads the file would not have them.
    """

    #: Cached properties that are stored where they have been computed.
    _kept: ClassVar[tuple[str, ...]] = ()
    #: Shapes of arrays of floats, and lengths of ids, by the attributes that have them. A letter stands for the same
    #: length wherever it occurs, a word for the attribute that tells it; "sparse" allows a sparse matrix too.
    _shapes: ClassVar[Mapping[str, str]] = {}
    #: What the class is called in a file; None if it is not stored.
    _file_name: ClassVar[str | None] = None

    def __init_subclass__(cls, stored: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        is_ours = cls.__module__.startswith("dyadlearn.")
        cls._file_name = cls.__name__.strip("_") if stored and is_ours else None
        if cls._file_name is not None:
            _classes[cls._file_name] = cls

    def state(self) -> dict[str, Any]:
        """Return what the object is made of: plain values, arrays and other objects that have a state."""
        own = vars(self)
        return {_plain(name): own[name] for name in (*_arguments(type(self)), *self._kept) if name in own}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the object that a state describes.

        Parameters
        ----------
        state : mapping of str to values
            As `state` returns it, or what somebody else wrote into a file.
        where : str
            How messages call it.

        Raises
        ------
        ModelFileError
            If something is missing, unknown, of another type, or does not fit to the rest.
        """
        made_from, kept = _arguments(cls), {name: _returned(cls, name) for name in cls._kept}
        found = _checked(state, made_from, kept, where)
        made = cls(**{name: found[name] for name in made_from})
        vars(made).update({name: found[name] for name in kept if name in found})
        if not _shapes_fit(made) or not made._fits():
            raise misfit(where)
        return made

    def _fits(self) -> bool:
        """Return whether the parts of an object that was read fit together, beyond their types and `_shapes`."""
        return True


class StoredEstimator(Stored, stored=False):
    """Base of estimators that a model file can hold: their parameters, and what they have learnt.

    What is learnt are the attributes that a class declares and that begin or end with an underscore.
    """

    #: Attributes that are declared but not stored, being made of the others.
    _made_again: ClassVar[tuple[str, ...]] = ()

    n_features_in_: int
    feature_names_in_: np.ndarray

    def state(self) -> dict[str, Any]:
        """Return the parameters under their name, and what was learnt."""
        learnt = {_plain(name): vars(self)[name] for name in _learnt(type(self)) if name in vars(self)}
        if learnt:
            self._check_params()
        return {"parameters": self.get_params(deep=False), **learnt}  # type: ignore[attr-defined]

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the estimator that a state describes; arguments and errors as in `Stored`."""
        parameters = state["parameters"]
        unknown = parameters.keys() - inspect.signature(cls).parameters.keys()
        if unknown:
            raise ModelFileError(f"its {cls.__name__} has the unknown parameters {sorted(unknown)}")
        model = cls(**parameters)
        rest = {name: value for name, value in state.items() if name != "parameters"}
        if rest:
            vars(model).update(_checked(rest, {}, _learnt(cls), where))
            model._check_params()
            if not _shapes_fit(model) or not model._fits():
                raise misfit(cls.__name__)
        return model

    def _check_params(self) -> None:
        """Raise as `fit` does for a parameter that was set to something wrong after it."""

    def _snapshot(self) -> Self:
        """Return the fitted estimator as it is now, which stays so whatever other threads do to this one."""
        check_is_fitted(self)
        found: Self = object.__new__(type(self))
        found.__dict__ = dict(self.__dict__)
        return found


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Whatever goes wrong within, the estimator is what it was: its attributes are swapped, never changed."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def misfit(where: str) -> ModelFileError:
    """Return the error for what was read and does not fit together."""
    return ModelFileError(f"the parts of its {where or 'model'} do not fit together")


def is_shaped(array: Any, *shape: int | None, sparse: bool = False) -> bool:
    """Return whether an array is None or of floats in this shape, in which None stands for any length.

    It has to be one of numpy or, with `sparse`, may be a sparse matrix too.
    """
    return array is None or (
        (isinstance(array, np.ndarray) or (sparse and is_sparse(array)))
        and array.dtype.kind == "f"
        and array.ndim == len(shape)
        and all(wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True))
    )


def has_unit_columns(vectors: np.ndarray) -> bool:
    """Return whether all columns of a matrix have about length 1; NaN is no length."""
    return bool((np.abs(np.einsum("ij,ij->j", vectors, vectors) - 1) < 0.1).all())


# What a class says of itself ---------------------------------------------------------------------


def _plain(name: str) -> str:
    return name.removeprefix("_")


def _arguments(cls: type) -> dict[str, Any]:
    """Return the arguments of a constructor with their types."""
    hints = get_type_hints(cls if is_dataclass(cls) else cls.__init__, include_extras=True)  # type: ignore[misc]
    return {name: hints[name] for name in inspect.signature(cls).parameters}


def _returned(cls: type, name: str) -> Any:
    """Return the type of a cached property."""
    return get_type_hints(getattr(cls, name).func, include_extras=True)["return"]


def _learnt(cls: type[StoredEstimator]) -> dict[str, Any]:
    """Return the attributes that estimators of a class have after fitting, with their types."""
    hints, others = get_type_hints(cls, include_extras=True), {*inspect.signature(cls).parameters, *cls._made_again}
    ours = [base for base in reversed(cls.__mro__) if base.__module__.startswith("dyadlearn.")]
    declared = dict.fromkeys(name for base in ours for name in inspect.get_annotations(base))
    return {
        name: hints[name]
        for name in declared
        if (name[0] == "_" or name[-1] == "_") and name not in others and get_origin(hints[name]) is not ClassVar
    }


# Whether what was read is so ---------------------------------------------------------------------


def _checked(
    state: Mapping[str, Any], needed: Mapping[str, Any], optional: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return values by the names of their attributes, after checking that all are there and of the right types."""
    attributes = {_plain(name): name for name in (*needed, *optional)}
    missing, unknown = {_plain(name) for name in needed} - state.keys(), state.keys() - attributes.keys()
    if missing or unknown:
        raise ModelFileError(f"its {where or 'model'} lacks {sorted(missing)} and has the unknown {sorted(unknown)}")
    hints = {**needed, **optional}
    for name, value in state.items():
        if not _is_of(value, hints[attributes[name]]):
            raise ModelFileError(f"its {where}.{name} is of type {type(value).__name__}")
    return {attributes[name]: value for name, value in state.items()}


def _is_of(value: Any, hint: Any) -> bool:
    """Return whether a value is of a declared type."""
    if hint in (Any, Hashable):  # what has no hash is refused where it is looked up
        return True
    if hint == Array:
        return isinstance(value, np.ndarray) or is_sparse(value)
    if hint in (int, float):
        kinds = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if origin in (tuple, list):
        if not isinstance(value, origin):
            return False
        wanted = parts if origin is tuple and parts[-1] is not Ellipsis else parts[:1] * len(value)
        return len(value) == len(wanted) and all(map(_is_of, value, wanted))
    return isinstance(value, origin or hint)


def _shapes_fit(made: Stored) -> bool:
    """Return whether arrays and ids have the shapes that the class says; what there is none of fits."""
    lengths: dict[str, int] = {}
    for name, words in made._shapes.items():
        value = _part(made, name)
        if value is None:
            continue
        shape, is_array = words.removeprefix("sparse ").split(), hasattr(value, "shape")
        found = tuple(value.shape) if is_array else (len(value),)
        for word, length in zip(shape, found, strict=False):
            lengths.setdefault(word, length if len(word) == 1 else _part(made, word))
        wanted = tuple(lengths.get(word) for word in shape)
        if found != wanted or (is_array and not is_shaped(value, *wanted, sparse=words.startswith("sparse "))):
            return False
    return True


def _part(made: Stored, path: str) -> Any:
    """Return an attribute, or one of an attribute; None where there is none, or none yet."""
    part: Any = made
    for name in path.split("."):
        is_open = part is None or (name in getattr(part, "_kept", ()) and name not in vars(part))
        part = None if is_open else getattr(part, name)
    return part
