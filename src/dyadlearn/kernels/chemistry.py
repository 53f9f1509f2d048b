"""Fingerprints of molecules from SMILES, for the Tanimoto kernel.

Needs rdkit: ``pip install dyadlearn[chem]``. It is imported when the first molecule is read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dyadlearn._checks import check_whole
from dyadlearn._files.packed import imported
from dyadlearn.kernels._strings import Strings, TextFeatures, read_strings, shortened

__all__ = ["MorganFingerprints", "fingerprints", "scaffolds"]

# Largest radius; the time for a molecule grows with the radius, even if the molecule is small.
_WIDEST = 100


def fingerprints(
    smiles: Any,
    ids: Sequence[Hashable] | None = None,
    *,
    radius: int = 2,
    n_bits: int = 2048,
    counts: bool = False,
    on_error: str = "raise",
) -> tuple[csr_array, list[Hashable]]:
    r"""Compute Morgan fingerprints: the circular neighbourhoods of atoms that each molecule has.

    A hash function h gives a number to every neighbourhood of up to `radius` bonds around every
    atom. The features are

    .. math:: x_b = \bigl|\{\text{neighbourhoods } s : h(s) \equiv b \bmod \text{n\_bits}\}\bigr|,
              \qquad b = 0, \dots, \text{n\_bits} - 1,

    With ``counts=False`` every positive x_b is replaced by 1. With ``radius=2`` the fingerprints
    are known as ECFP4, because the diameter is 4.

    Parameters
    ----------
    smiles : sequence, mapping of id to SMILES, series, or frame with one column of SMILES
        The n molecules. The ids of a pandas series or frame are its index; those of another frame
        of two columns are its first column.
    ids : sequence of length n, optional
        Ids of the molecules, if `smiles` has none.
    radius : int, default=2
        Maximum number of bonds from the centre of a neighbourhood.
    n_bits : int, default=2048
        Number of features. Different neighbourhoods may share a feature; this is more frequent if
        there are few.
    counts : bool, default=False
        Whether to count how often a neighbourhood occurs; the kernel for counts is "minmax".
    on_error : {"raise", "drop"}, default="raise"
        What to do if a text is not a valid molecule: raise an error, or leave it out with a
        warning. Both messages name the invalid texts.

    Returns
    -------
    features : sparse array of shape (n_kept, n_bits)
        Zeros and ones, or counts. A few dozen entries of each row are stored.
    ids : list of length n_kept
        The ids of the rows, or their positions in `smiles` if there are no ids.

    Raises
    ------
    ValueError
        If a text is not a valid molecule (the message lists their ids), or if a parameter is out of
        range.
    ImportError
        If rdkit is not installed.

    See Also
    --------
    MorganFingerprints : the same features as a pipeline step.
    dyadlearn.kernels.tanimoto : the usual kernel for fingerprints.

    Examples
    --------
    >>> from dyadlearn.kernels import tanimoto
    >>> from dyadlearn.kernels.chemistry import fingerprints
    >>> features, ids = fingerprints({"ethanol": "CCO", "propanol": "CCCO", "benzene": "c1ccccc1"})
    >>> features.shape, ids
    ((3, 2048), ['ethanol', 'propanol', 'benzene'])
    >>> tanimoto(features).round(2)
    array([[1.  , 0.56, 0.  ],
           [0.56, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    molecules, features = MorganFingerprints(radius, n_bits, counts)._computed(
        smiles, ids, on_error
    )
    return features, molecules.labels


@dataclass(eq=False, repr=False)
class MorganFingerprints(TextFeatures):
    r"""Compute Morgan fingerprints from SMILES, as the first step of a pipeline.

    The pipeline takes SMILES in `fit` and in `predict`. With the Tanimoto kernel in the model, its
    kernel is

    .. math:: K_{ij} = \text{tanimoto}\bigl(x(\text{smiles}_i), x(\text{smiles}_j)\bigr)

    The features are those of `fingerprints`. Nothing is learned from the molecules. A text that is
    not a valid molecule raises an error that names it: a pipeline step cannot leave out rows, but
    `fingerprints` can.

    Parameters
    ----------
    radius : int, default=2
        Maximum number of bonds from the centre of a neighbourhood of atoms.
    n_bits : int, default=2048
        Number of features.
    counts : bool, default=False
        Whether to count how often a neighbourhood occurs; the kernel for counts is "minmax".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import Pipeline
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.kernels.chemistry import MorganFingerprints
    >>> model = Pipeline([("fingerprint", MorganFingerprints()), ("model", TwoStepRidge(kernel="tanimoto", alpha=0.1))])
    >>> Y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> model = model.fit(["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1"], Y)
    >>> model.predict(["CCCCO", "CCc1ccccc1"]).round(1)
    array([[0.8, 0.2],
           [0.4, 0.6]])
    """

    radius: int = 2
    n_bits: int = 2048
    counts: bool = False

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, (n_bits,)."""
        return np.array([f"bit_{bit}" for bit in range(self.n_bits)], dtype=object)

    def _check_parameters(self) -> None:
        check_whole(self.radius, "radius", 0, _WIDEST)
        check_whole(self.n_bits, "n_bits", 1, 2**31 - 1)

    def _computed(
        self, X: Any, ids: Any = None, on_error: str | None = None
    ) -> tuple[Strings, csr_array]:
        """Return the valid texts, and the fingerprints of their molecules."""
        self._check_parameters()
        valid, molecules = _read(X, ids, on_error)
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

        generator = GetMorganGenerator(radius=int(self.radius), fpSize=int(self.n_bits))
        bits: list[int] = []
        counts: list[int] = []
        ends = [0]
        for molecule in molecules:
            count_of_bit = generator.GetCountFingerprint(molecule).GetNonzeroElements()
            bits += count_of_bit.keys()
            counts += count_of_bit.values()
            ends.append(len(bits))
        if self.counts:
            entries = np.array(counts, dtype=np.int32)
        else:
            entries = np.ones(len(bits), dtype=np.uint8)
        shape = (len(molecules), int(self.n_bits))
        return valid, csr_array((entries, np.array(bits, dtype=np.int32), ends), shape=shape)


def scaffolds(smiles: Any) -> list[str]:
    """Return the Murcko scaffold of each molecule: its rings and the chains between them.

    Passed as `groups` of instances or `task_groups` of tasks, they leave out molecules with the
    same scaffold together. Molecules without a ring have the scaffold "" and form one group.

    Parameters
    ----------
    smiles : sequence, mapping of id to SMILES, series, or frame with one column of SMILES
        The n molecules. A text that is not a valid molecule raises an error that names it.

    Returns
    -------
    list of str
        SMILES of the scaffolds, in the order of the molecules.

    Examples
    --------
    >>> from dyadlearn.kernels.chemistry import scaffolds
    >>> scaffolds(["Cc1ccccc1", "CCc1ccccc1", "CCO"])
    ['c1ccccc1', 'c1ccccc1', '']
    """
    _, molecules = _read(smiles, None, None)
    from rdkit.Chem import MolToSmiles
    from rdkit.Chem.Scaffolds.MurckoScaffold import GetScaffoldForMol

    return [MolToSmiles(GetScaffoldForMol(molecule)) for molecule in molecules]  # type: ignore[no-untyped-call]


def _read(smiles: Any, ids: Any, on_error: str | None) -> tuple[Strings, list[Any]]:
    """Return the valid texts, and their molecules."""
    texts = read_strings(smiles, "molecules", ids)
    imported("rdkit", "Reading molecules", "rdkit", extra="chem")
    from rdkit import Chem, rdBase

    molecules: list[Any] = []
    wrong: dict[int, str] = {}
    # rdkit logs a line for every molecule it cannot read; our error lists them all at once.
    with rdBase.BlockLogs():
        for position, text in enumerate(texts.values):
            # rdkit treats text after a blank as a comment, so that "C C" would be read as methane.
            clean = isinstance(text, str) and text.isascii() and len(text.split()) == 1
            molecule = Chem.MolFromSmiles(text.strip()) if clean else None
            if molecule is not None:
                molecules.append(molecule)
            else:
                wrong[position] = shortened(text)
    return texts.sift(wrong, on_error), molecules
