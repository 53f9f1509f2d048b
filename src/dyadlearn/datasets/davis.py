"""Kinase inhibitors and how strongly they bind: Davis and others (2011)."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn.datasets._home import DataFolder, DrugTarget, read_texts, resolve_home
from dyadlearn.kernels import normalize

#: Where the publisher of the similarities keeps the files.
ADDRESS = "http://staff.cs.utu.fi/~aatapa/data/DrugTarget/"
FOLDER = "davis"

# The publisher's labels and the ids of drugs and targets. The second name of a file is what others who pass the data on
# call it.
_PUBLISHED = (
    (
        "drug-target_interaction_affinities_Kd__Davis_et_al.2011.txt",
        "drug-target_interaction_affinities_Kd__Davis_et_al.2011v1.txt",
    ),
    ("drug_PubChem_CIDs.txt", "ligands_can.txt"),
    ("target_gene_names.txt", "proteins.txt"),
)


def fetch_davis(
    *,
    data_home: str | os.PathLike[str] | None = None,
    instances: str = "targets",
    labels: str = "pKd",
    drug_similarity: str = "2D",
    target_similarity: str = "WS",
    as_frame: bool = False,
) -> Bunch:
    r"""Fetch the kinase inhibitors of Davis and others (2011): 68 drugs × 442 kinases, every pair measured.

    Labels are, unless asked otherwise,

    .. math:: \mathrm{pK_d} = 9 - \log_{10} (K_d / \mathrm{nM}),

    so that more is stronger; 5 stands for "no binding seen" (69.6 % of the cells).

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds the files, itself or in a folder ``davis``. By default the one that the environment variable
        ``DYADLEARN_DATA`` names, else one in the user's cache. Files, plain or gzipped, are either tables with ids
        (``kd_nM.tsv``, ``drug_similarity_2D.tsv``, ``drug_similarity_ECFP4.tsv``, ``target_similarity_WS.tsv``,
        ``target_similarity_WS_normalized.tsv``) or, without ``kd_nM.tsv``, the publisher's own. Nothing is downloaded,
        since the publisher's files have no known checksums: put them there.
    instances : {"targets", "proteins", "drugs"}, default="targets"
        What the rows of the grid are; the others are the tasks. Proteins are the targets.
    labels : {"pKd", "Kd"}, default="pKd"
        Whether to take the logarithm, or leave nM.
    drug_similarity : {"2D", "ECFP4"}, default="2D"
        By the keys of PubChem or by circular fingerprints.
    target_similarity : {"WS", "WS_normalized"}, default="WS"
        ``"WS"``: Smith–Waterman scores, each divided by the root of the product of both proteins' scores with
        themselves (positive semi-definite, of rank 384). ``"WS_normalized"``: normalised by the publisher
        (109 negative eigenvalues), in shares of 1.
    as_frame : bool, default=False
        Give `Y`, `K` and `G` as pandas frames with their ids. Needs pandas.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            How strongly each pair binds.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances, in the order of `Y`.
        G : ndarray or DataFrame of shape (q, q)
            The same for the tasks.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The ids: PubChem's for drugs, genes with their variant for kinases.
        smiles, sequences : dict of str to str
            The structure of each drug and the sequence of each kinase where ``smiles.tsv`` and ``proteins.tsv`` lie
            beside the others (the publisher has none), else empty.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.repair : makes kernels of the similarities.

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
    folder = DataFolder("'davis'", FOLDER, resolve_home(data_home))
    if folder.find("kd_nM.tsv"):
        names = ["kd_nM.tsv", f"drug_similarity_{drug_similarity}.tsv", f"target_similarity_{target_similarity}.tsv"]
        data = DrugTarget.with_ids(*folder.find_all([(name,) for name in names], "tables with ids"))
    else:
        drugs = (f"drug-drug_similarities_{drug_similarity}.txt",)
        targets = (f"target-target_similarities_{target_similarity}.txt",)
        data = DrugTarget.without_ids(*folder.find_all([*_PUBLISHED, drugs, targets], f"from {ADDRESS}"))
        if target_similarity == "WS_normalized" and data.targets.diagonal().max() > 1:
            data = replace(data, targets=data.targets / 100)  # the publisher counts in per cent
    Kd = data.labels.values
    data.check(Kd <= 0, "The table of Kd", "positive numbers")
    if labels == "pKd":
        data = replace(data, labels=replace(data.labels, values=9 - np.log10(Kd)))
    if target_similarity == "WS":
        data = replace(data, targets=normalize(data.targets))
    return data.bunch(
        "davis",
        instances,
        as_frame,
        smiles=read_texts(folder.find("smiles.tsv", "ligands_can.txt")),
        sequences=read_texts(folder.find("proteins.tsv", "proteins.txt")),
        facts={
            "share": 100 * np.mean(Kd == 10_000),
            "labels": "pKd = 9 - log10(Kd)" if labels == "pKd" else "Kd in nM",
            "drug_similarity": drug_similarity,
            "address": ADDRESS,
        },
    )
