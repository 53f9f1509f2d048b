"""HDF5 files, of which nothing is read that does not lie in the file itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyadlearn._files.packed import imported
from dyadlearn.exceptions import DataFileError

__all__ = ["open_hdf5"]

# As many soft links as HDF5 itself follows before it takes them for a circle.
_MOST_LINKS = 16


@contextmanager
def open_hdf5(path: Path) -> Iterator[Group]:
    """Open an HDF5 file for reading."""
    with imported("h5py", "Reading HDF5 files", "h5py").File(path, "r") as file:
        yield Group(file, path)


class Group:
    """A group of an HDF5 file, whose links are followed here, since those of h5py may lead to other files.

    Parameters
    ----------
    group : h5py.Group
    path : Path
        Of the file, for messages.
    """

    def __init__(self, group: Any, path: Path) -> None:
        self._group, self._path = group, path

    def keys(self) -> list[str]:
        """Return the names of what is in the group."""
        return list(self._group)

    def __contains__(self, name: str) -> bool:
        try:
            self[name]
        except KeyError:
            return False
        return True

    def __getitem__(self, name: str) -> Any:
        """Return a group, or a data set of h5py, which has its values in the file."""
        item = self._found(self._group, name, _MOST_LINKS)
        if hasattr(item, "keys"):
            return Group(item, self._path)
        if hasattr(item, "shape") and (item.external or item.is_virtual):
            raise self._foreign(name, "has its values in other files or data sets")
        return item

    def _found(self, group: Any, name: str, n_links: int) -> Any:
        from h5py import h5l

        if not n_links:
            raise DataFileError(f"{self._path}: {name!r} is a link that leads to itself: write the data in its place.")
        item = group.file["/"] if name.startswith("/") else group
        for part in name.split("/"):
            if part in ("", "."):
                continue
            within, encoded = item, part.encode("utf-8", "surrogateescape")
            if not hasattr(within, "keys") or not within.id.links.exists(encoded):
                raise KeyError(name)
            kind = within.id.links.get_info(encoded).type
            if kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT):
                raise self._foreign(name, "is a link to another file")
            if kind == h5l.TYPE_SOFT:
                target = within.id.links.get_val(encoded).decode("utf-8", "surrogateescape")
                item = self._found(within, target, n_links - 1)
            else:
                item = within[part]
        return item

    def _foreign(self, name: str, what: str) -> DataFileError:
        return DataFileError(f"{self._path}: {name!r} {what}, which is never followed: copy the values into this file.")
