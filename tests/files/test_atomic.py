"""A file takes its place whole or not at all, whoever else writes there and whenever somebody interrupts."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dyadlearn import TwoStepRidge, load, save
from dyadlearn._files import atomic
from dyadlearn._files.atomic import replacing
from dyadlearn.exceptions import FileChangedError
from dyadlearn.store import write_model
from dyadlearn.store.container import read_checksum

posix = pytest.mark.skipif(
    os.name != "posix", reason="locks, pipes and forks of other systems differ"
)


def parts(folder):
    return list(folder.glob(".*.part"))


def write(path, content, **options):
    with replacing(path, **options) as file:
        file.write(content)


@posix
def test_of_several_who_change_a_file_at_once_none_is_lost(tmp_path):
    path = tmp_path / "count"
    children = []
    path.write_text("0")
    for _ in range(3):
        child = os.fork()
        if child:
            children.append(child)
            continue
        refused = 0
        for _ in range(20):
            while True:
                before = path.read_bytes()
                time.sleep(0.001)  # so that another process writes meanwhile
                try:
                    write(
                        path,
                        b"%d" % (int(before) + 1),
                        unchanged=lambda seen=before: path.read_bytes() == seen,
                    )
                    break
                except FileChangedError:
                    refused += 1
        os._exit(100 if refused else 0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(codes) <= {0, 100}
    assert 100 in codes  # or nobody was in the way of another
    assert path.read_bytes() == b"60"
    assert os.listdir(tmp_path) == ["count"]


def test_only_the_file_that_was_read_is_replaced(tmp_path):
    path = tmp_path / "model.dyad"
    other = TwoStepRidge(7.0).fit(np.eye(2), np.eye(2))
    model = TwoStepRidge().fit(np.eye(2), np.eye(2))
    save(model, path)
    checksum = read_checksum(path)
    write_model(model, path, over=checksum)
    save(other, path)
    with pytest.raises(
        FileChangedError, match=r"model.dyad was changed by another process .* nothing was written"
    ):
        write_model(model, path, over=checksum)
    assert load(path).alpha == 7.0
    path.unlink()
    with pytest.raises(FileChangedError):
        write_model(model, path, over=checksum)
    assert list(tmp_path.iterdir()) == []
    save(model, path)  # who asks for nothing replaces anything
    path.write_bytes(b"something else")
    assert read_checksum(path) is None
    save(model, path)


@posix
def test_writers_wait_for_each_other(tmp_path, monkeypatch):
    path = tmp_path / "file"
    order = []
    write(path, b"first")

    def slow():
        order.append("asked")
        later.start()
        later.join(0.2)  # it cannot end before this one has
        order.append("replaced")
        return True

    later = threading.Thread(target=lambda: (write(path, b"third"), order.append("later")))
    write(path, b"second", unchanged=slow)
    later.join()
    assert order == ["asked", "replaced", "later"]
    assert path.read_bytes() == b"third"


@posix
def test_a_file_that_somebody_keeps_locked_is_replaced_after_a_while(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(atomic, "_PATIENCE", 0.05)
    path = tmp_path / "file"
    write(path, b"old")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        write(path, b"new", unchanged=lambda: True)
    assert path.read_bytes() == b"new"


@posix
@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_after_a_day(tmp_path):
    path = tmp_path / ("n" * 250)  # a name that leaves no room for a longer one
    child = os.fork()
    if child == 0:
        with replacing(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    [left] = parts(tmp_path)
    write(path, b"whole")
    assert parts(tmp_path) == [left]  # somebody may be writing it
    os.utime(left, (0, 0))
    write(tmp_path / "another", b"whole")
    assert parts(tmp_path) == [left]
    write(path, b"whole")
    assert parts(tmp_path) == []
    assert path.read_bytes() == b"whole"


@posix
def test_pipes_and_devices_are_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path(os.devnull)):
        with pytest.raises(FileExistsError, match="This is a pipe or a device"):
            save(TwoStepRidge().fit(np.eye(2), np.eye(2)), path)
    assert (tmp_path / "pipe").is_fifo()
    assert Path(os.devnull).is_char_device()
    assert len(list(tmp_path.iterdir())) == 2
