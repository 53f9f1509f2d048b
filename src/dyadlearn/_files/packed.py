"""Files of data on a disk: packed texts and archives of arrays, whose size is checked before they are read.

Whatever is wrong with what a file holds is a `DataFileError` that names the file.
"""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from dyadlearn._memory import available_memory, check_memory
from dyadlearn.exceptions import DataFileError

#: The most bytes that a packed file may unpack to, and that a line of one may have, where a quarter of the free memory
#: is not less. A file that is not packed may have any size.
UNPACKED_LIMIT = 2**32

_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"

# What is read of a file may take so many times its size without being looked at as something packed.
_RATIO = 16
# Bytes that decoders and their buffers take beside what is read.
_BUFFERS = 2**20


def check_file(path: str | os.PathLike[str], error: type[ValueError] = DataFileError) -> int:
    """Return the size of a regular file in bytes; raise `error` for a device, a pipe or a socket, which may be endless.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        As the system does.
    """
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{path} is a device, a pipe or a socket and may have no end: copy its content into a file first.")
    return found.st_size


def imported(module: str, purpose: str, library: str, otherwise: str = "", *, extra: str = "embeddings") -> Any:
    """Return an optional module; the error without it tells the purpose, the library and what to do otherwise."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f"{purpose} needs {library}: pip install dyadlearn[{extra}]{otherwise}.") from None


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Let errors about the content of a file, of whatever library, say which file it is.

    Parameters
    ----------
    path : path
    what : str
        What the file should have been, such as "npz archive".
    """
    try:
        yield
    except (DataFileError, MemoryError, ImportError):
        raise
    except BaseException as error:
        # Every library has its own errors, and those in Rust panic with what is no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split()).removesuffix(".") or type(error).__name__
        raise DataFileError(f"{path} is damaged or no {what} ({reason}): put a good copy in its place.") from error


