"""An audit of splits: which setting they are, and what leaks from training into test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._codes import (
    Column,
    ends_in_order,
    factorize,
    id_columns,
    pair_numbers,
)
from dyadlearn._columns import read_columns
from dyadlearn._tables import Columns, in_order_of, index_of_rows, read_table, shown
from dyadlearn.holdout.splitters import check_writing
from dyadlearn.holdout.time import read_times, time_in_words
from dyadlearn.kernels.gram import Kernel
from dyadlearn.labels import read_numbers
from dyadlearn.metrics.scorers import scorer, usual_scoring
from dyadlearn.selection.nearness import Nearness, in_words, nearness, stacked_bands
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, plural

_NEW_NODES = {"A": "only the edge", "B": "first node", "C": "second node", "D": "both nodes"}


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Setting and leaks of a split of pairs; the result of `audit`.

    Attributes
    ----------
    n_train, n_test : int
        Number of training pairs and of test pairs, repetitions included.
    claimed : str or None
        Setting that the split is claimed to be.
    settings : array of str of shape (n_test,)
        The setting of each test pair, by whether its instance and its task occur in training.
    is_repeated : array of bool of shape (n_test,)
        Whether each test pair occurs in training. Such pairs count as A.
    is_leak : array of bool of shape (n_test,)
        Whether each test pair is easier than claimed: an instance or task that is claimed to be new
        is in training. Without a claim, whether the pair is repeated.
    is_harder : array of bool of shape (n_test,)
        Whether each test pair has a new instance or task that is claimed to be known.
    network : bool
        Whether the pairs are edges of an undirected network.
    nearness : (Nearness or None, Nearness or None)
        Similarity of the instances, and of the tasks, of the test pairs to those of training; None
        without descriptions.
    n_older : int
        Number of test pairs that are older than the newest training pair; 0 without times.
    newest : object
        Time of the newest training pair; None without times.
    index : index of pandas or None
        Index of the table of test pairs.

    Examples
    --------
    >>> from dyadlearn import audit
    >>> print(audit([(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0), (1, 0)], setting="A"))
    Setting A does not hold for 2 of 3 test pairs (2 A, 1 B): 1 also in training (leak), 1 with a new instance or
    task (harder).
      setting  new                    test pairs
      A        only the pair                   2
      B        instance                        1
      C        task                            0
      D        instance and task               0
      3 training pairs, 1 test pair among them
    """

    n_train: int
    n_test: int
    claimed: str | None
    settings: np.ndarray
    is_repeated: np.ndarray
    is_leak: np.ndarray
    is_harder: np.ndarray
    network: bool = False
    nearness: tuple[Nearness | None, Nearness | None] = (None, None)
    n_older: int = 0
    newest: Any = None
    index: Any = None

    @property
    def n_identical(self) -> tuple[int, int]:
        """Number of new instances, and of new tasks, whose description equals that of one in training."""
        first, second = (0 if side is None else len(side.copies) for side in self.nearness)
        return first, second

    @property
    def sides(self) -> list[tuple[str, Nearness]]:
        """The name of each side with descriptions, and its similarities."""
        words = ("node", "") if self.network else ("instance", "task")
        pairs = zip(words, self.nearness, strict=True)
        return [(word, side) for word, side in pairs if side is not None]

    def bands(self, y: Any = None, predicted: Any = None, scoring: Any = None) -> Columns:
        """Return a histogram of the similarity of test entities to training, and the score by similarity.

        Parameters
        ----------
        y, predicted : array-like of shape (n_test,), default=None
            Labels and predictions of the test pairs, for a column of scores. A series of pandas
            must have the index of the test pairs, in the same order, if these are a frame.
        scoring : str or callable, default=None
            Score of all pairs of a band together; by default as in `dyadlearn.evaluate`.

        Returns
        -------
        dict of str to list
            Columns: ``side``, ``similarity`` (the band of the largest similarity to training),
            ``entities``, ``pairs`` and, with predictions, one with the name of the score.
        """
        if predicted is None:
            return stacked_bands(self.sides)
        y = in_order_of(y, self.index, "y", "the test pairs")
        predicted = in_order_of(predicted, self.index, "predicted", "the test pairs")
        truth = read_numbers(y, "y", self.n_test)
        values = read_numbers(predicted, "predicted", self.n_test)
        if scoring is None:
            scoring = usual_scoring(truth)
        name = scorer(scoring).name
        scores = [side.scores(truth, values, scoring) for _, side in self.sides]
        return stacked_bands(self.sides, **{name: scores})

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of test pairs of each setting; they add up to `n_test`."""
        return {
            letter.value: int(np.count_nonzero(self.settings == letter.value)) for letter in Setting
        }

    @property
    def setting(self) -> str:
        """Common setting of all test pairs, or ``"mixed"``."""
        return next(
            (letter for letter, count in self.counts.items() if count == self.n_test), "mixed"
        )

    @property
    def n_repeated(self) -> int:
        """Number of test pairs that occur in training."""
        return int(self.is_repeated.sum())

    @property
    def n_leaks(self) -> int:
        """Number of test pairs that are easier than claimed; without a claim, number of repeated pairs."""
        return int(self.is_leak.sum())

    @property
    def n_harder(self) -> int:
        """Number of test pairs with a new instance or task that is claimed to be known."""
        return int(self.is_harder.sum())

    @property
    def instances_seen(self) -> int:
        """Number of test pairs whose instance is in training."""
        return self.counts["A"] + self.counts["C"]

    @property
    def tasks_seen(self) -> int:
        """Number of test pairs whose task is in training."""
        return self.counts["A"] + self.counts["B"]

    @property
    def message(self) -> str:
        """Result of the audit in one sentence."""
        tally = ", ".join(f"{count} {letter}" for letter, count in self.counts.items() if count)
        pairs = _number(self.n_test, "test pair")
        findings = []
        if self.claimed is None:
            verdict = f"The setting of {pairs} is {self.setting}" + (
                f" ({tally})" if self.setting == "mixed" else ""
            )
            if self.n_leaks:
                findings.append(f"{self.n_leaks} also in training")
        elif not self.n_leaks and not self.n_harder:
            verdict = f"Setting {self.claimed} holds for {pairs}"
        else:
            n_wrong = np.count_nonzero(self.is_leak | self.is_harder)
            verdict = f"Setting {self.claimed} does not hold for {n_wrong} of {pairs} ({tally})"
            if self.n_leaks:
                findings.append(f"{self.n_leaks} {self._leak_reason()} in training (leak)")
            if self.n_harder:
                reason = {"A": "a new instance or task", "B": "a new task", "C": "a new instance"}[
                    self.claimed
                ]
                if self.network:
                    reason = "a new node" if self.claimed == "A" else "two new nodes"
                findings.append(f"{self.n_harder} with {reason} (harder)")
        for noun, side in self.sides:
            if side.copies:
                copies = _number(len(side.copies), f"new {noun}")
                findings.append(f"{copies} identical to one in training")
        if self.n_older:
            findings.append(
                f"{self.n_older} older than the newest training pair ({time_in_words(self.newest)})"
            )
        return verdict + (": " if findings else "") + ", ".join(findings) + "."

    def _leak_reason(self) -> str:
        """Return what the test pairs share with training."""
        if self.claimed == "A":
            return "also"
        if self.claimed == "D":
            if self.network:
                return f"with one node ({self.counts['B'] + self.counts['C']}) or both nodes ({self.counts['A']})"
            return f"with the instance ({self.instances_seen}) or the task ({self.tasks_seen})"
        if self.network:
            return "with both nodes"
        return f"with the {'instance' if self.claimed == 'B' else 'task'}"

    def __repr__(self) -> str:
        claim = "" if self.claimed is None else f", claimed={self.claimed!r}"
        tally = ", ".join(f"{letter}={count}" for letter, count in self.counts.items())
        return f"Audit(setting={self.setting!r}{claim}, {tally}, n_repeated={self.n_repeated}, n_leaks={self.n_leaks})"

    def __str__(self) -> str:
        return self.described(SideNames())

    def described(self, names: SideNames) -> str:
        """Return the message, the number of test pairs of each setting, and sentences about similarity.

        Parameters
        ----------
        names : SideNames
            Names of an instance and of a task.
        """
        lines = [self.message, f"  {'setting':<9}{'new':<21}{'test pairs':>12}"]
        new = {"A": "only the pair", "B": names.instance, "C": names.task}
        new["D"] = f"{names.instance} and {names.task}"
        if self.network:
            new = _NEW_NODES
        for letter, count in self.counts.items():
            lines.append(f"  {letter:<9}{new[letter]:<21}{count:>12}")
        lines.append(
            f"  {_number(self.n_train, 'training pair')}, {_number(self.n_repeated, 'test pair')} "
            f"among them"
        )
        words = {"instance": names.instance, "task": names.task}
        for side, similarities in self.sides:
            word = words.get(side, side)
            lines += [f"  {sentence}" for sentence in in_words(similarities, (word, plural(word)))]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class CellAudit:
    """New sides and leaks of a split of cells; the result of `audit` for columns of a table.

    Attributes
    ----------
    n_train : int
        Number of training rows.
    claimed : tuple of str
        Sides that the split is claimed to test as new.
    settings : array of str of shape (n_test,)
        New sides of each test row, such as ``"mother + trial"``, or ``"cell"``.
    is_leak, is_harder : arrays of bool of shape (n_test,)
        Whether a side that is claimed to be new is in training, or, if none is claimed, the cell;
        and whether a side that is claimed to be known is not in training.
    """

    n_train: int
    claimed: tuple[str, ...]
    settings: np.ndarray
    is_leak: np.ndarray
    is_harder: np.ndarray

    @property
    def counts(self) -> dict[str, int]:
        """Number of test rows of each setting that occurs."""
        names, counts = np.unique(self.settings, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    @property
    def message(self) -> str:
        """Result of the audit in one sentence."""
        claimed = " + ".join(self.claimed) or "cell"
        tally = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        n_wrong = int((self.is_leak | self.is_harder).sum())
        if not n_wrong:
            return f"A new {claimed} holds for {_number(len(self.settings), 'test row')}."
        return (
            f"A new {claimed} does not hold for {n_wrong} of "
            f"{_number(len(self.settings), 'test row')} ({tally}): {int(self.is_leak.sum())} with "
            f"something new in training (leak), {int(self.is_harder.sum())} with something known "
            f"not in training (harder)."
        )

    def __str__(self) -> str:
        return self.message


def _audit_cells(train: Any, test: Any, claimed: tuple[str, ...]) -> CellAudit:
    """Return the audit of tables with a column for each side."""
    known = read_columns(train)
    asked = read_columns(test, list(known))
    absent = [name for name in claimed if name not in known]
    if absent:
        raise ValueError(f"train has no column {shown(absent)}, which setting names.")
    codes: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, column in known.items():
        check_writing([column], [asked[name]], f"The columns {name!r} of train and test")
        first, second = factorize([column, asked[name]], f"The column {name!r}")
        codes[name] = (first, second)
    is_new = {name: ~np.isin(second, first) for name, (first, second) in codes.items()}
    n_test = len(next(iter(is_new.values())))
    settings = []
    for row in range(n_test):
        settings.append(" + ".join(name for name in is_new if is_new[name][row]) or "cell")
    cells = [np.stack(columns, axis=1) for columns in zip(*codes.values(), strict=True)]
    trained = set(map(tuple, cells[0].tolist()))
    is_leak = np.array([tuple(cell) in trained for cell in cells[1].tolist()])
    if claimed:
        is_leak = np.logical_or.reduce([~is_new[name] for name in claimed])
    others = [is_new[name] for name in is_new if name not in claimed]
    is_harder = np.logical_or.reduce([np.zeros(n_test, dtype=bool), *others])
    return CellAudit(len(cells[0]), claimed, np.array(settings), is_leak, is_harder)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def audit(
    train: Any,
    test: Any,
    setting: str | Setting | Sequence[str] | None = None,
    *,
    network: bool = False,
    instances: Any = None,
    tasks: Any = None,
    kernel: Kernel = "linear",
    task_kernel: Kernel = "linear",
    time: Any = None,
) -> Audit | CellAudit:
    """Return the actual setting of a split of pairs, and the leaks from training into test.

    Parameters
    ----------
    train, test : array-like or frame of shape (n, 2), or array of booleans of shape (m, q)
        Tables of pairs, with an instance id and a task id in each row; or boolean masks of the
        cells of one grid.
    setting : str, Setting, sequence of str or None, default=None
        The setting that the split is claimed to be. For tables of cells, with a column for each of
        any number of sides, a list of the columns of the new sides; then the result is a
        `CellAudit`.
    network : bool, default=False
        Whether the pairs are edges of an undirected network, whose nodes are both the instances and
        the tasks. Then (b, a) is the same pair as (a, b), a node is known if it occurs in either
        column, and B and C both mean one new node.
    instances, tasks : array, sparse matrix or frame with one row per instance or task, default=None
        Features, or kernels, by which new rows are compared with those of training: which are
        identical to one, and how similar each is to the nearest. The ids of a frame are those of
        the pairs; the rows of an array are numbered from 0. For a network, `instances` are the
        nodes.
    kernel, task_kernel : str or callable, default="linear"
        Kernel whose normalised values are the similarities, such as "tanimoto"; "precomputed" if
        the table is a kernel. Those of the linear kernel are cosines.
    time : (array-like, array-like), default=None
        Times of the training pairs and of the test pairs: numbers, dates or ISO text. Test pairs
        that are older than the newest training pair are counted, as such a split does not show how
        well the future is predicted.

    Returns
    -------
    Audit

    Raises
    ------
    IdError
        If ids of training and test differ only in type or blanks, such as 1 and "1". They would
        count as different ids, and leaks would not be detected.

    Examples
    --------
    >>> import pandas as pd
    >>> from dyadlearn import audit
    >>> train = [("ann", "tea"), ("ann", "cake"), ("bob", "tea")]
    >>> audit(train, [("bob", "cake")]).setting
    'A'
    >>> report = audit(train, [("bob", "wine"), ("eve", "wine")], setting="D")
    >>> report.counts, report.n_leaks
    ({'A': 0, 'B': 0, 'C': 1, 'D': 1}, 1)
    >>> print(report.message)
    Setting D does not hold for 1 of 2 test pairs (1 C, 1 D): 1 with the instance (1) or the task (0) in training ...
    >>> people = pd.DataFrame({"x": [1.0, 0, 1], "y": [0.0, 1, 0.1]}, index=["ann", "bob", "eve"])
    >>> near = audit(train, [("eve", "tea"), ("eve", "cake")], instances=people)
    >>> near.nearness[0].nearest, near.nearness[0].similarity.round(3)
    (('ann',), array([0.995]))
    >>> near.bands()
    {'side': ['instance'], 'similarity': ['0.9–1'], 'entities': [1], 'pairs': [2]}
    >>> audit([("ann", "bob"), ("bob", "eve")], [("eve", "bob")], setting="A", network=True).message
    'Setting A does not hold for 1 of 1 test pair (1 A): 1 also in training (leak).'
    """
    if isinstance(setting, list | tuple):
        return _audit_cells(train, test, tuple(setting))
    claimed = None if setting is None else as_setting(setting)  # type: ignore[arg-type]
    newest, n_older = (None, 0) if time is None else _older(*time)
    known, tested = _read(train, test)
    compared: list[tuple[Column, Column]] = list(zip(known, tested, strict=True))
    if network:
        split = _Split.of_network(known, tested)
        compared = [([*known[0], *known[1]], [*tested[0], *tested[1]]), ([], [])]
    else:
        split = _Split.of_grid(known, tested)
    is_leak, is_harder = split.against(claimed)
    return Audit(
        n_train=len(split.train[0]),
        n_test=len(split.test[0]),
        claimed=None if claimed is None else claimed.value,
        settings=np.array(["D", "C", "B", "A"])[split.seen[0] + 2 * split.seen[1]],
        is_repeated=split.is_repeated,
        is_leak=is_leak,
        is_harder=is_harder,
        network=network,
        nearness=(
            _nearness(instances, kernel, *compared[0]),
            _nearness(tasks, task_kernel, *compared[1]),
        ),
        n_older=n_older,
        newest=newest,
        index=index_of_rows(test),
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """Numbers of the instances and tasks of training and test pairs, and which of those tested are known.

    Attributes
    ----------
    train, test : (array, array)
        Numbers of the instance and of the task of each pair.
    seen : (array, array) of bool
        Whether the instance, and the task, of each test pair is in training.
    is_network : bool
        Whether instances and tasks are the same nodes.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    seen: tuple[np.ndarray, np.ndarray]
    is_network: bool

    @classmethod
    def of_grid(cls, train: tuple[Column, Column], test: tuple[Column, Column]) -> _Split:
        """Return the split of pairs of instances and tasks."""
        rows, test_rows = factorize([train[0], test[0]], "train or test")
        columns, test_columns = factorize([train[1], test[1]], "train or test")
        check_writing([train[0]], [test[0]], "Instances of train and test")
        check_writing([train[1]], [test[1]], "Tasks of train and test")
        seen = (np.isin(test_rows, rows), np.isin(test_columns, columns))
        return cls((rows, columns), (test_rows, test_columns), seen, is_network=False)

    @classmethod
    def of_network(cls, train: tuple[Column, Column], test: tuple[Column, Column]) -> _Split:
        """Return the split of edges, whose nodes are numbered together."""
        rows, columns, test_rows, test_columns = factorize([*train, *test], "train or test")
        check_writing([*train], [*test], "Nodes of train and test")
        check_writing([train[0]], [train[1]], "Instances and tasks of a network")
        nodes = np.concatenate([rows, columns])
        seen = (np.isin(test_rows, nodes), np.isin(test_columns, nodes))
        edges = ends_in_order(rows, columns)
        return cls(edges, ends_in_order(test_rows, test_columns), seen, is_network=True)

    @cached_property
    def is_repeated(self) -> np.ndarray:
        """Whether each test pair is in training."""
        n_tasks = int(max(self.train[1].max(), self.test[1].max())) + 1
        return np.isin(pair_numbers(*self.test, n_tasks), pair_numbers(*self.train, n_tasks))

    def against(self, claimed: Setting | None) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each test pair is easier than a claimed setting, and whether it is harder."""
        is_harder = np.zeros_like(self.is_repeated)
        if claimed is None:
            return self.is_repeated, is_harder
        if self.is_network and claimed in (Setting.B, Setting.C):
            first, second = self.seen
            return first & second, ~(first | second)
        for axis in {0, 1}.difference(claimed.new):
            is_harder |= ~self.seen[axis]
        if claimed is Setting.A:
            return self.is_repeated, is_harder
        is_leak = np.logical_or.reduce([self.seen[axis] for axis in claimed.new])
        return is_leak, is_harder


def _nearness(described: Any, kernel: Kernel, train: Column, test: Column) -> Nearness | None:
    """Return the similarities of test entities to those of training; None without descriptions."""
    if described is None:
        return None
    table = read_table(described, "instances or tasks")
    values = table.values
    if not hasattr(values, "shape"):
        table = replace(table, values=np.asarray(values))
    is_kernel = isinstance(kernel, str) and kernel == "precomputed"
    if is_kernel and table.row_ids is not None and table.column_ids is not None:
        table = table.columns_as(table.row_ids, "the columns of the kernel", "its rows")
    return nearness(table, train, test, kernel)


def _older(train: Any, test: Any) -> tuple[Any, int]:
    """Return the time of the newest training pair, and the number of test pairs before it."""
    times, test_times = read_times(train, "time"), read_times(test, "time")
    if times.dtype != test_times.dtype:
        raise TypeError("time must be numbers or dates in training and in test, found both.")
    newest = times.max()
    return newest, int(np.count_nonzero(test_times < newest))


def _read(train: Any, test: Any) -> tuple[tuple[Column, Column], tuple[Column, Column]]:
    """Return the columns of two tables of pairs, or the positions of the cells in two masks."""
    are_masks = [isinstance(part, np.ndarray) and part.dtype == bool for part in (train, test)]
    if any(are_masks):
        shapes = [np.shape(part) for part in (train, test)]
        if not all(are_masks) or shapes[0] != shapes[1] or len(shapes[0]) != 2:
            raise ValueError(
                f"train and test must be two masks of the same grid, found shapes {shapes[0]} and "
                f"{shapes[1]}."
            )
        train = np.argwhere(train)
        test = np.argwhere(test)
    return id_columns(train, "train"), id_columns(test, "test")
