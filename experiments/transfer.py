"""The second experiment of the paper (its Section 6.2): what tasks with many labels do for one with few or none.

    python experiments/transfer.py [--data e|davis|both] [--repeats N] [--every N] [--quick]
                                   [--check] [--json FILE] [--figures FOLDER]

Each ligand (or drug) in turn is the target task, the others are auxiliary, and predictions are for
proteins that no model saw. Learning curves over the number of training proteins, averaged over all
targets and over random splits; then what the paper says of them, and whether it holds here. All
targets are computed at once: see `transfer_models.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from drug_target import ALPHAS, find_data, load, versions
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from transfer_models import (
    Tasks,
    Training,
    best,
    choice_without,
    curves,
    kronecker_errors,
    kronecker_zero_shot,
    of_others,
    pair_errors,
    two_step_zero_shot,
)

from dyadlearn.datasets import fetch_davis
from dyadlearn.kernels import repair
from dyadlearn.metrics.ranks import ConcordanceIndex, RocAuc

SETS = {"e": "enzymes", "davis": "kinases"}
APPROACHES = {
    "independent": "independent\ntask",
    "multi_kronecker_A": "multi-task:\nKronecker A",
    "multi_two_step_A": "\ntwo-step A",
    "multi_two_step_B": "\ntwo-step B",
    "zero_kronecker_A": "zero-shot:\nKronecker A",
    "zero_two_step_A": "\ntwo-step A",
    "zero_two_step_D": "\ntwo-step D",
    "almost": "almost\nzero-shot",
}
MULTI = [name for name in APPROACHES if name.startswith("multi")]
ZERO = [name for name in APPROACHES if name.startswith("zero")]
# Where the amount of auxiliary data is fixed, zero-shot learning is a level line.
PANELS = {
    "target data increased": ["independent", *ZERO, "almost"],
    "target and auxiliary data increased": ["independent", *MULTI],
    "auxiliary data increased": ZERO,
}

# Differences that count as none, and what is well above chance.
NEAR = 0.01
ABOVE_CHANCE = 0.55
# Sizes below which combining both sources is best in the paper.
SCARCE = {"e": np.inf, "davis": 150}


@dataclass(frozen=True)
class Data:
    """What is learnt from.

    Attributes
    ----------
    name : str
        Of `SETS`.
    K : array of shape (m, m)
        Kernel of the proteins.
    G : array of shape (q, q)
        Kernel of the ligands or drugs.
    Y : array of shape (m, q)
    n_test : int
        Test proteins.
    sizes : list of int
        Numbers of training proteins.
    """

    name: str
    K: np.ndarray
    G: np.ndarray
    Y: np.ndarray
    n_test: int
    sizes: list[int]

    def split(self, seed: int, repetition: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the training proteins, in the order in which they are added, and the test proteins."""
        order = np.random.default_rng([seed, repetition]).permutation(len(self.K))
        return order[self.n_test :][: self.sizes[-1]], order[: self.n_test]

    def metric(self, test: np.ndarray) -> RocAuc | ConcordanceIndex:
        """Return the score of each task on the test proteins, of which those with equal kernel rows tie."""
        kind = RocAuc if self.name == "e" else ConcordanceIndex
        return kind(self.Y[test], average="task", tie_tolerance=None)


@dataclass
class Curves:
    """Learning curves.

    Attributes
    ----------
    name : str
        Of `SETS`.
    sizes : list of int
    scores : dict of str to list of lists
        For each approach a curve for each repetition: the mean over the tasks whose score is
        defined.
    informed : dict of str to list of lists
        The same over those tasks that have two different labels among the training proteins of the
        target.
    seconds, processor_seconds : lists of float
        Time that each repetition took, by the clock and of all cores.
    """

    name: str
    sizes: list[int]
    scores: dict[str, list[list[float]]] = field(
        default_factory=lambda: {name: [] for name in APPROACHES}
    )
    informed: dict[str, list[list[float]]] = field(
        default_factory=lambda: {name: [] for name in APPROACHES}
    )
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)

    def mean(self, approach: str, informed: bool = False) -> np.ndarray:
        """Return the averaged curve."""
        return np.mean((self.informed if informed else self.scores)[approach], axis=0)

    def error(self, approach: str) -> np.ndarray:
        """Return the standard error of the averaged curve, NaN for a single repetition."""
        values = np.array(self.scores[approach])
        if len(values) == 1:
            return np.full(len(self.sizes), np.nan)
        return values.std(axis=0, ddof=1) / len(values) ** 0.5


