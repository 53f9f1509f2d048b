"""The files of data sets: where they are, how they are downloaded, and checks of what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np

from dyadlearn._array import Array
from dyadlearn._files.atomic import replacing
from dyadlearn._files.packed import read_arrays, read_text
from dyadlearn._tables import Table, write_table
from dyadlearn.exceptions import DataFileError

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
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given).expanduser() if given else Path(cache, "dyadlearn")


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
            wanted = self._wanted(f"{', '.join(missing)} ({source})")
            raise FileNotFoundError(f"The data set {self.title} is not in {self.home}: {wanted}")
        return [path for path in found if path is not None]

    def _wanted(self, files: str) -> str:
        """Return how to put files where they are found."""
        return f"put {files}, plain or gzipped, in {self.home / self.folder}, or {_OTHER_FOLDER}"

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
        missing = [name for name in names if self.find(name) is None]
        source = f"from {address}"
        if not download:
            source += ", since download=False"
        elif any(name not in checksums for name in missing):
            source += "; a file without a known checksum is not downloaded"
        else:
            for name in missing:
                try:
                    download_file(address + name, self.home / self.folder / name, sha256=checksums[name])
                except ConnectionError as error:
                    wanted = self._wanted(f"{', '.join(missing)} (from {address}, by other means)")
                    raise ConnectionError(f"{error} Or {wanted}") from error
        return self.find_all([(name,) for name in names], source)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text in UTF-8, plain or gzipped, without their ends."""
    return read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")


def download_file(url: str, path: Path, *, sha256: str, timeout: float = _TIMEOUT) -> None:
    """Download a file, so that `path` is whole or not there at all.

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
    digest = hashlib.sha256()
    with replacing(path) as file:
        try:
            with urlopen(Request(url, headers={"User-Agent": "dyadlearn"}), timeout=timeout) as response:
                while part := response.read(2**20):
                    digest.update(part)
                    file.write(part)
                announced = response.headers.get("Content-Length")
            if announced is not None and file.tell() != int(announced):
                raise ConnectionError(f"it broke off after {file.tell()} of {announced} bytes")
        except HTTPError as error:
            error.close()
            raise ConnectionError(f"Could not download {url} ({error.code} {error.reason}).") from error
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            raise ConnectionError(f"Could not download {url} ({getattr(error, 'reason', error)}).") from error
        if digest.hexdigest() != sha256:
            sums = f"its SHA-256 checksum is {digest.hexdigest()}, expected {sha256}"
            raise ValueError(f"{url} is not the file it was: {sums}. Try again, or put a good file at {path}.")


# Kinds of arrays, as numpy calls them.
NUMBERS, WHOLE, NAMES = "biuf", "iu", "iuU"
_WORDS = {NUMBERS: "numbers", WHOLE: "whole numbers", NAMES: "names"}


def load_npz(path: Path, wanted: Mapping[str, tuple[int, str]]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive, after a check of their dimensions and kinds.

    Parameters
    ----------
    path : Path
    wanted : mapping of str to (int, str)
        The number of dimensions of each array, and `NUMBERS`, `WHOLE` or `NAMES` for what it must hold.
    """
    stored = read_arrays(path)
    missing = [key for key in wanted if key not in stored]
    if missing:
        raise DataFileError(f"{path} lacks the arrays {', '.join(missing)}: found {', '.join(stored) or 'none'}.")
    for key, (ndim, kinds) in wanted.items():
        if stored[key].ndim != ndim or stored[key].dtype.kind not in kinds:
            expected = f"{'a list' if ndim == 1 else 'a table'} of {_WORDS[kinds]}"
            found = f"{stored[key].dtype} {stored[key].shape}"
            raise DataFileError(f"{path}: {key} must be {expected}, found {found}.")
    return stored


def describe(name: str, **facts: Any) -> str:
    """Return the description of a data set, with the facts that are found in its files."""
    text = files("dyadlearn.datasets").joinpath("data", f"{name}.rst").read_text("utf-8").format(**facts)
    title, _, rest = text.partition("\n")
    return f"{title}\n{'=' * len(title)}\n{rest}"


def as_given(table: Table, as_frame: bool, owner: str) -> Array:
    """Return the values of a table, or a pandas frame; `owner` is the function that messages name."""
    if not as_frame:
        return table.values
    try:
        return write_table(table.values, table.row_ids, table.column_ids, "pandas")
    except ImportError as error:
        raise ImportError(f"{owner}(as_frame=True) needs pandas: install it, or use as_frame=False.") from error
