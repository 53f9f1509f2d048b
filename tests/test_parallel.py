"""Independent pieces of work give the same on every backend of joblib, whatever becomes of the workers."""

import itertools
import os
import signal
import threading
import time
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

import problems
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    MultiwayRidge,
    TwoStepRegressor,
    TwoStepRidgeCV,
    _parallel,
    evaluate,
    landscape,
    nested_score,
    permutation_test,
)
from dyadlearn._interrupts import _CLOSED, Interrupts
from dyadlearn._parallel import collected, is_spread
from dyadlearn._progress import Progress
from dyadlearn.exceptions import GridEdgeWarning, LeverageError, SearchStoppedWarning
from dyadlearn.selection import searching

ALPHAS = [0.01, 1.0, 100.0]
KERNELS = {"kernel": "rbf", "kernel_grid": [{"gamma": 0.1}, {"gamma": 0.4}]}
pytestmark = [
    pytest.mark.usefixtures("ctrl_c"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning"),
]


class Elsewhere(ThreadingBackend):
    """A backend of threads that is treated as one of processes, as a cluster in one process is."""

    supports_sharedmem = False


joblib.register_parallel_backend("elsewhere", Elsewhere)
elsewhere = partial(joblib.parallel_config, backend="elsewhere", n_jobs=2)
in_processes = partial(joblib.parallel_config, backend="loky", n_jobs=2)


@pytest.fixture(scope="module")
def data():
    X, Y, T = problems.data(14, 9, 3, 2)
    return X, T, Y, problems.with_holes(Y, 0.3)


def nested(X, T, Y, holes):
    nested = nested_score(TwoStepRidgeCV(setting="B"), X, Y, T, cv=3, random_state=0)
    return nested.predictions, nested.alphas, nested.score


def relearned(X, T, Y, holes):
    model = LearnedKernelRidge(setting="B", n_steps=2).fit(X, Y, T)
    return (evaluate(model, "B")["neg_mean_squared_error"],)


def fitted_again(X, T, Y, holes):
    return (TwoStepRegressor(Ridge(), Ridge()).fit(X, Y, T).holdout("D"),)


def solved_again(X, T, Y, holes):
    model = KroneckerRidge().fit(X, holes, T)
    return (evaluate(model, "BD", cv=3, method="folds")["neg_mean_squared_error"],)


def solved_in_a_search(X, T, Y, holes):
    search = KroneckerRidgeCV(setting="D", alphas=ALPHAS, cv=3, method="folds", **KERNELS)
    search.fit(X, holes, T)
    return search.landscape_, search.holdout_, search.kernel_params_["gamma"]


def kernels(X, T, Y, holes):
    search = TwoStepRidgeCV(setting="B", **KERNELS).fit(X, Y, T)
    return search.landscape_, search.holdout_


def points(X, T, Y, holes):
    model = KroneckerRidge().fit(X, holes, T)
    return tuple(landscape(model, "AB", alphas=ALPHAS).values())


def permutations(X, T, Y, holes):
    search = KroneckerRidgeCV(setting="B", alphas=ALPHAS).fit(X, holes, T)
    return (permutation_test(search, "B", n_permutations=3).null,)


def permutations_of_cells(X, T, Y, holes):
    codes = np.random.default_rng(1).integers(0, 9, size=(30, 2))
    model = MultiwayRidge("row + column", entities={"row": X[:9]})
    model.fit({"row": codes[:, 0], "column": codes[:, 1]}, codes.sum(axis=1))
    return (permutation_test(model, new="row", n_permutations=3).null,)


ANSWERS = [nested, relearned, fitted_again, solved_again, solved_in_a_search, kernels, points]
ANSWERS += [permutations, permutations_of_cells]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that grows with each call of a backend in this process."""
    called = []
    own = _parallel._call
    monkeypatch.setattr(
        _parallel, "_call", lambda *arguments: called.append(arguments) or own(*arguments)
    )
    return called


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_are_the_same_elsewhere(data, calls, answer):
    expected = answer(*data)
    assert calls == []
    with elsewhere():
        found = answer(*data)
    assert len(calls) > 1
    assert_same(found, expected)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"backend": "threading", "n_jobs": 2},
        {"backend": "loky"},
        {"backend": "loky", "n_jobs": 1},
    ],
)
def test_without_workers_everything_stays_here(config):
    here = threading.get_ident()
    with joblib.parallel_config(**config):
        assert not is_spread()
        # A thread has no pickle.
        found = collected(lambda item: (item, threading.current_thread()), [3, 4])
    assert [item for item, _ in found] == [3, 4]
    assert {thread.ident for _, thread in found} == {here}


def test_one_item_stays_here_and_inner_loops_stay_in_their_worker():
    def inner(item):
        return is_spread(), threading.get_ident()

    with elsewhere():
        assert collected(inner, [0]) == [(True, threading.get_ident())]
        found = collected(inner, [0, 1])
    assert {spread_again for spread_again, _ in found} == {False}
    assert threading.get_ident() not in {thread for _, thread in found}


def test_calls_of_one_process_run_one_at_a_time():
    """They change what belongs to the process, such as the warning filters."""
    running = []
    most = []

    def work(item):
        running.append(item)
        most.append(len(running))
        time.sleep(0.01)
        running.remove(item)

    with elsewhere():
        collected(work, range(6))
    assert most == [1] * 6


def test_results_come_in_order_and_progress_counts_them_as_they_are_finished(capsys):
    seen = []
    with elsewhere(), Progress(3, "Work", True) as bar:
        found = collected(lambda item: item * 2, [3, 1, 2], lambda: (bar.advance(), seen.append(1)))
    assert (found, len(seen)) == ([6, 2, 4], 3)
    assert "Work: 3 of 3" in capsys.readouterr().err


def test_workers_show_no_progress(data, capsys):
    X, T, Y, _ = data
    search = TwoStepRidgeCV(setting="B", progress=True)
    with elsewhere():
        nested_score(search, X, Y, T, cv=3, random_state=0)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["Nested folds: 3 of 3"]


def test_warnings_of_workers_come_once_from_the_line_of_the_caller():
    def work(item):
        warnings.warn("The same.", UserWarning, stacklevel=2)
        warnings.warn(f"Number {item}.", RuntimeWarning, stacklevel=2)

    with elsewhere(), pytest.warns() as caught:
        collected(work, [1, 2])
    assert {record.filename for record in caught} == {__file__}
    assert sorted(str(record.message) for record in caught) == [
        "Number 1.",
        "Number 2.",
        "The same.",
    ]
    with elsewhere(), pytest.raises(UserWarning, match="The same"):
        collected(work, [1, 2])  # warnings are errors here


@pytest.mark.filterwarnings("default::dyadlearn.exceptions.GridEdgeWarning")
def test_warnings_of_nested_folds_are_those_of_this_process(data):
    X, T, Y, _ = data
    search = TwoStepRidgeCV(setting="B", alphas=[1e3, 1e4], task_alphas=[1.0])
    found = []
    for backend in (joblib.parallel_config, elsewhere):
        with backend(), pytest.warns(GridEdgeWarning, match="In 3 of 3 folds") as caught:
            nested_score(search, X, Y, T, cv=3, random_state=0)
        found.append([(str(record.message), record.filename) for record in caught])
    assert found[0] == found[1]


def test_errors_of_a_piece_are_raised_and_end_the_others():
    done = []

    def work(item):
        if item == 1:
            raise LeverageError("One is too many.")
        done.append(item)
        time.sleep(0.02)

    with elsewhere(), pytest.raises(LeverageError, match="One is too many"):
        collected(work, range(100))
    assert len(done) < 20


def test_a_search_leaves_out_kernels_that_interpolate(data, calls):
    X, T, Y, _ = data
    kernels = [{"gamma": 1e6}, {"gamma": 0.1}]
    search = TwoStepRidgeCV(
        setting="B", alphas=[0.0, 1.0], task_alphas=[1.0], kernel="rbf", kernel_grid=kernels
    )
    expected = search.fit(X, Y, T).landscape_
    with elsewhere():
        assert_array_equal(search.fit(X, Y, T).landscape_, expected)


# Interrupts and lost workers -------------------------------------------------------------------------------


def interrupting(seconds):
    """Interrupt this process a little later, as Ctrl-C does."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


def test_an_interrupt_is_raised_and_ends_the_work():
    done = []

    def work(item):
        done.append(item)
        time.sleep(0.05)

    with elsewhere():
        interrupting(0.2)
        with pytest.raises(KeyboardInterrupt):
            collected(work, range(200))
    assert 0 < len(done) < 50


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.BaselineWarning")
def test_an_interrupted_search_keeps_its_scores(data, monkeypatch):
    X, T, Y, _ = data
    own = searching._scores_of
    keep = Interrupts.keep
    kept = threading.Event()
    numbers = itertools.count(1)

    def keep_and_tell(interrupts):
        keep(interrupts)
        if interrupts is not _CLOSED:
            kept.set()

    def interrupted(*arguments):
        # Threads share the counter, and one of them alone has the first number.
        if kept.is_set() and next(numbers) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        return own(*arguments)

    monkeypatch.setattr(Interrupts, "keep", keep_and_tell)
    monkeypatch.setattr(searching, "_scores_of", interrupted)
    kernels = [{"gamma": gamma} for gamma in np.linspace(0.1, 1.0, 30)]
    search = TwoStepRidgeCV(setting="B", kernel="rbf", kernel_grid=kernels, progress=False)
    with elsewhere(), pytest.warns(SearchStoppedWarning, match="was interrupted"):
        search.fit(X, Y, T)
    is_scored = np.isfinite(search.landscape_).any(axis=(1, 2, 3))
    assert 0 < is_scored.sum() < 30
    assert search.best_score_ == np.nanmax(search.landscape_)
    assert search.n_evaluated_ == is_scored.sum() * search.landscape_[0].size


def killing(main, marker=None):
    """Return a function that kills its worker process; with a file as marker, only the first time."""

    def work(item):
        if os.getpid() != main and not (marker and os.path.exists(marker)):
            if marker:
                with open(marker, "x"):
                    pass
            os.kill(os.getpid(), signal.SIGKILL)
        return item * 2

    return work


def sleeping(folder):
    """Return a function that writes the number of its process to a folder, and sleeps long."""

    def work(item):
        with open(f"{folder}/{os.getpid()}", "w"):
            pass
        time.sleep(60)

    return work


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{number}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_answers_are_the_same_in_processes(data):
    expected = [answer(*data) for answer in (nested, solved_in_a_search)]
    with in_processes():
        assert os.getpid() not in collected(lambda item: os.getpid(), [1, 2])
        found = [answer(*data) for answer in (nested, solved_in_a_search)]
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_a_killed_process_leaves_the_model_as_it_was(data):
    X, T, Y, _ = data
    work = killing(os.getpid())

    def score(labels, predictions):
        work(0)
        return -float(np.mean((labels - predictions) ** 2))

    search = TwoStepRidgeCV(setting="B", scoring=score, **KERNELS)
    with in_processes(), pytest.raises(RuntimeError, match="A worker process ended before"):
        search.fit(X, Y, T)
    assert not hasattr(search, "fitted_")


def test_an_interrupt_ends_the_processes(tmp_path):
    def press():
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with in_processes(), pytest.raises(KeyboardInterrupt):
        collected(sleeping(str(tmp_path)), range(20))
    numbers = [int(path.name) for path in tmp_path.iterdir()]
    end = time.monotonic() + 10
    while any(map(is_alive, numbers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert numbers
    assert not any(map(is_alive, numbers))


@pytest.fixture(scope="module")
def cluster():
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    options = {
        "processes": True,
        "n_workers": 1,
        "threads_per_worker": 2,
        "dashboard_address": ":0",
    }
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(**options) as workers,
        distributed.Client(workers),
    ):
        yield workers


def test_answers_are_the_same_on_a_cluster(data, cluster):
    expected = nested(*data)
    with joblib.parallel_config(backend="dask"):
        assert os.getpid() not in collected(lambda item: os.getpid(), [1, 2])
        assert_same(nested(*data), expected)


def test_a_cluster_repeats_the_work_of_a_killed_worker(cluster, tmp_path):
    once = killing(os.getpid(), str(tmp_path / "killed"))
    with joblib.parallel_config(backend="dask"):
        assert collected(once, range(5)) == [0, 2, 4, 6, 8]
    assert (tmp_path / "killed").exists()


def test_work_that_kills_each_worker_of_a_cluster_gives_one_sentence():
    distributed = pytest.importorskip("distributed")

    def work(item):
        raise distributed.KilledWorker("work", None, 3)

    with elsewhere(), pytest.raises(RuntimeError, match="A worker process ended before"):
        collected(work, range(2))
