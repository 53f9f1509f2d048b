"""What exact hold-out predictions cost: beside the matrix products they are made of, and beside refitting.

    python benchmarks/holdout.py [--size 1000] [--data ../shared/data/yamanishi2008] [--all]

The drug–target sets are read from the publisher's files; without them a random grid of the same
shape stands in. `--all` adds the enzyme set (664 × 445), about a minute.
"""

from __future__ import annotations

import argparse
import gzip
import time
from pathlib import Path

import numpy as np
from measuring import THREADS, in_turns, peak_bytes, row, seconds, versions
from threadpoolctl import threadpool_limits

from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem, holdout
from dyadlearn.kernels import repair
from dyadlearn.labels import fisher_relabel
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.pairing.new_both import new_both
from dyadlearn.spectrum import Spectrum

ALPHAS = [10.0**power for power in range(-7, 7)]
SHAPES = {"nr": (26, 54), "gpcr": (95, 223), "ic": (204, 210), "e": (664, 445)}


def random_kernel(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random positive definite kernel (size, size)."""
    features = rng.standard_normal((size, size))
    return features @ features.T / size


def read_table(path: Path) -> np.ndarray:
    """Return the numbers of a tab-separated table with a line and a column of names."""
    with gzip.open(path, "rt") as lines:
        next(lines)
        return np.array([[float(cell) for cell in line.split("\t")[1:]] for line in lines])


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Return K, G, Y of a drug–target set, or a random grid of its shape, and which it is."""
    if (folder / f"{name}_admat_dgc.txt.gz").exists():
        parts = [
            read_table(folder / f"{name}_{part}.txt.gz")
            for part in ("simmat_dg", "simmat_dc", "admat_dgc")
        ]
        return repair(parts[0]), repair(parts[1]), fisher_relabel(parts[2]), "real"
    rng = np.random.default_rng(0)
    m, q = SHAPES[name]
    return (
        random_kernel(m, rng),
        random_kernel(q, rng),
        (rng.random((m, q)) < 0.05).astype(float),
        "random, of that shape",
    )


def measure_products(size: int) -> None:
    """Print each setting's time over the time of its matrix products, m = q = size."""
    rng = np.random.default_rng(0)
    K = random_kernel(size, rng)
    G = random_kernel(size, rng)
    Y = rng.standard_normal((size, size))
    spectrum = Spectrum.from_gram(K)
    task_spectrum = Spectrum.from_gram(G)
    U = spectrum.vectors
    V = task_spectrum.vectors
    print(f"One regularisation, m = q = {size}: time over that of the matrix products alone")
    two_step = TwoStep(spectrum.smoother(Tikhonov(), 0.5), task_spectrum.smoother(Tikhonov(), 0.5))
    kronecker = Kronecker(spectrum, task_spectrum, 0.5)
    for name, pairing, products in (
        ("two-step", two_step, {"B": 4, "C": 4, "D": 4}),
        ("Kronecker", kronecker, {"A": 6, "B": 5, "C": 5}),
    ):
        problem = Problem.of(pairing, Y)
        for setting, count in products.items():
            ours, one = in_turns(
                lambda problem=problem, setting=setting: holdout(problem, setting),
                lambda count=count: [(U if k % 2 else V) @ Y for k in range(count)],
            )
            print(row(f"{name} {setting} ({count} products)", ours / one, "target <= 1.5"))


def refit_pairs(
    K: np.ndarray, G: np.ndarray, Y: np.ndarray, pairs: np.ndarray, *, rotate_once: bool
) -> float:
    """Refit Kronecker ridge without each pair's instance and task, for all of `ALPHAS`; return the seconds.

    One eigendecomposition per pair and side; Y is rotated once for all regularisations or for each.
    """
    start = time.perf_counter()
    for i, j in pairs:
        rows = np.delete(np.arange(len(K)), i)
        columns = np.delete(np.arange(len(G)), j)
        sigma, U = np.linalg.eigh(K[np.ix_(rows, rows)])
        s, V = np.linalg.eigh(G[np.ix_(columns, columns)])
        labels = Y[np.ix_(rows, columns)]
        rotated = U.T @ labels @ V
        left = K[i, rows] @ U
        right = V.T @ G[columns, j]
        for alpha in ALPHAS:
            if not rotate_once:
                rotated = U.T @ labels @ V
            left @ (rotated / (np.outer(sigma, s) + alpha)) @ right
    return time.perf_counter() - start


def measure_kronecker_d(name: str, folder: Path, sample: int) -> None:
    """Print the time of setting D over 14 regularisations beside refitting every pair."""
    K, G, Y, kind = load(name, folder)
    m, q = Y.shape
    spectrum, task_spectrum = Spectrum.from_gram(K), Spectrum.from_gram(G)

    model = Kronecker(spectrum, task_spectrum, 1.0)

    def ours() -> object:
        return new_both(model, Y[None, ...], ALPHAS)

    ours_seconds = min(seconds(ours) for _ in range(3 if m * q < 100_000 else 1))
    limit = 4 * (max(m, q) ** 2 * min(m, q)) * min(m, q) * len(ALPHAS)
    A, B = np.random.default_rng(0).standard_normal((2, max(m, q), max(m, q)))
    gemm = in_turns(lambda: A @ B[:, : min(m, q)])[0] / (2 * max(m, q) ** 2 * min(m, q))
    print(f"Kronecker D on {name} ({m} × {q}, {kind}), {len(ALPHAS)} regularisations")
    print(row("seconds", ours_seconds, ""))
    print(
        row("over the time of its matrix products", ours_seconds / (limit * gemm), "target <= 1.8")
    )
    pairs = np.random.default_rng(0).integers((0, 0), (m, q), size=(sample, 2))
    for rotate_once, target in ((True, 150), (False, 350)):
        refits = refit_pairs(K, G, Y, pairs, rotate_once=rotate_once) * m * q / sample
        what = "one rotation for all λ" if rotate_once else "a rotation for each λ"
        wanted = f"target >= {target}" if name == "gpcr" else ""
        print(
            row(
                f"faster than refitting, {what} ({sample} pairs, extrapolated)",
                refits / ours_seconds,
                wanted,
            )
        )


def measure_memory() -> None:
    """Print what Kronecker D takes beside its result and the spectra, on a random grid of the enzyme set's shape."""
    rng = np.random.default_rng(0)
    m, q = SHAPES["e"]
    Y = rng.standard_normal((m, q))
    spectrum, task_spectrum = (
        Spectrum.from_gram(random_kernel(m, rng)),
        Spectrum.from_gram(random_kernel(q, rng)),
    )
    # Squared eigenvectors, one kernel, and for each thread a kernel without a task and its
    # eigenvectors, twice.
    spectra = 8 * (m * m + q * q * (1 + 3 * THREADS))
    print(f"Kronecker D on a grid of {m} × {q}: peak memory beside its result and the spectra")
    model = Kronecker(spectrum, task_spectrum, 1.0)
    for alphas in (ALPHAS[:1], ALPHAS[::4]):
        peak = peak_bytes(lambda alphas=alphas: new_both(model, Y[None, ...], alphas))
        extra = peak - spectra - len(alphas) * Y.nbytes
        print(
            row(
                f"arrays of the grid's size, {len(alphas)} regularisation(s)",
                extra / Y.nbytes,
                "target <= 8",
            )
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/yamanishi2008"))
    parser.add_argument("--all", action="store_true", help="the enzyme set too")
    parser.add_argument("--sample", type=int, default=40, help="pairs to refit (default: 40)")
    arguments = parser.parse_args()
    with threadpool_limits(THREADS):
        measure_products(arguments.size)
        for name in ("gpcr", "ic", *(["e"] if arguments.all else [])):
            measure_kronecker_d(name, arguments.data, arguments.sample)
        measure_memory()
    print(versions())


if __name__ == "__main__":
    main()
