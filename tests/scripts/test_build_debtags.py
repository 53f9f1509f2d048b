"""The script that makes the embedded data set, on small tables and, where present, on the real ones."""

import gzip
import hashlib
import importlib.util
import lzma
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.datasets.debtags import _counts
from sweeps import lines, over

PROJECT = Path(__file__).parents[2]
TABLES = PROJECT.parent / "shared" / "data" / "debtags"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "build_debtags", PROJECT / "scripts" / "build_debtags.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def small_tables(folder):
    packages = ["package\tsource\tsection\ttags\tdescription"]
    for i in range(12):
        tags = "devel::lang:c++,role::program,x11::font" + (",made-of::dictionary" if i < 9 else "")
        packages.append(f"p{i:02}\ts{i}\tmisc\t{tags}\tA C++ tool, tool {i}.")
    packages.append("lonely\tlonely\tmisc\ta::b,a::c,a::d\tNothing of note.")
    vocabulary = [
        "kind\tname\tdescription",
        "facet\trole\tRole",
        "tag\trole::program\tExecutable program, program",
    ]
    edges = ["parent\tchild", "ROOT\tdevel", "ROOT\trole", "ROOT\tx11", "ROOT\tmade-of", "ROOT\ta"]
    edges += [
        "devel\tdevel::lang",
        "devel::lang\tdevel::lang:c++",
        "role\trole::program",
        "x11\tx11::font",
    ]
    edges += ["made-of\tmade-of::dictionary", "a\ta::b", "a\ta::c", "a\ta::d"]
    tables = ["".join(f"{line}\n" for line in table) for table in (packages, vocabulary, edges)]
    (folder / "debtags_one_per_source.tsv.xz").write_bytes(lzma.compress(tables[0].encode()))
    (folder / "vocabulary.tsv.gz").write_bytes(gzip.compress(tables[1].encode()))
    (folder / "edges.tsv").write_text(tables[2], encoding="utf-8")
    return folder


def test_small_tables_follow_every_rule(script, tmp_path, capsys):
    output = tmp_path / "out" / "small.npz"
    script.main(["--tables", str(small_tables(tmp_path)), "--output", str(output)])
    assert "12 packages × 3 tags" in capsys.readouterr().out
    stored = dict(np.load(output, allow_pickle=False))
    parts = [part.split("\n") for part in bytes(stored["names"]).decode().split("\n\n")]
    names, tags, words, task_words, edges = parts
    assert names == [f"p{i:02}" for i in range(12)]  # "lonely" has no kept tag
    assert tags == ["devel::lang:c++", "role::program", "x11::font"]  # nine times is too rare
    assert words == ["a", "c++", "tool"]  # each number stands in one package only
    assert task_words == ["c++", "devel", "executable", "font", "lang", "program", "role", "x11"]
    assert edges == [
        "ROOT\tdevel",
        "ROOT\trole",
        "ROOT\tx11",
        "devel\tdevel::lang",
        "devel::lang\tdevel::lang:c++",
        "role\trole::program",
        "x11\tx11::font",
    ]
    assert_array_equal(np.unpackbits(stored["Y"], axis=1, count=3), np.ones((12, 3)))
    assert_array_equal(_counts(stored, "X", 3).toarray(), np.tile([1, 1, 2], (12, 1)))
    expected = [[1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 3, 1, 0], [0, 0, 0, 1, 0, 0, 0, 1]]
    assert_array_equal(_counts(stored, "tasks", 8).toarray(), expected)


def test_the_sample_is_in_the_order_of_the_hash_whatever_the_order_of_the_input(script):
    packages = [script.Package(f"p{i}", f"p{i}", (), "") for i in range(100)]
    order = sorted(packages, key=lambda p: hashlib.sha256(p.name.encode()).hexdigest())
    assert script.choose_sample(reversed(packages), 20) == sorted(order[:20])


INDEX = """\
Package: alpha-data
Source: alpha (1.0-1)
Description: data
Tag: role::data

Package: alpha-b
Source: alpha (1.0-1)
Description: second
Tag: a::x, a::y, a::z

Package: alpha-a
Source: alpha
Section: misc
Description: first of two equals
Tag: a::x, a::y,
 a::z

Package: beta
Description: short
Description-en: short
 and long
 .
 text
Tag: a::x, a::y, a::z, a::w

Package: gamma
Description: no tags at all
"""


def test_the_index_gives_one_package_for_each_source(script):
    assert script.read_index(INDEX) == [
        script.Package("alpha-a", "alpha", ("a::x", "a::y", "a::z"), "first of two equals"),
        script.Package("beta", "beta", ("a::w", "a::x", "a::y", "a::z"), "short and long . text"),
    ]


def test_a_vocabulary_has_the_texts_of_tags_only(script):
    text = "Facet: a\nDescription: A facet\n\nTag: a::x\nDescription: An x\n Longer.\n\nTag: a::y\n"
    assert script.read_vocabulary(text) == {"a::x": "An x Longer.", "a::y": ""}


def test_a_file_over_the_limit_is_refused_and_removed(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "MAX_BYTES", 100)
    output = tmp_path / "large.npz"
    with pytest.raises(SystemExit, match="1"):
        script.main(["--tables", str(small_tables(tmp_path)), "--output", str(output)])
    assert "over the limit of 100" in capsys.readouterr().err
    assert not output.exists()


@over(
    lines(
        "arguments message",
        (["--tables", "nowhere"], "no folder nowhere"),
        (["--vocabulary", "v"], "goes with --from-apt"),
        (["--from-apt", "--vocabulary", "nowhere"], "no vocabulary at nowhere"),
    )
)
def test_bad_arguments_get_one_clear_sentence(script, arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(script.shutil, "which", lambda command: command)
    with pytest.raises(SystemExit, match="2"):
        script.main(arguments)
    assert message in capsys.readouterr().err


def test_names_that_contradict_the_tree_are_refused(script, tmp_path, capsys):
    folder = small_tables(tmp_path)
    edges = (folder / "edges.tsv").read_text(encoding="utf-8").replace("x11\tx11::font\n", "")
    (folder / "edges.tsv").write_text(edges, encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        script.main(["--tables", str(folder), "--output", str(tmp_path / "out.npz")])
    assert "x11::font" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(
    not TABLES.is_dir(), reason=f"the tables of all tagged packages are not at {TABLES}"
)
def test_the_embedded_file_is_what_the_script_makes(script, tmp_path):
    output = tmp_path / "debtags.npz"
    script.main(["--tables", str(TABLES), "--output", str(output)])
    with files("dyadlearn.datasets").joinpath("data", "debtags.npz").open("rb") as file:
        embedded = dict(np.load(file))
    made = dict(np.load(output))
    assert made.keys() == embedded.keys()
    for name, array in made.items():
        assert array.dtype == embedded[name].dtype
        assert_array_equal(array, embedded[name])
