"""The experiment on normal scores of labels: one unit of made-up labels, and the table."""

from __future__ import annotations

import functools
import json
import sys

import numpy as np


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
