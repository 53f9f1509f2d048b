"""A mean of models of phages, each with weights by its held-out errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge


def _data(script, m=40, q=6):
    """Return lysis that follows from the capsule of the strain alone, and kernels of both sides."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(m, 3))
    capsules = rng.integers(0, 4, m)
    same = (capsules[:, None] == capsules).astype(float)
    tree = np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=2))
    lysis = (rng.random((4, q)) < 0.5).astype(float)[capsules]
    lysis[rng.random((m, q)) < 0.05] = np.nan
    strains = {"tree": tree, "nearest relatives": tree**2}
    types = {"capsule": same, "other": np.eye(m)}
    return script.Data(lysis, strains, {"tree": np.eye(q)}, types, np.arange(m) % 5, np.arange(q))


@pytest.fixture
def split(script):
    """Return data, and the known and the new strains and phages of the first fold of setting B."""
    data = _data(script)
    return data, *next(script.splits(data, "B"))


def test_the_kernel_that_predicts_a_phage_has_its_weight(script, split):
    data, kept, new = split
    predictions = script.per_phage(data, "B", kept, new)
    tested = ~np.isnan(data.lysis[new[0]])
    errors = (predictions - data.lysis[new[0]])[tested]
    tree = IndependentTaskRidge(0.3, kernel="precomputed")
    tree.fit(data.strains["tree"][np.ix_(kept[0], kept[0])], data.lysis[kept[0]])
    alone = tree.predict(data.strains["tree"][np.ix_(new[0], kept[0])]) - data.lysis[new[0]]
    assert (errors**2).mean() < 0.2 * (alone[tested] ** 2).mean()


def test_one_model_has_the_whole_weight(script, split, monkeypatch):
    data, kept, new = split
    kernel = data.strains["tree"]
    model = IndependentTaskRidge(1.0, kernel="precomputed")
    monkeypatch.setattr(script, "candidates", lambda data: [(model, kernel, {})])
    predictions = script.per_phage(data, "B", kept, new)
    assert_allclose(predictions, model.predict(kernel[np.ix_(new[0], kept[0])]))


def test_labels_of_new_strains_have_no_influence(script, split):
    data, kept, new = split
    predictions = script.per_phage(data, "B", kept, new)
    data.lysis[new[0]] = 1.0 - data.lysis[new[0]]
    assert_allclose(script.per_phage(data, "B", kept, new), predictions)


def test_a_phage_that_lyses_nothing_is_predicted_to_lyse_nothing(script, split):
    data, kept, new = split
    data.lysis[:, 2] = 0.0
    assert_allclose(script.per_phage(data, "B", kept, new)[:, 2], 0.0, atol=0.1)


def test_new_phages_are_refused(script):
    data = _data(script)
    kept, new = next(script.splits(data, "C"))
    with pytest.raises(ValueError, match=r"new strains \(B\)"):
        script.per_phage(data, "C", kept, new)
