"""The standing campaign: random cases against independent references, and hostile files against the readers.

Every generator draws one case after the other, numbered by consecutive seeds, until the time is up.
All that is random about a case comes from the name of its generator and its seed, so that a failure
can be played again alone:

    python fuzz/run.py [--minutes 3] [--seed N] [--only NAME ...] [--cases N]
    python fuzz/run.py --only two_step --seed 1234 --cases 1
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # the matrices are tiny; must be set before numpy is imported

import commanding  # noqa: E402, F401
import fitting  # noqa: E402, F401
import scaling  # noqa: E402, F401
import scoring  # noqa: E402, F401
import searching  # noqa: E402, F401
import splitting  # noqa: E402, F401
import storing  # noqa: E402, F401
import units  # noqa: E402, F401
from campaign import GENERATORS, Outcome, play  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: E402
from rich.table import Table  # noqa: E402

import growing  # noqa: E402, F401

# Failures shown in full for each generator; the others are counted.
SHOWN = 10


@dataclass
class Tally:
    """What came of the cases of one generator."""

    cases: int = 0
    agreed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, Outcome]] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, seed: int, outcome: Outcome) -> None:
        """Count one case."""
        self.cases += 1
        self.agreed += outcome.verdict == "agreed"
        if outcome.verdict == "refused":
            self.refused[outcome.note] += 1
        elif outcome.verdict == "failed":
            self.failed.append((seed, outcome))


def campaign(
    names: list[str], seed: int, minutes: float, cases: int | None, console: Console
) -> dict[str, Tally]:
    """Play the generators in turns until the time is up, all cases are played, or somebody interrupts."""
    tallies = {name: Tally() for name in names}
    start = time.monotonic()
    end = time.monotonic() + 60 * minutes
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as progress:
        bar = progress.add_task("fuzzing", total=60 * minutes, figures="")
        try:
            while any(cases is None or tally.cases < cases for tally in tallies.values()):
                # The generator that has had least time goes next, so that slow ones do not starve
                # the others.
                open_ = [
                    name for name, tally in tallies.items() if cases is None or tally.cases < cases
                ]
                name = min(open_, key=lambda name: tallies[name].seconds)
                tally, began = tallies[name], time.monotonic()
                case = seed + tally.cases
                tally.count(case, play(name, case))
                now = time.monotonic()
                tally.seconds += now - began
                done, failed = (
                    sum(figures)
                    for figures in zip(
                        *((t.cases, len(t.failed)) for t in tallies.values()), strict=True
                    )
                )
                progress.update(
                    bar, completed=now - start, figures=f"{done} cases, {failed} failures"
                )
                if now > end and cases is None:
                    break
        except KeyboardInterrupt:
            console.print("Interrupted: this is what was found so far.")
    return tallies


def show(tallies: dict[str, Tally], console: Console, verbose: bool) -> None:
    """Print what failed and how to play it again, and a table of counts."""
    for name, tally in tallies.items():
        for seed, outcome in tally.failed if verbose else tally.failed[:SHOWN]:
            console.print(
                f"[bold red]{name}[/] seed {seed}: {escape(outcome.note)}", soft_wrap=True
            )
            console.print(f"    {escape(outcome.what)}", soft_wrap=True)
            console.print(
                f"    python fuzz/run.py --only {name} --seed {seed} --cases 1", soft_wrap=True
            )
            if verbose and outcome.trace:
                console.print(escape(outcome.trace), soft_wrap=True)
        if len(tally.failed) > SHOWN and not verbose:
            rest = ", ".join(str(seed) for seed, _ in tally.failed[SHOWN : SHOWN + 20])
            console.print(
                f"[bold red]{name}[/] {len(tally.failed) - SHOWN} more failures, seeds {rest} …",
                soft_wrap=True,
            )
    table = Table(title="Campaign")
    for heading in ("generator", "cases", "agreed", "refused", "failures"):
        table.add_column(heading, justify="left" if heading == "generator" else "right")
    for name, tally in tallies.items():
        figures = (tally.cases, tally.agreed, sum(tally.refused.values()), len(tally.failed))
        table.add_row(name, *map(str, figures))
    if len(tallies) > 1:
        sums = [
            sum(figures)
            for figures in zip(
                *(
                    (t.cases, t.agreed, sum(t.refused.values()), len(t.failed))
                    for t in tallies.values()
                ),
                strict=True,
            )
        ]
        table.add_section()
        table.add_row("all", *map(str, sums))
    console.print(table)
    reasons = Counter[str]()
    for tally in tallies.values():
        reasons.update(tally.refused)
    for reason, count in reasons.most_common():
        console.print(f"  refused {count} times: {escape(reason)}", highlight=False, soft_wrap=True)


def main() -> int:
    """Run the campaign, print what was found, and return 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="how long (default: 3)")
    parser.add_argument(
        "--seed",
        type=int,
        help="of the first case of every generator (default: a new one each time)",
    )
    parser.add_argument("--cases", type=int, help="cases of each generator, however long they take")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(GENERATORS), metavar="NAME", help="some generators only"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show every failure, with its traceback"
    )
    parser.add_argument("--list", action="store_true", help="list the generators")
    arguments = parser.parse_args()
    console = Console(soft_wrap=False)
    if arguments.list:
        for name, function in GENERATORS.items():
            console.print(f"{name:<18} {(function.__doc__ or '').splitlines()[0]}", highlight=False)
        return 0
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    console.print(f"Seeds from {seed} on.", highlight=False)
    single = arguments.cases == 1
    tallies = campaign(
        arguments.only or list(GENERATORS), seed, arguments.minutes, arguments.cases, console
    )
    show(tallies, console, arguments.verbose or single)
    return int(any(tally.failed for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
