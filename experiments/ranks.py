"""Normal scores of ranks as labels: what they gain in the order of predictions, and lose in squared error.

    python experiments/ranks.py [--data davis kiba] [--seeds 0 1 2] [--device cuda] [--cache FOLDER] [--json FILE]
    python experiments/ranks.py --choose [--data kiba] [--seeds 0] [--steps 60] [--stages 2] …

New pairs (setting A) on the splits and kernels of `records.py`. `LearnedKernelRidge` learns once
from the labels, and once from `dyadlearn.labels.NormalScores` of the training labels; predictions
are transformed back before they are scored. The concordance index does not depend on that, the mean
squared error does.

With ``--choose``, the targets are the labels, their uniform ranks and their normal scores. The
predictions of several targets are also blended: each becomes normal scores of its own, and the mean
is taken. Targets and blends are compared by the concordance index of held-out predictions of the
training labels. The test part is used once, for the choice.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy
from records import BENCHMARKS, Machine, Unit, cut, described, scores
from records_table import STEPS
from scipy.special import ndtr

import dyadlearn
from dyadlearn import LearnedKernelRidge
from dyadlearn._array import to_numpy
from dyadlearn.labels import NormalScores
from dyadlearn.learning.mixture import single
from dyadlearn.metrics import concordance_index

TARGETS = ("labels", "normal scores")
#: Targets that are compared by held-out predictions.
CHOICES = ("labels", "uniform ranks", "normal scores")

#: The predictions of a target (m, q): the held-out ones of the training labels, and those of all
#: cells.
Predictions = tuple[np.ndarray, np.ndarray]


def measured(
    name: str, seeds: Sequence[int], machine: Machine, cache: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the scores of each seed and target."""
    benchmark = BENCHMARKS[name]
    data = benchmark.load(None, cache)
    X, tasks = (
        described(side, n, machine) for side, n in zip((data.K, data.G), data.Y.shape, strict=True)
    )
    for seed in seeds:
        split = cut(data, Unit(name, "A", f"seed {seed}"), benchmark.n_folds)
        for target in TARGETS:
            ranks = NormalScores().fit(split.Y)
            Y = split.Y if target == "labels" else ranks.transform(split.Y)
            model = LearnedKernelRidge(kernel="precomputed", task_kernel="precomputed", setting="A")
            start = time.perf_counter()
            model.fit(X, machine.array(Y), tasks=tasks)
            seconds = round(time.perf_counter() - start, 1)
            F = to_numpy(model.predict())
            F = F if target == "labels" else ranks.inverse_transform(F)
            row = {
                "data": name,
                "seed": seed,
                "target": target,
                **scores(benchmark.measures, split.truth, F),
            }
            yield {**row, "seconds": seconds}


#: Solver of the last fit with --quick.
QUICK = {"tol": 1e-5, "max_iter": 300}


def in_single_precision() -> Any:
    """Return a context in which kernels are learned in single precision, as on sparse grids."""
    return mock.patch(
        "dyadlearn.selection.learning_kernels.economical",
        lambda labels, sides: (
            labels.converted(single),
            [side.converted(single) for side in sides],
        ),
    )


def as_target(Y: np.ndarray, target: str) -> np.ndarray:
    """Return the labels (m, q), their uniform ranks or their normal scores; NaN stays NaN."""
    if target == "labels":
        return Y
    ranked = NormalScores().fit_transform(Y)
    return ndtr(ranked) if target == "uniform ranks" else ranked


def blended(some: Sequence[Predictions]) -> Predictions:
    """Return the mean of several predictions, each as normal scores among its held-out ones."""
    scales = [NormalScores().fit(held_out) for held_out, _ in some]
    held_out, everywhere = (
        np.mean(
            [scale.transform(part) for scale, part in zip(scales, parts, strict=True)],
            axis=0,
        )
        for parts in zip(*some, strict=True)
    )
    return held_out, everywhere


def candidates(learned: Mapping[str, Predictions]) -> dict[str, Predictions]:
    """Return the predictions of each target and of all blends, by name."""
    return {
        " + ".join(names): learned[names[0]]
        if len(names) == 1
        else blended([learned[name] for name in names])
        for size in range(1, len(learned) + 1)
        for names in itertools.combinations(learned, size)
    }


