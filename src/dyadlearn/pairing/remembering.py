"""Remember the last inverse over the labels of a problem, which several answers about one model need."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from dyadlearn._array import Array
from dyadlearn._memory import empty_when_short, fits_in_memory


class LastInverse:
    """One inverse, or factor of a system, with the problem that it belongs to.

    Settings A, B, C and D of one fitted model need the same inverse, and so does the explanation of
    a prediction, which may also use the Cholesky factor of the fit of a list of pairs. A search
    over regularisations has one problem for each, so that each inverse replaces the previous one.
    An inverse is forgotten with its problem, before another one is computed, and where memory is
    short (`dyadlearn._memory`). It is not kept at all if another one would not fit beside it.

    The problem is compared by identity and is not kept alive. The only state is one attribute,
    which threads replace as a whole: two threads may compute the same inverse, but never read a
    wrong one. It belongs to the process, so that no pickle or model file contains it.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.labels import Labels
    >>> from dyadlearn.pairing.remembering import LastInverse
    >>> problem = Labels.of_grid(np.eye(2))  # any object with weak references
    >>> last = LastInverse()
    >>> last.of(problem, "cells", lambda: "an inverse", 0.0, problem.values)
    'an inverse'
    >>> last.of(problem, "cells", lambda: "computed again", 0.0, problem.values)
    'an inverse'
    >>> del problem
    >>> last.is_empty
    True
    """

    def __init__(self) -> None:
        self._entry: tuple[weakref.ref[Any], str, Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no inverse is remembered."""
        return self._entry is None

    def of(
        self, problem: Any, name: str, compute: Callable[[], Any], n_bytes: float, like: Array
    ) -> Any:
        """Return an inverse of a problem: the remembered one, or a new one.

        Parameters
        ----------
        problem : object
        name : str
            Kind of inverse.
        compute : callable
            Function that returns a new inverse. It must not hold the problem.
        n_bytes : float
            Memory of the inverse.
        like : array
            An array on its device.
        """
        entry = self.known(problem, name)
        if entry is not None:
            return entry[1]
        self.forget()
        inverse = compute()
        if fits_in_memory(n_bytes, like):
            self._entry = (weakref.ref(problem, self._forget_problem), name, inverse)
        return inverse

    def known(self, problem: Any, *names: str) -> tuple[str, Any] | None:
        """Return the name and the remembered inverse of a problem; None if it has none with one of the names."""
        entry = self._entry
        if problem is None or entry is None or entry[0]() is not problem or entry[1] not in names:
            return None
        return entry[1], entry[2]

    def forget(self) -> bool:
        """Forget the inverse, and return whether there was one."""
        was_known = self._entry is not None
        self._entry = None
        return was_known

    def _forget_problem(self, reference: weakref.ref[Any]) -> None:
        entry = self._entry
        if entry is not None and entry[0] is reference:
            self._entry = None


#: The last inverse of this process.
last_inverse = LastInverse()
empty_when_short(last_inverse.forget)
