"""Normal scores of ranks as labels: what they gain in the order of predictions, and lose in squared error.

    python experiments/ranks.py [--data davis kiba] [--seeds 0 1 2] [--device cuda] [--cache FOLDER] [--json FILE]

New pairs (setting A) on the splits and kernels of `records.py`. `LearnedKernelRidge` learns once
from the labels, and once from `dyadlearn.labels.NormalScores` of the training labels; predictions
are transformed back before they are scored. The concordance index does not depend on that, the mean
squared error does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from records import BENCHMARKS, Machine, Unit, cut, described, scores

import dyadlearn
from dyadlearn import LearnedKernelRidge
from dyadlearn._array import to_numpy
from dyadlearn.labels import NormalScores

TARGETS = ("labels", "normal scores")


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


def main() -> None:
    """Measure, print the table, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=("davis", "kiba"), default=["davis"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", help="device of torch to compute on, for instance cuda")
    parser.add_argument("--cache", help="folder in which kernels are stored")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
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
        for row in measured(name, options.seeds, Machine(options.device), options.cache):
            print(
                "{data} seed {seed}, {target}: CI {CI:.4f}, MSE {MSE:.4f}, {seconds} s".format(
                    **row
                ),
                flush=True,
            )
            rows.append(row)
            if options.json:
                options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    print(
        f"\n{about['date']}, {', '.join(' '.join(named) for named in versions.items())}, Python "
        f"{about['python']}."
    )


if __name__ == "__main__":
    main()
