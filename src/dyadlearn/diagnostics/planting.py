r"""How much labels are contradicted, and how much wrong ones would be: errors planted in every cell, one at a time.

A held-out prediction never saw the label of its cell. So a label that is changed on purpose changes nothing about its
prediction, in any setting, and how much the changed label is contradicted is known without fitting anything again. Let
:math:`P(t)` count the cells whose label, if it were a planted error, would be contradicted by at least :math:`t`, and
:math:`O(t)` those that are in fact. If every label is wrong with the chance :math:`\rho`, about :math:`\rho P(t)` of
the latter are wrong. They cannot be more than there are, at any :math:`t`, but for luck: hence the largest chance that
the predictions admit is

.. math:: \hat\rho = \min_t \bigl(O(t) + \sqrt{O(t)} + 2\bigr) / P(t) ,

with labels of two values over both of them. A list down to :math:`t` holds about :math:`\hat\rho P(t)` wrong labels,
less the two (of either value) that were allowed for luck, and the share :math:`P(t) / P(0)` of all that are.

What it rests on: errors hit all labels alike, whatever the features say. What it cannot tell: right labels that the
features do not explain are contradicted as wrong ones are, and count as wrong. Where a model predicts well there are
few of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["Budget", "Errors", "contradictions", "expected", "plant"]

# How many more cells than there are could be there by luck: these, and a standard deviation of their number.
_LUCK = 2.0
# How many labels of other cells each cell is given in turn, where an error may be of many values.
_DRAWS = 10


class Errors(NamedTuple):
    """Planted errors.

    Attributes
    ----------
    label : float or None
        What the planted labels are; None stands for all values.
    contradictions : array of shape (n,)
        How much each of them is contradicted, in ascending order.
    weight : float
        How many cells each stands for.
    """

    label: float | None
    contradictions: np.ndarray
    weight: float

    def reaching(self, thresholds: np.ndarray, side: str = "left") -> np.ndarray:
        """Return how many cells are contradicted by at least each threshold; side "right": by more."""
        n_below = np.searchsorted(self.contradictions, thresholds, side=side)  # type: ignore[call-overload]
        return np.asarray(self.weight * (len(self.contradictions) - n_below))


class Budget(NamedTuple):
    """What is expected of a list of cells, down to each of them.

    Attributes
    ----------
    wrongs : array of shape (n,)
        How many labels are wrong.
    recoveries : array of shape (n,)
        The share of planted errors in it.
    rate : float
        The chance of a label to be wrong.
    """

    wrongs: np.ndarray
    recoveries: np.ndarray
    rate: float


def contradictions(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Tell how much held-out predictions contradict each label; `screen` says what that is.

    Parameters
    ----------
    Y, F : arrays of shape (m, q)
        Labels and held-out predictions, NaN where there are none.

    Returns
    -------
    array of shape (m, q)
        From 0 to 1 for labels of two values, else the absolute error; NaN where a label or a prediction is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.planting import contradictions
    >>> contradictions(np.array([[1.0, 0.0], [1.0, np.nan]]), np.array([[0.9, 0.4], [0.3, 0.2]]))
    array([[0. , 0.5],
           [1. , nan]])
    """
    known = ~(np.isnan(Y) | np.isnan(F))
    values = np.unique(Y[known])
    if len(values) != 2:
        return np.asarray(np.abs(Y - F))
    positive, negative = known & (values[1] == Y), known & (values[0] == Y)
    found = np.full(Y.shape, np.nan)
    found[positive] = 1 - _share_below(np.sort(F[negative]), F[positive])
    found[negative] = _share_below(np.sort(F[positive]), F[negative])
    return found


def plant(
    Y: np.ndarray, F: np.ndarray, *, label: float | None = None, once: bool = False, random_state: Any = None
) -> list[Errors]:
    """Return how much labels would be contradicted that are wrong for certain.

    With labels of two values each cell is given the other one. With more, each is given the labels of some others,
    drawn at random, where these differ; or the label that is asked about.

    Parameters
    ----------
    Y, F : arrays of shape (m, q)
        Labels and held-out predictions, NaN where there are none.
    label : float, default=None
        Errors of this value only.
    once : bool, default=False
        Whether a pair stands in the grid twice, and counts once.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    list of Errors
        One for each of two values, else one for all.

    Raises
    ------
    ValueError
        If no cell could have another label.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.planting import plant
    >>> [errors, _] = plant(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.9, 0.4], [0.3, 0.2]]))
    >>> errors.label, errors.contradictions
    (0.0, array([0., 1.]))
    """
    known = ~(np.isnan(Y) | np.isnan(F))
    values = np.unique(Y[known])
    counted = known & np.triu(np.ones(Y.shape, dtype=bool)) if once else known
    found = []
    if len(values) == 2:
        for place, value in enumerate(values.tolist()):
            changed = counted & (value != Y)
            others = np.sort(F[known & (value != Y)])
            if label in (None, value) and len(others) > 1:
                # Like all of its old value but itself, which counts half among those below it.
                below = (_share_below(others, F[changed]) * len(others) - 0.5) / (len(others) - 1)
                found.append(Errors(value, np.sort(below if place == 0 else 1 - below), 1.0))
    elif label is not None:
        found.append(Errors(label, np.sort(np.abs(label - F[counted & (label != Y)])), 1.0))
    else:
        random, own, predicted = check_random_state(random_state), Y[counted], F[counted]
        drawn = np.stack([random.permutation(own) for _ in range(_DRAWS)])
        wrong = drawn != own
        n_wrong = max(1, int(np.count_nonzero(wrong)))
        found.append(Errors(None, np.sort(np.abs(drawn - predicted)[wrong]), own.size / n_wrong))
    if not any(len(errors.contradictions) for errors in found):
        raise ValueError("No error can be planted, as there are no other labels than these: leave fdr out.")
    return found


def expected(found: np.ndarray, labels: np.ndarray, errors: Sequence[Errors]) -> Budget:
    """Estimate how many labels are wrong in each list of the most contradicted ones.

    Parameters
    ----------
    found : array of shape (n,)
        How much each cell is contradicted, in descending order.
    labels : array of shape (n,)
    errors : sequence of Errors

    Returns
    -------
    Budget
    """
    rate = 1.0
    for planted in errors:
        own = np.sort(found if planted.label is None else found[labels == planted.label])
        thresholds, first = np.unique(own, return_index=True)
        # Where no cell is left there may still be planted ones, which tells most.
        n_own = np.append(len(own) - first, 0)
        n_planted = np.append(planted.reaching(thresholds), planted.reaching(thresholds[-1:], "right"))
        told = n_planted > 0
        rate = min([rate, *((n_own + np.sqrt(n_own) + _LUCK)[told] / n_planted[told]).tolist()])
    # Cells that are contradicted alike share what is expected of them.
    ascending = found[::-1]
    above, reached = (len(found) - np.searchsorted(ascending, found, side=side) for side in ("right", "left"))
    share = (np.arange(1, len(found) + 1) - above) / np.maximum(1, reached - above)
    more, all_of_them = (sum(each.reaching(found, side) for each in errors) for side in ("right", "left"))
    planted_so_far = more + share * (all_of_them - more)
    total = sum(each.weight * len(each.contradictions) for each in errors)
    wrongs = np.clip(rate * planted_so_far - _LUCK * len(errors), 0, np.arange(1, len(found) + 1))
    return Budget(np.asarray(wrongs), np.asarray(planted_so_far / total), rate)


def _share_below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of `ordered` (n,) below each of `values`, ties counting half."""
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(ordered)))
