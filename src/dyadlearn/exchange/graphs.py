"""Models as graphs of ONNX: a kernel, or features, of what comes in, and two or three products."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from dyadlearn import __version__
from dyadlearn._array import Array, is_sparse, matmul, solve_lower, to_numpy
from dyadlearn._checks import check_choice, check_flag
from dyadlearn._files.atomic import check_place, replacing
from dyadlearn._files.tables import id_text
from dyadlearn._tables import Ids
from dyadlearn.exchange._graph import Graph
from dyadlearn.exchange._kernels import block
from dyadlearn.kernels.landmarks import Landmarks
from dyadlearn.models._formula import Formula, RowSteps
from dyadlearn.models.projection import CanonicalProjection

__all__ = ["to_onnx"]

_DTYPES = ("float32", "float64")
_SIDES = {"X": "instances", "tasks": "tasks"}


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    tasks: str | None = None,
    pairs: bool | None = None,
    dtype: str | None = None,
    feature_map: Any = None,
    task_feature_map: Any = None,
) -> Any:
    r"""Write a fitted model as a graph of ONNX, which runs without this library, and without Python.

    .. math:: \mathbf{F} = k_X(\mathbf{X}, \mathbf{X}_{\text{training}})\;\mathbf{A}\;
              k_T(\mathbf{T}, \mathbf{T}_{\text{training}})^\top

    The graph has the inputs ``X`` (n, d) and ``tasks`` (q, e), features of any instances and tasks, and the output
    ``predictions`` (n, q): what ``model.predict(X, tasks)`` returns, constants included, to rounding. Sides with a
    linear kernel are multiplied by weights of their features. What comes in is not checked: columns stand in the order
    of training, and there are no ids.

    Parameters
    ----------
    model : fitted estimator
        A model of a grid, of observed pairs or of batches, one that chooses its regularisation or learns its kernels, a
        `PairRegressor` of one, or a pipeline of scikit-learn that ends with one. Its kernels must be functions of
        features that have a name, or sums and products of these.
    path : path, default=None
        Where to write, as ``"model.onnx"``; an existing file is replaced, and only by a whole one. None writes nothing.
    tasks : {"new", "training"}, default=None
        Whether ``tasks`` is an input, or the tasks are those of training: then ``predictions`` has a column for each,
        in the order of `task_ids` among the metadata. None is ``"new"`` where the model knows features of tasks.
    pairs : bool, default=None
        Whether row i of ``X`` goes with row i of ``tasks``, and ``predictions`` has one number for each, shape (n,).
        None is true for a `PairRegressor`.
    dtype : {"float32", "float64"}, default=None
        Of inputs, numbers and output; None is that of the model.
    feature_map, task_feature_map : transformer, default=None
        What features went through before the model saw them, fitted: `Landmarks`, `CanonicalProjection`,
        ``StandardScaler``, or a pipeline of these. The graph then takes what these take. Those within the model, or
        before it in a pipeline, are part of the graph anyway.

    Returns
    -------
    onnx.ModelProto
        Checked by ``onnx.checker``. Its metadata have the ``model``, its regularisation, what columns are called where
        that is known, and ``task_ids`` where tasks are those of training, as JSON.

    Raises
    ------
    ValueError
        If the model has no such form: its kernel was computed beforehand, is a function of Python, or comes from the
        labels.
    ImportError
        If the package onnx is not installed: ``pip install dyadlearn[onnx]``.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.exchange import to_onnx
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(30, 3)), rng.normal(size=(20, 2)), rng.normal(size=(30, 20))
    >>> model = TwoStepRidge(kernel="rbf").fit(X, Y, tasks=T)
    >>> graph = to_onnx(model)
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> new, new_tasks = rng.normal(size=(4, 3)), rng.normal(size=(5, 2))
    >>> found = session.run(None, {"X": new, "tasks": new_tasks})[0]
    >>> float(np.abs(found - model.predict(new, tasks=new_tasks)).max()) < 1e-12
    True
    """
    target = None if path is None else Path(path)
    if target is not None:
        check_place(target)  # before anything is computed
    last, before = _taken_apart(model)
    fitted = _of_grids(last)
    formula = fitted._formula()
    wanted = _wanted(tasks, formula)
    by_pairs = _by_pairs(last, pairs, wanted)
    if wanted == "training" and task_feature_map is not None:
        raise ValueError('task_feature_map is for tasks that come in: leave it out, or ask for tasks="new".')
    graph = Graph(_dtype(dtype, formula))
    if wanted == "training":
        predictions, shape = _for_training_tasks(graph, fitted, formula, [feature_map, before])
    else:
        maps = [feature_map, before], [task_feature_map]
        predictions = _for_new_tasks(graph, formula, maps, by_pairs)
        shape = ["n"] if by_pairs else ["n", "q"]
    graph.output(predictions, "predictions", shape)
    found = graph.model(_doc(fitted, wanted, by_pairs), _properties(last, fitted, wanted), __version__)
    if target is not None:
        content = found.SerializeToString()
        with replacing(target) as file:
            file.write(content)
    return found


# What is asked for ---------------------------------------------------------------------------------


def _taken_apart(model: Any) -> tuple[Any, Pipeline | None]:
    """Return the last step of a pipeline, or what is none, and what makes features for it."""
    if not isinstance(model, Pipeline):
        return model, None
    last, before = model[-1], model[:-1] if len(model) > 1 else None
    if hasattr(last, "model_") and _flat(before):
        raise ValueError(f"{type(last).__name__} takes pairs of ids, which no step before it can make features of.")
    return last, before


def _of_grids(model: Any) -> Any:
    """Return the fitted model of pairs, which one of long tables wraps; whatever has no form in a graph is refused."""
    if hasattr(model, "fit"):
        check_is_fitted(model)
    fitted = getattr(model, "model_", model)
    if not hasattr(fitted, "_formula"):
        raise TypeError(
            f"{type(model).__name__} has no form in a graph: give a fitted model of this library that is linear in "
            "kernels or features, or a pipeline that ends with one."
        )
    if not fitted.grows and fitted._problem().pairing.uses_labels:
        raise ValueError(
            "The model describes instances or tasks by profiles of their labels, and so predicts for those of training "
            "only: fit it with stages=1, or for the setting in which they are new."
        )
    return fitted


def _wanted(tasks: str | None, formula: Formula) -> str:
    """Return which tasks the graph is to know."""
    if tasks is None:
        return "training" if formula.tasks is None else "new"
    check_choice(tasks, "tasks", ("new", "training"))
    if tasks == "new" and formula.tasks is None:
        raise ValueError("The model knows nothing of new tasks: leave tasks out, or fit it with features of the tasks.")
    return tasks


def _by_pairs(model: Any, pairs: bool | None, wanted: str) -> bool:
    """Tell whether rows of both sides go together."""
    is_listed, has_tasks = hasattr(model, "model_"), wanted == "new"
    if pairs is not None:
        check_flag(pairs, "pairs")
    if pairs and not has_tasks:
        raise ValueError("pairs=True takes the features of a task for each pair, and here tasks are those of training.")
    chosen = is_listed and has_tasks if pairs is None else bool(pairs)
    if chosen and is_listed and model.model_._problem().pairing.knows_rows:
        raise ValueError(
            "The model knows instances and tasks of training by more than their features, and a graph cannot tell "
            "which they are: write its model_, which predicts for new ones."
        )
    return chosen


def _dtype(dtype: str | None, formula: Formula) -> str:
    if dtype is not None:
        return check_choice(dtype, "dtype", _DTYPES)
    return str(to_numpy(formula.expansion.values[:1, :1]).dtype)


# Products ------------------------------------------------------------------------------------------


def _for_training_tasks(graph: Graph, model: Any, formula: Formula, maps: list[Any]) -> tuple[str, list[str | int]]:
    weights, offset = formula.training_factor
    found = _factor(graph, "X", "n", formula.instances, maps, weights)
    if offset:
        found = graph.node("Add", found, offset)
    if model._is_vector:
        return graph.node("Squeeze", found, graph.constant([1], np.int64)), ["n"]
    return found, ["n", int(weights.shape[1])]


def _for_new_tasks(graph: Graph, formula: Formula, maps: tuple[list[Any], list[Any]], by_pairs: bool) -> str:
    left, right = formula.factors
    assert formula.tasks is not None
    rows = _factor(graph, "X", "n", formula.instances, maps[0], left)
    columns = _factor(graph, "tasks", "n" if by_pairs else "q", formula.tasks, maps[1], right)
    if by_pairs:
        return graph.reduced("ReduceSum", graph.node("Mul", rows, columns), 1, keepdims=False)
    # Older onnxruntimes make of a product with a transpose something that has no double precision.
    return graph.node("Gemm", rows, columns, transB=1)


def _factor(graph: Graph, name: str, size: str, steps: RowSteps, maps: list[Any], weights: Array | None) -> str:
    """Add an input, what becomes of it, and its product with weights (None: as it is), and return the name of that.

    Parameters
    ----------
    graph : Graph
    name : {"X", "tasks"}
    size : str
        What its number of rows is called.
    steps : RowSteps
    maps : list of transformers or None
        What makes features of it first; what `steps` have comes last.
    weights : array of shape (d or m, p), with a constant one row more, or None
    """
    if isinstance(steps.kernel, str) and steps.kernel == "precomputed":
        raise _computed(_SIDES[name])
    rows = _inputs(graph, name, size, steps, maps)
    for centre in steps.centres:
        rows = {"": graph.node("Sub", rows[""], to_numpy(centre)[None, :])}
    if steps.kernel is None:
        return _times(graph, rows[""], weights, steps.has_constant)
    assert steps.features is not None
    if steps.kernel_means is not None:
        assert weights is not None  # a side with a free constant is either in the primal or multiplied by some
        weights = _of_uncentred(to_numpy(weights), to_numpy(steps.kernel_means))
    if not (isinstance(steps.kernel, str) and steps.kernel == "linear" and weights is not None):
        kernel = block(graph, steps.kernel, steps.params, rows, graph.array(steps.features))
        return _times(graph, kernel, weights, steps.has_constant)
    # Weights of features take one product where dual coefficients take two.
    own, rest = np.split(to_numpy(weights), [steps.features.shape[0]])
    features = steps.features if is_sparse(steps.features) else to_numpy(steps.features)
    return _times(graph, rows[""], np.concatenate([matmul(features.T, own), rest]), steps.has_constant)


def _of_uncentred(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return weights, those of a constant last, for kernel rows of which neither means nor their own are subtracted."""
    own = weights[:-1, :] - weights[:-1, :].mean(axis=0)
    return np.concatenate([own, weights[-1:, :] - means[None, :] @ own])


