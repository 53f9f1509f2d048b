"""How much memory is free to us: of the machine, of the control groups we run in, of the limits of the process.

Everything is read from the small files in which Linux says so; other systems tell less. Each function takes the folder
that stands for the root of the file system.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["cgroup_memory", "host_memory", "machine_memory", "process_memory"]

_ROOT = Path("/")
# No process fills much memory in so many seconds, and a loop over small problems must not read files all the time.
_FRESH = 0.1
_last: tuple[float, int | None] = (float("-inf"), None)

# Version 1 says so where there is no limit: as many bytes as fit in a signed number, in whole pages.
_NO_LIMIT = 2**62

# Of one version of control groups each: limit, use, and where the statistics name what is cached of files.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
    2: ("memory.max", "memory.current", ("inactive_file", "active_file")),
}


def host_memory() -> int | None:
    """Return the bytes that this process may still take, or None where nobody tells."""
    global _last
    now = time.monotonic()
    if now - _last[0] > _FRESH:
        found = [machine_memory(_ROOT), cgroup_memory(_ROOT), process_memory(_ROOT, _limits())]
        _last = now, min((count for count in found if count is not None), default=None)
    return _last[1]


def machine_memory(root: Path) -> int | None:
    """Return what the machine has free, caches that it can drop included."""
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def cgroup_memory(root: Path) -> int | None:
    """Return what is left under the limits of the control group of this process and of all groups around it.

    Parameters
    ----------
    root : Path
        Under which ``proc/self/cgroup`` and ``sys/fs/cgroup`` lie, of version 1, 2 or both.

    Returns
    -------
    int or None
        The least that any group allows; None where none has a limit.
    """
    found = [
        count for version, folder in _groups(root) if (count := _left_in_group(folder, *_FILES[version])) is not None
    ]
    return min(found, default=None)


def process_memory(root: Path, limits: tuple[int | None, int | None]) -> int | None:
    """Return what the limits of the process leave.

    Parameters
    ----------
    root : Path
        Under which ``proc/self/statm`` lies.
    limits : (int or None, int or None)
        Bytes of addresses and of data that the process may have (``ulimit -v`` and ``-d``).
    """
    if limits == (None, None):
        return None
    # In pages: size, resident, shared, text, library, data, dirty.
    pages = [_number(word) for word in _read(root / "proc/self/statm").split()]
    if len(pages) < 6:
        return None
    size = os.sysconf("SC_PAGE_SIZE")
    used = (pages[0], pages[5])
    left = [
        max(0, limit - count * size)
        for limit, count in zip(limits, used, strict=True)
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
    """Yield version and folder of every group that limits this process, from its own up to the outermost we see."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            version, top = 1, mount / "memory"
        elif number == "0" and not controllers:
            # Beside groups of version 1 those of version 2 have a folder of their own.
            version, top = 2, mount / "unified" if (mount / "unified").is_dir() else mount
        else:
            continue
        parts = PurePosixPath(path).parts[1:]
        # In a container the path may be told as the host sees it, while our own group is all there is to see: folders
        # that are not there have no limit to read, and the outermost is always looked at.
        parts = () if ".." in parts else parts
        for depth in range(len(parts), -1, -1):
            yield version, top.joinpath(*parts[:depth])


def _left_in_group(folder: Path, limit: str, usage: str, cached: tuple[str, ...]) -> int | None:
    allowed = _number(_read(folder / limit))
    if allowed is None or allowed >= _NO_LIMIT:  # "max" is no number
        return None
    used = _number(_read(folder / usage))
    if used is None:
        return None
    # What is cached of files counts as used but is dropped when memory is wanted.
    statistics = dict(line.split(maxsplit=1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    droppable = sum(_number(statistics.get(name, "")) or 0 for name in cached)
    return max(0, allowed - max(0, used - droppable))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None
