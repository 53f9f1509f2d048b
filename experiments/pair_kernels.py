"""Which kernel between pairs is best where: nested scores of the family, in all settings.

    python experiments/pair_kernels.py [--sets dyads nr gpcr ic davis e] [--settings ABCD] [--splits 3]
                                       [--models …] [--json FILE] [--markdown]

Each model chooses its regularisation, and the family its shares too, within the folds that remain;
what is scored had no part in it. Labels of 0 and 1 are scored by the area under the ROC curve,
averaged as the setting wants; others by the share of the squared error of the grand mean that is
gone, all with an intercept. Beside each score stands the best that simple means reach in the same
folds. Setting A hides cells, so that every model is solved again for each fold, share and
regularisation: it is left out on the enzymes unless it is asked for by name.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn import IndependentTaskRidgeCV, PairKernelRidgeCV, TwoStepRidgeCV, nested_score
from dyadlearn.datasets import fetch_davis, fetch_yamanishi, make_dyads
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import repair

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = {
    "dyads": "make_dyads, main effects",
    "nr": "nuclear receptors",
    "gpcr": "GPCRs",
    "ic": "ion channels",
    "davis": "kinases × inhibitors",
    "e": "enzymes",
}
ALPHAS = [10.0**power for power in range(-3, 4)]
SHARES = {
    "product": [(1.0, 0.0, 0.0)],
    "per task": [(0.0, 1.0, 0.0)],
    "per instance": [(0.0, 0.0, 1.0)],
    "Cartesian": [(0.0, 0.5, 0.5)],
    "family": None,
}
MODELS = [*SHARES, "two-step", "independent"]


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Return K, G and Y of a set, and what its predictions are scored by."""
    if name == "dyads":
        data = make_dyads(60, 40, mean=100.0, main_effects=2.0, noise=1.0, random_state=0)
        return data.K, data.G, data.Y, "neg_mean_squared_error"
    if name == "davis":
        data = fetch_davis(data_home=folder)
        return repair(data.K), repair(data.G), data.Y, "neg_mean_squared_error"
    data = fetch_yamanishi(name, data_home=folder, download=False)
    return repair(data.K), repair(data.G), data.Y, "roc_auc"


def search(model: str, setting: str, scoring: str) -> Any:
    """Return the search for a model by its word."""
    options: dict[str, Any] = {
        "setting": setting,
        "scoring": scoring,
        "kernel": "precomputed",
        "progress": False,
    }
    if model == "independent":
        return IndependentTaskRidgeCV(ALPHAS, **options)
    options["task_kernel"] = "precomputed"
    if model == "two-step":
        return TwoStepRidgeCV(ALPHAS, ALPHAS, **options)
    return PairKernelRidgeCV(ALPHAS, shares=SHARES[model], **options)


def measured(
    names: list[str], settings: str | None, models: list[str], splits: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield one row for each set, setting and model that has a meaning there."""
    for name in names:
        K, G, Y, scoring = load(name, folder)
        for setting in settings or ("BCD" if name == "e" else "ABCD"):
            for model in models:
                if model == "independent" and setting in "CD":
                    continue
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", GridEdgeWarning)
                    tasks = None if model == "independent" else G
                    nested = nested_score(
                        search(model, setting, scoring),
                        K,
                        Y,
                        tasks=tasks,
                        cv=splits,
                        random_state=0,
                    )
                score = nested.score
                means = nested.baselines
                if scoring != "roc_auc":  # the share of the grand mean's error that is gone
                    error = means["grand_mean"]
                    score = 1 - score / error
                    means = {mean: 1 - value / error for mean, value in means.items()}
                yield {
                    "set": name,
                    "setting": setting,
                    "model": model,
                    "score": score,
                    "means": max(means.values()),
                    "seconds": time.perf_counter() - start,
                }


def table(rows: list[dict[str, Any]], models: list[str]) -> str:
    """Return the scores in Markdown, the best of the kernels of pairs in bold."""
    lines = [
        "| set | setting | best mean | " + " | ".join(models) + " |",
        "|" + "---|" * (len(models) + 3),
    ]
    for name, setting in dict.fromkeys((row["set"], row["setting"]) for row in rows):
        here = {
            row["model"]: row for row in rows if (row["set"], row["setting"]) == (name, setting)
        }
        best = max(row["score"] for row in here.values())
        cells = [
            "–"
            if model not in here
            else f"**{here[model]['score']:.3f}**"
            if here[model]["score"] == best
            else f"{here[model]['score']:.3f}"
            for model in models
        ]
        means = max(row["means"] for row in here.values())
        lines.append(f"| {SETS[name]} | {setting} | {means:.3f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=["dyads", "nr", "gpcr"])
    parser.add_argument("--settings", default=None)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--join", type=Path, nargs="+", help="Print the table of rows that other runs wrote."
    )
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.join:
        rows = [row for path in options.join for row in json.loads(path.read_text())]
        order = list(SETS)
        rows.sort(key=lambda row: (order.index(row["set"]), row["setting"]))
    else:
        for row in measured(
            options.sets, options.settings, options.models, options.splits, options.data
        ):
            print(
                "{set} {setting} {model}: {score:.4f} (means {means:.4f}), {seconds:.1f} s".format(
                    **row
                ),
                flush=True,
            )
            rows.append(row)
            if options.json:
                options.json.write_text(json.dumps(rows))
    print(table(rows, [model for model in MODELS if any(row["model"] == model for row in rows)]))


if __name__ == "__main__":
    main()
