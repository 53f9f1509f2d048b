"""What the sides are called, from ``dyadlearn tune --sides`` to every later command."""

import pytest

from dyadlearn.store.container import read_container, write_container


@pytest.fixture(scope="module")
def written():
    """The content of the file below and what was said of it, once it was made."""
    return []


@pytest.fixture
def named(tables, run, written):
    """A model file that knows what its sides are called."""
    path = tables.folder / "hosts.dyad"
    if not written:
        words = ["--setting D --alphas 0.1,1,10 --sides", "host, parasite", f"-o {path}"]
        written.extend([run(f"tune {tables.labels} {tables.sides}", *words), path.read_bytes()])
    path.write_bytes(written[1])
    return path, written[0]


def test_names_go_from_tune_to_every_command(tables, named, run, get, new):
    path, tuned = named
    assert "12 hosts × 8 parasites" in tuned.out
    assert "instance" not in tuned.out
    assert run(f"inspect {path} --json").json["sides"] == ["host", "parasite"]
    seen = run(f"inspect {path}").out
    assert "host side" in seen
    assert "parasite ids" in seen
    assert "instance" not in seen
    seen = run(f"evaluate {path}").out
    assert "host" in seen
    assert "instance" not in seen
    assert [row["new"] for row in run(f"evaluate {path} --json").json["settings"]] == [
        "pair",
        "host",
        "parasite",
        "both",
    ]
    out = tables.folder / "list.csv"
    run(f"screen {path} -o {out}")
    assert get(out)[0][:2] == ["host", "parasite"]
    assert "Best parasites for u3" in run(f"recommend {path} --for u3").out
    assert list(run(f"recommend {path} --for u3 --json").json["best"][0]) == [
        "parasite",
        "score",
        "label",
    ]
    assert run(f"recommend {path} --for u3 --side parasite").err == (
        "dyadlearn: The model has no parasite 'u3' (ids are such as 'i0').\n"
    )
    assert "--side must be host or parasite" in run(f"recommend {path} --for u3 --side row").err
    run(f"recommend {path} --pairs -o {out} -f")
    assert get(out)[0] == ["host", "parasite", "score", "label"]
    assert "Best parasites for each of 1 new hosts" in run(f"recommend {path} --new {new}").out


@pytest.fixture
def new(tables, put):
    """Write the features of one new instance, and return their path."""
    return put(tables.folder / "new.csv", ["n0"], ["age", "height", "mood"], tables.X[:1])


def test_predictions_have_the_names_that_were_given(tables, named, model, run, get, new):
    out = tables.folder / "predictions.csv"
    cases = [
        (model, [], ["instance", "task"]),
        (named[0], [], ["host", "parasite"]),
        (named[0], ["--sides user,prediction"], ["user", "prediction_"]),
    ]
    for path, words, headings in cases:
        run(f"predict {path} --instances {new}", *words, f"--long -o {out} -f")
        assert get(out)[0] == [*headings, "prediction"]
        run(f"predict {path} --instances {new}", *words, f"-o {out} -f")
        assert get(out)[0] == [headings[0], *tables.items]


def test_an_update_keeps_the_names(tables, run, put, new):
    path = tables.folder / "o.dyad"
    words = [f"--model online --alphas 0.1,1,10 --sides user,film -o {path} -q"]
    assert run(f"tune {tables.labels} {tables.sides}", *words).code == 0
    labels = put(tables.folder / "their.csv", ["n0"], tables.items, tables.Y[:1])
    assert run(f"update {path} --instances {new} --labels {labels}").code == 0
    assert run(f"inspect {path} --json").json["sides"] == ["user", "film"]


def test_files_without_names_and_with_forged_ones(named, run):
    path, _ = named
    header, arrays = read_container(path)
    about = header["command_line"]
    for sides in (["<script>", "x"], ["a"], "ab", 7, ["a\u202eb", "c"], ["a", "a"], {"a": "b"}):
        write_container(path, {**header, "command_line": {**about, "sides": sides}}, arrays)
        ran = run(f"inspect {path}")
        assert (ran.code, "is damaged" in ran.err) == (3, True)
    older = {name: value for name, value in about.items() if name != "sides"}
    write_container(path, {**header, "command_line": older}, arrays)
    assert run(f"inspect {path} --json").json["sides"] is None
    assert "instance ids" in run(f"inspect {path}").out
