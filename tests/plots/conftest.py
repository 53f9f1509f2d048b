"""Pictures are drawn without a screen, and every test closes its own."""

import pytest

plt = pytest.importorskip(
    "matplotlib.pyplot", reason="matplotlib is not installed: the plots are not tested"
)


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
