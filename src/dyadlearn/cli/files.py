"""Where commands may write: never over another file unasked."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dyadlearn._files.atomic import check_place
from dyadlearn._files.tables import suffix_of
from dyadlearn._files.writing import TABLES

__all__ = ["Force", "check_table", "check_target"]

Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]


def check_target(path: Path, force: bool, endings: Sequence[str] = ()) -> None:
    """Refuse a place that cannot be written to, before any work is done for it.

    Parameters
    ----------
    path : Path
    force : bool
        Whether a file there may be replaced.
    endings : sequence of str
        What its name may end in; empty for anything.
    """
    if endings and suffix_of(path) not in endings:
        raise ValueError(f"{path} must end in one of {', '.join(endings)}, so that its format is known.")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder, name a file to write", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder, make it or write elsewhere", str(path.parent))
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(path.parent))
    if path.exists() and not force:
        raise FileExistsError(errno.EEXIST, "it exists already, choose another name or add --force", str(path))


def check_table(path: Path | None, force: bool) -> None:
    """Refuse a place for a table that cannot be written to; None stands for standard output."""
    if path is not None:
        check_target(path, force, TABLES)
