"""Records: public benchmarks with learned kernels, from raw entities to the table.

    python experiments/records.py [--data nr,davis] [--setting A,B] [--seeds 0,1,2] [--folds 0,1] [--out FILE] [--list]
    python experiments/records.py --table FILE … [--page docs/records.md]

`LearnedKernelRidge` chooses everything (weights and exponents of kernels, shares, λ, the number of
stages) by folds of the training labels. A *unit* is one data set, setting and split; what it gave
is one line of the results, written when it is done, and a unit that is there already is not run
again. So a run may be stopped and taken up, and several may write to one file.

- davis, kiba, A: for a seed, one of six random parts of the observed pairs is the test.
- davis, kiba, B, C, D: five folds of drugs, of targets, and of both: drugs of one fold with targets of the same number,
  predicted from what has neither.
- nr, gpcr, ic, e, A, B, C: ten folds of pairs, of drugs, of targets.
- flixster, douban, A: the published split.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import os
import platform
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from records_data import Data, davis, kiba, ratings, yamanishi
from records_table import KEY, STEPS, fill, read_results, table

from dyadlearn import LearnedKernelRidge
from dyadlearn._array import to_numpy
from dyadlearn.exceptions import SearchStoppedWarning
from dyadlearn.kernels import Descriptions
from dyadlearn.metrics import (
    average_precision,
    concordance_index,
    mean_squared_error,
    roc_auc,
    root_mean_squared_error,
)

OUT = Path(__file__).resolve().parents[1] / "build" / "records.jsonl"
PARTS = 6
SEEDS = (0, 1, 2)
#: Scores that need no order of the labels.
ERRORS = ("MSE", "RMSE")
#: The seed that deals out folds.
DEALING = 0
#: The description of a side that nothing is known of.
IDENTITY = "identity"

Measure = Callable[[Any, Any], float]
Load = Callable[[str | None, str | None], Data]


@dataclass(frozen=True)
class Benchmark:
    """A data set, how it is cut, and how predictions are scored.

    Attributes
    ----------
    load : callable
        Given the folder of data sets and that of kept kernels.
    settings : mapping of str to str
        For each setting what its units are: a ``"seed"``, a ``"fold"`` or the published
        ``"split"``.
    n_folds : int
    measures : mapping of str to callable
        Functions of labels (m, q), NaN where not tested, and predictions.
    """

    load: Load
    settings: Mapping[str, str]
    n_folds: int
    measures: Mapping[str, Measure]

    def numbers(
        self, setting: str, seeds: Sequence[int], folds: Sequence[int] | None
    ) -> Sequence[int]:
        """Return which units of a setting are asked for; None is all folds."""
        kind = self.settings[setting]
        if kind == "split":
            return [0]
        if kind == "seed":
            return seeds
        return [fold for fold in range(self.n_folds) if folds is None or fold in folds]


def both_laplacians(name: str, data_home: str | None, cache: str | None) -> Data:
    """Return ratings with the heat kernels of both Laplacians side by side; the learner has the choice."""
    plain, other = (
        ratings(name, data_home, cache, normalized=normalized) for normalized in (False, True)
    )
    sides = (
        {**first, **{f"{label}, normalised": kernel for label, kernel in second.items()}}
        for first, second in ((plain.K, other.K), (plain.G, other.G))
    )
    K, G = sides
    return replace(plain, K=K, G=G)


def _binding(load: Load) -> Benchmark:
    settings = {"A": "seed", "B": "fold", "C": "fold", "D": "fold"}
    return Benchmark(load, settings, 5, {"MSE": mean_squared_error, "CI": concordance_index})


def _network(name: str) -> Benchmark:
    settings = dict.fromkeys("ABC", "fold")
    measures = {"AUPR": average_precision, "AUC": roc_auc}
    return Benchmark(lambda data_home, cache: yamanishi(name, data_home), settings, 10, measures)


def _ratings(name: str) -> Benchmark:
    load = functools.partial(both_laplacians, name)
    return Benchmark(load, {"A": "split"}, 1, {"RMSE": root_mean_squared_error})


#: All data sets, the quickest first.
BENCHMARKS: dict[str, Benchmark] = {
    **{name: _network(name) for name in ("nr", "gpcr", "ic", "e")},
    "davis": _binding(davis),
    **{name: _ratings(name) for name in ("flixster", "douban")},
    "kiba": _binding(kiba),
}


# --- Units and their splits -----------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """One split of one data set in one setting, learned with some number of steps in each stage."""

    data: str
    setting: str
    unit: str
    steps: int = STEPS

    def __str__(self) -> str:
        return f"{self.data} {self.setting} {self.unit}" + (
            f" ({self.steps} steps)" if self.steps != STEPS else ""
        )

    @property
    def number(self) -> int:
        """That of the seed, fold or split."""
        return int(self.unit.rpartition(" ")[2])


def plan(
    names: Sequence[str],
    settings: Sequence[str],
    seeds: Sequence[int],
    folds: Sequence[int] | None,
    steps: int,
) -> list[Unit]:
    """Return the units that are asked for, in the order in which they run."""
    return [
        Unit(name, setting, f"{BENCHMARKS[name].settings[setting]} {number}", steps)
        for name in names
        for setting in settings
        if setting in BENCHMARKS[name].settings
        for number in BENCHMARKS[name].numbers(setting, seeds, folds)
    ]


@dataclass(frozen=True)
class Split:
    """What is learned from, and what is tested on.

    Attributes
    ----------
    rows, columns : integer arrays
        The instances and tasks of training.
    Y : ndarray of shape (rows, columns)
        Labels to learn from, NaN where there is none.
    new_rows, new_columns : integer arrays or None
        Those that are predicted for; None for those of training.
    truth : ndarray
        The labels of the predictions, NaN where not tested.
    """

    rows: np.ndarray
    columns: np.ndarray
    Y: np.ndarray
    new_rows: np.ndarray | None
    new_columns: np.ndarray | None
    truth: np.ndarray


def cut(data: Data, unit: Unit, n_folds: int) -> Split:
    """Return the split of a unit."""
    kind = unit.unit.split()[0]
    number = unit.number
    everything = [np.arange(size) for size in data.Y.shape]
    if kind == "split":
        assert data.Y_test is not None
        return Split(*everything, data.Y, None, None, data.Y_test)
    if unit.setting == "A":
        if kind == "seed":
            seed, n_parts, test = (number, PARTS, PARTS - 1)
        else:
            seed, n_parts, test = (DEALING, n_folds, number)
        observed = np.isfinite(data.Y)
        part = np.full(data.Y.shape, -1)
        part[observed] = dealt(int(observed.sum()), n_parts, seed)
        left_out = part == test
        return Split(
            *everything,
            np.where(left_out, np.nan, data.Y),
            None,
            None,
            np.where(left_out, data.Y, np.nan),
        )
    # A side that is not new is known as a whole.
    is_new = (unit.setting in "BD", unit.setting in "CD")
    rng = np.random.default_rng(DEALING)
    fold = [dealt(size, n_folds, rng) for size in data.Y.shape]
    trained = [
        np.flatnonzero(codes != number) if new else np.arange(len(codes))
        for codes, new in zip(fold, is_new, strict=True)
    ]
    asked = [
        np.flatnonzero(codes == number) if new else None
        for codes, new in zip(fold, is_new, strict=True)
    ]
    tested = [here if new is None else new for here, new in zip(trained, asked, strict=True)]
    return Split(*trained, data.Y[np.ix_(*trained)], *asked, data.Y[np.ix_(*tested)])


def dealt(n: int, n_parts: int, seed: int | np.random.Generator) -> np.ndarray:
    """Return the part of each of n things (n,), dealt out at random, parts alike in size."""
    return np.random.default_rng(seed).permutation(n) % n_parts


# --- Running --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """Where is computed: numpy, or torch on a device."""

    device: str | None = None
    threads: int | None = None

    def array(self, values: np.ndarray) -> Any:
        """Return an array of numpy as one of the library, where it is computed with."""
        if self.device is None:
            return values
        import torch

        return torch.asarray(values, device=self.device)

    def limited(self) -> Any:
        """Return a context in which linear algebra has as many threads as asked for."""
        if self.threads is None:
            return nullcontext()
        if self.device is not None:
            import torch

            torch.set_num_threads(self.threads)
        from threadpoolctl import threadpool_limits

        return threadpool_limits(self.threads)

    def start(self) -> None:
        """Forget how much memory was taken before."""
        with suppress(OSError):  # without it, the peak is that of the whole process
            Path("/proc/self/clear_refs").write_text("5")
        if self._is_cuda:
            import torch

            torch.cuda.reset_peak_memory_stats()

    def peaks(self) -> dict[str, float]:
        """Return the most memory that was taken, in MiB, when all work is done."""
        peaks = {"memory": _peak()}
        if self._is_cuda:
            import torch

            torch.cuda.synchronize()
            peaks["device_memory"] = torch.cuda.max_memory_allocated() / 2**20
        return peaks

    def describe(self) -> dict[str, Any]:
        """Return what the machine is and which versions are at work."""
        from threadpoolctl import threadpool_info

        threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        name = _cores(min(threads, os.cpu_count() or 1))
        names = ["dyadlearn", "numpy", "scipy"]
        if self.device is not None:
            import torch

            names.append("torch")
            if self._is_cuda:
                name = torch.cuda.get_device_name()
            else:
                name = f"{_cores(torch.get_num_threads())}, torch"
        return {
            "machine": name,
            "versions": {"python": platform.python_version(), **dict(map(_version, names))},
        }

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and self.device.startswith("cuda")


def _cores(n: int) -> str:
    return "1 core" if n == 1 else f"{n} cores"


def _version(name: str) -> tuple[str, str]:
    try:
        return name, version(name)
    except PackageNotFoundError:
        return name, str(getattr(sys.modules.get(name), "__version__", "unknown"))


def _peak() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
    except (OSError, StopIteration):
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def described(kernels: Mapping[str, np.ndarray], n: int, machine: Machine) -> Descriptions:
    """Return the kernels of a side; one that has none is known by identity alone."""
    kernels = kernels or {IDENTITY: np.eye(n)}
    return Descriptions({name: machine.array(kernel) for name, kernel in kernels.items()})


def taken(side: Descriptions, rows: np.ndarray) -> Descriptions:
    """Return some rows of a side; all of them without a copy."""
    return side if len(rows) == len(side) else side[rows]


def run(
    unit: Unit, data: Data, sides: tuple[Descriptions, Descriptions], machine: Machine
) -> dict[str, Any]:
    """Learn and test one unit, and return its line of the results."""
    benchmark = BENCHMARKS[unit.data]
    split = cut(data, unit, benchmark.n_folds)
    model = LearnedKernelRidge(
        kernel="precomputed", task_kernel="precomputed", setting=unit.setting, n_steps=unit.steps
    )
    drugs, targets = sides
    machine.start()
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        # What was interrupted is no result.
        warnings.filterwarnings("error", category=SearchStoppedWarning)
        model.fit(
            taken(drugs, split.rows), machine.array(split.Y), tasks=taken(targets, split.columns)
        )
        fitted = time.perf_counter()
        new_rows, new_columns = (
            None if new is None else side[new]
            for side, new in ((drugs, split.new_rows), (targets, split.new_columns))
        )
        F = to_numpy(model.predict(new_rows, new_columns))
    done = time.perf_counter()
    return {
        **asdict(unit),
        "scores": scores(benchmark.measures, split.truth, F),
        "seconds": round(fitted - start, 2),
        "seconds_predicting": round(done - fitted, 2),
        **{name: round(mebibytes) for name, mebibytes in machine.peaks().items()},
        "stages": model.n_stages_,
        "stage_errors": model.stage_errors_,
        "holdout_method": model.holdout_method_,
        "weights": model.weights_,
        "exponents": model.exponents_,
        "shares": model.shares_,
        "alpha": model.alpha_,
        "n_train": int(np.isfinite(split.Y).sum()),
        "n_test": int(np.isfinite(split.truth).sum()),
        "warnings": sorted({str(warning.message) for warning in caught}),
        **machine.describe(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def scores(
    measures: Mapping[str, Measure], truth: np.ndarray, F: np.ndarray
) -> dict[str, float | None]:
    """Return all scores; None for those of an order where no two labels of the test differ."""
    is_ordered = np.unique(truth[np.isfinite(truth)]).size > 1
    return {
        name: float(measure(truth, F)) if is_ordered or name in ERRORS else None
        for name, measure in measures.items()
    }


def plain(value: Any) -> Any:
    """Return what JSON has: None in the place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Write one line at the end of the results, beginning a new one where a run was stopped within its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
        text = json.dumps(plain(row), allow_nan=False) + "\n"
        file.write((text if file.read(1) in (b"", b"\n") else "\n" + text).encode())


