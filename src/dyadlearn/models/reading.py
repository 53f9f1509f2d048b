"""Check the user's input and bring labels, instances and tasks into one order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    copied,
    float_dtype,
    is_foreign,
    is_sparse,
    matmul,
    namespace,
    on_device,
    take_rows,
    to_numpy,
)
from dyadlearn._checks import (
    check_feature_names,
    check_instances,
    check_labels,
    check_matrix,
    check_no_infinity,
    check_same_library,
    reading_numbers,
)
from dyadlearn._codes import (
    Column,
    identical_rows,
    label_array,
    nearly_identical_rows,
    pair_numbers,
)
from dyadlearn._memory import SideSize, check_memory, fits_in_memory, solve_numbers
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import (
    Ids,
    Table,
    in_order,
    is_whole,
    library_of,
    looks_transposed,
    read_table,
)
from dyadlearn._work import products
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.folds import Fold
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.kernels.similarity import THRESHOLD, Similarity, threshold_of
from dyadlearn.labels import Labels, read_labels, symmetric_labels
from dyadlearn.models.side import KernelSpec, check_rows, side_size
from dyadlearn.models.spec import ModelSpec
from dyadlearn.pairing import Coupled, Pairing
from dyadlearn.pairing.expansion import SMALL_GRID
from dyadlearn.settings import Setting
from dyadlearn.solve.observed import product_costs


class Tasks(Stored):
    """Wrap the tasks so that cross-validation of scikit-learn does not slice them.

    scikit-learn slices all array-like metadata with as many rows as `X` into training and test
    rows. If there are as many tasks as instances, it would slice the tasks too. This wrapper is not
    array-like, so it is passed on unchanged.

    Parameters
    ----------
    array : array, sparse matrix or frame of shape (q, r) or (q, q)
        The tasks: their features, or the kernel between them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn import config_context
    >>> from sklearn.model_selection import cross_validate
    >>> from dyadlearn import Tasks, TwoStepRidge
    >>> rng = np.random.default_rng(0)
    >>> X, T, Y = rng.normal(size=(6, 2)), rng.normal(size=(6, 3)), rng.normal(size=(6, 6))
    >>> with config_context(enable_metadata_routing=True):
    ...     model = TwoStepRidge().set_fit_request(tasks=True).set_score_request(tasks=False)
    ...     result = cross_validate(model, X, Y, cv=3, params={"tasks": Tasks(T)})
    >>> result["test_score"].shape
    (3,)
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        shape = getattr(self.array, "shape", None)
        if shape is None:
            return f"Tasks({type(self.array).__name__})"
        return f"Tasks({type(self.array).__name__} of shape {tuple(shape)})"


# What to do if tasks have lost rows.
_SLICED = (
    "If scikit-learn has sliced the tasks because there are as many as instances, pass them as "
    "Tasks(tasks)."
)


def unwrap_tasks(tasks: Any) -> Any:
    """Return the array in a `Tasks` object; return any other object unchanged."""
    return tasks.array if isinstance(tasks, Tasks) else tasks


def align_side(
    table: Table, target: Ids | None, spec: KernelSpec, name: str, target_name: str
) -> Table:
    """Return a side's table in the order of the labels, with their ids if they have any."""
    columns = table.column_ids
    if (
        spec.is_precomputed
        and columns is not None
        and len(table.row_ids or columns) == len(columns)
    ):
        table = table.squared(name)
    if target is None:
        return table
    if table.row_ids is not None and not _are_other_numbers(table.row_ids, target):
        try:
            order = table.row_ids.order_as(target, name, target_name)
        except IdError as error:
            if name == "tasks" and len(table.row_ids) < len(target):
                raise IdError(f"{error} {_SLICED}") from None
            raise
        table = table.take(order, order if spec.is_precomputed else None)
    return replace(table, row_ids=target)


def _are_other_numbers(ids: Ids, target: Ids) -> bool:
    """Return whether both are numbers of rows, of different numbers of rows, which `check_sizes` reports."""
    numbers = [each.labels == tuple(range(len(each))) for each in (ids, target)]
    return all(numbers) and len(ids) != len(target)


def in_training_order(table: Table, spec: KernelSpec, ids: Ids | None, name: str) -> Table:
    """Return the rows of a precomputed kernel with columns in the order of the training ids."""
    if not spec.is_precomputed or table.column_ids is None or ids is None:
        return table
    known = set(ids.labels)
    if (
        table.row_ids is not None
        and not known & set(table.column_ids.labels)
        and known <= set(table.row_ids.labels)
    ):
        raise IdError(
            f"{name} looks transposed: the training ids are in its rows, not in its columns; pass "
            f"{name}.T."
        )
    return table.columns_as(ids, f"the columns of {name}", "the training data")


