r"""Calibration: probabilities of labels of two values from held-out scores, and their reliability.

Scores are mapped to probabilities by a non-decreasing map (`dyadlearn.diagnostics.monotone`).
Probabilities are reliable if, for example, three in ten of the cells with probability 0.3 are
positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import as_array_of, to_numpy
from dyadlearn._checks import check_choice, check_share
from dyadlearn._codes import id_columns
from dyadlearn._messages import Message
from dyadlearn._tables import Columns
from dyadlearn.diagnostics.fitted import Tabled, fitted_of, known_settings
from dyadlearn.diagnostics.monotone import MAPS, BaseRate, Map, Shifted
from dyadlearn.diagnostics.reliability import Reliability, reliability
from dyadlearn.holdout import Units
from dyadlearn.holdout.folds import folds_of
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels, distinct_labels
from dyadlearn.models.fitted import Fitted
from dyadlearn.models.reading import among
from dyadlearn.selection.evaluate import baseline_scores
from dyadlearn.settings import Setting, as_setting, as_settings

__all__ = ["Calibration", "SettingCalibration", "calibrate"]

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
    prevalence : float
        Fraction of positive pairs that the probabilities and their quality measures are for: that
        of the labels, or the parameter of `calibrate`.
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
    prevalence: float
    holdout_method: str

    def __repr__(self) -> str:
        return f"SettingCalibration({self.setting}: Brier {self.brier:.3g}, base rate {self.baseline_brier:.3g})"

    @property
    def baseline_brier(self) -> float:
        """Brier score of the base rate: the fraction of positives among the training labels, or the prevalence."""
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
        Kind of the calibration maps.
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
            raise ValueError(
                f"Setting {chosen.in_words} is not calibrated, only {', '.join(self.settings)}: ask "
                f"for it, as in calibrate(model, {chosen.value!r})."
            )
        return self.settings[chosen.value]

    def __repr__(self) -> str:
        settings = self.settings.values()
        scores = ", ".join(
            f"{of_setting.setting} {of_setting.brier:.3g} ({of_setting.baseline_brier:.3g})"
            for of_setting in settings
        )
        return f"Calibration({self.method}, Brier score and that of the base rate: {scores})"

    def columns(self) -> Columns:
        """Return the quality measures as named columns, one row per setting, for a data frame or a file."""
        settings = self.settings.values()
        columns: Columns = {}
        for name in ("setting", "brier", "baseline_brier", "log_loss", "calibration_error"):
            columns[name] = [getattr(of_setting, name) for of_setting in settings]
        for name in ("instance_means", "task_means"):
            columns[f"{name}_brier"] = [of_setting.baselines[name] for of_setting in settings]
        for name in ("n_cells", "n_positive", "prevalence", "holdout_method"):
            columns[name] = [getattr(of_setting, name) for of_setting in settings]
        return columns

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
                    Message(
                        "{model} takes pairs of ids: leave <tasks> out.",
                        model=type(self.model).__name__,
                    )
                )
            return self._of_pairs(X)
        predicted = fitted.predicted(X, tasks)
        scores = _as_grid(predicted.values).astype(np.float64)
        places = []
        for size, side_places in zip(scores.shape, fitted.places(X, tasks), strict=True):
            places.append(np.arange(size) if side_places is None else side_places)
        rows, columns = places
        self._use_training(scores, rows, columns, X, tasks)
        probabilities = self._mapped(scores, (rows[:, None] < 0, columns[None, :] < 0))
        if predicted.values.ndim == 1:
            probabilities = probabilities[:, 0]
        return predicted.restore(
            as_array_of(probabilities, predicted.values, predicted.values.dtype)
        )

    def _use_training(
        self, scores: np.ndarray, rows: np.ndarray, columns: np.ndarray, X: Any, tasks: Any
    ) -> None:
        """Replace the scores (a, n) of known rows and columns by those from their training features.

        Pairs of a known row and a known column get their held-out scores. A position of -1 marks a
        new row or column.
        """
        fitted = fitted_of(self.model)
        known_rows = np.flatnonzero(rows >= 0)
        known_columns = np.flatnonzero(columns >= 0)
        # A pairwise kernel may know more about training rows than their features.
        if X is not None and known_rows.size:
            of_rows = _as_grid(fitted.predicted(None, tasks).values)
            scores[known_rows] = of_rows[rows[known_rows]]
        if tasks is not None and known_columns.size:
            of_columns = _as_grid(fitted.predicted(X, None).values)
            scores[:, known_columns] = of_columns[:, columns[known_columns]]
        if known_rows.size and known_columns.size:
            both = np.ix_(known_rows, known_columns)
            in_training = np.ix_(rows[known_rows], columns[known_columns])
            scores[both] = self["A"].scores[in_training]

    def _of_pairs(self, pairs: Any) -> Any:
        """Return the probabilities of pairs of ids, for a model of long tables."""
        predicted = self.model.predict(pairs)
        scores = to_numpy(predicted).astype(np.float64)
        instances, tasks = id_columns(pairs, "pairs")
        rows = among(instances, self.model.instance_ids_)
        columns = among(tasks, self.model.task_ids_)
        known = (rows >= 0) & (columns >= 0)
        if known.any():
            scores[known] = self["A"].scores[rows[known], columns[known]]
        return as_array_of(
            self._mapped(scores, (rows < 0, columns < 0)), predicted, predicted.dtype
        )

    def _mapped(self, scores: np.ndarray, is_new: Sequence[np.ndarray]) -> np.ndarray:
        """Return the probabilities of scores, each by the map of its setting."""
        probabilities = np.empty_like(scores)
        for setting in Setting:
            here = np.ones(scores.shape, dtype=bool)
            for axis, is_new_side in enumerate(is_new):
                here &= is_new_side == (axis in setting.new)
            if here.any():
                probabilities[here] = self[setting].mapping(scores[here])
        return probabilities


def calibrate(
    model: Any,
    setting: str | Iterable[str] | None = None,
    *,
    method: str = "sigmoid",
    prevalence: float | None = None,
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
    prevalence : float, default=None
        Fraction of positive pairs among those to predict, if it differs from that of the labels,
        such as 0.01 where positive pairs were collected and negative ones drawn. Probabilities, and
        the quality measures, are those of pairs with this base rate. None means the fraction among
        the labels.
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
        model does not store its labels. With a `prevalence` also if the labels are antisymmetric,
        because half of these are positive.

    Notes
    -----
    One label of each value is enough to fit a map. With so few labels, Platt's targets keep the
    sigmoid close to the base rate, and the quality measures are no better than chance.

    A `prevalence` :math:`\pi'` in place of the fraction :math:`\pi` of positive labels changes a
    probability p to

    .. math:: p' = \frac{p\,\pi'/\pi}{p\,\pi'/\pi + (1 - p)(1 - \pi')/(1 - \pi)}

    (Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori
    probabilities", *Neural Computation* 14, 2002, eq. 2.4; Elkan, "The foundations of
    cost-sensitive learning", *IJCAI* 2001). This assumes that positive pairs have the scores of
    positive labels, and negative pairs those of negative labels: only their shares differ. In
    quality measures, positive labels have the weight :math:`\pi'/\pi` and negative ones the weight
    :math:`(1 - \pi')/(1 - \pi)`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, calibrate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    >>> chances = 1 / (1 + np.exp(-2 * X @ rng.normal(size=(3, 2)) @ T.T))
    >>> Y = (rng.random((40, 30)) < chances).astype(float)
    >>> calibration = calibrate(TwoStepRidge().fit(X[5:], Y[5:], tasks=T), "B")
    >>> calibration
    Calibration(sigmoid, Brier score and that of the base rate: B 0.154 (0.25))
    >>> bool(np.abs(calibration.predict(X[:5]) - chances[:5]).mean() < 0.1)
    True
    """
    check_choice(method, "method", tuple(MAPS))
    fitted = fitted_of(model)
    values = distinct_labels(_labels(fitted))
    _check_two(values)
    if prevalence is not None:
        _check_prevalence(fitted, prevalence)
    wanted = known_settings(fitted) if setting is None else as_settings(setting)
    calibrated = {}
    refused = []
    for one in wanted:
        try:
            calibrated[one.value] = _calibrated(fitted, one, values, MAPS[method], prevalence, cv)
        except ValueError as error:
            if setting is not None:
                raise
            refused.append(error)
    if not calibrated:
        raise refused[0]
    return Calibration(model, method, float(values[1]), calibrated)


