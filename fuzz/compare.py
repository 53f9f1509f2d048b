"""Old against new: the same random cases in two versions of the library, and every difference between their answers.

    python fuzz/compare.py                        # 2,000 cases, the commit of baseline.txt against src/
    python fuzz/compare.py --cases 10000 --seed 5
    python fuzz/compare.py --only searches --case 71
    python fuzz/compare.py --plant                # faults that must be found

A case has a number, from which its kind and all that is random in it follow. Each version runs in a
process of its own (`answering.py`), on the same libraries, with one thread. Numbers may differ by
1e-9 of the labels' spread (or of the largest of them), what is learned by descent by 1e-6, single
precision by 1e-3; refusals must be of the same type. What differs on purpose stands in
`changes.py`.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # the matrices are tiny; must be set before numpy is imported

import kinds  # noqa: E402, F401
import numpy as np  # noqa: E402
from cases import KINDS, Answer, Refusal  # noqa: E402
from changes import EXPECTED  # noqa: E402
from old import ROOT, baseline, environment  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from rich.table import Table  # noqa: E402

__all__ = ["Difference", "Tally", "Worker", "campaign", "differences", "kind_of"]

# How often each kind comes.
ORDER = (
    *(
        "models",
        "searches",
        "answers",
        "metrics",
        "models",
        "online",
        "answers",
        "networks",
        "searches",
        "long_tables",
    ),
    *(
        "models",
        "kernels",
        "answers",
        "listed",
        "searches",
        "online",
        "files",
        "models",
        "learned",
        "answers",
    ),
    *("regressors", "long_tables"),
)
# Differences shown in full; the others are counted.
SHOWN = 20
# A worker is replaced after this many cases, because the memory of a process that refits models for
# hours grows.
CASES_PER_PROCESS = 250


def kind_of(number: int) -> str:
    """Return the kind of a case."""
    return ORDER[number % len(ORDER)]


class Worker:
    """A process that answers cases by one version.

    Parameters
    ----------
    python : path
    home : path
        The folder that the package must come from.
    version : {"old", "new"}
        Whether names are looked up among the renamed ones.
    path : path, default=None
        A folder of sources that are imported instead of what is installed.
    """

    def __init__(
        self, python: Path | str, home: Path, version: str, path: Path | None = None
    ) -> None:
        # Bytecode is kept, whatever the shell says: compiling all takes longer than importing it.
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        variables["PYTHONDONTWRITEBYTECODE"] = ""
        if path is not None:
            variables["PYTHONPATH"] = str(path)
        self._start = (
            [str(python), str(ROOT / "fuzz" / "answering.py"), str(home), version],
            variables,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._n_cases = 0

    def ask(self, kind: str, seed: int) -> None:
        """Send a case."""
        if self._n_cases >= CASES_PER_PROCESS:
            self.close()
        self._n_cases += 1
        if self._process is None:
            command, variables = self._start
            self._process = subprocess.Popen(
                command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert self._process.stdin is not None
        try:
            pickle.dump((kind, seed), self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # told by `answer`

    def answer(self) -> tuple[str, dict[str, Answer]]:
        """Return what was drawn and the answers; a process that died is a refusal."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            answer: tuple[str, dict[str, Answer]] = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            process = self._process
            self.close()
            return "", {
                "case": Answer(
                    Refusal("Died", f"the process ended with exit status {process.returncode}")
                )
            }
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()  # closes its input, at whose end it returns
        self._process = None
        self._n_cases = 0


def old_worker() -> Worker:
    """Return a worker of the version of baseline.txt."""
    python = environment()
    return Worker(python, python.parents[1], "old")


def tree_worker(source: Path | None = None) -> Worker:
    """Return a worker of this tree, or of a copy of its src folder."""
    source = ROOT / "src" if source is None else source
    return Worker(sys.executable, source, "new", source)


@dataclass(frozen=True)
class Difference:
    """A quantity that differs.

    Attributes
    ----------
    quantity : str
    ratio : float
        The largest difference over the allowed one; infinite where something else than a number
        differs.
    note : str
    """

    quantity: str
    ratio: float
    note: str


def differences(old: dict[str, Answer], new: dict[str, Answer]) -> list[Difference]:
    """Return the quantities whose answers differ."""
    unequal = []
    for quantity, answer in old.items():
        other = new.get(quantity)
        if other is None or (
            answer.given is not None and _looked_elsewhere(old, new, answer.given)
        ):
            continue
        worst = max(_compared(answer.value, other.value, answer, ""), default=None)
        if worst is not None and worst[0] > 1:
            unequal.append(Difference(quantity, *worst))
    absent = [name for name in old if name not in new] + [name for name in new if name not in old]
    if absent and not unequal:
        unequal.append(Difference(absent[0], np.inf, "answered by one version only"))
    return unequal


def _looked_elsewhere(old: dict[str, Answer], new: dict[str, Answer], quantity: str) -> bool:
    """Return True where a landscape was computed at other points."""
    values = [versions[quantity].value if quantity in versions else None for versions in (old, new)]
    if (
        not all(isinstance(value, np.ndarray) for value in values)
        or values[0].shape != values[1].shape
    ):
        return False
    return bool((np.isnan(values[0]) != np.isnan(values[1])).any())


