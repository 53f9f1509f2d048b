"""Explanation of the prediction for a cell of any number of sides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._codes import list_of
from dyadlearn._columns import read_columns
from dyadlearn._tables import Columns, free_name
from dyadlearn.diagnostics.contributions import (
    Contributions,
    Listing,
    Weighed,
    figures_of,
    largest,
    of_side,
)
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.sides import SideNames

__all__ = ["CellExplanation"]

_ESTIMATED = "The weights assume fixed variances; others might be estimated if a label changed."


@dataclass(frozen=True, eq=False, repr=False)
class CellExplanation(Weighed):
    """Contributions to the prediction for one cell; the result of `explain` for a `MultiwayRidge`.

    Attributes
    ----------
    prediction : float
        Prediction of the model, which is the sum of all contributions.
    cell : dict of str to id
        Level of each side.
    label : float
        Mean of the labels of the cell; NaN if it has none. Such labels are among the contributions.
    setting : str
        Names of the sides whose level has no label, such as "mother + father", or "cell".
    terms : dict of str to float
        Contributions of the fixed effects and of each term.
    sides : dict of str to Contributions
        For each side, the contributions of the labels by their level.
    labels : Contributions
        Contributions of single labels; ids are tuples of the levels of all sides.
    weights : array of shape (n_rows,)
        Weight of the label of every row of the training table; zero for rows without a label.
    mean : float
        Mean of the training labels.
    sort : {"contribution", "weight"}
        What the lists are sorted by.
    notes : tuple of str
        Notes on the validity of the weights.
    """

    prediction: float
    cell: dict[str, Hashable]
    label: float
    setting: str
    terms: dict[str, float]
    sides: dict[str, Contributions]
    labels: Contributions
    weights: np.ndarray
    mean: float
    sort: str = "contribution"
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        first = ""
        if len(self.labels):
            first = f", largest {self.sort}: label {self.labels.ids[0]!r}"
        return f"CellExplanation({self.prediction:.4g} for {self.subject}{first})"

    @property
    def subject(self) -> str:
        """Description of the predicted cell."""
        new = self.setting.split(" + ")
        words = [f"{'new ' if name in new else ''}{name} {id!r}" for name, id in self.cell.items()]
        return ", ".join(words)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `by` may be: "label", "term", and the names of the sides."""
        return ("label", "term", *self.sides)

    def by(self, by: str) -> Contributions:
        """Return the contributions of single labels ("label"), or by the level of a side.

        Parameters
        ----------
        by : "label", or the name of a side
        """
        if by == "label":
            return self.labels
        if by not in self.sides:
            raise ValueError(f"by must be 'label' or one of {list(self.sides)}, found {by!r}.")
        return self.sides[by]

    def columns(self, by: str = "label") -> Columns:
        """Return contributions as named columns, for a data frame or a file.

        Parameters
        ----------
        by : "label", "term", or the name of a side, default="label"
            How contributions are grouped. For a side, the column ``mean_label`` is the mean of the
            labels of a level.
        """
        if by == "term":
            return {"term": list(self.terms), "contribution": list(self.terms.values())}
        listed = self.by(by)
        columns: Columns = {}
        if by == "label":
            figures = figures_of(listed, "label")
            for place, name in enumerate(self.cell):
                columns[free_name(name, figures)] = [ids[place] for ids in listed.ids]
        else:
            figures = figures_of(listed, "mean_label")
            columns[free_name(by, figures)] = list(listed.ids)
        return {**columns, **figures}


def explain_cells(
    fitted: FittedMultiway, cells: Any, task: Any, sides: Any, how: tuple[int, str]
) -> CellExplanation | list[CellExplanation]:
    """Return the explanation of a cell, or of each cell of a table; arguments as in `explain`."""
    if task is not None or sides is not None:
        raise TypeError(
            "A prediction of MultiwayRidge is that of a cell: give the model and a dict with the "
            "id of each side, or a table of cells, without task and sides."
        )
    is_one = isinstance(cells, Mapping) and not any(
        isinstance(value, list | tuple) or np.ndim(value) for value in cells.values()
    )
    table = {name: [value] for name, value in cells.items()} if is_one else cells
    asked = fitted.asked(table)
    columns = read_columns(table, fitted.side_names)
    ids = {name: list_of(column) for name, column in columns.items()}
    listing = Listing(*how, SideNames())
    explanations = []
    for row, one in enumerate(asked.each()):
        cell = {name: column[row] for name, column in ids.items()}
        explanations.append(_explanation(fitted, cell, one, listing))
    return explanations[0] if is_one else explanations


def _explanation(
    fitted: FittedMultiway, cell: dict[str, Hashable], asked: Any, listing: Listing
) -> CellExplanation:
    """Return the explanation of one cell, as one of `CellsAsked.each`."""
    listed = fitted.label_weights(asked)[0]
    parts = listed * fitted.values
    figures = (listed, fitted.values, parts)
    terms = fitted.contributions(asked)[0].tolist()
    by_side = {}
    for side, at in zip(fitted.sides, fitted.places, strict=True):
        ids = side.ids.take(side.labelled)
        by_side[side.name] = of_side(ids, at, len(side.labelled), figures, listing)
    positions, chosen = largest(figures, np.ones(len(listed), dtype=bool), listing)
    weights = np.zeros(fitted.n_rows)
    weights[fitted.rows] = listed
    of_cell = fitted.values[fitted.are_of_cell(asked)]
    return CellExplanation(
        prediction=float(parts.sum()),
        cell=cell,
        label=float(of_cell.mean()) if of_cell.size else float("nan"),
        setting=fitted.setting_of(asked).value,
        terms=dict(zip(("fixed", *fitted.term_names), terms, strict=True)),
        sides=by_side,
        labels=Contributions(_ids_of(fitted, positions), *chosen),
        weights=weights,
        mean=float(fitted.values.mean()),
        sort=listing.sort,
        notes=() if fitted.estimation == "given" else (_ESTIMATED,),
    )


def _ids_of(fitted: FittedMultiway, positions: np.ndarray) -> tuple[tuple[Hashable, ...], ...]:
    """Return the levels of all sides of some labels."""
    columns = []
    for side, at in zip(fitted.sides, fitted.places, strict=True):
        columns.append(side.ids.take(side.labelled[at[positions]]).labels)
    return tuple(zip(*columns, strict=True))