def check_names(expected: Ids | None, names: Ids | None, owner: str) -> None:
    """Raise if feature names or their order differ from the training data, as scikit-learn does."""
    if expected is not None and names is not None:
        check_feature_names(expected.labels, names.labels, owner)


def checked_tasks(
    table: Table, spec: KernelSpec, names: Ids | None, n_columns: int, *, allow_nan: bool = False
) -> Array:
    """Return the rows of tasks to predict for; raise if their columns differ from the training tasks."""
    if not spec.is_precomputed:
        check_names(names, table.column_ids, "tasks")
    rows = check_rows(table.values, spec, "tasks", allow_nan=allow_nan)
    if rows.shape[1] != n_columns:
        if spec.is_precomputed:
            what = "kernel values with the training tasks"
        else:
            what = "features"
        raise ValueError(
            Message(
                "<tasks> has {n_found} columns, expected {n_columns} {what}.",
                n_found=rows.shape[1],
                n_columns=n_columns,
                what=what,
            )
        )
    return rows


@dataclass(frozen=True)
class Known:
    """Training rows of a side, with which new rows are compared.

    Attributes
    ----------
    owner : str
        Class of the model, for messages.
    spec : KernelSpec
        The kernel of the side.
    ids, names : Ids or None
        Row ids and column names.
    n_columns : int
        Number of columns.
    feature_names : array of str or None
        Names of the features of the instances as scikit-learn knows them.
    allow_nan : bool
        Whether features may be NaN.
    """

    owner: str
    spec: KernelSpec
    ids: Ids | None
    names: Ids | None
    n_columns: int
    feature_names: np.ndarray | None = None
    allow_nan: bool = False


def read_rows(new: Any, axis: int, known: Known) -> tuple[Table, Array]:
    """Return the table, with ids, and the checked rows of instances (axis 0) or tasks to predict for.

    Parameters
    ----------
    new : array, sparse matrix, frame or Tasks
    axis : int
    known : Known
        Training rows.
    """
    name = ("X", "tasks")[axis]
    spec = known.spec
    table = in_training_order(read_table(unwrap_tasks(new), name), spec, known.ids, name)
    if axis:
        rows = checked_tasks(table, spec, known.names, known.n_columns, allow_nan=known.allow_nan)
        return table, rows
    if not hasattr(table.values, "columns") and not spec.is_precomputed:
        # scikit-learn checks the names of pandas frames itself
        check_names(known.names, table.column_ids, name)
    rows, _ = check_instances(
        table,
        known.owner,
        is_kernel=spec.is_precomputed,
        allow_nan=spec.may_be_nan(known.allow_nan),
        n_features=known.n_columns,
        feature_names=known.feature_names,
    )
    return table, rows


def check_orientation(form: Table, instances: Table, tasks: Table | None) -> None:
    """Raise if ids show that the labels are transposed."""
    task_ids = None
    remedy = "pass Y.T"
    if tasks is not None:
        task_ids = tasks.row_ids
        remedy = "pass Y.T, or exchange X and tasks"
    if looks_transposed(form.row_ids, form.column_ids, instances.row_ids, task_ids):
        raise IdError(
            f"Y looks transposed: its columns have the ids of X, but instances must be in the "
            f"rows; {remedy}."
        )


def check_sizes(rows: Array, labels: Any, task_rows: Array | None) -> None:
    """Raise if the shape of Y does not match X and tasks; the message says whether Y looks transposed."""
    is_transposed = rows.shape[0] == labels.shape[1] and (
        task_rows is None or task_rows.shape[0] == labels.shape[0]
    )
    hint = " Y looks transposed: pass Y.T" + (
        "." if task_rows is None else ", or exchange X and tasks."
    )
    if rows.shape[0] != labels.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} instances, but Y has {labels.shape[0]} rows: give one row of "
            f"labels per instance." + (hint if is_transposed else "")
        )
    if task_rows is not None and task_rows.shape[0] != labels.shape[1]:
        raise ValueError(
            f"tasks has {task_rows.shape[0]} rows, but Y has {labels.shape[1]} columns: give one "
            f"row per task. {_SLICED}"
        )


