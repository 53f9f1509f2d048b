"""Sequences of proteins or genes: read from FASTA files, compared by alignment or by the words they share.

Alignments need parasail or, slower, biopython: ``pip install dyadlearn[bio]``. Either is loaded when the first
alignment is made; everything else needs neither.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Hashable, Sequence
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
from dyadlearn._progress import Progress
from dyadlearn._tables import make_ids
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels._strings import Strings, TextFeatures, TextStep, read_strings, shortened
from dyadlearn.kernels.combine import normalize
from dyadlearn.kernels.gram import gram

__all__ = ["KmerCounts", "SmithWaterman", "kmer_counts", "read_fasta", "smith_waterman", "spectrum_kernel"]

_BLANKS = " \t\n"

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
#: Amino acids that are rare, or not known exactly, and a stop.
UNKNOWN = "BJOUXZ*"

# Beyond this many columns, matrix products spend more memory on counting columns than on the sequences.
_MOST_COLUMNS = 2**24
# The longest words of two letters that are so few; a larger k would take long merely to be raised to a power.
_LONGEST = 24

#: Amino acids, then B, Z and X for those not known exactly, and * for a stop: the rows of every BLOSUM matrix.
LETTERS = "ARNDCQEGHILKMFPSTWYVBZX*"

# Scores and gaps times this are whole numbers.
_SCALE = 2
_MATRICES = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90")


def read_fasta(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""Read the sequences of a FASTA file, plain or gzipped.

    A sequence is called by its header up to the first blank or tab; lower-case letters become capitals. Lines that
    begin with a semicolon are comments.

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
        If the file is none of this kind, or is cut off.

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
    # Only what ends a line in a file ends it here: a header may hold anything else, such as U+2028.
    for number, line in enumerate(io.StringIO(read_text(path, "FASTA file"), newline=None), start=1):
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
            found = shortened(line)
            raise DataFileError(f"{path} is no FASTA file: its first line must begin with '>', found {found}.")
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
    r"""Similarity of proteins by their best local alignments (Smith and Waterman).

    .. math:: K_{ij} = \frac{s_{ij}}{\sqrt{s_{ii} s_{jj}}}

    s_ij is the highest score of any alignment of a part of i with a part of j. The result is symmetric but, being a
    maximum, not always positive semi-definite: models mend that, and so does `dyadlearn.kernels.repair`.

    Parameters
    ----------
    sequences : sequence, mapping of id to sequence, series, or frame with one column of sequences
        n proteins, such as `read_fasta` returns. The ids of a pandas series or frame are its index; in another
        frame of two columns the first holds them. Letters are the amino acids, B, Z, X and ``*``;
        write the rare U and O as X.
    ids : sequence of length n, optional
        What the proteins are called, where `sequences` has no ids of its own.
    matrix : str, default="BLOSUM62"
        Scores for pairs of letters: BLOSUM45, 50, 62, 80 or 90.
    gap_open, gap_extend : float, default=10.0, 0.5
        What the first letter of a gap costs, and every further one: whole or half numbers.
    normalized : bool, default=True
        Whether to divide by the root of the scores of each with itself; otherwise the scores are returned.
    on_error : {"raise", "drop"}, default="raise"
        What to do with sequences that are empty or have other letters: refuse all, or leave those out with a warning.
        Either names them.
    n_jobs : int or None, default=None
        Number of threads (with parasail) or processes (with biopython), -1 for as many as there are cores.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Returns
    -------
    K : ndarray of shape (n_kept, n_kept)
    ids : list of length n_kept
        The ids of the rows, or their positions in `sequences` where there are no ids.

    Raises
    ------
    ValueError
        If a sequence is not valid, with the ids of all such, or if a parameter is out of range.
    ImportError
        If neither parasail nor biopython is installed.

    See Also
    --------
    SmithWaterman : the same as a step of a pipeline, for new sequences too.
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
    proteins = _valid(sequences, ids, LETTERS, on_error)
    scores = aligner._scores(proteins.values)
    return normalize(scores) if normalized else scores, proteins.labels


