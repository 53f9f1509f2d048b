"""Experiments are no part of the library: their tests run with -m slow, and import them by name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def pytest_collection_modifyitems(items):
    """Mark the tests of this folder as slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def load():
    """Give a function that imports an experiment; all of them are forgotten afterwards."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXPERIMENTS))
        yield importlib.import_module
    for name in set(sys.modules) - before:
        if (EXPERIMENTS / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture(scope="module")
def script(load, request):
    """Return the experiment that a file of tests is about."""
    return load(request.path.stem.removeprefix("test_"))
