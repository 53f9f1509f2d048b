"""Long tables of cells: levels of each side with their kernels, and columns of fixed effects."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, copied, double, take_block, take_rows, to_numpy
from dyadlearn._codes import Column, distinct
from dyadlearn._columns import ids_of
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, check_id_types, near_miss
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels.gram import fitted_params, gram, gram_diagonal
from dyadlearn.kernels.repair import mended
from dyadlearn.models.pairs import entities_of, positions_of
from dyadlearn.models.reading import among
from dyadlearn.models.side import KernelSpec

# Share of a row of fixed columns outside of those of the labels that counts as rounding.
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class CellSide(Stored):
    """One side of the cells: its levels, and the kernel between them.

    Attributes
    ----------
    name : str
        Column of the table.
    ids : Ids
        Levels of the entities; without entities, those with labels.
    labelled : integer array of shape (m,)
        Positions of the levels with labels, in ascending order.
    rows : array of shape (l, d) or (l, l), or None
        Features of all levels, or the kernel between them; None if the kernel is the identity.
    spec : KernelSpec or None
        The kernel; None if it is the identity.
    """

    name: str
    ids: Ids
    labelled: np.ndarray
    rows: Any
    spec: KernelSpec | None

    def _fits(self) -> bool:
        n = len(self.ids)
        is_in = self.labelled.size > 0 and (self.labelled >= 0).all() and (self.labelled < n).all()
        if (self.rows is None) != (self.spec is None) or not is_in:
            return False
        return self.rows is None or self.rows.shape[0] == n

    @classmethod
    def of(cls, name: str, used: Column, entities: Any, spec: KernelSpec | None) -> CellSide:
        """Return the side of some labels.

        Parameters
        ----------
        name : str
        used : column
            Ids of the labels.
        entities : table or None
        spec : KernelSpec or None
        """
        _, levels = distinct(used, f"The column {name!r}")
        check_id_types(levels, f"The column {name!r}")
        if spec is None:
            return cls(name, Ids(tuple(levels)), np.arange(len(levels)), None, None)
        described = entities_of(entities, spec, f"entities[{name!r}]")
        where = f"not in the table entities[{name!r}]"
        remedy = "add them to it, or leave their labels out"
        places = positions_of(described.ids, levels, f"levels of {name!r}", where, remedy)
        assert isinstance(described.tables, Table)
        # Predictions must not change when the caller's array does.
        rows = double(copied(described.tables.values))
        if spec.is_precomputed:
            rows = mended(rows, spec.repair, f"The kernel of {name!r}")
        return cls(name, described.ids, np.unique(places), rows, spec)

    def find(self, column: Column) -> np.ndarray:
        """Return the position of each id of a column; -1 for levels without a description, if none is needed."""
        codes, levels = distinct(column, f"The column {self.name!r}")
        if self.spec is None:
            found = among(levels, self.ids.labels)
            new = [level for level, place in zip(levels, found, strict=True) if place < 0]
            alike = near_miss(new, self.ids.labels)
            if alike is not None:
                raise IdError(
                    f"The column {self.name!r} has the level {alike[0]!r}, and the labels have "
                    f"{alike[1]!r}, which differs in type or blanks only: write both alike."
                )
            return np.asarray(found[codes])
        where = f"not in the table entities[{self.name!r}]"
        remedy = "fit the model with a table that has them"
        known = positions_of(self.ids, levels, f"levels of {self.name!r}", where, remedy)
        return np.asarray(known[codes])

    @cached_property
    def kernel(self) -> Array | None:
        """Kernel (m, m) between the levels with labels; None if it is the identity."""
        if self.spec is None:
            return None
        return self.between(self.labelled, None)

    @property
    def _kernel_and_params(self) -> dict[str, Any]:
        """The kernel with its parameters, estimated from the levels with labels, as arguments of `gram`."""
        assert self.spec is not None
        known = take_rows(self.rows, self.labelled)
        params = fitted_params(self.spec.kernel, self.spec.params, known)
        return {"kernel": self.spec.kernel, "kernel_params": params}

    def between(self, at: np.ndarray, others: np.ndarray | None) -> Array:
        """Return the kernel (a, b) between the levels at some positions; None are those of `at` themselves."""
        assert self.spec is not None
        if self.spec.is_precomputed:
            return take_block(self.rows, at, at if others is None else others)
        right = None if others is None else take_rows(self.rows, others)
        kernel = gram(take_rows(self.rows, at), right, **self._kernel_and_params)
        if others is None and callable(self.spec.kernel):
            return mended(kernel, self.spec.repair, f"The kernel of {self.name!r}")
        return kernel

    def diagonal(self, at: np.ndarray) -> Array:
        """Return the kernel (a,) of the levels at some positions with themselves."""
        if self.spec is None:
            return np.ones(len(at))
        if self.spec.is_precomputed:
            return to_numpy(self.rows)[at, at]
        return gram_diagonal(take_rows(self.rows, at), **self._kernel_and_params)

    def rows_of(self, at: np.ndarray, like: Array) -> Array:
        """Return what `CellTerms.between` takes for the levels at some positions."""
        if self.spec is None:
            return among(at.tolist(), self.labelled.tolist())
        levels, places = np.unique(at, return_inverse=True)
        kernel = as_array_of(self.between(levels, self.labelled), like, like.dtype)
        return take_rows(kernel, places)


def side_kernel(kernel: Any, params: Any, repair: str, name: str) -> KernelSpec:
    """Return the kernel of a side with entities."""
    if kernel is not None and not isinstance(kernel, str) and not callable(kernel):
        raise KernelError(
            f"kernels[{name!r}] must be the name of a kernel, a function, or 'precomputed', found "
            f"{type(kernel).__name__}."
        )
    return KernelSpec("linear" if kernel is None else kernel, params, repair)


@dataclass(frozen=True, eq=False)
class FixedColumns(Stored):
    """Columns of fixed effects: a constant, numbers, and categories.

    A category has a column for each of its levels but the first; without a constant before it, the
    first category has a column for each level. Columns are turned into orthonormal ones, as many as
    the labels determine.

    Attributes
    ----------
    names : tuple of str
        Names of the columns of the table.
    levels : list
        For each of these, the levels of a category; None for numbers.
    has_constant : bool
    basis : array of shape (p, r)
        Matrix that turns columns into orthonormal ones on the labels.
    inverse : array of shape (r, p)
        Matrix that turns them back.
    """

    names: tuple[str, ...]
    levels: list[Any]
    has_constant: bool
    basis: np.ndarray
    inverse: np.ndarray

    def _fits(self) -> bool:
        p = len(self.labels)
        r = self.basis.shape[1]
        return len(self.names) == len(self.levels) and (
            (self.basis.shape, self.inverse.shape) == ((p, r), (r, p))
        )

    @classmethod
    def of(cls, columns: Mapping[str, Column], n: int, has_constant: bool) -> FixedColumns:
        """Return the fixed columns of n labels."""
        levels: list[Any] = []
        for name, column in columns.items():
            is_number = isinstance(column, np.ndarray) and column.dtype.kind in "iuf"
            if is_number:
                _check_numbers(np.asarray(column), name)
                levels.append(None)
            else:
                ids_of(column, name)
                levels.append(list(distinct(column, name)[1]))
        empty = np.zeros((0, 0))
        bare = cls(tuple(columns), levels, has_constant, empty, empty)
        X = bare.written(columns, n)
        return bare._on(X)

    def _on(self, X: np.ndarray) -> FixedColumns:
        """Return the columns with the basis of those of the labels (n, p)."""
        scale = np.abs(X).max(axis=0, initial=0.0)
        scale = np.where(scale > 0, scale, 1.0)
        _, values, right = np.linalg.svd(X / scale, full_matrices=False)
        rank = int(np.sum(values > _ROUNDING * values.max(initial=0.0)))
        right = right[:rank]
        basis = right.T / values[:rank] / scale[:, None]
        inverse = right * values[:rank, None] * scale
        return FixedColumns(self.names, self.levels, self.has_constant, basis, inverse)

    @property
    def labels(self) -> list[tuple[str, Any]]:
        """The column of the table and the level of each column; the constant has no name."""
        labels: list[tuple[str, Any]] = []
        if self.has_constant:
            labels = [("", None)]
        is_whole = not self.has_constant
        for name, levels in zip(self.names, self.levels, strict=True):
            if levels is None:
                labels.append((name, None))
            else:
                labels += [(name, level) for level in levels[0 if is_whole else 1 :]]
                is_whole = False
        return labels

    @property
    def words(self) -> list[str]:
        """Name of each column, such as "trial=2"."""
        words = []
        for name, level in self.labels:
            words.append(f"{name}={level}" if level is not None else name or "intercept")
        return words

    def written(self, columns: Mapping[str, Column], n: int) -> np.ndarray:
        """Return the columns (n, p) of some rows; raise for a category that no label has."""
        X = np.zeros((n, len(self.labels)))
        codes: dict[str, np.ndarray] = {}
        for name, levels in zip(self.names, self.levels, strict=True):
            if levels is None:
                _check_numbers(np.asarray(columns[name]), name)
                continue
            codes[name] = among(list(columns[name]), levels)
            unknown = np.flatnonzero(codes[name] < 0)
            if unknown.size:
                raise not_estimable(name, columns[name][int(unknown[0])], "has no label")
        for place, (name, level) in enumerate(self.labels):
            if not name:
                X[:, place] = 1.0
            elif level is None:
                X[:, place] = columns[name]
            else:
                levels = self.levels[self.names.index(name)]
                X[:, place] = codes[name] == levels.index(level)
        return X

    def orthonormal(self, columns: Mapping[str, Column], n: int) -> np.ndarray:
        """Return the orthonormal columns (n, r) of some rows; raise if the labels do not determine their effect."""
        X = self.written(columns, n)
        rows: np.ndarray = X @ self.basis
        outside = np.abs(X - rows @ self.inverse) > _ROUNDING * np.abs(X).max(initial=1.0)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"Row {row} has no prediction: the labels do not determine the effect of "
                f"{self.words[column]!r} in it, because fixed columns are confounded. Leave one of "
                f"them out of fixed, or make it a term."
            )
        return rows

    def lost(self, columns: np.ndarray, members: np.ndarray) -> ValueError | None:
        """Return the error if the labels without some do not determine all effects; None if they do.

        Parameters
        ----------
        columns : array of shape (n, r)
            Orthonormal columns of the labels.
        members : integer array
            Labels that are left out.
        """
        some = columns[members]
        values, vectors = np.linalg.eigh(some.T @ some)
        if not values.size or values[-1] < 1.0 - _ROUNDING:
            return None
        X = columns @ self.inverse
        kept = np.delete(X, members, axis=0)
        for name, levels in zip(self.names, self.levels, strict=True):
            at = [place for place, (column, _) in enumerate(self.labels) if column == name]
            for level in levels or ():
                if not self._has_level(kept[:, at], levels, level).any():
                    return not_estimable(name, level, "only labels that are left out together have")
        share = np.linalg.norm(X * (self.basis @ vectors[:, -1]), axis=0)
        share[: int(self.has_constant)] = 0.0
        return ValueError(
            f"The effect of the fixed column {self.words[int(np.argmax(share))]!r} is not "
            f"estimable without labels that are left out together: leave it out of fixed."
        )

    @staticmethod
    def _has_level(columns: np.ndarray, levels: Sequence[Any], level: Any) -> np.ndarray:
        """Return whether each row has a level of a category, given the columns of the category."""
        n_without = len(levels) - columns.shape[1]
        place = list(levels).index(level) - n_without
        if place < 0:
            return np.asarray(~(columns > 0.5).any(axis=1))
        return np.asarray(columns[:, place] > 0.5)


def _check_numbers(column: np.ndarray, name: str) -> None:
    if column.dtype.kind not in "iuf" or not np.isfinite(column).all():
        raise ValueError(
            f"The fixed column {name!r} must hold finite numbers, or text for categories: leave "
            f"other rows out."
        )


def not_estimable(name: str, level: Hashable, why: str) -> ValueError:
    """Return the error for a level that only a fixed effect describes."""
    return ValueError(
        f"The effect of {name}={level!r} is not estimable: only a fixed effect describes this "
        f"level, which {why}. Make {name!r} a term instead, or leave these rows out."
    )
