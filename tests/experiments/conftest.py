"""Experiments are no part of the library: their tests run with -m slow, and import them by name."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

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


def told(found, printed, form):
    """Check that the curves of a data set are means, and that what is stated of them is printed."""
    for name, mean in found["mean"].items():
        assert_allclose(mean, np.mean(found["scores"][name], axis=0))
    for statement in found["statements"]:
        verdict = "holds" if statement["holds"] else "does not hold"
        assert f"{verdict}: {form.format(**statement)}" in printed
