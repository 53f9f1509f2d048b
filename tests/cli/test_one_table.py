"""One table of structures: tune reads it, and predict takes a mixed table of known and new structures."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from cli.conftest import read_csv, write_rows
from dyadlearn import KroneckerRidge, load
from dyadlearn.cli.one_table import names_of_columns, sequence_id
from dyadlearn.kernels.chemistry import canonical_smiles, fingerprints
from dyadlearn.kernels.sequences import kmer_counts
from sweeps import lines, over

pytest.importorskip("rdkit", reason="rdkit is not installed: tables of SMILES are not tested")

DRUGS = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1", "CC(=O)O", "CCN", "CCCN", "CCCCN"]
NEW_DRUGS = ["CCCCCO", "CCc1ccccc1"]
ALPHABET = list("ACDEFGHIKLMNPQRSTVWY")
_RNG = default_rng(0)
PROTEINS = ["".join(_RNG.choice(ALPHABET, 40)) for _ in range(6)]
# Relatives of two proteins, which are new.
NEW_PROTEINS = [PROTEINS[0][:30] + "W" * 10, "A" * 10 + PROTEINS[3][10:]]
HEADINGS = ["drug_smiles", "target_seq", "y"]


def label(drug, protein):
    rng = default_rng([DRUGS.index(drug), PROTEINS.index(protein)])
    return round(DRUGS.index(drug) + 3 * PROTEINS.index(protein) + rng.normal(), 3)


def rows():
    return [(drug, protein, label(drug, protein)) for drug in DRUGS for protein in PROTEINS]


def write_table(path, table=None, headings=HEADINGS):
    return write_rows(path, [headings, *(table or rows())])


BOTH = "--smiles drug_smiles --sequence target_seq --label y"
QUICK = "--model two-step --alphas 1"


@pytest.fixture
def tune(tmp_path, run, monkeypatch):
    """Give a function that tunes a table in the working folder, and returns what was printed."""
    monkeypatch.chdir(tmp_path)

    def call(table, *more):
        write_table(tmp_path / "table.csv", table)
        ran = run(f"tune table.csv {BOTH} --task-kernel spectrum:k=2 -fo m.dyad", *more)
        assert ran.code == 0, ran.err
        return ran

    return call


@pytest.fixture
def known(tune, tmp_path, once):
    """Make a model of all pairs."""
    make = lambda: tune(rows(), "--model kronecker --alphas 0.5")  # noqa: E731
    return once("one table", tmp_path / "m.dyad", make)


def test_the_model_is_that_of_its_features(tune):
    table = rows()
    # Another spelling of a molecule, and blanks and small letters in a sequence.
    table[0] = ("OCC", PROTEINS[0][:20].lower() + " " + PROTEINS[0][20:], table[0][2])
    ran = tune(table, "--model kronecker --alphas 0.5 --setting D")
    assert "54 rows of " in ran.err
    assert "9 different drugs and 6 different targets; equal structures are one." in ran.err
    assert "9 drugs × 6 targets, 100 % observed" in ran.out
    loaded = load("m.dyad")
    texts, _ = canonical_smiles(DRUGS)
    X, _ = fingerprints(DRUGS)
    T, _ = kmer_counts(PROTEINS, k=2)
    Y = np.array([y for _, _, y in table]).reshape(9, 6)
    by_hand = KroneckerRidge(0.5, kernel="tanimoto", task_kernel="cosine").fit(X, Y, T)
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


def predicted(run, table, *more, headings=("drug_smiles", "target_seq")):
    write_table(Path("wanted.csv"), table, headings)
    ran = run("predict m.dyad --table wanted.csv -fo out.csv", *more)
    assert ran.code == 0, ran.err
    cells = read_csv(Path("out.csv"))
    return [dict(zip(cells[0], line, strict=True)) for line in cells[1:]], ran


def test_a_mixed_table_has_the_predictions_of_each_setting(run, known, monkeypatch):
    out, ran = predicted(run, mixed(), "--interval 0.6")
    assert [line["setting"] for line in out] == list("ABCDAB")
    loaded = load(known)
    X, _ = fingerprints([drug for drug, _ in mixed()])
    T, _ = kmer_counts([protein for _, protein in mixed()], k=2)
    grids = {"A": (None, None), "B": (X, None), "C": (None, T), "D": (X, T)}
    places = {name: place for place, name in enumerate(loaded.fitted_.instance_ids.labels)}
    for row, line in enumerate(out):
        letter = line["setting"]
        at = row
        if letter in "AC":
            at = places[canonical_smiles([mixed()[row][0]])[0][0]]
        task = PROTEINS.index(mixed()[row][1]) if letter in "AB" else row
        expected = loaded.predict(*grids[letter])[at, task]
        lower, upper = loaded.predict_interval(*grids[letter], coverage=0.6)
        found = [float(line[name]) for name in ("prediction", "lower", "upper")]
        assert_allclose(found, [expected, lower[at, task], upper[at, task]], rtol=1e-9)
        if letter == "A":
            assert_allclose(float(line["training_label"]), label(DRUGS[at], mixed()[row][1]))
        else:
            assert line["training_label"] == ""
    words = "6 rows: 2 in setting A (both known), 2 in setting B (new drug), 1 in setting C"
    assert words in ran.err
    assert "2 rows are pairs of training" in ran.err
    # Small blocks give the same, here in JSON and on the screen.
    monkeypatch.setattr("dyadlearn.diagnostics.mixed._BLOCK", 1)
    words = "predict m.dyad --table wanted.csv --interval 0.6"
    printed = run(words, "--json").json
    assert printed["settings"] == {"A": 2, "B": 2, "C": 1, "D": 1}
    assert printed["coverage"] == 0.6
    for line, other in zip(out, printed["predictions"], strict=True):
        for name in ("prediction", "lower", "upper"):
            assert_allclose(other[name], float(line[name]), rtol=1e-9)
    plain = run(words).out.splitlines()
    assert plain[0].startswith("drug_smiles,target_seq,setting,prediction,lower,upper")
    assert len(plain) == 7


def test_labels_of_two_values_have_probabilities(run, tune, tmp_path):
    tune([(*pair, int(y > 11)) for *pair, y in rows()], QUICK)
    out, _ = predicted(run, mixed())
    assert list(out[0])[2:] == ["setting", "prediction", "probability", "training_label"]
    assert all(0 < float(line["probability"]) < 1 for line in out)
    # The same as those of predict --probability.
    write_table(tmp_path / "new.csv", [("n", NEW_DRUGS[0])], ["id", "drug_smiles"])
    ran = run("predict m.dyad --instances new.csv --probability --json")
    assert_allclose(float(out[1]["probability"]), ran.json["probabilities"][0][2], rtol=1e-6)


def test_invalid_rows_are_kept_without_a_prediction(run, known):
    table = [*mixed(), ("CC(", PROTEINS[0]), (DRUGS[0], "")]
    table = [(*pair, place) for place, pair in enumerate(table)]
    out, ran = predicted(run, table, headings=["drug_smiles", "target_seq", "setting"])
    assert [line["setting"] for line in out] == list("01234567")
    assert [line["setting_"] for line in out] == [*"ABCDAB", "", ""]
    assert out[-1]["prediction"] == out[-2]["prediction"] == ""
    reasons = [line["no_prediction"] for line in out]
    assert reasons == [""] * 6 + ["no valid drug", "no valid target"]
    said = " ".join(ran.err.split())
    assert ": 2 of 8 rows lack a valid structure; the first is line 8 ('CC('). They have no" in said
    assert "Not valid" not in said
    ran = run("predict m.dyad --table wanted.csv --pairs wanted.csv")
    assert "--pairs has no effect beside --table" in ran.err


def test_many_sequences_are_not_aligned(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dyadlearn.kernels.sequences._MOST_ALIGNED", 1e3)
    write_table(tmp_path / "table.csv")
    ran = run(f"tune table.csv {BOTH} {QUICK} -o m.dyad")
    assert ran.code == 0, ran.err
    assert "6 sequences are compared by their words of 3 letters, the kernel spectrum" in ran.err
    assert "would take about a second on one core. To align them, add --kernel or" in ran.err
    assert "sequences, spectrum kernel" in ran.out


@over(
    lines(
        "kind kernel",
        ("morgan:counts=true", "minmax"),
        ("descriptors", "rbf"),
        ("maccs", "tanimoto"),
        ("radius=1,n_bits=64", None),
    )
)
def test_kinds_of_fingerprints(tune, run, kind, kernel):
    ran = tune(rows(), QUICK, "--fingerprint", kind)
    if kernel is None:  # deprecated
        assert "use --fingerprint morgan:radius=1,n_bits=64" in " ".join(ran.err.split())
        assert "SMILES, morgan fingerprints" in ran.out
        return
    assert f"SMILES, {kind.partition(':')[0]} fingerprints, {kernel} kernel" in ran.out
    out, _ = predicted(run, [mixed()[1]])
    assert out[0]["setting"] == "B"


def test_ids_without_structures(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = [(drug, f"assay{PROTEINS.index(protein)}", y) for drug, protein, y in rows()]
    heads = ["smiles", "assay"]
    write_table(tmp_path / "assays.csv", table, [*heads, "y"])
    ran = run("tune assays.csv --smiles smiles --id assay --label y --alphas 1 -o m.dyad")
    assert ran.code == 0, ran.err
    assert "9 molecules × 6 assays" in ran.out
    assert "independent" in ran.out
    wanted = [(NEW_DRUGS[0], "assay1"), (DRUGS[0], "assay2")]
    out, _ = predicted(run, wanted, headings=heads)
    assert [line["setting"] for line in out] == ["B", "A"]
    assert "no_prediction" not in out[0]
    alone = [line["prediction"] for line in out]
    more = [wanted[0], (NEW_DRUGS[0], "assay9"), wanted[1], ("CC(", "assay8")]
    out, ran = predicted(run, more, headings=heads)
    assert [line["prediction"] for line in out] == [alone[0], "", alone[1], ""]
    reasons = [line["no_prediction"] for line in out]
    assert reasons == ["", "unknown assay", "", "no valid molecule"]
    said = " ".join(ran.err.split())
    assert "1 of the assay ids in column 'assay' are not in the model" in said
    write_table(tmp_path / "wanted.csv", [more[1]], heads)
    ran = run("predict m.dyad --table wanted.csv")
    assert (ran.code, ran.out) == (2, "")
    assert "no row can be predicted. 1 of the assay ids in column 'assay' are not in" in ran.err


def test_settings_that_the_model_lacks_stay_without_a_prediction(run, tune, tmp_path):
    """Profiles of labels describe known drugs and targets only."""
    tune(rows(), "--model learned --setting A --stages 2 --steps 3 --cv 2")
    loaded = load("m.dyad")
    assert [setting.value for setting in loaded.fitted_.settings] == ["A"]
    out, ran = predicted(run, mixed())
    assert [line["setting"] for line in out] == ["A", "", "", "", "A", ""]
    reasons = [line["no_prediction"] for line in out]
    assert reasons == ["", "setting B", "setting C", "setting D", "", "setting B"]
    completed = loaded.predict()
    drug = loaded.fitted_.instance_ids.labels.index(canonical_smiles([DRUGS[1]])[0][0])
    assert_allclose(float(out[0]["prediction"]), completed[drug, 2], rtol=1e-9)
    said = " ".join(ran.err.split())
    assert "4 of 6 rows are in setting B, C and D, and the model predicts A only." in said
    printed = run("predict m.dyad --table wanted.csv --json").json
    assert printed["no_prediction"] == {"setting B": 2, "setting C": 1, "setting D": 1}
    assert printed["settings"] == {"A": 2, "B": 0, "C": 0, "D": 0}
    write_table(tmp_path / "wanted.csv", mixed()[1:3], HEADINGS[:2])
    ran = run("predict m.dyad --table wanted.csv")
    assert ran.code == 2
    assert "no row can be predicted. 2 of 2 rows are in setting B and C" in ran.err


def test_repeated_and_invalid_rows(run, tune):
    table = [*rows(), ("OCC", PROTEINS[0], 100.0), ("CC(", PROTEINS[1], 1), ("CCO", "", 2)]
    ran = tune(table, QUICK, "--drop-invalid")
    assert "2 of 57 rows of" in ran.err
    assert "repeated pairs of" in ran.err
    assert ": 1, 1 of them with different values." in ran.err
    ran = run(f"tune table.csv {BOTH} -fo m.dyad")
    assert ran.code == 2
    assert "Not valid: 1 of 11 molecules: 'line 57' ('CC('). Correct or remove them" in ran.err
    assert "leave them out with --drop-invalid" in ran.err


def test_groups_of_similar_structures(tune):
    tune(rows(), QUICK, "--groups similar:0.5")
    groups = load("m.dyad").fitted_.validation.groups[0]
    assert 1 < len(set(groups.tolist())) < 9


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


def test_no_column_of_labels_is_printed_if_none_is_observed(tune, run):
    tune(rows()[1:-1], QUICK)
    assert "label" not in run("recommend m.dyad --pairs").out
    assert "label" in run("recommend m.dyad --pairs --observed").out


def test_structures_of_training_are_found_however_they_are_written(known, run):
    expected = run("recommend m.dyad --for CCO --observed --json").json
    found = run("recommend m.dyad --for OCC --observed --json").json
    assert found["best"] == expected["best"]
    asked = f"--explain --task {sequence_id(PROTEINS[0])} --json"
    expected = run("predict m.dyad --instance CCO", asked).json
    assert run("predict m.dyad --instance OCC", asked).json == expected
    assert "no drug or target 'CC('" in run("recommend m.dyad --for 'CC('").err
