"""Features by id out of files that other programs write, where wrong ids or numbers would go unnoticed."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from dyadlearn import read_features
from dyadlearn._files.tables import read_cells
from dyadlearn.cli.entities import open_source
from dyadlearn.exceptions import DataFileError, IdError
from sweeps import lines, over

IDS = ["d", "a", "c", "b"]
VALUES = np.arange(12.0).reshape(4, 3) + 0.5


def check(table, ids, values):
    assert table.ids == tuple(ids)
    assert_array_equal(table.values, values)


# Tables of columns -----------------------------------------------------------------------------------


def test_what_polars_writes(tmp_path):
    numbers = {"id": IDS, "x": VALUES[:, 0], "y": VALUES[:, 1]}
    for frame, values in (
        (pl.DataFrame(numbers), VALUES[:, :2]),
        (pl.DataFrame(numbers).with_columns(pl.col("id").cast(pl.Categorical)), VALUES[:, :2]),
        (pl.DataFrame({"id": IDS, "v": VALUES.tolist()}), VALUES),
    ):
        frame.write_parquet(tmp_path / "x.parquet")
        check(read_features(tmp_path / "x.parquet"), IDS, values)
        check(read_features(tmp_path / "x.parquet", ["b", "d"]), ["b", "d"], values[[3, 0]])


def test_the_index_of_pandas_has_the_ids(tmp_path):
    """It is written last, so that a first column of whole numbers or of text could be taken for it."""
    path = tmp_path / "x.parquet"
    readers = (read_features, lambda path: read_cells(path).table())
    columns = {"n": [3, 1, 2, 0], "x": VALUES[:, 0]}
    counts = pd.DataFrame(columns, index=pd.Index([7, 5, 6, 9], name="gene"))
    for frame in (counts, counts.rename_axis(None)):
        frame.to_parquet(path)
        check(read_features(path), [7, 5, 6, 9], frame.to_numpy())
        check(read_features(path, ["9", "5"]), ["9", "5"], frame.to_numpy()[[3, 1]])
        check(read_features(path, row_ids=IDS), IDS, frame.to_numpy())
        check(read_cells(path).table(), ["7", "5", "6", "9"], frame.to_numpy())
    assert read_features(path).row_ids.name is None
    texts = {"sequence": ["MA", "MK", "MV", "ML"], "v": list(VALUES)}
    pd.DataFrame(texts, index=pd.Index(IDS, name="acc")).to_parquet(path)
    check(read_features(path), IDS, VALUES)
    check(read_features(path, ["MK"], row_ids="sequence"), ["MK"], VALUES[[1]])
    counts.set_axis([0.5, 1.0, 2.0, 3.0]).to_parquet(path)
    with pytest.raises(DataFileError, match="has numbers with a point for ids"):
        read_features(path)
    counts.set_index(pd.MultiIndex.from_product([["u", "v"], [1, 2]])).to_parquet(path)
    words = r"has an index of 2 levels, '__index_level_0__', '__index_level_1__'"
    for read in readers:
        with pytest.raises(DataFileError, match=words):
            read(path)
    # An index of numbers of rows, left over, and one that counts, which is no column.
    pd.DataFrame({"x": VALUES[:, 0], "acc": IDS})[1:].to_parquet(path)
    for read in readers:
        check(read(path), ["a", "c", "b"], VALUES[1:, :1])
    counts.reset_index(drop=True).to_parquet(path)
    check(read_features(path), [3, 1, 2, 0], VALUES[:, :1])


# Archives of arrays ----------------------------------------------------------------------------------


@over(lines("asked", ["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]))
def test_the_most_digits_of_any_array_are_kept(tmp_path, asked):
    """Whatever the first one has."""
    arrays = {
        "a": np.array([0.5, 1.5], np.float32),
        "b": np.array([16777217, 3]),
        "c": np.array([1e300, 1 / 3]),
    }
    np.savez(tmp_path / "x.npz", **arrays)
    found = read_features(tmp_path / "x.npz", asked)
    assert found.values.dtype == np.float64
    check(found, asked, [arrays[label].astype(float) for label in asked])
    assert read_features(tmp_path / "x.npz", ["a"]).values.dtype == np.float32


# Ids -------------------------------------------------------------------------------------------------


def test_ids_that_are_the_same_as_text(tmp_path):
    np.save(path := tmp_path / "x.npy", VALUES)
    for row_ids in (
        [1, "1", 2, 3],
        [1, np.int64(1), 2, 3],
        [b"a", "a", "b", "c"],
        ["a", " a", "b", "c"],
    ):
        for asked in (None, ["1"]):
            with pytest.raises(IdError, match=r"are the same as text|repeated ids"):
                read_features(path, asked, row_ids=row_ids)
    for asked in ([7, "7"], ["7", " 7"]):
        with pytest.raises(
            IdError, match=r"ids have the ids '?7'? and ' ?7', which are the same as text"
        ):
            read_features(path, asked, row_ids=[7, 5, 6, 9])
    (tmp_path / "asked.txt").write_text("5\n7\n5\n")
    (tmp_path / "own.txt").write_text("7\n5\n6\n9\n")
    with pytest.raises(IdError, match="The list of ids has repeated ids: '5'"):
        open_source(Path(f"{path}::ids={tmp_path / 'asked.txt'},row_ids=own.txt"), None, None)


@over(
    lines(
        "asked error message",
        ([b"\xff"], IdError, r"ids has the id b'\\xff' of type bytes"),
        ([["d"]], TypeError, r"ids must be a list of texts or whole numbers, found \['d'\] in it"),
        ([1.5], IdError, "ids has the id 1.5 of type float: ids must be text or whole numbers"),
    )
)
def test_ids_that_cannot_be_meant(tmp_path, asked, error, message):
    np.save(tmp_path / "x.npy", VALUES)
    with pytest.raises(error, match=message):
        read_features(tmp_path / "x.npy", asked, row_ids=[1, 2, 3, 4])


@over(lines("name", "x.npy", "x.1.npy", "X.NPY"))
def test_the_file_of_ids_that_is_asked_for_is_the_one_that_is_read(tmp_path, name):
    with open(path := tmp_path / name, "wb") as file:
        np.save(file, VALUES)
    with pytest.raises(IdError, match="has no ids") as found:
        read_features(path)
    (tmp_path / re.search(r"write them into (\S+) beside", str(found.value))[1]).write_text(
        "\n".join(IDS)
    )
    check(read_features(path), IDS, VALUES)


def test_a_file_of_ids_is_looked_for_where_it_says_first(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    np.save(path := tmp_path / "data" / "x.npy", VALUES)
    (tmp_path / "data" / "names.txt").write_text("\n".join(IDS))
    monkeypatch.chdir(tmp_path)
    assert read_features(path, row_ids="names.txt").ids == tuple(IDS)
    (tmp_path / "names.txt").write_text("\n".join(IDS[::-1]))
    assert read_features(path, row_ids="names.txt").ids == tuple(IDS[::-1])


def test_means_have_all_their_digits(tmp_path):
    np.savez(
        path := tmp_path / "x.npz",
        a=np.array([[2**24, 1], [1, 2], [1, 3]], np.float32),
        b=np.ones((2, 2)),
    )
    assert_array_equal(read_features(path, ["a"], pool="mean").values, [[(2**24 + 2) / 3, 2]])
    for asked in (["a"], ["b"]):
        with pytest.raises(DataFileError, match="several rows for one id"):
            read_features(path, asked)
