"""
A service that recommends
=========================

This service returns lists for known and new users over HTTP, and learns ratings that arrive. With
``fastapi`` and
``uvicorn`` installed, start it by ``RATINGS_MODEL=ratings.dyad uvicorn --factory serve_fastapi:make_app``. The file
contains an :class:`~dyadlearn.OnlineTwoStepRidge` that was fitted to frames with ids and
``keep_labels=True``, such as the model of :ref:`ratings that arrive
<sphx_glr_gallery_plot_ratings.py>`. A request costs a few small products. Ratings that arrive are
learned in memory. The model always equals a fit on all ratings. Items with fewer than five ratings
are not recommended: one enthusiastic rating would otherwise put an item first for everybody. A
rating that is not on the scale of the ratings in the file is refused, because a single one of a
million would spoil all lists.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/serve_fastapi.png"

import os
import warnings
from threading import Lock
from typing import Annotated

import numpy as np
import pandas as pd
from fastapi import Body, FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field, FiniteFloat

from dyadlearn import load, recommend
from dyadlearn.exceptions import IdError

Count = Annotated[int, Query(ge=1, le=100)]
Number = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]
Features = Annotated[list[Number], Body(embed=True)]
Ratings = Annotated[dict[str, FiniteFloat], Body(embed=True, min_length=1)]


def make_app(path=None, min_ratings=5, scale=None):
    """Return the service of a model file; items with fewer ratings are not recommended.

    The scale is the lowest and the highest rating; by default those of the ratings in the file.
    """
    app, model, writing = FastAPI(), load(path or os.environ["RATINGS_MODEL"]), Lock()
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    items = model.predict(pd.DataFrame(0.0, ["new"], names)).columns
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the labels are used, and not the TwoStepRidge that was fitted on them
        fitted = model.fitted_
        raters = [set() for _ in items]
    low, high = scale or (np.nanmin(fitted.labels.values), np.nanmax(fitted.labels.values))
    for row, column in zip(*fitted.labels.places, strict=True):
        raters[column].add(fitted.instance_ids.labels[row])

    def row_of(user, features):
        if len(features) != len(names):
            raise ValueError(
                f"features: {len(names)} numbers are expected ({', '.join(map(str, names))}), "
                f"{len(features)} were sent."
            )
        return pd.DataFrame([features], [user], names)

    def rarely_rated(user):
        """Return the pairs of a user and the items that too few users have rated: they are not recommended."""
        return [
            (user, item) for item, users in zip(items, raters, strict=True) if len(users) < min_ratings
        ] or None

    @app.get("/health")
    def health():
        return {"users": model.n_seen_, "items": model.n_tasks_}

    @app.get("/users/{user}")
    def known_user(user: str, k: Count = 10):
        return listed(recommend(model, instance=user, n=k, known=rarely_rated(user)).columns())

    @app.post("/lists")
    def new_user(features: Features, k: Count = 10):
        return listed(recommend(model, X=row_of("new", features), n=k, known=rarely_rated("new")).columns())

    @app.post("/users/{user}")
    def rate(user: str, features: Features, ratings: Ratings):
        if unknown := [item for item in ratings if item not in items]:
            raise IdError(f"There is no item {unknown[0]!r}.")
        for item, rating in ratings.items():
            if not low <= rating <= high:
                raise ValueError(f"{item}: ratings are from {low:g} to {high:g}, {rating:g} was sent.")
        row = row_of(user, features)
        y = pd.Series(ratings, items, float).to_frame(user).T
        with writing:  # others read what was there before, until all is learned
            model.partial_fit(row, y, known="replace")
            for item in ratings:
                raters[items.get_loc(item)].add(user)
        return health()

    @app.exception_handler(ValueError)
    @app.exception_handler(RequestValidationError)
    def refused(_, error):
        first = error.errors()[0] if hasattr(error, "errors") else None
        told = str(error) if first is None else f"{first['loc'][-1]}: {first['msg']}."
        return JSONResponse({"detail": told}, 404 if isinstance(error, IdError) else 422)

    return app


def listed(columns):
    """Return a list of items, best first."""
    return [
        {"item": item, "score": score} for item, score in zip(columns["task"], columns["score"], strict=True)
    ]
