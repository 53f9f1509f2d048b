"""Where data sets lie, and how they get there: against a server on this machine."""

import gzip
import hashlib
import socket
from pathlib import Path

import pytest

from dyadlearn.datasets._home import DataFolder, download_file, read_lines, resolve_home
from sweeps import lines, over

CONTENT = bytes(range(256)) * 1000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


# -- where --------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """Give a user's folder, in an environment that says nothing else."""
    for variable in ("DYADLEARN_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_argument_comes_before_the_environment_before_the_cache(bare, monkeypatch):
    assert resolve_home() == bare / ".cache" / "dyadlearn"
    monkeypatch.setenv("XDG_CACHE_HOME", str(bare / "elsewhere"))
    assert resolve_home() == bare / "elsewhere" / "dyadlearn"
    monkeypatch.setenv("DYADLEARN_DATA", "")
    assert resolve_home() == bare / "elsewhere" / "dyadlearn"
    monkeypatch.setenv("DYADLEARN_DATA", "~/data")
    assert resolve_home() == bare / "data"
    assert resolve_home(bare / "mine") == bare / "mine"
    assert resolve_home("~/mine") == bare / "mine"


def test_files_are_found_plain_or_gzipped_in_the_folder_or_above_it(tmp_path):
    (tmp_path / "set").mkdir()
    folder = DataFolder("'set'", "set", tmp_path)
    assert folder.find("a.txt") is None
    for found in ("a.txt.gz", "a.txt", "set/a.txt.gz", "set/a.txt"):
        (tmp_path / found).touch()
        assert folder.find("a.txt") == tmp_path / found


@over(lines("pack", bytes, gzip.compress))
@over(lines("text", "één\ntwee\n", "één\r\ntwee\r\n", "één\ntwee"))
def test_lines_of_any_text(tmp_path, pack, text):
    path = tmp_path / "text"
    path.write_bytes(pack(text.encode()))
    assert read_lines(path) == ["één", "twee"]


@over(
    lines(
        "content",
        gzip.compress(CONTENT, mtime=0)[:-20],
        b"\x1f\x8bnothing",
        b"\xff\xfe",
        gzip.compress(b"\xff", mtime=0),
    )
)
def test_damaged_files_are_named(tmp_path, content):
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="text.gz is damaged or no text .*put a good copy in its place"
    ):
        read_lines(path)


# -- how ----------------------------------------------------------------------------------------------------


def test_a_download(server, tmp_path):
    server.files["a.bin"] = CONTENT
    path = tmp_path / "new" / "folder" / "a.bin"
    download_file(server.address + "a.bin", path, sha256=CHECKSUM)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert server.asked == ["a.bin"]


def test_another_checksum_leaves_nothing_behind(server, tmp_path):
    server.files["a.bin"] = CONTENT[:-1]
    with pytest.raises(
        ValueError, match=f"a.bin is not the expected file: .*, expected {CHECKSUM}"
    ):
        download_file(server.address + "a.bin", tmp_path / "a.bin", sha256=CHECKSUM)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_transfer_leaves_nothing_behind(server, tmp_path):
    server.files["a.bin"] = CONTENT
    server.breaks_off_after = 100_000
    path = tmp_path / "a.bin"
    with pytest.raises(
        ConnectionError, match=r"a.bin \(the connection broke off after 100000 of 256000 bytes\)"
    ):
        download_file(server.address + "a.bin", path, sha256=CHECKSUM)
    assert list(tmp_path.iterdir()) == []
    server.breaks_off_after = None
    download_file(server.address + "a.bin", path, sha256=CHECKSUM)
    assert path.read_bytes() == CONTENT


def test_servers_that_do_not_answer(server, tmp_path):
    with pytest.raises(
        ConnectionError, match=r"Could not download http.*/gone.bin \(404 Not Found\)"
    ):
        download_file(server.address + "gone.bin", tmp_path / "gone.bin", sha256=CHECKSUM)
    server.is_silent = True
    with pytest.raises(ConnectionError, match=r"a.bin \(timed out\)"):
        download_file(server.address + "a.bin", tmp_path / "a.bin", sha256=CHECKSUM, timeout=0.1)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionError, match="Could not download .*refused"):
        download_file(
            f"http://127.0.0.1:{port}/a.bin", tmp_path / "a.bin", sha256=CHECKSUM, timeout=5
        )


def test_a_folder_that_cannot_be_made_is_not_called_a_dead_server(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file") as caught:
        download_file(server.address + "a.bin", tmp_path / "file" / "a.bin", sha256=CHECKSUM)
    assert not isinstance(caught.value, ConnectionError)
    assert server.asked == []
