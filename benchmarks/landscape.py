"""What model selection costs: beside the loop a user writes today, and beside the matrix products it is made of.

    python benchmarks/landscape.py [--data ../shared/data] [--quick] [--markdown]

The drug–target sets are read from the publisher's files; without them random grids of the same
shapes stand in. Every figure is a ratio of times within this run. `--quick` leaves out the enzyme
set; `--markdown` prints the table of the README.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measuring import THREADS, in_turns, row, seconds, versions
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.selection.landscape import landscape
from dyadlearn.spectrum import Spectrum
from holdout import load

ALPHAS = [10.0**power for power in range(-7, 7)]
Score = Callable[[np.ndarray, np.ndarray, str], float]


def sklearn_auc(Y: np.ndarray, F: np.ndarray, setting: str) -> float:
    """Return the AUC as scikit-learn computes it: over all cells (A, D), per row (B) or per column (C)."""
    if setting in "AD":
        return float(roc_auc_score(Y.ravel(), F.ravel()))
    if setting == "C":
        Y = Y.T
        F = F.T
    return float(
        np.mean([roc_auc_score(y, f) for y, f in zip(Y, F, strict=True) if 0 < y.sum() < y.size])
    )


def rank_auc(Y: np.ndarray, F: np.ndarray, setting: str) -> float:
    """Return the same AUC from `scipy.stats.rankdata` along an axis."""
    if setting in "AD":
        Y = Y.reshape(1, -1)
        F = F.reshape(1, -1)
    elif setting == "C":
        Y = Y.T
        F = F.T
    positives = Y.sum(axis=1)
    defined = (positives > 0) & (positives < Y.shape[1])
    ranks = (rankdata(F[defined], axis=1) * Y[defined]).sum(axis=1)
    n = positives[defined]
    return float(np.mean((ranks - n * (n + 1) / 2) / (n * (Y.shape[1] - n))))


def user_loop(
    K: np.ndarray,
    G: np.ndarray,
    Y: np.ndarray,
    setting: str,
    score: Score,
    points: int | None = None,
) -> np.ndarray:
    """Return the landscape as a user writes it today: hat matrices once for each λ, then every grid point.

    With `points`, only the first so many rows of λ_d are computed.
    """
    sigma, U = np.linalg.eigh(K)
    s, V = np.linalg.eigh(G)
    hats = [(U * (sigma / (sigma + alpha))) @ U.T for alpha in ALPHAS]
    task_hats = [(V * (s / (s + alpha))) @ V.T for alpha in ALPHAS]
    labels = (Y > 0).astype(float)
    result = np.empty((len(hats) if points is None else points, len(task_hats)))
    for i, H in enumerate(hats[: len(result)]):
        h = np.diag(H)[:, None]
        for j, T in enumerate(task_hats):
            t = np.diag(T)[None, :]
            fitted = H @ Y @ T
            if setting == "A":
                F = (fitted - h * t * Y) / (1 - h * t)
            elif setting == "B":
                F = (fitted - h * (Y @ T)) / (1 - h)
            elif setting == "C":
                F = (fitted - (H @ Y) * t) / (1 - t)
            else:
                F = (fitted - h * (Y @ T) - (H @ Y) * t + h * Y * t) / ((1 - h) * (1 - t))
            result[i, j] = score(labels, F, setting)
    return result


def two_step(K: np.ndarray, G: np.ndarray, Y: np.ndarray) -> Problem:
    """Decompose both kernels for two-step ridge regression."""
    rows, columns = (Spectrum.from_gram(kernel).smoother(Tikhonov(), 1.0) for kernel in (K, G))
    return Problem.of(TwoStep(rows, columns), Y)


def against_the_loop(folder: Path, rows: list[tuple[str, float, str]]) -> None:
    """Measure the 196 points on ic beside the two loops."""
    K, G, Y, kind = load("ic", folder)
    print(f"196-point AUC landscape on ic ({Y.shape[0]} × {Y.shape[1]}, {kind}): times faster")
    for setting in "ABCD":
        points = 14 if setting in "AD" else 2

        def ours(setting: str = setting) -> object:
            return landscape(
                two_step(K, G, Y),
                alphas=ALPHAS,
                task_alphas=ALPHAS,
                setting=setting,
                scoring="roc_auc",
                progress=False,
            )

        time = in_turns(ours, repeats=3)[0]
        for score, name, targets in (
            (sklearn_auc, "roc_auc_score", (8, 150)),
            (rank_auc, "rankdata", (3, 2)),
        ):
            few = points if score is sklearn_auc else 14
            loop = seconds(
                lambda setting=setting, score=score, few=few: user_loop(
                    K, G, Y, setting, score, few
                )
            )
            target = targets[0] if setting in "AD" else targets[1]
            line = (f"{setting}: than the loop with {name}", loop * 14 / few / time, f">= {target}")
            rows.append(line)
            print(row(line[0], line[1], "target " + line[2]))


def against_the_limit(folder: Path, rows: list[tuple[str, float, str]], repeats: int) -> None:
    """Measure landscapes on e beside their matrix products."""
    K, G, Y, kind = load("e", folder)
    problem = two_step(K, G, Y)
    m, q = Y.shape
    operator = np.random.default_rng(0).standard_normal((q, q))
    print(
        f"196-point landscapes on e ({m} × {q}, {kind}), over the time of 196 products of m × q by "
        f"q × q"
    )

    def products() -> None:
        for _ in range(196):
            Y @ operator

    def run(settings: str, scoring: str) -> Callable[[], object]:
        return lambda: landscape(
            problem,
            alphas=ALPHAS,
            task_alphas=ALPHAS,
            setting=settings,
            scoring=scoring,
            progress=False,
        )

    names = ["A", "B", "C", "D", "ABCD"]
    limit, *times = in_turns(products, *(run(name, "roc_auc") for name in names), repeats=repeats)
    for name, time in zip(names[:4], times[:4], strict=True):
        rows.append((f"{name}: AUC landscape over its products", time / limit, "<= 3"))
    rows.append(
        ("A to D together over the sum of the four alone", times[4] / sum(times[:4]), "<= 0.75")
    )
    limit, *times = in_turns(
        products, *(run(name, "neg_mean_squared_error") for name in "BCD"), repeats=repeats
    )
    for name, time in zip("BCD", times, strict=True):
        rows.append((f"{name}: squared-error landscape over the products", time / limit, "<= 0.5"))
    for name, value, target in rows[-8:]:
        print(row(name, value, "target " + target))


def kronecker_d(folder: Path, rows: list[tuple[str, float, str]]) -> None:
    """Measure Kronecker D on e, 14 values, beside its products."""
    K, G, Y, kind = load("e", folder)
    problem = Problem.of(Kronecker(Spectrum.from_gram(K), Spectrum.from_gram(G), 1.0), Y)
    n = max(Y.shape)
    k = min(Y.shape)
    A, B = np.random.default_rng(0).standard_normal((2, n, n))
    one = in_turns(lambda: A @ B[:, :k], repeats=15)[0]
    time = seconds(
        lambda: landscape(
            problem, alphas=ALPHAS, task_alphas=None, setting="D", scoring="roc_auc", progress=False
        )
    )
    print(f"Kronecker D on e ({kind}): {time:.1f} s")
    rows.append(
        (
            "Kronecker D on e, 14 values, over its products",
            time / (2 * one * k * len(ALPHAS)),
            "<= 1.8",
        )
    )
    print(row(*rows[-1][:2], "target " + rows[-1][2]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/yamanishi2008"))
    parser.add_argument("--quick", action="store_true", help="leave out the enzyme set")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--markdown", action="store_true", help="print the table of the README as well"
    )
    arguments = parser.parse_args()
    rows: list[tuple[str, float, str]] = []
    with threadpool_limits(THREADS):
        against_the_loop(arguments.data, rows)
        if not arguments.quick:
            against_the_limit(arguments.data, rows, arguments.repeats)
            kronecker_d(arguments.data, rows)
    print(versions())
    if arguments.markdown:
        print("\n| what | measured | asked for |\n|---|---|---|")
        for name, value, target in rows:
            print(f"| {name} | {value:.2f} | {target.replace('>=', '≥').replace('<=', '≤')} |")


if __name__ == "__main__":
    main()
