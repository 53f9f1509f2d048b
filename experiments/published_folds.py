"""Davis on the published folds of LLMDTA: new pairs, new drugs, new proteins, and both, five folds each.

    python experiments/published_folds.py [--settings warm,novel-drug] [--folds 0,1] [--models learned] [--jobs 2]
    python experiments/published_folds.py --table build/published_folds.jsonl

Every model learns from the pairs of `train` alone and predicts those of `test`, once. Identical
sequences are in one fold. The models:

- learned: `LearnedKernelRidge` with the kernels of `records_data.py` (ten of drugs, five of proteins).
- pockets: the same, with the two kernels of `kinases.py` besides. Training labels confirm them for new proteins alone.
- two-step: `TwoStepRidgeCV` with one kernel of each side (circular neighbourhoods, Smith–Waterman).
- forest: scikit-learn's random forest on counts of neighbourhoods and of words of two letters, side by side.
- means: of drug and protein, as far as they are known.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # one unit on each core; must be set before numpy is imported

import numpy as np  # noqa: E402
from kinases import pocket_kernels  # noqa: E402
from records_data import (  # noqa: E402
    Data,
    davis,
    digest,
    drug_descriptions,
    find_data,
    in_order,
    kept,
    kept_features,
    target_descriptions,
)
from sklearn.ensemble import RandomForestRegressor  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import LearnedKernelRidge, TwoStepRidgeCV  # noqa: E402
from dyadlearn.datasets import fetch_davis  # noqa: E402
from dyadlearn.metrics import concordance_index, mean_squared_error  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {"warm": "A", "novel-drug": "B", "novel-prot": "C", "novel-pair": "D"}
MODELS = ("means", "two-step", "forest", "learned", "pockets")
ALPHAS = 10.0 ** np.arange(-7, 7)


@cache
def sources(data_home: str | None, cache_folder: str | None) -> tuple[Data, Any]:
    """Return the kernels of Davis and the published folds, whose drugs and proteins have the same order."""
    folds = np.load(
        Path(str(find_data(data_home))) / "llmdta" / "davis_folds.npz", allow_pickle=False
    )
    return davis(data_home, cache_folder), folds


def run(
    model: str, setting: str, fold: int, data_home: str | None, cache_folder: str | None
) -> dict[str, Any]:
    """Return the scores of one model on one fold."""
    warnings.simplefilter("ignore")
    data, folds = sources(data_home, cache_folder)
    train, labels, test, truth = (
        folds[f"{setting}_{fold}_{part}"]
        for part in ("train_pairs", "train_labels", "test_pairs", "test_labels")
    )
    Y = np.full(data.Y.shape, np.nan)
    Y[tuple(train.T)] = labels
    # A side that is new in the setting has only rows with labels; a known side has all of them.
    rows, columns = (np.unique(places) for places in train.T)
    start = time.perf_counter()
    if model == "forest":
        X = _features(data_home, cache_folder)
        forest = RandomForestRegressor(100, min_samples_leaf=2, max_features=0.1, random_state=0)
        forest.fit(np.hstack([X[0][train[:, 0]], X[1][train[:, 1]]]), labels)
        predicted = forest.predict(np.hstack([X[0][test[:, 0]], X[1][test[:, 1]]]))
    elif model == "means":
        predicted = _means(Y, test)
    else:
        if model == "pockets":
            data = replace(data, G={**data.G, **_pockets(data_home, cache_folder)})
        sequences = np.unique(folds["sequences"], return_inverse=True)[1]
        predicted = _ridge(model, SETTINGS[setting], data, Y, rows, columns, sequences)[
            tuple(test.T)
        ]
    scores = (mean_squared_error(truth, predicted), concordance_index(truth, predicted))
    row = {
        "model": model,
        "setting": setting,
        "fold": fold,
        "MSE": float(scores[0]),
        "CI": float(scores[1]),
    }
    versions = {
        "date": date.today().isoformat(),
        "dyadlearn": dyadlearn.__version__,
        "numpy": np.__version__,
    }
    return {**row, "seconds": round(time.perf_counter() - start, 1), **versions}


def _ridge(
    model: str,
    setting: str,
    data: Data,
    Y: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    sequences: np.ndarray,
) -> np.ndarray:
    """Return the predictions (m, q) of a model that is fitted to the rows and columns with labels.

    Parameters of new proteins are chosen by folds that keep identical sequences together.
    """
    groups = {"task_groups": sequences[columns]} if setting in "CD" else {}
    K = data.K
    G = data.G
    if model == "two-step":
        K = K["morgan2"]
        G = G["smith_waterman"]
        kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
        fitted = TwoStepRidgeCV(ALPHAS, ALPHAS, setting=setting, progress=False, **kernels)
        fitted.fit(
            K[np.ix_(rows, rows)],
            Y[np.ix_(rows, columns)],
            tasks=G[np.ix_(columns, columns)],
            **groups,
        )
        known = fitted.predict(K[:, rows], G[:, columns])
    else:
        fitted = LearnedKernelRidge(
            kernel="precomputed", task_kernel="precomputed", setting=setting, progress=False
        )
        sides = [
            {name: kernel[np.ix_(part, part)] for name, kernel in side.items()}
            for side, part in ((K, rows), (G, columns))
        ]
        fitted.fit(sides[0], Y[np.ix_(rows, columns)], tasks=sides[1], **groups)
        new = [
            {name: kernel[:, part] for name, kernel in side.items()} if is_new else None
            for side, part, is_new in ((K, rows, setting in "BD"), (G, columns, setting in "CD"))
        ]
        known = fitted.predict(*new)
    predicted = np.full(Y.shape, np.nan)
    places = [
        np.arange(n) if model == "two-step" or setting in new_in else part
        for n, new_in, part in zip(Y.shape, ("BD", "CD"), (rows, columns), strict=True)
    ]
    predicted[np.ix_(*places)] = np.asarray(known)
    return predicted


def _means(Y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Return the mean of the drug plus that of the protein minus that of all, each as far as it is known."""
    grand = np.nanmean(Y)
    with np.errstate(invalid="ignore"):
        drugs = np.nanmean(Y, axis=1)
        proteins = np.nanmean(Y, axis=0)
    return (
        grand
        + np.nan_to_num(drugs[test[:, 0]] - grand)
        + np.nan_to_num(proteins[test[:, 1]] - grand)
    )


