"""A worker of `compare.py`: imports one version of the library and answers cases until its input ends.

The first argument is the folder that `dyadlearn` must be imported from, the second "old" or "new".
A request is a pickled pair of kind and seed, an answer what `cases.answer` returns.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

__all__: list[str] = []


def main() -> None:
    """Answer requests from the standard input."""
    home = Path(sys.argv[1]).resolve()
    version = sys.argv[2]
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # whatever is printed must not get between the answers
    import cases
    import changes
    import kinds  # noqa: F401

    import dyadlearn

    imported = Path(dyadlearn.__file__).resolve()
    if home not in imported.parents:
        raise SystemExit(f"dyadlearn was imported from {imported}, not from {home}.")
    lib = cases.Library(changes.RENAMED if version == "new" else {})
    while True:
        try:
            kind, seed = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(cases.answer(kind, seed, lib), answers)
        answers.flush()


if __name__ == "__main__":
    main()
