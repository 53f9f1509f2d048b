"""Commands with labels of cells of three and more sides: each answer is that of the library."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from cli.conftest import read_csv, refusals
from dyadlearn import MultiwayRidge, compare, evaluate, explain, load, permutation_test, save
from dyadlearn.cli.cells import cell_settings
from sweeps import over

TERMS = "mother + father + mother:father"


class Trial:
    """A table of a trial with markers of both parents, in files, and the same in memory."""

    def __init__(self, folder):
        rng = default_rng(0)
        self.markers = pd.DataFrame(rng.normal(size=(9, 5)), [f"m{i}" for i in range(9)])
        kernel = np.cov(rng.normal(size=(7, 30)))
        self.kernel = pd.DataFrame(kernel, list("abcdefg"), list("abcdefg"))
        # The last level of each side has no label.
        self.table = pd.DataFrame(
            {
                "trial": rng.choice(["t1", "t2", "t3"], 80),
                "mother": rng.choice(self.markers.index[:-1], 80),
                "father": rng.choice(self.kernel.index[:-1], 80),
                "height": rng.normal(size=80).round(3),
                "plots": rng.integers(1, 4, 80),
            }
        )
        value = self.table["mother"].map(self.markers.sum(axis=1))
        self.table["yield"] = (value + self.table["height"] + rng.normal(size=80)).round(4)
        self.table.loc[4, "yield"] = np.nan
        self.path = folder / "trial.csv"
        self.table.to_csv(self.path, index=False)
        self.markers.to_csv(folder / "markers.csv", index_label="id")
        self.kernel.to_csv(folder / "kernel.csv", index_label="id")
        self.folder = folder

    @property
    def words(self):
        sides = [
            *("--entities", f"mother={self.folder / 'markers.csv'}"),
            *("--entities", f"father={self.folder / 'kernel.csv'}"),
        ]
        return ["--terms", TERMS, *sides, "--label", "yield", "--kernel", "mother=rbf:gamma=0.1"]

    def fitted(self, **options):
        model = MultiwayRidge(
            TERMS,
            entities={"mother": self.markers, "father": self.kernel},
            kernels={"mother": "rbf", "father": "precomputed"},
            kernel_params={"mother": {"gamma": 0.1}},
            fixed=("trial", "height"),
            **options,
        )
        return model.fit(self.table, self.table["yield"], sample_weight=self.table["plots"])


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return Trial(tmp_path_factory.mktemp("trial"))


@pytest.fixture(scope="module")
def by_hand(trial):
    return trial.fitted()


@pytest.fixture
def fitted_file(trial, run):
    path = trial.folder / "m.dyad"
    if not path.exists():
        more = ("--fixed", "trial,height", "--weights", "plots", "-o", path)
        ran = run("tune", trial.path, *trial.words, *more, "--json")
        assert ran.code == 0, ran.err
        (trial.folder / "tuned.json").write_text(ran.out)
        (trial.folder / "tuned.err").write_text(ran.err)
    return path


def test_tune_fits_the_model_of_the_library(trial, by_hand, fitted_file):
    found = load(fitted_file)
    assert_allclose(list(found.variances_.values()), list(by_hand.variances_.values()), rtol=1e-5)
    assert list(found.fixed_effects_) == list(by_hand.fixed_effects_)
    said = (trial.folder / "tuned.err").read_text()
    assert "1 of 80 rows have no label and were left out." in said
    assert "The fixed column height holds numbers and has one slope" in said
    figures = json.loads((trial.folder / "tuned.json").read_text())
    assert figures["sides"] == {"mother": 8, "father": 6}
    assert figures["labels"] == 79
    assert_allclose(figures["log_likelihood"], by_hand.log_likelihood_, rtol=1e-6)
    assert [row["term"] for row in figures["variances"]] == list(by_hand.variances_)
    assert_allclose(figures["variances"][0]["share"], by_hand.heritability("mother"), rtol=1e-4)
    settings = [row["setting"] for row in figures["settings"]]
    assert settings == ["cell", "mother", "father", "mother + father"]


def test_tune_prints_variances_and_scores(trial, run, tmp_path):
    ran = run("tune", trial.path, *trial.words, "-o", tmp_path / "m.dyad", "--scoring", "r2")
    assert ran.code == 0
    for words in ("79 of 8 mother and 6 father", "standard error", "mother + father"):
        assert words in ran.out
    assert "restricted likelihood" in ran.out
    assert "r2" in run("evaluate", tmp_path / "m.dyad").out


def test_a_setting_chooses_the_held_out_error(trial, run, tmp_path):
    path = tmp_path / "m.dyad"
    words = "--model multiway --terms 'mother + father' --setting mother+father --no-intercept"
    ran = run("tune", trial.path, *trial.words, f"{words} --json -o", path)
    found = load(path)
    assert (found.variances, found.new) == ("holdout", ("mother", "father"))
    assert not found.fit_intercept
    assert [row["setting"] for row in ran.json["settings"]] == ["mother + father"]


def test_evaluate_scores_settings(fitted_file, run):
    words = ("--setting", "cell,mother+father", "--scoring", "r2", "--json")
    ran = run("evaluate", fitted_file, *words)
    scores = evaluate(load(fitted_file), new=[(), ("mother", "father")], scoring="r2")
    assert [row["scores"]["r2"] for row in ran.json["settings"]] == scores["r2"]
    assert ran.json["settings"][1]["baselines"]["r2"] == scores.results[1].baselines
    assert "exact leave-one-out" in run("evaluate", fitted_file).out


def test_evaluate_compares_and_tests(trial, fitted_file, run, tmp_path):
    other = tmp_path / "other.dyad"
    save(trial.fitted(variances=dict.fromkeys(TERMS.split(" + "), 1.0)), other)
    words = ("--setting", "mother", "--json")
    ran = run("evaluate", fitted_file, "--against", other, "--resamples", "20", *words)
    models = {"m": load(fitted_file), "other": load(other)}
    wanted = compare(models, new="mother", n_resamples=20)
    assert ran.json["settings"][0]["verdict"] == wanted.verdict
    ran = run("evaluate", other, "--permutations", "9", *words)
    wanted = permutation_test(models["other"], new="mother", n_permutations=9)
    assert ran.json["settings"][0]["p_value"] == wanted.p_value


def test_predict_mixes_known_and_new_levels(trial, fitted_file, run, tmp_path):
    wanted = trial.table[["trial", "mother", "father", "height"]].iloc[:4].copy()
    wanted.loc[[1, 2], "mother"] = "m8"
    wanted.loc[2, "father"] = "g"
    wanted["note"] = ["a,b", "", "c", "d"]
    path = tmp_path / "wanted.csv"
    wanted.to_csv(path, index=False)
    out = tmp_path / "out.csv"
    words = ("predict", fitted_file, "--table", path)
    ran = run(*words, "--interval 0.8 -o", out)
    assert ran.code == 0, ran.err
    found = pd.read_csv(out, keep_default_na=False)
    assert list(found)[5:] == ["setting", "prediction", "std", "lower", "upper"]
    assert list(found["note"]) == list(wanted["note"])
    assert list(found["setting"]) == ["cell", "mother", "mother + father", "cell"]
    model = load(fitted_file)
    means = model.predict(wanted, return_std=True)
    assert_allclose(found[["prediction", "std"]].T, means, rtol=1e-10)
    for rows, new in (([0, 3], ()), ([1], "mother"), ([2], ("mother", "father"))):
        bounds = model.predict_interval(wanted.iloc[rows], coverage=0.8, new=new)
        assert_allclose(found[["lower", "upper"]].iloc[rows].T, bounds, rtol=1e-10)
    assert run(*words).out.startswith("trial,mother,father,height,note,setting,")
    settings = run(*words, "--json").json["settings"]
    assert settings == {"cell": 2, "mother": 1, "mother + father": 1}


def test_rows_that_cannot_be_predicted_stay_without_a_prediction(trial, fitted_file, run, tmp_path):
    wanted = trial.table[["trial", "mother", "father", "height"]].iloc[:6].copy()
    wanted.loc[1, "mother"] = "nobody"
    wanted.loc[2, "trial"] = "t9"
    wanted.loc[4, "father"] = None
    path = tmp_path / "wanted.csv"
    wanted.to_csv(path, index=False)
    words = ("predict", fitted_file, "--table", path)
    ran = run(*words, "-o", tmp_path / "out.csv")
    assert ran.code == 0, ran.err
    said = " ".join(ran.err.split())
    assert f"1 of 6 rows of {path} have an unknown level of 'mother': they have no" in said
    assert "a category of 'trial' without a label" in said
    found = pd.read_csv(tmp_path / "out.csv")
    kept = [0, 3, 5]
    assert list(np.flatnonzero(found["prediction"].notna())) == kept
    expected = load(fitted_file).predict(wanted.iloc[kept])
    assert_allclose(found["prediction"].iloc[kept], expected, rtol=1e-10)
    reasons = ["", "unknown mother", "unlabelled trial", "", "no father", ""]
    assert list(found["no_prediction"].fillna("")) == reasons
    printed = run(*words, "--json").json
    assert printed["no_prediction"] == dict.fromkeys(filter(None, reasons), 1)
    assert printed["settings"] == {"cell": 3}
    wanted.iloc[[1, 2]].to_csv(path, index=False)
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "none of 2 rows can be predicted: unknown mother (1) and unlabelled trial (1)" in ran.err


def test_predict_explains_a_cell(fitted_file, run, tmp_path):
    cell = ("--explain", "--cell", "mother=m8,father=a,trial=t2,height=0.5")
    ran = run("predict", fitted_file, *cell, "-n", "3", "--json")
    asked = {"mother": "m8", "father": "a", "trial": "t2", "height": 0.5}
    wanted = explain(load(fitted_file), asked, n=3)
    assert ran.json["setting"] == "mother"
    assert ran.json["terms"] == wanted.terms
    by_label = ran.json["by"]["label"]["listed"]
    assert [row["contribution"] for row in by_label] == wanted.columns("label")["contribution"]
    assert ran.json["by"]["father"]["rest"]["count"] == wanted.by("father").n_rest
    assert ran.json["label"] is None
    out = tmp_path / "out.csv"
    assert run("predict", fitted_file, *cell, "--by", "term", "-o", out).code == 0
    assert [row[0] for row in read_csv(out)] == ["term", *wanted.terms]
    ran = run("predict", fitted_file, *cell, "--sort", "weight")
    assert "new mother 'm8', father 'a'" in ran.out


def test_inspect_and_report(fitted_file, run, tmp_path):
    ran = run("inspect", fitted_file)
    assert "mother=markers.csv father=kernel.csv" in ran.out
    assert "standard error" in ran.out
    assert run("inspect", fitted_file, "--json").json["terms"] == TERMS.split(" + ")
    page = tmp_path / "report.html"
    names = tmp_path / "names.csv"
    names.write_text("id,name\nm1,Ada\n")
    words = ("--setting", "mother", "--scoring", "r2", "--title", "Trial", "--names", names)
    assert run("report", fitted_file, "-o", page, *words).code == 0
    text = page.read_text()
    assert "<h1>Trial</h1>" in text
    assert "m1 (Ada)" in text
    assert "new mother" in text
    assert "new father" not in text


def test_a_model_that_was_saved_in_python(run, tmp_path):
    table = {"line": [1, 2, 3, 1, 2, 3], "site": [True, True, True, True, True, False]}
    model = MultiwayRidge("line", fixed="site", variances={"line": 1.0}).fit(table, np.arange(6.0))
    path = tmp_path / "m.dyad"
    save(model, path)
    wanted = tmp_path / "wanted.csv"
    wanted.write_text("line,site\n2,True\n7,False\n")
    ran = run("predict", path, "--table", wanted, "--json")
    found = pd.DataFrame(ran.json["predictions"])
    assert_allclose(found["prediction"], model.predict({"line": [2, 7], "site": [True, False]}))
    assert list(found["setting"]) == ["cell", "line"]
    # One row alone has its site.
    assert found["lower"][0] is None
    assert "No interval for new cell. The effect of site=False is not estimable" in ran.err


def test_symmetric_sides(run, tmp_path):
    rng = default_rng(0)
    table = pd.DataFrame(rng.choice(list("abcdef"), (40, 2)), columns=["first", "second"])
    path = tmp_path / "diallel.csv"
    table.assign(y=rng.normal(size=40)).to_csv(path, index=False)
    words = ("--terms", "first + first:second", "--symmetric", "first,second", "--label", "y")
    ran = run("tune", path, *words, "-o", tmp_path / "m.dyad")
    assert ran.code == 0, ran.err
    found = load(tmp_path / "m.dyad").predict({"first": ["a", "b"], "second": ["b", "a"]})
    assert_allclose(found[0], found[1])


def test_settings_of_cells():
    assert cell_settings(None) is None
    assert cell_settings(" cell ,a + b") == [(), ("a", "b")]


TUNE = """
--terms a --label y --instances x.csv  | --instances is for pairs
--terms a --label y --sides a,b        | --sides is for pairs
--terms a --label y --alphas 1         | --alphas is for pairs
--terms a --model kronecker --label y  | belong together
--model multiway --label y             | belong together
--terms mother                         | Name the column of the labels by --label
--fixed trial --instances x.csv        | --fixed goes with --terms
--terms mother --label harvest         | no column 'harvest'
--terms mother --label trial           | is not a number
--terms uncle --label yield            | no column 'uncle'
--terms mother+ --label yield          | terms must be names of sides
--terms mother --label yield --entities markers.csv   | --entities names a side and its file
--terms mother --label yield --fixed soil             | no column 'soil'
--terms mother --label yield --setting cell,mother    | must name one setting
--terms mother --label yield --setting uncle          | is no side of the model
--terms mother --label yield --weights soil           | no column 'soil'
--terms mother --label yield --symmetric mother       | two sides
"""


@over(refusals(TUNE))
def test_tune_refuses(trial, run, tmp_path, command, sentence):
    ran = run("tune", trial.path, command, "-o", tmp_path / "m.dyad", "-q")
    assert ran.code == 2, ran
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "m.dyad").exists()


OTHERS = """
screen                                                | only evaluate, predict, inspect and report
recommend --pairs                                     | only evaluate, predict, inspect and report
evaluate --verify                                     | --verify is for pairs
evaluate --setting uncle                              | is no side of the model
evaluate --sides a,b                                  | --sides is for pairs
report --no-nested                                    | --no-nested is for pairs
predict                                               | Give the cells by --table
predict --pairs x.csv                                 | --pairs is for pairs
predict --explain --instance a                        | --instance is for pairs
predict --explain --cell mother=m1                    | --cell takes each side and fixed column
predict --explain --cell mother=m1,father=a,trial=t1,height=x   | holds numbers, found 'x'
predict --explain --cell mother=m1,father=a,trial=t9,height=1   | is not estimable
predict --explain --cell mother=x1,father=a,trial=t1,height=1   | not in the table
predict --explain --cell mother=m1,father=a,trial=t1,height=1 --by pair -o x.csv | --by must be one
"""


@over(refusals(OTHERS))
def test_other_commands_refuse(fitted_file, run, tmp_path, monkeypatch, command, sentence):
    monkeypatch.chdir(tmp_path)
    command, _, rest = command.partition(" ")
    ran = run(f"{command} {fitted_file} {rest}")
    assert ran.code == 2, ran
    assert sentence in ran.err
    assert len([line for line in ran.err.splitlines() if "note:" not in line]) == 1


def test_only_models_of_one_kind_are_compared(fitted_file, model, run):
    for first, second, setting in ((fitted_file, model, "cell"), (model, fitted_file, "B")):
        ran = run("evaluate", first, "--against", second, "--setting", setting)
        assert ran.code == 2
        assert "different kinds of labels" in ran.err
