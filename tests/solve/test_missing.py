"""Checks before missing labels are solved for."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from dyadlearn.exceptions import LeverageError
from dyadlearn.solve.missing import _check_determined


def test_observed_cells_that_nearly_leave_a_free_direction_open_are_refused():
    right = np.ones((1, 1))
    for gap, is_refused in ((0.0, True), (1e-5, True), (0.1, False)):
        left = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + gap, 1.0]]).T
        sides = [SimpleNamespace(vectors=side) for side in (left, right)]
        operators = SimpleNamespace(remainder=np.zeros((2, 1)), grid_spectra=sides, floor=1e-10)
        observed = np.array([[True], [True], [False]])
        context = pytest.raises(LeverageError) if is_refused else contextlib.nullcontext()
        with context:
            _check_determined(operators, observed)