def load_data(
    name: str, data_home: str | None, *, offset: float = 0.0, similarity: str = "2D"
) -> Data:
    """Return the enzymes with Fisher's labels, or the kinases with pKd, counted from `offset`."""
    if name == "e":
        return Data("e", *load("e", data_home), 164, list(range(25, 501, 25)))
    data = fetch_davis(data_home=data_home, instances="proteins", drug_similarity=similarity)
    K, G = (repair(kernel, symmetrize="mean", psd="clip") for kernel in (data.K, data.G))
    return Data("davis", K, G, data.Y - offset, 192, list(range(10, 251, 5)))


def repeat(data: Data, tasks: Tasks, curve: Curves, seed: int, alphas: Sequence[float]) -> None:
    """Add one repetition to the curves."""
    start = time.perf_counter()
    processor_start = time.process_time()
    train, test = data.split(seed, len(curve.seconds))
    metric = data.metric(test)
    scores_of = {
        name: (np.empty(len(data.sizes)), np.empty(len(data.sizes))) for name in APPROACHES
    }
    for name, index, F in curves(data.K, data.Y, tasks, train, test, data.sizes, alphas):
        labels = data.Y[train[: data.sizes[index]]]
        varied = (labels != labels[0]).any(axis=0)[metric.rows]
        per_task = metric.each(F)
        scores_of[name][0][index] = per_task.mean()
        scores_of[name][1][index] = per_task[varied].mean() if varied.any() else np.nan
    for name, (scores, informed) in scores_of.items():
        curve.scores[name].append(scores.tolist())
        curve.informed[name].append(informed.tolist())
    curve.seconds.append(time.perf_counter() - start)
    curve.processor_seconds.append(time.process_time() - processor_start)


def run(data: Data, repeats: int, seed: int, alphas: Sequence[float]) -> Curves:
    """Compute the learning curves, telling on standard error how far it is."""
    tasks = Tasks(data.G, alphas)
    curve = Curves(data.name, data.sizes)
    for repetition in range(repeats):
        repeat(data, tasks, curve, seed, alphas)
        print(
            f"{data.name}: repetition {repetition + 1} of {repeats}, {curve.seconds[-1]:.1f}s",
            file=sys.stderr,
            flush=True,
        )
    return curve


@dataclass(frozen=True)
class Statement:
    """Something that the paper says of the curves, whether it holds, and the figures that tell."""

    text: str
    holds: bool
    figures: str


