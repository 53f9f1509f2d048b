"""How many labels of held-out instances, tasks and both lie within their intervals, over repeated splits.

    python experiments/intervals.py [--sets dyads nr gpcr ic davis kiba] [--models two-step Kronecker]
                                    [--splits 20] [--first 0] [--coverage 0.9] [--json FILE] [--join
                                    FILE …]
    python experiments/intervals.py --missing [--splits 20]

A quarter of the instances and a quarter of the tasks are hidden at random, a model is fitted on
what is left, and asked for intervals of the hidden rows (B), of the hidden columns (C) and of the
block of both (D). The regularisation is fixed, or chosen on the training labels of each split by
the search for the setting that is asked about. Labels of 0 and 1 are taken as numbers. Beside the
coverage, its deviation from split to split, stands the median width beside the spread between the 5
% and 95 % quantiles of all labels, which is the width of knowing nothing.

``--missing`` compares mechanisms by which half of the labels of `make_dyads` are missing, see `incomplete`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import dyadlearn
from dyadlearn import KroneckerRidge, KroneckerRidgeCV, TwoStepRidge, TwoStepRidgeCV
from dyadlearn.datasets import fetch_davis, fetch_kiba, fetch_yamanishi, make_dyads
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import repair

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = {
    "dyads": "make_dyads, t₂ noise",
    "nr": "nuclear receptors",
    "gpcr": "GPCRs",
    "ic": "ion channels",
    "e": "enzymes",
    "davis": "Davis",
    "kiba": "KIBA, 76 % missing",
}
ALPHAS = [10.0**power for power in range(-3, 4)]
MODELS = {
    "two-step": lambda setting: TwoStepRidge(0.1, 0.1, **KERNELS),
    "Kronecker": lambda setting: KroneckerRidge(0.1, **KERNELS),
    "Kronecker, λ = 1": lambda setting: KroneckerRidge(1.0, **KERNELS),
    "two-step, chosen": lambda setting: TwoStepRidgeCV(ALPHAS, ALPHAS, setting=setting, **CHOSEN),
    "Kronecker, chosen": lambda setting: KroneckerRidgeCV(ALPHAS, setting=setting, **CHOSEN),
}
KERNELS: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
CHOSEN: dict[str, Any] = {**KERNELS, "scoring": "neg_mean_squared_error", "progress": False}


def load(name: str, folder: Path, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K, G and Y of a set."""
    if name == "dyads":
        data = make_dyads(80, 60, mean=10.0, main_effects=1.0, noise=0.0, random_state=seed)
        noise = np.random.default_rng(seed).standard_t(2, size=data.Y.shape)
        return data.K, data.G, data.Y + 0.5 * noise
    if name == "davis":
        data = fetch_davis(data_home=folder)
    elif name == "kiba":
        data = fetch_kiba(data_home=folder)
    else:
        data = fetch_yamanishi(name, data_home=folder, download=False)
    return repair(data.K), repair(data.G), data.Y