def fit_numbers(
    pairing: type[Pairing],
    shape: tuple[int, int],
    sides: Sequence[SideSize],
    *,
    complete: bool,
    weighted: bool,
) -> dict[str, float]:
    """Return how many numbers each step of a fit stores, by step: decompose instances, decompose tasks, solve.

    Parameters
    ----------
    pairing : type of Pairing
        Class of the pairing to fit.
    shape : (int, int)
        Shape of the grid.
    sides : one or two of SideSize
        Sizes of the sides to decompose: instances, and tasks if there are any.
    complete : bool
        Whether all labels are observed and unweighted.
    weighted : bool
    """
    # Labels and weights are copied.
    steps = {}
    stored = (2.0 if weighted else 1.0) * shape[0] * shape[1]
    for name, side in zip(("instance", "task"), sides, strict=False):
        if side.form in ("gram", "kernel"):
            what, columns = ("kernel", side.n_rows)
        else:
            what, columns = ("features", side.n_columns)
        decomposing, kept = side.numbers
        steps[f"Decomposing the {side.n_rows} × {columns} {name} {what}"] = stored + decomposing
        stored += kept
    options = {"coupled": pairing.knows_tasks, "complete": complete, "weighted": weighted}
    solving = solve_numbers(shape, [side.rank for side in sides], **options)
    steps[f"Fitting a grid of {shape[0]} × {shape[1]}"] = (
        sum(side.numbers[1] for side in sides) + solving
    )
    return steps


def moved(arrays: dict[str, Array | None], device: str | None) -> list[Array | None]:
    """Return arrays on the device of a model; unchanged if it has none."""
    if device is None:
        return list(arrays.values())
    for name, array in arrays.items():
        if array is not None and is_foreign(array):
            raise ValueError(
                Message(
                    "<device={device!r}> is for numpy arrays: move {name} to the device, and "
                    "leave <device=> out.",
                    device=device,
                    name=name,
                )
            )
        if is_sparse(array):
            raise TypeError(
                Message(
                    "<device={device!r}> takes dense arrays, found <{name}> sparse: [give it as "
                    "{name}.toarray()|give a file of a dense matrix].",
                    device=device,
                    name=name,
                )
            )
    return [None if array is None else on_device(array, device) for array in arrays.values()]


def check_labels_given(y: Any, owner: str, remedy: str = ": give a grid of labels") -> None:
    """Raise if y is None, with the message of scikit-learn about an estimator of a class."""
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None{remedy}.")


def is_fitted(estimator: Any) -> bool:
    """Return whether a scikit-learn estimator is fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def mapped(rows: Array, feature_map: Any, name: str) -> Array:
    """Return rows mapped by a fitted transformer or by a matrix (p, d); `name` is its name in messages."""
    if hasattr(feature_map, "transform"):
        return check_matrix(
            feature_map.transform(rows), f"The output of {name}", accept_sparse=True
        )
    if feature_map.shape[0] != rows.shape[1]:
        raise ValueError(
            f"{name} has {feature_map.shape[0]} rows, expected {rows.shape[1]}: one for each "
            f"feature."
        )
    return matmul(rows, feature_map)


def groups_in_order(data: Any, groups: Any, task_groups: Any) -> tuple[Any, Any]:
    """Return groups of instances and of tasks, in the order of the labels if both have ids.

    Parameters
    ----------
    data : Training or Fitted
    groups, task_groups : array-like, None, "identical", "similar" or "similar:0.6"
        "identical" puts rows with equal descriptions into one group, and "similar" rows whose
        normalised kernel is at least a threshold.
    """
    in_order_of_labels = []
    sides = (
        ("groups", groups, data.form.row_ids),
        ("task_groups", task_groups, data.form.column_ids),
    )
    for axis, (name, groups_of_side, ids) in enumerate(sides):
        if isinstance(groups_of_side, str):
            in_order_of_labels.append(_described_groups(data, axis, name, groups_of_side))
        else:
            in_order_of_labels.append(in_order(groups_of_side, ids, None, name, n_columns=1))
    return in_order_of_labels[0], in_order_of_labels[1]


def _described_groups(data: Any, axis: int, name: str, word: str) -> np.ndarray:
    """Return groups of rows with equal or similar descriptions; raise if there is no such word or description."""
    threshold = threshold_of(word, name)
    codes: np.ndarray | None = None
    if word == "identical":
        codes = data.identical(axis)
    elif threshold is not None:
        similarity = data.similarity(axis)
        codes = None if similarity is None else similarity.groups(threshold)
    if codes is None:
        raise ValueError(
            f"{name} must be one label per row, or 'identical' or 'similar:{THRESHOLD}' for "
            f"features, found {word!r}."
        )
    if threshold is not None and len(codes) > 1 and codes.max() == 0:
        side = ("instances", "tasks")[axis]
        raise ValueError(
            Message(
                "All {n} {side} are one group, connected by similarities of at least {threshold:g}: "
                "<{name}> needs a larger threshold, such as similar:{larger:g}.",
                n=len(codes),
                side=side,
                threshold=threshold,
                name=name,
                larger=(1 + threshold) / 2,
            )
        )
    return codes


def result_dtype(*pairs: tuple[Array | None, Any]) -> Any:
    """Return the precision of results: the widest precision of the arrays.

    Integers and booleans are ignored. Without floating-point arrays the result is double precision.

    Parameters
    ----------
    *pairs : (array, given)
        A checked array, or None, and the user's object from which it was read.
    """
    present = [(array, original) for array, original in pairs if array is not None]
    floats = [array for array, original in present if not is_whole(unwrap_tasks(original))]
    if floats:
        return float_dtype(*floats)
    return namespace(*(array for array, _ in present)).float64


def in_range(labels: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and predictions, rescaled if their squares would overflow; for scores that ignore the scale."""
    size = float(np.nanmax(np.abs(labels), initial=0.0))
    safe = float(np.sqrt(np.finfo(labels.dtype).max)) * 1e-10
    if size <= safe:
        return labels, predicted
    return labels / size, predicted / size


