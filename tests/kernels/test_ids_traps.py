"""Kernels with ids and diagonals without: nothing is joined in two orders."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn.kernels import normalize

pd = pytest.importorskip("pandas")

IDS = list("abcd")
TURNED = list("cadb")
F = np.random.default_rng(0).normal(size=(4, 6))
K = pd.DataFrame(F @ F.T + np.eye(4), IDS, IDS)


@pytest.mark.parametrize("kind", ["array", "series"])
def test_diagonals_without_ids_are_in_the_order_of_what_they_belong_to(kind):
    """Of the columns as they are given, which are only then brought into the order of the rows."""
    pl = pytest.importorskip("polars")
    block = K.loc[IDS, TURNED]
    form = np.asarray if kind == "array" else pl.Series
    rows = np.diag(K)
    columns = np.diag(K.loc[TURNED, TURNED])
    found = normalize(block, form(rows), form(columns))
    wanted = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert_allclose(found.loc[IDS, IDS], wanted)
    assert found.columns.tolist() == IDS
    assert_allclose(normalize(block, form(rows), pd.Series(np.diag(K), IDS)).loc[IDS, IDS], wanted)
