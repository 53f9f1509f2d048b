"""Memory: free memory of the device of an array, and the estimated peak memory of each computation.

Free memory is the least of that of the machine, of the control groups of the process and of its
limits, or that of the GPU. Linux provides it in files; other systems provide less.

`check_memory` is called before the work at seven kinds of places: where files are read and sparse
data become dense, where kernels are computed, decomposed and solved with, where grids are stacked,
where folds are solved again, and where statistics of a stream are kept. An estimate names the arrays
that a step holds by their shapes. It is at most about twice the real peak, beside blocks of rows
(``tests/test_memory.py`` and ``python benchmarks/memory.py`` compare them).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dyadlearn._array import BLOCK, Array, Shape, array_bytes, device_memory, values_in
from dyadlearn._messages import Message
from dyadlearn.exceptions import NotEnoughMemoryError

_ROOT = Path("/")
# Seconds for which the free memory is cached, so that a loop over small problems does not read
# files all the time.
_FRESH = 0.1
_last: tuple[float, int | None] = (float("-inf"), None)

# Functions that empty caches; each returns whether there was something to forget.
_caches: list[Callable[[], bool]] = []

# Version 1 of control groups writes a number of at least this size if there is no limit.
_NO_LIMIT = 2**62

# Files of each version of control groups: limit, usage, and the entries of cached files in
# memory.stat.
_FILES = {
    1: (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
    2: ("memory.max", "memory.current", ("inactive_file", "active_file")),
}

# Advice for problems of kernels.
_LESS = "use fewer rows, or a linear kernel on fewer features than rows"


def check_memory(need: float, like: Array, purpose: str, remedy: str = _LESS) -> None:
    """Raise `NotEnoughMemoryError` if a computation needs more bytes than are free on the device of `like`.

    The message begins with the `purpose` and ends with the `remedy`.
    """
    if not fits_in_memory(need, like):
        free = available_memory(like)
        assert free is not None
        raise NotEnoughMemoryError(
            Message(
                "{purpose} needs about {need} of memory, but only {free} are free: {remedy}.",
                purpose=purpose,
                need=in_bytes(need),
                free=in_bytes(free),
                remedy=remedy,
            )
        )


def check_kernel_memory(
    n: int, p: int, like: Array, n_kernels: float = 1, n_blocks: int = 1
) -> None:
    """Raise `NotEnoughMemoryError` if there is no memory for a kernel between n and p entities.

    Parameters
    ----------
    n, p : int
    like : array or None
        An array on the device of the kernel.
    n_kernels : float, default=1
        Number of matrices of the size of the kernel, in double precision.
    n_blocks : int, default=1
        Number of blocks of rows, of at most `BLOCK` values, that are in memory beside it.
    """
    need = array_bytes(None, (1.1 * n_kernels, n, p), (n_blocks, min(n * p, BLOCK)))
    remedy = "use fewer of them, or Landmarks of the kernel"
    check_memory(need, like, f"A kernel of {n} × {p} entities", remedy)


def fits_in_memory(need: float, like: Array) -> bool:
    """Return whether so many bytes are free on the device of `like`; True if this is not known.

    Caches are emptied before the answer is no.
    """
    if _is_free(need, like):
        return True
    has_emptied = [empty() for empty in _caches]
    return any(has_emptied) and _is_free(need, like, is_fresh=True)


def empty_when_short(empty: Callable[[], bool]) -> None:
    """Register a function that empties a cache, for use where memory is short.

    The function returns whether there was something to forget.
    """
    _caches.append(empty)


def _is_free(need: float, like: Array, *, is_fresh: bool = False) -> bool:
    global _last
    if is_fresh:
        _last = float("-inf"), None
    free = available_memory(like)
    return free is None or need <= free


def in_bytes(count: float) -> str:
    """Return a number of bytes in words."""
    if count >= 2**28:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"


# Memory of computations, in numbers of values ------------------------------------------------------


class SideSize(NamedTuple):
    """Size of a side to decompose.

    Attributes
    ----------
    n_rows, n_columns : int
        Shape of the input; the columns are d features or n kernel values.
    form : {"gram", "kernel", "features", "wide", "sparse"}
        A given kernel, a kernel function of features, or a linear kernel of dense features, fewer
        than rows or not, or of sparse ones.
    """

    n_rows: int
    n_columns: int
    form: str

    @property
    def rank(self) -> int:
        """Number of eigenvectors: n in the dual, in the primal no more than d."""
        if self.form in ("features", "sparse"):
            return self.n_columns
        return self.n_rows

    @property
    def numbers(self) -> tuple[float, float]:
        """Numbers of values: during the decomposition, with the workspace of LAPACK, and stored after it."""
        n = self.n_rows
        d = self.n_columns
        shapes: dict[str, tuple[list[Shape], list[Shape]]] = {
            "gram": ([(6, n, n)], [(n, n)]),
            "kernel": ([(7, n, n), (n, d)], [(n, n), (n, d)]),
            "sparse": ([(7, d, d)], [(d, d)]),
            "wide": ([(9, n, n), (4, n, d)], [(3, n, n), (n, d)]),
            "features": ([(4, n, d), (7, d, d)], [(n, d), (d, d)]),
        }
        at_peak, stored = shapes[self.form]
        return values_in(*at_peak), values_in(*stored)


def solve_numbers(
    shape: tuple[int, int],
    ranks: Sequence[int],
    *,
    coupled: bool,
    complete: bool,
    weighted: bool = False,
) -> float:
    """Return the number of values in memory for solving for the coefficients, including the labels.

    Parameters
    ----------
    shape : (int, int)
        Of the grid of labels.
    ranks : one or two of int
        Numbers of eigenvectors of the sides.
    coupled : bool
        Whether the labels of all tasks are one system.
    complete : bool
        Whether all labels are observed and none has a weight, so that there is a closed form.
    weighted : bool
    """
    m, q = shape
    k = ranks[0]
    r = ranks[-1]
    rotated = k * r if coupled else k * q
    if complete:
        return values_in((2, m, q), (3, max(k * q, rotated)), (m, k), (coupled, q, r))
    # Conjugate gradients keep several grids; tasks on their own are solved one after the other.
    n_grids = (7 + 2 * coupled) * (1 + weighted)
    sides = []
    for n, rank in zip(shape, ranks, strict=False):
        order = min(n, 2 * rank)
        sides += [(1.5, n, rank), (1, order, order)]
    return values_in((n_grids, m, q), (6 * coupled, rotated), *sides)


def holdout_numbers(
    shape: tuple[int, int],
    ranks: Sequence[int],
    n_grids: tuple[float, float],
    *,
    largest_group: int = 1,
    n_stacked: int = 1,
) -> float:
    """Return the number of values in memory for the hold-out of complete labels by a formula.

    Parameters
    ----------
    shape : (int, int)
        Of the grid of labels.
    ranks : one or two of int
        Numbers of eigenvectors of the sides.
    n_grids : (float, float)
        Number of grids in memory at once, and of grids rotated by one side.
    largest_group : int, default=1
        Largest number of rows that are left out together.
    n_stacked : int, default=1
        Number of grids that are held out together.
    """
    m, q = shape
    # Squared eigenvectors come in blocks; groups are predicted one by one and put in order at the
    # end.
    squares = max(min(n * rank, BLOCK) for n, rank in zip(shape, ranks, strict=False))
    held: list[Shape] = [(8, n_stacked - 1, m, q)]
    g = largest_group
    if g > 1:
        held += [(2.5, m, q), (g, max(ranks)), (2, g, g)]
    rotated = max(ranks[0] * q, ranks[-1] * m)
    at_peak = values_in((n_grids[0], m, q), (n_grids[1], rotated))
    return values_in(max(at_peak, values_in((2, m, q), (1.2, squares))), *held)


# Free memory ---------------------------------------------------------------------------------------


def available_memory(like: Array) -> int | None:
    """Return the free bytes on the device of `like`, or None if this is not known."""
    free = device_memory(like)
    return host_memory() if free is None else free


def host_memory() -> int | None:
    """Return the bytes that this process may still allocate, or None if this is not known."""
    global _last
    now = time.monotonic()
    if now - _last[0] > _FRESH:
        counts = [machine_memory(_ROOT), cgroup_memory(_ROOT), process_memory(_ROOT, _limits())]
        _last = now, min((count for count in counts if count is not None), default=None)
    return _last[1]


def machine_memory(root: Path) -> int | None:
    """Return the free bytes of the machine, including caches that it can drop."""
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def cgroup_memory(root: Path) -> int | None:
    """Return the bytes left under the limits of the control group of this process and of its parent groups.

    Parameters
    ----------
    root : Path
        Folder of ``proc/self/cgroup`` and ``sys/fs/cgroup``, of version 1, 2 or both.

    Returns
    -------
    int or None
        The smallest number of any group; None if no group has a limit.
    """
    counts = (_left_in_group(folder, *_FILES[version]) for version, folder in _groups(root))
    return min((count for count in counts if count is not None), default=None)


def process_memory(root: Path, limits: tuple[int | None, int | None]) -> int | None:
    """Return the bytes left under the limits of the process.

    Parameters
    ----------
    root : Path
        Folder of ``proc/self/statm``.
    limits : (int or None, int or None)
        Bytes of addresses and of data that the process may have (``ulimit -v`` and ``-d``).
    """
    # In pages: size, resident, shared, text, library, data, dirty.
    pages = [_number(word) for word in _read(root / "proc/self/statm").split()]
    if len(pages) < 6:
        return None
    size = os.sysconf("SC_PAGE_SIZE")
    left = [
        max(0, limit - count * size)
        for limit, count in zip(limits, (pages[0], pages[5]), strict=True)
        if limit is not None and count is not None
    ]
    return min(left, default=None)


def _limits() -> tuple[int | None, int | None]:
    try:
        import resource
    except ImportError:  # not on Windows
        return None, None
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return tuple(None if limit == resource.RLIM_INFINITY else limit for limit in soft)  # type: ignore[return-value]


def _groups(root: Path) -> Iterator[tuple[int, Path]]:
    """Yield version and folder of each control group of this process, from the innermost to the outermost visible."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            version = 1
            top = mount / "memory"
        elif number == "0" and not controllers:
            # Next to groups of version 1, those of version 2 have a separate folder.
            version = 2
            top = mount / "unified" if (mount / "unified").is_dir() else mount
        else:
            continue
        parts = PurePosixPath(path).parts[1:]
        # In a container, the path may be that of the host, although only the outermost group is
        # visible. Folders that do not exist have no limit to read.
        if ".." in parts:
            parts = ()
        for depth in range(len(parts), -1, -1):
            yield version, top.joinpath(*parts[:depth])


def _left_in_group(folder: Path, limit: str, usage: str, cached: tuple[str, ...]) -> int | None:
    allowed = _number(_read(folder / limit))
    if allowed is None or allowed >= _NO_LIMIT:  # "max" is no number
        return None
    used = _number(_read(folder / usage))
    if used is None:
        return None
    # Cached files count as used, but are dropped if memory is needed.
    statistics = dict(
        line.split(maxsplit=1) for line in _read(folder / "memory.stat").splitlines() if " " in line
    )
    droppable = sum(_number(statistics.get(name, "")) or 0 for name in cached)
    return max(0, allowed - max(0, used - droppable))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    return None
