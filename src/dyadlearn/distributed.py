r"""Fitting, predicting, hold-out and tuning on dask arrays, on one machine or on a cluster.

Everything the data say about `OnlineTwoStepRidge` are sums over rows. So every block of rows is turned into

.. math:: \boldsymbol\Phi_b^\top\boldsymbol\Phi_b, \qquad \boldsymbol\Phi_b^\top\mathbf{Y}_b\boldsymbol\Psi

where it lies, with an intercept about the means of the block, and the sums meet in a tree, always in the same order:
however the work was spread, and whichever workers were lost on the way, the bits of the result are the same. What is
left to decompose is d × d and r × r, and with these decompositions every block can be predicted, held out and scored by
itself. Nothing with a side of m comes to the caller but what is asked for, and that is a dask array again.

The model that comes out is an ordinary `OnlineTwoStepRidge`: it can be saved, it learns and forgets further batches,
and it needs dask no more.

Of observed pairs alone (`dyadlearn.observed`) a block of pairs stays on its worker, with the features of both sides.
Each iteration of the solver sends out a function :math:`\mathbf{W}` (r × s), and every block returns

.. math:: \sum_{p \in b} w_p\,(\boldsymbol\phi_{i(p)}^\top\mathbf{W}\boldsymbol\psi_{j(p)})\,
          \boldsymbol\phi_{i(p)}\boldsymbol\psi_{j(p)}^\top ,

sums that meet in the same tree.

Computations run on the `distributed.Client` that was made last, without one on the threads of this machine.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import Array, cast, is_foreign, is_sparse, library, take_rows
from dyadlearn._checks import check_alphas, check_matrix
from dyadlearn._tables import read_table
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.growing.holdout import online_holdout, online_squared_errors
from dyadlearn.growing.statistics import Statistics, collect, merge
from dyadlearn.growing.two_step import OnlineRidge, instance_rows
from dyadlearn.metrics.choice import warn_of_undefined, where_defined
from dyadlearn.models import CanonicalProjection, OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.models._inputs import check_n_features, check_sizes, is_fitted, mapped, positions, unwrap_tasks
from dyadlearn.models._model import all_or_nothing
from dyadlearn.models._observed import solved_pairs
from dyadlearn.models._training import read_training
from dyadlearn.observed.pairs import PairLabels, PairProducts
from dyadlearn.settings import Setting
from dyadlearn.vectrick import sandwich

try:
    import dask
    import dask.array as da
except ImportError as error:
    raise ImportError("dyadlearn.distributed needs dask: pip install 'dyadlearn[dask]'.") from error

__all__ = ["fit", "fit_pairs", "holdout", "landscape", "predict", "tune"]

#: How many rows, evenly spread, a feature map that is not fitted is fitted on.
SAMPLE = 10_000

#: How many results are added up at a time.
FAN_IN = 8

_HOLES = "on a cluster every label is needed. Let the model learn block by block, by its own partial_fit or fit_stream"


def fit(model: OnlineTwoStepRidge | TwoStepRidge, X: Any, y: Any, tasks: Any = None) -> OnlineTwoStepRidge:
    """Forget everything and learn from dask arrays.

    Parameters
    ----------
    model : OnlineTwoStepRidge or TwoStepRidge
        The latter with linear kernels: it would keep the labels and eigenvectors of all m instances, so what is
        returned is the `OnlineTwoStepRidge` that equals it. For other kernels give an `OnlineTwoStepRidge` a feature
        map, such as `Landmarks`. A feature map that is not fitted is fitted on 10,000 rows, evenly spread over all.
    X : dask array of shape (m, p)
        The instances, in blocks of numpy arrays or scipy's sparse matrices.
    y : dask array of shape (m, q) or (m,)
        Their labels for all tasks. Its blocks are brought in line with those of `X`.
    tasks : array, sparse matrix or frame of shape (q, p'), default=None
        The tasks, in memory.

    Returns
    -------
    OnlineTwoStepRidge
        `model` itself, unless that is a `TwoStepRidge`.

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
    online = _as_online(model)
    rows, labels = _aligned(X, y)
    with all_or_nothing(online):
        needs_rows = online.feature_map is not None and not is_fitted(online.feature_map)
        first, first_labels = _sample(rows, labels, SAMPLE if needs_rows else 1)
        # Learning a few rows checks the parameters and the tasks, fits the maps and reads all ids.
        online.fit(first, first_labels if y.ndim == 2 else first_labels[:, 0], tasks)
        few = online._learnt
        if few.model.takes_holes:
            raise ValueError(f"Y contains NaN, labels that are not observed: {_HOLES}.")
        known = _collected(online, rows, labels, few.model.statistics)
        whole = OnlineRidge.start(known, online.alpha, online.task_alpha, solver=online.solver)
        online._learnt = replace(few, model=whole)
    return online


def fit_pairs(model: Any, X: Any, pairs: Any, y: Any, tasks: Any, *, sample_weight: Any = None) -> Any:
    """Fit a model on observed pairs that lie in the blocks of dask arrays; their grid is never formed.

    Parameters
    ----------
    model : KroneckerRidge or TwoStepRidge
        With a regularisation above zero.
    X : array, sparse matrix or frame of shape (m, p)
        The instances, in memory.
    pairs : dask array of shape (n, 2)
        Positions of rows in `X` and in `tasks`, all pairs different.
    y : dask array of shape (n,)
        Their labels. Blocks are brought in line with those of `pairs`.
    tasks : array, sparse matrix or frame of shape (q, p')
        The tasks, in memory.
    sample_weight : dask array of shape (n,), default=None
        How much each pair counts, more than zero.

    Returns
    -------
    model
        Fitted as by ``model.fit(X, Y, tasks)`` with the labels in a sparse matrix Y: it keeps them, and needs dask no
        more. Another regularisation that is set later is solved for without the cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidge, distributed
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(50, 3)), rng.normal(size=(20, 2))
    >>> at = rng.choice(1000, size=300, replace=False)
    >>> pairs, y = np.stack([at // 20, at % 20], axis=1), rng.normal(size=300)
    >>> blocks = da.from_array(pairs, chunks=(100, 2)), da.from_array(y, chunks=100)
    >>> model = distributed.fit_pairs(KroneckerRidge(), X, *blocks, T)
    >>> grid = np.full((50, 20), np.nan)
    >>> grid[tuple(pairs.T)] = y
    >>> np.testing.assert_allclose(model.predict(X), KroneckerRidge().fit(X, grid, tasks=T).predict(X), atol=1e-6)
    """
    _check_takes_pairs(model)
    if tasks is None:
        raise ValueError("Blocks of observed pairs need tasks, found None: give their features, or their kernel.")
    table = _pair_table(pairs, y, sample_weight)
    places, labels, weights = _pair_labels(table, X, tasks)
    with all_or_nothing(model):
        data = read_training(model, X, labels, tasks, weights, by_pairs=True)
        model._keep_labels(data)
        [[(model._side, model._task_side)]] = model._decomposed(data, [model._spec()], [model._task_spec()])
        problem = model._posed()
        problem.pairing.check_regularisation()
        system = problem.system()
        spread = _SpreadProducts(system.products, table, places)
        return model._keep_pairs(problem, solved_pairs(problem, None, replace(system, products=spread)))


def predict(model: OnlineTwoStepRidge, X: Any, tasks: Any = None) -> Any:
    """Predict the labels of every given instance with every given task, block by block.

    Parameters
    ----------
    model : OnlineTwoStepRidge
        Fitted, here or anywhere.
    X : dask array of shape (a, p)
    tasks : array, sparse matrix or frame of shape (b, p'), default=None
        Tasks, new or not, in memory; None stands for the known ones.

    Returns
    -------
    dask array of shape (a, b), or (a,) as `OnlineTwoStepRidge.predict` says
        Nothing is computed before it is asked for.

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
    rows = _checked_rows(model, X)
    coefficients = model._expansion().values
    _, known = model._task_rows(tasks)
    width = coefficients.shape[1] if known is None else known.size
    mean = model._learnt.model.statistics.mean
    parts = _shared(_map_of(model), mean, coefficients, None if known is None else known.values)
    found = _by_block(_block_predictions, [rows], parts, width, coefficients.dtype).astype(model._learnt.dtype)
    return found[:, 0] if model._is_vector and tasks is None else found


def holdout(model: OnlineTwoStepRidge, X: Any, y: Any, setting: str | Setting = "B") -> Any:
    """Predict learnt labels as if the model had never seen them, exactly, block by block.

    Parameters
    ----------
    model : OnlineTwoStepRidge
        Fitted, here or anywhere.
    X : dask array of shape (l, p)
    y : dask array of shape (l, q) or (l,)
        Instances that were learnt, and their labels.
    setting : {"B", "A", "C", "D"} or an alias, default="B"
        What is left out for a cell. For C and D the model must tell its tasks apart (``keep_tasks=True``); otherwise
        the given rows are taken for all there are, and are read once more.

    Returns
    -------
    dask array of shape (l, q) or (l,)
        Nothing but the small decompositions is computed before it is asked for.

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
    wanted, rows, labels, ridge = _left_out(model, X, y, setting)
    dtype = model._learnt.dtype
    found = _by_block(
        _block_holdout, [rows, labels], _shared(_map_of(model), ridge, wanted, dtype), labels.shape[1], dtype
    )
    return found[:, 0] if y.ndim == 1 else found


def landscape(
    model: OnlineTwoStepRidge,
    X: Any,
    y: Any,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    *,
    setting: str | Setting = "B",
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
        Greater is better. NaN, with a warning that names the values, where the model interpolates what is to be left
        out; if it does so everywhere in a block of rows, `LeverageError` is raised.

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
    values, task_values = check_alphas(alphas, "alphas"), check_alphas(task_alphas, "task_alphas")
    wanted, rows, labels, ridge = _left_out(model, X, y, setting)
    parts = _shared(_map_of(model), ridge, values, task_values, wanted)
    scores = np.asarray(-_summed(_block_errors, sum, rows, labels, parts) / labels.shape[0])
    warn_of_undefined(scores, values, task_values if scores.ndim == 2 else None, wanted.value, 2)
    return scores


def tune(
    model: OnlineTwoStepRidge,
    X: Any,
    y: Any,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    *,
    setting: str | Setting = "B",
) -> OnlineTwoStepRidge:
    """Set the regularisation that is best for hold-out predictions; parameters as in `landscape`.

    Of values that are equally good the largest are taken. The scores are kept as `landscape_`.

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
    values, task_values = check_alphas(alphas, "alphas"), check_alphas(task_alphas, "task_alphas")
    scores = landscape(model, X, y, values, task_values, setting=setting)
    return model._chosen(values, task_values, scores)


# What users hand in ------------------------------------------------------------------------------


def _as_online(model: Any) -> OnlineTwoStepRidge:
    """Return the model to fit, refusing what cannot be learnt from sums over rows."""
    if isinstance(model, TwoStepRidge) and not model.searches:
        kernels = (model.kernel, model.task_kernel)
        filters = (model.filter or Tikhonov(), model.task_filter or Tikhonov())
        if kernels != ("linear", "linear") or model.symmetry is not None or not all(each.refits for each in filters):
            raise ValueError(
                "On a cluster a TwoStepRidge needs linear kernels and the filters of Tikhonov: for another kernel give "
                "an OnlineTwoStepRidge with a feature map, such as Landmarks(kernel='rbf')."
            )
        alphas = filters[0].ridge(model.alpha), filters[1].ridge(model.task_alpha)
        return OnlineTwoStepRidge(*alphas, fit_intercept=model.fit_intercept)
    _check_online(model)
    for name in ("keep_instances", "keep_labels"):
        if getattr(model, name):
            raise ValueError(
                f"{name} would gather rows from the cluster: leave it out, and give the dask arrays again to whatever "
                "needs rows."
            )
    online: OnlineTwoStepRidge = model
    return online


def _check_online(model: Any) -> None:
    if not getattr(model, "grows", False):
        raise TypeError(f"Expected an OnlineTwoStepRidge, found {type(model).__name__}.")


def _check_takes_pairs(model: Any) -> None:
    """Refuse what is not solved for observed pairs alone, before a grid is formed of them."""
    takes_pairs = getattr(model, "_takes_pairs", False) and model._learns_from_tasks and not model.searches
    if not takes_pairs or not model._pairing_type(True).takes_pairs:
        raise TypeError(
            f"{type(model).__name__} is not fitted on blocks of observed pairs: give a KroneckerRidge or TwoStepRidge "
            "of two sides."
        )
    if model.device is not None:
        raise ValueError(
            f"device={model.device!r} is for arrays in memory, and workers compute with numpy: leave device out."
        )


def _check_array(array: Any, name: str) -> None:
    if not isinstance(array, da.Array):
        raise TypeError(
            f"{name} must be a dask array, found {type(array).__name__}: for data in memory use the methods of the "
            "model, or dask.array.from_array."
        )
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name} has chunks of unknown size: call its compute_chunk_sizes() first.")
    if 0 in array.shape:
        raise ValueError(f"{name} is empty: found shape {array.shape}.")


def _whole_rows(X: Any) -> Any:
    """Return instances (m, p) in blocks of whole rows."""
    _check_array(X, "X")
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix, found {X.ndim} dimension(s).")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _aligned(X: Any, y: Any) -> tuple[Any, Any]:
    """Return instances (m, p) and labels (m, q) in the same blocks of whole rows."""
    rows = _whole_rows(X)
    _check_array(y, "y")
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, found {y.ndim}.")
    labels = y[:, None] if y.ndim == 1 else y
    check_sizes(rows, labels, None)
    blocks = (rows.chunks[0], (labels.shape[1],))
    return rows, labels if labels.chunks == blocks else labels.rechunk(blocks)


def _checked_rows(model: Any, X: Any) -> Any:
    """Return instances for a fitted model, in blocks of whole rows."""
    _check_online(model)
    check_is_fitted(model)
    rows = _whole_rows(X)
    check_n_features(rows, model)
    return rows


def _left_out(model: Any, X: Any, y: Any, setting: str | Setting) -> tuple[Setting, Any, Any, OnlineRidge]:
    """Return the setting, the rows and labels to leave out, and both sides of the model decomposed."""
    _checked_rows(model, X)
    wanted = model._checked_setting(setting)
    rows, labels = _aligned(X, y)
    ridge = model._learnt.model
    if ridge.takes_holes:
        raise ValueError("This model has learnt labels with holes: use its own holdout and landscape.")
    known = ridge.statistics
    if labels.shape[1] != known.n_tasks:
        raise ValueError(f"Y has {labels.shape[1]} columns, but {known.n_tasks} tasks are known: give one per task.")
    if wanted.new_task and not known.per_task:
        apart = _collected(model, rows, labels, replace(known, per_task=True))
        ridge = OnlineRidge.start(apart, ridge.inverse.alpha, ridge.task_inverse.alpha)
    # Decomposed here and once, and without whatever else the sides have computed, for all workers.
    side, task_side = ridge.inverse.with_alpha(ridge.inverse.alpha), ridge.task_inverse
    task_side = None if task_side is None else task_side.with_alpha(task_side.alpha)
    return wanted, rows, labels, OnlineRidge(ridge.statistics, side, task_side)


def _map_of(model: OnlineTwoStepRidge) -> Any:
    """Return the fitted feature map, or None."""
    if model.feature_map is None:
        return None
    if isinstance(model.feature_map_, CanonicalProjection):
        _ = model.feature_map_.components_  # which are found on first use: here, and not once in every block
    return model.feature_map_


def _pair_table(pairs: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return positions (n, 2), labels (n,) and, where there are any, weights (n,), all in the same blocks."""
    given = {"pairs": pairs, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
    for name, array in given.items():
        _check_array(array, name)
        wanted = pairs.shape[:1] if name != "pairs" else (pairs.shape[0], 2)
        if array.shape != wanted:
            raise ValueError(
                f"{name} must be of shape {wanted}, found {array.shape}: one row of a table for each pair."
            )
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"pairs must hold whole row positions into X and tasks, found {pairs.dtype}.")
    rows = pairs.rechunk({1: -1})
    return [rows, *(array.rechunk((rows.chunks[0],)) for name, array in given.items() if name != "pairs")]


def _pair_labels(table: list[Any], X: Any, tasks: Any) -> tuple[np.ndarray, Any, Any]:
    """Return the positions of pairs in memory, and their labels and weights as sparse matrices (m, q)."""
    places, values, *rest = (np.asarray(part) for part in _computed(table))
    sides = (("X", read_table(X, "X").values), ("tasks", read_table(unwrap_tasks(tasks), "tasks").values))
    shape = tuple(int(side.shape[0]) if hasattr(side, "shape") else len(side) for _, side in sides)
    for (name, side), column, length in zip(sides, places.T, shape, strict=True):
        if is_foreign(side):
            raise TypeError(f"{name} is an array of {library(side)}, and workers compute with numpy: convert it first.")
        positions(column, None, length, name)
    if np.isnan(values).any() or (rest and not (rest[0] > 0).all()):
        raise ValueError("Some pairs have NaN for a label, or no weight: leave them out of the blocks.")
    made = [sparse.coo_array((data, tuple(places.T)), shape=shape) for data in (values, *rest)]
    return places, made[0], made[1] if rest else None


# Graphs ------------------------------------------------------------------------------------------


def _shared(*parts: Any) -> Any:
    """Return one node of the graph that all blocks look at, so that a worker gets it once."""
    return dask.delayed(parts, traverse=False)


def _blocks(*arrays: Any) -> Iterator[tuple[slice, list[Any]]]:
    """Yield where every block of rows lies, and the blocks of all arrays there, as delayed values."""
    ends = np.cumsum(arrays[0].chunks[0]).tolist()
    delayed = zip(*(array.to_delayed().ravel() for array in arrays), strict=True)
    for start, end, own in zip([0, *ends], ends, delayed, strict=False):
        if end > start:
            yield slice(start, end), list(own)


def _summed(block: Callable[..., Any], add: Callable[[Sequence[Any]], Any], rows: Any, labels: Any, parts: Any) -> Any:
    """Compute ``block(rows, labels, parts)`` of every block, and add them up in a tree."""
    work, total = dask.delayed(_naming_rows), dask.delayed(add)
    return _in_a_tree([work(block, place.start, *own, parts) for place, own in _blocks(rows, labels)], total)


def _in_a_tree(level: list[Any], total: Callable[[list[Any]], Any]) -> Any:
    """Compute delayed values, and add them up a few at a time, always in the same order."""
    while len(level) > 1:
        level = [total(level[first : first + FAN_IN]) for first in range(0, len(level), FAN_IN)]
    return _computed(level)[0]


def _computed(values: list[Any], how: Callable[..., Any] = dask.compute) -> list[Any]:
    with warnings.catch_warnings():
        # What all blocks share may be large, but it is sent once.
        warnings.filterwarnings("ignore", message="Sending large graph")
        return list(how(*values))


class _SpreadProducts:
    """What `PairProducts` are of pairs in memory, of blocks of pairs that stay with the features on their workers.

    Parameters
    ----------
    products : PairProducts
        Of the same features and all pairs, whose order is that of rows and columns.
    table : list of dask arrays
        Positions (n, 2), then labels and weights, if there are any, in any order.
    places : array of shape (n, 2)
        The positions, in memory.
    """

    def __init__(self, products: PairProducts, table: list[Any], places: np.ndarray) -> None:
        shared, made = _shared(products.left, products.right), dask.delayed(_PairBlock)
        blocks = [(place, made(own[0], *own[2:], shared=shared)) for place, own in _blocks(*table)]
        self._ends = [place.stop for place, _ in blocks[:-1]]
        # A worker that is lost takes blocks along, which are made anew of what they were made of.
        self._blocks = _computed([block for _, block in blocks], dask.persist)
        self._order, self._dtype = np.lexsort(places.T[::-1]), products.left.dtype
        self._ones: tuple[Array, float] | None = None

    def values(self, function: Array) -> Array:
        """Return the values (n,) at the pairs of a function W (r, s)."""
        work, sent = dask.delayed(_PairBlock.values), _shared(function)
        return np.concatenate(_computed([work(block, sent) for block in self._blocks]))[self._order]

    def gathered(self, values: Array) -> Array:
        """Return the sum (r, s) of products of the features of all pairs, times values (n,)."""
        given = np.empty_like(values)
        given[self._order] = values
        work, parts = dask.delayed(_PairBlock.gathered), np.split(given, self._ends)
        level = [work(block, part) for block, part in zip(self._blocks, parts, strict=True)]
        return _in_a_tree(level, dask.delayed(sum))

    def normal(self, function: Array, weights: Array | None, *, free_mean: bool) -> Array:
        """Return what `PairProducts.normal` does; nothing as long as the pairs comes to the caller."""
        work, sent = dask.delayed(_PairBlock.normal), _shared(function)
        found, total = _in_a_tree([work(block, sent) for block in self._blocks], dask.delayed(_sums))
        if not free_mean:
            return found
        if self._ones is None:
            ones = np.ones(len(self._order), dtype=self._dtype) if weights is None else weights
            self._ones = self.gathered(ones), float(np.sum(ones))
        return found - total / self._ones[1] * self._ones[0]


def _by_block(block: Callable[..., Any], arrays: list[Any], parts: Any, width: int, dtype: Any) -> Any:
    """Return the dask array (m, width) whose blocks are ``block(*blocks of the arrays, parts)``."""
    return da.map_blocks(
        _located,
        *arrays,
        block=block,
        parts=parts,
        dtype=dtype,
        chunks=(arrays[0].chunks[0], (width,)),
        meta=np.empty((0, 0), dtype=dtype),
    )


def _sample(rows: Any, labels: Any, size: int) -> tuple[Array, Array]:
    """Return at most `size` rows (n, p), evenly spread, and their labels (n, q)."""
    count = min(size, rows.shape[0])
    places = np.arange(count) * rows.shape[0] // count
    take = dask.delayed(take_rows)
    picked = []
    for place, own in _blocks(rows, labels):
        inside = places[(places >= place.start) & (places < place.stop)] - place.start
        if len(inside):
            picked += [take(part, inside) for part in own]
    found = _computed(picked)
    return _stacked(found[::2]), _stacked(found[1::2])


def _stacked(parts: list[Array]) -> Array:
    return sparse.vstack(parts, format="csr") if is_sparse(parts[0]) else np.concatenate(parts)


def _collected(model: OnlineTwoStepRidge, rows: Any, labels: Any, like: Any) -> Statistics:
    """Return the statistics of all rows, for the tasks of `like` and told apart as there."""
    # The tasks go to the workers but do not come back with every block.
    sides: dict[str, Any] = {"tasks": like.tasks, "task_gram": like.task_gram, "task_mean": like.task_mean}
    sent = {"constant": like.has_constant, **({} if like.per_task else sides)}
    total: Statistics = _summed(_block_statistics, _merged, rows, labels, _shared(_map_of(model), sent))
    return replace(total, **sides, per_task=like.per_task)


# What a worker does ------------------------------------------------------------------------------


def _naming_rows(block: Callable[..., Any], start: int, *arguments: Any) -> Any:
    """Call `block`, and say in errors about its rows where they lie."""
    try:
        return block(*arguments)
    except ValueError as error:
        kind = LeverageError if isinstance(error, LeverageError) else ValueError
        raise kind(f"In the block that begins with row {start}: {error}") from error


def _located(*blocks: Array, block: Callable[..., Array], parts: tuple[Any, ...], block_info: Any = None) -> Array:
    """Call `block` as a part of a dask array; a block without rows has an answer without rows."""
    info = block_info[None]
    if blocks[0].shape[0] == 0:
        return np.empty(info["chunk-shape"], dtype=info["dtype"])
    return _naming_rows(block, info["array-location"][0][0], *blocks, parts)


def _features(block: Array, feature_map: Any) -> Array:
    rows = check_matrix(block, "X", accept_sparse=True)
    return rows if feature_map is None else mapped(rows, feature_map, "feature_map")


def _block_statistics(block: Array, labels: Array, parts: tuple[Any, ...]) -> Statistics:
    feature_map, known = parts
    Phi, Y = _features(block, feature_map), check_matrix(labels, "Y", accept_sparse=True)
    return replace(collect(Phi, Y, **known), tasks=None, task_gram=None, task_mean=None)


class _PairBlock:
    """Pairs of a block, in the order in which they came, and the features of both sides.

    Parameters
    ----------
    places : integer array of shape (n, 2)
    weights : array of shape (n,) or None
    shared : (array of shape (m, r), array of shape (q, s))
        Features of both sides, which all blocks on a worker have in common.
    """

    def __init__(self, places: np.ndarray, weights: np.ndarray | None = None, *, shared: tuple[Array, Array]) -> None:
        left, right = shared
        rows, columns = (column.astype(np.intp) for column in places.T)
        self._order = np.lexsort((columns, rows))
        weights = None if weights is None else weights[self._order].astype(left.dtype)
        shape = int(left.shape[0]), int(right.shape[0])
        labels = PairLabels(rows[self._order], columns[self._order], self._order, shape, weights)
        self._products, self._weights = PairProducts(left, right, labels), weights

    def __sizeof__(self) -> int:
        # With the features, so that work comes to a block and not the block to the work.
        return int(sum(part.nbytes for part in (self._order, self._products.left, self._products.right)))

    def values(self, sent: tuple[Array]) -> Array:
        """Return the values of a function at the pairs."""
        found = self._products.values(sent[0])
        given = np.empty_like(found)
        given[self._order] = found
        return given

    def gathered(self, values: Array) -> Array:
        """Return the sum of products of the features of the pairs, times values."""
        return self._products.gathered(values[self._order])

    def normal(self, sent: tuple[Array]) -> tuple[Array, float]:
        """Return the same for the weighted values of a function, and the sum of these."""
        values = self._products.values(sent[0])
        values = values if self._weights is None else values * self._weights
        return self._products.gathered(values), float(np.sum(values))


def _sums(parts: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
    images, totals = zip(*parts, strict=True)
    return sum(images), sum(totals)


def _merged(statistics: Sequence[Statistics]) -> Statistics:
    return reduce(merge, statistics)


def _block_errors(block: Array, labels: Array, parts: tuple[Any, ...]) -> Array:
    feature_map, ridge, alphas, task_alphas, setting = parts
    Phi, Y = _features(block, feature_map), check_matrix(labels, "Y", accept_sparse=True)
    columns = task_alphas if ridge.task_inverse is not None else task_alphas[:1]
    errors = where_defined(lambda a, b: online_squared_errors(ridge, Phi, Y, a, b, setting), alphas, columns)
    return Y.shape[0] * errors  # blocks of other sizes weigh otherwise


def _block_holdout(block: Array, labels: Array, parts: tuple[Any, ...]) -> Array:
    feature_map, ridge, setting, dtype = parts
    Phi, Y = _features(block, feature_map), check_matrix(labels, "Y", accept_sparse=True)
    return cast(online_holdout(ridge, Phi, Y, setting), dtype)


def _block_predictions(block: Array, parts: tuple[Any, ...]) -> Array:
    feature_map, mean, coefficients, tasks = parts
    return sandwich(instance_rows(_features(block, feature_map), mean), coefficients, tasks)