def run_all(
    units: Sequence[Unit], out: Path, machine: Machine, data_home: str | None, cache: str | None
) -> Iterator[tuple[Unit, dict[str, Any] | Exception | None]]:
    """Run units that are not in the results, and yield each with its line, with what went wrong, or None if it was."""
    done = {
        Unit(*(row[name] for name in KEY)) for row in read_results([out] if out.exists() else [])
    }

    @functools.lru_cache(maxsize=1)
    def load(name: str) -> tuple[Data, tuple[Descriptions, Descriptions]]:
        data = BENCHMARKS[name].load(data_home, cache)
        K, G = (
            described(side, n, machine)
            for side, n in zip((data.K, data.G), data.Y.shape, strict=True)
        )
        return data, (K, G)

    for unit in units:
        if unit in done:
            yield unit, None
            continue
        try:
            row = run(unit, *load(unit.data), machine)
        except SearchStoppedWarning as stopped:
            raise KeyboardInterrupt from stopped
        except Exception as failure:  # the others may do
            yield unit, failure
            continue
        append(out, row)
        yield unit, row


# --- The command ----------------------------------------------------------------------------------


def numbers(text: str) -> list[int]:
    """Return numbers from 0 on, given with commas."""
    numbers_of_folds = [int(part) for part in text.split(",")]
    if min(numbers_of_folds) < 0:
        raise ValueError(text)
    return numbers_of_folds


