r"""Fitting, predicting, hold-out and tuning on dask arrays, on one machine or on a cluster.

`OnlineTwoStepRidge` depends on the data only through sums over rows. For each block of rows, its
worker computes

.. math:: \boldsymbol\Phi_b^\top\boldsymbol\Phi_b, \qquad \boldsymbol\Phi_b^\top\mathbf{Y}_b\boldsymbol\Psi ,

centred at the means of the block if there is an intercept. The sums are added in a tree, always in
the same order: the result is the same bit for bit, whichever workers did the work or were lost. The
matrices to decompose are d × d and r × r. With their decompositions, each block is predicted, held
out and scored separately. Results with m rows are dask arrays; they are not sent to the caller
unless computed there.

The fitted model is an ordinary `OnlineTwoStepRidge`: it can be saved, it learns and forgets further
batches, and it no longer needs dask.

Computations run on the `distributed.Client` that was created last; without a client, on threads of
this machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from dyadlearn._array import Array, cast
from dyadlearn._checks import check_alphas, check_matrix
from dyadlearn._state import all_or_nothing
from dyadlearn._tables import read_table
from dyadlearn.exceptions import LeverageError
from dyadlearn.growing.holdout import check_knows_tasks, online_holdout, online_squared_errors
from dyadlearn.growing.statistics import collect, merge
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.metrics.cells import warn_of_undefined, where_defined
from dyadlearn.models import OnlineTwoStepRidge
from dyadlearn.models.reading import check_sizes, is_fitted, mapped, unwrap_tasks
from dyadlearn.settings import Setting, as_setting

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise ImportError("dyadlearn.distributed needs dask: pip install 'dyadlearn[dask]'.") from error

__all__ = ["fit", "holdout", "landscape", "predict", "tune"]

#: Number of evenly spaced rows on which an unfitted feature map is fitted.
SAMPLE = 10_000

#: Number of results that are added at a time.
FAN_IN = 8

#: Values of a regularisation.
Alphas = Iterable[float] | None


def fit(model: OnlineTwoStepRidge, X: Any, y: Any, tasks: Any = None) -> OnlineTwoStepRidge:
    """Fit a model on dask arrays; earlier data of the model are forgotten.

    Parameters
    ----------
    model : OnlineTwoStepRidge
        Model, modified in place. An unfitted feature map is fitted on 10,000 evenly spaced rows.
    X : dask array of shape (m, p)
        Features of the instances, in blocks of numpy arrays or scipy's sparse matrices.
    y : dask array of shape (m, q) or (m,)
        Labels of the instances for all tasks. Its blocks are aligned with those of `X`. Missing
        labels (NaN) are not supported.
    tasks : array, sparse matrix or frame of shape (q, p'), default=None
        Features of the tasks, in memory.

    Returns
    -------
    OnlineTwoStepRidge
        The fitted `model`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, distributed
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(50, 3)), rng.normal(size=(6, 2)), rng.normal(size=(50, 6))
    >>> blocks = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=(20, 6))
    >>> model = distributed.fit(OnlineTwoStepRidge(), *blocks, tasks=T)
    >>> model.n_seen_
    50
    >>> np.testing.assert_allclose(model.predict(X), TwoStepRidge().fit(X, Y, tasks=T).predict(X))
    """
    _check_online(model)
    if model.keep_labels:
        raise ValueError(
            "keep_labels=True would gather all rows from the cluster: use keep_labels=False, and "
            "pass the arrays again where labels are needed."
        )
    rows, labels = _aligned(X, y)
    with all_or_nothing(model):
        needs_rows = hasattr(model.feature_map, "transform") and not is_fitted(model.feature_map)
        count = min(SAMPLE if needs_rows else 1, rows.shape[0])
        places = np.arange(count) * rows.shape[0] // count
        first, first_labels = _computed([rows[places], labels[places]])
        # Fitting a few rows checks the parameters and the tasks, fits the feature maps and reads
        # all ids.
        model.fit(first, first_labels if y.ndim == 2 else first_labels[:, 0], tasks)
        like = model.statistics_
        if not like.is_complete:
            raise ValueError(
                "Y contains NaN, but on a cluster every label must be observed: use partial_fit of "
                "the model or fit_stream."
            )
        collected = partial(collect, constant=like.has_constant)
        total = _summed(collected, merge, rows, labels, getattr(model, "feature_map_", None))
        # The features of the tasks do not travel with every block.
        model.continue_from(replace(total, tasks=like.tasks, task_sums=like.task_sums))
    return model


def predict(model: OnlineTwoStepRidge, X: Any, tasks: Any = None) -> Any:
    """Return predictions for all pairs of instances and tasks, block by block.

    Parameters
    ----------
    model : OnlineTwoStepRidge
        Fitted model, on dask arrays or in memory.
    X : dask array of shape (a, p)
        Features of the instances.
    tasks : array, sparse matrix or frame of shape (b, p'), default=None
        Features of the tasks, new or known, in memory; None means the training tasks.

    Returns
    -------
    dask array of shape (a, b), or (a,) as in `OnlineTwoStepRidge.predict`
        Predictions, computed lazily.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, distributed
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [3.0]])
    >>> model = OnlineTwoStepRidge(alpha=0.0).fit(X, Y)
    >>> distributed.predict(model, da.from_array(X, chunks=(2, 1))).compute()
    array([[1.],
           [2.],
           [3.]])
    """
    rows, _ = _aligned(X)
    answer = _answer(model, rows)
    if tasks is not None:
        model.predict(np.zeros((1, rows.shape[1])), tasks=tasks)  # checks the tasks
        tasks = read_table(unwrap_tasks(tasks), "tasks").values
    width = model.n_tasks_ if tasks is None else tasks.shape[0]
    predictions = _lazily(
        _block_predictions, rows, None, width, answer.dtype, None, copy(model), tasks
    )
    if answer.ndim == 1 and tasks is None:
        return predictions[:, 0]
    return predictions


def holdout(model: OnlineTwoStepRidge, X: Any, y: Any, setting: str | Setting = "B") -> Any:
    """Return exact hold-out predictions of training labels, block by block.

    Parameters
    ----------
    model : OnlineTwoStepRidge
        Fitted model, on dask arrays or in memory.
    X : dask array of shape (l, p)
        Features of training instances.
    y : dask array of shape (l, q) or (l,)
        Labels of these instances.
    setting : {"B", "A", "C", "D"} or an alias, default="B"
        Setting: the pair (A), the instance (B), the task (C) or both (D) are left out.

    Returns
    -------
    dask array of shape (l, q) or (l,)
        Hold-out predictions, computed lazily except for the small decompositions.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, distributed
    >>> X, Y = da.from_array(np.array([[1.0], [2.0], [1.0]])), da.from_array(np.array([1.0, 2.0, 4.0]))
    >>> model = distributed.fit(OnlineTwoStepRidge(), X, Y)
    >>> distributed.holdout(model, X, Y).compute()[2].round(6)  # 1.5 − 0.5 · 0.5 / (0.5 + λ)
    np.float64(1.333333)
    """
    wanted, rows, labels, *parts = _left_out(model, X, y, setting)
    dtype = _answer(model, rows).dtype
    predictions = _lazily(
        _block_holdout, rows, labels, labels.shape[1], dtype, *parts, wanted, dtype
    )
    return predictions[:, 0] if y.ndim == 1 else predictions


def landscape(
    model: OnlineTwoStepRidge,
    X: Any,
    y: Any,
    alphas: Alphas = None,
    task_alphas: Alphas = None,
    *,
    setting: str = "B",
) -> np.ndarray:
    """Return the negative mean squared error of hold-out predictions for every regularisation.

    Parameters
    ----------
    model, X, y, setting : as in `holdout`
    alphas, task_alphas : iterables of float, default=None
        Values of the two regularisations; None is 10⁻⁷ … 10⁶.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
        Scores; greater is better. The score is NaN, with a warning that names the values, where
        held-out labels have leverage 1. `LeverageError` is raised if this is so for all values in a
        block of rows.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, distributed
    >>> X, Y = da.from_array(np.array([[1.0], [2.0], [1.0]])), da.from_array(np.array([1.0, 2.0, 4.0]))
    >>> model = distributed.fit(OnlineTwoStepRidge(), X, Y)
    >>> distributed.landscape(model, X, Y, alphas=[1.0, 100.0]).round(3)
    array([-4.269, -3.511])
    """
    values = check_alphas(alphas, "alphas")
    task_values = check_alphas(task_alphas, "task_alphas")
    wanted, rows, labels, *parts = _left_out(model, X, y, setting)
    grids = (values, task_values)
    errors = _summed(_block_errors, np.add, rows, labels, *parts, grids, wanted)
    scores = np.asarray(-errors / labels.shape[0])
    used = (values, task_values if scores.ndim == 2 else None)
    warn_of_undefined(scores, used, wanted.value, 2)
    return scores


def tune(
    model: OnlineTwoStepRidge,
    X: Any,
    y: Any,
    alphas: Alphas = None,
    task_alphas: Alphas = None,
    *,
    setting: str = "B",
) -> OnlineTwoStepRidge:
    """Set the regularisation of a model to the best of `landscape`, and return the model; parameters as there.

    Ties are resolved in favour of the largest values. The attribute `landscape_` of the model
    contains the scores.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge, distributed
    >>> X, Y = da.from_array(np.array([[1.0], [2.0], [1.0]])), da.from_array(np.array([1.0, 2.0, 4.0]))
    >>> model = distributed.fit(OnlineTwoStepRidge(), X, Y)
    >>> distributed.tune(model, X, Y, alphas=[1.0, 100.0]).alpha
    100.0
    """
    values = check_alphas(alphas, "alphas")
    task_values = check_alphas(task_alphas, "task_alphas")
    scores = landscape(model, X, y, values, task_values, setting=setting)
    return model.set_best(scores, values, task_values)


# Checks of the arguments -------------------------------------------------------------------------


def _check_online(model: Any) -> None:
    """Raise if the model is not an OnlineTwoStepRidge."""
    if not isinstance(model, OnlineTwoStepRidge):
        raise TypeError(f"model must be an OnlineTwoStepRidge, found {type(model).__name__}.")


def _answer(model: Any, rows: Any) -> Any:
    """Return the prediction for a row of zeros; raise if the model is not fitted, or not on rows of shape (m, p)."""
    _check_online(model)
    return model.predict(np.zeros((1, rows.shape[1])))


def _aligned(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return instances (m, p) and labels (m, q), if given, in the same blocks of whole rows, without empty blocks."""
    for array, name in ((X, "X"), (y, "y")):
        if array is None:
            continue
        if not isinstance(array, da.Array):
            raise TypeError(
                f"{name} must be a dask array, found {type(array).__name__}: use the methods of "
                f"the model, or dask.array.from_array."
            )
        if any(np.isnan(sizes).any() for sizes in array.chunks):
            raise ValueError(
                f"{name} has chunks of unknown size: call its compute_chunk_sizes() first."
            )
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be a matrix with rows and columns, found shape {X.shape}.")
    blocks = tuple(size for size in X.chunks[0] if size)
    rows = X.rechunk((blocks, X.shape[1]))
    if y is None:
        return rows, None
    if y.ndim not in (1, 2) or 0 in y.shape:
        raise ValueError(f"y must have one or two dimensions and labels, found shape {y.shape}.")
    labels = y[:, None] if y.ndim == 1 else y
    check_sizes(rows, labels, None)
    return rows, labels.rechunk((blocks, labels.shape[1]))