def kmer_counts(
    sequences: Any,
    ids: Sequence[Hashable] | None = None,
    *,
    k: int = 3,
    alphabet: str = AMINO_ACIDS,
    unknown: str = UNKNOWN,
    on_error: str = "raise",
) -> tuple[csr_array, list[Hashable]]:
    r"""Count the words of k letters in each sequence.

    .. math:: x_w = \bigl|\{p : \text{the sequence has } w \text{ at position } p\}\bigr|,
              \qquad w \in \text{alphabet}^k

    A sequence shorter than k has none.

    Parameters
    ----------
    sequences : sequence, mapping of id to sequence, series, or frame with one column of sequences
        n of them. The ids of a pandas series or frame are its index; in another frame of two columns the first
        holds them.
    ids : sequence of length n, optional
        What the sequences are called, where `sequences` has no ids of its own.
    k : int, default=3
        Letters of a word; there may be up to 2²⁴ different words, which is k = 5 for proteins.
    alphabet : str, default="ACDEFGHIKLMNPQRSTVWY"
        The letters, by default the twenty amino acids; for genes "ACGT".
    unknown : str, default="BJOUXZ*"
        Letters that are valid too, but words with one of them are not counted; for genes "N".
    on_error : {"raise", "drop"}, default="raise"
        What to do with sequences that are empty or have other letters: refuse all, or leave those out with a warning.
        Either names them.

    Returns
    -------
    features : sparse array of shape (n_kept, len(alphabet) ** k)
        Words are in the order in which the alphabet is given.
    ids : list of length n_kept
        The ids of the rows, or their positions in `sequences` where there are no ids.

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
    r"""Similarity of sequences by the words of k letters they share.

    .. math:: K_{ij} = \frac{\langle x_i, x_j\rangle}{\|x_i\| \, \|x_j\|}

    x counts the words of a sequence, see `kmer_counts`. It is positive semi-definite; a sequence without any word
    is similar to nothing, itself included.

    Parameters
    ----------
    sequences, ids
        As for `kmer_counts`.
    **counting
        ``k``, ``alphabet``, ``unknown`` and ``on_error``, as for `kmer_counts`.

    Returns
    -------
    K : ndarray of shape (n_kept, n_kept)
    ids : list of length n_kept

    See Also
    --------
    KmerCounts : with ``kernel="cosine"`` in the model behind it, the same for new sequences.

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


