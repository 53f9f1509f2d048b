"""Files of data: packed or not, whole or forged, and what is wrong with them."""

import gzip
import io
import re
from zipfile import ZipFile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn import read_features
from dyadlearn._files import packed
from dyadlearn._files.packed import make_sparse, parse_number, read_arrays, read_text, reading
from dyadlearn.exceptions import DataFileError
from sweeps import every, lines, over


def npz(save=np.savez, **arrays):
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(content):
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", content)
    return buffer.getvalue()


WHOLE = npz(a=np.arange(6.0).reshape(2, 3), b=np.array(["x", "y"]))
# A header that announces a million times the array behind it.
FORGED = npy(np.ones((2, 3))).replace(b"(2, 3), }" + 6 * b" ", b"(2000000, 3), }")


@over(
    every(
        content={
            "plain": WHOLE,
            "compressed": npz(
                np.savez_compressed, a=np.arange(6.0).reshape(2, 3), b=np.array(["x", "y"])
            ),
        }
    )
)
def test_arrays(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    found = read_arrays(path)
    assert list(found) == ["a", "b"]
    assert_array_equal(found["a"], [[0, 1, 2], [3, 4, 5]])
    assert found["b"].tolist() == ["x", "y"]


@over(
    lines(
        "content message",
        (WHOLE[:300], "not a zip file"),
        (WHOLE.replace(np.float64(5.0).tobytes(), np.float64(6.0).tobytes()), "CRC"),
        (zipped(FORGED), r"an array of \(2000000, 3\) announces 48000000 bytes"),
        (zipped(npy(np.array([None]))), "allow_pickle=False"),
        (zipped(npy(np.empty((3, 4), dtype="U0")).replace(b"<U1", b"<U0")), "announces 0 bytes"),
    )
)
def test_broken_arrays_are_named(tmp_path, content, message):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=rf"a\.npz is damaged or no npz archive \(.*{message}"):
        read_arrays(path)


class PanicException(BaseException):
    """As libraries in Rust raise it."""


@over(
    lines(
        "error expected",
        (PanicException("unwrap"), DataFileError),
        (EOFError(), DataFileError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (MemoryError(), MemoryError),
    )
)
def test_only_errors_about_the_content_are_translated(error, expected):
    with pytest.raises(expected) as caught, reading("t.parquet", "table"):
        raise error
    assert expected is not DataFileError or re.match(
        r"t\.parquet is damaged or no table \(\w+\): ", str(caught.value)
    )


def test_what_is_packed_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "UNPACKED_LIMIT", 1000)
    contents = {
        "t.csv": (gzip.compress(2000 * b"a"), read_text),
        "p.npz": (npz(np.savez_compressed, a=np.zeros(2000)), read_arrays),
    }
    for name, (content, read) in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            DataFileError, match=f"{name} unpacks to more than .* GiB.*give the plain file"
        ):
            read(tmp_path / name)
    # Plain files have the size that everybody sees.
    (tmp_path / "plain.txt").write_text(2000 * "a")
    assert len(read_text(tmp_path / "plain.txt")) == 2000


@over(every(kind=["csr", "csc"]))
def test_sparse_matrices(kind):
    matrix = sparse.random_array(
        (5, 7), density=0.4, format=kind, random_state=np.random.default_rng(0)
    )
    names = ("data", "indices", "indptr")
    parts = {name: getattr(matrix, name) for name in names}
    assert_array_equal(make_sparse(parts, (5, 7), kind).toarray(), matrix.toarray())
    # With a last pointer of 0 there seem to be no entries at all, and differences of the least
    # integer overflow.
    slips = [(names[1], 2, 10**6), (names[1], 2, -3), (names[2], 1, 10**6), ("data", 0, None)]
    for name, place, wrong in [*slips, ("indptr", -1, 0), ("indptr", -1, -(2**31))]:
        broken = {key: part.copy() for key, part in parts.items()}
        if wrong is None:
            broken[name] = broken[name].astype(str)
        else:
            broken[name][place] = wrong
        with pytest.raises(ValueError, match=r"ind|numbers"):
            make_sparse(broken, (5, 7), kind)
    with pytest.raises(ValueError, match=r"no shape \(5, -1\)"):
        make_sparse(parts, (5, -1), kind)


def test_numbers_are_written_plainly():
    assert parse_number(" -1.5e3 ") == -1500
    for text in ("1_000", "\u0661", "1,5", "", "0x10"):
        with pytest.raises(ValueError, match=r"number|convert"):
            parse_number(text)


LONG = 50_000 * "q"


def test_errors_quote_no_long_texts(tmp_path, each):
    header = bytearray(npz(x=np.ones((2, 2))))
    header[26:28] = (200).to_bytes(2, "little")  # the length of the name in the first header
    files = [
        ("a.npz", bytes(header), "is damaged or no npz archive"),
        ("b.npz", npz(x=np.ones((2, 2)), ids=np.array([LONG, LONG])), "has repeated ids"),
        ("c.npz", npz(**{LONG: np.ones(3), "b": np.ones(4)}), "all must have as many"),
        ("e.csv", f"id,x\na,{LONG}\nb,2\n".encode(), "is not a number"),
        ("g.csv", f"id,x\n{LONG},\nb,2\n".encode(), "the value is missing"),
    ]
    for name, content, words in each(files):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words) as caught:
            read_features(tmp_path / name)
        assert len(str(caught.value)) < 500
        assert str(caught.value).endswith((".", "…"))