def _compared(old: Any, new: Any, answer: Answer, path: str) -> Iterator[tuple[float, str]]:
    """Yield how far values are apart over what is allowed, and in words."""
    if isinstance(old, Refusal) or isinstance(new, Refusal):
        if not (isinstance(old, Refusal) and isinstance(new, Refusal) and old.error == new.error):
            yield np.inf, f"{path}old {_shown(old)}; new {_shown(new)}"
    elif isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield np.inf, f"{path}keys {list(old)} and {list(new)}"
        for key in old:
            if key in new:
                yield from _compared(old[key], new[key], answer, f"{path}{key}: ")
    elif _is_numeric(old) and _is_numeric(new):
        yield from _numbers(np.asarray(old), np.asarray(new), answer, path)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield np.inf, f"{path}length {len(old)} and {len(new)}"
        for place, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _compared(one, other, answer, f"{path}[{place}] ")
    elif type(old) is not type(new) or old != new:
        yield np.inf, f"{path}old {_shown(old)}; new {_shown(new)}"


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, int | float) for part in value)
    return isinstance(value, np.ndarray | int | float)


def _numbers(
    old: np.ndarray, new: np.ndarray, answer: Answer, path: str
) -> Iterator[tuple[float, str]]:
    if old.shape != new.shape:
        yield np.inf, f"{path}shape {old.shape} and {new.shape}"
        return
    if old.dtype != new.dtype:
        yield np.inf, f"{path}dtype {old.dtype} and {new.dtype}"
    old, new = (np.atleast_1d(part).astype(np.float64) for part in (old, new))
    undefined = np.isnan(old), np.isnan(new)
    if not answer.common and (undefined[0] != undefined[1]).any():
        yield np.inf, f"{path}NaN in {undefined[0].sum()} places and in {undefined[1].sum()}"
    known = ~(undefined[0] | undefined[1])
    if not known.any():
        return
    old = old[known]
    new = new[known]
    with np.errstate(invalid="ignore"):
        apart = np.where(old == new, 0.0, np.abs(old - new))
    finite = np.abs(old[np.isfinite(old)])
    allowed = answer.share * max(answer.scale, float(finite.max()) if finite.size else 0.0)
    if apart.max() > 0:
        ratio = float(apart.max() / allowed) if allowed > 0 else np.inf
        worst = int(apart.argmax())
        text = f"{path}{apart.max():.3g} apart ({old[worst]:.10g} and {new[worst]:.10g}), allowed {allowed:.3g}"
        yield ratio, text


def _shown(value: Any) -> str:
    if isinstance(value, Refusal):
        return (
            f"raised {value.error} ({value.message.splitlines()[0][:160] if value.message else ''})"
        )
    return f"returned {str(value)[:80]}"


@dataclass
class Tally:
    """What came of the cases.

    Attributes
    ----------
    cases : Counter of str
        Cases of each kind.
    quantities, refused : Counter of (kind, quantity)
        Answers of both versions, and those that were a refusal.
    errors : Counter of str
        Types of the refusals.
    failed : list of (case, kind, what was drawn, Difference)
    expected : Counter of str
        Differences by their reason.
    ratio : float
        The largest difference over the allowed one among those that are allowed.
    """

    cases: Counter[str] = field(default_factory=Counter)
    quantities: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failed: list[tuple[int, str, str, Difference]] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)

    def count(
        self, number: int, kind: str, what: str, old: dict[str, Answer], new: dict[str, Answer]
    ) -> None:
        """Compare the answers to one case, and count them."""
        self.cases[kind] += 1
        for quantity, answer in old.items():
            self.quantities[kind, quantity] += 1
            if isinstance(answer.value, Refusal):
                self.refused[kind, quantity] += 1
                self.errors[
                    kind, quantity, f"{answer.value.error}: {answer.value.message[:100]}"
                ] += 1
        unequal = differences(old, new)
        case = old.get("case")
        if case is not None and isinstance(case.value, Refusal) and not unequal:
            unequal = [
                Difference(
                    "case", np.inf, f"the case itself fails in both versions: {_shown(case.value)}"
                )
            ]
        for difference in unequal:
            names = (difference.quantity, f"{difference.quantity}, {difference.note}")
            for of_kind, quantity, words, reason in EXPECTED:
                is_meant = any(fnmatch(name, quantity) for name in names)
                if fnmatch(kind, of_kind) and is_meant and fnmatch(what, words):
                    self.expected[reason] += 1
                    break
            else:
                self.failed.append((number, kind, what, difference))


