"""Files for the tests, and a server of files on this machine, with the faults that servers have."""

import gzip
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dyadlearn.datasets import drug_target


def write(folder, files, pack=False):
    """Write texts into a folder, as they are or packed, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content = text.encode()
        (folder / (name + ".gz" * pack)).write_bytes(gzip.compress(content) if pack else content)
    return folder


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path_factory):
    """Keep every test away from real servers and from the user's own folders."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for name in ("_DAVIS", "_KIBA", "_YAMANISHI"):
            monkeypatch.setattr(drug_target, name, f"http://127.0.0.1:{closed.getsockname()[1]}/")
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path_factory.mktemp("home")))
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")


@dataclass
class Server:
    """What a server has and how it behaves; tests change it while it runs.

    Attributes
    ----------
    address : str
        Ends in a slash.
    files : dict of str to bytes
    asked : list of str
        Name of the file of each request so far.
    breaks_off_after : int or None
        Bytes of the answer after which the connection is closed.
    is_silent : bool
        Whether to take requests and never answer.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    breaks_off_after: int | None = None
    is_silent: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.rpartition("/")[2]
        self.asked.append(name)
        if self.is_silent:
            self.stopped.wait(10)
            return
        if name not in self.files:
            request.send_error(404)
            return
        request.send_response(200)
        request.send_header("Content-Length", str(len(self.files[name])))
        request.end_headers()
        request.wfile.write(self.files[name][: self.breaks_off_after])


@pytest.fixture
def server(monkeypatch):
    """Run a server on a free port of this machine for the time of one test."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self):
            state.answer(self)

        def log_message(self, *args):
            pass

    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        state.address = f"http://127.0.0.1:{running.server_port}/folder/"
        thread = threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        yield state
        state.stopped.set()
        running.shutdown()
        thread.join(10)
