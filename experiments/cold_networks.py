"""Drug–protein networks with new drugs, new targets, or both: kernel models beside a random forest.

    python experiments/cold_networks.py [--data nr,gpcr] [--settings BCD] [--models means,forest,two-step,learned]
                                        [--folds 0-9] [--data-home FOLDER] [--out FILE]

The ten folds are those of `records.py`. In D, the drugs of a fold and the targets of the fold of the
same number are new. Each side has its published similarity. Every choice is made on the labels of
training. The models:

- means: of the known side; one number in D.
- forest: 100 trees on the similarities to the training drugs and to the training targets, side by side.
- two-step: `TwoStepRidgeCV` with the defaults.
- learned: `LearnedKernelRidge` with the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # must be set before numpy is imported

import numpy as np  # noqa: E402
from records import Split, Unit, cut  # noqa: E402
from records_data import Data, yamanishi  # noqa: E402
from sklearn.ensemble import RandomForestRegressor  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import LearnedKernelRidge, TwoStepRidgeCV  # noqa: E402
from dyadlearn.exceptions import GridEdgeWarning  # noqa: E402
from dyadlearn.metrics import average_precision, roc_auc  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
N_FOLDS = 10
PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "progress": False}
SIMILARITY = "similarity"


def asked(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the instances and tasks to predict for."""
    rows = split.rows if split.new_rows is None else split.new_rows
    columns = split.columns if split.new_columns is None else split.new_columns
    return rows, columns


def means(data: Data, split: Split, setting: str) -> np.ndarray:
    """Predict by the mean of the known side, and by the grand mean in D."""
    axis = {"B": 0, "C": 1, "D": None}[setting]
    predictions = split.Y.mean(axis=axis, keepdims=True)
    return np.broadcast_to(predictions, split.truth.shape)


def forest(data: Data, split: Split, setting: str) -> np.ndarray:
    """Predict by a random forest on the similarities of both sides."""
    K = data.K[SIMILARITY][:, split.rows].astype(np.float32)
    G = data.G[SIMILARITY][:, split.columns].astype(np.float32)

    def features(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        shape = (len(rows), len(columns))
        of_rows = np.repeat(K[rows], shape[1], axis=0)
        of_columns = np.tile(G[columns], (shape[0], 1))
        return np.hstack([of_rows, of_columns])

    model = RandomForestRegressor(100, min_samples_leaf=2, max_features="sqrt", random_state=0)
    model.fit(features(split.rows, split.columns), split.Y.ravel())
    return model.predict(features(*asked(split))).reshape(split.truth.shape)


def two_step(data: Data, split: Split, setting: str) -> np.ndarray:
    """Predict by two-step ridge regression."""
    K = data.K[SIMILARITY]
    G = data.G[SIMILARITY]
    rows, columns = asked(split)
    model = TwoStepRidgeCV(setting=setting, **PRECOMPUTED)
    known = G[np.ix_(split.columns, split.columns)]
    model.fit(K[np.ix_(split.rows, split.rows)], split.Y, tasks=known)
    return np.asarray(model.predict(K[np.ix_(rows, split.rows)], G[np.ix_(columns, split.columns)]))


def learned(data: Data, split: Split, setting: str) -> np.ndarray:
    """Predict by learned kernels."""
    K, G = ({"similarity": side[SIMILARITY]} for side in (data.K, data.G))
    trained = [
        {name: kernel[np.ix_(part, part)] for name, kernel in side.items()}
        for side, part in ((K, split.rows), (G, split.columns))
    ]
    model = LearnedKernelRidge(setting=setting, **PRECOMPUTED)
    model.fit(trained[0], split.Y, tasks=trained[1])
    new = [
        None
        if places is None
        else {name: kernel[np.ix_(places, part)] for name, kernel in side.items()}
        for side, part, places in (
            (K, split.rows, split.new_rows),
            (G, split.columns, split.new_columns),
        )
    ]
    return np.asarray(model.predict(*new))


MODELS: dict[str, Callable[[Data, Split, str], np.ndarray]] = {
    "means": means,
    "forest": forest,
    "two-step": two_step,
    "learned": learned,
}


def scored(model: str, data: Data, setting: str, fold: int) -> dict[str, Any]:
    """Return the scores of a model on a fold, pooled over its pairs; None without both classes."""
    split = cut(data, Unit(data.name, setting, f"fold {fold}"), N_FOLDS)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        predictions = MODELS[model](data, split, setting)
    seconds = round(time.perf_counter() - start, 2)
    has_both = 0 < split.truth.mean() < 1
    scores = {"AUPR": average_precision, "AUC": roc_auc}
    line = {
        name: float(score(split.truth, predictions)) if has_both else None
        for name, score in scores.items()
    }
    about = {"data": data.name, "setting": setting, "fold": fold, "model": model}
    return {**about, **line, "seconds": seconds}


def table(lines: list[dict[str, Any]]) -> str:
    """Return the means of AUPR / AUC over the folds that have both classes."""
    values: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for line in lines:
        scores = values.setdefault((line["data"], line["setting"]), defaultdict(list))
        if line["AUPR"] is not None:
            scores[line["model"]].append((line["AUPR"], line["AUC"]))
    models = [model for model in MODELS if any(model in scores for scores in values.values())]
    rows = ["| AUPR / AUC | folds | " + " | ".join(models) + " |"]
    rows.append("|---|--:|" + ":-:|" * len(models))
    for (name, setting), scores in values.items():
        counts = sorted({len(of_folds) for of_folds in scores.values()})
        cells = [", ".join(map(str, counts))]
        for model in models:
            of_folds = scores.get(model)
            text = "–"
            if of_folds:
                text = " / ".join(f"{mean:.3f}" for mean in np.mean(of_folds, axis=0))
            cells.append(text)
        rows.append(f"| {name}, {setting} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    """Print the table, after each result is appended to a file."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--data", default="nr,gpcr", help="of nr,gpcr,ic,e")
    reader.add_argument("--settings", default="BCD")
    reader.add_argument("--models", default=",".join(MODELS))
    reader.add_argument("--folds", default=f"0-{N_FOLDS - 1}", help="first-last")
    reader.add_argument("--data-home")
    reader.add_argument("--out", type=Path, default=ROOT / "build" / "cold_networks.jsonl")
    reader.add_argument("--table", type=Path, help="print the table of such a file instead")
    options = reader.parse_args()
    if options.table is not None:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    first, _, last = options.folds.partition("-")
    about = {"date": date.today().isoformat(), "dyadlearn": dyadlearn.__version__}
    about["numpy"] = np.__version__
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in options.data.split(","):
        data = yamanishi(name, options.data_home)
        for setting in options.settings:
            for model in options.models.split(","):
                for fold in range(int(first), int(last or first) + 1):
                    lines.append(scored(model, data, setting, fold) | about)
                    with options.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
