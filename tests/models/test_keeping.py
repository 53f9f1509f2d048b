"""What a model keeps of what it was given, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from dyadlearn import TwoStepRidge


def test_a_lazy_frame_is_refused_by_name():
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="X is a lazy frame: collect it first"):
        TwoStepRidge().fit(pl.LazyFrame({"a": [1.0, 2.0]}), np.ones((2, 1)))


def test_gradients_are_left_behind():
    torch = pytest.importorskip("torch")
    X = torch.eye(3, dtype=torch.float64, requires_grad=True)
    assert (
        not TwoStepRidge().fit(X, torch.ones((3, 2), dtype=torch.float64)).predict(X).requires_grad
    )
