"""Ask a model of every form of labels for every answer; the table of permitted refusals stands here.

``python tests/test_dyadlearn_answers.py`` writes the table into ``docs/models.md``.
"""

import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge
from typer.main import get_command

import dyadlearn
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.cli import app
from dyadlearn.report import write_report
from sweeps import lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 3))
T = RNG.normal(size=(6, 2))
FULL = (X @ RNG.normal(size=(3, 2)) @ T.T + RNG.normal(size=(8, 6)) > 0).astype(float)
MISSING = np.where(RNG.random(FULL.shape) < 0.15, np.nan, FULL)
WEIGHTS = RNG.random(FULL.shape) + 0.5
LINKS = np.triu((X @ X.T + RNG.normal(size=(8, 8)) > 0).astype(float), 1)
LINKS += LINKS.T
PAIRS = np.argwhere(~np.isnan(MISSING))
SCORING = "neg_mean_squared_error"

LISTED = "list of pairs: long table or sparse matrix"


@dataclass(frozen=True)
class Form:
    """A model, the labels that it is fitted on, and the setting that it is asked about."""

    title: str
    model: Any
    given: tuple[Any, ...]
    labels: np.ndarray
    search: Any = None
    setting: str = "A"

    @cached_property
    def fitted(self):
        return self.model.fit(*self.given)

    @cached_property
    def predictions(self):
        """Return the predictions (m, q) for the pairs of training."""
        if isinstance(self.fitted, PairRegressor):
            return self.fitted.predict(np.argwhere(np.ones(self.labels.shape))).reshape(
                self.labels.shape
            )
        return np.asarray(self.fitted.predict(*([X] if self.fitted.grows else [])))

    @cached_property
    def scored(self):
        """Return the score and the hold-out predictions, with the kernels of all labels."""
        asked = dyadlearn.evaluate(self.fitted, self.setting, scoring=SCORING, nested=False)
        return asked.results[0]


def forms():
    """Return a small problem of each form of labels."""
    alphas = [0.01, 1.0, 100.0]
    how = {"setting": "A", "scoring": SCORING, "cv": 3, "progress": False}
    two_step = TwoStepRidgeCV(alphas, alphas, **how)
    kronecker = KroneckerRidgeCV(alphas, **how)
    learned = LearnedKernelRidge(
        setting="A", stages=1, n_steps=2, cv=2, random_state=0, progress=False
    )
    pairs = (PAIRS, MISSING[tuple(PAIRS.T)])
    sides = {"instances": X, "tasks": T}
    network = {"symmetry": "symmetric"}
    return {
        "full": Form("complete grid", TwoStepRidge(), (X, FULL, T), FULL, two_step),
        "missing": Form(
            "grid with missing labels", TwoStepRidge(), (X, MISSING, T), MISSING, two_step
        ),
        "weights": Form(
            "weights (`sample_weight`)", KroneckerRidge(), (X, FULL, T, WEIGHTS), FULL, kronecker
        ),
        "pairs": Form(
            LISTED,
            PairRegressor(KroneckerRidge(), **sides),
            pairs,
            MISSING,
            PairRegressor(kronecker, **sides),
        ),
        "network": Form(
            "network", TwoStepRidge(**network), (X, LINKS), LINKS, TwoStepRidgeCV(**network)
        ),
        "online": Form(
            "`OnlineTwoStepRidge(keep_labels=True)`",
            OnlineTwoStepRidge(keep_labels=True),
            (X, FULL, T),
            FULL,
        ),
        "statistics": Form("`OnlineTwoStepRidge()`", OnlineTwoStepRidge(), (X, FULL, T), FULL),
        "learned": Form("`LearnedKernelRidge`", learned, (X, FULL, T), FULL),
        "independent": Form(
            "`IndependentTaskRidge`",
            IndependentTaskRidge(),
            (X, FULL),
            FULL,
            IndependentTaskRidgeCV(alphas, **how),
        ),
        "regressor": Form(
            "`TwoStepRegressor`", TwoStepRegressor(Ridge(), Ridge()), (X, FULL, T), FULL
        ),
    }


@pytest.fixture(scope="module")
def fitted_forms():
    return forms()


