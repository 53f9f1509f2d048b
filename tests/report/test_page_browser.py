"""The page in a real browser: it loads alone, answers a pointer and keys, sorts, searches, and fits a phone."""

import json
import re
import warnings

import pandas as pd
import pytest

import problems
from dyadlearn import TwoStepRidgeCV
from dyadlearn.report import write_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    X, Y, T = problems.data(30, 20, 6, 5, noise=6.0)
    Y = (Y > 3).astype(float)
    rows = [
        "<script>document.title='broken'</script>",
        *(f"protein {i} with quite a long name" for i in range(29)),
    ]
    columns = [f"<img src=x onerror=\"document.title='broken'\">{j}" for j in range(20)]
    alphas = [0.001, 0.1, 1.0, 10.0, 1000.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = TwoStepRidgeCV(alphas, alphas, setting="D", scoring="roc_auc")
        return search.fit(X, pd.DataFrame(Y, rows, columns), T)


@pytest.fixture(scope="module")
def address(model, tmp_path_factory):
    path = write_report(
        model, tmp_path_factory.mktemp("report") / "report.html", title="Proteins and tags"
    )
    return path.as_uri()


def test_a_page_opens_alone(visit, address, tmp_path):
    page = visit(address)
    assert page.title() == "Proteins and tags"
    assert page.locator("h1").inner_text() == "Proteins and tags"
    assert (
        page.locator("img.pixels").evaluate("image => image.complete && image.naturalWidth") == 20
    )
    shot = tmp_path / "report.png"
    page.screenshot(path=shot)
    assert shot.stat().st_size > 10_000


def test_the_landscape_answers_a_pointer(visit, address, model):
    page = visit(address)
    figure = page.locator("figure.landscape").nth(3)
    tip = figure.locator(".tip")
    svg = figure.locator("svg")
    assert tip.is_hidden()
    svg.scroll_into_view_if_needed()
    points = json.loads(figure.locator("script").text_content())["points"]
    box = svg.bounding_box()
    scale = box["width"] / 400
    for place in (0, 7, 24):
        # Near a point is near enough.
        page.mouse.move(
            box["x"] + points[place][0] * scale + 3, box["y"] + points[place][1] * scale - 4
        )
        score = float(model.landscape_[divmod(place, 5)])
        found = re.search(r"roc_auc ([\d.]+)\s*λd (\S+)\s*λt (\S+)", tip.inner_text())
        assert float(found[1]) == pytest.approx(score, abs=5e-5)
        assert [float(found[2]), float(found[3])] == [
            model.alphas[place // 5],
            model.alphas[place % 5],
        ]
        frame = figure.bounding_box()
        shown = tip.bounding_box()
        assert shown["x"] >= frame["x"] - 1
        assert shown["x"] + shown["width"] <= frame["x"] + frame["width"] + 1
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def test_the_landscape_answers_keys(visit, address, model):
    page = visit(address)
    figure = page.locator("figure.landscape").nth(3)
    svg = figure.locator("svg")
    tip = figure.locator(".tip")
    svg.focus()
    i = model.alphas.index(model.alpha_)
    j = model.alphas.index(model.task_alpha_)
    assert f"λd {model.alpha_:g}" in tip.inner_text()  # begins at the star
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    text = tip.inner_text()
    assert f"λd {model.alphas[min(i + 2, 4)]:g}" in text
    assert f"λt {model.alphas[max(j - 1, 0)]:g}" in text
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def column(page, number):
    return page.locator(f"#cell-table tbody tr:not([hidden]) td:nth-child({number})")


def test_the_table_sorts(visit, address):
    page = visit(address)
    heads = page.locator("#cell-table th")

    def values():
        return column(page, 4).evaluate_all(
            "cells => cells.map(cell => Number(cell.dataset.value))"
        )

    first = values()
    heads.nth(3).locator("button").click()
    assert heads.nth(3).get_attribute("aria-sort") == "descending"
    assert heads.nth(4).get_attribute("aria-sort") is None
    assert values() == sorted(first, reverse=True) != first
    heads.nth(3).locator("button").focus()
    page.keyboard.press("Enter")
    assert heads.nth(3).get_attribute("aria-sort") == "ascending"
    assert values() == sorted(first)
    heads.nth(0).locator("button").click()
    names = column(page, 1).all_inner_texts()
    numbers = [int(re.findall(r"\d+", name)[0]) for name in names if name.startswith("protein")]
    assert numbers == sorted(numbers)  # 2 before 10
    assert heads.nth(0).get_attribute("aria-sort") == "ascending"


def test_the_table_is_searched(visit, address):
    page = visit(address)
    total = column(page, 1).count()
    search = page.locator("#cells").get_by_label("Search ids")
    search.fill("PROTEIN 2 ")
    shown = [
        " ".join(pair)
        for pair in zip(*(column(page, k).all_inner_texts() for k in (1, 2)), strict=True)
    ]
    assert 0 < len(shown) < total
    assert all("protein" in names and "2" in names for names in shown)
    assert page.locator("#cells output").inner_text() == f"{len(shown)} of {total}"
    search.fill("no such id")
    assert column(page, 1).count() == 0
    search.fill("")
    assert column(page, 1).count() == total


def luminance(page, what, colour):
    """Return how bright a colour of an element is, from 0 to 1."""
    found = page.locator(what).first.evaluate(f"element => getComputedStyle(element).{colour}")
    parts = [float(part) / 255 for part in re.findall(r"[\d.]+", found)[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_by_day_and_by_night(visit, address, scheme):
    page = visit(address, **({} if scheme == "light" else {"color_scheme": scheme}))
    ground = luminance(page, "body", "backgroundColor")
    assert (ground > 0.9) == (scheme == "light")
    assert (ground < 0.05) == (scheme == "dark")
    for what, colour in [
        ("p", "color"),
        (".key", "color"),
        ("svg text", "fill"),
        ("nav a", "color"),
        ("th", "color"),
    ]:
        low, high = sorted((ground, luminance(page, what, colour)))
        assert (high + 0.05) / (low + 0.05) > 4.5, what
    for line in ("A", "B", "C", "D"):
        low, high = sorted((ground, luminance(page, f".line.setting-{line}", "stroke")))
        assert (high + 0.05) / (low + 0.05) > 3, line


def test_a_printed_page_is_bright_and_not_endless(visit, address):
    page = visit(address, color_scheme="dark")
    page.emulate_media(media="print")
    assert luminance(page, "body", "backgroundColor") == 1
    assert "dark" not in page.evaluate("getComputedStyle(document.documentElement).colorScheme")
    assert luminance(page, "h1", "color") < 0.1
    assert page.locator("nav").is_hidden()
    assert not any(each.is_visible() for each in page.locator(".search").all())
    assert column(page, 1).count() > 40
    assert (
        column(page, 1).evaluate_all(
            "cells => cells.filter(cell => cell.getClientRects().length).length"
        )
        == 40
    )
    assert page.locator("#cells .printed").is_visible()
    assert page.locator("figure.landscape svg").first.is_visible()
    assert len(page.pdf(format="A4")) > 10_000
