"""Exceptions and warnings of the library.

Every exception is a subclass of the built-in exception that a caller would expect, such as
`ValueError` or `MemoryError`.
"""


class DataFileError(ValueError):
    """A data file is damaged, has the wrong content, or exceeds the size limit when unpacked."""


class FileChangedError(RuntimeError):
    """Another process changed a file between reading and replacing it; the file was not replaced."""


class IdError(ValueError):
    """Ids of two tables that must describe the same instances or tasks do not match, or an id is repeated."""


class KernelError(ValueError):
    """A kernel name is unknown, or a kernel matrix is not square, not symmetric or not positive semi-definite."""


class LeverageError(ValueError):
    """Held-out pairs, instances or tasks have leverage 1: the model fits their labels exactly, whatever they are."""


class NothingLeftError(LeverageError):
    """All labels are left out at once, so that none remains to learn from."""


class ModelFileError(ValueError):
    """A file is not a model file, is damaged or has another format, or a model cannot be stored in a file."""


class NotEnoughMemoryError(MemoryError):
    """The estimated memory of a computation exceeds the free memory."""


class GridEdgeWarning(UserWarning):
    """The best regularisation is the smallest or the largest value of the searched grid, given or default."""


class BaselineWarning(UserWarning):
    """The best score of a search is not better than that of a baseline, which uses no features."""


class MarkerCodingWarning(UserWarning):
    """All genetic markers are 0 or 1, although they are counts 0, 1 and 2 of an allele."""


class MissingCallWarning(UserWarning):
    """Calls of genetic markers are missing; the mean of the marker in training was used in their place."""


class MergedGroupsWarning(UserWarning):
    """Groups that were to be left out together are more than the folds: a model is fitted without several of them."""


class NoPredictionWarning(UserWarning):
    """Some rows of a table have no prediction: a structure is not valid, or the model does not know its id."""


class NoLabelWarning(UserWarning):
    """A task has no label to estimate its intercept from, so that its predictions are NaN."""


class UnboundedIntervalWarning(UserWarning):
    """There are too few held-out residuals for the coverage of prediction intervals, so that some are infinite."""


class UndefinedScoreWarning(UserWarning):
    """The score of some regularisations or tasks is undefined; they were excluded from the choice."""


class SearchStoppedWarning(UserWarning):
    """A search, or the learning of kernels, was interrupted; the best result so far was fitted."""


class KernelRepairWarning(UserWarning):
    """A similarity matrix was made symmetric or positive semi-definite before use, including held-out rows."""


class PrecisionWarning(UserWarning):
    """Results may be inaccurate because of rounding: singular kernels, tiny alpha, very different weights or scales."""


class RenamedWarning(FutureWarning):
    """A name of an earlier release is used, which a later one will not have."""


__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