def _times(graph: Graph, rows: str, weights: Array | None, has_constant: bool) -> str:
    """Add the product of rows, with a one at their end where they have a constant, with weights."""
    if weights is None:
        if not has_constant:
            return rows
        return graph.node("Pad", rows, graph.constant([0, 0, 0, 1], np.int64), graph.constant(1.0))
    values = to_numpy(weights)
    if not has_constant:
        return graph.node("MatMul", rows, values)
    return graph.node("Add", graph.node("MatMul", rows, values[:-1, :]), values[-1:, :])


# What comes in -------------------------------------------------------------------------------------


def _inputs(graph: Graph, name: str, size: str, steps: RowSteps, maps: list[Any]) -> Mapping[str, str]:
    """Add the inputs of a side and what makes features of them, and return their names by what they describe."""
    side, own = _SIDES[name], _flat(steps.feature_map)
    given = [*(each for transformer in maps for each in _flat(transformer)), *own]
    if "" not in steps.widths:
        if given:
            raise ValueError(f"The {side} have several descriptions, and no feature map is for all of them.")
        return {each: graph.input(f"{name}.{each}", size, width) for each, width in steps.widths.items()}
    for each in given:
        check_is_fitted(each)
    width = getattr(given[0], "n_features_in_", None) if given else steps.widths[""]
    if width is None:  # of things that are no vectors
        raise _without_form(given[0], side)
    rows = graph.input(name, size, int(width))
    for each in given:
        # A graph would stretch a single column to any number of them.
        _check_width(type(each).__name__, width, getattr(each, "n_features_in_", width), side)
        rows, width = _mapped(each, graph, rows, side), getattr(each, "_n_features_out", width)
    if not own:
        _check_width("the model", width, steps.widths[""], side)
    return {"": rows}


