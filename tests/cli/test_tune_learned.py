"""``dyadlearn tune --model learned``: the model it writes is that of the library, and the other commands know it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cli.conftest import do, write_csv
from dyadlearn import LearnedKernelRidge, load, save
from dyadlearn._tables import Ids, Table
from dyadlearn.cli import models
from dyadlearn.kernels.vectors import rbf

TWO = "--instances noise=noise.csv --instances sim=sim.csv"
NEW = "--instances sim=new_sim.csv --instances noise=new_noise.csv"
LEARN = f"tune --model learned labels.csv {TWO} --tasks items.csv -o m.dyad"
KERNELS = {"noise": "rbf", "sim": "precomputed"}


def write_several(tables):
    """Write two descriptions of the users, one a kernel, and of new users, and return those of old and new."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    noise = rng.normal(size=(15, 2))
    X[:12] = tables.X
    new = ["n0", "n1", "n2"]
    K = rbf(X, gamma=0.2)
    folder = tables.folder
    old = tables.users
    write_csv(folder / "noise.csv", old, ["x", "y"], noise[:12])
    write_csv(folder / "sim.csv", old[::-1], old, K[11::-1, :12])
    write_csv(folder / "new_noise.csv", new[::-1], ["y", "x"], noise[12:][::-1, ::-1])
    write_csv(folder / "new_sim.csv", new, old, K[12:, :12])
    return [{"noise": noise[rows], "sim": K[rows, :12]} for rows in (slice(12), slice(12, 15))]


@pytest.fixture
def several(tables):
    return write_several(tables)


@pytest.fixture
def learned(tables, several, once):
    """Make a model file for a setting, of two descriptions of the users and one table of the items."""

    def make(setting):
        words = f"{LEARN} --setting {setting} --steps 1 --cv 2 -q"
        return once(f"learned {setting}", tables.folder / "m.dyad", lambda: do(words))

    return make


def test_the_model_is_the_one_the_library_learns(tables, several, learned, run, get):
    found = load(learned("B"))
    old, new = several
    twin = LearnedKernelRidge(kernel=KERNELS, setting="B", n_steps=1, cv=2)
    twin.fit(old, tables.Y, tables.T)
    assert_allclose(found.holdout_error_, twin.holdout_error_)
    assert found.weights_["instances"] == pytest.approx(twin.weights_["instances"], rel=1e-5)
    assert run(f"predict m.dyad {NEW} -o p.csv").code == 0
    rows = get(tables.folder / "p.csv")
    assert [row[0] for row in rows[1:]] == ["n0", "n1", "n2"]
    assert_allclose(
        np.array([row[1:] for row in rows[1:]], dtype=float), twin.predict(new), rtol=1e-5
    )


def test_what_people_see(several, run):
    ran = run(f"{LEARN} --setting B --steps 1 --cv 2")
    assert ran.code == 0
    for words in (
        "12 instances × 8 tasks, 100 % observed",
        "noise: features, rbf kernel; sim: a precomputed kernel",
        "held-out error in setting B",
        "weights of instances",
        "product of both kernels",
    ):
        assert words in ran.out
    assert "is read as a kernel" in ran.err


def test_what_machines_see(several, run):
    words = f"{LEARN} --sides user,item --setting A --steps 1 --cv 2"
    found = run(f"{words} --json -q --stages 2").json
    model = load("m.dyad")
    assert (found["stages"], found["setting"], found["observed"]) == (model.n_stages_, "A", 96)
    assert found["holdout_error"] == min(found["stage_errors"])
    assert found["stage_errors"] == model.stage_errors_
    # The score can be compared with those of the baselines.
    inspected = run("inspect m.dyad --json").json
    assert inspected["scoring"] == "neg_mean_squared_error"
    assert inspected["score"] == -found["holdout_error"]
    assert inspected["baselines"] == pytest.approx(found["baselines"])
    for side in ("instances", "tasks"):
        assert_allclose(sum(found["weights"][side].values()), 1)
        assert found["weights"][side] == pytest.approx(model.weights_[side])
        assert found["exponents"][side] == model.exponents_[side]
    assert_allclose(sum(found["shares"].values()), 1)
    assert found["baselines"].keys() == {"grand_mean", "instance_means", "task_means", "additive"}
    assert found["sides"] == ["user", "item"]
    ran = run(f"{words} --force --stages 1 --scoring pearson --average task")
    assert "pearson in setting A, mean over items" in ran.out
    model = load("m.dyad")
    assert (model.scoring, model.average) == ("pearson", "task")
    assert run("inspect m.dyad --json").json["score"] == model.holdout_score_


def test_one_table_a_side_and_a_long_table_of_labels(tables, run):
    lines = [
        f"{user},{item},{tables.Y[a, b]}"
        for a, user in enumerate(tables.users)
        for b, item in enumerate(tables.items)
        if (8 * a + b) % 5
    ]
    Path("long.csv").write_text("\n".join(["user,item,likes", *lines]))
    words = f"tune --model learned long.csv {tables.sides} --kernel linear -o m.dyad --json"
    more = "--task-kernel rbf:gamma=0.5 --steps 1 --stages 1 --cv 3 --seed 4 --shrinkage 0"
    assert run(words, more, "--no-normalize").json["observed"] == 76
    found = load("m.dyad")
    assert found.kernel == "linear"
    assert found.task_kernel == ("rbf", {"gamma": 0.5})
    assert (found.random_state, found.shrinkage, found.normalize) == (4, 0.0, False)
    new = run(f"predict m.dyad {tables.sides} --long --json")
    assert len(new.json["predictions"]["prediction"]) == 96


