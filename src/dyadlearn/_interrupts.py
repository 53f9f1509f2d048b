"""Interrupts by Ctrl-C and, in commands, by SIGTERM.

A search that has a best result so far should not lose it. `keeping_best` replaces the signal
handlers while such a computation runs. Before there is a result, an interrupt raises
`KeyboardInterrupt` as always. Once `Interrupts.keep` was called, the first interrupt ends only the
work that may be left out, which `Interrupts.attempt` runs; all other work is finished. A second
interrupt raises.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import FrameType
from typing import Any, TypeVar

from dyadlearn._progress import aside

Result = TypeVar("Result")

#: The signals that ask a process to stop.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds within which further signals belong to the first one: the command `timeout`, for example,
# sends two.
_SAME = 1.0
_TOLD = "Interrupted: the final fit of the best result so far is being finished. Interrupt again to stop without it."


class Interrupted(KeyboardInterrupt):
    """An interrupt by a signal, with its number, and whether it is the second one, which is not to be caught."""

    def __init__(self, number: int, *, is_second: bool = False) -> None:
        super().__init__()
        self.number = int(number)
        self.is_second = is_second


def number_of(error: KeyboardInterrupt) -> int:
    """Return the number of the signal that an interrupt comes from; SIGINT if it does not say."""
    return int(getattr(error, "number", signal.SIGINT))


class _Raising:
    """Signal handler that raises `Interrupted`, once for signals that come together."""

    def __init__(self) -> None:
        self._last = -float("inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if now - self._last >= _SAME:
            self._last = now
            raise Interrupted(number)


#: The signal handler of commands.
raise_interrupt = _Raising()


def ignore_signals() -> None:
    """Ignore signals that a command has handled until now: it is over, and they come too late."""
    for number in SIGNALS if _is_main() else ():
        if signal.getsignal(number) is raise_interrupt:
            signal.signal(number, signal.SIG_IGN)


class Interrupts:
    """What to do about interrupts of a computation.

    Attributes
    ----------
    heard : int or None
        Number of the signal that interrupted the computation after it had a result to keep.
    """

    def __init__(self, show: bool | None, *, is_open: bool = True) -> None:
        self.heard: int | None = None
        self._show = show
        self._is_open = is_open
        self._has_result = False
        # Whether an interrupt may raise at this moment.
        self._raises = True
        self._first = 0.0

    def keep(self) -> None:
        """Keep the result from now on: the first interrupt is remembered, and only `attempt` ends early."""
        if self._is_open and not self._has_result:
            self._has_result = True
            self._raises = False

    def attempt(self, work: Callable[[], Result]) -> Result | None:
        """Return the result of work that may be left out, or None after an interrupt.

        Before there is a result to keep, the interrupt is raised.
        """
        try:
            with self.raising():
                return work()
        except KeyboardInterrupt as error:
            if not self._has_result:
                raise
            self.heed(error)
            return None

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let an interrupt raise at once in the block, whose caller catches it; also one that came before."""
        before = self._raises
        try:
            self._raises = True
            if self.heard is not None:
                raise Interrupted(self.heard)
            yield
        finally:
            self._raises = before

    def heed(self, error: KeyboardInterrupt) -> None:
        """Remember an interrupt that was raised; raise it again where nothing is kept, and a second one always."""
        if not self._is_open or getattr(error, "is_second", False):
            raise error
        if self.heard is None:
            self._remember(number_of(error))

    def _remember(self, number: int) -> None:
        self.heard = number
        self._first = monotonic()
        if self._show is not False:
            # Standard error may be closed, or in use at this very moment.
            with suppress(OSError, RuntimeError, ValueError):
                aside(_TOLD)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.heard is None:
            if self._has_result:
                self._remember(number)
            if self._raises:
                raise Interrupted(number)
        elif monotonic() - self._first >= _SAME:
            raise Interrupted(number, is_second=True)

    @contextmanager
    def _handling(self) -> Iterator[None]:
        """Handle the signals that would raise `KeyboardInterrupt`, if this thread hears any."""
        before: dict[int, Any] = {}
        try:
            for number in SIGNALS if _is_main() else ():
                handler = signal.getsignal(number)
                # Others, such as those of an event loop or of nohup, stay.
                if handler is signal.default_int_handler or handler is raise_interrupt:
                    before[number] = handler
                    signal.signal(number, self._handle)
            yield
        finally:
            for taken, handler in before.items():
                signal.signal(taken, handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


# Outside of `keeping_best` nothing is kept: an interrupt is raised.
_CLOSED = Interrupts(False, is_open=False)
_local = threading.local()


def current() -> Interrupts:
    """Return what `keeping_best` yielded in this thread; outside of it, an object that keeps nothing."""
    interrupts: Interrupts = getattr(_local, "interrupts", _CLOSED)
    return interrupts


@contextmanager
def keeping_best(show: bool | None = None) -> Iterator[Interrupts]:
    """Keep the best result so far when the computation of the block is interrupted.

    A block within another one, such as the fit in a command, uses the object of the outer block.

    Parameters
    ----------
    show : bool or None, default=None
        False prints no line when the first interrupt is heard.
    """
    if current() is not _CLOSED:
        yield current()
        return
    interrupts = Interrupts(show)
    with interrupts._handling():
        _local.interrupts = interrupts
        try:
            yield interrupts
        finally:
            del _local.interrupts
