"""The examples in docstrings run only where the optional package that they show is installed."""

from __future__ import annotations

from importlib.util import find_spec

DISPLAYS = ("grid", "holdout", "landscape", "learning", "permutation", "spectrum")
NEEDS = {
    **{f"dyadlearn/plots/{room}.py": ("matplotlib",) for room in DISPLAYS},
    **{
        f"dyadlearn/plots/{room}.py": ("matplotlib",)
        for room in ("grid", "holdout", "landscape", "learning", "spectrum")
    },
    "dyadlearn/distributed.py": ("dask",),
    "dyadlearn/kernels/chemistry.py": ("rdkit",),
    "dyadlearn/kernels/sequences.py": ("parasail", "Bio"),
    "dyadlearn/streams.py": ("polars",),
}

collect_ignore = [
    path for path, packages in NEEDS.items() if not any(find_spec(package) for package in packages)
]
