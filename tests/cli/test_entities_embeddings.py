"""Features by id on the command line: for training and for what is new, and no more read than labels or pairs name."""

import re
from doctest import DocTestParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import load
from dyadlearn.cli.entities import Files, file_options, open_source

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")

NEW_USERS = ["n0", "n1"]
NEW_ITEMS = ["j0"]


def one_each(path, labels, rows, also=()):
    """An HDF5 file with a data set for each id, and others that are no vectors at all: whoever reads them fails."""
    with h5py.File(path, "w") as file:
        for label, row in zip(labels, rows, strict=True):
            file[label] = row
        for label in also:
            file[label] = "not to be read"
    return path


@pytest.fixture
def stores(tables):
    """Both sides with what is new in them, users in HDF5 and items in parquet."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    X = np.vstack([tables.X, rng.normal(size=(2, 3))])
    T = np.vstack([tables.T, rng.normal(size=(1, 2))])
    users = one_each(
        tables.folder / "users.h5", [*tables.users, *NEW_USERS], X, also=["unread", "zz"]
    )
    items = tables.folder / "items.parquet"
    pq.write_table(pa.table({"item": [*tables.items, *NEW_ITEMS], "vector": T.tolist()}), items)
    return users, items, X, T


@pytest.fixture
def stored(tables, stores, run):
    """A model made of them; the others, which have no labels, were left out."""
    path = tables.folder / "stored.dyad"
    words = [f"--instances {stores[0]} --tasks {stores[1]} --setting D --alphas 0.1,1,10"]
    words += ["--model two-step"]
    ran = run(f"tune {tables.labels}", *words, f"-o {path} --json")
    assert any(
        "4 of 16 instances in" in note and "users.h5 have no labels" in note
        for note in ran.json["notes"]
    )
    return path


def test_the_model_is_that_of_the_tables(tables, stores, stored, model, run):
    assert_allclose(
        load(stored).predict(tables.X, tables.T),
        load(model).predict(tables.X, tables.T),
        rtol=1e-10,
    )
    found = run(f"inspect {stored} --json").json["files"]
    assert found == {"labels": "labels.csv", "instances": "users.h5", "tasks": "items.parquet"}


def test_new_ones_of_any_format(tables, stores, stored, put, run, get):
    _, _, X, T = stores
    expected = load(stored).predict(X[-2:], T[-1:])
    np.save(tables.folder / "new.npy", X[-2:])
    (tables.folder / "new.ids.txt").write_text("n0\nn1\n")
    put(tables.folder / "new.csv", NEW_USERS, "abc", X[-2:])
    (tables.folder / "new_items.txt").write_text("j0\n")
    items = f"{stores[1]}::vector,row_ids=item,ids={tables.folder / 'new_items.txt'}"
    for users in ("new.npy", "new.csv", f"users.h5::ids={tables.folder / 'new.ids.txt'}"):
        output = tables.folder / "p.csv"
        words = f"predict {stored} --instances {tables.folder / users} --tasks {items}"
        ran = run(f"{words} -o {output} -f -q")
        assert ran.code == 0, ran.err
        lines = get(output)
        assert lines[0][1:] == NEW_ITEMS
        assert [line[0] for line in lines[1:]] == NEW_USERS
        assert_allclose([float(line[1]) for line in lines[1:]], expected[:, 0], rtol=1e-5)


def test_pairs_tell_who_is_read(tables, stores, stored, run):
    pairs = tables.folder / "pairs.csv"
    pairs.write_text("user,item\nn1,j0\nu3,i2\nn1,i0\n")
    ran = run(
        f"predict {stored} --instances {stores[0]} --tasks {stores[1]} --pairs {pairs} --json"
    )
    assert ran.json["instances"] == 2  # of 16, two of which cannot be read
    whole = load(stored).predict(stores[2], stores[3])
    assert_allclose(
        ran.json["predictions"]["prediction"], [whole[13, 8], whole[3, 2], whole[13, 0]], rtol=1e-9
    )
    refused = run(f"predict {stored} --instances {stores[0]} --tasks {stores[1]}")
    assert refused.code == 2
    assert "'unread' holds" in refused.err
    pairs.write_text("user,item\nq1,j0\n")
    refused = run(f"predict {stored} --instances {stores[0]} --tasks {stores[1]} --pairs {pairs}")
    assert refused.code == 2
    assert "lacks all 1 requested ids: " in refused.err
    pairs.write_text("user,item\nq1,j0\nn1,j0\n")
    assert (
        "pairs.csv, line 2: instance 'q1' is not in "
        in run(f"predict {stored} --instances {stores[0]} --pairs {pairs}").err
    )


def test_an_online_model_grows_from_a_store(tables, stores, put, run):
    path = tables.folder / "o.dyad"
    labels = put(tables.folder / "first.csv", tables.users[:8], tables.items, tables.Y[:8])
    words = [f"--instances {stores[0]} --tasks {stores[1]}"]
    assert run(f"tune {labels}", *words, f"--model online --alphas 1 -o {path} -q").code == 0
    more = put(tables.folder / "more.csv", tables.users[8:], tables.items, tables.Y[8:])
    ran = run(f"update {path} --instances {stores[0]} --labels {more} --json")
    assert ran.json["instances"] == 12
    lost = put(tables.folder / "lost.csv", ["u1x"], tables.items, tables.Y[:1])
    assert (
        "lacks all 1 instances of"
        in run(f"update {path} --instances {stores[0]} --labels {lost}").err
    )


def test_what_stands_after_the_name_of_a_file(tables):
    assert file_options(Path("a/b.h5::/g/x")) == (Path("a/b.h5"), {"key": "/g/x"})
    assert file_options(Path("b.h5::g,pool=mean,row_ids=acc")) == (
        Path("b.h5"),
        {"key": "g", "pool": "mean", "row_ids": "acc"},
    )
    assert file_options(Path("b.h5")) == (Path("b.h5"), {})
    assert Files({"": Path("a/b.h5::/g/x")}, "--tasks").words == "b.h5::/g/x"
    for wrong in ("b.h5::", "b.h5::g,h", "b.h5::colour=red", "b.h5::pool="):
        with pytest.raises(ValueError, match=r"b\.h5:: takes the name of a part of the file"):
            file_options(Path(wrong))
    files = Files.of(["r=b.h5::pool=mean", "s=c.h5::g"], "--instances")
    assert files.paths == {"r": Path("b.h5::pool=mean"), "s": Path("c.h5::g")}
    assert files.words == "r=b.h5::pool=mean s=c.h5::g"
    assert Files.of(["b.h5::pool=mean"], "--instances").paths == {"": Path("b.h5::pool=mean")}
    one_each(Path("odd::name.h5"), tables.users, tables.X)
    assert open_source(Path("odd::name.h5")).file.ids.labels == tuple(sorted(tables.users))


def test_the_page_does_what_it_says(run, monkeypatch):
    """Run the data, the three commands and compare what they print with the page about files."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    blocks = {
        kind: [block[2] for block in fence.finditer(text) if block[1] == kind]
        for kind in ("python", "sh", "text")
    }
    made: dict[str, Any] = {}
    for example in DocTestParser().get_examples(blocks["python"][0]):
        exec(example.source, made)
    commands = re.findall(r"^dyadlearn (.*)$", blocks["sh"][1].replace("\\\n", ""), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["tune", "evaluate", "predict"]
    printed = ""
    with made["temporary"]:
        monkeypatch.chdir(made["folder"])
        for command in commands:
            ran = run(*command.split())
            assert ran.code == 0, ran.err
            printed += ran.err + ran.out
        monkeypatch.undo()
    shown = [line.strip() for line in blocks["text"][0].splitlines() if line.strip()]
    assert len(shown) == 12
    for line in shown:
        assert re.search(
            r"\s+".join(re.escape(word).replace("…", r"\d*") for word in line.split()), printed
        ), line
