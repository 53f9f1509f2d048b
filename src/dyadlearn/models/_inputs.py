"""How what users hand in becomes what a model works on: order by ids, sizes, memory, dtypes, positions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    float_dtype,
    is_foreign,
    is_sparse,
    matmul,
    namespace,
    on_device,
    to_numpy,
)
from dyadlearn._checks import check_matrix, reading_numbers
from dyadlearn._codes import Column
from dyadlearn._memory import SideSize, check_memory, solve_numbers
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, in_order, is_whole, lies_on_its_side, read_table
from dyadlearn.exceptions import IdError
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.models._side import KernelSpec, check_rows
from dyadlearn.pairing import Pairing


class Tasks(Stored):
    """Tasks that no cross-validation will slice.

    scikit-learn cuts any array-like metadata as long as `X` into training and test rows. With as
    many tasks as instances that would cut the tasks too. A holder is not array-like, so it is
    passed on whole.

    Parameters
    ----------
    array : array, sparse matrix or frame of shape (q, r) or (q, q)
        The features or the kernel of the tasks.

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
        return f"Tasks({type(self.array).__name__}{'' if shape is None else f' of shape {tuple(shape)}'})"


def unwrap_tasks(tasks: Any) -> Any:
    """Return the array in a `Tasks` holder, or what came without one."""
    return tasks.array if isinstance(tasks, Tasks) else tasks


def align_side(table: Table, target: Ids | None, spec: KernelSpec, name: str, target_name: str) -> Table:
    """Bring a side's table into the order of the labels; where these have ids, its rows have them too."""
    if spec.is_precomputed and table.column_ids is not None:
        row_ids = table.row_ids or table.column_ids
        if len(row_ids) == len(table.column_ids):
            table = replace(table, row_ids=row_ids)
            table = table.columns_as(row_ids, f"the columns of {name}", f"the rows of {name}")
    if target is None:
        return table
    if table.row_ids is not None and len(table.row_ids) == len(target):
        order = table.row_ids.order_as(target, name, target_name)
        table = table.take(order, order if spec.is_precomputed else None)
    return replace(table, row_ids=target)


def in_training_order(table: Table, spec: KernelSpec, ids: Ids | None, name: str) -> Table:
    """Bring the columns of a precomputed kernel block into the order of the training ids."""
    if not spec.is_precomputed or table.column_ids is None or ids is None:
        return table
    known = set(ids.labels)
    if table.row_ids is not None and not known & set(table.column_ids.labels) and known <= set(table.row_ids.labels):
        raise IdError(
            f"{name} lies on its side: the ids of training are in its rows, and belong in its columns, with a row for "
            "each that is predicted for. Transpose it."
        )
    return table.columns_as(ids, f"the columns of {name}", "the training data")


def check_names(expected: Ids | None, found: Ids | None, owner: str) -> None:
    """Refuse features that are called otherwise than in training, or stand in another order, as scikit-learn does."""
    if expected is None or found is None or expected.labels == found.labels:
        return
    remedy = "give it the features that it had"
    if set(expected.labels) == set(found.labels):
        remedy = "put its columns in the order that they had"
    raise ValueError(
        f"The feature names of {owner} should match those that were passed during fit, in the same order: expected "
        f"{list(expected.labels)[:5]}, found {list(found.labels)[:5]}; {remedy}."
    )


def checked_tasks(
    table: Table, spec: KernelSpec, names: Ids | None, n_columns: int, *, allow_nan: bool = False
) -> Array:
    """Return the rows of tasks to predict for, with the columns that those of training had."""
    if not spec.is_precomputed:
        check_names(names, table.column_ids, "tasks")
    rows = check_rows(table.values, spec, "tasks", allow_nan=allow_nan)
    if rows.shape[1] != n_columns:
        what = "kernel values with the training tasks" if spec.is_precomputed else "features"
        raise ValueError(f"tasks has {rows.shape[1]} columns, expected {n_columns} {what}.")
    return rows


def read_rows(
    model: Any, given: Any, axis: int, spec: KernelSpec, ids: Ids | None, names: Ids | None, n_columns: int
) -> tuple[Table, Array]:
    """Return instances (axis 0) or tasks to predict for, as a table with their ids, and their rows.

    Parameters
    ----------
    model : Predictor
    given : array, sparse matrix, frame or Tasks
    axis : int
    spec : KernelSpec
        The kernel of the side.
    ids, names : Ids or None
        Of the rows and of the columns of training.
    n_columns : int
        Number of columns that rows of training had.
    """
    name = ("X", "tasks")[axis]
    table = in_training_order(read_table(unwrap_tasks(given), name), spec, ids, name)
    if axis:
        return table, checked_tasks(table, spec, names, n_columns, allow_nan=model.allows_nan)
    if not table.is_native and not spec.is_precomputed:
        check_names(names, table.column_ids, name)  # as scikit-learn does with those of frames
    return table, model._validated_instances(table, spec, reset=False)


