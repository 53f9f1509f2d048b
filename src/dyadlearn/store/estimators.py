"""The estimators that a file can hold, with the attributes that make up what they have learnt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import NoneType
from typing import Any

import numpy as np

from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import ModelFileError
from dyadlearn.growing.knowledge import Knowledge
from dyadlearn.holes.complete import Completion
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.models import (
    CanonicalProjection,
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    Tasks,
    TwoStepRidge,
)
from dyadlearn.models._base import PairModel, PairwiseRidge
from dyadlearn.models._side import Side
from dyadlearn.models.projection import _Seen
from dyadlearn.selection import IndependentTaskRidgeCV, KroneckerRidgeCV, SettingKFold, TwoStepRidgeCV
from dyadlearn.settings import Setting
from dyadlearn.store.records import NUMBER, RECORDS, Fields, checked_fields, is_shaped
from dyadlearn.store.values import Codec, Reader, Writer, refusal

__all__ = ["CODECS", "ESTIMATORS"]

_FEATURES: Fields = {"n_features_in_": (int,), "feature_names_in_": (np.ndarray,)}


@dataclass(frozen=True)
class Estimator:
    """An estimator as a file holds it: its parameters, and the attributes it has after fitting.

    Attributes
    ----------
    cls : type
    state : mapping of str to classes
        Attributes, in the order they are written.
    fits : callable
        Tells whether the attributes of a fitted estimator fit together.
    """

    cls: type
    state: Fields
    fits: Callable[[Any], bool]

    def codec(self) -> Codec:
        """Return how such estimators are written and read."""
        return Codec(self.cls.__name__, self._write, self._read, shared=True)

    def _write(self, writer: Writer, model: Any, path: str) -> dict[str, Any]:
        state = {name: value for name, value in vars(model).items() if name in self.state}
        if state:
            _check_parameters(model)
        if "holdout_" in state:
            state["holdout_"] = _values(model.holdout_, model._grid)
        ordered = {name.removeprefix("_"): state[name] for name in self.state if name in state}
        return {
            "parameters": writer.fields(model.get_params(deep=False), _under(path, "parameters")),
            "state": writer.fields(ordered, path) if ordered else None,
        }

    def _read(self, reader: Reader, plain: Any, path: str) -> Any:
        parameters = reader.fields(plain["parameters"], _under(path, "parameters"))
        unknown = parameters.keys() - inspect.signature(self.cls).parameters.keys()
        if unknown:
            raise ModelFileError(f"its {self.cls.__name__} has the unknown parameters {sorted(unknown)}")
        model = self.cls(**parameters)
        if plain["state"] is None:
            return model
        attributes = {name.removeprefix("_"): name for name in self.state}
        classes = {name: self.state[attribute] for name, attribute in attributes.items()}
        found = checked_fields(reader.fields(plain["state"], path), {}, classes, path)
        for name, value in found.items():
            setattr(model, attributes[name], value)
        _check_parameters(model)
        if not self.fits(model):
            raise ModelFileError(f"the shapes in its {self.cls.__name__} do not fit together")
        if "grid" in found:
            _restore_frames(model)
        return model


def _check_parameters(model: Any) -> None:
    """Raise as `fit` does for a parameter that was set to something wrong after it."""
    if isinstance(model, PairModel):
        model._check_params()


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _values(held_out: Any, grid: Table) -> Any:
    """Return held-out predictions as an array, whatever the labels came in."""
    if grid.kind is None:
        return held_out
    values = np.asarray(read_table(held_out, "holdout_").values)
    # Ids of rows may stand in a first column.
    values = values if values.ndim == 1 else values[:, -grid.values.shape[1] :]
    return values.astype(grid.values.dtype, copy=False)


def _restore_frames(model: Any) -> None:
    """Give a model the form of its labels back, or arrays (and the ids all the same) without the library of frames."""
    grid = model._grid
    if grid.kind is not None and find_spec(grid.kind) is None:
        model._grid = replace(grid, kind=None)
    if hasattr(model, "holdout_"):
        model.holdout_ = model._grid.restore(model.holdout_)


def _ridge_fits(model: PairwiseRidge) -> bool:
    Y, side, tasks = model._grid.values, model._side, model._task_side
    m, q = Y.shape
    model._keep(model._posed())
    made = model._expansion()
    shape = [n if part is None else part.size for n, part in zip((m, q), (made.instances, made.tasks), strict=True)]
    return (
        side.spectrum.n_rows == m
        and (tasks is None or tasks.spectrum.n_rows == q)
        and is_shaped(made.values, *shape)
        and is_shaped(model._weights, m, q)
        and (model._completion is None or model._completion.labels.shape == (m, q))
        and model.n_features_in_ == side.n_columns
        and all(part.dtype == Y.dtype for part in (model._coefficients, model._closed_problem.Y))
    )


def _search_fits(model: Any) -> bool:
    Y, alpha = model._grid.values, model.alpha_
    return (
        _ridge_fits(model)
        and model.holdout_.shape in (Y.shape, Y.shape[: 2 - model._grid.is_vector])
        and model.landscape_.dtype.kind == "f"
        and (not isinstance(alpha, np.ndarray) or alpha.shape == Y.shape[1:])
    )


def _regressor_fits(model: PairRegressor) -> bool:
    return (len(model.instance_ids_), len(model.task_ids_)) == model.model_._grid.values.shape and len(
        model._names
    ) == 2


def _online_fits(model: OnlineTwoStepRidge) -> bool:
    statistics = model._learnt.model.statistics
    maps = ("feature_map", "task_feature_map")
    return all((getattr(model, name) is not None) == hasattr(model, f"{name}_") for name in maps) and (
        model.feature_map is not None or statistics.gram.shape[0] == model.n_features_in_
    )


_RIDGE: Fields = {
    "_side": (Side,),
    "_task_side": (Side, NoneType),
    "_grid": (Table,),
    "_weights": (np.ndarray, NoneType),
    "_completion": (Completion, NoneType),
    "_coefficients": (np.ndarray,),
    **_FEATURES,
}
_SEARCH: Fields = {
    "alpha_": (*NUMBER, np.ndarray),
    "task_alpha_": (*NUMBER, NoneType),
    "best_score_": NUMBER,
    "landscape_": (np.ndarray,),
    **_RIDGE,
    "holdout_": (np.ndarray,),
    "holdout_method_": (str,),
    "holdout_setting_": (str,),
}
_MODELS = (IndependentTaskRidge, KroneckerRidge, TwoStepRidge)
_SEARCHES = (IndependentTaskRidgeCV, KroneckerRidgeCV, TwoStepRidgeCV)

#: What can be stored.
ESTIMATORS = (
    *(Estimator(cls, _RIDGE, _ridge_fits) for cls in _MODELS),
    *(Estimator(cls, _SEARCH, _search_fits) for cls in _SEARCHES),
    Estimator(
        PairRegressor,
        {
            "model_": (*_MODELS, *_SEARCHES),
            "instance_ids_": (tuple,),
            "task_ids_": (tuple,),
            "n_dropped_": (int,),
            "n_repeated_": (int,),
            "n_contradicting_": (int,),
            "_names": (tuple,),
            "n_features_in_": (int,),
        },
        _regressor_fits,
    ),
    Estimator(
        CanonicalProjection,
        {"_seen": (_Seen,), **_FEATURES},
        lambda projection: projection._seen.x_sum.size == projection.n_features_in_,
    ),
    Estimator(
        OnlineTwoStepRidge,
        {
            "feature_map_": (CanonicalProjection,),
            "task_feature_map_": (CanonicalProjection,),
            "_learnt": (Knowledge,),
            "landscape_": (np.ndarray,),
            **_FEATURES,
        },
        _online_fits,
    ),
)


def _write_folds(writer: Writer, folds: SettingKFold, path: str) -> dict[str, Any]:
    names = ("setting", "n_splits", "shuffle", "random_state", "network")
    return writer.fields({name: getattr(folds, name) for name in names}, path)


def _write_scorer(writer: Writer, score: Scorer, path: str) -> dict[str, Any]:
    if not isinstance(score.metric, type):
        raise refusal(score.metric, path)
    return {"name": score.name, "options": writer.write(score.options, _under(path, "options"))}


def _read_scorer(reader: Reader, plain: Any, path: str) -> Scorer:
    return scorer(plain["name"], **reader.read(plain["options"], _under(path, "options")))


_OTHERS = {
    SettingKFold: Codec(
        "SettingKFold", _write_folds, lambda reader, plain, path: SettingKFold(**reader.fields(plain, path))
    ),
    Scorer: Codec("Scorer", _write_scorer, _read_scorer),
    Setting: Codec("Setting", lambda writer, value, path: value.value, lambda reader, plain, path: Setting(plain)),
    Tasks: Codec(
        "Tasks",
        lambda writer, value, path: writer.write(value.array, path),
        lambda reader, plain, path: Tasks(reader.read(plain, path)),
    ),
}

#: By class, how to write it; the tags of the codecs say how to read it.
CODECS: dict[type, Codec] = {
    **{record.cls: record.codec() for record in RECORDS},
    **{estimator.cls: estimator.codec() for estimator in ESTIMATORS},
    **_OTHERS,
}