def _left_out(
    model: Any, X: Any, y: Any, setting: str | Setting
) -> tuple[Setting, Any, Any, Any, OnlineRidge]:
    """Return the setting, the rows and labels to leave out, the feature map, and both sides of the model decomposed."""
    rows, labels = _aligned(X, y)
    _answer(model, rows)
    wanted = as_setting(setting)
    known = model.statistics_
    check_knows_tasks(known, wanted)
    if not known.is_complete:
        raise ValueError(
            "This model was fitted with missing labels: use its methods holdout and landscape."
        )
    if labels.shape[1] != known.n_tasks:
        raise ValueError(
            f"Y has {labels.shape[1]} columns, but {known.n_tasks} tasks are known: give one per "
            f"task."
        )
    # Decomposed once, for all workers.
    for side in (known.groups[0], known.task_sums):
        if side is not None:
            _ = side.eigen
    ridge = OnlineRidge(known, model.alpha, model.task_alpha)
    return wanted, rows, labels, getattr(model, "feature_map_", None), ridge


# Graphs ------------------------------------------------------------------------------------------


def _on_blocks(function: Callable[..., Any], rows: Any, labels: Any, *parts: Any) -> list[Any]:
    """Return ``function(Φ, Y, *parts)`` of every block as a delayed value; `parts` begin with the feature map."""
    # One node of the graph is shared by all blocks, so that each worker receives it once.
    shared = dask.delayed(parts, traverse=False)
    work = dask.delayed(_on_block)
    starts = np.cumsum([0, *rows.chunks[0][:-1]]).tolist()
    row_blocks = rows.to_delayed().ravel()
    if labels is None:
        label_blocks = [None] * len(starts)
    else:
        label_blocks = labels.to_delayed().ravel()
    blocks = zip(starts, row_blocks, label_blocks, strict=True)
    return [work(function, *block, shared) for block in blocks]


