"""``dyadlearn update``: an online model learns rows and columns, and its file is never half of it."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

from dyadlearn import TwoStepRidge, load


@pytest.fixture
def parts(tables, put):
    """Files of the first 8 users and 5 items, and of all that comes later."""
    folder, users, items = tables.folder, tables.users, tables.items
    features, task_features = ["age", "height", "mood"], ["price", "size"]
    return {
        "labels": put(folder / "l0.csv", users[:8], items[:5], tables.Y[:8, :5]),
        "more_labels": put(folder / "l1.csv", users[:7:-1], items[4::-1], tables.Y[:7:-1, 4::-1]),
        "more_users": put(folder / "u1.csv", users[8:], features, tables.X[8:]),
        "new_labels": put(folder / "l2.csv", users, items[5:], tables.Y[:, 5:]),
        "new_items": put(folder / "i2.csv", items[5:], task_features, tables.T[5:]),
        "half_labels": put(folder / "l3.csv", users[:6], items[5:], tables.Y[:6, 5:]),
        "half_users": put(folder / "u3.csv", users[:6], features, tables.X[:6]),
        "rest_labels": put(folder / "l4.csv", users[6:], items[5:], tables.Y[6:, 5:]),
        "rest_users": put(folder / "u4.csv", users[6:], features, tables.X[6:]),
    }


@pytest.fixture
def online(tables, parts, run):
    path = tables.folder / "online.dyad"
    words = ["tune", parts["labels"], *tables.sides, "--model", "online", "--alphas", "1", "-o", path, "-q"]
    assert run(*words).code == 0
    return path


def check(path, tables):
    found = load(path)
    twin = TwoStepRidge(found.alpha, found.task_alpha).fit(tables.X, tables.Y, tasks=tables.T)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X), atol=1e-10)
    assert found._learnt.task_ids.labels == tuple(tables.items)


def test_instances_then_tasks(tables, parts, online, run):
    ran = run("update", online, "--instances", parts["more_users"], "--labels", parts["more_labels"])
    assert (ran.code, ran.out) == (0, f"{online} knows 12 instances and 5 tasks now.\n")
    words = ["--tasks", parts["new_items"], "--instances", tables.instances, "--labels", parts["new_labels"]]
    ran = run("update", online, *words, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["instances"], ran.json["tasks"], ran.json["pending_tasks"]) == (12, 8, 0)
    check(online, tables)
    predicted = run("predict", online, "--instances", tables.instances, "--json")
    assert predicted.json["columns"] == tables.items


def test_tasks_in_two_chunks_into_another_file(tables, parts, online, run):
    assert run("update", online, "--instances", parts["more_users"], "--labels", parts["more_labels"], "-q").code == 0
    before, other = online.read_bytes(), tables.folder / "other.dyad"
    words = ["--tasks", parts["new_items"], "--instances", parts["half_users"], "--labels", parts["half_labels"]]
    ran = run("update", online, *words, "-o", other)
    assert ran.code == 0, ran.err
    assert "3 tasks are pending" in ran.err
    assert load(other)._learnt.pending.ids.labels == tuple(tables.items[5:])
    assert online.read_bytes() == before
    refused = run("update", other, "--instances", parts["more_users"], "--labels", parts["more_labels"])
    assert refused.code == 2
    assert "pending" in refused.err
    words = ["--tasks", parts["new_items"], "--instances", parts["rest_users"], "--labels", parts["rest_labels"]]
    assert run("update", other, *words, "-q").code == 0
    check(other, tables)


def test_a_model_without_features_of_tasks_learns_new_columns(tables, parts, run):
    path = tables.folder / "o.dyad"
    words = ["--instances", tables.instances, "--model", "online", "--alphas", "1", "-o", path, "-q"]
    assert run("tune", parts["labels"], *words).code == 0
    assert run("update", path, "--instances", parts["more_users"], "--labels", parts["more_labels"], "-q").code == 0
    assert run("update", path, "--instances", tables.instances, "--labels", parts["new_labels"], "-q").code == 0
    found = load(path)
    twin = TwoStepRidge(found.alpha).fit(tables.X, tables.Y)
    assert_allclose(found.predict(tables.X), twin.predict(tables.X), atol=1e-10)
    refused = run("update", path, "--tasks", parts["new_items"], "--labels", parts["new_labels"])
    assert "made without --tasks" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--labels", "l1.csv"], "There is nothing new"),
        (["--instances", "u1.csv", "--labels", "l2.csv"], "8 of the 12 rows of l2.csv are not in u1.csv: 'u0'"),
        (["--instances", "users.csv", "--labels", "l1.csv"], "needs the labels of all"),
        (["--instances", "users.csv", "--labels", "labels.csv"], "columns of labels.csv not in the tasks of the model"),
        (["--tasks", "items.csv", "--instances", "users.csv", "--labels", "labels.csv"], "are known already"),
    ],
)
def test_what_does_not_fit_changes_nothing(tables, parts, online, run, words, message, monkeypatch):
    monkeypatch.chdir(tables.folder)
    before = online.read_bytes()
    ran = run("update", online, *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert online.read_bytes() == before


def test_other_models_do_not_learn_more(tables, model, parts, run):
    ran = run("update", model, "--instances", parts["more_users"], "--labels", parts["more_labels"])
    assert ran.code == 2
    assert "only models of tune --model online learn more" in ran.err
