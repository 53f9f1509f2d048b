"""The command ``dyadlearn`` from its first moment on.

What a command needs takes a while to load, and Ctrl-C must be quiet then too: until it is loaded, an interrupt ends the
process at once, with one line. This file imports nothing that takes time.
"""

import _signal as signal  # type: ignore[import-not-found]  # signal itself would load more
import os

__all__ = ["main"]


def _leave(number: int, frame: object) -> None:
    os.write(2, b"dyadlearn: interrupted.\n")
    os._exit(130)


_before = signal.getsignal(signal.SIGINT)
if _before is signal.default_int_handler:  # or somebody has his own ideas, such as nohup
    # At once and not by an exception: compiled code would make errors of its own of that while it is loaded.
    signal.signal(signal.SIGINT, _leave)


def main() -> None:
    """Load the command and run it."""
    from dyadlearn.cli import main as run

    run(lambda: signal.signal(signal.SIGINT, _before))
