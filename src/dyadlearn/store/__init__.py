"""Model files: a fitted model as arrays and a header of plain JSON, without executable content."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

import dyadlearn.kernels
import dyadlearn.models
import dyadlearn.selection  # noqa: F401  # their classes are those that a file can hold
from dyadlearn._state import StoredEstimator, name_in_file, stored_estimators
from dyadlearn._text import one_line
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store.container import Reader, Writer, read_container, write_container

__all__ = ["load", "read_model", "save", "write_model"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, whose name usually ends in ``.dyad``.

    Writing is atomic: an existing file is replaced only when the new one is complete. A model that
    `load` could not read is not written.

    Parameters
    ----------
    model : fitted estimator
        Any fitted model except `TwoStepRegressor`, or fitted `Landmarks`. Arrays of other libraries
        are stored as numpy arrays.
    path : str or path
        File to write.

    Raises
    ------
    ModelFileError
        If a part of the model cannot be stored, such as a kernel that is a Python function.

    See Also
    --------
    load : read the model again.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from dyadlearn import TwoStepRidge, load, save
    >>> X, T, Y = np.array([[1.0], [2.0]]), np.eye(2), np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.5).fit(X, Y, tasks=T)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.dyad")
    ...     same = load(Path(folder) / "model.dyad")
    >>> same
    TwoStepRidge(alpha=0.5)
    >>> np.array_equal(same.predict(X, tasks=T), model.predict(X, tasks=T))
    True
    """
    write_model(model, path)


def write_model(
    model: Any, path: str | os.PathLike[str], *, over: str | None = None, **more: Any
) -> None:
    """Write a fitted model as `save` does, with `more` entries of plain JSON in the header of the file.

    With `over`, an existing file is replaced only if it has this checksum; otherwise
    `FileChangedError` is raised.
    """
    if not isinstance(model, StoredEstimator) or name_in_file(model) is None:
        raise ModelFileError(
            f"A model file holds a model of this library ({', '.join(stored_estimators())}), not "
            f"an object of class {type(model).__name__}."
        )
    check_is_fitted(model)
    writer = Writer()
    plain = writer.write(model, "")
    from dyadlearn import __version__

    versions = {
        "dyadlearn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    header = {"versions": versions, "model": plain, **more}
    try:
        _model(header, writer.arrays, Path(path), copies=False)
    except ModelFileError as error:
        raise ModelFileError(
            f"The model was not saved, because it could not be loaded again: {error}"
        ) from error
    write_container(Path(path), header, writer.arrays, over=over)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is executed. Every byte is checked before the model is created.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    model
        The model, bit for bit, with numpy arrays; eigenvectors of learned kernels are computed
        again when they are needed. If it was fitted on a frame of labels,
        predictions are frames of the same library if that is installed, else arrays.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is not a model file, has another format, is truncated or was changed.
    NotEnoughMemoryError
        If the file is larger than the memory that is free.

    See Also
    --------
    save : write a model, with an example.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the model that `load` reads, and the header of the file."""
    header, arrays = read_container(Path(path))
    return _model(header, arrays, Path(path)), header


def _model(
    header: Any, arrays: Mapping[str, np.ndarray], path: Path, *, copies: bool = True
) -> Any:
    """Return the model that a header and arrays describe; raise if they describe none."""
    try:
        model = Reader(arrays, copies=copies).read(header["model"], "")
        if not isinstance(model, StoredEstimator):
            raise ModelFileError(f"it holds an object of type {type(model).__name__}, not a model")
        check_is_fitted(model)
    except MemoryError:
        raise
    except Exception as error:  # a forged header may raise any error, in other libraries too
        why = one_line(error)
        if not isinstance(error, ModelFileError):
            why = f"its header describes no model ({type(error).__name__}: {why})"
        raise ModelFileError(f"{path} cannot be read: {why}.") from error
    return model
