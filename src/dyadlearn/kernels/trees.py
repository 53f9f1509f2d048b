"""Kernels between the tips of a tree, such as species in a phylogeny."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyadlearn._files.packed import parse_number
from dyadlearn._tables import shown
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.graphs import check_scale, listed, places, with_labels

__all__ = ["Tree", "brownian_kernel", "read_newick", "tree_distance_kernel"]

# A name or a length, and a name in quotes, in which two quotes stand for one.
_WORD = re.compile(r"[^()\[\]:;,'\s]*")
_QUOTED = re.compile(r"'((?:[^']|'')*)'(?!')")


@dataclass(frozen=True)
class Tree:
    """A rooted tree, its nodes in the order in which a walk meets them, each before what is below it.

    `read_newick` makes one out of text.

    Attributes
    ----------
    names : tuple of length n_nodes
        The name of each node, empty where it has none. The root comes first.
    parents : tuple of length n_nodes
        The position of the node above; -1 for the root.
    lengths : tuple of length n_nodes
        The length of the branch to the node above; 0 for the root.

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
        """How far each node is from the root."""
        depths: list[float] = []
        for parent, length in zip(self.parents, self.lengths, strict=True):
            depths.append(depths[parent] + length if depths else 0.0)
        return tuple(depths)

    @property
    def tips(self) -> tuple[str, ...]:
        """Names of the nodes with nothing below them, in the order of the text."""
        return tuple(self.names[node] for node in self._tip_nodes)

    @property
    def _tip_nodes(self) -> list[int]:
        above = set(self.parents)
        return [node for node in range(len(self.names)) if node not in above]


def read_newick(text: str) -> Tree:
    r"""Read a tree in Newick's notation, such as ``((human:6,chimp:6)apes:84,mouse:90);``.

    Names may stand in single quotes, within which '' is one quote; names without quotes are kept as they are, with
    their underscores. Comments in square brackets are skipped. Where no branch has a length, all have length 1.

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
        If two tips have the same name, or one has none.
    ValueError
        If the text is not a tree, a length is negative or not a number, or only some branches have one. The length
        above the root is ignored.

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
        raise TypeError(f"a tree in Newick's notation is a text, found {type(text).__name__}.")
    return _Reader(text).tree()


def brownian_kernel(tree: Tree | str, tips: Iterable[Hashable] | None = None) -> Any:
    r"""Covariance of a trait that drifts at random along the branches: the length of the path two tips share.

    .. math:: K_{ij} = \text{depth of the last common ancestor of } i \text{ and } j

    The diagonal holds the distance of each tip from the root; `normalize` makes it 1. It is positive semi-definite.

    Parameters
    ----------
    tree : Tree or str
        A tree, or its text in Newick's notation.
    tips : sequence or series of length n, optional
        The tips wanted, in the order of the answer; all in the order of the tree where not given.

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
    labels = None if tips is None else listed(tips)
    return with_labels(_shared(tree, labels)[0], labels or [], tips)


