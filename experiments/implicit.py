"""Which movies a user rated, as a description: kernels of the observed cells of ratings.

    python experiments/implicit.py [--data douban] [--candidates graph,cosine] [--steps 60] [--stages 2] [--choose-only]
        [--cache FOLDER] [--json FILE]

The kernels compare the sets of movies that users rated, and the sets of users that rated movies,
whatever the ratings. They come from training cells alone. Each candidate is a list of kernels per
side. Candidates are compared by the root mean squared error of a tenth of the training ratings, which
neither kernels nor learning have seen. Then the best one is learned from all training ratings, and the
published test part is used once. A single candidate is tested without a comparison.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from records import BENCHMARKS, Machine, choices, described
from records_data import Data, whole
from records_table import STEPS

from dyadlearn import LearnedKernelRidge
from dyadlearn._array import to_numpy
from dyadlearn.kernels import gram
from dyadlearn.metrics import root_mean_squared_error

#: One of so many parts of the training ratings is held out to compare candidates.
PARTS = 10
RATINGS = (1.0, 5.0)

Kernel = Callable[[np.ndarray], np.ndarray]


def cosine(sets: np.ndarray) -> np.ndarray:
    """Return the cosines of 0/1 rows (n, d)."""
    return whole(gram(sets, kernel="cosine"))


def tanimoto(sets: np.ndarray) -> np.ndarray:
    """Return the number of shared members of 0/1 rows (n, d), relative to that of all members of both."""
    return whole(gram(sets, kernel="tanimoto"))


def rare(sets: np.ndarray) -> np.ndarray:
    """Return the cosines of 0/1 rows (n, d), in which rare members count more."""
    weights = np.log(len(sets) / np.maximum(sets.sum(axis=0), 1.0))
    return whole(gram(sets * np.sqrt(weights), kernel="cosine"))


def size(sets: np.ndarray) -> np.ndarray:
    """Return an RBF kernel of the logarithms of the sizes of 0/1 rows (n, d)."""
    logs = np.log1p(sets.sum(axis=1))
    squares = (logs[:, None] - logs) ** 2
    mean = squares.mean()
    return np.exp(-squares / mean) if mean > 0 else np.ones_like(squares)


#: Heat kernels of the graph that are used: few, because each takes time in every step.
HEAT = ("heat0.5, normalised", "heat2, normalised")
#: Kernels of sets, by name.
KERNELS: dict[str, Kernel] = {
    "cosine": cosine,
    "tanimoto": tanimoto,
    "rare": rare,
    "size": size,
}
#: Kernels of sets that each candidate has on both sides, besides those of the graph.
CANDIDATES: dict[str, tuple[str, ...]] = {
    "graph": (),
    "cosine": ("cosine",),
    "cosine and size": ("cosine", "size"),
    "rare and size": ("rare", "size"),
    "all": tuple(KERNELS),
}


def joined(data: Data, Y: np.ndarray, names: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the kernels of users and movies: of the graphs, of the observed cells of Y, and identity."""
    observed = np.isfinite(Y).astype(np.float64)
    sides = []
    for given, sets in ((data.K, observed), (data.G, observed.T)):
        kernels = {name: kernel for name, kernel in given.items() if name in HEAT}
        kernels |= {f"rated: {name}": KERNELS[name](sets) for name in names}
        if names:
            kernels["identity"] = np.eye(len(sets))
        sides.append(described(kernels, len(sets), Machine()))
    return sides[0], sides[1]


def held_out(Y: np.ndarray) -> np.ndarray:
    """Return which observed cells (m, q) are a tenth, drawn at random."""
    part = np.full(Y.shape, -1)
    observed = np.isfinite(Y)
    part[observed] = np.random.default_rng(0).permutation(int(observed.sum())) % PARTS
    return part == 0


def learned(
    data: Data, Y: np.ndarray, names: tuple[str, ...], parameters: Mapping[str, int]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the predictions (m, q) of a candidate that learned from Y, within the range of ratings."""
    users, movies = joined(data, Y, names)
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    model = LearnedKernelRidge(setting="A", **kernels, **parameters)
    start = time.perf_counter()
    model.fit(users, Y, tasks=movies)
    about = {
        "seconds": round(time.perf_counter() - start, 1),
        "stage_errors": model.stage_errors_,
        "stages": model.n_stages_,
        "weights": model.weights_,
        "shares": model.shares_,
    }
    return np.clip(to_numpy(model.predict()), *RATINGS), about


def compared(
    data: Data, names: list[str], parameters: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """Return the error of each candidate for held-out training ratings, and what it learned."""
    out = held_out(data.Y)
    truth = np.where(out, data.Y, np.nan)
    rows = {}
    for name in names:
        rest = np.where(out, np.nan, data.Y)
        F, about = learned(data, rest, CANDIDATES[name], parameters)
        rows[name] = {"nested": float(root_mean_squared_error(truth, F)), **about}
        print(f"{name}: nested RMSE {rows[name]['nested']:.4f}, {about['seconds']} s", flush=True)
    return rows


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--data", choices=("douban", "flixster"), default="douban")
    known = list(CANDIDATES)
    reader.add_argument(
        "--candidates", type=choices(known), default=known, help=f"some of {','.join(known)}"
    )
    reader.add_argument("--steps", type=int, default=STEPS, help="of each stage")
    reader.add_argument("--stages", type=int, default=2)
    reader.add_argument("--choose-only", action="store_true", help="do not use the test part")
    reader.add_argument("--cache", help="folder in which kernels are stored")
    reader.add_argument("--json", type=Path, help="file to write the figures to")
    return reader


def main() -> None:
    """Compare candidates within the training ratings, and test the best one."""
    options = parser().parse_args()
    parameters = {"n_steps": options.steps, "stages": options.stages}
    data = BENCHMARKS[options.data].load(None, options.cache)
    assert data.Y_test is not None
    if len(options.candidates) > 1 or options.choose_only:
        rows = compared(data, options.candidates, parameters)
        best = min(rows, key=lambda name: rows[name]["nested"])
    else:
        [best] = options.candidates
        rows = {best: {}}
    if not options.choose_only:
        F, about = learned(data, data.Y, CANDIDATES[best], parameters)
        test = float(root_mean_squared_error(data.Y_test, F))
        rows[best]["test"] = {"RMSE": test, **about}
        print(f"{best}: test RMSE {test:.4f}, {about['seconds']} s")
    versions = {name: version(name) for name in ("dyadlearn", "numpy", "scipy")}
    named = ", ".join(" ".join(pair) for pair in versions.items())
    print(f"{datetime.date.today()}, {named}, Python {platform.python_version()}.")
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
