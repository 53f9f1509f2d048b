"""State of an object in a model file.

A class that can be stored derives from `Stored`, which has two methods: `state` returns the named
values of an object, and `from_state` creates the object from them, or raises if they do not fit
together. The state consists of **the arguments of the constructor**, which are the fields of a
dataclass. A new filter or kernel that is a dataclass of numbers and arrays needs no further code;
`_shapes` and `_fits` state which of its parts must fit together. An estimator derives from
`StoredEstimator`, which stores its parameters and its learned attributes: those that its class
declares with their types.

Only classes of this library that derive from `Stored` or `StoredEstimator` are created from a file.
Names in a file are never imported or called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, is_sparse
from dyadlearn.exceptions import ModelFileError

_classes: dict[str, type[Stored] | type[StoredEstimator]] = {}


def stored_class(name: str) -> type[Stored] | type[StoredEstimator] | None:
    """Return the class with this name in model files; None if there is none."""
    return _classes.get(name)


def name_in_file(value: Any) -> str | None:
    """Return the name of the class of an object in model files; None if it is not stored."""
    if isinstance(value, Stored | StoredEstimator):
        return value._file_name
    return None


def _registered(cls: Any, stored: bool) -> str | None:
    """Return the name of a class in a file, after registering it; None if it is not stored."""
    if not stored or not cls.__module__.startswith("dyadlearn."):
        return None
    name: str = cls.__name__.strip("_")
    _classes[name] = cls
    return name


def stored_estimators() -> list[str]:
    """Return the names of the estimators that a model file can hold."""
    return [name for name, cls in _classes.items() if issubclass(cls, StoredEstimator)]


class Stored:
    """Base class of objects in a model file.

    Base classes are declared with ``stored=False``. Classes that users derive are not stored,
    because a reader of the file would not have them.
    """

    #: Cached properties that are stored if they have been computed.
    _kept: ClassVar[tuple[str, ...]] = ()
    #: Shapes of arrays of floats, and lengths of ids, by attribute. A letter stands for the same
    #: length wherever it occurs, a word for an attribute with the length; "sparse" allows a sparse
    #: matrix too.
    _shapes: ClassVar[Mapping[str, str]] = {}
    #: Name of the class in a file; None if it is not stored.
    _file_name: ClassVar[str | None] = None

    def __init_subclass__(cls, stored: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._file_name = _registered(cls, stored)

    def state(self) -> dict[str, Any]:
        """Return the parts of the object: plain values, arrays and other objects that have a state."""
        values = vars(self)
        names = (*_arguments(type(self)), *self._kept)
        return {name.removeprefix("_"): values[name] for name in names if name in values}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the object that a state describes.

        Parameters
        ----------
        state : mapping of str to values
            As `state` returns it; the content of a file may be anything.
        where : str
            Name of the object in messages.

        Raises
        ------
        ModelFileError
            If a value is missing, unknown, of another type, or does not fit to the others.
        """
        arguments = _arguments(cls)
        kept = {name: _hints(getattr(cls, name).func)["return"] for name in cls._kept}
        values = _checked(state, arguments, kept, where)
        loaded = cls(**{name: values[name] for name in arguments})
        vars(loaded).update({name: values[name] for name in kept if name in values})
        if not _shapes_fit(loaded) or not loaded._fits():
            raise misfit(where)
        return loaded

    def _fits(self) -> bool:
        """Return whether the parts of a loaded object fit together, besides their types and `_shapes`."""
        return True


