"""What pictures call the sides."""

from __future__ import annotations

import numpy as np
import pytest

from dyadlearn import TwoStepRidge, TwoStepRidgeCV
from dyadlearn.plots import HoldoutDisplay, LandscapeDisplay

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

SIDES = ("host", "parasite")


def make(model, binary=True, **given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3))
    T = rng.normal(size=(11, 2))
    Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(14, 11))
    return model.fit(
        X,
        (Y > 0).astype(float) if binary else Y,
        **({"tasks": T} if given.get("tasks", True) else {}),
    )


def text_of(display):
    """Return every word of a picture."""
    display.figure_.canvas.draw()
    found = []
    for ax in display.figure_.axes:
        legend = ax.get_legend()
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        found += [] if legend is None else [each.get_text() for each in legend.get_texts()]
    return "\n".join(found)


def draw(what, **given):
    ax = Figure().subplots()
    plain = make(TwoStepRidge())
    many = {"ax": ax, **given}
    if what == "holdout":
        return HoldoutDisplay.from_estimator(plain, **many)
    if what == "points":
        return HoldoutDisplay.from_estimator(make(TwoStepRidge(), binary=False), "C", **many)
    if what == "predictions":
        return HoldoutDisplay.from_predictions(np.eye(3), np.eye(3) + 0.5, setting="B", **many)
    if what == "search":
        return LandscapeDisplay.from_estimator(
            make(TwoStepRidgeCV([0.1, 1, 10, 100, 1000])), **many
        )
    return LandscapeDisplay.from_landscape([0.5, 0.6, 0.4], [1, 10, 100], setting="C", **many)


PICTURES = [
    "holdout",
    "points",
    "predictions",
    "search",
    "scores",
]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("what", PICTURES)
def test_sides_are_called_what_they_are(what):
    words = text_of(draw(what, sides=SIDES))
    assert "host" in words or "parasite" in words
    # The names of parameters stay.
    assert not {"instance", "instances", "task", "tasks"} & set(
        words.replace(":", " ").replace(",", " ").split()
    )
    plain = text_of(draw(what))
    assert words != plain
    assert words.replace("host", "instance").replace("parasite", "task") == plain


def test_a_network_and_bad_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 3))
    model = TwoStepRidge(symmetry="symmetric").fit(X, (X @ X.T > 0).astype(float))
    assert "mean per gene" in text_of(
        HoldoutDisplay.from_estimator(model, "B", sides=("gene", "gene"), ax=Figure().subplots())
    )
    with pytest.raises(ValueError, match="plain letters"):
        HoldoutDisplay.from_estimator(model, sides=("$x$", "b"))
    with pytest.raises(ValueError, match="different"):
        LandscapeDisplay.from_landscape([0.5, 0.6], [1, 10], sides=("a", "a"))
