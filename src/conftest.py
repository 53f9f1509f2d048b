"""The examples in docstrings run where the optional package that they show is installed, in modules imported once."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent
DISPLAYS = ("grid", "holdout", "landscape", "learning", "permutation", "spectrum")
NEEDS = {
    **{f"dyadlearn/plots/{room}.py": ("matplotlib",) for room in DISPLAYS},
    "dyadlearn/distributed.py": ("dask",),
    "dyadlearn/kernels/chemistry.py": ("rdkit",),
    "dyadlearn/kernels/sequences.py": ("parasail", "Bio"),
    "dyadlearn/streams.py": ("polars",),
}

collect_ignore = [
    path for path, packages in NEEDS.items() if not any(find_spec(package) for package in packages)
]


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import a module by its name before pytest does so by its file.

    Pytest executes a file again if the package of the module imports the module first. Then its
    classes are not those of the package.
    """
    if isinstance(collector, pytest.Module):
        name = ".".join(collector.path.relative_to(SOURCE).with_suffix("").parts)
        with suppress(ImportError):  # pytest reports it
            import_module(name.removesuffix(".__init__"))
