r"""Kernel between the cells of N sides: a sum of terms, each a product of the kernels of some sides.

A label belongs to a cell :math:`(i_1, \dots, i_N)`, one level of each side. A term T is a set of
sides, with the kernel

.. math:: k_T(i, i') = v_T \prod_{s \in T} k_s(i_s, i'_s) ,

so that one side alone is a main effect and two sides are an interaction. The model of n labels is
:math:`\mathbf{y} = \mathbf{F}\boldsymbol\beta + \sum_T \mathbf{u}_T + \mathbf{e}` with
:math:`\mathrm{Var}(\mathbf{e}) = v_e\,\mathrm{diag}(1/w)`, and everything follows from the inverse of
its covariance (`dyadlearn.solve.inverse.CellsInverse`).

Two sides may be *alike*: members of a pair whose order does not matter, such as the parents of a
hybrid. A term with one of them has the kernel of the sum, and a term with both that of the product,
of `dyadlearn.kernels.pairs_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    namespace,
    row_blocks,
    take_rows,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._tables import shown
from dyadlearn.exceptions import LeverageError
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse

#: Name of the variance of the noise of a label of weight one.
RESIDUAL = "residual"

# Matrices of the order of the labels in memory while variances are estimated.
_MATRICES = 2


def parse_terms(terms: str | Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the sides of each term, in the order of first appearance.

    Parameters
    ----------
    terms : str, or sequence of str or of sequences of str
        Terms with ``+`` between them, or a list of terms. A term is a side, sides with ``:``
        between them for their interaction, or sides with ``*`` between them for all their main
        effects and interactions. In a list, a term may also be a list of sides.

    Examples
    --------
    >>> from dyadlearn.pairing.multiway import parse_terms
    >>> parse_terms("mother*father + trial:mother")
    [('mother',), ('father',), ('mother', 'father'), ('trial', 'mother')]
    >>> parse_terms(["mother", ("mother", "father")])
    [('mother',), ('mother', 'father')]
    """
    written = terms.split("+") if isinstance(terms, str) else terms
    parsed: list[tuple[str, ...]] = []
    for term in written:
        parsed += _expanded(term) if isinstance(term, str) else [tuple(term)]
    for sides in parsed:
        if not sides or len(set(sides)) < len(sides) or not all(map(_is_name, sides)):
            raise ValueError(
                f"terms must be names of sides, without blanks, joined by '+', ':' or '*', each "
                f"once in a term, such as 'mother + father + mother:father': found {terms!r}."
            )
    distinct = {frozenset(sides): sides for sides in reversed(parsed)}
    return list(reversed(distinct.values()))


def _expanded(term: str) -> list[tuple[str, ...]]:
    """Return the terms that ``*`` stands for."""
    factors = [tuple(name.strip() for name in part.split(":")) for part in term.split("*")]
    expanded = []
    for size in range(1, len(factors) + 1):
        for some in combinations(factors, size):
            expanded.append(tuple(dict.fromkeys(name for factor in some for name in factor)))
    return expanded


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and not set(name) & set(":*+ \t\n")


