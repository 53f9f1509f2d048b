"""Signals that come while the library is at work."""

import signal

import pytest


def send_at(
    patch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    call: int = 0,
    number: signal.Signals = signal.SIGINT,
) -> None:
    """Send a signal when a function is called for the n-th time, counted from 0."""
    own, count = getattr(owner, name), iter(range(10**9))

    def interrupted(*given: object, **more: object) -> object:
        if next(count) == call:
            signal.raise_signal(number)
        return own(*given, **more)

    patch.setattr(owner, name, interrupted)
