"""Importing the package loads nothing that is optional or that only the command line needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Modules that a user may not have, or that cost time and are not needed to fit a model.
UNWANTED = [
    "Bio",
    "array_api_strict",
    "cupy",
    "dask",
    "distributed",
    "jax",
    "matplotlib",
    "pandas",
    "parasail",
    "playwright",
    "polars",
    "pyarrow",
    "rdkit",
    "rich",
    "torch",
    "typer",
]

# In a fresh interpreter where none of them can be imported, note who asks for one.
SCRIPT = """
import json, sys

asked = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {unwanted!r}:
            frame = sys._getframe(1)
            while "importlib" in frame.f_globals["__name__"]:
                frame = frame.f_back
            asked.append((frame.f_globals["__name__"].partition(".")[0], name.partition(".")[0]))
            raise ModuleNotFoundError(name + " is not there in this test", name=name)

sys.meta_path.insert(0, Watch())
{statements}
print(json.dumps(asked))
"""


def unwanted_imports(statements: str) -> set[tuple[str, str]]:
    """Return which package asks for which unwanted module while `statements` run."""
    script = SCRIPT.format(unwanted=set(UNWANTED), statements=statements)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {(importer, module) for importer, module in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "statements",
    [
        "import dyadlearn, dyadlearn.datasets, dyadlearn.filters, dyadlearn.kernels",
        "import numpy as np, dyadlearn\n"
        "X = np.arange(6.0).reshape(3, 2)\n"
        "dyadlearn.TwoStepRidge().fit(X, X, tasks=np.eye(2)).predict(X)",
    ],
    ids=["import", "fit"],
)
def test_nothing_optional_is_loaded(statements):
    # scikit-learn itself looks for pandas and rich, and does without them; that is not ours to change.
    ours = {(importer, module) for importer, module in unwanted_imports(statements) if importer != "sklearn"}
    assert not ours


def test_an_unwanted_import_would_be_seen():
    tried = "try:\n    import pandas.testing\nexcept ImportError:\n    pass"
    assert ("__main__", "pandas") in unwanted_imports(tried)


def test_every_public_name_is_there():
    import dyadlearn

    assert dyadlearn.__all__
    assert [name for name in dyadlearn.__all__ if not hasattr(dyadlearn, name)] == []


def test_version_is_that_of_the_installed_package():
    from importlib.metadata import PackageNotFoundError, version

    import dyadlearn

    try:
        installed = version("dyadlearn")
    except PackageNotFoundError:
        pytest.skip("dyadlearn runs from a folder and is not installed")
    assert dyadlearn.__version__ == installed
