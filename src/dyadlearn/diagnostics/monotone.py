r"""Non-decreasing maps from scores to probabilities: Platt's sigmoid, isotonic regression, other base rates.

A map never decreases, even if the held-out scores do: the held-out predictions of a model that has
learned nothing are the means of the other labels, which are perfectly anticorrelated with the
labels. New pairs have no such anticorrelation, so a decreasing map would be wrong for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

#: Non-decreasing function that returns the probability of each score.
Map = Callable[[np.ndarray], np.ndarray]


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
        """Return the probability of each score, NaN for NaN."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * np.asarray(scores, dtype=np.float64) + self.intercept))


def sigmoid(scores: np.ndarray, positive: np.ndarray) -> Sigmoid:
    r"""Fit a sigmoid by Platt's method: maximum likelihood with smoothed targets.

    With :math:`N^+` positive and :math:`N^-` negative cells the targets are :math:`(N^+ + 1)/(N^+ +
    2)` and
    :math:`1/(N^- + 2)`. So a and b are finite even if the scores separate the labels, or if no cell is positive.

    Parameters
    ----------
    scores : array of shape (n,)
    positive : boolean array of shape (n,)

    Returns
    -------
    Sigmoid
        The slope is 0 if scores do not increase with the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.monotone import sigmoid
    >>> sigmoid(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))(np.array([1.5])).round(3)
    array([0.5])
    """
    from sklearn.linear_model import LogisticRegression

    n_positive = int(np.count_nonzero(positive))
    n_negative = positive.size - n_positive
    targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    share = float(targets.mean())
    flat = Sigmoid(0.0, float(np.log(share) - np.log1p(-share)))
    scores = np.asarray(scores, dtype=np.float64)
    centre = float(scores.mean())
    scale = float(scores.std())
    if scale <= 8 * np.finfo(np.float64).eps * abs(centre):
        return flat  # all scores are equal up to rounding
    z = (scores - centre) / scale
    if z @ (targets - share) <= 0:
        return flat  # the likelihood decreases with the slope at 0
    # Each score is used once for each value, with the target as the weight of the positive one.
    cells = np.tile(z, 2).reshape(-1, 1)
    values = np.repeat([True, False], z.size)
    fitted = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
    fitted.fit(cells, values, np.concatenate([targets, 1 - targets]))
    slope = max(float(fitted.coef_[0, 0]), 0.0)
    intercept = float(fitted.intercept_[0])
    return Sigmoid(slope / scale, intercept - slope * centre / scale)


def isotonic(scores: np.ndarray, positive: np.ndarray) -> Map:
    """Fit the non-decreasing map with the least squared error (isotonic regression).

    Parameters
    ----------
    scores : array of shape (n,)
    positive : boolean array of shape (n,)

    Returns
    -------
    callable
        Piecewise linear map, constant beyond both ends; NaN for NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.monotone import isotonic
    >>> fitted = isotonic(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
    >>> fitted(np.array([-1.0, 1.0, 2.0, 4.0]))
    array([0. , 0.5, 0.5, 1. ])
    """
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True)
    fitted.fit(np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=np.float64))
    return partial(np.interp, xp=fitted.X_thresholds_, fp=fitted.y_thresholds_)  # type: ignore[return-value]


@dataclass(frozen=True)
class BaseRate:
    r"""Probabilities for another base rate of positive labels than that of the labels they were learned from.

    Scores of positive and of negative pairs keep their distributions, and only the fraction of
    positive pairs changes from :math:`\pi` to :math:`\pi'`. Then (Saerens, Latinne and Decaestecker,
    *Neural Computation* 14, 2002, eq. 2.4; Elkan, *IJCAI* 2001, theorem 2)

    .. math:: p' = \frac{p\,\pi'/\pi}{p\,\pi'/\pi + (1 - p)(1 - \pi')/(1 - \pi)} ,

    which adds :math:`\operatorname{logit}\pi' - \operatorname{logit}\pi` to the log odds. A mean over
    pairs with the new base rate is a weighted mean over the labels, with the weights
    :math:`\pi'/\pi` of positive and :math:`(1 - \pi')/(1 - \pi)` of negative ones.

    Attributes
    ----------
    before, after : float
        π and π′, between 0 and 1.
    """

    before: float
    after: float

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the probabilities for the new base rate."""
        if self.after == self.before:
            return probabilities
        positive = probabilities * (self.after / self.before)
        negative = (1.0 - probabilities) * ((1.0 - self.after) / (1.0 - self.before))
        return np.asarray(positive / (positive + negative))

    def weights(self, positive: np.ndarray) -> np.ndarray:
        """Return the weight of each label in means over pairs with the new base rate."""
        weights = (1.0 - self.after) / (1.0 - self.before), self.after / self.before
        return np.where(positive, weights[1], weights[0])


@dataclass(frozen=True)
class Shifted:
    """A map from scores to probabilities for another base rate.

    Attributes
    ----------
    mapping : callable
        Map for the base rate of the labels it was fitted on.
    base_rate : BaseRate
    """

    mapping: Map
    base_rate: BaseRate

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each score, NaN for NaN."""
        return self.base_rate(self.mapping(scores))


#: Functions that fit a map, by name.
MAPS: Mapping[str, Callable[[np.ndarray, np.ndarray], Map]] = {
    "sigmoid": sigmoid,
    "isotonic": isotonic,
}
