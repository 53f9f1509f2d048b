"""``dyadlearn predict``: new instances, new tasks, both, some pairs, in every format."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    calibrate,
    explain,
    load,
    recommend,
    save,
)
from dyadlearn._files.embeddings import open_features
from dyadlearn._files.tables import read_cells, write_blocks
from dyadlearn.models.base import Predictor


@pytest.fixture
def new(tables, put):
    """Three new users and two new items; the columns are in another order than in training."""
    rng = default_rng(1)
    X = rng.normal(size=(3, 3))
    T = rng.normal(size=(2, 2))
    users = put(
        tables.folder / "new_users.csv",
        ["n0", "n1", "n2"],
        ["mood", "age", "height"],
        X[:, [2, 0, 1]],
    )
    items = put(tables.folder / "new_items.csv", ["m0", "m1"], ["size", "price"], T[:, [1, 0]])
    return {"X": X, "T": T, "users": users, "items": items}


BOTH = "predict model.dyad --instances new_users.csv --tasks new_items.csv"


def test_pairs_and_long_tables(model, new, run):
    fitted = load(model)
    expected = fitted.predict(new["X"], new["T"])
    ran = run(f"{BOTH} -o out.csv")
    assert (ran.code, ran.out) == (0, "Wrote 3 × 2 predictions to out.csv.\n")
    found = pd.read_csv("out.csv", index_col="instance")
    assert (list(found.index), list(found)) == (["n0", "n1", "n2"], ["m0", "m1"])
    assert_allclose(found, expected, rtol=1e-15)
    Path("pairs.csv").write_text("user,item\nn2,m0\nn0,m1\nn2,m0\n")
    assert run(f"{BOTH} --pairs pairs.csv -o out.tsv -q").out == ""
    found = pd.read_csv("out.tsv", sep="\t", index_col=["instance", "task"])["prediction"]
    assert list(found.index) == [("n2", "m0"), ("n0", "m1"), ("n2", "m0")]
    assert_allclose(found, expected[[2, 0, 2], [0, 1, 0]], rtol=1e-15)
    ran = run(f"{BOTH} --long --json")
    assert_array_equal(ran.json["predictions"]["prediction"], expected.ravel())
    assert ran.json["predictions"]["task"] == ["m0", "m1"] * 3
    # Those of training need no file.
    Path("known.csv").write_text("user,item\nu3,i1\nu0,i2\n")
    ran = run("predict model.dyad --pairs known.csv --json")
    assert_array_equal(ran.json["predictions"]["prediction"], fitted.predict()[[3, 0], [1, 2]])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two rows, and the number of rows of each prediction."""
    sizes = []
    predict = Predictor.predict

    def counted(self, X=None, tasks=None):
        sides = (getattr(side, "values", side) for side in (X, tasks))
        sizes.append(tuple(None if side is None else len(side) for side in sides))
        return predict(self, X, tasks=tasks)

    monkeypatch.setattr(Predictor, "predict", counted)
    blocks = lambda n, *_: [slice(start, min(start + 2, n)) for start in range(0, n, 2)]  # noqa: E731
    monkeypatch.setattr("dyadlearn.cli.predict.row_blocks", blocks)
    return sizes


@pytest.mark.parametrize("ending", [".tsv.gz", ".parquet"])
def test_block_by_block(tables, model, new, run, ending, small_blocks):
    out = tables.folder / f"out{ending}"
    expected = load(model).predict(new["X"], new["T"])
    bounds = load(model).predict_interval(new["X"], new["T"], coverage=0.8)
    for more in ("--quiet", "--long", "--long --interval 0.8"):
        small_blocks.clear()
        assert run(BOTH, more, f"-o {out} -f").code == 0
        assert small_blocks == [(2, 2), (1, 2)]
        cells = read_cells(out)
        if "long" not in more:
            assert cells.headings == ["instance", "m0", "m1"]
            assert cells.ids().labels == ("n0", "n1", "n2")
            assert_allclose(cells.table().values, expected, rtol=1e-13)
            continue
        assert cells.labels(0) == ["n0", "n0", "n1", "n1", "n2", "n2"]
        assert cells.labels(1) == ["m0", "m1"] * 3
        grids = (expected, *bounds) if "interval" in more else (expected,)
        assert len(cells.headings) == 2 + len(grids)
        for place, grid in enumerate(grids, 2):
            assert_allclose(cells.as_numbers([place])[:, 0], np.ravel(grid), rtol=1e-12)


