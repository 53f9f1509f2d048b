"""What the benchmarks share: timing in turns, and a line that says where and when."""

from __future__ import annotations

import datetime
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import scipy
import sklearn

import dyadlearn

THREADS = 2


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(*works: Callable[[], object], repeats: int = 5) -> list[float]:
    """Return the median time of each of `works`, run in turns so that the state of the machine touches all alike."""
    for work in works:
        work()
    rounds = [[seconds(work) for work in works] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the peak of memory that `work` takes, the workspace of LAPACK not counted."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def row(name: str, value: float, target: str) -> str:
    """Return one line of a table: what was measured, the figure, what was asked for."""
    return f"  {name:<58} {value:9.2f}   {target}"


def versions() -> str:
    """Return the date, the machine and the versions that figures were measured with."""
    return (
        f"  {datetime.date.today()}, {platform.machine()}, {THREADS} threads, Python "
        f"{platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, "
        f"dyadlearn "
        f"{dyadlearn.__version__}"
    )
