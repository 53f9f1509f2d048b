"""Contributions of training labels to a prediction: the largest ones, and the sum of all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._tables import Columns, Ids, write_rows
from dyadlearn.diagnostics.best import best_in_rows
from dyadlearn.diagnostics.fitted import Tabled, ids_at
from dyadlearn.sides import SideNames

__all__ = ["Contribution", "Contributions"]


class Contribution(NamedTuple):
    """Contribution of a training pair, or of all labels of an instance or task, to a prediction.

    Attributes
    ----------
    id : id or position
        Id of the instance or task; for a pair, a tuple of both ids.
    weight : float
        Increase of the prediction if the label increases by one; for several labels, the sum.
    label : float
        The label; for several labels, their mean.
    contribution : float
        Weight times label; for several labels, the sum.
    """

    id: Any
    weight: float
    label: float
    contribution: float


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """The largest contributions to a prediction, or those with the largest weights, and the sum of all others.

    Attributes
    ----------
    ids : tuple of length k
        Ids, or positions if the labels have no ids; tuples of both for pairs.
    weights, labels, contributions : arrays of shape (k,)
        Values as in `Contribution`, sorted by the absolute contribution or, with
        ``sort="weight"``, by the absolute weight; largest first.
    rest, rest_weight : float
        Contribution and weight of all labels that are not listed. `contributions` and `rest` sum to
        the prediction.
    n_rest : int
        Number of contributions that are not listed.
    """

    ids: tuple[Any, ...]
    weights: np.ndarray
    labels: np.ndarray
    contributions: np.ndarray
    rest: float
    rest_weight: float
    n_rest: int

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Contribution]:
        figures = (self.weights.tolist(), self.labels.tolist(), self.contributions.tolist())
        return map(Contribution, self.ids, *figures)

    def __getitem__(self, place: int) -> Contribution:
        return list(self)[place]

    def __repr__(self) -> str:
        first = ", ".join(f"{item.id!r} ({item.contribution:.3g})" for item in list(self)[:3])
        more = ", …" if len(self) > 3 else ""
        return f"Contributions({first}{more}; the rest of {self.n_rest}: {self.rest:.3g})"


class Weighed(Tabled):
    """A prediction as a weighted sum of training labels; base class of explanations."""

    prediction: float
    weights: np.ndarray | sparse.csr_array
    mean: float

    @property
    def share_of_mean(self) -> float:
        r"""Share of the mean in the prediction: :math:`\bar Y \sum_{ij} w_{ij}`.

        The model would predict it if all labels were equal to their mean. With an intercept the
        weights sum to one, so that it is the mean itself.
        """
        return self.mean * float(self.weights.sum(dtype=np.float64))

    @property
    def share_of_deviations(self) -> float:
        r"""Share of the deviations of labels from their mean: :math:`\sum_{ij} w_{ij} (Y_{ij} - \bar Y)`."""
        return self.prediction - self.share_of_mean

    def columns(self, by: str = "") -> Columns:
        """Return the listed contributions as named columns, for a data frame or a file."""
        raise NotImplementedError

    def frame(self, by: str | None = None) -> Any:
        """Return `columns` as a data frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns() if by is None else self.columns(by), None)


def figures_of(listed: Contributions, label: str) -> dict[str, list[float]]:
    """Return the columns of weights, of labels with the heading `label`, and of contributions."""
    return {
        "weight": listed.weights.tolist(),
        label: listed.labels.tolist(),
        "contribution": listed.contributions.tolist(),
    }


class Listing(NamedTuple):
    """What is listed: the parameters `n` and `sort` of `explain`, and the names of both sides."""

    n: int
    sort: str
    names: SideNames


def of_side(
    ids: Ids | None, places: np.ndarray, size: int, figures: Sequence[np.ndarray], lists: Listing
) -> Contributions:
    """Return the contributions of instances or tasks to list.

    Parameters
    ----------
    ids : Ids or None
        Ids of the side.
    places : integer array of shape (n,)
        Row or column of each label.
    size : int
        Number of rows or columns.
    figures : three arrays of shape (n,)
        Weights, labels and their products.
    lists : Listing
    """
    counts = np.bincount(places, minlength=size)
    weights, totals, parts = (np.bincount(places, values, minlength=size) for values in figures)
    means = totals / np.maximum(counts, 1)
    positions, listed = largest((weights, means, parts), counts > 0, lists)
    return Contributions(ids_at(ids, positions), *listed)


def largest(
    figures: Sequence[np.ndarray], listed: np.ndarray, lists: Listing
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return the positions of the largest contributions or weights, and the values of `Contributions`.

    Parameters
    ----------
    figures : three arrays of shape (n,)
        Weights, labels and contributions.
    listed : boolean array of shape (n,)
        Which of them may be listed.
    lists : Listing
    """
    weights, labels, parts = figures
    keys = weights if lists.sort == "weight" else parts
    candidates = np.flatnonzero(listed)
    (best,), _ = best_in_rows(np.abs(keys[candidates])[None, :], lists.n)
    places = candidates[best]
    others = listed.copy()
    others[places] = False
    rest = float(parts[others].sum(dtype=np.float64))
    rest_weight = float(weights[others].sum(dtype=np.float64))
    n_rest = int(others.sum())
    return places, (weights[places], labels[places], parts[places], rest, rest_weight, n_rest)