def _check_two(values: np.ndarray) -> None:
    """Raise unless labels have two distinct values."""
    if len(values) == 2:
        return
    if len(values) > 2:
        some = ", ".join(f"{value:g}" for value in values[:3])
        raise ValueError(
            f"Probabilities need labels of two values, found {len(values)} values ({some}, …): ask "
            f"for intervals, or divide the labels into two classes."
        )
    raise ValueError(
        f"Probabilities need labels of two values, found only {values[0]:g}: give some labels of "
        f"another value."
    )


def _check_prevalence(fitted: Fitted, prevalence: float) -> None:
    """Raise unless a base rate is between 0 and 1, and has a meaning for the labels."""
    check_share(prevalence, "prevalence")
    if fitted.symmetry < 0:
        raise ValueError(
            Message(
                "Antisymmetric labels are positive in one direction of each pair, so their base "
                "rate is one half: leave <prevalence> out."
            )
        )


def settings_of(model: Any, X: Any = None, tasks: Any = None) -> list[Setting]:
    """Return the settings of the pairs that `Calibration.predict` would predict.

    Parameters
    ----------
    model : fitted estimator
    X, tasks : as in `Calibration.predict`
    """
    # For each side: whether some of its rows are known (False) and some new (True).
    kinds = []
    for places in fitted_of(model).places(X, tasks):
        if places is None:
            kinds.append({False})
        else:
            kinds.append(set((places < 0).tolist()) or {True})
    settings = []
    for setting in Setting:
        if all((axis in setting.new) in side_kinds for axis, side_kinds in enumerate(kinds)):
            settings.append(setting)
    return settings


