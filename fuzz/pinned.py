"""Figures that must stay: Table 2 of the paper and three records, computed again and compared with `pinned.json`.

    python fuzz/pinned.py                 # all, some minutes on two cores
    python fuzz/pinned.py table2 gpcr     # some

`pinned.json` has for each the command, the figures with the tolerance, and how long it took. It
also has the ratios of `make bench`, which are compared by eye: they are speed. Data are read from
../shared/data, as by the experiments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

__all__: list[str] = []

ROOT = Path(__file__).resolve().parents[1]
PINNED = ROOT / "fuzz" / "pinned.json"


def figures(name: str, command: list[str]) -> dict[str, float]:
    """Run a command of an experiment and return its figures by their names."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        script, *options = [str(out) if part == "OUT" else part for part in command]
        # Descent on the kernels amplifies rounding, which differs between numbers of threads.
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        variables = {**os.environ, **threads, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(
            [sys.executable, str(ROOT / script), *options], check=True, env=variables, cwd=ROOT
        )
        if name == "table2":
            cells = json.loads(out.read_text())["cells"]
            return {
                f"{cell['setting']} {cell['method']} {cell['set']}": cell["auc"] for cell in cells
            }
        scores: dict[str, float] = json.loads(out.read_text())["scores"]
        return scores


def compared(name: str, pinned: dict[str, Any]) -> bool:
    """Compute the figures of one entry again, print what differs, and return whether all agree."""
    began = time.monotonic()
    measured = figures(name, pinned["command"])
    wrong = []
    for figure, value in pinned["figures"].items():
        if figure not in measured:
            wrong.append(f"{figure} is missing")
        elif abs(measured[figure] - value) > pinned["tolerance"]:
            wrong.append(f"{figure} is {measured[figure]:.6g}, pinned {value:.6g}")
    minutes = (time.monotonic() - began) / 60
    print(f"{name}: {len(pinned['figures'])} figures, {len(wrong)} differ, {minutes:.1f} minutes")
    for line in wrong:
        print(f"    {line}")
    return not wrong


def main() -> int:
    """Compare and return 1 where a figure differs."""
    pinned = json.loads(PINNED.read_text())["computed"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(pinned)} (default: all)"
    )
    names = parser.parse_args().names or list(pinned)
    unknown = [name for name in names if name not in pinned]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}: choose among {', '.join(pinned)}")
    agreed = [compared(name, pinned[name]) for name in names]
    return int(not all(agreed))


if __name__ == "__main__":
    sys.exit(main())
