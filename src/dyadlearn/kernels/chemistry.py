"""Fingerprints and descriptors of molecules from SMILES.

Needs rdkit: ``pip install dyadlearn[chem]``. It is imported when the first molecule is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dyadlearn._checks import check_choice, check_whole, warn_renamed
from dyadlearn._files.packed import imported
from dyadlearn.kernels._strings import Strings, TextFeatures, read_strings, shortened

__all__ = ["Fingerprints", "canonical_smiles", "fingerprints", "scaffolds", "usual_kernel"]


def __getattr__(name: str) -> Any:
    """Return the class of a deprecated name."""
    if name != "MorganFingerprints":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(
        "MorganFingerprints", "Fingerprints, whose first parameter is kind; name the others"
    )
    return partial(Fingerprints, "morgan")


# Largest radius; the time for a molecule grows with the radius, even if the molecule is small.
_WIDEST = 100

# Descriptors of rdkit, and the number that each is divided by: about its standard deviation in
# molecules of the size of drugs (kinase inhibitors of KIBA and Davis), rounded.
_DESCRIPTORS = {
    "MolWt": 75.0,
    "MolLogP": 1.25,
    "MolMR": 20.0,
    "TPSA": 25.0,
    "LabuteASA": 30.0,
    "NumHDonors": 1.0,
    "NumHAcceptors": 1.5,
    "NumRotatableBonds": 2.0,
    "NumHeteroatoms": 2.0,
    "RingCount": 1.0,
    "NumAromaticRings": 1.0,
    "NumAliphaticRings": 0.75,
    "NumSaturatedRings": 0.5,
    "NumAromaticHeterocycles": 1.0,
    "FractionCSP3": 0.15,
    "BertzCT": 250.0,
    "BalabanJ": 0.3,
    "Kappa2": 2.0,
    "Kappa3": 1.25,
    "HallKierAlpha": 0.75,
}
# Number of keys of MACCS, with the unused key 0.
_N_MACCS = 167
#: Kinds of fingerprints by name.
KINDS = ("morgan", "feature_morgan", "atom_pairs", "torsions", "paths", "maccs", "descriptors")


def fingerprints(
    smiles: Any,
    ids: Sequence[Hashable] | None = None,
    *,
    kind: str = "morgan",
    radius: int = 2,
    n_bits: int = 2048,
    counts: bool = False,
    on_error: str = "raise",
) -> tuple[Any, list[Hashable]]:
    r"""Compute fingerprints: which substructures each molecule has, or its descriptors.

    A hash function h gives a number to every substructure of a kind. The features are

    .. math:: x_b = \bigl|\{\text{substructures } s : h(s) \equiv b \bmod \text{n\_bits}\}\bigr|,
              \qquad b = 0, \dots, \text{n\_bits} - 1,

    With ``counts=False`` every positive x_b is replaced by 1. The kinds, as rdkit defines them, are

    - ``"morgan"``: neighbourhoods of up to `radius` bonds around every atom. With ``radius=2``
      they are known as ECFP4, because the diameter is 4;
    - ``"feature_morgan"``: the same, of atoms that are told apart by their role only, such as
      donor or acceptor (FCFP);
    - ``"atom_pairs"``: pairs of atoms with the number of bonds between them;
    - ``"torsions"``: paths of four atoms;
    - ``"paths"``: paths and branched groups of up to seven bonds;
    - ``"maccs"``: 166 keys, which are questions about the molecule. There are 167 features, of
      which the first is not used;
    - ``"descriptors"``: 20 numbers, such as the weight, log P and the polar surface. Each is
      divided by about its standard deviation among drugs, a constant. The kernel for them is
      "rbf".

    Parameters
    ----------
    smiles : sequence, mapping of id to SMILES, series, or frame with one column of SMILES
        The n molecules. The ids of a pandas series or frame are its index; those of another frame
        of two columns are its first column.
    ids : sequence of length n, optional
        Ids of the molecules, if `smiles` has none.
    kind : {"morgan", "feature_morgan", "atom_pairs", "torsions", "paths", "maccs", "descriptors"}
        Kind of the substructures, by default "morgan".
    radius : int, default=2
        Maximum number of bonds from the centre of a neighbourhood; only Morgan fingerprints use it.
    n_bits : int, default=2048
        Number of features; MACCS keys and descriptors ignore it. Different substructures may share
        a feature; this is more frequent if there are few.
    counts : bool, default=False
        Whether to count how often a substructure occurs; the kernel for counts is "minmax". MACCS
        keys have no counts.
    on_error : {"raise", "drop"}, default="raise"
        What to do if a text is not a valid molecule: raise an error, or leave it out with a
        warning. Both messages name the invalid texts.

    Returns
    -------
    features : sparse array of shape (n_kept, n_features)
        Zeros and ones, or counts. A few dozen entries of each row are stored. Descriptors are a
        dense array.
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
    Fingerprints : the same features as a pipeline step.
    usual_kernel : the kernel for a kind of fingerprints.
    dyadlearn.kernels.tanimoto : the usual kernel for fingerprints.

    Examples
    --------
    >>> from dyadlearn.kernels import tanimoto
    >>> from dyadlearn.kernels.chemistry import fingerprints
    >>> molecules = {"ethanol": "CCO", "propanol": "CCCO", "benzene": "c1ccccc1"}
    >>> features, ids = fingerprints(molecules)
    >>> features.shape, ids
    ((3, 2048), ['ethanol', 'propanol', 'benzene'])
    >>> tanimoto(features).round(2)
    array([[1.  , 0.56, 0.  ],
           [0.56, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    >>> tanimoto(fingerprints(molecules, kind="atom_pairs")[0])[0].round(2)
    array([1.  , 0.33, 0.  ])
    """
    molecules, features = Fingerprints(kind, radius, n_bits, counts)._computed(
        smiles, ids, on_error
    )
    return features, molecules.labels


def usual_kernel(kind: str = "morgan", counts: bool = False) -> str:
    """Return the name of the usual kernel for a kind of fingerprints.

    Parameters
    ----------
    kind, counts : as in `fingerprints`

    Examples
    --------
    >>> from dyadlearn.kernels.chemistry import usual_kernel
    >>> usual_kernel("maccs"), usual_kernel("atom_pairs", counts=True), usual_kernel("descriptors")
    ('tanimoto', 'minmax', 'rbf')
    """
    if check_choice(kind, "kind", KINDS) == "descriptors":
        return "rbf"
    return "minmax" if counts else "tanimoto"


@dataclass(eq=False, repr=False)
class Fingerprints(TextFeatures):
    r"""Compute fingerprints or descriptors from SMILES, as the first step of a pipeline.

    The pipeline takes SMILES in `fit` and in `predict`. With the Tanimoto kernel in the model, its
    kernel is

    .. math:: K_{ij} = \text{tanimoto}\bigl(x(\text{smiles}_i), x(\text{smiles}_j)\bigr)

    The features are those of `fingerprints`. Nothing is learned from the molecules. A text that is
    not a valid molecule raises an error that names it: a pipeline step cannot leave out rows, but
    `fingerprints` can.

    Parameters
    ----------
    kind : str, default="morgan"
        Kind of the substructures, as in `fingerprints`.
    radius : int, default=2
        Maximum number of bonds from the centre of a neighbourhood of atoms.
    n_bits : int, default=2048
        Number of features.
    counts : bool, default=False
        Whether to count how often a substructure occurs; the kernel for counts is "minmax".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import Pipeline
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.kernels.chemistry import Fingerprints
    >>> model = Pipeline([("fingerprint", Fingerprints()), ("model", TwoStepRidge(kernel="tanimoto", alpha=0.1))])
    >>> Y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> model = model.fit(["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1"], Y)
    >>> model.predict(["CCCCO", "CCc1ccccc1"]).round(1)
    array([[0.8, 0.2],
           [0.4, 0.6]])
    """

    kind: str = "morgan"
    radius: int = 2
    n_bits: int = 2048
    counts: bool = False

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, (n_features,)."""
        if self.kind == "descriptors":
            return np.array(list(_DESCRIPTORS), dtype=object)
        if self.kind == "maccs":
            return np.array([f"key_{key}" for key in range(_N_MACCS)], dtype=object)
        return np.array([f"bit_{bit}" for bit in range(self.n_bits)], dtype=object)

    def _check_parameters(self) -> None:
        check_choice(self.kind, "kind", KINDS)
        check_whole(self.radius, "radius", 0, _WIDEST)
        check_whole(self.n_bits, "n_bits", 1, 2**31 - 1)
        if self.counts and self.kind in ("maccs", "descriptors"):
            raise ValueError(
                f"Fingerprints of the kind {self.kind} have no counts: leave counts out."
            )

    def _computed(
        self, X: Any, ids: Any = None, on_error: str | None = None
    ) -> tuple[Strings, Any]:
        """Return the valid texts, and the features of their molecules."""
        self._check_parameters()
        valid, molecules = _read(X, ids, on_error)
        if self.kind == "descriptors":
            return valid, _descriptors(molecules)
        n_bits = _N_MACCS if self.kind == "maccs" else int(self.n_bits)
        counts_of = self._counter()
        bits: list[int] = []
        counts: list[int] = []
        ends = [0]
        for molecule in molecules:
            count_of_bit = counts_of(molecule)
            bits += count_of_bit.keys()
            counts += count_of_bit.values()
            ends.append(len(bits))
        if self.counts:
            entries = np.array(counts, dtype=np.int32)
        else:
            entries = np.ones(len(bits), dtype=np.uint8)
        shape = (len(molecules), n_bits)
        return valid, csr_array((entries, np.array(bits, dtype=np.int32), ends), shape=shape)

    def _counter(self) -> Callable[[Any], dict[int, int]]:
        """Return the function that counts the substructures of a molecule by their feature."""
        from rdkit.Chem import rdFingerprintGenerator

        if self.kind == "maccs":
            from rdkit.Chem.rdMolDescriptors import GetMACCSKeysFingerprint

            return lambda molecule: dict.fromkeys(GetMACCSKeysFingerprint(molecule).GetOnBits(), 1)
        size: dict[str, Any] = {"fpSize": int(self.n_bits)}
        if self.kind == "morgan":
            generator = rdFingerprintGenerator.GetMorganGenerator(radius=int(self.radius), **size)
        elif self.kind == "feature_morgan":
            atoms = rdFingerprintGenerator.GetMorganFeatureAtomInvGen()
            generator = rdFingerprintGenerator.GetMorganGenerator(
                radius=int(self.radius), atomInvariantsGenerator=atoms, **size
            )
        else:
            make: dict[str, Any] = {
                "atom_pairs": rdFingerprintGenerator.GetAtomPairGenerator,
                "torsions": rdFingerprintGenerator.GetTopologicalTorsionGenerator,
                "paths": rdFingerprintGenerator.GetRDKitFPGenerator,
            }
            generator = make[self.kind](**size)
        return lambda molecule: generator.GetCountFingerprint(molecule).GetNonzeroElements()


def _descriptors(molecules: list[Any]) -> np.ndarray:
    """Return descriptors of molecules, divided by their usual deviations, (n, 20)."""
    from rdkit.Chem import Descriptors

    functions = dict(Descriptors.descList)
    values = np.empty((len(molecules), len(_DESCRIPTORS)))
    for column, (name, scale) in enumerate(_DESCRIPTORS.items()):
        values[:, column] = [functions[name](molecule) / scale for molecule in molecules]
    return values


def canonical_smiles(
    smiles: Any, ids: Sequence[Hashable] | None = None, *, on_error: str | None = "raise"
) -> tuple[list[str], list[Hashable]]:
    """Return the canonical SMILES of each molecule: equal for all ways to write it.

    Parameters
    ----------
    smiles, ids, on_error : as in `fingerprints`

    Returns
    -------
    texts : list of length n_kept
    ids : list of length n_kept
        The ids of the molecules, or their positions in `smiles` if there are no ids.

    Examples
    --------
    >>> from dyadlearn.kernels.chemistry import canonical_smiles
    >>> canonical_smiles(["OCC", "C(O)C", "C1=CC=CC=C1"])
    (['CCO', 'CCO', 'c1ccccc1'], [0, 1, 2])
    """
    texts, molecules = _read(smiles, ids, on_error)
    from rdkit.Chem import MolToSmiles

    return [MolToSmiles(molecule) for molecule in molecules], texts.labels


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
