"""``--device``: the command line computes elsewhere, and finds the same."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

import dyadlearn._array as array_module
from dyadlearn import load


def test_tune_and_evaluate_find_the_same_on_a_device(tables, run):
    pytest.importorskip("torch")
    path, data = tables.folder / "device.dyad", [tables.labels, *tables.sides]
    for words in (
        ["tune", *data, "--alphas", "0.1,1,10", "--setting", "D", "-o", path, "--force"],
        ["evaluate", *data],
    ):
        here, there = (run(*words, "--json", *more) for more in ([], ["--device", "cpu"]))
        assert there.code == here.code == 0, there.err
        if words[0] == "tune":
            assert there.json["alpha"] == here.json["alpha"]
            assert_allclose(there.json["score"], here.json["score"], rtol=1e-8)
            opened = load(path)
            assert array_module.library(opened.predict(tables.X, tasks=tables.T)) == "numpy"
        else:
            for found, expected in zip(there.json["settings"], here.json["settings"], strict=True):
                assert_allclose(list(found["scores"].values()), list(expected["scores"].values()), rtol=1e-6)


def test_what_is_missing_is_said(tables, run, monkeypatch):
    monkeypatch.setattr(array_module, "find_spec", lambda name: None)
    ran = run("evaluate", tables.labels, *tables.sides, "--device", "cuda")
    assert ran.code != 0
    assert "device='cuda' needs torch or cupy, neither of which is installed" in " ".join(ran.err.split())


def test_a_model_in_a_file_computes_here(tables, run):
    ran = run("evaluate", tables.folder / "any.dyad", "--device", "cuda")
    assert ran.code != 0
    assert "--device goes with labels" in " ".join(ran.err.split())
