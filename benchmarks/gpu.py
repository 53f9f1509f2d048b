"""What the same code does on a GPU: arrays of torch are computed where they live.

    python benchmarks/gpu.py [--device cuda] [--cases table_2 kronecker_d …] [--scale 1] [--sizes 664x445 4000x3000]
                             [--data ../shared/data/yamanishi2008]

Each case has a target in seconds on one H200, and a limit measured in the same run: the time of its
decompositions, of its matrix products at the rate of one large product, and of its sorts. `--scale`
shrinks the large cases. With `--sizes` and random kernels: fitting, hold-out predictions in four
settings and a 196-point landscape, on the device and with numpy on this machine's processors, with
the largest relative difference between the two. Last, how far every library that is installed is
from numpy on a small problem.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import versions

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn._array import on_device, to_numpy
from dyadlearn.filters import Tikhonov
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import Kronecker, TwoStep
from dyadlearn.pairing.new_both import new_both
from dyadlearn.selection.landscape import landscape
from dyadlearn.spectrum import Spectrum
from holdout import SHAPES, load

ALPHAS = [10.0**power for power in range(-7, 7)]
#: Seconds on one H200 that each case is asked to take at most.
TARGETS = {
    "table_2": 5.0,
    "kronecker_d": 2.5,
    "squared_errors": 10.0,
    "auc": 20.0,
    "holes": 20.0,
    "few_labels": 8.0,
}
# As many bytes as stacks of predictions may take on a card with 141 GB.
ROOM = 2**33


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


def difference(actual: object, expected: np.ndarray) -> float:
    """Return the largest difference over the largest value."""
    if isinstance(actual, torch.Tensor):
        array = actual.cpu().numpy()
    else:
        array = np.asarray(actual)
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
        return TwoStepRidge(0.3, 0.7, kernel="precomputed", task_kernel="precomputed").fit(
            K, Y, tasks=G
        )

    here, there = fit(K, Y, G), fit(*on)
    product = clock(lambda: on[1] @ on[2], device, 20)
    print(
        f"{m} × {q}, float64: one product of m × q by q × q takes {1e3 * product:.2f} ms on "
        f"{device}"
    )
    fits = clock(lambda: fit(K, Y, G), "cpu", repeats), clock(lambda: fit(*on), device, repeats)
    print(
        f"  {'fit':<24} {fits[0]:9.3f} s numpy {fits[1]:9.3f} s {device} {fits[0] / fits[1]:8.1f} x"
    )
    for setting in "ABCD":
        expected = holdout(here.fitted_.training_problem, setting)
        gap = difference(holdout(there.fitted_.training_problem, setting), expected)
        times = (
            clock(
                lambda setting=setting: holdout(here.fitted_.training_problem, setting),
                "cpu",
                repeats,
            ),
            clock(
                lambda setting=setting: holdout(there.fitted_.training_problem, setting),
                device,
                repeats,
            ),
        )
        print(
            f"  {'hold-out ' + setting:<24} {times[0]:9.3f} s numpy {times[1]:9.3f} s {device} "
            f"{times[0] / times[1]:8.1f} x   difference {gap:.1e}"
        )
    for scoring in ("neg_mean_squared_error", "roc_auc"):
        for settings in ("B", "D", "ABCD"):

            def work(
                model: TwoStepRidge, settings: str = settings, scoring: str = scoring
            ) -> dict[str, np.ndarray]:
                return landscape(
                    model,
                    alphas=ALPHAS,
                    task_alphas=ALPHAS,
                    setting=settings,
                    scoring=scoring,
                    max_memory=2**33,
                    progress=False,
                )

            answer = work(there)
            ours = clock(lambda work=work: work(there), device, repeats)
            line = f"  {settings + ' ' + scoring[:12]:<24} {'':9} {ours:17.3f} s {device}"
            line += f" {ours / (196 * product):8.2f} of 196 products"
            if m * q < 10**6:
                expected = work(here)
                numpy_time = clock(lambda work=work: work(here), "cpu", 1)
                gap = max(difference(answer[letter], expected[letter]) for letter in settings)
                line += f" {numpy_time / ours:8.1f} x numpy   difference {gap:.1e}"
            print(line, flush=True)


class Limits:
    """How fast a device multiplies, decomposes and sorts: nothing made of these can be faster."""

    def __init__(self, device: str, scale: float) -> None:
        self.device = device
        n = self.size = max(64, int(10_000 * scale))
        left, right = self.random(n, n), self.random(n, n)
        self.rate = 2.0 * n**3 / clock(lambda: left @ right, device)
        print(f"  {self.rate / 1e12:.2f} · 10¹² operations a second in products of {n} × {n}")

    def random(self, *shape: int) -> torch.Tensor:
        """Return standard normal numbers on the device."""
        return torch.randn(*shape, dtype=torch.float64, device=self.device)

    def kernel(self, n: int) -> torch.Tensor:
        """Return a random positive definite kernel."""
        features = self.random(n, n)
        return features @ features.T / n

    def eigh(self, *sizes: int) -> float:
        """Return the seconds of one decomposition of each size."""
        total = 0.0
        for n in sizes:
            kernel = self.kernel(n)
            total += clock(
                lambda kernel=kernel: torch.linalg.eigh(kernel), self.device, 3 if n < 2000 else 1
            )
        return total

    def sort(self, n: int) -> float:
        """Return the seconds of sorting so many numbers."""
        values = self.random(n)
        return clock(lambda: torch.sort(values), self.device)

    def products(self, count: float, m: int, q: int, k: int) -> float:
        """Return the seconds of so many products of m × k by k × q."""
        return 2.0 * count * m * q * k / self.rate


def report(name: str, seconds: float, limits: dict[str, float], note: str = "") -> None:
    """Print one case: its time, its target, its limit and of what that is made."""
    limit = sum(limits.values())
    parts = ", ".join(f"{part} {value:.2f} s" for part, value in limits.items())
    print(
        f"  {name:<16} {seconds:8.2f} s   asked for {TARGETS[name]:5.1f} s   limit {limit:6.2f} s "
        f"({parts}): "
        f"{seconds / limit:5.1f} times{note}",
        flush=True,
    )


def table_2(limits: Limits, folder: Path, scale: float) -> None:
    """Measure the paper's Table 2: four networks, two models, four settings, decompositions included."""
    total = 0.0
    below = {"decompositions": 0.0, "products": 0.0}
    for name, (m, q) in SHAPES.items():
        if scale < 1 and name in ("ic", "e"):
            continue
        K, G, Y = (on_device(np.asarray(part), limits.device) for part in load(name, folder)[:3])
        below["decompositions"] += 8 * limits.eigh(m, q)
        few, many = sorted((m, q))
        # Two-step: 196 products in each setting; Kronecker: A, B and C take four, D two for each
        # task that leaves.
        below["products"] += limits.products(4 * 196, m, q, few) + limits.products(
            14 * 12, m, q, many
        )
        below["products"] += limits.products(14 * 2 * few, many, few, many)

        def compute(setting: str, method: str, K: Any = K, G: Any = G, Y: Any = Y) -> None:
            spectra = Spectrum.from_gram(K), Spectrum.from_gram(G)
            pairing: Any = Kronecker(*spectra, 1.0)
            if method == "two_step":
                pairing = TwoStep(*(side.smoother(Tikhonov(), 1.0) for side in spectra))
            landscape(
                Problem.of(pairing, Y),
                alphas=ALPHAS,
                task_alphas=ALPHAS,
                setting=setting,
                scoring="roc_auc",
                progress=False,
            )

        if not total:  # the first of its kind compiles and loads what all others use
            compute("D", "kronecker")
        for method in ("kronecker", "two_step"):
            for setting in "ABCD":
                total += seconds(lambda: compute(setting, method), limits.device)  # noqa: B023
    report("table_2", total, below)