def check_orientation(form: Table, instances: Table, tasks: Table | None) -> None:
    """Tell somebody whose labels lie on their side, where ids show it."""
    if lies_on_its_side(form.row_ids, form.column_ids, instances.row_ids, None if tasks is None else tasks.row_ids):
        raise IdError(
            "Y lies on its side: its columns are the ids of X, and instances belong in the rows. Transpose Y"
            + ("." if tasks is None else ", or exchange X and tasks.")
        )


def check_sizes(rows: Array, labels: Any, task_rows: Array | None) -> None:
    """Refuse labels that are not one for each instance and task; what fits the other way round is told."""
    turned = rows.shape[0] == labels.shape[1] and (task_rows is None or task_rows.shape[0] == labels.shape[0])
    hint = " It fits the other way round: transpose Y" + ("." if task_rows is None else ", or exchange X and tasks.")
    if rows.shape[0] != labels.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} instances, but Y has {labels.shape[0]} rows: give one row of labels per instance."
            + (hint if turned else "")
        )
    if task_rows is not None and task_rows.shape[0] != labels.shape[1]:
        raise ValueError(
            f"tasks has {task_rows.shape[0]} rows, but Y has {labels.shape[1]} columns: give one row per task. If "
            "scikit-learn cut the tasks because they are as many as the instances, hand them in a Tasks holder."
        )


def fit_numbers(
    pairing: type[Pairing], shape: tuple[int, int], sides: Sequence[SideSize], *, complete: bool, weighted: bool = False
) -> dict[str, float]:
    """Return the numbers that each step of a fit takes, by what it does: decompose instances and tasks, and solve.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    shape : (int, int)
        Of the grid.
    sides : one or two of SideSize
        What is decomposed: instances, and tasks where there are any.
    complete : bool
        Whether all labels are observed and none has a weight.
    weighted : bool, default=False
    """
    # The labels are copied, and so are weights.
    steps, kept = {}, (2.0 if weighted else 1.0) * shape[0] * shape[1]
    for name, side in zip(("instance", "task"), sides, strict=False):
        what, columns = ("kernel", side.n_rows) if side.form in ("gram", "kernel") else ("features", side.n_columns)
        steps[f"Decomposing the {side.n_rows} × {columns} {name} {what}"] = kept + side.decomposing
        kept += side.kept
    ranks, coupled = [side.rank for side in sides], pairing.knows_tasks
    steps[f"Fitting a grid of {shape[0]} × {shape[1]}"] = sum(side.kept for side in sides) + solve_numbers(
        shape, ranks, coupled=coupled, complete=complete, weighted=weighted
    )
    return steps


def check_fit_memory(pairing: type[Pairing], labels: Array, sides: Sequence[SideSize], *, weighted: bool) -> None:
    """Refuse a fit that does not fit in memory.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    labels : array of shape (m, q)
        As they came; NaN where not observed.
    sides : one or two of SideSize
        What will be decomposed.
    weighted : bool
        Whether there are weights.
    """
    xp, shape = namespace(labels), tuple(labels.shape)
    complete = not weighted and not bool(xp.any(xp.isnan(labels)))
    steps = fit_numbers(pairing, shape, sides, complete=complete, weighted=weighted)
    purpose = max(steps, key=lambda name: steps[name])
    check_memory(8 * steps[purpose], labels, purpose)


def moved(arrays: dict[str, Array | None], device: str | None) -> list[Array | None]:
    """Return arrays by their names on the device that a model has, or as they are where it has none."""
    if device is None:
        return list(arrays.values())
    for name, array in arrays.items():
        if array is not None and is_foreign(array):
            raise ValueError(
                f"device={device!r} is for arrays of numpy, found {name} of another library, which is computed where "
                "it lives: move it there, and leave device out."
            )
        if is_sparse(array):
            raise TypeError(
                f"device={device!r} takes dense arrays, found {name} sparse: give it as {name}.toarray(), or leave "
                "device out."
            )
    return [None if array is None else on_device(array, device) for array in arrays.values()]


