"""The parts of models, field by field: what is written of each, and how its fields must fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from types import NoneType
from typing import Any

import numpy as np

from dyadlearn._array import is_sparse
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import ModelFileError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.growing.inverse import Cholesky, Eigen, Explicit, RidgeInverse
from dyadlearn.growing.knowledge import Knowledge, Pending, Reservoir
from dyadlearn.growing.statistics import Statistics
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.holes.complete import Completion
from dyadlearn.holes.conjugate_gradients import Solution
from dyadlearn.kernels import Product, Sum
from dyadlearn.models._side import KernelSpec, Side
from dyadlearn.models.projection import _Plan, _Seen
from dyadlearn.spectrum import Spectrum
from dyadlearn.store.container import check_room
from dyadlearn.store.values import Codec, Reader, Writer

__all__ = ["NUMBER", "RECORDS", "Fields", "checked_fields", "is_shaped"]

#: The classes that a field may be of.
Fields = Mapping[str, tuple[Any, ...]]

NUMBER = (int, float, np.integer, np.floating)
_ARRAY = (np.ndarray,)
_KINDS = ("pandas", "polars", "pyarrow", "modin", "cudf")


class _Matrix:
    """Stands for arrays and sparse matrices in a list of fields."""


_ROWS = (_Matrix,)
_NONE = (NoneType,)


@dataclass(frozen=True)
class Record:
    """A frozen dataclass as a file holds it.

    Attributes
    ----------
    cls : type
    fields : mapping of str to classes
        All its fields, in their order, without the underscores of their names.
    fits : callable
        Tells whether the fields of an object fit together.
    stored : mapping of str to classes
        What the object computes on first use and keeps, stored if it was computed.
    recomputed : str or None
        The same for what is cheaper to compute again than to store.
    room : callable
        Gives the bytes that this takes.
    tag : str or None
        What files call the class, where that is not its name.
    names : mapping of str to str
        The attributes of fields that files call otherwise.
    """

    cls: type
    fields: Fields
    fits: Callable[[Any], bool] = lambda record: True
    stored: Fields | None = None
    recomputed: str | None = None
    room: Callable[[Any], int] = lambda record: 0
    tag: str | None = None
    names: Mapping[str, str] | None = None

    def codec(self) -> Codec:
        """Return how such records are written and read."""
        return Codec(self.tag or self.cls.__name__.strip("_"), self._write, self._read, shared=True)

    def _write(self, writer: Writer, value: Any, path: str) -> dict[str, Any]:
        own = value.__dict__
        values = {name: own[attribute] for name, attribute in self._attributes().items()}
        values |= {name: own[name] for name in self.stored or {} if name in own}
        if self.recomputed in own:
            values["recomputed"] = True
        return writer.fields(values, path)

    def _read(self, reader: Reader, plain: Any, path: str) -> Any:
        optional = {**(self.stored or {}), **({"recomputed": (bool,)} if self.recomputed else {})}
        found = checked_fields(reader.fields(plain, path), self.fields, optional, path)
        record = self.cls(**{attribute: found[name] for name, attribute in self._attributes().items()})
        record.__dict__.update({name: found[name] for name in self.stored or {} if name in found})
        if not self.fits(record):
            raise ModelFileError(f"the shapes in its {path or 'model'} do not fit together")
        if self.recomputed and found.get("recomputed"):
            check_room(self.room(record), f"Computing {path}.{self.recomputed}")
            getattr(record, self.recomputed)
        return record

    def _attributes(self) -> dict[str, str]:
        """Return what each field is called in the class."""
        known = {field.name for field in dataclass_fields(self.cls)}
        named = self.names or {}
        return {name: named.get(name, name if name in known else f"_{name}") for name in self.fields}


def checked_fields(found: Mapping[str, Any], fields: Fields, optional: Fields, path: str) -> Mapping[str, Any]:
    """Return named values after checking that all are there, none is unknown and each is of its class."""
    missing, unknown = fields.keys() - found.keys(), found.keys() - fields.keys() - optional.keys()
    if missing or unknown:
        raise ModelFileError(f"its {path or 'model'} lacks {sorted(missing)} and has the unknown {sorted(unknown)}")
    for name, value in found.items():
        classes = fields.get(name) or optional[name]
        right = isinstance(value, tuple(c for c in classes if c is not _Matrix))
        if not right and not (_Matrix in classes and (isinstance(value, np.ndarray) or is_sparse(value))):
            raise ModelFileError(f"its {path}.{name} is of type {type(value).__name__}")
    return found


def is_shaped(array: Any, *shape: int | None) -> bool:
    """Tell whether an array is None or of floats in this shape, in which None stands for any length."""
    return array is None or (
        array.dtype.kind == "f"
        and array.ndim == len(shape)
        and all(wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True))
    )


def _has(ids: Ids | None, count: int) -> bool:
    return ids is None or len(ids) == count


def _ids_fit(ids: Ids) -> bool:
    return len(set(ids.labels)) == len(ids.labels)


def _spectrum_fits(spectrum: Spectrum) -> bool:
    k = spectrum.values.size
    own, made, features = spectrum.components, spectrum._vectors, spectrum._features
    return (
        is_shaped(spectrum.values, k)
        and is_shaped(own, None, k)
        and is_shaped(made, spectrum.n_rows, k)
        and (made is None) != (features is None)
        and (features is None or (own is not None and is_shaped(features, spectrum.n_rows, own.shape[0])))
        # What is made of them, (n, k), must not be larger than what they are made of.
        and k <= spectrum.n_rows
        and (own is None or k <= own.shape[0])
        and (features is None or not is_sparse(features) or features.format == "csr")
    )


def _side_fits(side: Side) -> bool:
    n, d, own = side.spectrum.n_rows, side.n_columns, side.spectrum.components
    if side.spec.is_precomputed:
        matches = n == d and own is None and side.features is None
    elif own is not None:
        matches = own.shape[0] == d and side.features is None
    else:
        matches = side.features is not None and is_shaped(side.features, n, d)
    return matches and _has(side.ids, n) and _has(side.names, d)


def _grid_fits(grid: Table) -> bool:
    if not is_shaped(grid.values, None, None) or grid.kind not in (None, *_KINDS):
        return False
    m, q = grid.values.shape
    return _has(grid.row_ids, m) and _has(grid.column_ids, q) and (q == 1 or not grid.is_vector)


def _statistics_fit(seen: Statistics) -> bool:
    d, q = seen.gram.shape[0], seen.n_tasks
    r = q if seen.tasks is None else seen.tasks.shape[1]
    return (
        is_shaped(seen.gram, d, d)
        and is_shaped(seen.cross, d, q if seen.per_task else r)
        and is_shaped(seen.tasks, q, r)
        and is_shaped(seen.task_gram, r, r)
        and (seen.tasks is None) == (seen.task_gram is None)
        and (seen.per_task or seen.tasks is not None)
    )


def _inverse_fits(inverse: RidgeInverse) -> bool:
    d = inverse.gram.shape[0]
    forms = [inverse.form, inverse.__dict__.get("settled"), inverse.__dict__.get("eigen")]
    widths = {Eigen: "vectors", Cholesky: "lower", Explicit: "matrix"}
    p = None if inverse.rows is None else inverse.rows.shape[0]
    return (
        is_shaped(inverse.gram, d, d)
        and all(getattr(form, widths[type(form)]).shape[0] == d for form in forms if form is not None)
        and is_shaped(inverse.rows, p, d)
        and is_shaped(inverse.signs, p)
        and (inverse.rows is None) == (inverse.signs is None)
    )


def _online_fits(model: OnlineRidge) -> bool:
    known, tasks = model.statistics, model.task_inverse
    d, r = known.gram.shape[0], known.n_tasks if known.tasks is None else known.tasks.shape[1]
    return (
        model.inverse.gram.shape[0] == d
        and (tasks is None) == (known.tasks is None)
        and (tasks is None or tasks.gram.shape[0] == r)
        and is_shaped(model.__dict__.get("coefficients"), d, r)
    )


def _pending_fits(pending: Pending) -> bool:
    count, places = pending.statistics.n_tasks, pending.positions
    return _has(pending.ids, count) and (places is None or (places.shape == (count,) and places.dtype.kind == "i"))


def _reservoir_fits(sample: Reservoir) -> bool:
    return (sample.rows is None) == (sample.labels is None) and (
        sample.rows is None or (is_shaped(sample.rows, None, None) and is_shaped(sample.labels, len(sample), None))
    )


def _knowledge_fits(learnt: Knowledge) -> bool:
    known = learnt.model.statistics
    instances = learnt.instances
    return (
        _has(learnt.task_ids, known.n_tasks)
        and _has(learnt.task_names, learnt.n_task_features)
        and (instances is None or all(is_shaped(batch, None, None) for batch in instances))
        and (instances is None or sum(batch.shape[0] for batch in instances) == known.n_rows)
    )


def _seen_fits(seen: _Seen) -> bool:
    p, q = seen.x_sum.size, seen.y_sum.size
    V, values = seen.__dict__.get("directions", (None, None))
    return (
        is_shaped(seen.x_sum, p)
        and is_shaped(seen.y_sum, q)
        and is_shaped(seen.y_squares, q)
        and len(seen.parts) > 0
        and all(is_sparse(part) and part.shape == (p, q) for part in seen.parts)
        and is_shaped(V, p, None)
        and is_shaped(values, None if V is None else V.shape[1])
    )


_FORMS = (Eigen, Cholesky, Explicit)

#: In the order in which they build on each other.
RECORDS = (
    Record(Ids, {"labels": (tuple,), "name": (str, NoneType)}, _ids_fit),
    Record(Tikhonov, {}),
    Record(SpectralCutoff, {}),
    Record(IteratedTikhonov, {"n_iter": NUMBER}),
    Record(Landweber, {"n_iter": NUMBER + _NONE}),
    Record(Sum, {"kernels": (tuple,), "weights": (tuple, NoneType)}),
    Record(Product, {"kernels": (tuple,), "weights": (tuple, NoneType)}),
    Record(KernelSpec, {"kernel": (str, Sum, Product), "params": (dict, NoneType), "repair": (str,)}),
    Record(
        Spectrum,
        {
            "values": _ARRAY,
            "n_rows": (int,),
            "components": _ARRAY + _NONE,
            "vectors": _ARRAY + _NONE,
            "features": _ROWS + _NONE,
        },
        _spectrum_fits,
        recomputed="vectors",
        room=lambda spectrum: spectrum.n_rows * spectrum.values.nbytes,
    ),
    Record(
        Side,
        {
            "spec": (KernelSpec,),
            "spectrum": (Spectrum,),
            "ids": (Ids, NoneType),
            "names": (Ids, NoneType),
            "features": _ROWS + _NONE,
            "n_columns": (int,),
        },
        _side_fits,
    ),
    Record(
        Table,
        {
            "values": _ARRAY,
            "instance_ids": (Ids, NoneType),
            "task_ids": (Ids, NoneType),
            "kind": (str, NoneType),
            "is_vector": (bool,),
        },
        _grid_fits,
        tag="LabelGrid",
        names={"instance_ids": "row_ids", "task_ids": "column_ids"},
    ),
    Record(
        Solution,
        {"values": _ARRAY, "n_iter": (int,), "residual": NUMBER, "converged": (bool,)},
        lambda found: is_shaped(found.values, None, None),
    ),
    Record(
        Completion,
        {"labels": _ARRAY, "form": (str,), "solution": (Solution,)},
        lambda found: is_shaped(found.labels, *found.solution.values.shape),
    ),
    Record(
        Statistics,
        {
            "n_rows": (int,),
            "gram": _ARRAY,
            "cross": _ARRAY,
            "tasks": _ARRAY + _NONE,
            "task_gram": _ARRAY + _NONE,
            "per_task": (bool,),
        },
        _statistics_fit,
    ),
    Record(Eigen, {"values": _ARRAY, "vectors": _ARRAY}, lambda own: is_shaped(own.vectors, None, own.values.size)),
    Record(Cholesky, {"lower": _ARRAY}, lambda own: is_shaped(own.lower, *own.lower.T.shape)),
    Record(
        Explicit,
        {"matrix": _ARRAY, "fresh_drift": NUMBER, "drift": NUMBER, "n_refreshes": (int,)},
        lambda own: is_shaped(own.matrix, *own.matrix.T.shape),
    ),
    Record(
        RidgeInverse,
        {
            "gram": _ARRAY,
            "n_rows": (int,),
            "alpha": NUMBER,
            "solver": (str,),
            "form": _FORMS + _NONE,
            "rows": _ARRAY + _NONE,
            "signs": _ARRAY + _NONE,
            "n_new": (int,),
        },
        _inverse_fits,
        stored={"settled": _FORMS, "eigen": (Eigen,)},
    ),
    Record(
        OnlineRidge,
        {"statistics": (Statistics,), "inverse": (RidgeInverse,), "task_inverse": (RidgeInverse, NoneType)},
        _online_fits,
        stored={"coefficients": _ARRAY},
    ),
    Record(
        Pending,
        {"statistics": (Statistics,), "ids": (Ids, NoneType), "positions": _ARRAY + _NONE},
        _pending_fits,
    ),
    Record(
        Reservoir,
        {"size": (int,), "seed": (int,), "n_offered": (int,), "rows": _ROWS + _NONE, "labels": _ROWS + _NONE},
        _reservoir_fits,
    ),
    Record(
        Knowledge,
        {
            "model": (OnlineRidge,),
            "dtype": (type,),
            "is_vector": (bool,),
            "task_ids": (Ids, NoneType),
            "task_names": (Ids, NoneType),
            "n_task_features": (int,),
            "pending": (Pending, NoneType),
            "instances": (tuple, NoneType),
            "reservoir": (Reservoir, NoneType),
            "squared_error": NUMBER,
            "n_scored": (int,),
        },
        _knowledge_fits,
    ),
    Record(
        _Plan,
        {"n_components": (int,), "n_oversamples": (int,), "n_iter": (int,)},
        lambda plan: plan.n_components > 0 and plan.n_oversamples >= 0 and plan.n_iter >= 0,
    ),
    Record(
        _Seen,
        {
            "n_rows": (int,),
            "x_sum": _ARRAY,
            "y_sum": _ARRAY,
            "y_squares": _ARRAY,
            "parts": (tuple,),
            "plan": (_Plan,),
            "seed": (int,),
        },
        _seen_fits,
        stored={"directions": (tuple,)},
    ),
)
