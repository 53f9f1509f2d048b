"""What is free is read from the files of the system, whatever kind of control groups it has."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from dyadlearn import (
    KroneckerRidge,
    TwoStepRidge,
    _memory,
    explain,
    landscape,
)
from dyadlearn._memory import (
    available_memory,
    cgroup_memory,
    check_memory,
    host_memory,
    machine_memory,
    process_memory,
)
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.kernels import Landmarks, diffusion_kernel
from dyadlearn.pairing.remembering import last_inverse
from sweeps import lines, over
from telling import taken, told

GIB = 2**30


def write(root, files):
    """Write small files under a folder that stands for the root of a file system."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def version_1(folder, limit, used, cached=0):
    folder = f"sys/fs/cgroup/memory{folder}"
    return {
        f"{folder}/memory.limit_in_bytes": limit,
        f"{folder}/memory.usage_in_bytes": used,
        f"{folder}/memory.stat": f"cache {9 * GIB}\ntotal_inactive_file "
        f"{cached}\ntotal_active_file 0",
    }


def version_2(folder, limit, used, cached=0):
    folder = f"sys/fs/cgroup{folder}"
    return {
        f"{folder}/memory.max": limit,
        f"{folder}/memory.current": used,
        f"{folder}/memory.stat": f"anon {used}\ninactive_file {cached // 2}\nactive_file "
        f"{cached - cached // 2}",
    }


NO_LIMIT = 9223372036854771712
V1 = "5:cpu:/else\n4:memory:/a/b\n0::/"
V2 = "0::/a/b"
SHARED = "7:cpu,memory:/a/b"
CASES = {
    "no groups": ({}, None),
    "v1, the one around is tighter": (
        {
            "proc/self/cgroup": V1,
            **version_1("/a/b", 4 * GIB, GIB),
            **version_1("/a", 5 * GIB, 3 * GIB),
        },
        2 * GIB,
    ),
    "v1, files in the cache can be dropped": (
        {"proc/self/cgroup": V1, **version_1("/a/b", 4 * GIB, 3 * GIB, 2 * GIB)},
        3 * GIB,
    ),
    "v2, the outermost is tightest": (
        {
            "proc/self/cgroup": V2,
            **version_2("/a/b", "max", GIB),
            **version_2("", 3 * GIB, 2 * GIB),
        },
        GIB,
    ),
    "v2, outside of the namespace": (
        {"proc/self/cgroup": "0::/../c", **version_2("", 4 * GIB, GIB)},
        3 * GIB,
    ),
    "v2, files in the cache can be dropped": (
        {"proc/self/cgroup": V2, **version_2("/a/b", 4 * GIB, 4 * GIB, GIB)},
        GIB,
    ),
    "both, v2 in a folder of its own": (
        {
            "proc/self/cgroup": V1,
            **version_1("/a/b", 4 * GIB, GIB),
            **version_2("/unified", 2 * GIB, GIB),
        },
        GIB,
    ),
    "nonsense": ({"proc/self/cgroup": "what\n0::/a", "sys/fs/cgroup/a/memory.max": "??"}, None),
}


@over(lines("files expected", *CASES.values()))
def test_what_control_groups_leave(files, expected, tmp_path):
    assert cgroup_memory(write(tmp_path, files)) == expected


def test_what_the_machine_has(tmp_path):
    write(tmp_path, {"proc/meminfo": "MemTotal:  16 kB\nMemFree:  4 kB\nMemAvailable:  12 kB"})
    assert machine_memory(tmp_path) == 12 * 1024


def test_a_machine_without_such_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sysconf_names", {"SC_AVPHYS_PAGES": 86}, raising=False)
    monkeypatch.setattr(
        os, "sysconf", {"SC_AVPHYS_PAGES": 5, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False
    )
    assert machine_memory(tmp_path) == 5 * 4096
    monkeypatch.delattr(os, "sysconf")
    assert machine_memory(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="pages are of Unix")
@over(
    lines(
        "limits expected",
        ((None, None), None),
        ((100, None), 90),
        ((None, 100), 60),
        ((100, 100), 60),
        ((5, None), 0),
    )
)
def test_what_the_limits_of_the_process_leave(limits, expected, tmp_path):
    page = os.sysconf("SC_PAGE_SIZE")
    write(tmp_path, {"proc/self/statm": "10 9 8 7 0 40 0"})
    in_bytes = tuple(None if limit is None else limit * page for limit in limits)
    assert process_memory(tmp_path, in_bytes) == (None if expected is None else expected * page)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of addresses are kept on Linux")
def test_a_limit_of_addresses_counts(monkeypatch):
    import resource

    monkeypatch.setattr(_memory, "_FRESH", -1.0)
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + GIB, before[1]))
    try:
        found = host_memory()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert GIB // 2 < found <= GIB


