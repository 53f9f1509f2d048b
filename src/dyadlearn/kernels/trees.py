"""Kernels between the tips of a tree, such as species in a phylogeny, and between the entities of a taxonomy.

A taxonomy is a table with a row for each entity and a column for each rank, the highest first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._array import cached_blocks, is_missing
from dyadlearn._files.packed import parse_number
from dyadlearn._memory import check_kernel_memory
from dyadlearn._tables import Ids, Table, like_inputs, make_ids, read_table
from dyadlearn.kernels.combine import check_weights
from dyadlearn.kernels.graphs import check_scale, listed, places, with_labels

# Names of tips; None takes all in the order of the tree.
Tips = Iterable[Hashable] | None
# Codes of a path that has ended, in a row and in a column; they differ, so that they are never
# equal to each other.
_ENDED = -1
_ENDED_TOO = -2


def taxonomy_kernel(
    A: Any,
    B: Any = None,
    *,
    ranks: Sequence[Any] | None = None,
    weights: Sequence[float] | None = None,
    normalized: bool = True,
) -> Any:
    r"""Compute the similarity of entities from the ranks of a taxonomy that they share, from the highest down.

    With :math:`s_{ij}` the number of ranks, counted from the highest, in which i and j have the
    same name and all ranks above are the same too,

    .. math:: K_{ij} = \sum_{r \le s_{ij}} w_r,

    divided by :math:`\sqrt{K_{ii} K_{jj}}` if `normalized`. Ranks below the first difference do not
    count: two species of different genera that are both called *vulgaris* do not share that rank. A
    missing rank (None, NaN or blank) ends the path: ranks below it are not shared.

    The kernel is positive semi-definite for any weights. Call the names of a row down to some rank
    a path. The kernel is the inner product of features with a column for each path, which is
    :math:`\sqrt{w_r}` in the rows that begin with the path and 0 elsewhere.

    Parameters
    ----------
    A : frame, array or sequence of rows, of shape (n_a, n_ranks)
        Names of the ranks, such as class, order, family, genus, of each entity: text, or whole
        numbers, which are compared as text. The ids of a frame are the index of pandas, or the
        first column of any other.
    B : frame, array or sequence of rows, of shape (n_b, n_ranks), optional
        Entities of the columns of the result, such as those of training if `A` has new ones; `A` by
        default.
    ranks : sequence of length n_ranks, optional
        The columns that hold the ranks, the highest first: by name in a frame, else by position. By
        default all columns from left to right; with two frames those of `B`, which must be in `A`
        under the same names.
    weights : sequence of float, optional
        Non-negative weights w_r, one for each rank; all 1 by default.
    normalized : bool, default=True
        Whether to scale the diagonal to 1. Otherwise entities with a longer path have a larger
        diagonal entry.

    Returns
    -------
    ndarray or frame of shape (n_a, n_b)
        A frame with the ids of both axes if `A` is a frame. An entity without its highest rank has
        similarity 0 to all entities, itself included.

    Raises
    ------
    IdError
        If `ranks` names columns that are not there, or one twice.
    ValueError
        If there are no ranks or entities, the tables differ in their ranks, weights are negative or
        all zero, or a name is neither text nor a whole number.

    See Also
    --------
    brownian_kernel : the length of the shared path in a tree with branch lengths.
    shared_ancestors_kernel : the proportion of common ancestors in a hierarchy.

    Examples
    --------
    >>> from dyadlearn.kernels import taxonomy_kernel
    >>> hosts = [
    ...     ("Mammalia", "Carnivora", "Felidae", "Felis"),
    ...     ("Mammalia", "Carnivora", "Felidae", "Lynx"),
    ...     ("Mammalia", "Carnivora", "Canidae", "Canis"),
    ...     ("Aves", "Passeriformes", "Corvidae", "Corvus"),
    ... ]
    >>> taxonomy_kernel(hosts)
    array([[1.  , 0.75, 0.5 , 0.  ],
           [0.75, 1.  , 0.5 , 0.  ],
           [0.5 , 0.5 , 1.  , 0.  ],
           [0.  , 0.  , 0.  , 1.  ]])

    A new entity whose family and genus are unknown, against those of training:

    >>> taxonomy_kernel([("Mammalia", "Carnivora", None, None)], hosts).round(2)
    array([[0.71, 0.71, 0.71, 0.  ]])
    """
    if isinstance(ranks, str):
        raise TypeError(
            f"ranks must be a list of columns, the highest first, found the text {ranks!r}."
        )
    names = None
    if ranks is not None:
        names = make_ids(list(ranks), None, "The list of ranks").labels
    rows = _read(A, "A", names)
    columns = rows if B is None else _read(B, "B", names)
    rows = _same_ranks(rows, columns)
    n_ranks = columns.values.shape[1]
    rank_weights = check_weights(weights, n_ranks, "ranks")
    if not any(rank_weights):
        raise ValueError("weights of the ranks are all zero: give at least one that is positive.")
    known: dict[tuple[int, Hashable], int] = {}
    first = _codes(rows, known)
    second = first if B is None else _codes(columns, known)
    # Paths that have ended are not equal to each other.
    second = np.where(second == _ENDED, _ENDED_TOO, second)
    n = len(first)
    p = len(second)
    check_kernel_memory(n, p, None)
    # Paths that are equal down to a rank are equal above it, so the number of shared ranks
    # determines which.
    totals = np.cumsum([0.0, *rank_weights])
    roots = np.sqrt(np.outer(totals, totals))
    roots[roots == 0] = 1.0  # where nothing is shared
    row_lengths = (first >= 0).sum(axis=1)
    column_lengths = (second >= 0).sum(axis=1)
    K = np.empty((n, p))
    for part in cached_blocks(n, K, (2, p)):
        shared = np.zeros((part.stop - part.start, p), dtype=np.int16)
        for rank in range(n_ranks):
            shared += first[part, rank, None] == second[None, :, rank]
        K[part] = totals[shared]
        if normalized:
            K[part] /= roots[row_lengths[part, None], column_lengths]
    return like_inputs(Table(K, rows.row_ids, columns.row_ids, rows.kind or columns.kind), A, B)


def _read(table: Any, name: str, ranks: Sequence[Hashable] | None) -> Table:
    """Return the names of all entities in all ranks (n, n_ranks), as objects, with their ids."""
    names = read_table(table, name, of_words=True)
    values = np.asarray(names.values, dtype=object)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} must be a table with a row for each entity and a name, or None, for each "
            f"rank, found shape {values.shape}."
        )
    names = replace(names, values=values)
    columns = names.column_ids or Ids(tuple(range(values.shape[1])))
    if ranks is None:
        return names
    return names.take(None, columns.positions(ranks, f"the columns of {name}"))


def _same_ranks(rows: Table, columns: Table) -> Table:
    """Return the rows with their ranks in the order of those of the columns; raise if their numbers differ."""
    if rows.column_ids is not None and columns.column_ids is not None:
        order = rows.column_ids.positions(columns.column_ids.labels, "the columns of A")
        rows = rows.take(None, order)
    counts = (rows.values.shape[1], columns.values.shape[1])
    if counts[0] != counts[1]:
        raise ValueError(
            f"A and B must have the same ranks, found {counts[0]} in A and {counts[1]} in B."
        )
    return rows


def _codes(table: Table, known: dict[tuple[int, Hashable], int]) -> np.ndarray:
    """Return a code (n, n_ranks) for the path of every row down to every rank, `_ENDED` after the path has ended.

    `known` maps paths to their codes; new paths are added to it.
    """
    headings: Sequence[Any] = range(table.values.shape[1])
    if table.column_ids is not None:
        headings = table.column_ids.labels
    codes = np.full(table.values.shape, _ENDED, dtype=np.int32, order="F")
    for row, path in enumerate(table.values):
        above = 0
        for rank, cell in enumerate(path):
            name = _name(cell, headings[rank])
            if name is None:
                break
            above = known.setdefault((above, name), len(known) + 1)
            codes[row, rank] = above
    return codes


def _name(cell: Any, rank: Any) -> str | None:
    """Return the name in a cell as text, so that 1 and "1" are the same; None if the cell is missing."""
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, str):
        return cell.strip() or None
    if is_missing(cell):
        return None
    if isinstance(cell, float) and not cell.is_integer():
        raise ValueError(
            f"the rank {rank!r} holds {cell!r}, which is no name: choose the columns by ranks=."
        )
    if not isinstance(cell, Hashable):
        raise ValueError(
            f"the rank {rank!r} holds {cell!r}, which is no name: use text or whole numbers."
        )
    return str(int(cell) if isinstance(cell, float) else cell)


# A name in quotes, in which two quotes stand for one; a name or a length; a sign. Blanks and
# comments are neither, and a comment may hold others.
_TOKEN = re.compile(
    r"\s+|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|'((?:[^']|'')*)'(?!')|([^()\[\]:;,'\s]+)|(.)"
)


# Negative lengths of at most this share of the longest branch are estimates of zero.
_ROUNDED = 1e-3


@dataclass(frozen=True)
class Tree:
    """Rooted tree with its nodes in depth-first order, each before the nodes below it.

    `read_newick` reads a tree from text.

    Attributes
    ----------
    names : tuple of length n_nodes
        Name of each node, empty if it has none. The root comes first.
    parents : tuple of length n_nodes
        Position of the parent of each node; -1 for the root.
    lengths : tuple of length n_nodes
        Length of the branch from each node to its parent; 0 for the root.

    Examples
    --------
    >>> from dyadlearn.kernels import read_newick
    >>> tree = read_newick("((human:6,chimp:6):84,mouse:90);")
    >>> tree.tips
    ('human', 'chimp', 'mouse')
    >>> tree.depths
    (0.0, 84.0, 90.0, 90.0, 90.0)
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    lengths: tuple[float, ...]

    @property
    def depths(self) -> tuple[float, ...]:
        """Distance of each node from the root."""
        depths: list[float] = []
        for parent, length in zip(self.parents, self.lengths, strict=True):
            depths.append(depths[parent] + length if depths else 0.0)
        return tuple(depths)

    @property
    def tips(self) -> tuple[str, ...]:
        """Names of the leaves, in the order of the Newick text."""
        return tuple(self.names[node] for node in self._tip_nodes)

    @property
    def _tip_nodes(self) -> list[int]:
        """Positions of the leaves."""
        above = set(self.parents)
        return [node for node in range(len(self.names)) if node not in above]


