"""What permutation tests cost: 1,000 permutations of the labels beside a landscape of 196 points in the same setting.

    python benchmarks/permutation.py [--data ../shared/data/yamanishi2008] [--quick] [--markdown]

The ion channels are read from the publisher's files; without them a random grid of the same shape
stands in. Every figure is a ratio of times within this run. Kronecker ridge regression has one
regularisation, of which 196 values are tried. Setting D of it takes minutes for a few values of λ:
it is measured with fewer of both and brought to 196 and to 1,000; `--quick` leaves it out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from measuring import THREADS, in_turns, row, versions
from threadpoolctl import threadpool_limits

from dyadlearn import KroneckerRidge, TwoStepRidge, landscape, permutation_test
from holdout import load

ALPHAS = [10.0**power for power in range(-7, 7)]
MANY_ALPHAS = np.geomspace(1e-7, 1e6, 196).tolist()
TARGET = "<= 30"
N_PERMUTATIONS = 1000


def measured(folder: Path, repeats: int, quick: bool) -> list[tuple[str, float, str]]:
    """Return the ratio of each model and setting."""
    K, G, Y, kind = load("ic", folder)
    print(
        f"1,000 permutations on ic ({Y.shape[0]} × {Y.shape[1]}, {kind}) over a landscape of 196 "
        f"points, by roc_auc"
    )
    lines = []
    models: list[tuple[str, Any, tuple[Any, Any]]] = [
        (
            "two-step",
            TwoStepRidge(kernel="precomputed", task_kernel="precomputed"),
            (ALPHAS, ALPHAS),
        ),
        (
            "Kronecker",
            KroneckerRidge(kernel="precomputed", task_kernel="precomputed"),
            (MANY_ALPHAS, None),
        ),
    ]
    for name, model, grids in models:
        model.fit(K, Y, tasks=G)
        for setting in "ABCD":
            is_slow = name == "Kronecker" and setting == "D"
            if is_slow and quick:
                continue
            if is_slow:
                few, n_permutations = (MANY_ALPHAS[::28], 20)
            else:
                few, n_permutations = (grids[0], N_PERMUTATIONS)

            def swept(
                model: Any = model, setting: str = setting, alphas: Any = few, tasks: Any = grids[1]
            ) -> None:
                landscape(
                    model,
                    alphas=alphas,
                    task_alphas=tasks,
                    setting=setting,
                    scoring="roc_auc",
                    progress=False,
                )

            def permuted(
                model: Any = model, setting: str = setting, n: int = n_permutations
            ) -> None:
                permutation_test(
                    model,
                    setting,
                    n_permutations=n,
                    scoring="roc_auc",
                    random_state=0,
                    progress=False,
                )

            points, tests = in_turns(swept, permuted, repeats=1 if is_slow else repeats)
            ratio = (tests / n_permutations) / (points / len(few)) * N_PERMUTATIONS / len(grids[0])
            lines.append((f"{name} {setting}", ratio, TARGET))
            print(row(*lines[-1][:2], "target " + TARGET), flush=True)
    return lines


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/yamanishi2008"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="leave out setting D of Kronecker ridge regression"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of the documentation as well"
    )
    options = parser.parse_args()
    with threadpool_limits(THREADS):
        lines = measured(options.data, options.repeats, options.quick)
    print(versions())
    if options.markdown:
        print("\n| what | measured | asked for |\n|---|---|---|")
        for name, value, target in lines:
            print(f"| {name} | {value:.1f} | {target.replace('<=', '≤')} |")


if __name__ == "__main__":
    main()
