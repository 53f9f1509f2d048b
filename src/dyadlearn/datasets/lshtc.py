"""Documents in a large hierarchy of categories: the challenges LSHTC, and text files of their format."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice, check_count
from dyadlearn._files.packed import make_sparse, stream
from dyadlearn.datasets._home import DataFolder, resolve_home
from dyadlearn.datasets._read import NUMBERS, WHOLE, check_arrays, describe, load_npz
from dyadlearn.exceptions import DataFileError

__all__ = ["load_lshtc", "load_lshtc3", "read_hierarchy", "read_libsvm_batches", "scan_libsvm"]

FOLDER = "lshtc1_dryrun"

_SPLITS = {"task1": ("validation", "test"), "task2": ("train", "validation", "test")}
_ARCHIVES = {"task1": "task1_valtest.npz", "task2": "task2.npz"}

# One description: `feature:value` pairs, the value a decimal number. Fifteen digits are exact in a float.
_WHOLE = r"\d{1,15}"
_PAIR = rf"{_WHOLE}:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIRS = re.compile(rf"{_PAIR}(?:\s+{_PAIR})*\s*", re.ASCII)
_LABELS = re.compile(rf"\s*(?:{_WHOLE}[\s,]+)*(?:{_WHOLE})?\s*", re.ASCII)

# Lines that are parsed at a time where nobody says how many.
_CHUNK = 10_000


def load_lshtc(data_home: str | os.PathLike[str] | None = None, *, task: str = "task2") -> Bunch:
    r"""Load the dry run of the first challenge on Large Scale Hierarchical Text Classification.

    In ``"task2"`` the documents for training and validation are short descriptions of web pages, while those for
    testing are the pages as crawled: a shift of domain. The two tasks number their terms differently, so a model of
    one says nothing about the other.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds ``task2.npz`` (or ``task1_valtest.npz``) and ``edges.tsv``, itself or in a folder
        ``lshtc1_dryrun``. By default the one that the environment variable ``DYADLEARN_DATA`` names, else one in the
        user's cache. Nothing is downloaded.
    task : {"task2", "task1"}, default="task2"
        Which documents: task1 has no part for training here.

    Returns
    -------
    data : Bunch
        With the keys

        X : sparse array of shape (n, d)
            How often each term stands in each document, all parts below one another.
        Y : sparse array of shape (n, 1139)
            1.0 where the document is in the category, once in every row, else 0.0.
        splits : dict of str to ndarray
            The rows of each part: ``"train"`` (4,463; task2 only), ``"validation"`` (1,860), ``"test"`` (1,858).
        target : ndarray of shape (n,)
            The category of each document.
        label_ids : ndarray of shape (1139,)
            The category of each column of `Y`: the leaves that occur.
        feature_ids : ndarray of shape (d,)
            The number of each term in the challenge's own files.
        edges : ndarray of shape (2377, 2)
            The (parent, child) pairs of the hierarchy.
        descriptions : sparse array of shape (394, d)
            Terms of the texts that describe some of the categories (task2; none in task1).
        description_ids : ndarray of shape (394,)
            The category of each row of `descriptions`.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.graph_distance_kernel : a kernel of the categories, from `edges` and `label_ids`.
    load_lshtc3 : reads the files of the later challenges.

    Examples
    --------
    An archive of one part of one document, and its hierarchy:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from dyadlearn.datasets import load_lshtc
    >>> part = {"y": [29], "data": [2, 1], "indices": [0, 2], "indptr": [0, 2]}
    >>> parts = {f"{name}_{key}": part[key] for name in ("validation", "test") for key in part}
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "task1_valtest.npz"), feature_ids=[172, 179, 236], **parts)
    ...     _ = Path(folder, "edges.tsv").write_text("parent\tchild\n1\t29\n")
    ...     data = load_lshtc(folder, task="task1")
    >>> data.X[data.splits["test"]].toarray()
    array([[2., 0., 1.]])
    >>> data.label_ids, data.edges
    (array([29]), array([[ 1, 29]]))
    """
    check_choice(task, "task", ("task2", "task1"))
    names = [_ARCHIVES[task], "edges.tsv"]
    source = "the arrays of the dry run, laid out as the documentation of load_lshtc says"
    archive, hierarchy = DataFolder(f"'lshtc' ({task})", FOLDER, resolve_home(data_home)).find_all(
        [(name,) for name in names], source
    )
    splits = _SPLITS[task]
    stored = load_npz(archive, {"feature_ids": (1, WHOLE), **_arrays(*splits)})
    if has_texts := "classDescr_y" in stored:
        check_arrays(stored, _arrays("classDescr"), archive)
    n_features = len(stored["feature_ids"])
    parts = {name: _counts(stored, name, n_features, archive) for name in splits}
    target = np.concatenate([stored[f"{name}_y"] for name in splits])
    label_ids, columns = np.unique(target, return_inverse=True)
    edges = read_hierarchy(hierarchy)
    strangers = np.setdiff1d(label_ids, edges)
    if strangers.size:
        raise DataFileError(
            f"{archive}: {strangers.size} categories are not in {hierarchy.name}, such as {strangers[0]}."
        )
    bounds = np.cumsum([part.shape[0] for part in parts.values()])[:-1]
    return Bunch(
        X=sparse.vstack(list(parts.values()), format="csr"),
        Y=_indicator(np.arange(len(target)), columns, (len(target), len(label_ids))),
        splits=dict(zip(splits, np.split(np.arange(len(target)), bounds), strict=True)),
        target=target,
        label_ids=label_ids,
        feature_ids=stored["feature_ids"],
        edges=edges,
        descriptions=(
            _counts(stored, "classDescr", n_features, archive) if has_texts else sparse.csr_array((0, n_features))
        ),
        description_ids=stored["classDescr_y"] if has_texts else np.empty(0, dtype=target.dtype),
        DESCR=describe(
            "lshtc",
            task=task,
            nodes=len(np.unique(edges)),
            features=n_features,
            sizes=", ".join(f"{name}: {part.shape[0]:,} documents" for name, part in parts.items()),
        ),
    )


def _arrays(*splits: str) -> dict[str, tuple[int, str]]:
    kinds = {"y": WHOLE, "data": NUMBERS, "indices": WHOLE, "indptr": WHOLE}
    return {f"{name}_{key}": (1, kind) for name in splits for key, kind in kinds.items()}


def _counts(stored: dict[str, np.ndarray], name: str, n_features: int, path: Path) -> sparse.csr_array:
    """Return the counts (documents, n_features) of one part of an archive."""
    shape = len(stored[f"{name}_y"]), n_features
    try:
        counts = make_sparse({key: stored[f"{name}_{key}"] for key in ("data", "indices", "indptr")}, shape)
    except ValueError as error:
        raise DataFileError(f"{path}: the part {name!r} is no sparse matrix of shape {shape} ({error}).") from error
    return counts.astype(np.float64)


def load_lshtc3(
    path: str | os.PathLike[str],
    hierarchy: str | os.PathLike[str] | None = None,
    *,
    n_features: int | None = None,
    labels: Sequence[int] | np.ndarray | None = None,
    unknown: str = "raise",
) -> Bunch:
    r"""Load documents of the third and fourth challenge LSHTC, or any in the same text format, with their hierarchy.

    Parameters
    ----------
    path : path
        Documents, one in a line, as `read_libsvm_batches` says.
    hierarchy : path or None, default=None
        Edges, one in a line, as `read_hierarchy` says.
    n_features, labels, unknown
        As in `read_libsvm_batches`.

    Returns
    -------
    data : Bunch
        With the keys

        X : sparse array of shape (n, n_features)
            The value of each feature in each document.
        Y : sparse array of shape (n, q)
            1.0 where the document has the label, else 0.0.
        label_ids : ndarray of shape (q,)
            The label of each column of `Y`.
        edges : ndarray of shape (n_edges, 2)
            The (parent, child) pairs; none without a file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import load_lshtc3
    >>> with TemporaryDirectory() as folder:
    ...     documents, hierarchy = Path(folder, "train.txt"), Path(folder, "hierarchy.txt")
    ...     _ = documents.write_text("545,32 1:1 3:2\n32 0:4\n")
    ...     _ = hierarchy.write_text("7 545\n7 32\n")
    ...     data = load_lshtc3(documents, hierarchy)
    >>> data.X.toarray()
    array([[0., 1., 0., 2.],
           [4., 0., 0., 0.]])
    >>> data.label_ids, data.Y.toarray()
    (array([ 32, 545]), array([[1., 1.],
                               [1., 0.]]))
    """
    check_choice(unknown, "unknown", ("raise", "ignore"))
    edges = np.empty((0, 2), dtype=np.int64) if hierarchy is None else read_hierarchy(hierarchy)
    width, label_ids = _columns(Path(path), n_features, labels)
    batches = list(_batches(Path(path), _CHUNK, width, label_ids, unknown == "ignore"))
    if not batches:
        raise DataFileError(f"{path} holds no documents.")
    X, Y = (sparse.vstack([batch[side] for batch in batches], format="csr") for side in (0, 1))
    return Bunch(X=X, Y=Y, label_ids=label_ids, edges=edges)


def read_libsvm_batches(
    path: str | os.PathLike[str],
    batch_size: int = 1000,
    n_features: int | None = None,
    labels: Sequence[int] | np.ndarray | None = None,
    *,
    unknown: str = "raise",
) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
    r"""Read documents with several labels from a text file, batch by batch, in memory for one batch.

    A line is ``label,label feature:value feature:value …``: whole numbers that are not negative, separated by commas,
    spaces or both, then features in any order. A document may have no label or no feature; empty lines are passed
    over. Of a label that stands twice one counts, of a feature the sum.

    Parameters
    ----------
    path : path
        The file, plain or gzipped.
    batch_size : int, default=1000
        Documents in a batch; the last one may have fewer.
    n_features : int or None, default=None
        Width of `X`. Column f is feature number f, so column 0 is empty where a file counts from 1. None: the file is
        read twice, first to find the largest number.
    labels : sequence of int of length q, or None, default=None
        The label of each column of `Y`. None: all that the file has, in rising order, found in the same way.
    unknown : {"raise", "ignore"}, default="raise"
        What to do about a feature outside `n_features` or a label outside `labels`: complain, or leave it out.

    Yields
    ------
    X : sparse array of shape (batch, n_features)
    Y : sparse array of shape (batch, q)
        1.0 where the document has the label, else 0.0.

    Raises
    ------
    DataFileError
        If the file is damaged or a line is none of this kind; the error names the file and the line.

    See Also
    --------
    scan_libsvm : finds `n_features` and `labels` once, for several passes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import read_libsvm_batches
    >>> with TemporaryDirectory() as folder:
    ...     documents = Path(folder, "train.txt")
    ...     _ = documents.write_text("545,32 8:1 18:2\n32 2:1\n545 8:3\n")
    ...     [(X.shape, Y.shape) for X, Y in read_libsvm_batches(documents, batch_size=2)]
    [((2, 19), (2, 2)), ((1, 19), (1, 2))]
    """
    check_choice(unknown, "unknown", ("raise", "ignore"))
    check_count(batch_size, "batch_size")
    width, label_ids = _columns(Path(path), n_features, labels)
    # A generator of its own, so that wrong arguments are told at the call and not at the first batch.
    return _batches(Path(path), batch_size, width, label_ids, unknown == "ignore")


def scan_libsvm(path: str | os.PathLike[str]) -> Bunch:
    r"""Find how large the matrices of a text file for `read_libsvm_batches` will be, in one pass.

    Parameters
    ----------
    path : path
        The file, plain or gzipped.

    Returns
    -------
    found : Bunch
        With the keys

        n_rows : int
            The number of documents.
        n_features : int
            One more than the largest number of a feature.
        labels : ndarray of shape (q,)
            The labels, in rising order.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import scan_libsvm
    >>> with TemporaryDirectory() as folder:
    ...     documents = Path(folder, "train.txt")
    ...     _ = documents.write_text("545,32 8:1 18:2\n32 2:1\n")
    ...     found = scan_libsvm(documents)
    >>> found.n_rows, found.n_features, found.labels
    (2, 19, array([ 32, 545]))
    """
    n_rows, n_features = 0, 0
    labels = np.empty(0, dtype=np.int64)
    for chunk in _parsed(Path(path), _CHUNK):
        n_rows += chunk.n_rows
        n_features = max(n_features, int(chunk.features.max(initial=-1)) + 1)
        labels = np.union1d(labels, chunk.labels)
    return Bunch(n_rows=n_rows, n_features=n_features, labels=labels)


def read_hierarchy(path: str | os.PathLike[str]) -> np.ndarray:
    r"""Read the edges of a hierarchy: a line for each, with the numbers of the parent and of the child.

    What the lines make up is not looked at: it may be a tree or a graph where a child has several parents, and in
    the wild it has cycles too, which do not matter to `dyadlearn.kernels.graph_distance_kernel`.

    Parameters
    ----------
    path : path
        The file, plain or gzipped. A first line ``parent child`` is a header; empty lines are passed over.

    Returns
    -------
    edges : ndarray of shape (n_edges, 2)
        Parent and child, in the order of the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import read_hierarchy
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "hierarchy.txt").write_text("897 67\n897 12\n")
    ...     read_hierarchy(Path(folder, "hierarchy.txt"))
    array([[897,  67],
           [897,  12]])
    """
    edges = []
    for number, line in enumerate(_lines(Path(path)), 1):
        cells = line.split()
        if not cells or (number == 1 and cells == ["parent", "child"]):
            continue
        if len(cells) != 2 or not all(re.fullmatch(_WHOLE, cell, re.ASCII) for cell in cells):
            raise DataFileError(
                f"{path}, line {number}: expected the numbers of parent and child, found {line[:50]!r}."
            )
        edges.append((int(cells[0]), int(cells[1])))
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _columns(path: Path, n_features: int | None, labels: Sequence[int] | np.ndarray | None) -> tuple[int, np.ndarray]:
    """Return the number of features and the labels (q,): those given, after a check, or those of the file."""
    if n_features is not None:
        check_count(n_features, "n_features")
    ids = None if labels is None else _label_ids(labels)
    if n_features is not None and ids is not None:
        return n_features, ids
    found = scan_libsvm(path)
    return found.n_features if n_features is None else n_features, found.labels if ids is None else ids


def _label_ids(labels: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the labels of the columns (q,) after checking that they are different whole numbers."""
    ids = np.asarray(labels)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(f"labels must be a sequence of whole numbers, found an array of {ids.dtype} {ids.shape}.")
    if len(np.unique(ids)) < len(ids):
        raise ValueError(f"labels must be different, but {len(ids) - len(np.unique(ids))} are repeated.")
    return ids.astype(np.int64)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text, plain or gzipped, without ever holding all of them."""
    try:
        yield from stream(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}.") from None


class _Chunk:
    """Some documents of a file, taken apart.

    Attributes
    ----------
    n_rows : int
        How many they are.
    labels, label_rows : ndarray of shape (n_labels,)
        The labels of all documents, and whose they are.
    features, values, feature_rows : ndarray of shape (n_pairs,)
        The same for features and their values.
    """

    def __init__(self, path: Path, lines: list[tuple[int, str]]) -> None:
        self.path, self.n_rows, self._numbers = path, len(lines), [number for number, _ in lines]
        labels, pairs = [], []
        for number, line in lines:
            # The pairs begin with the word that has the first colon.
            colon = line.find(":")
            start = max(line.rfind(" ", 0, colon), line.rfind("\t", 0, colon)) + 1 if colon >= 0 else len(line)
            labels.append(line[:start])
            pairs.append(line[start:])
            if not _LABELS.fullmatch(labels[-1]) or not (_PAIRS.fullmatch(pairs[-1]) or not pairs[-1]):
                raise DataFileError(
                    f"{path}, line {number}: expected labels and then feature:value pairs, such as '545,32 8:1 18:2', "
                    f"found {line[:50].rstrip()!r}."
                )
        words = [text.replace(",", " ").split() for text in labels]
        self.labels = np.array([word for own in words for word in own], dtype=np.int64)
        self.label_rows = np.repeat(np.arange(self.n_rows), [len(own) for own in words])
        text = " ".join(pairs).replace(":", " ")
        # numpy finds a number in a text of blanks.
        cells = np.fromstring(text if text.strip() else "", dtype=np.float64, sep=" ").reshape(-1, 2)
        self.features, self.values = cells[:, 0].astype(np.int64), cells[:, 1]
        self.feature_rows = np.repeat(np.arange(self.n_rows), [text.count(":") for text in pairs])
        if not np.isfinite(self.values).all():
            first = int(np.argmin(np.isfinite(self.values)))
            line = self._numbers[self.feature_rows[first]]
            raise DataFileError(f"{path}, line {line}: the value of feature {self.features[first]} is too large.")

    def refuse(self, unknown: np.ndarray, found: np.ndarray, rows: np.ndarray, complaint: str) -> None:
        """Complain about the first of `found` that is `unknown`, with its line."""
        if unknown.any():
            first = int(np.argmax(unknown))
            raise DataFileError(
                f"{self.path}, line {self._numbers[rows[first]]}: {found[first]} {complaint}; unknown='ignore' leaves "
                "it out."
            )


def _parsed(path: Path, size: int) -> Iterator[_Chunk]:
    """Yield the documents of a file, `size` at a time."""
    lines = ((number, line) for number, line in enumerate(_lines(path), 1) if not line.isspace())
    while chunk := list(islice(lines, size)):
        yield _Chunk(path, chunk)


def _batches(
    path: Path, size: int, n_features: int, labels: np.ndarray, ignore: bool
) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
    """Yield features (size, n_features) and labels (size, q) as sparse matrices."""
    order = np.argsort(labels)
    for chunk in _parsed(path, size):
        inside = chunk.features < n_features
        listed = np.isin(chunk.labels, labels)
        if not ignore:
            chunk.refuse(~inside, chunk.features, chunk.feature_rows, f"is no feature below n_features={n_features}")
            chunk.refuse(~listed, chunk.labels, chunk.label_rows, "is not among the labels given")
        cells = chunk.feature_rows[inside], chunk.features[inside]
        X = sparse.csr_array((chunk.values[inside], cells), shape=(chunk.n_rows, n_features))
        columns = order[np.searchsorted(labels, chunk.labels[listed], sorter=order)]
        yield X, _indicator(chunk.label_rows[listed], columns, (chunk.n_rows, len(labels)))


def _indicator(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a sparse matrix with 1.0 at (rows, columns), also where a cell is named twice."""
    cells = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    cells.data[:] = 1.0
    return cells
