"""
Ratings that arrive
===================

The data are 200,000 synthetic ratings of 600 films by 8,000 users. A model is fitted to half of the
users, predicts for new users, learns their ratings and those that arrive later, and recommends ten
films to each user.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dyadlearn import KroneckerRidge, OnlineTwoStepRidge, PairRegressor, load, recommend, save

# %%
# Users and films have features, which explain a part of the ratings. Few films have many ratings.
# Ratings are whole stars, from one to five.
n_users = 8_000
n_films = 600
n_ratings = 200_000
rng = np.random.default_rng(0)
user_features = rng.normal(size=(n_users, 20))
film_features = rng.normal(size=(n_films, 12))
taste = 0.5 * user_features @ rng.normal(size=(20, 12)) @ film_features.T / np.sqrt(20 * 12)
quality = 0.25 * film_features @ rng.normal(size=12) / np.sqrt(12) + 0.25 * rng.normal(size=n_films)
truth = 3.2 + taste + quality + 0.3 * rng.normal(size=(n_users, 1))

activity = rng.lognormal(sigma=0.8, size=n_users)
popularity = np.arange(1, n_films + 1) ** -0.8
chance = np.outer(activity / activity.sum(), popularity / popularity.sum()).ravel()
cells = rng.choice(n_users * n_films, size=n_ratings, replace=False, p=chance)
stars = np.clip(np.round(truth.ravel()[cells] + 0.8 * rng.normal(size=n_ratings)), 1, 5)

names = [f"user {i}" for i in range(n_users)]
titles = [f"film {j}" for j in range(n_films)]
users = pd.DataFrame(user_features, index=names)
ratings = pd.DataFrame({"user": cells // n_films, "film": cells % n_films, "stars": stars})
print(ratings.head(3))
counts = ratings.film.value_counts()
print(f"{n_ratings / (n_users * n_films):.1%} of all pairs are rated")
print(f"each film has {counts.min()} to {counts.max()} ratings")

# %%
# A batch is a grid of its users and all films, with NaN for pairs without a rating. A film is
# described by its features and by an indicator, which represents the part of its quality that is
# not in the features.
films = pd.DataFrame(np.hstack([film_features, np.eye(n_films)]), index=titles)


def grid(rows, batch):
    """Return some of the ratings of a batch of users, with the ids of both."""
    own = ratings[rows & ratings.user.between(batch.start, batch.stop - 1)]
    found = np.full((batch.stop - batch.start, n_films), np.nan)
    found[own.user - batch.start, own.film] = own.stars
    return pd.DataFrame(found, index=names[batch], columns=titles)


# %%
# A fifth of the ratings arrives late, when the model already knows their users.
late = pd.Series(rng.random(n_ratings) < 0.2)
first = slice(0, 4000)
model = OnlineTwoStepRidge(alpha=10.0, task_alpha=1.0, keep_labels=True)
model.fit(users[first], grid(~late, first), tasks=films)
print(f"{model.n_seen_:,} users, {model.n_tasks_} films")

# %%
# New users arrive in batches of 800. The model predicts their ratings from their features, and then
# learns these ratings. The baseline is the mean of each film, shrunk to the mean of all ratings.
# The expected rating, from which the ratings were drawn, is the best possible prediction.


def item_means(seen):
    """Return the mean of each film so far."""
    mean = seen.stars.mean()
    own = seen.groupby("film").stars.agg(["sum", "count"]).reindex(range(n_films), fill_value=0)
    return mean + ((own["sum"] - mean * own["count"]) / (own["count"] + 5)).to_numpy()


def error(predicted, asked):
    """Return the root mean squared error for some ratings of a batch."""
    return np.sqrt(np.mean((asked.stars - predicted) ** 2))


arrived = []
errors = {"item means": [], "two-step ridge": [], "expected rating": []}
for start in range(first.stop, n_users, 800):
    batch = slice(start, start + 800)
    asked = ratings[ratings.user.between(batch.start, batch.stop - 1) & ~late]
    means = item_means(ratings[(ratings.user < start) & ~late])
    predicted = model.predict(users[batch]).to_numpy()
    errors["item means"].append(error(means[asked.film], asked))
    errors["two-step ridge"].append(error(predicted[asked.user - start, asked.film], asked))
    errors["expected rating"].append(error(truth[asked.user, asked.film], asked))
    model.partial_fit(users[batch], grid(~late, batch))
    arrived.append(start)

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, colour in zip(errors, ("#b0b0b0", "#1668b0", "black"), strict=True):
    ax.plot(arrived, errors[name], "o-", color=colour, label=name)
ax.set(xlabel="number of known users", ylabel="error in stars", ylim=(0.7, None))
_ = ax.legend()

# %%
# The late ratings are by known users. The mean of a user's earlier ratings shows how generous the
# user is. Two-step ridge does not use it, because it is not in the features. ``row_alpha`` adds a
# term for each known user: a ridge regression of the residuals of the user's ratings on the
# features of the films. It takes effect at the next prediction.
asked = ratings[late]
seen = ratings[~late]
means = item_means(seen)
predicted = model.predict(users).to_numpy()
with_terms = model.set_params(row_alpha=10.0).predict(users).to_numpy()
offset = (
    (seen.stars - means[seen.film])
    .groupby(seen.user)
    .agg(["sum", "count"])
    .reindex(range(n_users), fill_value=0)
)
generous = (offset["sum"] / (offset["count"] + 5)).to_numpy()

# %%
# Kronecker ridge regression learns from the same ratings as a long table. It is solved for the
# observed pairs, and the grid is never formed.
table = pd.DataFrame({"user": np.array(names)[ratings.user], "film": np.array(titles)[ratings.film]})
kronecker = PairRegressor(KroneckerRidge(alpha=100.0), instances=users, tasks=films)
kronecker.fit(table[~late], ratings.stars[~late])

for name, found in (
    ("item means", means[asked.film]),
    ("item and user means", means[asked.film] + generous[asked.user]),
    ("two-step ridge", predicted[asked.user, asked.film]),
    ("two-step ridge and user means", predicted[asked.user, asked.film] + generous[asked.user]),
    ("two-step ridge with terms", with_terms[asked.user, asked.film]),
    ("Kronecker ridge", kronecker.predict(table[late])),
    ("expected rating", truth[asked.user, asked.film]),
):
    print(f"{name:<30} {error(found, asked):.3f}")

# %%
# Now the model learns the late ratings. With ``known="replace"`` the rows of known users are
# updated: a new rating replaces an old one of the same pair, and all other ratings stay.
everybody = slice(0, n_users)
for start in range(0, n_users, 2000):
    batch = slice(start, start + 2000)
    model.partial_fit(users[batch], grid(late, batch), known="replace")

# %%
# The result equals a fit to all ratings, in whatever order they arrived.
anew = OnlineTwoStepRidge(alpha=10.0, task_alpha=1.0, keep_labels=True, row_alpha=10.0)
anew.fit(users, grid(late | ~late, everybody), tasks=films)
print(f"largest difference: {np.abs(model.predict(users) - anew.predict(users)).to_numpy().max():.0e} stars")

# %%
# ``recommend`` lists ten films that the user has not rated, without forming a grid of predictions.
# A new user is given by features.
lists = recommend(model, instance=names, n=10, sides=("user", "film"))
print(lists)
print(lists.frame().head(3))
somebody = pd.DataFrame(rng.normal(size=(1, 20)), index=["somebody new"])
print(recommend(model, X=somebody, n=3, sides=("user", "film")).ids)

# %%
# The lists are scored by the expected ratings of the films on them.
rated = np.zeros((n_users, n_films), dtype=bool)
rated[ratings.user, ratings.film] = True
place = {title: j for j, title in enumerate(titles)}


def worth(films_of_each):
    """Return the mean of the expected ratings of the films on all lists."""
    return np.take_along_axis(truth, films_of_each, axis=1).mean()


offered = {
    "any film": truth[~rated].mean(),
    "best item means": worth(np.argsort(np.where(rated, np.inf, -item_means(ratings)), axis=1)[:, :10]),
    "recommend": worth(np.array([[place[title] for title in own] for own in lists.ids])),
    "expected rating": worth(np.argsort(np.where(rated, np.inf, -truth), axis=1)[:, :10]),
}
figure, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
ax.barh(list(offered), list(offered.values()), color=["#b0b0b0", "#b0b0b0", "#1668b0", "black"])
ax.bar_label(ax.containers[0], fmt="%.2f", padding=3)
ax.invert_yaxis()
_ = ax.set(xlabel="mean of the expected ratings of ten films", xlim=(3, 5.2))

# %%
# :ref:`A service <sphx_glr_gallery_serve_fastapi.py>` can load the model from a file, return lists
# for known and new users over HTTP, and learn ratings that arrive.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "ratings.dyad")
    save(model, path)
    print(f"{path.stat().st_size / 2**20:.0f} MiB")
    print(recommend(load(path), instance="user 7", n=3, sides=("user", "film")))
