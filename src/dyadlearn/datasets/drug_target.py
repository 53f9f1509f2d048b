"""Drugs and the proteins they bind: the data of Yamanishi and others (2008), of Davis and others (2011), and KIBA."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn._files.tables import check_whole, read_cells
from dyadlearn._tables import Ids, Table, make_ids
from dyadlearn.datasets._home import (
    NAMES,
    NUMBERS,
    DataFolder,
    as_given,
    describe,
    load_npz,
    read_lines,
    resolve_home,
)
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels import normalize, tanimoto

# Address of the publisher's files.
_YAMANISHI = "http://web.kuicr.kyoto-u.ac.jp/supp/yoshi/drugtarget/"

_NAMES = {"enzyme": "e", "ion_channel": "ic", "gpcr": "gpcr", "nuclear_receptor": "nr"}
_TITLES = {
    "e": "enzymes",
    "ic": "ion channels",
    "gpcr": "G-protein-coupled receptors",
    "nr": "nuclear receptors",
}

# SHA-256 of the publisher's texts. That of e_simmat_dg.txt is not known, so it is not downloaded.
_CHECKSUMS = {
    "e_admat_dgc.txt": "bf73f8f0c1a71f9fe92d1e0d8a1065a1122b383532cd47fc73df1cb0d9ba6c10",
    "e_simmat_dc.txt": "28105b9570c91b4eac688eaf92db2e4aacb7117bc8665cab527fc5d45cd83606",
    "gpcr_admat_dgc.txt": "49b2a8a0139dac3116399618bfefc9d1afcc276ce31b7de4e241d1b6e62ef8ab",
    "gpcr_simmat_dc.txt": "ba9c1cf096f0f688d1341fec22ebdecb63162005394d3b5ec3e2f2ef3fd40df9",
    "gpcr_simmat_dg.txt": "c58c4311d2086a6914208ed0914598528ce54ade88eb52b0f737eedcaf5001e4",
    "ic_admat_dgc.txt": "ac9df3498bc12af5174503e5f1e09ce26a6d78d753861a5eca55425f9f9ae2c9",
    "ic_simmat_dc.txt": "c1078ca88528d75ddb43d4ed2559391d7d8f5375ec572e6e9112e519d9cdbbf9",
    "ic_simmat_dg.txt": "e15626145623124ad42a45412c544d5fed5e079003727df784d29ed3ca72efef",
    "nr_admat_dgc.txt": "74256ec88b415dbdb93735e93797955e82587f3154988e99787a4e604111963b",
    "nr_simmat_dc.txt": "f80e101f284934b85c5dc7601ecaca2cc86c62a946141b2587f3ac8482c9a7c1",
    "nr_simmat_dg.txt": "5bf651f310b037320fe5d8aa61dfa15e0d8af4b0fd50c3969201085e64b631e1",
}


def fetch_yamanishi(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "targets",
    as_frame: bool = False,
    download: bool = True,
) -> Bunch:
    r"""Fetch one of the four drug–target networks of Yamanishi and others (2008).

    The files are read from a folder, in the publisher's format, plain or gzipped. Missing files are
    first downloaded from the publisher and checked against known checksums. The checksum of
    ``e_simmat_dg.txt`` is not known: download this file yourself.

    =========  ===========================  =======  =====  =====
    name       targets                      targets  drugs  ones
    =========  ===========================  =======  =====  =====
    ``e``      enzymes                      664      445    2,926
    ``ic``     ion channels                 204      210    1,476
    ``gpcr``   G-protein-coupled receptors  95       223    635
    ``nr``     nuclear receptors            26       54     90
    =========  ===========================  =======  =====  =====

    Parameters
    ----------
    name : str
        ``"e"``, ``"ic"``, ``"gpcr"`` or ``"nr"``; or ``"enzyme"``, ``"ion_channel"``, ``"nuclear_receptor"``.
    data_home : path or None, default=None
        Folder of ``{name}_admat_dgc.txt``, ``{name}_simmat_dc.txt`` and ``{name}_simmat_dg.txt``,
        or of a folder
        ``yamanishi2008`` with these files. By default the folder in the environment variable ``DYADLEARN_DATA``, else a
        folder in the user's cache.
    instances : {"targets", "drugs"}, default="targets"
        Rows of the grid; the others are the tasks.
    as_frame : bool, default=False
        Whether `Y`, `K` and `G` are pandas frames with their ids. Needs pandas.
    download : bool, default=True
        Whether to download missing files.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            1.0 if the drug acts on the target, else 0.0.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances as published, in the order of `Y`. Those of drugs are not
            symmetric.
        G : ndarray or DataFrame of shape (q, q)
            Similarities of the tasks, in the order of `Y`.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The ids.
        smiles : dict of str to str
            Structure of each drug if there is a file ``{name}_smiles.tsv`` beside the others (the
            publisher has none), else empty.
        DESCR : str
            Description of the data and their source.

    See Also
    --------
    dyadlearn.kernels.repair : makes the similarities positive semi-definite.
    dyadlearn.labels.fisher_relabel : gives both classes the same weight.

    Examples
    --------
    The publisher's format, on a network of one protein and two drugs:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import fetch_yamanishi
    >>> tables = {
    ...     "nr_admat_dgc.txt": "\tD1\tD2\nhsa1\t1\t0\n",
    ...     "nr_simmat_dc.txt": "\tD2\tD1\nD2\t1\t0.5\nD1\t0.4\t1\n",
    ...     "nr_simmat_dg.txt": "\thsa1\nhsa1\t1\n",
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in tables.items():
    ...         _ = Path(folder, name).write_text(text)
    ...     data = fetch_yamanishi("nr", data_home=folder, instances="drugs")
    >>> data.K
    array([[1. , 0.4],
           [0.5, 1. ]])
    >>> data.Y.shape, data.instance_names.tolist()
    ((2, 1), ['D1', 'D2'])
    """
    word = str(name).strip().lower().replace(" ", "_").replace("-", "_")
    short = _NAMES.get(word, word)
    if short not in _TITLES:
        raise ValueError(
            f"Unknown data set {name!r}: expected one of {', '.join([*_TITLES, *_NAMES])}."
        )
    check_choice(instances, "instances", ("targets", "drugs"))
    folder = DataFolder(repr(short), "yamanishi2008", resolve_home(data_home))
    names = [f"{short}_{table}.txt" for table in ("admat_dgc", "simmat_dc", "simmat_dg")]
    paths = folder.obtain(names, _YAMANISHI, download=download, checksums=_CHECKSUMS)
    labels = _read_grid(paths[0]).transposed
    drugs = _similarities(paths[1], labels.row_ids)
    targets = _similarities(paths[2], labels.column_ids)
    _check(labels, ~np.isin(labels.values, (0, 1)), str(paths[0]), "0 or 1")
    facts = {"title": _TITLES[short], "ones": int(labels.values.sum()), "address": _YAMANISHI}
    smiles = _read_texts(folder.find(f"{short}_smiles.tsv"))
    data = _Data("yamanishi", labels, drugs, targets, facts)
    return data.bunch(instances, as_frame, smiles=smiles)


# Address of the publisher of the similarities.
_DAVIS = "http://staff.cs.utu.fi/~aatapa/data/DrugTarget/"


def fetch_davis(
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "targets",
    labels: str = "pKd",
    drug_similarity: str = "2D",
    target_similarity: str = "WS",
    as_frame: bool = False,
) -> Bunch:
    r"""Read the kinase inhibitors of Davis and others (2011): 68 drugs × 442 kinases, every pair measured.

    Nothing is downloaded: put the files of http://staff.cs.utu.fi/~aatapa/data/DrugTarget/ into a
    folder, with ids added (see `data_home`).

    By default the labels are

    .. math:: \mathrm{pK_d} = 9 - \log_{10} (K_d / \mathrm{nM}),

    so that larger labels mean stronger binding; 5 means that no binding was observed (69.6 % of the
    cells).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the files, or of a folder ``davis`` with these files. By default the folder in the
        environment variable ``DYADLEARN_DATA``, else a folder in the user's cache. The files are
        tables with ids, plain or gzipped: ``kd_nM.tsv`` (drugs × kinases),
        ``drug_similarity_2D.tsv`` or ``drug_similarity_ECFP4.tsv``, and
        ``target_similarity_WS.tsv`` or ``target_similarity_WS_normalized.tsv``. The publisher's files have no ids;
        ``pandas.DataFrame(values, drugs, kinases).to_csv("kd_nM.tsv", sep="\\t")`` adds them.
    instances : {"targets", "proteins", "drugs"}, default="targets"
        Rows of the grid; the others are the tasks. Proteins are the targets. By default setting B
        means a new target, unlike in `fetch_kiba`.
    labels : {"pKd", "Kd"}, default="pKd"
        Labels as logarithms, or as published in nM.
    drug_similarity : {"2D", "ECFP4"}, default="2D"
        Similarity of drugs by the keys of PubChem, or by circular fingerprints.
    target_similarity : {"WS", "WS_normalized"}, default="WS"
        ``"WS"``: Smith–Waterman scores, each divided by the square root of the product of both self-scores (positive
        semi-definite, of rank 384). ``"WS_normalized"``: scores normalised by the publisher (109
        negative eigenvalues).
    as_frame : bool, default=False
        Whether `Y`, `K` and `G` are pandas frames with their ids. Needs pandas.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            Binding strength of each pair.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances, in the order of `Y`.
        G : ndarray or DataFrame of shape (q, q)
            Similarities of the tasks, in the order of `Y`.
        instance_names, task_names : ndarray of shape (m,), (q,)
            Ids: those of PubChem for drugs, genes with their variant for kinases.
        smiles, sequences : dict of str to str
            Structure of each drug and sequence of each kinase if the folder has the files
            ``smiles.tsv`` and
            ``proteins.tsv`` (the publisher has none), else empty.
        DESCR : str
            Description of the data and their source.

    See Also
    --------
    dyadlearn.kernels.repair : makes the similarities positive semi-definite.

    Examples
    --------
    Tables with ids, of one drug and two kinases:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dyadlearn.datasets import fetch_davis
    >>> tables = {
    ...     "kd_nM.tsv": "\tABL1\tAAK1\n5291\t10\t10000\n",
    ...     "drug_similarity_2D.tsv": "\t5291\n5291\t1\n",
    ...     "target_similarity_WS.tsv": "\tAAK1\tABL1\nAAK1\t400\t30\nABL1\t30\t900\n",
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in tables.items():
    ...         _ = Path(folder, name).write_text(text)
    ...     data = fetch_davis(data_home=folder)
    >>> data.Y
    array([[8.],
           [5.]])
    >>> data.K
    array([[1.  , 0.05],
           [0.05, 1.  ]])
    """
    check_choice(instances, "instances", ("targets", "proteins", "drugs"))
    check_choice(labels, "labels", ("pKd", "Kd"))
    check_choice(drug_similarity, "drug_similarity", ("2D", "ECFP4"))
    check_choice(target_similarity, "target_similarity", ("WS", "WS_normalized"))
    folder = DataFolder("'davis'", "davis", resolve_home(data_home))
    names = [
        "kd_nM.tsv",
        f"drug_similarity_{drug_similarity}.tsv",
        f"target_similarity_{target_similarity}.tsv",
    ]
    paths = folder.find_all(names, f"tables with ids, from the files at {_DAVIS}")
    table = _read_grid(paths[0])
    drugs = _similarities(paths[1], table.row_ids)
    targets = _similarities(paths[2], table.column_ids)
    Kd = table.values
    _check(table, Kd <= 0, "The table of Kd", "positive numbers")
    if labels == "pKd":
        table = replace(table, values=9 - np.log10(Kd))
    if target_similarity == "WS":
        targets = normalize(targets)
    facts = {
        "share": 100 * np.mean(Kd == 10_000),
        "drug_similarity": drug_similarity,
        "address": _DAVIS,
        "labels": "pKd = 9 - log10(Kd)" if labels == "pKd" else "Kd in nM",
    }
    return _Data("davis", table, drugs, targets, facts).bunch(
        instances,
        as_frame,
        smiles=_read_texts(folder.find("smiles.tsv")),
        sequences=_read_texts(folder.find("proteins.tsv")),
    )


# Address of the filtered scores with ids and sequences.
_KIBA = "https://raw.githubusercontent.com/hkmztrk/DeepDTA/master/data/kiba/"

_N_BITS = 2048


def fetch_kiba(
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "drugs",
    as_frame: bool = False,
) -> Bunch:
    r"""Read the KIBA scores of 2,111 drugs × 229 kinases: 24.5 % are observed, the others are NaN.

    Nothing is downloaded: make the file ``kiba.npz`` (see `data_home`) from the text files of
    https://github.com/hkmztrk/DeepDTA/tree/master/data/kiba.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder of the files, or of a folder ``kiba`` with these files. By default the folder in the
        environment variable
        ``DYADLEARN_DATA``, else a folder in the user's cache. The file is an archive ``kiba.npz`` with the arrays
        ``kiba`` (the scores), ``drug_ecfp4_bits`` (``numpy.packbits`` of the fingerprints), ``target_sim``,
        ``drug_ids`` and ``target_ids``. The published text files can be converted with ``numpy.loadtxt``,
        `dyadlearn.kernels.chemistry.fingerprints` and ``numpy.savez``.
    instances : {"drugs", "targets", "proteins"}, default="drugs"
        Rows of the grid; the others are the tasks. Proteins are the targets. By default setting B
        means a new drug, unlike in `fetch_davis`.
    as_frame : bool, default=False
        Whether `Y`, `K` and `G` are pandas frames with their ids. Needs pandas.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            The scores; NaN means not observed.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances, in the order of `Y`. Drugs have the Tanimoto kernel of
            `fingerprints`.
        G : ndarray or DataFrame of shape (q, q)
            Similarities of the tasks, in the order of `Y`.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The ids.
        fingerprints : ndarray of shape (2111, 2048)
            The ECFP4 bits of the drugs, uint8, in the order of the drugs.
        smiles, sequences : dict of str to str
            Structure of each drug and sequence of each kinase if the folder has the files
            ``ligands.tsv`` and
            ``proteins.tsv``, else empty.
        DESCR : str
            Description of the data and their source.

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
    folder = DataFolder("'kiba'", "kiba", resolve_home(data_home))
    [path] = folder.find_all(["kiba.npz"], f"an archive of the files at {_KIBA}")
    labels, fingerprints, targets = _read_kiba(path)
    observed = int(np.isfinite(labels.values).sum())
    facts = {
        "observed": observed,
        "share": 100 * observed / labels.values.size,
        "address": _KIBA,
    }
    return _Data("kiba", labels, tanimoto(fingerprints), targets, facts).bunch(
        instances,
        as_frame,
        fingerprints=fingerprints,
        smiles=_read_texts(folder.find("ligands.tsv")),
        sequences=_read_texts(folder.find("proteins.tsv")),
    )


def _read_kiba(path: Path) -> tuple[Table, np.ndarray, np.ndarray]:
    """Return labels (m, q), fingerprints (m, n_bits) and similarities (q, q); raise if they do not fit together."""
    stored = load_npz(
        path,
        {
            "kiba": (2, NUMBERS),
            "drug_ecfp4_bits": (2, NUMBERS),
            "target_sim": (2, NUMBERS),
            "drug_ids": (1, NAMES),
            "target_ids": (1, NAMES),
        },
    )
    drugs = make_ids(stored["drug_ids"].tolist(), None, f"drug_ids of {path}")
    targets = make_ids(stored["target_ids"].tolist(), None, f"target_ids of {path}")
    m = len(drugs)
    q = len(targets)
    shapes = {"kiba": (m, q), "drug_ecfp4_bits": (m, _N_BITS // 8), "target_sim": (q, q)}
    for key, shape in shapes.items():
        if stored[key].shape != shape:
            raise DataFileError(
                f"{key} of {path} has shape {stored[key].shape}, expected {shape} by the ids of "
                f"drugs and targets."
            )
    bits = stored["drug_ecfp4_bits"]
    if bits.dtype != np.uint8:
        raise DataFileError(f"drug_ecfp4_bits of {path} must be bytes (uint8), found {bits.dtype}.")
    labels = Table(stored["kiba"].astype(np.float64), drugs, targets)
    fingerprints = np.unpackbits(bits, axis=1, count=_N_BITS)
    return labels, fingerprints, stored["target_sim"].astype(np.float64)


# Tables and texts ------------------------------------------------------------------------------------


def _read_grid(path: Path) -> Table:
    """Read a table of numbers with ids in its first row and column; raise if a number is missing."""
    table = read_cells(path).table()
    check_whole(table, path, "every cell has one")
    return table


def _similarities(path: Path, ids: Ids | None) -> np.ndarray:
    """Read a square table with rows and columns in the order of `ids`."""
    other = "the adjacency matrix"
    table = _read_grid(path).rows_as(ids, f"the rows of {path.name}", other)
    table = table.columns_as(ids, f"the columns of {path.name}", other)
    return np.asarray(table.values)


def _check(labels: Table, is_wrong: np.ndarray, owner: str, expected: str) -> None:
    """Raise if some labels (drugs, targets) are wrong, naming the first; messages call the table `owner`."""
    wrong = np.argwhere(is_wrong)
    if len(wrong):
        cell = labels.take(wrong[0, :1], wrong[0, 1:])
        drug, target = (ids.labels[0] for ids in (cell.row_ids, cell.column_ids) if ids)
        raise DataFileError(
            f"{owner} has {cell.values[0, 0]:g} for {target} and {drug}: expected {expected}."
        )


class _Data(NamedTuple):
    """A data set of drugs × targets.

    Attributes
    ----------
    name : str
        Name of the data set, as in ``fetch_davis``.
    labels : Table of shape (m, q)
        Labels with ids.
    drugs, targets : arrays of shape (m, m) and (q, q)
        Similarities.
    facts : mapping
        Facts of the description, besides the numbers of drugs and targets.
    """

    name: str
    labels: Table
    drugs: np.ndarray
    targets: np.ndarray
    facts: Mapping[str, Any]

    def bunch(self, instances: str, as_frame: bool, **rest: Any) -> Bunch:
        """Return the data set with "drugs" or, for any other text, targets as rows; `rest` are further entries."""
        labels = self.labels
        m, q = labels.values.shape
        K, G = self.drugs, self.targets
        if instances != "drugs":
            labels = replace(labels.transposed, values=np.ascontiguousarray(labels.values.T))
            K, G = G, K
        rows = labels.row_ids
        columns = labels.column_ids
        owner = f"fetch_{self.name}"
        return Bunch(
            Y=as_given(labels, as_frame, owner),
            K=as_given(Table(K, rows, rows), as_frame, owner),
            G=as_given(Table(G, columns, columns), as_frame, owner),
            instance_names=np.array(labels.ids),
            task_names=np.array(labels.transposed.ids),
            DESCR=describe(self.name, drugs=m, targets=q, **self.facts),
            **rest,
        )


def _read_texts(path: Path | None) -> dict[str, str]:
    """Read texts by their ids, such as sequences, from tab-separated lines that end with the text.

    Without a file, the result is empty. A first line ``drug`` and ``smiles`` is skipped as a
    header.
    """
    texts: dict[str, str] = {}
    if path is None:
        return texts
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataFileError(
                f"{path}, line {number}: expected an id, a tab and a text, found {line[:50]!r}."
            )
        if (number, *cells) != (1, "drug", "smiles"):
            texts[cells[0]] = cells[-1]
    return texts
