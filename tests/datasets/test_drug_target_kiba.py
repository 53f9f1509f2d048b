"""KIBA scores: from the real archive, and from small ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.datasets import fetch_kiba
from dyadlearn.kernels.chemistry import fingerprints
from sweeps import every, lines, over

SCORES = np.array([[11.1, np.nan], [np.nan, 0.0], [12.25, 13.5]])
TARGETS = np.array([[1, 0.25], [0.25, 1]])
DRUGS = np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
BITS = np.zeros((3, 2048), dtype=np.uint8)
BITS[0, :3] = BITS[1, 1:4] = BITS[2, 2040:] = 1
SMILES = {"CHEMBL1": "CCO", "CHEMBL2": "CC[C@H](C)N", "CHEMBL3": "c1ccccc1"}
SEQUENCES = {"O00141": "MTV", "O00311": "MEA"}
ARCHIVE = {
    "kiba": SCORES.astype(np.float32),
    "drug_ecfp4_bits": np.packbits(BITS, axis=1),
    "target_sim": TARGETS,
    "drug_ids": np.array(list(SMILES)),
    "target_ids": np.array(list(SEQUENCES)),
}


def write_archive(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "kiba.npz",
        **{key: value for key, value in (ARCHIVE | changes).items() if value is not None},
    )
    return folder


# -- the real archive ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kiba(shared_data):
    return fetch_kiba(data_home=shared_data)


def test_the_published_grid(kiba):
    data = kiba
    assert data.Y.shape == (2111, 229)
    assert data.Y.dtype == np.float64
    observed = np.isfinite(data.Y)
    assert observed.sum() == 118_254
    assert round(100 * observed.mean(), 1) == 24.5
    assert observed.sum(axis=0).min() > 10
    assert observed.sum(axis=1).min() > 10
    assert np.sum(data.Y == 0) == 1
    assert data.fingerprints.shape == (2111, 2048)
    assert set(np.unique(data.fingerprints)) == {0, 1}
    assert 2111 - len({row.tobytes() for row in data.fingerprints}) == 51
    assert data.K.shape == (2111, 2111)
    assert_array_equal(np.diag(data.K), 1)
    a = data.fingerprints[3].astype(bool)
    b = data.fingerprints[17].astype(bool)
    assert_allclose(data.K[3, 17], (a & b).sum() / (a | b).sum())
    assert data.G.shape == (229, 229)
    assert np.linalg.eigvalsh(data.G)[0] > 0.05
    assert list(data.smiles) == list(data.instance_names)
    assert list(data.sequences) == list(data.task_names)
    for fact in (
        "2,111 drugs",
        "229 kinases",
        "118,254 pairs (24.5 %)",
        "https://raw.githubusercontent.com/hkmztrk/",
    ):
        assert fact in data.DESCR


def test_fingerprints_of_the_archive_are_those_of_the_structures(kiba):
    pytest.importorskip("rdkit", reason="rdkit is not installed: fingerprints are not computed")
    data = kiba
    computed, _ = fingerprints([data.smiles[name] for name in data.instance_names[:60]])
    assert_array_equal(computed.toarray(), data.fingerprints[:60])


# -- small files --------------------------------------------------------------------------------------------


@over(every(folder=[".", "kiba"]))
def test_an_archive(tmp_path, folder):
    write_archive(tmp_path / folder)
    data = fetch_kiba(data_home=tmp_path)
    assert_allclose(data.Y, SCORES, rtol=1e-6)
    assert_array_equal(data.K, DRUGS)
    assert_array_equal(data.G, TARGETS)
    assert_array_equal(data.fingerprints, BITS)
    assert data.instance_names.tolist() == list(SMILES)
    assert data.task_names.tolist() == list(SEQUENCES)
    assert data.smiles == data.sequences == {}


def test_targets_as_instances(tmp_path):
    data = fetch_kiba(data_home=write_archive(tmp_path), instances="targets")
    assert_allclose(data.Y, SCORES.T, rtol=1e-6)
    assert_array_equal(data.K, TARGETS)
    assert_array_equal(data.G, DRUGS)
    assert data.instance_names.tolist() == list(SEQUENCES)
    assert_array_equal(data.fingerprints, BITS)


# -- bad input ----------------------------------------------------------------------------------------------


@over(
    lines(
        "changes message",
        (
            {"target_sim": None},
            "kiba.npz lacks the arrays target_sim: found kiba, drug_ecfp4_bits, drug_ids, "
            "target_ids",
        ),
        (
            {"kiba": SCORES.T},
            r"kiba of .*kiba.npz has shape \(2, 3\), expected \(3, 2\) by the ids of drugs and "
            r"targets",
        ),
        ({"drug_ecfp4_bits": np.zeros((3, 256))}, r"must be bytes \(uint8\), found float64"),
        ({"drug_ids": np.array(["a", "b", "a"])}, "drug_ids of .*kiba.npz has repeated ids: 'a'"),
    )
)
def test_malformed_archives(tmp_path, changes, message):
    write_archive(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        fetch_kiba(data_home=tmp_path)
