"""Refusing a fit that memory cannot hold, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyadlearn._array import Array, namespace
from dyadlearn._estimates import SideSize, fit_numbers
from dyadlearn._validation import check_memory, fits_in_memory

__all__ = ["check_fit_memory"]

_WHAT = {"gram": "kernel", "kernel": "kernel", "features": "features", "sparse": "sparse features"}


def check_fit_memory(method: str, labels: Array, sides: Sequence[SideSize], dtype: Any, *, weighted: bool) -> None:
    """Refuse a fit that does not fit in memory.

    Parameters
    ----------
    method : {"independent", "two_step", "kronecker", "network"}
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
    worst = fit_numbers(method, shape, sides, observed=0.999, weighted=weighted)
    if fits_in_memory(size * max(worst.values()), labels):
        return
    observed = 1.0 - float(xp.mean(xp.astype(xp.isnan(labels), dtype)))
    steps = fit_numbers(method, shape, sides, observed=observed, weighted=weighted)
    step = max(steps, key=lambda name: steps[name])
    purpose = f"Fitting a grid of {shape[0]} × {shape[1]}"
    if step != "grid":
        side = sides[0] if step == "instance" else sides[1]
        columns = side.n_rows if _WHAT[side.form] == "kernel" else side.n_columns
        purpose = f"Decomposing the {side.n_rows} × {columns} {step} {_WHAT[side.form]}"
    check_memory(size * steps[step], labels, purpose)
