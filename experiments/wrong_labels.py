"""Wrong labels that are known, because they were made wrong, and how many of them screening finds.

    python experiments/wrong_labels.py [--sets gpcr ic] [--settings ABCD] [--share 0.02] [--seeds 5]
                                       [--markdown] [--json FILE]

A share of the labels of drugs and targets is flipped at random, and a model chooses its
regularisation and is held out with what is left: it knows nothing of which labels were touched. As
many labels as were flipped are then screened. The table has the share of flipped labels among them;
chance would find a share as large as that of the list. Labels that were wrong before, as published,
and right ones that no feature explains count as false alarms here.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import dyadlearn
from dyadlearn import KroneckerRidgeCV, TwoStepRidgeCV, screen
from dyadlearn.datasets import fetch_yamanishi
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import repair

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = ["nr", "gpcr", "ic", "e"]
ALPHAS = [10.0**power for power in range(-3, 4)]
MODELS = {
    "two-step": (TwoStepRidgeCV, (ALPHAS, ALPHAS)),
    "Kronecker": (KroneckerRidgeCV, (ALPHAS,)),
}


def load(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the kernels of targets and drugs, and the interactions."""
    if folder is not None and (folder / "yamanishi2008").is_dir():
        home = folder
    else:
        home = None
    data = fetch_yamanishi(name, data_home=home, download=home is None)
    return repair(data.K), repair(data.G), data.Y


def flipped(Y: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of 0 and 1 of which a share is exchanged, and which (m, q) these are."""
    chosen = np.random.default_rng(seed).permutation(Y.size)[: round(share * Y.size)]
    wrong = np.zeros(Y.size, dtype=bool)
    wrong[chosen] = True
    wrong = wrong.reshape(Y.shape)
    return np.where(wrong, 1 - Y, Y), wrong


def screened(
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
    model: str,
    setting: str,
    share: float,
    seed: int,
) -> dict[str, Any]:
    """Flip, search, screen as many labels as were flipped, and count."""
    K, G, Y = data
    kind, grids = MODELS[model]
    Y, wrong = flipped(Y, share, seed)
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    search = kind(*grids, setting=setting, scoring="roc_auc", progress=False, **kernels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        search.fit(K, Y, tasks=G)
    n_wrong = int(wrong.sum())
    screening = screen(search, setting, n=n_wrong)
    hits = sum(bool(wrong[cell]) for cell in zip(screening.instances, screening.tasks, strict=True))
    return {"recovered": hits / n_wrong, "times": hits / (n_wrong * share)}


def measured(
    sets: list[str], settings: str, share: float, seeds: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield one row of means over the seeds for each set, setting and model."""
    for name in sets:
        data = load(name, folder)
        for setting in settings:
            for model in MODELS:
                runs = [screened(data, model, setting, share, seed) for seed in range(seeds)]
                means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
                least = float(np.min([run["times"] for run in runs]))
                yield {
                    "set": name,
                    "setting": setting,
                    "model": model,
                    **means,
                    "least_times": least,
                    "seeds": seeds,
                }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows in Markdown."""
    lines = [
        "| set | setting | model | found | times chance | least |",
        "|---|---|---|--:|--:|--:|",
    ]
    for row in rows:
        figures = "{recovered:.0%} | {times:.1f} | {least_times:.1f}"
        line = f"| {row['set']} | {row['setting']} | {row['model']} | {figures.format(**row)} |"
        lines.append(line.replace("%", " %"))
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        help="folder with the data (default: beside the checkout)",
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["gpcr", "ic"])
    parser.add_argument("--settings", default="ABCD")
    parser.add_argument(
        "--share", type=float, default=0.02, help="share of the labels to flip (default: 0.02)"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="how often other labels are flipped (default: 5)"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print date and versions below the table"
    )
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    if not 0 < options.share < 0.5:
        parser.error(f"--share must be above 0 and below 0.5, found {options.share}")
    rows = []
    for row in measured(options.sets, options.settings, options.share, options.seeds, options.data):
        print(
            "{set} {setting} {model}: found {recovered:.3f}, {times:.1f} × chance".format(**row),
            flush=True,
        )
        rows.append(row)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    if options.markdown:
        versions = (
            f"dyadlearn {dyadlearn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
        )
        print(f"\n{datetime.date.today()}, {versions} and Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
