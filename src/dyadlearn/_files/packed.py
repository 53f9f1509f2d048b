"""Read packed texts and archives of arrays after checking their size.

Any error in the content of a file is a `DataFileError` that names the file.
"""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from dyadlearn._memory import available_memory, check_memory
from dyadlearn._text import one_line, quoted
from dyadlearn.exceptions import DataFileError, IdError

#: Maximum number of bytes that a packed file may unpack to; a quarter of the free memory if that is
#: less. A plain file may have any size.
UNPACKED_LIMIT = 2**32

_GZIP = b"\x1f\x8b"

# Content of more than this many times the size of its file counts as packed.
_RATIO = 16
# Bytes of decoders and their buffers.
_BUFFERS = 2**20


def check_file(path: str | os.PathLike[str], error: type[ValueError] = DataFileError) -> int:
    """Return the size of a regular file in bytes; raise `error` for a device, a pipe or a socket, which may be endless.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file, or it is a folder.
    """
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise error(
            f"{path} is a device, a pipe or a socket and may have no end: copy its content into a "
            f"file first."
        )
    return status.st_size


def imported(
    module: str, purpose: str, library: str, otherwise: str = "", *, extra: str = "embeddings"
) -> Any:
    """Import and return an optional module; the error names its purpose, the library and an alternative."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{purpose} needs {library}: pip install 'dyadlearn[{extra}]'{otherwise}."
        ) from None


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Add the name of the file to errors about its content, of any library.

    Parameters
    ----------
    path : path
    what : str
        What the file should have been, such as "npz archive".
    """
    try:
        yield
    except (DataFileError, IdError, MemoryError, ImportError):
        raise
    except BaseException as error:
        # Every library has its own errors. Libraries in Rust raise a panic, which is not an
        # `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = one_line(error) or type(error).__name__
        raise DataFileError(
            f"{path} is damaged or no {what} ({reason}): put a good copy in its place."
        ) from error


def read_text(path: str | os.PathLike[str], what: str = "text") -> str:
    """Return a UTF-8 text, plain or gzipped, with unchanged line ends."""
    size = check_file(path)
    check_memory(2 * size, np.empty(0), f"Reading {path}", "give a smaller file")
    with open(path, "rb") as file:
        content = file.read(size)
    with reading(path, what):
        if content.startswith(_GZIP):
            content = b"".join(_unpacked(path, content))
    with reading(path, f"{what} in UTF-8"):
        if b"\x00" in content:
            raise ValueError("it is not text")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise DataFileError(
                f"{path} is damaged or no {what} in UTF-8 (byte 0x{content[error.start]:02x} in line "
                f"{line}): save it as UTF-8, or put a good copy in its place."
            ) from error


def _unpacked(path: str | os.PathLike[str], content: bytes) -> Iterator[bytes]:
    """Yield the content of a gzipped file, up to the limit for packed files."""
    size = 0
    limit = _limit()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        while part := packed.read(2**20):
            size += len(part)
            check_unpacked(path, size, limit)
            yield part


