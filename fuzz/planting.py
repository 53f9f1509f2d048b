"""Faults that the comparison of old and new must find, one or more for each package.

A fault is a line of the library, wherever it stands, and what it is replaced by. A line that is no
longer there is an error: take another of the same meaning. `python fuzz/compare.py --plant`
compares the tree with copies of it that have one fault each, and `--plant holdout metrics` takes
those of some packages only.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compare import ORDER, campaign, tree_worker
from old import ROOT
from rich.console import Console
from rich.markup import escape

__all__ = ["FAULTS", "Fault", "main", "place", "planted", "read_texts"]


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes
    ----------
    package : str
        The package or module that it is in now.
    line, wrong : str
        A piece of its source that occurs once, and what takes its place.
    kinds : tuple of str
        Kinds of cases that it concerns, which are tried first.
    """

    package: str
    line: str
    wrong: str
    kinds: tuple[str, ...] = ("models",)


FAULTS = (
    Fault(
        "pairing",
        "return rows.remainder[:, None] + kept * columns.remainder[None, :]",
        "return rows.remainder[:, None] + 1.001 * kept * columns.remainder[None, :]",
    ),
    Fault(
        "pairing", "            rotated *= product\n", "            rotated *= 1.001 * product\n"
    ),
    Fault(
        "pairing",
        "diagonal = diagonal + sign * factor * grid * grid",
        "diagonal = diagonal + 1.001 * sign * factor * grid * grid",
    ),
    Fault(
        "holes",
        "return block + matrices.ridge * identity(block) / column.scale",
        "return block + 1.001 * matrices.ridge * identity(block) / column.scale",
    ),
    Fault(
        "holes",
        'return Completion(solution.values, "missing", solution)',
        'return Completion(1.001 * solution.values, "missing", solution)',
    ),
    Fault(
        "observed",
        "penalties = zeros((int(scale.shape[1]),), left) + operators.ridge",
        "penalties = zeros((int(scale.shape[1]),), left) + 1.001 * operators.ridge",
        ("listed",),
    ),
    Fault(
        "observed",
        "return self._gathered(self._values(function)) + ridge * function",
        "return self._gathered(self._values(function)) + 1.001 * ridge * function",
        ("listed",),
    ),
    Fault(
        "holdout",
        "widths = (1.0 + self._distances[0])[:, None] ** 0.5",
        "widths = (1.001 + self._distances[0])[:, None] ** 0.5",
    ),
    Fault(
        "holdout",
        "return completion, take_rows(flat, fold.test)",
        "return completion, 1.001 * take_rows(flat, fold.test)",
    ),
    Fault(
        "holdout",
        "grand = cells.mean_of_others(cells.together, codes)",
        "grand = 1.001 * cells.mean_of_others(cells.together, codes)",
        ("metrics",),
    ),
    Fault(
        "metrics",
        "return xp.astype(won, xp.float64) / xp.astype(self._twice_pairs, xp.float64)",
        "return 1.001 * xp.astype(won, xp.float64) / xp.astype(self._twice_pairs, xp.float64)",
        ("metrics",),
    ),
    Fault(
        "metrics", "        return gap * gap\n", "        return 1.001 * gap * gap\n", ("metrics",)
    ),
    Fault(
        "kernels",
        "right = double(B) * (2.0 * gamma)",
        "right = double(B) * (2.002 * gamma)",
        ("kernels",),
    ),
    Fault(
        "models",
        "xp.where(xp.isnan(labels), predicted, labels)",
        "xp.where(xp.isnan(labels), 1.001 * predicted, labels)",
    ),
    Fault(
        "models",
        "            rows = self._kernel_of(rows)\n",
        "            rows = 1.001 * self._kernel_of(rows)\n",
    ),
    Fault(
        "selection",
        "scores = {setting: self.of_errors[setting](squares) for setting, squares in errors.items()}",
        "scores = {setting: 1.001 * self.of_errors[setting](squares) for setting, squares in "
        "errors.items()}",
        ("searches",),
    ),
    Fault(
        "selection",
        "return float(self._prepared(held_out))",
        "return 1.001 * float(self._prepared(held_out))",
        ("searches",),
    ),
    Fault(
        "learning",
        "return np.asarray((1 - len(logits) * _LEAST_WEIGHT) * softmax(logits) + _LEAST_WEIGHT)",
        "return np.asarray((1 - len(logits) * _LEAST_WEIGHT) * softmax(1.001 * logits) + 1.001 * "
        "_LEAST_WEIGHT)",
        ("learned",),
    ),
    Fault(
        "growing",
        "half = self._solve(first, self.alpha, known.over_tasks(first.cross))",
        "half = 1.001 * self._solve(first, self.alpha, known.over_tasks(first.cross))",
        ("online",),
    ),
    Fault(
        "growing",
        "model = self.model.with_rows(Phi, batch.labels, -1)",
        "model = self.model.with_rows(Phi, 1.001 * batch.labels, -1)",
        ("online",),
    ),
    Fault(
        "diagnostics",
        "parts = labels.values * listed",
        "parts = 1.001 * labels.values * listed",
        ("answers",),
    ),
    Fault(
        "diagnostics",
        "return (1 + n_as_good) / (1 + len(null))",
        "return (0 + n_as_good) / (1 + len(null))",
        ("answers",),
    ),
    Fault(
        "diagnostics",
        "contradiction = contradictions(self.labels, self.predictions)",
        "contradiction = contradictions(self.labels, self.predictions) * 1.001",
        ("answers",),
    ),
    Fault(
        "store",
        "            if math.isfinite(value):\n                return value\n",
        "            if math.isfinite(value):\n                return 1.001 * value\n",
        ("files",),
    ),
    Fault(
        "spectrum",
        "return (self.vectors * weights) @ self.vectors.T",
        "return (self.vectors * (1.001 * weights)) @ self.vectors.T",
    ),
    Fault(
        "filters",
        "return -xp.expm1(-self.n_iter * xp.log1p(values / alpha))",
        "return -xp.expm1(-1.001 * self.n_iter * xp.log1p(values / alpha))",
    ),
)


