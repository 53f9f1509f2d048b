"""The similarity of held-out entities to training, against loops over all entities."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import audit
from dyadlearn.exceptions import IdError
from dyadlearn.kernels import gram
from dyadlearn.selection.nearness import BANDS, bands_of
from sweeps import every, over

NAMES = [f"d{place}" for place in range(12)]


def frame(kernel="tanimoto"):
    X = (default_rng(0).random((12, 9)) < 0.5).astype(float)
    X[:, 0] = 1
    X[11] = X[2]
    X[10] = X[2]
    if kernel == "precomputed":
        return pd.DataFrame(gram(X, kernel="tanimoto"), NAMES, NAMES)
    return pd.DataFrame(X, NAMES)


def split():
    rng = default_rng(1)
    train = [
        (NAMES[i], int(j))
        for i, j in zip(rng.integers(0, 6, 30), rng.integers(0, 4, 30), strict=True)
    ]
    test = [
        (NAMES[i], int(j))
        for i, j in zip(rng.integers(4, 12, 40), rng.integers(0, 6, 40), strict=True)
    ]
    return train, test


@over(every(kernel=["tanimoto", "linear", "precomputed"]))
def test_the_nearest_is_that_of_a_loop(kernel):
    train, test = split()
    X = frame(kernel)
    found = audit(train, test, instances=X, kernel=kernel).nearness[0]
    K = X.to_numpy() if kernel == "precomputed" else gram(X.to_numpy(), kernel=kernel)
    known = sorted({NAMES.index(drug) for drug, _ in train})
    assert list(found.ids) == list(dict.fromkeys(drug for drug, _ in test))
    for place, drug in enumerate(found.ids):
        row = NAMES.index(drug)
        assert found.is_new[place] == (row not in known)
        if row in known:
            assert found.similarity[place] == 1
            assert found.nearest[place] == drug
            continue
        values = [K[row, other] / np.sqrt(K[row, row] * K[other, other]) for other in known]
        assert_allclose(found.similarity[place], max(values), rtol=1e-12)
        at = known.index(NAMES.index(found.nearest[place]))
        assert_allclose(values[at], max(values), rtol=1e-12)
    assert found.copies == {"d10": "d2", "d11": "d2"}
    assert [found.ids[at] for at in found.entity] == [drug for drug, _ in test]


def test_bands():
    similarity = np.array([-0.5, 0.0, 0.3, 0.35, 0.5999, 0.6, 0.95, 1 - 1e-12, 1.0])
    names = [BANDS[place] for place in bands_of(similarity)]
    expected = ["< 0.3", "< 0.3", "0.3–0.4", "0.3–0.4", "0.5–0.6", "0.6–0.7", "0.9–1", "1", "1"]
    assert names == expected


def test_histograms_and_scores_by_band():
    train, test = split()
    tasks = default_rng(2).normal(size=(6, 3))
    result = audit(train, test, instances=frame(), tasks=tasks, kernel="tanimoto")
    y = default_rng(3).normal(size=40)
    predicted = y + default_rng(4).normal(size=40)
    y[7] = np.nan
    table = pd.DataFrame(result.bands(y, predicted))
    assert set(table.side) == {"instance", "task"}
    for side, found in zip(("instance", "task"), result.nearness, strict=True):
        rows = table[table.side == side]
        assert rows.pairs.sum() == 40
        assert rows.entities.sum() == len(found.ids)
        for _, row in rows.iterrows():
            here = found.bands[found.entity] == row.similarity
            assert row.pairs == here.sum()
            here &= ~np.isnan(y)
            assert_allclose(row.neg_mean_squared_error, -np.mean((y - predicted)[here] ** 2))
    assert list(result.bands()) == ["side", "similarity", "entities", "pairs"]
    test = pd.DataFrame(test, index=[f"r{row}" for row in range(40)])
    y = pd.Series(y, test.index)
    indexed = audit(train, test, instances=frame(), tasks=tasks, kernel="tanimoto")
    pd.testing.assert_frame_equal(pd.DataFrame(indexed.bands(y, predicted)), table)
    for given in ((y[::-1], predicted), (y, y[::-1])):
        with pytest.raises(IdError, match="in another order"):
            indexed.bands(*given)


def test_times():
    train = [(0, 0), (1, 1)]
    test = [(0, 1), (1, 0), (0, 0)]
    result = audit(
        train, test, time=(["2019-01-01", "2020-06-01"], ["2020-01-01", "2021-01-01", "2018-01-01"])
    )
    assert result.n_older == 2
    assert "2 older than the newest training pair (2020-06-01)" in result.message
    assert audit(train, test, time=([1, 2], [2, 3, 4])).n_older == 0
    with pytest.raises(TypeError, match="numbers or dates in training and in test"):
        audit(train, test, time=([1, 2], ["2020-01-01"] * 3))


def test_arrays_without_ids_and_networks():
    X = frame().to_numpy()
    result = audit([(0, 0), (1, 0)], [(2, 0), (11, 0)], instances=X, kernel="tanimoto")
    assert_array_equal(result.nearness[0].ids, [2, 11])
    nodes = audit([(0, 2), (1, 2)], [(2, 11), (10, 0)], network=True, instances=X)
    assert nodes.nearness[0].copies == {11: 2, 10: 2}
    assert nodes.nearness[1] is None
