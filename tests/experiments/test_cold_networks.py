"""Models of networks where drugs, targets or both are new, and the table of their scores."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def network(load):
    """Labels 0 and 1 that follow from positions on lines, which the similarities tell."""
    rng = np.random.default_rng(0)
    x, t = (rng.uniform(-2, 2, n) for n in (40, 30))
    Y = (np.outer(x, t) > 0.5).astype(float)
    K, G = ({"similarity": np.exp(-((line[:, None] - line) ** 2))} for line in (x, t))
    return load("records_data").Data("nr", Y, K, G)


@pytest.mark.parametrize("setting", ["B", "C", "D"])
@pytest.mark.parametrize("model", ["forest", "two-step", "learned"])
def test_each_model_predicts_a_fold(script, network, model, setting):
    line = script.scored(model, network, setting, 0)
    assert line["AUPR"] > 0.7
    assert line["AUC"] > 0.8


def test_means_are_those_of_the_known_side(script, load, network):
    records = load("records")
    for setting, axis in (("B", 0), ("C", 1)):
        split = records.cut(network, records.Unit("nr", setting, "fold 3"), script.N_FOLDS)
        predictions = script.means(network, split, setting)
        np.testing.assert_allclose(predictions.mean(axis=axis), split.Y.mean(axis=axis))


def test_the_table_leaves_out_folds_of_one_class(script):
    def line(model, fold, value):
        about = {"data": "nr", "setting": "D", "fold": fold, "model": model}
        return {**about, "AUPR": value, "AUC": value}

    lines = [line(model, 0, 0.5) for model in ("forest", "learned")]
    lines += [line(model, 1, None) for model in ("forest", "learned")]
    lines.append(line("learned", 2, 0.7))
    lines.append(line("forest", 2, 0.6))
    assert script.table(lines).splitlines()[-1] == "| nr, D | 2 | 0.550 / 0.550 | 0.600 / 0.600 |"