def is_gzipped(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is packed by gzip, whatever its name."""
    check_file(path)
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def _read_bytes(path: str | os.PathLike[str], what: str, copies: int = 1) -> bytes:
    """Return what a file holds, unpacked where it is gzipped, if there is memory for so many copies of the file."""
    size = check_file(path)
    check_memory(copies * size, np.empty(0), f"Reading {path}", "give a smaller file")
    with open(path, "rb") as file:
        content = file.read(size)
    if not content.startswith(_GZIP):
        return content
    parts, size, limit = [], 0, _limit()
    with reading(path, what), gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        while part := packed.read(2**20):
            size += len(part)
            check_unpacked(path, size, limit)
            parts.append(part)
    return b"".join(parts)


def read_text(path: str | os.PathLike[str], what: str = "text") -> str:
    """Return a text in UTF-8, plain or gzipped, with the ends of its lines as they are."""
    content = _read_bytes(path, what, copies=2)
    with reading(path, f"{what} in UTF-8"):
        text = content.decode("utf-8-sig")
        if "\x00" in text:
            raise ValueError("it is not text")
    return text


def stream(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, plain or gzipped, without ever holding all of them."""
    is_packed, limit = is_gzipped(path), _limit()
    with open(path, "rb") as file, reading(path, "text"):
        binary = gzip.GzipFile(fileobj=file) if is_packed else file
        with io.TextIOWrapper(binary, encoding="utf-8-sig") as text:
            while line := text.readline(limit):
                if len(line) == limit:
                    raise DataFileError(
                        f"{path} has a line of more than {limit / 2**30:.3g} GiB, which is too long for the free "
                        "memory: break it into lines."
                    )
                yield line


def _limit() -> int:
    free = available_memory(np.empty(0))
    return UNPACKED_LIMIT if free is None else min(UNPACKED_LIMIT, free // 4)


def read_arrays(path: str | os.PathLike[str], what: str = "array of numpy") -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive by their names, or the one of an npy file as "values"; either may be gzipped.

    Nothing is executed, and nothing is allocated for an array that the file cannot hold.
    """
    with ExitStack() as stack:
        file: IO[bytes]
        if is_gzipped(path):
            content = _read_bytes(path, what)
            file, length = io.BytesIO(content), len(content)
        else:
            file, length = stack.enter_context(open(path, "rb")), check_file(path)
        check_memory(length, np.empty(0), f"Reading {path}", "give a smaller file")
        stack.enter_context(reading(path, what))
        is_archive = file.read(4) == _ZIP
        file.seek(0)
        if not is_archive:
            return {"values": _array(file, length)}
        archive = stack.enter_context(ZipFile(file))
        members = archive.infolist()
        stored = sum(member.file_size for member in members if member.compress_type == ZIP_STORED)
        if stored > length:
            raise ValueError(f"it announces {stored} bytes and has {length}")
        check_unpacked(path, sum(member.file_size for member in members) - stored)
        return {member.filename.removesuffix(".npy"): read_member(archive, member) for member in members}


def check_unpacked(path: str | os.PathLike[str], size: int, limit: int | None = None) -> None:
    """Refuse what unpacks to more bytes than a limit; None is that for packed files as memory is now."""
    limit = _limit() if limit is None else limit
    if size > limit:
        raise DataFileError(
            f"{path} unpacks to more than {limit / 2**30:.3g} GiB, the limit for packed files: if you trust it, write "
            "it without compression and give the plain file."
        )


def check_decoded(path: str | os.PathLike[str], need: int, purpose: str) -> None:
    """Check that what is to be read of a file fits in memory, and that a small file does not unpack to much."""
    check_memory(need + _BUFFERS, np.empty(0), purpose, "ask for fewer of its rows, by their ids")
    if need > _RATIO * check_file(path):
        check_unpacked(path, need)


def read_member(archive: ZipFile, member: ZipInfo) -> np.ndarray:
    """Return one array of an archive; no other is unpacked."""
    with archive.open(member) as content:
        return _array(content, member.file_size)


def _array(file: IO[bytes], length: int) -> np.ndarray:
    read_header(file, length)
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


def read_header(file: IO[bytes], length: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and dtype of an array, after checking that so many bytes can hold it.

    The file is left where the values begin.
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


def make_sparse(parts: Mapping[str, np.ndarray], shape: tuple[int, int], kind: str = "csr") -> sparse.csr_array:
    """Return a sparse matrix made of raw arrays, after looking at every index.

    Compiled code follows the indices without looking, out of the array and out of the process.

    Parameters
    ----------
    parts : mapping of str to array of shape (n,)
        "data", "indices" and "indptr" of csr and csc, "data", "row" and "col" of coo.
    shape : tuple of two int
    kind : str, default="csr"
    """
    needed = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
    if kind not in needed:
        raise ValueError(f"sparse matrices are read in the forms {', '.join(needed)}, found {kind}")
    data, *places = (parts[name] for name in needed[kind])
    if data.ndim != 1 or data.dtype.kind not in "biuf" or any(p.ndim != 1 or p.dtype.kind not in "iu" for p in places):
        raise ValueError(f"a sparse matrix has numbers and whole places in {', '.join(needed[kind])}")
    if min(shape) < 0:
        raise ValueError(f"a matrix has no shape {shape}")
    if 8 * max(shape) > _limit():
        raise ValueError(f"a matrix of shape {shape} has more rows or columns than can be counted in this memory")
    if kind == "coo":
        return sparse.csr_array(sparse.coo_array((data, tuple(places)), shape=shape))
    matrix = {"csr": sparse.csr_array, "csc": sparse.csc_array}[kind]((data, *places), shape=shape)
    check_places(matrix)
    return sparse.csr_array(matrix)


def check_places(matrix: Any) -> None:
    """Refuse a csr or csc matrix whose indices leave its arrays."""
    # scipy looks at no pointer where the last is 0 or less, and its differences may overflow.
    if (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise ValueError("index pointer values must form a non-decreasing sequence")
    matrix.check_format(full_check=True)


def parse_number(text: str) -> float:
    """Return the number that a text is; unlike Python's own, 1_000 and digits of other scripts are none."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def parse_row(cells: Sequence[Any]) -> np.ndarray | None:
    """Return the numbers that the cells of a line are, text or not; None where one of them is none."""
    text = "".join(cell for cell in cells if isinstance(cell, str))
    if "_" in text or not text.isascii():
        return None
    try:
        return np.array(cells, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
