"""The loader of ratings with graphs, on small archives."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.exceptions import DataFileError

RATINGS = {
    "train_user": [0, 1],
    "train_item": [2, 0],
    "train_rating": [4.0, 1.5],
    "test_user": [1],
    "test_item": [1],
    "test_rating": [5.0],
    "users_edges": [[0, 1]],
}


@pytest.fixture(scope="module")
def load_ratings(load):
    return load("ratings").load_ratings


def test_missing_files(load_ratings, tmp_path):
    with pytest.raises(FileNotFoundError, match="douban.npz .*monti"):
        load_ratings("douban", data_home=tmp_path)


def test_ratings(load_ratings, tmp_path):
    np.savez(tmp_path / "douban.npz", **RATINGS)
    data = load_ratings("douban", data_home=tmp_path)
    assert_array_equal(data.Y, [[np.nan, np.nan, 4], [1.5, np.nan, np.nan]])
    assert_array_equal(data.Y_test, [[np.nan, np.nan, np.nan], [np.nan, 5, np.nan]])
    assert_array_equal(data.instance_edges, [[0, 1]])
    assert data.task_edges is None


def test_a_rating_in_both_parts(load_ratings, tmp_path):
    np.savez(tmp_path / "douban.npz", **RATINGS | {"test_item": [0]})
    with pytest.raises(
        DataFileError, match="1 cells are in both parts, such as user 1 and movie 0"
    ):
        load_ratings("douban", data_home=tmp_path)
