"""The third experiment of the paper (its Section 6.3): labels of documents in a hierarchy, learnt batch by batch.

    python experiments/online_text.py [--data lshtc|debtags|both] [--repeats N] [--components N]
                                      [--compression svd|canonical|canonical-first] [--quick]
                                      [--markdown] [--json FILE] [--figures FOLDER]

Labels learnt independently against two-step ridge regression with the kernel exp(−d/10) of
distances in the hierarchy: a first batch, then equal batches by Algorithm 1, λ by leave-one-out.
Learning curves of AUC for new documents (setting B), and for new documents with labels that were
withheld from learning (setting D); then what the paper says of them, and whether it holds here. The
data are described in `online_text_data.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from drug_target import versions
from online_text_data import COMPRESSIONS, SETS, Data, load_data
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from dyadlearn import OnlineTwoStepRidge
from dyadlearn.metrics import roc_auc

APPROACHES = {"independent": "independent", "two_step": "two-step", "zero_shot": "zero-shot"}
CHOICES = {"error": "squared error", "auc": "AUC"}
METRICS = {"instance": "instance-wise", "task": "macro"}
ALPHAS = tuple(10.0**power for power in range(-4, 4))

# Rows that λ is chosen on, at most: for squared error they are cheap, for AUC they are not.
SAMPLE = {"error": 1000, "auc": 500}
# A share of the labels that nothing is known of in setting D.
WITHHELD = 0.2
# A difference that counts as none, one that counts as small, and what zero-shot learning is to
# reach.
NEAR = 0.01
SMALL = 0.02
ZERO_SHOT = 0.6

Key = tuple[str, str, str]
KEYS: list[Key] = list(product(APPROACHES, CHOICES, METRICS))


@dataclass
class Curves:
    """Learning curves.

    Attributes
    ----------
    name : str
        Of `SETS`.
    sizes : list of int
        Numbers of documents that went by.
    scores : dict of (approach, choice, metric) to list of lists
        A curve for each repetition.
    chosen : dict of (approach, choice) to list of lists of pairs
        The regularisations of documents and of labels.
    seconds : list of float
        Time that each repetition took.
    """

    name: str
    sizes: list[int]
    scores: dict[Key, list[list[float]]] = field(default_factory=lambda: {key: [] for key in KEYS})
    chosen: dict[tuple[str, str], list[list[tuple[float, float]]]] = field(
        default_factory=lambda: {key: [] for key in product(APPROACHES, CHOICES)}
    )
    seconds: list[float] = field(default_factory=list)

    def mean(self, *key: str) -> np.ndarray:
        """Return the averaged curve of an approach, a choice and a metric."""
        return np.mean(self.scores[key], axis=0)  # type: ignore[index]

    def error(self, *key: str) -> np.ndarray:
        """Return the standard error of the averaged curve, NaN for a single repetition."""
        values = np.array(self.scores[key])  # type: ignore[index]
        if len(values) == 1:
            return np.full(len(self.sizes), np.nan)
        return values.std(axis=0, ddof=1) / len(values) ** 0.5


def auc(Y: Any, F: np.ndarray, average: str) -> float:
    """Return the area under the ROC curve of predictions F (t, b) for sparse labels Y (t, b).

    Labels that stand alike to all known ones get the same prediction: they tie, for rounding is no
    order.
    """
    return float(roc_auc(Y.toarray(), F, average=average, tie_tolerance=None))


def choose(model: OnlineTwoStepRidge, X: np.ndarray, Y: Any, choice: str, setting: str) -> None:
    """Set the regularisation of a model that has learnt rows X (n, d) with labels Y (n, q), by leave-one-out on some.

    By squared error in setting B, as in the paper; or from there by instance-wise AUC in the
    setting that is wanted, first for λ of the labels and then for λ of the documents.
    """
    rows = X[-SAMPLE["error"] :]
    labels = Y[-SAMPLE["error"] :]
    model.tune(rows, labels, ALPHAS, ALPHAS)
    if choice == "error":
        return
    rows = X[-SAMPLE["auc"] :]
    labels = Y[-SAMPLE["auc"] :]

    def score(**alphas: float) -> float:
        return auc(labels, model.set_alpha(**alphas).holdout(rows, labels, setting), "instance")

    for name in ("alpha",) if model.statistics_.tasks is None else ("task_alpha", "alpha"):
        best = max(ALPHAS, key=lambda value, name=name: score(**{name: value}))  # type: ignore[misc]
        model.set_alpha(**{name: best})


def stream(
    data: Data, order: np.ndarray, withheld: np.ndarray, approach: str
) -> Iterator[tuple[int, OnlineTwoStepRidge, np.ndarray]]:
    """Learn batch by batch; yield at each of the sizes its place, the model and the documents learnt so far.

    Of zero-shot learning, documents that have withheld labels only go by without being learnt.
    """
    if approach == "zero_shot":
        known = np.setdiff1d(np.arange(data.Y.shape[1]), withheld)
    else:
        known = slice(None)
    labels = data.Y[:, known]
    is_labelled = np.diff(labels.indptr) > 0
    tasks = None if approach == "independent" else data.tasks[known]
    # The paper's model has no constants of its own, but one among the features of the documents. To
    # leave labels out the model must tell them apart.
    model = OnlineTwoStepRidge(fit_intercept=False)
    learnt = np.empty(0, dtype=int)
    bounds = sorted({0, *range(data.first, len(order), data.first), *data.sizes})
    for start, stop in pairwise(bounds):
        rows = order[start:stop]
        rows = rows[is_labelled[rows]]
        if rows.size:
            model.partial_fit(data.X[rows], labels[rows], tasks=None if learnt.size else tasks)
        learnt = np.concatenate([learnt, rows])
        if stop in data.sizes:
            yield data.sizes.index(stop), model, learnt


def repeat(data: Data, curve: Curves, seed: int) -> None:
    """Add one repetition: another order of the documents, other withheld labels."""
    begin = time.perf_counter()
    rng = np.random.default_rng([seed, len(curve.seconds)])
    order = data.order(rng)
    q = data.Y.shape[1]
    withheld = np.sort(rng.permutation(q)[: round(WITHHELD * q)])
    new = data.Y_test[:, withheld]
    concerned = np.diff(new.indptr) > 0
    for approach in APPROACHES:
        scores = {key: [0.0] * len(data.sizes) for key in KEYS if key[0] == approach}
        chosen = {choice: [(0.0, 0.0)] * len(data.sizes) for choice in CHOICES}
        if approach == "zero_shot":
            known = np.setdiff1d(np.arange(q), withheld)
        else:
            known = slice(None)
        setting = "D" if approach == "zero_shot" else "B"
        for place, model, learnt in stream(data, order, withheld, approach):
            for choice in CHOICES:
                choose(model, data.X[learnt], data.Y[learnt][:, known], choice, setting)
                if approach == "zero_shot":
                    truth = new[concerned]
                    F = model.predict(data.X_test[concerned], tasks=data.tasks[withheld])
                else:
                    truth = data.Y_test
                    F = model.predict(data.X_test)
                for metric in METRICS:
                    scores[approach, choice, metric][place] = auc(truth, F, metric)
                chosen[choice][place] = (model.alpha, model.task_alpha)
        for key, score in scores.items():
            curve.scores[key].append(score)
        for choice, pairs in chosen.items():
            curve.chosen[approach, choice].append(pairs)
    curve.seconds.append(time.perf_counter() - begin)


def run(data: Data, repeats: int, seed: int) -> Curves:
    """Compute the learning curves, telling on standard error how far it is."""
    curve = Curves(data.name, data.sizes)
    for repetition in range(repeats):
        repeat(data, curve, seed)
        print(
            f"{data.name}: repetition {repetition + 1} of {repeats}, {curve.seconds[-1]:.1f}s",
            file=sys.stderr,
            flush=True,
        )
    return curve


@dataclass(frozen=True)
class Statement:
    """Something that the paper says of the curves, whether it holds by a way to choose λ, and figures that tell."""

    text: str
    choice: str
    metric: str
    holds: bool
    figures: str


def statements(curve: Curves) -> Iterator[Statement]:
    """Check what the paper says on the averages, for both metrics and both ways to choose λ."""
    for choice, metric in product(CHOICES, METRICS):
        independent, two_step, zero = (
            curve.mean(approach, choice, metric) for approach in APPROACHES
        )
        gain = two_step - independent
        sizes = curve.sizes
        ends = f"{{:.3f}} at {sizes[0]} documents, {{:.3f}} at {sizes[-1]}"
        gains = "two-step minus independent " + " ".join(f"{value:+.3f}" for value in gain)

        def says(
            text: str, holds: Any, figures: str, choice: str = choice, metric: str = metric
        ) -> Statement:
            return Statement(text, choice, metric, bool(holds), figures)

        yield says(
            "both models improve with more data",
            independent[-1] > independent[0] and two_step[-1] > two_step[0],
            f"independent {ends.format(independent[0], independent[-1])}; "
            f"two-step {ends.format(two_step[0], two_step[-1])}",
        )
        yield says(
            "task features help most with little data", gain[0] > 0 and gain[0] == gain.max(), gains
        )
        yield says(
            f"two-step is never worse than independent by more than {NEAR}",
            gain.min() >= -NEAR,
            gains,
        )
        yield says(f"with much data both are alike (within {SMALL})", abs(gain[-1]) <= SMALL, gains)
        yield says(
            f"zero-shot labels are predicted above {ZERO_SHOT}",
            zero[-1] > ZERO_SHOT,
            f"{zero[-1]:.3f}",
        )
        yield says(
            "zero-shot labels improve with data", zero[-1] > zero[0], ends.format(zero[0], zero[-1])
        )


def header() -> list[str]:
    """Return the titles of a table of the curves."""
    titles = [
        f"{'D' if approach == 'zero_shot' else 'B'} {APPROACHES[approach]}, {METRICS[metric]}"
        for metric, approach in product(METRICS, APPROACHES)
    ]
    return ["documents", "λ by", *titles]


def rows_of(curve: Curves) -> Iterator[list[str]]:
    """Yield the cells of a table, a row for each choice and size."""
    for choice, (place, size) in product(CHOICES, enumerate(curve.sizes)):
        figures = [
            f"{curve.mean(approach, choice, metric)[place]:.3f}"
            for metric, approach in product(METRICS, APPROACHES)
        ]
        yield [f"{size:,}", CHOICES[choice], *figures]


def table(curve: Curves) -> Table:
    """Return the averaged curves."""
    result = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False, title=SETS[curve.name])
    for title in header():
        result.add_column(title, justify="right")
    for row in rows_of(curve):
        result.add_row(*row)
    return result


def markdown(curve: Curves) -> str:
    """Return the same as a table of Markdown."""
    titles = header()
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in (titles, ["--:"] * len(titles), *rows_of(curve))
    )


def as_json(curves: Iterable[Curves], options: dict[str, Any]) -> str:
    """Return everything: all repetitions of all curves, what was chosen, and what holds."""
    sets = [
        {
            "set": curve.name,
            "sizes": curve.sizes,
            "repeats": len(curve.seconds),
            "seconds": curve.seconds,
            "mean": {" ".join(key): curve.mean(*key).tolist() for key in KEYS},
            "scores": {" ".join(key): curve.scores[key] for key in KEYS},
            "chosen": {" ".join(key): pairs for key, pairs in curve.chosen.items()},
            "statements": [vars(statement) for statement in statements(curve)],
        }
        for curve in curves
    ]
    return json.dumps({"versions": versions(), "options": options, "sets": sets}, indent=1)


def draw(curves: Sequence[Curves], path: Path) -> None:
    """Draw four panels for each data set: two settings, two metrics."""
    from matplotlib.figure import Figure

    colours = {"independent": "black", "two_step": "#D55E00", "zero_shot": "#0072B2"}
    figure = Figure(figsize=(13.0, 0.7 + 2.9 * len(curves)), layout="constrained")
    panels = figure.subplots(len(curves), 4, squeeze=False)
    for row, curve in zip(panels, curves, strict=True):
        columns = product((("B", ("independent", "two_step")), ("D", ("zero_shot",))), METRICS)
        for panel, ((setting, approaches), metric) in zip(row, columns, strict=True):
            for approach, choice in product(approaches, CHOICES):
                mean = curve.mean(approach, choice, metric)
                error = curve.error(approach, choice, metric)
                label = f"{APPROACHES[approach]}, λ by {CHOICES[choice]}"
                look = {"color": colours[approach], "linestyle": "-" if choice == "error" else "--"}
                panel.plot(
                    curve.sizes, mean, marker=".", markersize=4, linewidth=1.5, label=label, **look
                )
                panel.fill_between(
                    curve.sizes,
                    mean - error,
                    mean + error,
                    color=colours[approach],
                    alpha=0.15,
                    linewidth=0,
                )
            panel.set_title(f"{SETS[curve.name]}: {setting}", fontsize=10)
            panel.set(
                ylabel=f"{METRICS[metric]} AUC",
                xlabel="documents",
                xscale="log",
                xticks=curve.sizes,
            )
            panel.set_xticklabels([f"{size:,}" for size in curve.sizes], fontsize=7)
            panel.minorticks_off()
            panel.grid(alpha=0.3, linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
    lines = [panel.get_legend_handles_labels() for panel in panels[0, 1:3]]
    handles, labels = (
        [entry for entries in parts for entry in entries] for parts in zip(*lines, strict=True)
    )
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        handlelength=3,
    )
    figure.savefig(path, dpi=130)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", choices=[*SETS, "both"], default="both", help="web pages, Debian packages or both"
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="random orders and withheld labels (default 3)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the orders and the withheld labels")
    parser.add_argument(
        "--components", type=int, default=1000, help="features of a document (default 1000)"
    )
    parser.add_argument(
        "--compression", choices=COMPRESSIONS, default="svd", help="how to find them (default svd)"
    )
    parser.add_argument("--quick", action="store_true", help="one repetition, 200 features")
    parser.add_argument(
        "--markdown", action="store_true", help="print the curves as tables of Markdown too"
    )
    parser.add_argument("--data-home", help="folder of the data; by default ../shared/data")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything here, all repetitions too"
    )
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw online_text.png here")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.components) < 1:
        parser.error("--repeats and --components must be at least 1")
    if options.figures is not None and importlib.util.find_spec("matplotlib") is None:
        parser.error(
            "--figures needs matplotlib, which is not installed: pip install 'dyadlearn[plots]'"
        )
    if options.quick:
        options.repeats = 1
        options.components = 200
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, print curves and statements, write what is asked for."""
    options = parse(arguments)
    for folder in (options.json and options.json.parent, options.figures):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    console = Console() if sys.stdout.isatty() else Console(width=130)
    curves: list[Curves] = []
    for name in SETS if options.data == "both" else [options.data]:
        try:
            data = load_data(
                name,
                options.data_home,
                n_components=options.components,
                compression=options.compression,
            )
        except FileNotFoundError as error:
            if options.data != "both":
                sys.exit(str(error))
            # The web pages have no place to be downloaded from.
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        print(
            f"{name}: {len(data.X):,} documents, {data.Y.shape[1]:,} labels",
            file=sys.stderr,
            flush=True,
        )
        curve = run(data, options.repeats, options.seed)
        curves.append(curve)
        console.print(table(curve))
        for statement in statements(curve):
            if statement.holds:
                verdict = "[green]holds[/green]"
            else:
                verdict = "[red]does not hold[/red]"
            told = (
                f"{statement.text} ({METRICS[statement.metric]}, λ by {CHOICES[statement.choice]})"
            )
            console.print(
                f"{verdict}: {told}: {statement.figures}", highlight=False, soft_wrap=True
            )
        if options.markdown:
            print(f"\n{markdown(curve)}\n")
    console.print(", ".join(f"{key} {value}" for key, value in versions().items()), highlight=False)
    if options.json is not None:
        chosen = {
            key: value
            for key, value in vars(options).items()
            if not isinstance(value, Path) and key != "data_home"
        }
        options.json.write_text(as_json(curves, chosen) + "\n", encoding="utf-8")
    if options.figures is not None and curves:
        draw(curves, options.figures / "online_text.png")


if __name__ == "__main__":
    main()