def campaign(
    pairs: list[tuple[Worker, Worker]],
    numbers: list[int],
    only: str | None = None,
    minutes: float = np.inf,
    *,
    patience: int | None = None,
) -> Tally:
    """Let pairs of workers answer cases, until all are done, the time is up or enough differs.

    Parameters
    ----------
    pairs : list of (Worker, Worker)
        Each runs beside the others.
    numbers : list of int
        The cases.
    only : str, default=None
        One kind for all cases.
    minutes : float
    patience : int, default=None
        Stop after so many differences.
    """
    tally, lock, end, left = (
        Tally(),
        threading.Lock(),
        time.monotonic() + 60 * minutes,
        iter(numbers),
    )

    def work(old: Worker, new: Worker) -> None:
        while time.monotonic() < end and (patience is None or len(tally.failed) < patience):
            with lock:
                number = next(left, None)
            if number is None:
                return
            kind = only or kind_of(number)
            old.ask(kind, number)
            new.ask(kind, number)
            what, before = old.answer()
            _, after = new.answer()
            with lock:
                n_before = len(tally.failed)
                tally.count(number, kind, what, before, after)
                for _, _, _, difference in tally.failed[n_before:]:
                    print(
                        f"{kind} case {number}: {difference.quantity}, {difference.note}",
                        file=sys.stderr,
                        flush=True,
                    )
                done = sum(tally.cases.values())
                if done % 500 == 0:
                    print(
                        f"{done} of {len(numbers)} cases, {len(tally.failed)} differences",
                        file=sys.stderr,
                    )

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        end = 0.0
        print("Interrupted: this is what was found so far.")
        for thread in threads:
            thread.join()
    return tally


def show(tally: Tally, console: Console, *, verbose: bool, seconds: float) -> None:
    """Print what differs, how to run it again, and counts."""
    failed = tally.failed if verbose else tally.failed[:SHOWN]
    for number, kind, what, difference in failed:
        console.print(
            f"[bold red]{kind}[/] case {number}: {escape(difference.quantity)}, {escape(difference.note)}",
            soft_wrap=True,
        )
        if np.isfinite(difference.ratio):
            console.print(f"    {difference.ratio:.3g} times what is allowed", soft_wrap=True)
        console.print(f"    {escape(what)}", soft_wrap=True)
        console.print(f"    python fuzz/compare.py --only {kind} --case {number}", soft_wrap=True)
    if len(tally.failed) > len(failed):
        console.print(
            f"... and {len(tally.failed) - len(failed)} more differences (--verbose shows all)"
        )
    if verbose:
        for (kind, quantity), count in sorted(tally.quantities.items()):
            refused = tally.refused[kind, quantity]
            console.print(
                f"{kind:<12} {quantity:<28} {count:>6} answers, {refused:>5} refused",
                highlight=False,
            )
            for (*where, error), times in tally.errors.most_common():
                if where == [kind, quantity]:
                    console.print(
                        f"{'':<16}{times} x {escape(error)}", highlight=False, soft_wrap=True
                    )
    table = Table(title=f"Old against new, {seconds / 60:.1f} minutes")
    for heading in ("kind", "cases", "answers", "refused", "differences"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    rows = []
    for kind, cases in sorted(tally.cases.items()):
        answers, refused = (
            sum(times for (of_kind, _), times in counts.items() if of_kind == kind)
            for counts in (tally.quantities, tally.refused)
        )
        n_failed = sum(of_kind == kind for _, of_kind, _, _ in tally.failed)
        rows.append((cases, answers, refused, n_failed))
        table.add_row(kind, *map(str, rows[-1]))
    table.add_section()
    table.add_row("all", *(str(sum(column)) for column in zip(*rows, strict=True)))
    console.print(table)
    for reason, count in tally.expected.most_common():
        console.print(
            f"  expected {count} times: {escape(reason)}", highlight=False, soft_wrap=True
        )


def main() -> int:
    """Run the campaign and return 1 where anything differs that is not expected."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many minutes")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--case", type=int, help="this case only")
    parser.add_argument(
        "--only", choices=sorted(KINDS), metavar="KIND", help=f"one of {', '.join(sorted(KINDS))}"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="pairs of processes at once (default: 1)"
    )
    parser.add_argument(
        "--same", action="store_true", help="this tree against itself, without the old version"
    )
    parser.add_argument(
        "--plant", nargs="*", metavar="PACKAGE", help="plant faults, of some packages or of all"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show every difference, and what was answered how often",
    )
    arguments = parser.parse_args()
    console = Console(soft_wrap=False)
    if arguments.plant is not None:
        import planting

        return planting.main(arguments.plant, arguments.cases, arguments.seed, console)
    if arguments.case is None:
        numbers = list(range(arguments.seed, arguments.seed + arguments.cases))
    else:
        numbers = [arguments.case]
    if not arguments.same:
        console.print(
            f"{baseline()[:9]} against {ROOT / 'src'}, cases from {numbers[0]} on.", highlight=False
        )
    began = time.monotonic()
    pairs = [
        (tree_worker() if arguments.same else old_worker(), tree_worker())
        for _ in range(arguments.jobs)
    ]
    tally = campaign(pairs, numbers, arguments.only, arguments.minutes)
    for worker in (worker for pair in pairs for worker in pair):
        worker.close()
    show(tally, console, verbose=arguments.verbose, seconds=time.monotonic() - began)
    return int(bool(tally.failed))


if __name__ == "__main__":
    sys.exit(main())