@dataclass(eq=False, repr=False)
class KmerCounts(TextFeatures):
    r"""Count the words of k letters in sequences, as the first step of a pipeline.

    With a model of ``kernel="cosine"`` behind it that is the spectrum kernel, also for new sequences:

    .. math:: K_{ij} = \frac{\langle x_i, x_j\rangle}{\|x_i\| \, \|x_j\|}

    `kmer_counts` says what the features are. Nothing is learned from the sequences. One that is not valid is refused
    and named, as a step of a pipeline cannot leave out rows; `kmer_counts` can.

    Parameters
    ----------
    k : int, default=3
        Letters of a word.
    alphabet : str, default="ACDEFGHIKLMNPQRSTVWY"
        The letters; for genes "ACGT".
    unknown : str, default="BJOUXZ*"
        Letters that are valid too, but words with one of them are not counted.

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
        """Return the words, (len(alphabet) ** k,)."""
        return np.array(["".join(letters) for letters in product(self.alphabet, repeat=self.k)], dtype=object)

    def _check_parameters(self) -> None:
        k, alphabet, unknown = self.k, self.alphabet, self.unknown
        if check_whole(k, "k") > _LONGEST:
            raise ValueError(f"k must be at most {_LONGEST}, as longer words are too many to count, found {k!r}.")
        for name, value in (("alphabet", alphabet), ("unknown", unknown)):
            if not isinstance(value, str) or not value.isascii() or value != value.upper():
                raise ValueError(f"{name} must be a text of capital letters, found {value!r}.")
        if not alphabet or len(set(alphabet + unknown)) < len(alphabet + unknown):
            raise ValueError(f"alphabet and unknown must hold different letters, found {alphabet!r} and {unknown!r}.")
        if len(alphabet) ** int(k) > _MOST_COLUMNS:
            words = f"{len(alphabet)} letters make {len(alphabet)}^{k} words"
            raise ValueError(f"{words}, more than {_MOST_COLUMNS} can be counted: use a smaller k.")

    def _computed(self, X: Any, ids: Any = None, on_error: str | None = None) -> tuple[Strings, csr_array]:
        self._check_parameters()
        valid = _valid(X, ids, self.alphabet + self.unknown, on_error)
        return valid, _count_words(valid.values, self.k, self.alphabet)


@dataclass(eq=False, repr=False)
class SmithWaterman(TextStep):
    r"""Align proteins with those of the training, as the first step of a pipeline.

    The model behind it has ``kernel="precomputed"``:

    .. math:: K_{ij} = \frac{s_{ij}}{\sqrt{s_{ii} s_{jj}}}, \qquad j \text{ in the training}

    `smith_waterman` says what the scores are. A sequence that is not valid is refused and named, as a step of a
    pipeline cannot leave out rows; `smith_waterman` can.

    Parameters
    ----------
    matrix : str, default="BLOSUM62"
        Scores for pairs of letters: BLOSUM45, 50, 62, 80 or 90.
    gap_open, gap_extend : float, default=10.0, 0.5
        What the first letter of a gap costs, and every further one: whole or half numbers.
    n_jobs : int or None, default=None
        Number of threads (with parasail) or processes (with biopython), -1 for as many as there are cores.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Attributes
    ----------
    sequences_ : list of length n
        The sequences of the training.
    ids_ : list of length n
        Their ids, or positions where they came without.
    self_scores_ : ndarray of shape (n,)
        The score of each aligned with itself.

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
        """Keep the sequences to align others with.

        Parameters
        ----------
        X : sequence, series or one-column frame of n sequences
        y : ignored
        """
        self._kept(X)
        return self

    def transform(self, X: Any) -> Any:
        """Return the similarities to the sequences of the training.

        Parameters
        ----------
        X : sequence, series or one-column frame of n_new sequences

        Returns
        -------
        ndarray, or frame, of shape (n_new, n)
            A frame or series gives a frame with the same ids and, as columns, those of the training.
        """
        check_is_fitted(self)
        self._check_parameters()
        valid = _valid(X, None, LETTERS, None)
        scores = self._scores(valid.values, self.sequences_)
        return valid.write(normalize(scores, self._self_scores(valid.values), self.self_scores_), self._column_ids)

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
        valid = self._kept(X)
        return valid.write(normalize(self._scores(valid.values)), self._column_ids)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the ids of the training, (n,), as text."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.ids_], dtype=object)

    def _kept(self, X: Any) -> Strings:
        """Return sequences that are kept to align others with."""
        self._check_parameters()
        valid = _valid(X, None, LETTERS, None)
        self.self_scores_ = self._self_scores(valid.values)
        self.sequences_, self.ids_, self._column_ids = valid.values, valid.labels, valid.ids
        return valid

    def _check_parameters(self) -> None:
        check_choice(self.matrix, "matrix", _MATRICES)
        for name in ("gap_open", "gap_extend"):
            value = check_alpha(getattr(self, name), name)
            if not (_SCALE * value).is_integer():
                raise ValueError(f"{name} must be a whole or half number, found {value!r}.")
        if self.gap_extend > self.gap_open:
            found = f"found {self.gap_extend:g} and {self.gap_open:g}"
            raise ValueError(f"gap_extend must not exceed gap_open, {found}.")

    def _scores(self, rows: list[str], columns: list[str] | None = None) -> np.ndarray:
        """Score the best local alignment of every row with every column, shape (n_a, n_b).

        Without columns the rows are aligned with each other, each pair once; equal sequences are aligned once only.
        """
        # The longest first, so that no core is left with much to do when the others have finished.
        queries = sorted(dict.fromkeys(rows), key=len, reverse=True)
        targets = queries if columns is None else list(dict.fromkeys(columns))
        engine = _engine()
        jobs = (
            delayed(engine)(query, targets[position:] if columns is None else targets, *self._costs)
            for position, query in enumerate(queries)
        )
        # parasail computes outside the interpreter's lock, biopython does not.
        prefer = "threads" if engine is _by_parasail else "processes"
        finished = Parallel(n_jobs=self.n_jobs, prefer=prefer, return_as="generator")(jobs)
        scores = np.empty((len(queries), len(targets)))
        with Progress(len(queries), "Aligning", self.progress) as bar:
            for position, found in enumerate(finished):
                if columns is None:
                    scores[position, position:] = scores[position:, position] = found
                else:
                    scores[position] = found
                bar.advance()
        places = _places(rows, queries)
        others = places if columns is None else _places(columns, targets)
        return np.asarray(scores[np.ix_(places, others)])

    def _self_scores(self, sequences: list[str]) -> np.ndarray:
        """Score every sequence aligned with itself, (n,)."""
        engine = _engine()
        return np.array([engine(sequence, [sequence], *self._costs)[0] for sequence in sequences])

    @property
    def _costs(self) -> tuple[str, float, float]:
        return self.matrix, float(self.gap_open), float(self.gap_extend)