def _summed(function: Callable[..., Any], add: Callable[[Any, Any], Any], *arguments: Any) -> Any:
    """Return the sum of the values of `_on_blocks`, added in a tree, always in the same order."""
    level = _on_blocks(function, *arguments)
    total = dask.delayed(reduce)
    while len(level) > 1:
        starts = range(0, len(level), FAN_IN)
        level = [total(add, level[start : start + FAN_IN]) for start in starts]
    (value,) = _computed(level)
    return value


def _lazily(
    function: Callable[..., Any], rows: Any, labels: Any, width: int, dtype: Any, *parts: Any
) -> Any:
    """Return the dask array (m, width) whose blocks are the values of `_on_blocks`."""
    values = _on_blocks(function, rows, labels, *parts)
    blocks = []
    for value, size in zip(values, rows.chunks[0], strict=True):
        blocks.append(da.from_delayed(value, (size, width), dtype=dtype))
    return da.concatenate(blocks)


def _computed(values: list[Any]) -> list[Any]:
    """Compute delayed values together."""
    with warnings.catch_warnings():
        # The shared node of the graph may be large, but it is sent once.
        warnings.filterwarnings("ignore", message="Sending large graph")
        return list(dask.compute(*values))


# Functions that run on workers -------------------------------------------------------------------


