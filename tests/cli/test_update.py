"""``dyadlearn update``: an online model learns rows and columns, and its file is never half of it."""

import os
import sys
from contextvars import Context
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from cli.conftest import do
from dyadlearn import TwoStepRegressor, TwoStepRidge, cli, load, save
from dyadlearn.cli import update


@pytest.fixture
def parts(tables, put):
    """Write the first 8 users and 5 items, and all that comes later."""
    _, X, T, Y, users, items = vars(tables).values()
    features = ["age", "height", "mood"]
    put(Path("l0.csv"), users[:8], items[:5], Y[:8, :5])
    put(Path("l1.csv"), users[:7:-1], items[4::-1], Y[:7:-1, 4::-1])
    put(Path("u1.csv"), users[8:], features, X[8:])
    put(Path("l2.csv"), users, items[5:], Y[:, 5:])
    put(Path("i2.csv"), items[5:], ["price", "size"], T[5:])
    put(Path("l3.csv"), users[:6], items[5:], Y[:6, 5:])
    put(Path("u3.csv"), users[:6], features, X[:6])


@pytest.fixture
def online(tables, parts, once):
    words = f"tune l0.csv {tables.sides} --model online --alphas 1 -o online.dyad -q"
    return once("online", tables.folder / "online.dyad", lambda: do(words))


def check(path, tables):
    found = load(path)
    alphas = found.alpha, found.task_alpha
    twin = TwoStepRidge(*alphas, fit_intercept=found.fit_intercept).fit(
        tables.X, tables.Y, tables.T
    )
    assert_allclose(found.predict(tables.X), twin.predict(tables.X), atol=1e-10)
    assert found._learnt.task_ids.labels == tuple(tables.items)


def test_instances_then_tasks(tables, parts, online, run):
    ran = run("update online.dyad --instances u1.csv --labels l1.csv")
    assert (ran.code, ran.out) == (0, "online.dyad knows 12 instances and 5 tasks now.\n")
    ran = run("update online.dyad --tasks i2.csv --instances users.csv --labels l2.csv --json")
    assert (ran.json["instances"], ran.json["tasks"]) == (12, 8)
    check(online, tables)
    assert run("predict online.dyad --instances users.csv --json").json["columns"] == tables.items


def test_new_tasks_need_labels_of_all_instances(tables, parts, online, run):
    assert run("update online.dyad --instances u1.csv --labels l1.csv -q").code == 0
    before = online.read_bytes()
    refused = run("update online.dyad --tasks i2.csv --instances u3.csv --labels l3.csv")
    assert refused.code == 2
    assert "but these are not the 12 that were learned" in refused.err
    words = "--tasks i2.csv --instances users.csv --labels l2.csv -o other.dyad -q"
    assert run(f"update online.dyad {words}").code == 0
    assert online.read_bytes() == before
    check(tables.folder / "other.dyad", tables)


def test_ratings_of_known_users(tables, parts, run):
    """A long table of ratings: new ones, and others for known users, each of a few items only."""
    path = tables.folder / "o.dyad"
    ratings = tables.folder / "today.csv"
    words = f"tune l0.csv {tables.sides} --model online --alphas 1 -o o.dyad -q --keep-labels"
    assert run(words).code == 0
    u, i = tables.users, tables.items
    ratings.write_text(f"user,item,stars\n{u[0]},{i[1]},4\n{u[9]},{i[1]},3\n{u[9]},{i[3]},2\n")
    words = [f"update {path} --labels {ratings} --format long"]
    ran = run(*words, f"--instances {tables.instances} --known replace --json")
    assert (ran.json["instances"], ran.json["tasks"]) == (9, 5)
    assert "10 of 12 instances in" in ran.json["notes"][0]
    assert "has no labels for 3 of 5 tasks: these labels are missing" in ran.json["notes"][-1]
    labels = np.vstack([tables.Y[:8, :5], np.full((1, 5), np.nan)])
    labels[0, 1], labels[8, [1, 3]] = 4.0, (3.0, 2.0)
    X = tables.X[[*range(8), 9]]
    twin = TwoStepRegressor(Ridge(1.0), Ridge(1.0)).fit(X, labels, tables.T[:5])
    assert_allclose(load(path).predict(tables.X), twin.predict(tables.X), rtol=1e-8)


def test_a_model_without_features_of_tasks_learns_new_columns(tables, parts, run):
    words = "--instances users.csv --model online --alphas 1 -o o.dyad -q"
    assert run(f"tune l0.csv {words}").code == 0
    for words in ("--instances u1.csv --labels l1.csv", "--instances users.csv --labels l2.csv"):
        assert run(f"update o.dyad {words} -q").code == 0
    found = load("o.dyad")
    twin = TwoStepRidge(found.alpha).fit(tables.X, tables.Y)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X), atol=1e-10)
    assert "tuned without --tasks" in run("update o.dyad --tasks i2.csv --labels l2.csv").err


# Others at the same time, and interrupts ---------------------------------------------------------


def test_a_file_that_another_process_changed_meanwhile_stays(
    tables, parts, online, run, monkeypatch
):
    read = update.read_labels
    words = ["--instances u1.csv --labels l1.csv -q"]

    def changed(*arguments):
        # In a context of its own, as another process has.
        Context().run(save, load(online).partial_fit(tables.X[:1], tables.Y[:1, :5]), online)
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(update, "read_labels", changed)
        ran = run(f"update {online}", *words)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err == (
            f"dyadlearn: {online} was changed by another process after it was read: nothing was "
            f"written, so run this "
            "again.\n"
        )
        assert load(online).n_seen_ == 9
        # Through a link it is the same file, and another file is another.
        (tables.folder / "link.dyad").symlink_to(online)
        assert run(f"update {online}", *words, f"-o {tables.folder / 'link.dyad'} -f").code == 5
        assert run(f"update {online}", *words, f"-o {tables.folder / 'new.dyad'}").code == 0
    assert run(f"update {online}", *words).code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to write to")
def test_an_output_that_cannot_be_printed_is_told_in_one_line(parts, online, capsys, monkeypatch):
    words = "update online.dyad --instances u1.csv --labels l1.csv --json"
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as stop:
            cli.app(words.split(), prog_name="dyadlearn")
    said = capsys.readouterr().err
    assert (stop.value.code, said) == (4, "dyadlearn: No space left on device.\n")
    assert load(online).n_seen_ == 12