def kronecker_d(limits: Limits, folder: Path, scale: float) -> None:
    """Measure Kronecker ridge regression in setting D on the enzymes, 14 regularisations, beside decomposing anew."""
    name = "e" if scale == 1 else "gpcr"
    K, G, Y = (on_device(np.asarray(part), limits.device) for part in load(name, folder)[:3])
    pairing = Kronecker(Spectrum.from_gram(K), Spectrum.from_gram(G), 1.0)
    taken = clock(lambda: new_both(pairing, Y[None, ...], ALPHAS), limits.device)
    few, many = sorted(Y.shape)
    anew = few * limits.eigh(few - 1)
    below = {"products": limits.products(14 * 2 * few, many, few, many)}
    report("kronecker_d", taken, below, f"; {few} decompositions anew would take {anew:.2f} s")


def _large(limits: Limits) -> TwoStepRidge:
    n = limits.size
    Y = (torch.rand(n, n, device=limits.device) < 0.05).to(torch.float64)
    model = TwoStepRidge(kernel="precomputed", task_kernel="precomputed", fit_intercept=False)
    return model.fit(limits.kernel(n), Y, tasks=limits.kernel(n))


def squared_errors(limits: Limits, folder: Path, scale: float) -> None:
    """Measure landscapes of squared error in B, C and D together, 10,000 × 10,000, of a fitted model."""
    model = _large(limits)
    n = limits.size

    def measured(setting: str) -> float:
        options = {"scoring": "neg_mean_squared_error", "max_memory": ROOM, "progress": False}
        grids = {"alphas": ALPHAS, "task_alphas": ALPHAS}
        work = partial(landscape, model, setting=setting, **grids, **options)
        return seconds(work, limits.device)

    for setting in "BCD":
        print(f"    {setting}: {measured(setting):.2f} s")
    taken = measured("BCD")
    # Five for each of 14 regularisations, and labels are rotated.
    report(
        "squared_errors",
        taken,
        {"products": limits.products(5 * 14 + 4, n, n, n)},
        f", for {3 * 196} points",
    )


