"""Files of numpy: an array that is mapped into memory, and archives of which single arrays are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from dyadlearn._files.embeddings.opened import FeatureFile, blocks_of, check_numbers, gather, ids_beside, kept_dtype
from dyadlearn._files.packed import check_unpacked, read_header, read_member, reading
from dyadlearn.exceptions import DataFileError

__all__ = ["open_archive", "open_npy"]


def open_npy(path: Path, row_ids: Any) -> FeatureFile:
    """Open an array (n, d); its ids are in a file beside it, if anywhere."""
    with reading(path, "array of numpy"), open(path, "rb") as file:
        mapped = _mapped(path, file, path.stat().st_size)
    if mapped.ndim != 2 or not mapped.size:
        raise DataFileError(f"{path} has an array of shape {mapped.shape}: expected a row of features for each id.")
    n, d = mapped.shape
    starts = blocks_of(n, None, d * mapped.itemsize)
    ids = ids_beside(path, row_ids, n)
    size = np.dtype(kept_dtype(mapped.dtype)).itemsize

    def rows(places: np.ndarray) -> np.ndarray:
        return gather(lambda first, end: mapped[first:end], places, starts, path, d, itemsize=size)

    return FeatureFile(path, n, ids, None, rows)


def _mapped(path: Path, file: IO[bytes], length: int) -> np.ndarray:
    """Return the array that begins where a file stands, mapped into memory: what is not looked at is not read."""
    shape, by_columns, dtype = read_header(file, length)
    check_numbers(dtype, str(path))
    if 0 in shape or not shape:
        return np.empty(shape, dtype=dtype)
    mapped: np.ndarray = np.memmap(path, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    return mapped


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an npz archive; of its arrays no more than the list is read."""
    with ZipFile(path) as archive:
        yield Archive(path, archive)


class Archive(Mapping[str, "Member"]):
    """The arrays of an archive by their names; whoever asks for one has it, and lets it go."""

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self._path, self._archive = path, archive
        self._infos = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}

    def __getitem__(self, name: str) -> Member:
        return Member(self._path, self._archive, self._infos[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


class Member:
    """An array in an archive, of which its header is read at first and its values when they are asked for."""

    #: It is not read in parts, unless it can be mapped.
    chunks = None

    def __init__(self, path: Path, archive: ZipFile, info: ZipInfo) -> None:
        self._path, self._archive, self._info = path, archive, info

    @cached_property
    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        with self._archive.open(self._info) as content:
            return read_header(content, self._info.file_size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self._header[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""
        return self._header[2]

    @cached_property
    def _values(self) -> np.ndarray:
        if self._info.compress_type != ZIP_STORED or self.dtype.kind not in "biuf":
            check_unpacked(self._path, self._info.file_size)
            return read_member(self._archive, self._info)
        with open(self._path, "rb") as file:
            # The name and the extra field before the content need not be as long as in the list at the end.
            file.seek(self._info.header_offset + 26)
            skipped = struct.unpack("<HH", file.read(4))
            file.seek(sum(skipped), 1)
            return _mapped(self._path, file, self._info.file_size)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self._values[rows])