def check_labels_given(y: Any, model: Any, remedy: str = ": give a grid of labels") -> None:
    """Refuse to learn without labels, in the words of scikit-learn."""
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None{remedy}.")


def read_weights(sample_weight: Any, shape: tuple[int, int], form: Table) -> np.ndarray:
    """Return weights as they came, of shape (), (m,), (m, 1) or (m, q), in the order of labels that have some ids."""
    values = to_numpy(in_order(sample_weight, form.row_ids, form.column_ids, "sample_weight"))
    with reading_numbers(values, "sample_weight"):
        values = np.asarray(values, dtype=np.float64)
    m, q = shape
    if values.shape not in ((), (m,), (m, 1), (m, q)):
        raise ValueError(
            f"sample_weight must give a weight for each of {m} instances or for each of {m} × {q} cells, found shape "
            f"{values.shape}."
        )
    check_weights(values)
    return values


def check_weights(values: np.ndarray) -> None:
    """Refuse weights that are none."""
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("sample_weight must hold finite numbers of at least 0, found NaN, infinity or less.")


def checked_filter(filter: SpectralFilter | None, name: str) -> SpectralFilter:
    """Return a filter, Tikhonov's where none is given."""
    if filter is None:
        return Tikhonov()
    if not isinstance(filter, SpectralFilter):
        raise TypeError(f"{name} must be a spectral filter such as Tikhonov(), found {filter!r}.")
    return filter


def is_fitted(estimator: Any) -> bool:
    """Tell whether any estimator of scikit-learn's kind has been fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def mapped(rows: Array, feature_map: Any, name: str) -> Array:
    """Return the features that a fitted map, or a matrix (p, d), makes of rows; messages call it by `name`."""
    if hasattr(feature_map, "transform"):
        return check_matrix(feature_map.transform(rows), f"What {name} returns", accept_sparse=True)
    if feature_map.shape[0] != rows.shape[1]:
        raise ValueError(f"{name} has {feature_map.shape[0]} rows, expected {rows.shape[1]}: one for each feature.")
    return matmul(rows, feature_map)


def groups_in_order(form: Table, groups: Any, task_groups: Any) -> tuple[Any, Any]:
    """Return what is left out together, instances and tasks, in the order of the labels where both have ids."""
    groups = in_order(groups, form.row_ids, None, "groups")
    return groups, in_order(task_groups, form.column_ids, None, "task_groups")


def result_dtype(*pairs: tuple[Array | None, Any]) -> Any:
    """Return the precision that a user receives, the widest of some arrays.

    Whole numbers and booleans have no say; where there is nothing else, it is double precision.

    Parameters
    ----------
    *pairs : (array, given)
        A checked array, or None, and what it was read from.
    """
    present = [(array, given) for array, given in pairs if array is not None]
    floats = [array for array, given in present if not is_whole(unwrap_tasks(given))]
    return float_dtype(*floats) if floats else namespace(*(array for array, _ in present)).float64


def in_range(labels: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and predictions in units whose squares do not overflow, for a score that units do not change."""
    size = float(np.nanmax(np.abs(labels), initial=0.0))
    safe = float(np.sqrt(np.finfo(labels.dtype).max)) * 1e-10
    return (labels, predicted) if size <= safe else (labels / size, predicted / size)


def among(wanted: Iterable[Hashable], training: Sequence[Hashable]) -> np.ndarray:
    """Return where ids stand among those of training, -1 where they do not."""
    where = {label: place for place, label in enumerate(training)}
    return np.array([where.get(label, -1) for label in wanted], dtype=np.intp)


def positions(wanted: Column, ids: Ids | None, n_rows: int, name: str, given: str = "pairs") -> np.ndarray:
    """Return row positions from ids, or check positions that were given by an argument of some name."""
    if ids is not None:
        return ids.positions(wanted.tolist() if isinstance(wanted, np.ndarray) else wanted, name)
    is_whole_array = isinstance(wanted, np.ndarray) and wanted.dtype.kind in "iu"
    if not is_whole_array and not all(isinstance(position, int | np.integer) for position in wanted):
        raise TypeError(f"{name} has no ids, so {given} must give whole row positions into it.")
    found = np.asarray(wanted, dtype=np.intp)
    if found.size and (found.min() < 0 or found.max() >= n_rows):
        raise ValueError(f"{given} points outside {name}: positions {found.min()} to {found.max()} in {n_rows} rows.")
    return found
