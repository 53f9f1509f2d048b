"""Files that take more memory than they seem to, that never end, or that lead to other files."""

import ctypes
import gc
import gzip
import json
import os
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn import cli, load, read_features
from dyadlearn._files.embeddings import open_features
from dyadlearn._files.tables import read_cells
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels.sequences import read_fasta

IDS = ["a", "b"]
VALUES = np.arange(6.0).reshape(2, 3)
ZEROS = gzip.compress(bytes(2**25), 1)  # 32 MiB


def command(*words):
    try:
        cli.app(list(words), prog_name="dyadlearn")
    except SystemExit as stop:
        if stop.code:
            raise ValueError(f"exit code {stop.code}") from None


# What opens a file in every way there is.
READERS = {
    "features": read_features,
    "pooled": lambda path: read_features(path, pool="mean"),
    "one row": lambda path: read_features(path, ["i7"]),
    "table": lambda path: open_features(Path(path)).take(),
    "cells": lambda path: read_cells(Path(path)).table(),
    "fasta": read_fasta,
    "model": load,
    "inspect": lambda path: command("inspect", path),
    "tune": lambda path: command(
        "tune", path, "--instances", path, "--tasks", path, "-o", path + ".dyad"
    ),
}


def read_all(cases):
    """Return what happened to each reader and file, in a process that may take 512 MiB more than it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**29,) * 2)
    found = []
    for name, path in cases:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            READERS[name](str(path))
            error = None
        except Exception as raised:
            error = raised
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        found.append([name, str(path), type(error).__name__, str(error), taken // 1024])
    return found


def read_within_limits(cases, answer):
    """Return what happened to each reader and file: name, path, class of the error, its words, and mebibytes taken.

    A fork has all libraries loaded already, which take a new process most of its time. Its peak of
    memory is its own.
    """
    pytest.importorskip("resource")
    gc.collect()
    # What earlier tests have freed must not be room for the child beside its limit.
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            answer.write_text(json.dumps(read_all(cases)))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(answer.read_text())


def packed_text(path):
    path.write_bytes(6 * ZEROS)
    return path


def packed_archive(path):
    if not path.exists():
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in {
                "x": np.zeros((5000, 4000)),
                "ids": np.array([f"i{row}" for row in range(5000)]),
            }.items():
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, array)
    return path


def sparse_array(path):
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (2**14, 2**14)}
        )
        file.truncate(file.tell() + 2**31)
    return path


def small_array(path):
    # Four times the limit in double precision, and a file that is empty on the disk.
    np.lib.format.open_memmap(path, mode="w+", dtype=np.int8, shape=(2**14, 2**14)).flush()
    return path


def many_cells(path):
    path.write_text("a,b\nc" + 2**23 * ",")
    return path


def hdf5(path, shape, ids="S4", **options):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("values", shape=shape, dtype="f8", **options)
        if ids is not None:
            file.create_dataset("ids", shape=shape[:1], dtype=ids, chunks=True)
            if ids == "S4":  # those that are long are never read, and need not be written
                file["ids"][:] = [f"i{place}".encode() for place in range(shape[0])]
    return path


def parquet(path, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 2**20
    names = {"x": pa.array(np.zeros(2**20))}
    if kind == "vectors":
        n = 2**10
        names = {"id": pa.array([f"i{row}" for row in range(n)])}
        names["x"] = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n * 2**13)), 2**13)
    with pq.ParquetWriter(path, (table := pa.table(names)).schema) as writer:
        for _ in range(6 if kind == "long" else 1):
            writer.write_table(table, row_group_size=n)
    return path


def oversized(folder):
    """Return readers and files of which the sizes alone forbid reading."""
    return [
        ("features", hdf5(folder / "wide.h5", (40, 10**9), chunks=(1, 1000))),
        ("one row", hdf5(folder / "wide.h5", (40, 10**9), chunks=(1, 1000))),
        ("features", hdf5(folder / "long_ids.h5", (40, 3), ids="S100000000")),
        ("pooled", hdf5(folder / "pooled.h5", (10**8, 3), ids=None, chunks=True)),
        ("table", packed_archive(folder / "packed.npz")),
        ("table", sparse_array(folder / "sparse.npy")),
        ("table", small_array(folder / "bytes.npy")),
        ("cells", parquet(folder / "long.parquet", "long")),
        ("features", parquet(folder / "vectors.parquet", "vectors")),
        ("table", packed_text(folder / "packed.csv.gz")),
        ("fasta", packed_text(folder / "packed.fasta.gz")),
        ("table", many_cells(folder / "cells.csv")),
    ]


def endless(folder):
    """Return readers, and devices and pipes under the names of files."""
    endings = {
        "features": (".csv", ".npy", ".npz", ".h5", ".parquet"),
        "table": (".csv", ".csv.gz", ".npy", ".npz", ".parquet"),
        "tune": (".csv", ".npz", ".parquet"),
        **dict.fromkeys(("fasta", "model", "inspect"), (".x",)),
    }
    cases = []
    for ending in sorted(set(sum(endings.values(), ()))):
        os.symlink("/dev/zero", folder / f"zero{ending}")
        os.symlink("/dev/full", folder / f"full{ending}")
        os.mkfifo(folder / f"pipe{ending}")
    for name, each in endings.items():
        cases += [
            (name, folder / f"{kind}{ending}")
            for ending in each
            for kind in ("zero", "full", "pipe")
        ]
    return cases


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Return what one process made of endless files, and then of those that are too large."""
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow.parquet")
    # The peak of memory only grows: those that take little come first.
    if os.path.exists("/dev/full"):
        first = endless(tmp_path_factory.mktemp("endless"))
    else:
        first = []
    cases = [*first, *oversized(tmp_path_factory.mktemp("oversized"))]
    found = read_within_limits(cases, tmp_path_factory.mktemp("answers") / "found.json")
    return found[: len(first)], found[len(first) :]


