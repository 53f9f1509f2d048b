"""Yields between 0 and 100 %, profiles of levels, and parts of the model left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose


def _data(script, n=300):
    """Return reactions whose yield follows from structures of all sides."""
    rng = np.random.default_rng(0)
    sizes = dict(zip(script.SIDES, (5, 4, 3, 6), strict=True))
    levels = {side: rng.integers(0, size, n) for side, size in sizes.items()}
    places = {side: rng.uniform(-1, 1, size) for side, size in sizes.items()}
    sums = sum(places[side][levels[side]] for side in script.SIDES)
    structures = {side: np.exp(-((place[:, None] - place) ** 2)) for side, place in places.items()}
    at = rng.permutation(n)
    yields = 100 / (1 + np.exp(-2 * sums))
    return script.Data(levels, yields, structures, {"fullcv_01": (at[:200], at[200:])})


def test_labels_and_yields_are_inverses(script):
    yields = np.linspace(0.0, 100.0, 11)
    assert_allclose(script.to_yield(script.to_label(yields)), yields, atol=1e-12)


@pytest.mark.parametrize("part", ["all", "yields as labels", "no profiles", "pairs", "sides"])
def test_each_part_of_the_model_can_be_left_out(script, part):
    data = _data(script)
    training, test = data.splits["fullcv_01"]
    predictions = script.predicted(data, training, test, (), script.PARTS[part], None)
    assert script.r2(data.yields[test], predictions) > 0.9


def test_parts_are_compared_within_the_training_data(script, capsys):
    data = _data(script)
    _, test = data.splits["fullcv_01"]
    hidden = data.yields.copy()
    hidden[test] = np.nan
    blind = script.Data(data.levels, hidden, data.structures, data.splits)
    script.compare_parts(blind, "fullcv_01", 120, None, ["all", "sides"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["all", "sides"]
    assert "nan" not in " ".join(lines)
