"""Ratings of movies: from the real archives, and from small ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.datasets import load_ratings
from dyadlearn.exceptions import DataFileError
from sweeps import every, lines, over

# Users, movies, ratings for training and test, edges and joined nodes of both graphs, range of the ratings.
SETS = {
    "douban": (3000, 3000, 123_202, 13_689, (1344, 1168), None, (1, 5)),
    "flixster": (3000, 3000, 23_556, 2_617, (29_677, 3000), (25_459, 3000), (0.5, 5)),
}

SMALL = {
    "train_user": np.array([0, 2, 2], dtype=np.uint16),
    "train_item": np.array([1, 0, 1], dtype=np.uint16),
    "train_rating": np.array([4, 2.5, 1], dtype=np.float32),
    "test_user": np.array([1]),
    "test_item": np.array([1]),
    "test_rating": np.array([5.0]),
    "users_edges": np.array([[0, 3], [1, 0]], dtype=np.uint16),
    "movies_edges": np.array([[1, 2]]),
}
NAN = np.nan
TRAIN = np.array([[NAN, 4, NAN], [NAN, NAN, NAN], [2.5, 1, NAN], [NAN, NAN, NAN]])
TEST = np.array([[NAN, NAN, NAN], [NAN, 5, NAN], [NAN, NAN, NAN], [NAN, NAN, NAN]])


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path_factory.mktemp("home")))


def write(folder, name="flixster", **changes):
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}.npz", **{key: value for key, value in (SMALL | changes).items() if value is not None})
    return folder


@pytest.mark.parametrize("name", SETS)
def test_the_published_splits(name, shared_data):
    m, q, n_train, n_test, *graphs, (least, most) = SETS[name]
    data = load_ratings(name, data_home=shared_data)
    train, test = np.isfinite(data.Y), np.isfinite(data.Y_test)
    assert data.Y.shape == data.Y_test.shape == (m, q)
    assert data.Y.dtype == data.Y_test.dtype == np.float64
    assert (train.sum(), test.sum()) == (n_train, n_test)
    assert not (train & test).any()
    assert (np.nanmin(data.Y), np.nanmax(data.Y)) == (least, most)
    for edges, expected in zip((data.instance_edges, data.task_edges), graphs, strict=True):
        assert (edges is None) == (expected is None)
        if edges is not None:
            assert (len(edges), np.unique(edges).size) == expected
            assert (edges[:, 0] != edges[:, 1]).all()
    # The figures of the table are those of the files.
    row = next(line.split() for line in load_ratings.__doc__.splitlines() if line.strip().startswith(f"``{name}``"))
    n_edges = ["none" if graph is None else f"{graph[0]:,}" for graph in graphs]
    assert row[1:] == [f"{m:,}", f"{q:,}", f"{n_train:,}", f"{n_test:,}", *n_edges]
    for fact in (f"{m:,} users", f"{n_train:,}", f"{n_test:,}", f"from {least} to {most}", *n_edges):
        assert fact in data.DESCR


def test_a_rating_stands_where_the_archive_has_it(shared_data):
    data = load_ratings("douban", data_home=shared_data / "monti")
    assert_array_equal(data.Y[0, [22, 31, 81, 119]], [4, 2, 1, 3])
    assert_array_equal(data.Y_test[0, [104, 192, 335]], [3, 2, 1])
    assert_array_equal(data.instance_edges[:2], [[4, 109], [4, 767]])


@over(every(folder=[".", "monti"]))
def test_a_small_archive(tmp_path, folder):
    write(tmp_path / folder)
    data = load_ratings("flixster", data_home=tmp_path)
    # The last user and the last movie are in a graph only.
    assert_array_equal(data.Y, TRAIN)
    assert_array_equal(data.Y_test, TEST)
    assert_array_equal(data.instance_edges, SMALL["users_edges"])
    assert_array_equal(data.task_edges, SMALL["movies_edges"])
    assert data.instance_names.tolist() == [0, 1, 2, 3]
    assert data.task_names.tolist() == [0, 1, 2]


def test_movies_as_instances(tmp_path):
    data = load_ratings("flixster", data_home=write(tmp_path), instances="movies")
    assert_array_equal(data.Y, TRAIN.T)
    assert_array_equal(data.Y_test, TEST.T)
    assert data.Y.flags.c_contiguous
    assert_array_equal(data.instance_edges, SMALL["movies_edges"])
    assert_array_equal(data.task_edges, SMALL["users_edges"])
    assert data.instance_names.tolist() == [0, 1, 2]


def test_sides_without_a_graph(tmp_path):
    data = load_ratings("douban", data_home=write(tmp_path, "douban", users_edges=None, movies_edges=None))
    assert_array_equal(data.Y, TRAIN[:3, :2])
    assert data.instance_edges is None
    assert data.task_edges is None
    assert "Graph of the users: none. Graph of the movies: none." in data.DESCR


# -- bad input ----------------------------------------------------------------------------------------------


def test_unknown_words_and_missing_files(tmp_path):
    with pytest.raises(ValueError, match="name must be one of 'douban', 'flixster', found 'netflix'"):
        load_ratings("netflix")
    with pytest.raises(ValueError, match="instances must be one of 'users', 'movies', found 'items'"):
        load_ratings("douban", instances="items")
    with pytest.raises(FileNotFoundError, match="'douban' is not in .*put douban.npz .*monti.*DYADLEARN_DATA"):
        load_ratings("douban", data_home=tmp_path)


@over(
    lines(
        "changes message",
        ({"test_item": None}, "flixster.npz lacks the arrays test_item: found train_user"),
        ({"train_user": np.array([0.0, 2, 2])}, "train_user must be a list of whole numbers, found float64"),
        ({"users_edges": np.array([0, 1])}, r"users_edges must be a table of whole numbers, found int64 \(2,\)"),
        (
            {"users_edges": np.array([[0, 1, 2]])},
            r"users_edges must be pairs of numbers from 0 on, found shape \(1, 3\)",
        ),
        ({"movies_edges": np.array([[0, -1]])}, "movies_edges must be pairs of numbers from 0 on"),
        ({"train_user": np.array([0, 2])}, "found 2 of train_user, 3 of train_item, 3 of train_rating"),
        ({"test_user": np.array([-1])}, "test must have users and movies numbered from 0 and finite ratings"),
        ({"test_rating": np.array([np.nan])}, "test must have users and movies numbered from 0 and finite ratings"),
        ({"train_item": np.array([1, 0, 0])}, "train has more than one rating for some user and movie"),
        ({"test_user": np.array([2])}, "1 cells are in both parts, such as user 2 and movie 1"),
    )
)
def test_malformed_archives(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(DataFileError, match=message):
        load_ratings("flixster", data_home=tmp_path)


def test_parts_without_ratings(tmp_path):
    empty = {f"test_{key}": SMALL[f"test_{key}"][:0] for key in ("user", "item", "rating")}
    with pytest.raises(DataFileError, match="and at least one, found 0 of test_user"):
        load_ratings("flixster", data_home=write(tmp_path, **empty))


def test_a_truncated_archive(tmp_path):
    path = write(tmp_path) / "flixster.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataFileError, match="flixster.npz is damaged or no npz archive"):
        load_ratings("flixster", data_home=tmp_path)
