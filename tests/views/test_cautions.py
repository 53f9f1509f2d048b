"""Warnings of a report: each once with its count, the important first."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import TwoStepRidge
from dyadlearn.report.page import render
from dyadlearn.views import summary as room
from dyadlearn.views.cautions import Caution, Importance, cautions_of
from dyadlearn.views.summary import SummaryOptions, summary_of
from problems import data
from sweeps import lines, over

DOUBT = Importance.DOUBT


@over(
    lines(
        "first second are_alike",
        ("In setting A, 3 rows are lost.", "In setting B, 12 rows are lost.", True),
        ("Task 'a' has no label.", "Task 'b c' has no label.", True),
        ("A residual of 1.2e-05 is left.", "A residual of 3e+02 is left.", True),
        ("The kernel is singular.", "The kernel is singular.", True),
        ("The instance kernel is singular.", "The task kernel is singular.", False),
        ("Setting A has no score.", "Setting A has no interval.", False),
    )
)
def test_warnings_that_say_the_same_are_one(first, second, are_alike):
    found = cautions_of([(DOUBT, first), (DOUBT, second), (DOUBT, first)])
    texts = tuple(dict.fromkeys([first, second]))
    if are_alike:
        assert found == [Caution(texts, 3)]
    else:
        assert found == [Caution((first,), 2), Caution((second,), 1)]


def test_the_important_come_first():
    levels = [Importance.DATA, Importance.DOUBT, Importance.RESULT, Importance.DOUBT]
    found = cautions_of(zip(levels, ["zero.", "first doubt.", "no score.", "second."], strict=True))
    assert [caution.texts for caution in found] == [
        ("no score.",),
        ("first doubt.",),
        ("second.",),
        ("zero.",),
    ]
    # A group is as important as its most important member.
    found = cautions_of([(DOUBT, "b"), (Importance.DATA, "a 1"), (Importance.RESULT, "a 2")])
    assert [caution.count for caution in found] == [2, 1]


def test_warnings_of_a_report(monkeypatch):
    """What several settings say is shown once; a score of chance comes before a singular kernel."""
    X, Y, T = data(12, 9)
    Y = np.random.default_rng(0).normal(size=Y.shape)  # nothing to learn
    singular = X[:, :2] @ X[:, :2].T
    model = TwoStepRidge(kernel="precomputed").fit(singular, Y, T)
    scores = room._scores

    def warning(request):
        for task in ("a", "b", "a"):
            warnings.warn(f"Task {task!r} did not converge.", ConvergenceWarning, stacklevel=1)
        return scores(request)

    monkeypatch.setattr(room, "_scores", warning)
    summary = summary_of(model, SummaryOptions(notes=["The tables were sorted."]))
    kinds = [caution.texts[0] for caution in summary.cautions]
    useless = next(place for place, text in enumerate(kinds) if "the best baseline" in text)
    singular_kernel = next(place for place, text in enumerate(kinds) if "eigenvalues" in text)
    slow = kinds.index("Task 'a' did not converge.")
    own = kinds.index("The tables were sorted.")
    assert max(useless, slow) < own < singular_kernel
    assert summary.cautions[slow] == Caution(
        ("Task 'a' did not converge.", "Task 'b' did not converge."), 3
    )
    assert summary.cautions[useless].count > 1  # one in each setting
    assert len(summary.warnings) == sum(len(each.texts) for each in summary.cautions)
    page = render(summary)
    assert "did not converge. <span class='times'>(3 times)</span>" in page
    assert page.count("Task &#x27;a&#x27; did not converge.") == 1
    assert page.count("1 more like it") >= 1
    assert f"{len(summary.cautions)} warnings" in page
