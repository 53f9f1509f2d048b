"""Drugs and the proteins they bind: the gold standard of Yamanishi and others (2008)."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn.datasets._home import DataFolder, DrugTarget, read_texts, resolve_home

#: Where the publisher keeps the files.
ADDRESS = "http://web.kuicr.kyoto-u.ac.jp/supp/yoshi/drugtarget/"
FOLDER = "yamanishi2008"

_NAMES = {"enzyme": "e", "ion_channel": "ic", "gpcr": "gpcr", "nuclear_receptor": "nr"}
_TITLES = {"e": "enzymes", "ic": "ion channels", "gpcr": "G-protein-coupled receptors", "nr": "nuclear receptors"}

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

    The files are read from a folder, in the publisher's own format, plain or gzipped; those that are not
    there are downloaded from the publisher's address first, by their checksums. That of ``e_simmat_dg.txt`` is not
    known: put the file there yourself.

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
        Folder that holds ``{name}_admat_dgc.txt``, ``{name}_simmat_dc.txt`` and ``{name}_simmat_dg.txt``, itself or in
        a folder ``yamanishi2008``. By default the one that the environment variable ``DYADLEARN_DATA`` names, else
        one in the user's cache.
    instances : {"targets", "drugs"}, default="targets"
        What the rows of the grid are; the others are the tasks.
    as_frame : bool, default=False
        Give `Y`, `K` and `G` as pandas frames with their ids. Needs pandas.
    download : bool, default=True
        Whether to download files that are not there.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray or DataFrame of shape (m, q)
            1.0 where the drug acts on the target, else 0.0.
        K : ndarray or DataFrame of shape (m, m)
            Similarities of the instances as published, in the order of `Y`: those of drugs are not symmetric.
        G : ndarray or DataFrame of shape (q, q)
            The same for the tasks.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The ids.
        smiles : dict of str to str
            The structure of each drug where a file ``{name}_smiles.tsv`` lies beside the others (the publisher has
            none), else empty.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.repair : makes kernels of the similarities.
    dyadlearn.labels.fisher_relabel : makes both classes weigh the same.

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
    short = _short_name(name)
    check_choice(instances, "instances", ("targets", "drugs"))
    folder = DataFolder(repr(short), FOLDER, resolve_home(data_home))
    names = [f"{short}_{table}.txt" for table in ("admat_dgc", "simmat_dc", "simmat_dg")]
    paths = folder.obtain(names, ADDRESS, download=download, checksums=_CHECKSUMS)
    data = DrugTarget.with_ids(*paths, by_target=True)
    values = data.labels.values
    data.check(~np.isin(values, (0, 1)), str(paths[0]), "0 or 1")
    return data.bunch(
        "yamanishi",
        instances,
        as_frame,
        smiles=read_texts(folder.find(f"{short}_smiles.tsv")),
        facts={"title": _TITLES[short], "ones": int(values.sum()), "address": ADDRESS},
    )


def _short_name(name: str) -> str:
    word = str(name).strip().lower().replace(" ", "_").replace("-", "_")
    short = _NAMES.get(word, word)
    if short not in _TITLES:
        raise ValueError(f"Unknown data set {name!r}: expected one of {', '.join([*_TITLES, *_NAMES])}.")
    return short