def among(wanted: Iterable[Hashable], training: Sequence[Hashable]) -> np.ndarray:
    """Return the positions of ids among the training ids, -1 for new ids."""
    where = {label: place for place, label in enumerate(training)}
    return np.array([where.get(label, -1) for label in wanted], dtype=np.intp)


def positions(
    wanted: Column, ids: Ids | None, n_rows: int, name: str, source: str = "pairs"
) -> np.ndarray:
    """Return row positions from ids, or check positions that were given by an argument of some name."""
    if ids is not None:
        return ids.positions(wanted.tolist() if isinstance(wanted, np.ndarray) else wanted, name)
    is_whole_array = isinstance(wanted, np.ndarray) and wanted.dtype.kind in "iu"
    if not is_whole_array and not all(
        isinstance(position, int | np.integer) for position in wanted
    ):
        raise TypeError(f"{name} has no ids, so {source} must give whole row positions into it.")
    places = np.asarray(wanted, dtype=np.intp)
    if places.size and (places.min() < 0 or places.max() >= n_rows):
        raise ValueError(
            f"{source} points outside {name}: positions {places.min()} to {places.max()} in "
            f"{n_rows} rows."
        )
    return places


# Cost of the vectors of a solver: in one iteration, about ten passes over all cells of a grid, or
# over all pairs with their places. They are limited by memory; a number stands for as many
# multiplications of a matrix product.
_CELL_COST = 360
_PAIR_COST = 1800

#: Pairs that labels of new rows can be added for.
FOLD_IN = "new instances with training tasks, or of training instances with new tasks"


def is_large(shape: tuple[int, int]) -> bool:
    """Return whether a grid is so large that it is formed only if that is cheaper.

    A small grid is always formed, because it has formulas that a list of pairs has not.
    """
    return math.prod(shape) > SMALL_GRID


def read_given_labels(y: Any) -> tuple[Labels, Table]:
    """Return the checked labels, and a table without values that holds their ids and their type.

    Parameters
    ----------
    y : array, frame, series, sparse matrix, Table or Labels
        Labels; in a sparse matrix, cells that are not stored are not observed.
    """
    if isinstance(y, Labels):
        return y, Table(None)
    if isinstance(y, Table) and is_sparse(y.values):  # read from a long table and already checked
        return Labels.from_sparse(y.values), replace(y, values=None)
    if is_sparse(y):
        return _read_list(y), Table(None)
    grid = read_labels(y)
    check_labels(grid.values)
    return Labels.of_grid(grid.values), replace(grid, values=None)


def few_labels(labels: Any, form: Table, shape: tuple[int, ...]) -> np.ndarray:
    """Return known labels of new rows as a grid of a shape (a, b), NaN where not known.

    Parameters
    ----------
    labels : array, frame or Table
        Labels; a table with ids may lack rows and columns.
    form : Table
        Table without values: the ids of the grid.
    shape : (int, int)
    """
    table = read_labels(labels, "labels")
    values = to_numpy(table.values)
    grid = np.full(shape, np.nan)
    check_no_infinity(values, "labels")
    sides = zip(
        (table.row_ids, table.column_ids),
        (form.row_ids, form.column_ids),
        values.shape,
        shape,
        strict=True,
    )
    words = (("rows", "the instances to predict for"), ("columns", "the tasks to predict for"))
    places = []
    for (ids, wanted, n, expected), (lines, where) in zip(sides, words, strict=True):
        if ids is not None and wanted is not None:
            places.append(wanted.positions(ids.labels, where))
        elif n == expected:
            places.append(np.arange(n))
        else:
            raise ValueError(
                f"labels has {n} {lines}, expected {expected}: give NaN where a label is not known."
            )
    grid[np.ix_(*places)] = values
    return grid


