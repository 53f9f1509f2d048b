"""The loader of web pages in a hierarchy, on small archives and the real ones."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.exceptions import DataFileError
from sweeps import lines, over


@pytest.fixture(scope="module")
def load_lshtc(load):
    return load("lshtc").load_lshtc


def write_pages(folder, edges="parent\tchild\n1\t29\n1\t33\n", **changes):
    part = {"y": [33, 29], "data": [2, 1, 3], "indices": [0, 2, 1], "indptr": [0, 2, 3]}
    arrays = {
        f"{name}_{key}": part[key] for name in ("train", "validation", "test") for key in part
    }
    arrays = {"feature_ids": [172, 179, 236]} | arrays | changes
    np.savez(
        folder / "task2.npz", **{key: value for key, value in arrays.items() if value is not None}
    )
    (folder / "edges.tsv.gz").write_bytes(gzip.compress(edges.encode()))
    return folder


def test_pages(load_lshtc, tmp_path):
    data = load_lshtc(write_pages(tmp_path))
    assert_array_equal(data.X.toarray(), [[2, 0, 1], [0, 3, 0]] * 3)
    assert_array_equal(data.Y.toarray(), [[0, 1], [1, 0]] * 3)
    assert_array_equal(data.splits["validation"], [2, 3])
    assert_array_equal(data.edges, [[1, 29], [1, 33]])


@over(
    lines(
        "changes message",
        ({"test_y": None}, "task2.npz lacks the arrays test_y: found feature_ids, train_y"),
        ({"train_indices": [0, 3, 1]}, r"the part 'train' is no sparse matrix of shape \(2, 3\)"),
        ({"edges": "parent\tchild\n1\t29\n"}, "1 categories are not in edges.tsv.gz, such as 33"),
    )
)
def test_malformed_pages(load_lshtc, tmp_path, changes, message):
    write_pages(tmp_path, **changes)
    with pytest.raises(DataFileError, match=message):
        load_lshtc(tmp_path)


def test_missing_files(load_lshtc, tmp_path):
    with pytest.raises(
        FileNotFoundError, match="task2.npz, edges.tsv .*lshtc1_dryrun.*data_home= .*DYADLEARN_DATA"
    ):
        load_lshtc(tmp_path)


def test_the_real_pages(load_lshtc, shared_data):
    data = load_lshtc(shared_data)
    assert {name: len(rows) for name, rows in data.splits.items()} == {
        "train": 4463,
        "validation": 1860,
        "test": 1858,
    }
    assert data.X.shape == (8181, 27129)
    assert data.Y.shape == (8181, 1139)
    assert_array_equal(data.Y.sum(axis=1), 1)
    assert data.edges.shape == (2377, 2)
