"""What the same code does on a GPU: arrays of torch are computed where they live.

    python benchmarks/gpu.py [--device cuda] [--sizes 664x445 4000x3000]

For each size, random kernels and labels: fitting, hold-out predictions in the four settings and a 196-point landscape,
on the device and with numpy on this machine's processors, with the largest relative difference between the two and the
time over that of the matrix products on the same device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from measuring import versions

from dyadlearn import TwoStepRidge
from dyadlearn.holdout import holdout
from dyadlearn.selection.landscape import landscape

ALPHAS = [10.0**power for power in range(-7, 7)]


def clock(work: Callable[[], object], device: str, repeats: int = 3) -> float:
    """Return the median seconds of `work` once it is warm, waiting for the device."""
    times = []
    for _ in range(repeats + 1):
        if device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def difference(found: object, expected: np.ndarray) -> float:
    """Return the largest difference over the largest value."""
    array = found.cpu().numpy() if isinstance(found, torch.Tensor) else np.asarray(found)
    return float(np.max(np.abs(array - expected)) / np.max(np.abs(expected)))


def kernel(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random positive definite kernel."""
    features = rng.standard_normal((n, n))
    return features @ features.T / n


def measure(m: int, q: int, device: str) -> None:
    """Print times, ratios and differences for one size."""
    rng = np.random.default_rng(0)
    K, G = kernel(m, rng), kernel(q, rng)
    Y = (rng.random((m, q)) < 0.05).astype(float)
    on = [torch.asarray(array, device=device) for array in (K, Y, G)]
    repeats = 3 if m * q < 10**6 else 1

    def fit(K: object, Y: object, G: object) -> TwoStepRidge:
        return TwoStepRidge(0.3, 0.7, kernel="precomputed", task_kernel="precomputed").fit(K, Y, tasks=G)

    here, there = fit(K, Y, G), fit(*on)
    product = clock(lambda: on[1] @ on[2], device, 20)
    print(f"{m} × {q}, float64: one product of m × q by q × q takes {1e3 * product:.2f} ms on {device}")
    fits = clock(lambda: fit(K, Y, G), "cpu", repeats), clock(lambda: fit(*on), device, repeats)
    print(f"  {'fit':<24} {fits[0]:9.3f} s numpy {fits[1]:9.3f} s {device} {fits[0] / fits[1]:8.1f} x")
    for setting in "ABCD":
        expected = holdout(here._problem(), setting)
        gap = difference(holdout(there._problem(), setting), expected)
        times = (
            clock(lambda setting=setting: holdout(here._problem(), setting), "cpu", repeats),
            clock(lambda setting=setting: holdout(there._problem(), setting), device, repeats),
        )
        print(
            f"  {'hold-out ' + setting:<24} {times[0]:9.3f} s numpy {times[1]:9.3f} s {device} "
            f"{times[0] / times[1]:8.1f} x   difference {gap:.1e}"
        )
    for scoring in ("neg_mean_squared_error", "roc_auc"):
        for settings in ("B", "D", "ABCD"):

            def work(model: TwoStepRidge, settings: str = settings, scoring: str = scoring) -> dict[str, np.ndarray]:
                return landscape(model, ALPHAS, ALPHAS, settings, scoring, max_memory=2**33, progress=False)

            found = work(there)
            ours = clock(lambda work=work: work(there), device, repeats)
            line = f"  {settings + ' ' + scoring[:12]:<24} {'':9} {ours:17.3f} s {device}"
            line += f" {ours / (196 * product):8.2f} of 196 products"
            if m * q < 10**6:
                expected = work(here)
                numpy_time = clock(lambda work=work: work(here), "cpu", 1)
                gap = max(difference(found[letter], expected[letter]) for letter in settings)
                line += f" {numpy_time / ours:8.1f} x numpy   difference {gap:.1e}"
            print(line, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", nargs="+", default=["664x445", "4000x3000"])
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "this machine's processors"
    print(f"{name}, torch {torch.__version__}")
    for size in arguments.sizes:
        m, q = (int(number) for number in size.split("x"))
        measure(m, q, arguments.device)
    print(versions())


if __name__ == "__main__":
    main()
