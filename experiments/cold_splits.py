"""Learned kernels beside untuned ones, for few labels 0 or 1 of new drugs and new targets.

    python experiments/cold_splits.py [--data davis,kiba,e,ic,gpcr] [--seeds 0-4] [--kernels one,several]
                                      [--models flat,learned] [--labels 300] [--quick] [--out FILE]
    python experiments/cold_splits.py --table FILE

In each split, 30 % of the drugs and of the targets are new, drawn by the seed. Of the labels of the
others, equally many positive ones and zeros are drawn at random, so that entities with many
positive labels have many labels. The test has as many labels at most, all of a new drug and a new
target. Every choice is made on training labels. The models:

- flat: Kronecker ridge regression with K⊗G + 0.2 K + 0.2 G and λ = 1, where nothing is chosen. Of several kernels, K
  and G are the means.
- kronecker: the same, whose λ and constants are chosen by exact hold-out in setting D.
- learned: `LearnedKernelRidge` with the defaults, in setting D.
- forest: a random forest on the similarities to the training drugs and targets.

Positive are a pKd of at least 7 (Davis), a KIBA score of at least 12.1, and known interactions (e, ic, gpcr).
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # must be set before numpy is imported

import numpy as np  # noqa: E402
from records_data import (  # noqa: E402
    drug_descriptions,
    find_data,
    in_order,
    kept_features,
    target_descriptions,
    whole,
)
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.metrics import average_precision_score, roc_auc_score  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import KroneckerRidge, KroneckerRidgeCV, LearnedKernelRidge  # noqa: E402
from dyadlearn.datasets import fetch_davis, fetch_kiba, fetch_yamanishi  # noqa: E402
from dyadlearn.exceptions import KernelRepairWarning  # noqa: E402
from dyadlearn.kernels import normalize, repair  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
# Share of the drugs and of the targets that are new.
NEW = 0.3
# Thresholds from which a label is positive.
ACTIVE = {"davis": 7.0, "kiba": 12.1}
# Number of drugs of which kernels are computed at most: those of all drugs of KIBA take long.
MOST_DRUGS = 600
FETCH: dict[str, Callable[[str | None], Any]] = {
    "davis": lambda home: fetch_davis(data_home=home, instances="drugs"),
    "kiba": lambda home: fetch_kiba(data_home=home, instances="drugs"),
    "e": lambda home: fetch_yamanishi("e", data_home=home, instances="drugs"),
    "ic": lambda home: fetch_yamanishi("ic", data_home=home, instances="drugs"),
    "gpcr": lambda home: fetch_yamanishi("gpcr", data_home=home, instances="drugs"),
}
CONSTANT = 0.2
ALPHAS = 10.0 ** np.arange(-2, 1.5, 0.5)
CONSTANTS = (0.05, 0.2, 1.0)

Kernels = dict[str, np.ndarray]


@dataclass(frozen=True)
class Table:
    """Labels 0, 1 or NaN (m, q), and the kernels of drugs (m, m) and targets (q, q) by name."""

    Y: np.ndarray
    K: Kernels
    G: Kernels


@dataclass(frozen=True)
class Split:
    """Labels to learn from, as a grid of the drugs and targets that have some, and pairs to predict.

    Attributes
    ----------
    Y : array of shape (m, q)
    K, G : dict of str to array
        Kernels of the training drugs (m, m) and targets (q, q).
    fresh, fresh_tasks : dict of str to array
        Kernels of new and training drugs and targets.
    pairs : array of shape (n, 2)
        Positions of the new drug and the new target of each test label.
    truth : array of shape (n,)
    """

    Y: np.ndarray
    K: Kernels
    G: Kernels
    fresh: Kernels
    fresh_tasks: Kernels
    pairs: np.ndarray
    truth: np.ndarray


def load(name: str, kernels: str, data_home: str | None, cache: str | None) -> Table:
    """Return labels, and the published similarities or several kernels of both sides."""
    downloaded = FETCH[name](find_data(data_home))
    names = [str(drug) for drug in downloaded.instance_names]
    rows = np.flatnonzero([drug in downloaded.smiles for drug in names])
    if len(rows) > MOST_DRUGS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_DRUGS])
    Y = downloaded.Y[rows]
    if name in ACTIVE:
        Y = np.where(np.isnan(Y), np.nan, np.greater_equal(Y, ACTIVE[name]))
    K = {"similarity": _similarity(downloaded.K[np.ix_(rows, rows)])}
    G = {"similarity": _similarity(downloaded.G)}
    if kernels == "one":
        return Table(Y, K, G)
    smiles = [downloaded.smiles[names[row]] for row in rows]
    features = kept_features(f"{name}-cold", smiles, cache)
    K |= {label: whole(one.gram()) for label, one in drug_descriptions(features).items()}
    if name in ACTIVE:
        sequences = in_order(downloaded.sequences, downloaded.task_names, "sequences", name)
        G |= {label: whole(one.gram()) for label, one in target_descriptions(sequences).items()}
    else:
        # Nothing but similarities is published of these targets: kernels of other widths.
        G |= {f"width{width}": np.exp(-width * (2 - 2 * G["similarity"])) for width in (1, 4)}
    return Table(Y, K, G)


def _similarity(published: np.ndarray) -> np.ndarray:
    """Return a kernel in [0, 1] with ones on the diagonal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelRepairWarning)
        kernel = normalize(repair(published, symmetrize="mean", psd="clip"))
    return np.clip(whole(kernel), 0.0, 1.0)


