"""Files of data sets: their folders, downloads, and checks of their content."""

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
from dyadlearn._messages import Message
from dyadlearn._tables import Table, write_table
from dyadlearn.exceptions import DataFileError

#: The environment variable that names the folder of data sets.
VARIABLE = "DYADLEARN_DATA"

_OTHER_FOLDER = Message(
    "name the folder that holds them by <data_home=> or by the environment variable {variable}.",
    variable=VARIABLE,
)

# Seconds without an answer after which a download fails.
_TIMEOUT = 30.0


def resolve_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data sets: the argument, else ``DYADLEARN_DATA``, else a folder in the user's cache.

    Parameters
    ----------
    data_home : path or None
        Folder, which need not exist; ``~`` is the home folder.
    """
    if data_home is None:
        data_home = os.environ.get(VARIABLE)
    if data_home:
        return Path(data_home).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "dyadlearn")


@dataclass(frozen=True)
class DataFolder:
    """Files of one data set: in a folder of the data home, or in the data home itself.

    Attributes
    ----------
    title : str
        Name of the data set in messages.
    folder : str
        Name of the folder.
    home : Path
    """

    title: str
    folder: str
    home: Path

    def find(self, name: str) -> Path | None:
        """Return the path of a file, plain or gzipped; None if there is none."""
        for folder in (self.home / self.folder, self.home):
            for file_name in (name, f"{name}.gz"):
                path = folder / file_name
                if path.is_file():
                    return path
        return None

    def find_all(self, names: Sequence[str], source: str) -> list[Path]:
        """Return the paths of files; raise if some are missing, with their `source`."""
        paths = {name: self.find(name) for name in names}
        missing = [name for name, path in paths.items() if path is None]
        if missing:
            wanted = self._wanted(f"{', '.join(missing)} ({source})")
            raise FileNotFoundError(
                Message(
                    "The data set {title} is not in {home}: {wanted}",
                    title=self.title,
                    home=self.home,
                    wanted=wanted,
                )
            )
        return [path for path in paths.values() if path is not None]

    def _wanted(self, files: str) -> Message:
        """Return a hint where to put files."""
        place = self.home / self.folder
        return Message(
            "put {files}, plain or gzipped, in {place}, or {other_folder}",
            files=files,
            place=place,
            other_folder=_OTHER_FOLDER,
        )

    def obtain(
        self, names: Sequence[str], address: str, *, download: bool, checksums: Mapping[str, str]
    ) -> list[Path]:
        """Return the paths of files, after downloading missing ones with a known checksum.

        Parameters
        ----------
        names : sequence of str
        address : str
            Address of the publisher, with a slash at the end.
        download : bool
            Whether to download missing files.
        checksums : mapping of str to str
            SHA-256 of the files whose content is known.

        Raises
        ------
        FileNotFoundError
            If a file is missing, and `download` is false or a missing file has no checksum; nothing
            is downloaded then.
        """
        missing = [name for name in names if self.find(name) is None]
        source = f"from {address}"
        if not download:
            source += ", since download=False"
        elif any(name not in checksums for name in missing):
            source += "; a file without a known checksum is not downloaded"
        else:
            self._download(missing, address, checksums)
        return self.find_all(names, source)

    def _download(self, names: Sequence[str], address: str, checksums: Mapping[str, str]) -> None:
        """Download files into the folder; parameters as in `obtain`."""
        for name in names:
            path = self.home / self.folder / name
            try:
                download_file(address + name, path, sha256=checksums[name])
            except ConnectionError as error:
                wanted = self._wanted(f"{', '.join(names)} (from {address}, by other means)")
                raise ConnectionError(
                    Message("{error} Or {wanted}", error=error, wanted=wanted)
                ) from error


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text, plain or gzipped, without line ends."""
    return read_text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")


def download_file(url: str, path: Path, *, sha256: str, timeout: float = _TIMEOUT) -> None:
    """Download a file; `path` is written only if the download is complete.

    Parameters
    ----------
    url : str
    path : Path
        File to write; folders are created.
    sha256 : str
        Expected checksum of the file, in hexadecimal digits.
    timeout : float, default=30
        Seconds without an answer after which to give up.

    Raises
    ------
    ConnectionError
        If the server cannot be reached, returns an error, or closes the connection early.
    ValueError
        If the checksum differs; nothing is written then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    request = Request(url, headers={"User-Agent": "dyadlearn"})
    with replacing(path) as file:
        try:
            with urlopen(request, timeout=timeout) as response:
                while part := response.read(2**20):
                    digest.update(part)
                    file.write(part)
                announced = response.headers.get("Content-Length")
            if announced is not None and file.tell() != int(announced):
                raise ConnectionError(
                    f"the connection broke off after {file.tell()} of {announced} bytes"
                )
        except HTTPError as error:
            error.close()
            raise ConnectionError(
                f"Could not download {url} ({error.code} {error.reason})."
            ) from error
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            raise ConnectionError(
                f"Could not download {url} ({getattr(error, 'reason', error)})."
            ) from error
        if digest.hexdigest() != sha256:
            raise ValueError(
                f"{url} is not the expected file: its SHA-256 checksum is {digest.hexdigest()}, "
                f"expected {sha256}. Try again, or put a good file at {path}."
            )


# Kinds of arrays, as numpy calls them.
NUMBERS = "biuf"
WHOLE = "iu"
NAMES = "iuU"
_WORDS = {NUMBERS: "numbers", WHOLE: "whole numbers", NAMES: "names"}


def load_npz(path: Path, wanted: Mapping[str, tuple[int, str]]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive, after a check of their dimensions and kinds.

    Parameters
    ----------
    path : Path
    wanted : mapping of str to (int, str)
        Number of dimensions of each array, and the kind of its entries: `NUMBERS`, `WHOLE` or
        `NAMES`.
    """
    stored = read_arrays(path)
    missing = [key for key in wanted if key not in stored]
    if missing:
        raise DataFileError(
            f"{path} lacks the arrays {', '.join(missing)}: found {', '.join(stored) or 'none'}."
        )
    for key, (ndim, kinds) in wanted.items():
        array = stored[key]
        if array.ndim != ndim or array.dtype.kind not in kinds:
            container = "a list" if ndim == 1 else "a table"
            raise DataFileError(
                f"{path}: {key} must be {container} of {_WORDS[kinds]}, found {array.dtype} "
                f"{array.shape}."
            )
    return stored


def describe(name: str, **facts: Any) -> str:
    """Return the description of a data set, filled with the facts from its files."""
    path = files("dyadlearn.datasets").joinpath("data", f"{name}.rst")
    text = path.read_text("utf-8").format(**facts)
    title, _, rest = text.partition("\n")
    return f"{title}\n{'=' * len(title)}\n{rest}"


def as_given(table: Table, as_frame: bool, owner: str) -> Array:
    """Return the values of a table, or a pandas frame; `owner` is the name of the function in messages."""
    if not as_frame:
        return table.values
    try:
        return write_table(table.values, table.row_ids, table.column_ids, "pandas")
    except ImportError as error:
        raise ImportError(
            f"{owner}(as_frame=True) needs pandas: install it, or use as_frame=False."
        ) from error
