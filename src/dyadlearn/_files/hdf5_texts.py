"""Texts of variable length in HDF5 files, read by a child process with a limit on time and memory.

HDF5 trusts the lengths in the heap of such texts. A few changed bytes let it loop for ever, without
hearing Ctrl-C, or allocate gigabytes. The parent process waits for the child in Python, so that
Ctrl-C ends both at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

# Seconds of processor time that reading may take, and the number of texts for each second more.
# HDF5 reads about a million texts in a second.
_SECONDS = 10
_TEXTS_A_SECOND = 10_000
# The parent waits so many times as long: a system without limits for processes has no other limit,
# and a busy one starts the child late.
_PATIENCE = 6
# Bytes that reading may take: buffers, and those of one text in Python and in HDF5. The heap is
# never packed, so that all texts together are no longer than the file.
_BUFFERS = 2**26
_BYTES_A_TEXT = 256
_COPIES = 8
# Number of texts that are read at once.
_STEP = 10_000


def bytes_to_read(path: Path, n: int) -> int:
    """Return the most bytes that reading n texts of a file may take."""
    return _BUFFERS + _BYTES_A_TEXT * n + _COPIES * path.stat().st_size


def read_texts(
    path: Path, places: Sequence[str], attribute: str | None = None, count: int = 1
) -> list[bytes]:
    """Return texts of variable length in an HDF5 file, as UTF-8.

    Parameters
    ----------
    path : Path
    places : sequence of str
        Data sets of one dimension with the texts, or objects with an attribute; no link leads to
        them.
    attribute : str or None
        Name of an attribute of each object, which holds one text.
    count : int, default=1
        Number of texts in a place.

    Raises
    ------
    ValueError
        If they cannot be read, or reading takes more time or memory than such texts need.
    """
    n = count * len(places)
    seconds = _SECONDS + n // _TEXTS_A_SECOND
    request: dict[str, Any] = {
        "path": str(path.resolve()),
        "places": list(places),
        "attribute": attribute,
        "seconds": seconds,
        "bytes": bytes_to_read(path, n),
    }
    if not sys.executable or getattr(sys, "frozen", False):
        # A program that holds its own Python cannot start another one.
        return _texts_in(request)
    answer = _ask_child(request)
    header, _, content = answer.partition(b"\n")
    about = json.loads(header)
    if "error" in about:
        raise ValueError(f"its texts cannot be read: {about['error']}")
    ends = [0]
    for length in about["lengths"]:
        ends.append(ends[-1] + length)
    return [content[first:end] for first, end in pairwise(ends)]


def _ask_child(request: dict[str, Any]) -> bytes:
    """Return the answer of a child process, which is ended if it takes too long, and by Ctrl-C."""
    # The child imports what this process imports, and nothing from the current folder (-P) that
    # this one does not.
    paths = [entry or os.getcwd() for entry in sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-m", __spec__.name]
    seconds = request["seconds"]
    try:
        child = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=_PATIENCE * seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"its texts were not read after {_PATIENCE * seconds} s") from None
    if child.returncode or b"\n" not in child.stdout:
        is_late = child.returncode == -getattr(signal, "SIGXCPU", 0) != 0
        if is_late:
            reason = f"were not read after {seconds} s"
        else:
            reason = f"let HDF5 break down, code {child.returncode}"
        raise ValueError(f"its texts {reason}")
    return child.stdout


def _answer() -> None:
    """Read a request, and write the lengths of its texts and the texts, or an error."""
    request = json.load(sys.stdin.buffer)
    import h5py  # noqa: F401  before the limit, which is for the texts alone

    _limit(request["seconds"], request["bytes"])
    try:
        texts = _texts_in(request)
        header: dict[str, Any] = {"lengths": [len(text) for text in texts]}
    except Exception as error:  # of any library
        texts = []
        header = {"error": str(error) or type(error).__name__}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.writelines(texts)


def _limit(seconds: int, size: int) -> None:
    """Limit the processor time and the memory of this process from now on, where the system can do so."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _lower(resource.RLIMIT_CORE, 0)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = int(usage.ru_utime + usage.ru_stime)
    _lower(resource.RLIMIT_CPU, used + seconds)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # on Linux only
        return
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + size)


def _lower(kind: int, value: int) -> None:
    """Lower a limit of this process; limits are never raised."""
    import resource

    soft, hard = resource.getrlimit(kind)
    limits = [limit for limit in (soft, hard, value) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(kind, (min(limits), hard))


def _texts_in(request: dict[str, Any]) -> list[bytes]:
    """Return the texts of a request; raise if they are longer than the file."""
    import h5py

    left = os.path.getsize(request["path"])
    texts: list[bytes] = []
    with h5py.File(request["path"], "r") as file:
        for place in request["places"]:
            for part in _parts(file[place], request["attribute"]):
                texts += part
                left -= sum(map(len, part))
                if left < 0:
                    raise ValueError("they are longer than the file")
    return texts


def _parts(item: Any, attribute: str | None) -> Iterator[list[bytes]]:
    """Yield lists of the texts of an object."""
    if attribute is not None:
        value = item.attrs[attribute]
        if not isinstance(value, str | bytes):
            raise ValueError(f"the attribute {attribute!r} of {item.name!r} is no text")
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        yield [value]
        return
    for first in range(0, item.shape[0], _STEP):
        yield item[first : first + _STEP].tolist()


if __name__ == "__main__":
    _answer()
