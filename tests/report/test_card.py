"""The card of a model, read as the Hub and any reader of Markdown read it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from markdown_it import MarkdownIt
from numpy.testing import assert_allclose
from scipy import sparse

import dyadlearn
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.report import write_card
from dyadlearn.report.markdown import bullets, code, front_matter, plain, table
from dyadlearn.views.summary import summary_of

yaml = pytest.importorskip("yaml")

EVIL = 'a|b "c": <b>&amp;`d`</b>\n# e\n---\n*f* _g_ [h](i) $j$ \\k\x1b[0m 1. \u202e'


def read(path):
    """Return the front matter of a card, its body, and its tables by the headings above them."""
    head, body = re.fullmatch(r"---\n(.*?)\n---\n\n(.*)", path.read_text(encoding="utf-8"), re.DOTALL).groups()
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    tables, heading, rows, texts = {}, "", [], []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = shown(tokens[place + 1])
        elif token.type == "table_open":
            rows = tables[heading] = []
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and tokens[place - 1].type in ("td_open", "th_open"):
            rows[-1].append(shown(token))
        elif token.type == "inline":
            texts.append(shown(token))
    return yaml.safe_load(head), tokens, tables, texts


def shown(token):
    """Return what a reader sees of a line, which has nothing but text in it."""
    assert {child.type for child in token.children} <= {"text", "text_special"}, token
    return "".join(child.content for child in token.children)


def evaluated(model, scoring):
    found = dyadlearn.evaluate(model, scoring=scoring)
    return dict(zip(found["setting"], found[scoring], strict=True))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(20, 4)), rng.normal(size=(15, 3))
    return X, T, X @ rng.normal(size=(4, 3)) @ T.T + rng.normal(size=(20, 15))


def test_scores_are_those_of_evaluate(data, tmp_path, monkeypatch):
    monkeypatch.setattr("dyadlearn.views.evaluation._DRAWS", 100)
    X, T, Y = data
    model = TwoStepRidge(0.5, 0.2).fit(X, Y, tasks=T)
    path = write_card(model, tmp_path / "README.md", license="cc-by-4.0", dataset="me/mine", tags=["biology"])
    told, _, tables, _ = read(path)
    assert (told["license"], told["library_name"], told["datasets"]) == ("cc-by-4.0", "dyadlearn", ["me/mine"])
    assert (told["pipeline_tag"], told["metrics"]) == ("tabular-regression", ["mse", "r_squared"])
    assert {"dyadlearn", "biology"} <= set(told["tags"])
    [entry] = told["model-index"]
    scores = {scoring: evaluated(model, scoring) for scoring in ("neg_mean_squared_error", "r2")}
    summary = summary_of(model, scores_only=True)
    for setting, result, shown_result in zip("ABCD", entry["results"], summary.results, strict=True):
        assert result["task"]["type"] == "tabular-regression"
        assert result["dataset"]["config"] == f"setting-{setting}"
        mse, r2 = result["metrics"]
        assert_allclose(-mse["value"], scores["neg_mean_squared_error"][setting], rtol=1e-12)
        assert_allclose(r2["value"], scores["r2"][setting], rtol=1e-12)
        assert "exact leave-one-out" in mse["name"]
        low, high = (-shown_result.interval.high, -shown_result.interval.low)
        assert f"95 % interval {low:.3g} … {high:.3g}" in mse["name"]
    rows = {row[0]: row[1:] for row in tables["Scores"]}
    assert rows[""] == ["A: new pair", "B: new instance", "C: new task", "D: both new"]
    for name in ("neg_mean_squared_error", "95 % interval", "permuted labels", "grand mean", "additive", "held out by"):
        assert len(rows[name]) == 4
    found = [float(text.replace("−", "-")) for text in rows["neg_mean_squared_error"]]
    assert_allclose(found, list(scores["neg_mean_squared_error"].values()), rtol=1e-3)
    facts = dict(tables["What it was fitted on"])
    assert (facts["Model"], facts["Labels"]) == ("TwoStepRidge", "300")
    assert (facts["Regularisation"], facts["Tasks"]) == (
        "λ_d = 0.5, λ_t = 0.2",
        f"{T.shape[1]} features, linear kernel",
    )


def test_labels_of_two_values_and_a_search(data, tmp_path):
    X, T, Y = data
    model = TwoStepRidgeCV(setting="B", alphas=[1.0], task_alphas=[0.1, 1.0, 10.0], scoring="roc_auc")
    with pytest.warns(GridEdgeWarning):
        model.fit(X, (Y > 0).astype(float), tasks=T)
    told, _, tables, texts = read(write_card(model, tmp_path / "card.md", settings="BD", sides=("host", "parasite")))
    assert told["pipeline_tag"] == "tabular-classification"
    assert told["metrics"] == ["roc_auc", "average_precision"]
    [entry] = told["model-index"]
    assert [each["task"]["name"] for each in entry["results"]] == ["Setting B: new host", "Setting D: both new"]
    assert entry["results"][0]["metrics"][0]["value"] == model.best_score_
    assert tables["Scores"][0] == ["", "B: new host (chosen here)", "D: both new"]
    assert "license" not in told
    assert any("no probabilities" in text for text in texts)
    assert any("best of many in setting B" in text for text in texts)
    assert any("is on the edge of the grid" in text for text in texts)
    assert any(text.startswith("B: A new host, with the known parasites") for text in texts)


def test_learned_kernels(data, tmp_path):
    X, T, Y = data
    noise = np.random.default_rng(1).normal(size=(20, 5))
    model = LearnedKernelRidge(setting="B", n_steps=10, task_kernel="linear")
    model.fit({"signal": X, "no|ise": noise}, Y, tasks=T)
    path = write_card(model, tmp_path / "card.md", settings="B")
    _, _, tables, texts = read(path)
    rows = [row[:2] for row in tables["Kernels"][1:]]
    assert {("instances", "signal"), ("instances", "no|ise")} <= set(map(tuple, rows))
    weight = model.weights_["instances"]["signal"]
    assert [row[2].split(" %")[0] for row in tables["Kernels"] if row[1] == "signal"] == [f"{100 * weight:.0f}"]
    assert any("optimistic" in text for text in texts)
    assert f"signal: {X.shape[1]} features, rbf" in dict(tables["What it was fitted on"])["Instances"]


def test_texts_that_mean_something_else_stay_texts(data, tmp_path):
    X, T, Y = data
    model = TwoStepRidge().fit(X, Y, tasks=T)
    given = {"title": EVIL, "license": EVIL, "tags": [EVIL, "yes", "0x1f"], "notes": [EVIL], "about": {EVIL: EVIL}}
    path = write_card(model, tmp_path / "card.md", settings="B", model_file="```\n# x", **given)
    told, tokens, tables, texts = read(path)
    seen = " ".join(EVIL.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").split())
    assert (told["license"], told["model-index"][0]["name"]) == (EVIL, EVIL)
    assert told["tags"][-3:] == [EVIL, "yes", "0x1f"]
    assert tables["What it was fitted on"][-1] == [seen, seen]
    assert seen in texts
    assert [
        shown(tokens[place + 1]) for place, each in enumerate(tokens) if each.tag == "h1" and each.nesting == 1
    ] == [seen]
    assert {token.type for token in tokens} & {"html_block", "hr", "lheading_open", "blockquote_open"} == set()
    assert [token.info for token in tokens if token.type == "fence"] == ["python", "sh"]
    assert len([token for token in tokens if token.tag == "h2" and token.nesting == 1]) == 6


TEXTS = [
    EVIL,
    "",
    " x ",
    "true",
    "1e5",
    "- a",
    "# a",
    "> a",
    "a: b",
    "'",
    "\x7f\x85\u2028\ufeff\ufffe",
    "\ud83d half",
    "😀",
    "\t",
    "1. a",
    "+",
    "=",
    "~~a~~",
    "![a](b)",
]


def test_front_matter_holds_any_text_and_number():
    values = {"texts": TEXTS, "numbers": [1e-5, -1e300, 0.1, 3, True], "deep": [{"a": {"b": ["c"], "d: e": 1.0}}]}
    found = yaml.safe_load(front_matter(values).strip("-\n"))
    assert found["texts"] == [text.replace("\ud83d", "\ufffd") for text in TEXTS]
    assert found["numbers"] == values["numbers"]
    assert found["deep"] == values["deep"]
    with pytest.raises(ValueError, match="finite numbers"):
        front_matter({"a": float("nan")})


def test_markdown_shows_any_text():
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for text in TEXTS:
        once = table(["a", "b"], [[text, text]])
        cells = [token for token in reader.parse(once) if token.type == "inline"]
        assert len(cells) == 4
        assert shown(cells[2]) == shown(cells[3])
        tokens = reader.parse(f"{bullets([text])}\n\n{plain(text)}\n\n{code('sh', [text])}")
        assert {token.type for token in tokens} <= {
            *("bullet_list_open", "list_item_open", "paragraph_open", "inline", "fence"),
            *("bullet_list_close", "list_item_close", "paragraph_close"),
        }
        for token in tokens:
            if token.type == "inline":
                shown(token)


def online(data):
    return OnlineTwoStepRidge(keep_labels=True).fit(data[0], data[2], tasks=data[1])


def listed(data):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(1500, size=3000), rng.integers(1200, size=3000)
    labels = sparse.csr_array((rng.normal(size=3000), (rows, columns)), shape=(1500, 1200))
    return KroneckerRidge().fit(rng.normal(size=(1500, 2)), labels, tasks=rng.normal(size=(1200, 2)))


@pytest.mark.parametrize("make", [online, listed])
def test_models_without_a_grid_have_a_card_without_scores(make, data, tmp_path):
    model = make(data)
    told, _, tables, texts = read(write_card(model, tmp_path / "card.md", sides=("host", "parasite")))
    assert "model-index" not in told
    assert "metrics" not in told
    facts = dict(tables["What it was fitted on"])
    assert facts["Model"] == type(model).__name__
    assert facts["Hosts"] == f"{model.n_features_in_} features, linear kernel"
    assert any("There are none here" in text for text in texts)
    inside = next(text for text in texts if text.startswith("A model file holds"))
    assert ("all hosts and all their labels" in inside) is model.grows


def test_models_that_know_no_tasks_networks_and_long_tables(data, tmp_path):
    X, T, Y = data
    path = tmp_path / "card.md"
    texts = read(write_card(IndependentTaskRidge().fit(X, Y), path, settings="B"))[3]
    assert "It cannot answer in setting C and D." in texts
    assert "tasks=T" not in path.read_text(encoding="utf-8")
    _, _, tables, _ = read(write_card(TwoStepRidge(symmetry="symmetric").fit(X[:15], Y[:15] + Y[:15].T), path))
    assert tables["Scores"][0][2] == "B: new first node"
    assert dict(tables["What it was fitted on"])["Nodes"] == f"{X.shape[1]} features, linear kernel"
    pairs = np.argwhere(np.ones(Y.shape))
    long = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(pairs, Y.ravel())
    read(write_card(long, path, settings="B"))
    assert "model.predict(pairs)" in path.read_text(encoding="utf-8")


def test_a_card_is_written_whole_or_not_at_all(data, tmp_path):
    X, T, Y = data
    path = tmp_path / "README.md"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(TypeError, match="model must be"):
        write_card(TwoStepRegressor(TwoStepRidge(), TwoStepRidge()).fit(X, Y, tasks=T), path)
    with pytest.raises(ValueError, match="settings names none"):
        write_card(IndependentTaskRidge().fit(X, Y), path, settings="D")
    with pytest.raises(ValueError, match="not fitted"):
        write_card(TwoStepRidge(), path)
    assert path.read_text(encoding="utf-8") == "old"
    with pytest.raises(IsADirectoryError):
        write_card(TwoStepRidge().fit(X, Y, tasks=T), tmp_path)


def test_scores_that_are_undefined_are_not_among_those_for_machines(data, tmp_path):
    X, T, Y = data
    model = TwoStepRidge().fit(X, np.full_like(Y, 3.0), tasks=T)
    told, _, _, _ = read(write_card(model, tmp_path / "card.md", settings="B", scoring="concordance_index"))
    [result] = told["model-index"][0]["results"]
    kinds = [metric["type"] for metric in result["metrics"]]
    assert "mse" in kinds
    assert "concordance_index" not in kinds


@pytest.mark.parametrize(
    "word", ["y", "N", "yes", "no", "on", "Off", "true", "FALSE", "null", "~", "0x1f", "1e5", "=", ""]
)
def test_words_that_yaml_reads_as_something_else_stay_texts(word):
    yaml = pytest.importorskip("yaml")
    given = {"license": word, "tags": [word, "plain"], word or "-": {"value": word}}
    assert yaml.safe_load(front_matter(given).strip("-")) == given


def test_lines_of_code_do_not_end_it():
    lines = ["```", "````", "# x", "a ```` b"]
    [block] = MarkdownIt().parse(code("sh", lines))
    assert block.type == "fence"
    assert block.content.splitlines() == lines


def test_what_scores_do_not_count_is_told_of_the_right_side(data, tmp_path):
    X, T, Y = data
    labels = (Y > 0).astype(float)
    labels[:, :2] = 0.0
    path = write_card(TwoStepRidge().fit(X, labels, tasks=T), tmp_path / "card.md", settings="BC", scoring="roc_auc")
    rows = {row[0]: row[1:] for row in read(path)[2]["Scores"]}
    assert rows["undefined for"] == ["–", f"2 of {Y.shape[1]} tasks"]
