"""What a model keeps of what it was given, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import TwoStepRidge
from sweeps import every, over


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


@over(every(kernel=["rbf", "linear"], kind=[np.asarray, sparse.csr_array]))
def test_predictions_do_not_follow_the_callers_features(kind, kernel):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(9, 4))
    Y = rng.normal(size=(9, 3))
    X = kind(dense)
    new = rng.normal(size=(2, 4))
    model = TwoStepRidge(kernel=kernel, task_kernel="rbf").fit(X, Y, tasks=rng.normal(size=(3, 2)))
    before = model.predict(new)
    inside = model.dual_coef_
    (X if isinstance(X, np.ndarray) else X.data)[...] = 7.0
    np.testing.assert_array_equal(model.predict(new), before)
    np.testing.assert_allclose(model.dual_coef_, inside, rtol=1e-12)
