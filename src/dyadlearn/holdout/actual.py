"""The setting that each held-out pair is really in: what is new for the model that was fitted without it.

In a sparse table an entity may have a single label. It is new as soon as this label is held out, so
that a pair which is left out alone, in setting A, is predicted as a new instance, a new task, or
both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn._codes import pair_numbers
from dyadlearn._text import joined
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.settings import Setting


def actual_settings(labels: Labels, setting: Setting, units: Units) -> np.ndarray:
    """Return the setting that each observed label is predicted in when its unit is left out.

    Parameters
    ----------
    labels : Labels
    setting : Setting
        Setting of the hold-out.
    units : Units

    Returns
    -------
    array of str, of shape (n,)
        Letters of the settings, in the order of the observed labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout import Units
    >>> from dyadlearn.holdout.actual import actual_settings
    >>> from dyadlearn.labels import Labels
    >>> from dyadlearn.settings import Setting
    >>> Y = np.array([[1.0, 0.0], [np.nan, 1.0]])
    >>> actual_settings(Labels.of_grid(Y), Setting.A, Units()).tolist()
    ['C', 'A', 'B']
    """
    is_new = [np.full(labels.size, axis in setting.new) for axis in (0, 1)]
    if labels.size < math.prod(labels.shape) or units.cells is not None:
        for axis in {0, 1} - set(setting.new):
            is_new[axis] = _are_alone(labels, axis, _left_with(labels, setting, units))
    letters = np.empty((2, 2), dtype="<U1")
    for actual in Setting:
        letters[int(0 in actual.new), int(1 in actual.new)] = actual.value
    return np.asarray(letters[is_new[0].astype(int), is_new[1].astype(int)])


def _left_with(labels: Labels, setting: Setting, units: Units) -> np.ndarray:
    """Return the unit that each observed label is left out with."""
    [codes] = units.of_labels(labels, setting)
    observed: np.ndarray = np.asarray(codes)[labels.observed]
    return observed


def _are_alone(labels: Labels, axis: int, codes: np.ndarray) -> np.ndarray:
    """Return whether all labels of the instance, or task, of each observed label are in its unit."""
    entities = labels.places[axis]
    _, units = np.unique(codes, return_inverse=True)
    _, both, n_both = np.unique(
        pair_numbers(entities, units, int(units.max(initial=0)) + 1),
        return_inverse=True,
        return_counts=True,
    )
    n_labels = np.bincount(entities, minlength=labels.shape[axis])
    return np.asarray(n_both[both] == n_labels[entities])


def tested_labels(targets: Array, labels: Labels, setting: Setting, units: Units) -> Array:
    """Return the labels to score, NaN where strict folds do not test one: all labels of other folds.

    Parameters
    ----------
    targets : array of the shape of the labels' values
        Labels to score.
    labels : Labels
        All labels.
    setting : Setting
    units : Units
    """
    if not units.strict:
        return targets
    return of_setting(targets, labels, setting, units, setting)


def of_setting(
    targets: Array, labels: Labels, setting: Setting, units: Units, actual: Setting
) -> Array:
    """Return the labels to score of one actual setting, NaN elsewhere; for the others see `tested_labels`."""
    is_wanted = actual_settings(labels, setting, units) == actual.value
    if units.strict and units.cells is not None:
        is_wanted &= _left_with(labels, setting, units) >= 0
    mask = np.zeros(tuple(labels.values.shape), dtype=bool)
    mask[labels.observed] = is_wanted
    return namespace(targets).where(as_array_of(mask, targets), targets, float("nan"))


def counts_of(letters: np.ndarray, setting: Setting) -> dict[str, int]:
    """Return the number of held-out pairs of each actual setting; empty if all are in that of the hold-out.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.actual import counts_of
    >>> from dyadlearn.settings import Setting
    >>> counts_of(np.array(["A", "B", "A"]), Setting.A), counts_of(np.array(["A"]), Setting.A)
    ({'A': 2, 'B': 1}, {})
    """
    counts = {actual.value: int(np.count_nonzero(letters == actual.value)) for actual in Setting}
    if counts[setting.value] == letters.size:
        return {}
    return {letter: count for letter, count in counts.items() if count}


def in_one_line(counts: Mapping[str, Mapping[str, int]]) -> str | None:
    """Return the line that says in which settings held-out pairs really are, given counts by setting; None without any.

    Examples
    --------
    >>> from dyadlearn.holdout.actual import in_one_line
    >>> print(in_one_line({"A": {"A": 40, "B": 6, "D": 1}, "B": {}, "C": {"C": 42, "D": 1}}))
    Held-out pairs of A are 40 A, 6 B and 1 D, those of C are 42 C and 1 D: an entity without another label is new.
    """
    parts: list[str] = []
    for letter, by_actual in counts.items():
        if by_actual:
            words = joined([f"{count:,} {actual}" for actual, count in by_actual.items()])
            parts.append(f"{'those' if parts else 'Held-out pairs'} of {letter} are {words}")
    if not parts:
        return None
    return f"{', '.join(parts)}: an entity without another label is new."
