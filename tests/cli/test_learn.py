"""``dyadlearn tune --model learned``: the model it writes is that of the library, and the other commands know it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import LearnedKernelRidge, load, save
from dyadlearn._tables import Ids, Table
from dyadlearn.cli import models
from dyadlearn.kernels.vectors import rbf


@pytest.fixture
def several(tables, put):
    """Files of two descriptions of the users, one a kernel, and of new users, with words that name them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    noise = rng.normal(size=(15, 2))
    X[:12] = tables.X
    names = [*tables.users, "n0", "n1", "n2"]
    K = rbf(X, gamma=0.2)
    folder = tables.folder
    old = tables.users
    new = names[12:]
    put(folder / "noise.csv", old, ["x", "y"], noise[:12])
    put(folder / "sim.csv", old[::-1], old, K[11::-1, :12])
    put(folder / "new_noise.csv", new[::-1], ["y", "x"], noise[12:][::-1, ::-1])
    put(folder / "new_sim.csv", new, old, K[12:, :12])
    words = [
        "--instances",
        f"noise={folder / 'noise.csv'}",
        "--instances",
        f"sim={folder / 'sim.csv'}",
    ]
    asked = [
        "--instances",
        f"sim={folder / 'new_sim.csv'}",
        "--instances",
        f"noise={folder / 'new_noise.csv'}",
    ]
    tables_of = {"noise": noise, "sim": K}
    return words, asked, tables_of


@pytest.fixture(scope="session")
def kept() -> dict[str, bytes]:
    """The content of model files, once they were made."""
    return {}


@pytest.fixture
def learned(tables, several, run, kept):
    """Make a model file for a setting, of two descriptions of the users and one table of the items."""

    def make(setting, *more):
        path = tables.folder / f"{setting}.dyad"
        if setting not in kept:
            words = [
                f"tune --model learned {tables.labels}",
                *several[0],
                f"--tasks {tables.tasks} --setting {setting} --steps 1",
            ]
            ran = run(*words, *more, f"--cv 2 -o {path} -q")
            assert (ran.code, ran.out, ran.err) == (0, "", "")
            kept[setting] = path.read_bytes()
        path.write_bytes(kept[setting])
        return path

    return make


@pytest.mark.parametrize("setting", ["A", "B"])
def test_the_model_is_the_one_the_library_learns(tables, several, learned, run, get, setting):
    path = learned(setting)
    found = load(path)
    _, asked, described = several
    kernels = {"noise": "rbf", "sim": "precomputed"}
    twin = LearnedKernelRidge(kernel=kernels, setting=setting, n_steps=1, cv=2)
    training = {"noise": described["noise"][:12], "sim": described["sim"][:12, :12]}
    twin.fit(training, tables.Y, tasks=tables.T)
    assert_allclose(found.holdout_error_, twin.holdout_error_)
    assert found.weights_["instances"].keys() == twin.weights_["instances"].keys()
    assert_allclose(
        list(found.weights_["instances"].values()),
        list(twin.weights_["instances"].values()),
        rtol=1e-5,
    )
    ran = run(f"predict {path}", *asked, f"-o {tables.folder / 'p.csv'}")
    if setting == "A" and found.n_stages_ > 1:
        assert ran.code == 2
        assert "fit with --stages 1" in ran.err
        return
    new = {"noise": described["noise"][12:], "sim": described["sim"][12:, :12]}
    rows = get(tables.folder / "p.csv")
    assert [row[0] for row in rows[1:]] == ["n0", "n1", "n2"]
    assert_allclose(
        np.array([row[1:] for row in rows[1:]], dtype=float), twin.predict(new), rtol=1e-5
    )


