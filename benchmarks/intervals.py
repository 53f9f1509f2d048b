"""What intervals cost: beside predictions, and beside the models that they do without fitting.

    python benchmarks/intervals.py [--data ../shared/data/yamanishi2008] [--quick] [--markdown]

Half of the targets and drugs of the enzymes (with `--quick`, of the ion channels) are asked about,
the other half are learnt; without the publisher's files random grids of the same shapes stand in.
Every figure is a ratio of times within this run: intervals, with their hold-out, beside the fit of
the model with its predictions; and for new instances beside fitting again without each row, as a
jackknife+ by hand does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from measuring import THREADS, in_turns, row, versions
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from dyadlearn import KroneckerRidge, TwoStepRidge
from holdout import load

KERNELS: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
MODELS = {
    "two-step": TwoStepRidge(0.1, 0.1, **KERNELS),
    "Kronecker": KroneckerRidge(0.1, **KERNELS),
}


def measured(folder: Path, name: str) -> list[tuple[str, float]]:
    """Return the ratios."""
    K, G, Y, kind = load(name, folder)
    m, q = (size // 2 for size in Y.shape)
    X = K[m:, :m]
    T = G[q:, :q]
    labels = Y[:m, :q]
    print(
        f"Intervals for {len(X)} instances and {len(T)} tasks beside {m} × {q} labels ({name}, "
        f"{kind})"
    )
    asked = {"A": (None, None), "B": (X, None), "C": (None, T), "D": (X, T)}
    ratios = []
    for word, model in MODELS.items():

        def fitted(model: Any = model) -> Any:
            return clone(model).fit(K[:m, :m], labels, tasks=G[:q, :q])

        for setting, arguments in asked.items():
            base, both = in_turns(
                lambda arguments=arguments: fitted().predict(*arguments),
                lambda arguments=arguments: fitted().predict_interval(*arguments),
                repeats=3,
            )
            ratios.append((f"{word} {setting}: fit and interval / fit and prediction", both / base))
            print(row(*ratios[-1], ""))

        def by_hand(model: Any = model) -> None:
            for i in range(m):
                kept = np.delete(np.arange(m), i)
                again = clone(model).fit(K[np.ix_(kept, kept)], labels[kept], tasks=G[:q, :q])
                again.predict(K[m:, kept])

        quick, slow = in_turns(lambda: fitted().predict_interval(X), by_hand, repeats=1)
        ratios.append((f"{word} B: a model without each row, fitted / intervals", slow / quick))
        print(row(*ratios[-1], ""))
    return ratios


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/yamanishi2008"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(THREADS):
        ratios = measured(options.data, "ic" if options.quick else "e")
    if options.markdown:
        print("\n| | ratio |\n|---|--:|")
        print("\n".join(f"| {name} | {ratio:.1f} |" for name, ratio in ratios))
    print(versions())


if __name__ == "__main__":
    main()