def read_newick(text: str) -> Tree:
    r"""Read a tree in Newick format, such as ``((human:6,chimp:6)apes:84,mouse:90);``.

    Names may be in single quotes, within which '' is one quote. Names without quotes are unchanged,
    including underscores. Comments in square brackets are skipped. If no branch has a length, all
    have length 1. Negative lengths of at most a thousandth of the longest branch, with which programs
    estimate branches of length zero, are read as zero.

    Parameters
    ----------
    text : str
        One tree, from the first parenthesis to the semicolon.

    Returns
    -------
    Tree

    Raises
    ------
    IdError
        If two tips have the same name, or the name of one is empty or blank.
    ValueError
        If the text is not a tree, a length is negative or not a number, or only some branches have
        one. The length above the root is ignored.

    Examples
    --------
    >>> from dyadlearn.kernels import brownian_kernel, read_newick
    >>> tree = read_newick("(('Homo sapiens':6, Pan_paniscus:6)[the apes]:84, Mus:90);")
    >>> tree.tips
    ('Homo sapiens', 'Pan_paniscus', 'Mus')
    >>> brownian_kernel(tree)
    array([[90., 84.,  0.],
           [84., 90.,  0.],
           [ 0.,  0., 90.]])
    """
    if not isinstance(text, str):
        raise TypeError(f"a tree in Newick format is a text, found {type(text).__name__}.")
    reader = _NewickReader(text)
    for token in _TOKEN.finditer(text):
        reader.read(token)
    return reader.tree()