def auc(limits: Limits, folder: Path, scale: float) -> None:
    """Measure the landscape of the area under the ROC curve in D, 10,000 × 10,000, of a fitted model."""
    model = _large(limits)
    n = limits.size
    taken = seconds(
        lambda: landscape(
            model,
            alphas=ALPHAS,
            task_alphas=ALPHAS,
            setting="D",
            scoring="roc_auc",
            max_memory=ROOM,
            progress=False,
        ),
        limits.device,
    )
    below = {"products": limits.products(196 + 2 * 14, n, n, n), "sorts": 196 * limits.sort(n * n)}
    report("auc", taken, below)


def holes(limits: Limits, folder: Path, scale: float) -> None:
    """Measure fitting Kronecker ridge regression to 20,000 × 5,000 labels of which a tenth is observed, twice."""
    m, q = (max(80, int(size * scale)) for size in (20_000, 5_000))
    X, T = limits.random(m, 50), limits.random(q, 50)
    signal = torch.sin(X @ (limits.random(50, 50) / 50) @ T.T) + 0.1 * limits.random(m, q)
    kernels = {"kernel": "rbf", "task_kernel": "rbf", "kernel_params": {"gamma": 0.01}}
    decompositions = limits.eigh(m, q)
    for words, labels, intercept in (
        ("noise", limits.random(m, q), False),
        ("a signal, intercept", signal, True),
    ):
        labels[torch.rand(m, q, device=limits.device) > 0.1] = float("nan")
        model = KroneckerRidge(
            1.0, **kernels, task_kernel_params={"gamma": 0.01}, tol=1e-6, fit_intercept=intercept
        )
        taken = seconds(
            lambda model=model, labels=labels: model.fit(X, labels, tasks=T), limits.device
        )
        below = {
            "decompositions": decompositions,
            "products": model.n_iter_ * (limits.products(1, m, q, m) + limits.products(1, m, q, q)),
        }
        report(
            "holes",
            taken,
            below,
            f"; {words}: {model.n_iter_} iterations, residual {model.residual_:.1e}",
        )


