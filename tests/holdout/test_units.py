"""Warnings about tasks without labels."""

from __future__ import annotations

import numpy as np
import pytest

from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge
from dyadlearn.exceptions import NoLabelWarning
from sweeps import lines, over


@over(lines("Model", IndependentTaskRidge, OnlineTwoStepRidge))
def test_warning_about_a_task_without_labels_points_to_the_call_of_fit(Model):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(8, 3))
    Y[:, 1] = np.nan
    with pytest.warns(NoLabelWarning, match="1 of 3 tasks") as caught:
        Model().fit(rng.normal(size=(8, 2)), Y)
    assert caught[0].filename == __file__