def _read_list(y: Any) -> Labels:
    """Return the stored labels of a sparse matrix, without NaN."""
    labels = Labels.from_sparse(y)
    if labels.values.dtype.kind not in "fiub":
        raise TypeError(f"Y must hold real numbers, found {labels.values.dtype}.")
    values = labels.values
    if values.dtype != np.float32:
        values = values.astype(np.float64)
    labels = replace(labels, values=values).take(~np.isnan(values))
    if not labels.size:
        raise ValueError("Y stores no label: give at least one observed label.")
    if np.isinf(labels.values).any():
        raise ValueError(f"Input Y contains infinity or a value too large for {values.dtype!r}.")
    if (
        labels.size > 1
        and labels.size < math.prod(labels.shape)
        and (labels.values == labels.values[0]).all()
    ):
        raise ValueError(
            Message(
                "All {n_labels} labels[ that Y stores|] are {label:g}, and [cells that a sparse "
                "matrix does not store|pairs that are not listed] are not observed, so there is "
                "nothing to learn: if [its zeros are labels too, pass Y.toarray()|they are 0, "
                "give --fill 0].",
                n_labels=labels.size,
                label=labels.values[0],
            )
        )
    return labels


def nonnegative(numbers: Any, name: str) -> np.ndarray:
    """Return numbers as a numpy array; raise if one is negative or not finite."""
    with reading_numbers(numbers, name):
        if is_foreign(numbers):
            numbers = to_numpy(numbers)
        values = np.asarray(numbers, dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            f"{name} must hold finite numbers of at least 0, found NaN, infinity or a negative one."
        )
    return values


def with_weights(labels: Labels, sample_weight: Any, form: Table) -> Labels:
    """Return labels with their weights, without those of weight zero.

    Parameters
    ----------
    labels : Labels
    sample_weight : array-like, series or frame of shape (m,), (q,) or (m, q), or None
        Weights of instances, of tasks or of labels; for a list of labels also a sparse matrix with
        one weight per label. Ids, else the length, tell instances from tasks; where m = q and there
        are no ids, a vector is of the instances, and a row (1, q) of the tasks.
    form : Table
        Table with the ids of the labels.
    """
    if sample_weight is None:
        return labels
    if labels.grid is None and is_sparse(sample_weight):
        values = nonnegative(
            _at_places(sample_weight, labels, "sample_weight", "a weight"), "sample_weight"
        )
    else:
        values = _weights_of_labels(labels, sample_weight, form)
    if (values == 1).all():
        return labels
    positive = values > 0
    if not (positive & labels.observed).any():
        raise ValueError(
            "sample_weight is zero wherever Y is observed: give some cells a positive weight."
        )
    labels = replace(labels, weights=as_array_of(values.copy(), labels.values))
    return labels if positive.all() else labels.hide(~positive)


def _weights_of_labels(labels: Labels, sample_weight: Any, form: Table) -> np.ndarray:
    """Return the weight of each label, in the shape of the labels; arguments as in `with_weights`."""
    m, q = labels.shape
    if q > 1 and _are_of_tasks(sample_weight, form, (m, q)):
        ids: tuple[Ids | None, Ids | None] = (form.column_ids, None)
        if _shape_of(sample_weight) == (1, q):
            ids = (None, form.column_ids)
        weights = in_order(sample_weight, *ids, "sample_weight")
        values = nonnegative(to_numpy(weights), "sample_weight").reshape(-1)
        if values.shape == (q,):
            return np.asarray(labels.at(values, 1))
    else:
        weights = in_order(sample_weight, form.row_ids, form.column_ids, "sample_weight")
        values = nonnegative(to_numpy(weights), "sample_weight")
    shape = tuple(map(int, values.shape))
    if shape not in ((), (m,), (m, 1), (m, q)):
        raise ValueError(
            f"sample_weight must give a weight for each of {m} instances, {q} tasks or {m} × {q} "
            f"cells, found shape {shape}."
        )
    if values.ndim < 2 or values.size < m * q:
        values = labels.at(np.broadcast_to(values.reshape(-1), labels.shape[:1]), 0)
    else:
        values = labels.of(values)
    return np.asarray(values)


