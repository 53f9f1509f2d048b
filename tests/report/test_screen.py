"""Labels that contradict their predictions: the same cells as `dyadlearn.screen` finds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn.report.screen import most_contradicting
from dyadlearn.views import screen


@pytest.mark.parametrize("make", [TwoStepRidge, KroneckerRidge])
def test_cells_are_those_of_the_screen(make, binary, real):
    for X, Y, T in (binary, real):
        model = make().fit(X, Y, tasks=T)
        found, again = most_contradicting(Y, model.holdout("C"), 30), screen(model, "C", k=30)
        assert [cell[0] for cell in found] == list(again.instances)
        assert [cell[1] for cell in found] == list(again.tasks)
        assert_allclose([cell[2] for cell in found], again.contradictions)


def test_cells_without_a_label_are_never_among_them():
    Y, F = np.array([[1.0, np.nan], [4.0, 2.0], [3.0, 3.0]]), np.array([[3.0, 1.0], [4.5, np.nan], [3.0, 3.0]])
    assert most_contradicting(Y, F, 9) == [(0, 0, 2.0), (1, 0, 0.5)]


def test_the_worst_come_first_and_those_that_agree_never():
    Y = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    F = np.array([[0.9, 0.8, 0.0], [0.1, 0.0, 0.2]])
    found = most_contradicting(Y, F, 10)
    assert [cell[:2] for cell in found] == [(1, 0), (0, 1), (1, 2)]
    assert_allclose([cell[2] for cell in found], [0.5, 0.5, 0.5])
    assert most_contradicting(Y, F, 1) == found[:1]


def test_equal_ones_are_told_apart_by_their_distance():
    Y = np.array([[1.0, 0.0, 0.0]])
    assert [cell[1] for cell in most_contradicting(Y, np.array([[0.0, 0.7, 2.0]]), 3)] == [2, 0, 1]


def test_a_pair_of_a_network_is_listed_once():
    rng = np.random.default_rng(0)
    Y, F = rng.normal(size=(2, 5, 5))
    Y, F = Y + Y.T, F + F.T
    found = most_contradicting(Y, F, 100, is_network=True)
    assert len(found) == 15
    assert all(i <= j for i, j, _ in found)