def dense(values):
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def holdout_of(form):
    """Return the hold-out predictions (m, q)."""
    return form.fitted.fitted_.labels.spread(form.scored.predictions)


# --- the answers ---------------------------------------------------------------------------------------------


def asks_recommend(form, _):
    missing = np.isnan(form.labels)
    instance = int(np.argmax(missing.any(axis=1)))
    found = dyadlearn.recommend(form.fitted, instance=instance, n=3).columns()
    tasks = next(iter(found.values()))
    # What is known to be 1 is not recommended, and zeros are known where labels are missing.
    known = ~missing if missing.any() else form.labels == 1
    assert not known[instance, np.asarray(tasks)].any()


def asks_explain(form, _):
    found = dyadlearn.explain(form.fitted, 1, 2)
    assert_allclose(found.prediction, form.predictions[1, 2], atol=1e-9)


def asks_calibrate(form, _):
    found = dyadlearn.calibrate(form.fitted, form.setting, cv=3)[form.setting]
    observed = ~np.isnan(form.labels)
    # A network has each edge once.
    assert found.n_cells == np.sum(np.triu(observed) if form.title == "network" else observed)


def asks_screen(form, _):
    found = dyadlearn.screen(form.fitted, form.setting, n=4).columns()
    places = tuple(np.asarray(column) for column in list(found.values())[:2])
    assert len(places[0]) == 4
    assert_allclose(found["label"], form.labels[places])
    assert_allclose(found["prediction"], holdout_of(form)[places], rtol=1e-9)


def asks_compare(form, _):
    found = dyadlearn.compare(
        {"one": form.fitted, "other": form.fitted}, form.setting, n_resamples=20
    )
    assert_allclose(found.differences[0].difference, 0.0, atol=1e-15)


def asks_test(form, _):
    found = dyadlearn.permutation_test(
        form.fitted, form.setting, n_permutations=2, scoring=SCORING, progress=False
    )
    assert_allclose(found.score, form.scored.score, rtol=1e-9)
    assert found.p_value in {1 / 3, 2 / 3, 1.0}


def asks_nested(form, _):
    search = form.model if form.search is None else form.search
    found = dyadlearn.nested_score(search, *form.given, cv=2, random_state=1)
    assert -found.score < np.nanvar(form.labels) * 2


def asks_evaluate(form, _):
    errors = (form.labels - holdout_of(form)) ** 2
    assert_allclose(form.scored.score, -np.nanmean(errors), rtol=1e-9)


def asks_interval(form, _):
    rows = PAIRS if isinstance(form.fitted, PairRegressor) else X
    lower, upper = (np.asarray(bound) for bound in form.fitted.predict_interval(rows, coverage=0.5))
    assert (lower < upper).any()
    assert (lower <= upper).all()


def asks_with_labels(form, _):
    few = np.where(np.arange(6) % 2 == 0, 1.0, np.nan)[None, :]
    if form.title == LISTED:
        asked = [(8, task) for task in range(6)]
        model = form.fitted.set_params(instances=np.vstack([X, X[:1] + 0.5]))
        plain = model.predict(asked)
        found = model.predict(asked, labels=(asked[::2], [1.0] * 3))
        model.set_params(instances=X)
    else:
        plain = form.fitted.predict(X[:1] + 0.5)[0]
        found = form.fitted.predict(X[:1] + 0.5, labels=few)[0]
    # Refits confirm them in models/test_fitted_fold_in.py.
    assert np.isfinite(found).all()
    assert (np.abs(found - plain) > 1e-6).any()


def asks_report(form, folder):
    write_report(
        form.fitted,
        folder / "report.html",
        setting=form.setting,
        alphas=[0.1, 1.0],
        title="Title of it",
        progress=False,
    )
    assert "Title of it" in (folder / "report.html").read_text(encoding="utf-8")


def asks_command(form, folder):
    dyadlearn.save(form.fitted, folder / "model.dyad")
    arguments = (
        "evaluate",
        folder / "model.dyad",
        "--setting",
        form.setting,
        "--scoring",
        SCORING,
        "--json",
    )
    said = io.StringIO()
    told = io.StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(told), redirect_stderr(said):
        get_command(app)([str(argument) for argument in arguments], prog_name="dyadlearn")
    if stop.value.code:
        raise ValueError(said.getvalue())
    (found,) = json.loads(told.getvalue())["settings"]
    expected = dyadlearn.evaluate(form.fitted, form.setting, scoring=SCORING).results[0]
    assert_allclose(found["scores"][SCORING], expected.score, rtol=1e-9)


