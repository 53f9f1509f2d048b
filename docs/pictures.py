"""Draw the pictures of the front page and those of examples that need data or a server: ``make pictures``.

Every picture comes from the library itself or from a table of these pages. ``python
docs/pictures.py intervals report`` draws some of them. What it takes: matplotlib; a Chromium for
``report``; for ``learned`` and the examples the data sets
``hummingbird_plant``, ``kiba`` and ``yamanishi2008`` in the folder that ``DYADLEARN_DATA`` names, rdkit and fastapi.
What is not there is said, and the picture stays as it is.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageOps

mpl.use("agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
EXAMPLES = DOCS.parent / "examples"
os.environ.setdefault("DYADLEARN_DATA", str(DOCS.parents[1] / "shared" / "data"))
sys.path.insert(0, str(DOCS))

# A front page with four pictures loads in a moment where none is larger.
LARGEST = 80_000
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "0.45"


def write(picture: Image.Image, name: str, colours: int = 128) -> None:
    """Write a picture in few colours, and refuse one that is large."""
    target = IMAGES / name
    target.parent.mkdir(exist_ok=True)
    kept = io.BytesIO()
    picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(
        kept, "png", optimize=True
    )
    if len(kept.getvalue()) > LARGEST:
        raise ValueError(f"{name} has {len(kept.getvalue())} bytes, more than {LARGEST}.")
    target.write_bytes(kept.getvalue())
    print(
        f"  {target.relative_to(DOCS)}: {picture.width} × {picture.height}, "
        f"{len(kept.getvalue()) / 1000:.0f} kB"
    )


def drawn(figure: Any, dpi: int = 150) -> Image.Image:
    """Return what a figure looks like."""
    kept = io.BytesIO()
    figure.savefig(kept, dpi=dpi, facecolor="white")
    plt.close(figure)
    return Image.open(kept)


def both_ways(name: str, height: float, draw: Callable[[Any, Any], None]) -> None:
    """Write a picture of two panels, beside each other and, for phones, one below the other."""
    for twin, shape in {name: (1, 2), f"{name}_narrow": (2, 1)}.items():
        size = 4.3 * shape[1], height * shape[0]
        figure, (first, second) = plt.subplots(*shape, figsize=size, layout="constrained")
        draw(first, second)
        for ax in (first, second):
            bare(ax)
        write(drawn(figure), f"{twin}.png")


def bare(ax: Any) -> None:
    """Take away the frame of a picture but for its axes."""
    ax.spines[["top", "right"]].set_visible(False)


def settings() -> None:
    """Draw the four settings two by two, for phones, from the picture that has them in a row."""
    text = (IMAGES / "settings.svg").read_text(encoding="utf-8")
    moves = {
        'viewBox="0 0 860 300"': 'viewBox="0 0 430 590"',
        'width="859" height="299"': 'width="429" height="589"',
        "translate(244 0)": "translate(240 0)",
        "translate(452 0)": "translate(36 232)",
        "translate(660 0)": "translate(240 232)",
        "translate(36 252)": "translate(36 484)",
        'x="208" y="0"/><text class="small" x="236" y="14.5"': 'x="204" y="0"/><text class="small" '
        'x="232" y="14.5"',
        'x="390" y="0"/><text class="small" x="418" y="14.5"': 'x="0" y="34"/><text class="small" '
        'x="28" y="48.5"',
        'x="600" y="14.5"': 'x="0" y="82.5"',
    }
    for old, new in moves.items():
        if text.count(old) != 1:
            raise ValueError(f"settings.svg has {old!r} {text.count(old)} times.")
        text = text.replace(old, new)
    (IMAGES / "settings_narrow.svg").write_text(text, encoding="utf-8")
    print("  images/settings_narrow.svg")


def learned() -> None:
    """Draw what decides which hummingbird visits which plant, for new plants and for new birds."""
    from dyadlearn import LearnedKernelRidge

    found = runpy.run_path(str(EXAMPLES / "data_host_plant.py"))
    visited = found["visited"]
    plants = {"phylogeny": found["K"], "corolla length": np.log(found["corolla"])}
    birds = {"phylogeny": found["G"], "bill length": np.log(found["bill"])}
    models = {
        setting: LearnedKernelRidge(
            kernel={"phylogeny": "precomputed", "corolla length": "rbf"},
            task_kernel={"phylogeny": "precomputed", "bill length": "rbf"},
            setting=setting,
        ).fit(plants, visited, tasks=birds)
        for setting in "BC"
    }

    def draw(*axes: Any) -> None:
        for ax, setting, new in zip(axes, "BC", ("plants", "birds"), strict=True):
            weights = models[setting].weights_
            ticks = []
            for colour, label, side in zip(
                (BLUE, ORANGE), ("plants", "birds"), ("instances", "tasks"), strict=True
            ):
                places = len(ticks) + 0.6 * (side == "tasks") + np.arange(len(weights[side]))
                ticks += list(zip(places, weights[side], strict=True))
                bars = ax.barh(
                    places, list(weights[side].values()), height=0.72, color=colour, label=label
                )
                ax.bar_label(
                    bars,
                    fmt=lambda share: f"{100 * share:.0f} %",
                    padding=4,
                    fontsize="small",
                    color="0.25",
                )
            ax.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
            ax.invert_yaxis()
            ax.legend(
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
                ncols=2,
                frameon=False,
                fontsize="small",
            )
            ax.set_title(f"learned for new {new} ({setting})", fontsize=11, pad=24)
            ax.set(xlim=(0, 1.15), xticks=np.linspace(0, 1, 6), xlabel="Weight")
            ax.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))

    both_ways("learned", 2.9, draw)


def coverages() -> dict[str, list[float]]:
    """Return the shares in B, C and D that 90 % intervals hold, of two-step models that were chosen, by data set."""
    found: dict[str, list[float]] = {}
    name = ""
    for line in (DOCS / "intervals.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and re.match(r"\d", cells[2]):
            name = cells[0] or name
            # With holes no search was measured.
            if cells[1] == "two-step, chosen" or (cells[1] == "two-step" and "missing" in name):
                found[name.split(",")[0].replace("make_dyads", "synthetic")] = [
                    float(cell.split()[0]) for cell in cells[2:5]
                ]
    return found


def intervals() -> None:
    """Draw the intervals of some new labels, and how many labels intervals held on real data."""
    from dyadlearn import TwoStepRidge
    from dyadlearn.datasets import make_dyads

    data = make_dyads(160, 40, noise=0.5, random_state=0)
    model = TwoStepRidge(alpha=0.1, task_alpha=0.1, kernel="rbf", task_kernel="rbf")
    model.fit(data.X[:120], data.Y[:120], tasks=data.tasks)
    low, high = model.predict_interval(data.X[120:], coverage=0.9)
    inside = (low <= data.Y[120:]) & (data.Y[120:] <= high)
    order = np.argsort(model.predict(data.X[120:121])[0])
    row = data.Y[120, order]
    hit = inside[0, order]
    found = coverages()

    def draw(left: Any, right: Any) -> None:
        places = np.arange(len(order))
        left.vlines(places, low[0, order], high[0, order], color="#9ecae1", linewidth=4)
        left.plot(places[hit], row[hit], "o", color=BLUE, markersize=4, label="label, inside")
        left.plot(places[~hit], row[~hit], "D", color=ORANGE, markersize=5, label="label, outside")
        left.set(xticks=[], xlabel="tasks, by prediction", ylabel="label")
        share = f"{100 * inside.mean():.1f} % of all their labels inside"
        left.set_title(f"one of {len(inside)} new instances;\n{share}", fontsize=11)
        left.legend(frameon=False, loc="upper left", fontsize=9)
        for offset, (setting, marker) in enumerate(zip("BCD", "o^s", strict=True)):
            shares = [values[offset] for values in found.values()]
            heights = np.arange(len(found)) + 0.2 * (offset - 1)
            right.plot(
                shares,
                heights,
                marker,
                color=(BLUE, ORANGE, "#009E73")[offset],
                label=setting,
                markersize=6,
            )
        right.axvline(90, color=GREY, linewidth=1)
        right.set(
            yticks=range(len(found)),
            yticklabels=list(found),
            xlim=(80, 100),
            xlabel="labels inside, %",
        )
        right.invert_yaxis()
        right.set_title("hidden rows, columns and both;\nasked for 90 %", fontsize=11)
        right.legend(frameon=False, loc="upper right", fontsize=9, handletextpad=0.1)

    both_ways("intervals", 3.4, draw)


def report() -> None:
    """Take a picture of the top of a report and of its landscapes."""
    from browser import browser

    from dyadlearn import TwoStepRidgeCV
    from dyadlearn.datasets import debtags_kernels, load_debtags
    from dyadlearn.report import write_report

    data = load_debtags()
    K, G = debtags_kernels(data)
    rows = slice(200)
    model = TwoStepRidgeCV(
        setting="B", scoring="roc_auc", kernel="precomputed", task_kernel="precomputed"
    )
    model.fit(K[rows, rows], data.Y[rows], tasks=G)
    with TemporaryDirectory() as folder, browser() as started:
        path = Path(folder, "report.html")
        address = write_report(
            model, path, title="Packages and their tags", sides=("package", "tag")
        ).as_uri()
        page = started.new_page(viewport={"width": 1000, "height": 900})
        page.goto(address)
        heading = page.get_by_role("heading", name="Landscape", exact=True).bounding_box()
        parts = [shot(page, 20, 435), shot(page, heading["y"] - 16, 700)]
        phone = started.new_page(viewport={"width": 390, "height": 844}, device_scale_factor=2)
        phone.goto(address)
        write(framed([shot(phone, 10, 722)]), "report_narrow.png", colours=48)
    write(framed(parts), "report.png", colours=48)


def shot(page: Any, top: float, height: float) -> Image.Image:
    """Return a part of a page that is open, in its whole width."""
    clip = {"x": 0, "y": top, "width": page.viewport_size["width"], "height": height}
    return Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))


def framed(parts: list[Image.Image]) -> Image.Image:
    """Return pictures of one width below each other, with a thin line around them."""
    whole = Image.new("RGB", (parts[0].width, sum(part.height for part in parts)), "white")
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    return ImageOps.expand(whole, 1, "#d0d7de")


def plots() -> None:
    """Draw the picture of the page on the report and plots, by the code of that page."""
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    block = next(
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "plt.subplots" in block
    )
    code = "\n".join(line[4:] for line in block.splitlines() if line.startswith((">>> ", "... ")))
    names: dict[str, Any] = {}
    exec(code, names)
    write(drawn(names["figure"], dpi=90), "plots.png", colours=64)


def thumbnail(figure: Any, name: str) -> None:
    """Write a small picture of an example."""
    picture = drawn(figure, dpi=100).convert("RGB")
    picture.thumbnail((400, 280), Image.Resampling.LANCZOS)
    write(picture, f"thumbnails/{name}.png", colours=64)


def example(name: str) -> Callable[[], None]:
    """Return what draws the thumbnail of an example: its last figure."""

    def draw() -> None:
        plt.close("all")
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
        thumbnail(plt.figure(plt.get_fignums()[-1]), name)
        plt.close("all")

    return draw


def serve_fastapi() -> None:
    """Write down what the service answers."""
    import pandas as pd
    from fastapi.testclient import TestClient

    from dyadlearn import OnlineTwoStepRidge, save

    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        rng.normal(size=(40, 3)), [f"u{i}" for i in range(40)], ["age", "north", "east"]
    )
    films = pd.DataFrame(rng.normal(size=(12, 2)), [f"film {j}" for j in range(12)])
    stars = 3 + users.to_numpy() @ rng.normal(size=(3, 2)) @ films.to_numpy().T / 2
    stars[rng.random(stars.shape) < 0.5] = np.nan
    model = OnlineTwoStepRidge(keep_labels=True).fit(
        users, pd.DataFrame(stars, users.index, films.index), tasks=films
    )
    with TemporaryDirectory() as folder:
        save(model, Path(folder, "ratings.dyad"))
        service = runpy.run_path(str(EXAMPLES / "serve_fastapi.py"))
        client = TestClient(service["make_app"](Path(folder, "ratings.dyad")))
    lines = [("GET /health", str(client.get("/health").json()))]
    asked = client.get("/users/u3?k=3").json()
    lines.append(
        ("GET /users/u3?k=3", "\n".join(f"{each['item']:8} {each['score']:.2f}" for each in asked))
    )
    figure = plt.figure(figsize=(4, 2.8), facecolor="white")
    height = 0.9
    for question, answer in lines:
        look = {"family": "monospace", "fontsize": 12, "va": "top"}
        figure.text(0.06, height, question, weight="bold", color=BLUE, **look)
        figure.text(0.06, height - 0.12, answer, color="0.2", linespacing=1.5, **look)
        height -= 0.34
    thumbnail(figure, "serve_fastapi")


PICTURES: dict[str, Callable[[], None]] = {
    "settings": settings,
    "learned": learned,
    "intervals": intervals,
    "report": report,
    "plots": plots,
    **{
        name: example(name)
        for name in ("chem_smiles_sequences", "data_drug_target", "data_host_plant", "data_kiba")
    },
    "serve_fastapi": serve_fastapi,
}


def main() -> None:
    """Draw the pictures named, or all; end with 1 where one could not be drawn."""
    wanted = sys.argv[1:] or list(PICTURES)
    if unknown := set(wanted) - set(PICTURES):
        raise SystemExit(
            f"There are no pictures {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}."
        )
    absent = []
    for name in wanted:
        start = time.perf_counter()
        print(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                PICTURES[name]()
            except (ImportError, FileNotFoundError, SystemExit) as error:
                absent.append(name)
                print(f"  left as it is: {error}")
            else:
                print(f"  {time.perf_counter() - start:.0f} s")
    if absent:
        raise SystemExit(f"Not drawn: {', '.join(absent)}.")


if __name__ == "__main__":
    main()
