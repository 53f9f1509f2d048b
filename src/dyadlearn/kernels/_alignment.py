"""Scores of the best local alignments, by parasail or, where that is not installed, by biopython."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from dyadlearn._checks import check_choice
from dyadlearn._progress import Progress
from dyadlearn.kernels._strings import optional_module

__all__ = ["LETTERS", "Scoring", "alignment_scores", "self_scores"]

#: Amino acids, then B, Z and X for those not known exactly, and * for a stop: the rows of every BLOSUM matrix.
LETTERS = "ARNDCQEGHILKMFPSTWYVBZX*"

_MATRICES = ("BLOSUM45", "BLOSUM50", "BLOSUM62", "BLOSUM80", "BLOSUM90")


@dataclass(frozen=True)
class Scoring:
    """What an alignment gains and loses: pairs of letters by the matrix, a gap of n letters open + (n − 1) extend."""

    matrix: str
    gap_open: float
    gap_extend: float

    def __post_init__(self) -> None:
        check_choice(self.matrix, "matrix", _MATRICES)
        for name in ("gap_open", "gap_extend"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, found {value!r}.")
            if abs(_fraction(float(value)) - float(value)) > 1e-9:
                raise ValueError(f"{name} must have at most two decimals, found {value!r}.")
        if self.gap_extend > self.gap_open:
            raise ValueError(
                f"gap_extend must not exceed gap_open, found {self.gap_extend:g} and {self.gap_open:g}: "
                "a longer gap would be better cut in two."
            )

    @property
    def scale(self) -> int:
        """The smallest factor that makes all scores whole numbers."""
        return math.lcm(_fraction(self.gap_open).denominator, _fraction(self.gap_extend).denominator)


def alignment_scores(
    rows: list[str], columns: list[str] | None, scoring: Scoring, *, n_jobs: int | None, progress: bool | None
) -> np.ndarray:
    """Score the best local alignment of every row with every column.

    Equal sequences are aligned once only.

    Parameters
    ----------
    rows : list of n_a sequences
    columns : list of n_b sequences, or None
        None aligns the rows with each other, each pair once.
    scoring : Scoring
    n_jobs : int or None
    progress : bool or None
        Whether to show a bar; None shows one on a terminal.

    Returns
    -------
    ndarray of shape (n_a, n_b)
    """
    # The longest first, so that no core is left with much to do when the others have finished.
    queries = sorted(dict.fromkeys(rows), key=len, reverse=True)
    targets = queries if columns is None else list(dict.fromkeys(columns))
    engine = _engine()
    jobs = (
        delayed(engine)(query, targets[position:] if columns is None else targets, scoring)
        for position, query in enumerate(queries)
    )
    # parasail computes outside the interpreter's lock, biopython does not.
    prefer = "threads" if engine is _by_parasail else "processes"
    finished = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")(jobs)
    scores = np.empty((len(queries), len(targets)))
    with Progress(len(queries), "Aligning", progress) as bar:
        for position, found in enumerate(finished):
            if columns is None:
                scores[position, position:] = scores[position:, position] = found
            else:
                scores[position] = found
            bar.advance()
    places = _places(rows, queries)
    others = places if columns is None else _places(columns, targets)
    return np.asarray(scores[np.ix_(places, others)])


def self_scores(sequences: list[str], scoring: Scoring) -> np.ndarray:
    """Score every sequence aligned with itself, (n,)."""
    engine = _engine()
    return np.array([engine(sequence, [sequence], scoring)[0] for sequence in sequences])


def _engine() -> Any:
    """Return the function that aligns one sequence with many."""
    if find_spec("parasail"):
        return _by_parasail
    optional_module("Bio", "parasail or biopython", "bio")
    return _by_biopython


def _by_parasail(query: str, targets: list[str], scoring: Scoring) -> np.ndarray:
    parasail = optional_module("parasail", "parasail", "bio")
    scale = scoring.scale
    matrix, best = _scaled_matrix(scoring.matrix, scale)
    # No score of the query can be higher: it decides how many bits are needed, and what gap is never worth its cost.
    bound = sum(best[letter] for letter in query)
    bits = 16 if bound < 2**14 else 32
    gap_open = min(int(scale * _fraction(scoring.gap_open)), bound + 1)
    gap_extend = min(int(scale * _fraction(scoring.gap_extend)), bound + 1)
    profile = getattr(parasail, f"profile_create_{bits}")(query, matrix)
    # Of its methods, "striped" misses alignments in which one gap follows the other.
    align = getattr(parasail, f"sw_scan_profile_{bits}")
    return np.array([align(profile, target, gap_open, gap_extend).score for target in targets]) / scale


@lru_cache(maxsize=8)
def _scaled_matrix(name: str, scale: int) -> tuple[Any, dict[str, int]]:
    """Return a matrix with all scores multiplied by `scale`, and the highest score of each letter."""
    parasail = optional_module("parasail", "parasail", "bio")
    original = getattr(parasail, name.lower())
    scaled = original.copy()
    for (row, column), score in np.ndenumerate(original.matrix):
        scaled[row, column] = scale * int(score)
    highest = np.maximum(original.matrix.max(axis=1), 0)
    return scaled, {letter: scale * int(highest[original.mapper[ord(letter)]]) for letter in LETTERS}


def _by_biopython(query: str, targets: list[str], scoring: Scoring) -> np.ndarray:
    align = optional_module("Bio.Align", "parasail or biopython", "bio")
    aligner = align.PairwiseAligner(
        mode="local",
        substitution_matrix=align.substitution_matrices.load(scoring.matrix),
        open_gap_score=-float(scoring.gap_open),
        extend_gap_score=-float(scoring.gap_extend),
    )
    return np.array([aligner.score(query, target) for target in targets])


def _fraction(gap: float) -> Fraction:
    return Fraction(round(100 * gap), 100)


def _places(wanted: list[str], sequences: list[str]) -> np.ndarray:
    """Return where each of `wanted` stands among distinct `sequences`."""
    place = {sequence: position for position, sequence in enumerate(sequences)}
    return np.array([place[sequence] for sequence in wanted], dtype=np.intp)
