"""A browser for the tests that look at a page, where one is installed."""

import json
import os
import shutil

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_DESKTOP = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api",
        reason="playwright is not installed: the report is not tested in a browser",
    )
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        pytest.skip("no chromium is installed: the report is not tested in a browser")
    # A browser run by root, as in most containers, has no sandbox.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="module")
def windows(browser):
    """Give a function that opens a window of a certain look, once for all tests."""
    opened = {}

    def window(**look):
        name = json.dumps(look)
        if name not in opened:
            page = browser.new_context(**{"viewport": _DESKTOP, **look}).new_page()
            heard = [[]]  # on each visit
            page.on("console", lambda message: heard[-1].append(message.text))
            page.on("pageerror", lambda error: heard[-1].append(str(error)))
            page.on("request", lambda asked: heard[-1].append(asked.url))
            opened[name] = page, heard
        return opened[name]

    return window


@pytest.fixture
def visit(windows):
    """Open a page and look out for trouble: messages, errors, and anything it wants from elsewhere."""
    visited = []

    def go(address, **look):
        page, heard = windows(**look)
        page.emulate_media(media="screen")
        heard.append([])
        visited.append((address, heard[-1]))
        page.goto(address)
        return page

    yield go
    for address, heard in visited:
        # The page itself is asked for, and a picture within it, though nowhere.
        assert [
            text[:80] for text in heard if text != address and not text.startswith("data:image/png")
        ] == []
        assert address in heard


@pytest.fixture(autouse=True, scope="module")
def _no_draws():
    """Draw no intervals, which take longer than all the rest; a test of them asks for some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dyadlearn.views.summary._DRAWS", 0)
        yield