def _on_block(
    function: Callable[..., Any], start: int, block: Array, labels: Array | None, parts: Any
) -> Any:
    """Call `function` with features and labels of a block; errors name the first row of the block."""
    feature_map, *rest = parts
    try:
        Phi = check_matrix(block, "X", accept_sparse=True)
        if feature_map is not None:
            Phi = mapped(Phi, feature_map, "feature_map")
        if labels is not None:
            labels = check_matrix(labels, "Y", accept_sparse=True)
        return function(Phi, labels, *rest)
    except ValueError as error:
        kind = LeverageError if isinstance(error, LeverageError) else ValueError
        raise kind(f"In the block that begins with row {start}: {error}") from error


def _block_errors(
    Phi: Array,
    Y: Array,
    ridge: OnlineRidge,
    alphas: tuple[list[float], list[float]],
    setting: Setting,
) -> Array:
    """Return the squared errors of a block for all regularisations, weighted by the size of the block."""
    rows, columns = alphas
    if ridge.statistics.tasks is None:
        columns = columns[:1]
    errors = where_defined(
        lambda *values: online_squared_errors(ridge, Phi, Y, values, setting), rows, columns
    )
    return Y.shape[0] * errors


def _block_holdout(Phi: Array, Y: Array, ridge: OnlineRidge, setting: Setting, dtype: Any) -> Array:
    return cast(online_holdout(ridge, Phi, Y, setting), dtype)


def _block_predictions(rows: Array, _: None, model: OnlineTwoStepRidge, tasks: Any) -> Array:
    return np.reshape(model.predict(rows, tasks=tasks), (rows.shape[0], -1))
