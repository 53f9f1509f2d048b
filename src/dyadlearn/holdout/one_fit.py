r"""Which held-out predictions may be compared with each other, and folds in which they may.

A model that was fitted without a label is a little below others for a high label, and above them for
a low one: with an intercept its mean is :math:`\bar y - (y_i - \bar y)/(n - 1)`. The more is
smoothed, the more of the prediction is this mean. So a ranking of predictions that were trained on
each other's labels is too pessimistic, on noise down to an area under the ROC curve of 0 (Parker,
Günter and Bedo 2007; Airola, Pahikkala, Waegeman, De Baets and Salakoski 2011).

**Two predictions may be compared if neither was trained on the label of the other.** Labels without
signal are then exchangeable, and the expected area is exactly ½, the expected correlation 0. Of
leave-one-out predictions, these may:

=========  =========  ===============  ===========
setting    pooled     per instance     per task
=========  =========  ===============  ===========
A          no         no               no
B          no         yes              no
C          no         no               yes
D          no         yes              yes
=========  =========  ===============  ===========

Elsewhere there are two remedies. Leave-pair-out (`dyadlearn.holdout.pairs_out`) predicts each two
labels without both. Otherwise only labels that were left out together, in one fold, are compared.

A model without a constant has no mean to be pulled down by. Pooled over a whole grid in A and D, the
weights of other labels average out: the area on noise is within 0.01 of ½ for 30 × 20 labels, and
nearer for more. Rankings stay as they are there. Correlations do not, because they also compare with
the mean of all predictions. With an intercept, the area on noise is about :math:`0.3\,\Delta /
\sqrt{d\,n}` below ½, for n labels whose two values differ by :math:`\Delta` standard deviations and a
model of d degrees of freedom beside the intercept: pooled scores of setting A for 20,000 labels or
more, other than areas and concordance, stay as they are too.
"""

from __future__ import annotations

import math

import numpy as np

from dyadlearn._codes import pair_numbers, unit_sizes
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer
from dyadlearn.pairing.base import Pairing
from dyadlearn.settings import Setting

#: Number of labels from which pooled scores of setting A compare leave-one-out predictions: folds
#: of cells would take long.
MANY_LABELS = 20_000
#: Number of labels that are compared with each other in a fold, at least.
LEAST_LABELS = 10
# Number of groups from which two of them share a fold.
_MANY_GROUPS = 6
# Most folds of one side, and of each of two.
_MOST_FOLDS = 10
_MOST_FOLDS_OF_BOTH = 5

# Averages whose labels are all left out together, by setting.
_TOGETHER = {
    Setting.A: (),
    Setting.B: ("instance",),
    Setting.C: ("task",),
    Setting.D: ("instance", "task"),
}


def needs_one_fit(judge: Scorer, setting: Setting, pairing: Pairing | None = None) -> bool:
    """Return whether a score compares predictions that were trained on each other's labels.

    It is False for a network, which leaves out one edge or node at a time only.

    Parameters
    ----------
    judge : Scorer
    setting : Setting
        Setting of the hold-out.
    pairing : Pairing, default=None
        The model; None means a model with an intercept.
    """
    average = judge.average_in(setting)
    if not judge.compares or average in _TOGETHER[setting]:
        return False
    if pairing is None:
        return True
    if average == "instance" and not pairing.knows_tasks:
        return False  # no task learns from another
    has_constant = any(side.constant is not None for side in pairing.spectra)
    is_large = average == "pooled" and setting in (Setting.A, Setting.D)
    is_safe = is_large and not has_constant and not judge.correlates
    return not (is_safe or pairing.symmetry)


def fold_codes(labels: Labels, setting: Setting, units: Units) -> np.ndarray:
    """Return the fit that has predicted each label, as an integer array of the shape of the labels' values."""
    codes = [np.asarray(side) for side in units.of_labels(labels, setting)]
    if len(codes) == 1:
        return codes[0]
    rows = codes[0].reshape(-1)
    columns = codes[1].reshape(-1)
    width = int(columns.max(initial=0)) + 1
    return pair_numbers(rows, columns, width).reshape(codes[0].shape)


