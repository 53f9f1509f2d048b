"""Kinase inhibitors: from the real files, and from small ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from datasets.conftest import write
from dyadlearn.datasets import fetch_davis
from sweeps import every, lines, over

KD = np.array([[10.0, 10000, 1], [10000, 0.1, 1000]])
DRUGS = {"2D": np.array([[1, 0.6], [0.6, 1]]), "ECFP4": np.array([[1, 0.1], [0.1, 1]])}
WS = np.array([[400.0, 30, 40], [30, 900, 60], [40, 60, 1600]])
COSINES = np.array([[1, 0.05, 0.05], [0.05, 1, 0.05], [0.05, 0.05, 1]])
NORMALIZED = np.array([[1, 0.25, 0.5], [0.25, 1, 0.75], [0.5, 0.75, 1]])
DRUG_IDS = ["11314340", "24889392"]
TARGET_IDS = ["AAK1", "ABL1(E255K)p", "ABL2"]


def table(values, rows, columns):
    lines = [
        "\t".join(["", *columns]),
        *("\t".join([r, *map(str, v)]) for r, v in zip(rows, values, strict=True)),
    ]
    return "\n".join(lines) + "\n"


# Each similarity is in an order of its own.
TABLES = {
    "kd_nM.tsv": table(KD, DRUG_IDS, TARGET_IDS),
    "drug_similarity_2D.tsv": table(DRUGS["2D"][::-1], DRUG_IDS[::-1], DRUG_IDS),
    "drug_similarity_ECFP4.tsv": table(DRUGS["ECFP4"], DRUG_IDS, DRUG_IDS),
    "target_similarity_WS.tsv": table(WS[:, ::-1], TARGET_IDS, TARGET_IDS[::-1]),
    "target_similarity_WS_normalized.tsv": table(NORMALIZED, TARGET_IDS, TARGET_IDS),
}


# -- real files ---------------------------------------------------------------------------------------------


def test_the_published_grid(shared_data):
    data = fetch_davis(data_home=shared_data)
    assert data.Y.shape == (442, 68)
    assert data.K.shape == (442, 442)
    assert data.G.shape == (68, 68)
    assert round(100 * np.mean(data.Y == 5), 1) == 69.6
    assert data.Y.min() == 5
    assert_allclose(data.Y.max(), 9 - np.log10(0.016))
    values = np.linalg.eigvalsh(data.K)
    assert np.sum(values > 1e-9 * values[-1]) == 384
    assert values[0] > -1e-9 * values[-1]
    assert_allclose(np.diag(data.K), 1, rtol=1e-14)
    assert set(data.smiles) == set(data.task_names)
    assert set(data.sequences) == set(data.instance_names)
    assert "AAK1" in data.instance_names
    for fact in ("68 drugs", "442 kinases", "69.6 %", "pKd", "http://"):
        assert fact in data.DESCR


def test_the_published_options(shared_data):
    data = fetch_davis(
        data_home=shared_data / "davis",
        instances="drugs",
        labels="Kd",
        drug_similarity="ECFP4",
        target_similarity="WS_normalized",
    )
    assert data.Y.shape == (68, 442)
    assert np.sum(data.Y == 10_000) == 20_931
    values = np.linalg.eigvalsh(data.G)
    assert np.sum(values < -1e-9) == 109
    assert_allclose(values[0], -2.6, atol=0.05)
    assert data.instance_names[0] == "11314340"
    assert_allclose(data.K[0, 1], 0.104348)
    assert_allclose(data.G[0, 1], 0.45481928)
    assert data.Y[0, 0] == 43


# -- small files --------------------------------------------------------------------------------------------


@over(every(pack=[False, True], folder=[".", "davis"]))
def test_tables(tmp_path, pack, folder):
    write(tmp_path / folder, TABLES, pack)
    data = fetch_davis(data_home=tmp_path)
    assert_allclose(data.Y, np.array([[8, 5, 9], [5, 10, 6]]).T, rtol=1e-12)
    assert_allclose(data.K, COSINES, rtol=1e-12)
    assert_array_equal(data.G, DRUGS["2D"])
    assert data.instance_names.tolist() == TARGET_IDS
    assert data.task_names.tolist() == DRUG_IDS
    assert data.smiles == data.sequences == {}


def test_options(tmp_path):
    write(tmp_path, TABLES)
    data = fetch_davis(
        data_home=tmp_path,
        instances="drugs",
        labels="Kd",
        drug_similarity="ECFP4",
        target_similarity="WS_normalized",
    )
    assert_array_equal(data.Y, KD)
    assert_array_equal(data.K, DRUGS["ECFP4"])
    assert_allclose(data.G, NORMALIZED, rtol=1e-12)
    assert data.instance_names.tolist() == DRUG_IDS
    proteins = fetch_davis(data_home=tmp_path, instances="proteins", labels="Kd")
    assert_array_equal(proteins.Y, KD.T)


def test_structures_and_sequences_where_their_files_are(tmp_path):
    write(
        tmp_path,
        TABLES
        | {
            "smiles.tsv": "drug\tsmiles\n11314340\tC\n24889392\tCC\n",
            "proteins.tsv": "AAK1\tMKK\n",
        },
    )
    data = fetch_davis(data_home=tmp_path)
    assert data.smiles == {"11314340": "C", "24889392": "CC"}
    assert data.sequences == {"AAK1": "MKK"}


# -- bad input ----------------------------------------------------------------------------------------------


@over(
    lines(
        "argument message",
        ("instances", "instances must be one of 'targets', 'proteins', 'drugs', found 'x'"),
        ("target_similarity", "target_similarity must be one of 'WS', 'WS_normalized', found 'x'"),
    )
)
def test_unknown_words(argument, message):
    with pytest.raises(ValueError, match=message):
        fetch_davis(**{argument: "x"})


def test_values_that_are_no_constants(tmp_path):
    write(tmp_path, TABLES | {"kd_nM.tsv": TABLES["kd_nM.tsv"].replace("0.1", "0")})
    with pytest.raises(
        ValueError, match=r"Kd has 0 for ABL1\(E255K\)p and 24889392: expected positive numbers"
    ):
        fetch_davis(data_home=tmp_path)
