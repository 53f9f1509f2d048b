"""Drug–target networks: from the real files, from small ones, and from a server on this machine."""

import gzip
import hashlib

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from datasets.conftest import write
from dyadlearn.datasets import drug_target, fetch_yamanishi
from dyadlearn.exceptions import IdError
from sweeps import every, lines, over

SIZES = {"e": (664, 445, 2926), "ic": (204, 210, 1476), "gpcr": (95, 223, 635), "nr": (26, 54, 90)}
FILES = ["nr_admat_dgc.txt", "nr_simmat_dc.txt", "nr_simmat_dg.txt"]

# Two targets and three drugs; each similarity is in an order of its own, and asymmetric.
SMALL = {
    "nr_admat_dgc.txt": "\tD1\tD2\tD3\nhsa1\t1\t0\t1\nhsa2\t0\t1\t0\n",
    "nr_simmat_dc.txt": "\tD2\tD3\tD1\nD3\t0.32\t1\t0.31\nD1\t0.12\t0.13\t1\nD2\t1\t0.23\t0.21\n",
    "nr_simmat_dg.txt": "\thsa2\thsa1\nhsa2\t1\t0.21\nhsa1\t0.12\t1\n",
}
LABELS = np.array([[1.0, 0, 1], [0, 1, 0]])
DRUGS = np.array([[1, 0.12, 0.13], [0.21, 1, 0.23], [0.31, 0.32, 1]])
TARGETS = np.array([[1, 0.12], [0.21, 1]])


# -- real files ---------------------------------------------------------------------------------------------


@over(every(name=list(SIZES)))
def test_the_published_networks(name, shared_data):
    m, q, ones = SIZES[name]
    data = fetch_yamanishi(name, data_home=shared_data, download=False)
    assert data.Y.shape == (m, q)
    assert data.K.shape == (m, m)
    assert data.G.shape == (q, q)
    assert data.Y.sum() == ones
    assert set(np.unique(data.Y)) == {0.0, 1.0}
    assert all(target.startswith("hsa") for target in data.instance_names)
    assert all(drug.startswith("D") for drug in data.task_names)
    assert set(data.smiles) == set(data.task_names)
    for fact in (f"{m} human proteins", f"{q} drugs", f"{ones} are 1", "http://"):
        assert fact in data.DESCR
    assert f"{ones:,}" in fetch_yamanishi.__doc__
    # As published, not repaired: the similarities of drugs are asymmetric.
    gap = np.abs(data.G - data.G.T).max()
    assert_allclose(gap, {"e": 0.09, "ic": 0.16, "gpcr": 0.19, "nr": 0.075}[name], atol=0.005)
    assert np.abs(data.K - data.K.T).max() < 1e-6


def test_checksums_are_those_of_the_published_texts(shared_data):
    assert len(drug_target._CHECKSUMS) == 11
    for name, checksum in drug_target._CHECKSUMS.items():
        text = gzip.decompress((shared_data / "yamanishi2008" / f"{name}.gz").read_bytes())
        assert hashlib.sha256(text).hexdigest() == checksum, name


# -- small files --------------------------------------------------------------------------------------------


@over(every(pack=[False, True], folder=[".", "yamanishi2008"]))
def test_ids_are_aligned_by_name(tmp_path, pack, folder):
    write(tmp_path / folder, SMALL, pack)
    data = fetch_yamanishi("nr", data_home=tmp_path)
    assert_array_equal(data.Y, LABELS)
    assert_array_equal(data.K, TARGETS)
    assert_array_equal(data.G, DRUGS)
    assert data.instance_names.tolist() == ["hsa1", "hsa2"]
    assert data.task_names.tolist() == ["D1", "D2", "D3"]
    assert data.smiles == {}


def test_drugs_as_instances(tmp_path):
    data = fetch_yamanishi("nr", data_home=write(tmp_path, SMALL), instances="drugs")
    assert_array_equal(data.Y, LABELS.T)
    assert_array_equal(data.K, DRUGS)
    assert_array_equal(data.G, TARGETS)
    assert data.instance_names.tolist() == ["D1", "D2", "D3"]
    assert data.task_names.tolist() == ["hsa1", "hsa2"]


@over(
    lines(
        "alias name",
        ("ion_channel", "ic"),
        ("GPCR", "gpcr"),
        ("nuclear receptor", "nr"),
    )
)
def test_names(tmp_path, alias, name):
    write(tmp_path, {file.replace("nr_", f"{name}_"): text for file, text in SMALL.items()})
    assert_array_equal(fetch_yamanishi(alias, data_home=tmp_path, download=False).Y, LABELS)


def test_frames_carry_the_ids(tmp_path):
    data = fetch_yamanishi("nr", data_home=write(tmp_path, SMALL), as_frame=True)
    names = {"Y": ("instance", "task"), "K": ("instance", "instance"), "G": ("task", "task")}
    for key, values in (("Y", LABELS), ("K", TARGETS), ("G", DRUGS)):
        assert isinstance(data[key], pd.DataFrame)
        assert_array_equal(data[key].to_numpy(), values)
        assert list(data[key].index) == list(data[f"{names[key][0]}_names"])
        assert list(data[key].columns) == list(data[f"{names[key][1]}_names"])


@over(every(pack=[False, True]))
def test_structures_where_their_file_is(tmp_path, pack):
    write(tmp_path, SMALL)
    write(tmp_path, {"nr_smiles.tsv": "D1\tC\nD2\tCC\nD3\tO=C=O\n"}, pack)
    assert fetch_yamanishi("nr", data_home=tmp_path).smiles == {
        "D1": "C",
        "D2": "CC",
        "D3": "O=C=O",
    }
    write(tmp_path, {"nr_smiles.tsv": "D1\tC\nD2 CC\n"})
    with pytest.raises(
        ValueError, match=r"nr_smiles.tsv, line 2: expected an id, a tab and a text, found 'D2 CC'"
    ):
        fetch_yamanishi("nr", data_home=tmp_path)


