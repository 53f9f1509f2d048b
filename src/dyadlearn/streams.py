"""Learning from streams: batches that do not fit in memory together, checkpoints, and going on after a crash.

A checkpoint is a model file with one more entry in its header: how far the stream was learnt. The file is replaced in
one step, so at any moment there is the old checkpoint or the new one, whole, with a model and a position that belong to
each other.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from dyadlearn._array import Array, is_foreign, is_sparse, refuse_mask, row_blocks
from dyadlearn._checks import check_count
from dyadlearn._files.atomic import replacing
from dyadlearn._files.packed import check_file, make_sparse, read_arrays, reading
from dyadlearn._files.tables import open_parquet
from dyadlearn._progress import Progress
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import DataFileError, ModelFileError
from dyadlearn.store import read_model, write_model

__all__ = ["fit_stream", "read_npz_batches", "read_parquet_batches", "write_npz_batch"]

PathLike = str | os.PathLike[str]


def fit_stream(
    model: Any,
    batches: Iterable[tuple[Any, Any]],
    *,
    tasks: Any = None,
    checkpoint: PathLike | None = None,
    every: int = 10,
    resume: bool = True,
    known: str | None = None,
    progress: bool | None = None,
) -> Any:
    """Learn from a stream of batches, and be able to go on after a crash.

    Whatever kills the process, the same call made again goes on after the last checkpoint, and the final model is the
    same, **bit for bit**, as if nothing had happened: a checkpoint holds everything that later steps depend on, the
    inverse that Woodbury's identity changes included. (Linear algebra of another version
    or with another number of threads rounds differently, interrupted or not.)

    Parameters
    ----------
    model : OnlineTwoStepRidge, or whatever has `partial_fit`
        Not fitted, or fitted on what came before the stream. It learns in place.
    batches : iterable of (X, y)
        Chunks of instances (l, p) and their labels (l, q), NaN where not observed: a list, a generator, one of the
        readers here. For resumption it must bring the same batches again;
        those that were learnt are read, compared by a digest of all their numbers and ids, and passed over.
    tasks : array, sparse matrix or frame of shape (q, p'), default=None
        The tasks, for an `OnlineTwoStepRidge`.
    checkpoint : path or None, default=None
        Model file to write the model to, for `dyadlearn.load` or for resumption; one process may write to it at a
        time. None: there are no checkpoints. A process that is killed while it writes one may leave a hidden file
        ``.….part`` beside it, which the next one removes.
        Batches must then be in numpy arrays, sparse matrices or frames, and feature maps `Landmarks` or
        an array: let any other transform the batches beforehand.
    every : int, default=10
        Number of batches between two checkpoints. There is one after the first batch too, so that what cannot be
        stored is told early, and one at the end.
    resume : bool, default=True
        Whether to go on from the file `checkpoint`, if there is one; else it is overwritten.
    known : {"error", "replace"} or None, default=None
        What an `OnlineTwoStepRidge` makes of instances whose ids it knows, as in its `partial_fit`; None leaves it at
        the error. Replacing them lets labels of one instance come in several batches.
    progress : bool or None, default=None
        Whether to show the progress on standard error; None does if that is a terminal.

    Returns
    -------
    model

    Raises
    ------
    ValueError
        If the stream or the parameters of the model are not those of the checkpoint. The model is as it was then.

    See Also
    --------
    dyadlearn.distributed.fit : from dask arrays, on a cluster.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dyadlearn import OnlineTwoStepRidge
    >>> from dyadlearn.streams import fit_stream
    >>> rng = np.random.default_rng(0)
    >>> batches = [(rng.normal(size=(20, 3)), rng.normal(size=(20, 4))) for _ in range(5)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Path(folder) / "model.dyad"
    ...     half = fit_stream(OnlineTwoStepRidge(), batches[:3], checkpoint=checkpoint)
    ...     model = fit_stream(OnlineTwoStepRidge(), batches, checkpoint=checkpoint)  # goes on with the fourth batch
    >>> model.n_seen_
    100
    >>> np.array_equal(model.coef_, fit_stream(OnlineTwoStepRidge(), batches).coef_)
    True
    """
    check_count(every, "every")
    path = None if checkpoint is None else Path(checkpoint)
    stream, position = iter(batches), _Position()
    if path is not None and resume and path.exists():
        stored, position = _read_checkpoint(path, model)
        _skip(stream, position, path)
        vars(model).clear()
        vars(model).update(vars(stored))
    begin, clock = position, time.perf_counter()
    with Progress(len(batches) if isinstance(batches, Sized) else None, "Learning", progress) as bar:
        bar.advance(position.n_batches)
        for X, y in stream:
            if path is not None and is_foreign(X):
                raise TypeError(
                    "A checkpoint holds numpy arrays, and the batches are not: convert them, or learn without one."
                )
            # The tasks are learnt with the first batch of all, and after a crash compared with those in the file.
            more = {"tasks": tasks} if position is begin and tasks is not None else {}
            model.partial_fit(X, y, **more, **({} if known is None else {"known": known}))
            position = position.after(X, y, with_digest=path is not None)
            if path is not None and (position.n_batches == 1 or position.n_batches % every == 0):
                write_model(model, path, stream=asdict(position))
            speed = (position.n_rows - begin.n_rows) / max(time.perf_counter() - clock, 1e-9)
            bar.advance(1, f"{position.n_batches:,} batches, {position.n_rows:,} rows, {speed:,.0f} rows/s")
    if path is not None and position is not begin and position.n_batches % every:
        write_model(model, path, stream=asdict(position))
    return model


# Checkpoints -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Position:
    """How far a stream was learnt, with a digest of everything that was in it so far."""

    n_batches: int = 0
    n_rows: int = 0
    digest: str = ""

    def after(self, X: Any, y: Any, *, with_digest: bool = True) -> _Position:
        """Return the position after another batch (l, p) with labels (l, q)."""
        tables = read_table(X, "X"), read_table(y, "y")
        rows = tables[0].values
        n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
        digest = _digest(self.digest, tables) if with_digest else ""
        return _Position(self.n_batches + 1, self.n_rows + int(n_rows), digest)


def _digest(before: str, tables: Iterable[Table]) -> str:
    """Return a digest of all that came before and of the ids, shapes and numbers of another batch."""
    digest = hashlib.blake2b(before.encode(), digest_size=16)
    for table in tables:
        ids = [[] if ids is None else list(map(str, ids.labels)) for ids in (table.row_ids, table.column_ids)]
        if is_sparse(table.values):
            matrix = sparse.csr_array(table.values, copy=True)
            matrix.sum_duplicates()
            parts = [matrix.indptr.astype("<i8"), matrix.indices.astype("<i8"), matrix.data.astype("<f8")]
        else:
            parts = [np.ascontiguousarray(table.values, dtype="<f8")]
        digest.update(repr((ids, [part.shape for part in parts])).encode(errors="backslashreplace"))
        for part in parts:
            digest.update(part.data)
    return digest.hexdigest()


def _read_checkpoint(path: Path, model: Any) -> tuple[Any, _Position]:
    """Return the model and the position in a file, after checking that `model` has the same parameters."""
    known, header = read_model(path)
    if "stream" not in header:
        raise ModelFileError(
            f"{path} is a model but no checkpoint of a stream: give another name, or overwrite it with resume=False."
        )
    if type(known) is not type(model):
        raise ValueError(
            f"The checkpoint {path} holds a {type(known).__name__}, and the model is a {type(model).__name__}."
        )
    theirs = known.get_params()
    # Those of the model before those of its feature maps.
    for name, value in sorted(model.get_params().items(), key=lambda item: item[0].count("__")):
        other = theirs.get(name)
        if isinstance(value, BaseEstimator):
            same = type(value) is type(other)
        else:
            same = np.array_equal(value, other)  # a feature map may be an array
        if not same:
            raise ValueError(
                f"The checkpoint {path} was made with {name}={other!r}, and the model has {name}={value!r}: go on with "
                "the parameters it was begun with, or begin anew with resume=False."
            )
    match header["stream"]:
        case {"n_batches": int(n_batches), "n_rows": int(n_rows), "digest": str(digest)} if n_batches > 0:
            return known, _Position(n_batches, n_rows, digest)
    raise ModelFileError(
        f"{path} does not say how far its stream was learnt, so that it cannot be gone on with: begin anew with "
        "resume=False."
    )


def _skip(stream: Iterator[tuple[Any, Any]], wanted: _Position, path: Path) -> None:
    """Pass over the batches that were learnt, and raise if they are others."""
    found = _Position()
    for _, (X, y) in zip(range(wanted.n_batches), stream, strict=False):
        found = found.after(X, y)
    anew = "Give the stream that it was begun with, or begin anew with resume=False."
    if found.n_batches < wanted.n_batches:
        raise ValueError(
            f"The stream ended after {found.n_batches} batches, but the checkpoint {path} has learnt "
            f"{wanted.n_batches}. {anew}"
        )
    if found != wanted:
        raise ValueError(
            f"The stream has changed: its first {wanted.n_batches} batches are not those that the checkpoint {path} "
            f"has learnt. {anew}"
        )


# Readers -----------------------------------------------------------------------------------------


def read_npz_batches(paths: PathLike | Iterable[PathLike], batch_size: int | None = None) -> Iterator[tuple[Any, Any]]:
    """Read batches from archives of numpy, one file in memory at a time.

    An archive holds the instances as ``X`` and the labels as ``Y``; a sparse matrix is in CSR form as ``X_data``,
    ``X_indices``, ``X_indptr`` and ``X_shape``, likewise for Y. `write_npz_batch` writes such files.

    Parameters
    ----------
    paths : path or iterable of paths
        In the order of the stream.
    batch_size : int or None, default=None
        Rows in a batch; the last of a file may have fewer. None: every file is a batch.

    Yields
    ------
    X : array or sparse array of shape (l, p)
    Y : array or sparse array of shape (l, q)

    Raises
    ------
    DataFileError
        When it comes to a file that is damaged or no such archive; the error names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dyadlearn.streams import read_npz_batches, write_npz_batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(2):
    ...         write_npz_batch(Path(folder) / f"{number}.npz", np.ones((3, 2)), np.ones((3, 4)))
    ...     [(X.shape, Y.shape) for X, Y in read_npz_batches(sorted(Path(folder).glob("*.npz")), batch_size=2)]
    [((2, 2), (2, 4)), ((1, 2), (1, 4)), ((2, 2), (2, 4)), ((1, 2), (1, 4))]
    """
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    for path in _listed(paths):
        archive = read_arrays(path, "npz archive")
        X, Y = _unpacked(archive, "X", path), _unpacked(archive, "Y", path)
        if X.shape[0] != Y.shape[0]:
            raise DataFileError(f"{path}: X has {X.shape[0]} rows, but Y has {Y.shape[0]}.")
        for rows in row_blocks(X.shape[0], 1, limit=batch_size or max(X.shape[0], 1)):
            yield X[rows], Y[rows]


def _unpacked(archive: dict[str, np.ndarray], name: str, path: Path) -> Array:
    if name in archive:
        found = archive[name]
        if found.ndim not in (1, 2) or found.dtype.kind not in "biuf":
            raise DataFileError(f"{path}: {name} must be a matrix of numbers, found {found.dtype} {found.shape}.")
        return found
    parts = [f"{name}_{part}" for part in ("data", "indices", "indptr", "shape")]
    if not all(part in archive for part in parts):
        held = ", ".join(archive) or "nothing"
        raise DataFileError(f"{path} holds no {name}, nor {', '.join(parts)}: it has {held}.")
    with reading(path, f"archive of a sparse {name}"):
        m, p = (int(length) for length in archive[parts[3]])
        return make_sparse({part.removeprefix(f"{name}_"): archive[part] for part in parts}, (m, p))


def write_npz_batch(path: PathLike, X: Any, Y: Any) -> None:
    """Write a batch to an archive for `read_npz_batches`, whole or not at all.

    Parameters
    ----------
    path : path
    X : array or sparse matrix of shape (l, p)
    Y : array or sparse matrix of shape (l, q) or (l,)

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scipy import sparse
    >>> from dyadlearn.streams import read_npz_batches, write_npz_batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz_batch(Path(folder) / "batch.npz", sparse.eye_array(3), [1.0, 0.0, 1.0])
    ...     [(X.toarray()[0], Y) for X, Y in read_npz_batches(Path(folder) / "batch.npz")]
    [(array([1., 0., 0.]), array([1., 0., 1.]))]
    """
    arrays: dict[str, Any] = {}
    for name, values in (("X", X), ("Y", Y)):
        if not is_sparse(values):
            arrays[name] = np.asarray(refuse_mask(values, name))
            continue
        matrix = sparse.csr_array(values)
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        arrays[f"{name}_shape"] = np.array(matrix.shape)
    with replacing(Path(path)) as file:  # numpy would add an ending to a name
        np.savez(file, **arrays)


def read_parquet_batches(
    paths: PathLike | Iterable[PathLike],
    labels: str | Sequence[str],
    features: Sequence[str] | None = None,
    *,
    batch_size: int = 10_000,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read batches from Parquet files, in memory for one batch; needs pyarrow.

    Parameters
    ----------
    paths : path or iterable of paths
        In the order of the stream.
    labels : str or sequence of str
        The columns that hold the labels: one for each task, or the name of a single one.
    features : sequence of str or None, default=None
        The columns that hold the features of the instances; None is all others, in the order of the first file.
    batch_size : int, default=10_000
        Rows in a batch; the last of a file may have fewer.

    Yields
    ------
    X : array of shape (l, p)
    Y : array of shape (l, q), or (l,) for a single name

    Raises
    ------
    DataFileError
        If a file lacks a column, or when it comes to one that is damaged; the error names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import polars as pl
    >>> from dyadlearn.streams import read_parquet_batches
    >>> visits = pl.DataFrame({"age": [31.0, 40, 27], "pages": [3, 8, 5], "bought": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     visits.write_parquet(Path(folder) / "visits.parquet")
    ...     batches = read_parquet_batches(Path(folder) / "visits.parquet", labels=["bought"], batch_size=2)
    ...     [(X.shape, Y.shape) for X, Y in batches]
    [((2, 2), (2, 1)), ((1, 2), (1, 1))]
    """
    files = _listed(paths)
    check_count(batch_size, "batch_size")
    wanted = [labels] if isinstance(labels, str) else list(labels)
    for path in files:
        with open_parquet(path) as file:
            names = file.names
        if features is None:
            features = [name for name in names if name not in wanted]
        if not wanted or not features:
            raise ValueError(f"{'features' if wanted else 'labels'} is empty: name at least one column.")
        missing = [name for name in (*wanted, *features) if name not in names]
        if missing:
            shown = ", ".join(map(repr, missing[:5]))
            raise DataFileError(f"{path} has no column {shown}: give the names of columns that all files have.")
    for path in files:
        with open_parquet(path) as file:
            for columns in file.batches([*(features or ()), *wanted], batch_size):
                # A column with holes has no dtype of numbers, or NaN in them.
                for name, values in columns.items():
                    if values.dtype.kind not in "biuf":
                        raise DataFileError(f"{path}: column {name!r} holds no numbers, or misses some: leave it out.")
                X, Y = (np.column_stack([columns[name] for name in some]) for some in (features or (), wanted))
                yield X, Y[:, 0] if isinstance(labels, str) else Y


def _listed(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    if not files:
        raise ValueError("There are no files to read: paths is empty.")
    for path in files:
        if not path.exists():
            raise FileNotFoundError(f"There is no file {path}.")
        check_file(path)
    return files