def split(
    name: str, model: str, seed: int, coverage: float, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield how many labels of one split are covered, for each setting."""
    K, G, Y = load(name, folder, seed)
    rng = np.random.default_rng(seed)
    sides = [np.sort(rng.permutation(size)[: round(0.75 * size)]) for size in Y.shape]
    rows, columns = sides
    others = [
        np.setdiff1d(np.arange(size), kept) for size, kept in zip(Y.shape, sides, strict=True)
    ]
    spread = float(np.subtract(*np.nanquantile(Y, [0.95, 0.05])))
    fitted = None
    for setting in "BCD":
        start = time.perf_counter()
        if fitted is None or "chosen" in model:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)
                fitted = MODELS[model](setting).fit(
                    K[np.ix_(rows, rows)],
                    Y[np.ix_(rows, columns)],
                    tasks=G[np.ix_(columns, columns)],
                )
        X = None if setting == "C" else K[np.ix_(others[0], rows)]
        tasks = None if setting == "B" else G[np.ix_(others[1], columns)]
        lower, upper = fitted.predict_interval(X, tasks, coverage=coverage)
        truth = Y[np.ix_(rows if X is None else others[0], columns if tasks is None else others[1])]
        known = ~np.isnan(truth)
        inside = (lower <= truth) & (truth <= upper)
        yield {
            "set": name,
            "model": model,
            "setting": setting,
            "seed": seed,
            "coverage": float(inside[known].mean()),
            "width": float(np.median(upper - lower)) / spread if spread else float("nan"),
            "seconds": time.perf_counter() - start,
        }


MECHANISMS = {
    "random": "completely at random",
    "sides": "more in some rows and columns",
    "labels": "small labels more often",
}


def observation(mechanism: str, Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw which labels of a grid are observed: half of them, on average."""
    if mechanism == "random":
        chances = np.full(Y.shape, 0.5)
    elif mechanism == "sides":
        chances = expit(1.5 * (rng.normal(size=(len(Y), 1)) + rng.normal(size=(1, Y.shape[1]))))
    else:
        chances = expit(2.0 * (Y - np.median(Y)) / Y.std())
    return rng.random(Y.shape) < chances


def incomplete(
    mechanism: str, model: str, seed: int, coverage: float
) -> dict[tuple[str, bool], float]:
    """Return the coverage of one split for each setting, over observed labels (True) and over missing ones (False).

    A quarter of the instances, a quarter of the tasks and a tenth of the other observed labels are
    test data. The model is fitted on the other observed labels. The truth of missing labels is
    known, because the data are synthetic. Infinite intervals, those of tasks (B) or instances (C)
    with few observed labels, do not count.
    """
    data = make_dyads(48, 40, mean=10.0, main_effects=1.0, noise=0.5, random_state=seed)
    K = data.K
    G = data.G
    Y = data.Y
    rng = np.random.default_rng(seed)
    observed = observation(mechanism, Y, rng)
    held_out = observed & (rng.random(Y.shape) < 0.1)
    sides = [np.sort(rng.permutation(size)[: round(0.75 * size)]) for size in Y.shape]
    new = [np.setdiff1d(np.arange(size), kept) for size, kept in zip(Y.shape, sides, strict=True)]
    known = np.ix_(*sides)
    training = np.where(observed & ~held_out, Y, np.nan)[known]
    fitted = MODELS[model]("A").fit(
        K[np.ix_(sides[0], sides[0])], training, tasks=G[np.ix_(sides[1], sides[1])]
    )
    shares = {}
    for setting in "ABCD":
        rows = new[0] if setting in "BD" else sides[0]
        columns = new[1] if setting in "CD" else sides[1]
        X = K[np.ix_(rows, sides[0])] if setting in "BD" else None
        tasks = G[np.ix_(columns, sides[1])] if setting in "CD" else None
        lower, upper = fitted.predict_interval(X, tasks, coverage=coverage)
        cells = np.ix_(rows, columns)
        inside = (lower <= Y[cells]) & (Y[cells] <= upper)
        finite = np.isfinite(upper - lower)
        test = held_out[cells] if setting == "A" else observed[cells]
        for is_observed, asked in ((True, test), (False, ~observed[cells])):
            shares[setting, is_observed] = float(inside[asked & finite].mean())
    return shares


def missing_table(models: list[str], seeds: range, coverage: float) -> str:
    """Return the coverage with missing labels in Markdown: over observed labels / over missing ones."""
    lines = ["| missing | model | A | B | C | D |", "|---|---|--:|--:|--:|--:|"]
    for mechanism, title in MECHANISMS.items():
        for model in models:
            shares = [incomplete(mechanism, model, seed, coverage) for seed in seeds]
            means = {key: 100 * np.mean([share[key] for share in shares]) for key in shares[0]}
            cells = [
                f"{means[setting, True]:.1f} / {means[setting, False]:.1f} %" for setting in "ABCD"
            ]
            lines.append(f"| {title} | {model} | " + " | ".join(cells) + " |")
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, dyadlearn {dyadlearn.__version__}"
    return "\n".join([*lines, f"\n{len(seeds)} splits, {date.today()}, {versions}"])


def table(rows: list[dict[str, Any]]) -> str:
    """Return coverage, its deviation and the relative width in Markdown."""
    lines = ["| set | model | B | C | D | splits |", "|---|---|--:|--:|--:|--:|"]
    for name, model in dict.fromkeys((row["set"], row["model"]) for row in rows):
        cells = []
        seeds = 0
        for setting in "BCD":
            here = [
                row
                for row in rows
                if (row["set"], row["model"], row["setting"]) == (name, model, setting)
            ]
            coverages = np.array([row["coverage"] for row in here])
            width = np.median([row["width"] for row in here])
            shown = f", {width:.2f}" if np.isfinite(width) else ""
            cells.append(f"{100 * coverages.mean():.1f} ± {100 * coverages.std():.1f} %{shown}")
            seeds = len(here)
        lines.append(f"| {SETS[name]} | {model} | " + " | ".join(cells) + f" | {seeds} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--sets", nargs="+", choices=list(SETS), default=["dyads", "nr", "gpcr", "ic", "davis"]
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS)[:2])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="Number of the first split.")
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--join", type=Path, nargs="+", help="Print the table of rows that other runs wrote."
    )
    parser.add_argument(
        "--missing", action="store_true", help="Compare mechanisms by which labels are missing."
    )
    options = parser.parse_args()
    if options.missing:
        seeds = range(options.first, options.first + options.splits)
        print(missing_table(options.models, seeds, options.coverage))
        return
    rows: list[dict[str, Any]] = []
    if options.join:
        rows = [row for path in options.join for row in json.loads(path.read_text())]
    else:
        for name in options.sets:
            for model in options.models:
                for seed in range(options.first, options.first + options.splits):
                    rows += split(name, model, seed, options.coverage, options.data)
                    if options.json:
                        options.json.write_text(json.dumps(rows))
                print(table(rows[-3 * options.splits :]).splitlines()[-1], flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
