"""What rounding leaves: zeros that are meant, whatever way a grid lies in memory."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._array import to_numpy
from dyadlearn._rounding import settle, settled_difference


def test_what_is_below_the_level_is_zero(library):
    """Levels of columns, of rows, of all cells and of one number; grids along memory and across it."""
    rng = np.random.default_rng(0)
    grid = rng.choice([-1.0, 1.0], size=(7, 5)) * 10.0 ** rng.integers(-6, 3, size=(7, 5))
    levels = {
        "columns": 10.0 ** rng.integers(-6, 3, size=5),
        "rows": 10.0 ** rng.integers(-6, 3, size=(7, 1)),
        "cells": 10.0 ** rng.integers(-6, 3, size=(7, 5)),
        "all": np.array([1e-2]),
    }
    for level in levels.values():
        expected = np.where(
            np.abs(grid.astype(library.dtype)) <= level.astype(library.dtype), 0.0, grid
        )
        for given in (library.asarray(grid.copy()), library.asarray(grid.T.copy()).T):
            settled = settle(given, library.asarray(level))
            assert settled is given
            assert_array_equal(to_numpy(settled), expected.astype(library.dtype))


def test_a_difference_is_settled(library):
    """With weights of rows and of cells, in both directions, over a grid or not; also of a product on its side."""
    rng = np.random.default_rng(1)
    labels = rng.normal(size=(6, 4))
    product = rng.normal(size=(6, 4))
    product[2], level = labels[2] + 1e-3, np.full(4, 1e-2)
    rows = np.ones((6, 1))
    cells = 1.0 + 0.1 * (np.arange(6)[:, None] != 2) * rng.random((6, 4))
    for own, over, sign in ((None, None, 1), (rows, rows, 1), (cells, 2.0 * cells, -1)):
        difference = sign * ((1.0 if own is None else own) * labels - product)
        expected = np.where(np.abs(difference) <= level, 0.0, difference) / (
            1.0 if over is None else over
        )
        assert np.count_nonzero(expected == 0) >= 4
        parts = [None if part is None else library.asarray(part) for part in (own, over)]
        for given in (library.asarray(product.copy()), library.asarray(product.T.copy()).T):
            args = (library.asarray(labels), parts[0], given, library.asarray(level), parts[1])
            assert settled_difference(*args, sign=sign) is given
            assert_allclose(
                to_numpy(given),
                expected,
                rtol=1e-5 if library.dtype == "float32" else 1e-12,
            )
