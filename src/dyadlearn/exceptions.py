"""The exceptions and warnings of the library.

Every exception is also the built-in one a caller would expect (`ValueError`,
`MemoryError`), so code that catches those keeps working.
"""

from __future__ import annotations


class DataFileError(ValueError):
    """A file of data is damaged, is not what it should be, or unpacks to more than a file may; the file is named."""


class FileChangedError(RuntimeError):
    """A file was changed by another process between being read and being replaced; it was left as it is."""


class IdError(ValueError):
    """Ids of two tables that must describe the same things do not match, or repeat."""


class KernelError(ValueError):
    """A kernel is unknown, not square, asymmetric or indefinite where that is refused."""


class LeverageError(ValueError):
    """A model interpolates what is to be held out, so there is no prediction without it."""


class ModelFileError(ValueError):
    """A file is not a model file, is damaged or of a newer format, or a model holds what a file cannot hold."""


class NotEnoughMemoryError(MemoryError):
    """The estimated need of a computation exceeds the memory that is free."""


class GridEdgeWarning(UserWarning):
    """The best regularisation lies on the edge of the grid that was searched."""


class NoLabelWarning(UserWarning):
    """A task has no label to take its constant from, so that nothing is predicted for it: NaN."""


class UndefinedScoreWarning(UserWarning):
    """Some regularisations or tasks have no score, so that the choice was made without them."""


class SearchStoppedWarning(UserWarning):
    """A search was interrupted from the keyboard, and has chosen the best of the regularisations evaluated so far."""


class KernelRepairWarning(UserWarning):
    """A similarity matrix was symmetrised or made positive semi-definite before use, with all its rows at once."""


class PrecisionWarning(UserWarning):
    """So few digits are left, of a singular kernel, dependent features or data forgotten, that answers may be wrong."""


__all__ = sorted(name for name, each in globals().items() if isinstance(each, type))