class _NewickReader:
    """Reader of a tree in Newick format, token by token.

    Attributes
    ----------
    text : str
        The whole text, for messages.
    names, parents, lengths : lists of length n_nodes
        As in `Tree`, of the nodes so far; a length is None if it is not in the text.
    node : int
        Position of the current node.
    depth : int
        Number of open parentheses.
    last : str
        The last token: a sign, ``"name"`` or ``"length"``; empty at the beginning.
    negative : list of (float, int)
        Negative lengths, with their places in the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = [""]
        self.parents = [-1]
        self.lengths: list[float | None] = [None]
        self.node = 0
        self.depth = 0
        self.last = ""
        self.negative: list[tuple[float, int]] = []

    def read(self, token: re.Match[str]) -> None:
        """Read one token: a name or length, a sign, or blanks and comments, which are skipped."""
        quoted, word, sign = token.groups()
        if quoted is None and word is None and sign is None:
            return
        if self.last == ";":
            raise self._error("goes on after the semicolon: give one tree at a time", token.start())
        if self.last == ":":
            self.lengths[self.node] = self._length(word or "", token.start())
            self.last = "length"
        elif sign is not None:
            self._read_sign(sign, token.start())
        elif self.last in ("", "(", ",", ")"):
            self.names[self.node] = word or quoted.replace("''", "'")
            self.last = "name"
        else:
            raise self._misplaced("", token.start())

    def _read_sign(self, sign: str, start: int) -> None:
        """Read a parenthesis, comma, colon or semicolon."""
        if sign == "(" and self.last in ("", "(", ","):
            self._add_node(self.node)
            self.depth += 1
        elif sign == "," and self.depth:
            self._add_node(self.parents[self.node])
        elif sign == ")" and self.depth:
            self.node = self.parents[self.node]
            self.depth -= 1
        elif not (sign == ":" and self.last != "length") and not (sign == ";" and not self.depth):
            raise self._misplaced(sign, start)
        self.last = sign

    def _add_node(self, parent: int) -> None:
        """Add a node, which becomes the current one."""
        self.parents.append(parent)
        self.names.append("")
        self.lengths.append(None)
        self.node = len(self.names) - 1

    def _length(self, word: str, start: int) -> float:
        """Return the length of a branch."""
        try:
            length = parse_number(word)
        except ValueError:
            raise self._error(f"has {word!r} where a length belongs", start) from None
        if not math.isfinite(length):
            raise self._error(f"has a branch of length {word}: lengths must be finite", start)
        if length < 0:
            self.negative.append((length, start))
        return length

    def tree(self) -> Tree:
        """Return the tree after the last token."""
        if self.last != ";":
            raise self._error("ends without a semicolon: is the text cut off?", len(self.text))
        self.lengths[0] = 0.0
        n_branches = len(self.lengths) - 1
        missing = sum(length is None for length in self.lengths)
        if 0 < missing < n_branches:
            raise ValueError(
                f"{missing} of the {n_branches} branches of the tree have no length: give all "
                f"branches a length, or none."
            )
        self._check_negative()
        lengths = tuple(1.0 if length is None else max(length, 0.0) for length in self.lengths)
        tree = Tree(tuple(self.names), tuple(self.parents), lengths)
        make_ids(tree.tips, None, "The list of tips of the tree")
        return tree

    def _check_negative(self) -> None:
        """Raise if a length is negative by more than rounding."""
        if not self.negative:
            return
        length, start = min(self.negative)
        longest = max(length or 0.0 for length in self.lengths)
        if length < -_ROUNDED * longest:
            raise self._error(
                f"has a branch of length {length:g}: lengths must not be negative (set those that a "
                f"program estimated below 0 to 0)",
                start,
            )

    def _misplaced(self, sign: str, start: int) -> ValueError:
        """Return the error for a token where another one belongs."""
        problems = {
            "'": "has a quote that is not closed",
            "[": "has a comment that is not closed",
            ";": f"has {self.depth} parentheses that are not closed",
        }
        other = f"has {self.text[start]!r} where ',', ')' or ';' belongs"
        return self._error(problems.get(sign, other), start)

    def _error(self, problem: str, start: int) -> ValueError:
        """Return an error with the place of a problem."""
        near = self.text[max(start - 15, 0) : start + 15]
        return ValueError(
            f"The tree in Newick format {problem}, at character {start + 1} (near {near!r})."
        )


def brownian_kernel(tree: Tree | str, tips: Tips = None) -> Any:
    r"""Compute the covariance of Brownian motion along the branches: the length of the path that two tips share.

    .. math:: K_{ij} = \text{depth of the last common ancestor of } i \text{ and } j

    The diagonal holds the distance of each tip from the root; `normalize` makes it 1. The kernel is
    positive semi-definite.

    Parameters
    ----------
    tree : Tree or str
        A tree, or its text in Newick format.
    tips : sequence or series of length n, optional
        The tips of the result, in this order; by default all tips in the order of the tree.

    Returns
    -------
    ndarray or frame of shape (n, n)
        A frame with the tips as ids if `tips` is a series.

    Raises
    ------
    IdError
        If `tips` repeats a name or has one that is not in the tree.

    Examples
    --------
    >>> from dyadlearn.kernels import brownian_kernel
    >>> brownian_kernel("((human:6,chimp:6):84,mouse:90);", ["mouse", "human", "chimp"])
    array([[90.,  0.,  0.],
           [ 0., 90., 84.],
           [ 0., 84., 90.]])
    """
    shared, labels, _ = _shared(tree, tips)
    return with_labels(shared, labels, tips)


def tree_distance_kernel(tree: Tree | str, tips: Tips = None, *, scale: float | None = None) -> Any:
    r"""Compute the similarity of tips from the length of the path between them.

    .. math:: K_{ij} = \exp(-d(i, j) / \text{scale})

    The kernel is positive semi-definite for every scale.

    Parameters
    ----------
    tree : Tree or str
        A tree, or its text in Newick format.
    tips : sequence or series of length n, optional
        The tips of the result, in this order; by default all tips in the order of the tree.
    scale : float, optional
        Distance over which the similarity falls by the factor e; by default the largest distance of
        a tip from the root.

    Returns
    -------
    ndarray or frame of shape (n, n)
        Symmetric, ones on the diagonal. A frame with the tips as ids if `tips` is a series.

    Raises
    ------
    IdError
        If `tips` repeats a name or has one that is not in the tree.

    Examples
    --------
    >>> from dyadlearn.kernels import tree_distance_kernel
    >>> tree_distance_kernel("((human:6,chimp:6):84,mouse:90);").round(3)
    array([[1.   , 0.875, 0.135],
           [0.875, 1.   , 0.135],
           [0.135, 0.135, 1.   ]])
    """
    shared, labels, deepest = _shared(tree, tips, n_kernels=4)
    scale = check_scale((deepest or 1.0) if scale is None else scale)
    depth = shared.diagonal()
    distance = depth[:, None] + depth[None, :] - 2.0 * shared
    return with_labels(np.exp(-distance / scale), labels, tips)


def _shared(
    tree: Tree | str, tips: Tips, n_kernels: int = 2
) -> tuple[np.ndarray, list[Hashable], float]:
    """Return the lengths (n, n) that the paths from the root to two tips share, the tips, and the largest depth.

    There must be memory for `n_kernels` arrays (n, n).
    """
    if not isinstance(tree, Tree):
        tree = read_newick(tree)
    depths = np.array(tree.depths)
    nodes = np.array(tree._tip_nodes)
    place = {tree.names[node]: position for position, node in enumerate(nodes)}
    labels = listed(place if tips is None else tips)
    wanted = places(labels, place, "tips", "not in the tree")

    # In depth-first order, the parent of the node after a tip is the last common ancestor of this
    # tip and the next. The last common ancestor of two tips further apart is the highest of the
    # ancestors between them.
    parents = np.array(tree.parents)
    between = np.append(depths[parents[nodes[:-1] + 1]], 0.0)
    order = np.argsort(wanted)
    along = wanted[order]
    between = np.minimum.reduceat(between, along)
    # The kernel in the order of the tree, then in that of the result.
    check_kernel_memory(len(along), len(along), None, n_kernels)
    K = np.empty((len(along), len(along)))
    for row, tip in enumerate(along):
        K[row, row] = depths[nodes[tip]]
        lengths = np.minimum.accumulate(between[row:-1])
        K[row, row + 1 :] = lengths
        K[row + 1 :, row] = lengths
    back = np.argsort(order)
    return K[np.ix_(back, back)], labels, float(depths[nodes].max())