def test_what_people_see(tables, several, run):
    path = tables.folder / "m.dyad"
    ran = run(
        f"tune --model learned {tables.labels}",
        *several[0],
        f"--tasks {tables.tasks} --setting B --steps 2 -o {path}",
    )
    assert ran.code == 0
    assert "12 instances × 8 tasks, 100 % observed" in ran.out
    assert "noise: features, rbf kernel; sim: a precomputed kernel" in ran.out
    assert "held-out error in setting B" in ran.out
    assert "weights of instances" in ran.out
    assert "product of both kernels" in ran.out
    assert "is read as a kernel" in ran.err


def test_what_machines_see(tables, several, run):
    words = [
        f"tune --model learned {tables.labels}",
        *several[0],
        f"--tasks {tables.tasks} --sides user,item --setting A --steps 1 --cv 2",
    ]
    path = tables.folder / "m.dyad"
    found = run(*words, f"--json -q --stages 2 -o {path}").json
    model = load(path)
    assert (found["stages"], found["setting"], found["observed"]) == (model.n_stages_, "A", 96)
    assert found["holdout_error"] == min(found["stage_errors"])
    assert found["stage_errors"] == model.stage_errors_
    # The score can be compared with those of the baselines.
    inspected = run(f"inspect {path} --json").json
    assert (inspected["scoring"], inspected["score"]) == (
        "neg_mean_squared_error",
        -found["holdout_error"],
    )
    assert inspected["baselines"] == pytest.approx(found["baselines"])
    for side in ("instances", "tasks"):
        assert_allclose(sum(found["weights"][side].values()), 1)
        assert found["weights"][side] == pytest.approx(model.weights_[side])
        assert found["exponents"][side] == model.exponents_[side]
    assert_allclose(sum(found["shares"].values()), 1)
    assert found["baselines"].keys() == {"grand_mean", "instance_means", "task_means", "additive"}
    assert found["sides"] == ["user", "item"]
    ran = run(*words, f"--force --stages 1 --scoring r2 -o {path}")
    assert "r2 in setting A" in ran.out
    assert run(f"inspect {path} --json").json["score"] == load(path).holdout_score_


def test_one_table_a_side_and_a_long_table_of_labels(tables, run):
    long = tables.folder / "long.csv"
    lines = [
        f"{u},{i},{tables.Y[a, b]}"
        for a, u in enumerate(tables.users)
        for b, i in enumerate(tables.items)
    ]
    long.write_text(
        "user,item,likes\n" + "\n".join(line for place, line in enumerate(lines) if place % 5)
    )
    path = tables.folder / "m.dyad"
    words = [
        f"tune --model learned {long} {tables.sides} --kernel linear --task-kernel rbf:gamma=0.5 --steps 2"
    ]
    ran = run(*words, f"--stages 1 --cv 3 --seed 4 --shrinkage 0 --no-normalize -o {path} --json")
    assert ran.code == 0, ran.err
    assert ran.json["observed"] == 76
    found = load(path)
    assert found.get_params()["kernel"] == "linear"
    assert found.get_params()["task_kernel"] == ("rbf", {"gamma": 0.5})
    assert (found.random_state, found.shrinkage, found.normalize) == (4, 0.0, False)
    new = run(f"predict {path} --instances {tables.instances} --tasks {tables.tasks} --long --json")
    assert len(new.json["predictions"]["prediction"]) == 96


