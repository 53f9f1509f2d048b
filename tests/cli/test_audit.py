"""``dyadlearn audit``: splits in tables, with descriptions, times and predictions; and hold-outs of a model."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from cli.conftest import read_csv, write_rows
from dyadlearn import TwoStepRidgeCV, audit, save
from dyadlearn.selection.nearness import BANDS, bands_of

TRAIN = [("ann", "tea", 1.0), ("ann", "cake", 2.0), ("bob", "tea", 3.0)]
TEST = [("bob", "cake", 1.5), ("eve", "tea", 2.5), ("ann", "tea", 1.0)]


def write(path, rows, headings=("user", "item", "stars")):
    return write_rows(path, [headings, *rows])


@pytest.fixture
def split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "train.csv", TRAIN)
    write(tmp_path / "test.csv", TEST)


def test_the_result_is_that_of_the_function(split, run):
    expected = audit([row[:2] for row in TRAIN], [row[:2] for row in TEST], "A")
    words = "audit train.csv test.csv --setting A"
    printed = run(words)
    assert printed.code == 0
    assert "Training: train. Test: test." in printed.out
    for line in str(expected).splitlines()[1:]:
        assert line in printed.out
    (figures,) = run(words, "--json").json["audits"]
    assert figures["message"] == expected.message
    assert figures["counts"] == expected.counts
    assert (figures["leaks"], figures["harder"], figures["repeated"]) == (1, 1, 1)
    ran = run(words, "-o out.csv")
    assert expected.message in ran.out.replace("\n", " ").replace("  ", " ")
    rows = read_csv(Path("out.csv"))
    assert rows[0] == ["train", "test", "instance", "task", "setting", "in_training", "leak"]
    settings = [row[2:5] for row in rows[1:]]
    assert settings == [["bob", "cake", "A"], ["eve", "tea", "B"], ["ann", "tea", "A"]]
    assert [row[6] for row in rows[1:]] == ["False", "False", "True"]


def test_parts_of_one_table_in_the_order_of_use(run, tmp_path):
    rows = [
        (*row[:2], part)
        for part, table in (("test", TEST), ("valid", TEST[:1]), ("train", TRAIN))
        for row in table
    ]
    path = write(tmp_path / "table.csv", rows, ["user", "item", "part"])
    audits = run("audit", path, "--split", "part", "--json").json["audits"]
    names = [(each["train"], each["test"]) for each in audits]
    assert names == [("train", "valid"), ("train", "test"), ("valid", "test")]
    assert [each["n_test"] for each in audits] == [1, 3, 3]
    assert run("audit", path, "--split", "part", "--columns", "item,user").code == 0


def described(tmp_path):
    X = (default_rng(0).random((12, 9)) < 0.5).astype(int)
    X[:, 0] = 1
    X[11] = X[2]
    ids = [f"d{place}" for place in range(12)]
    features = write(
        tmp_path / "drugs.csv",
        [[name, *row] for name, row in zip(ids, X.tolist(), strict=True)],
        ["id", *"abcdefghi"],
    )
    train = [(f"d{i}", f"t{j}", float(i + j)) for i in range(6) for j in range(3)]
    test = [(f"d{i}", f"t{j}", float(i + j), float(i)) for i in range(4, 12) for j in range(3)]
    one = write(tmp_path / "train.csv", train, ["drug", "target", "y"])
    other = write(tmp_path / "test.csv", test, ["drug", "target", "y", "guess"])
    return X, features, one, other


def test_similarity_and_scores_by_band(run, tmp_path):
    X, features, train, test = described(tmp_path)
    words = ("--instances", features, "--kernel", "tanimoto", "--sides", "drug,target")
    more = ("--label", "y", "--prediction", "guess", "--setting", "B")
    (figures,) = run("audit", train, test, *words, *more, "--json").json["audits"]
    expected = audit(
        [(i, j) for i in range(6) for j in range(3)],
        [(i, j) for i in range(4, 12) for j in range(3)],
        instances=X,
        kernel="tanimoto",
    )
    bands = expected.bands(
        [i + j for i in range(4, 12) for j in range(3)], [i for i in range(4, 12) for j in range(3)]
    )
    for row, line in enumerate(figures["similarity"]):
        assert line["similarity"] == bands["similarity"][row]
        assert line["pairs"] == bands["pairs"][row]
        assert_allclose(line["neg_mean_squared_error"], bands["neg_mean_squared_error"][row])
    assert figures["copies"] == {"instances": {"d11": "d2"}}
    out = run("audit", train, test, *words, *more).out
    assert "1 new drug is a copy of one in training: 'd11 is d2'." in out
    assert "new drugs have a similarity of 0.6 or more" in out
    run("audit", train, test, *words, "-o", tmp_path / "out.csv")
    rows = read_csv(tmp_path / "out.csv")
    assert rows[0][-2:] == ["drug_similarity", "nearest_drug"]
    assert rows[-1][-2:] == ["1.0", "d2"]


def test_all_tables_are_named_where_an_entity_is_not_described(split, run):
    write(Path("users.csv"), [("a", 1.0)], ("user", "x"))
    ran = run("audit train.csv test.csv --instances users.csv")
    assert ran.code == 2
    assert "instances of train.csv and test.csv: " in ran.err


def test_structures(run, tmp_path):
    pytest.importorskip("rdkit", reason="rdkit is not installed: SMILES are not tested")
    train = write(
        tmp_path / "train.csv", [("CCO", "MKVLA"), ("CCCO", "MKVLL")], ["drug_smiles", "seq"]
    )
    test = write(
        tmp_path / "test.csv", [("OCC", "MKVLA"), ("CCCCO", "mkvla")], ["drug_smiles", "seq"]
    )
    words = ("--smiles", "drug_smiles", "--sequence", "seq", "--task-kernel", "spectrum:k=2")
    (figures,) = run("audit", train, test, *words, "--json").json["audits"]
    assert figures["counts"] == {"A": 1, "B": 1, "C": 0, "D": 0}
    assert figures["repeated"] == 1
    assert {line["side"] for line in figures["similarity"]} == {"instance", "task"}
    assert "1 B" in run("audit", train, test, *words).out


def test_times(run, tmp_path):
    train = write(
        tmp_path / "train.csv",
        [("a", "t", "2019-01-01"), ("b", "t", "2020-06-01")],
        ["i", "j", "day"],
    )
    test = write(
        tmp_path / "test.csv",
        [("a", "u", "2020-01-01"), ("b", "u", "2021-01-01")],
        ["i", "j", "day"],
    )
    ran = run("audit", train, test, "--time", "day")
    assert "1 older than the newest training pair (2020-06-01)" in ran.out
    assert run("audit", train, test, "--time", "day", "--json").json["audits"][0]["older"] == 1


def test_hold_outs_of_a_model(run, tmp_path):
    rng = default_rng(0)
    X, T = rng.normal(size=(12, 3)), rng.normal(size=(7, 2))
    Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(12, 7))
    model = TwoStepRidgeCV(np.logspace(-3, 6, 5), setting="D").fit(X, Y, T)
    save(model, tmp_path / "m.dyad")
    (only,) = run("audit", tmp_path / "m.dyad", "--json").json["settings"]
    assert only["setting"] == "D"
    F = model.holdout("D")
    C = X @ X.T / np.sqrt(np.outer((X**2).sum(axis=1), (X**2).sum(axis=1)))
    np.fill_diagonal(C, -np.inf)
    band_of = np.array(BANDS)[bands_of(C.max(axis=1))]
    for line in only["similarity"]:
        if line["side"] == "instance":
            here = band_of == line["similarity"]
            assert line["entities"] == here.sum()
            assert_allclose(line["neg_mean_squared_error"], -np.mean((Y - F)[here] ** 2))
    ran = run("audit", tmp_path / "m.dyad", "--setting", "ABC", "--scoring", "pearson")
    assert "No entity is held out, only pairs." in ran.out
    assert "tasks" in ran.out


def test_a_first_line_that_is_a_pair_is_no_line_of_headings(split, run):
    headings = TRAIN[0]
    write(Path("train.csv"), TRAIN[1:], headings)
    write(Path("test.csv"), TEST[1:], TEST[0])
    for columns in ((), ("--columns", "1,2")):
        (figures,) = run("audit train.csv test.csv", *columns, "--json").json["audits"]
        assert (figures["n_train"], figures["n_test"]) == (3, 3)
    write(Path("train.csv"), [row[:2] for row in TRAIN[1:]], headings[:2])
    write(Path("test.csv"), [row[:2] for row in TEST], ("user", "item"))
    ran = run("audit train.csv test.csv")
    assert ran.code == 2
    assert "train.csv, first line: 'ann', 'tea' look like a pair. Add a line of head" in ran.err
    assert "test.csv has no column 'ann'" in run("audit train.csv test.csv --columns ann,tea").err
