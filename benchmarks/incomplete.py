"""What labels with holes cost, on a grid of the size of KIBA.

A product of conjugate gradients against the two matrix products it contains; the deflated solver
against the plain one, set-up included, for smooth (RBF) and rough (Tanimoto-like) kernels and
several regularisations; and the peak of memory, counted in arrays of the size of the grid.

    python benchmarks/incomplete.py [--rows 2111] [--columns 229] [--observed 0.24] [--repeats 5]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from measuring import THREADS, in_turns, peak_bytes, row, seconds, versions
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from dyadlearn.filters import Tikhonov
from dyadlearn.kernels import tanimoto
from dyadlearn.pairing import Coupled, Kronecker, TwoStep
from dyadlearn.solve.missing import complete
from dyadlearn.spectrum import Spectrum

TARGET_PRODUCT = 1.3
TARGET_ITERATIONS = 1 / 8
TARGET_TIME = 1 / 2
TARGET_WORST = 1.2
TARGET_ARRAYS = 10.0
TOL = 1e-6


def rbf_side(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a smooth kernel of points in five dimensions."""
    return rbf_kernel(rng.standard_normal((size, 5)), gamma=0.1)


def rough_side(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a Tanimoto kernel of random fingerprints in families, with a slowly decaying spectrum."""
    families = rng.random((max(2, size // 20), 1024)) < 0.05
    bits = families[rng.integers(len(families), size=size)] ^ (rng.random((size, 1024)) < 0.02)
    return tanimoto(bits.astype(float))


def two_step(sides: tuple[Spectrum, Spectrum], alpha: float) -> TwoStep:
    """Return two-step ridge regression with one regularisation on both sides."""
    return TwoStep(*(side.smoother(Tikhonov(), alpha) for side in sides))


def compare(make: Callable[[], Coupled], Y: np.ndarray) -> tuple[float, float, int, int, float]:
    """Return iterations and time of the solver as it comes over those of the plain one."""

    def solve(rank: int | None) -> tuple[int, float, float]:
        operators = make()
        completions: list[object] = []
        time = seconds(
            lambda: completions.append(
                complete(operators, Y, rank=rank, max_direct=0, tol=TOL, max_iter=20_000)
            )
        )
        solution = completions[0].solution  # type: ignore[attr-defined]
        return solution.n_iter, time, solution.residual

    plain, plain_time, _ = solve(0)
    ours, our_time, residual = solve(None)
    return ours / plain, our_time / plain_time, ours, plain, residual


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2111, help="instances (default: 2111)")
    parser.add_argument("--columns", type=int, default=229, help="tasks (default: 229)")
    parser.add_argument(
        "--observed", type=float, default=0.24, help="share of observed cells (default: 0.24)"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="interleaved repeats of the products (default: 5)"
    )
    arguments = parser.parse_args()
    shape = (arguments.rows, arguments.columns)

    rng = np.random.default_rng(0)
    failed = False
    with threadpool_limits(THREADS):
        kernels = {
            kind: [make(size, rng) for size in shape]
            for kind, make in (("rbf", rbf_side), ("rough", rough_side))
        }
        sides = {
            kind: tuple(Spectrum.from_gram(kernel) for kernel in pair)
            for kind, pair in kernels.items()
        }
        Y = rng.standard_normal(shape)
        Y = kernels["rbf"][0] @ Y @ kernels["rbf"][1] / np.sqrt(Y.size) + 0.5 * rng.standard_normal(
            shape
        )
        Y[rng.random(shape) >= arguments.observed] = np.nan

        print(
            f"Grid of {shape[0]} × {shape[1]}, {np.mean(~np.isnan(Y)):.0%} observed, relative "
            f"residual {TOL:g}"
        )
        K, G = kernels["rbf"]
        operators = Kronecker(*sides["rbf"], 1e-2)
        observed = (~np.isnan(Y)).astype(float)
        grid = observed * rng.standard_normal(shape)
        ours, least = in_turns(
            lambda: observed * operators.kernel(observed * grid),
            lambda: K @ grid @ G,
            repeats=arguments.repeats,
        )
        print(
            row(
                "Kronecker product over its two dense GEMMs",
                ours / least,
                f"target <= {TARGET_PRODUCT}",
            )
        )
        failed |= ours / least > TARGET_PRODUCT
        pairs = two_step(sides["rbf"], 1e-2)
        missing = np.isnan(Y)
        ours, least = in_turns(
            lambda: np.where(missing, pairs.residual(grid), 0.0),
            lambda: K @ grid @ G,
            repeats=arguments.repeats,
        )
        print(
            row(
                "two-step product over its two dense GEMMs",
                ours / least,
                f"target <= {TARGET_PRODUCT}",
            )
        )
        failed |= ours / least > TARGET_PRODUCT

        print("  deflated over plain:                                        iterations    time")
        for kind, pair in sides.items():
            for alpha in (1e-2, 1e-1, 1.0, 10.0):
                for name, make in (
                    ("Kronecker", lambda pair=pair, alpha=alpha: Kronecker(*pair, alpha)),
                    ("two-step", lambda pair=pair, alpha=alpha: two_step(pair, alpha)),
                ):
                    fewer, faster, n_ours, n_plain, residual = compare(make, Y)
                    main_case = name == "Kronecker" and kind == "rbf" and alpha == 1e-2
                    if main_case:
                        target = f"<= {TARGET_ITERATIONS:.3f}, {TARGET_TIME}"
                    else:
                        target = f"time <= {TARGET_WORST}"
                    label = f"{name}, {kind}, λ = {alpha:g} ({n_plain} → {n_ours})"
                    print(
                        f"  {label:<58} {fewer:9.3f} {faster:8.2f}   {target}   residual "
                        f"{residual:.1e}",
                        flush=True,
                    )
                    failed |= faster > TARGET_WORST or (
                        main_case and (fewer > TARGET_ITERATIONS or faster > TARGET_TIME)
                    )

        for name, operators in (("Kronecker", Kronecker(*sides["rbf"], 1e-2)), ("two-step", pairs)):
            (
                operators.residual(grid),
                operators.kernel(grid),
            )  # the kernels themselves are not counted
            arrays = (
                peak_bytes(partial(complete, operators, Y, max_direct=0, max_iter=10)) / Y.nbytes
            )
            print(
                row(
                    f"{name}: peak memory beside the kernels, in grids",
                    arrays,
                    f"target <= {TARGET_ARRAYS:g}",
                )
            )
            failed |= arrays > TARGET_ARRAYS
    print(versions())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
