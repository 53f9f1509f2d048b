"""Kernels of which some have ids and some have not: nothing is joined in two orders."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import IdError
from dyadlearn.kernels import normalize, weighted_product, weighted_sum

pd = pytest.importorskip("pandas")

IDS, TURNED = list("abcd"), list("cadb")
F = np.random.default_rng(0).normal(size=(4, 6))
K = pd.DataFrame(F @ F.T + np.eye(4), IDS, IDS)


@pytest.mark.parametrize("kind", ["array", "series"])
def test_diagonals_without_ids_are_in_the_order_of_what_they_belong_to(kind):
    """Of the columns as they are given, which are only then brought into the order of the rows."""
    pl = pytest.importorskip("polars")
    block = K.loc[IDS, TURNED]
    form = np.asarray if kind == "array" else pl.Series
    rows, columns = np.diag(K), np.diag(K.loc[TURNED, TURNED])
    found = normalize(block, form(rows), form(columns))
    wanted = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert_allclose(found.loc[IDS, IDS], wanted)
    assert found.columns.tolist() == IDS
    assert_allclose(normalize(block, form(rows), pd.Series(np.diag(K), IDS)).loc[IDS, IDS], wanted)


@pytest.mark.parametrize("join", [weighted_sum, weighted_product])
def test_arrays_are_joined_with_frames_of_one_order_alone(join):
    for order in (IDS, TURNED):
        frame = K.loc[order, order]
        for grams in ([frame, frame.to_numpy()], [frame.to_numpy(), frame]):
            assert_allclose(join(grams).loc[IDS, IDS], 2 * K if join is weighted_sum else K**2)
    for turned in (K.loc[IDS, TURNED], K.loc[TURNED, IDS]):
        assert_allclose(join([turned, K]).loc[IDS, IDS], 2 * K if join is weighted_sum else K**2)
        for grams, plain, other in (([turned, K.to_numpy()], 1, 0), ([K.to_numpy(), turned], 0, 1)):
            with pytest.raises(IdError, match=rf"grams\[{plain}\] has no ids that tell .* rows of grams\[{other}\] or"):
                join(grams)


def test_rows_that_change_places_take_their_columns_along():
    rows = {order[0]: Table(K.loc[order, order].to_numpy(), Ids(tuple(order))) for order in (IDS, TURNED)}
    assert_allclose(weighted_sum([rows["a"], rows["a"]]).values, 2 * K)
    for grams in ([rows["a"], rows["c"]], [K, rows["c"]], [rows["c"], K]):
        with pytest.raises(IdError, match=r"grams\[1\] has its rows in another order than those before it"):
            weighted_sum(grams)
    block = Table(K.to_numpy()[:2], Ids(("a", "b")))  # which columns it has is no question of its rows
    other = Table(K.to_numpy()[[1, 0]], Ids(("b", "a")))
    assert_allclose(weighted_sum([block, other]).values, 2 * K[:2])
