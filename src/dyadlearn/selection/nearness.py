"""How similar held-out entities are to those of training, and the score of predictions by that similarity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._codes import Column, distinct, identical_rows
from dyadlearn._tables import Columns, Table, shown
from dyadlearn._text import number
from dyadlearn.holdout.units import Units
from dyadlearn.kernels.gram import Kernel
from dyadlearn.kernels.similarity import Similarity
from dyadlearn.metrics.scorers import scorer
from dyadlearn.models.fitted import Fitted
from dyadlearn.models.reading import positions
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting

# Lower ends of the bands of similarity; the last band is that of 1, up to rounding.
_ENDS = (-np.inf, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0 - 1e-9)
#: Names of the bands.
BANDS = ("< 0.3", "0.3–0.4", "0.4–0.5", "0.5–0.6", "0.6–0.7", "0.7–0.8", "0.8–0.9", "0.9–1", "1")
#: Name of the band of entities that are in training.
KNOWN = "in training"

#: Similarity to training above which new entities are counted.
_SIMILAR = 0.6


def bands_of(similarity: np.ndarray) -> np.ndarray:
    """Return the position in `BANDS` of each similarity."""
    return np.searchsorted(_ENDS, similarity, side="right") - 1


@dataclass(frozen=True, eq=False)
class Nearness:
    """The held-out entities of one side, and the most similar entity of training for each.

    Attributes
    ----------
    ids : tuple of length k
        The distinct entities of the test pairs, in the order of their first appearance.
    is_new : array of bool of shape (k,)
        Whether each entity is not in training.
    similarity : array of shape (k,)
        Largest similarity of each to an entity of training: the kernel, normalised to 1 for equal
        entities. It is 1 for entities that are in training.
    nearest : tuple of length k
        The entity of training with that similarity.
    is_copy : array of bool of shape (k,)
        Whether each entity is new, but its description equals that of `nearest`.
    entity : integer array of shape (n_test,)
        Position in `ids` of the entity of each test pair.
    """

    ids: tuple[Hashable, ...]
    is_new: np.ndarray
    similarity: np.ndarray
    nearest: tuple[Hashable, ...]
    is_copy: np.ndarray
    entity: np.ndarray

    @property
    def copies(self) -> dict[Hashable, Hashable]:
        """The entity of training that each new entity is identical to, if there is one."""
        return {self.ids[place]: self.nearest[place] for place in np.flatnonzero(self.is_copy)}

    @cached_property
    def bands(self) -> np.ndarray:
        """Name of the band of each entity, (k,); entities of training have a band of their own."""
        names = np.array([*BANDS, KNOWN])
        return names[np.where(self.is_new, bands_of(self.similarity), len(BANDS))]

    def histogram(self) -> Columns:
        """Return the numbers of entities and of test pairs of each band, as columns; empty bands are left out."""
        columns: Columns = {"similarity": [], "entities": [], "pairs": []}
        for name in (*BANDS, KNOWN):
            inside = self.bands == name
            if inside.any():
                columns["similarity"].append(name)
                columns["entities"].append(int(np.count_nonzero(inside)))
                columns["pairs"].append(int(np.count_nonzero(inside[self.entity])))
        return columns

    def scores(self, y: np.ndarray, predicted: np.ndarray, scoring: Any) -> list[float]:
        """Return the score of all pairs of each band of `histogram` together; NaN where it is undefined.

        Parameters
        ----------
        y, predicted : arrays of shape (n_test,)
            Labels and predictions of the test pairs; pairs without either are left out.
        scoring : str or callable
        """
        judge = scorer(scoring)
        scores = []
        for name in self.histogram()["similarity"]:
            inside = (self.bands == name)[self.entity]
            scores.append(pooled_score(judge, y[inside], predicted[inside]))
        return scores


def pooled_score(judge: Any, y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the score of all pairs together; NaN where it is undefined."""
    judged = np.isfinite(y) & np.isfinite(predicted)
    if not judged.any():
        return float("nan")
    # The average over one row is that of all pairs.
    others = {name: value for name, value in judge.options.items() if name != "average"}
    judge = replace(judge, options=others)
    try:
        return float(judge(y[None, judged], predicted[None, judged]))
    except ValueError:  # such as labels that are all alike
        return float("nan")


def nearness(
    table: Table,
    train: Column,
    test: Column,
    kernel: Kernel,
) -> Nearness:
    """Return how similar the entities of test pairs are to those of training pairs.

    Parameters
    ----------
    table : Table
        Features, or a precomputed kernel, of all entities; its ids are those of the pairs.
    train, test : columns of ids, or of positions if the table has no ids
    kernel : as in `dyadlearn.kernels.gram`, or "precomputed"
    """
    similarity = Similarity.of_table(table.values, kernel, None)
    name = "instances or tasks"
    codes, ids = distinct(test, name)
    known = np.unique(positions(train, table.row_ids, similarity.n, name))
    asked = positions(ids, table.row_ids, similarity.n, name)
    is_new = ~np.isin(asked, known)
    largest = np.ones(len(ids))
    nearest_at = asked.copy()
    largest[is_new], nearest_at[is_new] = similarity.nearest(asked[is_new], known)
    equal = identical_rows(table.values)
    is_copy = is_new & np.isin(equal[asked], equal[known])
    first_known = dict(zip(equal[known[::-1]].tolist(), known[::-1].tolist(), strict=True))
    for place in np.flatnonzero(is_copy):
        nearest_at[place] = first_known[int(equal[asked[place]])]
    labels = range(similarity.n) if table.row_ids is None else table.row_ids.labels
    nearest = tuple(labels[place] for place in nearest_at)
    return Nearness(tuple(ids), is_new, largest, nearest, is_copy, codes)