def _as_grid(values: Any) -> np.ndarray:
    """Return a copy of predictions with two dimensions, also for a single task."""
    return np.array(to_numpy(values).reshape(len(values), -1))


def _labels(fitted: Fitted) -> np.ndarray:
    """Return the labels; NaN for a node of an antisymmetric network with itself, whose label is always zero."""
    labels = to_numpy(fitted.labels.values)
    if fitted.symmetry >= 0:
        return labels
    return np.where(np.eye(len(labels), dtype=bool), np.nan, labels)


def _calibrated(
    fitted: Fitted,
    setting: Setting,
    values: np.ndarray,
    fit: Callable[[np.ndarray, np.ndarray], Map],
    prevalence: float | None,
    cv: int | None,
) -> SettingCalibration:
    """Fit the map of a setting, and score it on cells that were not used to fit it."""
    fitted.check(setting)
    held_out = fitted.hold_out(setting, cv=cv, exact=True)
    # Warn about labels without a prediction.
    scored_labels(fitted.labels, held_out.predictions, setting, stacklevel=3)
    sample = _sample(fitted, setting, values, held_out.predictions)
    mapping = fit(sample.scores[sample.used], sample.positive[sample.used])
    probabilities = _cross_validated(fitted, setting, sample, held_out.units, fit)
    before = sample.n_positive / np.count_nonzero(sample.used)
    base_rate = BaseRate(before, before if prevalence is None else prevalence)
    if prevalence is not None:
        mapping = Shifted(mapping, base_rate)
        probabilities = base_rate(probabilities)
    quality = _quality(fitted, setting, (sample, base_rate), probabilities, held_out.units)
    labels = fitted.labels
    scores = labels.spread(sample.scores)
    if setting is Setting.A:
        # Missing labels were not used in training, so the model itself can predict them.
        missing = np.isnan(to_numpy(labels.spread(labels.values)))
        scores[missing] = to_numpy(fitted.completed)[missing]
    return SettingCalibration(
        setting=setting.value,
        mapping=mapping,
        scores=scores,
        probabilities=labels.spread(probabilities),
        **quality,
        n_cells=int(np.count_nonzero(sample.used)),
        n_positive=sample.n_positive,
        prevalence=base_rate.after,
        holdout_method=held_out.method,
    )


class _Sample(NamedTuple):
    """Held-out scores with their labels; all arrays have the shape of the labels' values.

    Attributes
    ----------
    scores : array
        Held-out predictions.
    positive : boolean array
        Whether each label is the larger of the two values.
    used : boolean array
        Which cells count: those with a label and a prediction. Both directions of an edge count
        once where they are one number.
    low, high : float
        The two values of the labels.
    """

    scores: np.ndarray
    positive: np.ndarray
    used: np.ndarray
    low: float
    high: float

    @property
    def n_positive(self) -> int:
        """Number of positive labels that count."""
        return int(np.count_nonzero(self.positive & self.used))


