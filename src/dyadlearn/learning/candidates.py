"""Where a stage ends: at the best of what descents find from all kernels together and from single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dyadlearn._array import Array
from dyadlearn.learning.descent import Descent, HoldoutError, descend
from dyadlearn.learning.parameters import Parameters

__all__ = ["Candidate", "best_candidate", "expected_steps"]

# One kernel of each side; None for all of them.
Single = tuple[int | None, int | None]

# Single kernels, and other starts, are descended from where a product of a grid with both kernels takes no more
# multiplications than this; elsewhere single kernels are compared as they are, on one part of the error.
_SMALL = 1e7
# The share of all steps that tells one single kernel from another.
_SHORT = 1 / 6


@dataclass(frozen=True, eq=False)
class Candidate:
    """Parameters with their error.

    Attributes
    ----------
    parameters : Parameters
    error : float
    predicted : list of arrays of shape (m, q)
        What is predicted of each part.
    losses : list of float
        Errors of the parts, step by step, of the descent that led here.
    """

    parameters: Parameters
    error: float
    predicted: list[Array]
    losses: list[float]


def best_candidate(
    error: HoldoutError,
    starts: Sequence[Parameters],
    n_kernels: tuple[int, int],
    how: Descent,
    watch: Callable[[float], None],
) -> tuple[Candidate, bool]:
    """Return the best of what is found from some starts and from single kernels, and whether somebody interrupted.

    Parameters
    ----------
    error : HoldoutError
    starts : sequence of Parameters
        Of which those after the first are tried where that takes little.
    n_kernels : (int, int)
        How many kernels each side has beside the constant, of which single ones are tried; 0 or 1 for none.
    how : Descent
    watch : callable
        Told the error of each step.
    """
    search = _Search(error, n_kernels, how, watch)
    try:
        search.run(starts)
    except KeyboardInterrupt:
        if search.best is None:
            search.keep(search.reached, [])
        return _known(search.best), True
    return _known(search.best), False


def expected_steps(shape: tuple[int, int], n_kernels: tuple[int, int], n_steps: int, n_stages: int) -> int:
    """Return about how many steps of descent some stages take together, at most."""
    m, q = shape
    n_rows, n_columns = (count if count > 1 else 0 for count in n_kernels)
    is_small, has_both = m * q * (m + q) <= _SMALL, min(n_rows, n_columns) > 0
    descents = 1.0 + (2 if is_small else 1) * (n_stages - 1)
    if is_small and (n_rows or n_columns):
        n_singles = (2 if has_both else 1) * n_rows + n_columns
        descents += _SHORT * n_singles + (3 if has_both else 1)
    if n_rows or n_columns:  # and from the best of single kernels with all
        descents += 1
    return round(descents * n_steps)


def _known(found: Candidate | None) -> Candidate:
    assert found is not None
    return found


@dataclass(eq=False)
class _Search:
    """What was found so far."""

    error: HoldoutError
    n_kernels: tuple[int, int]
    how: Descent
    watch: Callable[[float], None]
    best: Candidate | None = None
    reached: Parameters = field(init=False)

    def run(self, starts: Sequence[Parameters]) -> None:
        self.reached, (m, q) = starts[0], self.error.shape
        is_small = m * q * (m + q) <= _SMALL
        for start in starts if is_small else starts[:1]:
            self.descend(start)
        mixed = _known(self.best)
        if max(self.n_kernels) > 1 and is_small:
            self._descend_with_singles(starts[0], mixed.parameters)
        elif max(self.n_kernels) > 1:
            self._compare_singles(mixed)

    def descend(self, start: Parameters, single: Single = (None, None), share: float = 1.0) -> Candidate:
        """Descend from somewhere, with single kernels if so said, for a share of all steps."""
        held = None
        if single != (None, None):
            start, held = start.singled(*single), start.beside(*single)
        how = replace(self.how, n_steps=max(round(share * self.how.n_steps), 1))
        found = descend(self.error, start, how, self.watch, held)
        self.reached = found.parameters
        candidate = self.keep(found.parameters, found.losses)
        if found.interrupted:
            raise KeyboardInterrupt
        return candidate

    def keep(self, parameters: Parameters, losses: list[float]) -> Candidate:
        """Evaluate parameters, which are kept if there are no better ones."""
        parameters = self.error.accepted(parameters)
        candidate = Candidate(parameters, *self.error.evaluate(parameters), losses)
        if self.best is None or candidate.error < self.best.error:
            self.best = candidate
        return candidate

    def _descend_with_singles(self, start: Parameters, learned: Parameters) -> None:
        """Descend with the single kernels that short descents find best, and from there with all."""
        single = self._best_single(lambda each: self.descend(learned, each, _SHORT).error)
        before = _known(self.best)
        several = [single] + [each for each in ((single[0], None), (None, single[1])) if None not in single]
        for each in several:
            self.descend(start, each)
        if self.best is not before:
            self.descend(_known(self.best).parameters.opened())

    def _compare_singles(self, mixed: Candidate) -> None:
        """Descend from single kernels if they are better as they are."""
        learned = mixed.parameters
        single = self._best_single(lambda each: self.error.loss(learned.singled(*each), 0))
        if self.keep(learned.singled(*single), mixed.losses) is self.best:
            self.descend(learned.singled(*single).opened())

    def _best_single(self, error: Callable[[Single], float]) -> Single:
        """Return the best kernel of each side, one side after the other; None for a side that has no choice."""
        n_rows, n_columns = self.n_kernels
        member, task_member = None, None
        if n_rows > 1:
            member = _least(error((i, None)) for i in range(n_rows))
        if n_columns > 1:
            task_member = _least(error((member, j)) for j in range(n_columns))
        if member is not None and task_member is not None:
            member = _least(error((i, task_member)) for i in range(n_rows))
        return member, task_member


def _least(errors: Iterable[float]) -> int:
    found = np.array(list(errors))
    return int(np.argmin(np.where(np.isfinite(found), found, np.inf)))