def test_sizes_are_known_before_anything_is_read(answers):
    # Beside the part that is looked at before the limit is met.
    most = {"packed.csv.gz": 350, "packed.fasta.gz": 350}
    for name, path, error, words, taken in answers[1]:
        assert error in ("DataFileError", "NotEnoughMemoryError"), (name, path, error, words)
        assert os.path.basename(path) in words
        assert taken < most.get(os.path.basename(path), 100), (name, path, taken)


def test_devices_and_pipes_are_not_opened(answers):
    if not answers[0]:
        pytest.skip("there is no /dev/full here: devices are not tested")
    for name, path, error, words, taken in answers[0]:
        where = (name, path, error, words)
        if name in ("tune", "inspect"):
            assert words == f"exit code {2 if name == 'tune' else 3}", where
        else:
            assert error == ("ModelFileError" if name == "model" else "DataFileError"), where
            assert (
                words
                == f"{path} is a device, a pipe or a socket and may have no end: copy its content "
                f"into a file first."
            )
        assert taken < 100, where


# Other files ---------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path):
    """A file of somebody else, of HDF5 and of bytes."""
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret.txt").write_bytes(b"password" * 40)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["group/values"], file["group/ids"] = VALUES, IDS
    return tmp_path


def external_storage(file, folder):
    file["values"] = VALUES
    file.create_dataset(
        "ids", shape=(2,), dtype="S8", external=[(str(folder / "secret.txt"), 0, 16)]
    )


def external_link(file, folder):
    import h5py

    file["values"], file["ids"] = VALUES, h5py.ExternalLink(str(folder / "secret.h5"), "/group/ids")


def link_through_a_link(file, folder):
    import h5py

    file["other/file"] = h5py.ExternalLink(str(folder / "secret.h5"), "/group")
    file["data/values"], file["data/ids"] = h5py.SoftLink("/other/file/values"), IDS


def virtual(file, folder, source="secret.h5", name="group/values"):
    import h5py

    layout = h5py.VirtualLayout(VALUES.shape, "f8")
    layout[:] = h5py.VirtualSource(
        source if source == "." else str(folder / source), name, VALUES.shape
    )
    file.create_virtual_dataset("values", layout)
    file["ids"] = IDS


def virtual_of_itself(file, folder):
    file.create_dataset(
        "hidden", shape=VALUES.shape, dtype="f8", external=[(str(folder / "secret.txt"), 0, 48)]
    )
    virtual(file, folder, ".", "hidden")


@pytest.mark.parametrize(
    "write",
    [
        external_storage,
        external_link,
        link_through_a_link,
        virtual,
        virtual_of_itself,
    ],
)
def test_hdf5_reads_no_other_file(secret, write):
    import h5py

    with h5py.File(path := secret / "x.h5", "w") as file:
        write(file, secret)
    key = {link_through_a_link: "data/values", virtual_of_itself: "values"}.get(write)
    expected = r"x\.h5: '[\w/]+' (is a link|has its values in other files or data sets).*, which is never followed"
    with pytest.raises(DataFileError, match=expected) as found:
        read_features(path, key=key)
    assert "\n" not in str(found.value)


def test_a_link_within_a_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path := tmp_path / "x.h5", "w") as file:
        file["deep/values"], file["deep/ids"] = VALUES, IDS
        file["data/values"], file["data/ids"] = h5py.SoftLink("/deep/values"), IDS
    assert_array_equal(read_features(path, ["b"], key="deep").values, VALUES[[1]])
    assert_array_equal(read_features(path, key="deep/values", row_ids="ids").values, VALUES)
    with pytest.raises(
        DataFileError, match=r"x\.h5: 'values' is a link .* copy the values into this file"
    ):
        read_features(path, key="data")


def test_parquet_reads_no_other_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    gathered = []
    pq.write_table(
        pa.table({"id": IDS, "x": VALUES[:, 0]}),
        tmp_path / "part.parquet",
        metadata_collector=gathered,
    )
    gathered[0].set_file_path("part.parquet")
    gathered[0].write_metadata_file(tmp_path / "x.parquet")
    with pytest.raises(
        DataFileError,
        match=r"x\.parquet (is damaged or no parquet file|has its values in another file)",
    ):
        read_features(tmp_path / "x.parquet")