def test_known_pairs_of_a_model_with_profiles(tables, several, run, put):
    # What features do not tell of the users, their other labels do.
    put(tables.labels, tables.users, tables.items, tables.X @ np.ones((3, 2)) @ tables.T.T)
    noise = "--instances noise=noise.csv"
    more = "--tasks items.csv --stages 2 --steps 3 --cv 2 --setting A -q -o m.dyad"
    assert run(f"tune --model learned labels.csv {noise} {more}").code == 0
    model = load("m.dyad")
    assert model.n_stages_ == 2
    ran = run("predict m.dyad", noise, "--json")
    assert ran.json["rows"] == tables.users
    known = {"noise": Table(several[0]["noise"], Ids(tuple(tables.users)))}
    assert_allclose(ran.json["predictions"], model.predict(known), rtol=1e-6)
    refused = run("predict m.dyad --instances noise=new_noise.csv")
    assert (refused.code, refused.out) == (2, "")
    assert "leave --instances out, or fit with --stages 1" in refused.err
    assert run("evaluate m.dyad --setting B").code == 2


def test_the_other_commands_take_such_a_file(learned, run):
    path = learned("B")
    seen = run("inspect m.dyad")
    assert "weights of instances" in seen.out
    assert "instances noise=noise.csv sim=sim.csv" in seen.out
    assert run("inspect m.dyad --json").json["weights"] == load(path).weights_
    scores = {}
    for nested in ("--nested", "--no-nested"):
        ran = run("evaluate m.dyad --setting B --scoring neg_mean_squared_error --json", nested)
        (row,) = ran.json["settings"]
        scores[nested] = row["scores"]["neg_mean_squared_error"]
        assert ("learned again" in row["method"]) is (nested == "--nested")
    assert_allclose(scores["--no-nested"], -load(path).holdout_error_)
    assert scores["--nested"] != scores["--no-nested"]
    explained = run(f"predict --explain m.dyad {NEW} --instance n1 --task i2 --json").json
    bounds = run(f"predict m.dyad {NEW} --interval 0.9 --json").json["predictions"]
    assert_allclose(explained["prediction"], bounds["prediction"][10])
    assert all(low < high for low, high in zip(bounds["lower"], bounds["upper"], strict=True))
    best = run("recommend m.dyad -n 1 --json", NEW.replace("--instances", "--new")).json["best"]
    assert [row["instance"] for row in best] == ["n0", "n1", "n2"]
    assert run("screen m.dyad -n 2").code == 0
    for nested, words in (
        ("--nested", "learned again without each fold"),
        ("--no-nested", "so the scores are optimistic"),
    ):
        assert run("report m.dyad -o r.html --setting B -f -q", nested).code == 0
        assert words in Path("r.html").read_text(encoding="utf-8")


def test_a_model_that_was_saved_in_python(tables, several, run):
    options = {"setting": "B", "n_steps": 1, "cv": 2}
    save(LearnedKernelRidge(kernel=KERNELS, **options).fit(several[0], tables.Y), "m.dyad")
    found = models.load_model(Path("m.dyad"))
    assert found.recipes[1] is None
    kinds = {name: recipe.kind for name, recipe in found.recipes[0].items()}
    assert kinds == {"noise": "features", "sim": "kernel"}
    ran = run(f"predict m.dyad {NEW} --json -q")
    assert ran.code == 0, ran.err
    plain = LearnedKernelRidge(kernel="precomputed", **options).fit(several[0]["sim"], tables.Y)
    save(plain, "m.dyad")
    assert models.load_model(Path("m.dyad")).recipes[0][""].kind == "kernel"
    assert "features" not in run("inspect m.dyad").out.partition("weigh")[0]


def test_new_users_who_lack_descriptions(several, learned, run):
    model = load(learned("B"))
    noise, sim = several[1].values()

    def write_noise():
        cells = np.where(np.isnan(noise), "", noise.astype(str))
        write_csv(Path("empty.csv"), ["n0", "n1", "n2"], ["x", "y"], cells)

    ran = run("predict m.dyad --instances sim=new_sim.csv --json")
    assert_allclose(ran.json["predictions"], model.predict({"sim": sim}), rtol=1e-10)
    (note,) = ran.json["notes"]
    assert note == "Some rows of --instances lack 'noise': predicted from their other descriptions."
    noise[1] = np.nan
    write_noise()
    files = "--instances sim=new_sim.csv --instances noise=empty.csv"
    ran = run(f"predict m.dyad {files} --json")
    expected = model.predict({"noise": noise, "sim": sim})
    assert_allclose(ran.json["predictions"], expected, rtol=1e-10)
    assert ran.json["notes"] == [note]
    best = run("recommend m.dyad --new sim=new_sim.csv -n 1 --json")
    assert best.json["notes"] == [note.replace("--instances", "--new")]
    lacking = "has no description of row 'n1': give one of 'noise', 'sim'"
    assert lacking in run("predict m.dyad --instances noise=empty.csv").err
    refused = run(f"predict m.dyad {files} --interval 0.9")
    assert "need all descriptions: give 'noise' for each row" in refused.err
    noise[1, 0] = 0.0
    write_noise()
    ran = run(f"predict m.dyad {files}")
    assert (ran.code, "'noise' has NaN in part of row 'n1': fill it in" in ran.err) == (2, True)