def test_new_tasks_block_by_block(tables, model, run, put, small_blocks):
    """With the instances of training, blocks are of tasks, whose rows are written in the end."""
    T = default_rng(3).normal(size=(5, 2))
    names = [f"m{i}" for i in range(5)]
    put(Path("m.csv"), names, ["price", "size"], T)
    assert run("predict model.dyad --tasks m.csv -o o.csv").code == 0
    assert small_blocks == [(None, 2), (None, 2), (None, 1)]
    sheet = pd.read_csv("o.csv", index_col=0)
    assert (list(sheet.index), list(sheet)) == (tables.users, names)
    assert_allclose(sheet, load(model).predict(None, T), rtol=1e-13)


@pytest.mark.parametrize(
    ("error", "code", "ending"),
    [
        (KeyboardInterrupt, 130, ".csv.gz"),
        (KeyboardInterrupt, 130, ".parquet"),
        (MemoryError("none left"), 4, ".csv"),
    ],
)
def test_what_fails_between_blocks_leaves_nothing(
    tables, model, new, run, small_blocks, monkeypatch, ending, error, code
):
    predict = Predictor.predict

    def fails(self, X=None, tasks=None):
        if len(X.values) < 2:
            raise error
        return predict(self, X, tasks=tasks)

    monkeypatch.setattr(Predictor, "predict", fails)
    out = tables.folder / f"out{ending}"
    before = sorted(tables.folder.iterdir())
    for more in ([], ["--long"]):
        assert run(f"predict {model} --instances {new['users']}", *more, f"-o {out}").code == code
        assert sorted(tables.folder.iterdir()) == before
    out.write_text("kept")
    assert run(f"predict {model} --instances {new['users']} -f -o {out}").code == code
    assert out.read_text() == "kept"
    assert len(list(tables.folder.iterdir())) == len(before) + 1


def test_independent_tasks_are_those_of_training(tune, new, run):
    tune("--model independent --alphas 1 -q")
    ran = run("predict m.dyad --instances new_users.csv --json")
    assert_array_equal(ran.json["predictions"], load("m.dyad").predict(new["X"]))
    for words in ("predict m.dyad", "predict --explain m.dyad --instance u1"):
        ran = run(f"{words} --tasks new_items.csv")
        assert ran.code == 2
        assert "knows nothing of tasks" in ran.err or "leave --tasks out" in ran.err


def test_ids_that_are_the_same_as_text(tables, run):
    ids = [1, "1", 2, "x"]
    X = pd.DataFrame(tables.X, index=tables.users, columns=["age", "height", "mood"])
    T = pd.DataFrame(tables.T[:4], index=ids)
    save(TwoStepRidge().fit(X, pd.DataFrame(tables.Y[:, :4], X.index, ids), T), "p.dyad")
    words = "The tasks of the model have the ids 1 and '1', which are the same as text"
    for command in ("predict p.dyad --instances users.csv", "screen p.dyad"):
        ran = run(command)
        assert (ran.code, ran.out, words in ran.err) == (2, "", True)
    assert run("inspect p.dyad --json").json["task_ids"] == ["1", "1", "2", "x"]
    # Likewise where features are.
    T = pd.DataFrame(tables.T, index=tables.items, columns=[1, "1"])
    save(TwoStepRidge().fit(X, pd.DataFrame(tables.Y, X.index, T.index), T), "p.dyad")
    ran = run("predict p.dyad --tasks items.csv")
    assert (ran.code, "repeated ids: '1'" in ran.err) == (2, True)


HOSTILE = [
    "a\rb",
    "a\nb",
    'say "a"',
    "a\tb",
    "a,b",
    "a;b;c",
    "a\u2028b",
    "a\x85b",
    "a\x0bb",
    "=cmd()",
    "'",
    '"',
    "NA",
    "1e5",
]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_hostile_ids_are_read_back(tables, run, ending):
    path = tables.folder / "p.dyad"
    out = tables.folder / f"out{ending}"
    Y = pd.DataFrame(np.resize(tables.Y, (12, len(HOSTILE))), index=tables.users, columns=HOSTILE)
    Y = Y.rename(columns={"a,b": " a,b\r"})  # blanks around an id do not count
    save(IndependentTaskRidge().fit(pd.DataFrame(tables.X, index=tables.users), Y), path)
    new = tables.folder / "new.csv"
    columns = {"id": HOSTILE, **dict(zip("012", np.ones((3, len(HOSTILE))).tolist(), strict=True))}
    write_blocks(new, [columns])
    ran = run(f"predict {path} --instances {new} -o {out}")
    assert ran.code == 0, ran.err
    sheet = open_features(out).take()
    assert sheet.row_ids.labels == sheet.column_ids.labels == tuple(HOSTILE)
    assert_array_equal(sheet.values, load(path).predict(np.ones((len(HOSTILE), 3))))
    assert run(f"predict {path} --instances {new} --long -o {out} -f").code == 0
    assert read_cells(out).labels(0) == [label for label in HOSTILE for _ in HOSTILE]


