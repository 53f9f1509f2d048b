"""An ecologist's way: which parasites live on which hosts, the hosts known by their taxonomy in words."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import TwoStepRidge, load
from dyadlearn._tables import Ids, Table
from dyadlearn.cli.entities import Recipe, _cut, _of_ranks
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels import taxonomy_kernel

RANKS = ("class", "order", "family", "genus")
HOSTS = {
    "cat": ("Mammalia", "Carnivora", "Felidae", "Felis"),
    "lynx": ("Mammalia", "Carnivora", "Felidae", "Lynx"),
    "dog": ("Mammalia", "Carnivora", "Canidae", "Canis"),
    "fox": ("Mammalia", "Carnivora", "Canidae", "Vulpes"),
    "hare": ("Mammalia", "Lagomorpha", "Leporidae", "Lepus"),
    "crow": ("Aves", "Passeriformes", "Corvidae", "Corvus"),
    "jay": ("Aves", "Passeriformes", "Corvidae", "NA"),
    "gull": ("Aves", "Charadriiformes", "Laridae", ""),
}
NEW = {"wolf": ("Mammalia", "Carnivora", "Canidae", "Canis"), "newt": ("Amphibia", "Urodela", "", "")}
PARASITES = ("flea", "tick", "louse", "mite")


def paths(table, ranks=RANKS):
    return [[name if name != "NA" else "" for rank, name in zip(RANKS, row, strict=True) if rank in ranks]
            for row in table.values()]  # fmt: skip


@pytest.fixture
def folder(tmp_path, put, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = np.random.default_rng(0).normal(size=(len(HOSTS), len(PARASITES))).round(3)
    names = list(HOSTS)[::-1]
    put(tmp_path / "labels.csv", names, PARASITES, labels)
    put(tmp_path / "traits.csv", PARASITES, ("size", "legs"), [[1, 6], [4, 8], [2, 6], [0.4, 8]])
    put(tmp_path / "hosts.csv", list(HOSTS), RANKS, list(HOSTS.values()))
    # New hosts have their ranks in another order, and a column more.
    put(tmp_path / "new.csv", list(NEW), (*RANKS[::-1], "mass"), [(*row[::-1], 3.5) for row in NEW.values()])
    return tmp_path, labels[::-1]


def test_from_a_table_of_ranks_to_predictions_for_new_species(folder, run, get):
    _, labels = folder
    common = ["labels.csv", "--instances", "hosts.csv", "--kernel", "taxonomy", "--tasks", "traits.csv"]
    done = run("tune", *common, "--alphas", "0.5", "--task-alphas", "2", "--setting", "D", "-o", "model.dyad", "--json")
    assert done.code == 0, done.err
    done = run("predict", "model.dyad", "--instances", "new.csv", "-o", "p.csv")
    assert done.code == 0, done.err
    assert "1 columns of new.csv ('mass') are unknown to the model" in done.err
    lines = get(folder[0] / "p.csv")
    assert [line[0] for line in lines[1:]] == list(NEW)
    K, block = taxonomy_kernel(paths(HOSTS)), taxonomy_kernel(paths(NEW), paths(HOSTS))
    tasks = np.array([[1, 6], [4, 8], [2, 6], [0.4, 8]])
    twin = TwoStepRidge(kernel="precomputed", alpha=0.5, task_alpha=2).fit(K, labels, tasks=tasks)
    assert_allclose(np.array([line[1:] for line in lines[1:]], dtype=float), twin.predict(block), rtol=1e-9)
    assert_array_equal(block[1], np.zeros(8))  # nothing is known of amphibians
    assert "ranks (class, order, family, genus), taxonomy kernel" in run("inspect", "model.dyad").out
    assert run("evaluate", "model.dyad", "-q").code == 0
    assert_allclose(load("model.dyad").predict(block[:, ::-1]), twin.predict(block), rtol=1e-9)


def test_options_choose_and_weigh_the_ranks(folder, run, get):
    kernel = "taxonomy:ranks=class/family,weights=1/3,normalized=false"
    common = ["labels.csv", "--instances", "hosts.csv", "--kernel", kernel, "--setting", "B", "--model", "independent"]
    done = run("tune", *common, "--alphas", "0.5", "-o", "model.dyad")
    assert done.code == 0, done.err
    assert run("predict", "model.dyad", "--instances", "new.csv", "-o", "p.csv", "-q").code == 0
    options = {"weights": (1, 3), "normalized": False}
    known, new = (paths(table, ("class", "family")) for table in (HOSTS, NEW))
    twin = TwoStepRidge(kernel="precomputed", alpha=0.5).fit(taxonomy_kernel(known, **options), folder[1])
    found = np.array([line[1:] for line in get(folder[0] / "p.csv")[1:]], dtype=float)
    assert_allclose(found, twin.predict(taxonomy_kernel(new, known, **options)), rtol=1e-9)


def test_a_taxonomy_beside_other_descriptions(folder, run, put):
    tmp_path, _ = folder
    put(tmp_path / "mass.csv", list(HOSTS), ("mass", "tail"), np.random.default_rng(1).random((8, 2)))
    common = ["labels.csv", "--instances", "place=hosts.csv", "--instances", "body=mass.csv"]
    done = run(
        "tune", "--model", "learned", *common, "--kernel", "place=taxonomy", "--setting", "B", "-o", "model.dyad", "-q"
    )
    assert done.code == 0, done.err
    put(tmp_path / "new_mass.csv", list(NEW), ("mass", "tail"), [[0.2, 0.3], [0.1, 0.9]])
    new = ["--instances", "place=new.csv", "--instances", "body=new_mass.csv"]
    assert run("predict", "model.dyad", *new, "-o", "p.csv", "-q").code == 0


def test_wrong_turns(folder, run, put):
    tmp_path, _ = folder
    tune = [
        "tune",
        "labels.csv",
        "--instances",
        "hosts.csv",
        "--setting",
        "B",
        "-o",
        "model.dyad",
        "--model",
        "independent",
    ]
    cases = [
        ("taxonomy:rank=order", "takes ranks, weights and normalized, found 'rank'"),
        ("taxonomy:ranks=order/tribe", "'tribe' not among the ids of the file's ranks"),
        ("taxonomy:weights=1/x/1/1", "weights of the kernel taxonomy are numbers, found '1/x/1/1'"),
        ("taxonomy:weights=2", "weights must hold one number for each of 4 ranks, found 1"),
    ]
    for kernel, message in cases:
        done = run(*tune, "--kernel", kernel)
        assert done.code == 2, kernel
        assert message in " ".join(done.err.split())
    assert not (tmp_path / "model.dyad").exists()
    assert run(*tune, "--kernel", "taxonomy", "-q").code == 0
    put(tmp_path / "short.csv", list(NEW), RANKS[:2], [row[:2] for row in NEW.values()])
    done = run("predict", "model.dyad", "--instances", "short.csv")
    assert done.code == 2
    assert "lacks 2 of the 4 columns that the model needs, the ranks: 'family', 'genus'" in " ".join(done.err.split())


def test_ranks_of_those_who_are_left_out_are_forgotten():
    paths = [["Mammalia", "Felis"], ["Aves", "Corvus"], ["Mammalia", "Canis"]]
    recipe = Recipe("taxonomy", "taxonomy", names=["class", "genus"], paths=paths)
    table, left = _cut(Table(taxonomy_kernel(paths)), recipe, np.array([0, 2]))
    assert left.paths == [paths[0], paths[2]]
    assert_array_equal(table.values, taxonomy_kernel(left.paths))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"normalized": "maybe"}, "is normalized=true or false, found 'maybe'"),
        ({"ranks": "class/genus/class"}, "has repeated ids: 'class'"),
    ],
)
def test_options_that_would_be_taken_for_others(option, message):
    table = Table(np.array([["M", "F"], ["A", "C"]], dtype=object), None, Ids(("class", "genus")))
    with pytest.raises((KernelError, IdError), match=message):
        _of_ranks(table, option)
    assert_array_equal(_of_ranks(table, {"normalized": False})[0].values, 2 * np.eye(2))
