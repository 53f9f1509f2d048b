"""The embedded data set: what is inside, and that it says of itself what is true."""

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn.datasets import debtags_kernels, load_debtags


@pytest.fixture(scope="module")
def data():
    return load_debtags()


def test_the_file_is_small_and_holds_no_objects():
    path = files("dyadlearn.datasets").joinpath("data", "debtags.npz")
    assert len(path.read_bytes()) <= 500_000
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive.files} == {"u"}


def test_shapes_fit_each_other(data):
    m, q = data.Y.shape
    assert (m, q) == (1500, 151)
    assert data.X.shape == (m, len(data.words))
    assert data.tasks.shape == (q, len(data.task_words))
    assert len(data.instance_names) == m
    assert len(data.task_names) == len(data.facets) == q
    for names in (data.instance_names, data.task_names, data.words, data.task_words):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(("key", "fewest"), [("X", 2), ("tasks", 1)])
def test_counts_are_canonical_csr_of_positive_whole_numbers(data, key, fewest):
    counts = data[key]
    assert sparse.issparse(counts)
    assert counts.format == "csr"
    assert counts.dtype == np.float64
    assert counts.data.min() >= 1
    assert_array_equal(counts.data, np.round(counts.data))
    assert counts.has_canonical_format
    assert np.diff(counts.tocsc().indptr).min() >= fewest


def test_the_tree_leads_from_the_root_to_every_tag(data):
    parent = {child: above for above, child in data.edges}
    assert len(parent) == len(data.edges)
    for tag, facet in zip(data.task_names, data.facets, strict=True):
        path = [str(tag)]
        while path[-1] != "ROOT":
            path.append(parent[path[-1]])
        assert path[-2] == facet
        assert tag.startswith(f"{facet}::")
    leaves = set(parent) - set(parent.values())
    assert leaves <= set(data.task_names)


def test_the_description_and_the_docstring_state_the_true_sizes(data):
    assert data.DESCR.startswith("Debian packages and their tags\n===")
    density = f"{100 * data.Y.mean():.1f} %"
    for fact in (f"{len(data.instance_names):,} packages", f"{len(data.task_names)} tags", density):
        assert fact in data.DESCR
    assert f"{len(data.words):,} words" in data.DESCR
    for shape in (data.X.shape, data.tasks.shape, data.Y.shape):
        assert f"of shape {shape}" in load_debtags.__doc__


def test_a_frame_carries_the_ids(data):
    frame = load_debtags(as_frame=True).Y
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == list(data.instance_names)
    assert list(frame.columns) == list(data.task_names)
    assert_array_equal(frame.to_numpy(), data.Y)


def test_kernels_are_tfidf_cosines_and_the_facet_bonus(data):
    K, G = debtags_kernels(data)
    for kernel, counts, bonus in ((K, data.X, 0.0), (G, data.tasks, 0.3)):
        n = counts.shape[0]
        dense = counts.toarray()
        idf = np.log((1 + n) / (1 + (dense > 0).sum(axis=0))) + 1
        pairs = np.random.default_rng(0).integers(n, size=(50, 2))
        for i, j in [(0, 0), (0, 1), *pairs]:
            a = dense[i] * idf
            b = dense[j] * idf
            same = bonus * (data.facets[i] == data.facets[j]) if bonus else 0.0
            expected = a @ b / np.sqrt((a @ a) * (b @ b)) + same
            assert_allclose(kernel[i, j], expected, atol=1e-12)
    assert np.linalg.eigvalsh(G).min() > -1e-12
    assert_allclose(np.diag(K), 1.0)
    assert_allclose(np.diag(G), 1.3)
