"""Learning from streams: batches that do not fit in memory together, checkpoints, and going on after a crash.

A checkpoint is a model file with one more entry in its header: how far the stream was learnt. The file is replaced in
one step, so at any moment there is the old checkpoint or the new one, whole, with a model and a position that belong to
each other.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from dyadlearn._array import is_foreign, is_sparse
from dyadlearn._checks import check_count
from dyadlearn._progress import Progress
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store import read_model, write_model

__all__ = ["fit_stream"]


def fit_stream(
    model: Any,
    batches: Iterable[tuple[Any, Any]],
    *,
    tasks: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 10,
    resume: bool = True,
    known: str | None = None,
    progress: bool | None = None,
) -> Any:
    """Learn from a stream of batches, and be able to go on after a crash.

    Whatever kills the process, the same call made again goes on after the last checkpoint, and the final model is the
    same, **bit for bit**, as if nothing had happened. (Linear algebra of another version or with another number of
    threads rounds differently, interrupted or not.)

    Parameters
    ----------
    model : OnlineTwoStepRidge, or whatever has `partial_fit`
        Not fitted, or fitted on what came before the stream. It learns in place.
    batches : iterable of (X, y)
        Chunks of instances (l, p) and their labels (l, q), NaN where not observed: a list, or a generator such as one
        that reads a file at a time. For resumption it must bring the same batches again; those that were learnt are
        read, compared by a digest of all their numbers and ids, and passed over.
    tasks : array, sparse matrix or frame of shape (q, p'), default=None
        The tasks, for an `OnlineTwoStepRidge`.
    checkpoint : path or None, default=None
        Model file to write the model to, for `dyadlearn.load` or for resumption; one process may write to it at a
        time. None: there are no checkpoints. A process that is killed while it writes one may leave a hidden file
        ``.….part`` beside it, which is removed after a day.
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