def test_models_saved_in_python(tables, run):
    # The columns of the file have names, the models know none: they are taken as they stand.
    for Model in (TwoStepRidge, OnlineTwoStepRidge):
        model = Model().fit(tables.X, tables.Y, tables.T)
        save(model, "p.dyad")
        ran = run(f"predict p.dyad {tables.sides} --json")
        expected = model.predict(tables.X[::-1], tables.T[::-1])
        assert_allclose(ran.json["predictions"], expected)


def test_numbers_of_pairs_are_rows_of_the_tables_and_not_positions_in_the_model(tables, run, put):
    """Also where the tables have no ids, and the pairs come in another order."""
    model = PairRegressor(KroneckerRidge(), instances=tables.X, tasks=tables.T)
    pairs = np.array([(5, 3), (0, 2), (3, 1), (5, 2), (1, 0)])
    save(model.fit(pairs, np.arange(5.0)), "p.dyad")
    put(tables.folder / "pairs.csv", [*map(str, pairs[:, 0])], ["task"], pairs[:, [1]])
    ran = run("predict p.dyad --pairs pairs.csv --json")
    assert_allclose(ran.json["predictions"]["prediction"], model.predict(pairs))
    found = run("recommend p.dyad --for 5 --side instance -n 1 --json").json
    [best] = recommend(model, instance=5, n=1).ids
    assert str(best) in json.dumps(found)


def test_feature_names_of_a_model_saved_from_frames_are_those_of_the_file(tables, new, run, put):
    """The columns are matched by name, whatever their order, and nothing is said."""
    features = pd.DataFrame(tables.X, columns=["age", "height", "mood"])
    columns = [f"t{j}" for j in range(8)]
    tasks = pd.DataFrame(tables.T, columns, ["f0", "f1"])
    model = OnlineTwoStepRidge(keep_labels=True)
    model.fit(features, pd.DataFrame(tables.Y, columns=columns), tasks)
    names = ["n0", "n1", "n2"]
    put(Path("other.csv"), names, ["mood", "age", "size"], new["X"])
    put(Path("turned.csv"), "ab", ["f1", "f0"], tables.T[:2, ::-1])
    put(Path("more.csv"), names, columns, tables.Y[:3])
    save(model, "p.dyad")
    ran = run("predict p.dyad --instances new_users.csv --tasks turned.csv --json")
    assert (ran.code, ran.err) == (0, "")
    rows = pd.DataFrame(new["X"], columns=features.columns)
    assert_allclose(ran.json["predictions"], model.predict(rows, tasks[:2].to_numpy()), rtol=1e-9)
    refused = run("predict p.dyad --instances other.csv").err
    assert "lacks 1 of the 3 columns that the model needs, the features: 'height'" in refused
    # An update says nothing of names either.
    ran = run("update p.dyad --labels more.csv --instances new_users.csv")
    assert (ran.code, ran.err) == (0, "")
    again = load("p.dyad")
    assert again.feature_names_in_.tolist() == list(features.columns)
    model.partial_fit(rows, tables.Y[:3])
    assert_allclose(again.predict(features), model.predict(features), rtol=1e-9)


# --- intervals and probabilities -----------------------------------------------------------------


@pytest.fixture
def five(tables, new, put):
    """Write two known users before three new ones."""
    X = np.concatenate([tables.X[:2], new["X"]])
    put(Path("five.csv"), ["u0", "u1", "n0", "n1", "n2"], ["age", "height", "mood"], X)
    return X


def test_bounds_stand_beside_predictions(model, new, five, run):
    fitted = load(model)
    ran = run("predict model.dyad --instances five.csv --interval 0.6 --json")
    assert "around its held-out prediction" in ran.err
    assert "labels have two values: --probability gives probabilities" in ran.err
    known = np.array(fitted.predict_interval(coverage=0.6))[:, :2]
    fresh = fitted.predict_interval(new["X"], coverage=0.6)
    found = ran.json["predictions"]
    expected = np.concatenate([known, fresh], axis=1).reshape(2, -1)
    assert_allclose([found["lower"], found["upper"]], expected)
    assert_allclose(found["prediction"], fitted.predict(five).ravel())
    ran = run(f"{BOTH} --interval 0.6 -o bounds.csv")
    assert (ran.code, ran.out) == (0, "Wrote 6 predictions to bounds.csv.\n")
    assert "around" not in ran.err
    head, *_ = Path("bounds.csv").read_text().splitlines()
    assert head == "instance,task,prediction,lower,upper"


