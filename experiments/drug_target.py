"""The first experiment of the paper (its Section 6.1): which drugs act on which proteins.

    python experiments/drug_target.py [--sets nr gpcr] [--methods two_step] [--quick]
                                      [--markdown] [--json FILE] [--figures FOLDER] [--device cuda]

Four networks of drugs and targets, two methods, four settings, 14 regularisations from 10⁻⁷ to 10⁶
on each axis. Prints the paper's Table 2 beside ours: the best area under the ROC curve, and the
time that the search for it took. `--figures` draws the paper's two figures (needs matplotlib),
`--device` computes on a GPU (needs torch or cupy). The whole takes some minutes on a processor,
most of them for the one cell that the paper could not compute, Kronecker ridge regression in
setting D on the enzymes; `--quick` leaves it out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

import dyadlearn
from dyadlearn import landscape
from dyadlearn._array import on_device
from dyadlearn.datasets import fetch_yamanishi
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.kernels import repair
from dyadlearn.labels import fisher_relabel
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.spectrum import Spectrum

PROJECT = Path(__file__).resolve().parents[1]
DATA = PROJECT.parent / "shared" / "data"

SETS = {"e": "enzymes", "gpcr": "GPCRs", "ic": "ion channels", "nr": "nuclear receptors"}
METHODS = {"kronecker": "Kronecker", "two_step": "two-step"}
SETTINGS = {"A": "new pair", "B": "new target", "C": "new drug", "D": "both new"}
ALPHAS = tuple(10.0**power for power in range(-7, 7))

# Distances to the paper's figures that count as equal and as close.
EQUAL = 0.0007
CLOSE = 0.003

# Table 2: the best AUC on e, gpcr, ic and nr, then the running times.
TABLE_2 = """
A kronecker .9640 .9478 .9723 .8662   7.81s    0.22s   0.53s   0.01s
A two_step  .9644 .9420 .9705 .8857   66.42s   3.21s   5.6s    0.2s
B kronecker .9196 .8280 .9495 .7475   5671.1s  13.33s  91.97s  0.37s
B two_step  .9256 .8702 .9507 .7893   104.9s   10.28s  19.35s  2.09s
C kronecker .8641 .8742 .8438 .8250   2442.41s 82.67s  98.59s  1.28s
C two_step  .8695 .8772 .8475 .8515   94.39s   20.82s  22.36s  4.31s
D kronecker -     .8228 .7691 .7107   >3d      2.14h   5.49h   26.09s
D two_step  .8270 .8319 .7706 .7275   66.6s    3.22s   5.77s   0.21s
"""

Key = tuple[str, str, str]


def read_table(text: str) -> dict[Key, tuple[float | None, str]]:
    """Return the AUC (None where there is none) and the running time of each (set, method, setting)."""
    cells: dict[Key, tuple[float | None, str]] = {}
    for line in text.strip().splitlines():
        setting, method, *figures = line.split()
        for name, auc, duration in zip(SETS, figures[:4], figures[4:], strict=True):
            cells[name, method, setting] = (None if auc == "-" else float(auc), duration)
    return cells


PAPER = read_table(TABLE_2)


@dataclass(frozen=True)
class Cell:
    """One cell of the table.

    Attributes
    ----------
    name, method, setting : str
        Of `SETS`, `METHODS` and `SETTINGS`.
    scores : array of shape (14,) or (14, 14)
        The AUC at each regularisation; rows are those of the targets, columns those of the drugs.
    seconds : float
        For the decompositions, all hold-out predictions and all scores.
    """

    name: str
    method: str
    setting: str
    scores: np.ndarray
    seconds: float

    @property
    def auc(self) -> float:
        """The best score."""
        return float(self.scores.max())

    @property
    def best(self) -> tuple[int, ...]:
        """Where it stands among the regularisations; the first of equals."""
        return tuple(
            int(index) for index in np.unravel_index(self.scores.argmax(), self.scores.shape)
        )

    @property
    def paper(self) -> tuple[float | None, str]:
        """The paper's AUC and running time."""
        return PAPER[self.name, self.method, self.setting]

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, None where the paper has none."""
        return None if self.paper[0] is None else self.auc - self.paper[0]


def find_data(path: str | None = None) -> str | None:
    """Return the folder of the data: the one given, that of DYADLEARN_DATA, the one beside the checkout, else None."""
    if (
        path is not None
        or os.environ.get("DYADLEARN_DATA")
        or not (DATA / "yamanishi2008").is_dir()
    ):
        return path
    return str(DATA)


def load(name: str, data_home: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the kernels of targets (m, m) and drugs (q, q), and the relabelled interactions (m, q)."""
    data = fetch_yamanishi(name, data_home=data_home, instances="targets")
    kernels = (repair(similarity, symmetrize="mean", psd="clip") for similarity in (data.K, data.G))
    return *kernels, fisher_relabel(data.Y)


