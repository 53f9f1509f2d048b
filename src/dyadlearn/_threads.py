"""Independent pieces of work on all cores, each with one thread of linear algebra.

Matrix products use every core by themselves, but what happens between them does not. Where many pieces are alike,
it is better to give each core a piece of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dyadlearn._array import Array, is_foreign

Item = TypeVar("Item")


def for_each(work: Callable[[Item], None], items: Sequence[Item], like: Array, *, n_operations: float) -> None:
    """Call `work` on every item, on as many threads as linear algebra is allowed to use.

    Parameters
    ----------
    work : callable
        Writes its result where no other call writes.
    items : sequence
    like : array
        Arrays of other libraries have a device of their own to keep busy: they are worked on one by one.
    n_operations : float
        Floating-point operations in all; little work is done without threads.
    """
    workers = n_workers(like, n_operations)
    if workers == 1:
        for item in items:
            work(item)
        return
    with _linear_algebra().limit(limits=1), ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, items):  # raises what a piece raised
            pass


def n_workers(like: Array, n_operations: float) -> int:
    """Return on how many threads `for_each` works: little work, or that of another library, has one."""
    if is_foreign(like) or n_operations <= 2e8:
        return 1
    return max((library["num_threads"] for library in _linear_algebra().info()), default=1)


def _linear_algebra() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