def _valid(texts: Any, ids: Any, letters: str, on_error: str | None) -> Strings:
    """Return sequences in capital letters, without blanks, of which each has at least one and none but `letters`."""
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
        # One by one, as the capital of a letter can be two.
        odd = sorted({letter for letter in letters_found if letter.upper() not in allowed})
        if odd or not letters_found:
            wrong[position] = "with " + ", ".join(map(repr, odd[:5])) if odd else "empty"
    return replace(sequences, values=values).sift(wrong, on_error)


def _count_words(sequences: list[str], k: int, alphabet: str) -> csr_array:
    """Count the words of k letters of the alphabet, (n, len(alphabet) ** k)."""
    digit = np.full(256, -1)
    digit[np.frombuffer(alphabet.encode(), dtype=np.uint8)] = np.arange(len(alphabet))
    found: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    for sequence in sequences:
        digits = digit[np.frombuffer(sequence.encode(), dtype=np.uint8)]
        n_words = max(len(digits) - k + 1, 0)
        words, known = np.zeros(n_words, dtype=np.int64), np.ones(n_words, dtype=bool)
        for offset in range(k):
            letters = digits[offset : offset + n_words]
            words = len(alphabet) * words + letters
            known &= letters >= 0
        word, count = np.unique(words[known], return_counts=True)
        found.append(word)
        counts.append(count)
    ends = np.cumsum([0, *map(len, found)])
    # Short indices, as some functions of scikit-learn refuse others.
    indices = np.concatenate(found).astype(np.int32)
    return csr_array((np.concatenate(counts), indices, ends), shape=(len(sequences), len(alphabet) ** k))


def _engine() -> Any:
    """Return the function that aligns one sequence with many."""
    if find_spec("parasail"):
        return _by_parasail
    imported("Bio", "Aligning", "parasail or biopython", extra="bio")
    return _by_biopython


def _by_parasail(query: str, targets: list[str], name: str, gap_open: float, gap_extend: float) -> np.ndarray:
    import parasail

    matrix, best = _scaled_matrix(name)
    # No score of the query can be higher: it decides how many bits are needed, and what gap is never worth its cost.
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
    return scaled, {letter: _SCALE * int(highest[original.mapper[ord(letter)]]) for letter in LETTERS}


def _by_biopython(query: str, targets: list[str], name: str, gap_open: float, gap_extend: float) -> np.ndarray:
    from Bio import Align

    matrix = Align.substitution_matrices.load(name)
    gaps = {"open_gap_score": -gap_open, "extend_gap_score": -gap_extend}
    aligner = Align.PairwiseAligner(mode="local", substitution_matrix=matrix, **gaps)
    return np.array([aligner.score(query, target) for target in targets])


def _places(wanted: list[str], sequences: list[str]) -> np.ndarray:
    """Return where each of `wanted` stands among distinct `sequences`."""
    place = {sequence: position for position, sequence in enumerate(sequences)}
    return np.array([place[sequence] for sequence in wanted], dtype=np.intp)