# -- bad input ----------------------------------------------------------------------------------------------


def test_unknown_words(tmp_path):
    with pytest.raises(
        ValueError, match="Unknown data set 'kinase': expected one of e, ic, gpcr, nr, enzyme"
    ):
        fetch_yamanishi("kinase")
    with pytest.raises(
        ValueError, match="instances must be one of 'targets', 'drugs', found 'proteins'"
    ):
        fetch_yamanishi("nr", instances="proteins")


@over(
    lines(
        "name old new message",
        (
            "admat_dgc",
            "hsa2\t0\t1\t0",
            "hsa2\t0\t1",
            "line 3: expected 4 cells, as in the first line, found 3",
        ),
        ("admat_dgc", "hsa1\t1\t0", "hsa1\t1\t2", "has 2 for hsa1 and D2: expected 0 or 1"),
        ("simmat_dg", "0.21", "o.21", "line 2, column 'hsa1': 'o.21' is not a number"),
        (
            "simmat_dc",
            "0.13",
            "",
            "row 'D1', column 'D3': the value is missing; every cell has one",
        ),
        ("simmat_dg", SMALL["nr_simmat_dg.txt"], "<html>\n</html>\n", "holds no table"),
    )
)
def test_malformed_files_are_named_with_their_line(tmp_path, name, old, new, message):
    file = f"nr_{name}.txt"
    assert old in SMALL[file]
    write(tmp_path, SMALL | {file: SMALL[file].replace(old, new)})
    with pytest.raises(ValueError, match=f"{file}.*{message}"):
        fetch_yamanishi("nr", data_home=tmp_path)
    assert (tmp_path / file).exists()


@over(
    lines(
        "name old new message",
        (
            "simmat_dg",
            "hsa2\t1",
            "hsa3\t1",
            r"the rows of nr_simmat_dg.txt and the adjacency matrix .*'hsa2'.*'hsa3'",
        ),
        (
            "simmat_dc",
            "\tD2\tD3",
            "\tD2\tD2",
            r"The first line of .*nr_simmat_dc.txt has repeated ids: 'D2'",
        ),
        ("admat_dgc", "hsa2", "hsa1", r"nr_admat_dgc.txt has repeated ids: 'hsa1'"),
    )
)
def test_ids_that_do_not_match(tmp_path, name, old, new, message):
    file = f"nr_{name}.txt"
    write(tmp_path, SMALL | {file: SMALL[file].replace(old, new, 1)})
    with pytest.raises(IdError, match=message):
        fetch_yamanishi("nr", data_home=tmp_path)


# -- downloads ----------------------------------------------------------------------------------------------


def test_missing_files_are_not_downloaded_unasked(tmp_path):
    write(tmp_path, {FILES[0]: SMALL[FILES[0]]})
    with pytest.raises(FileNotFoundError, match="download=False") as caught:
        fetch_yamanishi("nr", data_home=tmp_path, download=False)
    for part in (
        *FILES[1:],
        drug_target._YAMANISHI,
        str(tmp_path / "yamanishi2008"),
        "data_home=",
        "DYADLEARN_DATA",
    ):
        assert part in str(caught.value)
    assert FILES[0] not in str(caught.value)


def test_a_dead_server_says_what_to_put_where(tmp_path):
    with pytest.raises(
        ConnectionError, match="Could not download .*nr_admat_dgc.txt .*refused"
    ) as caught:
        fetch_yamanishi("nr", data_home=tmp_path)
    for part in (
        ", ".join(FILES),
        drug_target._YAMANISHI,
        str(tmp_path / "yamanishi2008"),
        "DYADLEARN_DATA",
    ):
        assert part in str(caught.value)


@pytest.fixture
def publisher(server, monkeypatch):
    """Give a server that has the small network under the publisher's names, with its checksums."""
    server.files = {name: text.encode() for name, text in SMALL.items()}
    monkeypatch.setattr(drug_target, "_YAMANISHI", server.address)
    checksums = {
        name: hashlib.sha256(content).hexdigest() for name, content in server.files.items()
    }
    monkeypatch.setattr(drug_target, "_CHECKSUMS", checksums)
    return server


def test_missing_files_are_downloaded_once(tmp_path, publisher):
    write(tmp_path, {FILES[0]: SMALL[FILES[0]]}, pack=True)
    for _ in range(2):
        data = fetch_yamanishi("nr", data_home=tmp_path)
        assert_array_equal(data.Y, LABELS)
        assert_array_equal(data.K, TARGETS)
    assert publisher.asked == FILES[1:]
    assert sorted(path.name for path in (tmp_path / "yamanishi2008").iterdir()) == FILES[1:]


def test_a_file_without_a_checksum_is_not_downloaded(tmp_path, publisher):
    del drug_target._CHECKSUMS[FILES[2]]
    with pytest.raises(
        FileNotFoundError, match=r"nr_simmat_dg\.txt.* without a known checksum is not downloaded"
    ):
        fetch_yamanishi("nr", data_home=tmp_path)
    assert publisher.asked == []
    write(tmp_path, {FILES[2]: SMALL[FILES[2]]})
    assert_array_equal(fetch_yamanishi("nr", data_home=tmp_path).K, TARGETS)
    assert publisher.asked == FILES[:2]
