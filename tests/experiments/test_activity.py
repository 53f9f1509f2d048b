"""Activity coefficients: splits, corrections of a known column, scores, and the command on a small made-up table."""

import functools
import json
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import Descriptions

SOLVENTS = [
    "CCO",
    "CCCO",
    "CCCCO",
    "CC(C)=O",
    "CCC(C)=O",
    "c1ccccc1",
    "Cc1ccccc1",
    "CCOCC",
    "CC#N",
    "ClC(Cl)Cl",
]
SOLUTES = ["CCCCC", "CCCCCC", "CCCCCCC", "C1CCCCC1", "CC(=O)OC", "CCN", "O", "CC=CC"]


@pytest.fixture
def made_up():
    """Pairs of which some have no COSMO-RS value, which is right up to 0.5 elsewhere, and sides that know the truth."""
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=(len(names), 2)) for names in (SOLVENTS, SOLUTES)]
    cells = np.argwhere(rng.random((len(SOLVENTS), len(SOLUTES))) < 0.85)
    pairs = pd.DataFrame(
        {
            "Solvent_SMILES": [SOLVENTS[i] for i, _ in cells],
            "Solute_SMILES": [SOLUTES[j] for _, j in cells],
            "ln_gamma": (sides[0] @ sides[1].T)[tuple(cells.T)],
        }
    )
    pairs["COSMO_RS"] = pairs["ln_gamma"] - 0.5
    pairs.loc[::9, "COSMO_RS"] = np.nan
    pairs["UNIFAC"] = pairs["mod_UNIFAC_Do"] = pairs["GNN"] = 0.0
    pairs["test"] = (np.arange(len(pairs)) % 5 == 0).astype(int)
    return pairs, sides


@pytest.fixture
def data(script, made_up):
    pairs, sides = made_up
    kernels = []
    features = []
    for names, table in zip((SOLVENTS, SOLUTES), sides, strict=True):
        squares = ((table[:, None] - table) ** 2).sum(axis=2)
        kernels.append(Descriptions({"truth": pd.DataFrame(np.exp(-0.1 * squares), names, names)}))
        features.append(pd.DataFrame(table, names))
    return script.Data(pairs, tuple(kernels), tuple(features))


@pytest.fixture
def quick(script, monkeypatch):
    """Let the learner take two steps in one stage, and forests have five trees."""
    monkeypatch.setattr(script, "TREES", 5)
    model = functools.partial(script.LearnedKernelRidge, n_steps=2, stages=1, progress=False)
    monkeypatch.setattr(script, "LearnedKernelRidge", model)


def test_new_pairs_are_the_published_ones_and_folds_have_new_molecules(script, made_up):
    pairs, _ = made_up
    [(train, test)] = script.splits(pairs, "A", 3)
    assert_array_equal(test, np.flatnonzero(pairs["test"]))
    assert_array_equal(np.sort([*train, *test]), np.arange(len(pairs)))
    for setting, side in (("B", "Solvent_SMILES"), ("C", "Solute_SMILES")):
        parts = list(script.splits(pairs, setting, 3))
        assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), train)
        for kept, left_out in parts:
            assert not set(pairs[side].iloc[kept]) & set(pairs[side].iloc[left_out])
            assert not pairs["test"].iloc[[*kept, *left_out]].any()


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.UnboundedIntervalWarning")
@pytest.mark.parametrize("setting", ["A", "B", "C"])
def test_a_constant_error_of_the_known_column_is_corrected(script, data, setting, quick):
    positions, found = script.predictions(data, setting, "COSMO_RS", 3)
    y, known = (data.pairs[name].to_numpy()[positions] for name in ("ln_gamma", "COSMO_RS"))
    for learner in script.LEARNERS:
        values = found[f"COSMO-RS + {learner}"].values
        assert_array_equal(np.isnan(values), np.isnan(known))
        assert_allclose(values[~np.isnan(known)], y[~np.isnan(known)], atol=1e-6, err_msg=learner)
    filled = found["COSMO-RS + learned kernels, alone without a value"]
    alone = found["learned kernels"]
    assert_allclose(filled.values[np.isnan(known)], alone.values[np.isnan(known)], rtol=1e-12)
    assert np.isfinite(filled.values).all()
    assert (alone.lower <= alone.upper).all()
    # Labels that the kernels explain are predicted better than by constants.
    errors = [
        script.errors(y, found[name].values)["RMSE"]
        for name in (script.LEARNED, next(iter(script.LEARNERS)))
    ]
    assert errors[0] < errors[1]


def test_scores(script):
    y = np.array([1.0, 2.0, 3.0, 4.0])
    below = np.array([1, 9, 9, np.inf])
    above = np.array([1, -0.5, 9, np.inf])
    predicted = script.Predicted(np.array([1.0, 3.0, np.nan, 1.0]), y - below, y + above)
    expected = {"pairs": 3, "MAE": 4 / 3, "RMSE": np.sqrt(10 / 3)}
    assert script.errors(y, predicted.values) == pytest.approx(expected)
    covered = {"inside": 2 / 3, "inside_finite": 1 / 2, "finite": 2 / 3, "width": (2 + 8.5) / 2}
    assert script.coverage(y, predicted) == pytest.approx(covered)
    assert script.coverage(y, script.Predicted(y, y - np.inf, y + np.inf)) == {}
    assert_allclose((predicted + y).upper, predicted.upper + y)


def test_the_command(script, made_up, tmp_path, monkeypatch, capsys, quick):
    pytest.importorskip("rdkit", reason="rdkit is not installed: molecules are not described")
    out = tmp_path / "found.json"
    words = ["activity.py", "--data", str(tmp_path), "--settings", "A", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(FileNotFoundError, match=r"'activity' is not in .*iac\.csv"):
        script.main()
    made_up[0].to_csv(tmp_path / "iac.csv", index=False)
    script.main()
    seen = capsys.readouterr().out
    assert "| A, new pairs | 30 graph networks | " in seen
    assert "| A, new pairs | COSMO-RS + learned kernels | " in seen
    stored = json.loads(out.read_text())
    assert set(stored["versions"]) == {"dyadlearn", "numpy", "scipy", "scikit-learn", "rdkit"}
    assert {row["setting"] for row in stored["rows"]} == {"A"}
    monkeypatch.setattr(sys, "argv", ["activity.py", "--settings", "AD"])
    with pytest.raises(SystemExit):
        script.main()
    assert "found D" in capsys.readouterr().err


def test_the_published_figures(script, shared_data):
    pairs = script.load_pairs(shared_data)
    assert [pairs[side].nunique() for side in script.SIDES] == [262, 156]
    test = pairs[pairs["test"] == 1]
    y = test["ln_gamma"].to_numpy()
    for name, n, MAE, RMSE in (("GNN", 562, 0.178, 0.323), ("COSMO_RS", 546, 0.292, 0.441)):
        found = script.errors(y, test[name].to_numpy())
        assert found["pairs"] == n
        assert_allclose([found["MAE"], found["RMSE"]], [MAE, RMSE], atol=5e-4)