def test_it_is_not_read_for_every_small_problem(monkeypatch):
    host_memory()
    monkeypatch.setattr(_memory, "_FRESH", 60.0)
    monkeypatch.setattr(_memory, "_read", lambda path: pytest.fail("read again"))
    host_memory()


@pytest.fixture
def free(monkeypatch):
    """Pretend that so many bytes are free."""
    return lambda count: monkeypatch.setattr(_memory, "host_memory", lambda: count)


def test_what_fits_passes_and_where_nothing_is_known_everything_does(free):
    free(1000)
    check_memory(1000, np.empty(0), "Fitting")
    free(None)
    check_memory(2**80, np.empty(0), "Fitting")


@over(
    lines(
        "need have said",
        (2**30 * 12, 2**30 * 3, "about 12.0 GiB of memory, but only 3.0 GiB are free"),
        (2**20 * 250, 2**19, "about 250.0 MiB of memory, but only 0.5 MiB are free"),
    )
)
def test_the_estimate_is_in_the_message(free, need, have, said):
    free(have)
    with pytest.raises(NotEnoughMemoryError) as caught:
        check_memory(need, np.empty(0), "Fitting a grid")
    assert str(caught.value).startswith(f"Fitting a grid needs {said}: use fewer rows")
    assert isinstance(caught.value, MemoryError)


def test_the_memory_of_this_machine_is_known(library):
    free = available_memory(library.asarray(np.ones((2, 2))))
    assert free is None or 2**20 < free < 2**50
    with pytest.raises(NotEnoughMemoryError):
        check_memory(2**80, library.asarray(np.ones((2, 2))), "Everything")


RNG = np.random.default_rng(0)


def kernel(n):
    A = RNG.normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


K, G, Y = kernel(160), kernel(120), RNG.normal(size=(160, 120))
F, NEW, NEW_TASKS = (RNG.random(shape) for shape in ((900, 30), (300, 160), (200, 120)))
FEW, HALF = (np.where(RNG.random(Y.shape) < share, np.nan, Y) for share in (0.01, 0.4))
GIVEN = {"kernel": "precomputed", "task_kernel": "precomputed"}
TWO, PAIRS = (Model(**GIVEN, max_iter=3) for Model in (TwoStepRidge, KroneckerRidge))


def of_grid(model, Y=Y, n=160, q=120):
    return clone(model).fit(K[:n, :n], Y[:n, :q], G[:q, :q])


def some():
    """Return the model of some labels, of which no inverse is remembered."""
    last_inverse.forget()
    return SOME


TWO_FITTED, PAIRS_FITTED = of_grid(TWO), of_grid(PAIRS)
SOME = of_grid(KroneckerRidge(**GIVEN), HALF, 42, 36)
WORK = {
    "new rows": lambda: TWO_FITTED.predict(NEW, NEW_TASKS),
    "known rows": lambda: PAIRS_FITTED.predict(),
    "two-step": lambda: of_grid(TWO),
    "Kronecker": lambda: of_grid(PAIRS),
    "features": lambda: TwoStepRidge().fit(F, F[:, :20], np.eye(20)),
    "wide features": lambda: TwoStepRidge().fit(F.T, F.T[:, :20], np.eye(20)),
    "few missing": lambda: of_grid(PAIRS, FEW),
    "A": lambda: TWO_FITTED.holdout("A"),
    "D": lambda: TWO_FITTED.holdout("D", groups=np.arange(160) // 20),
    "A of pairs": lambda: PAIRS_FITTED.holdout("A"),
    "landscape": lambda: landscape(TWO_FITTED, "ABD", alphas=[0.1, 1, 9], task_alphas=[0.1, 1, 9]),
    "deviations": lambda: PAIRS_FITTED.predict(return_std=True),
    "likelihood": lambda: PAIRS_FITTED.log_marginal_likelihood(),
    "likelihood of some": lambda: some().log_marginal_likelihood(),
    "some left out": lambda: some().holdout("A"),
    "explain": lambda: explain(TWO_FITTED, 0, 0),
    "explain some": lambda: explain(of_grid(PAIRS, FEW), 0, 0),
    "landmarks": lambda: Landmarks(50, kernel="rbf").fit_transform(F),
    "diffusion": lambda: diffusion_kernel(abs(K)),
    "tree": lambda: diffusion_kernel([(0, node) for node in range(1, 200)], range(200)),
}


def test_estimates_are_the_arrays_that_a_step_holds(each, monkeypatch):
    """Blocks of rows, which come beside them, are small here."""
    monkeypatch.setattr("dyadlearn._array.BLOCK", 2**15)
    for name in each(WORK):
        need = told(WORK[name])
        peak = taken(WORK[name])
        assert 0.75 * peak < need < 2.0 * peak