@pytest.fixture(scope="module")
def calibrated():
    """Give a function that calibrates the model of a file, which is the same in every test."""
    return cache(lambda: calibrate(load("model.dyad")))


def test_probabilities_of_what_is_new(model, calibrated, new, run):
    found = calibrated()
    ran = run(f"{BOTH} --probability -o p.csv")
    assert (ran.code, ran.out) == (0, "Wrote 3 × 2 probabilities to p.csv.\n")
    score = f"{found['D'].brier:.4f} (base rate: {found['D'].baseline_brier:.4f})"
    assert f"setting D have a held-out Brier score of {score}" in ran.err
    assert_allclose(pd.read_csv("p.csv", index_col=0), found.predict(new["X"], new["T"]))
    ran = run("predict model.dyad --tasks new_items.csv --probability --json")
    assert ran.json["calibration"]["setting"] == ["C"]
    assert_allclose(ran.json["probabilities"], found.predict(None, new["T"]))
    words = "predict model.dyad --instances new_users.csv --probability --json"
    ran = run(words, "--long")
    assert_allclose(ran.json["probabilities"]["probability"], np.ravel(found.predict(new["X"])))
    # For another base rate.
    ran = run(words, "--prevalence 0.05")
    rare = calibrate(load(model), "B", prevalence=0.05)
    assert_allclose(ran.json["probabilities"], rare.predict(new["X"]))
    assert ran.json["calibration"]["prevalence"] == [0.05]


def test_probabilities_of_what_is_known(model, calibrated, new, five, run, monkeypatch):
    """Ids of training count as known, and each pair has the map of its setting, in whatever blocks it is predicted."""
    found = calibrated()
    words = "predict model.dyad --instances five.csv --probability --json"
    expected = np.concatenate([np.asarray(found.predict())[:2], found.predict(new["X"])])
    ran = run(words)
    assert ran.json["calibration"]["setting"] == ["A", "B"]
    assert_allclose(ran.json["probabilities"], expected)
    monkeypatch.setattr(
        "dyadlearn.cli.predict.row_blocks", lambda n, *_: [slice(i, i + 1) for i in range(n)]
    )
    assert_allclose(run(words).json["probabilities"], expected)
    Path("wanted.csv").write_text("user,item\nn1,i3\nu1,i0\n")
    ran = run(words, "--pairs wanted.csv")
    assert_allclose(ran.json["probabilities"]["probability"], [expected[3, 3], expected[1, 0]])


def test_probabilities_of_a_model_whose_ids_are_numbers(tables, run, put):
    labels = pd.DataFrame(tables.Y, index=range(12), columns=range(8))
    fitted = TwoStepRidge().fit(pd.DataFrame(tables.X, index=range(12)), labels, tables.T)
    save(fitted, "numbers.dyad")
    put(Path("rows.csv"), ["0", "1", "new"], ["0", "1", "2"], tables.X[[0, 1, 0]])
    Path("pairs.csv").write_text("user,item\n1,3\nnew,3\n")
    words = "predict numbers.dyad --instances rows.csv --probability --pairs pairs.csv --json"
    ran = run(words)
    found = calibrate(fitted, "AB")
    expected = [found.predict().iloc[1, 3], found.predict(tables.X[:1])[0, 3]]
    assert_allclose(ran.json["probabilities"]["probability"], expected)


# Explanations ------------------------------------------------------------------------------------


