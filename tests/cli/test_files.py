"""The files of one side: one, or several by names, and what options say of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from dyadlearn.cli.entities import Files

PATHS = {"ecfp": Path("drugs.csv"), "sim": Path("kernel.csv")}
SEVERAL = Files(PATHS, "--instances")
ONE = Files.one(Path("drugs.csv"), "--instances")


def test_files_and_their_names(tmp_path, monkeypatch):
    assert Files.of(["drugs.csv"], "--instances") == ONE
    assert Files.of(["ecfp=drugs.csv", "sim = kernel.csv"], "--instances").paths.keys() == PATHS.keys()
    assert Files.of(["ecfp=a=b.csv"], "--instances").paths == {"ecfp": Path("a=b.csv")}
    assert Files.of(["folder/a=b.csv"], "--instances").paths == {"": Path("folder/a=b.csv")}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.csv").write_text("")
    assert Files.of(["a=b.csv"], "--instances").paths == {"": Path("a=b.csv")}
    assert SEVERAL.words == "ecfp=drugs.csv sim=kernel.csv"
    assert ONE.words == "drugs.csv"


WRONG = {
    ("a.csv", "b.csv"): "--instances is given 2 times.*such as --instances structure=a.csv",
    ("x=a.csv", "b.csv"): "such as --instances structure=b.csv",
    ("x=a.csv", "x=b.csv"): "--instances has two files for 'x'",
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
        assert files.said_of_each(given, "--kernel", may_be_common=True) == expected


UNCLEAR = [
    (ONE, ["rbf", "linear"], True, "--kernel is given 2 times, but --instances names a single file"),
    (SEVERAL, ["other=rbf"], True, "--kernel other=rbf is said of 'other', but --instances has 'ecfp', 'sim'"),
    (SEVERAL, ["ecfp=rbf", "ecfp=linear"], True, "--kernel is given twice for 'ecfp'"),
    (SEVERAL, ["rbf", "linear"], True, "write it as --kernel ecfp=linear"),
    (SEVERAL, ["smiles"], False, "write it as --kernel ecfp=smiles"),
]


def test_what_is_said_of_no_file():
    for files, given, may_be_common, message in UNCLEAR:
        with pytest.raises(ValueError, match=message):
            files.said_of_each(given, "--kernel", may_be_common=may_be_common)
