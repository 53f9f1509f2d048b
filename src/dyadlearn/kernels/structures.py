"""Entities that are described by their structure alone: molecules by SMILES, proteins by sequence."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyadlearn._array import Array
from dyadlearn._checks import caller_level, check_choice
from dyadlearn._codes import Column, missing
from dyadlearn._state import Stored
from dyadlearn.kernels.chemistry import canonical_smiles, fingerprints, usual_kernel
from dyadlearn.kernels.sequences import (
    SmithWaterman,
    clean_sequences,
    kmer_counts,
    smith_waterman,
    usual_sequence_kernel,
)

__all__ = ["Structures"]

_KERNELS = ("smith-waterman", "spectrum")


@dataclass(frozen=True)
class Structures(Stored):
    """Description of entities whose ids are their structures, for `PairRegressor`.

    A `PairRegressor` with ``instances=Structures("smiles")`` takes SMILES as instance ids, and
    computes their fingerprints when it needs them, for molecules of training and for new ones.
    Molecules are told apart by their canonical SMILES, proteins by their letters.

    Parameters
    ----------
    kind : {"smiles", "sequences"}
    kernel : str, default=None
        Kernel of the model: for sequences "smith-waterman" or "spectrum", see
        `dyadlearn.kernels.sequences`; for SMILES any kernel of features. None means the usual one.
    options : dict, default={}
        Options of `dyadlearn.kernels.chemistry.fingerprints`, such as ``{"kind": "atom_pairs"}``, of
        `dyadlearn.kernels.sequences.kmer_counts` or of `smith_waterman`.

    Examples
    --------
    >>> from dyadlearn.kernels import Structures
    >>> drugs = Structures("smiles", options={"kind": "atom_pairs"})
    >>> drugs.read(["OCC", "CCO", None])
    ['CCO', 'CCO', None]
    >>> drugs.of_model, drugs.features(["CCO", "CCN"]).shape
    ('tanimoto', (2, 2048))
    """

    kind: str
    kernel: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(self.kind, "kind", ("smiles", "sequences"))
        if self.kind == "sequences" and self.kernel is not None:
            check_choice(self.kernel, "kernel", _KERNELS)

    @property
    def of_model(self) -> str:
        """The parameter `kernel` of a model of these structures."""
        if self.kind == "sequences":
            if self.kernel == "spectrum":
                return "cosine"
            return "precomputed"
        if self.kernel is not None:
            return self.kernel
        kind = str(self.options.get("kind", "morgan"))
        return usual_kernel(kind, bool(self.options.get("counts", False)))

    def chosen(self, texts: Sequence[Any]) -> Structures:
        """Return the structures with the usual kernel for these texts; warn if it is not that of few sequences."""
        if self.kind != "sequences" or self.kernel is not None:
            return self
        kernel, reason = usual_sequence_kernel([text for text in texts if text is not None])
        if reason:
            warnings.warn(
                f'{reason} Pass sequence_kernel="smith-waterman" to align them, or "spectrum" to '
                f"leave this out.",
                UserWarning,
                stacklevel=caller_level(),
            )
        return Structures(self.kind, kernel, self.options)

    def read(self, column: Column, *, skip_invalid: bool = False) -> list[Any]:
        """Return the id of each structure: its canonical text; None where it is missing.

        Parameters
        ----------
        column : sequence of str or None
        skip_invalid : bool, default=False
            Whether structures that cannot be read are None instead of an error.
        """
        absent = missing(column)
        texts = [None if lacks else text for text, lacks in zip(column, absent, strict=True)]
        first: dict[Any, str] = {}
        for row, text in enumerate(texts):
            if text is not None:
                first.setdefault(text, f"row {row}")
        if not first:
            return texts
        read = canonical_smiles if self.kind == "smiles" else clean_sequences
        on_error = "skip" if skip_invalid else None
        valid, rows = read(list(first), list(first.values()), on_error=on_error)
        text_at = {row: text for text, row in first.items()}
        clean = {text_at[str(row)]: text for row, text in zip(rows, valid, strict=True)}
        return [clean.get(text) for text in texts]

    def features(self, texts: Sequence[Hashable], training: Sequence[Hashable] = ()) -> Array:
        """Return the features of structures, or their alignments with those of training.

        Parameters
        ----------
        texts : sequence of str
        training : sequence of str
            Structures of training, which the columns of alignments belong to.
        """
        rows = list(texts)
        if self.kind == "smiles":
            return fingerprints(rows, **self.options)[0]
        if self.kernel == "spectrum":
            return kmer_counts(rows, **self.options)[0]
        if rows == list(training):
            return smith_waterman(rows, **self.options)[0]
        return np.asarray(SmithWaterman(**self.options).fit(list(training)).transform(rows))