class StoredEstimator:
    """Base class of estimators in a model file: their parameters and learned attributes.

    Learned attributes are those that a class declares and that begin or end with an underscore.
    Base classes are declared with ``stored=False``, as for `Stored`.
    """

    #: Learned attributes that not every fitted estimator has; a file must hold all others.
    _not_always: ClassVar[tuple[str, ...]] = ("feature_names_in_",)
    #: Parameters that were added after the first release: older files lack them, and they have
    #: their defaults.
    _later: ClassVar[tuple[str, ...]] = ()
    #: Shapes of arrays, as in `Stored`.
    _shapes: ClassVar[Mapping[str, str]] = {}
    #: Name of the class in a file; None if it is not stored.
    _file_name: ClassVar[str | None] = None

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init_subclass__(cls, stored: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._file_name = _registered(cls, stored)

    def state(self) -> dict[str, Any]:
        """Return the parameters and the learned attributes."""
        learnt = {
            name.removeprefix("_"): vars(self)[name]
            for name in _learnt(type(self))
            if name in vars(self)
        }
        if learnt:
            self._check_params()
        return {"parameters": self.get_params(deep=False), **learnt}  # type: ignore[attr-defined]

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Self:
        """Return the estimator that a state describes; arguments and errors as in `Stored`."""
        learned = dict(state)
        parameters = learned.pop("parameters")
        known = _signature(cls).parameters.keys()
        unknown = parameters.keys() - known
        missing = known - parameters.keys() - set(cls._later)
        if unknown:
            raise ModelFileError(f"its {cls.__name__} has the unknown parameters {sorted(unknown)}")
        if missing:
            raise ModelFileError(f"its {cls.__name__} lacks the parameters {sorted(missing)}")
        model = cls(**parameters)
        if learned:
            vars(model).update(_checked(learned, _needed(cls), _learnt(cls), where))
            for part in learned.values():
                if isinstance(part, StoredEstimator):
                    check_is_fitted(part)
            model._check_params()
            if not _shapes_fit(model) or not model._fits():
                raise misfit(cls.__name__)
        return model

    def _check_params(self) -> None:
        """Raise, as `fit` does, if a parameter has a wrong value."""

    def _fits(self) -> bool:
        """Return whether the parts of a loaded estimator fit together, as in `Stored`."""
        return True

    def _snapshot(self) -> Self:
        """Return a shallow copy of the fitted estimator, which other threads do not change."""
        check_is_fitted(self)
        snapshot: Self = object.__new__(type(self))
        snapshot.__dict__ = dict(self.__dict__)
        return snapshot


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an error occurs inside; attributes are replaced, never changed."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def misfit(where: str) -> ModelFileError:
    """Return the error for parts that do not fit together."""
    return ModelFileError(f"the parts of its {where or 'model'} do not fit together")


def is_shaped(array: Any, *shape: int | None, sparse: bool = False) -> bool:
    """Return whether an array is None, or has floats and this shape, in which None stands for any length.

    It must be a numpy array or, with `sparse`, a sparse matrix.
    """
    return array is None or (
        (isinstance(array, np.ndarray) or (sparse and is_sparse(array)))
        and array.dtype.kind == "f"
        and array.ndim == len(shape)
        and all(wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True))
    )


def has_unit_columns(vectors: np.ndarray) -> bool:
    """Return whether all columns of a matrix have about length 1; NaN is no length."""
    return bool((np.abs(np.einsum("ij,ij->j", vectors, vectors) - 1) < 0.1).all())


# Declarations of a class ---------------------------------------------------------------------------

# Resolving the annotations takes longer than everything else that a small model in a file needs.
_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))
_signature: Callable[[Any], inspect.Signature] = cache(inspect.signature)


def _arguments(cls: type) -> dict[str, Any]:
    """Return the arguments of a constructor with their types."""
    hints = _hints(cls if is_dataclass(cls) else cls.__init__)  # type: ignore[misc]
    return {name: hints[name] for name in _signature(cls).parameters}


def _learnt(cls: type[StoredEstimator]) -> dict[str, Any]:
    """Return the attributes that estimators of a class have after fitting, with their types."""
    hints = _hints(cls)
    others = _signature(cls).parameters
    ours = [base for base in reversed(cls.__mro__) if base.__module__.startswith("dyadlearn.")]
    declared = dict.fromkeys(name for base in ours for name in inspect.get_annotations(base))
    return {
        name: hints[name]
        for name in declared
        if (name[0] == "_" or name[-1] == "_")
        and name not in others
        and hints[name] is not KW_ONLY
        and get_origin(hints[name]) is not ClassVar
        and not isinstance(getattr(cls, name, None), property)
    }


