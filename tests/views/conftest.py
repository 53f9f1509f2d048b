"""Views without what takes long, where that is not what is tested."""

import pytest


@pytest.fixture(autouse=True)
def _no_draws(monkeypatch):
    """Draw no intervals, which take longer than all the rest; a test of them asks for some."""
    monkeypatch.setattr("dyadlearn.views.summary._DRAWS", 0)
