"""Five variances by restricted likelihood and exact hold-out, for labels of cells of three sides.

    python benchmarks/multiway.py [--sizes 1000 4800] [--device cuda]

Mothers, fathers and environments with kernels, three main effects and two interactions. The targets
are seconds on two cores; 20,000 labels are for a GPU.
"""

from __future__ import annotations

import argparse
import os
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np
from measuring import row, seconds, versions

from dyadlearn import MultiwayRidge

TERMS = "mother + father + environment + mother:father + mother:environment"
LEVELS = {"mother": 60, "father": 60, "environment": 20}
#: Seconds on two cores that the likelihood may take, by the number of labels.
TARGETS = {1000: "≤ 20 s", 4800: "≤ 180 s"}
NEW = ((), ("mother",), ("mother", "father"), tuple(LEVELS))


def simulated(n: int, seed: int = 0) -> tuple[dict, np.ndarray, dict]:
    """Return a table of cells, labels with all effects, and the kernel of each side."""
    rng = np.random.default_rng(seed)
    features = {name: rng.normal(size=(size, 2 * size)) for name, size in LEVELS.items()}
    kernels = {name: rows @ rows.T / rows.shape[1] for name, rows in features.items()}
    roots = {name: np.linalg.cholesky(kernel) for name, kernel in kernels.items()}
    table = {name: rng.integers(0, size, n) for name, size in LEVELS.items()}
    y = rng.normal(size=n)
    for name, at in table.items():
        y += (roots[name] @ rng.normal(size=LEVELS[name]))[at]
    for other in ("father", "environment"):
        both = roots["mother"] @ rng.normal(size=(60, LEVELS[other])) @ roots[other].T
        y += 0.6 * both[table["mother"], table[other]]
    return table, y, kernels


def main() -> None:
    """Print the time of the likelihood and of each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4800])
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    print(versions())
    for n in options.sizes:
        table, y, kernels = simulated(n)
        model = MultiwayRidge(
            TERMS,
            entities=kernels,
            kernels=dict.fromkeys(kernels, "precomputed"),
            device=options.device,
        )
        taken = seconds(partial(model.fit, table, y))
        print(row(f"{n:,} labels: six variances by likelihood", taken, TARGETS.get(n, "")))
        for new in NEW:
            taken = seconds(partial(model.holdout, new))
            words = " + ".join(new) or "each cell"
            print(row(f"{n:,} labels: hold-out of {words}", taken, ""))
        print(f"  { ({name: round(variance, 2) for name, variance in model.variances_.items()}) }")


if __name__ == "__main__":
    main()