def _needed(cls: type[StoredEstimator]) -> dict[str, Any]:
    """Return the attributes that every fitted estimator of a class has, with their types."""
    return {name: hint for name, hint in _learnt(cls).items() if name not in cls._not_always}


# Checks of values that were read -------------------------------------------------------------------


def _checked(
    state: Mapping[str, Any], needed: Mapping[str, Any], optional: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return values by the names of their attributes, after checking that all are there and of the right types."""
    attributes = {name.removeprefix("_"): name for name in (*needed, *optional)}
    missing = {name.removeprefix("_") for name in needed} - state.keys()
    unknown = state.keys() - attributes.keys()
    if missing or unknown:
        faults = [f"lacks {sorted(missing)}"] * bool(missing) + [
            f"has the unknown {sorted(unknown)}"
        ] * bool(unknown)
        raise ModelFileError(f"its {where or 'model'} {' and '.join(faults)}")
    hints = {**needed, **optional}
    for name, value in state.items():
        if not _test_of(hints[attributes[name]])(value):
            raise ModelFileError(f"its {where}.{name} is of type {type(value).__name__}")
    return {attributes[name]: value for name, value in state.items()}


@cache
def _test_of(hint: Any) -> Callable[[Any], bool]:
    """Return the function that tells whether a value is of a declared type."""
    if hint in (Any, Hashable):  # values without a hash raise an error where they are looked up
        return lambda value: True
    if hint == Array:
        return lambda value: isinstance(value, np.ndarray) or is_sparse(value)
    if hint in (int, float):
        kinds = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return lambda value: isinstance(value, kinds) and not isinstance(value, bool)
    origin = get_origin(hint)
    parts = get_args(hint)
    if origin in (Union, UnionType):
        tests = [_test_of(part) for part in parts]
        return lambda value: any(test(value) for test in tests)
    if origin in (tuple, list):
        return partial(_is_sequence, origin, parts)
    return lambda value: isinstance(value, origin or hint)


def _is_sequence(kind: Any, parts: tuple[Any, ...], value: Any) -> bool:
    """Return whether a value is a tuple or list with items of declared types."""
    if not isinstance(value, kind):
        return False
    if kind is tuple and parts[-1] is not Ellipsis:
        wanted = parts
    else:
        wanted = parts[:1] * len(value)
    return len(value) == len(wanted) and all(
        _test_of(hint)(item) for item, hint in zip(value, wanted, strict=True)
    )


def _shapes_fit(loaded: Stored | StoredEstimator) -> bool:
    """Return whether arrays and ids have the shapes that the class declares; None always fits."""
    lengths: dict[str, int] = {}
    for name, words in loaded._shapes.items():
        value = _part(loaded, name)
        if value is None:
            continue
        shape = words.removeprefix("sparse ").split()
        is_array = hasattr(value, "shape")
        shape_of_value = tuple(value.shape) if is_array else (len(value),)
        for word, length in zip(shape, shape_of_value, strict=False):
            lengths.setdefault(word, length if len(word) == 1 else _part(loaded, word))
        wanted = tuple(lengths.get(word) for word in shape)
        if shape_of_value != wanted or (
            is_array and not is_shaped(value, *wanted, sparse=words.startswith("sparse "))
        ):
            return False
    return True


def _part(loaded: Stored | StoredEstimator, path: str) -> Any:
    """Return an attribute by its path, such as "side.ids"; None if it does not exist or is not computed yet."""
    part: Any = loaded
    for name in path.split("."):
        is_missing = part is None or (name in getattr(part, "_kept", ()) and name not in vars(part))
        part = None if is_missing else getattr(part, name)
    return part