def chosen(
    name: str, seed: int, machine: Machine, cache: str | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the held-out concordance of each candidate of a seed, and the test score of the best."""
    benchmark = BENCHMARKS[name]
    data = benchmark.load(None, cache)
    X, tasks = (
        described(side, n, machine) for side, n in zip((data.K, data.G), data.Y.shape, strict=True)
    )
    split = cut(data, Unit(name, "A", f"seed {seed}"), benchmark.n_folds)
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    start = time.perf_counter()
    learned = {}
    for target in CHOICES:
        model = LearnedKernelRidge(setting="A", **kernels, **parameters)
        model.fit(X, machine.array(as_target(split.Y, target)), tasks=tasks)
        learned[target] = (to_numpy(model.holdout_), to_numpy(model.predict()))
        held_out = concordance_index(split.Y, learned[target][0])
        print(f"{name} seed {seed}, {target}: held-out CI {held_out:.4f}", flush=True)
    found = candidates(learned)
    held_out = {
        label: float(concordance_index(split.Y, predictions))
        for label, (predictions, _) in found.items()
    }
    best = max(held_out, key=held_out.__getitem__)
    return {
        "data": name,
        "seed": seed,
        "held_out": held_out,
        "chosen": best,
        "CI": float(concordance_index(split.truth, found[best][1])),
        "seconds": round(time.perf_counter() - start, 1),
    }


def choices_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the held-out concordance of each candidate and the test score of the choice in Markdown."""
    lines = ["| data | seed | learned from | held-out CI | test CI |", "|---|--:|---|--:|--:|"]
    for row in rows:
        for label, held_out in row["held_out"].items():
            test = f"{row['CI']:.4f}" if label == row["chosen"] else ""
            lines.append(f"| {row['data']} | {row['seed']} | {label} | {held_out:.4f} | {test} |")
    return "\n".join(lines)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the means over seeds in Markdown."""
    lines = ["| data | learned from | CI | MSE | seeds |", "|---|---|--:|--:|--:|"]
    for name in dict.fromkeys(row["data"] for row in rows):
        for target in TARGETS:
            some = [row for row in rows if (row["data"], row["target"]) == (name, target)]
            if some:
                CI, MSE = (np.mean([row[measure] for row in some]) for measure in ("CI", "MSE"))
                lines.append(f"| {name} | {target} | {CI:.3f} | {MSE:.3f} | {len(some)} |")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--data", nargs="+", choices=("davis", "kiba"), default=["davis"])
    reader.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    reader.add_argument("--device", help="device of torch to compute on, for instance cuda")
    reader.add_argument("--cache", help="folder in which kernels are stored")
    reader.add_argument("--json", type=Path, help="file to write the figures to")
    reader.add_argument(
        "--choose", action="store_true", help="choose among targets and blends, test the choice"
    )
    reader.add_argument("--steps", type=int, default=STEPS, help="of each stage, with --choose")
    reader.add_argument("--stages", type=int, default=2, help="with --choose (default: 2)")
    reader.add_argument(
        "--quick", action="store_true", help="with --choose: in single precision, for one core"
    )
    return reader


def results(options: argparse.Namespace, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each result of a data set with its line of the log."""
    machine = Machine(options.device)
    if options.choose:
        parameters = {"n_steps": options.steps, "stages": options.stages}
        parameters |= QUICK if options.quick else {}
        for seed in options.seeds:
            with in_single_precision() if options.quick else nullcontext():
                row = chosen(name, seed, machine, options.cache, parameters)
            yield row, "{data} seed {seed}, {chosen}: CI {CI:.4f}, {seconds} s".format(**row)
        return
    for row in measured(name, options.seeds, machine, options.cache):
        line = "{data} seed {seed}, {target}: CI {CI:.4f}, MSE {MSE:.4f}, {seconds} s"
        yield row, line.format(**row)


def main() -> None:
    """Measure, print the table, and write the figures."""
    options = parser().parse_args()
    rows = []
    versions = {
        "dyadlearn": dyadlearn.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    about = {
        "date": str(datetime.date.today()),
        "python": platform.python_version(),
        "versions": versions,
    }
    for name in options.data:
        for row, line in results(options, name):
            print(line, flush=True)
            rows.append(row)
            if options.json:
                options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    print(choices_table(rows) if options.choose else table(rows))
    print(
        f"\n{about['date']}, {', '.join(' '.join(named) for named in versions.items())}, Python "
        f"{about['python']}."
    )


if __name__ == "__main__":
    main()
