"""Scores of scikit-learn, applied to the cells of each row as to the predictions of an estimator.

A scorer of scikit-learn is called with an estimator, its input and labels. Here the estimator is one that answers with
its input, as a regressor does or as the decision function of a classifier: what the scorer makes of that tells whether
it can judge numbers, without any look inside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier

from dyadlearn._array import Array, to_numpy
from dyadlearn.metrics.cells import Cells, Metric, refuse_nan
from dyadlearn.metrics.ranks import positives

__all__ = ["Borrowed", "is_borrowable", "judged", "judges_numbers", "name_of", "names", "title_of"]

# On these every score of numbers is defined: both labels occur, all is positive, and no prediction is right.
_LABELS = np.array([1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0])
_PREDICTIONS = np.array([1.3, 1.6, 0.9, 2.1, 1.2, 1.4, 1.8, 0.7])


class _Numbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that predicts its input."""

    score = None  # what an estimator says of itself is no score of predictions

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


class _Decisions(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of 0 and 1 whose decision function is its input."""

    classes_ = np.array([0, 1])
    score = None

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X


class Borrowed(Metric):
    """A score of scikit-learn, of all cells together or of each row or column, and then their mean.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed. Of two values for a score that wants the decisions of a classifier.
    scorer : str or callable
        The name of a scorer of scikit-learn, or one that `sklearn.metrics.make_scorer` returned.
    **options
        As in `Metric`. Ties are the scorer's business.
    """

    title = "The score of scikit-learn"
    needs = "observed labels that it is defined for"

    def __init__(self, Y: Any, *, scorer: str | Callable[..., Any], **options: Any) -> None:
        self._scorer, self._estimator = judged(scorer)
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        self._truth = cells.filled
        if is_classifier(self._estimator):
            self._truth = positives(cells, title_of(self._scorer)).astype(np.int64)
        rows = zip(self._truth, cells.observed, strict=True)
        return np.asarray([mask.any() and self._is_defined(truth[mask]) for truth, mask in rows], dtype=bool)

    def _is_defined(self, truth: np.ndarray) -> bool:
        """Tell whether labels (n,) have a score at all, by that of perfect predictions."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return not np.isnan(self._scorer(self._estimator, truth.astype(np.float64), truth))
            except Warning:
                return False
            except ValueError:  # of what is wrong with these predictions others are told
                return True

    def _prepare(self) -> None:
        self._rows = list(zip(self._truth[self.rows], self._cells.observed, strict=True))

    def _score(self, F: Array) -> Array:
        stack = to_numpy(self._cells.arrange(F)).astype(np.float64)
        if np.isnan(stack[:, self._cells.observed]).any():
            refuse_nan()
        with config_context(skip_parameter_validation=True):  # it was done before, and takes longer than the score
            scores = [
                self._scorer(self._estimator, row[mask], truth[mask])
                for rows in stack
                for row, (truth, mask) in zip(rows, self._rows, strict=True)
            ]
        return self._cells.place(np.asarray(scores, dtype=np.float64).reshape(len(stack), len(self._rows)))


def names() -> list[str]:
    """Return the names that scikit-learn has for scorers, of numbers and of classes."""
    from sklearn.metrics import get_scorer_names

    return list(get_scorer_names())


def is_borrowable(scoring: Any) -> bool:
    """Tell whether something is a scorer of scikit-learn, as `sklearn.metrics.make_scorer` returns one."""
    return callable(scoring) and hasattr(scoring, "get_metadata_routing")


def judges_numbers(scoring: Any) -> bool:
    """Tell whether a scorer of scikit-learn, or its name, is of any use here."""
    try:
        judged(scoring)
    except ValueError:
        return False
    return True


def name_of(scoring: Any) -> str | None:
    """Return the name by which scikit-learn knows a scorer; None for one that has none."""
    function = getattr(scoring, "_score_func", None)
    for name in names():
        known = _found(name)
        # Any function can be called as one of scikit-learn is: it has to be the same.
        if repr(known) == repr(scoring) and getattr(known, "_score_func", known) is function:
            return name
    return None


def title_of(scoring: Any) -> str:
    """Return what a table calls a scorer: its name, or the metric it is made of, ``neg_`` telling that less is better.

    Examples
    --------
    >>> from sklearn.metrics import make_scorer, max_error, median_absolute_error
    >>> from dyadlearn.metrics.borrowed import title_of
    >>> title_of(make_scorer(median_absolute_error, greater_is_better=False)), title_of(make_scorer(max_error))
    ('neg_median_absolute_error', 'max_error')
    """
    function = getattr(scoring, "_score_func", None)
    called = getattr(function, "__name__", repr(scoring))
    return name_of(scoring) or ("neg_" if function is not None and getattr(scoring, "_sign", 1) < 0 else "") + called


def judged(scoring: str | Callable[..., Any]) -> tuple[Callable[..., Any], BaseEstimator]:
    """Return a scorer of scikit-learn, given maybe by its name, and the estimator of numbers that it can judge.

    Raises
    ------
    ValueError
        If it can judge neither what a regressor predicts nor a decision function.
    """
    found, refusals = _found(scoring), []
    for estimator, labels in ((_Numbers(), _LABELS), (_Decisions(), (_LABELS > 1.5).astype(np.int64))):
        with warnings.catch_warnings():
            # Such as that clusters are discrete, or that all classes are among the best two.
            warnings.simplefilter("error")
            try:
                if np.isfinite(float(found(estimator, _PREDICTIONS, labels))):
                    return found, estimator
            except Exception as error:  # whatever a score of something else has to say to numbers
                refusals.append(error)
    raise ValueError(
        f"scoring={scoring!r} of scikit-learn judges the classes or probabilities that a classifier predicts, or more "
        "than one vector, and these models predict numbers: take a score of order or distance, such as 'roc_auc', "
        "'average_precision', 'r2' or 'neg_median_absolute_error', or a function of (Y, F) that makes classes of them."
    ) from next(iter(refusals), None)


def _found(scoring: str | Callable[..., Any]) -> Callable[..., Any]:
    from sklearn.metrics import get_scorer

    found: Callable[..., Any] = get_scorer(scoring)
    return found
