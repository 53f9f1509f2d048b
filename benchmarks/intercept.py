"""What an intercept costs: landscapes with a constant on each side beside those without.

    python benchmarks/intercept.py [--data ../shared/data] [--quick] [--markdown]

The drug–target sets are read from the publisher's files; without them random grids of the same
shapes stand in. Every figure is a ratio of times within this run. `--quick` takes the ion channels
instead of the enzymes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from measuring import THREADS, in_turns, row, versions
from threadpoolctl import threadpool_limits

from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.pairing import Independent, TwoStep
from dyadlearn.selection.landscape import landscape
from dyadlearn.spectrum import Spectrum
from holdout import load

ALPHAS = [10.0**power for power in range(-7, 7)]
TARGET = 1.15


def measured(folder: Path, name: str, repeats: int) -> list[tuple[str, float, str]]:
    """Return the ratio of times of each landscape."""
    K, G, Y, kind = load(name, folder)
    rows = {}
    lines = []
    for constant in (None, "free"):
        sides = [
            Spectrum.from_gram(kernel, constant=constant).smoother(Tikhonov(), 1.0)
            for kernel in (K, G)
        ]
        rows[constant] = {
            "two-step": Problem.of(TwoStep(*sides), Y),
            "independent": Problem.of(Independent(sides[0]), Y),
        }
    print(
        f"Landscapes on {name} ({Y.shape[0]} × {Y.shape[1]}, {kind}): time with constants over "
        f"time without"
    )
    for model, settings in (("two-step", "ABCD"), ("independent", "B")):
        for setting in settings:
            for scoring in ("neg_mean_squared_error", "r2"):

                def swept(
                    constant: str | None,
                    model: str = model,
                    asked_for: tuple[str, str] = (setting, scoring),
                ) -> None:
                    asked = {"setting": asked_for[0], "scoring": asked_for[1], "progress": False}
                    landscape(rows[constant][model], alphas=ALPHAS, task_alphas=ALPHAS, **asked)

                without, with_constant = in_turns(
                    lambda: swept(None), lambda: swept("free"), repeats=repeats
                )
                line = (f"{model} {setting}, {scoring}", with_constant / without, f"<= {TARGET}")
                lines.append(line)
                print(row(line[0], line[1], "target " + line[2]))
    return lines


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(THREADS):
        lines = measured(options.data, "ic" if options.quick else "e", 3 if options.quick else 5)
    if options.markdown:
        print("\n| landscape | with / without | target |\n|---|---|---|")
        print("\n".join(f"| {name} | {ratio:.2f} | {target} |" for name, ratio, target in lines))
    print(versions())


if __name__ == "__main__":
    main()
