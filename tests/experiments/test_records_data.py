"""The kernels of the records: finite, symmetric, ones on the diagonal, kept between calls, and equal to slow twins."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

COUNTS = ["morgan1", "morgan2", "morgan3", "feature_morgan2", "atom_pairs", "torsions", "paths"]
DRUGS = [*COUNTS, "morgan2_bits", "maccs", "descriptors"]
TARGETS = ["smith_waterman", "words2", "words3", "words4", "words5"]


def check(kernels, n):
    for name, K in kernels.items():
        assert K.shape == (n, n), name
        assert K.dtype == np.float64, name
        assert np.isfinite(K).all(), name
        assert_array_equal(K, K.T, err_msg=name)
        assert_array_equal(np.diag(K), 1, err_msg=name)
        assert np.linalg.eigvalsh(K)[0] > -1e-9 * n, name


def test_davis_is_kept(script, shared_data, tmp_path, monkeypatch):
    pytest.importorskip("rdkit", reason="rdkit is not installed: molecules are not described")
    data = script.davis(str(shared_data), tmp_path)
    assert data.Y.shape == (68, 442)
    assert_allclose(data.Y[0, 0], 9 - np.log10(43))
    assert list(data.K) == DRUGS
    assert list(data.G) == TARGETS
    check(data.K, 68)
    check(data.G, 442)
    assert all(0 <= K.min() < 1 for K in (*data.K.values(), *data.G.values()))

    def refuse(texts):
        raise AssertionError("computed again")

    monkeypatch.setattr(script, "drug_descriptions", refuse)
    monkeypatch.setattr(script, "target_descriptions", refuse)
    again = script.davis(str(shared_data), tmp_path)
    for first, second in ((data.K, again.K), (data.G, again.G)):
        np.testing.assert_equal(first, second)
    monkeypatch.setattr(script, "VERSION", "another")
    with pytest.raises(AssertionError, match="computed again"):
        script.davis(str(shared_data), tmp_path)


def test_yamanishi(script, shared_data):
    data = script.yamanishi("nr", str(shared_data))
    assert data.Y.shape == (54, 26)
    assert data.Y.sum() == 90
    check(data.K, 54)
    check(data.G, 26)
    assert data.Y_test is None


def test_the_smallest_ratings(script, shared_data, tmp_path):
    data = script.ratings("douban", str(shared_data), tmp_path)
    assert (np.isfinite(data.Y).sum(), np.isfinite(data.Y_test).sum()) == (123_202, 13_689)
    assert data.G == {}
    assert list(data.K) == ["heat0.5", "heat2", "heat8"]
    joined = np.unique(np.load(shared_data / "monti" / "douban.npz")["users_edges"])
    alone = np.setdiff1d(np.arange(3000), joined)
    for K in data.K.values():
        assert K.shape == (3000, 3000)
        assert np.isfinite(K).all()
        assert_array_equal(K, K.T)
        assert K[alone].sum() == len(alone) == 3000 - 1168


@pytest.mark.parametrize("normalized", [False, True])
def test_heat_is_the_exponential_of_the_laplacian(script, normalized):
    edges = np.array([[0, 1], [1, 3], [3, 0], [3, 6], [2, 5]])
    A = np.zeros((8, 8))
    A[tuple(edges.T)] = A[tuple(edges.T[::-1])] = 1
    L = np.diag(A.sum(axis=1)) - A
    if normalized:
        roots = np.sqrt(np.maximum(A.sum(axis=1), 1))
        L = L / np.outer(roots, roots)
    found = script.heat_kernels(edges, 8, normalized=normalized)
    assert list(found) == ["heat0.5", "heat2", "heat8"]
    for K, beta in zip(found.values(), (0.5, 2, 8), strict=True):
        heat = expm(-beta * L)
        roots = np.sqrt(np.diag(heat))
        assert_allclose(K, heat / np.outer(roots, roots), rtol=1e-10, atol=1e-14)
    check(found, 8)


def test_molecules_are_compared_by_their_counts(script):
    pytest.importorskip("rdkit", reason="rdkit is not installed: molecules are not described")
    # Methane has no pair of atoms, no chain and no path: nothing of it may become NaN.
    smiles = ["C", "CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "N", "[Na+].[Cl-]"]
    described = script.drug_descriptions(script.drug_features(smiles))
    assert list(described) == DRUGS
    kernels = {name: script.whole(each.gram()) for name, each in described.items()}
    check(kernels, 5)
    for name in COUNTS:
        counts = described[name].features.toarray()
        assert counts.shape == (5, 4096)
        assert counts.max() <= 255
        for i, j in ((0, 1), (1, 2), (0, 3), (0, 0)):
            most = np.maximum(counts[i], counts[j]).sum()
            expected = np.minimum(counts[i], counts[j]).sum() / most if most else 1.0
            assert_allclose(kernels[name][i, j], expected, rtol=1e-12, err_msg=name)
    bits = described["morgan2"].features.toarray() > 0
    assert_allclose(
        kernels["morgan2_bits"][1, 2], (bits[1] & bits[2]).sum() / (bits[1] | bits[2]).sum()
    )
    rows = described["descriptors"].features
    squares = np.array([[((a - b) ** 2).sum() for b in rows] for a in rows])
    assert_allclose(kernels["descriptors"], np.exp(-squares / squares.mean()), rtol=1e-9)
    with pytest.raises(ValueError, match="1 of 2 structures are no valid SMILES: C\\("):
        script.drug_features(["C", "C("])


def test_a_machine_without_rdkit_takes_what_was_kept(script, tmp_path, monkeypatch):
    pytest.importorskip("rdkit", reason="rdkit is not installed: molecules are not described")
    smiles = ["CCO", "c1ccccc1"]
    first = script.kept_features("x", smiles, tmp_path)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    np.testing.assert_equal(script.kept_features("x", smiles, tmp_path), first)
    with pytest.raises(
        ModuleNotFoundError, match="The molecules of x have to be described by rdkit"
    ):
        script.kept_features("x", ["CC"], tmp_path)


def test_wild_descriptors_are_tamed(script):
    numbers = np.array(
        [[1e300, 5.0, np.nan, 1.0], [-3.0, 5.0, np.inf, 2.0], [0.0, 5.0, -np.inf, 4.0]] * 7
    )
    numbers[0, 2] = 2.0
    found = script.tame(numbers)
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 4
    assert_array_equal(found[:, 1:3], 0)
    logs = np.log1p(numbers[:, 3])
    assert_allclose(found[:, 3], (logs - logs.mean()) / logs.std(), rtol=1e-12)
    signed = np.sign(numbers[:, 0]) * np.log1p(np.abs(numbers[:, 0]))
    assert_allclose(found[:, 0], (signed - signed.mean()) / signed.std(), rtol=1e-12)
    outlier = np.zeros((100, 1))
    outlier[3] = 1.0
    assert script.tame(outlier).max() == 4
    assert script.bandwidth(np.zeros((3, 2))) == 1


def test_words_of_sequences(script):
    described = script.target_descriptions(["MKVLAMKV", "MKVLL", "MK"])
    K = script.whole(described["words2"].gram())
    roots = {"MK": np.sqrt([2, 1, 1]), "KV": np.sqrt([2, 1, 0]), "VL": [1, 1, 0], "LA": [1, 0, 0]}
    X = np.array([*roots.values(), [1, 0, 0], [0, 1, 0]]).T
    lengths = np.linalg.norm(X, axis=1)
    assert_allclose(K, X @ X.T / np.outer(lengths, lengths), rtol=1e-12)
    # Shorter than a word: similar to itself alone.
    assert_array_equal(script.whole(described["words5"].gram())[2], [0, 0, 1])


def test_what_is_wrong_is_said(script):
    with pytest.raises(
        FileNotFoundError, match=r"x has no sequences of 1 of its 2 entities \(b, …\)"
    ):
        script.in_order({"a": "MK"}, ["a", "b"], "sequences", "x")
    with pytest.raises(ValueError, match="A kernel of 2 entities has NaN or infinity in 2 cells"):
        script.whole(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_a_damaged_file_is_computed_again(script, tmp_path):
    kernels = {"a": np.eye(2)}
    script.kept("x", "1", tmp_path, lambda: kernels)
    [path] = tmp_path.iterdir()
    for content in (path.read_bytes()[:100], b"", b"no archive"):
        path.write_bytes(content)
        with pytest.warns(UserWarning, match="is damaged and is computed again"):
            assert_array_equal(script.kept("x", "1", tmp_path, lambda: kernels)["a"], np.eye(2))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_where_kernels_are_kept(script, tmp_path, monkeypatch):
    assert script.cache_folder(tmp_path / "own" / "folder").is_dir()
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path / "home"))
    assert script.cache_folder() == tmp_path / "home" / "records"
    # A file stands where the folder should be: as good as one that cannot be written to.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path / "file"))
    monkeypatch.setattr(script.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    assert script.cache_folder() == tmp_path / "temporary" / "dyadlearn-records"
