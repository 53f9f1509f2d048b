"""Learning from streams of batches that do not fit into memory together, with checkpoints.

A checkpoint is a model file whose header also contains the position in the stream. The file is
replaced atomically: at any moment it is the complete old or the complete new checkpoint, and its
model matches its position.
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
from dyadlearn._checks import check_whole
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
    """Fit a model on a stream of batches, with checkpoints to resume from after a crash.

    If the process is killed, the same call resumes after the last checkpoint. The final model is
    the same, **bit for bit**, as without the interruption. (Another version of the linear algebra
    library, or another number of threads, changes the rounding in any case.)

    Parameters
    ----------
    model : OnlineTwoStepRidge, or any estimator with `partial_fit`
        Model, unfitted or fitted on earlier data. It is modified in place.
    batches : iterable of (X, y)
        Instances (l, p) and their labels (l, q) of each batch, NaN for missing labels: a list, or a
        generator, for example one that reads a file at a time. To resume, it must yield the same
        batches again; batches before the checkpoint are read, compared by a digest of their numbers
        and ids, and skipped.
    tasks : array, sparse matrix or frame of shape (q, p'), default=None
        Features of the tasks, for an `OnlineTwoStepRidge`.
    checkpoint : path or None, default=None
        Model file to write, for `dyadlearn.load` or to resume; None writes no checkpoints. Only one
        process may write to it at a time. A process that is killed while writing may leave a hidden
        file ``.….part`` in the same folder, which is removed after a day. With checkpoints, batches
        must be numpy arrays, sparse matrices or frames, and feature maps must be `Landmarks` or an
        array: apply other feature maps to the batches beforehand.
    every : int, default=10
        Number of batches between two checkpoints. There is also one after the first batch, so that
        a model which cannot be stored raises early, and one at the end.
    resume : bool, default=True
        Whether to resume from the file `checkpoint` if it exists; False overwrites it.
    known : {"error", "replace"} or None, default=None
        Treatment of instances whose ids an `OnlineTwoStepRidge` already has, as in its
        `partial_fit`; None is "error". With "replace", labels of one instance may be in several
        batches.
    progress : bool or None, default=None
        Whether to show the progress on standard error; None shows it if standard error is a
        terminal.

    Returns
    -------
    model
        The fitted `model`.

    Raises
    ------
    ValueError
        If the stream or the parameters of the model differ from those of the checkpoint. The model
        is not changed.

    See Also
    --------
    dyadlearn.distributed.fit : fit a model on dask arrays, on a cluster.

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
    ...     model = fit_stream(OnlineTwoStepRidge(), batches, checkpoint=checkpoint)  # resumes with the fourth batch
    >>> model.n_seen_
    100
    >>> np.array_equal(model.coef_, fit_stream(OnlineTwoStepRidge(), batches).coef_)
    True
    """
    check_whole(every, "every")
    path = None if checkpoint is None else Path(checkpoint)
    stream = iter(batches)
    position = _Position()
    if path is not None and resume and path.exists():
        stored, position = _read_checkpoint(path, model)
        _skip(stream, position, path)
        vars(model).clear()
        vars(model).update(vars(stored))
    begin = position
    clock = time.perf_counter()
    n_batches = len(batches) if isinstance(batches, Sized) else None
    with Progress(n_batches, "Learning", progress) as bar:
        bar.advance(position.n_batches)
        for X, y in stream:
            if path is not None and is_foreign(X):
                raise TypeError(
                    f"A checkpoint needs batches of numpy arrays, sparse matrices or frames, found "
                    f"{type(X).__name__}: convert them, or leave checkpoint out."
                )
            options = {}
            # The first batch of a stream sets the tasks; after resuming, they are compared with
            # those of the file.
            if tasks is not None and position is begin:
                options["tasks"] = tasks
            if known is not None:
                options["known"] = known
            model.partial_fit(X, y, **options)
            position = position.after(X, y, with_digest=path is not None)
            if path is not None and (position.n_batches == 1 or position.n_batches % every == 0):
                write_model(model, path, stream=asdict(position))
            speed = (position.n_rows - begin.n_rows) / max(time.perf_counter() - clock, 1e-9)
            bar.advance(
                1, f"{position.n_batches:,} batches, {position.n_rows:,} rows, {speed:,.0f} rows/s"
            )
    if path is not None and position is not begin and position.n_batches % every:
        write_model(model, path, stream=asdict(position))
    return model


# Checkpoints -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Position:
    """Position in a stream, with a digest of all batches up to it."""

    n_batches: int = 0
    n_rows: int = 0
    digest: str = ""

    def after(self, X: Any, y: Any, *, with_digest: bool = True) -> _Position:
        """Return the position after another batch (l, p) with labels (l, q)."""
        tables = read_table(X, "X"), read_table(y, "y")
        n_rows = int(np.shape(tables[0].values)[0])
        digest = _digest(self.digest, tables) if with_digest else ""
        return _Position(self.n_batches + 1, self.n_rows + n_rows, digest)


def _digest(before: str, tables: Iterable[Table]) -> str:
    """Return the digest of earlier batches and of the ids, shapes and numbers of another batch."""
    digest = hashlib.blake2b(before.encode(), digest_size=16)
    for table in tables:
        ids = []
        for side_ids in (table.row_ids, table.column_ids):
            ids.append([] if side_ids is None else [str(label) for label in side_ids.labels])
        if is_sparse(table.values):
            matrix = sparse.csr_array(table.values, copy=True)
            matrix.sum_duplicates()
            parts = [
                matrix.indptr.astype("<i8"),
                matrix.indices.astype("<i8"),
                matrix.data.astype("<f8"),
            ]
        else:
            parts = [np.ascontiguousarray(table.values, dtype="<f8")]
        description = repr((ids, [part.shape for part in parts]))
        digest.update(description.encode(errors="backslashreplace"))
        for part in parts:
            digest.update(part.data)
    return digest.hexdigest()


def _read_checkpoint(path: Path, model: Any) -> tuple[Any, _Position]:
    """Return the model and the position in a file, after checking that `model` has the same parameters."""
    known, header = read_model(path)
    if "stream" not in header:
        raise ModelFileError(
            f"{path} is a model but no checkpoint of a stream: give another name or resume=False."
        )
    if type(known) is not type(model):
        raise ValueError(
            f"The checkpoint {path} holds a {type(known).__name__}, and the model is a "
            f"{type(model).__name__}: give another name, or resume=False to overwrite it."
        )
    stored = known.get_params()
    # Parameters of the model before those of its feature maps.
    for name, value in sorted(model.get_params().items(), key=lambda item: item[0].count("__")):
        other = stored.get(name)
        if isinstance(value, BaseEstimator):
            same = type(value) is type(other)
        else:
            same = np.array_equal(value, other)  # a feature map may be an array
        if not same:
            raise ValueError(
                f"The checkpoint {path} was made with {name}={other!r}, and the model has "
                f"{name}={value!r}: use the same parameters, or resume=False to begin again."
            )
    match header["stream"]:
        case {"n_batches": int(n_batches), "n_rows": int(n_rows), "digest": str(digest)} if (
            n_batches > 0
        ):
            return known, _Position(n_batches, n_rows, digest)
    raise ModelFileError(
        f"{path} does not contain its position in the stream: begin again with resume=False."
    )


def _skip(stream: Iterator[tuple[Any, Any]], wanted: _Position, path: Path) -> None:
    """Skip the batches before the checkpoint, and raise if they differ from those of the checkpoint."""
    position = _Position()
    for _, (X, y) in zip(range(wanted.n_batches), stream, strict=False):
        position = position.after(X, y)
    remedy = "Give the same stream as before, or begin again with resume=False."
    if position.n_batches < wanted.n_batches:
        raise ValueError(
            f"The stream ended after {position.n_batches} batches, but the checkpoint {path} has "
            f"learned {wanted.n_batches}. {remedy}"
        )
    if position != wanted:
        raise ValueError(
            f"The stream has changed: its first {wanted.n_batches} batches are not those of the "
            f"checkpoint {path}. {remedy}"
        )