def place(fault: Fault, source: Path, texts: dict[Path, str]) -> Path:
    """Return the file below a folder whose text has the line of a fault; an error where that does not occur once."""
    count = sum(text.count(fault.line) for text in texts.values())
    if count != 1:
        raise ValueError(
            f"The fault of {fault.package} needs a line that occurs once in {source}, but this one "
            f"occurs {count} "
            f"times: {fault.line.strip()}"
        )
    return next(path for path, text in texts.items() if fault.line in text)


def read_texts(source: Path) -> dict[Path, str]:
    """Return the text of every module below a folder."""
    return {path: path.read_text() for path in sorted(source.rglob("*.py"))}


@contextmanager
def planted(fault: Fault) -> Iterator[Path]:
    """Yield the folder of a copy of src with one fault."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        path = place(fault, copy, read_texts(copy))
        path.write_text(path.read_text().replace(fault.line, fault.wrong))
        yield copy


def main(packages: list[str], cases: int, seed: int, console: Console) -> int:
    """Compare the tree with copies that have a fault; return 1 where a fault is not found."""
    unknown = set(packages) - {fault.package for fault in FAULTS}
    if unknown:
        raise SystemExit(f"No fault is planted in {', '.join(sorted(unknown))}.")
    sound = tree_worker()
    missed = 0
    for fault in FAULTS:
        if packages and fault.package not in packages:
            continue
        began = time.monotonic()
        # Cases of the kinds that it concerns first, then all.
        first = [
            number
            for number in range(seed, seed + 40 * len(ORDER))
            if ORDER[number % len(ORDER)] in fault.kinds
        ]
        numbers = list(dict.fromkeys(first + list(range(seed, seed + cases))))[:cases]
        with planted(fault) as source:
            wrong = tree_worker(source)
            tally = campaign([(sound, wrong)], numbers, patience=1)
            wrong.close()
        count = sum(tally.cases.values())
        seconds = time.monotonic() - began
        if tally.failed:
            number, kind, _, difference = tally.failed[0]
            where = f"{kind} case {number}, {difference.quantity}"
            console.print(
                f"[green]found[/] {fault.package:<12} after {count:>4} cases, {seconds:.0f} s: "
                f"{escape(where)}"
            )
        else:
            missed += 1
            line = fault.line.strip()
            console.print(
                f"[bold red]missed[/] {fault.package:<11} in {count} cases, {seconds:.0f} s: "
                f"{escape(line)}"
            )
    sound.close()
    console.print(f"{missed} faults were missed." if missed else "All faults were found.")
    return int(missed > 0)
