"""What the library says that it needs, and the memory that it takes."""

import re
import tracemalloc
from collections.abc import Callable
from unittest import mock

from dyadlearn import _memory
from dyadlearn.exceptions import NotEnoughMemoryError

MIB = 2**20


def with_free(count: float) -> mock._patch:
    """Pretend that so many bytes are free."""
    return mock.patch.object(_memory, "available_memory", return_value=count)


def told(work: Callable[[], object]) -> float:
    """Return the most bytes that any step of the work says it needs, from a few hundred KiB to 256 MiB."""
    need = 0.0
    while True:
        with with_free(1.01 * need):
            try:
                work()
            except NotEnoughMemoryError as error:
                found = re.search(r"about ([\d.]+) MiB", str(error))
                assert found is not None
                need = max(float(found[1]) * MIB, need + 0.05 * MIB)
            else:
                return need


def taken(work: Callable[[], object]) -> int:
    """Return the peak of the memory of arrays and objects of Python, beyond what was there before."""
    work()  # imports what it needs
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
