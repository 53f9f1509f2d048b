"""Parallel calls of a function, each with one thread of linear algebra.

Matrix products use all cores, but the operations between them do not. Many similar calls are faster
if each core runs a separate call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")

# Order of the matrices whose product is timed: it takes a few milliseconds.
_TRIED = 512


def for_each(
    work: Callable[[Item], None], items: Sequence[Item], like: Any, *, n_operations: float
) -> None:
    """Call `work` on every item, on as many threads as linear algebra is allowed to use.

    Parameters
    ----------
    work : callable
        Function that writes its result to a place of its own.
    items : sequence
    like : array
        An array of the computation. Items of libraries other than numpy are processed one by one.
    n_operations : float
        Number of floating-point operations of all calls; little work is done without threads.
    """
    workers = n_workers(like, n_operations)
    if workers == 1:
        for item in items:
            work(item)
        return
    waiting = deque(items)

    def drain() -> None:
        while True:
            try:
                item = waiting.popleft()
            except IndexError:
                return
            try:
                work(item)
            except BaseException:
                waiting.clear()
                raise

    # One task per thread: a task for each item would cost more than a small item.
    with _linear_algebra().limit(limits=1), ThreadPoolExecutor(workers) as pool:
        try:
            for task in [pool.submit(drain) for _ in range(workers)]:
                task.result()  # raises the errors of the calls
        finally:
            waiting.clear()


def n_workers(like: Any, n_operations: float) -> int:
    """Return the number of threads of `for_each`: one for little work, or for libraries other than numpy."""
    if not isinstance(like, np.ndarray) or n_operations <= 2e8:
        return 1
    return max((library["num_threads"] for library in _linear_algebra().info()), default=1)


def seconds_of(work: float) -> float:
    """Return the time that so many multiplications take in products of matrices, in seconds."""
    return work / _speed()


@cache
def _speed() -> float:
    """Return the multiplications per second of a product of matrices, measured once."""
    matrix = np.ones((_TRIED, _TRIED))
    matrix @ matrix  # the first product starts the threads
    start = time.perf_counter()
    matrix @ matrix
    return float(_TRIED) ** 3 / max(time.perf_counter() - start, 1e-6)


@cache
def _linear_algebra() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
