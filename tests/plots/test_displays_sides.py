"""What pictures call the sides."""

import numpy as np
import pytest

from dyadlearn import TwoStepRidge, TwoStepRidgeCV
from dyadlearn.plots import HoldoutDisplay, LandscapeDisplay

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

SIDES = ("host", "parasite")


def text_of(display):
    """Return every word of a picture."""
    display.figure_.canvas.draw()
    found = []
    for ax in display.figure_.axes:
        legend = ax.get_legend()
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        found += [] if legend is None else [each.get_text() for each in legend.get_texts()]
    return "\n".join(found)


PICTURES = {
    "holdout": lambda two, real, more: HoldoutDisplay.from_estimator(
        fit(TwoStepRidge(), two), **more
    ),
    "points": lambda two, real, more: HoldoutDisplay.from_estimator(
        fit(TwoStepRidge(), real), "C", **more
    ),
    "predictions": lambda two, real, more: HoldoutDisplay.from_predictions(
        np.eye(3), np.eye(3) + 0.5, setting="B", **more
    ),
    "search": lambda two, real, more: LandscapeDisplay.from_estimator(
        fit(TwoStepRidgeCV([0.1, 1, 10, 100, 1000]), two), **more
    ),
    "scores": lambda two, real, more: LandscapeDisplay.from_landscape(
        [0.5, 0.6, 0.4], [1, 10, 100], setting="C", **more
    ),
}


def fit(model, data):
    X, Y, T = data
    return model.fit(X, Y, tasks=T)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("what", PICTURES)
def test_sides_are_called_what_they_are(what, binary, real):
    def words_of(**more):
        return text_of(PICTURES[what](binary, real, {"ax": Figure().subplots(), **more}))

    words = words_of(sides=SIDES)
    assert "host" in words or "parasite" in words
    # The names of parameters stay.
    assert not {"instance", "instances", "task", "tasks"} & set(
        words.replace(":", " ").replace(",", " ").split()
    )
    plain = words_of()
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
