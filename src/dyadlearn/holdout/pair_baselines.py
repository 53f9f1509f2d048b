r"""What simple means reach on observed pairs, held out in the folds of a model, without a grid.

They are those of `dyadlearn.holdout.baselines`. Effects of instances and of tasks come from the same equations, which
conjugate gradients solve here: with the weights :math:`\mathbf{W}` of the pairs as a sparse matrix, one product with
:math:`\mathbf{D}' - \mathbf{W}^\top\mathbf{D}^{-1}\mathbf{W}` takes two passes over the pairs.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dyadlearn._array import Array, as_array_of, to_numpy
from dyadlearn.holdout.baselines import BASELINES, WIDEST
from dyadlearn.holdout.observed import unit_folds
from dyadlearn.holdout.units import Units
from dyadlearn.holes.conjugate_gradients import conjugate_gradients
from dyadlearn.observed.pairs import PairLabels
from dyadlearn.pairing.leaving import nothing_left
from dyadlearn.settings import Setting

__all__ = ["pair_baselines"]

# Effects are compared with labels, which have fewer digits.
_TOL = 1e-11


def pair_baselines(labels: PairLabels, setting: Setting, units: Units) -> dict[str, Array]:
    """Predict every pair by means of others, without what leaves together with it.

    Parameters
    ----------
    labels : PairLabels
    setting : Setting
    units : Units
        Of all that the setting leaves out.

    Returns
    -------
    dict of str to array of shape (n,)
        By the names of `dyadlearn.holdout.baselines.BASELINES`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.pair_baselines import pair_baselines
    >>> from dyadlearn.holdout.units import Units
    >>> from dyadlearn.observed.pairs import PairLabels
    >>> from dyadlearn.settings import Setting
    >>> pairs = PairLabels(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 6.0]), (2, 2))
    >>> pair_baselines(pairs, Setting.B, Units(np.array([0, 1])))["task_means"]
    array([3., 6., 1., 2.])
    """
    y = np.asarray(to_numpy(labels.values), dtype=np.float64)
    w = np.ones_like(y)
    if labels.weights is not None:
        w = np.asarray(to_numpy(labels.weights), dtype=np.float64)
        w = w / w.max()
    # Effects are told apart of pairs whose instance and task are known both, unless weights leave no digits for it.
    has_effects = setting is Setting.A and bool(w.max() <= WIDEST * w.min())
    found = {name: np.empty_like(y) for name in BASELINES}
    for train, test, _ in unit_folds(labels, units):
        if not train.size:
            raise nothing_left()
        rows, columns, own, weights = labels.rows[train], labels.columns[train], y[train], w[train]
        at = labels.rows[test], labels.columns[test]
        grand = float(weights @ own / weights.sum())
        means = [
            _means(place, own, weights, length, grand)
            for place, length in zip((rows, columns), labels.shape, strict=True)
        ]
        additive = means[0][at[0]] + means[1][at[1]] - grand
        if has_effects:
            effects, parts = _effects(rows, columns, own, weights, labels.shape)
            connects = parts[0][at[0]] == parts[1][at[1]]
            additive = np.where(connects, effects[0][at[0]] + effects[1][at[1]], additive)
        predicted = (np.full(test.size, grand), means[0][at[0]], means[1][at[1]], additive)
        for name, values in zip(BASELINES, predicted, strict=True):
            found[name][test] = values
    return {name: as_array_of(values, labels.values, labels.values.dtype) for name, values in found.items()}


def _means(places: np.ndarray, y: np.ndarray, w: np.ndarray, length: int, otherwise: float) -> np.ndarray:
    """Return weighted means of the pairs of each row, or column, and something else where there is none."""
    total, weight = np.bincount(places, w * y, minlength=length), np.bincount(places, w, minlength=length)
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), otherwise)


def _effects(
    rows: np.ndarray, columns: np.ndarray, y: np.ndarray, w: np.ndarray, shape: tuple[int, int]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return effects of rows (m,) and of columns (q,), by least squares, and the connected part that each is in."""
    m, q = shape
    if m < q:  # the smaller side is solved for
        (right, left), (below, above) = _effects(columns, rows, y, w, (q, m))
        return (left, right), (above, below)
    W = sparse.csr_array((w, (rows, columns)), shape=shape)
    own, others = (np.asarray(W.sum(axis=axis)).reshape(-1) for axis in (1, 0))
    own, others = (np.where(each > 0, each, 1.0) for each in (own, others))
    centre = float(w @ y / w.sum())
    residual = w * (y - centre)
    left, right = np.bincount(rows, residual, minlength=m), np.bincount(columns, residual, minlength=q)
    has_label = np.bincount(columns, minlength=q) > 0
    turned = sparse.csr_array(W.T)

    def product(effects: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(has_label, others * effects, 0.0) - turned @ ((W @ effects) / own))

    solved = conjugate_gradients(
        product, right - turned @ (left / own), precondition=lambda rest: rest / others, tol=_TOL, max_iter=10 * q
    )
    edges = sparse.coo_array((np.ones(rows.size, dtype=np.int8), (rows, columns + m)), shape=(m + q, m + q))
    part = connected_components(edges, directed=False)[1]
    return (centre + (left - W @ solved.values) / own, solved.values), (part[:m], part[m:])