def statements(curve: Curves) -> Iterator[Statement]:
    """Check what the paper says on the averages."""
    mean = {name: curve.mean(name) for name in APPROACHES}
    sizes = np.array(curve.sizes)
    independent = mean["independent"]
    almost = mean["almost"]
    last = {name: float(mean[name][-1]) for name in APPROACHES}
    zero = max(last[name] for name in ZERO)

    yield Statement(
        "zero-shot learning is well above chance (0.5)",
        all(last[name] >= ABOVE_CHANCE for name in ZERO),
        f"at {sizes[-1]} auxiliary proteins "
        + ", ".join(f"{name[5:]} {last[name]:.3f}" for name in ZERO),
    )
    after = sizes[independent > zero]
    yield Statement(
        "the independent task overtakes zero-shot as target data grow",
        bool(independent[0] < zero < independent[-1]),
        f"zero-shot {zero:.3f}; independent {independent[0]:.3f} at {sizes[0]}, "
        f"{independent[-1]:.3f} at {sizes[-1]}"
        + (f", above it from {after[0]} proteins" if after.size else ""),
    )
    yield Statement(
        "zero-shot is much worse than many labels of the target",
        bool(independent[-1] - zero > 3 * NEAR),
        f"{zero:.3f} against {independent[-1]:.3f}",
    )
    scarce = sizes < SCARCE[curve.name]
    lead = almost - np.maximum(independent, zero)
    where = "at all sizes" if scarce.all() else f"below {SCARCE[curve.name]} proteins"
    yield Statement(
        f"almost zero-shot is the best or near it (within {NEAR}) {where}",
        bool((lead[scarce] >= -NEAR).all()),
        f"ahead of both by {lead[scarce].min():+.3f} to {lead[scarce].max():+.3f}, "
        f"at {sizes[scarce][0]} proteins by {lead[0]:+.3f}, at {sizes[scarce][-1]} by "
        f"{lead[scarce][-1]:+.3f}",
    )
    yield Statement(
        f"no harm from negative transfer with much data (within {NEAR})",
        bool(almost[-1] >= independent[-1] - NEAR),
        f"at {sizes[-1]} proteins almost zero-shot {almost[-1]:.3f}, independent "
        f"{independent[-1]:.3f}",
    )
    gains = {name: float(np.mean(mean[name] - independent)) for name in MULTI}
    told = ", ".join(f"{name[6:]} {gain:+.3f}" for name, gain in gains.items())
    told = f"on average over the sizes {told} against the independent task"
    if curve.name == "e":
        yield Statement(
            "multi-task learning beats the independent task",
            all(gain > 0 for gain in gains.values()),
            told,
        )
        of_informed = curve.mean("independent", informed=True)
        gains = {
            name: float(np.nanmean(curve.mean(name, informed=True) - of_informed)) for name in MULTI
        }
        yield Statement(
            "the same for ligands with an interaction among the training proteins",
            all(gain > 0 for gain in gains.values()),
            ", ".join(f"{name[6:]} {gain:+.3f}" for name, gain in gains.items()),
        )
    else:
        yield Statement(
            "multi-task learning fails to beat the independent task",
            all(gain < NEAR for gain in gains.values()),
            told,
        )
    choice = mean["multi_two_step_A"] - mean["multi_two_step_B"]
    yield Statement(
        f"multi-task two-step is the same by A and by B (within {NEAR})",
        bool(np.abs(choice).max() <= NEAR),
        f"A minus B from {choice.min():+.3f} to {choice.max():+.3f}",
    )
    difference = float(np.mean(mean["zero_two_step_D"] - mean["zero_kronecker_A"]))
    told = f"on average over the sizes {difference:+.3f}"
    if curve.name == "e":
        yield Statement("zero-shot two-step by D is better than Kronecker", difference > 0, told)
    else:
        yield Statement(
            f"zero-shot two-step by D and Kronecker are equal (within {NEAR})",
            abs(difference) <= NEAR,
            told,
        )


def check(
    data: Data, seed: int, alphas: Sequence[float], size: int = 100, n_targets: int = 30
) -> Iterator[dict[str, Any]]:
    """Compare how zero-shot learning chooses in setting A with the choice on grids that really lack the target.

    Yields for each method how many of some `targets` have the `same` choice, and their mean score
    by ours (`score`) and by the `exact` one.
    """
    train, test = data.split(seed, 0)
    rows = train[:size]
    tasks = Tasks(data.G, alphas)
    training = Training(
        data.K[np.ix_(rows, rows)], data.Y[rows], data.K[np.ix_(test, rows)], alphas
    )
    metric = data.metric(test)
    places = np.linspace(0, metric.rows.size - 1, min(n_targets, metric.rows.size)).astype(int)
    targets = metric.rows[places]
    for method, errors, predict in (
        (
            "Kronecker",
            kronecker_errors(training, tasks),
            lambda choice: kronecker_zero_shot(training, tasks, *choice),
        ),
        (
            "two-step",
            pair_errors(training, tasks),
            lambda choice: two_step_zero_shot(training, tasks, choice),
        ),
    ):
        ours = np.stack(best(of_others(errors)))
        exact = ours.copy()
        for target in targets:
            name = method.lower().replace("-", "_")
            exact[:, target] = choice_without(name, training, tasks, int(target))
        same = int((ours == exact).all(axis=0)[targets].sum())
        row = {
            "data": data.name,
            "size": len(rows),
            "method": method,
            "targets": len(targets),
            "same": same,
        }
        scores = (metric.each(predict(choice))[places].mean() for choice in (ours, exact))
        yield row | dict(zip(("score", "exact"), map(float, scores), strict=True))


