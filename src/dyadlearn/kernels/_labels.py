"""Labels of nodes that users ask for, found in a graph or tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dyadlearn._array import is_foreign, to_numpy
from dyadlearn._tables import shown
from dyadlearn.exceptions import IdError

__all__ = ["listed", "places"]


def places(wanted: Iterable[Any], place: Mapping[Any, int], what: str, absent: str) -> np.ndarray:
    """Return where the labels `wanted` stand, (n,); those that repeat or are nowhere raise and are named.

    Parameters
    ----------
    wanted : sequence of length n
    place : mapping of label to position
    what : str
        What messages call the labels, such as "nodes".
    absent : str
        What messages say of an unknown one, such as "in no edge".
    """
    labels = listed(wanted)
    if not labels:
        raise ValueError(f"{what} must hold at least one label, found none.")
    unknown = [label for label in labels if label not in place]
    if unknown:
        raise IdError(f"{len(unknown)} of {len(labels)} {what} are {absent}: {shown(unknown)}.")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise IdError(f"{what} must be different, but {len(repeated)} are repeated: {shown(repeated)}.")
    return np.array([place[label] for label in labels])


def listed(values: Any) -> list[Any]:
    """Return a list; out of an array come Python's own numbers and strings, or lists of them."""
    array = is_foreign(values) or isinstance(values, np.ndarray)
    return list(to_numpy(values).tolist()) if array else list(values)
