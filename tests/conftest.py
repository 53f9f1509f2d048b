"""What all tests share: the array libraries to compute in, tables of cases, and where the real data lies."""

import gc
import multiprocessing
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.random import default_rng

# What collecting makes stays until the end: it is not searched for garbage, which would take a
# tenth of the time.
gc.disable()

Case = TypeVar("Case")


@dataclass(frozen=True)
class Library:
    """An array library at one precision, with the tolerance that precision allows.

    Attributes
    ----------
    name : str
        What the test id shows.
    asarray : callable
        Takes numpy values to an array of this library and dtype.
    to_numpy : callable
        Takes an array of this library back to numpy, by a way of its own.
    rtol : float
        The relative error a well-conditioned computation may have.
    dtype : str
        "float64" or "float32".
    """

    name: str
    asarray: Callable[[Any], Any]
    to_numpy: Callable[[Any], np.ndarray]
    rtol: float
    dtype: str = "float64"


def _numpy64() -> Library:
    return Library("numpy", lambda values: np.asarray(values, dtype=np.float64), np.asarray, 1e-9)


def _numpy32() -> Library:
    return Library(
        "numpy-float32",
        lambda values: np.asarray(values, dtype=np.float32),
        np.asarray,
        1e-3,
        "float32",
    )


def _strict() -> Library:
    strict = pytest.importorskip("array_api_strict")
    return Library(
        "array-api-strict",
        lambda values: strict.asarray(np.asarray(values), dtype=strict.float64),
        np.from_dlpack,
        1e-9,
    )


def _torch() -> Library:
    torch = pytest.importorskip("torch", reason="torch is not installed: its arrays are not tested")
    return Library(
        "torch",
        lambda values: torch.as_tensor(np.asarray(values), dtype=torch.float64),
        lambda tensor: tensor.detach().cpu().numpy(),
        1e-9,
    )


_LIBRARIES = {
    "numpy": _numpy64,
    "numpy-float32": _numpy32,
    "array-api-strict": _strict,
    "torch": _torch,
}


@pytest.fixture(params=list(_LIBRARIES))
def library(request: pytest.FixtureRequest) -> Library:
    """Run the test once for every array library that is installed."""
    return _LIBRARIES[request.param]()


@pytest.fixture
def each(request: pytest.FixtureRequest) -> Callable[[Iterable[Case]], Iterator[Case]]:
    """Give a loop over a table of cases: where one fails, the report says which."""
    current: list[Any] = []
    request.node.stash[_CURRENT] = current

    def loop(cases: Iterable[Case]) -> Iterator[Case]:
        depth = len(current)
        n_cases = 0
        for case in cases:
            n_cases += 1
            current[depth:] = [case]
            yield case
        del current[depth:]
        assert n_cases, "a table without cases tests nothing"

    return loop


_CURRENT = pytest.StashKey[list[Any]]()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Look for examples in docstrings in the library only, not in the tests."""
    found = yield
    return [each for each in found if type(each).__name__ != "DoctestModule"]


def pytest_collection_finish() -> None:
    """Search what the tests make for garbage, but not what is there before them."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Name the cases that the loops of a failed test were at."""
    report = yield
    if report.when == "call" and report.failed and item.stash.get(_CURRENT, []):
        report.sections.append(
            ("Failed at", "\n".join(f"{case!r:.500}" for case in item.stash[_CURRENT]))
        )
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each reason of skips, with the number of tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5d}  {reason}")


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks() -> Iterator[None]:
    """Leave files in the cache of the system; a test of what is written when watches the calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _processes_that_start_quickly() -> None:
    """Fork the workers of joblib from a process that has imported the library, which takes a second."""
    from joblib.externals.loky.backend import context

    if "forkserver" in multiprocessing.get_all_start_methods():
        context.set_start_method("forkserver", force=True)
        multiprocessing.set_forkserver_preload(["dyadlearn.models.grid", "distributed"])


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Handle Ctrl-C as Python does: a shell starts commands in the background that ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Give the folder of real data beside the checkout; without it the test is skipped, and says so."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data: ../shared/data does not lie beside the checkout")
    return folder


@pytest.fixture(scope="session")
def real():
    """Features of 24 instances and 16 tasks with real labels."""
    rng = default_rng(0)
    X = rng.normal(size=(24, 5))
    T = rng.normal(size=(16, 4))
    return X, X @ rng.normal(size=(5, 4)) @ T.T + 2 * rng.normal(size=(24, 16)), T


@pytest.fixture(scope="session")
def binary(real):
    """The same with labels of two values."""
    X, Y, T = real
    return X, (Y > 1.5).astype(float), T


@pytest.fixture(scope="session")
def ridge(real):
    """A model of real labels that nobody may change."""
    from dyadlearn import TwoStepRidge

    X, Y, T = real
    return TwoStepRidge().fit(X, Y, T)


@pytest.fixture(scope="session")
def binary_ridge(binary):
    """A model of two-valued labels that nobody may change."""
    from dyadlearn import TwoStepRidge

    X, Y, T = binary
    return TwoStepRidge().fit(X, Y, T)


@pytest.fixture(scope="session")
def holes(real):
    """The same with a third of the labels missing."""
    X, Y, T = real
    return X, np.where(default_rng(1).random(Y.shape) < 0.3, np.nan, Y), T


@pytest.fixture(scope="session")
def searched(binary):
    """A model of two-valued labels that was chosen for setting D."""
    from dyadlearn import TwoStepRidgeCV
    from dyadlearn.exceptions import GridEdgeWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        X, Y, T = binary
        return TwoStepRidgeCV([0.01, 0.1, 1, 10], [0.1, 1, 10], setting="D", scoring="roc_auc").fit(
            X, Y, T
        )
