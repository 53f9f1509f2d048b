"""Where the files of data sets lie, and how they get there.

What the files of data sets hold: tables, ids, texts and arrays; and bunches made of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._array import Array
from dyadlearn._files.atomic import is_at, lock
from dyadlearn._files.packed import parse_row, read_arrays, read_text, reading
from dyadlearn._files.tables import check_whole, load_table
from dyadlearn._tables import Ids, Table, make_ids, write_table
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


# Kinds of arrays, as numpy calls them.
NUMBERS, WHOLE, NAMES = "biuf", "iu", "iuU"
_WORDS = {NUMBERS: "numbers", WHOLE: "whole numbers", NAMES: "names"}


def load_npz(path: Path, wanted: Mapping[str, tuple[int, str]]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive, plain or gzipped, after `check_arrays`."""
    stored = read_arrays(path, "npz archive")
    check_arrays(stored, wanted, path)
    return stored


def check_arrays(stored: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, str]], path: Path) -> None:
    """Check that an archive holds the arrays `wanted`, each with its number of dimensions and kind of cells.

    Kinds are `NUMBERS`, `WHOLE` or `NAMES`.
    """
    missing = [key for key in wanted if key not in stored]
    if missing:
        raise DataFileError(f"{path} lacks the arrays {', '.join(missing)}: found {', '.join(stored) or 'none'}.")
    for key, (ndim, kinds) in wanted.items():
        if stored[key].ndim != ndim or stored[key].dtype.kind not in kinds:
            raise DataFileError(
                f"{path}: {key} must be {'a list' if ndim == 1 else 'a table'} of {_WORDS[kinds]}, found "
                f"{stored[key].dtype} {stored[key].shape}."
            )


def check_shape(table: np.ndarray, shape: tuple[int, ...], name: str, ids: str) -> np.ndarray:
    """Return a table if it has the shape that the `ids`, which messages name, ask for."""
    if table.shape != shape:
        raise DataFileError(f"{name} has shape {table.shape}, expected {shape} by {ids}.")
    return table


def read_numbers(path: Path, *, holes: bool = False) -> np.ndarray:
    """Read a table (rows, columns) of numbers without ids, separated by spaces or tabs.

    With `holes`, ``nan`` is a number too.
    """

    def are_good(values: np.ndarray | None) -> bool:
        return values is not None and bool((np.isfinite(values) | (holes & np.isnan(values))).all())

    rows: list[np.ndarray] = []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split()
        if not cells:
            continue
        if rows and len(cells) != len(rows[0]):
            raise DataFileError(
                f"{path}, line {number}: expected {len(rows[0])} numbers, as in the first line, found {len(cells)}."
            )
        values = parse_row(cells)
        if values is None or not are_good(values):
            wrong = next(cell for cell in cells if not are_good(parse_row([cell])))
            raise DataFileError(f"{path}, line {number}: {wrong!r} is not a number.")
        rows.append(values)
    if not rows:
        raise DataFileError(f"{path} holds no table: expected numbers, separated by spaces or tabs.")
    return np.array(rows)


def read_grid(path: Path) -> Table:
    """Read a table of numbers with ids in its first row and column, all of them there."""
    table = load_table(path)
    check_whole(table, path, "every cell has one")
    return table


def both_ids(table: Table) -> tuple[Ids, Ids]:
    """Return the ids of the rows and of the columns of a table that has both."""
    assert table.row_ids is not None
    assert table.column_ids is not None
    return table.row_ids, table.column_ids


def read_similarities(path: Path, ids: Ids | None) -> np.ndarray:
    """Read a square table of the same kind, with rows and columns in the order of `ids`."""
    table = read_grid(path).rows_as(ids, f"the rows of {path.name}", "the adjacency matrix")
    return np.asarray(table.columns_as(ids, f"the columns of {path.name}", "the adjacency matrix").values)


def read_ids(path: Path) -> Ids:
    """Read the ids of one side: the names of a JSON object, else one in each line."""
    lines = read_lines(path)
    labels = list(_read_object(path, lines)) if _is_object(lines) else [line.strip() for line in lines if line.strip()]
    return make_ids(labels, None, str(path))


def read_texts(path: Path | None) -> dict[str, str]:
    """Read ids and their texts, such as sequences: a JSON object, or lines of tabs whose last cell is the text.

    Empty without a file. A first line ``drug`` and ``smiles`` is a header.
    """
    if path is None:
        return {}
    lines = read_lines(path)
    if _is_object(lines):
        return _read_object(path, lines)
    texts = {}
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataFileError(f"{path}, line {number}: expected an id, a tab and a text, found {line[:50]!r}.")
        if (number, *cells) != (1, "drug", "smiles"):
            texts[cells[0]] = cells[-1]
    return texts


def _is_object(lines: list[str]) -> bool:
    return lines[0].lstrip().startswith("{")


def _read_object(path: Path, lines: list[str]) -> dict[str, str]:
    with reading(path, "JSON"):
        return {str(name): str(text) for name, text in json.loads("\n".join(lines)).items()}


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


def drug_target_bunch(
    labels: Table,
    drug_scores: np.ndarray,
    target_scores: np.ndarray,
    *,
    instances: str,
    as_frame: bool,
    owner: str,
    **rest: Any,
) -> Bunch:
    """Put labels (drugs, targets) and the similarities of both sides together, either side as rows.

    `owner` is the function that messages name, `rest` goes into the result.
    """
    K, G = drug_scores, target_scores
    if instances != "drugs":
        labels, K, G = labels.transposed, target_scores, drug_scores
    rows, columns = both_ids(labels)
    tables = {
        "Y": Table(np.ascontiguousarray(labels.values), rows, columns),
        "K": Table(K, rows, rows),
        "G": Table(G, columns, columns),
    }
    return Bunch(
        **{name: as_given(table, as_frame, owner) for name, table in tables.items()},
        instance_names=np.array(rows.labels),
        task_names=np.array(columns.labels),
        **rest,
    )
