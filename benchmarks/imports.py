"""How long `import dyadlearn` takes beside `import sklearn.linear_model`.

Each import runs in a fresh interpreter, in turns, after one round that only warms the disk's cache.

    python benchmarks/imports.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from measuring import row, versions

TARGET = 1.5


def import_seconds(module: str) -> float:
    """Return the seconds that importing `module` takes in a fresh interpreter, its start not counted."""
    script = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> int:
    """Measure, print, and return 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="interleaved repeats (default: 15)")
    arguments = parser.parse_args()

    pairs = [
        (import_seconds("dyadlearn"), import_seconds("sklearn.linear_model"))
        for _ in range(arguments.repeats + 1)
    ][1:]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    print("Import in a fresh interpreter")
    print(row("dyadlearn over sklearn.linear_model", ratio, f"target <= {TARGET}"))
    print(versions())
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())
