"""Words of a fixed number of letters, counted in sequences."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array

__all__ = ["AMINO_ACIDS", "UNKNOWN", "check_words", "count_words"]

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
#: Amino acids that are rare, or not known exactly, and a stop.
UNKNOWN = "BJOUXZ*"

# Beyond this many columns, matrix products spend more memory on counting columns than on the sequences.
_MOST_COLUMNS = 2**24
# The longest words of two letters that are so few; a larger k would take long merely to be raised to a power.
_LONGEST = 24


def check_words(k: Any, alphabet: Any, unknown: Any) -> None:
    """Refuse words that cannot be counted."""
    if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 1:
        raise ValueError(f"k must be a whole number of at least 1, found {k!r}.")
    if int(k) > _LONGEST:
        raise ValueError(f"k must be at most {_LONGEST}, as longer words are too many to count, found {k!r}.")
    for name, value in (("alphabet", alphabet), ("unknown", unknown)):
        if not isinstance(value, str) or not value.isascii() or value != value.upper():
            raise ValueError(f"{name} must be a text of capital letters, found {value!r}.")
    if not alphabet or len(set(alphabet + unknown)) < len(alphabet + unknown):
        raise ValueError(f"alphabet and unknown must hold different letters, found {alphabet!r} and {unknown!r}.")
    if len(alphabet) ** int(k) > _MOST_COLUMNS:
        raise ValueError(
            f"{len(alphabet)} letters make {len(alphabet)}^{k} words, more than {_MOST_COLUMNS} can be counted: "
            "use a smaller k."
        )


def count_words(sequences: list[str], k: int, alphabet: str) -> csr_array:
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
