"""Kernels of what was measured, in learning by one fold: what is held out is in no set."""

import sys

import numpy as np
import pytest


@pytest.fixture
def measured(load):
    """Labels of two kinds of drugs, which are mostly measured with targets of their kind."""
    rng = np.random.default_rng(0)
    kind, family = np.arange(60) % 2, np.arange(40) % 2
    fits = kind[:, None] == family
    Y = np.where(fits, 2.0, 0.0) + rng.normal(scale=0.2, size=fits.shape)
    seen = rng.random(Y.shape) < np.where(fits, 0.5, 0.1)
    sides = ({"identity": np.eye(n)} for n in Y.shape)
    return load("records_data").Data("kiba", np.where(seen, Y, np.nan), *sides)


def test_held_out_pairs_are_in_no_set(script, measured, monkeypatch):
    seen = []
    problem = script.problem

    def noted(model, data, Y, cells, names):
        seen.append(cells)
        return problem(model, data, Y, cells, names)

    monkeypatch.setattr(script, "problem", noted)
    result, F = script.learned(measured, measured.Y, ["cosine"], steps=4, stages=1)
    is_held_out = np.isfinite(np.asarray(result.held_out))
    whole, fold = seen
    observed = np.isfinite(measured.Y)
    np.testing.assert_array_equal(whole, observed)
    np.testing.assert_array_equal(fold, observed & ~is_held_out)
    # One of five folds, which are dealt out over all cells.
    assert 0.15 < is_held_out.sum() / observed.sum() < 0.25
    assert F.shape == measured.Y.shape


def test_what_was_measured_describes_drugs_and_targets(script, measured, monkeypatch, capsys):
    records = sys.modules["records"]
    load = lambda data_home, cache: measured  # noqa: E731
    benchmark = records.replace(records.BENCHMARKS["kiba"], load=load)
    monkeypatch.setitem(script.BENCHMARKS, "kiba", benchmark)
    values = {}
    for kernels in ("cosine", "none"):
        command = f"measured.py --kernels {kernels} --steps 8 --stages 1 --test"
        monkeypatch.setattr(sys, "argv", command.split())
        script.main()
        lines = capsys.readouterr().out.splitlines()
        values[kernels] = [float(line.split(",")[0].split()[-1]) for line in lines[1:3]]
    for held_out, without in zip(values["cosine"], values["none"], strict=True):
        assert held_out > without + 0.02
