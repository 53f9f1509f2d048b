"""Pictures are drawn without a screen, and every test closes its own."""

from __future__ import annotations

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed: the plots are not tested")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    """Draw in memory; leave no figure open, and no setting of matplotlib changed."""
    import matplotlib as mpl

    plt.switch_backend("Agg")
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture
def ax():
    """Axes of a figure that pyplot knows nothing of."""
    from matplotlib.figure import Figure

    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="session")
def real():
    """Features of 24 instances and 16 tasks with real labels."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(24, 5)), rng.normal(size=(16, 4))
    return X, X @ rng.normal(size=(5, 4)) @ T.T + 2 * rng.normal(size=(24, 16)), T


@pytest.fixture(scope="session")
def binary(real):
    """The same with labels of two values."""
    X, Y, T = real
    return X, (Y > 1.5).astype(float), T