# The title of each answer, and how it is asked for and checked.
ANSWERS: dict[str, Callable[[Form, Path], None]] = {
    "evaluate": asks_evaluate,
    "nested_score": asks_nested,
    "permutation_test": asks_test,
    "compare": asks_compare,
    "predict_interval": asks_interval,
    "predict(labels=)": asks_with_labels,
    "calibrate": asks_calibrate,
    "explain": asks_explain,
    "screen": asks_screen,
    "recommend": asks_recommend,
    "report": asks_report,
    "command line": asks_command,
}
NO_LABELS = "keeps statistics only"
# Form, answer: part of the message, which gives the reason.
REFUSED = {
    **{("statistics", answer): NO_LABELS for answer in ANSWERS if answer != "nested_score"},
    **{(form, "nested_score"): "has no search" for form in ("online", "statistics", "regressor")},
    ("network", "nested_score"): "A network has no folds of one side",
    ("network", "predict(labels=)"): "A network takes no labels of new nodes",
    ("independent", "predict(labels=)"): "say nothing about its other tasks",
    **{
        (form, "predict(labels=)"): "keyword argument 'labels'"
        for form in ("online", "statistics", "regressor")
    },
    ("regressor", "explain"): "has no closed form",
    ("regressor", "report"): "has no closed form",
    ("regressor", "command line"): "not an object of class TwoStepRegressor",
}


@pytest.mark.parametrize("form", forms())
@over(lines("answer", *ANSWERS))
def test_every_answer_is_given_or_refused_for_a_reason(
    form, answer, fitted_forms, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "dyadlearn.views.summary._DRAWS", 0
    )  # intervals of a report take longer than all the rest
    ask = ANSWERS[answer]
    problem = fitted_forms[form]
    reason = REFUSED.get((form, answer))
    if reason is None:
        ask(problem, tmp_path)
        return
    with pytest.raises((ValueError, TypeError), match=re.escape(reason)):
        ask(problem, tmp_path)


# The first words of REFUSED, and what the page says.
REASONS = {
    NO_LABELS: "the model stores sums over instances, but no labels: use `keep_labels=True`",
    "has no search": "there is no hyperparameter search: use `evaluate` with `cv=`",
    "A network has no folds of one side": "a fold of nodes would leave out edges that no fold "
    "predicts",
    "A network takes no labels of new nodes": "a new node is a row and a column at once",
    "say nothing about its other tasks": "labels of one task say nothing about the others",
    "keyword argument 'labels'": "labels of new rows are learned by another `fit`, online by "
    "`partial_fit`",
    "has no closed form": "predictions of arbitrary regressors are not sums of labels with known "
    "weights",
    "not an object of class TwoStepRegressor": "a model file cannot contain estimators of other "
    "libraries",
}


def row(form):
    """Return what a form of labels refuses, and why."""
    refused = {}
    spoken = {"report": "the report", "command line": "the command line"}
    for answer in ANSWERS:
        if (form, answer) in REFUSED:
            name = spoken.get(answer, f"`{answer}`")
            refused.setdefault(REFUSED[form, answer], []).append(name)
    if refused.pop(NO_LABELS, None):
        refused[NO_LABELS] = ["all others"]
    return "; ".join(
        f"{' and '.join(names)} ({REASONS[reason]})" for reason, names in refused.items()
    )


def written():
    """Return the table of the documentation: what is refused, and why."""
    rows = [f"| {problem.title} | {row(form)} |" for form, problem in forms().items() if row(form)]
    return "\n".join(["| | not available, and why |", "|---|---|", *rows])


BEGIN = "<!-- answers: begin -->\n"
END = "\n<!-- answers: end -->"


def test_the_documentation_has_this_table():
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0] == written(), (
        "run python tests/test_dyadlearn_answers.py"
    )


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + written() + END + rest.partition(END)[2], encoding="utf-8")
