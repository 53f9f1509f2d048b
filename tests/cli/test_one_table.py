"""One table of structures: tune reads it, and predict takes a mixed table of known and new structures."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cli.conftest import read_csv
from dyadlearn import KroneckerRidge, load
from dyadlearn.cli.one_table import names_of_columns, sequence_id
from dyadlearn.kernels.chemistry import canonical_smiles, fingerprints
from dyadlearn.kernels.sequences import kmer_counts
from sweeps import lines, over

pytest.importorskip("rdkit", reason="rdkit is not installed: tables of SMILES are not tested")

DRUGS = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1", "CC(=O)O", "CCN", "CCCN", "CCCCN"]
NEW_DRUGS = ["CCCCCO", "CCc1ccccc1"]
ALPHABET = list("ACDEFGHIKLMNPQRSTVWY")
_RNG = np.random.default_rng(0)
PROTEINS = ["".join(_RNG.choice(ALPHABET, 40)) for _ in range(6)]
# Relatives of two proteins, which are new.
NEW_PROTEINS = [PROTEINS[0][:30] + "W" * 10, "A" * 10 + PROTEINS[3][10:]]
HEADINGS = ["drug_smiles", "target_seq", "y"]


def label(drug, protein):
    rng = np.random.default_rng([DRUGS.index(drug), PROTEINS.index(protein)])
    return round(DRUGS.index(drug) + 3 * PROTEINS.index(protein) + rng.normal(), 3)


def write(path, rows, headings=HEADINGS):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([headings, *rows])
    return path


def rows(binary=False):
    pairs = [(drug, protein, label(drug, protein)) for drug in DRUGS for protein in PROTEINS]
    if binary:
        return [(drug, protein, int(y > 11)) for drug, protein, y in pairs]
    return pairs


@pytest.fixture
def tuned(tmp_path, run):
    """Return a function that tunes a table, and returns the path of the model and what was printed."""

    def tune(table, *more, headings=HEADINGS):
        path = write(tmp_path / "table.csv", table, headings)
        model = tmp_path / "m.dyad"
        words = ("--smiles", "drug_smiles", "--sequence", "target_seq", "--label", "y")
        ran = run("tune", path, *words, "--task-kernel", "spectrum:k=2", "-o", model, "-f", *more)
        assert ran.code == 0, ran.err
        return model, ran

    return tune


def test_the_model_is_that_of_its_features(tuned):
    table = rows()
    # Another spelling of a molecule, and blanks and small letters in a sequence.
    table[0] = ("OCC", PROTEINS[0][:20].lower() + " " + PROTEINS[0][20:], table[0][2])
    model, ran = tuned(table, "--model", "kronecker", "--alphas", "0.5", "--setting", "D")
    assert "54 rows of " in ran.err
    assert "9 different drugs and 6 different targets; equal structures are one." in ran.err
    assert "9 drugs × 6 targets, 100 % observed" in ran.out
    loaded = load(model)
    texts, _ = canonical_smiles(DRUGS)
    X, _ = fingerprints(DRUGS)
    T, _ = kmer_counts(PROTEINS, k=2)
    Y = np.array([y for _, _, y in table]).reshape(9, 6)
    by_hand = KroneckerRidge(0.5, kernel="tanimoto", task_kernel="cosine").fit(X, Y, tasks=T)
    assert loaded.fitted_.instance_ids.labels == tuple(texts)
    assert loaded.fitted_.task_ids.labels == tuple(map(sequence_id, PROTEINS))
    new, _ = fingerprints(NEW_DRUGS)
    assert_allclose(loaded.predict(new), by_hand.predict(new), rtol=1e-10)


def mixed():
    return [
        (DRUGS[1], PROTEINS[2]),
        (NEW_DRUGS[0], PROTEINS[2]),
        (DRUGS[4], NEW_PROTEINS[1]),
        (NEW_DRUGS[1], NEW_PROTEINS[0]),
        ("OCCC", PROTEINS[5]),
        (NEW_DRUGS[1], PROTEINS[0]),
    ]


def predicted(tmp_path, run, model, table, *more, headings=("drug_smiles", "target_seq")):
    path = write(tmp_path / "wanted.csv", table, headings)
    ran = run("predict", model, "--table", path, "-o", tmp_path / "out.csv", "-f", *more)
    assert ran.code == 0, ran.err
    cells = read_csv(tmp_path / "out.csv")
    return [dict(zip(cells[0], line, strict=True)) for line in cells[1:]], ran


def test_a_mixed_table_has_the_predictions_of_each_setting(tmp_path, run, tuned):
    model, _ = tuned(rows(), "--model", "kronecker", "--alphas", "0.5")
    out, ran = predicted(tmp_path, run, model, mixed(), "--interval", "0.6")
    assert [line["setting"] for line in out] == list("ABCDAB")
    loaded = load(model)
    X, _ = fingerprints([drug for drug, _ in mixed()])
    T, _ = kmer_counts([protein for _, protein in mixed()], k=2)
    grids = {"A": (None, None), "B": (X, None), "C": (None, T), "D": (X, T)}
    known = {name: place for place, name in enumerate(loaded.fitted_.instance_ids.labels)}
    for row, line in enumerate(out):
        letter = line["setting"]
        at = row
        if letter in "AC":
            at = known[canonical_smiles([mixed()[row][0]])[0][0]]
        task = PROTEINS.index(mixed()[row][1]) if letter in "AB" else row
        expected = loaded.predict(*grids[letter])[at, task]
        lower, upper = loaded.predict_interval(*grids[letter], coverage=0.6)
        assert_allclose(float(line["prediction"]), expected, rtol=1e-9)
        assert_allclose(float(line["lower"]), lower[at, task], rtol=1e-9)
        assert_allclose(float(line["upper"]), upper[at, task], rtol=1e-9)
        if letter == "A":
            assert_allclose(float(line["training_label"]), label(DRUGS[at], mixed()[row][1]))
        else:
            assert line["training_label"] == ""
    words = "6 rows: 2 in setting A (both known), 2 in setting B (new drug), 1 in setting C"
    assert words in ran.err
    assert "2 rows are pairs of training" in ran.err


def test_small_blocks_give_the_same(tmp_path, run, tuned, monkeypatch):
    model, _ = tuned(rows())
    whole, _ = predicted(tmp_path, run, model, mixed())
    monkeypatch.setattr("dyadlearn.diagnostics.mixed._BLOCK", 1)
    blocks, _ = predicted(tmp_path, run, model, mixed())
    for one, other in zip(whole, blocks, strict=True):
        assert one["setting"] == other["setting"]
        for name in ("prediction", "lower", "upper"):
            assert_allclose(float(one[name]), float(other[name]), rtol=1e-9)


def test_labels_of_two_values_have_probabilities(tmp_path, run, tuned):
    model, _ = tuned(rows(binary=True), "--model", "two-step")
    out, _ = predicted(tmp_path, run, model, mixed())
    assert list(out[0]) == [
        "drug_smiles",
        "target_seq",
        "setting",
        "prediction",
        "probability",
        "training_label",
    ]
    assert all(0 < float(line["probability"]) < 1 for line in out)
    # The same as those of predict --probability.
    table = write(tmp_path / "new.csv", [("n", NEW_DRUGS[0])], ["id", "drug_smiles"])
    ran = run("predict", model, "--instances", table, "--probability", "--json")
    assert_allclose(float(out[1]["probability"]), ran.json["probabilities"][0][2], rtol=1e-6)


def test_invalid_rows_are_kept_without_a_prediction(tmp_path, run, tuned):
    model, _ = tuned(rows())
    table = [*mixed(), ("CC(", PROTEINS[0]), (DRUGS[0], "")]
    table = [(*pair, place) for place, pair in enumerate(table)]
    headings = ["drug_smiles", "target_seq", "setting"]
    out, ran = predicted(tmp_path, run, model, table, headings=headings)
    assert [line["setting"] for line in out] == list("01234567")
    assert [line["setting_"] for line in out] == [*"ABCDAB", "", ""]
    assert out[-1]["prediction"] == out[-2]["prediction"] == ""
    reasons = [line["no_prediction"] for line in out]
    assert reasons == [""] * 6 + ["no valid drug", "no valid target"]
    assert "'line 8' ('CC(')" in ran.err
    assert ": 2 of 8 rows lack a valid structure. They have no prediction." in ran.err


def test_json_and_standard_output(tmp_path, run, tuned):
    model, _ = tuned(rows())
    path = write(tmp_path / "wanted.csv", mixed(), HEADINGS[:2])
    printed = run("predict", model, "--table", path, "--interval", "0.5", "--json").json
    assert printed["settings"] == {"A": 2, "B": 2, "C": 1, "D": 1}
    assert printed["coverage"] == 0.5
    assert len(printed["predictions"]) == 6
    plain = run("predict", model, "--table", path, "--interval", "0.5").out.splitlines()
    assert plain[0].startswith("drug_smiles,target_seq,setting,prediction,lower,upper")
    assert len(plain) == 7


def test_many_sequences_are_not_aligned(tmp_path, run, monkeypatch):
    monkeypatch.setattr("dyadlearn.kernels.sequences._MOST_ALIGNED", 1e3)
    path = write(tmp_path / "table.csv", rows())
    words = ("--smiles", "drug_smiles", "--sequence", "target_seq", "--label", "y")
    ran = run("tune", path, *words, "-o", tmp_path / "m.dyad")
    assert ran.code == 0, ran.err
    assert "6 sequences are compared by their words of 3 letters, the kernel spectrum" in ran.err
    assert "would take about a second on one core. To align them, add --kernel or" in ran.err
    assert "sequences, spectrum kernel" in ran.out


@over(
    lines(
        "kind kernel",
        ("atom_pairs:n_bits=512", "tanimoto"),
        ("morgan:counts=true", "minmax"),
        ("descriptors", "rbf"),
        ("maccs", "tanimoto"),
    )
)
def test_kinds_of_fingerprints(tuned, tmp_path, run, kind, kernel):
    model, ran = tuned(rows(), "--fingerprint", kind)
    name = kind.partition(":")[0]
    assert f"SMILES, {name} fingerprints, {kernel} kernel" in ran.out
    out, _ = predicted(tmp_path, run, model, [mixed()[1]])
    assert out[0]["setting"] == "B"


def test_options_of_fingerprints_alone_are_deprecated(tuned):
    _, ran = tuned(rows(), "--fingerprint", "radius=1,n_bits=64")
    assert "use --fingerprint morgan:radius=1,n_bits=64" in " ".join(ran.err.split())
    assert "SMILES, morgan fingerprints" in ran.out


def test_ids_without_structures(tmp_path, run):
    table = [(drug, f"assay{PROTEINS.index(protein)}", y) for drug, protein, y in rows()]
    path = write(tmp_path / "assays.csv", table, ["smiles", "assay", "y"])
    model = tmp_path / "m.dyad"
    words = ("--smiles", "smiles", "--id", "assay", "--label", "y")
    ran = run("tune", path, *words, "-o", model)
    assert ran.code == 0, ran.err
    assert "9 molecules × 6 assays" in ran.out
    assert "independent" in ran.out
    wanted = [(NEW_DRUGS[0], "assay1"), (DRUGS[0], "assay2")]
    out, _ = predicted(tmp_path, run, model, wanted, headings=["smiles", "assay"])
    assert [line["setting"] for line in out] == ["B", "A"]
    assert "no_prediction" not in out[0]
    alone = [line["prediction"] for line in out]
    more = [wanted[0], (NEW_DRUGS[0], "assay9"), wanted[1], ("CC(", "assay8")]
    out, ran = predicted(tmp_path, run, model, more, headings=["smiles", "assay"])
    assert [line["prediction"] for line in out] == [alone[0], "", alone[1], ""]
    reasons = [line["no_prediction"] for line in out]
    assert reasons == ["", "unknown assay", "", "no valid molecule"]
    said = " ".join(ran.err.split())
    assert "1 of the assay ids in column 'assay' are not in the model" in said
    path = write(tmp_path / "wanted.csv", [more[1]], ["smiles", "assay"])
    ran = run("predict", model, "--table", path)
    assert (ran.code, ran.out) == (2, "")
    assert "no row can be predicted. 1 of the assay ids in column 'assay' are not in" in ran.err


def test_settings_that_the_model_lacks_stay_without_a_prediction(tmp_path, run, tuned):
    """Profiles of labels describe known drugs and targets only."""
    words = ("--model", "learned", "--setting", "A", "--stages", "2", "--steps", "3")
    model, _ = tuned(rows(), *words)
    loaded = load(model)
    supported = [setting.value for setting in loaded.fitted_.settings]
    assert supported == ["A"]
    out, ran = predicted(tmp_path, run, model, mixed())
    assert [line["setting"] for line in out] == ["A", "", "", "", "A", ""]
    reasons = [line["no_prediction"] for line in out]
    assert reasons == ["", "setting B", "setting C", "setting D", "", "setting B"]
    completed = loaded.predict()
    drug = loaded.fitted_.instance_ids.labels.index(canonical_smiles([DRUGS[1]])[0][0])
    assert_allclose(float(out[0]["prediction"]), completed[drug, 2], rtol=1e-9)
    said = " ".join(ran.err.split())
    assert "4 of 6 rows are in setting B, C and D, and the model predicts A only." in said
    path = write(tmp_path / "wanted.csv", mixed(), HEADINGS[:2])
    printed = run("predict", model, "--table", path, "--json").json
    assert printed["no_prediction"] == {"setting B": 2, "setting C": 1, "setting D": 1}
    assert printed["settings"] == {"A": 2, "B": 0, "C": 0, "D": 0}
    path = write(tmp_path / "wanted.csv", mixed()[1:3], HEADINGS[:2])
    ran = run("predict", model, "--table", path)
    assert ran.code == 2
    assert "no row can be predicted. 2 of 2 rows are in setting B and C" in ran.err


def test_repeated_and_invalid_rows(tmp_path, run, tuned):
    table = [*rows(), ("OCC", PROTEINS[0], 100.0), ("CC(", PROTEINS[1], 1), ("CCO", "", 2)]
    path = write(tmp_path / "table.csv", table)
    words = ("--smiles", "drug_smiles", "--sequence", "target_seq", "--label", "y")
    ran = run("tune", path, *words, "-o", tmp_path / "m.dyad")
    assert ran.code == 2
    assert "Not valid: 1 of 11 molecules: 'line 57' ('CC('). Correct or remove them" in ran.err
    assert "leave them out with --drop-invalid" in ran.err
    _, ran = tuned(table, "--drop-invalid")
    assert "2 of 57 rows of" in ran.err
    assert "repeated pairs of" in ran.err
    assert ": 1, 1 of them with different values." in ran.err


def test_groups_of_similar_structures(tuned, tmp_path, run):
    one, _ = tuned(rows(), "--groups", "similar:0.5", "--model", "two-step")
    groups = load(one).fitted_.validation.groups[0]
    assert 1 < len(set(groups.tolist())) < 9
    path = tmp_path / "table.csv"
    words = ("--smiles", "drug_smiles", "--sequence", "target_seq", "--label", "y", "-f")
    ran = run("tune", path, *words, "-o", one, "--groups", "similar:7")
    assert ran.code == 2
    assert "--groups takes a similarity above 0 and at most 1" in ran.err


@over(
    lines(
        "words message",
        ("--smiles drug_smiles --label y", "Name the columns of both sides"),
        ("--smiles drug_smiles --sequence target_seq", "Name the column of the labels by --label"),
        ("--id target_seq --smiles drug_smiles --smiles target_seq --label y", "both sides"),
        (
            "--smiles drug_smiles --sequence target_seq --label y --columns 1,2,3",
            "--columns is for labels and sides in several files",
        ),
        ("--smiles nothing --sequence target_seq --label y", "has no column 'nothing'"),
        ("--smiles drug_smiles --sequence target_seq --label z", "has no column 'z'"),
        (
            "--smiles drug_smiles --sequence target_seq --label y --fingerprint ecfp",
            "--fingerprint is one of morgan, feature_morgan",
        ),
        (
            "--smiles drug_smiles --sequence target_seq --label y --fingerprint maccs "
            "--fingerprint morgan",
            "only --model learned combines several",
        ),
    )
)
def test_wrong_words(tmp_path, run, words, message):
    path = write(tmp_path / "table.csv", rows())
    ran = run("tune", path, *words.split(), "-o", tmp_path / "m.dyad")
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_models_of_several_files_have_no_table(tmp_path, run, tuned):
    model, _ = tuned(rows())
    path = write(tmp_path / "wanted.csv", mixed(), HEADINGS[:2])
    ran = run("predict", model, "--table", path, "--pairs", path)
    assert "--pairs has no effect beside --table" in ran.err
    drugs = write(tmp_path / "drugs.csv", enumerate(DRUGS), ["id", "smiles"])
    lines_of_labels = [(place, place % 3, place % 4) for place in range(9)]
    labels = write(tmp_path / "labels.csv", lines_of_labels, ["", "a", "b"])
    other = tmp_path / "other.dyad"
    ran = run(
        "tune",
        labels,
        "--instances",
        drugs,
        "--instances-smiles",
        "smiles",
        "--model",
        "independent",
        "-o",
        other,
    )
    assert ran.code == 0, ran.err
    ran = run("predict", other, "--table", path)
    assert ran.code == 2
    assert "--table is for a model that was tuned on one table" in ran.err


def test_names_and_ids():
    assert names_of_columns([("smiles", "SMILES"), ("sequences", "Target Sequence")]) == (
        "molecule,target"
    )
    assert names_of_columns([("smiles", "Solvent_SMILES"), ("smiles", "solute.smiles")]) == (
        "solvent,solute"
    )
    assert names_of_columns([("smiles", "smiles"), ("smiles", "smiles")]) == "instance,task"
    assert sequence_id("MKV") == "MKV"
    ids = {sequence_id(protein) for protein in (*PROTEINS, *NEW_PROTEINS)}
    assert len(ids) == 8
