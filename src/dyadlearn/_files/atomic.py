"""Atomic writing of files, safe against interruption and other writers."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dyadlearn.exceptions import FileChangedError

# Seconds to wait for a lock. Our own writers hold it only while they replace the file.
_PATIENCE = 10.0
# Seconds without a change after which an unfinished file counts as left by a dead process.
_ABANDONED = 86_400.0

#: Endings of text tables, and of all formats in which a table can be written.
TEXTS = (".csv", ".tsv", ".txt")
TABLES = (*TEXTS, ".parquet")


def ids_file(path: Path) -> Path:
    """Return the name of the file beside an array that has its ids, if there is one."""
    return path.with_name(f"{path.stem}.ids.txt")


def check_place(path: Path) -> None:
    """Raise if a path cannot be written as a file: a folder, a pipe, a device, or in a missing folder."""
    if path.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, "This is a folder, not the name of a file to write", str(path)
        )
    if path.exists() and not path.is_file():
        words = "This is a pipe or a device, which a file must not replace, name a file to write"
        raise FileExistsError(errno.EEXIST, words, str(path))
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "There is no such folder, make it or put the file elsewhere", str(folder)
        )


@contextmanager
def replacing(path: Path, unchanged: Callable[[], bool] | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` if no error occurs; otherwise it is removed.

    At any moment, `path` is the complete old file or the complete new one. An unfinished file of a
    killed process is removed when `path` is written again a day later.

    Parameters
    ----------
    path : Path
    unchanged : callable or None
        Returns whether the file at `path` is still the one that the new file was derived from. It
        is called while other writers wait, so that only one of several writers gets True.

    Raises
    ------
    FileChangedError
        If the file was changed meanwhile; it is not replaced.
    """
    check_place(path)
    # The target of a link is replaced, not the link.
    target = Path(os.path.realpath(path))
    # The prefix is short even if the name of the file is long.
    prefix = f".{hashlib.blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}-"
    for unfinished in target.parent.glob(f"{prefix}*.part"):
        with suppress(OSError):
            if time.time() - unfinished.stat().st_mtime > _ABANDONED:
                unfinished.unlink()
    temporary = target.parent / f"{prefix}{secrets.token_hex(8)}.part"
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            with _held(target):
                if unchanged is not None and not unchanged():
                    raise FileChangedError(
                        f"{path} was changed by another process after it was read: nothing was "
                        f"written, so run this again."
                    )
                if target.exists():
                    shutil.copymode(target, temporary)
                if sys.platform == "win32":
                    file.close()  # an open file cannot be renamed there
                os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    # The folder is synchronised, so that the new name survives a power cut; not every system allows
    # this.
    with suppress(OSError), ExitStack() as stack:
        folder = os.open(target.parent, os.O_RDONLY)
        stack.callback(os.close, folder)
        os.fsync(folder)


# Locks -------------------------------------------------------------------------------------------


def _lock(descriptor: int) -> bool:
    """Try to lock a file until it is closed; return False if another process has the lock or locks are unsupported."""
    import fcntl

    end = time.monotonic() + _PATIENCE
    with suppress(OSError):  # locks are unsupported
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                time.sleep(0.01)
    return False


@contextmanager
def _held(target: Path) -> Iterator[None]:
    """Make other writers to `target` wait, if the system supports locks."""
    with ExitStack() as stack:
        while sys.platform != "win32":
            try:
                # Network file systems lock only files that are open for writing.
                mode = os.O_RDWR if os.access(target, os.W_OK) else os.O_RDONLY
                descriptor = os.open(target, mode)
                stack.callback(os.close, descriptor)
                # If the file was replaced during the wait, the lock is on the old file: lock the
                # new one.
                if not _lock(descriptor) or os.path.samestat(os.fstat(descriptor), os.stat(target)):
                    break
            except OSError:  # there is no file, or it cannot be read
                break
            stack.close()
        yield
