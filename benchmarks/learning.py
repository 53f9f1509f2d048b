"""What a step of learning kernels costs: the gradient of the hold-out error beside the error, and beside its products.

    python benchmarks/learning.py [--repeats 3]

Synthetic sides with five kernels each; every figure is a ratio of times within this run. An error
and its gradient in closed form (A, B: 200 × 150) stand beside the products that they are made of
and beside differences, which take two errors for each parameter. The gradient by folds (600 × 200,
a quarter observed) stands beside the error of the same fold, one solve from nothing, and an
iteration of its solver beside two products.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from measuring import THREADS, in_turns, row, versions
from threadpoolctl import threadpool_limits

from dyadlearn.learning.error import ExactError, FoldError, Targets
from dyadlearn.learning.mixture import Mixture, Parameters
from dyadlearn.learning.operator import CellSet, PairOperator
from dyadlearn.settings import Setting

N_KERNELS = 5


def side(n: int, rng: np.random.Generator, dtype: type) -> Mixture:
    """Return kernels of one side."""
    grams = []
    for _ in range(N_KERNELS):
        X = rng.normal(size=(n, 4))
        squares = ((X[:, None] - X) ** 2).sum(axis=2)
        grams.append(np.exp(-squares / squares.mean()).astype(dtype))
    return Mixture(grams, [True] * N_KERNELS, True, [True] * N_KERNELS)


def exact(setting: str, repeats: int) -> list[tuple[str, float, str]]:
    """Return how the closed form compares."""
    rng = np.random.default_rng(0)
    m, q = (200, 150)
    sides = [side(n, rng, np.float64) for n in (m, q)]
    cells = CellSet.of(np.ones((m, q), dtype=bool), np.zeros(0))
    ones = np.ones(m * q)
    error = ExactError(
        Targets(rng.normal(size=m * q), ones, None, "grand", cells), sides, Setting(setting)
    )
    at = Parameters.start(sides)
    K, G = rng.normal(size=(m, m)), rng.normal(size=(q, q if setting == "A" else m))

    def products() -> None:
        # Of the contraction over what is left out, cells or rows: an (m, m) for each column, a (q,
        # q) for each row.
        for _ in range(q):
            K @ K
        for _ in range(m):
            G @ G.T

    slope, loss, limit = in_turns(
        lambda: error.slope(at), lambda: error.evaluate(at), products, repeats=repeats
    )
    return [
        (f"closed form {setting}: gradient over its products", slope / limit, "<= 3"),
        (
            f"closed form {setting}: differences over gradient",
            2 * len(at.vector) * loss / slope,
            ">= 3",
        ),
    ]


def folds(repeats: int) -> list[tuple[str, float, str]]:
    """Return how the gradient by one more solve compares."""
    rng = np.random.default_rng(0)
    m, q = (600, 200)
    sides = [side(n, rng, np.float32) for n in (m, q)]
    observed = rng.random((m, q)) < 0.25
    test = observed & (rng.random((m, q)) < 0.2)
    cells = CellSet.of(observed, np.zeros(0, dtype=np.float32))
    n = len(cells.rows)
    labels = Targets(
        rng.normal(size=n).astype(np.float32), np.ones(n, dtype=np.float32), None, "grand", cells
    )
    folds_error = FoldError.of(labels, sides, [(observed & ~test, test)])
    at = Parameters.start(sides)

    def fresh() -> FoldError:
        return replace(folds_error, _ends={})

    operator = PairOperator.of(sides, at, cells)
    values = labels.values[None, :]
    X = cells.grid(values)[0]
    slope, loss, once, two = in_turns(
        lambda: fresh().slope(at),
        lambda: fresh().evaluate(at),
        lambda: operator(values),
        lambda: operator.sides[0].kernel @ (X @ operator.sides[1].kernel),
        repeats=repeats,
    )
    return [
        ("folds: error and gradient over the error alone", slope / loss, "<= 4"),
        ("folds: differences over error and gradient", 2 * len(at.vector) * loss / slope, ">= 5"),
        ("folds: the pair kernel over two products", once / two, "<= 2"),
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with threadpool_limits(THREADS):
        for figures in (
            exact("A", options.repeats),
            exact("B", options.repeats),
            folds(options.repeats),
        ):
            for name, value, target in figures:
                print(row(name, value, "target " + target), flush=True)
    print(versions())


if __name__ == "__main__":
    main()
