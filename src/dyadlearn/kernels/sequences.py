"""Kernels of sequences of proteins or genes, by alignment or by shared k-mers, and a reader of FASTA files.

Alignments need parasail or the slower biopython: ``pip install dyadlearn[bio]``. The package is
imported for the first alignment; everything else needs neither.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from dyadlearn._checks import check_alpha, check_choice, check_whole
from dyadlearn._files.packed import imported, read_text
from dyadlearn._memory import check_kernel_memory
from dyadlearn._progress import Progress
from dyadlearn._tables import Ids, make_ids
from dyadlearn._text import in_time
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels._strings import Strings, TextFeatures, TextStep, read_strings, shortened
from dyadlearn.kernels.combine import normalize
from dyadlearn.kernels.gram import gram

__all__ = [
    "KmerCounts",
    "SmithWaterman",
    "clean_sequences",
    "kmer_counts",
    "read_fasta",
    "smith_waterman",
    "spectrum_kernel",
    "usual_sequence_kernel",
]

_BLANKS = " \t\n"

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
#: Letters for rare or ambiguous amino acids, and for a stop.
UNKNOWN = "BJOUXZ*"

# Maximum number of columns; beyond it, the column counts of sparse products need more memory than
# the sequences.
_MOST_COLUMNS = 2**24
# Largest k for an alphabet of two letters; checked first, because len(alphabet) ** k is slow for a
# huge k.
_LONGEST = 24

#: Amino acids, then B, Z and X for ambiguous ones, and * for a stop: the rows of every BLOSUM
#: matrix.
LETTERS = "ARNDCQEGHILKMFPSTWYVBZX*"

_AS_X = str.maketrans("JOU", "XXX")

# Factor that makes scores and gap costs whole numbers.
_SCALE = 2
# Pairs of letters up to which sequences are aligned by default: about two minutes with parasail.
_MOST_ALIGNED = 1e11
# Pairs of letters that an engine aligns in a second on one core.
_RATES = {"parasail": 1e9, "biopython": 5e7}
_MATRICES = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90")


def read_fasta(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Read the sequences of a FASTA file, plain or gzipped.

    The id of a sequence is its header up to the first blank or tab. Lower-case letters become
    capitals. Lines that begin with a semicolon are comments.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of str to str
        Sequences by their ids, in the order of the file.

    Raises
    ------
    IdError
        If two sequences have the same id.
    DataFileError
        If the file is not a FASTA file, or is truncated.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.kernels.sequences import read_fasta
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "proteins.fasta")
    ...     _ = path.write_text(">P1 a peptide\nMKV\nLLA\n>P2\nMKVLA\n")
    ...     read_fasta(path)
    {'P1': 'MKVLLA', 'P2': 'MKVLA'}
    """
    names: list[str] = []
    parts: list[list[str]] = []
    # Only \n, \r and \r\n end a line: a header may hold other line separators, such as U+2028.
    lines = io.StringIO(read_text(path, "FASTA file"), newline=None)
    for number, line in enumerate(lines, start=1):
        line = line.strip(_BLANKS)
        if line.startswith(">"):
            name = re.split(f"[{_BLANKS}]", line[1:].lstrip(_BLANKS), maxsplit=1)[0]
            if not name:
                raise DataFileError(f"line {number} of {path} is a header without an id.")
            names.append(name)
            parts.append([])
        elif not line or line.startswith(";"):
            continue
        elif not parts:
            raise DataFileError(
                f"{path} is not a FASTA file: its first line must begin with '>', found "
                f"{shortened(line)}."
            )
        else:
            parts[-1].append("".join(line.split()).upper())
    if not names:
        raise DataFileError(f"{path} holds no sequences.")
    make_ids(names, None, str(path))
    return dict(zip(names, map("".join, parts), strict=True))


