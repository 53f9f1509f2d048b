"""Where the files of data sets lie, and how they get there."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dyadlearn._files.atomic import is_at, lock
from dyadlearn._files.packed import read_text

__all__ = ["DataFolder", "download_file", "read_lines", "resolve_home"]

#: The environment variable that names the folder of data sets.
VARIABLE = "DYADLEARN_DATA"

_OTHER_FOLDER = f"name the folder that holds them by data_home= or by the environment variable {VARIABLE}."

# Seconds of silence after which a server counts as dead.
_TIMEOUT = 30.0


def resolve_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets: the argument, else ``DYADLEARN_DATA``, else a place in the user's cache.

    Parameters
    ----------
    data_home : path or None
        Need not exist; ``~`` is the user's own folder.
    """
    given = data_home if data_home is not None else os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else _user_cache() / "dyadlearn"


def _user_cache() -> Path:
    """Return where this system wants files that can be fetched again."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"


@dataclass(frozen=True)
class DataFolder:
    """Where the files of one data set lie: in a folder of the data home, or in that itself.

    Attributes
    ----------
    title : str
        How messages call the data set.
    folder : str
        The name of the folder.
    home : Path
    """

    title: str
    folder: str
    home: Path

    def find(self, *names: str) -> Path | None:
        """Return the first file that has one of these names, plain or gzipped; None where there is none."""
        folders = (self.home / self.folder, self.home)
        places = (folder / (name + ending) for name in names for folder in folders for ending in ("", ".gz"))
        return next((path for path in places if path.is_file()), None)

    def find_all(self, files: Sequence[tuple[str, ...]], source: str) -> list[Path]:
        """Return where `files` lie, each by one of its names; an error names the missing ones, with their `source`."""
        found = [self.find(*names) for names in files]
        missing = [names[0] for names, path in zip(files, found, strict=True) if path is None]
        if missing:
            raise FileNotFoundError(
                f"The data set {self.title} is not in {self.home}: put {', '.join(missing)} ({source}), plain or "
                f"gzipped, in {self.home / self.folder}, or {_OTHER_FOLDER}"
            )
        return [path for path in found if path is not None]

    def obtain(self, names: Sequence[str], address: str, *, download: bool, checksums: Mapping[str, str]) -> list[Path]:
        """Return where files lie, after downloading those that are not there and have a checksum.

        Parameters
        ----------
        names : sequence of str
        address : str
            The publisher's, with a slash at the end.
        download : bool
            Whether to download at all.
        checksums : mapping of str to str
            SHA-256 of the files whose content is known.

        Raises
        ------
        FileNotFoundError
            If a file is not there and may not be downloaded, or has no checksum; then none is.
        """
        files = [(name,) for name in names]
        missing = [name for name in names if self.find(name) is None]
        source = f"from {address}"
        if missing and not download:
            self.find_all(files, f"{source}, since download=False")
        if any(name not in checksums for name in missing):
            self.find_all(files, f"{source}; a file without a known checksum is not downloaded")
        for name in missing:
            try:
                download_file(address + name, self.home / self.folder / name, sha256=checksums[name])
            except ConnectionError as error:
                raise ConnectionError(
                    f"{error} Get {', '.join(missing)} from {address} by other means and put them, plain or gzipped, "
                    f"in {self.home / self.folder}; or {_OTHER_FOLDER}"
                ) from error
        return self.find_all(files, source)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text in UTF-8, plain or gzipped, without their ends."""
    return read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")


def download_file(url: str, path: Path, *, sha256: str, timeout: float = _TIMEOUT) -> None:
    """Download a file, so that `path` is whole or not there at all.

    What has arrived is kept beside it as ``.part`` when the transfer breaks off. The next call goes on from there
    if the server can, and the checksum tells whether the pieces belong together; one at the same time does not.

    Parameters
    ----------
    url : str
    path : Path
        Where the file goes; folders are made.
    sha256 : str
        What the checksum of the file must be, in hexadecimal digits.
    timeout : float, default=30
        Seconds without an answer after which to give up.

    Raises
    ------
    ConnectionError
        The server cannot be reached, refuses, or broke off.
    ValueError
        The checksum is another one; nothing is kept then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _unfinished(path) as part:
        try:
            resumed = _transfer(url, part, timeout)
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            raise ConnectionError(f"Could not download {url} ({_reason(error)}).") from error
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 == found:
            part.replace(path)
            return
        part.unlink()
    if not resumed:
        raise ValueError(
            f"{url} is not the file it was: its SHA-256 checksum is {found}, expected {sha256}. Try again later, or "
            f"put a file you trust at {path}."
        )
    # The pieces may be of different versions of the file: once more, in one piece.
    download_file(url, path, sha256=sha256, timeout=timeout)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Give the file that a download grows in: the one that the last has left, unless another is at work on it now.

    Then it is a file of its own, which nobody goes on from.
    """
    part = path.with_name(path.name + ".part")
    with ExitStack() as stack:
        while sys.platform != "win32":
            file = stack.enter_context(part.open("ab"))
            if not lock(file.fileno(), 0.0):
                part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
                stack.callback(part.unlink, missing_ok=True)
                break
            if is_at(file.fileno(), part):
                stack.callback(_remove_if_empty, part, file.fileno())
                break
            # Whoever had it was done with it just now.
        yield part


def _remove_if_empty(part: Path, descriptor: int) -> None:
    """Leave no file behind of which nothing has arrived, if it is still the open one."""
    if is_at(descriptor, part) and part.stat().st_size == 0:
        part.unlink()


def _reason(error: Exception) -> str:
    return f"{error.code} {error.reason}" if isinstance(error, HTTPError) else str(getattr(error, "reason", error))


def _transfer(url: str, part: Path, timeout: float) -> bool:
    """Bring `part` to its full length, and tell whether its beginning was there before."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "dyadlearn"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        with urlopen(Request(url, headers=headers), timeout=timeout) as response:
            # A server that knows no ranges answers 200 and sends everything.
            resumed = start > 0 and response.status == 206
            _save(response, part, start if resumed else 0)
            return resumed
    except HTTPError as error:
        error.close()
        # 416: the file has nothing after what is here, so this was all of it, or is of another file.
        if error.code != 416 or not start:
            raise
        part.write_bytes(b"")
        return _transfer(url, part, timeout)


def _save(response: HTTPResponse, part: Path, start: int) -> None:
    """Write what the server sends to `part`, from byte `start` on, and check that all of it came."""
    with part.open("ab" if start else "wb") as file:
        shutil.copyfileobj(response, file)
    announced = response.headers.get("Content-Length")
    arrived = part.stat().st_size - start
    if announced is not None and arrived != int(announced):
        raise ConnectionError(f"it broke off after {arrived} of {announced} bytes")