def _check_width(taker: str, width: int, expected: int, side: str) -> None:
    if width != expected:
        raise ValueError(
            f"Feature maps of the {side} come to {width} features, and {taker} expects {expected}: give those that the "
            "model was fitted behind."
        )


def _flat(given: Any) -> list[Any]:
    """Return the transformers that a pipeline consists of, in order."""
    if given is None or (isinstance(given, str) and given == "passthrough"):
        return []
    return [each for _, step in given.steps for each in _flat(step)] if isinstance(given, Pipeline) else [given]


def _without_form(transformer: Any, side: str) -> ValueError:
    return ValueError(
        f"The features of the {side} are made by {type(transformer).__name__}, which has no form in a graph: make them "
        "before, and fit the model on them, or use dyadlearn.Landmarks of features with a kernel by its name."
    )


@singledispatch
def _mapped(transformer: Any, graph: Graph, rows: str, side: str) -> str:
    """Add what a transformer makes of rows."""
    raise _without_form(transformer, side)


@_mapped.register
def _(transformer: Landmarks, graph: Graph, rows: str, side: str) -> str:
    if transformer.components_ is None:
        raise _computed(side)
    training, factor = graph.array(transformer.components_), to_numpy(transformer._factor)
    found = block(graph, transformer.kernel, transformer.kernel_params, {"": rows}, training)
    # Graphs know no triangular systems.
    inverse = solve_lower(factor, np.eye(len(training), dtype=factor.dtype))
    return graph.node("MatMul", found, inverse.T)