def _shape_of(values: Any) -> tuple[int, ...]:
    """Return the shape of an array, frame or series, or that of a list of numbers or of lists."""
    shape = getattr(values, "shape", None)
    if shape is None:
        return np.shape(values)
    return tuple(shape)


def _are_of_tasks(sample_weight: Any, form: Table, shape: tuple[int, int]) -> bool:
    """Return whether weights are those of the tasks: by their ids, else by their shape."""
    m, q = shape
    of_weights = _shape_of(sample_weight)
    if of_weights == (1, q):
        return m > 1
    if len(of_weights) != 1:
        return False
    if library_of(sample_weight) is not None:
        ids = own_ids(read_table(sample_weight, "sample_weight", describes=False).row_ids)
        if ids is not None:
            kinds = []
            for known in (form.row_ids, form.column_ids):
                kinds.append(known is not None and not ids.lacking(known.labels))
            if any(kinds):
                return not kinds[0]
    return of_weights == (q,) and m != q


def _at_places(matrix: Any, labels: Labels, name: str, what: str) -> np.ndarray:
    """Return the stored values of a sparse matrix at the positions of the labels; raise if one is missing."""
    stored = Labels.from_sparse(matrix, name)
    m, q = labels.shape
    if stored.shape != labels.shape:
        raise ValueError(
            f"{name} is sparse and of shape {stored.shape}, but Y is of shape {(m, q)}."
        )
    known, wanted = (pair_numbers(*cells.places, q) for cells in (stored, labels))
    absent = np.flatnonzero(~np.isin(wanted, known))
    if absent.size:
        row, column = (places[absent[0]] for places in labels.places)
        raise ValueError(
            f"{name} is sparse and must store {what} for every label of Y, but it stores none for "
            f"{absent.size} of "
            f"{labels.size} labels, the first in row {row} and column {column}."
        )
    return np.asarray(stored.values[np.searchsorted(known, wanted)])


def prefers_pairs(
    pairing: type[Pairing],
    labels: Labels,
    sides: Sequence[SideSize],
    like: Array,
) -> bool:
    """Return whether to solve for the list of pairs: if the grid does not fit in memory or costs more.

    Parameters
    ----------
    pairing : type of Pairing
        Class of the pairing to fit.
    labels : Labels
    sides : sequence of SideSize
    like : array
        Array on the device of the computation.
    """
    weighted = labels.weights is not None
    takes_pairs = len(sides) == 2 and issubclass(pairing, Coupled) and pairing.takes_pairs
    if not takes_pairs or not is_large(labels.shape):
        return False
    need = fit_numbers(pairing, labels.shape, sides, complete=False, weighted=weighted)
    if not fits_in_memory(array_bytes(None, max(need.values())), like):
        return True
    # Multiplications of matrix products, in one iteration of a solver on the grid and on the pairs.
    m, q = labels.shape
    k, r = (side.rank for side in sides)
    by_grid = products((min(m, 2 * k), m, q), (min(q, 2 * r), m, q), (_CELL_COST, m, q))
    of_pairs = min(product_costs(labels.shape, labels.size, (k, r), like))
    return products((2, of_pairs), (_PAIR_COST, labels.size)) < by_grid


def cells_of(labels: Labels, form: Table, cells: Any) -> Any:
    """Return one fold per label, from a grid of folds or from a sparse matrix, which has a fold for each label."""
    if is_sparse(cells):
        folds = _at_places(cells, labels, "cells", "a fold")
        return labels.shaped(folds, folds[0])  # missing labels are in any fold
    cells = in_order(cells, form.row_ids, form.column_ids, "cells", n_columns=labels.shape[1])
    if not (cells is None or isinstance(cells, list | tuple)):
        cells = label_array(cells)
    is_grid = getattr(cells, "ndim", 1) == 2 and tuple(cells.shape) == labels.shape
    return labels.of(cells) if is_grid else cells