def tree_distance_kernel(
    tree: Tree | str, tips: Iterable[Hashable] | None = None, *, scale: float | None = None
) -> Any:
    r"""Similarity of tips by the length of the path between them.

    .. math:: K_{ij} = \exp(-d(i, j) / \text{scale})

    It is positive semi-definite for every scale, as all such kernels on trees are.

    Parameters
    ----------
    tree : Tree or str
        A tree, or its text in Newick's notation.
    tips : sequence or series of length n, optional
        The tips wanted, in the order of the answer; all in the order of the tree where not given.
    scale : float, optional
        The distance over which the similarity falls by the factor e; the greatest distance of any tip from the root
        where not given.

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
    labels = None if tips is None else listed(tips)
    shared, deepest = _shared(tree, labels)
    scale = check_scale((deepest or 1.0) if scale is None else scale)
    depth = shared.diagonal()
    return with_labels(np.exp(-(depth[:, None] + depth[None, :] - 2.0 * shared) / scale), labels or [], tips)


def _shared(tree: Tree | str, tips: Iterable[Hashable] | None) -> tuple[np.ndarray, float]:
    """Return the lengths that the paths from the root to two tips share, (n, n), and the depth of the deepest tip."""
    tree = tree if isinstance(tree, Tree) else read_newick(tree)
    depths = np.array(tree.depths)
    nodes = np.array(tree._tip_nodes)
    place = {tree.names[node]: position for position, node in enumerate(nodes)}
    wanted = places(place if tips is None else tips, place, "tips", "not in the tree")

    # The node that a walk meets after a tip hangs on the last common ancestor of this tip and the next. Of two tips
    # further apart, the ancestor is the highest of those between them.
    parents = np.array(tree.parents)
    between = np.append(depths[parents[nodes[:-1] + 1]], 0.0)
    order = np.argsort(wanted)
    along = wanted[order]
    between = np.minimum.reduceat(between, along)
    K = np.empty((len(along), len(along)))
    for row, tip in enumerate(along):
        K[row, row] = depths[nodes[tip]]
        K[row, row + 1 :] = K[row + 1 :, row] = np.minimum.accumulate(between[row:-1])
    back = np.argsort(order)
    return K[np.ix_(back, back)], float(depths[nodes].max())


@dataclass
class _Reader:
    """Reads one tree from left to right, without recursion, so that no tree is too deep."""

    text: str
    at: int = 0
    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    lengths: list[float | None] = field(default_factory=list)

    def tree(self) -> Tree:
        above: list[int] = []
        expects_node = True
        while True:
            self._skip()
            sign = self.text[self.at : self.at + 1]
            if sign == "":
                raise self._error("ends without a semicolon: is the text cut off?")
            if sign == "(" and expects_node:
                above.append(self._new(above))
                self.at += 1
            elif expects_node:
                self._describe(self._new(above))
                expects_node = False
            elif sign == "," and above:
                self.at += 1
                expects_node = True
            elif sign == ")" and above:
                self.at += 1
                self._describe(above.pop())
            elif sign == ";" and not above:
                self.at += 1
                break
            elif sign == ";":
                raise self._error(f"has {len(above)} parentheses that are not closed")
            else:
                raise self._error(f"has {sign!r} where ',', ')' or ';' belongs")
        self._skip()
        if self.at < len(self.text):
            raise self._error("goes on after the semicolon: give one tree at a time")
        return self._checked()

    def _new(self, above: list[int]) -> int:
        self.names.append("")
        self.parents.append(above[-1] if above else -1)
        self.lengths.append(None)
        return len(self.names) - 1

    def _describe(self, node: int) -> None:
        """Read the name and the length of a node, neither of which must be there."""
        self._skip()
        self.names[node] = self._quoted() if self.text.startswith("'", self.at) else self._word()
        self._skip()
        if self.text.startswith(":", self.at):
            self.at += 1
            self._skip()
            word = self._word()
            try:
                length = parse_number(word)
            except ValueError:
                raise self._error(f"has {word!r} where a length belongs") from None
            if not 0 <= length < math.inf:
                raise self._error(f"has a branch of length {word}: lengths must be finite and not negative")
            self.lengths[node] = length

    def _word(self) -> str:
        found = _WORD.match(self.text, self.at)
        assert found is not None  # a word may be empty
        self.at = found.end()
        return found[0]

    def _quoted(self) -> str:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            raise self._error("has a quote that is not closed")
        self.at = found.end()
        return found[1].replace("''", "'")

    def _skip(self) -> None:
        """Pass over blanks and comments, which may hold comments."""
        depth = 0
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == "[":
                depth += 1
            elif sign == "]" and depth:
                depth -= 1
            elif not depth and not sign.isspace():
                return
            self.at += 1
        if depth:
            raise self._error("has a comment that is not closed")

    def _checked(self) -> Tree:
        self.lengths[0] = 0.0
        missing = sum(length is None for length in self.lengths)
        if 0 < missing < len(self.lengths) - 1:
            raise ValueError(f"{missing} of the {len(self.lengths) - 1} branches of the tree have no length.")
        lengths = tuple(1.0 if length is None else length for length in self.lengths)
        tree = Tree(tuple(self.names), tuple(self.parents), lengths)
        nameless = tree.tips.count("")
        if nameless:
            raise IdError(f"{nameless} of the {len(tree.tips)} tips of the tree have no name.")
        repeated = [name for name, count in Counter(tree.tips).items() if count > 1]
        if repeated:
            raise IdError(f"the tips of the tree must have different names, but {shown(repeated)} are repeated.")
        return tree

    def _error(self, problem: str) -> ValueError:
        near = self.text[max(self.at - 15, 0) : self.at + 15]
        return ValueError(f"The tree in Newick's notation {problem}, at character {self.at + 1} (near {near!r}).")
