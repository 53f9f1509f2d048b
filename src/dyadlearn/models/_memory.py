"""Refusing a fit that memory cannot hold, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyadlearn._array import Array, namespace
from dyadlearn._checks import check_memory, fits_in_memory
from dyadlearn._estimates import SideSize
from dyadlearn.pairing import Pairing

__all__ = ["check_fit_memory", "fit_numbers"]

_WHAT = {"gram": "kernel", "kernel": "kernel", "features": "features", "sparse": "sparse features"}


def fit_numbers(
    pairing: type[Pairing],
    shape: tuple[int, int],
    sides: Sequence[SideSize],
    *,
    observed: float = 1.0,
    weighted: bool = False,
) -> dict[str, float]:
    """Return the peak of each step of a fit: decomposing the instances, the tasks, and solving for the grid.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    shape : (int, int)
        Of the grid.
    sides : one or two of SideSize
        What is decomposed: instances, and tasks where there are any.
    observed : float, default=1.0
        Share of the cells that are.
    weighted : bool, default=False
    """
    grid = shape[0] * shape[1]
    # The labels are copied, and so are weights; what is checked of them leaves masks of one byte for a number.
    labels = (2.0 if weighted else 1.0) * grid
    steps, kept = {}, labels
    for name, side in zip(("instance", "task"), sides, strict=False):
        steps[name] = kept + side.decomposing
        kept += side.kept
    solving = pairing.closed_numbers(shape, sides)
    if weighted or observed < 1:
        # The completed grid and the unknowns of the solver are kept.
        solving = max(pairing.completion_numbers(shape, sides, observed, weighted), 2 * grid + solving)
    steps["grid"] = max(kept + solving, labels + (1.4 if weighted else 0.2) * grid)
    return steps


def check_fit_memory(
    pairing: type[Pairing], labels: Array, sides: Sequence[SideSize], dtype: Any, *, weighted: bool
) -> None:
    """Refuse a fit that does not fit in memory.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    labels : array of shape (m, q)
        As they came; NaN where not observed.
    sides : one or two of SideSize
        What will be decomposed.
    dtype : dtype
        What will be computed in.
    weighted : bool
        Whether there are weights.
    """
    xp = namespace(labels)
    size = int(xp.finfo(dtype).bits) // 8
    shape = tuple(labels.shape)
    # Cells are counted only where it matters how many are observed.
    worst = fit_numbers(pairing, shape, sides, observed=0.999, weighted=weighted)
    if fits_in_memory(size * max(worst.values()), labels):
        return
    observed = 1.0 - float(xp.mean(xp.astype(xp.isnan(labels), dtype)))
    steps = fit_numbers(pairing, shape, sides, observed=observed, weighted=weighted)
    step = max(steps, key=lambda name: steps[name])
    purpose = f"Fitting a grid of {shape[0]} × {shape[1]}"
    if step != "grid":
        side = sides[0] if step == "instance" else sides[1]
        columns = side.n_rows if _WHAT[side.form] == "kernel" else side.n_columns
        purpose = f"Decomposing the {side.n_rows} × {columns} {step} {_WHAT[side.form]}"
    check_memory(size * steps[step], labels, purpose)
