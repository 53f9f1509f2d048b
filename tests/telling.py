"""What the library says that it needs, and the memory that it takes."""

import tracemalloc
from collections.abc import Callable
from unittest import mock

from dyadlearn import _memory

MIB = 2**20


def with_free(count: float) -> mock._patch:
    """Pretend that so many bytes are free."""
    return mock.patch.object(_memory, "available_memory", return_value=count)


def told(work: Callable[[], object]) -> float:
    """Return the most bytes that any step of the work says it needs."""
    needs: list[float] = []
    # Only `check_memory` finds it here.
    with mock.patch.object(_memory, "fits_in_memory", lambda need, _: not needs.append(need)):
        work()
    return max(needs)


def taken(work: Callable[[], object]) -> int:
    """Return the peak of the memory of arrays and objects of Python, beyond what was there before."""
    work()  # imports what it needs
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