CHECKED = (
    "{data}, {size} proteins, zero-shot {method} by A: {same} of {targets} targets have the choice "
    "of a grid without "
    "their labels; mean score {score:.4f}, by the exact choice {exact:.4f}"
)


def table(curve: Curves) -> Table:
    """Return the averaged curves at some sizes."""
    result = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    result.add_column(f"{curve.name}:\nproteins", justify="right")
    for title in APPROACHES.values():
        result.add_column(title, justify="right", no_wrap=True)
    for row in rows_of(curve):
        result.add_row(*row)
    return result


def markdown(curve: Curves) -> str:
    """Return the same as a table of Markdown."""
    header = ["proteins", *map(full_name, APPROACHES)]
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in (header, ["--:"] * len(header), *rows_of(curve))
    )


def rows_of(curve: Curves, limit: int = 10) -> Iterator[list[str]]:
    """Yield the cells of a table, a row for each of at most `limit` sizes."""
    for index in np.unique(
        np.linspace(0, len(curve.sizes) - 1, min(limit, len(curve.sizes))).round().astype(int)
    ):
        yield [str(curve.sizes[index]), *(f"{curve.mean(name)[index]:.3f}" for name in APPROACHES)]


def full_name(approach: str) -> str:
    """Return the name of an approach on one line."""
    words = {
        "multi": "multi-task",
        "zero": "zero-shot",
        "almost": "almost zero-shot",
        "kronecker": "Kronecker",
    }
    words |= {"independent": "independent task", "two": "two-step", "step": ""}
    return " ".join(filter(None, (words.get(word, word) for word in approach.split("_"))))


def as_json(several: Iterable[Curves], options: dict[str, Any]) -> str:
    """Return everything: all repetitions of all curves, and what holds."""
    sets = [
        {
            "set": curve.name,
            "sizes": curve.sizes,
            "repeats": len(curve.seconds),
            "seconds": curve.seconds,
            "processor_seconds": curve.processor_seconds,
            "mean": {name: curve.mean(name).tolist() for name in APPROACHES},
            "scores": curve.scores,
            "informed": curve.informed,
            "statements": [vars(statement) for statement in statements(curve)],
        }
        for curve in several
    ]
    return json.dumps({"versions": versions(), "options": options, "sets": sets}, indent=1)


