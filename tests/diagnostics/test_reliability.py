"""Bins of probabilities, against loops and scikit-learn; intervals that know that cells of a row are alike."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve

from dyadlearn.diagnostics.reliability import reliability
from sweeps import every, lines, over


def cells(m, q, seed=0, *, of_rows=0.0):
    """Labels of known probabilities; those of one row are alike."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 1.4, size=(m, q))
    shift = of_rows * rng.normal(size=(m, 1))
    real = 1 / (1 + np.exp(-(np.log(p) - np.log1p(-p) + shift)))
    rows, columns = np.indices((m, q))
    return p.ravel(), (rng.random((m, q)) < real).ravel(), rows.ravel(), columns.ravel() + m


def slow_part(u, rows, columns):
    """Which part of cells would tell as much if they were independent: pairs that share an end covary."""
    together = sum(
        u[a] * u[b]
        for a in range(len(u))
        for b in range(len(u))
        if {rows[a], columns[a]} & {rows[b], columns[b]}
    )
    return min(1.0, (u @ u) / together) if together > 0 else 1.0


@over(lines("n_bins seed", (4, 0), (10, 1)))
def test_bins_are_those_of_scikit_learn(n_bins, seed):
    p, y, rows, columns = cells(12, 9, seed)
    found = reliability(p, y, rows, columns, n_bins=n_bins)
    share, mean = calibration_curve(y, p, n_bins=n_bins, strategy="uniform")
    assert_allclose(found.fraction, share)
    assert_allclose(found.probability, mean)
    assert found.count.sum() == len(found.count) * found.count.mean() == 108
    assert_allclose(found.error, np.sum(found.count * np.abs(share - mean)) / 108)
    assert list(found.columns()) == ["probability", "fraction", "count", "low", "high"]


@over(every(network=[False, True]))
def test_intervals_against_all_pairs_of_cells(network):
    p, y, rows, columns = cells(7, 7, 3, of_rows=2.0)
    if network:  # every pair of nodes once, loops too
        once = rows <= columns - 7
        p = p[once]
        y = y[once]
        rows = rows[once]
        columns = columns[once] - 7
    found = reliability(p, y, rows, columns, n_bins=3)
    bins = np.minimum((p * 3).astype(int), 2)
    for place, each in enumerate(np.unique(bins)):
        here = bins == each
        u = y[here] - y[here].mean()
        n = here.sum() * slow_part(u, rows[here], columns[here])
        z = 1.959963984540054
        r = y[here].mean()
        ends = np.roots(
            [1 + z**2 / n, -(2 * r + z**2 / n), r**2]
        )  # where |r − s| is z deviations of s
        assert_allclose([found.low[place], found.high[place]], np.sort(ends), rtol=1e-9)


def test_independent_cells_have_wilson_intervals():
    y = np.random.default_rng(0).random(400) < 0.3
    found = reliability(np.full(400, 0.3), y, np.arange(400), np.arange(400, 800))
    low, high = binomtest(int(y.sum()), 400).proportion_ci(0.95, method="wilson")
    assert_allclose([found.low[0], found.high[0]], [low, high])


def test_a_bin_of_one_label():
    p = np.repeat([0.05, 0.95], [50, 50])
    y = np.repeat([False, True], [50, 50])
    found = reliability(p, y, np.arange(100) % 10, 10 + np.arange(100) % 7)
    assert_array_equal(found.fraction, [0, 1])
    assert found.low[0] == 0 < found.high[0] < 0.1
    assert 0.9 < found.low[1] < found.high[1] == 1