#: Nearness of sides, by the axis and the folds of each.
KnownNearness = dict[tuple[int, bytes], Nearness]


def holdout_nearness(
    fitted: Fitted, setting: Setting, units: Units, known: KnownNearness | None = None
) -> list[tuple[str, Nearness]]:
    """Return how similar the held-out entities of each new side are to those outside their fold.

    Parameters
    ----------
    fitted : Fitted
    setting : Setting
    units : Units
        Folds that were left out, as `Fitted.hold_out` returns them.
    known : dict, default=None
        What other settings of the model share, which is filled.
    """
    if known is None:
        known = {}
    sides = []
    for axis, folds in units.of_sides(fitted.labels.shape, setting):
        key = (axis, np.asarray(folds).tobytes())
        if key not in known:
            side = _side_nearness(fitted, axis, folds)
            if side is None:
                continue
            known[key] = side
        sides.append((("instance", "task")[axis], known[key]))
    return sides


def _side_nearness(fitted: Fitted, axis: int, folds: np.ndarray) -> Nearness | None:
    """Return the nearness of one side; None if it is not described."""
    similarity = fitted.similarity(axis)
    if similarity is None:
        return None
    largest, at = similarity.nearest_outside(folds)
    ids = (fitted.form.row_ids, fitted.task_ids)[axis]
    labels = range(similarity.n) if ids is None else ids.labels
    nearest = tuple(labels[place] for place in at)
    equal = fitted.identical(axis)
    assert equal is not None  # the side is described
    is_copy = (at >= 0) & (equal == equal[at])
    is_new = np.ones(len(folds), dtype=bool)
    places = fitted.labels.places[axis]
    return Nearness(tuple(labels), is_new, largest, nearest, is_copy, places)


def holdout_bands(fitted: Fitted, setting: Setting, scoring: Any = None) -> tuple[str, Columns]:
    """Return the hold-out method of a setting, and the score by the similarity of what was held out.

    Parameters
    ----------
    fitted : Fitted
    setting : Setting
    scoring : str or callable, default=None
        By default that of the search, else as in `dyadlearn.evaluate`.

    Returns
    -------
    method : str
    columns : dict of str to list
        Columns as those of `Audit.bands`; no rows in setting A, which holds out pairs only.
    """
    held_out = fitted.hold_out(setting)
    sides = holdout_nearness(fitted, setting, held_out.units)
    observed = fitted.labels.observed
    y = to_numpy(fitted.labels.values)[observed]
    predicted = to_numpy(held_out.predictions)[observed]
    chosen = scoring_of(fitted, scoring)
    scores = [side.scores(y, predicted, chosen) for _, side in sides]
    return held_out.method, stacked_bands(sides, **{scorer(chosen).name: scores})


def in_words(similarities: Nearness, words: tuple[str, str]) -> list[str]:
    """Return sentences about one side: its copies, and how many new entities are similar to one of training.

    Parameters
    ----------
    similarities : Nearness
    words : (str, str)
        Name of an entity in the singular and in the plural.
    """
    sentences = []
    copies = similarities.copies
    pairs = [f"{new!s} is {old!s}" for new, old in copies.items()]
    if copies:
        if len(copies) == 1:
            what = f"1 new {words[0]} is a copy"
        else:
            what = f"{len(copies)} new {words[1]} are copies"
        sentences.append(f"{what} of one in training: {shown(pairs)}.")
    n_new = int(np.count_nonzero(similarities.is_new))
    if n_new:
        middle = number(float(np.median(similarities.similarity[similarities.is_new])), 2)
        is_similar = similarities.is_new & (similarities.similarity >= _SIMILAR - 1e-9)
        sentences.append(
            f"{np.count_nonzero(is_similar)} of {n_new} new {words[1]} have a similarity of "
            f"{_SIMILAR:g} or more to one in training; the median is {middle}."
        )
    return sentences


def stacked_bands(
    sides: Sequence[tuple[str, Nearness]], **scores: Sequence[list[float]]
) -> Columns:
    """Return the histograms of several sides as one table, with columns of scores if there are any.

    Parameters
    ----------
    sides : sequence of (name, Nearness)
    **scores : for each column, a list for each side
    """
    columns: Columns = {"side": [], "similarity": [], "entities": [], "pairs": []}
    columns |= {heading: [] for heading in scores}
    for place, (name, similarities) in enumerate(sides):
        part: Columns = similarities.histogram()
        for heading, lists in scores.items():
            part[heading] = lists[place]
        columns["side"] += [name] * len(part["entities"])
        for heading, values in part.items():
            columns[heading] += values
    return columns