def smith_waterman(
    sequences: Any,
    ids: Sequence[Hashable] | None = None,
    *,
    matrix: str = "BLOSUM62",
    gap_open: float = 10.0,
    gap_extend: float = 0.5,
    normalized: bool = True,
    on_error: str = "raise",
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> tuple[np.ndarray, list[Hashable]]:
    r"""Compute the similarity of proteins from their best local alignments (Smith and Waterman).

    .. math:: K_{ij} = \frac{s_{ij}}{\sqrt{s_{ii} s_{jj}}}

    s_ij is the highest score of any alignment of a part of i with a part of j. The result is
    symmetric but, being a maximum, not always positive semi-definite. Models repair it, as
    `dyadlearn.kernels.repair` does.

    Parameters
    ----------
    sequences : sequence, mapping of id to sequence, series, or frame with one column of sequences
        The n proteins, such as `read_fasta` returns. The ids of a pandas series or frame are its
        index; those of another frame of two columns are its first column. Letters are the amino
        acids, B, J, O, U, X, Z and ``*``; J, O and U, which have no BLOSUM scores, are aligned as
        X.
    ids : sequence of length n, optional
        Ids of the proteins, if `sequences` has none.
    matrix : str, default="BLOSUM62"
        Scores for pairs of letters: BLOSUM45, 50, 62, 80 or 90.
    gap_open, gap_extend : float, default=10.0, 0.5
        Cost of the first position of a gap, and of each further position; multiples of 0.5.
    normalized : bool, default=True
        Whether to divide by the square root of the self-scores, as above; otherwise the scores s_ij
        are returned.
    on_error : {"raise", "drop"}, default="raise"
        What to do if sequences are empty or have other letters: raise an error, or leave them out
        with a warning. Both messages name them.
    n_jobs : int or None, default=None
        Number of threads (with parasail) or processes (with biopython), -1 for as many as there are
        cores.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Returns
    -------
    K : ndarray of shape (n_kept, n_kept)
    ids : list of length n_kept
        The ids of the rows, or their positions in `sequences` if there are no ids.

    Raises
    ------
    ValueError
        If a sequence is not valid (the message lists their ids), or if a parameter is out of range.
    ImportError
        If neither parasail nor biopython is installed.

    See Also
    --------
    SmithWaterman : the same as a pipeline step, also for new sequences.
    spectrum_kernel : much faster, and always positive semi-definite.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import smith_waterman
    >>> K, ids = smith_waterman({"a": "MKVLAAGG", "b": "MKVLAAG", "c": "WWPWW"})
    >>> K.round(2)
    array([[1.  , 0.92, 0.  ],
           [0.92, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    aligner = SmithWaterman(matrix, gap_open, gap_extend, n_jobs, progress)
    aligner._check_parameters()
    proteins = _proteins(sequences, ids, on_error)
    scores = aligner._scores(proteins.values)
    if normalized:
        scores = normalize(scores)
    return scores, proteins.labels


def kmer_counts(
    sequences: Any,
    ids: Sequence[Hashable] | None = None,
    *,
    k: int = 3,
    alphabet: str = AMINO_ACIDS,
    unknown: str = UNKNOWN,
    on_error: str = "raise",
) -> tuple[csr_array, list[Hashable]]:
    r"""Count the k-mers (words of k letters) in each sequence.

    .. math:: x_w = \bigl|\{p : \text{the sequence has } w \text{ at position } p\}\bigr|,
              \qquad w \in \text{alphabet}^k

    A sequence shorter than k has no k-mers.

    Parameters
    ----------
    sequences : sequence, mapping of id to sequence, series, or frame with one column of sequences
        The n sequences. The ids of a pandas series or frame are its index; those of another frame
        of two columns are its first column.
    ids : sequence of length n, optional
        Ids of the sequences, if `sequences` has none.
    k : int, default=3
        Length of a k-mer. There may be up to 2²⁴ different k-mers, so that k is at most 5 for
        proteins.
    alphabet : str, default="ACDEFGHIKLMNPQRSTVWY"
        The letters, by default the twenty amino acids; for genes "ACGT".
    unknown : str, default="BJOUXZ*"
        Further valid letters; k-mers with one of them are not counted. For genes "N".
    on_error : {"raise", "drop"}, default="raise"
        What to do if sequences are empty or have other letters: raise an error, or leave them out
        with a warning. Both messages name them.

    Returns
    -------
    features : sparse array of shape (n_kept, len(alphabet) ** k)
        Counts; k-mers are sorted in the order of the alphabet.
    ids : list of length n_kept
        The ids of the rows, or their positions in `sequences` if there are no ids.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import kmer_counts
    >>> features, ids = kmer_counts(["ABAB", "BBB"], k=2, alphabet="AB", unknown="")
    >>> features.toarray()  # AA, AB, BA, BB
    array([[0, 2, 1, 0],
           [0, 0, 0, 2]])
    """
    valid, counts = KmerCounts(k, alphabet, unknown)._computed(sequences, ids, on_error)
    return counts, valid.labels


def spectrum_kernel(
    sequences: Any, ids: Sequence[Hashable] | None = None, **counting: Any
) -> tuple[np.ndarray, list[Hashable]]:
    r"""Compute the similarity of sequences from their shared k-mers (words of k letters).

    .. math:: K_{ij} = \frac{\langle x_i, x_j\rangle}{\|x_i\| \, \|x_j\|}

    x holds the counts of k-mers of a sequence, see `kmer_counts`. The kernel is positive
    semi-definite. A sequence without k-mers has similarity 0 to all sequences, itself included.

    Parameters
    ----------
    sequences, ids
        As in `kmer_counts`.
    **counting
        Further parameters of `kmer_counts`, with its defaults: ``k=3``, ``alphabet``, ``unknown``
        and
        ``on_error="raise"``.

    Returns
    -------
    K : ndarray of shape (n_kept, n_kept)
    ids : list of length n_kept

    See Also
    --------
    KmerCounts : a pipeline step that gives the same kernel in a model with ``kernel="cosine"``.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import spectrum_kernel
    >>> K, ids = spectrum_kernel(["MKVLA", "MKVLL", "WWWW"], k=2)
    >>> K.round(2)
    array([[1.  , 0.75, 0.  ],
           [0.75, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    features, labels = kmer_counts(sequences, ids, **counting)
    return gram(features, kernel="cosine"), labels


def clean_sequences(
    sequences: Any, ids: Sequence[Hashable] | None = None, *, on_error: str | None = "raise"
) -> tuple[list[str], list[Hashable]]:
    """Return proteins in capitals and without blanks.

    Parameters
    ----------
    sequences, ids, on_error : as in `smith_waterman`

    Returns
    -------
    texts : list of length n_kept
    ids : list of length n_kept
        The ids of the sequences, or their positions in `sequences` if there are no ids.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import clean_sequences
    >>> clean_sequences(["mkv la", "MKVLA"])
    (['MKVLA', 'MKVLA'], [0, 1])
    """
    valid = _valid(sequences, ids, AMINO_ACIDS + UNKNOWN, on_error)
    return valid.values, valid.labels


def usual_sequence_kernel(sequences: Sequence[str]) -> tuple[str, str]:
    """Return the usual kernel of sequences, and why it is not alignment if there are too many.

    The time of alignment is that of all pairs of letters of all pairs of different sequences. Up to
    10¹¹ of them, such as those of a thousand sequences of 450 letters, sequences are aligned;
    beyond it, k-mers are compared.

    Parameters
    ----------
    sequences : sequence of str

    Returns
    -------
    kernel : {"smith-waterman", "spectrum"}
    reason : str
        One sentence with the time that alignment would take; empty for "smith-waterman".

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import usual_sequence_kernel
    >>> usual_sequence_kernel(["MKVLA", "MKVLL"])
    ('smith-waterman', '')
    """
    distinct = [text for text in set(sequences) if isinstance(text, str)]
    n_pairs = sum(map(len, distinct)) ** 2 / 2
    if n_pairs <= _MOST_ALIGNED:
        return "smith-waterman", ""
    seconds = in_time(n_pairs / _RATES["parasail"])
    if not find_spec("parasail"):
        seconds += f" with parasail and {in_time(n_pairs / _RATES['biopython'])} with biopython"
    return "spectrum", (
        f"{len(distinct):,} sequences are compared by their words of 3 letters, the kernel "
        f"spectrum: the alignments of smith-waterman would take about {seconds} on one core."
    )


@dataclass(eq=False, repr=False)
class KmerCounts(TextFeatures):
    r"""Count the k-mers (words of k letters) in sequences, as the first step of a pipeline.

    With a model of ``kernel="cosine"`` as the next step, the pipeline uses the spectrum kernel:

    .. math:: K_{ij} = \frac{\langle x_i, x_j\rangle}{\|x_i\| \, \|x_j\|}

    The features are those of `kmer_counts`. Nothing is learned from the sequences. A sequence that
    is not valid raises an error that names it: a pipeline step cannot leave out rows, but
    `kmer_counts` can.

    Parameters
    ----------
    k : int, default=3
        Length of a k-mer.
    alphabet : str, default="ACDEFGHIKLMNPQRSTVWY"
        The letters; for genes "ACGT".
    unknown : str, default="BJOUXZ*"
        Further valid letters; k-mers with one of them are not counted.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import KmerCounts
    >>> KmerCounts(k=1, alphabet="ACGT", unknown="N").fit_transform(["GATTACA", "NCN"]).toarray()
    array([[3, 1, 1, 2],
           [0, 1, 0, 0]])
    """

    k: int = 3
    alphabet: str = AMINO_ACIDS
    unknown: str = UNKNOWN

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the k-mers, (len(alphabet) ** k,)."""
        words = ["".join(letters) for letters in product(self.alphabet, repeat=self.k)]
        return np.array(words, dtype=object)

    def _check_parameters(self) -> None:
        k = self.k
        alphabet = self.alphabet
        unknown = self.unknown
        if check_whole(k, "k") > _LONGEST:
            raise ValueError(
                f"k must be at most {_LONGEST}, as longer words are too many to count, found {k!r}."
            )
        for name, value in (("alphabet", alphabet), ("unknown", unknown)):
            if not isinstance(value, str) or not value.isascii() or value != value.upper():
                raise ValueError(f"{name} must be a text of capital letters, found {value!r}.")
        if not alphabet or len(set(alphabet + unknown)) < len(alphabet + unknown):
            raise ValueError(
                f"alphabet and unknown must hold different letters, found {alphabet!r} and "
                f"{unknown!r}."
            )
        if len(alphabet) ** int(k) > _MOST_COLUMNS:
            raise ValueError(
                f"{len(alphabet)} letters make {len(alphabet)}^{k} words, but at most "
                f"{_MOST_COLUMNS} can be counted: use a smaller k."
            )

    def _computed(
        self, X: Any, ids: Any = None, on_error: str | None = None
    ) -> tuple[Strings, csr_array]:
        """Return the valid sequences, and their counts of k-mers."""
        self._check_parameters()
        valid = _valid(X, ids, self.alphabet + self.unknown, on_error)
        return valid, _count_words(valid.values, self.k, self.alphabet)


@dataclass(eq=False, repr=False)
class SmithWaterman(TextStep):
    r"""Align proteins with the training proteins, as the first step of a pipeline.

    Use ``kernel="precomputed"`` in the model, whose kernel is then

    .. math:: K_{ij} = \frac{s_{ij}}{\sqrt{s_{ii} s_{jj}}}, \qquad j \text{ in the training}

    The scores s are those of `smith_waterman`. A sequence that is not valid raises an error that
    names it: a pipeline step cannot leave out rows, but `smith_waterman` can.

    Parameters
    ----------
    matrix : str, default="BLOSUM62"
        Scores for pairs of letters: BLOSUM45, 50, 62, 80 or 90.
    gap_open, gap_extend : float, default=10.0, 0.5
        Cost of the first position of a gap, and of each further position; multiples of 0.5.
    n_jobs : int or None, default=None
        Number of threads (with parasail) or processes (with biopython), -1 for as many as there are
        cores.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Attributes
    ----------
    sequences_ : list of length n
        The training sequences.
    ids_ : list of length n
        Ids of the training sequences, or positions if they have no ids.
    self_scores_ : ndarray of shape (n,)
        Score of each training sequence aligned with itself.

    Examples
    --------
    >>> from dyadlearn.kernels.sequences import SmithWaterman
    >>> alignment = SmithWaterman().fit(["MKVLAAGG", "WWPWW"])
    >>> alignment.transform(["MKVLAAG"]).round(2)
    array([[0.92, 0.  ]])
    """

    matrix: str = "BLOSUM62"
    gap_open: float = 10.0
    gap_extend: float = 0.5
    n_jobs: int | None = None
    progress: bool | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the training sequences.

        Parameters
        ----------
        X : sequence, series or one-column frame of n sequences
        y : ignored
        """
        self._store(X)
        return self

    def transform(self, X: Any) -> Any:
        """Return the similarities to the training sequences.

        Parameters
        ----------
        X : sequence, series or one-column frame of n_new sequences

        Returns
        -------
        ndarray, or frame, of shape (n_new, n)
            A frame if `X` is a frame or series: its rows have the ids of `X`, its columns those of
            the training sequences.
        """
        check_is_fitted(self)
        self._check_parameters()
        valid = _proteins(X, None, None)
        scores = self._scores(valid.values, self.sequences_)
        similarities = normalize(scores, self._self_scores(valid.values), self.self_scores_)
        return valid.write(similarities, self._column_ids)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Return the similarities of the sequences to each other, aligning each pair once.

        Parameters
        ----------
        X : sequence, series or one-column frame of n sequences
        y : ignored

        Returns
        -------
        ndarray, or frame, of shape (n, n)
        """
        valid = self._store(X)
        return valid.write(normalize(self._scores(valid.values)), self._column_ids)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the ids of the training sequences, (n,), as text."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.ids_], dtype=object)

    def _store(self, X: Any) -> Strings:
        """Store the training sequences and return them."""
        self._check_parameters()
        valid = _proteins(X, None, None)
        self.self_scores_ = self._self_scores(valid.values)
        self.sequences_ = valid.values
        self.ids_ = valid.labels
        self._column_ids = valid.ids
        return valid

    def _check_parameters(self) -> None:
        check_choice(self.matrix, "matrix", _MATRICES)
        for name in ("gap_open", "gap_extend"):
            value = check_alpha(getattr(self, name), name)
            if not (_SCALE * value).is_integer():
                raise ValueError(f"{name} must be a whole or half number, found {value!r}.")
        if self.gap_extend > self.gap_open:
            raise ValueError(
                f"gap_extend must not exceed gap_open, found {self.gap_extend:g} and "
                f"{self.gap_open:g}."
            )

    def _scores(self, rows: list[str], columns: list[str] | None = None) -> np.ndarray:
        """Return the scores (n_a, n_b) of the best local alignments of every row with every column.

        Without columns, the rows are aligned with each other, each pair once. Equal sequences are
        aligned only once.
        """
        # The longest first, so that all cores finish at about the same time.
        queries = sorted(dict.fromkeys(rows), key=len, reverse=True)
        n = len(rows)
        if columns is None:
            targets = queries
            p = n
        else:
            targets = list(dict.fromkeys(columns))
            p = len(columns)
        engine = _engine()
        # The scores of different sequences, those of all, and the normalised ones.
        share = len(queries) * len(targets) / (n * p)
        check_kernel_memory(n, p, None, 1 + max(1, share))

        def jobs() -> Iterator[Any]:
            for position, query in enumerate(queries):
                partners = targets[position:] if columns is None else targets
                yield delayed(engine)(query, partners, *self._costs)

        # parasail computes outside the interpreter's lock, biopython does not.
        prefer = "threads" if engine is _by_parasail else "processes"
        finished = Parallel(n_jobs=self.n_jobs, prefer=prefer, return_as="generator")(jobs())
        scores = np.empty((len(queries), len(targets)))
        with Progress(len(queries), "Aligning", self.progress) as bar:
            for position, row in enumerate(finished):
                if columns is None:
                    scores[position, position:] = row
                    scores[position:, position] = row
                else:
                    scores[position] = row
                bar.advance()
        places = Ids(tuple(queries)).positions(rows, "the queries")
        others = places
        if columns is not None:
            others = Ids(tuple(targets)).positions(columns, "the targets")
        return np.asarray(scores[np.ix_(places, others)])

    def _self_scores(self, sequences: list[str]) -> np.ndarray:
        """Return the score of every sequence aligned with itself, (n,)."""
        engine = _engine()
        return np.array([engine(sequence, [sequence], *self._costs)[0] for sequence in sequences])

    @property
    def _costs(self) -> tuple[str, float, float]:
        return self.matrix, float(self.gap_open), float(self.gap_extend)


def _valid(texts: Any, ids: Any, letters: str, on_error: str | None) -> Strings:
    """Return sequences in capitals and without blanks; those that are empty or have other letters are not valid."""
    sequences = read_strings(texts, "sequences", ids)
    allowed = set(letters)
    values: list[Any] = []
    wrong: dict[int, str] = {}
    for position, text in enumerate(sequences.values):
        if not isinstance(text, str):
            wrong[position] = shortened(text)
            values.append(text)
            continue
        letters_found = "".join(text.split())
        values.append(letters_found.upper())
        # One by one, because a letter such as ß has two capitals.
        odd = sorted({letter for letter in letters_found if letter.upper() not in allowed})
        if odd or not letters_found:
            if odd:
                wrong[position] = "with " + ", ".join(map(repr, odd[:5]))
            else:
                wrong[position] = "empty"
    return replace(sequences, values=values).sift(wrong, on_error)


def _proteins(texts: Any, ids: Any, on_error: str | None) -> Strings:
    """Return the valid proteins in letters of BLOSUM matrices: J, O and U, which these lack, become X."""
    valid = _valid(texts, ids, AMINO_ACIDS + UNKNOWN, on_error)
    return replace(valid, values=[text.translate(_AS_X) for text in valid.values])


def _count_words(sequences: list[str], k: int, alphabet: str) -> csr_array:
    """Return the counts of k-mers, (n, len(alphabet) ** k)."""
    digit = np.full(256, -1)
    digit[np.frombuffer(alphabet.encode(), dtype=np.uint8)] = np.arange(len(alphabet))
    powers = len(alphabet) ** np.arange(k)[::-1]

    def words_of(sequence: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the k-mers of a sequence, and their counts."""
        digits = digit[np.frombuffer(sequence.encode(), dtype=np.uint8)]
        # A sequence that is shorter than a word is padded with unknown letters.
        digits = np.pad(digits, (0, max(k - len(digits), 0)), constant_values=-1)
        windows = np.lib.stride_tricks.sliding_window_view(digits, k)
        return np.unique(windows[(windows >= 0).all(axis=1)] @ powers, return_counts=True)

    words, counts = zip(*map(words_of, sequences), strict=True)
    ends = np.cumsum([0, *map(len, words)])
    # 32-bit indices, because some functions of scikit-learn do not accept others.
    indices = np.concatenate(words).astype(np.int32)
    shape = (len(sequences), len(alphabet) ** k)
    return csr_array((np.concatenate(counts), indices, ends), shape=shape)


def _engine() -> Any:
    """Return the function that aligns one sequence with many."""
    if find_spec("parasail"):
        return _by_parasail
    imported("Bio", "Aligning", "parasail or biopython", extra="bio")
    return _by_biopython


def _by_parasail(
    query: str, targets: list[str], name: str, gap_open: float, gap_extend: float
) -> np.ndarray:
    """Return the scores (n,) of a sequence with n others, by parasail."""
    import parasail

    matrix, best = _scaled_matrix(name)
    # Upper bound of all scores of the query. It gives the number of bits, and a gap cost that is
    # never worth paying.
    bound = sum(best[letter] for letter in query)
    bits = 16 if bound < 2**14 else 32
    gaps = [min(int(_SCALE * gap), bound + 1) for gap in (gap_open, gap_extend)]
    profile = getattr(parasail, f"profile_create_{bits}")(query, matrix)
    # Of its methods, "striped" misses alignments in which one gap follows the other.
    align = getattr(parasail, f"sw_scan_profile_{bits}")
    return np.array([align(profile, target, *gaps).score for target in targets]) / _SCALE


@lru_cache(maxsize=8)
def _scaled_matrix(name: str) -> tuple[Any, dict[str, int]]:
    """Return a matrix with all scores multiplied by `_SCALE`, and the highest score of each letter."""
    import parasail

    original = getattr(parasail, name.lower())
    scaled = original.copy()
    for (row, column), score in np.ndenumerate(original.matrix):
        scaled[row, column] = _SCALE * int(score)
    highest = np.maximum(original.matrix.max(axis=1), 0)
    best = {}
    for letter in LETTERS:
        row = original.mapper[ord(letter)]
        best[letter] = _SCALE * int(highest[row])
    return scaled, best


def _by_biopython(
    query: str, targets: list[str], name: str, gap_open: float, gap_extend: float
) -> np.ndarray:
    """Return the scores (n,) of a sequence with n others, by biopython."""
    from Bio import Align

    matrix = Align.substitution_matrices.load(name)
    gaps = {"open_gap_score": -gap_open, "extend_gap_score": -gap_extend}
    aligner = Align.PairwiseAligner(mode="local", substitution_matrix=matrix, **gaps)
    return np.array([aligner.score(query, target) for target in targets])