def test_known_pairs_of_a_model_with_profiles(tables, several, run, put):
    path = tables.folder / "m.dyad"
    noise = several[0][:2]
    # What features do not tell of the users, their other labels do.
    put(tables.labels, tables.users, tables.items, tables.X @ np.ones((3, 2)) @ tables.T.T)
    words = [
        f"tune --model learned {tables.labels}",
        *noise,
        f"--tasks {tables.tasks} --stages 2 --steps 3 --cv 2 --setting A",
    ]
    assert run(*words, f"-o {path} -q").code == 0
    model = load(path)
    assert model.n_stages_ == 2
    ran = run(f"predict {path}", *noise, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["rows"] == tables.users
    known = {"noise": Table(several[2]["noise"][:12], Ids(tuple(tables.users)))}
    assert_allclose(ran.json["predictions"], model.predict(known), rtol=1e-6)
    refused = run(f"predict {path} --instances", f"noise={tables.folder / 'new_noise.csv'}")
    assert (refused.code, refused.out) == (2, "")
    assert "leave --instances out, or fit with --stages 1" in refused.err
    assert run(f"evaluate {path} --setting B").code == 2


def test_the_other_commands_take_such_a_file(tables, several, learned, run):
    path = learned("B")
    asked = several[1]
    seen = run(f"inspect {path}")
    assert "weights of instances" in seen.out
    assert "instances noise=noise.csv sim=sim.csv" in seen.out
    assert run(f"inspect {path} --json").json["weights"] == load(path).weights_
    scores = {}
    for nested in ("--nested", "--no-nested"):
        ran = run(f"evaluate {path} --setting B --scoring neg_mean_squared_error {nested} --json")
        assert ran.code == 0, ran.err
        (row,) = ran.json["settings"]
        scores[nested] = row["scores"]["neg_mean_squared_error"]
        assert ("learned again" in row["method"]) is (nested == "--nested")
    assert_allclose(scores["--no-nested"], -load(path).holdout_error_)
    assert scores["--nested"] != scores["--no-nested"]
    why = [f"--instances {asked[1]} --instances {asked[3]} --instance n1 --task i2"]
    explained = run(f"predict --explain {path}", *why, "--json").json
    predicted = run(f"predict {path}", *asked, "--json").json["predictions"]
    assert_allclose(explained["prediction"], predicted[1][2])
    best = run(f"recommend {path} --new {asked[1]} --new {asked[3]} -n 1 --json").json["best"]
    assert [row["instance"] for row in best] == ["n0", "n1", "n2"]
    bounds = run(f"predict {path}", *asked, "--interval 0.9 --json").json["predictions"]
    assert all(low < high for low, high in zip(bounds["lower"], bounds["upper"], strict=True))
    assert run("screen", path, "-n", 2).code == 0
    page = tables.folder / "r.html"
    assert run("report", path, "-o", page, "--setting", "B", "-q").code == 0
    assert "learned again without each fold" in page.read_text(encoding="utf-8")
    assert run("report", path, "-o", page, "--no-nested", "-f", "-q").code == 0
    assert "so the scores are optimistic" in page.read_text(encoding="utf-8")
    refused = run("update", path, "--labels", tables.labels, "--instances", tables.instances)
    assert (refused.code, refused.out) == (2, "")


def test_a_model_that_was_saved_in_python(tables, several, run):
    path = tables.folder / "m.dyad"
    _, asked, described = several
    training = {"noise": described["noise"][:12], "sim": described["sim"][:12, :12]}
    model = LearnedKernelRidge(
        kernel={"noise": "rbf", "sim": "precomputed"}, setting="B", n_steps=2
    )
    save(model.fit(training, tables.Y), path)
    found = models.load_model(path)
    assert found.recipes[1] is None
    assert {name: recipe.kind for name, recipe in found.recipes[0].items()} == {
        "noise": "features",
        "sim": "kernel",
    }
    ran = run(f"predict {path}", *asked, "--json -q")
    assert ran.code == 0, ran.err
    plain = LearnedKernelRidge(kernel="precomputed", setting="B", n_steps=2).fit(
        training["sim"], tables.Y
    )
    save(plain, path)
    assert models.load_model(path).recipes[0][""].kind == "kernel"
    assert "features" not in run(f"inspect {path}").out.partition("weigh")[0]


REFUSED = [
    (["--instances users.csv"], "use --instances noise=FILE; found a file without a name"),
    (
        ["--instances size=new_noise.csv"],
        "The model was trained on files with the names 'noise', 'sim'",
    ),
    (
        ["--instances noise=new_noise.csv --instances sim=sim.csv"],
        "The ids of sim.csv and new_noise.csv do not match",
    ),
]


def test_new_users_who_bring_other_descriptions(tables, learned, run, monkeypatch):
    path = learned("B")
    monkeypatch.chdir(tables.folder)
    for words, message in REFUSED:
        ran = run(f"predict {path}", *words)
        assert (ran.code, ran.out) == (2, ""), words
        assert message in ran.err, words


def test_new_users_who_lack_descriptions(tables, several, learned, run, put, monkeypatch):
    path = learned("B")
    model = load(path)
    monkeypatch.chdir(tables.folder)
    noise = several[2]["noise"][12:].copy()
    sim = several[2]["sim"][12:, :12]

    def write_noise():
        cells = np.where(np.isnan(noise), "", noise.astype(str))
        put(tables.folder / "empty.csv", ["n0", "n1", "n2"], ["x", "y"], cells)

    ran = run(f"predict {path} --instances sim=new_sim.csv --json")
    assert_allclose(ran.json["predictions"], model.predict({"sim": sim}), rtol=1e-10)
    (note,) = ran.json["notes"]
    assert note == "Some rows of --instances lack 'noise': predicted from their other descriptions."
    noise[1] = np.nan
    write_noise()
    files = ["--instances sim=new_sim.csv --instances noise=empty.csv"]
    ran = run(f"predict {path}", *files, "--json")
    expected = model.predict({"noise": noise, "sim": sim})
    assert_allclose(ran.json["predictions"], expected, rtol=1e-10)
    assert ran.json["notes"] == [note]
    best = run(f"recommend {path} --new sim=new_sim.csv -n 1 --json")
    assert best.json["notes"] == [note.replace("--instances", "--new")]
    for words, message in (
        (
            ["--instances noise=empty.csv"],
            "has no description of row 'n1': give one of 'noise', 'sim'",
        ),
        ([*files, "--interval 0.9"], "need all descriptions: give 'noise' for each row"),
    ):
        ran = run(f"predict {path}", *words)
        assert (ran.code, ran.out, message in ran.err) == (2, "", True), words
    noise[1, 0] = 0.0
    write_noise()
    ran = run(f"predict {path}", *files)
    assert (ran.code, "'noise' has NaN in part of row 'n1': fill it in" in ran.err) == (2, True)


WRONG = [
    (["--stages some"], "--stages must be a whole number or auto, found 'some'"),
    (["--stages 2 --setting D"], "set --stages 1"),
    (["--shrinkage -1"], "shrinkage"),
    (["--kernel third=rbf"], "names the file 'third'"),
    (["--instances-smiles structure"], "write it as --instances-smiles noise=structure"),
    (["--instances more.csv"], "--instances is given 3 times"),
    (["--setting E"], "E"),
    (["--average task"], "--average task is that of a score"),
]


def test_the_score_has_its_average(tables, several, run):
    path = tables.folder / "m.dyad"
    words = ["tune --model learned", tables.labels, *several[0], f"--tasks {tables.tasks}"]
    ran = run(*words, f"--setting C --scoring pearson --average task --steps 2 -o {path}")
    assert ran.code == 0, ran.err
    assert "pearson in setting C, mean over tasks" in ran.out
    model = load(path)
    assert (model.scoring, model.average) == ("pearson", "task")
    [again] = run("evaluate", path, "--setting C --no-nested --json").json["settings"]
    assert_allclose(again["scores"]["pearson"], model.holdout_score_)


def test_wrong_words(tables, several, run):
    path = tables.folder / "m.dyad"
    for words, message in WRONG:
        ran = run(
            f"tune --model learned {tables.labels}",
            *several[0],
            f"--tasks {tables.tasks} -o {path}",
            *words,
        )
        assert (ran.code, ran.out) == (2, ""), words
        assert message in ran.err, words
        assert not path.exists()
