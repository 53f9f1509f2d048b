"""The folds, models and lists of the experiment on wheat and corn, on small simulated data."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal


def simulated(script, folder):
    """Write and load lines of families with additive effects that are similar in all environments."""
    rng = np.random.default_rng(0)
    families = rng.random((6, 100))
    markers = (rng.random((48, 100)) < families.repeat(8, axis=0)).astype(np.int8)
    effects = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 3))
    values = (markers - markers.mean(axis=0)) @ effects
    Y = values / values.std(axis=0) + 0.3 * rng.normal(size=(48, 3))
    A = np.kron(np.eye(6), np.full((8, 8), 0.5)) + 0.5 * np.eye(48)
    folds = rng.permutation(np.arange(48) % 3)
    np.savez(folder / "wheat.npz", Y=Y, markers=markers, A=A, folds=folds)
    return script.load_wheat(folder)


@pytest.fixture(scope="module")
def wheat(script, tmp_path_factory):
    return simulated(script, tmp_path_factory.mktemp("wheat"))


def test_each_label_is_hidden_once(script, wheat):
    for part in ("cv1", "cv2"):
        hidden = script.hidden_sets(wheat, part)
        assert_array_equal(np.sum(hidden, axis=0), np.ones((48, 3)))
        whole_lines = [(fold.any(axis=1) == fold.all(axis=1)).all() for fold in hidden]
        assert all(whole_lines) == (part == "cv1")


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")  # as in main
def test_each_model_predicts_hidden_labels(script, wheat, each):
    cases = [("cv1", name) for name in script.USUAL["cv1"]]
    cases += [("cv2", name) for name in ("across", "correlated", "staged")]
    for part, name in each(cases):
        hidden = script.hidden_sets(wheat, part)[0]
        predictions = script.MODELS[name](wheat.without(hidden))
        assert predictions.shape == (48, 3)
        assert np.corrcoef(predictions[hidden], wheat.yields[hidden])[0, 1] > 0.5


def test_scores_are_those_of_the_hidden_labels(script, wheat):
    def oracle(known):
        return np.where(np.isnan(known.yields), wheat.yields, np.nan)

    assert_allclose(script.correlations(wheat, oracle, "cv2"), np.ones(3))


def test_the_list_of_crosses_has_tested_and_untested_ones(script, tmp_path):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        [(a, b, place) for a in "abc" for b in "xyz" for place in "1234"],
        columns=["gca1", "gca2", "location"],
    )
    table = table[(table["gca1"] != "a") | (table["gca2"] != "x")]
    table["yield"] = rng.normal(size=len(table)) + 5.0 * (table["gca1"] == "b")
    parents = list("abcxyz")
    arrays = {name: table[name].to_numpy(dtype=str) for name in ("gca1", "gca2", "location")}
    np.savez(
        tmp_path / "corn.npz",
        **arrays,
        **{"yield": table["yield"].to_numpy()},
        parents=np.array(parents),
        relationship=np.eye(6),
    )
    read, relationship = script.load_corn(tmp_path)
    assert sorted(read["location"].unique()) == ["1", "3", "4"]
    listed = script.selection_list(script.corn_model(read, relationship), read)
    assert len(listed) == 9
    assert listed["gca1"][0] == "b"
    assert listed.loc[~listed["grown"], ["gca1", "gca2"]].to_numpy().tolist() == [["a", "x"]]
    assert (np.diff(listed["prediction"]) <= 0).all()