@dataclass(frozen=True, eq=False)
class Training:
    """Training data of a model, checked and in one order.

    Attributes
    ----------
    sides : tuple of one or two Table
        Instances and, if they are described, tasks: features, which may be sparse, or kernels, in
        their original precision.
    labels : Labels
        Labels with their weights, in double precision.
    form : Table
        Table without values: the ids of both sides and the type of returned predictions.
    precision : {"float32", "float64"}
        Precision of returned arrays: "float32" if features and labels are all float32.
    are_kernels : (bool, bool)
        Whether the table of each side is a kernel, with one column per row.
    feature_names : array of str or None
        Names of the features of the instances as scikit-learn knows them.
    kernels : tuple of KernelSpec
        Kernel of each side; linear if it is not given.
    """

    sides: tuple[Table, ...]
    labels: Labels
    form: Table
    precision: str = "float64"
    are_kernels: tuple[bool, bool] = (False, False)
    feature_names: np.ndarray | None = None
    kernels: tuple[KernelSpec, ...] = ()

    @property
    def has_tasks(self) -> bool:
        """Whether the tasks are described."""
        return len(self.sides) > 1

    def part(self, *places: np.ndarray) -> Training:
        """Return the training data of some instances and tasks."""
        form = replace(self.form.take(*places), is_vector=False)
        sides = tuple(self.rows(axis, at, at) for axis, at in enumerate(places[: len(self.sides)]))
        labels = self.labels.part(*places)
        return replace(self, sides=sides, labels=labels, form=form, feature_names=None)

    def identical(self, axis: int) -> np.ndarray | None:
        """Return equal codes for instances (axis 0) or tasks with equal rows; None if the side has no table."""
        if axis >= len(self.sides):
            return None
        codes_of = nearly_identical_rows if self.are_kernels[axis] else identical_rows
        return codes_of(self.sides[axis].values)

    def similarity(self, axis: int) -> Similarity | None:
        """Return the similarities of instances (axis 0) or tasks by their kernel; None if the side has no table."""
        if axis >= len(self.sides):
            return None
        kernel: Any = "precomputed" if self.are_kernels[axis] else "linear"
        params = None
        if self.kernels:
            kernel = self.kernels[axis].kernel
            params = self.kernels[axis].params
        return Similarity.of_table(self.sides[axis].values, kernel, params)

    def rows(self, axis: int, asked: np.ndarray, training: np.ndarray) -> Table:
        """Return the table of some instances (axis 0) or tasks; for a kernel, only the columns of `training`."""
        return self.sides[axis].take(asked, training if self.are_kernels[axis] else None)


