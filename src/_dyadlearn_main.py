"""The command ``dyadlearn`` from its first moment to its last.

What a command needs takes a while to load, and Ctrl-C and SIGTERM must be quiet then too: until it
is loaded, they end the process at once, with one line. Then they raise an exception, so that the
command can clean up. When the command is over they change nothing. This file imports nothing that
takes time.
"""

import _signal as signal  # type: ignore[import-not-found]  # signal itself would load more
import os

__all__ = ["main"]

_LINES = {signal.SIGINT: b"dyadlearn: interrupted.\n", signal.SIGTERM: b"dyadlearn: terminated.\n"}


def _leave(number: int, frame: object) -> None:
    os.write(2, _LINES[number])
    os._exit(128 + number)


def _handle(number: int, handler: object) -> bool:
    """Set the handler of a signal; return whether this thread may do so."""
    try:
        signal.signal(number, handler)
    except ValueError:  # not the main thread
        return False
    return True


# Where a signal has another handler, somebody has his own ideas, such as nohup.
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Load the command and run it."""
    # At once and not by an exception: compiled code would make errors of its own of that while it
    # is loaded.
    usual = [number for number, handler in _USUAL.items() if signal.getsignal(number) == handler]
    taken = [number for number in usual if _handle(number, _leave)]
    from dyadlearn.cli import main as run

    def raise_from_now_on() -> None:
        from dyadlearn._interrupts import raise_interrupt

        for number in taken:
            _handle(number, raise_interrupt)

    try:
        run(raise_from_now_on)
    finally:
        for number in taken:
            _handle(number, signal.SIG_IGN)
