"""What a notebook shows of a fitted model: the truth, at once, and as text whatever its ids are."""

from __future__ import annotations

import pickle
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone

import problems
from dyadlearn import (
    CanonicalProjection,
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.models import _display
from dyadlearn.views import glance as glances
from dyadlearn.views.glance import glance_of
from dyadlearn.views.notebook import html_of_glance, html_of_model

HOSTILE = '</td></div><script>alert("x")</script>\x1b\u202e'
M, Q = 14, 9
X, Y, T = problems.data(M, Q)


class Markup(HTMLParser):
    """Markup whose tags are all closed, with its texts."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def asked_of(monkeypatch):
    """Return a list that grows with each setting that is scored for a display."""
    asked = []

    def counted(model, settings, *rest, **more):
        asked.extend(settings)
        return evaluate(model, settings, *rest, **more)

    monkeypatch.setattr(glances, "evaluate", counted)
    return asked


def symmetric(labels):
    return labels[:, :4] @ labels[:, :4].T


MODELS = {
    "two-step": (lambda: TwoStepRidge(0.1, 10.0, kernel="rbf").fit(X, Y, tasks=T), "ABCD", "λ_d = 0.1, λ_t = 10"),
    "search": (lambda: TwoStepRidgeCV([0.1, 1.0], [1.0], setting="D").fit(X, Y, tasks=T), "ABCD", "λ_d = "),
    "Kronecker": (lambda: KroneckerRidge(0.5).fit(X, Y, tasks=T), "ABCD", "λ = 0.5"),
    "pair kernel": (lambda: PairKernelRidge(0.5).fit(X, Y, tasks=T), "ABCD", "λ = 0.5"),
    "independent": (lambda: IndependentTaskRidge(3.0).fit(X, Y), "AB", "λ = 3"),
    "one task": (lambda: TwoStepRidge(3.0).fit(X, Y[:, 0]), "AB", "λ = 3"),
    "task by task": (lambda: IndependentTaskRidgeCV([0.01, 1.0, 100.0], alpha_per_task=True).fit(X, Y), "AB", "λ"),
    "network": (lambda: TwoStepRidge(2.0, 2.0, symmetry="symmetric").fit(X, symmetric(Y)), "ABCD", "λ = 2"),
    "holes": (lambda: TwoStepRidge().fit(X, np.where(Y > 1, np.nan, Y), tasks=T), "ABCD", "λ_d = 1, λ_t = 1"),
    "long table": (
        lambda: PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(np.argwhere(Y == Y), Y.ravel()),
        "ABCD",
        "λ_d = 1, λ_t = 1",
    ),
    "learned": (
        lambda: LearnedKernelRidge(setting="B", n_steps=2).fit({"a": X[:, :1], "b": X}, Y, tasks=T),
        "B",
        "λ = ",
    ),
    "online": (lambda: OnlineTwoStepRidge(0.1, 10.0).fit(X, Y, tasks=T), "", "λ_d = 0.1, λ_t = 10"),
    "any regressors": (lambda: TwoStepRegressor().fit(X, Y, tasks=T), "", None),
    "projection": (lambda: CanonicalProjection(2).fit(X, Y), "", None),
}


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_shows_what_it_can(name):
    make, settings, regularisation = MODELS[name]
    model = make()
    glance, found = glance_of(model), Markup(html_of_model(model, "<i>diagram</i>"))
    assert found.texts[-1] == "diagram"
    assert type(model).__name__ in "".join(found.texts)
    assert "script" not in found.tags
    if regularisation is not None:
        assert dict(glance.facts)["Regularisation"].startswith(regularisation)
    if not settings:
        assert glance.scores is None
        return
    assert glance.scores["setting"] == list(settings)
    expected = evaluate(model, settings, n_permutations=0, nested=False)
    assert_equal(dict(glance.scores), dict(expected))
    assert f"{expected[expected.scoring][0]:.4g}" in found.texts
    assert "exact leave-one-out" in found.texts
    assert [side.size for side in glance.sides] == ([M] if name == "network" else [M, 1 if name == "one task" else Q])


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_shows_what_it_has_kept():
    search = TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0], setting="D", cv=3).fit(X, Y, tasks=T)
    glance = glance_of(search)
    own = glance.scores.rows()[3]
    assert_allclose(own["neg_mean_squared_error"], search.best_score_, rtol=1e-10)
    assert own["method"] == search.holdout_method_ == "exact leave-fold-out"
    assert_allclose([own[name] for name in search.baselines_], list(search.baselines_.values()))
    best = f"neg_mean_squared_error −{-search.best_score_:.4g}, exact leave-fold-out"
    assert dict(glance.facts)["Chosen for"] == f"setting D: both new ({best})"
    assert any("nested_score" in note for note in glance.notes)


def test_learned_kernels_show_their_weights():
    model = MODELS["learned"][0]()
    glance = glance_of(model)
    weights = dict(glance.facts)["Weights of the instances"]
    assert all(f"{name} " in weights for name in model.weights_["instances"])
    assert "Setting A, C and D: evaluate(model) tells." in glance.notes
    assert any("optimistic" in note for note in glance.notes)


def test_ids_and_labels_in_words():
    pd = pytest.importorskip("pandas")
    ids = pd.Index([f"drug{place}" for place in range(M)], name="drug")
    labels = pd.DataFrame((Y > 0).astype(float), index=ids, columns=[f"t{place}" for place in range(Q)])
    glance = glance_of(TwoStepRidge().fit(pd.DataFrame(X, index=ids), labels, tasks=T))
    assert [side.ids for side in glance.sides] == ["drug: drug0, drug1, drug2, …", "t0, t1, t2, …"]
    assert dict(glance.facts)["Labels"] == f"{M * Q}, all observed; 0 and 1"
    assert glance.sides[0].described == "4 features, linear kernel"
    labels.iloc[0, :3] = np.nan
    precomputed = TwoStepRidge(kernel="precomputed").fit(X @ X.T, labels.to_numpy())
    glance = glance_of(precomputed)
    assert dict(glance.facts)["Labels"] == "123 of 126 observed (97.6 %); 0 and 1"
    assert [side.described for side in glance.sides] == ["a kernel as given", "nothing is known of them"]


def test_what_sides_are_described_by():
    kernels = {"shape": "precomputed", "one": "rbf"}
    model = LearnedKernelRidge(setting="B", n_steps=2, kernel=kernels).fit({"shape": X @ X.T, "one": X[:, :1]}, Y)
    gamma = model._descriptions[0]["one"].params["gamma"]
    words = f"shape: a kernel as given; one: 1 feature, rbf (gamma={gamma:.4g}) kernel"
    assert [side.described for side in glance_of(model).sides] == [words, "nothing is known of them"]
    for tasks, words, alphas in (
        (T[:, :1], "1 feature, linear kernel", "λ_d = 0.5, λ_t = 2"),
        (None, "nothing is known of them", "λ = 0.5"),
    ):
        glance = glance_of(OnlineTwoStepRidge(0.5, 2.0).fit(X, Y, tasks=tasks))
        assert [side.described for side in glance.sides] == ["4 features, linear kernel", words]
        assert dict(glance.facts)["Regularisation"] == alphas


def test_labels_that_are_all_the_same():
    glance = glance_of(TwoStepRidge().fit(X, np.full((M, Q), 3.0), tasks=T))
    assert dict(glance.facts)["Labels"] == f"{M * Q}, all observed; all 3"


def test_edges_of_a_large_network_are_not_scored_unasked(monkeypatch):
    # What an edge does to its transpose takes as many products as there are pairs of edges.
    rng = np.random.default_rng(0)
    nodes, labels = rng.normal(size=(260, 4)), symmetric(rng.normal(size=(260, 260)))
    asked = asked_of(monkeypatch)
    for model, n_asked in ((KroneckerRidge, 0), (TwoStepRidge, 1)):
        asked.clear()
        glance_of(model(kernel="rbf", symmetry="symmetric").fit(nodes, labels))
        assert [setting.value for setting in asked].count("A") == n_asked


def test_hostile_ids_are_text():
    pd = pytest.importorskip("pandas")
    rows = [f"{HOSTILE}{place}{'x' * 5000}" for place in range(M)]
    frame = pd.DataFrame(X, index=pd.Index(rows, name=HOSTILE))
    labels = pd.DataFrame(Y, index=rows, columns=[f"{place}{HOSTILE}" for place in range(Q)])
    model = TwoStepRidge().fit(frame, labels, tasks=T)
    shown = html_of_model(model, "")
    found = Markup(shown)
    assert "script" not in found.tags
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 20_000
    assert any("<script>" in text for text in found.texts)
    learned = LearnedKernelRidge(setting="B", n_steps=2).fit({"<script>": X[:, :1], "b": X}, Y, tasks=T)
    assert "script" not in Markup(html_of_model(learned, "")).tags
    # Notes and facts are texts too.
    shown = html_of_glance(glances.Glance(HOSTILE, facts=[(HOSTILE, HOSTILE)], notes=[HOSTILE]))
    assert "script" not in Markup(shown).tags
    assert not {"\x1b", "\u202e"} & set(shown)


def test_a_network_with_holes_says_what_it_cannot_tell():
    labels = symmetric(Y)
    labels[0, 1] = labels[1, 0] = np.nan
    glance = glance_of(TwoStepRidge(symmetry="symmetric").fit(X, labels))
    assert glance.scores["setting"] == ["A"]
    assert [note[:23] for note in glance.notes] == [f"Setting {letter} has no score." for letter in "BCD"]


def test_a_search_of_a_large_grid_tells_its_best_score(monkeypatch):
    monkeypatch.setattr(glances, "_MOST_WORK", 1.0)
    model = MODELS["task by task"][0]()
    glance = glance_of(model)
    assert glance.scores is None
    assert "exact leave-one-out" in dict(glance.facts)["Chosen for"]


def test_all_settings_together_take_little_work(monkeypatch):
    monkeypatch.setattr(glances, "_work", lambda model, setting: 0.4 * glances._MOST_WORK)
    glance = glance_of(TwoStepRidge().fit(X, Y, tasks=T))
    assert glance.scores["setting"] == ["A", "B"]
    assert glance.notes == ["Setting C and D: evaluate(model) tells."]


def test_another_metric_is_another_score():
    model = IndependentTaskRidgeCV().fit(X, Y)
    assert glance_of(model).scores.scoring == "neg_mean_squared_error"
    assert glance_of(model.set_params(scoring="r2")).scores.scoring == "r2"


def test_it_is_found_once(monkeypatch):
    asked = asked_of(monkeypatch)
    model = TwoStepRidge().fit(X, Y, tasks=T)
    first = model._repr_html_()
    assert len(asked) == 4
    assert model._repr_mimebundle_()["text/html"].split("<details>")[0] == first.split("<details>")[0]
    assert len(asked) == 4
    for change in (lambda: model.set_alpha(10.0), lambda: model.fit(X, 2 * Y, tasks=T)):
        asked.clear()
        change()
        assert model._repr_html_().split("<details>")[0] != first.split("<details>")[0]
        assert len(asked) == 4
    # What was shown is no part of the model.
    assert pickle.loads(pickle.dumps(model)).alpha == 10.0
    assert set(vars(model)) == set(vars(clone(model).fit(X, Y, tasks=T)))


def test_nothing_is_solved_for_long(monkeypatch):
    asked = asked_of(monkeypatch)
    rng = np.random.default_rng(0)
    for model, shape, settings in (
        (TwoStepRidge(), (3000, 60), ""),
        (KroneckerRidge(), (90, 99), "ABC"),
    ):
        rows, columns = rng.normal(size=(shape[0], 3)), rng.normal(size=(shape[1], 2))
        glance = glance_of(model.fit(rows, rng.normal(size=shape), tasks=columns))
        assert [setting.value for setting in asked] == list(settings)
        assert glance.notes[-1].endswith("evaluate(model) tells.")
        asked.clear()


def test_observed_pairs_alone():
    rng = np.random.default_rng(0)
    m, q, n = 3000, 2000, 900
    rows, columns = np.unique(np.stack([rng.integers(m, size=n), rng.integers(q, size=n)]), axis=1)
    labels = sparse.csr_array((rng.normal(size=rows.size), (rows, columns)), shape=(m, q))
    model = KroneckerRidge().fit(rng.normal(size=(m, 3)), labels, tasks=rng.normal(size=(q, 2)))
    assert model._is_listed
    glance = glance_of(model)
    said = dict(glance.facts)["Labels"]
    assert said.startswith(f"{rows.size:,} of 6,000,000 observed (0.015 %); fitted on these pairs alone")
    assert glance.scores is None
    assert glance.notes == ["Setting A, B, C and D: evaluate(model) tells."]
    Markup(html_of_model(model, ""))


def test_a_model_that_interpolates_says_so():
    model = TwoStepRidge(0.0, kernel="precomputed", fit_intercept=False).fit(np.diag([*np.ones(M - 1), 0.0]), Y)
    glance = glance_of(model)
    assert glance.scores is None
    assert [note[:23] for note in glance.notes] == [f"Setting {letter} has no score." for letter in "AB"]


def test_before_fitting_there_is_scikit_learns_diagram():
    model = TwoStepRidge()
    assert "dyadlearn" not in model._repr_html_().replace("dyadlearn.readthedocs", "")
    assert "sk-" in model._repr_html_()
    shown = model.fit(X, Y, tasks=T)._repr_html_()
    assert shown.startswith('<div class="dyadlearn">')
    assert "<summary>Parameters</summary>" in shown
    assert "sk-" in shown


def test_text_is_text():
    model = TwoStepRidge().fit(X, Y, tasks=T)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}


def test_a_display_never_fails(monkeypatch):
    def broken(model, diagram):
        raise RuntimeError("no")

    monkeypatch.setattr(_display, "_tellers", [broken])
    model = TwoStepRidge().fit(X, Y, tasks=T)
    assert "sk-" in model._repr_html_()
    assert BaseEstimator.__repr__(model) in model._repr_mimebundle_()["text/plain"]