def read_training(spec: ModelSpec, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Training:
    """Check the data of a model, and return them in one order.

    Parameters
    ----------
    spec : ModelSpec
    X, y, tasks, sample_weight : as in `RidgeModel.fit`
    """
    if spec.sign and sample_weight is not None:
        raise ValueError("A network does not support weights of edges: leave sample_weight out.")
    check_labels_given(y, spec.name)
    labels, form = read_given_labels(y)
    if spec.sign:
        if tasks is not None:
            raise ValueError(
                Message(
                    "A network has one set of nodes: pass their features or kernel as <X>, and "
                    "leave <tasks> out."
                )
            )
        labels, form = symmetric_labels(labels.dense(), form, spec.sign)
    tables, form, feature_names = read_sides(spec.name, (X, tasks), form, spec.kernels)
    tables, labels = _moved_together(spec, tables, labels)
    sizes = [
        side_size(table.values, kernel, name)
        for table, kernel, name in zip(tables, spec.kernels, ("instance", "task"), strict=False)
    ]
    if not spec.uses_tasks:
        sizes = sizes[:1]
    arrays = [table.values for table in tables]
    dtype = result_dtype(*zip(arrays, (X, tasks), strict=False), (labels.values, y))
    labels = with_weights(labels, sample_weight, form)
    labels = _in_cheaper_form(spec, labels, sizes, arrays[0])
    doubled = labels.in_double()
    if doubled is labels:
        # The labels are stored for later solves, so they must not change with the caller's array.
        doubled = replace(labels, values=copied(labels.values))
    are_kernels = (spec.kernels[0].is_precomputed, spec.kernels[1].is_precomputed)
    precision = f"float{namespace(arrays[0]).finfo(dtype).bits}"
    more = (precision, are_kernels, feature_names, spec.kernels)
    return Training(tables, doubled, form, *more)


def _moved_together(
    spec: ModelSpec, tables: tuple[Table, ...], labels: Labels
) -> tuple[tuple[Table, ...], Labels]:
    """Return tables and labels on the device of the model, after checking their libraries and sizes."""
    # A list of labels is moved to the library of X; a grid must be of that library.
    named = {"X": tables[0].values, "Y": labels.grid}
    named["tasks"] = tables[1].values if len(tables) > 1 else None
    check_same_library(named)
    rows, values, task_rows = moved(named, spec.device)
    if values is None:
        values = as_array_of(labels.values, rows)
    labels = replace(labels, values=values)
    check_sizes(rows, labels, task_rows)
    arrays = (rows, task_rows)
    sides = zip(tables, arrays, strict=False)
    return tuple(replace(table, values=array) for table, array in sides), labels


def read_sides(
    owner: str,
    sides: tuple[Any, Any],
    form: Table,
    specs: tuple[KernelSpec, KernelSpec],
    *,
    allow_nan: bool = False,
) -> tuple[tuple[Table, ...], Table, np.ndarray | None]:
    """Return the checked tables of the sides, in the order of the labels.

    Parameters
    ----------
    owner : str
        Class of the model, for messages.
    sides : (X, tasks)
        As in `RidgeModel.fit`.
    form : Table
        Table with the ids of the labels.
    specs : (KernelSpec, KernelSpec)
        Kernel of each side.
    allow_nan : bool, default=False
        Whether features may be NaN.

    Returns
    -------
    tables : tuple of one or two Table
    form : Table
        The form of the labels with ids.
    feature_names : array of str or None
        Names of the features of the instances as scikit-learn knows them.
    """
    instances = read_table(sides[0], "X")
    table = None
    if sides[1] is not None:
        table = read_table(unwrap_tasks(sides[1]), "tasks")
    check_orientation(form, instances, table)
    instances = align_side(instances, form.row_ids, specs[0], "X", "the rows of Y")
    form = replace(form, row_ids=instances.row_ids)
    if table is not None:
        table = align_side(table, form.column_ids, specs[1], "tasks", "the columns of Y")
        form = replace(form, column_ids=table.row_ids)
    rows, feature_names = check_instances(
        instances,
        owner,
        is_kernel=specs[0].is_precomputed,
        allow_nan=specs[0].may_be_nan(allow_nan),
    )
    instances = replace(instances, values=rows)
    if table is None:
        return (instances,), form, feature_names
    task_rows = check_rows(table.values, specs[1], "tasks", allow_nan=allow_nan)
    return (instances, replace(table, values=task_rows)), form, feature_names


def _in_cheaper_form(
    spec: ModelSpec, labels: Labels, sides: Sequence[SideSize], like: Array
) -> Labels:
    """Return labels as a grid, or as a list of pairs if that costs less; raise if neither fits in memory."""
    pairing = spec.pairing_type(len(sides) > 1)
    weighted = labels.weights is not None
    m, q = labels.shape
    may_stay = labels.dense_numbers > 0 and spec.takes_pairs
    if may_stay and prefers_pairs(pairing, labels, sides, like):
        # Eigenvectors of both sides, rotated copies of them, and the pairs.
        held = [(2, side.n_rows, side.rank) for side in sides]
        squares = [(5, side.rank, side.rank) for side in sides]
        rotated = (8, *(side.rank for side in sides))
        need = array_bytes(None, *held, *squares, rotated, (12, labels.size))
        remedy = "use fewer features of both sides, for example by Landmarks"
        check_memory(need, like, f"Fitting {labels.size} pairs of {m} × {q}", remedy)
        return labels
    complete = not weighted and labels.size == m * q
    steps = fit_numbers(pairing, (m, q), sides, complete=complete, weighted=weighted)
    purpose = max(steps, key=lambda name: steps[name])
    check_memory(array_bytes(None, steps[purpose]), labels.values, purpose)
    return labels.dense()


def without_fold(data: Training, setting: Setting, fold: Fold) -> tuple[Training, list[Any]]:
    """Return the training data without a fold, and the rows of each side to predict for.

    Parameters
    ----------
    data : Training
    setting : Setting
        In A labels are hidden and all rows remain; in the other settings rows of a side are
        removed.
    fold : Fold

    Returns
    -------
    data : Training
    asked : list of two arrays or None
        Features, or kernel values with the remaining rows; None means the rows on which the model
        is fitted.
    """
    if setting is Setting.A:  # an instance or task without remaining labels still has features
        return replace(data, labels=data.labels.hide(fold.left)), [None, None]
    asked: list[Any] = [None, None]
    for axis in setting.new:
        if axis < len(data.sides):  # else the side is not described
            asked[axis] = data.rows(axis, fold.leaving[axis], fold.staying[axis]).values
    return data.part(*fold.staying), asked


def fold_predictions(predicted: Array, fold: Fold) -> Array:
    """Return the predictions of the labels of a fold, selected from predictions of its block or of the whole grid."""
    flat = namespace(predicted).reshape(predicted, (-1,))
    # The test labels are a block in all settings except A.
    if flat.shape[0] == fold.test.size:
        return flat
    return take_rows(flat, fold.test)