def split(table: Table, seed: int, n_labels: int) -> Split:
    """Return a split whose test drugs and targets are all new."""
    rng = np.random.default_rng(seed)
    m, q = table.Y.shape
    new_rows = rng.random(m) < NEW
    new_columns = rng.random(q) < NEW
    train = _balanced(table.Y, ~new_rows, ~new_columns, n_labels, rng)
    test = _balanced(table.Y, new_rows, new_columns, n_labels, rng)
    (rows, columns), (new, new_tasks) = (
        [np.unique(places) for places in part.T] for part in (train, test)
    )
    Y = np.full(table.Y.shape, np.nan)
    Y[tuple(train.T)] = table.Y[tuple(train.T)]
    places = [
        np.searchsorted(side, own) for side, own in zip((new, new_tasks), test.T, strict=True)
    ]
    return Split(
        Y[np.ix_(rows, columns)],
        _part(table.K, rows, rows),
        _part(table.G, columns, columns),
        _part(table.K, new, rows),
        _part(table.G, new_tasks, columns),
        np.stack(places, axis=1),
        table.Y[tuple(test.T)],
    )


def _balanced(
    Y: np.ndarray, rows: np.ndarray, columns: np.ndarray, n_labels: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the positions (n, 2) of equally many positive and negative labels in a block, at most `n_labels`."""
    block = np.outer(rows, columns)
    classes = [rng.permutation(np.argwhere(block & (value == Y))) for value in (1, 0)]
    n_each = min(n_labels // 2, *map(len, classes))
    return np.vstack([one[:n_each] for one in classes])


def _part(kernels: Kernels, rows: np.ndarray, columns: np.ndarray) -> Kernels:
    return {label: kernel[np.ix_(rows, columns)] for label, kernel in kernels.items()}


# --- Models ---------------------------------------------------------------------------------------


def _mean(kernels: Kernels) -> np.ndarray:
    return np.asarray(sum(kernels.values()) / len(kernels))


def flat(data: Split) -> np.ndarray:
    """Return the predictions (m, q) of a model where nothing is chosen."""
    model = KroneckerRidge(1.0, kernel="precomputed", task_kernel="precomputed", constants=CONSTANT)
    model.fit(_mean(data.K), data.Y, tasks=_mean(data.G))
    return np.asarray(model.predict(_mean(data.fresh), _mean(data.fresh_tasks)))


def kronecker(data: Split) -> np.ndarray:
    """Return the predictions of a model whose λ and constants are chosen by exact hold-out."""
    model = KroneckerRidgeCV(
        ALPHAS,
        kernel="precomputed",
        task_kernel="precomputed",
        constants=CONSTANTS,
        setting="D",
        progress=False,
    )
    model.fit(_mean(data.K), data.Y, tasks=_mean(data.G))
    return np.asarray(model.predict(_mean(data.fresh), _mean(data.fresh_tasks)))


def learned(data: Split, **options: Any) -> np.ndarray:
    """Return the predictions of learned kernels."""
    model = LearnedKernelRidge(
        kernel="precomputed", task_kernel="precomputed", setting="D", progress=False, **options
    )
    model.fit(data.K, data.Y, tasks=data.G)
    return np.asarray(model.predict(data.fresh, data.fresh_tasks))


def forest(data: Split) -> np.ndarray:
    """Return the probabilities (m, q) of a random forest, NaN beside the test pairs."""
    known = np.argwhere(~np.isnan(data.Y))
    similar, task_similar = np.hstack(list(data.K.values())), np.hstack(list(data.G.values()))
    X = np.hstack([similar[known[:, 0]], task_similar[known[:, 1]]])
    model = RandomForestClassifier(300, min_samples_leaf=2, random_state=0)
    model.fit(X, data.Y[tuple(known.T)] > 0.5)
    new, new_tasks = (
        np.hstack(list(data.fresh.values())),
        np.hstack(list(data.fresh_tasks.values())),
    )
    asked = np.hstack([new[data.pairs[:, 0]], new_tasks[data.pairs[:, 1]]])
    predicted = np.full((len(new), len(new_tasks)), np.nan)
    predicted[tuple(data.pairs.T)] = model.predict_proba(asked)[:, 1]
    return predicted


MODELS: dict[str, Callable[[Split], np.ndarray]] = {
    "flat": flat,
    "kronecker": kronecker,
    "learned": learned,
    "forest": forest,
}


def scored(model: str, data: Split) -> dict[str, Any]:
    """Return the scores of a model on the test labels of a split, and the seconds it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = MODELS[model](data)[tuple(data.pairs.T)]
    return {
        "model": model,
        "AUROC": float(roc_auc_score(data.truth, predicted)),
        "AP": float(average_precision_score(data.truth, predicted)),
        "seconds": round(time.perf_counter() - start, 2),
    }


# --- Results --------------------------------------------------------------------------------------


def table(lines: list[dict[str, Any]], score: str) -> str:
    """Return means of a score over the seeds, and the mean difference to the flat model ± its standard error."""
    values: dict[str, dict[tuple[str, str, int], float]] = defaultdict(dict)
    for line in lines:
        values[line["model"]][line["data"], line["kernels"], line["seed"]] = line[score]
    units = sorted({unit[:2] for scores in values.values() for unit in scores})
    heads = [f"{data}, {kernels}" for data, kernels in units]
    rows = [
        f"| {score} | " + " | ".join(heads) + " | minus flat | worst |",
        "|---|" + "--:|" * (len(heads) + 2),
    ]
    flat_scores = values.get("flat", {})
    for model, scores in values.items():
        means = []
        for unit in units:
            own = [value for key, value in scores.items() if key[:2] == unit]
            means.append(f"{np.mean(own):.3f}" if own else "–")
        gaps = [value - flat_scores[key] for key, value in scores.items() if key in flat_scores]
        ends = ["–", "–"]
        if model != "flat" and len(gaps) > 1:
            error = np.std(gaps, ddof=1) / len(gaps) ** 0.5
            ends = [f"{np.mean(gaps):+.3f} ± {error:.3f}", f"{np.min(gaps):+.3f}"]
        rows.append(f"| {model} | " + " | ".join(means + ends) + " |")
    return "\n".join(rows)


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    """Run the splits that were asked for, append each result as one line, and print the tables."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--data", default=",".join(FETCH))
    reader.add_argument("--seeds", default="0-4")
    reader.add_argument("--kernels", default="one,several")
    reader.add_argument("--models", default=",".join(MODELS))
    reader.add_argument("--labels", type=int, default=300, help="labels to learn from")
    reader.add_argument("--quick", action="store_true", help="one seed of the GPCRs, 100 labels")
    reader.add_argument("--data-home")
    reader.add_argument("--cache")
    reader.add_argument("--out", type=Path, default=ROOT / "build" / "cold_splits.jsonl")
    reader.add_argument("--table", type=Path, help="print the tables of such a file instead")
    options = reader.parse_args()
    if options.quick:
        options.data = "gpcr"
        options.seeds = "0"
        options.kernels = "one"
        options.labels = 100
    if options.table is None:
        lines = list(run(options))
    else:
        lines = [json.loads(line) for line in options.table.read_text().splitlines()]
    for score in ("AUROC", "AP"):
        print(f"\n{table(lines, score)}")


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one line for each split and model, and append them to the results as they come."""
    about = {
        "labels": options.labels,
        "date": date.today().isoformat(),
        "dyadlearn": dyadlearn.__version__,
        "numpy": np.__version__,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in options.data.split(","):
        for kernels in options.kernels.split(","):
            used = load(name, kernels, options.data_home, options.cache)
            for seed in _seeds(options.seeds):
                data = split(used, seed, options.labels)
                for model in options.models.split(","):
                    unit = {"data": name, "kernels": kernels, "seed": seed}
                    lines.append(unit | scored(model, data) | about)
                    with options.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    return lines


if __name__ == "__main__":
    main()
