"""Kernels between the nodes of a graph, such as the labels of a hierarchy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from dyadlearn._array import is_foreign, row_blocks, to_numpy
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.repair import average_transpose

__all__ = ["graph_distance_kernel"]


def graph_distance_kernel(edges: Any, nodes: Iterable[Any], scale: float = 10.0) -> np.ndarray:
    r"""Similarity of nodes by the length of the shortest path between them.

    .. math:: K_{ij} = \exp(-d(i, j) / \text{scale})

    Edges have no direction; nodes without a path between them have similarity 0. On a tree the result is
    positive semi-definite for every scale; on a graph with cycles it need not be, and `repair` mends that.

    Parameters
    ----------
    edges : array, sequence or frame of shape (n_edges, 2) or (n_edges, 3)
        Two node labels, which may be anything hashable, and optionally the length of the edge (1 where there
        is none). Of several edges between two nodes the shortest counts. Frames are pandas' or polars'.
    nodes : sequence of length n
        The labels wanted, in the order of the answer, each in at least one edge. The graph may have more of
        them: paths go through all nodes.
    scale : float, default=10.0
        The distance over which the similarity falls by the factor e.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric, ones on the diagonal.

    Raises
    ------
    IdError
        If `nodes` repeats a label or names one that is in no edge.
    ValueError
        If the edges are not 2 or 3 columns, a length is negative or not finite, or `scale` is not positive.

    Examples
    --------
    >>> from dyadlearn.kernels import graph_distance_kernel
    >>> tree = [("root", "games"), ("games", "chess"), ("games", "go")]
    >>> graph_distance_kernel(tree, ["chess", "go", "root"], scale=2).round(3)
    array([[1.   , 0.368, 0.368],
           [0.368, 1.   , 0.368],
           [0.368, 0.368, 1.   ]])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    if not isinstance(scale, Real) or not 0 < scale < math.inf:
        raise ValueError(f"scale must be a positive number, found {scale!r}.")
    starts, ends, lengths = _columns(edges)
    position: dict[Any, int] = {}
    for label in (*starts, *ends):
        position.setdefault(label, len(position))
    wanted = _positions(nodes, position)

    tail = np.array([position[label] for label in starts])
    head = np.array([position[label] for label in ends])
    # A sparse matrix adds up what stands twice, so only the shortest of parallel edges may enter it.
    order = np.lexsort((lengths, head, tail))
    tail, head, lengths = tail[order], head[order], lengths[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])
    graph = csr_array((lengths[first], (tail[first], head[first])), shape=(len(position), len(position)))

    K = np.empty((len(wanted), len(wanted)))
    for rows in row_blocks(len(wanted), 8 * len(position)):
        K[rows] = np.exp(-dijkstra(graph, directed=False, indices=wanted[rows])[:, wanted] / scale)
    # A path adds up differently from its two ends.
    return np.asarray(average_transpose(K))


def _columns(edges: Any) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return the two ends and the lengths of all edges."""
    import narwhals as nw

    frame: Any = nw.from_native(edges, eager_only=True, pass_through=True)
    rows = list(frame.iter_rows()) if isinstance(frame, nw.DataFrame) else _listed(edges)
    widths = {len(row) if isinstance(row, list | tuple | np.ndarray) else 0 for row in rows}
    if widths not in ({2}, {3}):
        found = "no edges" if not rows else f"rows of width {', '.join(map(str, sorted(widths)))}"
        raise ValueError(f"edges must have 2 columns (two nodes) or 3 (and a length), found {found}.")
    try:
        lengths = np.array([float(row[2]) for row in rows]) if widths == {3} else np.ones(len(rows))
    except (TypeError, ValueError):
        raise ValueError("the third column of edges must hold lengths, found what is no number.") from None
    if not (np.isfinite(lengths).all() and lengths.min() >= 0):
        wrong = lengths[~(np.isfinite(lengths) & (lengths >= 0))]
        raise ValueError(f"lengths of edges must be finite and non-negative, found {wrong[0]:g}.")
    return [row[0] for row in rows], [row[1] for row in rows], lengths


def _positions(nodes: Iterable[Any], position: dict[Any, int]) -> np.ndarray:
    """Return where the labels `nodes` stand in the graph, (n,)."""
    labels = _listed(nodes)
    if not labels:
        raise ValueError("nodes must hold at least one label, found none.")
    unknown = [label for label in labels if label not in position]
    if unknown:
        raise IdError(f"{len(unknown)} of {len(labels)} nodes are in no edge: {_some(unknown)}.")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise IdError(f"nodes must be different, but {len(repeated)} are repeated: {_some(repeated)}.")
    return np.array([position[label] for label in labels])


def _listed(values: Any) -> list[Any]:
    """Return a list; out of an array come Python's own numbers and strings, or lists of them."""
    array = is_foreign(values) or isinstance(values, np.ndarray)
    return list(to_numpy(values).tolist()) if array else list(values)


def _some(labels: list[Any]) -> str:
    """List a few labels."""
    return ", ".join(map(repr, labels[:5])) + (", …" if len(labels) > 5 else "")
