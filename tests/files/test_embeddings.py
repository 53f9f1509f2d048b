"""Features by id: the same out of every format, no more read than is asked for, and files that nobody should trust."""

import os
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import embeddings_case as case
from dyadlearn import read_features
from dyadlearn._files import packed
from dyadlearn._files.embeddings import open_features
from dyadlearn.exceptions import DataFileError, IdError, NotEnoughMemoryError
from embeddings_case import ASKED, IDS, PLACES, VALUES, WRITERS, N
from sweeps import lines, over


@pytest.fixture(autouse=True)
def _no_children(monkeypatch):
    """Read texts of HDF5 files in this process; children are tested in test_hdf5_texts.py."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def check(path):
    found = read_features(path, ASKED)
    assert found.ids == tuple(ASKED)
    assert_array_equal(found.values, VALUES[PLACES])
    whole = read_features(path)
    assert_array_equal(whole.values[[whole.ids.index(label) for label in ASKED]], found.values)
    assert set(whole.ids) == set(IDS)


@over(lines("name", *WRITERS))
def test_the_same_out_of_every_file(tmp_path, name):
    WRITERS[name](tmp_path / name)
    check(tmp_path / name)


@over(
    lines(
        "stored kept",
        ("f2", "f4"),
        ("f4", "f4"),
        ("f8", "f8"),
        ("u8", "f8"),
        ("bool", "f8"),
        (">f4", "f4"),
        (">f8", "f8"),
    )
)
def test_precision_is_kept(tmp_path, stored, kept):
    values = np.round(4 * np.abs(VALUES)).astype(stored)
    for name in ("mapped.npy", "matrix.npz", "matrix.h5", "one_each.h5", "numbers.parquet"):
        if stored.startswith(">") and name.endswith("parquet"):
            continue
        WRITERS[name](tmp_path / name, values)
        found = read_features(tmp_path / name, ASKED).values
        assert found.dtype == np.dtype(kept), name
        assert_array_equal(found, values[PLACES].astype(float))


# No more is read than is asked for ------------------------------------------------------------------


def scribble(path, offset, length):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write((b"\xa5\x13\x77" * length)[:length])


def refuses(path, label="p0"):
    with pytest.raises(DataFileError, match="is damaged or no"):
        read_features(path, [label])


def test_a_mapped_array_may_be_larger_than_any_memory(tmp_path):
    path = tmp_path / "huge.npy"
    n = 10_000
    d = 4_000_000
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (n, d)}
        )
        start = file.tell()
        file.truncate(start + 8 * n * d)
        file.seek(start + 8 * (7_000 * d + 1))
        file.write(np.float64(0.5).tobytes())
    ids = [f"x{row}" for row in range(n)]
    found = read_features(path, ["x7000", "x3"], row_ids=ids)
    assert found.values.shape == (2, d)
    assert found.values[0, :3].tolist() == [0.0, 0.5, 0.0]
    with pytest.raises(
        NotEnoughMemoryError,
        match=r"Reading 10000 × 4000000 features of .*huge\.npy needs about 298",
    ):
        read_features(path, row_ids=ids)


def assert_reads(path):
    assert_array_equal(read_features(path, ASKED).values, VALUES[PLACES])


def test_other_blocks_of_a_matrix_in_hdf5_are_not_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "m.h5"
    case.h5(path)
    with h5py.File(path) as file:
        chunks = [file["embeddings"].id.get_chunk_info(place) for place in range(12)]
    for chunk in chunks:
        if chunk.chunk_offset[0] in (7, 35):
            scribble(path, chunk.byte_offset, chunk.size)
    assert_reads(path)
    refuses(path, "p8")


def test_other_data_sets_of_hdf5_are_not_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "e.h5"
    case.h5_one_each(path)
    with h5py.File(path) as file:
        others = [file[name].id.get_chunk_info(0) for name in IDS if name not in ASKED]
    for chunk in others:
        scribble(path, chunk.byte_offset, chunk.size)
    assert_reads(path)
    refuses(path)


def test_other_members_of_an_archive_are_not_unpacked(tmp_path):
    from zipfile import ZipFile

    path = tmp_path / "e.npz"
    case.npz_one_each_packed(path)
    with ZipFile(path) as archive:
        others = [
            each for each in archive.infolist() if each.filename.removesuffix(".npy") not in ASKED
        ]
    # The header of the first tells that there is one for each id.
    for each in others[1:]:
        scribble(path, each.header_offset + 30 + len(each.filename) + 20, 30)
    assert_reads(path)
    refuses(path, "p1")


@pytest.mark.parametrize("name", ["numbers.parquet", "vectors.parquet"])
def test_other_row_groups_of_parquet_are_not_read(tmp_path, name):
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / name
    WRITERS[name](path)
    data = pq.ParquetFile(path).metadata
    place = 0 if name.startswith("numbers") else 2
    for group in {0, 1, 2, 3, 4, 5} - {place // 7 for place in PLACES}:
        column = data.row_group(group).column(place)
        scribble(
            path,
            column.dictionary_page_offset or column.data_page_offset,
            column.total_compressed_size,
        )
    assert_reads(path)
    refuses(path, "p8")


# Where ids and features are -------------------------------------------------------------------------


def test_ids_of_an_array(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, VALUES[:3])
    with pytest.raises(
        IdError, match=r"x\.npy has no ids: write them into x\.ids\.txt beside it, one a line"
    ):
        read_features(path)
    assert open_features(path).ids is None
    assert read_features(path, ["b"], row_ids=["a", "b", "c"]).ids == ("b",)
    assert read_features(path, [7], row_ids=np.array([5, 7, 9])).ids == (7,)
    (tmp_path / "names.txt").write_text("a\nb \nc")
    assert read_features(path, row_ids=tmp_path / "names.txt").ids == ("a", "b", "c")
    for content, message in {
        "a\nb\n": r"x\.ids\.txt has 2 ids, but there are 3 rows",
        "a\n\nb": r"x\.ids\.txt has no id at position 1",
    }.items():
        (tmp_path / "x.ids.txt").write_text(content)
        with pytest.raises(ValueError, match=message):
            read_features(path)
    with pytest.raises(
        DataFileError,
        match=r"none\.txt is neither a file of ids, one a line, nor a part of .*x\.npy",
    ):
        read_features(path, row_ids="none.txt")
    with pytest.raises(
        TypeError, match="row_ids must be a list of ids, such as labels.index, found dict"
    ):
        read_features(path, row_ids={"a": 1})


def test_parts_are_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file["first/x"], file["first/acc"] = VALUES, IDS
        file["second/x"], file["second/acc"] = -VALUES, IDS[::-1]
        for label, row in zip(IDS, VALUES, strict=True):
            file[f"each/{label}"] = row
    assert_array_equal(
        read_features(path, ASKED, key="first/x", row_ids="acc").values, VALUES[PLACES]
    )
    assert_array_equal(
        read_features(path, ["p0"], key="/second", row_ids="acc").values, -VALUES[-1:]
    )
    assert_array_equal(read_features(path, ASKED, key="each").values, VALUES[PLACES])
    for key, message in {
        None: r"holds 3 arrays or groups, 'each', 'first', 'second': say by key= \(on the command "
        r"line m\.h5::each\)",
        "third": r"has no 'third': it has 'each', 'first', 'second'",
        "first/x/y": r"has no 'first/x/y'\.",
    }.items():
        with pytest.raises(DataFileError, match=message):
            read_features(path, key=key)
    path = tmp_path / "two.npz"
    np.savez(path, **{"a/x": VALUES, "b": -VALUES, "ids": IDS})
    assert_array_equal(read_features(path, ASKED, key="a/x").values, VALUES[PLACES])
    with pytest.raises(DataFileError, match="holds 2 arrays or groups, 'a/x', 'b'"):
        read_features(path)
    np.savez(path, x=VALUES, rows=IDS, columns=["u", "v", "w"])
    assert read_features(path).column_ids.labels == ("u", "v", "w")


def test_the_only_matrix_is_meant(tmp_path):
    """As ever: whatever else lies in an archive, one matrix is the features."""
    path = tmp_path / "x.npz"
    for ids in ({}, {"rows": IDS}):
        np.savez(
            path,
            X=VALUES,
            age=np.arange(N),
            note=np.array("of May"),
            columns=["u", "v", "w"],
            **ids,
        )
        found = open_features(path)
        assert (found.ids is None) is not bool(ids)
        assert_array_equal(found.read().values, VALUES)
        assert found.columns.labels == ("u", "v", "w")


def test_columns_of_vectors_are_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "v.parquet"
    rows = VALUES.tolist()
    pq.write_table(
        pa.table(
            {"n": range(N), "a": rows, "b": (-VALUES).tolist(), "name": IDS, "other": IDS[::-1]}
        ),
        path,
    )
    assert_array_equal(read_features(path, ASKED, key="b").values, -VALUES[PLACES])
    assert_array_equal(read_features(path, ["p0"], key="a", row_ids="other").values, VALUES[-1:])
    assert_array_equal(read_features(path, [31], key="a", row_ids="n").values, VALUES[[31]])
    with pytest.raises(
        DataFileError, match=r"has vectors in 2 columns, 'a', 'b': say by key= .* v\.parquet::a"
    ):
        read_features(path)
    with pytest.raises(
        DataFileError, match="has no column 'c': its columns are 'n', 'a', 'b', 'other'"
    ):
        read_features(path, key="c")
    pq.write_table(
        pa.table({"id": [3, 1], "x": [0.5, 1.5], "y": pa.array([1, None], pa.int8())}), path
    )
    assert read_features(path, ["3"]).ids == ("3",)
    with pytest.raises(DataFileError, match="row 1, column 'y': the value is missing"):
        read_features(path)


def test_several_rows_for_one_id(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "residues.h5"
    with h5py.File(path, "w") as file:
        for label, row in zip(IDS, VALUES, strict=True):
            file[label] = (row + np.arange(-2, 3)[:, None]).astype(np.float32)
    with pytest.raises(
        DataFileError, match=r"'p31' has an array of shape \(5, 3\), several rows.* pool=\"mean\""
    ):
        read_features(path, ASKED)
    found = read_features(path, ASKED, pool="mean").values
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, VALUES[PLACES], atol=1e-6)
    with pytest.raises(
        ValueError, match=r"pool must be 'mean', and is for files with one array for each id"
    ):
        read_features(path, pool="max")
    with pytest.raises(
        ValueError, match="has an array for each id, which it is named by: leave row_ids out"
    ):
        read_features(path, row_ids=IDS[::-1], pool="mean")


# What is wrong with a file --------------------------------------------------------------------------


def of_hdf5(**content):
    def write(path):
        import h5py

        with h5py.File(path, "w") as file:
            for name, value in content.items():
                file[name] = value

    return write


def of_npz(**content):
    return lambda path: np.savez(path, **content)


def of_parquet(**content):
    def write(path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(content), path)

    return write


INF = np.array([[1.0, np.inf], [1.0, 2.0]])
NAN = np.array([[1.0, 2.0], [np.nan, 2.0]])


@over(
    lines(
        "name write message",
        (
            "x.npy",
            lambda path: np.save(path, np.zeros((0, 3))),
            r"shape \(0, 3\): expected a row of features",
        ),
        (
            "x.npy",
            lambda path: np.save(path, np.array([["a"]])),
            "values of type <U1: expected numbers",
        ),
        ("x.npz", of_npz(x=INF, ids=["a", "b"]), "row 'a', column 2: infinity is not valid"),
        ("x.npz", of_npz(x=NAN, ids=["a", "b"]), "row 'b', column 1: the value is missing"),
        (
            "x.npz",
            of_npz(a=np.ones(2), b=np.ones(3)),
            "'b' has 3 features, but 'a' has 2: all must have as many",
        ),
        ("x.npz", of_npz(x=INF, ids=["a"]), "has 1 ids, but there are 2 rows"),
        (
            "x.npz",
            of_npz(x=INF, ids=[0.5, 1.0]),
            "'ids' holds values of type float64, which are no names",
        ),
        ("x.npz", of_npz(ids=["a"]), "holds no features"),
        (
            "x.npz",
            of_npz(a=np.ones(2), b=np.ones((2, 2, 2))),
            r"'b' has an array of shape \(2, 2, 2\)",
        ),
        ("x.h5", of_hdf5(a=np.ones(2), b="text"), "'b' holds Python objects|'b' holds values"),
        ("x.h5", of_hdf5(**{"a": np.ones(2), "b/c": np.ones(2)}), "'b' is a group and no array"),
        ("x.h5", of_hdf5(x=np.ones((2, 2)), ids=[b"\xff", b"a"]), "is damaged or no list of ids"),
        (
            "x.parquet",
            of_parquet(id=["a", "b"], x=[[1.0, 2.0], [1.0]]),
            "its vectors must have the same length, found 1, 2",
        ),
        ("x.parquet", of_parquet(id=["a", None], x=[1.0, 2.0]), "no id at position 1"),
        (
            "x.parquet",
            of_parquet(id=["a", "b"], s=["CCO", "C"]),
            "column 's': 'CCO' is not a number",
        ),
        (
            "x.pt",
            lambda path: path.write_bytes(b"PK"),
            r"ends in '\.pt': features are read from .csv",
        ),
    )
)
def test_bad_content_has_a_sentence(tmp_path, name, write, message):
    path = tmp_path / name
    write(path)
    (tmp_path / "x.ids.txt").write_text("")
    with pytest.raises(ValueError, match=message) as found:
        read_features(path)
    assert "\n" not in str(found.value)
    assert "x." in str(found.value)


def test_ids_that_are_asked_for(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **{"7": np.ones(2), "8": np.zeros(2), "p": np.zeros(2)})
    assert read_features(path, [8, 7]).ids == (8, 7)
    assert read_features(path, pd.Index(["p", "7"], name="protein")).row_ids.name == "protein"
    assert (
        read_features(path, pl.Series(["8"])).ids
        == read_features(path, np.array(["8"])).ids
        == ("8",)
    )
    message = (
        r"x\.npz lacks 2 of the 3 requested proteins: 'q', 9\. Its ids are such as '7', '8', 'p'\."
    )
    with pytest.raises(IdError, match=message):
        read_features(path, ["q", 7, 9], of="proteins")
    with pytest.raises(ValueError, match="ids is empty"):
        read_features(path, [])
    for wrong in ("7", pd.DataFrame({"a": [1]}), np.ones((2, 2))):
        with pytest.raises(TypeError, match="ids must be a list of ids, such as labels.index"):
            read_features(path, wrong)
    for wrong in ({"key": "a"}, {"row_ids": ["a"]}, {"pool": "mean"}):
        case.text(tmp_path / "t.csv")
        with pytest.raises(ValueError, match=r"t\.csv"):
            read_features(tmp_path / "t.csv", **wrong)


@over(lines("name", *[name for name in WRITERS if not name.endswith("csv")]))
def test_files_that_are_cut_short_or_something_else(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    for end in (0, 1, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(DataFileError, match=r"is damaged or no|holds no"):
            read_features(path)
    for other in (
        b"id,a\np0,1\n",
        bytes(range(256)) * 40,
        b"PK\x03\x04" + bytes(100),
        b"\x93NUMPY" + bytes(100),
    ):
        path.write_bytes(other)
        with pytest.raises(DataFileError, match=r"is damaged or no"):
            read_features(path)


class Trap:
    """What would make a folder if it were unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_nothing_is_unpickled(tmp_path):
    trap = tmp_path / "sprung"
    for name in ("x.npy", "x.npz"):
        with open(tmp_path / name, "wb") as file:
            objects = np.array([[Trap(trap)]], dtype=object)
            np.save(file, objects, allow_pickle=True) if name == "x.npy" else np.savez(
                file, x=objects, ids=objects[0]
            )
        with pytest.raises(DataFileError, match="holds Python objects"):
            read_features(tmp_path / name)
    assert not trap.exists()


def test_libraries_that_are_not_there(tmp_path, monkeypatch):
    for name in ("matrix.h5", "numbers.parquet"):
        WRITERS[name](tmp_path / name)

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(packed, "import_module", absent)
    for name, library in {
        "matrix.h5": "HDF5 files needs h5py",
        "numbers.parquet": "parquet needs pyarrow",
    }.items():
        with pytest.raises(
            ImportError, match=rf"Reading {library}: .*pip install 'dyadlearn\[embeddings\]'"
        ):
            read_features(tmp_path / name)


@pytest.mark.skipif(os.name != "posix", reason="there are pipes elsewhere only in memory")
def test_ids_are_not_read_from_pipes_and_broken_links(tmp_path, each):
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    beside = tmp_path / "x.ids.txt"
    cases = [
        (os.mkfifo, DataFileError, "is a device, a pipe or a socket"),
        (broken_link, FileNotFoundError, "No such"),
    ]
    for make, error, words in each(cases):
        beside.unlink(missing_ok=True)
        make(beside)
        for row_ids in (None, "x.ids.txt"):
            with pytest.raises(error, match=words):
                read_features(tmp_path / "x.npy", row_ids=row_ids)


def broken_link(path):
    path.symlink_to("nonesuch")