def _limit() -> int:
    """Return the maximum number of bytes that a packed file may unpack to."""
    free = available_memory(np.empty(0))
    if free is None:
        return UNPACKED_LIMIT
    return min(UNPACKED_LIMIT, free // 4)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive by their names.

    Nothing is executed, and nothing is allocated for an array that the file cannot hold.
    """
    check_file(path)
    with reading(path, "npz archive"), open_archive(path) as members:
        check_decoded(path, sum(member.length for member in members.values()), f"Reading {path}")
        return {name: member[...] for name, member in members.items()}


@contextmanager
def open_archive(path: str | os.PathLike[str]) -> Iterator[dict[str, Member]]:
    """Open an npz archive; only the list of its arrays is read."""
    with ZipFile(path) as archive:
        members: dict[str, Member] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in members:
                raise ValueError(f"it has two arrays with the name {quoted(name)}")
            members[name] = Member(archive, info)
        yield members


class Member:
    """Array in an npz archive; its header and values are read on first use, and no other array is unpacked.

    Attributes
    ----------
    length : int
        Number of bytes of the header and the values.
    """

    def __init__(self, archive: ZipFile, info: ZipInfo) -> None:
        self._archive = archive
        self._info = info
        self.length = info.file_size

    @cached_property
    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        """Shape, whether the array is in Fortran order, and its dtype."""
        with self._archive.open(self._info) as content:
            return read_header(content, self.length)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._header[0]

    #: Shape of the part that is read at once: the whole array.
    chunks = shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its values."""
        return self._header[2]

    def __getitem__(self, rows: Any) -> np.ndarray:
        _ = self._header  # raises if the file is too short for the values
        with self._archive.open(self._info) as content:
            return np.asarray(npy.read_array(content, allow_pickle=False)[rows])


def check_unpacked(path: str | os.PathLike[str], size: int, limit: int | None = None) -> None:
    """Raise if a file unpacks to more bytes than a limit; None means the current limit for packed files."""
    if limit is None:
        limit = _limit()
    if size > limit:
        raise DataFileError(
            f"{path} unpacks to more than {limit / 2**30:.3g} GiB, the limit for packed files: if "
            f"you trust it, give the plain file."
        )


def check_decoded(path: str | os.PathLike[str], need: int, purpose: str) -> None:
    """Raise if the content to read does not fit in memory, or if a small file unpacks to too much."""
    check_memory(need + _BUFFERS, np.empty(0), purpose, "ask for fewer of its rows, by their ids")
    if need > _RATIO * check_file(path):
        check_unpacked(path, need)


def read_header(file: IO[bytes], length: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, whether it is in Fortran order, and its dtype; raise if `length` bytes are too few.

    The position in the file is then that of the first value.
    """
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in headers:
        raise ValueError(f"its arrays are of the unknown version {version}")
    shape, by_columns, dtype = headers[version](file)
    size = math.prod(int(extent) for extent in shape)
    announced = size * dtype.itemsize
    if announced > length or (size and not announced):
        raise ValueError(f"an array of {shape} announces {announced} bytes and has {length}")
    return shape, by_columns, dtype


def make_sparse(
    parts: Mapping[str, np.ndarray], shape: tuple[int, int], kind: str = "csr"
) -> sparse.csr_array:
    """Return a sparse matrix of raw arrays, as `compressed_matrix` does, after checking its shape.

    Parameters
    ----------
    parts : mapping of str to array of shape (n,)
        "data", "indices" and "indptr".
    shape : tuple of two int
    kind : {"csr", "csc"}, default="csr"
    """
    kinds = {"csr": sparse.csr_array, "csc": sparse.csc_array}
    if kind not in kinds:
        raise ValueError(f"sparse matrices are read as {' or '.join(kinds)}, found {kind}")
    if min(shape) < 0:
        raise ValueError(f"a matrix has no shape {shape}")
    if 8 * max(shape) > _limit():
        raise ValueError(
            f"a matrix of shape {shape} has more rows or columns than can be counted in this memory"
        )
    return sparse.csr_array(compressed_matrix(kinds[kind], parts, shape))


def compressed_matrix(kind: Any, parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Any:
    """Return a sparse matrix of a class of scipy after checking every index.

    Compiled code uses the indices without a check, and would read and write outside of the arrays.
    """
    for name, kinds in (("data", "biuf"), ("indices", "iu"), ("indptr", "iu")):
        if parts[name].ndim != 1 or parts[name].dtype.kind not in kinds:
            raise ValueError(
                "a sparse matrix has numbers and whole places in data, indices, indptr"
            )
    matrix = kind((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
    # scipy checks no pointer if the last is 0 or less, and its differences may overflow.
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("index pointer values must form a non-decreasing sequence")
    matrix.check_format(full_check=True)
    return matrix


def parse_number(text: str) -> float:
    """Return a text as a number; unlike in Python, 1_000 and digits of other scripts are not numbers."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)
