"""Kernels between the nodes of a graph: labels of a hierarchy, terms of an ontology, members of a network."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dyadlearn._array import (
    Array,
    array_bytes,
    dense,
    eigh,
    is_foreign,
    namespace,
    row_blocks,
    to_numpy,
    with_diagonal,
)
from dyadlearn._checks import check_alpha, check_choice, check_matrix
from dyadlearn._memory import check_kernel_memory, check_memory
from dyadlearn._tables import Ids, library_of, like_inputs, read_table, shown, write_table
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels.repair import average_transpose, symmetrized
from dyadlearn.kernels.vectors import tanimoto


def graph_distance_kernel(edges: Any, nodes: Iterable[Any], scale: float = 10.0) -> Any:
    r"""Compute the similarity of nodes from the length of the shortest path between them.

    .. math:: K_{ij} = \exp(-d(i, j) / \text{scale})

    Edges have no direction. Nodes without a path between them have similarity 0. On a tree the
    result is positive semi-definite for every scale. On a graph with cycles it may not be; use
    `repair` then.

    Parameters
    ----------
    edges : array, sequence or frame of shape (n_edges, 2) or (n_edges, 3)
        Two node labels, which must be hashable, and optionally the length of the edge (1 by
        default). If two nodes have several edges, the shortest is used. Frames of pandas and polars
        are accepted.
    nodes : sequence of length n
        Labels of the nodes in the result, in this order; each must be in at least one edge. The
        graph may have other nodes, and paths go through all of them.
    scale : float, default=10.0
        Distance over which the similarity falls by the factor e.

    Returns
    -------
    ndarray or frame of shape (n, n)
        Symmetric, ones on the diagonal. A frame with the labels as ids if `edges` is one or `nodes`
        a series.

    Raises
    ------
    IdError
        If `nodes` repeats a label or names one that is in no edge.
    ValueError
        If the edges are not 2 or 3 columns, a length is negative or not finite, or `scale` is not
        positive.

    Examples
    --------
    >>> from dyadlearn.kernels import graph_distance_kernel
    >>> tree = [("root", "games"), ("games", "chess"), ("games", "go")]
    >>> graph_distance_kernel(tree, ["chess", "go", "root"], scale=2).round(3)
    array([[1.   , 0.368, 0.368],
           [0.368, 1.   , 0.368],
           [0.368, 0.368, 1.   ]])
    """
    from scipy.sparse.csgraph import dijkstra

    scale = check_scale(scale)
    graph = _read_edges(edges, nodes, "length")
    n_nodes = len(graph.position)
    # A sparse matrix adds up duplicate entries, so only the shortest of parallel edges is stored.
    order = np.argsort(graph.numbers, kind="stable")
    _, first = np.unique(graph.tail[order] * n_nodes + graph.head[order], return_index=True)
    shortest = order[first]
    ends = (graph.tail[shortest], graph.head[shortest])
    lengths = csr_array((graph.numbers[shortest], ends), shape=(n_nodes, n_nodes))

    wanted = graph.wanted
    n = len(wanted)
    check_kernel_memory(n, n, None, n_blocks=3)
    K = np.empty((n, n))
    for rows in row_blocks(n, n_nodes):
        distances = dijkstra(lengths, directed=False, indices=wanted[rows])
        K[rows] = np.exp(-distances[:, wanted] / scale)
    # The rounding of a path length depends on the end at which it starts.
    return with_labels(average_transpose(K), graph.labels, edges, nodes)


def shared_ancestors_kernel(edges: Any, nodes: Iterable[Any]) -> Any:
    r"""Compute the similarity of the terms of a hierarchy or ontology from their shared ancestors.

    .. math:: K_{ij} = \frac{|A_i \cap A_j|}{|A_i \cup A_j|}

    A_i holds the term i itself, its parents, their parents and so on. A term may have several
    parents. The kernel is always positive semi-definite, unlike `graph_distance_kernel`.

    Parameters
    ----------
    edges : array, sequence or frame of shape (n_edges, 2)
        A parent and a child in each row, which must be hashable. Frames of pandas and polars are
        accepted.
    nodes : sequence of length n
        The terms of the result, in this order; each must be in at least one edge.

    Returns
    -------
    ndarray or frame of shape (n, n)
        Symmetric, ones on the diagonal. A frame with the labels as ids if `edges` is one or `nodes`
        a series.

    Raises
    ------
    IdError
        If `nodes` repeats a term or names one that is in no edge.
    ValueError
        If the edges are not two columns, or a term is its own ancestor.

    Examples
    --------
    >>> from dyadlearn.kernels import shared_ancestors_kernel
    >>> ontology = [("thing", "toy"), ("thing", "vehicle"), ("toy", "toy car"), ("vehicle", "toy car")]
    >>> shared_ancestors_kernel(ontology, ["toy", "vehicle", "toy car"]).round(2)
    array([[1.  , 0.33, 0.5 ],
           [0.33, 1.  , 0.5 ],
           [0.5 , 0.5 , 1.  ]])
    """
    graph = _read_edges(edges, nodes, None)
    parents: dict[int, set[int]] = {}
    for parent, child in zip(graph.tail.tolist(), graph.head.tolist(), strict=True):
        parents.setdefault(child, set()).add(parent)
    ancestors: dict[int, set[int]] = {}
    try:
        for node in TopologicalSorter(parents).static_order():
            ancestors[node] = {node}
            for parent in parents.get(node, ()):
                ancestors[node] |= ancestors[parent]
    except CycleError as error:
        known = list(graph.position)
        circle = " → ".join([repr(known[node]) for node in error.args[1]][:10])
        raise ValueError(
            f"no term may be its own ancestor, but edges form a cycle: {circle}."
        ) from None
    indices: list[int] = []
    ends = [0]
    for node in graph.wanted.tolist():
        indices += sorted(ancestors[node])
        ends.append(len(indices))
    columns = np.array(indices, dtype=np.int32)
    shape = (len(graph.wanted), len(graph.position))
    K = tanimoto(csr_array((np.ones(len(columns)), columns, ends), shape=shape))
    return with_labels(K, graph.labels, edges, nodes)


def diffusion_kernel(
    graph: Any,
    nodes: Iterable[Any] | None = None,
    *,
    kind: str = "heat",
    beta: float = 1.0,
    normalized: bool = False,
) -> Any:
    r"""Compute the similarity of the nodes of a network by diffusion between them.

    With the adjacency matrix A, the diagonal matrix of degrees D and the Laplacian L = D − A, or
    :math:`D^{-1/2} L D^{-1/2}` if `normalized`,

    .. math:: K = \exp(-\beta L) \quad \text{("heat")}, \qquad
              K = (I + \beta L)^{-1} \quad \text{("regularized_laplacian")}.

    Both kernels are positive semi-definite, and nodes without a path between them have similarity
    0. Edges have no direction. A loop from a node to itself has no effect unless `normalized`,
    where it adds to the degree.

    Parameters
    ----------
    graph : matrix of shape (n, n), or edges of shape (n_edges, 2) or (n_edges, 3)
        Without `nodes`, a symmetric adjacency matrix of non-negative weights: an array of any
        library, a sparse matrix or a frame. With `nodes`, an array, sequence or frame of edges: two
        labels, and optionally a weight (1 by default). If two nodes have several edges, the one
        with the largest weight is used.
    nodes : sequence of length n, optional
        Labels of the nodes in the result, in this order; each must be in at least one edge. The
        graph may have other nodes.
    kind : {"heat", "regularized_laplacian"}, default="heat"
    beta : float, default=1.0
        Diffusion time; 0 gives the identity matrix.
    normalized : bool, default=False
        Whether to use the normalised Laplacian, so that nodes with many edges do not dominate.

    Returns
    -------
    array or frame of shape (n, n)
        For an adjacency matrix, an array of the same library, or a frame with its ids. For edges, a
        numpy array; a frame with the labels as ids if the edges are in a frame or `nodes` is a
        series.

    Raises
    ------
    IdError
        If `nodes` repeats a label or names one that is in no edge, or the rows and columns of a
        frame differ.
    KernelError
        If an adjacency matrix is not square or not symmetric.
    ValueError
        If a weight is negative or not finite, or a parameter is out of range.

    Examples
    --------
    >>> from dyadlearn.kernels import diffusion_kernel
    >>> diffusion_kernel([("a", "b"), ("b", "c")], ["a", "b", "c"], kind="regularized_laplacian")
    array([[0.625, 0.25 , 0.125],
           [0.25 , 0.5  , 0.25 ],
           [0.125, 0.25 , 0.625]])
    """
    check_choice(kind, "kind", ("heat", "regularized_laplacian"))
    beta = check_alpha(beta, "beta")
    if nodes is not None:
        edges = _read_edges(graph, nodes, "weight")
        n_nodes = len(edges.position)
        check_memory(
            array_bytes(None, (6, n_nodes, n_nodes)), None, f"Diffusion between {n_nodes} nodes"
        )
        adjacency = np.zeros((n_nodes, n_nodes))
        np.maximum.at(adjacency, (edges.tail, edges.head), edges.numbers)
        K = _diffused(np.maximum(adjacency, adjacency.T), kind, beta, normalized)
        K = K[np.ix_(edges.wanted, edges.wanted)]
        return with_labels(K, edges.labels, graph, nodes)
    table = read_table(graph, "graph")
    shape = getattr(table.values, "shape", (0, 1))
    if shape[0] == shape[-1]:
        table = table.squared("graph")
    K = _diffused(_adjacency(table.values), kind, beta, normalized)
    return like_inputs(replace(table, values=K), graph)


def _adjacency(graph: Any) -> Array:
    """Return an adjacency matrix as a dense float array; raise if it is not square, symmetric and non-negative."""
    adjacency = check_matrix(graph, "graph", accept_sparse=True)
    n = adjacency.shape[0]
    if adjacency.shape[1] != n:
        shape = tuple(adjacency.shape)
        raise KernelError(
            f"graph must be a square adjacency matrix, found shape {shape}; for edges, give nodes "
            f"too."
        )
    check_memory(array_bytes(None, (6, n, n)), adjacency, f"Diffusion between {n} nodes")
    adjacency = dense(adjacency)
    smallest = float(namespace(adjacency).min(adjacency))
    if smallest < 0:
        raise ValueError(f"weights of graph must not be negative, found {smallest:g}.")
    return symmetrized(adjacency, "error", "graph", exact=True)[0]


def _diffused(adjacency: Array, kind: str, beta: float, normalized: bool) -> Array:
    """Return the kernel of a symmetric dense adjacency matrix."""
    xp = namespace(adjacency)
    degrees = xp.sum(adjacency, axis=1)
    laplacian = with_diagonal(-adjacency, degrees - xp.linalg.diagonal(adjacency))
    if normalized:
        alone = xp.astype(degrees == 0, degrees.dtype)
        scale = (1.0 - alone) / xp.sqrt(degrees + alone)
        laplacian = laplacian * (scale[:, None] * scale[None, :])
    values, vectors = eigh(laplacian)
    # Rounding can make the smallest eigenvalues slightly negative.
    values = xp.where(values < 0, 0.0, values)
    if kind == "heat":
        flow = xp.exp(-beta * values)
    else:
        flow = 1.0 / (1.0 + beta * values)
    return average_transpose((vectors * flow[None, :]) @ vectors.T)


class _Edges(NamedTuple):
    """Edges between nodes, and the nodes of the result.

    Attributes
    ----------
    tail, head : integer arrays of shape (n_edges,)
        Positions of the two ends of each edge.
    numbers : array of shape (n_edges,)
        Length or weight of each edge.
    position : dict of label to int
        Position of every node.
    labels : list of length n
        Nodes of the result.
    wanted : integer array of shape (n,)
        Their positions.
    """

    tail: np.ndarray
    head: np.ndarray
    numbers: np.ndarray
    position: dict[Any, int]
    labels: list[Any]
    wanted: np.ndarray


def _read_edges(edges: Any, nodes: Iterable[Any], number: str | None) -> _Edges:
    """Read edges and the nodes of the result; raise if a node is in no edge.

    Parameters
    ----------
    edges : array, sequence or frame of shape (n_edges, 2) or (n_edges, 3)
    nodes : iterable of labels
    number : {"length", "weight"} or None
        Content of the third column, which is 1 by default; None allows no third column.
    """
    rows = listed(edges)
    numbers = _numbers_of_edges(rows, number)
    position: dict[Any, int] = {}
    for row in rows:
        for label in row[:2]:
            position.setdefault(label, len(position))
    tail = np.array([position[row[0]] for row in rows])
    head = np.array([position[row[1]] for row in rows])
    labels = listed(nodes)
    wanted = places(labels, position, "nodes", "in no edge")
    return _Edges(tail, head, numbers, position, labels, wanted)


def _numbers_of_edges(rows: list[Any], number: str | None) -> np.ndarray:
    """Return the numbers in the third column of edges, or ones; raise if the rows are no edges."""
    widths = {len(row) if isinstance(row, list | tuple | np.ndarray) else 0 for row in rows}
    if widths != {2} and (number is None or widths != {3}):
        in_words = "no edges"
        if rows:
            in_words = f"rows of width {', '.join(map(str, sorted(widths)))}"
        third = "" if number is None else f" or 3 (and a {number})"
        raise ValueError(f"edges must have 2 columns (two nodes){third}, found {in_words}.")
    if widths == {2}:
        return np.ones(len(rows))
    try:
        numbers = np.array([float(row[2]) for row in rows])
    except (TypeError, ValueError):
        raise ValueError(
            f"the third column of edges must hold {number}s, found a value that is no number."
        ) from None
    wrong = numbers[~(np.isfinite(numbers) & (numbers >= 0))]
    if wrong.size:
        raise ValueError(f"{number}s of edges must be finite and non-negative, found {wrong[0]:g}.")
    return numbers


def check_scale(scale: Any) -> float:
    """Return `scale` as a float; raise if it is not a positive finite number."""
    if isinstance(scale, bool) or not isinstance(scale, Real) or not 0 < float(scale) < math.inf:
        raise ValueError(f"scale must be a positive number, found {scale!r}.")
    return float(scale)


def places(labels: list[Any], place: Mapping[Any, int], what: str, absent: str) -> np.ndarray:
    """Return the positions (n,) of labels; raise if some are repeated or unknown.

    Parameters
    ----------
    labels : list of length n
    place : mapping of label to position
    what : str
        Name of the labels in messages, such as "nodes".
    absent : str
        Description of an unknown label in messages, such as "in no edge".
    """
    if not labels:
        raise ValueError(f"{what} must hold at least one label, found none.")
    unknown = [label for label in labels if label not in place]
    if unknown:
        raise IdError(f"{len(unknown)} of {len(labels)} {what} are {absent}: {shown(unknown)}.")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        raise IdError(
            f"{what} must be different, but {len(repeated)} are repeated: {shown(repeated)}."
        )
    return np.array([place[label] for label in labels])


def with_labels(K: Array, labels: list[Any], *inputs: Any) -> Any:
    """Return a kernel (n, n) as a frame with its labels as ids if one of `inputs` is a frame; else unchanged."""
    kind = next(filter(None, map(library_of, inputs)), None)
    ids = Ids(tuple(labels))
    return K if kind is None else write_table(K, ids, ids, kind)


def listed(values: Any) -> list[Any]:
    """Return a sequence, or the rows of a table, as a list; entries of an array become Python numbers and strings."""
    import narwhals as nw

    frame: Any = nw.from_native(values, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.rows()
    if is_foreign(values) or isinstance(values, np.ndarray):
        values = to_numpy(values).tolist()
    return list(values)
