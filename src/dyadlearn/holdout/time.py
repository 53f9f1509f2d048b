"""Splits of pairs by time: training pairs are never later than test pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metadata_routing import UNUSED

from dyadlearn._checks import check_whole
from dyadlearn._codes import factorize, id_columns, label_array, missing
from dyadlearn._state import Stored
from dyadlearn._tables import in_rows_of
from dyadlearn.settings import Setting, as_setting


class TimeSplit(Stored, BaseCrossValidator):  # type: ignore[misc]
    """Splits of a table of pairs by time: train on the past, test on the period that follows.

    The times are divided into ``n_splits + 1`` periods with about equally many pairs; pairs of the
    same time are in one period. Split k trains on the first k periods and tests on the next one.
    So it shows how well a model that is fitted today predicts what is measured next.

    Test pairs belong to whatever setting the future brings: `audit` counts them. With a `setting`
    only those test pairs are kept that belong to it.

    Parameters
    ----------
    n_splits : int, default=5
    setting : str, Setting or None, default=None
        Keep only the test pairs of this setting, by whether their instance and their task occur in
        the training pairs of the split; None keeps all.

    See Also
    --------
    dyadlearn.SettingKFold : random folds of pairs, instances, tasks or both.

    Examples
    --------
    >>> from dyadlearn.selection import TimeSplit
    >>> pairs = [("ann", "tea"), ("bob", "tea"), ("ann", "cake"), ("eve", "tea")]
    >>> times = ["2019-01-05", "2020-02-01", "2021-07-01", "2022-01-01"]
    >>> for train, test in TimeSplit(3).split(pairs, time=times):
    ...     print(train, test)
    [0] [1]
    [0 1] [2]
    [0 1 2] [3]
    >>> [test.tolist() for _, test in TimeSplit(3, "B").split(pairs, time=times)]
    [[1], [3]]
    """

    __metadata_request__split = {  # noqa: RUF012
        "pairs": UNUSED,
        "groups": UNUSED,
        "time": True,
    }

    def __init__(self, n_splits: int = 5, setting: str | Setting | None = None) -> None:
        self.n_splits = check_whole(n_splits, "n_splits", 1)
        self.setting = None if setting is None else as_setting(setting).value

    def split(self, pairs: Any, y: Any = None, groups: Any = None, *, time: Any = None) -> Any:
        """Yield the positions of the training rows and of the test rows of each split.

        Parameters
        ----------
        pairs : array-like or frame of shape (n, 2)
            Instance id and task id of each row.
        y, groups : ignored
        time : array-like of shape (n,)
            Time of each row: numbers, dates or ISO text.

        Yields
        ------
        train, test : integer arrays
            Row positions in `pairs`, ascending. Splits without a test row of the setting are
            skipped, and if all are, an error is raised.
        """
        if time is None:
            raise ValueError(
                "TimeSplit needs the times of the rows: pass time=, to functions of scikit-learn as "
                'params={"time": …} with metadata routing.'
            )
        columns = id_columns(pairs, "pairs")
        codes = [factorize([column], "pairs")[0] for column in columns]
        time = in_rows_of(time, pairs, "time", "pairs")
        period = self._periods(read_times(time, "time", len(codes[0])))
        n_found = 0
        for number in range(1, self.n_splits + 1):
            train = np.flatnonzero(period < number)
            test = np.flatnonzero(period == number)
            if self.setting is not None:
                test = test[self._is_of_setting(codes, train, test)]
            if train.size and test.size:
                n_found += 1
                yield train, test
        if not n_found:
            raise ValueError(
                f"None of {self.n_splits} splits has a test pair of setting {self.setting}: leave "
                f"setting= out, or use fewer splits."
            )

    def get_n_splits(
        self, pairs: Any = None, y: Any = None, groups: Any = None, *, time: Any = None
    ) -> int:
        """Return the number of splits; with `pairs` and `time`, without those that are skipped."""
        if pairs is None or time is None:
            return self.n_splits
        return sum(1 for _ in self.split(pairs, time=time))

    def _periods(self, times: np.ndarray) -> np.ndarray:
        """Return the period of each row, from 0; raise if there are fewer times than periods."""
        distinct, codes, counts = np.unique(times, return_inverse=True, return_counts=True)
        n_periods = self.n_splits + 1
        if len(distinct) < n_periods:
            raise ValueError(
                f"{self.n_splits} splits need at least {n_periods} different times, found "
                f"{len(distinct)}: use fewer splits."
            )
        before = np.cumsum(counts) - counts
        wanted = before * n_periods // len(times)
        # Each period has at least one time, also if many rows share one.
        order = np.arange(len(distinct))
        lowest = np.maximum(order - (len(distinct) - n_periods), 0)
        periods = np.empty(len(distinct), dtype=np.intp)
        last = -1
        for place in order:
            last = min(last + 1, max(int(wanted[place]), lowest[place], last, 0))
            periods[place] = last
        return periods[codes]

    def _is_of_setting(
        self, codes: list[np.ndarray], train: np.ndarray, test: np.ndarray
    ) -> np.ndarray:
        """Return which test rows belong to the setting."""
        new = Setting(str(self.setting)).new
        is_of = np.ones(len(test), dtype=bool)
        for axis, side in enumerate(codes):
            is_of &= ~np.isin(side[test], side[train]) == (axis in new)
        return is_of


def read_times(time: Any, name: str, n_rows: int | None = None) -> np.ndarray:
    """Return times as numbers, or as dates of numpy; raise if one is missing or is neither.

    Parameters
    ----------
    time : array-like of shape (n,)
        Numbers, dates, or text such as 2021-07-01 or 2021-07-01T12:30.
    name : str
        Name of the times in messages.
    n_rows : int, default=None
        Expected number of times.
    """
    values = label_array(time).reshape(-1)
    if n_rows is not None and len(values) != n_rows:
        raise ValueError(f"{name} must have a time for each of {n_rows} rows, found {len(values)}.")
    are_dates = values.dtype.kind == "M"
    is_missing = np.isnat(values) if are_dates else missing(values)
    if is_missing.any():
        row = int(np.argmax(is_missing))
        raise ValueError(f"{name} has a missing value in row {row}: drop the row, or fill it in.")
    if are_dates:
        return values.astype("datetime64[us]")
    return _converted(values, name)


def _converted(values: np.ndarray, name: str) -> np.ndarray:
    """Return numbers as floats, and dates or text as dates of numpy."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        pass
    texts = [value.strip() if isinstance(value, str) else value for value in values.tolist()]
    try:
        return np.array(texts, dtype="datetime64[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers, dates or text such as 2021-07-01, found {texts[0]!r}."
        ) from error


def time_in_words(time: Any) -> str:
    """Return a time for people: a number, or a date without the time of day if that is midnight."""
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[s]")).removesuffix("T00:00:00")
    return f"{time:g}"
