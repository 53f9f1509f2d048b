"""The command ``dyadlearn`` from its first moment on.

What it needs takes a while to load, and Ctrl-C must be quiet then too. This file lies beside the package because the
package loads all that before anything inside it can run.
"""

from __future__ import annotations

import os
import signal
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Load the command and run it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # or somebody has his own ideas, such as nohup
        # At once and not by an exception: compiled code would make errors of its own of that while it is loaded.
        signal.signal(signal.SIGINT, _leave)
    from dyadlearn.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _leave(number: int, frame: Any) -> None:
    os.write(2, b"dyadlearn: interrupted; no output was written.\n")
    os._exit(130)
