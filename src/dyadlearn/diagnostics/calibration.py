r"""Calibration: probabilities of labels of two values from held-out scores, and their reliability.

Scores are mapped to probabilities by a non-decreasing map: Platt's sigmoid or isotonic regression.
A map never decreases, even if the held-out scores do: the held-out predictions of a model that has
learned nothing are the means of the other labels, which are perfectly anticorrelated with the
labels. New pairs have no such anticorrelation, so a decreasing map would be wrong for them.

Probabilities are reliable if, for example, three in ten of the cells with probability 0.3 are
positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dyadlearn._array import as_array_of, to_numpy
from dyadlearn._checks import check_choice
from dyadlearn._codes import id_columns
from dyadlearn.diagnostics.fitted import Tabled, fitted_of, known_settings
from dyadlearn.holdout import Units
from dyadlearn.holdout.folds import folds_of
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels, distinct_labels
from dyadlearn.models.fitted import Fitted
from dyadlearn.models.reading import among
from dyadlearn.selection.evaluate import baseline_scores
from dyadlearn.settings import Setting, as_setting, as_settings

__all__ = ["Calibration", "Reliability", "SettingCalibration", "calibrate"]

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
    >>> from dyadlearn.diagnostics.calibration import sigmoid
    >>> sigmoid(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True]))(np.array([1.5])).round(3)
    array([0.5])
    """
    from sklearn.linear_model import LogisticRegression

    n_positive = int(np.count_nonzero(positive))
    targets = np.where(
        positive, (n_positive + 1) / (n_positive + 2), 1 / (positive.size - n_positive + 2)
    )
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
    >>> from dyadlearn.diagnostics.calibration import isotonic
    >>> found = isotonic(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
    >>> found(np.array([-1.0, 1.0, 2.0, 4.0]))
    array([0. , 0.5, 0.5, 1. ])
    """
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True)
    fitted.fit(np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=np.float64))
    return partial(np.interp, xp=fitted.X_thresholds_, fp=fitted.y_thresholds_)  # type: ignore[return-value]


#: Functions that fit a map, by name.
MAPS: Mapping[str, Callable[[np.ndarray, np.ndarray], Map]] = {
    "sigmoid": sigmoid,
    "isotonic": isotonic,
}


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Tabled):
    r"""Mean probability and fraction of positive labels in bins of equal width; empty bins are left out.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
        Edges of all bins, including empty ones.
    probability, fraction : arrays of shape (n,)
        Mean probability and fraction of positive labels in each bin.
    count : integer array of shape (n,)
        Number of cells in each bin.
    low, high : arrays of shape (n,)
        Wilson's 95 % interval of the fraction, for the effective number of independent cells.
        Labels of the same instance or task are correlated, so their deviations are summed per
        instance and per task before they are squared. (If a network counts both directions of an
        edge, its intervals are slightly too wide.)

    Notes
    -----
    With :math:`u_{ij} = y_{ij} - \bar y` in a bin of n cells, the effective number of independent
    cells is

    .. math:: n_{\mathrm{eff}} = n \frac{\sum_{ij} u_{ij}^2}{\sum_i \bigl(\sum_j u_{ij}\bigr)^2 +
       \sum_j \bigl(\sum_i u_{ij}\bigr)^2 - \sum_{ij} u_{ij}^2},

    at most n. A bin whose labels are all equal has the ratio :math:`n_{\mathrm{eff}} / n` of all
    bins together.
    """

    edges: np.ndarray
    probability: np.ndarray
    fraction: np.ndarray
    count: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def __repr__(self) -> str:
        return f"Reliability({int(self.count.sum())} cells in {len(self)} bins, error {self.error:.3g})"

    @property
    def error(self) -> float:
        """Expected calibration error: mean absolute difference of probability and positive fraction over all cells."""
        return float(self.count @ np.abs(self.probability - self.fraction) / self.count.sum())

    def columns(self) -> dict[str, list[Any]]:
        """Return the bins as named columns, for a data frame or a file."""
        return {
            name: getattr(self, name).tolist()
            for name in ("probability", "fraction", "count", "low", "high")
        }


def reliability(
    probabilities: np.ndarray,
    positive: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    *,
    n_bins: int = 10,
) -> Reliability:
    """Compare probabilities of cells with their labels.

    Parameters
    ----------
    probabilities : array of shape (n,)
    positive : boolean array of shape (n,)
    rows, columns : integer arrays of shape (n,)
        Instance and task of each cell. A node of a network has the same number on both sides.
    n_bins : int, default=10

    Returns
    -------
    Reliability

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.calibration import reliability
    >>> found = reliability(np.array([0.1, 0.1, 0.9]), np.array([False, True, True]), np.arange(3), np.arange(3, 6))
    >>> found.fraction, found.count
    (array([0.5, 1. ]), array([2, 1]))
    >>> round(found.error, 3)
    0.3
    """
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    # A probability on an edge belongs to the bin below, as in scikit-learn.
    bins = np.searchsorted(edges[1:-1], probabilities)
    count = np.bincount(bins, minlength=n_bins)
    filled = np.flatnonzero(count)
    n = count[filled]
    mean, share = (
        np.bincount(bins, values, n_bins)[filled] / n for values in (probabilities, positive)
    )
    place = np.searchsorted(filled, bins)
    independent = n * _independent(positive - share[place], place, rows, columns, len(filled))
    return Reliability(edges, mean, share, n, *_wilson(share, independent))


def _independent(
    deviations: np.ndarray, bins: np.ndarray, rows: np.ndarray, columns: np.ndarray, n_bins: int
) -> np.ndarray:
    """Return the effective fraction of independent cells in each bin."""
    size = int(max(rows.max(), columns.max())) + 1
    # A cell is in two sums but counts once; a loop of a network has one node and is in one sum.
    second = np.where(rows == columns, 0.0, deviations)
    sums = np.bincount(bins * size + rows, deviations, n_bins * size)
    sums += np.bincount(bins * size + columns, second, n_bins * size)
    alone = np.bincount(bins, deviations**2, n_bins)
    together = (sums.reshape(n_bins, size) ** 2).sum(axis=1) - np.bincount(bins, second**2, n_bins)
    total = alone.sum()
    overall = total / max(float(together.sum()), total) if total > 0 else 1.0
    varied = alone > 0
    return np.where(varied, alone / np.maximum(together, np.where(varied, alone, 1.0)), overall)


def _wilson(
    share: np.ndarray, n: np.ndarray, z: float = 1.959963984540054
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval of a fraction of n independent cells."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


# Number of folds in which maps are scored.
_N_FOLDS = 5


@dataclass(frozen=True, eq=False, repr=False)
class SettingCalibration:
    """Calibration map of one setting, and its quality on labels that were not used to fit it.

    Attributes
    ----------
    setting : str
    mapping : callable
        Function from an array of scores to probabilities, fitted on all held-out scores.
    scores : array of shape (m, q)
        Held-out predictions; in setting A, missing labels have the predictions of the fitted model.
    probabilities : array of shape (m, q)
        Probability of each label, by a map that was fitted without its fold; NaN without a label or
        a prediction. The quality measures below use these probabilities.
    brier, log_loss : float
        Mean squared error and mean logarithmic loss of the probabilities.
    baselines : dict of str to float
        Brier scores of the baselines, held out in the same way; see `dyadlearn.holdout.baselines`.
    reliability : Reliability
        Mean probability and fraction of positive labels in ten bins.
    n_cells, n_positive : int
        Number of labels, and number of positive labels. A pair of a symmetric network counts once
        in A and D.
    holdout_method : str
        Hold-out method, as in the column ``method`` of `dyadlearn.evaluate`.
    """

    setting: str
    mapping: Map
    scores: np.ndarray
    probabilities: np.ndarray
    brier: float
    log_loss: float
    baselines: dict[str, float]
    reliability: Reliability
    n_cells: int
    n_positive: int
    holdout_method: str

    def __repr__(self) -> str:
        return f"SettingCalibration({self.setting}: Brier {self.brier:.3g}, base rate {self.baseline_brier:.3g})"

    @property
    def baseline_brier(self) -> float:
        """Brier score of the base rate, which is the fraction of positives among the training labels."""
        return self.baselines["grand_mean"]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: mean absolute difference of probability and positive fraction over the bins."""
        return self.reliability.error


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Tabled):
    """Calibrated probabilities of a fitted model; the result of `calibrate`.

    Attributes
    ----------
    model : fitted estimator
    method : {"sigmoid", "isotonic"}
        Form of the calibration maps.
    positive : float
        Positive label, the larger of the two values.
    settings : dict of str to SettingCalibration
        Calibration of each setting, by its letter.
    """

    model: Any
    method: str
    positive: float
    settings: dict[str, SettingCalibration]

    def __getitem__(self, setting: str | Setting) -> SettingCalibration:
        """Return the calibration of one setting."""
        chosen = as_setting(setting)
        if chosen.value not in self.settings:
            remedy = f"ask for it, as in calibrate(model, {chosen.value!r})"
            raise ValueError(
                f"Setting {chosen.in_words} is not calibrated, only {', '.join(self.settings)}: "
                f"{remedy}."
            )
        return self.settings[chosen.value]

    def __repr__(self) -> str:
        settings = self.settings.values()
        scores = ", ".join(
            f"{each.setting} {each.brier:.3g} ({each.baseline_brier:.3g})" for each in settings
        )
        return f"Calibration({self.method}, Brier score and that of the base rate: {scores})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the quality measures as named columns, one row per setting, for a data frame or a file."""
        settings = self.settings.values()
        first = ("setting", "brier", "baseline_brier", "log_loss", "calibration_error")
        columns: dict[str, list[Any]] = {
            name: [getattr(each, name) for each in settings] for name in first
        }
        for name in ("instance_means", "task_means"):
            columns[f"{name}_brier"] = [each.baselines[name] for each in settings]
        return columns | {
            name: [getattr(each, name) for each in settings]
            for name in ("n_cells", "n_positive", "holdout_method")
        }

    def predict(self, X: Any = None, tasks: Any = None) -> Any:
        """Return the probability of the positive label for every pair.

        Instances and tasks with a training id are known; all others are new, such as all rows of an
        array. Each pair uses the map of its setting. For a known id the training features are used,
        whatever features are passed. A pair with a training label uses its held-out score. The
        default RangeIndex of pandas holds no ids.

        Parameters
        ----------
        X : as in the model's predict, default=None
            Instances; None means the training instances. For a `dyadlearn.PairRegressor`, pairs of
            ids.
        tasks : as in the model's predict, default=None
            Tasks; None means the training tasks.

        Returns
        -------
        array or frame, as the model's predict returns
            Probabilities; NaN where the prediction is NaN.

        Raises
        ------
        ValueError
            If a pair belongs to a setting that was not calibrated.
        """
        fitted = fitted_of(self.model)
        if fitted.tables is not None and X is not None:
            if tasks is not None:
                raise ValueError(
                    f"{type(self.model).__name__} takes pairs of ids: leave tasks out."
                )
            return self._of_pairs(X)
        predicted = fitted.predicted(X, tasks)
        places = fitted.places(X, tasks)
        scores = _grid(predicted.values).astype(np.float64)
        rows, columns = (
            np.arange(size) if at is None else at
            for size, at in zip(scores.shape, places, strict=True)
        )
        known_rows = np.flatnonzero(rows >= 0)
        known_columns = np.flatnonzero(columns >= 0)
        # A pairwise kernel may know more about training rows than their features.
        if X is not None and known_rows.size:
            scores[known_rows] = _grid(fitted.predicted(None, tasks).values)[rows[known_rows]]
        if tasks is not None and known_columns.size:
            scores[:, known_columns] = _grid(fitted.predicted(X, None).values)[
                :, columns[known_columns]
            ]
        if known_rows.size and known_columns.size:
            both = np.ix_(known_rows, known_columns)
            scores[both] = self["A"].scores[np.ix_(rows[known_rows], columns[known_columns])]
        probabilities = self._mapped(scores, rows[:, None] < 0, columns[None, :] < 0)
        if predicted.values.ndim == 1:
            probabilities = probabilities[:, 0]
        return predicted.restore(
            as_array_of(probabilities, predicted.values, predicted.values.dtype)
        )

    def _of_pairs(self, pairs: Any) -> Any:
        """Return the probabilities of pairs of ids, for a model of long tables."""
        predicted = self.model.predict(pairs)
        scores = to_numpy(predicted).astype(np.float64)
        sides = zip(
            id_columns(pairs, "pairs"),
            (self.model.instance_ids_, self.model.task_ids_),
            strict=True,
        )
        rows, columns = (among(column, ids) for column, ids in sides)
        known = (rows >= 0) & (columns >= 0)
        if known.any():
            scores[known] = self["A"].scores[rows[known], columns[known]]
        return as_array_of(self._mapped(scores, rows < 0, columns < 0), predicted, predicted.dtype)

    def _mapped(
        self, scores: np.ndarray, is_new: np.ndarray, is_new_task: np.ndarray
    ) -> np.ndarray:
        """Return the probabilities of scores, each by the map of its setting."""
        probabilities = np.empty_like(scores)
        for setting in Setting:
            here = (is_new == setting.new_instance) & (is_new_task == setting.new_task)
            if here.any():
                probabilities[here] = self[setting].mapping(scores[here])
        return probabilities


