"""``dyadlearn compare``: what the library says, in a table and in JSON."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge, compare, save


@pytest.fixture
def files(tables):
    """Two models of the same labels."""
    models = {"two_step": TwoStepRidge(0.5, 0.5), "kronecker": KroneckerRidge(50.0)}
    models = {name: model.fit(tables.X, tables.Y, tasks=tables.T) for name, model in models.items()}
    paths = [tables.folder / f"{name}.dyad" for name in models]
    for path, model in zip(paths, models.values(), strict=True):
        save(model, path)
    return paths, models


def test_what_the_library_finds(files, run):
    paths, models = files
    found = compare(models, "B", n_resamples=50, random_state=3)
    ran = run("compare", *paths, "--setting", "B", "--resamples", 50, "--seed", 3, "--json")
    assert (ran.code, ran.json["verdict"]) == (0, found.verdict)
    assert ran.json["scores"] == pytest.approx(found.scores)
    [line] = ran.json["differences"]
    assert_allclose([line["low"], line["high"]], [found.differences[0].low, found.differences[0].high])
    seen = run("compare", *paths, "--setting", "B", "--resamples", 50, "--seed", 3, "--sides", "host,parasite")
    assert "95 % intervals from drawing hosts and parasites again, 50 times" in " ".join(seen.out.split())
    assert found.verdict in " ".join(seen.out.split())
    assert all(word in seen.out for word in ("two_step", "kronecker", "behind", "best share"))


def test_into_a_file(files, run, get):
    paths, _ = files
    out = paths[0].parent / "table.csv"
    ran = run("compare", *paths, "--setting", "D", "--resamples", 20, "-o", out)
    assert f"Wrote 2 rows to {out}." in " ".join(ran.out.split())
    lines = get(out)
    assert lines[0][:3] == ["model", "roc_auc", "behind"]
    assert len(lines) == 3
    assert "exists already" in run("compare", *paths, "--setting", "D", "-o", out).err


def test_files_of_the_same_name_are_called_by_their_paths(files, run):
    paths, _ = files
    other = paths[0].parent / "other"
    other.mkdir()
    (other / "two_step.dyad").write_bytes(paths[1].read_bytes())
    ran = run("compare", paths[0], other / "two_step.dyad", "--setting", "B", "--resamples", 10, "--json")
    assert set(ran.json["scores"]) == {str(paths[0]), str(other / "two_step.dyad")}


def test_what_cannot_be_compared(files, tables, run):
    paths, _ = files
    ran = run("compare", paths[0], "--setting", "B")
    assert (ran.code, ran.err) == (2, "dyadlearn: models must be at least two to be compared, found only 'two_step'.\n")
    assert "stands there twice" in run("compare", paths[0], paths[0], "--setting", "B").err
    assert "Unknown setting" in run("compare", *paths, "--setting", "E").err
    assert run("compare", *paths).code == 2
    other = tables.folder / "other.dyad"
    save(TwoStepRidge().fit(tables.X, 1 - tables.Y, tasks=tables.T), other)
    ran = run("compare", paths[0], other, "--setting", "B")
    assert ran.code == 2
    assert "'two_step' and 'other' were fitted on different labels" in ran.err
    online = tables.folder / "online.dyad"
    save(OnlineTwoStepRidge().fit(tables.X, tables.Y, tasks=tables.T), online)
    ran = run("compare", paths[0], online, "--setting", "B")
    assert (ran.code, "'online' cannot be compared" in ran.err) == (2, True)
