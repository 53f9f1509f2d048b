"""The service of the gallery, over HTTP."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from dyadlearn import OnlineTwoStepRidge, recommend, save

# The test client is about to change the library that it asks with.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx`")

SERVICE = Path(__file__).parents[1] / "examples" / "serve_fastapi.py"
ITEMS = [f"film {j}" for j in range(9)]


def data():
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        rng.normal(size=(20, 3)),
        index=[f"u{i}" for i in range(20)],
        columns=["age", "north", "east"],
    )
    films = pd.DataFrame(rng.normal(size=(9, 2)), index=ITEMS)
    Y = 3 + users.to_numpy() @ rng.normal(size=(3, 2)) @ films.to_numpy().T
    Y[rng.random(Y.shape) < 0.5] = np.nan
    return users, films, pd.DataFrame(Y, index=users.index, columns=ITEMS)


def model_of(users, films, Y):
    return OnlineTwoStepRidge(keep_labels=True).fit(users, Y, films)


@pytest.fixture
def service():
    # Imported here, by the one worker that runs these tests.
    pytest.importorskip(
        "fastapi", reason="fastapi is not installed: the example service is not tested"
    )
    pytest.importorskip("httpx", reason="httpx is not installed: the example service is not tested")
    spec = importlib.util.spec_from_file_location("serve_fastapi", SERVICE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(tmp_path, service):
    from fastapi.testclient import TestClient

    users, films, Y = data()
    save(model_of(users[:15], films, Y[:15]), tmp_path / "ratings.dyad")
    return TestClient(service.make_app(tmp_path / "ratings.dyad"))


def same(answer, expected):
    assert answer.status_code == 200
    assert [each["item"] for each in answer.json()] == list(expected.columns()["task"])
    assert_allclose(
        [each["score"] for each in answer.json()], expected.columns()["score"], rtol=1e-9
    )


def test_lists_for_known_and_new_users(client):
    users, films, Y = data()
    model = model_of(users[:15], films, Y[:15])
    assert client.get("/health").json() == {"users": 15, "items": 9}
    found = client.get("/users/u3?k=2")
    same(found, recommend(model, instance="u3", n=2))
    assert not set(Y.columns[Y.loc["u3"].notna()]) & {each["item"] for each in found.json()}
    same(
        client.post("/lists?k=4", json={"features": users.loc["u17"].tolist()}),
        recommend(model, X=users.loc[["u17"]], n=4),
    )


def test_ratings_that_arrive_are_as_if_they_had_been_there(client):
    users, films, Y = data()
    for user, ratings in (("u16", {"film 1": 4.0, "film 5": 2.0}), ("u3", {"film 7": 1.5})):
        answer = client.post(
            f"/users/{user}", json={"features": users.loc[user].tolist(), "ratings": ratings}
        )
        assert answer.status_code == 200
        Y.loc[user] = (
            pd.Series(ratings).reindex(ITEMS).fillna(Y.loc[user] if user == "u3" else np.nan)
        )
    assert answer.json() == {"users": 16, "items": 9}
    there = [*users.index[:15], "u16"]
    model = model_of(users.loc[there], films, Y.loc[there])
    for user in ("u3", "u16", "u0"):
        same(client.get(f"/users/{user}?k=3"), recommend(model, instance=user, n=3))


def test_errors_are_sentences(client):
    features = {"features": [0.1, 0.2, 0.3]}
    for answer, status, words in (
        (client.get("/users/nobody"), 404, "no instances with the ids 'nobody'"),
        (client.get("/users/u3?k=0"), 422, "k: Input should be greater than or equal to 1."),
        (
            client.post("/lists", json={"features": [1.0]}),
            422,
            "features: 3 numbers are expected (age, north, east), 1 were sent.",
        ),
        (
            client.post("/users/u3", json={**features, "ratings": {"film 99": 1.0}}),
            404,
            "no item 'film 99'",
        ),
        (
            client.post(
                "/users/u3", json={**features, "ratings": {"film 0": 2.0, "film 1": 1e308}}
            ),
            422,
            "film 1: ratings are from ",
        ),
        (
            client.post("/lists", json={"features": [0.1, 1e308, 0.2]}),
            422,
            "1: Input should be less than or equal",
        ),
    ):
        assert answer.status_code == status
        assert words in answer.json()["detail"]
    assert client.get("/health").json() == {"users": 15, "items": 9}
