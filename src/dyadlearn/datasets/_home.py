"""Where the files of data sets lie, and how they get there.

What the files of data sets hold: tables, ids, texts and arrays; and bunches made of them.
"""

from __future__ import annotations

import hashlib
import io
import json
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
from sklearn.utils import Bunch

from dyadlearn._array import Array
from dyadlearn._files.atomic import replacing
from dyadlearn._files.packed import read_arrays, read_text, reading
from dyadlearn._files.tables import check_whole, read_cells
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
                    raise ConnectionError(
                        f"{error} Get {', '.join(missing)} from {address} by other means and put them, plain or "
                        f"gzipped, in {self.home / self.folder}; or {_OTHER_FOLDER}"
                    ) from error
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
            raise ValueError(
                f"{url} is not the file it was: its SHA-256 checksum is {digest.hexdigest()}, expected {sha256}. Try "
                f"again later, or put a file you trust at {path}."
            )


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
            raise DataFileError(
                f"{path}: {key} must be {'a list' if ndim == 1 else 'a table'} of {_WORDS[kinds]}, found "
                f"{stored[key].dtype} {stored[key].shape}."
            )
    return stored


def check_shape(table: np.ndarray, shape: tuple[int, ...], name: str, ids: str) -> np.ndarray:
    """Return a table if it has the shape that the `ids`, which messages name, ask for."""
    if table.shape != shape:
        raise DataFileError(f"{name} has shape {table.shape}, expected {shape} by {ids}.")
    return table


def read_numbers(path: Path, *, holes: bool = False) -> np.ndarray:
    """Read a table (rows, columns) of numbers without ids, separated by spaces or tabs.

    With `holes`, ``nan`` is a number too.
    """
    text = read_text(path, "table")
    if not text.strip():
        raise DataFileError(f"{path} holds no table: expected numbers, separated by spaces or tabs.")
    with reading(path, "table of numbers"):
        values = np.loadtxt(io.StringIO(text), comments=None, ndmin=2)
        odd = np.argwhere(np.isinf(values) | (np.isnan(values) & (not holes)))
        if odd.size:
            row, column = odd[0]
            raise ValueError(f"{values[row, column]} at row {row}, column {column + 1}")
    return values


@dataclass(frozen=True)
class DrugTarget:
    """Labels (drugs, targets) and the similarities of both sides.

    Attributes
    ----------
    labels : Table
        With the ids of drugs and targets.
    drugs, targets : ndarray of shape (m, m), (q, q)
    """

    labels: Table
    drugs: np.ndarray
    targets: np.ndarray

    @classmethod
    def with_ids(cls, labels: Path, drugs: Path, targets: Path, *, by_target: bool = False) -> DrugTarget:
        """Read three tables that have ids in their first row and column; with `by_target`, labels are (q, m)."""
        table = read_grid(labels)
        table = table.transposed if by_target else table
        return cls(table, read_similarities(drugs, table.row_ids), read_similarities(targets, table.column_ids))

    @classmethod
    def without_ids(
        cls, labels: Path, drug_ids: Path, target_ids: Path, drugs: Path | None, targets: Path, *, holes: bool = False
    ) -> DrugTarget:
        """Read tables of bare numbers, with the ids in two other files; without `drugs`, a similarity (m, 0)."""
        rows, columns = read_ids(drug_ids), read_ids(target_ids)
        m, q = len(rows), len(columns)
        owner = f"the ids in {drug_ids.name} and {target_ids.name}"

        def read(path: Path, *shape: int, holes: bool = False) -> np.ndarray:
            return check_shape(read_numbers(path, holes=holes), shape, str(path), owner)

        grid = Table(read(labels, m, q, holes=holes), rows, columns)
        return cls(grid, np.empty((m, 0)) if drugs is None else read(drugs, m, m), read(targets, q, q))

    def check(self, is_wrong: np.ndarray, owner: str, expected: str) -> None:
        """Refuse labels of which some are wrong (m, q), naming the first; messages call them `owner`."""
        for row, column in np.argwhere(is_wrong):
            drugs, targets = both_ids(self.labels)
            raise DataFileError(
                f"{owner} has {self.labels.values[row, column]:g} for {targets.labels[column]} and "
                f"{drugs.labels[row]}: expected {expected}."
            )

    def bunch(self, name: str, instances: str, as_frame: bool, *, facts: Mapping[str, Any], **rest: Any) -> Bunch:
        """Return the data set with either side as rows.

        Parameters
        ----------
        name : str
            Of the data set, as in ``fetch_davis``.
        instances : str
            "drugs", or anything else for targets.
        as_frame : bool
        facts : mapping
            What its description says beside the numbers of drugs and targets.
        **rest
            Further entries of the result.
        """
        description = describe(name, drugs=self.drugs.shape[0], targets=self.targets.shape[0], **facts)
        labels, K, G = self.labels, self.drugs, self.targets
        if instances != "drugs":
            labels, K, G = labels.transposed, G, K
        rows, columns = both_ids(labels)
        tables = {
            "Y": Table(np.ascontiguousarray(labels.values), rows, columns),
            "K": Table(K, rows, rows),
            "G": Table(G, columns, columns),
        }
        return Bunch(
            **{key: as_given(table, as_frame, f"fetch_{name}") for key, table in tables.items()},
            instance_names=np.array(rows.labels),
            task_names=np.array(columns.labels),
            DESCR=description,
            **rest,
        )


def read_grid(path: Path) -> Table:
    """Read a table of numbers with ids in its first row and column, all of them there."""
    table = read_cells(path).table()
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
    lines = _read_object(path) or [line.strip() for line in read_lines(path) if line.strip()]
    return make_ids(list(lines), None, str(path))


def read_texts(path: Path | None) -> dict[str, str]:
    """Read ids and their texts, such as sequences: a JSON object, or lines of tabs whose last cell is the text.

    Empty without a file. A first line ``drug`` and ``smiles`` is a header.
    """
    texts = {} if path is None else _read_object(path)
    if path is None or texts:
        return texts
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataFileError(f"{path}, line {number}: expected an id, a tab and a text, found {line[:50]!r}.")
        if (number, *cells) != (1, "drug", "smiles"):
            texts[cells[0]] = cells[-1]
    return texts


def _read_object(path: Path) -> dict[str, str]:
    """Return a JSON object of texts; empty where the file holds none."""
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return {}
    with reading(path, "JSON"):
        return {str(name): str(value) for name, value in json.loads(text).items()}


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
