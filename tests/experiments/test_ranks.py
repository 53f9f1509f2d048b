"""The experiment on ranks of labels: one unit of made-up labels, and the tables."""

import functools
import json
import sys

import numpy as np
import pytest

from dyadlearn.labels import NormalScores
from dyadlearn.metrics import concordance_index


@pytest.fixture
def made_up(script, monkeypatch):
    """Replace Davis by a small grid of skewed labels, and return them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    T = rng.normal(size=(12, 2))
    K, G = (np.exp(-0.3 * ((table[:, None] - table) ** 2).sum(axis=2)) for table in (X, T))
    records = sys.modules["records"]
    data = sys.modules["records_data"].Data("davis", np.exp(X @ T.T), {"truth": K}, {"truth": G})
    benchmark = records.replace(records.BENCHMARKS["davis"], load=lambda data_home, cache: data)
    monkeypatch.setitem(script.BENCHMARKS, "davis", benchmark)
    return data.Y


def test_both_targets_are_learned_and_scored_as_labels(
    script, made_up, monkeypatch, tmp_path, capsys
):
    model = functools.partial(script.LearnedKernelRidge, n_steps=2, stages=1, progress=False)
    monkeypatch.setattr(script, "LearnedKernelRidge", model)
    out = tmp_path / "ranks.json"
    monkeypatch.setattr(sys, "argv", ["ranks.py", "--seeds", "0", "--json", str(out)])
    script.main()
    first, second = json.loads(out.read_text())["rows"]
    assert [first["target"], second["target"]] == ["labels", "normal scores"]
    assert second["CI"] > 0.7
    # Predictions are scored on the scale of the labels, whatever was learned from.
    assert second["MSE"] < np.var(made_up)
    assert first["MSE"] != second["MSE"]
    assert (
        f"| davis | normal scores | {second['CI']:.3f} | {second['MSE']:.3f} | 1 |"
        in capsys.readouterr().out
    )


def test_the_choice_is_made_by_held_out_predictions(script, made_up, monkeypatch, tmp_path, capsys):
    model = functools.partial(script.LearnedKernelRidge, progress=False)
    monkeypatch.setattr(script, "LearnedKernelRidge", model)
    out = tmp_path / "ranks.json"
    command = "ranks.py --choose --seeds 0 --steps 2 --stages 1 --quick --json"
    monkeypatch.setattr(sys, "argv", [*command.split(), str(out)])
    script.main()
    [row] = json.loads(out.read_text())["rows"]
    assert len(row["held_out"]) == 7
    assert row["held_out"][row["chosen"]] == max(row["held_out"].values())
    assert row["CI"] > 0.7
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| davis")]
    tested = [line for line in lines if not line.endswith("|  |")]
    assert len(lines) == 7
    # Test labels are used for the choice alone.
    best = row["chosen"]
    assert tested == [f"| davis | 0 | {best} | {row['held_out'][best]:.4f} | {row['CI']:.4f} |"]


def test_targets_keep_the_order_of_labels(script):
    Y = np.array([[1.0, 5.0, np.nan], [5.0, 2.0, 9.0]])
    uniform, normal = (script.as_target(Y, name) for name in ("uniform ranks", "normal scores"))
    # Ranks 1, 3.5, 3.5, 2 and 5 of five labels.
    np.testing.assert_allclose(uniform, [[0.1, 0.6, np.nan], [0.6, 0.3, 0.9]])
    np.testing.assert_allclose(normal, NormalScores().fit_transform(Y))
    assert script.as_target(Y, "labels") is Y


def test_blends_do_not_depend_on_the_scale_of_predictions(script):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(20, 10))
    first, second = (truth + rng.normal(size=truth.shape) for _ in range(2))
    held_out, everywhere = script.blended([(first, first), (second, second)])
    stretched, _ = script.blended([(np.exp(3 * first), first), (second, second)])
    np.testing.assert_allclose(stretched, held_out)
    np.testing.assert_allclose(everywhere, held_out)
    # Independent errors partly cancel.
    alone = max(concordance_index(truth, first), concordance_index(truth, second))
    assert concordance_index(truth, held_out) > alone + 0.03
