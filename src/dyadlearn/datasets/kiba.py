"""Drugs, kinases and their KIBA scores: a large grid, three quarters of which nobody measured."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn._tables import Ids, Table, make_ids
from dyadlearn.datasets._home import find_file, obtain, resolve_home
from dyadlearn.datasets._read import (
    NAMES,
    NUMBERS,
    describe,
    drug_target_bunch,
    load_npz,
    read_ids,
    read_numbers,
    read_texts,
)
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.kernels import tanimoto

__all__ = ["fetch_kiba"]

#: Where the filtered scores are passed on with ids and sequences.
ADDRESS = "https://raw.githubusercontent.com/hkmztrk/DeepDTA/master/data/kiba/"
FOLDER = "kiba"

_ARCHIVE = "kiba.npz"
_PUBLISHED = ("kiba_binding_affinity_v2.txt", "ligands_iso.txt", "proteins.txt", "kiba_target_sim.txt")
_N_BITS = 2048

_SIMILARITIES = {"ECFP4": "Tanimoto coefficients of ECFP4 fingerprints", "published": "PubChem's, of structures"}


def fetch_kiba(
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "drugs",
    drug_similarity: str = "ECFP4",
    as_frame: bool = False,
    download: bool = True,
) -> Bunch:
    r"""Fetch the KIBA scores of 2,111 drugs × 229 kinases, of which 24.5 % are observed; the others are NaN.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds the files, itself or in a folder ``kiba``. By default the one that the environment variable
        ``DYADLEARN_DATA`` names, else one in the user's cache. The files are either one archive ``kiba.npz`` (arrays
        ``kiba``, ``drug_ecfp4_bits``, ``target_sim``, ``drug_ids``, ``target_ids``) or, without it, the published
        texts, plain or gzipped; what lacks of those is downloaded.
    instances : {"drugs", "targets", "proteins"}, default="drugs"
        What the rows of the grid are; the others are the tasks. Proteins are the targets.
    drug_similarity : {"ECFP4", "published"}, default="ECFP4"
        ``"ECFP4"``: the Tanimoto kernel of circular fingerprints, which are in the archive and are computed from the
        structures in the published texts (this needs rdkit). ``"published"``: the table ``kiba_drug_sim.txt`` of the
        published texts, as it is.
    as_frame : bool, default=False
        Give `Y`, `K` and `G` as pandas frames with their ids. Needs pandas.
    download : bool, default=True
        Whether to download files that are not there.

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
    home = resolve_home(data_home)
    archive = find_file(home, FOLDER, _ARCHIVE) if drug_similarity == "ECFP4" else None
    read = _read_archive(archive) if archive else _read_published(home, drug_similarity, download)
    observed = int(np.isfinite(read.Y).sum())
    return drug_target_bunch(
        Table(read.Y, read.drugs, read.targets),
        tanimoto(read.fingerprints) if read.drug_scores is None else read.drug_scores,
        read.target_scores,
        instances=instances,
        as_frame=as_frame,
        owner="fetch_kiba",
        fingerprints=read.fingerprints,
        smiles=read_texts(find_file(home, FOLDER, "ligands.tsv") or find_file(home, FOLDER, "ligands_iso.txt")),
        sequences=read_texts(find_file(home, FOLDER, "proteins.tsv") or find_file(home, FOLDER, "proteins.txt")),
        DESCR=describe(
            "kiba",
            drugs=f"{len(read.drugs):,}",
            targets=len(read.targets),
            observed=f"{observed:,}",
            share=100 * observed / read.Y.size,
            drug_similarity=_SIMILARITIES[drug_similarity],
            address=ADDRESS,
        ),
    )


def _read_archive(path: Path) -> Bunch:
    """Read the grid (drugs, targets), the bits (drugs, 2048) and the similarities (targets, targets) of an archive."""
    tables = dict.fromkeys(("kiba", "drug_ecfp4_bits", "target_sim"), (2, NUMBERS))
    stored = load_npz(path, {**tables, "drug_ids": (1, NAMES), "target_ids": (1, NAMES)})
    drugs = make_ids(stored["drug_ids"].tolist(), None, f"drug_ids of {path}")
    targets = make_ids(stored["target_ids"].tolist(), None, f"target_ids of {path}")
    expected = {
        "kiba": (len(drugs), len(targets)),
        "drug_ecfp4_bits": (len(drugs), _N_BITS // 8),
        "target_sim": (len(targets), len(targets)),
    }
    for key, shape in expected.items():
        _check_shape(stored[key], shape, f"{key} of {path}")
    if stored["drug_ecfp4_bits"].dtype != np.uint8:
        found = stored["drug_ecfp4_bits"].dtype
        raise DataFileError(f"drug_ecfp4_bits of {path} must be bytes (uint8), found {found}.")
    return Bunch(
        Y=stored["kiba"].astype(np.float64),
        drugs=drugs,
        targets=targets,
        fingerprints=np.unpackbits(stored["drug_ecfp4_bits"], axis=1, count=_N_BITS),
        drug_scores=None,
        target_scores=stored["target_sim"].astype(np.float64),
    )


def _read_published(home: Path, drug_similarity: str, download: bool) -> Bunch:
    """Read the same from the published texts, with fingerprints or the published similarities of drugs."""
    names = [*_PUBLISHED, *(["kiba_drug_sim.txt"] if drug_similarity == "published" else [])]
    paths = obtain(
        [(name,) for name in names], home=home, folder=FOLDER, address=ADDRESS, title="'kiba'", download=download
    )
    drugs, targets = read_ids(paths[1]), read_ids(paths[2])
    Y, target_scores = read_numbers(paths[0], holes=True), read_numbers(paths[3])
    _check_shape(Y, (len(drugs), len(targets)), str(paths[0]))
    _check_shape(target_scores, (len(targets), len(targets)), str(paths[3]))
    drug_scores = fingerprints = None
    if drug_similarity == "published":
        drug_scores = read_numbers(paths[4])
        _check_shape(drug_scores, (len(drugs), len(drugs)), str(paths[4]))
    else:
        fingerprints = _fingerprints(drugs, read_texts(paths[1]))
    return Bunch(
        Y=Y,
        drugs=drugs,
        targets=targets,
        fingerprints=fingerprints,
        drug_scores=drug_scores,
        target_scores=target_scores,
    )


def _check_shape(table: np.ndarray, shape: tuple[int, ...], name: str) -> None:
    if table.shape != shape:
        raise DataFileError(f"{name} has shape {table.shape}, expected {shape} by the ids of drugs and targets.")


def _fingerprints(drugs: Ids, smiles: dict[str, str]) -> np.ndarray:
    """Compute the ECFP4 bits (drugs, 2048) of the structures."""
    try:
        from rdkit import Chem
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError as error:
        raise ImportError(
            f"fetch_kiba(drug_similarity='ECFP4') needs {_ARCHIVE}, or rdkit to compute fingerprints: install it, or "
            "use drug_similarity='published'."
        ) from error
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=_N_BITS)
    molecules = [Chem.MolFromSmiles(smiles[str(drug)]) for drug in drugs.labels]
    wrong = [drug for drug, molecule in zip(drugs.labels, molecules, strict=True) if molecule is None]
    if wrong:
        raise IdError(f"{len(wrong)} structures are no valid SMILES, the first that of {wrong[0]}.")
    return np.array([generator.GetFingerprintAsNumPy(molecule) for molecule in molecules], dtype=np.uint8)
