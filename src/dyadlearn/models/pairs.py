"""Model of long tables, whose rows are pairs of ids and a value, and the tables in which ids are looked up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import (
    Array,
    as_array_of,
    float_dtype,
    is_foreign,
    is_sparse,
    namespace,
    take_rows,
    to_numpy,
)
from dyadlearn._checks import check_choice
from dyadlearn._codes import Column, distinct, id_columns
from dyadlearn._messages import Message
from dyadlearn._registry import listed
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, check_id_types, in_rows_of, is_whole, read_table, shown
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.holdout.baselines import means_for_unknown
from dyadlearn.kernels.descriptions import Descriptions, own_ids, read_descriptions
from dyadlearn.kernels.structures import Structures
from dyadlearn.labels import Labels, LongPairs, averaged_pairs, read_numbers
from dyadlearn.models import reading
from dyadlearn.models.base import GridModel, TableModel
from dyadlearn.models.fitted import Asked, FittedRidge, as_fitted
from dyadlearn.models.intervals import interval_grids
from dyadlearn.models.side import KernelSpec
from dyadlearn.models.structures import (
    StructuralEntities,
    chosen_columns,
    named_columns,
    structure_columns,
)
from dyadlearn.pairing.pair_kernel import knows_rows
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import in_order, members_of


@dataclass(frozen=True, eq=False)
class Entities:
    """Features or kernels of all instances, or of all tasks: one table, or several descriptions.

    Attributes
    ----------
    tables : Table or Descriptions
        A matrix with optional feature names, or descriptions without ids.
    ids : Ids
        Ids of all rows.
    side : str
        Name of the side in messages: "instances" or "tasks".
    is_kernel : bool
        Whether the single table is a kernel.
    """

    tables: Table | Descriptions
    ids: Ids
    side: str
    is_kernel: bool = False

    @property
    def names(self) -> Ids | None:
        """Feature names of the single table; None for several descriptions, which check their names themselves."""
        if isinstance(self.tables, Table):
            return self.tables.column_ids
        return None

    @property
    def base(self) -> Ids | None:
        """Ids of all rows of several descriptions, in the order of kernel columns; None for a single table."""
        return None if isinstance(self.tables, Table) else self.ids

    @property
    def arrays(self) -> list[Array]:
        """Values of all tables."""
        tables = [self.tables] if isinstance(self.tables, Table) else self.tables.tables.values()
        return [table.values for table in tables]

    def looked_up(
        self,
        wanted: Sequence[Hashable],
        training: Sequence[Hashable],
        base: Ids | None = None,
        kernels: Collection[str] = (),
    ) -> Any:
        """Return the rows of some ids; for a kernel, only the columns of the training ids.

        Parameters
        ----------
        wanted, training : sequences of ids
        base : Ids, default=None
            For several descriptions: ids of all rows when the model was fitted. None means that the
            model is being fitted.
        kernels : names
            Names of the descriptions that are kernels; their columns are reordered as `base`.
        """
        rows = self._positions(wanted)
        if isinstance(self.tables, Table):
            taken = take_rows(self.tables.values, rows)
            if self.is_kernel:
                return take_rows(taken.T, self._positions(training)).T
            return taken
        if base is None or base.labels == self.ids.labels:
            return self.tables[rows]
        self._positions(training)  # raises if a training id is missing
        # Columns of removed ids are not used, because they are not training ids.
        columns = np.maximum(reading.among(base.labels, self.ids.labels), 0)
        tables = {
            name: table.take(rows, columns if name in kernels else None)
            for name, table in self.tables.tables.items()
        }
        then = reading.among(wanted, base.labels)
        return Descriptions(tables, np.where(then < 0, len(base) + rows, then), len(base))

    def _positions(self, wanted: Sequence[Hashable]) -> np.ndarray:
        remedy = f"add them to it by set_params({self.side}=…), or leave their pairs out"
        remedy += f" (its first id is {self.ids.labels[0]!r})"
        return positions_of(self.ids, wanted, self.side, f"not in the table {self.side}=", remedy)


# The entities of a side, in a table or described by their structures.
_Side = Entities | StructuralEntities


def read_entities(described: Any, model: GridModel, axis: int) -> _Side:
    """Return the table or descriptions of all instances (axis 0) or tasks, checked for the kernels of a model.

    Parameters
    ----------
    described : table, or Descriptions, mapping or list of tables, or Structures
    model : GridModel
    axis : int
    """
    side = ("instances", "tasks")[axis]
    described = reading.unwrap_tasks(described)
    if isinstance(described, Structures):
        return StructuralEntities(described, side)
    if described is None:
        raise ValueError(f"{side} is None: give the features or the kernel of the {side}.")
    several = read_descriptions(described, side)
    if several is None:
        return entities_of(described, model.kernel_specs()[axis], side)
    if not model.takes_descriptions:
        n = len(several.names)
        raise TypeError(
            f"{type(model).__name__} takes one table of the {side}, found {n} descriptions: use "
            f"LearnedKernelRidge."
        )
    if several.places is not None:
        raise ValueError(
            f"{side} are a selection of rows of other descriptions: give the complete descriptions."
        )
    ids = several.row_ids or Ids(tuple(range(len(several))))
    tables = {name: _bare(table, ids) for name, table in several.tables.items()}
    return Entities(Descriptions(tables, None, several.n_first), ids, side)


def entities_of(described: Any, spec: KernelSpec, name: str) -> Entities:
    """Return one table of entities, checked for a kernel; `name` is its name in messages."""
    table = _read_table(described, spec, name)
    ids = table.row_ids or Ids(tuple(range(table.values.shape[0])))
    return Entities(table, ids, name, spec.is_precomputed)


def positions_of(
    ids: Ids, wanted: Sequence[Hashable], side: str, where: str, remedy: str
) -> np.ndarray:
    """Return the positions of ids; raise an error with the number and some examples of unknown ids."""
    places = reading.among(wanted, ids.labels)
    unknown = [label for label, place in zip(wanted, places, strict=True) if place < 0]
    if unknown:
        raise IdError(
            Message(
                "{n_unknown} of {n_wanted} {side} are {where}: {unknown}; {remedy}.",
                n_unknown=len(unknown),
                n_wanted=len(wanted),
                side=side,
                where=where,
                unknown=shown(unknown),
                remedy=remedy,
            )
        )
    return places


def _read_table(described: Any, spec: KernelSpec, side: str) -> Table:
    """Return the table of a side: a matrix, its row ids and, for features, their names if there are any."""
    table = reading.align_side(read_table(described, side), None, spec, side, side)
    if table.kind is not None and table.row_ids is None:
        raise IdError(
            f"{side} is a frame of {table.kind} without ids: put them in its first column as text."
        )
    values = _matrix(table.values)
    if values.ndim != 2:
        raise ValueError(
            f"{side} must be a matrix with a row for each of the {side}, found shape "
            f"{values.shape}."
        )
    if spec.is_precomputed and values.shape[0] != values.shape[1]:
        raise KernelError(
            f"{side} must be a square matrix for a precomputed kernel, found shape "
            f"{tuple(values.shape)}."
        )
    names = None if spec.is_precomputed else table.column_ids
    return Table(values, table.row_ids, names)


def _matrix(values: Any) -> Array:
    """Return values as an array, or as a CSR matrix, whose rows can be selected."""
    if is_sparse(values):
        return values.tocsr()
    return values if is_foreign(values) else np.asarray(values)


def _bare(table: Table, ids: Ids) -> Table:
    """Return one description without ids; feature names are preserved."""
    names = own_ids(table.column_ids)
    if names is not None and set(names.labels) == set(ids.labels):
        names = None  # columns of a kernel, in the order of its rows
    return replace(table, values=_matrix(table.values), row_ids=None, column_ids=names, kind=None)


# Names in messages of instances and tasks that are not in the tables.
_SIDES = ("X", "tasks")


@dataclass(frozen=True, eq=False)
class KnownPairs(Stored):
    """Ids of the pairs that a model of long tables was fitted on, and their numbers.

    Attributes
    ----------
    ids : (tuple, tuple)
        Ids of the training instances and tasks, in the order of their first appearance.
    names : (Ids or None, Ids or None)
        Feature names of the table of each side.
    bases : (Ids or None, Ids or None)
        Ids of all rows of a side with several descriptions, at the time of the fit.
    n_dropped, n_repeated, n_contradicting : int
        As the attributes of `PairRegressor`.
    """

    ids: tuple[tuple[Hashable, ...], tuple[Hashable, ...]]
    names: tuple[Ids | None, Ids | None]
    bases: tuple[Ids | None, Ids | None]
    n_dropped: int
    n_repeated: int
    n_contradicting: int


@dataclass(frozen=True, eq=False)
class PairTables:
    """Tables in which ids are looked up, for a fitted model of long tables.

    Attributes
    ----------
    model : GridModel
        The fitted grid model.
    fitted : FittedRidge
        What it was fitted to, at one time.
    known : KnownPairs
        Training pairs.
    given_tables : (table, table)
        Tables of the instances and of the tasks, which may have more rows than the model was fitted
        on; None for a side without a table.
    """

    model: GridModel
    fitted: FittedRidge
    known: KnownPairs
    given_tables: tuple[Any, Any]

    def looked_up(self, wanted: Sequence[Hashable], axis: int) -> Any:
        """Return the rows of some instances (axis 0) or tasks in the tables; raise for new tasks without a table."""
        if not self.has_table(axis):
            self.training_tasks(wanted)  # raises for new tasks
        table = self.entities(axis)
        reading.check_names(self.known.names[axis], table.names, table.side)
        kernels = self.fitted.kernels_given(axis)
        return table.looked_up(wanted, self.known.ids[axis], self.known.bases[axis], kernels)

    def has_table(self, axis: int) -> bool:
        """Return whether new instances (axis 0) or tasks can be predicted from a table."""
        return axis == 0 or (self.given_tables[1] is not None and self.fitted.knows_tasks)

    def entities(self, axis: int) -> _Side:
        """Return the table of all instances (axis 0) or tasks."""
        return read_entities(self.given_tables[axis], self.model, axis)

    def lists(self, ids: Iterable[Hashable], axis: int) -> np.ndarray:
        """Return which of some instances (axis 0) or tasks the model can predict, by its tables."""
        if not self.has_table(axis):
            return reading.among(ids, self.known.ids[axis]) >= 0
        entities = self.entities(axis)
        if isinstance(entities, StructuralEntities):
            return np.array([label is not None for label in ids], dtype=bool)
        return reading.among(ids, entities.ids.labels) >= 0

    def places(self, ids: Sequence[Iterable[Hashable]]) -> list[np.ndarray]:
        """Return the training positions of instances and of tasks, -1 for new ones."""
        return list(map(reading.among, ids, self.known.ids))

    def training_tasks(self, wanted: Sequence[Hashable]) -> np.ndarray:
        """Return the training positions of tasks; raise for new ones."""
        if self.given_tables[1] is None:
            remedy: str = Message(
                "give <tasks=>, their features or kernel, to predict for new ones"
            )
        else:
            remedy = f"{self.fitted.name} has no task side and predicts training tasks only"
        ids = Ids(self.known.ids[1])
        return positions_of(ids, wanted, "tasks", "in no training pair", remedy)

    def given(self, described: Any, axis: int) -> Any:
        """Return instances (axis 0) or tasks that are not in the tables in the form that the wrapped model accepts.

        The wrapped model has no ids or names, so kernel columns and feature names are matched here.
        """
        spec = self.model.kernel_specs()[axis]
        if read_descriptions(reading.unwrap_tasks(described), _SIDES[axis]) is not None:
            return described
        table = read_table(reading.unwrap_tasks(described), _SIDES[axis])
        if table.kind is None and table.row_ids is None and table.column_ids is None:
            return described
        if spec.is_precomputed:
            training = Ids(self.known.ids[axis])
            table = reading.in_training_order(table, spec, training, _SIDES[axis])
        else:
            reading.check_names(self.known.names[axis], table.column_ids, _SIDES[axis])
        return replace(table, values=np.asarray(table.values), column_ids=None)


class PairRegressor(TableModel):
    r"""Fit a grid model on a long table with an instance id, a task id and a value in each row.

    The rows become a grid of the instances and tasks that occur in them, and the wrapped model is
    fitted on this grid. If the grid does not fit in memory, or if computing on the pairs is
    cheaper, Kronecker and two-step ridge are fitted on the list of pairs. Rows :math:`r` that
    repeat a pair are averaged with their weights. Pairs without a row are not observed:

    .. math:: Y_{it} = \frac{\sum_{r : (i, t)} w_r\, y_r}{\sum_{r : (i, t)} w_r}

    Features or kernels of instances and tasks are in two tables. They are looked up by id, and
    never sliced or copied. So cross-validation and searches of scikit-learn work on tables of
    pairs, in all four settings with `SettingKFold`.

    Parameters
    ----------
    model : TwoStepRidge, or any other model of a grid, with or without a search
        The model to fit; it is cloned. Its parameters are ``model__alpha`` and so on.
    instances : array, sparse matrix or frame of shape (M, d), or (M, M) for a precomputed kernel; or Descriptions
        Features of all instances to be used in training or prediction, or the kernel between them.
        Their ids are the index of a pandas frame, the first column of any other frame if it is
        text, or the row positions of an array. A model that accepts several descriptions of a side,
        such as `LearnedKernelRidge`, takes a mapping or a list of such tables too. With
        `dyadlearn.kernels.Structures` the ids are SMILES or sequences, which describe themselves.
    tasks : array, sparse matrix, frame or Tasks of shape (Q, r), or (Q, Q) for a precomputed kernel, default=None
        The same for the tasks. Without this table the model has no task side, and only training
        tasks can be predicted.
    unknown : {"error", "baseline"}, default="error"
        What `predict` does with ids that are in no table: raise an error, or predict a mean of the
        training labels. This is the mean of the labels of the other id of the pair, or of all
        labels if that has none. With `labels`, and in `predict_interval`, unknown ids raise an
        error in any case.

    Attributes
    ----------
    model_ : the fitted model
        The rows and columns of its grid are the instances and tasks of the training pairs.
    instance_ids_, task_ids_ : tuple of shape (m,) and (q,)
        Ids of the training instances and tasks, in the order of their first appearance.
    n_dropped_ : int
        Number of training rows that were left out, because an id or the value is missing or the
        weight is zero.
    n_repeated_, n_contradicting_ : int
        Number of training pairs with more than one row, and number of these pairs whose values
        differ.
    n_features_in_ : int
        2: an instance id and a task id.

    See Also
    --------
    dyadlearn.SettingKFold : splits of pairs for the four settings.
    dyadlearn.labels.to_grid : the grid of a long table, with its counts.

    Notes
    -----
    The tables are used in `predict`, not only in `fit`. To predict for instances that were added
    later, call
    ``set_params(instances=longer_table)``; refitting is not needed. A precomputed kernel must still contain the
    training instances.

    Examples
    --------
    >>> import pandas as pd
    >>> from dyadlearn import PairRegressor, TwoStepRidge
    >>> people = pd.DataFrame({"age": [0.2, 0.5, 0.9]}, index=["ann", "bob", "eve"])
    >>> drinks = pd.DataFrame({"heat": [0.9, 0.1], "sugar": [0.2, 0.7]}, index=["tea", "cola"])
    >>> pairs = [("ann", "tea"), ("ann", "cola"), ("bob", "tea"), ("bob", "cola"), ("bob", "cola")]
    >>> model = PairRegressor(TwoStepRidge(0.1, 0.1), instances=people, tasks=drinks)
    >>> model.fit(pairs, [0.1, 0.8, 0.4, 0.6, 0.4]).predict([("eve", "tea"), ("ann", "cola")]).round(2)
    array([0.43, 0.65])
    >>> model.n_repeated_, model.n_contradicting_
    (1, 1)
    """

    # scikit-learn treats a first argument that is not called X as metadata.
    __metadata_request__fit = {"pairs": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"pairs": UNUSED, "labels": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"pairs": UNUSED}  # noqa: RUF012

    model_: GridModel
    _known: KnownPairs
    _columns: tuple[str, str]

    _not_always = (*TableModel._not_always, "_columns")
    _shared = ("instances", "tasks")

    def __init__(
        self, model: Any, *, instances: Any = None, tasks: Any = None, unknown: str = "error"
    ) -> None:
        self.model = model
        self.instances = instances
        self.tasks = tasks
        self.unknown = unknown

    @classmethod
    def from_table(
        cls,
        model: Any,
        table: Any,
        *,
        label: str,
        smiles: str | Sequence[str] | None = None,
        sequence: str | Sequence[str] | None = None,
        fingerprint: str | Mapping[str, Any] = "morgan",
        sequence_kernel: str | None = None,
    ) -> Self:
        """Return a model that is fitted on one table, whose columns hold structures and labels.

        Equal structures are one instance or task: molecules with the same canonical SMILES, and
        proteins with the same letters. The first column of structures is that of the instances,
        the second that of the tasks; SMILES come before sequences. The kernels of the model are
        set to those of the structures. `predict` and `dyadlearn.predict_table` then take tables
        with these columns, of known and of new structures.

        Parameters
        ----------
        model : any model of a grid, with or without a search
            The model to fit; it is cloned.
        table : frame
        label : str
            Name of the column of the labels.
        smiles, sequence : str or list of str, default=None
            Names of the columns of SMILES and of sequences; two in all.
        fingerprint : str or mapping, default="morgan"
            Kind of the fingerprints, or options such as ``{"kind": "atom_pairs", "counts": True}``,
            see `dyadlearn.kernels.chemistry.fingerprints`.
        sequence_kernel : {"smith-waterman", "spectrum"}, default=None
            None means alignment, or k-mers with a warning if alignment would take minutes.

        Returns
        -------
        PairRegressor

        Examples
        --------
        >>> import pandas as pd
        >>> from dyadlearn import PairRegressor, TwoStepRidge
        >>> table = pd.DataFrame({
        ...     "drug": ["CCO", "CCCO", "OCC", "CCCO"],
        ...     "target": ["MKVLA", "MKVLA", "MKWWA", "MKWWA"],
        ...     "y": [1.0, 2.0, 3.0, 4.0],
        ... })
        >>> model = PairRegressor.from_table(TwoStepRidge(0.1, 0.1), table, smiles="drug", sequence="target",
        ...                                  label="y", sequence_kernel="spectrum")
        >>> model.instance_ids_
        ('CCO', 'CCCO')
        >>> model.predict(pd.DataFrame({"target": ["MKVLA"], "drug": ["CCCCO"]})).round(1)
        array([1.7])
        """
        if isinstance(fingerprint, str):
            options = {"kind": fingerprint}
        else:
            options = dict(fingerprint)
        kinds = chosen_columns(smiles, sequence)
        names = (kinds[0][1], kinds[1][1])
        columns = named_columns(table, names)
        (values,) = named_columns(table, [label])
        sides = []
        for (kind, _), column in zip(kinds, columns, strict=True):
            if kind == "smiles":
                sides.append(Structures(kind, None, options))
            else:
                sides.append(
                    Structures(kind, sequence_kernel).chosen(Structures(kind).read(column))
                )
        kernels = {"kernel": sides[0].of_model, "task_kernel": sides[1].of_model}
        regressor = cls(clone(model).set_params(**kernels), instances=sides[0], tasks=sides[1])
        regressor.fit(list(zip(*columns, strict=True)), values)
        regressor._columns = names
        return regressor

    def id_columns(self, pairs: Any, *, skip_invalid: bool = False) -> tuple[Column, Column]:
        """Return the ids of pairs, canonical for structures; `pairs` may be a table as in `from_table`.

        Parameters
        ----------
        pairs : as in `predict`
        skip_invalid : bool, default=False
            Whether structures that cannot be read are None instead of an error.
        """
        return id_columns(self._as_ids(pairs, skip_invalid), "pairs")

    def _as_ids(self, pairs: Any, skip_invalid: bool = False) -> Any:
        """Return pairs of ids, with canonical structures in place of the given ones."""
        sides = [
            side if isinstance(side, Structures) else None for side in (self.instances, self.tasks)
        ]
        names = getattr(self, "_columns", None)
        return structure_columns(pairs, sides, names, skip_invalid=skip_invalid)

    def fit(self, pairs: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model on all pairs with a value.

        Parameters
        ----------
        pairs : array, list of rows or frame, of shape (n, 2)
            An instance id and a task id in each row. Rows with a missing id are left out and
            counted in `n_dropped_`.
        y : array, list or series of shape (n,)
            Values of the pairs. Rows with NaN are left out and counted in `n_dropped_`. A series of
            pandas must have the index of a frame, in the same order; the default index 0, 1, 2, …
            goes by position beside other ids.
        sample_weight : array, list or series of shape (n,), or mapping, default=None
            Weights of the rows, at least 0; or a mapping of ids to weights, with one for each
            instance or for each task, such as ``{"ann": 2.0, "bob": 1.0}``. A repeated pair gets
            the weighted mean of its values and the sum of its weights. Without weights every pair
            has the same weight, however often it is repeated.

        Returns
        -------
        self
        """
        return self._fit_by(lambda *data: clone(self.model).fit(*data), pairs, y, sample_weight)

    def _fit_by(
        self,
        fitted: Callable[[Any, Labels, Any, Any], Any],
        pairs: Any,
        y: Any,
        sample_weight: Any = None,
    ) -> Self:
        """Store the model that a function fits on the grid of the pairs.

        Parameters
        ----------
        fitted : callable
            Function of instances, labels, tasks and weights that returns a fitted model.
        pairs, y, sample_weight : as in `fit`

        Returns
        -------
        self
        """
        unique, (instances, tasks), data = self._read(pairs, y, sample_weight)
        model = fitted(*data)
        known = KnownPairs(
            ids=(unique.instances, unique.tasks),
            names=(instances.names, None if tasks is None else tasks.names),
            bases=(instances.base, None if tasks is None else tasks.base),
            n_dropped=unique.n_dropped,
            n_repeated=unique.n_repeated,
            n_contradicting=unique.n_contradicting,
        )
        self.model_ = model
        self._known = known
        return self

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """2: an instance id and a task id."""
        check_is_fitted(self)
        return 2

    @property
    def instance_ids_(self) -> tuple[Hashable, ...]:
        """Ids of the training instances, in the order of their first appearance."""
        check_is_fitted(self)
        return self._known.ids[0]

    @property
    def task_ids_(self) -> tuple[Hashable, ...]:
        """Ids of the training tasks, in the order of their first appearance."""
        check_is_fitted(self)
        return self._known.ids[1]

    @property
    def n_dropped_(self) -> int:
        """Number of training rows that were left out."""
        check_is_fitted(self)
        return self._known.n_dropped

    @property
    def n_repeated_(self) -> int:
        """Number of training pairs with more than one row."""
        check_is_fitted(self)
        return self._known.n_repeated

    @property
    def n_contradicting_(self) -> int:
        """Number of training pairs with more than one row whose values differ."""
        check_is_fitted(self)
        return self._known.n_contradicting

    def _fits(self) -> bool:
        sizes = tuple(len(ids) for ids in self._known.ids)
        return sizes == tuple(self.model_.fitted_.labels.shape)

    def given_to_model(
        self, pairs: Any, y: Any, sample_weight: Any = None
    ) -> tuple[Any, Labels, Any, Any]:
        """Return the training data of the wrapped model: instances, labels, tasks, weights; arguments as in `fit`."""
        return self._read(pairs, y, sample_weight)[2]

    def _read(
        self, pairs: Any, y: Any, sample_weight: Any
    ) -> tuple[LongPairs, tuple[_Side, _Side | None], tuple[Any, Labels, Any, Any]]:
        """Return the distinct pairs, the tables of both sides, and the training data of the wrapped model."""
        model = self._checked_model()
        reading.check_labels_given(y, type(self).__name__, ": give a value per pair")
        first, second = id_columns(self._as_ids(pairs), "pairs")
        y = in_rows_of(y, pairs, "y", "pairs")
        sample_weight = in_rows_of(sample_weight, pairs, "sample_weight", "pairs")
        unique = averaged_pairs(first, second, y, sample_weight, weights_name="sample_weight")
        check_id_types(unique.instances, "The first column of pairs")
        check_id_types(unique.tasks, "The second column of pairs")
        instances = read_entities(self.instances, model, 0)
        tasks = None
        if self.tasks is not None:
            tasks = read_entities(self.tasks, model, 1)
        X = instances.looked_up(unique.instances, unique.instances)
        T = None
        if tasks is not None:
            T = tasks.looked_up(unique.tasks, unique.tasks)
        values = unique.values
        if is_whole(y):
            # Averages of integers get the precision of the features.
            sides = (*instances.arrays, *(() if tasks is None else tasks.arrays))
            values = values.astype(
                np.float32 if float_dtype(*sides) == namespace(*sides).float32 else np.float64
            )
        shape = (len(unique.instances), len(unique.tasks))
        labels = Labels((unique.rows, unique.columns), values, shape)
        weights = None
        if sample_weight is not None:
            weights = labels.to_sparse(unique.weights)
        return unique, (instances, tasks), (X, labels, T, weights)

    @property
    def fitted_(self) -> FittedRidge:
        """What the wrapped model was fitted to, with the ids of the pairs and the tables of both sides."""
        check_is_fitted(self)
        known = self._known
        fitted = as_fitted(self.model_)
        tables = PairTables(self.model_, fitted, known, (self.instances, self.tasks))
        ids = (Ids(known.ids[0]), Ids(known.ids[1]))
        form = replace(fitted.form, row_ids=ids[0], column_ids=ids[1])
        return fitted.with_tables(form, tables)

    def predict(self, pairs: Any, *, labels: Any = None) -> Array:
        """Predict the values of the given pairs.

        Parameters
        ----------
        pairs : array, list of rows or frame, of shape (n, 2)
            An instance id and a task id in each row. The ids must be in the tables, unless
            ``unknown="baseline"``. They need not occur in the training pairs.
        labels : (pairs, y), default=None
            Known pairs of the new instances (or of the new tasks) in `pairs` and their values, as
            in `fit`. All pairs must then be of new instances with training tasks, or of training
            instances with new tasks. The predictions are those of `TwoStepRidge.predict` with these
            labels.

        Returns
        -------
        array of shape (n,)
        """
        check_choice(self.unknown, "unknown", ("error", "baseline"))
        tables = self.fitted_.tables
        pairs = self._as_ids(pairs)
        if labels is None and self.unknown == "baseline":
            return _predict_or_mean(tables, pairs)
        return _predicted(tables, pairs, labels)

    def predict_interval(
        self, pairs: Any, *, coverage: float = 0.9, setting: str | Setting | None = None
    ) -> tuple[Array, Array]:
        """Return prediction intervals of the given pairs; ids that are not in the training pairs are new.

        Parameters
        ----------
        pairs : as in `predict`
        coverage, setting : as in `TwoStepRidge.predict_interval`

        Returns
        -------
        lower, upper : arrays of shape (n,)
        """
        tables = self.fitted_.tables
        fitted = tables.fitted
        asked = PairsAsked.of(tables, self._as_ids(pairs))
        new = list(asked.given)
        at = list(asked.at)
        for axis, training in enumerate(asked.training):
            if fitted.describes_by_labels and (training >= 0).all():
                # Such a model can use only its training rows, with the features that they had.
                new[axis] = None
                at[axis] = training
        _, rows = fitted.read(*new)
        places = tables.places(asked.ids)
        sides = [Asked(*side) for side in zip(rows, map(Ids, asked.ids), places, strict=True)]
        bounds = interval_grids(fitted, sides, coverage, setting, (at[0], at[1]))
        flat = at[0] * bounds[0].shape[1] + at[1]
        lower, upper = (take_rows(namespace(end).reshape(end, (-1,)), flat) for end in bounds)
        return lower, upper

    def score(self, pairs: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² over all pairs with a value.

        Parameters
        ----------
        pairs : as in `predict`
        y : array, list or series of shape (n,)
            True values; pairs with NaN are excluded.
        sample_weight : array, list or series of shape (n,), default=None

        Returns
        -------
        float
        """
        predicted = to_numpy(self.predict(pairs))
        y = in_rows_of(y, pairs, "y", "pairs")
        sample_weight = in_rows_of(sample_weight, pairs, "sample_weight", "pairs")
        truth = read_numbers(y, "y", len(predicted))
        if sample_weight is None:
            weights = None
        else:
            weights = read_numbers(sample_weight, "sample_weight", len(predicted))
        observed = ~np.isnan(truth)
        truth, predicted = reading.in_range(truth[observed], predicted[observed])
        return float(
            r2_score(truth, predicted, sample_weight=None if weights is None else weights[observed])
        )

    def _checked_model(self) -> GridModel:
        model = self.model
        check_choice(self.unknown, "unknown", ("error", "baseline"))
        if not isinstance(model, GridModel):
            raise TypeError(
                f"model must be a {listed(searches=False)}, or a search over one of them, found "
                f"{model!r}."
            )
        if model.symmetry is not None:
            raise ValueError(
                "A network has one set of nodes, but PairRegressor has two tables: fit the model "
                "itself."
            )
        return model


# Predictions of pairs ----------------------------------------------------------------------------------------------


class PairsAsked(NamedTuple):
    """Pairs to predict, as positions among their distinct instances and tasks.

    Attributes
    ----------
    given : list of two arrays or Descriptions
        Rows of the instances and of the tasks; None for the training tasks if the model has no task
        side.
    at : list of two integer arrays
        Positions of the instance and of the task of each pair in `given`.
    ids : list of two tuples
        Distinct ids of the instances and of the tasks.
    training : list of two integer arrays
        Positions of the instance and of the task of each pair in training, -1 for new ones.
    """

    given: list[Any]
    at: list[np.ndarray]
    ids: list[tuple[Hashable, ...]]
    training: list[np.ndarray]

    @classmethod
    def of(cls, tables: PairTables, pairs: Any) -> PairsAsked:
        """Return the distinct instances and tasks of pairs."""
        asked = cls([], [], [], [])
        for axis, column in enumerate(id_columns(pairs, "pairs")):
            at, ids = distinct(column, "pairs")
            if tables.has_table(axis):
                asked.given.append(tables.looked_up(ids, axis))
                training = reading.among(ids, tables.known.ids[axis])[at]
            else:
                asked.given.append(None)
                training = tables.training_tasks(ids)[at]
                at = training
            asked.at.append(at)
            asked.ids.append(tuple(ids))
            asked.training.append(training)
        return asked


def _predicted(tables: PairTables, pairs: Any, labels: Any = None) -> Array:
    """Return predictions of pairs whose ids are in the tables; arguments as in `PairRegressor.predict`."""
    asked = PairsAsked.of(tables, pairs)
    if labels is not None:
        return _predict_with(tables, labels, asked)
    if knows_rows(tables.fitted.pairing):
        return _predict_known(tables.fitted, asked)
    return tables.fitted.predicted_pairs(asked.given[0], asked.given[1], np.stack(asked.at, axis=1))


def _predict_or_mean(tables: PairTables, pairs: Any) -> Array:
    """Return predictions of pairs, by means of labels if an id is in no table."""
    columns = id_columns(pairs, "pairs")
    fitted = tables.fitted
    like = fitted.coefficients
    values = means_for_unknown(fitted.labels, tables.places(columns))
    listed = [tables.lists(column, axis) for axis, column in enumerate(columns)]
    here = np.flatnonzero(listed[0] & listed[1])
    if here.size:
        known = [tuple(column[row] for column in columns) for row in here]
        values[here] = to_numpy(_predicted(tables, known))
    return fitted.home(as_array_of(values, like, like.dtype))


def _predict_known(fitted: FittedRidge, asked: PairsAsked) -> Array:
    """Return predictions of pairs by a model that treats training instances or tasks differently from new ones."""
    first, second = asked.training
    members = members_of(2 * (first >= 0) + (second >= 0))
    pieces = []
    for here in members:
        rows = list(asked.given)
        at = [side[here] for side in asked.at]
        for axis, places in enumerate(asked.training):
            if places[here[0]] >= 0:
                rows[axis] = None
                at[axis] = places[here]
        pieces.append(fitted.predicted_pairs(rows[0], rows[1], np.stack(at, axis=1)))
    return in_order(pieces, members)


def _predict_with(tables: PairTables, labels: Any, asked: PairsAsked) -> Array:
    """Return predictions of pairs that are new on one side, with labels (pairs, y) of their new rows."""
    if not isinstance(labels, tuple | list) or len(labels) != 2:
        raise TypeError(
            f"labels must be a tuple (pairs, y) of known pairs, found {type(labels).__name__}."
        )
    training = asked.training
    new_sides = list(asked.given)
    at = list(asked.at)
    new = 0 if (training[0] < 0).all() else 1
    if not (training[new] < 0).all() or not (training[1 - new] >= 0).all():
        raise ValueError(
            f"labels= needs pairs of {reading.FOLD_IN}: predict other pairs without it."
        )
    known = tables.known.ids
    sides = [asked.ids[side] if side == new else known[side] for side in (0, 1)]
    y = in_rows_of(labels[1], labels[0], "y", "pairs")
    few = averaged_pairs(*id_columns(labels[0], "labels"), y, None, *sides).to_grid()
    new_sides[1 - new] = None
    at[1 - new] = training[1 - new]
    instances, tasks = new_sides
    predictions = tables.fitted.predicted_with(instances, tasks, few.grid, (None, None)).values
    flat = namespace(predictions).reshape(predictions, (-1,))
    return take_rows(flat, at[0] * len(sides[1]) + at[1])
