"""Texts of variable length in HDF5 files, good and damaged."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dyadlearn import read_features
from dyadlearn._files import hdf5_texts
from dyadlearn._files.hdf5_texts import read_texts
from dyadlearn.exceptions import NotEnoughMemoryError

h5py = pytest.importorskip("h5py")

IDS = [f"p{place}" for place in range(30)]


def fork(action):
    """Start a process that does something: its libraries are loaded already, and it may hang or be ended."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(120)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            action()
            os._exit(0)
        except KeyboardInterrupt:
            os._exit(signal.SIGINT)
        finally:
            os._exit(1)
    return child


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def peak():
    """Return the largest memory in MB of this process or of a child, which begins as a copy of it."""
    resource = pytest.importorskip("resource")
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss / 1000 for kind in kinds)


def read_each(paths, answers):
    """Write the error of each file, and by how much its reading has raised the peak of memory."""
    found = []
    before = peak()
    for path in paths:
        try:
            read_features(path)
            answer = "read"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        found.append([answer, peak() - before])
    answers.write_text(json.dumps(found))


def matrix(path):
    with h5py.File(path, "w") as file:
        file["x"] = np.ones((30, 2))
        file["ids"] = IDS
    return path


def one_each(path):
    with h5py.File(path, "w") as file:
        for place, name in enumerate(IDS):
            file[f"{place}"] = np.ones(2)
            file[f"{place}"].attrs["original_id"] = name
    return path


def zeroed(path):
    """Zero the header of the second text in the heap, so that it has the length 0 and HDF5 never goes on."""
    content = bytearray(path.read_bytes())
    header = content.index(b"GCOL") + 40
    content[header : header + 16] = bytes(16)
    path.write_bytes(content)
    return path


def repeated(path, length, texts=()):
    """Point all entries of `ids` to the last text in the heap, and let them have another length."""
    with h5py.File(path, "w") as file:
        file["x"] = np.ones((30, 2))
        file["ids"] = [*IDS[:29], *texts] if texts else IDS
        first = file["ids"].id.get_offset()
    content = bytearray(path.read_bytes())
    entry = length.to_bytes(4, "little") + content[first + 29 * 16 + 4 : first + 30 * 16]
    content[first : first + 30 * 16] = 30 * entry
    path.write_bytes(content)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="a process has no limits")
def test_damaged_texts_are_refused_in_a_limited_time_and_memory(tmp_path, monkeypatch, each):
    # After one second of processor time, however long a busy machine lets it wait.
    monkeypatch.setattr(hdf5_texts, "_SECONDS", 1)
    monkeypatch.setattr(hdf5_texts, "_PATIENCE", 60)
    late = "is damaged or no HDF5 file (its texts were not read after 1 s"
    cases = [
        (zeroed(matrix(tmp_path / "ids.h5")), late),
        (repeated(tmp_path / "long.h5", 3 * 10**9), "its texts cannot be read: "),
        (repeated(tmp_path / "shared.h5", 4000, ["y" * 4000]), "they are longer than the file"),
        (matrix(tmp_path / "good.h5"), "read"),
    ]
    found = tmp_path / "found.json"
    assert exit_code(fork(lambda: read_each([path for path, _ in cases], found))) == 0
    answers = json.loads(found.read_text())
    for (path, expected), (answer, growth) in each(list(zip(cases, answers, strict=True))):
        assert expected in answer
        assert answer == "read" or answer.startswith(f"DataFileError: {path} is damaged")
        assert growth < 600


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends the process at once")
def test_ctrl_c_ends_the_reading_of_damaged_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_texts, "_SECONDS", 600)
    path = zeroed(matrix(tmp_path / "ids.h5"))
    child = fork(lambda: read_features(path))
    time.sleep(1.0)  # until it waits for HDF5
    os.kill(child, signal.SIGINT)
    assert exit_code(child) == signal.SIGINT


def test_texts_are_those_in_the_file(tmp_path, monkeypatch, each):
    monkeypatch.setattr(hdf5_texts, "_STEP", 7)
    texts = ["", "é", "a\nb", *IDS]
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = texts
        file.create_dataset(
            "deep/packed", data=texts, chunks=(4,), compression="gzip", dtype=h5py.string_dtype()
        )
        file["bytes"] = np.array([b"\xff", b"ab"], dtype=object)
        for place in ("plain", "bytes"):
            file[place].attrs["name"] = f"of {place}"
    encoded = [text.encode() for text in texts]
    cases = [
        (["/plain"], None, encoded),
        (["/deep/packed"], None, encoded),
        (["/bytes"], None, [b"\xff", b"ab"]),
    ]
    cases += [(["/plain", "/bytes"], "name", [b"of plain", b"of bytes"])]
    for is_frozen in (False, True):
        # A program that holds its own Python reads without a child.
        monkeypatch.setattr(sys, "frozen", is_frozen, raising=False)
        for places, attribute, expected in each(cases):
            assert read_texts(path, places, attribute) == expected


def test_what_is_no_text_is_refused(tmp_path):
    path = one_each(tmp_path / "x.h5")
    with h5py.File(path, "a") as file:
        file["3"].attrs["original_id"] = 3.5
    with pytest.raises(
        ValueError, match=re.escape("the attribute 'original_id' of '/3' is no text")
    ):
        read_features(path)


def test_a_child_that_breaks_down_or_takes_too_long_is_reported(tmp_path, monkeypatch, each):
    path = matrix(tmp_path / "x.h5")
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(hdf5_texts, "_SECONDS", 1)
    monkeypatch.setattr(hdf5_texts, "_PATIENCE", 0.1)
    cases = [
        ("kill -SEGV $$", "let HDF5 break down, code -11"),
        ("exec sleep 60", "were not read after 0.1 s"),
    ]
    for script, expected in each(cases):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(ValueError, match=expected):
            read_texts(path, ["/ids"])


def test_the_memory_of_announced_texts_is_checked(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", shape=(10**10, 1), dtype="f4", chunks=(1000, 1))
        file.create_dataset("ids", shape=(10**10,), dtype=h5py.string_dtype(), chunks=(1000,))
    with pytest.raises(
        NotEnoughMemoryError, match=r"^Reading the ids of .*x\.h5 needs about .* fewer ids\.$"
    ):
        read_features(path)


def test_the_child_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    path = matrix(tmp_path / "x.h5")
    for name in ("h5py", "json", "numpy"):
        Path(tmp_path / f"{name}.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    assert read_texts(path, ["/ids"]) == [name.encode() for name in IDS]
