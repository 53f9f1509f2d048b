"""Reading tables: formats, ids, missing values, and what is wrong with a file."""

import gzip
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn._files.embeddings import open_features
from dyadlearn._files.tables import read_cells, write_blocks
from dyadlearn.exceptions import DataFileError, IdError
from sweeps import lines, over
from telling import taken, told

VALUES = np.array([[1.5, np.nan], [-2.0, 1e-3]])
ROWS = ("a", "b")
COLUMNS = ("p", "q")


def load_table(path):
    """Return the whole of a file of any format."""
    return open_features(path).take()


def check(sheet):
    assert_array_equal(sheet.values, VALUES)
    assert sheet.row_ids.labels == ROWS
    assert sheet.column_ids.labels == COLUMNS


@over(
    lines(
        "text",
        "id,p,q\na,1.5,\nb,-2,1e-3\n",
        "\tp\tq\na\t1.5\tNA\nb\t-2.0\t.001\n",
        ";p;q\r\n a ;1.5;nan\r\n\r\nb;-2;0.001\r\n",
        "p,q\na,1.5,null\nb,-2,0.001",
        '\ufeffid,"p","q"\n"a",1.5,?\n"b",-2,0.001\n',
    )
)
@over(lines("ending", ".csv", ".tsv.gz"))
def test_text_in_its_dialects(tmp_path, text, ending):
    path = tmp_path / f"table{ending}"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    check(load_table(path))


def test_parquet_without_its_library(tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(DataFileError, match=r"table\.parquet is damaged or no parquet file"):
        load_table(path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for act, word in (
        (load_table, "Reading"),
        (lambda path: write_blocks(path, [{"a": [1]}]), "Writing"),
    ):
        with pytest.raises(
            ImportError,
            match=rf"{word} parquet needs pyarrow: pip install 'dyadlearn\[embeddings\]', or",
        ):
            act(path)
    assert path.read_bytes() == b"PAR1"


def test_arrays_with_and_without_names(tmp_path):
    np.save(tmp_path / "plain.npy", VALUES)
    plain = load_table(tmp_path / "plain.npy")
    assert_array_equal(plain.values, VALUES)
    assert plain.row_ids is None
    np.savez(tmp_path / "named.npz", table=VALUES, rows=np.array(ROWS), columns=np.array(COLUMNS))
    check(load_table(tmp_path / "named.npz"))
    sparse.save_npz(tmp_path / "sparse.npz", sparse.csr_array([[0, 1], [2, 0]]))
    assert_array_equal(load_table(tmp_path / "sparse.npz").values.toarray(), [[0, 1], [2, 0]])


@over(
    lines(
        "text message",
        ("", r"t\.csv holds no table"),
        (
            "id,p,q\na,1,2\nb,1\n",
            r"t\.csv, line 3: expected 3 cells, as in the first line, found 2",
        ),
        (
            "id,p,q\na,1,5,2,5\n",
            r"line 2: .* found 5\. If numbers have a decimal comma, write decimals with",
        ),
        ("id,p,q\n\na,1,2\nb,1,x1\n", r"t\.csv, line 4, column 'q': 'x1' is not a number\."),
        (
            "id;p;q\na;1;2\nb;1;0,5\n",
            r"line 3, column 'q': '0,5' is not a number, write decimals with a point\.$",
        ),
        ("id,p\na,inf\n", r"line 2, column 'p': infinity"),
        (
            "id,p\na,1_000\n",
            r"line 2, column 'p': '1_000' is not a number, write it without underscores\.$",
        ),
        ('id,p\n"a,1\nb,2\n', r"t\.csv is damaged or no table \(unexpected end of data"),
        ("id,p\na\x00,1\n", r"t\.csv is damaged or no table in UTF-8 \(it is not text\)"),
    )
)
def test_bad_text_is_named(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_table(path)


def test_other_encodings_are_to_be_saved_as_utf_8(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("id,p\na,1\nProt\xe9ine,2\n".encode("latin-1"))
    words = r"t\.csv is damaged or no table in UTF-8 \(byte 0xe9 in line 3\): save it as UTF-8, or"
    with pytest.raises(DataFileError, match=words):
        load_table(path)


def test_trailing_separators(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,p,q,,\na,1.5,,,\nb,-2,1e-3,,\n")
    check(load_table(path))
    path.write_text("id,p,q\na,1.5,,\nb,-2,1e-3,\n")
    with pytest.raises(DataFileError, match=r"t\.csv has an empty cell at the end of its lines"):
        load_table(path)
    path.write_text("id,p,,q\na,1.5,,\nb,-2,,1\n")
    with pytest.raises(IdError, match=r"The first line of .*t\.csv has an empty id, in column 3"):
        load_table(path)


def test_names_in_arrays(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, a=VALUES, rows=np.array([b"a", b"b"]), columns=np.array(["p ", "q"]))
    check(load_table(path))
    np.savez(path, a=VALUES, rows=np.array(["a", " "]))
    with pytest.raises(IdError, match=r"t\.npz has no id at position 1 \(''\): give it one"):
        load_table(path)


def test_other_bad_files(tmp_path):
    """Bad archives are in test_embeddings.py and test_packed.py."""
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"id,p\n" + 500 * b"a,1\n")[:-20])
    with pytest.raises(ValueError, match="is damaged or no table"):
        load_table(path)
    with pytest.raises(FileNotFoundError):
        load_table(tmp_path / "none.csv")


def test_what_is_told_about_memory_is_an_upper_bound(tmp_path, each):
    path = tmp_path / "x.csv"
    values = np.random.default_rng(0).normal(size=1000).tolist()
    cases = {
        "numbers": "\n".join(",".join(map(repr, values[:100])) for _ in range(100)),
        "short lines": "\n".join(f"u{line},{line}" for line in range(20_000)),
        "long cells": "\n".join(f"{line},{'x' * 1000}" for line in range(1000)),
        "digits": "\n".join(",".join("01" * 50) for _ in range(500)),
        "other letters": "\n".join(f"é{line},€€" for line in range(10_000)),
    }
    for name, content in each(cases.items()):
        path.write_text(f"{content}\n", encoding="utf-8")
        need = told(lambda: read_cells(path))
        peak = taken(lambda: read_cells(path))
        assert peak < need < (3.2 if name == "digits" else 1.6) * peak
