"""How good probabilities are: Brier scores and calibration errors on four networks of drugs and targets.

    python experiments/probabilities.py [--sets nr gpcr ic e] [--settings ABCD] [--data FOLDER] [--json FILE]
    python experiments/probabilities.py --few

Two-step ridge regression chooses both regularisations for the setting, by the squared error of its
held-out predictions of the labels 0 and 1. These are then taken for probabilities as they are, cut
off at 0 and 1, or go through a map that `dyadlearn.calibrate` fits; every label is judged by a map
that was fitted without all that it leaves with. Beside them stand what the base rate reaches and
the best that simple means do, held out alike.

`--few` asks how many positive labels a map needs, on independent scores: normal ones, 1.5 higher
for the one in twenty that is positive. Told is how much of the gain over the base rate, as the true
probabilities have it, is left with a map that was fitted on so few.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn import TwoStepRidgeCV, calibrate
from dyadlearn.datasets import fetch_yamanishi
from dyadlearn.diagnostics.monotone import MAPS
from dyadlearn.diagnostics.reliability import reliability
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import repair

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = {"nr": "nuclear receptors", "gpcr": "GPCRs", "ic": "ion channels", "e": "enzymes"}
ALPHAS = [10.0**power for power in range(-4, 4)]
METHODS = ("sigmoid", "isotonic")


def measured(names: list[str], settings: str, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Yield one row for each set and setting."""
    for name in names:
        data = fetch_yamanishi(name, data_home=folder, download=folder is None)
        K = repair(data.K)
        G = repair(data.G)
        for setting in settings:
            start = time.perf_counter()
            search = TwoStepRidgeCV(
                ALPHAS,
                ALPHAS,
                setting=setting,
                kernel="precomputed",
                task_kernel="precomputed",
                progress=False,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)
                search.fit(K, data.Y, tasks=G)
            calibrated = {
                method: calibrate(search, setting, method=method)[setting] for method in METHODS
            }
            one = calibrated["sigmoid"]
            yield {
                "set": name,
                "setting": setting,
                "positive": one.n_positive / one.n_cells,
                "base rate": one.baseline_brier,
                "means": min(one.baselines.values()),
                **as_they_are(one.scores, data.Y),
                **{
                    f"{method} brier": calibration.brier
                    for method, calibration in calibrated.items()
                },
                **{
                    f"{method} error": calibration.calibration_error
                    for method, calibration in calibrated.items()
                },
                "seconds": time.perf_counter() - start,
            }


def as_they_are(scores: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Return the figures of scores that are taken for probabilities."""
    p = np.clip(scores, 0, 1)
    rows, columns = np.indices(Y.shape)
    bins = reliability(p.ravel(), Y.ravel() == 1, rows.ravel(), columns.ravel() + len(Y))
    return {"score brier": float(np.mean((p - Y) ** 2)), "score error": bins.error}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures in Markdown."""
    heads = [
        "base rate",
        "best mean",
        "score",
        *METHODS,
        "error of the score",
        *(f"of {method}" for method in METHODS),
    ]
    lines = ["| set | setting | " + " | ".join(heads) + " |", "|---|---|" + "--:|" * len(heads)]
    wanted = ["base rate", "means"]
    wanted += [
        f"{column} {figure}" for figure in ("brier", "error") for column in ("score", *METHODS)
    ]
    for row in rows:
        cells = [f"{row[column]:.4f}" for column in wanted]
        lines.append(f"| {SETS[row['set']]} | {row['setting']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def few() -> str:
    """Return the share of the gain that is kept with so many positive labels, in Markdown."""
    rng = np.random.default_rng(0)
    share = 0.05
    gap = 1.5
    positive = rng.random(200_000) < share
    scores = rng.normal(size=positive.size) + gap * positive

    def brier(p: Any) -> float:
        return float(np.mean((p - positive) ** 2))

    base = brier(share)
    odds = share / (1 - share) * np.exp(gap * scores - gap**2 / 2)
    gain = base - brier(odds / (1 + odds))
    lines = [
        "| positive labels | sigmoid | worst tenth | isotonic | worst tenth |",
        "|--:|--:|--:|--:|--:|",
    ]
    for n in (1, 2, 3, 5, 10, 20, 50, 200, 1000):
        cells = []
        for method in METHODS:
            kept = []
            for _ in range(100):
                labels = np.arange(round(n / share)) < n
                fitted = MAPS[method](rng.normal(size=labels.size) + gap * labels, labels)
                kept.append((base - brier(fitted(scores))) / gain)
            cells += [f"{np.mean(kept):.2f}", f"{np.quantile(kept, 0.1):.2f}"]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA if DATA.is_dir() else None)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--settings", default="ABCD")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--few", action="store_true", help="How many positive labels are enough.")
    options = parser.parse_args()
    if options.few:
        print(few())
        return
    rows = []
    for row in measured(options.sets, options.settings, options.data):
        print(f"{row['set']} {row['setting']}: {row['seconds']:.1f} s", flush=True)
        rows.append(row)
        if options.json:
            options.json.write_text(json.dumps(rows))
    print(table(rows))
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    today = datetime.now(UTC).date()
    print(
        f"\n{today}, dyadlearn {dyadlearn.__version__}, {libraries}, Python "
        f"{platform.python_version()}"
    )


if __name__ == "__main__":
    main()
