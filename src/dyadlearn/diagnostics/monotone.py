r"""Scores into probabilities, by a map that never falls: Platt's sigmoid, or steps.

A map may not fall, however the scores that it learns from lie. Where a model has learnt nothing, its prediction for a
label that was left out is the mean of the others, which is the lower the larger that label is: held-out predictions of
a useless model run against the labels, perfectly so. A falling map would take that for knowledge, which is gone as soon
as something really new comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["MAPS", "Sigmoid", "Steps", "isotonic", "sigmoid"]

# Newton's method doubles its digits in each step; the first ones are short where the two values are far apart.
_MOST_STEPS = 200


@dataclass(frozen=True)
class Sigmoid:
    r"""The probability :math:`p(f) = 1 / (1 + e^{-(af + b)})` of a score f.

    Attributes
    ----------
    slope, intercept : float
        a, which is at least 0, and b.
    """

    slope: float
    intercept: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each score, NaN of NaN."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * np.asarray(scores, dtype=np.float64) + self.intercept))


@dataclass(frozen=True, eq=False)
class Steps:
    """A map of straight pieces between thresholds, and constant beyond both ends.

    Attributes
    ----------
    thresholds, values : arrays of shape (n,)
        Scores in ascending order, and their probabilities, which never fall.
    """

    thresholds: np.ndarray
    values: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each score, NaN of NaN."""
        return np.asarray(np.interp(np.asarray(scores, dtype=np.float64), self.thresholds, self.values))


def sigmoid(scores: np.ndarray, positive: np.ndarray) -> Sigmoid:
    r"""Fit a sigmoid by Platt's method: the likelihood of targets that are a little less sure than the labels are.

    With :math:`N^+` positive and :math:`N^-` negative cells the targets are :math:`(N^+ + 1)/(N^+ + 2)` and
    :math:`1/(N^- + 2)`, so that a and b are finite even where the scores tell all labels apart, and there is an answer
    even without a positive cell.

    Parameters
    ----------
    scores : array of shape (n,)
    positive : boolean array of shape (n,)

    Returns
    -------
    Sigmoid
        With the slope 0 where scores do not rise with the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.monotone import sigmoid
    >>> sigmoid(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))(np.array([1.5])).round(3)
    array([0.5])
    """
    n_positive = int(np.count_nonzero(positive))
    targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (positive.size - n_positive + 2))
    share = float(targets.mean())
    flat = Sigmoid(0.0, float(np.log(share) - np.log1p(-share)))
    scores = np.asarray(scores, dtype=np.float64)
    centre, scale = float(scores.mean()), float(scores.std())
    if scale <= 8 * np.finfo(np.float64).eps * abs(centre):
        return flat  # all scores are equal, but for rounding
    z = (scores - centre) / scale
    if z @ (targets - share) <= 0:
        return flat  # the slope of the loss at 0 points the other way
    slope, intercept = _fitted(z, targets, flat.intercept)
    return Sigmoid(slope / scale, intercept - slope * centre / scale)


def _fitted(z: np.ndarray, targets: np.ndarray, intercept: float) -> tuple[float, float]:
    """Minimise the logistic loss of targets between 0 and 1, which has one minimum, by Newton's method."""
    from scipy.special import expit

    def loss(point: np.ndarray) -> float:
        u = point[0] * z + point[1]
        return float(np.logaddexp(0.0, u).sum() - targets @ u)

    point = np.array([0.0, intercept])
    now = loss(point)
    for _ in range(_MOST_STEPS):
        p = expit(point[0] * z + point[1])
        error, spread = p - targets, p * (1 - p)
        gradient = np.array([error @ z, error.sum()])
        cross = spread @ z
        step = np.linalg.solve(np.array([[spread @ (z * z), cross], [cross, spread.sum()]]), gradient)
        gain, length = float(gradient @ step), 1.0
        if gain <= 1e-10 * now:
            # So near that the loss has no digits left to compare, and a whole step doubles those of the answer.
            point = point - step
            break
        while (there := loss(point - length * step)) > now - 1e-4 * length * gain and length > 1e-6:
            length /= 2
        point, now = point - length * step, there
    return float(point[0]), float(point[1])


def isotonic(scores: np.ndarray, positive: np.ndarray) -> Steps:
    """Fit the map that never falls and has the least squared error, whatever its form.

    Parameters
    ----------
    scores : array of shape (n,)
    positive : boolean array of shape (n,)

    Returns
    -------
    Steps

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.monotone import isotonic
    >>> found = isotonic(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
    >>> found(np.array([-1.0, 1.0, 2.0, 4.0]))
    array([0. , 0.5, 0.5, 1. ])
    """
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True)
    fitted.fit(np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=np.float64))
    return Steps(fitted.X_thresholds_, fitted.y_thresholds_)


#: How a map is fitted, by name.
MAPS: Mapping[str, Callable[[np.ndarray, np.ndarray], Sigmoid | Steps]] = {"sigmoid": sigmoid, "isotonic": isotonic}
