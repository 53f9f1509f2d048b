"""The experiment on normal scores of labels: one unit of made-up labels, and the table."""

from __future__ import annotations

import functools
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXPERIMENTS))
        yield importlib.import_module("ranks")
    for name in ("ranks", "records", "records_data", "records_table", "drug_target"):
        sys.modules.pop(name, None)


def test_both_targets_are_learned_and_scored_as_labels(script, monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    T = rng.normal(size=(12, 2))
    K, G = (np.exp(-0.3 * ((table[:, None] - table) ** 2).sum(axis=2)) for table in (X, T))
    records = sys.modules["records"]
    data = sys.modules["records_data"].Data("davis", np.exp(X @ T.T), {"truth": K}, {"truth": G})
    benchmark = records.replace(records.BENCHMARKS["davis"], load=lambda data_home, cache: data)
    monkeypatch.setitem(script.BENCHMARKS, "davis", benchmark)
    model = functools.partial(script.LearnedKernelRidge, n_steps=2, stages=1, progress=False)
    monkeypatch.setattr(script, "LearnedKernelRidge", model)
    out = tmp_path / "ranks.json"
    monkeypatch.setattr(sys, "argv", ["ranks.py", "--seeds", "0", "--json", str(out)])
    script.main()
    first, second = json.loads(out.read_text())["rows"]
    assert [first["target"], second["target"]] == ["labels", "normal scores"]
    assert second["CI"] > 0.7
    # Predictions are scored on the scale of the labels, whatever was learned from.
    assert second["MSE"] < np.var(data.Y)
    assert first["MSE"] != second["MSE"]
    assert (
        f"| davis | normal scores | {second['CI']:.3f} | {second['MSE']:.3f} | 1 |"
        in capsys.readouterr().out
    )
