"""The commands on long tables whose grid is never formed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidgeCV, TwoStepRidgeCV, evaluate, load
from dyadlearn.labels import LongPairs
from dyadlearn.models import reading as training
from listed import COLUMNS, ROWS, SPARSE, VALUES, M, Q, T, X, listed
from sweeps import over

__all__ = ["listed"]

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

USERS = [f"u{place}" for place in range(M)]
ITEMS = [f"i{place}" for place in range(Q)]


@pytest.fixture
def files(listed, tmp_path, put, monkeypatch):
    """Write both sides and a long table, and let nobody make a grid of it."""
    put(tmp_path / "users.csv", USERS, ["a", "b", "c"], X)
    put(tmp_path / "items.csv", ITEMS, ["d", "e", "f", "g"], T)
    pairs = [
        f"{USERS[row]},{ITEMS[column]},{value!r}"
        for row, column, value in zip(ROWS, COLUMNS, VALUES.tolist(), strict=True)
    ]
    (tmp_path / "ratings.csv").write_text(
        "\n".join(["user,item,stars", *pairs]) + "\n", encoding="utf-8"
    )

    def refuse(self):
        raise AssertionError("a grid is formed")

    monkeypatch.setattr(LongPairs, "to_grid", refuse)
    return tmp_path


def sides(files):
    return (f"--instances {files / 'users.csv'} --tasks {files / 'items.csv'}",)


def tuned(run, files, kind):
    words = (f"tune {files / 'ratings.csv'}", *sides(files), f"--model {kind} --setting D --cv 2")
    ran = run(*words, f"--alphas 0.1,10 -o {files / 'model.dyad'} --force --json")
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def kept():
    """Give the content of the model file of each kind, once it was made."""
    return {}


@pytest.fixture
def made(files, run, kept):
    """Give a function that makes a model file of a kind."""

    def make(kind):
        path = files / "model.dyad"
        if kind not in kept:
            tuned(run, files, kind)
            kept[kind] = path.read_bytes()
        path.write_bytes(kept[kind])

    return make


def assert_sizes(figures):
    """Assert that figures count what has labels."""
    sizes = [figures[name] for name in ("instances", "tasks", "observed")]
    assert sizes == [M - 1, Q - 1, ROWS.size]


@over([{"kind": "kronecker"}, {"kind": "two-step"}])
def test_tune_chooses_as_the_library_does(files, run, kind):
    ran = tuned(run, files, kind)
    twin = KroneckerRidgeCV([0.1, 10.0], setting="D", cv=2)
    if kind == "two-step":
        twin = TwoStepRidgeCV([0.1, 10.0], [0.1, 10.0], setting="D", cv=2)
    # The row and the column without labels are in no pair, and so not in the model.
    known = np.unique(ROWS), np.unique(COLUMNS)
    twin.fit(X[known[0]], SPARSE[known[0]][:, known[1]], T[known[1]])
    found = load(files / "model.dyad")
    for model in (found, twin):
        assert model.fitted_.training_problem.labels.grid is None
    assert (ran.json["alpha"], ran.json["task_alpha"]) == (twin.alpha_, twin.task_alpha_)
    assert_sizes(ran.json)
    expected = "exact leave-fold-out" if kind == "kronecker" else "2×2 folds, refitted"
    assert ran.json["holdout"] == twin.holdout_method_ == expected
    # Ids are in the order of the table, folds are dealt in the order of ids: these are the same
    # here for the rows only.
    order = found.fitted_.form.column_ids.positions([ITEMS[place] for place in known[1]], "")
    assert found.fitted_.form.row_ids.labels == tuple(USERS[place] for place in known[0])
    assert_allclose(found.predict(X[:4])[:, order], twin.predict(X[:4]), rtol=1e-6)


def test_a_model_in_a_file_predicts_and_is_evaluated(made, files, run, get):
    made("kronecker")
    model = load(files / "model.dyad")
    predict = f"predict {files / 'model.dyad'}"
    wanted = [(USERS[place], ITEMS[place % Q]) for place in range(6)]
    pairs = files / "wanted.csv"
    pairs.write_text("user,item\n" + "\n".join(map(",".join, wanted)), encoding="utf-8")
    expected = model.predict_pairs(X, T, [(place, place % Q) for place in range(6)])
    ran = run(predict, *sides(files), f"--pairs {pairs} --json")
    assert_allclose(ran.json["predictions"]["prediction"], expected)
    ran = run(predict, *sides(files), "--long --json").json["predictions"]
    found = dict(
        zip(zip(ran["instance"], ran["task"], strict=True), ran["prediction"], strict=True)
    )
    assert len(found) == M * Q
    assert_allclose([found[pair] for pair in wanted], expected)
    assert run(predict, *sides(files), f"-o {files / 'out.csv'}").code == 0
    lines = get(files / "out.csv")
    cells = [float(lines[1 + row][lines[0].index(item)]) for row, (_, item) in enumerate(wanted)]
    assert_allclose(cells, expected)
    bounds = run(predict, *sides(files), "--interval 0.8 --json")
    assert len(bounds.json["predictions"]["lower"]) == M * Q
    ran = run(f"evaluate {files / 'model.dyad'} --scoring r2 --setting AD --json")
    table = evaluate(model, "AD", scoring="r2")
    rows = ran.json["settings"]
    assert_allclose([row["scores"]["r2"] for row in rows], table["r2"])
    assert_allclose([row["baselines"]["r2"]["additive"] for row in rows], table["additive"])


def test_inspect_says_what_the_model_is(made, files, run):
    made("two-step")
    ran = run(f"inspect {files / 'model.dyad'} --json")
    assert ran.json["fitted_on"] == f"{ROWS.size:,} observed pairs alone, without a grid"
    assert_sizes(ran.json)
    assert_allclose(ran.json["mean_label"], VALUES.mean())
    assert "observed pairs alone" in run(f"inspect {files / 'model.dyad'}").out


def test_a_list_answers_what_a_grid_does(made, files, run):
    made("kronecker")
    model = files / "model.dyad"
    other = files / "other.dyad"
    other.write_bytes(model.read_bytes())
    for words in (
        ("screen", model),
        (f"recommend {model} --for u0",),
        (f"recommend {model} --pairs",),
        (f"predict --explain {model} --instance u0 --task i1",),
        (f"evaluate {model} --setting B --permutations 2",),
        (f"evaluate {model} --against {other} --setting B --resamples 10",),
        (f"report {model} -o {files / 'page.html'} --setting AD",),
    ):
        ran = run(*words)
        assert ran.code == 0, (words, ran.out, ran.err)
    assert (files / "page.html").exists()
    ran = run(f"predict {model}", *sides(files), "--probability")
    assert ran.code == 2
    assert "Probabilities need labels of two values" in " ".join(ran.err.split())


def test_a_table_may_name_the_task_first(made, files, run):
    """Its pairs are read column by column then, and kept row by row all the same."""
    made("kronecker")
    model = load(files / "model.dyad")
    words = (f"tune {files / 'ratings.csv'} --columns item,user,stars --transpose", *sides(files))
    more = (
        f"--model kronecker --setting D --cv 2 --alphas {model.alpha_} -o {files / 'other.dyad'}",
    )
    ran = run(*words, *more)
    assert ran.code == 0, ran.err
    other = load(files / "other.dyad")
    assert other.fitted_.training_problem.labels.grid is None
    asked = [(USERS[1], ITEMS[2]), (USERS[9], ITEMS[0])]
    assert_allclose(
        other.predict_pairs(None, None, asked), model.predict_pairs(None, None, asked), rtol=1e-6
    )


def test_an_online_model_takes_the_grid(files, run, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(training, "SMALL_GRID", 0)
    words = (
        f"tune {files / 'ratings.csv'}",
        *sides(files),
        "--model online --alphas 0.1,10 --cv 2",
    )
    ran = run(*words, f"-o {files / 'other.dyad'}")
    assert ran.code == 0, ran.err
    assert load(files / "other.dyad").n_seen_ == M - 1