@_mapped.register
def _(transformer: CanonicalProjection, graph: Graph, rows: str, side: str) -> str:
    found = graph.node("MatMul", rows, transformer._seen.directions[0])
    found = graph.node("Sub", found, transformer._seen.centre[None, :])
    return _times(graph, found, None, transformer.intercept)


@_mapped.register
def _(transformer: StandardScaler, graph: Graph, rows: str, side: str) -> str:
    if transformer.with_mean:
        rows = graph.node("Sub", rows, transformer.mean_[None, :])
    return graph.scaled(rows, 1.0 / transformer.scale_) if transformer.with_std else rows


def _computed(side: str) -> ValueError:
    return ValueError(
        f"The kernel of the {side} was computed beforehand, and a graph takes features: fit the model on features with "
        "a kernel by its name, or on those of dyadlearn.Landmarks."
    )


# Words ---------------------------------------------------------------------------------------------


def _doc(model: Any, wanted: str, by_pairs: bool) -> str:
    what = (
        "for each instance of X with each task of training"
        if wanted == "training"
        else ("for row i of X with row i of tasks" if by_pairs else "for each instance of X with each of tasks")
    )
    return f"{type(model).__name__} of dyadlearn: predictions {what}, from features in the order of training."


def _properties(model: Any, fitted: Any, wanted: str) -> dict[str, str]:
    """Return what a reader of the graph may want to know, as texts."""
    found = {"model": type(fitted).__name__}
    found |= {name: json.dumps(np.asarray(value).tolist()) for name, value in fitted._alphas.items()}
    names = (("feature_names", "task_feature_names")[: len(fitted._columns)], fitted._columns)
    for key, (_, columns) in zip(*names, strict=True):
        if columns is not None:
            found[key] = _listed(columns.labels)
    ids = getattr(model, "task_ids_", None) or fitted._ids[1]
    if wanted == "training" and ids is not None:
        found["task_ids"] = _listed(ids.labels if isinstance(ids, Ids) else ids)
    return found


def _listed(labels: Any) -> str:
    return json.dumps([id_text(label) for label in labels], ensure_ascii=False)
