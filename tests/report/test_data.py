"""The plain numbers of a report."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.report.data import Degrees, Labels, Landscape
from dyadlearn.settings import Setting


def labels_of(values):
    values = np.asarray(values, dtype=float)
    return Labels(values, [str(i) for i in range(len(values))], [str(j) for j in range(values.shape[1])])


def test_degrees_count_positive_labels_of_two_values():
    rows, columns = labels_of([[1, 0, 1], [np.nan, 0, 1]]).degrees()
    assert_array_equal(rows.counts, [2, 1])
    assert_array_equal(columns.counts, [1, 0, 2])


def test_degrees_count_observed_labels_of_many_values():
    rows, columns = labels_of([[1, 0, 3], [np.nan, 0, 1]]).degrees()
    assert_array_equal(rows.counts, [3, 2])
    assert_array_equal(columns.counts, [1, 2, 2])


def test_the_larger_of_two_values_is_positive():
    labels = labels_of([[-1, 4, -1, np.nan]])
    assert labels.is_binary
    assert not labels.is_complete
    assert labels.n_observed == 3
    assert_allclose(labels.share_positive, 1 / 3)


@pytest.mark.parametrize("values", [[[1.0, 1.0]], [[0.0, 1.0, 2.0]]])
def test_one_or_three_values_are_not_binary(values):
    assert not labels_of(values).is_binary


def test_share_of_degrees_is_counted_from_above():
    counts = np.random.default_rng(0).integers(0, 9, size=50)
    levels, share = Degrees(counts).at_least()
    assert_array_equal(levels, np.unique(counts))
    assert_allclose(share, [np.mean(counts >= level) for level in levels])


def test_the_best_point_of_a_map():
    scores = np.array([[0.1, np.nan, 0.4], [0.3, 0.9, 0.2]])
    found = Landscape(Setting.A, False, scores, np.array([0.1, 1.0]), np.array([1.0, 2.0, 3.0]), (1.0,), 1.0)
    assert found.best == (0.9, 1.0, 2.0)