def choices(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a reader of some of `known`, given with commas."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        wrong = [name for name in names if name not in known]
        if wrong:
            raise argparse.ArgumentTypeError(
                f"there is no {', '.join(wrong)}: choose among {', '.join(known)}"
            )
        return names

    return read


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    reader = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sets = list(BENCHMARKS)
    settings = list("ABCD")
    reader.add_argument(
        "--data", type=choices(sets), default=sets, help=f"some of {','.join(sets)} (default: all)"
    )
    reader.add_argument(
        "--setting", type=choices(settings), default=settings, help="some of A,B,C,D (default: all)"
    )
    reader.add_argument(
        "--seeds", type=numbers, default=list(SEEDS), help="of the random splits (default: 0,1,2)"
    )
    reader.add_argument("--folds", type=numbers, help="numbers of the folds, from 0 (default: all)")
    reader.add_argument(
        "--steps", type=int, default=STEPS, help=f"of the descent in each stage (default: {STEPS})"
    )
    reader.add_argument(
        "--out",
        type=Path,
        default=OUT,
        help="the results, JSON lines (default: build/records.jsonl)",
    )
    reader.add_argument(
        "--cache", help="folder where kernels are kept (default: in that of data sets)"
    )
    reader.add_argument(
        "--data-home", help="folder of data sets (default: as in dyadlearn.datasets)"
    )
    reader.add_argument(
        "--device", default="cpu", help="cuda: with torch on the card (default: cpu, with numpy)"
    )
    reader.add_argument(
        "--threads", type=int, help="threads of linear algebra (default: as the environment has it)"
    )
    reader.add_argument(
        "--list", action="store_true", help="name the units in their order, and run none"
    )
    reader.add_argument(
        "--table",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="print the table of results, and run none",
    )
    reader.add_argument(
        "--page", type=Path, help="with --table: the page whose marked block the table fills"
    )
    return reader


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, list, or print the table; return the exit status."""
    reader = parser()
    options = reader.parse_args(arguments)
    if options.page and not options.table:
        reader.error("--page goes with --table.")
    if options.steps < 1:
        reader.error(f"--steps must be at least 1, found {options.steps}.")
    if options.table:
        missing = [str(path) for path in options.table if not path.is_file()]
        if missing:
            reader.error(f"there is no {', '.join(missing)}.")
        text = table(read_results(options.table))
        if not text:
            reader.error(f"there is no result in {', '.join(map(str, options.table))}.")
        if options.page:
            options.page.write_text(
                fill(options.page.read_text(encoding="utf-8"), text), encoding="utf-8"
            )
        else:
            print(text)
        return 0
    units = plan(options.data, options.setting, options.seeds, options.folds, options.steps)
    if not units:
        reader.error("no data set that was named has a unit of that setting and fold: see --list.")
    if options.list:
        print("\n".join(map(str, units)))
        return 0
    machine = Machine(None if options.device == "cpu" else options.device, options.threads)
    if machine.device is not None and find_spec("torch") is None:
        reader.error(f"--device {machine.device} needs torch: pip install torch.")
    failed = 0
    with machine.limited():
        for unit, row in run_all(units, options.out, machine, options.data_home, options.cache):
            if isinstance(row, Exception):
                failed += 1
                print(f"{unit}: failed", file=sys.stderr)
                traceback.print_exception(row)
            elif row is not None:
                figures = (
                    f"{name} {np.nan if score is None else score:.4f}"
                    for name, score in row["scores"].items()
                )
                print(
                    f"{unit}: {', '.join(figures)}, {row['seconds']:.0f} s, {row['memory']} MiB",
                    flush=True,
                )
            else:
                print(f"{unit}: is there", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(
            "Stopped: what is done is in the results, and the same command goes on from there."
        )