def calibrate(
    model: Any,
    setting: str | Iterable[str] | None = None,
    *,
    method: str = "sigmoid",
    cv: int | None = None,
) -> Calibration:
    r"""Calibrate the scores of a model of two-valued labels, with one map from scores to probabilities per setting.

    Scores rank pairs, but they are not probabilities. For each setting, a non-decreasing map is
    fitted from held-out predictions to labels. Settings have different maps, because scores of new
    tasks, for example, are less reliable than scores of new pairs of known instances and tasks.

    The quality measures are cross-validated: the probability of each label comes from a map that
    was fitted without its fold. There are five folds of cells (A), rows (B), columns (C) or blocks
    of both (D). The larger of the two labels is the positive one. Every label has the same weight,
    whatever its weight in the loss of the model.

    Parameters
    ----------
    model : fitted estimator
        Model whose labels have two values.
    setting : {"A", "B", "C", "D"}, an alias or several of them, default=None
        Settings to calibrate; None means all settings that the model and its labels support.
    method : {"sigmoid", "isotonic"}, default="sigmoid"
        Platt's sigmoid, :math:`p = 1/(1 + e^{-(af+b)})`, which needs about ten positive labels; or
        any non-decreasing map, which needs hundreds.
    cv : int, default=None
        Number of folds. None means one unit at a time where a formula is affordable, else five
        folds. Complete labels of a model with a formula are left out one unit at a time in any
        case.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        If the labels do not have exactly two values, if only one value has predictions, or if the
        model does not store its labels.

    Notes
    -----
    One label of each value is enough to fit a map. With so few labels, Platt's targets keep the
    sigmoid close to the base rate, and the quality measures are no better than chance.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, calibrate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    >>> chances = 1 / (1 + np.exp(-2 * X @ rng.normal(size=(3, 2)) @ T.T))
    >>> Y = (rng.random((40, 30)) < chances).astype(float)
    >>> found = calibrate(TwoStepRidge().fit(X[5:], Y[5:], tasks=T), "B")
    >>> found
    Calibration(sigmoid, Brier score and that of the base rate: B 0.154 (0.25))
    >>> bool(np.abs(found.predict(X[:5]) - chances[:5]).mean() < 0.1)
    True
    """
    check_choice(method, "method", tuple(MAPS))
    fitted = fitted_of(model)
    values = distinct_labels(_labels(fitted))
    if len(values) != 2:
        found = f"all of them are {values[0]:g}"
        hint = "give some of another value"
        if len(values) > 2:
            some = ", ".join(f"{value:g}" for value in values[:3])
            found = f"these have {len(values)} ({some}, …)"
            hint = "ask for intervals, or divide them into two classes"
        raise ValueError(f"Probabilities are of labels of two values, and {found}: {hint}.")
    wanted = known_settings(fitted) if setting is None else as_settings(setting)
    calibrated = {}
    refused = []
    for each in wanted:
        try:
            calibrated[each.value] = _calibrated(fitted, each, values, method, cv)
        except ValueError as error:
            if setting is not None:
                raise
            refused.append(error)
    if not calibrated:
        raise refused[0]
    return Calibration(model, method, float(values[1]), calibrated)


