"""Default grids of alpha against the powers of ten from 10⁻⁷ to 10⁶: nested scores on six sets, in all settings.

    python experiments/default_grids.py [--sets nr gpcr ic davis kiba birds] [--settings ABCD] [--splits 3]
                                        [--repeats 3]

A default grid has the same 14 values times the mean eigenvalue of the kernel. Each search chooses
its regularisation by the squared error of held-out predictions, once from either grid. The score is
the share of the squared error of the grand mean that is gone, averaged over repetitions with other
folds; greater is better.

- B, C and D: nested scores, in cells that had no part in the choice.
- A: nested folds would leave incomplete grids, in which every regularisation is solved again. So the regularisation is
  chosen by leaving out one pair at a time, and the model is scored in fresh folds of pairs.
- Kronecker ridge in D, whose exact hold-out is slow: nuclear receptors and hummingbirds alone.
- KIBA, which is incomplete: every 20th drug, in setting B alone, chosen in five folds and scored once in fresh ones.

The last column has the multiples that the default search chooses from all labels, as powers of ten,
and whether it warns that one of them is on the edge of the grid.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    SettingKFold,
    TwoStepRidgeCV,
    evaluate,
    nested_score,
)
from dyadlearn.datasets import fetch_davis, fetch_kiba, fetch_yamanishi
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import normalize, repair

Data = tuple[np.ndarray, np.ndarray, np.ndarray]

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
SETS = {
    "nr": "nuclear receptors",
    "gpcr": "GPCRs",
    "ic": "ion channels",
    "davis": "Davis",
    "kiba": "KIBA",
    "birds": "hummingbirds",
}
MODELS = {
    "two-step": TwoStepRidgeCV,
    "Kronecker": KroneckerRidgeCV,
    "independent": IndependentTaskRidgeCV,
}
POWERS = 10.0 ** np.arange(-7, 7)
# Of the drugs of KIBA, every 20th is taken.
KIBA_STEP = 20


def birds(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K, G and the visits of hummingbirds to plants among shrubs, from phylogenies and traits."""
    stored = np.load(folder / "hummingbird_plant" / "tinoco.npz")
    kernels = []
    for side, names in (
        ("plant", stored["net_shrubs_plants"]),
        ("humm", stored["net_shrubs_birds"]),
    ):
        tips = stored[f"{side}_tree_tips"].tolist()
        traits = stored[f"{side}_trait_ids"].tolist()
        at = [tips.index(name) for name in names]
        length = np.log(stored[f"{side}_trait"][[traits.index(name) for name in names]][:, None])
        phylogeny = normalize(stored[f"{side}_phylo_vcv"][np.ix_(at, at)])
        kernels.append(phylogeny + rbf_kernel((length - length.mean()) / length.std(), gamma=0.5))
    return kernels[0], kernels[1], (stored["net_shrubs_counts"] > 0).astype(float)


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return K, G and Y of a set."""
    if name == "birds":
        return birds(folder)
    if name == "davis":
        data = fetch_davis(data_home=folder)
    elif name == "kiba":
        data = fetch_kiba(data_home=folder)
        some = np.arange(0, len(data.Y), KIBA_STEP)
        return repair(data.K[np.ix_(some, some)]), repair(data.G), data.Y[some]
    else:
        data = fetch_yamanishi(name, data_home=folder, download=False)
    return repair(data.K), repair(data.G), data.Y


def search(model: str, setting: str, grid: np.ndarray | None) -> Any:
    """Return the search for a model by its word, with the same grid on both sides."""
    options: dict[str, Any] = {
        "setting": setting,
        "kernel": "precomputed",
        "progress": False,
        "alphas": grid,
    }
    if model != "independent":
        options["task_kernel"] = "precomputed"
    if model == "two-step":
        options["task_alphas"] = grid
    return MODELS[model](**options)


def score(
    model: str, setting: str, grid: np.ndarray | None, data: Data, splits: int, seeds: range
) -> float:
    """Return the share of the grand mean's squared error that is gone, as a mean over seeds of the folds."""
    K, G, Y = data
    tasks = None if model == "independent" else G
    chooser = search(model, setting, grid)
    results: list[Any]
    if setting == "A" or np.isnan(Y).any():
        fitted = chooser.fit(K, Y, tasks=tasks)
        folds = [SettingKFold(setting, splits, random_state=seed) for seed in seeds]
        results = [
            evaluate(fitted, setting, scoring="neg_mean_squared_error", cv=one).results[0]
            for one in folds
        ]
    else:
        results = [
            nested_score(chooser, K, Y, tasks=tasks, cv=splits, random_state=seed) for seed in seeds
        ]
    return float(np.mean([1 - one.score / one.baselines["grand_mean"] for one in results]))


def chosen(model: str, setting: str, data: Data) -> str:
    """Return the multiples that the default search chooses, as powers of ten, and "edge" if it warns of an edge."""
    K, G, Y = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = search(model, setting, None).fit(K, Y, tasks=None if model == "independent" else G)
    multiples = [fitted.alpha_ / fitted.alphas_[7]]
    if fitted.task_alpha_ is not None:
        multiples.append(fitted.task_alpha_ / fitted.task_alphas_[7])
    words = ", ".join(f"{round(np.log10(one))}" for one in multiples)
    return words + (
        " (edge)" if any(issubclass(one.category, GridEdgeWarning) for one in caught) else ""
    )


def measured(
    names: list[str], settings: str, splits: int, repeats: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield one row for each set, setting and model that has a meaning there."""
    for name in names:
        data = load(name, folder)
        for setting in settings if name != "kiba" else "B":
            for model in MODELS:
                is_slow = model == "Kronecker" and setting == "D" and name not in ("nr", "birds")
                if is_slow or (model == "independent" and setting != "B"):
                    continue
                start = time.perf_counter()
                seeds = range(repeats if name != "kiba" else 1)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    old = score(model, setting, POWERS, data, splits, seeds)
                    new = score(model, setting, None, data, splits, seeds)
                yield {
                    "set": name,
                    "setting": setting,
                    "model": model,
                    "old": old,
                    "new": new,
                    "chosen": chosen(model, setting, data),
                    "seconds": time.perf_counter() - start,
                }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the scores in Markdown."""
    lines = [
        "| set | setting | model | 10⁻⁷ … 10⁶ | default | chosen |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (
            SETS[row["set"]],
            row["setting"],
            row["model"],
            f"{row['old']:.4f}",
            f"{row['new']:.4f}",
        )
        lines.append(f"| {' | '.join(cells)} | {row['chosen']} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--settings", default="ABCD")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for row in measured(
        options.sets, options.settings, options.splits, options.repeats, options.data
    ):
        print(
            "{set} {setting} {model}: {old:.4f} {new:.4f} ({chosen}), {seconds:.1f} s".format(
                **row
            ),
            flush=True,
        )
        rows.append(row)
    print(table(rows))
    changes = np.array([row["new"] - row["old"] for row in rows])
    better = np.count_nonzero(changes > 5e-4)
    worse = np.count_nonzero(changes < -5e-4)
    print(
        f"Better by more than .0005: {better}, worse: {worse}, of {len(rows)}; mean change "
        f"{changes.mean():+.4f}."
    )


if __name__ == "__main__":
    main()