def _sample(fitted: Fitted, setting: Setting, values: np.ndarray, predictions: Any) -> _Sample:
    """Return the held-out scores and their labels; raise if all labels are alike."""
    scores = np.array(to_numpy(predictions), dtype=np.float64)
    labels = _labels(fitted)
    positive = labels == values[1]
    used = ~(np.isnan(labels) | np.isnan(scores))
    if fitted.symmetry > 0 and setting in (Setting.A, Setting.D):
        used &= np.triu(np.ones(used.shape, dtype=bool))  # both directions are one number
    sample = _Sample(scores, positive, used, *values)
    if sample.n_positive in (0, int(np.count_nonzero(used))):
        only = values[1] if sample.n_positive else values[0]
        raise ValueError(
            f"In setting {setting.value} all labels that have a held-out prediction are {only:g}: "
            f"give more labels of the other value."
        )
    return sample


def _cross_validated(
    fitted: Fitted,
    setting: Setting,
    sample: _Sample,
    units: Units,
    fit: Callable[[np.ndarray, np.ndarray], Map],
) -> np.ndarray:
    """Return the probability of each used cell, by a map that was fitted without its fold; NaN elsewhere."""
    scores, positive, used, *_ = sample
    is_network = fitted.is_network
    probabilities = np.full(scores.shape, np.nan)
    five = _five_folds(units, setting, fitted.labels, is_network)
    for fold in folds_of(fitted.labels, setting, five):
        outside, inside = fold.masks
        test = used & inside
        training = used & outside
        if is_network:  # the nodes of a network are left out on both sides
            training &= outside.T
        if test.any() and training.any():
            mapping = fit(scores[training], positive[training])
            probabilities[test] = mapping(scores[test])
    if np.isnan(probabilities[used]).all():
        raise ValueError(
            f"In setting {setting.value} all labels are in one fold, so that no map can be scored: "
            f"give labels of more instances and tasks, or use smaller groups."
        )
    return probabilities


def _quality(
    fitted: Fitted,
    setting: Setting,
    asked: tuple[_Sample, BaseRate],
    probabilities: np.ndarray,
    units: Units,
) -> dict[str, Any]:
    """Return the quality of cross-validated probabilities for a base rate, as attributes of `SettingCalibration`."""
    from sklearn.metrics import log_loss

    sample, base_rate = asked
    labels = fitted.labels
    m, q = labels.shape
    judged = sample.used & ~np.isnan(probabilities)
    p = probabilities[judged]
    y = sample.positive[judged]
    rows = labels.at(np.arange(m), 0)[judged]
    # The nodes of a network have the same numbers on both sides.
    first = 0 if fitted.is_network else m
    columns = labels.at(np.arange(first, first + q), 1)[judged]
    weights = base_rate.weights(y)

    def brier(p: np.ndarray) -> float:
        return float(np.average((p - y) ** 2, weights=weights))

    def minus_brier(F: Any) -> float:
        share = (to_numpy(F)[judged] - sample.low) / (sample.high - sample.low)
        return -brier(base_rate(np.clip(share, 0.0, 1.0)))

    # All labels have the same weight here, whatever their weight in the loss of the model.
    unweighted = replace(labels, weights=None)
    baselines = baseline_scores(unweighted, setting, units, minus_brier, symmetry=fitted.symmetry)
    return {
        "brier": brier(p),
        "log_loss": float(log_loss(y, p, labels=[False, True], sample_weight=weights)),
        "baselines": {name: -score for name, score in baselines.items()},
        "reliability": reliability(p, y, rows, columns, base_rate=base_rate),
    }


def _five_folds(units: Units, setting: Setting, labels: Labels, is_network: bool) -> Units:
    """Return five folds to score maps by; units that were held out together stay together."""
    if setting is Setting.A:
        (cells,) = units.of_labels(labels, setting)
        if is_network and units.cells is None:
            cells = np.minimum(cells, cells.T)  # both directions of an edge are in one fold
        return Units(cells=_dealt(cells))
    rows, columns = (_dealt(codes) for _, codes in units.of_sides(labels.shape, Setting.D))
    if is_network:  # nodes have one grouping
        has_tasks_only = units.sides[0] is None and units.sides[1] is not None
        nodes = columns if has_tasks_only else rows
        return Units((nodes, nodes))
    return Units((rows, columns))


def _dealt(units: np.ndarray) -> np.ndarray:
    """Return the fold of each element; equal units are in one fold. The order is random and always the same."""
    _, codes = np.unique(units, return_inverse=True)
    codes = codes.reshape(units.shape)
    places = np.argsort(np.random.default_rng(0).permutation(int(codes.max()) + 1))
    return (places % _N_FOLDS)[codes]