def folds_to_compare(
    labels: Labels, judge: Scorer, setting: Setting, units: Units, pairing: Pairing | None = None
) -> np.ndarray | None:
    """Return the folds within which predictions are scored; None if all of them are scored together.

    Parameters
    ----------
    labels : Labels
    judge : Scorer
    setting : Setting
    units : Units
        What was left out together.
    pairing : Pairing, default=None
        The model; None means a model with an intercept.

    Returns
    -------
    integer array of the shape of the labels' values, or None
    """
    if judge.average_in(setting) == "fold":
        return fold_codes(labels, setting, units)
    if not needs_one_fit(judge, setting, pairing):
        return None
    # Of single labels, none is compared with another one: larger folds would cost too much.
    if labels_per_part(labels, judge, setting, units) == 1.0:
        return None
    return fold_codes(labels, setting, units)


def labels_per_part(labels: Labels, judge: Scorer, setting: Setting, units: Units) -> float:
    """Return the mean number of labels that are compared with each other within the folds of some units."""
    codes = fold_codes(labels, setting, units).reshape(-1)[np.flatnonzero(labels.observed)]
    axis = {"instance": 0, "task": 1}.get(judge.average_in(setting))
    if axis is not None:
        codes = pair_numbers(codes, labels.places[axis], labels.shape[axis])
    return labels.size / max(unit_sizes(codes).size, 1)


def splitter_to_compare(
    labels: Labels, judge: Scorer, setting: Setting, together: Units
) -> SettingKFold | None:
    """Return the splitter whose folds have enough labels to compare; None if there is nothing to split.

    There are ten folds, five of each side in setting D, or so few that each has ten labels of what
    is averaged, but at least two. Of six groups of one side or more, each fold has two.

    Parameters
    ----------
    labels : Labels
    judge : Scorer
    setting : Setting
    together : Units
        Groups that are left out together.
    """
    axis = {"instance": 0, "task": 1}.get(judge.average_in(setting))
    n_rows = 1 if axis is None else labels.labelled(axis).size
    n_together = labels.size / max(n_rows, 1) / LEAST_LABELS
    counts = [unit_sizes(codes).size for _, codes in together.of_sides(labels.shape, setting)]
    if counts:
        n_units = min(counts)
    else:
        n_units = math.prod(labels.values.shape)
    if n_units < 2:
        return None
    if len(counts) == 1 and not together.are_single and n_units >= _MANY_GROUPS:
        n_units //= 2  # members of different groups are compared too
    if setting is Setting.D:
        n_folds = min(_MOST_FOLDS_OF_BOTH, math.floor(n_together**0.5))
    else:
        n_folds = min(_MOST_FOLDS, math.floor(n_together))
    return SettingKFold(setting, min(max(n_folds, 2), n_units), random_state=0)


def larger_folds(
    labels: Labels,
    units: Units,
    together: Units,
    judge: Scorer,
    setting: Setting,
    pairing: Pairing | None = None,
) -> SettingKFold | None:
    """Return the splitter of folds to compare labels in, where units are too small for this; else None.

    Parameters
    ----------
    labels : Labels
    units : Units
        What would be left out together.
    together : Units
        Groups that must be.
    judge, setting, pairing : as in `needs_one_fit`
    """
    average = judge.average_in(setting)
    is_by_fold = judge.compares and average == "fold"
    if setting is Setting.A and average == "pooled" and labels.size >= MANY_LABELS:
        return None
    if pairing is not None and pairing.symmetry:
        return None
    if not (is_by_fold or needs_one_fit(judge, setting, pairing)):
        return None
    n_compared = labels_per_part(labels, judge, setting, units)
    splitter = splitter_to_compare(labels, judge, setting, together)
    if splitter is None:
        return None
    folds = splitter.units(labels, groups=together.sides[0], task_groups=together.sides[1])
    n_in_folds = labels_per_part(labels, judge, setting, folds)
    # Folds that are nearly as large are kept.
    factor = 1.0 if n_compared < LEAST_LABELS else 1.5
    return splitter if n_in_folds > factor * n_compared else None
