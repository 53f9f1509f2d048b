"""Splits of pairs into training and test, for any model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED

from dyadlearn._checks import caller_level, check_whole
from dyadlearn._codes import (
    Column,
    ends_in_order,
    factorize,
    group_codes,
    id_columns,
    label_array,
    pair_numbers,
)
from dyadlearn._columns import read_columns
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import in_rows_of, near_miss
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.time import read_times
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.settings import GROUP_NAMES, Groups, Setting, as_setting, check_groups

# Code of the labels that strict folds never test.
_NEVER = -1

#: Masks, or positions, of the training pairs and of the test pairs of each split.
Splits = Iterator[tuple[np.ndarray, np.ndarray]]


class SettingKFold(Stored, BaseCrossValidator):  # type: ignore[misc]
    r"""Cross-validation splitter for pairs in one of the settings A to D, for any model.

    With the folds :math:`I_1 \dots I_k` of instances and :math:`T_1 \dots T_k` of tasks, split (a,
    b) of setting D tests the pairs in :math:`I_a \times T_b` and trains on those outside both,

    .. math:: \text{test} = \{(i, t) : i \in I_a,\ t \in T_b\}, \qquad
              \text{train} = \{(i, t) : i \notin I_a,\ t \notin T_b\},

    and leaves the mixed pairs, of a held-out instance and a known task or the other way round,
    unused (see `n_unused`). Setting A makes folds of pairs, B folds of instances and C folds of
    tasks; they use all pairs.

    **Every pair is tested exactly once** in every setting, so that `cross_val_predict` works. There
    are `n_splits` splits in A, B and C. In D there are ``n_splits ** 2``, minus the blocks without
    pairs.

    Parameters
    ----------
    setting : str, Setting or sequence of str
        Setting A, B, C or D, or one of the other names that `dyadlearn.settings.as_setting`
        accepts. For cells of any number of sides, a list of the columns of the new sides; ``()``
        makes folds of cells. A split then tests the cells of which all these sides are in its
        folds, and trains on those of which none is.
    n_splits : int, default=5
        Number of folds of each side that is split, at least 2; named as in scikit-learn's
        splitters.
    shuffle : bool, default=True
        Whether to assign pairs, instances or tasks to folds at random; else in the order of their
        first appearance.
    random_state : int, RandomState or None, default=None
        Seed of the shuffle. Only an int makes all calls return the same splits. Pass an int for a
        sparse table in setting D: blocks may be empty, and the number of splits then depends on the
        shuffle.
    network : bool, default=False
        Whether the pairs are edges of an undirected network, whose nodes are both instances and
        tasks. See the notes.
    strict : bool, default=False
        Whether each test pair has the setting of the split: an instance or task that the setting
        calls known keeps a label in training. In A, one pair of each instance and of each task whose
        pairs are all in one fold stays in training. In B and C, pairs of a task, or of an instance,
        without a pair outside the fold are not tested. Such pairs are in no test set.

    See Also
    --------
    audit : return the setting that a split corresponds to.

    Notes
    -----
    Rows of a table that repeat a pair are in the same fold, also in setting A. The numbers of
    pairs, instances or tasks (or groups of them) of two folds differ by at most one; their numbers
    of rows may differ more. In setting A the instance or task of a test pair may have no other pair
    and thus be new: `audit` counts such pairs, and ``strict=True`` keeps them in training.

    In a **network** (a, b) and (b, a) are the same pair and are in the same fold, and there is one
    set of folds
    :math:`N_1 \dots N_k` of nodes. A split hides its nodes on both sides,

    .. math:: \text{B: test } i \in N_a,\ j \notin N_a; \quad \text{C: test } j \in N_a,\ i \notin N_a; \quad
              \text{D: test one end in } N_a \text{, the other in } N_b,

    and trains on the pairs without any of these nodes. D makes ``n_splits * (n_splits + 1) / 2``
    splits. In B and C a test pair has exactly one new node, so a pair whose nodes are in the same
    fold is never tested, and `cross_val_predict` does not work. Folds without a test pair are
    skipped.

    With scikit-learn's metadata routing, `groups` and `task_groups` are requested; without it,
    scikit-learn passes only `groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.selection import SettingKFold
    >>> pairs = [(drug, protein) for drug in "abcd" for protein in (1, 2, 3)]
    >>> folds = SettingKFold("B", n_splits=2, shuffle=False)
    >>> for train, test in folds.split(pairs):
    ...     print(sorted({pairs[row][0] for row in test}))
    ['a', 'b']
    ['c', 'd']
    >>> folds = SettingKFold("D", n_splits=2, random_state=0)
    >>> folds.get_n_splits(), folds.n_unused(pairs)
    (4, array([6, 6, 6, 6]))
    """

    __metadata_request__split = {  # noqa: RUF012
        "pairs": UNUSED,
        "groups": True,
        "task_groups": True,
        "time": True,
    }

    def __init__(
        self,
        setting: str | Setting | Sequence[str],
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: Any = None,
        network: bool = False,
        strict: bool = False,
    ) -> None:
        if strict and network:
            raise ValueError(
                "strict=True is for instances and tasks: leave it out for a network, or use "
                "network=False."
            )
        if not shuffle and random_state is not None:
            raise ValueError(
                "random_state has no effect without shuffling: leave it out, or set shuffle=True."
            )
        self.setting: Any
        if isinstance(setting, list | tuple):
            self.setting = tuple(setting)
        else:
            self.setting = as_setting(setting).value  # type: ignore[arg-type]
        if network and isinstance(self.setting, tuple):
            raise ValueError("A network has pairs of nodes: give a setting A to D.")
        self.n_splits = check_whole(n_splits, "n_splits", 2)
        self.shuffle = shuffle
        self.random_state = random_state
        self.network = bool(network)
        self.strict = bool(strict)

    def split(
        self,
        pairs: Any,
        y: Any = None,
        groups: Any = None,
        task_groups: Any = None,
        *,
        time: Any = None,
    ) -> Splits:
        """Yield the positions of the training rows and of the test rows of each split of a long table.

        Parameters
        ----------
        pairs : array-like or frame of shape (n, 2)
            Instance id and task id of each row; ids are any hashable values. For a list of columns
            as setting, a table with these columns, as `MultiwayRidge.fit` takes it.
        y : ignored
        groups : array-like of shape (n,), default=None
            Group of the instance of each row, in settings B and D. All rows of an instance have the
            same group. Instances of one group are held out together. For a list of columns as
            setting, a dict with the groups of each of them. Series of groups and times must have
            the index of a frame, as in `PairRegressor.fit`.
        task_groups : array-like of shape (n,), default=None
            Group of the task of each row, in settings C and D. A network needs both or neither: the
            groups of the first and of the second node of each row. A node must have the same group
            in both.
        time : array-like of shape (n,), default=None
            Time of each row: numbers, dates or ISO text. A warning counts the splits that train on
            labels that are later than held-out ones; `TimeSplit` makes splits without any.

        Yields
        ------
        train, test : integer arrays
            Row positions in `pairs`, ascending.
        """
        masks: Iterable[tuple[np.ndarray, np.ndarray]] = self._masks_of(pairs, groups, task_groups)
        if time is not None:
            masks = list(masks)
            time = in_rows_of(time, pairs, "time", "pairs")
            _warn_of_later(masks, read_times(time, "time", len(masks[0][0])))
        for train, test in masks:
            if not train.any():
                raise ValueError(
                    f"A split of setting {self.setting} has no pair to train on: each of "
                    f"{len(train)} pairs shares its "
                    "instance or its task with the test pairs. Use more folds, or a table with "
                    "more pairs."
                )
            yield np.flatnonzero(train), np.flatnonzero(test)

    def split_grid(
        self, n_instances: int, n_tasks: int, *, groups: Any = None, task_groups: Any = None
    ) -> Splits:
        """Yield masks of the cells of a grid to train on and of those to test on.

        The splits are those of the long table that lists the cells row by row. Where cells are not
        observed, combine the masks with that of the observed ones.

        Parameters
        ----------
        n_instances, n_tasks : int
            Rows m and columns q of the grid.
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            Group of each instance, in settings B and D, and of each task, in C and D; a group is
            held out together. For a network, `groups` are the groups of the nodes, and
            `task_groups` must be None.

        Yields
        ------
        train, test : boolean arrays of shape (m, q)
            In setting D the mixed cells are in neither.

        Examples
        --------
        >>> from dyadlearn.selection import SettingKFold
        >>> train, test = next(SettingKFold("D", 2, shuffle=False).split_grid(2, 4))
        >>> test.astype(int)
        array([[1, 1, 0, 0],
               [0, 0, 0, 0]])
        >>> train.astype(int)
        array([[0, 0, 0, 0],
               [0, 0, 1, 1]])
        """
        rows, columns = np.indices((n_instances, n_tasks)).reshape(2, -1)
        if self.network:
            if n_instances != n_tasks:
                raise ValueError(
                    f"The grid of a network is square, found {n_instances} × {n_tasks}."
                )
            if task_groups is not None:
                raise ValueError(
                    "The nodes of a network have one grouping: give it as groups, and leave "
                    "task_groups out."
                )
            task_groups = groups
        if groups is not None:
            groups = _grid_units(groups, n_instances, "groups")[rows]
        if task_groups is not None:
            task_groups = _grid_units(task_groups, n_tasks, "task_groups")[columns]
        pairs = np.stack([rows, columns], axis=1)
        for train, test in self._masks(*self._read(pairs, (groups, task_groups))):
            yield train.reshape(n_instances, n_tasks), test.reshape(n_instances, n_tasks)

    def units(self, labels: Labels, *, groups: Any = None, task_groups: Any = None) -> Units:
        """Return the folds of labels as units, without masks of the size of the grid.

        Parameters
        ----------
        labels : Labels
        groups, task_groups : as in `split_grid`

        Returns
        -------
        Units
            The folds of `split_grid`. In setting A, the labels of a list, or all cells of a grid,
            are assigned to folds in their order.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.labels import Labels
        >>> from dyadlearn.selection import SettingKFold
        >>> cells = (np.array([0, 4]), np.array([7, 9]))
        >>> labels = Labels(cells, np.array([1.0, 2.0]), (5, 100_000_000))
        >>> SettingKFold("B", 2, shuffle=False).units(labels).sides[0]
        array([0, 0, 0, 1, 1])
        """
        check_groups(Setting(self.setting), (groups, task_groups))
        m, q = labels.shape
        shape = tuple(labels.values.shape)
        sides = _grid_units(groups, m, "groups"), _grid_units(task_groups, q, "task_groups")
        units = self._dealt(np.arange(math.prod(shape)), sides)
        if units.cells is None:
            return replace(units, strict=self.strict)
        cells = units.cells.reshape(shape)
        if self.strict:
            observed = cells[labels.observed]
            observed[_kept_in_training(observed, labels.places)] = _NEVER
            cells[labels.observed] = observed
        return Units(cells=cells, strict=self.strict)

    def get_n_splits(
        self, pairs: Any = None, y: Any = None, groups: Any = None, task_groups: Any = None
    ) -> int:
        """Return the number of splits.

        Parameters
        ----------
        pairs, groups, task_groups : as in `split`, default=None
            Needed in setting D, and for a network in B and C, to exclude blocks without pairs from
            the count.
        y : ignored

        Returns
        -------
        int
        """
        n = self.n_splits
        if isinstance(self.setting, tuple):
            if pairs is None or len(self.setting) < 2:
                return int(n ** max(1, len(self.setting)))
            return len(self.n_unused(pairs, groups, task_groups))
        is_double = self.setting == Setting.D
        if pairs is not None and (is_double or (self.network and self.setting != Setting.A)):
            return len(self.n_unused(pairs, groups, task_groups))
        if not is_double:
            return n
        if self.network:
            return n * (n + 1) // 2
        return n**2

    def n_unused(self, pairs: Any, groups: Any = None, task_groups: Any = None) -> np.ndarray:
        """Return the number of mixed pairs of each split, which are neither in training nor in test.

        Parameters
        ----------
        pairs, groups, task_groups : as in `split`

        Returns
        -------
        integer array of shape (number of splits,)
            Number of unused pairs of each split; 0 except in setting D, for a network in B and C, and
            for strict folds. If `random_state` is not an int, the counts belong to another shuffle than earlier
            splits.
        """
        masks = self._masks_of(pairs, groups, task_groups)
        return np.array([np.count_nonzero(~(train | test)) for train, test in masks], dtype=np.intp)

    def _masks_of(self, pairs: Any, groups: Any, task_groups: Any) -> Splits:
        """Yield boolean masks of training and test rows of a long table."""
        if isinstance(self.setting, tuple):
            return self._masks_of_cells(pairs, groups or {})
        groups = in_rows_of(groups, pairs, "groups", "pairs")
        task_groups = in_rows_of(task_groups, pairs, "task_groups", "pairs")
        return self._masks(*self._read(pairs, (groups, task_groups)))

    def _masks_of_cells(self, table: Any, groups: Mapping[str, Any]) -> Splits:
        """Yield the masks for new sides that are named by columns of a table."""
        random = check_random_state(self.random_state)
        folds = []
        for name, column in read_columns(table, self.setting).items():
            (codes,) = factorize([column], f"The column {name!r}")
            of_rows = in_rows_of(groups.get(name), table, f"groups[{name!r}]", "the table")
            units = _row_units(of_rows, codes, column, f"groups[{name!r}]", f"level of {name!r}")
            folds.append(self._deal(units, f"levels of {name!r}", random))
        if not folds:
            columns = read_columns(table)
            codes = np.stack([factorize([column], name)[0] for name, column in columns.items()])
            cells = np.unique(codes, axis=1, return_inverse=True)[1].reshape(-1)
            folds.append(self._deal(cells, "distinct cells", random))
        yield from self._crossed(folds)

    def _crossed(self, folds: Sequence[np.ndarray]) -> Splits:
        """Yield the masks of all combinations of folds of some sides, without those that test nothing."""
        for held in product(range(self.n_splits), repeat=len(folds)):
            left = [fold == number for fold, number in zip(folds, held, strict=True)]
            test = np.logical_and.reduce(left)
            if len(folds) < 2 or test.any():
                yield ~np.logical_or.reduce(left), test

    def _read(self, pairs: Any, groups: Groups) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Return, for each row, the number of its pair, and those of its instance unit and of its task unit."""
        first, second = id_columns(pairs, "pairs")
        if self.network:
            check_writing([first], [second], "Instances and tasks of a network")
            rows, columns = factorize([first, second], "pairs")
            units = _node_units(groups, (rows, columns), (first, second))
            rows, columns = ends_in_order(rows, columns)
        else:
            check_groups(Setting(self.setting), groups)
            (rows,) = factorize([first], "pairs")
            (columns,) = factorize([second], "pairs")
            units = (
                _row_units(groups[0], rows, first, "groups", "instance"),
                _row_units(groups[1], columns, second, "task_groups", "task"),
            )
        (cells,) = factorize([pair_numbers(rows, columns, int(columns.max()) + 1)], "pairs")
        return cells, units

    def _masks(self, cells: np.ndarray, numbers: tuple[np.ndarray, np.ndarray]) -> Splits:
        """Yield boolean masks of training and test rows from the units of each row, all of shape (n,)."""
        if self.network and self.setting != Setting.A:
            random = check_random_state(self.random_state)
            fold = self._deal(np.concatenate(numbers), "nodes or groups of them", random)
            yield from self._network_masks(*np.split(fold, 2))
            return
        units = self._dealt(cells, numbers)
        folds = [fold for fold in (*units.sides, units.cells) if fold is not None]
        untested = self._untested(folds[0], numbers, cells)
        for train, test in self._crossed(folds):
            if self.strict:
                test &= ~untested
            if self.strict and self.setting == Setting.A:
                train |= untested
            yield train, test

    def _untested(
        self, fold: np.ndarray, numbers: tuple[np.ndarray, np.ndarray], cells: np.ndarray
    ) -> np.ndarray:
        """Return which rows strict folds do not test, given their fold, their units and their pairs, all (n,)."""
        setting = Setting(self.setting)
        if not self.strict or setting is Setting.D:
            return np.zeros(fold.size, dtype=bool)
        if setting is Setting.A:
            kept = _kept_in_training(fold, numbers)
            return np.isin(cells, cells[kept])  # rows that repeat a kept pair stay with it
        return _are_in_one_fold(fold, numbers[1 - setting.new[0]])

    def _dealt(self, cells: np.ndarray, numbers: tuple[np.ndarray, np.ndarray]) -> Units:
        """Return the folds of a setting from the numbers of pairs and of the units of each side."""
        setting = Setting(self.setting)
        random = check_random_state(self.random_state)
        if setting is Setting.A:
            return Units(cells=self._deal(cells, "distinct pairs", random))
        sides: list[np.ndarray | None] = [None, None]
        for axis in setting.new:
            words = f"{('instances', 'tasks')[axis]} or groups of them"
            sides[axis] = self._deal(numbers[axis], words, random)
        return Units(tuple(sides))

    def _network_masks(self, first: np.ndarray, second: np.ndarray) -> Splits:
        """Yield the masks of settings B, C and D from the folds of the two nodes of each row."""
        for a in range(self.n_splits):
            for b in range(a, self.n_splits) if self.setting == Setting.D else (a,):
                if self.setting == Setting.D:
                    test = ((first == a) & (second == b)) | ((first == b) & (second == a))
                else:
                    new, known = first, second
                    if self.setting == Setting.C:
                        new, known = second, first
                    test = (new == a) & (known != a)
                if test.any():
                    yield ~(np.isin(first, (a, b)) | np.isin(second, (a, b))), test

    def _deal(self, units: np.ndarray, words: str, random: np.random.RandomState) -> np.ndarray:
        """Return the fold of each row, with units assigned evenly to folds."""
        n_units = int(units.max(initial=-1)) + 1
        if n_units < self.n_splits:
            raise ValueError(
                Message(
                    "{n_splits} folds[| (--cv)] need at least as many {words} in setting "
                    "{setting}, found {n_units}: use fewer folds.",
                    n_splits=self.n_splits,
                    words=words,
                    setting=self.setting,
                    n_units=n_units,
                )
            )
        fold = np.arange(n_units) * self.n_splits // n_units
        return np.asarray((random.permutation(fold) if self.shuffle else fold)[units])


def _warn_of_later(masks: Sequence[tuple[np.ndarray, np.ndarray]], times: np.ndarray) -> None:
    """Warn if splits train on labels that are later than held-out ones."""
    later = [train.any() and times[train].max() > times[test].min() for train, test in masks]
    if any(later):
        warnings.warn(
            f"In {sum(later)} of {len(masks)} splits, training labels are later than held-out ones: "
            f"the scores do not tell how well later labels are predicted. TimeSplit trains on "
            f"earlier labels only.",
            UserWarning,
            stacklevel=caller_level(),
        )


def _are_in_one_fold(fold: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return whether all rows with the code of each row are in its fold, given folds and codes (n,)."""
    _, codes = np.unique(codes, return_inverse=True)
    lowest = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    highest = np.full(lowest.size, -1)
    np.minimum.at(lowest, codes, fold)
    np.maximum.at(highest, codes, fold)
    return np.asarray((lowest == highest)[codes])


def _kept_in_training(fold: np.ndarray, sides: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the positions of one row of each instance and of each task whose rows are all in one fold."""
    kept = np.zeros(fold.size, dtype=bool)
    for codes in sides:
        is_served = np.isin(codes, codes[kept])
        alone = np.flatnonzero(_are_in_one_fold(fold, codes) & ~is_served)
        kept[alone[np.unique(codes[alone], return_index=True)[1]]] = True
    return np.flatnonzero(kept)


class GivenFolds:
    """Folds of instances from a list of splits, such as those of scikit-learn's splitters, for setting B.

    Parameters
    ----------
    setting : Setting
    splits : sequence of (integer array, integer array)
        Positions of the training rows and of the test rows of each fold.
    """

    def __init__(self, setting: Setting, splits: Sequence[Any]) -> None:
        if setting is not Setting.B:
            raise ValueError(
                f"A list of folds as cv is only supported in setting B, found setting "
                f"{setting.value}: pass a number "
                "of folds or a SettingKFold."
            )
        try:
            self.splits = [
                (np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp))
                for train, test in splits
            ]
        except (TypeError, ValueError):
            raise TypeError(
                "cv must be a number of folds, a SettingKFold or a list of (training rows, test "
                "rows), found "
                f"{splits!r}."
            ) from None
        self.n_splits = len(self.splits)

    def units(self, labels: Labels, *, groups: Any = None, task_groups: Any = None) -> Units:
        """Return the folds as `SettingKFold.units` does."""
        n_instances = labels.shape[0]
        if groups is not None or task_groups is not None:
            raise ValueError(
                "groups cannot be combined with a list of folds as cv: pass only one of them."
            )
        everything = np.arange(n_instances)
        if self.splits:
            tested = np.concatenate([test for _, test in self.splits])
        else:
            tested = everything[:0]
        if not all(
            np.array_equal(np.sort(rows), everything)
            for rows in (tested, *map(np.concatenate, self.splits))
        ):
            raise ValueError(
                f"cv must test each of the {n_instances} instances in one fold, and train on it in "
                f"all others."
            )
        sizes = [len(test) for _, test in self.splits]
        fold = np.repeat(np.arange(self.n_splits), sizes)[np.argsort(tested)]
        return Units((fold, None))


def check_writing(known: Sequence[Column], asked: Sequence[Column], words: str) -> None:
    """Raise if ids of some columns differ from ids of others in type or blanks only.

    Such ids would count as different, and a leak between training and test would not be noticed.
    """
    if all(
        isinstance(column, np.ndarray) and column.dtype.kind in "biuf"
        for column in (*known, *asked)
    ):
        return
    wanted, others = (set(chain.from_iterable(map(_as_list, ids))) for ids in (asked, known))
    alike = near_miss(wanted - others, others)
    if alike is not None:
        raise IdError(
            f"{words} have ids that differ in type or blanks only, such as {alike[1]!r} and "
            f"{alike[0]!r}, and would "
            "count as different: read both columns with the same type and strip blanks."
        )


def _grid_units(groups: Any, n_rows: int, name: str) -> np.ndarray:
    """Return the number of the group of each row or column of a grid."""
    if groups is None:
        return np.arange(n_rows)
    return group_codes(groups, (n_rows,), name)


def _row_units(groups: Any, codes: np.ndarray, ids: Column, name: str, side: str) -> np.ndarray:
    """Return the unit of each row of a long table: the number of its id, or of the group of its id."""
    if groups is None:
        return codes
    labels = group_codes(groups, (len(codes),), name)
    group_of = np.empty(int(codes.max()) + 1, dtype=labels.dtype)
    group_of[codes] = labels
    torn = np.flatnonzero(group_of[codes] != labels)
    if torn.size:
        raise ValueError(
            f"{name} must be the same in all rows of one {side}, found two groups for "
            f"{ids[int(torn[0])]!r} "
            f"(one of them in row {torn[0]})."
        )
    return labels


def _node_units(
    groups: Groups, nodes: tuple[np.ndarray, np.ndarray], ids: tuple[Column, Column]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of both nodes of each row: the numbers of the nodes, or of their groups."""
    if all(side is None for side in groups):
        return nodes
    if any(side is None for side in groups):
        raise ValueError(
            "The nodes of a network have one grouping: pass both groups, of the first node of each "
            "row, and "
            "task_groups, of the second."
        )
    n_rows = len(nodes[0])
    labels = [*_as_list(groups[0]), *_as_list(groups[1])]
    for side, name in zip(groups, GROUP_NAMES, strict=True):
        group_codes(side, (n_rows,), name)
    units = _row_units(
        labels, np.concatenate(nodes), [*ids[0], *ids[1]], "groups or task_groups", "node"
    )
    return units[:n_rows], units[n_rows:]


def _as_list(labels: Any) -> list[Any]:
    if isinstance(labels, list | tuple):
        return list(labels)
    return label_array(labels).reshape(-1).tolist()
