"""What a family of pair kernels costs beside Kronecker's alone, and what a free mean costs beside none.

    python benchmarks/pair_kernels.py [--data ../shared/data] [--quick] [--markdown]

The drug–target sets are read from the publisher's files; without them random grids of the same
shapes stand in. Every figure is a ratio of times within this run, but for the seconds of a thousand
points. `--quick` takes the ion channels instead of the enzymes, and fewer points.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from measuring import THREADS, in_turns, row, seconds, versions
from threadpoolctl import threadpool_limits

from dyadlearn.holdout import Problem
from dyadlearn.pairing import PairKernel
from dyadlearn.selection.landscape import landscape
from dyadlearn.spectrum import Spectrum
from holdout import load

ALPHAS = [10.0 ** (power / 2) for power in range(-10, 10)]
FEW = [10.0**power for power in range(-4, 5)]
# Fifty shares on the simplex, in tenths.
SHARES = [
    (a / 10, b / 10, (10 - a - b) / 10) for a, b in product(range(1, 11), range(11)) if a + b <= 10
][:50]
MEAN_TARGETS = {"A": 1.6, "B": 1.6, "C": 1.6, "D": 2.0}
FAMILY_TARGET = 1.3


def family(
    folder: Path, name: str, n_shares: int, *, free_mean: bool
) -> list[tuple[str, float, str]]:
    """Return the time of shares × regularisations beside as many of Kronecker's, setting B, squared error."""
    K, G, Y, kind = load(name, folder)
    spectra = [Spectrum.from_gram(kernel + free_mean) for kernel in (K, G)]

    def swept(shares: tuple[float, float, float]) -> None:
        problem = Problem.of(PairKernel(*spectra, 1.0, shares, free_mean), Y)
        landscape(
            problem,
            alphas=ALPHAS,
            task_alphas=None,
            setting="B",
            scoring="neg_mean_squared_error",
            progress=False,
        )

    swept((1.0, 0.0, 0.0))
    whole = 0.0
    product_alone = 0.0
    for shares in SHARES[
        :n_shares
    ]:  # in turns, so that the state of the machine touches both alike
        whole += seconds(lambda shares=shares: swept(shares))
        product_alone += seconds(lambda: swept((1.0, 0.0, 0.0)))
    n_points = n_shares * len(ALPHAS)
    word = "with a free mean" if free_mean else "without"
    title = f"{n_points} points on {name} ({Y.shape[0]} × {Y.shape[1]}, {kind}), B, {word}"
    print(row(title + ", seconds", whole, ""))
    line = (title + ", beside Kronecker's", whole / product_alone, f"<= {FAMILY_TARGET}")
    print(row(line[0], line[1], "target " + line[2]))
    return [line]


def means(folder: Path, name: str, settings: str, repeats: int) -> list[tuple[str, float, str]]:
    """Return the time of Kronecker landscapes with a free mean beside those without, on the same kernels."""
    K, G, Y, _ = load(name, folder)
    spectra = [Spectrum.from_gram(kernel + 1.0) for kernel in (K, G)]
    problems = [
        Problem.of(PairKernel(*spectra, 1.0, free_mean=free_mean), Y) for free_mean in (False, True)
    ]
    lines = []
    for setting, scoring in product(settings, ("neg_mean_squared_error", "r2")):
        works = [
            lambda problem=problem, asked=(setting, scoring): landscape(
                problem, asked[0], alphas=FEW, scoring=asked[1], progress=False
            )
            for problem in problems
        ]
        without, with_mean = in_turns(*works, repeats=repeats)
        title = f"a free mean on {name}, {setting}, {scoring}"
        lines.append((title, with_mean / without, f"<= {MEAN_TARGETS[setting]}"))
        print(row(title, lines[-1][1], "target " + lines[-1][2]))
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
    name, n_shares = ("ic", 10) if options.quick else ("e", 50)
    with threadpool_limits(THREADS):
        lines = [
            line
            for free in (False, True)
            for line in family(options.data, name, n_shares, free_mean=free)
        ]
        lines += means(options.data, name, "ABC", 3)
        lines += means(options.data, "gpcr" if options.quick else "ic", "D", 3)
    if options.markdown:
        print("\n| landscape | ratio | target |\n|---|---|---|")
        print("\n".join(f"| {title} | {ratio:.2f} | {target} |" for title, ratio, target in lines))
    print(versions())


if __name__ == "__main__":
    main()
