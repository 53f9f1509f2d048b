"""Decompositions of dense features: two ways, each against the definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import _svd
from dyadlearn._svd import Blocks, economy_svd
from sweeps import covering, over

rng = np.random.default_rng(0)
TURN = np.linalg.qr(rng.normal(size=(5, 5)))[0]
PLAIN = rng.normal(size=(200, 5))
SPREAD = PLAIN * [1e8, 1.0, 1e-3, 1e4, 1.0]
TWICE = np.column_stack([SPREAD[:, :4], 2 * SPREAD[:, 0]])
# Features, and the function that is to decompose them.
WAYS = {
    "well conditioned": (PLAIN, "the Gram matrix"),
    "columns of other sizes": (SPREAD, "Householder"),
    "sizes turned into all": (SPREAD @ TURN, "Householder"),
    "a column twice": (TWICE, "Householder"),
    "a column of zeros": (np.column_stack([PLAIN[:, :4], np.zeros(200)]), "Householder"),
    "nothing but zeros": (np.zeros((200, 5)), "Householder"),
    "a single column": (PLAIN[:, :1], "the Gram matrix"),
    "a single row": (PLAIN[:1, :1], "the Gram matrix"),
}


@pytest.fixture
def way(monkeypatch):
    """Return the names of the ways that were gone to their end."""
    gone = []

    def watch(name, label):
        own = getattr(_svd, name)

        def watched(*given):
            found = own(*given)
            if found is not None:
                gone.append(label)
            return found

        monkeypatch.setattr(_svd, name, watched)

    watch("_from_householder", "Householder")
    return gone


@over(covering(case=WAYS, block=[7, 64, 1000], library=["numpy", "array_api_strict", "torch"]))
def test_features_are_decomposed(way, monkeypatch, case, block, library):
    features, expected = case
    n, d = features.shape
    if library != "numpy" and block != 64:
        return
    xp = pytest.importorskip(library)
    given = xp.asarray(features)
    step = max(block, d)
    slices = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    monkeypatch.setattr(Blocks, "slices", property(lambda self: list(slices)))
    way.clear()
    out = xp.asarray(np.zeros((n, d)))
    found = economy_svd(Blocks((n, d), lambda rows: given[rows, :] + 0.0, out), out)
    assert found.left is out
    assert way == ([] if expected == "the Gram matrix" else [expected])
    left, roots, right = (np.asarray(each) for each in (found.left, found.roots, found.right))
    assert_allclose(left.T @ left, np.eye(d), atol=1e-11)
    assert_allclose(right.T @ right, np.eye(d), atol=1e-13)
    assert_allclose((left * roots) @ right.T, features, atol=1e-14 * max(roots[0], 1.0))
    assert_allclose(
        roots,
        np.linalg.svd(features, compute_uv=False),
        rtol=1e-11,
        atol=1e-14 * max(roots[0], 1.0),
    )


def test_blocks_are_long_and_small():
    for n, d in ((10**6, 256), (10**5, 5000), (10, 3), (0, 3), (5, 0)):
        slices = Blocks((n, d), lambda rows: None, np.empty(0)).slices
        assert sum(rows.stop - rows.start for rows in slices) == n
        lengths = [rows.stop - rows.start for rows in slices[:-1]]
        assert all(
            4 * d <= length and 8 * d * length <= max(2**25, 32 * d * d) for length in lengths
        )
