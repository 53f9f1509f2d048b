"""The metrics as functions of labels and predictions."""

from __future__ import annotations

from typing import Any

from dyadlearn.metrics.cells import Metric
from dyadlearn.metrics.errors import R2, SquaredLoss
from dyadlearn.metrics.ranks import AveragePrecision, ConcordanceIndex, RocAuc
from dyadlearn.metrics.top import EnrichmentFactor, NdcgAtK, PrecisionAtK, RecallAtK
from dyadlearn.settings import Setting

__all__ = [
    "average_precision",
    "concordance_index",
    "enrichment_factor",
    "mean_squared_error",
    "ndcg_at_k",
    "precision_at_k",
    "r2",
    "recall_at_k",
    "roc_auc",
]


def _answer(metric: Metric, F: Any, return_undefined: bool) -> Any:
    score = metric(F)
    return (score, metric.n_undefined) if return_undefined else score


def roc_auc(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the area under the ROC curve: how often a positive is ranked above a negative.

    With P positives and N negatives, and a tie counted as half,

    .. math:: \frac{1}{PN} \sum_{i \in +} \sum_{j \in -} [f_i > f_j] + \tfrac12 [f_i = f_j] .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns
        without a positive or without a negative are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import roc_auc
    >>> Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    >>> F = np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.1], [0.3, 0.2, 0.1]])
    >>> round(roc_auc(Y, F), 4)
    0.6944
    >>> roc_auc(Y, F, setting="B", return_undefined=True)
    (0.625, 1)
    >>> roc_auc(Y, np.stack([F, -F]), setting="B")
    array([0.625, 0.375])
    """
    return _answer(RocAuc(Y, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined)


def average_precision(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the average precision: the precision at the place of each positive, averaged over them.

    .. math:: \frac1P \sum_{i \in +} \frac{\#\{j \in + : f_j \ge f_i\}}{\#\{j : f_j \ge f_i\}}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns
        without a positive are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import average_precision
    >>> Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    >>> F = np.array([[0.9, 0.1, 0.2], [0.4, 0.5, 0.1], [0.3, 0.2, 0.1]])
    >>> round(average_precision(Y, F, average="instance"), 4)
    0.9167
    """
    return _answer(
        AveragePrecision(Y, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined
    )


def concordance_index(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the concordance index: how often, of two cells, the one with the greater label is ranked above the other.

    Pairs of equal labels do not count, and a tie of the predictions is half right. With two labels
    it is the area under the ROC curve.

    .. math:: \frac{1}{\#\{(i, j) : y_i > y_j\}} \sum_{y_i > y_j} [f_i > f_j] + \tfrac12 [f_i = f_j]

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all pairs of cells; over pairs in the same row, then the mean over the rows; over pairs
        in the same column, then the mean over the columns. Those of equal labels only are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import concordance_index
    >>> Y = np.array([[5.0, 6.5, 8.0, 5.0]])
    >>> concordance_index(Y, np.array([[0.1, 0.4, 0.3, 0.3]]))
    0.7
    """
    return _answer(
        ConcordanceIndex(Y, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined
    )


def mean_squared_error(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    return_undefined: bool = False,
) -> Any:
    r"""Return the mean squared error over the observed cells.

    .. math:: \frac1n \sum_i (y_i - f_i)^2

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells; the mean over the rows; the mean over the columns. They differ only where
        labels are missing. Rows or columns without an observed label are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import mean_squared_error
    >>> Y, F = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1.0, 4.0], [2.0, 9.0]])
    >>> mean_squared_error(Y, F, average="instance")
    1.5
    """
    return _answer(SquaredLoss(Y, average=average, setting=setting), F, return_undefined)


def r2(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    return_undefined: bool = False,
) -> Any:
    r"""Return the coefficient of determination, 1 for perfect predictions and 0 for the mean of the labels.

    .. math:: 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together, with their common mean; the mean over the rows; the mean over the
        columns. Rows or columns of equal labels are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import r2
    >>> r2(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 3.0]]))
    0.8
    """
    return _answer(R2(Y, average=average, setting=setting), F, return_undefined)


def precision_at_k(
    Y: Any,
    F: Any,
    k: int,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the share of positives among the k best ranked cells.

    Cells that tie for the last places share them: each counts by its chance to be among the k. With
    :math:`r_i` the place of cell i in a random order of ties,

    .. math:: \frac1k \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int
        Of a row with fewer observed cells all are taken.
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without an observed label are left out; without a positive the
        precision is 0.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import precision_at_k
    >>> precision_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.5, 0.1]]), k=2)
    0.75
    """
    return _answer(
        PrecisionAtK(Y, k=k, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined
    )


def recall_at_k(
    Y: Any,
    F: Any,
    k: int,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the share of the positives that are among the k best ranked cells.

    Cells that tie for the last places share them: each counts by its chance to be among the k. With
    :math:`r_i` the place of cell i in a random order of ties,

    .. math:: \frac1P \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a positive are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import recall_at_k
    >>> recall_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=2)
    0.5
    """
    return _answer(
        RecallAtK(Y, k=k, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined
    )


def ndcg_at_k(
    Y: Any,
    F: Any,
    k: int | None = None,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return the normalised discounted cumulative gain of the k best ranked cells.

    The labels are the gains. With :math:`r_i` the place of cell i, ties sharing the mean of their
    discounts, the sum is divided by the largest it could be:

    .. math:: \frac{1}{D_{\max}} \sum_{r_i \le k} \frac{y_i}{\log_2(1 + r_i)}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of at least 0; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int, default=None
        All cells where not given.
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a label above 0 are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import ndcg_at_k
    >>> round(ndcg_at_k(np.array([[3, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=3), 4)
    0.9639
    """
    return _answer(NdcgAtK(Y, k=k, average=average, setting=setting, tie_tolerance=tie_tolerance), F, return_undefined)


def enrichment_factor(
    Y: Any,
    F: Any,
    fraction: float = 0.01,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    tie_tolerance: float | None = 0.0,
    return_undefined: bool = False,
) -> Any:
    r"""Return how many times more frequent positives are among the best ranked cells than among all.

    With n cells, P of them positive, and k the given fraction of n, rounded up,

    .. math:: \frac{\text{positives among the best } k}{k} \Big/ \frac{P}{n} .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    fraction : float in (0, 1], default=0.01
        Cells that tie for the last places share them, as in `precision_at_k`.
    average : {"micro", "instance", "task"}, default="micro"
        The best of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a positive are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    tie_tolerance : float or None, default=0.0
        Two predictions tie where they differ by no more than this share of the largest, in absolute value, that
        they are ranked with. None is the rounding of hold-out predictions, 1.8e-12 in float64.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import enrichment_factor
    >>> enrichment_factor(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), fraction=0.25)
    2.0
    """
    return _answer(
        EnrichmentFactor(Y, fraction=fraction, average=average, setting=setting, tie_tolerance=tie_tolerance),
        F,
        return_undefined,
    )