@dataclass(frozen=True, eq=False)
class CellTerms:
    """Terms of the kernel between the cells of n labels.

    Attributes
    ----------
    kernels : tuple of arrays of shape (m, m), or None
        Kernel between the levels of each side that have labels; None is the identity.
    places : tuple of integer arrays of shape (n,)
        Level of each side, for each label.
    terms : tuple of tuples of int
        Sides of each term.
    like : array
        An array of the library and type of the kernel.
    alike : (int, int) or None
        Two sides with the same levels whose order does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.pairing.multiway import CellTerms
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> places = (np.array([0, 0, 1]), np.array([0, 1, 1]))
    >>> terms = CellTerms((K, None), places, ((0,), (0, 1)), K)
    >>> terms.kernel([1.0, 2.0])
    array([[3. , 1. , 0.5],
           [1. , 3. , 1.5],
           [0.5, 1.5, 3. ]])
    """

    kernels: tuple[Array | None, ...]
    places: tuple[np.ndarray, ...]
    terms: tuple[tuple[int, ...], ...]
    like: Array
    alike: tuple[int, int] | None = None

    @property
    def n_labels(self) -> int:
        """Number n of labels."""
        return len(self.places[0])

    def between(self, rows: Sequence[Array]) -> list[Array]:
        """Return each term between some cells and those of the labels, arrays (a, n).

        Parameters
        ----------
        rows : sequence of arrays
            For each side, the kernel (a, m) between the levels of the cells and those with labels;
            the levels (a,), -1 for one without labels, if the kernel is the identity.
        """
        known: dict[tuple[int, int], Array] = {}

        def gathered(side: int, other: int) -> Array:
            """Return the kernel between the level on one side of the cells and on another of the labels."""
            if (side, other) not in known:
                at = self.places[other]
                if self.kernels[side] is None:
                    is_same = rows[side][:, None] == at[None, :]
                    block = as_array_of(is_same, self.like, self.like.dtype)
                else:
                    xp = namespace(rows[side])
                    block = xp.take(rows[side], as_array_of(at, rows[side]), axis=1)
                known[side, other] = block
            return known[side, other]

        return [self._product(term, gathered) for term in self.terms]

    def priors(self, diagonals: Sequence[Array], between: Array | None = None) -> list[Array]:
        """Return each term of some cells with themselves, arrays (a,).

        Parameters
        ----------
        diagonals : sequence of arrays of shape (a,)
            Kernel of the level of each side with itself.
        between : array of shape (a,), default=None
            Kernel between the levels of the two sides that are alike.
        """

        def gathered(side: int, other: int) -> Array:
            if side == other:
                return diagonals[side]
            assert between is not None
            return between

        return [self._product(term, gathered) for term in self.terms]

    def _product(self, term: tuple[int, ...], gathered: Callable[[int, int], Array]) -> Array:
        """Return the product of the kernels of the sides of a term; alike sides have a sum over both orders."""
        of_pair = []
        if self.alike is not None:
            of_pair = [side for side in term if side in self.alike]
        factors = [gathered(side, side) for side in term if side not in of_pair]
        if self.alike is not None and of_pair:
            first, second = self.alike
            straight = (gathered(first, first), gathered(second, second))
            crossed = (gathered(first, second), gathered(second, first))
            if len(of_pair) == 1:
                factors.append((sum(straight) + sum(crossed)) / 2)
            else:
                factors.append((straight[0] * straight[1] + crossed[0] * crossed[1]) / 2)
        result = factors[0]
        for factor in factors[1:]:
            result = result * factor
        return result

    def blocks(self) -> Iterator[tuple[slice, list[Array]]]:
        """Yield slices of labels, and each term between these and all labels."""
        n = self.n_labels
        for here in row_blocks(n, (len(self.terms), n), (3, len(self.kernels), n)):
            rows = []
            for kernel, at in zip(self.kernels, self.places, strict=True):
                rows.append(at[here] if kernel is None else take_rows(kernel, at[here]))
            yield here, self.between(rows)

    def kernel(self, variances: Sequence[float] | np.ndarray) -> Array:
        """Return the sum (n, n) of the terms times their variances."""
        n = self.n_labels
        check_memory(
            array_bytes(self.like, (_MATRICES, n, n)),
            self.like,
            f"The matrix of {n:,} × {n:,} labels of cells",
            "fit fewer labels, or two sides at a time with KroneckerRidge or PairKernelRidge, "
            "whose cost grows with the sides",
        )
        total = zeros((n, n), self.like)
        for here, terms in self.blocks():
            for variance, term in zip(variances, terms, strict=True):
                if variance:
                    total[here, :] += variance * term
        return total

    def inverse(self, variances: np.ndarray, ridges: Array, fixed: FixedPart) -> CellsInverse:
        """Return the inverse of the covariance of the labels, with the fixed part projected out.

        Parameters
        ----------
        variances : array of shape (t,)
            Variance of each term.
        ridges : array of shape (n,)
            Variance of the noise of each label.
        fixed : FixedPart
        """

        def refusal() -> Exception:
            return LeverageError(
                f"The covariance of {self.n_labels} labels is singular up to rounding: use a "
                f"larger residual variance, or weights that differ less."
            )

        return CellsInverse.of(self.kernel(variances), ridges, fixed, refusal)


def canonical(
    terms: Sequence[tuple[int, ...]], alike: tuple[int, int] | None
) -> tuple[tuple[int, ...], ...]:
    """Return terms in which the first of two alike sides stands for a single one of them, each term once."""
    renamed = []
    for term in terms:
        sides = set(term)
        if alike is not None and sides & set(alike) == {alike[1]}:
            sides = sides - {alike[1]} | {alike[0]}
        renamed.append(tuple(sorted(sides)))
    return tuple(dict.fromkeys(renamed))


def confounded(names: Sequence[str], with_fixed: bool) -> ValueError:
    """Return the error for terms whose variances the labels cannot tell apart."""
    if with_fixed:
        words = f"the term {names[0]!r} has the same effects as the fixed columns"
        remedy = "leave it out of terms or of fixed"
    else:
        words = f"the terms {shown(names, 10)} are confounded"
        remedy = "leave one of them out, or give their variances as numbers"
    return ValueError(f"On these labels, {words}, so that their variances are unknown: {remedy}.")