def settings_of(model: Any, X: Any = None, tasks: Any = None) -> list[Setting]:
    """Return the settings of the pairs that `Calibration.predict` would predict.

    Parameters
    ----------
    model : fitted estimator
    X, tasks : as in `Calibration.predict`
    """
    places = fitted_of(model).places(X, tasks)
    new = [{False} if at is None else set((at < 0).tolist() or [True]) for at in places]
    return [each for each in Setting if each.new_instance in new[0] and each.new_task in new[1]]


def _grid(values: Any) -> np.ndarray:
    """Return a copy of predictions with two dimensions, also for a single task."""
    return np.array(to_numpy(values).reshape(len(values), -1))


def _labels(fitted: Fitted) -> np.ndarray:
    """Return the labels; those of a node with itself are left out if they are antisymmetric, and so zero."""
    labels = to_numpy(fitted.labels.values)
    if fitted.symmetry >= 0:
        return labels
    return np.where(np.eye(len(labels), dtype=bool), np.nan, labels)


def _calibrated(
    fitted: Fitted, setting: Setting, values: np.ndarray, method: str, cv: int | None
) -> SettingCalibration:
    """Fit the map of a setting, and score it on cells that were not used to fit it."""
    from sklearn.metrics import log_loss

    fitted.check(setting)
    held_out = fitted.hold_out(setting, cv=cv, exact=True)
    observed = fitted.labels
    scores = np.array(to_numpy(held_out.predictions), dtype=np.float64)
    scored_labels(
        observed, held_out.predictions, setting, stacklevel=3
    )  # warns about labels without a prediction
    labels = _labels(fitted)
    positive = labels == values[1]
    used = ~(np.isnan(labels) | np.isnan(scores))
    if fitted.symmetry > 0 and setting in (Setting.A, Setting.D):
        used &= np.triu(np.ones(used.shape, dtype=bool))  # both directions are one number
    n_positive, n_cells = (int(np.count_nonzero(each)) for each in (positive & used, used))
    if n_positive in (0, n_cells):
        raise ValueError(
            f"In setting {setting.value} all labels that have a held-out prediction are "
            f"{values[int(n_positive > 0)]:g}"
            ": give more labels of the other value."
        )
    fit = MAPS[method]
    mapping = fit(scores[used], positive[used])
    probabilities = np.full(scores.shape, np.nan)
    for fold in folds_of(
        observed, setting, _five_folds(held_out.units, setting, observed, fitted.is_network)
    ):
        # The nodes of a network are left out on both sides.
        outside, inside = fold.masks
        here = used & inside
        training = used & outside & (outside.T if fitted.is_network else True)
        if here.any() and training.any():
            probabilities[here] = fit(scores[training], positive[training])(scores[here])
    judged = used & ~np.isnan(probabilities)
    if not judged.any():
        fault = (
            f"In setting {setting.value} all labels are in one fold, so that no map can be scored"
        )
        raise ValueError(
            f"{fault}: give labels of more instances and tasks, or use smaller groups."
        )
    p = probabilities[judged]
    y = positive[judged]
    m, q = observed.shape
    rows = observed.at(np.arange(m), 0)[judged]
    columns = observed.at(np.arange(q) + (0 if fitted.is_network else m), 1)[judged]
    low, high = values

    def minus_brier(F: Any) -> float:
        share = np.clip((to_numpy(F)[judged] - low) / (high - low), 0.0, 1.0)
        return -float(np.mean((share - y) ** 2))

    # All labels have the same weight here, whatever their weight in the loss of the model.
    unweighted = replace(observed, weights=None)
    means = baseline_scores(
        unweighted, setting, held_out.units, minus_brier, symmetry=fitted.symmetry
    )
    scores = observed.spread(scores)
    probabilities = observed.spread(probabilities)
    if setting is Setting.A:
        # Missing labels were not used in training, so the model itself can predict them.
        missing = np.isnan(to_numpy(observed.spread(observed.values)))
        scores[missing] = to_numpy(fitted.completed)[missing]
    brier = float(np.mean((p - y) ** 2))
    loss = float(log_loss(y, p, labels=[False, True]))
    quality = (
        brier,
        loss,
        {name: -score for name, score in means.items()},
        reliability(p, y, rows, columns),
    )
    counts = n_cells, n_positive
    return SettingCalibration(
        setting.value, mapping, scores, probabilities, *quality, *counts, held_out.method
    )


def _five_folds(units: Units, setting: Setting, labels: Labels, is_network: bool) -> Units:
    """Return five folds to score maps by; units that were held out together stay together."""
    if setting is Setting.A:
        (cells,) = units.of_labels(labels, setting)
        if is_network and units.cells is None:
            cells = np.minimum(cells, cells.T)  # both directions of an edge are in one fold
        return Units(cells=_dealt(cells))
    rows, columns = (_dealt(codes) for _, codes in units.of_sides(labels.shape, Setting.D))
    if is_network:  # nodes have one grouping
        rows = columns = columns if units.instances is None and units.tasks is not None else rows
    return Units(rows, columns)


def _dealt(units: np.ndarray) -> np.ndarray:
    """Return the fold of each element; equal units are in one fold. The order is random and always the same."""
    codes = np.unique(units, return_inverse=True)[1].reshape(units.shape)
    places = np.argsort(np.random.default_rng(0).permutation(int(codes.max()) + 1))
    return (places % _N_FOLDS)[codes]
