"""A browser that is there already, for pictures of pages and for looking through them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def browser() -> Iterator[Any]:
    """Start a Chromium of this machine, and end it."""
    from playwright.sync_api import sync_playwright

    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        raise SystemExit(
            "There is no chromium here: install one (on Debian and Ubuntu: apt install chromium)."
        )
    # A browser run by root, as in most containers, has no sandbox.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()
