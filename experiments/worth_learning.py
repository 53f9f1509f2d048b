"""Is learning kernels worth it? The best single kernel, the flat average and learned weights, nested.

    python experiments/worth_learning.py [--data nr,gpcr] [--settings A,B,C] [--seeds 0,1,2] [--out FILE]
    python experiments/worth_learning.py --table FILE

A fifth of the pairs (A), drugs (B) or targets (C) is the test, drawn by the seed. Each of the three
learns λ and the shares from the training labels alone, in one stage:

- single: the best kernel of each side and its exponent, chosen by hold-out error, one side after the other.
- flat: all kernels with equal weights (shrinkage so large that weights and exponents stay).
- learned: weights and exponents too, with the defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from records import Machine  # noqa: E402
from records_data import (  # noqa: E402
    Data,
    bandwidth,
    drug_descriptions,
    find_data,
    kept_features,
    whole,
    yamanishi,
)
from records_data import davis as davis_data  # noqa: E402
from records_data import kiba as kiba_data  # noqa: E402

import dyadlearn  # noqa: E402
from dyadlearn import LearnedKernelRidge  # noqa: E402
from dyadlearn._array import to_numpy  # noqa: E402
from dyadlearn.datasets import fetch_yamanishi  # noqa: E402
from dyadlearn.kernels import normalize  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("single", "flat", "learned")
#: A shrinkage that holds weights and exponents at their start.
HELD = 1e9
Kernels = dict[str, np.ndarray]


def load(name: str, data_home: str | None, cache: str | None) -> Data:
    """Return labels and several kernels of each side."""
    home = find_data(data_home)
    if name == "davis":
        return davis_data(home, cache)
    if name == "kiba":
        return kiba_data(home, cache)
    if name == "hummingbirds":
        return hummingbirds(Path(str(home)))
    data = yamanishi(name, home)
    downloaded = fetch_yamanishi(name, data_home=home, instances="drugs")
    K = dict(data.K)
    G = dict(data.G)
    known = np.array([str(drug) in downloaded.smiles for drug in downloaded.instance_names])
    smiles = [downloaded.smiles[str(drug)] for drug in np.array(downloaded.instance_names)[known]]
    described = {
        drug: whole(one.gram())
        for drug, one in drug_descriptions(kept_features(name, smiles, cache)).items()
    }
    K = {drug: kernel[np.ix_(known, known)] for drug, kernel in K.items()} | described
    # Nothing but similarities is published of the targets: their powers are kernels of other
    # widths.
    similarity = G["similarity"]
    G |= {f"distance{width}": np.exp(-width * (2 - 2 * similarity)) for width in (1, 4)}
    return Data(name, data.Y[known], K, G)


def hummingbirds(home: Path) -> Data:
    """Return visits of birds (columns) to plants (rows), log(1 + visits) summed over the sites where both occur.

    Each side has a kernel of its phylogeny and two of its trait. Pairs that share no site are
    missing.
    """
    stored = np.load(home / "hummingbird_plant" / "tinoco.npz", allow_pickle=False)
    names = [list(stored[f"{side}_tree_tips"]) for side in ("plant", "humm")]
    visits, met = np.zeros((2, *map(len, names)))
    for site in ("forest", "shrubs", "cattle"):
        ids = [
            [side.index(name_of) for name_of in stored[f"net_{site}_{who}"]]
            for side, who in zip(names, ("plants", "birds"), strict=True)
        ]
        visits[np.ix_(*ids)] += stored[f"net_{site}_counts"]
        met[np.ix_(*ids)] = 1
    kernels = []
    for side, tips in zip(("plant", "humm"), names, strict=True):
        order = [list(stored[f"{side}_trait_ids"]).index(name_of) for name_of in tips]
        trait = np.log(stored[f"{side}_trait"][order])[:, None]
        widths = {
            f"trait{width}": np.exp(-width * bandwidth(trait) * (trait - trait.T) ** 2)
            for width in (1, 10)
        }
        kernels.append({"phylogeny": whole(normalize(stored[f"{side}_phylo_vcv"])), **widths})
    return Data("hummingbirds", np.where(met > 0, np.log1p(visits), np.nan), *kernels)


def test_part(Y: np.ndarray, setting: str, seed: int) -> np.ndarray:
    """Return a mask of the test cells."""
    rng = np.random.default_rng(seed)
    m, q = Y.shape
    if setting == "A":
        return np.asarray(rng.random(Y.shape) < 0.2)
    chosen = rng.permutation(m if setting == "B" else q)[
        : max((m if setting == "B" else q) // 5, 1)
    ]
    mask = np.zeros(Y.shape, dtype=bool)
    mask[(chosen, slice(None)) if setting == "B" else (slice(None), chosen)] = True
    return mask


def error(
    K: Kernels,
    G: Kernels,
    Y: np.ndarray,
    test: np.ndarray,
    setting: str,
    machine: Machine,
    **options: Any,
) -> tuple[float, float]:
    """Return the hold-out error of learning, and the error on the test part."""
    rows = np.flatnonzero(~test.all(axis=1)) if setting == "B" else np.arange(len(Y))
    if setting == "C":
        columns = np.flatnonzero(~test.all(axis=0))
    else:
        columns = np.arange(Y.shape[1])
    new = np.setdiff1d(np.arange(len(Y)), rows), np.setdiff1d(np.arange(Y.shape[1]), columns)
    model = LearnedKernelRidge(
        kernel="precomputed",
        task_kernel="precomputed",
        setting=setting,
        stages=1,
        progress=False,
        **options,
    )
    sides = [
        {name: machine.array(kernel[np.ix_(part, part)]) for name, kernel in side.items()}
        for side, part in ((K, rows), (G, columns))
    ]
    model.fit(
        sides[0], machine.array(np.where(test, np.nan, Y)[np.ix_(rows, columns)]), tasks=sides[1]
    )
    predicted = model.predict(
        *(
            None
            if is_known
            else {name: machine.array(kernel[np.ix_(fresh, part)]) for name, kernel in side.items()}
            for side, part, fresh, is_known in (
                (K, rows, new[0], setting != "B"),
                (G, columns, new[1], setting != "C"),
            )
        )
    )
    truth = Y[np.ix_(new[0] if setting == "B" else rows, new[1] if setting == "C" else columns)]
    if setting == "A":
        truth = np.where(test, truth, np.nan)
    return float(model.holdout_error_), float(np.nanmean((to_numpy(predicted) - truth) ** 2))


def single(data: Data, test: np.ndarray, setting: str, machine: Machine) -> float:
    """Return the test error of the best kernel of each side, chosen by hold-out error, drugs before targets."""

    def least(pairs: list[tuple[str, str]]) -> tuple[float, float, tuple[str, str]]:
        errors = [
            (*error({a: data.K[a]}, {b: data.G[b]}, data.Y, test, setting, machine), (a, b))
            for a, b in pairs
        ]
        return min(errors)

    first = next(iter(data.G))
    _, _, (drugs, _) = least([(kernel, first) for kernel in data.K])
    return least([(drugs, kernel) for kernel in data.G])[1]


def main() -> None:
    """Run the units, append each to the results, and print means over the seeds."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--data", default="nr,gpcr,ic,davis,hummingbirds")
    reader.add_argument("--settings", default="A,B,C")
    reader.add_argument("--seeds", default="0,1,2,3,4")
    reader.add_argument("--device", help="device of torch to compute on, for instance cuda")
    reader.add_argument("--data-home")
    reader.add_argument("--cache")
    reader.add_argument("--out", type=Path, default=ROOT / "build" / "worth_learning.jsonl")
    reader.add_argument("--table", type=Path, help="print the table of such a file instead")
    options = reader.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    warnings.simplefilter("ignore")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    machine = Machine(options.device)
    lines = []
    for name in options.data.split(","):
        data = load(name, options.data_home, options.cache)
        for setting in options.settings.split(","):
            for seed in map(int, options.seeds.split(",")):
                test = test_part(data.Y, setting, seed)
                start = time.perf_counter()
                errors = {
                    "single": single(data, test, setting, machine),
                    "flat": error(data.K, data.G, data.Y, test, setting, machine, shrinkage=HELD)[
                        1
                    ],
                    "learned": error(data.K, data.G, data.Y, test, setting, machine)[1],
                }
                about = {
                    "data": name,
                    "setting": setting,
                    "seed": seed,
                    "date": date.today().isoformat(),
                }
                seconds = round(time.perf_counter() - start, 1)
                lines.append(
                    about | errors | {"seconds": seconds, "dyadlearn": dyadlearn.__version__}
                )
                with options.out.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


def table(lines: list[dict[str, Any]]) -> str:
    """Return a table of mean errors over the seeds, and how far learned is above the better of the others."""
    units = defaultdict(list)
    for line in lines:
        units[line["data"], line["setting"]].append(line)
    rows = [summary(*unit, units[unit]) for unit in sorted(units)]
    return "\n".join(
        [
            "| data | setting | single | flat | learned | difference |",
            "|---|---|--:|--:|--:|--:|",
            *rows,
        ]
    )


def summary(name: str, setting: str, lines: list[dict[str, Any]]) -> str:
    """Return a row of a table: mean errors, and how far learned is above the better of the others, ± standard error."""
    values = {way: np.array([line[way] for line in lines]) for way in WAYS}
    best = "flat" if values["flat"].mean() < values["single"].mean() else "single"
    gap = values["learned"] - values[best]
    spread = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else np.nan
    means = " | ".join(f"{values[way].mean():.4f}" for way in WAYS)
    return f"| {name} | {setting} | {means} | {gap.mean():+.4f} ± {spread:.4f} |"


if __name__ == "__main__":
    main()
