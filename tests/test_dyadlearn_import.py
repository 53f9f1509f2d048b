"""Importing the package loads nothing that is optional or that only the command line needs."""

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
    "h5py",
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

# What is done one after the other in a fresh interpreter where none of them can be imported.
STEPS = {
    "import": """
import dyadlearn, dyadlearn.datasets, dyadlearn.filters, dyadlearn.kernels
assert "dyadlearn.views" not in sys.modules, "what pages and plots show is loaded by those who look only"
""",
    "optional kernels": "import dyadlearn.kernels.chemistry, dyadlearn.kernels.sequences",
    "plots": "import dyadlearn.plots",
    "fit": """
import numpy as np
X = np.arange(6.0).reshape(3, 2)
dyadlearn.TwoStepRidge().fit(X, X, tasks=np.eye(2)).predict(X)
""",
    "embedded data": "dyadlearn.datasets.load_debtags()",
    "command line": """
try:
    import dyadlearn.cli
except ModuleNotFoundError as error:
    assert error.name == "typer", error
else:
    raise AssertionError("typer is needed for nothing")
""",
    "unwanted": """
try:
    import pandas.testing
except ModuleNotFoundError:
    pass
""",
}
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
found = {{}}
for name, statements in {steps!r}.items():
    asked.clear()
    exec(statements, globals())
    found[name] = list(asked)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def asked():
    """Return which package asks for which unwanted module in which step."""
    script = SCRIPT.format(unwanted=set(UNWANTED), steps=STEPS)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # scikit-learn itself looks for pandas and rich, and does without them; that is not ours to
    # change.
    return {
        name: {(importer, module) for importer, module in pairs if importer != "sklearn"}
        for name, pairs in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize(
    "step", [step for step in STEPS if step not in ("command line", "unwanted")]
)
def test_nothing_optional_is_loaded(asked, step):
    assert not asked[step]


def test_only_the_command_line_needs_typer(asked):
    assert ("dyadlearn", "typer") in asked["command line"]


def test_an_unwanted_import_would_be_seen(asked):
    assert asked["unwanted"] == {("__main__", "pandas")}


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
