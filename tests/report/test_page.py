"""The page: whole, harmless whatever the ids are, and small; and its section about learned kernels."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import KroneckerRidge, LearnedKernelRidge, TwoStepRidge
from dyadlearn._text import number, power
from dyadlearn.report import figures
from dyadlearn.report.page import learned_kernels, render
from dyadlearn.sides import SideNames
from dyadlearn.views.landscape import landscape_of_scores, loss_levels
from dyadlearn.views.summary import SummaryOptions, summary_of

_VOID = {"wbr", "meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Reads a page, checks that its elements nest, and keeps them with their text."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.elements = []
        self.texts = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in _VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, place in self.open:
            self.texts.setdefault(place, []).append(data)

    def all(self, tag, **wanted):
        """Return (attributes, text) of all elements of a kind; a class may be one of several."""
        return [
            (attributes, "".join(self.texts.get(place, [])))
            for place, (name, attributes) in enumerate(self.elements)
            if name == tag
            and all(value in (attributes.get(key) or "").split() for key, value in wanted.items())
        ]


def read(model, **asked):
    text = render(summary_of(model, SummaryOptions(**asked)))
    return text, Page(text)


@pytest.fixture(scope="module")
def summary(searched):
    return summary_of(searched)


@pytest.fixture(scope="module")
def page(summary):
    text = render(summary)
    return text, Page(text)


def test_a_page_is_whole(page):
    text, found = page
    assert text.startswith("<!DOCTYPE html>")
    assert [title for _, title in found.all("h2") if "arning" not in title] == [
        "Data",
        "Settings",
        "Landscape",
        "Held-out predictions",
        "Similarity to training",
        "Contradicting labels",
        "Likeliest unobserved pairs",
        "Notes",
    ]
    names = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(names)) == len(names)
    targets = [attributes["href"][1:] for attributes, _ in found.all("a")]
    assert len(targets) == 8
    assert set(targets) <= set(names)


def test_a_page_loads_nothing(page):
    text, found = page
    sources = [attributes.get(name) for _, attributes in found.elements for name in ("src", "href")]
    assert all(source.startswith(("data:", "#")) for source in sources if source)
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")


def test_only_our_own_script_may_run(page):
    _, found = page
    ((policy, _),) = [meta for meta in found.all("meta") if "http-equiv" in meta[0]]
    scripts = [text for attributes, text in found.all("script") if "type" not in attributes]
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts
    ]
    assert re.findall(r"sha256-([^']+)'", policy["content"]) == digests
    assert "default-src 'none'" in policy["content"]


def test_the_table_of_settings(page, summary):
    _, found = page
    text = found.all("section", id="settings")[0][1]
    for each, other in zip(summary.results, summary.others, strict=True):
        assert number(each.score) in text
        assert other.judge.name == "average_precision"
        assert number(other.score) in text
        assert all(number(score) in text for score in each.baselines.values())
        assert len(each.baselines) == 4
    assert "permuted labels" not in text
    assert "instance means" in text
    assert text.count("chosen here") == 1
    assert all(result.method in text for result in summary.results)


def test_the_actual_settings_of_held_out_labels_are_counted():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(8, 6))
    Y[0, 1:] = np.nan  # the only label of an instance is one of a new instance when it is left out
    model = TwoStepRidge().fit(rng.normal(size=(8, 3)), Y, rng.normal(size=(6, 2)))
    text = render(summary_of(model, SummaryOptions(setting="AB")))
    (row,) = re.findall("<tr[^>]*>(?:(?!</tr>).)*labels really in B.*?</tr>", text, re.DOTALL)
    assert re.findall(">([0-9]+)<", row)[0] == "1"


def test_the_points_of_a_landscape(page, searched):
    _, found = page
    data = [json.loads(text) for _, text in found.all("script", type="application/json")]
    assert len(data) == 4
    assert data[3]["names"] == ["roc_auc", "λ_d", "λ_t"]
    assert len(data[3]["points"]) == 12
    # The points come row by row, from the smallest values up.
    for place, point in enumerate(data[3]["points"]):
        i, j = divmod(place, 3)
        assert point[2] == number(searched.landscape_[i, j])
        assert point[3:] == [power([0.01, 0.1, 1, 10][i]), power([0.1, 1, 10][j])]
    across, up = np.array([point[:2] for point in data[3]["points"]]).T
    assert_allclose(np.diff(across.reshape(4, 3), axis=1), across[1] - across[0], atol=0.11)
    assert (np.diff(up.reshape(4, 3), axis=0) < 0).all()
    assert across.min() > 52
    assert up.max() < 312


def test_every_cell_of_a_map_has_the_colour_of_its_loss():
    rows, columns = np.mgrid[:5, :6]
    scores = -((rows - 1.0) ** 2) - (columns - 4.0) ** 2
    scores[4, 0] = np.nan
    alphas = 10.0 ** np.arange(6)
    levels = loss_levels(-scores)
    text = figures.landscape(
        landscape_of_scores(scores, alphas[:5], alphas, setting="A"), levels, {}, SideNames()
    )
    points = json.loads(re.search(r"json\">(.*)</script>", text)[1])["points"]
    colours = re.findall(r'<rect class="(band-\d)"', figures.levels_legend(levels))
    assert (colours[0], colours[-1]) == ("band-0", "band-9")
    found = {}
    for band, data in re.findall(r'<path class="cell (band-\d)" d="([^"]*)"', text):
        for cell in data.split("Z")[:-1]:
            corners = np.array([pair.split() for pair in cell[1:].split("L")], dtype=float)
            (inside,) = [
                place
                for place, point in enumerate(points)
                if (corners.min(axis=0) < point[:2]).all()
                and (point[:2] < corners.max(axis=0)).all()
            ]
            assert inside not in found
            found[inside] = band
    expected = {
        place: colours[sum(level < loss for level in levels[1:-1])]
        for place, loss in enumerate(-scores.ravel())
        if not np.isnan(loss)
    }
    assert found == expected


def test_the_table_of_cells(page, summary):
    _, found = page
    given = [attributes for attributes, _ in found.all("th", scope="col")]
    heads = [attributes for attributes in given if "data-kind" in attributes]
    kinds = ["text", "text", "number", "number", "number", "text", "text", "number"]
    assert [head["data-kind"] for head in heads] == kinds
    sorted_by = [place for place, head in enumerate(heads) if head.get("aria-sort") == "descending"]
    assert sorted_by == [4, 7]
    cells = [attributes.get("data-value") for attributes, _ in found.all("td")]
    values = [float(value) for value in cells if value is not None]
    columns = summary.contradicting.columns()
    expected = np.column_stack([columns[name] for name in ("label", "prediction", "contradiction")])
    assert_allclose(np.reshape(values[: expected.size], (-1, 3)), expected)
    assert_allclose(values[expected.size :], summary.likeliest.scores)


def test_an_unfinished_character_does_no_harm(binary, tmp_path):
    from dyadlearn.report import write_report

    X, Y, T = binary
    rows = [f"\ud800{i}" for i in range(24)]
    model = TwoStepRidge().fit(X, pd.DataFrame(Y, pd.Index(rows, dtype=object)), T)
    path = write_report(model, tmp_path / "report.html", setting="B", alphas=[1.0, 2.0])
    assert "\\ud800" in path.read_text(encoding="utf-8")


def test_real_labels_show_points(real):
    X, Y, T = real
    text, found = read(KroneckerRidge().fit(X, Y, T), alphas=[0.1, 1.0, 10.0])
    assert len(found.all("path", **{"class": "setting-A"})) > 0
    assert "observed label" in text
    assert "ROC" not in text
    assert "pairs" in found.all("section", id="data")[0][1]
    assert "≤" not in found.all("section", id="landscape")[0][1]  # lines have no steps


def test_one_point_is_no_landscape(ridge):
    _, found = read(ridge, alphas=[1.0], task_alphas=[1.0])
    assert found.all("section", id="landscape") == []
    _, found = read(ridge, alphas=[1.0], task_alphas=[0.0, 1.0, 2.0])
    (first, *_) = [json.loads(text) for _, text in found.all("script", type="application/json")]
    assert first["names"] == ["neg_mean_squared_error", "λ_t"]
    assert [point[3] for point in first["points"]] == ["1", "2"]
    assert "λ = 0 is not drawn" in found.all("section", id="landscape")[0][1]


def test_a_large_grid_makes_a_small_page():
    X, Y, T = problems.data(664, 30, 8, 6)
    Y = (Y > 12).astype(float)
    text, found = read(
        TwoStepRidge().fit(X, Y, T), alphas=[0.1, 1.0], task_alphas=[0.1, 1.0], setting="CD"
    )
    assert len(text) < 1_000_000
    assert "a pixel is the mean of 2 × 1 labels" in found.all("section", id="data")[0][1]
    assert "thinned out" in found.all("section", id="held-out")[0][1]
    assert "200 of 19,920 labels" in found.all("section", id="cells")[0][1]


def test_what_means_reach_is_beside_every_score(page, summary):
    _, found = page
    tiles = [text for _, text in found.all("span", **{"class": "means"})]
    assert len(tiles) == 4
    notes = [text for _, text in found.all("span", **{"class": "note"}) if " at λ" in text]
    for each, tile, note in zip(summary.results, tiles, notes, strict=True):
        name, score = max(each.baselines.items(), key=lambda mean: mean[1])
        assert tile == f"{number(score)}, {name.replace('_', ' ')}"
        assert note.endswith(f"; {name.replace('_', ' ')}: {number(score)}")


def test_means_are_drawn_across_a_line_where_they_are_in_sight():
    view = landscape_of_scores([0.5, 0.7, 0.6], [0.1, 1.0, 10.0], setting="B", scoring="roc_auc")
    for reached, is_drawn in ((0.61, True), (0.2, False), (0.9, False), (float("nan"), False)):
        text = figures.landscape(view, [], {"grand_mean": 0.1, "task_means": reached}, SideNames())
        assert ('class="line beside"' in text) is is_drawn
        assert ("; task means:" in text) is (reached > 0.1)
    assert "reach" not in figures.landscape(view, [], {}, SideNames())


def words_of(text):
    """Return all that a reader sees or is told, without scripts and styles."""
    found = Page(re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL))
    told = [
        value
        for _, each in found.elements
        for key, value in each.items()
        if key in ("aria-label", "alt", "title")
    ]
    return "\n".join([found.all("body")[0][1], *told])


def test_the_sides_are_called_as_they_are_said_to_be(real, binary, holes, each):
    X, Y, T = real[0][:12], real[1][:12, :8], real[2][:8]
    network = Y[:8] + Y[:8].T
    constant = binary[1][:12, :8].copy()
    constant[3], constant[:, 5] = 1, 0
    few = {"alphas": [1.0, 2.0]}
    cases = [
        (TwoStepRidge().fit(X, constant, T), few),
        # Its landscapes would be solved again.
        (TwoStepRidge().fit(X, holes[1][:12, :8], T), {}),
        (KroneckerRidge(1e9, kernel="rbf").fit(X, Y, T), few),
        (TwoStepRidge(symmetry="symmetric").fit(X[:8], (network > 0).astype(float)), few),
    ]
    plain = re.compile(r"\b(?:instance|task|node)s?\b")
    for model, asked in each(cases):
        is_network = getattr(model, "symmetry", None) is not None
        sides = ("protein", "protein") if is_network else ("host", "parasite")
        text = words_of(render(summary_of(model, SummaryOptions(sides=sides, **asked))))
        assert [line for line in text.splitlines() if plain.search(line)] == []
        wanted = ["protein", "proteins"] if is_network else ["host", "hosts", "parasites"]
        assert all(re.search(rf"\b{word}\b", text) for word in wanted)


HOSTILE = [
    "<script>alert(1)</script>",
    "</details></table><img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)',
    "' style='display:none",
    "\u05e9\u05dc\u05d5\u05dd \u202eabc",
    "x" * 300,
    "two\nlines\r\tand a tab",
    "\U0001f469\u200d\U0001f52c \U0001f9ec",
    "=cmd()",
    "&lt;b&gt;",
    "--></style>",
    "${title} $$ %s {0}",
]


def test_hostile_ids_stay_text_everywhere(binary, each):
    X, Y, T = binary
    rows = [*HOSTILE, *HOSTILE[::-1]]
    rows[12:] = [f"{name} again" for name in rows[12:]]
    columns = [f"{name} {j}" for j, name in enumerate([*HOSTILE, *HOSTILE][:16])]
    network = np.maximum(Y[:16], Y[:16].T)
    cases = [
        TwoStepRidge().fit(X, pd.DataFrame(np.where(X[:, :1] > 0.9, np.nan, Y), rows, columns), T),
        TwoStepRidge(symmetry="symmetric").fit(
            pd.DataFrame(X[:16], columns), pd.DataFrame(network, columns, columns)
        ),
    ]
    for model in each(cases):
        text, found = read(model, setting="AB", alphas=[1.0, 2.0])
        shown = [text for _, text in found.all("bdi")]
        assert set(shown) <= {*rows, *columns}
        assert len(set(shown)) > 12
        # A pair is in both lists, and five times in explanations of two or three kinds.
        opened = [attributes for attributes, _ in found.all("details")]
        assert sum(each.get("class") != "more" for each in opened) == 5
        assert [tag for tag, _ in found.elements if tag in ("img", "b", "i")] == [
            "img",
            *("b" * len(found.all("b"))),
        ]
        assert "alert(1)</script>" not in text
        assert not [name for _, given in found.elements for name in given if name.startswith("on")]
        assert [given["class"] for given, name in found.all("bdi") if name == "x" * 300][:1] in (
            [],
            ["long"],
        )


def test_explanations_sum_to_what_the_model_predicts(page, summary):
    _, found = page
    texts = [text for _, text in found.all("details")]
    assert len(texts) == 5
    for each, text in zip(summary.explanations, texts, strict=True):
        assert text.count(number(each.prediction)) >= 4  # above, and below each of three lists
        assert number(each.pairs.contributions[0], 3) in text
        assert f"{each.pairs.n_rest:,} others together" in text


# --- learned kernels: words, bars and stages -----------------------------------------------------


@pytest.fixture(scope="module")
def learned(real):
    X = real[0][:12]
    Y = real[1][:12, :8]
    T = real[2][:8]
    model = LearnedKernelRidge(setting="A", stages=2, n_steps=1, cv=2)
    return model.fit({"<b>": X[:, :3], "rest": X[:, 3:]}, Y, T)


def test_a_section_with_words_bars_and_stages(learned):
    summary = summary_of(learned, SummaryOptions(setting="A", sides=("drug", "protein")))
    section = learned_kernels(summary)
    assert "Weights of the drugs" in section
    assert "The kernel between pairs is" in section
    assert "&lt;b&gt;" in section
    assert "<b>" not in section
    sizes = [float(share) for share in re.findall(r"--share: ([\d.]+)", section)]
    wanted = []
    for weights in summary.weights.weights.values():
        wanted += [weight / max(weights.values()) for weight in weights.values()]
    wanted += [error / max(learned.stage_errors_) for error in learned.stage_errors_]
    assert sizes == pytest.approx(wanted, abs=1e-3)
    for error in learned.stage_errors_:
        assert number(error) in section
    assert section.count("this model") == 1
    assert section.count("optimistic") == 1
    page = render(summary)
    assert '<section id="kernels"><h2>Learned kernels</h2>' in page
    assert '<a href="#kernels">Learned kernels</a>' in page


def test_no_section_where_nothing_was_learned(ridge):
    summary = summary_of(
        ridge,
        SummaryOptions(setting="B", alphas=[1.0], task_alphas=[1.0]),
    )
    assert learned_kernels(summary) == ""
    assert "Learned kernels" not in render(summary)
