"""Drugs, kinases and their KIBA scores: a large grid, three quarters of which nobody measured."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn._files.packed import read_arrays
from dyadlearn._tables import Ids, Table, make_ids
from dyadlearn.datasets._home import (
    DataFolder,
    DrugTarget,
    both_ids,
    check_shape,
    read_texts,
    resolve_home,
)
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels import tanimoto
from dyadlearn.kernels.chemistry import MorganFingerprints

#: Where the filtered scores are passed on with ids and sequences.
ADDRESS = "https://raw.githubusercontent.com/hkmztrk/DeepDTA/master/data/kiba/"
FOLDER = "kiba"

_ARCHIVE = "kiba.npz"
_PUBLISHED = ("kiba_binding_affinity_v2.txt", "ligands_iso.txt", "proteins.txt", "kiba_target_sim.txt")
_N_BITS = 2048
# The arrays of an archive and the kinds of their values, as numpy calls them.
_KINDS = {"biuf": "numbers", "iuU": "names"}
_ARRAYS = {
    **dict.fromkeys(("kiba", "drug_ecfp4_bits", "target_sim"), "biuf"),
    **dict.fromkeys(("drug_ids", "target_ids"), "iuU"),
}

_SIMILARITIES = {"ECFP4": "Tanimoto coefficients of ECFP4 fingerprints", "published": "PubChem's, of structures"}


def fetch_kiba(
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "drugs",
    drug_similarity: str = "ECFP4",
    as_frame: bool = False,
) -> Bunch:
    r"""Fetch the KIBA scores of 2,111 drugs × 229 kinases, of which 24.5 % are observed; the others are NaN.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds the files, itself or in a folder ``kiba``. By default the one that the environment variable
        ``DYADLEARN_DATA`` names, else one in the user's cache. The files are either one archive ``kiba.npz`` (arrays
        ``kiba``, ``drug_ecfp4_bits``, ``target_sim``, ``drug_ids``, ``target_ids``) or, without it, the published
        texts, plain or gzipped. Nothing is downloaded, since the texts have no known checksums: put them there.
    instances : {"drugs", "targets", "proteins"}, default="drugs"
        What the rows of the grid are; the others are the tasks. Proteins are the targets.
    drug_similarity : {"ECFP4", "published"}, default="ECFP4"
        ``"ECFP4"``: the Tanimoto kernel of circular fingerprints, which are in the archive and are computed from the
        structures in the published texts (this needs rdkit). ``"published"``: the table ``kiba_drug_sim.txt`` of the
        published texts, as it is.
    as_frame : bool, default=False
        Give `Y`, `K` and `G` as pandas frames with their ids. Needs pandas.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            The scores, NaN where nobody measured.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances, in the order of `Y`.
        G : ndarray or DataFrame of shape (q, q)
            The same for the tasks.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The ids.
        fingerprints : ndarray of shape (2111, 2048) or None
            The ECFP4 bits of the drugs, uint8, in the order of the drugs; None with the published similarity.
        smiles, sequences : dict of str to str
            The structure of each drug and the sequence of each kinase where a file has them, else empty.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.tanimoto : the kernel of the drugs.

    Examples
    --------
    An archive of two drugs and one kinase:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from dyadlearn.datasets import fetch_kiba
    >>> bits = np.zeros((2, 2048), dtype=np.uint8)
    >>> bits[0, :3] = bits[1, 1:4] = 1
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(
    ...         Path(folder, "kiba.npz"),
    ...         kiba=[[11.1], [np.nan]],
    ...         drug_ecfp4_bits=np.packbits(bits, axis=1),
    ...         target_sim=[[1.0]],
    ...         drug_ids=["CHEMBL1", "CHEMBL2"],
    ...         target_ids=["O00141"],
    ...     )
    ...     data = fetch_kiba(data_home=folder)
    >>> data.Y
    array([[11.1],
           [ nan]])
    >>> data.K
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    check_choice(instances, "instances", ("drugs", "targets", "proteins"))
    check_choice(drug_similarity, "drug_similarity", ("ECFP4", "published"))
    folder = DataFolder("'kiba'", FOLDER, resolve_home(data_home))
    archive = folder.find(_ARCHIVE) if drug_similarity == "ECFP4" else None
    fingerprints: np.ndarray | None
    if archive:
        data, fingerprints = _read_archive(archive)
    else:
        is_published = drug_similarity == "published"
        names = [*_PUBLISHED, *(["kiba_drug_sim.txt"] if is_published else [])]
        scores, ligands, proteins, targets, *drugs = folder.find_all([(name,) for name in names], f"from {ADDRESS}")
        published = drugs[0] if is_published else None
        data = DrugTarget.without_ids(scores, ligands, proteins, published, targets, holes=True)
        fingerprints = None if is_published else _fingerprints(both_ids(data.labels)[0], read_texts(ligands))
    observed = int(np.isfinite(data.labels.values).sum())
    return replace(data, drugs=data.drugs if fingerprints is None else tanimoto(fingerprints)).bunch(
        "kiba",
        instances,
        as_frame,
        fingerprints=fingerprints,
        smiles=read_texts(folder.find("ligands.tsv", "ligands_iso.txt")),
        sequences=read_texts(folder.find("proteins.tsv", "proteins.txt")),
        facts={
            "observed": observed,
            "share": 100 * observed / data.labels.values.size,
            "drug_similarity": _SIMILARITIES[drug_similarity],
            "address": ADDRESS,
        },
    )


def _read_archive(path: Path) -> tuple[DrugTarget, np.ndarray]:
    """Read an archive of arrays: labels and similarities, those of drugs (m, 0), and the bits (drugs, 2048)."""
    stored = read_arrays(path)
    missing = [key for key in _ARRAYS if key not in stored]
    if missing:
        raise DataFileError(f"{path} lacks the arrays {', '.join(missing)}: found {', '.join(stored) or 'none'}.")
    for key, kinds in _ARRAYS.items():
        if stored[key].dtype.kind not in kinds:
            raise DataFileError(f"{path}: {key} must hold {_KINDS[kinds]}, found {stored[key].dtype}.")
    drugs, targets = (make_ids(stored[key].tolist(), None, f"{key} of {path}") for key in ("drug_ids", "target_ids"))
    m, q = len(drugs), len(targets)
    for key, shape in (("kiba", (m, q)), ("drug_ecfp4_bits", (m, _N_BITS // 8)), ("target_sim", (q, q))):
        check_shape(stored[key], shape, f"{key} of {path}", "the ids of drugs and targets")
    bits = stored["drug_ecfp4_bits"]
    if bits.dtype != np.uint8:
        raise DataFileError(f"drug_ecfp4_bits of {path} must be bytes (uint8), found {bits.dtype}.")
    grid = Table(stored["kiba"].astype(np.float64), drugs, targets)
    data = DrugTarget(grid, np.empty((m, 0)), stored["target_sim"].astype(np.float64))
    return data, np.unpackbits(bits, axis=1, count=_N_BITS)


def _fingerprints(drugs: Ids, smiles: dict[str, str]) -> np.ndarray:
    """Compute the ECFP4 bits (drugs, 2048) of the structures."""
    structures = {drug: smiles[str(drug)] for drug in drugs.labels}
    try:
        return np.asarray(MorganFingerprints(n_bits=_N_BITS).transform(structures).toarray())
    except ImportError as error:
        raise ImportError(
            f"fetch_kiba(drug_similarity='ECFP4') needs {_ARCHIVE}, or rdkit to compute fingerprints: install it, or "
            "use drug_similarity='published'."
        ) from error
