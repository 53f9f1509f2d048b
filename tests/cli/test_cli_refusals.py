"""Words that commands refuse: one sentence, the exit code of wrong usage, and nothing written."""

import math

import numpy as np
import pytest

from cli.conftest import MODEL, do, refusals, write_csv, write_tables
from cli.test_one_table import write_table
from cli.test_tune_learned import write_several
from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, _progress, save
from dyadlearn._registry import names_where

SIDES = "--instances users.csv --tasks items.csv"
# Words that stand for others, in capital letters.
WORDS = {
    "TUNE": f"tune labels.csv {SIDES} -o never.dyad",
    "TABLE": "tune table.csv -o never.dyad",
    "BOTH": "--smiles drug_smiles --sequence target_seq --label y",
    "LEARN": "tune labels.csv --model learned --tasks items.csv -o never.dyad "
    "--instances noise=noise.csv --instances sim=sim.csv",
    "NEW": "predict model.dyad --instances new_users.csv",
    "EXPLAIN": "predict model.dyad --explain",
    "FEW": "--instances new_users.csv --labels few.csv",
    "UPDATE": "update online.dyad",
    "EVALUATE": "evaluate model.dyad",
    "RECOMMEND": "recommend model.dyad",
    "MODELS": ", ".join(names_where()),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Give a folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("refusals")
    tables = write_tables(folder)
    rng = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        do(f"tune labels.csv {SIDES} {MODEL} -o model.dyad")
        do(f"tune labels.csv {SIDES} --model online --alphas 1 -o online.dyad -q")
        write_several(tables)
        do(f"{WORDS['LEARN']} --setting B --steps 1 --cv 2 -q -fo learned.dyad")
    write_table(folder / "table.csv")
    fitted = {"tasks": tables.T}
    save(TwoStepRidge().fit(tables.X, 1 - tables.Y, **fitted), folder / "other.dyad")
    save(TwoStepRidge().fit(tables.X, tables.Y + np.arange(8), **fitted), folder / "real.dyad")
    save(OnlineTwoStepRidge().fit(tables.X, tables.Y, **fitted), folder / "plain.dyad")
    new = ["n0", "n1", "n2"]
    write_csv(folder / "new_users.csv", new, ["age", "height", "mood"], rng.normal(size=(3, 3)))
    write_csv(folder / "new_items.csv", ["m0"], ["price", "size"], rng.normal(size=(1, 2)))
    texts = {
        "few.csv": "user,i4,i9\nn0,0,1\n",
        "pairs.csv": "user,item\nn2,i0\nu1,i1\n",
        "known.csv": "user,item\nu3,i1\nu0,nothing\n",
        "half.csv": "user,i0\nq0,1\n",
        "wide.csv": f"user,{','.join(tables.items)},i9\nn0,1{',0' * 8}\n",
        "p.fasta": "".join(f">{item}\nMKV\n" for item in tables.items),
        "train.csv": "user,item,stars\nann,tea,1\nann,cake,2\nbob,tea,3\n",
        "test.csv": "user,item,stars\nbob,cake,1.5\neve,tea,2.5\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


TUNE = """
TUNE --model deep | --model is one of MODELS, found 'deep'
TUNE --setting E | Unknown setting 'E'
TUNE --setting BD | --setting must name one setting here, found 'BD'
TUNE --scoring roc | Unknown scoring 'roc'
TUNE --alphas '1;2' | --alphas takes numbers as 0.1,1,10 or a range
TUNE --alphas -1,2 | --alphas must be a finite number of at least 0, found -1
TUNE --task-alphas -1,2 | --task-alphas must be a finite number of at least 0, found -1
TUNE --model kronecker --constants -1 | --constants must be a finite number of at least 0, found -1
TUNE --model kronecker --constants 1,2 --no-intercept | --no-intercept leaves out: leave out either.
TUNE --task-alphas 1 --constants 1 | --task-alphas and --constants are of different models: leave
TUNE --steps 3 | tune without --model has no option --steps: use it with --model learned.
TUNE --model two-step --setting B --method loo | --method is exact or folds, found 'loo'.
TUNE --model pair --shares 1,2 | --shares takes three weights, such as 2,1,1
TUNE --model pair --shares 1,x,2 | found '1,x,2'
TUNE --shares 1,1,1 | tune without --model has no option --shares: use it with --model pair
TUNE --cv 1 | --cv must be a whole number of at least 2, found 1
TUNE --transpose | looks transposed: its tasks are ids of
TUNE --transpose | the file of --instances: leave --transpose out.
TUNE --model independent --setting D | --model independent ignores --tasks: use --setting A or B
TUNE --setting C --groups g.csv | --groups has no effect in setting C: leave it out, or use setting B
TUNE --groups scaffold | Scaffolds need SMILES of the instances: name their column
TUNE --kernel precomputed | a precomputed kernel is square: if it contains features, leave --kernel
TUNE --kernel rdf | Unknown kernel 'rdf'
TUNE --kernel linear:gamma=1 | linear
TUNE --task-kernel rbf:degree=1 | degree
TUNE --model online --kernel rbf | needs features with a linear kernel; instances are features, rbf
TUNE --format wide | --format is grid or long
TUNE --columns a,b,c | no column 'a'
TUNE --fill 0 | --fill is for pairs that a long table lacks, but
TUNE --fingerprint radius=3 | --fingerprint goes with --instances-smiles, --tasks-smiles or --smiles
tune labels.csv --tasks items.csv -o never.dyad | Give the instances by --instances, or name columns
tune labels.csv --instances users.csv -o never.dyad | give them by --tasks, or use --model independent
tune nonesuch.csv -o . | This is a folder
tune nonesuch.csv -o none/m.dyad | There is no such folder
tune labels.csv -o model.dyad | model.dyad: it exists already, choose another name or add --force.
tune labels.csv --instances users.csv --tasks p.fasta -o x.dyad --tasks-smiles s | contains sequences
tune labels.csv --instances p.fasta::x --model independent -o x.dyad | holds sequences: leave out ::
TUNE --sides host | --sides must be two
TUNE --sides host, | --sides must be two
TUNE --sides a,b,c | --sides must be two
TUNE --sides '<b>x</b>,task' | --sides must be two
TUNE --sides drug,Drug | --sides must be two
TUNE --sides aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,y | --sides must be two
screen model.dyad --sides host | --sides must be two
RECOMMEND --pairs --sides host | --sides must be two
inspect model.dyad --sides host | --sides must be two
EVALUATE --sides host | --sides must be two
LEARN --stages some | --stages must be a whole number or auto, found 'some'
LEARN --stages 2 --setting D | set --stages 1
LEARN --shrinkage -1 | shrinkage
LEARN --kernel third=rbf | names the file 'third'
LEARN --instances-smiles structure | write it as --instances-smiles noise=structure
LEARN --instances more.csv | --instances is given 3 times
LEARN --setting E | E
LEARN --average task | --average task is that of a score
LEARN --fingerprint radius=3 | --fingerprint goes with
TABLE --smiles drug_smiles --label y | Name the columns of both sides
TABLE --smiles drug_smiles --sequence target_seq | Name the column of the labels by --label
TABLE --id target_seq --smiles drug_smiles --smiles target_seq --label y | both sides
TABLE BOTH --columns 1,2,3 | --columns is for labels and sides in several files
TABLE --smiles nothing --sequence target_seq --label y | has no column 'nothing'
TABLE --smiles drug_smiles --sequence target_seq --label z | has no column 'z'
TABLE BOTH --fingerprint ecfp | --fingerprint is one of morgan, feature_morgan
TABLE BOTH --fingerprint maccs --fingerprint morgan | only --model learned combines several
TABLE BOTH --groups similar:7 | --groups takes a similarity above 0 and at most 1
"""
PREDICT = """
predict model.dyad | Give --instances or --tasks, or --pairs of training ids
predict model.dyad --instances nonesuch.csv | nonesuch.csv: No such file or directory.
NEW -o out.xls | out.xls must end in one of .csv
predict model.dyad --instances new_items.csv | lacks 3 of the 3 columns that the model needs
predict model.dyad --table table.csv | --table is for a model that was tuned on one table
NEW --interval 1.5 | --interval must be a coverage between 0 and 1, such as 0.9, found 1.5
NEW --interval 0.9 --probability | --interval has no effect beside --probability
predict model.dyad FEW | 'i9' not among the ids of the tasks to predict for
predict model.dyad FEW --interval 0.9 | --labels has no effect beside --interval
predict model.dyad FEW --probability | --labels has no effect beside --probability
predict plain.dyad FEW | An online model learns labels of new instances by dyadlearn update
NEW --columns 1,2,3 | --columns goes with --labels
NEW --baseline | --baseline goes with --pairs
NEW --prevalence 0.1 | --prevalence goes with --probability
NEW --probability --prevalence 1 | --prevalence must be a number between 0 and 1
NEW --pairs pairs.csv | pairs.csv, line 3: instance 'u1' is not in
NEW --pairs pairs.csv | (ids such as 'n0', 'n1', 'n2'). Add its row to that file, or predict a mean
predict model.dyad --pairs known.csv | line 3: task 'nothing' is not in the model (ids such as 'i0',
predict model.dyad --cell a=b --explain | --cell is for a model of --terms
predict online.dyad --pairs known.csv | which online models do not know
predict plain.dyad --tasks items.csv | predicts only for given instances: give --instances
predict real.dyad --instances new_users.csv --probability | Probabilities need labels of two values
predict plain.dyad --instances new_users.csv --probability | keeps statistics only
predict plain.dyad --explain --instance 1 --task 2 | keeps statistics only, not the labels
predict other.dyad --explain --instance x --task 2 | must be a position from 0, found 'x'
predict model.dyad --instance u0 --task i0 | --instance goes with --explain: add it, or leave
predict model.dyad --sort weight | --sort goes with --explain
EXPLAIN --instance u3 --task i5 --sort label | --sort must be
EXPLAIN --instance u0 --task i0 --by task | --by goes with --output: add it, or leave --by out
EXPLAIN --instance u0 --task i0 --long | --long has no effect beside --explain
EXPLAIN --instance u3 | Choose one task: give --task, an id of training or of the file of --tasks.
EXPLAIN --instance nobody --task i5 | 'nobody' not among the ids of the instances
EXPLAIN --instance u3 --task i5 --instances gone.csv | gone.csv
EXPLAIN --instances new_users.csv --task i2 | has 3 rows: choose one instance by --instance
EXPLAIN --instances new_users.csv --instance n7 --task i2 | 'n7' not among the ids of
NEW --clip 5,1 | --clip must be the two ends of a scale, such as 1,5, found '5,1'
NEW --clip 1 | --clip must be the two ends of a scale, such as 1,5, found '1'
NEW --clip 1,2,3 | --clip must be the two ends of a scale, such as 1,5, found '1,2,3'
NEW --clip 1,1 | --clip must be the two ends of a scale, such as 1,5, found '1,1'
NEW --clip 1,nan | --clip must be the two ends of a scale, such as 1,5, found '1,nan'
NEW --clip 1, | --clip must be the two ends of a scale, such as 1,5, found '1,'
NEW --clip a,b | --clip must be the two ends of a scale, such as 1,5, found 'a,b'
predict learned.dyad --instances users.csv | use --instances noise=FILE; found a file without a name
predict learned.dyad --instances size=new_noise.csv | trained on files with the names 'noise', 'sim'
predict learned.dyad --instances noise=new_noise.csv --instances sim=sim.csv | new_noise.csv do not match
update learned.dyad --labels labels.csv --instances users.csv | only models of tune --model online
"""
OTHERS = """
EVALUATE --setting X | Unknown setting
EVALUATE --scoring auc | Unknown scoring
EVALUATE --method loo | --method is exact or folds, found 'loo'.
EVALUATE --permutations 2 --method folds | --method has no effect beside --permutations
EVALUATE --permutations 2 --permute rows | permute must be
EVALUATE --permutations 2 --setting Z | Unknown setting
EVALUATE --permutations 0 | --permutations
EVALUATE --permutations 2 --verify | --verify has no effect beside --permutations: leave one of them out
EVALUATE --permutations 2 --scoring r2 --scoring roc_auc | take one --scoring
EVALUATE --permute tasks | --permute goes with --permutations: add it, or leave --permute out
EVALUATE -n 3 | --number goes with --verify: add it, or leave --number out
EVALUATE --no-nested | --no-nested is for learned kernels, but this model has none
EVALUATE --coverage 0.9 | --coverage goes with --against: add it, or leave --coverage out
EVALUATE --against other.dyad --cv 3 | --cv has no effect beside --against: leave one of them out
EVALUATE --against model.dyad --setting B | is given twice
EVALUATE --against other.dyad --setting E | Unknown setting
EVALUATE --against other.dyad --setting B | 'model' and 'other' were fitted on different labels
EVALUATE --against plain.dyad --setting B | 'plain' cannot be compared
evaluate other.dyad --against real.dyad | ('other' for none, 'real' for none): name one by --setting
report model.dyad --no-nested | --no-nested is for learned kernels, but this model has none
report model.dyad --setting Q | Unknown setting
report model.dyad --scoring nonesuch | Unknown scoring
report model.dyad -o report.pdf | must end in one of .html, .htm
inspect none.dyad | No such file
RECOMMEND | one of --for (a known id), --new (a file) and --pairs
RECOMMEND --pairs --for u1 | one of --for (a known id), --new (a file) and --pairs
RECOMMEND --new x.csv --pairs | one of --for (a known id), --new (a file) and --pairs
RECOMMEND --for nobody | has no instance or task 'nobody' (ids are such as 'u0', 'i0')
RECOMMEND --for u3 --side row | --side must be instance or task
RECOMMEND --pairs --side task | --side has no effect beside --pairs: leave one of them out
RECOMMEND --for u3 --prevalence 0.1 | --prevalence goes with --probability
RECOMMEND --for u3 --coverage 0.8 | --coverage goes with --by lower or --by upper
RECOMMEND --for u3 --by bound | --by must be one of 'score', 'lower', 'upper'
RECOMMEND --for u3 --observed --zeros | --zeros has no effect beside --observed
RECOMMEND --for u3 --by upper --setting B | leave --setting and --cv out
RECOMMEND --new new_users.csv --observed | --observed has no effect beside --new
RECOMMEND --new new_users.csv --zeros | --zeros has no effect beside --new: leave one of them out
recommend real.dyad --for 3 | Every label of
recommend real.dyad --for 3 | use --zeros if a zero means
UPDATE --labels half.csv | Give --instances or --tasks: the file of the new
UPDATE --instances new_users.csv --labels half.csv | lacks all 1 instances of half.csv: 'q0'
UPDATE --instances new_users.csv --labels wide.csv | only in the columns of wide.csv
UPDATE --tasks items.csv --instances users.csv --labels labels.csv | are known already
UPDATE --instances users.csv --labels labels.csv | are known already, and would count twice: 'u0'
UPDATE --instances users.csv --labels labels.csv --known no | --known must be one of 'error', 'replace'
update model.dyad --instances users.csv --labels labels.csv | only models of tune --model online can be
audit train.csv | Give two tables or more, training first
audit train.csv test.csv --split part | --split is for one table
audit train.csv --split part | has no column 'part'
audit train.csv --split stars --columns 1 | --columns must name two columns
audit train.csv test.csv --prediction stars | --prediction goes with --label
audit train.csv test.csv --smiles user | Name the columns of both sides
audit train.csv test.csv --smiles user --id item --columns 1,2 | --columns has no effect beside
audit train.csv test.csv --time item | time must hold numbers, dates or text such as 2021-07-01
audit model.dyad --split part | --split is for a split in tables
audit model.dyad model.dyad | Give one model file
datasets nonesuch | Unknown data set 'nonesuch': the names are debtags, nr
nonesuch | nonesuch
"""


def replaced(text):
    for word, others in WORDS.items():
        text = text.replace(word, others)
    return text


@pytest.mark.parametrize("table", [TUNE, PREDICT, OTHERS], ids=["tune", "predict", "others"])
def test_words_that_are_refused(folder, run, each, monkeypatch, table):
    monkeypatch.chdir(folder)
    # A slow import, such as that of torch, prints a line of progress.
    monkeypatch.setattr(_progress, "_LOGGED", (math.inf, math.inf))
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    for case in each(refusals(table)):
        ran = run(replaced(case["command"]))
        assert (ran.code, ran.out) == (2, ""), ran
        assert replaced(case["sentence"]) in ran.err
        said = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
        assert len(said) == 1 or said[0].startswith("Usage: ")
        assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_device_that_torch_does_not_know(folder, run, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    ran = run(replaced("TUNE --device gpu"))
    assert ran.code == 2
    assert "torch cannot compute on --device gpu here: use 'cpu' or 'cuda'." in ran.err