@cache
def _pockets(data_home: str | None, cache_folder: str | None) -> dict[str, np.ndarray]:
    """Return kernels of the pockets of kinases, which are kept."""
    folds = sources(data_home, cache_folder)[1]
    names, sequences = ([str(text) for text in folds[key]] for key in ("protein_ids", "sequences"))
    key = digest("pockets", *names, *sequences)
    return kept("davis-pockets", key, cache_folder, lambda: pocket_kernels(names, sequences))


@cache
def _features(data_home: str | None, cache_folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of neighbourhoods of the drugs and of words of the proteins, without columns of one value."""
    downloaded = fetch_davis(data_home=find_data(data_home), instances="drugs")
    smiles = in_order(downloaded.smiles, downloaded.instance_names, "structures (SMILES)", "davis")
    drugs = drug_descriptions(kept_features("davis", smiles, cache_folder))["morgan2"].features
    words = target_descriptions(list(sources(data_home, cache_folder)[1]["sequences"]))[
        "words2"
    ].features
    dense = (np.asarray(side.toarray(), dtype=np.float32) for side in (drugs, words))
    first, second = (side[:, side.std(axis=0) > 0] for side in dense)
    return first, second


def table(lines: list[dict[str, Any]]) -> str:
    """Return means and standard deviations over the folds as a table in Markdown."""
    scores = defaultdict(list)
    for line in lines:
        scores[line["model"], line["setting"]].append((line["MSE"], line["CI"]))
    rows = ["| MSE / CI | " + " | ".join(SETTINGS) + " |", "|---|" + "--:|" * len(SETTINGS)]
    for model in MODELS:
        cells = []
        for setting in SETTINGS:
            of_folds = np.array(scores.get((model, setting), [(np.nan, np.nan)]))
            mse, ci = of_folds.mean(axis=0)
            spread, _ = of_folds.std(axis=0)
            short = "" if len(of_folds) == 5 else f" ({len(of_folds)} folds)"
            cells.append("–" if np.isnan(mse) else f"{mse:.3f} ± {spread:.3f} / {ci:.3f}{short}")
        rows.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    """Run the units that were asked for and append each result as one line, or print the table."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--settings", default=",".join(SETTINGS))
    reader.add_argument("--folds", default="0,1,2,3,4")
    reader.add_argument("--models", default=",".join(MODELS))
    reader.add_argument("--jobs", type=int, default=os.cpu_count())
    reader.add_argument("--out", type=Path, default=ROOT / "build" / "published_folds.jsonl")
    reader.add_argument("--data-home")
    reader.add_argument("--cache")
    reader.add_argument("--table", type=Path)
    options = reader.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    units = [
        (model, setting, int(fold), options.data_home, options.cache)
        for model in options.models.split(",")[::-1]
        for setting in options.settings.split(",")[::-1]
        for fold in options.folds.split(",")
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(run, *unit) for unit in units]):
            line = json.dumps(done.result())
            print(line, flush=True)
            with options.out.open("a") as file:
                file.write(line + "\n")
    print(table([json.loads(line) for line in options.out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
