"""Drugs and the proteins they bind: the gold standard of Yamanishi and others (2008)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._array import Array
from dyadlearn._tables import Ids, write_table
from dyadlearn._validation import check_choice
from dyadlearn.datasets._home import VARIABLE, download_file, find_file, read_lines, resolve_home
from dyadlearn.datasets._tables import Matrix, read_matrix
from dyadlearn.exceptions import DataFileError

__all__ = ["fetch_yamanishi"]

#: Where the publisher keeps the files.
ADDRESS = "http://web.kuicr.kyoto-u.ac.jp/supp/yoshi/drugtarget/"
FOLDER = "yamanishi2008"

_NAMES = {"enzyme": "e", "ion_channel": "ic", "gpcr": "gpcr", "nuclear_receptor": "nr"}
_TITLES = {"e": "enzymes", "ic": "ion channels", "gpcr": "G-protein-coupled receptors", "nr": "nuclear receptors"}

# SHA-256 of the publisher's texts. That of e_simmat_dg.txt is not known.
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

DESCR = """\
Drugs and the proteins they bind: {title}
{rule}

{targets} human proteins ({title}) and {drugs} drugs; a cell of the grid is 1 where the drug is known to act
on the protein, else 0 ({ones} are 1). A 0 is a pair that no database had in 2008, not one known to be inactive.
Proteins are named by their KEGG gene (hsa...), drugs by their KEGG entry (D...).

Similarity of proteins: Smith-Waterman scores of their sequences, divided by the root of the product of each
protein's score with itself. Similarity of drugs: the share of common substructures, by SIMCOMP. Both are given as
published. The similarities of drugs are neither symmetric nor, in general, positive semi-definite: use
`dyadlearn.kernels.repair`.

Y. Yamanishi, M. Araki, A. Gutteridge, W. Honda, M. Kanehisa: Prediction of drug-target interaction networks from
the integration of chemical and genomic spaces. Bioinformatics 24 (2008), i232-i240.
{address}
"""


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
    there are downloaded from the publisher's address first.

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
    home = resolve_home(data_home)
    labels, drugs, targets = _fetch(short, home, download)
    odd = np.argwhere((labels.values != 0) & (labels.values != 1))
    if odd.size:
        row, column = odd[0]
        raise DataFileError(
            f"{labels.path} has {labels.values[row, column]:g} for {labels.rows.labels[row]} and "
            f"{labels.columns.labels[column]}: expected 0 or 1."
        )
    sides = [(labels.rows, targets.ordered(labels.rows)), (labels.columns, drugs.ordered(labels.columns))]
    Y = labels.values
    if instances == "drugs":
        sides, Y = sides[::-1], np.ascontiguousarray(Y.T)
    (instance_ids, K), (task_ids, G) = sides
    title = _TITLES[short]
    description = DESCR.format(
        title=title,
        rule="=" * len(f"Drugs and the proteins they bind: {title}"),
        targets=len(labels.rows),
        drugs=len(labels.columns),
        ones=int(Y.sum()),
        address=ADDRESS,
    )
    return Bunch(
        Y=_frame(Y, instance_ids, task_ids) if as_frame else Y,
        K=_frame(K, instance_ids, instance_ids) if as_frame else K,
        G=_frame(G, task_ids, task_ids) if as_frame else G,
        instance_names=np.array(instance_ids.labels),
        task_names=np.array(task_ids.labels),
        smiles=_read_smiles(find_file(home, FOLDER, f"{short}_smiles.tsv")),
        DESCR=description,
    )


def _short_name(name: str) -> str:
    word = str(name).strip().lower().replace(" ", "_").replace("-", "_")
    short = _NAMES.get(word, word)
    if short not in _TITLES:
        raise ValueError(f"Unknown data set {name!r}: expected one of {', '.join([*_TITLES, *_NAMES])}.")
    return short


def _fetch(short: str, home: Path, may_download: bool) -> list[Matrix]:
    """Return the labels and the similarities of drugs and of targets, after downloading what is not in `home`."""
    names = [f"{short}_{table}.txt" for table in ("admat_dgc", "simmat_dc", "simmat_dg")]
    missing = [name for name in names if find_file(home, FOLDER, name) is None]
    advice = (
        f"Get {', '.join(missing)} from {ADDRESS} by other means and put them, plain or gzipped, in {home / FOLDER}; "
        f"or name the folder that holds them by data_home= or by the environment variable {VARIABLE}."
    )
    if missing and not may_download:
        raise FileNotFoundError(f"The data set {short!r} is not in {home}, and download=False. {advice}")
    for name in missing:
        path = home / FOLDER / name
        try:
            download_file(ADDRESS + name, path, sha256=_CHECKSUMS.get(name))
        except ConnectionError as error:
            raise ConnectionError(f"{error} {advice}") from error
        if name not in _CHECKSUMS:
            _check_downloaded(path)
    paths = [find_file(home, FOLDER, name) for name in names]
    return [read_matrix(path) for path in paths if path is not None]


def _check_downloaded(path: Path) -> None:
    """Remove a file without checksum that is no table, such as a server's page of apology."""
    try:
        read_matrix(path)
    except ValueError:
        path.unlink()
        raise


def _read_smiles(path: Path | None) -> dict[str, str]:
    """Read the drugs' ids and structures, separated by a tab; empty without a file."""
    smiles = {}
    for number, line in enumerate(read_lines(path) if path else []):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataFileError(f"{path}, line {number + 1}: expected an id, a tab and a SMILES, found {line!r}.")
        smiles[cells[0]] = cells[1]
    return smiles


def _frame(values: np.ndarray, rows: Ids, columns: Ids) -> Array:
    """Return `values` (n, p) as a pandas DataFrame with ids."""
    try:
        return write_table(values, rows, columns, "pandas")
    except ImportError as error:
        message = "fetch_yamanishi(as_frame=True) needs pandas: install it, or use as_frame=False."
        raise ImportError(message) from error