def few_labels(limits: Limits, folder: Path, scale: float) -> None:
    """Measure exact leave-one-out of 40,000 labels of 2,000 × 1,500 entities in A, B and C together."""
    m, q = (max(60, int(size * scale)) for size in (2000, 1500))
    n = min(m * q // 3, int(40_000 * scale))
    X = limits.random(m, 20)
    T = limits.random(q, 20)
    flat = torch.full((m * q,), float("nan"), dtype=torch.float64, device=limits.device)
    observed = torch.randperm(m * q, device=limits.device)[:n]
    flat[observed] = limits.random(n)
    kernels = {"kernel": "rbf", "task_kernel": "rbf"}
    model = KroneckerRidge(1.0, **kernels, fit_intercept=True).fit(X, flat.reshape(m, q), tasks=T)
    for setting in "ABC":
        once = seconds(lambda setting=setting: model.holdout(setting), limits.device)
        print(f"    {setting}: {once:.2f} s")

    # Another model with the same labels, so that no inverse is known.
    model.set_alpha(0.5)
    if limits.device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    taken = seconds(lambda: [model.holdout(setting) for setting in "ABC"], limits.device)
    if limits.device != "cpu":
        peak = torch.cuda.max_memory_allocated() / 1e9
    else:
        peak = float("nan")
    report(
        "few_labels",
        taken,
        {"inverse": limits.products(1, n, n, n)},
        f"; {n} labels, peak {peak:.0f} GB",
    )


CASES = {
    case.__name__: case for case in (table_2, kronecker_d, squared_errors, auc, holes, few_labels)
}


def seconds(work: Callable[[], object], device: str) -> float:
    """Return how long one call takes, warm or not, waiting for the device."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def libraries(device: str) -> None:
    """Print how far other libraries are from numpy on a small problem, with all labels and with holes."""
    rng = np.random.default_rng(0)
    X, T, Y = rng.normal(size=(60, 5)), rng.normal(size=(40, 4)), rng.normal(size=(60, 40))
    some = np.where(rng.random(Y.shape) < 0.5, np.nan, Y)

    def answers(put: Callable[[np.ndarray], Any]) -> list[np.ndarray]:
        arrays = []
        for kind in (TwoStepRidge, KroneckerRidge):
            for labels in (Y, some):
                model = kind(kernel="rbf", task_kernel="rbf").fit(put(X), put(labels), tasks=put(T))
                arrays += [model.predict(put(X[:9])), model.completed_]
                if labels is Y:
                    arrays += [model.holdout(setting) for setting in "ABCD"]
                    # Setting A compares all pairs of labels, for each point.
                    few = ALPHAS[::4]
                    scores = [
                        landscape(model, alphas=few, task_alphas=few, setting="ABCD", scoring=name)
                        for name in ("r2", "concordance_index")
                    ]
                    arrays += [array for both in scores for array in both.values()]
        return [to_numpy(array) for array in arrays]

    expected = answers(lambda part: part)
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is None:
            print(f"  {name} is not installed")
            continue
        library = importlib.import_module(name)
        where = {"device": device} if name == "torch" else {}
        try:
            actual = answers(lambda part: library.asarray(part, **where))  # noqa: B023
            gap = max(difference(one, twin) for one, twin in zip(actual, expected, strict=True))
            print(f"  {name} {library.__version__}: largest difference from numpy {gap:.1e}")
        except Exception as error:  # what is asked here is whether it works at all
            print(
                f"  {name} {library.__version__} fails: {type(error).__name__}: {str(error)[:300]}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the large cases")
    parser.add_argument("--sizes", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/yamanishi2008"))
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda"):
        name = torch.cuda.get_device_name()
    else:
        name = "this machine's processors"
    print(f"{name}, torch {torch.__version__}")
    limits = Limits(arguments.device, arguments.scale)
    for case in arguments.cases:
        CASES[case](limits, arguments.data, arguments.scale)
    for size in arguments.sizes:
        m, q = (int(number) for number in size.split("x"))
        measure(m, q, arguments.device)
    libraries(arguments.device)
    print(versions())


if __name__ == "__main__":
    main()