def draw(several: Sequence[Curves], path: Path) -> None:
    """Draw three panels for each data set."""
    from matplotlib.figure import Figure

    looks = {
        "independent": ("black", "-"),
        "multi_kronecker_A": ("#0072B2", "-"),
        "multi_two_step_A": ("#D55E00", "-"),
        "multi_two_step_B": ("#E69F00", "--"),
        "zero_kronecker_A": ("#56B4E9", "-"),
        "zero_two_step_A": ("#CC79A7", "--"),
        "zero_two_step_D": ("#AA3377", "-"),
        "almost": ("#009E73", "-"),
    }
    figure = Figure(figsize=(1.0 + 4.6 * len(several), 10.0), layout="constrained")
    panels = figure.subplots(len(PANELS), len(several), squeeze=False)
    for column, curve in zip(panels.T, several, strict=True):
        score = "AUC" if curve.name == "e" else "concordance index"
        for row, (panel, (title, approaches)) in enumerate(
            zip(column, PANELS.items(), strict=True)
        ):
            for name in approaches:
                colour, line = looks[name]
                mean = curve.mean(name)
                error = curve.error(name)
                if row == 0 and name in ZERO:
                    mean, error = np.full_like(mean, mean[-1]), np.full_like(mean, error[-1])
                panel.plot(
                    curve.sizes,
                    mean,
                    color=colour,
                    linestyle=line,
                    linewidth=1.5,
                    label=full_name(name),
                )
                panel.fill_between(
                    curve.sizes, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0
                )
            panel.set_title(f"{SETS[curve.name]}: {title}", fontsize=10)
            panel.set(ylabel=score, xlabel="training proteins")
            panel.grid(alpha=0.3, linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=130)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", choices=[*SETS, "both"], default="both", help="the enzymes, the kinases or both"
    )
    parser.add_argument(
        "--repeats", type=int, default=10, help="random splits (default 10; the paper has 100)"
    )
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="of the sizes take every Nth, and the largest",
    )
    parser.add_argument(
        "--grid-step",
        type=int,
        default=1,
        metavar="N",
        help="of the 14 powers of ten take every Nth",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the splits")
    parser.add_argument(
        "--offset",
        type=float,
        default=0.0,
        help="count pKd from here; 5 stands for no binding seen",
    )
    parser.add_argument(
        "--drug-similarity", choices=["2D", "ECFP4"], default="2D", help="of the drugs of Davis"
    )
    parser.add_argument("--quick", action="store_true", help="two repetitions, every fifth size")
    parser.add_argument(
        "--check", action="store_true", help="also check the choice of zero-shot learning by A"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the curves as tables of Markdown too"
    )
    parser.add_argument(
        "--data-home",
        help="folder of the data; by default ../shared/data, else that of the data sets",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything here, all repetitions too"
    )
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw transfer.png here")
    options = parser.parse_args(arguments)
    if min(options.repeats, options.every, options.grid_step) < 1:
        parser.error("--repeats, --every and --grid-step must be at least 1")
    if options.figures is not None and importlib.util.find_spec("matplotlib") is None:
        parser.error(
            "--figures needs matplotlib, which is not installed: pip install 'dyadlearn[plots]'"
        )
    if options.quick:
        options.repeats = 2
        options.every = 5
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment, print curves and statements, write what is asked for."""
    options = parse(arguments)
    for folder in (options.json and options.json.parent, options.figures):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    console = Console() if sys.stdout.isatty() else Console(width=110)
    alphas = ALPHAS[:: options.grid_step]
    several = []
    for name in SETS if options.data == "both" else [options.data]:
        try:
            home = find_data(options.data_home)
            data = load_data(name, home, offset=options.offset, similarity=options.drug_similarity)
        except (ConnectionError, FileNotFoundError) as error:
            sys.exit(str(error))
        data.sizes[:] = data.sizes[:: -options.every][::-1]
        curve = run(data, options.repeats, options.seed, alphas)
        several.append(curve)
        console.print(table(curve))
        for statement in statements(curve):
            if statement.holds:
                verdict = "[green]holds[/green]"
            else:
                verdict = "[red]does not hold[/red]"
            console.print(
                f"{verdict}: {statement.text}: {statement.figures}", highlight=False, soft_wrap=True
            )
        seconds = float(np.mean(curve.seconds))
        processor = float(np.mean(curve.processor_seconds))
        console.print(
            f"{options.repeats} repetitions, {seconds:.1f}s each ({processor:.1f}s of processor "
            f"time): 100 take "
            f"{seconds / 0.6:.0f} minutes.",
            highlight=False,
        )
        if options.check:
            for found_out in check(data, options.seed, alphas):
                console.print(CHECKED.format(**found_out), highlight=False, soft_wrap=True)
        if options.markdown:
            print(f"\n{markdown(curve)}\n")
    console.print(", ".join(f"{key} {value}" for key, value in versions().items()), highlight=False)
    if options.json is not None:
        chosen = {
            key: value
            for key, value in vars(options).items()
            if not isinstance(value, Path) and key != "data_home"
        }
        options.json.write_text(as_json(several, chosen) + "\n", encoding="utf-8")
    if options.figures is not None:
        draw(several, options.figures / "transfer.png")


if __name__ == "__main__":
    main()
