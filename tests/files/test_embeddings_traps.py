"""Features by id out of files that other programs write, where wrong ids or numbers would go unnoticed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn import read_features
from dyadlearn._files import tables
from dyadlearn._files.tables import load_table
from dyadlearn.exceptions import DataFileError

IDS = ["d", "a", "c", "b"]
VALUES = np.arange(12.0).reshape(4, 3) + 0.5


def check(table, ids, values):
    assert table.ids == tuple(ids)
    assert_array_equal(table.values, values)


@pytest.fixture(params=["pyarrow", "polars"])
def reader(request, monkeypatch):
    pytest.importorskip(request.param)
    monkeypatch.setattr(tables, "find_spec", lambda name: True if name == request.param else None)


# Tables of columns -----------------------------------------------------------------------------------


def test_what_polars_writes(tmp_path, reader):
    pl = pytest.importorskip("polars")
    numbers = {"id": IDS, "x": VALUES[:, 0], "y": VALUES[:, 1]}
    for frame, values in (
        (pl.DataFrame(numbers), VALUES[:, :2]),
        (pl.DataFrame(numbers).with_columns(pl.col("id").cast(pl.Categorical)), VALUES[:, :2]),
        (pl.DataFrame({"id": IDS, "v": VALUES.tolist()}), VALUES),
    ):
        for ending, write in {"arrow": frame.write_ipc, "parquet": frame.write_parquet}.items():
            write(tmp_path / f"x.{ending}")
            check(read_features(tmp_path / f"x.{ending}"), IDS, values)
            check(read_features(tmp_path / f"x.{ending}", ["b", "d"]), ["b", "d"], values[[3, 0]])


def test_the_index_of_pandas_has_the_ids(tmp_path, reader):
    """It is written last, so that a first column of whole numbers or of text could be taken for it."""
    pd = pytest.importorskip("pandas")
    path = tmp_path / "x.parquet"
    counts = pd.DataFrame({"n": [3, 1, 2, 0], "x": VALUES[:, 0]}, index=pd.Index([7, 5, 6, 9], name="gene"))
    for frame in (counts, counts.rename_axis(None)):
        frame.to_parquet(path)
        check(read_features(path), [7, 5, 6, 9], frame.to_numpy())
        check(read_features(path, ["9", "5"]), ["9", "5"], frame.to_numpy()[[3, 1]])
        check(read_features(path, row_ids=IDS), IDS, frame.to_numpy())
        check(load_table(path), ["7", "5", "6", "9"], frame.to_numpy())
    assert read_features(path).row_ids.name is None
    told = pd.DataFrame({"sequence": ["MA", "MK", "MV", "ML"], "v": list(VALUES)}, index=pd.Index(IDS, name="acc"))
    told.to_parquet(path)
    check(read_features(path), IDS, VALUES)
    check(read_features(path, ["MK"], row_ids="sequence"), ["MK"], VALUES[[1]])
    counts.set_axis([0.5, 1.0, 2.0, 3.0]).to_parquet(path)
    with pytest.raises(DataFileError, match="has numbers with a point for ids"):
        read_features(path)
    counts.set_index(pd.MultiIndex.from_product([["u", "v"], [1, 2]])).to_parquet(path)
    for read in (read_features, load_table):
        with pytest.raises(DataFileError, match=r"has an index of 2 levels, '__index_level_0__', '__index_level_1__'"):
            read(path)
    rest = pd.DataFrame({"x": VALUES[:, 0], "acc": IDS})[1:]  # whose index is numbers of rows, left over
    rest.to_parquet(path)
    for read in (read_features, load_table):
        check(read(path), ["a", "c", "b"], VALUES[1:, :1])
    counts.reset_index(drop=True).to_parquet(path)  # an index that counts is no column
    check(read_features(path), [3, 1, 2, 0], VALUES[:, :1])


def test_the_index_of_pandas_has_the_ids_in_arrow_too(tmp_path):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"sequence": ["MA", "MK", "MV", "ML"], "v": list(VALUES)}, index=pd.Index(IDS, name="acc"))
    frame.to_feather(tmp_path / "x.feather")
    check(read_features(tmp_path / "x.feather"), IDS, VALUES)