def compute(
    name: str, method: str, setting: str, data: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> Cell:
    """Search all regularisations for one cell of the table."""
    K, G, Y = data
    start = time.perf_counter()
    spectra = Spectrum.from_gram(K), Spectrum.from_gram(G)
    kronecker = Kronecker(*spectra, 1.0)
    if method == "kronecker":
        pairing = kronecker
    else:
        pairing = TwoStep(*(side.smoother(Tikhonov(), 1.0) for side in spectra))
    scores = landscape(
        Problem.of(pairing, Y),
        alphas=ALPHAS,
        task_alphas=ALPHAS,
        setting=setting,
        scoring="roc_auc",
        progress=False,
    )[setting]
    return Cell(name, method, setting, scores, time.perf_counter() - start)


def plan(sets: Iterable[str], methods: Iterable[str], quick: bool = False) -> list[Key]:
    """Return the cells to compute, those of small data sets first."""
    order = [name for name in ("nr", "gpcr", "ic", "e") if name in set(sets)]
    keys = [(name, method, setting) for name in order for method in methods for setting in SETTINGS]
    return [key for key in keys if not (quick and key == ("e", "kronecker", "D"))]


def run(keys: Sequence[Key], data_home: str | None, device: str | None = None) -> Iterator[Cell]:
    """Compute cells one by one, here or on a device, showing which on standard error."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=len(keys))
        loaded = ""
        data = None
        for name, method, setting in keys:
            if name != loaded:
                loaded = name
                data = load(name, data_home)
                if device is not None:
                    data = tuple(on_device(np.asarray(part), device) for part in data)
            bar.update(task, description=f"{name}, {METHODS[method]}, setting {setting}")
            assert data is not None
            cell = compute(name, method, setting, data)
            if not console.is_terminal:
                print(
                    f"{name:<4}  {method:<9}  {setting}  {cell.auc:.4f}  {cell.seconds:9.2f}s",
                    file=sys.stderr,
                    flush=True,
                )
            bar.advance(task)
            yield cell


def table(cells: Iterable[Cell]) -> Table:
    """Return the paper's figures beside ours."""
    # 80 characters wide, as many terminals are.
    result = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    result.add_column("data")
    result.add_column("setting", no_wrap=True)
    for title in (
        "AUC:\npaper",
        "\nours",
        "differ-\nence",
        "\nλ_d",
        "\nλ_t",
        "time:\npaper",
        "\nours",
    ):
        result.add_column(title, justify="right", no_wrap=True)
    order = [(name, method, setting) for name in SETS for setting in SETTINGS for method in METHODS]
    ordered = sorted(cells, key=lambda cell: order.index((cell.name, cell.method, cell.setting)))
    for index, cell in enumerate(ordered):
        auc, duration = cell.paper
        result.add_row(
            cell.name,
            f"{cell.setting} {METHODS[cell.method]}",
            "-" if auc is None else f"{auc:.4f}",
            f"{cell.auc:.4f}",
            "" if cell.difference is None else mark(cell.difference),
            *([f"{ALPHAS[index]:.0e}" for index in cell.best] + [""])[:2],
            duration,
            f"{cell.seconds:.2f}s",
            end_section=index + 1 < len(ordered) and ordered[index + 1].name != cell.name,
        )
    return result


def mark(difference: float) -> str:
    """Return a difference, one that is not equal marked with ~ and one that is not even close with !."""
    sign, colour = (" ", "green") if abs(difference) <= EQUAL else ("~", "yellow")
    if abs(difference) > CLOSE:
        sign = "!"
        colour = "red"
    return f"[{colour}]{round(difference, 4) + 0.0:+.4f}{sign}[/{colour}]"


def summary(cells: Iterable[Cell]) -> dict[str, Any]:
    """Return how many cells the paper has too, how many are equal and close, and the largest difference."""
    differences = {
        f"{cell.name} {cell.method} {cell.setting}": cell.difference
        for cell in cells
        if cell.difference is not None
    }
    largest = max(differences, key=lambda key: abs(differences[key]), default=None)
    return {
        "cells": len(differences),
        "equal": sum(abs(difference) <= EQUAL for difference in differences.values()),
        "close": sum(abs(difference) <= CLOSE for difference in differences.values()),
        "largest": None if largest is None else differences[largest],
        "largest_at": largest,
    }


def markdown(cells: Iterable[Cell]) -> str:
    """Return the AUCs in the form of the paper's table, ours after the paper's and bold where they are not equal."""
    by_key = {(cell.name, cell.method, cell.setting): cell for cell in cells}
    names = [name for name in SETS if any(key[0] == name for key in by_key)]
    lines = [
        "| setting | method | " + " | ".join(f"{name}: paper | ours" for name in names) + " |",
        "|---|---|" + "--:|--:|" * len(names),
    ]
    for setting in SETTINGS:
        for method in METHODS:
            line = [setting, METHODS[method]]
            for name in names:
                cell = by_key.get((name, method, setting))
                auc = PAPER[name, method, setting][0]
                ours = "–" if cell is None else f"{cell.auc:.4f}"
                is_far = (
                    cell is not None
                    and cell.difference is not None
                    and abs(cell.difference) > EQUAL
                )
                line += ["–" if auc is None else f"{auc:.4f}", f"**{ours}**" if is_far else ours]
            if any(key[1:] == (method, setting) for key in by_key):
                lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Return the date and what the figures were computed with."""
    return {
        "date": str(datetime.date.today()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "dyadlearn": dyadlearn.__version__,
    }


def as_json(cells: Iterable[Cell]) -> str:
    """Return everything, the scores at every regularisation too."""
    cells = list(cells)
    rows = [
        {
            "set": cell.name,
            "method": cell.method,
            "setting": cell.setting,
            "auc": cell.auc,
            "seconds": cell.seconds,
            "alpha": ALPHAS[cell.best[0]],
            "task_alpha": ALPHAS[cell.best[-1]],
            "paper_auc": cell.paper[0],
            "paper_time": cell.paper[1],
            "difference": cell.difference,
            "landscape": cell.scores.tolist(),
        }
        for cell in cells
    ]
    return json.dumps(
        {"versions": versions(), "alphas": ALPHAS, "summary": summary(cells), "cells": rows},
        indent=1,
    )


def draw_curves(cells: Iterable[Cell], path: Path) -> None:
    """Draw the AUC of Kronecker ridge regression over λ, one panel for each data set."""
    from matplotlib.figure import Figure

    drawn = [cell for cell in cells if cell.method == "kronecker"]
    names = [name for name in SETS if any(cell.name == name for cell in drawn)]
    looks = dict(
        zip(
            SETTINGS,
            [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D")],
            strict=True,
        )
    )
    figure = Figure(figsize=(1.2 + 2.7 * len(names), 3.3), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for cell in (cell for cell in drawn if cell.name == name):
            colour, marker = looks[cell.setting]
            label = f"{cell.setting}: {SETTINGS[cell.setting]}"
            panel.plot(
                ALPHAS,
                cell.scores,
                color=colour,
                marker=marker,
                markersize=3,
                linewidth=1.4,
                label=label,
            )
            best = (ALPHAS[cell.best[0]], cell.auc)
            panel.plot(
                *best, color=colour, marker=marker, markersize=9, markeredgecolor="black", zorder=3
            )
        panel.set(title=f"{name} ({SETS[name]})", xscale="log", xlabel="λ", xticks=ALPHAS[1::3])
        panel.minorticks_off()
        panel.grid(alpha=0.3, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("AUC")
    lines, labels = max(
        (panel.get_legend_handles_labels() for panel in panels), key=lambda pair: len(pair[0])
    )
    figure.legend(lines, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("Kronecker ridge regression: hold-out AUC, the best of each setting marked")
    figure.savefig(path, dpi=150)


def draw_maps(cells: Iterable[Cell], path: Path) -> None:
    """Draw what two-step ridge regression loses against the best pair of λ, one panel for each setting and data set."""
    from matplotlib.colors import BoundaryNorm
    from matplotlib.figure import Figure

    by_setting = {(cell.setting, cell.name): cell for cell in cells if cell.method == "two_step"}
    names = [name for name in SETS if any(key[1] == name for key in by_setting)]
    powers = np.log10(ALPHAS)
    # Steps that grow: near the best a few thousandths matter, far from it nothing does.
    levels = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    figure = Figure(figsize=(1.6 + 2.3 * len(names), 9.6), layout="constrained")
    panels = figure.subplots(len(SETTINGS), len(names), sharex=True, sharey=True, squeeze=False)
    norm = BoundaryNorm(levels, 256)
    filled = None
    for (setting, name), cell in by_setting.items():
        row = list(SETTINGS).index(setting)
        column = names.index(name)
        panel = panels[row, column]
        loss = cell.auc - cell.scores
        filled = panel.contourf(powers, powers, loss, levels, cmap="viridis_r", norm=norm)
        panel.contour(powers, powers, loss, levels[1:], colors="black", linewidths=0.3, alpha=0.5)
        at = (powers[cell.best[1]], powers[cell.best[0]])
        panel.plot(
            *at,
            marker="*",
            markersize=11,
            color="white",
            markeredgecolor="black",
            clip_on=False,
            zorder=3,
        )
        title = f"{name} ({SETS[name]})\n" if row == 0 else ""
        panel.set_title(f"{title}best {cell.auc:.4f}", fontsize=9)
        panel.set(xticks=powers[1::3], yticks=powers[1::3], aspect="equal")
    for panel in panels[-1]:
        panel.set_xlabel("log₁₀ λ of the drugs")
    for panel, (setting, title) in zip(panels[:, 0], SETTINGS.items(), strict=True):
        panel.set_ylabel(f"{setting}: {title}\nlog₁₀ λ of the targets")
    scale = figure.colorbar(
        filled, ax=panels, label="AUC lost against the best", shrink=0.5, ticks=levels, format="%g"
    )
    scale.ax.invert_yaxis()
    figure.suptitle(
        "Two-step ridge regression: hold-out AUC below the best of each panel, which is starred"
    )
    figure.savefig(path, dpi=150)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=SETS,
        default=list(SETS),
        metavar="SET",
        help="of e, gpcr, ic, nr",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=list(METHODS),
        metavar="METHOD",
        help="of kronecker, two_step",
    )
    parser.add_argument(
        "--data-home",
        help="folder of the data; by default ../shared/data, else that of the data sets",
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out Kronecker D on e, which takes minutes"
    )
    parser.add_argument("--device", help="where to compute, such as cuda; by default here")
    parser.add_argument(
        "--markdown", action="store_true", help="print the AUCs as a table of Markdown too"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything here, all landscapes too"
    )
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="draw kronecker.png and two_step.png here"
    )
    options = parser.parse_args(arguments)
    if options.figures is not None and importlib.util.find_spec("matplotlib") is None:
        parser.error(
            "--figures needs matplotlib, which is not installed: pip install 'dyadlearn[plots]'"
        )
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, print the table, write what is asked for."""
    options = parse(arguments)
    for folder in (options.json and options.json.parent, options.figures):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    try:
        cells = list(
            run(
                plan(options.sets, options.methods, options.quick),
                find_data(options.data_home),
                options.device,
            )
        )
    except (ConnectionError, FileNotFoundError) as error:
        sys.exit(str(error))
    console = Console() if sys.stdout.isatty() else Console(width=100)
    console.print(table(cells))
    counts = summary(cells)
    if counts["cells"]:
        console.print(
            f"Of {counts['cells']} cells {counts['equal']} are within {EQUAL} of the paper and "
            f"{counts['close']} "
            f"within {CLOSE} (~ and ! mark those beyond). Largest difference: "
            f"{counts['largest']:+.4f} "
            f"({counts['largest_at']}).",
            highlight=False,
        )
    console.print(", ".join(f"{key} {value}" for key, value in versions().items()), highlight=False)
    if options.markdown:
        print(f"\n{markdown(cells)}")
    if options.json is not None:
        options.json.write_text(as_json(cells) + "\n", encoding="utf-8")
    if options.figures is not None:
        for method, draw in (("kronecker", draw_curves), ("two_step", draw_maps)):
            if method in options.methods:
                draw(cells, options.figures / f"{method}.png")


if __name__ == "__main__":
    main()
