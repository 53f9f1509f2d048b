"""Kernels of who rated what: their values, and that neither they nor learning see what is held out."""

import json
import sys

import numpy as np
import pytest

SETS = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.fixture
def ratings(load):
    """Ratings of two kinds of users, who rate what the kind likes."""
    rng = np.random.default_rng(0)
    kind, genre = np.arange(40) % 2, np.arange(30) % 2
    likes = kind[:, None] == genre
    Y = np.clip(np.where(likes, 4.5, 2.5) + rng.normal(scale=0.3, size=likes.shape), 1, 5)
    seen = rng.random(Y.shape) < np.where(likes, 0.5, 0.1)
    test = seen & (rng.random(Y.shape) < 0.2)
    truth = np.where(test, Y, np.nan)
    return load("records_data").Data("douban", np.where(seen & ~test, Y, np.nan), {}, {}, truth)


def test_kernels_compare_sets(script):
    np.testing.assert_allclose(script.cosine(SETS), [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(script.tanimoto(SETS)[:2, :2], [[1, 1 / 3], [1 / 3, 1]])
    # What two of three have counts less than what one has.
    assert 0 < script.rare(SETS)[0, 1] < 0.5
    assert script.size(SETS)[0, 1] == 1
    assert script.size(SETS)[0, 2] < 0.2
    for kernel in script.KERNELS.values():
        assert np.linalg.eigvalsh(kernel(SETS)).min() > -1e-12


def test_kernels_are_those_of_the_cells_to_learn_from(script, ratings):
    out = script.held_out(ratings.Y)
    n_observed = np.isfinite(ratings.Y).sum()
    assert not out[np.isnan(ratings.Y)].any()
    assert abs(out.sum() - n_observed / script.PARTS) <= 1
    rest = np.where(out, np.nan, ratings.Y)
    users, movies = script.joined(ratings, rest, ("cosine",))
    assert users.names == movies.names == ("rated: cosine", "identity")
    sets = np.isfinite(rest).astype(float)
    kernel = np.asarray(users.tables["rated: cosine"].values)
    np.testing.assert_allclose(kernel, script.cosine(sets))


def test_the_best_candidate_is_tested_once(script, ratings, monkeypatch, tmp_path, capsys):
    load = lambda data_home, cache: ratings  # noqa: E731
    records = sys.modules["records"]
    benchmark = records.replace(records.BENCHMARKS["douban"], load=load)
    monkeypatch.setitem(script.BENCHMARKS, "douban", benchmark)
    out = tmp_path / "implicit.json"
    command = "implicit.py --candidates graph,cosine --steps 5 --stages 1 --json"
    monkeypatch.setattr(sys, "argv", [*command.split(), str(out)])
    script.main()
    rows = json.loads(out.read_text())["rows"]
    # Which movies are rated tells the kind of a user.
    assert rows["cosine"]["nested"] < rows["graph"]["nested"]
    assert [name for name, row in rows.items() if "test" in row] == ["cosine"]
    assert rows["cosine"]["test"]["RMSE"] < 0.7
    assert capsys.readouterr().out.count("test RMSE") == 1
