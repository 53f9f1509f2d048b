"""One side of a model: features, kernels, molecules and sequences, in training and for what is new."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._messages import message_of
from dyadlearn._tables import Ids
from dyadlearn.cli.commands import Tune
from dyadlearn.cli.entities import (
    Files,
    Recipe,
    in_words,
    new_entities,
    open_new,
    open_source,
    parse_kernel,
    recipes_from_state,
    recipes_state,
    training_side,
)
from dyadlearn.cli.terminal import Terminal, spoken
from dyadlearn.exceptions import KernelError, ModelFileError
from sweeps import lines, over

IDS = ("a", "b", "c")
K = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]])


def tuned(**options):
    return Tune(labels=Path("labels.csv"), instances=[], output=Path("m.dyad"), **options)


def side(path, places=None, kernel=None, smiles=None, terminal=None, fingerprint=None):
    source = open_source(path, smiles, kernel, fingerprint=fingerprint)
    n = source.file.n if places is None else len(places)
    how = tuned()
    table, recipes, kept = training_side(
        {"": source}, {"": places}, how, terminal or Terminal(quiet=True)
    )
    assert_array_equal(kept, np.arange(n))
    return table, recipes[""]


@over(
    lines(
        "text expected",
        ("rbf", ("rbf", {})),
        ("rbf:gamma=0.1", ("rbf", {"gamma": 0.1})),
        ("poly: degree=2, coef0=1", ("poly", {"degree": 2, "coef0": 1})),
        ("x:flag=true,word=ab", ("x", {"flag": True, "word": "ab"})),
    )
)
def test_options_of_kernels(text, expected):
    assert parse_kernel(text) == expected


@over(lines("text", "rbf:gamma", "rbf:gamma=", "rbf:=1"))
def test_options_that_are_none(text):
    with pytest.raises(ValueError, match="Expected option=value"):
        parse_kernel(text)


def test_a_square_table_with_equal_ids_is_a_kernel_and_that_is_said(tmp_path, put):
    order = [2, 0, 1]
    path = put(tmp_path / "k.csv", [IDS[i] for i in order], IDS, K[order])
    terminal = Terminal(quiet=True)
    table, recipe = side(path, np.array([1, 2, 0]), terminal=terminal)
    assert recipe.of_model == ("precomputed", None)
    assert_array_equal(table.values, K)
    assert table.row_ids.labels == IDS
    assert "read as a kernel" in terminal.notes[0]
    table, recipe = side(path, np.array([1, 2, 0]), "linear")
    assert recipe.kind == "features"
    assert_array_equal(table.values, K)


@pytest.mark.parametrize(
    ("columns", "kernel", "message"),
    [
        (("p", "q"), "precomputed", "has 3 rows and 2 columns, but a precomputed kernel is square"),
        (("a", "b", "x"), "precomputed", "ids of the columns of .* do not match"),
        (IDS, "precomputed:gamma=1", "has no options, found gamma"),
        (("p", "q"), "rdf", "Did you mean 'rbf'"),
        (("p", "q"), "rbf:sigma=1", "takes no parameter 'sigma'"),
    ],
)
def test_kernels_that_do_not_fit(tmp_path, put, columns, kernel, message):
    path = put(tmp_path / "k.csv", IDS, columns, K[:, : len(columns)])
    with pytest.raises(ValueError, match=message):
        side(path, kernel=kernel)


def test_features_have_no_holes(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("id,p,q\na,1,2\nb,,4\n")
    with pytest.raises(ValueError, match=r"f\.csv, row 'b', column 'p': the value is missing"):
        side(path)


def test_new_rows_of_a_kernel_are_matched_with_training(tmp_path, put):
    terminal = Terminal(quiet=True)
    recipe = Recipe("kernel", "precomputed")
    path = tmp_path / "n.csv"

    def read():
        return new_entities(open_new(path, recipe), recipe, Ids(IDS), terminal)

    put(path, ["x"], ["c", "other", "a", "b"], [[3.0, 9.0, 1.0, 2.0]])
    assert_array_equal(read().values, [[1.0, 2.0, 3.0]])
    assert terminal.notes[0].endswith("that the model does not use: 'other' (1).")
    put(path, ["x"], ["a", "b"], [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"lacks 1 of the 3 columns .*: 'c'\."):
        read()
    put(path, IDS, ["x"], [[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="They are in its rows: the file looks transposed"):
        read()


def read_new(path, recipe):
    return new_entities(open_new(path, recipe), recipe, None, Terminal(quiet=True))


def test_new_features_are_matched_by_name(tmp_path, put):
    recipe = Recipe("features", "rbf", names=["p", "q"])
    path = put(tmp_path / "n.csv", ["x"], ["q", "p"], [[2.0, 1.0]])
    assert_array_equal(
        read_new(path, recipe).values,
        [[1.0, 2.0]],
    )
    put(path, ["x"], ["q", "r"], [[2.0, 1.0]])
    with pytest.raises(
        ValueError, match="lacks 1 of the 2 columns that the model needs, the features: 'p'"
    ):
        read_new(path, recipe)


def test_molecules(tmp_path):
    pytest.importorskip("rdkit")
    from dyadlearn.kernels import tanimoto

    path = tmp_path / "drugs.csv"
    path.write_text("drug,name,structure\na,ethanol,CCO\nb,propanol,CCCO\nc,benzene,c1ccccc1\n")
    table, recipe = side(
        path, np.array([0, 2]), smiles="structure", fingerprint="morgan:radius=1,n_bits=512"
    )
    assert table.values.shape == (2, 512)
    assert recipe.of_model == ("tanimoto", None)
    again = read_new(path, recipe)
    assert again.row_ids.labels == IDS
    assert_array_equal(again.values[[0, 2]].toarray(), table.values.toarray())
    assert_allclose(tanimoto(again.values)[0, 2], 0.0)
    path.write_text("drug,structure\na,CCO\nb,CCO(\n")
    invalid = r"Not valid: 1 of 2 molecules: 'b' \('CCO\('\)\. "
    with pytest.raises(ValueError, match=invalid) as caught:
        side(path, smiles="structure")
    assert "leave them out with --drop-invalid." in spoken(message_of(caught.value))
    with pytest.raises(ValueError, match=rf"{invalid}Correct or remove them\.$"):
        read_new(path, recipe)
    no_option = "--fingerprint has no option 'bits': its options are radius, n_bits, counts"
    with pytest.raises(ValueError, match=no_option):
        side(path, smiles="structure", fingerprint="morgan:bits=3")


FASTA = ">a first\nMKVLAAGG\n>b\nMKVLAAG\n>c\nWWPWW\n"


@pytest.mark.parametrize("kernel", ["spectrum:k=2", "smith-waterman", None])
def test_sequences(tmp_path, kernel):
    if kernel is None or kernel.startswith("smith"):
        pytest.importorskip("parasail", reason="no aligner")
    path = tmp_path / "p.fasta"
    path.write_text(FASTA)
    table, recipe = side(path, np.array([0, 1]), kernel)
    assert table.row_ids.labels == ("a", "b")
    again = new_entities(open_new(path, recipe), recipe, table.row_ids, Terminal(quiet=True))
    assert again.row_ids.labels == IDS
    if kernel == "spectrum:k=2":
        assert recipe.of_model == ("cosine", None)
        assert_array_equal(again.values[[0, 1]].toarray(), table.values.toarray())
    else:
        assert recipe.of_model == ("precomputed", None)
        assert again.values.shape == (3, 2)
        assert_allclose(again.values[:2], table.values)
        assert_allclose(again.values[2], 0.0, atol=0.2)


def test_what_does_not_belong_together(tmp_path, put):
    path = tmp_path / "p.fasta"
    path.write_text(FASTA)
    with pytest.raises(
        KernelError, match="The kernel of sequences is smith-waterman or spectrum, found 'rbf'"
    ):
        side(path, kernel="rbf")
    table = put(tmp_path / "f.csv", IDS, "pq", K[:, :2])
    with pytest.raises(ValueError, match="expected a FASTA file"):
        open_new(table, Recipe("sequences", "spectrum"))
    with pytest.raises(ValueError, match=r"trained on features, but .*p\.fasta holds sequences"):
        open_new(path, Recipe("features", "rbf"))


def test_files_of_one_side_keep_what_all_of_them_describe(tmp_path, put):
    pytest.importorskip("rdkit")
    pytest.importorskip("parasail", reason="no aligner")
    put(tmp_path / "k.csv", IDS, IDS, K)
    (tmp_path / "p.fasta").write_text(FASTA)
    (tmp_path / "d.csv").write_text("drug,structure\na,CCO\nb,CCO(\nc,c1ccccc1\n")
    sources = {
        name: open_source(tmp_path / file, None, None)
        for name, file in (("k", "k.csv"), ("p", "p.fasta"))
    }
    sources["d"] = open_source(tmp_path / "d.csv", "structure", None)
    places = dict.fromkeys(sources, np.arange(3))
    with pytest.warns(UserWarning, match="'b'.*are left out"):
        found, recipes, kept = training_side(
            sources, places, tuned(drop_invalid=True), Terminal(quiet=True)
        )
    assert_array_equal(kept, [0, 2])
    assert found.row_ids.labels == ("a", "c")
    assert {name: table.values.shape for name, table in found.tables.items()} == {
        "k": (2, 2),
        "p": (2, 2),
        "d": (2, 2048),
    }
    assert_array_equal(found.tables["k"].values, K[np.ix_([0, 2], [0, 2])])
    assert recipes["p"].sequences == ["MKVLAAGG", "WWPWW"]
    # A model file keeps all of it.
    assert in_words(recipes).startswith(
        "k: a precomputed kernel; p: sequences, smith-waterman kernel; d: SMILES"
    )
    assert recipes_from_state(recipes_state(recipes), "tasks") == recipes


@over(
    lines(
        "forged error",
        ({}, TypeError),
        ([], TypeError),
        ({"": {"kind": "features", "kernel": "rbf"}}, ModelFileError),
        ({"": {}, "a": {}}, ValueError),
        ({"a": {"kind": "magic"}}, ModelFileError),
    )
)
def test_forged_recipes(forged, error):
    with pytest.raises(error):
        recipes_from_state(forged, "instances")


# Files of one side -------------------------------------------------------------------------------


PATHS = {"ecfp": Path("drugs.csv"), "sim": Path("kernel.csv")}
SEVERAL = Files(PATHS, "--instances")
ONE = Files({"": Path("drugs.csv")}, "--instances")


def test_files_and_their_names(tmp_path, monkeypatch):
    assert Files.of(["drugs.csv"], "--instances") == ONE
    assert (
        Files.of(["ecfp=drugs.csv", "sim = kernel.csv"], "--instances").paths.keys() == PATHS.keys()
    )
    assert Files.of(["ecfp=a=b.csv"], "--instances").paths == {"ecfp": Path("a=b.csv")}
    assert Files.of(["folder/a=b.csv"], "--instances").paths == {"": Path("folder/a=b.csv")}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.csv").write_text("")
    assert Files.of(["a=b.csv"], "--instances").paths == {"": Path("a=b.csv")}
    assert SEVERAL.words == "ecfp=drugs.csv sim=kernel.csv"
    assert ONE.words == "drugs.csv"


WRONG = {
    (
        "a.csv",
        "b.csv",
    ): "--instances is given 2 times: give each file a name, such as --instances structure=a.csv",
    ("x=a.csv", "b.csv"): "such as --instances structure=b.csv",
    ("x=a.csv", "x=b.csv"): "--instances has two files with the name 'x'",
}


def test_files_that_cannot_be_told_apart():
    for given, message in WRONG.items():
        with pytest.raises(ValueError, match=message):
            Files.of(given, "--instances")


SAID = [
    (ONE, None, {}),
    (ONE, ["rbf:gamma=0.1"], {"": "rbf:gamma=0.1"}),
    (ONE, ["tanimoto"], {"": "tanimoto"}),
    (SEVERAL, None, {}),
    (SEVERAL, ["ecfp=tanimoto"], {"ecfp": "tanimoto"}),
    (SEVERAL, ["rbf:gamma=0.1"], {"ecfp": "rbf:gamma=0.1", "sim": "rbf:gamma=0.1"}),
    (SEVERAL, ["linear", "ecfp=rbf:gamma=0.1"], {"ecfp": "rbf:gamma=0.1", "sim": "linear"}),
]


def test_what_is_said_of_each_file():
    for files, given, expected in SAID:
        assert files.of_each(given, "--kernel", common=True) == expected


UNCLEAR = [
    (
        ONE,
        ["rbf", "linear"],
        True,
        "--kernel is given 2 times, but --instances names a single file",
    ),
    (
        SEVERAL,
        ["other=rbf"],
        True,
        "--kernel other=rbf names the file 'other', but --instances has 'ecfp', 'sim'",
    ),
    (SEVERAL, ["ecfp=rbf", "ecfp=linear"], True, "--kernel is given twice for 'ecfp'"),
    (SEVERAL, ["rbf", "linear"], True, "write it as --kernel ecfp=linear"),
    (SEVERAL, ["smiles"], False, "write it as --kernel ecfp=smiles"),
]


def test_what_is_said_of_no_file():
    for files, given, common, message in UNCLEAR:
        with pytest.raises(ValueError, match=message):
            files.of_each(given, "--kernel", common=common)
