"""How long `import dyadlearn` takes beside `import sklearn.linear_model`.

Each import runs in a fresh interpreter, in turns, after one round that only warms the disk's cache.

    python benchmarks/imports.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import subprocess
import sys

import numpy as np
import sklearn

import dyadlearn

TARGET = 1.5


def import_seconds(module: str) -> float:
    """Return the seconds that importing `module` takes in a fresh interpreter, its start not counted."""
    script = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Measure, print, and return 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="interleaved repeats (default: 15)")
    arguments = parser.parse_args()

    pairs = [
        (import_seconds("dyadlearn"), import_seconds("sklearn.linear_model")) for _ in range(arguments.repeats + 1)
    ][1:]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print("import in a fresh interpreter")
    print(f"  dyadlearn                {ours:8.3f} s")
    print(f"  sklearn.linear_model     {theirs:8.3f} s")
    print(f"  ratio                    {ratio:8.2f}     target <= {TARGET}")
    print(
        f"  {datetime.date.today()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}, dyadlearn {dyadlearn.__version__}"
    )
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())
