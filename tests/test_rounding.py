"""What rounding leaves: zeros that are meant, whatever way a grid lies in memory."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from dyadlearn._array import to_numpy
from dyadlearn._rounding import settle


def test_what_is_below_the_level_is_zero(library, monkeypatch):
    """Levels of columns, of rows, of all cells and of one number; grids along memory, across it and in blocks."""
    rng = np.random.default_rng(0)
    grid = rng.choice([-1.0, 1.0], size=(7, 5)) * 10.0 ** rng.integers(-6, 3, size=(7, 5))
    levels = {
        "columns": 10.0 ** rng.integers(-6, 3, size=5),
        "rows": 10.0 ** rng.integers(-6, 3, size=(7, 1)),
        "cells": 10.0 ** rng.integers(-6, 3, size=(7, 5)),
        "all": np.array([1e-2]),
    }
    for level in levels.values():
        expected = np.where(np.abs(grid.astype(library.dtype)) <= level.astype(library.dtype), 0.0, grid)
        for n_bytes in (2**18, 64):
            monkeypatch.setattr("dyadlearn._rounding._CACHED_BYTES", n_bytes)
            for given in (library.asarray(grid.copy()), library.asarray(grid.T.copy()).T):
                settled = settle(given, library.asarray(level))
                assert settled is given
                assert_array_equal(to_numpy(settled), expected.astype(library.dtype))
