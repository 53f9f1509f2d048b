"""PairRegressor on structures: ids are SMILES and sequences, which describe themselves."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
    load,
    predict_table,
    save,
)
from dyadlearn.exceptions import IdError, NoPredictionWarning
from dyadlearn.kernels import Structures
from dyadlearn.kernels.chemistry import fingerprints
from dyadlearn.kernels.sequences import kmer_counts, smith_waterman
from sweeps import every, lines, over

pytest.importorskip("rdkit", reason="rdkit is not installed: SMILES are not tested")

DRUGS = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1", "CC(=O)O", "CCN"]
PROTEINS = ["MKVLAAGGWW", "MKVLAAGGYY", "WWPWWKKLLA", "ACDEFGHIKL", "MKAAAAGGWW"]
NEW = ("CCCCCO", "MKVLAAGGAA")


def table(binary=False, kind=pd.DataFrame):
    rng = np.random.default_rng(0)
    places = [(i, j) for i in range(7) for j in range(5)]
    y = [float(i + 2 * j + rng.normal()) for i, j in places]
    if binary:
        y = [float(value > 7) for value in y]
    columns = {
        "target": [PROTEINS[j] for _, j in places],
        "noise": list(range(35)),
        "drug": [DRUGS[i] for i, _ in places],
        "y": y,
    }
    return kind(columns)


def fitted(model=None, kind=pd.DataFrame, binary=False, **more):
    model = KroneckerRidge(0.5) if model is None else model
    words = {"smiles": "drug", "sequence": "target", "label": "y"}
    options = {"sequence_kernel": "spectrum", **more}
    return PairRegressor.from_table(model, table(binary, kind), **words, **options)


def mixed(kind=pd.DataFrame):
    rows = [("OCC", PROTEINS[1]), (NEW[0], PROTEINS[1]), ("CCCO", NEW[1]), NEW]
    return kind({"target": [row[1] for row in rows], "drug": [row[0] for row in rows]})


@over(every(kernel=["spectrum", "smith-waterman"]))
def test_the_model_is_that_of_features(kernel):
    if kernel == "smith-waterman":
        pytest.importorskip("parasail", reason="no aligner")
    model = fitted(sequence_kernel=kernel)
    X, _ = fingerprints([*DRUGS, NEW[0]])
    Y = table().y.to_numpy().reshape(7, 5)
    proteins = [*PROTEINS, NEW[1]]
    if kernel == "spectrum":
        T, _ = kmer_counts(proteins)
        task_kernel = "cosine"
    else:
        T = smith_waterman(proteins)[0][:, :5]
        task_kernel = "precomputed"
    by_hand = KroneckerRidge(0.5, kernel="tanimoto", task_kernel=task_kernel)
    grid = by_hand.fit(X[:7], Y, T[:5]).predict(X, T)
    expected = [grid[0, 1], grid[7, 1], grid[1, 5], grid[7, 5]]
    assert_allclose(model.predict(mixed()), expected, rtol=1e-9)
    assert model.instance_ids_ == tuple(DRUGS)
    assert model.task_ids_ == tuple(PROTEINS)


@over(every(kind=[pd.DataFrame, pl.DataFrame]))
def test_a_table_has_settings_and_intervals(kind):
    model = fitted(kind=kind)
    result = predict_table(model, mixed(kind), coverage=0.6)
    assert isinstance(result, kind)
    names = ["target", "drug", "setting", "prediction", "lower", "upper", "training_label"]
    assert list(result.columns) == names
    assert list(result["setting"]) == list("ABCD")
    assert_allclose(list(result["prediction"]), model.predict(mixed(kind)))
    ends = model.predict_interval(mixed(kind), coverage=0.6)
    assert_allclose([list(result[name]) for name in ("lower", "upper")], ends)
    assert_allclose(result["training_label"][0], table().y[1])


@over(every(kind=[pd.DataFrame, pl.DataFrame]))
def test_rows_that_cannot_be_predicted_stay(kind):
    rows = pd.concat([mixed(), mixed()], ignore_index=True)
    rows.loc[[1, 4, 5], "drug"] = ["CC(", "", "C1"]
    with pytest.warns(NoPredictionWarning) as told:
        found = predict_table(fitted(), kind(rows.to_dict("list")), coverage=0.6)
    message = "3 of 8 rows lack a valid structure; the first is row 1. They have no prediction."
    assert [str(each.message) for each in told] == [message]
    expected = predict_table(fitted(), mixed(), coverage=0.6)
    for name in ("prediction", "lower", "upper"):
        values = np.array(found[name], dtype=float)
        assert_allclose(values[[0, 2, 3, 6, 7]], expected[name][[0, 2, 3, 2, 3]], rtol=1e-12)
        assert np.isnan(values[[1, 4, 5]]).all()
    is_invalid = [reason == "no valid instance" for reason in found["no_prediction"]]
    assert_array_equal(np.flatnonzero(is_invalid), [1, 4, 5])


def test_unknown_ids_have_no_prediction():
    x = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=list("abc"))
    pairs = [(i, t) for i in "ab" for t in (1, 2)]
    model = PairRegressor(IndependentTaskRidge(), instances=x).fit(pairs, [1.0, 3.0, 2.0, 5.0])
    asked = [("c", 1), ("d", 1), ("a", 7), (None, 2), ("a", 2)]
    words = (
        r"1 of 5 rows lacks a valid id; the first is row 3\. 1 of the instance ids .*: 'd' .*: 7 "
    )
    with pytest.warns(NoPredictionWarning, match=words):
        found = predict_table(model, asked, coverage=0.5)
    reasons = ["", "unknown instance", "unknown task", "no valid instance", ""]
    assert list(found.no_prediction.fillna("")) == reasons
    assert_allclose(found.prediction[[0, 4]], model.predict([asked[0], asked[4]]))


def test_a_table_of_two_labels_has_probabilities():
    result = predict_table(fitted(TwoStepRidge(0.1, 0.1), binary=True), mixed())
    assert "lower" not in result
    assert result.probability.between(0, 1).all()


def test_equal_structures_are_one_entity():
    rows = table()
    again = rows.iloc[:1].assign(drug="OCC", target="mkvlaaggww", y=rows.y[0] + 2.0)
    rows = pd.concat([rows, again, rows.iloc[:1].assign(drug=None)])
    words = {"smiles": "drug", "sequence": "target", "label": "y", "sequence_kernel": "spectrum"}
    model = PairRegressor.from_table(KroneckerRidge(0.5), rows, **words)
    assert model.instance_ids_ == tuple(DRUGS)
    assert (model.n_repeated_, model.n_contradicting_, model.n_dropped_) == (1, 1, 1)
    assert_allclose(model.fitted_.labels.dense().values[0, 0], table().y[0] + 1.0)


def test_files_and_pickles(tmp_path):
    model = fitted()
    save(model, tmp_path / "m.dyad")
    loaded = load(tmp_path / "m.dyad")
    assert_array_equal(loaded.predict(mixed()), model.predict(mixed()))
    assert loaded.instances == Structures("smiles", options={"kind": "morgan"})


def test_a_model_of_structures_is_that_of_their_features():
    """Also of ids of training only, in the folds of scikit-learn."""
    pairs = table()[["drug", "target"]]
    y = table().y
    model = PairRegressor(
        TwoStepRidge(0.1, 0.1, kernel="tanimoto", task_kernel="cosine"),
        instances=Structures("smiles"),
        tasks=Structures("sequences", "spectrum"),
    )
    [(train, test), *_] = SettingKFold("B", 3, random_state=0).split(pairs)
    found = clone(model).fit(pairs.iloc[train], y.iloc[train]).predict(pairs.iloc[test])
    X, _ = fingerprints(DRUGS)
    T, _ = kmer_counts(PROTEINS)
    model.set_params(
        instances=pd.DataFrame(X.toarray(), DRUGS), tasks=pd.DataFrame(T.toarray(), PROTEINS)
    )
    expected = model.fit(pairs.iloc[train], y.iloc[train]).predict(pairs.iloc[test])
    assert_allclose(found, expected, rtol=1e-9)


def test_unknown_structures_are_not_unknown():
    model = fitted().set_params(unknown="baseline")
    assert_allclose(model.predict(mixed()), fitted().predict(mixed()))
    assert np.isfinite(model.predict(mixed().assign(drug=None))).all()


@over(
    lines(
        "words message",
        ({"smiles": "drug"}, "Name two columns of structures by smiles= and sequence=.*found 1"),
        ({"smiles": "molecule", "sequence": "target"}, "lacks the columns 'molecule'"),
        ({"smiles": "drug", "sequence": "target", "fingerprint": "ecfp"}, "kind must be one of"),
        ({"smiles": "drug", "sequence": "target", "sequence_kernel": "blast"}, "kernel must be"),
    )
)
def test_wrong_words(words, message):
    with pytest.raises(ValueError, match=message):
        PairRegressor.from_table(KroneckerRidge(), table(), label="y", **words)


def test_wrong_structures():
    with pytest.raises(ValueError, match="kind must be one of 'smiles', 'sequences'"):
        Structures("names")
    rows = table()
    rows.loc[15, "drug"] = "CC("
    message = r"^Not valid: 1 of \d molecules: 'row 15' \('CC\('\)\. Correct or remove them\.$"
    with pytest.raises(ValueError, match=message):
        PairRegressor.from_table(
            KroneckerRidge(), rows, label="y", smiles="drug", sequence="target"
        )
    with pytest.raises(ValueError, match="lacks the columns 'drug'"):
        fitted().predict(mixed().rename(columns={"drug": "d"}))
    with pytest.raises(
        IdError, match=r"^pairs: no row can be predicted\. 1 of 1 rows lacks a valid"
    ):
        predict_table(fitted(), mixed().assign(drug="CC(")[:1])
    with pytest.raises(TypeError, match="predict_table takes a PairRegressor"):
        predict_table(KroneckerRidge(), mixed())