def test_a_pair_is_explained(tables, model, new, run):
    loaded = load(model)
    ask = "predict --explain model.dyad"
    four = f"{ask} --instance u3 --task i5 -n 4"
    found = explain(loaded, "u3", "i5", n=4)
    told = run(four, "--json").json
    figures = told["prediction"], told["share_of_mean"]
    assert_allclose(figures, (found.prediction, found.share_of_mean))
    assert (told["setting"], told["label"]) == ("A", found.label)
    for kind in ("pair", "instance", "task"):
        listed = told[f"{kind}s"]["listed"]
        rest = told[f"{kind}s"]["rest"]
        contributions = [row["contribution"] for row in listed]
        assert_allclose(contributions, found.by(kind).contributions)
        assert_allclose(sum(contributions) + rest["contribution"], found.prediction)
    assert (listed[0]["task"], rest["count"]) == (found.tasks.ids[0], 4)
    seen = run(four)
    said = " ".join(seen.out.split())
    assert f"The prediction for instance 'u3' and task 'i5' is {found.prediction:.4g}: " in said
    assert f"{found.share_of_mean:.4g} from the mean of all labels" in said
    assert "92 others" in said
    assert "note: The weights assume a fixed regularisation" in seen.err
    weighed = run(four, "--sort weight --json").json["pairs"]["listed"]
    expected = explain(loaded, "u3", "i5", n=4, sort="weight").pairs.weights
    assert_allclose([row["weight"] for row in weighed], expected)
    single = IndependentTaskRidge().fit(tables.X, tables.Y)
    save(single, "other.dyad")
    X, T = new["X"], new["T"]
    users, items = "--instances new_users.csv", "--tasks new_items.csv"
    for words, explained, asked, setting in (
        ("other.dyad --instance 1 --task 2", single, (1, 2), "A"),
        (f"model.dyad {users} --instance n1 --task i2", loaded, (X[1:2], "i2"), "B"),
        (f"model.dyad --instance u2 {items} --task m0", loaded, ("u2", T[:1]), "C"),
        (f"model.dyad {users} --instance n0 {items} --task m0", loaded, (X[:1], T[:1]), "D"),
    ):
        told = run(f"predict --explain {words} --json").json
        expected = pytest.approx(explain(explained, *asked).prediction)
        assert (told["prediction"], told["setting"]) == (expected, setting)
    assert (told["instance"], told["task"], told["label"]) == ("n0", "m0", None)


def test_labels_of_new_rows(model, new, run):
    few = np.full((3, 8), np.nan)
    few[[0, 0, 2], [1, 4, 5]] = 1.0, 0.0, 1.0
    grid = Path("few.csv")
    grid.write_text("user,i4,i1,i5\nn2,,,1\nn0,0,1,\n")
    Path("listed.csv").write_text("user,item,liked\nn0,i1,1\nn0,i4,0\nn2,i5,1\n")
    Path("asked.csv").write_text("user,item\nn2,i0\n")
    fitted = load(model)
    ask = "predict model.dyad --instances new_users.csv --json --labels"
    expected = fitted.predict(new["X"], labels=few)
    assert np.abs(expected - fitted.predict(new["X"]))[[0, 2]].max() > 0.01
    for labels in ("few.csv", "listed.csv", "listed.csv --columns user,item,liked"):
        assert_allclose(run(f"{ask} {labels}").json["predictions"], expected, rtol=1e-12)
    ran = run(f"{ask} few.csv --pairs asked.csv")
    assert_allclose(ran.json["predictions"]["prediction"], expected[2, 0], rtol=1e-12)
    grid.write_text("user,m1\nu3,1\nu7,0\n")
    few = np.full((12, 2), np.nan)
    few[[3, 7], 1] = 1.0, 0.0
    ran = run("predict model.dyad --tasks new_items.csv --labels few.csv --json")
    assert_allclose(ran.json["predictions"], fitted.predict(tasks=new["T"], labels=few), rtol=1e-12)


# --- scales and unknown ids ----------------------------------------------------------------------


def test_predictions_are_clipped_to_a_scale(model, new, run):
    expected = load(model).predict(new["X"])
    assert (expected < 0.5).any()
    assert (expected > 0.55).any()
    words = "predict model.dyad --instances new_users.csv --json --clip"
    found = run(f"{words} 0.5,0.55").json["predictions"]
    assert_allclose(found, np.clip(expected, 0.5, 0.55))
    Path("pairs.csv").write_text("user,item\nn0,i0\nn1,i1\n")
    found = run(f"{words} 0.3,0.6 --pairs pairs.csv").json["predictions"]
    assert_allclose(found["prediction"], np.clip(expected[[0, 1], [0, 1]], 0.3, 0.6))
    found = run(f"{words}=-1,2 --interval 0.6").json["predictions"]
    assert min(found["lower"]) >= -1
    assert max(found["upper"]) <= 2
    best = run("recommend model.dyad --for u3 --clip 0.2,0.4 --json").json["best"]
    scores = [row["score"] for row in best]
    assert scores == sorted(scores, reverse=True)
    assert {0.2, 0.4} >= {score for score in scores if not 0.2 < score < 0.4}


def test_pairs_with_unknown_ids_get_the_baseline(tables, model, new, run):
    Path("pairs.csv").write_text("user,item\nn1,i1\nwho,i3\nu2,i0\nwho,what\n")
    words = "predict model.dyad --instances new_users.csv --pairs pairs.csv --baseline --json"
    found = run(words).json
    # u2 is known to the model, but has no row in the file.
    means = [tables.Y[:, 3].mean(), tables.Y[2].mean(), tables.Y.mean()]
    predictions = found["predictions"]["prediction"]
    assert_allclose(predictions, [load(model).predict(new["X"])[1, 1], *means])
